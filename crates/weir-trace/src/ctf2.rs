//! CTF 2's metadata, a sequence of JSON texts: bytes → a trace class ([`read`]), and back ([`mod@print`]).
//!
//! As in CTF2-SPEC-2.0: each fragment is the byte 0x1e and an object; what means something says so by a role, whatever its name is.
//! Field classes by name are expanded where they are used, within a limit. Attributes are looked over, but for LTTng's level of events.
//!
//! An error names the fragment's byte, and the field by the members that lead to it.
//!
//! Deliberately not read, and refused by name: integers, bits and booleans of more than 64 bits, floating-point numbers of other sizes than
//! 16, 32 and 64 bits, and extensions, of which nobody can know what they change.

mod json;
pub(crate) mod print;

use std::collections::HashMap;

use crate::class::{
    Array, Base, ByteOrder, Choice, ClockClass, Encoding, Enum, EventClass, Field, FieldClass, Float, Int,
    Length, Optional, Reference, Role, Scope, Sequence, StreamClass, Struct, TraceClass, Value, Variant,
    Wide,
};
use crate::ctf2::json::Json;
use crate::limits::{ALIGN_BITS_MAX, DEPTH_MAX, FIELDS_MAX, MEMBERS_MAX};

/// What is wrong, and the byte at which it or its fragment begins.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Fault {
    pub(crate) offset: usize,
    pub(crate) message: String,
}

/// Begins each fragment (RFC 7464).
pub(crate) const SEPARATOR: u8 = 0x1e;

/// The names of roles, in both directions.
pub(crate) const ROLES: [(&str, Role); 9] = [
    ("packet-magic-number", Role::Magic),
    ("data-stream-class-id", Role::StreamClassId),
    ("data-stream-id", Role::StreamId),
    ("packet-total-length", Role::PacketLength),
    ("packet-content-length", Role::ContentLength),
    ("packet-sequence-number", Role::SequenceNumber),
    ("discarded-event-record-counter-snapshot", Role::DiscardedEvents),
    ("packet-end-default-clock-timestamp", Role::EndTime),
    ("event-record-class-id", Role::EventId),
];

/// A clock's value, which in a packet's context is its beginning.
pub(crate) const TIME: &str = "default-clock-timestamp";
/// A blob of 16 bytes.
pub(crate) const UUID: &str = "metadata-stream-uuid";
/// Whose the attributes of events are.
pub(crate) const LTTNG: &str = "lttng.org,2009";

/// The trace class that the fragments describe.
pub(crate) fn read(bytes: &[u8]) -> Result<TraceClass, Fault> {
    let mut builder = Builder::default();
    let mut offset = 0;
    for fragment in bytes.split(|byte| *byte == SEPARATOR) {
        let begin = offset;
        offset += fragment.len() + 1;
        if fragment.iter().all(u8::is_ascii_whitespace) {
            continue;
        }
        let text = str::from_utf8(fragment).map_err(|error| Fault {
            offset: begin + error.valid_up_to(),
            message: "this is no UTF-8, which JSON is".to_owned(),
        })?;
        let json = Json::parse(text);
        let json = json.map_err(|fault| Fault { offset: begin + fault.offset, ..fault })?;
        builder.fragment(&json).map_err(|message| Fault { offset: begin, message })?;
    }
    let mut trace = builder.trace;
    trace.streams.sort_by_key(|stream| stream.id);
    for stream in &mut trace.streams {
        stream.events.sort_by_key(|event| event.id);
    }
    trace.is_unpadded = trace.streams.iter().any(|stream| {
        let has = |role| stream.packet_context.as_ref().is_some_and(|field| has_role(&field.class, role));
        has(Role::ContentLength) && !has(Role::PacketLength)
    });
    Ok(trace)
}

/// As far as roles are looked for: among the members of a structure.
pub(crate) fn has_role(class: &FieldClass, role: Role) -> bool {
    match class {
        FieldClass::Struct(of) => of.fields.iter().any(|field| has_role(&field.class, role)),
        other => other.int().is_some_and(|int| int.role == Some(role)),
    }
}

/// What a field is that others refer to; a name may be of several, in options of a variant.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
struct Kinds {
    unsigned: bool,
    signed: bool,
    boolean: bool,
}

type Known = HashMap<Reference, Kinds>;

#[derive(Default)]
struct Builder {
    trace: TraceClass,
    /// By their ids, in the order of the trace's clocks.
    clocks: Vec<String>,
    aliases: HashMap<String, Json>,
    fields: usize,
    has_preamble: bool,
    has_trace_class: bool,
    /// What may be referred to: of the packet's header, of the stream, and of the event.
    known: [Known; 3],
    /// By the stream's place in the trace: the second of these.
    known_of_streams: Vec<Known>,
}

/// Where a field class is expanded.
struct Place {
    scope: Scope,
    /// The stream's clock.
    clock: Option<usize>,
    /// The members that lead to it.
    names: Vec<String>,
    depth: usize,
}

impl Builder {
    fn fragment(&mut self, json: &Json) -> Result<(), String> {
        let kind = text(json, "type")?.ok_or("a fragment without its type")?;
        if self.has_preamble == (kind == "preamble") {
            return Err(match self.has_preamble {
                true => "a second preamble".to_owned(),
                false => "the first fragment is no preamble".to_owned(),
            });
        }
        no_extensions(json)?;
        match kind {
            "preamble" => {
                self.has_preamble = true;
                match json.get("version") {
                    Some(Json::Int(2)) => {}
                    other => return Err(format!("this is version {} of the format, not 2", shown(other))),
                }
                self.trace.uuid = json.get("uuid").map(uuid).transpose()?;
            }
            "field-class-alias" => {
                let name = text(json, "name")?.ok_or("an alias without a name")?;
                let class = json.get("field-class").ok_or("an alias without its field class")?.clone();
                if self.aliases.insert(name.to_owned(), class).is_some() {
                    return Err(format!("there are two aliases {name}"));
                }
            }
            "trace-class" => self.trace_class(json)?,
            "clock-class" => self.clock(json)?,
            "data-stream-class" => self.stream(json)?,
            "event-record-class" => self.event(json)?,
            other => return Err(format!("{other} is no type of a fragment")),
        }
        Ok(())
    }

    fn trace_class(&mut self, json: &Json) -> Result<(), String> {
        if std::mem::replace(&mut self.has_trace_class, true) || !self.trace.streams.is_empty() {
            return Err("the trace's class comes twice, or behind a stream's".to_owned());
        }
        for (name, value) in json.get("environment").map_or(&[][..], Json::members) {
            let value = match value {
                Json::Text(text) => Value::Str(text.clone()),
                Json::Int(value) => Value::Int(*value),
                _ => return Err(format!("{name} in the environment is no number and no string")),
            };
            self.trace.environment.push((name.clone(), value));
        }
        let header = self.scope(json, "packet-header-field-class", Scope::PacketHeader, None)?;
        if self.trace.uuid.is_none() && header.as_ref().is_some_and(|field| has_uuid(&field.class)) {
            return Err("packets have the metadata's UUID, and it has none".to_owned());
        }
        self.trace.packet_header = header;
        Ok(())
    }

    fn clock(&mut self, json: &Json) -> Result<(), String> {
        // In older texts the name is the id.
        let id = text(json, "id")?.or(text(json, "name")?).ok_or("a clock without an id")?;
        if self.clocks.iter().any(|known| known == id) {
            return Err(format!("there are two clocks {id}"));
        }
        if self.clocks.len() >= MEMBERS_MAX {
            return Err(format!("more than {MEMBERS_MAX} clocks"));
        }
        let offset = json.get("offset-from-origin");
        let part = |name| offset.and_then(|offset| offset.get(name));
        let clock = ClockClass {
            name: text(json, "name")?.unwrap_or(id).to_owned(),
            uuid: text(json, "uid")?.and_then(uuid_of_text),
            description: text(json, "description")?.map(str::to_owned),
            frequency: number(json.get("frequency"), "a clock's frequency")?,
            precision: optional(json.get("precision"), "a clock's precision")?.unwrap_or(0),
            offset_s: optional(part("seconds"), "a clock's offset")?.unwrap_or(0),
            offset_cycles: optional(part("cycles"), "a clock's offset")?.unwrap_or(0),
            is_absolute: json.get("origin") == Some(&Json::from("unix-epoch")),
        };
        if clock.frequency == 0 {
            return Err("a clock of frequency 0 never moves".to_owned());
        }
        self.clocks.push(id.to_owned());
        self.trace.clocks.push(clock);
        Ok(())
    }

    fn stream(&mut self, json: &Json) -> Result<(), String> {
        let id = optional(json.get("id"), "a stream's id")?.unwrap_or(0);
        if self.trace.streams.iter().any(|stream| stream.id == id) {
            return Err(format!("there are two streams {id}"));
        }
        if self.trace.streams.len() >= MEMBERS_MAX {
            return Err(format!("more than {MEMBERS_MAX} classes of streams"));
        }
        let clock = match text(json, "default-clock-class-id")?.or(text(json, "default-clock-class-name")?) {
            None => None,
            Some(name) => {
                let found = self.clocks.iter().position(|known| known == name);
                Some(found.ok_or_else(|| format!("no clock is called {name}"))?)
            }
        };
        self.known[1].clear();
        let scopes = [
            ("packet-context-field-class", Scope::PacketContext),
            ("event-record-header-field-class", Scope::EventHeader),
            ("event-record-common-context-field-class", Scope::CommonContext),
        ];
        let [context, header, common] = scopes.map(|(key, scope)| self.scope(json, key, scope, clock));
        self.trace.streams.push(StreamClass {
            id,
            name: text(json, "name")?.map(str::to_owned),
            clock,
            packet_context: context?,
            event_header: header?,
            common_context: common?,
            events: Vec::new(),
        });
        self.known_of_streams.push(std::mem::take(&mut self.known[1]));
        Ok(())
    }

    fn event(&mut self, json: &Json) -> Result<(), String> {
        let id = optional(json.get("id"), "an event's id")?.unwrap_or(0);
        let stream_id: u64 = optional(json.get("data-stream-class-id"), "a stream's id")?.unwrap_or(0);
        let stream = self.trace.streams.iter().position(|stream| stream.id == stream_id);
        let stream =
            stream.ok_or_else(|| format!("this event is of stream {stream_id}, which is not there"))?;
        let clock = self.trace.streams[stream].clock;
        let name = text(json, "name")?;
        std::mem::swap(&mut self.known[1], &mut self.known_of_streams[stream]);
        self.known[2].clear();
        let scopes = [
            ("specific-context-field-class", Scope::SpecificContext),
            ("payload-field-class", Scope::Payload),
        ];
        let scopes = scopes.map(|(key, scope)| self.scope(json, key, scope, clock));
        std::mem::swap(&mut self.known[1], &mut self.known_of_streams[stream]);
        let [context, payload] = scopes
            .map(|field| field.map_err(|text| format!("event {}: {text}", name.unwrap_or("without a name"))));
        let event = EventClass {
            id,
            name: name.map(str::to_owned),
            level: level(json),
            specific_context: context?,
            payload: payload?,
        };
        let events = &mut self.trace.streams[stream].events;
        // Mostly they come in the order of their numbers.
        let is_known =
            events.last().is_some_and(|last| last.id >= id) && events.iter().any(|other| other.id == id);
        if is_known {
            return Err(format!("stream {stream_id} has two events {id}"));
        }
        if events.len() >= FIELDS_MAX / 16 {
            return Err(format!("more than {} events of one stream", FIELDS_MAX / 16));
        }
        events.push(event);
        Ok(())
    }

    /// The structure of a scope. An error says which field it is about.
    fn scope(
        &mut self,
        json: &Json,
        key: &str,
        scope: Scope,
        clock: Option<usize>,
    ) -> Result<Option<Field>, String> {
        let Some(class) = json.get(key) else { return Ok(None) };
        let mut place = Place { scope, clock, names: Vec::new(), depth: 0 };
        match self.class(class, &mut place) {
            Ok(class @ FieldClass::Struct(_)) => Ok(Some(Field::new("", class))),
            Ok(_) => Err(format!("{key} is no structure")),
            Err(text) if place.names.is_empty() => Err(format!("{key}: {text}")),
            Err(text) => Err(format!("{key}, {}: {text}", place.names.join("."))),
        }
    }

    fn class(&mut self, json: &Json, place: &mut Place) -> Result<FieldClass, String> {
        self.fields += 1;
        if self.fields > FIELDS_MAX {
            return Err(format!("more than {FIELDS_MAX} fields are described"));
        }
        if place.depth >= DEPTH_MAX {
            return Err(format!("classes stand in one another more than {DEPTH_MAX} deep"));
        }
        place.depth += 1;
        let class = self.class_at(json, place);
        place.depth -= 1;
        class
    }

    fn class_at(&mut self, json: &Json, place: &mut Place) -> Result<FieldClass, String> {
        if let Json::Text(name) = json {
            let class =
                self.aliases.get(name).ok_or_else(|| format!("no field class is called {name}"))?.clone();
            return self.class(&class, place);
        }
        no_extensions(json)?;
        let kind = text(json, "type")?.ok_or("a field class without its type")?;
        let is_static = kind.starts_with("static-");
        match kind {
            "fixed-length-unsigned-integer"
            | "fixed-length-signed-integer"
            | "variable-length-unsigned-integer"
            | "variable-length-signed-integer" => self.integer(json, kind, place),
            "fixed-length-bit-array" => {
                Ok(FieldClass::Int(Int { base: Base::Hexadecimal, ..bit_array(json, kind, false)? }))
            }
            "fixed-length-bit-map" => {
                let int = Int { base: Base::Hexadecimal, ..bit_array(json, kind, false)? };
                let labels = labels(json.get("flags"), "flag")?;
                if labels.is_empty() {
                    return Err("a fixed-length-bit-map without flags".to_owned());
                }
                Ok(FieldClass::Flags(Enum { int, labels }))
            }
            "fixed-length-boolean" => {
                self.define(place, |kinds| kinds.boolean = true);
                Ok(FieldClass::Bool(bit_array(json, kind, false)?))
            }
            "fixed-length-floating-point-number" => {
                let Int { bits, align, order, is_reversed, .. } = bit_array(json, kind, false)?;
                match bits {
                    16 | 32 | 64 => Ok(FieldClass::Float(Float { bits, align, order, is_reversed })),
                    _ => Err(format!("a {kind} of {bits} bits is not read: those of 16, 32 and 64 are")),
                }
            }
            "null-terminated-string" => Ok(match encoding(json)? {
                None => FieldClass::Str,
                Some(encoding) => FieldClass::Wide(Wide { encoding, length: Length::UpToNul }),
            }),
            "static-length-string" | "dynamic-length-string" => {
                let encoding = encoding(json)?;
                let byte = Int { is_text: true, ..Int::packed(8, false, ByteOrder::Little) };
                let byte = FieldClass::Int(byte);
                Ok(match (encoding, is_static) {
                    (None, true) => FieldClass::Array(Array::new(byte, length(json)?)),
                    (None, false) => FieldClass::Sequence(Sequence::new(byte, self.length(json, place)?)),
                    (Some(encoding), true) => {
                        FieldClass::Wide(Wide { encoding, length: Length::Fixed(length(json)?) })
                    }
                    (Some(encoding), false) => FieldClass::Wide(Wide {
                        encoding,
                        length: Length::Dynamic(self.length(json, place)?),
                    }),
                })
            }
            "static-length-blob" => {
                let count = length(json)?;
                let is_uuid = roles(json).any(|role| role == UUID);
                if is_uuid && count != 16 {
                    return Err(format!("a UUID of {count} bytes"));
                }
                // That of packets is the same in CTF 1.8.
                Ok(FieldClass::Array(Array { is_uuid, is_blob: !is_uuid, ..Array::new(blob_byte(), count) }))
            }
            "dynamic-length-blob" => {
                let length = self.length(json, place)?;
                Ok(FieldClass::Sequence(Sequence { is_blob: true, ..Sequence::new(blob_byte(), length) }))
            }
            "structure" => self.structure(json, place),
            "static-length-array" | "dynamic-length-array" => {
                let align = align(json, "minimum-alignment")?;
                let of = if is_static { Ok(length(json)?) } else { Err(self.length(json, place)?) };
                let element =
                    json.get("element-field-class").ok_or("an array without its elements' class")?;
                let element = self.class(element, place)?;
                Ok(match of {
                    Ok(count) => FieldClass::Array(Array { align, ..Array::new(element, count) }),
                    Err(length) => FieldClass::Sequence(Sequence { align, ..Sequence::new(element, length) }),
                })
            }
            "optional" => self.optional(json, place),
            "variant" => self.variant(json, place),
            other => Err(format!("fields of class {other} are not read")),
        }
    }

    fn integer(&mut self, json: &Json, kind: &str, place: &mut Place) -> Result<FieldClass, String> {
        let is_signed = kind.ends_with("-signed-integer");
        let base = match optional::<u8>(json.get("preferred-display-base"), "a base")? {
            Some(2) => Base::Binary,
            Some(8) => Base::Octal,
            Some(16) => Base::Hexadecimal,
            None | Some(10) => Base::Decimal,
            Some(other) => return Err(format!("{other} is no base: they are 2, 8, 10 and 16")),
        };
        let mut int = match kind.starts_with("variable-") {
            true => Int { base, ..Int::variable(is_signed) },
            false => Int { base, ..bit_array(json, kind, is_signed)? },
        };
        for role in roles(json).filter(|_| !is_signed) {
            if role == TIME {
                int.clock = Some(place.clock.ok_or("a time in a stream without a clock")?);
                if place.scope == Scope::PacketContext {
                    int.role = Some(Role::BeginTime);
                }
            } else if let Some((_, known)) = ROLES.iter().find(|(name, _)| *name == role) {
                int.role = Some(*known);
                if *known == Role::EndTime {
                    int.clock = place.clock;
                }
            }
        }
        self.define(place, |kinds| if is_signed { kinds.signed = true } else { kinds.unsigned = true });
        let labels = labels(json.get("mappings"), "label")?;
        Ok(match labels.is_empty() {
            true => FieldClass::Int(int),
            false => FieldClass::Enum(Enum { int, labels }),
        })
    }

    fn structure(&mut self, json: &Json, place: &mut Place) -> Result<FieldClass, String> {
        let mut fields: Vec<Field> = Vec::new();
        for member in list(json, "member-classes")? {
            no_extensions(member)?;
            let name = text(member, "name")?.ok_or("a member without a name")?;
            if fields.iter().any(|field| field.name == name) {
                return Err(format!("a structure has two members {name}"));
            }
            place.names.push(name.to_owned());
            let class = self.class(field_class(member)?, place)?;
            place.names.pop();
            fields.push(Field::new(name, class));
        }
        Ok(FieldClass::Struct(Struct { fields, align: align(json, "minimum-alignment")? }))
    }

    fn optional(&mut self, json: &Json, place: &mut Place) -> Result<FieldClass, String> {
        let (selector, kinds) = self.located(json, "selector-field-location", place)?;
        let given = json.get("selector-field-ranges").map(ranges).transpose()?;
        let is_boolean = kinds == Kinds { boolean: true, ..Kinds::default() };
        if !is_boolean && !is_integer(kinds) {
            let names = selector.names.join(".");
            return Err(format!("{names}, the selector of an optional field, is of several classes"));
        }
        let ranges = match given {
            _ if is_boolean => None,
            None => return Err("an optional field without the ranges of its selector".to_owned()),
            given => given,
        };
        let field = Box::new(self.class(field_class(json)?, place)?);
        Ok(FieldClass::Optional(Optional { selector, ranges, field }))
    }

    fn variant(&mut self, json: &Json, place: &mut Place) -> Result<FieldClass, String> {
        let (selector, kinds) = self.located(json, "selector-field-location", place)?;
        if !is_integer(kinds) {
            let names = selector.names.join(".");
            return Err(format!("{names}, the selector of a variant, is no integer, or signed and unsigned"));
        }
        let mut options: Vec<Choice> = Vec::new();
        let mut names = Vec::new();
        for (index, option) in list(json, "options")?.iter().enumerate() {
            no_extensions(option)?;
            let name = text(option, "name")?;
            if name.is_some() && names.contains(&name) {
                return Err(format!("a variant has two options {}", name.unwrap_or_default()));
            }
            names.push(name);
            // Members of an option are referred to without its name.
            let class = self.class(field_class(option)?, place)?;
            let ranges = ranges(option.get("selector-field-ranges").unwrap_or(&Json::Null))?;
            let name = name.map_or_else(|| index.to_string(), str::to_owned);
            options.push(Choice { field: Field::new(name, class), ranges });
        }
        if options.is_empty() {
            return Err("a variant without options".to_owned());
        }
        let mut all: Vec<(i128, i128)> = options.iter().flat_map(|choice| &choice.ranges).copied().collect();
        all.sort_unstable();
        match all.windows(2).find(|pair| pair[1].0 <= pair[0].1) {
            Some(pair) => Err(format!("the value {} chooses two options of a variant", pair[1].0)),
            None => Ok(FieldClass::Variant(Variant { selector, options })),
        }
    }

    /// What may be referred to by the name of the field at this place.
    fn define(&mut self, place: &Place, change: impl FnOnce(&mut Kinds)) {
        let reference = Reference { scope: place.scope, names: place.names.clone() };
        change(self.known[layer(place.scope)].entry(reference).or_default());
    }

    /// The field that says the length of what is at this place.
    fn length(&self, json: &Json, place: &Place) -> Result<Reference, String> {
        let (length, kinds) = self.located(json, "length-field-location", place)?;
        match kinds == (Kinds { unsigned: true, ..Kinds::default() }) {
            true => Ok(length),
            false => Err(format!("{} is no unsigned integer, which a length is", length.names.join("."))),
        }
    }

    /// `{"origin": SCOPE, "path": [NAME, …]}`; without an origin from the structure around the field, `null` being the one around that.
    fn located(&self, json: &Json, key: &str, place: &Place) -> Result<(Reference, Kinds), String> {
        let location = json.get(key).ok_or_else(|| format!("{key} is missing"))?;
        let Some(Json::List(path)) = location.get("path") else { return Err(format!("no path in {key}")) };
        if !matches!(path.last(), Some(Json::Text(_))) {
            return Err(format!("the path in {key} leads to no field"));
        }
        let (scope, mut names) = match text(location, "origin")? {
            Some(origin) => {
                let scope = Scope::ALL.iter().find(|(.., name)| *name == origin);
                (scope.ok_or_else(|| format!("{origin} is no origin"))?.0, Vec::new())
            }
            None => (place.scope, place.names.split_last().map_or(Vec::new(), |(_, around)| around.to_vec())),
        };
        for step in path {
            match step {
                Json::Text(name) => names.push(name.clone()),
                // A structure has one name more than the one around it.
                Json::Null => drop(names.pop().ok_or("a path that leads out of its scope")?),
                other => return Err(format!("{} is no step of a path", shown(Some(other)))),
            }
        }
        let reference = Reference { scope, names };
        match self.known[layer(scope)].get(&reference) {
            Some(kinds) => Ok((reference, *kinds)),
            None => {
                Err(format!("{key}: no integer and no boolean {} is before this", reference.names.join(".")))
            }
        }
    }
}

/// Which of [`Builder::known`] is of the scope.
fn layer(scope: Scope) -> usize {
    match scope {
        Scope::PacketHeader => 0,
        Scope::PacketContext | Scope::EventHeader | Scope::CommonContext => 1,
        Scope::SpecificContext | Scope::Payload => 2,
    }
}

fn is_integer(kinds: Kinds) -> bool {
    !kinds.boolean && kinds.signed != kinds.unsigned
}

fn has_uuid(class: &FieldClass) -> bool {
    match class {
        FieldClass::Struct(of) => of.fields.iter().any(|field| has_uuid(&field.class)),
        FieldClass::Array(array) => array.is_uuid,
        _ => false,
    }
}

/// What all bits of a fixed number have.
fn bit_array(json: &Json, kind: &str, is_signed: bool) -> Result<Int, String> {
    let bits: u64 = number(json.get("length"), "a length in bits")?;
    if !(1..=64).contains(&bits) {
        return Err(format!("a {kind} of {bits} bits is not read: those of 1 to 64 are"));
    }
    let (order, natural) = match text(json, "byte-order")? {
        Some("little-endian") => (ByteOrder::Little, "first-to-last"),
        Some("big-endian") => (ByteOrder::Big, "last-to-first"),
        _ => return Err("a byte order is little-endian or big-endian".to_owned()),
    };
    let is_reversed = match text(json, "bit-order")? {
        None => false,
        Some(order @ ("first-to-last" | "last-to-first")) => order != natural,
        Some(_) => return Err("a bit order is first-to-last or last-to-first".to_owned()),
    };
    let align = align(json, "alignment")?;
    Ok(Int { align, is_reversed, ..Int::packed(bits as u8, is_signed, order) })
}

fn blob_byte() -> FieldClass {
    FieldClass::Int(Int { base: Base::Hexadecimal, ..Int::packed(8, false, ByteOrder::Little) })
}

fn align(json: &Json, key: &str) -> Result<u32, String> {
    let align: u32 = optional(json.get(key), "an alignment")?.unwrap_or(1);
    if !align.is_power_of_two() || align > ALIGN_BITS_MAX {
        return Err(format!("{align} is no alignment: they are powers of two up to {ALIGN_BITS_MAX}"));
    }
    Ok(align)
}

fn length(json: &Json) -> Result<u64, String> {
    number(json.get("length"), "a length")
}

/// `None`: UTF-8.
fn encoding(json: &Json) -> Result<Option<Encoding>, String> {
    match text(json, "encoding")? {
        None | Some("utf-8") => Ok(None),
        Some(other) => {
            let known = Encoding::ALL.iter().find(|(name, _)| *name == other);
            known
                .map(|(_, encoding)| Some(*encoding))
                .ok_or_else(|| format!("strings in {other} are not read"))
        }
    }
}

/// Names with their ranges of numbers or of bits.
fn labels(json: Option<&Json>, what: &str) -> Result<Vec<(String, i128, i128)>, String> {
    let mut labels = Vec::new();
    for (label, of) in json.map_or(&[][..], Json::members) {
        let of = ranges(of).map_err(|text| format!("{what} {label}: {text}"))?;
        labels.extend(of.into_iter().map(|(first, last)| (label.clone(), first, last)));
        if labels.len() > MEMBERS_MAX {
            return Err(format!("more than {MEMBERS_MAX} {what}s of one field"));
        }
    }
    Ok(labels)
}

fn ranges(json: &Json) -> Result<Vec<(i128, i128)>, String> {
    let Json::List(ranges) = json else { return Err("ranges are a list of pairs".to_owned()) };
    if ranges.is_empty() || ranges.len() > MEMBERS_MAX {
        return Err(format!("{} ranges: there are 1 to {MEMBERS_MAX}", ranges.len()));
    }
    let range = |json: &Json| match json {
        Json::List(ends) => match ends[..] {
            [Json::Int(first), Json::Int(last)] if first <= last => Ok((first, last)),
            [Json::Int(_), Json::Int(_)] => Err("a range that ends before it begins".to_owned()),
            _ => Err("a range is two integers".to_owned()),
        },
        _ => Err("a range is two integers".to_owned()),
    };
    ranges.iter().map(range).collect()
}

fn roles(json: &Json) -> impl Iterator<Item = &str> {
    let roles = match json.get("roles") {
        Some(Json::List(roles)) => &roles[..],
        _ => &[],
    };
    roles.iter().filter_map(|role| if let Json::Text(role) = role { Some(role.as_str()) } else { None })
}

fn field_class(json: &Json) -> Result<&Json, String> {
    json.get("field-class").ok_or_else(|| "a field class is missing".to_owned())
}

fn list<'j>(json: &'j Json, key: &str) -> Result<&'j [Json], String> {
    match json.get(key) {
        None => Ok(&[]),
        Some(Json::List(values)) if values.len() > MEMBERS_MAX => {
            Err(format!("more than {MEMBERS_MAX} {key}"))
        }
        Some(Json::List(values)) => Ok(values),
        Some(_) => Err(format!("{key} is no list")),
    }
}

/// Who does not know an extension must not read on (5.1).
fn no_extensions(json: &Json) -> Result<(), String> {
    let extensions = json.get("extensions").map_or(&[][..], Json::members);
    let mut names = extensions
        .iter()
        .flat_map(|(namespace, of)| of.members().iter().map(move |(name, _)| format!("{namespace}: {name}")));
    match names.next() {
        Some(name) => Err(format!("the trace has an extension that is not known, {name}")),
        None => Ok(()),
    }
}

/// LTTng's attribute.
fn level(json: &Json) -> Option<i64> {
    match json.get("attributes")?.get(LTTNG)?.get("log-level")? {
        Json::Int(level) => i64::try_from(*level).ok(),
        _ => None,
    }
}

fn text<'j>(json: &'j Json, key: &str) -> Result<Option<&'j str>, String> {
    match json.get(key) {
        None => Ok(None),
        Some(Json::Text(text)) => Ok(Some(text)),
        other => Err(format!("{key} is {}, not a string", shown(other))),
    }
}

fn number<T: TryFrom<i128>>(json: Option<&Json>, what: &str) -> Result<T, String> {
    let value = if let Some(Json::Int(value)) = json { T::try_from(*value).ok() } else { None };
    value.ok_or_else(|| format!("{} is not {what}", shown(json)))
}

fn optional<T: TryFrom<i128>>(json: Option<&Json>, what: &str) -> Result<Option<T>, String> {
    json.map(|_| number(json, what)).transpose()
}

/// For messages: what was given, as far as a line has room for it.
fn shown(json: Option<&Json>) -> String {
    let Some(json) = json else { return "nothing".to_owned() };
    let mut text = String::new();
    json.write(&mut text);
    if text.chars().count() > 40 { text.chars().take(40).chain("…".chars()).collect() } else { text }
}

fn uuid(json: &Json) -> Result<[u8; 16], String> {
    let Json::List(bytes) = json else { return Err("a UUID is a list of 16 bytes".to_owned()) };
    let bytes: Result<Vec<u8>, String> =
        bytes.iter().map(|byte| number(Some(byte), "a byte of a UUID")).collect();
    bytes?.try_into().map_err(|_| "a UUID has 16 bytes".to_owned())
}

/// `6ba7b810-9dad-11d1-80b4-00c04fd430c8`; what a clock's uid is otherwise is nobody's matter.
fn uuid_of_text(text: &str) -> Option<[u8; 16]> {
    let is_dash = |at: usize| matches!(at, 8 | 13 | 18 | 23);
    let is_sound = |(at, c): (usize, char)| if is_dash(at) { c == '-' } else { c.is_ascii_hexdigit() };
    let is_uuid = text.len() == 36 && text.chars().enumerate().all(is_sound);
    let digits: String = text.chars().filter(|c| *c != '-').collect();
    u128::from_str_radix(&digits, 16).ok().filter(|_| is_uuid).map(u128::to_be_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn class(fields: &str) -> Result<TraceClass, Fault> {
        let text = format!(
            "\u{1e}{{\"type\":\"preamble\",\"version\":2}}\n\u{1e}{{\"type\":\"data-stream-class\"}}\n\
             \u{1e}{{\"type\":\"event-record-class\",\"name\":\"e\",\"payload-field-class\":{{\"type\":\"structure\",\"member-classes\":[
             {fields}]}}}}"
        );
        read(text.as_bytes())
    }

    fn of(field: &str) -> Result<TraceClass, Fault> {
        class(&format!("{{\"name\":\"a\",\"field-class\":{field}}}"))
    }

    #[track_caller]
    fn check_refused(field: &str, expected: &str) {
        let fault = of(field).expect_err(field);
        assert!(fault.message.contains(expected) && fault.offset > 40, "{field}: {fault:?}");
        assert!(fault.message.starts_with("event e: payload-field-class, a: "), "{field}: {fault:?}");
    }

    #[test]
    fn what_cannot_be_read_is_refused_by_name() {
        check_refused(r#"{"type":"decimal"}"#, "fields of class decimal are not read");
        check_refused(
            r#"{"type":"fixed-length-unsigned-integer","length":65,"byte-order":"big-endian"}"#,
            "a fixed-length-unsigned-integer of 65 bits is not read",
        );
        check_refused(r#"{"type":"fixed-length-boolean","length":0}"#, "a fixed-length-boolean of 0 bits");
        check_refused(
            r#"{"type":"fixed-length-floating-point-number","length":48,"byte-order":"big-endian"}"#,
            "a fixed-length-floating-point-number of 48 bits is not read",
        );
        check_refused(
            r#"{"type":"fixed-length-floating-point-number","length":128,"byte-order":"big-endian"}"#,
            "a fixed-length-floating-point-number of 128 bits is not read",
        );
        check_refused(r#"{"type":"fixed-length-unsigned-integer","length":8}"#, "a byte order is");
        check_refused(
            r#"{"type":"fixed-length-bit-array","length":8,"byte-order":"big-endian","bit-order":"any"}"#,
            "a bit order is",
        );
        check_refused(
            r#"{"type":"fixed-length-bit-map","length":8,"byte-order":"big-endian","flags":{}}"#,
            "without flags",
        );
        check_refused(
            r#"{"type":"fixed-length-bit-map","length":8,"byte-order":"big-endian","flags":{"x":[[2,1]]}}"#,
            "flag x: a range that ends before it begins",
        );
        check_refused(r#"{"type":"null-terminated-string","encoding":"latin1"}"#, "in latin1");
        check_refused(r#""nosuch""#, "no field class is called nosuch");
        check_refused(r#"{"type":"dynamic-length-string"}"#, "length-field-location is missing");
        check_refused(
            r#"{"type":"dynamic-length-blob","length-field-location":{"path":["n"]}}"#,
            "no integer and no boolean n is before this",
        );
        check_refused(
            r#"{"type":"dynamic-length-blob","length-field-location":{"path":[null,"n"]}}"#,
            "leads out of its scope",
        );
        check_refused(
            r#"{"type":"static-length-array","length":2,"element-field-class":{"type":"structure","extensions":{"my":{"x":1}}}}"#,
            "an extension that is not known, my: x",
        );
        assert!(of(r#"{"type":"null-terminated-string","extensions":{}}"#).is_ok());
    }

    #[test]
    fn what_refers_to_something_wrong_is_refused() {
        const FIELDS: &str = r#"{"name":"b","field-class":{"type":"fixed-length-boolean","length":1,"byte-order":"little-endian"}},
            {"name":"s","field-class":{"type":"variable-length-signed-integer"}},
            {"name":"n","field-class":{"type":"variable-length-unsigned-integer"}},"#;
        let check = |class_of: &str, expected: Result<(), &str>| {
            let found = class(&format!("{FIELDS}{{\"name\":\"a\",\"field-class\":{class_of}}}"));
            match expected {
                Ok(()) => drop(found.unwrap()),
                Err(text) => {
                    let fault = found.expect_err(class_of);
                    assert!(fault.message.contains(text), "{class_of}: {fault:?}");
                }
            }
        };
        let dynamic = |name: &str| {
            format!(r#"{{"type":"dynamic-length-string","length-field-location":{{"path":["{name}"]}}}}"#)
        };
        check(&dynamic("n"), Ok(()));
        check(&dynamic("s"), Err("s is no unsigned integer"));
        check(&dynamic("b"), Err("b is no unsigned integer"));
        let optional = |name: &str, more: &str| {
            format!(
                r#"{{"type":"optional","selector-field-location":{{"origin":"event-record-payload","path":["{name}"]}},
                "field-class":{{"type":"structure"}}{more}}}"#
            )
        };
        check(&optional("b", ""), Ok(()));
        check(&optional("s", r#","selector-field-ranges":[[-3,1]]"#), Ok(()));
        check(&optional("s", ""), Err("without the ranges"));
        check(&optional("s", r#","selector-field-ranges":[]"#), Err("0 ranges"));
        let variant = |name: &str, options: &str| {
            format!(
                r#"{{"type":"variant","selector-field-location":{{"path":["{name}"]}},"options":[{options}]}}"#
            )
        };
        let option = |name: &str, from: i32, to: i32| {
            format!(
                r#"{{"name":"{name}","selector-field-ranges":[[{from},{to}]],"field-class":{{"type":"structure"}}}}"#
            )
        };
        let two = |one: String, other: String| format!("{one},{other}");
        check(&variant("n", &two(option("x", 0, 3), option("y", 4, 4))), Ok(()));
        check(&variant("n", ""), Err("without options"));
        check(&variant("b", &option("x", 0, 3)), Err("is no integer"));
        check(&variant("n", &two(option("x", 0, 3), option("y", 3, 4))), Err("the value 3 chooses two"));
        check(&variant("n", &two(option("x", 0, 3), option("x", 4, 4))), Err("two options x"));
    }

    #[test]
    fn fragments_are_in_order_and_there_once() {
        let check = |fragments: &[&str], expected: &str| {
            let text: String = fragments.iter().map(|fragment| format!("\u{1e}{{{fragment}}}\n")).collect();
            let fault = read(text.as_bytes()).expect_err(&text);
            assert!(fault.message.contains(expected), "{text}: {fault:?}");
        };
        let preamble = r#""type":"preamble","version":2"#;
        let stream = r#""type":"data-stream-class""#;
        check(&[stream], "the first fragment is no preamble");
        check(&[preamble, preamble], "a second preamble");
        check(&[r#""type":"preamble","version":3"#], "this is version 3 of the format, not 2");
        check(&[r#""type":"preamble""#], "this is version nothing of the format");
        check(
            &[r#""type":"preamble","version":2,"extensions":{"my.tracer":{"piano":null}}"#],
            "my.tracer: piano",
        );
        check(&[preamble, stream, r#""type":"trace-class""#], "behind a stream's");
        check(&[preamble, stream, stream], "two streams 0");
        check(&[preamble, r#""type":"event-record-class""#], "stream 0, which is not there");
        let clock = r#""type":"clock-class","id":"c","frequency":1"#;
        check(&[preamble, clock, clock], "two clocks c");
        check(&[preamble, r#""type":"clock-class","id":"c","frequency":0"#], "never moves");
        let alias = r#""type":"field-class-alias","name":"u","field-class":{"type":"structure"}"#;
        check(&[preamble, alias, alias], "two aliases u");
        check(&[preamble, r#""type":"nosuch""#], "nosuch is no type");
        let header = r#""type":"trace-class","packet-header-field-class":{"type":"structure","member-classes":[
            {"name":"u","field-class":{"type":"static-length-blob","length":16,"roles":["metadata-stream-uuid"]}}]}"#;
        check(&[preamble, header], "and it has none");
    }

    #[test]
    fn a_class_that_contains_itself_is_refused() {
        let text = "\u{1e}{\"type\":\"preamble\",\"version\":2}\u{1e}{\"type\":\"field-class-alias\",\"name\":\"a\",\
            \"field-class\":{\"type\":\"structure\",\"member-classes\":[{\"name\":\"b\",\"field-class\":\"a\"}]}}\
            \u{1e}{\"type\":\"trace-class\",\"packet-header-field-class\":\"a\"}";
        assert!(read(text.as_bytes()).unwrap_err().message.contains("more than 32 deep"));
        assert_eq!(read(b"\x1e{").unwrap_err().offset, 2);
        assert_eq!(read(b"\x1e{\"\xff\"").unwrap_err().offset, 3);
    }
}
