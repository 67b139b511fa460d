//! vm-bench: runs the programs of `tests/vm` on every engine and prints what each took, or prints code.
//!
//! Run by `cargo xtask bench vm`, in a release build with the feature `peers`. Lines of JSON go to standard output,
//! progress to standard error. The answers of all engines are compared before anything is timed.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use clap::Parser;
use nix::sched::{CpuSet, sched_getcpu, sched_setaffinity};
use nix::unistd::Pid;

use vm_bench::limits::{BATCH, BATCH_QUICK};
use vm_bench::measure::{Case, Lane, measure};
use vm_bench::program::{self, EMPTY, Group, LOOP, OPERATIONS, Program};
use vm_bench::report;
use vm_bench::sides::{self, Jit, KINDS, Kind};
use vm_bench::translate;

#[derive(Parser, Debug)]
#[command(name = "vm-bench", disable_help_subcommand = true)]
struct Args {
    #[arg(long, default_value_t = 21)]
    rounds: usize,
    /// Shorter batches
    #[arg(long)]
    quick: bool,
    /// Programs to run; all, if none is given
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// Engines to run on; all, if none is given
    #[arg(long, value_delimiter = ',')]
    subject: Vec<String>,
    /// Print the JIT's code of a program, and measure nothing
    #[arg(long, value_name = "PROGRAM")]
    asm: Option<String>,
    /// Print the bytecode of a program as weir and the kernel get it, and measure nothing
    #[arg(long, value_name = "PROGRAM")]
    ebpf: Option<String>,
}

fn main() -> ExitCode {
    match run(&Args::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("vm-bench: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(args: &Args) -> Result<()> {
    if let Some(name) = &args.asm {
        print!("{}", Jit::disassembly(&program::compile(name)?)?);
        return Ok(());
    }
    if let Some(name) = &args.ebpf {
        print!("{}", weir_ebpf::asm::print(&program::compile(name)?.object.object));
        return Ok(());
    }
    stay_on_this_cpu()?;
    let kinds: Vec<&Kind> = match args.subject.is_empty() {
        true => KINDS.iter().collect(),
        false => args.subject.iter().map(|name| sides::kind(name)).collect::<Result<_>>()?,
    };
    let names = if args.only.is_empty() { program::names()? } else { args.only.clone() };
    let of = |group: Group| names.iter().filter(move |name| Group::of(name) == group);
    runs(args, "program", EMPTY, of(Group::Program), &kinds, 1)?;
    let with_maps: Vec<&Kind> = kinds.iter().copied().filter(|kind| kind.has_maps).collect();
    runs(args, "operation", LOOP, of(Group::Operation), &with_maps, OPERATIONS)?;
    let translated = of(Group::Program).chain(of(Group::Large));
    if kinds[0].name == KINDS[0].name { translations(args, translated) } else { Ok(()) }
}

/// Times programs on each engine; `empty` is subtracted, and a run does `count` of what is reported.
fn runs<'n>(
    args: &Args,
    group: &str,
    empty: &str,
    names: impl Iterator<Item = &'n String>,
    kinds: &[&Kind],
    count: u32,
) -> Result<()> {
    let names: Vec<&str> = names.map(String::as_str).filter(|name| *name != empty).collect();
    if names.is_empty() {
        return Ok(());
    }
    let programs: Vec<Program> =
        std::iter::once(empty).chain(names).map(program::compile).collect::<Result<_>>()?;
    let batch = if args.quick { BATCH_QUICK } else { BATCH };
    let mut cases = programs
        .iter()
        .map(|program| case(program, empty, kinds, batch))
        .collect::<Result<Vec<Case<'_>>>>()?;
    let mut empty = cases.remove(0);
    let progress = &mut |round: usize| eprintln!("{group}s: round {} of {}", round + 1, args.rounds);
    report::print(group, &measure(&mut empty, &mut cases, args.rounds, progress)?, count);
    Ok(())
}

/// Times what it takes to verify and to compile programs.
fn translations<'n>(args: &Args, names: impl Iterator<Item = &'n String>) -> Result<()> {
    for name in names.filter(|name| *name != EMPTY) {
        let program = program::compile(name)?;
        let insns = program.object.object.programs[0].insns.len();
        let mut samples = (0..args.rounds).map(|_| translate::sample(&program));
        let samples: Vec<(f64, f64)> = match samples.next() {
            Some(Err(error)) => {
                report::missing("weir", &format!("translate {name}"), &format!("{error:#}"));
                continue;
            }
            first => first.into_iter().chain(samples).collect::<Result<_>>()?,
        };
        let both: Vec<f64> = samples.iter().map(|(verify, compile)| verify + compile).collect();
        let to_compile: Vec<f64> = samples.iter().map(|(_, compile)| *compile).collect();
        let case = |what: &str| format!("{what} {name}, {insns} instructions");
        report::figure("translation", "weir", &case("translate"), "ms/1,000", &both);
        report::figure("translation", "weir", &case("compile"), "ms/1,000", &to_compile);
    }
    Ok(())
}

/// The lanes of a program on each engine that can run it, after a comparison of what they answer.
fn case<'p>(program: &'p Program, empty: &str, kinds: &[&Kind], batch: Duration) -> Result<Case<'p>> {
    let mut lanes = Vec::new();
    let mut expected: Option<(&str, u32)> = None;
    for kind in kinds {
        let mut side = match (kind.make)(program) {
            Ok(side) => side,
            Err(error) if program.name != empty => {
                report::missing(kind.name, &program.name, &format!("{error:#}"));
                continue;
            }
            Err(error) => return Err(error).context(format!("{} on {}", program.name, kind.name)),
        };
        // Twice: a program must not depend on what an earlier run left.
        for times in [1, 2] {
            let answer = side.run(times).with_context(|| format!("{} on {}", program.name, kind.name))?;
            let (first, expected) = *expected.get_or_insert((kind.name, answer));
            ensure!(
                answer == expected,
                "{}: {} answers {answer:#x}, {first} {expected:#x}",
                program.name,
                kind.name
            );
        }
        lanes.push(Lane::new(kind.name, side, batch)?);
    }
    Ok(Case { name: program.name.clone(), lanes })
}

/// Memory of another CPU's cache is no part of what is measured, and lanes of a CPU's own stay one.
fn stay_on_this_cpu() -> Result<()> {
    let mut set = CpuSet::new();
    set.set(sched_getcpu()?)?;
    sched_setaffinity(Pid::from_raw(0), &set).context("sched_setaffinity")
}
