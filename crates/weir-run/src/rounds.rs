//! What is done again and again while the targets run: records are read, intervals run, processes looked at, until it is time to end (exit(), somebody's
//! word, the end of the targets).
//!
//! A readable descriptor reports the end of a process, a change of its libraries, or a message of the supervisor. Everything else is polled:
//!
//! | what | how often |
//! |---|---|
//! | records, of scripts that write any in a process (those of a trace are read by [`drain`](crate::drain)); maps that may have to grow | [`READ_INTERVAL`] |
//! | processes that came, or execute another program | [`LOOK_INTERVAL`] |
//! | intervals, parts | when they are due |
//! | the clock | when it is due, or somewhat later |

use std::io::Write;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::rc::Rc;
use std::time::{Duration, Instant};

use weir_probe::Launched;
use weir_probe::gone_threads::Gone;
use weir_process::watch::LOOK_INTERVAL;
use weir_report::{Entry, ProcessLine, Report, Summary};
use weir_rt::Clock;
use weir_rt::segment::Segment;

use crate::both::KernelMaps;
use crate::controller::{Caller, Controller, InWeir};
use crate::failure::Failure;
use crate::kernel::InKernelHalf;
use crate::notice::note;
use crate::output::Output;
use crate::part::{Part, Requests, Round};
use crate::plan::Plan;
use crate::printed::Printed;
use crate::registry::Registry;
use crate::shared::Shared;
use crate::sink::{Ending, READ_INTERVAL, Sink};
use crate::store::Store;
use crate::summary::Coverage;
use crate::targets::Targets;

/// How often the ring is asked whether somebody who is gone holds it up.
const SKIP_INTERVAL: Duration = Duration::from_secs(1);

/// What a run ends with whose trace could not be written (3: the machine refused).
const FAILED: i64 = 3;

pub(crate) struct Rounds {
    shared: Rc<Shared>,
    ring: usize,
    /// What the script prints.
    output: Output,
    controller: Controller,
    /// Who reads the rings.
    sink: Box<dyn Sink>,
    /// In the order in which they look.
    parts: Vec<Box<dyn Part>>,
    requests: Requests,
    /// When processes were looked at last.
    looked: Option<Instant>,
    gone: Gone,
    skipped: Instant,
    /// A map that cannot grow was reported.
    is_outgrown: bool,
    /// Kept while processes run, if no sink keeps it; the times of records are read off it.
    clock: Option<Clock>,
    /// What of the script runs in the kernel.
    half: Option<InKernelHalf>,
}

impl Rounds {
    /// Records are printed. `parts` in the order in which they look.
    pub(crate) fn new(
        shared: Rc<Shared>,
        report: Report<Box<dyn Write>>,
        parts: Vec<Box<dyn Part>>,
    ) -> Rounds {
        let compiled = &shared.plan.compiled;
        Rounds {
            ring: compiled.ring as usize,
            output: Output::new(shared.plan.clone(), report, shared.notices.clone()),
            controller: Controller::new(compiled),
            sink: Box::new(Printed::new(shared.clone())),
            parts,
            requests: Requests::default(),
            shared,
            looked: None,
            gone: Gone::new(),
            skipped: Instant::now(),
            is_outgrown: false,
            clock: None,
            half: None,
        }
    }

    /// The same with a half that runs in the kernel, whose maps are those.
    pub(crate) fn with_half(mut self, half: InKernelHalf, kernel_maps: KernelMaps) -> Rounds {
        self.output = self.output.with_kernel_maps(kernel_maps);
        Rounds { half: Some(half), ..self }
    }

    /// Attaches what runs in the kernel, and reads what it lists. `processes`: those of the run.
    pub(crate) fn attach_half(&mut self, segment: &Segment, processes: &[i32]) -> Result<(), Failure> {
        let Some(half) = &mut self.half else { return Ok(()) };
        half.attach(&self.shared, processes)?;
        half.read_lists(segment, &mut self.output)
    }

    /// Probes what of a process cannot be patched. `plan`: what the script means there.
    pub(crate) fn stand_in(&mut self, pid: i32, plan: &Plan) -> Result<(), Failure> {
        let Some(half) = &mut self.half else { return Ok(()) };
        half.stand_in(&self.shared, pid, plan)
    }

    /// Of what runs in the kernel, the places in processes.
    pub(crate) fn stood_in(&self) -> Coverage {
        self.half.as_ref().map_or_else(Coverage::default, |half| half.coverage().clone())
    }

    /// From now on records go there.
    pub(crate) fn read_by(&mut self, sink: Box<dyn Sink>) {
        self.sink = sink;
    }

    /// Runs the BEGIN probes, and does what they ask for.
    pub(crate) fn begin(&mut self, segment: &Segment) -> Result<(), Failure> {
        self.parts.iter_mut().for_each(|part| part.begin(segment, &mut self.requests));
        self.controller.begin(&callers(&self.shared, self.half.as_ref(), segment))?;
        self.grow(segment, None);
        self.read(segment)?;
        if self.shared.is_over_after_begin() {
            self.output.ask_to_exit(0);
        }
        Ok(())
    }

    /// Looks at what a traced process maps, for the names of its addresses.
    pub(crate) fn look(&mut self, pid: i32) {
        self.gone.look_at([pid].into_iter());
        self.output.symbols.look(pid);
    }

    /// Probes are in. `clock` is kept meanwhile.
    pub(crate) fn starts(&mut self, clock: Option<Clock>) {
        self.clock = clock;
        self.sink.begins();
        self.parts.iter_mut().for_each(|part| part.starts());
        self.controller.start_intervals(Instant::now());
    }

    /// Somebody asks for the end.
    pub(crate) fn stop(&mut self) {
        self.requests.stop = true;
    }

    /// weir was sent the signal that programs wait for.
    pub(crate) fn signalled(&mut self, segment: &Segment) -> Result<(), Failure> {
        match self.output.exit() {
            None => self.controller.signalled(&callers(&self.shared, self.half.as_ref(), segment)),
            Some(_) => Ok(()),
        }
    }

    /// Somebody asks for a snapshot.
    pub(crate) fn snapshot(&mut self) {
        self.sink.ask();
    }

    /// Does what there is to do; true once exit() was called, somebody has asked for the end, or all targets have ended. `is_woken`: a descriptor
    /// says that there is something.
    pub(crate) fn round(
        &mut self,
        segment: &Segment,
        mut traced: Option<(&mut Targets, &mut Registry)>,
        launched: Option<&mut Launched>,
        is_woken: bool,
    ) -> Result<bool, Failure> {
        if self.output.exit().is_none() {
            let callers = callers(&self.shared, self.half.as_ref(), segment);
            self.controller.run_due_intervals(&callers, Instant::now())?;
            self.read(segment)?;
        }
        self.skip_gone(segment);
        self.grow(segment, traced.as_ref().and_then(|(targets, _)| targets.maps_bytes_max()));
        // A command runs on, without being recorded.
        let is_useless = launched.is_none() && self.sink.has_failed();
        let mut is_over = is_useless || self.output.exit().is_some();
        let borrowed = traced.as_ref().map(|(targets, registry)| (&**targets, &**registry));
        let looks = !is_over && (is_woken || self.until_look(borrowed).is_zero());
        if looks {
            self.looked = Some(Instant::now());
            self.each(segment, &mut traced, (true, true))?;
            is_over = self.requests.stop || self.is_over(&mut traced, launched)?;
        }
        // Also in the last round: an event may have ended the recording.
        self.each(segment, &mut traced, (false, looks))?;
        if let Some(clock) = &mut self.clock {
            clock.keep(segment);
        }
        if let Some((targets, registry)) = &traced {
            self.sink.has_writers(targets.write_records());
            // Another recording has come for the processes meanwhile.
            is_over &= is_useless || !registry.is_handed_over() || self.requests.stop;
        }
        Ok(is_over || self.requests.stop || self.output.exit().is_some())
    }

    /// Has every part look, or do its work of this round.
    fn each(
        &mut self,
        segment: &Segment,
        traced: &mut Option<(&mut Targets, &mut Registry)>,
        (is_look, looks): (bool, bool),
    ) -> Result<(), Failure> {
        let mut round = Round {
            segment,
            output: &mut self.output,
            clock: self.clock.as_ref(),
            traced: traced.as_mut().map(|(targets, registry)| (&mut **targets, &mut **registry)),
            requests: &mut self.requests,
            looks,
        };
        let sink = &mut *self.sink;
        match is_look {
            true => self.parts.iter_mut().try_for_each(|part| part.look(&mut round, sink)),
            false => self.parts.iter_mut().rev().try_for_each(|part| part.round(&mut round, sink)),
        }
    }

    fn read(&mut self, segment: &Segment) -> Result<(), Failure> {
        if let Some(half) = &mut self.half {
            half.read(segment, &mut self.output)?;
        }
        let (output, clock, requests) = (&mut self.output, self.clock.as_ref(), &mut self.requests);
        self.sink.read(&mut Round { segment, output, clock, traced: None, requests, looks: false })
    }

    /// Looks at the processes; whether it is time to end.
    fn is_over(
        &mut self,
        traced: &mut Option<(&mut Targets, &mut Registry)>,
        launched: Option<&mut Launched>,
    ) -> Result<bool, Failure> {
        let Some((targets, registry)) = traced else { return Ok(false) };
        if registry.is_handed_over() {
            weir_probe::let_go_late();
            registry.keep_children_waiting();
            return Ok(false);
        }
        registry.look(targets)?.iter().try_for_each(|line| self.process(line))?;
        let seen: Vec<_> = targets.seen().collect();
        self.gone.look_at(seen.iter().map(|(pid, _)| *pid));
        self.output.symbols.look_at(seen.into_iter());
        // A command that cannot be traced any more runs on: its work is not lost. Checked last, since a process that ended as a target has ended as the command.
        let does_command_run = launched.is_some_and(|launched| launched.try_wait().is_none());
        Ok(registry.is_over(targets, does_command_run))
    }

    /// How long until processes are to be looked at.
    fn until_look(&self, traced: Option<(&Targets, &Registry)>) -> Duration {
        let is_pressed =
            traced.is_some_and(|(_, registry)| registry.has_ready()) || weir_probe::awaits_threads();
        let interval = if is_pressed { READ_INTERVAL } else { LOOK_INTERVAL };
        self.looked.map_or(Duration::ZERO, |looked| interval.saturating_sub(looked.elapsed()))
    }

    /// Gives maps more memory, ahead of their use.
    fn grow(&mut self, segment: &Segment, bytes_max: Option<u64>) {
        let growth = segment.grow(bytes_max);
        if let Some((map, error)) = growth.refused.filter(|_| !self.is_outgrown) {
            self.is_outgrown = true;
            let name = &segment.layout().maps[map].spec.name;
            note!(self.shared.notices, Maps, "map {name} cannot grow: {error}; new keys will be lost");
        }
    }

    /// Says what became of a process.
    pub(crate) fn process(&mut self, line: &ProcessLine) -> Result<(), Failure> {
        self.output.process(line)
    }

    /// Runs END, then prints what is left. `is_over`: nobody writes to the ring any more.
    pub(crate) fn end(&mut self, segment: &Segment, is_over: bool) -> Result<(), Failure> {
        self.parts.iter_mut().for_each(|part| part.leaves(segment, &mut self.requests));
        self.output.symbols.finish();
        let (controller, shared, half) = (&self.controller, &self.shared, &mut self.half);
        if let Some(half) = half {
            half.let_go();
            half.read_rest(segment, &mut self.output)?;
        }
        let mut run_end = |output: &mut Output| {
            controller.end(&callers(shared, half.as_ref(), segment))?;
            output.ends();
            half.as_mut().map_or(Ok(()), |half| half.read_rest(segment, output))
        };
        let (output, clock, requests) = (&mut self.output, self.clock.as_ref(), &mut self.requests);
        let mut round = Round { segment, output, clock, traced: None, requests, looks: false };
        let sink = std::mem::replace(&mut self.sink, Box::new(Printed::new(self.shared.clone())));
        let mut finished = sink.end(&mut round, &mut Ending { is_over, run_end: &mut run_end })?;
        self.report_losses(segment)?;
        if finished.has_failed {
            self.output.exits_with(FAILED);
        }
        if let Some(notice) = finished.notice.take() {
            self.shared.notices.send(notice);
        }
        self.parts.iter_mut().for_each(|part| part.end(segment, &self.requests, &finished));
        Ok(())
    }

    /// What a map of the script holds, by its name.
    pub(crate) fn entries(&self, segment: &Segment, map: &str) -> Option<Vec<Entry>> {
        self.output.entries(segment, map)
    }

    /// Does something with the maps of the run.
    pub(crate) fn with_maps<T>(&self, segment: &Segment, work: impl FnOnce(&dyn Store) -> T) -> T {
        self.output.with_maps(segment, work)
    }

    /// The last line of the report, with what parts know.
    pub(crate) fn summary(&mut self, summary: &mut Summary) {
        self.parts.iter().for_each(|part| part.summary(summary));
    }

    pub(crate) fn print_summary(&mut self, summary: &Summary) -> Result<(), Failure> {
        self.output.summary(summary)
    }

    /// All that was printed is written.
    pub(crate) fn flush(&mut self) -> Result<(), Failure> {
        self.output.flush()
    }

    /// What the script or a failed recording ends with; else 0, or what the command did if nobody has ended the run before it.
    pub(crate) fn exit_code(&self, of_command: Option<u8>) -> u8 {
        let by_itself = of_command.filter(|_| !self.requests.stop).unwrap_or(0);
        self.output.exit().map_or(by_itself, |code| code as u8)
    }

    /// How long until there is something to do that no descriptor says.
    pub(crate) fn until(&self, segment: &Segment, traced: Option<(&Targets, &Registry)>) -> Duration {
        let until_interval =
            self.controller.next_interval().map(|at| at.saturating_duration_since(Instant::now()));
        let is_written = traced.is_some_and(|(targets, _)| targets.write_records());
        let until_grown = if segment.may_grow() { READ_INTERVAL } else { Duration::MAX };
        let until_part = self.parts.iter().map(|part| part.until()).min().unwrap_or(Duration::MAX);
        // As a rule there is something else to do until then.
        let until_clock = self.clock.as_ref().map_or(Duration::MAX, Clock::until_due);
        let until_clock = until_clock.saturating_add(READ_INTERVAL);
        let until =
            [self.until_look(traced), self.sink.until(is_written), until_grown, until_part, until_clock];
        let until_half = if self.half.is_some() { READ_INTERVAL } else { Duration::MAX };
        until.into_iter().chain(until_interval).chain([until_half]).min().unwrap_or(LOOK_INTERVAL)
    }

    /// Descriptors that are readable when a target has ended, has news of its libraries, or waits for weir, or when a part is to look.
    pub(crate) fn watched<'a>(&'a self, traced: Option<(&'a Targets, &'a Registry)>) -> Vec<BorrowedFd<'a>> {
        let of_parts = self.parts.iter().filter_map(|part| part.descriptor());
        // What is read does not come from them alone.
        let traced = traced.filter(|(_, registry)| !registry.is_handed_over());
        let Some((targets, registry)) = traced else { return of_parts.collect() };
        let ends = targets.pidfds().map(|pidfd| pidfd.as_fd());
        let asking = registry.has_intercepted().into_iter().chain(registry.has_children());
        ends.chain(of_parts).chain(targets.load_descriptors()).chain(asking).collect()
    }

    /// Once a second, what threads that are gone have left half written is taken out of the way; it is counted.
    fn skip_gone(&mut self, segment: &Segment) {
        if self.skipped.elapsed() >= SKIP_INTERVAL {
            self.skipped = Instant::now();
            let (gone, ring) = (&self.gone, self.ring);
            self.sink.paused(&mut || _ = segment.skip_gone(ring, &|thread| gone.is_gone(thread)));
        }
    }

    /// Everything that was not done is named, with its count.
    fn report_losses(&mut self, segment: &Segment) -> Result<(), Failure> {
        self.output.tell_lost(segment.ring_counters(self.ring).dropped, true)?;
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
                "reads of the target's memory failed (bad pointers); they gave 0 or \"\"".to_owned(),
            ),
        ];
        losses.extend(self.output.losses(segment));
        losses.extend(self.half.iter().flat_map(|half| half.losses(&self.output)));
        losses.push((
            counters.prints_dropped,
            "texts of trace_printk are dropped: in a traced process nobody takes them".into(),
        ));
        let has_decider = self.shared.given.decider.is_some();
        for map in &self.output.schema().maps {
            let Some(of_map) = counters.maps.get(map.map_index as usize) else { continue };
            let is_of_decider = has_decider && map.map_index >= self.shared.plan.compiled.callee_maps;
            let limit = match map.room {
                Some(room) => format!("it is declared for {}", room.entries),
                None if is_of_decider => "max_entries".to_owned(),
                None => "max_map_keys".to_owned(),
            };
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
        self.shared.notices.losses(losses);
        Ok(())
    }
}

/// Who runs the programs that are at no place: weir, or the kernel.
struct Callers<'a> {
    in_weir: InWeir<'a>,
    half: Option<&'a InKernelHalf>,
}

impl Caller for Callers<'_> {
    fn call(&self, program: usize) -> Result<(), Failure> {
        let in_kernel = self.half.and_then(|half| half.caller(program));
        in_kernel.unwrap_or(&self.in_weir).call(program)
    }
}

fn callers<'a>(shared: &'a Shared, half: Option<&'a InKernelHalf>, segment: &'a Segment) -> Callers<'a> {
    Callers { in_weir: InWeir { verified: &shared.plan.verified, segment }, half }
}
