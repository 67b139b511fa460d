//! The course of a run in the kernel (`--engine kernel`): its programs are loaded through bpf(2) and attached to uprobes, and nothing is put into the
//! processes.
//!
//! In: a [`Session`], whose script is compiled. Out: what [`mod@run`](crate::session::run) gives for a run in the processes: the same output, summary and exit
//! code. Maps and ring are the kernel's; BEGIN, END and intervals run there as well.
//!
//! Deliberately not here: children ([`Follow`](weir_process::Follow)), processes that come later, budgets, recordings. They are refused by name
//! ([`refuse`]).

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs;
use std::io::{BufWriter, Write};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::process::ExitCode;
use std::rc::Rc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, anyhow};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::SigSet;
use nix::sys::signalfd::{SfdFlags, SignalFd};
use weir_codegen::{Compiled, GLOBAL_BYTES, GLOBAL_START};
use weir_ebpf::elf::ObjectFile;
use weir_ir::Trigger;
use weir_kernel::{Called, End, Features, KernelError, Link, Maps, Place, Probe, Ring};
use weir_policy::policy::Needs;
use weir_probe::scan;
use weir_report::{ProcessCounts, Report};

use crate::args;
use crate::failure::Failure;
use crate::print::tell;
use crate::session::controller::{Caller, Controller};
use crate::session::output::{Output, tell_losses};
use crate::session::plan::Plan;
use crate::session::run::{EndOnFailure, block_signals, probes_of};
use crate::session::stages::{self, Site};
use crate::session::store::Store;
use crate::session::summary::Coverage;
use crate::session::{Session, now_ns, output_failed};

/// How often the loop looks around where no descriptor tells it to: what processes map, records that were lost.
const LOOK_INTERVAL: Duration = Duration::from_millis(250);

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

impl Session<'_> {
    pub(super) fn run_in_kernel(&self, first: Option<i32>, features: Features) -> Result<ExitCode, Failure> {
        let mut report = Report::new(BufWriter::new(self.output()?), self.given.args.format.into());
        let (signals, old_mask) = block_signals(None)?;
        let compiled = &self.plan.compiled;
        let maps = InKernel::create(compiled)?;
        let called = called(compiled, &maps.maps)?;
        let mut command = None;
        let mut processes = Vec::new();
        for &pid in &self.subjects.selection.pids {
            weir_probe::target::check_to_undo(pid)?;
            let plan = if Some(pid) == first { self.plan.clone() } else { self.plan_for(pid)? };
            processes.push((pid, plan));
        }
        // It is held until this is dropped.
        let mut held = None;
        if let Some(run) = &self.given.args.run {
            let (guard, target) = self.launch(run, old_mask)?;
            processes.push((target.pid(), self.plan.clone()));
            (command, held) = (Some(guard), Some(target));
        }
        if !self.given.args.quiet {
            let probes: usize = compiled.triggers.iter().map(probes_of).sum();
            report.attached_probes(probes as u64).map_err(output_failed)?;
        }
        let mut run = Run {
            output: Output::new(compiled, report),
            controller: Controller::new(compiled),
            ring: Ring::open(&maps.maps, compiled.ring as usize)?,
            caller: ByNumber(called),
            maps: &maps,
        };
        run.controller.begin(&run.caller)?;
        run.read_all()?;
        let (mut engine, mut coverage, mut pids) =
            (Engine { features, loaded: Vec::new() }, Coverage::default(), Vec::new());
        let mut links = Vec::new();
        for (pid, plan) in &processes {
            let attached = self.attach_in_kernel(&mut engine, &maps.maps, *pid, plan)?;
            coverage.add(&attached.1);
            links.extend(attached.0);
            pids.push((*pid, pidfd(*pid)?));
            run.output.symbols.look(*pid);
        }
        drop(held);
        let mut launched = command.as_mut().and_then(EndOnFailure::begun);
        let is_stopped = run.watch(signals, &pids, &mut |is_left| {
            // Its end is what a descriptor tells as well; its exit code is asked for.
            launched.as_mut().map_or(is_left, |launched| launched.try_wait().is_none())
        })?;
        // Those at returns first: no return is seen whose call was not.
        while links.pop().is_some() {}
        pids.iter().for_each(|(pid, _)| self.guard.detached(*pid));
        self.end_in_kernel(run, &engine, &coverage, command.as_mut(), (is_stopped, pids.len() as u64))
    }

    /// Runs END, prints what is left in the ring and every map, and says what was lost.
    fn end_in_kernel<W: Write>(
        &self,
        mut run: Run<'_, W>,
        engine: &Engine,
        coverage: &Coverage,
        command: Option<&mut EndOnFailure>,
        (is_stopped, traced): (bool, u64),
    ) -> Result<ExitCode, Failure> {
        run.output.symbols.finish();
        run.read_all()?;
        run.controller.end(&run.caller)?;
        run.output.ends();
        run.read_all()?;
        run.output.print_all(run.maps, &|_| None)?;
        run.output.tell_lost(run.output.no_room(run.maps), true)?;
        let missed =
            engine.loaded.iter().flat_map(|(_, probes)| probes).map(|(_, probe)| probe.missed()).sum();
        let missed = (missed, "hits came while another program ran on their CPU, and were missed".to_owned());
        tell_losses(run.output.losses(run.maps).into_iter().chain([missed]));
        run.maps.check()?;
        if !self.given.args.quiet {
            let (pending, processes) =
                (Default::default(), ProcessCounts { traced, ..ProcessCounts::default() });
            let summary =
                coverage.summary(&self.plan.compiled, run.maps, &Default::default(), &pending, processes);
            self.tell_summary(&summary);
            run.output.summary(&summary)?;
        }
        run.output.flush()?;
        let of_command = self.end_command(command.and_then(|command| command.launched.take()));
        let by_itself = of_command.filter(|_| !is_stopped).unwrap_or(0);
        Ok(ExitCode::from(run.output.exit().map_or(by_itself, |code| code as u8)))
    }

    /// Attaches every program to its places in one process. Places that the kernel does not take are told; one that the script insists on ends the run.
    fn attach_in_kernel(
        &self,
        engine: &mut Engine,
        maps: &Maps,
        pid: i32,
        plan: &Rc<Plan>,
    ) -> Result<(Vec<Link>, Coverage), Failure> {
        if let Some(probed) = scan::probed(pid)? {
            // The kernel takes the first byte of a probe from the file, and would put it back there over a jump of weir's.
            return Err(Failure::Machine(anyhow!(
                "process {pid} has probes of weir {} in it, beside which the kernel's do harm: end that run, or put the code back with `weir detach -p {pid}`",
                probed.identity.controller_pid
            )));
        }
        self.guard.attach(pid, &Needs::of(&plan.verified))?;
        let sites: Vec<&Site> = plan.sites.iter().filter(|site| !site.is_exit).collect();
        // By the numbers of their sites.
        let (mut links, mut refused) = (Vec::new(), BTreeMap::new());
        for (index, probe) in engine.load(plan, maps)? {
            let mut by_file: BTreeMap<&Path, Vec<(usize, Place)>> = BTreeMap::new();
            for (number, site) in sites.iter().enumerate() {
                for wanted in site.programs.iter().filter(|wanted| wanted.program == *index) {
                    match place(site, wanted.cookie) {
                        Ok(place) => by_file.entry(site.binary.path()).or_default().push((number, place)),
                        Err(why) => _ = refused.insert(number, why),
                    }
                }
            }
            for (file, places) in by_file {
                let all: Vec<Place> = places.iter().map(|(_, place)| *place).collect();
                match probe.attach(file, &all, Some(pid)) {
                    Ok(link) => links.push(link),
                    Err(error) if all.len() == 1 => {
                        refused.insert(places[0].0, reason(&error));
                    }
                    // Some of them: which ones they are, the kernel does not say.
                    Err(_) => {
                        for (number, place) in places {
                            match probe.attach(file, &[place], Some(pid)) {
                                Ok(link) => links.push(link),
                                Err(error) => _ = refused.insert(number, reason(&error)),
                            }
                        }
                    }
                }
            }
        }
        let coverage = Coverage::of_kernel(sites.len(), refused.len());
        self.refused_by_kernel(&sites, &refused, &coverage)?;
        Ok((links, coverage))
    }

    /// A place that the script insists on ends the run; of others it is said that they are not probed.
    fn refused_by_kernel(
        &self,
        sites: &[&Site],
        refused: &BTreeMap<usize, String>,
        coverage: &Coverage,
    ) -> Result<(), Failure> {
        let insists = |number: usize| sites[number].programs.iter().any(|wanted| wanted.insists);
        let needed = refused.iter().find(|(number, _)| insists(**number) || coverage.is_empty());
        if let Some((number, why)) = needed {
            let label = sites[*number].label_of_place();
            return Err(Failure::Machine(anyhow!("the kernel does not probe {label}: {why}")));
        }
        if !refused.is_empty() && !self.given.args.quiet {
            tell!(
                "weir: {} of {} {} are not probed:",
                refused.len(),
                sites.len(),
                stages::places(&self.plan.sites)
            );
            for (number, why) in refused.iter().filter(|_| self.given.args.verbose) {
                tell!("weir:   {}: {why}", sites[*number].label_of_place());
            }
            let hint = if self.given.args.verbose { "" } else { " (-v names them)" };
            tell!("weir:   kernel {}{hint}", refused.len());
        }
        Ok(())
    }
}

/// The part of a run while its programs are attached.
struct Run<'a, W: Write> {
    output: Output<'a, W>,
    controller: Controller<'a>,
    ring: Ring<'a>,
    caller: ByNumber,
    maps: &'a InKernel,
}

impl<W: Write> Run<'_, W> {
    /// Until exit() is called, a signal asks for the end, or all processes have ended; whether its user has ended it. `runs`: whether the run goes on,
    /// told whether a process is left.
    fn watch(
        &mut self,
        signals: SigSet,
        pids: &[(i32, OwnedFd)],
        runs: &mut dyn FnMut(bool) -> bool,
    ) -> Result<bool, Failure> {
        let flags = SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC;
        let signals = SignalFd::with_flags(&signals, flags).context("signalfd").map_err(Failure::Machine)?;
        self.controller.start_intervals(Instant::now());
        let mut ended = vec![false; pids.len()];
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
            if !pids.is_empty() && !runs(ended.contains(&false)) {
                return Ok(false);
            }
            let until =
                self.controller.next_interval().map(|at| at.saturating_duration_since(Instant::now()));
            let wait = until.unwrap_or(LOOK_INTERVAL).min(LOOK_INTERVAL);
            let mut watched = vec![
                PollFd::new(signals.as_fd(), PollFlags::POLLIN),
                PollFd::new(self.ring.descriptor(), PollFlags::POLLIN),
            ];
            let left: Vec<usize> = (0..pids.len()).filter(|index| !ended[*index]).collect();
            watched.extend(left.iter().map(|index| PollFd::new(pids[*index].1.as_fd(), PollFlags::POLLIN)));
            let timeout =
                PollTimeout::try_from(wait + Duration::from_micros(999)).unwrap_or(PollTimeout::ZERO);
            match poll(&mut watched, timeout) {
                Ok(_) | Err(nix::errno::Errno::EINTR) => {}
                Err(errno) => return Err(Failure::Machine(anyhow!(errno).context("poll"))),
            }
            for (index, fd) in left.into_iter().zip(&watched[2..]) {
                ended[index] = fd.any().unwrap_or(false);
            }
            self.output.symbols.look_at(pids.iter().zip(&ended).map(|((pid, _), ended)| (*pid, *ended)));
        }
    }

    /// Reads what is there, but not for ever where programs write all the time.
    fn read_all(&mut self) -> Result<(), Failure> {
        let began = now_ns();
        for _ in 0..RECORDS_PER_ROUND {
            let Some(record) = self.ring.next() else {
                self.output.symbols.note_drained(began);
                break;
            };
            self.output.record(self.maps, &record)?;
        }
        self.output.flush()
    }
}

/// What the kernel has taken: of each plan its programs, by their numbers. A program is loaded for each end that it runs at.
struct Engine {
    features: Features,
    loaded: Vec<(Rc<Plan>, Vec<Numbered>)>,
}

/// A program by its number.
type Numbered = (usize, Probe);

impl Engine {
    fn load(&mut self, plan: &Rc<Plan>, maps: &Maps) -> Result<&[Numbered], Failure> {
        let at = match self.loaded.iter().position(|(other, _)| Rc::ptr_eq(other, plan)) {
            Some(at) => at,
            None => {
                let Compiled { object, triggers, hits, .. } = &plan.compiled;
                let mut probes = Vec::new();
                for (index, (program, trigger)) in object.programs.iter().zip(triggers).enumerate() {
                    for end in ends(trigger, hits.is_some(), self.features) {
                        probes.push((index, Probe::load(program, maps, *end, self.features)?));
                    }
                }
                self.loaded.push((plan.clone(), probes));
                self.loaded.len() - 1
            }
        };
        Ok(&self.loaded[at].1)
    }
}

/// At which ends a program is attached. One for returns is at the entry too where it counts that it was there.
fn ends(trigger: &Trigger, counts_hits: bool, features: Features) -> &'static [End] {
    match trigger {
        Trigger::Uprobe { .. } | Trigger::Usdt { .. } => &[End::Entry],
        Trigger::Uretprobe { .. } if counts_hits && features.session.is_some() => &[End::Both],
        Trigger::Uretprobe { .. } if counts_hits => &[End::Entry, End::Return],
        Trigger::Uretprobe { .. } => &[End::Return],
        Trigger::Session { .. } => &[End::Both],
        Trigger::Begin | Trigger::End | Trigger::Interval { .. } | Trigger::Filter => &[],
    }
}

/// The programs that are at no place.
fn called(compiled: &Compiled, maps: &Maps) -> Result<BTreeMap<usize, Called>, Failure> {
    let programs = compiled.object.programs.iter().zip(&compiled.triggers).enumerate();
    let of_controller = programs.filter(|(_, (_, trigger))| !trigger.is_probe());
    let called: Result<_, KernelError> =
        of_controller.map(|(index, (program, _))| Ok((index, Called::load(program, maps)?))).collect();
    Ok(called?)
}

struct ByNumber(BTreeMap<usize, Called>);

impl Caller for ByNumber {
    fn call(&self, program: usize) -> Result<(), Failure> {
        Ok(self.0[&program].call()?)
    }
}

/// Where a site is in its file.
fn place(site: &Site, cookie: u64) -> Result<Place, String> {
    let file = fs::metadata(site.binary.path()).map_err(|error| error.to_string())?;
    let is_it = site.binary.identity().is_some_and(|identity| identity.inode == file.ino());
    if !is_it {
        return Err("its file was deleted or replaced since the process mapped it".to_owned());
    }
    let offset = |address| site.binary.file_offset(address).map(|offset| offset.0);
    let offset_of = |address| offset(address).ok_or_else(|| "it is in no file".to_owned());
    let semaphore = site.semaphore.map(offset_of).transpose()?;
    Ok(Place { offset: offset_of(site.address)?, semaphore, cookie })
}

/// What the kernel says, without what was to be attached where.
fn reason(error: &KernelError) -> String {
    match error {
        KernelError::Attach { source, .. } => source.to_string(),
        other => other.to_string(),
    }
}

fn pidfd(pid: i32) -> Result<OwnedFd, Failure> {
    let gone = || Failure::from(weir_probe::Error::TargetGone { pid });
    let number = rustix::process::Pid::from_raw(pid).ok_or_else(gone)?;
    rustix::process::pidfd_open(number, rustix::process::PidfdFlags::empty()).map_err(|_| gone())
}

/// The kernel's maps. The first failure to read or change one is kept, and ends the run.
#[derive(Debug)]
struct InKernel {
    maps: Maps,
    failed: RefCell<Option<KernelError>>,
}

impl InKernel {
    /// Empty, but for tables of automata and the time of the beginning.
    fn create(compiled: &Compiled) -> Result<InKernel, Failure> {
        let mut file = ObjectFile::of(compiled.object.clone());
        if let Some((map, contents)) = &compiled.automata {
            file.maps[*map as usize].initial = Some(contents.clone());
        }
        let maps = Maps::of(&file)?;
        let mut globals = vec![0; GLOBAL_BYTES as usize];
        globals[GLOBAL_START as usize..][..8].copy_from_slice(&now_ns().to_le_bytes());
        maps.update(compiled.globals as usize, &[0; 4], &globals)?;
        Ok(InKernel { maps, failed: RefCell::default() })
    }

    fn check(&self) -> Result<(), Failure> {
        self.failed.take().map_or(Ok(()), |error| Err(error.into()))
    }

    fn kept<T: Default>(&self, done: Result<T, KernelError>) -> T {
        done.unwrap_or_else(|error| {
            self.failed.borrow_mut().get_or_insert(error);
            T::default()
        })
    }
}

impl Store for InKernel {
    fn lookup(&self, map: u32, key: &[u8]) -> Option<Vec<u8>> {
        self.kept(self.maps.lookup(map as usize, key))
    }

    fn entries(&self, map: u32) -> Vec<(Vec<u8>, Vec<u8>)> {
        self.kept(self.maps.entries(map as usize))
    }

    fn set(&self, map: u32, key: &[u8], value: &[u8]) {
        self.kept(self.maps.update(map as usize, key, value));
    }

    fn clear(&self, map: u32) {
        self.kept(self.maps.clear(map as usize));
    }

    fn zero(&self, map: u32) {
        self.kept(self.maps.zero(map as usize));
    }
}
