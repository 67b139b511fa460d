//! `tests/application.c`, compiled and running; and what captures from it.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use testkit::paths;
use weir_dpdk_source::{
    Application, Capture, Counters, Direction, Ended, Error, Flags, Options, Packet, Port, State,
};
use weir_packet_ring::RingSpec;
use weir_pcap_filter::{LinkType, Mode, NoNames, SNAPLEN_DEFAULT};

/// Everything that is waited for takes less.
pub(crate) const LONG: Duration = Duration::from_secs(60);

/// The running application.
pub(crate) struct Fake {
    pub(crate) child: Child,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
    pub(crate) socket: PathBuf,
}

/// What the application says it has handed to its ports.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Forwarded {
    pub(crate) rx: [u64; 2],
    pub(crate) tx: [u64; 2],
}

impl Forwarded {
    /// By one port.
    pub(crate) fn of(&self, port: usize, direction: Direction) -> u64 {
        match direction {
            Direction::Rx => self.rx[port],
            Direction::Tx => self.tx[port],
        }
    }

    pub(crate) fn all(&self) -> u64 {
        self.rx.iter().chain(&self.tx).sum()
    }
}

impl Fake {
    pub(crate) fn start() -> Fake {
        Fake::start_with(&[], &[])
    }

    pub(crate) fn start_with(arguments: &[&str], variables: &[(&str, &str)]) -> Fake {
        Fake::start_loading(&plugin(), arguments, variables)
    }

    pub(crate) fn start_loading(plugin: &Path, arguments: &[&str], variables: &[(&str, &str)]) -> Fake {
        // A socket's path is short: 107 bytes.
        let socket = PathBuf::from(format!("/tmp/weir dpdk {} {}", std::process::id(), number()));
        let _ = std::fs::remove_file(&socket);
        let mut command = Command::new(binary());
        command.arg(&socket).arg(plugin).args(arguments).envs(variables.iter().copied());
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (stdin, stdout) = (child.stdin.take().unwrap(), BufReader::new(child.stdout.take().unwrap()));
        let mut fake = Fake { child, stdin, stdout, socket };
        assert_eq!(fake.line(), "ready");
        fake
    }

    /// So many bursts of each thread; what it has forwarded since it was started.
    pub(crate) fn run(&mut self, bursts: u32) -> Forwarded {
        self.counts(&format!("run {bursts}"))
    }

    /// Bursts until [`Fake::halt`].
    pub(crate) fn go(&mut self) {
        assert_eq!(self.ask("go"), "going");
    }

    pub(crate) fn halt(&mut self) -> Forwarded {
        self.counts("halt")
    }

    pub(crate) fn callbacks(&mut self) -> u32 {
        self.ask("callbacks").parse().unwrap()
    }

    pub(crate) fn connect(&self) -> Application {
        Application::connect(&self.socket).unwrap()
    }

    pub(crate) fn info(&self) -> String {
        self.connect().plugin().unwrap()
    }

    pub(crate) fn capture(&self, options: &Options) -> Capture {
        self.try_capture(options).unwrap()
    }

    pub(crate) fn try_capture(&self, options: &Options) -> Result<Capture, Error> {
        let application = self.connect();
        let ports = application.ports()?;
        Capture::start(application, ports, options)
    }

    fn counts(&mut self, request: &str) -> Forwarded {
        let line = self.ask(request);
        let of = |name: &str| {
            let word = line.split(' ').find_map(|word| word.strip_prefix(name)?.strip_prefix('='));
            word.unwrap_or_else(|| panic!("no {name} in {line:?}")).parse().unwrap()
        };
        Forwarded { rx: ["rx0", "rx1"].map(of), tx: ["tx0", "tx1"].map(of) }
    }

    fn ask(&mut self, request: &str) -> String {
        writeln!(self.stdin, "{request}").unwrap();
        self.line()
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.stdout.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }
}

impl Drop for Fake {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_file(&self.socket);
    }
}

/// A packet's fields, its bytes included.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Seen {
    pub(crate) port: usize,
    pub(crate) direction: Direction,
    pub(crate) ns: u64,
    pub(crate) wire_bytes: u32,
    pub(crate) flags: Flags,
    pub(crate) hash: Option<u32>,
    pub(crate) id: Option<u64>,
    pub(crate) dropped: u32,
    pub(crate) bytes: Vec<u8>,
}

impl Seen {
    pub(crate) fn of(packet: &Packet<'_>) -> Seen {
        Seen {
            port: packet.port,
            direction: packet.direction,
            ns: packet.ns,
            wire_bytes: packet.wire_bytes,
            flags: packet.flags,
            hash: packet.hash,
            id: packet.id,
            dropped: packet.dropped,
            bytes: packet.bytes.to_vec(),
        }
    }

    /// Which of its port's packets it is.
    pub(crate) fn number(&self) -> u32 {
        u32::from_le_bytes(self.bytes[self.bytes.len() - 4..].try_into().unwrap())
    }
}

/// Ends a capture, and gives what was still to come.
pub(crate) fn finish(capture: &mut Capture) -> (Ended, Vec<Seen>) {
    let mut seen = Vec::new();
    let ended = capture.stop().unwrap();
    while poll(capture, &mut seen).0 > 0 {}
    (ended, seen)
}

/// Polls until the capture ends by itself, and gives what came.
pub(crate) fn poll_until_gone(capture: &mut Capture) -> Vec<Seen> {
    let mut seen = Vec::new();
    wait_until("the application is gone", || poll(capture, &mut seen).1 == State::Gone);
    while poll(capture, &mut seen).0 > 0 {}
    seen
}

fn poll(capture: &mut Capture, seen: &mut Vec<Seen>) -> (u64, State) {
    let mut keep = |packet: &Packet<'_>| {
        seen.push(Seen::of(packet));
        true
    };
    capture.poll(&mut keep).unwrap()
}

/// Sums over all rings.
pub(crate) fn sum(rings: &[(usize, RingSpec, Counters)]) -> Counters {
    rings.iter().fold(Counters::default(), |sum, (_, _, each)| Counters {
        received: sum.received + each.received,
        filtered: sum.filtered + each.filtered,
        written: sum.written + each.written,
        dropped: sum.dropped + each.dropped,
    })
}

/// A filter in pcap-filter(7)'s language, compiled.
pub(crate) fn program(expression: &str) -> Vec<[u8; 8]> {
    let options = weir_pcap_filter::Options {
        link_type: LinkType::EN10MB,
        snaplen: SNAPLEN_DEFAULT,
        netmask: None,
        mode: Mode::Scoped,
    };
    let filter = weir_pcap_filter::compile(expression, &options, &NoNames).unwrap();
    let program = filter.program("filter").unwrap();
    program.insns.iter().map(|insn| insn.to_bytes()).collect()
}

pub(crate) fn filtered(expression: &str) -> Options {
    Options { program: program(expression), ..Options::default() }
}

/// Looks again and again until it is so.
pub(crate) fn wait_until(what: &str, mut is: impl FnMut() -> bool) {
    let began = Instant::now();
    while !is() {
        assert!(began.elapsed() < LONG, "{what}");
        std::thread::yield_now();
    }
}

/// The plugin, which cargo builds next to the test.
pub(crate) fn plugin() -> PathBuf {
    std::env::current_exe().unwrap().parent().unwrap().join("libweir_dpdk.so")
}

/// The same where the dynamic linker finds it, which takes blanks and colons for separators.
pub(crate) fn preloadable() -> PathBuf {
    let plugin = plugin();
    if !plugin.to_str().is_none_or(|path| path.contains([' ', ':'])) {
        return plugin;
    }
    let copy = std::env::temp_dir().join(format!("libweir_dpdk-{}.so", std::process::id()));
    std::fs::copy(plugin, &copy).unwrap();
    copy
}

pub(crate) fn names(ports: &[Port]) -> Vec<&str> {
    ports.iter().map(|port| port.name.as_str()).collect()
}

fn number() -> u32 {
    static NEXT: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
    NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed)
}

/// The application, compiled once a process.
fn binary() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| {
        let folder = paths::target().join("dpdk");
        std::fs::create_dir_all(&folder).unwrap();
        let program = folder.join(format!("application-{}", std::process::id()));
        let source = paths::root().join("crates/weir-dpdk/tests/application.c");
        let mut cc = Command::new("cc");
        cc.args(["-Wall", "-Wextra", "-Werror", "-std=c11", "-O2", "-rdynamic", "-pthread", "-o"]);
        let output = cc.arg(&program).arg(source).args(["-ldl"]).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        program
    })
}
