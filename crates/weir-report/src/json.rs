//! NDJSON output: one object a line, in the shapes and with the spacing of bpftrace 0.23.
//!
//! `{"type": "map", "data": {"@x": 1}}`; keyed: `{"@x": {"key": 1}}`, the parts of a tuple key joined by commas;
//! `hist` as a list of `{"min", "max", "count"}` with both ends included, `stats` as `{"count", "average",
//! "total"}`. Written by hand because the spacing is part of the shape. A map without entries prints nothing.

use std::io::{self, Write};

use weir_event::{MapSchema, MapValue};

use crate::contents::{Contents, Row, Shown};
use crate::double;
use crate::histogram::Bucket;
use crate::limits::{KEY_INDENT, VALUE_INDENT};
use crate::series::Point;
use crate::text::{self, Bytes, Texts};
use crate::value::Value;

pub(crate) fn attached_probes(out: &mut dyn Write, probes: u64) -> io::Result<()> {
    writeln!(out, r#"{{"type": "attached_probes", "data": {{"probes": {probes}}}}}"#)
}

pub(crate) fn lost_events(out: &mut dyn Write, events: u64) -> io::Result<()> {
    writeln!(out, r#"{{"type": "lost_events", "data": {{"events": {events}}}}}"#)
}

pub(crate) fn printf(out: &mut dyn Write, message: &[u8]) -> io::Result<()> {
    writeln!(out, r#"{{"type": "printf", "data": {}}}"#, quoted(message))
}

pub(crate) fn error(out: &mut dyn Write, kind: &str, place: &str, text: &[u8]) -> io::Result<()> {
    let (place, text) = (quoted(place.as_bytes()), quoted(text));
    writeln!(out, r#"{{"type": "{kind}", "data": {{"location": {place}, "message": {text}}}}}"#)
}

pub(crate) fn cat(out: &mut dyn Write, content: &[u8]) -> io::Result<()> {
    writeln!(out, r#"{{"type": "cat", "data": {}}}"#, quoted(content))
}

pub(crate) fn system(out: &mut dyn Write, output: &[u8]) -> io::Result<()> {
    writeln!(out, r#"{{"type": "system", "data": {}}}"#, quoted(output))
}

pub(crate) fn join(out: &mut dyn Write, text: &[u8]) -> io::Result<()> {
    writeln!(out, r#"{{"type": "join", "data": {}}}"#, quoted(text))
}

pub(crate) fn time(out: &mut dyn Write, text: &str) -> io::Result<()> {
    writeln!(out, r#"{{"type": "time", "data": {}}}"#, quoted(text.as_bytes()))
}

pub(crate) fn value(out: &mut dyn Write, value: &Value) -> io::Result<()> {
    writeln!(out, r#"{{"type": "value", "data": {}}}"#, json_value(value))
}

pub(crate) fn map(out: &mut dyn Write, map: &MapSchema, contents: &Contents) -> io::Result<()> {
    if contents.rows.is_empty() {
        return Ok(());
    }
    let kind = match map.value {
        MapValue::Avg { .. } | MapValue::Stats { .. } => "stats",
        MapValue::Hist { .. } | MapValue::Lhist { .. } => "hist",
        MapValue::Tseries { .. } => "tseries",
        _ => "map",
    };
    let rows: Vec<String> = contents.rows.iter().map(json_row).collect();
    let rows = rows.join(", ");
    let data = if map.key.is_some() { format!("{{{rows}}}") } else { rows };
    writeln!(out, r#"{{"type": "{kind}", "data": {{{}: {data}}}}}"#, quoted(map.name.as_bytes()))
}

fn json_row(row: &Row) -> String {
    let shown = match &row.shown {
        Shown::Value(value) => json_value(value),
        Shown::Stats { count, average, total } => {
            let (average, total) = (json_value(average), json_value(total));
            format!(r#"{{"count": {count}, "average": {average}, "total": {total}}}"#)
        }
        Shown::Series(_, points) => {
            let points: Vec<String> = points.iter().map(json_point).collect();
            format!("[{}]", points.join(", "))
        }
        Shown::Buckets(buckets) => {
            let buckets: Vec<String> = buckets.iter().map(json_bucket).collect();
            format!("[{}]", buckets.join(", "))
        }
    };
    match &row.key {
        Some(key) => format!("{}: {shown}", quoted(&key_text(key))),
        None => shown,
    }
}

fn json_point(point: &Point) -> String {
    let value = point.value.as_ref().map_or_else(|| "null".to_owned(), json_value);
    format!(r#"{{"interval_start": {}, "value": {value}}}"#, quoted(point.time.as_bytes()))
}

fn json_bucket(bucket: &Bucket) -> String {
    let low = bucket.low.map(|low| format!(r#""min": {low}, "#)).unwrap_or_default();
    let high = bucket.high.map(|high| format!(r#""max": {}, "#, high - 1)).unwrap_or_default();
    format!(r#"{{{low}{high}"count": {}}}"#, bucket.count)
}

/// A key before quoting: the parts of a tuple joined by commas, strings bare.
fn key_text(key: &Value) -> Vec<u8> {
    match key {
        Value::Str(text) => text.clone(),
        Value::Enum(_, name) => name.clone().into_bytes(),
        Value::Buffer(bytes) => text::buffer(bytes, Bytes::Mixed).into_bytes(),
        Value::Stack { frames, is_indented } => text::stack(frames, *is_indented, KEY_INDENT, Texts::Raw),
        Value::Tuple(parts) => {
            let parts: Vec<Vec<u8>> = parts
                .iter()
                .map(|part| match part {
                    Value::Str(text) => text.clone(),
                    Value::Enum(_, name) => name.clone().into_bytes(),
                    Value::Buffer(bytes) => text::buffer(bytes, Bytes::Mixed).into_bytes(),
                    Value::Stack { frames, is_indented } => {
                        text::stack(frames, *is_indented, KEY_INDENT, Texts::Raw)
                    }
                    part => json_value(part).into_bytes(),
                })
                .collect();
            parts.join(&b","[..])
        }
        Value::Array(_) | Value::Record(_) => {
            let mut text = Vec::new();
            // SANITY: writing into a Vec does not fail.
            text::write_value(&mut text, key, KEY_INDENT, Texts::Raw).expect("memory takes writes");
            text
        }
        Value::Pointer(address) => format!("{address:#x}").into_bytes(),
        Value::Int { .. } | Value::Truth(_) | Value::Double(_) => json_value(key).into_bytes(),
    }
}

fn json_value(value: &Value) -> String {
    match value {
        Value::Truth(holds) => holds.to_string(),
        Value::Enum(bits, _) => (*bits as i64).to_string(),
        Value::Int { bits, signed: true } => (*bits as i64).to_string(),
        Value::Int { bits, signed: false } => bits.to_string(),
        Value::Pointer(address) => quoted(format!("{address:#x}").as_bytes()),
        // JSON has no word for these.
        Value::Double(bits) if !f64::from_bits(*bits).is_finite() => {
            quoted(double::shortest(f64::from_bits(*bits)).as_bytes())
        }
        Value::Double(bits) => double::shortest(f64::from_bits(*bits)),
        Value::Str(text) => quoted(text),
        Value::Buffer(bytes) => quoted(text::buffer(bytes, Bytes::Mixed).as_bytes()),
        Value::Stack { frames, is_indented } => {
            quoted(&text::stack(frames, *is_indented, VALUE_INDENT, Texts::Raw))
        }
        Value::Tuple(parts) | Value::Array(parts) => {
            let parts: Vec<String> = parts.iter().map(json_value).collect();
            format!("[{}]", parts.join(","))
        }
        Value::Record(members) => {
            let member = |(name, value): &(String, Value)| {
                format!("{}: {}", quoted(name.as_bytes()), json_value(value))
            };
            let members: Vec<String> = members.iter().map(member).collect();
            format!("{{ {} }}", members.join(", "))
        }
    }
}

/// A JSON string. bpftrace writes \b and \f as \u escapes, unlike serde_json.
pub fn quoted(text: &[u8]) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for c in String::from_utf8_lossy(text).chars() {
        match c {
            '"' => quoted.push_str("\\\""),
            '\\' => quoted.push_str("\\\\"),
            '\n' => quoted.push_str("\\n"),
            '\r' => quoted.push_str("\\r"),
            '\t' => quoted.push_str("\\t"),
            c if c < ' ' => quoted.push_str(&format!("\\u{:04x}", c as u32)),
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_survive_a_json_reader() {
        let all: String = (0..0x100u32).filter_map(char::from_u32).collect();
        let read: String = serde_json::from_str(&quoted(all.as_bytes())).unwrap();
        assert_eq!(read, all);
        let read: String = serde_json::from_str(&quoted(b"\xff\xfe")).unwrap();
        assert_eq!(read, "\u{fffd}\u{fffd}");
    }

    #[test]
    fn intervals_have_a_start_and_a_value() {
        let point = |value| Point { time: "12:00:00.500".to_owned(), value };
        assert_eq!(
            json_point(&point(Some(Value::int(-3)))),
            r#"{"interval_start": "12:00:00.500", "value": -3}"#
        );
        assert_eq!(json_point(&point(None)), r#"{"interval_start": "12:00:00.500", "value": null}"#);
    }

    #[test]
    fn nested_tuples_in_keys_are_lists() {
        let key = Value::Tuple(vec![Value::int(1), Value::Tuple(vec![Value::int(2), Value::int(3)])]);
        assert_eq!(key_text(&key), b"1,[2,3]");
    }
}
