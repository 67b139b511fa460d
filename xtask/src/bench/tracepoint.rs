//! tracepoint: what a tracepoint costs that nobody traces.
//!
//! A loop whose turn is a tracepoint with one number, or eight of them in a row, less the same loop without: weir's header for C and
//! LTTng-UST's tracepoint and SystemTap's `<sys/sdt.h>` in `tests/programs/off.c` (gcc -O2), weir's macro for Rust in
//! `crates/weir-tracepoint/examples/off.rs` (release). SystemTap's is there twice: guarded by its semaphore, as `dtrace -h` writes
//! it, and unguarded, a nop, whose arguments are evaluated always.
//!
//! Instructions are those that callgrind counts in the loop's function, by the slope over two numbers of turns: exact, and the
//! same in each run. Nanoseconds are CPU time, on one CPU, less the empty loop of the same language in the same round. They depend
//! on what stands around: a turn of a loop that only counts takes a cycle, in which there is room for more instructions.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use crate::bench::Outcome;
use crate::bench::figures::{Figure, Figures, WEIR, rounded};
use crate::bench::plan::{AGAIN, Plan};
use crate::bench::report::met;
use crate::bench::rounds::{Rounds, alternate};
use crate::bench::servers::usage;
use crate::{process, workspace};

const EMPTY: &str = "empty loop";
const EMPTY_RUST: &str = "empty loop, Rust";
const RUST: &str = "weir, Rust";
const LTTNG: &str = "lttng";
const SDT_GUARDED: &str = "sdt, guarded";
const SDT: &str = "sdt, unguarded";

/// In C: side, its macro in off.c, what the linker is given, the package it needs.
const IN_C: [(&str, &str, &[&str], &str); 5] = [
    (EMPTY, "EMPTY", &[], "gcc"),
    (WEIR, "WEIR", &[], "gcc"),
    (LTTNG, "LTTNG", &["-llttng-ust", "-ldl"], "liblttng-ust-dev"),
    (SDT_GUARDED, "SDT_GUARDED", &[], "systemtap-sdt-dev"),
    (SDT, "SDT", &[], "systemtap-sdt-dev"),
];
const IN_RUST: [(&str, &str); 2] = [(EMPTY_RUST, "empty"), (RUST, "weir")];

/// Tracepoints of a turn.
const SITES: [u32; 2] = [1, 8];
/// Of a timed run of so many tracepoints: about a quarter of a second.
const TRACEPOINTS: u64 = 400_000_000;
/// What callgrind sees.
const COUNTED: [u64; 2] = [10_000, 110_000];
/// LIMIT: compiling, and a run.
const LIMIT: Duration = Duration::from_secs(120);

/// What the project promises.
const INSTRUCTIONS_MAX: f64 = 2.0;

/// A program that can be run for so many turns.
#[derive(Clone)]
struct Side {
    name: &'static str,
    sites: u32,
    program: PathBuf,
    arguments: Vec<String>,
}

pub(super) fn measure(plan: &Plan) -> Result<()> {
    let mut exact = Figures::default();
    let mut sides = in_rust()?;
    for (name, side, libraries, package) in IN_C {
        match in_c(side, libraries) {
            Ok(programs) => sides.extend(programs.into_iter().map(|(sites, program)| Side {
                name,
                sites,
                program,
                arguments: Vec::new(),
            })),
            Err(error) if matches!(name, EMPTY | WEIR) => return Err(error),
            Err(error) => {
                eprintln!("{name} is not there: {error:#}");
                exact.missing.push(format!("{name}: apt-get install {package}"));
            }
        }
    }
    match process::find_program("valgrind") {
        Some(_) => count_instructions(&sides, &mut exact)?,
        None => exact.missing.push("callgrind: apt-get install valgrind".to_owned()),
    }
    let [cpu, _] = usage::cpus()?;
    usage::pin(std::process::id() as i32, cpu)?;
    let again = sides.iter().filter(|side| side.name == EMPTY);
    let again: Vec<Side> = again.map(|side| Side { name: AGAIN, ..side.clone() }).collect();
    sides.extend(again);
    alternate(plan, &sides, &mut |_, side| side.time(), &|rounds| {
        let mut figures = exact.clone();
        add_times(&mut figures, &sides, rounds);
        let bars = bars(&figures);
        let rounds = plan.rounds;
        let title = format!("A tracepoint that nobody traces, {rounds} rounds of {TRACEPOINTS} tracepoints");
        Outcome { title, figures, bars, remarks: Vec::new() }
    })
}

/// Compiles a side of off.c: the programs by their number of sites.
fn in_c(side: &str, libraries: &[&str]) -> Result<Vec<(u32, PathBuf)>> {
    let source = workspace::root().join("tests/programs/off.c");
    let compile = |sites: u32| {
        let name = format!("off_{}_{sites}", side.to_lowercase());
        let program = workspace::target_folder("programs")?.join(name);
        let mut command = Command::new("gcc");
        command.args(["-O2", &format!("-D{side}"), &format!("-DSITES={sites}"), "-o"]).arg(&program);
        // provider.h includes itself by this path.
        command.arg("-I").arg(workspace::root().join("tests/lttng")).arg(&source).args(libraries);
        process::output_within(&mut command, LIMIT)?;
        Ok((sites, program))
    };
    SITES.into_iter().map(compile).collect()
}

fn in_rust() -> Result<Vec<Side>> {
    let built = workspace::build("release", &["--package", "weir-tracepoint", "--example", "off"])?;
    let program = built.join("examples/off");
    let side = |sites: u32| {
        IN_RUST.map(|(name, word)| Side {
            name,
            sites,
            program: program.clone(),
            arguments: vec![word.to_owned(), sites.to_string()],
        })
    };
    Ok(SITES.into_iter().flat_map(side).collect())
}

impl fmt::Display for Side {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&case(self.name, self.sites))
    }
}

impl Side {
    fn run(&self, wrapper: &mut Command, turns: u64) -> Result<String> {
        wrapper.args(&self.arguments).arg(turns.to_string());
        // No session daemon that there may be is waited for.
        wrapper.env("LTTNG_UST_REGISTER_TIMEOUT", "0");
        let output = process::output_within(wrapper, LIMIT)?;
        Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    }

    /// Nanoseconds of a turn.
    fn time(&self) -> Result<f64> {
        let text = self.run(&mut Command::new(&self.program), TRACEPOINTS / u64::from(self.sites))?;
        text.parse().with_context(|| format!("it printed {text:?}"))
    }

    /// Instructions of so many turns.
    fn instructions(&self, turns: u64) -> Result<u64> {
        let out = workspace::target_folder("bench")?.join("callgrind.out");
        let mut valgrind = Command::new("valgrind");
        valgrind.args(["--tool=callgrind", "--toggle-collect=*turns*"]);
        valgrind.arg(format!("--callgrind-out-file={}", out.display())).arg(&self.program);
        self.run(&mut valgrind, turns)?;
        let text = fs::read_to_string(&out).with_context(|| format!("no {}", out.display()))?;
        fs::remove_file(&out)?;
        total(&text).with_context(|| format!("no total in {}", out.display()))
    }
}

/// The sum in what callgrind writes.
fn total(out: &str) -> Option<u64> {
    out.lines().find_map(|line| line.strip_prefix("totals:"))?.trim().parse().ok()
}

/// The side that is subtracted.
fn empty_of(name: &str) -> &'static str {
    if matches!(name, RUST | EMPTY_RUST) { EMPTY_RUST } else { EMPTY }
}

fn case(what: &str, sites: u32) -> String {
    match sites {
        1 => format!("{what}, one in a loop"),
        _ => format!("{what}, {sites} in a row"),
    }
}

const INSTRUCTIONS: &str = "instructions";
const NS: &str = "time";

fn count_instructions(sides: &[Side], figures: &mut Figures) -> Result<()> {
    eprintln!("counting instructions");
    let mut turns = BTreeMap::new();
    for side in sides {
        let count = |turns| side.instructions(turns).with_context(|| side.name);
        let [few, many] = COUNTED;
        let (low, high) = (count(few)?, count(many)?);
        ensure!(high > low, "{}: {high} instructions of {many} turns, {low} of {few}", side.name);
        turns.insert((side.name, side.sites), (high - low) as f64 / (many - few) as f64);
    }
    for (&(name, sites), of_turn) in &turns {
        figures.add(name, &case("instructions of a turn", sites), "", &[*of_turn]);
        if name != empty_of(name) {
            let of_one = (of_turn - turns[&(empty_of(name), sites)]) / f64::from(sites);
            figures.add(name, &case(INSTRUCTIONS, sites), "", &[of_one]);
        }
    }
    Ok(())
}

fn add_times(figures: &mut Figures, sides: &[Side], rounds: &Rounds<f64>) {
    let turns: BTreeMap<(&str, u32), &[f64]> =
        rounds.with(sides).map(|(side, turns)| ((side.name, side.sites), turns)).collect();
    for (&(name, sites), of_turn) in &turns {
        figures.add(name, &case("time of a turn", sites), "ns", of_turn);
        if name != empty_of(name) {
            let of_one = of_turn.iter().zip(turns[&(empty_of(name), sites)]);
            let of_one: Vec<f64> = of_one.map(|(turn, empty)| (turn - empty) / f64::from(sites)).collect();
            figures.add(name, &case(NS, sites), "ns", &of_one);
        }
    }
}

fn bars(figures: &Figures) -> Vec<String> {
    let mut bars = Vec::new();
    for name in [WEIR, RUST] {
        for sites in SITES {
            let found = |what: &str, name: &str| figures.get(name, &case(what, sites));
            if let Some(instructions) = found(INSTRUCTIONS, name) {
                let median = instructions.summary.median;
                bars.push(format!(
                    "bar: {name}: {}: at most {INSTRUCTIONS_MAX}: {}: {}",
                    case(INSTRUCTIONS, sites),
                    met(median <= INSTRUCTIONS_MAX),
                    rounded(median)
                ));
            }
            for what in [INSTRUCTIONS, NS] {
                let (Some(own), Some(lttng)) = (found(what, name), found(what, LTTNG)) else { continue };
                bars.push(format!(
                    "bar: {name}: {}: at most LTTng's: {}: {} and {}",
                    case(what, sites),
                    at_most(own, lttng, found(what, AGAIN)),
                    rounded(own.summary.median),
                    rounded(lttng.summary.median)
                ));
            }
        }
    }
    bars
}

/// A difference within what the same loop shows of itself is none.
fn at_most(own: &Figure, peer: &Figure, again: Option<&Figure>) -> &'static str {
    let difference = own.summary.median - peer.summary.median;
    let noise = again.map_or(0.0, |again| again.summary.high - again.summary.low);
    match () {
        () if difference <= 0.0 => "met",
        () if difference <= noise => "not decidable, the difference is within A/A",
        () => "NOT met",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_total_is_read_from_callgrinds_file() {
        let out = "version: 1\ncreator: callgrind-3.19.0\nevents: Ir\nsummary: 7\n\nfn=(1) turns\n41 300\ntotals: 440000\n";
        assert_eq!(total(out), Some(440_000));
        assert_eq!(total("version: 1\n"), None);
    }

    fn figures(weir: f64, lttng: f64, again: [f64; 2]) -> Figures {
        let mut figures = Figures::default();
        figures.add(WEIR, &case(NS, 1), "ns", &[weir]);
        figures.add(LTTNG, &case(NS, 1), "ns", &[lttng]);
        figures.add(AGAIN, &case(NS, 1), "ns", &again);
        figures
    }

    #[test]
    fn a_difference_within_the_loops_own_is_none() {
        let bar = |weir, lttng| bars(&figures(weir, lttng, [-0.02, 0.03])).join("\n");
        assert!(bar(0.20, 0.23).contains("at most LTTng's: met: 0.200 and 0.230"));
        assert!(bar(0.25, 0.23).contains("not decidable"));
        assert!(bar(0.35, 0.23).contains("NOT met"));
    }

    #[test]
    fn instructions_have_a_bar_of_their_own() {
        let mut figures = Figures::default();
        figures.add(WEIR, &case(INSTRUCTIONS, 8), "", &[2.125]);
        let bars = bars(&figures);
        assert_eq!(bars, ["bar: weir: instructions, 8 in a row: at most 2: NOT met: 2.125"]);
    }
}
