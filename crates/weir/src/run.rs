//! `weir trace` and `weir record`: a run of [`weir_run`], with what it says printed.
//!
//! In: the command line. Out: what the script prints, messages on standard error, and an exit code. Signals are this program's: SIGINT, SIGTERM and SIGHUP
//! end the run, SIGUSR1 has a flight recorder take a snapshot, or a script's `self` probes run.

use std::fs::File;
use std::io::{self, IsTerminal as _, Read, Write};
use std::os::fd::AsFd as _;
use std::path::Path;
use std::process::ExitCode;
use std::sync::{Arc, OnceLock};

use anyhow::{Context as _, anyhow};
use nix::libc::SIGCHLD;
use nix::sys::signal::Signal;
use nix::sys::signalfd::SignalFd;
use weir_codegen::Compiled;
use weir_report::Report as Output;
use weir_run::{Front, Notice, Notices, Run, Running, Script, Start};
use weir_source::SourceFile;

use crate::args::record::Record;
use crate::args::{self, Stage};
use crate::explain;
use crate::failure::{Failure, Report as _};
use crate::lines::WholeLines;
use crate::live::Live;
use crate::print::{is_coloured, print, tell, tell_text, wants_colour};
use crate::queued::{Queue, Queued};
use crate::sent;
use crate::signals;
use crate::supervised::{self, Supervised};
use crate::trial;

/// Runs the script that `args` names. The error comes with the source that its spans are in.
pub(crate) fn trace(args: &args::Trace) -> Result<ExitCode, (Failure, Option<SourceFile>)> {
    let (script, parameters) = args.script();
    let source = source_of(script).map_err(|failure| (failure, None))?;
    traced(args, &source, parameters).map_err(|failure| (failure, Some(source)))
}

fn traced(args: &args::Trace, source: &SourceFile, parameters: &[String]) -> Result<ExitCode, Failure> {
    if args.emit == Some(Stage::Ast) {
        return print(&weir_run::syntax(source)?);
    }
    let script = Script::with_parameters(source.clone(), parameters.to_vec());
    let mut options = args.options();
    options.settings = settings_of_environment()?;
    (options.header_folders, options.headers) = (args.header_folders.clone(), args.headers.clone());
    options.checks_alone = args.dry_run;
    let (said, is_silent) = (source.clone(), args.no_warnings);
    let queue: Arc<OnceLock<Queue>> = Arc::default();
    let written_before = Arc::clone(&queue);
    let said = Notices::to(move |notice| {
        let is_warning = matches!(notice, Notice::Warnings { .. } | Notice::Script { is_warning: true, .. });
        if !is_silent || !is_warning {
            // Both may go to one file. What is wrong with it ends the run.
            let _ = written_before.get().map(Queue::settle);
            tell_text(&text(&notice, &said));
        }
    });
    let front = Front::new(script, options, said)?;
    if args.emit == Some(Stage::Ir) {
        return print(&front.ir());
    }
    let planned = front.plan()?;
    match args.emit {
        Some(Stage::Ebpf) => return print(&planned.ebpf()),
        Some(Stage::Sites) => return print(&planned.sites()),
        Some(Stage::Asm) => return print(&planned.asm()?),
        _ => {}
    }
    if args.explain {
        let explained = planned.explain()?;
        return print(&match args.format {
            args::Format::Text => explain::text(&explained),
            args::Format::Json => explain::json(&explained),
        });
    }
    if args.dry_run {
        return Ok(ExitCode::SUCCESS);
    }
    let run = planned.ready()?;
    let mut out = output(args.output.as_deref(), &queue)?;
    let code = match (args.test, args.bench) {
        (true, _) => {
            let is_coloured = args.output.is_none() && io::stdout().is_terminal() && wants_colour();
            trial::test(run, args.format, &mut out, is_coloured)?
        }
        (_, true) => trial::bench(run, args.format, &mut out)?,
        _ => run_to_end(args, run, out)?,
    };
    let written = queue.get().map_or(Ok(()), Queue::settle);
    written.context("writing output").map_err(Failure::Machine)?;
    Ok(code)
}

/// `weir trace` without `--test` and `--bench`.
fn run_to_end(args: &args::Trace, run: Run, out: Box<dyn Write>) -> Result<ExitCode, Failure> {
    let report = Output::new(out, args.format.into());
    let mut start = Start::with(report.with_words(args.compat.into()));
    if args.live {
        let share = args.budget.and_then(|budget| budget.share);
        start.view = Some(Box::new(Live::new(share.map(|share| share.to_string()))));
    }
    driven(run, start, None)
}

/// Where output goes: by way of `queue`, if it is a file.
fn output(path: Option<&Path>, queue: &OnceLock<Queue>) -> Result<Box<dyn Write>, Failure> {
    let opened = match path {
        Some(path) => File::create(path).with_context(|| format!("cannot write {}", path.display())),
        None => io::stdout().as_fd().try_clone_to_owned().map(File::from).context("standard output"),
    };
    let file = opened.map_err(Failure::Refused)?;
    if !file.metadata().is_ok_and(|metadata| metadata.is_file()) {
        return Ok(Box::new(WholeLines::new(file)));
    }
    let queued = Queued::start(file).context("starting a thread").map_err(Failure::Machine)?;
    queue.get_or_init(|| queued.queue());
    Ok(Box::new(queued))
}

/// Settings that the environment may have, with the names that they had before.
const OF_ENVIRONMENT: [(&str, &str); 12] = [
    ("BPFTRACE_STRLEN", "max_strlen"),
    ("BPFTRACE_MAX_STRLEN", "max_strlen"),
    ("BPFTRACE_MAP_KEYS_MAX", "max_map_keys"),
    ("BPFTRACE_MAX_MAP_KEYS", "max_map_keys"),
    ("BPFTRACE_MAX_CAT_BYTES", "max_cat_bytes"),
    ("BPFTRACE_MAX_PROBES", "max_probes"),
    ("BPFTRACE_MISSING_PROBES", "missing_probes"),
    ("BPFTRACE_PRINT_MAPS_ON_EXIT", "print_maps_on_exit"),
    ("BPFTRACE_STACK_MODE", "stack_mode"),
    ("BPFTRACE_CPP_DEMANGLE", "cpp_demangle"),
    ("BPFTRACE_NO_CPP_DEMANGLE", "no_cpp_demangle"),
    ("WEIR_MAX_LOOP_ITERATIONS", "max_loop_iterations"),
];

fn settings_of_environment() -> Result<Vec<(String, String)>, Failure> {
    let mut settings = Vec::new();
    for (variable, name) in OF_ENVIRONMENT {
        let Ok(value) = std::env::var(variable) else { continue };
        if let Some(fault) = weir_run::fault_of_setting(name, &value) {
            return Err(Failure::Usage(anyhow!("{variable}: {fault}")));
        }
        settings.push((name.to_owned(), value));
    }
    Ok(settings)
}

/// Records the events that `args` names. The error comes with the attach points that its spans are in.
pub(crate) fn record(args: &Record) -> Result<ExitCode, (Failure, Option<SourceFile>)> {
    let options = args.options();
    let mut record_options = args.record_options();
    if args.to.is_some() {
        record_options.pipe = Some(sent::pipe().map_err(|failure| (failure, None))?);
    }
    let script = Script::recording(record_options, &options).map_err(|failure| (failure, None))?;
    let source = script.source().clone();
    let recorded = || -> Result<ExitCode, Failure> {
        let front = Front::new(script, options, notices(&source)).inspect_err(|failure| {
            if args.tended.is_some() {
                supervised::failed(failure);
            }
        });
        let run = front?.plan()?.ready()?;
        let mut start = Start::silently();
        if let Some(file) = &args.tended {
            start.supervisor = Some(Box::new(Supervised::hold(file)?));
        }
        driven(run, start, args.flight.overwrite.then_some(args))
    };
    recorded().map_err(|failure| (failure, Some(source.clone())))
}

/// Compiles a script for no process in particular, and verifies it: `program` is its text, or else the first of
/// `arguments` is its file; the others are its parameters.
pub(crate) fn compile(
    program: Option<&str>,
    arguments: &[String],
) -> Result<Compiled, (Failure, Option<SourceFile>)> {
    let (script, parameters) = args::script(program, arguments);
    let source = source_of(script).map_err(|failure| (failure, None))?;
    let compiled = weir_run::compile(&source, parameters, &notices(&source));
    compiled.map_err(|failure| (failure, Some(source)))
}

/// The text of a script.
pub(crate) fn source_of(script: args::Script<'_>) -> Result<SourceFile, Failure> {
    match script {
        args::Script::Text(text) => Ok(SourceFile { name: "<-e>".into(), text: text.to_owned() }),
        args::Script::File(path) => {
            let text = script_text(path).with_context(|| format!("cannot read script {}", path.display()));
            Ok(SourceFile { name: path.display().to_string(), text: text.map_err(Failure::Refused)? })
        }
        args::Script::StandardInput => {
            let text = text_from(io::stdin()).context("cannot read the script from standard input");
            Ok(SourceFile { name: "<stdin>".into(), text: text.map_err(Failure::Refused)? })
        }
    }
}

/// So much of a file as shows that it is too long for a script, if it is.
fn script_text(path: &Path) -> io::Result<String> {
    const MOST: u64 = 2 << 20;
    text_from(File::open(path)?.take(MOST))
}

fn text_from(mut from: impl Read) -> io::Result<String> {
    let mut bytes = Vec::new();
    from.read_to_end(&mut bytes)?;
    weir_source::text_of(bytes).map_err(io::Error::other)
}

/// Runs until it is over, or a signal ends it. `flight`: it takes snapshots.
fn driven(run: Run, start: Start, flight: Option<&Record>) -> Result<ExitCode, Failure> {
    let is_signalled = run.awaits_signal();
    let snapshots = (flight.is_some() || is_signalled).then_some(Signal::SIGUSR1);
    let signals = signals::blocked(snapshots.into_iter().chain([Signal::SIGCHLD]))?;
    let mut running = run.start(start)?;
    // Who has a session asks by its name.
    if flight.is_some_and(|record| !record.quiet && record.tended.is_none()) {
        let pid = std::process::id();
        tell!("weir: events stay in the rings; `kill -USR1 {pid}` takes a snapshot");
    }
    while !running.poll()? {
        if running.wait(&[signals.as_fd()])? {
            take(&signals, &mut running, is_signalled)?;
        }
    }
    Ok(ExitCode::from(running.end()?.code))
}

/// Does what signals ask for. That of a child's end only wakes. `is_signalled`: the script has probes of SIGUSR1.
fn take(signals: &SignalFd, running: &mut Running, is_signalled: bool) -> Result<(), Failure> {
    while let Ok(Some(signal)) = signals.read_signal() {
        match signal.ssi_signo as i32 {
            SIGCHLD => {}
            asked if asked == Signal::SIGUSR1 as i32 && is_signalled => running.signalled()?,
            asked if asked == Signal::SIGUSR1 as i32 => running.snapshot(),
            _ => running.stop(),
        }
    }
    Ok(())
}

/// Prints what a run says. `source`: what its script's spans are in.
fn notices(source: &SourceFile) -> Notices {
    let source = source.clone();
    Notices::to(move |notice| tell_text(&text(&notice, &source)))
}

fn text(notice: &Notice, source: &SourceFile) -> String {
    match notice {
        Notice::Warnings { source, warnings } => weir_source::render(source, warnings, is_coloured()),
        Notice::NotTraced { pid, failure } => {
            format!("weir: process {pid} is not traced:\n{}", failure.message(Some(source)))
        }
        Notice::Script { text, .. } => format!("{text}\n"),
        other => other.to_string().lines().map(|line| format!("weir: {line}\n")).collect(),
    }
}
