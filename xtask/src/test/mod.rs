//! test: everything that must hold before a change is kept, in one command with one verdict.
//!
//! Formatting, every test (the dependency table among them) compiled without a warning of clippy's, documentation without warnings,
//! examples in documentation. Tests run in the dev profile, which is optimised enough (opt-level 1) and keeps overflow checks and debug
//! assertions. Every step runs even if one before it failed; the last lines name what failed, what passed only when it ran again
//! (unstable), each skip, the slowest tests, and where the time went. The same is written to `target/test/`.
//!
//! Each test runs in a process of its own (`schedule`). Tests wait much: what needs compilers alone (documentation) takes, at a low
//! priority, what they leave of the CPUs (`tasks`).

mod programs;
mod report;
mod schedule;
mod skips;
mod stream;
mod tasks;

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use clap::Args;
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::{TimeVal, TimeValLike as _};

use crate::test::programs::Test;
use crate::test::report::Report;
use crate::test::schedule::Taken;
use crate::test::tasks::{Done, Task};
use crate::{kernels, packages, workspace};

/// Tests at a time for each CPU: most wait for processes that they trace.
const TESTS_PER_CPU: usize = 2;

/// LIMIT: what a test may have taken the last time to be quick.
const QUICK: Duration = Duration::from_millis(600);

#[derive(Args, Clone, Default, Debug)]
pub(crate) struct Options {
    /// Neither network nor root: installs nothing, and says what it left out
    #[arg(long)]
    offline: bool,
    /// One crate's tests, clippy and documentation
    #[arg(long, value_name = "CRATE")]
    only: Option<String>,
    /// What a change breaks most likely: formatting, clippy, and the tests that took under 0.6 s the last time
    #[arg(long)]
    quick: bool,
    /// Tests whose name has this in it, and nothing else
    #[arg(long, value_name = "TEXT")]
    name: Option<String>,
}

pub(crate) fn test(options: &Options) -> Result<()> {
    let start = Started::now();
    if let Some(package) = &options.only {
        ensure_is_ours(package, &workspace::packages()?)?;
    }
    if !options.offline {
        packages::install_missing()?;
        packages::add_targets();
        kernels::fetch_for_tests();
    }
    let expected = skips::expected(skips::Run::this(options.offline))?;
    let folder = workspace::target_folder("test")?;
    let mut report = Report::default();
    report.step("packages", start.taken());

    let format = Task { name: "formatting", command: cargo(options, &["fmt", "--all", "--check"]) };
    task_done(&mut report, format.run());
    let before = Started::now();
    let tests = built_tests(options, &folder, &mut report).unwrap_or_else(|error| {
        report.fault(format!("building tests failed: {error:#}"));
        Vec::new()
    });
    report.step("building tests", before.taken());
    run(options, tests, &mut report);

    let skips = skips::unexpected(report.skips(), &expected);
    skips.into_iter().for_each(|fault| report.fault(fault));
    report.print(start.taken(), options.offline);
    report.write(&folder, !options.is_part())?;
    ensure!(report.is_good(), "{}", report.summary());
    Ok(())
}

impl Options {
    /// Whether tests are left out.
    fn is_part(&self) -> bool {
        self.quick || self.name.is_some() || self.only.is_some()
    }
}

fn ensure_is_ours(package: &str, ours: &[String]) -> Result<()> {
    let is_ours = ours.iter().any(|name| name == package);
    ensure!(is_ours, "no crate {package:?} in this workspace; its crates are {}", ours.join(", "));
    Ok(())
}

/// When something began that nothing else is waited for beside.
struct Started {
    at: Instant,
    cpu: Duration,
}

impl Started {
    fn now() -> Self {
        Self { at: Instant::now(), cpu: cpu_of_children() }
    }

    fn taken(&self) -> Taken {
        Taken { time: self.at.elapsed(), cpu: cpu_of_children().saturating_sub(self.cpu) }
    }
}

/// The CPU time of all that this process has waited for.
fn cpu_of_children() -> Duration {
    let Ok(usage) = getrusage(UsageWho::RUSAGE_CHILDREN) else { return Duration::ZERO };
    let duration = |time: TimeVal| Duration::from_micros(time.num_microseconds().unsigned_abs());
    duration(usage.user_time()) + duration(usage.system_time())
}

/// Runs the tests, and beside them what needs compilers alone.
fn run(options: &Options, tests: Vec<Test>, report: &mut Report) {
    let beside = if options.quick || options.name.is_some() { Vec::new() } else { beside(options) };
    let before = Instant::now();
    let report = Mutex::new(report);
    let with = |take: &mut dyn FnMut(&mut Report)| {
        take(&mut report.lock().unwrap_or_else(std::sync::PoisonError::into_inner));
    };
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut beside = beside.into_iter();
            tasks::run(beside.by_ref().collect(), |done| {
                let mut done = Some(done);
                with(&mut |report| done.take().into_iter().for_each(|done| task_done(report, done)));
            });
        });
        let at_a_time = TESTS_PER_CPU * std::thread::available_parallelism().map_or(1, usize::from);
        schedule::run(tests, at_a_time, &mut |outcome| with(&mut |report| report.take(outcome)));
        with(&mut |report| report.tests_done(before.elapsed()));
    });
}

fn task_done(report: &mut Report, done: Done) {
    println!("{}", done.output.trim_end());
    report.step(done.name, done.took);
    if !done.succeeded {
        report.fault(format!("{} failed", done.name));
    }
}

/// Builds the test programs and lists the tests that are asked for.
fn built_tests(options: &Options, folder: &Path, report: &mut Report) -> Result<Vec<Test>> {
    let built = programs::build(cargo(options, &[]), options.only.as_deref())?;
    if options.name.is_none() {
        warned(&built.warnings, report);
    }
    let mut tests = Vec::new();
    for program in built.programs {
        tests.extend(program.tests().with_context(|| format!("the tests of {}", program.name))?);
    }
    if let Some(text) = &options.name {
        tests.retain(|test| test.name.contains(text.as_str()));
        ensure!(!tests.is_empty(), "no test has {text:?} in its name");
    }
    if options.quick {
        let (all, times) = (tests.len(), report::times(folder));
        tests.retain(|test| times.get(&test.name).is_none_or(|took| *took < QUICK));
        println!("quick: {} of {all} tests; the others took {} s or more", tests.len(), QUICK.as_secs_f64());
    }
    Ok(tests)
}

/// What clippy and the compiler have to say is a fault each.
fn warned(warnings: &BTreeSet<String>, report: &mut Report) {
    if programs::clippy().is_none() {
        report.fault("clippy is not installed: rustup component add clippy".into());
    }
    warnings.iter().for_each(|warning| report.fault(format!("clippy: {}", warning.trim_end())));
}

/// What runs beside the tests, one after the other.
fn beside(options: &Options) -> Vec<Task> {
    let of = match &options.only {
        Some(package) => vec!["--package", package],
        None => vec!["--workspace"],
    };
    let with = |words: &[&str], rest: &[&str]| cargo(options, &[words, &of, rest].concat());
    let mut documentation = with(&["doc", "--no-deps", "--document-private-items"], &[]);
    // Private items are documented too, so links to them lead somewhere.
    documentation.env("RUSTDOCFLAGS", "--deny warnings --allow rustdoc::private_intra_doc_links");
    let mut tasks = vec![Task { name: "documentation", command: documentation }];
    let examples = crates_with_examples(&workspace::root().join("crates"), options.only.as_deref());
    if !examples.is_empty() {
        // Of the whole workspace: for one crate alone, others are compiled again with the features that it asks for.
        let mut command = with(&["test", "--doc", "--no-fail-fast"], &[]);
        programs::with_clippy(&mut command);
        tasks.push(Task { name: "examples in documentation", command });
    }
    tasks
}

/// Crates whose documentation has code that is compiled.
fn crates_with_examples(crates: &Path, only: Option<&str>) -> Vec<String> {
    let entries = std::fs::read_dir(crates).into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    let mut names: Vec<String> = names
        .filter(|name| only.is_none_or(|only| only == name))
        .filter(|name| has_example(&crates.join(name).join("src")))
        .collect();
    names.sort();
    names
}

fn has_example(folder: &Path) -> bool {
    std::fs::read_dir(folder).into_iter().flatten().flatten().any(|entry| {
        let path = entry.path();
        if path.is_dir() {
            return has_example(&path);
        }
        let text = std::fs::read_to_string(&path).unwrap_or_default();
        path.extension().is_some_and(|extension| extension == "rs") && text_has_example(&text)
    })
}

/// A fence in a documentation comment that opens code of Rust: one without a word, or with one that rustdoc knows.
fn text_has_example(text: &str) -> bool {
    let mut is_open = false;
    for line in text.lines().map(str::trim_start) {
        let Some(comment) = line.strip_prefix("///").or_else(|| line.strip_prefix("//!")) else { continue };
        let Some(word) = comment.trim().strip_prefix("```") else { continue };
        if !is_open && matches!(word, "" | "rust" | "no_run" | "should_panic" | "compile_fail") {
            return true;
        }
        is_open = !is_open;
    }
    false
}

fn cargo(options: &Options, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO"));
    command.args(arguments).current_dir(workspace::root());
    if options.offline {
        command.env("CARGO_NET_OFFLINE", "true");
    }
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_crate_that_is_not_ours_is_refused_with_the_names_of_those_that_are() {
        let ours = workspace::packages().unwrap();
        ensure_is_ours("weir-verifier", &ours).unwrap();
        ensure_is_ours("xtask", &ours).unwrap();
        let refusal = ensure_is_ours("serde", &ours).unwrap_err().to_string();
        assert!(refusal.contains("no crate \"serde\"") && refusal.contains("weir-verifier"), "{refusal}");
    }

    #[test]
    fn examples_are_code_of_rust_in_documentation() {
        assert!(text_has_example("/// ```\n/// let x = 1;\n/// ```\n"));
        assert!(text_has_example("//! ```no_run\n//! ```\n"));
        assert!(!text_has_example("//! ```text\n//! a\n//! ```\n// ```\n"));
    }

    #[test]
    fn crates_with_examples_are_found() {
        let crates = workspace::root().join("crates");
        assert!(crates_with_examples(&crates, None).contains(&"weir-tracepoint".to_owned()));
        assert_eq!(crates_with_examples(&crates, Some("weir-source")), Vec::<String>::new());
    }
}
