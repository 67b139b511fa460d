//! CTF 1.8's text of metadata, the Trace Stream Description Language: text → [`ast::Document`] → a trace class, and back.
//!
//! As in CTF 1.8.3, sections 4, 7, 8 and C. Types have names in scopes, as in C; what a sequence or a variant refers to is looked up when
//! a type has its place in a scope ([`place`]), since one type may have several. Underscores at the beginning of names, which tracers put
//! there to stay clear of keywords, are taken away, as readers should (7.3.2).
//!
//! Deliberately not read: bit-fields of C (`int a : 3`), pointers as types, and integers of more than 64 bits: each is an error that
//! says what to write. Call sites and attributes that nobody knows are read over.

mod admit;
pub(crate) mod ast;
pub(crate) mod lexer;
pub(crate) mod parser;
pub(crate) mod place;
pub(crate) mod print;

use crate::class::TraceClass;

/// What is wrong, and where in the text.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Fault {
    pub(crate) offset: usize,
    pub(crate) message: String,
}

impl Fault {
    pub(crate) fn new(offset: usize, message: impl Into<String>) -> Fault {
        Fault { offset, message: message.into() }
    }
}

/// The trace class that the text describes.
pub(crate) fn read(text: &str) -> Result<TraceClass, Fault> {
    place::place(parser::parse(text)?)
}

/// Line and column of an offset, from 1; columns are characters.
pub(crate) fn position(text: &str, offset: usize) -> (u32, u32) {
    let before = text.get(..offset).unwrap_or(text);
    let line = before.bytes().filter(|byte| *byte == b'\n').count() + 1;
    let column = before.chars().rev().take_while(|c| *c != '\n').count() + 1;
    (line as u32, column as u32)
}
