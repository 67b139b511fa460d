//! A run in the processes: from the first of them to its exit code.
//!
//! In: a [`Run`], whose script is compiled. Out: what the script prints, the summary, and an exit code. Processes that
//! were given, or the command that is started, are opened and prepared; BEGIN runs; programs are put in
//! ([`crate::attach`]); [`Rounds`] follow until it is time to end; everything is taken out; END runs. Whatever fails on
//! the way, nothing stays in a process, and a command that could not be traced from its beginning does not run. One that weir cannot
//! trace any more, since it has executed another program, runs to its end all the same.

use std::collections::BTreeSet;
use std::os::fd::BorrowedFd;
use std::rc::Rc;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::anyhow;
use weir_event::Schema;
use weir_kernel::Features;
use weir_probe::{Allowance, Children, Pending, Prepared, Target};
use weir_report::{Entry, ProcessCounts, Summary};
use weir_rt::segment::Segment;
use weir_source::printable;

use crate::clock::now_ns;
use crate::command::{EndOnFailure, end_command};
use crate::costs::Costs;
use crate::course::Course;
use crate::drain::Drain;
use crate::failure::Failure;
use crate::flight::Flight;
use crate::intercept::Intercept;
use crate::kernel::InKernelHalf;
use crate::kernel::stand_in::StandIns;
use crate::notice::{Notice, note};
use crate::part::Part;
use crate::plan::{Half, Plan};
use crate::prepare::Run;
use crate::registry::sight::{names_mapped, since_boot};
use crate::registry::{Registry, STOP_TRIES};
use crate::required::{self, feasible};
use crate::rounds::Rounds;
use crate::shared::{Shared, output_failed};
use crate::stages::{Site, probes_of};
use crate::start::Start;
use crate::store::globals;
use crate::summary::Coverage;
use crate::supervision::Supervision;
use crate::targets::{self, Targets};
use crate::triggers::Watch;
use crate::watched;

/// A process that was given, as far as it is by now, with what the script means there; none of one that is taken over.
type Given<T> = (i32, (Option<T>, Rc<Plan>));

/// Dropped in this order: probes are out before what reads them ends, and the command is ended last.
pub(crate) struct InProcesses {
    traced: Option<Traced>,
    rounds: Rounds,
    maps: Arc<Segment>,
    shared: Rc<Shared>,
    _late: LateThreads,
    command: Option<EndOnFailure>,
}

/// Dropped, it lets threads go on that did not stop in time, and stand still when they do. A caller that lives on would keep them so.
struct LateThreads;

/// How long they are waited for.
const LATE_MAX: Duration = Duration::from_secs(1);

/// How often they are looked at.
const LATE_INTERVAL: Duration = Duration::from_millis(1);

impl Drop for LateThreads {
    fn drop(&mut self) {
        let until = Instant::now() + LATE_MAX;
        while weir_probe::awaits_threads() && Instant::now() < until {
            weir_probe::let_go_late();
            thread::sleep(LATE_INTERVAL);
        }
    }
}

/// Of a script that probes something.
struct Traced {
    registry: Registry,
    targets: Targets,
}

impl Course for InProcesses {
    fn poll(&mut self, is_woken: bool) -> Result<bool, Failure> {
        let traced = self.traced.as_mut().map(|Traced { registry, targets }| (targets, registry));
        let launched = self.command.as_mut().and_then(|command| command.launched.as_mut());
        self.rounds.round(&self.maps, traced, launched, is_woken)
    }

    fn watched(&self) -> Vec<BorrowedFd<'_>> {
        self.rounds.watched(self.traced())
    }

    fn until(&self) -> Duration {
        self.rounds.until(&self.maps, self.traced())
    }

    fn stop(&mut self) {
        self.rounds.stop();
    }

    fn signalled(&mut self) -> Result<(), Failure> {
        self.rounds.signalled(&self.maps)
    }

    fn snapshot(&mut self) {
        self.rounds.snapshot();
    }

    fn schema(&self) -> &Schema {
        &self.shared.plan.compiled.schema
    }

    fn entries(&self, map: &str) -> Option<Vec<Entry>> {
        self.rounds.entries(&self.maps, map)
    }

    fn end(&mut self) -> Result<u8, Failure> {
        let shared = self.shared.clone();
        match self.traced.take() {
            None => shared.end(&self.maps, &mut self.rounds, None, true, Tally::default()),
            Some(traced) => shared.leave(&self.maps, &mut self.rounds, traced, self.command.as_mut()),
        }
    }
}

impl InProcesses {
    fn traced(&self) -> Option<(&Targets, &Registry)> {
        self.traced.as_ref().map(|Traced { registry, targets }| (targets, registry))
    }
}

/// Attaches to the processes, or starts the command.
pub(crate) fn start(run: Run, start: Start) -> Result<InProcesses, Failure> {
    let Run { shared, first, recorder, flight, mut clock, half } = run;
    if let Some(supervisor) = &start.supervisor {
        shared.after.borrow_mut().extend(supervisor.before());
    }
    // Dropped last: what was put in is out before the command ends.
    let mut command = None;
    let late = LateThreads;
    let mut replaced = Vec::new();
    let mut waiting = None;
    if let Some(words) = &shared.given.options.command {
        let (guard, waits) = shared.prepare_command(words)?;
        (command, waiting) = (Some(guard), Some(waits));
    }
    let maps = Arc::new(shared.maps()?);
    let given = shared.subjects.selection.pids.iter().copied();
    let pid = command.as_ref().map(EndOnFailure::pid);
    let all: Vec<i32> = given.chain(pid).collect();
    // That a command is executed is an event of the kernel's: BEGIN runs before.
    let begins_first = half.is_some();
    let begin = || shared.begun(start, flight, half, &maps, &all);
    let begun = if begins_first { Ok(begin()?) } else { Err(begin) };
    let opened = match (&mut command, waiting) {
        (Some(command), Some(waiting)) => {
            let target = shared.execute_command(command, waiting)?;
            vec![(target.pid(), (Some(target), shared.plan.clone()))]
        }
        _ => shared.open(first, &mut replaced)?,
    };
    let is_nothing = command.is_none() && shared.subjects.selection.is_empty();
    let is_alone = opened.len() + replaced.len() == 1;
    let prepared = shared.each(opened, &mut replaced, |pid, (target, plan)| {
        let prepared = target.map(|target| shared.prepare_given(target, &maps, &plan)).transpose()?;
        Ok((pid, (prepared, plan)))
    })?;
    let mut rounds = match begun {
        Ok(rounds) => rounds,
        Err(begin) => begin()?,
    };
    if is_nothing {
        rounds.starts(None);
        return Ok(InProcesses { traced: None, rounds, maps, shared, _late: late, command });
    }
    if let Some(clock) = &mut clock {
        clock.keep(&maps);
    }
    if let Some(recorder) = recorder {
        let is_quiet = shared.given.options.is_quiet();
        rounds.read_by(Box::new(Drain::start(recorder, clock.take(), maps.clone(), is_quiet)?));
    }
    // Before they run on: they may have ended soon after.
    prepared.iter().for_each(|(pid, _)| rounds.look(*pid));
    let is_command = command.is_some();
    let first = prepared.iter().map(|(pid, _)| *pid).chain(replaced.iter().copied());
    let first: Vec<i32> = first.collect();
    let intercept = || Intercept::start(&shared, &first, is_command);
    // A command may execute another program as soon as it runs. Other processes run already, and could not be attached to while they are
    // blocked, since nothing handles their events yet.
    let before = if is_command { intercept() } else { None };
    let began = since_boot();
    // Before the first of them runs on.
    let children = shared.subjects.selection.has_children().then(|| Children::awaited(&maps));
    if is_command {
        // Before it begins to run.
        prepared.iter().try_for_each(|(pid, (_, plan))| rounds.stand_in(*pid, plan))?;
    }
    // A process that runs has its patches first: what it maps was looked at, and may change.
    let mut stand_in = |pid: i32, plan: &Plan| if is_command { Ok(()) } else { rounds.stand_in(pid, plan) };
    let armed = shared.arm_all(prepared, &maps, &mut replaced, (is_alone, is_command), &mut stand_in);
    if let (Err(_), Some(command)) = (&armed, &mut command) {
        // At once: it may have been let go of already.
        command.end();
    }
    let (mut targets, awaited) = armed?;
    let intercept = if is_command { before } else { intercept() };
    let mut registry = Registry::new(shared.clone(), maps.clone(), intercept, children, began);
    registry.await_files(awaited);
    registry.first(&mut targets)?.iter().try_for_each(|line| rounds.process(line))?;
    replaced.into_iter().for_each(|pid| registry.replaced(pid));
    if let Some(command) = &mut command {
        command.begins();
    }
    rounds.starts(clock);
    Ok(InProcesses { traced: Some(Traced { registry, targets }), rounds, maps, shared, _late: late, command })
}

impl Shared {
    /// The processes that were given, each once, with what the script means there. Those that are taken over are opened when it is their turn
    /// to be attached to: they are held from then on.
    fn open(&self, first: Option<i32>, replaced: &mut Vec<i32>) -> Result<Vec<Given<Target>>, Failure> {
        let pids = self.subjects.selection.pids.iter().map(|&pid| (pid, ()));
        self.each(pids, replaced, |pid, ()| {
            weir_probe::target::check(pid)?;
            let plan = if Some(pid) == first { self.plan.clone() } else { self.plan_for(pid)? };
            let target = match self.is_handed_over(pid) {
                true => None,
                false => Some(self.open_one(pid, &plan, false)?),
            };
            Ok((pid, (target, plan)))
        })
    }

    /// `held` as in [`Shared::open_within`].
    fn open_one(&self, pid: i32, plan: &Plan, held: bool) -> Result<Target, Failure> {
        let target = self.open_within(pid, self.admit(pid, plan)?, held);
        let target = target.map_err(|error| self.limited(pid, plan, error))?;
        // Now its number is its own.
        self.admit(pid, plan)?;
        Ok(target)
    }

    /// [`Shared::prepare`] of a process that was given. It is tried again where a thread that weir had borrowed got no CPU for as long as a
    /// stop may last, if stops are not limited more than usual: nothing was patched then.
    fn prepare_given(&self, target: Target, maps: &Arc<Segment>, plan: &Plan) -> Result<Prepared, Failure> {
        let pid = target.pid();
        let mut target = target;
        for _ in 1..STOP_TRIES {
            match self.prepare(target, maps, plan) {
                Err(failure) if has_not_stopped(&failure) => {
                    self.undo_own();
                    target = self.open_one(pid, plan, false)?;
                }
                done => return done,
            }
        }
        self.prepare(target, maps, plan)
    }

    pub(super) fn plan_for(&self, pid: i32) -> Result<Rc<Plan>, Failure> {
        let world = self.given.world(Some(pid))?;
        if self.plan.is_for(&world) {
            return Ok(self.plan.clone());
        }
        let mut plan = self.given.for_another(&world, &self.plan)?;
        if !self.given.stands_in.is_empty() {
            let found = StandIns::of(&plan, Features::of_kernel());
            if found.sides != self.given.stands_in {
                return Err(Failure::Refused(anyhow!(
                    "other places cannot be patched there than in the first process of the run: give it a run of its own"
                )));
            }
            found.put(&mut plan);
        }
        feasible(&plan)?;
        Ok(Rc::new(plan))
    }

    /// As [`targets::each`]; those that execute another program now are no failures, but left for later in `replaced`.
    fn each<T, U>(
        &self,
        given: impl IntoIterator<Item = (i32, T)>,
        replaced: &mut Vec<i32>,
        mut work: impl FnMut(i32, T) -> Result<U, Failure>,
    ) -> Result<Vec<U>, Failure> {
        let done = targets::each(given, &self.notices, |pid, what| match work(pid, what) {
            Ok(one) => Ok(Some(one)),
            Err(failure) if is_replaced(&failure) => {
                replaced.push(pid);
                Ok(None)
            }
            Err(failure) => Err(failure),
        });
        Ok(done?.into_iter().flatten().collect())
    }

    /// Takes everything out, and reports what came of it: the exit code.
    fn leave(
        &self,
        maps: &Segment,
        rounds: &mut Rounds,
        Traced { mut registry, mut targets }: Traced,
        command: Option<&mut EndOnFailure>,
    ) -> Result<u8, Failure> {
        registry.stop_intercepting();
        let never = required::executed(&self.plan, &self.subjects, registry.unseen());
        // One that was running, and has executed another program, may have been probed until then.
        let was_replaced = command.is_none() && registry.counts().execs > 0;
        let is_nothing = targets.coverage().is_empty()
            && !self.plan.sites.is_empty()
            && !was_replaced
            && rounds.stood_in().is_empty();
        if is_nothing && never.is_none() && !self.given.options.is_quiet() {
            note!(
                self.notices,
                Probes,
                "nothing was probed: no process of the run had what the script names"
            );
        }
        let (pending, is_detached) =
            targets.detach(&|one, undone, start| self.tell_undone(one, undone, start.elapsed()));
        targets.all.iter_mut().for_each(watched::finish);
        if !is_detached {
            self.guard.stuck();
        }
        let mut command = command;
        let launched = command.as_mut().and_then(|command| command.launched.as_mut());
        let has_ended = launched.is_some_and(|launched| launched.try_wait().is_some());
        let mut coverage = targets.coverage();
        coverage.add(&rounds.stood_in());
        let tally = Tally { coverage, pending, processes: registry.counts() };
        let ended = self.end(maps, rounds, command, is_detached, tally)?;
        if !is_detached {
            return Ok(3);
        }
        match never {
            // A process that was not held may have executed it. The summary reports that.
            Some(failure) if has_ended && registry.not_held() == 0 => Err(failure),
            _ => Ok(ended),
        }
    }

    /// Also the files that a command does not map, and may by executing another program. `is_alone`: only one was given, so
    /// that notices need not name it. `stand_in`: what is done to a process that
    /// has been attached to.
    fn arm_all(
        &self,
        prepared: Vec<Given<Prepared>>,
        maps: &Arc<Segment>,
        replaced: &mut Vec<i32>,
        (is_alone, is_command): (bool, bool),
        stand_in: &mut dyn FnMut(i32, &Plan) -> Result<(), Failure>,
    ) -> Result<(Targets, BTreeSet<String>), Failure> {
        let mapped: BTreeSet<String> =
            prepared.iter().flat_map(|(pid, (_, plan))| names_mapped(plan, *pid)).collect();
        let is_awaited = |site: &&Site| is_command && may_be_executed(&site.binary);
        let awaited = self.plan.sites.iter().filter(is_awaited).map(|site| site.path.clone());
        let awaited: BTreeSet<String> = awaited.filter(|path| !mapped.contains(path)).collect();
        if !awaited.is_empty() && !self.given.options.is_quiet() {
            let names: Vec<&str> = awaited.iter().map(String::as_str).collect();
            note!(
                self.notices,
                Command,
                "the command does not map {} yet; waiting for an exec",
                names.join(", ")
            );
        }
        let armed = self.each(prepared, replaced, |pid, (prepared, plan)| {
            let arm = |prepared: Prepared, plan: Rc<Plan>| match self.subjects.selection.follow.is_on() {
                // Its children may have what it has not.
                true => self.enrol(prepared, plan),
                false if !awaited.is_empty() => self.enrol(prepared, plan),
                false => self.arm(prepared, plan, if is_alone { None } else { Some(pid) }, &mapped),
            };
            let armed = match prepared {
                Some(prepared) => arm(prepared, plan),
                None => self.take_over(pid, |held| {
                    let target = self.open_one(pid, &plan, held)?;
                    arm(self.prepare(target, maps, &plan)?, plan.clone())
                }),
            };
            // Dropped, it is detached.
            let armed = armed.and_then(|one| stand_in(pid, &one.plan).map(|()| one));
            armed.inspect_err(|_| self.guard.detached(pid))
        });
        Ok((Targets::new(armed?), awaited))
    }

    /// The clock of `elapsed`; and which process the command is.
    fn start_clock(&self, maps: &Segment, command: Option<i32>) -> Result<(), Failure> {
        let value = globals(now_ns(), command);
        let globals = maps.map(self.plan.compiled.globals as usize);
        globals.update(&0u32.to_le_bytes(), &value, 0).map_err(|error| Failure::Bug(anyhow!("{error}")))
    }

    /// What is done while the targets run, which has begun: BEGIN has run, and what runs in the kernel is attached. The last of these processes is the
    /// command, if there is one.
    fn begun(
        self: &Rc<Self>,
        start: Start,
        flight: Option<Flight>,
        half: Option<Half>,
        maps: &Segment,
        processes: &[i32],
    ) -> Result<Rounds, Failure> {
        let command = processes.last().copied().filter(|_| self.given.options.command.is_some());
        let mut rounds = self.rounds(start)?;
        if let Some(flight) = flight {
            rounds.read_by(Box::new(flight));
        }
        if let Some(half) = half {
            let (half, kernel_maps) = InKernelHalf::load(half, maps, command)?;
            rounds = rounds.with_half(half, kernel_maps);
        }
        self.start_clock(maps, command)?;
        rounds.begin(maps)?;
        rounds.attach_half(maps, processes)?;
        Ok(rounds)
    }

    /// What is done while the targets run, and what prints.
    fn rounds(self: &Rc<Self>, start: Start) -> Result<Rounds, Failure> {
        let Start { mut report, view, supervisor } = start;
        let (options, compiled) = (&self.given.options, &self.plan.compiled);
        let is_quiet = options.is_quiet();
        if !is_quiet {
            let probes: usize = compiled.triggers.iter().map(probes_of).sum();
            let line = report.attached_probes(probes as u64).map_err(output_failed)?;
            line.into_iter().for_each(|text| self.notices.send(Notice::Script { text, is_warning: false }));
        }
        let mut parts: Vec<Box<dyn Part>> = Vec::new();
        if let Some(supervisor) = supervisor {
            parts.push(Box::new(Supervision::by(supervisor)));
        }
        if let Some(recording) = &self.given.recording {
            let (options, context_fields) = (&recording.options, recording.context_fields());
            let watch = Watch::new(options, context_fields, compiled, is_quiet, &self.notices);
            parts.extend(watch.map(|watch| Box::new(watch) as Box<dyn Part>));
        }
        parts.push(Box::new(Costs::new(compiled, is_quiet, &self.notices, view)));
        Ok(Rounds::new(self.clone(), report, parts))
    }

    /// Runs END, prints what is left in the ring and every map, and says what was lost.
    fn end(
        &self,
        segment: &Segment,
        rounds: &mut Rounds,
        mut command: Option<&mut EndOnFailure>,
        is_over: bool,
        tally: Tally,
    ) -> Result<u8, Failure> {
        let is_quiet = self.given.options.is_quiet();
        let mut launched = || command.as_mut().and_then(|command| command.launched.take());
        // It does not run on, untraced, while the reader of a pipe is waited for. Until it is taken a failure ends it as well.
        let mut ended = if is_over { None } else { end_command(launched()) };
        rounds.end(segment, is_over)?;
        ended = ended.or_else(|| end_command(launched()));
        if let (Some(groups), Some(_), false) = (&self.groups, &self.given.recording, is_quiet) {
            for (id, path) in groups.borrow().names() {
                note!(self.notices, Recording, "  cgroup_id {id}: {}", printable(path));
            }
        }
        if !is_quiet {
            let Tally { coverage, pending, processes } = tally;
            let mut summary = rounds.with_maps(segment, |maps| {
                coverage.summary(&self.plan.compiled, maps, &segment.counters(), &pending, processes)
            });
            rounds.summary(&mut summary);
            self.report_summary(&summary);
            rounds.print_summary(&summary)?;
        }
        let of_command = self.report_command(ended);
        match rounds.flush() {
            // There was nothing else to print.
            Ok(()) | Err(Failure::ReaderGone) => Ok(rounds.exit_code(of_command)),
            Err(failure) => Err(failure),
        }
    }

    /// What of the summary is worth reporting.
    pub(super) fn report_summary(&self, summary: &Summary) {
        let is_brief = !self.given.options.is_verbose();
        let notice = Notice::Summary { summary: Box::new(summary.clone()), is_brief };
        if !notice.to_string().is_empty() {
            self.notices.send(notice);
        }
    }
}

/// What a run has come to, all processes together.
#[derive(Default)]
struct Tally {
    coverage: Coverage,
    /// By program, the calls that have not come back.
    pending: Pending,
    processes: ProcessCounts,
}

/// A program, which an exec maps: a library is mapped by what is there already.
fn may_be_executed(binary: &weir_symbols::Binary) -> bool {
    let is_program = binary.interpreter().is_some() || binary.is_interpreter_or_static();
    !binary.is_position_independent() || binary.soname().is_none() && is_program
}

/// A thread of it had no CPU for as long as a stop may last, if stops are not limited more than usual. Nothing was changed.
fn has_not_stopped(failure: &Failure) -> bool {
    use weir_probe::Error::{StopTimeout, StopTooLong};
    let usual = Allowance::default().stop;
    matches!(failure.of_process(), Some(StopTimeout { limit, .. } | StopTooLong { limit, .. }) if *limit >= usual)
}

/// The process executes another program: nothing was put into that.
fn is_replaced(failure: &Failure) -> bool {
    matches!(failure.of_process(), Some(weir_probe::Error::Replaced { .. }))
}
