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
use weir_process::processes::ProcessId;
use weir_trace::private;

use crate::counts::Counts;
use crate::description::Description;
use crate::place::{self, Place};
use crate::program::OfProgram;
use crate::recorder;
use crate::turn::Word;
use crate::{limits, process};

pub(crate) struct Stretch {
    /// Of the process, and of the first folder that it writes.
    pub(crate) number: u64,
    /// Of the folder that it writes now, and of the next, if it was asked for that.
    pub(crate) folder: u64,
    asked_folder: u64,
    child: Child,
    pub(crate) id: ProcessId,
    said: Option<ChildStdout>,
    line: Vec<u8>,
    phase: Phase,
    /// What came of the snapshot that it was asked for: its name, or why there is none.
    taken: Option<Result<String, String>>,
    /// The next folder that it was asked for is written, or why not.
    rotated: Option<Result<(), String>>,
    /// An event asks for the next folder.
    wants_rotation: bool,
    /// An event has ended it.
    pub(crate) is_stopped: bool,
    /// It could not begin: an event has not what its filter asks for.
    pub(crate) has_wrong_filter: bool,
    /// It could not begin: the program has none of its events.
    pub(crate) has_no_event: bool,
    /// What it said of processes that were held.
    said_of_held: Vec<SaidOfHeld>,
    /// The number of the request, and how many there were.
    asked_to_hand_over: Option<u64>,
    hand_overs: u64,
    /// It was let begin without waiting for an event.
    begins_open: bool,
    ended: Option<ExitStatus>,
    /// When it was asked to end.
    asked: Option<Instant>,
    began: Instant,
    counts: PathBuf,
    log: PathBuf,
    /// How much of its log was passed on.
    told: u64,
}

/// What a recording says of a process that was held.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum SaidOfHeld {
    /// It is stopped by it, and may be let go.
    Took(ProcessId),
    /// It waits for it, so that others can come.
    AtDoor(ProcessId),
    /// It is recorded, or cannot be.
    Has(ProcessId),
}

impl SaidOfHeld {
    pub(crate) fn of(&self) -> ProcessId {
        match self {
            SaidOfHeld::Took(id) | SaidOfHeld::AtDoor(id) | SaidOfHeld::Has(id) => *id,
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Phase {
    Preparing,
    /// Ready; nothing was touched.
    Held,
    /// Let go on.
    Beginning,
    Recording,
    /// It touches its processes no more, which another takes over.
    LetGo,
}

impl Stretch {
    /// Starts the process. `of`: the program that it is to record of, if it is one; `files`: what its files beside the socket are called after, and its number.
    pub(crate) fn start(
        description: &Description,
        of: Option<OfProgram>,
        (files, number): (&str, u64),
        place: &Place,
    ) -> Result<Stretch, String> {
        let (counts, log) = (place.counts(files, number), place.log_of(files, number));
        let _ = fs::remove_file(&counts);
        let file = private::options().write(true).create(true).truncate(true).open(&log);
        let file = file.map_err(|error| format!("cannot write {}: {error}", log.display()))?;
        let mut command = Command::new((place.program)());
        command.args(description.arguments(number, &counts, of.as_ref()));
        // For a command of its own (--run) that speaks to this daemon.
        command.env(place::SOCKET_VARIABLE, &place.socket);
        command.current_dir(&description.directory);
        // What the session's user preloads is not for weir.
        command.env_remove("LD_PRELOAD").env_remove("LD_AUDIT");
        match &description.search_path {
            Some(path) => command.env("PATH", path),
            None => command.env_remove("PATH"),
        };
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(file).process_group(0);
        let started = command.spawn();
        let mut child =
            started.map_err(|error| format!("cannot start weir in {}: {error}", description.directory))?;
        let said = child.stdout.take();
        if let Some(stdin) = &child.stdin {
            // SANITY: flags of a pipe of ours can be set.
            fcntl(stdin, FcntlArg::F_SETFL(OFlag::O_NONBLOCK)).expect("F_SETFL of a pipe");
        }
        if let Some(said) = &said {
            // SANITY: flags of a pipe of ours can be set.
            fcntl(said, FcntlArg::F_SETFL(OFlag::O_NONBLOCK)).expect("F_SETFL of a pipe");
        }
        let pid = child.id() as i32;
        let id = ProcessId { pid, start: process::start_of(pid).unwrap_or(0) };
        Ok(Stretch {
            number,
            folder: number,
            asked_folder: number,
            child,
            id,
            said,
            line: Vec::new(),
            phase: Phase::Preparing,
            taken: None,
            rotated: None,
            wants_rotation: false,
            is_stopped: false,
            has_wrong_filter: false,
            has_no_event: false,
            said_of_held: Vec::new(),
            asked_to_hand_over: None,
            hand_overs: 0,
            begins_open: false,
            ended: None,
            asked: None,
            began: Instant::now(),
            counts,
            log,
            told: 0,
        })
    }

    /// Takes what it says; and its end, behind which it says nothing.
    pub(crate) fn look(&mut self) {
        if self.ended.is_none() {
            self.ended = self.child.try_wait().ok().flatten();
        }
        self.hear();
        if self.ended.is_none() && self.asked.is_some_and(|at| at.elapsed() > limits::END_WAIT) {
            let _ = self.child.kill();
        }
    }

    fn hear(&mut self) {
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
            let line = String::from_utf8_lossy(&line[..end]);
            match line.split_once(' ').unwrap_or((&*line, "")) {
                ("held", _) if self.phase == Phase::Preparing => self.phase = Phase::Held,
                ("recording", _) if self.phase == Phase::Beginning => {
                    self.phase = Phase::Recording;
                    self.began = Instant::now();
                }
                ("let-go", number)
                    if self.phase == Phase::Recording
                        && self.asked_to_hand_over.is_some_and(|asked| number == asked.to_string()) =>
                {
                    self.phase = Phase::LetGo;
                }
                ("snapshot", name) => self.taken = Some(Ok(name.to_owned())),
                ("no-snapshot", why) => self.taken = Some(Err(why.to_owned())),
                ("rotated", _) => (self.rotated, self.folder) = (Some(Ok(())), self.asked_folder),
                ("no-rotation", why) => self.rotated = Some(Err(why.to_owned())),
                ("rotate", _) => self.wants_rotation = true,
                ("stopped", _) => self.is_stopped = true,
                ("wrong-filter", _) => self.has_wrong_filter = true,
                ("no-event", _) => self.has_no_event = true,
                ("took", id) => self.said_of_held.extend(process_id(id).map(SaidOfHeld::Took)),
                ("at-door", id) => self.said_of_held.extend(process_id(id).map(SaidOfHeld::AtDoor)),
                ("has", id) => self.said_of_held.extend(process_id(id).map(SaidOfHeld::Has)),
                _ => {}
            }
        }
        // What it may still say has no line.
        self.line.truncate(limits::LINE_BYTES);
    }

    pub(crate) fn phase(&self) -> Phase {
        self.phase
    }

    /// Once it has ended.
    pub(crate) fn ended(&self) -> Option<ExitStatus> {
        self.ended
    }

    /// It may touch processes now, and takes over those of the recording `after`, if that has let them go. `is_open`: without waiting for an
    /// event that starts it, as one before it had.
    pub(crate) fn go(&mut self, is_open: bool, after: Option<ProcessId>) {
        (self.phase, self.begins_open) = (Phase::Beginning, is_open);
        let words = |after: ProcessId| format!("{} {}\n", after.pid, after.start);
        let after = after.map(|after| [&[recorder::AFTER], words(after).as_bytes()].concat());
        let go = if is_open { recorder::GO_OPEN } else { recorder::GO };
        self.say(&[after.unwrap_or_default(), vec![go]].concat());
    }

    /// Asks it, once, to let its processes go, so that another takes them over.
    pub(crate) fn ask_to_hand_over(&mut self) {
        if self.asked_to_hand_over.is_none() {
            self.hand_overs += 1;
            self.asked_to_hand_over = Some(self.hand_overs);
            self.say(&[&[recorder::HAND_OVER], self.hand_overs.to_string().as_bytes(), b"\n"].concat());
        }
    }

    /// The other has failed to.
    pub(crate) fn take_back(&mut self) {
        if self.asked_to_hand_over.take().is_some() {
            self.phase = self.phase.min(Phase::Recording);
            self.say(&[recorder::TAKE_BACK]);
        }
    }

    /// Events have made this of the recording before it since it was let begin.
    pub(crate) fn is_opened(&mut self, is_open: bool) {
        if self.begins_open != is_open {
            self.begins_open = is_open;
            self.say(&[if is_open { recorder::OPENED } else { recorder::SHUT }]);
        }
    }

    /// Says what it is to do with a process that was held.
    pub(crate) fn tell_of_held(&mut self, id: ProcessId, word: Word) {
        let byte = match word {
            Word::Take { others: false } => recorder::TAKE,
            Word::Take { others: true } => recorder::TAKE_FIRST,
            Word::Join { at_door: true } => recorder::JOIN,
            Word::Join { at_door: false } => recorder::JOIN_RUNNING,
            Word::GoOn => recorder::GO_ON,
        };
        let words = format!("{} {}\n", id.pid, id.start);
        self.say(&[&[byte], words.as_bytes()].concat());
    }

    /// What it said of such processes since this was asked last.
    pub(crate) fn said_of_held(&mut self) -> Vec<SaidOfHeld> {
        std::mem::take(&mut self.said_of_held)
    }

    /// Asks it for a snapshot; [`Stretch::taken`] will have the answer.
    pub(crate) fn ask_for_snapshot(&mut self) {
        self.taken = None;
        self.say(&[recorder::SNAPSHOT]);
    }

    /// Asks it to go on in the folder of this number; [`Stretch::rotated`] will have the answer.
    pub(crate) fn ask_to_rotate(&mut self, folder: u64) {
        (self.rotated, self.asked_folder) = (None, folder);
        self.say(&[&[recorder::ROTATE], folder.to_string().as_bytes(), b"\n"].concat());
    }

    pub(crate) fn rotated(&mut self) -> Option<Result<(), String>> {
        self.rotated.take()
    }

    pub(crate) fn taken(&mut self) -> Option<Result<String, String>> {
        self.taken.take()
    }

    /// Whether an event has asked for the next folder since this was asked last.
    pub(crate) fn wants_rotation(&mut self) -> bool {
        std::mem::take(&mut self.wants_rotation)
    }

    fn say(&mut self, words: &[u8]) {
        if let Some(stdin) = &mut self.child.stdin {
            // One that has ended is seen by its end; one that has not read for so long is lost.
            if stdin.write_all(words).is_err_and(|error| error.kind() == ErrorKind::WouldBlock) {
                let _ = self.child.kill();
            }
        }
    }

    /// Asks it to end, the first time; everything is written then.
    pub(crate) fn end(&mut self) {
        if self.asked.is_none() && self.ended.is_none() {
            self.asked = Some(Instant::now());
            match self.phase {
                // It has no signals in hand yet, and makes its folder undone at the end of the pipe.
                Phase::Preparing | Phase::Held => self.child.stdin = None,
                Phase::Beginning | Phase::Recording | Phase::LetGo => {
                    // Not reaped: its number is its own.
                    let _ = kill(Pid::from_raw(self.id.pid), Signal::SIGTERM);
                }
            }
        }
    }

    /// It has not got ready in time.
    pub(crate) fn kill(&mut self) {
        let _ = self.child.kill();
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

/// A process as [`recorder::TAKE`] has it.
fn process_id(words: &str) -> Option<ProcessId> {
    let (pid, start) = words.split_once(' ')?;
    Some(ProcessId { pid: pid.parse().ok()?, start: start.parse().ok()? })
}

/// What a file of counts says.
pub(crate) fn counts(path: &std::path::Path) -> Option<Counts> {
    let bytes = place::read(path).ok()??;
    Counts::of_object(serde_json::from_slice(&bytes).ok()?).ok()
}
