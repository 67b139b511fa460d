//! Restartable sequences: code that the kernel leaves by another way when it is preempted, migrated or interrupted
//! (rseq(2); `struct rseq_cs` of linux/rseq.h).
//!
//! In: the file's data and its relative relocations. Out: the ranges of code, each with the byte before it: the
//! instruction there stores the descriptor's address, and the kernel forgets the descriptor when a thread is preempted
//! between that store and the sequence.
//!
//! Descriptors are known by their content, since a linker may have dropped the names of sections (librseq and tcmalloc
//! use `__rseq_cs`): 32 bytes, so aligned, version 0, code that begins and is left in text, and before the place where it
//! is left to the signature that the kernel compares, which is that of glibc for every x86 program that shares its area.

use std::ops::Range;

use crate::LinkAddr;
use crate::layout::Segment;
use crate::limits::RESTARTABLE_BYTES_MAX;

/// `struct rseq_cs`: version, flags (4 bytes each), start, length, where to go (8 bytes each).
const DESCRIPTOR_BYTES: u64 = 32;
const START: u64 = 8;
const LENGTH: u64 = 16;
const ABORT: u64 = 24;
/// `RSEQ_SIG` of x86, in the 4 bytes before the abort address.
const SIGNATURE: u32 = 0x5305_3053;

/// The sequences of a file: `relocated` are the words that the loader writes, and what it writes there.
pub(crate) fn sequences(
    data: &[u8],
    segments: &[Segment],
    is_movable: bool,
    relocated: &[(u64, u64)],
) -> Vec<Range<LinkAddr>> {
    let file = File { data, segments };
    let mut found: Vec<Range<LinkAddr>> = if is_movable {
        let mut relocated = relocated.to_vec();
        relocated.sort_unstable();
        let target = |place| {
            let index = relocated.binary_search_by_key(&place, |word| word.0).ok()?;
            Some(relocated[index].1)
        };
        let at = relocated.iter().filter_map(|&(place, _)| place.checked_sub(START));
        at.filter_map(|at| file.sequence(at, &target)).collect()
    } else {
        let word = |place| file.word(place);
        file.places().filter_map(|at| file.sequence(at, &word)).collect()
    };
    found.sort_unstable_by_key(|range| (range.start, range.end));
    found.dedup();
    found
}

struct File<'a> {
    data: &'a [u8],
    segments: &'a [Segment],
}

impl File<'_> {
    /// The sequence of a descriptor at `at`, if there is one. `pointer` gives the pointer at a place.
    fn sequence(&self, at: u64, pointer: &dyn Fn(u64) -> Option<u64>) -> Option<Range<LinkAddr>> {
        if !at.is_multiple_of(DESCRIPTOR_BYTES) {
            return None;
        }
        let abort = pointer(at.checked_add(ABORT)?)?;
        if self.word(abort.checked_sub(4)?)? as u32 != SIGNATURE || !self.is_text(abort) {
            return None;
        }
        let (start, length) = (pointer(at + START)?, self.word(at + LENGTH)?);
        let end = start.checked_add(length)?;
        let is_one = self.word(at)? as u32 == 0
            && (1..=RESTARTABLE_BYTES_MAX).contains(&length)
            && self.is_text(start)
            && !(start..end).contains(&abort);
        is_one.then(|| LinkAddr(start.saturating_sub(1))..LinkAddr(end))
    }

    /// Every place where a descriptor may stand.
    fn places(&self) -> impl Iterator<Item = u64> + '_ {
        self.segments.iter().flat_map(|segment| {
            let first = segment.address.0.checked_next_multiple_of(DESCRIPTOR_BYTES).unwrap_or(u64::MAX);
            (first..segment.file_end().0).step_by(DESCRIPTOR_BYTES as usize)
        })
    }

    fn is_text(&self, address: u64) -> bool {
        self.segments.iter().any(|segment| segment.executable && segment.holds(LinkAddr(address)))
    }

    /// Eight bytes of the file.
    fn word(&self, address: u64) -> Option<u64> {
        let segment = self.segments.iter().find(|segment| segment.holds(LinkAddr(address)))?;
        let at = (segment.offset.0 + (address - segment.address.0)) as usize;
        let bytes = self.data.get(at..at.checked_add(8)?)?;
        Some(u64::from_le_bytes(bytes.try_into().ok()?))
    }
}
