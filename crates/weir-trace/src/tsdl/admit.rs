//! Whether a trace class can be described as CTF 1.8.3 has it: what its grammar could say and its text forbids.
//!
//! Readers are lenient, ours too: they take an enumeration without labels, a length that is an enumeration, labels beyond what the
//! integer holds, a header without room for the numbers of events. What is written is held to the text (sections 4, 5 and 7.4):
//!
//! - fields to whose names CTF 1.8 gives a meaning are what it says: unsigned integers, the magic number first with 32 bits, times of a
//!   clock
//! - names of the environment and of clocks are each there once; a UUID that packets have is the trace's
//! - packets say which stream they are of where there are several, and both of their times or none; headers have room for each event
//! - events have a name and fields
//! - enumerations have labels, from a value to one that is not less, which their integer holds
//! - integers have a number of bits and the order of their bytes, floating-point numbers 32 or 64 bits, arrays the alignment of their elements
//! - there are no booleans, names of bits, blobs, texts in UTF-16 and UTF-32, and optional fields
//! - lengths are integers; variants have options, each once and of a label, and no value chooses two

use super::place;
use crate::class::{
    Array, Enum, Field, FieldClass, Int, Reference, Role, Scope, Sequence, StreamClass, TraceClass, Variant,
};

/// The error says what CTF 1.8 does not have.
pub(super) fn admit(trace: &TraceClass) -> Result<(), String> {
    once(trace.environment.iter().map(|(name, _)| name), "the environment has two values")?;
    once(trace.clocks.iter().map(|clock| &clock.name), "there are two clocks")?;
    let mut has_stream = false;
    for (index, field) in members(trace.packet_header.as_ref()).enumerate() {
        match (field.name.as_str(), &field.class) {
            ("magic", FieldClass::Int(Int { bits: 32, is_signed: false, .. })) if index == 0 => {}
            ("magic", _) => return Err("the magic number is not first, or no u32".to_owned()),
            ("uuid", FieldClass::Array(Array { element, count: 16, .. }))
                if matches!(**element, FieldClass::Int(Int { bits: 8, align: 8, is_signed: false, .. }))
                    && trace.uuid.is_some() => {}
            ("uuid", _) => {
                return Err("packets have a UUID, and the trace has none, or of no bytes".to_owned());
            }
            ("stream_id" | "stream_instance_id", class) => unsigned(&field.name, class)?,
            _ => {}
        }
        has_stream |= field.name == "stream_id";
    }
    if trace.streams.len() > 1 && !has_stream {
        return Err("there are several streams, and packets do not say of which they are".to_owned());
    }
    let placed = Placed { scopes: vec![(Scope::PacketHeader, trace.packet_header.as_ref())] };
    placed.admit(Scope::PacketHeader)?;
    trace.streams.iter().try_for_each(|stream| admit_stream(stream, &placed, !trace.clocks.is_empty()))
}

fn admit_stream(stream: &StreamClass, packet: &Placed<'_>, has_clocks: bool) -> Result<(), String> {
    let mut times = 0;
    for field in members(stream.packet_context.as_ref()) {
        match field.name.as_str() {
            "content_size" | "packet_size" | "packet_seq_num" | "events_discarded" => {
                unsigned(&field.name, &field.class)?;
            }
            "timestamp_begin" | "timestamp_end" => {
                unsigned(&field.name, &field.class)?;
                if has_clocks && field.class.int().is_none_or(|int| int.clock.is_none()) {
                    return Err(format!("{} is no clock's", field.name));
                }
                times += 1;
            }
            _ => {}
        }
    }
    if times == 1 {
        return Err(format!("packets of stream {} have one of their two times", stream.id));
    }
    if let Some(header) = &stream.event_header {
        admit_header("", &header.class)?;
    }
    let room = stream.event_header.as_ref().and_then(|header| room(&header.class));
    let most = stream.events.iter().map(|event| event.id).max().unwrap_or(0);
    match room {
        None if stream.events.len() > 1 => {
            return Err(format!("stream {} has several events, and no number in their header", stream.id));
        }
        Some(room) if most > room => {
            return Err(format!(
                "the header of stream {} has room for {room}, not for event {most}",
                stream.id
            ));
        }
        _ => {}
    }
    let mut placed = packet.with(Scope::PacketContext, stream.packet_context.as_ref())?;
    placed = placed.with(Scope::EventHeader, stream.event_header.as_ref())?;
    placed = placed.with(Scope::CommonContext, stream.common_context.as_ref())?;
    for event in &stream.events {
        if event.name.is_none() || event.payload.is_none() {
            return Err(format!("event {} of stream {} has no name or no fields", event.id, stream.id));
        }
        let context = placed.with(Scope::SpecificContext, event.specific_context.as_ref())?;
        context.with(Scope::Payload, event.payload.as_ref())?;
    }
    Ok(())
}

fn once<'n>(names: impl Iterator<Item = &'n String>, what: &str) -> Result<(), String> {
    let mut names: Vec<&String> = names.collect();
    names.sort_unstable();
    match names.windows(2).find(|pair| pair[0] == pair[1]) {
        Some(pair) => Err(format!("{what} {}", pair[0])),
        None => Ok(()),
    }
}

fn members(field: Option<&Field>) -> impl Iterator<Item = &Field> {
    let fields = match field.map(|field| &field.class) {
        Some(FieldClass::Struct(of)) => &of.fields[..],
        _ => &[],
    };
    fields.iter()
}

fn unsigned(name: &str, class: &FieldClass) -> Result<(), String> {
    match class {
        FieldClass::Int(Int { is_signed: false, .. }) => Ok(()),
        _ => Err(format!("{name} is no unsigned integer")),
    }
}

/// Numbers of events and times, wherever they are in a header.
fn admit_header(name: &str, class: &FieldClass) -> Result<(), String> {
    match class {
        FieldClass::Int(int) | FieldClass::Enum(Enum { int, .. }) => {
            match int.is_signed && (name == "id" || int.clock.is_some()) {
                true => Err(format!("{name} of the header is signed")),
                false => Ok(()),
            }
        }
        FieldClass::Struct(of) => {
            of.fields.iter().try_for_each(|field| admit_header(&field.name, &field.class))
        }
        FieldClass::Variant(of) => {
            let mut fields = of.options.iter().map(|choice| &choice.field);
            fields.try_for_each(|field| admit_header(&field.name, &field.class))
        }
        // What CTF 1.8 has not is refused with its scope.
        FieldClass::Array(_)
        | FieldClass::Sequence(_)
        | FieldClass::Float(_)
        | FieldClass::Str
        | FieldClass::Bool(_)
        | FieldClass::Flags(_)
        | FieldClass::Wide(_)
        | FieldClass::Optional(_) => Ok(()),
    }
}

/// The largest number of an event that a header can say.
fn room(class: &FieldClass) -> Option<u64> {
    match class {
        FieldClass::Int(int) | FieldClass::Enum(Enum { int, .. }) => {
            (int.role == Some(Role::EventId)).then(|| u64::MAX >> (64 - u32::from(int.bits.clamp(1, 64))))
        }
        FieldClass::Struct(of) => of.fields.iter().filter_map(|field| room(&field.class)).max(),
        FieldClass::Variant(of) => of.options.iter().filter_map(|choice| room(&choice.field.class)).max(),
        _ => None,
    }
}

/// The scopes of a record as far as they are looked at.
struct Placed<'c> {
    scopes: Vec<(Scope, Option<&'c Field>)>,
}

impl<'c> Placed<'c> {
    /// With another one, which is admitted.
    fn with(&self, scope: Scope, field: Option<&'c Field>) -> Result<Placed<'c>, String> {
        let scopes = self.scopes.iter().copied().chain([(scope, field)]).collect();
        let placed = Placed { scopes };
        placed.admit(scope)?;
        Ok(placed)
    }

    fn find(&self, reference: &Reference) -> Option<&'c FieldClass> {
        let (_, field) = self.scopes.iter().find(|(scope, _)| *scope == reference.scope)?;
        place::find(&(*field)?.class, &reference.names)
    }

    fn admit(&self, scope: Scope) -> Result<(), String> {
        let field = self.scopes.iter().find(|(known, _)| *known == scope).and_then(|(_, field)| *field);
        field.map_or(Ok(()), |field| self.class(&field.class))
    }

    fn class(&self, class: &FieldClass) -> Result<(), String> {
        let none = |what: &str| Err(format!("CTF 1.8 has no {what}"));
        match class {
            FieldClass::Int(int) | FieldClass::Enum(Enum { int, .. }) if int.is_variable => {
                none("integers of variable length")
            }
            FieldClass::Int(int) | FieldClass::Enum(Enum { int, .. }) if int.is_reversed => {
                none("integers whose bits go the other way round")
            }
            FieldClass::Array(Array { is_blob: true, is_uuid: false, .. })
            | FieldClass::Sequence(Sequence { is_blob: true, .. }) => none("blobs"),
            FieldClass::Bool(_) => none("booleans"),
            FieldClass::Flags(_) => none("names of bits"),
            FieldClass::Wide(_) => none("texts in UTF-16 or UTF-32"),
            FieldClass::Optional(_) => none("optional fields"),
            FieldClass::Float(float) if float.is_reversed || !matches!(float.bits, 32 | 64) => {
                none("such floating-point numbers")
            }
            FieldClass::Array(Array { element, align, .. })
            | FieldClass::Sequence(Sequence { element, align, .. })
                if *align > element.align() =>
            {
                none("arrays that are aligned more than their elements")
            }
            FieldClass::Enum(of) => labels(of),
            FieldClass::Struct(of) => of.fields.iter().try_for_each(|field| self.class(&field.class)),
            FieldClass::Array(Array { element, .. }) => self.class(element),
            FieldClass::Sequence(Sequence { element, length, .. }) => match self.find(length) {
                Some(FieldClass::Int(Int { is_signed: false, .. })) => self.class(element),
                _ => Err(format!("{} is no length: no unsigned integer", length.names.join("."))),
            },
            FieldClass::Variant(of) => {
                options(of)?;
                of.options.iter().try_for_each(|choice| self.class(&choice.field.class))
            }
            FieldClass::Int(_) | FieldClass::Float(_) | FieldClass::Str => Ok(()),
        }
    }
}

fn labels(of: &Enum) -> Result<(), String> {
    if of.labels.is_empty() {
        return Err("an enumeration without labels".to_owned());
    }
    let (least, most) = of.int.range();
    match of.labels.iter().find(|(_, first, last)| first > last || *first < least || *last > most) {
        Some((label, first, last)) => {
            Err(format!("the label {label:?} from {first} to {last}, in {least} to {most}"))
        }
        None => Ok(()),
    }
}

fn options(of: &Variant) -> Result<(), String> {
    if of.options.is_empty() {
        return Err("a variant without options".to_owned());
    }
    once(of.options.iter().map(|choice| &choice.field.name), "a variant has two options")?;
    if let Some(choice) = of.options.iter().find(|choice| choice.ranges.is_empty()) {
        return Err(format!("the option {} of a variant is no label", choice.field.name));
    }
    let mut ranges: Vec<(i128, i128, usize)> = Vec::new();
    for (option, choice) in of.options.iter().enumerate() {
        ranges.extend(choice.ranges.iter().map(|(first, last)| (*first, *last, option)));
    }
    ranges.sort_unstable();
    // What overlaps any range before it overlaps the one of those that goes furthest.
    let mut furthest: Option<(i128, usize)> = None;
    for (first, last, option) in ranges {
        if let Some((end, other)) = furthest
            && first <= end
            && other != option
        {
            return Err(format!("the value {first} chooses two options of a variant"));
        }
        if furthest.is_none_or(|(end, _)| last > end) {
            furthest = Some((last, option));
        }
    }
    Ok(())
}
