//! One line of assembly text as tokens, and taking them one by one.

use crate::asm::parse::{Register, Result, as_register};

/// The tokens of one line and how many were taken.
pub(super) struct Line {
    tokens: Vec<Token>,
    pub(super) next: usize,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Token {
    Word(String),
    Quoted(String),
    Number(u64),
    Punct(&'static str),
}

impl std::fmt::Display for Token {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Token::Word(word) => write!(out, "`{word}`"),
            Token::Quoted(text) => write!(out, "{text:?}"),
            Token::Number(number) => write!(out, "`{number:#x}`"),
            Token::Punct(text) => write!(out, "`{text}`"),
        }
    }
}

impl Line {
    /// Splits a line; a comment ends it.
    pub(super) fn of(text: &str) -> Result<Line> {
        Ok(Line { tokens: tokens(text)?, next: 0 })
    }

    pub(super) fn peek(&self) -> Option<&Token> {
        self.tokens.get(self.next)
    }

    pub(super) fn peek_at(&self, ahead: usize) -> Option<&Token> {
        self.tokens.get(self.next + ahead)
    }

    pub(super) fn at_end(&self) -> bool {
        self.next >= self.tokens.len()
    }

    pub(super) fn advance(&mut self, wanted: &str) -> Result<Token> {
        let token = self.peek().cloned().ok_or_else(|| format!("the line ends where {wanted} should be"))?;
        self.next += 1;
        Ok(token)
    }

    pub(super) fn end(&self) -> Result<()> {
        self.peek().map_or(Ok(()), |token| Err(format!("{token} is left over at the end of the line")))
    }

    pub(super) fn is_word(&self, word: &str) -> bool {
        matches!(self.peek(), Some(Token::Word(found)) if found == word)
    }

    pub(super) fn take_word(&mut self, word: &str) -> bool {
        let found = self.is_word(word);
        self.next += usize::from(found);
        found
    }

    pub(super) fn take_punct(&mut self, punct: &str) -> bool {
        let found = matches!(self.peek(), Some(Token::Punct(text)) if *text == punct);
        self.next += usize::from(found);
        found
    }

    pub(super) fn word(&mut self, word: &str) -> Result<()> {
        if self.take_word(word) { Ok(()) } else { Err(self.instead_of(&format!("`{word}`"))) }
    }

    pub(super) fn punct(&mut self, punct: &str) -> Result<()> {
        if self.take_punct(punct) { Ok(()) } else { Err(self.instead_of(&format!("`{punct}`"))) }
    }

    pub(super) fn instead_of(&self, wanted: &str) -> String {
        match self.peek() {
            Some(token) => format!("{token} where {wanted} should be"),
            None => format!("the line ends where {wanted} should be"),
        }
    }

    pub(super) fn any_word(&mut self, wanted: &str) -> Result<String> {
        match self.advance(wanted)? {
            Token::Word(word) => Ok(word),
            other => Err(format!("{other} where {wanted} should be")),
        }
    }

    /// A word or a quoted text.
    pub(super) fn name(&mut self) -> Result<String> {
        match self.advance("a name")? {
            Token::Word(name) | Token::Quoted(name) => Ok(name),
            other => Err(format!("{other} where a name should be")),
        }
    }

    pub(super) fn register(&mut self) -> Result<Register> {
        let word = self.any_word("a register")?;
        as_register(&word).ok_or_else(|| format!("`{word}` is no register (r0 to r10, w0 to w10)"))
    }

    /// An operator, with the `s` before a signed one.
    pub(super) fn operator(&mut self) -> Result<String> {
        let signed = self.take_word("s");
        match self.advance("an operator")? {
            Token::Punct(text) if signed => Ok(format!("s{text}")),
            Token::Punct(text) => Ok(text.to_owned()),
            other => Err(format!("{other} where an operator should be")),
        }
    }

    pub(super) fn unsigned(&mut self, wanted: &str) -> Result<u64> {
        match self.advance(wanted)? {
            Token::Number(number) => Ok(number),
            other => Err(format!("{other} where {wanted} should be")),
        }
    }

    pub(super) fn signed(&mut self, wanted: &str) -> Result<i128> {
        // `+ -8` is what older tools write for an offset of −8.
        self.take_punct("+");
        let negative = self.take_punct("-");
        let magnitude = i128::from(self.unsigned(wanted)?);
        Ok(if negative { -magnitude } else { magnitude })
    }

    /// `key 8`.
    pub(super) fn field(&mut self, name: &str) -> Result<u32> {
        self.word(name)?;
        let value = self.unsigned("a number")?;
        u32::try_from(value).map_err(|_| format!("{name} {value} does not fit in 32 bits"))
    }
}

/// Punctuation, longer before its own beginnings.
const PUNCTUATION: &[&str] = &[
    "<<=", ">>=", "+=", "-=", "*=", "/=", "|=", "&=", "%=", "^=", "==", "!=", ">=", "<=", "=", ">", "<", "&",
    "*", "(", ")", "[", "]", "+", "-", ",", ":", "#",
];

fn tokens(line: &str) -> Result<Vec<Token>> {
    let mut tokens = Vec::new();
    let mut rest = line.trim_start();
    while let Some(first) = rest.chars().next() {
        if first == ';' || rest.starts_with("//") {
            break;
        }
        let taken = if first == '"' {
            let (text, taken) = quoted(rest)?;
            tokens.push(Token::Quoted(text));
            taken
        } else if first.is_ascii_digit() {
            let taken = rest.find(|char: char| !char.is_ascii_alphanumeric()).unwrap_or(rest.len());
            tokens.push(Token::Number(number(&rest[..taken])?));
            taken
        } else if first.is_ascii_alphabetic() || "_@$.".contains(first) {
            let in_word = |char: char| char.is_ascii_alphanumeric() || "_@$.".contains(char);
            let taken = rest.find(|char| !in_word(char)).unwrap_or(rest.len());
            tokens.push(Token::Word(rest[..taken].to_owned()));
            taken
        } else {
            let punct = PUNCTUATION.iter().find(|punct| rest.starts_with(**punct));
            let punct = punct.ok_or_else(|| format!("the character {first:?} has no meaning"))?;
            tokens.push(Token::Punct(punct));
            punct.len()
        };
        rest = rest[taken..].trim_start();
    }
    Ok(tokens)
}

fn number(text: &str) -> Result<u64> {
    let value = match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16),
        None => text.parse(),
    };
    value.map_err(|_| format!("`{text}` is no number of 64 bits"))
}

/// The text between quotes, and how many bytes of the line it took.
fn quoted(line: &str) -> Result<(String, usize)> {
    let mut text = String::new();
    let mut chars = line.char_indices().skip(1);
    while let Some((at, char)) = chars.next() {
        match char {
            '"' => return Ok((text, at + 1)),
            '\\' => match chars.next() {
                Some((_, escaped @ ('"' | '\\'))) => text.push(escaped),
                Some((_, 'u')) => {
                    let digits: String =
                        chars.by_ref().map(|(_, char)| char).take_while(|char| *char != '}').collect();
                    let code =
                        digits.strip_prefix('{').and_then(|digits| u32::from_str_radix(digits, 16).ok());
                    let char = code.and_then(char::from_u32);
                    text.push(char.ok_or("`\\u{…}` needs the number of a character")?);
                }
                _ => return Err("a backslash in quotes comes before `\"`, `\\` or `u{…}`".into()),
            },
            char => text.push(char),
        }
    }
    Err("the quotes do not end".into())
}
