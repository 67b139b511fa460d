//! Tokens → the tree of section C.2: declarations of types, and blocks of attributes.

use super::lexer::{KEYWORDS, Kind, Token};
use super::{DEPTH_MAX, Fault, Rule, fault};

/// Something between two semicolons, outside blocks or in one.
#[derive(Debug)]
pub(super) enum Item {
    /// `trace`, `env`, `clock`, `stream`, `event` or `callsite`.
    Block(Block),
    /// `name = value`
    Assign(Path, Value),
    /// `name := type`
    Define(Path, Type),
    Declare(Declaration),
}

#[derive(Debug)]
pub(super) struct Block {
    pub(super) keyword: String,
    pub(super) items: Vec<Item>,
    pub(super) line: u32,
}

/// Names with points between them.
#[derive(Clone, Debug)]
pub(super) struct Path {
    pub(super) words: Vec<String>,
    pub(super) line: u32,
}

#[derive(Clone, Debug)]
pub(super) struct Value {
    pub(super) is: Expression,
    pub(super) line: u32,
}

#[derive(Clone, Debug)]
pub(super) enum Expression {
    Int(i128),
    Text(String),
    Path(Vec<String>),
}

#[derive(Debug)]
pub(super) enum Declaration {
    Typedef(Type, Vec<Declarator>),
    /// The name is that of words with single spaces, and stars of pointers.
    Alias(Type, String),
    Type(Type),
}

#[derive(Debug)]
pub(super) struct Type {
    pub(super) is: TypeIs,
    pub(super) line: u32,
}

#[derive(Debug)]
pub(super) enum TypeIs {
    /// Words with single spaces.
    Named(String),
    /// `integer`, `floating_point` or `string`.
    Basic(Block),
    Struct {
        name: Option<String>,
        body: Option<Vec<Member>>,
        align: Option<Value>,
    },
    Variant {
        name: Option<String>,
        tag: Option<Value>,
        body: Option<Vec<Member>>,
    },
    Enum {
        name: Option<String>,
        container: Option<Box<Type>>,
        body: Option<Vec<Entry>>,
    },
}

#[derive(Debug)]
pub(super) enum Member {
    Fields(Type, Vec<Declarator>),
    Declare(Declaration),
}

/// A name with lengths in brackets.
#[derive(Debug)]
pub(super) struct Declarator {
    pub(super) name: String,
    pub(super) lengths: Vec<Value>,
    pub(super) line: u32,
}

/// A label of an enumeration, and its values.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) label: String,
    pub(super) values: Option<(Value, Option<Value>)>,
    pub(super) line: u32,
}

const BLOCKS: [&str; 6] = ["clock", "event", "stream", "env", "trace", "callsite"];

/// Keywords that are types, or parts of the names of types.
const TYPE_WORDS: [&str; 12] = [
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

pub(super) fn parse(tokens: &[Token]) -> Result<Vec<Item>, Fault> {
    let mut parser = Parser { tokens, at: 0, depth: 0 };
    let mut items = Vec::new();
    while *parser.kind() != Kind::End {
        items.push(parser.outer()?);
        parser.expect(";")?;
    }
    Ok(items)
}

struct Parser<'t> {
    tokens: &'t [Token],
    at: usize,
    depth: usize,
}

impl Parser<'_> {
    fn outer(&mut self) -> Result<Item, Fault> {
        let line = self.line();
        if let Some(declaration) = self.declaration()? {
            return Ok(Item::Declare(declaration));
        }
        match self.word() {
            Some(keyword) if BLOCKS.contains(&keyword) => {
                let keyword = keyword.to_owned();
                self.at += 1;
                Ok(Item::Block(Block { keyword, items: self.attributes()?, line }))
            }
            _ => Ok(Item::Declare(Declaration::Type(self.specifiers()?))),
        }
    }

    /// What begins with `typedef` or `typealias`, without the semicolon.
    fn declaration(&mut self) -> Result<Option<Declaration>, Fault> {
        if self.accept_word("typedef") {
            let of = self.specifiers()?;
            return Ok(Some(Declaration::Typedef(of, self.declarators()?)));
        }
        if !self.accept_word("typealias") {
            return Ok(None);
        }
        let of = self.specifiers()?;
        if matches!(self.kind(), Kind::Mark("*" | "(" | "[") | Kind::Word(_)) {
            return Err(self.unread("a declarator of an aliased type"));
        }
        self.expect(":=")?;
        let mut name = Vec::new();
        loop {
            match self.kind() {
                Kind::Word(word) if TYPE_WORDS.contains(&word.as_str()) => name.push(word.clone()),
                Kind::Word(word)
                    if name.is_empty() && matches!(word.as_str(), "struct" | "variant" | "enum") =>
                {
                    name.push(word.clone());
                    self.at += 1;
                    name.push(self.identifier()?);
                    continue;
                }
                Kind::Word(_) if name.is_empty() => {
                    name.push(self.identifier()?);
                    continue;
                }
                Kind::Mark("*") if !name.is_empty() => name.push("*".to_owned()),
                _ => break,
            }
            self.at += 1;
        }
        match name.is_empty() {
            true => Err(self.wrong("a name of a type")),
            false => Ok(Some(Declaration::Alias(of, name.join(" ")))),
        }
    }

    /// `{ attribute; attribute; }`
    fn attributes(&mut self) -> Result<Vec<Item>, Fault> {
        self.expect("{")?;
        let mut items = Vec::new();
        while !self.accept("}") {
            if let Some(declaration) = self.declaration()? {
                items.push(Item::Declare(declaration));
            } else {
                let Value { is, line } = self.expression()?;
                let Expression::Path(words) = is else {
                    return Err(fault(line, Rule::Grammar, "a value where an attribute's name is expected"));
                };
                let path = Path { words, line };
                if self.accept(":=") {
                    items.push(Item::Define(path, self.specifiers()?));
                } else {
                    self.expect("=")?;
                    items.push(Item::Assign(path, self.expression()?));
                }
            }
            self.expect(";")?;
        }
        Ok(items)
    }

    fn specifiers(&mut self) -> Result<Type, Fault> {
        self.deeper(|parser| {
            let line = parser.line();
            let mut words: Vec<String> = Vec::new();
            let mut of = None;
            while let Some(word) = parser.word() {
                let is_first = words.is_empty() && of.is_none();
                match word {
                    "const" => parser.at += 1,
                    _ if TYPE_WORDS.contains(&word) && of.is_none() => {
                        words.push(word.to_owned());
                        parser.at += 1;
                    }
                    "integer" | "floating_point" | "string" | "struct" | "variant" | "enum" if is_first => {
                        of = Some(parser.special()?);
                    }
                    _ if is_first => of = Some(TypeIs::Named(parser.identifier()?)),
                    _ => break,
                }
            }
            let is = match of {
                Some(of) => of,
                None if words.is_empty() => return Err(parser.wrong("a type")),
                None => TypeIs::Named(words.join(" ")),
            };
            Ok(Type { is, line })
        })
    }

    /// A type that begins with its class.
    fn special(&mut self) -> Result<TypeIs, Fault> {
        let line = self.line();
        let keyword = self.word().unwrap_or_default().to_owned();
        self.at += 1;
        match keyword.as_str() {
            "struct" => {
                let name = self.optional_name()?;
                let body = self.body(|_| true)?;
                let align = match self.accept_word("align") {
                    true => {
                        self.expect("(")?;
                        let value = self.expression()?;
                        self.expect(")")?;
                        Some(value)
                    }
                    false => None,
                };
                self.one_of(name.is_some() || body.is_some(), "a name or a body of a structure")?;
                Ok(TypeIs::Struct { name, body, align })
            }
            "variant" => {
                let name = self.optional_name()?;
                let tag = match self.accept("<") {
                    true => {
                        let tag = self.expression()?;
                        self.expect(">")?;
                        Some(tag)
                    }
                    false => None,
                };
                let body = self.body(|members| !members.is_empty())?;
                let is_whole = body.is_some() || (name.is_some() && tag.is_some());
                self.one_of(is_whole, "a body of a variant, or its name and its tag")?;
                Ok(TypeIs::Variant { name, tag, body })
            }
            "enum" => {
                let name = self.optional_name()?;
                let container = match self.accept(":") {
                    true => Some(Box::new(self.specifiers()?)),
                    false => None,
                };
                let body = match self.accept("{") {
                    true => Some(self.entries()?),
                    false => None,
                };
                let is_whole = body.is_some() || (name.is_some() && container.is_none());
                self.one_of(is_whole, "entries of an enumeration")?;
                Ok(TypeIs::Enum { name, container, body })
            }
            "string" if !matches!(self.kind(), Kind::Mark("{")) => {
                Ok(TypeIs::Basic(Block { keyword, items: Vec::new(), line }))
            }
            _ => Ok(TypeIs::Basic(Block { keyword, items: self.attributes()?, line })),
        }
    }

    fn optional_name(&mut self) -> Result<Option<String>, Fault> {
        match self.word() {
            Some("align") | None => Ok(None),
            Some(_) => self.identifier().map(Some),
        }
    }

    fn body(&mut self, is_right: impl Fn(&[Member]) -> bool) -> Result<Option<Vec<Member>>, Fault> {
        if !self.accept("{") {
            return Ok(None);
        }
        let mut members = Vec::new();
        loop {
            if matches!(self.kind(), Kind::Mark("}")) {
                self.one_of(is_right(&members), "a field")?;
                self.at += 1;
                return Ok(Some(members));
            }
            let member = match self.declaration()? {
                Some(declaration) => Member::Declare(declaration),
                None => {
                    let of = self.specifiers()?;
                    Member::Fields(of, self.declarators()?)
                }
            };
            self.expect(";")?;
            members.push(member);
        }
    }

    fn declarators(&mut self) -> Result<Vec<Declarator>, Fault> {
        let mut declarators = Vec::new();
        loop {
            if matches!(self.kind(), Kind::Mark("*" | "(" | ":")) {
                return Err(self.unread("a pointer, a declarator in brackets or a bit-field"));
            }
            let line = self.line();
            let name = self.identifier()?;
            let mut lengths = Vec::new();
            while self.accept("[") {
                lengths.push(self.expression()?);
                self.expect("]")?;
            }
            if matches!(self.kind(), Kind::Mark(":")) {
                return Err(self.unread("a bit-field"));
            }
            declarators.push(Declarator { name, lengths, line });
            if !self.accept(",") {
                return Ok(declarators);
            }
        }
    }

    fn entries(&mut self) -> Result<Vec<Entry>, Fault> {
        let mut entries = Vec::new();
        while !self.accept("}") {
            let line = self.line();
            let label = match self.kind().clone() {
                Kind::Text(label) => {
                    self.at += 1;
                    label
                }
                _ => self.identifier()?,
            };
            let values = match self.accept("=") {
                true => {
                    let first = self.expression()?;
                    let last = if self.accept("...") { Some(self.expression()?) } else { None };
                    Some((first, last))
                }
                false => None,
            };
            entries.push(Entry { label, values, line });
            if !self.accept(",") {
                self.expect("}")?;
                break;
            }
        }
        Ok(entries)
    }

    /// A number, a string, or names with points between them.
    fn expression(&mut self) -> Result<Value, Fault> {
        self.deeper(|parser| {
            let line = parser.line();
            if parser.accept("(") {
                let value = parser.expression()?;
                parser.expect(")")?;
                return Ok(value);
            }
            let is_negative = matches!(parser.kind(), Kind::Mark("-"));
            let has_sign = is_negative || matches!(parser.kind(), Kind::Mark("+"));
            parser.at += usize::from(has_sign);
            let is = match parser.kind().clone() {
                Kind::Int(value) => Expression::Int(i128::from(value) * if is_negative { -1 } else { 1 }),
                Kind::Text(text) if !has_sign => Expression::Text(text),
                Kind::Word(word) if !has_sign => Expression::Path(vec![word]),
                _ => return Err(parser.wrong("a value")),
            };
            parser.at += 1;
            let Expression::Path(mut words) = is else { return Ok(Value { is, line }) };
            while parser.accept(".") {
                let Kind::Word(word) = parser.kind().clone() else { return Err(parser.wrong("a name")) };
                parser.at += 1;
                words.push(word);
            }
            if matches!(parser.kind(), Kind::Mark("->" | "[")) {
                return Err(parser.unread("an element or a member of a pointer"));
            }
            Ok(Value { is: Expression::Path(words), line })
        })
    }

    fn identifier(&mut self) -> Result<String, Fault> {
        match self.word() {
            Some(word) if KEYWORDS.contains(&word) => {
                Err(fault(self.line(), Rule::Keyword, format!("{word} stands for a name")))
            }
            Some(word) => {
                let word = word.to_owned();
                self.at += 1;
                Ok(word)
            }
            None => Err(self.wrong("a name")),
        }
    }

    fn deeper<T>(&mut self, parse: impl FnOnce(&mut Self) -> Result<T, Fault>) -> Result<T, Fault> {
        if self.depth == DEPTH_MAX {
            return Err(fault(
                self.line(),
                Rule::Limit,
                format!("more than {DEPTH_MAX} types in one another"),
            ));
        }
        self.depth += 1;
        let parsed = parse(self);
        self.depth -= 1;
        parsed
    }

    fn kind(&self) -> &Kind {
        // The last token is the end, which nothing accepts.
        &self.tokens[self.at.min(self.tokens.len() - 1)].kind
    }

    fn line(&self) -> u32 {
        self.tokens[self.at.min(self.tokens.len() - 1)].line
    }

    fn word(&self) -> Option<&str> {
        match self.kind() {
            Kind::Word(word) => Some(word),
            _ => None,
        }
    }

    fn accept(&mut self, mark: &str) -> bool {
        let is = matches!(self.kind(), Kind::Mark(found) if *found == mark);
        self.at += usize::from(is);
        is
    }

    fn accept_word(&mut self, word: &str) -> bool {
        let is = self.word() == Some(word);
        self.at += usize::from(is);
        is
    }

    fn expect(&mut self, mark: &str) -> Result<(), Fault> {
        match self.accept(mark) {
            true => Ok(()),
            false => Err(self.wrong(mark)),
        }
    }

    fn one_of(&self, is_right: bool, what: &str) -> Result<(), Fault> {
        if is_right { Ok(()) } else { Err(self.wrong(what)) }
    }

    fn wrong(&self, expected: &str) -> Fault {
        let found = match self.kind() {
            Kind::Word(word) => word.clone(),
            Kind::Int(value) => value.to_string(),
            Kind::Text(text) => format!("{text:?}"),
            Kind::Mark(mark) => (*mark).to_owned(),
            Kind::End => "the end".to_owned(),
        };
        fault(self.line(), Rule::Grammar, format!("{found}, where {expected} is expected"))
    }

    fn unread(&self, what: &str) -> Fault {
        fault(self.line(), Rule::Unread, what)
    }
}
