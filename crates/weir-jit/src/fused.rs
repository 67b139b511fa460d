//! Operations that passes make of several: arithmetic with a third operand, rotations, swapped loads, selections.
//!
//! In: what a pass found. Out: [`Fused::effect`] for liveness, and the machine code. Every form here stands for
//! operations that bytecode has one by one; none may be chosen where flags must stay.
//!
//! Not here: when to make them (see [`crate::passes`]).

use crate::arith::shift_by_any;
use crate::emit::{Emitter, condition, phys, size_width, width};
use crate::lir::{AluOp, At, Bytes, Effect, Operand, Reg, Size, Test};
use crate::x64::{self, Mem, Width};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Fused {
    /// `dst = left op right`.
    Alu { op: AluOp, wide: bool, dst: Reg, left: Reg, right: Operand },
    /// `dst = src` turned left by `left` bits, 1 up to the width.
    Rotate { wide: bool, dst: Reg, src: Reg, left: u8 },
    /// `dst = plus` + the number of the highest bit of `src`, which is not 0.
    HighestBit { dst: Reg, src: Reg, plus: i32 },
    /// A load of 2, 4 or 8 bytes in the other byte order, zero-extended.
    LoadSwapped { dst: Reg, size: Size, at: At },
    /// Memory `op=` src, for operations that x86 has on memory.
    Update { op: AluOp, size: Size, at: At, src: Operand },
    /// `dst` = 1 if the test holds, else 0.
    SetIf { test: Test, wide: bool, dst: Reg, left: Operand, right: Operand },
    /// If the test holds, every move happens, else none.
    Select { test: Test, wide: bool, left: Operand, right: Operand, moves: [Option<Move>; 2] },
}

/// One move of a [`Fused::Select`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Move {
    pub(crate) dst: Reg,
    pub(crate) value: u64,
}

impl Fused {
    pub(crate) fn effect(&self, effect: &mut Effect) {
        match *self {
            Fused::Alu { dst, left, right, .. } => {
                effect.reads = 1 << left | right.reads();
                effect.writes = 1 << dst;
            }
            Fused::Rotate { dst, src, .. } | Fused::HighestBit { dst, src, .. } => {
                effect.reads = 1 << src;
                effect.writes = 1 << dst;
            }
            Fused::LoadSwapped { dst, size, at } => {
                effect.base(at);
                effect.stack_reads.extend(at.stack_range(size));
                effect.writes = 1 << dst;
            }
            Fused::Update { size, at, src, .. } => {
                effect.base(at);
                effect.stack_reads.extend(at.stack_range(size));
                effect.reads |= src.reads();
                effect.keep = true;
            }
            Fused::SetIf { dst, left, right, .. } => {
                effect.reads = left.reads() | right.reads();
                effect.writes = 1 << dst;
            }
            Fused::Select { left, right, moves, .. } => {
                effect.reads = left.reads() | right.reads();
                for Move { dst, .. } in moves.into_iter().flatten() {
                    // Where nothing is moved the old value stays.
                    effect.reads |= 1 << dst;
                    effect.writes |= 1 << dst;
                }
            }
        }
    }
}

/// Whether `dst = left op right` has a form: with the right operand in `dst` some operations have none.
pub(crate) fn is_encodable(op: AluOp, dst: Reg, left: Reg, right: Operand) -> bool {
    use AluOp::{Add, And, Mul, Or, Sub, Xor};
    left == dst || right != Operand::Reg(dst) || matches!(op, Add | And | Mul | Or | Sub | Xor)
}

impl Emitter<'_> {
    pub(crate) fn fused(&mut self, fused: &Fused) {
        match *fused {
            Fused::Alu { op, wide, dst, left, right } => {
                self.alu_from(op, wide, phys(dst), phys(left), right)
            }
            Fused::Rotate { wide, dst, src, left } => self.rotate(wide, phys(dst), phys(src), left),
            Fused::HighestBit { dst, src, plus } => {
                self.asm.op(x64::Op::Bsr, Width::W64, phys(dst), phys(src));
                self.asm.op_imm(x64::Op::AddImm, Width::W32, phys(dst), plus);
            }
            Fused::LoadSwapped { dst, size, at } => {
                let mem = self.mem(at);
                self.load(phys(dst), size, false, mem);
                self.bytes(Bytes::Swap, 8 * size.bytes() as u8, phys(dst));
            }
            Fused::Update { op, size, at, src } => self.update(op, size, at, src),
            Fused::SetIf { test, wide, dst, left, right } => self.set_if(test, wide, dst, left, right),
            Fused::Select { test, wide, left, right, moves } => {
                self.compare(test, wide, left, right);
                for one in moves.into_iter().flatten() {
                    self.select(condition(test), one);
                }
            }
        }
    }

    fn update(&mut self, op: AluOp, size: Size, at: At, src: Operand) {
        let (op, op_imm) = match op {
            AluOp::Add => (x64::Op::Add, x64::Op::AddImm),
            AluOp::Sub => (x64::Op::Sub, x64::Op::SubImm),
            AluOp::Or => (x64::Op::Or, x64::Op::OrImm),
            AluOp::And => (x64::Op::And, x64::Op::AndImm),
            _ => (x64::Op::Xor, x64::Op::XorImm),
        };
        let (width, mem) = (size_width(size), self.mem(at));
        match src {
            Operand::Imm(imm) => self.asm.op_imm(op_imm, width, mem, imm),
            _ => {
                let src = self.in_register(src, x64::Reg::R11);
                self.asm.op(op, width, src, mem);
            }
        }
    }

    /// May use r10 and r11.
    fn set_if(&mut self, test: Test, wide: bool, dst: Reg, left: Operand, right: Operand) {
        let is_compared = (left.reads() | right.reads()) >> dst & 1 != 0;
        let set = if is_compared { x64::Reg::R11 } else { phys(dst) };
        if !is_compared {
            self.asm.op(x64::Op::Xor, Width::W32, set, set);
        }
        self.compare(test, wide, left, right);
        self.asm.setcc(condition(test), set);
        if is_compared {
            self.asm.op(x64::Op::Movzx8, Width::W32, phys(dst), set);
        }
    }

    /// May use r11. The flags are those of the comparison, before and after.
    fn select(&mut self, cond: x64::Cond, one: Move) {
        self.asm.mov_value(x64::Reg::R11, one.value);
        self.asm.cmov(cond, phys(one.dst), x64::Reg::R11);
    }

    fn rotate(&mut self, wide: bool, dst: x64::Reg, src: x64::Reg, left: u8) {
        let bits = if wide { 64 } else { 32 };
        if dst != src && self.input.abi.bmi2 {
            return self.asm.rorx(wide, dst, src, (bits - left) % bits);
        }
        if dst != src {
            self.asm.mov(width(wide), dst, src);
        }
        self.asm.op_imm(x64::Op::RolImm, width(wide), dst, i32::from(left));
    }

    /// `dst = left op right`, in one instruction where x86 has it.
    fn alu_from(&mut self, op: AluOp, wide: bool, dst: x64::Reg, left: x64::Reg, right: Operand) {
        use x64::Op::Lea;
        if dst == left {
            return self.alu(op, wide, dst, right);
        }
        let bits = width(wide);
        let right_reg = if let Operand::Reg(right) = right { Some(phys(right)) } else { None };
        match (op, right, right_reg) {
            (AluOp::Add, Operand::Imm(imm), _) => self.asm.op(Lea, bits, dst, Mem::base(left, imm)),
            (AluOp::Sub, Operand::Imm(imm), _) if imm != i32::MIN => {
                self.asm.op(Lea, bits, dst, Mem::base(left, -imm));
            }
            (AluOp::Add, _, Some(right)) => self.asm.op(Lea, bits, dst, Mem::indexed(left, right, 0, 0)),
            (AluOp::And, Operand::Imm(0xff), _) => self.asm.op(x64::Op::Movzx8, Width::W32, dst, left),
            (AluOp::And, Operand::Imm(0xffff), _) => self.asm.op(x64::Op::Movzx16, Width::W32, dst, left),
            (AluOp::Mul, Operand::Imm(imm), _) => self.multiply_from(wide, dst, left, imm),
            (AluOp::Div | AluOp::Mod, Operand::Imm(imm), _) => {
                self.divide_constant_from(op, wide, dst, left, imm);
            }
            (AluOp::Lsh | AluOp::Rsh | AluOp::Arsh, _, Some(count)) if self.input.abi.bmi2 => {
                self.asm.shiftx(shift_by_any(op), wide, dst, left, count);
            }
            (_, _, Some(register)) if register == dst => self.alu_from_itself(op, wide, dst, left),
            _ => {
                self.asm.mov(bits, dst, left);
                self.alu(op, wide, dst, right);
            }
        }
    }

    /// `dst = left op dst`.
    fn alu_from_itself(&mut self, op: AluOp, wide: bool, dst: x64::Reg, left: x64::Reg) {
        let machine_op = match op {
            AluOp::Or => x64::Op::Or,
            AluOp::And => x64::Op::And,
            AluOp::Xor => x64::Op::Xor,
            AluOp::Mul => return self.asm.op(x64::Op::Imul, width(wide), dst, left),
            AluOp::Sub => {
                self.asm.op_one(x64::Op::Neg, width(wide), dst);
                x64::Op::Add
            }
            AluOp::Add => x64::Op::Add,
            _ => unreachable!("`is_encodable` refuses it"),
        };
        self.asm.op(machine_op, width(wide), left, dst);
    }
}
