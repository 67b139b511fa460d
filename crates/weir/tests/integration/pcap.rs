//! `weir pcap`: through the command line, with both engines.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use testkit::paths;
use testkit::pcap_file::{self, Packet};
use weir_cbpf::text::{self, Form};

fn weir(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
    command.stdin(Stdio::null()).arg("pcap").args(args);
    command
}

/// Runs it: it ends with `code`, prints `expected`, and says each of `parts` on standard error.
#[track_caller]
fn check(args: &[&str], code: i32, expected: &str, parts: &[&str]) {
    outcome(weir(args).output().unwrap(), args, code, expected, parts);
}

#[track_caller]
fn outcome(output: Output, args: &[&str], code: i32, expected: &str, parts: &[&str]) {
    let message = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{args:?}: {message}");
    assert_eq!(String::from_utf8_lossy(&output.stdout), expected, "{args:?}: {message}");
    assert_eq!(parts.is_empty(), message.is_empty(), "{args:?}: {message}");
    for part in parts {
        assert!(message.contains(part), "{args:?}: {part:?} is not in:\n{message}");
    }
}

#[track_caller]
fn printed(args: &[&str]) -> String {
    let output = weir(args).output().unwrap();
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// A file of this content, for one test.
fn file(name: &str, content: impl AsRef<[u8]>) -> String {
    let folder: PathBuf = paths::fresh("pcap", name);
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.join("file");
    std::fs::write(&path, content).unwrap();
    path.to_str().unwrap().to_owned()
}

const IP: &str = "(000) ldh      [12]\n(001) jeq      #0x800           jt 2\tjf 3\n(002) ret      #262144\n(003) ret      #0\n";

const ETHERNET: i32 = 1;
const RAW: i32 = 12;
const SLL2: i32 = 276;

/// IPv4 with a body of so many bytes, IPv6, and one byte that is the beginning of neither, after the header that `link`
/// has for an EtherType.
fn packets(link: fn(u16) -> Vec<u8>) -> Vec<Packet> {
    let packet = |kind: u16, first: u8, bytes: usize| {
        let mut packet = link(kind);
        packet.push(first);
        packet.resize(packet.len() + bytes, 0);
        Packet::whole(packet)
    };
    let mut short = packet(0x800, 0x45, 39);
    short.bytes.truncate(1);
    vec![packet(0x800, 0x45, 39), packet(0x86dd, 0x60, 59), packet(0x88cc, 0x02, 200), short]
}

fn ethernet(kind: u16) -> Vec<u8> {
    [&[2; 12][..], &kind.to_be_bytes()].concat()
}

fn raw(_: u16) -> Vec<u8> {
    Vec::new()
}

fn sll2(kind: u16) -> Vec<u8> {
    [&kind.to_be_bytes()[..], &[0; 18]].concat()
}

#[test]
fn classic_bpf_is_printed_as_tcpdump_does() {
    check(&["compile", "ip"], 0, IP, &[]);
    check(&["compile", "-d", "ip"], 0, IP, &[]);
    check(&["compile", "--emit", "cbpf", "--mode", "compat", "ip"], 0, IP, &[]);
    check(&["compile", "-ddd", "ip"], 0, "4\n40 0 0 12\n21 0 1 2048\n6 0 0 262144\n6 0 0 0\n", &[]);
    check(
        &["compile", "-dd", "-s", "96", "ip"],
        0,
        "{ 0x28, 0, 0, 0x0000000c },\n{ 0x15, 0, 1, 0x00000800 },\n{ 0x6, 0, 0, 0x00000060 },\n{ 0x6, 0, 0, 0x00000000 },\n",
        &[],
    );
    check(&["compile", "-s", "0", "ip"], 0, IP, &[]);
    check(&["compile"], 0, "(000) ret      #262144\n", &[]);
    assert_eq!(printed(&["compile", "-y", "DLT_RAW", "ip"]).lines().next(), Some("(000) ldb      [0]"));
    assert_eq!(printed(&["compile", "-y", "raw", "ip"]), printed(&["compile", "-y", "12", "ip"]));
}

#[test]
fn arguments_are_joined_with_blanks() {
    assert_eq!(printed(&["compile", "ip", "or", "arp"]), printed(&["compile", "ip or arp"]));
    assert_eq!(printed(&["compile", "--", "ip", "or", "arp"]), printed(&["compile", "ip or arp"]));
}

#[test]
fn expressions_come_from_files_with_comments() {
    let path = file("expression", "ip # IPv4: \u{e9}\n# and\n  or arp#\n");
    assert_eq!(printed(&["compile", "-F", &path]), printed(&["compile", "ip or arp"]));
    check(&["check", "-F", &path, "ip"], 2, "", &["cannot be used with"]);
    let path = file("wrong", "# \u{e9}\nip o arp\n");
    check(&["check", "-F", &path], 1, "", &["file:2:4", "ip o arp"]);
    check(&["check", "-F", "/nonexistent"], 1, "", &["cannot read /nonexistent: No such file"]);
}

#[test]
fn every_stage_is_printed() {
    for (stage, part) in [
        ("ast", "Ip"),
        ("ir", "load16[12] == 0x800"),
        ("cbpf", "jeq"),
        ("ebpf", "program \"filter\" classifier"),
        ("asm", "retq"),
    ] {
        let text = printed(&["compile", "--emit", stage, "ip"]);
        assert!(text.contains(part), "{stage}: {text}");
    }
    check(&["compile", "--emit", "llvm", "ip"], 2, "", &["possible values"]);
    check(&["compile", "--emit", "ir", "-d", "ip"], 2, "", &["cannot be used with"]);
}

#[test]
fn what_is_refused_is_told_with_its_place() {
    check(&["check", "ip"], 0, "", &[]);
    check(&["check", "-y", "LINUX_SLL2", "--", "ip"], 0, "", &[]);
    check(&["check", "tcp prt 80"], 1, "", &["<filter>:1:5", "tcp prt 80\n  |     ^^^", "help: "]);
    check(&["compile", "tcp prt 80"], 1, "", &["<filter>:1:5"]);
    check(&["check", "-y", "RAW", "arp"], 1, "", &["rejects all packets"]);
    check(
        &["check", "-y", "RAW", "--mode", "scoped", "arp"],
        1,
        "",
        &["no packet of link type RAW", "<filter>:1:1"],
    );
    check(&["check", "ip broadcast"], 1, "", &["the netmask is not known", "--netmask"]);
    check(&["check", "--netmask", "255.255.255.0", "ip broadcast"], 0, "", &[]);
}

/// A block of pcapng.
fn block(kind: u32, body: &[u8]) -> Vec<u8> {
    let length = (12 + body.len() as u32).to_le_bytes();
    [&kind.to_le_bytes()[..], &length, body, &length].concat()
}

/// A packet of 60 bytes, and options: code, value.
fn packet_with(options: &[(u16, u32)]) -> Vec<u8> {
    let mut body = [0_u32, 0, 0, 60, 60].map(u32::to_le_bytes).concat();
    body.extend([0; 60]);
    for (code, value) in options {
        body.extend([code.to_le_bytes(), 4_u16.to_le_bytes()].concat());
        body.extend(value.to_le_bytes());
    }
    body.extend([0; 4]);
    block(6, &body)
}

#[test]
fn scoped_expressions_ask_what_the_file_says_of_packets() {
    const FLAGS: u16 = 2;
    const QUEUE: u16 = 6;
    let section =
        block(0x0a0d_0d0a, &[&0x1a2b_3c4d_u32.to_le_bytes()[..], &[1, 0, 0, 0], &[0xff; 8]].concat());
    let interface = block(1, &[1, 0, 0, 0, 0, 0, 0, 0]);
    let packets = [
        packet_with(&[(FLAGS, 1), (QUEUE, 3)]),
        packet_with(&[(FLAGS, 2), (QUEUE, 65_535)]),
        packet_with(&[]),
    ];
    let path = file("facts", [section, interface, packets.concat()].concat());
    let check = |text: &str, expected: &str| check_eval(&path, &["--mode", "scoped", "--", text], expected);
    check("inbound", "262144\n0\n0\n");
    check("outbound", "0\n262144\n0\n");
    check("not inbound", "0\n262144\n262144\n");
    check("queue 3", "262144\n0\n0\n");
    check("queue 0 or queue 65535", "0\n0\n0\n");
    let refused = |text: &str, part: &str| {
        self::check(&["eval", "-r", &path, "--mode", "scoped", "--", text], 1, "", &[part]);
    };
    refused("hash = 1", "`hash` is not known of packets in capture files");
    refused("ifname lo", "`ifindex` is not known");
}

#[test]
fn scoped_expressions_bind_by_and() {
    let tagged = |kind: u16, id: u8| {
        let mut packet = ethernet(0x8100);
        packet.extend([0, id]);
        packet.extend(kind.to_be_bytes());
        packet.resize(60, 0);
        Packet::whole(packet)
    };
    let packets =
        [tagged(0x800, 2), tagged(0x806, 3), Packet::whole([ethernet(0x800), vec![0; 46]].concat())];
    let path = file("tagged", pcap_file::classic(ETHERNET, &packets));
    let check = |mode: &str, text: &str, expected: &str| {
        check_eval(&path, &["--mode", mode, "--", text], expected);
    };
    check("compat", "vlan 2 or vlan 3", "262144\n0\n0\n");
    check("scoped", "vlan 2 or vlan 3", "262144\n262144\n0\n");
    check("compat", "vlan and ip or ip", "262144\n0\n0\n");
    check("scoped", "vlan and ip or ip", "262144\n0\n262144\n");
    check("scoped", "(vlan 3 or ip) and not ip", "0\n262144\n0\n");
}

#[test]
fn wrong_usage_exits_2() {
    check(&["check", "-y", "nosuch", "ip"], 2, "", &["no such link type; `weir pcap list` has their names"]);
    check(&["check", "--mode", "other", "ip"], 2, "", &["[possible values: compat, scoped]"]);
    check(&["check", "--netmask", "24", "ip"], 2, "", &["invalid value '24'"]);
    check(&["eval", "ip"], 2, "", &["--read <FILE>"]);
    check(&["eval", "-r", "x", "--cbpf", "x", "ip"], 2, "", &["cannot be used with"]);
    check(&["eval", "-r", "x", "--cbpf", "x", "-y", "RAW"], 2, "", &["cannot be used with"]);
}

#[test]
fn link_types_are_listed() {
    let text = printed(&["list"]);
    assert!(text.contains("\nEN10MB                     1  Ethernet\n"), "{text}");
    assert_eq!(text.lines().count(), weir_pcap_filter::LINK_TYPES.len());
}

#[track_caller]
fn check_eval(path: &str, more: &[&str], expected: &str) {
    for engine in ["interp", "jit"] {
        let args = [&["eval", "-r", path, "--engine", engine], more].concat();
        check(&args, 0, expected, &[]);
    }
}

#[test]
fn a_value_is_printed_for_each_packet() {
    for (dlt, link) in [(ETHERNET, ethernet as fn(u16) -> Vec<u8>), (RAW, raw), (SLL2, sll2)] {
        let packets = packets(link);
        // A byte of raw IP is enough to say which it is.
        let short = if dlt == RAW { 262_144 } else { 0 };
        for (format, content) in
            [("classic", pcap_file::classic(dlt, &packets)), ("pcapng", pcap_file::pcapng(dlt, &packets))]
        {
            let path = file(&format!("{format}-{dlt}"), content);
            check_eval(&path, &["--", "ip"], &format!("262144\n0\n0\n{short}\n"));
            check_eval(&path, &["-s", "7", "ip6"], "0\n7\n0\n0\n");
            check_eval(&path, &["less", "100"], "262144\n262144\n0\n262144\n");
            check_eval(&path, &[], "262144\n262144\n262144\n262144\n");
        }
    }
}

#[test]
fn a_link_type_overrides_that_of_the_file() {
    let path = file("override", pcap_file::classic(ETHERNET, &packets(raw)));
    check_eval(&path, &["ip"], "0\n0\n0\n0\n");
    check_eval(&path, &["-y", "RAW", "ip"], "262144\n0\n0\n262144\n");
}

#[test]
fn each_interface_has_its_link_type() {
    let section = pcap_file::pcapng(RAW, &packets(raw));
    let other = pcap_file::pcapng(ETHERNET, &packets(ethernet));
    let path = file("interfaces", [section, other].concat());
    check_eval(&path, &["ip"], "262144\n0\n0\n262144\n262144\n0\n0\n0\n");
    check(&["eval", "-r", &path, "arp"], 1, "", &["rejects all packets", "<filter>:1:1"]);
}

#[test]
fn refused_expressions_come_before_the_file() {
    check(&["eval", "-r", "/nonexistent", "ip o"], 1, "", &["<filter>:1:4"]);
    check(&["eval", "-r", "/nonexistent", "ip"], 1, "", &["cannot read /nonexistent"]);
    let path = file("empty", pcap_file::classic(RAW, &[]));
    check(&["eval", "-r", &path, "ip"], 0, "", &[]);
    check(&["eval", "-r", &path, "ether host 1:2:3:4:5:6"], 1, "", &["<filter>:1:"]);
}

#[test]
fn of_a_file_that_is_cut_whole_packets_are_said() {
    let whole = pcap_file::classic(ETHERNET, &packets(ethernet));
    let path = file("cut", &whole[..whole.len() - 1]);
    check(&["eval", "-r", &path, "ip"], 1, "262144\n0\n0\n", &[&format!("{path}: byte ")]);
    check(
        &["eval", "-r", "/", "ip"],
        1,
        "",
        &["weir: /: byte 0: cannot read: Is a directory (os error 21)\n"],
    );
    let path = file("other", "no capture file");
    check(&["eval", "-r", &path, "ip"], 1, "", &[&format!("weir: {path}: ")]);
}

#[test]
fn values_come_before_more_is_waited_for() {
    let whole = pcap_file::classic(ETHERNET, &packets(ethernet));
    let args = ["eval", "-r", "-", "--", "ip"];
    let mut child =
        weir(&args).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    let mut output = BufReader::new(child.stdout.take().unwrap());
    let mut lines = String::new();
    let (first, rest) = whole.split_at(24 + 16 + 54);
    input.write_all(first).unwrap();
    output.read_line(&mut lines).unwrap();
    assert_eq!(lines, "262144\n");
    input.write_all(rest).unwrap();
    drop(input);
    output.read_line(&mut lines).unwrap();
    assert_eq!(lines, "262144\n0\n");
    // A reader that closes the pipe early is no fault.
    drop(output);
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[test]
fn classic_programs_run_from_every_form() {
    let capture = file("of-classic", pcap_file::classic(ETHERNET, &packets(ethernet)));
    let insns = text::parse(IP, Form::Disassembly).unwrap();
    for form in [Form::Disassembly, Form::C, Form::Decimal, Form::OneLine] {
        let path = file(&format!("{form:?}"), text::print(&insns, form));
        check_eval(&capture, &["--cbpf", &path], "262144\n0\n0\n0\n");
    }
    check_eval(&capture, &["--cbpf", &file("bytes", text::to_bytes(&insns))], "262144\n0\n0\n0\n");
    let ret_len = "(000) ld #pktlen\n(001) ret\n";
    check_eval(&capture, &["--cbpf", &file("length", ret_len)], "54\n74\n215\n54\n");
    for (name, program, part) in [
        ("no-return", "1\n40 0 0 12\n", "the last instruction has to be a return"),
        ("no-number", "1\n40 0 x 12\n", "line 2, column 6"),
        ("ragged", "\0\0\0", "3 bytes are no whole number of instructions"),
        ("nothing", "", "expected"),
    ] {
        let path = file(name, program);
        check(&["eval", "-r", &capture, "--cbpf", &path], 1, "", &[&path, part]);
    }
}

#[test]
fn names_come_from_files() {
    let same = |names: &[&str], numbers: &str| {
        let words = |more: &[&str]| printed(&[&["compile", "--emit", "ir"], more].concat());
        assert_eq!(words(names), words(&[numbers]), "{names:?}");
    };
    let hosts = file("hosts", "192.0.2.7 printer.example printer # upstairs\n2001:db8::7 printer\n");
    same(&["--hosts", &hosts, "ip host Printer"], "ip host 192.0.2.7");
    same(&["--hosts", &hosts, "ip6 host printer"], "ip6 host 2001:db8::7");
    check(&["check", "--hosts", &hosts, "host localhost"], 1, "", &["localhost", "<filter>:1:6"]);
    let ethers = file("ethers", "# none\n0:1a:2:3:4:ff printer\n");
    same(&["--ethers", &ethers, "ether host printer"], "ether host 0:1a:2:3:4:ff");
    check(&["check", "--ethers", &ethers, "ether host other"], 1, "", &["unknown ether host `other`"]);
    let networks = file("networks", "office 198.51.100.0 home # both\nten 10\n");
    same(&["--networks", &networks, "net home"], "net 198.51.100.0/32");
    same(&["--networks", &networks, "net ten"], "net 10.0.0.0/32");
    check(&["check", "--networks", &networks, "net other"], 1, "", &["unknown network `other`"]);
    check(&["check", "--hosts", "/nonexistent", "ip"], 1, "", &["cannot read /nonexistent"]);
}

#[test]
fn ports_and_protocols_are_those_of_the_system() {
    let same = |name: &str, number: &str| {
        let words = |text: &str| printed(&["compile", "--emit", "ir", text]);
        assert_eq!(words(name), words(number));
    };
    if PathBuf::from("/etc/services").exists() {
        same("tcp port http", "tcp port 80");
        check(&["check", "port nosuch"], 1, "", &["nosuch", "<filter>:1:6"]);
    }
    if PathBuf::from("/etc/protocols").exists() {
        same("ip proto ICMP", "ip proto 1");
    }
}
