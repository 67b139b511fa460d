//! `argN` of a static probe: the operations that fetch it from where its note says, with its width and sign.

use weir_event::Type;
use weir_ir::{ArgumentPlace, BinOp, Builtin, FoundArgument, Op, Value};

use crate::lower::Lowering;
use crate::lower::expr::Operand;

/// ip among the registers.
const IP: u8 = 16;

impl Lowering<'_> {
    /// The argument as a 64-bit integer, or as a double.
    pub(super) fn static_argument(&mut self, argument: &FoundArgument) -> Operand {
        let ty = Type::Int { signed: argument.signed };
        let width = 8 * u32::from(argument.bytes);
        // SANITY: the check refuses an argument that cannot be read.
        let place = argument.place.clone().expect("a checked argument can be read");
        let (value, bits) = match place {
            ArgumentPlace::Constant(value) => (self.number(value), width),
            ArgumentPlace::Register { number, shift, bits } => {
                let whole = self.number_of(Op::Builtin(Builtin::Register(number)));
                let part = match shift {
                    0 => whole,
                    shift => self.shifted(BinOp::LShr, whole, shift.into()),
                };
                (part, width.min(bits.into()))
            }
            ArgumentPlace::Vector(number) => {
                (self.blocks.value(Op::Builtin(Builtin::Float(number)), Type::Double), width)
            }
            ArgumentPlace::Memory { base, index, displacement, relative } => {
                let base = base.map(|number| self.number_of(Op::Builtin(Builtin::Register(number))));
                let index = index.map(|(number, scale)| {
                    let index = self.number_of(Op::Builtin(Builtin::Register(number)));
                    self.shifted(BinOp::Shl, index, scale.trailing_zeros().into())
                });
                let own = relative.then(|| self.number_of(Op::Builtin(Builtin::Register(IP))));
                let rest = self.number(displacement);
                let address = [base, index, own]
                    .into_iter()
                    .flatten()
                    .fold(rest, |sum, part| self.number_of(Op::Bin(BinOp::Add, part, sum)));
                (self.number_of(Op::ReadInt { address, bytes: argument.bytes }), width)
            }
        };
        if argument.is_float {
            return match argument.bytes {
                4 => self.widened(value),
                // The same bits as a double.
                _ => self.double_of_bits(value),
            };
        }
        let extended = match bits {
            64 => value,
            bits => {
                let high = self.shifted(BinOp::Shl, value, (64 - bits).into());
                let back = if argument.signed { BinOp::AShr } else { BinOp::LShr };
                self.shifted(back, high, (64 - bits).into())
            }
        };
        Operand::one(extended, ty)
    }

    pub(super) fn number(&mut self, value: i64) -> Value {
        self.number_of(Op::Int(value))
    }

    fn number_of(&mut self, op: Op) -> Value {
        self.blocks.value(op, Type::I64)
    }

    fn shifted(&mut self, op: BinOp, value: Value, bits: i64) -> Value {
        let count = self.number(bits);
        self.number_of(Op::Bin(op, value, count))
    }
}
