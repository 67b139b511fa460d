//! Bounds of a run, named once.

/// Bytes of one eBPF stack frame (the kernel's MAX_BPF_STACK).
pub const STACK_FRAME_BYTES: u32 = 512;
/// Frames of local calls (the kernel's MAX_CALL_FRAMES).
pub const CALL_DEPTH_MAX: u32 = 8;
/// Times that each call of a function may pass its `may_goto` instructions before they jump (the kernel's BPF_MAX_LOOPS).
pub const MAY_GOTO_ROUNDS_MAX: u32 = 8 * 1024 * 1024;
/// Most bytes of a packet or of memory that a program is lent: an offset in them is a legal pointer offset of the
/// verifier, and a positive number of 4 bytes.
pub const LENT_BYTES_MAX: u32 = 1 << 28;
/// Bytes that all maps in plain memory may come to take together, and one of them: offsets in it are half of an address.
pub const PLAIN_BYTES_MAX: u64 = 1 << 32;
/// Of one map.
pub const PLAIN_MAP_BYTES_MAX: u64 = 1 << 31;
/// Regions of one kind that have an address of their own: records of a run, places of a packet.
pub const PLAIN_REGIONS_MAX: u32 = 1 << 24;
