//! Pointers that are no constant distance from their object, and pointers taken as numbers: what is accepted, by the
//! kernel too where a list says so, and what is refused.

use weir_ebpf::{Object, asm};
use weir_verifier::{InsnFacts, Limits, VerifiedProgram, verify};

const MAPS: &str = "
map @hash hash key 8 value 16 entries 64
map @array array key 4 value 16 entries 4
map @ring ringbuf key 0 value 0 entries 4096
";

/// r6 = a number that nobody knows; 16 bytes of stack are written.
const BUFFER: &str = "r6 = *(u64 *)(r1 + 0x70); *(u64 *)(r10 - 16) = 0; *(u64 *)(r10 - 8) = 0";
/// r0 = the 16 bytes of @hash's value for a key of 0; r6 = an unknown number.
const FOUND: &str = "r6 = *(u64 *)(r1 + 0x70); *(u64 *)(r10 - 8) = 0; r2 = r10; r2 += -8; r1 = map[@hash] ll
    call map_lookup_elem; if r0 != 0 goto +1; exit";
/// r6 = r0 = a record of 32 bytes.
const RECORD: &str =
    "r1 = map[@ring] ll; r2 = 32; r3 = 0; call ringbuf_reserve; if r0 != 0 goto +1; exit; r6 = r0";

/// Safe, and the kernel takes them too (of root).
#[rustfmt::skip]
const SAFE: &[(&str, &str)] = &[
    // Loads and stores at an index, of every width, upwards, downwards, and from a number.
    (BUFFER, "r6 &= 15; r2 = r10; r2 += -16; r2 += r6; *(u8 *)(r2 + 0) = 7; r0 = *(u8 *)(r2 + 0); exit"),
    (BUFFER, "r6 &= 7; r6 <<= 1; r2 = r10; r2 += -16; r2 += r6; *(u16 *)(r2 + 0) = r6; r0 = *(s16 *)(r2 + 0); exit"),
    (BUFFER, "r6 &= 3; r6 <<= 2; r2 = r10; r2 += -16; r2 += r6; *(u32 *)(r2 + 0) = r6; r0 = *(u32 *)(r2 + 0); exit"),
    (BUFFER, "r6 &= 8; r2 = r10; r2 += -16; r2 += r6; *(u64 *)(r2 + 0) = r6; r0 = *(u64 *)(r2 + 0); exit"),
    (BUFFER, "r6 &= 15; r6 += -16; r6 += r10; *(u8 *)(r6 + 0) = 1; r0 = *(u64 *)(r10 - 8); exit"),
    (BUFFER, "r6 &= 7; r2 = r10; r2 += r6; r0 = *(u8 *)(r2 - 16); *(u8 *)(r2 - 8) = r0; exit"),
    (BUFFER, "if r6 > 15 goto +4; r2 = r10; r2 += r6; r0 = *(u8 *)(r2 - 16); exit; r0 = 0; exit"),
    // A number that is there may be written over: it is still one.
    ("r6 = *(u64 *)(r1 + 0x70); *(u64 *)(r10 - 16) = r6; *(u64 *)(r10 - 8) = r6", "r6 &= 15; r2 = r10; r2 += -16; r2 += r6
        *(u8 *)(r2 + 0) = 7; r0 = *(u64 *)(r10 - 16); r2 = *(u64 *)(r10 - 8); r0 += r2; exit"),
    // A loop over bytes, by index.
    (BUFFER, "r0 = 0; r7 = 0; here: r2 = r10; r2 += -16; r2 += r7; r3 = *(u8 *)(r2 + 0); r0 += r3; r7 += 1; if r7 != 16 goto here; exit"),
    (BUFFER, "r0 = 0; r6 &= 15; here: r2 = r10; r2 += -16; r2 += r6; r3 = *(u8 *)(r2 + 0); r0 += r3; r6 += 1; if r6 < 16 goto here; exit"),
    // Kept in the stack and in a register across calls, and handed to a function.
    (BUFFER, "r6 &= 15; r7 = r10; r7 += -16; r7 += r6; *(u64 *)(r10 - 24) = r7; call ktime_get_ns; r2 = *(u64 *)(r10 - 24)
        *(u8 *)(r2 + 0) = 1; r0 = *(u8 *)(r7 + 0); exit"),
    (BUFFER, "r6 &= 15; r1 = r10; r1 += -16; r1 += r6; call f; r0 = *(u64 *)(r10 - 16); exit; f: *(u8 *)(r1 + 0) = 9; r0 = 0; exit"),
    (BUFFER, "r1 = r10; r1 += -16; r2 = r6; call f; exit; f: r2 &= 15; r1 += r2; r0 = *(u8 *)(r1 + 0); exit"),
    (BUFFER, "r6 &= 8; r3 = r10; r3 += -16; r3 += r6; r1 = 3; r2 = f ll; r4 = 0; call loop; r0 = 0; exit
        f: *(u64 *)(r2 + 0) = r1; r0 = 0; exit"),
    // Helpers: keys, values, memory to read and to write.
    (BUFFER, "r6 &= 8; r2 = r10; r2 += -16; r2 += r6; r1 = map[@hash] ll; call map_lookup_elem; if r0 == 0 goto +1; r0 = *(u64 *)(r0 + 0); exit"),
    (BUFFER, "r6 &= 7; r2 = r10; r2 += -16; r2 += r6; r3 = 8; r1 = map[@ring] ll; r4 = 0; call ringbuf_output; r0 = 0; exit"),
    (BUFFER, "r6 &= 7; r1 = r10; r1 += -16; r1 += r6; r2 = 8; call get_current_comm; r0 = *(u64 *)(r10 - 8); exit"),
    // The context's fields, read by a helper.
    ("", "r3 = r1; r3 += 112; r1 = r10; r1 += -8; r2 = 8; call probe_read_kernel; r0 = *(u64 *)(r10 - 8); exit"),
    ("", "r3 = 8; r3 += r1; r1 = r10; r1 += -8; r2 = 8; call probe_read; r0 = *(u64 *)(r10 - 8); exit"),
    ("", "r3 = r1; r3 += 112; r3 -= 8; *(u64 *)(r10 - 16) = r3; r3 = *(u64 *)(r10 - 16); r1 = r10; r1 += -8; r2 = 8; call probe_read_kernel; r0 = 0; exit"),
    ("r6 = *(u64 *)(r1 + 0x70)", "r6 &= 56; r3 = r1; r3 += r6; r1 = r10; r1 += -8; r2 = 8; call probe_read_kernel; r0 = *(u64 *)(r10 - 8); exit"),
    ("", "r1 += 8; r1 += -8; r0 = *(u64 *)(r1 + 0); exit"),
    // Pointers into one object: compared for equality and by order, and subtracted.
    (BUFFER, "r2 = r10; r2 += -16; r3 = r10; r3 += -8; r0 = 1; if r2 == r3 goto +1; r0 = 0; exit"),
    (BUFFER, "r6 &= 15; r2 = r10; r2 += -16; r2 += r6; if r2 == r10 goto +1; *(u8 *)(r2 + 0) = 1; r0 = 0; exit"),
    (BUFFER, "r6 &= 15; r2 = r10; r2 += -16; r2 += r6; r3 = r10; r3 += -8; if r2 >= r3 goto +1; *(u8 *)(r2 + 0) = 1; r0 = 0; exit"),
    (BUFFER, "r6 &= 15; r2 = r10; r2 += -16; r2 += r6; r0 = r10; r0 -= r2; exit"),
    (FOUND, "r6 &= 15; r1 = r0; r1 += r6; r1 -= r0; r0 = r1; exit"),
    (FOUND, "r6 &= 15; r1 = r0; r1 += r6; if r1 == r0 goto +0; if r1 > r0 goto +0; r0 = 0; exit"),
    (RECORD, "r1 = r6; r1 += 8; if r1 != r6 goto +0; r7 = r1; r7 -= r6; *(u64 *)(r1 + 0) = r7; r1 = r6; r2 = 0; call ringbuf_submit; r0 = 0; exit"),
    ("r2 = r1", "if r1 == r2 goto +0; r2 -= r1; r0 = r2; exit"),
    (BUFFER, "r6 &= 63; r2 = r10; r2 += -64; r2 += r6; r3 = r10; r3 += -16; if r2 < r3 goto +2; r0 = *(u8 *)(r2 + 0); exit; r0 = 0; exit"),
    // What a helper writes wherever it begins.
    ("r6 = *(u64 *)(r1 + 0x70)", "r6 &= 7; r1 = r10; r1 += -32; r1 += r6; r2 = 16; call get_current_comm; r0 = *(u64 *)(r10 - 24); exit"),
    // The own stack is elsewhere than all else.
    (FOUND, "r1 = r10; r1 += -8; if r0 == 0 goto +1; r1 = r0; r2 = r10; r2 += -8; if r1 == r2 goto +1; r0 = *(u64 *)(r1 + 0); r0 = 0; exit"),
    ("r6 = r1; *(u64 *)(r10 - 8) = 0", "r2 = r10; r2 += -8; r1 = map[@hash] ll; call map_lookup_elem; r2 = r10; r2 += -8; if r0 != r2 goto +1
        r0 = 1; r0 = 0; exit"),
    (BUFFER, "r2 = r10; r2 += -8; if r1 == r2 goto +0; if r2 != 0 goto +0; r0 = 0; exit"),
];

/// Safe, but Linux 6.18 does not see it.
#[rustfmt::skip]
const SAFE_HERE: &[(&str, &str)] = &[
    // Stack pointers moved down by a number; atomic operations at an index.
    (BUFFER, "r6 &= 15; r2 = r10; r2 += -1; r2 -= r6; *(u8 *)(r2 + 0) = r6; r0 = *(u8 *)(r2 + 0); exit"),
    (BUFFER, "r6 &= 8; r2 = r10; r2 += -16; r2 += r6; r3 = 5; lock *(u64 *)(r2 + 0) += r3; w3 = atomic_fetch_or((u32 *)(r2 + 4), w3); r0 = 0; exit"),
    (BUFFER, "r6 &= 7; r1 = r10; r1 += -8; r1 -= r6; r2 = 8; call get_current_comm; r0 = *(u64 *)(r10 - 16); exit"),
    // What a comparison of pointers says of where they point, and their difference.
    (BUFFER, "r2 = r10; r2 += -16; r0 = 0; here: r3 = *(u8 *)(r2 + 0); r0 += r3; r2 += 1; if r2 != r10 goto here; exit"),
    (BUFFER, "r6 &= 15; r2 = r10; r2 += -16; r2 += r6; r3 = r10; r3 -= r2; r2 = r10; r2 -= r3; r0 = *(u8 *)(r2 - 0); exit"),
    // A pointer that a number moved, which is checked afterwards; the number shifted, and moved on.
    (FOUND, "r6 &= 31; r3 = r0; r3 += r6; if r6 > 15 goto +1; r1 = *(u8 *)(r3 + 0); r0 = 0; exit"),
    (FOUND, "r6 &= 31; r3 = r6; r3 += r0; r3 += 2; if r6 > 13 goto +1; r1 = *(u8 *)(r3 + 0); r0 = 0; exit"),
    (FOUND, "r6 &= 31; r7 = r6; w7 <<= 1; r7 |= 1; if r6 > 7 goto +3; r3 = r0; r3 += r7; r1 = *(u8 *)(r3 + 0); r0 = 0; exit"),
    (FOUND, "r6 &= 31; r7 = r6; r7 <<= 2; r7 += 3; r3 = r0; r3 += r7; if r6 > 3 goto +1; r1 = *(u8 *)(r3 + 0); r0 = 0; exit"),
];

/// What is refused, and words of why.
#[rustfmt::skip]
const UNSAFE: &[(&str, &str, &str)] = &[
    // Outside, or not all of it written.
    (BUFFER, "r6 &= 31; r2 = r10; r2 += -16; r2 += r6; *(u8 *)(r2 + 0) = 7; r0 = 0; exit", "outside the stack"),
    (BUFFER, "r6 &= 15; r2 = r10; r2 += -16; r2 += r6; r0 = *(u16 *)(r2 + 0); exit", "outside the stack"),
    (BUFFER, "r6 &= 511; r2 = r10; r2 += -1; r2 -= r6; *(u8 *)(r2 - 1) = 1; r0 = 0; exit", "outside the stack"),
    (BUFFER, "r2 = r10; r2 += r6; r0 = 0; exit", "must be known to be within"),
    (BUFFER, "if r6 s> 15 goto +2; r2 = r10; r2 += r6; r0 = 0; exit", "must be known to be within"),
    (BUFFER, "r6 &= 15; r2 = r10; r2 += -17; r2 += r6; r0 = *(u8 *)(r2 + 0); exit", "never written"),
    (BUFFER, "r6 &= 7; r2 = r10; r2 += -16; r2 += r6; r0 = *(u32 *)(r2 + 0); exit", "may not be aligned"),
    (BUFFER, "r6 &= 6; r2 = r10; r2 += -16; r2 += r6; *(u32 *)(r2 + 0) = 1; r0 = 0; exit", "may not be aligned"),
    (BUFFER, "r6 &= 4; r2 = r10; r2 += -16; r2 += r6; r3 = 1; lock *(u64 *)(r2 + 0) += r3; r0 = 0; exit", "may not be aligned"),
    // What may have been written elsewhere is not written.
    ("r6 = *(u64 *)(r1 + 0x70)", "r6 &= 8; r2 = r10; r2 += -16; r2 += r6; *(u64 *)(r2 + 0) = 1; r0 = *(u64 *)(r10 - 8); exit", "never written"),
    ("r6 = *(u64 *)(r1 + 0x70)", "r6 &= 8; r2 = r10; r2 += -16; r2 += r6; *(u64 *)(r2 + 0) = 1; r0 = *(u64 *)(r2 + 0); exit", "never written"),
    ("r6 = *(u64 *)(r1 + 0x70)", "r6 &= 8; r1 = r10; r1 += -32; r1 += r6; r2 = 16; call get_current_comm; r0 = *(u64 *)(r10 - 32); exit", "never written"),
    ("r6 = *(u64 *)(r1 + 0x70)", "r6 &= 8; r1 = r10; r1 += -32; r1 += r6; r2 = 16; call get_current_comm; r0 = *(u64 *)(r10 - 16); exit", "never written"),
    // Pointers that a store may have hit are none any more, and none becomes a number.
    (BUFFER, "*(u64 *)(r10 - 16) = r10; r6 &= 15; r2 = r10; r2 += -16; r2 += r6; *(u8 *)(r2 + 0) = 1; r2 = *(u64 *)(r10 - 16); r0 = 0; exit", "never written"),
    (BUFFER, "*(u64 *)(r10 - 16) = r10; r6 &= 15; r2 = r10; r2 += -16; r2 += r6; r0 = *(u8 *)(r2 + 0); exit", "part of a pointer"),
    (BUFFER, "*(u64 *)(r10 - 16) = r10; r6 &= 8; r2 = r10; r2 += -16; r2 += r6; r0 = *(u64 *)(r2 + 0); exit", "part of a pointer"),
    (BUFFER, "*(u64 *)(r10 - 16) = r10; r6 &= 8; r2 = r10; r2 += -16; r2 += r6; r0 = 1; lock *(u64 *)(r2 + 0) += r0; exit", "part of a pointer"),
    (BUFFER, "r6 &= 8; r2 = r10; r2 += -16; r2 += r6; *(u64 *)(r2 + 0) = r1; r0 = 0; exit", "not constant"),
    (BUFFER, "r6 &= 15; r2 = r10; r2 += -16; r2 += r6; *(u64 *)(r10 - 8) = r2; r0 = *(u32 *)(r10 - 8); exit", "part of a pointer"),
    (BUFFER, "r6 &= 15; r2 = r10; r2 += -16; r2 += r6; r0 = r2; exit", "would leak"),
    // Helpers.
    (BUFFER, "r6 &= 9; r2 = r10; r2 += -16; r2 += r6; r1 = map[@hash] ll; call map_lookup_elem; r0 = 0; exit", "outside the stack"),
    (BUFFER, "r6 &= 8; r2 = r10; r2 += -24; r2 += r6; r1 = map[@hash] ll; call map_lookup_elem; r0 = 0; exit", "never written"),
    (BUFFER, "r6 &= 15; r1 = r10; r1 += -16; r1 += r6; r2 = 8; call get_current_comm; r0 = 0; exit", "outside the stack"),
    (BUFFER, "r6 &= 511; r1 = r10; r1 += -8; r1 -= r6; r2 = 8; call get_current_comm; r0 = 0; exit", "outside the stack"),
    (BUFFER, "*(u64 *)(r10 - 16) = r10; r6 &= 7; r2 = r10; r2 += -16; r2 += r6; r3 = 8; r1 = map[@ring] ll; r4 = 0; call ringbuf_output; r0 = 0; exit", "part of a pointer"),
    // Frames that end.
    ("r1 = *(u64 *)(r1 + 0x70)", "call f; r0 = 0; exit; f: r1 &= 7; r0 = r10; r0 += -8; r0 += r1; exit", "the function that ends here"),
    (BUFFER, "r1 = r10; r1 += -8; r2 = r6; call f; r0 = 0; exit; f: r2 &= 7; r3 = r10; r3 += -8; r3 += r2; *(u64 *)(r1 + 0) = r3; r0 = 0; exit", "outlive"),
    // The context.
    ("", "r1 += 8; r0 = *(u64 *)(r1 + 0); exit", "from its own address alone"),
    ("", "r1 += 8; *(u64 *)(r1 + 0) = 1; r0 = 0; exit", "from its own address alone"),
    ("", "r1 += 8; call get_func_ip; exit", "the context is needed, not"),
    ("r6 = *(u64 *)(r1 + 0x70)", "r1 += r6; r0 = 0; exit", "must be known to be within"),
    ("", "r1 += 8; r0 = r1; exit", "would leak"),
    ("", "r1 += 8; w1 += 1; r0 = 0; exit", "arithmetic on"),
    ("", "r1 += 200; if r1 == 0 goto +0; r0 = 0; exit", "outside its object"),
    // What a comparison or a difference would tell of addresses.
    ("", "if r1 == r10 goto +0; r0 = 0; exit", "would tell addresses"),
    (FOUND, "if r0 == r10 goto +0; r0 = 0; exit", "would tell addresses"),
    (FOUND, "r1 = r10; r1 += -8; if r0 > r1 goto +0; r0 = 0; exit", "would tell addresses"),
    (FOUND, "r1 = r0; r1 += 16; r2 = r10; r2 += -8; if r1 == r2 goto +0; r0 = 0; exit", "would tell addresses"),
    (FOUND, "r1 = map[@array][0] ll; if r0 == r1 goto +0; r0 = 0; exit", "would tell addresses"),
    (FOUND, "r1 = r0; r1 += 17; if r0 == r1 goto +0; r0 = 0; exit", "would tell addresses"),
    (BUFFER, "r2 = r10; r2 += 8; if r2 > r10 goto +0; r0 = 0; exit", "would tell addresses"),
    (BUFFER, "r2 = r10; r2 += -8; if r2 s> r10 goto +0; r0 = 0; exit", "would tell addresses"),
    (BUFFER, "r2 = r10; r2 += -8; if r2 & r10 goto +0; r0 = 0; exit", "would tell addresses"),
    (BUFFER, "r2 = r10; r2 += -8; if w2 == w10 goto +0; r0 = 0; exit", "only a part of"),
    (BUFFER, "r1 = r10; r1 += -16; call f; r0 = 0; exit; f: r2 = r10; r2 += -8; if r1 == r2 goto +0; r0 = 0; exit", "would tell addresses"),
    (FOUND, "r1 = r10; r1 -= r0; r0 = 0; exit", "arithmetic on"),
    (FOUND, "r1 = map[@array][0] ll; r1 -= r0; r0 = 0; exit", "arithmetic on"),
    (FOUND, "r1 = r0; w1 += w0; r0 = 0; exit", "arithmetic on"),
    (RECORD, "r7 = r6; r1 = map[@ring] ll; r2 = 32; r3 = 0; call ringbuf_reserve; if r0 == 0 goto +1; r0 -= r7; r0 = 0; exit", "arithmetic on"),
    // Moved by a number that is checked afterwards: not far enough down, another one, and moved again.
    (FOUND, "r6 &= 31; r3 = r0; r3 += r6; if r6 > 16 goto +1; r1 = *(u8 *)(r3 + 0); r0 = 0; exit", "inside"),
    (FOUND, "r6 &= 31; r3 = r0; r3 += r6; r6 += 1; if r6 > 17 goto +1; r1 = *(u8 *)(r3 + 0); r0 = 0; exit", "inside"),
    (FOUND, "r6 &= 31; r3 = r0; r3 += r6; r3 += r6; if r6 > 15 goto +1; r1 = *(u8 *)(r3 + 0); r0 = 0; exit", "inside"),
    (FOUND, "r6 &= 31; r7 = r6; r7 <<= 1; r7 |= 1; r7 += 1; r3 = r0; r3 += r7; if r6 > 7 goto +1; r1 = *(u8 *)(r3 + 0); r0 = 0; exit", "inside"),
    // The number is another one on the second way.
    (FOUND, "r8 = r6; r9 = r6; r8 s>>= 7; r8 &= 31; r6 &= 31; r3 = r0; r3 += r6; if r9 == 9 goto other
        here: if r6 > 15 goto +1; r1 = *(u8 *)(r3 + 0); r0 = 0; exit; other: r6 = r8; goto here", "inside"),
];

fn object(before: &str, text: &str) -> Object {
    let text = format!("{MAPS}program \"p\" probe\n{before}\n{text}").replace(';', "\n");
    asm::parse(&text).unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn verdict(object: &Object) -> Result<VerifiedProgram, String> {
    let limits = Limits { allow_unwritten_stack: false, ..Limits::default() };
    verify(&object.programs[0], &object.maps, &limits).map_err(|rejection| rejection.to_string())
}

fn accepted(before: &str, text: &str) -> VerifiedProgram {
    let object = object(before, text);
    verdict(&object).unwrap_or_else(|rejection| panic!("{rejection}\n{}", asm::print(&object)))
}

#[test]
fn what_stays_inside_is_accepted() {
    let verdicts = SAFE.iter().chain(SAFE_HERE).map(|(before, text)| (text, verdict(&object(before, text))));
    let refused: Vec<String> =
        verdicts.filter_map(|(text, verdict)| Some(format!("{text}: {}", verdict.err()?))).collect();
    assert!(refused.is_empty(), "{}", refused.join("\n"));
}

#[test]
fn the_kernel_accepts_it_too() {
    if let Err(reason) = testkit::kernel::available() {
        return testkit::skip::skip("weir-verifier::kernel_verdicts", reason);
    }
    let cases = SAFE.iter().map(|case| (case, true)).chain(SAFE_HERE.iter().map(|case| (case, false)));
    let others = cases.filter_map(|((before, text), is_known)| {
        let theirs = testkit::kernel::load(&object(before, text));
        (theirs.is_ok() != is_known).then(|| match theirs {
            Ok(_) => format!("{text}: the kernel accepts it"),
            Err(error) => format!("{text}: {error}"),
        })
    });
    let others: Vec<String> = others.collect();
    assert!(others.is_empty(), "{}", others.join("\n"));
}

#[test]
fn what_may_not_is_refused() {
    let wrong = UNSAFE.iter().filter_map(|(before, text, words)| match verdict(&object(before, text)) {
        Ok(_) => Some(format!("{text}: accepted, not refused for `{words}`")),
        Err(message) if message.contains("unsafe: ") && message.contains(words) => None,
        Err(message) => Some(format!("{text}: `{words}` is not in {message}")),
    });
    let wrong: Vec<String> = wrong.collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The frame is as deep as a pointer into it may reach.
#[test]
fn frames_hold_all_that_may_be_reached() {
    let bytes = |text: &str| accepted(BUFFER, text).stack_bytes();
    assert_eq!(bytes("r6 &= 31; r2 = r10; r2 += -1; r2 -= r6; *(u8 *)(r2 + 0) = 1; r0 = 0; exit"), 32);
    assert_eq!(
        bytes("r6 &= 63; r1 = r10; r1 += -16; r1 -= r6; r2 = 16; call get_current_comm; r0 = 0; exit"),
        80
    );
    assert_eq!(bytes("r2 = r10; r2 += -400; if r1 == r2 goto +0; r0 = 0; exit"), 400);
}

/// A helper that gets any place in the context may read all of it.
#[test]
fn all_of_the_context_is_there_for_a_helper() {
    let verified =
        accepted("", "r3 = r1; r3 += 112; r1 = r10; r1 += -8; r2 = 8; call probe_read_kernel; r0 = 0; exit");
    assert_eq!(verified.context_reads(), (1 << 21) - 1);
}

#[test]
fn comparisons_whose_answer_is_known_say_so() {
    let branch = |before: &str, text: &str, at: usize| {
        let InsnFacts { branch, .. } = accepted(before, text).facts()[at];
        branch
    };
    assert_eq!(branch("r2 = r10", "if r2 == r10 goto +0; r0 = 0; exit", 1), Some(true));
    assert_eq!(branch("r2 = r10; r2 += -8", "if r2 < r10 goto +0; r0 = 0; exit", 2), Some(true));
    assert_eq!(branch("r2 = r10; r2 += -8", "if r1 == r2 goto +0; r0 = 0; exit", 2), Some(false));
    assert_eq!(branch("r2 = r10; r2 += -8", "if r2 != r1 goto +0; r0 = 0; exit", 2), Some(true));
    assert_eq!(
        branch("r2 = *(u64 *)(r1 + 0); r2 &= 1; r3 = r10; r3 -= r2", "if r3 == r10 goto +0; r0 = 0; exit", 4),
        None
    );
}
