//! Text → tokens, each with its line. Knows the shapes of words, not their meaning.

use super::ParseError;

#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Token {
    /// Letters, digits and `_`, beginning with a letter or `_`: also `v0`, `b1`, `str16`.
    Word(String),
    /// `@` and letters, digits and `_`.
    Map(String),
    Text(String),
    /// A whole number, within i64 or u64.
    Number(i128),
    Punct(char),
}

/// The tokens of `text` with their line numbers.
pub(super) fn scan(text: &str) -> Result<Vec<(Token, u32)>, ParseError> {
    let mut scanner = Scanner { rest: text, line: 1 };
    let mut tokens = Vec::new();
    while let Some(first) = scanner.skip_space() {
        let line = scanner.line;
        tokens.push((scanner.token(first)?, line));
    }
    Ok(tokens)
}

struct Scanner<'a> {
    rest: &'a str,
    line: u32,
}

impl<'a> Scanner<'a> {
    /// Skips spaces, line ends and comments; the next character, not taken.
    fn skip_space(&mut self) -> Option<char> {
        loop {
            match self.rest.chars().next()? {
                ';' => {
                    self.take_while(|c| c != '\n');
                }
                c if c.is_whitespace() => {
                    self.take();
                }
                c => return Some(c),
            }
        }
    }

    fn token(&mut self, first: char) -> Result<Token, ParseError> {
        match first {
            '"' => self.text(),
            '@' => {
                self.take();
                Ok(Token::Map(format!("@{}", self.take_while(is_word))))
            }
            '-' | '0'..='9' => {
                let sign = if first == '-' { self.take().map_or("", |_| "-") } else { "" };
                let digits = self.take_while(|c| c.is_ascii_alphanumeric());
                let number = format!("{sign}{digits}").parse::<i128>().ok();
                let fits = |number: &i128| (i128::from(i64::MIN)..=i128::from(u64::MAX)).contains(number);
                number
                    .filter(fits)
                    .map(Token::Number)
                    .ok_or_else(|| self.error(format!("{sign}{digits} is not a 64-bit whole number")))
            }
            c if c.is_ascii_alphabetic() || c == '_' => Ok(Token::Word(self.take_while(is_word).to_string())),
            '(' | ')' | '[' | ']' | '{' | '}' | ':' | ',' | '=' | '#' => {
                self.take();
                Ok(Token::Punct(first))
            }
            other => Err(self.error(format!("unexpected {other:?}"))),
        }
    }

    fn text(&mut self) -> Result<Token, ParseError> {
        self.take();
        let mut text = String::new();
        loop {
            match self.take() {
                Some('"') => return Ok(Token::Text(text)),
                Some('\\') => text.push(self.escape()?),
                Some('\n') | None => return Err(self.error("text without a closing quote")),
                Some(c) => text.push(c),
            }
        }
    }

    fn escape(&mut self) -> Result<char, ParseError> {
        match self.take() {
            Some(c @ ('"' | '\\')) => Ok(c),
            Some('n') => Ok('\n'),
            Some('t') => Ok('\t'),
            Some('u') if self.rest.starts_with('{') => {
                self.take();
                let digits = self.take_while(|c| c.is_ascii_hexdigit());
                let c = u32::from_str_radix(digits, 16).ok().and_then(char::from_u32);
                match (c, self.take()) {
                    (Some(c), Some('}')) => Ok(c),
                    _ => Err(self.error("\\u{…} that is no character")),
                }
            }
            _ => Err(self.error("an unknown escape in text")),
        }
    }

    fn take(&mut self) -> Option<char> {
        let c = self.rest.chars().next()?;
        self.rest = &self.rest[c.len_utf8()..];
        self.line += u32::from(c == '\n');
        Some(c)
    }

    fn take_while(&mut self, keep: impl Fn(char) -> bool) -> &'a str {
        let end = self.rest.find(|c| !keep(c)).unwrap_or(self.rest.len());
        let (taken, rest) = self.rest.split_at(end);
        self.rest = rest;
        taken
    }

    fn error(&self, message: impl Into<String>) -> ParseError {
        ParseError { line: self.line, message: message.into() }
    }
}

fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}
