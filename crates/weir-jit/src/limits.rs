//! Every bound of this crate.

/// Most bytes of stack that a runtime function called from a program uses below its own return address.
pub(crate) use weir_rt::limits::HELPER_STACK_BYTES;

/// Bytes below rsp that no signal handler touches (System V AMD64 psABI, 3.2.2): programs that call nothing
/// keep their stack there and leave rsp alone.
pub(crate) const RED_ZONE_BYTES: u32 = 128;

/// Deepest eBPF stack, from the verifier.
pub(crate) const STACK_BYTES_MAX: usize = 512;

/// Most instruction slots of a program: the verifier's own limit is lower; ours keeps code offsets in 32 bits.
pub(crate) const INSNS_MAX: usize = 1 << 20;
