//! JSON → one event: what its fields are, and what is in them.
//!
//! - Integers have 8 bytes and are signed, or unsigned if they only fit so; numbers with a fraction are doubles; strings are
//!   addresses in this process, `null` the address 0.
//! - Arrays are arrays of numbers, strings, or arrays of one length; objects are structs.
//! - What JSON has no form for is an object with a word that begins with `$`: `{"$float": 1.5}` (4 bytes),
//!   `{"$sequence": [1, 2]}`, and `{"$enum": 1, "labels": {"IDLE": 0, "BUSY": [1, 3]}}`. They are fields, no parts of fields.

use std::ffi::CString;

use anyhow::{Result, anyhow, bail, ensure};
use serde_json::{Map, Value};
use weir_event::schema::{Field, Form, Schema, Type};
use weir_rt::executable::Frame;
use weir_verifier::Limits;

use crate::failure::Failure;

/// Bytes of everything that is no array and no struct.
const WORD_BYTES: u32 = 8;

/// One event.
#[derive(Debug)]
pub(super) struct Event {
    pub(super) schema: Schema,
    slots: Vec<u64>,
    memory: Memory,
}

/// What slots point to. It does not move.
#[derive(Debug, Default)]
struct Memory {
    strings: Vec<CString>,
    blocks: Vec<Box<[u8]>>,
}

impl Event {
    /// # Errors
    /// What is no event, or has too many fields.
    pub(super) fn of(json: &str) -> Result<Event, Failure> {
        read(json).map_err(|error| Failure::Refused(anyhow!("--fields: {error}")))
    }

    pub(super) fn frame(&self) -> Frame {
        let mut frame = Frame::default();
        for (word, slot) in frame.regs.iter_mut().zip(&self.slots) {
            *word = *slot;
        }
        frame
    }

    /// A field's type and what is in its first slot.
    pub(super) fn value(&self, name: &str) -> Option<(&Type, u64)> {
        let field = self.schema.fields.iter().find(|field| field.name == name)?;
        Some((&field.ty, self.slots[usize::from(field.slot)]))
    }

    /// The same values as the fields of another schema, in the slots of that.
    pub(super) fn placed(self, schema: Schema, slots: Vec<u64>) -> Event {
        Event { schema, slots, ..self }
    }

    /// The strings are this process's own.
    pub(super) fn limits(&self) -> Limits {
        Limits { text_slots: self.schema.text_slots(), ..Limits::default() }
    }

    fn add(&mut self, name: String, value: &Value) -> Result<()> {
        let slot = self.slots.len() as u8;
        let ty = match special(value) {
            Some((word, object)) => self.add_special(word, object)?,
            None => {
                let ty = type_of(value)?;
                let mut bytes = Vec::new();
                self.memory.write(&ty, value, &mut bytes)?;
                match &ty {
                    Type::Array { .. } | Type::Struct { .. } => {
                        let address = self.memory.keep(bytes);
                        self.slots.push(address);
                    }
                    _ => self.slots.push(word(&bytes)),
                }
                // As a tracepoint declares its own.
                if ty == Type::Str { Type::Text } else { ty }
            }
        };
        self.schema.fields.push(Field { name, ty, slot, form: Form::default() });
        Ok(())
    }

    fn add_special(&mut self, word_given: &str, object: &Map<String, Value>) -> Result<Type> {
        let value = &object[word_given];
        ensure!(object.len() == if word_given == "$enum" { 2 } else { 1 }, "{object:?} has other words too");
        match word_given {
            "$float" => {
                let number = value.as_f64().ok_or_else(|| anyhow!("{value} is no number"))?;
                self.slots.push((number as f32).to_bits().into());
                Ok(Type::Float { bytes: 4 })
            }
            "$sequence" => {
                let Type::Array { element, count } = type_of(value)? else { bail!("{value} is no array") };
                let mut bytes = Vec::new();
                self.memory.write(&Type::Array { element: element.clone(), count }, value, &mut bytes)?;
                let address = self.memory.keep(bytes);
                self.slots.extend([address, count.into()]);
                Ok(Type::Sequence { element })
            }
            "$enum" => {
                let number = value.as_i64().ok_or_else(|| anyhow!("{value} is no integer of 64 bits"))?;
                let labels = object.get("labels").and_then(Value::as_object);
                let labels = labels.ok_or_else(|| anyhow!("an $enum has an object of `labels`"))?;
                let labels = labels.iter().map(|(name, range)| label(name, range)).collect::<Result<_>>()?;
                self.slots.push(number as u64);
                Ok(Type::Enum { bytes: 8, signed: true, labels })
            }
            other => bail!("`{other}` is none of $float, $sequence, $enum"),
        }
    }
}

fn read(json: &str) -> Result<Event> {
    let Value::Object(object) = serde_json::from_str(json)? else {
        bail!("not a JSON object; write such as {{\"size\":42,\"name\":\"x\"}}");
    };
    let mut event = Event { schema: Schema::default(), slots: Vec::new(), memory: Memory::default() };
    let most = usize::from(weir_ir::limits::SLOTS);
    for (name, value) in object {
        event.add(name.clone(), &value).map_err(|error| anyhow!("`{name}`: {error}"))?;
        let slots = event.slots.len();
        ensure!(slots <= most, "{slots} slots up to `{name}`; an event has {most}, a sequence takes two");
    }
    Ok(event)
}

/// The word of an object that is no struct.
fn special(value: &Value) -> Option<(&str, &Map<String, Value>)> {
    let object = value.as_object()?;
    let word = object.keys().find(|word| word.starts_with('$'))?;
    Some((word, object))
}

/// A number, or the first and the last of a range.
fn label(name: &str, range: &Value) -> Result<(String, i64, i64)> {
    let ends = match range {
        Value::Array(ends) => (ends.first().and_then(Value::as_i64), ends.get(1).and_then(Value::as_i64)),
        one => (one.as_i64(), one.as_i64()),
    };
    let (Some(first), Some(last)) = ends else {
        bail!("the label `{name}` is {range}, no number and no range")
    };
    Ok((name.to_owned(), first, last))
}

fn type_of(value: &Value) -> Result<Type> {
    ensure!(special(value).is_none(), "{value} can be a field, but no part of one");
    Ok(match value {
        Value::Number(number) if number.is_f64() => Type::Float { bytes: 8 },
        Value::Number(number) => Type::Int { bytes: 8, signed: number.is_i64() },
        Value::String(_) | Value::Null => Type::Str,
        Value::Array(items) => {
            let mut element = None;
            for item in items {
                let ty = type_of(item)?;
                ensure!(!matches!(ty, Type::Struct { .. }), "{item} in an array; elements are no structs");
                element = Some(match element {
                    None => ty,
                    Some(known) => {
                        common(known, ty).ok_or_else(|| anyhow!("{value} has elements of two types"))?
                    }
                });
            }
            let has_large = items.iter().any(|item| item.is_u64() && !item.is_i64());
            let has_negative = items.iter().any(|item| item.is_i64() && !item.is_u64());
            ensure!(!(has_large && has_negative), "{value} fits no type of integers");
            let element = element.unwrap_or(Type::Int { bytes: 8, signed: true });
            Type::Array { element: Box::new(element), count: u32::try_from(items.len())? }
        }
        Value::Object(members) => {
            let (mut fields, mut offset) = (Vec::new(), 0);
            for (name, member) in members {
                let ty = type_of(member)?;
                let bytes = bytes_of(&ty);
                fields.push((name.clone(), offset, ty));
                offset += bytes;
            }
            Type::Struct { fields }
        }
        Value::Bool(_) => bail!("{value}; fields are numbers, strings, arrays and objects of them"),
    })
}

/// The type that values of both have.
fn common(a: Type, b: Type) -> Option<Type> {
    match (a, b) {
        (a, b) if a == b => Some(a),
        (Type::Int { bytes, .. }, Type::Int { .. }) => Some(Type::Int { bytes, signed: false }),
        (Type::Float { bytes }, Type::Int { .. }) | (Type::Int { .. }, Type::Float { bytes }) => {
            Some(Type::Float { bytes })
        }
        (Type::Array { element: a, count }, Type::Array { element: b, count: other }) if count == other => {
            Some(Type::Array { element: Box::new(common(*a, *b)?), count })
        }
        _ => None,
    }
}

fn bytes_of(ty: &Type) -> u32 {
    match ty {
        Type::Array { element, count } => bytes_of(element) * count,
        Type::Struct { fields } => fields.iter().map(|(_, _, ty)| bytes_of(ty)).sum(),
        _ => WORD_BYTES,
    }
}

/// The first 8 bytes.
fn word(bytes: &[u8]) -> u64 {
    let mut word = [0; 8];
    word.copy_from_slice(&bytes[..8]);
    u64::from_le_bytes(word)
}

impl Memory {
    /// The bytes of a value of this type.
    fn write(&mut self, ty: &Type, value: &Value, out: &mut Vec<u8>) -> Result<()> {
        match (ty, value) {
            (Type::Float { .. }, Value::Number(number)) => {
                out.extend(number.as_f64().unwrap_or_default().to_le_bytes());
            }
            (Type::Int { .. }, Value::Number(number)) => {
                let bits = number.as_i64().map(|value| value as u64).or(number.as_u64()).unwrap_or_default();
                out.extend(bits.to_le_bytes());
            }
            (Type::Str, Value::Null) => out.extend(0u64.to_le_bytes()),
            (Type::Str, Value::String(text)) => {
                let text = CString::new(text.as_str()).map_err(|_| anyhow!("{value} has a NUL in it"))?;
                out.extend((text.as_ptr() as u64).to_le_bytes());
                self.strings.push(text);
            }
            (Type::Array { element, .. }, Value::Array(items)) => {
                items.iter().try_for_each(|item| self.write(element, item, out))?;
            }
            (Type::Struct { fields }, Value::Object(members)) => {
                fields.iter().try_for_each(|(name, _, ty)| self.write(ty, &members[name], out))?;
            }
            (ty, value) => unreachable!("{value} has the type {ty:?}"),
        }
        Ok(())
    }

    /// The address of these bytes.
    fn keep(&mut self, bytes: Vec<u8>) -> u64 {
        self.blocks.push(bytes.into_boxed_slice());
        // SANITY: it was pushed just now.
        self.blocks.last().expect("a block").as_ptr() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_typed_by_what_they_are() {
        let event = read(
            r#"{"i":-1,"u":18446744073709551615,"d":1.5,"s":"x","n":null,"a":[1,2.5],"o":{"p":1,"q":[[1],[2]]}}"#,
        );
        let event = event.unwrap();
        let types: Vec<&Type> = event.schema.fields.iter().map(|field| &field.ty).collect();
        let int = |signed| Type::Int { bytes: 8, signed };
        let double = Type::Float { bytes: 8 };
        // Objects are in the order of their names.
        assert_eq!(types[0], &Type::Array { element: Box::new(double.clone()), count: 2 });
        assert_eq!(types[1], &double);
        assert_eq!(types[2], &int(true));
        assert_eq!(types[3], &Type::Text);
        let rows = Type::Array { element: Box::new(int(true)), count: 1 };
        let rows = Type::Array { element: Box::new(rows), count: 2 };
        let fields = vec![("p".to_owned(), 0, int(true)), ("q".to_owned(), 8, rows)];
        assert_eq!(types[4], &Type::Struct { fields });
        assert_eq!(types[6], &int(false));
        assert_eq!(event.slots[2] as i64, -1);
    }

    #[test]
    fn a_sequence_takes_two_slots_and_an_enumeration_has_labels() {
        let event = read(
            r#"{"a":{"$sequence":[7,8]},"b":{"$enum":2,"labels":{"X":0,"Y":[1,3]}},"c":{"$float":0.5}}"#,
        );
        let event = event.unwrap();
        let slots: Vec<u8> = event.schema.fields.iter().map(|field| field.slot).collect();
        assert_eq!((slots, event.slots[1], event.slots[2]), (vec![0, 2, 3], 2, 2));
        let labels = vec![("X".to_owned(), 0, 0), ("Y".to_owned(), 1, 3)];
        assert_eq!(event.schema.fields[1].ty, Type::Enum { bytes: 8, signed: true, labels });
    }

    #[test]
    fn what_is_no_event_is_refused() {
        let refused = |json: &str, want: &str| {
            let error = read(json).expect_err(json).to_string();
            assert!(error.contains(want), "{json}: {error}");
        };
        refused("[]", "not a JSON object");
        refused(r#"{"a":true}"#, "`a`: true");
        refused(r#"{"a":[1,"x"]}"#, "elements of two types");
        refused(r#"{"a":[{"b":1}]}"#, "elements are no structs");
        refused(r#"{"a":[-1,18446744073709551615]}"#, "fits no type");
        refused(r#"{"a":{"b":{"$float":1}}}"#, "no part of one");
        refused(r#"{"a":{"$what":1}}"#, "none of $float");
        refused(r#"{"a":"x\u0000y"}"#, "a NUL in it");
        let many: Vec<String> = (0..11).map(|n| format!(r#""f{n}":{{"$sequence":[1]}}"#)).collect();
        refused(&format!("{{{}}}", many.join(",")), "22 slots up to");
    }
}
