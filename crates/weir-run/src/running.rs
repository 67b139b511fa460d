//! A run while it lasts, as its caller sees it.

use std::fmt;
use std::os::fd::BorrowedFd;
use std::time::Duration;

use anyhow::anyhow;
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use weir_event::Schema;
use weir_ir::{Asked, Trigger};
use weir_report::Entry;

use crate::course::Course;
use crate::failure::Failure;
use crate::kernel;
use crate::prepare::Run;
use crate::processes;
use crate::start::Start;

/// What a run came to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Ended {
    /// What a command line ends with: what the script's `exit(N)` asks for; else what the command ended with if that was what ended the run, or 128 and
    /// the number of its signal; 3 where a trace could not be written, or a process not be put back; else 0.
    pub code: u8,
}

/// A run whose probes are in. Dropped, it takes them out, and prints nothing.
pub struct Running {
    course: Box<dyn Course>,
    /// Whether a descriptor says that there is something to do, where that is known.
    is_woken: Option<bool>,
    /// Once it has been ended; none where that failed.
    ended: Option<Option<Ended>>,
}

impl Run {
    /// The script has probes that run when the caller is sent SIGUSR1, which it is to block.
    pub fn awaits_signal(&self) -> bool {
        self.shared.plan.compiled.triggers.contains(&Trigger::Asked { by: Asked::Signal })
    }

    /// Attaches to the processes, or starts the command.
    pub fn start(self, start: Start) -> Result<Running, Failure> {
        let course: Box<dyn Course> = match self.shared.given.kernel {
            Some(features) => Box::new(kernel::start(self.shared, self.first, features, start)?),
            None => Box::new(processes::start(self, start)?),
        };
        Ok(Running { course, is_woken: Some(true), ended: None })
    }
}

impl Running {
    /// Does what there is to do, and waits for nothing but processes that are attached to; true once the run is over: exit() was called, the processes
    /// have ended, or [`Running::stop`] was.
    pub fn poll(&mut self) -> Result<bool, Failure> {
        if self.ended.is_some() {
            return Ok(true);
        }
        let is_woken = match self.is_woken.take() {
            Some(is_woken) => is_woken,
            None => ready(&self.course.watched(), PollTimeout::ZERO)?.contains(&true),
        };
        self.course.poll(is_woken)
    }

    /// Waits until there is something to do, or one of `others` is readable: whether one is. A program that waits in a loop of its own asks
    /// for [`Running::watched`] and [`Running::until`] instead, before each time.
    pub fn wait(&mut self, others: &[BorrowedFd<'_>]) -> Result<bool, Failure> {
        let mut watched = others.to_vec();
        watched.extend(self.course.watched());
        // Rounded up, so that a wait of less than a millisecond does not become a busy loop.
        let wait = self.course.until().saturating_add(Duration::from_micros(999));
        let ready = ready(&watched, PollTimeout::try_from(wait).unwrap_or(PollTimeout::MAX))?;
        self.is_woken = Some(self.is_woken == Some(true) || ready.contains(&true));
        Ok(ready[..others.len()].contains(&true))
    }

    /// Descriptors that are readable when there is something to do.
    pub fn watched(&self) -> Vec<BorrowedFd<'_>> {
        self.course.watched()
    }

    /// How long until there is something to do that none of them says.
    pub fn until(&self) -> Duration {
        self.course.until()
    }

    /// Requests for the end: the next [`Running::poll`] says that the run is over.
    pub fn stop(&mut self) {
        self.is_woken = Some(true);
        self.course.stop();
    }

    /// The caller was sent SIGUSR1, at which `self:signal:SIGUSR1` runs.
    pub fn signalled(&mut self) -> Result<(), Failure> {
        self.is_woken = Some(true);
        self.course.signalled()
    }

    /// Has a flight recorder write what is in its rings, at the next [`Running::poll`].
    pub fn snapshot(&mut self) {
        self.course.snapshot();
    }

    /// How the values of maps lie in bytes, by the maps' names.
    pub fn schema(&self) -> &Schema {
        self.course.schema()
    }

    /// The entries of a map of the script now (`@`, `@name`): bytes, as [`Running::schema`] says. None where the script has no such map.
    pub fn entries(&self, map: &str) -> Option<Vec<Entry>> {
        self.course.entries(map)
    }

    /// Takes the probes out, runs END, and prints what is left. Maps can be read after it, too; what it came to is said again.
    pub fn end(&mut self) -> Result<Ended, Failure> {
        if let Some(ended) = self.ended {
            return ended.ok_or_else(|| Failure::Refused(anyhow!("the run has ended, by a failure")));
        }
        self.ended = Some(None);
        let ended = Ended { code: self.course.end()? };
        self.ended = Some(Some(ended));
        Ok(ended)
    }
}

/// Which of the descriptors are readable, after waiting so long for one.
fn ready(watched: &[BorrowedFd<'_>], timeout: PollTimeout) -> Result<Vec<bool>, Failure> {
    let mut all: Vec<PollFd<'_>> = watched.iter().map(|fd| PollFd::new(*fd, PollFlags::POLLIN)).collect();
    match poll(&mut all, timeout) {
        Ok(_) => Ok(all.iter().map(|fd| fd.any().unwrap_or(false)).collect()),
        Err(Errno::EINTR) => Ok(vec![false; watched.len()]),
        Err(errno) => Err(Failure::Machine(anyhow!(errno).context("poll"))),
    }
}

impl fmt::Debug for Running {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Running").finish_non_exhaustive()
    }
}
