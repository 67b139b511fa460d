//! JSON (RFC 8259) whose objects keep their order: text → [`Json`] → text.
//!
//! CTF 2 maps labels to values with objects, and readers show labels in the order in which they stand, so no sorted map will do. Integers
//! are whole numbers of any size up to 127 bits; names of an object are there once.
//!
//! Guaranteed: an error knows the byte; depth and number of values are within [`crate::limits`], so that a hostile text costs no more memory
//! than they allow.

use std::fmt::Write as _;

use crate::ctf2::Fault;
use crate::limits::{JSON_DEPTH_MAX, JSON_VALUES_MAX};

#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Json {
    Null,
    Bool(bool),
    Int(i128),
    /// Anything else that is a number.
    Real(f64),
    Text(String),
    List(Vec<Json>),
    Object(Vec<(String, Json)>),
}

impl Json {
    /// The value that the text is.
    pub(crate) fn parse(text: &str) -> Result<Json, Fault> {
        let mut parser = Parser { text, at: 0, depth: 0, values: 0 };
        let value = parser.value()?;
        parser.space();
        match parser.rest().is_empty() {
            true => Ok(value),
            false => Err(parser.wrong("something stands behind the value")),
        }
    }

    /// A member of an object.
    pub(crate) fn get(&self, name: &str) -> Option<&Json> {
        self.members().iter().find(|(known, _)| known == name).map(|(_, value)| value)
    }

    /// Those of an object, in their order.
    pub(crate) fn members(&self) -> &[(String, Json)] {
        if let Json::Object(members) = self { members } else { &[] }
    }

    pub(crate) fn object<'n>(members: impl IntoIterator<Item = (&'n str, Json)>) -> Json {
        Json::Object(members.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
    }

    /// Adds a member to an object.
    pub(crate) fn push(&mut self, name: &str, value: Json) {
        if let Json::Object(members) = self {
            members.push((name.to_owned(), value));
        }
    }

    /// Adds the text, on one line.
    pub(crate) fn write(&self, out: &mut String) {
        // Writing to memory does not fail.
        let _ = match self {
            Json::Null => write!(out, "null"),
            Json::Bool(value) => write!(out, "{value}"),
            Json::Int(value) => write!(out, "{value}"),
            Json::Real(value) => write!(out, "{value:?}"),
            Json::Text(text) => {
                quote(text, out);
                Ok(())
            }
            Json::List(values) => {
                out.push('[');
                for (index, value) in values.iter().enumerate() {
                    out.push_str(if index > 0 { "," } else { "" });
                    value.write(out);
                }
                write!(out, "]")
            }
            Json::Object(members) => {
                out.push('{');
                for (index, (name, value)) in members.iter().enumerate() {
                    out.push_str(if index > 0 { "," } else { "" });
                    quote(name, out);
                    out.push(':');
                    value.write(out);
                }
                write!(out, "}}")
            }
        };
    }
}

impl From<&str> for Json {
    fn from(text: &str) -> Json {
        Json::Text(text.to_owned())
    }
}

macro_rules! from_integers {
    ($($of:ty)*) => {
        $(impl From<$of> for Json {
            fn from(value: $of) -> Json {
                Json::Int(value.into())
            }
        })*
    };
}
from_integers!(u8 u32 u64 i64 i128);

impl FromIterator<Json> for Json {
    fn from_iter<I: IntoIterator<Item = Json>>(values: I) -> Json {
        Json::List(values.into_iter().collect())
    }
}

fn quote(text: &str, out: &mut String) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            '\n' => out.push_str("\\n"),
            c if c < ' ' => {
                let _ = write!(out, "\\u{:04x}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out.push('"');
}

struct Parser<'t> {
    text: &'t str,
    at: usize,
    depth: usize,
    values: usize,
}

impl<'t> Parser<'t> {
    fn rest(&self) -> &'t str {
        &self.text[self.at..]
    }

    fn wrong(&self, message: impl Into<String>) -> Fault {
        Fault { offset: self.at, message: message.into() }
    }

    fn space(&mut self) {
        let rest = self.rest().trim_start_matches([' ', '\t', '\n', '\r']);
        self.at = self.text.len() - rest.len();
    }

    /// Goes over these characters, if they are next.
    fn eat(&mut self, token: &str) -> bool {
        let is_next = self.rest().starts_with(token);
        self.at += if is_next { token.len() } else { 0 };
        is_next
    }

    fn value(&mut self) -> Result<Json, Fault> {
        self.space();
        self.values += 1;
        if self.values > JSON_VALUES_MAX {
            return Err(self.wrong(format!("more than {JSON_VALUES_MAX} values in one fragment")));
        }
        match self.rest().bytes().next() {
            Some(b'"') => self.string().map(Json::Text),
            Some(b'[') => self.nested(Parser::list),
            Some(b'{') => self.nested(Parser::object),
            Some(b'-' | b'0'..=b'9') => self.number(),
            Some(_) if self.eat("null") => Ok(Json::Null),
            Some(_) if self.eat("true") => Ok(Json::Bool(true)),
            Some(_) if self.eat("false") => Ok(Json::Bool(false)),
            Some(_) => Err(self.wrong("no value begins like this")),
            None => Err(self.wrong("a value is expected here, not the end")),
        }
    }

    /// What stands in brackets, the first of which is next.
    fn nested(&mut self, read: fn(&mut Self) -> Result<Json, Fault>) -> Result<Json, Fault> {
        if self.depth >= JSON_DEPTH_MAX {
            let text = format!("lists and objects stand in one another more than {JSON_DEPTH_MAX} deep");
            return Err(self.wrong(text));
        }
        self.depth += 1;
        self.at += 1;
        let value = read(self)?;
        self.depth -= 1;
        Ok(value)
    }

    fn list(&mut self) -> Result<Json, Fault> {
        let mut values = Vec::new();
        self.space();
        if self.eat("]") {
            return Ok(Json::List(values));
        }
        loop {
            values.push(self.value()?);
            self.space();
            if self.eat("]") {
                return Ok(Json::List(values));
            }
            if !self.eat(",") {
                return Err(self.wrong("a comma or ] is expected here"));
            }
        }
    }

    fn object(&mut self) -> Result<Json, Fault> {
        let begin = self.at;
        let mut members: Vec<(String, Json)> = Vec::new();
        self.space();
        let mut is_over = self.eat("}");
        while !is_over {
            self.space();
            if !self.rest().starts_with('"') {
                return Err(self.wrong("a name is expected here"));
            }
            let name = self.string()?;
            self.space();
            if !self.eat(":") {
                return Err(self.wrong("a colon is expected here"));
            }
            let value = self.value()?;
            members.push((name, value));
            self.space();
            is_over = self.eat("}");
            if !is_over && !self.eat(",") {
                return Err(self.wrong("a comma or } is expected here"));
            }
        }
        let mut names: Vec<&str> = members.iter().map(|(name, _)| name.as_str()).collect();
        names.sort_unstable();
        match names.windows(2).find(|pair| pair[0] == pair[1]) {
            Some(pair) => {
                let message = format!("an object has two members {:?}", pair[0]);
                Err(Fault { offset: begin, message })
            }
            None => Ok(Json::Object(members)),
        }
    }

    fn number(&mut self) -> Result<Json, Fault> {
        let begin = self.at;
        let digits = |parser: &mut Self| {
            let rest = parser.rest().trim_start_matches(|c: char| c.is_ascii_digit());
            let count = parser.rest().len() - rest.len();
            parser.at += count;
            count
        };
        self.eat("-");
        let has_zero = self.rest().starts_with('0');
        let count = digits(self);
        let mut is_sound = count == 1 || count > 1 && !has_zero;
        let mut is_whole = true;
        if self.eat(".") {
            is_whole = false;
            is_sound &= digits(self) > 0;
        }
        if self.eat("e") || self.eat("E") {
            is_whole = false;
            let _ = self.eat("+") || self.eat("-");
            is_sound &= digits(self) > 0;
        }
        let text = &self.text[begin..self.at];
        let whole = text.parse().ok().filter(|_| is_whole && text != "-0").map(Json::Int);
        let value =
            whole.or_else(|| text.parse().ok().filter(|value: &f64| value.is_finite()).map(Json::Real));
        value
            .filter(|_| is_sound)
            .ok_or_else(|| Fault { offset: begin, message: format!("{text} is no number") })
    }

    fn string(&mut self) -> Result<String, Fault> {
        let begin = self.at;
        self.at += 1;
        let mut text = String::new();
        loop {
            let rest = self.rest();
            let plain = rest.find(|c: char| c == '"' || c == '\\' || c < ' ');
            let Some(plain) = plain else {
                return Err(Fault { offset: begin, message: "a string that does not end".to_owned() });
            };
            text.push_str(&rest[..plain]);
            self.at += plain;
            if self.eat("\"") {
                return Ok(text);
            }
            if !self.eat("\\") {
                return Err(self.wrong("a control character in a string"));
            }
            text.push(self.escaped()?);
        }
    }

    /// What stands for another character, behind its backslash.
    fn escaped(&mut self) -> Result<char, Fault> {
        const SHORT: [(&str, char); 8] = [
            ("\"", '"'),
            ("\\", '\\'),
            ("/", '/'),
            ("b", '\u{8}'),
            ("f", '\u{c}'),
            ("n", '\n'),
            ("r", '\r'),
            ("t", '\t'),
        ];
        if let Some((_, c)) = SHORT.iter().find(|(token, _)| self.rest().starts_with(token)) {
            self.at += 1;
            return Ok(*c);
        }
        let begin = self.at;
        let first = self.unit()?;
        let second = match first {
            0xd800..0xdc00 if self.eat("\\") => Some(self.unit()?),
            _ => None,
        };
        let mut characters = char::decode_utf16(std::iter::once(first).chain(second));
        match (characters.next(), characters.next()) {
            (Some(Ok(c)), None) => Ok(c),
            _ => Err(Fault { offset: begin, message: "half a character".to_owned() }),
        }
    }

    /// `u` and four digits.
    fn unit(&mut self) -> Result<u16, Fault> {
        let digits = self.rest().strip_prefix('u').and_then(|rest| rest.get(..4));
        let unit = digits.filter(|digits| digits.bytes().all(|digit| digit.is_ascii_hexdigit()));
        let unit = unit.and_then(|digits| u16::from_str_radix(digits, 16).ok());
        let unit = unit.ok_or_else(|| self.wrong("no character is escaped like this"))?;
        self.at += 5;
        Ok(unit)
    }
}

#[cfg(test)]
mod tests {
    use testkit::random;

    use super::*;

    /// The judge may be off by the last digit.
    fn is_near(ours: f64, theirs: &serde_json::Number) -> bool {
        theirs.as_f64().is_some_and(|theirs| (ours - theirs).abs() <= ours.abs() * 1e-15)
    }

    /// The same value as the judge's.
    fn is_same(ours: &Json, theirs: &serde_json::Value) -> bool {
        use serde_json::Value;
        match (ours, theirs) {
            (Json::Null, Value::Null) => true,
            (Json::Bool(ours), Value::Bool(theirs)) => ours == theirs,
            (Json::Int(ours), Value::Number(theirs)) => match theirs.as_i128() {
                Some(theirs) => *ours == theirs,
                // The judge has no whole numbers of more than 64 bits.
                None => is_near(*ours as f64, theirs),
            },
            (Json::Real(ours), Value::Number(theirs)) => is_near(*ours, theirs),
            (Json::Text(ours), Value::String(theirs)) => ours == theirs,
            (Json::List(ours), Value::Array(theirs)) => {
                ours.len() == theirs.len()
                    && ours.iter().zip(theirs).all(|(ours, theirs)| is_same(ours, theirs))
            }
            (Json::Object(ours), Value::Object(theirs)) => {
                ours.len() == theirs.len()
                    && ours
                        .iter()
                        .all(|(name, ours)| theirs.get(name).is_some_and(|theirs| is_same(ours, theirs)))
            }
            _ => false,
        }
    }

    const TEXTS: [&str; 5] = [
        r#"{"type":"structure","a":[[0,-12],[18446744073709551615,1]],"b":{"c":null,"":true},"d":false}"#,
        r#"  [ 1.5e3 , -0.25, 1E-2, -0, 0 , 123456789012345678901234567890 ] "#,
        r#""\u00e9\ud83d\ude00\"\\\/\b\f\n\r\t ä""#,
        "{\n\t\"x\" : [ ]\r\n,\"y\":{ } }",
        r#"[[[[{"a":{"a":{"a":[]}}}]]],"e","tru"]"#,
    ];

    #[test]
    fn texts_are_read_as_the_judge_reads_them() {
        let mut state = 12;
        let (mut taken, mut refused) = (0, 0);
        for round in 0..20_000 {
            let mut text: Vec<char> = TEXTS[round % TEXTS.len()].chars().collect();
            if round >= TEXTS.len() {
                for _ in 0..1 + random::next(&mut state) % 2 {
                    let at = random::next(&mut state) as usize % text.len();
                    let new = "{}[],:\"\\u0e-+.1 tx\u{1}".chars().nth(random::next(&mut state) as usize % 19);
                    match (random::next(&mut state) % 3, new) {
                        (0, Some(new)) => text[at] = new,
                        (1, Some(new)) => text.insert(at, new),
                        _ => drop(text.remove(at)),
                    }
                }
            }
            let text: String = text.into_iter().collect();
            match (Json::parse(&text), serde_json::from_str::<serde_json::Value>(&text)) {
                (Ok(ours), Ok(theirs)) => {
                    assert!(is_same(&ours, &theirs), "{text}: {ours:?}");
                    let mut again = String::new();
                    ours.write(&mut again);
                    assert_eq!(Json::parse(&again), Ok(ours), "{text}");
                    taken += 1;
                }
                (Err(_), Err(_)) => refused += 1,
                // It takes the last of them.
                (Err(fault), Ok(_)) if fault.message.contains("two members") => {}
                (ours, theirs) => panic!("{text}: {ours:?}, {theirs:?}"),
            }
        }
        assert!(taken > 2_000 && refused > 2_000, "{taken} taken, {refused} refused");
    }

    #[test]
    fn errors_know_their_place() {
        let check = |text: &str, offset: usize, message: &str| {
            let fault = Json::parse(text).unwrap_err();
            assert!(fault.offset == offset && fault.message.contains(message), "{text}: {fault:?}");
        };
        check("[1, 2", 5, "a comma or ]");
        check(r#"{"a": 1, "b": 2, "a": 3}"#, 1, "two members \"a\"");
        check("[01]", 1, "01 is no number");
        check("[1, \"ab", 4, "does not end");
        check(r#""\ud800""#, 2, "half a character");
        check(&"[".repeat(200), JSON_DEPTH_MAX, "deep");
        check("1 2", 2, "behind the value");
        check(&format!("[{}0]", "0,".repeat(JSON_VALUES_MAX)), 2 * (JSON_VALUES_MAX - 1) + 1, "more than");
    }
}
