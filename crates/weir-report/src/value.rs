//! Values: typed bytes of a record, key or map, decoded.
//!
//! In: a [`Type`] and bytes. Out: a [`Value`], in which attach cookies have become names and strings end at
//! their NUL; addresses and stacks are named ([`Names`]). Bytes that are too short, and cookies of no site, are [`Malformed`].

use std::fmt;

use weir_event::{SiteName, Type};

use crate::names::Names;
use crate::{object, words};

/// One decoded value.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Value {
    Int {
        bits: u64,
        signed: bool,
    },
    /// A number that prints as `true` or `false`.
    Truth(bool),
    /// A value of an enumeration, and its name.
    Enum(u64, String),
    /// An address.
    Pointer(u64),
    /// The bits of a floating-point number.
    Double(u64),
    Str(Vec<u8>),
    /// Bytes that are no text.
    Buffer(Vec<u8>),
    /// A line for each frame.
    Stack {
        frames: Vec<Vec<u8>>,
        /// Lines begin with blanks, depending on where the stack stands.
        is_indented: bool,
    },
    Tuple(Vec<Value>),
    /// A C array.
    Array(Vec<Value>),
    /// A C record, or a script's own: names and values of its members.
    Record(Vec<(String, Value)>),
}

impl Value {
    /// A signed integer.
    pub fn int(value: i64) -> Value {
        Value::Int { bits: value as u64, signed: true }
    }

    #[cfg(test)]
    pub fn str(text: &str) -> Value {
        Value::Str(text.as_bytes().to_vec())
    }

    /// The number that prints, if this is an integer.
    pub fn number(&self) -> Option<i128> {
        match self {
            Value::Int { bits, signed: true } => Some(i128::from(*bits as i64)),
            Value::Int { bits, signed: false } | Value::Pointer(bits) => Some(i128::from(*bits)),
            Value::Enum(bits, _) => Some(i128::from(*bits as i64)),
            Value::Truth(_)
            | Value::Double(_)
            | Value::Str(_)
            | Value::Buffer(_)
            | Value::Stack { .. }
            | Value::Tuple(_)
            | Value::Array(_)
            | Value::Record(_) => None,
        }
    }

    /// What values are ordered by: numbers by size, of doubles −0 before 0, and NaN outside of the infinities.
    pub fn rank(&self) -> Option<i128> {
        match self {
            Value::Double(bits) => {
                let sign = (*bits as i64) >> 63;
                Some(i128::from(*bits as i64 ^ (sign as u64 >> 1) as i64))
            }
            other => other.number(),
        }
    }

    /// Each number in it divided; integers towards zero. `div` is not 0.
    pub fn divided(self, div: u64) -> Value {
        match self {
            Value::Int { bits, signed } => {
                let number = Value::Int { bits, signed }.number().unwrap_or(0);
                // The quotient fits: it is no larger than the number.
                Value::Int { bits: (number / i128::from(div)) as u64, signed }
            }
            Value::Double(bits) if div == 1 => Value::Double(bits),
            Value::Double(bits) => Value::Double((f64::from_bits(bits) / div as f64).to_bits()),
            other @ (Value::Str(_)
            | Value::Buffer(_)
            | Value::Stack { .. }
            | Value::Pointer(_)
            | Value::Truth(_)
            | Value::Enum(..)) => other,
            Value::Tuple(parts) => Value::Tuple(parts.into_iter().map(|part| part.divided(div)).collect()),
            other @ (Value::Array(_) | Value::Record(_)) => other,
        }
    }

    /// Decodes the first `ty.bytes()` of `bytes`. A string may be all of them.
    pub fn decode(ty: &Type, bytes: &[u8], names: Names<'_>) -> Result<Value, Malformed> {
        let need = match ty {
            Type::Str { .. } => bytes.len().min(ty.bytes() as usize),
            _ => ty.bytes() as usize,
        };
        let bytes = bytes.get(..need).ok_or(Malformed::Short { need, have: bytes.len() })?;
        match ty {
            Type::Int { signed } => Ok(Value::Int { bits: word(bytes, 0)?, signed: *signed }),
            Type::Pointer(_) => Ok(Value::Pointer(word(bytes, 0)?)),
            Type::Double => Ok(Value::Double(word(bytes, 0)?)),
            Type::Str { .. } => Ok(Value::Str(until_nul(bytes).to_vec())),
            Type::Buffer { .. } => {
                let room = need - 8;
                let length = usize::try_from(word(bytes, 0)?).unwrap_or(usize::MAX);
                let held = bytes[8..].get(..length).ok_or(Malformed::Short { need: length, have: room })?;
                Ok(Value::Buffer(held.to_vec()))
            }
            Type::Usym => Ok(names.symbol(word(bytes, 1)? as u32, word(bytes, 0)?)),
            Type::Ustack(form) => Ok(names.stack(*form, word(bytes, 0)?)),
            Type::Inet => Ok(Value::Str(words::internet(word(bytes, 0)?, &bytes[8..]).into_bytes())),
            Type::Word(of) => Ok(names.word(of, word(bytes, 0)?)),
            Type::Object { ty, .. } => Ok(object::decode(names.types, *ty, bytes)),
            Type::Probe => site(names.sites, word(bytes, 0)?, |site| &site.probe),
            Type::Func => site(names.sites, word(bytes, 0)?, |site| &site.func),
            Type::Tuple(parts) => {
                let mut values = Vec::with_capacity(parts.len());
                let mut rest = bytes;
                for part in parts {
                    values.push(Value::decode(part, rest, names)?);
                    rest = &rest[part.bytes() as usize..];
                }
                Ok(Value::Tuple(values))
            }
            Type::Record(parts) => {
                let mut values = Vec::with_capacity(parts.len());
                let mut rest = bytes;
                for (name, part) in parts {
                    values.push((name.clone(), Value::decode(part, rest, names)?));
                    rest = &rest[part.bytes() as usize..];
                }
                Ok(Value::Record(values))
            }
        }
    }
}

/// A string, as it lies in its array.
pub(crate) fn until_nul(bytes: &[u8]) -> &[u8] {
    &bytes[..memchr::memchr(0, bytes).unwrap_or(bytes.len())]
}

/// The u64 at byte 8 × `index`.
pub(crate) fn word(bytes: &[u8], index: usize) -> Result<u64, Malformed> {
    let need = 8 * (index + 1);
    let eight = bytes.get(need - 8..need).ok_or(Malformed::Short { need, have: bytes.len() })?;
    // SANITY: the slice above has 8 bytes.
    Ok(u64::from_le_bytes(eight.try_into().expect("8 bytes")))
}

/// A name of the site with this cookie; "" for that of none, as a variable has it that nothing was assigned to.
fn site(sites: &[SiteName], cookie: u64, name: fn(&SiteName) -> &String) -> Result<Value, Malformed> {
    if cookie == u64::MAX {
        return Ok(Value::Str(Vec::new()));
    }
    let found = usize::try_from(cookie).ok().and_then(|index| sites.get(index));
    let found = found.ok_or(Malformed::Site { cookie, sites: sites.len() })?;
    Ok(Value::Str(name(found).clone().into_bytes()))
}

/// Why bytes do not fit their schema.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Malformed {
    /// Fewer bytes than the type has.
    Short { need: usize, have: usize },
    /// A record asks for an action that the schema does not have.
    Action { index: u32, actions: usize },
    /// The second word of a record's header is not zero.
    Header { word: u32 },
    /// A field that starts inside the record's header.
    Field { offset: u32 },
    /// A cookie of no site.
    Site { cookie: u64, sites: usize },
    /// An action names a map that the schema does not have.
    Map { map: usize, maps: usize },
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Malformed::Short { need, have } => write!(f, "{have} bytes where {need} are needed"),
            Malformed::Action { index, actions } => write!(f, "action {index} of a script with {actions}"),
            Malformed::Header { word } => write!(f, "record header ends in {word:#x}, not in 0"),
            Malformed::Field { offset } => write!(f, "field at byte {offset}, inside the record's header"),
            Malformed::Site { cookie, sites } => write!(f, "cookie {cookie} of a script with {sites} sites"),
            Malformed::Map { map, maps } => write!(f, "map {map} of a script with {maps}"),
        }
    }
}

impl std::error::Error for Malformed {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::names::{NO_TYPES, NoSymbols, Seen};

    fn names() -> Names<'static> {
        Names { sites: &[], types: &NO_TYPES, symbols: &NoSymbols, seen: Seen::Now }
    }

    fn check(ty: Type, bytes: &[u8], want: Result<Value, Malformed>) {
        assert_eq!(Value::decode(&ty, bytes, names()), want, "{ty:?} of {bytes:?}");
    }

    #[test]
    fn strings_end_at_nul_or_at_their_array() {
        let ty = Type::Str { bytes: 8 };
        check(ty.clone(), b"ab\0cd\0\0\0", Ok(Value::str("ab")));
        check(ty.clone(), b"abcdefgh", Ok(Value::str("abcdefgh")));
        check(ty.clone(), b"\0\0\0\0\0\0\0\0", Ok(Value::str("")));
        check(ty.clone(), b"abcdefg", Ok(Value::str("abcdefg")));
        check(ty, b"", Ok(Value::str("")));
    }

    #[test]
    fn buffers_have_as_many_bytes_as_they_say() {
        let ty = Type::Buffer { bytes: 16 };
        check(ty.clone(), b"\x03\0\0\0\0\0\0\0a\0c\0\0\0\0\0", Ok(Value::Buffer(b"a\0c".to_vec())));
        check(ty.clone(), &[0; 16], Ok(Value::Buffer(Vec::new())));
        check(ty, &[9; 16], Err(Malformed::Short { need: 0x0909_0909_0909_0909, have: 8 }));
    }

    #[test]
    fn integers_keep_their_sign() {
        assert_eq!(Value::decode(&Type::I64, &[0xff; 8], names()).unwrap().number(), Some(-1));
        assert_eq!(
            Value::decode(&Type::U64, &[0xff; 8], names()).unwrap().number(),
            Some(i128::from(u64::MAX))
        );
        assert_eq!(Value::int(-7).divided(2), Value::int(-3));
        assert_eq!(Value::int(i64::MIN).divided(1), Value::int(i64::MIN));
    }

    #[test]
    fn cookies_of_no_site_are_malformed() {
        check(Type::Probe, &[1; 8], Err(Malformed::Site { cookie: 0x0101_0101_0101_0101, sites: 0 }));
        check(Type::Func, &[0; 8], Err(Malformed::Site { cookie: 0, sites: 0 }));
    }
}
