//! dpdk: what capturing in a DPDK application costs it, in ns a packet that it forwards.
//!
//! Three dpdk-testpmd run, two without the plugin and one that has loaded it; one of them forwards at a time, between two ports of one
//! driver ([`Work`]), on a CPU of its own. A sample is the time over the packets that testpmd's own statistics count meanwhile. In each
//! round every side's cost less the bare one's is what it adds; a captured packet is looked at twice, when it is received and when it
//! is sent, so half of that is a look ([`ONE_PORT`]: all of it; dpdk-dumpcap's too, but its figures are halved as the others').
//!
//! With huge pages if the machine has some free, which is how DPDK is run; otherwise a packet's memory costs translations
//! that are not the plugin's. dpdk-dumpcap needs them.

mod file;
mod testpmd;

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use crate::bench::Outcome;
use crate::bench::figures::Figures;
use crate::bench::plan::{AGAIN, BARE, Plan};
use crate::bench::report::verdict;
use crate::bench::rounds::{Rounds, alternate};
use crate::{process, workspace};

use testpmd::{START_LIMIT, Testpmd};

const LOADED: &str = "loaded, idle";
/// No packet here is TCP.
const NOTHING: &str = "tcp port 80 (keeps 0 %)";
/// The same at one of the two ports, as dpdk-dumpcap captures: each packet is looked at once.
const ONE_PORT: &str = "tcp port 80 (keeps 0 %) at one port";
/// One in 100 packets of the file.
const FEW: &str = "udp port 53 (keeps 1 %)";
const ALL: &str = "udp (keeps 100 %)";
/// The first of these, and a script that counts packets in bursts, by weir and by bpftrace.
const HISTOGRAM: &str = "tcp port 80 and a histogram of bursts";
const BPFTRACE: &str = "tcp port 80 and bpftrace's histogram of bursts";
const PROBE: &str = "uprobe:/usr/lib/x86_64-linux-gnu/librte_ethdev.so.23:rte_eth_call_rx_callbacks";
/// Packets of a burst of testpmd's.
const BURST: f64 = 32.0;
const EXPRESSION: &str = "tcp port 80";
const DUMPCAP: &str = "dpdk-dumpcap";
/// Debian's dpdk-dumpcap captures nothing from testpmd without it: the drivers of memory pools have other numbers.
const DUMPCAP_PRELOAD: &str = "/usr/lib/x86_64-linux-gnu/dpdk/pmds-23.0/librte_mempool_dpaa.so.23";

/// What the project promises: ns over the filter's own, and percent where packets are worked on.
const NS_OVER_FILTER_MAX: f64 = 2.0;
const NS_A_BURST_MAX: f64 = 10.0;
const WORK_LOSS_MAX: f64 = 5.0;

/// What testpmd does with packets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Work {
    /// The driver of rings, packets passed on as they are. They are testpmd's own, UDP without a checksum.
    Rings,
    /// The same with headers parsed, and the checksum of the IP header computed.
    RingsChecksums,
    /// The driver that makes packets of zeros and forgets what it sends.
    Null,
    /// The driver of capture files, which copies each packet out of memory: UDP packets that have checksums, which are computed too.
    FileChecksums,
}

impl Work {
    const ALL: [Work; 4] = [Work::Rings, Work::RingsChecksums, Work::Null, Work::FileChecksums];

    fn name(self) -> &'static str {
        testpmd::setup(self).name
    }

    /// Whether the side is measured there.
    fn has(self, side: &str) -> bool {
        match side {
            HISTOGRAM | BPFTRACE => self == Work::Rings,
            FEW => self == Work::FileChecksums,
            ONE_PORT => matches!(self, Work::RingsChecksums | Work::FileChecksums),
            ALL | DUMPCAP => self != Work::Null,
            _ => true,
        }
    }
}

/// By [`Work::ALL`]: ns a packet, where the side is measured.
type Sample = [Option<f64>; 4];

pub(super) fn measure(plan: &Plan) -> Result<()> {
    process::find_program("dpdk-testpmd").context("dpdk-testpmd is not installed (Debian: dpdk-dev)")?;
    let weir = workspace::weir(None)?;
    let built =
        workspace::build("release", &["--package", "weir-dpdk", "--lib", "--example", "filter_alone"])?;
    let (plugin, filter) = (built.join("libweir_dpdk.so"), built.join("examples/filter_alone"));
    let has_huge = huge_pages_free() >= 400;
    let (sides, missing) = sides(has_huge);
    let file = file::write()?;
    let mut bare = Testpmd::start("bare", None, &file, has_huge)?;
    // Two processes differ in where their memory is.
    let mut again = Testpmd::start("again", None, &file, has_huge)?;
    let mut loaded = Testpmd::start("loaded", Some(&plugin), &file, has_huge)?;
    let alone: Vec<f64> = (0..plan.rounds).map(|_| filter_alone(&filter)).collect::<Result<_>>()?;
    let mut run = |_, side: &&str| {
        let mut sample = Sample::default();
        for (ns, work) in sample.iter_mut().zip(Work::ALL).filter(|(_, work)| work.has(side)) {
            let testpmd = match *side {
                BARE | DUMPCAP => &mut bare,
                AGAIN => &mut again,
                _ => &mut loaded,
            };
            let ports = testpmd.capture_of(work, *side == ONE_PORT);
            let captured = |expression: &str| capture(&weir, &ports, expression);
            let commands = match *side {
                BARE | AGAIN | LOADED => Vec::new(),
                DUMPCAP => vec![dumpcap(testpmd, work)],
                HISTOGRAM => vec![captured(EXPRESSION), histogram(&weir, testpmd.pid())],
                BPFTRACE => vec![captured(EXPRESSION), bpftrace(testpmd.pid())],
                other => vec![captured(other.split(" (").next().unwrap_or(other))],
            };
            *ns = Some(testpmd.ns_a_packet(work, commands)?);
        }
        Ok(sample)
    };
    alternate(plan, &sides, &mut run, &|rounds| {
        let mut figures = Figures { missing: missing.clone(), ..Figures::default() };
        add_figures(&mut figures, &sides, rounds);
        for side in [HISTOGRAM, BPFTRACE] {
            figures.describe(side, "added ns a burst", "ns", &histograms(&sides, rounds, side));
        }
        figures.describe("filter alone", "ns a look", "ns", &alone);
        let bars = bars(&figures);
        let pages = if has_huge { "huge pages" } else { "pages of 4 KiB" };
        let title = format!("Capturing in dpdk-testpmd, {pages}, {} rounds", plan.rounds);
        Outcome { title, figures, bars, remarks: Vec::new() }
    })
}

/// What is measured, and what cannot be.
fn sides(has_huge: bool) -> (Vec<&'static str>, Vec<String>) {
    let (mut sides, mut missing) =
        (vec![BARE, AGAIN, LOADED, NOTHING, ONE_PORT, FEW, ALL, HISTOGRAM], Vec::new());
    if process::find_program("bpftrace").is_some() {
        sides.push(BPFTRACE);
    } else {
        missing.push(format!("{BPFTRACE}: bpftrace is not installed"));
    }
    if !has_huge {
        missing.push(format!("{DUMPCAP}: needs 400 free huge pages of 2 MiB (vm.nr_hugepages)"));
    } else if !Path::new(DUMPCAP_PRELOAD).exists() || process::find_program(DUMPCAP).is_none() {
        missing.push(format!("{DUMPCAP}: is not installed, or not DPDK 22.11's"));
    } else {
        sides.push(DUMPCAP);
    }
    (sides, missing)
}

fn add_figures(figures: &mut Figures, sides: &[&str], rounds: &Rounds<Sample>) {
    for (index, work) in Work::ALL.into_iter().enumerate() {
        let bare = of(sides, rounds, BARE, index);
        for side in sides {
            let samples = of(sides, rounds, side, index);
            figures.add(side, &format!("{}: ns a packet", work.name()), "ns", &samples);
            if *side != BARE {
                let added = samples.iter().zip(&bare);
                let looks = if *side == ONE_PORT { 1.0 } else { 2.0 };
                let ns: Vec<f64> = added.clone().map(|(side, bare)| (side - bare) / looks).collect();
                let loss: Vec<f64> = added.map(|(side, bare)| 100.0 * (1.0 - bare / side)).collect();
                figures.describe(side, &format!("{}: added ns a look", work.name()), "ns", &ns);
                figures.describe(side, &format!("{}: packets lost to it", work.name()), "%", &loss);
            }
        }
    }
}

/// What a side gave in each round at one of [`Work::ALL`].
fn of(sides: &[&str], rounds: &Rounds<Sample>, side: &str, work: usize) -> Vec<f64> {
    let found = rounds.with(sides).find(|(name, _)| **name == side);
    found.map_or(&[][..], |(_, samples)| samples).iter().filter_map(|sample| sample[work]).collect()
}

/// What the side's script adds to a burst, in a round each.
fn histograms(sides: &[&str], rounds: &Rounds<Sample>, side: &str) -> Vec<f64> {
    let of = |name: &str| of(sides, rounds, name, 0);
    of(side).iter().zip(of(NOTHING)).map(|(with, without)| (with - without) * BURST).collect()
}

/// Each bar, met or not.
fn bars(figures: &Figures) -> Vec<String> {
    let figure = |side: &str, work: Work, what: &str| {
        figures.get(side, &format!("{}: {what}", work.name())).map(|figure| figure.summary)
    };
    let mut lines = Vec::new();
    let mut bar = |what: String, value: Option<f64>, is_met: bool| {
        lines.push(format!("bar: {what}: {}", verdict(value, 2, |_| is_met)));
    };
    let alone = figures.get("filter alone", "ns a look").map_or(f64::NAN, |figure| figure.summary.median);
    let look = figure(NOTHING, Work::Rings, "added ns a look").map(|summary| summary.median);
    let most = alone + NS_OVER_FILTER_MAX;
    bar(format!("at most {most:.2} ns a look that keeps nothing"), look, look.is_some_and(|ns| ns <= most));
    for (work, side) in [Work::FileChecksums, Work::RingsChecksums]
        .into_iter()
        .flat_map(|work| [(work, NOTHING), (work, ONE_PORT)])
    {
        let loss = figure(side, work, "packets lost to it").map(|summary| summary.median);
        bar(
            format!("at most {WORK_LOSS_MAX} % with {}: {side}", work.name()),
            loss,
            loss.is_some_and(|loss| loss <= WORK_LOSS_MAX),
        );
    }
    let burst = figures.get(HISTOGRAM, "added ns a burst").map(|figure| figure.summary.median);
    let is_met = burst.is_some_and(|ns| ns <= NS_A_BURST_MAX);
    bar(format!("at most {NS_A_BURST_MAX} ns a burst for a histogram"), burst, is_met);
    for work in Work::ALL {
        let idle = figure(LOADED, work, "added ns a look").zip(figure(AGAIN, work, "added ns a look"));
        let is_inside = idle.is_some_and(|(idle, again)| idle.low <= again.high);
        let added = idle.map(|(idle, _)| idle.median);
        bar(format!("loaded and idle no slower than A/A: {}", work.name()), added, is_inside);
    }
    lines
}

/// A command that says nothing.
fn quiet(program: impl AsRef<std::ffi::OsStr>, arguments: &[&str]) -> Command {
    let mut command = Command::new(program);
    command.args(arguments).stdout(Stdio::null()).stderr(Stdio::null());
    command
}

fn capture(weir: &Path, ports: &str, expression: &str) -> Command {
    quiet(weir, &["capture", "--dpdk", ports, "-q", "-w", "/dev/null", "-f", expression])
}

/// Packets of each burst; DPDK calls this function where a queue has a callback.
fn histogram(weir: &Path, pid: i32) -> Command {
    let script = format!("{PROBE} {{ @ = lhist(arg3, 0, 64, 4); }}");
    quiet(weir, &["trace", "-p", &pid.to_string(), "-e", &script])
}

fn bpftrace(pid: i32) -> Command {
    let script = format!("{PROBE} /pid == {pid}/ {{ @ = lhist(arg3, 0, 64, 4); }}");
    quiet("bpftrace", &["-e", &script])
}

/// Of the port that is named last, whatever was named before (so DPDK 22.11 has it), with the filter that keeps nothing.
fn dumpcap(testpmd: &Testpmd, work: Work) -> Command {
    let [one, other] = testpmd::setup(work).devices();
    let mut command = quiet(DUMPCAP, &["--file-prefix", testpmd.prefix(), "-i", &one, "-i", &other, "-q"]);
    command.args(["-f", EXPRESSION, "-w", "/dev/null"]).env("LD_PRELOAD", DUMPCAP_PRELOAD);
    command
}

/// ns of the filter by itself, on packets that are in the cache.
fn filter_alone(program: &Path) -> Result<f64> {
    let output = process::output_within(Command::new(program).arg(EXPRESSION), START_LIMIT)?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    match text.trim().parse() {
        Ok(ns) => Ok(ns),
        Err(_) => bail!("{text:?} is no number of ns"),
    }
}

fn huge_pages_free() -> u64 {
    let text = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("HugePages_Free:"));
    line.and_then(|number| number.trim().parse().ok()).unwrap_or(0)
}
