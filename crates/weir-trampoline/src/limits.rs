//! How much may be generated, and how far from the code that leads there.

pub use weir_plan::limits::{JUMP_BYTES, LOWEST_ADDRESS};

/// Ranges of one trampoline that unwinders have a description of.
pub const FRAMES_PER_SITE_MAX: usize = 2;

/// Room left free above the heap, so that an island is not in the way of its growth.
pub const HEAP_ROOM: u64 = 1 << 30;

/// Bytes set aside for what stands at the entry of each that answers unwinders.
pub const HOOK_BYTES_MAX: usize = 768;

/// Islands of one target: the header of the segment has room for so many, and for one of stubs.
pub const ISLANDS_MAX: usize = 15;

/// How far from its text an island may lie, so that every `rel32` reaches with room to spare.
pub const ISLAND_REACH: u64 = (1 << 31) - (16 << 20);

/// The last bytes of an island's code: how many bytes of gates are behind it, and where the header is that unwinders read.
pub const ISLAND_TAIL_BYTES: u64 = 16;

/// How far a `jmp rel32` leads.
pub const JUMP_REACH: u64 = 1 << 31;

/// A line of the cache.
pub const LINE_BYTES: usize = 64;

/// Outposts of one target: each costs it a mapping.
pub const OUTPOSTS_MAX: usize = 64;

/// Programs on one function.
pub const PROGRAMS_PER_SITE_MAX: usize = 16;

/// Returns that may be waited for at once where return addresses are replaced (a power of two): one costs a stub of
/// 16 bytes and a record of 64 to 256.
pub const RECORDS: u32 = 1 << 14;

/// Records that the place of a return address chooses among.
pub const RECORDS_PER_SET: u32 = 4;

/// Trampolines that wait for one another in a chain of tail calls; behind that a return is missed.
pub const TAIL_DEPTH_MAX: u8 = 64;

/// Bytes set aside for one trampoline: saved registers and calls of all programs, twice, and two relocated windows.
pub const TRAMPOLINE_BYTES_MAX: usize = 2560;
