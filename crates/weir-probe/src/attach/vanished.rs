//! Probes that weir has not removed and that are gone from a process's text: the process has written its text back, mapped it anew, or dropped
//! its copies of pages (MADV_DONTNEED).
//!
//! In: the patches of an attachment. Out of [`Attachment::look_at_text`]: how many are gone that were there. A look reads the
//! text of some pages with probes; pages take turns. What is gone when the probes are taken out is in [`crate::Report`].

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use crate::attach::patch::PAGE;
use crate::attach::state::{Attachment, Probe};
use crate::attach::undo::Patch;

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
        let probes = self.still_gone(suspects);
        let within = now.duration_since(self.text.since.unwrap_or(now));
        self.text.since = self.text.before.or(self.text.round);
        for _ in 0..PAGES_PER_LOOK {
            let Some(last) = self.text.left.last() else { break };
            let page = last.address / PAGE;
            let first = self.text.left.partition_point(|probe| probe.address / PAGE > page);
            let of_page = self.text.left.split_off(first);
            let gone = self.gone_of(of_page);
            self.text.suspects.extend(gone);
        }
        (probes > 0).then_some(Vanished { probes, within })
    }

    fn begin_round(&mut self, now: Instant) {
        if self.text.round.is_some_and(|round| now.duration_since(round) < ROUND_MIN) {
            return;
        }
        let probes = self.undo.patches.iter().filter(|patch| patch.is_probe && patch.new != patch.old);
        let probe = |patch: &Patch| Probe { address: patch.address, old: patch.bare().to_vec() };
        // Lists of those who are called are looked after elsewhere ([`crate::attach::calls`]).
        let probes = probes.filter(|patch| !patch.is_called);
        let (gone, mut left): (Vec<Probe>, Vec<Probe>) =
            probes.map(probe).partition(|probe| self.text.gone.contains(&probe.address));
        // Those that are there again: of a library that has come back.
        self.text.gone = gone.iter().map(|probe| probe.address).collect();
        for probe in gone.iter().take(PAGES_PER_LOOK).filter(|probe| !self.is_gone(probe)).collect::<Vec<_>>()
        {
            self.text.gone.remove(&probe.address);
        }
        left.sort_unstable_by_key(|probe| Reverse(probe.address));
        self.text.left = left;
        self.text.before = self.text.round.replace(now);
    }

    /// Those of a page that are gone; they lie in its text, or end a few bytes after it.
    fn gone_of(&self, of_page: Vec<Probe>) -> Vec<Probe> {
        let (Some(last), Some(first)) = (of_page.first(), of_page.last()) else { return Vec::new() };
        let (start, end) = (first.address, last.address + last.old.len() as u64);
        let mut text = vec![0; (end - start) as usize];
        if self.target.memory.read(start, &mut text).is_err() {
            return of_page.into_iter().filter(|probe| self.is_gone(probe)).collect();
        }
        let is_gone = |probe: &Probe| text[(probe.address - start) as usize..].starts_with(&probe.old);
        of_page.into_iter().filter(is_gone).collect()
    }

    /// How many of these are new, are gone still, and are probes still.
    fn still_gone(&mut self, suspects: Vec<Probe>) -> usize {
        if suspects.is_empty() {
            return 0;
        }
        let known: BTreeSet<u64> = self.undo.patches.iter().map(|patch| patch.address).collect();
        let gone =
            suspects.iter().filter(|suspect| known.contains(&suspect.address) && self.is_gone(suspect));
        let gone: Vec<u64> = gone.map(|probe| probe.address).collect();
        gone.into_iter().filter(|address| self.text.gone.insert(*address)).count()
    }

    fn is_gone(&self, probe: &Probe) -> bool {
        let mut now = vec![0; probe.old.len()];
        self.target.memory.read(probe.address, &mut now).is_ok() && now == probe.old
    }
}
