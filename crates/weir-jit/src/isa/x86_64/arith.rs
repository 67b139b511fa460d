//! Arithmetic: eBPF's results for every operand, on instructions that trap or mask differently.
//!
//! Division by zero gives 0, remainder by zero the dividend; the most negative number divided by −1 is itself,
//! its remainder 0 (RFC 9669, 4.1): x86 traps on both, so they are taken out of line unless the divisor is a
//! constant, by which x86 need not divide: see [`crate::isa::x86_64::reciprocal`]. Shift counts are taken modulo the width, which is
//! what x86 does. 32-bit operations clear the upper half, which x86 does too.

use crate::front::lir::{AluOp, Bytes, Operand};
use crate::isa::x86_64::emitter::{Cold, ColdCode, Emitter, Special, SpecialCase, width};
use crate::isa::x86_64::encode::{self, Cond, Mem, Plain, Reg, ShiftX, Width};

impl Emitter<'_> {
    pub(crate) fn alu(&mut self, op: AluOp, wide: bool, dst: Reg, src: Operand) {
        match op {
            AluOp::Add if self.input.neutral => self.add_neutral(wide, dst, src),
            AluOp::Sub if self.input.neutral => match src {
                Operand::Imm(imm) if imm != i32::MIN => self.add_neutral(wide, dst, Operand::Imm(-imm)),
                _ => self.simple(encode::Op::Sub, encode::Op::SubImm, wide, dst, src),
            },
            AluOp::Add => self.simple(encode::Op::Add, encode::Op::AddImm, wide, dst, src),
            AluOp::Sub => self.simple(encode::Op::Sub, encode::Op::SubImm, wide, dst, src),
            AluOp::Or => self.simple(encode::Op::Or, encode::Op::OrImm, wide, dst, src),
            AluOp::And if src == Operand::Imm(0xff) => self.asm.op(encode::Op::Movzx8, Width::W32, dst, dst),
            AluOp::And => self.simple(encode::Op::And, encode::Op::AndImm, wide, dst, src),
            AluOp::Xor => self.simple(encode::Op::Xor, encode::Op::XorImm, wide, dst, src),
            AluOp::Mul => self.multiply(wide, dst, src),
            AluOp::Lsh | AluOp::Rsh | AluOp::Arsh => self.shift(op, wide, dst, src),
            AluOp::Div | AluOp::Mod | AluOp::Sdiv | AluOp::Smod => self.division(op, wide, dst, src),
        }
    }

    pub(crate) fn bytes(&mut self, op: Bytes, bits: u8, dst: Reg) {
        match (op, bits) {
            (Bytes::Swap, 16) => {
                self.asm.op_imm(encode::Op::RorImm, Width::W16, dst, 8);
                self.asm.op(encode::Op::Movzx16, Width::W32, dst, dst);
            }
            (Bytes::Swap, bits) => self.asm.bswap(bits == 64, dst),
            (Bytes::Truncate, 16) => self.asm.op(encode::Op::Movzx16, Width::W32, dst, dst),
            (Bytes::Truncate, 32) => self.asm.mov(Width::W32, dst, dst),
            (Bytes::Truncate, _) => {}
        }
    }

    fn simple(&mut self, op: encode::Op, op_imm: encode::Op, wide: bool, dst: Reg, src: Operand) {
        match src {
            Operand::Imm(imm) => self.asm.op_imm(op_imm, width(wide), dst, imm),
            _ => {
                let src = self.in_register(src, Reg::R11);
                self.asm.op(op, width(wide), src, dst);
            }
        }
    }

    /// Addition by `lea`.
    fn add_neutral(&mut self, wide: bool, dst: Reg, src: Operand) {
        let sum = match src {
            Operand::Imm(imm) => Mem::base(dst, imm),
            _ => Mem::indexed(dst, self.in_register(src, Reg::R11), 0, 0),
        };
        self.asm.op(encode::Op::Lea, width(wide), dst, sum);
    }

    /// `dst = left × imm`.
    pub(crate) fn multiply_from(&mut self, wide: bool, dst: Reg, left: Reg, imm: i32) {
        match imm {
            3 | 5 | 9 => {
                let scale = (imm - 1).trailing_zeros() as u8;
                self.asm.op(encode::Op::Lea, width(wide), dst, Mem::indexed(left, left, scale, 0));
            }
            2.. if imm & (imm - 1) == 0 => {
                // Of a register to itself a 64-bit move is nothing.
                self.asm.mov(Width::W64, dst, left);
                self.asm.op_imm(encode::Op::ShlImm, width(wide), dst, imm.trailing_zeros() as i32);
            }
            _ => self.asm.imul_imm(width(wide), dst, left, imm),
        }
    }

    fn multiply(&mut self, wide: bool, dst: Reg, src: Operand) {
        match src {
            Operand::Imm(imm) => self.multiply_from(wide, dst, dst, imm),
            _ => {
                let src = self.in_register(src, Reg::R11);
                self.asm.op(encode::Op::Imul, width(wide), dst, src);
            }
        }
    }

    fn shift(&mut self, op: AluOp, wide: bool, dst: Reg, src: Operand) {
        let by_any = shift_by_any(op);
        let (by_imm, by_cl) = match by_any {
            ShiftX::Shl => (encode::Op::ShlImm, encode::Op::ShlCl),
            ShiftX::Shr => (encode::Op::ShrImm, encode::Op::ShrCl),
            ShiftX::Sar => (encode::Op::SarImm, encode::Op::SarCl),
        };
        let mask = if wide { 63 } else { 31 };
        match src {
            // A shift by 0 still clears the upper half of a 32-bit result.
            Operand::Imm(imm) if imm & mask == 0 => self.asm.mov(width(wide), dst, dst),
            Operand::Imm(imm) if self.input.neutral && self.input.abi.bmi2 => {
                self.asm.mov_value(Reg::R11, (imm & mask) as u64);
                self.asm.shiftx(by_any, wide, dst, dst, Reg::R11);
            }
            Operand::Imm(imm) => self.asm.op_imm(by_imm, width(wide), dst, imm & mask),
            _ => {
                let count = self.in_register(src, Reg::R11);
                if self.input.abi.bmi2 {
                    self.asm.shiftx(by_any, wide, dst, dst, count);
                } else {
                    self.shift_by_cl(by_cl, wide, dst, count);
                }
            }
        }
    }

    /// Without BMI2 the count must be in cl, which is r4's register.
    fn shift_by_cl(&mut self, op: encode::Op, wide: bool, dst: Reg, count: Reg) {
        if count == Reg::Rcx {
            return self.asm.op_one(op, width(wide), dst);
        }
        // r10 holds rcx meanwhile; r11 may be the count.
        self.asm.mov(Width::W64, Reg::R10, Reg::Rcx);
        self.asm.mov(Width::W64, Reg::Rcx, count);
        if dst == Reg::Rcx {
            self.asm.op_one(op, width(wide), Reg::R10);
        } else {
            self.asm.op_one(op, width(wide), dst);
        }
        self.asm.mov(Width::W64, Reg::Rcx, Reg::R10);
    }

    fn division(&mut self, op: AluOp, wide: bool, dst: Reg, src: Operand) {
        if let Operand::Imm(imm) = src {
            self.divide_by_constant(op, wide, dst, imm);
        } else {
            self.divide_by_register(op, wide, dst, src);
        }
    }

    /// `dst = left / imm` or the remainder, without sign.
    pub(crate) fn divide_constant_from(&mut self, op: AluOp, wide: bool, dst: Reg, left: Reg, imm: i32) {
        let divisor = if wide { i64::from(imm) as u64 } else { u64::from(imm as u32) };
        if !divisor.is_power_of_two() && self.can_multiply(wide, divisor) {
            self.divide_by_multiplying(op == AluOp::Mod, wide, dst, left, divisor);
        } else {
            self.asm.mov(width(wide), dst, left);
            self.divide_by_constant(op, wide, dst, imm);
        }
    }

    fn divide_by_constant(&mut self, op: AluOp, wide: bool, dst: Reg, imm: i32) {
        let divisor = if wide { i64::from(imm) as u64 } else { u64::from(imm as u32) };
        let remainder = matches!(op, AluOp::Mod | AluOp::Smod);
        let signed = matches!(op, AluOp::Sdiv | AluOp::Smod);
        if let Some(case) = special_case(op, imm) {
            self.special_division(Special { dst, wide, case });
        } else if !signed && divisor.is_power_of_two() {
            let bits = divisor.trailing_zeros() as i32;
            if remainder {
                self.and_mask(wide, dst, divisor - 1);
            } else if bits == 0 {
                self.asm.mov(width(wide), dst, dst);
            } else {
                self.asm.op_imm(encode::Op::ShrImm, width(wide), dst, bits);
            }
        } else if !signed && self.can_multiply(wide, divisor) {
            self.divide_by_multiplying(remainder, wide, dst, dst, divisor);
        } else {
            self.asm.mov_value(Reg::R9, divisor);
            self.divide_by_r9(remainder, signed, wide, dst);
        }
    }

    fn and_mask(&mut self, wide: bool, dst: Reg, mask: u64) {
        if let Ok(mask) = i32::try_from(mask) {
            self.asm.op_imm(encode::Op::AndImm, width(wide), dst, mask);
        } else {
            self.asm.mov_value(Reg::R11, mask);
            self.asm.op(encode::Op::And, width(wide), Reg::R11, dst);
        }
    }

    fn divide_by_register(&mut self, op: AluOp, wide: bool, dst: Reg, src: Operand) {
        let remainder = matches!(op, AluOp::Mod | AluOp::Smod);
        let signed = matches!(op, AluOp::Sdiv | AluOp::Smod);
        let done = self.asm.label();
        let src = self.in_register(src, Reg::R11);
        self.asm.mov(width(wide), Reg::R9, src);
        self.asm.op(encode::Op::Test, width(wide), Reg::R9, Reg::R9);
        let by_zero = if remainder { SpecialCase::RemainderByZero } else { SpecialCase::DivideByZero };
        self.jump_to_special(Special { dst, wide, case: by_zero }, done);
        if signed {
            self.asm.op_imm(encode::Op::CmpImm, width(wide), Reg::R9, -1);
            let by_minus_one =
                if remainder { SpecialCase::RemainderByMinusOne } else { SpecialCase::DivideByMinusOne };
            self.jump_to_special(Special { dst, wide, case: by_minus_one }, done);
        }
        self.divide_by_r9(remainder, signed, wide, dst);
        self.asm.bind(done);
    }

    fn jump_to_special(&mut self, special: Special, back: crate::isa::x86_64::assembler::Label) {
        let entry = self.asm.label();
        self.asm.jump_if(Cond::Equal, entry);
        self.cold.push(Cold { from: self.now, entry, back, what: ColdCode::Division(special) });
    }

    /// The dividend goes through rdx:rax; both keep their values if they are needed and not the result.
    fn divide_by_r9(&mut self, remainder: bool, signed: bool, wide: bool, dst: Reg) {
        let saves = [(Reg::Rax, Reg::R10), (Reg::Rdx, Reg::R11)]
            .map(|(reg, copy)| (reg, copy, reg != dst && self.is_live_after(reg)));
        for (reg, copy, _) in saves.into_iter().filter(|save| save.2) {
            self.asm.mov(Width::W64, copy, reg);
        }
        if dst != Reg::Rax {
            self.asm.mov(width(wide), Reg::Rax, dst);
        }
        if signed {
            self.asm.plain(if wide { Plain::Cqo } else { Plain::Cdq });
            self.asm.op_one(encode::Op::Idiv, width(wide), Reg::R9);
        } else {
            self.asm.op(encode::Op::Xor, Width::W32, Reg::Rdx, Reg::Rdx);
            self.asm.op_one(encode::Op::Div, width(wide), Reg::R9);
        }
        let result = if remainder { Reg::Rdx } else { Reg::Rax };
        if dst != result {
            self.asm.mov(width(wide), dst, result);
        }
        for (reg, copy, _) in saves.into_iter().filter(|save| save.2) {
            self.asm.mov(Width::W64, reg, copy);
        }
    }

    pub(crate) fn special_division(&mut self, special: Special) {
        let Special { dst, wide, case } = special;
        match case {
            SpecialCase::DivideByZero | SpecialCase::RemainderByMinusOne => {
                self.asm.op(encode::Op::Xor, Width::W32, dst, dst);
            }
            SpecialCase::RemainderByZero => self.asm.mov(width(wide), dst, dst),
            SpecialCase::DivideByMinusOne => self.asm.op_one(encode::Op::Neg, width(wide), dst),
        }
    }
}

/// The BMI2 form of a shift.
pub(crate) fn shift_by_any(op: AluOp) -> ShiftX {
    match op {
        AluOp::Lsh => ShiftX::Shl,
        AluOp::Rsh => ShiftX::Shr,
        _ => ShiftX::Sar,
    }
}

/// What dividing by this constant comes to, if x86 cannot do it.
fn special_case(op: AluOp, divisor: i32) -> Option<SpecialCase> {
    match (op, divisor) {
        (AluOp::Div | AluOp::Sdiv, 0) => Some(SpecialCase::DivideByZero),
        (AluOp::Mod | AluOp::Smod, 0) => Some(SpecialCase::RemainderByZero),
        (AluOp::Sdiv, -1) => Some(SpecialCase::DivideByMinusOne),
        (AluOp::Smod, -1) => Some(SpecialCase::RemainderByMinusOne),
        _ => None,
    }
}
