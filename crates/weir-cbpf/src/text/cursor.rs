//! A place in a text that is being read, and what it says of itself in errors.

use crate::text::Error;

/// What is between here and the end of `text` is not read yet.
pub(super) struct Cursor<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Cursor<'a> {
    pub(super) fn new(text: &'a str) -> Cursor<'a> {
        Cursor { text, at: 0 }
    }

    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    fn skip_while(&mut self, is_skipped: impl Fn(char) -> bool) -> &'a str {
        let rest = self.rest();
        let taken = &rest[..rest.find(|c| !is_skipped(c)).unwrap_or(rest.len())];
        self.at += taken.len();
        taken
    }

    /// Past blanks on this line.
    pub(super) fn skip_blanks(&mut self) {
        self.skip_while(|c| c == ' ' || c == '\t' || c == '\r');
    }

    /// Past blanks and line ends.
    pub(super) fn skip_space(&mut self) {
        self.skip_while(char::is_whitespace);
    }

    pub(super) fn is_at_end(&self) -> bool {
        self.rest().is_empty()
    }

    pub(super) fn is_at_line_end(&self) -> bool {
        self.is_at_end() || self.rest().starts_with('\n')
    }

    /// Past `word`, if it stands here.
    pub(super) fn take(&mut self, word: &str) -> bool {
        let is_here = self.rest().starts_with(word);
        if is_here {
            self.at += word.len();
        }
        is_here
    }

    /// Past blanks, and `word`, which must stand here.
    pub(super) fn expect(&mut self, word: &str) -> Result<(), Error> {
        self.skip_blanks();
        if self.take(word) { Ok(()) } else { Err(self.error(format!("`{word}`"))) }
    }

    /// Past blanks, and letters, digits and `_`, of which there is at least one.
    pub(super) fn word(&mut self, expected: &str) -> Result<&'a str, Error> {
        self.skip_blanks();
        match self.skip_while(|c| c.is_ascii_alphanumeric() || c == '_') {
            "" => Err(self.error(expected)),
            word => Ok(word),
        }
    }

    /// Past blanks, and a number (decimal, or hexadecimal after `0x`) from `least` to `most`.
    pub(super) fn number(&mut self, what: &str, least: i64, most: i64) -> Result<i64, Error> {
        self.skip_blanks();
        let begin = self.at;
        let is_negative = self.take("-");
        let is_hexadecimal = self.take("0x");
        let digits = self.skip_while(|c| c.is_ascii_alphanumeric());
        let parsed = i64::from_str_radix(digits, if is_hexadecimal { 16 } else { 10 });
        let value = parsed.ok().map(|value| if is_negative { -value } else { value });
        match value.filter(|value| (least..=most).contains(value)) {
            Some(value) => Ok(value),
            None => {
                self.at = begin;
                Err(self.error(format!("{what}, a number from {least} to {most}")))
            }
        }
    }

    /// What stands here is not what should.
    pub(super) fn error(&self, expected: impl Into<String>) -> Error {
        self.error_at(self.at, expected)
    }

    /// Where the cursor is, for [`error_at`](Cursor::error_at).
    pub(super) fn offset(&self) -> usize {
        self.at
    }

    pub(super) fn error_at(&self, offset: usize, expected: impl Into<String>) -> Error {
        let before = &self.text[..offset];
        let line_begin = before.rfind('\n').map_or(0, |at| at + 1);
        Error {
            line: before.matches('\n').count() + 1,
            column: before[line_begin..].chars().count() + 1,
            given: given(&self.text[offset..]),
            expected: expected.into(),
        }
    }
}

/// The word that a text begins with, for a message.
fn given(rest: &str) -> String {
    const CHARACTERS_MAX: usize = 24;
    match rest.chars().next() {
        None => return "the text ends".into(),
        Some('\n' | '\r') => return "the line ends".into(),
        Some(_) => {}
    }
    let is_part = |c: char| !c.is_whitespace() && !matches!(c, ',' | '{' | '}' | '(' | ')' | '[' | ']');
    let word: String = rest.chars().take_while(|c| is_part(*c)).take(CHARACTERS_MAX).collect();
    let word = if word.is_empty() { rest.chars().take(1).collect() } else { word };
    format!("`{}`", word.escape_debug())
}
