//! Meters: what the hits of one site do that find its gate shut, and what they have cost.
//!
//! One cache line for each site, which trampolines write with `lock` and the controller reads without a system call. The
//! controller writes how hits run; the rest is the target's, and may be anything: sums wrap, and differences clamp at 0.

use std::sync::atomic::Ordering;

use super::Segment;
use crate::abi::{METER_BYTES, meter};

/// How hits run that find the gate of their site shut.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum How {
    /// Not at all, nor their returns.
    Closed,
    /// Not at all; returns of those that ran before do.
    HeldBack,
    /// Each, counted; the next so many are timed.
    Every { timed: u64 },
    /// One of two to this power, counted and timed.
    OneOf { shift: u32 },
}

/// The words of a meter, as they are now.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct MeterWords {
    /// Hits that ran.
    pub hits: u64,
    /// Hits that did not, because one of so many was to.
    pub missed: u64,
    /// Hits that were timed, and the ticks of the time stamp counter that they and their returns took.
    pub timed: u64,
    pub ticks: u64,
}

/// The meter of one site.
#[derive(Clone, Copy, Debug)]
pub struct Meter<'a> {
    segment: &'a Segment,
    offset: u64,
}

impl Segment {
    /// Meter `n`.
    ///
    /// # Panics
    /// If the segment has not so many.
    pub fn meter(&self, n: usize) -> Meter<'_> {
        Meter { segment: self, offset: self.meter_offset(n) }
    }

    /// Where meter `n` is.
    ///
    /// # Panics
    /// If the segment has not so many.
    pub fn meter_offset(&self, n: usize) -> u64 {
        let capacity = self.layout.journal_capacity;
        assert!(n < capacity as usize, "meter {n} of {capacity}");
        self.layout.meters_offset + n as u64 * METER_BYTES
    }
}

impl Meter<'_> {
    /// From now on hits that find the gate shut run like this.
    pub fn set(&self, how: How) {
        let word = match how {
            How::Closed => meter::CLOSED,
            How::HeldBack => meter::HELD_BACK,
            How::Every { timed } => {
                let until = self.word(meter::HITS).wrapping_add(timed);
                self.put(meter::UNTIL, until);
                1
            }
            How::OneOf { shift } => 1 << shift,
        };
        self.put(meter::HOW, word.into());
    }

    /// What was counted so far.
    pub fn read(&self) -> MeterWords {
        let (hits, timed, ticks) = (self.word(meter::HITS), self.word(meter::TIMED), self.word(meter::TICKS));
        // A hit takes its turn first: read the other way round, so that no more ran than came.
        let taken = self.word(meter::TAKEN);
        let missed = self.word(meter::TURNS).saturating_sub(taken);
        MeterWords { hits, missed, timed, ticks }
    }

    /// Forgets what was counted, for another site.
    pub fn clear(&self) {
        for word in (0..METER_BYTES as usize).step_by(8) {
            self.put(word, 0);
        }
    }

    fn word(&self, at: usize) -> u64 {
        self.segment.mapping().word(self.offset + at as u64).load(Ordering::Acquire)
    }

    fn put(&self, at: usize, word: u64) {
        self.segment.mapping().word(self.offset + at as u64).store(word, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::segment::{Identity, SegmentLayout};

    #[test]
    fn each_site_has_words_of_its_own() {
        let layout = SegmentLayout::of_target(3, 0).expect("within bounds");
        let segment = Segment::create_local(layout, &Identity::default()).expect("a memfd");
        let end = segment.layout().bytes;
        assert!(segment.meter_offset(2) + METER_BYTES <= end);
        segment.meter(1).put(meter::HITS, 7);
        segment.meter(1).put(meter::TURNS, 5);
        segment.meter(1).put(meter::TAKEN, 2);
        segment.meter(1).set(How::Every { timed: 10 });
        assert_eq!(segment.meter(1).word(meter::UNTIL), 17);
        assert_eq!(segment.meter(1).read(), MeterWords { hits: 7, missed: 3, timed: 0, ticks: 0 });
        for other in [0, 2] {
            assert_eq!(segment.meter(other).read(), MeterWords::default());
        }
        segment.meter(1).clear();
        assert_eq!(segment.meter(1).read(), MeterWords::default());
    }

    #[test]
    fn what_a_hostile_target_counts_is_no_panic() {
        let layout = SegmentLayout::of_target(1, 0).expect("within bounds");
        let segment = Segment::create_local(layout, &Identity::default()).expect("a memfd");
        segment.meter(0).put(meter::TAKEN, u64::MAX);
        segment.meter(0).put(meter::HITS, u64::MAX);
        segment.meter(0).set(How::Every { timed: 2 });
        assert_eq!(segment.meter(0).read().missed, 0);
    }
}
