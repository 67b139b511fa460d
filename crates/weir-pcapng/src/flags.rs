//! The flags of a packet (epb_flags): one word of 32 bits, bit 0 the least.
//!
//! | bits | meaning |
//! |---|---|
//! | 0–1 | direction |
//! | 2–4 | reception type |
//! | 5–8 | octets of the frame check sequence, 0: not known |
//! | 9, 10, 11 | checksum not ready, checksum valid, segmentation offloaded |
//! | 12–15 | 0 |
//! | 16–31 | errors of the link layer |

use std::fmt;

/// Which way a packet went, seen from the machine that captured it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Direction {
    /// The file does not say (or says 3, which means nothing).
    #[default]
    Unknown = 0,
    /// Received.
    Inbound = 1,
    /// Sent.
    Outbound = 2,
}

/// To whom a packet was addressed.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Reception {
    /// The file does not say (or has a number that means nothing).
    #[default]
    Unspecified = 0,
    /// To this machine.
    Unicast = 1,
    /// To a group.
    Multicast = 2,
    /// To all.
    Broadcast = 3,
    /// To another machine.
    Promiscuous = 4,
}

/// Errors of the link layer, a bit each.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct LinkErrors(u16);

impl LinkErrors {
    /// Wrong check sequence (bit 24 of the flags).
    pub const CRC: LinkErrors = LinkErrors(1 << 8);
    /// Packet too long.
    pub const TOO_LONG: LinkErrors = LinkErrors(1 << 9);
    /// Packet too short.
    pub const TOO_SHORT: LinkErrors = LinkErrors(1 << 10);
    /// Wrong gap between frames.
    pub const GAP: LinkErrors = LinkErrors(1 << 11);
    /// Unaligned frame.
    pub const UNALIGNED: LinkErrors = LinkErrors(1 << 12);
    /// Start frame delimiter.
    pub const DELIMITER: LinkErrors = LinkErrors(1 << 13);
    /// Preamble.
    pub const PREAMBLE: LinkErrors = LinkErrors(1 << 14);
    /// Symbol (bit 31).
    pub const SYMBOL: LinkErrors = LinkErrors(1 << 15);

    /// Whether all of `other` are among these.
    pub const fn contains(self, other: LinkErrors) -> bool {
        self.0 & other.0 == other.0
    }

    /// Bits 16 to 31 of the flags.
    pub const fn bits(self) -> u16 {
        self.0
    }
}

const DIRECTION: u32 = 0b11;
const RECEPTION_SHIFT: u32 = 2;
const FCS_SHIFT: u32 = 5;
const NOT_READY: u32 = 1 << 9;
const VALID: u32 = 1 << 10;
const SEGMENTATION: u32 = 1 << 11;
const RESERVED: u32 = 0xf000;
const ERRORS_SHIFT: u32 = 16;

/// A packet's flags.
///
/// ```
/// use weir_pcapng::{Direction, PacketFlags};
/// let flags = PacketFlags::from_bits(0x202);
/// assert_eq!(flags.direction(), Direction::Outbound);
/// assert!(flags.checksum_not_ready());
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct PacketFlags(u32);

impl PacketFlags {
    /// From the option's word, whatever it has.
    pub const fn from_bits(bits: u32) -> PacketFlags {
        PacketFlags(bits)
    }

    /// With another direction.
    #[must_use]
    pub const fn with_direction(self, direction: Direction) -> PacketFlags {
        PacketFlags(self.0 & !DIRECTION | direction as u32)
    }

    /// With another type of reception.
    #[must_use]
    pub const fn with_reception(self, reception: Reception) -> PacketFlags {
        PacketFlags(self.0 & !(7 << RECEPTION_SHIFT) | (reception as u32) << RECEPTION_SHIFT)
    }

    /// Says also that the checksum is not computed yet.
    #[must_use]
    pub const fn and_checksum_not_ready(self) -> PacketFlags {
        PacketFlags(self.0 | NOT_READY)
    }

    /// Says also that the checksum was found right.
    #[must_use]
    pub const fn and_checksum_valid(self) -> PacketFlags {
        PacketFlags(self.0 | VALID)
    }

    /// Says also that segmentation is offloaded.
    #[must_use]
    pub const fn and_segmentation_offloaded(self) -> PacketFlags {
        PacketFlags(self.0 | SEGMENTATION)
    }

    /// As the option has it.
    pub const fn bits(self) -> u32 {
        self.0
    }

    /// Whether bits are set that must be 0.
    pub const fn has_reserved(self) -> bool {
        self.0 & RESERVED != 0
    }

    /// Bits 0–1.
    pub const fn direction(self) -> Direction {
        match self.0 & DIRECTION {
            1 => Direction::Inbound,
            2 => Direction::Outbound,
            _ => Direction::Unknown,
        }
    }

    /// Bits 2–4.
    pub const fn reception(self) -> Reception {
        match self.0 >> RECEPTION_SHIFT & 7 {
            1 => Reception::Unicast,
            2 => Reception::Multicast,
            3 => Reception::Broadcast,
            4 => Reception::Promiscuous,
            _ => Reception::Unspecified,
        }
    }

    /// Octets of the frame check sequence at the packet's end, 0 to 15; 0: not known.
    pub const fn fcs_bytes(self) -> u8 {
        (self.0 >> FCS_SHIFT & 15) as u8
    }

    /// The checksum is not computed yet (offloading).
    pub const fn checksum_not_ready(self) -> bool {
        self.0 & NOT_READY != 0
    }

    /// The checksum was found right on receiving.
    pub const fn checksum_valid(self) -> bool {
        self.0 & VALID != 0
    }

    /// The packet is several on the wire (segmentation or reassembly is offloaded).
    pub const fn segmentation_offloaded(self) -> bool {
        self.0 & SEGMENTATION != 0
    }

    /// Bits 16–31.
    pub const fn errors(self) -> LinkErrors {
        LinkErrors((self.0 >> ERRORS_SHIFT) as u16)
    }
}

impl fmt::Debug for PacketFlags {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PacketFlags({:#x})", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check<T: PartialEq + fmt::Debug>(bits: u32, part: fn(PacketFlags) -> T, value: T) {
        assert_eq!(part(PacketFlags::from_bits(bits)), value, "{bits:#x}");
    }

    #[test]
    fn each_part_has_the_bits_of_the_draft() {
        check(0, PacketFlags::direction, Direction::Unknown);
        check(1, PacketFlags::direction, Direction::Inbound);
        check(!1, PacketFlags::direction, Direction::Outbound);
        check(0, PacketFlags::reception, Reception::Unspecified);
        check(1 << 2, PacketFlags::reception, Reception::Unicast);
        check(2 << 2, PacketFlags::reception, Reception::Multicast);
        check(3 << 2, PacketFlags::reception, Reception::Broadcast);
        check(!(3 << 2), PacketFlags::reception, Reception::Promiscuous);
        check(4 << 5, PacketFlags::fcs_bytes, 4);
        check(u32::MAX, PacketFlags::fcs_bytes, 15);
        check(1 << 9, PacketFlags::checksum_not_ready, true);
        check(!(1 << 9), PacketFlags::checksum_not_ready, false);
        check(1 << 10, PacketFlags::checksum_valid, true);
        check(!(1 << 10), PacketFlags::checksum_valid, false);
        check(1 << 11, PacketFlags::segmentation_offloaded, true);
        check(!(1 << 11), PacketFlags::segmentation_offloaded, false);
        check(1 << 24, PacketFlags::errors, LinkErrors::CRC);
        check(1 << 31, PacketFlags::errors, LinkErrors::SYMBOL);
        check(0xffff, |flags| flags.errors().bits(), 0);
    }

    #[test]
    fn errors_are_a_bit_each() {
        let both = PacketFlags::from_bits(1 << 31 | 1 << 25).errors();
        assert!(both.contains(LinkErrors::SYMBOL) && both.contains(LinkErrors::TOO_LONG));
        assert!(!both.contains(LinkErrors::CRC));
    }

    #[test]
    fn numbers_without_a_meaning_say_nothing() {
        let odd = PacketFlags::from_bits(3 | 7 << 2 | 0x1000);
        assert_eq!((odd.direction(), odd.reception()), (Direction::Unknown, Reception::Unspecified));
        assert!(odd.has_reserved());
    }
}
