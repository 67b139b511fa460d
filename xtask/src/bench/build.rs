//! build: how long make of a small C project takes whose processes are all traced from their start.
//!
//! Sides: bare (twice) and weir, with malloc counted in every process (`--follow`): make, gcc's driver, cc1, as, collect2 and ld, each held where it
//! executes until it is probed. Beside [`FILES`] files there is one with main. bpftrace -c counts in all processes of the machine, and holds none.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use testkit::paths::quoted;

use crate::bench::Outcome;
use crate::bench::figures::{Figures, WEIR};
use crate::bench::plan::{BARE, Plan, Tracer};
use crate::bench::report::met;
use crate::bench::rounds::alternate;
use crate::{process, workspace};

const RUN_LIMIT: Duration = Duration::from_secs(60);
const CASE: &str = "make of a small C project";
/// What the project promises.
const RATIO_MAX: f64 = 1.3;
/// Files of the project.
const FILES: usize = 12;

pub(super) fn measure(plan: &Plan) -> Result<()> {
    let out = workspace::target_folder("bench")?.join(format!("build-{}.out", std::process::id()));
    let bench = Bench { project: project()?, out };
    let sides = plan.sides(&[]);
    alternate(plan, &sides, &mut |_, side| bench.run(&side.tracer), &|rounds| {
        let mut figures = Figures::default();
        for (side, ms) in rounds.with(&sides) {
            figures.add(side.subject, CASE, "ms", ms);
        }
        let median = |subject| figures.get(subject, CASE).map(|figure| figure.summary.median);
        let ratio = median(WEIR).zip(median(BARE)).map(|(traced, bare)| traced / bare);
        let bars = ratio.map(|ratio| {
            let verdict = met(ratio <= RATIO_MAX);
            format!("bar: at most {RATIO_MAX} times as long: {verdict}: {ratio:.3}")
        });
        let title = format!("A build with malloc counted in each of its processes, {} rounds", plan.rounds);
        Outcome { title, figures, bars: bars.into_iter().collect(), remarks: Vec::new() }
    })
}

struct Bench {
    project: PathBuf,
    out: PathBuf,
}

impl Bench {
    /// Milliseconds that the build takes, tracer and all.
    fn run(&self, tracer: &Tracer) -> Result<f64> {
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
