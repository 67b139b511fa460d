//! An estimate: what the meter of one site says, as a rate and a cost, each with what it is worth.
//!
//! In: [`Seen`], what was counted in a span of the process's CPU time. Out: hits by CPU time, and ns of one. Spans are of CPU time
//! and not of the wall's, since a process that has to wait for a CPU does nothing in between: how often it reaches a site
//! while it runs is not changed by that. Rates are sums over the last spans, older ones weighing less, so that short windows
//! and long ones add up by their lengths. The cost of a hit is the middle one of the last spans': a timed hit in whose midst
//! its thread was taken off the CPU for milliseconds spoils one of them, and no more. Until there are three, it is the lowest.
//! Where hits are counted and none can be timed, one is taken for an expensive one.

/// What the sum of the spans before weighs when one is added.
const KEPT: f64 = 0.7;

/// Spans whose costs are compared.
const SPANS: usize = 5;

/// Spans of less CPU time than this push out less of what was seen before.
const WHOLE_S: f64 = 5e-4;

/// Spans with hits of which none was timed, after which none is waited for, and what a hit is taken to cost then.
const BLIND: usize = 3;
const BLIND_NS: f64 = 1000.0;

/// What was counted at a site in a span of time.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Seen {
    /// Of CPU time of the process, all its threads.
    pub cpu_s: f64,
    /// Whether they ran or were skipped.
    pub calls: u64,
    /// Of those that ran, so many were timed, and took this together.
    pub timed: u64,
    /// In ns, less what the timing itself takes.
    pub timed_ns: f64,
}

/// A rate per second of something that is counted over spans of time.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Rate {
    count: f64,
    seconds: f64,
}

impl Rate {
    /// Takes what was counted in a span of time.
    pub fn add(&mut self, count: f64, seconds: f64) {
        self.add_kept(count, seconds, KEPT);
    }

    fn add_kept(&mut self, count: f64, seconds: f64, kept: f64) {
        if seconds > 0.0 {
            self.count = kept * self.count + count;
            self.seconds = kept * self.seconds + seconds;
        }
    }

    /// What was counted so long ago weighs half as much.
    pub fn add_fading(&mut self, count: f64, seconds: f64, half_life: f64) {
        self.add_kept(count, seconds, 0.5f64.powf(seconds / half_life));
    }

    /// None where nothing was counted yet.
    pub fn per_second(&self) -> Option<f64> {
        (self.seconds > 0.0).then(|| self.count / self.seconds)
    }

    /// One standard deviation of counts that come independently, as a share of the rate.
    pub fn uncertainty(&self) -> f64 {
        1.0 / self.count.max(1.0).sqrt()
    }
}

/// Of one site.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct CostEstimate {
    rate: Rate,
    /// ns of a hit in the last spans that had timed ones, the newest at `spans % SPANS - 1`.
    costs: [f64; SPANS],
    spans: usize,
    /// Spans with hits, none of which was timed, since the last with a timed one.
    blind: usize,
}

impl CostEstimate {
    /// Takes what was counted in a span of time.
    pub fn add(&mut self, seen: Seen) {
        let kept = KEPT.powf((seen.cpu_s / WHOLE_S).min(1.0));
        self.rate.add_kept(seen.calls as f64, seen.cpu_s, kept);
        if seen.timed > 0 {
            self.costs[self.spans % SPANS] = seen.timed_ns / seen.timed as f64;
            self.spans += 1;
            self.blind = 0;
        } else if seen.calls > 0 {
            self.blind += 1;
        }
    }

    /// Hits in a second of the process's CPU time.
    pub fn hits_per_cpu_s(&self) -> f64 {
        self.rate.per_second().unwrap_or(0.0)
    }

    /// Something is known of its rate.
    pub fn is_seen(&self) -> bool {
        self.rate.per_second().is_some()
    }

    /// From now on the process gets further in a second of CPU time by this factor.
    pub fn sped_up(&mut self, factor: f64) {
        self.rate.count *= factor;
    }

    /// Hits were timed in more than one span: the first of a site find nothing in the caches, and take longer. Or they cannot be.
    pub fn is_credible(&self) -> bool {
        self.spans > 1 || self.blind >= BLIND
    }

    /// Of the rate: one standard deviation, as a share.
    pub fn uncertainty(&self) -> f64 {
        self.rate.uncertainty()
    }

    /// Of the last spans with timed hits: the median, the lowest of fewer than three; 0 while there was none, and 1,000 where hits cannot be timed.
    pub fn ns_per_hit(&self) -> f64 {
        let mut costs = self.costs;
        let costs = &mut costs[..self.spans.min(SPANS)];
        costs.sort_by(f64::total_cmp);
        match costs.len() {
            0 if self.blind >= BLIND => BLIND_NS,
            0 => 0.0,
            1 | 2 => costs[0],
            many => costs[(many - 1) / 2],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn estimate(spans: &[(f64, u64, u64, f64)]) -> CostEstimate {
        let mut estimate = CostEstimate::default();
        for &(cpu_s, calls, timed, timed_ns) in spans {
            estimate.add(Seen { cpu_s, calls, timed, timed_ns });
        }
        estimate
    }

    #[test]
    fn nothing_seen_is_no_load() {
        for spans in [&[][..], &[(0.0, 5, 0, 0.0)]] {
            assert_eq!((estimate(spans).hits_per_cpu_s(), estimate(spans).ns_per_hit()), (0.0, 0.0));
        }
        assert!(!estimate(&[(0.1, 0, 0, 0.0)]).is_credible());
    }

    #[test]
    fn spans_of_different_lengths_add_up() {
        let estimate = estimate(&[(0.005, 50, 10, 1000.0), (0.1, 1000, 10, 1000.0)]);
        assert!((estimate.hits_per_cpu_s() - 1e4).abs() < 1.0, "{estimate:?}");
        assert_eq!(estimate.ns_per_hit(), 100.0);
    }

    #[test]
    fn a_rate_follows_a_step_within_a_second() {
        let mut spans = vec![(0.1, 0, 0, 0.0); 20];
        spans.extend([(0.1, 1000, 10, 1e3); 10]);
        let rate = estimate(&spans).hits_per_cpu_s();
        assert!(rate > 0.97e4, "{rate}");
        spans.truncate(21);
        let rate = estimate(&spans).hits_per_cpu_s();
        assert!((0.25e4..0.35e4).contains(&rate), "one span of a step weighs a third: {rate}");
    }

    #[test]
    fn spans_in_which_the_process_hardly_ran_push_nothing_out() {
        let mut spans = vec![(1e-3, 1000, 64, 6400.0)];
        spans.extend([(1e-6, 0, 0, 0.0); 20]);
        let rate = estimate(&spans).hits_per_cpu_s();
        assert!(rate > 0.95e6, "{rate}");
    }

    #[test]
    fn hits_that_cannot_be_timed_are_taken_for_expensive_ones() {
        let gauge_of = |spans: usize| estimate(&vec![(1e-3, 1000, 0, 0.0); spans]);
        assert!(!gauge_of(2).is_credible());
        assert!(gauge_of(3).is_credible());
        assert_eq!(gauge_of(3).ns_per_hit(), BLIND_NS);
        // Those that never came are not.
        assert!(!estimate(&[(1e-3, 0, 0, 0.0); 9]).is_credible());
    }

    #[test]
    fn one_hit_that_waited_for_a_cpu_does_not_count() {
        let usual = (0.1, 100, 20, 2e3);
        let spoilt = (0.1, 100, 20, 4e6);
        assert_eq!(estimate(&[usual, spoilt, usual]).ns_per_hit(), 100.0);
        assert_eq!(estimate(&[spoilt, usual]).ns_per_hit(), 100.0);
        assert_eq!(estimate(&[usual, usual, spoilt, spoilt, usual]).ns_per_hit(), 100.0);
    }

    #[test]
    fn one_span_alone_is_not_credible() {
        assert!(!estimate(&[(0.1, 300, 64, 3e3)]).is_credible());
        assert!(estimate(&[(0.1, 3, 3, 3e3), (0.1, 1, 1, 1e3)]).is_credible());
    }

    #[test]
    fn uncertainty_falls_with_the_count() {
        assert_eq!(estimate(&[]).uncertainty(), 1.0);
        assert_eq!(estimate(&[(0.1, 400, 1, 1.0)]).uncertainty(), 0.05);
    }
}
