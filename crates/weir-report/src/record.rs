//! Records: the bytes that a program left in the ring, decoded by their schema.
//!
//! In: a [`Schema`] and one record, with its header. Out: what it asks for. The layout is weir-event's. Bytes
//! come from a segment that the traced process can write: whatever does not fit is [`Malformed`].

use weir_event::{Action, Field, PrintTo, RECORD_HEADER_BYTES, Schema, Type};

use crate::names::{Names, Seen, Symbols};
use crate::printf::{self, Piece, Spec};
use crate::text::Texts;
use crate::value::{Malformed, Value, until_nul, word};

/// What one record asks its reader to do.
#[derive(Clone, PartialEq, Debug)]
pub enum Decoded<'s> {
    /// `printf`, and what formats as it does.
    Printf {
        /// What becomes of the text.
        to: &'s PrintTo,
        /// Without control characters where the report is text, unless it is a command.
        text: &'s [u8],
    },
    /// `print` of a value.
    PrintValue {
        /// It.
        value: Value,
    },
    /// `print` of a map.
    PrintMap {
        /// Index in the schema.
        map: usize,
        /// So many entries with the greatest values; 0: all.
        top: u64,
        /// Values are divided by it; 0 and 1: they are not.
        div: u64,
    },
    /// `print` of one entry of a map.
    PrintMapKey {
        /// Index in the schema.
        map: usize,
        /// As the map has it.
        key: Vec<u8>,
    },
    /// `clear`.
    ClearMap {
        /// Index in the schema.
        map: usize,
    },
    /// `zero`.
    ZeroMap {
        /// Index in the schema.
        map: usize,
    },
    /// `time`.
    Time {
        /// As strftime(3) has it.
        format: &'s str,
    },
    /// `join`.
    Join {
        /// All of them, with the separator between.
        text: Vec<u8>,
    },
    /// A loop had as many rounds as a run may have.
    LoopEnded {
        /// The clause's probes.
        clause: &'s str,
        /// Of the loop, in the script.
        line: u32,
    },
    /// `exit`.
    Exit {
        /// The exit code that it asks for.
        code: i64,
    },
}

/// Reads the records of one schema. What is the same for all of an action is made once: they may come by millions a second.
#[derive(Debug)]
pub struct Records {
    /// Of each action that formats.
    formats: Vec<Option<Format>>,
    /// What was formatted last.
    text: Vec<u8>,
}

impl Records {
    /// For a report in this format.
    pub fn new(schema: &Schema, format: crate::Format) -> Records {
        let shown = if format == crate::Format::Text { Texts::Escaped } else { Texts::Raw };
        let format_of = |action: &Action| match action {
            Action::Printf { to, format, args } => {
                let texts = if *to == PrintTo::Command { Texts::Raw } else { shown };
                let is_printed = *to == PrintTo::Output;
                Some(Format { is_printed, ..Format::new(format, args, texts) })
            }
            _ => None,
        };
        Records { formats: schema.actions.iter().map(format_of).collect(), text: Vec::new() }
    }

    /// The text of a record that prints some, as [`Records::read`] has it; `None` of any other.
    #[inline]
    pub fn printed(&mut self, schema: &Schema, bytes: &[u8], symbols: &dyn Symbols) -> Option<&[u8]> {
        let format = self.formats.get(header(bytes).ok()? as usize)?.as_ref();
        let format = format.filter(|format| format.is_printed)?;
        self.text.clear();
        format.write(&mut self.text, bytes, names(schema, symbols)).ok()?;
        Some(&self.text)
    }

    /// Decodes the bytes of one record of the schema.
    pub fn read<'s>(
        &'s mut self,
        schema: &'s Schema,
        bytes: &[u8],
        symbols: &dyn Symbols,
    ) -> Result<Decoded<'s>, Malformed> {
        let names = names(schema, symbols);
        let number = header(bytes)?;
        let index = usize::try_from(number).unwrap_or(usize::MAX);
        let actions = schema.actions.len();
        let action = schema.actions.get(index).ok_or(Malformed::Action { index: number, actions })?;
        match (action, self.formats.get(index)) {
            (Action::Printf { to, .. }, Some(Some(format))) => {
                self.text.clear();
                format.write(&mut self.text, bytes, names)?;
                Ok(Decoded::Printf { to, text: &self.text })
            }
            _ => decoded(schema, action, bytes, names),
        }
    }
}

fn names<'a>(schema: &'a Schema, symbols: &'a dyn Symbols) -> Names<'a> {
    Names { sites: &schema.sites, types: &schema.types, symbols, seen: Seen::Now }
}

/// A format, and where its arguments are.
#[derive(Debug)]
struct Format {
    steps: Vec<Step>,
    texts: Texts,
    /// What it makes goes to the output.
    is_printed: bool,
}

/// What a format consists of. Offsets are those of records.
#[derive(Debug)]
enum Step {
    Text(Vec<u8>),
    Integer {
        spec: Spec,
        at: usize,
    },
    Str {
        spec: Spec,
        at: usize,
        end: usize,
    },
    /// Any other.
    Value {
        spec: Spec,
        field: Field,
    },
}

impl Format {
    fn new(format: &str, fields: &[Field], texts: Texts) -> Format {
        let step = |piece| match piece {
            Piece::Text(text) => Step::Text(text),
            Piece::Argument(spec, number) => {
                let field: &Field = &fields[number];
                let at = field.offset as usize;
                match &field.ty {
                    _ if field.offset < RECORD_HEADER_BYTES => Step::Value { spec, field: field.clone() },
                    Type::Int { .. } if spec.is_of_integers() => Step::Integer { spec, at },
                    ty @ Type::Str { .. } => Step::Str { spec, at, end: at + ty.bytes() as usize },
                    _ => Step::Value { spec, field: field.clone() },
                }
            }
        };
        let steps = printf::pieces(format, fields.len()).into_iter().map(step).collect();
        Format { steps, texts, is_printed: false }
    }

    /// Appends what it makes of a record.
    fn write(&self, out: &mut Vec<u8>, bytes: &[u8], names: Names<'_>) -> Result<(), Malformed> {
        for step in &self.steps {
            match step {
                Step::Text(text) => out.extend_from_slice(text),
                Step::Integer { spec, at } => spec.write_integer(out, word(part(bytes, *at, at + 8)?, 0)?),
                Step::Str { spec, at, end } => {
                    spec.write_text(out, until_nul(text(bytes, *at, *end)?), self.texts);
                }
                Step::Value { spec, field } => spec.write(out, &value(names, bytes, field)?, self.texts),
            }
        }
        Ok(())
    }
}

/// What an action that formats nothing asks for.
fn decoded<'s>(
    schema: &'s Schema,
    action: &'s Action,
    bytes: &[u8],
    names: Names<'_>,
) -> Result<Decoded<'s>, Malformed> {
    Ok(match action {
        // Each has a format.
        Action::Printf { .. } => return Err(Malformed::Field { offset: 0 }),
        Action::PrintValue { value: field } => Decoded::PrintValue { value: value(names, bytes, field)? },
        Action::PrintMap { map, top, div } => {
            Decoded::PrintMap { map: known(schema, *map)?, top: *top, div: *div }
        }
        Action::PrintMapKey { map, key } => {
            Decoded::PrintMapKey { map: known(schema, *map)?, key: field_bytes(bytes, key)?.to_vec() }
        }
        Action::ClearMap { map } => Decoded::ClearMap { map: known(schema, *map)? },
        Action::ZeroMap { map } => Decoded::ZeroMap { map: known(schema, *map)? },
        Action::Time { format } => Decoded::Time { format },
        Action::Join { separator, strings } => {
            Decoded::Join { text: joined(field_bytes(bytes, strings)?, separator)? }
        }
        Action::LoopEnded { clause, line } => Decoded::LoopEnded { clause, line: *line },
        Action::Exit { code: None } => Decoded::Exit { code: 0 },
        Action::Exit { code: Some(field) } => {
            let code = value(names, bytes, field)?.number().unwrap_or(0);
            Decoded::Exit { code: code as i64 }
        }
    })
}

/// Strings that lie one after the other behind their number. Those that are not there any more are left out.
fn joined(bytes: &[u8], separator: &str) -> Result<Vec<u8>, Malformed> {
    let count = usize::try_from(word(bytes, 0)?).unwrap_or(usize::MAX);
    let strings = bytes[8..].split(|byte| *byte == 0).take(count);
    Ok(strings.collect::<Vec<_>>().join(separator.as_bytes()))
}

/// The action index; the word after it is zero.
fn header(bytes: &[u8]) -> Result<u32, Malformed> {
    let need = RECORD_HEADER_BYTES as usize;
    let header = bytes.get(..need).ok_or(Malformed::Short { need, have: bytes.len() })?;
    // SANITY: the header has 8 bytes.
    let half = |at: usize| u32::from_le_bytes(header[at..at + 4].try_into().expect("4 bytes"));
    match half(4) {
        0 => Ok(half(0)),
        word => Err(Malformed::Header { word }),
    }
}

fn value(names: Names<'_>, bytes: &[u8], field: &Field) -> Result<Value, Malformed> {
    Value::decode(&field.ty, field_bytes(bytes, field)?, names)
}

fn field_bytes<'b>(bytes: &'b [u8], field: &Field) -> Result<&'b [u8], Malformed> {
    if field.offset < RECORD_HEADER_BYTES {
        return Err(Malformed::Field { offset: field.offset });
    }
    let at = field.offset as usize;
    let end = at + field.ty.bytes() as usize;
    if let Type::Str { .. } = field.ty { text(bytes, at, end) } else { part(bytes, at, end) }
}

fn part(bytes: &[u8], at: usize, end: usize) -> Result<&[u8], Malformed> {
    bytes.get(at..end).ok_or(Malformed::Short { need: end, have: bytes.len() })
}

/// A string; a record may end with the NUL of its last one.
fn text(bytes: &[u8], at: usize, end: usize) -> Result<&[u8], Malformed> {
    match bytes.get(at..).filter(|rest| at + rest.len() < end) {
        Some(rest @ [.., 0]) => Ok(rest),
        _ => part(bytes, at, end),
    }
}

fn known(schema: &Schema, map: usize) -> Result<usize, Malformed> {
    let maps = schema.maps.len();
    if map < maps { Ok(map) } else { Err(Malformed::Map { map, maps }) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::names::{NO_TYPES, NoSymbols};

    fn schema() -> Schema {
        let number = Field { offset: 8, ty: Type::I64 };
        let text = Field { offset: 16, ty: Type::Str { bytes: 8 } };
        let actions = vec![
            Action::Printf {
                to: PrintTo::Output,
                format: "%d %s\n".to_string(),
                args: vec![number.clone(), text],
            },
            Action::Exit { code: Some(number.clone()) },
            Action::Exit { code: None },
            Action::PrintMap { map: 0, top: 0, div: 0 },
            Action::PrintValue { value: Field { offset: 0, ty: Type::I64 } },
        ];
        Schema { actions, ..Schema::default() }
    }

    fn bytes(action: u32, fields: &[u8]) -> Vec<u8> {
        [&action.to_le_bytes()[..], &[0; 4], fields].concat()
    }

    fn check(bytes: &[u8], want: Result<Decoded<'_>, Malformed>) {
        let schema = schema();
        let mut records = Records::new(&schema, crate::Format::Text);
        assert_eq!(records.read(&schema, bytes, &NoSymbols), want, "{bytes:?}");
    }

    #[test]
    fn fields_are_read_at_their_offsets() {
        let fields = [&(-2i64).to_le_bytes()[..], b"ab\0\0\0\0\0\0"].concat();
        check(&bytes(0, &fields), Ok(Decoded::Printf { to: &PrintTo::Output, text: b"-2 ab\n" }));
        check(&bytes(1, &7i64.to_le_bytes()), Ok(Decoded::Exit { code: 7 }));
        // With all of its last string, and with what it has of it.
        for (text, want) in [(&b"ab\0"[..], "1 ab\n"), (b"\0", "1 \n"), (b"a\0b\0", "1 a\n")] {
            let fields = [&1i64.to_le_bytes()[..], text].concat();
            let text = want.as_bytes();
            check(&bytes(0, &fields), Ok(Decoded::Printf { to: &PrintTo::Output, text }));
        }
        check(&bytes(2, &[]), Ok(Decoded::Exit { code: 0 }));
    }

    /// Numbers and strings are formatted out of the record.
    #[test]
    fn fields_are_formatted_as_their_values() {
        let types = [Type::I64, Type::Int { signed: false }, Type::Str { bytes: 8 }];
        let record: &[&[u8]] =
            &[&7u64.to_le_bytes(), &u64::MAX.to_le_bytes(), &300u64.to_le_bytes(), b"a\nb\x80\0\0\0\0"];
        let names = Names { sites: &[], types: &NO_TYPES, symbols: &NoSymbols, seen: Seen::Now };
        for conversion in ["d", "i", "u", "x", "X", "o", "c", "s", "p", "f", "g", "r", "hhd", "hu", "llx"] {
            for flags in ["", "-9", "09", "+", " ", "#", ".2", "9.3", ".0"] {
                let text = format!("[%{flags}{conversion}]%% %d");
                for (ty, word) in types.iter().flat_map(|ty| record.iter().map(move |word| (ty, *word))) {
                    let bytes = bytes(0, word);
                    let field = Field { offset: 8, ty: ty.clone() };
                    let mut out = Vec::new();
                    let format = Format::new(&text, &[field], Texts::Escaped);
                    format.write(&mut out, &bytes, names).unwrap();
                    let value = Value::decode(ty, word, names).unwrap();
                    let want = printf::format(&text, &[value], Texts::Escaped);
                    assert_eq!(out, want, "{text} of {ty:?} {word:?}");
                }
            }
        }
    }

    #[test]
    fn strings_are_joined_as_many_as_there_are() {
        let check = |count: u64, text: &[u8], want: &[u8]| {
            let bytes = [&count.to_le_bytes()[..], text].concat();
            assert_eq!(joined(&bytes, ", ").as_deref(), Ok(want), "{count} of {text:?}");
        };
        check(2, b"ls\0-l\0\0\0", b"ls, -l");
        check(3, b"a\0\0b\0\0\0\0", b"a, , b");
        check(0, b"\0\0\0\0\0\0\0\0", b"");
        check(u64::MAX, b"cut off!", b"cut off!");
        assert_eq!(joined(&[0; 7], ""), Err(Malformed::Short { need: 8, have: 7 }));
    }

    #[test]
    fn what_does_not_fit_the_schema_is_malformed() {
        check(&[], Err(Malformed::Short { need: 8, have: 0 }));
        check(&bytes(0, &[0; 8]), Err(Malformed::Short { need: 24, have: 16 }));
        check(&bytes(5, &[]), Err(Malformed::Action { index: 5, actions: 5 }));
        check(&bytes(u32::MAX, &[]), Err(Malformed::Action { index: u32::MAX, actions: 5 }));
        check(&bytes(0, &[1; 15]), Err(Malformed::Short { need: 24, have: 23 }));
        check(&bytes(3, &[]), Err(Malformed::Map { map: 0, maps: 0 }));
        check(&bytes(4, &[0; 8]), Err(Malformed::Field { offset: 0 }));
        check(&[0, 0, 0, 0, 1, 0, 0, 0], Err(Malformed::Header { word: 1 }));
    }

    #[test]
    fn any_bytes_decode_or_are_refused() {
        // A linear congruential generator with a fixed seed: the same 20,000 records on every run.
        let mut state = 0x9e37_79b9_7f4a_7c15u64;
        let mut next = move || {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (state >> 33) as u8
        };
        let schema = schema();
        let mut records = Records::new(&schema, crate::Format::Json);
        for round in 0..20_000 {
            let mut bytes: Vec<u8> = (0..next() % 40).map(|_| next()).collect();
            if round % 2 == 0 && bytes.len() >= 8 {
                bytes[0] %= 6;
                bytes[1..8].fill(0);
            }
            let _ = records.read(&schema, &bytes, &NoSymbols);
        }
    }
}
