//! What the probes of a run cost its processes: meters are read, budgets kept, and what was done about it is told.
//!
//! In: the traced processes, looked at every round of the loop. Out: changes of how their hits run, as [`weir_policy`]
//! decides them; messages on standard error when a probe is slowed or taken out, once for each; a warning where there is no
//! budget and probes take more than 5 % of a process's CPU time; [`Figures`] for the report and the live view; and in each
//! process's segment, once a second, a bulletin for `weir ps` and `weir top`.
//!
//! Deliberately not done: deciding anything.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;
use std::time::{Duration, Instant};

use nix::time::{ClockId, clock_gettime};
use nix::unistd::Pid;
use weir_codegen::Compiled;
use weir_policy::budget::Share;
use weir_policy::bulletin;
use weir_policy::figures::{Figures, ProbeFigures};
use weir_policy::meters::{Meters, Mode, Reading};
use weir_policy::watch::{PERIOD, Watch};
use weir_probe::{Attachment, Mode as Run, Outcome};
use weir_report::{ProbeRails, Rails};
use weir_rt::Ticks;

use crate::print::tell;
use crate::session::now_ns;
use crate::session::targets::One;

/// Without a budget a share above this is warned of, when it was that for so long.
const WARNED: f64 = 0.05;
const WARNED_AFTER: Duration = Duration::from_secs(1);

/// Hits of a process without a budget are not timed before: one that lives no longer is not worth the stop that it may take.
const TIMED_AFTER: Duration = PERIOD;

/// How often it is asked whether hits may be timed.
const ASKED_EVERY: Duration = Duration::from_millis(10);

/// Between two bulletins of one process.
const PUBLISHED_EVERY: Duration = Duration::from_secs(1);

/// Of one run.
pub(crate) struct Costs {
    began: Instant,
    /// None where weir may not read the time stamp counter: then nothing is looked at.
    ticks: Option<Ticks>,
    /// Of clauses that run at places, by their programs' numbers.
    names: Vec<String>,
    is_quiet: bool,
    /// The budget of the first process that has one: as a rule, of all.
    share: Option<Share>,
    watched: Vec<Rc<RefCell<Watched>>>,
    /// Of processes that are gone.
    past: Figures,
    above_since: Option<Duration>,
    is_warned: bool,
    /// Clauses that were told of, and how.
    told: BTreeSet<(usize, &'static str)>,
    /// When the nearest round of any process is due.
    next: Duration,
}

/// What one process's probes cost.
pub(crate) struct Watched {
    watch: Watch,
    pid: i32,
    /// Of its CPU time; none where it has ended before.
    clock: Option<ClockId>,
    share: Option<Share>,
    /// By site of the plan: its number in the attachment, if it was attached.
    numbers: Vec<Option<usize>>,
    /// By site: the programs that run there.
    programs: Vec<Vec<usize>>,
    /// Of libraries, when `numbers` was made.
    changes: u64,
    is_told_unkept: bool,
    /// When it was attached to, and whether its hits may be timed by now.
    since: Duration,
    may_time: bool,
    /// When it is to be looked at next.
    next: Duration,
    /// When its next bulletin is due.
    publish_at: Duration,
}

impl Costs {
    pub(crate) fn new(compiled: &Compiled, is_quiet: bool) -> Costs {
        let names: Vec<String> =
            compiled.object.programs.iter().map(|program| program.name.clone()).collect();
        Costs {
            began: Instant::now(),
            ticks: Ticks::start(),
            past: Figures::of(names.iter().cloned()),
            names,
            is_quiet,
            share: None,
            watched: Vec::new(),
            above_since: None,
            is_warned: false,
            told: BTreeSet::new(),
            next: Duration::ZERO,
        }
    }

    /// How long until something is to be done.
    pub(crate) fn until_round(&self) -> Duration {
        match self.watched.is_empty() {
            true => PERIOD,
            false => self.next.saturating_sub(self.began.elapsed()),
        }
    }

    /// To be called in each round of the loop.
    pub(crate) fn round(&mut self, all: &mut [One]) {
        let Some(ns_per_tick) = self.ticks.as_ref().and_then(Ticks::ns_per_tick) else { return };
        let now = self.began.elapsed();
        self.next = now + PERIOD;
        let mut has_changed = false;
        for one in all {
            let watched = self.watched(one, now);
            let mut watched = watched.borrow_mut();
            let is_due = now >= watched.next || watched.is_outdated(one);
            if !is_due {
                self.next = self.next.min(watched.next);
            }
            // Whether it lives is a system call.
            if !is_due || !one.attachment.target().is_alive() {
                continue;
            }
            watched.refresh(one, now, self.began);
            if !watched.may_begin(one, now) {
                watched.next = now + ASKED_EVERY;
                self.next = self.next.min(watched.next);
                continue;
            }
            let Watched { watch, numbers, clock, .. } = &mut *watched;
            let attachment = &mut one.attachment;
            let mut process = Process { attachment, numbers, clock: *clock, began: self.began, ns_per_tick };
            has_changed |= !watch.round(&mut process).is_empty();
            watched.next = watched.watch.next();
            self.next = self.next.min(watched.next);
            if watched.watch.control().is_unkept(now) && !watched.is_told_unkept {
                watched.is_told_unkept = true;
                self.tell_unkept(&watched);
            }
        }
        if has_changed {
            self.tell_changes();
        }
        self.fold_past();
        self.warn(now);
    }

    /// Tells whoever looks into the processes what their probes cost. `lost`: records of the run so far.
    pub(crate) fn publish(&self, all: &[One], lost: u64) {
        let now = self.began.elapsed();
        for one in all {
            let Some(watched) = &one.watched else { continue };
            let mut watched = watched.borrow_mut();
            if now < watched.publish_at {
                continue;
            }
            let mut figures = Figures::of(self.names.iter().cloned());
            figures.add(watched.watch.control(), &|site| watched.programs_at(site), Duration::ZERO);
            figures.probes.retain(|probe| probe.places.all() > 0);
            // What is known after the first look is not waited for.
            let is_seen = figures.probes.iter().any(|probe| probe.is_seen);
            watched.publish_at = now + if is_seen { PUBLISHED_EVERY } else { PERIOD };
            one.attachment.publish(&bulletin::of(&figures, now_ns(), lost));
        }
    }

    /// Of all processes that there were.
    pub(crate) fn figures(&self) -> Figures {
        let mut figures = self.past.clone();
        for watched in &self.watched {
            let watched = watched.borrow();
            figures.add(watched.watch.control(), &|site| watched.programs_at(site), Duration::ZERO);
        }
        figures.probes.retain(|probe| probe.places.all() > 0);
        figures
    }

    fn watched(&mut self, one: &mut One, now: Duration) -> Rc<RefCell<Watched>> {
        if let Some(watched) = &one.watched {
            return watched.clone();
        }
        let watched = Rc::new(RefCell::new(Watched::new(one, now)));
        one.watched = Some(watched.clone());
        self.share = self.share.or(one.share);
        self.watched.push(watched.clone());
        watched
    }

    /// Of processes that nobody holds any more the sums are kept.
    fn fold_past(&mut self) {
        let (past, programs) = (&mut self.past, |watched: &Watched, site| watched.programs_at(site));
        self.watched.retain(|watched| {
            let is_held = Rc::strong_count(watched) > 1;
            if !is_held {
                let watched = watched.borrow();
                past.add_ended(watched.watch.control(), &|site| programs(&watched, site));
            }
            is_held
        });
    }

    fn tell_changes(&mut self) {
        let figures = self.figures();
        let budget = self.share.map(|share| share.to_string()).unwrap_or_default();
        for probe in figures.probes.iter().filter(|probe| probe.is_touched()) {
            let Some(clause) = self.names.iter().position(|name| *name == probe.probe) else { continue };
            let (key, what) = match probe.places {
                places if places.withdrawn > 0 => ("withdrawn", "is taken out"),
                places if places.shut > 0 => ("shut", "does not run any more"),
                places if places.sampled > 0 => ("sampled", "is sampled"),
                _ => continue,
            };
            if self.told.insert((clause, key)) && !self.is_quiet {
                let (state, rate, ns) = (probe.state(), probe.hits_per_s, probe.ns_per_hit());
                let load = if rate > 0.0 {
                    format!(": {rate:.0} hits a second at {ns:.0} ns")
                } else {
                    String::new()
                };
                tell!("weir: {} {what} ({state}), to keep to the budget of {budget}{load}", probe.probe);
            }
        }
    }

    fn tell_unkept(&self, watched: &Watched) {
        let (Some(share), Some(budget)) = (watched.watch.control().share(), watched.share) else { return };
        tell!(
            "weir: the budget of {budget} cannot be kept in process {}: probes take {} of its CPU time, and nothing is \
             left to be slowed; end the run, or trace less",
            watched.pid,
            percent(share)
        );
    }

    /// Once, where nothing bounds the cost.
    fn warn(&mut self, now: Duration) {
        if self.is_warned || self.is_quiet {
            return;
        }
        let costly = self.watched.iter().find_map(|watched| {
            let watched = watched.borrow();
            let share = watched.watch.control().share().filter(|share| *share > WARNED)?;
            watched.share.is_none().then(|| (watched.pid, share))
        });
        let Some((pid, share)) = costly else {
            self.above_since = None;
            return;
        };
        if now.saturating_sub(*self.above_since.get_or_insert(now)) < WARNED_AFTER {
            return;
        }
        self.is_warned = true;
        let figures = self.figures();
        let Some(most) = figures.probes.iter().max_by(|one, other| one.cost.total_cmp(&other.cost)) else {
            return;
        };
        tell!(
            "weir: probes take {} of the CPU time of process {pid}, most of it {}: {:.0} hits a second, {:.0} ns each; \
             --budget 1% would sample it",
            percent(share),
            most.probe,
            most.hits_per_s,
            most.ns_per_hit()
        );
    }

    /// What was done to keep to a budget, where there is one.
    pub(crate) fn report(&self) -> Option<Rails> {
        let (figures, budget) = (self.figures(), self.share?);
        let probe = |probe: &ProbeFigures| ProbeRails {
            probe: probe.probe.clone(),
            state: probe.state(),
            since_s: probe.since.unwrap_or_default().as_secs_f64(),
            missed: probe.missed,
            missed_about: probe.missed_about,
        };
        let probes = figures.probes.iter().filter(|probe| probe.is_touched()).map(probe).collect();
        Some(Rails { budget: budget.to_string(), share: figures.share(), probes })
    }
}

pub(crate) fn percent(share: f64) -> String {
    match 100.0 * share {
        large if large >= 10.0 => format!("{large:.0}%"),
        medium if medium >= 1.0 => format!("{medium:.1}%"),
        small => format!("{small:.2}%"),
    }
}

impl Watched {
    fn new(one: &One, now: Duration) -> Watched {
        let share = one.share;
        let numbers = numbers(one);
        let of_site =
            |site: &crate::session::stages::Site| site.programs.iter().map(|wanted| wanted.program).collect();
        let programs = one.plan.sites.iter().map(of_site).collect();
        let mut watch = Watch::new(numbers.len(), share.map(Share::ratio), now);
        for (site, _) in numbers.iter().enumerate().filter(|(_, number)| number.is_none()) {
            watch.forget(site);
        }
        let changes = one.followed.changes();
        Watched {
            watch,
            pid: one.pid(),
            clock: ClockId::pid_cpu_clock_id(Pid::from_raw(one.pid())).ok(),
            share,
            numbers,
            programs,
            changes,
            is_told_unkept: false,
            since: now,
            may_time: false,
            next: now,
            publish_at: now,
        }
    }

    fn may_begin(&mut self, one: &mut One, now: Duration) -> bool {
        let is_due = self.share.is_some() || now.saturating_sub(self.since) >= TIMED_AFTER;
        self.may_time = self.may_time || is_due && one.attachment.may_time();
        self.may_time
    }

    /// Libraries have come or gone since it was refreshed.
    fn is_outdated(&self, one: &One) -> bool {
        self.changes != one.followed.changes()
    }

    /// Libraries come and go, and places with them. What was missed at a place that went since it was read last is read now, if
    /// its number is not another's already.
    fn refresh(&mut self, one: &mut One, now: Duration, began: Instant) {
        if !self.is_outdated(one) {
            return;
        }
        self.changes = one.followed.changes();
        let numbers = numbers(one);
        let changed: Vec<usize> =
            (0..numbers.len()).filter(|&site| self.numbers[site] != numbers[site]).collect();
        let taken: BTreeSet<usize> = changed.iter().filter_map(|&site| numbers[site]).collect();
        // No time is asked for: nothing is learned of rates.
        let attachment = &mut one.attachment;
        let process =
            Process { attachment, numbers: &self.numbers, clock: self.clock, began, ns_per_tick: 0.0 };
        for &site in &changed {
            if self.numbers[site].is_some_and(|number| !taken.contains(&number)) {
                self.watch.leave(site, &process);
            }
        }
        self.numbers = numbers;
        for site in changed {
            match self.numbers[site] {
                Some(_) => self.watch.come(site, now),
                None => self.watch.forget(site),
            }
        }
    }

    fn programs_at(&self, site: usize) -> Vec<usize> {
        match self.numbers[site] {
            Some(_) => self.programs[site].clone(),
            None => Vec::new(),
        }
    }
}

/// Reads once more what is counted, when the probes are out or the process has ended.
pub(crate) fn finish(one: &mut One) {
    let Some(watched) = one.watched.clone() else { return };
    let Watched { watch, numbers, clock, .. } = &mut *watched.borrow_mut();
    // No time passes: nothing is learned of rates, and hits and misses are complete.
    let (attachment, began) = (&mut one.attachment, Instant::now());
    watch.finish(&Process { attachment, numbers, clock: *clock, began, ns_per_tick: 0.0 });
}

/// Of each place of the plan its number in the attachment, if it is there.
fn numbers(one: &One) -> Vec<Option<usize>> {
    let number = |outcome: &Outcome| outcome.as_ref().ok().map(|patched| patched.site);
    one.followed.outcomes().iter().map(number).collect()
}

/// A process, as the watch sees it.
struct Process<'a> {
    attachment: &'a mut Attachment,
    numbers: &'a [Option<usize>],
    clock: Option<ClockId>,
    began: Instant,
    ns_per_tick: f64,
}

impl Meters for Process<'_> {
    fn now(&self) -> Duration {
        self.began.elapsed()
    }

    fn cpu_ns(&self) -> Option<u64> {
        let used = clock_gettime(self.clock?).ok()?;
        Some(used.tv_sec() as u64 * 1_000_000_000 + used.tv_nsec() as u64)
    }

    fn read(&self, site: usize) -> Reading {
        let Some(number) = self.numbers[site] else { return Reading::default() };
        let read = self.attachment.meter(number);
        let ns = (read.ticks as f64 * self.ns_per_tick) as u64;
        Reading { hits: read.hits, missed: read.missed, timed: read.timed, ns }
    }

    fn set(&mut self, modes: &[(usize, Mode)]) -> Vec<usize> {
        let run = |mode| match mode {
            Mode::Armed => Run::Armed,
            Mode::Metered => Run::Metered,
            Mode::Sampled { shift } => Run::Sampled { one_in: 1 << shift },
            Mode::Shut => Run::Shut,
        };
        let numbered = modes.iter().filter_map(|&(site, mode)| Some((self.numbers[site]?, run(mode))));
        let numbered: Vec<(usize, Run)> = numbered.collect();
        match self.attachment.set_modes(&numbered) {
            Ok(()) => Vec::new(),
            // It has ended, which others notice.
            Err(_) => modes.iter().map(|(site, _)| *site).collect(),
        }
    }

    fn withdraw(&mut self, sites: &[usize]) -> Vec<usize> {
        let numbers: Vec<usize> = sites.iter().filter_map(|&site| self.numbers[site]).collect();
        if numbers.is_empty() {
            return Vec::new();
        }
        match self.attachment.withdraw(&numbers) {
            Ok(_) => Vec::new(),
            Err(_) => sites.to_vec(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_have_two_digits_that_count() {
        assert_eq!([0.314, 0.0511, 0.0012].map(percent), ["31%", "5.1%", "0.12%"]);
    }
}
