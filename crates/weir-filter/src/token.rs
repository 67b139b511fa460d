//! The words of the lexer's output.

use weir_source::Span;

use crate::ast::Pattern;

/// One token and where it stands.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Token {
    pub(crate) kind: TokenKind,
    pub(crate) span: Span,
}

#[derive(Clone, PartialEq, Debug)]
pub(crate) enum TokenKind {
    Int(u64),
    /// A number with a fraction or an exponent.
    Float(f64),
    Str(Pattern),
    /// Of a regular expression, what is in the quotes.
    Regex(String),
    /// A name: letters, digits, `_` and `:`.
    Name(String),
    /// `$name`, without the `$`.
    Global(String),
    /// An operator or bracket, as written.
    Punct(&'static str),
    Eof,
}

/// Longest first, so that the first that fits is the right one.
pub(crate) const PUNCTS: &[&str] = &[
    "..", "=~", "!~", "->", "&&", "||", "==", "!=", "<=", ">=", "<<", ">>", "+", "-", "*", "/", "%", "&",
    "|", "^", "!", "~", "<", ">", ".", ",", "(", ")", "[", "]",
];
