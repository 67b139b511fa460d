//! C's tokens.

use std::rc::Rc;

use weir_source::Span;

/// One token. Of a header the span is that of the directive that included it.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Token {
    pub(super) kind: TokenKind,
    /// As it was written.
    pub(super) text: Rc<str>,
    pub(super) span: Span,
    /// The header that it is in; none: the script.
    pub(super) file: Option<Rc<str>>,
    pub(super) line: u32,
    /// It is the first of its line.
    pub(super) begins_line: bool,
    /// A blank stands before it.
    pub(super) is_apart: bool,
    /// It is the name of the macro that it came out of, and stays.
    pub(super) is_final: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum TokenKind {
    Ident,
    Number,
    Text,
    Char,
    Punct,
}

impl Token {
    pub(super) fn is(&self, text: &str) -> bool {
        &*self.text == text && matches!(self.kind, TokenKind::Punct | TokenKind::Ident)
    }

    /// How many round brackets are open behind it, of `open` before it.
    pub(super) fn brackets(&self, open: u32) -> u32 {
        match () {
            () if self.is("(") => open + 1,
            () if self.is(")") => open - 1,
            () => open,
        }
    }

    pub(super) fn is_ident(&self) -> bool {
        self.kind == TokenKind::Ident
    }
}

/// Longest first.
const PUNCTS: [&str; 23] = [
    "...", "<<=", ">>=", "->", "++", "--", "<<", ">>", "<=", ">=", "==", "!=", "&&", "||", "*=", "/=", "%=",
    "+=", "-=", "&=", "^=", "|=", "##",
];

/// A text on its way to tokens.
pub(super) struct Lexer {
    text: Rc<str>,
    position: usize,
    line: u32,
    /// Of a header: its name, and what its tokens have as their place.
    header: Option<(Rc<str>, Span)>,
    begins_line: bool,
    /// Blanks were skipped since the last token.
    is_apart: bool,
}

impl Lexer {
    pub(super) fn new(text: &str, header: Option<(Rc<str>, Span)>) -> Lexer {
        Lexer { text: text.into(), position: 0, line: 1, header, begins_line: true, is_apart: false }
    }

    /// The next token; none at the end.
    pub(super) fn next(&mut self) -> Option<Token> {
        self.skip_blank();
        let is_apart = std::mem::replace(&mut self.is_apart, false);
        let text = self.text.clone();
        let rest = &text[self.position..];
        let first = rest.chars().next()?;
        let (kind, length) = match first {
            // Of wide characters the prefix says nothing that matters here.
            'L' | 'u' | 'U' if rest[1..].starts_with('"') => (TokenKind::Text, 1 + quoted(&rest[1..])),
            'L' | 'u' | 'U' if rest[1..].starts_with('\'') => (TokenKind::Char, 1 + quoted(&rest[1..])),
            'a'..='z' | 'A'..='Z' | '_' | '$' => (TokenKind::Ident, word(rest)),
            '0'..='9' => (TokenKind::Number, number(rest)),
            '.' if rest[1..].starts_with(|c: char| c.is_ascii_digit()) => (TokenKind::Number, number(rest)),
            '"' => (TokenKind::Text, quoted(rest)),
            '\'' => (TokenKind::Char, quoted(rest)),
            _ => {
                let known = PUNCTS.iter().find(|punct| rest.starts_with(**punct));
                (TokenKind::Punct, known.map_or(first.len_utf8(), |punct| punct.len()))
            }
        };
        let own = Span::new(self.position, self.position + length);
        let (file, span) = match &self.header {
            Some((name, span)) => (Some(name.clone()), *span),
            None => (None, own),
        };
        self.position += length;
        let begins_line = std::mem::replace(&mut self.begins_line, false);
        let text: Rc<str> = rest[..length].into();
        let line = self.line;
        self.line += text.matches('\n').count() as u32;
        Some(Token { kind, text, span, file, line, begins_line, is_apart, is_final: false })
    }

    /// The rest of the line, as it stands.
    pub(super) fn rest_of_line(&self) -> &str {
        self.text[self.position..].lines().next().unwrap_or_default()
    }

    /// The line that the next token is on is another one.
    pub(super) fn is_at_line_end(&mut self) -> bool {
        self.skip_blank();
        self.begins_line || self.position == self.text.len()
    }

    /// Skips blanks and comments.
    fn skip_blank(&mut self) {
        let start = self.position;
        let text = self.text.clone();
        loop {
            let rest = &text[self.position..];
            let length = if rest.starts_with("\\\n") {
                self.line += 1;
                2
            } else if rest.starts_with("//") {
                rest.find('\n').unwrap_or(rest.len())
            } else if let Some(comment) = rest.strip_prefix("/*") {
                let length = comment.find("*/").map_or(rest.len(), |end| end + 4);
                self.line += rest[..length].matches('\n').count() as u32;
                length
            } else if rest.starts_with('\n') {
                (self.line, self.begins_line) = (self.line + 1, true);
                1
            } else {
                match rest.chars().next() {
                    Some(blank) if blank.is_whitespace() => blank.len_utf8(),
                    _ => break,
                }
            };
            self.position += length;
        }
        self.is_apart |= self.position > start;
    }
}

fn word(text: &str) -> usize {
    text.bytes().take_while(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$')).count()
}

/// A preprocessing number: `0x10UL`, `1.5e+3`.
fn number(text: &str) -> usize {
    let bytes = text.as_bytes();
    let mut length = 0;
    while let Some(byte) = bytes.get(length) {
        let is_sign = matches!(byte, b'+' | b'-')
            && length > 0
            && matches!(bytes[length - 1], b'e' | b'E' | b'p' | b'P');
        let is_hex = text.starts_with("0x") || text.starts_with("0X");
        if !(byte.is_ascii_alphanumeric()
            || matches!(byte, b'_' | b'.')
            || is_sign && !(is_hex && matches!(bytes[length - 1], b'e' | b'E')))
        {
            break;
        }
        length += 1;
    }
    length
}

/// Up to the same quote, or the end of the line.
fn quoted(text: &str) -> usize {
    let bytes = text.as_bytes();
    let mut length = 1;
    while let Some(byte) = bytes.get(length) {
        match byte {
            b'\n' => break,
            b'\\' if length + 1 < bytes.len() => length += 2,
            _ if *byte == bytes[0] => return length + 1,
            _ => length += 1,
        }
    }
    // It may have ended within a character.
    (length.min(text.len())..=text.len()).find(|end| text.is_char_boundary(*end)).unwrap_or(text.len())
}

/// The value of an integer, with C's suffixes; none where it is no integer of 64 bits.
pub(super) fn integer(text: &str) -> Option<i64> {
    let digits = text.trim_end_matches(['u', 'U', 'l', 'L']);
    let (digits, radix) = match digits.get(..2) {
        Some("0x" | "0X") => (&digits[2..], 16),
        Some("0b" | "0B") => (&digits[2..], 2),
        _ if digits.len() > 1 && digits.starts_with('0') => (&digits[1..], 8),
        _ => (digits, 10),
    };
    if digits.starts_with(['+', '-']) {
        return None;
    }
    u64::from_str_radix(digits, radix).ok().map(|value| value as i64)
}

/// The value of a character literal, or the bytes of a string, without their quotes.
pub(super) fn unquoted(text: &str) -> Vec<u8> {
    let text = text.trim_start_matches(['L', 'u', 'U']);
    let inner = text.get(1..text.len().saturating_sub(1)).unwrap_or_default().as_bytes();
    let mut out = Vec::new();
    let mut at = 0;
    while at < inner.len() {
        if inner[at] != b'\\' || at + 1 == inner.len() {
            out.push(inner[at]);
            at += 1;
            continue;
        }
        let rest = &inner[at + 1..];
        let octal = rest.iter().take(3).take_while(|byte| (b'0'..=b'7').contains(byte)).count();
        let (byte, length) = match rest[0] {
            b'n' => (b'\n', 1),
            b't' => (b'\t', 1),
            b'r' => (b'\r', 1),
            b'a' => (7, 1),
            b'b' => (8, 1),
            b'f' => (12, 1),
            b'v' => (11, 1),
            b'x' => {
                let digits = rest[1..].iter().take_while(|byte| byte.is_ascii_hexdigit()).count();
                let value = rest[1..=digits].iter().fold(0u8, |value, digit| {
                    let digit = (*digit as char).to_digit(16).unwrap_or(0) as u8;
                    value.wrapping_mul(16).wrapping_add(digit)
                });
                (value, 1 + digits)
            }
            _ if octal > 0 => (
                rest[..octal].iter().fold(0u8, |value, byte| value.wrapping_mul(8).wrapping_add(byte - b'0')),
                octal,
            ),
            other => (other, 1),
        };
        out.push(byte);
        at += 1 + length;
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(text: &str) -> Vec<String> {
        let mut lexer = Lexer::new(text, None);
        std::iter::from_fn(|| lexer.next()).map(|token| token.text.to_string()).collect()
    }

    #[test]
    fn tokens_are_as_c_has_them() {
        assert_eq!(
            texts("a/*b\n*/+=0x1fUL<<'\\''\"x\\\"y\"...1.5e+3"),
            ["a", "+=", "0x1fUL", "<<", "'\\''", "\"x\\\"y\"", "...", "1.5e+3"]
        );
        assert_eq!(texts("a\\\nb // c\nd"), ["a", "b", "d"]);
        assert_eq!(texts("\"open"), ["\"open"]);
    }

    #[test]
    fn tokens_know_what_stands_before_them() {
        let mut lexer = Lexer::new("a (\n#b/**/c", None);
        lexer.next();
        assert!(!lexer.is_at_line_end());
        let marks: Vec<(bool, bool)> =
            std::iter::from_fn(|| lexer.next()).map(|token| (token.is_apart, token.begins_line)).collect();
        assert_eq!(marks, [(true, false), (true, true), (false, false), (true, false)]);
    }

    #[test]
    fn integers_have_their_radix() {
        for (text, want) in [
            ("10", Some(10)),
            ("010", Some(8)),
            ("0x10ULL", Some(16)),
            ("0b11", Some(3)),
            ("0", Some(0)),
            ("08", None),
            ("1.5", None),
        ] {
            assert_eq!(integer(text), want, "{text}");
        }
    }

    #[test]
    fn escapes_are_bytes() {
        assert_eq!(unquoted("\"a\\n\\x41\\101\\\\\""), b"a\nAA\\");
        assert_eq!(unquoted("'"), b"");
    }
}
