//! The course of one run, from its first process to its exit code.
//!
//! In: a [`Session`], whose script is compiled. Out: what the script prints, the summary, and an exit code. Processes that
//! were given, or the command that is started, are opened and prepared; BEGIN runs; programs are put in
//! ([`crate::session::attach`]); [`Events`] reads until it is time to end; everything is taken out; END runs. Whatever fails on
//! the way, nothing stays in a process, and a command that could not be traced from its beginning does not run. One that weir cannot
//! trace any more, since it has executed another program, runs to its end all the same.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, BufWriter, IsTerminal as _, Write};
use std::process::ExitCode;
use std::rc::Rc;
use std::sync::Arc;

use anyhow::{Context, anyhow};
use nix::sys::signal::{SigSet, Signal};
use weir_ir::Trigger;
use weir_probe::launch::Ended;
use weir_probe::{Allowance, Children, Launched, Pending, Prepared, Target};
use weir_report::{ProcessCounts, Report, Summary};
use weir_rt::Clock;
use weir_rt::segment::Segment;

use crate::args;
use crate::failure::Failure;
use crate::live::Live;
use crate::print::{tell, tell_text};
use crate::session::costs::{self, Costs};
use crate::session::events::Events;
use crate::session::intercept::Intercept;
use crate::session::plan::Plan;
use crate::session::required::{self, feasible};
use crate::session::roll::{Roll, STOP_TRIES, names_mapped, since_boot};
use crate::session::stages::Site;
use crate::session::summary::Coverage;
use crate::session::targets::{self, Targets};
use crate::session::triggers::Watch;
use crate::session::{Session, binaries, now_ns, output_failed};

/// A process that was given, as far as it is by now, with what the script means there; none of one that is taken over.
type Given<T> = (i32, (Option<T>, Rc<Plan>));

impl Session<'_> {
    pub(super) fn run(&self, first: Option<i32>, clock: Option<Clock>) -> Result<ExitCode, Failure> {
        let report = Report::new(BufWriter::new(self.output()?), self.given.args.format.into());
        let (signals, old_mask) = block_signals(self.flight.borrow().is_some().then_some(Signal::SIGUSR1))?;
        match &self.given.args.run {
            None if self.subjects.selection.is_empty() => self.trace_nothing(signals, report),
            None => {
                let mut replaced = Vec::new();
                let opened = self.open(first, &mut replaced)?;
                self.trace_targets(opened, replaced, None, clock, signals, report)
            }
            Some(command) => {
                let (mut guard, target) = self.launch(command, old_mask)?;
                let opened = vec![(target.pid(), (Some(target), self.plan.clone()))];
                self.trace_targets(opened, Vec::new(), Some(&mut guard), clock, signals, report)
            }
        }
    }

    pub(super) fn output(&self) -> Result<Box<dyn Write>, Failure> {
        match &self.given.args.output {
            None if self.given.recording.is_some() => Ok(Box::new(io::sink())),
            None => Ok(Box::new(io::stdout())),
            Some(path) => {
                let file = File::create(path).with_context(|| format!("cannot write {}", path.display()));
                Ok(Box::new(file.map_err(Failure::Refused)?))
            }
        }
    }

    /// The command, held before anything of its own has run.
    pub(super) fn launch(
        &self,
        command: &args::CommandLine,
        old_mask: SigSet,
    ) -> Result<(EndOnFailure, Target), Failure> {
        let search_path = std::env::var_os("PATH");
        let (launched, exec) = Launched::start(&command.words, search_path.as_deref(), old_mask)?;
        let mut guard = EndOnFailure { launched: Some(launched), has_begun: false };
        if let Some(left_out) = exec.left_out().filter(|_| !self.given.args.quiet) {
            tell!("weir: {left_out}");
        }
        let mut target = exec.into_target(&self.plan.file_identities())?;
        // Ended while it is held: let go first, it would run.
        let allowance = self.admit(target.pid(), self.plan).inspect_err(|_| guard.end())?;
        target.allow(allowance);
        Ok((guard, target))
    }

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

    /// `held` as in [`Session::open_within`].
    fn open_one(&self, pid: i32, plan: &Plan, held: bool) -> Result<Target, Failure> {
        let target = self.open_within(pid, self.admit(pid, plan)?, held);
        let target = target.map_err(|error| self.limited(pid, plan, error))?;
        // Now its number is its own.
        self.admit(pid, plan)?;
        Ok(target)
    }

    /// [`Session::prepare`] of a process that was given. It is tried again where a thread that weir had borrowed got no CPU for as long as a
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
        let world = binaries(Some(pid))?;
        if self.plan.is_for(&world) {
            return Ok(self.plan.clone());
        }
        let plan = self.given.for_another(&world, self.plan)?;
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
        let done =
            targets::each(given, &|failure| _ = failure.report(Some(self.given.source)), |pid, what| {
                match work(pid, what) {
                    Ok(one) => Ok(Some(one)),
                    Err(failure) if is_replaced(&failure) => {
                        replaced.push(pid);
                        Ok(None)
                    }
                    Err(failure) => Err(failure),
                }
            });
        Ok(done?.into_iter().flatten().collect())
    }

    /// A script of BEGIN, END and interval probes.
    fn trace_nothing<W: Write>(&self, signals: SigSet, report: Report<W>) -> Result<ExitCode, Failure> {
        let segment = self.maps()?;
        let mut events = self.begin(&segment, signals, report)?;
        events.watch(&segment, None, None, None)?;
        self.end(&segment, events, None, true, Tally::default())
    }

    fn trace_targets<W: Write>(
        &self,
        opened: Vec<Given<Target>>,
        mut replaced: Vec<i32>,
        mut command: Option<&mut EndOnFailure>,
        mut clock: Option<Clock>,
        signals: SigSet,
        report: Report<W>,
    ) -> Result<ExitCode, Failure> {
        let (maps, is_alone) = (Arc::new(self.maps()?), opened.len() + replaced.len() == 1);
        let prepared = self.each(opened, &mut replaced, |pid, (target, plan)| {
            let prepared = target.map(|target| self.prepare_given(target, &maps, &plan)).transpose()?;
            Ok((pid, (prepared, plan)))
        })?;
        let mut events = self.begin(&maps, signals, report)?;
        if let Some(clock) = &mut clock {
            clock.keep(&maps);
        }
        if let Some(recorder) = self.recorder.take() {
            events.record_to(recorder, clock.take(), &maps)?;
        }
        // Before they run on: they may have ended soon after.
        prepared.iter().for_each(|(pid, _)| events.look(*pid));
        let is_command = command.is_some();
        let first = prepared.iter().map(|(pid, _)| *pid).chain(replaced.iter().copied());
        let first: Vec<i32> = first.collect();
        let start = || Intercept::start(self, self.subjects, &first, is_command);
        // A command may execute another program as soon as it runs. Other processes run already, and could not be attached to while they are
        // blocked, since nothing handles their events yet.
        let before = if is_command { start() } else { None };
        let began = since_boot();
        // Before the first of them runs on.
        let children = self.subjects.selection.has_children().then(|| Children::awaited(&maps));
        let (mut targets, awaited) = self.arm_all(prepared, &maps, &mut replaced, is_alone, is_command)?;
        let intercept = if is_command { before } else { start() };
        let mut roll = Roll::new(self, maps.clone(), self.subjects, intercept, children, began);
        roll.await_files(awaited);
        roll.first(&mut targets)?.iter().try_for_each(|line| events.process(line))?;
        replaced.into_iter().for_each(|pid| roll.replaced(pid));
        let launched = command.as_mut().and_then(|command| command.begun());
        events.watch(&maps, Some((&mut targets, &mut roll)), launched, clock)?;
        self.leave(&maps, events, targets, &mut roll, command)
    }

    /// Takes everything out, and says what came of it.
    fn leave<W: Write>(
        &self,
        maps: &Segment,
        events: Events<'_, W>,
        mut targets: Targets,
        roll: &mut Roll<'_>,
        command: Option<&mut EndOnFailure>,
    ) -> Result<ExitCode, Failure> {
        roll.stop_intercepting();
        let never = required::executed(self.plan, self.subjects, roll.unseen());
        // One that was running, and has executed another program, may have been probed until then.
        let was_replaced = command.is_none() && roll.counts().execs > 0;
        let is_nothing = targets.coverage().is_empty() && !self.plan.sites.is_empty() && !was_replaced;
        if is_nothing && never.is_none() && !self.given.args.quiet {
            tell!("weir: nothing was probed: no process of the run had what the script names");
        }
        let (pending, is_detached) =
            targets.detach(&|one, undone, start| self.tell_undone(one, undone, start.elapsed()));
        targets.all.iter_mut().for_each(costs::finish);
        let mut launched = command.and_then(|command| command.launched.take());
        let has_ended = launched.as_mut().is_some_and(|launched| launched.try_wait().is_some());
        let tally = Tally { coverage: targets.coverage(), pending, processes: roll.counts() };
        let ended = self.end(maps, events, launched, is_detached, tally)?;
        if !is_detached {
            self.guard.stuck();
            return Ok(ExitCode::from(3));
        }
        match never {
            // A process that was not held may have executed it. The summary reports that.
            Some(failure) if has_ended && roll.not_held() == 0 => Err(failure),
            _ => Ok(ended),
        }
    }

    /// Also the files that a command does not map, and may by executing another program. `is_alone`: only one was given, so
    /// that it need not be named in what is told.
    fn arm_all(
        &self,
        prepared: Vec<Given<Prepared>>,
        maps: &Arc<Segment>,
        replaced: &mut Vec<i32>,
        is_alone: bool,
        is_command: bool,
    ) -> Result<(Targets, BTreeSet<String>), Failure> {
        let mapped: BTreeSet<String> =
            prepared.iter().flat_map(|(pid, (_, plan))| names_mapped(plan, *pid)).collect();
        let is_awaited = |site: &&Site| is_command && may_be_executed(&site.binary);
        let awaited = self.plan.sites.iter().filter(is_awaited).map(|site| site.path.clone());
        let awaited: BTreeSet<String> = awaited.filter(|path| !mapped.contains(path)).collect();
        if !awaited.is_empty() && !self.given.args.quiet {
            let names: Vec<&str> = awaited.iter().map(String::as_str).collect();
            tell!("weir: the command does not map {} yet; waiting for an exec", names.join(", "));
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
            armed.inspect_err(|_| self.guard.detached(pid))
        });
        Ok((Targets::new(armed?), awaited))
    }

    /// Sets the clock of `elapsed`, and runs BEGIN.
    fn begin<W: Write>(
        &self,
        segment: &Segment,
        signals: SigSet,
        mut report: Report<W>,
    ) -> Result<Events<'_, W>, Failure> {
        let mut value = vec![0; weir_codegen::GLOBAL_BYTES as usize];
        value[weir_codegen::GLOBAL_START as usize..][..8].copy_from_slice(&now_ns().to_le_bytes());
        let globals = segment.map(self.plan.compiled.globals as usize);
        globals.update(&0u32.to_le_bytes(), &value, 0).map_err(|error| Failure::Bug(anyhow!("{error}")))?;
        if !self.given.args.quiet {
            let probes: usize = self.plan.compiled.triggers.iter().map(probes_of).sum();
            report.attached_probes(probes as u64).map_err(output_failed)?;
        }
        // On a terminal the view tells what messages would.
        let is_silent = self.given.args.quiet || self.given.args.live && io::stderr().is_terminal();
        let costs = Costs::new(&self.plan.compiled, is_silent);
        let mut events = Events::new(
            &self.plan.compiled,
            self.given.decider,
            &self.plan.verified,
            signals,
            report,
            costs,
        )?;
        if self.given.args.live {
            let share = self.given.args.budget.and_then(|budget| budget.share);
            events.show(Live::start(share.map(|share| share.to_string())));
        }
        if let Some(flight) = self.flight.take() {
            events.fly(flight);
        }
        if let Some(asked) =
            self.given.recording.and_then(|recording| Watch::new(recording.args, &self.plan.compiled))
        {
            events.ask(asked);
        }
        if let Some(tended) = self.tended.take() {
            events.tend(tended);
        }
        events.begin(segment)?;
        Ok(events)
    }

    /// Runs END, prints what is left in the ring and every map, and says what was lost.
    fn end<W: Write>(
        &self,
        segment: &Segment,
        mut events: Events<'_, W>,
        launched: Option<Launched>,
        is_over: bool,
        tally: Tally,
    ) -> Result<ExitCode, Failure> {
        if let Some(recorded) = events.end(segment, is_over)? {
            match self.given.args.quiet {
                true => recorded.tell_losses(),
                false => recorded.tell(),
            }
        }
        events.end_asked(segment);
        if let (Some(groups), Some(_), false) = (&self.groups, self.given.recording, self.given.args.quiet) {
            groups.borrow().tell();
        }
        if !self.given.args.quiet {
            let Tally { coverage, pending, processes } = tally;
            let counted =
                coverage.summary(&self.plan.compiled, segment, &segment.counters(), &pending, processes);
            let summary = Summary { rails: events.costs().report(), ..counted };
            self.tell_summary(&summary);
            events.summary(&summary)?;
        }
        Ok(ExitCode::from(events.exit_code(self.end_command(launched))))
    }

    /// What of the summary is worth saying.
    pub(super) fn tell_summary(&self, summary: &Summary) {
        match self.given.args.verbose {
            true => tell_text(&summary.text()),
            false => {
                let processes = summary.processes.told();
                tell_text(&[processes, summary.unloaded(), summary.lost(), summary.slowed()].concat());
            }
        }
    }

    /// Asks the command to end; the exit code that passes on how it has ended, if it has by itself.
    pub(super) fn end_command(&self, launched: Option<Launched>) -> Option<u8> {
        let mut launched = launched?;
        let ended = launched.try_wait();
        match ended {
            None => launched.terminate(),
            Some(ended) => self.tell_ended(ended),
        }
        ended.map(code_of)
    }

    /// Says how the command has ended by itself, if that is worth saying. Ctrl-C goes to both.
    fn tell_ended(&self, ended: Ended) {
        match ended {
            Ended::Signal(Signal::SIGINT) => {}
            Ended::Signal(signal) if !self.given.args.quiet => {
                tell!("weir: the command was killed by {signal}")
            }
            Ended::Code(code) if code != 0 && !self.given.args.quiet || self.given.args.verbose => {
                tell!("weir: the command ended with exit code {code}")
            }
            _ => {}
        }
    }
}

/// From here on these signals are handled via signalfd; and the mask that was, which a command inherits.
pub(super) fn block_signals(more: Option<Signal>) -> Result<(SigSet, SigSet), Failure> {
    let mut signals = SigSet::from_iter([Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP, Signal::SIGCHLD]);
    signals.extend(more);
    // A file that may not grow further (RLIMIT_FSIZE) is an error of the write, like a full disk.
    let blocked = SigSet::from_iter(signals.iter().chain([Signal::SIGXFSZ]));
    let old_mask = blocked.thread_swap_mask(nix::sys::signal::SigmaskHow::SIG_BLOCK);
    Ok((signals, old_mask.context("blocking signals").map_err(Failure::Machine)?))
}

/// The exit code that passes on how the command has ended, as a shell has it.
fn code_of(ended: Ended) -> u8 {
    match ended {
        Ended::Code(code) => code as u8,
        Ended::Signal(signal) => 128 + signal as u8,
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

/// A command, which does not run on where its run fails: nothing of it runs if it cannot be traced from the beginning, and later it
/// is asked to end, as at the end of any run.
pub(super) struct EndOnFailure {
    pub(super) launched: Option<Launched>,
    has_begun: bool,
}

impl EndOnFailure {
    /// From now on it runs.
    pub(super) fn begun(&mut self) -> Option<&mut Launched> {
        self.has_begun = true;
        self.launched.as_mut()
    }

    pub(super) fn end(&mut self) {
        match &mut self.launched {
            Some(launched) if self.has_begun => launched.terminate(),
            Some(launched) => launched.kill(),
            None => {}
        }
    }
}

impl Drop for EndOnFailure {
    fn drop(&mut self) {
        self.end();
    }
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

pub(super) fn probes_of(trigger: &Trigger) -> usize {
    match trigger {
        // Two clauses of the script.
        Trigger::Session { sites } => 2 * sites.len(),
        probe if probe.is_probe() => probe.cookies().len(),
        _ => 1,
    }
}
