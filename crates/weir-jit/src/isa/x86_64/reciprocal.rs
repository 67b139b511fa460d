//! Division by a constant as multiplication by its reciprocal: 3 to 5 cycles instead of 10 to 20.
//!
//! In: a divisor without sign that is no power of two. Out: quotient or remainder, exact for every dividend.
//!
//! For N bits and divisor d: with `m = ⌊2^(N+s) / d⌋ + 1` the quotient of every x below 2^B is `x × m >> N + s`,
//! if `m × d − 2^(N+s) ≤ 2^(N+s−B)` (T. Granlund, P. L. Montgomery, "Division by invariant integers using
//! multiplication", 1994, theorem 4.2). Where the least such m has N + 1 bits, an even divisor is halved first (B
//! shrinks), and an odd one takes the sum of the paper's figure 4.1.
//!
//! 64 bits need BMI2, whose `mulx` leaves rax alone. Not here: signed division, divisors of more than 32 bits.

use crate::isa::x86_64::emitter::{Emitter, width};
use crate::isa::x86_64::encode::{self, Reg, Width};

/// How to divide by one constant.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Reciprocal {
    /// Bits that the dividend is shifted by beforehand.
    before: u8,
    /// Without its bit N if `sum`.
    multiplier: u64,
    /// The upper half of the product, or the sum, is shifted by so much.
    after: u8,
    /// `((x − h) / 2 + h) >> after`, where h is the upper half of the product.
    sum: bool,
}

impl Reciprocal {
    /// For dividends of `bits` (32 or 64). `divisor` is less than 2³² and no power of two.
    fn new(bits: u32, divisor: u64) -> Reciprocal {
        let log2_up = u64::BITS - divisor.leading_zeros();
        if let Some((multiplier, after)) = multiplier(bits, divisor, 0, log2_up) {
            return Reciprocal { before: 0, multiplier, after, sum: false };
        }
        let before = divisor.trailing_zeros();
        if before > 0
            && let Some((multiplier, after)) = multiplier(bits, divisor >> before, before, log2_up - before)
        {
            return Reciprocal { before: before as u8, multiplier, after, sum: false };
        }
        let multiplier = ((1u128 << (bits + log2_up)) / u128::from(divisor) + 1) as u64;
        let multiplier = if bits == 32 { multiplier & 0xffff_ffff } else { multiplier };
        Reciprocal { before: 0, multiplier, after: log2_up as u8 - 1, sum: true }
    }
}

/// The least multiplier of at most `bits` bits that is exact for dividends of `bits − fewer`, with its shift.
fn multiplier(bits: u32, divisor: u64, fewer: u32, log2_up: u32) -> Option<(u64, u8)> {
    (0..=log2_up).find_map(|shift| {
        let power = 1u128 << (bits + shift);
        let multiplier = power / u128::from(divisor) + 1;
        let error = multiplier * u128::from(divisor) - power;
        let fits = multiplier >> bits == 0 && error <= 1 << (shift + fewer);
        fits.then_some((multiplier as u64, shift as u8))
    })
}

impl Emitter<'_> {
    pub(crate) fn can_multiply(&self, wide: bool, divisor: u64) -> bool {
        divisor > 2 && divisor >> 32 == 0 && (!wide || self.input.abi.bmi2)
    }

    /// `dst = left / divisor` or the remainder. May use r9, r10 and r11.
    pub(crate) fn divide_by_multiplying(
        &mut self,
        remainder: bool,
        wide: bool,
        dst: Reg,
        left: Reg,
        divisor: u64,
    ) {
        let bits = width(wide);
        let reciprocal = Reciprocal::new(if wide { 64 } else { 32 }, divisor);
        // A plain quotient of 32 bits needs no scratch register.
        let high = if wide {
            self.high_wide(left, dst, reciprocal)
        } else if remainder || reciprocal.sum || reciprocal.multiplier >> 31 != 0 {
            self.high_narrow(Reg::R11, left, reciprocal)
        } else {
            self.high_narrow(dst, left, reciprocal)
        };
        let quotient = if reciprocal.sum { self.sum(bits, left, high, reciprocal.after) } else { high };
        if !remainder {
            return self.asm.mov(Width::W64, dst, quotient);
        }
        // The lower 32 bits of a product do not depend on signs.
        if let Ok(divisor) = i32::try_from(divisor) {
            self.asm.imul_imm(bits, quotient, quotient, divisor);
        } else {
            let scratch = if quotient == Reg::R10 { Reg::R11 } else { Reg::R10 };
            self.asm.mov_value(scratch, divisor);
            self.asm.op(encode::Op::Imul, bits, quotient, scratch);
        }
        if dst != left {
            self.asm.mov(bits, dst, left);
        }
        self.asm.op(encode::Op::Sub, bits, quotient, dst);
    }

    /// `to` = the quotient, or the upper half of the product where a sum follows. May use r10.
    fn high_narrow(&mut self, to: Reg, left: Reg, reciprocal: Reciprocal) -> Reg {
        // Whatever is in the upper half does not take part.
        self.asm.mov(Width::W32, to, left);
        if reciprocal.before > 0 {
            self.asm.op_imm(encode::Op::ShrImm, Width::W32, to, reciprocal.before.into());
        }
        if let Ok(multiplier) = i32::try_from(reciprocal.multiplier) {
            self.asm.imul_imm(Width::W64, to, to, multiplier);
        } else {
            self.asm.mov_value(Reg::R10, reciprocal.multiplier);
            self.asm.op(encode::Op::Imul, Width::W64, to, Reg::R10);
        }
        let after = if reciprocal.sum { 0 } else { i32::from(reciprocal.after) };
        self.asm.op_imm(encode::Op::ShrImm, Width::W64, to, 32 + after);
        to
    }

    /// The same of 64 bits, in r9. Uses r10 and r11; rdx keeps its value where it is needed and not `dst`.
    fn high_wide(&mut self, left: Reg, dst: Reg, reciprocal: Reciprocal) -> Reg {
        let changes_rdx = left != Reg::Rdx || reciprocal.before > 0;
        let saves_rdx = changes_rdx && (left == Reg::Rdx || dst != Reg::Rdx && self.is_live_after(Reg::Rdx));
        if saves_rdx {
            self.asm.mov(Width::W64, Reg::R11, Reg::Rdx);
        }
        self.asm.mov(Width::W64, Reg::Rdx, left);
        if reciprocal.before > 0 {
            self.asm.op_imm(encode::Op::ShrImm, Width::W64, Reg::Rdx, reciprocal.before.into());
        }
        self.asm.mov_value(Reg::R10, reciprocal.multiplier);
        self.asm.mulx(Reg::R9, Reg::R10, Reg::R10);
        if saves_rdx {
            self.asm.mov(Width::W64, Reg::Rdx, Reg::R11);
        }
        if !reciprocal.sum && reciprocal.after > 0 {
            self.asm.op_imm(encode::Op::ShrImm, Width::W64, Reg::R9, reciprocal.after.into());
        }
        Reg::R9
    }

    /// r10 = the quotient from the upper half of the product.
    fn sum(&mut self, bits: Width, left: Reg, high: Reg, after: u8) -> Reg {
        self.asm.mov(bits, Reg::R10, left);
        self.asm.op(encode::Op::Sub, bits, high, Reg::R10);
        self.asm.op_imm(encode::Op::ShrImm, bits, Reg::R10, 1);
        self.asm.op(encode::Op::Add, bits, high, Reg::R10);
        if after > 0 {
            self.asm.op_imm(encode::Op::ShrImm, bits, Reg::R10, after.into());
        }
        Reg::R10
    }
}

#[cfg(test)]
mod tests {
    use super::Reciprocal;

    /// What the code computes.
    fn quotient(reciprocal: Reciprocal, bits: u32, x: u64) -> u64 {
        let shifted = x >> reciprocal.before;
        let high = ((u128::from(shifted) * u128::from(reciprocal.multiplier)) >> bits) as u64;
        if reciprocal.sum { ((x - high) / 2 + high) >> reciprocal.after } else { high >> reciprocal.after }
    }

    fn check(bits: u32, divisor: u64) {
        let reciprocal = Reciprocal::new(bits, divisor);
        let most = u64::MAX >> (64 - bits);
        let mut dividends = vec![0, 1, most, most / 2, most / 3];
        // Where quotients change is where an inexact reciprocal shows.
        for quotient in [1, 2, 3, most / divisor / 2, most / divisor - 1, most / divisor] {
            let multiple = divisor.saturating_mul(quotient);
            dividends.extend([multiple.saturating_sub(1), multiple, multiple.saturating_add(1)]);
        }
        for x in dividends.into_iter().filter(|&x| x <= most) {
            assert_eq!(quotient(reciprocal, bits, x), x / divisor, "{x} / {divisor} in {bits} bits");
        }
    }

    #[test]
    fn quotients_are_exact() {
        let mut random = 1u64;
        for small in 3..5_000u64 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            for divisor in [small, random >> (33 + small % 29), (1 << 31) + small, (1 << 31) - small] {
                if divisor > 2 && !divisor.is_power_of_two() {
                    check(32, divisor);
                    check(64, divisor);
                }
            }
        }
    }

    #[test]
    fn well_known_constants_come_out() {
        let ten = Reciprocal { before: 0, multiplier: 0xcccc_cccd, after: 3, sum: false };
        let seven = Reciprocal { before: 0, multiplier: 0x2492_4925, after: 2, sum: true };
        let fourteen = Reciprocal { before: 1, multiplier: 0x9249_2493, after: 2, sum: false };
        assert_eq!([10, 7, 14].map(|d| Reciprocal::new(32, d)), [ten, seven, fourteen]);
        let ten = Reciprocal { before: 0, multiplier: 0xcccc_cccc_cccc_cccd, after: 3, sum: false };
        assert_eq!(Reciprocal::new(64, 10), ten);
    }
}
