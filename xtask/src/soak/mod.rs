//! soak: one cycle, many times, each with its own seed; what was done is kept in docs/soak/NAME.json.
//!
//! A run goes on after the highest seed that the record has for this commit and machine, so that it can be
//! interrupted at any time; the record is rewritten after each cycle. A cycle that fails ends the run and is named
//! in the record with its seed, which `--seed` repeats.

mod brief;
mod functions;
mod kill;
mod nginx;
mod record;
mod redis;
mod scripts;
mod target;
mod test_program;

use std::path::PathBuf;
use std::thread::{self, ScopedJoinHandle};

use anyhow::{Context, Result, anyhow, ensure};
use clap::{Args, ValueEnum};
use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;

use crate::fuzz::{self, Fuzzers};
use crate::soak::record::{Counts, Record};
use crate::soak::scripts::Sides;
use crate::soak::test_program::{
    ATTACH, BUDGET, CLAIMS, DIFFERENTIAL, EMISSION, FILTER, LOADS, MAPS, PCAP, RECORD, RECORD_KILL,
    SESSION_KILL, STAMPS, STORMS, TestProgram, VERDICTS,
};
use crate::workspace;

#[derive(Args, Debug)]
pub(crate) struct Options {
    #[arg(value_enum)]
    name: Name,
    /// Cycles to run now; the full count of the bar if not given
    #[arg(long)]
    count: Option<u64>,
    /// Cycles at a time
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=64))]
    jobs: u64,
    /// Run this one seed, and record nothing
    #[arg(long)]
    seed: Option<u64>,
    /// Of `fuzz`: this reader, not all of them; as often as there are more
    #[arg(long = "target", value_name = "READER", value_parser = fuzz::TARGETS)]
    targets: Vec<String>,
    /// Of `scripts`: the bpftrace 0.23 to compare with, a command and its first arguments
    #[arg(long, value_name = "COMMAND")]
    reference: Option<String>,
    /// Use this weir instead of building one
    #[arg(long, value_name = "PROGRAM")]
    weir: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Name {
    /// Attach to and detach from a redis-server under load
    Redis,
    /// Kill weir at random moments; the next weir takes over
    Kill,
    /// Probe every function of bash, sqlite3, python3, redis-server, nginx and their libraries at once
    Functions,
    /// Feed every reader of hostile bytes; a cycle is 100,000 inputs for each
    Fuzz,
    /// Attach to and detach from 64 threads that are in the probed functions; a cycle is 1,000 times
    Attach,
    /// Load and unload probed libraries; a cycle is 1,000 times
    Loads,
    /// Record what a thousand processes emit that end at once, LTTng beside
    ShortLived,
    /// Record ten million events back to back, LTTng beside
    Bursts,
    /// Fork, start threads and execute programs faster than they can be probed; a cycle is 100 storms
    Storms,
    /// Kill processes that change maps of every kind; the maps are whole
    Maps,
    /// Record what threads, signal handlers and children emit; a cycle is 1,000,000 events
    Record,
    /// Kill weir, or what it records, at random moments; a cycle is 20 kills
    RecordKill,
    /// Kill the daemon of recording sessions at random moments; a cycle is 20 kills
    SessionKill,
    /// Keep a costly probe to a budget of 1 %, on an idle machine
    Budget,
    /// Compare interpreters and machine code; a cycle is 120,000 programs of four generators
    Differential,
    /// Run what random modules compile to beside an evaluator of theirs; a cycle is 2,000 modules
    Emission,
    /// Packet filters keep what libpcap's keep.
    Pcap,
    /// Capture in a DPDK application for 60 seconds, on an idle machine: times are the clock's
    Stamps,
    /// Hold runs against what the verifier claims; a cycle is 20,000 programs
    Claims,
    /// Compare the kernel's verdicts with weir's; a cycle is 20,000 programs of each of two generators
    Verdicts,
    /// Compare filters with a slow evaluator; a cycle is 200,000 cases of both dialects
    Filter,
    /// Compare random scripts with what bpftrace 0.23 does with them; a cycle is 50 scripts
    Scripts,
}

/// What a cycle is about.
enum Subject {
    Weir(PathBuf),
    /// weir and bpftrace.
    Sides(Sides),
    Fuzzers(Fuzzers),
    /// A test of a crate's own.
    Test(TestProgram),
}

/// How many cycles the project promises.
const REDIS_CYCLES: u64 = 50;
const KILL_CYCLES: u64 = 500;
/// Each probes 25,000 functions in five processes.
const FUNCTIONS_CYCLES: u64 = 5;
/// Of [`FUZZ_RUNS`] inputs each: 10⁷ for each reader.
const FUZZ_CYCLES: u64 = 100;
const FUZZ_RUNS: u64 = 100_000;
/// Of 1,000 times: 10⁵.
const ATTACH_CYCLES: u64 = 100;
/// Of 1,000 times: 10⁴.
const LOADS_CYCLES: u64 = 10;
/// Of 100 storms: 10³.
const STORMS_CYCLES: u64 = 10;
const MAPS_CYCLES: u64 = 1000;
const SHORT_LIVED_CYCLES: u64 = 10;
const BURSTS_CYCLES: u64 = 15;
/// Of 10⁶ events: 10⁸.
const RECORD_CYCLES: u64 = 100;
/// Of 20 kills: 1,000.
const RECORD_KILL_CYCLES: u64 = 50;
const SESSION_KILL_CYCLES: u64 = 50;
const BUDGET_CYCLES: u64 = 20;
/// Of 120,000 programs: 10⁷.
const DIFFERENTIAL_CYCLES: u64 = 84;
/// Of 2,000 modules: 10⁵.
const EMISSION_CYCLES: u64 = 50;
const PCAP_CYCLES: u64 = 10;
const STAMPS_CYCLES: u64 = 1;
/// Of 20,000 programs: 10⁷.
const CLAIMS_CYCLES: u64 = 500;
/// Of 40,000 programs: 10⁶.
const VERDICTS_CYCLES: u64 = 25;
/// Of 200,000 cases: 10⁷.
const FILTER_CYCLES: u64 = 50;
/// Of 50 scripts: 5,000.
const SCRIPTS_CYCLES: u64 = 100;

pub(crate) fn soak(options: &Options) -> Result<()> {
    let is_fuzz = matches!(options.name, Name::Fuzz);
    ensure!(is_fuzz || options.targets.is_empty(), "--target is of the soak fuzz");
    let subject = match options.name {
        Name::Fuzz => Subject::Fuzzers(Fuzzers::build(&options.targets)?),
        Name::Attach => Subject::Test(TestProgram::build(ATTACH)?),
        Name::Loads => Subject::Test(TestProgram::build(LOADS)?),
        Name::Storms => Subject::Test(TestProgram::build(STORMS)?),
        Name::Maps => Subject::Test(TestProgram::build(MAPS)?),
        Name::Record => Subject::Test(TestProgram::build(RECORD)?),
        Name::RecordKill => Subject::Test(TestProgram::build(RECORD_KILL)?),
        Name::SessionKill => Subject::Test(TestProgram::build(SESSION_KILL)?),
        Name::Budget => Subject::Test(TestProgram::build(BUDGET)?),
        Name::Differential => Subject::Test(TestProgram::build(DIFFERENTIAL)?),
        Name::Emission => Subject::Test(TestProgram::build(EMISSION)?),
        Name::Pcap => Subject::Test(TestProgram::build(PCAP)?),
        Name::Stamps => Subject::Test(TestProgram::build(STAMPS)?),
        Name::Claims => Subject::Test(TestProgram::build(CLAIMS)?),
        Name::Verdicts => Subject::Test(TestProgram::build(VERDICTS)?),
        Name::Filter => Subject::Test(TestProgram::build(FILTER)?),
        Name::Scripts => Subject::Sides(Sides::of(
            workspace::weir(options.weir.as_deref())?,
            options.reference.as_deref(),
        )?),
        Name::Redis | Name::Kill | Name::Functions | Name::ShortLived | Name::Bursts => {
            Subject::Weir(workspace::weir(options.weir.as_deref())?)
        }
    };
    let (name, full): (&str, u64) = match options.name {
        Name::Redis => ("redis", REDIS_CYCLES),
        Name::Kill => ("kill", KILL_CYCLES),
        Name::Functions => ("functions", FUNCTIONS_CYCLES),
        Name::Fuzz => ("fuzz", FUZZ_CYCLES),
        Name::Attach => ("attach", ATTACH_CYCLES),
        Name::Loads => ("loads", LOADS_CYCLES),
        Name::Storms => ("storms", STORMS_CYCLES),
        Name::ShortLived => ("short-lived", SHORT_LIVED_CYCLES),
        Name::Bursts => ("bursts", BURSTS_CYCLES),
        Name::Maps => ("maps", MAPS_CYCLES),
        Name::Record => ("record", RECORD_CYCLES),
        Name::RecordKill => ("record-kill", RECORD_KILL_CYCLES),
        Name::SessionKill => ("session-kill", SESSION_KILL_CYCLES),
        Name::Budget => ("budget", BUDGET_CYCLES),
        Name::Differential => ("differential", DIFFERENTIAL_CYCLES),
        Name::Emission => ("emission", EMISSION_CYCLES),
        Name::Pcap => ("pcap", PCAP_CYCLES),
        Name::Stamps => ("stamps", STAMPS_CYCLES),
        Name::Claims => ("claims", CLAIMS_CYCLES),
        Name::Verdicts => ("verdicts", VERDICTS_CYCLES),
        Name::Filter => ("filter", FILTER_CYCLES),
        Name::Scripts => ("scripts", SCRIPTS_CYCLES),
    };
    let cycle = |seed: u64| match &subject {
        Subject::Weir(weir) if matches!(options.name, Name::Redis) => {
            nothing_counted(redis::cycle(weir, seed))
        }
        Subject::Weir(weir) if matches!(options.name, Name::Functions) => functions::cycle(weir),
        Subject::Weir(weir) if matches!(options.name, Name::ShortLived) => brief::short_lived(weir),
        Subject::Weir(weir) if matches!(options.name, Name::Bursts) => brief::bursts(weir),
        Subject::Weir(weir) => nothing_counted(kill::cycle(weir, seed)),
        Subject::Fuzzers(fuzzers) => fed(fuzzers, seed),
        Subject::Sides(sides) => scripts::cycle(sides, seed),
        Subject::Test(test) => test.cycle(seed),
    };
    if let Some(seed) = options.seed {
        return cycle(seed).map(drop).with_context(|| format!("seed {seed}"));
    }
    let of_one_thread = matches!(
        options.name,
        Name::Differential
            | Name::Emission
            | Name::Claims
            | Name::Verdicts
            | Name::Filter
            | Name::Pcap
            | Name::Fuzz
    );
    let path = workspace::root().join("docs/soak").join(format!("{name}.json"));
    let mut record = Record::load(&path, &workspace::commit(), &workspace::machine())?;
    let first = record.next_seed();
    let last = first + options.count.unwrap_or(full.saturating_sub(record.cycles()));
    for from in (first..last).step_by(options.jobs as usize) {
        eprintln!("{name}: seed {from}, {} to go", last - from);
        let seeds: Vec<u64> = (from..last.min(from + options.jobs)).collect();
        let outcomes = at_a_time(&seeds, of_one_thread, &cycle);
        for (seed, outcome) in seeds.iter().zip(&outcomes) {
            record.add(*seed, outcome.as_ref().map_err(|error| format!("{error:#}")));
        }
        record.save(&path)?;
        for (seed, outcome) in seeds.iter().zip(outcomes) {
            outcome
                .with_context(|| format!("seed {seed}; to repeat: cargo xtask soak {name} --seed {seed}"))?;
        }
    }
    println!("{name}: {} of {full} cycles done, {} failed", record.cycles(), record.failures());
    Ok(())
}

/// How many inputs each reader was fed.
fn fed(fuzzers: &Fuzzers, seed: u64) -> Result<Counts> {
    let feed =
        |target: &String| Ok((target.clone(), fuzzers.run(target, seed, FUZZ_RUNS).map(|_| FUZZ_RUNS)?));
    fuzzers.targets().iter().map(feed).collect()
}

fn nothing_counted(outcome: Result<()>) -> Result<Counts> {
    outcome.map(|()| Counts::new())
}

/// Runs a cycle for each seed, all at once, those of one thread each on a CPU of its own as far as there are some:
/// tests that stay on the CPU where they begin would else share it.
fn at_a_time(
    seeds: &[u64],
    of_one_thread: bool,
    cycle: &(impl Fn(u64) -> Result<Counts> + Sync),
) -> Vec<Result<Counts>> {
    thread::scope(|scope| {
        let begin = |(job, seed): (usize, &u64)| {
            let seed = *seed;
            scope.spawn(move || {
                if seeds.len() > 1 && of_one_thread {
                    stay_on_cpu(job);
                }
                cycle(seed)
            })
        };
        let running: Vec<_> = seeds.iter().enumerate().map(begin).collect();
        let join = |running: ScopedJoinHandle<'_, Result<Counts>>| {
            running.join().unwrap_or_else(|_| Err(anyhow!("the cycle panicked")))
        };
        running.into_iter().map(join).collect()
    })
}

/// This thread, and what it starts, stays on one of the CPUs that it may use.
fn stay_on_cpu(job: usize) {
    let Ok(allowed) = sched_getaffinity(Pid::from_raw(0)) else { return };
    let cpus: Vec<usize> = (0..CpuSet::count()).filter(|cpu| allowed.is_set(*cpu).unwrap_or(false)).collect();
    let mut one = CpuSet::new();
    if !cpus.is_empty() && one.set(cpus[job % cpus.len()]).is_ok() {
        // Without it a soak takes longer, and finds the same.
        let _ = sched_setaffinity(Pid::from_raw(0), &one);
    }
}

/// Random numbers that depend on the seed alone (splitmix64).
#[derive(Clone, Debug)]
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % limit
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn random_depends_on_the_seed_alone() {
        let numbers = |seed| {
            let mut random = Random(seed);
            (0..100).map(|_| random.below(10)).collect::<Vec<u64>>()
        };
        assert_eq!(numbers(1), numbers(1));
        assert_ne!(numbers(1), numbers(2));
        assert!((0..10).all(|number| numbers(3).contains(&number)));
    }
}
