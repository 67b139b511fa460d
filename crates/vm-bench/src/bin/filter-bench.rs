//! filter-bench: event filters on weir's engines and hard-coded, for `cargo xtask bench filter`.
//!
//! Prints lines of JSON (`report`): `event`, ns of one event's filter, without the empty filter's on the same side in the same round;
//! `run`, seconds of so many events; `build`, µs to make a filter; `memory`, bytes of it.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::Parser;
use testkit::cpu;

use vm_bench::filters::{self, COUNTS, Chain, DEEP, Lane, SUBJECTS, Sides};
use vm_bench::measure::{cpu_time, order};
use vm_bench::report;

#[derive(Parser, Debug)]
#[command(name = "filter-bench", disable_help_subcommand = true)]
struct Args {
    #[arg(long, default_value_t = 1)]
    rounds: usize,
    /// Events of a sample
    #[arg(long, default_value_t = 1_000_000)]
    events: u64,
    /// Runs of the chain of 50 of so many events, besides
    #[arg(long, value_delimiter = ',')]
    runs: Vec<u64>,
    /// Where C is compiled
    #[arg(long)]
    folder: PathBuf,
    /// The place in the order of sides at which the first round begins
    #[arg(long, default_value_t = 0)]
    turn: usize,
}

/// Times that each filter is built in a round.
const BUILDS: usize = 11;

fn main() -> ExitCode {
    match run(&Args::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("filter-bench: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(args: &Args) -> Result<()> {
    cpu::stay_on_this();
    let sides = Sides::of(filters::chains(), &args.folder)?;
    let mut samples: BTreeMap<(String, &str), Vec<f64>> = BTreeMap::new();
    for round in 0..args.rounds {
        for (name, subject, ns) in round_of(&sides, args, args.turn + round)? {
            samples.entry((name, subject)).or_default().push(ns);
        }
    }
    for ((name, subject), ns) in &samples {
        report::figure("event", subject, name, "ns", ns);
    }
    let longest = format!("and true {DEEP}");
    for events in &args.runs {
        let lane = sides.lanes.iter().find(|lane| lane.chain.name == longest).context("no such chain")?;
        for subject in SUBJECTS {
            let took = cpu_time(|| sides.run(lane, subject, *events))?;
            report::figure(
                "run",
                subject,
                &format!("{longest}, {events} events"),
                "s",
                &[took.as_secs_f64()],
            );
        }
    }
    let chains = filters::chains();
    for count in COUNTS {
        let name = format!("and true {count}");
        builds(chains.iter().find(|chain| chain.name == name).context("no such chain")?, count)?;
    }
    Ok(())
}

/// Net nanoseconds of each chain on each side.
fn round_of<'s>(sides: &Sides, args: &Args, turn: usize) -> Result<Vec<(String, &'s str, f64)>> {
    let sample = |lane: &Lane, subject: &str| -> Result<f64> {
        // Caches and predictors are warm, as for an event that comes often.
        sides.run(lane, subject, args.events / 20 + 1)?;
        let took = cpu_time(|| sides.run(lane, subject, args.events))?;
        Ok(took.as_nanos() as f64 / args.events as f64)
    };
    let order: Vec<&str> = order(turn, SUBJECTS.len()).into_iter().map(|place| SUBJECTS[place]).collect();
    let (empty, chains) = sides.lanes.split_first().context("no chains")?;
    let idle: BTreeMap<&str, f64> =
        order.iter().map(|subject| Ok((*subject, sample(empty, subject)?))).collect::<Result<_>>()?;
    let mut found = Vec::new();
    for lane in chains {
        for subject in &order {
            found.push((lane.chain.name.clone(), *subject, sample(lane, subject)? - idle[subject]));
        }
    }
    Ok(found)
}

fn builds(chain: &Chain, count: usize) -> Result<()> {
    let text = chain.text();
    let mut stages = Vec::new();
    let mut last = None;
    for _ in 0..BUILDS {
        let (built, took) = filters::build(&text)?;
        stages.push(took);
        last = Some(built);
    }
    let micros = |of: fn(&filters::Stages) -> std::time::Duration| -> Vec<f64> {
        stages.iter().map(|took| of(took).as_nanos() as f64 / 1e3).collect()
    };
    report::figure("build", "weir", &format!("tK {count}"), "µs", &micros(|took| took.sum()));
    report::figure("build", "weir", &format!("tK {count}: text to IR"), "µs", &micros(|took| took.front));
    report::figure("build", "weir", &format!("tK {count}: bytecode"), "µs", &micros(|took| took.codegen));
    report::figure("build", "weir", &format!("tK {count}: proof"), "µs", &micros(|took| took.verify));
    report::figure("build", "weir", &format!("tK {count}: machine code"), "µs", &micros(|took| took.jit));
    let built = last.context("no builds")?;
    let bytes = |what: &str, bytes: usize| {
        report::figure("memory", "weir", &format!("{what} {count}"), "B", &[bytes as f64]);
    };
    let bytecode = 8 * built.object.programs[0].insns.len();
    bytes("machine code", built.executable.code.len());
    bytes("bytecode", bytecode);
    let threaded = weir_interp::threaded::Threaded::of(&built.verified, &built.segment);
    let tables = threaded.map_or(0, |threaded| threaded.bytes());
    bytes("interpreter's tables", tables);
    bytes("machine code and bytecode", built.executable.code.len() + bytecode);
    Ok(())
}
