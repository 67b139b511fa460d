//! dpdk: what capturing in a DPDK application costs it, in ns a packet that it forwards.
//!
//! Two dpdk-testpmd run, one without the plugin and one that has loaded it; one of them forwards at a time, between two rings, on a
//! CPU of its own. A sample is the time over the packets that testpmd's own statistics count meanwhile. In each round every side's
//! cost less the bare one's is what it adds; a captured packet is looked at twice, when it is received and when it is sent, so half of
//! that is a look. testpmd's packets are UDP: `tcp port 80` keeps none of them.
//!
//! With huge pages if the machine has some free, which is how DPDK is run; otherwise a packet's memory costs translations
//! that are not the plugin's. dpdk-dumpcap needs them.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{ChildStdin, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use nix::sys::signal::Signal;
use serde_json::Value;

use crate::bench::Outcome;
use crate::bench::figures::Figures;
use crate::bench::plan::{AGAIN, BARE, Plan};
use crate::bench::report::verdict;
use crate::bench::rounds::{Rounds, alternate};
use crate::process::{self, Guard};
use crate::workspace;

/// How long packets are counted for one sample, and how long what was just begun is given.
const SAMPLE: Duration = Duration::from_millis(200);
const SETTLING: Duration = Duration::from_millis(300);
/// LIMIT: a start of testpmd, or of a capture.
const START_LIMIT: Duration = Duration::from_secs(20);
/// LIMIT: its end, after which it is killed.
const QUIT_LIMIT: Duration = Duration::from_secs(5);

const LOADED: &str = "loaded, idle";
const NOTHING: &str = "tcp port 80 (keeps 0 %)";
const ALL: &str = "udp (keeps 100 %)";
/// The first of these, and a script that counts packets in bursts.
const HISTOGRAM: &str = "tcp port 80 and a histogram of bursts";
const SCRIPT: &str = "uprobe:/usr/lib/x86_64-linux-gnu/librte_ethdev.so.23:rte_eth_call_rx_callbacks { @ = lhist(arg3, 0, 64, 4); }";
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

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Work {
    /// Packets are passed on as they are, 64 bytes each.
    Forward,
    /// Headers are parsed, and checksums computed, of 512 bytes.
    Checksums,
}

impl Work {
    const ALL: [Work; 2] = [Work::Forward, Work::Checksums];

    fn name(self) -> &'static str {
        match self {
            Work::Forward => "io, 64 bytes",
            Work::Checksums => "csum, 512 bytes",
        }
    }

    fn settings(self) -> [&'static str; 2] {
        match self {
            Work::Forward => ["set fwd io", "set txpkts 64"],
            Work::Checksums => ["set fwd csum", "set txpkts 512"],
        }
    }
}

/// By [`Work::ALL`]: ns a packet.
type Sample = [f64; 2];

pub(super) fn measure(plan: &Plan) -> Result<()> {
    process::find_program("dpdk-testpmd").context("dpdk-testpmd is not installed (Debian: dpdk-dev)")?;
    let weir = workspace::weir(None)?;
    let built =
        workspace::build("release", &["--package", "weir-dpdk", "--lib", "--example", "filter_alone"])?;
    let (plugin, filter) = (built.join("libweir_dpdk.so"), built.join("examples/filter_alone"));
    let has_huge = huge_pages_free() >= 300;
    let mut missing = Vec::new();
    let mut sides = vec![BARE, AGAIN, LOADED, NOTHING, ALL, HISTOGRAM];
    if !has_huge {
        missing.push(format!("{DUMPCAP}: needs 300 free huge pages of 2 MiB (vm.nr_hugepages)"));
    } else if !Path::new(DUMPCAP_PRELOAD).exists() || process::find_program(DUMPCAP).is_none() {
        missing.push(format!("{DUMPCAP}: is not installed, or not DPDK 22.11's"));
    } else {
        sides.push(DUMPCAP);
    }
    let mut bare = Testpmd::start("bare", None, has_huge)?;
    let mut loaded = Testpmd::start("loaded", Some(&plugin), has_huge)?;
    let alone: Vec<f64> = (0..plan.rounds).map(|_| filter_alone(&filter)).collect::<Result<_>>()?;
    let mut run = |_, side: &&str| {
        let mut sample = Sample::default();
        for (ns, work) in sample.iter_mut().zip(Work::ALL) {
            *ns = match *side {
                BARE | AGAIN => bare.ns_a_packet(work, Vec::new())?,
                LOADED => loaded.ns_a_packet(work, Vec::new())?,
                DUMPCAP => {
                    let command = dumpcap(&bare.prefix);
                    bare.ns_a_packet(work, vec![command])?
                }
                HISTOGRAM => {
                    let commands = vec![
                        capture(&weir, &loaded.prefix, EXPRESSION),
                        histogram(&weir, loaded.process.pid()),
                    ];
                    loaded.ns_a_packet(work, commands)?
                }
                other => {
                    let expression = other.split(" (").next().unwrap_or(other);
                    let command = capture(&weir, &loaded.prefix, expression);
                    loaded.ns_a_packet(work, vec![command])?
                }
            };
        }
        Ok(sample)
    };
    alternate(plan, &sides, &mut run, &|rounds| {
        let mut figures = Figures { missing: missing.clone(), ..Figures::default() };
        add_figures(&mut figures, &sides, rounds);
        figures.describe(HISTOGRAM, "added ns a burst", "ns", &histograms(&sides, rounds));
        figures.describe("filter alone", "ns a look", "ns", &alone);
        let bars = bars(&figures);
        let pages = if has_huge { "huge pages" } else { "pages of 4 KiB" };
        let title = format!("Capturing in dpdk-testpmd, {pages}, {} rounds", plan.rounds);
        Outcome { title, figures, bars, remarks: Vec::new() }
    })
}

fn add_figures(figures: &mut Figures, sides: &[&str], rounds: &Rounds<Sample>) {
    let bare: Vec<Sample> =
        rounds.with(sides).find(|(side, _)| **side == BARE).map_or(Vec::new(), |(_, of)| of.to_vec());
    for (index, work) in Work::ALL.into_iter().enumerate() {
        for (side, samples) in rounds.with(sides) {
            let of = |samples: &[Sample]| samples.iter().map(|sample| sample[index]).collect::<Vec<f64>>();
            figures.add(side, &format!("{}: ns a packet", work.name()), "ns", &of(samples));
            let pairs = of(samples).into_iter().zip(of(&bare));
            let added: Vec<(f64, f64)> = pairs.collect();
            if *side != BARE {
                let ns: Vec<f64> = added.iter().map(|(side, bare)| (side - bare) / 2.0).collect();
                let loss: Vec<f64> = added.iter().map(|(side, bare)| 100.0 * (1.0 - bare / side)).collect();
                figures.describe(side, &format!("{}: added ns a look", work.name()), "ns", &ns);
                figures.describe(side, &format!("{}: packets lost to it", work.name()), "%", &loss);
            }
        }
    }
}

/// What the script adds to a burst, in a round each.
fn histograms(sides: &[&str], rounds: &Rounds<Sample>) -> Vec<f64> {
    let of = |name: &str| {
        let samples =
            rounds.with(sides).find(|(side, _)| **side == name).map_or(&[][..], |(_, samples)| samples);
        samples.iter().map(|sample| sample[0]).collect::<Vec<f64>>()
    };
    of(HISTOGRAM).iter().zip(of(NOTHING)).map(|(with, without)| (with - without) * BURST).collect()
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
    let look = figure(NOTHING, Work::Forward, "added ns a look").map(|summary| summary.median);
    let most = alone + NS_OVER_FILTER_MAX;
    bar(format!("at most {most:.2} ns a look that keeps nothing"), look, look.is_some_and(|ns| ns <= most));
    let loss = figure(NOTHING, Work::Checksums, "packets lost to it").map(|summary| summary.median);
    bar(
        format!("at most {WORK_LOSS_MAX} % with csum and 512 bytes"),
        loss,
        loss.is_some_and(|loss| loss <= WORK_LOSS_MAX),
    );
    let burst = figures.get(HISTOGRAM, "added ns a burst").map(|figure| figure.summary.median);
    let is_met = burst.is_some_and(|ns| ns <= NS_A_BURST_MAX);
    bar(format!("at most {NS_A_BURST_MAX} ns a burst for a histogram"), burst, is_met);
    let idle =
        figure(LOADED, Work::Forward, "added ns a look").zip(figure(AGAIN, Work::Forward, "added ns a look"));
    let is_inside = idle.is_some_and(|(idle, again)| idle.low <= again.high);
    bar("loaded and idle no slower than A/A".to_owned(), idle.map(|(idle, _)| idle.median), is_inside);
    lines
}

/// A running dpdk-testpmd, which does not forward.
struct Testpmd {
    process: Guard,
    stdin: ChildStdin,
    prefix: String,
}

impl Testpmd {
    fn start(name: &str, plugin: Option<&Path>, has_huge: bool) -> Result<Testpmd> {
        let prefix = format!("weir-bench-{name}-{}", std::process::id());
        let mut command = Command::new("dpdk-testpmd");
        if !has_huge {
            command.arg("--no-huge");
        }
        command.args(["-m", "128", "--no-pci", "--file-prefix", &prefix, "-l", "0,1"]);
        command.args(["--vdev=net_ring0", "--vdev=net_ring1", "--", "--no-mlockall"]);
        command.args(["--total-num-mbufs=2048", "--no-flush-rx", "-i"]);
        if let Some(plugin) = plugin {
            command.env("LD_PRELOAD", plugin);
        }
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut process = Guard::spawn(&mut command)?;
        let stdin = process.0.stdin.take().context("a pipe to dpdk-testpmd")?;
        let testpmd = Testpmd { process, stdin, prefix };
        let began = Instant::now();
        while testpmd.received().is_err() {
            ensure!(began.elapsed() < START_LIMIT, "dpdk-testpmd does not answer: does it start by hand?");
            sleep(SETTLING);
        }
        sleep(2 * SETTLING);
        Ok(testpmd)
    }

    /// Forwards for a while, with `beside` running if there is such.
    fn ns_a_packet(&mut self, work: Work, beside: Vec<Command>) -> Result<f64> {
        for words in work.settings() {
            self.say(words)?;
        }
        self.say("start tx_first")?;
        let mut running = Vec::new();
        for mut command in beside {
            running.push(Guard::spawn(&mut command)?);
            sleep(SETTLING);
        }
        sleep(SETTLING);
        if !running.is_empty() {
            sleep(SETTLING);
        }
        let (began, before) = (Instant::now(), self.received()?);
        sleep(SAMPLE);
        let (packets, took) = (self.received()? - before, began.elapsed());
        while let Some(mut process) = running.pop() {
            ensure!(process.is_running()?, "what captures or traces has ended by itself");
            process.signal(Signal::SIGINT)?;
            process.0.wait()?;
        }
        self.say("stop")?;
        sleep(SETTLING / 3);
        ensure!(packets > 0, "testpmd forwards nothing");
        Ok(took.as_nanos() as f64 / packets as f64)
    }

    fn say(&mut self, words: &str) -> Result<()> {
        writeln!(self.stdin, "{words}").context("dpdk-testpmd")
    }

    /// Packets that both ports have received so far.
    fn received(&self) -> Result<u64> {
        let mut sum = 0;
        for answer in asked(&self.prefix, &["/ethdev/stats,0", "/ethdev/stats,1"])? {
            sum += answer["/ethdev/stats"]["ipackets"].as_u64().context("no ipackets in the statistics")?;
        }
        Ok(sum)
    }
}

impl Drop for Testpmd {
    fn drop(&mut self) {
        let _ = self.say("quit");
        let _ = self.process.wait_within(QUIT_LIMIT);
    }
}

/// Answers of an application's telemetry.
fn asked(prefix: &str, commands: &[&str]) -> Result<Vec<Value>> {
    use nix::sys::socket::{
        AddressFamily, MsgFlags, SockFlag, SockType, UnixAddr, connect, recv, send, socket,
    };
    use std::os::fd::AsRawFd as _;
    let fd = socket(AddressFamily::Unix, SockType::SeqPacket, SockFlag::SOCK_CLOEXEC, None)?;
    let path = PathBuf::from("/var/run/dpdk").join(prefix).join("dpdk_telemetry.v2");
    connect(fd.as_raw_fd(), &UnixAddr::new(&path)?)?;
    let mut bytes = vec![0; 16 << 10];
    recv(fd.as_raw_fd(), &mut bytes, MsgFlags::empty())?;
    let mut ask = |command: &&str| -> Result<Value> {
        send(fd.as_raw_fd(), command.as_bytes(), MsgFlags::empty())?;
        let received = recv(fd.as_raw_fd(), &mut bytes, MsgFlags::empty())?;
        let text = String::from_utf8_lossy(&bytes[..received]);
        Ok(serde_json::from_str(text.trim_end_matches('\0'))?)
    };
    commands.iter().map(&mut ask).collect()
}

fn capture(weir: &Path, prefix: &str, expression: &str) -> Command {
    let mut command = Command::new(weir);
    command.args(["capture", "--dpdk", prefix, "-q", "-w", "/dev/null", "-f", expression]);
    command.stdout(Stdio::null()).stderr(Stdio::null());
    command
}

/// Packets of each burst; DPDK calls this function where a queue has a callback.
fn histogram(weir: &Path, pid: i32) -> Command {
    let mut command = Command::new(weir);
    command.args(["trace", "-p", &pid.to_string(), "-e", SCRIPT]);
    command.stdout(Stdio::null()).stderr(Stdio::null());
    command
}

/// Of the port that is named last, whatever was named before (so DPDK 22.11 has it), with the filter that keeps nothing.
fn dumpcap(prefix: &str) -> Command {
    let mut command = Command::new(DUMPCAP);
    command.args(["--file-prefix", prefix, "-i", "net_ring0", "-i", "net_ring1", "-q", "-f", EXPRESSION]);
    command.args(["-w", "/dev/null"]).env("LD_PRELOAD", DUMPCAP_PRELOAD);
    command.stdout(Stdio::null()).stderr(Stdio::null());
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
