//! Doubles: what is done to them is done to their bits by integer operations, since programs have no others.
//!
//! - Comparisons are IEEE 754's: NaN is not equal to anything, itself included, and −0 equals 0.
//! - A double becomes an integer by cutting the fraction off. What is too large, or infinite, becomes the nearest integer
//!   of the type, NaN 0.
//! - A float of 4 bytes becomes the double of the same value; of a NaN the sign and what fits of its other bits stay.
//!
//! Not here: arithmetic, which the check refuses.

use weir_event::Type;
use weir_ir::{BinOp, CmpOp, Op, Value};

use crate::ast::{BinaryOp, Expr};
use crate::lower::Lowering;
use crate::lower::expr::Operand;

/// Bits of the fraction, and the exponent's field of 1.0.
const FRACTION_BITS: i64 = 52;
const BIAS: i64 = 1023;
const INFINITY: i64 = 0x7ff << FRACTION_BITS;
/// The same of a float.
const FLOAT_FRACTION_BITS: i64 = 23;
const FLOAT_BIAS: i64 = 127;

impl Lowering<'_> {
    pub(super) fn double(&mut self, value: f64) -> Operand {
        Operand::one(self.blocks.value(Op::Int(value.to_bits() as i64), Type::Double), Type::Double)
    }

    /// The double of these bits, which are an integer's or a double's.
    pub(super) fn double_of_bits(&mut self, bits: Value) -> Operand {
        let none = self.number(0);
        Operand::one(self.blocks.value(Op::Bin(BinOp::Or, bits, none), Type::Double), Type::Double)
    }

    /// A side of a comparison: what is no double is the constant given, rounded to the nearest one.
    pub(super) fn double_of(&mut self, side: Operand, constant: Option<i128>) -> Operand {
        match constant {
            Some(value) if side.ty != Type::Double => self.double(value as f64),
            _ => side,
        }
    }

    /// 0 or 1. Doubles without their sign are ordered as integers are.
    pub(super) fn double_compare(&mut self, op: BinaryOp, left: &Operand, right: &Operand) -> Operand {
        let (cmp, combine) = match op {
            BinaryOp::Eq => (CmpOp::Eq, BinOp::And),
            BinaryOp::Ne => (CmpOp::Ne, BinOp::Or),
            BinaryOp::Lt => (CmpOp::SLt, BinOp::And),
            BinaryOp::Le => (CmpOp::SLe, BinOp::And),
            BinaryOp::Gt => (CmpOp::SGt, BinOp::And),
            BinaryOp::Ge => (CmpOp::SGe, BinOp::And),
            other => unreachable!("the check refuses {other:?} of doubles"),
        };
        let ((left_key, left_size), (right_key, right_size)) =
            (self.ordered(left.value()), self.ordered(right.value()));
        let mut result = self.raw(Op::Cmp(cmp, left_key, right_key));
        // Of a comparison with NaN only `!=` holds.
        let is_nan = if op == BinaryOp::Ne { CmpOp::UGt } else { CmpOp::ULe };
        for size in [left_size, right_size] {
            let holds = self.compared(is_nan, size, INFINITY);
            result = self.raw(Op::Bin(combine, result, holds));
        }
        Operand::one(result, Type::I64)
    }

    /// A number that is ordered as the double is, and the double's bits without the sign.
    fn ordered(&mut self, bits: Value) -> (Value, Value) {
        let size = self.with(BinOp::And, bits, i64::MAX);
        let sign = self.with(BinOp::AShr, bits, 63);
        (self.negated_by(size, sign), size)
    }

    /// The integer of a double, of 64 bits.
    pub(super) fn integer_of(&mut self, double: &Operand, signed: bool) -> Operand {
        let bits = double.value();
        let size = self.with(BinOp::And, bits, i64::MAX);
        let sign = self.with(BinOp::AShr, bits, 63);
        let exponent = self.with(BinOp::LShr, size, FRACTION_BITS);
        // The fraction with its hidden 1 as the highest bit, and how far that is above its place.
        let fraction = self.with(BinOp::Shl, bits, 63 - FRACTION_BITS);
        let fraction = self.with(BinOp::Or, fraction, i64::MIN);
        let highest = self.number(BIAS + 63);
        let above = self.raw(Op::Bin(BinOp::Sub, highest, exponent));
        let shifted = self.raw(Op::Bin(BinOp::LShr, fraction, above));
        let not_nan = self.compared(CmpOp::ULe, size, INFINITY);
        // One place less where a bit is the sign.
        let least = i64::from(signed);
        let below_one = self.compared(CmpOp::SLe, above, 63);
        let too_large = self.compared(CmpOp::SLt, above, least);
        let fits = self.compared(CmpOp::SGe, above, least);
        let fits = self.raw(Op::Bin(BinOp::And, fits, below_one));
        let too_large = self.raw(Op::Bin(BinOp::And, too_large, not_nan));
        let (fits, too_large) = (self.mask(fits), self.mask(too_large));
        let value = self.raw(Op::Bin(BinOp::And, shifted, fits));
        let ty = Type::Int { signed };
        let result = if signed {
            let value = self.negated_by(value, sign);
            // The largest, or the least: all of its bits are the others.
            let extreme = self.with(BinOp::Xor, sign, i64::MAX);
            let extreme = self.raw(Op::Bin(BinOp::And, extreme, too_large));
            self.blocks.value(Op::Bin(BinOp::Or, value, extreme), ty.clone())
        } else {
            let value = self.raw(Op::Bin(BinOp::Or, value, too_large));
            let positive = self.with(BinOp::Xor, sign, -1);
            self.blocks.value(Op::Bin(BinOp::And, value, positive), ty.clone())
        };
        Operand::one(result, ty)
    }

    /// The double of the float in the low 4 bytes.
    pub(super) fn float(&mut self, operand: &Expr) -> Operand {
        let bits = self.expr(operand).value();
        self.widened(bits)
    }

    /// The same of a value whose low 4 bytes they are.
    pub(super) fn widened(&mut self, bits: Value) -> Operand {
        let fraction = self.with(BinOp::And, bits, (1 << FLOAT_FRACTION_BITS) - 1);
        let exponent = self.with(BinOp::LShr, bits, FLOAT_FRACTION_BITS);
        let exponent = self.with(BinOp::And, exponent, 0xff);
        let sign = self.with(BinOp::LShr, bits, 31);
        let sign = self.with(BinOp::Shl, sign, 63);
        // Small ones have no hidden 1: their highest bit is moved to its place, and counts.
        let is_small = self.compared(CmpOp::Eq, exponent, 0);
        let is_small = self.mask(is_small);
        let (small, moved) = self.normalised(fraction);
        let small = self.with(BinOp::And, small, (1 << FLOAT_FRACTION_BITS) - 1);
        let lowest = self.number(BIAS - FLOAT_BIAS + 1);
        let small_exponent = self.raw(Op::Bin(BinOp::Sub, lowest, moved));
        // Infinities and NaN have the highest exponent in both.
        let is_special = self.compared(CmpOp::Eq, exponent, 0xff);
        let special = self.mask(is_special);
        let special = self.with(BinOp::And, special, 0x7ff - (0xff + BIAS - FLOAT_BIAS));
        let usual = self.with(BinOp::Add, exponent, BIAS - FLOAT_BIAS);
        let usual = self.raw(Op::Bin(BinOp::Add, usual, special));
        let exponent = self.chosen(is_small, small_exponent, usual);
        let chosen = self.chosen(is_small, small, fraction);
        let exponent = self.with(BinOp::Shl, exponent, FRACTION_BITS);
        let chosen = self.with(BinOp::Shl, chosen, FRACTION_BITS - FLOAT_FRACTION_BITS);
        let size = self.raw(Op::Bin(BinOp::Or, exponent, chosen));
        let without_sign = self.with(BinOp::And, bits, 0x7fff_ffff);
        let is_there = self.compared(CmpOp::Ne, without_sign, 0);
        let is_there = self.mask(is_there);
        let size = self.raw(Op::Bin(BinOp::And, size, is_there));
        let value = self.blocks.value(Op::Bin(BinOp::Or, size, sign), Type::Double);
        Operand::one(value, Type::Double)
    }

    /// The fraction of a small float moved up until bit 23 is set, and by how many bits.
    fn normalised(&mut self, mut fraction: Value) -> (Value, Value) {
        let mut moved = self.number(0);
        for step in [4, 3, 2, 1, 0] {
            let room = FLOAT_FRACTION_BITS + 1 - (1 << step);
            let has_room = self.compared(CmpOp::ULt, fraction, 1 << room);
            let by = self.with(BinOp::Shl, has_room, step);
            fraction = self.raw(Op::Bin(BinOp::Shl, fraction, by));
            moved = self.raw(Op::Bin(BinOp::Add, moved, by));
        }
        (fraction, moved)
    }

    /// −value where `sign` is −1, value where it is 0.
    fn negated_by(&mut self, value: Value, sign: Value) -> Value {
        let turned = self.raw(Op::Bin(BinOp::Xor, value, sign));
        self.raw(Op::Bin(BinOp::Sub, turned, sign))
    }

    /// The first where `mask` is −1, the second where it is 0.
    fn chosen(&mut self, mask: Value, first: Value, second: Value) -> Value {
        let differing = self.raw(Op::Bin(BinOp::Xor, first, second));
        let differing = self.raw(Op::Bin(BinOp::And, differing, mask));
        self.raw(Op::Bin(BinOp::Xor, second, differing))
    }

    /// −1 for 1, and 0 for 0.
    fn mask(&mut self, truth: Value) -> Value {
        let zero = self.number(0);
        self.raw(Op::Bin(BinOp::Sub, zero, truth))
    }

    fn compared(&mut self, op: CmpOp, value: Value, with: i64) -> Value {
        let with = self.number(with);
        self.raw(Op::Cmp(op, value, with))
    }

    fn with(&mut self, op: BinOp, value: Value, with: i64) -> Value {
        let with = self.number(with);
        self.raw(Op::Bin(op, value, with))
    }

    fn raw(&mut self, op: Op) -> Value {
        self.blocks.value(op, Type::I64)
    }
}
