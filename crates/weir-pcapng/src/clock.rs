//! Times of a file: counts of units since an offset → nanoseconds since 1970-01-01 00:00:00 UTC.
//!
//! A time is 64 bits of nanoseconds, which reach to the year 2554. A time that is outside is none.

const NS_PER_S: u64 = 1_000_000_000;

/// The unit of an interface's times (if_tsresol): a power of ten, or of two, of a second.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Resolution(u8);

impl Resolution {
    /// 10⁻⁹ s.
    pub const NANOSECONDS: Resolution = Resolution(9);
    /// 10⁻⁶ s: what is meant where a file does not say.
    pub const MICROSECONDS: Resolution = Resolution(6);

    /// 10 to the power of `-exponent` seconds; at most 19, so that the units of a second are a number of 64 bits.
    pub const fn decimal(exponent: u8) -> Option<Resolution> {
        if exponent <= 19 { Some(Resolution(exponent)) } else { None }
    }

    /// 2 to the power of `-exponent` seconds; at most 63.
    pub const fn binary(exponent: u8) -> Option<Resolution> {
        if exponent <= 63 { Some(Resolution(0x80 | exponent)) } else { None }
    }

    /// From the byte of the option; `None` if its exponent is more than 19 (of ten) or 63 (of two).
    pub const fn from_byte(byte: u8) -> Option<Resolution> {
        if byte & 0x80 == 0 { Resolution::decimal(byte) } else { Resolution::binary(byte & 0x7f) }
    }

    /// Units of a second.
    pub const fn per_second(self) -> u64 {
        let exponent = (self.0 & 0x7f) as u32;
        if self.0 & 0x80 == 0 { 10_u64.pow(exponent) } else { 1 << exponent }
    }
}

/// How the times of one interface are counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Clock {
    per_second: u64,
    /// Seconds to be added (if_tsoffset).
    offset_s: i64,
}

impl Clock {
    pub(crate) fn new(resolution: Resolution, offset_s: i64) -> Clock {
        Clock { per_second: resolution.per_second(), offset_s }
    }

    /// Nanoseconds since the epoch, rounded down; `None` before 1970 and after 2554.
    #[inline]
    pub(crate) fn nanoseconds(self, ticks: u64) -> Option<u64> {
        match (self.per_second, self.offset_s) {
            (NS_PER_S, 0) => Some(ticks),
            (1_000_000, 0) => ticks.checked_mul(1_000),
            _ => self.any_nanoseconds(ticks),
        }
    }

    fn any_nanoseconds(self, ticks: u64) -> Option<u64> {
        let ns = u128::from(ticks) * u128::from(NS_PER_S) / u128::from(self.per_second);
        // Less than 2^94, and the offset is less than 2^93.
        let ns = ns as i128 + i128::from(self.offset_s) * i128::from(NS_PER_S);
        u64::try_from(ns).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(byte: u8, offset_s: i64, ticks: u64, ns: Option<u64>) {
        let clock = Clock::new(Resolution::from_byte(byte).unwrap(), offset_s);
        assert_eq!(clock.nanoseconds(ticks), ns, "{byte:#x} {offset_s} {ticks}");
    }

    #[test]
    fn units_are_powers_of_ten_and_two() {
        check(9, 0, 1_700_000_000_123_456_789, Some(1_700_000_000_123_456_789));
        check(6, 0, 1_700_000_000_123_456, Some(1_700_000_000_123_456_000));
        check(3, 0, 1_700_000_000_123, Some(1_700_000_000_123_000_000));
        check(0, 0, 17, Some(17_000_000_000));
        check(12, 0, 1_999, Some(1));
        check(19, 0, u64::MAX, Some(1_844_674_407));
        check(0x80, 0, 17, Some(17_000_000_000));
        check(0x80 | 10, 0, 1025, Some(1_000_976_562));
        check(0x80 | 63, 0, 1 << 62, Some(500_000_000));
    }

    #[test]
    fn the_offset_is_added() {
        check(9, 1, 5, Some(1_000_000_005));
        check(6, -1, 1_500_000, Some(500_000_000));
        check(6, 1_700_000_000, 123, Some(1_700_000_000_000_123_000));
    }

    #[test]
    fn a_time_outside_of_64_bits_is_none() {
        check(6, 0, u64::MAX, None);
        check(0, 0, u64::MAX, None);
        check(6, -2, 1_000_000, None);
        check(0, i64::MIN, u64::MAX, None);
        check(0, i64::MAX, u64::MAX, None);
    }

    #[test]
    fn exponents_that_no_64_bits_hold_are_refused() {
        assert_eq!([20, 127, 0x80 | 64, 0xff].map(Resolution::from_byte), [None; 4]);
        assert_eq!(Resolution::from_byte(0x80 | 63).map(Resolution::per_second), Some(1 << 63));
    }
}
