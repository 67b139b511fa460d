//! Text → tokens, on demand.
//!
//! The parser pulls, because a script has two lexical worlds: attach points, where `/`, `-`, `.` and `*` are
//! letters of a path, and everything else. The lexer knows only the second; the parser reads attach points from
//! the text itself ([`crate::parser`]) and sets the position.
//!
//! - Never fails: text that is no token becomes `Invalid` and a diagnostic.
//! - A `/` whose next visible character is `{` ends a predicate, as in bpftrace; any other divides.
//! - Fractions: `1.5`, `2.5e-3`, `1e-9`; not behind a point, where `$t.0.1` names a part of a part.
//! - Numbers: decimal, `0x`, octal with a leading 0, `1e6`, `_` between digits, C suffixes (ignored), and the
//!   durations `ns us ms s m h d`, which give nanoseconds.
//! - Escapes in strings: `\n \t \r \\ \" \'`, octal `\101`, hexadecimal `\x41`.

use weir_source::{Diagnostic, Span};

use crate::limits;
use crate::token::{PUNCTS, Token, TokenKind};

/// A position in a text and the faults found so far.
#[derive(Debug)]
pub(crate) struct Lexer<'a> {
    pub text: &'a str,
    pub position: usize,
    pub diagnostics: Vec<Diagnostic>,
}

/// Nanoseconds of each duration suffix.
const DURATIONS: &[(&str, u64)] = &[
    ("ns", 1),
    ("us", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("m", 60 * 1_000_000_000),
    ("h", 3_600 * 1_000_000_000),
    ("d", 86_400 * 1_000_000_000),
];

impl<'a> Lexer<'a> {
    pub(crate) fn new(text: &'a str) -> Lexer<'a> {
        let mut lexer = Lexer { text, position: 0, diagnostics: Vec::new() };
        if text.starts_with("#!") {
            lexer.position = text.find('\n').unwrap_or(text.len());
        }
        lexer
    }

    pub(crate) fn next(&mut self) -> Token {
        self.skip_blank();
        let start = self.position;
        let rest = &self.text[start..];
        let Some(first) = rest.chars().next() else {
            return Token { kind: TokenKind::Eof, span: Span::new(start, start) };
        };
        let kind = match first {
            'a'..='z' | 'A'..='Z' | '_' => {
                self.position += word_length(rest);
                TokenKind::Ident
            }
            '0'..='9' => self.number(),
            '"' => self.string(),
            '@' => {
                self.position += 1 + word_length(&rest[1..]);
                TokenKind::Map
            }
            '$' => self.dollar(),
            '/' if self.ends_predicate() => {
                self.position += 1;
                TokenKind::EndPredicate
            }
            _ => self.punct_or_invalid(first),
        };
        Token { kind, span: Span::new(start, self.position) }
    }

    /// Skips white space and comments.
    pub(crate) fn skip_blank(&mut self) {
        while self.comment().is_some() {}
    }

    /// Skips white space, and the comment behind it, if there is one.
    pub(crate) fn comment(&mut self) -> Option<Span> {
        let rest = &self.text[self.position..];
        self.position += rest.len() - rest.trim_start().len();
        let (start, rest) = (self.position, &self.text[self.position..]);
        if rest.starts_with("//") {
            self.position += rest.find('\n').unwrap_or(rest.len());
        } else if let Some(text) = rest.strip_prefix("/*") {
            match text.find("*/") {
                Some(end) => self.position += end + 4,
                None => {
                    self.error(Span::new(start, start + 2), "comment is not closed", "add `*/`");
                    self.position = self.text.len();
                }
            }
        } else {
            return None;
        }
        Some(Span::new(start, self.position))
    }

    /// Reads a quoted string that starts at the position: the string of an attach point too.
    pub(crate) fn string(&mut self) -> TokenKind {
        let start = self.position;
        let bytes = self.text.as_bytes();
        let mut out = Vec::new();
        let mut at = start + 1;
        let mut sound = true;
        loop {
            match bytes.get(at) {
                None | Some(b'\n') => {
                    self.position = at;
                    self.error(
                        Span::new(start, at),
                        "string is not closed",
                        "add `\"`, or write `\\n` for a new line",
                    );
                    return TokenKind::Invalid;
                }
                Some(b'"') => break,
                Some(b'\\') => {
                    let (byte, length) = escape(&bytes[at + 1..]);
                    match byte {
                        Some(0) => {
                            let span = Span::new(at, at + 1 + length);
                            self.error(span, "a string cannot hold a NUL byte", "a NUL ends every string");
                            sound = false;
                        }
                        Some(byte) => out.push(byte),
                        None => {
                            let end = self.boundary_at_or_after(at + 1 + length);
                            let shown = &self.text[at..end];
                            self.error(
                                Span::new(at, end),
                                &format!("unknown escape `{}`", shown.escape_debug()),
                                "known are \\n \\t \\r \\\\ \\\" \\' \\101 (octal) and \\x41 (hexadecimal)",
                            );
                            sound = false;
                        }
                    }
                    at = self.boundary_at_or_after(at + 1 + length);
                }
                Some(0) => {
                    let span = Span::new(at, at + 1);
                    self.error(span, "a string cannot hold a NUL byte", "a NUL ends every string");
                    sound = false;
                    at += 1;
                }
                Some(byte) => {
                    out.push(*byte);
                    at += 1;
                }
            }
        }
        self.position = at + 1;
        match String::from_utf8(out) {
            Ok(text) if sound => TokenKind::Str(text),
            Ok(_) => TokenKind::Invalid,
            Err(_) => {
                let span = Span::new(start, self.position);
                self.error(span, "string is not UTF-8", "check its \\x and octal escapes");
                TokenKind::Invalid
            }
        }
    }

    fn number(&mut self) -> TokenKind {
        let start = self.position;
        let length = fraction_length(&self.text[start..]);
        if length > 0 && !self.text[..start].trim_end().ends_with('.') {
            self.position += length;
            return self.fraction(start);
        }
        let word = &self.text[start..start + word_length(&self.text[start..])];
        self.position += word.len();
        match number_value(word) {
            Ok(value) => TokenKind::Int(value),
            Err((message, hint)) => {
                self.error(Span::new(start, self.position), &message, hint);
                TokenKind::Invalid
            }
        }
    }

    fn fraction(&mut self, start: usize) -> TokenKind {
        let text = &self.text[start..self.position];
        let span = Span::new(start, self.position);
        match text.replace('_', "").parse::<f64>() {
            Ok(value) if value.is_finite() => TokenKind::Double(value),
            Ok(_) => {
                self.error(
                    span,
                    &format!("`{text}` is too large for a double"),
                    "the largest is about 1.8e308",
                );
                TokenKind::Invalid
            }
            Err(_) => {
                let message = format!("`{text}` is no number");
                self.error(span, &message, "fractions are 1.5, 2.5e-3, 1e-9");
                TokenKind::Invalid
            }
        }
    }

    fn dollar(&mut self) -> TokenKind {
        let start = self.position;
        let rest = &self.text[start + 1..];
        if rest.starts_with('#') {
            self.position += 2;
            return TokenKind::ParamCount;
        }
        let length = word_length(rest);
        self.position += 1 + length;
        let word = &rest[..length];
        let span = Span::new(start, self.position);
        if word.is_empty() {
            self.error(span, "expected a name after `$`", "a scratch variable is `$name`, a parameter `$1`");
            return TokenKind::Invalid;
        }
        if !word.starts_with(|c: char| c.is_ascii_digit()) {
            return TokenKind::Variable;
        }
        match word.parse::<u32>() {
            Ok(index) if index > 0 => TokenKind::Param(index),
            _ => {
                self.error(
                    span,
                    &format!("`${word}` is no parameter"),
                    "parameters are `$1`, `$2` and so on",
                );
                TokenKind::Invalid
            }
        }
    }

    fn punct_or_invalid(&mut self, first: char) -> TokenKind {
        let start = self.position;
        let rest = &self.text[start..];
        if let Some(punct) = PUNCTS.iter().find(|p| rest.starts_with(**p)) {
            self.position += punct.len();
            return TokenKind::Punct(punct);
        }
        self.position += if first == '\'' { character_length(rest) } else { first.len_utf8() };
        let span = Span::new(start, self.position);
        match first {
            '\'' => self.error(
                span,
                "character literals are not part of the language",
                "write the number, or a string in \"…\"",
            ),
            '#' => self.error(
                span,
                "directives of C stand before all probes",
                "move it to the top of the script",
            ),
            _ => self.error(span, &format!("unexpected character `{}`", first.escape_debug()), "remove it"),
        }
        TokenKind::Invalid
    }

    fn ends_predicate(&self) -> bool {
        let mut ahead = Lexer { text: self.text, position: self.position + 1, diagnostics: Vec::new() };
        ahead.skip_blank();
        self.text[ahead.position..].starts_with('{')
    }

    fn boundary_at_or_after(&self, mut at: usize) -> usize {
        while at < self.text.len() && !self.text.is_char_boundary(at) {
            at += 1;
        }
        at.min(self.text.len())
    }

    fn error(&mut self, span: Span, message: &str, hint: &str) {
        if self.diagnostics.len() < limits::DIAGNOSTICS_GATHERED_MAX {
            self.diagnostics.push(Diagnostic::error(span, message).with_hint(hint));
        }
    }
}

/// Bytes of the word at the start of `text`: letters, digits and `_`.
pub fn word_length(text: &str) -> usize {
    text.bytes().take_while(|b| b.is_ascii_alphanumeric() || *b == b'_').count()
}

/// Bytes of the fraction at the start of `text`; 0 if it is none: digits with a point and digits behind, or with a negative
/// exponent. What else is a part of the word is taken with it, so that it is refused whole.
fn fraction_length(text: &str) -> usize {
    let whole = text.bytes().take_while(|b| b.is_ascii_digit() || *b == b'_').count();
    let is_digit = |at: usize| text.as_bytes().get(at).is_some_and(u8::is_ascii_digit);
    let has_point = text[whole..].starts_with('.') && is_digit(whole + 1);
    let mut end = if has_point { whole + 1 + word_length(&text[whole + 1..]) } else { word_length(text) };
    let is_decimal = text[if has_point { whole + 1 } else { 0 }..end]
        .trim_end_matches(['e', 'E'])
        .bytes()
        .all(|b| b.is_ascii_digit() || b == b'_');
    let signed = is_decimal
        && text[..end].ends_with(['e', 'E'])
        && text[end..].starts_with(if has_point { &['+', '-'][..] } else { &['-'][..] })
        && is_digit(end + 1);
    if signed {
        end += 1 + word_length(&text[end + 1..]);
    }
    if has_point || signed { end } else { 0 }
}

/// Bytes of the character literal at the start of `text`, so that it is refused as one; 1 if it is none.
fn character_length(text: &str) -> usize {
    let line = text.char_indices().take_while(|(_, c)| *c != '\n');
    let close = line.skip(2).take(4).find(|(_, c)| *c == '\'');
    close.map_or(1, |(index, _)| index + 1)
}

/// The value of a number with its suffix, or message and hint.
pub fn number_value(word: &str) -> Result<u64, (String, &'static str)> {
    const KINDS: &str = "numbers are 10, 0x1f, 017, 1e6, 1_000, and durations such as 5ms";
    let too_large = || (format!("`{word}` does not fit in 64 bits"), "the largest is 18446744073709551615");
    let plain = word.replace('_', "");
    if let Some(hex) = plain.strip_prefix("0x").or_else(|| plain.strip_prefix("0X")) {
        let digits = hex.trim_end_matches(['u', 'U', 'l', 'L']);
        if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_hexdigit()) {
            return Err((format!("`{word}` is no number"), KINDS));
        }
        return u64::from_str_radix(digits, 16).map_err(|_| too_large());
    }
    let digits_end = plain.bytes().take_while(u8::is_ascii_digit).count();
    let (digits, suffix) = plain.split_at(digits_end);
    if digits.is_empty() {
        return Err((format!("`{word}` is no number"), KINDS));
    }
    if digits.len() > 1 && digits.starts_with('0') {
        if digits.bytes().any(|b| b > b'7') {
            return Err((format!("`{word}` is no number"), "a leading 0 makes it octal: digits 0 to 7"));
        }
        if suffix.bytes().all(|b| b"uUlL".contains(&b)) {
            return u64::from_str_radix(digits, 8).map_err(|_| too_large());
        }
    }
    // Only a number that is too large is left to fail.
    let value: u64 = digits.parse().map_err(|_| too_large())?;
    if suffix.bytes().all(|b| b"uUlL".contains(&b)) {
        return Ok(value);
    }
    if let Some((_, scale)) = DURATIONS.iter().find(|(name, _)| *name == suffix) {
        return value.checked_mul(*scale).ok_or_else(too_large);
    }
    match suffix.strip_prefix(['e', 'E']).map(str::parse::<u32>) {
        Some(Ok(exponent)) => {
            let scale = 10u64.checked_pow(exponent);
            scale.and_then(|s| value.checked_mul(s)).ok_or_else(too_large)
        }
        _ => Err((format!("`{word}` is no number"), KINDS)),
    }
}

/// The byte of the escape whose text after the `\` is `rest`, and how many bytes of `rest` it takes.
fn escape(rest: &[u8]) -> (Option<u8>, usize) {
    let simple = |byte| (Some(byte), 1);
    match rest.first() {
        Some(b'n') => simple(b'\n'),
        Some(b't') => simple(b'\t'),
        Some(b'r') => simple(b'\r'),
        Some(b'\\') => simple(b'\\'),
        Some(b'"') => simple(b'"'),
        Some(b'\'') => simple(b'\''),
        Some(b'0'..=b'7') => {
            let count = rest.iter().take(3).take_while(|b| (b'0'..=b'7').contains(b)).count();
            let value = rest[..count].iter().fold(0u32, |sum, b| sum * 8 + u32::from(b - b'0'));
            (u8::try_from(value).ok(), count)
        }
        Some(b'x') => {
            let count = rest[1..].iter().take(2).take_while(|b| b.is_ascii_hexdigit()).count();
            let digits = std::str::from_utf8(&rest[1..1 + count]).unwrap_or_default();
            (u8::from_str_radix(digits, 16).ok(), 1 + count)
        }
        // An escape cannot swallow the end of a line: the string is then not closed, which is said instead.
        Some(b'\n') | None => (None, 0),
        Some(_) => (None, 1),
    }
}
