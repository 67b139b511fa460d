//! The context of a probe: the kernel's `struct pt_regs` for x86-64, as 8-byte slots, and the floating-point arguments
//! behind it, which are weir's own: the kernel has none.
//!
//! Source: Linux arch/x86/include/uapi/asm/ptrace.h.

/// Bytes of the structure.
pub const BYTES: u32 = 168;
/// Number of 8-byte slots.
pub const SLOTS: u32 = 21;

/// Of programs of probes (and zeros, of those in the controller), behind the structure: the low 8 bytes of each of
/// xmm0 to xmm7, where System V passes floating-point arguments and, in xmm0, returns such a result (psABI, 3.2.3).
pub const FLOATS: [u32; 8] = [168, 176, 184, 192, 200, 208, 216, 224];
/// Bytes and slots of both.
pub const BYTES_WITH_FLOATS: u32 = BYTES + 8 * FLOATS.len() as u32;
pub const SLOTS_WITH_FLOATS: u32 = BYTES_WITH_FLOATS / 8;

/// Byte offsets of the fields.
pub const R15: u32 = 0;
pub const R14: u32 = 8;
pub const R13: u32 = 16;
pub const R12: u32 = 24;
pub const BP: u32 = 32;
pub const BX: u32 = 40;
pub const R11: u32 = 48;
pub const R10: u32 = 56;
pub const R9: u32 = 64;
pub const R8: u32 = 72;
pub const AX: u32 = 80;
pub const CX: u32 = 88;
pub const DX: u32 = 96;
pub const SI: u32 = 104;
pub const DI: u32 = 112;
pub const ORIG_AX: u32 = 120;
pub const IP: u32 = 128;
pub const CS: u32 = 136;
pub const FLAGS: u32 = 144;
pub const SP: u32 = 152;
pub const SS: u32 = 160;

/// Offsets of the general registers by their encoding numbers, then ip and flags.
#[rustfmt::skip]
pub const REGISTERS: [u32; 18] =
    [AX, CX, DX, BX, SP, BP, SI, DI, R8, R9, R10, R11, R12, R13, R14, R15, IP, FLAGS];

/// Offsets of the six integer arguments at function entry (System V AMD64 psABI, 3.2.3).
pub const ARGUMENTS: [u32; 6] = [DI, SI, DX, CX, R8, R9];
