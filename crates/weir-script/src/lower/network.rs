//! Addresses of networks, and the order of bytes.

use weir_event::ctype::{CType, TypeId};
use weir_event::{Type, Word};
use weir_ir::{BinOp, Op, Value};

use crate::ast::Expr;
use crate::check::constant_string;
use crate::lower::Lowering;
use crate::lower::expr::Operand;
use crate::lower::memory::Place;
use crate::types;

/// Linux's numbers of the families.
const AF_INET: i64 = 2;
const AF_INET6: i64 = 10;

impl Lowering<'_> {
    /// The address's family, and its bytes in network order, whatever it is written as.
    pub(super) fn ntop(&mut self, args: &[Expr]) -> Operand {
        let (family, address) = args.split_at(args.len() - 1);
        let family = family.first().map(|family| self.expr(family).value());
        let (words, own) = match self.bytes_or_number(&address[0]) {
            Ok((place, 16)) => {
                ([0, 8].map(|offset| self.integer_at(place.plus(offset), 8, Type::U64)), AF_INET6)
            }
            Ok((place, _)) => ([self.integer_at(place, 4, Type::U64), self.number(0)], AF_INET),
            Err(number) => ([self.without_sign(&number, 32).value(), self.number(0)], AF_INET),
        };
        let family = family.unwrap_or_else(|| self.number(own));
        let parts = [family, words[0], words[1]].map(|word| (word, 8)).to_vec();
        Operand::one(self.blocks.value(Op::Join(parts), types::object(24)), Type::Inet)
    }

    /// The address's bytes, which are known.
    pub(super) fn pton(&mut self, call: &Expr, text: &Expr) -> Operand {
        // SANITY: the check wants an address.
        let text = constant_string(text, &self.checked.known).expect("a checked literal");
        let mut bytes = types::address_bytes(text).expect("a checked address");
        let ty = self.checked.type_ids[&call.span.start];
        bytes.resize(bytes.len().next_multiple_of(8), 0);
        let words = bytes.chunks_exact(8).map(|word| i64::from_le_bytes(word.try_into().unwrap_or_default()));
        let words: Vec<(Value, u32)> = words.map(|word| (self.number(word), 8)).collect();
        let ty = Type::Object { ty, bytes: bytes.len() as u32 };
        Operand::one(self.blocks.value(Op::Join(words), ty.clone()), ty)
    }

    pub(super) fn macaddr(&mut self, bytes: &Expr) -> Operand {
        let Ok((place, _)) = self.bytes_or_number(bytes) else { unreachable!("the check wants bytes") };
        let low = self.integer_at(place, 4, Type::U64);
        let high = self.integer_at(place.plus(4), 2, Type::U64);
        let high = self.with_number(BinOp::Shl, high, 32);
        let value = self.blocks.value(Op::Bin(BinOp::Or, low, high), Type::U64);
        Operand::one(value, Type::Word(Word::Mac))
    }

    /// All of an array or a record, and its size; or a number.
    fn bytes_or_number(&mut self, expr: &Expr) -> Result<(Place, u32), Operand> {
        if self.is_place(expr) {
            let place = self.place(expr);
            return match self.sized(place.ty) {
                Some(bytes) => Ok((place, bytes)),
                None => Err(self.load(place)),
            };
        }
        let operand = self.expr(expr);
        match operand.ty {
            Type::Object { ty, .. } => {
                let place = Place::held(operand.value(), ty);
                Ok((place, self.sized(ty).unwrap_or_default()))
            }
            _ => Err(operand),
        }
    }

    /// Bytes of an array or a record.
    pub(super) fn sized(&self, ty: TypeId) -> Option<u32> {
        match self.checked.types.get(ty) {
            CType::Array { .. } | CType::Record(_) => self.checked.types.bytes(ty),
            _ => None,
        }
    }

    /// An integer of so many bits with its bytes in the other order.
    pub(super) fn swapped(&mut self, operand: &Operand, bits: u32) -> Operand {
        let mut value = match bits {
            64 => operand.value(),
            _ => self.without_sign(operand, bits).value(),
        };
        // Bytes within pairs, pairs within fours, fours within all.
        let halves = [(8, 0x00ff_00ff_00ff_00ffu64), (16, 0x0000_ffff_0000_ffff), (32, 0xffff_ffff)];
        for (shift, mask) in halves.into_iter().filter(|(shift, _)| 2 * shift <= bits) {
            let low = self.with_number(BinOp::And, value, mask as i64);
            let up = self.with_number(BinOp::Shl, low, shift.into());
            let high = self.with_number(BinOp::LShr, value, shift.into());
            let down = self.with_number(BinOp::And, high, mask as i64);
            value = self.blocks.value(Op::Bin(BinOp::Or, up, down), Type::U64);
        }
        Operand::one(value, Type::U64)
    }

    fn with_number(&mut self, op: BinOp, value: Value, constant: i64) -> Value {
        let constant = self.number(constant);
        self.blocks.value(Op::Bin(op, value, constant), Type::U64)
    }
}
