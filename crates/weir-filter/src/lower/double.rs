//! Floating-point numbers, by whole-number arithmetic on their bits (IEEE 754 binary64): there is no floating point in a target.
//!
//! - A number's *key* is its magnitude's bits, negated where its sign is set: keys are ordered as the numbers are, and both zeros have
//!   one. A NaN is known by its magnitude, and no comparison with it holds but `!=`.
//! - A whole number becomes the nearest double, ties to even, as in C. In weir's dialect what was rounded off decides where the
//!   keys are equal, so that the comparison is that of the values.
//! - 4 bytes become 8 without a loss.
//! - Towards 0, to 64 bits, as LTTng has it where a number with a fraction is a side of `&&` or `||`: what does not fit, and a NaN, is
//!   the least integer, as cvttsd2si has it on x86-64.

use weir_ir::{BinOp, CmpOp, Value};

use crate::Dialect;
use crate::ast::{BinaryOp, NodeId, NodeKind, UnaryOp};
use crate::check::Kind;
use crate::lower::{Lowering, comparison};
use crate::number::{exact_order, to_double};

/// All bits but the sign.
const MAGNITUDE: i64 = i64::MAX;
const FRACTION_BITS: i64 = 52;
const FRACTION: i64 = (1 << FRACTION_BITS) - 1;
/// The exponent of 1.0.
const BIAS: i64 = 1023;

/// The key of a constant.
pub(super) fn key_of(value: f64) -> i64 {
    let magnitude = value.abs().to_bits() as i64;
    if value.is_sign_negative() { -magnitude } else { magnitude }
}

/// A side of a comparison.
struct Side {
    key: Value,
    /// 1 unless it is a NaN; none if it never is.
    is_number: Option<Value>,
    /// Of a whole number that was rounded: the sign of what the rounding took away.
    rest: Option<Value>,
}

impl Lowering<'_> {
    pub(super) fn is_double(&self, id: NodeId) -> bool {
        matches!(self.kind(id), Kind::Double { .. })
    }

    /// The bits of a floating-point node.
    pub(super) fn double(&mut self, id: NodeId) -> Value {
        match (&self.ast.node(id).kind, self.kind(id)) {
            (NodeKind::Float(value), _) => self.blocks.int(value.to_bits() as i64),
            (NodeKind::Unary(UnaryOp::Minus, operand), _) => {
                let operand = self.double(*operand);
                self.blocks.bin_int(BinOp::Xor, operand, i64::MIN)
            }
            (NodeKind::Unary(_, operand), _) => self.double(*operand),
            (_, Kind::Double { from: Some((place, bytes)) }) => {
                let bits = self.read(place);
                if bytes == 4 { self.widened(bits) } else { bits }
            }
            other => unreachable!("{other:?} is no floating-point number"),
        }
    }

    /// 1 or 0: a comparison in which at least one side is a floating-point number.
    pub(super) fn compare_doubles(&mut self, op: BinaryOp, left: NodeId, right: NodeId) -> Value {
        let (a, b) = (self.side(left), self.side(right));
        let mut result = self.blocks.cmp(comparison(op, true), a.key, b.key);
        if a.rest.is_some() || b.rest.is_some() {
            let zero = self.blocks.int(0);
            let rests = (a.rest.unwrap_or(zero), b.rest.unwrap_or(zero));
            let by_rest = self.blocks.cmp(comparison(op, true), rests.0, rests.1);
            let same = self.blocks.cmp(CmpOp::Eq, a.key, b.key);
            result = self.blocks.either(same, by_rest, result);
        }
        for is_number in [a.is_number, b.is_number].into_iter().flatten() {
            result = if op == BinaryOp::Ne {
                let is_nan = self.blocks.bin_int(BinOp::Xor, is_number, 1);
                self.blocks.bin(BinOp::Or, result, is_nan)
            } else {
                self.blocks.bin(BinOp::And, result, is_number)
            };
        }
        result
    }

    fn side(&mut self, id: NodeId) -> Side {
        if self.is_double(id) {
            let bits = self.double(id);
            let is_number = match self.ast.node(id).kind {
                NodeKind::Float(_) => None,
                _ => Some(self.is_number(bits)),
            };
            return Side { key: self.key(bits), is_number, rest: None };
        }
        let is_exact = self.checked.dialect == Dialect::Weir;
        if let NodeKind::Int(value) = self.ast.node(id).kind {
            let value = if self.is_signed(id) { i128::from(value as i64) } else { i128::from(value) };
            let near = to_double(value);
            let rest = exact_order(value, near).map_or(0, |order| order as i64);
            let key = self.blocks.int(key_of(near));
            let rest = (is_exact && rest != 0).then(|| self.blocks.int(rest));
            return Side { key, is_number: None, rest };
        }
        let value = self.value(id);
        let sign = match self.is_signed(id) {
            true => self.blocks.bin_int(BinOp::AShr, value, 63),
            false => self.blocks.int(0),
        };
        let magnitude = self.with_sign(value, sign);
        let (bits, rest) = self.of_magnitude(magnitude);
        let rest = is_exact.then(|| self.with_sign(rest, sign));
        Side { key: self.with_sign(bits, sign), is_number: None, rest }
    }

    /// The key of a double.
    pub(super) fn key(&mut self, bits: Value) -> Value {
        let magnitude = self.blocks.bin_int(BinOp::And, bits, MAGNITUDE);
        let sign = self.blocks.bin_int(BinOp::AShr, bits, 63);
        self.with_sign(magnitude, sign)
    }

    /// 1 unless a double is a NaN.
    pub(super) fn is_number(&mut self, bits: Value) -> Value {
        let magnitude = self.blocks.bin_int(BinOp::And, bits, MAGNITUDE);
        self.blocks.cmp_int(CmpOp::ULe, magnitude, f64::INFINITY.to_bits() as i64)
    }

    /// 1 unless a double is 0.
    pub(super) fn is_not_zero(&mut self, bits: Value) -> Value {
        let magnitude = self.blocks.bin_int(BinOp::And, bits, MAGNITUDE);
        self.blocks.cmp_int(CmpOp::Ne, magnitude, 0)
    }

    /// Negated where `sign` is -1; as it is where that is 0.
    fn with_sign(&mut self, value: Value, sign: Value) -> Value {
        let flipped = self.blocks.bin(BinOp::Xor, value, sign);
        self.blocks.bin(BinOp::Sub, flipped, sign)
    }

    /// The bits of the double nearest to an unsigned number, and the sign of what the rounding took away.
    fn of_magnitude(&mut self, value: Value) -> (Value, Value) {
        let (mut shifted, mut zeros) = (value, self.blocks.int(0));
        for log in (0..6).rev() {
            let bits = 1i64 << log;
            let has_room = self.blocks.cmp_int(CmpOp::ULt, shifted, (1u64 << (64 - bits)) as i64);
            let by = self.blocks.bin_int(BinOp::Shl, has_room, log);
            shifted = self.blocks.bin(BinOp::Shl, shifted, by);
            zeros = self.blocks.bin(BinOp::Add, zeros, by);
        }
        // The first bit stands at 63 now: 11 bits are too many.
        let fraction = self.blocks.bin_int(BinOp::LShr, shifted, 11);
        let dropped = self.blocks.bin_int(BinOp::And, shifted, 0x7ff);
        let is_more = self.blocks.cmp_int(CmpOp::UGt, dropped, 0x400);
        let is_half = self.blocks.cmp_int(CmpOp::Eq, dropped, 0x400);
        let is_odd = self.blocks.bin_int(BinOp::And, fraction, 1);
        let to_even = self.blocks.bin(BinOp::And, is_half, is_odd);
        let up = self.blocks.bin(BinOp::Or, is_more, to_even);
        // The fraction's first bit adds 1 to the exponent, and so does a carry.
        let most = self.blocks.int(BIAS + 63 - 1);
        let exponent = self.blocks.bin(BinOp::Sub, most, zeros);
        let exponent = self.blocks.bin_int(BinOp::Shl, exponent, FRACTION_BITS);
        let bits = self.blocks.bin(BinOp::Add, exponent, fraction);
        let bits = self.blocks.bin(BinOp::Add, bits, up);
        let is_zero = self.blocks.cmp_int(CmpOp::Eq, value, 0);
        let zero = self.blocks.int(0);
        let bits = self.blocks.either(is_zero, zero, bits);
        let is_rounded = self.blocks.cmp_int(CmpOp::Ne, dropped, 0);
        let twice = self.blocks.bin_int(BinOp::Shl, up, 1);
        (bits, self.blocks.bin(BinOp::Sub, is_rounded, twice))
    }

    /// The double of the floating-point number in the low 4 bytes.
    fn widened(&mut self, bits: Value) -> Value {
        let bits = self.blocks.bin_int(BinOp::And, bits, 0xffff_ffff);
        let sign = self.blocks.bin_int(BinOp::LShr, bits, 31);
        let sign = self.blocks.bin_int(BinOp::Shl, sign, 63);
        let exponent = self.blocks.bin_int(BinOp::LShr, bits, 23);
        let exponent = self.blocks.bin_int(BinOp::And, exponent, 0xff);
        let fraction = self.blocks.bin_int(BinOp::And, bits, 0x7f_ffff);
        let (normal, small) = self.blocks.branch(exponent);
        self.blocks.open(&[normal]);
        // What is infinite or a NaN has the greatest exponent of either format.
        let is_greatest = self.blocks.cmp_int(CmpOp::Eq, exponent, 0xff);
        let more = self.blocks.bin_int(BinOp::Mul, is_greatest, BIAS - 127);
        let wide = self.blocks.bin_int(BinOp::Add, exponent, BIAS - 127);
        let wide = self.blocks.bin(BinOp::Add, wide, more);
        let wide = self.blocks.bin_int(BinOp::Shl, wide, FRACTION_BITS);
        let wide_fraction = self.blocks.bin_int(BinOp::Shl, fraction, FRACTION_BITS - 23);
        let large = self.blocks.bin(BinOp::Or, wide, wide_fraction);
        let from_large = self.blocks.jump();
        // 0, or a fraction of 2^-149.
        self.blocks.open(&[small]);
        let (whole, _) = self.of_magnitude(fraction);
        let is_not_zero = self.blocks.cmp_int(CmpOp::Ne, fraction, 0);
        let scale = self.blocks.bin_int(BinOp::Mul, is_not_zero, 149 << FRACTION_BITS);
        let small = self.blocks.bin(BinOp::Sub, whole, scale);
        let from_small = self.blocks.jump();
        let magnitude = self.blocks.meet(&[(from_large, large), (from_small, small)]);
        self.blocks.bin(BinOp::Or, magnitude, sign)
    }

    /// The whole number towards 0.
    pub(super) fn truncated(&mut self, bits: Value) -> Value {
        let sign = self.blocks.bin_int(BinOp::AShr, bits, 63);
        let magnitude = self.blocks.bin_int(BinOp::And, bits, MAGNITUDE);
        let exponent = self.blocks.bin_int(BinOp::LShr, magnitude, FRACTION_BITS);
        let fraction = self.blocks.bin_int(BinOp::And, magnitude, FRACTION);
        let fraction = self.blocks.bin_int(BinOp::Or, fraction, 1 << FRACTION_BITS);
        // Shifts count modulo 64; the one that would be by less than 0 is not chosen.
        let left = self.blocks.bin_int(BinOp::Sub, exponent, BIAS + FRACTION_BITS);
        let zero = self.blocks.int(0);
        let right = self.blocks.bin(BinOp::Sub, zero, left);
        let large = self.blocks.bin(BinOp::Shl, fraction, left);
        let small = self.blocks.bin(BinOp::LShr, fraction, right);
        let is_large = self.blocks.cmp_int(CmpOp::UGe, exponent, BIAS + FRACTION_BITS);
        let whole = self.blocks.either(is_large, large, small);
        let is_fraction = self.blocks.cmp_int(CmpOp::ULt, exponent, BIAS);
        let whole = self.blocks.either(is_fraction, zero, whole);
        let whole = self.with_sign(whole, sign);
        let is_beyond = self.blocks.cmp_int(CmpOp::UGe, exponent, BIAS + 63);
        let least = self.blocks.int(i64::MIN);
        self.blocks.either(is_beyond, least, whole)
    }
}
