//! One eBPF instruction as RFC 9669 encodes it (section 3: 64 bits, little endian here).
//!
//! A wide instruction (`LD_IMM64`) is two [`Insn`]s: the second has opcode 0 and carries the upper 32 bits of
//! the immediate in `imm`. Jump offsets count instructions, wide ones as two, from the instruction after.

/// One 8-byte instruction slot.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Insn {
    pub opcode: u8,
    /// Destination register, 0..=10.
    pub dst: u8,
    /// Source register, 0..=10, or a pseudo value (see [`pseudo`]).
    pub src: u8,
    pub off: i16,
    pub imm: i32,
}

/// A program that does nothing, and gives 0.
pub const NOTHING: [Insn; 2] = [
    Insn { opcode: class::ALU64 | alu::MOV, dst: 0, src: 0, off: 0, imm: 0 },
    Insn { opcode: class::JMP | jmp::EXIT, dst: 0, src: 0, off: 0, imm: 0 },
];

/// Instruction classes: the low three bits of the opcode (RFC 9669, 3.1).
pub mod class {
    pub const LD: u8 = 0x00;
    pub const LDX: u8 = 0x01;
    pub const ST: u8 = 0x02;
    pub const STX: u8 = 0x03;
    pub const ALU: u8 = 0x04;
    pub const JMP: u8 = 0x05;
    pub const JMP32: u8 = 0x06;
    pub const ALU64: u8 = 0x07;
}

/// Source bit: immediate or register (RFC 9669, 4).
pub mod source {
    pub const K: u8 = 0x00;
    pub const X: u8 = 0x08;
}

/// Arithmetic operations: the high four bits of an ALU or ALU64 opcode (RFC 9669, 4.1).
pub mod alu {
    pub const ADD: u8 = 0x00;
    pub const SUB: u8 = 0x10;
    pub const MUL: u8 = 0x20;
    /// Unsigned with `off` 0, signed with `off` 1.
    pub const DIV: u8 = 0x30;
    pub const OR: u8 = 0x40;
    pub const AND: u8 = 0x50;
    pub const LSH: u8 = 0x60;
    pub const RSH: u8 = 0x70;
    pub const NEG: u8 = 0x80;
    /// Unsigned with `off` 0, signed with `off` 1.
    pub const MOD: u8 = 0x90;
    pub const XOR: u8 = 0xa0;
    /// Plain with `off` 0; sign-extending from 8, 16 or 32 bits with that `off`.
    pub const MOV: u8 = 0xb0;
    pub const ARSH: u8 = 0xc0;
    pub const END: u8 = 0xd0;
}

/// Jump operations: the high four bits of a JMP or JMP32 opcode (RFC 9669, 4.3).
pub mod jmp {
    pub const JA: u8 = 0x00;
    pub const JEQ: u8 = 0x10;
    pub const JGT: u8 = 0x20;
    pub const JGE: u8 = 0x30;
    pub const JSET: u8 = 0x40;
    pub const JNE: u8 = 0x50;
    pub const JSGT: u8 = 0x60;
    pub const JSGE: u8 = 0x70;
    pub const CALL: u8 = 0x80;
    pub const EXIT: u8 = 0x90;
    pub const JLT: u8 = 0xa0;
    pub const JLE: u8 = 0xb0;
    pub const JSLT: u8 = 0xc0;
    pub const JSLE: u8 = 0xd0;
    /// `may_goto`: jumps when the run's hidden counter is used up (Linux 6.9; not in RFC 9669).
    pub const JCOND: u8 = 0xe0;
}

/// Access widths of loads and stores (RFC 9669, 5).
pub mod size {
    pub const W: u8 = 0x00;
    pub const H: u8 = 0x08;
    pub const B: u8 = 0x10;
    pub const DW: u8 = 0x18;
}

/// Addressing modes of loads and stores (RFC 9669, 5).
pub mod mode {
    pub const IMM: u8 = 0x00;
    pub const ABS: u8 = 0x20;
    pub const IND: u8 = 0x40;
    pub const MEM: u8 = 0x60;
    pub const MEMSX: u8 = 0x80;
    pub const ATOMIC: u8 = 0xc0;
}

/// The `imm` of an atomic store (RFC 9669, 5.3). Or [`FETCH`](atomic::FETCH) to the first four. The last two are
/// Linux's.
pub mod atomic {
    pub const ADD: i32 = 0x00;
    pub const OR: i32 = 0x40;
    pub const AND: i32 = 0x50;
    pub const XOR: i32 = 0xa0;
    pub const FETCH: i32 = 0x01;
    pub const XCHG: i32 = 0xe1;
    pub const CMPXCHG: i32 = 0xf1;
    /// `dst = *(src + off)`, before every later access; 1, 2, 4 or 8 bytes (Linux 6.15; not in RFC 9669).
    pub const LOAD_ACQUIRE: i32 = 0x100;
    /// `*(dst + off) = src`, after every earlier access; 1, 2, 4 or 8 bytes.
    pub const STORE_RELEASE: i32 = 0x110;
}

/// Values of `src` that change the meaning of an instruction (RFC 9669, 5.4 and 4.3.1).
pub mod pseudo {
    /// `LD_IMM64`: a plain 64-bit constant.
    pub const NONE: u8 = 0;
    /// `LD_IMM64`: the map behind descriptor `imm` of the loading process (Linux: BPF_PSEUDO_MAP_FD).
    pub const MAP_FD: u8 = 1;
    /// `LD_IMM64`: address of the first value of the map behind descriptor `imm`, plus the second slot's `imm` bytes.
    pub const MAP_FD_VALUE: u8 = 2;
    /// `LD_IMM64`: address of the kernel's variable with BTF id `imm`.
    pub const VARIABLE: u8 = 3;
    /// `LD_IMM64`: the program's function at `imm` instructions from the next one, to be called back by a helper
    /// (Linux: BPF_PSEUDO_FUNC).
    pub const FUNCTION: u8 = 4;
    /// `LD_IMM64`: the map whose index in the object is `imm` (Linux: BPF_PSEUDO_MAP_IDX).
    pub const MAP_INDEX: u8 = 5;
    /// `LD_IMM64`: address of the first value of the map at index `imm`, plus the second slot's `imm` bytes.
    pub const MAP_INDEX_VALUE: u8 = 6;
    /// `CALL`: helper number in `imm`.
    pub const HELPER: u8 = 0;
    /// `CALL`: program-local function at `imm` instructions from the next one.
    pub const LOCAL: u8 = 1;
    /// `CALL`: kernel function with BTF id `imm`, or below 0 with a number of [`crate::kfunc`].
    pub const KERNEL: u8 = 2;
}

/// Opcode of the wide load `LD_IMM64`.
pub const LD_IMM64: u8 = class::LD | mode::IMM | size::DW;

/// Opcode of `may_goto`.
pub const MAY_GOTO: u8 = class::JMP | jmp::JCOND;

impl Insn {
    pub fn class(self) -> u8 {
        self.opcode & 0x07
    }

    /// True for the first slot of a wide load.
    pub fn is_wide(self) -> bool {
        self.opcode == LD_IMM64
    }

    /// The 8 bytes of this slot, little endian (RFC 9669, 3).
    pub fn to_bytes(self) -> [u8; 8] {
        let [off0, off1] = self.off.to_le_bytes();
        let [imm0, imm1, imm2, imm3] = self.imm.to_le_bytes();
        [self.opcode, self.dst | self.src << 4, off0, off1, imm0, imm1, imm2, imm3]
    }

    pub fn from_bytes(bytes: [u8; 8]) -> Insn {
        Insn {
            opcode: bytes[0],
            dst: bytes[1] & 0x0f,
            src: bytes[1] >> 4,
            off: i16::from_le_bytes([bytes[2], bytes[3]]),
            imm: i32::from_le_bytes([bytes[4], bytes[5], bytes[6], bytes[7]]),
        }
    }
}
