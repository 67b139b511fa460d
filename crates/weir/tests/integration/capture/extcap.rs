//! Wireshark's questions, and a capture into the pipe that it makes.

use std::fs::{File, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

use nix::sys::stat::Mode;
use nix::unistd::mkfifo;
use testkit::skip::skip;
use testkit::{paths, wait};
use weir_pcapng::{Event, Reader};

use super::{LIMIT, OURS, Running, WEIR, check, folder, frame, namespace, number, said, text};

fn answer(arguments: &[&str]) -> String {
    let Some(namespace) = namespace() else { return String::new() };
    let output = namespace.command(WEIR).arg("capture").args(arguments).output().unwrap();
    said(&output, 0, &[]);
    String::from_utf8(output.stdout).unwrap()
}

/// Each line is a word and values in braces, as Wireshark reads them.
#[track_caller]
fn has_form(text: &str) {
    for line in text.lines() {
        let (word, values) = line.split_once(' ').unwrap();
        assert!(["extcap", "interface", "dlt", "arg", "value"].contains(&word), "{line}");
        let inside = values.strip_prefix('{').and_then(|values| values.strip_suffix('}')).unwrap();
        assert!(inside.split("}{").all(|value| value.contains('=') && !value.contains(['{', '}'])), "{line}");
    }
}

#[test]
fn interfaces_have_names_of_their_own() {
    let text = answer(&["--extcap-interfaces", "--extcap-version=4.0"]);
    if text.is_empty() {
        return;
    }
    has_form(&text);
    assert!(text.starts_with("extcap {version="), "{text}");
    for interface in ["v0", "v1", "lo", "any"] {
        let line = format!("interface {{value=weir-{interface}}}{{display=weir: {interface}}}\n");
        assert!(text.contains(&line), "{text}");
    }
}

#[test]
fn an_interface_has_a_link_type_and_settings() {
    let of = |question| answer(&["--extcap-interface", "weir-v1", question]);
    let text = of("--extcap-dlts");
    if text.is_empty() {
        return;
    }
    assert_eq!(text, "dlt {number=1}{name=EN10MB}{display=Ethernet}\n");
    let text = of("--extcap-config");
    has_form(&text);
    for (at, call) in ["--filter", "--snapshot-length", "--no-promiscuous-mode"].into_iter().enumerate() {
        assert!(text.contains(&format!("arg {{number={at}}}{{call={call}}}{{display=")), "{text}");
    }
    let any = answer(&["--extcap-interface", "weir-any", "--extcap-dlts"]);
    assert_eq!(any, "dlt {number=276}{name=LINUX_SLL2}{display=Linux cooked v2}\n");
}

#[test]
fn a_filter_is_checked_and_its_fault_printed() {
    let of = |filter| answer(&["--extcap-interface", "weir-v1", "--extcap-capture-filter", filter]);
    assert_eq!(of("tcp port 80"), "");
    if let Some(namespace) = namespace() {
        drop(namespace);
        assert!(of("tcp prt 80").contains("syntax error"));
    }
}

#[test]
fn what_is_no_question_and_no_capture_is_refused() {
    check(&["--extcap-interface", "weir-lo"], 2, &["--extcap-interface needs"]);
    check(&["--extcap-interface", "weir-lo", "--capture"], 2, &["--fifo"]);
    check(&["--extcap-interface", "weir-nothing", "--extcap-dlts"], 1, &["there is no interface `nothing`"]);
}

#[test]
fn packets_go_into_the_pipe_until_wireshark_has_enough() {
    let Some(namespace) = namespace() else { return };
    let fifo = folder("extcap").join("fifo");
    mkfifo(&fifo, Mode::S_IRWXU).unwrap();
    let mut command = namespace.command(WEIR);
    let asked = ["--extcap-interface", "weir-v1", "--capture", "--extcap-capture-filter", OURS];
    command.arg("capture").args(asked).args(["--filter", "ether[17] > 2", "--fifo", text(&fifo)]);
    let running = Running::of(command);
    let mut reader = Reader::new(File::open(&fifo).unwrap()).unwrap();
    while reader.interfaces().is_empty() {
        reader.next().unwrap();
    }
    let sender = namespace.sender("v0").unwrap();
    (0..5).for_each(|number| sender.send(&frame(number, 60, None)).unwrap());
    for expected in [3, 4] {
        match reader.next().unwrap() {
            Some(Event::Packet(packet)) => assert_eq!(number(packet.bytes), expected),
            other => panic!("{other:?}"),
        }
    }
    drop(reader);
    said(&running.output(), 0, &["v1: 2 captured"]);
}

#[test]
fn tshark_lists_the_interfaces_and_captures_at_one() {
    let Some(namespace) = namespace() else { return };
    let folder = folder("tshark");
    let script = format!("#!/bin/sh\nexec {} capture \"$@\"\n", paths::quoted(Path::new(WEIR)));
    // Where Wireshark looks has changed over the years.
    for place in [".local/lib/wireshark/extcap", ".config/wireshark/extcap"] {
        let place = folder.join(place);
        std::fs::create_dir_all(&place).unwrap();
        let program = place.join("weir");
        std::fs::write(&program, &script).unwrap();
        std::fs::set_permissions(&program, Permissions::from_mode(0o755)).unwrap();
    }
    let tshark = || {
        let mut command = namespace.command("tshark");
        // The user's settings say nothing here.
        command.env("HOME", &folder).env_remove("XDG_CONFIG_HOME");
        command
    };
    let listed = match Command::new("tshark").arg("--version").output() {
        Ok(_) => tshark().arg("-D").output().unwrap(),
        Err(_) => return skip("capture-wireshark", "tshark is not installed"),
    };
    let listed = String::from_utf8_lossy(&listed.stdout);
    assert!(listed.contains("weir-v1 (weir: v1)"), "{listed}");
    let mut command = tshark();
    command.args(["-n", "-i", "weir-v1", "-f", OURS, "-c", "3", "-T", "fields", "-e", "eth.type"]);
    let mut running = Running::of(command);
    // It says on standard error when it captures; weir may be some time later yet.
    let sender = namespace.sender("v0").unwrap();
    let is_over = wait::until(LIMIT, || {
        sender.send(&frame(1, 60, None)).unwrap();
        running.child.try_wait().unwrap().is_some()
    });
    assert!(is_over, "it does not end");
    let output = running.output();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "0x88b5\n".repeat(3));
}
