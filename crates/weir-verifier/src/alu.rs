//! Arithmetic on what is known: one instruction's operation over two [`Scalar`]s.
//!
//! Follows RFC 9669, 4.1: shift counts are masked to the width; a quotient by zero is 0 and a remainder by
//! zero the dividend; the least signed number divided by −1 is itself, remainder 0; a 32-bit operation
//! clears the upper half of its destination.

use weir_ebpf::insn::alu;

use crate::half::Half;
use crate::scalar::Scalar;
use crate::tnum::{Tnum, ones};

/// The result of ALU operation `operation` (with its `off`) on `dst` and `src`, 64 or 32 bits wide.
pub(crate) fn apply(operation: u8, off: i16, wide: bool, dst: Scalar, src: Scalar) -> Scalar {
    if let (Some(dst), Some(src)) = (dst.as_constant(), src.as_constant()) {
        return Scalar::constant(exact(operation, off, wide, dst, src));
    }
    if operation == alu::NEG {
        return apply(alu::SUB, 0, wide, Scalar::constant(0), dst);
    }
    let width = if wide { 64 } else { 32 };
    // 32-bit operations are 64-bit ones on the halves; the signed ones on the sign-extended halves.
    let (a, b) = (dst.low(width), src.low(width));
    let signed = |number: Scalar| number.sign_extended(width);
    let result = match (operation, off) {
        (alu::ADD, _) => add(a, b),
        (alu::SUB, _) => sub(a, b),
        (alu::MUL, _) if wide => mul(a, b),
        (alu::MUL, _) => {
            // The low half of a product is the same whether its factors have signs or not.
            let low = mul(a, b).low(32);
            low.intersect(mul(signed(dst), signed(src)).low(32)).unwrap_or(low)
        }
        (alu::DIV, 0) => div(a, b),
        (alu::DIV, _) => signed_div(signed(dst), signed(src)),
        (alu::MOD, 0) => modulo(a, b),
        (alu::MOD, _) => signed_modulo(signed(dst), signed(src)),
        (alu::OR, _) => or(a, b),
        // Of a number that is cut to its low half nothing else matters.
        (alu::AND, _) if b.max <= ones(32) => and(a.low(32), b),
        (alu::AND, _) if a.max <= ones(32) => and(a, b.low(32)),
        (alu::AND, _) => and(a, b),
        (alu::XOR, _) => Scalar::from_bits(a.bits.xor(b.bits)),
        (alu::LSH, _) => left(a, count(b, width)),
        (alu::RSH, _) => right(a, count(b, width)),
        (alu::ARSH, _) => signed_right(signed(dst), count(b, width)),
        (alu::MOV, 0) => b,
        (alu::MOV, bits) => src.sign_extended(bits as u32),
        _ => Scalar::UNKNOWN,
    };
    let result = result.low(width);
    // The low half of a sum is the sum of the low halves, in both widths.
    match operation {
        alu::ADD if says_more(result, wide, dst, src) => result.with_half(dst.half().plus(src.half())),
        alu::SUB if says_more(result, wide, dst, src) => result.with_half(dst.half().minus(src.half())),
        _ => result,
    }
}

/// The halves of two numbers may say more of the half of their sum than was found of the whole.
fn says_more(sum: Scalar, wide: bool, a: Scalar, b: Scalar) -> bool {
    !wide && sum.min == 0 && sum.max == ones(32) || a.knows_more_of_half() || b.knows_more_of_half()
}

/// The low `bits` bits of `value`, their bytes reversed if `swap`.
pub(crate) fn byte_order(value: Scalar, bits: u32, swap: bool) -> Scalar {
    if !swap {
        return value.low(bits);
    }
    Scalar::from_bits(value.bits.swap_bytes(bits))
}

/// The operation on numbers: what the machine does.
pub(crate) fn exact(operation: u8, off: i16, wide: bool, dst: u64, src: u64) -> u64 {
    if !wide {
        return u64::from(exact32(operation, off, dst as u32, src as u32));
    }
    let (signed, signed_src) = (dst as i64, src as i64);
    match (operation, off) {
        (alu::ADD, _) => dst.wrapping_add(src),
        (alu::SUB, _) => dst.wrapping_sub(src),
        (alu::MUL, _) => dst.wrapping_mul(src),
        (alu::DIV, 0) => dst.checked_div(src).unwrap_or(0),
        (alu::DIV, _) if src == 0 => 0,
        (alu::DIV, _) => signed.wrapping_div(signed_src) as u64,
        (alu::MOD, 0) => dst.checked_rem(src).unwrap_or(dst),
        (alu::MOD, _) if src == 0 => dst,
        (alu::MOD, _) => signed.wrapping_rem(signed_src) as u64,
        (alu::OR, _) => dst | src,
        (alu::AND, _) => dst & src,
        (alu::XOR, _) => dst ^ src,
        (alu::LSH, _) => dst << (src & 63),
        (alu::RSH, _) => dst >> (src & 63),
        (alu::ARSH, _) => (signed >> (src & 63)) as u64,
        (alu::MOV, 8) => src as i8 as u64,
        (alu::MOV, 16) => src as i16 as u64,
        (alu::MOV, 32) => src as i32 as u64,
        (alu::NEG, _) => dst.wrapping_neg(),
        _ => src,
    }
}

fn exact32(operation: u8, off: i16, dst: u32, src: u32) -> u32 {
    let (signed, signed_src) = (dst as i32, src as i32);
    match (operation, off) {
        (alu::ADD, _) => dst.wrapping_add(src),
        (alu::SUB, _) => dst.wrapping_sub(src),
        (alu::MUL, _) => dst.wrapping_mul(src),
        (alu::DIV, 0) => dst.checked_div(src).unwrap_or(0),
        (alu::DIV, _) if src == 0 => 0,
        (alu::DIV, _) => signed.wrapping_div(signed_src) as u32,
        (alu::MOD, 0) => dst.checked_rem(src).unwrap_or(dst),
        (alu::MOD, _) if src == 0 => dst,
        (alu::MOD, _) => signed.wrapping_rem(signed_src) as u32,
        (alu::OR, _) => dst | src,
        (alu::AND, _) => dst & src,
        (alu::XOR, _) => dst ^ src,
        (alu::LSH, _) => dst << (src & 31),
        (alu::RSH, _) => dst >> (src & 31),
        (alu::ARSH, _) => (signed >> (src & 31)) as u32,
        (alu::MOV, 8) => src as i8 as u32,
        (alu::MOV, 16) => src as i16 as u32,
        (alu::NEG, _) => dst.wrapping_neg(),
        _ => src,
    }
}

pub(crate) fn add(a: Scalar, b: Scalar) -> Scalar {
    let bounds = ends((a.min.overflowing_add(b.min), false), (a.max.overflowing_add(b.max), false));
    let signed =
        ends((a.smin.overflowing_add(b.smin), a.smin < 0), (a.smax.overflowing_add(b.smax), a.smax < 0));
    Scalar::of(bounds, signed, a.bits.add(b.bits))
}

pub(crate) fn sub(a: Scalar, b: Scalar) -> Scalar {
    let bounds = ends((a.min.overflowing_sub(b.max), false), (a.max.overflowing_sub(b.min), false));
    let signed =
        ends((a.smin.overflowing_sub(b.smax), a.smin < 0), (a.smax.overflowing_sub(b.smin), a.smax < 0));
    Scalar::of(bounds, signed, a.bits.sub(b.bits))
}

/// The least and the largest of sums or differences, where both wrap around or neither does: then all between do as they do. Each with whether
/// its first operand is negative, which says in which direction a signed one wraps.
pub(crate) fn ends<T>(
    ((least, wraps), is_negative): ((T, bool), bool),
    ((most, other_wraps), other_is_negative): ((T, bool), bool),
) -> Option<(T, T)> {
    let alike = wraps == other_wraps && (!wraps || is_negative == other_is_negative);
    alike.then_some((least, most))
}

fn mul(a: Scalar, b: Scalar) -> Scalar {
    let bounds = a.min.checked_mul(b.min).zip(a.max.checked_mul(b.max));
    let product = |x: i64, y: i64| x.checked_mul(y).map(|product| (product, product));
    let ends = [(a.smin, b.smax), (a.smax, b.smin), (a.smax, b.smax)];
    let signed = ends.into_iter().try_fold(product(a.smin, b.smin), |all, (x, y)| {
        let ((least, most), (product, _)) = all.zip(product(x, y))?;
        Some(Some((least.min(product), most.max(product))))
    });
    Scalar::of(bounds, signed.flatten(), a.bits.mul(b.bits))
}

fn div(a: Scalar, b: Scalar) -> Scalar {
    let min = if b.min == 0 { 0 } else { a.min / b.max };
    Scalar::range(min, a.max / b.min.max(1))
}

fn modulo(a: Scalar, b: Scalar) -> Scalar {
    if a.max < b.min {
        return a;
    }
    // The remainder is the dividend where the divisor is 0.
    let max = if b.min == 0 { a.max } else { a.max.min(b.max - 1) };
    Scalar::range(0, max)
}

fn signed_div(a: Scalar, b: Scalar) -> Scalar {
    match b.as_constant().map(|divisor| divisor as i64) {
        Some(divisor) if divisor > 0 => Scalar::signed_range(a.smin / divisor, a.smax / divisor),
        Some(divisor) if divisor < -1 => Scalar::signed_range(a.smax / divisor, a.smin / divisor),
        Some(0) => Scalar::constant(0),
        _ => Scalar::UNKNOWN,
    }
}

fn signed_modulo(a: Scalar, b: Scalar) -> Scalar {
    match b.as_constant().map(|divisor| divisor as i64) {
        Some(0) => a,
        // The sign is the dividend's; the least number has no magnitude of 64 bits with sign.
        Some(divisor) if divisor != i64::MIN => {
            let most = divisor.abs() - 1;
            Scalar::signed_range(if a.smin < 0 { -most } else { 0 }, if a.smax > 0 { most } else { 0 })
        }
        _ => Scalar::UNKNOWN,
    }
}

fn and(a: Scalar, b: Scalar) -> Scalar {
    Scalar::of(Some((0, a.max.min(b.max))), None, a.bits.and(b.bits))
}

fn or(a: Scalar, b: Scalar) -> Scalar {
    Scalar::of(Some((a.min.max(b.min), u64::MAX)), None, a.bits.or(b.bits))
}

/// A shift count, masked to the width.
fn count(b: Scalar, width: u32) -> Scalar {
    let most = u64::from(width - 1);
    if b.max <= most { b } else { and(b, Scalar::constant(most)) }
}

fn left(a: Scalar, count: Scalar) -> Scalar {
    let (least, most) = (count.min as u32, count.max as u32);
    let bits = if least == most { a.bits.lsh(least) } else { Tnum { value: 0, mask: !ones(least) } };
    if (least, most) == (32, 32) {
        // Half of how programs without 32-bit registers cut a number: what is known of the low half is not lost.
        let Half { min, max, smin, smax } = a.half();
        let bounds = (u64::from(min) << 32, u64::from(max) << 32);
        return Scalar::of(Some(bounds), Some((i64::from(smin) << 32, i64::from(smax) << 32)), bits);
    }
    if a.max.leading_zeros() >= most {
        return Scalar::of(Some((a.min << least, a.max << most)), None, bits);
    }
    // A number with a sign that stays in its 64 bits.
    let fits = least == most && a.smin << most >> most == a.smin && a.smax << most >> most == a.smax;
    Scalar::of(None, fits.then(|| (a.smin << most, a.smax << most)), bits)
}

fn right(a: Scalar, count: Scalar) -> Scalar {
    let (least, most) = (count.min as u32, count.max as u32);
    let bits = if least == most { a.bits.rsh(least) } else { Tnum::UNKNOWN };
    Scalar::of(Some((a.min >> most, a.max >> least)), None, bits)
}

fn signed_right(a: Scalar, count: Scalar) -> Scalar {
    let (least, most) = (count.min as u32, count.max as u32);
    let smin = if a.smin < 0 { a.smin >> least } else { a.smin >> most };
    let smax = if a.smax < 0 { a.smax >> most } else { a.smax >> least };
    let bits = if least == most { a.bits.arsh(least) } else { Tnum::UNKNOWN };
    Scalar::of(None, Some((smin, smax)), bits)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scalar::tests::{CENTRES, random, sample, small_sets};

    /// Every operation with every `off` it has, by width.
    const OPERATIONS: &[(u8, i16)] = &[
        (alu::ADD, 0),
        (alu::SUB, 0),
        (alu::MUL, 0),
        (alu::DIV, 0),
        (alu::DIV, 1),
        (alu::OR, 0),
        (alu::AND, 0),
        (alu::LSH, 0),
        (alu::RSH, 0),
        (alu::NEG, 0),
        (alu::MOD, 0),
        (alu::MOD, 1),
        (alu::XOR, 0),
        (alu::MOV, 0),
        (alu::MOV, 8),
        (alu::MOV, 16),
        (alu::MOV, 32),
        (alu::ARSH, 0),
    ];

    fn check(operation: u8, off: i16, wide: bool, a: Scalar, x: u64, b: Scalar, y: u64) {
        if (off, wide) == (32, false) {
            return;
        }
        let result = exact(operation, off, wide, x, y);
        let set = apply(operation, off, wide, a, b);
        assert!(
            set.has(result) && set.tightened().is_some(),
            "{operation:#x}/{off} wide {wide}: {x:#x} in {a:?}, {y:#x} in {b:?}: {result:#x} not in {set:?}"
        );
    }

    #[test]
    fn random_operands_give_results_inside() {
        let mut seed = 21;
        for _ in 0..60_000 {
            let ((a, in_a), (b, in_b)) = (sample(&mut seed), sample(&mut seed));
            let x = in_a[random(&mut seed) as usize % in_a.len()];
            let y = in_b[random(&mut seed) as usize % in_b.len()];
            for (operation, off) in OPERATIONS {
                check(*operation, *off, true, a, x, b, y);
                check(*operation, *off, false, a, x, b, y);
            }
        }
    }

    /// All pairs of intervals of up to 4 numbers around each centre, every member with every member.
    #[test]
    fn small_intervals_give_results_inside() {
        let around = |centre: u64| {
            let at = move |index: u64| centre.wrapping_sub(2).wrapping_add(index);
            (0..4u64).flat_map(move |from| (from..4).map(move |to| (from..=to).map(at).collect::<Vec<u64>>()))
        };
        let hull = |members: &[u64]| {
            members.iter().map(|member| Scalar::constant(*member)).reduce(Scalar::join).expect("not empty")
        };
        for (centre_a, centre_b) in CENTRES.iter().flat_map(|a| [0, 63, 1 << 63, *a].map(|b| (*a, b))) {
            for in_a in around(centre_a) {
                for in_b in around(centre_b) {
                    let (a, b) = (hull(&in_a), hull(&in_b));
                    for (operation, off) in OPERATIONS {
                        for wide in [true, false] {
                            if (*off, wide) == (32, false) {
                                continue;
                            }
                            let set = apply(*operation, *off, wide, a, b);
                            for (x, y) in in_a.iter().flat_map(|x| in_b.iter().map(move |y| (*x, *y))) {
                                let result = exact(*operation, *off, wide, x, y);
                                assert!(
                                    set.has(result),
                                    "{operation:#x}/{off} {wide} {a:?} {b:?} {x:#x} {y:#x}"
                                );
                            }
                        }
                    }
                }
            }
        }
    }

    /// The same for sets with holes, of which the bits know more than the bounds, and whose upper halves differ.
    #[test]
    fn small_sets_give_results_inside() {
        for (first, second) in CENTRES.iter().flat_map(|first| [0, 33, *first].map(|second| (*first, second)))
        {
            let right = small_sets(second);
            for (a, in_a) in small_sets(first) {
                for (b, in_b) in &right {
                    for (operation, off) in OPERATIONS {
                        for wide in [true, false].into_iter().filter(|wide| *wide || *off != 32) {
                            let set = apply(*operation, *off, wide, a, *b);
                            for (x, y) in in_a.iter().flat_map(|x| in_b.iter().map(move |y| (*x, *y))) {
                                let result = exact(*operation, *off, wide, x, y);
                                assert!(
                                    set.has(result),
                                    "{operation:#x}/{off} {wide} {a:?} {b:?} {x:#x} {y:#x}"
                                );
                            }
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn byte_orders_hold_every_result() {
        let mut seed = 22;
        for _ in 0..100_000 {
            let (scalar, members) = sample(&mut seed);
            for member in members {
                assert!(byte_order(scalar, 16, true).has((member as u16).swap_bytes().into()));
                assert!(byte_order(scalar, 32, true).has((member as u32).swap_bytes().into()));
                assert!(byte_order(scalar, 64, true).has(member.swap_bytes()));
                assert!(byte_order(scalar, 16, false).has(member & 0xffff));
                assert!(byte_order(scalar, 64, false).has(member));
            }
        }
    }

    /// RFC 9669, 4.1: the corners that its text names.
    #[test]
    fn corners_are_those_of_the_rfc() {
        let min = i64::MIN as u64;
        assert_eq!(exact(alu::DIV, 0, true, 5, 0), 0);
        assert_eq!(exact(alu::DIV, 1, true, 5, 0), 0);
        assert_eq!(exact(alu::MOD, 0, true, 5, 0), 5);
        assert_eq!(exact(alu::MOD, 0, false, 0x1_0000_0005, 0), 5);
        assert_eq!(exact(alu::DIV, 1, true, min, u64::MAX), min);
        assert_eq!(exact(alu::MOD, 1, true, min, u64::MAX), 0);
        assert_eq!(exact(alu::DIV, 1, false, 0x8000_0000, u64::MAX), 0x8000_0000);
        assert_eq!(exact(alu::MOD, 1, true, -13i64 as u64, 3), -1i64 as u64);
        assert_eq!(exact(alu::MOV, 8, false, 0, 0x80), 0xffff_ff80);
        assert_eq!(exact(alu::MOV, 8, true, 0, 0x80), 0xffff_ffff_ffff_ff80);
        assert_eq!(exact(alu::LSH, 0, true, 1, 65), 2);
        assert_eq!(exact(alu::LSH, 0, false, 1, 33), 2);
    }

    /// What programs rely on to be accepted.
    #[test]
    fn common_idioms_keep_their_bounds() {
        let byte = Scalar::range(0, 255);
        let bounds = |scalar: Scalar| (scalar.min, scalar.max);
        let constant = Scalar::constant;
        assert_eq!(bounds(apply(alu::AND, 0, true, Scalar::UNKNOWN, constant(63))), (0, 63));
        assert_eq!(bounds(apply(alu::MOD, 0, true, Scalar::UNKNOWN, constant(10))), (0, 9));
        assert_eq!(bounds(apply(alu::MUL, 0, true, byte, constant(8))), (0, 2040));
        assert_eq!(bounds(apply(alu::LSH, 0, true, byte, constant(3))), (0, 2040));
        assert_eq!(apply(alu::LSH, 0, true, byte, constant(3)).bits.mask, 0x7f8);
        assert_eq!(bounds(apply(alu::RSH, 0, true, Scalar::UNKNOWN, constant(58))), (0, 63));
        assert_eq!(bounds(apply(alu::ADD, 0, true, byte, byte)), (0, 510));
        assert_eq!(bounds(apply(alu::ADD, 0, false, byte, byte)), (0, 510));
        assert_eq!(apply(alu::SUB, 0, true, byte, byte).smin, -255);
        assert_eq!(bounds(apply(alu::DIV, 0, true, byte, constant(16))), (0, 15));
    }
}
