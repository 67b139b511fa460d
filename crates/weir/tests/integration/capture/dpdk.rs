//! `weir capture --dpdk`: in an application with as much of DPDK as the plugin needs (weir-dpdk's `tests/application.c`).

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use nix::sys::signal::Signal;
use testkit::pcapng::{self, Rules};
use testkit::{paths, wait};
use weir_pcapng::{Direction, Filter, Speed};

use super::{LIMIT, Running, WEIR, captured, check, contents, count, folder, said};

/// The application, which forwards between two ports without end.
struct Application {
    child: Child,
    _stdin: ChildStdin,
    _stdout: BufReader<ChildStdout>,
    socket: PathBuf,
}

impl Application {
    fn start(name: &str, plugin: &str) -> Application {
        let folder = folder(name);
        let program = folder.join("application");
        let source = paths::root().join("crates/weir-dpdk/tests/application.c");
        let mut cc = Command::new("cc");
        cc.args(["-std=c11", "-O2", "-rdynamic", "-pthread", "-o"]).arg(&program).arg(source).arg("-ldl");
        assert!(cc.status().unwrap().success());
        // A socket's path is short.
        let socket = PathBuf::from(format!("/tmp/weir capture {name} {}", std::process::id()));
        let _ = std::fs::remove_file(&socket);
        let mut command = Command::new(program);
        command.arg(&socket).arg(plugin).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let (mut stdin, mut stdout) =
            (child.stdin.take().unwrap(), BufReader::new(child.stdout.take().unwrap()));
        stdin.write_all(b"go\n").unwrap();
        let mut line = String::new();
        while line != "going\n" {
            line.clear();
            assert!(stdout.read_line(&mut line).unwrap() > 0, "the application has ended");
        }
        Application { child, _stdin: stdin, _stdout: stdout, socket }
    }

    /// The application and its ports, as the command line has them.
    fn named(&self, ports: &str) -> String {
        format!("{}{ports}", self.socket.display())
    }
}

impl Drop for Application {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_file(&self.socket);
    }
}

/// Cargo builds it next to the test.
fn plugin() -> String {
    let built = std::env::current_exe().unwrap();
    built.with_file_name("libweir_dpdk.so").to_str().unwrap().to_owned()
}

/// No gap of an interface's times: rings are merged.
fn holds(path: &Path) {
    pcapng::assert_holds(&std::fs::read(path).unwrap(), Rules { is_monotone: true });
}

#[test]
fn packets_of_all_ports_and_both_directions_are_written() {
    let application = Application::start("written", &plugin());
    let path = folder("dpdk").join("file.pcapng");
    let arguments =
        ["--dpdk", &application.named(""), "-f", "udp", "-c", "2000", "-w", path.to_str().unwrap()];
    said(&captured(&arguments), 0, &["net_fake0: ", " captured, ", " filtered, "]);
    holds(&path);
    let contents = contents(&path);
    assert_eq!((contents.packets.len(), contents.interfaces.len()), (2000, 2));
    let interface = &contents.interfaces[1];
    assert_eq!(interface.name.as_deref(), Some("net_fake1"));
    assert_eq!(interface.speed, Some(Speed::Both(10_000_000_000)));
    assert_eq!(interface.filter, Some(Filter::Text("udp".to_owned())));
    for direction in [Direction::Inbound, Direction::Outbound] {
        let is = |flags: weir_pcapng::PacketFlags| flags.direction() == direction;
        assert!(contents.packets.iter().any(|packet| packet.flags.is_some_and(is)), "{direction:?}");
    }
    assert!(contents.packets.iter().all(|packet| packet.bytes[23] == 17 && packet.wire_len == 100));
}

#[test]
fn a_signal_ends_it_and_the_statistics_add_up() {
    let application = Application::start("signal", &plugin());
    let path = folder("dpdk").join("file.pcapng");
    let mut command = Command::new(WEIR);
    command.args(["capture", "--dpdk", &application.named(":net_fake1"), "-f", "vlan 5", "-w"]).arg(&path);
    let running = Running::of(command);
    assert!(wait::until(LIMIT, || count(&path) > 0), "packets come");
    running.interrupt();
    holds(&path);
    let contents = contents(&path);
    let statistics = &contents.statistics[0];
    let delivered = statistics.delivered.unwrap();
    assert_eq!(delivered, contents.packets.len() as u64);
    assert_eq!(statistics.accepted.unwrap(), delivered + statistics.os_dropped.unwrap());
    assert!(statistics.received.unwrap() > statistics.accepted.unwrap());
    assert!(contents.packets.iter().all(|packet| packet.bytes[12..16] == [0x81, 0, 0, 5]));
}

#[test]
fn of_an_application_that_is_killed_the_file_is_whole() {
    let application = Application::start("killed", &plugin());
    let path = folder("dpdk").join("file.pcapng");
    let mut command = Command::new(WEIR);
    command.args(["capture", "--dpdk", &application.named(""), "-f", "udp", "-s", "60", "-w"]).arg(&path);
    let running = Running::of(command);
    assert!(wait::until(LIMIT, || count(&path) > 0), "packets come");
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(application.child.id() as i32), Signal::SIGKILL)
        .unwrap();
    said(&running.output(), 3, &["it has ended"]);
    holds(&path);
}

#[test]
fn how_long_packets_take_is_printed_by_queue() {
    let application = Application::start("latency", &plugin());
    let output = captured(&["--dpdk", &application.named(""), "--latency", "-f", "udp", "-c", "2000"]);
    said(&output, 0, &["packets that were received with a number were seen sent"]);
    let text = String::from_utf8(output.stdout).unwrap();
    // What comes first may all be of one of its threads.
    let mut pairs =
        ["@latency_ns[net_fake0:0 -> net_fake1:0]:\n[", "@latency_ns[net_fake1:0 -> net_fake0:0]:\n["].iter();
    assert!(pairs.any(|pair| text.contains(*pair)) && text.contains("|@@@@@@@@"), "{text}");
}

#[test]
fn an_application_that_runs_without_the_plugin_is_made_to_load_it() {
    let application = Application::start("loads", "");
    let (named, load) = (application.named(""), format!("--load={}", plugin()));
    let arguments = ["--dpdk", &named, &load, "-f", "udp", "-c", "500", "--stats"];
    // The second finds it there, and the thread that loaded it waiting for clients as before.
    for _ in 0..2 {
        let said_at_first = "net_fake0: the application filters";
        said(&captured(&arguments), 0, &[said_at_first, " captured, ", " filtered, "]);
    }
    let maps = std::fs::read_to_string(format!("/proc/{}/maps", application.child.id())).unwrap();
    assert!(maps.contains("libweir_dpdk.so"));
}

#[test]
fn what_cannot_be_loaded_is_refused() {
    let application = Application::start("refuses", "");
    let named = application.named("");
    let check = |load: &str, words: &[&str]| check(&["--dpdk", &named, load, "--stats"], 3, words);
    check("--load=/no/libweir_dpdk.so", &["cannot be made to load /no/libweir_dpdk.so: No such file"]);
    check("--load=/etc/passwd", &["cannot be made to load /etc/passwd: ", "ELF"]);
    check(&format!("--load=/{}/libweir_dpdk.so", "long/../".repeat(600)), &["cannot be made to load"]);
}

#[test]
fn what_cannot_be_captured_is_refused() {
    let application = Application::start("refused", &plugin());
    let named = application.named("");
    // A refusal is the machine's: the application, or what it has loaded, says no.
    check(&["--dpdk", "/no/socket", "--stats"], 3, &["no DPDK application \"/no/socket\" answers"]);
    check(&["--dpdk", &application.named(":7"), "--stats"], 3, &["no port \"7\"; it has 0 (net_fake0)"]);
    check(&["--dpdk", &named, "--stats", "-f", "tcp prt 80"], 1, &["syntax error"]);
    check(&["--dpdk", &named, "--stats", "-f", "ifindex 3"], 3, &["it asks for ifindex"]);
    check(&["--dpdk", &named, "--stats", "--mode", "compat", "-f", "inbound"], 1, &["--mode scoped"]);
    let without = Application::start("without", "");
    check(&["--dpdk", &without.named(""), "--stats"], 3, &["start it with `-d"]);
}
