//! Bytes of a metadata file → its text → tokens (CTF 1.8.3, sections 7.1 and C.1).

use super::{Fault, Place, Rule, fault};

#[derive(Clone, PartialEq, Debug)]
pub(super) struct Token {
    pub(super) kind: Kind,
    pub(super) line: u32,
}

#[derive(Clone, PartialEq, Debug)]
pub(super) enum Kind {
    /// A keyword or an identifier.
    Word(String),
    Int(u64),
    Text(String),
    Mark(&'static str),
    End,
}

/// Section C.1.2.
pub(super) const KEYWORDS: [&str; 28] = [
    "align",
    "callsite",
    "const",
    "char",
    "clock",
    "double",
    "enum",
    "env",
    "event",
    "floating_point",
    "float",
    "integer",
    "int",
    "long",
    "short",
    "signed",
    "stream",
    "string",
    "struct",
    "trace",
    "typealias",
    "typedef",
    "unsigned",
    "variant",
    "void",
    "_Bool",
    "_Complex",
    "_Imaginary",
];

/// Those of section C.1.7, and the one of C.2; the longest first.
const MARKS: [&str; 18] =
    ["...", ":=", "->", "[", "]", "(", ")", "{", "}", ".", "*", "+", "-", "<", ">", ":", ";", "="];

const METADATA_MAGIC: u32 = 0x75d1_1d57;

/// The text of a metadata file, which is in packets or not.
pub(super) fn text(metadata: &[u8]) -> Result<String, Fault> {
    let magic = metadata.first_chunk().map(|bytes| u32::from_le_bytes(*bytes));
    let bytes = match magic {
        Some(METADATA_MAGIC) => unpacked(metadata, u32::from_le_bytes)?,
        Some(magic) if magic.swap_bytes() == METADATA_MAGIC => unpacked(metadata, u32::from_be_bytes)?,
        _ if !metadata.starts_with(b"/* CTF 1.8") => {
            return Err(fault(1, Rule::Signature, "another beginning"));
        }
        _ => metadata.to_vec(),
    };
    let line = |at: usize| bytes[..at].iter().filter(|byte| **byte == b'\n').count() as u32 + 1;
    let control = bytes.iter().position(|byte| byte.is_ascii_control() && !b"\n\t\r\x0b\x0c".contains(byte));
    if let Some(at) = control {
        return Err(fault(line(at), Rule::Encoding, format!("the byte {:#04x}", bytes[at])));
    }
    let wrong = std::str::from_utf8(&bytes).err().map(|error| error.valid_up_to());
    if let Some(at) = wrong {
        return Err(fault(line(at), Rule::Encoding, format!("the byte {:#04x} is not UTF-8", bytes[at])));
    }
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// The text in packets: each has 37 bytes before its part.
fn unpacked(metadata: &[u8], number: fn([u8; 4]) -> u32) -> Result<Vec<u8>, Fault> {
    const HEADER_BYTES: usize = 37;
    let mut text = Vec::new();
    let (mut at, mut uuid) = (0, None);
    while at < metadata.len() {
        let refuse = |offset: usize, message: String| {
            let place = Place::Metadata((at + offset) as u64);
            Err(Fault { place, rule: Rule::Packetized, message })
        };
        let packet = &metadata[at..];
        if packet.len() < HEADER_BYTES {
            return refuse(0, format!("{} bytes, where a header has {HEADER_BYTES}", packet.len()));
        }
        let word = |at: usize| number([packet[at], packet[at + 1], packet[at + 2], packet[at + 3]]);
        if word(0) != METADATA_MAGIC {
            return refuse(0, format!("the magic number is {:#x}", word(0)));
        }
        if *uuid.get_or_insert(&packet[4..20]) != &packet[4..20] {
            return refuse(4, "another UUID than before".to_owned());
        }
        let (content, size) = (word(24) as usize, word(28) as usize);
        if !content.is_multiple_of(8) || !size.is_multiple_of(8) || content > size {
            return refuse(24, format!("{content} bits of content in a packet of {size}"));
        }
        let (content, size) = (content / 8, size / 8);
        if content < HEADER_BYTES || size > packet.len() {
            return refuse(24, format!("{content} of {size} bytes, where {} are left", packet.len()));
        }
        if packet[32..35] != [0, 0, 0] {
            return refuse(32, "compressed, encrypted or with a checksum".to_owned());
        }
        if packet[35..37] != [1, 8] {
            return refuse(35, format!("version {}.{}", packet[35], packet[36]));
        }
        text.extend_from_slice(&packet[HEADER_BYTES..content]);
        at += size;
    }
    Ok(text)
}

/// The last one is [`Kind::End`].
pub(super) fn tokens(text: &str) -> Result<Vec<Token>, Fault> {
    let mut lexer = Lexer { rest: text, line: 1 };
    let mut tokens = Vec::new();
    loop {
        lexer.space()?;
        let line = lexer.line;
        let Some(first) = lexer.rest.chars().next() else {
            tokens.push(Token { kind: Kind::End, line });
            return Ok(tokens);
        };
        let kind = match first {
            'a'..='z' | 'A'..='Z' | '_' => lexer.word()?,
            '0'..='9' => lexer.number()?,
            '"' => lexer.string()?,
            '\'' => return Err(fault(line, Rule::Unread, "a character constant")),
            '\\' => return Err(fault(line, Rule::Unread, "a universal character name")),
            ',' => lexer.mark(","),
            _ => match MARKS.iter().find(|mark| lexer.rest.starts_with(**mark)) {
                Some(mark) => lexer.mark(mark),
                None => return Err(fault(line, Rule::Token, format!("the character {first:?}"))),
            },
        };
        tokens.push(Token { kind, line });
    }
}

struct Lexer<'t> {
    rest: &'t str,
    line: u32,
}

impl<'t> Lexer<'t> {
    fn take(&mut self, bytes: usize) -> &'t str {
        let (taken, rest) = self.rest.split_at(bytes);
        self.line += taken.bytes().filter(|byte| *byte == b'\n').count() as u32;
        self.rest = rest;
        taken
    }

    fn take_while(&mut self, is: impl Fn(char) -> bool) -> &'t str {
        self.take(self.rest.find(|c| !is(c)).unwrap_or(self.rest.len()))
    }

    fn space(&mut self) -> Result<(), Fault> {
        loop {
            self.take_while(|c| c.is_ascii_whitespace() || c == '\x0b');
            if self.rest.starts_with("//") {
                self.take_while(|c| c != '\n');
            } else if self.rest.starts_with("/*") {
                let Some(length) = self.rest[2..].find("*/") else {
                    return Err(fault(self.line, Rule::Comment, "a comment has no end"));
                };
                self.take(length + 4);
            } else {
                return Ok(());
            }
        }
    }

    fn mark(&mut self, mark: &'static str) -> Kind {
        self.take(mark.len());
        Kind::Mark(mark)
    }

    fn word(&mut self) -> Result<Kind, Fault> {
        let word = self.take_while(|c| c == '_' || c.is_ascii_alphanumeric());
        match word == "L" && self.rest.starts_with(['"', '\'']) {
            true => Err(fault(self.line, Rule::Unread, "a wide literal")),
            false => Ok(Kind::Word(word.to_owned())),
        }
    }

    fn number(&mut self) -> Result<Kind, Fault> {
        let all = self.take_while(|c| c == '_' || c.is_ascii_alphanumeric());
        let refuse = || fault(self.line, Rule::Constant, format!("{all} is no number"));
        let hexadecimal = all.strip_prefix("0x").or(all.strip_prefix("0X"));
        let (radix, rest) = match hexadecimal {
            Some(rest) => (16, rest),
            None if all.starts_with('0') => (8, all),
            None => (10, all),
        };
        let end = rest.find(|c: char| !c.is_digit(radix)).unwrap_or(rest.len());
        let (digits, suffix) = rest.split_at(end);
        let suffixes = ["", "u", "l", "ul", "lu", "ll", "ull", "llu"];
        if !suffixes.contains(&suffix.to_lowercase().as_str())
            || suffix.contains("lL")
            || suffix.contains("Ll")
        {
            return Err(refuse());
        }
        u64::from_str_radix(digits, radix).map(Kind::Int).map_err(|_| refuse())
    }

    fn string(&mut self) -> Result<Kind, Fault> {
        let refuse = |line, message: String| Err(fault(line, Rule::Literal, message));
        let line = self.line;
        self.take(1);
        let mut bytes = Vec::new();
        loop {
            bytes.extend(self.take_while(|c| !matches!(c, '"' | '\\' | '\n')).bytes());
            match self.rest.bytes().next() {
                Some(b'"') => {
                    self.take(1);
                    break;
                }
                Some(b'\\') => {
                    self.take(1);
                    bytes.push(self.escape()?);
                }
                _ => return refuse(line, "a string has no end on its line".to_owned()),
            }
        }
        String::from_utf8(bytes).map(Kind::Text).or_else(|_| refuse(line, "a string is not UTF-8".to_owned()))
    }

    /// What follows a backslash.
    fn escape(&mut self) -> Result<u8, Fault> {
        const SIMPLE: [(char, u8); 11] = [
            ('\'', b'\''),
            ('"', b'"'),
            ('?', b'?'),
            ('\\', b'\\'),
            ('a', 7),
            ('b', 8),
            ('f', 12),
            ('n', b'\n'),
            ('r', b'\r'),
            ('t', b'\t'),
            ('v', 11),
        ];
        let refuse = |line, what: &str| Err(fault(line, Rule::Literal, format!("the escape \\{what}")));
        let line = self.line;
        match self.rest.chars().next() {
            Some(c @ ('u' | 'U')) => {
                Err(fault(line, Rule::Unread, format!("the universal character name \\{c}")))
            }
            Some('x') => {
                self.take(1);
                let digits = self.take_while(|c| c.is_ascii_hexdigit());
                u8::from_str_radix(digits, 16).or_else(|_| refuse(line, &format!("x{digits}")))
            }
            Some('0'..='7') => {
                let octal = |byte: &u8| (b'0'..=b'7').contains(byte);
                let digits = self.take(self.rest.bytes().take(3).take_while(octal).count());
                u8::from_str_radix(digits, 8).or_else(|_| refuse(line, digits))
            }
            Some(c) => match SIMPLE.iter().find(|(letter, _)| *letter == c) {
                Some((_, byte)) => {
                    self.take(1);
                    Ok(*byte)
                }
                None => refuse(line, &c.to_string()),
            },
            None => refuse(line, ""),
        }
    }
}
