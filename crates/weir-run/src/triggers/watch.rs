//! What events have asked for, seen by weir while a recording runs: the gate of `--start-on` and `--stop-on`, `--rotate-on`, `--run-on`.
//!
//! Programs set the words ([`weir_ir::trigger`]); this reads them every [`LOOK_INTERVAL`]. The gate is shut and opened in the process itself,
//! with the event; all else comes behind it by that interval.

use std::time::{Duration, Instant};

use weir_codegen::Compiled;
use weir_rt::segment::Segment;

use crate::failure::Failure;
use crate::notice::{Notices, note};
use crate::options::RecordOptions;
use crate::part::{Part, Requests, Round};
use crate::recorder::word;
use crate::sink::{Finished, Sink};
use crate::triggers::command::Commands;
use crate::triggers::{GATE, ROTATE, RUN, index, set};

/// How often it is looked at.
const LOOK_INTERVAL: Duration = Duration::from_millis(5);

pub(crate) struct Watch {
    gate: Option<Gate>,
    rotate: Option<Rotate>,
    commands: Option<Commands>,
    is_quiet: bool,
    notices: Notices,
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
struct Due {
    /// The recording is over.
    stop: bool,
    /// The next folder is to begin.
    rotate: bool,
}

impl Watch {
    /// None where events do nothing of this. The first `context_fields` fields of each event are context.
    pub(crate) fn new(
        options: &RecordOptions,
        context_fields: usize,
        compiled: &Compiled,
        is_quiet: bool,
        notices: &Notices,
    ) -> Option<Watch> {
        let triggers = &options.triggers;
        let [closed, outside, started, stopped] = GATE.map(|name| index(compiled, name));
        let starts = triggers.start_on.is_some();
        let gate =
            closed.zip(outside).zip(started.zip(stopped)).map(|((closed, outside), (started, stopped))| {
                Gate { closed, outside, started, stopped, starts }
            });
        let rotate = index(compiled, ROTATE).map(|asked| Rotate {
            asked,
            seen: 0,
            is_asked: false,
            interval: triggers.rotate_interval,
            since: Instant::now(),
        });
        let [asked, last] = RUN.map(|name| index(compiled, name));
        let (maps, fill) = (asked.zip(last), triggers.run_on_fill);
        let command = triggers.run.as_deref().filter(|_| maps.is_some() || fill.is_some());
        let commands = command.map(|command| {
            let folder = match &options.pipe {
                None => std::path::absolute(&options.output).unwrap_or_else(|_| options.output.clone()),
                Some(_) => options.output.clone(),
            };
            let interval = triggers.run_interval;
            Commands::new(
                (maps, fill),
                (compiled.schema.events.clone(), context_fields),
                command,
                interval,
                &folder,
                options.session.as_deref(),
                notices,
            )
        });
        let is_any = gate.is_some() || rotate.is_some() || commands.is_some();
        is_any.then(|| Watch { gate, rotate, commands, is_quiet, notices: notices.clone() })
    }

    /// What events ask for now; commands are started.
    fn due(&mut self, segment: &Segment, sink: &mut dyn Sink) -> Due {
        if let Some(commands) = &mut self.commands {
            commands.look(segment, sink, Instant::now());
        }
        let has_stopped = |gate: &Gate| !gate.starts && word(segment, gate.stopped, 0) > 0;
        Due {
            stop: self.gate.as_ref().is_some_and(has_stopped),
            rotate: self.rotate.as_mut().is_some_and(|rotate| rotate.look(segment)),
        }
    }

    /// Nothing is recorded until an event starts it.
    fn is_waiting(&self, segment: &Segment) -> bool {
        let is_closed = |gate: &Gate| gate.starts && word(segment, gate.closed, 0) != 0;
        self.gate.as_ref().is_some_and(is_closed)
    }
}

impl Part for Watch {
    fn begin(&mut self, segment: &Segment, requests: &mut Requests) {
        // The recording before this one was started by an event.
        let is_open = requests.opened.take().unwrap_or(false);
        if let Some(gate) = self.gate.as_ref().filter(|gate| gate.starts && !is_open) {
            set(segment, gate.closed, 1);
        }
        if let Some(rotate) = &mut self.rotate {
            rotate.since = Instant::now();
        }
    }

    fn look(&mut self, round: &mut Round<'_>, _: &mut dyn Sink) -> Result<(), Failure> {
        // An event has started or stopped the recording before this one, whose state this one takes over.
        if let (Some(gate), Some(is_open)) =
            (self.gate.as_ref().filter(|gate| gate.starts), round.requests.opened.take())
        {
            set(round.segment, gate.closed, u64::from(!is_open));
        }
        if let (Some(commands), Some(folder)) = (&mut self.commands, round.requests.folder.take()) {
            commands.goes_on_in(&folder);
        }
        Ok(())
    }

    fn round(&mut self, round: &mut Round<'_>, sink: &mut dyn Sink) -> Result<(), Failure> {
        let due = self.due(round.segment, sink);
        round.requests.rotate |= due.rotate;
        round.requests.is_waiting = self.is_waiting(round.segment);
        if due.stop {
            round.requests.stopped = true;
            round.output.ask_to_exit(0);
        }
        Ok(())
    }

    fn until(&self) -> Duration {
        LOOK_INTERVAL
    }

    fn leaves(&mut self, segment: &Segment, requests: &mut Requests) {
        requests.is_waiting = self.is_waiting(segment);
    }

    /// A command that was asked for and was not run is run now.
    fn end(&mut self, segment: &Segment, _: &Requests, finished: &Finished) {
        if let Some(gate) = self.gate.as_ref().filter(|_| !self.is_quiet) {
            let say = |map: usize, what: &str| {
                let count = word(segment, map, 0);
                if count > 0 {
                    note!(self.notices, Triggers, "  {count} {what}");
                }
            };
            say(gate.started, "events started the recording (--start-on)");
            say(gate.stopped, "events stopped it (--stop-on)");
            say(gate.outside, "events came while it was stopped, and are not in it");
        }
        if let Some(mut commands) = self.commands.take() {
            commands.fills(finished.fill);
            commands.finish(segment, finished.captured.clone(), self.is_quiet);
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
