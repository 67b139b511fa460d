//! What events have asked for, seen by weir while a recording runs: the gate of `--start-on` and `--stop-on`, `--rotate-on`, `--run-on`.
//!
//! Programs set the words ([`weir_ir::trigger`]); this reads them every [`LOOK_INTERVAL`]. The gate is shut and opened in the process itself,
//! with the event; all else comes behind it by that interval.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use weir_codegen::Compiled;
use weir_rt::segment::Segment;

use super::command::Commands;
use super::{GATE, ROTATE, RUN, index, set};
use crate::args::record::Record;
use crate::print::tell;
use crate::session::recorder::{full_name, word};

/// How often it is looked at.
pub(crate) const LOOK_INTERVAL: Duration = Duration::from_millis(5);

pub(crate) struct Watch {
    gate: Option<Gate>,
    rotate: Option<Rotate>,
    commands: Option<Commands>,
    is_quiet: bool,
}

struct Gate {
    closed: usize,
    outside: usize,
    started: usize,
    stopped: usize,
    /// An event may open it.
    starts: bool,
}

struct Rotate {
    asked: usize,
    /// So many had asked at the last look.
    seen: u64,
    is_asked: bool,
    interval: Duration,
    since: Instant,
}

/// What is to be done.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Due {
    /// The recording is over.
    pub(crate) stop: bool,
    /// The daemon is to begin the next folder.
    pub(crate) rotate: bool,
}

impl Watch {
    /// None where events do nothing of this.
    pub(crate) fn new(args: &Record, compiled: &Compiled) -> Option<Watch> {
        let [closed, outside, started, stopped] = GATE.map(|name| index(compiled, name));
        let starts = args.triggers.start_on.is_some();
        let gate =
            closed.zip(outside).zip(started.zip(stopped)).map(|((closed, outside), (started, stopped))| {
                Gate { closed, outside, started, stopped, starts }
            });
        let rotate = index(compiled, ROTATE).map(|asked| Rotate {
            asked,
            seen: 0,
            is_asked: false,
            interval: args.triggers.rotate_interval,
            since: Instant::now(),
        });
        let [asked, last] = RUN.map(|name| index(compiled, name));
        let commands = asked.zip(last).zip(args.triggers.run.as_deref()).map(|(maps, command)| {
            let names = compiled.schema.events.iter().map(full_name).collect();
            let folder = std::path::absolute(&args.output).unwrap_or_else(|_| PathBuf::from(&args.output));
            let interval = args.triggers.run_interval;
            Commands::new(maps, names, command, interval, &folder, args.tended_as.as_deref())
        });
        let is_any = gate.is_some() || rotate.is_some() || commands.is_some();
        is_any.then_some(Watch { gate, rotate, commands, is_quiet: args.quiet })
    }

    /// Before anything is probed. `is_open`: the recording before this one was started by an event.
    pub(crate) fn begin(&mut self, segment: &Segment, is_open: bool) {
        if let Some(gate) = self.gate.as_ref().filter(|gate| gate.starts && !is_open) {
            set(segment, gate.closed, 1);
        }
        if let Some(rotate) = &mut self.rotate {
            rotate.since = Instant::now();
        }
    }

    /// An event has started or stopped the recording before this one, whose state this one takes over.
    pub(crate) fn open(&self, segment: &Segment, is_open: bool) {
        if let Some(gate) = self.gate.as_ref().filter(|gate| gate.starts) {
            set(segment, gate.closed, u64::from(!is_open));
        }
    }

    /// What events ask for now; commands are started.
    pub(crate) fn look(&mut self, segment: &Segment) -> Due {
        if let Some(commands) = &mut self.commands {
            commands.look(segment, Instant::now());
        }
        let has_stopped = |gate: &Gate| !gate.starts && word(segment, gate.stopped, 0) > 0;
        Due {
            stop: self.gate.as_ref().is_some_and(has_stopped),
            rotate: self.rotate.as_mut().is_some_and(|rotate| rotate.look(segment)),
        }
    }

    /// The folder that is written is another one from now on.
    pub(crate) fn goes_on_in(&mut self, folder: &Path) {
        if let Some(commands) = &mut self.commands {
            commands.goes_on_in(folder);
        }
    }

    /// Nothing is recorded until an event starts it.
    pub(crate) fn is_waiting(&self, segment: &Segment) -> bool {
        let is_closed = |gate: &Gate| gate.starts && word(segment, gate.closed, 0) != 0;
        self.gate.as_ref().is_some_and(is_closed)
    }

    /// What is told at the end, behind what the recording came to. A command that was asked for and was not run is run now.
    pub(crate) fn finish(self, segment: &Segment) {
        if let Some(gate) = self.gate.as_ref().filter(|_| !self.is_quiet) {
            let say = |map: usize, what: &str| {
                let count = word(segment, map, 0);
                if count > 0 {
                    tell!("weir:   {count} {what}");
                }
            };
            say(gate.started, "events started the recording (--start-on)");
            say(gate.stopped, "events stopped it (--stop-on)");
            say(gate.outside, "events came while it was stopped, and are not in it");
        }
        if let Some(commands) = self.commands {
            commands.finish(segment, self.is_quiet);
        }
    }
}

impl Rotate {
    fn look(&mut self, segment: &Segment) -> bool {
        let asked = word(segment, self.asked, 0);
        self.is_asked |= asked != self.seen;
        self.seen = asked;
        let is_due = self.is_asked && self.since.elapsed() >= self.interval;
        if is_due {
            (self.is_asked, self.since) = (false, Instant::now());
        }
        is_due
    }
}
