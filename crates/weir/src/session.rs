//! One run of `weir trace`: wires the stages together, in the order of the data flow.
//!
//! In: the command line. Out: what the script prints, and an exit code. Holds no logic of any stage: compiling is
//! [`stages`], what the files say is [`world`], the run over its processes is [`mod@run`], what is done to one of them is
//! [`attach`], programs that run in weir itself are [`controller`], reading and printing while the target runs is [`mod@events`].

mod attach;
mod controller;
mod costs;
mod decider;
mod drain;
mod emit;
mod enrol;
mod events;
mod filtered;
mod flight;
mod gone;
mod groups;
mod indirect;
mod intercept;
mod kernel;
mod loads;
mod output;
mod plan;
mod recorder;
mod recording;
mod required;
mod roll;
mod run;
mod scalars;
mod stages;
mod store;
mod summary;
mod symbols;
mod targets;
pub(crate) mod tended;
mod triggers;
mod world;

use std::cell::RefCell;
use std::fs;
use std::io;
use std::path::PathBuf;
use std::process::ExitCode;
use std::rc::Rc;
use std::time::Instant;

use anyhow::{Context, anyhow};
use nix::time::{ClockId, clock_gettime};
use weir_codegen::Compiled;
use weir_ir::Module;
use weir_kernel::Features;
use weir_policy::guard::Guard;
use weir_policy::notes;
use weir_rt::Clock;
use weir_source::SourceFile;
use weir_symbols::resolve::Places;

use crate::args::{self, Engine, Script, Stage};
use crate::event::Event;
use crate::failure::Failure;
use crate::print::{is_coloured, tell, tell_text};
use crate::session::attach::ms;
pub(crate) use crate::session::costs::percent;
use crate::session::decider::Decider;
use crate::session::flight::Flight;
use crate::session::groups::Groups;
use crate::session::plan::{Given, Plan};
use crate::session::recorder::Recorder;
use crate::session::recording::Recording;
use crate::session::roll::Subjects;
use crate::session::tended::{Before, Tended};
use crate::session::triggers::Triggers;
pub(crate) use crate::session::world::{Binaries, is_named};

/// Runs the script that `args` names. The error comes with the source that its spans are in.
pub(crate) fn trace(args: &args::Trace) -> Result<ExitCode, (Failure, Option<SourceFile>)> {
    let (source, parameters) = read_source(args).map_err(|failure| (failure, None))?;
    run(args, &source, &parameters, None).map_err(|failure| (failure, Some(source)))
}

/// Records the events that `args` names. The error comes with the attach points that its spans are in.
pub(crate) fn record(args: &args::record::Record) -> Result<ExitCode, (Failure, Option<SourceFile>)> {
    let recording = Recording::new(args, args.rules()).map_err(|failure| (failure, None))?;
    let source = recording.source();
    run(&args.trace(), &source, &[], Some(&recording)).map_err(|failure| (failure, Some(source)))
}

/// Whether a rule can be read: its events are some, its filter is one. What they name is not looked for.
pub(crate) fn check_rule(rule: &weir_sessions::rule::Rule) -> Result<(), Failure> {
    recording::check(rule)
}

/// The same of what events are to do beside.
pub(crate) fn check_triggers(
    triggers: &args::triggers::Triggers,
    flight: &args::flight::Flight,
    dialect: weir_filter::Dialect,
) -> Result<(), Failure> {
    Triggers::given(flight, triggers, dialect).map(drop)
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
        let mut warn = |warnings: &[_]| tell_text(&weir_source::render(&source, warnings, is_coloured()));
        let module = stages::front(&source, parameters, &binaries(None)?, &mut warn)?;
        let options = weir_codegen::Options { counts_hits: false, ..weir_codegen::Options::default() };
        Ok(stages::back(&module, &options, None)?.0)
    };
    compiled().map_err(|failure| (failure, Some(source.clone())))
}

/// The events that an attach point such as `usdt:./app:provider:name` means.
pub(crate) fn events(attach_point: &str) -> Result<Vec<Event>, Failure> {
    let source = SourceFile { name: "--event".to_owned(), text: format!("{attach_point} {{ exit(); }}") };
    let world = binaries(None)?;
    let shown = |failure: Failure| match failure {
        Failure::Script(faults) => {
            Failure::Text(SourceFile { text: attach_point.to_owned(), ..source.clone() }, faults)
        }
        other => other,
    };
    let module = stages::front(&source, &[], &world, &mut |_| ()).map_err(shown)?;
    let events: Vec<Event> =
        module.functions.iter().flat_map(|clause| crate::event::events(clause, &world)).collect();
    match events.is_empty() {
        false => Ok(events),
        true => Err(Failure::Refused(anyhow!(
            "--event {attach_point}: filters are for events; write `usdt:BINARY:PROVIDER:NAME`, \
             `uprobe:BINARY:FUNCTION` or `uretprobe:BINARY:FUNCTION`"
        ))),
    }
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
        Script::StandardInput => {
            let text = io::read_to_string(io::stdin()).context("cannot read the script from standard input");
            Ok(SourceFile { name: "<stdin>".into(), text: text.map_err(Failure::Refused)? })
        }
    }
}

fn run(
    args: &args::Trace,
    source: &SourceFile,
    parameters: &[String],
    recording: Option<&Recording<'_>>,
) -> Result<ExitCode, Failure> {
    let is_in_kernel = args.engine == Engine::Kernel;
    if is_in_kernel {
        kernel::refuse(args, recording.is_some())?;
    }
    if args.emit == Some(Stage::Ast) {
        return emit::ast(source);
    }
    // Its rate is known by when the target runs.
    let clock = Clock::start();
    let start = Instant::now();
    let filter = filtered::text(args)?;
    let decider = Decider::given(args)?;
    let (filter, decider) = (filter.as_ref(), decider.as_ref());
    let kernel = is_in_kernel.then(Features::of_kernel);
    let given = Given { args, source, parameters, filter, decider, recording, kernel };
    let subjects = Subjects::find(&args.given())?;
    let (pid, world, module) = first(&given, &subjects).inspect_err(|failure| {
        if recording.is_some_and(|recording| recording.args.tended.is_some()) {
            tended::failed(failure);
        }
    })?;
    if is_in_kernel {
        kernel::check(&module)?;
    }
    if args.emit == Some(Stage::Ir) {
        return emit::text(&weir_ir::text::print(&module));
    }
    let (compiled, verified) = given.back(&module)?;
    let found = Instant::now();
    let missing = module.missing_probes;
    let sites = stages::sites(&compiled, missing, &world).map_err(Failure::Refused)?;
    if args.verbose && !sites.is_empty() {
        let (count, places) = (sites.len(), stages::places(&sites));
        let (found, planned) = (found - start, found.elapsed());
        tell!("weir: {count} {places}: compiled in {}, planned in {}", ms(found), ms(planned));
    }
    match args.emit {
        Some(Stage::Ebpf) => return emit::text(&weir_ebpf::asm::print(&compiled.object)),
        Some(Stage::Sites) => return emit::sites(&sites),
        Some(Stage::Asm) => return emit::asm(&sites, &compiled, &verified, pid),
        _ => {}
    }
    let plan = Plan { compiled, verified, sites, missing };
    // Before anything is touched.
    if !is_in_kernel {
        required::feasible(&plan)?;
    }
    required::placed(args, &plan, &subjects)?;
    let probes = label(&plan.compiled, given.session_name());
    let run = notes::Run {
        script: &source.text,
        probes: &probes,
        is_verbose: args.verbose,
        warn: |warning| tell!("weir: {warning}"),
    };
    let groups =
        plan.asks_for_group().then(|| Groups::find(subjects.processes())).transpose()?.map(RefCell::new);
    let guard = Guard::new(args.policy.as_deref(), args.budget, &run)?;
    let create = |recording: &Recording<'_>| -> Result<Recorder, Failure> {
        let format = (recording.args.trace_format.into(), recording.args.file_limits());
        let output = &recording.args.output;
        let mut recorder = Recorder::create(output, &plan.compiled, recording.context_fields(), format)?;
        if recording.args.blocking.is_some() {
            recorder.set_nothing_aside();
        }
        Ok(recorder)
    };
    let fly = |recording: &Recording<'_>| {
        Flight::create(recording.args, &plan.compiled, recording.context_fields())
    };
    let (flying, written) = match recording {
        Some(recording) if recording.args.flight.overwrite => (Some(recording), None),
        other => (None, other),
    };
    let recorder = RefCell::new(written.map(create).transpose()?);
    let flight = RefCell::new(flying.map(fly).transpose()?);
    // Everything is ready.
    let file = recording.and_then(|recording| recording.args.tended.as_deref());
    let tended = file.map(Tended::hold).transpose()?;
    let after = RefCell::new(tended.iter().filter_map(|tended| tended.after).collect());
    let tended = RefCell::new(tended);
    let session = Session {
        given,
        plan: &Rc::new(plan),
        subjects: &subjects,
        guard: &guard,
        groups,
        recorder,
        flight,
        tended,
        after,
    };
    match kernel {
        Some(features) => session.run_in_kernel(pid, features),
        None => session.run(pid, clock),
    }
}

/// The process that the script is compiled for at first, and what it means there: of those that were given, the first
/// that it means something for. The others are looked at later. Where none was given by its number, one of those that are
/// selected now, or else this machine.
fn first(given: &Given, subjects: &Subjects) -> Result<(Option<i32>, Binaries, Module), Failure> {
    let warn = &mut |source: &SourceFile, warnings: &[_]| {
        tell_text(&weir_source::render(source, warnings, is_coloured()));
    };
    let mut failed = None;
    let pids = &subjects.selection.pids;
    let selected = if pids.is_empty() { subjects.selected() } else { Vec::new() };
    for &pid in pids.iter().chain(&selected) {
        let checked = match given.kernel {
            // It is neither stopped nor changed.
            Some(_) => weir_probe::target::check_program(pid),
            None => weir_probe::target::check(pid),
        };
        let tried = checked.map_err(Failure::from).and_then(|()| {
            let world = binaries(Some(pid))?;
            let module = given.module(&world, warn)?;
            Ok((Some(pid), world, module))
        });
        match tried {
            Ok(found) => return Ok(found),
            Err(failure) => failed = failed.or(Some(failure)),
        }
    }
    match failed {
        Some(failure) if !pids.is_empty() => Err(failure),
        failed => {
            let world =
                Binaries::of_machine(given.args.run.as_ref().map(|run| run.words[0].clone()), places());
            let module = given.module(&world, warn).or_else(|of_machine| {
                // A command that is not there has no probes either.
                if let Some(run) = &given.args.run {
                    weir_probe::launch::find(&run.words, places().path_env.as_deref())?;
                }
                // What was said of a process says more than what it means for none.
                Err(failed.unwrap_or(of_machine))
            })?;
            Ok((None, world, module))
        }
    }
}

/// The files of a target, or of this machine.
pub(crate) fn binaries(pid: Option<i32>) -> Result<Binaries, Failure> {
    let Some(pid) = pid else { return Ok(Binaries::of_machine(None, places())) };
    let mappings = weir_probe::target::read_mappings(pid)?;
    // A target that shares weir's root is looked at without the detour, so that relative paths mean the same.
    let is_shared = weir_probe::target::shares_root(pid)?;
    let root = if is_shared { "/".into() } else { weir_probe::target::root(pid) };
    let program = fs::read_link(format!("/proc/{pid}/exe")).ok().map(|path| path.display().to_string());
    let program = program.map(|path| path.strip_suffix(" (deleted)").map_or(path.clone(), String::from));
    Ok(Binaries::of(pid, program, Places { root, ..places() }, mappings))
}

/// Where files are looked for, as weir itself sees them.
fn places() -> Places {
    let cwd = std::env::current_dir().unwrap_or_else(|_| PathBuf::from("/"));
    Places { root: "/".into(), path_env: std::env::var_os("PATH"), cwd }
}

/// What one run works on.
struct Session<'a> {
    given: Given<'a>,
    /// Of the first process.
    plan: &'a Rc<Plan>,
    subjects: &'a Subjects,
    guard: &'a Guard,
    /// Where programs ask for them.
    groups: Option<RefCell<Groups>>,
    /// Where events go, until the run begins.
    recorder: RefCell<Option<Recorder>>,
    /// The same where they stay in the rings.
    flight: RefCell<Option<Flight>>,
    /// Who tends a recording, until the run begins.
    tended: RefCell<Option<Tended>>,
    /// Weirs whose probes are undone although they live: that whose processes are taken over, and this one where it could not attach and has left
    /// something.
    after: RefCell<Vec<Before>>,
}

/// What `weir ps` shows of a run, and another weir that comes to the same process: the names of its programs, behind that of
/// the session that it is of.
fn label(compiled: &Compiled, session: Option<&str>) -> String {
    let names: Vec<&str> = compiled.object.programs.iter().map(|program| program.name.as_str()).collect();
    session.map_or_else(String::new, |name| format!("session {name}: ")) + &names.join(" ")
}

fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::CLOCK_MONOTONIC).expect("CLOCK_MONOTONIC is always there");
    now.tv_sec() as u64 * 1_000_000_000 + now.tv_nsec() as u64
}

/// A run ends when the reader of its output goes away.
fn output_failed(error: io::Error) -> Failure {
    if error.kind() == io::ErrorKind::BrokenPipe {
        return Failure::ReaderGone;
    }
    Failure::Machine(anyhow::Error::new(error).context("writing output"))
}
