//! Hostile programs: each line is one, with a part of the message that it is refused with.

use weir_ebpf::map::flag;
use weir_ebpf::{Insn, MapKind, MapSpec, Object, asm};
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

fn rejection(object: &Object) -> Rejection {
    match verify(&object.programs[0], &object.maps, &Limits::default()) {
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

#[test]
fn what_is_no_instruction() {
    let slot = |opcode, dst, src, off, imm| Insn { opcode, dst, src, off, imm };
    for opcode in
        [0x00, 0x01, 0x02, 0x08, 0x10, 0x1b, 0xb8, 0x60, 0x81 | 0x18, 0x8d & 0xfe, 0xe4, 0xf7, 0xf5, 0x0d]
    {
        refuses_slot(slot(opcode, 0, 0, 0, 0), "no instruction has the opcode");
    }
    for opcode in [0x86, 0x96, 0x8c, 0x8f, 0xdf, 0xe6, 0xd2, 0x9d, 0xc1, 0x41, 0x21] {
        refuses_slot(slot(opcode, 0, 0, 0, 0), "");
    }
    refuses_slot(slot(0xb7, 11, 0, 0, 0), "no register r11");
    refuses_slot(slot(0xbf, 0, 15, 0, 0), "no register r15");
    refuses_slot(slot(0xb7, 255, 0, 0, 0), "no register r255");
    refuses_slot(slot(0xbf, 0, 200, 0, 0), "no register r200");
    refuses_slot(slot(0x79, 0, 12, 0, 0), "no register r12");
    refuses_slot(slot(0x7b, 13, 0, 0, 0), "no register r13");
    refuses_slot(slot(0x1d, 0, 11, 0, 0), "no register r11");
    refuses_slot(slot(0xdb, 1, 11, 0, 0), "no register r11");
}

#[test]
fn reserved_fields_that_are_not_zero() {
    let slot = |opcode, dst, src, off, imm| Insn { opcode, dst, src, off, imm };
    refuses_slot(slot(0xb7, 0, 1, 0, 0), "unused source register is 1");
    refuses_slot(slot(0xbf, 0, 0, 0, 1), "unused immediate is 1");
    refuses_slot(slot(0x07, 0, 0, 1, 0), "offset 1 has no meaning");
    refuses_slot(slot(0x37, 0, 0, 2, 1), "offset 2 has no meaning");
    refuses_slot(slot(0xbf, 0, 0, 24, 0), "offset 24 has no meaning");
    refuses_slot(slot(0xbc, 0, 0, 32, 0), "offset 32 has no meaning");
    refuses_slot(slot(0xb7, 0, 0, 8, 0), "offset 8 has no meaning");
    refuses_slot(slot(0x87, 0, 0, 0, 1), "unused immediate is 1");
    refuses_slot(slot(0x87, 0, 1, 0, 0), "unused source register is 1");
    refuses_slot(slot(0x84, 0, 0, 1, 0), "unused offset is 1");
    refuses_slot(slot(0xdc, 0, 0, 0, 8), "byte swap of 8 bits");
    refuses_slot(slot(0xd7, 0, 1, 0, 16), "unused source register is 1");
    refuses_slot(slot(0x95, 0, 0, 0, 1), "unused immediate is 1");
    refuses_slot(slot(0x95, 1, 0, 0, 0), "unused destination register is 1");
    refuses_slot(slot(0x05, 0, 0, 0, 1), "unused immediate is 1");
    refuses_slot(slot(0x06, 0, 0, 1, 0), "unused offset is 1");
    refuses_slot(slot(0x85, 0, 0, 1, 5), "unused offset is 1");
    refuses_slot(slot(0x85, 1, 0, 0, 5), "unused destination register is 1");
    refuses_slot(slot(0x85, 0, 3, 0, 5), "no meaning in a call");
    refuses_slot(slot(0x79, 0, 1, 0, 1), "unused immediate is 1");
    refuses_slot(slot(0x7a, 10, 1, -8, 0), "unused source register is 1");
    refuses_slot(slot(0x7b, 10, 0, -8, 1), "unused immediate is 1");
    refuses_slot(slot(0xdb, 10, 0, -8, 2), "no atomic operation has the number 0x2");
    refuses_slot(slot(0xdb, 10, 0, -8, 0x101), "no atomic operation has the number 0x101");
    refuses_slot(slot(0xd3, 10, 0, -8, 0x120), "no atomic operation has the number 0x120");
    refuses_slot(slot(0xdb, 10, 1, 0, 0x100), "r10 is the frame pointer");
    refuses_slot(slot(0xe5, 1, 0, 0, 0), "unused destination register is 1");
    refuses_slot(slot(0xe5, 0, 1, 0, 0), "unused source register is 1");
    refuses_slot(slot(0xe5, 0, 0, 0, 1), "unused immediate is 1");
    refuses_slot(slot(0x85, 0, 1, 1, 0), "unused offset is 1");
    refuses_slot(slot(0x85, 1, 1, 0, 0), "unused destination register is 1");
    refuses_slot(slot(0xdb, 10, 0, -8, 0xe0), "no atomic operation");
    refuses_slot(slot(0xdb, 10, 0, -8, 0xf0), "no atomic operation");
    refuses_slot(slot(0xd3, 10, 0, -8, 0), "4 or 8 bytes wide, not 1");
    refuses_slot(slot(0xcb, 10, 0, -8, 0), "4 or 8 bytes wide, not 2");
    refuses_slot(slot(0x15, 0, 1, 0, 0), "unused source register is 1");
}

#[test]
fn wide_loads_that_are_not_whole() {
    refuses("r0 = 0", "exit; .insn 0x18", "no second slot");
    refuses("", ".insn 0x18; r0 = 0; exit", "second slot of the wide load holds more");
    refuses("", ".insn 0x18; .insn 0x100; exit", "second slot");
    refuses("", ".insn 0x10018; .insn 0; exit", "unused offset is 1");
    refuses("", "r0 = 1 ll", "ends here");
    refuses("", "r10 = 1 ll; exit", "r10 is the frame pointer");
    refuses("", ".insn 0xb18; .insn 0; exit", "no register r11");
    refuses("", ".insn 0x7018; .insn 0; exit", "no meaning in a wide load");
    does_not_run("", "r0 = map_fd[0] ll; exit", "a descriptor of the process");
    does_not_run("", "r0 = map_fd[0][0] ll; exit", "a descriptor of the process");
    does_not_run("", "r0 = btf 0 ll; exit", "a variable of the kernel");
    refuses("", ".insn 0x4018; .insn 0x100000000; exit", "unused upper half");
    refuses("", ".insn 0x5118; .insn 0x100000000; exit", "unused upper half");
    refuses("", "r1 = map[#15] ll; r0 = 0; exit", "map number 15 of 15");
    refuses("", ".insn 0xffffffff00005118; .insn 0; r0 = 0; exit", "map number -1");
    refuses("", "r1 = map[@hash][0] ll; r0 = 0; exit", "no fixed address");
    refuses("", "r1 = map[@ring][0] ll; r0 = 0; exit", "no fixed address");
    refuses("", "r1 = map[@array][0] + 16 ll; r0 = 0; exit", "offset 16 into a value of 16");
    refuses("", "r1 = map[@array][0] - 1 ll; r0 = 0; exit", "offset 4294967295");
}

#[test]
fn jumps_to_nowhere_and_ends_without_exit() {
    refuses("", "", "empty");
    refuses("", "r0 = 0", "ends here");
    refuses("", "r0 = 0; if r0 == 0 goto -1", "ends here");
    refuses("", "goto +1; exit", "outside the program");
    refuses("", "goto -2; exit", "before the program");
    refuses("", "r0 = 0; if r0 == 0 goto +1; exit", "outside the program");
    refuses("", "gotol +0x7fffffff; exit", "outside the program");
    refuses("", "gotol -0x80000000; exit", "before the program");
    refuses("r0 = 0", "if r0 == 0 goto +1; r0 = 0 ll; exit", "middle of a wide load");
    refuses("r0 = 0", "goto +1; r0 = 0 ll; exit", "middle of a wide load");
    refuses("r0 = 0", "exit; r1 = map[@hash] ll; goto -2", "middle of a wide load");
    refuses("r0 = 0; exit", "goto +5", "outside the program");
}

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
    refuses(UNKNOWN, "r6 &= 7; r2 = r10; r2 += -8; r2 += r6; *(u8 *)(r2 + 0) = 0; exit", "only a constant");
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
    refuses("", "r0 = *(u64 *)(r1 + 168); exit", "it has 168 bytes");
    refuses("", "r0 = *(u64 *)(r1 - 8); exit", "it has 168 bytes");
    refuses("", "r0 = *(u64 *)(r1 + 4); exit", "aligned to their size");
    refuses("", "r0 = *(u32 *)(r1 + 2); exit", "aligned to their size");
    refuses("", "r0 = *(u8 *)(r1 + 0x7fff); exit", "it has 168 bytes");
    refuses("", "r1 += 8; r0 = *(u64 *)(r1 + 0); exit", "arithmetic on the context");
    refuses("", "r1 += 0; r0 = 0; exit", "arithmetic on the context");
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
    refuses(FOUND, "r1 = r0; r1 -= r0; r0 = 0; exit", "arithmetic on a pointer");
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
    refuses("", "if r1 == r10 goto +0; r0 = 0; exit", "compared with something else than 0");
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
fn arguments_of_helpers() {
    let key = "*(u64 *)(r10 - 8) = 0; r2 = r10; r2 += -8";
    refuses(key, "r1 = 0; call map_lookup_elem; exit", "a map is needed, not a number");
    refuses(key, "r1 = r10; call map_lookup_elem; exit", "a map is needed, not a stack pointer");
    refuses(key, "call map_lookup_elem; exit", "a map is needed, not the context");
    refuses(key, "r1 = map[@ring] ll; call map_lookup_elem; exit", "ringbuf, which the helper does not take");
    refuses(key, "r1 = map[@array] ll; call map_delete_elem; exit", "is an array");
    refuses(key, "r1 = map[@lanes] ll; call map_delete_elem; exit", "is an array");
    refuses(
        key,
        "r1 = map[@hash] ll; r2 = 5; call map_lookup_elem; exit",
        "not memory that a helper may reach",
    );
    refuses(key, "r1 = map[@hash] ll; r2 = r1; call map_lookup_elem; exit", "not memory");
    refuses(
        "",
        "r2 = r1; r1 = map[@hash] ll; call map_lookup_elem; exit",
        "the context pointer is not memory",
    );
    refuses(key, "r1 = map[@hash] ll; r2 += 1; call map_lookup_elem; exit", "outside the stack");
    refuses(key, "r1 = map[@hash] ll; r2 += -8; call map_lookup_elem; exit", "never written");
    refuses(
        "",
        "*(u32 *)(r10 - 8) = 0; r2 = r10; r2 += -8; r1 = map[@hash] ll; call 1; exit",
        "never written",
    );
    refuses(key, "r1 = map[@hash] ll; r3 = r2; r4 = 0; call map_update_elem; exit", "outside the stack");
    refuses(
        key,
        "r1 = map[@hash] ll; r3 = r2; r3 += -8; r4 = 0; call map_update_elem; exit",
        "never written",
    );
    refuses(
        key,
        "r1 = map[@percpu] ll; r3 = r2; r4 = r10; call map_update_elem; exit",
        "where a number is needed",
    );
    refuses(key, "r1 = map[@percpu] ll; r3 = r2; call map_update_elem; exit", "r4 is read");
    refuses(
        LOOKUP,
        "r2 = r0; r1 = map[@hash] ll; call map_lookup_elem; exit",
        "must be compared with 0 before",
    );
    refuses(
        FOUND,
        "r2 = r0; r2 += 9; r1 = map[@hash] ll; call map_lookup_elem; exit",
        "not known to be inside",
    );
    refuses("", "r1 = 0; call get_attach_cookie; exit", "the context is needed");
    refuses("", "r1 = r10; r1 += -16; r2 = 17; call get_current_comm; exit", "outside the stack");
    refuses("", "r1 = r10; r1 += -16; r2 = 0; call get_current_comm; exit", "0 is not allowed");
    refuses("", "r1 = r10; r1 += -16; r2 = -1; call get_current_comm; exit", "upper bound");
    refuses("", "r2 = 16; call get_current_comm; exit", "not memory that a helper may reach");
    refuses(UNKNOWN, "r1 = r10; r1 += -16; r2 = r6; call get_current_comm; exit", "0 is not allowed");
    refuses(UNKNOWN, "r1 = r10; r1 += -16; r2 = r6; r3 = 0; call probe_read_user; exit", "upper bound");
    refuses(
        UNKNOWN,
        "r1 = r10; r1 += -16; r6 &= 31; r2 = r6; r3 = 0; call probe_read_user; exit",
        "outside the stack",
    );
    refuses(
        UNKNOWN,
        "r1 = r10; r1 += -16; if r6 s> 16 goto +2; r2 = r6; r3 = 0; call 112; r0 = 0; exit",
        "upper bound",
    );
    refuses(
        "",
        "r1 = r10; r1 += -16; r2 = r10; r3 = 0; call probe_read_user; exit",
        "where a number is needed",
    );
    refuses(FOUND, "r1 = r0; r2 = 17; r3 = 0; call probe_read_user_str; exit", "not known to be inside");
    refuses(
        "",
        "r1 = r10; r1 += -16; r2 = 8; r3 = 0; call probe_read_user; r0 = *(u64 *)(r10 - 8); exit",
        "never written",
    );
    refuses(
        UNKNOWN,
        "r1 = r10; r1 += -8; r6 &= 7; r2 = r6; r3 = 0; call 112; r0 = *(u8 *)(r10 - 8); exit",
        "never written",
    );
    // A string that ends early leaves the bytes behind it as they were.
    refuses(
        "",
        "r1 = r10; r1 += -8; r2 = 8; r3 = 0; call probe_read_user_str; r0 = *(u64 *)(r10 - 8); exit",
        "never",
    );
    // Every way to read writes what it is told to, and no further.
    for read in
        ["probe_read", "probe_read_kernel", "copy_from_user", "probe_read_str", "probe_read_kernel_str"]
    {
        refuses("", &format!("r1 = r10; r1 += -8; r2 = 9; r3 = 0; call {read}; exit"), "outside the stack");
        refuses(
            "",
            &format!("r1 = r10; r1 += -8; r2 = 8; call {read}; exit"),
            "r3 is read but holds nothing",
        );
        refuses("", &format!("r2 = 8; r3 = 0; call {read}; exit"), "not memory that a helper may reach");
    }
    refuses("", "r1 = r10; r1 += -8; r2 = 8; r3 = 0; call 45; r0 = *(u64 *)(r10 - 8); exit", "never written");
    // Formats and their words.
    let word = "*(u64 *)(r10 - 8) = 0; r1 = r10; r1 += -8";
    refuses(word, "r2 = 9; call trace_printk; exit", "outside the stack");
    refuses(word, "r2 = 0; call trace_printk; exit", "0 is not allowed");
    refuses("", "r1 = r10; r1 += -8; r2 = 8; call trace_printk; exit", "never written");
    refuses(word, "r2 = 8; r3 = r10; r3 += -16; r4 = 8; call trace_vprintk; exit", "never written");
    refuses(word, "r2 = 8; r3 = r10; r3 += -8; r4 = 16; call trace_vprintk; exit", "outside the stack");
    refuses(word, "r2 = 8; r3 = 0; r4 = 8; call trace_vprintk; exit", "not memory that a helper may reach");
    // Constant strings.
    refuses(word, "r2 = 8; r3 = r10; r3 += -8; call strncmp; exit", "a constant string is needed");
    refuses(word, "r2 = 8; r3 = 0; call strncmp; exit", "a constant string is needed");
    refuses(word, "r2 = 8; r3 = map[@array][0] ll; r3 += 16; call strncmp; exit", "a constant place");
    refuses(word, "r2 = 8; r3 = map[@array][0] ll; r3 += -1; call strncmp; exit", "a constant place");
    refuses(word, "r2 = 8; r3 = map[@lanes][0] ll; call strncmp; exit", "a constant string is needed");
    let unknown = format!("{UNKNOWN}; r6 &= 7; {word}");
    refuses(&unknown, "r2 = 8; r3 = map[@array][0] ll; r3 += r6; call strncmp; exit", "a constant place");
    refuses(FOUND, "r3 = r0; r1 = r10; r1 += -8; r2 = 8; call strncmp; exit", "a constant string is needed");
    refuses(word, "r2 = 8; r3 = map[@array] ll; call strncmp; exit", "a constant string is needed");
    refuses("", "r1 = 0; r2 = 1; r3 = map[@array][0] ll; r4 = 0; r5 = 0; call snprintf; exit", "not memory");
    refuses(
        "",
        "r1 = r10; r1 += -8; r2 = 9; r3 = map[@array][0] ll; r4 = 0; r5 = 0; call snprintf; exit",
        "outside",
    );
    refuses(
        "",
        "r1 = r10; r1 += -8; r2 = 8; r3 = map[@array][0] ll; r4 = 0; r5 = 0; call snprintf; r0 = *(u64 *)(r10 - 8); exit",
        "never written",
    );
    refuses(word, "r2 = 16; r3 = 0; r4 = 0; r5 = 0; call csum_diff; exit", "outside the stack");
    refuses(
        word,
        "r2 = 8; r3 = 0; r4 = 4; r5 = 0; call csum_diff; exit",
        "not memory that a helper may reach",
    );
    // Stacks, perf events, control groups.
    let not_taken = "which the helper does not take";
    refuses("", "r2 = map[@hash] ll; r3 = 0; call get_stackid; exit", not_taken);
    refuses("", "r2 = map[@stacks] ll; r1 = 0; r3 = 0; call get_stackid; exit", "the context is needed");
    refuses("", "r2 = map[@stacks] ll; r3 = r10; call get_stackid; exit", "where a number is needed");
    refuses("", "r2 = r10; r2 += -8; r3 = 16; r4 = 0; call get_stack; exit", "outside the stack");
    refuses(
        "",
        "r1 = r10; r2 = r10; r2 += -8; r3 = 8; r4 = 0; call get_stack; exit",
        "the context is needed",
    );
    refuses(
        word,
        "r1 = 0; r2 = map[@perf] ll; r3 = 0; r4 = r10; r4 += -8; r5 = 8; call 25; exit",
        "the context is needed",
    );
    refuses("", "r2 = map[@ring] ll; r3 = 0; r4 = 0; r5 = 0; call perf_event_output; exit", not_taken);
    refuses("", "r2 = map[@perf] ll; r3 = 0; r4 = r10; r4 += -8; r5 = 8; call 25; exit", "never written");
    refuses(
        "",
        "r2 = map[@perf] ll; r3 = 0; r4 = r1; r5 = 8; call perf_event_output; exit",
        "not memory that a helper",
    );
    refuses("", "r1 = map[@stacks] ll; r2 = 0; call current_task_under_cgroup; exit", not_taken);
    for map in ["perf", "stacks", "groups"] {
        let key = format!("*(u64 *)(r10 - 8) = 0; r2 = r10; r2 += -8; r3 = r2; r4 = 0; r1 = map[@{map}] ll");
        for helper in ["map_lookup_elem", "map_update_elem", "map_delete_elem"] {
            refuses(&key, &format!("call {helper}; r0 = 0; exit"), not_taken);
        }
        refuses("", &format!("r1 = map[@{map}][0] ll; r0 = 0; exit"), "no fixed address");
    }
    // Maps that other maps hold.
    let outer = "*(u64 *)(r10 - 8) = 0; r2 = r10; r2 += -8; r1 = map[@outer] ll";
    let held = &format!("{outer}; call 1; if r0 != 0 goto +1; exit; r6 = r0; r1 = r0; r2 = r10; r2 += -8");
    refuses(
        outer,
        "call 1; r1 = r0; r2 = r10; r2 += -8; call 1; r0 = 0; exit",
        "must be compared with 0 first",
    );
    refuses(outer, "r3 = r2; r4 = 0; call map_update_elem; exit", "programs only look them up");
    refuses(outer, "call map_delete_elem; exit", "programs only look them up");
    refuses(held, "r0 = *(u64 *)(r6 + 0); exit", "not a pointer to memory");
    refuses(held, "*(u64 *)(r6 + 0) = 0; r0 = 0; exit", "not a pointer to memory");
    refuses(held, "r6 += 8; r0 = 0; exit", "arithmetic on a map like @hash");
    refuses(held, "r0 = r6; exit", "leak");
    refuses(held, "call 1; r0 = *(u64 *)(r0 + 0); exit", "must be compared with 0 first");
    refuses(held, "call 1; if r0 != 0 goto +1; exit; r0 = *(u64 *)(r0 + 16); exit", "not known to be inside");
    refuses(held, "r3 = 8; r4 = 0; call ringbuf_output; exit", not_taken);
    refuses(held, "r2 += -8; call 1; r0 = 0; exit", "never written");
    refuses("", "r1 = map[@outer][0] ll; r0 = 0; exit", "no fixed address");
    // The rest.
    refuses(
        "",
        "r1 = 1; r2 = 1; r3 = r10; r3 += -8; r4 = 16; call get_ns_current_pid_tgid; exit",
        "outside the stack",
    );
    refuses("", "r1 = r10; call get_func_ip; exit", "the context is needed");
    refuses("", "r1 = map[@hash] ll; r2 = 0; call ringbuf_query; exit", "which the helper does not take");
    refuses("", "r1 = 9; call send_signal; exit", "has to be allowed expressly");
    refuses("", "r1 = 9; call send_signal_thread; exit", "has to be allowed expressly");
    refuses("", "call probe_write_user; exit", "has to be allowed expressly");
    for (number, reason) in [
        (35, "get_current_task (35): the task_struct"),
        (58, "override_return (58)"),
        (80, "get_current_cgroup_id (80)"),
        (153, "per_cpu_ptr (153): per-CPU variables of the kernel"),
        (154, "this_cpu_ptr (154)"),
        (158, "get_current_task_btf (158)"),
    ] {
        does_not_run("", &format!("call {number}; exit"), reason);
    }
    does_not_run("", "call 0; exit", "no helper number 0");
    does_not_run("", "call 0x7fffffff; exit", "no helper number");
    does_not_run("", "call -1; exit", "no helper number -1");
}

#[test]
fn ring_records() {
    let ring = "r1 = map[@ring] ll";
    refuses(RESERVE, "r0 = 0; exit", "neither submitted nor discarded");
    refuses(RESERVE, "if r0 == 0 goto +1; r0 = 0; exit", "neither submitted nor discarded");
    refuses(RESERVE, "*(u64 *)(r0 + 0) = 0; exit", "must be compared with 0 first");
    refuses(RESERVE, "r1 = r0; r2 = 0; call ringbuf_submit; r0 = 0; exit", "may be null");
    refuses(RECORD, "r0 = 0; exit", "neither submitted nor discarded");
    refuses(RECORD, "*(u64 *)(r6 + 25) = 0; exit", "not known to be inside its 32 bytes");
    refuses(RECORD, "r0 = *(u8 *)(r6 + 32); exit", "not known to be inside its 32 bytes");
    refuses(RECORD, "r0 = *(u8 *)(r6 - 1); exit", "not known to be inside");
    refuses(
        RECORD,
        "r1 = r6; r1 += 8; r2 = 0; call ringbuf_submit; r0 = 0; exit",
        "the start of a ring record",
    );
    refuses(RECORD, "r1 = r6; r2 = r6; call ringbuf_submit; r0 = 0; exit", "where a number is needed");
    refuses(RECORD, "r1 = r6; r2 = 0; call ringbuf_submit; *(u64 *)(r6 + 0) = 0; exit", "r6 is read");
    refuses(
        RECORD,
        "r7 = r6; r1 = r6; r2 = 0; call 132; r1 = r7; r2 = 0; call 132; r0 = 0; exit",
        "r7 is read",
    );
    refuses(
        RECORD,
        "*(u64 *)(r10 - 8) = r6; r1 = r6; r2 = 0; call 133; r1 = *(u64 *)(r10 - 8); r2 = 0; call 132
        r0 = 0; exit",
        "r1 is read",
    );
    refuses(
        RECORD,
        "r7 = *(u64 *)(r6 + 0); if r7 == 0 goto +3; r1 = r6; r2 = 0; call 132; r0 = 0; exit",
        "neither",
    );
    refuses(
        RECORD,
        "r1 = map[@ring] ll; r2 = 32; r3 = 0; call 131; if r0 == 0 goto +3; r1 = r0; r2 = 0; call 132
        r1 = r6; r2 = 0; call 132; r1 = r6; r2 = 0; call 132; r0 = 0; exit",
        "r6 is read",
    );
    refuses(
        "",
        "r1 = r10; r1 += -8; r2 = 0; call ringbuf_submit; r0 = 0; exit",
        "the start of a ring record",
    );
    refuses(FOUND, "r1 = r0; r2 = 0; call ringbuf_submit; r0 = 0; exit", "the start of a ring record");
    refuses(ring, "r2 = 0; r3 = 0; call ringbuf_reserve; exit", "a record of 0 bytes");
    refuses(ring, "r2 = 4089; r3 = 0; call ringbuf_reserve; exit", "the limits are 1 and 4088");
    refuses(ring, "r2 = -1; r3 = 0; call ringbuf_reserve; exit", "the limits are");
    refuses(
        &format!("{UNKNOWN}; {ring}"),
        "r2 = r6; r3 = 0; call ringbuf_reserve; exit",
        "must be a constant",
    );
    refuses("r1 = map[@hash] ll", "r2 = 8; r3 = 0; call ringbuf_reserve; exit", "the helper does not take");
    refuses(ring, "r2 = r10; r2 += -8; r3 = 8; r4 = 0; call ringbuf_output; exit", "never written");
    refuses(
        ring,
        "*(u64 *)(r10 - 8) = 0; r2 = r10; r2 += -8; r3 = 9; r4 = 0; call 130; exit",
        "outside the stack",
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
fn loops_that_may_not_end() {
    refuses("", "goto -1", "may not end");
    refuses("r0 = 0", "goto -1; exit", "may not end");
    refuses("r0 = 0", "if r0 == 0 goto -1; exit", "may not end");
    refuses(UNKNOWN, "if r6 != 0 goto -1; r0 = 0; exit", "may not end");
    refuses("", "here: call ktime_get_ns; if r0 != 0 goto here; exit", "may not end");
    refuses("r1 = 0", "here: r1 += 1; r1 &= 7; if r1 != 8 goto here; r0 = 0; exit", "may not end");
    check(RejectionKind::TooBig, "r1 = 0", "r1 += 1; goto -2", "a loop may not end");
    check(
        RejectionKind::TooBig,
        UNKNOWN,
        "r0 = 0; here: r0 += 1; if r0 < r6 goto here; exit",
        "a loop may not end",
    );
    check(
        RejectionKind::TooBig,
        "r0 = 0",
        "here: r0 += 2; if r0 != 0x7ffffff goto here; exit",
        "a loop may not end",
    );
}

#[test]
fn functions_that_are_none() {
    refuses("r0 = 0", "call pc+7; exit", "outside the program");
    refuses("r0 = 0", "call pc-9; exit", "before the program");
    refuses("r0 = 0", "call pc+2; exit; r0 = 0 ll; exit", "middle of a wide load");
    refuses("r0 = 0", "call f; exit; f: r0 = 1", "ends here");
    refuses("r0 = 0", "call f; r0 = 0; f: exit", "the function ends here");
    refuses("r0 = 0", "call f; r0 = 0 ll; f: exit", "the function ends here");
    refuses("r0 = 0", "call f; exit; f: goto -2", "into another function");
    refuses("r0 = 0", "call f; goto f; f: exit", "into another function");
    refuses("r0 = 0", "call f; if r0 == 0 goto f; exit; f: exit", "into another function");
    refuses("r0 = 0", "call f; exit; f: may_goto -2; exit", "into another function");
    refuses(
        "r0 = 0",
        "exit; f: r0 = 0; exit; g: call f; exit; call g; goto f; exit",
        "into another function",
    );
}

#[test]
fn recursion_and_deep_calls() {
    refuses("r0 = 0", "call pc-2; exit", "recursive");
    refuses("r0 = 0", "call f; exit; f: call f; exit", "recursive");
    refuses("r0 = 0", "call f; exit; f: call g; exit; g: call f; exit", "recursive");
    refuses("r0 = 0", "exit; f: call g; exit; g: call f; exit", "recursive");
    let chain = |calls: usize| {
        let call = |at: usize| format!("; f{at}: call f{}; exit", at + 1);
        let rest: String = (1..calls).map(call).collect();
        format!("r0 = 0; call f1; exit{rest}; f{calls}: r0 = 0; exit")
    };
    refuses("", &chain(8), "nest 9 deep");
    refuses("", &chain(30), "nest 9 deep");
    assert!(verify(&object("", &chain(7)).programs[0], &[], &Limits::default()).is_ok());
    // However the functions stand, and whoever is looked at first.
    refuses("", &format!("call h; {}; g: call f1; exit; h: call g; exit", chain(6)), "nest 9 deep");
}

#[test]
fn frames_that_do_not_fit_together() {
    refuses(
        "*(u64 *)(r10 - 256) = 0",
        "call f; exit; f: *(u64 *)(r10 - 264) = 0; r0 = 0; exit",
        "528 bytes together",
    );
    refuses(
        "*(u64 *)(r10 - 512) = 0",
        "call f; exit; f: *(u8 *)(r10 - 1) = 0; r0 = 0; exit",
        "528 bytes together",
    );
    // What a callee reaches in its caller's frame is the caller's.
    refuses(
        "r1 = r10",
        "call f; exit; f: *(u64 *)(r1 - 512) = 0; *(u64 *)(r10 - 8) = 0; r0 = 0; exit",
        "together",
    );
    refuses("r1 = r10", "call f; exit; f: *(u64 *)(r1 - 520) = 0; r0 = 0; exit", "outside the stack");
    refuses("r1 = r10", "call f; exit; f: *(u64 *)(r1 + 0) = 0; r0 = 0; exit", "outside the stack");
}

#[test]
fn what_calls_do_not_keep() {
    let nothing = "exit; f: r0 = 0; exit";
    for register in 1..=5 {
        let text = format!("r{register} = 1; call f; r0 = r{register}; {nothing}");
        refuses("", &text, "a call clears r1 to r5");
    }
    for register in 6..=9 {
        refuses(
            "",
            &format!("r{register} = 1; call f; exit; f: r0 = r{register}; exit"),
            "was never written",
        );
    }
    refuses("", "call f; exit; f: r0 = r2; exit", "r2 is read but holds nothing");
    refuses("", "r0 = 1; call f; exit; f: r6 = r0; exit", "r0 is read but holds nothing");
    refuses("", "call f; r0 += 1; exit; f: exit", "r0 is read but holds nothing");
    refuses("", "call f; exit; f: exit", "r0 holds nothing");
    // Each frame is new.
    refuses("", "*(u64 *)(r10 - 8) = 1; call f; exit; f: r0 = *(u64 *)(r10 - 8); exit", "never written");
    refuses(
        "",
        "call f; call g; exit; f: *(u64 *)(r10 - 8) = 1; r0 = 0; exit; g: r0 = *(u64 *)(r10 - 8); exit",
        "never written",
    );
}

#[test]
fn pointers_into_frames_that_end() {
    refuses("", "call f; r0 = 0; exit; f: r0 = r10; exit", "stack of the function that ends");
    refuses("", "call f; r0 = 0; exit; f: r0 = r10; r0 += -8; exit", "stack of the function that ends");
    refuses(
        "r1 = r10",
        "r1 += -8; call f; r0 = 0; exit; f: *(u64 *)(r1 + 0) = r10; r0 = 0; exit",
        "would outlive",
    );
    refuses(
        "r1 = r10",
        "r1 += -8; call f; r0 = 0; exit; f: store_release((u64 *)(r1 + 0), r10); r0 = 0; exit",
        "would outlive",
    );
    refuses("", "r1 = r10; call f; exit; f: r0 = r1; exit", "r0 is a stack pointer");
    // What a function leaves for its caller is checked there.
    refuses(RESERVE, "r1 = r0; call f; exit; f: r0 = 0; exit", "neither submitted nor discarded");
    refuses(
        RECORD,
        "r1 = r6; call f; r0 = *(u64 *)(r6 + 0); exit; f: r2 = 0; call ringbuf_submit; r0 = 0; exit",
        "r6 is read",
    );
    refuses(
        LOOKUP,
        "r1 = r0; r6 = r0; call f; r0 = *(u64 *)(r6 + 0); exit; f: r0 = 0; exit",
        "compared with 0 first",
    );
    let half_checked =
        "r6 = r0; r1 = r0; call f; if r0 == 0 goto +2; r0 = *(u64 *)(r6 + 0); exit; r0 = 0; exit
        f: r0 = 1; if r1 != 0 goto +1; exit; r0 = 0; exit";
    refuses(LOOKUP, half_checked, "is a number");
}

#[test]
fn loops_that_may_goto_does_not_end() {
    refuses("r0 = 0", "here: may_goto here; exit", "may not end");
    refuses("r0 = 0", "may_goto -1; exit", "may not end");
    // Half of the rounds pass by it.
    refuses(
        UNKNOWN,
        "r0 = 0; here: if r6 == 5 goto there; may_goto +1; there: goto here; exit",
        "may not end",
    );
    refuses("r0 = 0", "may_goto +1; goto +0; here: goto here; exit", "may not end");
    // What a round leaves behind is checked in the next one.
    refuses(
        "r6 = 0",
        "here: may_goto +4; r1 = map[@array] ll; r6 += 1; goto here; r0 = *(u64 *)(r10 - 8); exit",
        "never written",
    );
    refuses(
        "r7 = r1; r6 = r10",
        "here: may_goto +3; r0 = *(u64 *)(r6 + 0); r6 = r7; goto here; r0 = 0; exit",
        "outside the stack",
    );
    refuses(
        "r7 = r10",
        "*(u64 *)(r10 - 8) = 0; here: may_goto +3; r7 += -8; *(u64 *)(r7 + 0) = 1; goto here; r0 = 0; exit",
        "outside the stack",
    );
    refuses(
        "r6 = 0",
        "r1 = map[@array][0] ll; here: may_goto +5; r2 = r1; r2 += r6; r0 = *(u8 *)(r2 + 0); r6 += 1; goto here; r0 = 0; exit",
        "inside its 16 bytes",
    );
    refuses("r0 = 0", "may_goto -2", "ends here");
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

#[test]
fn what_weir_does_not_run() {
    does_not_run("r0 = 0", "call btf 5; exit", "a kernel function by BTF id");
    does_not_run("", "r0 = *(u8 *)skb[0]; exit", "packet loads");
    does_not_run("r1 = 0", "r0 = *(u16 *)skb[r1]; exit", "packet loads");
    does_not_run("r0 = 0", ".insn 0x8d; exit", "calls through a register");
    does_not_run("", ".insn 0x1000111bf; exit", "arenas");
}

#[test]
fn what_only_one_of_many_paths_does() {
    // The path that is looked at first is fine; the second is not, and must not be taken for the first.
    refuses(UNKNOWN, "r7 = 8; if r6 == 0 goto +1; r7 = r10; r0 = r7; r0 += 0; exit", "would leak");
    let spill =
        "*(u64 *)(r10 - 8) = 1; if r6 == 0 goto +1; *(u64 *)(r10 - 8) = r10; r0 = *(u64 *)(r10 - 8); exit";
    refuses(UNKNOWN, spill, "would leak");
    let index = format!("{UNKNOWN}; {FOUND}");
    refuses(
        &index,
        "r7 = 8; if r6 == 0 goto +1; r7 = 9; r0 += r7; r0 = *(u64 *)(r0 + 0); exit",
        "not known to be inside",
    );
    refuses(
        &index,
        "r7 = 9; if r6 == 0 goto +1; r7 = 8; r0 += r7; r0 = *(u64 *)(r0 + 0); exit",
        "not known to be inside",
    );
    // Bytes that only one path wrote: all of a word, the other half of a word, or what a helper may leave alone.
    refuses(
        UNKNOWN,
        "if r6 == 0 goto +1; *(u32 *)(r10 - 8) = r6; r0 = *(u32 *)(r10 - 8); exit",
        "never written",
    );
    refuses(
        UNKNOWN,
        "if r6 == 0 goto +1; *(u32 *)(r10 - 4) = 1; *(u32 *)(r10 - 8) = 1; r0 = *(u64 *)(r10 - 8); exit",
        "never written",
    );
    refuses(
        UNKNOWN,
        "if r6 == 0 goto +1; *(u64 *)(r10 - 8) = 1; r6 &= 8; r1 = r10; r1 += -8; r2 = r6; r3 = 0; call 112
        r0 = *(u8 *)(r10 - 8); exit",
        "never written",
    );
    // Two lookups, one check: the other may still be null.
    let two = format!("{LOOKUP}; r7 = r0; {LOOKUP}");
    refuses(&two, "if r0 == 0 goto +1; r0 = *(u64 *)(r7 + 0); r0 = 0; exit", "must be compared with 0");
    // The same register holds one of two lookups; checking the one that is not it proves nothing.
    let either =
        format!("{UNKNOWN}; {LOOKUP}; r7 = r0; {LOOKUP}; r8 = r0; if r6 == 0 goto +1; r8 = r7; r9 = r7");
    refuses(&either, "if r9 == 0 goto +1; r0 = *(u64 *)(r8 + 0); r0 = 0; exit", "must be compared with 0");
    // A record is held on one of two paths that meet.
    refuses(&format!("{UNKNOWN}; r0 = 0; if r6 == 0 goto +8; {RECORD}"), "goto +0; r0 = 0; exit", "neither");
    // Bounds that hold for the first round of a loop alone.
    refuses(
        FOUND,
        "r7 = 0; here: r1 = r0; r1 += r7; *(u8 *)(r1 + 0) = 1; r7 += 1; if r7 != 17 goto here; r0 = 0; exit",
        "not known to be inside",
    );
}

/// Ways from a number in r7 to one in r8; r0 is kept.
const FLOWS: &[&str] = &[
    "r8 = r7",
    "w8 = w7",
    "r8 = (s8)r7",
    "r8 = r7; r8 = be64 r8; r8 = be64 r8",
    "r8 = 7; r8 += r7; r8 -= 7",
    "r8 = 0; r8 |= r7; r8 <<= 3; r8 >>= 3",
    "r8 = 8; if r7 == 8 goto +1; r8 = 9",
    "r8 = 8; w1 = w7; if w1 s<= 8 goto +1; r8 = 9",
    "*(u64 *)(r10 - 16) = r7; r8 = *(u64 *)(r10 - 16)",
    "*(u64 *)(r10 - 16) = 0; *(u8 *)(r10 - 16) = r7; r8 = *(u64 *)(r10 - 16)",
    "*(u64 *)(r10 - 16) = r7; r8 = *(u8 *)(r10 - 16)",
    "r1 = r10; r1 += -16; *(u64 *)(r1 + 0) = r7; r8 = *(u64 *)(r10 - 16)",
    "r1 = r10; r1 += -16; *(u64 *)(r10 - 24) = r1; r2 = *(u64 *)(r10 - 24); *(u64 *)(r2 + 0) = r7
        r8 = *(u64 *)(r10 - 16)",
    "*(u64 *)(r10 - 16) = r7; r1 = r10; r1 += -24; r8 = *(u64 *)(r1 + 8)",
    "r9 = r0; r1 = r7; call same; r8 = r0; r0 = r9",
    "r9 = r0; r1 = 0; r5 = r7; call fifth; r8 = r0; r0 = r9",
    "r9 = r0; *(u64 *)(r10 - 16) = r7; r1 = r10; r1 += -16; call loaded; r8 = r0; r0 = r9",
    "r9 = r0; r1 = r10; r1 += -16; r2 = r7; call stored; r8 = *(u64 *)(r10 - 16); r0 = r9",
];
const FUNCTIONS: &str = "same: r0 = r1; exit
    fifth: r6 = r5; r0 = r6; exit
    loaded: r0 = *(u64 *)(r1 + 0); exit
    stored: *(u64 *)(r1 + 0) = r2; r0 = 0; exit";

/// On one path the number is one too many; that it matters shows only where it has got to.
#[test]
fn numbers_that_matter_later() {
    let before = format!("{UNKNOWN}; {FOUND}");
    let used = "r0 += r8; r0 = *(u64 *)(r0 + 0); r0 = 0; exit";
    for flow in FLOWS {
        for (first, second) in [(8, 9), (9, 8)] {
            let paths =
                format!("r7 = {first}; if r6 == 0 goto +1; r7 = {second}; {flow}; {used}\n{FUNCTIONS}");
            refuses(&before, &paths, "not known to be inside");
        }
        let object =
            object(&before, &format!("r7 = 8; if r6 == 0 goto +1; r7 = 8; {flow}; {used}\n{FUNCTIONS}"));
        let verdict = verify(&object.programs[0], &object.maps, &Limits::default());
        assert!(verdict.is_ok(), "{flow}: {verdict:?}");
    }
    // A size, and one that comes from a slot.
    let read = "r1 = r10; r1 += -16; r3 = 0; call 112; r0 = 0; exit";
    for (first, second) in [(8, 24), (24, 8)] {
        let size = format!("r7 = {first}; if r6 == 0 goto +1; r7 = {second}");
        refuses(UNKNOWN, &format!("{size}; r2 = r7; {read}"), "r2 of probe_read_user");
        refuses(
            UNKNOWN,
            &format!("{size}; *(u64 *)(r10 - 24) = r7; goto +0; r2 = *(u64 *)(r10 - 24); {read}"),
            "r2 of probe_read_user",
        );
    }
    // How often a loop goes round.
    refuses(
        &before,
        "r7 = 2; if r6 == 0 goto +1; r7 = 3; here: *(u64 *)(r0 + 0) = 1; r0 += 8; r7 += -1; if r7 != 0 goto here
        r0 = 0; exit",
        "not known to be inside",
    );
}

#[test]
fn tries_take_whole_keys() {
    let trie = "r1 = map[@trie] ll";
    let key = "*(u64 *)(r10 - 8) = 8; r2 = r10; r2 += -8";
    for call in ["map_lookup_elem", "map_delete_elem"] {
        refuses(trie, &format!("r2 = r10; r2 += -8; call {call}; r0 = 0; exit"), "never written");
        let short = "*(u32 *)(r10 - 4) = 8; r2 = r10; r2 += -4";
        refuses(trie, &format!("{short}; call {call}; r0 = 0; exit"), "r2 of");
    }
    refuses(
        trie,
        &format!("{key}; call map_lookup_elem; r0 = *(u64 *)(r0 + 0); exit"),
        "must be compared with 0",
    );
    let found = format!("{trie}; {key}; call map_lookup_elem; if r0 != 0 goto +1; exit");
    refuses(&found, "r0 = *(u64 *)(r0 + 16); exit", "");
    refuses(trie, &format!("{key}; call map_push_elem; exit"), "the helper does not take");
}

#[test]
fn queues_and_stacks_have_helpers_of_their_own() {
    let (queue, stack) = ("r1 = map[@queue] ll", "r1 = map[@stack] ll");
    let eight = "r2 = r10; r2 += -8; *(u64 *)(r10 - 8) = 0";
    for call in ["map_lookup_elem", "map_delete_elem"] {
        let part = "kind queue, which the helper does not take";
        refuses(queue, &format!("{eight}; call {call}; r0 = 0; exit"), part);
    }
    let part = "kind stack, which the helper does not take";
    refuses(stack, &format!("{eight}; r3 = r2; r4 = 0; call map_update_elem; exit"), part);
    refuses(stack, &format!("{eight}; r3 = 8; r4 = 0; call ringbuf_output; exit"), part);
    for map in ["hash", "array", "percpu", "ring"] {
        for call in ["map_push_elem", "map_pop_elem", "map_peek_elem"] {
            let text = format!("r1 = map[@{map}] ll; r3 = 0; call {call}; r0 = 0; exit");
            refuses(eight, &text, "which the helper does not take");
        }
    }
    refuses(eight, "r1 = 5; r3 = 0; call map_push_elem; exit", "a map is needed");
    // A Bloom filter is pushed to and asked, and reads what it is asked for.
    let filter = "r1 = map[@filter] ll";
    for call in ["map_pop_elem", "map_lookup_elem", "map_delete_elem"] {
        let part = "kind bloom_filter, which the helper does not take";
        refuses(filter, &format!("{eight}; call {call}; r0 = 0; exit"), part);
    }
    refuses(filter, "r2 = r10; r2 += -8; call map_peek_elem; exit", "never written");
    refuses(
        filter,
        "*(u32 *)(r10 - 4) = 1; r2 = r10; r2 += -4; call map_peek_elem; exit",
        "r2 of map_peek_elem",
    );
    // What is pushed is the whole value, and was written.
    refuses(queue, &format!("{eight}; r3 = 0; call map_push_elem; exit"), "r2 of map_push_elem");
    refuses(stack, "r2 = r10; r2 += -8; r3 = 0; call map_push_elem; exit", "never written");
    refuses(stack, &format!("{eight}; call map_push_elem; exit"), "r3 of map_push_elem");
    refuses(stack, &format!("{eight}; r3 = r10; call map_push_elem; exit"), "where a number is needed");
    // What is taken has room.
    refuses(queue, "r2 = r10; r2 += -8; call map_pop_elem; exit", "r2 of map_pop_elem");
    refuses(stack, "r2 = r10; r2 += -520; call map_peek_elem; exit", "r2 of map_peek_elem");
    refuses("r6 = r1", "r1 = map[@stack] ll; r2 = r6; call map_pop_elem; exit", "may reach");
    refuses(stack, "r2 = 8; call map_pop_elem; exit", "may reach");
    refuses(
        LOOKUP,
        "r2 = r0; r1 = map[@queue] ll; call map_pop_elem; r0 = 0; exit",
        "must be compared with 0",
    );
    refuses(FOUND, "r2 = r0; r2 += 8; r1 = map[@queue] ll; call map_pop_elem; r0 = 0; exit", "r2 of");
    // A pointer that was on the stack is gone, and so are the registers.
    let spilled = "*(u64 *)(r10 - 8) = r10; r1 = map[@stack] ll; r2 = r10; r2 += -8; call map_pop_elem";
    refuses(spilled, "r1 = *(u64 *)(r10 - 8); r0 = *(u64 *)(r1 - 16); exit", "");
    refuses(stack, "r2 = r10; r2 += -8; call map_pop_elem; r0 = r2; exit", "r2 is read");
}

#[test]
fn maps_that_cannot_be() {
    let check = |kind, key_bytes, value_bytes, max_entries, part: &str| {
        let mut object = object("r0 = 0", "exit");
        object.maps = vec![MapSpec::new("@m", kind, key_bytes, value_bytes, max_entries)];
        let rejection = rejection(&object);
        assert!(rejection.at.is_none() && rejection.to_string().contains(part), "{rejection}");
    };
    check(MapKind::Hash, 0, 8, 1, "a key of 0 bytes");
    check(MapKind::Hash, 65_537, 8, 1, "a key of 65537 bytes");
    check(MapKind::Hash, u32::MAX, 8, 1, "a key of");
    check(MapKind::Hash, 8, 0, 1, "a value of 0 bytes");
    check(MapKind::Hash, 8, u32::MAX, 1, "a value of");
    check(MapKind::PerCpuHash, 8, 8, 0, "no entries");
    check(MapKind::Array, 8, 8, 1, "the key of an array");
    check(MapKind::PerCpuArray, 0, 8, 1, "the key of an array");
    check(MapKind::Queue, 4, 8, 1, "a queue has no key");
    check(MapKind::Stack, 0, 0, 1, "a value of 0 bytes");
    check(MapKind::Stack, 0, 8, 0, "no entries");
    check(MapKind::BloomFilter, 4, 8, 1, "a bloom_filter has no key");
    check(MapKind::BloomFilter, 0, 0, 1, "a value of 0 bytes");
    check(MapKind::PerfEventArray, 4, 8, 1, "4 bytes each");
    check(MapKind::CgroupArray, 8, 4, 1, "4 bytes each");
    check(MapKind::CgroupArray, 4, 4, 0, "no entries");
    check(MapKind::StackTrace, 8, 8, 1, "a key of 4 bytes");
    check(MapKind::StackTrace, 4, 12, 1, "a value of 8 bytes for each");
    check(MapKind::StackTrace, 4, 0, 1, "a value of 8 bytes for each");
    check(MapKind::StackTrace, 4, 1024, 1, "1 to 127");
    check(MapKind::StackTrace, 4, 8, 0, "no entries");
    check(MapKind::RingBuf, 4, 0, 4096, "no key and no value");
    check(MapKind::RingBuf, 0, 0, 4095, "power of two");
    check(MapKind::RingBuf, 0, 0, 12288, "power of two");
    check(MapKind::RingBuf, 0, 0, 0, "power of two");
    check(MapKind::RingBuf, 0, 0, 1 << 31, "power of two");
    let flags = |kind, flags, part: &str| {
        let mut object = object("r0 = 0", "exit");
        object.maps = vec![MapSpec { flags, ..MapSpec::new("@m", kind, 4, 8, 1) }];
        let rejection = rejection(&object);
        assert!(rejection.at.is_none() && rejection.to_string().contains(part), "{rejection}");
    };
    for (kind, extra) in [(MapKind::BloomFilter, 16), (MapKind::Queue, 1), (MapKind::Queue, 1 << 40)] {
        let mut object = object("r0 = 0", "exit");
        object.maps = vec![MapSpec { extra, ..MapSpec::new("@m", kind, 0, 8, 1) }];
        assert!(rejection(&object).to_string().contains("an extra of"));
    }
    let trie = |key_bytes, flags, part: &str| {
        let mut object = object("r0 = 0", "exit");
        object.maps = vec![MapSpec { flags, ..MapSpec::new("@m", MapKind::LpmTrie, key_bytes, 8, 1) }];
        let rejection = rejection(&object);
        assert!(rejection.to_string().contains(part), "{rejection}");
    };
    trie(8, 0, "needs the flag BPF_F_NO_PREALLOC");
    trie(4, 1, "a key of 4 bytes; the limits of an LPM trie are 5 and 260");
    trie(261, 1, "a key of 261 bytes");
    trie(8, 3, "which maps of kind lpm_trie do not take");
    let queue_flags = |flags, part: &str| {
        let mut object = object("r0 = 0", "exit");
        object.maps = vec![MapSpec { flags, ..MapSpec::new("@m", MapKind::Queue, 0, 8, 1) }];
        assert!(rejection(&object).to_string().contains(part));
    };
    flags(MapKind::Hash, 1 << 2, "flags 0x4, which maps of kind hash do not take");
    queue_flags(1, "flags 0x1, which maps of kind queue do not take");
    flags(MapKind::Array, 1, "flags 0x1, which maps of kind array do not take");
    flags(MapKind::Array, 1 << 31, "flags 0x80000000, which");
    flags(MapKind::Array, flag::RDONLY | flag::WRONLY, "at once");
    flags(MapKind::Hash, flag::RDONLY_PROG | flag::WRONLY_PROG, "at once");
}

#[test]
fn lru_maps_are_hashes_to_the_verifier() {
    let check = |before: &str, text: &str, part: &str| {
        let mut object = object(before, text);
        object.maps[0].kind = MapKind::LruHash;
        object.maps[2].kind = MapKind::LruPerCpuHash;
        let shown = rejection(&object).to_string();
        assert!(shown.contains(part), "{shown}");
    };
    check(LOOKUP, "r0 = *(u64 *)(r0 + 0); exit", "must be compared with 0 first");
    check(FOUND, "r0 = *(u64 *)(r0 + 16); exit", "inside its 16 bytes");
    check(LANE, "r1 = 1; lock *(u64 *)(r0 + 8) += r1; exit", "inside its 8 bytes");
    check("r0 = map[@hash][0] + 0x0 ll", "r0 = 0; exit", "no fixed address");
}

#[test]
fn read_only_maps_are_not_written_and_write_only_ones_not_read() {
    let with = |flags: u32, before: &str, text: &str| {
        let mut object = object(before, text);
        object.maps[..2].iter_mut().for_each(|map| map.flags = flags);
        object
    };
    let check = |flags, before: &str, text: &str, part: &str| {
        let shown = rejection(&with(flags, before, text)).to_string();
        assert!(shown.contains(part), "{shown}");
    };
    let accepted = |flags, before: &str, text: &str| {
        let object = with(flags, before, text);
        verify(&object.programs[0], &object.maps, &Limits::default())
            .unwrap_or_else(|error| panic!("{error}"));
    };
    let eight = "r2 = r10; r2 += -8; *(u64 *)(r10 - 8) = 0; r3 = 0";
    let value = "r0 = map[@array][0] + 0x0 ll";
    let read_only = "@array is read-only (BPF_F_RDONLY_PROG)";
    check(flag::RDONLY_PROG, value, "*(u64 *)(r0 + 0) = 1; r0 = 0; exit", read_only);
    check(flag::RDONLY_PROG, value, "r1 = 1; lock *(u64 *)(r0 + 0) += r1; r0 = 0; exit", read_only);
    check(flag::RDONLY_PROG, FOUND, "*(u8 *)(r0 + 0) = 1; r0 = 0; exit", "@hash is read-only");
    check(flag::RDONLY_PROG, value, "r1 = r0; r2 = 8; call get_current_comm; r0 = 0; exit", read_only);
    let key = "*(u64 *)(r10 - 8) = 0; r2 = r10; r2 += -8; r1 = map[@hash] ll";
    let update = "r3 = r10; r3 += -24; *(u64 *)(r10 - 16) = 0; *(u64 *)(r10 - 24) = 0; r4 = 0";
    let update = format!("{key}; {update}; call map_update_elem; r0 = 0; exit");
    check(flag::RDONLY_PROG, "r0 = 0", &update, "map_update_elem writes to it");
    check(flag::RDONLY_PROG, key, "call map_delete_elem; r0 = 0; exit", "map_delete_elem writes to it");
    for call in ["map_push_elem", "map_pop_elem", "map_peek_elem"] {
        let mut object = object("r1 = map[@stack] ll", &format!("{eight}; call {call}; r0 = 0; exit"));
        object
            .maps
            .iter_mut()
            .filter(|map| map.name == "@stack")
            .for_each(|map| map.flags = flag::RDONLY_PROG);
        let verdict = verify(&object.programs[0], &object.maps, &Limits::default()).map(drop);
        assert_eq!(verdict.is_ok(), call == "map_peek_elem", "{call}: {verdict:?}");
    }
    accepted(flag::RDONLY_PROG, FOUND, "r0 = *(u64 *)(r0 + 0); exit");
    let write_only = "@array is write-only (BPF_F_WRONLY_PROG)";
    check(flag::WRONLY_PROG, value, "r0 = *(u64 *)(r0 + 0); exit", write_only);
    check(flag::WRONLY_PROG, value, "r1 = 1; lock *(u64 *)(r0 + 0) += r1; r0 = 0; exit", write_only);
    let as_key = "r2 = r0; r1 = map[@percpu] ll; call map_delete_elem; r0 = 0; exit";
    check(flag::WRONLY_PROG, value, as_key, write_only);
    accepted(flag::WRONLY_PROG, value, "*(u64 *)(r0 + 0) = 1; r0 = 0; exit");
    accepted(flag::WRONLY_PROG, "r0 = 0", &update);
}

#[test]
fn programs_beyond_the_limits() {
    let mut object = object("r0 = 0", "exit");
    let add = object.programs[0].insns[0];
    object.programs[0].insns.splice(0..0, std::iter::repeat_n(add, 65_535));
    let rejection = rejection(&object);
    assert_eq!((rejection.kind, rejection.at), (RejectionKind::TooBig, None), "{rejection}");
}

#[test]
fn messages_name_program_instruction_and_reason() {
    let object = object(FOUND, "r0 = *(u64 *)(r0 + 12); exit");
    assert_eq!(
        rejection(&object).to_string(),
        "p: instruction 8: `r0 = *(u64 *)(r0 + 0xc)`: unsafe: 8 bytes at a pointer 0x0 bytes into a value of \
         @hash+0xc are not known to be inside its 16 bytes"
    );
}

/// The callback is the function `f` for each of the rounds.
#[test]
fn callbacks() {
    let call = |arguments: &str, after: &str, f: &str| {
        format!("{arguments}; r4 = 0; call loop; {after}; r0 = 0; exit; f: {f}")
    };
    let plain = "r1 = 9; r2 = f ll; r3 = 0";
    let with_slot = "*(u64 *)(r10 - 8) = 0; r1 = 9; r2 = f ll; r3 = r10; r3 += -8";
    let check =
        |arguments: &str, after: &str, f: &str, part: &str| refuses("", &call(arguments, after, f), part);
    // What the callback answers.
    check(plain, "", "r0 = 2; exit", "a callback answers 0, to go on, or 1, to stop");
    check(plain, "", "r0 = -1; exit", "a callback answers 0");
    check(plain, "", "r0 = r1; exit", "a callback answers 0");
    check(plain, "", "r0 = r10; exit", "stack of the function that ends here");
    check(plain, "", "r0 = f ll; exit", "where a number is needed");
    check(plain, "", "exit", "r0 is read but holds nothing");
    // What it is given.
    check(plain, "", "r0 = r3; exit", "r3 is read but holds nothing");
    check(plain, "", "r0 = r6; exit", "r6 is read but was never written");
    check(plain, "", "r0 = *(u64 *)(r2 + 0); exit", "not a pointer to memory");
    check(with_slot, "", "*(u64 *)(r2 + 8) = 1; r0 = 0; exit", "outside the stack");
    // The arguments of the helper.
    check("r1 = 9; r2 = 0; r3 = 0", "", "r0 = 0; exit", "a function of the program is needed, not a number");
    check(
        "r1 = 9; r2 = r10; r3 = 0",
        "",
        "r0 = 0; exit",
        "a function of the program is needed, not a stack pointer",
    );
    check(
        "r3 = r1; r1 = 9; r2 = f ll",
        "",
        "r0 = 0; exit",
        "a stack pointer or 0 is needed, not the context",
    );
    check("r1 = 9; r2 = f ll; r3 = 5", "", "r0 = 0; exit", "a stack pointer or 0 is needed");
    check("r1 = r10; r2 = f ll; r3 = 0", "", "r0 = 0; exit", "where a number is needed");
    check("r2 = f ll; r3 = 0", "r1 = 9", "r0 = 0; exit", "r1 of loop");
    // The address of a function goes nowhere else.
    let leak = |text: &str, part: &str| refuses("", &format!("{text}; r0 = 0; exit; f: r0 = 0; exit"), part);
    leak("r0 = f ll; exit", "where it would leak");
    leak("r2 = f ll; r1 = map[@array][0] ll; *(u64 *)(r1 + 0) = r2", "stored outside the stack");
    leak("r2 = f ll; r2 += 8", "arithmetic on the function");
    leak("r2 = f ll; w3 = w2", "a part of the function");
    leak("r2 = f ll; r0 = *(u64 *)(r2 + 0)", "not a pointer to memory");
    leak("r2 = f ll; *(u64 *)(r2 + 0) = 0", "not a pointer to memory");
    leak("r2 = f ll; if r2 == 5 goto +0", "compared with something else than 0");
    leak("r2 = f ll; r3 = *(u64 *)(r1 + 0); r3 += r2", "arithmetic on the function");
    leak("r1 = f ll; *(u64 *)(r10 - 8) = r1; r0 = *(u32 *)(r10 - 8)", "part of a pointer");
    leak(
        "r1 = f ll; *(u64 *)(r10 - 8) = r1; r2 = r10; r2 += -8; r1 = map[@hash] ll; call 1",
        "part of a pointer",
    );
    refuses_slot(Insn { opcode: 0x18, dst: 1, src: 4, off: 0, imm: 1 }, "");
    leak("r1 = pc+0x7000 ll", "outside the program");
    leak("r1 = pc+0x0 ll", "middle of a wide load");
    // What it leaves: the caller's stack is as some number of rounds made it.
    let bounded = "*(u64 *)(r10 - 8) = 8; r1 = 9; r2 = f ll; r3 = r10; r3 += -8";
    let index = "r1 = *(u64 *)(r10 - 8); r2 = map[@array][0] ll; r2 += r1; r0 = *(u64 *)(r2 + 0)";
    check(bounded, index, "*(u64 *)(r2 + 0) = 9; r0 = 0; exit", "not known to be inside");
    check(
        bounded,
        index,
        "r3 = *(u64 *)(r2 + 0); r3 += 1; *(u64 *)(r2 + 0) = r3; r0 = 0; exit",
        "not known to be inside",
    );
    check(
        bounded,
        "r1 = *(u64 *)(r10 - 8)",
        "r3 = *(u64 *)(r2 + 0); *(u64 *)(r2 + 0) = r10; r0 = 0; exit",
        "outlive it",
    );
    let unwritten = "r1 = 9; r2 = f ll; r3 = r10; r3 += -8";
    check(unwritten, "r1 = *(u64 *)(r10 - 8)", "*(u64 *)(r2 + 0) = 1; r0 = 0; exit", "never written");
    let pointer = "*(u64 *)(r10 - 8) = r10; r1 = 9; r2 = f ll; r3 = r10; r3 += -8";
    check(pointer, "r1 = *(u64 *)(r10 - 8); r0 = *(u64 *)(r1 - 8)", "*(u64 *)(r2 + 0) = 1; r0 = 0; exit", "");
    // A round that is right only as the first.
    check(
        pointer,
        "",
        "r3 = *(u64 *)(r2 + 0); r3 = *(u64 *)(r3 - 8); *(u64 *)(r2 + 0) = 1; r0 = 0; exit",
        "",
    );
    // The elements of a map.
    let each = "r1 = map[@hash] ll; r2 = f ll; r3 = 0";
    let each = |f: &str, part: &str| {
        refuses("", &format!("{each}; r4 = 0; call for_each_map_elem; r0 = 0; exit; f: {f}"), part);
    };
    each("*(u64 *)(r2 + 0) = 1; r0 = 0; exit", "a key of @hash is read by plain loads alone");
    each("r1 = 1; lock *(u64 *)(r2 + 0) += r1; r0 = 0; exit", "a key of @hash is read by plain loads alone");
    each("r0 = *(u64 *)(r2 + 1); r0 = 0; exit", "not known to be inside its 8 bytes");
    each("r2 += 8; r0 = *(u8 *)(r2 + 0); r0 = 0; exit", "not known to be inside its 8 bytes");
    each("r0 = *(u64 *)(r3 + 16); r0 = 0; exit", "not known to be inside its 16 bytes");
    each("r1 = r2; r2 = 8; call get_current_comm; r0 = 0; exit", "is not to be written");
    each("r1 = map[@array][0] ll; *(u64 *)(r1 + 0) = r2; r0 = 0; exit", "stored outside the stack");
    each("r0 = r2; exit", "where a number is needed");
    each("r0 = *(u64 *)(r4 + 0); exit", "not a pointer to memory");
    each("r0 = r5; exit", "r5 is read but holds nothing");
    each("r0 = 2; exit", "a callback answers 0");
    let of = |map: &str| {
        format!(
            "r1 = map[{map}] ll; r2 = f ll; r3 = 0; r4 = 0; call for_each_map_elem; exit; f: r0 = 0; exit"
        )
    };
    refuses("", &of("@ring"), "a map of kind ringbuf, which the helper does not take");
    refuses("", &of("@queue"), "a map of kind queue, which the helper does not take");
    refuses("", &of("@trie"), "a map of kind lpm_trie, which the helper does not take");
    refuses(
        "",
        "r1 = 5; r2 = f ll; r3 = 0; r4 = 0; call for_each_map_elem; exit; f: r0 = 0; exit",
        "a map is needed",
    );
    // Records.
    let reserve = "r1 = map[@ring] ll; r2 = 32; r3 = 0; call ringbuf_reserve; if r0 == 0 goto +0";
    check(plain, "", &format!("{reserve}; r0 = 0; exit"), "neither submitted nor discarded at its end");
    check(plain, "", &format!("{reserve}; r0 = 1; exit"), "neither submitted nor discarded at its end");
    let record =
        "*(u64 *)(r10 - 8) = r6; r1 = 9; r2 = f ll; r3 = r10; r3 += -8; r4 = 0; call loop; r0 = 0; exit
        f: r1 = *(u64 *)(r2 + 0); r2 = 0; call ringbuf_submit; r0 = 1; exit";
    refuses(RECORD, record, "gives back a ring record that it did not reserve");
    // Ends.
    let endless = "here: r1 = 1; r2 = f ll; r3 = 0; r4 = 0; call loop; goto here; f: r0 = 0; exit";
    refuses("", endless, "the loop may not end");
    check(plain, "", "here: goto here; r0 = 0; exit", "the loop may not end");
    let restarted = "*(u64 *)(r10 - 8) = 0; here: r1 = 1; r2 = f ll; r3 = r10; r3 += -8; r4 = 0; call loop; r1 = *(u64 *)(r10 - 8)
        if r1 == 5 goto out; *(u64 *)(r10 - 8) = 5; goto here; out: r0 = 0; exit
        f: r6 = r2; call ktime_get_ns; *(u64 *)(r6 + 0) = r0; r0 = 0; exit";
    refuses("", restarted, "the loop may not end");
    // Nesting.
    check(plain, "", "r1 = 9; r2 = f ll; r3 = 0; r4 = 0; call loop; r0 = 0; exit", "");
    check(plain, "", "call f; r0 = 0; exit", "recursive");
    check(
        plain,
        "",
        "call g; r0 = 0; exit; g: r1 = 9; r2 = f ll; r3 = 0; r4 = 0; call loop; exit",
        "nest deeper than 8",
    );
    let deep: String = (1..=8)
        .map(|n| format!("f{n}: r1 = 9; r2 = f{} ll; r3 = 0; r4 = 0; call loop; r0 = 0; exit\n", n + 1))
        .collect();
    let deep = format!("r1 = 9; r2 = f1 ll; r3 = 0; r4 = 0; call loop; r0 = 0; exit\n{deep}f9: r0 = 0; exit");
    refuses("", &deep, "calls and callbacks nest deeper than 8");
    check(
        "*(u64 *)(r10 - 264) = 0; r1 = 9; r2 = f ll; r3 = 0",
        "",
        "*(u64 *)(r10 - 256) = 0; r0 = 0; exit",
        "take 528 bytes",
    );
    let varied = "r2 = f ll; r3 = *(u64 *)(r1 + 0); if r3 == 0 goto +2; r2 = g ll; r1 = 9; r3 = 0; r4 = 0; call loop; r0 = 0; exit
        f: r0 = 0; exit; g: r0 = 0; exit";
    does_not_run("", varied, "the callback differs from path to path");
}

#[test]
fn kernel_functions() {
    let cookie = "call bpf_session_cookie";
    refuses(cookie, "exit", "where it would leak");
    refuses(cookie, "r0 = *(u64 *)(r0 + 8); exit", "not known to be inside its 8 bytes");
    refuses(cookie, "r0 = *(u64 *)(r0 - 1); exit", "not known to be inside its 8 bytes");
    refuses(cookie, "*(u64 *)(r0 + 0) = r10; r0 = 0; exit", "stored outside the stack");
    refuses(cookie, "r1 = 1; lock *(u32 *)(r0 + 2) += r1; r0 = 0; exit", "may not be aligned");
    refuses("r2 = 5; call bpf_session_is_return", "r0 = r2; exit", "r2 is read but holds nothing");
    does_not_run("", "call btf 0x5; r0 = 0; exit", "a kernel function by BTF id");
    does_not_run("", "call f; exit; f: call bpf_session_is_return; exit", "in a function of the program");
    let text =
        MAPS.replace("program \"p\" probe", "program \"p\" xdp") + "call bpf_session_is_return\nexit\n";
    let object = asm::parse(&text).expect("is assembly text");
    let rejection = rejection(&object);
    assert_eq!(rejection.kind, RejectionKind::Unsupported, "{rejection}");
}

#[test]
fn tail_calls() {
    let call = "r2 = map[@jumps] ll; r3 = 0; call tail_call";
    refuses("", &format!("{call}; exit"), "r0 holds nothing");
    refuses("", &format!("{call}; r0 = r3; exit"), "r3 is read but holds nothing");
    refuses(
        "",
        "r2 = map[@array] ll; r3 = 0; call tail_call; r0 = 0; exit",
        "a map of kind array, which the helper",
    );
    refuses(
        "",
        "r2 = map[@ring] ll; r3 = 0; call tail_call; r0 = 0; exit",
        "a map of kind ringbuf, which the helper",
    );
    refuses("", "r2 = 5; r3 = 0; call tail_call; r0 = 0; exit", "a map is needed");
    refuses("", "r2 = map[@jumps] ll; r3 = r10; call tail_call; r0 = 0; exit", "where a number is needed");
    refuses("r1 = r10", &format!("{call}; r0 = 0; exit"), "the context is needed, not a stack pointer");
    refuses(RECORD, &format!("r7 = r6; r1 = 0; {call}; r0 = 0; exit"), "the context is needed");
    let record = "r7 = r1; r1 = map[@ring] ll; r2 = 32; r3 = 0; call ringbuf_reserve; if r0 != 0 goto +1; exit; r1 = r7";
    refuses(record, &format!("{call}; r0 = 0; exit"), "before another program takes over");
    // No program looks at slots.
    let lookup = "*(u32 *)(r10 - 4) = 0; r2 = r10; r2 += -4; r1 = map[@jumps] ll; call 1; r0 = 0; exit";
    refuses("", lookup, "a map of kind prog_array, which the helper does not take");
    refuses("", "r1 = map[@jumps][0] ll; r0 = 0; exit", "no fixed address");
    does_not_run("", &format!("call f; exit; f: {call}; r0 = 0; exit"), "tail calls from a function");
    let varied = "r2 = map[@jumps] ll; r4 = *(u64 *)(r1 + 0); if r4 == 0 goto +2; r2 = map[@more] ll; r3 = 0; call tail_call
        r0 = 0; exit";
    does_not_run("", varied, "differs from path to path");
    let in_callback = "r6 = r1; *(u64 *)(r10 - 8) = r1; r1 = 3; r2 = f ll; r3 = r10; r3 += -8; r4 = 0; call loop; r0 = 0; exit
        f: r1 = *(u64 *)(r2 + 0); r2 = map[@jumps] ll; r3 = 0; call tail_call; r0 = 0; exit";
    does_not_run("", in_callback, "tail calls from a function");
}

/// Programs made to take long: judged within the limits, in a time that a user would wait.
#[test]
fn hostile_programs_take_bounded_time() {
    let fill: String = (1..=63).map(|slot| format!("*(u64 *)(r10 - {}) = 0\n", slot * 8)).collect();
    let read: String = (1..=63).map(|slot| format!("r2 = *(u64 *)(r10 - {})\n", slot * 8)).collect();
    // The counter lies where states are compared last.
    let counter =
        "*(u64 *)(r10 - 512) = 0; here: r0 = *(u64 *)(r10 - 512); r0 += 1; *(u64 *)(r10 - 512) = r0; r0 = 0
        if r0 == 0 goto here";
    // Many paths that differ there, and that all are read.
    let doubling = |label: &str| -> String {
        let branch =
            |bit: u32| format!("if r6 & {0} goto {label}{bit}; r7 += {0}; {label}{bit}:\n", 1u32 << bit);
        (0..30).map(branch).collect()
    };
    let twice = format!("{}*(u64 *)(r10 - 512) = r7\n{}", doubling("a"), doubling("b"));
    let late: String = (0..30u32)
        .map(|bit| {
            let add =
                format!("r7 = *(u64 *)(r10 - 512); r7 += {}; *(u64 *)(r10 - 512) = r7; r7 = 0", 1u32 << bit);
            format!("if r6 & {} goto c{bit}; {add}; c{bit}:\n", 1u32 << bit)
        })
        .collect();
    let programs = [
        format!("{fill}{counter}; exit"),
        format!("{UNKNOWN}; r7 = 0; {fill}*(u64 *)(r10 - 512) = r7\n{late}{read}r2 = *(u64 *)(r10 - 512); r0 = 0; exit"),
        format!("{UNKNOWN}; {fill}r7 = 0; here: r7 += 1; *(u64 *)(r10 - 8) = r7; if r7 == r6 goto there; if r7 != 100000000 goto here
            there: {read}r0 = 0; exit"),
        format!("{UNKNOWN}; r7 = 0; {fill}{twice}{read}r2 = *(u64 *)(r10 - 512); r0 = 0; exit"),
        format!("{fill}here: call ktime_get_ns; *(u64 *)(r10 - 512) = r0; if r0 != 5 goto here; {read}exit"),
    ];
    for text in programs {
        let started = std::time::Instant::now();
        let object = object("", &text);
        let verdict = verify(&object.programs[0], &object.maps, &Limits::default());
        let shown = verdict.map_or_else(|rejection| rejection.to_string(), |_| "accepted".into());
        let seconds = started.elapsed().as_secs_f64();
        eprintln!("{seconds:.2} s: {shown}");
        assert!(seconds < 30.0, "{seconds} s for: {shown}");
    }
}

#[test]
fn what_changes_the_process_is_allowed_on_demand() {
    let limits = Limits { allow_changes: true, ..Limits::default() };
    let allowed = |text: &str| {
        let object = object("*(u64 *)(r10 - 8) = 0", text);
        verify(&object.programs[0], &object.maps, &limits)
    };
    for text in [
        "r1 = 10; call send_signal; exit",
        "r1 = 10; call send_signal_thread; exit",
        "r1 = 5; r2 = r10; r2 += -8; r3 = 8; call probe_write_user; exit",
    ] {
        assert!(allowed(text).is_ok(), "{text}");
    }
    for text in [
        "r1 = r10; call send_signal; exit",
        "r1 = 5; r2 = r10; r2 += -8; r3 = 9; call probe_write_user; exit",
        "r1 = 5; r2 = r10; r2 += -8; r3 = 0; call probe_write_user; exit",
    ] {
        assert_eq!(allowed(text).expect_err("is no call of it").kind, RejectionKind::Unsafe, "{text}");
    }
}

#[test]
fn maps_that_hold_maps_say_which() {
    let check = |maps: &[MapSpec], kind: RejectionKind, part: &str| {
        let object = Object { maps: maps.to_vec(), programs: object("", "r0 = 0; exit").programs };
        let rejection = rejection(&object);
        assert!(rejection.kind == kind && rejection.to_string().contains(part), "{rejection}");
    };
    let map = |kind, inner| MapSpec { inner, ..MapSpec::new("m", kind, 4, 4, 4) };
    let array = map(MapKind::Array, None);
    for kind in [MapKind::ArrayOfMaps, MapKind::HashOfMaps] {
        check(&[map(kind, None)], RejectionKind::Unsafe, "which maps it holds is not said");
        check(&[map(kind, Some(1))], RejectionKind::Unsafe, "one that is not there");
        check(&[map(kind, Some(0))], RejectionKind::Unsafe, "not held by others");
        check(
            &[map(kind, Some(1)), map(MapKind::PerCpuArray, None)],
            RejectionKind::Unsupported,
            "percpu_array",
        );
        check(
            &[MapSpec { value_bytes: 8, ..map(kind, Some(1)) }, array.clone()],
            RejectionKind::Unsafe,
            "4 bytes",
        );
        check(
            &[MapSpec { max_entries: 0, ..map(kind, Some(1)) }, array.clone()],
            RejectionKind::Unsafe,
            "no entries",
        );
    }
    check(&[map(MapKind::Array, Some(0))], RejectionKind::Unsafe, "holds no maps");
}
