//! What of weir's is mapped in a process, by the names of its files.
//!
//! In: the mappings of a process. Out: which of them are weir's, and its islands. The target can map anything under these
//! names: who unmaps what is found here, or writes there, must be ready for that.

use std::ops::Range;

use weir_symbols::maps::Mapping;

/// Name of the segment's memfd, by which the next weir finds it.
pub(crate) const SEGMENT_NAME: &str = "weir-segment";
pub(crate) const CODE_NAME: &str = "weir-code";
pub(crate) const RECORDS_NAME: &str = "weir-records";
/// Another name than that of islands, which have a gate page behind them.
pub(crate) const OUTPOST_NAME: &str = "weir-outpost";
const PAGE: u64 = 4096;

pub(crate) fn is_segment(mapping: &Mapping) -> bool {
    mapping.path.strip_prefix("/memfd:").is_some_and(|name| name.starts_with(SEGMENT_NAME))
}

/// Records of replaced return addresses.
pub(crate) fn is_records(mapping: &Mapping) -> bool {
    mapping.path.strip_prefix("/memfd:").is_some_and(|name| name.starts_with(RECORDS_NAME))
}

/// A mapping of one of weir's memfds.
pub(crate) fn is_weirs(mapping: &Mapping) -> bool {
    mapping.path.starts_with("/memfd:weir-")
}

/// An island as a process's maps show it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Island {
    /// With its gate page.
    pub(crate) range: Range<u64>,
    /// `None` for outposts, and where the attach did not get so far.
    pub(crate) gate: Option<u64>,
}

/// The islands in `mappings`: code of weir's, and directly behind it a gate page.
pub(crate) fn islands(mappings: &[Mapping]) -> Vec<Island> {
    let is_code = |mapping: &&Mapping| {
        let name = mapping.path.strip_prefix("/memfd:");
        let is_ours = |name: &str| name.starts_with(CODE_NAME) || name.starts_with(OUTPOST_NAME);
        mapping.execute && name.is_some_and(is_ours) || is_records(mapping)
    };
    let is_outpost = |mapping: &Mapping| mapping.path.contains(OUTPOST_NAME);
    let is_gate = |mapping: &Mapping, code: &Mapping| {
        let is_anonymous = mapping.inode == 0 && mapping.path.is_empty() && !mapping.shared;
        mapping.start == code.end && mapping.end.0 - mapping.start.0 == PAGE && is_anonymous
    };
    let island = |code: &Mapping| {
        let gate = mappings.iter().find(|mapping| !is_outpost(code) && is_gate(mapping, code));
        let end = gate.map_or(code.end.0, |gate| gate.end.0);
        Island { range: code.start.0..end, gate: gate.map(|gate| gate.start.0) }
    };
    mappings.iter().filter(is_code).map(island).collect()
}
