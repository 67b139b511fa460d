//! Tokens of TSDL → [`ast::Document`], by descent.
//!
//! Types are declared before they are used, so that one pass does. A name is looked up in the scopes around it, innermost first.

use std::collections::HashMap;
use std::rc::Rc;

use super::Fault;
use super::ast::{self, Literal, Type};
use super::lexer::{Lexer, Token};
use crate::class::{Base, ByteOrder, ClockClass};
use crate::limits::{ALIGN_BITS_MAX, DEPTH_MAX, FIELDS_MAX, MEMBERS_MAX};

/// The document that the text is.
pub(crate) fn parse(text: &str) -> Result<ast::Document, Fault> {
    let mut lexer = Lexer::new(text);
    let (token, at) = lexer.next()?;
    let mut parser = Parser { lexer, token, at, scopes: vec![Names::default()], depth: 0, members: 0 };
    let mut document = ast::Document::default();
    while parser.token != Token::End {
        parser.declaration(&mut document)?;
    }
    Ok(document)
}

/// Names that are declared in one scope: of aliases, then of structs, variants and enums (`struct NAME`).
type Names = HashMap<String, Rc<Type>>;

#[derive(Debug)]
struct Parser<'t> {
    lexer: Lexer<'t>,
    token: Token<'t>,
    /// Where the token begins.
    at: usize,
    scopes: Vec<Names>,
    depth: usize,
    /// Members so far, and those of copies.
    members: usize,
}

/// What stands in the braces of a block.
enum Entry {
    /// `path = value`
    Value(String, Literal),
    /// `path := type`
    Type(String, Rc<Type>),
    /// A declaration, which has done what it is for.
    Declared,
}

/// Words of which several make one name of a type.
const WORDS: [&str; 12] = [
    "void",
    "char",
    "short",
    "int",
    "long",
    "float",
    "double",
    "signed",
    "unsigned",
    "_Bool",
    "_Complex",
    "_Imaginary",
];

impl<'t> Parser<'t> {
    fn declaration(&mut self, document: &mut ast::Document) -> Result<(), Fault> {
        let begin = self.at;
        match self.token {
            Token::Name("trace") => self.trace(document)?,
            Token::Name("env") => self.environment(document)?,
            Token::Name("clock") => {
                let clock = self.clock()?;
                document.clocks.push(clock);
            }
            Token::Name("stream") => {
                let stream = self.stream(begin)?;
                document.streams.push(stream);
            }
            Token::Name("event") => {
                let event = self.event(begin)?;
                document.events.push(event);
            }
            Token::Name("callsite") => self.block(|_, _, _| Ok(()))?,
            Token::Name("typedef" | "typealias") => self.named_type()?,
            _ => drop(self.specifiers()?),
        }
        self.expect(";")
    }

    fn trace(&mut self, document: &mut ast::Document) -> Result<(), Fault> {
        self.block(|parser, entry, at| {
            match entry {
                Entry::Value(name, value) => match name.as_str() {
                    "byte_order" => document.order = parser.order(&value, at)?,
                    "uuid" => document.uuid = Some(uuid(&value, at)?),
                    "major" if value != Literal::Int(1) => {
                        return Err(Fault::new(at, "this is not version 1 of the format"));
                    }
                    _ => {}
                },
                Entry::Type(name, ty) if name == "packet.header" => document.packet_header = Some(ty),
                Entry::Type(..) | Entry::Declared => {}
            }
            Ok(())
        })
    }

    fn environment(&mut self, document: &mut ast::Document) -> Result<(), Fault> {
        self.block(|_, entry, _| {
            if let Entry::Value(name, value) = entry {
                document.environment.push((name, value));
            }
            Ok(())
        })
    }

    fn clock(&mut self) -> Result<ClockClass, Fault> {
        let mut clock = ClockClass { name: String::new(), ..ClockClass::default() };
        let begin = self.at;
        self.block(|_, entry, at| {
            let Entry::Value(name, value) = entry else { return Ok(()) };
            match name.as_str() {
                "name" => clock.name = text(value, at)?,
                "description" => clock.description = Some(text(value, at)?),
                "uuid" => clock.uuid = Some(uuid(&value, at)?),
                "freq" => clock.frequency = number(&value, at)?,
                "precision" => clock.precision = number(&value, at)?,
                "offset_s" => clock.offset_s = number(&value, at)?,
                "offset" => clock.offset_cycles = number(&value, at)?,
                "absolute" => clock.is_absolute = boolean(&value, at)?,
                _ => {}
            }
            Ok(())
        })?;
        if clock.frequency == 0 {
            return Err(Fault::new(begin, "a clock of frequency 0 never moves"));
        }
        Ok(clock)
    }

    fn stream(&mut self, offset: usize) -> Result<ast::Stream, Fault> {
        let mut stream = ast::Stream { offset, ..ast::Stream::default() };
        self.block(|_, entry, at| {
            match entry {
                Entry::Value(name, value) if name == "id" => stream.id = number(&value, at)?,
                Entry::Type(name, ty) => match name.as_str() {
                    "packet.context" => stream.packet_context = Some(ty),
                    "event.header" => stream.event_header = Some(ty),
                    "event.context" => stream.event_context = Some(ty),
                    _ => {}
                },
                Entry::Value(..) | Entry::Declared => {}
            }
            Ok(())
        })?;
        Ok(stream)
    }

    fn event(&mut self, offset: usize) -> Result<ast::Event, Fault> {
        let mut event = ast::Event { offset, ..ast::Event::default() };
        self.block(|_, entry, at| {
            match entry {
                Entry::Value(name, value) => match name.as_str() {
                    "id" => event.id = number(&value, at)?,
                    "stream_id" => event.stream_id = number(&value, at)?,
                    "name" => event.name = Some(text(value, at)?),
                    "loglevel" => event.level = Some(number(&value, at)?),
                    _ => {}
                },
                Entry::Type(name, ty) => match name.as_str() {
                    "context" => event.context = Some(ty),
                    "fields" => event.fields = Some(ty),
                    _ => {}
                },
                Entry::Declared => {}
            }
            Ok(())
        })?;
        Ok(event)
    }

    /// `NAME { ENTRY; … }`: each entry, with where it begins.
    fn block(
        &mut self,
        mut then: impl FnMut(&mut Parser<'t>, Entry, usize) -> Result<(), Fault>,
    ) -> Result<(), Fault> {
        self.advance()?;
        self.expect("{")?;
        self.scopes.push(Names::default());
        while !self.is("}") {
            let at = self.at;
            let entry = self.entry()?;
            self.expect(";")?;
            then(self, entry, at)?;
        }
        self.scopes.pop();
        self.advance()
    }

    fn entry(&mut self) -> Result<Entry, Fault> {
        match self.token {
            Token::Name("typedef" | "typealias") => self.named_type().map(|()| Entry::Declared),
            Token::Name("struct" | "variant" | "enum" | "integer" | "floating_point") => {
                self.specifiers().map(|_| Entry::Declared)
            }
            _ => {
                let name = self.path()?.join(".");
                if self.take("=")? {
                    return Ok(Entry::Value(name, self.literal()?));
                }
                self.expect(":=")?;
                Ok(Entry::Type(name, self.specifiers()?))
            }
        }
    }

    /// `typedef TYPE NAME[…], …` or `typealias TYPE := NAME`
    fn named_type(&mut self) -> Result<(), Fault> {
        let is_alias = self.token == Token::Name("typealias");
        self.advance()?;
        let ty = self.specifiers()?;
        if is_alias {
            // An abstract declarator has no name.
            let ty = self.dimensions(ty)?;
            self.expect(":=")?;
            let name = self.alias_name()?;
            return self.declare(name, ty);
        }
        loop {
            let name = self.name()?.to_owned();
            let declared = self.dimensions(Rc::clone(&ty))?;
            self.declare(name, declared)?;
            if !self.take(",")? {
                return Ok(());
            }
        }
    }

    /// Words and stars up to the end.
    fn alias_name(&mut self) -> Result<String, Fault> {
        let mut words = Vec::new();
        loop {
            match self.token {
                Token::Name(word) => words.push(word),
                Token::Mark("*") => words.push("*"),
                _ if words.is_empty() => return Err(self.unexpected("the name of a type")),
                _ => return Ok(words.join(" ")),
            }
            self.advance()?;
        }
    }

    fn declare(&mut self, name: String, ty: Rc<Type>) -> Result<(), Fault> {
        // SANITY: the outermost scope is never popped.
        let scope = self.scopes.last_mut().expect("a scope");
        match scope.insert(name, ty) {
            None => Ok(()),
            Some(_) => Err(Fault::new(self.at, "this name has a type already")),
        }
    }

    fn lookup(&self, name: &str, at: usize) -> Result<Rc<Type>, Fault> {
        let found = self.scopes.iter().rev().find_map(|scope| scope.get(name));
        found.cloned().ok_or_else(|| Fault::new(at, format!("no type is called {name}")))
    }

    /// A type without what its declarator adds.
    fn specifiers(&mut self) -> Result<Rc<Type>, Fault> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(Fault::new(
                self.at,
                format!("types stand in one another more than {DEPTH_MAX} deep"),
            ));
        }
        while self.token == Token::Name("const") {
            self.advance()?;
        }
        let begin = self.at;
        let Token::Name(word) = self.token else { return Err(self.unexpected("a type")) };
        let ty = match word {
            "struct" => self.structure()?,
            "variant" => self.variant()?,
            "enum" => self.enumeration()?,
            "integer" => Rc::new(Type::Int(self.integer()?)),
            "floating_point" => Rc::new(self.float()?),
            "string" => {
                self.advance()?;
                if self.is("{") {
                    self.attributes(|_, _, _, _| Ok(()))?;
                }
                Rc::new(Type::Str)
            }
            word if WORDS.contains(&word) => {
                let mut words = Vec::new();
                while let Token::Name(word) = self.token
                    && WORDS.contains(&word)
                {
                    words.push(word);
                    self.advance()?;
                }
                self.lookup(&words.join(" "), begin)?
            }
            name => {
                self.advance()?;
                self.lookup(name, begin)?
            }
        };
        self.depth -= 1;
        Ok(ty)
    }

    /// The name behind `struct`, `variant` or `enum`, if there is one.
    fn tag(&mut self) -> Result<Option<&'t str>, Fault> {
        self.advance()?;
        match self.token {
            // `struct align(8)` would be of a struct of that name, which a keyword cannot be.
            Token::Name(name) if name != "align" => {
                self.advance()?;
                Ok(Some(name))
            }
            _ => Ok(None),
        }
    }

    /// What is declared under `NAME`, or in braces and then declared under it.
    fn tagged(
        &mut self,
        kind: &str,
        tag: Option<&str>,
        read: impl FnOnce(&mut Parser<'t>) -> Result<Type, Fault>,
    ) -> Result<Rc<Type>, Fault> {
        let begin = self.at;
        let name = tag.map(|tag| format!("{kind} {tag}"));
        match name {
            Some(name) if !self.is("{") => self.lookup(&name, begin),
            name => {
                let ty = Rc::new(read(self)?);
                if let Some(name) = name {
                    self.declare(name, Rc::clone(&ty))?;
                }
                Ok(ty)
            }
        }
    }

    fn structure(&mut self) -> Result<Rc<Type>, Fault> {
        let tag = self.tag()?;
        let is_declared = self.is("{");
        let ty = self.tagged("struct", tag, |parser| {
            let members = parser.members()?;
            let align = parser.align()?.unwrap_or(1);
            Ok(Type::Struct { members, align })
        })?;
        if is_declared {
            return Ok(ty);
        }
        // A struct by its name, with more alignment.
        match (self.align()?, &*ty) {
            (Some(align), Type::Struct { members, align: own }) => {
                self.count(members.len())?;
                Ok(Rc::new(Type::Struct { members: members.clone(), align: align.max(*own) }))
            }
            _ => Ok(ty),
        }
    }

    /// `align(N)`, if it is there.
    fn align(&mut self) -> Result<Option<u32>, Fault> {
        if self.token != Token::Name("align") {
            return Ok(None);
        }
        self.advance()?;
        self.expect("(")?;
        let at = self.at;
        let align = alignment(&self.literal()?, at)?;
        self.expect(")")?;
        Ok(Some(align))
    }

    fn members(&mut self) -> Result<Vec<ast::Member>, Fault> {
        self.expect("{")?;
        self.scopes.push(Names::default());
        let mut members: Vec<ast::Member> = Vec::new();
        while !self.is("}") {
            if let Token::Name("typedef" | "typealias") = self.token {
                self.named_type()?;
            } else {
                let ty = self.specifiers()?;
                while !self.is(";") {
                    if self.is("*") {
                        return Err(Fault::new(self.at, "pointers are no fields: write an integer"));
                    }
                    let offset = self.at;
                    let name = self.name()?.to_owned();
                    if self.is(":") {
                        let text = "bit-fields of C are not read: write integer { size = N; align = 1; … }";
                        return Err(Fault::new(self.at, text));
                    }
                    let ty = self.dimensions(Rc::clone(&ty))?;
                    self.count(1)?;
                    members.push(ast::Member { name, ty, offset });
                    if members.len() > MEMBERS_MAX {
                        return Err(Fault::new(
                            offset,
                            format!("more than {MEMBERS_MAX} members of one type"),
                        ));
                    }
                    if !self.take(",")? {
                        break;
                    }
                }
            }
            self.expect(";")?;
        }
        self.scopes.pop();
        self.advance()?;
        Ok(members)
    }

    fn count(&mut self, members: usize) -> Result<(), Fault> {
        self.members += members;
        match self.members > FIELDS_MAX {
            true => Err(Fault::new(self.at, format!("types have more than {FIELDS_MAX} members"))),
            false => Ok(()),
        }
    }

    /// `[3][n]`: an array of three sequences.
    fn dimensions(&mut self, ty: Rc<Type>) -> Result<Rc<Type>, Fault> {
        let mut dimensions = Vec::new();
        while self.take("[")? {
            let offset = self.at;
            dimensions.push((self.literal()?, offset));
            self.expect("]")?;
            if dimensions.len() > DEPTH_MAX {
                return Err(Fault::new(offset, format!("an array has more than {DEPTH_MAX} dimensions")));
            }
        }
        dimensions.into_iter().rev().try_fold(ty, |element, (length, offset)| {
            Ok(Rc::new(match length {
                Literal::Path(names) => Type::Sequence { element, length: ast::Path { names, offset } },
                other => Type::Array { element, count: number(&other, offset)? },
            }))
        })
    }

    fn variant(&mut self) -> Result<Rc<Type>, Fault> {
        let name = self.tag()?;
        let mut tag = None;
        if self.take("<")? {
            let offset = self.at;
            tag = Some(ast::Path { names: self.path()?, offset });
            self.expect(">")?;
        }
        let ty = self.tagged("variant", name, |parser| {
            let options = parser.members()?;
            Ok(Type::Variant { tag: None, options })
        })?;
        match (tag, &*ty) {
            (Some(tag), Type::Variant { options, .. }) => {
                self.count(options.len())?;
                Ok(Rc::new(Type::Variant { tag: Some(tag), options: options.clone() }))
            }
            _ => Ok(ty),
        }
    }

    fn enumeration(&mut self) -> Result<Rc<Type>, Fault> {
        let tag = self.tag()?;
        let at = self.at;
        let container = if self.take(":")? { Some(self.specifiers()?) } else { None };
        self.tagged("enum", tag, |parser| {
            let container = match container {
                Some(container) => container,
                None => parser.lookup("int", at)?,
            };
            let Type::Int(int) = &*container else {
                return Err(Fault::new(at, "the type of an enumeration is an integer"));
            };
            Ok(Type::Enum(int.clone(), parser.labels()?))
        })
    }

    fn labels(&mut self) -> Result<Vec<(String, i128, i128)>, Fault> {
        self.expect("{")?;
        let mut labels = Vec::new();
        let mut next: i128 = 0;
        while !self.is("}") {
            let label = match &self.token {
                Token::Str(label) => label.clone(),
                Token::Name(label) => (*label).to_owned(),
                _ => return Err(self.unexpected("a label")),
            };
            self.advance()?;
            let (mut first, mut last) = (next, next);
            if self.take("=")? {
                let at = self.at;
                first = number(&self.literal()?, at)?;
                last = first;
                if self.take("...")? {
                    last = number(&self.literal()?, at)?;
                }
                if first > last {
                    return Err(Fault::new(at, "this range ends before it begins"));
                }
            }
            next = last + 1;
            labels.push((label, first, last));
            if labels.len() > MEMBERS_MAX {
                return Err(Fault::new(
                    self.at,
                    format!("more than {MEMBERS_MAX} labels of one enumeration"),
                ));
            }
            if !self.take(",")? {
                break;
            }
        }
        self.expect("}")?;
        Ok(labels)
    }

    /// `NAME { ATTRIBUTE = VALUE; … }`
    fn attributes(
        &mut self,
        mut then: impl FnMut(&mut Parser<'t>, &str, Literal, usize) -> Result<(), Fault>,
    ) -> Result<(), Fault> {
        self.expect("{")?;
        while !self.is("}") {
            let name = self.path()?.join(".");
            self.expect("=")?;
            let at = self.at;
            let value = self.literal()?;
            then(self, &name, value, at)?;
            self.expect(";")?;
        }
        self.advance()
    }

    fn integer(&mut self) -> Result<ast::Int, Fault> {
        let begin = self.at;
        self.advance()?;
        let (mut bits, mut align) = (0u64, None);
        let mut int = ast::Int {
            bits: 0,
            align: 0,
            is_signed: false,
            order: None,
            base: Base::Decimal,
            is_text: false,
            clock: None,
        };
        self.attributes(|parser, name, value, at| {
            match name {
                "size" => bits = number(&value, at)?,
                "align" => align = Some(alignment(&value, at)?),
                "signed" => int.is_signed = boolean(&value, at)?,
                "byte_order" => int.order = parser.order(&value, at)?,
                "base" => int.base = base(&value, at)?,
                "encoding" => int.is_text = is_text(&value, at)?,
                "map" => int.clock = Some((clock_of(&value, at)?, at)),
                _ => {}
            }
            Ok(())
        })?;
        if !(1..=64).contains(&bits) {
            return Err(Fault::new(begin, format!("an integer of {bits} bits: they have 1 to 64")));
        }
        int.bits = bits as u8;
        int.align = align.unwrap_or(if bits.is_multiple_of(8) { 8 } else { 1 });
        Ok(int)
    }

    fn float(&mut self) -> Result<Type, Fault> {
        let begin = self.at;
        self.advance()?;
        let (mut exponent, mut mantissa, mut align, mut order) = (0u64, 0u64, 1, None);
        self.attributes(|parser, name, value, at| {
            match name {
                "exp_dig" => exponent = number(&value, at)?,
                "mant_dig" => mantissa = number(&value, at)?,
                "align" => align = alignment(&value, at)?,
                "byte_order" => order = parser.order(&value, at)?,
                _ => {}
            }
            Ok(())
        })?;
        let bits = match (exponent, mantissa) {
            (8, 24) => 32,
            (11, 53) => 64,
            _ => {
                let text = format!(
                    "a floating-point number of {exponent} and {mantissa} digits: exp_dig and mant_dig are 8 and 24, or 11 and 53"
                );
                return Err(Fault::new(begin, text));
            }
        };
        Ok(Type::Float { bits, align, order })
    }

    fn literal(&mut self) -> Result<Literal, Fault> {
        let is_negative = self.take("-")?;
        if !is_negative {
            self.take("+")?;
        }
        let literal = match &self.token {
            Token::Int(value) => {
                let value = i128::from(*value);
                Literal::Int(if is_negative { -value } else { value })
            }
            Token::Str(text) if !is_negative => Literal::Str(text.clone()),
            Token::Name(_) if !is_negative => return self.path().map(Literal::Path),
            _ => return Err(self.unexpected("a value")),
        };
        self.advance()?;
        Ok(literal)
    }

    /// `a.b.c`
    fn path(&mut self) -> Result<Vec<String>, Fault> {
        let mut names = vec![self.name()?.to_owned()];
        while self.is(".") || self.is("->") {
            self.advance()?;
            names.push(self.name()?.to_owned());
        }
        Ok(names)
    }

    fn name(&mut self) -> Result<&'t str, Fault> {
        let Token::Name(name) = self.token else { return Err(self.unexpected("a name")) };
        self.advance()?;
        Ok(name)
    }

    /// `None`: the trace's.
    fn order(&self, value: &Literal, at: usize) -> Result<Option<ByteOrder>, Fault> {
        match word(value) {
            Some("le") => Ok(Some(ByteOrder::Little)),
            Some("be" | "network") => Ok(Some(ByteOrder::Big)),
            Some("native") => Ok(None),
            _ => Err(Fault::new(at, "a byte order is le, be, network or native")),
        }
    }

    fn is(&self, mark: &'static str) -> bool {
        self.token == Token::Mark(mark)
    }

    /// Goes on behind the mark, if it is here.
    fn take(&mut self, mark: &'static str) -> Result<bool, Fault> {
        let is_here = self.is(mark);
        if is_here {
            self.advance()?;
        }
        Ok(is_here)
    }

    fn expect(&mut self, mark: &'static str) -> Result<(), Fault> {
        match self.take(mark)? {
            true => Ok(()),
            false => Err(self.unexpected(mark)),
        }
    }

    fn unexpected(&self, expected: &str) -> Fault {
        let found = match &self.token {
            Token::Name(name) => format!("`{name}`"),
            Token::Int(value) => format!("`{value}`"),
            Token::Str(text) => format!("{text:?}"),
            Token::Mark(mark) => format!("`{mark}`"),
            Token::End => "the end".to_owned(),
        };
        let expected = if expected.chars().all(|c| c.is_ascii_alphabetic() || c == ' ') {
            expected.to_owned()
        } else {
            format!("`{expected}`")
        };
        Fault::new(self.at, format!("{expected} is expected here, not {found}"))
    }

    fn advance(&mut self) -> Result<(), Fault> {
        (self.token, self.at) = self.lexer.next()?;
        Ok(())
    }
}

fn word(value: &Literal) -> Option<&str> {
    match value {
        Literal::Str(text) => Some(text),
        Literal::Path(names) if names.len() == 1 => names.first().map(String::as_str),
        Literal::Int(_) | Literal::Path(_) => None,
    }
}

fn text(value: Literal, at: usize) -> Result<String, Fault> {
    match value {
        Literal::Str(text) => Ok(text),
        Literal::Path(names) => Ok(names.join(".")),
        Literal::Int(_) => Err(Fault::new(at, "this is to be a string")),
    }
}

fn number<T: TryFrom<i128>>(value: &Literal, at: usize) -> Result<T, Fault> {
    let Literal::Int(value) = value else { return Err(Fault::new(at, "this is to be a number")) };
    T::try_from(*value).map_err(|_| Fault::new(at, format!("{value} is no number that may stand here")))
}

fn boolean(value: &Literal, at: usize) -> Result<bool, Fault> {
    match (value, word(value)) {
        (Literal::Int(value), _) => Ok(*value != 0),
        (_, Some("true" | "TRUE")) => Ok(true),
        (_, Some("false" | "FALSE")) => Ok(false),
        _ => Err(Fault::new(at, "this is to be true or false")),
    }
}

fn alignment(value: &Literal, at: usize) -> Result<u32, Fault> {
    let align: u32 = number(value, at)?;
    if !align.is_power_of_two() || align > ALIGN_BITS_MAX {
        let text = format!("{align} is no alignment: they are powers of two up to {ALIGN_BITS_MAX}");
        return Err(Fault::new(at, text));
    }
    Ok(align)
}

fn base(value: &Literal, at: usize) -> Result<Base, Fault> {
    match (value, word(value)) {
        (Literal::Int(2), _) | (_, Some("binary" | "bin" | "b")) => Ok(Base::Binary),
        (Literal::Int(8), _) | (_, Some("octal" | "oct" | "o")) => Ok(Base::Octal),
        (Literal::Int(10), _) | (_, Some("decimal" | "dec" | "d" | "i" | "u")) => Ok(Base::Decimal),
        (Literal::Int(16), _) | (_, Some("hexadecimal" | "hex" | "x" | "X" | "p")) => Ok(Base::Hexadecimal),
        _ => Err(Fault::new(at, "a base is 2, 8, 10 or 16")),
    }
}

fn is_text(value: &Literal, at: usize) -> Result<bool, Fault> {
    match word(value) {
        Some("UTF8" | "utf8" | "utf-8" | "UTF-8" | "ASCII" | "ascii") => Ok(true),
        Some("none") => Ok(false),
        _ => Err(Fault::new(at, "an encoding is none, UTF8 or ASCII")),
    }
}

/// `clock.NAME.value`
fn clock_of(value: &Literal, at: usize) -> Result<String, Fault> {
    match value {
        Literal::Path(names) if names.len() == 3 && names[0] == "clock" && names[2] == "value" => {
            Ok(names[1].clone())
        }
        _ => Err(Fault::new(at, "a clock is mapped as clock.NAME.value")),
    }
}

/// `"2a6422d0-6cee-11e0-8c08-cb07d7b3a564"`
pub(crate) fn uuid_of(text: &str) -> Option<[u8; 16]> {
    let digits: String = text.chars().filter(|c| *c != '-').collect();
    if digits.len() != 32 || !digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    Some(u128::from_str_radix(&digits, 16).ok()?.to_be_bytes())
}

fn uuid(value: &Literal, at: usize) -> Result<[u8; 16], Fault> {
    let found = if let Literal::Str(text) = value { uuid_of(text) } else { None };
    found.ok_or_else(|| Fault::new(at, "a UUID is a string of 32 hexadecimal digits, and dashes"))
}
