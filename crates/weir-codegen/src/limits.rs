//! The bounds of what is generated, each named once.

/// Stack of one program (eBPF: 512 bytes below r10).
pub(crate) const STACK_BYTES_MAX: u32 = 512;
/// Keys, strings and values up to this lie on the stack; longer ones in scratch memory. The next smaller limit is
/// tried where the stack overflows: with the last one, only single words are left on it.
pub(crate) const STACK_OBJECT_BYTES: [u32; 3] = [64, 16, 8];
/// Initial values up to this are made on the stack; longer ones come from the `.zero` map.
pub(crate) const STACK_ZERO_BYTES: u32 = 16;
/// Scratch memory of one program: offsets in it are 16-bit.
pub(crate) const SCRATCH_BYTES_MAX: u32 = 32_760;
/// Slots of scratch memory: runs that hold some at the same time, in all threads. A power of two.
pub(crate) const SCRATCH_SLOTS: u32 = 1024;
/// Slots that one run tries before it gives up. With half of all slots taken, one run in 16 million does.
pub(crate) const SCRATCH_TRIES: i32 = 32;
/// The first of these are neighbours, and other CPUs begin so many apart; the rest are random ones.
pub(crate) const SCRATCH_TRIES_OF_CPU: i32 = 8;
/// Instruction slots of one program: jump offsets are 16-bit.
pub(crate) const INSNS_MAX: usize = 32_000;
/// Bytes of the pieces in which a text is read for an automaton, with a NUL.
pub(crate) const PIECE_BYTES: u32 = weir_ir::limits::MATCH_PIECE_BYTES + 1;
/// Tables of automata, all together: what a map may hold at first (weir-ebpf's text form and ours).
pub(crate) const AUTOMATA_BYTES_MAX: usize = 1 << 20;
/// Words that are filled, copied or compared one after the other; more of them take a loop.
pub(crate) const UNROLLED_WORDS: u32 = 8;
/// Attempts to raise a minimum or maximum before another thread's value is left to stand.
pub(crate) const RAISE_ATTEMPTS: i32 = 128;
/// Places of one table of stacks: with 127 frames it has 32 MiB.
pub(crate) const STACKS_MAX: u32 = 32_768;
/// Of the ring where only clauses write to it that weir runs itself (BEGIN, END, intervals).
pub(crate) const OWN_RING_BYTES: u32 = 1 << 16;

const _: () = assert!(PIECE_BYTES.is_multiple_of(8));
const _: () = assert!(SCRATCH_BYTES_MAX <= i16::MAX as u32);
const _: () = assert!(SCRATCH_SLOTS.is_power_of_two());
const _: () = assert!(SCRATCH_TRIES_OF_CPU < SCRATCH_TRIES);
const _: () = assert!(INSNS_MAX <= i16::MAX as usize);
const _: () = assert!(STACK_ZERO_BYTES <= STACK_BYTES_MAX);
const _: () =
    assert!(weir_ir::limits::TEXT_BYTES_MAX == weir_ebpf::kfunc::TEXT_BYTES_MAX, "what one call takes");
