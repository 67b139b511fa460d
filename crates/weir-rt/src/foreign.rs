//! Reads the header, the journal and the stats page of a segment from bytes taken out of another process. Of a segment of another ABI
//! version nothing is read but who traces whom ([`Owner`]).
//!
//! The bytes are hostile: anything may stand there. What is returned fits the bounds of `limits.rs`; whether the
//! addresses in it are what they say is for the reader to check against the process (maps, text bytes).

use thiserror::Error;

use crate::abi::{self, header, meter};
use crate::limits;
use crate::segment::{Identity, Place, SegmentKind, SegmentLayout};

pub use crate::segment::{JournalEntry, JournalState, StatsPage, StatsPageLine};

/// Bytes of a segment's header, from its start.
pub const HEADER_BYTES: usize = abi::HEADER_BYTES;
/// Bytes of one journal entry.
pub const JOURNAL_ENTRY_BYTES: usize = abi::JOURNAL_ENTRY_BYTES;

/// What another weir's segment says of itself.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ForeignHeader {
    pub kind: SegmentKind,
    pub identity: Identity,
    pub place: Place,
    pub layout_hash: u64,
    pub segment_bytes: u64,
    pub map_count: u32,
    pub cpus: u32,
    pub journal_offset: u64,
    pub journal_capacity: u32,
    pub stats_page_offset: u64,
    pub stats_page_lines: u32,
    /// Forked children wait to be probed.
    pub children_wait: bool,
}

impl ForeignHeader {
    /// Where the words are, from the beginning of a process's own segment on, by which hits run that find their gate shut; and what each
    /// is where none does.
    pub fn meters(&self) -> (impl Iterator<Item = u64>, u64) {
        let layout = SegmentLayout::of_target(self.journal_capacity, 0);
        let first = layout.map_or(0, |layout| layout.meters_offset) + meter::HOW as u64;
        let count = u64::from(self.journal_capacity);
        ((0..count).map(move |n| first + n * abi::METER_BYTES), meter::CLOSED.into())
    }

    /// Of the stats page.
    pub fn stats_page_bytes(&self) -> u64 {
        abi::stats_page_bytes(self.stats_page_lines)
    }
}

/// Who traces whom, as every version's header says it in the same place.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Owner {
    pub controller_pid: u32,
    pub controller_start: u64,
    pub target_pid: u32,
}

/// Why bytes are not a segment of this ABI.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[non_exhaustive]
pub enum Corrupt {
    #[error("{bytes} bytes; a segment's header has {}", HEADER_BYTES)]
    Short { bytes: usize },
    #[error("not a weir segment: it begins with {magic:#018x}")]
    Magic { magic: u64 },
    #[error("a segment of ABI version {version}; this weir knows {}", abi::ABI_VERSION)]
    Version { version: u32, owner: Owner },
    #[error("the segment's header is spoiled: {what} is {value:#x}")]
    Field { what: &'static str, value: u64 },
}

/// The header in the first [`HEADER_BYTES`] of `bytes`.
pub fn parse_header(bytes: &[u8]) -> Result<ForeignHeader, Corrupt> {
    let Some(bytes) = bytes.get(..HEADER_BYTES) else { return Err(Corrupt::Short { bytes: bytes.len() }) };
    let word = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("8 bytes"));
    let half = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("4 bytes"));
    if word(header::MAGIC) != abi::MAGIC {
        return Err(Corrupt::Magic { magic: word(header::MAGIC) });
    }
    if half(header::ABI_VERSION) != abi::ABI_VERSION {
        let owner = Owner {
            controller_pid: half(header::CONTROLLER_PID),
            controller_start: word(header::CONTROLLER_START),
            target_pid: half(header::TARGET_PID),
        };
        return Err(Corrupt::Version { version: half(header::ABI_VERSION), owner });
    }
    let within = |what: &'static str, value: u64, low: u64, high: u64| {
        if (low..=high).contains(&value) { Ok(value) } else { Err(Corrupt::Field { what, value }) }
    };
    within("the header's size", half(header::HEADER_BYTES).into(), HEADER_BYTES as u64, HEADER_BYTES as u64)?;
    let kind = match half(header::KIND) {
        kind if kind == SegmentKind::Maps as u32 => SegmentKind::Maps,
        kind if kind == SegmentKind::Target as u32 => SegmentKind::Target,
        kind => return Err(Corrupt::Field { what: "the kind", value: kind.into() }),
    };
    let entry_bytes = u64::from(half(header::JOURNAL_ENTRY_BYTES));
    within("a journal entry's size", entry_bytes, JOURNAL_ENTRY_BYTES as u64, JOURNAL_ENTRY_BYTES as u64)?;
    let segment_bytes =
        within("the size", word(header::SEGMENT_BYTES), HEADER_BYTES as u64, limits::SEGMENT_BYTES_MAX)?;
    let capacity = within(
        "the journal's capacity",
        half(header::JOURNAL_CAPACITY).into(),
        0,
        limits::JOURNAL_CAPACITY_MAX.into(),
    )?;
    let journal_end = segment_bytes.checked_sub(capacity * entry_bytes);
    let journal_offset = within(
        "the journal's offset",
        word(header::JOURNAL_OFFSET),
        if capacity > 0 { HEADER_BYTES as u64 } else { 0 },
        journal_end.unwrap_or(0),
    )?;
    let (stats_page_offset, stats_page_lines) = stats_page(segment_bytes, &word, &half)?;
    let label_bytes =
        within("the label's size", half(header::LABEL_BYTES).into(), 0, limits::LABEL_BYTES_MAX as u64)?;
    let islands =
        within("the number of islands", word(header::PLACE_ISLAND_COUNT), 0, limits::ISLANDS_MAX as u64)?;
    let label = &bytes[header::LABEL..header::LABEL + label_bytes as usize];
    Ok(ForeignHeader {
        kind,
        identity: Identity {
            session: word(header::SESSION),
            controller_pid: half(header::CONTROLLER_PID),
            controller_start: word(header::CONTROLLER_START),
            uid: half(header::UID),
            started_ns: word(header::STARTED_NS),
            target_pid: half(header::TARGET_PID),
            label: printable(label),
        },
        place: Place {
            segment_address: word(header::PLACE_SEGMENT),
            maps_address: word(header::PLACE_MAPS),
            gate_address: word(header::PLACE_GATE),
            islands: (0..islands as usize)
                .map(|n| header::PLACE_ISLANDS + n * 16)
                .map(|at| (word(at), word(at + 8)))
                .collect(),
            restorers: std::array::from_fn(|n| word(header::PLACE_RESTORERS + n * 8)),
            stubs: std::array::from_fn(|n| word(header::PLACE_STUBS + n * 8)),
        },
        layout_hash: word(header::LAYOUT_HASH),
        segment_bytes,
        map_count: half(header::MAP_COUNT),
        cpus: half(header::CPUS),
        journal_offset,
        journal_capacity: capacity as u32,
        stats_page_offset,
        stats_page_lines,
        children_wait: word(header::FORKED) != 0,
    })
}

/// Where the stats page is, and its lines.
fn stats_page(
    segment_bytes: u64,
    word: &dyn Fn(usize) -> u64,
    half: &dyn Fn(usize) -> u32,
) -> Result<(u64, u32), Corrupt> {
    let lines = half(header::STATS_PAGE_LINES);
    let field = |what: &'static str, value: u64, is_right: bool| match is_right {
        true => Ok(()),
        false => Err(Corrupt::Field { what, value }),
    };
    let line_bytes = half(header::STATS_PAGE_LINE_BYTES);
    field(
        "the size of a stats page's line",
        line_bytes.into(),
        line_bytes as usize == abi::STATS_PAGE_LINE_BYTES,
    )?;
    field("the stats page's length", lines.into(), lines <= limits::STATS_PAGE_LINES_MAX)?;
    let offset = word(header::STATS_PAGE_OFFSET);
    let last = segment_bytes.checked_sub(abi::stats_page_bytes(lines));
    let is_inside = last.is_some_and(|last| (HEADER_BYTES as u64..=last).contains(&offset));
    field("the stats page's offset", offset, lines == 0 || is_inside)?;
    Ok((offset, lines))
}

/// The journal in `bytes` (the segment from `journal_offset`, `journal_capacity` entries). Entries never made, or
/// spoiled, are left out.
pub fn parse_journal(bytes: &[u8]) -> Vec<JournalEntry> {
    crate::segment::parse_journal(bytes)
}

/// The stats page in `bytes` (the segment from `stats_page_offset`, as many as [`ForeignHeader::stats_page_bytes`]). None where
/// none was put up yet, or one was being written: who copies it compares [`stats_page_sequence`] before and after.
pub fn parse_stats_page(bytes: &[u8]) -> Option<StatsPage> {
    crate::segment::parse_stats_page(bytes)
}

/// The word at the start of a stats page, which every change changes; none where bytes are missing.
pub fn stats_page_sequence(bytes: &[u8]) -> Option<u64> {
    bytes.first_chunk().map(|word| u64::from_le_bytes(*word))
}

/// The label without what could steer a terminal.
pub(crate) fn printable(label: &[u8]) -> String {
    String::from_utf8_lossy(label).chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect()
}
