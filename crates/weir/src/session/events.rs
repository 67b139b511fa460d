//! The part of a run while the target runs: reads the ring, does what records ask for, runs intervals, and notices
//! when it is time to end (exit(), Ctrl-C, the end of the target).
//!
//! What a descriptor tells is seen at once: signals, the end of a process, news of its libraries. What none tells is looked for,
//! as often as it needs:
//!
//! | what | how often |
//! |---|---|
//! | records, of scripts that write any in a process (those of events are read by [`Drain`]); maps that may have to grow | [`READ_INTERVAL`] |
//! | processes that came, or execute another program | [`LOOK_INTERVAL`] |
//! | intervals, meters | when they are due |
//! | the clock | when it is due, or somewhat later |

use std::io::Write;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::SigSet;
use nix::sys::signalfd::{SfdFlags, SignalFd};
use weir_codegen::Compiled;
use weir_event::Schema;
use weir_probe::Launched;
use weir_process::watch::LOOK_INTERVAL;
use weir_report::{ProcessLine, Report, Summary};
use weir_rt::Clock;
use weir_rt::segment::Segment;
use weir_sessions::counts::Counts;
use weir_verifier::VerifiedProgram;

use crate::failure::Failure;
use crate::live::Live;
use crate::print::tell;
use crate::session::controller::{Controller, InWeir};
use crate::session::costs::Costs;
use crate::session::decider::Decider;
use crate::session::drain::Drain;
use crate::session::flight::Flight;
use crate::session::gone::Gone;
use crate::session::now_ns;
use crate::session::output::{Output, tell_losses};
use crate::session::recorder::{Recorded, Recorder};
use crate::session::roll::Roll;
use crate::session::targets::Targets;
use crate::session::tended::{HandOver, Tended};
use crate::session::triggers::{self, Watch};

/// How long records may lie in the ring before they are read, and a map be without what it has to grow by.
pub(super) const READ_INTERVAL: Duration = Duration::from_millis(5);

/// How often the ring is asked whether somebody who is gone holds it up.
const SKIP_INTERVAL: Duration = Duration::from_secs(1);

/// How long the end of a run waits for records that are being written. A reader gives up on one after a tenth of a second.
const REST_WAIT: Duration = Duration::from_millis(200);

/// Records read in a row before signals and the end of the target are looked at again.
const RECORDS_PER_ROUND: usize = 4096;

/// What a run ends with whose trace could not be written (3: the machine refused).
const FAILED: i64 = 3;

/// How often threads are waited for that are still held, before processes are handed over.
const LATE_LOOKS_MAX: usize = 100;

/// How often the rings are read at the end of a recording.
const LAST_TURNS_MAX: usize = 1024;

pub(crate) struct Events<'a, W: Write> {
    /// What the script prints.
    output: Output<'a, W>,
    /// The last maps of the schema are of its program, whose first one has this number.
    decider: Option<(&'a Decider, u32)>,
    ring: usize,
    controller: Controller<'a>,
    verified: &'a [VerifiedProgram],
    signals: SignalFd,
    /// When processes were looked at last.
    looked: Option<Instant>,
    gone: Gone,
    skipped: Instant,
    costs: Costs,
    live: Option<Live>,
    /// Its user has ended the run.
    is_stopped: bool,
    /// A map that cannot grow was told.
    is_outgrown: bool,
    /// Has the records of events; there are no others then.
    drain: Option<Drain>,
    /// The same where they stay in the rings.
    flight: Option<Flight>,
    /// What events of a recording ask for.
    asked: Option<Watch>,
    /// Who tends a recording.
    tended: Option<Tended>,
    /// Kept while processes run, if nobody else keeps it; the times of records are read off it.
    clock: Option<Clock>,
}

impl<'a, W: Write> Events<'a, W> {
    /// `signals` are blocked already.
    pub(crate) fn new(
        compiled: &'a Compiled,
        decider: Option<&'a Decider>,
        verified: &'a [VerifiedProgram],
        signals: SigSet,
        report: Report<W>,
        costs: Costs,
    ) -> Result<Events<'a, W>, Failure> {
        let flags = SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC;
        let signals = SignalFd::with_flags(&signals, flags).context("signalfd").map_err(Failure::Machine)?;
        Ok(Events {
            output: Output::new(compiled, report),
            decider: decider.map(|decider| (decider, compiled.callee_maps)),
            ring: compiled.ring as usize,
            controller: Controller::new(compiled),
            verified,
            signals,
            looked: None,
            gone: Gone::new(),
            skipped: Instant::now(),
            costs,
            live: None,
            is_stopped: false,
            is_outgrown: false,
            drain: None,
            flight: None,
            asked: None,
            tended: None,
            clock: None,
        })
    }

    /// From now on all records are of events, and go there, at times that `clock` tells.
    pub(crate) fn record_to(
        &mut self,
        recorder: Recorder,
        clock: Option<Clock>,
        segment: &Arc<Segment>,
    ) -> Result<(), Failure> {
        self.drain = Some(Drain::start(recorder, clock, Arc::clone(segment))?);
        Ok(())
    }

    /// From now on all records are of events, and stay where they are.
    pub(crate) fn fly(&mut self, flight: Flight) {
        self.flight = Some(flight);
    }

    /// From now on events may ask for something.
    pub(crate) fn ask(&mut self, asked: Watch) {
        self.asked = Some(asked);
    }

    /// From now on the daemon of sessions is told how far it is.
    pub(crate) fn tend(&mut self, tended: Tended) {
        self.tended = Some(tended);
    }

    /// Runs the BEGIN probes, and does what they ask for.
    pub(crate) fn begin(&mut self, segment: &Segment) -> Result<(), Failure> {
        if let Some(asked) = &mut self.asked {
            asked.begin(segment, self.tended.as_ref().is_some_and(|tended| tended.is_open));
        }
        self.controller.begin(&InWeir { verified: self.verified, segment })?;
        self.grow(segment, None);
        self.read_all(segment)
    }

    /// Looks at what a traced process maps, for the names of its addresses.
    pub(crate) fn look(&mut self, pid: i32) {
        self.gone.look_at([pid].into_iter());
        self.output.symbols.look(pid);
    }

    /// Until exit() is called, a signal asks for the end, or all targets have ended. `clock` is kept meanwhile.
    pub(crate) fn watch(
        &mut self,
        segment: &Segment,
        mut targets: Option<(&mut Targets, &mut Roll)>,
        mut launched: Option<&mut Launched>,
        clock: Option<Clock>,
    ) -> Result<(), Failure> {
        self.clock = clock;
        if let Some(drain) = &self.drain {
            drain.begins();
        }
        if let Some(flight) = &mut self.flight {
            flight.begins();
        }
        if let Some(tended) = &self.tended {
            tended.recording();
        }
        self.controller.start_intervals(Instant::now());
        let mut is_told = true;
        while self.output.exit().is_none() {
            let looks = is_told || self.until_look(targets.as_ref()).is_zero();
            if looks {
                self.looked = Some(Instant::now());
                if self.is_over(segment, &mut targets, launched.as_deref_mut())? {
                    return Ok(());
                }
            }
            if let Some((targets, _)) = targets.as_mut().filter(|(_, roll)| !roll.is_handed_over()) {
                if looks || self.costs.until_round().is_zero() {
                    self.costs.round(&mut targets.all);
                }
                self.costs.publish(&targets.all, segment.ring_counters(self.ring).dropped);
            }
            if let Some(clock) = &mut self.clock {
                clock.keep(segment);
            }
            if let (Some(drain), Some((targets, _))) = (&self.drain, &targets) {
                drain.has_writers(targets.write_records());
            }
            // As a rule there is something else to do until then.
            let until_clock = self.clock.as_ref().map_or(Duration::MAX, Clock::until_due);
            let until_clock = until_clock.saturating_add(READ_INTERVAL);
            is_told = self.wait(segment, targets.as_ref(), until_clock)?;
            self.controller
                .run_due_intervals(&InWeir { verified: self.verified, segment }, Instant::now())?;
            self.read_all(segment)?;
            self.look_at_asked(segment);
            self.tell_daemon(segment);
            // A command runs on, without being recorded.
            if launched.is_none() && self.drain.as_ref().is_some_and(Drain::has_failed) {
                return Ok(());
            }
            self.skip_gone(segment);
            self.grow(segment, targets.as_ref().and_then(|(targets, _)| targets.maps_bytes_max()));
        }
        Ok(())
    }

    /// Looks at what is asked for, and at the processes; whether it is time to end.
    fn is_over(
        &mut self,
        segment: &Segment,
        targets: &mut Option<(&mut Targets, &mut Roll)>,
        launched: Option<&mut Launched>,
    ) -> Result<bool, Failure> {
        let (is_asked_to_end, handed_over) = self.is_asked_to_end(segment)?;
        self.is_stopped = is_asked_to_end;
        if self.is_stopped {
            return Ok(true);
        }
        let Some((targets, roll)) = targets else { return Ok(self.is_left(segment, 0)) };
        for change in handed_over {
            match change {
                HandOver::To(number) => self.hand_over(segment, targets, roll, number)?,
                HandOver::Back => roll.take_back(targets),
            }
        }
        if roll.is_handed_over() {
            weir_probe::let_go_late();
            roll.keep_children_waiting();
            return Ok(false);
        }
        roll.look(targets)?.iter().try_for_each(|line| self.process(line))?;
        let seen: Vec<_> = targets.seen().collect();
        self.gone.look_at(seen.iter().map(|(pid, _)| *pid));
        self.output.symbols.look_at(seen.into_iter());
        // Its end is what a descriptor tells of it as well. Until then it runs, untraced if need be: what it does is not lost. Asked for last:
        // one that ended as a target has ended as the command.
        let does_command_run = launched.is_some_and(|launched| launched.try_wait().is_none());
        let is_over = roll.is_over(targets, does_command_run);
        self.is_stopped = self.is_left(segment, targets.all.len());
        Ok(self.is_stopped || is_over)
    }

    /// From now on nothing of the processes is touched, and what they write is read.
    fn hand_over(
        &mut self,
        segment: &Segment,
        targets: &mut Targets,
        roll: &mut Roll,
        number: u64,
    ) -> Result<(), Failure> {
        // Those that wait for it have come to this recording.
        roll.look(targets)?.iter().try_for_each(|line| self.process(line))?;
        // Threads that were stopped too late to be let go on with the others.
        for _ in 0..LATE_LOOKS_MAX {
            if !weir_probe::awaits_threads() {
                break;
            }
            std::thread::sleep(READ_INTERVAL);
            roll.look(targets)?.iter().try_for_each(|line| self.process(line))?;
        }
        roll.hand_over(targets);
        // The daemon reads there whether events have started this recording.
        self.write_counts(segment);
        if let Some(tended) = &self.tended {
            tended.let_go(number);
        }
        Ok(())
    }

    /// Does what events of a recording ask for.
    fn look_at_asked(&mut self, segment: &Segment) {
        let Some(asked) = &mut self.asked else { return };
        let due = asked.look(segment);
        if let Some(tended) = &self.tended {
            if due.rotate {
                tended.ask_to_rotate();
            }
            if due.stop {
                tended.stopped();
            }
        }
        if due.stop {
            self.output.ask_to_exit(0);
        }
    }

    /// Tells the daemon of sessions what it is to know by now, if there is one.
    fn tell_daemon(&mut self, segment: &Segment) {
        let Some(tended) = &mut self.tended else { return };
        let answers = self.flight.as_mut().map_or_else(Vec::new, Flight::answers);
        answers.iter().for_each(|answer| tended.snapshot(answer));
        if tended.is_due() {
            self.write_counts(segment);
        }
    }

    /// Tells it how much was recorded.
    fn write_counts(&mut self, segment: &Segment) {
        let of_flight = self.flight.as_ref().map(Flight::counts);
        let counts =
            of_flight.or_else(|| Some(self.drain.as_ref()?.paused(|recorder| recorder.counts(segment))));
        let is_waiting = self.asked.as_ref().is_some_and(|asked| asked.is_waiting(segment));
        if let Some(tended) = &mut self.tended {
            tended.write(&Counts { is_waiting, ..counts.unwrap_or_default() });
        }
    }

    /// The last that the daemon is told.
    fn tell_daemon_the_end(&mut self, segment: &Segment, counts: Counts) {
        if let Some(tended) = &mut self.tended {
            let is_waiting = self.asked.as_ref().is_some_and(|asked| asked.is_waiting(segment));
            tended.write(&Counts { is_waiting, is_over: true, ..counts });
        }
    }

    /// How long until processes are to be looked at.
    fn until_look(&self, targets: Option<&(&mut Targets, &mut Roll)>) -> Duration {
        let is_pressed = targets.is_some_and(|(_, roll)| roll.has_ready()) || weir_probe::awaits_threads();
        let interval = if is_pressed { READ_INTERVAL } else { LOOK_INTERVAL };
        self.looked.map_or(Duration::ZERO, |looked| interval.saturating_sub(looked.elapsed()))
    }

    /// Gives maps more memory, ahead of their use.
    fn grow(&mut self, segment: &Segment, bytes_max: Option<u64>) {
        let growth = segment.grow(bytes_max);
        if let Some((map, error)) = growth.refused.filter(|_| !self.is_outgrown) {
            self.is_outgrown = true;
            let name = &segment.layout().maps[map].spec.name;
            tell!("weir: map {name} cannot grow: {error}; new keys will be lost");
        }
    }

    /// Says what became of a process.
    pub(crate) fn process(&mut self, line: &ProcessLine) -> Result<(), Failure> {
        self.output.process(line)
    }

    /// Runs END, then prints what is left. `is_over`: nobody writes to the ring any more. What was recorded, if events were.
    pub(crate) fn end(&mut self, segment: &Segment, is_over: bool) -> Result<Option<Recorded>, Failure> {
        // What is printed from here on belongs on the screen that was there before.
        self.live = None;
        self.output.symbols.finish();
        if let Some(flight) = self.flight.take() {
            self.end_flight(segment, flight)?;
            return Ok(None);
        }
        if let Some(drain) = self.drain.take() {
            return self.end_recording(segment, drain, is_over).map(Some);
        }
        self.read_rest(segment)?;
        self.controller.end(&InWeir { verified: self.verified, segment })?;
        self.output.ends();
        self.read_rest(segment)?;
        if is_over {
            // What END prints may come after a record that is never finished.
            for record in segment.ring(self.ring).drain_dead() {
                self.output.record(segment, &record.bytes)?;
            }
        }
        let decider = self
            .decider
            .map(|(decider, first)| (decider, first, first_of_decider(self.output.schema(), first)));
        self.output.print_all(segment, &|index| {
            let (decider, first, shown) = decider.filter(|(_, _, shown)| index >= *shown)?;
            Some(decider.entries(segment, first, index - shown))
        })?;
        self.tell_losses(segment)?;
        Ok(None)
    }

    fn end_recording(&mut self, segment: &Segment, drain: Drain, is_over: bool) -> Result<Recorded, Failure> {
        let (mut recorder, clock) = drain.end();
        let mut turns = 0;
        // Somebody who writes on while this reads is not read for ever.
        while recorder.drain(segment, clock.as_ref(), false) && turns < LAST_TURNS_MAX {
            turns += 1;
        }
        recorder.write_aside(segment, clock.as_ref());
        recorder.set_nothing_aside();
        turns = 0;
        while recorder.drain(segment, clock.as_ref(), is_over) && turns < LAST_TURNS_MAX {
            turns += 1;
        }
        self.tell_losses(segment)?;
        let (recorded, counts) = recorder.finish(segment);
        self.tell_daemon_the_end(segment, counts);
        if recorded.has_failed() {
            self.output.exits_with(FAILED);
        }
        Ok(recorded)
    }

    fn end_flight(&mut self, segment: &Segment, flight: Flight) -> Result<(), Failure> {
        let (flown, counts, answers) = flight.finish(segment, self.clock.as_ref());
        if let Some(tended) = &self.tended {
            answers.iter().for_each(|answer| tended.snapshot(answer));
        }
        self.tell_daemon_the_end(segment, counts);
        self.tell_losses(segment)?;
        flown.tell();
        if flown.has_failed() {
            self.output.exits_with(FAILED);
        }
        Ok(())
    }

    /// What came of what events have asked for: behind what was recorded.
    pub(crate) fn end_asked(&mut self, segment: &Segment) {
        if let Some(asked) = self.asked.take() {
            asked.finish(segment);
        }
    }

    /// The last line of the report.
    pub(crate) fn summary(&mut self, summary: &Summary) -> Result<(), Failure> {
        self.output.summary(summary)
    }

    /// From now on until the end.
    pub(crate) fn show(&mut self, live: Live) {
        self.live = Some(live);
    }

    /// Keeps the live view; true where its user asks for the end.
    fn is_left(&mut self, segment: &Segment, processes: usize) -> bool {
        let (costs, ring) = (&self.costs, self.ring);
        let figures = || (costs.figures(), processes, segment.ring_counters(ring).dropped);
        self.live.as_mut().is_some_and(|live| live.round(figures))
    }

    /// What probes cost, and what was done about it.
    pub(crate) fn costs(&mut self) -> &mut Costs {
        &mut self.costs
    }

    /// What the script or a failed recording ends with; else 0, or what the command did if nobody has ended the run before it.
    pub(crate) fn exit_code(&self, of_command: Option<u8>) -> u8 {
        let by_itself = of_command.filter(|_| !self.is_stopped).unwrap_or(0);
        self.output.exit().map_or(by_itself, |code| code as u8)
    }

    /// Waits for a signal, the end of a target or news of its libraries, the next interval or the next look at something;
    /// whether it was one of the former.
    fn wait(
        &self,
        segment: &Segment,
        targets: Option<&(&mut Targets, &mut Roll)>,
        until_clock: Duration,
    ) -> Result<bool, Failure> {
        let until_interval =
            self.controller.next_interval().map(|at| at.saturating_duration_since(Instant::now()));
        let are_read_here = self.flight.is_none() && self.drain.is_none();
        let writes = are_read_here && targets.is_some_and(|(targets, _)| targets.write_records());
        let until_read = if writes || segment.may_grow() { READ_INTERVAL } else { Duration::MAX };
        let until_read =
            self.flight.as_ref().map_or(until_read, |flight| until_read.min(flight.until_look()));
        let until_read =
            if self.asked.is_some() { until_read.min(triggers::LOOK_INTERVAL) } else { until_read };
        let until_look = self.until_look(targets);
        let is_handed_over = targets.is_some_and(|(_, roll)| roll.is_handed_over());
        let until_round = if is_handed_over { Duration::MAX } else { self.costs.until_round() };
        let wait = until_look.min(until_read).min(until_clock).min(until_round);
        let wait = until_interval.unwrap_or(wait).min(wait);
        // What is read does not come from them alone.
        let targets = targets.filter(|_| !is_handed_over);
        let intercepted = targets.and_then(|(_, roll)| roll.has_intercepted());
        let children = targets.and_then(|(_, roll)| roll.has_children());
        let targets = targets.map(|(targets, _)| &**targets);
        let stdin = self.tended.as_ref().and_then(Tended::watched);
        let mut watched = vec![PollFd::new(self.signals.as_fd(), PollFlags::POLLIN)];
        watched.extend(
            targets
                .into_iter()
                .flat_map(Targets::pidfds)
                .map(|pidfd| PollFd::new(pidfd.as_fd(), PollFlags::POLLIN)),
        );
        watched.extend(stdin.iter().map(|stdin| PollFd::new(stdin.as_fd(), PollFlags::POLLIN)));
        let bells = targets.into_iter().flat_map(Targets::bells);
        watched.extend(
            bells.chain(intercepted).chain(children).map(|bell| PollFd::new(bell, PollFlags::POLLIN)),
        );
        // Rounded up, so that a wait of less than a millisecond does not become a busy loop.
        let timeout = PollTimeout::try_from(wait + Duration::from_micros(999)).unwrap_or(PollTimeout::ZERO);
        match poll(&mut watched, timeout) {
            Ok(ready) => Ok(ready > 0),
            Err(nix::errno::Errno::EINTR) => Ok(false),
            Err(errno) => Err(Failure::Machine(anyhow!(errno).context("poll"))),
        }
    }

    /// A signal other than a child's end has arrived, or one that asks for something else; and what is to become of the processes.
    fn is_asked_to_end(&mut self, segment: &Segment) -> Result<(bool, Vec<HandOver>), Failure> {
        let (mut asked, mut handed_over) = (false, Vec::new());
        if let Some(tended) = &self.tended {
            let heard = tended.hear()?;
            (asked, handed_over) = (heard.has_ended, heard.handed_over);
            if let (Some(asked), Some(is_open)) = (&self.asked, heard.is_opened) {
                asked.open(segment, is_open);
            }
            if let Some(flight) = &mut self.flight {
                flight.want(heard.snapshots);
            }
            for folder in heard.folders {
                let none = || Err(Failure::Refused(anyhow!("no folder is written")));
                let rotated = self.drain.as_ref().map_or_else(none, |drain| drain.rotate(&folder));
                if let (Some(asked), Ok(path)) = (&mut self.asked, &rotated) {
                    asked.goes_on_in(path);
                }
                tended.rotated(&rotated);
            }
        }
        while let Ok(Some(signal)) = self.signals.read_signal() {
            match (signal.ssi_signo as i32, &mut self.flight) {
                (nix::libc::SIGCHLD, _) => {}
                (nix::libc::SIGUSR1, Some(flight)) => flight.ask(),
                _ => asked = true,
            }
        }
        Ok((asked, handed_over))
    }

    /// Once a second, what threads that are gone have left half written is taken out of the way; it is counted.
    fn skip_gone(&mut self, segment: &Segment) {
        if self.skipped.elapsed() >= SKIP_INTERVAL {
            self.skipped = Instant::now();
            let skip = || segment.skip_gone(self.ring, &|thread| self.gone.is_gone(thread));
            match &self.drain {
                Some(drain) => _ = drain.paused(|_| skip()),
                None => _ = skip(),
            }
        }
    }

    /// All that is there now, also where those that write it go on; but for what is being written for long.
    fn read_rest(&mut self, segment: &Segment) -> Result<(), Failure> {
        let began = now_ns();
        let mut ring = segment.ring(self.ring);
        let (mark, waits_until) = (ring.mark(), Instant::now() + REST_WAIT);
        let mut left = mark.records_max;
        while left > 0 && !ring.has_read(&mark) {
            match ring.next() {
                Some(record) => {
                    left -= 1;
                    self.output.record(segment, &record.bytes)?;
                }
                None if Instant::now() >= waits_until => break,
                None => std::thread::sleep(Duration::from_millis(1)),
            }
        }
        if ring.has_read(&mark) {
            self.output.symbols.note_drained(began);
        }
        self.tell_lost(segment, false)?;
        self.output.flush()
    }

    /// What others than this do not read.
    fn read_all(&mut self, segment: &Segment) -> Result<(), Failure> {
        if let Some(flight) = &mut self.flight {
            flight.look(segment, self.clock.as_ref());
            return Ok(());
        }
        if self.drain.is_some() {
            return Ok(());
        }
        let began = now_ns();
        for _ in 0..RECORDS_PER_ROUND {
            let Some(record) = segment.ring(self.ring).next() else {
                self.output.symbols.note_drained(began);
                break;
            };
            self.output.record(segment, &record.bytes)?;
        }
        self.tell_lost(segment, false)?;
        self.output.flush()
    }

    fn tell_lost(&mut self, segment: &Segment, is_last: bool) -> Result<(), Failure> {
        self.output.tell_lost(segment.ring_counters(self.ring).dropped, is_last)
    }

    /// Everything that was not done is named, with its count.
    fn tell_losses(&mut self, segment: &Segment) -> Result<(), Failure> {
        self.tell_lost(segment, true)?;
        let ring = segment.ring_counters(self.ring);
        let counters = segment.counters();
        let mut losses = vec![
            (
                ring.uncommitted,
                "records were being written when their thread or the target ended, and are lost".to_owned(),
            ),
            (ring.corrupt, "records were corrupt, and are lost".to_owned()),
            (
                counters.reads_denied,
                "reads of the target's memory are forbidden by its seccomp filter".to_owned(),
            ),
            (
                counters.comm_denied,
                "uses of comm are forbidden by the target's seccomp filter; they gave \"\"".to_owned(),
            ),
            (
                counters.tid_denied,
                "uses of tid are forbidden by the target's seccomp filter; they gave 0".to_owned(),
            ),
            (
                counters.other_denied,
                "uses of times, ids of users and signals are forbidden by the target's seccomp filter; they gave 0"
                    .to_owned(),
            ),
            (counters.lanes_exhausted, "runs found no free lane of per-CPU values, and are lost".to_owned()),
            (
                counters.read_faults,
                "reads of the target's memory failed (bad pointers); they gave \"\"".to_owned(),
            ),
        ];
        losses.extend(self.output.losses(segment));
        losses.push((
            counters.prints_dropped,
            "texts of trace_printk are dropped: in a traced process nobody takes them".into(),
        ));
        for map in &self.output.schema().maps {
            let Some(of_map) = counters.maps.get(map.map_index as usize) else { continue };
            let is_of_decider = self.decider.is_some_and(|(_, first)| map.map_index >= first);
            let limit = if is_of_decider { "max_entries" } else { "max_map_keys" };
            losses.push((
                of_map.full,
                format!("new keys did not fit into {} ({limit}), and are lost", map.name),
            ));
            losses.push((
                of_map.outgrown,
                format!("new keys came before {} had grown for them, and are lost", map.name),
            ));
            losses.push((
                of_map.contended,
                format!("updates of {} gave up under contention, and are lost", map.name),
            ));
        }
        tell_losses(losses);
        Ok(())
    }
}

/// Where the maps of `--program` begin in the schema, the first of which has this number in the object.
fn first_of_decider(schema: &Schema, first: u32) -> usize {
    schema.maps.iter().position(|map| map.map_index >= first).unwrap_or(schema.maps.len())
}
