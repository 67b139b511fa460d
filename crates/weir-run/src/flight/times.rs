//! When a tick of the counter was, also long ago: the clock in, points of it kept, ns of CLOCK_MONOTONIC out. Where there is no such
//! clock, the points are taken of the counter and CLOCK_MONOTONIC themselves.
//!
//! A ring may hold events of hours ago, and the clock remembers seconds. A point is kept for every second; where they become too many,
//! every other one goes. Between two points time is a straight line: the rate of CLOCK_MONOTONIC changes by some parts in a million.

use std::time::Duration;

use weir_rt::{Clock, clock_pair};

/// LIMIT: at 2 to 4 thousand points an hour has one a second, a day one in 32.
const POINTS_MAX: usize = 4096;

/// Ticks and ns, ascending.
#[derive(Debug)]
pub(super) struct Times {
    points: Vec<(u64, u64)>,
    every_ns: u64,
}

impl Default for Times {
    fn default() -> Times {
        Times { points: Vec::new(), every_ns: Duration::from_secs(1).as_nanos() as u64 }
    }
}

impl Times {
    /// Keeps a point, if it is time for one.
    pub(super) fn note(&mut self, clock: Option<&Clock>) {
        let point = match clock {
            Some(clock) => clock.point(),
            None => clock_pair(),
        };
        if let Some(point) = point {
            self.add(point);
        }
    }

    /// What says when ticks were that are past now.
    pub(super) fn reader<'a>(&'a self, clock: Option<&'a Clock>) -> impl Fn(u64) -> Option<u64> + 'a {
        let last = match clock {
            Some(clock) => clock.known_from().and_then(|from| Some((from, clock.ns(from)?))),
            None => clock_pair(),
        };
        move |ticks| {
            let last = last?;
            match clock {
                Some(clock) if ticks >= last.0 => clock.ns(ticks),
                None if ticks >= last.0 => Some(last.1),
                clock => self.between(ticks, last).or_else(|| clock?.ns(ticks)),
            }
        }
    }

    fn add(&mut self, point: (u64, u64)) {
        let is_due = |last: &(u64, u64)| point.0 > last.0 && point.1 >= last.1 + self.every_ns;
        if !self.points.last().is_none_or(is_due) {
            return;
        }
        if self.points.len() == POINTS_MAX {
            let mut is_kept = false;
            self.points.retain(|_| {
                is_kept = !is_kept;
                is_kept
            });
            self.every_ns *= 2;
        }
        self.points.push(point);
    }

    /// `last`: a point behind these ticks. Before the first point time goes on as behind it. None without a point before the last.
    fn between(&self, ticks: u64, last: (u64, u64)) -> Option<u64> {
        let points = &self.points[..self.points.partition_point(|point| point.0 < last.0)];
        let after = points.partition_point(|point| point.0 <= ticks).max(1);
        let (from, to) = (points.get(after - 1)?, points.get(after).copied().unwrap_or(last));
        let run = i128::from(to.1) - i128::from(from.1);
        let passed = (i128::from(ticks) - i128::from(from.0)) * run / i128::from(to.0 - from.0);
        u64::try_from(i128::from(from.1) + passed).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000_000;

    /// Three ticks a ns at first, then two.
    fn point(second: u64) -> (u64, u64) {
        let ticks = 3 * second.min(10_000) * S + 2 * second.saturating_sub(10_000) * S;
        (ticks, 5 * S + second * S)
    }

    #[test]
    fn times_lie_between_the_points_around_them() {
        let mut times = Times::default();
        (0..20_000).for_each(|second| times.add(point(second)));
        assert!(times.points.len() <= POINTS_MAX && times.every_ns == 8 * S, "{}", times.every_ns);
        let last = point(20_000);
        for second in [0, 1, 7, 8, 9_990, 12_345, 19_999, 20_000] {
            assert_eq!(times.between(point(second).0, last), Some(point(second).1), "second {second}");
        }
        assert_eq!(times.between(point(100).0 + 3, last), Some(point(100).1 + 1));
        let mut early = Times::default();
        (10..12).for_each(|second| early.add(point(second)));
        assert_eq!(early.between(point(9).0, last), Some(point(9).1), "before the first");
        assert_eq!(early.between(0, last), Some(5 * S));
    }

    #[test]
    fn points_are_a_second_apart() {
        let mut times = Times::default();
        for tenth in 0..100 {
            times.add((tenth * S / 5, tenth * S / 10));
        }
        assert_eq!(times.points.len(), 10);
        assert_eq!(Times::default().between(5, (7, 9)), None);
    }
}
