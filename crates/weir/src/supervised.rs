//! A recorder that the daemon of recording sessions supervises: it starts on command, reports progress, and exits with the daemon.
//!
//! In: standard input, a pipe whose other end only the daemon has, and what is said there ([`weir_sessions::recorder`]): that the recording may begin, and
//! before that which recording hands its processes over; then what is to be done beside. The end of the pipe says that the recording is not wanted. Out: a
//! file that says how much was recorded so far, and lines on standard output.
//!
//! Guaranteed: where the daemon ends, however it does, so does the recording, as at Ctrl-C. Until the daemon's word that is told by the end
//! of its pipe, then by a signal as well, which is blocked by then, so that none is lost in between.

use std::cell::{Cell, RefCell};
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context as _, anyhow};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::prctl;
use nix::sys::signal::{SigSet, Signal};
use nix::unistd::read;
use weir_process::processes::ProcessId;
use weir_run::supervisor::{Before, HandOver, Heard, HeldProcess, Said, Supervisor};
use weir_sessions::counts::Counts;
use weir_sessions::recorder::{
    AFTER, GO, GO_ON, GO_OPEN, HAND_OVER, JOIN, JOIN_RUNNING, OPENED, ROTATE, SHUT, SNAPSHOT, TAKE,
    TAKE_BACK, TAKE_FIRST,
};
use weir_sessions::{limits, place};

use crate::failure::Failure;
use crate::print::{print_on, printable, tell};

pub(crate) struct Supervised {
    file: PathBuf,
    stdin: io::Stdin,
    is_open: bool,
    /// The weir whose processes are taken over.
    after: Option<Before>,
    /// The daemon is gone.
    has_ended: Cell<bool>,
    /// What it has said and not finished.
    begun: RefCell<Vec<u8>>,
    written: Option<Instant>,
    /// It could not be written, which was told.
    has_failed: bool,
}

impl Supervised {
    /// Waits for the daemon's word.
    pub(crate) fn hold(file: &Path) -> Result<Supervised, Failure> {
        let unwanted =
            || Failure::Refused(anyhow!("the recording was not begun: its daemon did not want it any more"));
        print_on("held\n")?;
        let (mut word, mut before) = ([0], Vec::new());
        let is_open = loop {
            match (read(io::stdin(), &mut word), &before[..]) {
                (Ok(1), [] | [AFTER, .., b'\n']) if [GO, GO_OPEN].contains(&word[0]) => {
                    break word[0] == GO_OPEN;
                }
                (Ok(1), [] | [AFTER, ..]) if before.len() < limits::LINE_BYTES => before.push(word[0]),
                (Err(Errno::EINTR), _) => {}
                _ => return Err(unwanted()),
            }
        };
        let words = before
            .strip_prefix(&[AFTER])
            .and_then(|words| str::from_utf8(words).ok()?.trim_end().split_once(' '));
        let after = words
            .and_then(|(pid, start)| Some(Before { pid: pid.parse().ok()?, start: start.parse().ok()? }));
        let failed = |errno: Errno, what: &str| Failure::Machine(anyhow!(errno).context(what.to_owned()));
        let blocked = SigSet::from_iter([Signal::SIGTERM]).thread_block();
        blocked.map_err(|errno| failed(errno, "blocking signals"))?;
        let asked = prctl::set_pdeathsig(Signal::SIGTERM);
        asked.map_err(|errno| failed(errno, "asking for a signal at the end of the daemon"))?;
        // It may have ended before.
        let supervised = Supervised {
            file: file.to_owned(),
            stdin: io::stdin(),
            is_open,
            after,
            has_ended: Cell::new(false),
            begun: RefCell::default(),
            written: None,
            has_failed: false,
        };
        match supervised.heard()?.has_ended {
            false => Ok(supervised),
            true => Err(unwanted()),
        }
    }

    /// What the daemon has said since this was asked last; nothing is waited for.
    fn heard(&self) -> Result<Heard, Failure> {
        let mut heard = Heard::default();
        while !self.has_ended.get() {
            let mut watched = [PollFd::new(self.stdin.as_fd(), PollFlags::POLLIN)];
            let is_any = poll(&mut watched, PollTimeout::ZERO).context("poll").map_err(Failure::Machine)? > 0;
            if !is_any {
                break;
            }
            let mut words = [0; 64];
            match read(&self.stdin, &mut words) {
                Ok(0) => self.has_ended.set(true),
                Ok(count) => words[..count].iter().for_each(|word| self.take(*word, &mut heard)),
                Err(Errno::EINTR) => {}
                Err(_) => self.has_ended.set(true),
            }
        }
        Ok(Heard { has_ended: self.has_ended.get(), ..heard })
    }

    fn take(&self, word: u8, heard: &mut Heard) {
        let mut begun = self.begun.borrow_mut();
        match (&begun[..], word) {
            ([], SNAPSHOT) => heard.snapshots += 1,
            ([], TAKE_BACK) => heard.handed_over.push(HandOver::Back),
            ([], OPENED | SHUT) => heard.is_opened = Some(word == OPENED),
            ([HAND_OVER, number @ ..], b'\n') => {
                let number = str::from_utf8(number).ok().and_then(|number| number.parse().ok());
                heard.handed_over.extend(number.map(HandOver::To));
                begun.clear();
            }
            ([of @ (TAKE | TAKE_FIRST | JOIN | JOIN_RUNNING | GO_ON), id @ ..], b'\n') => {
                let id = process_id(id);
                match *of {
                    JOIN | JOIN_RUNNING => heard.joined.extend(id.map(|id| (id, *of == JOIN))),
                    GO_ON => heard.go_on.extend(id),
                    take => heard.held.extend(id.map(|id| held(id, take == TAKE_FIRST))),
                }
                begun.clear();
            }
            ([ROTATE, name @ ..], b'\n') => {
                heard.folders.push(String::from_utf8_lossy(name).into_owned());
                begun.clear();
            }
            ([], ROTATE | HAND_OVER | TAKE | TAKE_FIRST | JOIN | JOIN_RUNNING | GO_ON) | ([_, ..], _) => {
                begun.push(word)
            }
            ([], _) => {}
        }
    }
}

impl Supervisor for Supervised {
    fn before(&self) -> Option<Before> {
        self.after
    }

    fn is_open(&self) -> bool {
        self.is_open
    }

    /// Readable when the daemon has said something, and when it is gone.
    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        (!self.has_ended.get()).then(|| self.stdin.as_fd())
    }

    fn hear(&mut self) -> Result<Heard, Failure> {
        self.heard()
    }

    fn say(&mut self, said: Said<'_>) {
        say(&match said {
            Said::Recording => "recording".to_owned(),
            Said::LetGo(number) => format!("let-go {number}"),
            Said::Snapshot(Ok(name)) => format!("snapshot {name}"),
            Said::Snapshot(Err(why)) => format!("no-snapshot {}", one_line(why)),
            Said::Rotate => "rotate".to_owned(),
            Said::Rotated(Ok(())) => "rotated".to_owned(),
            Said::Rotated(Err(why)) => format!("no-rotation {}", one_line(why)),
            Said::Stopped => "stopped".to_owned(),
            Said::AtDoor(id) => format!("at-door {} {}", id.pid, id.start),
            Said::Has(id) => format!("has {} {}", id.pid, id.start),
        });
    }

    fn is_due(&self) -> bool {
        self.written.is_none_or(|at| at.elapsed() >= limits::COUNTS_INTERVAL)
    }

    fn write(&mut self, counts: &Counts) {
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

/// A process that the daemon holds, and which it lets go when the run has stopped it.
fn held(id: ProcessId, others: bool) -> HeldProcess {
    HeldProcess { id, others, allow: Box::new(move || say(&format!("took {} {}", id.pid, id.start))) }
}

fn process_id(words: &[u8]) -> Option<ProcessId> {
    let (pid, start) = str::from_utf8(words).ok()?.split_once(' ')?;
    Some(ProcessId { pid: pid.parse().ok()?, start: start.parse().ok()? })
}

/// A text of any length and characters.
fn one_line(text: &str) -> String {
    printable(text).chars().take(limits::LINE_BYTES / 8).collect()
}

/// Says why the recording is not going to begin, if it is by the user's filter.
pub(crate) fn failed(failure: &Failure) {
    if matches!(failure, Failure::Text(..)) {
        say("wrong-filter");
    }
    if failure.is_of_no_event() {
        say("no-event");
    }
}

fn say(line: &str) {
    // A daemon that is gone ends the recording in another way.
    let _ = print_on(&format!("{line}\n"));
}
