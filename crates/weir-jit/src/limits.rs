//! Every bound of this crate.

/// Most bytes of stack that a runtime function called from a program uses below its own return address.
pub(crate) use weir_rt::limits::{
    HELPER_STACK_BYTES, PROGRAM_STACK_BYTES, SMALL_HELPER_STACK_BYTES, helper_stack_bytes,
};

/// Bytes below rsp that no signal handler touches (System V AMD64 psABI, 3.2.2): programs that call nothing
/// keep their stack there and leave rsp alone.
pub(crate) const RED_ZONE_BYTES: u32 = 128;

/// Deepest eBPF stack, from the verifier.
pub(crate) const STACK_BYTES_MAX: usize = 512;

/// Most instruction slots of a program: the verifier's own limit is lower; ours keeps code offsets in 32 bits.
pub(crate) const INSNS_MAX: usize = 1 << 20;

/// Longest chain of jumps to jumps that is followed: each chain is followed from every jump into it.
pub(crate) const THREADED_JUMPS_MAX: usize = 8;

/// Most slots from a branch to the end of the moves that it skips; two moves of wide constants are five.
pub(crate) const SELECT_SLOTS_MAX: usize = 6;

/// Most slots from a constant to the branch that may replace it.
pub(crate) const CONSTANT_SLOTS_MAX: usize = 8;

/// How many slots a pass looks ahead from one operation: with it, passes stay linear in the program's length. In
/// clang's code 9 of 10 uses stand within 8.
pub(crate) const LOOK_AHEAD_SLOTS: usize = 48;

/// Most operations before a branch that are repeated in place of a jump to them.
pub(crate) const INVERTED_OPS_MAX: usize = 8;

/// Bytes of a page of memory.
pub(crate) const PAGE_BYTES: i32 = 4096;

/// Loops begin at multiples of so many bytes.
pub(crate) const LOOP_ALIGNMENT: usize = 32;

/// Loops that fit into so many bytes do not cross a multiple of them: a line of the cache, by which x86 processors
/// fetch and predict. (A comparison of strings whose inner loop of 34 bytes crosses one took 525 ns, at most other
/// places 310.)
pub(crate) const LINE_BYTES: usize = 64;
