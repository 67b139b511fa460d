//! Who enters a run is held until it is probed: processes that execute or load what the script probes, where the kernel lets weir hold them.
//!
//! In: the plan, who is selected, who is known to belong to the run. Out: [`Arrival`]s that are meant. The gate is
//! [`weir_probe::gate`]'s; here is whom it is for: who is traced and executes another program, whoever a rule names, and with `--follow` all
//! that descend from a process that is traced.
//!
//! Without CAP_SYS_ADMIN there is no gate; processes are noticed when they have started ([`crate::select::watch`]).

use std::collections::BTreeSet;
use std::os::fd::BorrowedFd;
use std::sync::{Arc, Mutex, MutexGuard};

use weir_probe::gate::{self, Arrival, Gate, Way};
use weir_probe::scan;

use crate::print::tell;
use crate::select::Selection;
use crate::select::processes::{Process, ProcessId, Processes};
use crate::session::Session;
use crate::session::roll::Subjects;

/// Generations between a process and an ancestor that is traced.
const GENERATIONS_MAX: usize = 64;

/// Whom a process is held for.
#[derive(Clone)]
struct Invited {
    selection: Selection,
    processes: Processes,
    /// Processes that are selected, whether they are attached to or not.
    family: Arc<Mutex<BTreeSet<ProcessId>>>,
    own: i32,
}

impl Invited {
    fn family(&self) -> MutexGuard<'_, BTreeSet<ProcessId>> {
        self.family.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Asked while the kernel holds `pid`. One that executes is called by its old name still.
    fn is_meant(&self, pid: i32, way: Way) -> bool {
        let by_rule = || match way {
            Way::Executes => !self.selection.rules.is_empty(),
            Way::Opens => self.is_named(pid),
        };
        // What is probed opens the file for other reasons.
        let is_new = || way == Way::Executes || scan::probed(pid).is_ok_and(|probed| probed.is_none());
        pid != self.own && (self.is_known(pid) || self.descends(pid) || by_rule()) && is_new()
    }

    fn is_known(&self, pid: i32) -> bool {
        self.processes.process(pid).is_some_and(|process| self.family().contains(&process.id))
    }

    fn is_named(&self, pid: i32) -> bool {
        let process = self.processes.process(pid);
        process.is_some_and(|process| {
            self.selection.rules.iter().any(|rule| rule.selects(&process, &self.processes))
        })
    }

    /// With `--follow`, a process that some traced process has started, or one of those.
    fn descends(&self, pid: i32) -> bool {
        if !self.selection.follow {
            return false;
        }
        let parent = |process: &Process| self.processes.process(process.parent);
        let line = std::iter::successors(self.processes.process(pid), parent).skip(1).take(GENERATIONS_MAX);
        let family = self.family();
        line.take_while(|process| process.id.pid > 1).any(|process| family.contains(&process.id))
    }
}

/// The gate of a run.
pub(crate) struct Entrance {
    gate: Gate,
    invited: Invited,
}

impl Entrance {
    /// The gate before what `session`'s script probes, if there can be one and somebody may come. `first`: processes that are traced
    /// from the beginning, one of them the command if `is_command`.
    pub(crate) fn open(
        session: &Session,
        subjects: &Subjects,
        first: impl Iterator<Item = i32>,
        is_command: bool,
    ) -> Option<Entrance> {
        let selection = subjects.selection.clone();
        // Without these, somebody who is given by number may execute another program. No more than that is to wait for weir.
        let are_many = is_command || selection.follow || selection.is_standing();
        let files = session.plan.binaries();
        let files: Vec<_> = files.into_iter().filter(|file| are_many || gate::is_program(file)).collect();
        if files.is_empty() {
            return None;
        }
        let processes = subjects.processes().clone();
        let first = first.filter_map(|pid| Some(processes.process(pid)?.id)).collect();
        let invited = Invited {
            selection,
            processes,
            family: Arc::new(Mutex::new(first)),
            own: std::process::id() as i32,
        };
        let of_gate = invited.clone();
        match Gate::before(files.into_iter(), Box::new(move |pid, way| of_gate.is_meant(pid, way))) {
            Ok(gate) => Some(Entrance { gate, invited }),
            Err(error) => {
                if session.given.args.verbose && are_many {
                    tell!(
                        "weir: processes are probed when they have started, since the kernel lets weir hold none: {error}"
                    );
                }
                None
            }
        }
    }

    /// A descriptor that is readable when somebody has come.
    pub(crate) fn bell(&self) -> BorrowedFd<'_> {
        self.gate.bell()
    }

    pub(crate) fn arrivals(&self) -> Vec<Arrival> {
        self.gate.arrivals()
    }

    /// How many were meant, and ran unprobed since weir was not there in time.
    pub(crate) fn late(&self) -> u64 {
        self.gate.late()
    }

    /// These are selected now.
    pub(crate) fn know(&self, selected: BTreeSet<ProcessId>) {
        *self.invited.family() = selected;
    }

    pub(crate) fn is_known(&self, pid: i32) -> bool {
        self.invited.is_known(pid)
    }

    pub(crate) fn is_descendant(&self, pid: i32) -> bool {
        self.invited.descends(pid)
    }
}
