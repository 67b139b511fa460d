//! A process that is not there, for the tests of the control: sites with loads that change, and a CPU clock.
//!
//! Each site is reached as often as a function of the time says, with the noise of independent calls; how hits run decides
//! what they cost and what its meter counts, as in a real process. Everything is a function of the seed.

use std::time::Duration;

use crate::meters::{Meters, Mode, Reading};
use crate::throttle::{
    AROUND_NS, Load, METERED_COLD_NS, METERED_NS, SAMPLED_NS, SHUT_NS, TIMED_COLD_NS, Throttle,
};
use crate::watch::Watch;

/// Between two rounds of the loop.
const ROUND: Duration = Duration::from_millis(5);

/// What a timed hit takes over one that is counted alone.
const TIMED_NS: f64 = 25.0;

/// Hits that are timed from when a site is metered.
const TIMED: u64 = 32;

pub(crate) type LoadAt = Box<dyn Fn(f64) -> Load>;

/// The same load all the time.
pub(crate) fn steady(hits_per_s: f64, ns_per_hit: f64) -> LoadAt {
    Box::new(move |_| Load { hits_per_s, ns_per_hit })
}

/// One load while `is` says so, and none else.
pub(crate) fn while_(is: impl Fn(f64) -> bool + 'static, hits_per_s: f64, ns_per_hit: f64) -> LoadAt {
    Box::new(move |at| Load { hits_per_s: if is(at) { hits_per_s } else { 0.0 }, ns_per_hit })
}

struct Site {
    load: LoadAt,
    /// What a hit takes more that is counted, and one that is timed besides.
    metered_ns: f64,
    timed_ns: f64,
    mode: Option<Mode>,
    reading: Reading,
    timed_left: u64,
    /// Calls so far; parts of one are kept.
    calls: f64,
    ran: f64,
    skipped: f64,
    /// Hits that have had their turn, and are still to say that they run.
    turned_early: u64,
}

pub(crate) struct Process {
    now: Duration,
    sites: Vec<Site>,
    /// Without probes, in ns per second.
    own: Box<dyn Fn(f64) -> f64>,
    cpu_ns: f64,
    cost_ns: f64,
    random: u64,
    /// One thread that wants a CPU all the time and has one for this share of it, by turns; none for one that never waits.
    pub turns: Option<f64>,
    /// It has a CPU, and when that ends.
    is_running: bool,
    turn_ends: Duration,
    /// Whoever watches it wakes up so much later than it wants, at most.
    pub late: Duration,
    pub refuses_to_withdraw: bool,
    /// Passes before a change takes hold, and again before whoever made it goes on.
    pub pause: Duration,
    pub reads: std::cell::Cell<usize>,
    pub changes: usize,
}

impl Process {
    /// One CPU's worth of own work.
    pub(crate) fn new(loads: Vec<LoadAt>, seed: u64) -> Process {
        let site = |load| Site {
            load,
            metered_ns: METERED_NS,
            timed_ns: TIMED_NS,
            mode: Some(Mode::Armed),
            reading: Reading::default(),
            timed_left: 0,
            calls: 0.0,
            ran: 0.0,
            skipped: 0.0,
            turned_early: 0,
        };
        Process {
            now: Duration::from_secs(100),
            sites: loads.into_iter().map(site).collect(),
            own: Box::new(|_| 1e9),
            cpu_ns: 0.0,
            cost_ns: 0.0,
            turns: None,
            is_running: false,
            turn_ends: Duration::ZERO,
            late: Duration::ZERO,
            random: seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1,
            refuses_to_withdraw: false,
            pause: Duration::ZERO,
            reads: 0.into(),
            changes: 0,
        }
    }

    /// One that finds in no near cache what counts and times its hits.
    pub(crate) fn cold(mut self) -> Process {
        for site in &mut self.sites {
            (site.metered_ns, site.timed_ns) = (METERED_COLD_NS, TIMED_COLD_NS - METERED_COLD_NS);
        }
        self
    }

    pub(crate) fn with_own_work(mut self, own: impl Fn(f64) -> f64 + 'static) -> Process {
        self.own = Box::new(own);
        self
    }

    pub(crate) fn seconds(&self) -> f64 {
        self.now.as_secs_f64() - 100.0
    }

    /// Of a site: calls, and those of them that were counted as run or missed.
    pub(crate) fn calls(&self, site: usize) -> (f64, Reading) {
        (self.sites[site].calls, self.sites[site].reading)
    }

    pub(crate) fn turned_early(&mut self, site: usize, hits: u64) {
        self.sites[site].turned_early = hits;
    }

    /// Between 0 and 1.
    fn uniform(&mut self) -> f64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        (self.random >> 11) as f64 / (1u64 << 53) as f64
    }

    /// How many come if so many do in the mean, each by itself. Of many only the variance is right.
    fn independent(&mut self, mean: f64) -> f64 {
        if mean > 30.0 {
            return (mean + (2.0 * self.uniform() - 1.0) * (3.0 * mean).sqrt()).max(0.0);
        }
        let none = (-mean).exp();
        let (mut calls, mut product) = (0.0, self.uniform());
        while product > none {
            (calls, product) = (calls + 1.0, product * self.uniform());
        }
        calls
    }

    fn advance(&mut self, by: Duration) {
        let Some(share) = self.turns else { return self.run(by, by) };
        let end = self.now + by;
        while self.now < end {
            if self.now >= self.turn_ends {
                self.is_running = !self.is_running;
                let mean = if self.is_running { 3e-3 } else { 3e-3 * (1.0 - share) / share };
                let turn = Duration::from_secs_f64((0.2 + 1.6 * self.uniform()) * mean);
                self.turn_ends = self.now + turn;
            }
            let step = self.turn_ends.min(end) - self.now;
            match self.is_running {
                true => self.run(step.div_f64(1.0 + self.cost_per_own()), step),
                false => self.now += step,
            }
        }
    }

    /// Of a second of its own work, what probes add to it.
    fn cost_per_own(&self) -> f64 {
        let at = self.seconds();
        self.sites.iter().map(|site| site.cost((site.load)(at))).sum::<f64>() / 1e9
    }

    /// It loses the CPU to whoever watches it.
    fn yields(&mut self) {
        if self.turns.is_some() {
            self.is_running = false;
            self.turn_ends = self.now + Duration::from_secs_f64(2e-3 * self.uniform());
        }
    }

    /// So much of its own work, which takes so long.
    fn run(&mut self, by: Duration, takes: Duration) {
        let (at, seconds) = (self.seconds(), by.as_secs_f64());
        let mut cost = 0.0;
        for n in 0..self.sites.len() {
            let load = (self.sites[n].load)(at);
            let mean = load.hits_per_s * seconds;
            if mean > 0.0 {
                let calls = self.independent(mean);
                cost += self.sites[n].reached(calls, load.ns_per_hit);
            }
        }
        self.cost_ns += cost;
        self.cpu_ns += cost + (self.own)(at) * seconds;
        self.now += takes;
    }
}

impl Site {
    /// What a second of its hits adds, in ns.
    fn cost(&self, load: Load) -> f64 {
        let throttle = match self.mode {
            None => Throttle::Withdrawn,
            Some(Mode::Armed | Mode::Metered) => Throttle::Armed,
            Some(Mode::Sampled { shift }) => Throttle::Sampled { shift },
            Some(Mode::Shut) => Throttle::Shut,
        };
        let metering = if self.mode == Some(Mode::Metered) { self.metered_ns * load.hits_per_s } else { 0.0 };
        throttle.cost(load) + metering
    }

    /// What that costs, in ns.
    fn reached(&mut self, calls: f64, ns: f64) -> f64 {
        self.calls += calls;
        let timed_before = self.reading.timed;
        let cost = match self.mode {
            None => 0.0,
            Some(Mode::Armed) => calls * ns,
            Some(Mode::Shut) => calls * SHUT_NS,
            Some(Mode::Metered) => {
                self.ran += calls;
                let timed = self.timed_left.min(self.ran as u64 - self.reading.hits);
                self.timed_left -= timed;
                self.reading.timed += timed;
                calls * (ns + self.metered_ns) + timed as f64 * self.timed_ns
            }
            Some(Mode::Sampled { shift }) => {
                let ran = calls / f64::from(1u32 << shift);
                self.ran += ran;
                self.skipped += calls - ran;
                self.reading.timed += self.ran as u64 - self.reading.hits;
                calls * SAMPLED_NS + ran * (ns + self.timed_ns)
            }
        };
        (self.reading.hits, self.reading.missed) = (self.ran as u64, self.skipped as u64);
        self.reading.ns += ((self.reading.timed - timed_before) as f64 * (ns - AROUND_NS).max(0.0)) as u64;
        cost
    }
}

impl Meters for Process {
    fn now(&self) -> Duration {
        self.now
    }

    fn cpu_ns(&self) -> Option<u64> {
        Some(self.cpu_ns as u64)
    }

    fn read(&self, site: usize) -> Reading {
        self.reads.set(self.reads.get() + 1);
        let &Site { reading, turned_early, .. } = &self.sites[site];
        Reading { missed: reading.missed + turned_early, ..reading }
    }

    fn set(&mut self, modes: &[(usize, Mode)]) -> Vec<usize> {
        self.advance(self.pause);
        self.changes += modes.len();
        for &(site, mode) in modes {
            let site = &mut self.sites[site];
            assert!(site.mode.is_some(), "a withdrawn site has no mode");
            site.mode = Some(mode);
            if mode == Mode::Metered {
                site.timed_left = TIMED;
            }
        }
        self.advance(self.pause);
        Vec::new()
    }

    fn withdraw(&mut self, sites: &[usize]) -> Vec<usize> {
        if self.refuses_to_withdraw {
            return sites.to_vec();
        }
        self.advance(self.pause);
        sites.iter().for_each(|&site| self.sites[site].mode = None);
        self.advance(self.pause);
        Vec::new()
    }
}

/// A watched process, and what has become of it.
pub(crate) struct Run {
    pub process: Process,
    pub watch: Watch,
    /// Each change, with its time in seconds.
    pub steps: Vec<(f64, usize, Throttle)>,
    /// Of each tenth of a second: cost and CPU time, in ns.
    pub tenths: Vec<(f64, f64)>,
    /// How often there was something to look at.
    pub wakes: usize,
}

impl Run {
    pub(crate) fn start(process: Process, budget: Option<f64>) -> Run {
        let watch = Watch::new(process.sites.len(), budget, process.now);
        Run { process, watch, steps: Vec::new(), tenths: Vec::new(), wakes: 0 }
    }

    pub(crate) fn now(&self) -> Duration {
        self.process.now
    }

    /// Until so many seconds have passed in all.
    pub(crate) fn until(&mut self, seconds: f64) -> &mut Run {
        while self.process.seconds() < seconds - 1e-6 {
            let before = (self.process.cost_ns, self.process.cpu_ns);
            let end = self.process.now + Duration::from_millis(100);
            while self.process.now < end {
                let at = self.process.seconds();
                self.wakes += usize::from(self.watch.next() <= self.process.now);
                let steps = self.watch.round(&mut self.process);
                self.steps.extend(steps.into_iter().map(|(site, throttle)| (at, site, throttle)));
                let next = self.watch.next().max(self.process.now + Duration::from_millis(1));
                let wait = (next - self.process.now).min(ROUND).min(end.saturating_sub(self.process.now));
                self.process.advance(wait);
                let late = self.process.late.mul_f64(self.process.uniform());
                self.process.advance(late);
                self.process.yields();
            }
            self.tenths.push((self.process.cost_ns - before.0, self.process.cpu_ns - before.1));
        }
        self
    }

    /// The share of probes in the CPU time between two times.
    pub(crate) fn share(&self, from: f64, to: f64) -> f64 {
        // Where it was late, tenths were longer and fewer.
        let end = self.tenths.len().min((10.0 * to).round() as usize);
        let tenths = &self.tenths[(10.0 * from).round() as usize..end];
        let sum = |of: fn(&(f64, f64)) -> f64| tenths.iter().map(of).sum::<f64>();
        sum(|tenth| tenth.0) / sum(|tenth| tenth.1)
    }

    /// The largest share of any second between two times.
    pub(crate) fn worst_second(&self, from: f64, to: f64) -> f64 {
        let starts = (10.0 * from).round() as usize..=(10.0 * (to - 1.0)).round() as usize;
        starts.map(|start| self.share(start as f64 / 10.0, start as f64 / 10.0 + 1.0)).fold(0.0, f64::max)
    }

    pub(crate) fn throttle(&self, site: usize) -> Throttle {
        self.watch.control().sites()[site].throttle
    }

    pub(crate) fn touched(&self) -> Vec<usize> {
        let sites = self.watch.control().sites().iter().zip(0..);
        sites.filter(|(site, _)| site.touched_at.is_some()).map(|(_, n)| n).collect()
    }
}
