//! Script text in bpftrace's language → a syntax tree, or the same text in weir's style.
//!
//! [`parse`] reads text to a tree ([`ast`]) and never fails: each fault is a diagnostic at the exact text. [`format`](format())
//! writes the text again. What the text alone does not say is asked of [`Words`].
//!
//! - Names are not resolved, types not known: weir-script does that.
//! - Hostile text gives errors, never a panic or unbounded work ([`limits`]).

#![forbid(unsafe_code)]

pub mod ast;
mod formatter;
mod lexer;
pub mod limits;
mod parser;
mod token;

pub use crate::formatter::format;
pub use crate::lexer::{number_value, word_length};
pub use crate::parser::{KEYWORDS, Words, parse};
