//! Programs that read stack which they never wrote: accepted as in the kernel, with the fact that engines must zero
//! their frames; refused where that is not allowed.

use weir_ebpf::{Object, asm};
use weir_verifier::{Limits, VerifiedProgram, verify};

const MAPS: &str = "
map @hash hash key 8 value 16 entries 64
map @ring ringbuf key 0 value 0 entries 4096
program \"p\" probe
";

/// Programs that read what they never wrote, and the kernel's verifier lets them.
#[rustfmt::skip]
const READS: &[&str] = &[
    "r0 = *(u64 *)(r10 - 8); exit",
    "r0 = *(u8 *)(r10 - 511); exit",
    "*(u32 *)(r10 - 8) = 0; r0 = *(u64 *)(r10 - 8); exit",
    "r6 = *(u64 *)(r1 + 0x70); if r6 == 0 goto +1; *(u64 *)(r10 - 8) = 1; r0 = *(u64 *)(r10 - 8); exit",
    "r6 = 1; lock *(u64 *)(r10 - 8) += r6; r0 = 0; exit",
    "r6 = *(u64 *)(r1 + 0x70); r6 &= 15; r2 = r10; r2 += -16; r2 += r6; *(u8 *)(r2 + 0) = 1; r0 = *(u8 *)(r2 + 0); exit",
    "r2 = r10; r2 += -8; r1 = map[@hash] ll; call map_lookup_elem; r0 = 0; exit",
    "r2 = r10; r2 += -64; r3 = 64; r4 = 0; r1 = map[@ring] ll; call ringbuf_output; r0 = 0; exit",
    "r1 = r10; r1 += -64; r2 = 64; r3 = 0; call probe_read_user_str; r0 = *(u64 *)(r10 - 8); exit",
    "call f; exit; f: r0 = *(u64 *)(r10 - 8); exit",
    "r1 = r10; r1 += -8; call f; r0 = *(u64 *)(r10 - 8); exit; f: r0 = *(u32 *)(r1 + 4); exit",
    "r6 = r1; *(u64 *)(r10 - 8) = r6; r1 = 1; call f; exit; f: r0 = *(u64 *)(r10 - 8); exit",
    "r1 = 3; r2 = f ll; r3 = 0; r4 = 0; call loop; exit; f: r0 = *(u64 *)(r10 - 8); *(u64 *)(r10 - 8) = r10; r0 &= 1; exit",
    "r0 = 0; here: may_goto +3; r1 = *(u64 *)(r10 - 8); r0 += r1; goto here; exit",
];

/// What stays refused: pointers read as numbers, and registers that hold nothing.
#[rustfmt::skip]
const REFUSED: &[&str] = &[
    "*(u64 *)(r10 - 8) = r10; r0 = *(u32 *)(r10 - 8); exit",
    "*(u64 *)(r10 - 8) = r10; *(u8 *)(r10 - 8) = 0; r0 = *(u64 *)(r10 - 8); exit",
    "r0 = *(u64 *)(r10 - 16); *(u64 *)(r10 - 8) = r1; r0 = *(u8 *)(r10 - 1); exit",
    "*(u64 *)(r10 - 8) = r1; r2 = r10; r2 += -16; r3 = 16; r4 = 0; r1 = map[@ring] ll; call ringbuf_output; r0 = 0; exit",
    "r6 = *(u64 *)(r1 + 0x70); if r6 == 0 goto +1; *(u64 *)(r10 - 8) = r10; r0 = *(u64 *)(r10 - 8); exit",
    "r6 = *(u64 *)(r1 + 0x70); r2 = 0; if r6 == 0 goto +1; *(u64 *)(r10 - 8) = r10; r0 = *(u8 *)(r10 - 8); r0 += r2; exit",
    "r0 = 0; here: may_goto +4; r1 = *(u32 *)(r10 - 8); r0 += r1; *(u64 *)(r10 - 8) = r10; goto here; exit",
    "r2 = r10; r2 += -8; r1 = 3; r3 = r2; r2 = f ll; r4 = 0; call loop; r0 = 0; exit; f: r0 = *(u32 *)(r2 + 0); *(u64 *)(r2 + 0) = r2; r0 = 0; exit",
    "r6 = *(u64 *)(r1 + 0x70); r6 &= 8; r2 = r10; r2 += -16; r2 += r6; *(u64 *)(r10 - 8) = r10; r0 = *(u64 *)(r2 + 0); exit",
    "r0 = *(u64 *)(r10 - 520); exit",
    "r0 = *(u64 *)(r10 - 8); r0 = r7; exit",
    "r1 = *(u64 *)(r10 - 8); r0 = *(u64 *)(r1 + 0); exit",
];

fn object(text: &str) -> Object {
    let text = format!("{MAPS}{text}").replace(';', "\n");
    asm::parse(&text).unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn verdict(text: &str, allow_unwritten_stack: bool) -> Result<VerifiedProgram, String> {
    let object = object(text);
    let limits = Limits { allow_unwritten_stack, ..Limits::default() };
    verify(&object.programs[0], &object.maps, &limits).map_err(|rejection| rejection.to_string())
}

#[test]
fn stack_that_was_never_written_is_read_from_zeroed_frames() {
    for text in READS {
        let verified = verdict(text, true).unwrap_or_else(|rejection| panic!("{text}: {rejection}"));
        assert!(verified.zeroes_frames(), "{text}");
    }
}

#[test]
fn stack_that_was_never_written_is_refused_where_frames_are_not_zeroed() {
    for text in READS {
        let rejection = verdict(text, false).expect_err(text);
        assert!(rejection.contains("never written"), "{text}: {rejection}");
    }
}

#[test]
fn pointers_and_nothing_are_no_numbers_in_zeroed_frames_either() {
    for text in REFUSED {
        assert!(verdict(text, true).is_err(), "accepted: {text}");
    }
}

/// Zeroing costs time: it is not asked for in vain.
#[test]
fn programs_that_read_what_they_wrote_leave_frames_as_they_are() {
    for text in [
        "*(u64 *)(r10 - 8) = 0; r0 = *(u64 *)(r10 - 8); exit",
        "r1 = r10; r1 += -16; r2 = 16; call get_current_comm; r0 = *(u64 *)(r10 - 8); exit",
    ] {
        assert!(!verdict(text, true).expect(text).zeroes_frames(), "{text}");
    }
}

#[test]
fn the_kernel_accepts_such_programs_of_root() {
    if let Err(reason) = testkit::kernel::available() {
        return testkit::skip::skip("weir-verifier::kernel_verdicts", reason);
    }
    for text in READS {
        if let Err(error) = testkit::kernel::load(&object(text)) {
            panic!("{text}: {error}");
        }
    }
}
