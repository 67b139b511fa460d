//! How much is looked at, and how far a patch reaches.

/// What leads to a list of those who are called: a word, and behind it the list's address.
pub const CALLED_BYTES: usize = 16;

/// Offset of that address.
pub const CALLED_LIST: usize = 8;

/// Functions in such a list.
pub const CALLED_OTHERS_MAX: usize = 64;

/// Exits of one function that are patched.
pub const EXITS_MAX: usize = 128;

/// A function larger than this is not decoded to the end, and so is refused.
pub const FUNCTION_BYTES_MAX: u64 = 8 << 20;

pub const HOLE_REACH: u64 = 127;

/// Bytes of the jump that replaces a function's first instructions.
pub const JUMP_BYTES: usize = 5;

/// Below it nothing is mapped (vm.mmap_min_addr).
pub const LOWEST_ADDRESS: u64 = 1 << 16;

/// Bytes of a `jmp rel8`, and how far it leads forward; one byte more backward.
pub const SHORT_JUMP_BYTES: usize = 2;

/// Entries of one switch's table that are followed.
pub const TABLE_ENTRIES_MAX: usize = 16 << 10;

/// Functions that tail calls lead to, counted for all functions of one binary that are asked about.
pub const TAIL_TARGETS_MAX: usize = 1 << 20;

/// How often ways of a function may meet at one place with something new, before its proof is given up.
pub const WALK_JOINS_MAX: u32 = 64;

/// Bytes that a window may cover: four bytes short of a jump, then one instruction of at most 15 bytes.
pub const WINDOW_BYTES_MAX: usize = JUMP_BYTES - 1 + 15;

/// Texts that are written for one site: a jump at its entry, and one in a hole that it leads through.
pub const WRITES_PER_SITE_MAX: usize = 2;
