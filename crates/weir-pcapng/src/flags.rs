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
    Unknown,
    /// Received.
    Inbound,
    /// Sent.
    Outbound,
}

/// To whom a packet was addressed.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Reception {
    /// The file does not say (or has a number that means nothing).
    #[default]
    Unspecified,
    /// To this machine.
    Unicast,
    /// To a group.
    Multicast,
    /// To all.
    Broadcast,
    /// To another machine.
    Promiscuous,
}

/// Errors of the link layer, a bit each.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct LinkErrors(u16);

impl LinkErrors {
    /// No error.
    pub const NONE: LinkErrors = LinkErrors(0);
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

    /// These and `other`.
    pub const fn with(self, other: LinkErrors) -> LinkErrors {
        LinkErrors(self.0 | other.0)
    }

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
/// let flags = PacketFlags::default().with_direction(Direction::Outbound).with_checksum_not_ready();
/// assert_eq!(flags.bits(), 0x202);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct PacketFlags(u32);

impl PacketFlags {
    /// From the option's word, whatever it has.
    pub const fn from_bits(bits: u32) -> PacketFlags {
        PacketFlags(bits)
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

    /// With this direction.
    #[must_use]
    pub const fn with_direction(self, direction: Direction) -> PacketFlags {
        PacketFlags(self.0 & !DIRECTION | direction as u32)
    }

    /// With this reception type.
    #[must_use]
    pub const fn with_reception(self, reception: Reception) -> PacketFlags {
        PacketFlags(self.0 & !(7 << RECEPTION_SHIFT) | (reception as u32) << RECEPTION_SHIFT)
    }

    /// With a check sequence of so many octets, of which four bits are taken.
    #[must_use]
    pub const fn with_fcs_bytes(self, bytes: u8) -> PacketFlags {
        PacketFlags(self.0 & !(15 << FCS_SHIFT) | (bytes as u32 & 15) << FCS_SHIFT)
    }

    /// With a checksum that is not computed yet.
    #[must_use]
    pub const fn with_checksum_not_ready(self) -> PacketFlags {
        PacketFlags(self.0 | NOT_READY)
    }

    /// With a checksum that was found right.
    #[must_use]
    pub const fn with_checksum_valid(self) -> PacketFlags {
        PacketFlags(self.0 | VALID)
    }

    /// As one of several packets on the wire.
    #[must_use]
    pub const fn with_segmentation_offloaded(self) -> PacketFlags {
        PacketFlags(self.0 | SEGMENTATION)
    }

    /// With these errors, in place of what was there.
    #[must_use]
    pub const fn with_errors(self, errors: LinkErrors) -> PacketFlags {
        PacketFlags(self.0 & 0xffff | (errors.0 as u32) << ERRORS_SHIFT)
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

    fn check(flags: PacketFlags, bits: u32) {
        assert_eq!(flags.bits(), bits);
    }

    #[test]
    fn each_part_has_the_bits_of_the_draft() {
        let none = PacketFlags::default();
        check(none.with_direction(Direction::Inbound), 1);
        check(none.with_direction(Direction::Outbound), 2);
        check(none.with_reception(Reception::Unicast), 1 << 2);
        check(none.with_reception(Reception::Promiscuous), 4 << 2);
        check(none.with_fcs_bytes(4), 4 << 5);
        check(none.with_checksum_not_ready(), 1 << 9);
        check(none.with_checksum_valid(), 1 << 10);
        check(none.with_segmentation_offloaded(), 1 << 11);
        check(none.with_errors(LinkErrors::CRC), 1 << 24);
        check(none.with_errors(LinkErrors::SYMBOL.with(LinkErrors::TOO_LONG)), 1 << 31 | 1 << 25);
    }

    #[test]
    fn what_is_put_in_comes_out() {
        for direction in [Direction::Unknown, Direction::Inbound, Direction::Outbound] {
            assert_eq!(PacketFlags::from_bits(u32::MAX).with_direction(direction).direction(), direction);
        }
        let receptions = [
            Reception::Unspecified,
            Reception::Unicast,
            Reception::Multicast,
            Reception::Broadcast,
            Reception::Promiscuous,
        ];
        for reception in receptions {
            assert_eq!(PacketFlags::from_bits(u32::MAX).with_reception(reception).reception(), reception);
        }
        assert_eq!(PacketFlags::from_bits(u32::MAX).with_fcs_bytes(6).fcs_bytes(), 6);
        let errors = PacketFlags::default().with_errors(LinkErrors::GAP).errors();
        assert!(errors.contains(LinkErrors::GAP) && !errors.contains(LinkErrors::CRC));
    }

    #[test]
    fn numbers_without_a_meaning_say_nothing() {
        let odd = PacketFlags::from_bits(3 | 7 << 2 | 0x1000);
        assert_eq!((odd.direction(), odd.reception()), (Direction::Unknown, Reception::Unspecified));
        assert!(odd.has_reserved());
    }
}
