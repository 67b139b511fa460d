//! Atomic operations on memory that every thread shares (RFC 9669, 5.3).
//!
//! x86 has all of them but fetch-and-or, -and and -xor, which loop over `cmpxchg`.

use crate::front::lir::{AtomicOp, Operand};
use crate::isa::x86_64::emitter::{Emitter, width};
use crate::isa::x86_64::encode::{self, Cond, Mem, Reg, Width};

impl Emitter<'_> {
    /// May use r9, r10 and r11; the address must not need r10 or r11.
    pub(crate) fn atomic(&mut self, op: AtomicOp, fetch: bool, wide: bool, mem: Mem, src: Operand) {
        let width = width(wide);
        match (op, fetch, src) {
            (_, false, Operand::Imm(imm)) => self.asm.lock_op_imm(machine_op_imm(op), width, mem, imm),
            (_, false, _) => {
                let src = self.in_register(src, Reg::R11);
                self.asm.lock_op(machine_op(op), width, src, mem);
            }
            (AtomicOp::Add, true, Operand::Reg(src)) => {
                self.asm.lock_op(encode::Op::Xadd, width, crate::isa::x86_64::emitter::phys(src), mem);
            }
            (AtomicOp::Xchg, _, Operand::Reg(src)) => {
                // With memory, xchg locks by itself.
                self.asm.op(encode::Op::Xchg, width, crate::isa::x86_64::emitter::phys(src), mem);
            }
            (AtomicOp::Cmpxchg, _, Operand::Reg(src)) => {
                self.asm.lock_op(encode::Op::Cmpxchg, width, crate::isa::x86_64::emitter::phys(src), mem);
                self.zero_extend_compared(wide);
            }
            (_, true, Operand::Reg(src)) => {
                self.fetch_loop(op, wide, mem, crate::isa::x86_64::emitter::phys(src))
            }
            (_, true, _) => unreachable!("a fetch has a register as its source"),
        }
    }

    /// When a 32-bit cmpxchg succeeds it leaves rax alone, upper half included; eBPF's r0 is then the 32-bit
    /// value, zero-extended.
    pub(crate) fn zero_extend_compared(&mut self, wide: bool) {
        if !wide {
            self.asm.mov(Width::W32, Reg::Rax, Reg::Rax);
        }
    }

    /// `src = mem; mem = mem op src`, as one step.
    fn fetch_loop(&mut self, op: AtomicOp, wide: bool, mem: Mem, src: Reg) {
        let width = width(wide);
        let mut mem = mem;
        // rax and src change before the address is last used.
        if mem.base.is_some_and(|base| base == Reg::Rax || base == src) {
            self.asm.op(encode::Op::Lea, Width::W64, Reg::R9, mem);
            mem = Mem::base(Reg::R9, 0);
        }
        self.asm.mov(Width::W64, Reg::R11, src);
        // The new value is made in src itself, or beside rax if that is src.
        let new = if src == Reg::Rax { Reg::R10 } else { src };
        let save_rax = src != Reg::Rax;
        if save_rax {
            self.asm.mov(Width::W64, Reg::R10, Reg::Rax);
        }
        self.asm.op(encode::Op::Load, width, Reg::Rax, mem);
        let again = self.asm.label();
        self.asm.bind(again);
        self.asm.mov(width, new, Reg::Rax);
        self.asm.op(machine_op(op), width, Reg::R11, new);
        self.asm.lock_op(encode::Op::Cmpxchg, width, new, mem);
        self.asm.jump_if(Cond::NotEqual, again);
        if save_rax {
            self.asm.mov(width, src, Reg::Rax);
            self.asm.mov(Width::W64, Reg::Rax, Reg::R10);
        }
    }
}

/// `op reg, memory`.
pub(crate) fn machine_op(op: AtomicOp) -> encode::Op {
    match op {
        AtomicOp::Add => encode::Op::Add,
        AtomicOp::Or => encode::Op::Or,
        AtomicOp::And => encode::Op::And,
        AtomicOp::Xor => encode::Op::Xor,
        AtomicOp::Xchg => encode::Op::Xchg,
        AtomicOp::Cmpxchg => encode::Op::Cmpxchg,
    }
}

/// `op imm, memory`.
pub(crate) fn machine_op_imm(op: AtomicOp) -> encode::Op {
    match op {
        AtomicOp::Add => encode::Op::AddImm,
        AtomicOp::Or => encode::Op::OrImm,
        AtomicOp::And => encode::Op::AndImm,
        AtomicOp::Xor => encode::Op::XorImm,
        AtomicOp::Xchg | AtomicOp::Cmpxchg => unreachable!("an exchange has a register as its source"),
    }
}
