//! What all parts of a run share, from when it is ready to its end.

use std::cell::RefCell;
use std::io;
use std::rc::Rc;

use nix::sys::signal::SigSet;
use weir_codegen::Compiled;
use weir_ir::Trigger;
use weir_policy::guard::Guard;
use weir_process::groups::Groups;

use crate::failure::Failure;
use crate::notice::Notices;
use crate::plan::{Given, Plan};
use crate::subjects::Subjects;
use crate::supervisor::Before;

pub(crate) struct Shared {
    pub(crate) given: Given,
    /// Of the first process.
    pub(crate) plan: Rc<Plan>,
    pub(crate) subjects: Subjects,
    pub(crate) guard: Guard,
    /// Where programs ask for them.
    pub(crate) groups: Option<RefCell<Groups>>,
    /// Weirs whose probes are undone although they live: that whose processes are taken over, and this one where it could not attach and has left
    /// something.
    pub(crate) after: RefCell<Vec<Before>>,
    /// Signals that are blocked in the command.
    pub(crate) mask: SigSet,
    pub(crate) notices: Notices,
}

impl Shared {
    /// After BEGIN there is no event to wait for, and no process whose end would be one.
    pub(crate) fn is_over_after_begin(&self) -> bool {
        let options = &self.given.options;
        let names_nobody = !options.names_processes() && options.command.is_none();
        let waits = |trigger: &Trigger| !matches!(trigger, Trigger::Begin | Trigger::End);
        names_nobody && !self.plan.compiled.triggers.iter().any(waits)
    }
}

/// What `weir ps` shows of a run, and another weir that comes to the same process: the names of its programs, after the name of its
/// session.
pub(crate) fn label(compiled: &Compiled, session: Option<&str>) -> String {
    let names: Vec<&str> = compiled.object.programs.iter().map(|program| program.name.as_str()).collect();
    session.map_or_else(String::new, |name| format!("session {name}: ")) + &names.join(" ")
}

/// A run ends when the reader of its output goes away.
pub(crate) fn output_failed(error: io::Error) -> Failure {
    if error.kind() == io::ErrorKind::BrokenPipe {
        return Failure::ReaderGone;
    }
    Failure::Machine(anyhow::Error::new(error).context("writing output"))
}
