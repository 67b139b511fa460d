//! What of weir's is mapped in a process, by the names of its files.
//!
//! In: the mappings of a process. Out: which of them are weir's, its islands, and which run's each is. The target can map anything
//! under these names: who unmaps what is found here, or writes there, must be ready for that.

use std::ops::Range;

use weir_rt::segment::{Identity, MAPS_NAME};
use weir_symbols::maps::Mapping;
use weir_symbols::{FileIdentity, VirtAddr};

use crate::limits::ISLAND_TAIL_BYTES;
use crate::process::memory::Memory;

/// Name of the memfd of a process's own segment, by which the next weir finds it.
pub(crate) const SEGMENT_NAME: &str = "weir-segment";
pub(crate) const CODE_NAME: &str = "weir-code";
pub(crate) const RECORDS_NAME: &str = "weir-records";
/// Another name than that of islands, which have gates behind them.
pub(crate) const OUTPOST_NAME: &str = "weir-outpost";
const PAGE: u64 = 4096;

/// Whose code is mapped: that of a run, for a process. A forked child has its parent's too.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Maker {
    pub(crate) session: u64,
    pub(crate) target_pid: u32,
}

impl Maker {
    pub(crate) fn of(identity: &Identity) -> Maker {
        Maker { session: identity.session, target_pid: identity.target_pid }
    }

    /// The name of a file of its code, of which `kind` is the beginning.
    pub(crate) fn name(self, kind: &str) -> String {
        format!("{kind}:{:x}.{}", self.session, self.target_pid)
    }

    /// Whose `mapping` is, as its name says; none where weirs did not say it yet.
    pub(crate) fn of_mapping(mapping: &Mapping) -> Option<Maker> {
        let (_, maker) = mapping.path.strip_prefix("/memfd:weir-")?.split_once(':')?;
        let (session, target_pid) = maker.split_once('.')?;
        Some(Maker { session: u64::from_str_radix(session, 16).ok()?, target_pid: target_pid.parse().ok()? })
    }
}

pub(crate) fn is_segment(mapping: &Mapping) -> bool {
    mapping.path.strip_prefix("/memfd:").is_some_and(|name| name.starts_with(SEGMENT_NAME))
}

/// A session's maps.
pub(crate) fn is_maps(mapping: &Mapping) -> bool {
    mapping.path.strip_prefix("/memfd:").is_some_and(|name| name.starts_with(MAPS_NAME))
}

/// An array of the kernel's, as it lies over the end of a session's maps where programs in the kernel see some; or another's.
pub(crate) fn is_kernel_array(mapping: &Mapping) -> bool {
    mapping.path == "anon_inode:bpf-map"
}

/// Records of replaced return addresses.
pub(crate) fn is_records(mapping: &Mapping) -> bool {
    mapping.path.strip_prefix("/memfd:").is_some_and(|name| name.starts_with(RECORDS_NAME))
}

/// A mapping of one of weir's memfds.
pub(crate) fn is_weirs(mapping: &Mapping) -> bool {
    mapping.path.starts_with("/memfd:weir-")
}

/// The file that what lies at `address` is of: words that are zero in it may lie in memory of no file, directly behind.
pub(crate) fn owner(mappings: &[Mapping], address: u64) -> Option<FileIdentity> {
    let after = mappings.partition_point(|mapping| mapping.start.0 <= address);
    let (at, before) = mappings[..after].split_last()?;
    let is_behind = |mapping: &&Mapping| mapping.end == at.start;
    let owner = if at.inode == 0 { before.last().filter(is_behind)? } else { at };
    (at.contains(VirtAddr(address)) && owner.inode != 0).then(|| owner.identity())
}

/// An island as a process's maps show it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Island {
    pub(crate) code: Range<u64>,
    /// What is mapped directly behind, if that may be its gates.
    behind: Option<Range<u64>>,
    pub(crate) inode: u64,
    pub(crate) maker: Option<Maker>,
}

impl Island {
    /// Its gates: as many bytes as the last words of its code say. `None` for outposts, and where the attach did not get so
    /// far.
    pub(crate) fn gates(&self, memory: &Memory) -> Option<Range<u64>> {
        let behind = self.behind.clone()?;
        let bytes = memory.read_u64(self.code.end.checked_sub(ISLAND_TAIL_BYTES)?).ok()?;
        let is_whole = bytes > 0 && bytes.is_multiple_of(PAGE) && bytes <= behind.end - behind.start;
        // Islands of ABI version 1 do not say it: they have one page.
        let is_one_page = behind.end - behind.start == PAGE;
        let bytes = if is_whole { bytes } else { PAGE };
        (is_whole || is_one_page).then_some(behind.start..behind.start + bytes)
    }

    /// With its gates.
    pub(crate) fn range(&self, memory: &Memory) -> Range<u64> {
        self.code.start..self.gates(memory).map_or(self.code.end, |gates| gates.end)
    }
}

/// The islands in `mappings`: code of weir's, and directly behind it private memory.
pub(crate) fn islands(mappings: &[Mapping]) -> Vec<Island> {
    let is_code = |mapping: &&Mapping| {
        let name = mapping.path.strip_prefix("/memfd:");
        let is_ours = |name: &str| name.starts_with(CODE_NAME) || name.starts_with(OUTPOST_NAME);
        mapping.execute && name.is_some_and(is_ours) || is_records(mapping)
    };
    let has_gates = |code: &Mapping| !code.path.contains(OUTPOST_NAME) && !is_records(code);
    let may_be_gates = |mapping: &Mapping, code: &Mapping| {
        let is_anonymous = mapping.inode == 0 && mapping.path.is_empty() && !mapping.shared;
        mapping.start == code.end && is_anonymous && mapping.write
    };
    // They are in order, so each is followed by the next. (A target can have tens of thousands.)
    let island = |(number, code): (usize, &Mapping)| {
        let behind = mappings.get(number + 1).filter(|next| has_gates(code) && may_be_gates(next, code));
        let behind = behind.map(|behind| behind.start.0..behind.end.0);
        let (inode, maker) = (code.inode, Maker::of_mapping(code));
        Island { code: code.start.0..code.end.0, behind, inode, maker }
    };
    mappings.iter().enumerate().filter(|(_, mapping)| is_code(mapping)).map(island).collect()
}

/// A library that moves stacks elsewhere while others use their place (Python's greenlet).
pub(crate) fn copies_stacks(mapping: &Mapping) -> bool {
    let name = mapping.path.rsplit('/').next().unwrap_or_default();
    mapping.execute && name.contains("greenlet")
}
