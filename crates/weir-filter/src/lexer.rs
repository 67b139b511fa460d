//! Text → tokens, on demand; LTTng's lexer in both dialects (filter-lexer.lpp of lttng-tools).
//!
//! - Numbers: decimal, octal with a leading 0, `0x`, C suffixes (read, without meaning); fractions as in C ([`number`]).
//! - Strings: in `"…"` or `'…'`, with an optional `L`. A new line inside is dropped. `\\` and `\*` are the only escapes. A `*`
//!   stands for any run of characters; several in a row are one.
//! - Regular expressions, where the parser asks for one: all in the quotes as it is, but `\"` in `"…"`, which is a quote.
//! - Names may have colons in them. C and C++ comments are skipped.
//!
//! Departs from LTTng's in two things: there the text `ESCSEQ` in a string is a syntax error, by a slip in its rules; and a name
//! with a universal character name (`\u00e9`) is refused here.

mod number;

use weir_source::{Diagnostic, Span};

use crate::ast::Pattern;
use crate::token::{PUNCTS, Token, TokenKind};

/// A position in a text.
#[derive(Debug)]
pub(crate) struct Lexer<'a> {
    pub(crate) text: &'a str,
    position: usize,
}

impl<'a> Lexer<'a> {
    pub(crate) fn new(text: &'a str) -> Lexer<'a> {
        Lexer { text, position: 0 }
    }

    pub(crate) fn next(&mut self) -> Result<Token, Diagnostic> {
        self.skip_blank()?;
        let start = self.position;
        let rest = &self.text[start..];
        let kind = match rest.as_bytes() {
            [] => TokenKind::Eof,
            [b'"' | b'\'', ..] => self.string(0)?,
            [b'L', b'"' | b'\'', ..] => self.string(1)?,
            [b'0'..=b'9', ..] | [b'.', b'0'..=b'9', ..] => self.number()?,
            [b'a'..=b'z' | b'A'..=b'Z' | b'_' | b':', ..] => TokenKind::Name(self.word(0)),
            [b'$', b'a'..=b'z' | b'A'..=b'Z' | b'_' | b':', ..] => TokenKind::Global(self.word(1)),
            _ => self.punct()?,
        };
        Ok(Token { kind, span: Span::new(start, self.position) })
    }

    fn skip_blank(&mut self) -> Result<(), Diagnostic> {
        loop {
            let rest = self.text[self.position..].trim_start();
            self.position = self.text.len() - rest.len();
            if rest.starts_with("//") {
                self.position += rest.find('\n').unwrap_or(rest.len());
            } else if rest.starts_with("/*") {
                let Some(end) = rest.find("*/") else {
                    let span = Span::new(self.position, self.position + 2);
                    return Err(Diagnostic::error(span, "comment is not closed").with_hint("add `*/`"));
                };
                self.position += end + 2;
            } else {
                return Ok(());
            }
        }
    }

    /// The word that begins `skip` bytes on.
    fn word(&mut self, skip: usize) -> String {
        let rest = &self.text[self.position + skip..];
        let length =
            rest.bytes().take_while(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b':')).count();
        self.position += skip + length;
        rest[..length].to_owned()
    }

    fn punct(&mut self) -> Result<TokenKind, Diagnostic> {
        let rest = &self.text[self.position..];
        if let Some(punct) = PUNCTS.iter().find(|punct| rest.starts_with(**punct)) {
            self.position += punct.len();
            return Ok(TokenKind::Punct(punct));
        }
        // SANITY: the caller has seen that there is one.
        let first = rest.chars().next().expect("a character");
        if rest.starts_with("\\u") || rest.starts_with("\\U") {
            let length = 2 + rest[2..].bytes().take_while(u8::is_ascii_hexdigit).count();
            let span = Span::new(self.position, self.position + length);
            let fault = Diagnostic::error(span, "universal character names are not supported");
            return Err(fault.with_hint("names consist of ASCII letters, digits, `_` and `:`"));
        }
        let span = Span::new(self.position, self.position + first.len_utf8());
        let hint = if first == '=' { "equality is `==`" } else { "remove it" };
        Err(Diagnostic::error(span, format!("unexpected character `{}`", first.escape_debug()))
            .with_hint(hint))
    }

    fn number(&mut self) -> Result<TokenKind, Diagnostic> {
        let start = self.position;
        let rest = &self.text[start..];
        let hex = rest.starts_with("0x") || rest.starts_with("0X");
        let mut length = 0;
        while let Some(byte) = rest.as_bytes().get(length) {
            let before = rest.as_bytes()[..length].last().map(u8::to_ascii_lowercase);
            let exponent = before == Some(if hex { b'p' } else { b'e' });
            // Of a range, such as `1..2`.
            let ends = rest[length..].starts_with("..");
            if ends
                || !(byte.is_ascii_alphanumeric()
                    || *byte == b'.'
                    || (exponent && matches!(byte, b'+' | b'-')))
            {
                break;
            }
            length += 1;
        }
        self.position += length;
        let word = &rest[..length];
        let span = Span::new(start, self.position);
        let exponents = if hex { ['p', 'P'] } else { ['e', 'E'] };
        let number = if word.contains('.') || word.contains(exponents) {
            number::float(word).map(TokenKind::Float)
        } else {
            number::integer(word).map(TokenKind::Int)
        };
        number.map_err(|(message, hint)| Diagnostic::error(span, message).with_hint(hint))
    }

    /// A regular expression in quotes, which the parser knows to come.
    pub(crate) fn regex(&mut self) -> Result<Token, Diagnostic> {
        self.skip_blank()?;
        let start = self.position;
        let rest = &self.text[start..];
        let Some(quote) = rest.chars().next().filter(|first| matches!(first, '"' | '\'')) else {
            let end = start + rest.chars().next().map_or(0, char::len_utf8);
            let fault = Diagnostic::error(Span::new(start, end), "expected a regular expression in quotes");
            return Err(fault.with_hint("such as `path =~ \"^/tmp/.*[.]log$\"`"));
        };
        let mut text = String::new();
        let mut chars = rest.char_indices().skip(1);
        while let Some((at, c)) = chars.next() {
            match c {
                _ if c == quote => {
                    self.position = start + at + 1;
                    return Ok(Token { kind: TokenKind::Regex(text), span: Span::new(start, self.position) });
                }
                '\\' => match chars.next() {
                    Some((_, escaped)) if escaped == quote => text.push(quote),
                    Some((_, escaped)) => text.extend(['\\', escaped]),
                    None => break,
                },
                '\0' => {
                    let span = Span::new(start + at, start + at + 1);
                    let fault = Diagnostic::error(span, "a regular expression cannot hold a NUL byte");
                    return Err(fault.with_hint("a NUL ends every string"));
                }
                _ => text.push(c),
            }
        }
        let fault =
            Diagnostic::error(Span::new(start, self.text.len()), "the regular expression is not closed");
        Err(fault.with_hint(format!("add `{quote}`")))
    }

    /// `skip`: bytes before the quote.
    fn string(&mut self, skip: usize) -> Result<TokenKind, Diagnostic> {
        let start = self.position;
        // Both quotes are one byte.
        let (quote, inside) = (self.text.as_bytes()[start + skip], start + skip + 1);
        let is_plain = |byte: &u8| *byte != quote && !matches!(byte, b'\n' | b'\0' | b'*' | b'\\');
        let plain = self.text.as_bytes()[inside..].iter().take_while(|byte| is_plain(byte)).count();
        let quote = char::from(quote);
        let mut pieces = vec![self.text[inside..inside + plain].to_owned()];
        let mut chars = self.text[inside + plain..].char_indices().map(|(at, c)| (inside + plain + at, c));
        let mut stars_in_a_row = false;
        while let Some((at, c)) = chars.next() {
            let mut literal = Some(c);
            match c {
                _ if c == quote => {
                    self.position = at + 1;
                    return Ok(TokenKind::Str(Pattern { pieces }));
                }
                '\n' => literal = None,
                '\0' => {
                    let fault = Diagnostic::error(Span::new(at, at + 1), "a string cannot hold a NUL byte");
                    return Err(fault.with_hint("a NUL ends every string"));
                }
                '*' => {
                    if !stars_in_a_row {
                        pieces.push(String::new());
                    }
                    stars_in_a_row = true;
                    continue;
                }
                '\\' => match chars.next() {
                    Some((_, escaped @ ('\\' | '*'))) => literal = Some(escaped),
                    Some((end, other)) => {
                        let shown = other.escape_debug();
                        let span = Span::new(at, end + other.len_utf8());
                        let fault = Diagnostic::error(span, format!("unknown escape `\\{shown}`"));
                        return Err(fault.with_hint(
                            "known are `\\\\` and `\\*`; a quote goes into quotes of the other kind",
                        ));
                    }
                    None => break,
                },
                _ => {}
            }
            if let Some(c) = literal {
                stars_in_a_row = false;
                // SANITY: it begins with one, and only grows.
                pieces.last_mut().expect("a piece").push(c);
            }
        }
        let fault = Diagnostic::error(Span::new(start, self.text.len()), "string is not closed");
        Err(fault.with_hint(format!("add `{quote}`")))
    }
}
