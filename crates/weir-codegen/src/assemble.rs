//! Instructions on real registers and stack objects → eBPF.
//!
//! - stack objects become offsets from r10
//! - labels become offsets; a jump to a jump goes where that one goes; a jump to the next instruction, and code that
//!   nothing reaches (verifiers refuse it), go away

use weir_ebpf::Insn;
use weir_ebpf::insn::{LD_IMM64, MAY_GOTO, alu, atomic, class, jmp, mode, pseudo, size, source};
use weir_ebpf::kfunc::KfuncId;

use crate::lir::{Area, ByLabel, FRAME, Inst, Label, ObjectId, Place, Reg, Src};
use crate::lower::Code;
use crate::place::layout;
use crate::{CodegenError, limits};

/// The instructions of one program, which may use so much stack. Virtual registers must be gone. What it calls stands behind the
/// last of them.
pub(crate) fn assemble(clause: &str, mut code: Code, stack_max: u32) -> Result<Vec<Insn>, CodegenError> {
    let stack = layout(code.insts.iter(), code.labels, &code.objects, Area::Stack);
    if stack.bytes > stack_max {
        return Err(CodegenError::Stack { clause: clause.into(), bytes: stack.bytes, max: stack_max });
    }
    let depth = |object: ObjectId| {
        let index = object.0 as usize;
        (stack.offsets[index] + code.objects[index].bytes) as i32
    };
    let mut insts = std::mem::take(&mut code.insts);
    insts.retain(|inst| !matches!(inst, Inst::Touch(_)));
    thread_jumps(&mut insts, code.labels);
    remove_dead(&mut insts, code.labels);
    let insns = Vec::with_capacity(2 * insts.len());
    let labels = ByLabel::new(code.labels);
    let mut out = Assembly { insns, labels, jumps: Vec::new(), calls: Vec::new() };
    for inst in insts {
        out.push(inst, &depth);
    }
    let insns = out.finish();
    if insns.len() > limits::INSNS_MAX {
        return Err(CodegenError::TooLong { clause: clause.into(), insns: insns.len() });
    }
    Ok(insns)
}

/// Sends jumps to a label that stands before a jump to that one's target.
fn thread_jumps(insts: &mut [Inst], labels: u32) {
    let mut leads_to: ByLabel<Label> = ByLabel::new(labels);
    // Backwards: what a later jump leads to is known already. Jumps back are the loops, whose label is not seen yet.
    let mut next: Option<Label> = None;
    for inst in insts.iter_mut().rev() {
        match inst {
            Inst::Label(label) => {
                if let Some(target) = next {
                    leads_to.set(*label, target);
                }
            }
            Inst::Jump(to) => {
                *to = leads_to.get(*to).unwrap_or(*to);
                next = Some(*to);
            }
            Inst::Branch { to, .. } | Inst::MayGoto(to) => {
                *to = leads_to.get(*to).unwrap_or(*to);
                next = None;
            }
            _ => next = None,
        }
    }
}

/// Drops what no path reaches, and jumps to what comes next.
fn remove_dead(insts: &mut Vec<Inst>, labels: u32) {
    let mut kept = reached(insts, labels);
    // Backwards: the labels between the instruction and the next one that stays.
    let mut next: Vec<Label> = Vec::new();
    for (inst, kept) in insts.iter().zip(&mut kept).rev().filter(|(_, kept)| **kept) {
        match inst {
            Inst::Label(label) => next.push(*label),
            _ if inst.target().is_some_and(|target| next.contains(&target)) => *kept = false,
            _ => next.clear(),
        }
    }
    let mut kept = kept.into_iter();
    insts.retain(|_| kept.next() == Some(true));
}

/// By instruction: some path from the first one leads to it.
fn reached(insts: &[Inst], labels: u32) -> Vec<bool> {
    let mut places = ByLabel::new(labels);
    for (index, inst) in insts.iter().enumerate() {
        if let Inst::Label(label) = inst {
            places.set(*label, index);
        }
    }
    let mut reached = vec![false; insts.len()];
    let mut waiting = vec![0];
    while let Some(mut index) = waiting.pop() {
        while index < insts.len() && !reached[index] {
            reached[index] = true;
            // SANITY: a label that is jumped to stands somewhere.
            waiting.extend(insts[index].target().map(|target| places.get(target).expect("a label")));
            match insts[index] {
                Inst::Jump(_) | Inst::Exit => break,
                _ => index += 1,
            }
        }
    }
    reached
}

struct Assembly {
    insns: Vec<Insn>,
    labels: ByLabel<usize>,
    /// Instructions whose offset waits for a label.
    jumps: Vec<(usize, Label)>,
    /// Calls of what will stand behind the last instruction.
    calls: Vec<usize>,
}

impl Assembly {
    fn push(&mut self, inst: Inst, depth: &impl Fn(ObjectId) -> i32) {
        let place = |place: Place| match place {
            Place::Reg(reg, offset) => (number(reg), offset as i16),
            Place::Object(object, offset) => (number(FRAME), (offset - depth(object)) as i16),
        };
        match inst {
            Inst::Mov { dst, src } => self.alu(class::ALU64, alu::MOV, 0, dst, src),
            Inst::Mov32 { dst, src } => self.alu(class::ALU, alu::MOV, 0, dst, src),
            Inst::Alu { op, signed, dst, src } => self.alu(class::ALU64, op, i16::from(signed), dst, src),
            Inst::Const64 { dst, value } => {
                self.wide(dst, pseudo::NONE, value as i32, (value >> 32) as i32);
            }
            Inst::MapRef { dst, map } => self.wide(dst, pseudo::MAP_INDEX, map as i32, 0),
            Inst::MapValue { dst, map } => self.wide(dst, pseudo::MAP_INDEX_VALUE, map as i32, 0),
            Inst::Address { dst, object, offset } => {
                self.alu(class::ALU64, alu::MOV, 0, dst, Src::Reg(FRAME));
                self.alu(class::ALU64, alu::ADD, 0, dst, Src::Imm(offset - depth(object)));
            }
            Inst::Load { dst, from } => self.load(size::DW, dst, place(from)),
            Inst::LoadPart { size, dst, from } => self.load(size, dst, place(from)),
            Inst::Store { size, to, src } => {
                let (dst, off) = place(to);
                self.insns.push(match src {
                    Src::Imm(imm) => Insn { opcode: class::ST | mode::MEM | size, dst, src: 0, off, imm },
                    Src::Reg(src) => {
                        Insn { opcode: class::STX | mode::MEM | size, dst, src: number(src), off, imm: 0 }
                    }
                });
            }
            Inst::AtomicAdd { to, src, fetch } => {
                let imm = if fetch { atomic::ADD | atomic::FETCH } else { atomic::ADD };
                self.atomic(place(to), src, imm);
            }
            Inst::CompareExchange { to, src } => self.atomic(place(to), src, atomic::CMPXCHG),
            Inst::Call { helper, .. } => {
                let opcode = class::JMP | jmp::CALL;
                self.insns.push(Insn { opcode, src: pseudo::HELPER, imm: helper, ..Insn::default() });
            }
            Inst::CallKernel(function) | Inst::CallKernelWith { function, .. } => self.call_kernel(function),
            Inst::CallProgram => {
                self.calls.push(self.insns.len());
                let opcode = class::JMP | jmp::CALL;
                self.insns.push(Insn { opcode, src: pseudo::LOCAL, ..Insn::default() });
            }
            Inst::Jump(to) => {
                self.jumps.push((self.insns.len(), to));
                self.insns.push(Insn { opcode: class::JMP | jmp::JA, ..Insn::default() });
            }
            Inst::MayGoto(to) => {
                self.jumps.push((self.insns.len(), to));
                self.insns.push(Insn { opcode: MAY_GOTO, ..Insn::default() });
            }
            Inst::Branch { op, a, b, to } => {
                self.jumps.push((self.insns.len(), to));
                self.operands(class::JMP | op, 0, a, b);
            }
            Inst::Label(label) => {
                self.labels.set(label, self.insns.len());
            }
            Inst::Touch(_) => {}
            Inst::Exit => self.insns.push(Insn { opcode: class::JMP | jmp::EXIT, ..Insn::default() }),
        }
    }

    fn call_kernel(&mut self, imm: KfuncId) {
        let opcode = class::JMP | jmp::CALL;
        self.insns.push(Insn { opcode, src: pseudo::KERNEL, imm, ..Insn::default() });
    }

    fn load(&mut self, size: u8, dst: Reg, (src, off): (u8, i16)) {
        let opcode = class::LDX | mode::MEM | size;
        self.insns.push(Insn { opcode, dst: number(dst), src, off, imm: 0 });
    }

    fn alu(&mut self, class: u8, op: u8, off: i16, dst: Reg, src: Src) {
        self.operands(class | op, off, dst, src);
    }

    fn operands(&mut self, opcode: u8, off: i16, dst: Reg, src: Src) {
        let dst = number(dst);
        self.insns.push(match src {
            Src::Imm(imm) => Insn { opcode: opcode | source::K, dst, src: 0, off, imm },
            Src::Reg(src) => Insn { opcode: opcode | source::X, dst, src: number(src), off, imm: 0 },
        });
    }

    fn wide(&mut self, dst: Reg, kind: u8, low: i32, high: i32) {
        self.insns.push(Insn { opcode: LD_IMM64, dst: number(dst), src: kind, off: 0, imm: low });
        self.insns.push(Insn { imm: high, ..Insn::default() });
    }

    fn atomic(&mut self, (dst, off): (u8, i16), src: Reg, imm: i32) {
        let opcode = class::STX | mode::ATOMIC | size::DW;
        self.insns.push(Insn { opcode, dst, src: number(src), off, imm });
    }

    fn finish(mut self) -> Vec<Insn> {
        for (at, to) in self.jumps {
            // SANITY: a label that is jumped to stands somewhere.
            let target = self.labels.get(to).expect("a label");
            // Programs longer than offsets reach are refused by the caller; until then the value does not matter.
            self.insns[at].off = (target as isize - at as isize - 1) as i16;
        }
        for at in self.calls {
            self.insns[at].imm = (self.insns.len() - at - 1) as i32;
        }
        self.insns
    }
}

fn number(reg: Reg) -> u8 {
    match reg {
        Reg::Real(number) => number,
        Reg::Virtual(register) => unreachable!("virtual register {register} after allocation"),
    }
}
