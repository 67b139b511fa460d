//! Names of types: in casts, declarations, `sizeof` and `offsetof`.

use weir_header::{is_basic, is_plain_typedef};
use weir_source::Span;

use crate::ast::{INT_TYPES, Name, TypeBase, TypeName, TypeSuffix};
use crate::limits;
use crate::parser::Parser;
use crate::parser::role::Role;
use crate::token::TokenKind;

pub(super) const TYPEOF: &str = "typeof";

impl Parser<'_> {
    /// True where a `(` is next and a cast's type in it: `(uint8)`, `(struct a *)`, `(size_t)$x`.
    pub(super) fn is_cast_ahead(&mut self) -> bool {
        if self.peek_at(1).kind != TokenKind::Ident {
            return false;
        }
        let span = self.peek_at(1).span;
        let word = self.text_of(span);
        if word == TYPEOF {
            return self.is_alone_ahead();
        }
        if is_type_word(&word) {
            return true;
        }
        let is_typedef = is_plain_typedef(&word) || word.ends_with("_t");
        if is_typedef && self.peek_at(2).kind.is(")") {
            return ![")", ";", ",", "}", "]", "?", ":"].iter().any(|end| self.peek_at(3).kind.is(end));
        }
        // Another name may be a variable's. It is no expression that goes on with `*)`, or with an operand after the bracket.
        let mut at = 2;
        while self.peek_at(at).kind.is("*") {
            at += 1;
        }
        if !self.peek_at(at).kind.is(")") {
            return false;
        }
        let after = &self.peek_at(at + 1).kind;
        let is_operand = matches!(
            after,
            TokenKind::Ident
                | TokenKind::Int(_)
                | TokenKind::Double(_)
                | TokenKind::Str(_)
                | TokenKind::Variable
                | TokenKind::Map
                | TokenKind::Param(_)
        );
        at > 2 || is_operand || after.is("(")
    }

    /// Behind `typeof(…)` within the bracket the type goes on, or ends: else it is an operand.
    fn is_alone_ahead(&mut self) -> bool {
        let (mut at, mut open) = (2, 0);
        loop {
            match &self.peek_at(at).kind {
                TokenKind::Punct("(") => open += 1,
                TokenKind::Punct(")") if open > 1 => open -= 1,
                TokenKind::Punct(")") => break,
                TokenKind::Punct(";" | "{" | "}") | TokenKind::Eof => return false,
                _ => {}
            }
            at += 1;
        }
        let next = &self.peek_at(at + 1).kind;
        next.is(")") || next.is("*") || next.is("[")
    }

    /// `(type)` or `(value)`.
    pub(super) fn type_or_value(&mut self) -> Option<TypeName> {
        let name = self.peek_at(1).clone();
        let is_name = name.kind == TokenKind::Ident;
        let word = if is_name { self.text_of(name.span) } else { String::new() };
        let is_alone = self.peek_at(2).kind.is(")") || self.peek_at(2).kind.is("*");
        let is_value = (self.words.is_value)(&word);
        self.expect("(", "before a type or a value");
        let ty = match is_name && (is_type_word(&word) || is_alone && !is_value) {
            true => self.type_name()?,
            false => {
                let value = self.expr();
                let span = value.span;
                TypeName { base: TypeBase::Of(Box::new(value)), suffixes: Vec::new(), span }
            }
        };
        (!self.recovering && self.expect(")", "after the type or the value")).then_some(ty)
    }

    /// The type's name that stands here, or a fault.
    pub(super) fn type_name(&mut self) -> Option<TypeName> {
        let start = self.peek_span();
        while *self.peek() == TokenKind::Ident && self.is_qualifier() {
            self.bump();
        }
        let mut end = self.peek_span();
        let word = self.text_of(end);
        let (base, mut suffixes) = match word == TYPEOF && self.peek_at(1).kind.is("(") {
            true => {
                self.bump();
                let ty = self.nested(Self::type_or_value).flatten()?;
                (ty.base, ty.suffixes)
            }
            false => (self.type_base(&mut end)?, Vec::new()),
        };
        while !self.recovering {
            let mut next = self.peek_span();
            if *self.peek() == TokenKind::Ident && self.is_qualifier() {
                self.bump();
            } else if self.eat("*") {
                self.roles.set(next.start as usize, Role::TypePointer);
                suffixes.push(TypeSuffix::Pointer);
            } else if self.peek().is("[") {
                let (suffix, close) = self.array_suffix()?;
                suffixes.push(suffix);
                next = close;
            } else {
                break;
            }
            end = next;
            if suffixes.len() > limits::ARRAY_SUFFIXES_MAX {
                self.fault(
                    start,
                    "the type has too many `*` and `[…]`",
                    "declare a `typedef` for a part of it",
                );
            }
        }
        Some(TypeName { base, suffixes, span: start.to(end) })
    }

    fn type_base(&mut self, end: &mut Span) -> Option<TypeBase> {
        const HINT: &str = "such as `uint32`, `struct request *` or `size_t`";
        let token = self.peek_at(0).clone();
        if token.kind != TokenKind::Ident {
            let found = self.found();
            self.fault(token.span, &format!("expected a type, found {found}"), HINT);
            return None;
        }
        *end = self.bump().span;
        let word = self.text_of(token.span);
        if let Some((_, ty)) = INT_TYPES.iter().find(|(known, _)| *known == word) {
            return Some(TypeBase::Int(*ty));
        }
        if matches!(word.as_str(), "struct" | "union" | "enum") {
            let name = self.peek_at(0).clone();
            if name.kind != TokenKind::Ident {
                let found = self.found();
                self.fault(name.span, &format!("expected a name after `{word}`, found {found}"), HINT);
                return None;
            }
            *end = self.bump().span;
            return Some(TypeBase::Tag(format!("{word} {}", self.text_of(name.span))));
        }
        if !is_basic(&word) {
            return Some(TypeBase::Name(word));
        }
        let mut words = word;
        while *self.peek() == TokenKind::Ident {
            let span = self.peek_span();
            let next = self.text_of(span);
            if !is_basic(&next) {
                break;
            }
            words = format!("{words} {next}");
            *end = self.bump().span;
        }
        Some(TypeBase::Basic(words))
    }

    /// With the place of its `]`.
    fn array_suffix(&mut self) -> Option<(TypeSuffix, Span)> {
        self.bump();
        let token = self.peek_at(0).clone();
        match token.kind {
            TokenKind::Int(count) if u32::try_from(count).is_ok() => {
                self.bump();
                let close = self.peek_span();
                let is_closed = self.expect("]", "after the number of elements");
                is_closed.then_some((TypeSuffix::Array(count as u32), close))
            }
            _ => {
                let found = self.found();
                self.fault(
                    token.span,
                    &format!("expected a number of elements, found {found}"),
                    "such as `uint8[16]`",
                );
                None
            }
        }
    }

    fn is_qualifier(&mut self) -> bool {
        let span = self.peek_span();
        matches!(self.text_of(span).as_str(), "const" | "volatile" | "__user" | "__kernel")
    }

    /// `name.name`, of `offsetof`.
    pub(super) fn member_path(&mut self) -> Option<Vec<Name>> {
        let mut path = Vec::new();
        loop {
            let token = self.peek_at(0).clone();
            if token.kind != TokenKind::Ident {
                let found = self.found();
                self.fault(
                    token.span,
                    &format!("expected the name of a member, found {found}"),
                    "such as `offsetof(struct a, b.c)`",
                );
                return None;
            }
            self.bump();
            path.push(Name { text: self.text_of(token.span), span: token.span });
            if !self.eat(".") {
                return Some(path);
            }
        }
    }
}

/// A word that begins a type and can be no value's name.
pub(super) fn is_type_word(word: &str) -> bool {
    is_basic(word)
        || word == TYPEOF
        || matches!(word, "struct" | "union" | "enum" | "const")
        || INT_TYPES.iter().any(|(known, _)| *known == word)
}
