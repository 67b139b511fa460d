//! A trace class → CTF 2's JSON texts, which [`super::read`] makes the same class of again.

use serde_json::{Map, Value as Json, json};

use crate::class::{
    Array, Base, ByteOrder, Enum, Field, FieldClass, Float, Int, Reference, Role, Scope, Sequence,
    TraceClass, Value,
};
use crate::ctf2::{ROLES, SEPARATOR, TIME, UUID};

/// The fragments.
pub(crate) fn print(trace: &TraceClass) -> Vec<u8> {
    let mut fragments = vec![json!({ "type": "preamble", "version": 2, "uuid": trace.uuid })];
    if trace.uuid.is_none() {
        fragments = vec![json!({ "type": "preamble", "version": 2 })];
    }
    let mut class = json!({ "type": "trace-class" });
    if !trace.environment.is_empty() {
        class["environment"] =
            trace.environment.iter().map(|(name, value)| (name.clone(), environment(value))).collect();
    }
    set(&mut class, "packet-header-field-class", trace.packet_header.as_ref());
    fragments.push(class);
    for clock in &trace.clocks {
        let mut fragment = json!({
            "type": "clock-class",
            "id": clock.name,
            "frequency": clock.frequency,
            "origin": "unix-epoch",
            "offset-from-origin": { "seconds": clock.offset_s, "cycles": clock.offset_cycles },
            "precision": clock.precision,
        });
        if let Some(text) = &clock.description {
            fragment["description"] = json!(text);
        }
        fragments.push(fragment);
    }
    for stream in &trace.streams {
        let mut class = json!({ "type": "data-stream-class", "id": stream.id });
        if let Some(name) = &stream.name {
            class["name"] = json!(name);
        }
        if let Some(clock) = stream.clock.and_then(|clock| trace.clocks.get(clock)) {
            class["default-clock-class-id"] = json!(clock.name);
        }
        set(&mut class, "packet-context-field-class", stream.packet_context.as_ref());
        set(&mut class, "event-record-header-field-class", stream.event_header.as_ref());
        set(&mut class, "event-record-common-context-field-class", stream.common_context.as_ref());
        fragments.push(class);
        for event in &stream.events {
            let mut class =
                json!({ "type": "event-record-class", "data-stream-class-id": stream.id, "id": event.id });
            if let Some(name) = &event.name {
                class["name"] = json!(name);
            }
            if let Some(level) = event.level {
                class["attributes"] = json!({ "lttng.org,2009": { "log-level": level } });
            }
            set(&mut class, "specific-context-field-class", event.specific_context.as_ref());
            set(&mut class, "payload-field-class", event.payload.as_ref());
            fragments.push(class);
        }
    }
    let mut bytes = Vec::new();
    for fragment in fragments {
        bytes.push(SEPARATOR);
        bytes.extend(fragment.to_string().into_bytes());
        bytes.push(b'\n');
    }
    bytes
}

fn environment(value: &Value) -> Json {
    match value {
        Value::Str(text) => json!(text),
        Value::Int(value) => wide(*value),
    }
}

/// What JSON has no more than 64 bits for.
fn wide(value: i128) -> Json {
    match (u64::try_from(value), i64::try_from(value)) {
        (Ok(value), _) => json!(value),
        (_, Ok(value)) => json!(value),
        _ => json!(value.to_string()),
    }
}

fn set(class: &mut Json, key: &str, field: Option<&Field>) {
    if let Some(field) = field {
        class[key] = field_class(&field.class);
    }
}

fn field_class(class: &FieldClass) -> Json {
    match class {
        FieldClass::Int(int) => integer(int),
        FieldClass::Enum(Enum { int, labels }) => {
            let mut json = integer(int);
            let mut mappings = Map::new();
            for (label, first, last) in labels {
                let ranges = mappings.entry(label.clone()).or_insert_with(|| json!([]));
                if let Json::Array(ranges) = ranges {
                    ranges.push(json!([wide(*first), wide(*last)]));
                }
            }
            json["mappings"] = Json::Object(mappings);
            json
        }
        FieldClass::Float(Float { bits, align, order }) => json!({
            "type": "fixed-length-floating-point-number",
            "length": bits,
            "alignment": align,
            "byte-order": order_name(*order),
        }),
        FieldClass::Str => json!({ "type": "null-terminated-string" }),
        FieldClass::Struct(of) => {
            let members = of
                .fields
                .iter()
                .map(|field| json!({ "name": field.name, "field-class": field_class(&field.class) }));
            let members: Vec<Json> = members.collect();
            json!({ "type": "structure", "minimum-alignment": of.align.max(1), "member-classes": members })
        }
        FieldClass::Array(Array { is_uuid: true, .. }) => {
            json!({ "type": "static-length-blob", "length": 16, "roles": [UUID] })
        }
        FieldClass::Array(Array { element, count, .. }) if element.is_character() => {
            json!({ "type": "static-length-string", "length": count })
        }
        FieldClass::Array(Array { element, count, .. }) => {
            json!({ "type": "static-length-array", "length": count, "element-field-class": field_class(element) })
        }
        FieldClass::Sequence(Sequence { element, length }) if element.is_character() => {
            json!({ "type": "dynamic-length-string", "length-field-location": location(length) })
        }
        FieldClass::Sequence(Sequence { element, length }) => json!({
            "type": "dynamic-length-array",
            "length-field-location": location(length),
            "element-field-class": field_class(element),
        }),
        FieldClass::Variant(of) => {
            let options = of.options.iter().map(|choice| {
                let ranges: Vec<Json> =
                    choice.ranges.iter().map(|(first, last)| json!([wide(*first), wide(*last)])).collect();
                json!({
                    "name": choice.field.name,
                    "selector-field-ranges": ranges,
                    "field-class": field_class(&choice.field.class),
                })
            });
            let options: Vec<Json> = options.collect();
            json!({ "type": "variant", "selector-field-location": location(&of.selector), "options": options })
        }
    }
}

fn integer(int: &Int) -> Json {
    let kind = if int.is_signed { "fixed-length-signed-integer" } else { "fixed-length-unsigned-integer" };
    let base = match int.base {
        Base::Binary => 2,
        Base::Octal => 8,
        Base::Decimal => 10,
        Base::Hexadecimal => 16,
    };
    let mut json = json!({
        "type": kind,
        "length": int.bits,
        "alignment": int.align,
        "byte-order": order_name(int.order),
        "preferred-display-base": base,
    });
    let named = ROLES.iter().find(|(_, role)| int.role == Some(*role)).map(|(name, _)| *name);
    let time = (int.clock.is_some() && int.role != Some(Role::EndTime)).then_some(TIME);
    let roles: Vec<&str> = named.into_iter().chain(time).collect();
    if !roles.is_empty() {
        json["roles"] = json!(roles);
    }
    json
}

fn order_name(order: ByteOrder) -> &'static str {
    match order {
        ByteOrder::Little => "little-endian",
        ByteOrder::Big => "big-endian",
    }
}

fn location(reference: &Reference) -> Json {
    let origin = Scope::ALL[reference.scope as usize].2;
    json!({ "origin": origin, "path": reference.names })
}
