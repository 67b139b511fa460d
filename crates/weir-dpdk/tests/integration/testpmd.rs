//! The same with DPDK itself: dpdk-testpmd, which forwards between two virtual ports.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use testkit::skip::skip;
use weir_dpdk_source::{Application, Capture, Direction, Options};

use crate::application::{filtered, finish, preloadable, sum, wait_until};

/// dpdk-testpmd on two rings, each of which gives what is sent to it.
struct Testpmd {
    child: Child,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
    prefix: String,
}

impl Testpmd {
    /// None, loudly, where it is not installed.
    fn start(name: &str) -> Option<Testpmd> {
        let plugin = preloadable();
        if !std::env::var_os("PATH").is_some_and(|path| {
            std::env::split_paths(&path).any(|folder| folder.join("dpdk-testpmd").exists())
        }) {
            skip("dpdk-testpmd", "dpdk-testpmd is not installed");
            return None;
        }
        let one_cpu = std::thread::available_parallelism().is_ok_and(|cpus| cpus.get() < 2);
        let lcores = if one_cpu { "0@0,1@0" } else { "0@0,1@1" };
        let prefix = format!("weir-{name}-{}", std::process::id());
        // A line at a time: what is in a pipe's buffer when it stops would be waited for in vain.
        let mut command = Command::new("stdbuf");
        command.args(["-oL", "dpdk-testpmd"]);
        command.args(["--no-huge", "-m", "128", "--no-pci", "--file-prefix", &prefix, "--lcores", lcores]);
        command.args(["--vdev=net_ring0", "--vdev=net_ring1", "--", "--no-mlockall"]);
        command.args(["--total-num-mbufs=2048", "--no-flush-rx", "-i"]).env("LD_PRELOAD", &plugin);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        let (stdin, stdout) = (child.stdin.take().unwrap(), BufReader::new(child.stdout.take().unwrap()));
        let testpmd = Testpmd { child, stdin, stdout, prefix };
        wait_until("testpmd answers", || {
            Application::find(&testpmd.prefix).is_ok_and(|application| {
                application
                    .ports()
                    .is_ok_and(|ports| ports.iter().filter(|port| port.rx_queues > 0).count() == 2)
            })
        });
        Some(testpmd)
    }

    fn say(&mut self, words: &str) {
        writeln!(self.stdin, "{words}").unwrap();
    }

    /// Stops forwarding. What each port has received and sent meanwhile.
    fn stop(&mut self) -> [(u64, u64); 2] {
        self.say("stop");
        let mut counts = [(0, 0); 2];
        let mut port = None;
        loop {
            let mut line = String::new();
            assert!(self.stdout.read_line(&mut line).unwrap() > 0, "testpmd has ended");
            let after = |name: &str| {
                let number = line.split_once(name)?.1.split_whitespace().next()?;
                number.parse::<u64>().ok()
            };
            port = after("Forward statistics for port").or(port);
            if let (Some(port @ 0..2), Some(rx)) = (port, after("RX-packets:")) {
                counts[port as usize].0 = rx;
            }
            if let (Some(port @ 0..2), Some(tx)) = (port, after("TX-packets:")) {
                counts[port as usize].1 = tx;
            }
            if line.contains("Accumulated forward statistics") {
                return counts;
            }
        }
    }
}

impl Drop for Testpmd {
    fn drop(&mut self) {
        let _ = writeln!(self.stdin, "quit");
        let _ = self.child.kill();
        let _ = self.child.wait();
        // It was not given the time to remove them.
        let folder = Application::folder(&self.prefix);
        let _ = folder.map(std::fs::remove_dir_all);
    }
}

fn capture(testpmd: &Testpmd, options: &Options) -> Capture {
    let application = Application::find(&testpmd.prefix).unwrap();
    let ports = application.ports().unwrap();
    Capture::start(application, ports, options).unwrap()
}

#[test]
fn testpmd_s_packets_are_captured_to_the_last() {
    let Some(mut testpmd) = Testpmd::start("all") else { return };
    // What it sends first is UDP.
    for (expression, is_kept) in [("", true), ("udp", true), ("tcp port 80", false)] {
        let mut capture = capture(&testpmd, &filtered(expression));
        testpmd.say("start tx_first");
        let mut packets = 0;
        wait_until("packets come", || {
            packets +=
                capture.poll(&mut |packet| packet.bytes.len() == 64 && packet.wire_bytes == 64).unwrap().0;
            sum(&capture.counters()).received > 10_000
        });
        let counts = testpmd.stop();
        let (ended, rest) = finish(&mut capture);
        for (port, spec, counters) in &ended.rings {
            let all = counters.filtered + counters.written + counters.dropped;
            assert_eq!(counters.received, all, "{expression:?}: {spec:?}");
            if spec.direction == Direction::Rx {
                assert_eq!(counters.received, counts[*port].0, "{expression:?}: {spec:?}");
            }
        }
        let sum = sum(&ended.rings);
        assert_eq!(sum.written, packets + rest.len() as u64, "{expression:?}");
        assert_eq!((sum.written > 0, sum.filtered > 0), (is_kept, !is_kept), "{expression:?}");
    }
}

#[test]
fn testpmd_forwards_on_while_captures_come_and_go() {
    let Some(mut testpmd) = Testpmd::start("go") else { return };
    testpmd.say("start tx_first");
    for round in 0..10 {
        let mut capture = capture(&testpmd, &filtered(["udp", "tcp"][round % 2]));
        wait_until("packets come", || {
            capture.poll(&mut |_| true).unwrap();
            sum(&capture.counters()).received > 0
        });
        let (ended, _) = finish(&mut capture);
        assert_eq!(ended.words.as_deref(), Some("ok: 4 queues are free again"));
    }
    assert!(testpmd.stop()[0].0 > 0);
}
