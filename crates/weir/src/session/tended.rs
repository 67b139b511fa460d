//! A recording that the daemon of sessions tends: it begins at its word, says how far it is, and ends with it.
//!
//! In: standard input, a pipe whose other end only the daemon has: a byte says that the recording may begin, its end that it is not
//! wanted. Out: lines on standard output (`held`: everything is ready, no process was touched; `recording`: probes are in), and a file that
//! says how much was recorded so far, replaced as a whole.
//!
//! Guaranteed: where the daemon ends, however it does, so does the recording, as at Ctrl-C. Until the daemon's word that is told by the end
//! of its pipe, then by a signal, which is blocked by then, so that none is lost in between.

use std::io::{self, Read as _};
use std::os::fd::AsFd as _;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context as _, anyhow};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::prctl;
use nix::sys::signal::{SigSet, Signal};

use crate::failure::Failure;
use crate::print::{print_on, tell};
use crate::sessions::counts::Counts;
use crate::sessions::{limits, place};

pub(super) struct Tended {
    file: PathBuf,
    written: Option<Instant>,
    /// It could not be written, which was told.
    has_failed: bool,
}

impl Tended {
    /// Waits for the daemon's word.
    pub(super) fn hold(file: &Path) -> Result<Tended, Failure> {
        let unwanted =
            || Failure::Refused(anyhow!("the recording was not begun: its daemon did not want it any more"));
        print_on("held\n")?;
        let mut word = [0];
        match io::stdin().lock().read(&mut word) {
            Ok(1) => {}
            _ => return Err(unwanted()),
        }
        let failed =
            |errno: nix::errno::Errno, what: &str| Failure::Machine(anyhow!(errno).context(what.to_owned()));
        let blocked = SigSet::from_iter([Signal::SIGTERM]).thread_block();
        blocked.map_err(|errno| failed(errno, "blocking signals"))?;
        let asked = prctl::set_pdeathsig(Signal::SIGTERM);
        asked.map_err(|errno| failed(errno, "asking for a signal at the end of the daemon"))?;
        // It may have ended before.
        let stdin = io::stdin();
        let mut ends = [PollFd::new(stdin.as_fd(), PollFlags::empty())];
        let looked = poll(&mut ends, PollTimeout::ZERO).context("poll").map_err(Failure::Machine)?;
        match looked {
            0 => Ok(Tended { file: file.to_owned(), written: None, has_failed: false }),
            _ => Err(unwanted()),
        }
    }

    /// Says that events are recorded from now on.
    pub(super) fn recording(&self) {
        // A daemon that is gone ends the recording in another way.
        let _ = print_on("recording\n");
    }

    pub(super) fn is_due(&self) -> bool {
        self.written.is_none_or(|at| at.elapsed() >= limits::COUNTS_INTERVAL)
    }

    pub(super) fn write(&mut self, counts: &Counts) {
        self.written = Some(Instant::now());
        if let Err(error) = place::replace(&self.file, &counts.object().to_string())
            && !self.has_failed
        {
            self.has_failed = true;
            tell!(
                "weir: {}: {error}; `weir record status` will not know what is recorded",
                self.file.display()
            );
        }
    }
}
