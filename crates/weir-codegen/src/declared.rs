//! What the traced program declares of a probe's context: memory of the events that a function records, and texts that it asks of.
//!
//! A field's type says whether the program vouches for its memory: a text, an array, a sequence or a structure of an event are of a
//! tracepoint's note, and a string is not. Where its address (and a sequence's count) is a whole register at the probe, or a word that
//! the place hands over, that slot of the context leads to it. Of anything else nothing is declared, and the memory is read safely.

use weir_ebpf::kfunc::{self, DECLARED_MAX, Declared, row_word};
use weir_ebpf::pt_regs;
use weir_event::recorded;
use weir_event::schema::{Field, Type};
use weir_ir::isa::native::REGISTER_SLOTS;
use weir_ir::limits;
use weir_ir::{Builtin, EventId, Function, Module, Op, Value};

/// All of it.
pub(crate) fn of_function(module: &Module, function: &Function) -> Vec<Declared> {
    let ops = function.ops();
    let declared = ops.flat_map(|op| match op {
        Op::Record { event, args, .. } => {
            of_record(module, function, *event, args).into_iter().flatten().collect()
        }
        Op::TextBegins { slot, .. } => vec![Declared::Text { slot: *slot }],
        Op::Builtin(Builtin::Slot(slot)) if row_word(*slot).is_some() => vec![Declared::Word { slot: *slot }],
        _ => Vec::new(),
    });
    declared.collect()
}

/// By field of the event: what is declared of it.
pub(crate) fn of_record(
    module: &Module,
    function: &Function,
    event: EventId,
    args: &[Value],
) -> Vec<Option<Declared>> {
    let mut left = DECLARED_MAX;
    let fields = module.schema.events[event.0 as usize].fields.iter();
    let declared = fields.map(|field| {
        let declared = of_field(function, field, args)?;
        if !matches!(declared, Declared::Text { .. }) {
            left = left.checked_sub(1)?;
        }
        Some(declared)
    });
    declared.collect()
}

fn of_field(function: &Function, field: &Field, args: &[Value]) -> Option<Declared> {
    let slot = |arg: u8| slot_of(function, args[usize::from(arg)]);
    let bytes = |bytes: u32| {
        let slot = slot(field.slot)?;
        (bytes > 0).then_some(Declared::Bytes { slot, bytes })
    };
    match &field.ty {
        Type::Text => Some(Declared::Text { slot: slot(field.slot)? }),
        Type::Array { .. } => bytes(recorded::bytes(&field.ty).1),
        Type::Struct { fields } => bytes(recorded::span(fields)),
        Type::Sequence { element } => {
            let element = recorded::bytes(element).1;
            match constant(function, args[usize::from(field.slot) + 1]) {
                Some(count) => {
                    let all = u32::try_from(count).ok()?.checked_mul(element)?;
                    bytes(all).filter(|_| all <= recorded::SEQUENCE_BYTES_MAX)
                }
                None => Some(Declared::Elements {
                    slot: slot(field.slot)?,
                    count_slot: slot(field.slot + 1)?,
                    shift: element.trailing_zeros() as u8,
                }),
            }
        }
        Type::Int { .. } | Type::Float { .. } | Type::Enum { .. } | Type::Str | Type::Stack { .. } => None,
    }
}

/// The slot of the context that holds the value: that of a register, or a word, all of it.
fn slot_of(function: &Function, value: Value) -> Option<u8> {
    match defined(function, value)? {
        Op::Builtin(Builtin::Register(number)) => Some(REGISTER_SLOTS[usize::from(*number)]),
        Op::Builtin(Builtin::Slot(slot)) => {
            Some(*slot).filter(|slot| u32::from(*slot) < pt_regs::SLOTS || row_word(*slot).is_some())
        }
        _ => None,
    }
}

const _: () = assert!(kfunc::ROW_WORDS == limits::ROW_WORDS && kfunc::ROW_WORDS_MAX == limits::ROW_WORDS_MAX);
const _: () = {
    let mut number = 0;
    while number < REGISTER_SLOTS.len() {
        assert!(pt_regs::REGISTERS[number] == 8 * REGISTER_SLOTS[number] as u32, "one order of registers");
        number += 1;
    }
};

fn constant(function: &Function, value: Value) -> Option<i64> {
    if let Op::Int(value) = defined(function, value)? { Some(*value) } else { None }
}

/// What computes the value; none of a block's parameter.
fn defined(function: &Function, value: Value) -> Option<&Op> {
    let mut insts = function.blocks.iter().flat_map(|block| &block.insts);
    insts.find(|inst| inst.result == Some(value)).map(|inst| &inst.op)
}
