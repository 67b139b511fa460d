//! What each instruction does (RFC 9669): one line a case, in assembly text.

use weir_interp::Fault;
use weir_memory::Frame;

use crate::places;

/// Runs `lines` (separated by `;;`) and returns r0.
fn run(lines: &str) -> Result<u64, Fault> {
    let mut frame = Frame { cookie: 77, ..Frame::default() };
    frame.regs[14] = 0x1122_3344_5566_7788;
    places::run("", lines, &mut frame, 10_000)
}

/// `operation` on r0 (first `dst`) and r1 (`src`) leaves `expected` in r0.
fn check(operation: &str, dst: i64, src: i64, expected: u64) {
    let lines = format!("r0 = {dst:#x} ll;;r1 = {src:#x} ll;;{operation};;exit");
    assert_eq!(run(&lines), Ok(expected), "{operation} with {dst:#x}, {src:#x}");
}

const MIN64: i64 = i64::MIN;
const MIN32: i64 = 0x8000_0000;
/// Something in the upper half, which 32-bit operations must clear.
const HIGH: i64 = 0x7766_5544 << 32;

#[test]
fn addition_and_its_kin_wrap() {
    check("r0 += r1", -1, 2, 1);
    check("w0 += w1", HIGH | 0xffff_ffff, 2, 1);
    check("r0 -= r1", 0, 1, u64::MAX);
    check("w0 -= w1", HIGH, 1, 0xffff_ffff);
    check("r0 *= r1", 1 << 62, 6, 1 << 63);
    check("w0 *= w1", HIGH | 0x1_0001, 0x1_0001, 0x2_0001);
    check("r0 += -0x1", 0, 0, u64::MAX);
    check("w0 += -0x1", 0, 0, 0xffff_ffff);
    check("r0 = -r0", 5, 0, (-5i64) as u64);
    check("w0 = -w0", HIGH | 5, 0, 0xffff_fffb);
    check("r0 = -r0", MIN64, 0, 1 << 63);
}

#[test]
fn division_by_zero_is_zero() {
    check("r0 /= r1", 9, 0, 0);
    check("w0 /= w1", HIGH | 9, 0, 0);
    check("r0 s/= r1", -9, 0, 0);
    check("w0 s/= w1", HIGH | 9, HIGH, 0);
}

#[test]
fn modulo_by_zero_keeps_the_destination() {
    check("r0 %= r1", HIGH | 9, 0, (HIGH | 9) as u64);
    check("w0 %= w1", HIGH | 9, HIGH, 9);
    check("r0 s%= r1", -9, 0, (-9i64) as u64);
    check("w0 s%= w1", HIGH | 9, 0, 9);
}

#[test]
fn the_least_number_divided_by_minus_one_is_itself() {
    check("r0 s/= r1", MIN64, -1, 1 << 63);
    check("r0 s%= r1", MIN64, -1, 0);
    check("w0 s/= w1", MIN32, -1, 0x8000_0000);
    check("w0 s%= w1", HIGH | MIN32, -1, 0);
}

#[test]
fn division_is_signed_only_where_it_says_so() {
    check("r0 /= r1", -10, 3, u64::MAX.wrapping_sub(9) / 3);
    check("r0 s/= r1", -10, 3, (-3i64) as u64);
    check("r0 s%= r1", -10, 3, (-1i64) as u64);
    check("r0 s%= r1", 10, -3, 1);
    check("w0 /= w1", -10, 3, 0xffff_fff6 / 3);
    check("w0 s/= w1", -10, 3, 0xffff_fffd);
    check("w0 s%= w1", -10, 3, 0xffff_ffff);
    // The immediate is sign-extended before an unsigned division.
    check("r0 /= -0x1", -1, 0, 1);
    check("r0 %= -0x1", 5, 0, 5);
}

#[test]
fn bit_operations() {
    check("r0 |= r1", 0x0f, 0xf0, 0xff);
    check("r0 &= -0x10", HIGH | 0xff, 0, (HIGH | 0xf0) as u64);
    check("w0 &= -0x10", HIGH | 0xff, 0, 0xf0);
    check("r0 ^= -0x1", 0, 0, u64::MAX);
    check("w0 ^= w1", HIGH | 1, HIGH | 3, 2);
}

#[test]
fn shift_counts_are_taken_modulo_the_width() {
    check("r0 <<= r1", 1, 65, 2);
    check("w0 <<= w1", HIGH | 1, 33, 2);
    check("r0 >>= r1", MIN64, 127, 1);
    check("w0 >>= w1", HIGH | MIN32, 63, 1);
    check("r0 s>>= r1", MIN64, 63, u64::MAX);
    check("w0 s>>= w1", HIGH | MIN32, 31, 0xffff_ffff);
    check("w0 s>>= 0x4", MIN32, 0, 0xf800_0000);
}

#[test]
fn moves_extend_as_they_say() {
    check("r0 = r1", 0, -1, u64::MAX);
    check("w0 = w1", -1, -1, 0xffff_ffff);
    check("r0 = -0x1", 0, 0, u64::MAX);
    check("w0 = -0x1", 0, 0, 0xffff_ffff);
    check("r0 = (s8)r1", 0, 0x180, (-128i64) as u64);
    check("r0 = (s16)r1", 0, 0x18000, (-32768i64) as u64);
    check("r0 = (s32)r1", 0, HIGH | MIN32, MIN32.wrapping_neg() as u64);
    check("w0 = (s8)w1", 0, 0x180, 0xffff_ff80);
    check("w0 = (s16)w1", 0, 0x18000, 0xffff_8000);
}

#[test]
fn byte_swaps() {
    let bytes = 0x1122_3344_5566_7788;
    check("r0 = be16 r0", bytes, 0, 0x8877);
    check("r0 = be32 r0", bytes, 0, 0x8877_6655);
    check("r0 = be64 r0", bytes, 0, 0x8877_6655_4433_2211);
    check("r0 = le16 r0", bytes, 0, 0x7788);
    check("r0 = le32 r0", bytes, 0, 0x5566_7788);
    check("r0 = le64 r0", bytes, 0, bytes as u64);
    check("r0 = bswap16 r0", bytes, 0, 0x8877);
    check("r0 = bswap32 r0", bytes, 0, 0x8877_6655);
    check("r0 = bswap64 r0", bytes, 0, 0x8877_6655_4433_2211);
}

/// Whether `if CONDITION` is taken for these r0 and r1.
fn check_jump(condition: &str, dst: i64, src: i64, is_taken: bool) {
    let lines = format!(
        "r0 = {dst:#x} ll;;r1 = {src:#x} ll;;if {condition} goto +0x2;;r0 = 0x0;;exit;;r0 = 0x1;;exit"
    );
    assert_eq!(run(&lines), Ok(is_taken.into()), "{condition} with {dst:#x}, {src:#x}");
}

#[test]
fn comparisons_are_unsigned_unless_they_say_signed() {
    check_jump("r0 == r1", 5, 5, true);
    check_jump("r0 != r1", HIGH, 0, true);
    check_jump("w0 != w1", HIGH, 0, false);
    check_jump("w0 == w1", HIGH | 5, 5, true);
    check_jump("r0 > r1", -1, 1, true);
    check_jump("r0 s> r1", -1, 1, false);
    check_jump("r0 >= r1", 1, 1, true);
    check_jump("r0 < r1", 1, -1, true);
    check_jump("r0 s< r1", 1, -1, false);
    check_jump("r0 <= r1", 2, 1, false);
    check_jump("r0 s>= r1", -1, -1, true);
    check_jump("r0 s<= r1", -2, -1, true);
    check_jump("w0 s> w1", HIGH | MIN32, 0, false);
    check_jump("w0 s< w1", HIGH | MIN32, 0, true);
    check_jump("w0 > w1", MIN32, 0x7fff_ffff, true);
    check_jump("r0 & r1", 4, 6, true);
    check_jump("r0 & r1", 8, 6, false);
    check_jump("w0 & w1", HIGH, HIGH, false);
    check_jump("r0 > -0x1", -2, 0, false);
    check_jump("r0 s> -0x2", -1, 0, true);
    check_jump("r0 & -0x80000000", HIGH, 0, true);
    check_jump("w0 & -0x80000000", HIGH, 0, false);
}

/// Runs lines that may use the stack below r10.
fn check_lines(lines: &str, expected: u64) {
    assert_eq!(run(lines), Ok(expected), "{lines}");
}

#[test]
fn loads_zero_or_sign_extend() {
    let store = "r1 = 0x8182838485868788 ll;;*(u64 *)(r10 - 0x8) = r1;;";
    check_lines(&format!("{store}r0 = *(u8 *)(r10 - 0x8);;exit"), 0x88);
    check_lines(&format!("{store}r0 = *(u16 *)(r10 - 0x8);;exit"), 0x8788);
    check_lines(&format!("{store}r0 = *(u32 *)(r10 - 0x8);;exit"), 0x8586_8788);
    check_lines(&format!("{store}r0 = *(u64 *)(r10 - 0x8);;exit"), 0x8182_8384_8586_8788);
    check_lines(&format!("{store}r0 = *(s8 *)(r10 - 0x8);;exit"), 0xffff_ffff_ffff_ff88);
    check_lines(&format!("{store}r0 = *(s16 *)(r10 - 0x8);;exit"), 0xffff_ffff_ffff_8788);
    check_lines(&format!("{store}r0 = *(s32 *)(r10 - 0x8);;exit"), 0xffff_ffff_8586_8788);
    check_lines(&format!("{store}r0 = *(u32 *)(r10 - 0x7);;exit"), 0x8485_8687);
}

#[test]
fn stores_change_their_bytes_alone() {
    let fill = "r1 = -0x1;;*(u64 *)(r10 - 0x8) = r1;;r1 = 0x11;;";
    let read = ";;r0 = *(u64 *)(r10 - 0x8);;exit";
    check_lines(&format!("{fill}*(u8 *)(r10 - 0x8) = r1{read}"), 0xffff_ffff_ffff_ff11);
    check_lines(&format!("{fill}*(u16 *)(r10 - 0x8) = r1{read}"), 0xffff_ffff_ffff_0011);
    check_lines(&format!("{fill}*(u32 *)(r10 - 0x8) = r1{read}"), 0xffff_ffff_0000_0011);
    check_lines(&format!("{fill}*(u64 *)(r10 - 0x8) = -0x2{read}"), 0xffff_ffff_ffff_fffe);
    check_lines(&format!("{fill}*(u32 *)(r10 - 0x8) = -0x2{read}"), 0xffff_ffff_ffff_fffe);
    check_lines(&format!("{fill}*(u16 *)(r10 - 0x7) = 0x0{read}"), 0xffff_ffff_ff00_00ff);
}

#[test]
fn atomics_change_memory_and_fetch_only_where_they_say() {
    let start = "r1 = 0x500000005 ll;;*(u64 *)(r10 - 0x8) = r1;;r1 = 0x3;;r0 = 0x9;;";
    let memory = ";;r0 = *(u64 *)(r10 - 0x8);;exit";
    check_lines(&format!("{start}lock *(u64 *)(r10 - 0x8) += r1{memory}"), 0x5_0000_0008);
    check_lines(&format!("{start}lock *(u64 *)(r10 - 0x8) |= r1{memory}"), 0x5_0000_0007);
    check_lines(&format!("{start}lock *(u64 *)(r10 - 0x8) &= r1{memory}"), 1);
    check_lines(&format!("{start}lock *(u64 *)(r10 - 0x8) ^= r1{memory}"), 0x5_0000_0006);
    check_lines(&format!("{start}lock *(u32 *)(r10 - 0x8) += r1{memory}"), 0x5_0000_0008);
    check_lines(&format!("{start}lock *(u64 *)(r10 - 0x8) += r1;;r0 = r1;;exit"), 3);
    check_lines(
        &format!("{start}r1 = atomic_fetch_add((u64 *)(r10 - 0x8), r1);;r0 = r1;;exit"),
        0x5_0000_0005,
    );
    check_lines(&format!("{start}w1 = atomic_fetch_add((u32 *)(r10 - 0x8), w1);;r0 = r1;;exit"), 5);
    check_lines(&format!("{start}r1 = xchg_64(r10 - 0x8, r1);;r0 = r1;;exit"), 0x5_0000_0005);
    check_lines(&format!("{start}w1 = xchg32_32(r10 - 0x8, w1){memory}"), 0x5_0000_0003);
    check_lines(&format!("{start}r0 = cmpxchg_64(r10 - 0x8, r0, r1);;exit"), 0x5_0000_0005);
    check_lines(&format!("{start}r0 = cmpxchg_64(r10 - 0x8, r0, r1){memory}"), 0x5_0000_0005);
    check_lines(&format!("{start}r0 = 0x500000005 ll;;r0 = cmpxchg_64(r10 - 0x8, r0, r1){memory}"), 3);
    // 32 bits: compares the low half of r0, and r0's upper half is zero afterwards whether it matched or not.
    check_lines(&format!("{start}r0 = 0x900000005 ll;;w0 = cmpxchg32_32(r10 - 0x8, w0, w1);;exit"), 5);
    check_lines(&format!("{start}r0 = 0x900000006 ll;;w0 = cmpxchg32_32(r10 - 0x8, w0, w1);;exit"), 5);
    check_lines(
        &format!("{start}r0 = 0x900000005 ll;;w0 = cmpxchg32_32(r10 - 0x8, w0, w1){memory}"),
        0x5_0000_0003,
    );
}

#[test]
fn the_context_is_read_and_the_cookie_asked_for() {
    check_lines("r0 = *(u64 *)(r1 + 0x70);;exit", 0x1122_3344_5566_7788);
    check_lines("r0 = *(u32 *)(r1 + 0x74);;exit", 0x1122_3344);
    check_lines("call get_attach_cookie;;exit", 77);
}

#[test]
fn local_functions_keep_registers_and_stack_apart() {
    check_lines(
        "r6 = 0x7;;*(u64 *)(r10 - 0x8) = r6;;r1 = 0x5;;call pc+0x3;;r1 = *(u64 *)(r10 - 0x8);;r0 += r1;;exit;;\
                 r6 = r1;;*(u64 *)(r10 - 0x8) = 0x64;;r0 = r6;;exit",
        12,
    );
    check_lines(
        "r1 = r10;;call pc+0x2;;r0 = *(u64 *)(r10 - 0x8);;exit;;*(u64 *)(r1 - 0x8) = 0x9;;r0 = 0x0;;exit",
        9,
    );
}

#[test]
fn wide_jumps_go_by_their_immediate() {
    check_lines("r0 = 0x1;;gotol +0x1;;r0 = 0x2;;exit", 1);
    check_lines("r0 = 0x1;;goto +0x1;;r0 = 0x2;;exit", 1);
}

#[test]
fn a_frame_is_gone_when_its_function_returned() {
    let below = run(
        "call pc+0x3;;r0 = r10;;r0 = *(u64 *)(r0 - 0x208);;exit;;*(u64 *)(r10 - 0x8) = 0x9;;r0 = 0x0;;exit",
    );
    assert!(matches!(below, Err(Fault::Memory { pc: 2, .. })), "{below:?}");
    let nested = "r0 += 0x1;;call pc-0x2;;exit";
    assert!(matches!(run(&format!("r0 = 0x0;;{nested}")), Err(Fault::CallDepth { pc: 2 })));
}

#[test]
fn ordered_accesses_are_loads_and_stores_of_their_width() {
    let fill = "r1 = 0x8182838485868788 ll;;*(u64 *)(r10 - 0x8) = r1;;r2 = r10;;";
    check_lines(&format!("{fill}w0 = load_acquire((u8 *)(r2 - 0x7));;exit"), 0x87);
    check_lines(&format!("{fill}w0 = load_acquire((u16 *)(r2 - 0x6));;exit"), 0x8586);
    check_lines(&format!("{fill}w0 = load_acquire((u32 *)(r2 - 0x4));;exit"), 0x8182_8384);
    check_lines(&format!("{fill}r0 = load_acquire((u64 *)(r2 - 0x8));;exit"), 0x8182_8384_8586_8788);
    let read = ";;r0 = *(u64 *)(r10 - 0x8);;exit";
    check_lines(
        &format!("{fill}r1 = 0x1234;;store_release((u8 *)(r2 - 0x7), w1){read}"),
        0x8182_8384_8586_3488,
    );
    check_lines(
        &format!("{fill}r1 = 0x1234;;store_release((u16 *)(r2 - 0x8), w1){read}"),
        0x8182_8384_8586_1234,
    );
    check_lines(
        &format!("{fill}r1 = -0x2;;store_release((u32 *)(r2 - 0x8), w1){read}"),
        0x8182_8384_ffff_fffe,
    );
    check_lines(&format!("{fill}r1 = -0x2;;store_release((u64 *)(r2 - 0x8), r1){read}"), u64::MAX - 1);
    let crooked = run("r0 = load_acquire((u64 *)(r10 - 0xc));;exit");
    assert!(matches!(crooked, Err(Fault::Memory { pc: 0, .. })), "{crooked:?}");
}

#[test]
fn may_goto_goes_on_until_its_rounds_are_used_up() {
    check_lines("r0 = 0x0;;may_goto +0x3;;r0 += 0x1;;if r0 == 0x64 goto +0x1;;goto -0x4;;exit", 100);
}
