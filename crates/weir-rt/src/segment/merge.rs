//! One order over the rings of a map: that of the times of their records.
//!
//! In rounds: a round looks how far each ring has got, and gives what is there by then, least time first. In each ring
//! times never fall, so the oldest record of each is enough to know. What is reserved during the look belongs to the next
//! round, where its time may be below one that was given already: by as much as a look takes.
//!
//! A record whose producer is at work is waited for, as those with later times may depend on what it says; but not for
//! longer than [`WAIT_TICKS`], since a thread may be stopped for ever: the other rings go on then. In the shared
//! ring such a record has no time yet, and is not waited for.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::ring::{Head, Record, Take};
use crate::clock;

/// Ticks of the time stamp counter: a tenth of a second, about.
const WAIT_TICKS: u64 = 1 << 28;

/// The state of a round.
#[derive(Debug, Default)]
pub(super) struct Merge {
    /// Time of the oldest record and number of each ring that has something left.
    heads: BinaryHeap<Reverse<(u64, usize)>>,
    /// How far each ring is read.
    ends: Vec<u64>,
}

impl Merge {
    /// The next record of so many rings; `is_dead`: nobody will submit those that are not.
    pub(super) fn next<'a>(
        &mut self,
        rings: usize,
        take: &dyn Fn(usize) -> Take<'a>,
        is_dead: bool,
    ) -> Option<Record> {
        // What is left of a round may have become nothing; what a new one finds has something.
        for _ in 0..2 {
            if self.heads.is_empty() {
                self.begin(rings, take, is_dead);
            }
            while let Some(Reverse((ticks, lane))) = self.heads.pop() {
                let mut ring = take(lane);
                let end = Some(self.ends[lane]);
                if let Some(record) = ring.record(end, is_dead) {
                    let head = ring.head(end, is_dead);
                    self.add(lane, head, ring.times_busy_records());
                    return Some(record);
                }
                let head = ring.head(end, is_dead);
                if head == Some(Head { ticks, is_busy: true }) && is_worth_waiting(ticks) {
                    self.heads.push(Reverse((ticks, lane)));
                    return None;
                }
            }
        }
        None
    }

    /// Gives `work` so many records at most, those that [`Merge::next`] would give one after the other: how many. All that one ring has from before
    /// the others' oldest record is given at once.
    pub(super) fn each<'a>(
        &mut self,
        rings: usize,
        take: &dyn Fn(usize) -> Take<'a>,
        most: usize,
        work: &mut impl FnMut(&[u8], u64),
    ) -> usize {
        let (mut given, mut rounds_of_nothing) = (0, 0);
        while given < most && rounds_of_nothing < 2 {
            if self.heads.is_empty() {
                self.begin(rings, take, false);
            }
            let before = given;
            while given < most
                && let Some(Reverse((ticks, lane))) = self.heads.pop()
            {
                let (mut ring, end) = (take(lane), Some(self.ends[lane]));
                let other = self.heads.peek().map(|Reverse(head)| *head);
                let is_next = |ticks| other.is_none_or(|other| (ticks, lane) < other);
                let mut taken = ring.each_while(end, most - given, is_next, work);
                if taken == 0
                    && let Some(record) = ring.record(end, false)
                {
                    work(&record.bytes, record.ticks);
                    taken = 1;
                }
                given += taken;
                let head = ring.head(end, false);
                if taken > 0 {
                    self.add(lane, head, ring.times_busy_records());
                } else if head == Some(Head { ticks, is_busy: true }) && is_worth_waiting(ticks) {
                    self.heads.push(Reverse((ticks, lane)));
                    return given;
                }
            }
            rounds_of_nothing = if given > before { 0 } else { rounds_of_nothing + 1 };
        }
        given
    }

    fn begin<'a>(&mut self, rings: usize, take: &dyn Fn(usize) -> Take<'a>, is_dead: bool) {
        self.ends.clear();
        self.ends.extend((0..rings).map(|lane| take(lane).end(is_dead)));
        for lane in 0..rings {
            let mut ring = take(lane);
            let head = ring.head(Some(self.ends[lane]), is_dead);
            self.add(lane, head, ring.times_busy_records());
        }
    }

    fn add(&mut self, lane: usize, head: Option<Head>, times_busy_records: bool) {
        let Some(Head { ticks, is_busy }) = head else { return };
        if !is_busy || times_busy_records && is_worth_waiting(ticks) {
            self.heads.push(Reverse((ticks, lane)));
        }
    }
}

/// Whether a record of that time, which is not submitted, may still be.
fn is_worth_waiting(ticks: u64) -> bool {
    clock::ticks_if_allowed().is_some_and(|now| now.wrapping_sub(ticks) < WAIT_TICKS)
}
