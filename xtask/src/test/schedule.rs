//! schedule: runs tests, each in a process of its own, several at a time, and those that must be alone after all others.
//!
//! In: tests. Out: each one's outcome as it ends, with what it printed. A test that failed runs again when all others are done,
//! alone, up to [`TRIES`] times in all; what passes then is unstable, not passed.
//!
//! Guaranteed: a test that is not done within its limit is ended with all that it has started, and has failed.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use crate::test::programs::Test;
use crate::test::stream::{self, Limit};

/// How often a test may run: once, and twice more where it failed.
pub(super) const TRIES: usize = 3;

/// LIMIT: what one test may take. The slowest takes a minute on an idle machine.
const TEST_LIMIT: Duration = Duration::from_secs(600);

/// How often it is said how far the tests are, where nothing else is said.
const PROGRESS: Duration = Duration::from_secs(15);

/// Tests that run when no other does, by the beginning of their names: what they measure, others on the machine would change.
const ALONE: [&str; 1] = ["weir::integration budget::"];

/// Programs whose tests take longest come first, so that at the end no single one is waited for.
const FIRST: [&str; 4] = ["weir::integration", "weir-probe::integration", "weir-jit::integration", "weir-rt"];

/// What a test or a step took.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) struct Taken {
    pub(super) time: Duration,
    /// On all CPUs.
    pub(super) cpu: Duration,
}

/// What came of one test.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Outcome {
    pub(super) name: String,
    pub(super) verdict: Verdict,
    /// Of the last try.
    pub(super) took: Taken,
    /// Of the last try that failed, else of the one that passed.
    pub(super) output: String,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Verdict {
    Passed,
    /// Passed after it had failed.
    Unstable,
    Failed,
}

/// Runs all; `seen` gets each outcome as it comes.
pub(super) fn run(tests: Vec<Test>, at_a_time: usize, seen: &mut dyn FnMut(&Outcome)) {
    let (alone, mut others): (Vec<Test>, Vec<Test>) = tests.into_iter().partition(is_alone);
    others.sort_by_key(|test| FIRST.iter().position(|first| test.program() == *first).unwrap_or(FIRST.len()));
    let mut failed = Vec::new();
    let mut first_try = |test: Test, outcome: Outcome| {
        if outcome.verdict == Verdict::Failed {
            println!("FAILED {}, to be tried again\n{}", outcome.name, outcome.output);
            failed.push((test, outcome));
        } else {
            seen(&outcome);
        }
    };
    run_beside_one_another(others, at_a_time, &mut first_try);
    run_beside_one_another(alone, 1, &mut first_try);
    for (test, first) in failed {
        seen(&again(&test, first));
    }
}

fn is_alone(test: &Test) -> bool {
    ALONE.iter().any(|begin| test.name.starts_with(begin))
}

fn run_beside_one_another(tests: Vec<Test>, at_a_time: usize, done: &mut dyn FnMut(Test, Outcome)) {
    let (count, mut finished) = (tests.len(), 0);
    let queue = Mutex::new(tests.into_iter());
    let running: Mutex<BTreeMap<String, Instant>> = Mutex::default();
    let (send, ended) = mpsc::channel();
    thread::scope(|scope| {
        for _ in 0..at_a_time {
            let send = send.clone();
            scope.spawn(|| {
                let send = send;
                loop {
                    // A statement of its own: the lock is not held while the test runs.
                    let Some(test) = locked(&queue).next() else { break };
                    locked(&running).insert(test.name.clone(), Instant::now());
                    let outcome = attempt(&test);
                    locked(&running).remove(&test.name);
                    if send.send((test, outcome)).is_err() {
                        break;
                    }
                }
            });
        }
        drop(send);
        let mut said = Instant::now();
        loop {
            match ended.recv_timeout(PROGRESS) {
                Ok((test, outcome)) => {
                    finished += 1;
                    done(test, outcome);
                }
                Err(mpsc::RecvTimeoutError::Timeout) => {}
                Err(mpsc::RecvTimeoutError::Disconnected) => break,
            }
            if said.elapsed() >= PROGRESS {
                println!("{finished} of {count} tests; running: {}", shown(&locked(&running)));
                said = Instant::now();
            }
        }
    });
}

fn locked<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn shown(running: &BTreeMap<String, Instant>) -> String {
    let tests: Vec<String> =
        running.iter().map(|(name, since)| format!("{name} ({} s)", since.elapsed().as_secs())).collect();
    tests.join(", ")
}

/// One run of a test in a process of its own.
fn attempt(test: &Test) -> Outcome {
    let start = Instant::now();
    let mut output = Vec::new();
    let streamed = stream::collect(&mut test.command(), Limit::Total(TEST_LIMIT), &mut output);
    let mut output = String::from_utf8_lossy(&output).into_owned();
    let mut cpu = Duration::ZERO;
    let passed = match streamed {
        Ok(streamed) => {
            cpu = streamed.cpu;
            streamed.stuck.iter().for_each(|stuck| output += &format!("\n{stuck}\n"));
            streamed.succeeded && streamed.stuck.is_empty()
        }
        Err(error) => {
            output += &format!("{error:#}\n");
            false
        }
    };
    let verdict = if passed { Verdict::Passed } else { Verdict::Failed };
    Outcome { name: test.name.clone(), verdict, took: Taken { time: start.elapsed(), cpu }, output }
}

/// The tries after the first, which failed.
fn again(test: &Test, first: Outcome) -> Outcome {
    for _ in 1..TRIES {
        println!("once more: {}", test.name);
        let next = attempt(test);
        if next.verdict == Verdict::Passed {
            return Outcome { verdict: Verdict::Unstable, took: next.took, ..first };
        }
    }
    first
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test::programs;

    /// A test whose process is this script, which `sh` gets with the words that a test program gets.
    fn scripted(name: &str, script: &str) -> (Test, std::path::PathBuf) {
        use std::os::unix::fs::PermissionsExt as _;
        let path = std::env::temp_dir().join(format!("weir-xtask-{name}-{}", std::process::id()));
        std::fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        (programs::example("example", name, path.to_str().unwrap()), path)
    }

    fn verdict_of(name: &str, script: &str) -> (Verdict, String) {
        let (test, path) = scripted(name, script);
        let mut outcomes = Vec::new();
        run(vec![test], 2, &mut |outcome| outcomes.push(outcome.clone()));
        std::fs::remove_file(path).unwrap();
        let [outcome] = &outcomes[..] else { panic!("{outcomes:?}") };
        (outcome.verdict, outcome.output.clone())
    }

    #[test]
    fn what_passes_passes_and_what_fails_three_times_fails() {
        assert_eq!(verdict_of("passes", "echo \"$1 $2 $3\"").0, Verdict::Passed);
        let (verdict, output) = verdict_of("fails", "echo why >&2; exit 101");
        assert_eq!((verdict, output.as_str()), (Verdict::Failed, "why\n"));
    }

    /// The script leaves a file at its first run, and passes where it finds it.
    #[test]
    fn what_fails_once_is_unstable_and_keeps_its_first_words() {
        let mark = std::env::temp_dir().join(format!("weir-xtask-mark-{}", std::process::id()));
        let file = mark.display();
        let script = format!("[ -e {file} ] && exit 0; touch {file}; echo first; exit 1");
        let (verdict, output) = verdict_of("unstable", &script);
        std::fs::remove_file(&mark).unwrap();
        assert_eq!((verdict, output.as_str()), (Verdict::Unstable, "first\n"));
    }

    #[test]
    fn tests_that_must_be_alone_are_there() {
        let programs = crate::workspace::root().join("crates");
        for begin in ALONE {
            let (program, module) = begin.split_once(' ').unwrap();
            let folder = programs.join(program.split("::").next().unwrap()).join("tests/integration");
            let name = module.trim_end_matches("::");
            let files = [folder.join(format!("{name}.rs")), folder.join(name).join("mod.rs")];
            assert!(files.iter().any(|file| file.exists()), "no module {begin}");
        }
    }
}
