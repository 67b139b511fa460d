//! Types → fields in the scopes of events: what lengths and tags refer to, and which fields have a meaning by their name (CTF 1.8.3,
//! sections 4.2, 5, 6 and 7.3.2).
//!
//! Every integer gets a slot of its own, in which its last value is while packets are decoded; a reference is the number of a slot.

use std::rc::Rc;

use super::describe::{Described, Event, Int, Label, Order, Scoped, Stream, Type};
use super::lexer::KEYWORDS;
use super::{FIELDS_MAX, Fault, Rule, fault};

#[derive(Debug)]
pub(super) struct Trace {
    pub(super) uuid: Option<[u8; 16]>,
    pub(super) packet_header: Option<Field>,
    pub(super) streams: Vec<PlacedStream>,
    /// How many slots there are.
    pub(super) slots: usize,
}

#[derive(Debug)]
pub(super) struct PlacedStream {
    pub(super) id: u64,
    pub(super) packet_context: Option<Field>,
    pub(super) event_header: Option<Field>,
    pub(super) event_context: Option<Field>,
    pub(super) events: Vec<PlacedEvent>,
}

#[derive(Debug)]
pub(super) struct PlacedEvent {
    pub(super) id: u64,
    pub(super) context: Option<Field>,
    pub(super) fields: Option<Field>,
}

#[derive(Debug)]
pub(super) enum Field {
    Int { int: Int, slot: usize, role: Option<Role> },
    Float { bits: u32, align: u32, order: Order },
    Text { is_ascii: bool },
    Struct { fields: Vec<Field>, align: u32 },
    Array { element: Box<Field>, count: u64, is_uuid: bool },
    Sequence { element: Box<Field>, length: usize },
    Variant { tag: usize, labels: Rc<[Label]>, options: Vec<(String, Field)> },
}

impl Field {
    /// In bits. A variant has none of its own (4.2.2).
    pub(super) fn align(&self) -> u32 {
        match self {
            Field::Int { int, .. } => int.align,
            Field::Float { align, .. } => *align,
            Field::Text { .. } => 8,
            Field::Struct { align, .. } => *align,
            Field::Array { element, .. } | Field::Sequence { element, .. } => element.align(),
            Field::Variant { .. } => 1,
        }
    }
}

/// What an integer of a header says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Role {
    Magic,
    StreamId,
    InstanceId,
    BeginTime,
    EndTime,
    ContentSize,
    PacketSize,
    SequenceNumber,
    Discarded,
    EventId,
    EventTime,
}

impl Role {
    pub(super) const COUNT: usize = Role::EventTime as usize + 1;
}

/// Names in the packet's context, and what they say (5.2; `packet_seq_num` is LTTng's).
const CONTEXT: [(&str, Role); 6] = [
    ("timestamp_begin", Role::BeginTime),
    ("timestamp_end", Role::EndTime),
    ("content_size", Role::ContentSize),
    ("packet_size", Role::PacketSize),
    ("packet_seq_num", Role::SequenceNumber),
    ("events_discarded", Role::Discarded),
];

/// In the order of the bytes, as references name them.
const SCOPES: [&[&str]; 6] = [
    &["trace", "packet", "header"],
    &["stream", "packet", "context"],
    &["stream", "event", "header"],
    &["stream", "event", "context"],
    &["event", "context"],
    &["event", "fields"],
];

pub(super) fn place(described: &Described) -> Result<Trace, Fault> {
    let mut placer = Placer {
        has_clock: described.has_clock,
        scope: 0,
        done: Default::default(),
        frames: Vec::new(),
        slots: 0,
        fields: 0,
    };
    packet_header(described)?;
    let packet_header = placer.scope(0, described.packet_header.as_ref())?;
    let mut streams = Vec::new();
    for stream in &described.streams {
        packet_context(stream, described.has_clock)?;
        let packet_context = placer.scope(1, stream.packet_context.as_ref())?;
        let event_header = placer.scope(2, stream.event_header.as_ref())?;
        identified(stream, event_header.as_ref())?;
        let event_context = placer.scope(3, stream.event_context.as_ref())?;
        let mut events = Vec::new();
        for Event { id, context, fields, .. } in &stream.events {
            let context = placer.scope(4, context.as_ref())?;
            let fields = placer.scope(5, fields.as_ref())?;
            events.push(PlacedEvent { id: *id, context, fields });
        }
        streams.push(PlacedStream { id: stream.id, packet_context, event_header, event_context, events });
    }
    Ok(Trace { uuid: described.uuid, packet_header, streams, slots: placer.slots })
}

/// Name, type and line of each member of a scope's structure.
fn members(scoped: Option<&Scoped>) -> Vec<(&str, &Type, u32)> {
    match scoped.map(|scoped| &*scoped.of) {
        Some(Type::Struct { fields, .. }) => {
            fields.iter().map(|field| (field.name.as_str(), &*field.of, field.line)).collect()
        }
        _ => Vec::new(),
    }
}

fn packet_header(described: &Described) -> Result<(), Fault> {
    let members = members(described.packet_header.as_ref());
    for (index, (name, of, line)) in members.iter().enumerate() {
        match (*name, *of) {
            ("magic", Type::Int(Int { bits: 32, is_signed: false, .. })) if index == 0 => {}
            ("magic", _) => return Err(fault(*line, Rule::MagicField, "another place or type")),
            ("uuid", Type::Array(element, 16))
                if matches!(**element, Type::Int(Int { bits: 8, align: 8, is_signed: false, .. }))
                    && described.uuid.is_some() => {}
            ("uuid", _) => {
                return Err(fault(*line, Rule::UuidField, "another type, or no UUID of the trace"));
            }
            ("stream_id" | "stream_instance_id", Type::Int(Int { is_signed: false, .. })) => {}
            ("stream_id" | "stream_instance_id", _) => {
                return Err(fault(*line, Rule::StreamField, format!("{name} is another type")));
            }
            _ => {}
        }
    }
    match described.streams.get(1) {
        Some(second) if !members.iter().any(|(name, ..)| *name == "stream_id") => {
            Err(fault(second.line, Rule::StreamField, "a second stream, and no stream_id in packets"))
        }
        _ => Ok(()),
    }
}

fn packet_context(stream: &Stream, has_clock: bool) -> Result<(), Fault> {
    let members = members(stream.packet_context.as_ref());
    let mut times = Vec::new();
    for (name, of, line) in members {
        if !CONTEXT.iter().any(|(known, _)| *known == name) {
            continue;
        }
        let Type::Int(int @ Int { is_signed: false, .. }) = of else {
            return Err(fault(line, Rule::ContextField, format!("{name} is no unsigned integer")));
        };
        if name.starts_with("timestamp") {
            if has_clock && !int.has_clock {
                return Err(fault(line, Rule::ContextField, format!("{name} is no clock's")));
            }
            times.push(line);
        }
    }
    match times[..] {
        [line] => Err(fault(line, Rule::ContextField, "one of timestamp_begin and timestamp_end")),
        _ => Ok(()),
    }
}

/// That each event of the stream can be told by its header.
fn identified(stream: &Stream, header: Option<&Field>) -> Result<(), Fault> {
    fn collect(field: &Field, most: &mut Option<u64>) -> bool {
        match field {
            Field::Int { int, role: Some(Role::EventId), .. } => {
                let room = if int.bits == 64 { u64::MAX } else { (1 << int.bits) - 1 };
                *most = Some(most.unwrap_or(0).max(room));
                !int.is_signed
            }
            Field::Struct { fields, .. } => fields.iter().all(|field| collect(field, most)),
            Field::Variant { options, .. } => options.iter().all(|(_, field)| collect(field, most)),
            _ => true,
        }
    }
    let mut most = None;
    let is_unsigned = header.is_none_or(|header| collect(header, &mut most));
    let line = stream.event_header.as_ref().map_or(stream.line, |scoped| scoped.line);
    if !is_unsigned {
        return Err(fault(line, Rule::HeaderField, "id is signed"));
    }
    if most.is_none() && stream.events.len() > 1 {
        return Err(fault(line, Rule::HeaderField, "there is no id"));
    }
    match most.and_then(|most| stream.events.iter().find(|event| event.id > most)) {
        Some(event) => {
            let message = format!("the header has no room for {}", event.id);
            Err(fault(event.line, Rule::HeaderField, message))
        }
        None => Ok(()),
    }
}

struct Placer {
    has_clock: bool,
    /// Index into [`SCOPES`].
    scope: usize,
    /// What lies in the scopes before.
    done: [Known; SCOPES.len()],
    /// The structures around what is placed, the innermost last.
    frames: Vec<Frame>,
    slots: usize,
    fields: usize,
}

struct Frame {
    /// The names that lead here from the frame before.
    steps: Vec<String>,
    known: Vec<(String, Known)>,
}

/// What a reference may find.
#[derive(Clone, Default)]
enum Known {
    Int {
        slot: usize,
        is_signed: bool,
        labels: Option<Rc<[Label]>>,
    },
    Struct(Vec<(String, Known)>),
    #[default]
    Other,
}

impl Placer {
    fn scope(&mut self, scope: usize, scoped: Option<&Scoped>) -> Result<Option<Field>, Fault> {
        self.scope = scope;
        self.done[scope..].iter_mut().for_each(|known| *known = Known::Other);
        let Some(Scoped { of, line }) = scoped else { return Ok(None) };
        if !matches!(**of, Type::Struct { .. }) {
            return Err(fault(*line, Rule::Scope, format!("{} is none", SCOPES[scope].join("."))));
        }
        let (field, known) = self.field(of, &[], *line)?;
        self.done[scope] = known;
        Ok(Some(field))
    }

    /// `steps`: the names that lead here from the innermost structure.
    fn field(&mut self, of: &Type, steps: &[String], line: u32) -> Result<(Field, Known), Fault> {
        self.fields += 1;
        if self.fields > FIELDS_MAX {
            return Err(fault(line, Rule::Limit, format!("more than {FIELDS_MAX} fields")));
        }
        match of {
            Type::Int(int) => self.int(int, None, steps, line),
            Type::Enum(int, labels) => self.int(int, Some(labels.clone()), steps, line),
            Type::Float { bits, align, order } => {
                Ok((Field::Float { bits: *bits, align: *align, order: *order }, Known::Other))
            }
            Type::Text { is_ascii } => Ok((Field::Text { is_ascii: *is_ascii }, Known::Other)),
            Type::Struct { fields, align } => {
                if self.frames.len() > super::DEPTH_MAX {
                    return Err(fault(line, Rule::Limit, "structures too deep in one another"));
                }
                self.frames.push(Frame { steps: steps.to_vec(), known: Vec::new() });
                let (mut placed, mut align) = (Vec::new(), *align);
                for member in fields {
                    let (field, known) =
                        self.field(&member.of, std::slice::from_ref(&member.name), member.line)?;
                    align = align.max(field.align());
                    placed.push(field);
                    // SANITY: pushed above.
                    self.frames.last_mut().expect("a frame").known.push((member.name.clone(), known));
                }
                let known = self.frames.pop().map(|frame| Known::Struct(frame.known)).unwrap_or_default();
                Ok((Field::Struct { fields: placed, align }, known))
            }
            Type::Array(element, count) => {
                let is_uuid = self.scope == 0 && self.frames.len() == 1 && steps == ["uuid"];
                let (element, _) = self.field(element, steps, line)?;
                Ok((Field::Array { element: Box::new(element), count: *count, is_uuid }, Known::Other))
            }
            Type::Sequence(element, path, at) => {
                let length = match self.find(path, *at)? {
                    Some(Known::Int { slot, is_signed: false, labels: None }) => *slot,
                    _ => return Err(fault(*at, Rule::Length, format!("{} is none", path.join(".")))),
                };
                let (element, _) = self.field(element, steps, line)?;
                Ok((Field::Sequence { element: Box::new(element), length }, Known::Other))
            }
            Type::Variant { tag, options, line } => self.variant(tag.as_deref(), options, steps, *line),
        }
    }

    fn int(
        &mut self,
        int: &Int,
        labels: Option<Rc<[Label]>>,
        steps: &[String],
        line: u32,
    ) -> Result<(Field, Known), Fault> {
        let name = steps.last().map_or("", String::as_str);
        let is_outer = self.frames.len() == 1 && steps.len() == 1;
        let has_clock = int.has_clock || (!self.has_clock && name == "timestamp");
        let role = match (self.scope, name) {
            (0, "magic") if is_outer => Some(Role::Magic),
            (0, "stream_id") if is_outer => Some(Role::StreamId),
            (0, "stream_instance_id") if is_outer => Some(Role::InstanceId),
            (1, name) if is_outer => CONTEXT.iter().find(|(known, _)| *known == name).map(|(_, role)| *role),
            (2, "id") => Some(Role::EventId),
            (2, _) if has_clock && int.is_signed => {
                return Err(fault(line, Rule::HeaderField, format!("the time {name} is signed")));
            }
            (2, _) if has_clock => Some(Role::EventTime),
            (3..=5, _) if int.has_clock => {
                return Err(fault(line, Rule::Unread, format!("{name} is a clock's, in no header")));
            }
            _ => None,
        };
        let slot = self.slots;
        self.slots += 1;
        let known = Known::Int { slot, is_signed: int.is_signed, labels };
        Ok((Field::Int { int: int.clone(), slot, role }, known))
    }

    fn variant(
        &mut self,
        tag: Option<&[String]>,
        options: &[super::describe::Field],
        steps: &[String],
        line: u32,
    ) -> Result<(Field, Known), Fault> {
        let Some(path) = tag else { return Err(fault(line, Rule::VariantPlace, "it has no tag")) };
        let (slot, labels) = match self.find(path, line)? {
            Some(Known::Int { slot, labels: Some(labels), .. }) => (*slot, labels.clone()),
            _ => return Err(fault(line, Rule::Tag, format!("{} is none", path.join(".")))),
        };
        let mut placed: Vec<(String, Field)> = Vec::new();
        for option in options {
            let read = |name: &str| name.strip_prefix('_').unwrap_or(name).to_owned();
            let name = read(&option.name);
            let own: Vec<&Label> = labels.iter().filter(|label| read(&label.name) == name).collect();
            if own.is_empty() {
                let message = format!("{} has no entry {name}", path.join("."));
                return Err(fault(option.line, Rule::Label, message));
            }
            let others =
                labels.iter().filter(|label| placed.iter().any(|(name, _)| *name == read(&label.name)));
            let both =
                |label: &Label| own.iter().any(|own| own.first <= label.last && label.first <= own.last);
            if let Some(other) = others.into_iter().find(|label| both(label)) {
                let message = format!("{name} and {} have a value in common", other.name);
                return Err(fault(option.line, Rule::Label, message));
            }
            let steps: Vec<String> = steps.iter().chain([&option.name]).cloned().collect();
            let (field, _) = self.field(&option.of, &steps, option.line)?;
            placed.push((name, field));
        }
        Ok((Field::Variant { tag: slot, labels, options: placed }, Known::Other))
    }

    /// What a reference means at this place.
    fn find(&self, path: &[String], line: u32) -> Result<Option<&Known>, Fault> {
        let words: Vec<&str> = path.iter().map(String::as_str).collect();
        let scope = SCOPES.iter().position(|scope| words.starts_with(scope));
        let names = scope.map_or(&words[..], |scope| &words[SCOPES[scope].len()..]);
        if names.first() == Some(&"env") {
            return Err(fault(line, Rule::Unread, "a reference to the environment"));
        }
        if let Some(word) = names.iter().find(|word| KEYWORDS.contains(word)) {
            return Err(fault(line, Rule::Keyword, format!("{word} stands for a name")));
        }
        let Some((first, rest)) = names.split_first() else { return Ok(None) };
        let member = |known: &'_ [(String, Known)]| known.iter().position(|(name, _)| name == first);
        match scope {
            // The nearest structure around this place that has such a field.
            None => {
                let found =
                    self.frames.iter().rev().find_map(|frame| Some(&frame.known[member(&frame.known)?].1));
                Ok(found.and_then(|known| below(known, rest)))
            }
            Some(scope) if scope == self.scope => Ok(self.find_open(names)),
            Some(scope) => Ok(below(&self.done[scope], names)),
        }
    }

    /// From the beginning of this scope on, part of which is not placed yet.
    fn find_open<'k>(&'k self, mut names: &[&str]) -> Option<&'k Known> {
        let mut frames = self.frames.iter().peekable();
        while let Some(frame) = frames.next() {
            if let Some(Frame { steps, .. }) = frames.peek()
                && names.len() >= steps.len()
                && names.iter().zip(steps).all(|(name, step)| name == step)
            {
                names = &names[steps.len()..];
                continue;
            }
            let (first, rest) = names.split_first()?;
            let (_, known) = frame.known.iter().find(|(name, _)| name == first)?;
            return below(known, rest);
        }
        None
    }
}

/// The member of a structure that these names lead to.
fn below<'k>(known: &'k Known, names: &[&str]) -> Option<&'k Known> {
    let Some((first, rest)) = names.split_first() else { return Some(known) };
    let Known::Struct(members) = known else { return None };
    members.iter().find(|(name, _)| name == first).and_then(|(_, known)| below(known, rest))
}
