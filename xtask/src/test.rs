//! test: everything that must hold before a change is kept, in one command with one verdict.
//!
//! Formatting, clippy without warnings, every test (the dependency table among them), documentation without warnings,
//! a short run of each fuzz target. Tests run in the dev profile, which is optimised enough (opt-level 1)
//! and keeps overflow checks and debug assertions. Every step runs even if one before it
//! failed; the last lines name each failure and each skip, and before them what took the time.
//!
//! Test programs run one after the other: two at a time took 120 s for what one does in 93, and ran into their targets' alarms. They wait
//! much: what needs compilers alone (clippy, documentation, the fuzz targets) takes, at a low priority, what they leave
//! of the CPUs. Programs that measure come after all that.

use std::io::Write as _;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};

use crate::fuzz::{self, Fuzzers};
use crate::programs::{self, TestProgram};
use crate::skips::{self, Run, Skip};
use crate::stream::{self, Ends, Streamed};
use crate::tasks::{self, Done, Task};
use crate::{packages, process, workspace};

/// How many test programs are named as the slowest.
const SLOWEST: usize = 12;

/// LIMIT: how long all of CI may take, on 2 cores.
pub(crate) const CI_LIMIT: Duration = Duration::from_secs(25 * 60);

/// How nice compilers are to test programs: a tenth of a CPU where both want it.
const NICE: &str = "10";

/// The fuzz targets' step does it again, with nothing left to do, and tells what failed.
const BUILDING_FUZZ: &str = "building fuzz targets";

pub(crate) fn test(offline: bool, limit: Option<Duration>) -> Result<()> {
    let start = Instant::now();
    if !offline {
        packages::install_missing()?;
    }
    let run = Run { offline, root: nix::unistd::geteuid().is_root() };
    let expected = skips::expected(run)?;

    let mut verdict = Verdict::default();
    let format = cargo(offline, &["fmt", "--all", "--check"]);
    verdict.timed("formatting", |verdict| verdict.run("formatting", format))?;
    let programs = verdict.timed("building tests", |verdict| verdict.build(offline));
    let (alone, programs): (Vec<_>, Vec<_>) = programs.into_iter().partition(TestProgram::is_alone);
    verdict.timed("tests", |verdict| verdict.tests(&programs, beside(offline)));
    verdict.timed("tests that measure", |verdict| {
        alone.iter().for_each(|program| verdict.done(program.task().run()));
    });
    verdict.timed("fuzz targets", |verdict| verdict.fuzz(offline));

    let elapsed = start.elapsed();
    if limit.is_some_and(|limit| elapsed > limit) {
        verdict.faults.push(format!("it took {} s, over the limit", elapsed.as_secs()));
    }
    verdict.print(offline, &expected, elapsed)
}

/// What runs beside the tests, one after the other.
fn beside(offline: bool) -> Vec<Task> {
    let clippy = cargo(offline, &["clippy", "--workspace", "--all-targets", "--", "--deny", "warnings"]);
    let mut doc = cargo(offline, &["doc", "--workspace", "--no-deps", "--document-private-items"]);
    // Private items are documented too, so links to them lead somewhere.
    doc.env("RUSTDOCFLAGS", "--deny warnings --allow rustdoc::private_intra_doc_links");
    let doc_tests =
        cargo(offline, &["test", "--workspace", "--doc", "--no-fail-fast", "--", "--show-output"]);
    let mut steps = vec![("clippy", clippy), ("documentation", doc), ("doc tests", doc_tests)];
    steps.extend(fuzz::building().ok().map(|build| (BUILDING_FUZZ, build)));
    let task = |(name, command): (&str, Command)| {
        let heading = format!("+ {}", process::shown(&command));
        Task { name: name.into(), heading, command: nice(&command), ends: Ends::Started }
    };
    steps.into_iter().map(task).collect()
}

/// The same command at a low priority.
fn nice(command: &Command) -> Command {
    let mut nice = Command::new("nice");
    nice.args(["-n", NICE]).arg(command.get_program()).args(command.get_args());
    command.get_current_dir().into_iter().for_each(|folder| _ = nice.current_dir(folder));
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => nice.env(name, value),
            None => nice.env_remove(name),
        };
    }
    nice
}

fn cargo(offline: bool, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO"));
    command.args(arguments).current_dir(workspace::root());
    if offline {
        command.env("CARGO_NET_OFFLINE", "true");
    }
    command
}

/// What the steps so far came to.
#[derive(Debug, Default)]
struct Verdict {
    passed: u64,
    failed: u64,
    skips: Vec<Skip>,
    /// Names of failed tests and steps.
    faults: Vec<String>,
    /// Steps, in order, and what they took; then those beside the tests.
    steps: Vec<(String, Duration)>,
    beside: Vec<(String, Duration)>,
    /// The test program that runs, and what those before took, in seconds.
    running: String,
    programs: Vec<(String, f64)>,
}

impl Verdict {
    fn timed<T>(&mut self, name: &str, step: impl FnOnce(&mut Verdict) -> T) -> T {
        let start = Instant::now();
        let done = step(self);
        self.steps.push((name.to_owned(), start.elapsed()));
        done
    }

    fn run(&mut self, name: &str, mut command: Command) -> Result<()> {
        let failed_before = self.failed;
        let streamed = stream::stream(&mut command, &mut |line| self.line(line))?;
        self.judge(name, &streamed, failed_before);
        Ok(())
    }

    /// Nothing else is said where tests have failed.
    fn judge(&mut self, name: &str, streamed: &Streamed, failed_before: u64) {
        self.faults.extend(streamed.stuck.iter().map(|stuck| format!("{name}: {stuck}")));
        if !streamed.succeeded && self.failed == failed_before {
            self.faults.push(format!("{name} failed"));
        }
    }

    fn build(&mut self, offline: bool) -> Vec<TestProgram> {
        programs::build(cargo(offline, &[])).unwrap_or_else(|error| {
            println!("{error:#}");
            self.faults.push("building tests failed".into());
            Vec::new()
        })
    }

    /// The programs, and `beside` in what they leave of the CPUs.
    fn tests(&mut self, programs: &[TestProgram], beside: Vec<Task>) {
        let names: Vec<String> = beside.iter().map(|task| task.name.clone()).collect();
        let programs = programs.iter().map(TestProgram::task).collect();
        tasks::run(vec![programs, beside], &mut |done| {
            if names.contains(&done.name) {
                self.beside.push((done.name.clone(), done.took));
            }
            self.done(done);
        });
    }

    fn done(&mut self, done: Done) {
        println!("{}", done.heading);
        // Nobody who reads is left to tell.
        let _ = std::io::stdout().write_all(&done.output);
        self.take(done);
    }

    fn take(&mut self, done: Done) {
        let failed_before = self.failed;
        self.line(&done.heading);
        String::from_utf8_lossy(&done.output).lines().for_each(|line| self.line(line.trim_end()));
        match done.streamed {
            Ok(streamed) if done.name != BUILDING_FUZZ => self.judge(&done.name, &streamed, failed_before),
            Ok(_) => {}
            Err(error) => self.faults.push(format!("{}: {error:#}", done.name)),
        }
    }

    /// A short run of each fuzz target. Their one package of their own may be missing offline.
    fn fuzz(&mut self, offline: bool) {
        let run = || -> Result<()> {
            let fuzzers = Fuzzers::build()?;
            fuzzers.run_each(&fuzz::TARGETS, 1, fuzz::TEST_RUNS, "fuzz ")
        };
        match run() {
            Ok(()) => self.passed += fuzz::TARGETS.len() as u64,
            Err(error) if offline && error.to_string().starts_with("building") => {
                self.skips.push(Skip { name: "fuzz".into(), reason: format!("{error:#}") });
            }
            Err(error) => {
                println!("{error:#}");
                self.faults.push("fuzz failed".into());
            }
        }
    }

    /// Takes in one line of output.
    fn line(&mut self, line: &str) {
        if let Some((passed, failed)) = totals_in(line) {
            self.passed += passed;
            self.failed += failed;
            self.programs.extend(seconds_in(line).map(|seconds| (self.running.clone(), seconds)));
        } else if let Some(program) = program_in(line) {
            self.running = program.to_owned();
        } else if let Some(name) = failed_test_in(line) {
            self.faults.push(format!("test {name} failed"));
        } else if let Some(skip) = skips::skip_in(line)
            && !self.skips.contains(&skip)
        {
            self.skips.push(skip);
        }
    }

    fn print(mut self, offline: bool, expected: &[String], elapsed: Duration) -> Result<()> {
        println!();
        if offline {
            println!("offline: no package was installed, no crate was downloaded");
        }
        for package in packages::missing() {
            println!("missing package {}: without it {} is left out", package.name, package.used_for);
        }
        for (what, steps) in [("steps", &self.steps), ("beside the tests", &self.beside)] {
            let steps = steps.iter().map(|(name, took)| format!("{name} {} s", took.as_secs()));
            println!("{what}: {}", steps.collect::<Vec<_>>().join(", "));
        }
        self.programs.sort_by(|a, b| b.1.total_cmp(&a.1));
        let slowest =
            self.programs.iter().take(SLOWEST).map(|(name, seconds)| format!("{name} {seconds:.0} s"));
        println!("slowest test programs: {}", slowest.collect::<Vec<_>>().join(", "));
        self.skips.sort();
        for skip in &self.skips {
            println!("skipped {}: {}", skip.name, skip.reason);
        }
        for skip in skips::unexpected(&self.skips, expected) {
            self.faults.push(format!("{} was skipped, and tests/expected-skips does not list it", skip.name));
        }
        for fault in &self.faults {
            println!("FAULT {fault}");
        }
        println!("{} skipped, {} s", self.skips.len(), elapsed.as_secs());
        println!("{} passed, {} failed", self.passed, self.failed);
        if !self.faults.is_empty() || self.failed > 0 {
            bail!("{} faults", self.faults.len().max(1));
        }
        Ok(())
    }
}

/// Of `test result: ok. 12 passed; 0 failed; …`.
fn totals_in(line: &str) -> Option<(u64, u64)> {
    let counts = line.strip_prefix("test result: ")?;
    let count = |word: &str| {
        let before = counts.split(word).next()?;
        before.trim_end().rsplit(' ').next()?.parse().ok()
    };
    Some((count(" passed")?, count(" failed")?))
}

/// Of `test result: ok. 12 passed; …; finished in 1.25s`.
fn seconds_in(line: &str) -> Option<f64> {
    line.rsplit_once("finished in ")?.1.strip_suffix('s')?.parse().ok()
}

/// Of `Running tests/live/main.rs (target/debug/deps/live-0f1e2d)` the program without its hash, of `Doc-tests weir_rt` the whole.
fn program_in(line: &str) -> Option<&str> {
    let line = line.trim_start();
    if line.starts_with("Doc-tests ") {
        return Some(line);
    }
    let path = line.strip_prefix("Running ")?.rsplit_once('(')?.1.strip_suffix(')')?;
    let (name, _hash) = path.rsplit_once('/')?.1.rsplit_once('-')?;
    Some(name)
}

/// Of `test a::b ... FAILED`.
fn failed_test_in(line: &str) -> Option<&str> {
    line.strip_prefix("test ")?.strip_suffix(" ... FAILED")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn totals_add_up_over_test_binaries() {
        let mut verdict = Verdict::default();
        for line in [
            "running 3 tests",
            "test a ... ok",
            "test b::c ... FAILED",
            "SKIP d: no redis-server",
            "SKIP d: no redis-server",
            "test result: FAILED. 2 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s",
            "test result: ok. 40 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 1.00s",
        ] {
            verdict.line(line);
        }
        assert_eq!((verdict.passed, verdict.failed), (42, 1));
        assert_eq!(verdict.faults, ["test b::c failed"]);
        assert_eq!(verdict.skips.len(), 1);
    }

    #[test]
    fn what_a_test_program_took_is_told_by_its_name() {
        let mut verdict = Verdict::default();
        for line in [
            "     Running tests/live/main.rs (target/debug/deps/live-0f1e2d3c)",
            "test result: ok. 2 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 12.50s",
            "   Doc-tests weir_rt",
            "test result: ok. 1 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.25s",
        ] {
            verdict.line(line);
        }
        assert_eq!(verdict.programs, [("live".to_owned(), 12.5), ("Doc-tests weir_rt".to_owned(), 0.25)]);
    }

    fn check_done(name: &str, output: &str, succeeded: bool, faults: &[&str]) {
        let mut verdict = Verdict::default();
        let streamed = Ok(Streamed { succeeded, stuck: Vec::new() });
        let output = output.as_bytes().to_vec();
        verdict.take(Done {
            name: name.into(),
            heading: String::new(),
            output,
            streamed,
            took: Duration::ZERO,
        });
        assert_eq!(verdict.faults, faults, "{name}");
    }

    #[test]
    fn a_program_that_ends_badly_without_a_failed_test_is_a_fault() {
        check_done("live", "test result: ok. 1 passed; 0 failed; 0 ignored", true, &[]);
        check_done("live", "test a ... ok", false, &["live failed"]);
        let failed = "test a ... FAILED\ntest result: FAILED. 0 passed; 1 failed; 0 ignored";
        check_done("live", failed, false, &["test a failed"]);
        check_done("clippy", "error: needless borrow", false, &["clippy failed"]);
        check_done(BUILDING_FUZZ, "error: no such crate", false, &[]);
    }

    #[test]
    fn what_is_nice_is_the_same_command() {
        let mut command = Command::new("sh");
        command.args(["-c", "echo $WORD; pwd; nice"]).env("WORD", "here").current_dir("/");
        let output = nice(&command).output().unwrap();
        let own = String::from_utf8(Command::new("nice").output().unwrap().stdout).unwrap();
        let niceness = (own.trim().parse::<i32>().unwrap() + NICE.parse::<i32>().unwrap()).min(19);
        assert_eq!(String::from_utf8_lossy(&output.stdout), format!("here\n/\n{niceness}\n"));
    }

    fn check_verdict(lines: &[&str], expected: &[&str], ok: bool) {
        let mut verdict = Verdict::default();
        lines.iter().for_each(|line| verdict.line(line));
        let expected: Vec<String> = expected.iter().map(|name| name.to_string()).collect();
        assert_eq!(verdict.print(false, &expected, Duration::ZERO).is_ok(), ok, "{lines:?}");
    }

    #[test]
    fn skips_must_be_expected() {
        check_verdict(&["test result: ok. 1 passed; 0 failed; 0 ignored"], &[], true);
        check_verdict(&["SKIP a: no root"], &["a"], true);
        check_verdict(&["SKIP a: no root"], &["b"], false);
        check_verdict(&["test result: FAILED. 1 passed; 1 failed; 0 ignored"], &[], false);
    }
}
