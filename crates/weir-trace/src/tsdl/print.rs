//! A trace class → CTF 1.8's text, which [`super::read`] makes the same class of again.
//!
//! Everything is written out where it is used: size, alignment, byte order, base. Names of fields of events begin with an underscore, so
//! that none is a keyword, as LTTng writes them; those of packets and headers, to which names give a meaning, do not.

use std::fmt::Write as _;

use super::admit;
use crate::class::{
    Array, Base, ByteOrder, ClockClass, Enum, Field, FieldClass, Int, Reference, Scope, Sequence, TraceClass,
    Value, Variant,
};

/// The text. The error says what this format cannot describe.
pub(crate) fn print(trace: &TraceClass) -> Result<String, String> {
    admit::admit(trace)?;
    let mut printer = Printer { trace, text: String::new(), scope: Scope::PacketHeader, path: Vec::new() };
    printer.trace()?;
    Ok(printer.text)
}

struct Printer<'c> {
    trace: &'c TraceClass,
    text: String,
    scope: Scope,
    /// The structures around what is printed: the members that lead to each, and its members before this place.
    path: Vec<(Vec<String>, Vec<String>)>,
}

/// Words that are no names (CTF 1.8.3, C.1.2).
const KEYWORDS: [&str; 28] = [
    "align",
    "callsite",
    "const",
    "char",
    "clock",
    "double",
    "enum",
    "env",
    "event",
    "floating_point",
    "float",
    "integer",
    "int",
    "long",
    "short",
    "signed",
    "stream",
    "string",
    "struct",
    "trace",
    "typealias",
    "typedef",
    "unsigned",
    "variant",
    "void",
    "_Bool",
    "_Complex",
    "_Imaginary",
];

macro_rules! put {
    ($to:expr, $($parts:tt)*) => {{
        // Writing to memory does not fail.
        let _ = writeln!($to.text, $($parts)*);
    }};
}

impl Printer<'_> {
    fn trace(&mut self) -> Result<(), String> {
        put!(self, "/* CTF 1.8 */\n\ntrace {{\n\tmajor = 1;\n\tminor = 8;");
        if let Some(uuid) = self.trace.uuid {
            put!(self, "\tuuid = \"{}\";", dashed(uuid));
        }
        put!(self, "\tbyte_order = {};", order(self.trace.order));
        self.scope(Scope::PacketHeader, "packet.header", self.trace.packet_header.as_ref())?;
        put!(self, "}};\n");
        if !self.trace.environment.is_empty() {
            put!(self, "env {{");
            for (name, value) in &self.trace.environment {
                let name = identifier(name)?;
                match value {
                    Value::Int(value) => put!(self, "\t{name} = {value};"),
                    Value::Str(text) => put!(self, "\t{name} = {};", quoted(text)),
                }
            }
            put!(self, "}};\n");
        }
        for clock in &self.trace.clocks {
            self.clock(clock)?;
        }
        for stream in &self.trace.streams {
            put!(self, "stream {{\n\tid = {};", stream.id);
            self.scope(Scope::PacketContext, "packet.context", stream.packet_context.as_ref())?;
            self.scope(Scope::EventHeader, "event.header", stream.event_header.as_ref())?;
            self.scope(Scope::CommonContext, "event.context", stream.common_context.as_ref())?;
            put!(self, "}};\n");
            for event in &stream.events {
                put!(self, "event {{");
                if let Some(name) = &event.name {
                    put!(self, "\tname = {};", quoted(name));
                }
                put!(self, "\tid = {};\n\tstream_id = {};", event.id, stream.id);
                if let Some(level) = event.level {
                    put!(self, "\tloglevel = {level};");
                }
                self.scope(Scope::SpecificContext, "context", event.specific_context.as_ref())?;
                self.scope(Scope::Payload, "fields", event.payload.as_ref())?;
                put!(self, "}};\n");
            }
        }
        Ok(())
    }

    fn clock(&mut self, clock: &ClockClass) -> Result<(), String> {
        put!(self, "clock {{\n\tname = {};", identifier(&clock.name)?);
        if let Some(uuid) = clock.uuid {
            put!(self, "\tuuid = \"{}\";", dashed(uuid));
        }
        if let Some(text) = &clock.description {
            put!(self, "\tdescription = {};", quoted(text));
        }
        put!(self, "\tfreq = {};\n\tprecision = {};", clock.frequency, clock.precision);
        put!(self, "\toffset_s = {};\n\toffset = {};", clock.offset_s, clock.offset_cycles);
        put!(self, "\tabsolute = {};\n}};\n", clock.is_absolute);
        Ok(())
    }

    fn scope(&mut self, scope: Scope, name: &str, field: Option<&Field>) -> Result<(), String> {
        let Some(field) = field else { return Ok(()) };
        self.scope = scope;
        let _ = write!(self.text, "\t{name} := ");
        self.class(&field.class, &[], 2)?;
        self.text.push_str(";\n");
        Ok(())
    }

    /// A class without the brackets of arrays. `at`: the members that lead to it.
    fn class(&mut self, class: &FieldClass, at: &[String], depth: usize) -> Result<(), String> {
        match class {
            FieldClass::Int(int) => self.int(int),
            FieldClass::Enum(Enum { int, labels }) => {
                self.text.push_str("enum : ");
                self.int(int)?;
                self.text.push_str(" {");
                for (label, first, last) in labels {
                    let _ = write!(self.text, " {} = {first} ... {last},", quoted(label));
                }
                self.text.push_str(" }");
                Ok(())
            }
            FieldClass::Float(float) => {
                let (exponent, mantissa) = if float.bits == 32 { (8, 24) } else { (11, 53) };
                let order = order(float.order);
                let _ = write!(
                    self.text,
                    "floating_point {{ exp_dig = {exponent}; mant_dig = {mantissa}; byte_order = {order}; align = {}; }}",
                    float.align
                );
                Ok(())
            }
            FieldClass::Str => {
                self.text.push_str("string { encoding = UTF8; }");
                Ok(())
            }
            FieldClass::Struct(of) => {
                self.text.push_str("struct {\n");
                self.path.push((at.to_vec(), Vec::new()));
                for field in &of.fields {
                    let name = self.written(&field.name)?;
                    self.member(field, name, at, depth)?;
                    // SANITY: pushed above.
                    self.path.last_mut().expect("a level").1.push(field.name.clone());
                }
                self.path.pop();
                let _ = write!(self.text, "{}}} align({})", "\t".repeat(depth - 1), of.align.max(1));
                Ok(())
            }
            FieldClass::Variant(variant) => self.variant(variant, at, depth),
            FieldClass::Array(Array { element, .. }) | FieldClass::Sequence(Sequence { element, .. }) => {
                self.class(element, at, depth)
            }
            FieldClass::Bool(_) | FieldClass::Flags(_) | FieldClass::Wide(_) | FieldClass::Optional(_) => {
                Err("a field of a class that CTF 1.8 does not have".to_owned())
            }
        }
    }

    fn member(&mut self, field: &Field, name: String, at: &[String], depth: usize) -> Result<(), String> {
        let mut below = at.to_vec();
        below.push(field.name.clone());
        self.text.push_str(&"\t".repeat(depth));
        self.class(&field.class, &below, depth + 1)?;
        let _ = write!(self.text, " {name}");
        let mut class = &field.class;
        loop {
            match class {
                FieldClass::Array(Array { element, count, .. }) => {
                    let _ = write!(self.text, "[{count}]");
                    class = element;
                }
                FieldClass::Sequence(Sequence { element, length, .. }) => {
                    let length = self.reference(length)?;
                    let _ = write!(self.text, "[{length}]");
                    class = element;
                }
                _ => break,
            }
        }
        self.text.push_str(";\n");
        Ok(())
    }

    fn variant(&mut self, variant: &Variant, at: &[String], depth: usize) -> Result<(), String> {
        let selector = self.reference(&variant.selector)?;
        let _ = writeln!(self.text, "variant <{selector}> {{");
        for choice in &variant.options {
            // Its name is that of a label, which has no underscore that readers take away.
            let name = identifier(&choice.field.name)?;
            if name.starts_with('_') {
                return Err(format!(
                    "the option {name} of a variant begins with an underscore, which CTF 1.8 takes away"
                ));
            }
            self.member(&choice.field, name.to_owned(), at, depth)?;
        }
        let _ = write!(self.text, "{}}}", "\t".repeat(depth - 1));
        Ok(())
    }

    fn int(&mut self, int: &Int) -> Result<(), String> {
        let base = match int.base {
            Base::Binary => 2,
            Base::Octal => 8,
            Base::Decimal => 10,
            Base::Hexadecimal => 16,
        };
        let Int { bits, align, is_signed, .. } = int;
        let _ = write!(
            self.text,
            "integer {{ size = {bits}; align = {align}; signed = {is_signed}; byte_order = {}; base = {base};",
            order(int.order)
        );
        if int.is_text {
            self.text.push_str(" encoding = UTF8;");
        }
        if let Some(clock) = int.clock {
            let clock = self.trace.clocks.get(clock).ok_or("a field of a clock that is not there")?;
            let _ = write!(self.text, " map = clock.{}.value;", identifier(&clock.name)?);
        }
        self.text.push_str(" }");
        Ok(())
    }

    /// A member's name, as it is written here.
    fn written(&self, name: &str) -> Result<String, String> {
        match self.scope {
            Scope::PacketHeader | Scope::PacketContext | Scope::EventHeader => {
                identifier(name).map(str::to_owned)
            }
            Scope::CommonContext | Scope::SpecificContext | Scope::Payload => {
                let name = format!("_{name}");
                identifier(&name).map(str::to_owned)
            }
        }
    }

    /// Relative where the nearest field of that name is the one that is meant.
    fn reference(&self, reference: &Reference) -> Result<String, String> {
        let escaped =
            matches!(reference.scope, Scope::CommonContext | Scope::SpecificContext | Scope::Payload);
        let written = |names: &[String]| -> String {
            let names: Vec<String> =
                names.iter().map(|name| if escaped { format!("_{name}") } else { name.clone() }).collect();
            names.join(".")
        };
        if reference.scope == self.scope {
            for (at, before) in self.path.iter().rev() {
                let Some(rest) = reference.names.strip_prefix(&at[..]) else { continue };
                if rest.first().is_some_and(|first| before.contains(first)) {
                    let first = &rest[0];
                    let is_nearest = self
                        .path
                        .iter()
                        .rev()
                        .find(|(_, before)| before.contains(first))
                        .is_some_and(|(near, _)| near == at);
                    if is_nearest {
                        return Ok(written(rest));
                    }
                }
            }
        }
        let (_, prefix, _) = Scope::ALL[reference.scope as usize];
        Ok(format!("{prefix}.{}", written(&reference.names)))
    }
}

/// Whether CTF 1.8 has such names.
pub(crate) fn is_name(name: &str) -> bool {
    let mut letters = name.chars();
    letters.next().is_some_and(|c| c == '_' || c.is_ascii_alphabetic())
        && letters.all(|c| c == '_' || c.is_ascii_alphanumeric())
        && !KEYWORDS.contains(&name)
}

fn identifier(name: &str) -> Result<&str, String> {
    match is_name(name) {
        true => Ok(name),
        false => Err(format!(
            "{name:?} is no name in CTF 1.8: they have letters, digits and underscores, and are no keywords"
        )),
    }
}

fn order(order: ByteOrder) -> &'static str {
    match order {
        ByteOrder::Little => "le",
        ByteOrder::Big => "be",
    }
}

pub(crate) fn dashed(uuid: [u8; 16]) -> String {
    let digits = format!("{:032x}", u128::from_be_bytes(uuid));
    let [a, b, c, d, e] = [0..8, 8..12, 12..16, 16..20, 20..32].map(|part| &digits[part]);
    format!("{a}-{b}-{c}-{d}-{e}")
}

/// A string literal.
fn quoted(text: &str) -> String {
    let mut quoted = "\"".to_owned();
    for c in text.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            '\n' => quoted.push_str("\\n"),
            '\t' => quoted.push_str("\\t"),
            '\r' => quoted.push_str("\\r"),
            // Three digits: a digit that follows is none of them.
            c if c.is_ascii_control() => {
                let _ = write!(quoted, "\\{:03o}", u32::from(c));
            }
            c => quoted.push(c),
        }
    }
    quoted + "\""
}
