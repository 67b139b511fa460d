//! Probes that are gone from a process's text, though nobody took them out: it has written its text back, mapped it anew, or dropped its copies of
//! pages (MADV_DONTNEED).
//!
//! In: the patches of an attachment. Out of [`Attachment::look_at_text`]: how many are gone that were there. A look reads a few bytes of each of some
//! pages; pages take turns, and of a page its patches. What is gone when the probes are taken out is in [`crate::Report`].

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use crate::attach::Attachment;
use crate::attach::patch::PAGE;

/// Between two looks.
const INTERVAL: Duration = Duration::from_millis(100);
/// Pages of one look: some hundred microseconds.
const PAGES_PER_LOOK: usize = 128;
/// Between two looks at one page.
const ROUND_MIN: Duration = Duration::from_millis(500);

/// Probes whose text is as it was before them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Vanished {
    pub probes: usize,
    /// The last time that they were seen is not longer ago.
    pub within: Duration,
}

#[derive(Debug, Default)]
pub(crate) struct TextWatch {
    looked: Option<Instant>,
    /// When the pages began to have their turns, and the time before that.
    round: Option<Instant>,
    before: Option<Instant>,
    rounds: usize,
    /// Those that have not had theirs: address and old bytes of each probe, the greatest address first.
    left: Vec<(u64, Vec<u8>)>,
    /// Those that were gone at the last look. A library that comes again where it was is not patched yet, and weir may know of it a moment later.
    suspects: Vec<(u64, Vec<u8>)>,
    gone: BTreeSet<u64>,
}

impl Attachment {
    /// Looks at a part of the text. To be called often, by the thread that attached.
    pub fn look_at_text(&mut self) -> Option<Vanished> {
        let now = Instant::now();
        if self.text.looked.is_some_and(|looked| now.duration_since(looked) < INTERVAL) {
            return None;
        }
        self.text.looked = Some(now);
        if self.text.left.is_empty() {
            self.begin_round(now);
        }
        let suspects = std::mem::take(&mut self.text.suspects);
        let probes = self.still_gone(&suspects);
        for _ in 0..PAGES_PER_LOOK {
            let Some((last, _)) = self.text.left.last() else { break };
            let page = last / PAGE;
            let first = self.text.left.partition_point(|(address, _)| address / PAGE > page);
            let of_page = self.text.left.split_off(first);
            if !self.is_gone(&of_page[self.text.rounds % of_page.len()]) {
                continue;
            }
            let gone: Vec<_> = of_page.into_iter().filter(|patch| self.is_gone(patch)).collect();
            self.text.suspects.extend(gone);
        }
        let since = self.text.before.or(self.text.round).unwrap_or(now);
        (probes > 0).then(|| Vanished { probes, within: now.duration_since(since) })
    }

    /// How many are gone, as far as was seen.
    pub fn vanished(&self) -> usize {
        self.text.gone.len()
    }

    /// How many of these are new, are gone still, and are probes still.
    fn still_gone(&mut self, suspects: &[(u64, Vec<u8>)]) -> usize {
        if suspects.is_empty() {
            return 0;
        }
        let known: BTreeSet<u64> = self.undo.patches.iter().map(|patch| patch.address).collect();
        let gone = suspects.iter().filter(|suspect| known.contains(&suspect.0) && self.is_gone(suspect));
        let gone: Vec<u64> = gone.map(|(address, _)| *address).collect();
        gone.into_iter().filter(|address| self.text.gone.insert(*address)).count()
    }

    fn begin_round(&mut self, now: Instant) {
        if self.text.round.is_some_and(|round| now.duration_since(round) < ROUND_MIN) {
            return;
        }
        let probes = self.undo.patches.iter().filter(|patch| patch.is_probe && patch.new != patch.old);
        self.text.left = probes.map(|patch| (patch.address, patch.old.clone())).collect();
        self.text.left.sort_unstable_by_key(|(address, _)| Reverse(*address));
        self.text.before = self.text.round.replace(now);
        self.text.rounds = self.text.rounds.wrapping_add(1);
    }

    fn is_gone(&self, (address, old): &(u64, Vec<u8>)) -> bool {
        let mut now = vec![0; old.len()];
        self.target.memory.read(*address, &mut now).is_ok() && now == *old
    }
}
