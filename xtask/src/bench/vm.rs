//! vm: weir's engines beside other virtual machines, the kernel's JIT and native code, on the programs of `tests/vm`.
//!
//! The crate vm-bench runs them, alternately in one process, and says in lines of JSON what each round took; here
//! they become figures, ratios and bars. A sample is nanoseconds of one run, without those of an empty program on the
//! same engine; of an operation on a map, without those of a loop around it. Case `SUBJECT ÷ PEER` is the geometric
//! mean of the ratios over the programs that both ran, one sample a round. `A/A` is weir's JIT once more.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{ChildStdout, Command, Stdio};

use anyhow::{Context, Result, bail, ensure};
use clap::Args;
use serde_json::Value;

use crate::bench::Outcome;
use crate::bench::figures::{Figures, WEIR, rounded};
use crate::bench::plan::Plan;
use crate::bench::report::met;
use crate::bench::rounds::{Rounds, alternate};
use crate::bench::statistics::{mean_ratios, median};
use crate::process::{self, Guard};
use crate::workspace;

#[derive(Args, Debug, Default)]
pub(super) struct VmOptions {
    /// vm: a few short rounds, to develop with; no figures to keep
    #[arg(long)]
    quick: bool,
    /// vm: programs of tests/vm to run, with commas between; all, if none is given
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// vm: weir-jit (always among them), weir-interp, kernel, native, rbpf, …; all, if none is given
    #[arg(long, value_delimiter = ',')]
    subject: Vec<String>,
    /// vm: print the code that the JIT makes of a program, and measure nothing
    #[arg(long, value_name = "PROGRAM")]
    asm: Option<String>,
    /// vm: print a program's bytecode as weir and the kernel get it, and measure nothing
    #[arg(long, value_name = "PROGRAM")]
    ebpf: Option<String>,
}

impl VmOptions {
    pub(super) fn is_default(&self) -> bool {
        !self.quick && self.only.is_empty() && self.subject.is_empty() && !self.prints_code()
    }

    pub(super) fn is_quick(&self) -> bool {
        self.quick
    }

    /// Nothing is measured.
    pub(super) fn prints_code(&self) -> bool {
        self.asm.is_some() || self.ebpf.is_some()
    }
}

const INTERPRETER: &str = "weir-interp";
pub(super) const ROUNDS_QUICK: usize = 5;
/// LIMIT: of a program in the kernel, net of the empty one; shorter ones are named.
const NS_MIN: f64 = 300.0;
/// What a ratio counts at least: a sample less its empty run may be nothing, or below it.
const NS_COUNTED_MIN: f64 = 0.1;

/// What the project promises of geometric means: subject, peer, at most.
const MEANS_MAX: [(&str, &str, f64); 3] =
    [(WEIR, "kernel", 0.85), (WEIR, "native", 1.5), (INTERPRETER, "rbpf-interp", 0.6)];
/// And of single operations on a map, in ns, and of verifying and compiling 1,000 instructions, in ms.
const NS_MAX: [(&str, f64); 3] =
    [("op_array_look_up", 1.5), ("op_hash_look_up", 12.0), ("op_percpu_hash_update", 15.0)];
const TRANSLATION_MS_MAX: f64 = 1.0;
/// The bar on translating is for programs of so many instructions that were written out for it.
const LARGE: &str = "translate large_";

/// Peers than which the JIT is to be faster on every program.
const SLOWER: [&str; 2] = ["rbpf", "sbpf"];

pub(super) fn print_code(options: &VmOptions) -> Result<()> {
    let mut command = Command::new(program()?);
    if let Some(name) = &options.asm {
        command.args(["--asm", name]);
    }
    if let Some(name) = &options.ebpf {
        command.args(["--ebpf", name]);
    }
    process::run(&mut command)
}

pub(super) fn measure(options: &VmOptions, plan: &Plan) -> Result<()> {
    let rounds = plan.rounds;
    let mut command = Command::new(program()?);
    command.args(["--rounds", &rounds.to_string()]);
    if options.quick {
        command.arg("--quick");
    }
    if !options.only.is_empty() {
        command.args(["--only", &options.only.join(",")]);
    }
    if !options.subject.is_empty() {
        let others = options.subject.iter().map(String::as_str).filter(|name| !is_weir(name));
        command.args(["--subject", &std::iter::once(WEIR).chain(others).collect::<Vec<_>>().join(",")]);
    }
    let mut bench = VmBench::start(&mut command)?;
    let quick = if options.quick { ", quick" } else { "" };
    alternate(plan, &["vm-bench"], &mut |round, _| bench.round(round), &|rounds| {
        let found = Found::of(rounds);
        let title = format!("Programs on virtual machines, {} rounds{quick}", plan.rounds);
        Outcome { title, bars: found.remarks(), figures: found.figures(), remarks: Vec::new() }
    })
}

/// The program, which takes one round after the other: it makes all engines ready once.
struct VmBench {
    process: Guard,
    said: BufReader<ChildStdout>,
}

impl VmBench {
    fn start(command: &mut Command) -> Result<VmBench> {
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        let mut process = Guard::spawn(command)?;
        let said = BufReader::new(process.0.stdout.take().context("vm-bench has no standard output")?);
        Ok(VmBench { process, said })
    }

    /// What it says until the round is over.
    fn round(&mut self, round: usize) -> Result<Vec<Value>> {
        let mut lines = Vec::new();
        loop {
            let mut line = String::new();
            if self.said.read_line(&mut line)? == 0 {
                bail!("vm-bench ended in round {} with {}", round + 1, self.process.0.wait()?);
            }
            let line: Value =
                serde_json::from_str(&line).with_context(|| format!("vm-bench said {line:?}"))?;
            if let Some(number) = line["round"].as_u64() {
                ensure!(number == round as u64, "vm-bench is in round {}, not {}", number + 1, round + 1);
                return Ok(lines);
            }
            check(&line).with_context(|| format!("vm-bench said {line}"))?;
            lines.push(line);
        }
    }
}

/// It has all that [`Found`] takes from it.
fn check(line: &Value) -> Result<()> {
    let has = |key: &str| line[key].is_string();
    ensure!(
        has("missing")
            || ["subject", "case", "group", "unit"].into_iter().all(has) && line["samples"].is_array(),
        "neither a figure nor something that is missing"
    );
    Ok(())
}

fn is_weir(subject: &str) -> bool {
    subject == WEIR || subject == "weir-jit"
}

/// Builds vm-bench in release mode with the other virtual machines; the path of its program.
fn program() -> Result<PathBuf> {
    Ok(workspace::build("release", &["--package", "vm-bench", "--features", "peers"])?.join("vm-bench"))
}

/// Samples of one case by subject.
type Case = BTreeMap<String, Vec<f64>>;

/// What vm-bench said.
#[derive(Debug, Default)]
struct Found {
    /// Nanoseconds of one run, by program.
    programs: BTreeMap<String, Case>,
    /// Of operations on maps, and of translating, by case.
    others: BTreeMap<String, (String, Case)>,
    missing: Vec<String>,
}

impl Found {
    fn of(rounds: &Rounds<Vec<Value>>) -> Found {
        let mut found = Found::default();
        for line in rounds.with(&["vm-bench"]).flat_map(|(_, rounds)| rounds).flatten() {
            found.add(line);
        }
        found
    }

    /// A line that [`check`] accepts.
    fn add(&mut self, line: &Value) {
        if let Some(missing) = line["missing"].as_str() {
            self.missing.push(missing.to_owned());
            return;
        }
        let text = |key: &str| line[key].as_str().unwrap_or_default().to_owned();
        let samples = line["samples"].as_array().into_iter().flatten().filter_map(Value::as_f64);
        let subjects = match line["group"].as_str() {
            Some("program") => self.programs.entry(text("case")).or_default(),
            _ => &mut self.others.entry(text("case")).or_insert_with(|| (text("unit"), Case::new())).1,
        };
        subjects.entry(text("subject")).or_default().extend(samples);
    }

    fn figures(self) -> Figures {
        let mut figures = Figures::default();
        for (case, subjects) in &self.programs {
            for (subject, samples) in subjects {
                figures.add(subject, case, "ns", samples);
            }
        }
        for (case, (unit, subjects)) in &self.others {
            for (subject, samples) in subjects {
                figures.add(subject, case, if unit == "ns" { "ns" } else { "ms/1,000" }, samples);
            }
        }
        let peers = self.subjects().into_iter().filter(|peer| *peer != WEIR).map(|peer| (WEIR, peer));
        for (subject, peer) in peers.chain([(INTERPRETER, "rbpf-interp")]) {
            figures.add(subject, &format!("{subject} ÷ {peer}"), "×", &self.means(subject, peer));
        }
        figures.missing = self.missing;
        figures
    }

    fn subjects(&self) -> Vec<&str> {
        let mut subjects: Vec<&str> =
            self.programs.values().flat_map(|case| case.keys().map(String::as_str)).collect();
        subjects.sort_unstable();
        subjects.dedup();
        subjects
    }

    /// The programs' samples of two subjects, where both have some.
    fn pairs(&self, subject: &str, peer: &str) -> Vec<(&str, &[f64], &[f64])> {
        let pair =
            |(name, case): (_, &'_ Case)| Some((name, case.get(subject)?.len().min(case.get(peer)?.len())));
        let both = self.programs.iter().filter_map(|(name, case)| pair((name.as_str(), case)));
        both.map(|(name, rounds)| {
            let case = &self.programs[name];
            (name, &case[subject][..rounds], &case[peer][..rounds])
        })
        .collect()
    }

    /// Round by round the geometric mean of subject ÷ peer over the programs; none where there is no program of both.
    fn means(&self, subject: &str, peer: &str) -> Vec<f64> {
        let pairs = self.pairs(subject, peer).into_iter().map(|(_, ours, theirs)| (ours, theirs));
        mean_ratios(&pairs.collect::<Vec<_>>(), NS_COUNTED_MIN)
    }

    /// Bars, and programs that are too short to be among them.
    fn remarks(&self) -> Vec<String> {
        let mut remarks = Vec::new();
        for (subject, peer, most) in MEANS_MAX {
            let means = self.means(subject, peer);
            if !means.is_empty() {
                let found = median(&means);
                let count = self.pairs(subject, peer).len();
                remarks.push(format!(
                    "bar: {subject} at most {most} of {peer}, geometric mean of {count} programs: {}: {}",
                    met(found <= most),
                    rounded(found)
                ));
            }
        }
        for peer in SLOWER {
            let pairs = self.pairs(WEIR, peer);
            let not: Vec<String> = pairs
                .iter()
                .filter(|(_, ours, theirs)| median(ours) >= median(theirs))
                .map(|(name, ours, theirs)| format!(", {name} {}", rounded(median(ours) / median(theirs))))
                .collect();
            if !pairs.is_empty() {
                let count = pairs.len();
                remarks.push(format!(
                    "bar: faster than {peer} on each of {count} programs: {}{}",
                    met(not.is_empty()),
                    not.concat()
                ));
            }
        }
        remarks.extend(self.other_bars());
        let short = self.programs.iter().filter_map(|(name, case)| Some((name, median(case.get("kernel")?))));
        remarks.extend(short.filter(|(_, ns)| *ns < NS_MIN).map(|(name, ns)| {
            format!("{name} takes the kernel {} ns, below the {NS_MIN} that a figure needs", rounded(ns))
        }));
        remarks
    }
}

impl Found {
    fn other_bars(&self) -> Vec<String> {
        let weirs = |case: &str| Some(median(self.others.get(case)?.1.get(WEIR)?));
        let operations = NS_MAX.iter().filter_map(|(case, most)| Some((*case, *most, "ns", weirs(case)?)));
        let large = self.others.keys().filter(|case| case.starts_with(LARGE));
        let large = large.filter_map(|case| {
            Some((case.as_str(), TRANSLATION_MS_MAX, "ms for 1,000 of its", weirs(case)?))
        });
        let bar = |(case, most, unit, found): (&str, f64, &str, f64)| {
            format!("bar: {case}: at most {most} {unit}: {}: {}", met(found <= most), rounded(found))
        };
        operations.chain(large).map(bar).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found() -> Found {
        let lines = [
            r#"{"group": "program", "subject": "weir", "case": "a", "unit": "ns", "samples": [400]}"#,
            r#"{"group": "program", "subject": "weir", "case": "a", "unit": "ns", "samples": [500]}"#,
            r#"{"group": "program", "subject": "kernel", "case": "a", "unit": "ns", "samples": [400, 1000]}"#,
            r#"{"group": "program", "subject": "weir", "case": "b", "unit": "ns", "samples": [100, 200]}"#,
            r#"{"group": "program", "subject": "kernel", "case": "b", "unit": "ns", "samples": [400, 100]}"#,
            r#"{"group": "program", "subject": "rbpf", "case": "a", "unit": "ns", "samples": [450, 450]}"#,
            r#"{"group": "operation", "subject": "weir", "case": "op_hash_look_up", "unit": "ns", "samples": [12.5, 13]}"#,
            r#"{"group": "translation", "subject": "weir", "case": "translate large_x, 1000 instructions", "unit": "ms/1,000", "samples": [0.5]}"#,
            r#"{"missing": "rbpf: b: needs maps"}"#,
        ];
        let mut found = Found::default();
        for line in lines {
            let line: Value = serde_json::from_str(line).unwrap();
            check(&line).unwrap();
            found.add(&line);
        }
        found
    }

    #[test]
    fn means_are_geometric_and_by_round() {
        // Round 1: 1 and ¼; round 2: ½ and 2.
        assert_eq!(found().means(WEIR, "kernel"), [0.5, 1.0]);
        assert!(found().means(WEIR, "native").is_empty());
    }

    #[test]
    fn bars_are_said_for_who_was_measured() {
        let remarks = found().remarks().join("\n");
        assert!(
            remarks.contains("weir at most 0.85 of kernel, geometric mean of 2 programs: met: 0.75"),
            "{remarks}"
        );
        assert!(remarks.contains("faster than rbpf on each of 1 programs: NOT met, a 1.000"), "{remarks}");
        assert!(remarks.contains("b takes the kernel 250.0 ns, below the 300"), "{remarks}");
        assert!(!remarks.contains("native"), "{remarks}");
        assert!(remarks.contains("op_hash_look_up: at most 12 ns: NOT met: 12.75"), "{remarks}");
        assert!(
            remarks.contains("large_x, 1000 instructions: at most 1 ms for 1,000 of its: met: 0.500"),
            "{remarks}"
        );
    }

    #[test]
    fn what_is_missing_stays_named() {
        let figures = found().figures();
        assert_eq!(figures.missing, ["rbpf: b: needs maps"]);
        assert_eq!(figures.get(WEIR, "weir ÷ kernel").unwrap().summary.median, 0.75);
    }
}
