//! The machine code of operations that passes made of several ([`Fused`]). None may be chosen where flags must stay.

use crate::front::fused::{Fused, Move};
use crate::front::lir::{AluOp, At, Bytes, Operand, Reg, Size, Test};
use crate::isa::x86_64::arith::shift_by_any;
use crate::isa::x86_64::emitter::{Emitter, condition, phys, size_width, width};
use crate::isa::x86_64::encode::{self, Mem, Width};

impl Emitter<'_> {
    pub(crate) fn fused(&mut self, fused: &Fused) {
        match *fused {
            Fused::Alu { op, wide, dst, left, right } => {
                self.alu_from(op, wide, phys(dst), phys(left), right)
            }
            Fused::Rotate { wide, dst, src, left } => self.rotate(wide, phys(dst), phys(src), left),
            Fused::HighestBit { dst, src, plus } => {
                self.asm.op(encode::Op::Bsr, Width::W64, phys(dst), phys(src));
                self.asm.op_imm(encode::Op::AddImm, Width::W32, phys(dst), plus);
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
            AluOp::Add => (encode::Op::Add, encode::Op::AddImm),
            AluOp::Sub => (encode::Op::Sub, encode::Op::SubImm),
            AluOp::Or => (encode::Op::Or, encode::Op::OrImm),
            AluOp::And => (encode::Op::And, encode::Op::AndImm),
            _ => (encode::Op::Xor, encode::Op::XorImm),
        };
        let (width, mem) = (size_width(size), self.mem(at));
        match src {
            Operand::Imm(imm) => self.asm.op_imm(op_imm, width, mem, imm),
            _ => {
                let src = self.in_register(src, encode::Reg::R11);
                self.asm.op(op, width, src, mem);
            }
        }
    }

    /// May use r10 and r11.
    fn set_if(&mut self, test: Test, wide: bool, dst: Reg, left: Operand, right: Operand) {
        let is_compared = (left.reads() | right.reads()) >> dst & 1 != 0;
        let set = if is_compared { encode::Reg::R11 } else { phys(dst) };
        if !is_compared {
            self.asm.op(encode::Op::Xor, Width::W32, set, set);
        }
        self.compare(test, wide, left, right);
        self.asm.setcc(condition(test), set);
        if is_compared {
            self.asm.op(encode::Op::Movzx8, Width::W32, phys(dst), set);
        }
    }

    /// May use r11. The flags are those of the comparison, before and after.
    fn select(&mut self, cond: encode::Cond, one: Move) {
        self.asm.mov_value(encode::Reg::R11, one.value);
        self.asm.cmov(cond, phys(one.dst), encode::Reg::R11);
    }

    fn rotate(&mut self, wide: bool, dst: encode::Reg, src: encode::Reg, left: u8) {
        let bits = if wide { 64 } else { 32 };
        if dst != src && self.input.abi.bmi2 {
            return self.asm.rorx(wide, dst, src, (bits - left) % bits);
        }
        if dst != src {
            self.asm.mov(width(wide), dst, src);
        }
        self.asm.op_imm(encode::Op::RolImm, width(wide), dst, i32::from(left));
    }

    /// `dst = left op right`, in one instruction where x86 has it.
    fn alu_from(&mut self, op: AluOp, wide: bool, dst: encode::Reg, left: encode::Reg, right: Operand) {
        use encode::Op::Lea;
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
            (AluOp::And, Operand::Imm(0xff), _) => self.asm.op(encode::Op::Movzx8, Width::W32, dst, left),
            (AluOp::And, Operand::Imm(0xffff), _) => self.asm.op(encode::Op::Movzx16, Width::W32, dst, left),
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
    fn alu_from_itself(&mut self, op: AluOp, wide: bool, dst: encode::Reg, left: encode::Reg) {
        let machine_op = match op {
            AluOp::Or => encode::Op::Or,
            AluOp::And => encode::Op::And,
            AluOp::Xor => encode::Op::Xor,
            AluOp::Mul => return self.asm.op(encode::Op::Imul, width(wide), dst, left),
            AluOp::Sub => {
                self.asm.op_one(encode::Op::Neg, width(wide), dst);
                encode::Op::Add
            }
            AluOp::Add => encode::Op::Add,
            _ => unreachable!("`is_encodable` refuses it"),
        };
        self.asm.op(machine_op, width(wide), left, dst);
    }
}
