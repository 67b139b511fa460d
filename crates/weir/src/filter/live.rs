//! `weir filter --event`: a filter by hand on an event of a live program, whose fields and types its file says.
//!
//! A static probe may have several places, and a pattern several events. `check` is about all of them. `eval` takes values
//! for the fields that the filter names, and is an answer only if it is the same at all places. `explain` shows the stages for
//! each way in which the fields are read, as they run there: what a slot was is a register, or a read of memory.

use std::process::ExitCode;

use anyhow::anyhow;
use weir_event::schema::{Field, Type};
use weir_ir::isa::native::{REGISTERS, vector};
use weir_ir::{ArgumentPlace, FoundArgument, Module};
use weir_run::event::Event;
use weir_run::event::text::{Offer, Text, Told};
use weir_verifier::Limits;

use crate::args::filter::{Engine, FilterCommand, Given};
use crate::failure::Failure;
use crate::filter;
use crate::filter::event::Event as Values;
use crate::print::print;

/// Does what the command says with the event that `attach_point` names.
pub(super) fn filter(
    command: &FilterCommand,
    given: &Given,
    attach_point: &str,
) -> Result<ExitCode, Failure> {
    let text = Text::parse(&given.text, given.dialect)?;
    if given.fields != NO_FIELDS && !matches!(command, FilterCommand::Eval { .. }) {
        return Err(refused("--fields are values for `eval`; what the event has its file says"));
    }
    let events = weir_run::events(attach_point)?;
    let ways = check(&text, &events)?;
    match command {
        FilterCommand::Check(_) => Ok(ExitCode::SUCCESS),
        FilterCommand::Eval { engine, .. } => eval(&text, &events, &given.fields, *engine),
        FilterCommand::Explain(_) => explain(&text, &ways),
    }
}

/// What `--fields` is where it was not given.
const NO_FIELDS: &str = "{}";

/// The filter, in each way in which it is at some of the events; the first of these is given.
fn check<'a>(text: &Text, events: &'a [Event]) -> Result<Vec<(&'a Event, Module)>, Failure> {
    let (mut faults, mut warnings) = (Told::default(), Told::default());
    let mut ways: Vec<(&Event, Module)> = Vec::new();
    for event in events {
        match text.at(event) {
            Ok((module, new)) => {
                warnings.add(new, event);
                if !ways.iter().any(|(_, known)| *known == module) {
                    ways.push((event, module));
                }
            }
            Err(new) => faults.add(new, event),
        }
    }
    if !faults.diagnostics.is_empty() {
        return Err(Failure::Text(text.source.clone(), faults.diagnostics));
    }
    filter::warn(&text.source, &warnings.diagnostics);
    Ok(ways)
}

fn eval(text: &Text, events: &[Event], fields: &str, engine: Engine) -> Result<ExitCode, Failure> {
    let mut answer: Option<(bool, &Event)> = None;
    for event in events {
        let sound = |faults| Failure::Text(text.source.clone(), faults);
        let offer = text.offer(event).map_err(sound)?;
        let (module, _) = text.compile(&offer).map_err(sound)?;
        let values = values(fields, &offer)?;
        let kept = filter::eval(&filter::object(&module)?, &values, engine)?;
        match answer {
            Some((other, first)) if other != kept => {
                return Err(refused(&format!(
                    "the filter is {other} at {} and {kept} at another place of the event ({}), which has other types",
                    first.name, event.name
                )));
            }
            _ => answer = answer.or(Some((kept, event))),
        }
    }
    // SANITY: there is an event, or finding them was an error.
    print(&format!("{}\n", answer.expect("an event").0))
}

/// The values given, in the slots of the fields that have their names.
fn values(fields: &str, offer: &Offer) -> Result<Values, Failure> {
    let given = Values::of(fields)?;
    let mut slots = Vec::new();
    for field in &offer.schema.fields[..offer.used] {
        let Some((ty, value)) = given.value(&field.name) else {
            return Err(refused(&format!(
                "--fields has no value for `{}`, which the filter names",
                field.name
            )));
        };
        let fits = match (ty, field.ty.integer()) {
            (Type::Int { .. }, Some((bytes, signed))) => is_of(value, bytes, signed),
            (Type::Text, None) => matches!(field.ty, Type::Str | Type::Text),
            (Type::Float { .. }, None) => *ty == field.ty,
            _ => false,
        };
        if !fits {
            return Err(refused(&format!("--fields: `{}` is no {} there", field.name, type_name(&field.ty))));
        }
        slots.resize(usize::from(field.slot), 0);
        slots.push(value);
    }
    for field in &given.schema.fields {
        if !offer.schema.fields.iter().any(|other| other.name == field.name) {
            return Err(refused(&format!("--fields: the event has no field `{}`", field.name)));
        }
    }
    Ok(given.placed(offer.schema.clone(), slots))
}

/// Whether the value, extended to 8 bytes, is one of the type.
fn is_of(value: u64, bytes: u8, signed: bool) -> bool {
    let unused = 64 - 8 * u32::from(bytes);
    match signed {
        true => (value as i64) << unused >> unused == value as i64,
        false => value << unused >> unused == value,
    }
}

fn explain(text: &Text, ways: &[(&Event, Module)]) -> Result<ExitCode, Failure> {
    let mut out = Vec::new();
    for (event, module) in ways {
        let offer = text.offer(event).map_err(|faults| Failure::Text(text.source.clone(), faults))?;
        let line = |field: &Field| field_line(field, &offer.arguments[usize::from(field.slot)]);
        let fields: String = offer.schema.fields.iter().map(line).collect();
        out.push(format!("== event {}\n{fields}", event.name));
        let text_slots = weir_ir::filter::text_slots(&module.functions[0]);
        let limits = Limits { text_slots, ..Limits::default() };
        out.push(filter::explained(&text.source, module, &limits)?);
    }
    print(&out.join("\n"))
}

fn field_line(field: &Field, argument: &FoundArgument) -> String {
    format!("{}: {}, {}\n", field.name, type_name(&field.ty), place(argument))
}

fn type_name(ty: &Type) -> String {
    match ty {
        Type::Float { bytes: 4 } => "float".to_owned(),
        Type::Float { .. } => "double".to_owned(),
        Type::Str | Type::Text => "string".to_owned(),
        Type::Enum { labels, .. } => {
            let labels: Vec<&str> =
                labels.iter().take(LABELS_MAX).map(|(label, ..)| label.as_str()).collect();
            format!("enum ({})", labels.join(", "))
        }
        Type::Int { bytes, signed } => {
            format!("{}int{}", if *signed { "" } else { "u" }, 8 * u32::from(*bytes))
        }
        Type::Array { .. } | Type::Sequence { .. } | Type::Stack { .. } => "array".to_owned(),
        Type::Struct { .. } => "struct".to_owned(),
    }
}

/// Values of an enumeration that are shown.
const LABELS_MAX: usize = 8;

fn place(argument: &FoundArgument) -> String {
    let register = |number: u8| REGISTERS.get(usize::from(number)).map_or("?", |(_, name)| name);
    match &argument.place {
        Ok(ArgumentPlace::Constant(value)) => format!("constant {value}"),
        Ok(ArgumentPlace::Register { number, bits, .. }) => format!("{bits} bits of {}", register(*number)),
        Ok(ArgumentPlace::Vector(number)) => vector(*number),
        Ok(ArgumentPlace::Slot(_)) => format!("handed over as {}", argument.text),
        Ok(ArgumentPlace::Memory { base, index, displacement, .. }) => {
            let base = base.map(|number| register(number).to_owned());
            let index = index.map(|(number, scale)| format!("{} * {scale}", register(number)));
            let sum: Vec<String> = base.into_iter().chain(index).chain([displacement.to_string()]).collect();
            format!("memory at {}", sum.join(" + "))
        }
        Err(reason) => format!("not read: {reason}"),
    }
}

fn refused(message: &str) -> Failure {
    Failure::Refused(anyhow!("{message}"))
}
