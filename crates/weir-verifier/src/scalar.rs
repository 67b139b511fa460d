//! What is known of a number in a register: bounds without sign, bounds with sign, known bits, and bounds of the low half.
//!
//! A [`Scalar`] stands for the set of all 64-bit numbers that satisfy them all at once. Every operation's
//! result holds every number that the operation can give; how narrow it is, is a matter of which programs
//! are accepted, never of safety. Bounds of the low half are kept only where they say more than the rest
//! ([`Scalar::half`] has them all), which is seldom: comparisons of 32 bits teach them.

use std::fmt;

use crate::half::Half;
use crate::tnum::{Tnum, ones};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Scalar {
    pub(crate) min: u64,
    pub(crate) max: u64,
    pub(crate) smin: i64,
    pub(crate) smax: i64,
    pub(crate) bits: Tnum,
    /// Of the low 32 bits; [`Half::ANY`] where the others say as much.
    pub(crate) more: Half,
}

impl Scalar {
    pub(crate) const UNKNOWN: Scalar = Scalar {
        min: 0,
        max: u64::MAX,
        smin: i64::MIN,
        smax: i64::MAX,
        bits: Tnum::UNKNOWN,
        more: Half::ANY,
    };

    pub(crate) fn constant(value: u64) -> Scalar {
        let (smin, smax) = (value as i64, value as i64);
        Scalar { min: value, max: value, smin, smax, bits: Tnum::constant(value), more: Half::ANY }
    }

    /// What is within these bounds and has these bits: the result of an operation, which exists.
    pub(crate) fn of(bounds: Option<(u64, u64)>, signed: Option<(i64, i64)>, bits: Tnum) -> Scalar {
        let (min, max) = bounds.unwrap_or((0, u64::MAX));
        let (smin, smax) = signed.unwrap_or((i64::MIN, i64::MAX));
        Scalar { min, max, smin, smax, bits, more: Half::ANY }.tightened_or_unknown()
    }

    /// All of `min..=max`.
    pub(crate) fn range(min: u64, max: u64) -> Scalar {
        Scalar { min, max, ..Scalar::UNKNOWN }.tightened_or_unknown()
    }

    /// All of `smin..=smax`.
    pub(crate) fn signed_range(smin: i64, smax: i64) -> Scalar {
        Scalar { smin, smax, ..Scalar::UNKNOWN }.tightened_or_unknown()
    }

    pub(crate) fn from_bits(bits: Tnum) -> Scalar {
        Scalar { bits, ..Scalar::UNKNOWN }.tightened_or_unknown()
    }

    pub(crate) fn as_constant(self) -> Option<u64> {
        (self.min == self.max).then_some(self.min)
    }

    pub(crate) fn has(self, number: u64) -> bool {
        let signed = number as i64;
        self.min <= number
            && number <= self.max
            && self.smin <= signed
            && signed <= self.smax
            && self.bits.has(number)
            && self.more.has(number as u32)
    }

    /// Every number of `other` is in `self`.
    pub(crate) fn contains(self, other: Scalar) -> bool {
        self.min <= other.min
            && self.max >= other.max
            && self.smin <= other.smin
            && self.smax >= other.smax
            && self.bits.contains(other.bits)
            && (self.more == Half::ANY || self.more.contains(other.half()))
    }

    pub(crate) fn intersect(self, other: Scalar) -> Option<Scalar> {
        let bits = self.bits.intersect(other.bits)?;
        let (min, max) = (self.min.max(other.min), self.max.min(other.max));
        let (smin, smax) = (self.smin.max(other.smin), self.smax.min(other.smax));
        Scalar { min, max, smin, smax, bits, more: self.more.intersect(other.more)? }.tightened()
    }

    /// A scalar that holds both.
    pub(crate) fn join(self, other: Scalar) -> Scalar {
        let both = Scalar {
            min: self.min.min(other.min),
            max: self.max.max(other.max),
            smin: self.smin.min(other.smin),
            smax: self.smax.max(other.smax),
            bits: self.bits.join(other.bits),
            more: Half::ANY,
        };
        if self.more == Half::ANY && other.more == Half::ANY {
            return both;
        }
        both.and_more(self.half().join(other.half()))
    }

    /// What is known of the low 32 bits.
    pub(crate) fn half(self) -> Half {
        self.more.intersect(self.half_of_the_rest()).unwrap_or(self.more)
    }

    /// The same, by what is not kept of them alone.
    fn half_of_the_rest(self) -> Half {
        let mut half = Half::of_bits(self.bits.value as u32, self.bits.mask as u32);
        if self.min >> 32 == self.max >> 32 {
            (half.min, half.max) = (half.min.max(self.min as u32), half.max.min(self.max as u32));
        }
        if let (Ok(smin), Ok(smax)) = (i32::try_from(self.smin), i32::try_from(self.smax)) {
            (half.smin, half.smax) = (half.smin.max(smin), half.smax.min(smax));
        }
        half.tightened().unwrap_or(half)
    }

    /// Bounds of the low half are kept that the rest does not say.
    pub(crate) fn knows_more_of_half(self) -> bool {
        self.more != Half::ANY
    }

    /// With bounds of the low half that hold of every member.
    fn and_more(self, half: Half) -> Scalar {
        let more = if half.contains(self.half_of_the_rest()) { Half::ANY } else { half };
        Scalar { more, ..self }
    }

    /// A scalar that holds both, where what `other` adds goes on to the next of a few ends: whoever widens again and
    /// again soon has a scalar that holds what comes.
    pub(crate) fn widen(self, other: Scalar) -> Scalar {
        let both = self.join(other);
        let min = if both.min < self.min { 0 } else { both.min };
        let max = if both.max > self.max { end_above(both.max) } else { both.max };
        let smin = match both.smin {
            smin if smin >= self.smin => smin,
            smin if smin >= 0 => 0,
            smin => !signed_end_above(!smin),
        };
        let smax = match both.smax {
            smax if smax <= self.smax => smax,
            smax if smax < 0 => -1,
            smax => (end_above(smax as u64) & i64::MAX as u64) as i64,
        };
        let bits = if both.bits == self.bits {
            both.bits
        } else {
            // Bits from the lowest to the highest that are not known: multiples stay such.
            let mask = end_above(both.bits.mask) & !ones(both.bits.mask.trailing_zeros());
            Tnum { value: both.bits.value & !mask, mask }
        };
        let more = if self.more.contains(other.half()) { self.more } else { Half::ANY };
        Scalar { min, max, smin, smax, bits, more }.tightened_or_unknown()
    }

    /// The low `bits` (8, 16, 32 or 64) bits, zeros above.
    pub(crate) fn low(self, bits: u32) -> Scalar {
        if self.max <= ones(bits) {
            return self;
        }
        if self == Scalar::UNKNOWN {
            // As what follows would find; every load of data comes here.
            let max = ones(bits);
            let bits = Tnum { value: 0, mask: max };
            return Scalar { min: 0, max, smin: 0, smax: max as i64, bits, more: Half::ANY };
        }
        if bits == 32 {
            let half = self.half();
            let (min, max) = (half.min.into(), half.max.into());
            let low = Scalar { min, max, bits: self.bits.low(32), more: half, ..Scalar::UNKNOWN };
            return low.tightened_or_unknown();
        }
        // The bounds survive where everything above the low bits is the same at both ends.
        let upper_is_fixed = bits < 64 && self.min >> bits == self.max >> bits;
        let (min, max) =
            if upper_is_fixed { (self.min & ones(bits), self.max & ones(bits)) } else { (0, ones(bits)) };
        Scalar { min, max, bits: self.bits.low(bits), ..Scalar::UNKNOWN }.tightened_or_unknown()
    }

    /// The low `bits` (8, 16, 32 or 64) bits, the highest of them spread over what is above.
    pub(crate) fn sign_extended(self, bits: u32) -> Scalar {
        let half = 1i64 << (bits - 1).min(62);
        if bits == 64 || self.smin >= -half && self.smax < half {
            return self;
        }
        let spread = self.bits.lsh(64 - bits).arsh(64 - bits);
        if bits == 32 {
            let Half { smin, smax, .. } = self.half();
            let (smin, smax) = (smin.into(), smax.into());
            return Scalar { smin, smax, bits: spread, ..Scalar::UNKNOWN }.tightened_or_unknown();
        }
        let low = self.low(bits);
        let sign = 1u64 << (bits - 1);
        let (smin, smax) = if low.max < sign {
            (low.min as i64, low.max as i64)
        } else if low.min >= sign {
            ((low.min | !ones(bits)) as i64, (low.max | !ones(bits)) as i64)
        } else {
            (-half, half - 1)
        };
        Scalar { smin, smax, bits: spread, ..Scalar::UNKNOWN }.tightened_or_unknown()
    }

    /// This number, once its low half is known to be that of a number in `other`. None where it cannot be.
    pub(crate) fn with_low_half(self, other: Scalar) -> Option<Scalar> {
        let (upper, low) = (self.bits.rsh(32).lsh(32), other.bits.low(32));
        let bits =
            self.bits.intersect(Tnum { value: upper.value | low.value, mask: upper.mask | low.mask })?;
        Scalar { bits, more: self.half().intersect(other.half())?, ..self }.tightened()
    }

    /// With bounds of the low half that are known from elsewhere to hold of every member.
    pub(crate) fn with_half(self, half: Half) -> Scalar {
        let more = self.more.intersect(half).unwrap_or(self.more);
        Scalar { more, ..self }.tightened_or_unknown()
    }

    /// The same set, each of the three told what the others know. None: the set is empty.
    pub(crate) fn tightened(mut self) -> Option<Scalar> {
        if self.min == self.max {
            return self.has(self.min).then(|| Scalar::constant(self.min));
        }
        // Twice, because the bits that the bounds fix may narrow the other bounds; not again where nothing changed.
        for _ in 0..2 {
            let before = self;
            if self.more != Half::ANY {
                self = self.bounded_by_half()?;
            }
            self = self.bounded_by_bits().bounded_by_each_other()?;
            if self.min > self.max || self.smin > self.smax {
                return None;
            }
            self.bits = self.bits.intersect(Tnum::range(self.min, self.max))?;
            if self == before {
                return Some(self);
            }
        }
        // The bits were narrowed last.
        let Tnum { value, mask } = self.bits;
        (value <= self.max && value | mask >= self.min).then_some(self)
    }

    /// Where the upper half is known the low half's bounds are the number's; what they say beyond stays.
    fn bounded_by_half(mut self) -> Option<Scalar> {
        if self.min > self.max || self.smin > self.smax {
            return None;
        }
        let half = self.more.intersect(self.half_of_the_rest())?;
        if self.min >> 32 == self.max >> 32 {
            let above = self.min & !ones(32);
            (self.min, self.max) = (above | u64::from(half.min), above | u64::from(half.max));
        }
        if self.smin >= i32::MIN.into() && self.smax <= i32::MAX.into() {
            (self.smin, self.smax) = (half.smin.into(), half.smax.into());
        }
        Some(self.and_more(half))
    }

    fn tightened_or_unknown(self) -> Scalar {
        // An operation on a set that is not empty has a result; only a set that is empty without its bounds
        // showing it can get here with None, and then anything is right.
        self.tightened().unwrap_or(Scalar::UNKNOWN)
    }

    fn bounded_by_bits(mut self) -> Scalar {
        const SIGN: u64 = 1 << 63;
        let Tnum { value, mask } = self.bits;
        self.min = self.min.max(value);
        self.max = self.max.min(value | mask);
        self.smin = self.smin.max((value | mask & SIGN) as i64);
        self.smax = self.smax.min((value | mask & !SIGN) as i64);
        // Ends are numbers that the low bits allow, as far as those are known.
        let low = ones(mask.trailing_zeros());
        if mask & 1 == 0 && mask != 0 && self.max >= value {
            self.max -= (self.max - value) & low;
            // One that goes round is beyond the other end.
            self.min = self.min.saturating_add(value.wrapping_sub(self.min) & low);
        }
        self
    }

    fn bounded_by_each_other(mut self) -> Option<Scalar> {
        if self.min > self.max || self.smin > self.smax {
            return None;
        }
        let negative = |number: u64| number >> 63 == 1;
        if negative(self.min) == negative(self.max) {
            self.smin = self.smin.max(self.min as i64);
            self.smax = self.smax.min(self.max as i64);
        } else if self.smin < 0 && self.smax >= 0 {
            // Both ranges reach over their seam: the parts below and above zero are looked at alone.
            let below = self.smin as u64 <= self.max;
            let above = self.min <= self.smax as u64;
            match (below, above) {
                (false, false) => return None,
                (true, false) => self.smax = self.max as i64,
                (false, true) => self.smin = self.min as i64,
                (true, true) => {}
            }
        }
        if (self.smin < 0) == (self.smax < 0) {
            self.min = self.min.max(self.smin as u64);
            self.max = self.max.min(self.smax as u64);
        }
        Some(self)
    }
}

/// The largest number of so many bits as programs have fields of, at least `number`.
fn end_above(number: u64) -> u64 {
    [8, 16, 32].into_iter().map(ones).find(|end| number <= *end).unwrap_or(u64::MAX)
}

/// The same of signed fields; `number` is not negative.
fn signed_end_above(number: i64) -> i64 {
    [8, 16, 32].into_iter().map(|bits| ones(bits - 1) as i64).find(|end| number <= *end).unwrap_or(i64::MAX)
}

impl fmt::Display for Scalar {
    /// For messages: a constant, the narrower of the two ranges, or "any number".
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hex = |number: i64| format!("{}{:#x}", if number < 0 { "-" } else { "" }, number.unsigned_abs());
        if let Some(value) = self.as_constant() {
            return write!(out, "{}", hex(value as i64));
        }
        if *self == Scalar::UNKNOWN {
            return write!(out, "any number");
        }
        let signed_is_narrower = (self.smax.wrapping_sub(self.smin) as u64) < self.max - self.min;
        match signed_is_narrower {
            true => write!(out, "{}..={}", hex(self.smin), hex(self.smax))?,
            false => write!(out, "{:#x}..={:#x}", self.min, self.max)?,
        }
        let Tnum { value, mask } = self.bits;
        if self.bits != Tnum::range(self.min, self.max) {
            write!(out, " with bits {value:#x} of {:#x}", !mask)?;
        }
        if self.more != Half::ANY {
            write!(out, ", the low half {}", self.more)?;
        }
        Ok(())
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    pub(crate) use testkit::random::next as random;

    /// Numbers around which bounds, signs and widths change.
    pub(crate) const CENTRES: [u64; 8] =
        [0, 1 << 7, 1 << 15, 1 << 31, 1 << 32, 1 << 63, 0xffff_ffff_8000_0000, 0x1234_5678];

    /// A number that is often near a place where something changes.
    pub(crate) fn number(seed: &mut u64) -> u64 {
        match random(seed) % 4 {
            0 => random(seed),
            1 => random(seed) >> (random(seed) % 64),
            _ => {
                CENTRES[random(seed) as usize % CENTRES.len()].wrapping_add(random(seed) % 17).wrapping_sub(8)
            }
        }
    }

    /// What all of them have in common in their low halves.
    fn half_of(members: &[u64]) -> Half {
        let halves = members.iter().map(|member| Half::of_bits(*member as u32, 0));
        halves.reduce(Half::join).expect("not empty")
    }

    /// A scalar and some of its members.
    pub(crate) fn sample(seed: &mut u64) -> (Scalar, Vec<u64>) {
        let members: Vec<u64> = (0..1 + random(seed) % 4).map(|_| number(seed)).collect();
        let hull =
            members.iter().map(|member| Scalar::constant(*member)).reduce(Scalar::join).expect("not empty");
        // Sometimes less is known than the hull, and in an inconsistent way.
        let hull = if random(seed).is_multiple_of(3) { hull } else { hull.and_more(half_of(&members)) };
        let hull = match random(seed) % 7 {
            6 => Scalar { bits: Tnum::UNKNOWN, min: 0, max: u64::MAX, smin: i64::MIN, ..hull },
            0 => Scalar { bits: Tnum::UNKNOWN, ..hull },
            1 => Scalar { min: 0, max: u64::MAX, ..hull },
            2 => Scalar { smin: i64::MIN, smax: i64::MAX, ..hull },
            3 => Scalar { min: 0, smax: i64::MAX, ..hull },
            _ => hull.tightened().expect("has members"),
        };
        (hull, members)
    }

    /// Numbers at which widths and signs change, with steps between them of which the bits tell more than the bounds,
    /// and with upper halves that differ: all sets of them (but the empty one), by the scalar that is nearest to each.
    pub(crate) fn small_sets(centre: u64) -> Vec<(Scalar, Vec<u64>)> {
        let points = [0, 1, 2, 6, 1 << 32].map(|step: u64| centre.wrapping_sub(2).wrapping_add(step));
        let members = |set: u32| {
            let held = points.iter().enumerate().filter(move |(index, _)| set >> index & 1 == 1);
            held.map(|(_, point)| *point).collect::<Vec<u64>>()
        };
        let nearest = |members: &[u64]| {
            members.iter().map(|member| Scalar::constant(*member)).reduce(Scalar::join).expect("not empty")
        };
        let nearest = |members: &[u64]| nearest(members).and_more(half_of(members));
        (1..1u32 << points.len()).map(members).map(|members| (nearest(&members), members)).collect()
    }

    /// Each function of one scalar and of two, on all small sets.
    #[test]
    fn small_sets_keep_every_member() {
        for (first, second) in CENTRES.iter().flat_map(|first| CENTRES.map(|second| (*first, second))) {
            for (a, in_a) in small_sets(first) {
                assert!(in_a.iter().all(|x| a.has(*x) && a.tightened().is_some_and(|set| set.has(*x))));
                for bits in [8, 16, 32] {
                    let unused = 64 - bits;
                    let extended = |x: u64| ((x << unused) as i64 >> unused) as u64;
                    assert!(in_a.iter().all(|x| a.low(bits).has(x & ones(bits))), "{a:?} {bits}");
                    assert!(in_a.iter().all(|x| a.sign_extended(bits).has(extended(*x))), "{a:?} {bits}");
                }
                for (b, in_b) in small_sets(second) {
                    let (joined, wide, both) = (a.join(b), a.widen(b), a.intersect(b));
                    assert!(in_a.iter().chain(&in_b).all(|x| joined.has(*x) && wide.has(*x)), "{a:?} {b:?}");
                    let mut common = in_a.iter().filter(|x| in_b.contains(x));
                    assert!(common.all(|x| both.is_some_and(|both| both.has(*x))), "{a:?} {b:?}");
                    assert!(!a.contains(b) || in_b.iter().all(|x| a.has(*x)), "{a:?} {b:?}");
                    let half = b.low(32);
                    let mut fitting = in_a.iter().filter(|x| half.has(*x & ones(32)));
                    let found = a.with_low_half(half);
                    assert!(fitting.all(|x| found.is_some_and(|found| found.has(*x))), "{a:?} {half:?}");
                }
            }
        }
    }

    #[test]
    fn tightening_keeps_every_member() {
        let mut seed = 11;
        for _ in 0..200_000 {
            let (scalar, members) = sample(&mut seed);
            let tight = scalar.tightened().expect("has members");
            assert!(scalar.contains(tight) && members.iter().all(|member| tight.has(*member)), "{scalar:?}");
        }
    }

    #[test]
    fn widths_keep_every_member() {
        let mut seed = 12;
        for _ in 0..200_000 {
            let (scalar, members) = sample(&mut seed);
            for bits in [8, 16, 32, 64] {
                for member in &members {
                    let (low, up) = (member & ones(bits), 64 - bits);
                    let spread = ((member << up) as i64 >> up) as u64;
                    assert!(scalar.low(bits).has(low), "{scalar:?} {member:#x} {bits}");
                    assert!(scalar.sign_extended(bits).has(spread), "{scalar:?} {member:#x} {bits}");
                }
            }
            let narrowed = scalar.with_low_half(scalar.low(32)).expect("has members");
            assert!(members.iter().all(|member| narrowed.has(*member)), "{scalar:?}");
        }
    }

    #[test]
    fn what_is_loaded_is_what_is_left_of_any_number() {
        for bits in [8, 16, 32] {
            assert_eq!(
                Scalar::UNKNOWN.low(bits),
                Scalar::from_bits(Tnum { value: 0, mask: ones(bits) }),
                "{bits}"
            );
        }
        assert_eq!(Scalar::UNKNOWN.low(64), Scalar::UNKNOWN);
    }

    #[test]
    fn intersection_and_join_keep_every_member() {
        let mut seed = 13;
        for _ in 0..200_000 {
            let ((a, in_a), (b, in_b)) = (sample(&mut seed), sample(&mut seed));
            assert!(in_a.iter().chain(&in_b).all(|member| a.join(b).has(*member)));
            for member in in_a.iter().filter(|member| b.has(**member)) {
                assert!(a.intersect(b).is_some_and(|both| both.has(*member)), "{a:?} {b:?} {member:#x}");
            }
        }
    }

    #[test]
    fn widening_keeps_every_member() {
        let mut seed = 14;
        for _ in 0..200_000 {
            let ((a, in_a), (b, in_b)) = (sample(&mut seed), sample(&mut seed));
            let wide = a.widen(b);
            assert!(in_a.iter().chain(&in_b).all(|member| wide.has(*member)), "{a:?} {b:?} {wide:?}");
        }
    }

    /// However many numbers are added, whichever: a path that comes again and again soon brings nothing new.
    #[test]
    fn widening_ends_soon() {
        let mut seed = 15;
        for _ in 0..2_000 {
            let mut wide = sample(&mut seed).0.tightened().expect("has members");
            let mut steps = 0;
            for _ in 0..2_000 {
                let other = sample(&mut seed).0.tightened().expect("has members");
                if !wide.contains(other) {
                    wide = wide.widen(other);
                    assert!(wide.contains(other));
                    steps += 1;
                }
            }
            assert!(steps <= 24, "{steps} steps to {wide:?}");
        }
    }

    /// All intervals of 8 numbers around each centre: what is empty is found empty, what is not is not.
    #[test]
    fn signed_and_unsigned_intervals_meet_exactly() {
        let intervals = || (0..8u64).flat_map(|from| (from..8).map(move |to| (from, to)));
        for centre in CENTRES {
            let at = |index: u64| centre.wrapping_sub(4).wrapping_add(index);
            for (from, to) in intervals().filter(|(from, to)| at(*from) <= at(*to)) {
                for (sfrom, sto) in intervals().filter(|(from, to)| at(*from) as i64 <= at(*to) as i64) {
                    let unsigned = Scalar { min: at(from), max: at(to), ..Scalar::UNKNOWN };
                    let both = Scalar { smin: at(sfrom) as i64, smax: at(sto) as i64, ..unsigned };
                    let expected: Vec<u64> = (0..8).map(at).filter(|number| both.has(*number)).collect();
                    let found = both.tightened();
                    assert!(expected.iter().all(|number| found.is_some_and(|set| set.has(*number))));
                    if expected.is_empty() {
                        assert_eq!(found, None, "{both:?}");
                    }
                }
            }
        }
    }
}
