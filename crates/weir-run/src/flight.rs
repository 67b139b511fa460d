//! The flight recorder of `weir record --overwrite`: events stay in the rings, and what is in them is written when it is asked for.
//!
//! In: rings that overwrite, and who asks: an event ([`asked`]), SIGUSR1 ([`Sink::ask`]), the daemon of sessions ([`Sink::want`]), the end of
//! the run. Out: of each time a folder with a whole trace of its own ([`snapshot`]), below the one that was named. It is written under a
//! hidden name, and renamed when it is whole.
//!
//! Guaranteed: an event that asks is in the snapshot that it is the first to ask for, with what was in the rings before it. In each
//! snapshot recorded + discarded are all that were emitted until then; discarded are the overwritten too. Nothing is taken out of the
//! rings: snapshots may overlap.
//!
//! A snapshot that cannot be written is told, and leaves nothing behind; the next is tried again. At most so many are kept as were asked
//! for, the newest. A folder in which there is none because the run could not begin is removed again.

mod asked;
mod snapshot;
mod times;

use std::collections::VecDeque;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow};
use jiff::Timestamp;
use jiff::tz::TimeZone;
use weir_codegen::{Compiled, EVENT_BYTES, EVENT_CUT, EVENT_LOST, GLOBAL_NO_SCRATCH};
use weir_event::recorded;
use weir_event::schema::Schema;
use weir_rt::Clock;
use weir_rt::segment::{RingCopy, Segment};
use weir_sessions::counts::Counts;
use weir_sessions::recorded::Snapshots;
use weir_sessions::trace;
use weir_trace::private;
use weir_trace::write::{Format, metadata};

use crate::clock::now_ns;
use crate::failure::Failure;
use crate::notice::{Notice, Notices, note};
use crate::options::RecordOptions;
use crate::part::Round;
use crate::recorder::{full_name, is_free, word};
use crate::sink::{Ending, Finished, Sink};

use self::asked::Asked;
use self::snapshot::{Content, Written};
use self::times::Times;

/// A flight recorder while it runs.
pub(crate) struct Flight {
    path: PathBuf,
    /// The folder was made for this run.
    is_made: bool,
    has_begun: bool,
    is_quiet: bool,
    notices: Notices,
    events: Vec<Schema>,
    context_fields: usize,
    format: Format,
    reader: recorded::Reader,
    ring: usize,
    counts: Option<usize>,
    globals: usize,
    /// ns of CLOCK_MONOTONIC.
    began: u64,
    times: Times,
    /// Looked up before anything is held.
    zone: TimeZone,
    /// By events.
    asked: Option<Asked>,
    /// By a signal, and not answered yet.
    is_asked: bool,
    /// By the daemon of sessions, and not answered yet: so often.
    wanted: usize,
    /// What came of that.
    answers: Vec<Result<String, String>>,
    is_of_session: bool,
    at_end: bool,
    kept_max: usize,
    /// The oldest first.
    kept: VecDeque<PathBuf>,
    taken: u64,
    failed: u64,
}

/// Who has asked for a snapshot.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Why {
    Event,
    Signal,
    Command,
    End,
}

impl Why {
    fn name(self) -> &'static str {
        match self {
            Why::Event => "event",
            Why::Signal => "signal",
            Why::Command => "command",
            Why::End => "end",
        }
    }
}

impl Flight {
    /// Makes the folder. The first `context_fields` fields of each event are context.
    pub(crate) fn create(
        options: &RecordOptions,
        compiled: &Compiled,
        context_fields: usize,
        notices: &Notices,
        is_quiet: bool,
    ) -> Result<Flight, Failure> {
        // SANITY: it is one that takes snapshots.
        let snapshots = options.snapshots.as_ref().expect("options of snapshots");
        let path = options.output.clone();
        let is_made = is_free(&path)?;
        let events = compiled.schema.events.clone();
        let format = options.format;
        let described =
            metadata(&trace::class(&events, context_fields, &[]).map_err(Failure::Machine)?, format);
        described.map_err(|message| Failure::Refused(anyhow!("-o {}: {message}", path.display())))?;
        let made = private::make_folder(&path).with_context(|| format!("-o: cannot make {}", path.display()));
        made.map_err(Failure::Refused)?;
        Ok(Flight {
            is_made,
            has_begun: false,
            is_quiet,
            notices: notices.clone(),
            reader: recorded::Reader::new(&events),
            events,
            context_fields,
            format,
            ring: compiled.ring as usize,
            counts: compiled.events.map(|map| map as usize),
            globals: compiled.globals as usize,
            began: now_ns(),
            times: Times::default(),
            zone: TimeZone::try_system().unwrap_or(TimeZone::UTC),
            asked: Asked::new(snapshots, compiled),
            is_asked: false,
            wanted: 0,
            answers: Vec::new(),
            is_of_session: options.session.is_some(),
            at_end: snapshots.at_end,
            kept_max: usize::try_from(snapshots.kept).unwrap_or(usize::MAX),
            kept: VecDeque::new(),
            taken: 0,
            failed: 0,
            path,
        })
    }

    /// One snapshot for all that the daemon has asked for until now.
    fn answer(&mut self, segment: &Segment, clock: Option<&Clock>) {
        let wanted = std::mem::take(&mut self.wanted);
        if wanted > 0 {
            let taken = self.take(segment, clock, Why::Command);
            self.answers.extend(vec![taken; wanted]);
        }
    }

    /// Takes what is left to take; what it came to.
    fn finish(&mut self, segment: &Segment, clock: Option<&Clock>) -> Snapshots {
        self.has_begun = true;
        self.answer(segment, clock);
        let is_due = self.asked.as_mut().is_some_and(|asked| asked.is_left(segment));
        match (is_due, self.is_asked, self.at_end) {
            (.., true) => _ = self.take(segment, clock, Why::End),
            (true, ..) => _ = self.take(segment, clock, Why::Event),
            (_, true, _) => _ = self.take(segment, clock, Why::Signal),
            (false, false, false) => {}
        }
        let count = |event: usize, what: i32| match self.counts {
            Some(map) => word(segment, map, (event * EVENT_BYTES as usize) as i32 + what),
            None => 0,
        };
        let names = self.events.iter().map(full_name).enumerate();
        let events = names.map(|(event, name)| (name, count(event, EVENT_LOST), count(event, EVENT_CUT)));
        Snapshots {
            events: events.collect(),
            is_of_session: self.is_of_session,
            path: self.path.clone(),
            taken: self.taken,
            removed: self.taken - self.kept.len() as u64,
            failed: self.failed,
            asked: self.asked.as_ref().map_or(0, |asked| asked.all(segment)),
            shared: self.asked.as_ref().map_or(0, |asked| asked.shared(segment)),
            held: self.asked.as_ref().map_or(0, |asked| asked.held(segment)),
        }
    }

    /// Writes what is in the rings now to a folder that is not there yet, or empty. Events that have asked until now are answered by it.
    pub(crate) fn snapshot_into(
        &mut self,
        folder: &Path,
        segment: &Segment,
        clock: Option<&Clock>,
        why: Why,
    ) -> anyhow::Result<Written> {
        let left_out = self.asked.as_ref().map_or(0, |asked| asked.left_out(segment));
        let no_scratch = word(segment, self.globals, GLOBAL_NO_SCRATCH);
        let asked = self.asked.as_ref().map(|asked| asked.all(segment));
        let rings = segment.flight(self.ring);
        let copies: Vec<RingCopy> = (0..rings.rings()).map(|lane| rings.copy(lane)).collect();
        if let Some((of_events, asked)) = self.asked.as_mut().zip(asked) {
            of_events.answered(segment, asked, Instant::now());
        }
        let content = Content {
            format: self.format,
            began: self.began,
            reader: &self.reader,
            ns: &self.times.reader(clock),
            unwritten: left_out + no_scratch,
        };
        let class = trace::class(&self.events, self.context_fields, &[("snapshot", why.name())])
            .map_err(Failure::Machine);
        let class = class.map_err(|failure| anyhow!("{failure}"))?;
        Ok(snapshot::write(folder, &class, copies, &content)?)
    }

    /// A snapshot in a folder of its own, and its name; what goes wrong is told.
    fn take(&mut self, segment: &Segment, clock: Option<&Clock>, why: Why) -> Result<String, String> {
        let time = self.zone.to_datetime(Timestamp::now()).strftime("%Y%m%d-%H%M%S");
        let name = format!("snapshot-{:06}-{time}", self.taken + 1);
        let (hidden, path) = (self.path.join(format!(".{name}")), self.path.join(&name));
        let written = self.snapshot_into(&hidden, segment, clock, why).and_then(|written| {
            fs::rename(&hidden, &path).with_context(|| format!("cannot make {}", path.display()))?;
            Ok(written)
        });
        match written {
            Ok(written) => {
                self.taken += 1;
                self.kept.push_back(path);
                if !self.is_quiet {
                    let (name, what) = (name.clone(), written.to_string());
                    self.notices.send(Notice::Snapshot { name, what, why: why.name() });
                }
                self.remove_oldest();
                Ok(name)
            }
            Err(error) => {
                self.failed += 1;
                let _ = fs::remove_dir_all(&hidden);
                note!(
                    self.notices,
                    Recording,
                    "no snapshot: {error:#}; the next one that is asked for is tried again"
                );
                Err(format!("{error:#}"))
            }
        }
    }

    /// Those that are more than are kept. Nobody sees half of one.
    fn remove_oldest(&mut self) {
        while self.kept.len() > self.kept_max
            && let Some(oldest) = self.kept.pop_front()
        {
            let name = oldest.file_name().unwrap_or_default().to_string_lossy();
            let hidden = oldest.with_file_name(format!(".{name}"));
            // One that somebody else has moved away is no longer ours.
            if fs::rename(&oldest, &hidden).is_ok()
                && let Err(error) = fs::remove_dir_all(&hidden)
            {
                note!(self.notices, Recording, "cannot remove {}: {error}", hidden.display());
            }
        }
    }
}

impl Sink for Flight {
    fn begins(&mut self) {
        self.has_begun = true;
    }

    /// Takes a snapshot if one is asked for.
    fn read(&mut self, round: &mut Round<'_>) -> Result<(), Failure> {
        let (segment, clock) = (round.segment, round.clock);
        self.times.note(clock);
        let is_due = self.asked.as_mut().is_some_and(|asked| asked.look(segment, Instant::now()));
        if is_due {
            let _ = self.take(segment, clock, Why::Event);
        }
        if std::mem::take(&mut self.is_asked) {
            let _ = self.take(segment, clock, Why::Signal);
        }
        self.answer(segment, clock);
        Ok(())
    }

    fn until(&self, _: bool) -> Duration {
        match self.is_asked || self.wanted > 0 {
            true => Duration::ZERO,
            false => self.asked.as_ref().map_or(Duration::MAX, |asked| asked.until_look(Instant::now())),
        }
    }

    fn ask(&mut self) {
        self.is_asked = true;
    }

    fn want(&mut self, snapshots: usize) {
        self.wanted += snapshots;
    }

    fn answers(&mut self) -> Vec<Result<String, String>> {
        std::mem::take(&mut self.answers)
    }

    /// How much is in the rings is known when they are copied.
    fn counts(&mut self, _: &Segment) -> Counts {
        Counts { snapshots: self.taken, has_failed: self.failed > 0, ..Counts::default() }
    }

    fn end(mut self: Box<Self>, round: &mut Round<'_>, _: &mut Ending<'_>) -> Result<Finished, Failure> {
        let snapshots = self.finish(round.segment, round.clock);
        let (has_failed, is_quiet) = (snapshots.has_failed(), self.is_quiet);
        Ok(Finished {
            fill: 0,
            captured: None,
            counts: self.counts(round.segment),
            answers: self.answers(),
            has_failed,
            notice: (!is_quiet).then_some(Notice::Snapshots(snapshots)),
        })
    }
}

impl Drop for Flight {
    fn drop(&mut self) {
        if !self.has_begun && self.is_made {
            let _ = fs::remove_dir(&self.path);
        }
    }
}
