//! Dynptrs in interpreter, JIT and kernel: the same answers, and the same bytes.

use crate::calls::{EINVAL, check, in_weir, object};

/// A dynptr at r10-16 of a record of so many bytes; r7 is what the reservation answered.
fn reserve_dynptr(bytes: &str, flags: u32) -> String {
    format!(
        "r1 = map[@ring] ll; r2 = {bytes} ll; r3 = {flags}; r4 = r10; r4 += -16; call ringbuf_reserve_dynptr; r7 = r0"
    )
}

#[test]
fn dynptrs_answer_as_the_kernel_s_do() {
    let submit = "r1 = r10; r1 += -16; r2 = 0; call ringbuf_submit_dynptr";
    let discard = "r1 = r10; r1 += -16; r2 = 0; call ringbuf_discard_dynptr";
    let (e2big, einval) = (-7, EINVAL);
    for (bytes, flags, answer) in [
        ("24", 0, 0),
        ("0", 0, 0),
        ("0x100000018", 0, 0),
        ("24", 1, einval),
        ("4080", 0, 0),
        ("4089", 0, einval),
        ("0xffffff", 0, einval),
        ("0x1000000", 0, e2big),
    ] {
        let reserve = reserve_dynptr(bytes, flags);
        check(&format!("{reserve}; {submit}; r0 = r7"), answer);
        check(&format!("{reserve}; {discard}; r0 = r7"), answer);
    }
    let write = |offset: &str, bytes: u32, flags: u32| {
        format!(
            "*(u64 *)(r10 - 24) = 0x1234567; r1 = r10; r1 += -16; r2 = {offset} ll; r3 = r10; r3 += -24; r4 = {bytes};
             r5 = {flags}; call dynptr_write; r8 = r0"
        )
    };
    let read = |offset: &str, bytes: u32, flags: u32| {
        format!(
            "*(u64 *)(r10 - 32) = -1; r1 = r10; r1 += -32; r2 = {bytes}; r3 = r10; r3 += -16; r4 = {offset} ll; r5 = {flags};
             call dynptr_read; r8 = r0"
        )
    };
    let reserve = reserve_dynptr("24", 0);
    for (offset, bytes, flags, answer) in [
        ("0", 8, 0, 0),
        ("16", 8, 0, 0),
        ("0x100000010", 8, 0, 0),
        ("17", 8, 0, e2big),
        ("24", 0, 0, 0),
        ("25", 0, 0, e2big),
        ("0xffffffff", 1, 0, e2big),
        ("0", 8, 1, einval),
    ] {
        check(&format!("{reserve}; {}; {submit}; r0 = r8", write(offset, bytes, flags)), answer);
        check(&format!("{reserve}; {}; {submit}; r0 = r8", read(offset, bytes, flags)), answer);
    }
    // What was written at one place is read at another that overlaps it; the rest are the zeros of a new record.
    let both =
        format!("{reserve}; {}; {}; {discard}; r0 = *(u64 *)(r10 - 32)", write("3", 8, 0), read("5", 8, 0));
    check(&both, 0x1234567 >> 16);
    // Where the dynptr has not what is asked for, there are zeros: nothing of what stood there.
    let failed = format!("{reserve}; {}; {discard}; r0 = *(u64 *)(r10 - 32)", read("17", 8, 0));
    for left in in_weir(&object(&failed), &[]) {
        assert_eq!(left.0, 0, "{failed}");
    }
    // A part is copied onto itself, one byte on, or back.
    for (to, from, expected) in [(1, 0, 0x2345_6767), (0, 1, 0x0001_2345)] {
        check(
            &format!(
                "{reserve}; {}; r1 = r10; r1 += -16; r2 = 0; r3 = 16; call dynptr_data; r6 = r0; r8 = -1; if r6 == 0 goto +9
                 r1 = r6; r1 += {to}; r2 = 8; r3 = r10; r3 += -16; r4 = {from}; r5 = 0; call dynptr_read
                 r8 = *(u32 *)(r6 + 0); {submit}; r0 = r8",
                write("0", 8, 0)
            ),
            expected,
        );
        check(
            &format!(
                "{reserve}; {}; r1 = r10; r1 += -16; r2 = 0; r3 = 16; call dynptr_data; r6 = r0; r8 = -1; if r6 == 0 goto +9
                 r1 = r10; r1 += -16; r2 = {to}; r3 = r6; r3 += {from}; r4 = 8; r5 = 0; call dynptr_write
                 r8 = *(u32 *)(r6 + 0); {submit}; r0 = r8",
                write("0", 8, 0)
            ),
            expected,
        );
    }
    let slice = |offset: &str, bytes: u32| {
        format!(
            "{reserve}; {}; r1 = r10; r1 += -16; r2 = {offset} ll; r3 = {bytes}; call dynptr_data; r8 = -1; if r0 == 0 goto +1;
             r8 = *(u8 *)(r0 + 7); {submit}; r0 = r8",
            write("8", 8, 0)
        )
    };
    check(&slice("1", 8), 0x67);
    check(&slice("16", 8), 0);
    check(&slice("17", 8), -1);
    check(&slice("0", 25), -1);
    // One without a record.
    let none = reserve_dynptr("24", 1);
    check(&format!("{none}; {}; {submit}; r0 = r8", write("0", 0, 0)), einval);
    check(
        &format!(
            "{none}; r1 = r10; r1 += -16; r2 = 0; r3 = 8; call dynptr_data; r8 = 0; if r0 == 0 goto +1; r8 = 1; {submit}; r0 = r8"
        ),
        0,
    );
}
