//! `argN` of a static probe: the operations that fetch it from where its note says, with its width and sign.

use weir_event::Type;
use weir_ir::{FoundArgument, Op, Value, argument};

use crate::lower::Lowering;
use crate::lower::expr::Operand;

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

    pub(super) fn number(&mut self, value: i64) -> Value {
        self.blocks.value(Op::Int(value), Type::I64)
    }
}
