//! Classes of what weir writes: the packet as [`super::packet`] has it, and events from their schemas.
//!
//! Fields lie one behind the other without gaps, little-endian, in the order of the schema:
//!
//! | schema | bytes |
//! |---|---|
//! | integer, enumeration, floating-point number | its own; an enumeration without labels is an integer |
//! | string, text | its bytes and a NUL |
//! | array | its elements |
//! | sequence, stack | a `u32` with the number of its elements (the field `_NAME_length`, as LTTng calls it), then these |
//! | structure | its members, whatever their offsets in the program are |
//!
//! Names are the schema's as far as CTF 1.8 has such names, each once in its structure. Where a program calls two fields the same, or one as
//! the length of another is called, the later one gets a number behind it (`x_2`); what is no letter, digit or underscore becomes an
//! underscore. A program's strange declaration does not make its trace unwritable.

use std::collections::HashSet;

use weir_event::schema::{self, Form, Schema, Type};

use crate::class::{
    Array, Base, ByteOrder, Choice, ClockClass, Enum, EventClass, Field, FieldClass, Float, Int, Reference,
    Role, Scope, Sequence, StreamClass, Struct, TraceClass, Value, Variant,
};
use crate::tsdl::print::is_name;
use crate::write::packet::EXTENDED;

/// A trace of one clock, with no stream yet. `environment`: host, tracer, and what else is to be told.
pub fn trace(uuid: [u8; 16], clock: ClockClass, environment: Vec<(String, Value)>) -> TraceClass {
    let bytes = Array { is_uuid: true, ..Array::new(packed(8, false), 16) };
    let header = structure(vec![
        with_role("magic", 32, Role::Magic),
        hidden(Field::new("uuid", FieldClass::Array(bytes))),
        with_role("stream_id", 64, Role::StreamClassId),
        with_role("stream_instance_id", 64, Role::StreamId),
    ]);
    TraceClass {
        uuid: Some(uuid),
        order: ByteOrder::Little,
        environment,
        clocks: vec![clock],
        packet_header: Some(hidden(Field::new("", header))),
        streams: Vec::new(),
        is_unpadded: false,
    }
}

/// A class of streams. `context`: what each record has before its payload.
pub fn stream(id: u64, context: Vec<Field>) -> StreamClass {
    let time = |name, role| {
        let int = Int { clock: Some(0), role: Some(role), ..Int::packed(64, false, ByteOrder::Little) };
        hidden(Field::new(name, FieldClass::Int(int)))
    };
    let packet = structure(vec![
        time("timestamp_begin", Role::BeginTime),
        time("timestamp_end", Role::EndTime),
        with_role("content_size", 64, Role::ContentLength),
        with_role("packet_size", 64, Role::PacketLength),
        with_role("packet_seq_num", 64, Role::SequenceNumber),
        with_role("events_discarded", 64, Role::DiscardedEvents),
        Field::new("cpu_id", packed(32, false)),
    ]);
    let common = (!context.is_empty()).then(|| Field::new("", structure(context)));
    StreamClass {
        id,
        name: None,
        clock: Some(0),
        packet_context: Some(Field::new("", packet)),
        event_header: Some(hidden(Field::new("", header()))),
        common_context: common,
        events: Vec::new(),
    }
}

/// LTTng's large header, which readers know.
fn header() -> FieldClass {
    let extended = i128::from(EXTENDED);
    let id = Int { role: Some(Role::EventId), ..Int::packed(16, false, ByteOrder::Little) };
    let labels = vec![("compact".to_owned(), 0, extended - 1), ("extended".to_owned(), extended, extended)];
    let clock = |bits| {
        let int = Int { clock: Some(0), ..Int::packed(bits, false, ByteOrder::Little) };
        Field::new("timestamp", FieldClass::Int(int))
    };
    let choice = |name: &str, fields, range| {
        let field = Field::new(name, structure(fields));
        Choice { field, ranges: vec![range] }
    };
    let long = Int { role: Some(Role::EventId), ..Int::packed(32, false, ByteOrder::Little) };
    let variant = Variant {
        selector: Reference { scope: Scope::EventHeader, names: vec!["id".to_owned()] },
        options: vec![
            choice("compact", vec![clock(32)], (0, extended - 1)),
            choice(
                "extended",
                vec![Field::new("id", FieldClass::Int(long)), clock(64)],
                (extended, extended),
            ),
        ],
    };
    structure(vec![
        Field::new("id", FieldClass::Enum(Enum { int: id, labels })),
        Field::new("v", FieldClass::Variant(variant)),
    ])
}

/// The class of events of this schema.
pub fn event(id: u64, schema: &Schema) -> EventClass {
    EventClass {
        id,
        name: Some(format!("{}:{}", schema.provider, schema.event)),
        level: schema.level.map(|level| i64::from(level.number())),
        specific_context: None,
        payload: Some(Field::new("", structure(members(&schema.fields, Scope::Payload)))),
    }
}

/// Fields of a context that all events of a stream have.
pub fn context(fields: &[schema::Field]) -> Vec<Field> {
    members(fields, Scope::CommonContext)
}

fn members(fields: &[schema::Field], scope: Scope) -> Vec<Field> {
    let mut members = Vec::new();
    for (field, name) in fields.iter().zip(names(fields)) {
        add(&name, &field.ty, field.form, &Reference { scope, names: Vec::new() }, &mut members);
    }
    members
}

/// A field of a context: an integer of whole bytes.
pub fn integer(name: &str, bits: u8, is_signed: bool) -> Field {
    Field::new(name, packed(bits, is_signed))
}

/// A field of a context: a NUL-terminated string.
pub fn string(name: &str) -> Field {
    Field::new(name, FieldClass::Str)
}

/// What the fields of an event, or of a context, are called in a trace.
pub fn names(fields: &[schema::Field]) -> Vec<String> {
    names_of(fields.iter().map(|field| (field.name.as_str(), &field.ty)))
}

/// What fields are called that a program calls so, one behind the other.
fn names_of<'n>(members: impl Iterator<Item = (&'n str, &'n Type)>) -> Vec<String> {
    let mut taken: HashSet<String> = HashSet::new();
    let name = |(wanted, ty): (&str, &Type)| {
        let is_sequence = element(ty).is_some();
        let is_free = |name: &String| {
            let is_length_free = !is_sequence || !taken.contains(&length_of(name));
            is_name(&format!("_{name}")) && is_length_free && !taken.contains(name)
        };
        let plain: String =
            wanted.chars().map(|c| if c == '_' || c.is_ascii_alphanumeric() { c } else { '_' }).collect();
        let mut numbered = (2..).map(|number: u64| format!("{plain}_{number}"));
        let free = Some(plain.clone()).filter(is_free).or_else(|| numbered.find(is_free));
        // SANITY: there are more numbers than fields.
        let free = free.expect("a free name");
        taken.extend(is_sequence.then(|| length_of(&free)));
        taken.insert(free.clone());
        free
    };
    members.map(name).collect()
}

/// What the number of a sequence's elements is called.
fn length_of(name: &str) -> String {
    format!("_{name}_length")
}

/// What elements of a field are whose number is a field too.
fn element(ty: &Type) -> Option<&Type> {
    const ADDRESS: &Type = &Type::Int { bytes: 8, signed: false };
    match ty {
        Type::Sequence { element } => Some(element),
        Type::Stack { .. } => Some(ADDRESS),
        _ => None,
    }
}

/// Adds the field, and before a sequence its length. `at`: the structure that it is added to.
fn add(name: &str, ty: &Type, form: Form, at: &Reference, fields: &mut Vec<Field>) {
    let below = |name: &str| Reference {
        scope: at.scope,
        names: at.names.iter().cloned().chain([name.to_owned()]).collect(),
    };
    let class = match element(ty) {
        Some(element) => {
            let length = length_of(name);
            fields.push(Field::new(&length, packed(32, false)));
            FieldClass::Sequence(Sequence::new(class(element, form, &below(name)), below(&length)))
        }
        None => class(ty, form, &below(name)),
    };
    fields.push(Field::new(name, class));
}

fn class(ty: &Type, form: Form, at: &Reference) -> FieldClass {
    let int = |bytes: u8, is_signed: bool| {
        let base = if form.is_hexadecimal() { Base::Hexadecimal } else { Base::Decimal };
        let order = if form.is_network() { ByteOrder::Big } else { ByteOrder::Little };
        let is_text = form == Form::Text && bytes == 1;
        Int { base, is_text, ..Int::packed(bytes * 8, is_signed, order) }
    };
    match ty {
        Type::Int { bytes, signed } => FieldClass::Int(int(*bytes, *signed)),
        Type::Enum { bytes, signed, labels } => {
            let int = int(*bytes, *signed);
            let (least, most) = int.range();
            let value = |value: i64| if *signed { i128::from(value) } else { i128::from(value as u64) };
            // As far as the integer has the values: programs may declare others, which no event has.
            let labels: Vec<(String, i128, i128)> = labels
                .iter()
                .map(|(label, first, last)| (label.clone(), value(*first).max(least), value(*last).min(most)))
                .filter(|(_, first, last)| first <= last)
                .collect();
            match labels.is_empty() {
                true => FieldClass::Int(int),
                false => FieldClass::Enum(Enum { int, labels }),
            }
        }
        Type::Float { bytes } => FieldClass::Float(Float::new(bytes * 8, 8, ByteOrder::Little)),
        Type::Str | Type::Text => FieldClass::Str,
        Type::Array { element, count } => {
            FieldClass::Array(Array::new(class(element, form, at), u64::from(*count)))
        }
        // An element of an array, which has no name: its length is a member beside it.
        Type::Sequence { .. } | Type::Stack { .. } => {
            let mut fields = Vec::new();
            add("elements", ty, form, at, &mut fields);
            structure(fields)
        }
        Type::Struct { fields: members } => {
            let mut fields = Vec::new();
            let names = names_of(members.iter().map(|(name, _, ty)| (name.as_str(), ty)));
            for ((_, _, ty), name) in members.iter().zip(names) {
                add(&name, ty, form, at, &mut fields);
            }
            structure(fields)
        }
    }
}

fn structure(fields: Vec<Field>) -> FieldClass {
    FieldClass::Struct(Struct { fields, align: 8 })
}

fn packed(bits: u8, is_signed: bool) -> FieldClass {
    FieldClass::Int(Int::packed(bits, is_signed, ByteOrder::Little))
}

fn with_role(name: &str, bits: u8, role: Role) -> Field {
    let int = Int { role: Some(role), ..Int::packed(bits, false, ByteOrder::Little) };
    hidden(Field::new(name, FieldClass::Int(int)))
}

fn hidden(field: Field) -> Field {
    Field { is_hidden: true, ..field }
}
