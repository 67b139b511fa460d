//! Which processes are stopped before they run unprobed, when they execute or load a file that the script probes.
//!
//! In: the plan of the run, the selection, and the processes selected so far. Out: [`PermissionEvent`]s of processes in scope: a selected
//! process that executes another program, a process that a rule selects, and with `--follow` any descendant of a selected process. How the
//! kernel blocks them is [`weir_probe::fanotify`]'s part.
//!
//! Without CAP_SYS_ADMIN nothing is intercepted, and processes are found after they have started ([`weir_process::watch`]).

use std::collections::BTreeSet;
use std::os::fd::BorrowedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use weir_probe::fanotify::{self, Access, PermissionEvent, PermissionGroup};
use weir_probe::scan;
use weir_process::Selection;
use weir_process::processes::{Process, ProcessId, Processes};

use crate::notice::note;
use crate::shared::Shared;
use crate::subjects::Subjects;

/// How far up the process tree a selected ancestor is looked for.
const ANCESTORS_MAX: usize = 64;

/// Which processes are in scope. The thread that answers permission events asks it too.
#[derive(Clone)]
struct Scope {
    selection: Selection,
    processes: Processes,
    /// Attached to or not.
    selected: Arc<Mutex<BTreeSet<ProcessId>>>,
    own: i32,
}

impl Scope {
    fn selected(&self) -> MutexGuard<'_, BTreeSet<ProcessId>> {
        self.selected.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// `pid` is blocked in the call meanwhile.
    fn contains(&self, pid: i32, access: Access) -> bool {
        let by_rule = || match access {
            // Its new name is known only after execve(2).
            Access::Execute => !self.selection.rules.is_empty(),
            Access::Open => self.matches_rule(pid),
        };
        // A probed process opens the file for another purpose.
        let is_new = || access == Access::Execute || scan::probed(pid).is_ok_and(|probed| probed.is_none());
        let is_selected = || !self.selection.is_of_program() && self.is_selected(pid);
        pid != self.own && (is_selected() || self.descends(pid) || by_rule()) && is_new()
    }

    fn is_selected(&self, pid: i32) -> bool {
        self.processes.process(pid).is_some_and(|process| self.selected().contains(&process.id))
    }

    fn matches_rule(&self, pid: i32) -> bool {
        let process = self.processes.process(pid);
        process.is_some_and(|process| self.selection.rule_for(&process, &self.processes).is_some())
    }

    /// With `--follow`: one of its ancestors is selected.
    fn descends(&self, pid: i32) -> bool {
        if !self.selection.follow.is_on() {
            return false;
        }
        let parent = |process: &Process| self.processes.process(process.parent);
        let ancestors =
            std::iter::successors(self.processes.process(pid), parent).skip(1).take(ANCESTORS_MAX);
        let selected = self.selected();
        ancestors.take_while(|process| process.id.pid > 1).any(|process| selected.contains(&process.id))
    }
}

/// Interception of one run. Dropped, it lets all processes run on.
pub(crate) struct Intercept {
    group: PermissionGroup,
    scope: Scope,
}

impl Intercept {
    /// `None` if the kernel does not allow it, or no process can come into scope. `first`: the processes that are traced from the beginning,
    /// the command among them if `is_command`.
    pub(crate) fn start(shared: &Shared, first: &[i32], is_command: bool) -> Option<Intercept> {
        let Subjects { selection, processes } = &shared.subjects;
        let (selection, processes) = (selection.clone(), processes.clone());
        // With `-p PID` alone only that process can come into scope, by execve(2). Then other processes should not wait for weir when they open
        // a library.
        let are_many = is_command || selection.follow.is_on() || selection.is_standing();
        // Processes of a program are held by who asks for them to be recorded.
        if !selection.holds() || selection.is_of_program() {
            return None;
        }
        let files = shared.plan.binaries();
        let files: Vec<_> = files.into_iter().filter(|file| are_many || fanotify::is_program(file)).collect();
        if files.is_empty() {
            return None;
        }
        let first = first.iter().filter_map(|&pid| Some(processes.process(pid)?.id)).collect();
        let (selected, own) = (Arc::new(Mutex::new(first)), std::process::id() as i32);
        let scope = Scope { selection, processes, selected, own };
        let asked = scope.clone();
        let in_scope = Box::new(move |pid, access| asked.contains(pid, access));
        match PermissionGroup::mark(files.into_iter(), in_scope) {
            Ok(group) => Some(Intercept { group, scope }),
            Err(error) => {
                if shared.given.options.is_verbose() && are_many {
                    note!(
                        shared.notices,
                        Processes,
                        "new processes run unprobed until weir finds them, since fanotify(7) is not available: {error}; \
                         run weir with CAP_SYS_ADMIN (sudo) to have them probed from their start"
                    );
                }
                None
            }
        }
    }

    /// A descriptor that is readable when there are new events.
    pub(crate) fn has_events(&self) -> BorrowedFd<'_> {
        self.group.has_events()
    }

    pub(crate) fn events(&self) -> Vec<PermissionEvent> {
        self.group.events()
    }

    /// How many processes in scope were allowed to run unprobed.
    pub(crate) fn not_held(&self) -> u64 {
        self.group.not_held()
    }

    pub(crate) fn set_selected(&self, selected: BTreeSet<ProcessId>) {
        *self.scope.selected() = selected;
    }

    pub(crate) fn is_selected(&self, pid: i32) -> bool {
        self.scope.is_selected(pid)
    }

    pub(crate) fn descends(&self, pid: i32) -> bool {
        self.scope.descends(pid)
    }
}
