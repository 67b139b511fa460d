//! Processes on their way to being traced: when each is ready, what became of it, and how often that was.
//!
//! In: processes that the [`Watcher`] found, or that executed another program; what a look at each says. Out: those that are
//! to be attached to now, and at the end the counts of all. A process is ready when all files that are to be probed are
//! mapped in it, or as many as at the look before: a loader that is at work maps more. One that maps none is looked at less
//! and less often, since it may execute another program yet. One that shares the memory of a traced process (vfork) runs
//! through its probes, and waits until it does not any more.
//!
//! Nobody is forgotten: who ends first is counted. Attaches to nothing, and has no clock.

use std::collections::BTreeMap;
use std::io;
use std::time::{Duration, Instant};

use crate::Origin;
use crate::processes::{Process, ProcessId};
use crate::watch::{Came, LOOK_INTERVAL, Watcher};

/// How often a process without a file to probe is looked at, at most.
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// The same where every process of the machine is one that may map a file to probe: a look at each costs some 50 µs.
const PAUSE_MAX_ANY: Duration = Duration::from_secs(8);

/// So many processes are remembered with when they were probed, before those are forgotten whose children from before are long known.
const REMEMBERED: usize = 4096;
/// In clock ticks of a hundredth of a second.
const REMEMBERED_FOR: u64 = 6000;

/// What a look at a process says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Sight {
    /// It has ended.
    Gone,
    /// It runs in the memory of a traced process.
    Shares,
    /// Of the files that are to be probed it maps so many, and these are all that it will at first if `is_settled`.
    Maps {
        /// How many.
        files: usize,
        /// It will not map more at first.
        is_settled: bool,
    },
}

/// A process that is to be attached to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Candidate {
    /// Which one.
    pub process: Process,
    /// Why it is of the run.
    pub origin: Origin,
    /// When it was seen to have executed another program than before.
    pub replaced: Option<Instant>,
    /// How often it was tried to attach to it.
    pub tries: u32,
    /// It waits for another recording, before its own code runs.
    pub joins: bool,
    /// It is attached to in several stops: it could not be held for that.
    pub in_steps: bool,
    /// Since when it may run unprobed although it was to be held: an attach to it, or to its parent, began and failed.
    pub loose: Option<Instant>,
}

/// Why it is not attached to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Declined {
    /// It has ended meanwhile.
    Gone,
    /// It executed another program meanwhile, or shares another's memory: it is looked at again.
    NotNow,
    /// By its reason code.
    Refused(String),
}

impl Candidate {
    /// One that comes for the first time.
    pub fn new(process: Process, origin: Origin) -> Candidate {
        Candidate { process, origin, replaced: None, tries: 0, joins: false, in_steps: false, loose: None }
    }
}

#[derive(Debug)]
struct Waiting {
    candidate: Candidate,
    look_at: Instant,
    pause: Duration,
    /// What the last look said.
    last: Option<Sight>,
}

/// What became of all processes.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Counts {
    /// Those that were attached to.
    pub traced: u64,
    /// Those that were not, by reason code.
    pub refused: BTreeMap<String, u64>,
    /// Those that ended before.
    pub gone: u64,
    /// There may have been more of these.
    pub is_gone_least: bool,
    /// Those that had nothing to probe.
    pub idle: u64,
}

/// All processes that a run may come to trace.
#[derive(Debug)]
pub struct Enrolment {
    watcher: Watcher,
    /// Files that are to be probed.
    wanted: usize,
    waiting: Vec<Waiting>,
    /// Until when processes ran unprobed, in clock ticks since boot, or that they still do: what they forked until then has no probes to
    /// wait at.
    unprobed: BTreeMap<i32, Option<u64>>,
    /// Some of these may have had children that nobody saw.
    is_gone_least: bool,
    traced: u64,
    refused: BTreeMap<String, u64>,
    gone: u64,
    idle: u64,
    /// Nobody comes to a probe before it is attached to, or that is counted: who has ended unseen has called nothing.
    is_exact: bool,
}

impl Enrolment {
    /// `wanted`: how many files are to be probed.
    pub fn new(watcher: Watcher, wanted: usize) -> Enrolment {
        let (waiting, unprobed, refused) = (Vec::new(), BTreeMap::new(), BTreeMap::new());
        Enrolment {
            watcher,
            wanted,
            waiting,
            unprobed,
            is_gone_least: false,
            traced: 0,
            refused,
            gone: 0,
            idle: 0,
            is_exact: false,
        }
    }

    /// From now on forked children wait at their first hit, and who executes a probed program is held.
    pub fn be_exact(&mut self) {
        self.is_exact = true;
    }

    /// A process that is attached to already: its children belong to it.
    pub fn adopt(&mut self, id: ProcessId) {
        self.traced += 1;
        self.watcher.adopt(id);
    }

    /// Selects a process that is stopped before it runs. What it was before, if it waited to be attached to.
    pub fn adopt_held(&mut self, id: ProcessId) -> Option<Candidate> {
        self.watcher.adopt(id);
        let at = self.waiting.iter().position(|waiting| waiting.candidate.process.id == id)?;
        Some(self.waiting.remove(at).candidate)
    }

    /// One has ended before it was looked at.
    pub fn is_lost(&mut self) {
        self.gone += 1;
    }

    /// All selected processes, attached to or not.
    pub fn selected(&self) -> impl Iterator<Item = ProcessId> + '_ {
        self.watcher.selected()
    }

    /// Forgets those that wait and have ended: where nobody is traced, the run ends with them.
    pub fn forget(&mut self, has_ended: &dyn Fn(ProcessId) -> bool) {
        for waiting in std::mem::take(&mut self.waiting) {
            match has_ended(waiting.candidate.process.id) {
                true => self.count_ended(&waiting),
                false => self.waiting.push(waiting),
            }
        }
    }

    /// A traced process executes another program since `now`.
    pub fn replaced(&mut self, process: Process, now: Instant) {
        self.watcher.adopt(process.id);
        self.wait(Candidate { replaced: Some(now), ..Candidate::new(process, Origin::Exec) }, now);
    }

    /// A process that was traced is to be again.
    pub fn again(&mut self, process: Process, now: Instant) {
        self.watcher.adopt(process.id);
        self.wait(Candidate::new(process, Origin::Again), now);
    }

    /// A process is known to have come.
    pub fn hurry(&mut self) {
        self.watcher.hurry();
    }

    /// Processes that are to be attached to now. `see` looks at one; `inherits` as in [`Watcher::look`].
    pub fn ready(
        &mut self,
        now: Instant,
        inherits: &dyn Fn(i32) -> bool,
        see: &dyn Fn(&Candidate) -> Sight,
    ) -> io::Result<Vec<Candidate>> {
        for came in self.watcher.look(now, inherits)? {
            let is_inheriting = inherits(came.process.id.pid);
            self.comes(came, is_inheriting, now);
        }
        let mut ready = Vec::new();
        for mut waiting in std::mem::take(&mut self.waiting) {
            if waiting.look_at > now {
                self.waiting.push(waiting);
                continue;
            }
            let sight = see(&waiting.candidate);
            match sight {
                Sight::Gone => self.count_ended(&waiting),
                Sight::Maps { files, is_settled }
                    if files > 0 && (files >= self.wanted || is_settled || waiting.last == Some(sight)) =>
                {
                    ready.push(waiting.candidate);
                }
                _ => {
                    waiting.look_again(sight, now);
                    self.waiting.push(waiting);
                }
            }
        }
        Ok(ready)
    }

    /// A process is seen for the first time. `is_inheriting`: it has its parent's probes.
    fn comes(&mut self, Came { process, origin }: Came, is_inheriting: bool, now: Instant) {
        let has_none = |until: &Option<u64>| until.is_none_or(|until| process.id.start <= until);
        let is_of_unprobed = match origin {
            Origin::ChildOf(parent) => self.unprobed.get(&parent).is_some_and(has_none),
            _ => false,
        };
        let loose = (is_of_unprobed && !is_inheriting).then_some(now);
        if loose.is_some() {
            self.runs_unprobed(process.id.pid);
        }
        self.wait(Candidate { loose, ..Candidate::new(process, origin) }, now);
    }

    fn runs_unprobed(&mut self, pid: i32) {
        self.unprobed.insert(pid, None);
        self.is_gone_least = true;
    }

    /// One that waited has ended, of which this was known.
    fn count_ended(&mut self, waiting: &Waiting) {
        match waiting.last {
            _ if waiting.candidate.loose.is_some() => self.gone += 1,
            Some(Sight::Maps { files: 0, .. }) => self.idle += 1,
            // What it called was counted in the process whose memory it ran in.
            Some(Sight::Shares) => {}
            _ => self.count_unseen(&waiting.candidate),
        }
    }

    fn count_unseen(&mut self, candidate: &Candidate) {
        *(if self.is_exact && candidate.loose.is_none() { &mut self.idle } else { &mut self.gone }) += 1;
    }

    /// It has its probes since `now`, in clock ticks since boot. `was_held`: it has not run without them before.
    pub fn attached(&mut self, candidate: &Candidate, now: u64, was_held: bool) {
        self.traced += 1;
        self.is_gone_least |= candidate.in_steps;
        let pid = candidate.process.id.pid;
        if !was_held || candidate.in_steps || self.unprobed.contains_key(&pid) {
            self.unprobed.insert(pid, Some(now));
        }
        if self.unprobed.len() > REMEMBERED {
            self.unprobed.retain(|_, until| until.is_none_or(|until| until + REMEMBERED_FOR > now));
        }
    }

    /// A candidate was not attached to.
    pub fn declined(&mut self, mut candidate: Candidate, why: Declined, now: Instant) {
        match why {
            Declined::Gone => self.count_unseen(&candidate),
            Declined::NotNow => {
                candidate.tries += 1;
                if candidate.loose.is_some() {
                    self.runs_unprobed(candidate.process.id.pid);
                }
                // Each try holds it for a moment: one that is always busy is left more and more time.
                let pause = LOOK_INTERVAL * (1 << candidate.tries.min(5));
                self.wait(candidate, now + pause);
            }
            Declined::Refused(code) => {
                if candidate.loose.is_some() {
                    self.runs_unprobed(candidate.process.id.pid);
                }
                *self.refused.entry(code).or_default() += 1;
            }
        }
    }

    /// Some process that is known may yet be traced.
    pub fn has_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Some process was tried, and is to be tried again, as far as is known: it was not looked at since.
    pub fn has_tried(&self) -> bool {
        self.waiting.iter().any(|waiting| waiting.candidate.tries > 0 && waiting.last.is_none())
    }

    /// Some process maps what is probed, and is attached to when it has mapped the rest.
    pub fn has_loading(&self) -> bool {
        self.waiting.iter().any(|waiting| matches!(waiting.last, Some(Sight::Maps { files: 1.., .. })))
    }

    /// What became of all of them; those that wait have had nothing to probe until now, or are like those that ended before.
    pub fn counts(&self) -> Counts {
        let is_loose = |waiting: &&Waiting| waiting.candidate.loose.is_some();
        let is_idle = |waiting: &&Waiting| !is_loose(waiting) && !matches!(waiting.last, Some(Sight::Shares));
        let count = |which: &dyn Fn(&&Waiting) -> bool| self.waiting.iter().filter(which).count() as u64;
        let (gone, idle) = (self.gone + count(&is_loose), self.idle + count(&is_idle));
        let refused = self.refused.clone();
        let is_gone_least = self.is_gone_least;
        Counts { traced: self.traced, refused, gone, is_gone_least, idle }
    }

    fn wait(&mut self, candidate: Candidate, look_at: Instant) {
        self.waiting.push(Waiting { candidate, look_at, pause: LOOK_INTERVAL, last: None });
    }
}

impl Waiting {
    fn look_again(&mut self, sight: Sight, now: Instant) {
        self.last = Some(sight);
        let is_loading = matches!(sight, Sight::Maps { files: 1.., .. });
        self.pause = if is_loading { LOOK_INTERVAL } else { self.pause };
        self.look_at = now + self.pause;
        let most = if self.candidate.origin == Origin::Any { PAUSE_MAX_ANY } else { PAUSE_MAX };
        self.pause = (2 * self.pause).min(most);
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::Selection;
    use crate::processes::Processes;

    const LOADING: fn(usize) -> Sight = |files| Sight::Maps { files, is_settled: false };
    const SETTLED: fn(usize) -> Sight = |files| Sight::Maps { files, is_settled: true };

    /// Nobody but those that a test names.
    fn enrolment() -> Enrolment {
        let processes = Processes::at(Path::new("/proc"));
        Enrolment::new(Watcher::new(processes, Selection::default(), 1), 2)
    }

    fn process(pid: i32) -> Process {
        let id = ProcessId { pid, start: 7 };
        Process { id, parent: 1, comm: "x".into(), has_program: true }
    }

    /// How many milliseconds pass until a process is ready that gives these sights, one a look, and the last for ever.
    #[track_caller]
    fn check(sights: &[Sight], want: Option<u64>) -> Enrolment {
        let (mut enrolment, start) = (enrolment(), Instant::now());
        enrolment.replaced(process(9), start);
        let looks = std::cell::Cell::new(0);
        let see = |_: &Candidate| {
            looks.set(looks.get() + 1);
            sights[(looks.get() - 1).min(sights.len() - 1)]
        };
        let ready = (0..10_000).find(|ms| {
            let now = start + Duration::from_millis(*ms);
            !enrolment.ready(now, &|_| false, &see).unwrap().is_empty()
        });
        assert_eq!(ready, want, "{sights:?}");
        enrolment
    }

    fn counted(enrolment: &Enrolment) -> (u64, u64, u64) {
        let counts = enrolment.counts();
        (counts.traced, counts.gone, counts.idle)
    }

    #[test]
    fn ready_is_who_maps_all_or_maps_no_more() {
        check(&[LOADING(2)], Some(0));
        check(&[SETTLED(1)], Some(0));
        check(&[LOADING(1), LOADING(1)], Some(20));
        check(&[LOADING(0), LOADING(1), LOADING(2)], Some(40));
        check(&[LOADING(0), LOADING(0), LOADING(0), LOADING(1), LOADING(1)], Some(160));
    }

    #[test]
    fn who_shares_memory_waits_and_who_maps_nothing_too() {
        assert_eq!(counted(&check(&[Sight::Shares], None)), (0, 0, 0));
        assert_eq!(counted(&check(&[SETTLED(0)], None)), (0, 0, 1));
        check(&[Sight::Shares, Sight::Shares, LOADING(2)], Some(60));
    }

    #[test]
    fn who_ends_first_is_counted() {
        assert_eq!(counted(&check(&[Sight::Gone], None)), (0, 1, 0));
        assert_eq!(counted(&check(&[LOADING(1), Sight::Gone], None)), (0, 1, 0));
        assert_eq!(counted(&check(&[LOADING(0), Sight::Gone], None)), (0, 0, 1));
        assert_eq!(counted(&check(&[Sight::Shares, Sight::Gone], None)), (0, 0, 0));
    }

    #[test]
    fn who_is_declined_is_counted_or_looked_at_again() {
        let (mut enrolment, now) = (enrolment(), Instant::now());
        let candidate = Candidate { replaced: Some(now), ..Candidate::new(process(9), Origin::Exec) };
        enrolment.declined(candidate.clone(), Declined::Gone, now);
        enrolment.declined(candidate.clone(), Declined::Refused("permission".into()), now);
        assert_eq!(enrolment.counts().refused, BTreeMap::from([("permission".into(), 1)]));
        assert_eq!(counted(&enrolment), (0, 1, 0));
        enrolment.declined(candidate.clone(), Declined::NotNow, now);
        assert!(enrolment.has_waiting());
        let later = now + 2 * LOOK_INTERVAL;
        let mut ready = |at| enrolment.ready(at, &|_| false, &|_| LOADING(2)).unwrap();
        assert_eq!(ready(now), []);
        assert_eq!(ready(later), [Candidate { tries: 1, ..candidate }]);
        enrolment.replaced(process(9), now);
        enrolment.forget(&|id| id.pid == 9);
        assert!(!enrolment.has_waiting());
    }

    #[test]
    fn who_has_run_unprobed_is_counted_whatever_becomes_of_it() {
        let loose = |sight: Option<Sight>| {
            let (mut enrolment, now) = (enrolment(), Instant::now());
            enrolment.be_exact();
            let candidate = Candidate { loose: Some(now), ..Candidate::new(process(9), Origin::ChildOf(1)) };
            enrolment.declined(candidate, Declined::NotNow, now);
            for sight in sight.into_iter().chain([Sight::Gone]) {
                enrolment.ready(now + 2 * PAUSE_MAX, &|_| false, &|_| sight).unwrap();
            }
            counted(&enrolment)
        };
        assert_eq!(loose(None), (0, 1, 0));
        for sight in [Sight::Shares, LOADING(0)] {
            assert_eq!(loose(Some(sight)), (0, 1, 0), "{sight:?}");
        }
        // Nor is it forgotten where the run ends first.
        let (mut enrolment, now) = (enrolment(), Instant::now());
        enrolment.be_exact();
        for (pid, loose) in [(8, Some(now)), (9, None)] {
            let candidate = Candidate { loose, ..Candidate::new(process(pid), Origin::Exec) };
            enrolment.declined(candidate, Declined::NotNow, now);
        }
        assert_eq!(counted(&enrolment), (0, 1, 1));
    }

    #[test]
    fn children_from_before_their_parent_was_probed_are_counted_and_those_from_after_are_not() {
        let gone = |attach: &dyn Fn(&mut Enrolment), start: u64, is_inheriting: bool| {
            let (mut enrolment, now) = (enrolment(), Instant::now());
            enrolment.be_exact();
            attach(&mut enrolment);
            let id = ProcessId { pid: 10, start };
            let came = Came { process: Process { id, ..process(10) }, origin: Origin::ChildOf(9) };
            enrolment.comes(came, is_inheriting, now);
            enrolment.forget(&|_| true);
            let counts = enrolment.counts();
            (counts.gone, counts.is_gone_least)
        };
        let candidate = || Candidate::new(process(9), Origin::Rule("name", "x".into()));
        let running = |enrolment: &mut Enrolment| enrolment.attached(&candidate(), 100, false);
        assert_eq!(gone(&running, 100, false), (1, true));
        assert_eq!(gone(&running, 101, false), (0, false), "it was forked with probes");
        assert_eq!(gone(&running, 100, true), (0, false), "it has them");
        let held = |enrolment: &mut Enrolment| enrolment.attached(&candidate(), 100, true);
        assert_eq!(gone(&held, 100, false), (0, false));
        let in_steps = |enrolment: &mut Enrolment| {
            enrolment.attached(&Candidate { in_steps: true, ..candidate() }, 100, true);
        };
        assert_eq!(gone(&in_steps, 100, false), (1, true));
        assert_eq!(gone(&in_steps, 101, false), (0, true));
        // One that was refused half-way has none from then on.
        let refused = |enrolment: &mut Enrolment| {
            let loose = Candidate { loose: Some(Instant::now()), ..candidate() };
            enrolment.declined(loose, Declined::Refused("busy".into()), Instant::now());
        };
        assert_eq!(gone(&refused, 500, false), (1, true));
    }
}
