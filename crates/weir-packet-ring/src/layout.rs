//! Where things are in a segment. All numbers are little-endian and aligned to their size.

/// "weirpkts".
pub(crate) const MAGIC: u64 = u64::from_le_bytes(*b"weirpkts");
/// Raised with every change of the layout.
pub(crate) const VERSION: u64 = 1;

pub(crate) const PAGE: u64 = 4096;

/// Words of the header.
pub(crate) mod header {
    pub(crate) const MAGIC: u64 = 0;
    pub(crate) const VERSION: u64 = 8;
    pub(crate) const BYTES: u64 = 16;
    pub(crate) const RINGS: u64 = 24;
    /// Bytes of each ring's data.
    pub(crate) const RING_BYTES: u64 = 32;
    pub(crate) const PROGRAM_INSNS: u64 = 40;
    pub(crate) const SNAPLEN: u64 = 48;
    /// Bit 0: packets get ids.
    pub(crate) const OPTIONS: u64 = 56;
    /// Specs of rings, a word each, begin here.
    pub(crate) const SPECS: u64 = 64;
}

pub(crate) const OPTION_IDS: u64 = 1;

/// Words of a ring's page. The writer's line, and the reader's.
pub(crate) mod ring {
    pub(crate) const HEAD: u64 = 0;
    pub(crate) const RECEIVED: u64 = 8;
    pub(crate) const FILTERED: u64 = 16;
    pub(crate) const WRITTEN: u64 = 24;
    pub(crate) const DROPPED: u64 = 32;
    /// Two lines on: processors fetch them in pairs.
    pub(crate) const TAIL: u64 = 128;
}

/// Words of a record, then its bytes. The first: in its lower half bytes of the record, a multiple of 8, in the upper half flags.
pub(crate) mod record {
    pub(crate) const TICKS: usize = 8;
    /// Lower half: bytes that follow; upper half: bytes on the wire.
    pub(crate) const LENGTHS: usize = 16;
    /// Lower half: hash; upper half: packets dropped since the record before.
    pub(crate) const HASH: usize = 24;
    pub(crate) const ID: usize = 32;
    pub(crate) const BYTES: usize = 40;
    /// In the upper half of the first word: nothing follows before the end of the ring.
    pub(crate) const SKIP: u32 = 1 << 31;
}

/// Where the parts are that depend on how much there is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    pub(crate) rings: u64,
    pub(crate) ring_bytes: u64,
    pub(crate) program: u64,
    pub(crate) program_insns: u64,
    first_ring: u64,
    pub(crate) bytes: u64,
}

impl Layout {
    /// The numbers are within `limits`.
    pub(crate) fn of(rings: u64, ring_bytes: u64, program_insns: u64) -> Layout {
        let program = header::SPECS + 8 * rings;
        let first_ring = (program + 8 * program_insns).next_multiple_of(PAGE);
        let bytes = first_ring + rings * (PAGE + ring_bytes);
        Layout { rings, ring_bytes, program, program_insns, first_ring, bytes }
    }

    /// The page of a ring; its bytes are after that.
    pub(crate) fn ring(&self, index: usize) -> u64 {
        self.first_ring + index as u64 * (PAGE + self.ring_bytes)
    }
}
