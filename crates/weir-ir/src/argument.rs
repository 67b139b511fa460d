//! How an argument is fetched from where it is at a probe: the operations, with its width and sign.

use weir_event::Type;

use crate::{ArgumentPlace, BinOp, Builtin, FoundArgument, Op, Step, Value};

/// ip among the registers.
const IP: u8 = 16;

/// Where operations go: it appends one, with a result of this type.
pub type Append<'a> = &'a mut dyn FnMut(Op, Type) -> Value;

/// The argument: an integer extended to 64 bits as its sign says, a floating-point number as its bits (a `Double` if it is in
/// a vector register), those of 4 bytes in the low half.
///
/// Panics if it cannot be read: whoever asks has looked.
pub fn read(argument: &FoundArgument, append: Append<'_>) -> Value {
    // SANITY: checks refuse an argument that cannot be read.
    let place = argument.place.clone().expect("a checked argument can be read");
    let (value, bits) = match argument.steps[..] {
        [] => fetch(place, argument.bytes, append),
        _ => {
            let first = fetch(place, 8, append).0;
            argument.steps.iter().fold((first, 64), |(value, _), step| stepped(value, *step, append))
        }
    };
    if argument.is_float || bits == 64 {
        return value;
    }
    let high = shifted(BinOp::Shl, value, (64 - bits).into(), append);
    let back = if argument.signed { BinOp::AShr } else { BinOp::LShr };
    shifted(back, high, (64 - bits).into(), append)
}

/// What a place holds, and how many low bits of that count.
fn fetch(place: ArgumentPlace, bytes: u8, append: Append<'_>) -> (Value, u32) {
    let width = 8 * u32::from(bytes);
    match place {
        ArgumentPlace::Constant(value) => (append(Op::Int(value), Type::I64), width),
        ArgumentPlace::Register { number, shift, bits } => {
            let whole = register(number, append);
            let part = match shift {
                0 => whole,
                shift => shifted(BinOp::LShr, whole, shift.into(), append),
            };
            (part, width.min(bits.into()))
        }
        ArgumentPlace::Vector(number) => (append(Op::Builtin(Builtin::Float(number)), Type::Double), width),
        ArgumentPlace::Slot(slot) => (append(Op::Builtin(Builtin::Slot(slot)), Type::I64), width),
        ArgumentPlace::Memory { base, index, displacement, relative } => {
            let base = base.map(|number| register(number, append));
            let index = index.map(|(number, scale)| {
                let index = register(number, append);
                shifted(BinOp::Shl, index, scale.trailing_zeros().into(), append)
            });
            let own = relative.then(|| register(IP, append));
            let rest = append(Op::Int(displacement), Type::I64);
            let address = [base, index, own]
                .into_iter()
                .flatten()
                .fold(rest, |sum, part| append(Op::Bin(BinOp::Add, part, sum), Type::I64));
            (append(Op::ReadInt { address, bytes }, Type::I64), width)
        }
    }
}

fn stepped(value: Value, step: Step, append: Append<'_>) -> (Value, u32) {
    match step {
        Step::Plus(bytes) => {
            let bytes = append(Op::Int(bytes), Type::I64);
            (append(Op::Bin(BinOp::Add, value, bytes), Type::I64), 64)
        }
        Step::Read(bytes) => (append(Op::ReadInt { address: value, bytes }, Type::I64), 8 * u32::from(bytes)),
    }
}

fn register(number: u8, append: Append<'_>) -> Value {
    append(Op::Builtin(Builtin::Register(number)), Type::I64)
}

fn shifted(op: BinOp, value: Value, bits: i64, append: Append<'_>) -> Value {
    let count = append(Op::Int(bits), Type::I64);
    append(Op::Bin(op, value, count), Type::I64)
}
