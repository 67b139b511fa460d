//! The words of the lexer's output.

use weir_source::Span;

/// One token and where it stands.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Token {
    pub kind: TokenKind,
    pub span: Span,
}

#[derive(Clone, PartialEq, Debug)]
pub(crate) enum TokenKind {
    /// A word: keyword, builtin, function or anything else. Its text is that of its span.
    Ident,
    /// A number, suffix applied: `0x10`, `1e6`, `5ms` (in nanoseconds).
    Int(u64),
    /// A decimal fraction: `1.5`, `2.5e-3`, `1e-9`.
    Double(f64),
    /// A string literal, escapes resolved.
    Str(String),
    /// `$name`.
    Variable,
    /// `@name` or `@`.
    Map,
    /// `$1`.
    Param(u32),
    /// `$#`.
    ParamCount,
    /// An operator or bracket, as written.
    Punct(&'static str),
    /// A `/` before a `{`.
    EndPredicate,
    /// Text that is no token; the lexer has said so.
    Invalid,
    Eof,
}

impl TokenKind {
    pub(crate) fn is(&self, punct: &str) -> bool {
        matches!(self, TokenKind::Punct(p) if *p == punct)
    }
}

/// Longest first, so that the first that fits is the right one.
pub(crate) const PUNCTS: &[&str] = &[
    "<<=", ">>=", "...", "->", "++", "--", "&&", "||", "==", "!=", "<=", ">=", "<<", ">>", "+=", "-=", "*=",
    "/=", "%=", "&=", "|=", "^=", "..", "+", "-", "*", "/", "%", "&", "|", "^", "!", "~", "<", ">", "=", "?",
    ":", ";", ",", ".", "(", ")", "[", "]", "{", "}",
];
