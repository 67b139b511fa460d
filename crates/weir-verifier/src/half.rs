//! What is known of a number of 32 bits: bounds without sign and with sign.

use std::fmt;

use crate::alu::ends;

/// All numbers of 32 bits that are within both.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Half {
    pub(crate) min: u32,
    pub(crate) max: u32,
    pub(crate) smin: i32,
    pub(crate) smax: i32,
}

impl Half {
    pub(crate) const ANY: Half = Half { min: 0, max: u32::MAX, smin: i32::MIN, smax: i32::MAX };

    /// What fits the known bits.
    pub(crate) fn of_bits(value: u32, mask: u32) -> Half {
        const SIGN: u32 = 1 << 31;
        let (smin, smax) = ((value | mask & SIGN) as i32, (value | mask & !SIGN) as i32);
        Half { min: value, max: value | mask, smin, smax }
    }

    pub(crate) fn has(self, number: u32) -> bool {
        let signed = number as i32;
        self.min <= number && number <= self.max && self.smin <= signed && signed <= self.smax
    }

    /// Every number of `other` is in `self`.
    pub(crate) fn contains(self, other: Half) -> bool {
        self.min <= other.min && self.max >= other.max && self.smin <= other.smin && self.smax >= other.smax
    }

    /// None where nothing is in both.
    pub(crate) fn intersect(self, other: Half) -> Option<Half> {
        let (min, max) = (self.min.max(other.min), self.max.min(other.max));
        let (smin, smax) = (self.smin.max(other.smin), self.smax.min(other.smax));
        Half { min, max, smin, smax }.tightened()
    }

    pub(crate) fn join(self, other: Half) -> Half {
        let (min, max) = (self.min.min(other.min), self.max.max(other.max));
        let (smin, smax) = (self.smin.min(other.smin), self.smax.max(other.smax));
        Half { min, max, smin, smax }
    }

    /// All sums, modulo 2^32.
    pub(crate) fn plus(self, other: Half) -> Half {
        let (a, b) = (self, other);
        let bounds = ends((a.min.overflowing_add(b.min), false), (a.max.overflowing_add(b.max), false));
        let signed =
            ends((a.smin.overflowing_add(b.smin), a.smin < 0), (a.smax.overflowing_add(b.smax), a.smax < 0));
        Half::of(bounds, signed)
    }

    /// All differences, modulo 2^32.
    pub(crate) fn minus(self, other: Half) -> Half {
        let (a, b) = (self, other);
        let bounds = ends((a.min.overflowing_sub(b.max), false), (a.max.overflowing_sub(b.min), false));
        let signed =
            ends((a.smin.overflowing_sub(b.smax), a.smin < 0), (a.smax.overflowing_sub(b.smin), a.smax < 0));
        Half::of(bounds, signed)
    }

    fn of(bounds: Option<(u32, u32)>, signed: Option<(i32, i32)>) -> Half {
        let (min, max) = bounds.unwrap_or((Half::ANY.min, Half::ANY.max));
        let (smin, smax) = signed.unwrap_or((Half::ANY.smin, Half::ANY.smax));
        Half { min, max, smin, smax }
    }

    /// The same set, each kind of bounds as narrow as the other makes it. None: the set is empty.
    pub(crate) fn tightened(mut self) -> Option<Half> {
        if self.min > self.max || self.smin > self.smax {
            return None;
        }
        let negative = |number: u32| number >> 31 == 1;
        if negative(self.min) == negative(self.max) {
            (self.smin, self.smax) = (self.smin.max(self.min as i32), self.smax.min(self.max as i32));
        } else if self.smin < 0 && self.smax >= 0 {
            // Both ranges reach over their seam: the parts below and above zero are looked at alone.
            match (self.smin as u32 <= self.max, self.min <= self.smax as u32) {
                (false, false) => return None,
                (true, false) => self.smax = self.max as i32,
                (false, true) => self.smin = self.min as i32,
                (true, true) => {}
            }
        }
        if (self.smin < 0) == (self.smax < 0) {
            (self.min, self.max) = (self.min.max(self.smin as u32), self.max.min(self.smax as u32));
        }
        (self.min <= self.max && self.smin <= self.smax).then_some(self)
    }
}

impl fmt::Display for Half {
    /// The narrower of the two ranges.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.smax.wrapping_sub(self.smin) as u32) < self.max - self.min {
            true => write!(out, "{}..={}", self.smin, self.smax),
            false => write!(out, "{}..={}", self.min, self.max),
        }
    }
}
