//! What fields are, by their descriptors.

use weir_event::schema::{Form, Type};

use crate::Field;
use crate::limits::LABELS_MAX;
use crate::memory::Memory;

/// `enum lttng_ust_type`, as far as fields of programs have them.
mod kind {
    pub(super) const INTEGER: u32 = 0;
    pub(super) const STRING: u32 = 1;
    pub(super) const FLOAT: u32 = 2;
    pub(super) const ENUM: u32 = 4;
    pub(super) const ARRAY: u32 = 5;
    pub(super) const SEQUENCE: u32 = 6;
}

/// Bits of a field's flags, and of an integer's.
const NOWRITE: u32 = 1;
const NOFILTER: u32 = 2;
const SIGNED: u16 = 1;
const REVERSED: u16 = 2;

/// `{u32 size; char *name; type *; unsigned nowrite:1, nofilter:1}`.
pub(crate) fn field(memory: &Memory<'_>, at: u64) -> Option<Field> {
    let (name, ty, flags) = (
        memory.name(memory.u64(at.wrapping_add(8))?)?,
        memory.u64(at.wrapping_add(16))?,
        memory.u32(at.wrapping_add(24))?,
    );
    let read = read(memory, ty);
    let (form, is_swapped) = match &read {
        Ok(read) => (read.form, read.is_swapped),
        Err(_) => (Form::default(), false),
    };
    Some(Field {
        name,
        ty: read.map(|read| read.ty),
        form,
        is_swapped,
        is_hidden: flags & NOWRITE != 0,
        is_unfiltered: flags & NOFILTER != 0,
    })
}

struct Read {
    ty: Type,
    form: Form,
    is_swapped: bool,
}

/// The type at `at`, which begins with its kind and its size. Err: why not.
fn read(memory: &Memory<'_>, at: u64) -> Result<Read, String> {
    let there = |found: Option<u32>| found.ok_or_else(unreadable);
    let plain = |ty| Ok(Read { ty, form: Form::Decimal, is_swapped: false });
    match there(memory.u32(at))? {
        kind::INTEGER => integer(memory, at),
        kind::STRING => plain(Type::Text),
        kind::FLOAT => {
            match (there(memory.u32(at.wrapping_add(8)))?, there(memory.u32(at.wrapping_add(12)))?) {
                (8, 24) => plain(Type::Float { bytes: 4 }),
                (11, 53) => plain(Type::Float { bytes: 8 }),
                (exponent, mantissa) => Err(format!("a float of {exponent} and {mantissa} bits")),
            }
        }
        kind::ENUM => {
            let (description, container) =
                (word(memory, at.wrapping_add(8))?, word(memory, at.wrapping_add(16))?);
            let Read { ty, form, is_swapped } = integer(memory, container)?;
            let Type::Int { bytes, signed } = ty else { return Err(unreadable()) };
            let labels = labels(memory, description)?;
            Ok(Read { ty: Type::Enum { bytes, signed, labels }, form, is_swapped })
        }
        kind::ARRAY => {
            let (element, count) = (
                element(memory, word(memory, at.wrapping_add(8))?)?,
                there(memory.u32(at.wrapping_add(16)))?,
            );
            let form = text_form(&element, there(memory.u32(at.wrapping_add(24)))?);
            Ok(Read { ty: Type::Array { element: Box::new(element.ty), count }, form, ..element })
        }
        kind::SEQUENCE => {
            let element = element(memory, word(memory, at.wrapping_add(16))?)?;
            let form = text_form(&element, there(memory.u32(at.wrapping_add(28)))?);
            Ok(Read { ty: Type::Sequence { element: Box::new(element.ty) }, form, ..element })
        }
        other => Err(format!("a type of kind {other}, which is not known")),
    }
}

/// `{…; u32 bits; u16 alignment; u16 signed:1, reversed:1; u32 base}`.
fn integer(memory: &Memory<'_>, at: u64) -> Result<Read, String> {
    let there = |found: Option<u32>| found.ok_or_else(unreadable);
    if there(memory.u32(at))? != kind::INTEGER {
        return Err("what should be an integer is none".into());
    }
    let (bits, base) = (there(memory.u32(at.wrapping_add(8)))?, there(memory.u32(at.wrapping_add(16)))?);
    let flags = memory.u16(at.wrapping_add(14)).ok_or_else(unreadable)?;
    let bytes = match bits {
        8 | 16 | 32 | 64 => (bits / 8) as u8,
        other => return Err(format!("an integer of {other} bits")),
    };
    let form = if base == 16 { Form::Hexadecimal } else { Form::Decimal };
    let ty = Type::Int { bytes, signed: flags & SIGNED != 0 };
    Ok(Read { ty, form, is_swapped: flags & REVERSED != 0 && bytes > 1 })
}

/// Of arrays and sequences: integers.
fn element(memory: &Memory<'_>, at: u64) -> Result<Read, String> {
    integer(memory, at).map_err(|why| format!("elements: {why}"))
}

/// An encoding but 0 means characters.
fn text_form(element: &Read, encoding: u32) -> Form {
    match element.ty {
        Type::Int { bytes: 1, .. } if encoding != 0 => Form::Text,
        _ => element.form,
    }
}

/// `{u32 size; char *name; entry **entries; unsigned count}`, and an entry is `{u32 size; {u64 value; unsigned signed} start, end; char
/// *name; unsigned options}`.
fn labels(memory: &Memory<'_>, at: u64) -> Result<Vec<(String, i64, i64)>, String> {
    let (entries, count) =
        (word(memory, at.wrapping_add(16))?, memory.u32(at.wrapping_add(24)).ok_or_else(unreadable)?);
    if u64::from(count) > LABELS_MAX {
        return Err(format!("an enumeration of {count} names; the limit is {LABELS_MAX}"));
    }
    let mut labels: Vec<(String, i64, i64)> = Vec::new();
    for index in 0..u64::from(count) {
        let entry = word(memory, entries.wrapping_add(8 * index))?;
        let (start, end) =
            (word(memory, entry.wrapping_add(8))? as i64, word(memory, entry.wrapping_add(24))? as i64);
        let is_auto = memory.u32(entry.wrapping_add(48)).ok_or_else(unreadable)? & AUTO != 0;
        let name = memory.name(word(memory, entry.wrapping_add(40))?).ok_or_else(unreadable)?;
        // One that only has a name follows the one before.
        let (start, end) = match (is_auto, labels.last()) {
            (true, Some((_, _, last))) => (last.wrapping_add(1), last.wrapping_add(1)),
            (true, None) => (0, 0),
            (false, _) => (start, end),
        };
        labels.push((name, start, end));
    }
    Ok(labels)
}

/// LTTNG_UST_ENUM_ENTRY_OPTION_IS_AUTO.
const AUTO: u32 = 1;

fn word(memory: &Memory<'_>, at: u64) -> Result<u64, String> {
    memory.u64(at).ok_or_else(unreadable)
}

fn unreadable() -> String {
    "a descriptor that cannot be read".into()
}
