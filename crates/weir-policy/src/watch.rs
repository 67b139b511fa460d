//! The watch: looks at the meters of one process as seldom as will do, and lets the control decide.
//!
//! In: a process, as [`Meters`]. Out: changes of how its hits run, and figures ([`Watch::control`]).
//!
//! Hits on the fast path are not counted. So each site is metered first, for a short window. Where hits are few
//! enough that counting all of them costs next to nothing, it stays so, and they are known exactly; where they are many, a window
//! now and then tells as much, and in between nothing is added to a hit. Sites that are sampled count by themselves; of a shut
//! one a window counts what passes, and lets one of 4096 run.
//!
//! All processes are looked at in the same moments, the multiples of `PERIOD`, and windows open in these alone: whoever watches
//! runs on a CPU that a watched thread may want, and takes the caches with it. With three processes that share a CPU it woke up 870
//! times a second while each was looked at in its own time.
//!
//! Rates are of the CPU time that the process used between two looks, which is read with the meters: a window in which it hardly
//! ran lasts until it has, `PERIOD` at most. What was missed is of all time: each change of how hits run lies between two
//! readings of the meter, and what it says more than it ever said goes to the control, whoever reads it.
//!
//! What is counted all the time are the sites with the fewest hits, as many as may be: a limit that would let in more than may
//! be is not tried, or all sites that are reached alike would come and go together, and cost ten times what they may.
//!
//! Guaranteed: in a period at most `READS_MAX` counted meters are read and `CHANGES_MAX` sites changed, however many there are. Metering
//! is held to a fiftieth of the budget: those that would cost more are looked at less often, up to `PERIOD_MAX`.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::control::Control;
use crate::estimate::Seen;
use crate::meters::{self, AT_ONCE, Meters, Mode, Reading, Snapshot};
use crate::throttle::{
    AROUND_NS, METERED_COLD_NS, METERED_NS, SAMPLED_NS, SHIFT_MAX, SHUT_NS, TIMED_COLD_NS, Throttle,
};

/// Between two looks at a site that is counted, and between decisions.
pub const PERIOD: Duration = Duration::from_millis(100);

/// Windows of one site are no further apart.
const PERIOD_MAX: Duration = Duration::from_secs(5);

/// What a window is meant to last; whoever calls may be later. And the CPU time that the process is to have used meanwhile.
const WINDOW: Duration = Duration::from_millis(1);
const WINDOW_CPU_NS: u64 = 1_000_000;

/// Where it has not, it is asked again at the next multiple of this.
const CPU_ASKED_EVERY: Duration = Duration::from_millis(5);

/// A site that is counted is asked to time more hits when so many have been.
const TIMED_USED: u64 = 16;

/// Of the CPU time of a span, what is not looking's at least.
const LOOKED_MIN: f64 = 0.3;

/// In a period.
const READS_MAX: usize = 8192;
const CHANGES_MAX: usize = 8192;

/// What metering may cost: a share of the budget, or without one, of the CPU time.
const OF_BUDGET: f64 = 0.02;
const OF_CPU: f64 = 0.0002;

/// And without a budget so many ns a second, however little the process runs.
const ANYWAY_NS: f64 = 50_000.0;

/// Hits a second that are counted all the time, before more is known.
const ALWAYS_FIRST: f64 = 2000.0;

/// Four hits in all or fewer: not enough to say that a site is reached often.
const UNCERTAIN: f64 = 0.5;

/// How a site is metered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Metering {
    /// Now and then: the next window is due then.
    Due(Duration),
    /// Right now, for a short time.
    InWindow,
    /// All the time: its meter counts every call.
    Counted,
    /// Never: it was not attached, or is not any more.
    Gone,
}

#[derive(Clone, Copy, Debug)]
struct Site {
    metering: Metering,
    /// The last look, and the CPU time of the process and the time then.
    reading: Reading,
    cpu_ns: u64,
    at: Duration,
    /// Hits that had been timed when it was last asked to time some.
    asked: u64,
    /// The most that was ever read as missed: the control knows of so many.
    missed: u64,
    /// And of those that ran.
    hits: u64,
    /// How its hits run: as the control has it, but between a decision and when it is carried out.
    throttle: Throttle,
}

impl Site {
    fn new(now: Duration) -> Site {
        let (metering, reading) = (Metering::Due(now), Reading::default());
        Site {
            metering,
            reading,
            cpu_ns: 0,
            at: now,
            asked: 0,
            missed: 0,
            hits: 0,
            throttle: Throttle::Armed,
        }
    }

    /// What looking adds to each call, in ns.
    fn looking_ns(&self) -> f64 {
        match self.throttle {
            Throttle::Armed => METERED_NS,
            Throttle::Shut => SAMPLED_NS - SHUT_NS,
            Throttle::Sampled { .. } | Throttle::Withdrawn => 0.0,
        }
    }

    /// What is new in a reading at this CPU time.
    fn seen(&self, reading: Reading, cpu_ns: u64) -> Seen {
        let before = self.reading;
        let missed = reading.missed.saturating_sub(before.missed);
        let timed = reading.timed.saturating_sub(before.timed);
        let calls = reading.hits.saturating_sub(before.hits).saturating_add(missed);
        let used = cpu_ns.saturating_sub(self.cpu_ns) as f64;
        // Looking takes time in which the process would have gone on. It is an estimate: something is always left.
        let own = (used - self.looking_ns() * calls as f64).max(LOOKED_MIN * used);
        let timed_ns = reading.ns.saturating_sub(before.ns) as f64 + AROUND_NS * timed as f64;
        Seen { cpu_s: own / 1e9, calls, timed, timed_ns }
    }
}

/// One process, watched.
#[derive(Debug)]
pub struct Watch {
    control: Control,
    sites: Vec<Site>,
    /// By the time when their windows are due.
    due: BTreeSet<(Duration, usize)>,
    in_window: Vec<usize>,
    /// When the windows that are open were opened, and the CPU time of the process then.
    opened: (Duration, u64),
    /// When they are to be ended, if the process has used so much by then.
    end_at: Duration,
    counted: BTreeSet<usize>,
    /// Where the next look at counted sites begins.
    next_counted: usize,
    /// Changes that may still be made in this period.
    changes_left: usize,
    cpu: Option<(u64, Duration)>,
    next: Duration,
    always_max: f64,
}

impl Watch {
    /// Of a process that was attached to at `now`. `budget`: a share of 1.
    pub fn new(sites: usize, budget: Option<f64>, now: Duration) -> Watch {
        let mut watch = Watch {
            control: Control::new(0, budget),
            sites: Vec::new(),
            due: BTreeSet::new(),
            in_window: Vec::new(),
            opened: (now, 0),
            end_at: now,
            counted: BTreeSet::new(),
            next_counted: 0,
            changes_left: CHANGES_MAX,
            cpu: None,
            next: now,
            always_max: ALWAYS_FIRST,
        };
        watch.extend(sites, now);
        watch
    }

    /// More sites, armed.
    pub fn extend(&mut self, sites: usize, now: Duration) {
        let first = self.sites.len();
        self.control.extend(sites);
        self.sites.extend(std::iter::repeat_n(Site::new(now), sites));
        self.due.extend((first..first + sites).map(|site| (now, site)));
    }

    /// A site is attached, or another in its place: it begins armed.
    pub fn come(&mut self, site: usize, now: Duration) {
        self.control.anew(site, now);
        self.settle(site, Metering::Due(now));
        self.sites[site] = Site::new(now);
    }

    /// A site is about to go, and its meter with it: what it missed since the last look is told.
    pub fn leave(&mut self, site: usize, process: &dyn Meters) {
        self.read(site, process);
    }

    /// A site that was never attached, or is not any more.
    pub fn forget(&mut self, site: usize) {
        self.settle(site, Metering::Gone);
    }

    /// What it knows of each site.
    pub fn control(&self) -> &Control {
        &self.control
    }

    /// When [`Watch::round`] has something to do.
    pub fn next(&self) -> Duration {
        if self.in_window.is_empty() { self.next } else { self.next.min(self.end_at) }
    }

    /// Ends windows; once a period reads and decides, and opens the windows that are due. The sites that changed, with where they
    /// stand now.
    pub fn round(&mut self, process: &mut dyn Meters) -> Vec<(usize, Throttle)> {
        self.end_windows(process);
        let now = process.now();
        if now < self.next {
            return Vec::new();
        }
        self.next = next_period(now);
        self.changes_left = CHANGES_MAX;
        let steps = self.period(process);
        self.open_windows(process);
        steps
    }

    /// Reads all meters once more, when nothing runs any more: so that hits and misses are all calls. Whatever a site's level is
    /// now, a thread may have been on its way through when the meter was read last.
    pub fn finish(&mut self, process: &dyn Meters) {
        // What passed shut gates, or none, since the last period.
        if let (Some(now), Some((before, _))) = (process.cpu_ns(), &mut self.cpu) {
            self.control.miss(now.saturating_sub(std::mem::replace(before, now)) as f64);
        }
        // The number of one that was withdrawn may be another's by now.
        for site in 0..self.sites.len() {
            if self.sites[site].throttle != Throttle::Withdrawn {
                self.read(site, process);
            }
        }
    }

    fn period(&mut self, process: &mut dyn Meters) -> Vec<(usize, Throttle)> {
        let Some(cpu_ns) = process.cpu_ns() else { return Vec::new() };
        let now = process.now();
        if let Some((before, at)) = self.cpu.replace((cpu_ns, now)) {
            self.control.used(cpu_ns.saturating_sub(before) as f64, now.saturating_sub(at).as_secs_f64());
        }
        self.read_counted(process);
        let metering = self.share_out();
        let mut steps = self.control.decide(now, metering);
        self.take(&mut steps, process);
        let awaited: Vec<usize> = self.control.awaited().collect();
        self.hurry(&awaited, now);
        if !steps.is_empty() {
            // What sites cost may be another share by now.
            let all: Vec<usize> = self.due.iter().map(|(_, site)| *site).collect();
            self.hurry(&all, now + PERIOD);
        }
        steps
    }

    /// Sites that are looked at now and then are looked at by then, however seldom it is otherwise.
    fn hurry(&mut self, sites: &[usize], by: Duration) {
        for &site in sites {
            if matches!(self.sites[site].metering, Metering::Due(due) if due > by) {
                self.settle(site, Metering::Due(by));
            }
        }
    }

    /// What was counted at sites since the last look.
    fn look(&mut self, sites: &[usize], process: &dyn Meters) -> Vec<Seen> {
        let mut all = Vec::with_capacity(sites.len());
        for sites in sites.chunks(AT_ONCE) {
            let Snapshot { readings, from_ns, to_ns } = self.snapshot(sites, process);
            let now = process.now();
            for (&site, reading) in sites.iter().zip(readings) {
                // The span is the longer one, where they could not be read at once: no rate is taken for higher than it is.
                let seen = self.sites[site].seen(reading, to_ns);
                let site_seen = &mut self.sites[site];
                (site_seen.reading, site_seen.cpu_ns) = (reading, from_ns);
                let span = now.saturating_sub(std::mem::replace(&mut site_seen.at, now));
                if site_seen.metering == Metering::Counted {
                    self.control.counted(site, seen.calls, span.as_secs_f64());
                }
                self.control.saw(site, seen);
                all.push(seen);
            }
        }
        all
    }

    /// From here on the next look counts. Hits that were timed since the last one are kept: where there are many hits, and this
    /// process lost the CPU since it asked for it, all that were to be timed have been.
    fn begin(&mut self, sites: &[usize], process: &dyn Meters) {
        for sites in sites.chunks(AT_ONCE) {
            let Snapshot { readings, from_ns, .. } = self.snapshot(sites, process);
            let now = process.now();
            for (&site, reading) in sites.iter().zip(readings) {
                let begun = &mut self.sites[site];
                let Reading { timed, ns, .. } = begun.reading;
                let uncounted = from_ns.saturating_sub(begun.cpu_ns);
                (begun.reading, begun.cpu_ns, begun.at, begun.asked) =
                    (Reading { timed, ns, ..reading }, from_ns, now, timed);
                self.control.passed(site, uncounted as f64);
            }
        }
    }

    /// Of so few sites that the CPU clock hardly goes on meanwhile.
    fn snapshot(&mut self, sites: &[usize], process: &dyn Meters) -> Snapshot {
        // Of a process that has ended, no time passes any more.
        let ended = self.cpu.map_or(0, |(cpu_ns, _)| cpu_ns);
        meters::at_once(process, ended, || sites.iter().map(|&site| self.read(site, process)).collect())
    }

    /// The only way to a meter: none is read without its misses being told.
    fn read(&mut self, site: usize, process: &dyn Meters) -> Reading {
        let reading = process.read(site);
        let read = &mut self.sites[site];
        // A hit that has its turn is read as missed until it has said that it runs: less than before is no more of them.
        let more = reading.missed.saturating_sub(read.missed);
        read.missed += more;
        let ran = reading.hits.saturating_sub(read.hits);
        read.hits += ran;
        self.control.ran(site, ran);
        // What passes while it is shut is counted by its rate, windows included.
        if read.throttle != Throttle::Shut {
            self.control.missed(site, more);
        }
        reading
    }

    fn end_windows(&mut self, process: &mut dyn Meters) {
        let now = process.now();
        if self.in_window.is_empty() || now < self.end_at {
            return;
        }
        let (opened, cpu_ns) = self.opened;
        let has_run = process.cpu_ns().is_none_or(|now| now.saturating_sub(cpu_ns) >= WINDOW_CPU_NS);
        if !has_run && now.saturating_sub(opened) < PERIOD {
            self.end_at = next_multiple(CPU_ASKED_EVERY, now + WINDOW);
            return;
        }
        let mut modes = Vec::new();
        let sites = std::mem::take(&mut self.in_window);
        let all_seen = self.look(&sites, process);
        for (site, seen) in sites.into_iter().zip(all_seen) {
            let of_site = &self.control.sites()[site];
            let throttle = of_site.throttle;
            let is_rare = of_site.load().hits_per_s <= self.always_max || of_site.uncertainty() >= UNCERTAIN;
            if throttle == Throttle::Armed && is_rare {
                self.settle(site, Metering::Counted);
                continue;
            }
            let due = opened + self.until_next(site, seen.calls as f64, seen.timed as f64);
            self.settle(site, Metering::Due(due));
            modes.push((site, if throttle == Throttle::Shut { Mode::Shut } else { Mode::Armed }));
        }
        self.set(&modes, process);
    }

    fn open_windows(&mut self, process: &mut dyn Meters) {
        // Those that are open are ended first: all are as old.
        if !self.in_window.is_empty() {
            return;
        }
        let now = process.now();
        // Also those that are due before half of the next period.
        let is_due = |&&(due, _): &&(Duration, usize)| due <= now + PERIOD / 2;
        let sites: Vec<usize> =
            self.due.iter().take_while(is_due).take(self.changes_left).map(|&(_, site)| site).collect();
        // One change to open, and one to end it.
        self.changes_left = self.changes_left.saturating_sub(2 * sites.len());
        let mode = |&site: &usize| match self.control.sites()[site].throttle {
            Throttle::Shut => (site, Mode::Sampled { shift: SHIFT_MAX }),
            _ => (site, Mode::Metered),
        };
        let modes: Vec<(usize, Mode)> = sites.iter().map(mode).collect();
        self.set(&modes, process);
        self.opened = (now, process.cpu_ns().unwrap_or(0));
        self.end_at = now + WINDOW;
        self.begin(&sites, process);
        for site in sites {
            self.settle(site, Metering::InWindow);
        }
    }

    /// Metering costs no more than it may if the windows of a site, with so many calls, of which so many are timed, are so far apart.
    fn until_next(&self, site: usize, calls: f64, timed: f64) -> Duration {
        let of_site = &self.control.sites()[site];
        if self.control.is_awaited(site) || !of_site.is_credible() || self.allowed() == 0.0 {
            return PERIOD;
        }
        let cost = timed * TIMED_COLD_NS + (calls - timed).max(0.0) * METERED_NS;
        let others = (self.due.len() + self.in_window.len()).max(1);
        let allowed = self.allowed() / others as f64;
        let seconds = (cost / allowed.max(1.0)).min(PERIOD_MAX.as_secs_f64());
        PERIOD.max(Duration::from_secs_f64(seconds))
    }

    /// What metering may cost, in ns a second.
    fn allowed(&self) -> f64 {
        let cpu = self.control.cpu().unwrap_or(0.0);
        match self.control.budget() {
            Some(budget) => OF_BUDGET * budget * cpu,
            None if cpu > 0.0 => (OF_CPU * cpu).max(ANYWAY_NS),
            None => 0.0,
        }
    }

    /// Looks at those that are counted all the time; those that are reached too often for that are so no longer.
    fn read_counted(&mut self, process: &mut dyn Meters) {
        let from = self.next_counted;
        let round = self.counted.range(from..).chain(self.counted.range(..from));
        let sites: Vec<usize> = round.take(READS_MAX).copied().collect();
        self.next_counted = sites.last().map_or(0, |last| last + 1);
        let mut modes = Vec::new();
        self.look(&sites, process);
        for site in sites {
            let is_armed = self.control.sites()[site].throttle == Throttle::Armed;
            let hits_per_s = self.control.sites()[site].load().hits_per_s;
            if is_armed && hits_per_s > self.always_max {
                let calls = hits_per_s * WINDOW.as_secs_f64();
                let due = process.now() + self.until_next(site, calls, calls);
                self.settle(site, Metering::Due(due));
                modes.push((site, Mode::Armed));
            } else if is_armed
                && self.sites[site].reading.timed.saturating_sub(self.sites[site].asked) >= TIMED_USED
            {
                self.sites[site].asked = self.sites[site].reading.timed;
                modes.push((site, Mode::Metered));
            }
        }
        self.set(&modes, process);
    }

    /// How many hits a second are few, so that all sites that are counted may be; what they cost, in ns a second.
    fn share_out(&mut self) -> f64 {
        let sites = self.control.sites();
        let is_armed = |site: &&usize| sites[**site].throttle == Throttle::Armed;
        let hits = |site: &usize| sites[*site].load().hits_per_s;
        let cost = METERED_COLD_NS * self.counted.iter().filter(is_armed).map(hits).sum::<f64>();
        let allowed = self.allowed();
        if allowed == 0.0 {
            return cost;
        }
        // Also of those that are not counted, but would be: sites that are reached equally often come and go together.
        let now_and_then = self.due.iter().map(|(_, site)| site);
        let all: Vec<f64> = self.counted.iter().chain(now_and_then).filter(is_armed).map(hits).collect();
        let cost_up_to = |most: f64| METERED_COLD_NS * all.iter().filter(|&&hits| hits <= most).sum::<f64>();
        let mut most = self.always_max;
        while most > 1.0 && cost_up_to(most) > allowed {
            most /= 2.0;
        }
        if most >= self.always_max && cost_up_to(2.0 * most) <= allowed / 2.0 {
            most = (2.0 * most).min(allowed / METERED_COLD_NS);
        }
        self.always_max = most.max(1.0);
        cost
    }

    /// Takes the steps; those that could not be taken are left out.
    fn take(&mut self, steps: &mut Vec<(usize, Throttle)>, process: &mut dyn Meters) {
        let now = process.now();
        let (mut modes, mut withdrawn) = (Vec::new(), Vec::new());
        for &(site, throttle) in steps.iter() {
            match throttle {
                Throttle::Armed => modes.push((site, Mode::Armed)),
                Throttle::Sampled { shift } => modes.push((site, Mode::Sampled { shift })),
                Throttle::Shut => modes.push((site, Mode::Shut)),
                Throttle::Withdrawn => withdrawn.push(site),
            }
        }
        // Of those that were shut, what their windows counted stays with the rate.
        for &(site, _) in steps.iter() {
            self.read(site, process);
        }
        let mut failed = self.set(&modes, process);
        // Shut, as long as the text cannot be put back.
        let stay = process.withdraw(&withdrawn);
        let shut: Vec<(usize, Mode)> = stay.iter().map(|&site| (site, Mode::Shut)).collect();
        self.set(&shut, process);
        for &(site, throttle) in steps.iter() {
            self.moved(site, if stay.contains(&site) { Throttle::Shut } else { throttle }, process);
        }
        for &site in &stay {
            self.control.failed(site, Throttle::Shut, now);
            self.settle(site, Metering::Due(now + PERIOD));
        }
        failed.extend(stay);
        steps.retain(|(site, _)| !failed.contains(site));
        for &(site, throttle) in steps.iter() {
            match throttle {
                Throttle::Armed | Throttle::Shut => self.settle(site, Metering::Due(now + PERIOD)),
                Throttle::Sampled { .. } => {
                    self.settle(site, Metering::Counted);
                    self.begin(&[site], process);
                }
                Throttle::Withdrawn => self.settle(site, Metering::Gone),
            }
        }
    }

    /// The hits of a site run by this level from a moment ago on. Those that were counted since the last reading came while it was
    /// sampled, before or after.
    fn moved(&mut self, site: usize, throttle: Throttle, process: &dyn Meters) {
        if throttle != Throttle::Shut {
            self.sites[site].throttle = throttle;
        }
        self.read(site, process);
        self.sites[site].throttle = throttle;
    }

    /// A site where it failed is not there any more.
    fn set(&mut self, modes: &[(usize, Mode)], process: &mut dyn Meters) -> Vec<usize> {
        if modes.is_empty() {
            return Vec::new();
        }
        let failed = process.set(modes);
        for &site in &failed {
            self.settle(site, Metering::Gone);
        }
        failed
    }

    fn settle(&mut self, site: usize, metering: Metering) {
        match std::mem::replace(&mut self.sites[site].metering, metering) {
            Metering::Due(due) => {
                self.due.remove(&(due, site));
            }
            Metering::InWindow => self.in_window.retain(|&other| other != site),
            Metering::Counted => {
                self.counted.remove(&site);
                self.control.uncounted(site);
            }
            Metering::Gone => {}
        }
        match metering {
            Metering::Due(due) => {
                self.due.insert((due, site));
            }
            Metering::InWindow => self.in_window.push(site),
            Metering::Counted => {
                self.counted.insert(site);
            }
            Metering::Gone => {}
        }
    }
}

/// When the next period begins, which is not too short.
pub fn next_period(now: Duration) -> Duration {
    next_multiple(PERIOD, now + PERIOD / 2)
}

/// The first multiple of `step` that is not before `from`: the same for all who have this clock.
fn next_multiple(step: Duration, from: Duration) -> Duration {
    Duration::from_nanos(from.as_nanos().next_multiple_of(step.as_nanos()) as u64)
}
