//! report: what the steps and tests came to; printed as the last lines, and kept in `target/test/`.
//!
//! `report.json`: counts, faults, unstable tests, skips, steps and what each test took. `unstable.txt`: each unstable test with
//! what it printed when it failed; empty where there is none, which a release needs. `times.json`: what each test took when it last
//! ran, from which `--quick` chooses.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result};
use serde_json::{Value, json};

use crate::packages;
use crate::test::schedule::{Outcome, TRIES, Taken, Verdict};
use crate::test::skips::{self, Skip};

/// How many tests are named as the slowest.
const SLOWEST: usize = 10;

const TIMES: &str = "times.json";

#[derive(Debug, Default)]
pub(super) struct Report {
    passed: usize,
    failed: Vec<String>,
    unstable: Vec<Outcome>,
    skips: Vec<Skip>,
    /// Steps that failed, and what else must not be.
    faults: Vec<String>,
    steps: Vec<(String, Taken)>,
    taken: BTreeMap<String, Taken>,
}

impl Report {
    pub(super) fn step(&mut self, name: &str, took: Taken) {
        self.steps.push((name.to_owned(), took));
    }

    /// All tests are done; some took the CPU at the same time.
    pub(super) fn tests_done(&mut self, time: Duration) {
        self.step("tests", Taken { time, cpu: self.taken.values().map(|taken| taken.cpu).sum() });
    }

    pub(super) fn fault(&mut self, fault: String) {
        self.faults.push(fault);
    }

    pub(super) fn take(&mut self, outcome: &Outcome) {
        match outcome.verdict {
            Verdict::Passed => self.passed += 1,
            Verdict::Unstable => self.unstable.push(outcome.clone()),
            Verdict::Failed => self.failed.push(outcome.name.clone()),
        }
        for skip in outcome.output.lines().filter_map(skips::skip_in) {
            if !self.skips.contains(&skip) {
                self.skips.push(skip);
            }
        }
        self.taken.insert(outcome.name.clone(), outcome.took);
    }

    pub(super) fn skips(&self) -> &[Skip] {
        &self.skips
    }

    /// An unstable test is seen, and does not keep a change from being kept.
    pub(super) fn is_good(&self) -> bool {
        self.failed.is_empty() && self.faults.is_empty()
    }

    pub(super) fn summary(&self) -> String {
        format!("{} tests failed, {} other faults", self.failed.len(), self.faults.len())
    }

    fn slowest(&self) -> Vec<(&str, Taken)> {
        let mut tests: Vec<_> = self.taken.iter().map(|(name, taken)| (name.as_str(), *taken)).collect();
        tests.sort_by_key(|(_, taken)| std::cmp::Reverse(taken.time));
        tests.truncate(SLOWEST);
        tests
    }

    pub(super) fn print(&mut self, taken: Taken, offline: bool) {
        self.skips.sort();
        println!();
        if offline {
            println!("offline: no package was installed, no crate was downloaded");
        }
        for package in packages::missing() {
            println!("missing package {}: without it {} is left out", package.name, package.used_for);
        }
        for skip in &self.skips {
            println!("skipped {}: {}", skip.name, skip.reason);
        }
        for (name, taken) in self.slowest() {
            println!(
                "slow: {:6.1} s, {:5.1} s of CPU time, {name}",
                taken.time.as_secs_f64(),
                taken.cpu.as_secs_f64()
            );
        }
        let steps: Vec<String> = self.steps.iter().map(|(name, taken)| format!("{name} {taken}")).collect();
        println!("where the time went (CPU time): {}", steps.join(", "));
        for outcome in &self.unstable {
            println!("UNSTABLE {}: it failed, and passed when it ran again; it had printed:", outcome.name);
            println!("{}", outcome.output.trim_end());
        }
        for test in &self.failed {
            println!("FAILED {test}, {TRIES} times");
        }
        for fault in &self.faults {
            println!("FAULT {fault}");
        }
        println!("{} unstable, {} skips, {taken} in all", self.unstable.len(), self.skips.len());
        println!("{} passed, {} failed", self.passed + self.unstable.len(), self.failed.len());
    }

    /// `is_whole`: every test has run. What a part of them took is added to the times of the others.
    pub(super) fn write(&self, folder: &Path, is_whole: bool) -> Result<()> {
        let write = |name: &str, text: String| {
            let path = folder.join(name);
            fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))
        };
        let mut known = if is_whole { BTreeMap::new() } else { times(folder) };
        known.extend(self.taken.iter().map(|(name, taken)| (name.clone(), taken.time)));
        let unstable = |outcome: &Outcome| format!("{}\n{}\n", outcome.name, outcome.output.trim_end());
        write("unstable.txt", self.unstable.iter().map(unstable).collect())?;
        write("report.json", format!("{:#}\n", self.json()))?;
        write(TIMES, format!("{:#}\n", json!(seconds(&known))))
    }

    fn json(&self) -> Value {
        let skips: Vec<Value> =
            self.skips.iter().map(|skip| json!({ "name": skip.name, "reason": skip.reason })).collect();
        let steps: Vec<Value> =
            self.steps.iter().map(|(name, taken)| json!({ "name": name, "taken": taken.json() })).collect();
        let tests: BTreeMap<&str, Value> =
            self.taken.iter().map(|(name, taken)| (name.as_str(), taken.json())).collect();
        json!({
            "passed": self.passed + self.unstable.len(),
            "failed": self.failed,
            "unstable": self.unstable.iter().map(|outcome| &outcome.name).collect::<Vec<_>>(),
            "faults": self.faults,
            "skipped": skips,
            "steps": steps,
            "tests": tests,
        })
    }
}

impl Taken {
    fn json(self) -> Value {
        json!({ "seconds": self.time.as_secs_f64(), "cpu_seconds": self.cpu.as_secs_f64() })
    }
}

impl fmt::Display for Taken {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} s ({} s)", self.time.as_secs(), self.cpu.as_secs())
    }
}

fn seconds(times: &BTreeMap<String, Duration>) -> BTreeMap<&str, f64> {
    times.iter().map(|(name, took)| (name.as_str(), took.as_secs_f64())).collect()
}

/// What each test took when it last ran; empty where none has.
pub(super) fn times(folder: &Path) -> BTreeMap<String, Duration> {
    let text = fs::read_to_string(folder.join(TIMES)).unwrap_or_default();
    let times: BTreeMap<String, Value> = serde_json::from_str(&text).unwrap_or_default();
    let duration = |seconds: &Value| Duration::try_from_secs_f64(seconds.as_f64()?).ok();
    times.iter().filter_map(|(name, seconds)| Some((name.clone(), duration(seconds)?))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHORT: Taken = Taken { time: Duration::from_secs(2), cpu: Duration::from_secs(1) };

    fn report(outcomes: &[(&str, Verdict, &str)]) -> Report {
        let mut report = Report::default();
        for (name, verdict, output) in outcomes {
            let (name, output) = (name.to_string(), output.to_string());
            report.take(&Outcome { name, verdict: *verdict, took: SHORT, output });
        }
        report
    }

    #[test]
    fn failures_and_faults_are_bad_and_what_is_unstable_is_not() {
        assert!(report(&[("a", Verdict::Passed, ""), ("b", Verdict::Unstable, "why")]).is_good());
        assert!(!report(&[("a", Verdict::Passed, ""), ("b", Verdict::Failed, "why")]).is_good());
        let mut report = report(&[("a", Verdict::Passed, "")]);
        report.fault("clippy failed".into());
        assert!(!report.is_good());
    }

    #[test]
    fn a_skip_is_taken_once_from_what_tests_print() {
        let report =
            report(&[("a", Verdict::Passed, "\nSKIP x: no x\n"), ("b", Verdict::Passed, "SKIP x: no x")]);
        assert_eq!(report.skips(), [skips::skip_in("SKIP x: no x").unwrap()]);
    }

    #[test]
    fn what_is_written_is_read_back_and_a_part_keeps_the_times_of_the_others() {
        let folder = std::env::temp_dir().join(format!("weir-xtask-report-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        report(&[("a", Verdict::Passed, ""), ("b", Verdict::Unstable, "why\n")])
            .write(&folder, true)
            .unwrap();
        let unstable = fs::read_to_string(folder.join("unstable.txt")).unwrap();
        report(&[("c", Verdict::Passed, "")]).write(&folder, false).unwrap();
        let times: Vec<String> = times(&folder).into_keys().collect();
        let json: Value =
            serde_json::from_str(&fs::read_to_string(folder.join("report.json")).unwrap()).unwrap();
        fs::remove_dir_all(&folder).unwrap();
        assert_eq!(unstable, "b\nwhy\n");
        assert_eq!(times, ["a", "b", "c"]);
        assert_eq!(json["tests"]["c"], json!({ "seconds": 2.0, "cpu_seconds": 1.0 }));
        assert_eq!((&json["passed"], &json["unstable"]), (&json!(1), &json!([])));
    }
}
