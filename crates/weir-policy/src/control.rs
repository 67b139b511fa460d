//! The control: keeps what probes cost a process within a share of its CPU time, by as little as will do.
//!
//! In: what was seen at sites ([`Seen`]), the CPU time of the process, and the time, as values. Out: which sites step to
//! which level of the ladder ([`Throttle`]).
//! - Over the budget: the site that costs most steps down first, by the first step that helps, again and again until the rest
//!   is `AIM` of the budget. A site is touched only when none costs more, so few are.
//! - A site is withdrawn, which is for good, only when that was the next step for `CONFIRM`, and it was seen again meanwhile; and
//!   one that can be sampled is shut only then. Until then nothing else is touched in its stead.
//! - Under it: one site at a time steps up, when it has stood for its hold (2 s) and what it will cost then fits into `AIM`. A
//!   site that has to step down again soon holds twice as long the next time: it does not flap. One that never had to steps from
//!   one way of sampling to the next after 0.3 s: what is sampled is seen exactly, and the first step may have gone too far.
//!
//! A process that uses less than 1 % of a CPU is taken for one that uses so much: of a process that idles shares say nothing.
//! Deliberately not done: reading meters and changing how hits run ([`crate::watch`] says when, the session does).

use std::collections::{BTreeMap, BTreeSet, BinaryHeap};
use std::time::Duration;

use crate::estimate::{CostEstimate, Rate, Seen};
use crate::throttle::{Load, Throttle};

/// Where a step is taken: to so much of the budget, so that noise does not take another.
const AIM: f64 = 0.7;

/// How long to shut or withdraw a site must have been the step to take.
const CONFIRM: Duration = Duration::from_millis(300);

/// Standard deviations by which costs must be over the budget before anything is done.
const SIGMAS: f64 = 2.0;

/// Fewer than three hits in all say nothing.
const UNCERTAIN: f64 = 0.6;

/// Looking is held to less by itself: no site steps down for more of it than this, of the budget.
const METERING_MAX: f64 = 0.1;

/// How long a site stands before it steps up; the most that this grows to.
const HOLD: Duration = Duration::from_secs(2);
const HOLD_MAX: Duration = Duration::from_secs(120);

/// How long one that never came down again stands before it is sampled more densely.
const CLIMB: Duration = Duration::from_millis(300);

/// Down again so soon after a step up, or after ten times the hold, is too soon: the hold doubles.
const SOON: Duration = Duration::from_secs(60);

/// ns of CPU time per second that a process is taken to use at least.
const CPU_MIN_NS: f64 = 1e7;

/// Of the CPU time of a process, what is its own at least.
const OWN_MIN: f64 = 0.05;

/// What probes are taken to have cost at most, of the CPU time.
const GAIN_MAX: f64 = 0.95;

/// By how much more often a site is taken to be reached when it is withdrawn: what a hit took is not known so well, and no look
/// corrects it any more.
const GONE_MAX: f64 = 2.5;

/// How long costs stay over the budget before that is told.
const UNKEPT: Duration = Duration::from_secs(3);

/// Of the wall's seconds: a rate that is shown forgets half in so many.
const SHOWN_HALF_LIFE: f64 = 1.0;

/// A step that could not be taken is tried again so much later.
const RETRY: Duration = Duration::from_secs(1);

/// Of one process.
#[derive(Debug)]
pub struct Control {
    /// A share of 1; without one, nothing is decided.
    budget: Option<f64>,
    cpu: Rate,
    /// How hits run has changed since: what was used before says nothing of what will be.
    is_cpu_past: bool,
    /// Of it, what is not the probes'.
    own: Rate,
    sites: Vec<Site>,
    /// Those that do not stand on the first level.
    touched: BTreeSet<usize>,
    /// Those that are to be shut or withdrawn, if it stays so: since when, and whether they were seen again meanwhile.
    awaited: BTreeMap<usize, (Duration, bool)>,
    over_since: Option<Duration>,
}

/// Of one site: where it stands, what it costs, and what was missed.
#[derive(Clone, Debug)]
pub struct Site {
    /// How its hits run.
    pub throttle: Throttle,
    /// When it came to stand there.
    pub since: Duration,
    /// When it first left the first level.
    pub touched_at: Option<Duration>,
    /// Hits that ran, as counted in the process.
    pub hits: u64,
    /// Hits that ran where nothing counted, by the rate that was seen last.
    pub hits_about: f64,
    /// Hits that were left out while sampled, as counted in the process.
    pub missed: u64,
    /// Hits that passed a shut gate, or no gate at all: by CPU time, at the rate that was seen last.
    pub missed_about: f64,
    estimate: CostEstimate,
    /// By the wall's time, while every call is counted.
    counted: Rate,
    /// Seconds of CPU time that the process uses in one of the wall's.
    speed: f64,
    hold: Duration,
    raised_at: Option<Duration>,
    /// No step is tried before.
    stuck_until: Duration,
}

impl Site {
    fn new() -> Site {
        Site {
            throttle: Throttle::Armed,
            since: Duration::ZERO,
            touched_at: None,
            hits: 0,
            hits_about: 0.0,
            missed: 0,
            missed_about: 0.0,
            estimate: CostEstimate::default(),
            counted: Rate::default(),
            speed: 1.0,
            hold: HOLD,
            raised_at: None,
            stuck_until: Duration::ZERO,
        }
    }

    /// How often it is reached, and what a hit costs.
    pub fn load(&self) -> Load {
        Load {
            hits_per_s: self.estimate.hits_per_cpu_s() * self.speed,
            ns_per_hit: self.estimate.ns_per_hit(),
        }
    }

    /// What is told of it. Where every call is counted, that is by the wall's time: of a process that sleeps mostly, how far it gets
    /// in a second of CPU time and how much of that it uses are known of different spans, and on a busy machine both vary by
    /// factors. Decisions are by [`Site::load`], which follows a step sooner.
    pub fn shown(&self) -> Load {
        let load = self.load();
        Load { hits_per_s: self.counted.per_second().unwrap_or(load.hits_per_s), ..load }
    }

    /// It was looked at.
    pub fn is_seen(&self) -> bool {
        self.estimate.is_seen()
    }

    /// Less what may be chance: a site that was reached once by now is not taken for a busy one.
    fn certain_cost(&self) -> f64 {
        self.cost() * (1.0 - self.uncertainty())
    }

    /// Enough is known of it that something may be decided.
    pub fn is_credible(&self) -> bool {
        self.estimate.is_credible() && self.uncertainty() < UNCERTAIN
    }

    /// Of its rate: one standard deviation, as a share.
    pub fn uncertainty(&self) -> f64 {
        self.estimate.uncertainty()
    }

    /// ns of CPU time per second.
    pub fn cost(&self) -> f64 {
        self.throttle.cost(self.load())
    }

    /// When it may step up to `above`.
    fn is_due(&self, above: Throttle, now: Duration) -> bool {
        let is_sampled = |throttle| matches!(throttle, Throttle::Sampled { .. });
        let climbs = self.hold == HOLD && is_sampled(self.throttle) && is_sampled(above);
        let hold = if climbs { CLIMB } else { self.hold };
        now >= self.stuck_until && now.saturating_sub(self.since) >= hold
    }

    fn step(&mut self, to: Throttle, now: Duration) {
        if to < self.throttle {
            self.raised_at = Some(now);
        } else if self.raised_at.take().is_some_and(|at| now.saturating_sub(at) < SOON.max(10 * self.hold)) {
            self.hold = (2 * self.hold).min(HOLD_MAX);
        }
        (self.throttle, self.since) = (to, now);
        self.touched_at.get_or_insert(now);
    }
}

/// A site in the order of what it costs.
#[derive(PartialEq)]
struct Costly(f64, usize);

impl Eq for Costly {}

impl PartialOrd for Costly {
    fn partial_cmp(&self, other: &Costly) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Costly {
    fn cmp(&self, other: &Costly) -> std::cmp::Ordering {
        self.0.total_cmp(&other.0).then(other.1.cmp(&self.1))
    }
}

impl Control {
    /// `budget`: the share of the CPU time, if there is one.
    pub fn new(sites: usize, budget: Option<f64>) -> Control {
        Control {
            budget,
            cpu: Rate::default(),
            is_cpu_past: false,
            own: Rate::default(),
            sites: vec![Site::new(); sites],
            touched: BTreeSet::new(),
            awaited: BTreeMap::new(),
            over_since: None,
        }
    }

    /// All, by number.
    pub fn sites(&self) -> &[Site] {
        &self.sites
    }

    /// More sites, on the first level.
    pub fn extend(&mut self, sites: usize) {
        let new = Site { speed: self.speed(), ..Site::new() };
        self.sites.extend(std::iter::repeat_n(new, sites));
    }

    /// Another site in the place of one: what ran and was missed there is kept.
    pub fn anew(&mut self, site: usize, now: Duration) {
        let Site { hits, hits_about, missed, missed_about, touched_at, speed, .. } = self.sites[site];
        let counted = Site { hits, hits_about, missed, missed_about, ..Site::new() };
        self.sites[site] = Site { touched_at, speed, since: now, ..counted };
        self.touched.remove(&site);
        self.awaited.remove(&site);
    }

    /// The share of the CPU time, if there is one.
    pub fn budget(&self) -> Option<f64> {
        self.budget
    }

    /// So many ns of CPU time were used in so many seconds, while sites stood where they stand.
    pub fn used(&mut self, cpu_ns: f64, seconds: f64) {
        self.miss(cpu_ns);
        if std::mem::take(&mut self.is_cpu_past) {
            self.cpu = Rate::default();
        }
        self.cpu.add(cpu_ns, seconds);
        let speed = self.speed();
        self.sites.iter_mut().for_each(|site| site.speed = speed);
        // When probes cost less the process uses less: a budget of the sum would shrink with every step. What they cost is
        // an estimate, so that something is always left.
        let probes = if speed > 0.0 { self.cost() / (1e9 * speed) } else { 0.0 };
        self.own.add(cpu_ns * (1.0 - probes).max(OWN_MIN), seconds);
    }

    /// Seconds of CPU time in one of the wall's; before anything is known, a whole CPU's.
    fn speed(&self) -> f64 {
        self.cpu.per_second().map_or(1.0, |used| used / 1e9)
    }

    /// ns of CPU time per second that shares are of. None before anything was used.
    pub fn cpu(&self) -> Option<f64> {
        self.cpu.per_second().map(|used| used.max(CPU_MIN_NS))
    }

    /// Takes what was counted at a site.
    pub fn saw(&mut self, site: usize, seen: Seen) {
        if let Some((_, is_seen)) = self.awaited.get_mut(&site) {
            *is_seen |= seen.cpu_s > 0.0;
        }
        self.sites[site].estimate.add(seen);
    }

    /// Every call of so many seconds of the wall's was counted.
    pub fn counted(&mut self, site: usize, calls: u64, seconds: f64) {
        self.sites[site].counted.add_fading(calls as f64, seconds, SHOWN_HALF_LIFE);
    }

    /// From now on not every call is counted.
    pub fn uncounted(&mut self, site: usize) {
        self.sites[site].counted = Rate::default();
    }

    /// So many hits more ran, and were counted.
    pub fn ran(&mut self, site: usize, hits: u64) {
        let site = &mut self.sites[site];
        site.hits = site.hits.saturating_add(hits);
    }

    /// So many hits more were left out while it was sampled.
    pub fn missed(&mut self, site: usize, hits: u64) {
        let site = &mut self.sites[site];
        site.missed = site.missed.saturating_add(hits);
    }

    /// Nothing counted at a site for so much CPU time.
    pub fn passed(&mut self, site: usize, cpu_ns: f64) {
        let site = &mut self.sites[site];
        if site.throttle == Throttle::Armed {
            site.hits_about += site.estimate.hits_per_cpu_s() * cpu_ns / 1e9;
        }
    }

    /// It is about to be shut or withdrawn, if what is seen of it stays so.
    pub fn is_awaited(&self, site: usize) -> bool {
        self.awaited.contains_key(&site)
    }

    /// All of which that is so.
    pub fn awaited(&self) -> impl Iterator<Item = usize> {
        self.awaited.keys().copied()
    }

    /// The step that was decided could not be taken.
    pub fn failed(&mut self, site: usize, stands_on: Throttle, now: Duration) {
        let site = &mut self.sites[site];
        (site.throttle, site.stuck_until) = (stands_on, now + RETRY);
    }

    /// ns of CPU time per second of all sites.
    pub fn cost(&self) -> f64 {
        self.sites.iter().map(Site::cost).sum()
    }

    /// Of the CPU time of the process; none before anything was used.
    pub fn share(&self) -> Option<f64> {
        Some((self.cost() / self.cpu()?).min(1.0))
    }

    /// Whatever was done, costs have been over the budget for a while.
    pub fn is_unkept(&self, now: Duration) -> bool {
        self.over_since.is_some_and(|since| now.saturating_sub(since) >= UNKEPT)
    }

    /// What is to change now. `metering_ns`: what looking costs, in ns of CPU time per second.
    pub fn decide(&mut self, now: Duration, metering_ns: f64) -> Vec<(usize, Throttle)> {
        let (Some(budget), Some(own)) = (self.budget, self.own.per_second()) else { return Vec::new() };
        let limit = budget * own.max(CPU_MIN_NS);
        let known = self.sites.iter().filter(|site| site.is_credible());
        let cost = known.map(Site::cost).sum::<f64>() + metering_ns.min(METERING_MAX * limit);
        let steps = match cost - SIGMAS * self.deviation() > limit {
            true => self.lower(now, cost, AIM * limit),
            false => {
                self.over_since = None;
                self.awaited.clear();
                self.raise(now, cost, AIM * limit).into_iter().collect()
            }
        };
        let before = self.cost();
        for &(site, throttle) in &steps {
            self.sites[site].step(throttle, now);
            match throttle {
                Throttle::Armed => self.touched.remove(&site),
                _ => self.touched.insert(site),
            };
        }
        if !steps.is_empty() {
            self.gain(before, self.cost());
        }
        steps
    }

    /// Probes cost less by now, or more: the process gets further in as much CPU time, and reaches all sites so much more
    /// often. Where it waits for other things, it uses less instead, which the next reading says.
    fn gain(&mut self, before: f64, after: f64) {
        let Some(cpu) = self.cpu.per_second() else { return };
        let most = GAIN_MAX * cpu;
        let (before, after) = (before.min(most), after.min(most));
        let factor = cpu / (cpu - before + after);
        for site in &mut self.sites {
            site.estimate.sped_up(if site.throttle == Throttle::Withdrawn {
                factor.min(GONE_MAX)
            } else {
                factor
            });
            site.speed /= factor;
        }
        self.is_cpu_past = true;
    }

    /// A step that a test takes.
    #[cfg(test)]
    pub fn force(&mut self, site: usize, throttle: Throttle, now: Duration) {
        self.sites[site].step(throttle, now);
    }

    /// What passes a shut gate, or none, is counted by its rate: of CPU time, so that it follows what the process does.
    pub fn miss(&mut self, cpu_ns: f64) {
        for &site in &self.touched {
            let site = &mut self.sites[site];
            if site.throttle.one_in().is_none() {
                site.missed_about += site.estimate.hits_per_cpu_s() * cpu_ns / 1e9;
            }
        }
    }

    /// One standard deviation of what is known to be spent, by the counts that say so.
    fn deviation(&self) -> f64 {
        let variance = |site: &Site| (site.cost() * site.uncertainty()).powi(2);
        self.sites.iter().filter(|site| site.is_credible()).map(variance).sum::<f64>().sqrt()
    }

    fn lower(&mut self, now: Duration, mut cost: f64, aim: f64) -> Vec<(usize, Throttle)> {
        self.over_since.get_or_insert(now);
        let is_candidate =
            |site: &Site| site.is_credible() && now >= site.stuck_until && site.certain_cost() > 0.0;
        let candidates = self.sites.iter().zip(0..).filter(|(site, _)| is_candidate(site));
        let certain = |(site, n): (&Site, usize)| Costly(site.certain_cost(), n);
        let mut heap: BinaryHeap<Costly> = candidates.map(certain).collect();
        let (mut steps, mut awaited) = (BTreeMap::new(), BTreeMap::new());
        while cost > aim {
            let Some(Costly(_, n)) = heap.pop() else { break };
            let load = self.sites[n].load();
            let throttle = steps.get(&n).copied().unwrap_or(self.sites[n].throttle);
            let Some(next) = throttle.next_below(load) else { continue };
            let waits = *self.awaited.get(&n).unwrap_or(&(now, false));
            let is_confirmed = waits.1 && now.saturating_sub(waits.0) >= CONFIRM;
            // What is seen of a site that is sampled is exact, and of an armed one it is not: it is sampled first.
            let needs_sight =
                next == Throttle::Withdrawn || next == Throttle::Shut && throttle != Throttle::Armed;
            if needs_sight && !is_confirmed {
                // What it costs until then does not make others step down in its stead.
                awaited.insert(n, waits);
                cost -= throttle.cost(load);
                continue;
            }
            let after = next.cost(load);
            cost -= throttle.cost(load) - after;
            steps.insert(n, next);
            heap.push(Costly(after, n));
        }
        self.awaited = awaited;
        steps.into_iter().collect()
    }

    /// The site that costs least to step up.
    fn raise(&self, now: Duration, cost: f64, aim: f64) -> Option<(usize, Throttle)> {
        let up = |&n: &usize| {
            let site = &self.sites[n];
            let above = site.throttle.next_above().filter(|above| site.is_due(*above, now))?;
            Some((above.cost(site.load()) - site.cost(), n, above))
        };
        let cheapest = self.touched.iter().filter_map(up).min_by(|one, other| one.0.total_cmp(&other.0));
        cheapest.filter(|(more, ..)| cost + more <= aim).map(|(_, n, above)| (n, above))
    }
}
