//! What the probes of a run cost its processes: meters are read, budgets kept, and what was done about it is told.
//!
//! In: the traced processes, looked at every round of the loop. Out: changes of how their hits run, as [`weir_policy`]
//! decides them; notices when a probe is slowed or taken out, once for each; a warning where there is no
//! budget and probes take more than 5 % of a process's CPU time; [`Figures`] for the report and the live view; and in each
//! process's segment, once a second, a stats page for `weir ps` and `weir top`.
//!
//! Deliberately not done: deciding anything.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;
use std::time::{Duration, Instant};

use weir_codegen::Compiled;
use weir_policy::budget::Share;
use weir_policy::figures::{Figures, ProbeFigures};
use weir_policy::stats_page;
use weir_policy::watch::PERIOD;
use weir_report::{ProbeRails, Rails, Summary};
use weir_rt::Ticks;
use weir_rt::segment::Segment;

use crate::clock::now_ns;
use crate::failure::Failure;
use crate::notice::{Notices, note};
use crate::one::One;
use crate::part::{Part, Requests, Round};
use crate::sink::Sink;
use crate::start::{Shown, View};
use crate::watched::{Process, Watched};

/// Without a budget a share above this is warned of, when it was that for so long.
const WARNED: f64 = 0.05;
const WARNED_AFTER: Duration = Duration::from_secs(1);

/// How often it is asked whether hits may be timed.
const ASKED_EVERY: Duration = Duration::from_millis(10);

/// Between two stats pages of one process.
const PUBLISHED_EVERY: Duration = Duration::from_secs(1);

/// Of one run.
pub(crate) struct Costs {
    began: Instant,
    /// None where weir may not read the time stamp counter: then nothing is looked at.
    ticks: Option<Ticks>,
    /// Of clauses that run at places, by their programs' numbers.
    names: Vec<String>,
    is_quiet: bool,
    notices: Notices,
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
    view: Option<Box<dyn View>>,
    ring: usize,
    /// Another recording takes the processes over.
    is_handed_over: bool,
}

impl Costs {
    /// `view`: shows them.
    pub(crate) fn new(
        compiled: &Compiled,
        is_quiet: bool,
        notices: &Notices,
        view: Option<Box<dyn View>>,
    ) -> Costs {
        // On a terminal the view shows what messages would report.
        let is_quiet = is_quiet || view.as_ref().is_some_and(|view| view.shows_costs());
        let names: Vec<String> =
            compiled.object.programs.iter().map(|program| program.name.clone()).collect();
        Costs {
            began: Instant::now(),
            ticks: Ticks::start(),
            past: Figures::of(names.iter().cloned()),
            names,
            is_quiet,
            notices: notices.clone(),
            share: None,
            watched: Vec::new(),
            above_since: None,
            is_warned: false,
            told: BTreeSet::new(),
            next: Duration::ZERO,
            view,
            ring: compiled.ring as usize,
            is_handed_over: false,
        }
    }

    /// How long until something is to be done.
    fn until_round(&self) -> Duration {
        match self.watched.is_empty() {
            true => PERIOD,
            false => self.next.saturating_sub(self.began.elapsed()),
        }
    }

    /// Reads meters that are due, and does what follows from them.
    fn read(&mut self, all: &mut [One]) {
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
    fn publish(&self, all: &[One], lost: u64) {
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
            one.attachment.publish(&stats_page::of(&figures, now_ns(), lost));
        }
    }

    /// Of all processes that there were.
    fn figures(&self) -> Figures {
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
                note!(
                    self.notices,
                    Costs,
                    "{} {what} ({state}), to keep to the budget of {budget}{load}",
                    probe.probe
                );
            }
        }
    }

    fn tell_unkept(&self, watched: &Watched) {
        let (Some(share), Some(budget)) = (watched.watch.control().share(), watched.share) else { return };
        note!(
            self.notices,
            Costs,
            "the budget of {budget} cannot be kept in process {}: probes take {} of its CPU time, and nothing is \
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
        note!(
            self.notices,
            Costs,
            "probes take {} of the CPU time of process {pid}, most of it {}: {:.0} hits a second, {:.0} ns each; \
             --budget 1% would sample it",
            percent(share),
            most.probe,
            most.hits_per_s,
            most.ns_per_hit()
        );
    }

    /// What was done to keep to a budget, where there is one.
    fn report(&self) -> Option<Rails> {
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

impl Part for Costs {
    fn begin(&mut self, _: &Segment, _: &mut Requests) {
        if let Some(view) = &mut self.view {
            view.begin();
        }
    }

    fn round(&mut self, round: &mut Round<'_>, _: &mut dyn Sink) -> Result<(), Failure> {
        let lost = round.segment.ring_counters(self.ring).dropped;
        let mut processes = 0;
        if let Some((targets, registry)) = &mut round.traced {
            processes = targets.all.len();
            self.is_handed_over = registry.is_handed_over();
            if !self.is_handed_over {
                if round.looks || self.until_round().is_zero() {
                    self.read(&mut targets.all);
                }
                self.publish(&targets.all, lost);
            }
        }
        if let Some(mut view) = self.view.take() {
            round.requests.stop |= view.round(&|| Shown { figures: self.figures(), processes, lost });
            self.view = Some(view);
        }
        Ok(())
    }

    fn until(&self) -> Duration {
        if self.is_handed_over { Duration::MAX } else { self.until_round() }
    }

    /// What is printed from here on belongs on the screen that was there before.
    fn leaves(&mut self, _: &Segment, _: &mut Requests) {
        self.view = None;
    }

    fn summary(&self, summary: &mut Summary) {
        summary.rails = self.report();
    }
}

/// As it is shown, with two digits that count.
pub fn percent(share: f64) -> String {
    match 100.0 * share {
        large if large >= 10.0 => format!("{large:.0}%"),
        medium if medium >= 1.0 => format!("{medium:.1}%"),
        small => format!("{small:.2}%"),
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
