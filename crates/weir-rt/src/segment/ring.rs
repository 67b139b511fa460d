//! The consumer of a ring: records out, in the order of their reservation. A `PerfEventArray` has a ring for each CPU.
//!
//! Producers are in `c/ring.c`, which describes the protocol. The position read from is this process's own; what a
//! target writes over the shared one only harms its producers. A length is used after it was checked against the
//! end of the data; an impossible header is counted as corrupt and the reader goes on at the producers' position.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use weir_ebpf::MapKind;

use super::Segment;
use super::layout::RingPlace;
use super::mapping::Mapping;
use crate::abi::{control, record};

/// One submitted record.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Record {
    pub bytes: Vec<u8>,
}

/// The reading end of one ring. There may be several; each record goes to one of them.
#[derive(Clone, Copy, Debug)]
pub struct RingReader<'a> {
    segment: &'a Segment,
    index: usize,
    /// Which of the map's rings.
    lane: usize,
}

/// The reading end of the rings of a `PerfEventArray`: one for each CPU.
#[derive(Clone, Copy, Debug)]
pub struct PerfReader<'a> {
    segment: &'a Segment,
    index: usize,
    /// The ring that is looked at first, next time.
    turn: usize,
}

/// What was lost on the way.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RingCounters {
    /// Records refused because the ring was full.
    pub dropped: u64,
    /// Records that a dead target reserved and never submitted.
    pub uncommitted: u64,
    /// Impossible headers or positions.
    pub corrupt: u64,
}

/// The controller's own memory of a ring.
#[derive(Debug)]
pub(super) struct RingState {
    place: RingPlace,
    /// Bytes consumed since the beginning; locked while a record is taken out.
    position: Mutex<u64>,
    uncommitted: AtomicU64,
    corrupt: AtomicU64,
}

impl RingState {
    pub(super) fn new(place: RingPlace) -> RingState {
        RingState {
            place,
            position: Mutex::new(0),
            uncommitted: AtomicU64::new(0),
            corrupt: AtomicU64::new(0),
        }
    }
}

/// One taking of a record.
struct Take<'a> {
    segment: &'a Segment,
    state: &'a RingState,
    place: RingPlace,
    seed: u64,
    position: MutexGuard<'a, u64>,
}

/// What stands at the reading position.
enum Next {
    Empty,
    Busy { bytes: u64 },
    Discarded { bytes: u64 },
    Submitted { size: u64, bytes: u64 },
    Corrupt,
}

/// Fills a ring's data with the words that mean "free in lap 0".
pub(super) fn mark_free(mapping: &Mapping, place: RingPlace, seed: u64) {
    for at in (0..place.bytes).step_by(8) {
        mapping.word(place.data + at).store(seed, Ordering::Relaxed);
    }
}

impl<'a> PerfReader<'a> {
    pub(super) fn new(segment: &'a Segment, index: usize) -> Self {
        let kind = segment.layout().maps[index].spec.kind;
        assert_eq!(kind, MapKind::PerfEventArray, "map {index} has no ring for each CPU");
        PerfReader { segment, index, turn: 0 }
    }

    /// A record with the CPU that it was written on: of each CPU the oldest first, the CPUs in turn. `None`: nothing,
    /// or only records whose producers are still at work.
    #[allow(clippy::should_implement_trait, reason = "None does not end it: more may come")]
    pub fn next(&mut self) -> Option<(u32, Record)> {
        let rings = self.segment.rings[self.index].len();
        for step in 0..rings {
            let lane = (self.turn + step) % rings;
            if let Some(record) = self.ring(lane).next() {
                self.turn = lane + 1;
                return Some((lane as u32, record));
            }
        }
        None
    }

    /// Everything that is left after the target has died, CPU by CPU.
    pub fn drain_dead(&mut self) -> Vec<(u32, Record)> {
        let rings = 0..self.segment.rings[self.index].len();
        rings
            .flat_map(|lane| {
                self.ring(lane).drain_dead().into_iter().map(move |record| (lane as u32, record))
            })
            .collect()
    }

    /// Sums over all CPUs.
    pub fn counters(&self) -> RingCounters {
        (0..self.segment.rings[self.index].len()).fold(RingCounters::default(), |sum, lane| {
            let of = self.ring(lane).counters();
            RingCounters {
                dropped: sum.dropped.wrapping_add(of.dropped),
                uncommitted: sum.uncommitted + of.uncommitted,
                corrupt: sum.corrupt + of.corrupt,
            }
        })
    }

    fn ring(&self, lane: usize) -> RingReader<'a> {
        RingReader { segment: self.segment, index: self.index, lane }
    }
}

impl<'a> RingReader<'a> {
    pub(super) fn new(segment: &'a Segment, index: usize) -> Self {
        assert_eq!(segment.layout().maps[index].spec.kind, MapKind::RingBuf, "map {index} is not a ring");
        RingReader { segment, index, lane: 0 }
    }

    /// The oldest record not yet read, once it is submitted. `None`: nothing, or its producer is still at work.
    #[allow(clippy::should_implement_trait, reason = "None does not end it: more may come")]
    pub fn next(&mut self) -> Option<Record> {
        self.take().record(false)
    }

    /// Everything that is left after the target has died; records it never submitted are skipped and counted.
    pub fn drain_dead(&mut self) -> Vec<Record> {
        // Other processes may share the segment: what is drained is at most a ring's worth of records.
        let records_max = self.take().place.bytes as usize / 8;
        std::iter::from_fn(|| self.take().record(true)).take(records_max).collect()
    }

    pub fn counters(&self) -> RingCounters {
        let state = &self.segment.rings[self.index][self.lane];
        let dropped = state.place.control + control::DROPPED;
        RingCounters {
            dropped: self.segment.mapping().word(dropped).load(Ordering::Relaxed),
            uncommitted: state.uncommitted.load(Ordering::Relaxed),
            corrupt: state.corrupt.load(Ordering::Relaxed),
        }
    }

    fn take(&self) -> Take<'a> {
        let state = &self.segment.rings[self.index][self.lane];
        let position = state.position.lock().unwrap_or_else(PoisonError::into_inner);
        let seed = self.segment.descriptor(self.index).seed;
        Take { segment: self.segment, state, place: state.place, seed, position }
    }
}

impl<'a> Take<'a> {
    fn record(&mut self, is_dead: bool) -> Option<Record> {
        let state = self.state;
        // Each step but the last consumes at least 8 bytes; a target that keeps writing ends this after two laps.
        for _ in 0..self.place.bytes / 4 {
            match self.peek() {
                Next::Empty => return None,
                Next::Busy { .. } if !is_dead => return None,
                Next::Busy { bytes } => {
                    state.uncommitted.fetch_add(1, Ordering::Relaxed);
                    self.consume(bytes);
                }
                Next::Discarded { bytes } => self.consume(bytes),
                Next::Submitted { size, bytes } => {
                    let at = self.place.data + self.offset() + 8;
                    let record = Record { bytes: self.segment.mapping().copy(at, size as usize) };
                    self.consume(bytes);
                    return Some(record);
                }
                Next::Corrupt => {
                    state.corrupt.fetch_add(1, Ordering::Relaxed);
                    self.resynchronise();
                    return None;
                }
            }
        }
        None
    }

    fn peek(&self) -> Next {
        let word = self.segment.mapping().word(self.place.data + self.offset()).load(Ordering::Acquire);
        if word == self.tag(*self.position) {
            return Next::Empty;
        }
        let size = word >> record::SIZE_SHIFT;
        let bytes = (size + 8).next_multiple_of(8);
        if word & record::USED == 0 || bytes > self.place.bytes - self.offset() {
            return Next::Corrupt;
        }
        if word & record::BUSY != 0 {
            Next::Busy { bytes }
        } else if word & record::DISCARD != 0 {
            Next::Discarded { bytes }
        } else {
            Next::Submitted { size, bytes }
        }
    }

    /// Gives `bytes` at the position back to the producers.
    fn consume(&mut self, bytes: u64) {
        let start = *self.position;
        let end = start + bytes;
        // A producer that died or sleeps behind its claim has not moved the tail yet. It must move first: at the old
        // place the next lap's tag would stop every producer.
        let tail = self.control(control::FREE_OR_PRODUCER);
        let _ = tail.compare_exchange(start, end, Ordering::AcqRel, Ordering::Relaxed);
        let free = self.tag(start).wrapping_add(self.place.bytes);
        let at = self.place.data + self.offset();
        for n in (0..bytes).step_by(8) {
            self.segment.mapping().word(at + n).store(free, Ordering::Release);
        }
        *self.position = end;
        self.control(control::SPARE_OR_CONSUMER).store(end, Ordering::Release);
    }

    /// After an impossible header: frees everything and goes on where producers do, or a lap further if what they
    /// say is impossible too.
    fn resynchronise(&mut self) {
        let bytes = self.place.bytes;
        let tail = self.control(control::FREE_OR_PRODUCER).load(Ordering::Acquire);
        let ahead = tail.wrapping_sub(*self.position);
        let is_plausible = (8..=bytes).contains(&ahead) && ahead.is_multiple_of(8);
        let end = if is_plausible { tail } else { (*self.position).wrapping_add(bytes) };
        let mut at = *self.position;
        while at != end {
            let word = self.place.data + (at & (bytes - 1));
            self.segment.mapping().word(word).store(self.tag(at).wrapping_add(bytes), Ordering::Release);
            at = at.wrapping_add(8);
        }
        *self.position = end;
        self.control(control::FREE_OR_PRODUCER).store(end, Ordering::Release);
        self.control(control::SPARE_OR_CONSUMER).store(end, Ordering::Release);
    }

    fn tag(&self, position: u64) -> u64 {
        self.seed.wrapping_add(position & !(self.place.bytes - 1))
    }

    fn offset(&self) -> u64 {
        *self.position & (self.place.bytes - 1)
    }

    fn control(&self, at: u64) -> &'a AtomicU64 {
        self.segment.mapping().word(self.place.control + at)
    }
}
