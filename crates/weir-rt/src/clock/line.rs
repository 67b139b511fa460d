//! Lines over the time stamp counter: what they say, and how one goes on from another. Pure arithmetic.

/// The counter and the clock, read together.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Sample {
    pub(super) ticks: u64,
    pub(super) ns: u64,
}

/// The time from `ticks` on. Before, it is `ns`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Line {
    pub(super) ticks: u64,
    pub(super) ns: u64,
    /// ns a tick, times 2⁶⁴.
    pub(super) rate: u64,
}

/// Further from the clock than this, a line is not of the same clock any more (a suspended machine).
const OFF_NS_MAX: u64 = 100_000_000;
/// A part of its rate by which the kernel may slew its clock (adjtimex(2) allows a tenth).
const SLEW: u64 = 8;

impl Sample {
    /// The rate from here to a later sample; None where time stood still or the counter ticks slower than 1 GHz.
    pub(super) fn rate_to(self, later: Sample) -> Option<u64> {
        let ticks = later.ticks.checked_sub(self.ticks).filter(|ticks| *ticks > 0)?;
        let ns = later.ns.checked_sub(self.ns).filter(|ns| *ns > 0)?;
        u64::try_from((u128::from(ns) << 64) / u128::from(ticks)).ok()
    }
}

impl Line {
    /// As `c/environment.c` does.
    pub(super) fn at(self, ticks: u64) -> u64 {
        self.ns.wrapping_add(ns_of(ticks.saturating_sub(self.ticks), self.rate))
    }

    /// The time at `ticks` before it, as if it had always been so.
    pub(super) fn before(self, ticks: u64) -> u64 {
        self.ns.saturating_sub(ns_of(self.ticks.saturating_sub(ticks), self.rate))
    }

    /// Whether a sample can be of the clock that this line follows.
    pub(super) fn is_near(self, sample: Sample) -> bool {
        self.at(sample.ticks).abs_diff(sample.ns) <= OFF_NS_MAX
    }

    /// The line that goes on from this one `lead_ns` after `sample`, and meets the clock `interval_ns` later.
    pub(super) fn next(self, sample: Sample, rate: u64, lead_ns: u64, interval_ns: u64) -> Line {
        let ticks = sample.ticks + ticks_of(lead_ns, rate);
        let ns = self.at(ticks);
        let run = ticks_of(interval_ns, rate).max(1);
        let met = sample.ns + ns_of(ticks - sample.ticks + run, rate);
        // A line that is far ahead runs at half the rate, one far behind at twice, until it is there.
        let wanted = (u128::from(met.saturating_sub(ns)) << 64) / u128::from(run);
        let wanted = u64::try_from(wanted).unwrap_or(u64::MAX);
        Line { ticks, ns, rate: wanted.clamp(rate / 2, rate.saturating_mul(2)) }
    }
}

/// Whether two rates, found one after the other, can be of one clock.
pub(super) fn are_alike(before: u64, now: u64) -> bool {
    before.abs_diff(now) <= before / SLEW
}

fn ns_of(ticks: u64, rate: u64) -> u64 {
    ((u128::from(ticks) * u128::from(rate)) >> 64) as u64
}

fn ticks_of(ns: u64, rate: u64) -> u64 {
    u64::try_from((u128::from(ns) << 64) / u128::from(rate.max(1))).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 2.5 ticks a ns.
    const RATE: u64 = (1 << 63) / 5 * 4;

    fn line(ns: u64) -> Line {
        Line { ticks: 1_000_000, ns, rate: RATE }
    }

    /// The clock at these ticks, where it shows 400,000 at 1,000,000.
    fn sample(ticks: u64) -> Sample {
        Sample { ticks, ns: ticks * 2 / 5 }
    }

    /// A line that is `off` ns off is met after the interval, from where it was.
    fn check(off: i64) {
        let before = line(400_000u64.wrapping_add_signed(off));
        let next = before.next(sample(11_000_000), RATE, 1_000_000, 100_000_000);
        assert_eq!(next.ticks, 11_000_000 + 2_500_000);
        assert_eq!(next.at(next.ticks), before.at(next.ticks), "no step, off by {off}");
        let end = next.ticks + 250_000_000;
        assert!(next.at(end).abs_diff(sample(end).ns) <= 2, "meets the clock, off by {off}");
        assert!(next.at(next.ticks + 1000) >= next.ns, "runs forwards, off by {off}");
    }

    #[test]
    fn lines_go_on_from_one_another_and_meet_the_clock() {
        for off in [0, 1, -1, 5_000, -5_000, 300_000, -300_000, 40_000_000] {
            check(off);
        }
    }

    #[test]
    fn a_line_far_ahead_runs_at_half_the_rate() {
        let next = line(400_000 + 90_000_000).next(sample(11_000_000), RATE, 1_000_000, 100_000_000);
        assert_eq!(next.rate, RATE / 2);
    }

    #[test]
    fn rates_are_of_forward_time_and_fast_counters() {
        let at = |ticks, ns| Sample { ticks, ns };
        assert_eq!(at(0, 0).rate_to(at(4_000_000, 1_000_000)), Some(1 << 62));
        assert_eq!(at(5, 0).rate_to(at(5, 10)), None);
        assert_eq!(at(5, 10).rate_to(at(9, 10)), None);
        assert_eq!(at(5, 0).rate_to(at(4, 10)), None);
        assert_eq!(at(0, 0).rate_to(at(100, 100)), None, "1 GHz");
    }

    #[test]
    fn another_clock_is_known() {
        let line = line(400_000);
        let now = sample(251_000_000);
        assert!(line.is_near(now) && line.is_near(Sample { ns: now.ns + 1_000_000, ..now }));
        assert!(!line.is_near(Sample { ns: now.ns + 200_000_000, ..now }), "a step");
        assert!(are_alike(RATE, RATE / 100 * 110) && are_alike(RATE, RATE / 100 * 90), "slewed");
        assert!(!are_alike(RATE, RATE / 100 * 70), "another rate");
    }

    #[test]
    fn before_its_first_point_a_line_stands() {
        assert_eq!(line(7).at(0), 7);
        assert_eq!(line(7).at(u64::MAX), 7 + ns_of(u64::MAX - 1_000_000, RATE));
    }
}
