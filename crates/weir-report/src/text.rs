//! Text output, line by line as bpftrace 0.23 prints it.
//!
//! A map ends its lines with one newline, statistics (`avg`, `stats`) with two, a histogram with an empty line
//! after its rows; a map without entries is that ending alone.

use std::borrow::Cow;
use std::io::{self, Write};

use weir_event::{MapSchema, MapValue};

use crate::Words;
use crate::contents::{Contents, Row, Shown};
use crate::double;
use crate::escape::escaped;
use crate::histogram::Bucket;
use crate::limits::{BAR_COLUMNS, KEY_INDENT, VALUE_INDENT};
use crate::series;
use crate::value::Value;

pub(crate) fn lost_events(out: &mut dyn Write, events: u64) -> io::Result<()> {
    writeln!(out, "Lost {events} events")
}

pub(crate) fn printf(out: &mut dyn Write, message: &[u8]) -> io::Result<()> {
    out.write_all(message)
}

pub(crate) fn value(out: &mut dyn Write, value: &Value) -> io::Result<()> {
    write_value(out, value, VALUE_INDENT, Texts::Escaped)?;
    out.write_all(b"\n")
}

/// How texts of the traced process are written. Raw in JSON, whose own strings have no control characters.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Texts {
    Escaped,
    Raw,
}

impl Texts {
    pub(crate) fn of(self, text: &[u8]) -> Cow<'_, [u8]> {
        match self {
            Texts::Escaped => escaped(text),
            Texts::Raw => Cow::Borrowed(text),
        }
    }
}

/// How the bytes of a buffer are written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Bytes {
    /// `%r`: characters of ASCII that print as they are, others as `\x00`.
    Mixed,
    /// `%rx`: all as `\x00`.
    Escaped,
    /// `%rh`: all as `00`, with blanks between.
    Spaced,
}

pub(crate) fn buffer(bytes: &[u8], how: Bytes) -> String {
    let one = |byte: &u8| match how {
        Bytes::Mixed if matches!(byte, b' '..=b'~') => char::from(*byte).to_string(),
        Bytes::Mixed | Bytes::Escaped => format!("\\x{byte:02x}"),
        Bytes::Spaced => format!("{byte:02x}"),
    };
    bytes.iter().map(one).collect::<Vec<String>>().join(if how == Bytes::Spaced { " " } else { "" })
}

/// A stack on lines of its own; what a frame of it begins with depends on where it stands.
pub(crate) fn stack(frames: &[Vec<u8>], is_indented: bool, indent: usize, texts: Texts) -> Vec<u8> {
    let mut text = vec![b'\n'];
    for frame in frames {
        text.resize(text.len() + if is_indented { indent } else { 0 }, b' ');
        text.extend_from_slice(&texts.of(frame));
        text.push(b'\n');
    }
    text
}

pub(crate) fn map(out: &mut dyn Write, map: &MapSchema, contents: &Contents, words: Words) -> io::Result<()> {
    for (index, row) in contents.rows.iter().enumerate() {
        if index > 0 {
            out.write_all(b"\n")?;
        }
        write_row(out, map, row, words)?;
    }
    match map.value {
        MapValue::Avg { .. } | MapValue::Stats { .. } if words != Words::Structures => out.write_all(b"\n\n"),
        _ => out.write_all(b"\n"),
    }
}

/// The break between what a run printed and its final maps.
pub(crate) fn end(out: &mut dyn Write) -> io::Result<()> {
    out.write_all(b"\n\n")
}

fn write_row(out: &mut dyn Write, map: &MapSchema, row: &Row, words: Words) -> io::Result<()> {
    out.write_all(map.name.as_bytes())?;
    if let Some(key) = &row.key {
        out.write_all(b"[")?;
        write_key(out, key)?;
        out.write_all(b"]")?;
    }
    match &row.shown {
        Shown::Value(value) => {
            out.write_all(b": ")?;
            write_value(out, value, VALUE_INDENT, Texts::Escaped)
        }
        Shown::Stats { count, average, total } => {
            let [begin, average_is, total_is, end] = match words {
                Words::Attaching | Words::Attached => ["count ", ", average ", ", total ", ""],
                Words::Structures => ["{ .count = ", ", .average = ", ", .total = ", " }"],
            };
            write!(out, ": {begin}{count}{average_is}")?;
            write_value(out, average, VALUE_INDENT, Texts::Escaped)?;
            out.write_all(total_is.as_bytes())?;
            write_value(out, total, VALUE_INDENT, Texts::Escaped)?;
            out.write_all(end.as_bytes())
        }
        Shown::Series(clock, points) => {
            out.write_all(b":\n")?;
            series::graph(*clock, points).iter().try_for_each(|line| writeln!(out, "{line}"))
        }
        Shown::Buckets(buckets) => {
            out.write_all(b":\n")?;
            buckets.iter().try_for_each(|bucket| write_bucket(out, bucket))
        }
    }
}

fn write_bucket(out: &mut dyn Write, bucket: &Bucket) -> io::Result<()> {
    let bar = "@".repeat(bucket.bar);
    writeln!(out, "{:<16}{:>8} |{bar:<BAR_COLUMNS$}|", bucket.label, bucket.count)
}

/// The parts of a key have no parentheses around them.
fn write_key(out: &mut dyn Write, key: &Value) -> io::Result<()> {
    match key {
        Value::Tuple(parts) => write_parts(out, parts, KEY_INDENT, Texts::Escaped),
        key => write_value(out, key, KEY_INDENT, Texts::Escaped),
    }
}

pub(crate) fn write_value(out: &mut dyn Write, value: &Value, indent: usize, texts: Texts) -> io::Result<()> {
    match value {
        Value::Truth(holds) => write!(out, "{holds}"),
        Value::Enum(_, name) => out.write_all(name.as_bytes()),
        Value::Int { bits, signed: true } => write!(out, "{}", *bits as i64),
        Value::Int { bits, signed: false } => write!(out, "{bits}"),
        Value::Pointer(address) => write!(out, "{address:#x}"),
        Value::Double(bits) => out.write_all(double::shortest(f64::from_bits(*bits)).as_bytes()),
        Value::Str(text) => out.write_all(&texts.of(text)),
        Value::Buffer(bytes) => out.write_all(buffer(bytes, Bytes::Mixed).as_bytes()),
        Value::Stack { frames, is_indented } => out.write_all(&stack(frames, *is_indented, indent, texts)),
        Value::Array(items) => {
            out.write_all(b"[")?;
            for (index, item) in items.iter().enumerate() {
                out.write_all(if index > 0 { b"," } else { b"" })?;
                write_value(out, item, indent, texts)?;
            }
            out.write_all(b"]")
        }
        Value::Record(members) => {
            out.write_all(b"{")?;
            for (index, (name, value)) in members.iter().enumerate() {
                write!(out, "{} .{name} = ", if index > 0 { "," } else { "" })?;
                write_value(out, value, indent, texts)?;
            }
            out.write_all(b" }")
        }
        Value::Tuple(parts) => {
            out.write_all(b"(")?;
            write_parts(out, parts, indent, texts)?;
            out.write_all(b")")
        }
    }
}

fn write_parts(out: &mut dyn Write, parts: &[Value], indent: usize, texts: Texts) -> io::Result<()> {
    for (index, part) in parts.iter().enumerate() {
        if index > 0 {
            out.write_all(b", ")?;
        }
        write_value(out, part, indent, texts)?;
    }
    Ok(())
}
