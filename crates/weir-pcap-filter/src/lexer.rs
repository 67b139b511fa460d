//! Text → words.
//!
//! The longest word at a place wins; among equally long ones a keyword, a hardware address, a number, an address, a
//! name, in this order. That `-` may be part of a name (`5-2` is one) and that twelve digits are a hardware address is libpcap's.
//! Numbers are decimal, octal with a leading 0, hexadecimal with 0x.

use std::net::Ipv6Addr;

use weir_source::{Diagnostic, Span};

use crate::Mode;
use crate::ast::{ATM_FIELDS, ATM_KINDS, MTP2_KINDS, MTP3_FIELDS, OneByte};
use crate::protocol;
use crate::token::{self, Token};

/// The longest text of an IPv6 address, with an IPv4 address at its end.
const IPV6_TEXT_MAX: usize = 45;

/// Signs, longer ones first.
const SIGNS: [&str; 22] = [
    ">=", "<=", "!=", "==", "<<", ">>", "&&", "||", "+", "-", "*", "/", "%", ":", "[", "]", "<", ">", "(",
    ")", "&", "|",
];

/// Cuts `text` into words, the last of which is [`Token::End`].
pub(crate) fn lex(text: &str, mode: Mode) -> Result<Vec<(Token, Span)>, Diagnostic> {
    let mut tokens = Vec::new();
    let mut at = 0;
    let bytes = text.as_bytes();
    while at < bytes.len() {
        if matches!(bytes[at], b' ' | b'\t' | b'\r' | b'\n') {
            at += 1;
            continue;
        }
        let (token, length) = word(text, at, mode)?;
        tokens.push((token, Span::new(at, at + length)));
        at += length;
    }
    tokens.push((Token::End, Span::new(text.len(), text.len())));
    Ok(tokens)
}

/// The word at `at`, and its bytes.
fn word(text: &str, at: usize, mode: Mode) -> Result<(Token, usize), Diagnostic> {
    let rest = &text[at..];
    let name = name_length(rest.as_bytes());
    let mut best: Option<(Token, usize)> = None;
    // In the order of preference among equals: a later one must be longer.
    let mut offer = |found: Option<(Token, usize)>| {
        if let Some((token, length)) = found
            && best.as_ref().is_none_or(|(_, longest)| length > *longest)
        {
            best = Some((token, length));
        }
    };
    offer(keyword(&rest[..name], mode).map(|token| (token, name)));
    offer(ether(rest));
    let number = number_length(rest.as_bytes());
    let is_number = number > 0;
    offer(is_number.then_some((Token::Number(0), number)));
    offer(dotted(rest));
    offer(ipv6(rest));
    offer((name > 0).then(|| (Token::Name(rest[..name].to_owned()), name)));
    offer(escaped(rest));
    offer(one_byte(rest));
    offer(sign(rest));
    match best {
        Some((Token::Number(_), length)) if is_number && length == number => {
            let value = value(&rest[..length]).map_err(|fault| {
                Diagnostic::error(Span::new(at, at + length), fault).with_hint("numbers have 32 bits")
            })?;
            Ok((Token::Number(value), length))
        }
        Some(found) => Ok(found),
        None => {
            let bad = rest.chars().next().unwrap_or(' ');
            let span = Span::new(at, at + bad.len_utf8());
            Err(Diagnostic::error(span, format!("`{}` begins no word", bad.escape_default()))
                .with_hint("quote the expression for the shell, and see pcap-filter(7) for the language"))
        }
    }
}

/// Bytes of the name, keyword or anything like them that `rest` begins with: letters, digits, `-`, `_` and `.`, of which `-` and `_`
/// may not be the last.
fn name_length(rest: &[u8]) -> usize {
    if !rest.first().is_some_and(u8::is_ascii_alphanumeric) {
        return 0;
    }
    let all =
        rest.iter().take_while(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.')).count();
    rest[..all].iter().rposition(|b| !matches!(b, b'-' | b'_')).map_or(0, |last| last + 1)
}

fn keyword(name: &str, mode: Mode) -> Option<Token> {
    let row = |found: bool, token: Token| found.then_some(token);
    let named = |table: &[(&str, u32)]| table.iter().find(|(word, _)| *word == name).map(|(_, value)| *value);
    match name {
        "and" => return Some(Token::And),
        "or" => return Some(Token::Or),
        "not" => return Some(Token::Not),
        _ => {}
    }
    if mode == Mode::Scoped
        && let Some((_, word)) = token::SCOPED_KEYWORDS.iter().find(|(word, _)| *word == name)
    {
        return Some(Token::Word(*word));
    }
    let protocol = protocol::KEYWORDS.iter().find(|(word, _)| *word == name);
    protocol
        .map(|(_, protocol)| Token::Protocol(*protocol))
        .or_else(|| token::KEYWORDS.iter().find_map(|(word, kind)| row(*word == name, Token::Word(*kind))))
        .or_else(|| ATM_KINDS.iter().find_map(|(word, kind)| row(*word == name, Token::Atm(*kind))))
        .or_else(|| ATM_FIELDS.iter().find_map(|(word, kind)| row(*word == name, Token::AtmField(*kind))))
        .or_else(|| MTP2_KINDS.iter().find_map(|(word, kind)| row(*word == name, Token::Mtp2(*kind))))
        .or_else(|| MTP3_FIELDS.iter().find_map(|(word, kind)| row(*word == name, Token::Mtp3(*kind))))
        .or_else(|| named(token::CONSTANTS).map(Token::Number))
}

/// Bytes of the number that `rest` begins with.
fn number_length(rest: &[u8]) -> usize {
    let hexadecimal = match rest {
        [b'0', b'x' | b'X', digits @ ..] => digits.iter().take_while(|b| b.is_ascii_hexdigit()).count(),
        _ => 0,
    };
    match hexadecimal {
        0 => rest.iter().take_while(|b| b.is_ascii_digit()).count(),
        digits => digits + 2,
    }
}

/// The value of a number, or why there is none.
fn value(text: &str) -> Result<u32, String> {
    let lower = text.to_ascii_lowercase();
    let parsed = if let Some(digits) = lower.strip_prefix("0x") {
        u64::from_str_radix(digits, 16)
    } else if text.len() > 1 && text.starts_with('0') {
        if text.bytes().any(|b| b > b'7') {
            return Err(format!("`{text}` is octal, by its leading 0, and has a digit that is not"));
        }
        u64::from_str_radix(text, 8)
    } else {
        text.parse()
    };
    let value = parsed.ok().and_then(|value| u32::try_from(value).ok());
    value.ok_or_else(|| format!("`{text}` has more than 32 bits"))
}

/// Two to four numbers with dots. Those that are not decimal stand as `u32::MAX`.
fn dotted(rest: &str) -> Option<(Token, usize)> {
    let bytes = rest.as_bytes();
    let mut parts = Vec::new();
    let mut at = 0;
    let mut end = 0;
    while parts.len() < 4 {
        let length = number_length(&bytes[at..]);
        if length == 0 {
            break;
        }
        parts.push(rest[at..at + length].parse().unwrap_or(u32::MAX));
        end = at + length;
        if bytes.get(end) != Some(&b'.') {
            break;
        }
        at = end + 1;
    }
    (parts.len() >= 2).then_some((Token::Dotted(parts), end))
}

/// Six bytes: one or two digits each with `:`, `-` or `.` between them, four digits each with `.`, or twelve digits.
fn ether(rest: &str) -> Option<(Token, usize)> {
    let forms = [ether_separated(rest, b':'), ether_separated(rest, b'-'), ether_separated(rest, b'.')];
    let forms = forms.into_iter().chain([ether_groups(rest, 4, true), ether_groups(rest, 12, false)]);
    forms.flatten().max_by_key(|(_, length)| *length).map(|(address, length)| (Token::Ether(address), length))
}

fn ether_separated(rest: &str, separator: u8) -> Option<([u8; 6], usize)> {
    let bytes = rest.as_bytes();
    let mut address = [0; 6];
    let mut at = 0;
    for (index, byte) in address.iter_mut().enumerate() {
        if index > 0 {
            if bytes.get(at) != Some(&separator) {
                return None;
            }
            at += 1;
        }
        let digits = bytes[at..].iter().take(2).take_while(|b| b.is_ascii_hexdigit()).count();
        *byte = u8::from_str_radix(rest.get(at..at + digits)?, 16).ok()?;
        at += digits;
    }
    Some((address, at))
}

/// Groups of as many digits, with dots between them or alone.
fn ether_groups(rest: &str, digits: usize, has_dots: bool) -> Option<([u8; 6], usize)> {
    let mut text = String::new();
    let mut at = 0;
    while text.len() < 12 {
        if has_dots && at > 0 {
            if rest.as_bytes().get(at) != Some(&b'.') {
                return None;
            }
            at += 1;
        }
        let group = rest.get(at..at + digits)?;
        if !group.bytes().all(|b| b.is_ascii_hexdigit()) {
            return None;
        }
        text.push_str(group);
        at += digits;
    }
    let mut address = [0; 6];
    for (index, byte) in address.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&text[2 * index..2 * index + 2], 16).ok()?;
    }
    Some((address, at))
}

fn ipv6(rest: &str) -> Option<(Token, usize)> {
    let is_part = |b: &u8| b.is_ascii_hexdigit() || matches!(b, b':' | b'.');
    let all = rest.bytes().take(IPV6_TEXT_MAX).take_while(|b| is_part(b)).count();
    if rest[..all].bytes().filter(|b| *b == b':').count() < 2 {
        return None;
    }
    (2..=all).rev().find_map(|length| {
        rest[..length].parse::<Ipv6Addr>().ok().map(|address| (Token::Ipv6(address), length))
    })
}

/// A backslash makes a name of a keyword.
fn escaped(rest: &str) -> Option<(Token, usize)> {
    let name = rest.strip_prefix('\\')?;
    let length = name.bytes().take_while(|b| !matches!(b, b' ' | b'!' | b'(' | b')' | b'\n' | b'\t')).count();
    (length > 0).then(|| (Token::Name(name[..length].to_owned()), length + 1))
}

fn one_byte(rest: &str) -> Option<(Token, usize)> {
    let digits = rest.strip_prefix('$')?;
    let length = digits.bytes().take(2).take_while(u8::is_ascii_hexdigit).count();
    let number = |digits: &str| u8::from_str_radix(digits, 16).ok();
    let (address, first) = (number(digits.get(..length)?)?, number(digits.get(..length.min(1))?)?);
    // libpcap 1.10 takes the `$` for a digit, whose value has 0xd in its low half, and does not come to the second one.
    Some((Token::OneByte(OneByte { address, of_1_10: 0xd0 | first }), length + 1))
}

fn sign(rest: &str) -> Option<(Token, usize)> {
    if let Some(sign) = SIGNS.iter().find(|sign| rest.starts_with(**sign)) {
        let token = match *sign {
            "&&" => Token::And,
            "||" => Token::Or,
            "==" => Token::Sign("="),
            sign => Token::Sign(sign),
        };
        return Some((token, sign.len()));
    }
    match rest.as_bytes()[0] {
        b'!' => Some((Token::Not, 1)),
        b'=' => Some((Token::Sign("="), 1)),
        b'^' => Some((Token::Sign("^"), 1)),
        _ => None,
    }
}
