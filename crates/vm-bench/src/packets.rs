//! Packet filters on weir's engines, in libpcap's interpreter and in the kernel, for `cargo xtask bench pcap`.
//!
//! [`mod@traces`] makes packets; [`sides`] makes an expression ready on each side. The answers of all sides are compared, packet by packet,
//! before anything is timed.

mod sides;
mod traces;

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, anyhow, ensure};
use testkit::libpcap::{Libpcap, NETMASK_UNKNOWN};
use weir_ebpf::Program;
use weir_jit::compile as to_machine_code;
use weir_pcap_filter::{LinkType, Mode, NoNames, Options, SNAPLEN_DEFAULT};
use weir_rt::local::{self, LocalProgram};
use weir_rt::segment::{Identity, Segment, SegmentLayout};
use weir_verifier::{Limits, VerifiedProgram};

pub use self::sides::{Side, Sides};
pub use self::traces::{Trace, traces};

/// The link type of all traces.
pub const ETHERNET: i32 = 1;

/// The expressions that are timed: a name, and the text. The first keeps every packet.
pub fn filters() -> Vec<(&'static str, String)> {
    let written = [
        ("empty", ""),
        ("ip", "ip"),
        ("tcp", "tcp"),
        ("tcp port 80", "tcp port 80"),
        ("host", "host 10.1.0.7"),
        ("net", "net 192.168.0.0/16"),
        ("udp port 53 or 123", "udp port 53 or 123"),
        ("portrange", "portrange 6000-8000"),
        (
            "syn or fin, not local",
            "tcp[tcpflags] & (tcp-syn|tcp-fin) != 0 and not src and dst net 10.0.0.0/8",
        ),
        ("http with data", "tcp port 80 and (((ip[2:2] - ((ip[0]&0xf)<<2)) - ((tcp[12]&0xf0)>>2)) != 0)"),
        ("arp or icmp", "arp or icmp or icmp6"),
        ("ip6 tcp 443", "ip6 and tcp dst port 443"),
        ("ether multicast and large", "ether multicast and greater 512"),
        ("8 ports", "tcp and (port 22 or 80 or 443 or 8080 or 3306 or 5432 or 6379 or 11211)"),
    ];
    let mut filters: Vec<(&str, String)> =
        written.iter().map(|(name, text)| (*name, (*text).to_owned())).collect();
    filters.push(("300 hosts", hosts(300)));
    filters
}

/// `host A or host B …`, of `count` addresses of which the traces have a few.
pub fn hosts(count: u32) -> String {
    let host = |at: u32| format!("host 10.{}.{}.{}", 1 + at / 200 % 200, at * 7 % 251, at % 200 + 1);
    (0..count).map(host).collect::<Vec<_>>().join(" or ")
}

/// weir's program of an expression, with libpcap's meaning.
pub fn weirs(text: &str) -> Result<Program> {
    let options =
        Options { link_type: LinkType::EN10MB, snaplen: SNAPLEN_DEFAULT, netmask: None, mode: Mode::Compat };
    let filter = weir_pcap_filter::compile(text, &options, &NoNames);
    let filter = filter.map_err(|faults| anyhow!("{text}: {faults:?}"))?;
    filter.program("filter").context("the program does not fit")
}

/// A program that passed the verifier.
pub fn verified(program: &Program) -> Result<VerifiedProgram> {
    Ok(weir_verifier::verify(program, &[], &Limits::default())?)
}

/// A segment without maps.
pub fn segment() -> Result<Segment> {
    let layout = SegmentLayout::plan(&[], local::possible_cpus())?;
    Ok(Segment::create_local(layout, &Identity::default())?)
}

/// Verified, compiled and linked.
pub fn native(program: &Program) -> Result<LocalProgram> {
    let segment = segment()?;
    let executable = to_machine_code(&verified(program)?, &local::site(segment.layout()))?;
    Ok(LocalProgram::load(&executable, &segment)?)
}

/// From text to machine code: what each stage of it took.
#[derive(Clone, Copy, Debug, Default)]
pub struct Stages {
    /// Text to eBPF.
    pub front: Duration,
    /// The verifier's proof.
    pub verify: Duration,
    /// Machine code, linked.
    pub jit: Duration,
}

/// Compiles an expression to machine code once.
pub fn stages(text: &str) -> Result<Stages> {
    let start = Instant::now();
    let program = weirs(text)?;
    let front = start.elapsed();
    let segment = segment()?;
    let start = Instant::now();
    let proved = verified(&program)?;
    let verify = start.elapsed();
    let start = Instant::now();
    let executable = to_machine_code(&proved, &local::site(segment.layout()))?;
    LocalProgram::load(&executable, &segment)?;
    Ok(Stages { front, verify, jit: start.elapsed() })
}

/// What libpcap takes to compile an expression, with its optimiser.
pub fn libpcaps_compile_time(text: &str) -> Result<Duration> {
    let pcap = libpcap()?;
    let start = Instant::now();
    let program = pcap.compile(ETHERNET, SNAPLEN_DEFAULT, text, true, NETMASK_UNKNOWN);
    let took = start.elapsed();
    program.map(|_| took).map_err(|error| anyhow!("libpcap refuses {text:?}: {error}"))
}

fn libpcap() -> Result<&'static Libpcap> {
    Libpcap::load().context("libpcap.so.0.8 is not installed (Debian's libpcap0.8)")
}

/// All sides give the same for every packet.
pub fn compare(sides: &mut Sides, trace: &Trace) -> Result<()> {
    for packet in &trace.packets {
        let mut first = None;
        for side in &mut sides.all {
            let answer = side.once(packet)?;
            let (name, expected) = *first.get_or_insert((side.name(), answer));
            ensure!(
                answer == expected,
                "{} gives {answer}, {name} {expected}, for {packet:02x?}",
                side.name()
            );
        }
    }
    Ok(())
}
