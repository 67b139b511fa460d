//! Tristate numbers: 64 bits of which each is known 0, known 1 or unknown.
//!
//! The algebra is that of Vishwanathan, Shachnai, Narayana, Nagarakatte: "Sound, Precise, and Fast Abstract
//! Interpretation with Tristate Numbers" (CGO 2022). Guarantee of every operation: for all x in a and y in b,
//! op(x, y) is in op(a, b). Checked over all tristate numbers of 4 bits in the tests.

/// The set of all numbers that agree with `value` on the bits that are 0 in `mask`.
/// Invariant: `value & mask == 0`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Tnum {
    pub(crate) value: u64,
    /// The unknown bits.
    pub(crate) mask: u64,
}

impl Tnum {
    pub(crate) const UNKNOWN: Tnum = Tnum { value: 0, mask: u64::MAX };

    pub(crate) fn constant(value: u64) -> Tnum {
        Tnum { value, mask: 0 }
    }

    /// The smallest tristate number that holds all of `min..=max`: the bits above the highest that differs.
    pub(crate) fn range(min: u64, max: u64) -> Tnum {
        let unknown = ones(64 - (min ^ max).leading_zeros());
        Tnum { value: min & !unknown, mask: unknown }
    }

    pub(crate) fn has(self, number: u64) -> bool {
        number & !self.mask == self.value
    }

    /// Every number of `other` is in `self`.
    pub(crate) fn contains(self, other: Tnum) -> bool {
        other.mask & !self.mask == 0 && other.value & !self.mask == self.value
    }

    /// What is in both; None where nothing is.
    pub(crate) fn intersect(self, other: Tnum) -> Option<Tnum> {
        let known_in_both = !self.mask & !other.mask;
        if (self.value ^ other.value) & known_in_both != 0 {
            return None;
        }
        let mask = self.mask & other.mask;
        Some(Tnum { value: (self.value | other.value) & !mask, mask })
    }

    /// The smallest tristate number that holds both.
    pub(crate) fn join(self, other: Tnum) -> Tnum {
        let mask = self.mask | other.mask | (self.value ^ other.value);
        Tnum { value: self.value & !mask, mask }
    }

    pub(crate) fn add(self, other: Tnum) -> Tnum {
        let least = self.value.wrapping_add(other.value);
        let most = least.wrapping_add(self.mask.wrapping_add(other.mask));
        // Where the least and the most sum differ, a carry is in doubt.
        let mask = (least ^ most) | self.mask | other.mask;
        Tnum { value: least & !mask, mask }
    }

    pub(crate) fn sub(self, other: Tnum) -> Tnum {
        let difference = self.value.wrapping_sub(other.value);
        let most = difference.wrapping_add(self.mask);
        let least = difference.wrapping_sub(other.mask);
        let mask = (least ^ most) | self.mask | other.mask;
        Tnum { value: difference & !mask, mask }
    }

    /// Long multiplication: an unknown bit of `self` adds either nothing or the shifted `other`.
    pub(crate) fn mul(self, other: Tnum) -> Tnum {
        let mut sum = Tnum::constant(0);
        for bit in 0..64 {
            let shifted = other.lsh(bit);
            if self.value >> bit & 1 == 1 {
                sum = sum.add(shifted);
            } else if self.mask >> bit & 1 == 1 {
                sum = sum.add(Tnum { value: 0, mask: shifted.value | shifted.mask });
            }
        }
        sum
    }

    pub(crate) fn and(self, other: Tnum) -> Tnum {
        let value = self.value & other.value;
        let possible = (self.value | self.mask) & (other.value | other.mask);
        Tnum { value, mask: possible & !value }
    }

    pub(crate) fn or(self, other: Tnum) -> Tnum {
        let value = self.value | other.value;
        Tnum { value, mask: (self.mask | other.mask) & !value }
    }

    pub(crate) fn xor(self, other: Tnum) -> Tnum {
        let mask = self.mask | other.mask;
        Tnum { value: (self.value ^ other.value) & !mask, mask }
    }

    /// `shift` is below 64, here and in the next two.
    pub(crate) fn lsh(self, shift: u32) -> Tnum {
        Tnum { value: self.value << shift, mask: self.mask << shift }
    }

    pub(crate) fn rsh(self, shift: u32) -> Tnum {
        Tnum { value: self.value >> shift, mask: self.mask >> shift }
    }

    pub(crate) fn arsh(self, shift: u32) -> Tnum {
        let mask = ((self.mask as i64) >> shift) as u64;
        // An unknown sign bit spreads over the mask; the value there is 0 already.
        Tnum { value: ((self.value as i64) >> shift) as u64 & !mask, mask }
    }

    /// The low `bits` (1..=64) bits, zeros above.
    pub(crate) fn low(self, bits: u32) -> Tnum {
        Tnum { value: self.value & ones(bits), mask: self.mask & ones(bits) }
    }

    /// The low `bits` (8..=64, a multiple of 8) bits with their bytes reversed, zeros above.
    pub(crate) fn swap_bytes(self, bits: u32) -> Tnum {
        let swap = |number: u64| number.swap_bytes() >> (64 - bits);
        Tnum { value: swap(self.value), mask: swap(self.mask) }
    }
}

/// A number whose low `bits` (0..=64) bits are set.
pub(crate) fn ones(bits: u32) -> u64 {
    if bits >= 64 { u64::MAX } else { (1 << bits) - 1 }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All tristate numbers of `bits` bits.
    fn all(bits: u32) -> impl Iterator<Item = Tnum> {
        let pairs = (0..1u64 << bits).flat_map(move |value| (0..1u64 << bits).map(move |mask| (value, mask)));
        pairs.filter(|(value, mask)| value & mask == 0).map(|(value, mask)| Tnum { value, mask })
    }

    fn members(tnum: Tnum, bits: u32) -> Vec<u64> {
        (0..1u64 << bits).filter(|number| tnum.has(*number)).collect()
    }

    fn check(of: fn(Tnum, Tnum) -> Tnum, on: fn(u64, u64) -> u64) {
        for a in all(4) {
            for b in all(4) {
                let result = of(a, b);
                assert_eq!(result.value & result.mask, 0);
                for x in members(a, 4) {
                    for y in members(b, 4) {
                        assert!(result.has(on(x, y)), "{a:?} {b:?}: {x} {y} gives {}", on(x, y));
                    }
                }
            }
        }
    }

    #[test]
    fn operations_hold_every_result() {
        check(Tnum::add, u64::wrapping_add);
        check(Tnum::sub, u64::wrapping_sub);
        check(Tnum::mul, u64::wrapping_mul);
        check(Tnum::and, |x, y| x & y);
        check(Tnum::or, |x, y| x | y);
        check(Tnum::xor, |x, y| x ^ y);
        check(Tnum::join, |x, _| x);
        check(Tnum::join, |_, y| y);
    }

    #[test]
    fn bitwise_operations_and_constants_are_exact() {
        let check = |of: fn(Tnum, Tnum) -> Tnum, on: fn(u64, u64) -> u64| {
            for a in all(3) {
                for b in all(3) {
                    let exact: std::collections::BTreeSet<_> = members(a, 3)
                        .into_iter()
                        .flat_map(|x| members(b, 3).into_iter().map(move |y| on(x, y)))
                        .collect();
                    assert_eq!(members(of(a, b), 3), exact.into_iter().collect::<Vec<_>>(), "{a:?} {b:?}");
                }
            }
        };
        check(Tnum::and, |x, y| x & y);
        check(Tnum::or, |x, y| x | y);
        check(Tnum::xor, |x, y| x ^ y);
    }

    #[test]
    fn shifts_and_swaps_hold_every_result() {
        for high in [0, 28, 56, 60] {
            for a in all(4).map(|tnum| tnum.lsh(high)) {
                for x in members(a.rsh(high), 4).into_iter().map(|x| x << high) {
                    for shift in [0, 1, 3, 4, 31, 32, 62, 63] {
                        assert!(a.lsh(shift).has(x << shift));
                        assert!(a.rsh(shift).has(x >> shift));
                        assert!(a.arsh(shift).has(((x as i64) >> shift) as u64), "{a:?} {x:#x} {shift}");
                        assert_eq!(a.arsh(shift).value & a.arsh(shift).mask, 0);
                    }
                    assert!(a.swap_bytes(64).has(x.swap_bytes()));
                    assert!(a.swap_bytes(32).has((x as u32).swap_bytes().into()));
                    assert!(a.swap_bytes(16).has((x as u16).swap_bytes().into()));
                    for bits in [1, 8, 16, 32, 64] {
                        assert!(a.low(bits).has(x & ones(bits)));
                    }
                }
            }
        }
    }

    #[test]
    fn intersection_and_containment_are_exact() {
        for a in all(4) {
            for b in all(4) {
                let both: Vec<u64> = members(a, 4).into_iter().filter(|x| b.has(*x)).collect();
                assert_eq!(a.intersect(b).map_or(vec![], |tnum| members(tnum, 4)), both, "{a:?} {b:?}");
                assert_eq!(a.contains(b), members(b, 4).iter().all(|x| a.has(*x)), "{a:?} {b:?}");
            }
        }
    }

    #[test]
    fn range_holds_its_ends_and_no_more_bits_than_needed() {
        for min in 0..16 {
            for max in min..16 {
                assert!((min..=max).all(|x| Tnum::range(min, max).has(x)));
                assert!(Tnum::range(min, max).mask <= 15);
            }
        }
        assert_eq!(Tnum::range(0, u64::MAX), Tnum::UNKNOWN);
        assert_eq!(Tnum::range(7, 7), Tnum::constant(7));
    }
}
