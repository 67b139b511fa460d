//! Where the statements of a source line begin: DWARF's line tables (DWARF 5, 6.2), and the blocks of `.debug_info`.
//!
//! In: the debug sections of a file, the end of a source file's path, a line. Out: addresses, sorted: of each function
//! that has code of the line, and of each copy of it that was inlined somewhere, the lowest at which a statement of the
//! line begins. A line that the compiler has scattered over a block is one place.
//!
//! A path matches if it ends in the wanted one, at a `/`: `main.c`, `src/main.c`. All files that match count. What is
//! read is hostile: tables that overlap are read a bounded number of times ([`Budget`]), and what is over it, or broken, is
//! left out. Deliberately not here: split DWARF (`.dwo`), supplementary files (dwz), columns.

use std::collections::{BTreeMap, BTreeSet};

use gimli::{
    DebugAbbrevOffset, DebugLineOffset, Dwarf, EndianSlice, LittleEndian, Reader as _, Section as _,
    SectionId, Unit, UnitHeader, constants as dw,
};

use crate::LinkAddr;
use crate::limits::{LINE_NAMES_MAX, LINE_RANGES_MAX, LINE_READS_PER_BYTE_MAX, LINE_ROWS_MAX, NEAR_LINES};

type Bytes<'a> = EndianSlice<'a, LittleEndian>;

/// The sections that are read, here and for prototypes: those that a unit may refer to.
pub(crate) const SECTIONS: [&str; 11] = [
    ".debug_abbrev",
    ".debug_addr",
    ".debug_info",
    ".debug_line",
    ".debug_line_str",
    ".debug_loc",
    ".debug_loclists",
    ".debug_ranges",
    ".debug_rnglists",
    ".debug_str",
    ".debug_str_offsets",
];

/// Why there is no such place.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Fault {
    /// No file of that name is in the tables. Names that are.
    NoSource(Vec<String>),
    /// The file has no statement at the line. The nearest lines that have one.
    NoCode(Vec<u64>),
}

/// The places of line `line` of `file`; `section` gives each of [`SECTIONS`], empty where there is none. `is_code` tells
/// addresses of functions that the linker has kept.
pub(crate) fn places<'a>(
    section: &dyn Fn(&str) -> &'a [u8],
    file: &str,
    line: u64,
    is_code: &dyn Fn(LinkAddr) -> bool,
) -> Result<Vec<LinkAddr>, Fault> {
    let load = |id: SectionId| Ok::<_, gimli::Error>(Bytes::new(section(id.name()), LittleEndian));
    // SANITY: `load` fails for no section.
    let dwarf = Dwarf::load(load).expect("every section is given");
    let mut search = Search {
        budget: Budget::of(&dwarf),
        dwarf: &dwarf,
        file,
        line,
        is_code,
        found: BTreeSet::new(),
        names: BTreeSet::new(),
        lines: BTreeSet::new(),
        is_known: false,
    };
    let mut headers = dwarf.units();
    while let Ok(Some(header)) = headers.next() {
        search.unit(header);
    }
    search.answer()
}

/// How much of overlapping tables may be read.
struct Budget {
    abbreviations: u64,
    lines: u64,
    ranges: u64,
    /// Line programs that were read: units may share one.
    seen: BTreeSet<usize>,
}

impl Budget {
    fn of(dwarf: &Dwarf<Bytes<'_>>) -> Budget {
        let bytes = |section: &Bytes<'_>| LINE_READS_PER_BYTE_MAX.saturating_mul(section.len() as u64);
        Budget {
            abbreviations: bytes(dwarf.debug_abbrev.reader()),
            lines: bytes(dwarf.debug_line.reader()),
            ranges: LINE_RANGES_MAX,
            seen: BTreeSet::new(),
        }
    }

    /// Whether `bytes` more may be read.
    fn take(left: &mut u64, bytes: u64) -> bool {
        let enough = bytes <= *left;
        *left = left.saturating_sub(bytes);
        enough
    }
}

struct Search<'a, 'b> {
    budget: Budget,
    dwarf: &'b Dwarf<Bytes<'a>>,
    file: &'b str,
    line: u64,
    is_code: &'b dyn Fn(LinkAddr) -> bool,
    found: BTreeSet<LinkAddr>,
    /// Of other source files.
    names: BTreeSet<String>,
    /// Of the source file, with statements.
    lines: BTreeSet<u64>,
    is_known: bool,
}

/// A row of the table that begins a statement of the line.
struct Row {
    address: u64,
    /// Number of its run of ascending addresses.
    sequence: usize,
}

impl<'a> Search<'a, '_> {
    fn answer(self) -> Result<Vec<LinkAddr>, Fault> {
        if !self.found.is_empty() {
            return Ok(self.found.into_iter().collect());
        }
        if !self.is_known {
            return Err(Fault::NoSource(self.names.into_iter().collect()));
        }
        let before = self.lines.range(..self.line).rev().take(NEAR_LINES);
        let after = self.lines.range(self.line..).take(NEAR_LINES);
        let mut near: Vec<u64> = before.chain(after).copied().collect();
        near.sort_unstable();
        Err(Fault::NoCode(near))
    }

    fn unit(&mut self, header: UnitHeader<Bytes<'a>>) {
        let abbreviations = abbreviation_bytes(self.dwarf, header.debug_abbrev_offset());
        if !Budget::take(&mut self.budget.abbreviations, abbreviations) {
            return;
        }
        let Ok(unit) = self.dwarf.unit(header) else { return };
        let rows = self.rows(&unit);
        if !rows.is_empty() {
            self.choose(&unit, &rows);
        }
    }

    /// The rows of the unit's table that begin a statement of the line.
    fn rows(&mut self, unit: &Unit<Bytes<'a>>) -> Vec<Row> {
        let mut rows = Vec::new();
        let Some(program) = unit.line_program.clone() else { return rows };
        let (header, DebugLineOffset(at)) = (program.header(), program.header().offset());
        if !self.budget.seen.insert(at) || !Budget::take(&mut self.budget.lines, header.unit_length() as u64)
        {
            return rows;
        }
        let files: Vec<bool> = (0..=header.file_names().len() as u64)
            .map(|index| header.file(index).is_some_and(|entry| self.is_wanted(unit, entry)))
            .collect();
        if !files.contains(&true) {
            return rows;
        }
        self.is_known = true;
        let (mut sequence, mut program) = (0, program.rows());
        while let Ok(Some((_, row))) = program.next_row() {
            if row.end_sequence() {
                sequence += 1;
                continue;
            }
            let is_wanted = files.get(row.file_index() as usize) == Some(&true);
            let Some(line) = row.line().filter(|_| is_wanted && row.is_stmt()) else { continue };
            if !(self.is_code)(LinkAddr(row.address())) {
                continue;
            }
            if line.get() == self.line && rows.len() < LINE_ROWS_MAX {
                rows.push(Row { address: row.address(), sequence });
            } else if self.lines.len() < LINE_ROWS_MAX || self.lines.contains(&line.get()) {
                self.lines.insert(line.get());
            }
        }
        rows
    }

    /// Whether a file of the unit's table is the wanted one; a name to offer if not.
    fn is_wanted(&mut self, unit: &Unit<Bytes<'a>>, entry: &gimli::FileEntry<Bytes<'a>>) -> bool {
        let text = |value| Some(self.dwarf.attr_string(unit, value).ok()?.to_string_lossy().into_owned());
        let Some(name) = text(entry.path_name()) else { return false };
        let header = unit.line_program.as_ref().map(|program| program.header());
        let folder = header.and_then(|header| entry.directory(header)).and_then(text).unwrap_or_default();
        let unit_folder = unit.comp_dir.map(|folder| folder.to_string_lossy().into_owned());
        let path = join(&unit_folder.unwrap_or_default(), &join(&folder, &name));
        let is_wanted = path
            .strip_suffix(self.file)
            .is_some_and(|rest| rest.is_empty() || rest.ends_with('/') || self.file.starts_with('/'));
        if !is_wanted && self.names.len() < LINE_NAMES_MAX {
            self.names.insert(name.rsplit('/').next().unwrap_or_default().to_string());
        }
        is_wanted
    }

    /// Of each innermost function or inlined copy, the lowest row. Code outside of all (assembly) counts by sequence.
    fn choose(&mut self, unit: &Unit<Bytes<'a>>, rows: &[Row]) {
        let mut block_of: BTreeMap<u64, usize> = BTreeMap::new();
        let addresses: BTreeSet<u64> = rows.iter().map(|row| row.address).collect();
        let mut entries = unit.entries();
        // Depth first: a later block that contains an address is within an earlier one that does.
        while let Ok(Some(entry)) = entries.next_dfs() {
            if !matches!(entry.tag(), dw::DW_TAG_subprogram | dw::DW_TAG_inlined_subroutine) {
                continue;
            }
            let Ok(mut ranges) = self.dwarf.die_ranges(unit, entry) else { continue };
            while let Ok(Some(range)) = ranges.next() {
                if !Budget::take(&mut self.budget.ranges, 1) {
                    return;
                }
                if range.begin < range.end {
                    for &address in addresses.range(range.begin..range.end) {
                        block_of.insert(address, entry.offset().0);
                    }
                }
            }
        }
        let mut lowest: BTreeMap<(Option<usize>, usize), u64> = BTreeMap::new();
        for row in rows {
            let block = block_of.get(&row.address).copied();
            let key = (block, if block.is_some() { 0 } else { row.sequence });
            let place = lowest.entry(key).or_insert(row.address);
            *place = row.address.min(*place);
        }
        self.found.extend(lowest.into_values().map(LinkAddr));
    }
}

/// `name` in `folder`, unless it is a path from the root.
fn join(folder: &str, name: &str) -> String {
    if folder.is_empty() || name.starts_with('/') { name.to_string() } else { format!("{folder}/{name}") }
}

/// How long the table of abbreviations there is.
pub(crate) fn abbreviation_bytes(dwarf: &Dwarf<Bytes<'_>>, offset: DebugAbbrevOffset) -> u64 {
    let mut rest = *dwarf.debug_abbrev.reader();
    if rest.skip(offset.0).is_err() {
        return 0;
    }
    let before = rest.len();
    let _ = skip_abbreviations(&mut rest);
    (before - rest.len()) as u64
}

fn skip_abbreviations(rest: &mut Bytes<'_>) -> gimli::Result<()> {
    while rest.read_uleb128()? != 0 {
        let (_tag, _children) = (rest.read_uleb128()?, rest.read_u8()?);
        loop {
            let (attribute, form) = (rest.read_uleb128()?, rest.read_uleb128()?);
            if form == u64::from(dw::DW_FORM_implicit_const.0) {
                rest.read_sleb128()?;
            }
            if (attribute, form) == (0, 0) {
                break;
            }
        }
    }
    Ok(())
}
