//! Every instruction that there is, one [`Form`] each: what tests and documents count by.
//!
//! In: nothing. Out: [`all`], made of the rows below: RFC 9669's instructions by conformance group (its section 2.4),
//! and Linux's extensions. A form fixes the opcode and those of `src`, `off` and `imm` that choose the operation; the
//! other fields are operands.
//!
//! Deliberately not here: what an instruction does (the engines), and whether weir runs it (weir-verifier).

use crate::insn::{LD_IMM64, MAY_GOTO, alu, atomic, class, jmp, mode, pseudo, size, source};
use crate::{Insn, asm};

/// Conformance groups (RFC 9669, 2.4), and Linux's own.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Group {
    Base32,
    Base64,
    Atomic32,
    Atomic64,
    Divmul32,
    Divmul64,
    Packet,
    /// Not in RFC 9669.
    Linux,
}

/// One instruction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Form {
    pub group: Group,
    pub opcode: u8,
    /// The value of `src`, where it is part of the operation.
    pub src: Option<u8>,
    pub off: Option<i16>,
    pub imm: Option<i32>,
}

impl Form {
    /// `insn` is this instruction (with any operands).
    pub fn is(&self, insn: Insn) -> bool {
        self.opcode == insn.opcode
            && self.src.is_none_or(|src| src == insn.src)
            && self.off.is_none_or(|off| off == insn.off)
            && self.imm.is_none_or(|imm| imm == insn.imm)
    }

    /// The text of this instruction with the least operands.
    pub fn text(&self) -> String {
        let insn = Insn {
            opcode: self.opcode,
            dst: 0,
            src: self.src.unwrap_or(0),
            off: self.off.unwrap_or(0),
            imm: self.imm.unwrap_or(0),
        };
        asm::insn_text(&[insn, Insn::default()], 0, &[])
    }
}

/// Every instruction.
pub fn all() -> Vec<Form> {
    let mut forms = Vec::new();
    arithmetic(&mut forms);
    jumps(&mut forms);
    memory(&mut forms);
    atomics(&mut forms);
    forms
}

const NO_FIELDS: Form = Form { group: Group::Base32, opcode: 0, src: None, off: None, imm: None };

/// Operations with two operands: opcode bits, `off`, whether in a divmul group.
const BINARY: &[(u8, i16, bool)] = &[
    (alu::ADD, 0, false),
    (alu::SUB, 0, false),
    (alu::MUL, 0, true),
    (alu::DIV, 0, true),
    (alu::DIV, 1, true),
    (alu::OR, 0, false),
    (alu::AND, 0, false),
    (alu::LSH, 0, false),
    (alu::RSH, 0, false),
    (alu::MOD, 0, true),
    (alu::MOD, 1, true),
    (alu::XOR, 0, false),
    (alu::MOV, 0, false),
    (alu::ARSH, 0, false),
];

/// Moves with sign extension: class, bits.
const EXTENDING: &[(u8, i16)] =
    &[(class::ALU, 8), (class::ALU, 16), (class::ALU64, 8), (class::ALU64, 16), (class::ALU64, 32)];

/// Byte orders: class and source bit. 64 bits wide they are of base64.
const ORDERS: &[u8] = &[class::ALU | source::K, class::ALU | source::X, class::ALU64 | source::K];

const COMPARISONS: &[u8] = &[
    jmp::JEQ,
    jmp::JGT,
    jmp::JGE,
    jmp::JSET,
    jmp::JNE,
    jmp::JSGT,
    jmp::JSGE,
    jmp::JLT,
    jmp::JLE,
    jmp::JSLT,
    jmp::JSLE,
];

/// Kinds of the wide load (RFC 9669, 5.4), by `src`.
const WIDE_KINDS: u8 = 7;

const SIZES: &[u8] = &[size::B, size::H, size::W, size::DW];

const ATOMICS: &[i32] = &[
    atomic::ADD,
    atomic::OR,
    atomic::AND,
    atomic::XOR,
    atomic::ADD | atomic::FETCH,
    atomic::OR | atomic::FETCH,
    atomic::AND | atomic::FETCH,
    atomic::XOR | atomic::FETCH,
    atomic::XCHG,
    atomic::CMPXCHG,
];

fn by_class(wide: bool, narrow: Group, broad: Group) -> Group {
    if wide { broad } else { narrow }
}

fn arithmetic(forms: &mut Vec<Form>) {
    for class in [class::ALU, class::ALU64] {
        let wide = class == class::ALU64;
        let base = by_class(wide, Group::Base32, Group::Base64);
        for &(operation, off, divmul) in BINARY {
            let group = if divmul { by_class(wide, Group::Divmul32, Group::Divmul64) } else { base };
            for bit in [source::K, source::X] {
                forms.push(Form { group, opcode: class | operation | bit, off: Some(off), ..NO_FIELDS });
            }
        }
        forms.push(Form { group: base, opcode: class | alu::NEG, ..NO_FIELDS });
    }
    for &(class, bits) in EXTENDING {
        let group = by_class(class == class::ALU64, Group::Base32, Group::Base64);
        forms.push(Form { group, opcode: class | alu::MOV | source::X, off: Some(bits), ..NO_FIELDS });
    }
    for &order in ORDERS {
        for bits in [16, 32, 64] {
            let group = by_class(bits == 64, Group::Base32, Group::Base64);
            forms.push(Form { group, opcode: order | alu::END, imm: Some(bits), ..NO_FIELDS });
        }
    }
}

fn jumps(forms: &mut Vec<Form>) {
    for class in [class::JMP, class::JMP32] {
        let group = by_class(class == class::JMP, Group::Base32, Group::Base64);
        for &comparison in COMPARISONS {
            for bit in [source::K, source::X] {
                forms.push(Form { group, opcode: class | comparison | bit, ..NO_FIELDS });
            }
        }
        forms.push(Form { opcode: class | jmp::JA, ..NO_FIELDS });
    }
    for callee in [pseudo::HELPER, pseudo::LOCAL, pseudo::KERNEL] {
        forms.push(Form { opcode: class::JMP | jmp::CALL, src: Some(callee), ..NO_FIELDS });
    }
    forms.push(Form { opcode: class::JMP | jmp::EXIT, ..NO_FIELDS });
    forms.push(Form { group: Group::Linux, opcode: MAY_GOTO, ..NO_FIELDS });
}

fn memory(forms: &mut Vec<Form>) {
    for kind in 0..WIDE_KINDS {
        forms.push(Form { group: Group::Base64, opcode: LD_IMM64, src: Some(kind), ..NO_FIELDS });
    }
    for &size in SIZES {
        let group = by_class(size == size::DW, Group::Base32, Group::Base64);
        for class in [class::LDX, class::ST, class::STX] {
            forms.push(Form { group, opcode: class | mode::MEM | size, ..NO_FIELDS });
        }
        if size != size::DW {
            let group = by_class(size == size::W, Group::Base32, Group::Base64);
            forms.push(Form { group, opcode: class::LDX | mode::MEMSX | size, ..NO_FIELDS });
            for mode in [mode::ABS, mode::IND] {
                forms.push(Form { group: Group::Packet, opcode: class::LD | mode | size, ..NO_FIELDS });
            }
        }
    }
}

fn atomics(forms: &mut Vec<Form>) {
    for size in [size::W, size::DW] {
        let group = by_class(size == size::DW, Group::Atomic32, Group::Atomic64);
        for &operation in ATOMICS {
            let opcode = class::STX | mode::ATOMIC | size;
            forms.push(Form { group, opcode, imm: Some(operation), ..NO_FIELDS });
        }
    }
    for &size in SIZES {
        for operation in [atomic::LOAD_ACQUIRE, atomic::STORE_RELEASE] {
            let opcode = class::STX | mode::ATOMIC | size;
            forms.push(Form { group: Group::Linux, opcode, imm: Some(operation), ..NO_FIELDS });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Group, all};

    #[test]
    fn every_form_is_one_instruction_of_its_own() {
        let forms = all();
        let mut texts: Vec<String> = forms.iter().map(super::Form::text).collect();
        texts.sort();
        let unnamed = texts.iter().filter(|text| text.starts_with(".insn")).count();
        texts.dedup();
        assert_eq!((texts.len(), unnamed), (forms.len(), 0));
        let linux = forms.iter().filter(|form| form.group == Group::Linux).count();
        assert_eq!((forms.len(), linux), (179, 9));
    }
}
