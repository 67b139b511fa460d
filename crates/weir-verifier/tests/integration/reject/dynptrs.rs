//! Dynptrs: what is refused, and that the kernel refuses it too.

use testkit::kernel;

use crate::reject::{object, refuses};

/// A dynptr of r2 bytes at r10-16, whose reservation answered r0.
const RESERVED: &str = "r6 = *(u64 *)(r1 + 0x70); r1 = map[@ring] ll; r2 = r6; r3 = 0; r4 = r10; r4 += -16; call ringbuf_reserve_dynptr";
const SUBMIT: &str = "r1 = r10; r1 += -16; r2 = 0; call ringbuf_submit_dynptr";
/// r0 = 8 bytes of it, or null.
const DATA: &str = "r1 = r10; r1 += -16; r2 = 0; r3 = 8; call dynptr_data";

/// Refused by us with `part` in the message, and by the kernel.
#[track_caller]
fn both_refuse(text: &str, part: &str) {
    refuses(RESERVED, text, part);
    if let Err(reason) = kernel::available() {
        return testkit::skip::skip("verifier::kernel", reason);
    }
    assert!(kernel::load(&object(RESERVED, text)).is_err(), "the kernel accepts {text}");
}

#[test]
fn a_dynptr_s_record_is_given_back_once() {
    both_refuse("r0 = 0; exit", "neither submitted nor discarded");
    both_refuse(
        "if r0 != 0 goto +3; r1 = r10; r1 += -16; r2 = 0; r0 = 0; exit",
        "neither submitted nor discarded",
    );
    both_refuse(&format!("{SUBMIT}; {SUBMIT}; r0 = 0; exit"), "there is no dynptr");
    both_refuse(&format!("{SUBMIT}; {DATA}; r0 = 0; exit"), "there is no dynptr");
    both_refuse(
        "r1 = r10; r1 += -16; r2 = 0; call ringbuf_submit; r0 = 0; exit",
        "the start of a ring record",
    );
    both_refuse(
        &format!("{DATA}; if r0 == 0 goto +3; r1 = r0; r2 = 0; call ringbuf_submit; r0 = 0; exit"),
        "the start of a ring record",
    );
}

#[test]
fn a_dynptr_is_for_helpers_alone() {
    let end = format!("{SUBMIT}; r0 = 0; exit");
    both_refuse(&format!("r7 = *(u64 *)(r10 - 16); {end}"), "part of a dynptr");
    both_refuse(&format!("r7 = *(u32 *)(r10 - 12); {end}"), "part of a dynptr");
    both_refuse(&format!("*(u64 *)(r10 - 8) = 0; {end}"), "there is no dynptr");
    both_refuse(&format!("*(u8 *)(r10 - 16) = 0; {end}"), "there is no dynptr");
    both_refuse(
        &format!("r1 = map[@ring] ll; r2 = r10; r2 += -16; r3 = 16; r4 = 0; call ringbuf_output; {end}"),
        "never written or is part of a pointer",
    );
    both_refuse(&format!("r1 = r10; r1 += -16; r2 = 16; call get_current_comm; {end}"), "there is no dynptr");
    both_refuse("r1 = r10; r1 += -12; r2 = 0; call ringbuf_submit_dynptr; r0 = 0; exit", "multiple of 8");
    both_refuse(
        "r1 = r10; r1 += -24; r2 = 0; call ringbuf_submit_dynptr; r0 = 0; exit",
        "there is no dynptr",
    );
    both_refuse("r1 = r10; r1 += -8; r2 = 0; call ringbuf_submit_dynptr; r0 = 0; exit", "outside the stack");
    both_refuse(
        &format!(
            "r1 = map[@ring] ll; r2 = 8; r3 = 0; r4 = r10; r4 += -16; call ringbuf_reserve_dynptr; {end}"
        ),
        "neither submitted nor discarded",
    );
}

/// The kernel takes what processors bear.
#[test]
fn a_part_of_a_dynptr_begins_anywhere() {
    let end = format!("{SUBMIT}; r0 = 0; exit");
    for access in [
        "lock *(u64 *)(r0 + 0) += r1",
        "lock *(u32 *)(r0 + 4) += r1",
        "r1 = load_acquire((u64 *)(r0 + 0))",
        "store_release((u16 *)(r0 + 0), w1)",
    ] {
        let text = format!("{DATA}; if r0 == 0 goto +2; r1 = 1; {access}; {end}");
        refuses(RESERVED, &text, "which may not be aligned");
    }
}

#[test]
fn what_is_reached_of_a_dynptr_is_checked() {
    let end = format!("{SUBMIT}; r0 = 0; exit");
    both_refuse(&format!("{DATA}; *(u64 *)(r0 + 0) = 1; {end}"), "must be compared with 0 first");
    both_refuse(
        &format!("{DATA}; if r0 == 0 goto +1; *(u64 *)(r0 + 1) = 1; {end}"),
        "not known to be inside",
    );
    both_refuse(
        &format!("r1 = r10; r1 += -16; r2 = 0; r3 = r6; call dynptr_data; {end}"),
        "it must be a constant",
    );
    both_refuse(
        &format!("{DATA}; r7 = r0; {SUBMIT}; r0 = 0; if r7 == 0 goto +1; *(u64 *)(r7 + 0) = 1; exit"),
        "was never written",
    );
    both_refuse(
        &format!("{DATA}; if r0 == 0 goto +8; r7 = r0; {SUBMIT}; *(u64 *)(r7 + 0) = 1; r0 = 0; exit; {end}"),
        "was never written",
    );
    both_refuse(
        &format!(
            "r1 = r10; r1 += -32; r2 = 24; r3 = r10; r3 += -16; r4 = 0; r5 = 0; call dynptr_read; {end}"
        ),
        "there is no dynptr",
    );
}
