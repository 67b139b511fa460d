//! `weir view --follow`: traces that are being written, shown as they come.
//!
//! In: folders whose files grow. Out: the lines of `weir view`, written out whenever nothing more can be shown at the moment. It ends when
//! whoever writes has ended, when nobody reads the output any more, or with SIGINT, SIGTERM or SIGHUP; then what is held back for older
//! events is shown too.
//!
//! A trace whose description is empty yet (LTTng makes the file first) is waited for, and so is nothing else: a folder that is not there is
//! a mistake.
//!
//! Files are looked at ten times a second: a file system tells of what another machine writes, and of what is mapped, in no other way.

use std::fs;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use weir_trace::{Follower, Message};

use crate::args::view::View;
use crate::failure::Failure;
use crate::print::{printable, tell};
use crate::view::filter::Wanted;
use crate::view::{CHUNK_BYTES, Form, code, failure, flush};

const LOOK_EVERY: Duration = Duration::from_millis(100);

/// How far below a session's folder LTTng puts its traces: `ust/uid/1000/64-bit`.
const FOLDERS_DEEP: usize = 5;

pub(super) fn follow(args: &View) -> Result<ExitCode, Failure> {
    let stops = Stops::new()?;
    let Some(mut follower) = opened(&args.places, &stops)? else { return Ok(ExitCode::SUCCESS) };
    let mut wanted = Wanted::new(args, follower.reader())?;
    let mut form = Form::new(args, follower.reader());
    let mut out = Vec::with_capacity(2 * CHUNK_BYTES);
    let mut is_whole = true;
    loop {
        while let Some(message) = follower.next() {
            match message {
                Message::Event(event) if wanted.as_mut().is_some_and(|wanted| !wanted.has(&event)) => {}
                Message::Event(event) => {
                    form.event(&event, &mut out);
                    if out.len() >= CHUNK_BYTES && !flush(&mut out)? {
                        return Ok(ExitCode::SUCCESS);
                    }
                }
                Message::Lost(loss, info) => form.lost(&loss, &info, &mut out)?,
                Message::Damage(error) => {
                    flush(&mut out)?;
                    tell!("weir: {error}");
                    is_whole = false;
                }
            }
        }
        if !out.is_empty() && !flush(&mut out)? {
            return Ok(ExitCode::SUCCESS);
        }
        if follower.is_over() {
            break;
        }
        let is_asked = stops.wait(LOOK_EVERY)?;
        if follower.look(Instant::now()).map_err(failure)? {
            wanted = Wanted::new(args, follower.reader())?;
        }
        if is_asked {
            follower.stop();
        }
    }
    if follower.late() > 0 {
        tell!("weir: {} events came so late that they are shown behind later ones", follower.late());
    }
    Ok(code(is_whole))
}

/// What is followed, once its description has begun to be written; none where a signal ends it before.
fn opened(places: &[PathBuf], stops: &Stops) -> Result<Option<Follower>, Failure> {
    loop {
        let error = match Follower::open(places, Instant::now()) {
            Ok(follower) => return Ok(Some(follower)),
            Err(error) => error,
        };
        // What else may be wrong is a mistake.
        let is_why = |empty: &PathBuf| error.to_string().contains(&*empty.to_string_lossy());
        let empty = places.iter().find_map(|place| empty_metadata(place, FOLDERS_DEEP)).filter(is_why);
        let Some(empty) = empty else { return Err(failure(error)) };
        tell!("weir: {} is empty yet; waiting for its recorder", printable(&empty.to_string_lossy()));
        while fs::metadata(&empty).is_ok_and(|file| file.len() == 0) {
            if stops.wait(LOOK_EVERY)? {
                return Ok(None);
            }
        }
    }
}

/// A description of a trace in this folder, or so many levels below it, in which nothing was written yet.
fn empty_metadata(folder: &Path, levels: usize) -> Option<PathBuf> {
    let metadata = folder.join("metadata");
    if fs::metadata(&metadata).is_ok_and(|file| file.is_file() && file.len() == 0) {
        return Some(metadata);
    }
    let entries = fs::read_dir(folder).ok().filter(|_| levels > 0)?;
    let folders = entries.flatten().filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    folders.into_iter().find_map(|entry| empty_metadata(&entry.path(), levels - 1))
}

/// Signals that end it, read and not suffered: what is held back is to be shown.
struct Stops(SignalFd);

impl Stops {
    fn new() -> Result<Stops, Failure> {
        let signals = SigSet::from_iter([Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP]);
        let flags = SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC;
        let blocked = signals.thread_block().and_then(|()| SignalFd::with_flags(&signals, flags));
        blocked.context("signalfd").map_err(Failure::Machine).map(Stops)
    }

    /// True where one of them comes within this time.
    fn wait(&self, time: Duration) -> Result<bool, Failure> {
        let mut waited = [PollFd::new(self.0.as_fd(), PollFlags::POLLIN)];
        let timeout = PollTimeout::try_from(time).unwrap_or(PollTimeout::MAX);
        match poll(&mut waited, timeout) {
            Ok(ready) => Ok(ready > 0),
            Err(Errno::EINTR) => Ok(false),
            Err(error) => Err(Failure::Machine(anyhow!(error).context("poll"))),
        }
    }
}
