//! A dpdk-testpmd that forwards when it is asked to.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{ChildStdin, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use nix::sys::signal::Signal;
use serde_json::Value;

use super::Work;
use crate::process::Guard;

/// How long packets are counted for one sample, and how long what was just begun is given.
const SAMPLE: Duration = Duration::from_millis(200);
const SETTLING: Duration = Duration::from_millis(300);
/// LIMIT: a start of testpmd, or of a capture.
pub(super) const START_LIMIT: Duration = Duration::from_secs(20);
/// LIMIT: its end, after which it is killed.
const QUIT_LIMIT: Duration = Duration::from_secs(5);
/// Bursts that are put into each ring at first, of 32 packets.
const BURSTS: u32 = 16;

/// A running dpdk-testpmd, which does not forward.
pub(super) struct Testpmd {
    process: Guard,
    stdin: ChildStdin,
    prefix: String,
    /// Rings that have packets.
    filled: Vec<Work>,
}

/// A work's ports, and what is done there.
pub(super) struct Setup {
    pub(super) name: &'static str,
    driver: &'static str,
    /// The number of the first of two devices of the driver; rings keep their packets, so that each kind of them has its own.
    device: u32,
    /// The number of its port; the second has the next.
    port: u32,
    forward: &'static str,
    /// Bytes of the packets that testpmd puts into the rings.
    bytes: Option<u32>,
}

/// By [`Work::ALL`].
const SETUPS: [Setup; 4] = [
    Setup { name: "ring, io, 64 bytes", driver: "ring", device: 0, port: 0, forward: "io", bytes: Some(64) },
    Setup {
        name: "ring, csum, 512 bytes",
        driver: "ring",
        device: 2,
        port: 2,
        forward: "csum",
        bytes: Some(512),
    },
    Setup { name: "null, io, 64 bytes", driver: "null", device: 0, port: 4, forward: "io", bytes: None },
    Setup { name: "pcap, csum, 512 bytes", driver: "pcap", device: 0, port: 6, forward: "csum", bytes: None },
];

pub(super) fn setup(work: Work) -> &'static Setup {
    &SETUPS[work as usize]
}

impl Setup {
    /// The names of its devices.
    pub(super) fn devices(&self) -> [String; 2] {
        [self.device, self.device + 1].map(|number| format!("net_{}{number}", self.driver))
    }

    fn ports(&self) -> [u32; 2] {
        [self.port, self.port + 1]
    }
}

impl Testpmd {
    pub(super) fn start(
        name: &str,
        plugin: Option<&Path>,
        packets: &Path,
        has_huge: bool,
    ) -> Result<Testpmd> {
        let prefix = format!("weir-bench-{name}-{}", std::process::id());
        let mut command = Command::new("dpdk-testpmd");
        if !has_huge {
            command.arg("--no-huge");
        }
        command.args(["-m", "192", "--no-pci", "--file-prefix", &prefix, "-l", "0,1"]);
        for work in Work::ALL {
            for device in setup(work).devices() {
                let options = match work {
                    Work::Rings | Work::RingsChecksums => String::new(),
                    Work::Null => ",size=64".to_owned(),
                    Work::FileChecksums => format!(",rx_pcap={},infinite_rx=1", packets.display()),
                };
                command.arg(format!("--vdev={device}{options}"));
            }
        }
        command.args(["--", "--no-mlockall", "--total-num-mbufs=8192", "--no-flush-rx", "-i"]);
        if let Some(plugin) = plugin {
            command.env("LD_PRELOAD", plugin);
        }
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut process = Guard::spawn(&mut command)?;
        let stdin = process.0.stdin.take().context("a pipe to dpdk-testpmd")?;
        let testpmd = Testpmd { process, stdin, prefix, filled: Vec::new() };
        let began = Instant::now();
        while testpmd.received(Work::FileChecksums).is_err() {
            ensure!(began.elapsed() < START_LIMIT, "dpdk-testpmd does not answer: does it start by hand?");
            sleep(SETTLING);
        }
        sleep(2 * SETTLING);
        Ok(testpmd)
    }

    pub(super) fn pid(&self) -> i32 {
        self.process.pid()
    }

    pub(super) fn prefix(&self) -> &str {
        &self.prefix
    }

    /// What `weir capture --dpdk` is given for both ports of a work, or for one.
    pub(super) fn capture_of(&self, work: Work, is_one: bool) -> String {
        let [one, other] = setup(work).ports();
        if is_one { format!("{}:{one}", self.prefix) } else { format!("{}:{one},{other}", self.prefix) }
    }

    /// Forwards for a while, with `beside` running if there is such.
    pub(super) fn ns_a_packet(&mut self, work: Work, beside: Vec<Command>) -> Result<f64> {
        let setup = setup(work);
        let [one, other] = setup.ports();
        self.say(&format!("set portlist {one},{other}"))?;
        self.say(&format!("set fwd {}", setup.forward))?;
        match setup.bytes.filter(|_| !self.filled.contains(&work)) {
            Some(bytes) => {
                self.say(&format!("set txpkts {bytes}"))?;
                self.say(&format!("start tx_first {BURSTS}"))?;
                self.filled.push(work);
            }
            None => self.say("start")?,
        }
        let mut running = Vec::new();
        for mut command in beside {
            running.push(Guard::spawn(&mut command)?);
            sleep(SETTLING);
        }
        sleep(SETTLING);
        if !running.is_empty() {
            sleep(SETTLING);
        }
        let (began, before) = (Instant::now(), self.received(work)?);
        sleep(SAMPLE);
        let (packets, took) = (self.received(work)? - before, began.elapsed());
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
    fn received(&self, work: Work) -> Result<u64> {
        let mut sum = 0;
        for answer in asked(&self.prefix, &setup(work).ports().map(|port| format!("/ethdev/stats,{port}")))? {
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
fn asked(prefix: &str, commands: &[String]) -> Result<Vec<Value>> {
    use nix::sys::socket::{
        AddressFamily, MsgFlags, SockFlag, SockType, UnixAddr, connect, recv, send, socket,
    };
    use std::os::fd::AsRawFd as _;
    let fd = socket(AddressFamily::Unix, SockType::SeqPacket, SockFlag::SOCK_CLOEXEC, None)?;
    let path = PathBuf::from("/var/run/dpdk").join(prefix).join("dpdk_telemetry.v2");
    connect(fd.as_raw_fd(), &UnixAddr::new(&path)?)?;
    let mut bytes = vec![0; 16 << 10];
    recv(fd.as_raw_fd(), &mut bytes, MsgFlags::empty())?;
    let mut ask = |command: &String| -> Result<Value> {
        send(fd.as_raw_fd(), command.as_bytes(), MsgFlags::empty())?;
        let received = recv(fd.as_raw_fd(), &mut bytes, MsgFlags::empty())?;
        let text = String::from_utf8_lossy(&bytes[..received]);
        Ok(serde_json::from_str(text.trim_end_matches('\0'))?)
    };
    commands.iter().map(&mut ask).collect()
}
