//! Text of TSDL → tokens, one at a time.
//!
//! Comments are C's, of both kinds. Keywords are identifiers here: which they are depends on where they stand.

use super::Fault;

#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Token<'t> {
    Name(&'t str),
    /// Without its sign.
    Int(u64),
    Str(String),
    /// `:=`, `...` and `->` are one.
    Mark(&'static str),
    End,
}

#[derive(Clone, Debug)]
pub(crate) struct Lexer<'t> {
    text: &'t str,
    at: usize,
}

/// The longer first.
const MARKS: [&str; 20] =
    ["...", ":=", "->", "[", "]", "(", ")", "{", "}", ".", "*", "+", "-", "<", ">", ":", ";", "=", ",", "'"];

impl<'t> Lexer<'t> {
    pub(crate) fn new(text: &'t str) -> Lexer<'t> {
        Lexer { text, at: 0 }
    }

    /// The next token, and where it begins.
    pub(crate) fn next(&mut self) -> Result<(Token<'t>, usize), Fault> {
        self.skip()?;
        let begin = self.at;
        let rest = &self.text[begin..];
        let Some(first) = rest.chars().next() else { return Ok((Token::End, begin)) };
        if first == '"' || rest.starts_with("L\"") {
            self.at += rest.find('"').unwrap_or(0) + 1;
            return Ok((Token::Str(self.string(begin)?), begin));
        }
        if first.is_ascii_digit() {
            return Ok((self.int()?, begin));
        }
        if first == '_' || first.is_ascii_alphabetic() {
            let end = rest.find(|c: char| c != '_' && !c.is_ascii_alphanumeric()).unwrap_or(rest.len());
            self.at += end;
            return Ok((Token::Name(&rest[..end]), begin));
        }
        if let Some(mark) = MARKS.into_iter().find(|mark| rest.starts_with(mark)) {
            self.at += mark.len();
            return Ok((Token::Mark(mark), begin));
        }
        Err(Fault::new(begin, format!("{first:?} begins nothing")))
    }

    fn skip(&mut self) -> Result<(), Fault> {
        loop {
            let rest = &self.text[self.at..];
            let blank = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_whitespace()).len();
            self.at += blank;
            let rest = &self.text[self.at..];
            if let Some(comment) = rest.strip_prefix("/*") {
                let end = comment.find("*/").ok_or_else(|| Fault::new(self.at, "this comment has no end"))?;
                self.at += 2 + end + 2;
            } else if rest.starts_with("//") {
                self.at += rest.find('\n').unwrap_or(rest.len());
            } else {
                return Ok(());
            }
        }
    }

    fn int(&mut self) -> Result<Token<'t>, Fault> {
        let begin = self.at;
        let rest = &self.text[begin..];
        let end = rest.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(rest.len());
        self.at += end;
        let written = &rest[..end];
        let lower = written.to_ascii_lowercase();
        let (digits, radix) = match lower.strip_prefix("0x") {
            Some(digits) => (digits, 16),
            None if lower.len() > 1 && lower.starts_with('0') => (&lower[1..], 8),
            None => (&lower[..], 10),
        };
        let digits = digits.trim_end_matches(['u', 'l']);
        // Octal's 0 may be followed by a suffix alone.
        let digits = if digits.is_empty() && radix == 8 { "0" } else { digits };
        u64::from_str_radix(digits, radix)
            .map(Token::Int)
            .map_err(|_| Fault::new(begin, format!("{written} is no integer of at most 64 bits")))
    }

    /// What follows the opening quote.
    fn string(&mut self, begin: usize) -> Result<String, Fault> {
        let no_end = || Fault::new(begin, "this string has no end on its line");
        let mut text = String::new();
        loop {
            let c = self.char().ok_or_else(no_end)?;
            match c {
                '"' => return Ok(text),
                '\n' => return Err(no_end()),
                '\\' => text.push(self.escape(begin)?),
                c => text.push(c),
            }
        }
    }

    fn char(&mut self) -> Option<char> {
        let c = self.text[self.at..].chars().next()?;
        self.at += c.len_utf8();
        Some(c)
    }

    fn escape(&mut self, begin: usize) -> Result<char, Fault> {
        let wrong =
            |what: &str| Fault::new(begin, format!("this string has an escape that is none: \\{what}"));
        let c = self.char().ok_or_else(|| wrong(""))?;
        Ok(match c {
            'a' => '\x07',
            'b' => '\x08',
            'f' => '\x0c',
            'n' => '\n',
            'r' => '\r',
            't' => '\t',
            'v' => '\x0b',
            '\'' | '"' | '?' | '\\' => c,
            'x' => self.coded(16, 2).ok_or_else(|| wrong("x"))?,
            'u' => self.coded(16, 4).ok_or_else(|| wrong("u"))?,
            'U' => self.coded(16, 8).ok_or_else(|| wrong("U"))?,
            '0'..='7' => {
                self.at -= 1;
                self.coded(8, 3).ok_or_else(|| wrong("0"))?
            }
            other => return Err(wrong(&other.to_string())),
        })
    }

    /// The character of up to so many digits.
    fn coded(&mut self, radix: u32, digits_max: usize) -> Option<char> {
        let rest = &self.text[self.at..];
        let digits =
            rest.bytes().take(digits_max).take_while(|byte| char::from(*byte).is_digit(radix)).count();
        let code = u32::from_str_radix(&rest[..digits], radix).ok()?;
        self.at += digits;
        char::from_u32(code)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tokens(text: &str) -> Result<Vec<Token<'_>>, Fault> {
        let mut lexer = Lexer::new(text);
        let mut tokens = Vec::new();
        loop {
            match lexer.next()?.0 {
                Token::End => return Ok(tokens),
                token => tokens.push(token),
            }
        }
    }

    #[track_caller]
    fn check(text: &str, expected: &[Token<'_>]) {
        assert_eq!(tokens(text).as_deref(), Ok(expected), "{text}");
    }

    #[test]
    fn numbers_are_c_s() {
        let ints = [0, 8, 255, 8, u64::MAX].map(Token::Int);
        check("0 8UL 0xfF 010 18446744073709551615ull", &ints);
        assert!(tokens("18446744073709551616").is_err());
        assert!(tokens("08").is_err());
        assert!(tokens("1x").is_err());
    }

    #[test]
    fn comments_and_marks_are_c_s() {
        use Token::{Mark, Name};
        check("a/* b */:=//c\n...", &[Name("a"), Mark(":="), Mark("...")]);
        assert_eq!(tokens("x /* y").unwrap_err().offset, 2);
    }

    #[test]
    fn strings_have_c_s_escapes() {
        check(r#""a\"\n\x41\101" L"é""#, &[Token::Str("a\"\nAA".into()), Token::Str("é".into())]);
        for wrong in ["\"a\n\"", "\"a", r#""\q""#, "§"] {
            assert!(tokens(wrong).is_err(), "{wrong}");
        }
    }
}
