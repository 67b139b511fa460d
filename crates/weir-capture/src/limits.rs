//! Bounds, each named once.

/// Bytes that are kept of a packet at most where nothing else is asked for, as with libpcap.
pub const SNAPLEN_DEFAULT: u32 = 262_144;

/// LIMIT: interfaces that are captured at once.
pub(crate) const INTERFACES_MAX: usize = 1024;

/// Bytes of one block of a ring: more than the longest packet has.
pub(crate) const BLOCK_BYTES: u32 = 1 << 20;

/// LIMIT: bytes of a ring.
pub(crate) const RING_BYTES_MAX: u64 = 2 << 30;

/// A block that has packets is given to us after so long, even if it is not full.
pub(crate) const BLOCK_MS: u32 = 50;

/// LIMIT: how long the end of a capture waits for packets that the kernel has counted.
pub(crate) const END_MS: u64 = 1_000;

/// Records that a source gives in one step: a few milliseconds, after which signals are looked for.
pub(crate) const STEP_RECORDS: u32 = 10_000;

/// LIMIT: bytes of secrets and names that are repeated in each file of a rotation.
pub(crate) const REPEATED_BYTES_MAX: usize = 64 << 20;

const _: () = assert!(BLOCK_BYTES > SNAPLEN_DEFAULT + 4096);
