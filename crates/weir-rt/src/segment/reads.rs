//! What is known of a process's memory, as its controller says and the process takes back (`c/direct.c`).
//!
//! In: ranges of memory that can be read, of a process whose every way to take memory away is watched. Out: a table in its own
//! segment, by which its programs load what lies in them without a system call, until the process itself says that the table
//! holds no more.
//!
//! ```text
//! off ──publish──▶ valid ──the process is about to take some of it away──▶ stale ──no load runs on──▶ off
//!                    └──publish──▶ valid                                      (closed for good, in any of them)
//! ```
//!
//! A call that takes memory away is noted before it is made, and until it has come back. So whoever makes a table looks at the
//! state first, then at the noted calls, then at the memory: what is taken away by then is not in it, what is noted is left out,
//! and if one came later the state is another one and nothing is published.
//!
//! The words are the target's to write: at worst it reads what is not there, and faults where it would have on its own account.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

use super::Segment;
use crate::abi::{header, reads};

/// The words of one target.
#[derive(Clone, Copy, Debug)]
pub struct Reads<'a> {
    segment: &'a Segment,
}

/// What they say.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ReadsState {
    /// Programs ask the kernel for all that they read.
    Off,
    /// They load what the table knows.
    Valid,
    /// The process is about to see to it that none does any more.
    Stale,
    /// Off for good; why, as [`Reads::why`] says.
    Closed,
}

/// A look at them before the memory was looked at.
#[derive(Clone, Debug)]
pub struct Known {
    state: u64,
    /// What calls that are under way may take away.
    pub leaving: Vec<Range<u64>>,
}

impl Segment {
    /// Of a process's own segment.
    pub fn reads(&self) -> Reads<'_> {
        assert!(self.layout.reads_offset > 0, "a segment of maps knows no memory");
        Reads { segment: self }
    }
}

impl Reads<'_> {
    /// Where the words are in a segment.
    pub const OFFSET: u64 = header::READS_ALWAYS as u64;
    /// Where the state is, and what makes it say that nothing is known any more.
    pub const STATE_OFFSET: u64 = header::READS_STATE as u64;
    pub const CLOSED: u64 = reads::CLOSED;
    /// The same, where another weir takes the process over.
    pub const TAKEN_OVER: u64 = reads::TAKEN_OVER;
    /// Most ranges of a table.
    pub const RANGES_MAX: usize = reads::RANGES;

    pub fn state(&self) -> ReadsState {
        match self.state_word().load(Ordering::SeqCst) {
            word if word & reads::CLOSED != 0 => ReadsState::Closed,
            word if word & reads::KIND == reads::VALID => ReadsState::Valid,
            word if word & reads::KIND == reads::STALE => ReadsState::Stale,
            _ => ReadsState::Off,
        }
    }

    /// Another weir has taken the process over, or has begun to. The process can say so too.
    pub fn are_taken_over(&self) -> bool {
        self.state_word().load(Ordering::SeqCst) & reads::TAKEN_OVER == reads::TAKEN_OVER
    }

    /// Looks, before the memory is looked at. None where nothing may be published now, or ever.
    pub fn look(&self) -> Option<Known> {
        let state = self.state_word().load(Ordering::SeqCst);
        if state & reads::CLOSED != 0 || !matches!(state & reads::KIND, reads::OFF | reads::VALID) {
            return None;
        }
        let mut leaving = Vec::new();
        for n in 0..reads::CALLS as u64 {
            let (start, end) = (reads::CALL_RANGES + n * 16, reads::CALL_RANGES + n * 16 + 8);
            match self.word(reads::KEYS + n * 8).load(Ordering::SeqCst) {
                0 => {}
                key if key & reads::CALL_BUSY != 0 => leaving.push(0..u64::MAX),
                key => {
                    let range =
                        self.word(start).load(Ordering::Relaxed)..self.word(end).load(Ordering::Relaxed);
                    // Another call may have been noted here meanwhile: then that one's.
                    let is_same = self.word(reads::KEYS + n * 8).load(Ordering::SeqCst) == key;
                    leaving.push(if is_same { range } else { 0..u64::MAX });
                }
            }
        }
        Some(Known { state, leaving })
    }

    /// Publishes what is known since `known` was looked at: `ranges`, by address and apart, and where the heap ends. False,
    /// and nothing has changed, where something was taken away meanwhile; or where the table that holds knows more: then
    /// memory went another way than those that are watched.
    pub fn publish(&self, known: &Known, ranges: &[Range<u64>], heap_end: u64) -> bool {
        let ranges = &ranges[..ranges.len().min(reads::RANGES)];
        if known.state & reads::KIND == reads::VALID && !self.are_all_in(known, ranges) {
            return false;
        }
        let epoch =
            (known.state as u32 / reads::EPOCH as u32).wrapping_add(1) & (u32::MAX / reads::EPOCH as u32);
        let table = reads::TABLES + u64::from(epoch % 2) * reads::TABLE_BYTES;
        self.word(table).store(ranges.len() as u64, Ordering::Relaxed);
        self.word(table + 8).store(heap_end, Ordering::Relaxed);
        for (n, range) in (0..).zip(ranges) {
            self.word(table + 16 + n * 16).store(range.start, Ordering::Relaxed);
            self.word(table + 24 + n * 16).store(range.end, Ordering::Relaxed);
        }
        let turns = known.state & !u64::from(u32::MAX);
        let valid = turns | (u64::from(epoch) * reads::EPOCH) | reads::VALID;
        let published =
            self.state_word().compare_exchange(known.state, valid, Ordering::SeqCst, Ordering::SeqCst);
        published.is_ok()
    }

    /// Whether all that the table of `known` has is in `ranges`.
    fn are_all_in(&self, known: &Known, ranges: &[Range<u64>]) -> bool {
        self.table(known).iter().all(|old| {
            let after = ranges.partition_point(|range| range.start <= old.start);
            after.checked_sub(1).is_some_and(|at| old.end <= ranges[at].end)
        })
    }

    /// The table that `known` was looked at with, if it was valid.
    pub fn table(&self, known: &Known) -> Vec<Range<u64>> {
        if known.state & reads::KIND != reads::VALID {
            return Vec::new();
        }
        let table = reads::TABLES + known.state / reads::EPOCH % 2 * reads::TABLE_BYTES;
        let count = self.word(table).load(Ordering::Relaxed).min(reads::RANGES as u64);
        let range = |n: u64| {
            let at = table + 16 + n * 16;
            self.word(at).load(Ordering::Relaxed)..self.word(at + 8).load(Ordering::Relaxed)
        };
        (0..count).map(range).collect()
    }

    /// From now on no load begins. Those that have begun end when their thread is stopped.
    pub fn close(&self) {
        self.state_word().fetch_or(reads::CLOSED, Ordering::SeqCst);
    }

    /// Reads that found their memory not to be known while a table held.
    pub fn missed(&self) -> u64 {
        self.word(reads::MISSED).load(Ordering::Relaxed)
    }

    /// Why the process has closed the table for good, in its own words.
    pub fn why(&self) -> Option<&'static str> {
        match self.word(reads::WHY).load(Ordering::Relaxed) {
            1 => Some("it shares its memory with a child"),
            2 => Some("it uses protection keys"),
            3 => Some("it handles page faults itself (userfaultfd)"),
            4 => Some("more calls than can be noted take memory away at once"),
            5 => Some("it has installed a system call filter"),
            _ => None,
        }
    }

    fn state_word(&self) -> &AtomicU64 {
        self.segment.mapping().word(header::READS_STATE as u64)
    }

    fn word(&self, offset: u64) -> &AtomicU64 {
        self.segment.mapping().word(self.segment.layout().reads_offset + offset)
    }
}

#[cfg(test)]
mod tests;
