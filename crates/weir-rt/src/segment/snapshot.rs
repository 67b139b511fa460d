//! What is in rings that overwrite: a copy of their records out, oldest first, and how many gave way. Nothing is taken.
//!
//! Producers are in `c/ring.c` and in weir-jit's `src/isa/x86_64/records.rs`, which describes the protocol. A ring is copied word by
//! word while they go on; then the position of its oldest record is read. What lies below it may have been overwritten
//! during the copy and is left out; what lies at it and beyond has not been, since it moves before anything is written. So
//! no record of a snapshot is torn, whatever producers do, and of each ring what is in it and what gave way are all that
//! was submitted up to some moment of the copy.
//!
//! Everything is checked as in `ring.rs`: a segment that a target has spoiled gives other records, or fewer, and counts as
//! corrupt.

use std::sync::atomic::{AtomicU64, Ordering, fence};

use super::Segment;
use super::layout::{RingForm, RingPlace};
use super::ring::{Record, RingCounters, writer};
use crate::abi::{control, record};
use crate::limits;

/// The reading end of a map whose rings overwrite.
#[derive(Clone, Copy, Debug)]
pub struct SnapshotReader<'a> {
    segment: &'a Segment,
    index: usize,
}

/// What a ring holds, or all rings of a map.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Snapshot {
    /// The oldest first, by their times.
    pub records: Vec<Record>,
    /// Records that were submitted once, and gave way to newer ones.
    pub overwritten: u64,
    /// Records refused: larger than a ring, or all that would have had to give way was being written, or no ring was free
    /// for code that has no CPU's.
    pub dropped: u64,
    /// Records that are being written, or whose writers died at it, those included that this process has skipped.
    pub uncommitted: u64,
    /// Rings in which impossible values stand.
    pub corrupt: u64,
}

/// The bytes of a ring as they were at some moment, not taken apart yet.
#[derive(Debug)]
pub struct RingCopy {
    /// None: the position of the oldest is no writer's.
    copy: Option<Copy>,
    dropped: u64,
    /// Records that this process has skipped.
    skipped: u64,
}

/// Bytes before a payload, and what records are multiples of.
const HEAD_BYTES: u64 = 16;
/// Looks at position and count before somebody is taken to play with them: the two stand in one cache line, and change in
/// two stores.
const LOOKS_MAX: u32 = 1 << 16;
/// In the position of the oldest record: which of the two counts holds.
const COUNT_BIT: u64 = 1;

impl<'a> SnapshotReader<'a> {
    pub(super) fn new(segment: &'a Segment, index: usize) -> Self {
        assert!(segment.layout().maps[index].spec.overwrites(), "map {index} does not overwrite");
        SnapshotReader { segment, index }
    }

    /// How many rings the map has: one for each CPU, then those for code that has no CPU's.
    pub fn rings(&self) -> usize {
        self.places().len()
    }

    /// All of them, one after the other, their records by time.
    pub fn snapshot(&self) -> Snapshot {
        let mut all = Snapshot::default();
        for lane in 0..self.rings() {
            let one = self.lane(lane);
            all.records.extend(one.records);
            all.overwritten = all.overwritten.wrapping_add(one.overwritten);
            all.dropped = all.dropped.wrapping_add(one.dropped);
            all.uncommitted += one.uncommitted;
            all.corrupt += one.corrupt;
        }
        all.records.sort_by_key(|record| record.ticks);
        all
    }

    /// One of them alone.
    ///
    /// # Panics
    /// If there are not so many.
    pub fn lane(&self, lane: usize) -> Snapshot {
        self.copy(lane).read()
    }

    /// The bytes of one of them: that is quick, and takes no more memory than they have.
    ///
    /// # Panics
    /// If there are not so many.
    pub fn copy(&self, lane: usize) -> RingCopy {
        let place = self.places()[lane];
        assert_eq!(place.form, RingForm::Overwriting, "the layout says what a ring is");
        let ring = Ring { segment: self.segment, place };
        RingCopy {
            copy: ring.copy(),
            dropped: ring.control(control::DROPPED).load(Ordering::Relaxed),
            skipped: self.skipped(lane).load(Ordering::Relaxed),
        }
    }

    /// Makes records that are being written by threads that are gone into discarded ones, so that they keep no place any
    /// more. Returns how many. `is_gone`: as for [`RingReader::skip_gone`](super::RingReader::skip_gone).
    pub fn skip_gone(&self, is_gone: &dyn Fn(u32) -> bool) -> u64 {
        let mut all = 0;
        for (lane, place) in self.places().into_iter().enumerate() {
            let skipped = Ring { segment: self.segment, place }.skip_gone(is_gone);
            self.skipped(lane).fetch_add(skipped, Ordering::Relaxed);
            all += skipped;
        }
        all
    }

    fn skipped(&self, lane: usize) -> &'a AtomicU64 {
        self.segment.rings[self.index].uncommitted(lane)
    }

    /// What became of records, without a copy of them.
    pub fn counters(&self) -> RingCounters {
        let mut sum = RingCounters::default();
        for (lane, place) in self.places().into_iter().enumerate() {
            let ring = Ring { segment: self.segment, place };
            sum.uncommitted += self.skipped(lane).load(Ordering::Relaxed);
            let refused = ring.control(control::DROPPED).load(Ordering::Relaxed);
            let overwritten = ring.oldest().map_or(0, |oldest| oldest.overwritten);
            sum.dropped = sum.dropped.wrapping_add(refused);
            sum.overwritten = sum.overwritten.wrapping_add(overwritten);
            let corrupt = ring.control(control::CORRUPT).load(Ordering::Relaxed);
            sum.corrupt = sum.corrupt.wrapping_add(corrupt);
        }
        sum
    }

    fn places(&self) -> Vec<RingPlace> {
        self.segment.layout().maps[self.index].rings()
    }
}

impl RingCopy {
    /// The records in it.
    pub fn read(self) -> Snapshot {
        let mut snapshot = match self.copy {
            Some(Copy { words, overwritten, .. }) => parse(&words, overwritten),
            None => Snapshot { corrupt: 1, ..Snapshot::default() },
        };
        snapshot.dropped = self.dropped;
        snapshot.uncommitted += self.skipped;
        // A record that was being written when a lap came to it stands behind newer ones.
        snapshot.records.sort_by_key(|record| record.ticks);
        snapshot
    }
}

/// One ring.
struct Ring<'a> {
    segment: &'a Segment,
    place: RingPlace,
}

/// The words from a position on, up to the tail, and how many records stood before it and are no more.
#[derive(Debug, Default)]
struct Copy {
    from: u64,
    words: Vec<u64>,
    overwritten: u64,
}

/// Where the oldest record stands, and how many stood before it and are no more.
struct Oldest {
    position: u64,
    overwritten: u64,
}

impl Ring<'_> {
    /// The records that are there, whole. `None`: the position of the oldest is no writer's.
    fn copy(&self) -> Option<Copy> {
        let mut last = Copy::default();
        for _ in 0..(limits::SNAPSHOT_BYTES / self.place.bytes).max(16) {
            let tail = self.tail();
            // Where the step over a record that is being written is half done, its place in the last lap is not looked at.
            let start = tail.saturating_sub(self.place.bytes);
            let mut words = self.words(start, tail);
            fence(Ordering::Acquire);
            let Oldest { position, overwritten } = self.oldest()?;
            let from = position.max(start);
            if from <= tail {
                words.drain(..((from - start) / 8) as usize);
                return Some(Copy { from, words, overwritten });
            }
            // Oldest records stand before the tail: where it has not moved, no writer has done this.
            if self.tail() == tail {
                return None;
            }
            // All that was copied has given way meanwhile.
            last = Copy { from, words: Vec::new(), overwritten };
        }
        // Writers are faster all the time: it is a copy of the moment before the oldest record came.
        Some(last)
    }

    fn skip_gone(&self, is_gone: &dyn Fn(u32) -> bool) -> u64 {
        let Some(Copy { from, words, .. }) = self.copy() else { return 0 };
        let mut skipped = 0;
        for Head { at, header, .. } in heads(&words).filter(|head| writer(head.header).is_some_and(is_gone)) {
            // It is at this place in whatever lap, and nobody but its writer changes its header.
            let place = from.wrapping_add(8 * at as u64 + 8) & (self.place.bytes - 1);
            let discarded = header & !record::BUSY | record::DISCARD;
            let word = self.word(self.place.data + place);
            let done = word.compare_exchange(header, discarded, Ordering::AcqRel, Ordering::Relaxed);
            skipped += u64::from(done.is_ok());
        }
        skipped
    }

    fn tail(&self) -> u64 {
        self.control(control::FREE_OR_PRODUCER).load(Ordering::Acquire) & !(HEAD_BYTES - 1)
    }

    fn oldest(&self) -> Option<Oldest> {
        let position = self.control(control::SPARE_OR_CONSUMER);
        for _ in 0..LOOKS_MAX {
            let before = position.load(Ordering::Acquire);
            let count = self.control(control::OVERWRITTEN + 8 * (before & COUNT_BIT));
            let overwritten = count.load(Ordering::Acquire);
            if position.load(Ordering::Acquire) == before {
                return Some(Oldest { position: before & !(HEAD_BYTES - 1), overwritten });
            }
        }
        None
    }

    /// The words from one position to another, at most a lap behind it; each header before its payload.
    fn words(&self, from: u64, to: u64) -> Vec<u64> {
        let at = |position: u64| self.word(self.place.data + (position & (self.place.bytes - 1)));
        (from..to).step_by(8).map(|position| at(position).load(Ordering::Acquire)).collect()
    }

    fn word(&self, at: u64) -> &AtomicU64 {
        self.segment.mapping().word(at)
    }

    fn control(&self, at: u64) -> &AtomicU64 {
        self.word(self.place.control + at)
    }
}

fn parse(words: &[u64], overwritten: u64) -> Snapshot {
    let mut snapshot = Snapshot { overwritten, ..Snapshot::default() };
    let mut end = 0;
    for Head { at, header, words: taken } in heads(words) {
        end = at + taken;
        if header & record::BUSY != 0 {
            snapshot.uncommitted += 1;
        } else if header & record::DISCARD == 0 {
            let payload = words[at + 2..end].iter().flat_map(|word| word.to_le_bytes());
            let bytes = payload.take((header >> record::SIZE_SHIFT) as usize).collect();
            snapshot.records.push(Record { bytes, ticks: words[at] });
        }
    }
    snapshot.corrupt = u64::from(end != words.len());
    snapshot
}

/// The head of a record: which word of a copy it begins with, and how many it takes.
struct Head {
    at: usize,
    header: u64,
    words: usize,
}

/// Those of records one after the other, up to the first that is impossible.
fn heads(words: &[u64]) -> impl Iterator<Item = Head> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let [_, header, rest @ ..] = words.get(at..)? else { return None };
        let size = (header >> record::SIZE_SHIFT) as usize;
        let payload = size.div_ceil(HEAD_BYTES as usize) * (HEAD_BYTES as usize / 8);
        if header & record::USED == 0 || payload > rest.len() {
            return None;
        }
        let head = Head { at, header: *header, words: 2 + payload };
        at += head.words;
        Some(head)
    })
}
