//! pcap-bench: packet filters on weir's engines, in libpcap's interpreter and in the kernel, for `cargo xtask bench pcap`.
//!
//! Prints lines of JSON (`report`), in nanoseconds of thread CPU time a packet:
//! - `trace`: the packets of a trace in order, with all that a call takes. Case: `FILTER, TRACE`.
//! - `packet`: the same packet again and again, less the filter that keeps everything on the same side in the same round: the mean over
//!   packets of the trace. (The kernel has no other way to run a program.) Case: `FILTER, TRACE, less empty`.
//! - `compile`: milliseconds from text to machine code, and its stages. Case: `compile FILTER`.

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::Parser;
use testkit::cpu;

use vm_bench::measure::{AGAIN, cpu_time, order};
use vm_bench::packets::{self, Side, Sides, Trace};
use vm_bench::report;

#[derive(Parser, Debug)]
#[command(name = "pcap-bench", disable_help_subcommand = true)]
struct Args {
    /// Filters to run; all, if none is given
    #[arg(long, value_delimiter = ';')]
    only: Vec<String>,
    /// Passes over a trace that make a sample
    #[arg(long, default_value_t = 200)]
    passes: u32,
    /// Runs on one packet that make a sample
    #[arg(long, default_value_t = 4000)]
    repeat: u32,
    /// The place in the order of sides at which the round begins
    #[arg(long, default_value_t = 0)]
    turn: usize,
    /// Compile the filters so many times, for a profiler, and measure nothing
    #[arg(long, value_name = "TIMES")]
    compile_only: Option<u32>,
}

/// Packets of a trace that are run again and again, as many as this, evenly spaced.
const PACKETS_REPEATED: usize = 48;
/// Times that a filter is compiled in a round.
const COMPILED: usize = 7;
/// Which are compiled for their time.
const COMPILE: [&str; 3] = ["tcp port 80", "8 ports", "300 hosts"];
/// libpcap takes a second for this one, so it compiles it once a round.
const SLOW_FOR_LIBPCAP: &str = "300 hosts";

fn main() -> ExitCode {
    match run(&Args::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("pcap-bench: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(args: &Args) -> Result<()> {
    cpu::stay_on_this();
    let traces = packets::traces();
    let mut filters = packets::filters();
    filters.retain(|(name, _)| {
        *name == "empty" || args.only.is_empty() || args.only.iter().any(|only| only == name)
    });
    if let Some(times) = args.compile_only {
        let texts = filters.iter().flat_map(|(_, text)| (0..times).map(move |_| text));
        return texts.into_iter().try_for_each(|text| packets::weirs(text).map(drop));
    }
    let mut empty: BTreeMap<(&str, &str), f64> = BTreeMap::new();
    for (name, text) in &filters {
        let mut sides = Sides::of(text)?;
        for (side, reason) in &sides.missing {
            report::missing(side, name, reason);
        }
        for trace in &traces {
            packets::compare(&mut sides, trace).with_context(|| format!("{name}, {}", trace.name))?;
            for (side, ns) in in_order(&mut sides, trace, args)? {
                report::figure("trace", side, &format!("{name}, {}", trace.name), "ns", &[ns]);
            }
            for (side, ns) in repeated(&mut sides, trace, args)? {
                if *name == "empty" {
                    empty.insert((trace.name, side), ns);
                    continue;
                }
                let idle = empty.get(&(trace.name, side)).context("no empty filter")?;
                let case = format!("{name}, {}, less empty", trace.name);
                report::figure("packet", side, &case, "ns", &[ns - idle]);
            }
        }
    }
    let compiled = filters.iter().filter(|(name, _)| COMPILE.contains(name));
    compiled.into_iter().try_for_each(|(name, text)| compile(name, text))
}

/// Nanoseconds of a packet on each side, the packets coming in order.
fn in_order(sides: &mut Sides, trace: &Trace, args: &Args) -> Result<Vec<(&'static str, f64)>> {
    let packets = f64::from(args.passes) * trace.packets.len() as f64;
    each(sides, args.turn, Side::is_here, &mut |side| {
        side.pass(&trace.packets)?;
        let took = cpu_time(|| {
            for _ in 0..args.passes {
                std::hint::black_box(side.pass(std::hint::black_box(&trace.packets))?);
            }
            Ok(())
        })?;
        Ok(took.as_nanos() as f64 / packets)
    })
}

/// Nanoseconds of a packet on each side, the same packet coming again and again.
fn repeated(sides: &mut Sides, trace: &Trace, args: &Args) -> Result<Vec<(&'static str, f64)>> {
    let every = (trace.packets.len() / PACKETS_REPEATED).max(1);
    let packets: Vec<&Vec<u8>> = trace.packets.iter().step_by(every).collect();
    each(sides, args.turn, |_| true, &mut |side| {
        let mut all = Duration::ZERO;
        for packet in &packets {
            side.repeat(packet, args.repeat / 20 + 1)?;
            all += cpu_time(|| side.repeat(packet, args.repeat).map(drop))?;
        }
        Ok(all.as_nanos() as f64 / f64::from(args.repeat) / packets.len() as f64)
    })
}

/// One figure of each side, and of the first again, in an order that turns.
fn each(
    sides: &mut Sides,
    turn: usize,
    takes_part: impl Fn(&Side) -> bool,
    measure: &mut dyn FnMut(&mut Side) -> Result<f64>,
) -> Result<Vec<(&'static str, f64)>> {
    let mut places: Vec<(usize, &'static str)> = sides.all.iter().map(Side::name).enumerate().collect();
    places.push((0, AGAIN));
    places.retain(|(side, _)| takes_part(&sides.all[*side]));
    let mut one = |place: usize| {
        let (side, name) = places[place];
        Ok((name, measure(&mut sides.all[side])?))
    };
    order(turn, places.len()).into_iter().map(&mut one).collect()
}

fn compile(name: &str, text: &str) -> Result<()> {
    let stages: Vec<packets::Stages> = (0..COMPILED).map(|_| packets::stages(text)).collect::<Result<_>>()?;
    let ms = |of: fn(&packets::Stages) -> Duration| -> Vec<f64> {
        stages.iter().map(|took| of(took).as_secs_f64() * 1e3).collect()
    };
    let case = format!("compile {name}");
    report::figure("compile", "weir", &case, "ms", &ms(|took| took.front + took.verify + took.jit));
    report::figure("compile", "weir", &format!("{case}: text to eBPF"), "ms", &ms(|took| took.front));
    report::figure("compile", "weir", &format!("{case}: proof"), "ms", &ms(|took| took.verify));
    report::figure("compile", "weir", &format!("{case}: machine code"), "ms", &ms(|took| took.jit));
    let times = if name == SLOW_FOR_LIBPCAP { 1 } else { COMPILED };
    let theirs: Vec<f64> = (0..times)
        .map(|_| Ok(packets::libpcaps_compile_time(text)?.as_secs_f64() * 1e3))
        .collect::<Result<_>>()?;
    report::figure("compile", "libpcap", &case, "ms", &theirs);
    Ok(())
}
