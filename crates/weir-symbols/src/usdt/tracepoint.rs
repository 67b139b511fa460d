//! The second note of a tracepoint, `.note.weir`: names and types of its fields, and its level (docs/tracepoint-format.md).
//!
//! In: descriptors of version 1, the place that each is about, and the file for the tables that they name. Out: a
//! [`Schema`], each field's slot being the argument of the probe that holds it. Where the probe has one argument, the address of
//! a row of words, its arguments become those words. Guaranteed: the fields take all arguments of the probe, in their order, and sizes
//! and signs of numbers agree; names are short and printable; all tables together are read at most
//! `TABLE_BYTES_PER_FILE_BYTE_MAX` times the file. What is not so has no schema.

use weir_event::schema::{Field, Form, Level, Schema, Type};

use crate::LinkAddr;
use crate::layout::{Layout, name_at};
use crate::limits::{PROBE_NAME_BYTES_MAX, ROW_WORDS_MAX, TABLE_BYTES_PER_FILE_BYTE_MAX, TABLE_ROWS_MAX};
use crate::usdt::isa::native::operand::row_word;
use crate::usdt::{Argument, StaticProbe, printable};

pub(super) const OWNER: &[u8] = b"weir\0";
/// The type of a note is the version of its format.
pub(super) const VERSION: u32 = 1;

/// In the byte after the level: the probe's one argument is the address of a row of words, which the fields take.
const IN_ROW: u8 = 1;
/// Structs within structs, so deep at most.
const NESTED_MAX: usize = 8;
const HEADER_BYTES: usize = 16;
const RECORD_BYTES: usize = 16;
const ROW_BYTES: usize = 64;
const ROW_NAME: usize = 16;

/// Reads notes of one file.
pub(super) struct Reader<'a> {
    data: &'a [u8],
    layout: &'a Layout,
    /// Rows of tables that may still be read.
    rows_left: usize,
}

/// The address of the place that a note is about, as it stands in the file.
pub(super) fn place(descriptor: &[u8]) -> Option<u64> {
    word(descriptor, 0)
}

impl<'a> Reader<'a> {
    pub(super) fn new(data: &'a [u8], layout: &'a Layout) -> Reader<'a> {
        Reader { data, layout, rows_left: data.len() / ROW_BYTES * TABLE_BYTES_PER_FILE_BYTE_MAX }
    }

    /// What the note says of `probe`, and its arguments; `None` where it is broken, or is about other arguments. The file has been
    /// moved by `moved` since the note was written.
    pub(super) fn schema(
        &mut self,
        descriptor: &[u8],
        probe: &StaticProbe,
        moved: u64,
    ) -> Option<(Schema, Vec<Argument>)> {
        let (level, is_row) = (Level::new(*descriptor.get(8)?)?, *descriptor.get(9)? == IN_ROW);
        let mut rest = descriptor.get(HEADER_BYTES..)?;
        let (mut fields, mut arguments, mut words) = (Vec::new(), probe.arguments.iter(), Vec::new());
        let row = match (is_row, &probe.arguments[..]) {
            (false, _) => None,
            (true, [row]) => Some(row),
            (true, _) => return None,
        };
        let mut slot = 0;
        while !rest.is_empty() {
            let (record, name, behind) = Record::split(rest)?;
            let ty = self.ty(&record, moved)?;
            let slots = if record.kind == Kind::Sequence { 2 } else { 1 };
            for _ in 0..slots {
                let argument = match row {
                    Some(row) if words.len() < ROW_WORDS_MAX => {
                        row_word(row, words.len() as u64, passed(&ty))?
                    }
                    Some(_) => return None,
                    None => arguments.next().filter(|argument| fits(&ty, argument))?.clone(),
                };
                words.push(Argument {
                    is_float: argument.is_float | matches!(ty, Type::Float { .. }),
                    ..argument
                });
            }
            fields.push(Field { name: name.to_owned(), ty, slot, form: record.form()? });
            (slot, rest) = (slot + slots, behind);
        }
        (row.is_some() || arguments.next().is_none()).then(|| {
            let (provider, event) = (probe.provider.clone(), probe.name.clone());
            (Schema { provider, event, level: Some(level), fields }, words)
        })
    }

    fn ty(&mut self, record: &Record, moved: u64) -> Option<Type> {
        let element = || number(record.form, record.bytes).map(Box::new);
        let table = LinkAddr(record.table.wrapping_add(moved));
        Some(match record.kind {
            Kind::Number => number(record.form, record.bytes)?,
            Kind::String => Type::Text,
            Kind::Array => Type::Array { element: element()?, count: record.count },
            Kind::Sequence => Type::Sequence { element: element()? },
            Kind::Enumeration => {
                let Type::Int { bytes, signed } = number(record.form, record.bytes)? else { return None };
                let label = |row: Row| Some((row.name, row.words[0] as i64, row.words[1] as i64));
                Type::Enum { bytes, signed, labels: self.rows(table, label)? }
            }
            Kind::Struct => {
                let member = |row: Row| {
                    let [low, form, rest @ ..] = row.words[1].to_le_bytes();
                    let ty = number(form, low as i8).filter(|_| rest == [0; 6])?;
                    Some((row.name, u32::try_from(row.words[0]).ok()?, ty))
                };
                nested(self.rows(table, member)?, NESTED_MAX)?
            }
        })
    }

    /// The rows of the table at `address`, up to the one without a name.
    fn rows<T>(&mut self, address: LinkAddr, read: impl Fn(Row) -> Option<T>) -> Option<Vec<T>> {
        let segment = self.layout.segments.iter().find(|s| s.holds(address))?;
        let skip = address.0 - segment.address.0;
        let start = segment.offset.0 + skip;
        let bytes = self.data.get(start as usize..(start + segment.file_bytes - skip) as usize)?;
        let mut out = Vec::new();
        for row in bytes.chunks_exact(ROW_BYTES).take(TABLE_ROWS_MAX) {
            self.rows_left = self.rows_left.checked_sub(1)?;
            let name = row[ROW_NAME..].split(|byte| *byte == 0).next().unwrap_or_default();
            if name.is_empty() {
                return Some(out);
            }
            let name = printable(name)?.to_owned();
            out.push(read(Row { words: [word(row, 0)?, word(row, 8)?], name })?);
        }
        None
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Number,
    String,
    Array,
    Sequence,
    Enumeration,
    Struct,
}

struct Record {
    kind: Kind,
    form: u8,
    bytes: i8,
    count: u32,
    /// A link address.
    table: u64,
}

impl Record {
    /// The first record of `bytes`, its field's name, and what is behind them.
    fn split(bytes: &[u8]) -> Option<(Record, &str, &[u8])> {
        let kind = match bytes.first()? {
            1 => Kind::Number,
            2 => Kind::String,
            3 => Kind::Array,
            4 => Kind::Sequence,
            5 => Kind::Enumeration,
            6 => Kind::Struct,
            _ => return None,
        };
        let count = u32::from_le_bytes(bytes.get(4..8)?.try_into().ok()?);
        let record =
            Record { kind, form: *bytes.get(1)?, bytes: *bytes.get(2)? as i8, count, table: word(bytes, 8)? };
        let name = name_at(bytes, RECORD_BYTES as u64)?;
        let behind = bytes.get(RECORD_BYTES + name.len() + 1..)?;
        let name = printable(name).filter(|name| !name.is_empty() && name.len() <= PROBE_NAME_BYTES_MAX)?;
        Some((record, name, behind))
    }

    /// `None` where it is none of what it is the form of.
    fn form(&self) -> Option<Form> {
        let has_elements = matches!(self.kind, Kind::Array | Kind::Sequence);
        match self.form {
            0 | 2 => Some(Form::Decimal),
            1 => Some(Form::Hexadecimal),
            3 if has_elements && self.bytes.unsigned_abs() == 1 => Some(Form::Text),
            _ => None,
        }
    }
}

/// A row of a table.
struct Row {
    words: [u64; 2],
    name: String,
}

/// The type of a number of this form, and of so many bytes, negative for signed ones.
fn number(form: u8, bytes: i8) -> Option<Type> {
    match (form, bytes.unsigned_abs()) {
        (2, bytes @ (4 | 8)) => Some(Type::Float { bytes }),
        (0 | 1 | 3, size @ (1 | 2 | 4 | 8)) => Some(Type::Int { bytes: size, signed: bytes < 0 }),
        _ => None,
    }
}

/// A struct of these members. Those whose names begin with one name and a dot are those of a struct within it, and follow one another. None where
/// such a struct has a name that is there twice.
fn nested(members: Vec<(String, u32, Type)>, depth: usize) -> Option<Type> {
    let mut fields: Vec<(String, u32, Type)> = Vec::new();
    let mut members = members.into_iter().peekable();
    while let Some((name, offset, ty)) = members.next() {
        let Some((outer, inner)) = name.split_once('.') else {
            if name.is_empty() {
                return None;
            }
            fields.push((name, offset, ty));
            continue;
        };
        if outer.is_empty() {
            return None;
        }
        let mut within = vec![(inner.to_owned(), offset, ty)];
        let is_next =
            |(name, ..): &(String, u32, Type)| name.split_once('.').is_some_and(|(of, _)| of == outer);
        while let Some((name, offset, ty)) = members.next_if(is_next) {
            within.push((name[outer.len() + 1..].to_owned(), offset, ty));
        }
        let first = within.iter().map(|(_, offset, _)| *offset).min()?;
        within.iter_mut().for_each(|(_, offset, _)| *offset -= first);
        fields.push((outer.to_owned(), first, nested(within, depth.checked_sub(1)?)?));
    }
    let mut names: Vec<(&str, bool)> =
        fields.iter().map(|(name, _, ty)| (name.as_str(), matches!(ty, Type::Struct { .. }))).collect();
    names.sort_unstable();
    if names.windows(2).any(|two| two[0].0 == two[1].0 && two[1].1) {
        return None;
    }
    Some(Type::Struct { fields })
}

/// Size and sign of an argument that a field of this type takes.
fn passed(ty: &Type) -> (u8, bool) {
    match *ty {
        Type::Int { bytes, signed } | Type::Enum { bytes, signed, .. } => (bytes, signed),
        Type::Float { bytes } => (bytes, false),
        _ => (8, false),
    }
}

/// Whether an argument is such as a field of this type takes.
fn fits(ty: &Type, argument: &Argument) -> bool {
    let (bytes, signed) = passed(ty);
    argument.bytes == bytes && (ty.integer().is_none() || argument.signed == signed)
}

fn word(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(bytes.get(at..at.checked_add(8)?)?.try_into().ok()?))
}
