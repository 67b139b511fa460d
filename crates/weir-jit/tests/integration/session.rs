//! What a program is told of the session that its probe is of: in the interpreter, and the JIT for every kind of site.

use crate::engines;

use engines::{abis, compiled, only, segment_for};
use weir_interp::Environment;
use weir_jit::Flags;
use weir_rt::executable::Frame;
use weir_rt::local::LocalProgram;

/// r0, and what is left for the other run of the session, in every engine.
fn check(text: &str, frame: Frame, r0: u64, cookie: u64) {
    let (object, program) = only(&format!("program \"p\" probe\n{}\n", text.replace(';', "\n")));
    let segment = engines::segment(&object.maps, engines::cpus());
    let mut after = frame;
    let result = weir_interp::run(&program, &Environment { segment: &segment }, &mut after);
    assert_eq!((result, after.session_cookie), (Ok(r0), cookie), "{text}");
    for abi in abis() {
        for flags in [Flags::Change, Flags::KeepEach, Flags::KeepIfPossible] {
            let executable = compiled(&program, &abi, flags);
            assert!(executable.uses_session, "{text}");
            let local = LocalProgram::load(&executable, &segment_for(&object.maps, &abi)).expect("code fits");
            let mut after = frame;
            let result = local.run(&mut after);
            let code = || weir_jit::disassemble(&executable, &object);
            assert_eq!((result, after.session_cookie), (r0, cookie), "{text} {abi:?}\n{}", code());
        }
    }
}

fn frame(is_return: u16, session_cookie: u64) -> Frame {
    let mut frame = Frame { is_return, session_cookie, cookie: 77, ..Frame::default() };
    frame.regs.fill(0x55);
    frame
}

#[test]
fn entry_and_return_are_told_apart() {
    check("call bpf_session_is_return; exit", frame(0, 9), 0, 9);
    check("call bpf_session_is_return; exit", frame(1, 9), 1, 9);
    let text = "call bpf_session_is_return; if r0 == 0 goto +2; r0 = 5; exit; r0 = 6; exit";
    check(text, frame(1, 9), 5, 9);
    check(text, frame(0, 9), 6, 9);
}

#[test]
fn the_cookie_is_kept_for_the_other_run() {
    check(
        "call bpf_session_cookie; r0 = *(u64 *)(r0 + 0); exit",
        frame(0, 0x1234_5678_9abc),
        0x1234_5678_9abc,
        0x1234_5678_9abc,
    );
    check("call bpf_session_cookie; r1 = 7; *(u64 *)(r0 + 0) = r1; r0 = 0; exit", frame(0, 9), 0, 7);
    check(
        "call bpf_session_cookie; *(u8 *)(r0 + 7) = 1; r0 = *(u32 *)(r0 + 4); exit",
        frame(0, 9),
        0x100_0000,
        0x100_0000_0000_0009,
    );
    check(
        "call bpf_session_cookie; r6 = r0; r1 = 3; r1 = atomic_fetch_add((u64 *)(r6 + 0), r1); r0 = r1; exit",
        frame(1, 9),
        9,
        12,
    );
    check(
        "call bpf_session_cookie; r6 = r0; call bpf_session_is_return; if r0 != 0 goto +3; *(u64 *)(r6 + 0) = 42; r0 = 0
         exit; r0 = *(u64 *)(r6 + 0); exit",
        frame(0, 0), 0, 42,
    );
}

#[test]
fn helpers_reach_the_cookie() {
    let text = "call bpf_session_cookie; r1 = r0; r2 = 8; call get_current_comm; call bpf_session_cookie; r0 = *(u8 *)(r0 + 7); exit";
    let comm = std::fs::read("/proc/thread-self/comm").expect("has a name");
    let mut bytes = [0; 8];
    let count = comm.len().min(8) - 1;
    bytes[..count].copy_from_slice(&comm[..count]);
    check(text, frame(0, u64::MAX), 0, u64::from_le_bytes(bytes));
}

#[test]
fn a_program_that_asks_for_nothing_needs_nothing() {
    let (_, program) =
        only("program \"p\" probe\nr0 = 0\nif r0 == 0 goto +1\ncall bpf_session_is_return\nexit\n");
    assert!(!compiled(&program, &engines::shared_abi(false), Flags::Change).uses_session);
}
