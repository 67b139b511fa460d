//! Buffers: a length, and as many bytes of memory or of what the script holds, zeros behind.

use weir_event::Type;
use weir_ir::{BinOp, CmpOp, Op, Value};

use crate::ast::Expr;
use crate::check::constant;
use crate::lower::Lowering;
use crate::lower::expr::Operand;
use crate::types;

/// What the bytes are taken of.
enum Source {
    /// An address; and how many bytes there are, of an array or a record.
    Memory(Value, u32),
    /// An object of so many bytes.
    Held(Value, u32),
    /// A string with room for so many.
    Text(Value, u32),
}

impl Lowering<'_> {
    pub(super) fn buf(&mut self, args: &[Expr]) -> Operand {
        let source = self.buffer_source(&args[0]);
        let most = self.checked.max_strlen;
        let known = args.get(1).map(|length| constant(length, &self.checked.known));
        let asked = known.flatten().map(|length| (length as u64).min(most.into()) as u32);
        match (source, known) {
            (Source::Memory(address, _), Some(None)) => {
                let length = self.expr(&args[1]).value();
                let length = self.at_most(length, most);
                self.buffer_at(address, most, Some(length))
            }
            (Source::Memory(address, own), _) => {
                self.buffer_at(address, asked.unwrap_or(own.min(most)), None)
            }
            (Source::Held(of, own), _) => {
                let bytes = asked.unwrap_or(own.min(most));
                let length = self.number(bytes.into());
                self.buffer_of(of, bytes, length)
            }
            (Source::Text(text, room), None) => {
                let length = self.blocks.value(Op::StrLen(text), Type::U64);
                let all =
                    self.blocks.value(Op::Join(vec![(length, 8), (text, room)]), types::object(8 + room));
                Operand::one(all, types::buffer(room))
            }
            (Source::Text(text, room), _) => {
                let bytes = asked.unwrap_or(0);
                let place = room.max(bytes.next_multiple_of(8));
                let of = self.blocks.value(Op::Join(vec![(text, place)]), types::object(place));
                let length = self.number(bytes.into());
                self.buffer_of(of, bytes, length)
            }
        }
    }

    /// So many bytes of memory, or `limit` of them.
    fn buffer_at(&mut self, address: Value, bytes: u32, limit: Option<Value>) -> Operand {
        let ty = types::buffer(bytes);
        if bytes == 0 {
            return Operand::one(self.zero(ty.clone()), ty);
        }
        let read = types::object(ty.bytes() - 8);
        let data = self.blocks.value(Op::ReadBytes { address, bytes, limit }, read);
        let length = limit.unwrap_or_else(|| self.number(bytes.into()));
        self.joined(length, data, ty)
    }

    /// The first bytes of an object.
    fn buffer_of(&mut self, of: Value, bytes: u32, length: Value) -> Operand {
        let ty = types::buffer(bytes);
        if bytes == 0 {
            return Operand::one(self.zero(ty.clone()), ty);
        }
        let data = self.blocks.value(Op::Part { of, offset: 0, bytes }, types::object(ty.bytes() - 8));
        self.joined(length, data, ty)
    }

    fn joined(&mut self, length: Value, data: Value, ty: Type) -> Operand {
        let parts = vec![(length, 8), (data, ty.bytes() - 8)];
        Operand::one(self.blocks.value(Op::Join(parts), types::object(ty.bytes())), ty)
    }

    /// The lesser of an integer, taken without a sign, and a constant.
    fn at_most(&mut self, value: Value, most: u32) -> Value {
        let (zero, limit) = (self.number(0), self.number(most.into()));
        let bin = |this: &mut Self, op, a, b| this.blocks.value(Op::Bin(op, a, b), Type::U64);
        let is_less = self.blocks.value(Op::Cmp(CmpOp::ULt, value, limit), Type::U64);
        let mask = bin(self, BinOp::Sub, zero, is_less);
        let difference = bin(self, BinOp::Xor, value, limit);
        let kept = bin(self, BinOp::And, difference, mask);
        bin(self, BinOp::Xor, kept, limit)
    }

    fn buffer_source(&mut self, expr: &Expr) -> Source {
        if self.is_place(expr) {
            let place = self.place(expr);
            return match self.sized(place.ty) {
                Some(own) if !place.is_held() => Source::Memory(self.address_of(place), own),
                Some(own) => Source::Held(self.object(place).value(), own),
                None => Source::Memory(self.load(place).value(), 0),
            };
        }
        let operand = self.expr(expr);
        match operand.ty {
            Type::Str { .. } => {
                let room = self.blocks.ty(operand.value()).bytes();
                Source::Text(operand.value(), room)
            }
            Type::Object { ty, .. } => Source::Held(operand.value(), self.sized(ty).unwrap_or_default()),
            _ => Source::Memory(operand.value(), 0),
        }
    }
}
