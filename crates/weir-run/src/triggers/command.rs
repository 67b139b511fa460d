//! `--run-on` and `--run-on-fill`: starts a command when events ask for it, or a ring fills, as a child of weir's, and reports how it ended.
//!
//! In: how many events have asked, and when the last of each name did; how full the rings were. Out: a process, `sh -c COMMAND`, with the event in its environment:
//!
//! | variable | is |
//! |---|---|
//! | `WEIR_EVENT` | the event that asked last, as PROVIDER:EVENT; not there where none has |
//! | `WEIR_TIME` | when it came, ns since 1970; without an event: now |
//! | `WEIR_RING_FILL` | how full the fullest ring was since the last start, in percent, where it was as full as was asked for |
//! | `WEIR_EVENTS` | how many have asked since the last start |
//! | `WEIR_FOLDER` | where is recorded into |
//! | `WEIR_SESSION` | the session, where it is one |
//!
//! One at a time, and one start in an interval; events that ask in between share the next start. Every event that asks is behind a start: at the end
//! of the run, too. A command that still runs then is waited for no longer than [`END_WAIT`], and runs on. It has no signal blocked, no
//! input, and weir's standard error for what it says; nothing of it is in a traced process.

use std::ffi::CString;
use std::fs::File;
use std::os::fd::AsRawFd as _;
use std::os::unix::ffi::OsStringExt as _;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use nix::errno::Errno;
use nix::spawn::{PosixSpawnAttr, PosixSpawnFileActions, PosixSpawnFlags, posix_spawn};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::time::{ClockId, clock_gettime};
use nix::unistd::Pid;
use weir_rt::segment::Segment;

use crate::clock::now_ns;
use crate::notice::{Notices, note};
use crate::recorder::word;

/// How long the end of a run waits for a command.
const END_WAIT: Duration = Duration::from_secs(1);

/// How often it looks then.
const END_INTERVAL: Duration = Duration::from_millis(2);

/// Weir's own, which no command has of somebody else.
const VARIABLES: [&str; 6] = [EVENT, "WEIR_TIME", "WEIR_EVENTS", FOLDER, "WEIR_SESSION", RING_FILL];
const EVENT: &str = "WEIR_EVENT";
const FOLDER: &str = "WEIR_FOLDER";
const RING_FILL: &str = "WEIR_RING_FILL";

pub(super) struct Commands {
    /// How many events have asked, and by event, when the last one did: maps.
    events: Option<(usize, usize)>,
    fill: Option<Fill>,
    names: Vec<String>,
    command: String,
    /// What each command has in its environment.
    environment: Vec<(String, String)>,
    interval: Duration,
    /// So many had asked at the last start.
    seen: u64,
    started: Option<Instant>,
    running: Option<Running>,
    runs: u64,
    failed: u64,
    notices: Notices,
}

/// Rings that fill.
struct Fill {
    /// The command runs from so many percent on.
    percent: u64,
    /// The most that was seen since the last start, if it was as much.
    asked: Option<u64>,
    /// The most that was seen at all.
    most: u64,
}

struct Running {
    pid: Pid,
    /// What asked for it.
    why: String,
}

impl Commands {
    /// For those that are started from now on.
    pub(super) fn goes_on_in(&mut self, folder: &Path) {
        let of_folder = self.environment.iter_mut().filter(|(name, _)| name == FOLDER);
        of_folder.for_each(|(_, value)| *value = folder.display().to_string());
    }

    pub(super) fn new(
        (events, fill): (Option<(usize, usize)>, Option<u64>),
        names: Vec<String>,
        command: &str,
        interval: Duration,
        folder: &Path,
        session: Option<&str>,
        notices: &Notices,
    ) -> Commands {
        let mut environment = vec![(FOLDER.to_owned(), folder.display().to_string())];
        environment.extend(session.map(|session| ("WEIR_SESSION".to_owned(), session.to_owned())));
        let command = command.to_owned();
        Commands {
            events,
            fill: fill.map(|percent| Fill { percent, asked: None, most: 0 }),
            names,
            command,
            environment,
            interval,
            seen: 0,
            started: None,
            running: None,
            runs: 0,
            failed: 0,
            notices: notices.clone(),
        }
    }

    /// Takes the end of the one that runs, and starts the next if it is time. `fill`: how full the fullest ring was since the last look.
    pub(super) fn look(&mut self, segment: &Segment, fill: u64, now: Instant) {
        self.fills(fill);
        self.reap();
        let has_passed = self.started.is_none_or(|at| now.duration_since(at) >= self.interval);
        if self.running.is_none() && has_passed {
            self.start(segment, now);
        }
    }

    /// The fullest ring was so full.
    pub(super) fn fills(&mut self, fill: u64) {
        if let Some(of) = &mut self.fill {
            of.most = of.most.max(fill);
            of.asked = of.asked.max((fill >= of.percent).then_some(fill));
        }
    }

    /// Answers who has asked and was not answered, and waits for what runs.
    pub(super) fn finish(mut self, segment: &Segment, is_quiet: bool) {
        let began = Instant::now();
        let mut is_late = self.wait(began);
        if !is_late {
            self.start(segment, Instant::now());
            is_late = self.wait(began);
        }
        let (command, asked) = (&self.command, self.asked(segment));
        if is_late {
            note!(self.notices, Triggers, "`{command}` still runs, and is not waited for");
        }
        if asked > self.seen {
            note!(
                self.notices,
                Triggers,
                "{} events asked for `{command}`, which was not run again",
                asked - self.seen
            );
        }
        let failed =
            if self.failed > 0 { format!(", {} of them failed", self.failed) } else { String::new() };
        let times = if self.runs == 1 { "once".to_owned() } else { format!("{} times", self.runs) };
        if let Some(Fill { percent, most, .. }) = self.fill.as_ref().filter(|_| !is_quiet) {
            note!(
                self.notices,
                Triggers,
                "  the fullest ring was filled to {most}%; `{command}` was run {times}{failed} (--run-on-fill {percent})"
            );
        } else if asked > 0 && !is_quiet {
            note!(
                self.notices,
                Triggers,
                "  {asked} events asked for `{command}`, which was run {times}{failed} (--run-on)"
            );
        }
    }

    /// Until it ends, or it is too late: whether that is so.
    fn wait(&mut self, began: Instant) -> bool {
        loop {
            self.reap();
            match self.running {
                None => return false,
                Some(_) if began.elapsed() >= END_WAIT => return true,
                Some(_) => std::thread::sleep(END_INTERVAL),
            }
        }
    }

    fn reap(&mut self) {
        let Some(Running { pid, why }) = &self.running else { return };
        let how = match waitpid(*pid, Some(WaitPidFlag::WNOHANG)) {
            Ok(WaitStatus::StillAlive) | Err(Errno::EINTR) => return,
            Ok(WaitStatus::Exited(_, 0)) => None,
            Ok(WaitStatus::Exited(_, code)) => Some(format!("ended with exit code {code}")),
            Ok(WaitStatus::Signaled(_, signal, _)) => Some(format!("was killed by {signal}")),
            Ok(_) => return,
            Err(errno) => Some(format!("cannot be waited for: {errno}")),
        };
        if let Some(how) = how {
            self.failed += 1;
            note!(self.notices, Triggers, "`{}` {how} ({why})", self.command);
        }
        self.running = None;
    }

    /// How many events have asked.
    fn asked(&self, segment: &Segment) -> u64 {
        self.events.map_or(0, |(asked, _)| word(segment, asked, 0))
    }

    /// Starts it if an event has asked since the last start, or a ring was as full.
    fn start(&mut self, segment: &Segment, now: Instant) {
        let asked = self.asked(segment);
        let fill = self.fill.as_mut().and_then(|fill| fill.asked.take());
        let last = self.events.filter(|_| asked != self.seen).map(|(_, last)| self.last(segment, last));
        let (why, time) = match (&last, fill) {
            (Some((event, time)), _) => (format!("{event}, --run-on"), *time),
            (None, Some(fill)) => (format!("a ring was filled to {fill}%, --run-on-fill"), now_ns()),
            (None, None) => return,
        };
        let mut of_event = vec![
            ("WEIR_TIME", since_1970(time).to_string()),
            ("WEIR_EVENTS", (asked - self.seen).to_string()),
        ];
        of_event.extend(last.map(|(event, _)| (EVENT, event)));
        of_event.extend(fill.map(|fill| (RING_FILL, fill.to_string())));
        (self.seen, self.started) = (asked, Some(now));
        self.runs += 1;
        match spawn(&self.command, &self.environment, &of_event) {
            Ok(pid) => self.running = Some(Running { pid, why }),
            Err(error) => {
                self.failed += 1;
                note!(self.notices, Triggers, "`{}` could not be started: {error:#} ({why})", self.command);
            }
        }
    }

    /// The event that asked last, by its time.
    fn last(&self, segment: &Segment, last: usize) -> (String, u64) {
        let number = |bytes: &[u8]| bytes.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes));
        let entries = segment.map(last).entries();
        let newest = entries.iter().map(|(event, time)| (number(time), number(event))).max();
        let (time, event) = newest.unwrap_or_default();
        let name = usize::try_from(event).ok().and_then(|event| self.names.get(event));
        // A process that may not read the clock has no times of its own.
        (name.cloned().unwrap_or_default(), if time == 0 { now_ns() } else { time })
    }
}

/// ns of CLOCK_MONOTONIC as ns since 1970.
fn since_1970(time: u64) -> i128 {
    let real = clock_gettime(ClockId::CLOCK_REALTIME)
        .map_or(0, |now| i128::from(now.tv_sec()) * 1_000_000_000 + i128::from(now.tv_nsec()));
    real - i128::from(now_ns()) + i128::from(time)
}

/// Starts `sh -c COMMAND` in a process group of its own: std's would have weir's signals blocked.
fn spawn(
    command: &str,
    environment: &[(String, String)],
    of_event: &[(&str, String)],
) -> anyhow::Result<Pid> {
    let null = File::open("/dev/null").context("/dev/null")?;
    let mut files = PosixSpawnFileActions::init()?;
    files.add_dup2(null.as_raw_fd(), 0)?;
    files.add_dup2(2, 1)?;
    let mut attributes = PosixSpawnAttr::init()?;
    let flags = PosixSpawnFlags::POSIX_SPAWN_SETSIGMASK
        | PosixSpawnFlags::POSIX_SPAWN_SETSIGDEF
        | PosixSpawnFlags::POSIX_SPAWN_SETPGROUP;
    attributes.set_flags(flags)?;
    attributes.set_sigmask(&SigSet::empty())?;
    attributes.set_sigdefault(&SigSet::from_iter([Signal::SIGPIPE]))?;
    attributes.set_pgroup(Pid::from_raw(0))?;
    let arguments = ["sh", "-c", command].map(CString::new).into_iter().collect::<Result<Vec<_>, _>>()?;
    let own: Vec<(&str, &str)> = environment.iter().map(|(name, value)| (&name[..], &value[..])).collect();
    let of_event = of_event.iter().map(|(name, value)| (*name, &value[..]));
    let own: Vec<(&str, &str)> = own.into_iter().chain(of_event).collect();
    let inherited = std::env::vars_os().filter(|(name, _)| VARIABLES.iter().all(|own| name != own));
    let mut variables = Vec::new();
    for (name, value) in inherited {
        variables.push(CString::new([&name.into_vec()[..], b"=", &value.into_vec()[..]].concat())?);
    }
    for (name, value) in own {
        variables.push(CString::new(format!("{name}={value}"))?);
    }
    posix_spawn("/bin/sh", &files, &attributes, &arguments, &variables).context("/bin/sh")
}
