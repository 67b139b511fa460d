//! However a capture ends, the application goes on as before, and what was captured is there.

use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};

use weir_dpdk_source::{Application, Capture, Options, State};

use crate::application::{Fake, filtered, finish, poll_until_gone, preloadable, sum, wait_until};

#[test]
fn nothing_is_registered_before_it_is_asked_for() {
    let mut fake = Fake::start();
    assert_eq!(fake.callbacks(), 0);
    assert!(fake.info().ends_with("DPDK 22.11.11: idle"), "{}", fake.info());
    fake.run(10);
    let mut capture = fake.capture(&Options::default());
    assert_eq!(fake.callbacks(), 4);
    assert!(fake.info().contains(&format!("process {} captures 4 queues", std::process::id())));
    let (ended, _) = finish(&mut capture);
    assert_eq!(ended.words.as_deref(), Some("ok: 4 queues are free again"));
    assert!(fake.info().ends_with("idle"));
}

#[test]
fn an_application_that_preloads_it_is_captured_too() {
    let preload = preloadable();
    let variables = [("LD_PRELOAD", preload.to_str().unwrap())];
    let mut fake = Fake::start_loading("".as_ref(), &[], &variables);
    let mut capture = fake.capture(&Options::default());
    let forwarded = fake.run(10);
    let (ended, _) = finish(&mut capture);
    assert_eq!(sum(&ended.rings).received, forwarded.all());
}

#[test]
fn captures_begin_and_end_under_full_load() {
    let mut fake = Fake::start();
    fake.go();
    for round in 0..12 {
        let mut capture = fake.capture(&filtered(["tcp port 80", "udp", ""][round % 3]));
        wait_until("packets come", || capture.poll(&mut |_| true).unwrap().0 > 0);
        let (ended, _) = finish(&mut capture);
        assert_eq!(fake.callbacks(), 0);
        for (_, spec, counters) in ended.rings {
            let all = counters.filtered + counters.written + counters.dropped;
            assert_eq!(counters.received, all, "{spec:?}");
        }
    }
    let before = fake.halt();
    assert!(fake.run(10).rx[0] > before.rx[0], "it goes on");
}

/// Not a test of itself: what `nothing_stays_of_a_process_that_is_killed` kills.
#[test]
fn captures_until_it_is_killed() {
    let Some(socket) = std::env::var_os("WEIR_DPDK_CAPTURE_FROM") else { return };
    let application = Application::connect(socket.as_ref()).unwrap();
    let ports = application.ports().unwrap();
    let mut capture = Capture::start(application, ports, &filtered("tcp port 80")).unwrap();
    let mut is_said = false;
    // It ends with the application, too.
    while let (all, State::Running) = capture.poll(&mut |_| true).unwrap() {
        if all > 0 && !is_said {
            use std::io::Write as _;
            // The stream itself: the harness holds back what the print macros write.
            std::io::stderr().write_all(b"capturing\n").unwrap();
            is_said = true;
        }
    }
}

#[test]
fn nothing_stays_of_a_process_that_is_killed() {
    let mut fake = Fake::start();
    fake.go();
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "endings::captures_until_it_is_killed", "--nocapture"]);
    command.env("WEIR_DPDK_CAPTURE_FROM", &fake.socket).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines().map(Result::unwrap);
    assert!(lines.any(|line| line == "capturing"));
    assert_eq!(fake.callbacks(), 4);
    child.kill().unwrap();
    wait_until("the callbacks are gone", || fake.callbacks() == 0);
    child.wait().unwrap();
    assert!(
        fake.info().contains(&format!("process {}, which captured, is gone: 4 queues are free", child.id()))
    );
    let mut capture = fake.capture(&Options::default());
    wait_until("packets come", || capture.poll(&mut |_| true).unwrap().0 > 0);
    finish(&mut capture);
    fake.halt();
}

#[test]
fn of_an_application_that_is_killed_all_is_there_that_it_had_captured() {
    let mut fake = Fake::start();
    let mut capture = fake.capture(&filtered("udp"));
    fake.run(200);
    let counters = sum(&capture.counters());
    fake.child.kill().unwrap();
    fake.child.wait().unwrap();
    let seen = poll_until_gone(&mut capture);
    assert!(counters.written > 0 && counters.dropped == 0, "{counters:?}");
    assert_eq!(seen.len() as u64, counters.written);
    let ended = capture.stop().unwrap();
    assert_eq!((ended.words, sum(&ended.rings)), (None, counters));
}

#[test]
fn an_application_that_is_killed_under_load_is_read_to_its_end() {
    let mut fake = Fake::start();
    let mut capture = fake.capture(&Options::default());
    fake.go();
    wait_until("packets come", || capture.poll(&mut |_| true).unwrap().0 > 0);
    fake.child.kill().unwrap();
    fake.child.wait().unwrap();
    let seen = poll_until_gone(&mut capture);
    assert!(seen.iter().all(|seen| seen.bytes.len() as u32 == seen.wire_bytes));
}
