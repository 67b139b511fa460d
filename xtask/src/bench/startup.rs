//! startup: how long until main runs, with `uprobe:TARGET:main` armed.
//!
//! `tests/programs/mono_main.c` prints CLOCK_MONOTONIC first thing in main; that less the clock before the spawn is
//! a sample. Sides: bare (twice), weir and bpftrace, each starting the program itself. A tracer must have counted
//! the one entry of main.

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use nix::time::{ClockId, clock_gettime};

use crate::bench::figures::{Figures, WEIR};
use crate::bench::{Outcome, alternate};
use crate::{process, workspace};

const RUN_LIMIT: Duration = Duration::from_secs(60);
const BARE: &str = "bare";
const AGAIN: &str = "A/A";
const BPFTRACE: &str = "bpftrace";
const CASE: &str = "spawn to main";
/// What the project promises.
const MS_MAX: f64 = 50.0;

pub(super) fn measure(weir: PathBuf, rounds: usize) -> Result<Outcome> {
    let bench = Bench {
        weir,
        program: workspace::test_program("mono_main")?,
        out: workspace::target_folder("bench")?.join("startup.out"),
    };
    let mut figures = Figures::default();
    let mut sides = vec![BARE, AGAIN, WEIR];
    match process::find_program(BPFTRACE).context("not installed").and_then(|_| bench.run(BPFTRACE)) {
        Ok(_) => sides.push(BPFTRACE),
        Err(error) => figures.missing.push(format!("{BPFTRACE}: {error:#}")),
    }
    let mut samples: Vec<(String, f64)> = Vec::new();
    alternate(rounds, &sides, &mut |side| {
        samples.push((side.to_string(), bench.run(side)?));
        Ok(())
    })?;
    for side in &sides {
        let of_side: Vec<f64> = samples.iter().filter(|(name, _)| name == side).map(|(_, ms)| *ms).collect();
        figures.add(side, CASE, "ms", &of_side);
    }
    let remarks = figures.get(WEIR, CASE).map(|figure| {
        let verdict = if figure.summary.median <= MS_MAX { "met" } else { "NOT met" };
        format!("bar: at most {MS_MAX} ms until main: {verdict}: {:.3}", figure.summary.median)
    });
    let title = format!("Start of a small C program with main probed, {rounds} rounds");
    Ok(Outcome { title, figures, remarks: remarks.into_iter().collect() })
}

struct Bench {
    weir: PathBuf,
    program: PathBuf,
    out: PathBuf,
}

impl Bench {
    /// Milliseconds from before the spawn to main.
    fn run(&self, side: &str) -> Result<f64> {
        let program = self.program.display().to_string();
        let script = format!("uprobe:{program}:main {{ @ = count(); }}");
        let mut command = match side {
            BARE | AGAIN => Command::new(&self.program),
            WEIR => Command::new(&self.weir),
            _ => Command::new(side),
        };
        match side {
            BARE | AGAIN => &mut command,
            WEIR => command.args(["trace", "-o"]).arg(&self.out).args(["-e", &script, "-c", &program]),
            _ => command.arg("-o").arg(&self.out).args(["-e", &script, "-c", &program]),
        };
        let before = Duration::from(clock_gettime(ClockId::CLOCK_MONOTONIC)?);
        let output = process::output_within(&mut command, RUN_LIMIT)?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let in_main = text.lines().filter_map(|line| line.trim().parse::<u64>().ok()).next_back();
        let in_main = in_main.with_context(|| format!("no time in {text:?}"))?;
        if !matches!(side, BARE | AGAIN) {
            let found = fs::read_to_string(&self.out)?;
            ensure!(found.lines().any(|line| line == "@: 1"), "main was not counted once: {found:?}");
        }
        Ok((in_main as f64 - before.as_nanos() as f64) / 1e6)
    }
}
