//! bench: weir beside its peers, alternately in one run.
//!
//! A bench takes at least 15 rounds; in each it runs every side once, in an order that turns round, so that drift of
//! the machine falls on all sides alike. One side, `bare`, runs twice (`bare` and `A/A`): a difference inside what
//! those two show of each other is no difference. Figures are medians with the 95 % interval of the order statistics.

mod attach;
mod chart;
mod figures;
mod filter;
mod lttng;
mod probe;
mod record;
mod servers;
mod startup;
mod statistics;
mod tracepoint;
mod uprobe;
mod view;
mod vm;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::{Args, ValueEnum};

use crate::bench::figures::Figures;
use crate::bench::servers::{
    Nginx, Page, Postgres, Redis, Server, Settings, commands_in_flight, commands_recorded,
};
use crate::workspace;

/// LIMIT: fewer rounds give no 95 % interval worth the name.
const ROUNDS_MIN: usize = 15;

#[derive(Args, Debug)]
pub(crate) struct Options {
    #[arg(value_enum)]
    name: Name,
    /// Rounds to run; 15 is the least
    #[arg(long, default_value_t = 21)]
    rounds: usize,
    /// Use this weir instead of building one
    #[arg(long, value_name = "PROGRAM")]
    weir: Option<PathBuf>,
    #[command(flatten)]
    vm: vm::VmOptions,
    #[command(flatten)]
    filter: filter::FilterOptions,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Name {
    /// What a probe costs, in a program that calls a function 10² to 10⁷ times a second
    Uprobe,
    /// What a hit of a probe costs, beside other tracers
    Probe,
    /// How long it takes to attach to 40,000 functions of a server, and what its clients notice
    Attach,
    /// What 50 counted functions cost PostgreSQL under pgbench; 30 rounds take half an hour
    Postgres,
    /// The same with the settings that PostgreSQL comes with: each transaction goes to the disk
    PostgresDefaults,
    /// What 50 counted functions cost nginx under wrk; 30 rounds take half an hour
    Nginx,
    /// The same, of pages that are compressed for each request, as Debian's configuration has it
    NginxPages,
    /// What it costs redis under redis-benchmark that every command is recorded; 21 rounds take 20 minutes
    RecordRedis,
    /// The same of a flight recorder, with a filter and an event that may ask for a snapshot
    FlightRedis,
    /// How long until main runs, with a probe on it
    Startup,
    /// What programs take on weir's engines and on others
    Vm,
    /// What a tracepoint costs that nobody traces, beside LTTng's and SystemTap's
    Tracepoint,
    /// PostgreSQL's own probes with a filter: counts beside the server's, and what it costs; 15 rounds take 35 minutes
    Usdt,
    /// What an event costs that is recorded, beside LTTng's; 15 rounds take a quarter of an hour
    Record,
    /// What an event's filter costs, beside LTTng's and a hard-coded one; 21 rounds take a quarter of an hour
    Filter,
    /// What it takes to read and to print a trace, beside babeltrace2; 21 rounds take a quarter of an hour
    View,
}

pub(crate) fn bench(options: &Options) -> Result<()> {
    let rounds = options.rounds;
    anyhow::ensure!(rounds >= ROUNDS_MIN, "--rounds {rounds}: {ROUNDS_MIN} is the least");
    let is_vm = matches!(options.name, Name::Vm);
    anyhow::ensure!(
        is_vm || options.vm.is_default(),
        "--quick, --only, --subject, --asm and --ebpf are vm's"
    );
    let is_filter = matches!(options.name, Name::Filter);
    anyhow::ensure!(is_filter || options.filter.is_default(), "--events is filter's");
    if options.vm.prints_code() {
        return vm::print_code(&options.vm);
    }
    let weir = || workspace::weir(options.weir.as_deref());
    let (name, outcome) = match options.name {
        Name::Uprobe => ("uprobe", uprobe::measure(weir()?, rounds)?),
        Name::Probe => ("probe", probe::measure(weir()?, rounds)?),
        Name::Attach => ("attach", attach::measure(weir()?, rounds)?),
        Name::Postgres => {
            ("postgres", count_functions(&weir()?, rounds, &Postgres::start(Settings::Unsynced)?)?)
        }
        Name::PostgresDefaults => {
            ("postgres-defaults", count_functions(&weir()?, rounds, &Postgres::start(Settings::Defaults)?)?)
        }
        Name::Nginx => ("nginx", count_functions(&weir()?, rounds, &Nginx::start(Page::Small)?)?),
        Name::NginxPages => {
            ("nginx-pages", count_functions(&weir()?, rounds, &Nginx::start(Page::Compressed)?)?)
        }
        Name::RecordRedis => {
            let redis = Redis::start()?;
            ("record-redis", servers::measure(&weir()?, rounds, &redis, &commands_recorded(&redis))?)
        }
        Name::FlightRedis => {
            let redis = Redis::start()?;
            ("flight-redis", servers::measure(&weir()?, rounds, &redis, &commands_in_flight(&redis))?)
        }
        Name::Startup => ("startup", startup::measure(weir()?, rounds)?),
        Name::Vm => ("vm", vm::measure(&options.vm, rounds)?),
        Name::Tracepoint => ("tracepoint", tracepoint::measure(rounds)?),
        Name::Usdt => {
            ("usdt", servers::measure_usdt(&weir()?, rounds, &Postgres::start(Settings::Unsynced)?)?)
        }
        Name::Record => ("record", record::measure(weir()?, rounds)?),
        Name::Filter => ("filter", filter::measure(&options.filter, rounds)?),
        Name::View => ("view", view::measure(weir()?, rounds)?),
    };
    let folder = workspace::target_folder("bench")?;
    let json = folder.join(format!("{name}.json"));
    fs::write(&json, outcome.figures.to_json())
        .with_context(|| format!("cannot write {}", json.display()))?;
    let svg = folder.join(format!("{name}.svg"));
    fs::write(&svg, chart::svg(&outcome.title, &outcome.figures))
        .with_context(|| format!("cannot write {}", svg.display()))?;
    let plots: Option<Plots> = match options.name {
        Name::Filter => Some(filter::plots),
        Name::Record => Some(filter::recorded_plots),
        _ => None,
    };
    let value: serde_json::Value = serde_json::from_str(&outcome.figures.to_json())?;
    for (name, picture) in plots.map(|plots| plots(&value)).unwrap_or_default() {
        let path = folder.join(format!("{name}.svg"));
        fs::write(&path, picture).with_context(|| format!("cannot write {}", path.display()))?;
        println!("{}", path.display());
    }
    print!("{}", outcome.figures.table());
    for line in &outcome.remarks {
        println!("{line}");
    }
    println!("{}, commit {}", workspace::machine(), workspace::commit());
    println!("{}\n{}", json.display(), svg.display());
    Ok(())
}

fn count_functions(weir: &Path, rounds: usize, server: &dyn Server) -> Result<Outcome> {
    servers::measure(weir, rounds, server, &servers::functions_counted(server))
}

/// Names and texts of pictures of a bench's JSON.
type Plots = fn(&serde_json::Value) -> Vec<(&'static str, String)>;

/// What a bench found.
#[derive(Debug)]
struct Outcome {
    title: String,
    figures: Figures,
    /// Bars met or not, losses of counts, and the like.
    remarks: Vec<String>,
}

/// Runs every side once a round; the order turns round from one to the next. Progress goes to standard error.
fn alternate(rounds: usize, sides: &[&str], run: &mut dyn FnMut(&str) -> Result<()>) -> Result<()> {
    for round in 0..rounds {
        eprintln!("round {} of {rounds}", round + 1);
        for side in order(round, sides) {
            run(side).with_context(|| format!("{side}, round {}", round + 1))?;
        }
    }
    Ok(())
}

/// Rotated by one each round, and every other round backwards.
fn order<'s>(round: usize, sides: &[&'s str]) -> Vec<&'s str> {
    let mut order: Vec<&str> = sides.to_vec();
    let turn = round / 2 % sides.len().max(1);
    order.rotate_left(turn);
    if round % 2 == 1 {
        order.reverse();
    }
    order
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_side_stands_at_every_place_equally_often() {
        let sides = ["a", "b", "c"];
        for place in 0..3 {
            for side in sides {
                let times = (0..6).filter(|round| order(*round, &sides)[place] == side).count();
                assert_eq!(times, 2, "{side} at {place}");
            }
        }
    }
}
