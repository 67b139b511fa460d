//! Registers and memory: what was never written, what is outside of its bounds, what would leak.

use crate::reject::{FOUND, LANE, LOOKUP, RECORD, UNKNOWN, refuses};

#[test]
fn the_frame_pointer_is_not_written() {
    for text in [
        "r10 = 0",
        "w10 = 0",
        "r10 += 8",
        "r10 = -r10",
        "r10 = be16 r10",
        "r10 = *(u64 *)(r1 + 0)",
        "r10 = r1",
        "r10 = xchg_64(r1 + 0x0, r10)",
        "r10 = atomic_fetch_add((u64 *)(r1 + 0), r10)",
    ] {
        refuses(text, "exit", "r10 is the frame pointer");
    }
}

#[test]
fn registers_that_hold_nothing() {
    refuses("", "exit", "r0 holds nothing at the exit");
    refuses("", "r0 = r2; exit", "r2 is read");
    refuses("", "r0 += 1; exit", "r0 is read");
    refuses("", "r0 ^= r0; exit", "r0 is read");
    refuses("", "w0 = w7; exit", "r7 is read but was never written");
    refuses("", "r0 = -r0; exit", "r0 is read");
    refuses("", "r9 = le16 r9; exit", "r9 is read");
    refuses("", "*(u64 *)(r10 - 8) = r3; r0 = 0; exit", "r3 is read");
    refuses("", "r0 = *(u64 *)(r5 + 0); exit", "r5 is read");
    refuses("", "if r4 == 0 goto +0; r0 = 0; exit", "r4 is read");
    refuses("r0 = 0", "if r0 == r4 goto +0; exit", "r4 is read");
    refuses("", "r1 = 0; call ktime_get_ns; r0 = r1; exit", "a call clears r1 to r5");
    refuses("", "r5 = 0; call ktime_get_ns; r0 = r5; exit", "a call clears r1 to r5");
    refuses(UNKNOWN, "if r6 == 0 goto +1; r7 = 1; r0 = r7; exit", "r7 is read");
    refuses("", "*(u64 *)(r10 - 8) = 0; r0 = r2; lock *(u64 *)(r10 - 8) += r0; exit", "r2 is read");
    refuses(RECORD, "r1 = r6; r2 = 0; call ringbuf_submit; exit", "r0 holds nothing");
    refuses("", "call get_current_comm; exit", "r2 is read");
}

#[test]
fn stack_that_is_outside_or_was_never_written() {
    refuses("r0 = 0", "*(u64 *)(r10 + 0) = 0; exit", "outside the stack");
    refuses("r0 = 0", "*(u8 *)(r10 + 0) = 0; exit", "outside the stack");
    refuses("r0 = 0", "*(u64 *)(r10 - 4) = 0; exit", "outside the stack");
    refuses("r0 = 0", "*(u64 *)(r10 - 520) = 0; exit", "outside the stack");
    refuses("r0 = 0", "*(u8 *)(r10 - 513) = 0; exit", "outside the stack");
    refuses("r0 = 0", "*(u64 *)(r10 - 12) = 0; exit", "not aligned to 8");
    refuses("r0 = 0", "*(u32 *)(r10 - 6) = 0; exit", "not aligned to 4");
    refuses("r0 = 0", "*(u16 *)(r10 - 3) = 0; exit", "not aligned to 2");
    refuses("", "r0 = *(u64 *)(r10 - 8); exit", "never written");
    refuses("", "*(u32 *)(r10 - 8) = 0; r0 = *(u64 *)(r10 - 8); exit", "never written");
    refuses("", "*(u8 *)(r10 - 8) = 0; r0 = *(u16 *)(r10 - 8); exit", "never written");
    refuses(
        "",
        "r2 = r10; r2 += -600; *(u64 *)(r2 + 80) = 0; r0 = *(u64 *)(r2 + 8); exit",
        "outside the stack",
    );
    refuses("", "r2 = r10; r2 += 0x20000000; r2 += 0x20000000; r0 = 0; exit", "must be known to be within");
    refuses(UNKNOWN, "r2 = r10; r2 -= r6; r0 = 0; exit", "must be known");
    refuses(
        UNKNOWN,
        "if r6 == 0 goto +1; *(u64 *)(r10 - 8) = 1; r0 = *(u64 *)(r10 - 8); exit",
        "never written",
    );
    refuses("", "r6 = 1; lock *(u64 *)(r10 - 8) += r6; r0 = 0; exit", "never written");
    refuses("", "*(u64 *)(r10 - 8) = r10; r0 = *(u32 *)(r10 - 8); exit", "part of a pointer");
    refuses(
        "",
        "*(u64 *)(r10 - 8) = r1; *(u8 *)(r10 - 8) = 0; r0 = *(u64 *)(r10 - 8); exit",
        "never written",
    );
    refuses(
        "",
        "*(u64 *)(r10 - 8) = r1; r6 = 1; lock *(u64 *)(r10 - 8) += r6; r0 = 0; exit",
        "atomic operation on",
    );
    refuses("", "*(u64 *)(r10 - 8) = 0; r6 = 1; lock *(u64 *)(r10 - 12) += r6; r0 = 0; exit", "not aligned");
}

#[test]
fn the_context() {
    refuses("r0 = 0", "*(u64 *)(r1 + 0) = 0; exit", "context is read-only");
    refuses("r0 = 0", "lock *(u64 *)(r1 + 0) += r0; exit", "context is read-only");
    refuses("", "r0 = *(u64 *)(r1 + 232); exit", "it has 232 bytes");
    refuses("", "r0 = *(u64 *)(r1 - 8); exit", "it has 232 bytes");
    refuses("", "r0 = *(u64 *)(r1 + 4); exit", "aligned to their size");
    refuses("", "r0 = *(u32 *)(r1 + 2); exit", "aligned to their size");
    refuses("", "r0 = *(u8 *)(r1 + 0x7fff); exit", "it has 232 bytes");
    refuses("", "r1 += 8; r0 = *(u64 *)(r1 + 0); exit", "from its own address alone");
    refuses("r1 = 0", "r0 = *(u64 *)(r1 + 0); exit", "not a pointer to memory");
    refuses("", "r0 = *(u64 *)(r1 + 0); r0 = *(u64 *)(r0 + 0); exit", "not a pointer to memory");
    refuses("", "r1 = 0x400000 ll; r0 = *(u64 *)(r1 + 0); exit", "not a pointer to memory");
}

#[test]
fn map_values_and_their_bounds() {
    refuses(LOOKUP, "r0 = *(u64 *)(r0 + 0); exit", "must be compared with 0 first");
    refuses(LOOKUP, "r0 += 8; r0 = 0; exit", "must be compared with 0");
    refuses(LOOKUP, "exit", "r0 is a pointer to a value of @hash or null at the exit");
    refuses(LOOKUP, "if r0 == 0 goto +1; exit; r0 = *(u64 *)(r0 + 0); exit", "");
    refuses(FOUND, "r0 = *(u64 *)(r0 + 9); exit", "not known to be inside its 16 bytes");
    refuses(FOUND, "r0 = *(u64 *)(r0 + 16); exit", "not known to be inside");
    refuses(FOUND, "r0 = *(u8 *)(r0 - 1); exit", "not known to be inside");
    refuses(FOUND, "*(u64 *)(r0 + 16) = 0; r0 = 0; exit", "not known to be inside");
    refuses(FOUND, "r0 += 9; r0 = *(u64 *)(r0 + 0); exit", "not known to be inside");
    refuses(FOUND, "r0 -= 1; r0 = *(u8 *)(r0 + 0); exit", "not known to be inside");
    refuses(FOUND, "r1 = 1; lock *(u64 *)(r0 + 4) += r1; r0 = 0; exit", "may not be aligned");
    refuses(FOUND, "r1 = 1; lock *(u32 *)(r0 + 2) += r1; r0 = 0; exit", "may not be aligned");
    refuses(FOUND, "r0 = -r0; exit", "arithmetic on a pointer");
    refuses(FOUND, "r0 *= 2; exit", "arithmetic on a pointer");
    refuses(FOUND, "w0 += 1; exit", "arithmetic on a pointer");
    refuses(FOUND, "r0 = be64 r0; exit", "where a number is needed");
    refuses(FOUND, "r1 = 5; r1 -= r0; r0 = 0; exit", "arithmetic on a pointer");
    refuses(FOUND, "r1 = r0; r1 += r0; r0 = 0; exit", "arithmetic on a pointer");
    refuses(FOUND, "r1 = 0x7fffffffffffffff ll; r0 += r1; r0 = 0; exit", "must be known to be within");
    let index = format!("{UNKNOWN}; {FOUND}");
    refuses(&index, "r0 += r6; r0 = *(u8 *)(r0 + 0); exit", "must be known to be within");
    refuses(&index, "r6 &= 31; r0 += r6; r0 = *(u8 *)(r0 + 0); exit", "not known to be inside");
    refuses(&index, "r6 &= 15; r0 += r6; r0 = *(u16 *)(r0 + 0); exit", "not known to be inside");
    refuses(&index, "if r6 s> 8 goto +2; r0 += r6; r0 = *(u64 *)(r0 + 0); r0 = 0; exit", "must be known");
    refuses(
        &index,
        "if r6 > 9 goto +2; r0 += r6; r0 = *(u64 *)(r0 + 0); r0 = 0; exit",
        "not known to be inside",
    );
    refuses(&index, "if w6 > 8 goto +2; r0 += r6; r0 = *(u64 *)(r0 + 0); r0 = 0; exit", "must be known");
    refuses(
        &index,
        "r6 &= 3; r0 += r6; r1 = 1; lock *(u64 *)(r0 + 0) += r1; r0 = 0; exit",
        "may not be aligned",
    );
    refuses("", "r1 = map[@array][0] + 8 ll; r0 = *(u64 *)(r1 + 1); exit", "not known to be inside");
    refuses(
        "",
        "r1 = map[@array] ll; r0 = *(u64 *)(r1 + 0); exit",
        "the map @array, not a pointer to memory",
    );
    refuses("", "r1 = map[@array] ll; r1 += 8; r0 = 0; exit", "arithmetic on the map");
}

#[test]
fn pointers_that_would_leak() {
    refuses("", "r0 = r10; exit", "would leak");
    refuses("", "r0 = r1; exit", "would leak");
    refuses("", "r0 = map[@hash] ll; exit", "would leak");
    refuses("", "w0 = w1; exit", "only a part of the context");
    refuses("", "r0 = (s32)r10; exit", "only a part of a stack pointer");
    refuses("", "*(u32 *)(r10 - 4) = r10; r0 = 0; exit", "only a part of a stack pointer");
    refuses(FOUND, "*(u64 *)(r0 + 0) = r10; r0 = 0; exit", "stored outside the stack");
    refuses(FOUND, "*(u64 *)(r0 + 0) = r0; r0 = 0; exit", "stored outside the stack");
    refuses(FOUND, "lock *(u64 *)(r0 + 0) += r10; r0 = 0; exit", "where a number is needed");
    refuses(FOUND, "r1 = r0; r1 = xchg_64(r0 + 0, r1); r0 = 0; exit", "where a number is needed");
    refuses(
        FOUND,
        "r6 = r0; r1 = 0; r0 = cmpxchg_64(r6 + 0, r0, r1); r0 = 0; exit",
        "where a number is needed",
    );
    refuses(RECORD, "*(u64 *)(r6 + 0) = r10; exit", "stored outside the stack");
    refuses("", "if r10 > 5 goto +0; r0 = 0; exit", "compared with something else than 0");
    refuses("", "if r1 == r10 goto +0; r0 = 0; exit", "would tell addresses");
    refuses("", "if r10 > 0 goto +0; r0 = 0; exit", "only be compared with 0 by == and !=");
    refuses("", "if w10 == 0 goto +0; r0 = 0; exit", "compared with something else");
    refuses("r2 = 0", "if r2 == r10 goto +0; r0 = 0; exit", "compared with something else");
    refuses(FOUND, "r0 += 17; if r0 == 0 goto +0; r0 = 0; exit", "outside its object");
    refuses(
        "",
        "*(u64 *)(r10 - 8) = r1; r2 = r10; r2 += -8; r1 = map[@hash] ll; call 1; r0 = 0; exit",
        "part of a pointer",
    );
    refuses(
        "",
        "*(u64 *)(r10 - 8) = 0; r2 = r10; r2 += -8; r3 = r2; r3 += 0; *(u64 *)(r10 - 16) = r10
        *(u64 *)(r10 - 24) = 0; r3 += -16; r1 = map[@hash] ll; r4 = 0; call map_update_elem; r0 = 0; exit",
        "part of a pointer",
    );
}

#[test]
fn per_cpu_values() {
    refuses(LANE, "r1 = 1; lock *(u64 *)(r0 + 8) += r1; r0 = 0; exit", "not known to be inside its 8 bytes");
    refuses(LANE, "r0 = *(u64 *)(r0 + 1); exit", "not known to be inside its 8 bytes");
    refuses(LANE, "*(u64 *)(r0 + 8) = 0; r0 = 0; exit", "not known to be inside its 8 bytes");
    refuses(LANE, "r1 = 1; lock *(u32 *)(r0 + 2) += r1; r0 = 0; exit", "may not be aligned");
    refuses(
        LANE,
        "r1 = r0; r2 = 9; r3 = 0; call probe_read_user; exit",
        "not known to be inside its 8 bytes",
    );
    refuses(LANE, "*(u64 *)(r0 + 0) = r10; r0 = 0; exit", "pointer");
    let another = "*(u64 *)(r10 - 8) = 0; r2 = r10; r2 += -8; r3 = 0";
    refuses(another, "r1 = map[@hash] ll; call map_lookup_percpu_elem; r0 = 0; exit", "no value of each CPU");
    refuses(
        another,
        "r1 = map[@array] ll; call map_lookup_percpu_elem; r0 = 0; exit",
        "no value of each CPU",
    );
    // Whatever the key, there may be no such CPU.
    let lanes = "r1 = map[@lanes] ll; call map_lookup_percpu_elem; r0 = *(u64 *)(r0 + 0); exit";
    refuses(another, lanes, "must be compared with 0");
}

#[test]
fn ordered_accesses_keep_the_rules_of_plain_and_of_atomic_ones() {
    refuses("", "r0 = load_acquire((u64 *)(r1 + 0)); exit", "plain loads alone");
    refuses("r2 = 0", "store_release((u64 *)(r1 + 0), r2); exit", "read-only");
    refuses("", "r0 = load_acquire((u64 *)(r10 - 8)); exit", "never written");
    refuses("*(u64 *)(r10 - 8) = 0", "w0 = load_acquire((u32 *)(r10 - 6)); exit", "not aligned");
    refuses(FOUND, "w1 = load_acquire((u16 *)(r0 + 1)); r0 = 0; exit", "may not be aligned");
    refuses(FOUND, "r1 = 0; store_release((u32 *)(r0 + 2), w1); r0 = 0; exit", "may not be aligned");
    refuses(FOUND, "r1 = load_acquire((u64 *)(r0 + 16)); r0 = 0; exit", "inside its 16 bytes");
    refuses(FOUND, "store_release((u64 *)(r0 + 0), r10); r0 = 0; exit", "would leak");
    refuses("r2 = r10", "store_release((u32 *)(r10 - 8), w2); r0 = 0; exit", "only a part");
}
