//! Addresses of plain memory: what each is of, and where in it.

/// What an address is of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Region {
    Stack,
    Context,
    Cookie,
    /// What was lent, in the so-manieth place that it had.
    Lent(u32),
    /// What names a map: nothing can be accessed there.
    Map(u32),
    /// Values of a map.
    Values(u32),
    /// A copy of an element's key.
    Key(u32),
    Record(u32),
}

/// Where a region begins in the lower half: room on both sides for what is compared and not accessed, and a multiple of all
/// alignments.
const START: u64 = 1 << 30;
/// Kinds of regions, in the highest byte that is used; numbers of regions in 24 bits below.
const KIND_SHIFT: u32 = 56;
const NUMBER_SHIFT: u32 = 32;
const NUMBER_MASK: u64 = 0xff_ffff;

impl Region {
    /// Address of its first byte.
    pub(super) fn start(self) -> u64 {
        let (kind, number) = match self {
            Region::Stack => (1u64, 0),
            Region::Context => (2, 0),
            Region::Cookie => (3, 0),
            Region::Lent(number) => (4, number),
            Region::Map(number) => (5, number),
            Region::Values(number) => (6, number),
            Region::Key(number) => (7, number),
            Region::Record(number) => (8, number),
        };
        kind << KIND_SHIFT | (u64::from(number) & NUMBER_MASK) << NUMBER_SHIFT | START
    }

    /// The region that an address is in or near, and the distance from its first byte.
    pub(super) fn of(address: u64) -> Option<(Region, i64)> {
        let number = (address >> NUMBER_SHIFT & NUMBER_MASK) as u32;
        let region = match address >> KIND_SHIFT {
            1 if number == 0 => Region::Stack,
            2 if number == 0 => Region::Context,
            3 if number == 0 => Region::Cookie,
            4 => Region::Lent(number),
            5 => Region::Map(number),
            6 => Region::Values(number),
            7 => Region::Key(number),
            8 => Region::Record(number),
            _ => return None,
        };
        Some((region, address.wrapping_sub(region.start()) as i64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_say_what_they_are_of() {
        for region in
            [Region::Stack, Region::Context, Region::Lent(3), Region::Values(255), Region::Record(1)]
        {
            let start = region.start();
            assert_eq!(Region::of(start), Some((region, 0)));
            assert_eq!(Region::of(start - 8), Some((region, -8)));
            assert_eq!(Region::of(start + (1 << 29)), Some((region, 1 << 29)));
            assert!(start.is_multiple_of(4096));
        }
        assert_eq!((Region::of(0), Region::of(u64::MAX), Region::of(1 << 56 | 1 << 40)), (None, None, None));
    }
}
