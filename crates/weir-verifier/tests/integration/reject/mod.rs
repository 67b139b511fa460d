//! Hostile programs: each line is one, with a part of the message that it is refused with.

mod arguments;
mod callbacks;
mod dynptrs;
mod encoding;
mod functions;
mod maps;
mod memory;
mod paths;

use weir_ebpf::{Insn, Object, asm};
use weir_verifier::{Limits, Rejection, RejectionKind, verify};

const MAPS: &str = "
map @hash hash key 8 value 16 entries 64
map @array array key 4 value 16 entries 4
map @percpu percpu_hash key 8 value 8 entries 64
map @lanes percpu_array key 4 value 16 entries 2
map @ring ringbuf key 0 value 0 entries 4096
map @outer array_of_maps key 4 value 4 entries 8 inner 0
map @perf perf_event_array key 4 value 4 entries 2
map @stacks stack_trace key 4 value 80 entries 16
map @groups cgroup_array key 4 value 4 entries 1
map @queue queue key 0 value 16 entries 4
map @stack stack key 0 value 8 entries 4
map @filter bloom_filter key 0 value 8 entries 4
map @trie lpm_trie key 8 value 16 entries 4 flags 1
map @jumps prog_array key 4 value 4 entries 3
map @more prog_array key 4 value 4 entries 3
program \"p\" probe
";

/// What a program begins with that has a number nobody knows in r6.
const UNKNOWN: &str = "r6 = *(u64 *)(r1 + 0x70)";
/// r0 = the value of @hash for a key of 0, or null.
const LOOKUP: &str = "*(u64 *)(r10 - 8) = 0; r2 = r10; r2 += -8; r1 = map[@hash] ll; call map_lookup_elem";
/// r0 = the 16 bytes of @hash's value.
const FOUND: &str = "*(u64 *)(r10 - 8) = 0; r2 = r10; r2 += -8; r1 = map[@hash] ll; call map_lookup_elem
    if r0 != 0 goto +1; exit";
/// r0 = the 8 bytes of the per-CPU map's value.
const LANE: &str = "*(u64 *)(r10 - 8) = 0; r2 = r10; r2 += -8; r1 = map[@percpu] ll; call map_lookup_elem
    if r0 != 0 goto +1; exit";
/// r0 = a record of 32 bytes, or null.
const RESERVE: &str = "r1 = map[@ring] ll; r2 = 32; r3 = 0; call ringbuf_reserve";
/// r6 = r0 = a record of 32 bytes.
const RECORD: &str =
    "r1 = map[@ring] ll; r2 = 32; r3 = 0; call ringbuf_reserve; if r0 != 0 goto +1; exit; r6 = r0";

fn object(before: &str, text: &str) -> Object {
    let text = format!("{MAPS}{before}\n{text}").replace(';', "\n");
    asm::parse(&text).unwrap_or_else(|error| panic!("{text}: {error}"))
}

/// What is read of the stack must have been written: `unwritten.rs` has what is accepted otherwise.
fn limits() -> Limits {
    Limits { allow_unwritten_stack: false, ..Limits::default() }
}

fn rejection(object: &Object) -> Rejection {
    match verify(&object.programs[0], &object.maps, &limits()) {
        Err(rejection) => rejection,
        Ok(_) => panic!("accepted:\n{}", asm::print(object)),
    }
}

/// `before`, then `text` (`;` ends a line), is refused as `kind` with `part` in the message.
fn check(kind: RejectionKind, before: &str, text: &str, part: &str) {
    let object = object(before, text);
    let rejection = rejection(&object);
    let shown = rejection.to_string();
    assert!(shown.contains(part), "`{part}` is not in: {shown}\n{}", asm::print(&object));
    assert_eq!(rejection.kind, kind, "{shown}");
    assert!(rejection.at.is_none_or(|at| at < object.programs[0].insns.len()), "{shown}");
}

fn refuses(before: &str, text: &str, part: &str) {
    check(RejectionKind::Unsafe, before, text, part);
}

fn does_not_run(before: &str, text: &str, part: &str) {
    check(RejectionKind::Unsupported, before, text, part);
}

/// One slot, then `exit`.
fn refuses_slot(slot: Insn, part: &str) {
    let mut object = object("r0 = 0", "exit");
    object.programs[0].insns.insert(1, slot);
    let rejection = rejection(&object);
    assert!(rejection.to_string().contains(part), "{rejection}");
    assert_eq!(rejection.kind, RejectionKind::Unsafe, "{rejection}");
    assert_eq!(rejection.at, Some(1), "{rejection}");
}
