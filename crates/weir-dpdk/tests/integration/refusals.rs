//! What is not done is refused with the reason, and nothing of it stays.

use std::os::fd::AsRawFd as _;

use testkit::paths;
use weir_dpdk_source::{Application, Error, Options, Selection};
use weir_packet_ring::{Direction, Plan, RingSpec, Segment};

use crate::application::{Fake, finish, program};

fn refused(result: Result<impl std::fmt::Debug, Error>) -> String {
    result.expect_err("it should be refused").to_string()
}

fn segment(port: u16, program: Vec<[u8; 8]>) -> Segment {
    let rings = vec![
        RingSpec { port: 0, queue: 0, direction: Direction::Rx },
        RingSpec { port, queue: 0, direction: Direction::Tx },
    ];
    Segment::create(Plan { rings, ring_bytes: 1 << 20, program, snaplen: 100, has_ids: false }).unwrap()
}

/// What the plugin answers to a start with these parameters.
fn started(fake: &Fake, parameters: &str) -> String {
    use nix::sys::socket::{
        AddressFamily, MsgFlags, SockFlag, SockType, UnixAddr, connect, recv, send, socket,
    };
    let fd = socket(AddressFamily::Unix, SockType::SeqPacket, SockFlag::empty(), None).unwrap();
    connect(fd.as_raw_fd(), &UnixAddr::new(&fake.socket).unwrap()).unwrap();
    let mut bytes = [0; 8192];
    recv(fd.as_raw_fd(), &mut bytes, MsgFlags::empty()).unwrap();
    send(fd.as_raw_fd(), format!("/weir/start{parameters}").as_bytes(), MsgFlags::empty()).unwrap();
    let received = recv(fd.as_raw_fd(), &mut bytes, MsgFlags::empty()).unwrap();
    String::from_utf8_lossy(&bytes[..received]).into_owned()
}

#[test]
fn releases_whose_packets_are_not_known_are_refused() {
    for version in ["DPDK 21.11.9", "DPDK 26.03.0", "nonsense"] {
        let mut fake = Fake::start_with(&[], &[("FAKE_DPDK_VERSION", version)]);
        let words = refused(fake.try_capture(&Options::default()));
        assert!(words.contains(version) && words.contains("22.11, 23.11, 24.11, 25.11"), "{words}");
        assert!(fake.info().contains("cannot capture"));
        assert_eq!(fake.callbacks(), 0);
    }
}

#[test]
fn an_application_without_the_plugin_is_refused() {
    let fake = Fake::start_loading("".as_ref(), &[], &[]);
    let words = refused(fake.try_capture(&Options::default()));
    assert!(words.contains("has not loaded libweir_dpdk.so: start it with `-d"), "{words}");
}

#[test]
fn programs_that_the_verifier_does_not_accept_never_run() {
    let mut fake = Fake::start();
    let load_far_outside = [[0x79, 0x10, 0, 0x70, 0, 0, 0, 0], [0x95, 0, 0, 0, 0, 0, 0, 0]];
    let endless = [[0x05, 0, 0xff, 0xff, 0, 0, 0, 0]];
    let mut unfinished = program("tcp port 80");
    unfinished.pop();
    for insns in [load_far_outside.to_vec(), endless.to_vec(), unfinished, vec![[0xff; 8]; 3]] {
        let words = refused(fake.try_capture(&Options { program: insns, ..Options::default() }));
        assert!(words.contains("the filter is refused"), "{words}");
        assert_eq!(fake.callbacks(), 0);
    }
    finish(&mut fake.capture(&Options::default()));
}

#[test]
fn a_filter_that_asks_what_is_not_known_is_refused() {
    let mut fake = Fake::start();
    let words = refused(fake.try_capture(&Options { program: program("ifindex 3"), ..Options::default() }));
    assert!(words.contains("it asks for ifindex, which is not known"), "{words}");
    assert_eq!(fake.callbacks(), 0);
}

#[test]
fn one_captures_at_a_time() {
    let mut fake = Fake::start();
    let mut first = fake.capture(&Options::default());
    let words = refused(fake.try_capture(&Options::default()));
    assert!(words.contains(&format!("process {} captures already", std::process::id())), "{words}");
    assert_eq!(fake.callbacks(), 4);
    finish(&mut first);
    finish(&mut fake.capture(&Options::default()));
}

#[test]
fn a_start_with_anything_else_than_a_segment_is_refused() {
    let mut fake = Fake::start();
    let pid = std::process::id();
    let file = std::fs::File::open("/proc/self/exe").unwrap();
    let missing = segment(9, Vec::new());
    for (parameters, words) in [
        (String::new(), "a process and a descriptor"),
        (",1".to_owned(), "a process and a descriptor"),
        (",a,b".to_owned(), "a process and a descriptor"),
        (",4294967295,1".to_owned(), "pidfd_open"),
        (format!(",{pid},999999"), "No such file"),
        (format!(",{pid},{}", file.as_raw_fd()), "/proc/"),
        (format!(",{pid},{}", missing.fd().as_raw_fd()), "transmit queue 0 of port 9"),
    ] {
        let answer = started(&fake, &parameters);
        assert!(answer.contains("error: ") && answer.contains(words), "{parameters}: {answer}");
        assert_eq!(fake.callbacks(), 0, "{parameters}");
    }
    let good = segment(1, program("udp"));
    let answer = started(&fake, &format!(",{pid},{}", good.fd().as_raw_fd()));
    assert!(answer.contains("ok: 2 queues are captured"), "{answer}");
}

#[test]
fn ports_and_prefixes_that_are_not_there_are_named() {
    let fake = Fake::start();
    let ports = || fake.connect().ports().unwrap();
    let words = refused(Selection::of("x:0,eth7").choose(ports()));
    assert!(words.contains("no port \"eth7\"; it has 0 (net_fake0), 1 (net_fake1)"), "{words}");
    let chosen = Selection::of("x:net_fake1").choose(ports()).unwrap();
    assert_eq!(chosen.iter().map(|port| port.number).collect::<Vec<_>>(), [1]);
    assert_eq!(Selection::of("").choose(ports()).unwrap().len(), 2);
    let words = refused(Application::find("weir-no-such-prefix"));
    assert!(words.contains("weir-no-such-prefix") && words.contains("dpdk_telemetry.v2"), "{words}");
}

#[test]
fn a_process_without_dpdk_that_loads_it_is_left_alone() {
    let plugin = crate::application::preloadable();
    let mut command = std::process::Command::new("true");
    let output = command.env("LD_PRELOAD", &plugin).current_dir(paths::root()).output().unwrap();
    assert!(output.status.success() && output.stdout.is_empty() && output.stderr.is_empty(), "{output:?}");
}
