//! view: what it takes to read a trace, and to print it.
//!
//! A trace of 10⁷ events with an `int` and a `long`, in four streams whose events follow one another in turn, so that each is another
//! stream's: what merging costs most. Our writer makes it, in `crates/weir-trace/examples/trace_rate.rs` (release). Read: by the crate's
//! reader, both numbers of each event, and by babeltrace2 into its sink that drops all. Printed: by `weir view` and by babeltrace2, to
//! /dev/null. Nanoseconds are CPU time of the process, its start included.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use nix::sys::resource::{UsageWho, getrusage};

use crate::bench::figures::{Figures, WEIR, rounded};
use crate::bench::{Outcome, alternate};
use crate::{process, workspace};

const EVENTS: u64 = 10_000_000;
/// LIMIT: a run of the slowest side, which takes some 20 seconds.
const LIMIT: Duration = Duration::from_secs(300);

const AGAIN: &str = "A/A";
const BABELTRACE: &str = "babeltrace2";
const READ: &str = "an event, read";
const PRINTED: &str = "an event, printed";
/// Sides of rounds, and whose figure of which case each is.
const SIDES: [(&str, &str, &str); 5] = [
    ("read", WEIR, READ),
    ("read again", AGAIN, READ),
    ("read by babeltrace2", BABELTRACE, READ),
    ("print", WEIR, PRINTED),
    ("print by babeltrace2", BABELTRACE, PRINTED),
];

/// What the project promises of a reader on one core.
const EVENTS_PER_SECOND_MIN: f64 = 10e6;

pub(super) fn measure(weir: PathBuf, rounds: usize) -> Result<Outcome> {
    let mut build = Command::new(env!("CARGO"));
    build.args(["build", "--release", "--package", "weir-trace", "--example", "trace_rate"]);
    process::run(build.current_dir(workspace::root()))?;
    let folder = workspace::target_folder("bench")?.join("view-trace");
    if folder.exists() {
        fs::remove_dir_all(&folder).with_context(|| format!("cannot remove {}", folder.display()))?;
    }
    let bench =
        Bench { weir, rate: workspace::target_folder("release")?.join("examples/trace_rate"), folder };
    let written =
        bench.run(Command::new(&bench.rate).arg("write").arg(&bench.folder).arg(EVENTS.to_string()))?;
    let mut figures = Figures::default();
    figures.add(WEIR, "an event, written", "ns", &[written]);
    let mut sides: Vec<&str> = SIDES.iter().map(|(side, ..)| *side).collect();
    if process::find_program(BABELTRACE).is_none() {
        figures.missing.push(format!("{BABELTRACE}: apt-get install {BABELTRACE}"));
        sides.retain(|side| !side.ends_with(BABELTRACE));
    }
    let mut samples: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    alternate(rounds, &sides, &mut |side| {
        let ns = bench.run(&mut bench.command(side))?;
        samples.entry(side.to_owned()).or_default().push(ns);
        Ok(())
    })?;
    for (side, subject, case) in SIDES {
        figures.add(subject, case, "ns", samples.get(side).map_or(&[], Vec::as_slice));
    }
    let remarks = bars(&figures);
    fs::remove_dir_all(&bench.folder).with_context(|| format!("cannot remove {}", bench.folder.display()))?;
    Ok(Outcome { title: format!("A trace of {EVENTS} events, {rounds} rounds"), figures, remarks })
}

struct Bench {
    weir: PathBuf,
    /// The example that writes and reads.
    rate: PathBuf,
    folder: PathBuf,
}

impl Bench {
    fn command(&self, side: &str) -> Command {
        let (program, arguments): (_, &[&str]) = match side {
            "print" => (Command::new(&self.weir), &["view"]),
            "print by babeltrace2" => (Command::new(BABELTRACE), &[]),
            "read by babeltrace2" => (Command::new(BABELTRACE), &["--output-format=dummy"]),
            _ => (Command::new(&self.rate), &["read"]),
        };
        let mut command = program;
        command.args(arguments).arg(&self.folder);
        command
    }

    /// Nanoseconds of CPU time that an event takes.
    fn run(&self, command: &mut Command) -> Result<f64> {
        let before = children()?;
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let child = command.spawn().with_context(|| format!("cannot start {command:?}"))?;
        let output = process::finish_within(child, LIMIT)?;
        let said = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success() && said.is_empty(), "{command:?}: {}: {said}", output.status);
        Ok((children()? - before).as_nanos() as f64 / EVENTS as f64)
    }
}

/// CPU time of all children that have been waited for.
fn children() -> Result<Duration> {
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN)?;
    let time = |of: nix::sys::time::TimeVal| {
        Duration::from_secs(of.tv_sec() as u64) + Duration::from_micros(of.tv_usec() as u64)
    };
    Ok(time(usage.user_time()) + time(usage.system_time()))
}

fn bars(figures: &Figures) -> Vec<String> {
    let Some(read) = figures.get(WEIR, READ) else { return Vec::new() };
    let rate = 1e9 / read.summary.median;
    let verdict = if rate >= EVENTS_PER_SECOND_MIN { "met" } else { "NOT met" };
    vec![format!(
        "bar: at least {} M events/s of a core: {verdict}: {}",
        EVENTS_PER_SECOND_MIN / 1e6,
        rounded(rate / 1e6)
    )]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bar_is_a_rate() {
        let of = |ns| {
            let mut figures = Figures::default();
            figures.add(WEIR, READ, "ns", &[ns]);
            bars(&figures).join("\n")
        };
        assert_eq!(of(80.0), "bar: at least 10 M events/s of a core: met: 12.50");
        assert_eq!(of(125.0), "bar: at least 10 M events/s of a core: NOT met: 8.000");
        assert_eq!(bars(&Figures::default()), Vec::<String>::new());
    }

    #[test]
    fn sides_are_different_and_each_case_has_weir() {
        let mut sides: Vec<&str> = SIDES.iter().map(|(side, ..)| *side).collect();
        sides.sort_unstable();
        sides.dedup();
        assert_eq!(sides.len(), SIDES.len());
        for case in [READ, PRINTED] {
            assert!(SIDES.iter().any(|(_, subject, of)| (*subject, *of) == (WEIR, case)), "{case}");
        }
    }
}
