//! Records of whole events: the fields as they lie in a packet of a trace, so that a reader copies and does not convert.
//!
//! | bytes | what |
//! |---|---|
//! | 4 | number of the event, an index into [`Schema::events`](crate::Schema::events); the highest bit, [`MARK`], is set where the record is marked |
//! | 4 | only of events of no fixed size: bytes of fields that follow. The record may be longer |
//! | | the fields, little-endian, one behind the other without gaps |
//!
//! | field | bytes |
//! |---|---|
//! | integer, enumeration, floating-point number | its own |
//! | string, text | its characters and a NUL, [`TEXT_BYTES_MAX`] at most; longer ones are cut there. A null pointer is `(null)` |
//! | array | its elements |
//! | sequence | a `u32` with the number of its elements, then these, up to [`SEQUENCE_BYTES_MAX`] |
//! | stack | a `u32` with the number of its addresses, then these |
//! | structure | its members |
//!
//! Memory that cannot be read is zeros, and counted; a string is empty then, and a sequence has no elements.

use crate::STACK_FRAMES_MAX;
use crate::schema::{Schema, Type};

/// Most bytes of a string, with its NUL. One less than a power of two: programs mask lengths.
pub const TEXT_BYTES_MAX: u32 = 1023;
/// Most bytes of the elements of a sequence: with their number below a power of two.
pub const SEQUENCE_BYTES_MAX: u32 = 4088;
/// Most bytes of a record. LIMIT: scratch memory of one program.
pub const RECORD_BYTES_MAX: u32 = 28 << 10;
/// Most bytes of memory that a structure is read from.
pub const STRUCT_SPAN_MAX: u32 = 4096;

/// In the first word of a record, beside the event's number: the record is marked. Programs mark what a reader has to find among all records.
pub const MARK: u32 = 1 << 31;

/// What a null pointer is as a string.
pub const NULL_TEXT: &str = "(null)";

/// Bytes before the fields.
pub fn header_bytes(event: &Schema) -> u32 {
    if is_fixed(event) { 4 } else { 8 }
}

/// Whether all records of the event have one size.
pub fn is_fixed(event: &Schema) -> bool {
    event.fields.iter().all(|field| bytes(&field.ty).0 == bytes(&field.ty).1)
}

/// The least and most bytes of a field of this type; sums that are too large are `u32::MAX`.
pub fn bytes(ty: &Type) -> (u32, u32) {
    let same = |bytes: u32| (bytes, bytes);
    match ty {
        Type::Int { bytes, .. } | Type::Float { bytes } | Type::Enum { bytes, .. } => same((*bytes).into()),
        Type::Str | Type::Text => (1, TEXT_BYTES_MAX),
        Type::Array { element, count } => {
            let (least, most) = bytes(element);
            (least.saturating_mul(*count), most.saturating_mul(*count))
        }
        Type::Sequence { .. } => (4, 4 + SEQUENCE_BYTES_MAX),
        Type::Stack { frames } => (4, frames.saturating_mul(8).saturating_add(4)),
        Type::Struct { fields } => fields.iter().fold(same(0), |(least, most), (_, _, ty)| {
            let of_member = bytes(ty);
            (least.saturating_add(of_member.0), most.saturating_add(of_member.1))
        }),
    }
}

/// Values that a field takes of those that an event is recorded with.
pub fn slots(ty: &Type) -> u8 {
    match ty {
        Type::Sequence { .. } => 2,
        Type::Stack { .. } => 0,
        _ => 1,
    }
}

/// The most bytes of a record of the event.
pub fn bytes_max(event: &Schema) -> u32 {
    let fields = event.fields.iter().map(|field| bytes(&field.ty).1);
    fields.fold(header_bytes(event), u32::saturating_add)
}

/// How far a structure with these members reaches behind its address.
pub fn span(members: &[(String, u32, Type)]) -> u32 {
    leaves(members).map(|(offset, ty)| offset.saturating_add(bytes(ty).1)).max().unwrap_or(0)
}

/// The members of a structure, and in their places those of structures within it, each with its offset in the whole.
pub fn leaves(members: &[(String, u32, Type)]) -> Box<dyn Iterator<Item = (u32, &Type)> + '_> {
    Box::new(members.iter().flat_map(|(_, offset, ty)| match ty {
        Type::Struct { fields } => {
            let within = leaves(fields).map(move |(within, ty)| (offset.saturating_add(within), ty));
            Box::new(within) as Box<dyn Iterator<Item = _>>
        }
        ty => Box::new(std::iter::once((*offset, ty))),
    }))
}

/// Why events of this schema cannot be recorded, if they cannot.
pub fn refusal(event: &Schema) -> Option<String> {
    let of_field = |ty: &Type| match ty {
        Type::Array { element, .. } | Type::Sequence { element } if !is_number(element) => {
            Some("its elements are no numbers".to_owned())
        }
        Type::Struct { fields } if !leaves(fields).all(|(_, ty)| is_number(ty)) => {
            Some("a member of it is no number".to_owned())
        }
        Type::Stack { frames } if *frames == 0 || *frames > STACK_FRAMES_MAX => {
            Some(format!("it has {frames} frames, not 1 to {STACK_FRAMES_MAX}"))
        }
        Type::Struct { fields } if span(fields) > STRUCT_SPAN_MAX => {
            Some(format!("it has {} bytes, the limit is {STRUCT_SPAN_MAX}", span(fields)))
        }
        _ => None,
    };
    let of_fields = event
        .fields
        .iter()
        .find_map(|field| Some(format!("field `{}`: {}", field.name, of_field(&field.ty)?)));
    let most = bytes_max(event);
    let too_long = || format!("a record of it may have {most} bytes, the limit is {RECORD_BYTES_MAX}");
    of_fields.or_else(|| (most > RECORD_BYTES_MAX).then(too_long))
}

fn is_number(ty: &Type) -> bool {
    matches!(ty, Type::Int { .. } | Type::Float { .. } | Type::Enum { .. })
}

/// Takes records apart, whoever wrote them.
#[derive(Clone, Debug)]
pub struct Reader {
    events: Vec<Shape>,
}

#[derive(Clone, Debug)]
enum Shape {
    Fixed { bytes: usize },
    Measured { fields: Vec<Type> },
}

impl Reader {
    /// Of the events of a recording, by their numbers.
    pub fn new(events: &[Schema]) -> Reader {
        let shape = |event: &Schema| match is_fixed(event) {
            true => Shape::Fixed { bytes: bytes_max(event) as usize },
            false => Shape::Measured { fields: event.fields.iter().map(|field| field.ty.clone()).collect() },
        };
        Reader { events: events.iter().map(shape).collect() }
    }

    /// The fields of a record, marked or not, with the event's number. `None` where they are not what the event has.
    #[inline]
    pub fn fields<'a>(&self, record: &'a [u8]) -> Option<(u32, &'a [u8])> {
        let number = word(record, 0)? & !MARK;
        let fields = match self.events.get(usize::try_from(number).ok()?)? {
            Shape::Fixed { bytes } => record.get(4..).filter(|_| record.len() == *bytes)?,
            Shape::Measured { fields: types } => {
                let all = record.get(8..)?.get(..word(record, 4)? as usize)?;
                let behind = types.iter().try_fold(all, |rest, ty| rest.get(length(ty, rest)?..))?;
                behind.is_empty().then_some(all)?
            }
        };
        Some((number, fields))
    }
}

/// Whether the record is marked.
#[inline]
pub fn is_marked(record: &[u8]) -> bool {
    word(record, 0).is_some_and(|number| number & MARK != 0)
}

/// Bytes of the field that begins here.
fn length(ty: &Type, rest: &[u8]) -> Option<usize> {
    match ty {
        Type::Str | Type::Text => Some(rest.iter().position(|byte| *byte == 0)? + 1),
        Type::Sequence { element } => {
            let elements = usize::try_from(word(rest, 0)?).ok()?;
            elements.checked_mul(bytes(element).1 as usize)?.checked_add(4)
        }
        Type::Stack { frames } => {
            let addresses = word(rest, 0).filter(|addresses| addresses <= frames)?;
            Some(4 + 8 * addresses as usize)
        }
        fixed => Some(bytes(fixed).1 as usize),
    }
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::{Field, Form};

    fn event(types: &[Type]) -> Schema {
        let field = |(slot, ty): (usize, &Type)| Field {
            name: format!("f{slot}"),
            ty: ty.clone(),
            slot: slot as u8,
            form: Form::Decimal,
        };
        Schema { fields: types.iter().enumerate().map(field).collect(), ..Schema::default() }
    }

    const LONG: Type = Type::Int { bytes: 8, signed: true };

    #[test]
    fn numbers_have_a_fixed_size_and_texts_have_not() {
        let int = Type::Int { bytes: 4, signed: true };
        let array = Type::Array { element: Box::new(LONG), count: 3 };
        let fixed = event(&[int.clone(), LONG, array]);
        assert_eq!((is_fixed(&fixed), bytes_max(&fixed)), (true, 4 + 4 + 8 + 24));
        let sequence = Type::Sequence { element: Box::new(LONG) };
        let texts = event(&[int, Type::Text, sequence]);
        assert_eq!((is_fixed(&texts), bytes_max(&texts)), (false, 8 + 4 + 1023 + 4 + 4088));
    }

    #[test]
    fn what_is_too_long_or_no_number_is_refused() {
        let check = |ty: Type, want: Option<&str>| {
            let refusal = refusal(&event(std::slice::from_ref(&ty)));
            assert_eq!(refusal.as_deref(), want, "{ty:?}");
        };
        check(Type::Text, None);
        let member = |offset, ty| vec![("m".to_owned(), offset, ty)];
        check(Type::Struct { fields: member(4000, LONG) }, None);
        let far = Some("field `f0`: it has 5008 bytes, the limit is 4096");
        check(Type::Struct { fields: member(5000, LONG) }, far);
        check(Type::Struct { fields: member(0, Type::Str) }, Some("field `f0`: a member of it is no number"));
        let within =
            |offset, ty| Type::Struct { fields: member(8, Type::Struct { fields: member(offset, ty) }) };
        check(within(4080, LONG), None);
        check(within(4081, LONG), Some("field `f0`: it has 4097 bytes, the limit is 4096"));
        check(within(0, Type::Str), Some("field `f0`: a member of it is no number"));
        let of_texts = Type::Array { element: Box::new(Type::Str), count: 2 };
        check(of_texts, Some("field `f0`: its elements are no numbers"));
        let long = Type::Array { element: Box::new(LONG), count: u32::MAX };
        check(long, Some("a record of it may have 4294967295 bytes, the limit is 28672"));
    }

    #[test]
    fn records_that_are_not_as_their_event_are_none() {
        let sequence = Type::Sequence { element: Box::new(Type::Int { bytes: 2, signed: false }) };
        let reader = Reader::new(&[event(&[LONG]), event(&[Type::Text]), event(&[sequence, Type::Text])]);
        let record = |words: &[u32], rest: &[u8]| {
            let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
            [bytes, rest.to_vec()].concat()
        };
        let check = |record: &[u8], want: Option<(u32, &[u8])>| assert_eq!(reader.fields(record), want);
        check(&record(&[0], b"12345678"), Some((0, b"12345678")));
        check(&record(&[0], b"123456789"), None);
        check(&record(&[0], b"1234567"), None);
        check(&record(&[1, 2], b"a\0beyond"), Some((1, b"a\0")));
        check(&record(&[1, 9], b"a\0beyond"), None);
        check(&record(&[1, 3], b"a\0\0beyond"), None);
        check(&record(&[1, 2], b"ab\0"), None);
        check(&record(&[2, 10, 2], b"1234x\0beyond"), Some((2, b"\x02\0\0\x001234x\0")));
        check(&record(&[2, 10, u32::MAX], b"1234x\0beyond"), None);
        let reader = Reader::new(&[event(&[Type::Stack { frames: 2 }, LONG])]);
        let check = |record: &[u8], want: Option<(u32, &[u8])>| assert_eq!(reader.fields(record), want);
        let stack = [&[1, 0, 0, 0][..], b"address.", b"12345678"].concat();
        check(&record(&[0, 20], &stack), Some((0, &stack)));
        check(
            &record(&[0, 12], &[&[0, 0, 0, 0][..], b"12345678"].concat()),
            Some((0, b"\0\0\0\x0012345678")),
        );
        check(&record(&[0, 19], &stack), None);
        check(&record(&[0, 36], &[&[3, 0, 0, 0][..], &[7; 32]].concat()), None);
        check(&record(&[3], b"12345678"), None);
        check(b"\0\0\0", None);
    }

    #[test]
    fn a_marked_record_has_the_same_fields() {
        let reader = Reader::new(&[event(&[LONG]), event(&[Type::Text])]);
        let record = |number: u32, rest: &[u8]| [&number.to_le_bytes()[..], rest].concat();
        for (event, rest, fields) in [(0, &b"12345678"[..], &b"12345678"[..]), (1, b"\x02\0\0\0a\0", b"a\0")]
        {
            for (number, wanted) in [(event, false), (event | MARK, true)] {
                let record = record(number, rest);
                assert_eq!((reader.fields(&record), is_marked(&record)), (Some((event, fields)), wanted));
            }
        }
        assert_eq!(reader.fields(&record(2 | MARK, b"12345678")), None);
        assert!(!is_marked(b"\0\0\0"));
    }
}
