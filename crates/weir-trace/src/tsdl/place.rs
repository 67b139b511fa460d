//! A document → the trace class: each type at its place.
//!
//! Here byte orders that were left open are the trace's, names lose their underscore, references become absolute, options of variants get
//! the values of their labels, and fields get the roles that CTF 1.8 gives by name. A type that is used twice becomes two.
//!
//! Where there is one clock and times are not mapped to it, they are; where there is none, it counts nanoseconds since 1970 (section 8).

use std::rc::Rc;

use super::Fault;
use super::ast::{self, Literal, Type};
use crate::class::{
    Array, ByteOrder, Choice, ClockClass, Enum, EventClass, Field, FieldClass, Float, Int, Reference, Role,
    Scope, Sequence, StreamClass, Struct, TraceClass, Value, Variant,
};
use crate::limits::{DEPTH_MAX, FIELDS_MAX};

pub(crate) fn place(document: ast::Document) -> Result<TraceClass, Fault> {
    let order = document.order.ok_or_else(|| Fault::new(0, "no trace block says a byte_order"))?;
    let mut trace = TraceClass {
        uuid: document.uuid,
        order,
        environment: document
            .environment
            .into_iter()
            .map(|(name, value)| (name, environment(value)))
            .collect(),
        clocks: document.clocks,
        ..TraceClass::default()
    };
    let clocks = trace.clocks.clone();
    let mut placer = Placer {
        order,
        clocks: &clocks,
        placed: [const { None }; 6],
        stack: Vec::new(),
        names: Vec::new(),
        depth: 0,
        fields: 0,
    };
    placer.scope(Scope::PacketHeader, document.packet_header.as_ref())?;
    let mut given = if document.streams.is_empty() { vec![ast::Stream::default()] } else { document.streams };
    given.sort_by_key(|stream| stream.id);
    if let Some(pair) = given.windows(2).find(|pair| pair[0].id == pair[1].id) {
        return Err(Fault::new(pair[1].offset, format!("there are two streams {}", pair[1].id)));
    }
    let mut events = document.events;
    events.sort_by_key(|event| (event.stream_id, event.id));
    let key = |event: &ast::Event| (event.stream_id, event.id);
    if let Some(pair) = events.windows(2).find(|pair| key(&pair[0]) == key(&pair[1])) {
        let text = format!("stream {} has two events {}", pair[1].stream_id, pair[1].id);
        return Err(Fault::new(pair[1].offset, text));
    }
    let is_known = |id: u64| given.binary_search_by_key(&id, |stream| stream.id).is_ok();
    if let Some(event) = events.iter().find(|event| !is_known(event.stream_id)) {
        let text = format!("this event is of stream {}, which is not there", event.stream_id);
        return Err(Fault::new(event.offset, text));
    }
    let mut streams: Vec<StreamClass> = Vec::new();
    for stream in &given {
        placer.scope(Scope::PacketContext, stream.packet_context.as_ref())?;
        placer.scope(Scope::EventHeader, stream.event_header.as_ref())?;
        placer.scope(Scope::CommonContext, stream.event_context.as_ref())?;
        let mut class = StreamClass { id: stream.id, ..StreamClass::default() };
        let from = events.partition_point(|event| event.stream_id < stream.id);
        let to = events.partition_point(|event| event.stream_id <= stream.id);
        for event in &events[from..to] {
            placer.scope(Scope::SpecificContext, event.context.as_ref())?;
            placer.scope(Scope::Payload, event.fields.as_ref())?;
            class.events.push(EventClass {
                id: event.id,
                name: event.name.clone(),
                level: event.level,
                specific_context: placer.placed[Scope::SpecificContext as usize].take(),
                payload: placer.placed[Scope::Payload as usize].take(),
            });
        }
        class.packet_context = placer.placed[Scope::PacketContext as usize].take();
        class.event_header = placer.placed[Scope::EventHeader as usize].take();
        class.common_context = placer.placed[Scope::CommonContext as usize].take();
        streams.push(class);
    }
    trace.packet_header = placer.placed[Scope::PacketHeader as usize].take();
    trace.streams = streams;
    give_roles(&mut trace);
    give_clocks(&mut trace).map_err(|text| Fault::new(given[0].offset, text))?;
    Ok(trace)
}

fn environment(value: Literal) -> Value {
    match value {
        Literal::Int(value) => Value::Int(value),
        Literal::Str(text) => Value::Str(text),
        Literal::Path(names) => Value::Str(names.join(".")),
    }
}

struct Placer<'c> {
    order: ByteOrder,
    clocks: &'c [ClockClass],
    /// By [`Scope`]: what was placed last there.
    placed: [Option<Field>; 6],
    /// The structures around the one that is being placed, with what they have so far.
    stack: Vec<Level>,
    /// The members on the way to it.
    names: Vec<String>,
    depth: usize,
    fields: usize,
}

struct Level {
    /// How many of the names lead to it.
    names: usize,
    members: Vec<Field>,
}

impl Placer<'_> {
    fn scope(&mut self, scope: Scope, ty: Option<&Rc<Type>>) -> Result<(), Fault> {
        for later in Scope::ALL.iter().filter(|(later, ..)| *later >= scope) {
            self.placed[later.0 as usize] = None;
        }
        let Some(ty) = ty else { return Ok(()) };
        let class = self.class(ty, scope, 0)?;
        if !matches!(class, FieldClass::Struct(_)) {
            return Err(Fault::new(0, format!("{} is no struct", prefix(scope))));
        }
        self.placed[scope as usize] = Some(Field::new("", class));
        Ok(())
    }

    fn class(&mut self, ty: &Type, scope: Scope, offset: usize) -> Result<FieldClass, Fault> {
        self.fields += 1;
        self.depth += 1;
        if self.fields > FIELDS_MAX {
            return Err(Fault::new(offset, format!("more than {FIELDS_MAX} fields are described")));
        }
        if self.depth > DEPTH_MAX {
            return Err(Fault::new(offset, format!("types stand in one another more than {DEPTH_MAX} deep")));
        }
        let class = match ty {
            Type::Int(int) => FieldClass::Int(self.int(int)?),
            Type::Enum(int, labels) => FieldClass::Enum(Enum { int: self.int(int)?, labels: labels.clone() }),
            Type::Float { bits, align, order } => {
                FieldClass::Float(Float::new(*bits, *align, order.unwrap_or(self.order)))
            }
            Type::Str => FieldClass::Str,
            Type::Struct { members, align } => FieldClass::Struct(self.structure(members, *align, scope)?),
            Type::Variant { tag, options } => {
                FieldClass::Variant(self.variant(tag.as_ref(), options, scope, offset)?)
            }
            Type::Array { element, count } => {
                FieldClass::Array(Array::new(self.class(element, scope, offset)?, *count))
            }
            Type::Sequence { element, length } => {
                let reference = self.reference(length, scope)?;
                let class = self.find(&reference, length.offset)?;
                if class.int().is_none_or(|int| int.is_signed) {
                    let text =
                        format!("{} is no unsigned integer, which a length is", length.names.join("."));
                    return Err(Fault::new(length.offset, text));
                }
                FieldClass::Sequence(Sequence::new(self.class(element, scope, offset)?, reference))
            }
        };
        self.depth -= 1;
        Ok(class)
    }

    fn int(&self, int: &ast::Int) -> Result<Int, Fault> {
        let clock = match &int.clock {
            None => None,
            Some((name, offset)) => {
                let index = self.clocks.iter().position(|clock| clock.name == *name);
                Some(index.ok_or_else(|| Fault::new(*offset, format!("no clock is called {name}")))?)
            }
        };
        let ast::Int { bits, align, is_signed, base, is_text, .. } = *int;
        let order = int.order.unwrap_or(self.order);
        Ok(Int { align, base, is_text, clock, ..Int::packed(bits, is_signed, order) })
    }

    fn structure(&mut self, members: &[ast::Member], align: u32, scope: Scope) -> Result<Struct, Fault> {
        self.stack.push(Level { names: self.names.len(), members: Vec::new() });
        for member in members {
            let name = stripped(&member.name);
            self.names.push(name.to_owned());
            let class = self.class(&member.ty, scope, member.offset)?;
            self.names.pop();
            // SANITY: pushed above, and popped only below.
            self.stack.last_mut().expect("a level").members.push(Field::new(name, class));
        }
        // SANITY: pushed above.
        let fields = self.stack.pop().expect("a level").members;
        let mut names: Vec<&str> = fields.iter().map(|field| field.name.as_str()).collect();
        names.sort_unstable();
        if let Some(twice) = names.windows(2).find(|pair| pair[0] == pair[1]) {
            let offset = members.first().map_or(0, |member| member.offset);
            return Err(Fault::new(offset, format!("this struct has two members {}", twice[0])));
        }
        Ok(Struct { fields, align })
    }

    fn variant(
        &mut self,
        tag: Option<&ast::Path>,
        options: &[ast::Member],
        scope: Scope,
        offset: usize,
    ) -> Result<Variant, Fault> {
        let tag = tag.ok_or_else(|| Fault::new(offset, "a variant without a tag: variant <FIELD> { … }"))?;
        let selector = self.reference(tag, scope)?;
        let FieldClass::Enum(Enum { labels, .. }) = self.find(&selector, tag.offset)? else {
            let text = format!("{} is no enumeration, which the tag of a variant is", tag.names.join("."));
            return Err(Fault::new(tag.offset, text));
        };
        let ranges = |name: &str| -> Vec<(i128, i128)> {
            let of = labels.iter().filter(|(label, ..)| label == name || label == stripped(name));
            of.map(|(_, first, last)| (*first, *last)).collect()
        };
        let ranges: Vec<Vec<(i128, i128)>> = options.iter().map(|option| ranges(&option.name)).collect();
        let mut choices = Vec::new();
        for (option, ranges) in options.iter().zip(ranges) {
            let name = stripped(&option.name);
            self.names.push(name.to_owned());
            let class = self.class(&option.ty, scope, option.offset)?;
            self.names.pop();
            choices.push(Choice { field: Field::new(name, class), ranges });
        }
        Ok(Variant { selector, options: choices })
    }

    fn reference(&self, path: &ast::Path, scope: Scope) -> Result<Reference, Fault> {
        for (scope, prefix, _) in Scope::ALL {
            let prefix: Vec<&str> = prefix.split('.').collect();
            if path.names.len() > prefix.len()
                && path.names.iter().zip(&prefix).all(|(name, part)| name == part)
            {
                let names = path.names[prefix.len()..].iter().map(|name| stripped(name).to_owned()).collect();
                return Ok(Reference { scope, names });
            }
        }
        let first = stripped(&path.names[0]);
        let level =
            self.stack.iter().rev().find(|level| level.members.iter().any(|field| field.name == first));
        let Some(level) = level else {
            let text = format!("no field {} is before this one", path.names.join("."));
            return Err(Fault::new(path.offset, text));
        };
        let names = path.names.iter().map(|name| stripped(name).to_owned());
        Ok(Reference { scope, names: self.names[..level.names].iter().cloned().chain(names).collect() })
    }

    /// The class of what is referred to, which is placed already.
    fn find(&self, reference: &Reference, offset: usize) -> Result<&FieldClass, Fault> {
        let placed = self.placed[reference.scope as usize].as_ref();
        let found = placed.and_then(|field| find(&field.class, &reference.names)).or_else(|| {
            // In the same scope: it is a member of a structure around this one.
            self.stack.iter().rev().find_map(|level| {
                let names = reference.names.strip_prefix(&self.names[..level.names.min(self.names.len())])?;
                let (first, rest) = names.split_first()?;
                find(&level.members.iter().find(|field| field.name == *first)?.class, rest)
            })
        });
        found.ok_or_else(|| {
            let text = format!("no field {} is before this one", reference.names.join("."));
            Fault::new(offset, text)
        })
    }
}

/// Without the underscore that keeps a name clear of keywords.
fn stripped(name: &str) -> &str {
    name.strip_prefix('_').unwrap_or(name)
}

fn prefix(scope: Scope) -> &'static str {
    Scope::ALL[scope as usize].1
}

/// The class at the end of the names.
pub(crate) fn find<'c>(class: &'c FieldClass, names: &[String]) -> Option<&'c FieldClass> {
    let Some((first, rest)) = names.split_first() else { return Some(class) };
    match class {
        FieldClass::Struct(of) => find(&of.fields.iter().find(|field| field.name == *first)?.class, rest),
        FieldClass::Variant(of) => {
            find(&of.options.iter().find(|choice| choice.field.name == *first)?.field.class, rest)
        }
        FieldClass::Array(Array { element, .. }) | FieldClass::Sequence(Sequence { element, .. }) => {
            find(element, names)
        }
        FieldClass::Optional(of) => find(&of.field, names),
        FieldClass::Int(_)
        | FieldClass::Enum(_)
        | FieldClass::Bool(_)
        | FieldClass::Flags(_)
        | FieldClass::Float(_)
        | FieldClass::Str
        | FieldClass::Wide(_) => None,
    }
}

/// Which members mean something (CTF 1.8.3, sections 5.1, 5.2 and 6.1).
const ROLES: [(Scope, &str, Role); 10] = [
    (Scope::PacketHeader, "magic", Role::Magic),
    (Scope::PacketHeader, "stream_id", Role::StreamClassId),
    (Scope::PacketHeader, "stream_instance_id", Role::StreamId),
    (Scope::PacketContext, "packet_size", Role::PacketLength),
    (Scope::PacketContext, "content_size", Role::ContentLength),
    (Scope::PacketContext, "packet_seq_num", Role::SequenceNumber),
    (Scope::PacketContext, "events_discarded", Role::DiscardedEvents),
    (Scope::PacketContext, "timestamp_begin", Role::BeginTime),
    (Scope::PacketContext, "timestamp_end", Role::EndTime),
    (Scope::EventHeader, "id", Role::EventId),
];

fn give_roles(trace: &mut TraceClass) {
    let mut scopes: Vec<(Scope, &mut Field)> = Vec::new();
    scopes.extend(trace.packet_header.as_mut().map(|field| (Scope::PacketHeader, field)));
    for stream in &mut trace.streams {
        scopes.extend(stream.packet_context.as_mut().map(|field| (Scope::PacketContext, field)));
        scopes.extend(stream.event_header.as_mut().map(|field| (Scope::EventHeader, field)));
    }
    for (scope, field) in scopes {
        for (_, name, role) in ROLES.iter().filter(|row| row.0 == scope) {
            // A header's number may be in a variant.
            give_role(&mut field.class, name, *role, scope == Scope::EventHeader);
        }
        if let FieldClass::Struct(of) = &mut field.class
            && scope == Scope::PacketHeader
            && let Some(uuid) = of.fields.iter_mut().find(|field| field.name == "uuid")
            && let FieldClass::Array(array) = &mut uuid.class
            && array.count == 16
            && array.element.packed_bytes() == Some(1)
        {
            array.is_uuid = true;
        }
    }
}

fn give_role(class: &mut FieldClass, name: &str, role: Role, is_deep: bool) {
    if let FieldClass::Struct(of) = class
        && let Some(int) =
            of.fields.iter_mut().find(|field| field.name == name).and_then(|field| field.class.int_mut())
        && !int.is_signed
    {
        int.role = Some(role);
    }
    if is_deep {
        class.below_mut().into_iter().for_each(|below| give_role(below, name, role, true));
    }
}

fn give_clocks(trace: &mut TraceClass) -> Result<(), String> {
    const TIMES: [(Scope, &str); 3] = [
        (Scope::PacketContext, "timestamp_begin"),
        (Scope::PacketContext, "timestamp_end"),
        (Scope::EventHeader, "timestamp"),
    ];
    for index in 0..trace.streams.len() {
        for (scope, name) in TIMES {
            let stream = &mut trace.streams[index];
            let field = match scope {
                Scope::PacketContext => stream.packet_context.as_mut(),
                _ => stream.event_header.as_mut(),
            };
            let Some(Field { class: FieldClass::Struct(of), .. }) = field else { continue };
            let field = of.fields.iter_mut().find(|field| field.name == name);
            let Some(int) = field.and_then(|field| field.class.int_mut()) else { continue };
            if int.clock.is_none() && trace.clocks.len() < 2 {
                int.clock = Some(0);
                if trace.clocks.is_empty() {
                    trace.clocks.push(ClockClass::default());
                }
            }
        }
        let stream = &mut trace.streams[index];
        let mut clocks = Vec::new();
        let scopes =
            [&stream.packet_context, &stream.event_header, &stream.common_context].into_iter().flatten();
        let events =
            stream.events.iter().flat_map(|event| [&event.specific_context, &event.payload]).flatten();
        scopes.chain(events).for_each(|field| collect_clocks(&field.class, &mut clocks));
        clocks.dedup();
        if let [first, second, ..] = clocks[..] {
            let names = [first, second].map(|index| trace.clocks[index].name.clone());
            return Err(format!("stream {} has two clocks, {} and {}", stream.id, names[0], names[1]));
        }
        stream.clock = clocks.first().copied();
    }
    Ok(())
}

fn collect_clocks(class: &FieldClass, clocks: &mut Vec<usize>) {
    match class {
        FieldClass::Int(int) | FieldClass::Enum(Enum { int, .. }) => clocks.extend(int.clock),
        FieldClass::Struct(of) => of.fields.iter().for_each(|field| collect_clocks(&field.class, clocks)),
        FieldClass::Variant(of) => {
            of.options.iter().for_each(|choice| collect_clocks(&choice.field.class, clocks));
        }
        FieldClass::Array(Array { element, .. }) | FieldClass::Sequence(Sequence { element, .. }) => {
            collect_clocks(element, clocks);
        }
        FieldClass::Optional(of) => collect_clocks(&of.field, clocks),
        FieldClass::Bool(_)
        | FieldClass::Flags(_)
        | FieldClass::Float(_)
        | FieldClass::Str
        | FieldClass::Wide(_) => {}
    }
}
