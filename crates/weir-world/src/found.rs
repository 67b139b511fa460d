//! What files say of probes, in the compiler's words.

use weir_event::schema;
use weir_ir::limits;
use weir_ir::{ArgumentPlace, FoundArgument, FoundField, FoundPrototype, FoundStatic, StaticKind, Step};
use weir_probe::window::ROW_REGISTER;
use weir_symbols::prototypes::{Counted, Kind, Parameter, Passed, Prototype};
use weir_symbols::usdt::{Argument, Displacement, Memory, Operand};
use weir_symbols::{Binary, StaticProbe};

use crate::shown;

/// rsp among the registers.
const STACK_POINTER: u8 = 4;

pub(crate) fn found_static(path: &str, binary: &Binary, probe: &StaticProbe) -> FoundStatic {
    FoundStatic {
        kind: StaticKind::Usdt,
        binary: path.to_owned(),
        provider: probe.provider.clone(),
        name: probe.name.clone(),
        function: binary.function_at(probe.address).map_or_else(String::new, |f| shown(&f.name)),
        address: probe.address.0,
        semaphore: probe.semaphore.map(|address| address.0),
        arguments: probe.arguments.iter().map(|argument| found_argument(probe, argument)).collect(),
        fields: fields_of(probe),
    }
}

fn found_argument(probe: &StaticProbe, argument: &Argument) -> FoundArgument {
    let place = match &argument.operand {
        Ok(Operand::Constant(value)) => Ok(ArgumentPlace::Constant(*value)),
        Ok(Operand::Register(register)) => Ok(ArgumentPlace::Register {
            number: register.number,
            shift: register.shift,
            bits: register.bits,
        }),
        Ok(Operand::Vector(number)) => Ok(ArgumentPlace::Vector(*number)),
        Ok(Operand::Memory(memory)) => {
            let (displacement, relative) = match memory.displacement {
                Displacement::Bytes(bytes) => (bytes, false),
                // The file moves as a whole: what is so far from the probe now is as far from it in the process.
                Displacement::Linked(at) => (at.0.wrapping_sub(probe.address.0) as i64, true),
            };
            match (&probe.schema, row_slot(memory)) {
                // What a tracepoint's own note says is there.
                (Some(_), Some(slot)) => Ok(ArgumentPlace::Slot(slot)),
                _ => Ok(ArgumentPlace::Memory {
                    base: memory.base,
                    index: memory.index,
                    displacement,
                    relative,
                }),
            }
        }
        Err(reason) => Err(reason.to_string()),
    };
    let Argument { text, bytes, signed, is_float, .. } = argument;
    FoundArgument {
        text: text.clone(),
        bytes: *bytes,
        signed: *signed,
        is_float: *is_float,
        place,
        steps: Vec::new(),
    }
}

/// The slot that a word of the row is whose address is in its register.
fn row_slot(memory: &Memory) -> Option<u8> {
    let Memory { base: Some(ROW_REGISTER), index: None, displacement: Displacement::Bytes(at) } = *memory
    else {
        return None;
    };
    let word =
        u8::try_from(at / 8).ok().filter(|word| at % 8 == 0 && at >= 0 && *word < limits::ROW_WORDS_MAX)?;
    Some(limits::ROW_WORDS + word)
}

/// What the probe's own notes say of its arguments. A field takes one, a sequence two.
fn fields_of(probe: &StaticProbe) -> Vec<FoundField> {
    let argument = |slot: usize| Some(found_argument(probe, probe.arguments.get(slot)?));
    let field = |field: &schema::Field| {
        let slot = usize::from(field.slot);
        let count = match field.ty {
            schema::Type::Sequence { .. } => Some(argument(slot + 1)?),
            _ => None,
        };
        let (name, ty, form) = (field.name.clone(), field.ty.clone(), field.form);
        let (argument, is_hidden) = (argument(slot)?, false);
        Some(FoundField { name, ty, may_be_text: false, argument, count, form, is_hidden })
    };
    probe.schema.iter().flat_map(|schema| &schema.fields).filter_map(field).collect()
}

/// Parameters without a name cannot be asked for by one.
pub(crate) fn found_prototype(prototype: &Prototype) -> FoundPrototype {
    let named = |parameter: &Parameter| {
        let place = parameter.place.map_err(String::from);
        let mut found = field(parameter.name.clone()?, &parameter.kind, place);
        let length = parameter.length.map(|passed| argument(String::new(), (8, false, false), Ok(passed)));
        found.count = length.or(found.count);
        Some(found)
    };
    let result = prototype.result.as_ref().map(|kind| {
        let place = if let Kind::Float { .. } = kind { Passed::Vector(0) } else { Passed::Register(0) };
        match kind {
            Kind::Counted(_) => field("retval".to_owned(), &Kind::Other("a string of Rust"), Ok(place)),
            kind => field("retval".to_owned(), kind, Ok(place)),
        }
    });
    FoundPrototype { parameters: prototype.parameters.iter().filter_map(named).collect(), result }
}

fn field(name: String, kind: &Kind, place: Result<Passed, String>) -> FoundField {
    let address = schema::Type::Int { bytes: 8, signed: false };
    let mut steps = (Vec::new(), None);
    let (ty, place) = match kind {
        Kind::Int { bytes, signed } => (schema::Type::Int { bytes: *bytes, signed: *signed }, place),
        Kind::Enum { bytes, signed, labels } => {
            let labels = labels.iter().map(|(label, value)| (label.clone(), *value, *value)).collect();
            (schema::Type::Enum { bytes: *bytes, signed: *signed, labels }, place)
        }
        Kind::Float { bytes } => (schema::Type::Float { bytes: *bytes }, place),
        Kind::Text => (schema::Type::Str, place),
        Kind::Counted(counted) => {
            if let Counted::Record { data, length } = *counted {
                let read = |within: u32| vec![Step::Plus(within.into()), Step::Read(8)];
                steps = (read(data), Some(read(length)));
            }
            (schema::Type::Str, place)
        }
        Kind::Untyped | Kind::Pointer => (address, place),
        Kind::Other(what) => (address, Err(place.err().unwrap_or_else(|| format!("it is {what}")))),
    };
    let (bytes, signed, is_float) = match ty {
        schema::Type::Float { bytes } => (bytes, true, true),
        _ => ty.integer().map_or((8, false, false), |(bytes, signed)| (bytes, signed, false)),
    };
    let whole = argument(name.clone(), (bytes, signed, is_float), place);
    let with = |steps: Vec<Step>| FoundArgument { steps, ..whole.clone() };
    let (data, length) = steps;
    let (argument, count) = (with(data), length.map(with));
    FoundField {
        name,
        ty,
        may_be_text: *kind == Kind::Untyped,
        argument,
        count,
        form: schema::Form::default(),
        is_hidden: false,
    }
}

fn argument(
    text: String,
    (bytes, signed, is_float): (u8, bool, bool),
    place: Result<Passed, String>,
) -> FoundArgument {
    let place = place.map(|passed| match passed {
        Passed::Register(number) => ArgumentPlace::Register { number, shift: 0, bits: 8 * bytes },
        Passed::Vector(number) => ArgumentPlace::Vector(number),
        Passed::Stack(above) => ArgumentPlace::Memory {
            base: Some(STACK_POINTER),
            index: None,
            displacement: above.into(),
            relative: false,
        },
    });
    FoundArgument { text, bytes, signed, is_float, place, steps: Vec::new() }
}
