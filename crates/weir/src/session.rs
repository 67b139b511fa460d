//! One run of `weir trace`: wires the stages together, in the order of the data flow.
//!
//! In: the command line. Out: what the script prints, and an exit code. Holds no logic of any stage: compiling is
//! [`stages`], what the files say is [`world`], programs that run in weir itself are [`controller`], reading and
//! printing while the target runs is [`events`].

mod controller;
mod emit;
mod events;
mod stages;
mod summary;
mod world;

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow};
use nix::sys::signal::{SigSet, Signal};
use nix::time::{ClockId, clock_gettime};
use weir_codegen::Compiled;
use weir_ir::{MissingProbes, Trigger};
use weir_probe::launch::Ended;
use weir_probe::{Attachment, Launched, Outcome, Pending, Prepared, Refusal, Stops, Target};
use weir_rt::Clock;
use weir_rt::local;
use weir_rt::segment::{Identity, Segment, SegmentLayout};
use weir_source::SourceFile;
use weir_symbols::resolve::Places;
use weir_verifier::VerifiedProgram;

use crate::args::{self, Engine, Script, Stage};
use crate::failure::{Failure, is_machine};
use crate::print::printable;
use crate::report::Report;
use crate::session::controller::Controller;
use crate::session::events::{Events, Traced};
use crate::session::stages::Site;
use crate::session::summary::Coverage;
pub(crate) use crate::session::world::Binaries;

/// Runs the script that `args` names. The error comes with the source that its spans are in.
pub(crate) fn trace(args: &args::Trace) -> Result<ExitCode, (Failure, Option<SourceFile>)> {
    let (source, parameters) = read_source(args).map_err(|failure| (failure, None))?;
    run(args, &source, &parameters).map_err(|failure| (failure, Some(source)))
}

/// Compiles a script for no process in particular, and verifies it: `program` is its text, or else the first of
/// `arguments` is its file; the others are its parameters.
pub(crate) fn compile(
    program: Option<&str>,
    arguments: &[String],
) -> Result<Compiled, (Failure, Option<SourceFile>)> {
    let (script, parameters) = args::script(program, arguments);
    let source = source_of(script).map_err(|failure| (failure, None))?;
    let compiled = || {
        let mut warn = |warnings: &[_]| eprint!("{}", weir_source::render(&source, warnings, is_coloured()));
        let module = stages::front(&source, parameters, &binaries(None)?, &mut warn)?;
        let options = weir_codegen::Options { counts_hits: false, ..weir_codegen::Options::default() };
        Ok(stages::back(&module, &options)?.0)
    };
    compiled().map_err(|failure| (failure, Some(source.clone())))
}

fn is_coloured() -> bool {
    io::IsTerminal::is_terminal(&io::stderr())
}

fn read_source(args: &args::Trace) -> Result<(SourceFile, Vec<String>), Failure> {
    let (script, parameters) = args.script();
    Ok((source_of(script)?, parameters.to_vec()))
}

fn source_of(script: Script<'_>) -> Result<SourceFile, Failure> {
    match script {
        Script::Text(text) => Ok(SourceFile { name: "<-e>".into(), text: text.to_owned() }),
        Script::File(path) => {
            let text =
                fs::read_to_string(path).with_context(|| format!("cannot read script {}", path.display()));
            Ok(SourceFile { name: path.display().to_string(), text: text.map_err(Failure::Refused)? })
        }
    }
}

fn run(args: &args::Trace, source: &SourceFile, parameters: &[String]) -> Result<ExitCode, Failure> {
    if args.engine == Engine::Kernel {
        return Err(Failure::Refused(anyhow!("--engine kernel is not in this version; leave it out")));
    }
    if args.emit == Some(Stage::Ast) {
        return emit::ast(source);
    }
    let pid = one_pid(args)?;
    if let Some(pid) = pid {
        weir_probe::target::check(pid)?;
    }
    // Its rate is known by when the target runs.
    let clock = Clock::start();
    let start = Instant::now();
    let world = binaries(pid)?;
    let mut warn = |warnings: &[_]| eprint!("{}", weir_source::render(source, warnings, is_coloured()));
    let mut module = stages::front(source, parameters, &world, &mut warn)?;
    if !args.no_sessions {
        weir_ir::pass::fuse(&mut module);
    }
    if args.emit == Some(Stage::Ir) {
        return emit::text(&weir_ir::text::print(&module));
    }
    // The summary is what the counts are for.
    let counts_hits = args.verbose || args.format == args::Format::Json;
    let options = weir_codegen::Options { counts_hits, ..weir_codegen::Options::default() };
    let (compiled, verified) = stages::back(&module, &options)?;
    let found = Instant::now();
    let sites = stages::sites(&compiled, module.missing_probes, &world).map_err(Failure::Refused)?;
    if args.verbose && !sites.is_empty() {
        let (count, places) = (sites.len(), stages::places(&sites));
        let (found, planned) = (found - start, found.elapsed());
        eprintln!("weir: {count} {places}: compiled in {}, planned in {}", ms(found), ms(planned));
    }
    match args.emit {
        Some(Stage::Ebpf) => return emit::text(&weir_ebpf::asm::print(&compiled.object)),
        Some(Stage::Sites) => return emit::sites(&sites),
        Some(Stage::Asm) => return emit::asm(&sites, &compiled, &verified, pid),
        _ => {}
    }
    // Before anything is touched.
    indispensable(&sites, &[])?;
    hopeless(&compiled, &sites, &[])?;
    if !sites.is_empty() && pid.is_none() && args.run.is_none() {
        return Err(Failure::Refused(anyhow!(
            "the script probes {} of {}, but nothing says in which process: add -c COMMAND or -p PID \
             (tracing every process is not in this version)",
            stages::places(&sites),
            sites[0].path
        )));
    }
    let missing = module.missing_probes;
    Session { args, compiled: &compiled, verified: &verified, sites: &sites, missing }.run(pid, clock)
}

fn one_pid(args: &args::Trace) -> Result<Option<i32>, Failure> {
    match args.pids[..] {
        [] => Ok(None),
        [pid] => Ok(Some(pid)),
        _ => Err(Failure::Refused(anyhow!(
            "{} processes were given with -p; this version traces one at a time",
            args.pids.len()
        ))),
    }
}

/// The files of a target, or of this machine.
pub(crate) fn binaries(pid: Option<i32>) -> Result<Binaries, Failure> {
    let path_env = std::env::var_os("PATH");
    let cwd = std::env::current_dir().unwrap_or_else(|_| PathBuf::from("/"));
    let Some(pid) = pid else {
        return Ok(Binaries::new(Places { root: "/".into(), path_env, cwd }, Vec::new()));
    };
    let mappings = weir_probe::target::read_mappings(pid)?;
    let root = weir_probe::target::root(pid);
    // A target that shares weir's root is looked at without the detour, so that relative paths mean the same.
    let is_shared = match fs::read_link(&root) {
        Ok(link) => link.as_os_str() == "/",
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Err(weir_probe::Error::TargetGone { pid }.into());
        }
        Err(_) => false,
    };
    let root = if is_shared { "/".into() } else { root };
    Ok(Binaries::new(Places { root, path_env, cwd }, mappings))
}

/// A clause that cannot run at any of its places, or at none of their returns, makes the run pointless. `outcomes`: of
/// what was tried, if it was.
fn hopeless(compiled: &Compiled, sites: &[Site], outcomes: &[Outcome]) -> Result<(), Failure> {
    for (program, trigger) in compiled.triggers.iter().enumerate() {
        if !trigger.is_probe() {
            continue;
        }
        let of_program = || {
            sites.iter().enumerate().filter_map(move |(index, site)| {
                let wanted = site.programs.iter().find(|wanted| wanted.program == program)?;
                Some((site, site.refusal(wanted, outcomes.get(index))))
            })
        };
        if of_program().any(|(_, refusal)| refusal.is_none()) {
            continue;
        }
        if let Some((site, Some(refusal))) = of_program().next() {
            let more = of_program().count() - 1;
            let more = if more > 0 { format!(" (and {more} more)") } else { String::new() };
            let error = anyhow!("cannot probe {}: {refusal}{more}", site.label(refusal));
            return Err(if is_machine(refusal) { Failure::Machine(error) } else { Failure::Refused(error) });
        }
    }
    Ok(())
}

/// A place that was asked for by name and cannot be probed ends the run, if the script's `missing_probes` says so. All of
/// them are told.
fn indispensable(sites: &[Site], outcomes: &[Outcome]) -> Result<(), Failure> {
    let refused = sites.iter().enumerate().filter_map(|(index, site)| {
        let wanted = site.programs.iter().filter(|wanted| wanted.insists);
        let mut refusals = wanted.filter_map(|wanted| site.refusal(wanted, outcomes.get(index)));
        Some((site, refusals.next()?))
    });
    let refused: Vec<(&Site, &Refusal)> = refused.collect();
    let Some((_, first)) = refused.first() else { return Ok(()) };
    let lines: Vec<String> =
        refused.iter().map(|(site, refusal)| format!("{}: {refusal}", site.label(refusal))).collect();
    let error = match &lines[..] {
        [one] => anyhow!("cannot probe {one}"),
        many => anyhow!("cannot probe {} {}:\n  {}", many.len(), stages::places(sites), many.join("\n  ")),
    };
    let has_others = refused.len() < sites.len();
    let hint = "`config = { missing_probes = \"warn\" }` in the script traces the others";
    let error = if has_others { anyhow!("{error}\n{hint}") } else { error };
    Err(if is_machine(first) { Failure::Machine(error) } else { Failure::Refused(error) })
}

/// What one run works on.
struct Session<'a> {
    args: &'a args::Trace,
    compiled: &'a Compiled,
    verified: &'a [VerifiedProgram],
    sites: &'a [Site],
    missing: MissingProbes,
}

impl Session<'_> {
    fn run(&self, pid: Option<i32>, clock: Option<Clock>) -> Result<ExitCode, Failure> {
        let out: Box<dyn Write> = match &self.args.output {
            None => Box::new(io::stdout()),
            Some(path) => {
                let file = File::create(path).with_context(|| format!("cannot write {}", path.display()));
                Box::new(file.map_err(Failure::Refused)?)
            }
        };
        let report = Report::new(BufWriter::new(out), self.args.format.into());
        // From here on these signals are read, not suffered; a command gets the mask as it was.
        let signals = SigSet::from_iter([Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP, Signal::SIGCHLD]);
        let old_mask = signals.thread_swap_mask(nix::sys::signal::SigmaskHow::SIG_BLOCK);
        let old_mask = old_mask.context("blocking signals").map_err(Failure::Machine)?;
        match (pid, &self.args.run) {
            (Some(pid), _) => self.trace_target(Target::open(pid)?, None, clock, signals, report),
            (None, Some(command)) => {
                let search_path = std::env::var_os("PATH");
                let (launched, exec) = Launched::start(&command.words, search_path.as_deref(), old_mask)?;
                let mut guard = KillOnFailure(Some(launched));
                let wanted: Vec<_> = self.sites.iter().filter_map(|site| site.binary.identity()).collect();
                let target = exec.into_target(&wanted)?;
                self.trace_target(target, Some(&mut guard), clock, signals, report)
            }
            (None, None) => self.trace_nothing(signals, report),
        }
    }

    /// A script of BEGIN, END and interval probes.
    fn trace_nothing<W: Write>(&self, signals: SigSet, report: Report<W>) -> Result<ExitCode, Failure> {
        let segment = Segment::create_local(self.layout()?, &self.identity(0));
        let segment = segment.context("making the segment").map_err(Failure::Machine)?;
        let mut events = self.begin(&segment, signals, report)?;
        events.watch(Traced::Nothing(&segment), None, None)?;
        self.end(&segment, events, None, true, &Coverage::default(), &Pending::new())
    }

    fn trace_target<W: Write>(
        &self,
        target: Target,
        mut command: Option<&mut KillOnFailure>,
        mut clock: Option<Clock>,
        signals: SigSet,
        report: Report<W>,
    ) -> Result<ExitCode, Failure> {
        let identity = self.identity(target.pid() as u32);
        let prepared = weir_probe::prepare(target, self.layout()?, &identity)?;
        let mut events = self.begin(prepared.segment(), signals, report)?;
        if let Some(clock) = &mut clock {
            clock.keep(prepared.segment());
        }
        let (mut attachment, coverage, programs) = self.arm(prepared)?;
        let launched = command.as_mut().and_then(|command| command.0.as_mut());
        events.watch(Traced::Process(&mut attachment), launched, clock)?;
        let (mut is_detached, mut pending) = (true, Pending::new());
        if attachment.target().is_alive() {
            let start = Instant::now();
            match attachment.detach() {
                Ok(undone) => {
                    self.tell_undone(&undone, start.elapsed());
                    for (executable, count) in undone.pending {
                        *pending.entry(programs[executable]).or_default() += count;
                    }
                }
                Err(weir_probe::Error::TargetGone { .. }) => {}
                Err(error) => {
                    let pid = attachment.target().pid();
                    eprintln!("weir: detaching failed: {error}; `weir detach -p {pid}` tries again");
                    is_detached = false;
                }
            }
        }
        let launched = command.as_mut().and_then(|command| command.0.take());
        let ended = self.end(attachment.segment(), events, launched, is_detached, &coverage, &pending)?;
        Ok(if is_detached { ended } else { ExitCode::from(3) })
    }

    fn layout(&self) -> Result<SegmentLayout, Failure> {
        // A semaphore is raised and lowered.
        let semaphores = self.sites.iter().filter(|site| site.semaphore.is_some()).count();
        let windows = self.sites.iter().filter_map(|site| site.window.as_ref().ok());
        let writes: usize = windows.map(|window| window.write_count()).sum();
        let journal = (writes + 2 * semaphores + weir_probe::limits::HOOKS_MAX) as u32;
        let layout = SegmentLayout::plan(&self.compiled.object.maps, local::possible_cpus(), journal);
        layout.map_err(|error| Failure::Refused(anyhow!(error)))
    }

    fn identity(&self, target_pid: u32) -> Identity {
        let started_ns = now_ns();
        let controller_pid = std::process::id();
        Identity {
            session: started_ns ^ u64::from(controller_pid) << 40,
            controller_pid,
            controller_start: weir_probe::scan::own_start(),
            uid: nix::unistd::getuid().as_raw(),
            started_ns,
            target_pid,
            label: label(self.compiled),
        }
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
        let globals = segment.map(self.compiled.globals as usize);
        globals.update(&0u32.to_le_bytes(), &value, 0).map_err(|error| Failure::Bug(anyhow!("{error}")))?;
        if !self.args.quiet {
            let probes: usize = self.compiled.triggers.iter().map(probes_of).sum();
            report.attached_probes(probes as u64).map_err(output_failed)?;
        }
        let controller = Controller::new(self.compiled, self.verified);
        let mut events = Events::new(self.compiled, controller, signals, report)?;
        events.begin(segment)?;
        Ok(events)
    }

    /// With the program that each executable is of.
    fn arm(&self, prepared: Prepared) -> Result<(Attachment, Coverage, Vec<usize>), Failure> {
        let cpus = prepared.segment().layout().cpus;
        let target = prepared.target();
        let native = stages::native(self.sites, self.verified, &|binary| target.abi(binary, cpus))?;
        let start = Instant::now();
        let attachment = prepared.arm(&native.requests, &native.executables)?;
        if self.args.verbose && !self.sites.is_empty() {
            let (probes, stops) = (attachment.probes(), attachment.stops());
            eprintln!("weir: {probes} probes attached in {}, {}", ms(start.elapsed()), held(&stops));
        }
        let outcomes = attachment.outcomes();
        // What was patched is put back where one of these fails.
        indispensable(self.sites, outcomes)?;
        let coverage = Coverage::of(self.sites, outcomes);
        if self.missing != MissingProbes::Ignore || self.args.verbose {
            coverage.tell(self.sites, outcomes, self.args.verbose);
        }
        hopeless(self.compiled, self.sites, outcomes)?;
        Ok((attachment, coverage, native.programs))
    }

    fn tell_undone(&self, report: &weir_probe::Report, took: Duration) {
        if self.args.verbose && !self.sites.is_empty() {
            eprintln!("weir: {} probes detached in {}, {}", report.restored, ms(took), held(&report.stops));
        }
        for (path, probes) in &report.unloaded {
            let path = printable(path);
            eprintln!("weir: {path} was unloaded while it was traced: {probes} probes ended with it");
        }
        for address in &report.foreign {
            eprintln!("weir: text at {address:#x} was changed by somebody else meanwhile; it was left alone");
        }
        if report.left_mapped && self.args.verbose {
            eprintln!(
                "weir: some of weir's code stays mapped in the target: a thread may still return to it"
            );
        }
    }

    /// Runs END, prints what is left in the ring and every map, and says what was lost. `pending`: by program.
    fn end<W: Write>(
        &self,
        segment: &Segment,
        mut events: Events<'_, W>,
        launched: Option<Launched>,
        is_over: bool,
        coverage: &Coverage,
        pending: &Pending,
    ) -> Result<ExitCode, Failure> {
        events.end(segment, is_over)?;
        if !self.args.quiet {
            let summary = coverage.summary(self.compiled, segment, pending);
            match self.args.verbose {
                true => eprint!("{}", summary.text()),
                false => eprint!("{}", summary.lost()),
            }
            events.summary(&summary)?;
        }
        if let Some(mut launched) = launched {
            match launched.try_wait() {
                None => launched.terminate(),
                Some(ended) => self.tell_ended(ended),
            }
        }
        Ok(ExitCode::from(events.exit_code()))
    }

    /// Says how the command has ended by itself, if that is worth saying. Ctrl-C goes to both.
    fn tell_ended(&self, ended: Ended) {
        match ended {
            Ended::Signal(Signal::SIGINT) => {}
            Ended::Signal(signal) if !self.args.quiet => {
                eprintln!("weir: the command was killed by {signal}")
            }
            Ended::Code(code) if self.args.verbose => {
                eprintln!("weir: the command ended with exit code {code}")
            }
            _ => {}
        }
    }
}

/// A command that could not be traced does not run on.
struct KillOnFailure(Option<Launched>);

impl Drop for KillOnFailure {
    fn drop(&mut self) {
        if let Some(launched) = &mut self.0 {
            launched.kill();
        }
    }
}

fn probes_of(trigger: &Trigger) -> usize {
    match trigger {
        // Two clauses of the script.
        Trigger::Session { sites } => 2 * sites.len(),
        probe if probe.is_probe() => probe.cookies().len(),
        _ => 1,
    }
}

fn ms(time: Duration) -> String {
    format!("{:.1} ms", time.as_secs_f64() * 1e3)
}

/// How long the target did not run.
fn held(stops: &Stops) -> String {
    let Stops { count, longest, sum } = stops;
    format!("the target held {count} times, for {} at most, {} in sum", ms(*longest), ms(*sum))
}

/// What `weir ps` shows of a run: the names of its programs.
fn label(compiled: &Compiled) -> String {
    let names: Vec<&str> = compiled.object.programs.iter().map(|program| program.name.as_str()).collect();
    names.join(" ")
}

fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::CLOCK_MONOTONIC).expect("CLOCK_MONOTONIC is always there");
    now.tv_sec() as u64 * 1_000_000_000 + now.tv_nsec() as u64
}

fn output_failed(error: io::Error) -> Failure {
    Failure::Machine(anyhow::Error::new(error).context("writing output"))
}
