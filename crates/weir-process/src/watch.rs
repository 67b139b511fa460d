//! Notices processes that a selection means, as they come.
//!
//! In: `/proc`, the rules of a [`Selection`], the moment. Out: the processes that are to be traced, each once, with how it
//! came to be. A process is new if its number was not there at the last look, or belongs to a process that started at another
//! time. One that is not selected is asked about again, less and less often: it may execute another program, or be moved
//! to another cgroup.
//!
//! Costs little while nothing happens: the numbers of processes are listed only if the kernel has given out a new one, and
//! once a second. What comes and goes between two looks is not seen; the caller is told of nothing that it could not
//! find. Knows nothing of tracing, and has no clock.

use std::collections::BTreeMap;
use std::io;
use std::time::{Duration, Instant};

use crate::processes::{Process, ProcessId, Processes};
use crate::{Origin, Selection};

/// How long a new process may go unnoticed.
pub const LOOK_INTERVAL: Duration = Duration::from_millis(20);

/// How often processes are listed though no new number was given out here: some come from other pid namespaces.
const LIST_INTERVAL: Duration = Duration::from_secs(1);

/// How often a process that is not selected is asked about again, at most.
const ASK_INTERVAL_MAX: Duration = Duration::from_secs(2);

/// A process that is to be traced.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Came {
    /// As it was found.
    pub process: Process,
    /// Why it is of the run.
    pub origin: Origin,
}

#[derive(Clone, Copy, Debug)]
struct Known {
    start: u64,
    is_selected: bool,
    /// When to ask again, and how long to wait then.
    ask_at: Option<Instant>,
    pause: Duration,
}

impl Known {
    /// It was asked about once.
    fn is_new(&self) -> bool {
        self.pause == LOOK_INTERVAL
    }
}

/// What is known of the processes of this machine.
#[derive(Debug)]
pub struct Watcher {
    processes: Processes,
    selection: Selection,
    /// The process that watches, which is not selected.
    own: i32,
    known: BTreeMap<i32, Known>,
    looked: Option<Instant>,
    listed: Option<Instant>,
    last_pid: Option<u64>,
}

impl Watcher {
    /// `own`: the number of weir's own process, which is never of a run.
    pub fn new(processes: Processes, selection: Selection, own: i32) -> Watcher {
        let known = BTreeMap::new();
        Watcher { processes, selection, own, known, looked: None, listed: None, last_pid: None }
    }

    /// Takes a process as selected that came in another way: it was given by its number, or started.
    pub fn adopt(&mut self, id: ProcessId) {
        let known = Known { start: id.start, is_selected: true, ask_at: None, pause: Duration::ZERO };
        self.known.insert(id.pid, known);
    }

    /// The next look is not put off, and lists processes anew: one is known to have come. (The kernel may have given out its number before the last
    /// look, and shown it after that.)
    pub fn hurry(&mut self) {
        (self.looked, self.listed) = (None, None);
    }

    /// Processes that are selected.
    pub fn selected(&self) -> impl Iterator<Item = ProcessId> + '_ {
        let selected = self.known.iter().filter(|(_, known)| known.is_selected);
        selected.map(|(&pid, known)| ProcessId { pid, start: known.start })
    }

    /// Processes that are selected and were not at the last look; none where that was a moment ago. `inherits`: whether a
    /// process has a part of its memory from a traced one, asked where its parents do not say so.
    pub fn look(&mut self, now: Instant, inherits: &dyn Fn(i32) -> bool) -> io::Result<Vec<Came>> {
        if self.looked.is_some_and(|looked| now.duration_since(looked) < LOOK_INTERVAL) {
            return Ok(Vec::new());
        }
        self.looked = Some(now);
        if self.selection.rules.is_empty() && !self.selection.follow.is_on() {
            return Ok(Vec::new());
        }
        let mut pids: Vec<i32> = self.due(now);
        if self.has_new(now) {
            pids.extend(self.list()?);
        }
        let asked: Vec<Process> = pids.into_iter().filter_map(|pid| self.ask(pid, now)).collect();
        Ok(self.choose(asked, inherits))
    }

    /// Those that are asked about again.
    fn due(&self, now: Instant) -> Vec<i32> {
        let is_due = |known: &Known| known.ask_at.is_some_and(|at| at <= now);
        self.known.iter().filter(|(_, known)| is_due(known)).map(|(pid, _)| *pid).collect()
    }

    fn has_new(&mut self, now: Instant) -> bool {
        let last = self.processes.last_pid();
        let is_due = self.listed.is_none_or(|listed| now.duration_since(listed) >= LIST_INTERVAL);
        let has_new = is_due || last.is_none() || last != self.last_pid;
        self.last_pid = last;
        if has_new {
            self.listed = Some(now);
        }
        has_new
    }

    /// The numbers that were not there before; those that are no more are forgotten.
    fn list(&mut self) -> io::Result<Vec<i32>> {
        let pids = self.processes.pids()?;
        self.known.retain(|pid, _| pids.binary_search(pid).is_ok());
        Ok(pids.into_iter().filter(|pid| *pid != self.own && !self.known.contains_key(pid)).collect())
    }

    /// What there is to know of a process that is new or not selected; none if there is nothing to decide.
    fn ask(&mut self, pid: i32, now: Instant) -> Option<Process> {
        let Some(process) = self.processes.process(pid) else {
            self.known.remove(&pid);
            return None;
        };
        let start = process.id.start;
        let known = self.known.get(&pid).filter(|known| known.start == start);
        let pause = known.map_or(LOOK_INTERVAL, |known| (2 * known.pause).min(ASK_INTERVAL_MAX));
        // A thread of the kernel stays one, and a zombie goes.
        let ask_at = process.has_program.then(|| now + pause);
        self.known.insert(pid, Known { start, is_selected: false, ask_at, pause });
        process.has_program.then_some(process)
    }

    /// Those that a rule selects, or that a selected process has started; in any order, so until no more are found.
    fn choose(&mut self, mut asked: Vec<Process>, inherits: &dyn Fn(i32) -> bool) -> Vec<Came> {
        let mut came = self.take(&mut asked, &|watcher, process| watcher.origin(process));
        if !self.selection.follow.is_on() {
            return came;
        }
        // The parent of some has ended, and another process has taken its place. One that was there before was no orphan.
        let is_new =
            |watcher: &Watcher, pid: i32| watcher.known.get(&pid).is_some_and(|known| known.is_new());
        let orphan = |watcher: &Watcher, process: &Process| {
            let pid = process.id.pid;
            (is_new(watcher, pid) && inherits(pid)).then_some(Origin::Orphan)
        };
        let orphans = self.take(&mut asked, &orphan);
        if !orphans.is_empty() {
            came.extend(orphans);
            came.extend(self.take(&mut asked, &|watcher, process| watcher.origin(process)));
        }
        came
    }

    fn take(
        &mut self,
        asked: &mut Vec<Process>,
        origin: &dyn Fn(&Watcher, &Process) -> Option<Origin>,
    ) -> Vec<Came> {
        let mut came = Vec::new();
        loop {
            let before = asked.len();
            asked.retain(|process| {
                let Some(origin) = origin(self, process) else { return true };
                self.adopt(process.id);
                came.push(Came { process: process.clone(), origin });
                false
            });
            if asked.len() == before {
                return came;
            }
        }
    }

    fn origin(&self, process: &Process) -> Option<Origin> {
        if let Some(rule) = self.selection.rule_for(process, &self.processes) {
            return Some(rule.origin());
        }
        let is_target = |pid: i32| self.known.get(&pid).is_some_and(|known| known.is_selected);
        (self.selection.follow.is_on() && is_target(process.parent))
            .then_some(Origin::ChildOf(process.parent))
    }
}
