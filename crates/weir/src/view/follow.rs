//! `weir view --follow`: traces that are being written, shown as they come.
//!
//! In: folders whose files grow. Out: the lines of `weir view`, written out whenever nothing more can be shown at the moment. It ends when
//! whoever writes has ended, when nobody reads the output any more, or with SIGINT, SIGTERM or SIGHUP; then what is held back for older
//! events is shown too.
//!
//! A trace whose description is empty yet (LTTng makes the file first) is waited for, and so is nothing else: a folder that is not there is
//! a mistake.
//!
//! A trace that comes through a pipe ([`super::received`]) is followed in the folder in which it is received: that is read here, and waited for. Without
//! `--follow` all of it is waited for first.
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
use crate::view::received::{Received, Sources};
use crate::view::{CHUNK_BYTES, Form, code, failure, flush};

const LOOK_EVERY: Duration = Duration::from_millis(100);

/// How long several streams are waited for before it is reported which one has not begun.
const TELL_AFTER: Duration = Duration::from_secs(1);

/// How far below a session's folder LTTng puts its traces: `ust/uid/1000/64-bit`.
const FOLDERS_DEEP: usize = 5;

/// How many messages are shown before it is looked whether more has come: a millisecond or so.
const MESSAGES_PER_RECEIVING: u32 = 1 << 12;

/// Bytes that are received before the trace is looked at.
const RECEIVED_BYTES: usize = 8 << 20;

pub(super) fn follow(args: &View, sources: Sources) -> Result<ExitCode, Failure> {
    // Before a folder is made, which a signal would leave.
    let stops = Stops::new()?;
    let mut received = Received::new(args, sources)?;
    let (mut is_asked, began, mut is_told) = (false, Instant::now(), false);
    while received.is_waiting() || !args.follow && received.is_open() {
        if is_asked {
            received.stop();
        }
        if !is_told && began.elapsed() >= TELL_AFTER {
            is_told = true;
            received.tell_waiting();
        }
        is_asked = stops.wait(LOOK_EVERY, &mut received)?;
    }
    received.leave_out_undescribed()?;
    let Some(mut follower) = opened(&mut received, &stops)? else { return Ok(ExitCode::SUCCESS) };
    if received.is_all() && !received.is_open() {
        follower.stop();
    }
    let mut wanted = Wanted::new(args, follower.reader())?;
    let mut form = Form::new(args, follower.reader());
    let mut out = Vec::with_capacity(2 * CHUNK_BYTES);
    let mut is_whole = true;
    loop {
        let mut messages: u32 = 0;
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
            messages = messages.wrapping_add(1);
            if messages.is_multiple_of(MESSAGES_PER_RECEIVING) && received.is_behind() {
                // Senders are not held up while what has come is shown. A signal is still pending the next time.
                stops.wait(Duration::ZERO, &mut received)?;
            }
        }
        if !out.is_empty() && !flush(&mut out)? {
            return Ok(ExitCode::SUCCESS);
        }
        received.forget_read(&follower);
        if received.is_open() {
            received.tell_faults();
        }
        if follower.is_over() {
            break;
        }
        let is_asked = stops.wait(LOOK_EVERY, &mut received)?;
        if follower.look(Instant::now()).map_err(failure)? {
            wanted = Wanted::new(args, follower.reader())?;
        }
        // Whose trace it is that was sent does not matter: nothing more comes of it.
        if is_asked || received.is_all() && !received.is_open() {
            follower.stop();
        }
    }
    received.tell_faults();
    if follower.late() > 0 {
        tell!("weir: {} events came so late that they are shown behind later ones", follower.late());
    }
    Ok(code(is_whole && !received.is_damaged()))
}

/// Waits for all that comes through pipes; whether it was whole.
pub(super) fn received(args: &View, sources: Sources) -> Result<(Received, bool), Failure> {
    if !sources.is_any() {
        return Ok((Received::new(args, sources)?, true));
    }
    let stops = Stops::new()?;
    let mut received = Received::new(args, sources)?;
    while received.is_open() {
        if stops.wait(LOOK_EVERY, &mut received)? {
            received.stop();
        }
    }
    stops.release()?;
    received.leave_out_undescribed()?;
    received.tell_faults();
    let is_whole = !received.is_damaged();
    Ok((received, is_whole))
}

/// What is followed, once its description has begun to be written; none where a signal ends it before.
fn opened(received: &mut Received, stops: &Stops) -> Result<Option<Follower>, Failure> {
    loop {
        let places = received.places();
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
            if stops.wait(LOOK_EVERY, received)? {
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

const STOPS: [Signal; 3] = [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP];

/// Signals that end it, read and not suffered: what is held back is to be shown.
struct Stops(SignalFd);

impl Stops {
    fn new() -> Result<Stops, Failure> {
        let signals = SigSet::from_iter(STOPS);
        let flags = SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC;
        // A file that may not grow further (RLIMIT_FSIZE) is an error of the write, like a full disk.
        let blocked = SigSet::from_iter(signals.iter().chain([Signal::SIGXFSZ])).thread_block();
        let blocked = blocked.and_then(|()| SignalFd::with_flags(&signals, flags));
        blocked.context("signalfd").map_err(Failure::Machine).map(Stops)
    }

    /// From here on they end the program again; not those that have come.
    fn release(self) -> Result<(), Failure> {
        while let Ok(Some(_)) = self.0.read_signal() {}
        let released = SigSet::from_iter(STOPS).thread_unblock();
        released.context("the signal mask").map_err(Failure::Machine)
    }

    /// True where one of them comes within this time. Meanwhile what comes through pipes is received.
    fn wait(&self, time: Duration, received: &mut Received) -> Result<bool, Failure> {
        let (until, was_open) = (Instant::now() + time, received.is_open());
        let mut bytes = 0;
        loop {
            let mut waited = vec![PollFd::new(self.0.as_fd(), PollFlags::POLLIN)];
            waited.extend(received.watched().into_iter().map(|fd| PollFd::new(fd, PollFlags::POLLIN)));
            // Rounded up, so that the last millisecond is no busy loop.
            let rest = until.saturating_duration_since(Instant::now()) + Duration::from_micros(999);
            let count = match poll(&mut waited, PollTimeout::try_from(rest).unwrap_or(PollTimeout::MAX)) {
                Ok(count) => count,
                Err(Errno::EINTR) => return Ok(false),
                Err(error) => return Err(Failure::Machine(anyhow!(error).context("poll"))),
            };
            let ready: Vec<bool> = waited.iter().map(|fd| fd.any().unwrap_or(false)).collect();
            drop(waited);
            bytes += received.read(&ready[1..]);
            let is_late = Instant::now() >= until || bytes >= RECEIVED_BYTES;
            if ready[0] || count == 0 || is_late || was_open && !received.is_open() {
                return Ok(ready[0]);
            }
        }
    }
}
