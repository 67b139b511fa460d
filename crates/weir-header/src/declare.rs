//! Declarations → types.
//!
//! `struct`, `union`, `enum` and `typedef`, with attributes (`packed`, `aligned`), bit-fields, nested and unnamed members. Functions
//! and variables are passed over. After a fault what is left of the declaration is skipped.

use std::collections::{HashMap, HashSet, VecDeque};

use weir_event::ctype::{CType, CTypes, Enum, Record, TypeId};
use weir_source::{Diagnostic, Span, nearest};

use crate::condition::{Cast, Int, Names, evaluate};
use crate::limits;
use crate::preprocess::Preprocessor;
use crate::token::{Token, TokenKind};
use crate::{Declarations, fault};

mod attributes;
mod layout;

use attributes::Attributes;
use layout::Layout;

/// Why a declaration cannot be read.
struct Fault {
    span: Span,
    /// In a header.
    at: Option<String>,
    message: String,
    hint: String,
}

type Result<T> = std::result::Result<T, Fault>;

/// Names that scripts may use without any header, as bpftrace's do.
const TYPEDEFS: [(&str, u8, bool); 29] = [
    ("int8_t", 1, true),
    ("int16_t", 2, true),
    ("int32_t", 4, true),
    ("int64_t", 8, true),
    ("uint8_t", 1, false),
    ("uint16_t", 2, false),
    ("uint32_t", 4, false),
    ("uint64_t", 8, false),
    ("s8", 1, true),
    ("s16", 2, true),
    ("s32", 4, true),
    ("s64", 8, true),
    ("u8", 1, false),
    ("u16", 2, false),
    ("u32", 4, false),
    ("u64", 8, false),
    ("__s8", 1, true),
    ("__s16", 2, true),
    ("__s32", 4, true),
    ("__s64", 8, true),
    ("__u8", 1, false),
    ("__u16", 2, false),
    ("__u32", 4, false),
    ("__u64", 8, false),
    ("size_t", 8, false),
    ("ssize_t", 8, true),
    ("uintptr_t", 8, false),
    ("intptr_t", 8, true),
    ("ptrdiff_t", 8, true),
];

/// What says nothing about the type.
const IGNORED: [&str; 22] = [
    "extern",
    "static",
    "inline",
    "__inline",
    "__inline__",
    "register",
    "auto",
    "_Thread_local",
    "__thread",
    "_Noreturn",
    "__extension__",
    "const",
    "volatile",
    "restrict",
    "__const",
    "__volatile__",
    "__restrict",
    "__restrict__",
    "_Atomic",
    "__signed_const__",
    "constexpr",
    "__volatile",
];

const BASIC: [&str; 21] = [
    "void",
    "char",
    "short",
    "int",
    "long",
    "float",
    "double",
    "signed",
    "__signed",
    "__signed__",
    "unsigned",
    "_Bool",
    "bool",
    "__int128",
    "_Complex",
    "__complex__",
    "_Float128",
    "__float128",
    "_Float64",
    "_Float32",
    "_Float64x",
];

/// True for a word that C's types without a name of their own are made of.
pub fn is_basic(word: &str) -> bool {
    BASIC.contains(&word)
}

/// True for a `typedef`'s name that every script has.
pub fn is_plain_typedef(word: &str) -> bool {
    TYPEDEFS.iter().any(|(name, _, _)| *name == word)
}

/// The type that such words stand for together; none where they do not go together.
pub fn basic(words: &[&str]) -> Option<CType> {
    let count = |word: &str| words.iter().filter(|other| **other == word).count();
    let has = |word: &str| count(word) > 0;
    let unsigned = has("unsigned");
    let signed = has("signed") || has("__signed") || has("__signed__");
    let int = |bytes| Some(CType::Int { bytes, signed: !unsigned, is_char: false });
    let other = |what: &str, bytes| Some(CType::Other { what: what.to_string(), bytes: Some(bytes) });
    if words.is_empty() || unsigned && signed {
        return None;
    }
    // Each word once, `long` twice, and one that says what it is, beside `int`.
    let most = |word: &str| if word == "long" { 2 } else { 1 };
    let is_sign = |word: &str| matches!(word, "unsigned" | "signed" | "__signed" | "__signed__");
    let is_whole = |word: &str| matches!(word, "int" | "short" | "long" | "char" | "__int128");
    let kinds =
        words.iter().filter(|word| !is_sign(word) && !matches!(**word, "int" | "short" | "long")).count();
    let is_sized = words.iter().any(|word| matches!(*word, "short" | "long"));
    let is_known = words.iter().all(|word| count(word) <= most(word))
        && !(has("short") && has("long"))
        && kinds <= 1 + usize::from(has("_Complex") || has("__complex__"))
        && (kinds == 0 || !has("int"))
        && (kinds == 0 || !is_sized || has("double") && count("long") <= 1 && !has("short"))
        && (!(unsigned || signed) || words.iter().all(|word| is_sign(word) || is_whole(word)));
    if !is_known {
        return None;
    }
    if has("_Complex") || has("__complex__") {
        return other(
            "a complex number",
            if has("float") {
                8
            } else if has("long") {
                32
            } else {
                16
            },
        );
    }
    match () {
        () if has("void") => (words.len() == 1).then_some(CType::Void),
        () if has("_Bool") || has("bool") => Some(CType::Int { bytes: 1, signed: false, is_char: false }),
        () if has("char") => Some(CType::Int { bytes: 1, signed: !unsigned, is_char: !unsigned }),
        () if has("__int128") => other("an integer of 16 bytes", 16),
        () if has("float") || has("_Float32") => Some(CType::Float { bytes: 4 }),
        () if has("_Float128") || has("__float128") || has("_Float64x") => {
            other("a floating-point number of 16 bytes", 16)
        }
        () if has("_Float64") => Some(CType::Float { bytes: 8 }),
        () if has("double") && has("long") => other("a `long double`", 16),
        () if has("double") => Some(CType::Float { bytes: 8 }),
        () if has("short") => int(2),
        () if has("long") => int(8),
        () => int(4),
    }
}

/// Before any C text.
pub(super) fn plain() -> Declarations {
    let mut declarations = Declarations::default();
    for (name, bytes, signed) in TYPEDEFS {
        let id = declarations.types.add(CType::Int { bytes, signed, is_char: false });
        declarations.typedefs.insert(name.to_string(), id);
    }
    declarations
}

/// What a declarator adds to a type, the outermost last.
enum Step {
    Pointer,
    Array(u32),
    Function,
}

struct Specified {
    ty: TypeId,
    is_typedef: bool,
    /// It has a body: `struct a { … }`.
    is_definition: bool,
    attributes: Attributes,
}

pub(super) struct Reader<'a> {
    /// None: nothing comes after what is ahead.
    source: Option<Preprocessor<'a>>,
    ahead: VecDeque<Token>,
    declarations: Declarations,
    /// Alignment of records, where it is not that of their widest member.
    alignments: HashMap<TypeId, u32>,
    /// The same of `typedef` names.
    typedef_alignments: HashMap<String, u32>,
    /// Braces that are open.
    braces: u32,
    depth: u32,
    /// The record that the declaration is about.
    tag: Option<String>,
    diagnostics: Vec<Diagnostic>,
}

impl<'a> Reader<'a> {
    pub(super) fn new(source: Preprocessor<'a>) -> Reader<'a> {
        Reader {
            source: Some(source),
            ahead: VecDeque::new(),
            declarations: plain(),
            alignments: HashMap::new(),
            typedef_alignments: HashMap::new(),
            braces: 0,
            depth: 0,
            tag: None,
            diagnostics: Vec::new(),
        }
    }

    pub(super) fn read(&mut self) {
        while self.peek().is_some() {
            (self.braces, self.depth, self.tag) = (0, 0, None);
            let Err(found) = self.declaration() else { continue };
            match (&found.at, self.tag.take()) {
                (Some(at), Some(tag)) => {
                    let text = format!("{at}: {}", found.message);
                    self.declarations.faults.insert(tag, text);
                }
                (Some(_), None) => {}
                (None, _) if self.diagnostics.len() < limits::DIAGNOSTICS_GATHERED_MAX => {
                    self.diagnostics.push(fault(found.span, None, &found.message, &found.hint));
                }
                (None, _) => {}
            }
            self.skip_declaration();
        }
    }

    pub(super) fn finish(mut self) -> (Declarations, Vec<Diagnostic>) {
        if let Some(mut source) = self.source.take() {
            for (name, value) in source.constants(&mut self) {
                match value {
                    Ok(value) => _ = self.declarations.macros.insert(name, value),
                    Err(text) => _ = self.declarations.texts.insert(name, text),
                }
            }
            self.diagnostics.append(&mut source.diagnostics);
        }
        (self.declarations, self.diagnostics)
    }

    fn types(&mut self) -> &mut CTypes {
        &mut self.declarations.types
    }

    // Tokens.

    fn peek(&mut self) -> Option<&Token> {
        self.peek_at(0)
    }

    fn peek_at(&mut self, index: usize) -> Option<&Token> {
        while self.ahead.len() <= index {
            let token = self.source.as_mut()?.next()?;
            self.ahead.push_back(token);
        }
        self.ahead.get(index)
    }

    fn next(&mut self) -> Option<Token> {
        self.peek()?;
        let token = self.ahead.pop_front()?;
        match &*token.text {
            "{" => self.braces += 1,
            "}" => self.braces = self.braces.saturating_sub(1),
            _ => {}
        }
        Some(token)
    }

    fn is_next(&mut self, text: &str) -> bool {
        self.peek().is_some_and(|token| token.is(text))
    }

    /// `asm`, in any of its spellings.
    fn is_assembler_next(&mut self) -> bool {
        self.peek().is_some_and(|token| token.is_ident() && token.text.trim_matches('_') == "asm")
    }

    fn eat(&mut self, text: &str) -> bool {
        let is_there = self.is_next(text);
        if is_there {
            self.next();
        }
        is_there
    }

    fn expect(&mut self, text: &str, place: &str) -> Result<()> {
        if self.eat(text) {
            return Ok(());
        }
        let found = self.found();
        Err(self.fault(&format!("expected `{text}` {place}, found {found}"), &format!("write `{text}` here")))
    }

    fn found(&mut self) -> String {
        match self.peek() {
            Some(token) => format!("`{}`", token.text.escape_debug().to_string().replace("\\\"", "\"")),
            None => "the end of the C text".to_string(),
        }
    }

    fn fault(&mut self, message: &str, hint: &str) -> Fault {
        let at = |token: &Token| token.file.as_ref().map(|file| format!("{file}:{}", token.line));
        let (span, at) = self.peek().map_or((Span::default(), None), |token| (token.span, at(token)));
        Fault { span, at, message: message.to_string(), hint: hint.to_string() }
    }

    /// Runs `read` one level deeper.
    fn nested<T>(&mut self, read: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        self.depth += 1;
        if self.depth > limits::C_NESTING_MAX {
            return Err(self.fault("the declaration is too deeply nested", "write it in several"));
        }
        let result = read(self);
        self.depth -= 1;
        result
    }

    /// To after the `;` or the body that ends the declaration.
    fn skip_declaration(&mut self) {
        while let Some(token) = self.next() {
            if self.braces > 0 {
                continue;
            }
            if token.is(";") {
                return;
            }
            let goes_on = |token: &Token| token.is(";") || token.is("*") || token.is(",") || token.is_ident();
            if token.is("}") && !self.peek().is_some_and(goes_on) {
                return;
            }
        }
    }

    /// To after the bracket that closes the one that is next.
    fn skip_brackets(&mut self) -> Vec<Token> {
        let mut open = 0u32;
        let mut inside = Vec::new();
        while let Some(token) = self.next() {
            let is_outer = open == 0;
            match &*token.text {
                "(" | "[" | "{" => open += 1,
                ")" | "]" | "}" => open = open.saturating_sub(1),
                _ => {}
            }
            if open == 0 {
                return inside;
            }
            if !is_outer {
                inside.push(token);
            }
        }
        inside
    }

    // Declarations.

    fn declaration(&mut self) -> Result<()> {
        if self.eat(";") {
            return Ok(());
        }
        if ["_Static_assert", "static_assert"].into_iter().any(|word| self.is_next(word))
            || self.is_assembler_next()
        {
            self.skip_declaration();
            return Ok(());
        }
        let specified = self.specifiers()?;
        // bpftrace's own preambles leave the `;` out after a body.
        let ends = |token: &Token| {
            token.begins_line && ["struct", "union", "enum", "typedef"].into_iter().any(|word| token.is(word))
        };
        if specified.is_definition && !specified.is_typedef && self.peek().is_none_or(ends) {
            return Ok(());
        }
        while !self.eat(";") {
            let (name, steps) = self.declarator()?;
            let is_function = matches!(steps.first(), Some(Step::Function));
            let attributes = specified.attributes.with(self.attributes()?);
            if self.eat("=") {
                while self.peek().is_some_and(|token| !token.is(",") && !token.is(";")) {
                    if self.is_next("{") || self.is_next("(") {
                        self.skip_brackets();
                    } else {
                        self.next();
                    }
                }
            }
            if is_function && self.is_next("{") {
                self.skip_brackets();
                return Ok(());
            }
            if specified.is_typedef {
                let Some(name) = name else {
                    return Err(
                        self.fault("expected a name in the `typedef`", "such as `typedef unsigned int u32;`")
                    );
                };
                let ty = self.stepped(specified.ty, steps)?;
                let ty = self.with_mode(ty, attributes);
                match attributes.align.or(attributes.natural) {
                    Some(align) => _ = self.typedef_alignments.insert(name.to_string(), align),
                    None => _ = self.typedef_alignments.remove(&*name),
                }
                self.declarations.typedefs.insert(name.to_string(), ty);
            }
            if !self.eat(",") && !self.is_next(";") {
                return self.expect(";", "after the declaration");
            }
        }
        Ok(())
    }

    /// What stands before the names of a declaration.
    fn specifiers(&mut self) -> Result<Specified> {
        let mut words: Vec<String> = Vec::new();
        let mut found = None;
        let (mut is_typedef, mut is_definition) = (false, false);
        let mut attributes = Attributes::default();
        while let Some(token) = self.peek().filter(|token| token.is_ident()).cloned() {
            match &*token.text {
                "typedef" => {
                    self.next();
                    is_typedef = true;
                }
                "__attribute__" | "__attribute" | "_Alignas" | "alignas" | "__declspec" => {
                    attributes = attributes.with(self.attributes()?);
                }
                "typeof" | "__typeof__" | "__typeof" => {
                    self.next();
                    let inside = self.skip_brackets();
                    let what = CType::Other { what: "of a `typeof`".to_string(), bytes: None };
                    found = self.type_of(&inside).or_else(|| Some(self.types().add(what)));
                }
                "struct" | "union" => {
                    self.next();
                    let (ty, has_body) = self.nested(|this| this.record(&token.text))?;
                    (found, is_definition) = (Some(ty), has_body);
                }
                "enum" => {
                    self.next();
                    let (ty, has_body) = self.enumeration()?;
                    (found, is_definition) = (Some(ty), has_body);
                }
                "_Atomic" if self.peek_at(1).is_some_and(|next| next.is("(")) => {
                    self.next();
                    let inside = self.skip_brackets();
                    found = self.type_of(&inside);
                }
                word if IGNORED.contains(&word) => _ = self.next(),
                word if is_basic(word) && found.is_none() => {
                    words.push(word.to_string());
                    self.next();
                }
                word if words.is_empty() && found.is_none() => match self.declarations.typedefs.get(word) {
                    Some(known) => {
                        found = Some(*known);
                        attributes.natural = self.typedef_alignments.get(word).copied();
                        self.next();
                    }
                    None => {
                        let names = self.declarations.typedefs.keys().map(String::as_str);
                        let hint = match nearest(word, names) {
                            Some(near) => format!("did you mean `{near}`?"),
                            None => "declare it before with `typedef`, or include its header".to_string(),
                        };
                        let message = format!("unknown type `{}`", word.escape_debug());
                        return Err(self.fault(&message, &hint));
                    }
                },
                _ => break,
            }
        }
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let ty = match (found, basic(&words)) {
            (Some(found), _) => found,
            (None, Some(ty)) => self.types().add(ty),
            (None, None) => {
                let found = self.found();
                return Err(self.fault(
                    &format!("expected a declaration, found {found}"),
                    "such as `struct a { int x; };`",
                ));
            }
        };
        Ok(Specified { ty, is_typedef, is_definition, attributes })
    }

    fn declarator(&mut self) -> Result<(Option<std::rc::Rc<str>>, Vec<Step>)> {
        self.nested(Self::declarator_inside)
    }

    fn declarator_inside(&mut self) -> Result<(Option<std::rc::Rc<str>>, Vec<Step>)> {
        let mut pointers = 0;
        while self.peek().is_some_and(|token| token.is("*") || IGNORED.contains(&&*token.text)) {
            pointers += usize::from(self.is_next("*"));
            self.next();
            if pointers > limits::C_NESTING_MAX as usize {
                return Err(self.fault("the declaration is too deeply nested", "write it in several"));
            }
        }
        self.attributes()?;
        let is_nested = self.is_next("(")
            && self.peek_at(1).is_some_and(|inner| {
                inner.is("*") || inner.is("(") || inner.is("__attribute__") || inner.is("[")
            });
        let (name, mut steps) = if is_nested {
            self.next();
            let inner = self.declarator()?;
            self.expect(")", "after the declarator")?;
            inner
        } else if self.peek().is_some_and(Token::is_ident) {
            (self.next().map(|token| token.text), Vec::new())
        } else {
            (None, Vec::new())
        };
        loop {
            if self.is_next("(") {
                self.skip_brackets();
                steps.push(Step::Function);
            } else if self.is_next("[") {
                let size = self.skip_brackets();
                steps.push(Step::Array(self.count(&size)?));
            } else {
                break;
            }
            if steps.len() > limits::C_NESTING_MAX as usize {
                return Err(self.fault("the declaration is too deeply nested", "write it in several"));
            }
        }
        steps.extend((0..pointers).map(|_| Step::Pointer));
        Ok((name, steps))
    }

    /// Elements of an array.
    fn count(&mut self, size: &[Token]) -> Result<u32> {
        if size.is_empty() {
            return Ok(0);
        }
        match evaluate(size, self).map(u32::try_from) {
            Some(Ok(count)) => Ok(count),
            Some(Err(_)) => {
                Err(self.fault("the size of the array is negative or too large", "it counts elements"))
            }
            None => {
                let text: Vec<&str> = size.iter().map(|token| &*token.text).collect();
                let message =
                    format!("the size of the array is no constant: `{}`", text.join(" ").escape_debug());
                Err(self.fault(&message, "write the number"))
            }
        }
    }

    /// The type that a declarator makes of another.
    fn stepped(&mut self, mut ty: TypeId, steps: Vec<Step>) -> Result<TypeId> {
        for step in steps.into_iter().rev() {
            let next = match step {
                Step::Pointer => CType::Pointer(ty),
                Step::Array(count) => CType::Array { element: ty, count },
                Step::Function => CType::Void,
            };
            ty = self.types().add(next);
        }
        Ok(ty)
    }

    /// The type that the tokens name, all of them.
    fn type_of(&mut self, tokens: &[Token]) -> Option<TypeId> {
        tokens.first().filter(|first| first.is_ident())?;
        let source = self.source.take();
        let (ahead, braces) = (std::mem::take(&mut self.ahead), self.braces);
        self.ahead.extend(tokens.iter().cloned());
        let read = self.specifiers().and_then(|specified| {
            let (name, steps) = self.declarator()?;
            Ok((name.is_none(), self.stepped(specified.ty, steps)?))
        });
        let is_all = self.ahead.is_empty();
        (self.source, self.ahead, self.braces) = (source, ahead, braces);
        read.ok().filter(|(is_plain, _)| *is_plain && is_all).map(|(_, ty)| ty)
    }

    // Records and enumerations.

    fn record(&mut self, keyword: &str) -> Result<(TypeId, bool)> {
        let mut attributes = self.attributes()?;
        let word = self.peek().filter(|token| token.is_ident()).map(|token| token.text.clone());
        let name = match word {
            Some(word) => {
                self.next();
                format!("{keyword} {word}")
            }
            None => keyword.to_string(),
        };
        if self.tag.is_none() && name.contains(' ') {
            self.tag = Some(name.clone());
        }
        if !self.is_next("{") {
            if !name.contains(' ') {
                let found = self.found();
                return Err(self.fault(
                    &format!("expected a name or `{{` after `{keyword}`, found {found}"),
                    "such as `struct a { int x; };`",
                ));
            }
            let ty = self.types().named(&name, None, None);
            self.declarations.tags.insert(name, ty);
            return Ok((ty, false));
        }
        let ty = self.types().named(&name, None, None);
        if let CType::Record(_) = self.declarations.types.get(ty) {
            return Err(self.fault(&format!("`{name}` is declared twice"), "remove one of them"));
        }
        self.next();
        let pack = self.source.as_ref().map_or(0, Preprocessor::pack);
        let mut layout = Layout::new(keyword == "union", pack);
        let mut members = Vec::new();
        while !self.eat("}") {
            if self.peek().is_none() {
                return Err(self.fault(&format!("`{name}` is not closed"), "add `};`"));
            }
            self.members(&mut members)?;
            if members.len() > limits::C_MEMBERS_MAX {
                return Err(self
                    .fault(&format!("`{name}` has too many members"), "leave out those that are not read"));
            }
        }
        attributes = attributes.with(self.attributes()?);
        let mut names = HashSet::new();
        let twice = members.iter().find(|(member, _)| !member.name.is_empty() && !names.insert(&member.name));
        if let Some((member, _)) = twice {
            return Err(self.fault(
                &format!("`{name}` has two members `{}`", member.name),
                "name one of them otherwise",
            ));
        }
        let mut laid = Vec::new();
        for (member, its) in members {
            laid.extend(self.lay(&mut layout, member, its, attributes)?);
        }
        let (bytes, align) = layout.end(attributes);
        let Some(bytes) = bytes else {
            return Err(self.fault(&format!("`{name}` is too large"), "records have at most 2^31 bytes"));
        };
        self.alignments.insert(ty, align);
        self.types().complete(ty, CType::Record(Record { name: name.clone(), bytes, members: laid }));
        if name.contains(' ') {
            self.declarations.tags.insert(name, ty);
        }
        Ok((ty, true))
    }

    /// One declaration within a record.
    fn members(&mut self, members: &mut Vec<(Unlaid, Attributes)>) -> Result<()> {
        if self.eat(";") {
            return Ok(());
        }
        if self.is_next("_Static_assert") {
            self.skip_declaration();
            return Ok(());
        }
        let specified = self.specifiers()?;
        if self.eat(";") {
            // Without a name the members of a record without a tag are the outer one's.
            let is_unnamed = match self.declarations.types.get(specified.ty) {
                CType::Record(record) => !record.name.contains(' '),
                _ => false,
            };
            if is_unnamed {
                let member = Unlaid { name: String::new(), ty: specified.ty, width: None };
                members.push((member, specified.attributes));
            }
            return Ok(());
        }
        loop {
            let (name, steps) = if self.is_next(":") { (None, Vec::new()) } else { self.declarator()? };
            let ty = self.stepped(specified.ty, steps)?;
            let mut width = None;
            if self.eat(":") {
                let mut tokens = Vec::new();
                while self.peek().is_some_and(|token| {
                    !token.is(",") && !token.is(";") && !token.is("}") && !token.is("__attribute__")
                }) {
                    tokens.extend(self.next());
                }
                width = evaluate(&tokens, self)
                    .and_then(|width| u8::try_from(width).ok())
                    .filter(|width| *width <= 64);
                if width.is_none() {
                    return Err(self.fault(
                        "the width of a bit-field is a constant from 0 to 64",
                        "such as `int flag : 1;`",
                    ));
                }
            } else if name.is_none() {
                let found = self.found();
                return Err(
                    self.fault(&format!("expected the name of a member, found {found}"), "such as `int x;`")
                );
            }
            let attributes = specified.attributes.with(self.attributes()?);
            let member = Unlaid { name: name.map_or_else(String::new, |name| name.to_string()), ty, width };
            members.push((member, attributes));
            if !self.eat(",") {
                return self.expect(";", "after the member");
            }
        }
    }

    fn enumeration(&mut self) -> Result<(TypeId, bool)> {
        let mut attributes = self.attributes()?;
        let word = self.peek().filter(|token| token.is_ident()).map(|token| token.text.clone());
        let name = word.as_ref().map_or_else(|| "enum".to_string(), |word| format!("enum {word}"));
        if word.is_some() {
            self.next();
        }
        if !self.eat("{") {
            if let Some(known) = self.declarations.tags.get(&name) {
                return Ok((*known, false));
            }
            let plain = Enum { name: name.clone(), bytes: 4, signed: false, labels: Vec::new() };
            let ty = self.types().add(CType::Enum(plain));
            return Ok((ty, false));
        }
        let (mut labels, mut next) = (Vec::new(), 0i128);
        while !self.eat("}") {
            let Some(label) =
                self.peek().filter(|token| token.is_ident()).map(|token| token.text.to_string())
            else {
                let found = self.found();
                return Err(self.fault(
                    &format!("expected a name in `{name}`, found {found}"),
                    "such as `enum a { ONE, TWO = 5 };`",
                ));
            };
            self.next();
            self.attributes()?;
            if self.eat("=") {
                let mut tokens = Vec::new();
                let mut open = 0i32;
                while let Some(token) = self.peek()
                    && !(open == 0 && (token.is(",") || token.is("}")))
                {
                    open += i32::from(token.is("(")) - i32::from(token.is(")"));
                    tokens.extend(self.next());
                }
                let Some(value) = evaluate(&tokens, self) else {
                    return Err(
                        self.fault(&format!("the value of `{label}` is no constant"), "write the number")
                    );
                };
                next = value;
            }
            self.declarations.enumerators.insert(label.clone(), next);
            labels.push((label, next));
            next = next.saturating_add(1);
            if labels.len() > limits::C_MEMBERS_MAX {
                return Err(
                    self.fault(&format!("`{name}` has too many values"), "leave out those that are not used")
                );
            }
            if !self.eat(",") && !self.is_next("}") {
                self.expect("}", "after the values")?;
            }
        }
        attributes = attributes.with(self.attributes()?);
        let signed = labels.iter().any(|(_, value)| *value < 0);
        let fits = |bytes: u8| {
            let bits = 8 * u32::from(bytes);
            let range = if signed { -(1i128 << (bits - 1))..1i128 << (bits - 1) } else { 0..1i128 << bits };
            labels.iter().all(|(_, value)| range.contains(value))
        };
        let sizes: &[u8] = if attributes.is_packed { &[1, 2, 4] } else { &[4] };
        let bytes = sizes.iter().copied().find(|bytes| fits(*bytes)).unwrap_or(8);
        let names: Vec<String> = labels.iter().map(|(label, _)| label.clone()).collect();
        let labels = labels.into_iter().map(|(label, value)| (label, value as i64)).collect();
        let ty = self.types().add(CType::Enum(Enum { name: name.clone(), bytes, signed, labels }));
        self.declarations.enumerations.extend(names.into_iter().map(|label| (label, ty)));
        if word.is_some() {
            self.declarations.tags.insert(name, ty);
        }
        Ok((ty, true))
    }
}

/// A member whose place is not known yet.
struct Unlaid {
    name: String,
    ty: TypeId,
    width: Option<u8>,
}

impl Names for Reader<'_> {
    fn value(&self, name: &str) -> Option<Int> {
        self.declarations.enumerators.get(name).map(|value| Int::of(*value))
    }

    fn size(&mut self, tokens: &[Token]) -> Option<u32> {
        let ty = self.type_of(tokens)?;
        Some(self.declarations.types.bytes(ty).unwrap_or(1))
    }

    fn align_of(&mut self, tokens: &[Token]) -> Option<u32> {
        self.align(tokens)
    }

    fn cast(&mut self, tokens: &[Token]) -> Option<Cast> {
        let ty = self.type_of(tokens)?;
        let is_bool = tokens.iter().any(|token| token.is("_Bool") || token.is("bool"));
        Some(match self.declarations.types.get(ty) {
            CType::Int { bytes, signed, .. } => Cast { bytes: (*bytes).into(), is_signed: *signed, is_bool },
            CType::Enum(of) => Cast { bytes: of.bytes.into(), is_signed: of.signed, is_bool: false },
            _ => Cast { bytes: 8, is_signed: false, is_bool: false },
        })
    }

    fn learn_type(&mut self, name: &str, tokens: &[Token]) {
        let is_type = |token: &Token| token.kind != TokenKind::Punct || token.is("*");
        if tokens.iter().all(is_type)
            && let Some(ty) = self.type_of(tokens)
        {
            self.declarations.typedefs.insert(name.to_string(), ty);
        }
    }
}
