//! Finds what a stripped binary lacks in the separate file that its distribution keeps it in, and reads debug sections.
//!
//! In: a [`Wanted`]: a binary's build id, its `.gnu_debuglink`, and roots to look in. Out: [`DebugSymbols`], the symbol table and its
//! strings, or debug sections, decompressed; or nothing. Looked for is, as gdb does:
//!
//! - `usr/lib/debug/.build-id/ab/cdef….debug` in each root, where packages (`-dbgsym`, `-dbg`, `-debuginfo`) put it; it must have
//!   the same build id;
//! - the file that `.gnu_debuglink` names, beside the binary, in `.debug` beside it, and below `usr/lib/debug` of each root in the folder that the binary
//!   is in; its CRC must be the one that the link has.
//!
//! Only headers, the symbol table and sections that are asked for are read: the rest may be a gigabyte. Sections that are
//! compressed with zlib (ELF's `SHF_COMPRESSED`) are decompressed, in bounds: what they become is at most so many times what they are.
//!
//! Deliberately not here: zstd, `.zdebug_*` of old linkers, `.gnu_debugdata`, supplementary files (dwz), debuginfod.

mod separate;

use std::ops::Range;

use object::LittleEndian as Le;
use object::elf;
use object::read::elf::{CompressionHeader as _, FileHeader as _, SectionHeader as _};
use object::read::{ReadRef, SectionIndex};

pub(crate) use crate::debug_file::separate::{Link, Wanted};
use crate::layout::SymbolTable;
use crate::limits::{
    DEBUG_NOTES_BYTES_MAX, DEBUG_SYMBOLS_BYTES_MAX, NOTES_MAX, UNPACKED_PER_PACKED_BYTE_MAX,
};

type Header = elf::FileHeader64<Le>;
type Sections<'a> = &'a [elf::SectionHeader64<Le>];

/// The symbol table of a separate file.
#[derive(Debug)]
pub(crate) struct DebugSymbols {
    /// Symbols, then their strings.
    pub(crate) data: Vec<u8>,
    pub(crate) table: SymbolTable,
}

/// Sections by name.
pub(crate) type Named<T> = Vec<(&'static str, T)>;

/// The bytes of a section.
#[derive(Debug)]
pub(crate) enum Section {
    /// These of the file.
    Plain(Range<usize>),
    /// They were compressed.
    Unpacked(Vec<u8>),
}

impl Section {
    /// `file` is what it was read from.
    pub(crate) fn bytes<'a>(&'a self, file: &'a [u8]) -> &'a [u8] {
        match self {
            Section::Plain(range) => &file[range.clone()],
            Section::Unpacked(bytes) => bytes,
        }
    }
}

/// Why sections that there are cannot be read.
pub(crate) const DAMAGED: &str = "its debug information is damaged, or too large";
pub(crate) const UNKNOWN_COMPRESSION: &str =
    "its debug information is compressed with zstd, which weir does not read (zlib it does)";

/// The symbols of the first separate file that has some.
pub(crate) fn symbols(wanted: &Wanted<'_>) -> Option<DebugSymbols> {
    wanted.files().find_map(|file| symbols_in(&file))
}

/// The bytes of the section of this name; empty if it is not among them.
pub(crate) fn named<'a>(sections: &[(&'static str, &'a [u8])], name: &str) -> &'a [u8] {
    sections.iter().find(|(other, _)| *other == name).map_or(&[], |(_, bytes)| bytes)
}

/// The sections of these names of the first separate file that has debug information; none if there is no such file.
pub(crate) fn sections(
    wanted: &Wanted<'_>,
    names: &[&'static str],
) -> Result<Option<Named<Vec<u8>>>, &'static str> {
    for file in wanted.files() {
        let found = sections_in(&file, names)?;
        if found.iter().any(|(name, _)| matches!(*name, ".debug_info" | ".debug_line")) {
            let bytes = |section| match section {
                Section::Unpacked(bytes) => Ok(bytes),
                Section::Plain(Range { start, end }) => {
                    let bytes = (&file).read_bytes_at(start as u64, (end - start) as u64);
                    bytes.map(<[u8]>::to_vec).map_err(|()| DAMAGED)
                }
            };
            let all = found.into_iter().map(|(name, section)| Ok((name, bytes(section)?)));
            return all.collect::<Result<_, _>>().map(Some);
        }
    }
    Ok(None)
}

/// The sections of these names of a file, or why they cannot be read.
pub(crate) fn sections_in<'a, R: ReadRef<'a>>(
    file: R,
    names: &[&'static str],
) -> Result<Named<Section>, &'static str> {
    let header = Header::parse(file).ok().filter(|header| header.e_machine(Le) == elf::EM_X86_64);
    let table = header.and_then(|header| header.sections(Le, file).ok()).ok_or(DAMAGED)?;
    let mut budget = DEBUG_SYMBOLS_BYTES_MAX;
    let mut found = Vec::new();
    for &name in names {
        let Some((_, section)) = table.section_by_name(Le, name.as_bytes()) else { continue };
        // That of a file with debug information alone has the sections of the program by name only.
        if section.sh_type(Le) != elf::SHT_NOBITS {
            found.push((name, read(file, section, &mut budget)?));
        }
    }
    Ok(found)
}

/// A section, whose bytes are taken from the budget.
fn read<'a, R: ReadRef<'a>>(
    file: R,
    section: &elf::SectionHeader64<Le>,
    budget: &mut u64,
) -> Result<Section, &'static str> {
    let compression = section.compression(Le, file).map_err(|_| DAMAGED)?;
    let bytes = compression.map_or(section.sh_size(Le), |(header, ..)| header.ch_size(Le));
    *budget = budget.checked_sub(bytes).ok_or(DAMAGED)?;
    let Some((header, offset, packed)) = compression else {
        let start = section.sh_offset(Le);
        let end = start.checked_add(bytes).filter(|end| file.len().is_ok_and(|len| *end <= len));
        return Ok(Section::Plain(start as usize..end.ok_or(DAMAGED)? as usize));
    };
    if header.ch_type(Le) != elf::ELFCOMPRESS_ZLIB {
        return Err(UNKNOWN_COMPRESSION);
    }
    if packed > DEBUG_SYMBOLS_BYTES_MAX || bytes > packed.saturating_mul(UNPACKED_PER_PACKED_BYTE_MAX) {
        return Err(DAMAGED);
    }
    let packed = file.read_bytes_at(offset, packed).map_err(|()| DAMAGED)?;
    let unpacked = miniz_oxide::inflate::decompress_to_vec_zlib_with_limit(packed, bytes as usize);
    let unpacked = unpacked.ok().filter(|unpacked| unpacked.len() as u64 == bytes);
    unpacked.map(Section::Unpacked).ok_or(DAMAGED)
}

fn symbols_in<'a>(file: impl ReadRef<'a>) -> Option<DebugSymbols> {
    let header = Header::parse(file).ok()?;
    if header.e_machine(Le) != elf::EM_X86_64 {
        return None;
    }
    let sections = header.section_headers(Le, file).ok()?;
    let symbols = sections.iter().find(|section| section.sh_type(Le) == elf::SHT_SYMTAB)?;
    let strings = sections.get(SectionIndex(symbols.sh_link(Le) as usize).0)?;
    if symbols.sh_size(Le).checked_add(strings.sh_size(Le))? > DEBUG_SYMBOLS_BYTES_MAX {
        return None;
    }
    let (symbols, strings) = (symbols.data(Le, file).ok()?, strings.data(Le, file).ok()?);
    let data = [symbols, strings].concat();
    let table = SymbolTable { symbols: 0..symbols.len(), strings: symbols.len()..data.len() };
    Some(DebugSymbols { data, table })
}

/// By its section: the program headers of such files lead nowhere.
fn build_id_of<'a>(sections: Sections<'a>, file: impl ReadRef<'a>) -> Option<&'a [u8]> {
    let is_note = |section: &&elf::SectionHeader64<Le>| {
        section.sh_type(Le) == elf::SHT_NOTE && section.sh_size(Le) <= DEBUG_NOTES_BYTES_MAX
    };
    for section in sections.iter().filter(is_note) {
        let Ok(Some(mut notes)) = section.notes(Le, file) else { continue };
        for _ in 0..NOTES_MAX {
            let Ok(Some(note)) = notes.next() else { break };
            if note.name() == elf::ELF_NOTE_GNU && note.n_type(Le) == elf::NT_GNU_BUILD_ID {
                return Some(note.desc());
            }
        }
    }
    None
}
