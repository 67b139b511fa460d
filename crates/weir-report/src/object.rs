//! C records and arrays: bytes → values, by a table of C types.
//!
//! Members of members without names are the record's own, arrays of `char` are strings. What is not in the bytes, or cannot be read, is
//! `?`.

use weir_event::ctype::{CType, CTypes, Enum, Record, TypeId};

use crate::value::Value;

/// What the bytes are, of a type of the table.
pub(crate) fn decode(types: &CTypes, ty: TypeId, bytes: &[u8]) -> Value {
    of_type(types, ty, bytes, 0).unwrap_or(Value::Record(Vec::new()))
}

/// LIMIT: records within records.
const DEPTH_MAX: u32 = 64;

fn of_type(types: &CTypes, ty: TypeId, bytes: &[u8], depth: u32) -> Option<Value> {
    if depth > DEPTH_MAX {
        return None;
    }
    Some(match types.known(ty)? {
        CType::Int { bytes: size, signed, .. } => integer(number(bytes, *size)?, *size, *signed),
        CType::Enum(of) => named(of, integer(number(bytes, of.bytes)?, of.bytes, of.signed)),
        CType::Float { bytes: 4 } => {
            Value::Double(f64::from(f32::from_bits(number(bytes, 4)? as u32)).to_bits())
        }
        CType::Float { .. } => Value::Double(number(bytes, 8)?),
        CType::Pointer(_) => Value::Pointer(number(bytes, 8)?),
        CType::Array { count, .. } if types.text(ty).is_some() => {
            let text = bytes.get(..*count as usize)?;
            let end = text.iter().position(|byte| *byte == 0).unwrap_or(text.len());
            Value::Str(text[..end].to_vec())
        }
        CType::Array { element, count } => {
            let size = types.bytes(*element)? as usize;
            // An element without bytes has no end.
            let all = bytes.get(..size.checked_mul(*count as usize)?)?.chunks_exact(size.max(1));
            Value::Array(
                all.map(|one| of_type(types, *element, one, depth + 1).unwrap_or_else(unread)).collect(),
            )
        }
        CType::Record(record) => {
            let mut members = Vec::new();
            add(types, record, bytes, &mut members, depth + 1);
            Value::Record(members)
        }
        CType::Void | CType::Named { .. } | CType::Other { .. } => return None,
    })
}

fn add(types: &CTypes, record: &Record, bytes: &[u8], members: &mut Vec<(String, Value)>, depth: u32) {
    for member in &record.members {
        let member = &record.placed(member.clone());
        let Some(own) = bytes.get(member.offset as usize..) else { continue };
        match (types.known(member.ty), member.bits) {
            (Some(CType::Record(inner)), None) if member.name.is_empty() && depth <= DEPTH_MAX => {
                add(types, inner, own, members, depth + 1);
            }
            (Some(ty), Some(bits)) => {
                let signed =
                    matches!(ty, CType::Int { signed: true, .. } | CType::Enum(Enum { signed: true, .. }));
                let read = bits.bytes().and_then(|size| number(own, size));
                let Some(word) = read.filter(|_| bits.width > 0 && bits.width <= 64) else {
                    members.push((member.name.clone(), unread()));
                    continue;
                };
                let above = word << (64 - u32::from(bits.shift) - u32::from(bits.width));
                let down = 64 - u32::from(bits.width);
                let value = if signed { ((above as i64) >> down) as u64 } else { above >> down };
                let value = Value::Int { bits: value, signed };
                members.push((
                    member.name.clone(),
                    match ty {
                        CType::Enum(of) => named(of, value),
                        _ => value,
                    },
                ));
            }
            _ => {
                let value = of_type(types, member.ty, own, depth).unwrap_or_else(unread);
                members.push((member.name.clone(), value));
            }
        }
    }
}

/// What is not in the bytes, or of a type that is not read.
fn unread() -> Value {
    Value::Str(b"?".to_vec())
}

fn number(bytes: &[u8], size: u8) -> Option<u64> {
    let mut word = [0; 8];
    word.get_mut(..size.into())?.copy_from_slice(bytes.get(..size.into())?);
    Some(u64::from_le_bytes(word))
}

fn integer(word: u64, size: u8, signed: bool) -> Value {
    let shift = 64 - 8 * u32::from(size.clamp(1, 8));
    let bits = if signed { ((word << shift) as i64 >> shift) as u64 } else { word };
    Value::Int { bits, signed }
}

/// The name of a value of an enumeration, where it has one.
fn named(of: &Enum, value: Value) -> Value {
    match value {
        Value::Int { bits, .. } => match of.label(bits as i64) {
            Some(label) => Value::Enum(bits, label.to_string()),
            None => value,
        },
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use weir_event::ctype::{Bits, Member};

    use super::*;

    #[test]
    fn members_are_where_the_table_says() {
        let mut types = CTypes::default();
        let short = types.add(CType::Int { bytes: 2, signed: true, is_char: false });
        let char = types.add(CType::Int { bytes: 1, signed: true, is_char: true });
        let text = types.add(CType::Array { element: char, count: 4 });
        let list = types.add(CType::Array { element: short, count: 2 });
        let member = |name: &str, ty, offset, bits| Member { name: name.into(), ty, offset, bits };
        let inner = types.add(CType::Record(Record {
            name: "union".into(),
            bytes: 2,
            members: vec![member("c", short, 0, None)],
        }));
        let labels = vec![("IDLE".to_string(), 0), ("BUSY".to_string(), 7)];
        let state = types.add(CType::Enum(Enum { name: "enum e".into(), bytes: 1, signed: false, labels }));
        let members = vec![
            member("a", text, 0, None),
            member("b", list, 4, None),
            member("", inner, 8, None),
            member("d", short, 10, Some(Bits { shift: 1, width: 3 })),
            member("e", state, 8, None),
            member("f", state, 10, Some(Bits { shift: 1, width: 3 })),
            member("g", state, 3, None),
            member("gone", list, 12, None),
        ];
        let record = types.add(CType::Record(Record { name: "struct s".into(), bytes: 12, members }));
        let bytes = [b'x', b'y', 0, b'z', 1, 0, 0xff, 0xff, 7, 0, 0b1110, 0];
        let want = [
            ("a", Value::str("xy")),
            ("b", Value::Array(vec![Value::int(1), Value::int(-1)])),
            ("c", Value::int(7)),
            ("d", Value::int(-1)),
            ("e", Value::Enum(7, "BUSY".to_string())),
            ("f", Value::Enum(7, "BUSY".to_string())),
            ("g", Value::Int { bits: b'z'.into(), signed: false }),
            ("gone", Value::str("?")),
        ];
        let want = want.map(|(name, value)| (name.to_string(), value)).to_vec();
        assert_eq!(decode(&types, record, &bytes), Value::Record(want));
        assert_eq!(decode(&types, TypeId(99), &bytes), Value::Record(Vec::new()), "of another table");
    }
}
