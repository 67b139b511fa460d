//! CTF 2's metadata, a sequence of JSON texts: bytes → a trace class ([`read`]), and back ([`mod@print`]).
//!
//! As in CTF2-SPEC-2.0: each fragment is the byte 0x1e and an object; what means something says so by a role, whatever its name is.
//! Field classes by name are expanded where they are used, within a limit.
//!
//! Deliberately not read, and refused by name: optional fields, booleans, bit maps, integers of variable length, strings in UTF-16
//! and UTF-32, and elements that are aligned more than they ask for.

pub(crate) mod print;

use std::collections::HashMap;

use serde_json::{Map, Value as Json};

use crate::class::{
    Array, Base, ByteOrder, Choice, ClockClass, Enum, EventClass, Field, FieldClass, Float, Int, Reference,
    Role, Scope, Sequence, StreamClass, Struct, TraceClass, Value, Variant,
};
use crate::limits::{ALIGN_BITS_MAX, DEPTH_MAX, FIELDS_MAX, MEMBERS_MAX};

/// What is wrong, and the byte at which its fragment begins.
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
        let wrong = |message: String| Fault { offset: begin, message };
        let json: Json = serde_json::from_slice(fragment).map_err(|error| wrong(error.to_string()))?;
        builder.fragment(&json).map_err(wrong)?;
    }
    let mut trace = builder.trace;
    trace.streams.sort_by_key(|stream| stream.id);
    for stream in &mut trace.streams {
        stream.events.sort_by_key(|event| event.id);
    }
    Ok(trace)
}

#[derive(Default)]
struct Builder {
    trace: TraceClass,
    /// By their ids, in the order of the trace's clocks.
    clocks: Vec<String>,
    aliases: HashMap<String, Json>,
    fields: usize,
    has_preamble: bool,
}

/// Where a field class is expanded.
struct Place<'p> {
    scope: Scope,
    /// The stream's clock.
    clock: Option<usize>,
    /// The members that lead to it, and how many of them lead to each structure around it.
    names: &'p mut Vec<String>,
    levels: &'p mut Vec<usize>,
    depth: usize,
}

impl Builder {
    fn fragment(&mut self, json: &Json) -> Result<(), String> {
        let kind = text(json, "type")?.ok_or("a fragment without its type")?;
        if !self.has_preamble && kind != "preamble" {
            return Err("the first fragment is no preamble".to_owned());
        }
        match kind {
            "preamble" => {
                self.has_preamble = true;
                if json["version"] != 2 {
                    return Err(format!("this is version {} of the format, not 2", json["version"]));
                }
                self.trace.uuid = uuid(&json["uuid"])?;
            }
            "field-class-alias" => {
                let name = text(json, "name")?.ok_or("an alias without a name")?;
                self.aliases.insert(name.to_owned(), json["field-class"].clone());
            }
            "trace-class" => {
                for (name, value) in json["environment"].as_object().into_iter().flatten() {
                    let value = match value {
                        Json::String(text) => Value::Str(text.clone()),
                        Json::Number(_) => Value::Int(number(value, "a value of the environment")?),
                        _ => return Err(format!("{name} in the environment is no number and no string")),
                    };
                    self.trace.environment.push((name.clone(), value));
                }
                self.trace.packet_header =
                    self.scope(json, "packet-header-field-class", Scope::PacketHeader, None)?;
            }
            "clock-class" => self.clock(json)?,
            "data-stream-class" => self.stream(json)?,
            "event-record-class" => self.event(json)?,
            other => return Err(format!("{other} is no type of a fragment")),
        }
        Ok(())
    }

    fn clock(&mut self, json: &Json) -> Result<(), String> {
        // In older texts the name is the id.
        let id = text(json, "id")?.or(text(json, "name")?).ok_or("a clock without an id")?;
        let offset = &json["offset-from-origin"];
        let clock = ClockClass {
            name: text(json, "name")?.unwrap_or(id).to_owned(),
            uuid: None,
            description: text(json, "description")?.map(str::to_owned),
            frequency: number(&json["frequency"], "a clock's frequency")?,
            precision: optional(&json["precision"], "a clock's precision")?.unwrap_or(0),
            offset_s: optional(&offset["seconds"], "a clock's offset")?.unwrap_or(0),
            offset_cycles: optional(&offset["cycles"], "a clock's offset")?.unwrap_or(0),
            is_absolute: json["origin"] == "unix-epoch",
        };
        if clock.frequency == 0 {
            return Err("a clock of frequency 0 never moves".to_owned());
        }
        self.clocks.push(id.to_owned());
        self.trace.clocks.push(clock);
        Ok(())
    }

    fn stream(&mut self, json: &Json) -> Result<(), String> {
        let id = optional(&json["id"], "a stream's id")?.unwrap_or(0);
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
        let stream = StreamClass {
            id,
            name: text(json, "name")?.map(str::to_owned),
            clock,
            packet_context: self.scope(json, "packet-context-field-class", Scope::PacketContext, clock)?,
            event_header: self.scope(json, "event-record-header-field-class", Scope::EventHeader, clock)?,
            common_context: self.scope(
                json,
                "event-record-common-context-field-class",
                Scope::CommonContext,
                clock,
            )?,
            events: Vec::new(),
        };
        self.trace.streams.push(stream);
        Ok(())
    }

    fn event(&mut self, json: &Json) -> Result<(), String> {
        let id = optional(&json["id"], "an event's id")?.unwrap_or(0);
        let stream_id: u64 = optional(&json["data-stream-class-id"], "a stream's id")?.unwrap_or(0);
        let stream = self.trace.streams.iter().position(|stream| stream.id == stream_id);
        let stream =
            stream.ok_or_else(|| format!("this event is of stream {stream_id}, which is not there"))?;
        let clock = self.trace.streams[stream].clock;
        let event = EventClass {
            id,
            name: text(json, "name")?.map(str::to_owned),
            level: level(json),
            specific_context: self.scope(
                json,
                "specific-context-field-class",
                Scope::SpecificContext,
                clock,
            )?,
            payload: self.scope(json, "payload-field-class", Scope::Payload, clock)?,
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

    fn scope(
        &mut self,
        json: &Json,
        key: &str,
        scope: Scope,
        clock: Option<usize>,
    ) -> Result<Option<Field>, String> {
        let Some(class) = json.get(key) else { return Ok(None) };
        let mut place = Place { scope, clock, names: &mut Vec::new(), levels: &mut Vec::new(), depth: 0 };
        let class = self.class(class, &mut place)?;
        match class {
            FieldClass::Struct(_) => Ok(Some(Field::new("", class))),
            _ => Err(format!("{key} is no structure")),
        }
    }

    fn class(&mut self, json: &Json, place: &mut Place<'_>) -> Result<FieldClass, String> {
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

    fn class_at(&mut self, json: &Json, place: &mut Place<'_>) -> Result<FieldClass, String> {
        if let Json::String(name) = json {
            let class =
                self.aliases.get(name).ok_or_else(|| format!("no field class is called {name}"))?.clone();
            return self.class(&class, place);
        }
        let kind = text(json, "type")?.ok_or("a field class without its type")?;
        match kind {
            "fixed-length-unsigned-integer" | "fixed-length-signed-integer" | "fixed-length-bit-array" => {
                integer(json, kind, place)
            }
            "fixed-length-floating-point-number" => {
                let bits = bits(json)?;
                if bits != 32 && bits != 64 {
                    return Err(format!("a floating-point number of {bits} bits: they have 32 or 64"));
                }
                Ok(FieldClass::Float(Float { bits, align: align(json, "alignment")?, order: order(json)? }))
            }
            "null-terminated-string" => {
                utf8(json)?;
                Ok(FieldClass::Str)
            }
            "static-length-string" | "static-length-blob" => {
                let element = Box::new(byte(json, kind)?);
                let count = number(&json["length"], "a length")?;
                let is_uuid = roles(json).any(|role| role == UUID);
                if is_uuid && count != 16 {
                    return Err(format!("a UUID of {count} bytes"));
                }
                Ok(FieldClass::Array(Array { element, count, is_uuid }))
            }
            "dynamic-length-string" | "dynamic-length-blob" => {
                let element = Box::new(byte(json, kind)?);
                Ok(FieldClass::Sequence(Sequence {
                    element,
                    length: location(json, "length-field-location", place)?,
                }))
            }
            "structure" => self.structure(json, place),
            "static-length-array" | "dynamic-length-array" => {
                let element = Box::new(self.class(&json["element-field-class"], place)?);
                if align(json, "minimum-alignment")? > element.align() {
                    return Err("an array that is aligned more than its elements is not read".to_owned());
                }
                Ok(if kind == "static-length-array" {
                    let count = number(&json["length"], "a length")?;
                    FieldClass::Array(Array { element, count, is_uuid: false })
                } else {
                    FieldClass::Sequence(Sequence {
                        element,
                        length: location(json, "length-field-location", place)?,
                    })
                })
            }
            "variant" => {
                let selector = location(json, "selector-field-location", place)?;
                let mut options = Vec::new();
                for (index, option) in members(json, "options")?.iter().enumerate() {
                    let name = text(option, "name")?.map_or_else(|| index.to_string(), str::to_owned);
                    place.names.push(name.clone());
                    let class = self.class(&option["field-class"], place)?;
                    place.names.pop();
                    let ranges = ranges(&option["selector-field-ranges"])?;
                    options.push(Choice { field: Field::new(name, class), ranges });
                }
                Ok(FieldClass::Variant(Variant { selector, options }))
            }
            other => Err(format!("fields of class {other} are not read")),
        }
    }

    fn structure(&mut self, json: &Json, place: &mut Place<'_>) -> Result<FieldClass, String> {
        let mut fields: Vec<Field> = Vec::new();
        place.levels.push(place.names.len());
        for member in members(json, "member-classes")? {
            let name = text(member, "name")?.ok_or("a member without a name")?;
            if fields.iter().any(|field| field.name == name) {
                return Err(format!("a structure has two members {name}"));
            }
            place.names.push(name.to_owned());
            let class = self.class(&member["field-class"], place)?;
            place.names.pop();
            fields.push(Field::new(name, class));
        }
        place.levels.pop();
        Ok(FieldClass::Struct(Struct { fields, align: align(json, "minimum-alignment")? }))
    }
}

fn integer(json: &Json, kind: &str, place: &Place<'_>) -> Result<FieldClass, String> {
    let is_signed = kind == "fixed-length-signed-integer";
    let base = match optional::<u8>(&json["preferred-display-base"], "a base")? {
        Some(2) => Base::Binary,
        Some(8) => Base::Octal,
        Some(16) => Base::Hexadecimal,
        None if kind == "fixed-length-bit-array" => Base::Hexadecimal,
        None | Some(10) => Base::Decimal,
        Some(other) => return Err(format!("{other} is no base: they are 2, 8, 10 and 16")),
    };
    let bits = bits(json)?;
    let align = align(json, "alignment")?;
    let mut int =
        Int { bits, align, is_signed, order: order(json)?, base, is_text: false, clock: None, role: None };
    for role in roles(json).filter(|_| !is_signed) {
        if role == TIME {
            int.clock = Some(place.clock.ok_or("a time in a stream without a clock")?);
            if place.scope == Scope::PacketContext {
                int.role = Some(Role::BeginTime);
            }
        } else if let Some((_, known)) = ROLES.iter().find(|(name, _)| *name == role) {
            int.role = Some(*known);
        }
    }
    let Some(mappings) = json["mappings"].as_object() else { return Ok(FieldClass::Int(int)) };
    let mut labels = Vec::new();
    for (label, of) in mappings {
        labels.extend(ranges(of)?.into_iter().map(|(first, last)| (label.clone(), first, last)));
        if labels.len() > MEMBERS_MAX {
            return Err(format!("more than {MEMBERS_MAX} labels of one integer"));
        }
    }
    Ok(FieldClass::Enum(Enum { int, labels }))
}

/// The elements of a string or a blob.
fn byte(json: &Json, kind: &str) -> Result<FieldClass, String> {
    let is_text = kind.ends_with("string");
    if is_text {
        utf8(json)?;
    }
    let base = if is_text { Base::Decimal } else { Base::Hexadecimal };
    Ok(FieldClass::Int(Int { base, is_text, ..Int::packed(8, false, ByteOrder::Little) }))
}

fn utf8(json: &Json) -> Result<(), String> {
    match text(json, "encoding")? {
        None | Some("utf-8") => Ok(()),
        Some(other) => Err(format!("strings in {other} are not read")),
    }
}

fn bits(json: &Json) -> Result<u8, String> {
    let bits: u64 = number(&json["length"], "a length in bits")?;
    if (1..=64).contains(&bits) {
        Ok(bits as u8)
    } else {
        Err(format!("an integer of {bits} bits: they have 1 to 64"))
    }
}

fn align(json: &Json, key: &str) -> Result<u32, String> {
    let align: u32 = optional(&json[key], "an alignment")?.unwrap_or(1);
    if !align.is_power_of_two() || align > ALIGN_BITS_MAX {
        return Err(format!("{align} is no alignment: they are powers of two up to {ALIGN_BITS_MAX}"));
    }
    Ok(align)
}

fn order(json: &Json) -> Result<ByteOrder, String> {
    let (order, bits) = match text(json, "byte-order")? {
        Some("little-endian") => (ByteOrder::Little, "first-to-last"),
        Some("big-endian") => (ByteOrder::Big, "last-to-first"),
        _ => return Err("a byte order is little-endian or big-endian".to_owned()),
    };
    match text(json, "bit-order")? {
        Some(other) if other != bits => Err(format!("bits that go {other} are not read in this byte order")),
        _ => Ok(order),
    }
}

fn roles(json: &Json) -> impl Iterator<Item = &str> {
    json["roles"].as_array().into_iter().flatten().filter_map(Json::as_str)
}

/// `{"origin": SCOPE, "path": [NAME, …]}`; without an origin from the structure around the field, `null` being the one around that.
fn location(json: &Json, key: &str, place: &Place<'_>) -> Result<Reference, String> {
    let location = &json[key];
    let path = location["path"].as_array().ok_or_else(|| format!("no path in {key}"))?;
    let (scope, mut names) = match text(location, "origin")? {
        Some(origin) => {
            let scope = Scope::ALL.iter().find(|(.., name)| *name == origin);
            (scope.ok_or_else(|| format!("{origin} is no origin"))?.0, Vec::new())
        }
        None => {
            let around = place.levels.last().copied().unwrap_or(0);
            (place.scope, place.names[..around].to_vec())
        }
    };
    let mut levels = place.levels.iter().rev().skip(1);
    for step in path {
        match step {
            Json::String(name) => names.push(name.clone()),
            Json::Null => {
                let outer = levels.next().ok_or("a path that leads out of its scope")?;
                names.truncate(*outer);
            }
            other => return Err(format!("{other} is no step of a path")),
        }
    }
    Ok(Reference { scope, names })
}

fn ranges(json: &Json) -> Result<Vec<(i128, i128)>, String> {
    let ranges = json.as_array().ok_or("ranges are a list of pairs")?;
    if ranges.len() > MEMBERS_MAX {
        return Err(format!("more than {MEMBERS_MAX} ranges"));
    }
    let range = |json: &Json| -> Result<(i128, i128), String> {
        let (first, last) = (number(&json[0], "a range")?, number(&json[1], "a range")?);
        if first <= last { Ok((first, last)) } else { Err("a range that ends before it begins".to_owned()) }
    };
    ranges.iter().map(range).collect()
}

fn members<'j>(json: &'j Json, key: &str) -> Result<&'j [Json], String> {
    let members = json.get(key).and_then(Json::as_array).map_or(&[][..], Vec::as_slice);
    match members.len() > MEMBERS_MAX {
        true => Err(format!("more than {MEMBERS_MAX} {key}")),
        false => Ok(members),
    }
}

/// LTTng's attribute.
fn level(json: &Json) -> Option<i64> {
    let attributes: &Map<String, Json> = json["attributes"].as_object()?;
    attributes.get("lttng.org,2009")?["log-level"].as_i64()
}

fn text<'j>(json: &'j Json, key: &str) -> Result<Option<&'j str>, String> {
    match json.get(key) {
        None => Ok(None),
        Some(Json::String(text)) => Ok(Some(text)),
        Some(other) => Err(format!("{key} is {other}, not a string")),
    }
}

fn number<T: TryFrom<i128>>(json: &Json, what: &str) -> Result<T, String> {
    let value = json.as_u64().map(i128::from).or(json.as_i64().map(i128::from));
    value.and_then(|value| T::try_from(value).ok()).ok_or_else(|| format!("{json} is not {what}"))
}

fn optional<T: TryFrom<i128>>(json: &Json, what: &str) -> Result<Option<T>, String> {
    if json.is_null() { Ok(None) } else { number(json, what).map(Some) }
}

fn uuid(json: &Json) -> Result<Option<[u8; 16]>, String> {
    let Some(bytes) = json.as_array() else { return Ok(None) };
    let bytes: Result<Vec<u8>, String> = bytes.iter().map(|byte| number(byte, "a byte of a UUID")).collect();
    let bytes = bytes?;
    Ok(Some(bytes.try_into().map_err(|_| "a UUID has 16 bytes")?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn class(field: &str) -> Result<TraceClass, Fault> {
        let text = format!(
            "\u{1e}{{\"type\":\"preamble\",\"version\":2}}\n\u{1e}{{\"type\":\"data-stream-class\"}}\n\
             \u{1e}{{\"type\":\"event-record-class\",\"payload-field-class\":{{\"type\":\"structure\",\"member-classes\":[
             {{\"name\":\"a\",\"field-class\":{field}}}]}}}}"
        );
        read(text.as_bytes())
    }

    #[track_caller]
    fn check_refused(field: &str, expected: &str) {
        let fault = class(field).expect_err(field);
        assert!(fault.message.contains(expected) && fault.offset > 40, "{field}: {fault:?}");
    }

    #[test]
    fn what_cannot_be_read_is_refused_by_name() {
        check_refused(r#"{"type":"optional"}"#, "fields of class optional are not read");
        check_refused(r#"{"type":"variable-length-unsigned-integer"}"#, "are not read");
        check_refused(r#"{"type":"fixed-length-unsigned-integer","length":65}"#, "65 bits");
        check_refused(r#"{"type":"fixed-length-unsigned-integer","length":8}"#, "a byte order is");
        check_refused(r#"{"type":"null-terminated-string","encoding":"utf-16be"}"#, "in utf-16be");
        check_refused(r#""nosuch""#, "no field class is called nosuch");
        check_refused(r#"{"type":"dynamic-length-string"}"#, "no path in length-field-location");
        assert!(class(r#"{"type":"null-terminated-string"}"#).is_ok());
    }

    #[test]
    fn a_class_that_contains_itself_is_refused() {
        let text = "\u{1e}{\"type\":\"preamble\",\"version\":2}\u{1e}{\"type\":\"field-class-alias\",\"name\":\"a\",\
            \"field-class\":{\"type\":\"structure\",\"member-classes\":[{\"name\":\"b\",\"field-class\":\"a\"}]}}\
            \u{1e}{\"type\":\"trace-class\",\"packet-header-field-class\":\"a\"}";
        assert!(read(text.as_bytes()).unwrap_err().message.contains("more than 32 deep"));
        assert!(read(b"\x1e{\"type\":\"trace-class\"}").unwrap_err().message.contains("no preamble"));
        assert!(read(b"\x1e{").is_err());
    }
}
