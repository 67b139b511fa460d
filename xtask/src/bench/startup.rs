//! startup: how long until main runs, with `uprobe:TARGET:main` armed; and how long a build takes whose processes are all traced.
//!
//! `tests/programs/mono_main.c` prints CLOCK_MONOTONIC first thing in main; that less the clock before the spawn is
//! a sample. Sides: bare (twice), weir and bpftrace, each starting the program itself. A tracer must have counted
//! the one entry of main.
//!
//! The build is make of a small C project ([`FILES`] files and a program): make, shells, gcc's driver, cc1, as, collect2 and ld, each with malloc
//! counted from its start (`--follow`). Only weir traces it: bpftrace -c counts in all processes of the machine.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use nix::time::{ClockId, clock_gettime};
use testkit::paths::quoted;

use crate::bench::Outcome;
use crate::bench::figures::{Figures, WEIR};
use crate::bench::plan::{BARE, Plan, Tracer};
use crate::bench::rounds::alternate;
use crate::{process, workspace};

const RUN_LIMIT: Duration = Duration::from_secs(60);
const BPFTRACE: &str = "bpftrace";
const CASE: &str = "spawn to main";
const BUILD: &str = "make of a small C project";
/// What the project promises.
const MS_MAX: f64 = 50.0;
const BUILD_RATIO_MAX: f64 = 1.3;
/// Files of the project.
const FILES: usize = 12;

pub(super) fn measure(plan: &Plan) -> Result<()> {
    let bench = Bench {
        program: workspace::test_program("mono_main")?,
        project: project()?,
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
        for (side, runs) in rounds.with(&sides) {
            let mains: Vec<f64> = runs.iter().map(|run| run.main).collect();
            figures.add(side.subject, CASE, "ms", &mains);
            let builds: Vec<f64> = runs.iter().filter_map(|run| run.build).collect();
            if !builds.is_empty() {
                figures.add(side.subject, BUILD, "ms", &builds);
            }
        }
        let verdict = |is_met: bool| if is_met { "met" } else { "NOT met" };
        let median = |subject, case| figures.get(subject, case).map(|figure| figure.summary.median);
        let main = median(WEIR, CASE)
            .map(|ms| format!("bar: at most {MS_MAX} ms until main: {}: {ms:.3}", verdict(ms <= MS_MAX)));
        let ratio = median(WEIR, BUILD).zip(median(BARE, BUILD)).map(|(traced, bare)| traced / bare);
        let build = ratio.map(|ratio| {
            let verdict = verdict(ratio <= BUILD_RATIO_MAX);
            format!("bar: a build takes at most {BUILD_RATIO_MAX} times as long: {verdict}: {ratio:.3}")
        });
        let bars = [main, build];
        let title = format!("Start of a small C program with main probed, {} rounds", plan.rounds);
        Outcome { title, figures, bars: bars.into_iter().flatten().collect(), remarks: Vec::new() }
    })
}

/// Milliseconds.
struct Run {
    main: f64,
    build: Option<f64>,
}

/// Writes the project that is built.
fn project() -> Result<PathBuf> {
    let folder = workspace::target_folder("bench")?.join("project");
    fs::create_dir_all(&folder)?;
    let names: Vec<String> = (0..FILES).map(|n| format!("part{n}")).collect();
    for name in &names {
        let text = format!(
            "#include <math.h>\n#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n#include <time.h>\n\
             static int less(const void *a, const void *b) {{ return strcmp(*(char **)a, *(char **)b); }}\n\
             void {name}(char **words, size_t count)\n{{\n    qsort(words, count, sizeof *words, less);\n\
             for (size_t n = 0; n < count; n++) printf(\"%s %f\\n\", words[n], sqrt((double)strlen(words[n])));\n}}\n"
        );
        fs::write(folder.join(format!("{name}.c")), text)?;
    }
    let declared: String = names.iter().map(|name| format!("void {name}(char **, size_t);\n")).collect();
    let called: String = names.iter().map(|name| format!("    {name}(argv, argc);\n")).collect();
    let main = format!(
        "#include <stddef.h>\n{declared}int main(int argc, char **argv)\n{{\n{called}    return 0;\n}}\n"
    );
    fs::write(folder.join("main.c"), main)?;
    let objects: String = names.iter().map(|name| format!(" {name}.o")).collect();
    let makefile = format!("CFLAGS = -O2 -Wall\nprogram: main.o{objects}\n\t$(CC) -o $@ $^ -lm\n");
    fs::write(folder.join("Makefile"), makefile)?;
    Ok(folder)
}

struct Bench {
    program: PathBuf,
    project: PathBuf,
    out: PathBuf,
}

impl Bench {
    fn run(&self, tracer: &Tracer) -> Result<Run> {
        let build = match tracer {
            Tracer::None | Tracer::Weir(_) => Some(self.build(tracer)?),
            Tracer::Peer(_) => None,
        };
        Ok(Run { main: self.main(tracer)?, build })
    }

    /// Milliseconds that the build takes, tracer and all.
    fn build(&self, tracer: &Tracer) -> Result<f64> {
        let mut command = tracer.command(Path::new("make"));
        let arguments = ["-s", "-B", "-C"];
        match tracer {
            Tracer::None => _ = command.args(arguments).arg(&self.project),
            _ => {
                let make = format!("make {} {}", arguments.join(" "), quoted(&self.project));
                command.args(["--follow", "-e", "uprobe:libc:malloc { @ = count(); }", "-o"]);
                command.arg(&self.out).args(["-c", &make]);
            }
        }
        let before = Instant::now();
        process::output_within(&mut command, RUN_LIMIT)?;
        let ms = before.elapsed().as_secs_f64() * 1e3;
        if *tracer != Tracer::None {
            let found = fs::read_to_string(&self.out)?;
            let count = found.lines().find_map(|line| line.strip_prefix("@: ")?.parse::<u64>().ok());
            ensure!(count.is_some_and(|count| count > 1_000 * FILES as u64), "calls of malloc: {found:?}");
        }
        Ok(ms)
    }

    /// Milliseconds from before the spawn to main.
    fn main(&self, tracer: &Tracer) -> Result<f64> {
        let script = format!("uprobe:{}:main {{ @ = count(); }}", quoted(&self.program));
        let mut command = tracer.command(&self.program);
        if *tracer != Tracer::None {
            command.arg("-o").arg(&self.out).args(["-e", &script, "-c", &tracer.word(&self.program)]);
        }
        let before = Duration::from(clock_gettime(ClockId::CLOCK_MONOTONIC)?);
        let output = process::output_within(&mut command, RUN_LIMIT)?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let in_main = text.lines().filter_map(|line| line.trim().parse::<u64>().ok()).next_back();
        let in_main = in_main.with_context(|| format!("no time in {text:?}"))?;
        if *tracer != Tracer::None {
            let found = fs::read_to_string(&self.out)?;
            ensure!(found.lines().any(|line| line == "@: 1"), "main was not counted once: {found:?}");
        }
        Ok((in_main as f64 - before.as_nanos() as f64) / 1e6)
    }
}
