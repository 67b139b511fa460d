//! Packets of interfaces: the same as tcpdump captures, with what the kernel says of them; drops as the kernel counts them; filters in the kernel and here.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Stdio};
use std::time::{SystemTime, UNIX_EPOCH};

use nix::sys::signal::Signal;
use testkit::netns::Namespace;
use testkit::pcapng::{self, Rules};
use testkit::skip::skip;
use testkit::{wait, wireshark};
use weir_pcapng::{Direction, Reception};

use super::{
    LIMIT, OURS, Running, contents, contents_of, count, folder, frame, namespace, number, text, whole_blocks,
};

const MONOTONE: Rules = Rules { is_monotone: true };

/// tcpdump, which captures already.
fn tcpdump(namespace: &Namespace, arguments: &[&str]) -> Option<Child> {
    let mut command = namespace.command("tcpdump");
    command.args(arguments).stderr(Stdio::piped()).stdin(Stdio::null());
    let mut child = command.spawn().ok()?;
    let mut said = BufReader::new(child.stderr.take()?).lines();
    let begins = said.find(|line| line.as_ref().is_ok_and(|line| line.contains("listening on")));
    // A process that writes to a pipe that nobody reads is ended.
    std::thread::spawn(move || said.for_each(drop));
    if begins.is_none() {
        let _ = child.wait();
        return None;
    }
    Some(child)
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as u64
}

#[test]
fn a_burst_is_captured_as_tcpdump_captures_it() {
    let Some(namespace) = namespace() else { return };
    let folder = folder("burst");
    let (ours, theirs) = (folder.join("weir.pcapng"), folder.join("tcpdump.pcap"));
    const PACKETS: u32 = 12_000;
    let packets = PACKETS.to_string();
    let arguments = ["-i", "v1", "-B", "32768", "-c", &packets, "-w", text(&theirs), OURS];
    let tcpdump = tcpdump(&namespace, &arguments);
    let running = Running::start(&namespace, &["-i", "v1", "-f", OURS, "-B", "32M", "-c", &packets], &ours);
    let sender = namespace.sender("v0").unwrap();
    let mut before = Vec::new();
    for number in 0..PACKETS {
        let tag = (number % 3 == 1).then_some(0x2005);
        let frame = frame(number, 60 + number as usize * 7 % 1400, tag);
        before.push(now());
        sender.send(&frame).unwrap();
    }
    let output = running.output();
    let after = now();
    let message = String::from_utf8_lossy(&output.stderr);
    assert_eq!(message, format!("weir: v1: {PACKETS} captured, the kernel filtered, 0 dropped\n"));
    let contents = contents(&ours);
    pcapng::assert_holds(&std::fs::read(&ours).unwrap(), MONOTONE);
    assert_eq!(contents.packets.len(), PACKETS as usize);
    for (number, packet) in contents.packets.iter().enumerate() {
        let tag = (number % 3 == 1).then_some(0x2005);
        let sent = frame(number as u32, 60 + number * 7 % 1400, tag);
        assert!(packet.bytes == sent && packet.wire_len as usize == sent.len(), "packet {number}");
        // The clock is CLOCK_REALTIME.
        assert!((before[number]..=after).contains(&packet.time), "packet {number} at {}", packet.time);
        let flags = packet.flags.unwrap();
        assert_eq!((flags.direction(), flags.reception()), (Direction::Inbound, Reception::Promiscuous));
    }
    let statistics = &contents.statistics[0];
    assert_eq!(
        (statistics.accepted, statistics.dropped, statistics.os_dropped, statistics.delivered),
        (Some(PACKETS.into()), Some(0), Some(0), Some(PACKETS.into()))
    );
    assert!(statistics.start.unwrap() <= before[0] && statistics.end.unwrap() <= now());
    match tcpdump {
        None => skip("capture-tcpdump", "tcpdump is not installed"),
        Some(mut child) => {
            assert!(wait::for_exit(&mut child, LIMIT).is_some(), "tcpdump has not ended");
            let theirs = super::contents(&theirs);
            let bytes = |packets: &[super::Packet]| -> Vec<(u32, Vec<u8>)> {
                packets.iter().map(|packet| (packet.wire_len, packet.bytes.clone())).collect()
            };
            assert!(bytes(&theirs.packets) == bytes(&contents.packets), "tcpdump has other packets");
        }
    }
    let (Some(infos), Some(lines)) = (wireshark::capinfos(&ours), wireshark::tshark(&ours, &["vlan.id"]))
    else {
        return skip("capture-wireshark", "tshark is not installed");
    };
    for said in
        ["Number of packets:   12000", "Strict time order:   True", "Name = v1", "Filter string = ether host"]
    {
        assert!(infos.contains(said), "{said} is not in:\n{infos}");
    }
    assert_eq!(lines.iter().filter(|line| *line == "5").count(), PACKETS as usize / 3);
}

#[test]
fn what_the_kernel_drops_is_counted_and_said_with_the_next_packet() {
    let Some(namespace) = namespace() else { return };
    let path = folder("drops").join("file.pcapng");
    // Two blocks of 1 MiB are the least.
    let running =
        Running::start(&namespace, &["-i", "v1", "--mode", "compat", "-f", OURS, "-B", "4K"], &path);
    let sender = namespace.sender("v0").unwrap();
    running.signal(Signal::SIGSTOP);
    const BURST: u32 = 4_000;
    (0..BURST).for_each(|number| sender.send(&frame(number, 1400, None)).unwrap());
    running.signal(Signal::SIGCONT);
    // What it had is read, so that there is room again.
    assert!(wait::until(LIMIT, || count(&path) > 1000), "nothing is read");
    let mut sent = BURST;
    // One at a time: what is dropped behind a packet, before it is read, is counted with it.
    let end = wait::until(LIMIT, || {
        sender.send(&frame(sent, 1400, None)).unwrap();
        sent += 1;
        let packets = contents_of(whole_blocks(&std::fs::read(&path).unwrap())).packets;
        packets.last().is_some_and(|last| number(&last.bytes) > BURST)
    });
    assert!(end, "no packet comes after the gap");
    let message = running.interrupt();
    let contents = contents(&path);
    pcapng::assert_holds(&std::fs::read(&path).unwrap(), MONOTONE);
    let statistics = &contents.statistics[0];
    let dropped = statistics.os_dropped.unwrap();
    assert!(dropped > 0, "{message}");
    assert!(message.contains(&format!("{} captured", contents.packets.len())), "{message}");
    assert!(message.contains(&format!("{dropped} dropped")), "{message}");
    assert_eq!(contents.packets.len() as u64 + dropped, u64::from(sent), "each is captured or counted");
    assert_eq!(statistics.accepted, Some(u64::from(sent)));
    // A packet's drops are those that lie between it and the one before.
    let mut next = 0;
    let mut said = 0;
    for packet in &contents.packets {
        let number = number(&packet.bytes);
        assert_eq!(packet.drops, u64::from(number - next), "before packet {number}");
        said += packet.drops;
        next = number + 1;
    }
    assert_eq!(said + u64::from(sent - next), dropped);
}

/// Captures at interfaces while six frames are sent at `v0`, every other with tag 5: the numbers that are kept, and what is said.
fn kept(interfaces: &str, mode: &str, filter: &str) -> Option<(Vec<(usize, u32)>, String)> {
    let namespace = namespace()?;
    let path = folder("kept").join("file.pcapng");
    let running =
        Running::start(&namespace, &["-i", interfaces, "--mode", mode, "-f", filter, "--stats"], &path);
    let sender = namespace.sender("v0").unwrap();
    for number in 0..6 {
        sender.send(&frame(number, 60, (number % 2 == 1).then_some(5))).unwrap();
    }
    let message = running.interrupt();
    pcapng::assert_holds(&std::fs::read(&path).unwrap(), MONOTONE);
    let of = |packet: &super::Packet| {
        let at = packet.bytes.windows(2).position(|two| two == [0x88, 0xb5]).unwrap() + 2;
        (packet.interface, u32::from_be_bytes(packet.bytes[at..at + 4].try_into().unwrap()))
    };
    Some((contents(&path).packets.iter().map(of).collect(), message))
}

#[track_caller]
fn keeps(interfaces: &str, mode: &str, filter: &str, expected: &[(usize, u32)], said: &str) {
    let Some((mut packets, message)) = kept(interfaces, mode, filter) else { return };
    packets.sort_unstable();
    assert_eq!(packets, expected, "{filter}: {message}");
    assert!(message.contains(said), "{filter}: {message}");
}

const ALL: [(usize, u32); 6] = [(0, 0), (0, 1), (0, 2), (0, 3), (0, 4), (0, 5)];
const TAGGED: [(usize, u32); 3] = [(0, 1), (0, 3), (0, 5)];
const UNTAGGED: [(usize, u32); 3] = [(0, 0), (0, 2), (0, 4)];

#[test]
fn compatible_filters_run_in_the_kernel_without_tags() {
    keeps("v1", "compat", "ether proto 0x88b5", &ALL, "v1: the kernel filters\n");
    keeps("v1", "compat", "ether[17] = 2", &[(0, 2)], "1 captured, the kernel filtered, 0 dropped");
}

#[test]
fn scoped_filters_run_in_the_kernel_and_here_for_packets_with_tags() {
    const BOTH: &str = "v1: the kernel filters, and weir packets with a VLAN tag\n";
    keeps("v1", "scoped", "ether proto 0x88b5", &UNTAGGED, BOTH);
    keeps("v1", "scoped", "ether[17] = 2", &[(0, 2)], "1 captured, the kernel filtered, 0 dropped");
    keeps("v1", "scoped", "vlan 5", &TAGGED, BOTH);
    keeps("v1", "scoped", "vlan 5 and ether proto 0x88b5", &TAGGED, BOTH);
    keeps("v1", "scoped", "vlan 6", &[], BOTH);
}

#[test]
fn filters_with_vlan_are_about_the_packets_that_are_written() {
    const BOTH: &str = "v1: the kernel filters, and weir packets with a VLAN tag\n";
    keeps("v1", "compat", "vlan 5 and ether proto 0x88b5", &TAGGED, BOTH);
    keeps("v1", "compat", "not vlan and ether host 2:0:0:0:0:2", &UNTAGGED, BOTH);
    keeps("v1", "compat", "vlan and inbound", &TAGGED, BOTH);
    keeps("v1", "compat", "vlan and outbound", &[], "0 captured");
}

#[test]
fn directions_are_the_kernel_s() {
    let ours = "ether host 2:0:0:0:0:2 and";
    for (mode, by) in [
        ("compat", "v1: the kernel filters\n"),
        ("scoped", "v1: the kernel filters, and weir packets with a VLAN tag\n"),
    ] {
        keeps("v0,v1", mode, &format!("{ours} inbound"), &ALL.map(|(_, number)| (1, number)), by);
        keeps("v0,v1", mode, &format!("{ours} outbound"), &ALL, by);
    }
}

#[test]
fn a_filter_that_is_too_long_for_the_kernel_runs_here() {
    let hosts: Vec<String> =
        (0..1_100).map(|host| format!("ether host 2:1:0:0:{:x}:{:x}", host >> 8, host & 255)).collect();
    let filter = format!("{} or ether host 2:0:0:0:0:2", hosts.join(" or "));
    keeps("v1", "compat", &filter, &ALL, "v1: weir filters (the kernel cannot)\n");
}

#[test]
fn all_interfaces_have_one_form_in_which_each_packet_names_its_own() {
    let Some(namespace) = namespace() else { return };
    let path = folder("any").join("file.pcapng");
    let running = Running::start(&namespace, &["-i", "any", "-f", "ether proto 0x88b5 and inbound"], &path);
    let sender = namespace.sender("v0").unwrap();
    sender.send(&frame(1, 60, None)).unwrap();
    sender.send(&frame(2, 60, Some(7))).unwrap();
    running.interrupt();
    pcapng::assert_holds(&std::fs::read(&path).unwrap(), MONOTONE);
    let contents = contents(&path);
    assert_eq!(
        (contents.interfaces[0].link_type, contents.packets.len()),
        (276, 1),
        "a tagged one is of type 8100"
    );
    let packet = &contents.packets[0];
    assert_eq!((packet.wire_len, packet.bytes[..2].to_vec()), (20 + 46, vec![0x88, 0xb5]));
    assert_eq!(packet.bytes[8..20], [0, 1, 3, 6, 2, 0, 0, 0, 0, 1, 0, 0]);
    match wireshark::tshark(&path, &["sll.pkttype", "sll.etype"]) {
        Some(lines) => assert_eq!(lines, ["3\t0x88b5"]),
        None => skip("capture-wireshark", "tshark is not installed"),
    }
}

#[test]
fn a_packet_on_the_loopback_interface_is_captured_once() {
    let Some(namespace) = namespace() else { return };
    for interface in ["lo", "any"] {
        let path = folder("loopback").join("file.pcapng");
        let running = Running::start(&namespace, &["-i", interface, "-f", "ether proto 0x88b5"], &path);
        let sender = namespace.sender("lo").unwrap();
        (0..3).for_each(|number| sender.send(&frame(number, 60, None)).unwrap());
        running.interrupt();
        let directions: Vec<_> =
            contents(&path).packets.iter().map(|packet| packet.flags.unwrap().direction()).collect();
        assert_eq!(directions, [Direction::Inbound; 3], "{interface}");
    }
}

#[test]
fn packets_are_cut_to_the_snapshot_length_after_the_filter_has_seen_them() {
    let Some(namespace) = namespace() else { return };
    for filter in ["ether[100] = 9", "not vlan and inbound and ether[100] = 9"] {
        let path = folder("snaplen").join("file.pcapng");
        let running = Running::start(&namespace, &["-i", "v1", "-f", filter, "-s", "20"], &path);
        let sender = namespace.sender("v0").unwrap();
        (8..11).for_each(|number| sender.send(&frame(number, 200, None)).unwrap());
        running.interrupt();
        let contents = contents(&path);
        assert_eq!(contents.packets.len(), 1, "{filter}");
        assert_eq!((contents.packets[0].bytes.len(), contents.packets[0].wire_len), (20, 200));
        pcapng::assert_holds(&std::fs::read(&path).unwrap(), MONOTONE);
    }
}

#[test]
fn counts_are_said_every_second_without_anything_written() {
    let Some(namespace) = namespace() else { return };
    let mut command = namespace.command(super::WEIR);
    command.args(["capture", "-i", "v0,v1", "-f", "ether proto 0x88b5 and inbound", "--stats"]);
    let mut running = Running::of(command);
    let mut said = BufReader::new(running.child.stderr.take().unwrap()).lines().map(Result::unwrap);
    assert_eq!(said.next().unwrap(), "weir: v0: the kernel filters, and weir packets with a VLAN tag");
    assert_eq!(said.next().unwrap(), "weir: v1: the kernel filters, and weir packets with a VLAN tag");
    let sender = namespace.sender("v0").unwrap();
    (0..4).for_each(|number| sender.send(&frame(number, 60, None)).unwrap());
    let both = "weir: v0: 0 captured, the kernel filtered, 0 dropped; v1: 4 captured, the kernel filtered, 0 dropped";
    assert!(said.any(|line| line == both), "each second, until they have come");
    running.signal(Signal::SIGINT);
    let last: Vec<String> = said.filter(|line| !line.contains("; ")).collect();
    assert_eq!(
        last,
        both.strip_prefix("weir: ")
            .unwrap()
            .split("; ")
            .map(|part| format!("weir: {part}"))
            .collect::<Vec<_>>()
    );
    assert_eq!(running.output().status.code(), Some(0));
}

#[test]
fn without_a_program_that_prints_nothing_is_captured() {
    let source = folder("no-printer").join("source.pcap");
    testkit::pcap_file::write(&source, 1, &[]).unwrap();
    let mut command = std::process::Command::new(super::WEIR);
    command.env("PATH", "/nowhere").args(["capture", "--print", "-r", text(&source)]);
    super::said(
        &command.output().unwrap(),
        3,
        &["--print needs tcpdump or tshark, and neither is installed"],
    );
}

#[test]
fn packets_are_printed_by_tcpdump() {
    let Some(namespace) = namespace() else { return };
    if std::process::Command::new("tcpdump").arg("--version").output().is_err() {
        return skip("capture-tcpdump", "tcpdump is not installed");
    }
    let path = folder("print").join("file.pcapng");
    let running = Running::start(&namespace, &["-i", "v1", "-f", OURS, "--print", "-c", "2", "-q"], &path);
    let sender = namespace.sender("v0").unwrap();
    (0..2).for_each(|number| sender.send(&frame(number, 60, None)).unwrap());
    let output = running.output();
    let printed = String::from_utf8_lossy(&output.stdout);
    assert_eq!(printed.lines().filter(|line| line.contains("0x88b5")).count(), 2, "{printed}");
    assert_eq!((output.status.code(), contents(&path).packets.len()), (Some(0), 2));
}
