//! Events as JSON, one object a line.
//!
//! `{"ns": …, "event": "shop:sale", "host": …, "trace": …, "stream": …, "packet": {…}, "context": {…}, "event_context": {…}, "fields":
//! {…}}`: `ns` counts from 1970, and what an event has not is left out. Integers are numbers in all their 64 bits; what JSON has no number
//! for (`nan`, `inf`) is a string; bytes that are no UTF-8 become U+FFFD. An enumeration is `{"value": 2, "labels": ["B"]}`, and so are bits
//! with names, where the labels are those of bits that are set; a variant is an object with the one field that it has; an optional field that
//! is not there is `null`. What was lost is a line too: `{"lost": "events", "count": 424, …}`.

use std::io::Write;

use weir_report::{double, quoted};
use weir_trace::class::{FieldClass, Scope, Value};
use weir_trace::{Event, Loss, Lost, StreamInfo, Values};

use crate::view::values::up_to_nul;

/// Scopes with the names of their members.
const SCOPES: [(Scope, &str); 4] = [
    (Scope::PacketContext, "packet"),
    (Scope::CommonContext, "context"),
    (Scope::SpecificContext, "event_context"),
    (Scope::Payload, "fields"),
];

/// Adds the event's line.
pub(crate) fn event(event: &Event<'_>, out: &mut Vec<u8>) {
    out.push(b'{');
    if event.info.clock.is_some() {
        let _ = match event.ns {
            Some(ns) => write!(out, "\"ns\": {ns}, "),
            None => write!(out, "\"cycles\": {}, ", event.cycles),
        };
    }
    out.extend_from_slice(b"\"event\": ");
    string(event.class.name.as_deref().unwrap_or("<unknown>").as_bytes(), out);
    origin(&event.info, out);
    for (scope, name) in SCOPES {
        let Some((class, mut values)) = event.scope(scope) else { continue };
        let _ = write!(out, ", \"{name}\": ");
        field(class, &mut values, out);
    }
    out.extend_from_slice(b"}\n");
}

/// Adds the line that says what was lost.
pub(crate) fn lost(loss: &Loss, info: &StreamInfo<'_>, out: &mut Vec<u8>) {
    let what = match loss.what {
        Lost::Events => "events",
        Lost::Packets => "packets",
    };
    let _ = write!(out, "{{\"lost\": \"{what}\", \"count\": ");
    let _ = match loss.count {
        Some(count) => write!(out, "{count}"),
        None => write!(out, "null"),
    };
    if let (Some((begin, end)), Some(clock)) = (loss.cycles, info.clock) {
        for (name, cycles) in [("from_ns", begin), ("to_ns", end)] {
            if let Some(ns) = clock.ns(cycles) {
                let _ = write!(out, ", \"{name}\": {ns}");
            }
        }
    }
    origin(info, out);
    out.extend_from_slice(b"}\n");
}

/// Where it comes from.
fn origin(info: &StreamInfo<'_>, out: &mut Vec<u8>) {
    for (name, member) in [("hostname", "host"), ("procname", "process"), ("vpid", "pid")] {
        let mut values = info.trace.environment.iter().filter(|(known, _)| known == name);
        let Some((_, value)) = values.next() else { continue };
        let _ = write!(out, ", \"{member}\": ");
        match value {
            Value::Str(text) => string(text.as_bytes(), out),
            Value::Int(value) => {
                let _ = write!(out, "{value}");
            }
        }
    }
    out.extend_from_slice(b", \"trace\": ");
    string(info.trace_name.as_bytes(), out);
    let _ = write!(out, ", \"stream\": {}", info.id);
}

/// Adds a value.
pub(crate) fn field(class: &FieldClass, values: &mut Values<'_>, out: &mut Vec<u8>) {
    match class {
        FieldClass::Str => string(values.text(), out),
        FieldClass::Wide(of) => string(of.text(values.text()).as_bytes(), out),
        FieldClass::Struct(of) => {
            out.push(b'{');
            let shown = of.fields.iter().filter(|field| !field.is_hidden);
            for (index, member) in shown.enumerate() {
                separate(index, out);
                string(member.name.as_bytes(), out);
                out.extend_from_slice(b": ");
                field(&member.class, values, out);
            }
            out.push(b'}');
        }
        FieldClass::Array(array) => elements(&array.element, values, out),
        FieldClass::Sequence(sequence) => elements(&sequence.element, values, out),
        FieldClass::Variant(of) => {
            let choice = &of.options[values.word() as usize];
            out.push(b'{');
            string(choice.field.name.as_bytes(), out);
            out.extend_from_slice(b": ");
            field(&choice.field.class, values, out);
            out.push(b'}');
        }
        FieldClass::Optional(of) => match values.word() {
            0 => out.extend_from_slice(b"null"),
            _ => field(&of.field, values, out),
        },
        FieldClass::Int(_)
        | FieldClass::Enum(_)
        | FieldClass::Bool(_)
        | FieldClass::Flags(_)
        | FieldClass::Float(_) => number(class, values.word(), out),
    }
}

fn elements(element: &FieldClass, values: &mut Values<'_>, out: &mut Vec<u8>) {
    let packed = values.packed(element);
    if let Some(packed) = packed.filter(|_| element.is_character()) {
        return string(up_to_nul(packed.bytes), out);
    }
    out.push(b'[');
    match packed {
        Some(packed) => {
            for index in 0..packed.count {
                separate(index as usize, out);
                number(element, packed.get(index), out);
            }
        }
        None => {
            for index in 0..values.word() {
                separate(index as usize, out);
                field(element, values, out);
            }
        }
    }
    out.push(b']');
}

/// A number, whose bits these are.
fn number(class: &FieldClass, bits: u64, out: &mut Vec<u8>) {
    let integer = |is_signed: bool, out: &mut Vec<u8>| {
        let _ = if is_signed { write!(out, "{}", bits as i64) } else { write!(out, "{bits}") };
    };
    match class {
        FieldClass::Bool(_) => out.extend_from_slice(if bits == 0 { b"false" } else { b"true" }),
        FieldClass::Enum(of) | FieldClass::Flags(of) => {
            out.extend_from_slice(b"{\"value\": ");
            integer(of.int.is_signed, out);
            out.extend_from_slice(b", \"labels\": [");
            let is_flags = matches!(class, FieldClass::Flags(_));
            let labels = if is_flags { of.active(bits) } else { of.labels_of(bits) };
            for (index, label) in labels.iter().enumerate() {
                separate(index, out);
                string(label.as_bytes(), out);
            }
            out.extend_from_slice(b"]}");
        }
        FieldClass::Float(_) => {
            let value = f64::from_bits(bits);
            let text = double::shortest(value);
            match value.is_finite() {
                true => out.extend_from_slice(text.as_bytes()),
                false => string(text.as_bytes(), out),
            }
        }
        _ => integer(class.int().is_some_and(|int| int.is_signed), out),
    }
}

fn separate(index: usize, out: &mut Vec<u8>) {
    if index > 0 {
        out.extend_from_slice(b", ");
    }
}

/// Adds a string.
pub(crate) fn string(text: &[u8], out: &mut Vec<u8>) {
    let is_plain = |byte: &u8| matches!(byte, b' '..=b'~') && !matches!(byte, b'"' | b'\\');
    if text.iter().all(is_plain) {
        out.push(b'"');
        out.extend_from_slice(text);
        out.push(b'"');
    } else {
        out.extend_from_slice(quoted(text).as_bytes());
    }
}
