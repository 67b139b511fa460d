//! bench: weir beside its peers, or beside another weir, alternately in one run.
//!
//! A bench takes at least 15 rounds; in each it runs every side once, in an order that turns round, so that drift of
//! the machine falls on all sides alike. One side, `bare`, runs twice (`bare` and `A/A`): a difference inside what
//! those two show of each other is no difference. Figures are medians with the 95 % interval of the order statistics.
//!
//! ```text
//! plan      which weirs, beside whom, for how long
//! a bench   its sides, one run of a side, and figures of any number of rounds
//! rounds    every side once a round; after each, the figures so far are kept
//! report    figures as text and files, which the supervisor prints and writes however the bench ended
//! ```
//!
//! With `--against PROGRAM` a bench runs its own sides for both weirs and no peers, and [`against`] compares them.

mod against;
mod attach;
mod build;
mod chart;
mod dpdk;
mod figures;
mod filter;
mod kernel;
mod pcap;
mod plan;
mod probe;
mod record;
mod report;
mod rounds;
mod samples;
mod script;
mod servers;
mod shared;
mod startup;
mod statistics;
mod svg;
mod tracepoint;
mod uprobe;
mod view;
mod vm;

use std::path::PathBuf;

use anyhow::{Result, bail, ensure};
use clap::{Args, ValueEnum};

use crate::bench::figures::Figures;
use crate::bench::plan::{Form, Plan, Weir};
use crate::bench::servers::{
    Nginx, Page, Postgres, Redis, Server, Settings, commands_in_flight, commands_recorded,
};
use crate::supervise::Results;
use crate::workspace;

/// LIMIT: fewer rounds give no 95 % interval worth the name.
const ROUNDS_MIN: usize = 15;
const ROUNDS: usize = 21;
/// Below target/: what is written.
const FOLDER: &str = "bench";

#[derive(Args, Debug)]
pub(crate) struct Options {
    #[arg(value_enum)]
    name: Name,
    /// Rounds to run; 15 is the least [default: 21, and 15 with --against]
    #[arg(long)]
    rounds: Option<usize>,
    /// Use this weir instead of building one
    #[arg(long, value_name = "PROGRAM")]
    weir: Option<PathBuf>,
    /// Compare weir with this other weir, without peers, in at most ten minutes; writes NAME-against.json
    #[arg(long, value_name = "PROGRAM")]
    against: Option<PathBuf>,
    /// One round of as little as can be measured, without peers, to see that the bench runs; writes NAME-smoke.json
    #[arg(long, hide = true, conflicts_with_all = ["against", "rounds"])]
    smoke: bool,
    #[command(flatten)]
    vm: vm::VmOptions,
    #[command(flatten)]
    filter: filter::FilterOptions,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
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
    /// What clauses of scripts cost a hit, and how long scripts take to compile, beside bpftrace
    Script,
    /// How long until main runs, with a probe on it
    Startup,
    /// What a hit costs in the kernel, and how long until programs are armed there, beside bpftrace; 21 rounds take a quarter of an hour
    Kernel,
    /// What an access costs to a map that processes and the kernel see, from either side, beside a map of that side alone
    Shared,
    /// How long make of a small C project takes, with each of its processes traced from its start
    Build,
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
    /// What packet filters cost, beside libpcap's interpreter and the kernel; 21 rounds take a quarter of an hour
    Pcap,
    /// What it takes to read and to print a trace, beside babeltrace2; 21 rounds take a quarter of an hour
    View,
    /// What capturing in a DPDK application costs it, beside dpdk-dumpcap and bpftrace; 15 rounds take twelve minutes
    Dpdk,
}

impl Name {
    /// What is measured by a bench that runs no `weir`.
    fn without_weir(self) -> Option<&'static str> {
        match self {
            Name::Vm => Some("the engines, built into the program vm-bench"),
            Name::Filter => Some("filters, built into the program filter-bench"),
            Name::Pcap => Some("packet filters, built into the program pcap-bench"),
            Name::Dpdk => Some("libweir_dpdk.so of this tree, and its weir beside it"),
            Name::Tracepoint => Some(
                "include/weir/tracepoint.h and the crate weir-tracepoint, built into programs of its own",
            ),
            _ => None,
        }
    }
}

pub(crate) fn bench(options: &Options) -> Result<()> {
    if options.vm.prints_code() {
        return vm::print_code(&options.vm);
    }
    let plan = &plan(options)?;
    match options.name {
        Name::Uprobe => uprobe::measure(plan),
        Name::Probe => probe::measure(plan),
        Name::Attach => attach::measure(plan),
        Name::Postgres => count_functions(plan, &Postgres::start(Settings::Unsynced)?),
        Name::PostgresDefaults => count_functions(plan, &Postgres::start(Settings::Defaults)?),
        Name::Nginx => count_functions(plan, &Nginx::start(Page::Small)?),
        Name::NginxPages => count_functions(plan, &Nginx::start(Page::Compressed)?),
        Name::RecordRedis => {
            let redis = Redis::start()?;
            servers::measure(plan, &redis, commands_recorded(&redis))
        }
        Name::FlightRedis => {
            let redis = Redis::start()?;
            servers::measure(plan, &redis, commands_in_flight(&redis))
        }
        Name::Script => script::measure(plan),
        Name::Startup => startup::measure(plan),
        Name::Kernel => kernel::measure(plan),
        Name::Shared => shared::measure(plan),
        Name::Build => build::measure(plan),
        Name::Vm => vm::measure(&options.vm, plan),
        Name::Tracepoint => tracepoint::measure(plan),
        Name::Usdt => servers::measure_usdt(plan, &Postgres::start(Settings::Unsynced)?),
        Name::Record => record::measure(plan),
        Name::Filter => filter::measure(&options.filter, plan),
        Name::Pcap => pcap::measure(plan),
        Name::View => view::measure(plan),
        Name::Dpdk => dpdk::measure(plan),
    }
}

/// What is asked for, if it can be done.
fn plan(options: &Options) -> Result<Plan> {
    let name = options.name.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned());
    ensure!(
        options.name == Name::Vm || options.vm.is_default(),
        "--quick, --only, --subject, --asm and --ebpf are vm's"
    );
    ensure!(options.name == Name::Filter || options.filter.is_default(), "--events is filter's");
    let form = match (&options.against, options.smoke) {
        (Some(_), _) => Form::Against,
        (None, true) => Form::Smoke,
        (None, false) => Form::Full,
    };
    if let Some(what) = options.name.without_weir().filter(|_| form != Form::Full) {
        let option = form.pick("", "--against", "--smoke");
        bail!(
            "{name} has no {option}: it runs no weir, it measures {what}. To compare two commits, run `cargo xtask bench {name}` \
             in a working tree of each, and look at both target/bench/{name}.json"
        );
    }
    let rounds = options.rounds.unwrap_or(form.pick(ROUNDS, ROUNDS_MIN, 1));
    ensure!(form == Form::Smoke || rounds >= ROUNDS_MIN, "--rounds {rounds}: {ROUNDS_MIN} is the least");
    let rounds = if options.vm.is_quick() { vm::ROUNDS_QUICK } else { rounds };
    let weirs = match options.name.without_weir() {
        Some(_) => Vec::new(),
        None => {
            let other =
                options.against.as_deref().map(|program| workspace::weir(Some(program))).transpose()?;
            Weir::all(workspace::weir(options.weir.as_deref())?, other)
        }
    };
    let plots: Option<Plots> = match options.name {
        Name::Filter => Some(filter::plots),
        Name::Record if form == Form::Full => Some(filter::recorded_plots),
        _ => None,
    };
    Ok(Plan {
        name: name + form.pick("", "-against", "-smoke"),
        folder: workspace::target_folder(FOLDER)?,
        rounds,
        form,
        weirs,
        origin: format!("{}, commit {}", workspace::machine(), workspace::commit()),
        plots,
        keep: Box::new(|results: &Results| results.keep(FOLDER)),
    })
}

fn count_functions(plan: &Plan, server: &dyn Server) -> Result<()> {
    servers::measure(plan, server, servers::functions_counted(server))
}

/// Names and texts of pictures of a bench's JSON.
type Plots = fn(&serde_json::Value) -> Vec<(&'static str, String)>;

/// What a bench found.
#[derive(Debug)]
struct Outcome {
    title: String,
    figures: Figures,
    /// What the project promises, met or not: said of a full bench alone.
    bars: Vec<String>,
    /// Losses of counts, and the like.
    remarks: Vec<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(name: Name) -> Options {
        let (vm, filter) = (vm::VmOptions::default(), filter::FilterOptions::default());
        // Neither is run.
        let [weir, against] = ["/bin/true", "/bin/false"].map(|program| Some(PathBuf::from(program)));
        Options { name, rounds: None, weir, against, smoke: false, vm, filter }
    }

    #[test]
    fn every_bench_that_runs_weir_can_run_two() {
        for name in Name::value_variants() {
            match (plan(&options(*name)), name.without_weir()) {
                (Ok(plan), None) => assert_eq!((plan.weirs.len(), plan.rounds), (3, ROUNDS_MIN), "{name:?}"),
                (Err(error), Some(_)) => {
                    let said = error.to_string();
                    assert!(said.contains("it runs no weir") && said.contains("working tree"), "{said}");
                }
                (other, _) => panic!("{name:?}: {:?}", other.map(|plan| plan.weirs)),
            }
        }
    }

    #[test]
    fn files_of_another_form_have_a_name_of_their_own() {
        assert_eq!(plan(&options(Name::RecordRedis)).unwrap().name, "record-redis-against");
        let smoke = Options { against: None, smoke: true, ..options(Name::Startup) };
        let found = plan(&smoke).unwrap();
        assert_eq!((found.name.as_str(), found.rounds), ("startup-smoke", 1));
        let full = Options { against: None, ..options(Name::Startup) };
        let found = plan(&full).unwrap();
        assert_eq!((found.name.as_str(), found.rounds), ("startup", ROUNDS));
        assert!(plan(&Options { rounds: Some(14), ..full }).is_err());
    }
}
