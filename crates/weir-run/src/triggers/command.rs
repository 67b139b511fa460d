//! `--run-on` and `--run-on-fill`: starts a command when events ask for it, or a ring fills, as a child of weir's, and reports how it ended.
//!
//! In: how many events have asked, when the last of each name did, and the record of the newest; how full the rings were. Out: a process, `sh -c COMMAND`, with the event in its environment:
//!
//! | variable | is |
//! |---|---|
//! | `WEIR_EVENT` | the event that asked last, as PROVIDER:EVENT; not there where none has |
//! | `WEIR_TIME` | when it came, ns since 1970; without an event: now |
//! | `WEIR_FIELD_…` | each of its fields, where its record was read ([`Captured::variables`]) |
//! | `WEIR_RING_FILL` | how full the fullest ring was since the last start, in percent, where it was as full as was asked for |
//! | `WEIR_EVENTS` | how many have asked since the last start |
//! | `WEIR_FOLDER` | where is recorded into |
//! | `WEIR_SESSION` | the session, where it is one |
//!
//! One at a time, and one start in an interval; events that ask in between share the next start. Every event that asks is behind a start: at the end
//! of the run, too. A start waits until the records are read that were in the rings when the event asked, and for [`RECORD_WAIT`] at most: event, time and fields
//! are of the newest that asked and was read. Where none was (the ring had no room, or a flight recorder leaves all in its rings) there are no fields, and event and time
//! are what the programs have noted of the last. A command that still runs then is waited for no longer than [`END_WAIT`], and runs on. It has no signal blocked, no
//! input, and weir's standard error for what it says; nothing of it is in a traced process.

use std::ffi::{CString, OsStr};
use std::fs::File;
use std::os::fd::AsRawFd as _;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use nix::errno::Errno;
use nix::spawn::{PosixSpawnAttr, PosixSpawnFileActions, PosixSpawnFlags, posix_spawn};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::time::{ClockId, clock_gettime};
use nix::unistd::Pid;
use weir_event::schema::Schema;
use weir_rt::segment::{RingMark, Segment};

use crate::captured::{Captured, FIELD};
use crate::clock::now_ns;
use crate::notice::{Notices, note};
use crate::recorder::{full_name, word};
use crate::sink::Sink;

/// How long the end of a run waits for a command.
const END_WAIT: Duration = Duration::from_secs(1);

/// How long a start waits for the record of the event that asked.
const RECORD_WAIT: Duration = Duration::from_millis(100);

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
    /// By number, and how many fields of each are context.
    schemas: (Vec<Schema>, usize),
    command: String,
    /// What each command has in its environment.
    environment: Vec<(String, String)>,
    interval: Duration,
    /// So many had asked at the last start.
    seen: u64,
    /// More have since then: what they have recorded is being read.
    reading: Option<Reading>,
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

/// Events have asked.
struct Reading {
    /// So many in all.
    asked: u64,
    /// How far there were records then.
    mark: Option<RingMark>,
    since: Instant,
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
        schemas: (Vec<Schema>, usize),
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
            schemas,
            command,
            environment,
            interval,
            seen: 0,
            reading: None,
            started: None,
            running: None,
            runs: 0,
            failed: 0,
            notices: notices.clone(),
        }
    }

    /// Takes the end of the one that runs, and starts the next if it is time.
    pub(super) fn look(&mut self, segment: &Segment, sink: &mut dyn Sink, now: Instant) {
        self.fills(sink.fill());
        self.reap();
        let has_passed = self.started.is_none_or(|at| now.duration_since(at) >= self.interval);
        if self.running.is_some() || !has_passed {
            return;
        }
        // In this order: an event asks when its record is in the ring.
        let now_asked = Reading { asked: self.asked(segment), mark: None, since: now };
        let mut reading = self.reading.take().unwrap_or(now_asked);
        if reading.asked == self.seen {
            return self.start(segment, reading.asked, None, now);
        }
        let waits = now.duration_since(reading.since) < RECORD_WAIT;
        match sink.captured(&mut reading.mark, waits) {
            Some(captured) => self.start(segment, reading.asked, captured, now),
            None => self.reading = Some(reading),
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
    pub(super) fn finish(mut self, segment: &Segment, captured: Option<Captured>, is_quiet: bool) {
        let began = Instant::now();
        let mut is_late = self.wait(began);
        if !is_late {
            self.start(segment, self.asked(segment), captured, Instant::now());
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

    /// Starts it if an event has asked since the last start, or a ring was as full. `asked`: how many events have, `captured`: the newest of them.
    fn start(&mut self, segment: &Segment, asked: u64, captured: Option<Captured>, now: Instant) {
        let fill = self.fill.as_mut().and_then(|fill| fill.asked.take());
        let captured = captured.filter(|_| asked != self.seen);
        let noted = |(_, last)| match &captured {
            Some(captured) => (self.name(captured.event.into()), captured.time),
            None => self.last(segment, last),
        };
        let last = self.events.filter(|_| asked != self.seen).map(noted);
        let (why, time) = match (&last, fill) {
            (Some((event, time)), _) => (format!("{event}, --run-on"), *time),
            (None, Some(fill)) => (format!("a ring was filled to {fill}%, --run-on-fill"), now_ns()),
            (None, None) => return,
        };
        let own = |(name, text): (&str, String)| (name.to_owned(), text.into_bytes());
        let mut of_event = vec![
            own(("WEIR_TIME", since_1970(time).to_string())),
            own(("WEIR_EVENTS", (asked - self.seen).to_string())),
        ];
        of_event.extend(last.map(|(event, _)| own((EVENT, event))));
        of_event.extend(fill.map(|fill| own((RING_FILL, fill.to_string()))));
        let schema = |captured: &Captured| self.schemas.0.get(captured.event as usize);
        if let Some((captured, schema)) = captured.as_ref().and_then(|of| Some((of, schema(of)?))) {
            of_event.extend(captured.variables(schema, self.schemas.1));
        }
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
        // A process that may not read the clock has no times of its own.
        (self.name(event), if time == 0 { now_ns() } else { time })
    }

    fn name(&self, event: u64) -> String {
        let schema = usize::try_from(event).ok().and_then(|event| self.schemas.0.get(event));
        schema.map(full_name).unwrap_or_default()
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
    of_event: &[(String, Vec<u8>)],
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
    let environment = environment.iter().map(|(name, value)| (name, value.as_bytes()));
    let own = environment.chain(of_event.iter().map(|(name, value)| (name, &value[..])));
    let is_own = |name: &OsStr| {
        VARIABLES.iter().any(|own| name == *own) || name.as_bytes().starts_with(FIELD.as_bytes())
    };
    let inherited = std::env::vars_os().filter(|(name, _)| !is_own(name));
    let mut variables = Vec::new();
    for (name, value) in inherited {
        variables.push(CString::new([&name.into_vec()[..], b"=", &value.into_vec()[..]].concat())?);
    }
    for (name, value) in own {
        variables.push(CString::new([name.as_bytes(), b"=", value].concat())?);
    }
    posix_spawn("/bin/sh", &files, &attributes, &arguments, &variables).context("/bin/sh")
}
