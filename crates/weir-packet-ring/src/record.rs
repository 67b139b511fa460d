//! What is known of a packet beside its bytes, and how it lies in a ring.

use crate::layout::record;

/// What a driver or an application has said of a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Flags(u32);

impl Flags {
    /// A checksum of the transport layer is not computed yet.
    pub const CHECKSUM_NOT_READY: Flags = Flags(1);
    /// The hardware has found that checksum right.
    pub const CHECKSUM_GOOD: Flags = Flags(2);
    /// The packet will be cut into several by the hardware, or several were joined to it.
    pub const SEGMENTED: Flags = Flags(4);
    /// [`Meta::hash`] was computed by the hardware.
    pub const HASH: Flags = Flags(8);
    /// [`Meta::id`] says which packet it is.
    pub const ID: Flags = Flags(16);
    /// One or two VLAN tags were beside the packet, and were put back.
    pub const TAGGED: Flags = Flags(32);

    /// Every one of `other` is among these.
    pub fn contains(self, other: Flags) -> bool {
        self.0 & other.0 == other.0
    }

    /// Those of both.
    #[must_use]
    pub fn with(self, other: Flags) -> Flags {
        Flags(self.0 | other.0)
    }

    /// These if `is`, else none.
    #[must_use]
    #[inline]
    pub fn when(self, is: bool) -> Flags {
        Flags(self.0 * u32::from(is))
    }
}

/// What is known of a packet beside its bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Meta {
    /// The time stamp counter.
    pub ticks: u64,
    /// Bytes on the wire.
    pub wire_bytes: u32,
    /// See there.
    pub flags: Flags,
    /// Of receive-side scaling; with [`Flags::HASH`].
    pub hash: u32,
    /// The same number means the same packet, also in another ring; with [`Flags::ID`].
    pub id: u64,
}

/// Bytes of a record with so many bytes of a packet.
#[inline]
pub(crate) const fn bytes_of(captured: usize) -> u64 {
    (record::BYTES as u64 + captured as u64).next_multiple_of(8)
}

/// The words of a record.
#[inline]
pub(crate) fn words_of(meta: &Meta, captured: usize, dropped: u32) -> [u64; record::BYTES / 8] {
    let halves = |low: u32, high: u32| u64::from(low) | u64::from(high) << 32;
    [
        halves(bytes_of(captured) as u32, meta.flags.0),
        meta.ticks,
        halves(captured as u32, meta.wire_bytes),
        halves(meta.hash, dropped),
        meta.id,
    ]
}

/// The first word of what fills a ring up to its end.
pub(crate) fn skip(bytes: u64) -> u64 {
    bytes | u64::from(record::SKIP) << 32
}

/// What the first word of a record says.
pub(crate) enum First {
    Skip(u64),
    Record { bytes: u64, flags: Flags },
}

impl First {
    pub(crate) fn of(word: u64) -> First {
        let (bytes, flags) = (word & 0xffff_ffff, (word >> 32) as u32);
        match flags & record::SKIP != 0 {
            true => First::Skip(bytes),
            false => First::Record { bytes, flags: Flags(flags) },
        }
    }
}

/// The word of private bytes at `at`, which are there.
pub(crate) fn word(bytes: &[u8], at: usize) -> u64 {
    // SANITY: a slice of 8 is an array of 8.
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("8 bytes"))
}
