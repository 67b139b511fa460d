//! One instruction of classic BPF, and the parts of its `code` (Linux include/uapi/linux/bpf_common.h, bpf(4)).
//!
//! `struct bpf_insn` of libpcap and `struct sock_filter` of Linux are the same 8 bytes: `code` (2), `jt` (1), `jf` (1),
//! `k` (4). The machine has an accumulator A, an index register X, and 16 words of memory M[]; each is a 32-bit
//! number, 0 at first.

pub use crate::limits::MEMWORDS;

/// One instruction of 8 bytes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Insn {
    /// What it does: a [`class`], and what that class combines it with.
    pub code: u16,
    /// Instructions that a conditional jump skips if its condition holds.
    pub jt: u8,
    /// Instructions that it skips otherwise.
    pub jf: u8,
    /// The operand: a constant, an offset, a slot of memory.
    pub k: u32,
}

/// Bits 0 to 2 of `code`: the class.
#[allow(missing_docs, reason = "the field's names")]
pub mod class {
    pub const LD: u16 = 0x00;
    pub const LDX: u16 = 0x01;
    pub const ST: u16 = 0x02;
    pub const STX: u16 = 0x03;
    pub const ALU: u16 = 0x04;
    pub const JMP: u16 = 0x05;
    pub const RET: u16 = 0x06;
    pub const MISC: u16 = 0x07;
}

/// Bits 3 and 4 of a load's `code`: how many bytes it reads.
#[allow(missing_docs, reason = "the field's names")]
pub mod size {
    pub const W: u16 = 0x00;
    pub const H: u16 = 0x08;
    pub const B: u16 = 0x10;
}

/// Bits 5 to 7 of a load's `code`: from where.
pub mod mode {
    /// `k` itself.
    pub const IMM: u16 = 0x00;
    /// The packet at `k`.
    pub const ABS: u16 = 0x20;
    /// The packet at X + `k`.
    pub const IND: u16 = 0x40;
    /// `M[k]`.
    pub const MEM: u16 = 0x60;
    /// The length of the packet on the wire.
    pub const LEN: u16 = 0x80;
    /// Four times the lower half of the byte at `k`: the length of an IPv4 header.
    pub const MSH: u16 = 0xa0;
}

/// Bits 4 to 7 of an ALU instruction's `code`: A becomes A *op* operand.
#[allow(missing_docs, reason = "the field's names")]
pub mod alu {
    pub const ADD: u16 = 0x00;
    pub const SUB: u16 = 0x10;
    pub const MUL: u16 = 0x20;
    pub const DIV: u16 = 0x30;
    pub const OR: u16 = 0x40;
    pub const AND: u16 = 0x50;
    pub const LSH: u16 = 0x60;
    pub const RSH: u16 = 0x70;
    pub const NEG: u16 = 0x80;
    pub const MOD: u16 = 0x90;
    pub const XOR: u16 = 0xa0;
}

/// Bits 4 to 7 of a jump's `code`: how A is compared with the operand, unsigned.
#[allow(missing_docs, reason = "the field's names")]
pub mod jmp {
    pub const JA: u16 = 0x00;
    pub const JEQ: u16 = 0x10;
    pub const JGT: u16 = 0x20;
    pub const JGE: u16 = 0x30;
    pub const JSET: u16 = 0x40;
}

/// Bit 3 of an ALU instruction's or a jump's `code`: the operand.
pub mod source {
    /// `k`.
    pub const K: u16 = 0x00;
    /// X.
    pub const X: u16 = 0x08;
}

/// Bits 3 and 4 of a return's `code`: the value.
pub mod ret {
    /// `k`.
    pub const K: u16 = 0x00;
    /// X: in the headers, in neither machine.
    pub const X: u16 = 0x08;
    /// A.
    pub const A: u16 = 0x10;
}

/// Bits 3 to 7 of `code` in the class MISC.
pub mod misc {
    /// X becomes A.
    pub const TAX: u16 = 0x00;
    /// A becomes X.
    pub const TXA: u16 = 0x80;
}

impl Insn {
    /// One that does not jump.
    pub const fn plain(code: u16, k: u32) -> Insn {
        Insn { code, jt: 0, jf: 0, k }
    }

    /// A conditional jump: an operation of [`jmp`] with a [`source`].
    pub const fn jump(operation: u16, k: u32, jt: u8, jf: u8) -> Insn {
        Insn { code: class::JMP | operation, jt, jf, k }
    }

    /// `ja`: skips `distance` instructions, backwards if it is negative.
    pub const fn always(distance: i32) -> Insn {
        Insn::plain(class::JMP | jmp::JA, distance as u32)
    }

    /// A becomes `size` bytes of the packet at `k`.
    pub const fn load(size: u16, k: u32) -> Insn {
        Insn::plain(class::LD | mode::ABS | size, k)
    }

    /// A becomes `size` bytes of the packet at X + `k`.
    pub const fn load_indexed(size: u16, k: u32) -> Insn {
        Insn::plain(class::LD | mode::IND | size, k)
    }

    /// A becomes A *operation* operand: an operation of [`alu`] with a [`source`].
    pub const fn alu(operation: u16, k: u32) -> Insn {
        Insn::plain(class::ALU | operation, k)
    }

    /// Ends the program with `k`.
    pub const fn ret(k: u32) -> Insn {
        Insn::plain(class::RET | ret::K, k)
    }

    /// Ends the program with A.
    pub const fn ret_a() -> Insn {
        Insn::plain(class::RET | ret::A, 0)
    }

    /// Its [`class`].
    pub const fn class(self) -> u16 {
        self.code & 0x07
    }

    /// The [`mode`] of a load.
    pub const fn mode(self) -> u16 {
        self.code & 0xe0
    }

    /// The bytes that a load reads, by its [`size`]. 4 for the size that classic BPF does not have.
    pub const fn bytes(self) -> u32 {
        match self.code & 0x18 {
            size::H => 2,
            size::B => 1,
            _ => 4,
        }
    }

    /// The operation of [`alu`] or [`jmp`].
    pub const fn operation(self) -> u16 {
        self.code & 0xf0
    }

    /// The operand of an ALU instruction or a jump is X, not `k`.
    pub const fn uses_x(self) -> bool {
        self.code & source::X != 0
    }

    /// The 8 bytes of `struct sock_filter`, little endian.
    pub const fn to_bytes(self) -> [u8; 8] {
        let [code0, code1] = self.code.to_le_bytes();
        let [k0, k1, k2, k3] = self.k.to_le_bytes();
        [code0, code1, self.jt, self.jf, k0, k1, k2, k3]
    }

    /// The instruction of 8 such bytes.
    pub const fn from_bytes(bytes: [u8; 8]) -> Insn {
        let [code0, code1, jt, jf, k0, k1, k2, k3] = bytes;
        let (code, k) = (u16::from_le_bytes([code0, code1]), u32::from_le_bytes([k0, k1, k2, k3]));
        Insn { code, jt, jf, k }
    }
}
