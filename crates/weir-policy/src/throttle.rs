//! The ladder: how hits at one site may run, what each way costs, and which step down is the next that helps.
//!
//! ```text
//! armed ── every hit runs
//! sampled ─ one of 2, 4, … 4096 hits runs; the others are counted exactly, and are skipped at SAMPLED_NS each
//! shut ─── no hit runs or is counted; each still passes the gate, at SHUT_NS
//! withdrawn ─ the text is as it was: nothing costs anything, nothing is counted, and there is no way back
//! ```
//!
//! In: a [`Load`], how often a site is reached and what a hit costs there. Out: costs in ns of CPU time per second, and
//! [`Throttle::next_below`]. A step that would not lower the cost by a quarter is passed over: to skip a hit may cost more than
//! to run it. Deliberately not here: which site is to step, and when ([`crate::control`]).

/// How hits at a site run. Ordered by how much is lost.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Throttle {
    /// Each runs.
    Armed,
    /// One of two to this power.
    Sampled {
        /// The power.
        shift: u8,
    },
    /// None runs; the patch stays.
    Shut,
    /// The text is as it was.
    Withdrawn,
}

/// What is asked of a site.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Load {
    /// By the wall's time.
    pub hits_per_s: f64,
    /// Of one that runs, with its return.
    pub ns_per_hit: f64,
}

// Measured over the unprobed call in a loop of 8.4 ns, best of thirty windows on an AMD EPYC: armed 1.7 ns with `count()`, shut
// 2.9, sampled 4.1, metered 5.3. Rounded up, since other programs find less of it in the caches.

/// To count a hit and leave it out.
pub const SAMPLED_NS: f64 = 4.5;
/// To find the gate shut.
pub const SHUT_NS: f64 = 3.0;
/// To count a hit that runs, over what it costs otherwise. (The few that are timed cost some more.)
pub const METERED_NS: f64 = 4.0;
/// The same where a site is reached so seldom that its meter and its code are in no near cache: 22 in a PostgreSQL in which all hits
/// at 50 functions are counted.
pub const METERED_COLD_NS: f64 = 22.0;
/// To count a hit and to time it, where neither is in the caches: 0.27 % of the CPU time of a PostgreSQL in which that was done to 6.5 %
/// of 379 hits of a request of 505 µs.
pub const TIMED_COLD_NS: f64 = 55.0;
/// Of a hit that runs, what lies outside of the two readings of the clock around it: the jump there and the gate.
pub const AROUND_NS: f64 = 2.0;

/// One of 4096: of a million hits a second 244 are still seen.
pub const SHIFT_MAX: u8 = 12;

/// What a step must leave at most, of the cost before it.
const WORTH: f64 = 0.75;

impl Throttle {
    /// Hits of which one runs, where that is some share of them.
    pub fn one_in(self) -> Option<u32> {
        match self {
            Throttle::Armed => Some(1),
            Throttle::Sampled { shift } => Some(1 << shift),
            Throttle::Shut | Throttle::Withdrawn => None,
        }
    }

    /// ns of CPU time per second.
    pub fn cost(self, load: Load) -> f64 {
        let per_hit = match self {
            Throttle::Armed => load.ns_per_hit,
            Throttle::Sampled { shift } => SAMPLED_NS + load.ns_per_hit / f64::from(1u32 << shift),
            Throttle::Shut => SHUT_NS,
            Throttle::Withdrawn => 0.0,
        };
        load.hits_per_s * per_hit
    }

    /// The next step down that is worth it; none from the last.
    pub fn next_below(self, load: Load) -> Option<Throttle> {
        let below = |from: u8| (from..=SHIFT_MAX).map(|shift| Throttle::Sampled { shift });
        let sampled = match self {
            Throttle::Armed => below(1),
            Throttle::Sampled { shift } => below(shift + 1),
            Throttle::Shut => return Some(Throttle::Withdrawn),
            Throttle::Withdrawn => return None,
        };
        let enough = WORTH * self.cost(load);
        sampled
            .chain([Throttle::Shut])
            .find(|throttle| throttle.cost(load) <= enough)
            .or(Some(Throttle::Withdrawn))
    }

    /// The next step up; none from the ends. From being shut it goes to what costs least of all that is seen.
    pub fn next_above(self) -> Option<Throttle> {
        match self {
            Throttle::Armed | Throttle::Withdrawn => None,
            Throttle::Sampled { shift: 0 | 1 } => Some(Throttle::Armed),
            Throttle::Sampled { shift } => Some(Throttle::Sampled { shift: shift - 1 }),
            Throttle::Shut => Some(Throttle::Sampled { shift: SHIFT_MAX }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The steps down to the first that costs at most `enough` ns a second.
    fn steps(hits_per_s: f64, ns_per_hit: f64, enough: f64) -> Vec<Throttle> {
        let load = Load { hits_per_s, ns_per_hit };
        let next =
            |throttle: &Throttle| (throttle.cost(load) > enough).then(|| throttle.next_below(load)).flatten();
        std::iter::successors(Some(Throttle::Armed), next).skip(1).collect()
    }

    fn sampled(shift: u8) -> Throttle {
        Throttle::Sampled { shift }
    }

    #[test]
    fn the_cheapest_sufficient_step_is_found() {
        // 30 % of a CPU, to 1 % of it.
        assert_eq!(steps(3e5, 1000.0, 1e7).last(), Some(&sampled(6)));
        // Already cheap enough.
        assert_eq!(steps(3e5, 10.0, 1e7), []);
        // Three million a second are skipped cheaply enough only at the gate.
        assert_eq!(steps(3e6, 1000.0, 1e7).last(), Some(&Throttle::Shut));
        // Ten million a second are too many even for the gate.
        assert_eq!(steps(1e7, 1000.0, 1e7).last(), Some(&Throttle::Withdrawn));
    }

    #[test]
    fn a_cheap_function_is_never_sampled() {
        assert_eq!(steps(1e7, 4.0, 1e7), [Throttle::Shut, Throttle::Withdrawn]);
        assert_eq!(steps(1e7, 2.0, 1e7), [Throttle::Withdrawn]);
    }

    #[test]
    fn each_step_down_lowers_the_cost_and_ends() {
        for hits_per_s in [1.0, 1e3, 1e6, 1e9] {
            for ns_per_hit in [0.5, 5.0, 50.0, 5e3, 5e6] {
                let load = Load { hits_per_s, ns_per_hit };
                let mut throttle = Throttle::Armed;
                while let Some(next) = throttle.next_below(load) {
                    assert!(
                        next > throttle && next.cost(load) < throttle.cost(load),
                        "{throttle:?} to {next:?}"
                    );
                    throttle = next;
                }
                assert_eq!(throttle, Throttle::Withdrawn);
            }
        }
    }

    #[test]
    fn steps_up_lead_from_shut_to_armed_and_not_from_withdrawn() {
        let up: Vec<Throttle> =
            std::iter::successors(Some(Throttle::Shut), |throttle| throttle.next_above()).collect();
        assert_eq!(up.len(), usize::from(SHIFT_MAX) + 2);
        assert_eq!((up[1], up.last()), (sampled(SHIFT_MAX), Some(&Throttle::Armed)));
        assert_eq!(Throttle::Withdrawn.next_above(), None);
    }
}
