//! Hashes with keys of every size: the functions that code calls for some sizes give what the interpreter's give.

use crate::engines;

use std::fmt::Write as _;

use engines::{abis_for, only, run_interpreter, run_jit};
use weir_jit::Flags;
use weir_rt::executable::{Frame, LanePolicy, RelocKind, RuntimeFunction, Symbol};

const KINDS: [&str; 4] = ["hash", "percpu_hash", "lru_hash", "lru_percpu_hash"];

/// Stores the key `number` of so many bytes at r10 - 64; its last byte is the number, too.
fn key(bytes: u32, number: u32) -> String {
    let mut text = String::new();
    for at in 0..bytes {
        let byte = if at == 0 || at + 1 == bytes { number } else { 0xa5 };
        writeln!(text, "*(u8 *)(r10 - {}) = {byte}", 64 - at).expect("a string");
    }
    text
}

/// Inserts, looks up, changes and deletes; r0 sums what was found and answered.
fn program(kind: &str, key_bytes: u32, value_bytes: u32) -> String {
    let mut text =
        format!("map @m {kind} key {key_bytes} value {value_bytes} entries 8\nprogram \"p\" probe\nr6 = 0\n");
    for at in (8..=value_bytes.next_multiple_of(8)).step_by(8) {
        writeln!(text, "*(u64 *)(r10 - {}) = {at}", 64 + at).expect("a string");
    }
    let value_at = 64 + value_bytes.next_multiple_of(8);
    let mut label = 0;
    let mut call = |name: &str, number: u32, flags: u32| {
        label += 1;
        let arguments = format!(
            "{}r2 = r10\nr2 += -64\nr3 = r10\nr3 += -{value_at}\nr4 = {flags}\nr1 = map[@m] ll\ncall {name}\n",
            key(key_bytes, number)
        );
        let result = match name {
            "map_lookup_elem" => format!(
                "if r0 == 0 goto n{label}\nr1 = *(u8 *)(r0 + 0)\nr6 += r1\nr1 += 7\n*(u8 *)(r0 + 0) = r1\nr6 *= 3\nn{label}:\n"
            ),
            _ => "r6 += r0\nr6 *= 5\n".to_owned(),
        };
        text.push_str(&arguments);
        text.push_str(&result);
    };
    for number in [1, 2, 3] {
        call("map_lookup_elem", number, 0);
        call("map_update_elem", number, 1);
        call("map_update_elem", number, 1);
        call("map_lookup_elem", number, 0);
    }
    call("map_update_elem", 2, 2);
    call("map_update_elem", 9, 2);
    call("map_update_elem", 9, 4);
    call("map_delete_elem", 1, 0);
    call("map_delete_elem", 1, 0);
    for number in [1, 2, 3, 4] {
        call("map_lookup_elem", number, 0);
    }
    text + "r0 = r6\nexit\n"
}

#[test]
fn keys_of_every_size_agree() {
    testkit::cpu::stay_on_this();
    for kind in KINDS {
        for key_bytes in (1..=18).chain([24, 32, 33, 40, 64]) {
            for value_bytes in [1, 8, 24] {
                let text = program(kind, key_bytes, value_bytes);
                let (_, program) = only(&text);
                let expected = run_interpreter(&program, Frame::default());
                assert_ne!(expected.r0, 0);
                for abi in abis_for(&program) {
                    let got = run_jit(&program, &abi, Flags::default(), Frame::default());
                    assert_eq!(got, expected, "{abi:?}\n{text}");
                }
            }
        }
    }
}

#[test]
fn the_function_is_chosen_by_kind_and_size() {
    use RuntimeFunction as Function;
    let called = |kind: &str, key_bytes: u32| -> Vec<Symbol> {
        let (_, program) = only(&program(kind, key_bytes, 8));
        let claimed = engines::claimed_abi(false);
        let abi = if program.needs_lane() { claimed } else { engines::shared_abi(false) };
        assert_eq!(program.needs_lane(), matches!(abi.lanes, LanePolicy::Claimed { .. }));
        let executable = engines::compiled(&program, &abi, Flags::default());
        let calls = executable.relocations.iter().filter(|relocation| relocation.kind == RelocKind::Rel32);
        let mut symbols: Vec<Symbol> = calls.map(|relocation| relocation.symbol).collect();
        symbols.dedup();
        symbols.truncate(3);
        symbols
    };
    for kind in KINDS {
        let check = |key_bytes: u32, look_up: Function, update: Function| {
            let symbols = [look_up, update, look_up].map(Symbol::Runtime);
            assert_eq!(called(kind, key_bytes), symbols, "{kind} {key_bytes}");
        };
        check(4, Function::HashLookup4, Function::HashUpdate4);
        check(8, Function::HashLookup8, Function::HashUpdate8);
        check(16, Function::HashLookup16, Function::HashUpdate);
        check(12, Function::HashLookup, Function::HashUpdate);
    }
}
