//! Which processes a run is about, on this machine.

use anyhow::anyhow;
use nix::unistd::geteuid;
use weir_probe::target;
use weir_process::processes::Processes;
use weir_process::{Machine, Selection};

use crate::failure::Failure;
use crate::notice::{Notices, note};
use crate::options::Options;

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
        Ok(Subjects { selection, processes })
    }

    /// All processes that map what is probed, since none is named: as root, root's own, unless those of every user are wanted.
    pub(crate) fn of_any(self, options: &Options, notices: &Notices) -> Subjects {
        let user = (geteuid().is_root() && !options.any_user).then_some(0);
        if !options.is_quiet() {
            let whose = if user.is_some() { " of root (--any-user: of every user)" } else { "" };
            note!(
                notices,
                Processes,
                "no process is named: those{whose} are traced that map what the script probes, now and later; Ctrl-C ends the run"
            );
        }
        Subjects { selection: self.selection.of_any(user), processes: self.processes }
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
