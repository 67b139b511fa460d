//! The course of a run in the kernel (`--engine kernel`): its programs are loaded through bpf(2) and attached to uprobes, and weir puts nothing into the
//! processes.
//!
//! In: a [`Run`](crate::Run), whose script is compiled. Out: what [`processes`](mod@crate::processes) gives for a run in the processes: output, summary, exit code. Maps and
//! ring are the kernel's ([`engine`]); BEGIN, END and intervals run there as well. Which places may be probed say [`places`]. [`half`] is what
//! of a script runs in the kernel while the rest runs in the processes.
//!
//! A process that executes another program is asked about again where a policy is in force, and let go if that is denied: within [`LOOK_INTERVAL_OF_POLICY`].
//!
//! Deliberately not here: children ([`Follow`](weir_process::Follow)), processes that come later, budgets, recordings. They are refused by name
//! ([`refuse`]).

mod engine;
mod half;
mod places;
pub(crate) mod stand_in;

pub(crate) use self::half::InKernelHalf;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, anyhow};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use weir_codegen::HITS_ENTRIES;
use weir_event::Schema;
use weir_event::kernel::KernelEvent;
use weir_ir::{Builtin, Function, Module, Op, Trigger};
use weir_kernel::{Features, KernelError, Link, Place, Ring};
use weir_policy::guard::Guard;
use weir_policy::policy::Needs;
use weir_probe::{scan, target};
use weir_report::{Entry, ProcessCounts};
use weir_source::Span;
use weir_symbols::maps::Mapping;

use crate::clock::now_ns;
use crate::command::{EndOnFailure, end_command};
use crate::controller::Controller;
use crate::course::Course;
use crate::failure::Failure;
use crate::in_kernel::InKernel;
use crate::kernel::engine::{AtEvents, Engine, InKernelCaller, Numbered, read_some};
use crate::kernel::places::Places;
use crate::notice::{NotProbed, Notice, note};
use crate::options::{Engine as Chosen, Options};
use crate::output::Output;
use crate::plan::Plan;
use crate::shared::{Shared, output_failed};
use crate::stages::{self, Site, probes_of};
use crate::start::Start;
use crate::store::{Store as _, word};
use crate::summary::Coverage;
use crate::targets;

/// Interval of what no descriptor reports: what processes map, records that were lost.
const LOOK_INTERVAL: Duration = Duration::from_millis(250);

/// The same where a policy says which programs may be traced.
const LOOK_INTERVAL_OF_POLICY: Duration = Duration::from_millis(20);

/// When it is known what a process maps that has just begun.
const LOOKS_MIN: u32 = 2;

/// The kernel waits for all CPUs at each tracepoint that it takes a program off, one after the other: more take over a second.
const EVENTS_AT_ONCE: usize = 20;

/// For so long lists are read before signals and the ends of processes are looked at again.
const STEPS: Duration = Duration::from_millis(20);

/// What a run asks for that the kernel engine does not do.
pub(super) fn refuse(options: &Options, is_recording: bool) -> Result<(), Failure> {
    let Options { cgroups, units, containers, .. } = options;
    let names_processes = !cgroups.is_empty() || !units.is_empty() || !containers.is_empty();
    let has_names = options.processes.iter().any(|spec| !matches!(spec, weir_process::ProcessSpec::Pid(_)));
    let asked = [
        (is_recording, "`weir record`"),
        (options.follow.is_some(), "--follow"),
        (names_processes || has_names, "processes by name, --cgroup, --unit and --container"),
        (options.filter.is_some(), "--filter"),
        (options.program.is_some(), "--program"),
        (options.budget.is_some(), "--budget"),
        (options.has_view, "--live"),
    ];
    let asked: Vec<&str> = asked.iter().filter(|(is_asked, _)| *is_asked).map(|(_, what)| *what).collect();
    match &asked[..] {
        [] => Ok(()),
        asked => Err(Failure::Refused(anyhow!(
            "{} takes scripts on processes by number (-p PID), a command (-c) or all processes: not {}; {}",
            named(options),
            asked.join(", "),
            way_out(options)
        ))),
    }
}

/// The same where the rest of the script runs in processes: what would be put into every clause.
pub(super) fn refuse_of_half(options: &Options) -> Result<(), Failure> {
    let asked = [(options.filter.is_some(), "--filter"), (options.program.is_some(), "--program")];
    match asked.iter().find(|(is_asked, _)| *is_asked) {
        None => Ok(()),
        Some((_, what)) => {
            Err(Failure::Refused(anyhow!("{what} is not for events of the kernel: {}", way_out(options))))
        }
    }
}

/// A policy that says which processes may be traced allows no events of all.
pub(super) fn check_policy(guard: &Guard) -> Result<(), Failure> {
    match guard.is_free() {
        true => Ok(()),
        false => Err(Failure::Refused(anyhow!(
            "a policy says which processes may be traced, and an event of the kernel's is one of all processes"
        ))),
    }
}

/// Why the script runs there, for messages.
fn named(options: &Options) -> &'static str {
    match options.engine {
        Chosen::Kernel => "--engine kernel",
        Chosen::Auto | Chosen::User => "a script with events of the kernel",
    }
}

/// What to do where the kernel is not able to do what the processes are.
fn way_out(options: &Options) -> &'static str {
    match options.engine {
        Chosen::Kernel => "leave --engine out",
        Chosen::Auto | Chosen::User => "give its probes of processes a script of their own",
    }
}

/// Numbers of processes mean the same there.
pub(super) fn check_namespace(options: &Options) -> Result<(), Failure> {
    if is_initial_namespace() {
        return Ok(());
    }
    let (named, way_out) = (named(options), way_out(options));
    Err(Failure::Refused(anyhow!(
        "{named} numbers processes as the initial PID namespace does, and this is another: run weir outside the container, or {way_out}"
    )))
}

/// What a script asks for that programs in the kernel cannot have, and the clause that does.
pub(super) fn check(module: &Module, options: &Options) -> Result<(), (Failure, Span)> {
    let is_float = |op: &Op| matches!(op, Op::Builtin(Builtin::Float(_)));
    let uses = |function: &&Function| function.ops().any(is_float);
    match module.functions.iter().find(uses) {
        None => Ok(()),
        Some(function) => {
            let failure = Failure::Refused(anyhow!(
                "{}: the kernel has no floating-point registers for programs; {}",
                function.name,
                way_out(options)
            ));
            Err((failure, function.span))
        }
    }
}

/// Of each place why the kernel would not be asked to probe it, as far as files say it and, where it is known, the process.
pub(super) fn checked_places(plan: &Plan, pid: Option<i32>) -> Vec<Result<(), String>> {
    let mappings = pid.and_then(|pid| Some((pid, target::read_mappings(pid).ok()?)));
    let places = match &mappings {
        Some((pid, mappings)) => Places::of(plan, *pid, mappings),
        None => Places::of_files(plan),
    };
    let check = |site: &Site| {
        let results: Vec<_> = site.programs.iter().map(|wanted| places.place(site, wanted)).collect();
        let any = results.iter().any(Result::is_ok);
        let first = results.into_iter().find_map(Result::err).filter(|_| !any);
        first.map_or(Ok(()), Err)
    };
    plan.sites.iter().map(check).collect()
}

/// Attaches to the processes, or starts the command.
pub(super) fn start(
    shared: Rc<Shared>,
    first: Option<i32>,
    features: Features,
    start: Start,
) -> Result<InKernelCourse, Failure> {
    let Start { mut report, view, supervisor } = start;
    if view.is_some() || supervisor.is_some() {
        return Err(Failure::Usage(anyhow!("a run in the kernel has no view, and nobody supervises it")));
    }
    let (options, compiled) = (&shared.given.options, &shared.plan.compiled);
    let maps = Rc::new(InKernel::create(compiled)?);
    let caller = InKernelCaller::load(compiled, &maps.maps, &|_| true)?;
    // The command is held until this is dropped: after it was ended, where the run fails before.
    let mut held = None;
    let mut command = None;
    let mut waiting = None;
    let mut given = Vec::new();
    if let Some(words) = &options.command {
        let (guard, waits) = shared.prepare_command(words)?;
        given.push((guard.pid(), ()));
        (command, waiting) = (Some(guard), Some(waits));
    }
    maps.start_clock(compiled, command.as_ref().map(EndOnFailure::pid))?;
    given.extend(shared.subjects.selection.pids.iter().map(|pid| (*pid, ())));
    if !options.is_quiet() {
        let probes: usize = compiled.triggers.iter().map(probes_of).sum();
        let line = report.attached_probes(probes as u64).map_err(output_failed)?;
        line.into_iter().for_each(|text| shared.notices.send(Notice::Script { text, is_warning: false }));
    }
    let ring = Ring::open(&maps.maps, compiled.ring as usize)?;
    let unmapped = shared.plan.sites.iter().map(|site| site.binary.path().to_owned()).collect();
    let mut course = InKernelCourse {
        processes: Vec::new(),
        output: Output::new(shared.plan.clone(), report, shared.notices.clone()),
        controller: Controller::new(compiled),
        ring,
        caller,
        engine: Engine::new(features, maps.clone()),
        events: AtEvents::default(),
        is_of_lists: false,
        of_all: OfAll::default(),
        maps,
        unmapped,
        looks: 0,
        looked: None,
        is_stopped: false,
        shared: shared.clone(),
        command: None,
    };
    course.controller.begin(&course.caller)?;
    if shared.is_over_after_begin() {
        course.output.ask_to_exit(0);
    }
    course.read_all()?;
    let is_of_all = given.is_empty() && !shared.plan.sites.is_empty();
    let sees_all = is_of_all || compiled.triggers.iter().any(Trigger::is_kernel);
    if sees_all {
        check_policy(&shared.guard)?;
    }
    let pids: Vec<i32> = given.iter().map(|(pid, ())| *pid).collect();
    course.events =
        AtEvents::attach(compiled, &course.maps.maps, &pids, shared.plan.missing, &shared.notices)?;
    let is_event = |trigger: &Trigger| trigger.is_kernel() && !is_of_list(trigger);
    if course.events.places() == 0 && shared.plan.sites.is_empty() && compiled.triggers.iter().any(is_event) {
        note!(shared.notices, Probes, "none of the script's probes at events of the kernel can be attached");
    }
    course.is_of_lists = pids.is_empty() && compiled.triggers.iter().all(is_of_list);
    if !course.is_of_lists {
        course.read_lists()?;
    }
    // That it is executed is an event itself.
    if let (Some(command), Some(waiting)) = (&mut command, waiting) {
        held = Some(shared.execute_command(command, waiting)?);
    }
    if is_of_all {
        course.of_all = shared.attach_to_all(&mut course.engine)?;
    }
    let is_command = command.is_some();
    let engine = &mut course.engine;
    let attached = targets::each(given, &shared.notices, |pid, ()| {
        let is_first = is_command || Some(pid) == first;
        let plan = if is_first { shared.plan.clone() } else { shared.plan_for(pid)? };
        shared.attach_in_kernel(engine, pid, plan)
    });
    course.processes = attached.inspect_err(|_| _ = command.as_mut().map(EndOnFailure::end))?;
    for process in &course.processes {
        course.output.symbols.look(process.pid);
    }
    drop(held);
    if let Some(command) = &mut command {
        command.begins();
    }
    course.command = command;
    course.controller.start_intervals(Instant::now());
    Ok(course)
}

/// Refuses a process with probes of another weir: the kernel takes the first byte of a probe from the file, and would put it back there over
/// a jump of weir's.
pub(crate) fn check_alone(pid: i32) -> Result<(), Failure> {
    let own = std::process::id();
    let others = scan::all_in(pid)?.into_iter().find(|probed| probed.identity.controller_pid != own);
    others.map_or(Ok(()), |probed| {
        Err(Failure::Machine(anyhow!(
            "process {pid} has probes of weir {} in it, beside which the kernel's do harm: end that run, or put the code back with `weir detach -p {pid}`",
            probed.identity.controller_pid
        )))
    })
}

impl Shared {
    /// Clauses that never ran, in files that no process was seen to map. One that ended before it was looked at again may have mapped them.
    fn tell_unmapped(&self, run: &InKernelCourse) {
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
                let (name, path) = (&program.name, path.display());
                note!(self.notices, Probes, "{name} never ran: no process was seen to map {path}");
            }
        }
    }

    /// Attaches every program to its places in one process. Places that cannot be probed are reported; one that the script requires is an error.
    fn attach_in_kernel(&self, engine: &mut Engine, pid: i32, plan: Rc<Plan>) -> Result<Process, Failure> {
        // From here on the number cannot mean another process.
        let fd = pidfd(pid)?;
        target::check_program(pid)?;
        if !has_memory(pid) {
            return Err(Failure::Machine(anyhow!(
                "process {pid} has lost its main thread, and the kernel probes no other: {}",
                way_out(&self.given.options)
            )));
        }
        check_alone(pid)?;
        self.admit_in_kernel(pid, &plan)?;
        let program = program_of(pid);
        let mut process = Process {
            pid,
            fd,
            is_over: false,
            program,
            plan,
            links: Vec::new(),
            coverage: Coverage::default(),
        };
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
                "process {pid}: the policy allows probes {share} of its CPU time, to which the kernel's cannot be held: {}",
                way_out(&self.given.options)
            )));
        }
        Ok(self.guard.attach(pid, &Needs::of(&plan.verified))?)
    }

    /// Attaches every program to its places in all processes, now and later.
    fn attach_to_all(&self, engine: &mut Engine) -> Result<OfAll, Failure> {
        let plan = &self.plan;
        let returns =
            plan.sites.iter().flat_map(|site| &site.programs).any(|wanted| wanted.when.wants_return());
        let all = self.subjects.processes().pids().context("/proc").map_err(Failure::Machine)?;
        for pid in all {
            let Ok(mappings) = target::read_mappings(pid) else { continue };
            if !plan.sites.iter().any(|site| is_mapped(plan, site.binary.path(), &mappings)) {
                continue;
            }
            if let Some(probed) = scan::probed(pid)? {
                return Err(Failure::Machine(anyhow!(
                    "process {pid} has probes of weir {} in it, beside which the kernel's do harm: end that run, or name the processes with -p",
                    probed.identity.controller_pid
                )));
            }
            if returns && let Err(why) = target::check_kernel_returns(pid, &mappings) {
                return Err(Failure::Refused(anyhow!(
                    "returns cannot be probed in all processes: {why} ({pid}); name the processes with -p"
                )));
            }
        }
        let (probes, sites) = (engine.load(plan)?, sites_of(plan));
        let (links, coverage) = self.linked(probes, &sites, &Places::of_files(plan), None)?;
        Ok(OfAll { links, coverage })
    }

    fn link_all(&self, engine: &mut Engine, process: &mut Process) -> Result<(), Failure> {
        let (pid, plan) = (process.pid, process.plan.clone());
        let mappings = target::read_mappings(pid)?;
        let places = Places::of(&plan, pid, &mappings);
        let (probes, sites) = (engine.load(&plan)?, sites_of(&plan));
        (process.links, process.coverage) = self.linked(probes, &sites, &places, Some(pid))?;
        Ok(())
    }

    /// Links of these programs to their places, in one process or in all.
    fn linked(
        &self,
        probes: &[Numbered],
        sites: &[&Site],
        places: &Places<'_>,
        pid: Option<i32>,
    ) -> Result<(Vec<Link>, Coverage), Failure> {
        let mut links = Vec::new();
        // By the numbers of their programs and sites.
        let mut refused: BTreeMap<(usize, usize), String> = BTreeMap::new();
        for (index, probe) in probes {
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
                match probe.attach(file, &all, pid) {
                    Ok(link) => links.push(link),
                    Err(KernelError::Attach { source, .. })
                        if source.raw_os_error() == Some(nix::libc::ESRCH)
                            && let Some(pid) = pid =>
                    {
                        return Err(weir_probe::Error::TargetGone { pid }.into());
                    }
                    // Some of them: which ones they are, the kernel does not say.
                    Err(_) => {
                        for (number, place) in places {
                            match probe.attach(file, &[place], pid) {
                                Ok(link) => links.push(link),
                                Err(error) => _ = refused.insert((*index, number), reason(&error)),
                            }
                        }
                    }
                }
            }
        }
        if let Err(failure) = self.check_refused(sites, &refused) {
            let_go(&mut links);
            return Err(failure);
        }
        let numbers: BTreeSet<usize> = refused.keys().map(|(_, number)| *number).collect();
        Ok((links, Coverage::of_kernel(sites.len(), numbers.len())))
    }

    /// A place that the script insists on ends it for the process, and a clause that can run nowhere; of others it is said that they are not probed.
    fn check_refused(
        &self,
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
            return Err(Failure::Refused(anyhow!("the kernel cannot probe {label}: {why}")));
        }
        if !refused.is_empty() && !self.given.options.is_quiet() {
            let line = |((_, number), why): (&(usize, usize), &String)| {
                format!("{}: {why}", sites[*number].label_of_place())
            };
            let each = || (refused.iter().map(line).collect(), Vec::new());
            self.notices.send(Notice::NotProbed(NotProbed {
                process: None,
                places: sites.len(),
                what: stages::places(sites.iter().copied()),
                refused: BTreeMap::from([("kernel".to_owned(), refused.len() as u64)]),
                returns_refused: BTreeMap::new(),
                each: self.given.options.is_verbose().then(each),
            }));
        }
        Ok(())
    }
}

/// Probes of functions in whatever process maps their files.
#[derive(Default)]
struct OfAll {
    links: Vec<Link>,
    coverage: Coverage,
}

/// One that is traced.
struct Process {
    pid: i32,
    fd: OwnedFd,
    /// It was seen to have ended.
    is_over: bool,
    /// What it executes.
    program: Option<PathBuf>,
    plan: Rc<Plan>,
    links: Vec<Link>,
    coverage: Coverage,
}

impl Process {
    fn look(&mut self) {
        self.is_over = self.is_over || self.has_ended();
    }

    fn has_ended(&self) -> bool {
        let mut fds = [PollFd::new(self.fd.as_fd(), PollFlags::POLLIN)];
        matches!(poll(&mut fds, PollTimeout::ZERO), Ok(ready) if ready > 0)
    }

    fn let_go(&mut self) {
        let_go(&mut self.links);
    }
}

/// Takes programs out. Those at returns first: no return is seen whose call was not.
fn let_go(links: &mut Vec<Link>) {
    while links.pop().is_some() {}
}

impl Drop for Process {
    fn drop(&mut self) {
        self.let_go();
    }
}

/// Dropped in this order: no process has programs any more when their maps go, and the command is ended last.
pub(super) struct InKernelCourse {
    processes: Vec<Process>,
    events: AtEvents,
    /// It ends when all lists were read.
    is_of_lists: bool,
    of_all: OfAll,
    output: Output,
    controller: Controller,
    ring: Ring,
    caller: InKernelCaller,
    engine: Engine,
    maps: Rc<InKernel>,
    /// Files that are probed, and that no process was seen to map.
    unmapped: BTreeSet<PathBuf>,
    /// How often processes were looked at, and when last.
    looks: u32,
    looked: Option<Instant>,
    /// Somebody has asked for the end.
    is_stopped: bool,
    shared: Rc<Shared>,
    command: Option<EndOnFailure>,
}

impl Course for InKernelCourse {
    fn poll(&mut self, _: bool) -> Result<bool, Failure> {
        self.controller.run_due_intervals(&self.caller, Instant::now())?;
        self.read_all()?;
        let began = Instant::now();
        while self.events.has_more() && began.elapsed() < STEPS {
            self.events.step()?;
            self.read_all()?;
        }
        if self.is_of_lists && !self.events.has_more() {
            return Ok(true);
        }
        self.output.tell_lost(self.output.no_room(&*self.maps), false)?;
        self.maps.check()?;
        if self.output.exit().is_some() || self.is_stopped {
            return Ok(true);
        }
        self.processes.iter_mut().for_each(Process::look);
        // A descriptor reports the end of the command as well; this takes its exit code.
        let launched = self.command.as_mut().and_then(|command| command.launched.as_mut());
        let is_left = self.processes.iter().any(|process| !process.is_over);
        let runs = launched.map_or(is_left, |launched| launched.try_wait().is_none());
        // A script without probes ends by itself or is ended.
        if !self.processes.is_empty() && !runs {
            return Ok(true);
        }
        if self.until_look().is_zero() {
            self.looked = Some(Instant::now());
            self.look();
        }
        Ok(false)
    }

    fn watched(&self) -> Vec<BorrowedFd<'_>> {
        let left = self.processes.iter().filter(|process| !process.is_over);
        std::iter::once(self.ring.descriptor()).chain(left.map(|process| process.fd.as_fd())).collect()
    }

    fn until(&self) -> Duration {
        if self.events.has_more() {
            return Duration::ZERO;
        }
        let until = self.controller.next_interval().map(|at| at.saturating_duration_since(Instant::now()));
        until.unwrap_or(Duration::MAX).min(self.until_look())
    }

    fn stop(&mut self) {
        self.is_stopped = true;
    }

    fn signalled(&mut self) -> Result<(), Failure> {
        match self.output.exit() {
            None => self.controller.signalled(&self.caller),
            Some(_) => Ok(()),
        }
    }

    fn snapshot(&mut self) {}

    fn schema(&self) -> &Schema {
        &self.shared.plan.compiled.schema
    }

    fn entries(&self, map: &str) -> Option<Vec<Entry>> {
        self.output.entries(&*self.maps, map)
    }

    /// Runs END, prints what is left in the ring and every map, and says what was lost.
    fn end(&mut self) -> Result<u8, Failure> {
        let shared = self.shared.clone();
        let places = self.events.places();
        if places > EVENTS_AT_ONCE {
            note!(
                shared.notices,
                Probes,
                "taking programs off {places} events: the kernel waits some 70 ms at each"
            );
        }
        self.events.let_go();
        let_go(&mut self.of_all.links);
        for process in &mut self.processes {
            process.let_go();
            shared.guard.detached(process.pid);
        }
        self.output.symbols.finish();
        // No program writes to the ring any more.
        self.read_rest()?;
        self.controller.end(&self.caller)?;
        self.output.ends();
        self.read_rest()?;
        self.output.print_all(&*self.maps, &|_| None)?;
        self.output.tell_lost(self.output.no_room(&*self.maps), true)?;
        let missed = (
            self.engine.missed() + self.events.missed(),
            "hits came while another program ran on their CPU, and were missed".to_owned(),
        );
        shared.notices.losses(self.output.losses(&*self.maps).into_iter().chain([missed]));
        self.maps.check()?;
        if !shared.given.options.is_quiet() {
            shared.tell_unmapped(self);
            let (counters, pending) = Default::default();
            let counts = ProcessCounts { traced: self.processes.len() as u64, ..ProcessCounts::default() };
            let mut coverage = Coverage::of_kernel(places, 0);
            coverage.add(&self.of_all.coverage);
            self.processes.iter().for_each(|process| coverage.add(&process.coverage));
            let summary = coverage.summary(&shared.plan.compiled, &*self.maps, &counters, &pending, counts);
            shared.report_summary(&summary);
            self.output.summary(&summary)?;
        }
        self.output.flush()?;
        let ended = end_command(self.command.as_mut().and_then(|command| command.launched.take()));
        let of_command = shared.report_command(ended);
        let by_itself = of_command.filter(|_| !self.is_stopped).unwrap_or(0);
        Ok(self.output.exit().map_or(by_itself, |code| code as u8))
    }
}

impl InKernelCourse {
    /// How long until processes are to be looked at.
    fn until_look(&self) -> Duration {
        let is_free = self.shared.guard.is_free();
        let interval = if is_free { LOOK_INTERVAL } else { LOOK_INTERVAL_OF_POLICY };
        self.looked.map_or(Duration::ZERO, |looked| interval.saturating_sub(looked.elapsed()))
    }

    /// What processes map by now, and what they execute.
    fn look(&mut self) {
        let InKernelCourse { processes, output, unmapped, shared, looks, .. } = self;
        *looks += u32::from(processes.iter().any(|process| !process.is_over));
        output.symbols.look_at(processes.iter().map(|process| (process.pid, process.is_over)));
        for process in processes.iter_mut().filter(|process| !process.is_over) {
            if !unmapped.is_empty()
                && let Ok(mappings) = target::read_mappings(process.pid)
            {
                unmapped.retain(|path| !is_mapped(&process.plan, path, &mappings));
            }
            let program = program_of(process.pid);
            if program == process.program || program.is_none() {
                continue;
            }
            process.program = program;
            if let Err(failure) = shared.admit_in_kernel(process.pid, &process.plan) {
                note!(
                    shared.notices,
                    Processes,
                    "process {} executes another program, and is not traced any more: {failure}",
                    process.pid
                );
                process.let_go();
                shared.guard.detached(process.pid);
            }
        }
    }

    /// Reads what is there, but not for ever where programs write all the time; whether that was all.
    fn read_all(&mut self) -> Result<bool, Failure> {
        let began = now_ns();
        let is_all = read_some(&mut self.ring, |record| self.output.record(&*self.maps, record))?;
        if is_all {
            self.output.drained(began);
        }
        self.output.flush()?;
        Ok(is_all)
    }

    /// Reads what is listed now, while the command is held.
    fn read_lists(&mut self) -> Result<(), Failure> {
        while self.events.has_more() {
            self.events.step()?;
            self.read_all()?;
        }
        Ok(())
    }

    /// Reads all. No program writes any more.
    fn read_rest(&mut self) -> Result<(), Failure> {
        while !self.read_all()? {}
        Ok(())
    }
}

/// Where its programs are attached. The kernel catches returns by itself.
fn sites_of(plan: &Plan) -> Vec<&Site> {
    plan.sites.iter().filter(|site| !site.is_exit).collect()
}

/// It runs for what is listed, or before and after.
fn is_of_list(trigger: &Trigger) -> bool {
    match trigger {
        Trigger::Kernel { sites } => {
            sites.iter().all(|site| matches!(site.event, KernelEvent::Iterator { .. }))
        }
        trigger => matches!(trigger, Trigger::Begin | Trigger::End),
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
    is_in_initial_namespace(std::process::id() as i32)
}

/// A process has the numbers there that the kernel has for it.
pub(crate) fn is_in_initial_namespace(pid: i32) -> bool {
    fs::read_link(format!("/proc/{pid}/ns/pid")).is_ok_and(|link| link.as_os_str() == INITIAL_PID_NAMESPACE)
}
