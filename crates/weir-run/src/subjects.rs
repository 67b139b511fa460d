//! Which processes a run is about, on this machine.

use anyhow::anyhow;
use nix::unistd::geteuid;
use weir_probe::{fanotify, target};
use weir_process::processes::Processes;
use weir_process::{Machine, Selection};
use weir_sessions::program::OfProgram;

use crate::failure::Failure;
use crate::notice::{Notices, note};
use crate::options::Options;
use crate::plan::Plan;

/// Processes that are attached to though none is named.
const UNASKED_MAX: usize = 32;

/// Processes of a name in whose files a script is looked for at first.
const WORLDS_MAX: usize = 8;

/// Which processes a run is about.
pub(crate) struct Subjects {
    pub(crate) selection: Selection,
    pub(crate) processes: Processes,
}

impl Subjects {
    /// What the command line names, on this machine.
    pub(crate) fn find(options: &Options) -> Result<Subjects, Failure> {
        let (given, machine) = (options.given(), Machine::here(options.home.clone()));
        let selection = Selection::find(&given, &machine);
        let selection = selection.map_err(|errors| Failure::Refused(anyhow!(errors.join("\nweir: "))))?;
        let processes = Processes::at(&machine.proc);
        // Other users may trace what the kernel and policies allow them.
        let is_of_one = !given.any_user && geteuid().is_root();
        let selection = if is_of_one { selection.of_one_user(&processes) } else { selection };
        let selection = match options.of_program.clone() {
            Some(OfProgram { program, tracked, .. }) => selection.of_program(program, tracked),
            None => selection,
        };
        Ok(Subjects { selection, processes })
    }

    /// All processes that map what is probed, since none is named: as root, root's own, unless those of every user are wanted. Refused
    /// where they are many and that is not asked for: each is stopped for a moment. Nobody waits for weir to load a library.
    pub(crate) fn of_any(
        self,
        options: &Options,
        plan: &Plan,
        notices: &Notices,
    ) -> Result<Subjects, Failure> {
        let user = (geteuid().is_root() && !options.any_user).then_some(0);
        let count = self.count_mapping(plan, user);
        if count > UNASKED_MAX && !options.all_processes {
            let files: Vec<String> =
                plan.binaries().iter().map(|binary| binary.path().display().to_string()).collect();
            return Err(Failure::Refused(anyhow!(
                "no process is named, and {count} map {}: each would be stopped for a moment to be probed. Name those that are meant (-c \
                 COMMAND, -p PID or NAME, --cgroup, --unit, --container), or add --all-processes",
                files.join(", ")
            )));
        }
        if !options.is_quiet() {
            let whose = if user.is_some() { " of root (--any-user: of every user)" } else { "" };
            note!(
                notices,
                Processes,
                "no process is named: those{whose} are traced that map what the script probes, {count} now, and later ones; Ctrl-C ends the run"
            );
        }
        let holds = plan.binaries().into_iter().all(fanotify::is_program);
        Ok(Subjects { selection: self.selection.of_any(user, holds), processes: self.processes })
    }

    /// Processes, of this user, that map a file of the plan.
    fn count_mapping(&self, plan: &Plan, user: Option<u32>) -> usize {
        let files = plan.file_identities();
        let is_of_user = |pid: i32| user.is_none_or(|user| self.processes.user(pid) == Some(user));
        let maps_some = |pid: i32| {
            target::read_mappings(pid)
                .is_ok_and(|mappings| mappings.iter().any(|mapping| files.contains(&mapping.identity())))
        };
        let own = std::process::id() as i32;
        let pids = self.processes.pids().unwrap_or_default().into_iter();
        pids.filter(|&pid| pid != own && pid != 1 && is_of_user(pid) && maps_some(pid)).count()
    }

    pub(crate) fn processes(&self) -> &Processes {
        &self.processes
    }

    /// Processes that a rule selects now, and that may be looked at.
    pub(crate) fn selected(&self) -> Vec<i32> {
        if !self.selection.is_standing() {
            return Vec::new();
        }
        let own = std::process::id() as i32;
        let is_readable = |pid: i32| target::check(pid).is_ok() && target::read_mappings(pid).is_ok();
        let pids = self.processes.pids().unwrap_or_default().into_iter();
        pids.filter(|&pid| pid != own && self.selects(pid) && is_readable(pid)).take(WORLDS_MAX).collect()
    }

    fn selects(&self, pid: i32) -> bool {
        let process = self.processes.process(pid).filter(|process| process.has_program);
        process.is_some_and(|process| self.selection.rule_for(&process, &self.processes).is_some())
    }
}
