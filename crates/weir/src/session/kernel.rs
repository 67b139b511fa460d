//! The course of a run in the kernel (`--engine kernel`): its programs are loaded through bpf(2) and attached to uprobes, and weir puts nothing into the
//! processes.
//!
//! In: a [`Session`], whose script is compiled. Out: what [`run`](mod@crate::session::run) gives for a run in the processes: output, summary, exit code. Maps and
//! ring are the kernel's ([`engine`]); BEGIN, END and intervals run there as well. Which places may be probed say [`places`].
//!
//! A process that executes another program is asked about again where a policy is in force, and let go if that is denied: within [`LOOK_INTERVAL_OF_POLICY`].
//!
//! Deliberately not here: children ([`Follow`](weir_process::Follow)), processes that come later, budgets, recordings. They are refused by name
//! ([`refuse`]).

mod engine;
mod places;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{BufWriter, Write};
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::rc::Rc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, anyhow};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::SigSet;
use nix::sys::signalfd::{SfdFlags, SignalFd};
use weir_codegen::HITS_ENTRIES;
use weir_ir::{Builtin, Function, Inst, Module, Op};
use weir_kernel::{Features, KernelError, Link, Place, Ring};
use weir_policy::policy::Needs;
use weir_probe::{scan, target};
use weir_report::{ProcessCounts, Report};
use weir_symbols::maps::Mapping;

use crate::args;
use crate::failure::Failure;
use crate::print::tell;
use crate::session::controller::Controller;
use crate::session::kernel::engine::{Engine, InKernel, InKernelCaller};
use crate::session::kernel::places::Places;
use crate::session::output::{Output, tell_losses};
use crate::session::plan::Plan;
use crate::session::run::{EndOnFailure, block_signals, probes_of};
use crate::session::stages::{self, Site};
use crate::session::store::{Store as _, word};
use crate::session::summary::Coverage;
use crate::session::{Session, now_ns, output_failed, targets};

/// Interval of what no descriptor reports: what processes map, records that were lost.
const LOOK_INTERVAL: Duration = Duration::from_millis(250);

/// The same where a policy says which programs may be traced.
const LOOK_INTERVAL_OF_POLICY: Duration = Duration::from_millis(20);

/// When it is known what a process maps that has just begun.
const LOOKS_MIN: u32 = 2;

/// Records read in a row before signals and the ends of processes are looked at again.
const RECORDS_PER_ROUND: usize = 4096;

/// What a run asks for that the kernel engine does not do.
pub(super) fn refuse(args: &args::Trace, is_recording: bool) -> Result<(), Failure> {
    let names_processes = !args.cgroups.is_empty() || !args.units.is_empty() || !args.containers.is_empty();
    let has_names = args.processes.iter().any(|spec| !matches!(spec, weir_process::ProcessSpec::Pid(_)));
    let asked = [
        (is_recording, "`weir record`"),
        (args.follow.is_some(), "--follow"),
        (names_processes || has_names, "processes by name, --cgroup, --unit and --container"),
        (args.filter.is_some(), "--filter"),
        (args.decider.is_some(), "--program"),
        (args.budget.is_some(), "--budget"),
        (args.live, "--live"),
    ];
    let asked: Vec<&str> = asked.iter().filter(|(is_asked, _)| *is_asked).map(|(_, what)| *what).collect();
    match &asked[..] {
        [] => Ok(()),
        asked => Err(Failure::Refused(anyhow!(
            "--engine kernel takes scripts on processes by number (-p PID) or a command (-c): not {}; leave --engine out",
            asked.join(", ")
        ))),
    }
}

/// What a script asks for that programs in the kernel cannot have.
pub(super) fn check(module: &Module) -> Result<(), Failure> {
    let is_float = |inst: &Inst| matches!(inst.op, Op::Builtin(Builtin::Float(_)));
    let uses = |function: &&Function| function.blocks.iter().flat_map(|block| &block.insts).any(is_float);
    match module.functions.iter().find(uses) {
        None => Ok(()),
        Some(function) => Err(Failure::Refused(anyhow!(
            "{}: the kernel has no floating-point registers for programs; leave --engine out",
            function.name
        ))),
    }
}

impl Session<'_> {
    pub(super) fn run_in_kernel(&self, first: Option<i32>, features: Features) -> Result<ExitCode, Failure> {
        if !is_initial_namespace() {
            return Err(Failure::Refused(anyhow!(
                "--engine kernel numbers processes as the initial PID namespace does, and this is another: run weir outside the container, or leave --engine out"
            )));
        }
        let mut report = Report::new(BufWriter::new(self.output()?), self.given.args.format.into());
        let (signals, old_mask) = block_signals(None)?;
        let compiled = &self.plan.compiled;
        let maps = InKernel::create(compiled)?;
        let caller = InKernelCaller::load(compiled, &maps.maps)?;
        // The command is held until this is dropped: after it was ended, where the run fails before.
        let mut held = None;
        let mut command = None;
        let mut given = Vec::new();
        if let Some(run) = &self.given.args.run {
            let (guard, target) = self.launch(run, old_mask)?;
            given.push((target.pid(), ()));
            (command, held) = (Some(guard), Some(target));
        }
        given.extend(self.subjects.selection.pids.iter().map(|pid| (*pid, ())));
        if !self.given.args.quiet {
            let probes: usize = compiled.triggers.iter().map(probes_of).sum();
            report.attached_probes(probes as u64).map_err(output_failed)?;
        }
        let mut run = Run {
            output: Output::new(compiled, report),
            controller: Controller::new(compiled),
            ring: Ring::open(&maps.maps, compiled.ring as usize)?,
            caller,
            maps: &maps,
            unmapped: self.plan.sites.iter().map(|site| site.binary.path().to_owned()).collect(),
            looks: 0,
        };
        run.controller.begin(&run.caller)?;
        run.read_all()?;
        let mut engine = Engine::new(features, &maps.maps);
        let is_command = command.is_some();
        let attached =
            targets::each(given, &|failure| _ = failure.report(Some(self.given.source)), |pid, ()| {
                let plan =
                    if is_command || Some(pid) == first { self.plan.clone() } else { self.plan_for(pid)? };
                self.attach_in_kernel(&mut engine, pid, plan)
            });
        let mut processes = attached.inspect_err(|_| _ = command.as_mut().map(EndOnFailure::end))?;
        processes.iter().for_each(|process| run.output.symbols.look(process.pid));
        drop(held.take());
        let mut launched = command.as_mut().and_then(EndOnFailure::begun);
        let watched = run.watch(self, signals, &mut processes, &mut |is_left| {
            // A descriptor reports its end as well; this takes its exit code.
            launched.as_mut().map_or(is_left, |launched| launched.try_wait().is_none())
        });
        for process in &mut processes {
            process.let_go();
            self.guard.detached(process.pid);
        }
        let is_stopped = watched?;
        self.end_in_kernel(run, &engine, &processes, command.as_mut(), is_stopped)
    }

    /// Runs END, prints what is left in the ring and every map, and says what was lost.
    fn end_in_kernel<W: Write>(
        &self,
        mut run: Run<'_, W>,
        engine: &Engine<'_>,
        processes: &[Process],
        command: Option<&mut EndOnFailure>,
        is_stopped: bool,
    ) -> Result<ExitCode, Failure> {
        run.output.symbols.finish();
        // No program writes to the ring any more.
        run.read_rest()?;
        run.controller.end(&run.caller)?;
        run.output.ends();
        run.read_rest()?;
        run.output.print_all(run.maps, &|_| None)?;
        run.output.tell_lost(run.output.no_room(run.maps), true)?;
        let missed =
            (engine.missed(), "hits came while another program ran on their CPU, and were missed".to_owned());
        tell_losses(run.output.losses(run.maps).into_iter().chain([missed]));
        run.maps.check()?;
        if !self.given.args.quiet {
            self.tell_unmapped(&run);
            let (counters, pending) = Default::default();
            let counts = ProcessCounts { traced: processes.len() as u64, ..ProcessCounts::default() };
            let mut coverage = Coverage::default();
            processes.iter().for_each(|process| coverage.add(&process.coverage));
            let summary = coverage.summary(&self.plan.compiled, run.maps, &counters, &pending, counts);
            self.tell_summary(&summary);
            run.output.summary(&summary)?;
        }
        run.output.flush()?;
        let of_command = self.end_command(command.and_then(|command| command.launched.take()));
        let by_itself = of_command.filter(|_| !is_stopped).unwrap_or(0);
        Ok(ExitCode::from(run.output.exit().map_or(by_itself, |code| code as u8)))
    }

    /// Clauses that never ran, in files that no process was seen to map. One that ended before it was looked at again may have mapped them.
    fn tell_unmapped<W: Write>(&self, run: &Run<'_, W>) {
        let Some(hits) = self.plan.compiled.hits.filter(|_| run.looks >= LOOKS_MIN) else { return };
        let ran = |number: usize| {
            let counted = run.maps.lookup(hits, &(number as u32).to_le_bytes()).unwrap_or_default();
            word(&counted, HITS_ENTRIES) > 0
        };
        let sites = &self.plan.sites;
        let has_run = |path: &Path| {
            let mut of_path = sites.iter().filter(|site| site.binary.path() == path);
            of_path.any(|site| site.programs.iter().any(|wanted| ran(wanted.program)))
        };
        for (number, program) in self.plan.compiled.object.programs.iter().enumerate() {
            let of_program = |site: &&Site| site.programs.iter().any(|wanted| wanted.program == number);
            let paths: BTreeSet<&Path> =
                sites.iter().filter(of_program).map(|site| site.binary.path()).collect();
            let is_unmapped = |path: &&Path| run.unmapped.contains(*path) && !has_run(path);
            if let Some(path) = paths.first().filter(|_| paths.iter().all(is_unmapped)) {
                tell!("weir: {} never ran: no process was seen to map {}", program.name, path.display());
            }
        }
    }

    /// Attaches every program to its places in one process. Places that cannot be probed are reported; one that the script requires is an error.
    fn attach_in_kernel(
        &self,
        engine: &mut Engine<'_>,
        pid: i32,
        plan: Rc<Plan>,
    ) -> Result<Process, Failure> {
        // From here on the number cannot mean another process.
        let fd = pidfd(pid)?;
        target::check_program(pid)?;
        if !has_memory(pid) {
            return Err(Failure::Machine(anyhow!(
                "process {pid} has lost its main thread, and the kernel probes no other: leave --engine out"
            )));
        }
        if let Some(probed) = scan::probed(pid)? {
            // The kernel takes the first byte of a probe from the file, and would put it back there over a jump of weir's.
            return Err(Failure::Machine(anyhow!(
                "process {pid} has probes of weir {} in it, beside which the kernel's do harm: end that run, or put the code back with `weir detach -p {pid}`",
                probed.identity.controller_pid
            )));
        }
        self.admit_in_kernel(pid, &plan)?;
        let program = program_of(pid);
        let mut process =
            Process { pid, fd, program, plan, links: Vec::new(), coverage: Coverage::default() };
        let attached = self.link_all(engine, &mut process);
        if process.has_ended() {
            process.let_go();
            self.guard.detached(pid);
            return Err(weir_probe::Error::TargetGone { pid }.into());
        }
        match attached {
            Ok(()) => Ok(process),
            Err(failure) => {
                process.let_go();
                self.guard.detached(pid);
                Err(failure)
            }
        }
    }

    /// A policy that bounds the share of CPU time cannot be kept to: a hit in the kernel costs what it costs.
    fn admit_in_kernel(&self, pid: i32, plan: &Plan) -> Result<(), Failure> {
        // The maps are as large in the kernel.
        if let Some(share) = self.budget(pid, plan)?.share {
            return Err(Failure::Refused(anyhow!(
                "process {pid}: the policy allows probes {share} of its CPU time, to which the kernel's cannot be held: leave --engine out"
            )));
        }
        Ok(self.guard.attach(pid, &Needs::of(&plan.verified))?)
    }

    fn link_all(&self, engine: &mut Engine<'_>, process: &mut Process) -> Result<(), Failure> {
        let (pid, plan) = (process.pid, process.plan.clone());
        let mappings = target::read_mappings(pid)?;
        let places = Places::of(&plan, pid, &mappings);
        let sites: Vec<&Site> = plan.sites.iter().filter(|site| !site.is_exit).collect();
        // By the numbers of their programs and sites.
        let mut refused: BTreeMap<(usize, usize), String> = BTreeMap::new();
        for (index, probe) in engine.load(&plan)? {
            let mut by_file: BTreeMap<&Path, Vec<(usize, Place)>> = BTreeMap::new();
            for (number, site) in sites.iter().enumerate() {
                for wanted in site.programs.iter().filter(|wanted| wanted.program == *index) {
                    match places.place(site, wanted) {
                        Ok(place) => by_file.entry(site.binary.path()).or_default().push((number, place)),
                        Err(why) => _ = refused.insert((*index, number), why),
                    }
                }
            }
            for (file, places) in by_file {
                let all: Vec<Place> = places.iter().map(|(_, place)| *place).collect();
                match probe.attach(file, &all, Some(pid)) {
                    Ok(link) => process.links.push(link),
                    Err(KernelError::Attach { source, .. })
                        if source.raw_os_error() == Some(nix::libc::ESRCH) =>
                    {
                        return Err(weir_probe::Error::TargetGone { pid }.into());
                    }
                    // Some of them: which ones they are, the kernel does not say.
                    Err(_) => {
                        for (number, place) in places {
                            match probe.attach(file, &[place], Some(pid)) {
                                Ok(link) => process.links.push(link),
                                Err(error) => _ = refused.insert((*index, number), reason(&error)),
                            }
                        }
                    }
                }
            }
        }
        self.check_refused(&plan, &sites, &refused)?;
        let numbers: BTreeSet<usize> = refused.keys().map(|(_, number)| *number).collect();
        process.coverage = Coverage::of_kernel(sites.len(), numbers.len());
        Ok(())
    }

    /// A place that the script insists on ends it for the process, and a clause that can run nowhere; of others it is said that they are not probed.
    fn check_refused(
        &self,
        plan: &Plan,
        sites: &[&Site],
        refused: &BTreeMap<(usize, usize), String>,
    ) -> Result<(), Failure> {
        let insists = |(program, number): (usize, usize)| {
            sites[number].programs.iter().any(|wanted| wanted.program == program && wanted.insists)
        };
        let is_hopeless = |(program, _): (usize, usize)| {
            let runs = |site: &&Site| site.programs.iter().any(|wanted| wanted.program == program);
            let places = (0..sites.len()).filter(|number| runs(&sites[*number]));
            places.into_iter().all(|number| refused.contains_key(&(program, number)))
        };
        if let Some(((_, number), why)) = refused.iter().find(|(of, _)| insists(**of) || is_hopeless(**of)) {
            let label = sites[*number].label_of_place();
            return Err(Failure::Refused(anyhow!("--engine kernel cannot probe {label}: {why}")));
        }
        if !refused.is_empty() && !self.given.args.quiet {
            tell!(
                "weir: {} of {} {} are not probed:",
                refused.len(),
                sites.len(),
                stages::places(&plan.sites)
            );
            for ((_, number), why) in refused.iter().filter(|_| self.given.args.verbose) {
                tell!("weir:   {}: {why}", sites[*number].label_of_place());
            }
            let hint = if self.given.args.verbose { "" } else { " (-v names them)" };
            tell!("weir:   kernel {}{hint}", refused.len());
        }
        Ok(())
    }
}

/// One that is traced.
struct Process {
    pid: i32,
    fd: OwnedFd,
    /// What it executes.
    program: Option<PathBuf>,
    plan: Rc<Plan>,
    links: Vec<Link>,
    coverage: Coverage,
}

impl Process {
    fn has_ended(&self) -> bool {
        let mut fds = [PollFd::new(self.fd.as_fd(), PollFlags::POLLIN)];
        matches!(poll(&mut fds, PollTimeout::ZERO), Ok(ready) if ready > 0)
    }

    /// Takes the programs out. Those at returns first: no return is seen whose call was not.
    fn let_go(&mut self) {
        while self.links.pop().is_some() {}
    }
}

/// The part of a run while its programs are attached.
struct Run<'a, W: Write> {
    output: Output<'a, W>,
    controller: Controller<'a>,
    ring: Ring<'a>,
    caller: InKernelCaller,
    maps: &'a InKernel,
    /// Files that are probed, and that no process was seen to map.
    unmapped: BTreeSet<PathBuf>,
    /// How often processes were looked at.
    looks: u32,
}

impl<W: Write> Run<'_, W> {
    /// Runs until exit() is called, a signal arrives, or all processes have exited. True if a signal ended it. `runs` decides whether the run goes
    /// on; its argument is whether a process is left.
    fn watch(
        &mut self,
        session: &Session<'_>,
        signals: SigSet,
        processes: &mut [Process],
        runs: &mut dyn FnMut(bool) -> bool,
    ) -> Result<bool, Failure> {
        let flags = SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC;
        let signals = SignalFd::with_flags(&signals, flags).context("signalfd").map_err(Failure::Machine)?;
        self.controller.start_intervals(Instant::now());
        let interval = if session.guard.is_free() { LOOK_INTERVAL } else { LOOK_INTERVAL_OF_POLICY };
        let (mut ended, mut looked) = (vec![false; processes.len()], None::<Instant>);
        loop {
            self.controller.run_due_intervals(&self.caller, Instant::now())?;
            self.read_all()?;
            self.output.tell_lost(self.output.no_room(self.maps), false)?;
            self.maps.check()?;
            if self.output.exit().is_some() {
                return Ok(false);
            }
            while let Ok(Some(signal)) = signals.read_signal() {
                if signal.ssi_signo as i32 != nix::libc::SIGCHLD {
                    return Ok(true);
                }
            }
            // A script without probes ends by itself or is ended.
            if !processes.is_empty() && !runs(ended.contains(&false)) {
                return Ok(false);
            }
            if looked.is_none_or(|at| at.elapsed() >= interval) {
                looked = Some(Instant::now());
                self.look(session, processes, &ended);
            }
            let until =
                self.controller.next_interval().map(|at| at.saturating_duration_since(Instant::now()));
            let wait = until.unwrap_or(interval).min(interval);
            let mut watched = vec![
                PollFd::new(signals.as_fd(), PollFlags::POLLIN),
                PollFd::new(self.ring.descriptor(), PollFlags::POLLIN),
            ];
            let left: Vec<usize> = (0..processes.len()).filter(|index| !ended[*index]).collect();
            watched.extend(
                left.iter().map(|index| PollFd::new(processes[*index].fd.as_fd(), PollFlags::POLLIN)),
            );
            let timeout =
                PollTimeout::try_from(wait + Duration::from_micros(999)).unwrap_or(PollTimeout::ZERO);
            match poll(&mut watched, timeout) {
                Ok(_) | Err(nix::errno::Errno::EINTR) => {}
                Err(errno) => return Err(Failure::Machine(anyhow!(errno).context("poll"))),
            }
            let answers: Vec<bool> = watched[2..].iter().map(|fd| fd.any().unwrap_or(false)).collect();
            left.into_iter().zip(answers).for_each(|(index, has_ended)| ended[index] = has_ended);
        }
    }

    /// What processes map by now, and what they execute.
    fn look(&mut self, session: &Session<'_>, processes: &mut [Process], ended: &[bool]) {
        self.looks += u32::from(ended.contains(&false));
        self.output
            .symbols
            .look_at(processes.iter().zip(ended).map(|(process, ended)| (process.pid, *ended)));
        for process in
            processes.iter_mut().zip(ended).filter(|(_, ended)| !**ended).map(|(process, _)| process)
        {
            if !self.unmapped.is_empty()
                && let Ok(mappings) = target::read_mappings(process.pid)
            {
                self.unmapped.retain(|path| !is_mapped(&process.plan, path, &mappings));
            }
            let program = program_of(process.pid);
            if program == process.program || program.is_none() {
                continue;
            }
            process.program = program;
            if let Err(failure) = session.admit_in_kernel(process.pid, &process.plan) {
                tell!(
                    "weir: process {} executes another program, and is not traced any more: {failure}",
                    process.pid
                );
                process.let_go();
                session.guard.detached(process.pid);
            }
        }
    }

    /// Reads what is there, but not for ever where programs write all the time; whether that was all.
    fn read_all(&mut self) -> Result<bool, Failure> {
        let began = now_ns();
        for _ in 0..RECORDS_PER_ROUND {
            let Some(record) = self.ring.next() else {
                self.output.symbols.note_drained(began);
                self.output.flush()?;
                return Ok(true);
            };
            self.output.record(self.maps, &record)?;
        }
        self.output.flush()?;
        Ok(false)
    }

    /// Reads all. No program writes any more.
    fn read_rest(&mut self) -> Result<(), Failure> {
        while !self.read_all()? {}
        Ok(())
    }
}

/// The file at `path`, of a plan, is among these.
fn is_mapped(plan: &Plan, path: &Path, mappings: &[Mapping]) -> bool {
    let of_path = |site: &&Site| site.binary.path() == path;
    let identity = plan.sites.iter().find(of_path).and_then(|site| site.binary.identity());
    identity.is_some_and(|identity| mappings.iter().any(|mapping| mapping.is_file(identity)))
}

/// What the kernel says, without what was to be attached where.
fn reason(error: &KernelError) -> String {
    match error {
        KernelError::Attach { source, .. } => source.to_string(),
        other => other.to_string(),
    }
}

fn pidfd(pid: i32) -> Result<OwnedFd, Failure> {
    let gone = || Failure::from(weir_probe::Error::NoProcess { pid });
    let number = rustix::process::Pid::from_raw(pid).ok_or_else(gone)?;
    rustix::process::pidfd_open(number, rustix::process::PidfdFlags::empty()).map_err(|_| gone())
}

/// The path of what a process executes.
fn program_of(pid: i32) -> Option<PathBuf> {
    fs::read_link(format!("/proc/{pid}/exe")).ok()
}

/// Its main thread has not ended before the others.
fn has_memory(pid: i32) -> bool {
    fs::read_to_string(format!("/proc/{pid}/status")).is_ok_and(|status| status.contains("\nVmSize:"))
}

/// The number of the initial PID namespace (PROC_PID_INIT_INO of linux/proc_ns.h).
const INITIAL_PID_NAMESPACE: &str = "pid:[4026531836]";

fn is_initial_namespace() -> bool {
    fs::read_link("/proc/self/ns/pid").is_ok_and(|link| link.as_os_str() == INITIAL_PID_NAMESPACE)
}
