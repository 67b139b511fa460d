//! servers: what counting at 50 functions, or filtered events, costs a database under pgbench and a web server under wrk.
//!
//! A server has two halves, the *twins*, which do the same for clients of the same kind, side by side on one CPU that they share;
//! the clients have another one. A round takes a minute and has four windows, in an order that turns round: weir attached to
//! the first twin, and detached; to the second; and two with neither, `A/A`. The CPU time of a request of a twin is that of its
//! process, by the scheduler's nanoseconds, attaching and detaching included, over the requests that it answered meanwhile. What
//! weir costs is the probed twin's over the other's in the same window; that the two are not quite alike goes out by taking
//! both windows of a round (the root of the product). On a virtual machine whose neighbours come and go this is what can be
//! measured: from one stretch of seconds to the next the same transaction took from 240 to 370 µs, and on two CPUs at once the
//! twins differed by 17 % (standard deviation), on one they did by 0.6 %.
//!
//! Latencies are those that the load measured; stops are those that `weir trace -v` prints.
//!
//! ```text
//! server    started once (running): its processes
//! load      pgbench or wrk, for one round: what the twins have answered so far
//! window    what each twin took
//! ```

mod nginx;
mod postgres;
mod redis;
mod running;
pub(super) mod usage;
mod usdt;

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{ChildStderr, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use nix::sys::signal::Signal;
use serde_json::Value;

use crate::bench::figures::{Figures, WEIR};
use crate::bench::statistics::median;
use crate::bench::{Outcome, order};
use crate::process::Guard;

use self::running::Folder;

pub(super) use self::nginx::{Nginx, Page};
pub(super) use self::postgres::{Postgres, Settings};
pub(super) use self::redis::{Redis, commands_in_flight, commands_recorded};
pub(super) use self::usdt::measure as measure_usdt;

const UNPROBED: &str = "unprobed";
const AGAIN: &str = "A/A";
/// Of a round, by who is probed.
const WINDOWS: [&str; 4] = ["first", "neither", "second", "neither again"];
/// Until connections stand and caches are warm.
const WARM: Duration = Duration::from_secs(1);
/// Attached for so long, at least.
const MEASURED: Duration = Duration::from_secs(12);
/// What a load lasts if nobody ends it: longer than a round.
const LOAD_SECONDS: u64 = 120;
const ATTACH_LIMIT: Duration = Duration::from_secs(10);
const PROBES: usize = 50;
/// What the project promises: CPU time of a request beside that of an unprobed server.
const RATIO_MAX: f64 = 1.01;
/// What still counts as flat: kilobytes that the last third of the rounds has more than the first.
const GROWTH_KB_MAX: f64 = 2048.0;

/// What weir does to a twin.
pub(super) struct Tracing {
    /// For the title.
    name: String,
    /// Of `weir trace`, where they count in `@`, or of `weir record`.
    options: Vec<String>,
    is_recorded: bool,
    /// What may be promised of it: CPU time of a request beside that of an unprobed server.
    ratio_max: f64,
}

impl Tracing {
    /// By `weir trace`.
    fn counted(name: String, options: Vec<String>) -> Tracing {
        Tracing { name, options, is_recorded: false, ratio_max: RATIO_MAX }
    }

    /// By `weir record`.
    fn recorded(name: &str, options: Vec<String>, ratio_max: f64) -> Tracing {
        Tracing { name: name.to_owned(), options, is_recorded: true, ratio_max }
    }
}

/// Counts at [`PROBES`] functions of the server.
pub(super) fn functions_counted(server: &dyn Server) -> Tracing {
    let (program, functions) = (server.program().display(), server.functions());
    assert_eq!(functions.len(), PROBES, "as the bench promises");
    let probes: Vec<String> = functions.iter().map(|name| format!("uprobe:{program}:{name}")).collect();
    let script = format!("{} {{ @ = count(); }}", probes.join(","));
    Tracing::counted(format!("{PROBES} functions counted"), vec!["-e".to_owned(), script])
}

/// A server that runs for the whole bench.
pub(super) trait Server {
    /// For the title.
    fn name(&self) -> &'static str;
    /// What is probed in it.
    fn program(&self) -> &Path;
    /// [`PROBES`] names, if functions of it are counted.
    fn functions(&self) -> &'static [&'static str] {
        &[]
    }
    /// All of its processes.
    fn processes(&self) -> Result<Vec<i32>>;
    /// Begins to load both twins.
    fn load(&self) -> Result<Box<dyn Load + '_>>;
}

/// What loads both twins. It ends when it is dropped.
pub(super) trait Load {
    /// Of each twin, the process that answers.
    fn twins(&self) -> [i32; 2];
    /// A window begins, which lasts at least as long as is measured.
    fn open(&mut self) -> Result<()>;
    /// Where each twin stands, to be given to [`Load::close`].
    fn mark(&mut self) -> Result<[f64; 2]>;
    /// Requests that each twin answered between two marks, and the 99.9th percentile of their latencies in milliseconds.
    fn close(&mut self, from: [f64; 2], to: [f64; 2]) -> Result<[(f64, f64); 2]>;
}

/// What one twin took in one window.
#[derive(Clone, Copy, Debug, Default)]
struct Sample {
    cpu_us: f64,
    latency_ms: f64,
}

/// What weir itself took.
#[derive(Clone, Copy, Debug)]
struct Weir {
    kb: f64,
    /// CPU time until it was attached.
    start_ms: f64,
    /// Per cent of a CPU, from then on.
    share: f64,
}

/// What is known of weir in one window.
#[derive(Clone, Copy, Debug)]
struct Said {
    longest_stop_ms: f64,
    weir: Weir,
    /// Of a request.
    counted: f64,
}

/// All windows so far.
#[derive(Debug, Default)]
struct Samples {
    probed: Vec<Sample>,
    unprobed: Vec<Sample>,
    neither: Vec<Sample>,
    said: Vec<Said>,
    server_kb: Vec<f64>,
    /// By round.
    ratios: Vec<f64>,
    again: Vec<f64>,
}

pub(super) fn measure(weir: &Path, rounds: usize, server: &dyn Server, tracing: &Tracing) -> Result<Outcome> {
    let mut samples = Samples::default();
    for round in 0..rounds {
        eprintln!("round {} of {rounds}", round + 1);
        run(weir, server, tracing, round, &mut samples).with_context(|| format!("round {}", round + 1))?;
        let (ratio, again) = (samples.ratios[round], samples.again[round]);
        eprintln!("  CPU time of a request over unprobed: {ratio:.4}, A/A {again:.4}");
    }
    let mut figures = Figures::default();
    let sides = [(UNPROBED, &samples.unprobed), (AGAIN, &samples.neither), (WEIR, &samples.probed)];
    for (side, windows) in sides {
        let of = |value: fn(&Sample) -> f64| windows.iter().map(value).collect::<Vec<f64>>();
        figures.add(side, "CPU time of a request", "µs", &of(|sample| sample.cpu_us));
        figures.add(side, "p99.9 latency", "ms", &of(|sample| sample.latency_ms));
    }
    let said = |value: fn(&Said) -> f64| samples.said.iter().map(value).collect::<Vec<f64>>();
    figures.add(WEIR, "longest stop", "ms", &said(|said| said.longest_stop_ms));
    figures.add(WEIR, "memory of weir", "kB", &said(|said| said.weir.kb));
    figures.add(WEIR, "CPU time of weir until attached", "ms", &said(|said| said.weir.start_ms));
    figures.add(WEIR, "CPU time of weir while attached", "%", &said(|said| said.weir.share));
    figures.add(WEIR, "memory of the server", "kB", &samples.server_kb);
    figures.add(WEIR, "counted of a request", "", &said(|said| said.counted));
    figures.add(WEIR, "CPU time of a request, over unprobed", "", &samples.ratios);
    figures.add(AGAIN, "CPU time of a request, over unprobed", "", &samples.again);
    let growth = |what: &str, values: &[f64]| {
        let grown = growth(values);
        format!("bar: memory of {what} flat: {}: {grown:+.0} kB", verdict(grown <= GROWTH_KB_MAX))
    };
    let ratio = median(&samples.ratios);
    let remarks = vec![
        format!(
            "bar: CPU time within {:.0} % of unprobed: {}: {ratio:.4}",
            (tracing.ratio_max - 1.0) * 100.0,
            verdict(ratio <= tracing.ratio_max)
        ),
        growth("the server", &samples.server_kb),
        growth("weir", &said(|said| said.weir.kb)),
    ];
    let title = format!("{} with {}, {rounds} rounds of a minute", server.name(), tracing.name);
    Ok(Outcome { title, figures, remarks })
}

fn verdict(is_met: bool) -> &'static str {
    if is_met { "met" } else { "NOT met" }
}

/// By how much the last third is above the first.
fn growth(values: &[f64]) -> f64 {
    let third = values.len().div_ceil(3).max(1);
    match values {
        [] => 0.0,
        _ => median(&values[values.len() - third.min(values.len())..]) - median(&values[..third]),
    }
}

/// A round: a load, and its four windows.
fn run(
    weir: &Path,
    server: &dyn Server,
    tracing: &Tracing,
    round: usize,
    samples: &mut Samples,
) -> Result<()> {
    let mut load = server.load()?;
    // Of each window, the first twin's over the second's.
    let (mut probed, mut neither) = ([1.0; 2], Vec::new());
    for window in order(round, &WINDOWS) {
        let number = match window {
            "first" => Some(0),
            "second" => Some(1),
            _ => None,
        };
        let (twins, said) = watch(load.as_mut(), number.map(|number| (weir, tracing, number)))?;
        let ratio = twins[0].cpu_us / twins[1].cpu_us;
        match number {
            Some(number) => {
                probed[number] = ratio;
                samples.probed.push(twins[number]);
                samples.unprobed.push(twins[1 - number]);
            }
            None => {
                neither.push(ratio);
                samples.neither.extend(twins);
            }
        }
        samples.said.extend(said);
    }
    samples.server_kb.push(usage::private_kb(&server.processes()?)?);
    samples.ratios.push((probed[0] / probed[1]).sqrt());
    samples.again.push((neither[0] / neither[1]).sqrt());
    Ok(())
}

/// A window: what each twin took, with weir attached to one or to none.
fn watch(load: &mut dyn Load, weir: Option<(&Path, &Tracing, usize)>) -> Result<([Sample; 2], Option<Said>)> {
    load.open()?;
    sleep(WARM);
    let twins = load.twins();
    let cpu = || -> Result<_> { Ok([usage::cpu_ns(&twins[..1])?, usage::cpu_ns(&twins[1..])?]) };
    let (before, from) = (cpu()?, load.mark()?);
    let mut traced = None;
    match weir {
        Some((weir, tracing, number)) => {
            let tracer = Tracer::attach(weir, tracing, twins[number])?;
            let weir = tracer.process.pid();
            let start_ms = usage::process_cpu_ms(weir)?;
            sleep(MEASURED);
            let share = (usage::process_cpu_ms(weir)? - start_ms) / MEASURED.as_secs_f64() / 10.0;
            traced = Some((number, Weir { kb: usage::peak_kb(weir)?, start_ms, share }, tracer.detach()?));
        }
        None => sleep(MEASURED),
    }
    let (after, to) = (cpu()?, load.mark()?);
    let answered = load.close(from, to)?;
    let mut samples = [Sample::default(); 2];
    for (twin, (requests, latency_ms)) in answered.into_iter().enumerate() {
        ensure!(requests > 1000.0, "only {requests} requests were answered");
        let cpu_us = usage::spent(&before[twin], &after[twin]) / 1e3 / requests;
        samples[twin] = Sample { cpu_us, latency_ms };
    }
    let said = traced.map(|(number, weir, told)| Said {
        longest_stop_ms: told.longest_stop_ms,
        weir,
        counted: told.counted / answered[number].0,
    });
    if let Some(Said { counted, .. }) = said {
        ensure!(counted > 0.9, "{counted} counted of a request: what is probed is not what it passes");
    }
    Ok((samples, said))
}

/// What weir said at its end.
#[derive(Clone, Copy, Debug)]
struct Told {
    counted: f64,
    /// How often a probe was passed, whether or not a filter kept that.
    hits: f64,
    longest_stop_ms: f64,
}

/// A weir that counts, or records.
struct Tracer {
    process: Guard,
    /// Where it records to; gone with it.
    recorded: Option<Folder>,
    said: BufReader<ChildStderr>,
    lines: Vec<String>,
}

impl Tracer {
    /// Comes back when it is attached.
    fn attach(weir: &Path, tracing: &Tracing, pid: i32) -> Result<Tracer> {
        let recorded = tracing.is_recorded.then(|| running::fresh_folder("recorded")).transpose()?;
        let mut command = Command::new(weir);
        match &recorded {
            Some(folder) => command.args(["record", "-v", "-o"]).arg(folder.path()),
            None => command.args(["trace", "-v", "-f", "json"]),
        };
        command.args(&tracing.options).args(["-p", &pid.to_string()]);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut process = Guard::spawn(&mut command)?;
        let said = process.0.stderr.take().context("weir has no standard error")?;
        let mut tracer = Tracer { process, recorded, said: BufReader::new(said), lines: Vec::new() };
        let end = Instant::now() + ATTACH_LIMIT;
        let mut is_attached = false;
        while !is_attached {
            let line = tracer.line()?.with_context(|| format!("weir ended: {:?}", tracer.lines))?;
            is_attached = line.contains(" probes attached in ");
            ensure!(Instant::now() < end, "weir is not attached after {} s", ATTACH_LIMIT.as_secs());
        }
        Ok(tracer)
    }

    fn line(&mut self) -> Result<Option<String>> {
        let mut line = String::new();
        if self.said.read_line(&mut line)? == 0 {
            return Ok(None);
        }
        self.lines.push(line.clone());
        Ok(Some(line))
    }

    /// Ends it, unless the end of its target has.
    fn detach(mut self) -> Result<Told> {
        self.process.signal(Signal::SIGINT)?;
        while self.line()?.is_some() {}
        let mut out = String::new();
        let mut stdout = self.process.0.stdout.take().context("weir has no standard output")?;
        std::io::Read::read_to_string(&mut stdout, &mut out)?;
        ensure!(self.process.wait_within(ATTACH_LIMIT)?, "weir failed: {:?}", self.lines);
        let longest = self.lines.iter().filter_map(|line| stop_ms(line)).fold(0.0, f64::max);
        ensure!(longest > 0.0, "weir told no stop: {:?}", self.lines);
        if self.recorded.is_some() {
            let counted = self.lines.iter().filter_map(|line| events(line)).next_back();
            let counted = counted.with_context(|| format!("weir told no events: {:?}", self.lines))?;
            return Ok(Told { counted, hits: counted, longest_stop_ms: longest });
        }
        let counted = number(&out, |line| line["data"]["@"].as_f64());
        let hits = number(&out, |line| line["data"]["probes"].as_array().map(|probes| hits(probes)));
        let (counted, hits) = counted.zip(hits).with_context(|| format!("weir printed no count: {out:?}"))?;
        Ok(Told { counted, hits, longest_stop_ms: longest })
    }
}

/// The longest stop that a line of `weir trace -v` tells.
fn stop_ms(line: &str) -> Option<f64> {
    let (_, rest) = line.split_once("times, for ")?;
    rest.split_once(" ms at most")?.0.parse().ok()
}

/// The events that a line of `weir record` tells: all of a trace; in a snapshot and overwritten before it.
fn events(line: &str) -> Option<f64> {
    if let Some((recorded, _)) = line.strip_prefix("weir: ")?.split_once(" events recorded") {
        return recorded.parse().ok();
    }
    let (_, counts) = line.strip_prefix("weir: snapshot-")?.split_once(": ")?;
    let (recorded, rest) = counts.split_once(" events, ")?;
    let (overwritten, _) = rest.split_once(" before them overwritten")?;
    Some(recorded.parse::<f64>().ok()? + overwritten.parse::<f64>().ok()?)
}

/// What `of` finds last in the lines of JSON.
fn number(out: &str, of: impl Fn(&Value) -> Option<f64>) -> Option<f64> {
    out.lines().filter_map(|line| of(&serde_json::from_str(line).ok()?)).next_back()
}

/// Of all probes of a summary.
fn hits(probes: &[Value]) -> f64 {
    probes.iter().filter_map(|probe| probe["entries"].as_f64()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_stop_is_read_from_what_weir_says() {
        let line =
            "weir: 50 probes attached in 5.1 ms, the target held 4 times, for 0.6 ms at most, 1.2 ms in sum";
        assert_eq!(stop_ms(line), Some(0.6));
        assert_eq!(stop_ms("weir: 50 functions: compiled in 3.0 ms, planned in 4.0 ms"), None);
    }

    #[test]
    fn events_are_read_from_what_weir_says() {
        assert_eq!(events("weir: 1234 events recorded, 5 discarded; 24 bytes of fields, in x"), Some(1234.0));
        let line = "weir: snapshot-000001-20261122-203015: 100 events, 23 before them overwritten (end)";
        assert_eq!(events(line), Some(123.0));
        assert_eq!(events("weir:   shop:sale: 1200"), None);
    }

    #[test]
    fn count_and_hits_are_read_from_what_weir_prints() {
        let out = "{\"type\": \"attached_probes\", \"data\": {\"probes\": 2}}\n{\"type\": \"map\", \"data\": {\"@\": 12345}}\n\
                   {\"type\": \"summary\", \"data\": {\"probes\": [{\"entries\": 20000}, {\"entries\": 5}]}}\n";
        assert_eq!(number(out, |line| line["data"]["@"].as_f64()), Some(12345.0));
        assert_eq!(
            number(out, |line| line["data"]["probes"].as_array().map(|probes| hits(probes))),
            Some(20005.0)
        );
        assert_eq!(number("{}", |line| line["data"]["@"].as_f64()), None);
    }

    #[test]
    fn growth_compares_the_ends() {
        assert_eq!(growth(&[5.0, 5.0, 5.0, 9.0, 9.0, 9.0]), 4.0);
        assert_eq!(growth(&[7.0]), 0.0);
        assert_eq!(growth(&[]), 0.0);
    }
}
