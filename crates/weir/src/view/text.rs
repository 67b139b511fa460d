//! Events as lines of text, byte for byte as babeltrace2 2.0 prints them; what only CTF 2 has as 2.1 does.
//!
//! `[TIME] (+SINCE) HOST[:PROCESS][:(PID)] NAME: { packet }, { context }, { event's context }, { fields }`. A text's control
//! characters, quotes, backslashes and question marks are escaped as in C; other bytes are as they are.

use std::io::Write;

use weir_report::double;
use weir_trace::class::{Array, Base, Enum, FieldClass, Int, Scope, Sequence, TraceClass, Value};
use weir_trace::{Event, Loss, Lost, Packed, StreamInfo, Values};

use crate::view::values::up_to_nul;
use crate::view::zone::Zone;

/// How lines look.
#[derive(Debug)]
pub(crate) struct Look {
    pub(crate) clock: Clock,
    pub(crate) zone: Zone,
    /// The time since the event before.
    pub(crate) has_delta: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Clock {
    Time,
    DateAndTime,
    Seconds,
    Cycles,
}

/// Writes lines, and remembers what the next one needs.
#[derive(Debug)]
pub(crate) struct Writer {
    look: Look,
    last: Option<u64>,
    /// The second that was written last, as text.
    second: Option<(i64, String)>,
}

/// Scopes whose fields are shown.
const SHOWN: [Scope; 4] =
    [Scope::PacketContext, Scope::CommonContext, Scope::SpecificContext, Scope::Payload];

impl Writer {
    pub(crate) fn new(look: Look) -> Writer {
        Writer { look, last: None, second: None }
    }

    /// Adds the event's line.
    pub(crate) fn event(&mut self, event: &Event<'_>, out: &mut Vec<u8>) {
        if event.info.clock.is_some() {
            self.time(event, out);
        }
        origin(event.info.trace, out);
        out.extend_from_slice(event.class.name.as_deref().unwrap_or("<unknown>").as_bytes());
        out.extend_from_slice(b": ");
        let mut is_first = true;
        for scope in SHOWN {
            let Some((class, mut values)) = event.scope(scope) else { continue };
            if !is_first {
                out.extend_from_slice(b", ");
            }
            is_first = false;
            field(class, &mut values, out);
        }
        out.push(b'\n');
    }

    fn time(&mut self, event: &Event<'_>, out: &mut Vec<u8>) {
        out.push(b'[');
        let now = match self.look.clock {
            Clock::Cycles => {
                let _ = write!(out, "{:020}", event.cycles);
                Some(event.cycles)
            }
            _ => {
                self.moment(event.ns, out);
                event.ns.map(|ns| ns as u64)
            }
        };
        out.extend_from_slice(b"] ");
        let since = match (self.last, now) {
            (Some(last), Some(now)) => Some(now.wrapping_sub(last)),
            _ => None,
        };
        self.last = now.or(self.last);
        if !self.look.has_delta {
            return;
        }
        out.extend_from_slice(b"(+");
        let _ = match (self.look.clock, since) {
            (Clock::Cycles, Some(since)) => write!(out, "{since:012}"),
            (Clock::Cycles, None) => write!(out, "????????????"),
            (_, Some(since)) => write!(out, "{}.{:09}", since / NS, since % NS),
            (_, None) => write!(out, "?.?????????"),
        };
        out.extend_from_slice(b") ");
    }

    fn moment(&mut self, ns: Option<i64>, out: &mut Vec<u8>) {
        let Some(ns) = ns else {
            out.extend_from_slice(b"Error");
            return;
        };
        // Before 1970 there is no time of day.
        if ns < 0 || self.look.clock == Clock::Seconds {
            let sign = if ns < 0 { "-" } else { "" };
            let _ = write!(out, "{sign}{}.{:09}", ns.unsigned_abs() / NS, ns.unsigned_abs() % NS);
            return;
        }
        let (second, rest) = (ns / NS as i64, ns % NS as i64);
        if self.second.as_ref().is_none_or(|(known, _)| *known != second) {
            let with_date = self.look.clock == Clock::DateAndTime;
            self.second = Some((second, self.look.zone.written(second, with_date)));
        }
        if let Some((_, text)) = &self.second {
            out.extend_from_slice(text.as_bytes());
        }
        let _ = write!(out, ".{rest:09}");
    }

    /// The line that says what was lost.
    pub(crate) fn lost(&mut self, loss: &Loss, info: &StreamInfo<'_>) -> String {
        let what = match loss.what {
            Lost::Events => "event",
            Lost::Packets => "packet",
        };
        let count = match loss.count {
            None => format!("may have discarded {what}s"),
            Some(1) => format!("discarded 1 {what}"),
            Some(count) => format!("discarded {count} {what}s"),
        };
        let mut line = format!("WARNING: Tracer {count} ").into_bytes();
        match (loss.cycles, info.clock) {
            (Some((begin, end)), Some(clock)) => {
                line.extend_from_slice(b"between [");
                self.moment(clock.ns(begin), &mut line);
                line.extend_from_slice(b"] and [");
                self.moment(clock.ns(end), &mut line);
                line.push(b']');
            }
            _ => line.extend_from_slice(b"(unknown time range)"),
        }
        let _ = write!(line, " in trace \"{}\" ", info.trace_name);
        let _ = match info.trace.uuid {
            Some(uuid) => write!(line, "(UUID: {}) ", dashed(uuid)),
            None => write!(line, "(no UUID) "),
        };
        let _ = write!(
            line,
            "within stream \"{}\" (stream class ID: {}, stream ID: {}).",
            std::path::absolute(info.path).as_deref().unwrap_or(info.path).display(),
            info.class.id,
            info.id
        );
        String::from_utf8_lossy(&line).into_owned()
    }
}

const NS: u64 = 1_000_000_000;

fn dashed(uuid: [u8; 16]) -> String {
    let digits = format!("{:032x}", u128::from_be_bytes(uuid));
    let [a, b, c, d, e] = [0..8, 8..12, 12..16, 16..20, 20..32].map(|part| &digits[part]);
    format!("{a}-{b}-{c}-{d}-{e}")
}

/// Host, process and number, as far as the trace is of one.
fn origin(trace: &TraceClass, out: &mut Vec<u8>) {
    let of = |name: &str| trace.environment.iter().find(|(known, _)| known == name).map(|(_, value)| value);
    let before = out.len();
    for name in ["hostname", "procname", "vpid"] {
        let Some(value) = of(name) else { continue };
        if out.len() > before {
            out.push(b':');
        }
        let _ = match value {
            Value::Str(text) => write!(out, "{text}"),
            Value::Int(value) if name == "vpid" => write!(out, "({value})"),
            Value::Int(value) => write!(out, "{value}"),
        };
    }
    if out.len() > before {
        out.push(b' ');
    }
}

fn field(class: &FieldClass, values: &mut Values<'_>, out: &mut Vec<u8>) {
    match class {
        FieldClass::Int(int) => integer(int, values.word(), out),
        FieldClass::Enum(of) => labelled(of, values.word(), out),
        FieldClass::Bool(_) => boolean(values.word(), out),
        FieldClass::Flags(of) => flags(of, values.word(), out),
        FieldClass::Float(_) => float(values.double(), out),
        FieldClass::Str => escaped(values.text(), out),
        FieldClass::Wide(of) => escaped(of.text(values.text()).as_bytes(), out),
        FieldClass::Struct(of) => {
            out.push(b'{');
            let shown = of.fields.iter().filter(|field| !field.is_hidden);
            for (index, member) in shown.enumerate() {
                out.extend_from_slice(if index == 0 { b" " } else { b", " });
                out.extend_from_slice(member.name.as_bytes());
                out.extend_from_slice(b" = ");
                field(&member.class, values, out);
            }
            out.extend_from_slice(b" }");
        }
        FieldClass::Array(Array { element, is_blob, .. })
        | FieldClass::Sequence(Sequence { element, is_blob, .. }) => match values.packed(element) {
            Some(packed) if *is_blob => blob(packed.bytes, out),
            packed => elements(element, packed, values, out),
        },
        FieldClass::Variant(of) => {
            out.extend_from_slice(b"{ ");
            let choice = &of.options[values.word() as usize];
            field(&choice.field.class, values, out);
            out.extend_from_slice(b" }");
        }
        FieldClass::Optional(of) => match values.word() {
            0 => out.extend_from_slice(b"<none>"),
            _ => {
                out.extend_from_slice(b"{ ");
                field(&of.field, values, out);
                out.extend_from_slice(b" }");
            }
        },
    }
}

fn blob(bytes: &[u8], out: &mut Vec<u8>) {
    out.push(b'{');
    for byte in bytes {
        let _ = write!(out, " {byte:02x}");
    }
    out.extend_from_slice(b" }");
}

fn elements(element: &FieldClass, packed: Option<Packed<'_>>, values: &mut Values<'_>, out: &mut Vec<u8>) {
    let begin = |index: u64, out: &mut Vec<u8>| {
        let _ = write!(out, "{} [{index}] = ", if index == 0 { "" } else { "," });
    };
    if let Some(packed) = packed {
        if element.is_character() {
            return escaped(up_to_nul(packed.bytes), out);
        }
        out.push(b'[');
        for index in 0..packed.count {
            begin(index, out);
            match element {
                FieldClass::Enum(of) => labelled(of, packed.get(index), out),
                FieldClass::Bool(_) => boolean(packed.get(index), out),
                FieldClass::Flags(of) => flags(of, packed.get(index), out),
                FieldClass::Int(int) => integer(int, packed.get(index), out),
                _ => float(f64::from_bits(packed.get(index)), out),
            }
        }
    } else {
        out.push(b'[');
        for index in 0..values.word() {
            begin(index, out);
            field(element, values, out);
        }
    }
    out.extend_from_slice(b" ]");
}

fn integer(int: &Int, value: u64, out: &mut Vec<u8>) {
    let bits = u32::from(int.bits);
    // Digits of these bases stand for so many bits, and no more are shown than the number has.
    let cut = |digit: u32| match bits.next_multiple_of(digit) {
        bits if bits < 64 => value & ((1 << bits) - 1),
        _ => value,
    };
    let _ = match int.base {
        Base::Decimal if int.is_signed => write!(out, "{}", value as i64),
        Base::Decimal => write!(out, "{value}"),
        Base::Hexadecimal => write!(out, "0x{:X}", cut(4)),
        Base::Octal if int.is_signed => write!(out, "0{:o}", cut(3)),
        Base::Octal => write!(out, "0{value:o}"),
        Base::Binary => write!(out, "0b{:0width$b}", cut(1), width = bits as usize),
    };
}

fn boolean(value: u64, out: &mut Vec<u8>) {
    out.extend_from_slice(if value == 0 { b"false" } else { b"true" });
}

fn labelled(of: &Enum, value: u64, out: &mut Vec<u8>) {
    out.extend_from_slice(b"( ");
    let labels = of.labels_of(value);
    names(&labels, out);
    if labels.is_empty() {
        out.extend_from_slice(b"<unknown>");
    }
    out.extend_from_slice(b" : container = ");
    integer(&of.int, value, out);
    out.extend_from_slice(b" )");
}

/// Bits that have names, with the names of those that are set, in the order of the alphabet, as babeltrace2 2.1 has them.
fn flags(of: &Enum, value: u64, out: &mut Vec<u8>) {
    integer(&of.int, value, out);
    let mut active = of.active(value);
    active.sort_unstable();
    if !active.is_empty() {
        out.extend_from_slice(b" { ");
        names(&active, out);
        out.extend_from_slice(b" }");
    }
}

fn names(names: &[&str], out: &mut Vec<u8>) {
    for (index, name) in names.iter().enumerate() {
        if index > 0 {
            out.extend_from_slice(b", ");
        }
        escaped(name.as_bytes(), out);
    }
}

/// As C's `%g`.
fn float(value: f64, out: &mut Vec<u8>) {
    if value.is_sign_negative() {
        out.push(b'-');
    }
    out.extend_from_slice(double::digits('g', None, false, value.abs()).as_bytes());
}

fn escaped(text: &[u8], out: &mut Vec<u8>) {
    out.push(b'"');
    for &byte in text {
        match byte {
            b'\\' | b'\'' | b'"' | b'?' => out.extend_from_slice(&[b'\\', byte]),
            0x07 => out.extend_from_slice(b"\\a"),
            0x08 => out.extend_from_slice(b"\\b"),
            0x0c => out.extend_from_slice(b"\\f"),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'\t' => out.extend_from_slice(b"\\t"),
            0x0b => out.extend_from_slice(b"\\v"),
            0x1b => out.extend_from_slice(b"\\e"),
            byte if byte.is_ascii_control() => {
                let _ = write!(out, "\\x{byte:02x}");
            }
            byte => out.push(byte),
        }
    }
    out.push(b'"');
}
