//! One stretch of a session's recording: a process `weir record`, from its start to its end.
//!
//! In: a session's description, the number of the stretch. Out: how far it is. The process gets ready and waits ([`Phase::Held`]), is let go
//! on ([`Stretch::go`]), records until it is asked to end ([`Stretch::end`]) or has nothing left to record of, and ends. Nothing here
//! waits: [`Stretch::look`] takes what is there.
//!
//! The daemon has one thread, which starts all of them: a recording ends with the thread that started it.

use std::fs;
use std::io::{ErrorKind, Read as _, Write as _};
use std::os::fd::{AsFd as _, BorrowedFd};
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::select::processes::ProcessId;
use crate::sessions::counts::Counts;
use crate::sessions::description::Description;
use crate::sessions::place::{self, Place};
use crate::sessions::{limits, process};

pub(crate) struct Stretch {
    pub(crate) number: u64,
    child: Child,
    pub(crate) id: ProcessId,
    said: Option<ChildStdout>,
    line: Vec<u8>,
    phase: Phase,
    ended: Option<ExitStatus>,
    /// When it was asked to end.
    asked: Option<Instant>,
    began: Instant,
    counts: PathBuf,
    log: PathBuf,
    /// How much of its log was passed on.
    told: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Phase {
    Preparing,
    /// Ready; nothing was touched.
    Held,
    /// Let go on.
    Beginning,
    Recording,
}

impl Stretch {
    /// Starts the process.
    pub(crate) fn start(description: &Description, number: u64, place: &Place) -> Result<Stretch, String> {
        let name = &description.name;
        let (counts, log) = (place.counts(name, number), place.log_of(name, number));
        let _ = fs::remove_file(&counts);
        let file = place::private().write(true).create(true).truncate(true).open(&log);
        let file = file.map_err(|error| format!("cannot write {}: {error}", log.display()))?;
        let mut command = Command::new(process::executable());
        command.args(description.arguments(number, &counts));
        command.current_dir(&description.directory);
        match &description.search_path {
            Some(path) => command.env("PATH", path),
            None => command.env_remove("PATH"),
        };
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(file).process_group(0);
        let started = command.spawn();
        let mut child =
            started.map_err(|error| format!("cannot start weir in {}: {error}", description.directory))?;
        let said = child.stdout.take();
        if let Some(said) = &said {
            // SANITY: flags of a pipe of ours can be set.
            fcntl(said, FcntlArg::F_SETFL(OFlag::O_NONBLOCK)).expect("F_SETFL of a pipe");
        }
        let pid = child.id() as i32;
        let id = ProcessId { pid, start: process::start_of(pid).unwrap_or(0) };
        Ok(Stretch {
            number,
            child,
            id,
            said,
            line: Vec::new(),
            phase: Phase::Preparing,
            ended: None,
            asked: None,
            began: Instant::now(),
            counts,
            log,
            told: 0,
        })
    }

    /// Takes what it says; and its end.
    pub(crate) fn look(&mut self) {
        let mut bytes = [0; 256];
        while let Some(said) = &mut self.said {
            match said.read(&mut bytes) {
                Ok(0) => self.said = None,
                Ok(count) => self.line.extend_from_slice(&bytes[..count]),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(_) => self.said = None,
            }
        }
        while let Some(end) = self.line.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = self.line.drain(..=end).collect();
            match &line[..] {
                b"held\n" if self.phase == Phase::Preparing => self.phase = Phase::Held,
                b"recording\n" if self.phase == Phase::Beginning => {
                    self.phase = Phase::Recording;
                    self.began = Instant::now();
                }
                _ => {}
            }
        }
        // What it may still say has no line.
        self.line.truncate(limits::NAME_BYTES);
        if self.ended.is_none() {
            self.ended = self.child.try_wait().ok().flatten();
        }
        if self.ended.is_none() && self.asked.is_some_and(|at| at.elapsed() > limits::END_WAIT) {
            let _ = self.child.kill();
        }
    }

    pub(crate) fn phase(&self) -> Phase {
        self.phase
    }

    /// Once it has ended.
    pub(crate) fn ended(&self) -> Option<ExitStatus> {
        self.ended
    }

    /// It may touch processes now.
    pub(crate) fn go(&mut self) {
        self.phase = Phase::Beginning;
        if let Some(stdin) = &mut self.child.stdin {
            // One that has ended is seen by its end.
            let _ = stdin.write_all(b"g");
        }
    }

    /// Asks it to end, the first time; everything is written then.
    pub(crate) fn end(&mut self) {
        if self.asked.is_none() && self.ended.is_none() {
            self.asked = Some(Instant::now());
            match self.phase {
                // It has no signals in hand yet, and makes its folder undone at the end of the pipe.
                Phase::Preparing | Phase::Held => self.child.stdin = None,
                Phase::Beginning | Phase::Recording => {
                    // Not reaped: its number is its own.
                    let _ = kill(Pid::from_raw(self.id.pid), Signal::SIGTERM);
                }
            }
        }
    }

    pub(crate) fn is_asked_to_end(&self) -> bool {
        self.asked.is_some()
    }

    /// How long it has recorded.
    pub(crate) fn age(&self) -> Duration {
        self.began.elapsed()
    }

    /// What it has recorded so far, as far as that is known.
    pub(crate) fn counts(&self) -> Option<Counts> {
        counts(&self.counts)
    }

    /// What it said since it was asked last.
    pub(crate) fn told(&mut self) -> String {
        let (text, end) = place::said(&self.log, self.told);
        self.told = end;
        text
    }

    /// What tells of its end, for the poll.
    pub(crate) fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.said.as_ref().map(|said| said.as_fd())
    }
}

/// What a file of counts says.
pub(crate) fn counts(path: &std::path::Path) -> Option<Counts> {
    let bytes = place::read(path).ok()??;
    Counts::of_object(serde_json::from_slice(&bytes).ok()?).ok()
}
