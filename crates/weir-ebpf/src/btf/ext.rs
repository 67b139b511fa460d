//! `.BTF.ext`: what each instruction comes from, and what has to be adapted to the running kernel.
//!
//! In: the section's bytes. Out: line rows and CO-RE relocations, each list by the code section that it is about.
//! Instructions are counted in slots from the start of that section; names and texts are offsets into the strings
//! of the `.BTF` beside it. Function information is not read: weir has no use for prototypes.

use crate::btf::{BtfError, Header, TypeId, word};

/// A parsed `.BTF.ext` section.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Ext {
    /// Per code section (offset of its name): its rows.
    pub lines: Vec<(u32, Vec<LineRow>)>,
    /// Per code section (offset of its name): its relocations.
    pub core: Vec<(u32, Vec<CoreRelocation>)>,
}

/// From `slot` on, instructions come from this line.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct LineRow {
    pub slot: u32,
    /// Offset of the file's name in the strings.
    pub file: u32,
    /// Offset of the line's text in the strings.
    pub text: u32,
    /// Counted from 1.
    pub line: u32,
    /// Counted from 1; 0 where the compiler did not say.
    pub column: u32,
}

/// A value in an instruction that depends on the kernel's own types.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CoreRelocation {
    pub slot: u32,
    pub ty: TypeId,
    /// Offset of the access string in the strings: `0:2:1`, the first an array index, then members.
    pub access: u32,
    /// What is asked: number of the kernel's `enum bpf_core_relo_kind`.
    pub kind: u32,
}

/// What CO-RE relocations ask, in the order of their numbers.
pub const CORE_KINDS: [&str; 12] = [
    "byte offset of a field",
    "byte size of a field",
    "existence of a field",
    "signedness of a field",
    "left shift of a bit field",
    "right shift of a bit field",
    "local type id",
    "target type id",
    "existence of a type",
    "size of a type",
    "existence of an enumerator",
    "value of an enumerator",
];

/// The kind whose answer the compiler knows and has already written: the number of a type in the object's own BTF.
pub const CORE_TYPE_ID_LOCAL: u32 = 6;

/// Bytes of the header with and without the CO-RE part.
const HEADER_BYTES_WITH_CORE: usize = 32;

/// Bytes of the header up to the lists of functions and of lines.
const WRITTEN_HEADER_BYTES: u32 = 24;

/// The bytes of a section that says of functions what `records` does (the size of a record, then the lists by section),
/// and nothing of lines.
pub fn section_of_functions(records: &[u8]) -> Vec<u8> {
    let mut bytes = crate::btf::MAGIC.to_le_bytes().to_vec();
    // Version 1, no flags.
    bytes.extend([1, 0]);
    let count = records.len() as u32;
    for field in [WRITTEN_HEADER_BYTES, 0, count, count, 0] {
        bytes.extend(field.to_le_bytes());
    }
    bytes.extend(records);
    bytes
}

impl Ext {
    /// Reads a `.BTF.ext` section.
    pub fn parse(bytes: &[u8]) -> Result<Ext, BtfError> {
        let header = Header::parse(bytes)?;
        let field = |at| word(bytes, at).unwrap_or(0) as usize;
        let lines = header.part(bytes, "line information", field(16), field(20))?;
        let lines = sections(lines, 4, |row| LineRow {
            slot: row[0] / 8,
            file: row[1],
            text: row[2],
            line: row[3] >> 10,
            column: row[3] & 0x3ff,
        })?;
        let core = if header.bytes() >= HEADER_BYTES_WITH_CORE { (field(24), field(28)) } else { (0, 0) };
        let core = header.part(bytes, "CO-RE relocations", core.0, core.1)?;
        let core = sections(core, 4, |row| CoreRelocation {
            slot: row[0] / 8,
            ty: row[1],
            access: row[2],
            kind: row[3],
        })?;
        Ok(Ext { lines, core })
    }
}

/// One part: bytes of a record, then per section its name, how many records, and the records, which may be longer
/// than the `words` that are known.
fn sections<T>(
    bytes: &[u8],
    words: usize,
    make: impl Fn(&[u32]) -> T,
) -> Result<Vec<(u32, Vec<T>)>, BtfError> {
    let cut_off = || BtfError("records of .BTF.ext are cut off".into());
    if bytes.is_empty() {
        return Ok(Vec::new());
    }
    let record_bytes = word(bytes, 0).ok_or_else(cut_off)? as usize;
    if record_bytes < words * 4 || !record_bytes.is_multiple_of(4) {
        return Err(BtfError(format!(
            "records of .BTF.ext have {record_bytes} bytes; at least {}",
            words * 4
        )));
    }
    let mut found = Vec::new();
    let mut rest = &bytes[4..];
    while !rest.is_empty() {
        let (Some(name), Some(count)) = (word(rest, 0), word(rest, 4)) else { return Err(cut_off()) };
        let bytes = (count as usize).checked_mul(record_bytes).ok_or_else(cut_off)?;
        let records = rest.get(8..).and_then(|rest| rest.get(..bytes)).ok_or_else(cut_off)?;
        let rows = records.chunks_exact(record_bytes).map(|record| {
            let row: Vec<u32> = (0..words).filter_map(|index| word(record, index * 4)).collect();
            make(&row)
        });
        found.push((name, rows.collect()));
        rest = &rest[8 + bytes..];
    }
    Ok(found)
}
