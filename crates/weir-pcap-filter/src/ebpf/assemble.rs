//! Instructions and labels → a program.

use weir_ebpf::Insn;
use weir_ebpf::insn::{self, alu, class, jmp, mode, size, source};

use crate::TooLong;
use crate::ast::Operator;
use crate::classic;
use crate::graph::Target;
use crate::ir::{Comparison, Width};
use crate::limits::PACKET_BYTES_MAX;

/// A place in the program.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) enum Label {
    Target(Target),
    Local(usize),
}

impl Label {
    pub(super) fn of(target: Target) -> Label {
        Label::Target(target)
    }
}

/// What the kernel takes of programs by users with rights; jumps reach half as far each way.
const INSNS_MAX: usize = 32_000;

#[derive(Default)]
pub(super) struct Assembler {
    code: Vec<(Insn, Option<Label>)>,
    places: std::collections::HashMap<Label, usize>,
    locals: usize,
    /// Where a packet goes that a value is missing of; rejection, if it is none.
    pub(super) missing: Option<Label>,
}

impl Assembler {
    pub(super) fn label(&mut self) -> Label {
        self.locals += 1;
        Label::Local(self.locals)
    }

    pub(super) fn place(&mut self, label: Label) {
        self.places.insert(label, self.code.len());
    }

    pub(super) fn fail(&self) -> Label {
        self.missing.unwrap_or(Label::of(Target::Reject))
    }

    fn push(&mut self, opcode: u8, dst: u8, src: u8, off: i16, imm: u32) {
        self.code.push((Insn { opcode, dst, src, off, imm: imm as i32 }, None));
    }

    fn push_jump(&mut self, opcode: u8, dst: u8, src: u8, imm: u32, to: Label) {
        self.code.push((Insn { opcode, dst, src, off: 0, imm: imm as i32 }, Some(to)));
    }

    pub(super) fn copy64(&mut self, dst: u8, src: u8) {
        self.push(class::ALU64 | alu::MOV | source::X, dst, src, 0, 0);
    }

    pub(super) fn copy32(&mut self, dst: u8, src: u8) {
        self.push(class::ALU | alu::MOV | source::X, dst, src, 0, 0);
    }

    pub(super) fn set(&mut self, dst: u8, number: u32) {
        self.push(class::ALU | alu::MOV, dst, 0, 0, number);
    }

    /// Bytes at `src` + `off`, by the code of their width.
    pub(super) fn load(&mut self, width: u8, dst: u8, src: u8, off: i16) {
        let size = [size::B, size::H, size::W][usize::from(width)];
        self.push(class::LDX | mode::MEM | size, dst, src, off, 0);
    }

    /// `LD_ABS`, or `LD_IND` with a base: a big endian number in r0. These reject a packet that ends before; one that shall go on elsewhere
    /// is checked first.
    pub(super) fn packet_load(&mut self, base: Option<u8>, offset: u32, bytes: u32) {
        let size = match bytes {
            1 => size::B,
            2 => size::H,
            _ => size::W,
        };
        // Offsets below 0 mean something else there; no packet has as many bytes.
        let most = i32::MAX as u32;
        if offset > most {
            return self.jump(self.fail());
        }
        if self.missing.is_some() {
            self.need_at(base, offset, bytes);
        }
        match base {
            None => self.push(class::LD | mode::ABS | size, 0, 0, 0, offset),
            Some(base) => {
                self.push_jump(class::JMP32 | jmp::JGT, base, 0, most - offset, self.fail());
                self.push(class::LD | mode::IND | size, 0, base, 0, offset);
            }
        }
    }

    /// A packet with fewer than `bytes` bytes from `base` on is rejected, or goes on where values are missing.
    pub(super) fn need(&mut self, base: u8, bytes: u32) {
        self.need_or(base, bytes, self.fail());
    }

    pub(super) fn need_or(&mut self, base: u8, bytes: u32, missing: Label) {
        self.copy64(2, base);
        self.push(class::ALU64 | alu::ADD, 2, 0, 0, bytes);
        self.push_jump(class::JMP | jmp::JGT | source::X, 2, 8, 0, missing);
    }

    /// The same of bytes at a number in a register, and an offset.
    fn need_at(&mut self, base: Option<u8>, offset: u32, bytes: u32) {
        let Some(end) = offset.checked_add(bytes).filter(|end| *end <= PACKET_BYTES_MAX) else {
            return self.jump(self.fail());
        };
        self.copy64(2, 7);
        if let Some(base) = base {
            // What is added to a pointer has to be bounded.
            self.bound(base);
            self.add_register64(2, base);
        }
        self.need(2, end);
    }

    fn slot(slot: usize) -> i16 {
        -8 * (slot as i16 + 1)
    }

    pub(super) fn store(&mut self, slot: usize, src: u8) {
        self.push(class::STX | mode::MEM | size::DW, 10, src, Self::slot(slot), 0);
    }

    pub(super) fn fetch(&mut self, dst: u8, slot: usize) {
        self.push(class::LDX | mode::MEM | size::DW, dst, 10, Self::slot(slot), 0);
    }

    /// The bytes that a plain load left in a register → their number, or the other way round.
    pub(super) fn exchange_bytes(&mut self, width: Width, dst: u8) {
        let bits = match width {
            Width::Byte => return,
            Width::Half => 16,
            Width::Word => 32,
        };
        self.push(class::ALU | alu::END | source::X, dst, 0, 0, bits);
    }

    pub(super) fn and(&mut self, dst: u8, mask: u32) {
        self.push(class::ALU | alu::AND, dst, 0, 0, mask);
    }

    pub(super) fn add(&mut self, dst: u8, number: u32) {
        self.push(class::ALU | alu::ADD, dst, 0, 0, number);
    }

    pub(super) fn add_register(&mut self, dst: u8, src: u8) {
        self.push(class::ALU | alu::ADD | source::X, dst, src, 0, 0);
    }

    pub(super) fn add_register64(&mut self, dst: u8, src: u8) {
        self.push(class::ALU64 | alu::ADD | source::X, dst, src, 0, 0);
    }

    pub(super) fn shift_left(&mut self, dst: u8, bits: u32) {
        self.push(class::ALU | alu::LSH, dst, 0, 0, bits);
    }

    pub(super) fn shift_right(&mut self, dst: u8, bits: u32) {
        self.push(class::ALU | alu::RSH, dst, 0, 0, bits);
    }

    pub(super) fn shift_left_by(&mut self, dst: u8, src: u8) {
        self.push(class::ALU | alu::LSH | source::X, dst, src, 0, 0);
    }

    pub(super) fn shift_right64_by(&mut self, dst: u8, src: u8) {
        self.push(class::ALU64 | alu::RSH | source::X, dst, src, 0, 0);
    }

    pub(super) fn or(&mut self, dst: u8, number: u32) {
        self.push(class::ALU | alu::OR, dst, 0, 0, number);
    }

    pub(super) fn or_register(&mut self, dst: u8, src: u8) {
        self.push(class::ALU | alu::OR | source::X, dst, src, 0, 0);
    }

    /// A number of 64 bits, made of its halves.
    pub(super) fn set64(&mut self, dst: u8, number: u64) {
        self.set(dst, (number >> 32) as u32);
        self.push(class::ALU64 | alu::LSH, dst, 0, 0, 32);
        // SANITY: the kinds of extension headers leave this bit 0, so that nothing is extended with ones.
        debug_assert!(number as u32 >> 31 == 0);
        self.push(class::ALU64 | alu::OR, dst, 0, 0, number as u32);
    }

    /// No packet has bytes from there on.
    pub(super) fn bound(&mut self, register: u8) {
        self.jump_if_above(register, PACKET_BYTES_MAX, self.fail());
    }

    pub(super) fn jump_if_above(&mut self, register: u8, number: u32, to: Label) {
        self.push_jump(class::JMP32 | jmp::JGT, register, 0, number, to);
    }

    pub(super) fn jump_unless_equal(&mut self, register: u8, number: u32, to: Label) {
        self.push_jump(class::JMP32 | jmp::JNE, register, 0, number, to);
    }

    pub(super) fn jump_if_any(&mut self, register: u8, bits: u32, to: Label) {
        self.push_jump(class::JMP32 | jmp::JSET, register, 0, bits, to);
    }

    pub(super) fn negate(&mut self, dst: u8) {
        self.push(class::ALU | alu::NEG, dst, 0, 0, 0);
    }

    /// r0 becomes `r0 operator number`.
    pub(super) fn operate_constant(&mut self, operator: Operator, number: u32) {
        match operator {
            Operator::Lsh | Operator::Rsh if number > 31 => self.set(0, 0),
            Operator::Div | Operator::Mod if number == 0 => self.jump(self.fail()),
            _ => self.push(class::ALU | operation(operator), 0, 0, 0, number),
        }
    }

    /// r0 becomes `r0 operator r1`.
    pub(super) fn operate(&mut self, operator: Operator) {
        let opcode = class::ALU | operation(operator) | source::X;
        match operator {
            Operator::Div | Operator::Mod => {
                self.push_jump(class::JMP32 | jmp::JEQ, 1, 0, 0, self.fail());
                self.push(opcode, 0, 1, 0, 0);
            }
            Operator::Lsh | Operator::Rsh => {
                let end = self.label();
                let plain = self.label();
                self.push_jump(class::JMP32 | jmp::JLE, 1, 0, 31, plain);
                self.set(0, 0);
                self.jump(end);
                self.place(plain);
                self.push(opcode, 0, 1, 0, 0);
                self.place(end);
            }
            _ => self.push(opcode, 0, 1, 0, 0),
        }
    }

    pub(super) fn jump(&mut self, to: Label) {
        self.push_jump(class::JMP | jmp::JA, 0, 0, 0, to);
    }

    pub(super) fn jump_unless_next(&mut self, to: Target, next: Option<Target>) {
        if next != Some(to) {
            self.jump(Label::of(to));
        }
    }

    pub(super) fn jump_if_equal(&mut self, register: u8, number: u32, to: Label) {
        self.push_jump(class::JMP32 | jmp::JEQ, register, 0, number, to);
    }

    /// Jumps to rejection when the run has used up its rounds.
    pub(super) fn may_goto(&mut self) {
        self.push_jump(insn::MAY_GOTO, 0, 0, 0, Label::of(Target::Reject));
    }

    /// Compares r0 with a number.
    pub(super) fn branch(
        &mut self,
        comparison: Comparison,
        number: u32,
        yes: Label,
        no: Label,
        next: Option<Label>,
    ) {
        self.branch_with(source::K, 0, comparison, number, yes, no, next);
    }

    /// Compares r0 with r1.
    pub(super) fn branch_registers(
        &mut self,
        comparison: Comparison,
        yes: Label,
        no: Label,
        next: Option<Label>,
    ) {
        self.branch_with(source::X, 1, comparison, 0, yes, no, next);
    }

    #[allow(clippy::too_many_arguments, reason = "one instruction's fields, and where it leads")]
    fn branch_with(
        &mut self,
        source: u8,
        src: u8,
        comparison: Comparison,
        number: u32,
        yes: Label,
        no: Label,
        next: Option<Label>,
    ) {
        let (holds, contrary) = match comparison {
            Comparison::Eq => (jmp::JEQ, Some(jmp::JNE)),
            Comparison::Gt => (jmp::JGT, Some(jmp::JLE)),
            Comparison::Ge => (jmp::JGE, Some(jmp::JLT)),
            Comparison::Set => (jmp::JSET, None),
        };
        match contrary {
            Some(contrary) if next == Some(yes) => {
                self.push_jump(class::JMP32 | contrary | source, 0, src, number, no);
            }
            _ => {
                self.push_jump(class::JMP32 | holds | source, 0, src, number, yes);
                if next != Some(no) {
                    self.jump(no);
                }
            }
        }
    }

    pub(super) fn exit(&mut self) {
        self.push(class::JMP | jmp::EXIT, 0, 0, 0, 0);
    }

    /// Code that is reached, with its jumps resolved.
    pub(super) fn finish(self) -> Result<Vec<Insn>, TooLong> {
        let too_long = TooLong { what: "instructions", limit: INSNS_MAX };
        let Assembler { code, places, .. } = self;
        if code.len() > INSNS_MAX {
            return Err(too_long);
        }
        let reached = reached(&code, &places);
        let mut at = vec![0; code.len() + 1];
        for index in 0..code.len() {
            at[index + 1] = at[index] + usize::from(reached[index]);
        }
        let mut insns = Vec::new();
        for (index, (insn, label)) in code.iter().enumerate() {
            let mut insn = *insn;
            if !reached[index] {
                continue;
            }
            if let Some(label) = label {
                let distance = at[places[label]] as i64 - at[index] as i64 - 1;
                insn.off = i16::try_from(distance).map_err(|_| too_long)?;
            }
            insns.push(insn);
        }
        Ok(insns)
    }
}

/// Verifiers refuse code that nothing leads to.
fn reached(code: &[(Insn, Option<Label>)], places: &std::collections::HashMap<Label, usize>) -> Vec<bool> {
    let mut reached = vec![false; code.len()];
    let mut stack = vec![0];
    while let Some(at) = stack.pop() {
        if at >= code.len() || reached[at] {
            continue;
        }
        reached[at] = true;
        let (insn, label) = &code[at];
        if let Some(label) = label {
            stack.push(places[label]);
        }
        let ends = insn.class() == class::JMP && matches!(insn.opcode & 0xf0, jmp::EXIT | jmp::JA);
        if !ends {
            stack.push(at + 1);
        }
    }
    reached
}

/// eBPF kept the operations of classic BPF, with their numbers.
fn operation(operator: Operator) -> u8 {
    classic::operation(operator) as u8
}
