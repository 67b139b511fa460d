//! Every opcode that there is, one row each: what printing, parsing and validation know of it.
//!
//! libpcap's interpreter and Linux have the same 49. Both compare all 16 bits of `code`; `bpf_validate` of libpcap does
//! not, and accepts programs at which its interpreter aborts.

use crate::insn::{alu, class, jmp, misc, mode, ret, size, source};

/// An opcode, and how `tcpdump -d` writes it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Opcode {
    /// The whole `code`.
    pub code: u16,
    /// The word in the first column.
    pub mnemonic: &'static str,
    /// What comes after it.
    pub operand: Operand,
}

/// How an operand is written.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Operand {
    /// Nothing.
    None,
    /// `#0x1f`
    Hex,
    /// `#-31`: `k`, signed.
    Decimal,
    /// `M[3]`
    Memory,
    /// `[12]`, or `[vlanp]` for an [`ancillary`](crate::ancillary) load.
    Absolute,
    /// `[x + 14]`
    Indexed,
    /// `4*([14]&0xf)`
    HeaderLength,
    /// `#pktlen`
    Length,
    /// `x`
    X,
    /// `18`: the number of an instruction.
    Target,
    /// `0x81`: the code, after `unimp`.
    Code,
}

/// The word for codes that libpcap's printer does not know.
pub const UNKNOWN: &str = "unimp";

const LD: u16 = class::LD;
const LDX: u16 = class::LDX;
const ALU: u16 = class::ALU;
const JMP: u16 = class::JMP;
const X: u16 = source::X;

/// The opcodes, in the order of their classes.
#[rustfmt::skip]
pub const ALL: &[Opcode] = &[
    row(LD | mode::IMM,            "ld",   Operand::Hex),
    row(LD | mode::ABS | size::W,  "ld",   Operand::Absolute),
    row(LD | mode::ABS | size::H,  "ldh",  Operand::Absolute),
    row(LD | mode::ABS | size::B,  "ldb",  Operand::Absolute),
    row(LD | mode::IND | size::W,  "ld",   Operand::Indexed),
    row(LD | mode::IND | size::H,  "ldh",  Operand::Indexed),
    row(LD | mode::IND | size::B,  "ldb",  Operand::Indexed),
    row(LD | mode::MEM,            "ld",   Operand::Memory),
    row(LD | mode::LEN,            "ld",   Operand::Length),
    row(LDX | mode::IMM,           "ldx",  Operand::Hex),
    row(LDX | mode::MEM,           "ldx",  Operand::Memory),
    // Both machines run it, libpcap's printer does not know it.
    row(LDX | mode::LEN,           UNKNOWN, Operand::Code),
    row(LDX | mode::MSH | size::B, "ldxb", Operand::HeaderLength),
    row(class::ST,                 "st",   Operand::Memory),
    row(class::STX,                "stx",  Operand::Memory),
    row(ALU | alu::ADD,            "add",  Operand::Decimal),
    row(ALU | alu::ADD | X,        "add",  Operand::X),
    row(ALU | alu::SUB,            "sub",  Operand::Decimal),
    row(ALU | alu::SUB | X,        "sub",  Operand::X),
    row(ALU | alu::MUL,            "mul",  Operand::Decimal),
    row(ALU | alu::MUL | X,        "mul",  Operand::X),
    row(ALU | alu::DIV,            "div",  Operand::Decimal),
    row(ALU | alu::DIV | X,        "div",  Operand::X),
    row(ALU | alu::MOD,            "mod",  Operand::Decimal),
    row(ALU | alu::MOD | X,        "mod",  Operand::X),
    row(ALU | alu::AND,            "and",  Operand::Hex),
    row(ALU | alu::AND | X,        "and",  Operand::X),
    row(ALU | alu::OR,             "or",   Operand::Hex),
    row(ALU | alu::OR | X,         "or",   Operand::X),
    row(ALU | alu::XOR,            "xor",  Operand::Hex),
    row(ALU | alu::XOR | X,        "xor",  Operand::X),
    row(ALU | alu::LSH,            "lsh",  Operand::Decimal),
    row(ALU | alu::LSH | X,        "lsh",  Operand::X),
    row(ALU | alu::RSH,            "rsh",  Operand::Decimal),
    row(ALU | alu::RSH | X,        "rsh",  Operand::X),
    row(ALU | alu::NEG,            "neg",  Operand::None),
    row(JMP | jmp::JA,             "ja",   Operand::Target),
    row(JMP | jmp::JEQ,            "jeq",  Operand::Hex),
    row(JMP | jmp::JEQ | X,        "jeq",  Operand::X),
    row(JMP | jmp::JGT,            "jgt",  Operand::Hex),
    row(JMP | jmp::JGT | X,        "jgt",  Operand::X),
    row(JMP | jmp::JGE,            "jge",  Operand::Hex),
    row(JMP | jmp::JGE | X,        "jge",  Operand::X),
    row(JMP | jmp::JSET,           "jset", Operand::Hex),
    row(JMP | jmp::JSET | X,       "jset", Operand::X),
    row(class::RET | ret::K,       "ret",  Operand::Decimal),
    row(class::RET | ret::A,       "ret",  Operand::None),
    row(class::MISC | misc::TAX,   "tax",  Operand::None),
    row(class::MISC | misc::TXA,   "txa",  Operand::None),
];

const fn row(code: u16, mnemonic: &'static str, operand: Operand) -> Opcode {
    Opcode { code, mnemonic, operand }
}

/// The row of `code`; none if neither machine has it.
pub fn by_code(code: u16) -> Option<&'static Opcode> {
    ALL.iter().find(|opcode| opcode.code == code)
}

/// `code` is a conditional jump, or would be one if its operation were known: it is written with its two targets.
pub fn has_targets(code: u16) -> bool {
    code & 0x07 == class::JMP && code & 0xf0 != jmp::JA
}
