//! Driving a capture: it steps while there are packets, waits while there are none, and ends at a signal.
//!
//! At least once a second, and before each wait, what is in memory is written: a capture that is killed has lost no more.

use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::time::Duration;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signalfd::SignalFd;
use weir_capture::{Capture, Error, Step};

use crate::capture::moment;
use crate::capture::report::Reporter;
use crate::failure::Failure;
use crate::signals;

/// SIGINT, SIGTERM and SIGHUP, which are read from a descriptor.
pub(super) struct Signals(SignalFd);

impl Signals {
    /// From here on they end nothing by themselves.
    pub(super) fn block() -> Result<Signals, Failure> {
        signals::blocked([]).map(Signals)
    }

    /// Readable while there is one.
    pub(super) fn descriptor(&self) -> Option<OwnedFd> {
        self.0.as_fd().try_clone_to_owned().ok()
    }

    /// How many there were since this was asked last.
    fn taken(&self) -> usize {
        let mut taken = 0;
        while let Ok(Some(_)) = self.0.read_signal() {
            taken += 1;
        }
        taken
    }
}

/// How often what is in memory is written, and counts are shown.
const PERIOD: Duration = Duration::from_secs(1);

/// Runs until the source ends, as many packets were kept as were asked for, the reader of `pipe` has gone, or a signal comes. A second signal
/// does not wait for packets that the kernel still has.
pub(super) fn run(
    capture: &mut Capture<'_>,
    signals: &Signals,
    pipe: Option<&OwnedFd>,
    reporter: &mut Reporter,
) -> Result<(), Error> {
    let mut signalled = 0;
    let mut next = moment().monotonic + PERIOD;
    loop {
        let step = match capture.step(moment()) {
            // A signal has ended the wait for the rest of a block.
            Err(Error::Read { .. }) if signals.taken() > 0 => return Ok(()),
            other => other?,
        };
        if step == Step::Ended {
            return Ok(());
        }
        let taken = signals.taken();
        if taken > 0 && signalled == 0 {
            capture.stop()?;
        }
        signalled += taken;
        if signalled > 1 {
            return Ok(());
        }
        let now = moment().monotonic;
        if step == Step::Idle || now >= next {
            capture.flush()?;
        }
        if now >= next {
            next = now + PERIOD;
            if reporter.is_live() {
                reporter.shows(&capture.tallies()?);
            }
        }
        if step == Step::Idle && taken == 0 {
            let is_ending = signalled > 0;
            let time = if is_ending { ENDING } else { next.saturating_sub(now) };
            if is_reader_gone(capture, signals, pipe, time) {
                return Ok(());
            }
        }
    }
}

/// How often it is asked whether the kernel has given all.
const ENDING: Duration = Duration::from_millis(5);

/// Waits for packets, a signal, or the time. Whether the reader of the pipe has gone meanwhile.
fn is_reader_gone(capture: &Capture<'_>, signals: &Signals, pipe: Option<&OwnedFd>, time: Duration) -> bool {
    let readable = |fd| PollFd::new(fd, PollFlags::POLLIN);
    // Of a pipe whose reader has gone an error is reported, whatever is asked for.
    let mut watched: Vec<PollFd<'_>> =
        pipe.map(|pipe| PollFd::new(pipe.as_fd(), PollFlags::empty())).into_iter().collect();
    watched.push(readable(signals.0.as_fd()));
    let sources: Vec<BorrowedFd<'_>> = capture.descriptors();
    watched.extend(sources.into_iter().map(readable));
    // One more than the rest, so that the time has passed afterwards.
    let ms = u16::try_from(time.as_millis() + 1).unwrap_or(u16::MAX);
    // A failure here is a wait that is shorter.
    let _ = poll(&mut watched, PollTimeout::from(ms));
    let has_error = |fd: &PollFd<'_>| fd.revents().is_some_and(|events| events.contains(PollFlags::POLLERR));
    pipe.is_some() && watched.first().is_some_and(has_error)
}
