//! The consumer of rings: records out. Of one ring in the order of their reservation; of a map with a ring for each CPU by
//! their times (`merge.rs`), or CPU by CPU.
//!
//! Producers are in `c/ring.c` and in weir-jit's `src/isa/x86_64/records.rs`, which describe the protocols. The position read from
//! is this process's own; what a target writes over the shared one only harms its producers. A length is used after it
//! was checked against the end of the data; an impossible header is counted as corrupt and the reader goes on at the
//! producers' position. Rings that overwrite are read in another way (`snapshot.rs`).

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use weir_ebpf::MapKind;

use super::Segment;
use super::aside::Aside;
use super::layout::{RingForm, RingPlace};
use super::mapping::Mapping;
use super::merge::Merge;
use crate::abi::{control, record};

/// How many bytes are read before their room is given back to producers.
const PUBLISHED_BYTES: u64 = 64 << 10;

/// One submitted record.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Record {
    pub bytes: Vec<u8>,
    /// What the time stamp counter showed when the record was reserved. In one ring it never falls. 0 in a ring of a map
    /// that has but one, and where the writer may not read the counter.
    pub ticks: u64,
}

/// The reading end of a ring, or of the rings of a map that has one for each CPU. There may be several; each record
/// goes to one of them.
#[derive(Clone, Copy, Debug)]
pub struct RingReader<'a> {
    segment: &'a Segment,
    index: usize,
    /// Which of the map's rings; all of them, if it is not said.
    lane: Option<usize>,
}

/// How far there were records in rings, at some time.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RingMark {
    /// So many they are at most which had not been read then.
    pub records_max: u64,
    ends: Vec<u64>,
}

/// The reading end of the rings of a `PerfEventArray`: one for each CPU.
#[derive(Clone, Copy, Debug)]
pub struct PerfReader<'a> {
    segment: &'a Segment,
    index: usize,
    /// The ring that is looked at first, next time.
    turn: usize,
}

/// What became of records.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RingCounters {
    /// Records that were read.
    pub read: u64,
    /// Records refused because the ring was full.
    pub dropped: u64,
    /// Records that a dead target, or thread, reserved and never submitted.
    pub uncommitted: u64,
    /// Impossible headers or positions.
    pub corrupt: u64,
    /// In rings that overwrite: records that gave way to newer ones.
    pub overwritten: u64,
}

/// The controller's own memory of the rings of one map.
#[derive(Debug)]
pub(super) struct Rings {
    each: Box<[RingState]>,
    merge: Mutex<Merge>,
}

/// The same of one ring.
#[derive(Debug)]
struct RingState {
    place: RingPlace,
    /// Bytes consumed since the beginning; locked while a record is taken out.
    position: Mutex<u64>,
    read: AtomicU64,
    uncommitted: AtomicU64,
    corrupt: AtomicU64,
}

/// One taking of a record.
pub(super) struct Take<'a> {
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

impl Next {
    /// What a header says of a record with `head` bytes before its payload, where there is room for `most` bytes.
    fn of(header: u64, head: u64, most: u64) -> Next {
        let size = header >> record::SIZE_SHIFT;
        let bytes = (size + head).next_multiple_of(head);
        if header & record::USED == 0 || bytes > most {
            return Next::Corrupt;
        }
        if header & record::BUSY != 0 {
            Next::Busy { bytes }
        } else if header & record::DISCARD != 0 {
            Next::Discarded { bytes }
        } else {
            Next::Submitted { size, bytes }
        }
    }
}

/// The oldest record of a ring.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Head {
    pub(super) ticks: u64,
    /// Its producer is still at work.
    pub(super) is_busy: bool,
}

/// Fills a ring's data with the words that mean "free in lap 0".
pub(super) fn mark_free(mapping: &Mapping, place: RingPlace, seed: u64) {
    if matches!(place.form, RingForm::Cpu | RingForm::Overwriting) {
        return;
    }
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
        let rings = self.all().rings();
        for step in 0..rings {
            let lane = (self.turn + step) % rings;
            if let Some(record) = self.all().lane(lane).next() {
                self.turn = lane + 1;
                return Some((lane as u32, record));
            }
        }
        None
    }

    /// Everything that is left after the target has died, CPU by CPU.
    pub fn drain_dead(&mut self) -> Vec<(u32, Record)> {
        let all = self.all();
        (0..all.rings())
            .flat_map(|lane| all.lane(lane).drain_dead().into_iter().map(move |record| (lane as u32, record)))
            .collect()
    }

    /// Sums over all CPUs.
    pub fn counters(&self) -> RingCounters {
        self.all().counters()
    }

    fn all(&self) -> RingReader<'a> {
        RingReader { segment: self.segment, index: self.index, lane: None }
    }
}

impl<'a> RingReader<'a> {
    pub(super) fn new(segment: &'a Segment, index: usize) -> Self {
        let spec = &segment.layout().maps[index].spec;
        assert_eq!(spec.kind, MapKind::RingBuf, "map {index} is not a ring");
        assert!(!spec.overwrites(), "map {index} overwrites: nobody takes records out of it");
        RingReader { segment, index, lane: None }
    }

    /// How many rings the map has: one, or one for each CPU and one, the last, for code that has no CPU's.
    pub fn rings(&self) -> usize {
        self.states().each.len()
    }

    /// One of them alone. What [`RingReader::next`] of all has taken does not come again.
    ///
    /// # Panics
    /// If there are not so many.
    pub fn lane(&self, lane: usize) -> RingReader<'a> {
        assert!(lane < self.rings(), "ring {lane} of {}", self.rings());
        RingReader { lane: Some(lane), ..*self }
    }

    /// The oldest record not yet read, once it is submitted. `None`: nothing, or its producer is still at work.
    ///
    /// Of several rings that with the least time, of what is there when the first is taken; so records of different CPUs
    /// are in order as far as the times are, but one that was reserved during that look may come behind later ones. A
    /// producer that has been at work for long does not hold up the other CPUs' records.
    #[allow(clippy::should_implement_trait, reason = "None does not end it: more may come")]
    pub fn next(&mut self) -> Option<Record> {
        self.take_next(false)
    }

    /// Gives `work` the oldest records that are submitted, so many at most, one after the other: bytes, and ticks as in [`Record`]. How many those
    /// were. The same as [`RingReader::next`] again and again, at a fraction of what that costs: room is given back to producers
    /// seldom, by a word that they share, and rings are compared once for all records of one that are older than any of the others.
    ///
    /// `work` reads no ring of this map.
    pub fn each(&mut self, most: usize, mut work: impl FnMut(&[u8], u64)) -> usize {
        match self.lane {
            Some(lane) => self.take(lane).each(most, &mut work),
            None if self.rings() == 1 => self.take(0).each(most, &mut work),
            None => {
                let mut merge = self.states().merge.lock().unwrap_or_else(PoisonError::into_inner);
                merge.each(self.rings(), &|lane| self.take(lane), most, &mut work)
            }
        }
    }

    /// Moves the oldest records that are submitted into `aside`, so many bytes at most: several times as fast as they can be worked on, so that a
    /// burst does not fill the ring. How many records those were; none of rings that no CPU has for itself.
    ///
    /// # Panics
    /// For all rings of a map that has several: [`RingReader::lane`] is one of them.
    pub fn set_aside(&mut self, most: usize, aside: &mut Aside) -> usize {
        let lane = self.lane.unwrap_or(0);
        assert!(self.lane.is_some() || self.rings() == 1, "records of several rings, in no order");
        self.take(lane).set_aside(most, aside)
    }

    /// Gives `work` the oldest records that are submitted, until they have `most` bytes in the ring, and leaves them there: where they end. A reader that
    /// is killed before [`RingReader::release`] has lost nothing.
    ///
    /// # Panics
    /// As [`RingReader::set_aside`].
    pub fn look(&self, most: u64, mut work: impl FnMut(&[u8], u64)) -> u64 {
        self.only().look(most, &mut work)
    }

    /// Gives all that is before `end`, of [`RingReader::look`], back to producers.
    pub fn release(&mut self, end: u64) {
        self.only().release(end);
    }

    /// Where the next record is, in bytes since the beginning.
    pub fn position(&self) -> u64 {
        *self.only().position
    }

    /// Goes on at `position`, where another reader of these rings has come to; for who reads them when nobody writes to them any more.
    pub fn go_on_at(&mut self, position: u64) {
        *self.only().position = position;
    }

    /// Bytes that producers have taken and that were not read.
    ///
    /// # Panics
    /// As [`RingReader::set_aside`].
    pub fn filled(&self) -> u64 {
        let take = self.only();
        take.tail().wrapping_sub(*take.position).min(take.place.bytes)
    }

    /// Everything that is left after the target has died; records it never submitted are skipped and counted.
    pub fn drain_dead(&mut self) -> Vec<Record> {
        // Other processes may share the segment: what is drained is at most a ring's worth of records.
        let bytes: u64 = self.lanes().map(|lane| self.states().each[lane].place.bytes).sum();
        std::iter::from_fn(|| self.take_next(true)).take(bytes as usize / 8).collect()
    }

    /// Skips, in the rings of CPUs, what holds them up: records that are being written by threads that are gone, up to the
    /// first that is not. Returns how many. `is_gone` is given threads' ids as they know them themselves; it must be sure,
    /// as a thread that goes on writes over what comes there next. Records without such an id stay.
    pub fn skip_gone(&self, is_gone: &dyn Fn(u32) -> bool) -> u64 {
        self.lanes().map(|lane| self.take(lane).skip_gone(is_gone)).sum()
    }

    /// How far there are records now.
    pub fn mark(&self) -> RingMark {
        let ends: Vec<u64> = self.lanes().map(|lane| self.take(lane).end(false)).collect();
        let left = |(lane, end): (usize, &u64)| end.wrapping_sub(*self.take(lane).position);
        let bytes: u64 = self.lanes().zip(&ends).map(left).sum();
        RingMark { records_max: bytes / self.states().each[0].place.form.head_bytes(), ends }
    }

    /// Whether all that was there at `mark` of this reader has been taken.
    pub fn has_read(&self, mark: &RingMark) -> bool {
        let is_past = |(lane, end): (usize, &u64)| end.wrapping_sub(*self.take(lane).position) as i64 <= 0;
        self.lanes().zip(&mark.ends).all(is_past)
    }

    /// Sums over all rings.
    pub fn counters(&self) -> RingCounters {
        let mut sum = RingCounters::default();
        for lane in self.lanes() {
            let state = &self.states().each[lane];
            let dropped = self.segment.mapping().word(state.place.control + control::DROPPED);
            sum.read += state.read.load(Ordering::Relaxed);
            sum.dropped = sum.dropped.wrapping_add(dropped.load(Ordering::Relaxed));
            sum.uncommitted += state.uncommitted.load(Ordering::Relaxed);
            sum.corrupt += state.corrupt.load(Ordering::Relaxed);
        }
        sum
    }

    fn take_next(&self, is_dead: bool) -> Option<Record> {
        match self.lane {
            Some(lane) => self.take(lane).record(None, is_dead),
            None if self.rings() == 1 => self.take(0).record(None, is_dead),
            None => {
                let mut merge = self.states().merge.lock().unwrap_or_else(PoisonError::into_inner);
                merge.next(self.rings(), &|lane| self.take(lane), is_dead)
            }
        }
    }

    fn lanes(&self) -> std::ops::Range<usize> {
        self.lane.map_or(0..self.rings(), |lane| lane..lane + 1)
    }

    fn states(&self) -> &'a Rings {
        &self.segment.rings[self.index]
    }

    /// Of one ring.
    fn only(&self) -> Take<'a> {
        assert!(self.lane.is_some() || self.rings() == 1, "several rings");
        self.take(self.lane.unwrap_or(0))
    }

    fn take(&self, lane: usize) -> Take<'a> {
        let state = &self.states().each[lane];
        let position = state.position.lock().unwrap_or_else(PoisonError::into_inner);
        let seed = self.segment.descriptor(self.index).seed;
        Take { segment: self.segment, state, place: state.place, seed, position }
    }
}

impl Rings {
    pub(super) fn new(places: Vec<RingPlace>) -> Rings {
        Rings { each: places.into_iter().map(RingState::new).collect(), merge: Mutex::default() }
    }

    /// Records of one of them that were skipped because their writers were gone.
    pub(super) fn uncommitted(&self, lane: usize) -> &AtomicU64 {
        &self.each[lane].uncommitted
    }
}

impl RingState {
    fn new(place: RingPlace) -> RingState {
        RingState {
            place,
            position: Mutex::new(0),
            read: AtomicU64::new(0),
            uncommitted: AtomicU64::new(0),
            corrupt: AtomicU64::new(0),
        }
    }
}

/// Who writes a record with this header.
pub(super) fn writer(header: u64) -> Option<u32> {
    let thread = header as u32 >> record::WRITER_SHIFT;
    (header & record::BUSY != 0 && thread != 0).then_some(thread)
}

impl RingForm {
    /// Bytes before a payload, the last 8 of them the header; records are multiples of it.
    pub(super) fn head_bytes(self) -> u64 {
        match self {
            RingForm::Plain => 8,
            RingForm::Shared | RingForm::Cpu | RingForm::Overwriting => 16,
        }
    }
}

impl Take<'_> {
    /// The next record before `end`.
    pub(super) fn record(&mut self, end: Option<u64>, is_dead: bool) -> Option<Record> {
        let Next::Submitted { size, bytes } = self.advance(end, is_dead) else { return None };
        let head = self.place.form.head_bytes();
        let at = self.place.data + self.offset();
        let ticks = if head > 8 { self.word(at).load(Ordering::Relaxed) } else { 0 };
        let record = Record { bytes: self.segment.mapping().copy(at + head, size as usize), ticks };
        self.consume(bytes);
        self.state.read.fetch_add(1, Ordering::Relaxed);
        Some(record)
    }

    fn each(&mut self, most: usize, work: &mut impl FnMut(&[u8], u64)) -> usize {
        let mut taken = 0;
        while taken < most {
            if self.place.form == RingForm::Cpu {
                taken += self.each_of_cpu(most - taken, work);
            }
            if taken == most {
                break;
            }
            // What is no plain record, and the end.
            let Some(record) = self.record(None, false) else { break };
            work(&record.bytes, record.ticks);
            taken += 1;
        }
        taken
    }

    /// The same in a ring of one CPU, up to the first that is not submitted.
    fn each_of_cpu(&mut self, most: usize, work: &mut impl FnMut(&[u8], u64)) -> usize {
        self.each_while(None, most, |_| true, work)
    }

    /// The same of those before `end` whose times `is_next` takes; none in rings that are not of one CPU.
    pub(super) fn each_while(
        &mut self,
        end: Option<u64>,
        most: usize,
        is_next: impl Fn(u64) -> bool,
        work: &mut impl FnMut(&[u8], u64),
    ) -> usize {
        if self.place.form != RingForm::Cpu {
            return 0;
        }
        let (mapping, mut left, mut payload) = (self.segment.mapping(), most, Vec::with_capacity(256));
        self.each_in_place(end, |at, ticks, size| {
            let is_taken = left > 0 && is_next(ticks);
            if is_taken {
                left -= 1;
                mapping.copy_over(at, size, &mut payload);
                work(&payload[..size], ticks);
            }
            is_taken
        })
    }

    fn set_aside(&mut self, most: usize, aside: &mut Aside) -> usize {
        let (mapping, full) = (self.segment.mapping(), aside.bytes() + most);
        if self.place.form != RingForm::Cpu {
            return 0;
        }
        self.each_in_place(None, |at, ticks, size| {
            aside.bytes() < full && aside.push(ticks, size, mapping.words(at, size.div_ceil(8)))
        })
    }

    /// Gives `work` where the payloads of records lie in the ring of a CPU, their ticks and sizes, until it says that it has not taken one, up to the
    /// first that is not submitted, or is not before `end`. How many it has taken.
    #[inline]
    fn each_in_place(&mut self, end: Option<u64>, mut work: impl FnMut(u64, u64, usize) -> bool) -> usize {
        let head = self.place.form.head_bytes();
        let (start, mut tail) = (*self.position, self.tail());
        if tail.wrapping_sub(start) > self.place.bytes {
            return 0;
        }
        if let Some(end) = end {
            match end.wrapping_sub(start) {
                // It was passed since.
                ahead if ahead as i64 <= 0 => return 0,
                ahead if ahead < tail.wrapping_sub(start) => tail = end,
                _ => {}
            }
        }
        let (mut taken, mut published) = (0, start);
        while tail.wrapping_sub(*self.position) as i64 > 0 {
            let offset = self.offset();
            let at = self.place.data + offset;
            let word = self.word(at + head - 8).load(Ordering::Acquire);
            let room = (self.place.bytes - offset).min(tail.wrapping_sub(*self.position));
            let bytes = match Next::of(word, head, room) {
                Next::Submitted { size, bytes } => {
                    if !work(at + head, self.word(at).load(Ordering::Relaxed), size as usize) {
                        break;
                    }
                    taken += 1;
                    bytes
                }
                Next::Discarded { bytes } => bytes,
                Next::Empty | Next::Busy { .. } | Next::Corrupt => break,
            };
            *self.position = self.position.wrapping_add(bytes);
            if self.position.wrapping_sub(published) >= PUBLISHED_BYTES.min(self.place.bytes / 8) {
                published = *self.position;
                self.go_on_at(published);
            }
        }
        if *self.position != published {
            self.go_on_at(*self.position);
        }
        self.state.read.fetch_add(taken as u64, Ordering::Relaxed);
        taken
    }

    fn look(&mut self, most: u64, work: &mut impl FnMut(&[u8], u64)) -> u64 {
        if matches!(self.peek(), Next::Corrupt) {
            // It is counted, and gone past: nobody reads it.
            self.advance(None, false);
        }
        let (start, head) = (*self.position, self.place.form.head_bytes());
        let (mut taken, mut payload) = (0, Vec::with_capacity(256));
        loop {
            let looked = self.position.wrapping_sub(start);
            // A record that is not given back is where the next lap's would be.
            let next = if looked < most.min(self.place.bytes) { self.peek() } else { Next::Empty };
            let bytes = match next {
                Next::Submitted { bytes, .. } | Next::Discarded { bytes }
                    if looked + bytes > self.place.bytes =>
                {
                    break;
                }
                Next::Submitted { size, bytes } => {
                    let at = self.place.data + self.offset();
                    let ticks = if head > 8 { self.word(at).load(Ordering::Relaxed) } else { 0 };
                    self.segment.mapping().copy_over(at + head, size as usize, &mut payload);
                    work(&payload[..size as usize], ticks);
                    taken += 1;
                    bytes
                }
                Next::Discarded { bytes } => bytes,
                Next::Empty | Next::Busy { .. } | Next::Corrupt => break,
            };
            *self.position = self.position.wrapping_add(bytes);
        }
        self.state.read.fetch_add(taken, Ordering::Relaxed);
        std::mem::replace(&mut *self.position, start)
    }

    fn release(&mut self, end: u64) {
        if self.place.form == RingForm::Cpu {
            return self.go_on_at(end);
        }
        while end.wrapping_sub(*self.position) as i64 > 0 {
            match self.peek() {
                Next::Submitted { bytes, .. } | Next::Discarded { bytes } => self.consume(bytes),
                // Somebody has written over what was read.
                Next::Empty | Next::Busy { .. } | Next::Corrupt => return self.resynchronise(),
            }
        }
    }

    /// What [`Take::record`] would take, or wait for.
    pub(super) fn head(&mut self, end: Option<u64>, is_dead: bool) -> Option<Head> {
        let is_busy = match self.advance(end, is_dead) {
            Next::Submitted { .. } => false,
            Next::Busy { .. } => true,
            Next::Empty | Next::Discarded { .. } | Next::Corrupt => return None,
        };
        let ticks = self.word(self.place.data + self.offset()).load(Ordering::Relaxed);
        Some(Head { ticks, is_busy })
    }

    /// How far there are records now. In a ring that is claimed header by header one more may be behind the tail, whose
    /// producer sleeps (or is dead) before it has moved that.
    pub(super) fn end(&self, is_dead: bool) -> u64 {
        let (tail, bytes) = (self.tail(), self.place.bytes);
        let is_impossible = tail.wrapping_sub(*self.position) > bytes;
        if is_impossible || is_dead && self.place.form != RingForm::Cpu {
            return self.position.wrapping_add(bytes);
        }
        tail
    }

    /// Whether a busy record has its time already.
    pub(super) fn times_busy_records(&self) -> bool {
        self.place.form == RingForm::Cpu
    }

    fn skip_gone(&mut self, is_gone: &dyn Fn(u32) -> bool) -> u64 {
        let mut skipped = 0;
        while let Next::Busy { bytes } = self.advance(None, false) {
            if self.place.form != RingForm::Cpu || !self.writer().is_some_and(is_gone) {
                break;
            }
            self.state.uncommitted.fetch_add(1, Ordering::Relaxed);
            self.consume(bytes);
            skipped += 1;
        }
        skipped
    }

    /// Who writes the record at the position, if that is known and it is being written still.
    fn writer(&self) -> Option<u32> {
        let header = self.place.form.head_bytes() - 8;
        writer(self.word(self.place.data + self.offset() + header).load(Ordering::Acquire))
    }

    /// Past everything that nobody will read: discarded records, and (`is_dead`) those that nobody will submit.
    fn advance(&mut self, end: Option<u64>, is_dead: bool) -> Next {
        let state = self.state;
        // Each step but the last consumes at least 8 bytes; a target that keeps writing ends this after two laps.
        for _ in 0..self.place.bytes / 4 {
            if end.is_some_and(|end| end.wrapping_sub(*self.position) as i64 <= 0) {
                return Next::Empty;
            }
            match self.peek() {
                Next::Busy { bytes } if is_dead => {
                    state.uncommitted.fetch_add(1, Ordering::Relaxed);
                    self.consume(bytes);
                }
                Next::Discarded { bytes } => self.consume(bytes),
                Next::Corrupt => {
                    state.corrupt.fetch_add(1, Ordering::Relaxed);
                    self.resynchronise();
                    return Next::Corrupt;
                }
                next @ (Next::Empty | Next::Busy { .. } | Next::Submitted { .. }) => return next,
            }
        }
        Next::Empty
    }

    fn peek(&self) -> Next {
        let head = self.place.form.head_bytes();
        let mut most = self.place.bytes - self.offset();
        if self.place.form == RingForm::Cpu {
            // Everything below the tail has a header, which was written before the tail was.
            let ahead = self.tail().wrapping_sub(*self.position);
            if ahead == 0 {
                return Next::Empty;
            }
            if ahead > self.place.bytes {
                return Next::Corrupt;
            }
            most = most.min(ahead);
        }
        let word = self.word(self.place.data + self.offset() + head - 8).load(Ordering::Acquire);
        if self.place.form != RingForm::Cpu && word == self.tag(*self.position) {
            return Next::Empty;
        }
        Next::of(word, head, most)
    }

    /// Gives `bytes` at the position back to the producers.
    fn consume(&mut self, bytes: u64) {
        let start = *self.position;
        let end = start.wrapping_add(bytes);
        if self.place.form != RingForm::Cpu {
            // A producer that died or sleeps behind its claim has not moved the tail yet. It must move first: at the old
            // place the next lap's tag would stop every producer.
            let tail = self.control(control::FREE_OR_PRODUCER);
            let _ = tail.compare_exchange(start, end, Ordering::AcqRel, Ordering::Relaxed);
            let free = self.tag(start).wrapping_add(self.place.bytes);
            let at = self.place.data + self.offset();
            for n in (0..bytes).step_by(8) {
                self.word(at + n).store(free, Ordering::Release);
            }
        }
        self.go_on_at(end);
    }

    /// After an impossible header: frees everything and goes on where producers do, or a lap further if what they
    /// say is impossible too.
    fn resynchronise(&mut self) {
        if self.place.form == RingForm::Cpu {
            // Their tail is not to be written here: producers do so without looking whether somebody else has.
            return self.go_on_at(self.tail());
        }
        let bytes = self.place.bytes;
        let unit = self.place.form.head_bytes();
        let tail = self.control(control::FREE_OR_PRODUCER).load(Ordering::Acquire);
        let ahead = tail.wrapping_sub(*self.position);
        let is_plausible = (unit..=bytes).contains(&ahead) && ahead.is_multiple_of(unit);
        let end = if is_plausible { tail } else { (*self.position).wrapping_add(bytes) };
        let mut at = *self.position;
        while at != end {
            let word = self.place.data + (at & (bytes - 1));
            self.word(word).store(self.tag(at).wrapping_add(bytes), Ordering::Release);
            at = at.wrapping_add(8);
        }
        self.control(control::FREE_OR_PRODUCER).store(end, Ordering::Release);
        self.go_on_at(end);
    }

    fn go_on_at(&mut self, position: u64) {
        *self.position = position;
        self.control(control::SPARE_OR_CONSUMER).store(position, Ordering::Release);
    }

    fn tail(&self) -> u64 {
        let unit = self.place.form.head_bytes();
        self.control(control::FREE_OR_PRODUCER).load(Ordering::Acquire) & !(unit - 1)
    }

    fn tag(&self, position: u64) -> u64 {
        self.seed.wrapping_add(position & !(self.place.bytes - 1))
    }

    fn offset(&self) -> u64 {
        *self.position & (self.place.bytes - 1)
    }

    fn word(&self, at: u64) -> &AtomicU64 {
        self.segment.mapping().word(at)
    }

    fn control(&self, at: u64) -> &AtomicU64 {
        self.word(self.place.control + at)
    }
}
