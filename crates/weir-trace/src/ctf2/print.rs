//! A trace class → CTF 2's JSON texts, which [`super::read`] makes the same class of again.
//!
//! Labels, members and the environment keep their order. Names of variants' options stand in no reference, as the format has it.

use crate::class::{
    Array, Base, ByteOrder, Encoding, Enum, EventClass, Field, FieldClass, Float, Int, Length, Optional,
    Reference, Role, Scope, Sequence, StreamClass, TraceClass, Value, Wide,
};
use crate::ctf2::json::Json;
use crate::ctf2::{LTTNG, ROLES, SEPARATOR, TIME, UUID};
use crate::path;
use crate::tsdl::print::dashed;

/// The fragments.
pub(crate) fn print(trace: &TraceClass) -> Vec<u8> {
    let mut fragments = vec![preamble(trace), trace_class(trace)];
    let clocks = clock_ids(trace);
    for (clock, id) in trace.clocks.iter().zip(&clocks) {
        let offset = Json::object([
            ("seconds", Json::from(clock.offset_s)),
            ("cycles", Json::from(clock.offset_cycles)),
        ]);
        let mut fragment = Json::object([
            ("type", Json::from("clock-class")),
            ("id", Json::from(id.as_str())),
            ("name", Json::from(clock.name.as_str())),
        ]);
        if let Some(uuid) = clock.uuid {
            fragment.push("uid", Json::from(dashed(uuid).as_str()));
        }
        fragment.push("frequency", Json::from(clock.frequency));
        fragment.push("origin", Json::from("unix-epoch"));
        fragment.push("offset-from-origin", offset);
        if clock.precision != 0 {
            fragment.push("precision", Json::from(clock.precision));
        }
        if let Some(text) = &clock.description {
            fragment.push("description", Json::from(text.as_str()));
        }
        fragments.push(fragment);
    }
    for stream in &trace.streams {
        fragments.push(stream_class(trace, stream, &clocks));
        fragments.extend(stream.events.iter().map(|event| event_class(trace, stream, event)));
    }
    let mut text = String::new();
    for fragment in fragments {
        text.push(char::from(SEPARATOR));
        fragment.write(&mut text);
        text.push('\n');
    }
    text.into_bytes()
}

fn preamble(trace: &TraceClass) -> Json {
    let mut fragment = Json::object([("type", Json::from("preamble")), ("version", Json::Int(2))]);
    if let Some(uuid) = trace.uuid {
        fragment.push("uuid", uuid.into_iter().map(Json::from).collect());
    }
    fragment
}

fn trace_class(trace: &TraceClass) -> Json {
    let mut fragment = Json::object([("type", Json::from("trace-class"))]);
    if !trace.environment.is_empty() {
        let entries = trace.environment.iter().map(|(name, value)| {
            let value = match value {
                Value::Str(text) => Json::from(text.as_str()),
                Value::Int(value) => Json::from(*value),
            };
            (name.as_str(), value)
        });
        fragment.push("environment", Json::object(entries));
    }
    let scopes = Scopes { trace, stream: None, event: None };
    scopes.add(&mut fragment, "packet-header-field-class", trace.packet_header.as_ref());
    fragment
}

/// Their names, as far as each is there once.
fn clock_ids(trace: &TraceClass) -> Vec<String> {
    let name = |index: usize| &trace.clocks[index].name;
    let is_taken = |index: usize| (0..index).any(|before| name(before) == name(index));
    let id = |index| if is_taken(index) { format!("{}#{index}", name(index)) } else { name(index).clone() };
    (0..trace.clocks.len()).map(id).collect()
}

fn stream_class(trace: &TraceClass, stream: &StreamClass, clocks: &[String]) -> Json {
    let mut fragment =
        Json::object([("type", Json::from("data-stream-class")), ("id", Json::from(stream.id))]);
    if let Some(name) = &stream.name {
        fragment.push("name", Json::from(name.as_str()));
    }
    if let Some(id) = stream.clock.and_then(|clock| clocks.get(clock)) {
        fragment.push("default-clock-class-id", Json::from(id.as_str()));
    }
    let scopes = Scopes { trace, stream: Some(stream), event: None };
    for (key, field) in [
        ("packet-context-field-class", &stream.packet_context),
        ("event-record-header-field-class", &stream.event_header),
        ("event-record-common-context-field-class", &stream.common_context),
    ] {
        scopes.add(&mut fragment, key, field.as_ref());
    }
    fragment
}

fn event_class(trace: &TraceClass, stream: &StreamClass, event: &EventClass) -> Json {
    let mut fragment = Json::object([
        ("type", Json::from("event-record-class")),
        ("data-stream-class-id", Json::from(stream.id)),
        ("id", Json::from(event.id)),
    ]);
    if let Some(name) = &event.name {
        fragment.push("name", Json::from(name.as_str()));
    }
    if let Some(level) = event.level {
        let level = Json::object([("log-level", Json::from(level))]);
        fragment.push("attributes", Json::object([(LTTNG, level)]));
    }
    let scopes = Scopes { trace, stream: Some(stream), event: Some(event) };
    scopes.add(&mut fragment, "specific-context-field-class", event.specific_context.as_ref());
    scopes.add(&mut fragment, "payload-field-class", event.payload.as_ref());
    fragment
}

/// What references lead to.
struct Scopes<'c> {
    trace: &'c TraceClass,
    stream: Option<&'c StreamClass>,
    event: Option<&'c EventClass>,
}

impl Scopes<'_> {
    fn add(&self, fragment: &mut Json, key: &str, field: Option<&Field>) {
        if let Some(field) = field {
            fragment.push(key, self.class(&field.class));
        }
    }

    fn class(&self, class: &FieldClass) -> Json {
        match class {
            FieldClass::Int(int) => integer(int),
            FieldClass::Enum(Enum { int, labels }) => {
                let mut json = integer(int);
                json.push("mappings", mappings(labels));
                json
            }
            FieldClass::Bool(int) => bit_array("fixed-length-boolean", int),
            FieldClass::Flags(Enum { int, labels }) => {
                let mut json = bit_array("fixed-length-bit-map", int);
                json.push("flags", mappings(labels));
                json
            }
            FieldClass::Float(float) => {
                let Float { bits, align, order, is_reversed } = *float;
                let int = Int { align, is_reversed, ..Int::packed(bits, false, order) };
                bit_array("fixed-length-floating-point-number", &int)
            }
            FieldClass::Str => Json::object([("type", Json::from("null-terminated-string"))]),
            FieldClass::Wide(of) => self.wide(of),
            FieldClass::Struct(of) => {
                let member = |field: &Field| {
                    let class = self.class(&field.class);
                    Json::object([("name", Json::from(field.name.as_str())), ("field-class", class)])
                };
                Json::object([
                    ("type", Json::from("structure")),
                    ("minimum-alignment", Json::from(of.align.max(1))),
                    ("member-classes", of.fields.iter().map(member).collect()),
                ])
            }
            FieldClass::Array(Array { is_uuid: true, .. }) => Json::object([
                ("type", Json::from("static-length-blob")),
                ("length", Json::Int(16)),
                ("roles", [Json::from(UUID)].into_iter().collect()),
            ]),
            FieldClass::Array(Array { element, count, align, is_blob, .. }) => {
                let sized = |kind| sized(kind, "length", Json::from(*count));
                match is_text(element, *align) {
                    _ if *is_blob => sized("static-length-blob"),
                    true => sized("static-length-string"),
                    false => self.with_elements(sized("static-length-array"), element, *align),
                }
            }
            FieldClass::Sequence(Sequence { element, length, align, is_blob }) => {
                let sized = |kind| sized(kind, "length-field-location", self.location(length));
                match is_text(element, *align) {
                    _ if *is_blob => sized("dynamic-length-blob"),
                    true => sized("dynamic-length-string"),
                    false => self.with_elements(sized("dynamic-length-array"), element, *align),
                }
            }
            FieldClass::Variant(of) => {
                let options = of.options.iter().map(|choice| {
                    Json::object([
                        ("name", Json::from(choice.field.name.as_str())),
                        ("selector-field-ranges", ranges(&choice.ranges)),
                        ("field-class", self.class(&choice.field.class)),
                    ])
                });
                Json::object([
                    ("type", Json::from("variant")),
                    ("selector-field-location", self.location(&of.selector)),
                    ("options", options.collect()),
                ])
            }
            FieldClass::Optional(Optional { selector, ranges: of, field }) => {
                let mut json = sized("optional", "selector-field-location", self.location(selector));
                if let Some(of) = of {
                    json.push("selector-field-ranges", ranges(of));
                }
                json.push("field-class", self.class(field));
                json
            }
        }
    }

    fn with_elements(&self, mut json: Json, element: &FieldClass, align: u32) -> Json {
        if align > 1 {
            json.push("minimum-alignment", Json::from(align));
        }
        json.push("element-field-class", self.class(element));
        json
    }

    fn wide(&self, of: &Wide) -> Json {
        let mut json = match &of.length {
            Length::UpToNul => Json::object([("type", Json::from("null-terminated-string"))]),
            Length::Fixed(bytes) => sized("static-length-string", "length", Json::from(*bytes)),
            Length::Dynamic(length) => {
                sized("dynamic-length-string", "length-field-location", self.location(length))
            }
        };
        let known = Encoding::ALL.iter().find(|(_, encoding)| *encoding == of.encoding);
        // SANITY: the table has all of them.
        json.push("encoding", Json::from(known.expect("an encoding").0));
        json
    }

    fn location(&self, reference: &Reference) -> Json {
        let stream =
            |of: fn(&StreamClass) -> &Option<Field>| self.stream.and_then(|stream| of(stream).as_ref());
        let event = |of: fn(&EventClass) -> &Option<Field>| self.event.and_then(|event| of(event).as_ref());
        let root = match reference.scope {
            Scope::PacketHeader => self.trace.packet_header.as_ref(),
            Scope::PacketContext => stream(|of| &of.packet_context),
            Scope::EventHeader => stream(|of| &of.event_header),
            Scope::CommonContext => stream(|of| &of.common_context),
            Scope::SpecificContext => event(|of| &of.specific_context),
            Scope::Payload => event(|of| &of.payload),
        };
        let plain = path::without_options(reference, root.map(|field| &field.class));
        Json::object([
            ("origin", Json::from(Scope::ALL[plain.scope as usize].2)),
            ("path", plain.names.iter().map(|name| Json::from(name.as_str())).collect()),
        ])
    }
}

/// What CTF 2 has strings for. They are aligned to bytes and no further.
fn is_text(element: &FieldClass, align: u32) -> bool {
    element.is_character() && align <= 8
}

fn sized(kind: &str, key: &str, size: Json) -> Json {
    Json::object([("type", Json::from(kind)), (key, size)])
}

/// Ranges by label, each label once, in the order in which labels come first.
fn mappings(labels: &[(String, i128, i128)]) -> Json {
    let mut by_label: Vec<(&str, Vec<(i128, i128)>)> = Vec::new();
    for (label, first, last) in labels {
        match by_label.iter_mut().find(|(known, _)| known == label) {
            Some((_, ranges)) => ranges.push((*first, *last)),
            None => by_label.push((label, vec![(*first, *last)])),
        }
    }
    Json::object(by_label.into_iter().map(|(label, of)| (label, ranges(&of))))
}

fn ranges(ranges: &[(i128, i128)]) -> Json {
    ranges.iter().map(|(first, last)| [*first, *last].into_iter().map(Json::from).collect()).collect()
}

fn bit_array(kind: &str, int: &Int) -> Json {
    let order = match int.order {
        ByteOrder::Little => "little-endian",
        ByteOrder::Big => "big-endian",
    };
    let mut json = Json::object([
        ("type", Json::from(kind)),
        ("length", Json::from(int.bits)),
        ("byte-order", Json::from(order)),
    ]);
    if int.is_reversed {
        let bits = if int.order == ByteOrder::Little { "last-to-first" } else { "first-to-last" };
        json.push("bit-order", Json::from(bits));
    }
    json.push("alignment", Json::from(int.align));
    json
}

fn integer(int: &Int) -> Json {
    let mut json = match (int.is_variable, int.is_signed) {
        (true, true) => Json::object([("type", Json::from("variable-length-signed-integer"))]),
        (true, false) => Json::object([("type", Json::from("variable-length-unsigned-integer"))]),
        (false, true) => bit_array("fixed-length-signed-integer", int),
        (false, false) => bit_array("fixed-length-unsigned-integer", int),
    };
    let base = match int.base {
        Base::Binary => 2,
        Base::Octal => 8,
        Base::Decimal => 10,
        Base::Hexadecimal => 16,
    };
    json.push("preferred-display-base", Json::Int(base));
    let named = ROLES.iter().find(|(_, role)| int.role == Some(*role)).map(|(name, _)| *name);
    let time = (int.clock.is_some() && int.role != Some(Role::EndTime)).then_some(TIME);
    let roles: Vec<&str> = named.into_iter().chain(time).collect();
    if !roles.is_empty() {
        json.push("roles", roles.into_iter().map(Json::from).collect());
    }
    json
}
