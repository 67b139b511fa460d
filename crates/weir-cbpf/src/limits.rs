//! The bounds of this crate.

/// Slots of `M[]`, the scratch memory, 4 bytes each (BPF_MEMWORDS).
pub const MEMWORDS: u32 = 16;

/// Instructions that Linux takes at most (BPF_MAXINSNS).
pub const KERNEL_INSNS_MAX: usize = 4096;

/// Instructions that [`run`](crate::run()) executes before it gives up. Programs without backward jumps end long before,
/// since they execute each instruction once at most.
pub const STEPS_MAX: u64 = 1 << 20;
