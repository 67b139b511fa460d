//! Arithmetic, byte swaps and comparisons on values alone (RFC 9669, 4.1 to 4.3).
//!
//! Where the RFC and intuition differ: division by zero is 0 and modulo by zero leaves the destination; the least
//! number divided by -1 is itself, its remainder 0; shift counts are taken modulo the width; every 32-bit result is
//! zero-extended.

use weir_ebpf::insn::{alu, jmp};

/// The result of `dst op src` on 64 bits, `None` for an operation or offset that does not exist. `MOV` sign-extends
/// as `off` says; `NEG` ignores `src`.
pub(crate) fn alu64(op: u8, off: i16, dst: u64, src: u64) -> Option<u64> {
    if off != 0 && !matches!(op, alu::DIV | alu::MOD | alu::MOV) {
        return None;
    }
    Some(match (op, off) {
        (alu::ADD, _) => dst.wrapping_add(src),
        (alu::SUB, _) => dst.wrapping_sub(src),
        (alu::MUL, _) => dst.wrapping_mul(src),
        (alu::DIV, 0) => dst.checked_div(src).unwrap_or(0),
        (alu::DIV, 1) if src == 0 => 0,
        (alu::DIV, 1) => (dst as i64).wrapping_div(src as i64) as u64,
        (alu::MOD, 0) => dst.checked_rem(src).unwrap_or(dst),
        (alu::MOD, 1) if src == 0 => dst,
        (alu::MOD, 1) => (dst as i64).wrapping_rem(src as i64) as u64,
        (alu::OR, _) => dst | src,
        (alu::AND, _) => dst & src,
        (alu::XOR, _) => dst ^ src,
        (alu::LSH, _) => dst << (src & 63),
        (alu::RSH, _) => dst >> (src & 63),
        (alu::ARSH, _) => ((dst as i64) >> (src & 63)) as u64,
        (alu::NEG, _) => dst.wrapping_neg(),
        (alu::MOV, 0) => src,
        (alu::MOV, 8) => src as i8 as u64,
        (alu::MOV, 16) => src as i16 as u64,
        (alu::MOV, 32) => src as i32 as u64,
        _ => return None,
    })
}

/// As [`alu64`] on the low 32 bits; the upper half of the result is zero.
pub(crate) fn alu32(op: u8, off: i16, dst: u64, src: u64) -> Option<u64> {
    if off != 0 && !matches!(op, alu::DIV | alu::MOD | alu::MOV) {
        return None;
    }
    let (dst, src) = (dst as u32, src as u32);
    let result = match (op, off) {
        (alu::ADD, _) => dst.wrapping_add(src),
        (alu::SUB, _) => dst.wrapping_sub(src),
        (alu::MUL, _) => dst.wrapping_mul(src),
        (alu::DIV, 0) => dst.checked_div(src).unwrap_or(0),
        (alu::DIV, 1) if src == 0 => 0,
        (alu::DIV, 1) => (dst as i32).wrapping_div(src as i32) as u32,
        (alu::MOD, 0) => dst.checked_rem(src).unwrap_or(dst),
        (alu::MOD, 1) if src == 0 => dst,
        (alu::MOD, 1) => (dst as i32).wrapping_rem(src as i32) as u32,
        (alu::OR, _) => dst | src,
        (alu::AND, _) => dst & src,
        (alu::XOR, _) => dst ^ src,
        (alu::LSH, _) => dst << (src & 31),
        (alu::RSH, _) => dst >> (src & 31),
        (alu::ARSH, _) => ((dst as i32) >> (src & 31)) as u32,
        (alu::NEG, _) => dst.wrapping_neg(),
        (alu::MOV, 0) => src,
        (alu::MOV, 8) => src as i8 as u32,
        (alu::MOV, 16) => src as i16 as u32,
        _ => return None,
    };
    Some(result.into())
}

/// What `END` makes of a value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Swap {
    /// Truncates: the machine is little endian.
    ToLittle,
    /// Swaps and truncates.
    Reverse,
}

/// `END` on 16, 32 or 64 bits.
pub(crate) fn swap(kind: Swap, bits: i32, value: u64) -> Option<u64> {
    Some(match (kind, bits) {
        (Swap::ToLittle, 16) => value as u16 as u64,
        (Swap::ToLittle, 32) => value as u32 as u64,
        (Swap::ToLittle, 64) => value,
        (Swap::Reverse, 16) => (value as u16).swap_bytes().into(),
        (Swap::Reverse, 32) => (value as u32).swap_bytes().into(),
        (Swap::Reverse, 64) => value.swap_bytes(),
        _ => return None,
    })
}

/// Whether a 64-bit comparison holds; `None` if there is no such one.
pub(crate) fn holds64(op: u8, dst: u64, src: u64) -> Option<bool> {
    let (signed_dst, signed_src) = (dst as i64, src as i64);
    Some(match op {
        jmp::JEQ => dst == src,
        jmp::JNE => dst != src,
        jmp::JGT => dst > src,
        jmp::JGE => dst >= src,
        jmp::JLT => dst < src,
        jmp::JLE => dst <= src,
        jmp::JSET => dst & src != 0,
        jmp::JSGT => signed_dst > signed_src,
        jmp::JSGE => signed_dst >= signed_src,
        jmp::JSLT => signed_dst < signed_src,
        jmp::JSLE => signed_dst <= signed_src,
        _ => return None,
    })
}

/// As [`holds64`] on the low 32 bits.
pub(crate) fn holds32(op: u8, dst: u64, src: u64) -> Option<bool> {
    let is_signed = matches!(op, jmp::JSGT | jmp::JSGE | jmp::JSLT | jmp::JSLE);
    if is_signed {
        return holds64(op, dst as i32 as u64, src as i32 as u64);
    }
    holds64(op, dst as u32 as u64, src as u32 as u64)
}
