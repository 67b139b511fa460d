//! Ticks of the time stamp counter → ns of CLOCK_REALTIME.
//!
//! Both clocks are read together now and then, and a time is on the line between the readings before and after it. So an error does
//! not grow with the length of a capture, and what a time service does to the clock is followed. A reading itself is off by some
//! 100 ns at most: one that took longer is not used.

use std::collections::VecDeque;

use nix::time::{ClockId, clock_gettime};

use crate::limits::{READING_NS, READINGS_MAX};

/// One reading: ticks, and ns since 1970.
pub(crate) type Reading = (u64, u64);

/// See above.
#[derive(Debug)]
pub(crate) struct Clock {
    /// The oldest first; the last one is replaced until it is old enough to be kept.
    readings: VecDeque<Reading>,
}

impl Clock {
    /// None where this process may not read the counter.
    pub(crate) fn start() -> Option<Clock> {
        // Each try may be interrupted.
        let reading = (0..32).find_map(|_| read())?;
        Some(Clock { readings: [reading].into() })
    }

    /// Reads the clocks: times up to now are known from then on.
    pub(crate) fn keep(&mut self) {
        if let Some(reading) = read() {
            self.add(reading);
        }
    }

    fn add(&mut self, reading: Reading) {
        let kept = self.readings.len();
        let is_near = kept > 1 && reading.1.saturating_sub(self.readings[kept - 2].1) < READING_NS;
        if is_near {
            self.readings.pop_back();
        }
        if self.readings.back().is_some_and(|last| last.0 >= reading.0) {
            return;
        }
        self.readings.push_back(reading);
        if self.readings.len() > READINGS_MAX {
            self.readings.pop_front();
        }
    }

    /// The last reading's ticks.
    pub(crate) fn now(&self) -> u64 {
        self.readings.back().map_or(0, |reading| reading.0)
    }

    /// So many ns in ticks, by the first and the last reading; none as long as there is one alone.
    pub(crate) fn ticks_in(&self, ns: u64) -> Option<u64> {
        let (first, last) = (self.readings.front()?, self.readings.back()?);
        let (ticks, passed) = (last.0.checked_sub(first.0)?, last.1.checked_sub(first.1)?);
        (passed > 0).then(|| (u128::from(ns) * u128::from(ticks) / u128::from(passed)) as u64)
    }

    /// ns since 1970. Of ticks after the last reading it is the last reading's; of those before the first, the line goes on backwards.
    pub(crate) fn ns(&self, ticks: u64) -> u64 {
        let after = self.readings.partition_point(|reading| reading.0 <= ticks);
        let last = self.readings.len() - 1;
        if after > last || last == 0 {
            return self.readings[last].1;
        }
        let (from, to) = (self.readings[after.max(1) - 1], self.readings[after.max(1)]);
        let line = i128::from(to.1) - i128::from(from.1);
        let ns = i128::from(from.1)
            + line * (i128::from(ticks) - i128::from(from.0)) / (i128::from(to.0) - i128::from(from.0));
        u64::try_from(ns).unwrap_or(0)
    }
}

/// None where this was interrupted, or may not be done.
fn read() -> Option<Reading> {
    let (ticks, monotonic) = weir_rt::clock_pair()?;
    let between = || {
        let before = now(ClockId::CLOCK_MONOTONIC)?;
        let real = now(ClockId::CLOCK_REALTIME)?;
        let after = now(ClockId::CLOCK_MONOTONIC)?;
        Some((after - before, real - (before + after) / 2))
    };
    let (width, offset) = (0..4).filter_map(|_| between()).min_by_key(|(width, _)| *width)?;
    let ns = u64::try_from(i128::from(monotonic) + offset).ok()?;
    (width <= 1_000).then_some((ticks, ns))
}

fn now(clock: ClockId) -> Option<i128> {
    let now = clock_gettime(clock).ok()?;
    Some(i128::from(now.tv_sec()) * 1_000_000_000 + i128::from(now.tv_nsec()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn clock(readings: &[Reading]) -> Clock {
        let mut clock = Clock { readings: [readings[0]].into() };
        readings[1..].iter().for_each(|reading| clock.add(*reading));
        clock
    }

    #[test]
    fn times_lie_on_the_line_between_readings() {
        let clock = clock(&[(1000, 500_000_000), (3000, 600_000_000), (7000, 700_000_000)]);
        let ns = [1000, 2000, 3000, 5000, 7000].map(|ticks| clock.ns(ticks) / 1_000_000);
        assert_eq!(ns, [500, 550, 600, 650, 700]);
        assert_eq!((clock.ns(u64::MAX), clock.ns(0)), (700_000_000, 450_000_000));
    }

    #[test]
    fn readings_that_are_near_replace_each_other() {
        let clock = clock(&[(0, 0), (10, 1_000_000), (20, 2_000_000), (600, 60_000_000), (610, 61_000_000)]);
        assert_eq!(clock.readings, [(0, 0), (20, 2_000_000), (600, 60_000_000), (610, 61_000_000)]);
    }

    #[test]
    fn a_long_capture_has_no_wrap() {
        let day = 86_400_000_000_000;
        let clock = clock(&[(3 * day, day), (3 * day + 300_000_000, day + 100_000_000)]);
        assert_eq!(clock.ns(3 * day + 150_000_000), day + 50_000_000);
    }

    #[test]
    fn real_readings_agree_with_the_clock() {
        let Some(mut clock) = Clock::start() else { return };
        let began = now(ClockId::CLOCK_REALTIME).unwrap();
        while clock.readings.len() < 2 {
            clock.keep();
        }
        let ended = now(ClockId::CLOCK_REALTIME).unwrap();
        let ns = i128::from(clock.ns(clock.now()));
        // A time service may step the clock; not so far.
        assert!(ns > began - 1_000_000_000 && ns < ended + 1_000_000_000, "{began} {ns} {ended}");
    }
}
