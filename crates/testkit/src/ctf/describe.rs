//! The tree of a text → its clocks, streams and events, with their types: which attributes blocks have, and what names of types mean
//! (CTF 1.8.3, sections 4, 7 and 8).

use std::collections::{HashMap, HashSet};
use std::rc::Rc;

use super::lexer::KEYWORDS;
use super::syntax::{self, Block, Declaration, Declarator, Entry, Expression, Item, Member, TypeIs, Value};
use super::{Fault, Rule, fault};

#[derive(Debug)]
pub(super) struct Described {
    pub(super) uuid: Option<[u8; 16]>,
    pub(super) has_clock: bool,
    pub(super) packet_header: Option<Scoped>,
    pub(super) streams: Vec<Stream>,
}

/// The type of a scope.
#[derive(Debug)]
pub(super) struct Scoped {
    pub(super) of: Rc<Type>,
    pub(super) line: u32,
}

#[derive(Debug)]
pub(super) struct Stream {
    pub(super) id: u64,
    pub(super) line: u32,
    pub(super) packet_context: Option<Scoped>,
    pub(super) event_header: Option<Scoped>,
    pub(super) event_context: Option<Scoped>,
    pub(super) events: Vec<Event>,
}

#[derive(Debug)]
pub(super) struct Event {
    pub(super) id: u64,
    stream: u64,
    pub(super) line: u32,
    pub(super) context: Option<Scoped>,
    pub(super) fields: Option<Scoped>,
}

#[derive(Debug)]
pub(super) enum Type {
    Int(Int),
    Enum(Int, Rc<[Label]>),
    Float { bits: u32, align: u32, order: Order },
    Text { is_ascii: bool },
    Struct { fields: Vec<Field>, align: u32 },
    Variant { tag: Option<Vec<String>>, options: Vec<Field>, line: u32 },
    Array(Rc<Type>, u64),
    Sequence(Rc<Type>, Vec<String>, u32),
}

#[derive(Clone, Debug)]
pub(super) struct Field {
    pub(super) name: String,
    pub(super) of: Rc<Type>,
    pub(super) line: u32,
}

#[derive(Clone, Debug)]
pub(super) struct Int {
    pub(super) bits: u32,
    pub(super) align: u32,
    pub(super) is_signed: bool,
    pub(super) order: Order,
    pub(super) has_clock: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Order {
    Little,
    Big,
}

/// An entry of an enumeration, from a value to a value.
#[derive(Debug)]
pub(super) struct Label {
    pub(super) name: String,
    pub(super) first: i128,
    pub(super) last: i128,
}

/// What a block may have: its values, and whether they must be there; the scopes that it defines, likewise.
struct Row {
    keyword: &'static str,
    values: &'static [(&'static str, bool)],
    scopes: &'static [(&'static str, bool)],
}

const ROWS: [Row; 8] = [
    Row {
        keyword: "trace",
        values: &[("major", true), ("minor", true), ("byte_order", true), ("uuid", false)],
        scopes: &[("packet.header", false)],
    },
    Row {
        keyword: "clock",
        values: &[
            ("name", true),
            ("uuid", false),
            ("description", false),
            ("freq", false),
            ("precision", false),
            ("offset_s", false),
            ("offset", false),
            ("absolute", false),
        ],
        scopes: &[],
    },
    Row {
        keyword: "stream",
        values: &[("id", true)],
        scopes: &[("packet.context", false), ("event.header", false), ("event.context", false)],
    },
    Row {
        keyword: "event",
        values: &[
            ("name", true),
            ("id", true),
            ("stream_id", true),
            ("loglevel", false),
            ("model.emf.uri", false),
        ],
        scopes: &[("context", false), ("fields", true)],
    },
    Row {
        keyword: "callsite",
        values: &[("name", true), ("func", true), ("file", true), ("line", true), ("ip", false)],
        scopes: &[],
    },
    Row {
        keyword: "integer",
        values: &[
            ("size", true),
            ("align", false),
            ("signed", false),
            ("byte_order", false),
            ("base", false),
            ("encoding", false),
            ("map", false),
        ],
        scopes: &[],
    },
    Row {
        keyword: "floating_point",
        values: &[("exp_dig", true), ("mant_dig", true), ("byte_order", false), ("align", false)],
        scopes: &[],
    },
    Row { keyword: "string", values: &[("encoding", false)], scopes: &[] },
];

/// Section 4.1.5.
const BASES: [&str; 15] = [
    "decimal",
    "dec",
    "d",
    "i",
    "u",
    "hexadecimal",
    "hex",
    "x",
    "X",
    "p",
    "octal",
    "oct",
    "o",
    "binary",
    "b",
];

pub(super) fn describe(items: &[Item]) -> Result<Described, Fault> {
    let mut describer =
        Describer { order: Order::Little, clocks: HashSet::new(), scopes: vec![HashMap::new()] };
    describer.look_ahead(items)?;
    let mut described = Described {
        uuid: None,
        has_clock: !describer.clocks.is_empty(),
        packet_header: None,
        streams: Vec::new(),
    };
    let (mut events, mut has_environment) = (Vec::new(), false);
    for item in items {
        match item {
            Item::Declare(declaration) => describer.declare(declaration)?,
            Item::Block(block) => match block.keyword.as_str() {
                "trace" => describer.trace(block, &mut described)?,
                "env" if has_environment => return Err(fault(block.line, Rule::Block, "a second env block")),
                "env" => {
                    has_environment = true;
                    describer.environment(block)?;
                }
                "clock" => clock(block)?,
                "stream" => {
                    let stream = describer.stream(block)?;
                    if described.streams.iter().any(|other| other.id == stream.id) {
                        let message = format!("a second stream {}", stream.id);
                        return Err(fault(block.line, Rule::StreamNumber, message));
                    }
                    described.streams.push(stream);
                }
                "event" => events.push(describer.event(block)?),
                _ => {
                    attributes(block)?.strings(&["name", "func", "file"])?.unsigned(&["line", "ip"])?;
                }
            },
            // The parser puts these into blocks alone.
            Item::Assign(path, _) | Item::Define(path, _) => {
                return Err(fault(path.line, Rule::Grammar, "an attribute outside a block"));
            }
        }
    }
    for event in events {
        let Some(stream) = described.streams.iter_mut().find(|stream| stream.id == event.stream) else {
            let message = format!("there is no stream {}", event.stream);
            return Err(fault(event.line, Rule::StreamNumber, message));
        };
        if stream.events.iter().any(|other| other.id == event.id) {
            let message = format!("a second event {} of stream {}", event.id, stream.id);
            return Err(fault(event.line, Rule::EventNumber, message));
        }
        stream.events.push(event);
    }
    Ok(described)
}

struct Describer {
    /// Of the trace.
    order: Order,
    clocks: HashSet<String>,
    /// Types by their names; the innermost last.
    scopes: Vec<HashMap<String, Rc<Type>>>,
}

impl Describer {
    /// What types refer to wherever it is said: the byte order of the trace, and the clocks.
    fn look_ahead(&mut self, items: &[Item]) -> Result<(), Fault> {
        let mut has_trace = false;
        for item in items {
            let Item::Block(block) = item else { continue };
            if block.keyword == "trace" {
                if has_trace {
                    return Err(fault(block.line, Rule::Block, "a second trace block"));
                }
                has_trace = true;
                let attributes = attributes(block)?;
                let value = attributes.value("byte_order")?;
                self.order = match &value.is {
                    Expression::Path(words) if words == &["le"] => Order::Little,
                    Expression::Path(words) if words == &["be"] => Order::Big,
                    _ => return Err(fault(value.line, Rule::ByteOrder, "the trace's is neither le nor be")),
                };
            }
            if block.keyword == "clock" {
                let attributes = attributes(block)?;
                let value = attributes.value("name")?;
                let name = match &value.is {
                    Expression::Text(text) => text.clone(),
                    Expression::Path(words) if words.len() == 1 => words[0].clone(),
                    _ => return Err(fault(value.line, Rule::Clock, "its name is no identifier")),
                };
                if !is_identifier(&name) {
                    return Err(fault(
                        value.line,
                        Rule::Clock,
                        format!("its name {name:?} is no identifier"),
                    ));
                }
                if !self.clocks.insert(name) {
                    return Err(fault(value.line, Rule::Clock, "its name is another's"));
                }
            }
        }
        match has_trace {
            true => Ok(()),
            false => Err(fault(1, Rule::Block, "there is no trace block")),
        }
    }

    fn trace(&mut self, block: &Block, described: &mut Described) -> Result<(), Fault> {
        let attributes = attributes(block)?;
        for (name, expected) in [("major", 1), ("minor", 8)] {
            let value = attributes.value(name)?;
            if !matches!(value.is, Expression::Int(found) if found == expected) {
                return Err(fault(value.line, Rule::Version, format!("{name} is not {expected}")));
            }
        }
        described.uuid = attributes.uuid()?;
        let mut scopes = self.definitions(block)?;
        described.packet_header = scopes.remove("packet.header");
        Ok(())
    }

    fn environment(&mut self, block: &Block) -> Result<(), Fault> {
        let mut names = HashSet::new();
        self.scopes.push(HashMap::new());
        for item in &block.items {
            match item {
                Item::Assign(path, value) => {
                    let name = path.words.join(".");
                    if let Some(word) = path.words.iter().find(|word| KEYWORDS.contains(&word.as_str())) {
                        return Err(fault(path.line, Rule::Keyword, format!("{word} stands for a name")));
                    }
                    if !names.insert(name.clone()) {
                        return Err(fault(path.line, Rule::Attribute, format!("a second {name}")));
                    }
                    if matches!(value.is, Expression::Path(_)) {
                        return Err(fault(value.line, Rule::Value, format!("{name} is no number or string")));
                    }
                }
                Item::Declare(declaration) => self.declare(declaration)?,
                Item::Define(path, _) => {
                    return Err(fault(path.line, Rule::Attribute, "a type in the environment"));
                }
                Item::Block(block) => return Err(fault(block.line, Rule::Grammar, "a block in a block")),
            }
        }
        self.scopes.pop();
        Ok(())
    }

    fn stream(&mut self, block: &Block) -> Result<Stream, Fault> {
        let attributes = attributes(block)?;
        let id = number(attributes.value("id")?)?;
        let mut scopes = self.definitions(block)?;
        Ok(Stream {
            id,
            line: block.line,
            packet_context: scopes.remove("packet.context"),
            event_header: scopes.remove("event.header"),
            event_context: scopes.remove("event.context"),
            events: Vec::new(),
        })
    }

    fn event(&mut self, block: &Block) -> Result<Event, Fault> {
        let attributes = attributes(block)?.strings(&["name", "model.emf.uri"])?;
        if let Some(value) = attributes.values.get("loglevel")
            && !matches!(value.is, Expression::Int(_))
        {
            return Err(fault(value.line, Rule::Value, "loglevel is no number"));
        }
        let id = number(attributes.value("id")?)?;
        let stream = number(attributes.value("stream_id")?)?;
        let mut scopes = self.definitions(block)?;
        let (context, fields) = (scopes.remove("context"), scopes.remove("fields"));
        Ok(Event { id, stream, line: block.line, context, fields })
    }

    /// The scopes that a block defines, by their names; with the types that are declared before them in it.
    fn definitions(&mut self, block: &Block) -> Result<HashMap<String, Scoped>, Fault> {
        let mut scopes = HashMap::new();
        self.scopes.push(HashMap::new());
        for item in &block.items {
            match item {
                Item::Define(path, of) => {
                    let of = self.of(of)?;
                    scopes.insert(path.words.join("."), Scoped { of, line: path.line });
                }
                Item::Declare(declaration) => self.declare(declaration)?,
                Item::Assign(..) | Item::Block(_) => {}
            }
        }
        self.scopes.pop();
        Ok(scopes)
    }

    fn declare(&mut self, declaration: &Declaration) -> Result<(), Fault> {
        match declaration {
            Declaration::Type(of) => self.of(of).map(|_| ()),
            Declaration::Alias(of, name) => {
                let line = of.line;
                let of = self.of(of)?;
                self.name(name.clone(), of, line)
            }
            Declaration::Typedef(of, declarators) => {
                let of = self.of(of)?;
                for declarator in declarators {
                    let of = self.dimensions(&of, declarator)?;
                    self.name(declarator.name.clone(), of, declarator.line)?;
                }
                Ok(())
            }
        }
    }

    fn name(&mut self, name: String, of: Rc<Type>, line: u32) -> Result<(), Fault> {
        // SANITY: the outermost scope is never taken away.
        let scope = self.scopes.last_mut().expect("a scope");
        match scope.insert(name.clone(), of) {
            None => Ok(()),
            Some(_) => Err(fault(line, Rule::TypeName, format!("a second type {name}"))),
        }
    }

    fn named(&self, name: &str, line: u32) -> Result<Rc<Type>, Fault> {
        let found = self.scopes.iter().rev().find_map(|scope| scope.get(name));
        found.cloned().ok_or_else(|| fault(line, Rule::TypeName, format!("there is no type {name}")))
    }

    fn of(&mut self, of: &syntax::Type) -> Result<Rc<Type>, Fault> {
        let line = of.line;
        match &of.is {
            TypeIs::Named(name) => self.named(name, line),
            TypeIs::Basic(block) => self.basic(block).map(Rc::new),
            TypeIs::Struct { name, body, align } => {
                let least = align.as_ref().map_or(Ok(1), alignment)?;
                let Some(body) = body else {
                    let known =
                        self.named(&format!("struct {}", name.as_deref().unwrap_or_default()), line)?;
                    return Ok(match &*known {
                        Type::Struct { fields, align } if least > *align => {
                            Rc::new(Type::Struct { fields: fields.clone(), align: least })
                        }
                        _ => known,
                    });
                };
                let fields = self.fields(body)?;
                let of = Rc::new(Type::Struct { fields, align: least });
                if let Some(name) = name {
                    self.name(format!("struct {name}"), of.clone(), line)?;
                }
                Ok(of)
            }
            TypeIs::Variant { name, tag, body } => {
                let tag = match tag {
                    None => None,
                    Some(Value { is: Expression::Path(words), .. }) => Some(words.clone()),
                    Some(Value { line, .. }) => {
                        return Err(fault(*line, Rule::Tag, "a value instead of a field's name"));
                    }
                };
                let options = match body {
                    Some(body) => self.fields(body)?,
                    None => {
                        let known =
                            self.named(&format!("variant {}", name.as_deref().unwrap_or_default()), line)?;
                        let Type::Variant { options, .. } = &*known else { return Ok(known) };
                        options.clone()
                    }
                };
                let of = Rc::new(Type::Variant { tag, options, line });
                if let (Some(name), true) = (name, body.is_some()) {
                    self.name(format!("variant {name}"), of.clone(), line)?;
                }
                Ok(of)
            }
            TypeIs::Enum { name, container, body } => {
                let Some(body) = body else {
                    return self.named(&format!("enum {}", name.as_deref().unwrap_or_default()), line);
                };
                let container = match container {
                    Some(container) => self.of(container)?,
                    None => self.named("int", line)?,
                };
                let Type::Int(int) = &*container else {
                    return Err(fault(line, Rule::Enumeration, "its values are no integers"));
                };
                let of = Rc::new(Type::Enum(int.clone(), labels(int, body, line)?));
                if let Some(name) = name {
                    self.name(format!("enum {name}"), of.clone(), line)?;
                }
                Ok(of)
            }
        }
    }

    fn fields(&mut self, body: &[Member]) -> Result<Vec<Field>, Fault> {
        let mut fields: Vec<Field> = Vec::new();
        let mut names = HashSet::new();
        self.scopes.push(HashMap::new());
        for member in body {
            match member {
                Member::Declare(declaration) => self.declare(declaration)?,
                Member::Fields(of, declarators) => {
                    let of = self.of(of)?;
                    for declarator in declarators {
                        let Declarator { name, line, .. } = declarator;
                        let read = name.strip_prefix('_').unwrap_or(name);
                        if !names.insert(read.to_owned()) {
                            return Err(fault(*line, Rule::FieldName, format!("a second field {read}")));
                        }
                        let of = self.dimensions(&of, declarator)?;
                        fields.push(Field { name: name.clone(), of, line: *line });
                    }
                }
            }
        }
        self.scopes.pop();
        Ok(fields)
    }

    /// The type with the brackets of a declarator: the first ones are the outermost.
    fn dimensions(&self, of: &Rc<Type>, declarator: &Declarator) -> Result<Rc<Type>, Fault> {
        let mut of = of.clone();
        for length in declarator.lengths.iter().rev() {
            of = Rc::new(match &length.is {
                Expression::Int(count) => {
                    let count = u64::try_from(*count).ok();
                    let refuse = || fault(length.line, Rule::Length, "it is less than nothing");
                    Type::Array(of, count.ok_or_else(refuse)?)
                }
                Expression::Path(words) => Type::Sequence(of, words.clone(), length.line),
                Expression::Text(_) => return Err(fault(length.line, Rule::Length, "a string")),
            });
        }
        Ok(of)
    }

    /// `integer`, `floating_point` or `string`.
    fn basic(&self, block: &Block) -> Result<Type, Fault> {
        let attributes = attributes(block)?;
        let encoding = match attributes.values.get("encoding") {
            None => None,
            Some(Value { is: Expression::Path(words), .. })
                if matches!(words.join(".").as_str(), "none" | "UTF8" | "ASCII") =>
            {
                Some(words[0].as_str())
            }
            Some(value) => {
                return Err(fault(value.line, Rule::Value, "the encoding is none of none, UTF8, ASCII"));
            }
        };
        if block.keyword == "string" {
            return match encoding {
                Some("none") => Err(fault(block.line, Rule::Value, "a string without an encoding")),
                encoding => Ok(Type::Text { is_ascii: encoding == Some("ASCII") }),
            };
        }
        let order = self.byte_order(&attributes)?;
        let align = attributes.values.get("align").map(|value| alignment(value)).transpose()?;
        if block.keyword == "floating_point" {
            let digits = [number(attributes.value("exp_dig")?)?, number(attributes.value("mant_dig")?)?];
            let bits = match digits {
                [8, 24] => 32,
                [11, 53] => 64,
                [exponent, mantissa] => {
                    let message = format!("{exponent} + {mantissa} digits");
                    return Err(fault(block.line, Rule::Float, message));
                }
            };
            return Ok(Type::Float { bits, align: align.unwrap_or(8), order });
        }
        let size = attributes.value("size")?;
        let bits = match number(size)? {
            bits @ 1..=64 => bits as u32,
            bits => return Err(fault(size.line, Rule::Size, format!("{bits} bits"))),
        };
        if let Some(value) = attributes.values.get("base") {
            let is_known = match &value.is {
                Expression::Int(base) => [2, 8, 10, 16].contains(base),
                Expression::Path(words) => BASES.contains(&words.join(".").as_str()),
                Expression::Text(_) => false,
            };
            if !is_known {
                return Err(fault(value.line, Rule::Value, "a base that is not 2, 8, 10 or 16"));
            }
        }
        let has_clock = match attributes.values.get("map") {
            None => false,
            Some(Value { is: Expression::Path(words), .. })
                if matches!(&words[..], [clock, name, value]
                    if clock == "clock" && value == "value" && self.clocks.contains(name)) =>
            {
                true
            }
            Some(value) => return Err(fault(value.line, Rule::Map, "to no value of a clock that there is")),
        };
        let is_signed = attributes.boolean("signed")?;
        let align = align.unwrap_or(if bits.is_multiple_of(8) { 8 } else { 1 });
        Ok(Type::Int(Int { bits, align, is_signed, order, has_clock }))
    }

    fn byte_order(&self, attributes: &Attributes<'_>) -> Result<Order, Fault> {
        let Some(value) = attributes.values.get("byte_order") else { return Ok(self.order) };
        match &value.is {
            Expression::Path(words) if words == &["native"] => Ok(self.order),
            Expression::Path(words) if words == &["le"] => Ok(Order::Little),
            Expression::Path(words) if words == &["be"] || words == &["network"] => Ok(Order::Big),
            _ => Err(fault(value.line, Rule::ByteOrder, "none that there is")),
        }
    }
}

fn clock(block: &Block) -> Result<(), Fault> {
    let attributes =
        attributes(block)?.strings(&["description"])?.unsigned(&["freq", "precision", "offset"])?;
    attributes.uuid()?;
    attributes.boolean("absolute")?;
    if let Some(value) = attributes.values.get("freq")
        && number(value)? == 0
    {
        return Err(fault(value.line, Rule::Clock, "a frequency of 0"));
    }
    match attributes.values.get("offset_s") {
        Some(value) if !matches!(value.is, Expression::Int(offset) if i64::try_from(offset).is_ok()) => {
            Err(fault(value.line, Rule::Value, "offset_s is no number of 64 bits"))
        }
        _ => Ok(()),
    }
}

fn labels(int: &Int, body: &[Entry], line: u32) -> Result<Rc<[Label]>, Fault> {
    let (least, most) = match int.is_signed {
        true => (-(1i128 << (int.bits - 1)), (1i128 << (int.bits - 1)) - 1),
        false => (0, (1i128 << int.bits) - 1),
    };
    let mut next = 0;
    let mut labels = Vec::new();
    for Entry { label, values, line } in body {
        let number = |value: &Value| match value.is {
            Expression::Int(value) => Ok(value),
            _ => Err(fault(value.line, Rule::Enumeration, "a value that is no number")),
        };
        let (first, last) = match values {
            None => (next, next),
            Some((value, None)) => (number(value)?, number(value)?),
            Some((first, Some(last))) => (number(first)?, number(last)?),
        };
        if first > last || first < least || last > most {
            let message = format!("{label:?} from {first} to {last}, where values are {least} to {most}");
            return Err(fault(*line, Rule::Enumeration, message));
        }
        next = last + 1;
        labels.push(Label { name: label.clone(), first, last });
    }
    match labels.is_empty() {
        true => Err(fault(line, Rule::Enumeration, "it has no entry")),
        false => Ok(labels.into()),
    }
}

fn alignment(value: &Value) -> Result<u32, Fault> {
    match value.is {
        Expression::Int(bits)
            if u32::try_from(bits).is_ok_and(|bits| bits.is_power_of_two() && bits <= 1 << 20) =>
        {
            Ok(bits as u32)
        }
        _ => Err(fault(value.line, Rule::Align, "no power of two")),
    }
}

fn number(value: &Value) -> Result<u64, Fault> {
    match value.is {
        Expression::Int(number) => u64::try_from(number).ok(),
        _ => None,
    }
    .ok_or_else(|| fault(value.line, Rule::Value, "no number from 0 on"))
}

fn is_identifier(name: &str) -> bool {
    let mut letters = name.chars();
    letters.next().is_some_and(|c| c == '_' || c.is_ascii_alphabetic())
        && letters.all(|c| c == '_' || c.is_ascii_alphanumeric())
        && !KEYWORDS.contains(&name)
}

/// The values of a block, each known to it and there once, and all that must be there.
struct Attributes<'b> {
    values: HashMap<String, &'b Value>,
    line: u32,
}

fn attributes(block: &Block) -> Result<Attributes<'_>, Fault> {
    // SANITY: the parser makes blocks of the rows' words, and of env, whose names are free.
    let row = ROWS.iter().find(|row| row.keyword == block.keyword).expect("a row");
    let mut values = HashMap::new();
    let mut seen = HashSet::new();
    for item in &block.items {
        let (path, value) = match item {
            Item::Assign(path, value) => (path, Some(value)),
            Item::Define(path, _) => (path, None),
            Item::Declare(_) if !row.scopes.is_empty() => continue,
            Item::Declare(_) | Item::Block(_) => {
                return Err(fault(block.line, Rule::Attribute, "a declaration among values"));
            }
        };
        let name = path.words.join(".");
        let known = if value.is_some() { row.values } else { row.scopes };
        if !known.iter().any(|(known, _)| *known == name) {
            let message = format!("{} has no {name}", block.keyword);
            return Err(fault(path.line, Rule::Attribute, message));
        }
        if !seen.insert(name.clone()) {
            return Err(fault(path.line, Rule::Attribute, format!("a second {name}")));
        }
        if let Some(value) = value {
            values.insert(name, value);
        }
    }
    let missing = |(name, is_required): &&(&str, bool)| *is_required && !seen.contains(*name);
    if let Some((name, _)) = row.values.iter().chain(row.scopes).find(missing) {
        return Err(fault(block.line, Rule::Missing, format!("{} without {name}", block.keyword)));
    }
    Ok(Attributes { values, line: block.line })
}

impl<'b> Attributes<'b> {
    fn value(&self, name: &str) -> Result<&'b Value, Fault> {
        let found = self.values.get(name).copied();
        found.ok_or_else(|| fault(self.line, Rule::Missing, format!("there is no {name}")))
    }

    /// These are strings, where they are there.
    fn strings(self, names: &[&str]) -> Result<Self, Fault> {
        for name in names {
            if let Some(value) = self.values.get(*name)
                && !matches!(value.is, Expression::Text(_))
            {
                return Err(fault(value.line, Rule::Value, format!("{name} is no string")));
            }
        }
        Ok(self)
    }

    fn unsigned(self, names: &[&str]) -> Result<Self, Fault> {
        for name in names {
            self.values.get(*name).map(|value| number(value)).transpose()?;
        }
        Ok(self)
    }

    /// Section 7.1.
    fn boolean(&self, name: &str) -> Result<bool, Fault> {
        let Some(value) = self.values.get(name) else { return Ok(false) };
        match &value.is {
            Expression::Int(0) => Ok(false),
            Expression::Int(1) => Ok(true),
            Expression::Path(words) if words == &["false"] || words == &["FALSE"] => Ok(false),
            Expression::Path(words) if words == &["true"] || words == &["TRUE"] => Ok(true),
            _ => Err(fault(value.line, Rule::Value, format!("{name} is neither true nor false"))),
        }
    }

    fn uuid(&self) -> Result<Option<[u8; 16]>, Fault> {
        let Some(value) = self.values.get("uuid") else { return Ok(None) };
        let refuse = || fault(value.line, Rule::Uuid, "no UUID");
        let Expression::Text(text) = &value.is else { return Err(refuse()) };
        let parts: Vec<usize> = text.split('-').map(str::len).collect();
        let digits = text.replace('-', "");
        if parts != [8, 4, 4, 4, 12] || !digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(refuse());
        }
        let number = u128::from_str_radix(&digits, 16).map_err(|_| refuse())?;
        Ok(Some(number.to_be_bytes()))
    }
}
