//! C declarations → types: what stands before a script's probes, and the headers that it includes.
//!
//! [`read`] takes text and names of headers, whose text it asks of a [`World`]. No compiler is started. [`preprocess`] runs directives and macros, [`declare`] reads declarations and lays records out as
//! System V's ABI for x86-64 does, with GCC's rules for bit-fields. Bodies of functions, and what has no type, are passed over.
//!
//! - What a header has and weir cannot read is remembered with its line, and reported when the script names it; in the script itself it is an error.
//! - Text is hostile input: tokens, depth and includes have bounds ([`limits`]).

#![forbid(unsafe_code)]
mod condition;
mod declare;
mod limits;
mod preprocess;
mod token;

use std::collections::{BTreeMap, HashMap};

use weir_event::ctype::{CTypes, TypeId};
use weir_ir::World;
use weir_source::{Diagnostic, Span};

pub use crate::declare::{basic, is_basic, is_plain_typedef};

use crate::declare::Reader;
use crate::preprocess::{Constant, Preprocessor};

/// What C text has declared.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Declarations {
    pub types: CTypes,
    /// `typedef` names.
    typedefs: HashMap<String, TypeId>,
    /// `struct request` and the like.
    tags: HashMap<String, TypeId>,
    /// Names of enumerations' values.
    enumerators: BTreeMap<String, i128>,
    /// The enumerations that they are of.
    enumerations: BTreeMap<String, TypeId>,
    /// Macros that stand for one value.
    macros: BTreeMap<String, Constant>,
    /// All other macros.
    texts: HashMap<String, String>,
    /// Tags that were declared and could not be read: why.
    faults: HashMap<String, String>,
}

/// What a name stands for.
#[derive(Clone, PartialEq, Debug)]
pub enum Named<'a> {
    Number(i128),
    Text(&'a str),
    /// A macro that is neither; its text.
    Other(&'a str),
}

impl Declarations {
    /// What scripts may name without any C text.
    pub fn plain() -> Declarations {
        declare::plain()
    }

    /// The type of a `typedef`, or of a macro that stands for one.
    pub fn typedef(&self, name: &str) -> Option<TypeId> {
        self.typedefs.get(name).copied()
    }

    /// All of them.
    pub fn typedefs(&self) -> impl Iterator<Item = &str> {
        self.typedefs.keys().map(String::as_str)
    }

    /// The type of a tag, with its keyword, or why it could not be read.
    pub fn tag(&self, name: &str) -> Option<Result<TypeId, &str>> {
        match self.faults.get(name) {
            Some(fault) => Some(Err(fault)),
            None => self.tags.get(name).map(|id| Ok(*id)),
        }
    }

    /// What a macro or a value of an enumeration stands for.
    pub fn named(&self, name: &str) -> Option<Named<'_>> {
        match self.macros.get(name) {
            Some(Constant::Number(value)) => return Some(Named::Number(*value)),
            Some(Constant::Text(text)) => return Some(Named::Text(text)),
            None => {}
        }
        let value = self.enumerators.get(name).map(|value| Named::Number(*value));
        value.or_else(|| self.texts.get(name).map(|text| Named::Other(text)))
    }

    /// The enumeration that a name is a value of.
    pub fn enumeration_of(&self, name: &str) -> Option<TypeId> {
        let is_macro = self.macros.contains_key(name);
        self.enumerations.get(name).copied().filter(|_| !is_macro)
    }

    /// Names that stand for numbers or text.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.macros.keys().chain(self.enumerators.keys()).map(String::as_str)
    }
}

/// Reads C text, whose offsets are those of the script, after these headers.
pub fn read(text: &str, headers: &[String], world: &dyn World) -> (Declarations, Vec<Diagnostic>) {
    let mut reader = Reader::new(Preprocessor::new(text, headers, world));
    reader.read();
    reader.finish()
}

/// A fault in C text: where in the script, and where it is in a header.
pub(crate) fn fault(span: Span, at: Option<&str>, message: &str, hint: &str) -> Diagnostic {
    let message = at.map_or_else(|| message.to_string(), |at| format!("{at}: {message}"));
    Diagnostic::error(span, message).with_hint(hint)
}
