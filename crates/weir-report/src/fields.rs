//! Fields of a recorded event, each as a text of its own, such as the value of a variable: not as a part of a line.
//!
//! In: the fields' types and forms ([`weir_event::schema`]), and their bytes as a record has them ([`weir_event::recorded`]). Out:
//!
//! | field | text |
//! |---|---|
//! | integer | its digits, in the base of its form |
//! | enumeration | the first label that its value has; without one the integer |
//! | floating-point number | as C's `%g` |
//! | string, text, characters | the bytes as they are, up to a NUL |
//! | array, sequence, stack | `[ [0] = 5, [1] = 7 ]`, as `weir view` shows it |
//! | structure | `{ x = 5, y = 7 }`, as `weir view` shows it |
//!
//! Guaranteed: bytes that are not what the fields are end the list, and never panic. Texts are not escaped: they are no part of a terminal's line.

use std::io::Write as _;

use weir_event::schema::{Field, Form, Type};

use crate::double;

/// The text of each field, in their order. The list ends before the first field whose bytes are not what it has.
pub fn texts(fields: &[Field], bytes: &[u8]) -> Vec<Vec<u8>> {
    let mut rest = bytes;
    let texts = fields.iter().map_while(|field| {
        let mut text = Vec::new();
        put(&field.ty, field.form, &mut rest, &mut text).map(|()| text)
    });
    texts.collect()
}

/// Takes the value that `rest` begins with, and adds its text.
fn put(ty: &Type, form: Form, rest: &mut &[u8], text: &mut Vec<u8>) -> Option<()> {
    match ty {
        Type::Int { bytes, signed } => integer(number(*bytes, form, rest)?, *bytes, *signed, form, text),
        Type::Enum { bytes, signed, labels } => {
            let value = number(*bytes, form, rest)?;
            let whole = extended(value, *bytes, *signed);
            let has = |(_, first, last): &&(String, i64, i64)| match signed {
                true => (*first..=*last).contains(&(whole as i64)),
                false => (*first as u64..=*last as u64).contains(&whole),
            };
            match labels.iter().find(has) {
                Some((label, ..)) => text.extend_from_slice(label.as_bytes()),
                None => integer(value, *bytes, *signed, form, text),
            }
        }
        Type::Float { bytes } => {
            let bits = number(*bytes, Form::Decimal, rest)?;
            let value =
                if *bytes == 4 { f64::from(f32::from_bits(bits as u32)) } else { f64::from_bits(bits) };
            if value.is_sign_negative() {
                text.push(b'-');
            }
            text.extend_from_slice(double::digits('g', None, false, value.abs()).as_bytes());
        }
        Type::Str | Type::Text => {
            let end = rest.iter().position(|byte| *byte == 0)?;
            text.extend_from_slice(take(rest, end + 1)?.strip_suffix(b"\0")?);
        }
        Type::Array { element, count } => elements(element, *count, form, rest, text)?,
        Type::Sequence { element } => {
            let count = number(4, Form::Decimal, rest)? as u32;
            elements(element, count, form, rest, text)?;
        }
        Type::Stack { .. } => {
            let count = number(4, Form::Decimal, rest)? as u32;
            elements(&Type::Int { bytes: 8, signed: false }, count, form, rest, text)?;
        }
        Type::Struct { fields } => {
            text.push(b'{');
            for (index, (name, _, ty)) in fields.iter().enumerate() {
                let _ = write!(text, "{} {name} = ", if index == 0 { "" } else { "," });
                put(ty, form, rest, text)?;
            }
            text.extend_from_slice(b" }");
        }
    }
    Some(())
}

fn elements(element: &Type, count: u32, form: Form, rest: &mut &[u8], text: &mut Vec<u8>) -> Option<()> {
    if matches!(element, Type::Int { bytes: 1, .. }) && form == Form::Text {
        let characters = take(rest, count as usize)?;
        let end = characters.iter().position(|byte| *byte == 0).unwrap_or(characters.len());
        text.extend_from_slice(&characters[..end]);
        return Some(());
    }
    text.push(b'[');
    for index in 0..count {
        let _ = write!(text, "{} [{index}] = ", if index == 0 { "" } else { "," });
        put(element, form, rest, text)?;
    }
    text.extend_from_slice(b" ]");
    Some(())
}

/// The lowest bits are the value's.
fn integer(value: u64, bytes: u8, is_signed: bool, form: Form, text: &mut Vec<u8>) {
    let value = extended(value, bytes, is_signed && !form.is_hexadecimal());
    let _ = match (form.is_hexadecimal(), is_signed) {
        (true, _) => write!(text, "0x{value:X}"),
        (false, true) => write!(text, "{}", value as i64),
        (false, false) => write!(text, "{value}"),
    };
}

/// So many bytes, extended to eight as the sign says.
fn extended(value: u64, bytes: u8, is_signed: bool) -> u64 {
    let unused = 64 - 8 * u32::from(bytes.clamp(1, 8));
    match is_signed {
        true => (((value << unused) as i64) >> unused) as u64,
        false => value << unused >> unused,
    }
}

fn number(bytes: u8, form: Form, rest: &mut &[u8]) -> Option<u64> {
    let taken = take(rest, bytes.into())?;
    let mut word = [0; 8];
    let low = word.get_mut(..taken.len())?;
    low.copy_from_slice(taken);
    if form.is_network() {
        low.reverse();
    }
    Some(u64::from_le_bytes(word))
}

fn take<'a>(rest: &mut &'a [u8], bytes: usize) -> Option<&'a [u8]> {
    let (taken, left) = rest.split_at_checked(bytes)?;
    *rest = left;
    Some(taken)
}

#[cfg(test)]
mod tests {
    use super::*;

    const INT: Type = Type::Int { bytes: 4, signed: true };

    fn of(fields: &[(Type, Form)], bytes: &[u8]) -> Vec<String> {
        let field =
            |(ty, form): &(Type, Form)| Field { name: String::new(), ty: ty.clone(), slot: 0, form: *form };
        let fields: Vec<Field> = fields.iter().map(field).collect();
        texts(&fields, bytes).into_iter().map(|text| String::from_utf8(text).unwrap()).collect()
    }

    #[test]
    fn each_field_is_a_text() {
        let check = |ty: Type, form: Form, bytes: &[u8], wanted: &str| {
            assert_eq!(of(&[(ty.clone(), form)], bytes), [wanted], "{ty:?} {form:?}");
        };
        check(INT, Form::Decimal, &(-5i32).to_le_bytes(), "-5");
        check(INT, Form::Hexadecimal, &(-5i32).to_le_bytes(), "0xFFFFFFFB");
        check(Type::Int { bytes: 8, signed: false }, Form::Decimal, &[0xff; 8], "18446744073709551615");
        check(Type::Int { bytes: 2, signed: false }, Form::Network, &[1, 2], "258");
        check(Type::Float { bytes: 4 }, Form::Decimal, &(-0.5f32).to_le_bytes(), "-0.5");
        check(Type::Float { bytes: 8 }, Form::Decimal, &1e100f64.to_le_bytes(), "1e+100");
        check(Type::Str, Form::Decimal, b"a\"b\n\0", "a\"b\n");
        check(Type::Text, Form::Decimal, b"\0", "");
        let array =
            |bytes, count| Type::Array { element: Box::new(Type::Int { bytes, signed: false }), count };
        check(array(1, 5), Form::Text, b"ab\0cd", "ab");
        check(array(1, 2), Form::Decimal, &[1, 2], "[ [0] = 1, [1] = 2 ]");
        check(array(2, 2), Form::NetworkHexadecimal, &[0, 0xab, 1, 2], "[ [0] = 0xAB, [1] = 0x102 ]");
        let sequence = Type::Sequence { element: Box::new(INT) };
        check(sequence.clone(), Form::Decimal, &[0; 4], "[ ]");
        check(sequence, Form::Decimal, &[1, 0, 0, 0, 7, 0, 0, 0], "[ [0] = 7 ]");
        let stack = [&[1, 0, 0, 0][..], &0xabcu64.to_le_bytes()].concat();
        check(Type::Stack { frames: 3 }, Form::Hexadecimal, &stack, "[ [0] = 0xABC ]");
        let inner = Type::Struct { fields: vec![("z".to_owned(), 0, INT)] };
        let members =
            vec![("x".to_owned(), 8, Type::Int { bytes: 1, signed: true }), ("y".to_owned(), 0, inner)];
        check(
            Type::Struct { fields: members },
            Form::Decimal,
            &[0xff, 3, 0, 0, 0],
            "{ x = -1, y = { z = 3 } }",
        );
    }

    #[test]
    fn an_enumeration_is_its_label_or_its_number() {
        let labels = |signed| {
            let labels =
                vec![("LOW".to_owned(), -3, -1), ("ONE".to_owned(), 1, 1), ("FIRST".to_owned(), 1, 9)];
            Type::Enum { bytes: 1, signed, labels }
        };
        let check = |signed: bool, value: u8, wanted: &str| {
            assert_eq!(of(&[(labels(signed), Form::Decimal)], &[value]), [wanted], "{signed} {value}");
        };
        check(true, 0xff, "LOW");
        check(false, 0xff, "255");
        check(true, 1, "ONE");
        check(true, 9, "FIRST");
        check(true, 0, "0");
        check(true, 0x80, "-128");
    }

    #[test]
    fn bytes_that_are_no_fields_end_the_list() {
        let text = (Type::Str, Form::Decimal);
        assert_eq!(of(&[(INT, Form::Decimal), text.clone()], &[1, 0, 0, 0, b'a']), ["1"]);
        assert_eq!(of(&[(INT, Form::Decimal), text], &[1, 0, 0]), [""; 0]);
        let sequence = Type::Sequence { element: Box::new(Type::Int { bytes: 1, signed: false }) };
        assert_eq!(of(&[(sequence, Form::Text)], &[0xff; 9]), [""; 0]);
        assert_eq!(of(&[], b"more"), [""; 0]);
    }
}
