//! `argN` of a static probe: the operations that fetch it from where its note says, with its width and sign.

use weir_event::Type;
use weir_ir::{FoundArgument, Op, Value, argument};

use crate::lower::Lowering;
use crate::lower::expr::Operand;
use crate::types;

impl Lowering<'_> {
    /// The argument as a 64-bit integer, or as a double.
    pub(super) fn static_argument(&mut self, argument: &FoundArgument) -> Operand {
        let blocks = &mut self.blocks;
        let value = argument::read(argument, &mut |op, ty| blocks.value(op, ty));
        if argument.is_float {
            return match argument.bytes {
                4 => self.widened(value),
                // The same bits as a double.
                _ => self.double_of_bits(value),
            };
        }
        Operand::one(value, Type::Int { signed: argument.signed })
    }

    /// The text of so many bytes at an address.
    pub(super) fn counted_text(&mut self, address: Operand, length: &FoundArgument) -> Operand {
        let limit = Some(self.static_argument(length).value());
        let ty = Type::Str { bytes: types::string_bytes(u64::from(self.checked.max_strlen) - 1) };
        Operand::one(self.blocks.value(Op::ReadStr { address: address.value(), limit }, ty.clone()), ty)
    }

    pub(super) fn number(&mut self, value: i64) -> Value {
        self.blocks.value(Op::Int(value), Type::I64)
    }
}
