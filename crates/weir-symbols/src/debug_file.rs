//! Finds the names of a stripped binary in the separate file that its distribution keeps them in.
//!
//! In: a binary's build id, and roots to look in. Out: [`DebugSymbols`]: the symbol table and its strings, or nothing.
//! Looked for is `usr/lib/debug/.build-id/ab/cdef….debug` in each root, where packages (`-dbgsym`, `-dbg`, `-debuginfo`)
//! put it; it must have the same build id. Only headers and the symbol table are read: the rest may be a gigabyte.
//!
//! Whatever goes wrong means that there are no such names. Deliberately not here: `.gnu_debuglink` of files without a
//! build id, `.gnu_debugdata`, debuginfod.

use std::borrow::Cow;
use std::path::{Path, PathBuf};

use object::LittleEndian as Le;
use object::elf;
use object::read::elf::{FileHeader as _, SectionHeader as _};
use object::read::{ReadCache, ReadRef, SectionIndex};

use crate::layout::SymbolTable;
use crate::limits::{BUILD_ID_BYTES_MIN, DEBUG_NOTES_BYTES_MAX, DEBUG_SYMBOLS_BYTES_MAX, NOTES_MAX};
use crate::regular;

type Header = elf::FileHeader64<Le>;
type Sections<'a> = &'a [elf::SectionHeader64<Le>];

/// The symbol table of a separate file.
#[derive(Debug)]
pub(crate) struct DebugSymbols {
    /// Symbols, then their strings.
    pub(crate) data: Vec<u8>,
    pub(crate) table: SymbolTable,
}

/// The symbols of the file with this build id in the first of `roots` that has one.
pub(crate) fn find(build_id: &[u8], roots: &[&Path]) -> Option<DebugSymbols> {
    if build_id.len() < BUILD_ID_BYTES_MIN {
        return None;
    }
    roots.iter().find_map(|root| read(&path(build_id, root), build_id))
}

/// Sections by name.
pub(crate) type Named<T> = Vec<(&'static str, T)>;

/// The bytes of the section of this name; empty if it is not among them.
pub(crate) fn named<'a>(sections: &'a [(&'static str, Cow<'_, [u8]>)], name: &str) -> &'a [u8] {
    sections.iter().find(|(other, _)| *other == name).map_or(&[], |(_, bytes)| bytes)
}

/// The sections of these names of the file with this build id, in the first of `roots` that has it; none if one is
/// compressed, or they are too large.
pub(crate) fn sections(build_id: &[u8], roots: &[&Path], names: &[&'static str]) -> Option<Named<Vec<u8>>> {
    if build_id.len() < BUILD_ID_BYTES_MIN {
        return None;
    }
    roots.iter().find_map(|root| {
        let path = path(build_id, root);
        let file = ReadCache::new(regular::open(&path).ok()?);
        let header = Header::parse(&file).ok()?;
        if build_id_of(header.section_headers(Le, &file).ok()?, &file)? != build_id {
            return None;
        }
        let found = sections_in(&file, names)?;
        Some(found.into_iter().map(|(name, bytes)| (name, bytes.to_vec())).collect())
    })
}

/// The sections of these names of a file; none if one is compressed, or they are too large.
pub(crate) fn sections_in<'a, R: ReadRef<'a>>(file: R, names: &[&'static str]) -> Option<Named<&'a [u8]>> {
    let header = Header::parse(file).ok().filter(|header| header.e_machine(Le) == elf::EM_X86_64)?;
    let table = header.sections(Le, file).ok()?;
    let mut budget = DEBUG_SYMBOLS_BYTES_MAX;
    let mut found = Vec::new();
    for &name in names {
        let Some((_, section)) = table.section_by_name(Le, name.as_bytes()) else { continue };
        budget = budget.checked_sub(section.sh_size(Le))?;
        if section.sh_flags(Le).contains(elf::SHF_COMPRESSED) {
            return None;
        }
        found.push((name, section.data(Le, file).ok()?));
    }
    Some(found)
}

fn path(build_id: &[u8], root: &Path) -> PathBuf {
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let (first, rest) = build_id.split_at(1);
    root.join("usr/lib/debug/.build-id").join(hex(first)).join(format!("{}.debug", hex(rest)))
}

fn read(path: &Path, build_id: &[u8]) -> Option<DebugSymbols> {
    let file = ReadCache::new(regular::open(path).ok()?);
    let header = Header::parse(&file).ok()?;
    if header.e_machine(Le) != elf::EM_X86_64 {
        return None;
    }
    let sections = header.section_headers(Le, &file).ok()?;
    if build_id_of(sections, &file)? != build_id {
        return None;
    }
    let symbols = sections.iter().find(|section| section.sh_type(Le) == elf::SHT_SYMTAB)?;
    let strings = sections.get(SectionIndex(symbols.sh_link(Le) as usize).0)?;
    if symbols.sh_size(Le).checked_add(strings.sh_size(Le))? > DEBUG_SYMBOLS_BYTES_MAX {
        return None;
    }
    let (symbols, strings) = (symbols.data(Le, &file).ok()?, strings.data(Le, &file).ok()?);
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
