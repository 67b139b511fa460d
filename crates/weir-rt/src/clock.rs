//! The clock that targets read without a call: CLOCK_MONOTONIC as a line over the time stamp counter (TSC), which the
//! controller keeps and publishes in the segment's header.
//!
//! In: pairs {ticks of the TSC, ns of CLOCK_MONOTONIC}, read together. Out: in the header, two lines {ticks, ns, rate}
//! and a word that says which is the newer; the C half (`c/environment.c`) reads them with one `rdtsc`.
//!
//! Each refresh lays the next line from a point a little in the future, at which the line before it gives the same
//! time; its rate is such that it meets the clock again when the next refresh is due. A reader takes the line that
//! its ticks lie on. So what readers see has no step at a refresh and never runs backwards, and a reader that sees
//! the words half written knows it by the word in front.
//!
//! Error: a constant of at most the time that reading a pair took (about 40 ns, ahead of the clock; pairs that took
//! more than 2 µs are not used), what the kernel's rate changed since the last refresh, times the time since (NTP slews
//! by at most 500 ppm: 64 µs; without a slew a few ns), and a refresh that was taken less exactly than most (some
//! 10 ns). A controller that is gone, or stopped, leaves the last line, which goes on being used; it is off by what the
//! rate changes afterwards.
//!
//! There is no line, and the vDSO's clock is called instead, where the kernel's own clock is not the TSC, where the
//! TSC is not invariant, where it ticks slower than 1 GHz, or where it stopped being what the kernel's clock follows
//! (a suspended machine, another clock source): then for good, with one step of what the line was off by.
//!
//! Deliberately not here: whether a target may read the TSC and is in our time namespace (weir-probe, which says it
//! in the island's flags). CLOCK_BOOTTIME, CLOCK_TAI and the coarse clock are always the vDSO's.

mod line;

use std::collections::VecDeque;
use std::sync::atomic::{Ordering, fence};
use std::time::Duration;

use nix::libc;
use nix::time::{ClockId, clock_gettime};

use crate::abi::{clock, header};
use crate::isa::native::cpu::{self, ticks_are_invariant};
use crate::limits::{
    CLOCK_INTERVAL_NS, CLOCK_INTERVAL_NS_MIN, CLOCK_LEAD_NS, CLOCK_LINES_KEPT, CLOCK_PAIR_NS_MAX,
};
use crate::segment::Segment;

use self::line::{Line, Sample};

/// What keeps the line. One serves one segment.
#[derive(Debug)]
pub struct Clock {
    /// Of the refresh before, and the rate that was found there.
    sample: Sample,
    rate: Option<u64>,
    due_ns: u64,
    interval_ns: u64,
    /// The newer line that is published, and how many were.
    line: Option<Line>,
    published: u64,
    /// The last ones that were published, the oldest first: what was read some time ago lies on one of them.
    lines: VecDeque<Line>,
    is_over: bool,
}

impl Clock {
    /// None where targets had better ask the vDSO. To be called some milliseconds before the first target runs: the
    /// rate is known from then on.
    pub fn start() -> Option<Clock> {
        if !may_read_ticks() || !ticks_are_invariant() || !is_clock_source() {
            return None;
        }
        let sample = sample_at_last()?;
        let (due_ns, interval_ns) = (sample.ns + CLOCK_INTERVAL_NS_MIN, CLOCK_INTERVAL_NS_MIN);
        let (line, published, lines) = (None, 0, VecDeque::new());
        Some(Clock { sample, rate: None, due_ns, interval_ns, line, published, lines, is_over: false })
    }

    /// The lines that a controller which is gone has left in `segment`, for times that are past. None where there are none.
    pub fn left_in(segment: &Segment) -> Option<Clock> {
        let word = |n: usize| segment.mapping().word((header::CLOCK + n * 8) as u64).load(Ordering::Acquire);
        let line = |slot: u64| {
            let at = clock::LINES + slot as usize * clock::LINE_WORDS;
            Line { ticks: word(at), ns: word(at + 1), rate: word(at + 2) }
        };
        let version = word(0);
        let slot = version / 2 % 2;
        let newest = line(slot);
        if version == 0 || newest.rate == 0 {
            return None;
        }
        // That one may have been left half written.
        let older = Some(line(1 - slot)).filter(|older| version % 2 == 0 && older.ticks < newest.ticks);
        let sample = Sample { ticks: newest.ticks, ns: newest.ns };
        Some(Clock {
            sample,
            rate: None,
            due_ns: u64::MAX,
            interval_ns: CLOCK_INTERVAL_NS,
            line: Some(newest),
            published: version / 2,
            lines: older.into_iter().chain([newest]).collect(),
            is_over: true,
        })
    }

    /// How long until [`Clock::keep`] has something to do.
    pub fn until_due(&self) -> Duration {
        match self.is_over {
            true => Duration::MAX,
            false => Duration::from_nanos(self.due_ns.saturating_sub(now_ns())),
        }
    }

    /// Refreshes the line in `segment` where that is due: every few milliseconds at first, then about eight times a
    /// second. It costs one reading of the clock where nothing is due.
    pub fn keep(&mut self, segment: &Segment) {
        if self.is_over || now_ns() < self.due_ns {
            return;
        }
        // Interrupted each time: the next call tries again. Without the first line there are no times at all.
        let found = if self.line.is_some() { sample() } else { sample_at_last() };
        let Some(sample) = found else { return };
        let is_near = self.line.is_none_or(|line| line.is_near(sample));
        let rate = self.sample.rate_to(sample).filter(|rate| {
            self.rate.is_none_or(|before| line::are_alike(before, *rate)) && is_near && is_clock_source()
        });
        let Some(rate) = rate else {
            self.is_over = true;
            segment.put_clock(0, 0);
            return;
        };
        let interval_ns = (2 * self.interval_ns).min(CLOCK_INTERVAL_NS);
        if self.publish(segment, sample, rate, interval_ns) {
            (self.sample, self.rate) = (sample, Some(rate));
            (self.interval_ns, self.due_ns) = (interval_ns, sample.ns + interval_ns);
        }
    }

    /// False where this thread was kept from running so long that readers could be past the line's first point.
    fn publish(&mut self, segment: &Segment, sample: Sample, rate: u64, interval_ns: u64) -> bool {
        let Some(before) = self.line else {
            let first = Line { ticks: sample.ticks, ns: sample.ns, rate };
            self.write(segment, 0, first);
            self.write(segment, 1, first);
            self.show(segment, first);
            return true;
        };
        let next = before.next(sample, rate, CLOCK_LEAD_NS, interval_ns);
        segment.put_clock(0, 2 * self.published + 1);
        self.write(segment, (self.published + 1) % 2, next);
        if ticks() >= next.ticks {
            return false;
        }
        self.show(segment, next);
        true
    }

    /// ns of CLOCK_MONOTONIC where the counter showed `ticks`, now or up to some seconds ago: what targets read with the line that
    /// they had. Times of ascending ticks ascend. None before the first refresh.
    #[inline]
    pub fn ns(&self, ticks: u64) -> Option<u64> {
        let line = self.lines.iter().rev().find(|line| line.ticks <= ticks);
        line.map(|line| line.at(ticks)).or_else(|| Some(self.lines.front()?.before(ticks)))
    }

    /// Ticks and ns where the line begins that targets read now, to be kept by whoever wants times of ticks that are long past. None before
    /// the first refresh.
    pub fn point(&self) -> Option<(u64, u64)> {
        self.line.map(|line| (line.ticks, line.ns))
    }

    /// The least ticks that [`Clock::ns`] has the line of; before, it goes on backwards as the oldest line does.
    pub fn known_from(&self) -> Option<u64> {
        self.lines.front().map(|line| line.ticks)
    }

    fn write(&self, segment: &Segment, slot: u64, line: Line) {
        let at = clock::LINES + slot as usize * clock::LINE_WORDS;
        for (n, word) in [line.ticks, line.ns, line.rate].into_iter().enumerate() {
            segment.put_clock(at + n, word);
        }
    }

    fn show(&mut self, segment: &Segment, line: Line) {
        self.published += 1;
        self.line = Some(line);
        if self.lines.len() == CLOCK_LINES_KEPT {
            self.lines.pop_front();
        }
        self.lines.push_back(line);
        segment.put_clock(0, 2 * self.published);
    }
}

/// How long a tick of the TSC is: by what has passed since this was started, so the better the later.
#[derive(Clone, Copy, Debug)]
pub struct Ticks {
    first: Sample,
}

impl Ticks {
    /// None where this process may not read the TSC.
    pub fn start() -> Option<Ticks> {
        may_read_ticks().then(|| Ticks { first: Sample { ticks: ticks(), ns: now_ns() } })
    }

    /// ns; none before a millisecond has passed.
    pub fn ns_per_tick(&self) -> Option<f64> {
        let (passed, ns) = (ticks().saturating_sub(self.first.ticks), now_ns().saturating_sub(self.first.ns));
        (passed > 0 && ns >= 1_000_000).then(|| ns as f64 / passed as f64)
    }
}

impl Segment {
    /// Sets word `n` of the clock, after those that were set before.
    fn put_clock(&self, n: usize, word: u64) {
        assert!(n < clock::WORDS, "clock word {n} of {}", clock::WORDS);
        let at = (header::CLOCK + n * 8) as u64;
        self.mapping().word(at).store(word, Ordering::Release);
    }
}

/// Ticks and ns of CLOCK_MONOTONIC, read together. None where this process may not read the counter, or was interrupted each time.
pub fn pair() -> Option<(u64, u64)> {
    let sample = ticks_if_allowed().and_then(|_| sample())?;
    Some((sample.ticks, sample.ns))
}

/// A sample that is needed: on a busy machine one try in some hundreds is interrupted.
fn sample_at_last() -> Option<Sample> {
    const TRIES: usize = 32;
    (0..TRIES).find_map(|_| sample())
}

/// The narrowest of a few pairs; none where each was interrupted.
fn sample() -> Option<Sample> {
    const TRIES: usize = 8;
    let pair = || {
        let before = ticks();
        let began = now_ns();
        let after = ticks();
        (after.wrapping_sub(before), Sample { ticks: before, ns: began })
    };
    let began = now_ns();
    // The narrowest took less than the average, if not all of this was in between the pairs.
    let pairs: [(u64, Sample); TRIES] = std::array::from_fn(|_| pair());
    let took = now_ns().saturating_sub(began);
    let narrowest = pairs.into_iter().min_by_key(|(width, _)| *width)?.1;
    (took / TRIES as u64 <= CLOCK_PAIR_NS_MAX).then_some(narrowest)
}

/// The TSC, where this process may read it.
pub(crate) fn ticks_if_allowed() -> Option<u64> {
    static MAY_READ: std::sync::LazyLock<bool> = std::sync::LazyLock::new(may_read_ticks);
    MAY_READ.then(ticks)
}

fn ticks() -> u64 {
    // What was read before must not be read later, nor what is read later before.
    fence(Ordering::SeqCst);
    let ticks = cpu::ticks();
    fence(Ordering::SeqCst);
    ticks
}

fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::CLOCK_MONOTONIC).expect("CLOCK_MONOTONIC is always there");
    now.tv_sec() as u64 * 1_000_000_000 + now.tv_nsec() as u64
}

/// Whether this process may read the TSC (prctl(2), PR_SET_TSC).
pub(crate) fn may_read_ticks() -> bool {
    let mut answer: libc::c_int = 0;
    // SAFETY: the kernel writes the answer, an int.
    let result = unsafe { libc::prctl(libc::PR_GET_TSC, &raw mut answer) };
    result == 0 && answer == libc::PR_TSC_ENABLE
}

/// The kernel's own clock is made of the TSC, which it has found to be the same on all CPUs.
fn is_clock_source() -> bool {
    let source = std::fs::read_to_string("/sys/devices/system/clocksource/clocksource0/current_clocksource");
    source.is_ok_and(|source| source.trim() == "tsc")
}

#[cfg(test)]
mod tests;
