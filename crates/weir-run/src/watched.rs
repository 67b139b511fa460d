//! What the probes of one process cost: its meters, as [`weir_policy`] reads them, and how its hits run.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use nix::time::{ClockId, clock_gettime};
use nix::unistd::Pid;
use weir_policy::budget::Share;
use weir_policy::meters::{Meters, Mode, Reading};
use weir_policy::watch::{PERIOD, Watch};
use weir_probe::{Attachment, Mode as Run, Outcome};

use crate::one::One;
use crate::stages::Site;

/// Hits of a process without a budget are not timed before: one that lives no longer is not worth the stop that it may take.
const TIMED_AFTER: Duration = PERIOD;

/// What one process's probes cost.
pub(crate) struct Watched {
    pub(crate) watch: Watch,
    pub(crate) pid: i32,
    /// Of its CPU time; none where it has ended before.
    pub(crate) clock: Option<ClockId>,
    pub(crate) share: Option<Share>,
    /// By site of the plan: its number in the attachment, if it was attached.
    pub(crate) numbers: Vec<Option<usize>>,
    /// By site: the programs that run there.
    pub(crate) programs: Vec<Vec<usize>>,
    /// Of libraries, when `numbers` was made.
    pub(crate) changes: u64,
    pub(crate) is_told_unkept: bool,
    /// When it was attached to, and whether its hits may be timed by now.
    pub(crate) since: Duration,
    pub(crate) may_time: bool,
    /// When it is to be looked at next.
    pub(crate) next: Duration,
    /// When its next stats page is due.
    pub(crate) publish_at: Duration,
}

impl Watched {
    pub(crate) fn new(one: &One, now: Duration) -> Watched {
        let share = one.share;
        let numbers = numbers(one);
        let of_site = |site: &Site| site.programs.iter().map(|wanted| wanted.program).collect();
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

    pub(crate) fn may_begin(&mut self, one: &mut One, now: Duration) -> bool {
        let is_due = self.share.is_some() || now.saturating_sub(self.since) >= TIMED_AFTER;
        self.may_time = self.may_time || is_due && one.attachment.may_time();
        self.may_time
    }

    /// Libraries have come or gone since it was refreshed.
    pub(crate) fn is_outdated(&self, one: &One) -> bool {
        self.changes != one.followed.changes()
    }

    /// Libraries come and go, and places with them. What was missed at a place that went since it was read last is read now, if
    /// its number is not another's already.
    pub(crate) fn refresh(&mut self, one: &mut One, now: Duration, began: Instant) {
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

    pub(crate) fn programs_at(&self, site: usize) -> Vec<usize> {
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
pub(crate) struct Process<'a> {
    pub(crate) attachment: &'a mut Attachment,
    pub(crate) numbers: &'a [Option<usize>],
    pub(crate) clock: Option<ClockId>,
    pub(crate) began: Instant,
    pub(crate) ns_per_tick: f64,
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
