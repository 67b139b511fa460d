//! Every bound of this crate.

/// Rings of a segment.
pub const RINGS_MAX: usize = 4096;
/// Instructions of a filter program.
pub const PROGRAM_INSNS_MAX: usize = 65_536;
/// Bytes of a ring: a power of two in this range.
pub const RING_BYTES_MIN: u64 = 1 << 20;
/// See [`RING_BYTES_MIN`].
pub const RING_BYTES_MAX: u64 = 1 << 30;
/// Bytes that are kept of a packet at most; what libpcap keeps.
pub const CAPTURED_BYTES_MAX: u32 = 262_144;
/// Bytes that a reader takes out of a ring at once.
pub const DRAINED_BYTES_MAX: u64 = 1 << 20;

// A ring has room for the largest record wherever the last one ended.
const _: () = assert!(2 * (CAPTURED_BYTES_MAX as u64 + 64) <= RING_BYTES_MIN);
const _: () = assert!(DRAINED_BYTES_MAX >= RING_BYTES_MIN);
