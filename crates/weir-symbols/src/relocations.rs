//! Pointers that the loader will write into data: places and targets of relative relocations, and places of symbols.
//!
//! In: the bytes of an ELF file and its relocation tables. Out: link addresses in pairs, from `R_X86_64_RELATIVE` and
//! `R_X86_64_IRELATIVE` addends (System V AMD64 psABI, 4.4.1) and from packed RELR tables (gABI, "Relative
//! Relocation Table"), whose addends stand in the data itself. The tables are those that the loader reads (PT_DYNAMIC)
//! and those of section headers, for static programs. A broken file gives fewer, never an error; at most one target
//! for each byte of the file is given: a real file has a pointer of 8 bytes for each.

use std::ops::Range;

use object::LittleEndian as Le;
use object::elf;
use object::read::ReadRef as _;

use crate::LinkAddr;
use crate::layout::{Symbol, name_at};

/// A table of relocations, as a range of the file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct RelocationTable {
    pub(crate) form: RelocationForm,
    pub(crate) bytes: Range<usize>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum RelocationForm {
    /// `Elf64_Rela`, 24 bytes each.
    Explicit,
    /// RELR: words.
    Packed,
}

/// Where the relative relocations of `data` are, and where they point, in the order of the tables. `word_at` gives the
/// 8 bytes that the file holds at a link address.
pub(crate) fn relative(
    data: &[u8],
    tables: &[RelocationTable],
    word_at: &dyn Fn(u64) -> Option<u64>,
) -> Vec<(u64, u64)> {
    let mut targets = Vec::new();
    let packed_at = |place| Some((place, word_at(place)?));
    for table in tables {
        let left = data.len().saturating_sub(targets.len());
        let bytes = &data[table.bytes.clone()];
        match table.form {
            RelocationForm::Explicit => targets.extend(explicit(bytes).take(left)),
            RelocationForm::Packed => targets.extend(packed(words(bytes)).filter_map(packed_at).take(left)),
        }
    }
    targets
}

fn explicit(bytes: &[u8]) -> impl Iterator<Item = (u64, u64)> {
    let count = bytes.len() / size_of::<elf::Rela64<Le>>();
    let entries: &[elf::Rela64<Le>] = bytes.read_slice_at(0, count).unwrap_or_default();
    let relative = entries
        .iter()
        .filter(|entry| matches!(entry.r_type(Le, false), elf::R_X86_64_RELATIVE | elf::R_X86_64_IRELATIVE));
    relative.map(|entry| (entry.r_offset.get(Le), entry.r_addend.get(Le) as u64))
}

/// A place that the loader fills with the address of a symbol.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SymbolSlot {
    pub address: LinkAddr,
    pub name: String,
    /// Only calls go through it: the address is nowhere else.
    pub for_calls: bool,
}

/// The places that are filled with addresses of dynamic symbols, in the order of the tables.
pub(crate) fn symbol_slots(
    data: &[u8],
    tables: &[RelocationTable],
    dynamic: &[Symbol],
    strings: &[u8],
) -> Vec<SymbolSlot> {
    let mut budget = data.len();
    let mut slots = Vec::new();
    for table in tables.iter().filter(|table| table.form == RelocationForm::Explicit) {
        let bytes = &data[table.bytes.clone()];
        let count = bytes.len() / size_of::<elf::Rela64<Le>>();
        let entries: &[elf::Rela64<Le>] = bytes.read_slice_at(0, count).unwrap_or_default();
        for entry in entries {
            let kind = entry.r_type(Le, false);
            let Some(symbol) = dynamic.get(entry.r_sym(Le, false) as usize) else { continue };
            if !matches!(kind, elf::R_X86_64_JUMP_SLOT | elf::R_X86_64_GLOB_DAT | elf::R_X86_64_64) {
                continue;
            }
            let name = name_at(strings, symbol.st_name.get(Le).into()).unwrap_or_default();
            // A hostile table may name one long string again and again.
            let Some(left) = budget.checked_sub(name.len() + 1) else { return slots };
            budget = left;
            // A program at fixed addresses that takes the address of an import has its symbol stand for the PLT's entry.
            let is_taken = symbol.st_shndx.get(Le) == elf::SHN_UNDEF && symbol.st_value.get(Le) != 0;
            let for_calls = kind == elf::R_X86_64_JUMP_SLOT && !is_taken;
            let name = String::from_utf8_lossy(name).into_owned();
            slots.push(SymbolSlot { address: LinkAddr(entry.r_offset.get(Le)), name, for_calls });
        }
    }
    slots
}

/// Places that are filled with addresses of symbols of this file, and these, as far as no other file's symbol of the name comes first.
pub(crate) fn own_symbols(data: &[u8], tables: &[RelocationTable], dynamic: &[Symbol]) -> Vec<(u64, u64)> {
    let explicit = tables.iter().filter(|table| table.form == RelocationForm::Explicit);
    let entries = explicit.flat_map(|table| {
        let bytes = &data[table.bytes.clone()];
        let count = bytes.len() / size_of::<elf::Rela64<Le>>();
        let entries: &[elf::Rela64<Le>] = bytes.read_slice_at(0, count).unwrap_or_default();
        entries
    });
    let own = entries.filter_map(|entry| {
        let symbol = dynamic.get(entry.r_sym(Le, false) as usize)?;
        let is_own = symbol.st_shndx.get(Le) != elf::SHN_UNDEF;
        let value = symbol.st_value.get(Le);
        match entry.r_type(Le, false) {
            elf::R_X86_64_64 if is_own => {
                Some((entry.r_offset.get(Le), value.wrapping_add(entry.r_addend.get(Le) as u64)))
            }
            elf::R_X86_64_GLOB_DAT if is_own => Some((entry.r_offset.get(Le), value)),
            _ => None,
        }
    });
    own.take(data.len()).collect()
}

fn words(bytes: &[u8]) -> impl Iterator<Item = u64> {
    let words: &[object::U64<Le>] = bytes.read_slice_at(0, bytes.len() / 8).unwrap_or_default();
    words.iter().map(|word| word.get(Le))
}

/// Each place that a RELR table relocates: an even word is an address, an odd one a bitmap of the 63 words after
/// the last.
fn packed(words: impl Iterator<Item = u64>) -> impl Iterator<Item = u64> {
    let mut next = 0u64;
    words.flat_map(move |word| {
        let base = next;
        let (first, bits) = if word & 1 == 0 {
            next = word.wrapping_add(8);
            (Some(word), 0)
        } else {
            next = base.wrapping_add(8 * 63);
            (None, word >> 1)
        };
        let marked = (0..63).filter(move |bit| bits >> bit & 1 == 1);
        first.into_iter().chain(marked.map(move |bit| base.wrapping_add(8 * bit)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(words: &[u64], expected: &[u64]) {
        assert_eq!(packed(words.iter().copied()).collect::<Vec<_>>(), expected, "{words:x?}");
    }

    #[test]
    fn packed_addresses_and_bitmaps() {
        check(&[], &[]);
        check(&[0x1000, 0x2000], &[0x1000, 0x2000]);
        check(&[0x1000, 0b1011], &[0x1000, 0x1008, 0x1018]);
        check(&[0x1000, 1, 0b11], &[0x1000, 0x1008 + 63 * 8]);
        check(&[0x1000, 1 | 1 << 63], &[0x1000, 0x1008 + 62 * 8]);
        assert_eq!(packed([u64::MAX].into_iter()).count(), 63);
    }

    #[test]
    fn overlapping_tables_give_no_more_targets_than_the_file_has_bytes() {
        let data = [0xff; 800];
        let table = RelocationTable { form: RelocationForm::Packed, bytes: 0..800 };
        let targets = relative(&data, &vec![table; 10], &|_| Some(1));
        assert_eq!(targets.len(), 800);
    }
}
