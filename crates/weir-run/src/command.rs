//! The command that a run starts: held before it runs, ended with the run.

use nix::sys::signal::Signal;
use weir_probe::launch::{Ended, Waiting};
use weir_probe::{Launched, Target};

use crate::failure::Failure;
use crate::notice::{Notice, note};
use crate::options::Options;
use crate::shared::Shared;

impl Shared {
    /// The command, which has not executed its program yet.
    pub(super) fn prepare_command(&self, words: &[String]) -> Result<(EndOnFailure, Waiting), Failure> {
        let search_path = std::env::var_os("PATH");
        let (launched, waiting) = Launched::prepare(words, search_path.as_deref(), self.mask)?;
        Ok((EndOnFailure { pid: launched.pid(), launched: Some(launched), has_begun: false }, waiting))
    }

    /// Has it execute its program, and holds it before anything of that has run.
    pub(super) fn execute_command(
        &self,
        guard: &mut EndOnFailure,
        waiting: Waiting,
    ) -> Result<Target, Failure> {
        // SANITY: it is taken when the run ends.
        let launched = guard.launched.as_mut().expect("a command that waits has not ended");
        let exec = launched.exec(waiting)?;
        if let Some(left_out) = exec.left_out().filter(|_| !self.given.options.is_quiet()) {
            note!(self.notices, Command, "{left_out}");
        }
        // The kernel probes files that are not mapped yet, and sees what the loader does.
        let wanted = self.given.kernel.is_none().then(|| self.plan.file_identities());
        let mut target = exec.into_target(wanted.as_deref())?;
        // Ended while it is held: let go first, it would run.
        let allowance = self.admit(target.pid(), &self.plan).inspect_err(|_| guard.end())?;
        target.allow(allowance);
        Ok(target)
    }

    /// Reports how the command has ended, if it has by itself; the exit code that passes that on.
    pub(super) fn report_command(&self, ended: Option<Ended>) -> Option<u8> {
        if let Some(ended) = ended.filter(|ended| is_worth_saying(*ended, &self.given.options)) {
            self.notices.send(Notice::CommandEnded(ended));
        }
        ended.map(code_of)
    }
}

/// Asks the command to end; how it has ended, if it has by itself.
pub(super) fn end_command(launched: Option<Launched>) -> Option<Ended> {
    let mut launched = launched?;
    let ended = launched.try_wait();
    if ended.is_none() {
        launched.terminate();
    }
    ended
}

/// Ctrl-C goes to both.
fn is_worth_saying(ended: Ended, options: &Options) -> bool {
    match ended {
        Ended::Signal(signal) => signal != Signal::SIGINT && !options.is_quiet(),
        Ended::Code(code) => code != 0 && !options.is_quiet() || options.is_verbose(),
    }
}

/// The exit code that passes on how the command has ended, as a shell has it.
fn code_of(ended: Ended) -> u8 {
    match ended {
        Ended::Code(code) => code as u8,
        Ended::Signal(signal) => 128 + signal as u8,
    }
}

/// A command, which does not run on where its run fails: nothing of it runs if it cannot be traced from the beginning, and later it
/// is asked to end, as at the end of any run.
pub(super) struct EndOnFailure {
    pid: i32,
    pub(super) launched: Option<Launched>,
    has_begun: bool,
}

impl EndOnFailure {
    pub(super) fn pid(&self) -> i32 {
        self.pid
    }

    /// From now on it runs.
    pub(super) fn begins(&mut self) {
        self.has_begun = true;
    }

    pub(super) fn end(&mut self) {
        match &mut self.launched {
            Some(launched) if self.has_begun => launched.terminate(),
            Some(launched) => launched.kill(),
            None => {}
        }
    }
}

impl Drop for EndOnFailure {
    fn drop(&mut self) {
        self.end();
    }
}
