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
//! Against another weir a round has six windows, with each weir at either twin, and none without: what is compared is the ratio to the
//! unprobed twin. They are shorter, so that 15 rounds take ten minutes.
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

use std::fmt;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{ChildStderr, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use nix::sys::signal::Signal;
use serde_json::Value;
use testkit::paths::quoted;

use crate::bench::Outcome;
use crate::bench::figures::{Figures, WEIR};
use crate::bench::plan::{AGAIN, Form, Plan, Weir};
use crate::bench::report::met;
use crate::bench::rounds::{Rounds, alternate};
use crate::bench::statistics::median;
use crate::process::Guard;

use self::running::Folder;

pub(super) use self::nginx::{Nginx, Page};
pub(super) use self::postgres::{Postgres, Settings};
pub(super) use self::redis::{Redis, commands_in_flight, commands_recorded};
pub(super) use self::usdt::measure as measure_usdt;

const UNPROBED: &str = "unprobed";
/// What a load lasts if nobody ends it: longer than a round.
const LOAD_SECONDS: u64 = 300;
/// Requests that a second has at least, or the server does not do what it is measured at.
const REQUESTS_PER_SECOND_MIN: f64 = 80.0;
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

/// How long a window is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Window {
    /// Until connections stand and caches are warm.
    warm: Duration,
    /// Attached for so long, at least.
    measured: Duration,
    /// Counted of a request, or what is probed is not what it passes. Less than 1: none is counted while weir attaches and detaches.
    counted_min: f64,
}

impl Window {
    fn of(form: Form, windows_of_a_round: usize) -> Window {
        let (warm_ms, measured_ms, counted_min) = match form {
            Form::Full => (1000, 12_000, 0.9),
            // Of the 40 seconds that a round may take, the rest is for beginning and ending all of it.
            Form::Against => (500, 22_000 / windows_of_a_round.max(1) as u64, 0.1),
            Form::Smoke => (100, 200, 0.0),
        };
        let [warm, measured] = [warm_ms, measured_ms].map(Duration::from_millis);
        Window { warm, measured, counted_min }
    }

    fn length(self) -> Duration {
        self.warm + self.measured
    }
}

/// Counts at [`PROBES`] functions of the server.
pub(super) fn functions_counted(server: &dyn Server) -> Tracing {
    let (program, functions) = (quoted(server.program()), server.functions());
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
    /// A window begins, which lasts at least so long.
    fn open(&mut self, window: Window) -> Result<()>;
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
struct Took {
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
    weir: Took,
    /// Of a request.
    counted: f64,
}

/// What was found in one window.
#[derive(Debug)]
struct Found {
    twins: [Sample; 2],
    said: Option<Said>,
    server_kb: f64,
}

/// What is run once a round: a window, with a weir attached to one of the twins, or to none.
#[derive(Clone, PartialEq, Debug)]
struct Side {
    /// What the weir does, of those that are measured together.
    tracing: usize,
    attached: Option<Attached>,
    /// The first of two windows that are alike but for the twin.
    is_first: bool,
}

#[derive(Clone, PartialEq, Debug)]
struct Attached {
    weir: Weir,
    twin: usize,
}

impl fmt::Display for Side {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let place = if self.is_first { "first" } else { "second" };
        match &self.attached {
            Some(attached) => write!(f, "{} at the {place} twin", attached.weir),
            None => write!(f, "neither twin probed, {place} time"),
        }
    }
}

/// Both windows of each weir, and, where that is the A/A, two with none.
fn sides(plan: &Plan, tracings: usize) -> Vec<Side> {
    let mut sides = Vec::new();
    for tracing in 0..tracings {
        for is_first in [true, false] {
            sides.extend(plan.weirs.iter().map(|weir| Side {
                tracing,
                attached: Some(Attached { weir: weir.clone(), twin: usize::from(!is_first) }),
                is_first,
            }));
            if plan.form == Form::Full {
                sides.push(Side { tracing, attached: None, is_first });
            }
        }
    }
    sides
}

pub(super) fn measure(plan: &Plan, server: &dyn Server, tracing: Tracing) -> Result<()> {
    measure_all(plan, server, &[(String::new(), tracing)], &|outcome| outcome)
}

/// Several ways of tracing, in the same rounds; the cases of each begin with its name, if it has one. `complete` adds what was
/// found beside.
fn measure_all(
    plan: &Plan,
    server: &dyn Server,
    tracings: &[(String, Tracing)],
    complete: &dyn Fn(Outcome) -> Outcome,
) -> Result<()> {
    let sides = sides(plan, tracings.len());
    let window = Window::of(plan.form, sides.len());
    let mut load: Option<(usize, Box<dyn Load + '_>)> = None;
    let mut run = |round: usize, side: &Side| {
        if load.as_ref().is_none_or(|(of_round, _)| *of_round != round) {
            // The old one ends before the new one begins.
            load = None;
            load = Some((round, server.load()?));
        }
        let (_, load) = load.as_mut().context("no load")?;
        let (tracing, attached) = (&tracings[side.tracing].1, side.attached.as_ref());
        let (twins, said) = watch(load.as_mut(), window, tracing, attached)?;
        let [first, second] = twins.map(|twin| twin.cpu_us);
        eprintln!("  {side}: {first:.2} and {second:.2} µs of CPU time a request");
        Ok(Found { twins, said, server_kb: usage::private_kb(&server.processes()?)? })
    };
    alternate(plan, &sides, &mut run, &|rounds| {
        let title = format!("{}, {} rounds", server.name(), plan.rounds);
        let mut outcome =
            Outcome { title, figures: Figures::default(), bars: Vec::new(), remarks: Vec::new() };
        for (index, (name, tracing)) in tracings.iter().enumerate() {
            let (figures, bars) = found(tracing, index, &sides, rounds);
            match name.as_str() {
                "" => {
                    outcome.title =
                        format!("{} with {}, {} rounds", server.name(), tracing.name, plan.rounds);
                    outcome.figures = figures;
                    outcome.bars.extend(bars);
                }
                name => {
                    outcome.figures.add_all(name, figures);
                    outcome.bars.extend(bars.iter().map(|bar| format!("{name}: {bar}")));
                }
            }
        }
        complete(outcome)
    })
}

const REQUEST: &str = "CPU time of a request";
const OVER_UNPROBED: &str = "CPU time of a request, over unprobed";
const LATENCY: &str = "p99.9 latency";

/// Figures and bars of one way of tracing.
fn found(tracing: &Tracing, index: usize, sides: &[Side], rounds: &Rounds<Found>) -> (Figures, Vec<String>) {
    let mut figures = Figures::default();
    let mut bars = Vec::new();
    let of_tracing = || rounds.with(sides).filter(|(side, _)| side.tracing == index);
    let mut subjects: Vec<&str> =
        of_tracing().filter_map(|(side, _)| Some(side.attached.as_ref()?.weir.subject)).collect();
    subjects.sort_unstable();
    subjects.dedup();
    for subject in subjects {
        let is_meant = |side: &Side| side.attached.as_ref().is_some_and(|at| at.weir.subject == subject);
        let windows = || of_tracing().filter(|(side, _)| is_meant(side));
        let samples = |of: &dyn Fn(usize, &Found) -> f64| -> Vec<f64> {
            let twin = |side: &Side| side.attached.as_ref().map_or(0, |at| at.twin);
            in_turn(windows().map(|(side, found)| found.iter().map(|found| of(twin(side), found)).collect()))
        };
        let said = |of: fn(&Said) -> f64| samples(&|_, found| found.said.as_ref().map_or(0.0, of));
        let ratios = ratios(windows());
        // From one window to the next the machine differs more than two weirs do.
        figures.describe(subject, REQUEST, "µs", &samples(&|twin, found| found.twins[twin].cpu_us));
        figures.add(subject, LATENCY, "ms", &samples(&|twin, found| found.twins[twin].latency_ms));
        figures.add(subject, "longest stop", "ms", &said(|said| said.longest_stop_ms));
        figures.add(subject, "memory of weir", "kB", &said(|said| said.weir.kb));
        figures.add(subject, "CPU time of weir until attached", "ms", &said(|said| said.weir.start_ms));
        figures.add(subject, "CPU time of weir while attached", "%", &said(|said| said.weir.share));
        figures.describe(subject, "memory of the server", "kB", &samples(&|_, found| found.server_kb));
        figures.describe(subject, "counted of a request", "", &said(|said| said.counted));
        figures.add(subject, OVER_UNPROBED, "", &ratios);
        if subject == WEIR {
            figures.describe(UNPROBED, REQUEST, "µs", &samples(&|twin, found| found.twins[1 - twin].cpu_us));
            let latencies = samples(&|twin, found| found.twins[1 - twin].latency_ms);
            figures.describe(UNPROBED, LATENCY, "ms", &latencies);
            let weir_kb = said(|said| said.weir.kb);
            bars = bars_of(tracing, &ratios, &samples(&|_, found| found.server_kb), &weir_kb);
        }
    }
    let neither = || of_tracing().filter(|(side, _)| side.attached.is_none());
    for (case, unit, of) in [
        (REQUEST, "µs", (|twin: &Sample| twin.cpu_us) as fn(&Sample) -> f64),
        (LATENCY, "ms", |twin: &Sample| twin.latency_ms),
    ] {
        let both = |found: &Found| found.twins.each_ref().map(of);
        let windows = neither().map(|(_, found)| found.iter().flat_map(both).collect());
        figures.describe(AGAIN, case, unit, &in_turn(windows));
    }
    figures.add(AGAIN, OVER_UNPROBED, "", &ratios(neither()));
    (figures, bars)
}

/// Samples of the windows of each round, round by round.
fn in_turn(windows: impl Iterator<Item = Vec<f64>>) -> Vec<f64> {
    let windows: Vec<Vec<f64>> = windows.collect();
    let rounds = windows.iter().map(Vec::len).min().unwrap_or(0);
    (0..rounds).flat_map(|round| windows.iter().map(move |window| window[round])).collect()
}

/// By round: what a probe costs, from two windows that are alike but for the twin: that the twins differ goes out.
fn ratios<'r>(mut windows: impl Iterator<Item = (&'r Side, &'r [Found])>) -> Vec<f64> {
    let (Some((_, first)), Some((_, second))) = (windows.next(), windows.next()) else { return Vec::new() };
    let ratio = |found: &Found| found.twins[0].cpu_us / found.twins[1].cpu_us;
    first.iter().zip(second).map(|(first, second)| (ratio(first) / ratio(second)).sqrt()).collect()
}

fn bars_of(tracing: &Tracing, ratios: &[f64], server_kb: &[f64], weir_kb: &[f64]) -> Vec<String> {
    let growth = |what: &str, values: &[f64]| {
        let grown = growth(values);
        format!("bar: memory of {what} flat: {}: {grown:+.0} kB", met(grown <= GROWTH_KB_MAX))
    };
    let ratio = median(ratios);
    vec![
        format!(
            "bar: CPU time within {:.0} % of unprobed: {}: {ratio:.4}",
            (tracing.ratio_max - 1.0) * 100.0,
            met(ratio <= tracing.ratio_max)
        ),
        growth("the server", server_kb),
        growth("weir", weir_kb),
    ]
}

/// By how much the last third is above the first.
fn growth(values: &[f64]) -> f64 {
    let third = values.len().div_ceil(3).max(1);
    match values {
        [] => 0.0,
        _ => median(&values[values.len() - third.min(values.len())..]) - median(&values[..third]),
    }
}

/// A window: what each twin took, with weir attached to one or to none.
fn watch(
    load: &mut dyn Load,
    window: Window,
    tracing: &Tracing,
    attached: Option<&Attached>,
) -> Result<([Sample; 2], Option<Said>)> {
    load.open(window)?;
    sleep(window.warm);
    let twins = load.twins();
    let cpu = || -> Result<_> { Ok([usage::cpu_ns(&twins[..1])?, usage::cpu_ns(&twins[1..])?]) };
    let (before, from) = (cpu()?, load.mark()?);
    let mut traced = None;
    match attached {
        Some(Attached { weir, twin }) => {
            let tracer = Tracer::attach(&weir.program, tracing, twins[*twin])?;
            let weir = tracer.process.pid();
            let start_ms = usage::process_cpu_ms(weir)?;
            sleep(window.measured);
            let share = (usage::process_cpu_ms(weir)? - start_ms) / window.measured.as_secs_f64() / 10.0;
            traced = Some((*twin, Took { kb: usage::peak_kb(weir)?, start_ms, share }, tracer.detach()?));
        }
        None => sleep(window.measured),
    }
    let (after, to) = (cpu()?, load.mark()?);
    let answered = load.close(from, to)?;
    let requests_min = REQUESTS_PER_SECOND_MIN * window.measured.as_secs_f64();
    let mut samples = [Sample::default(); 2];
    for (twin, (requests, latency_ms)) in answered.into_iter().enumerate() {
        ensure!(requests > requests_min, "only {requests} requests were answered");
        let cpu_us = usage::spent(&before[twin], &after[twin]) / 1e3 / requests;
        samples[twin] = Sample { cpu_us, latency_ms };
    }
    let said = traced.map(|(number, weir, told)| Said {
        longest_stop_ms: told.longest_stop_ms,
        weir,
        counted: told.counted / answered[number].0,
    });
    if let Some(Said { counted, .. }) = said {
        ensure!(
            counted > window.counted_min,
            "{counted} counted of a request: what is probed is not what it passes"
        );
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

    /// A second twin that takes 1.2 times as much, and weir 1.1 times, on a machine that is slower in each window.
    #[test]
    fn that_twins_and_windows_differ_goes_out() {
        let mut plan = crate::bench::rounds::tests::plan(1, Box::new(|_| Ok(())));
        plan.form = Form::Against;
        plan.weirs = Weir::all("now".into(), Some("then".into()));
        let sides = sides(&plan, 1);
        assert_eq!(sides.len(), 6);
        let weir = Took { kb: 1.0, start_ms: 1.0, share: 1.0 };
        let of_window = |(index, side): (usize, &Side)| {
            let attached = side.attached.as_ref().unwrap();
            let costs = if attached.weir.subject == WEIR { 1.1 } else { 1.05 };
            let mut twins = [1.0, 1.2].map(|us| Sample { cpu_us: us * (index + 1) as f64, latency_ms: 1.0 });
            twins[attached.twin].cpu_us *= costs;
            let said = Some(Said { longest_stop_ms: 1.0, weir, counted: 1.0 });
            vec![Found { twins, said, server_kb: 5.0 }]
        };
        let rounds = Rounds::of(sides.iter().enumerate().map(of_window).collect());
        let tracing = Tracing::counted("functions".to_owned(), Vec::new());
        let (figures, bars) = found(&tracing, 0, &sides, &rounds);
        for (subject, ratio) in [(WEIR, 1.1), (AGAIN, 1.05), ("against", 1.05)] {
            let found = figures.get(subject, OVER_UNPROBED).unwrap().summary.median;
            assert!((found - ratio).abs() < 1e-9, "{subject}: {found}");
        }
        assert_eq!(figures.get(WEIR, "longest stop").unwrap().samples.len(), 2);
        assert!(bars[0].ends_with("NOT met: 1.1000"), "{bars:?}");
    }

    #[test]
    fn growth_compares_the_ends() {
        assert_eq!(growth(&[5.0, 5.0, 5.0, 9.0, 9.0, 9.0]), 4.0);
        assert_eq!(growth(&[7.0]), 0.0);
        assert_eq!(growth(&[]), 0.0);
    }
}
