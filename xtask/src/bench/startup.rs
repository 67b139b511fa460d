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
use testkit::paths::quoted;

use crate::bench::Outcome;
use crate::bench::figures::{Figures, WEIR};
use crate::bench::plan::{Plan, Tracer};
use crate::bench::report::met;
use crate::bench::rounds::alternate;
use crate::{process, workspace};

const RUN_LIMIT: Duration = Duration::from_secs(60);
const BPFTRACE: &str = "bpftrace";
const CASE: &str = "spawn to main";
/// What the project promises.
const MS_MAX: f64 = 50.0;

pub(super) fn measure(plan: &Plan) -> Result<()> {
    let bench = Bench {
        program: workspace::test_program("mono_main")?,
        out: workspace::target_folder("bench")?.join(format!("startup-{}.out", std::process::id())),
    };
    let (mut peers, mut missing) = (Vec::new(), Vec::new());
    if plan.has_peers() {
        let found = process::find_program(BPFTRACE).context("not installed");
        match found.and_then(|_| bench.run(&Tracer::Peer(BPFTRACE))) {
            Ok(_) => peers.push(BPFTRACE),
            Err(error) => missing.push(format!("{BPFTRACE}: {error:#}")),
        }
    }
    let sides = plan.sides(&peers);
    alternate(plan, &sides, &mut |_, side| bench.run(&side.tracer), &|rounds| {
        let mut figures = Figures { missing: missing.clone(), ..Figures::default() };
        for (side, ms) in rounds.with(&sides) {
            figures.add(side.subject, CASE, "ms", ms);
        }
        let bars = figures.get(WEIR, CASE).map(|figure| {
            let verdict = met(figure.summary.median <= MS_MAX);
            format!("bar: at most {MS_MAX} ms until main: {verdict}: {:.3}", figure.summary.median)
        });
        let title = format!("Start of a small C program with main probed, {} rounds", plan.rounds);
        Outcome { title, figures, bars: bars.into_iter().collect(), remarks: Vec::new() }
    })
}

struct Bench {
    program: PathBuf,
    out: PathBuf,
}

impl Bench {
    /// Milliseconds from before the spawn to main.
    fn run(&self, tracer: &Tracer) -> Result<f64> {
        let script = format!("uprobe:{}:main {{ @ = count(); }}", quoted(&self.program));
        let mut command = tracer.command(&self.program);
        if *tracer != Tracer::None {
            command.arg("-o").arg(&self.out).args(["-e", &script, "-c", &tracer.word(&self.program)]);
        }
        let ms = until_main(&mut command)?;
        if *tracer != Tracer::None {
            let found = fs::read_to_string(&self.out)?;
            ensure!(found.lines().any(|line| line == "@: 1"), "main was not counted once: {found:?}");
        }
        Ok(ms)
    }
}

/// Milliseconds from before the spawn of a command to the main of `mono_main.c`, which it runs.
pub(super) fn until_main(command: &mut Command) -> Result<f64> {
    let before = Duration::from(clock_gettime(ClockId::CLOCK_MONOTONIC)?);
    let output = process::output_within(command, RUN_LIMIT)?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let in_main = text.lines().filter_map(|line| line.trim().parse::<u64>().ok()).next_back();
    let in_main = in_main.with_context(|| format!("no time in {text:?}"))?;
    Ok((in_main as f64 - before.as_nanos() as f64) / 1e6)
}
