//! The words of source text: files, spans and diagnostics.
//!
//! In: text that a user wrote. Out: [`Diagnostic`]s that name a place in it. Rendering is here too
//! ([`render`]), so that every front end shows errors alike. Knows nothing of any language.

#![deny(missing_docs)]
#![forbid(unsafe_code)]

mod diagnostic;
mod suggest;
mod text;

pub use crate::diagnostic::{Diagnostic, Label, Severity, render};
pub use crate::suggest::nearest;
pub use crate::text::{NotText, text_of, without_mark};

/// Names come from files and processes that may have anything in them: no control characters reach the terminal.
pub fn printable(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '?' } else { c }).collect()
}

/// A byte range in one source file.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Span {
    /// Offset of the first byte.
    pub start: u32,
    /// Offset after the last byte.
    pub end: u32,
}

impl Span {
    /// From offsets of a text, which is shorter than 4 GiB.
    pub fn new(start: usize, end: usize) -> Span {
        Span { start: start as u32, end: end as u32 }
    }

    /// The smallest span that covers both.
    pub fn to(self, other: Span) -> Span {
        Span { start: self.start.min(other.start), end: self.end.max(other.end) }
    }
}

/// A named text: a script file, or `-e` given on the command line.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SourceFile {
    /// As messages show it, such as `trace.bt` or `<-e>`.
    pub name: String,
    /// All of it.
    pub text: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_reach_the_terminal_without_control_characters() {
        assert_eq!(printable("a\x1b[31mb\n"), "a?[31mb?");
    }
}
