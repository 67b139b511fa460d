//! vm-bench: runs the programs of `tests/vm` on every engine and prints what each took, or prints code.
//!
//! Run by `cargo xtask bench vm`, in a release build with the feature `peers`. Lines of JSON go to standard output,
//! progress to standard error. The answers of all engines are compared before anything is timed.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use clap::Parser;
use testkit::cpu;

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
    // Memory of another CPU's cache is no part of what is measured, and lanes of a CPU's own stay one.
    cpu::stay_on_this();
    let kinds: Vec<&Kind> = match args.subject.is_empty() {
        true => KINDS.iter().collect(),
        false => args.subject.iter().map(|name| sides::kind(name)).collect::<Result<_>>()?,
    };
    let names = if args.only.is_empty() { program::names()? } else { args.only.clone() };
    let of = |group: Group| names.iter().map(String::as_str).filter(move |name| Group::of(name) == group);
    let programs = compiled(EMPTY, of(Group::Program))?;
    let operations = compiled(LOOP, of(Group::Operation))?;
    let with_maps: Vec<&Kind> = kinds.iter().copied().filter(|kind| kind.has_maps).collect();
    let mut sets = Vec::new();
    sets.extend(set(args, "program", &programs, &kinds, 1)?);
    sets.extend(set(args, "operation", &operations, &with_maps, OPERATIONS)?);
    let translated = of(Group::Program).chain(of(Group::Large)).filter(|name| *name != EMPTY);
    let mut translated: Vec<Program> = match kinds[0].name == KINDS[0].name {
        true => translated.map(program::compile).collect::<Result<_>>()?,
        false => Vec::new(),
    };
    for round in 0..args.rounds {
        for set in &mut sets {
            eprintln!("{}s: round {} of {}", set.group, round + 1, args.rounds);
            report::print(set.group, &measure(&mut set.empty, &mut set.cases, round)?, set.count);
        }
        translations(round, &mut translated)?;
        report::round(round);
    }
    Ok(())
}

/// The empty program and those that have a case, or nothing if none has.
fn compiled<'n>(empty: &str, names: impl Iterator<Item = &'n str>) -> Result<Vec<Program>> {
    let names: Vec<&str> = names.filter(|name| *name != empty).collect();
    let all = if names.is_empty() { names } else { [vec![empty], names].concat() };
    all.into_iter().map(program::compile).collect()
}

/// Programs that are timed on each engine.
struct Set<'p> {
    group: &'static str,
    /// Is subtracted.
    empty: Case<'p>,
    cases: Vec<Case<'p>>,
    /// A run does so many of what is reported.
    count: u32,
}

/// Of programs, the first of which is the empty one; none of none.
fn set<'p>(
    args: &Args,
    group: &'static str,
    programs: &'p [Program],
    kinds: &[&Kind],
    count: u32,
) -> Result<Option<Set<'p>>> {
    let Some((empty, programs)) = programs.split_first() else { return Ok(None) };
    let batch = if args.quick { BATCH_QUICK } else { BATCH };
    let case = |program| case(program, &empty.name, kinds, batch);
    Ok(Some(Set {
        group,
        empty: case(empty)?,
        cases: programs.iter().map(case).collect::<Result<_>>()?,
        count,
    }))
}

/// Times what it takes to verify and to compile programs. The first round finds out which cannot be, and takes them away.
fn translations(round: usize, programs: &mut Vec<Program>) -> Result<()> {
    let mut failed = Vec::new();
    for program in &*programs {
        let name = &program.name;
        let (verify, compile) = match translate::sample(program) {
            Ok(sample) => sample,
            Err(error) if round == 0 => {
                report::missing("weir", &format!("translate {name}"), &format!("{error:#}"));
                failed.push(name.clone());
                continue;
            }
            Err(error) => return Err(error),
        };
        let insns = program.object.object.programs[0].insns.len();
        let case = |what: &str| format!("{what} {name}, {insns} instructions");
        report::figure("translation", "weir", &case("translate"), "ms/1,000", &[verify + compile]);
        report::figure("translation", "weir", &case("compile"), "ms/1,000", &[compile]);
    }
    programs.retain(|program| !failed.contains(&program.name));
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
