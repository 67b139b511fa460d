//! Capture files that are read, filtered, and written again; rotation; what is refused.

use std::net::Ipv4Addr;

use testkit::pcap_file::{self, Packet};
use testkit::pcapng::{self, Rules};
use weir_pcapng::{
    Address, Event, Hash, HashAlgorithm, Interface, NewPacket, PacketFlags, PacketOptions, Reader, Section,
    Server, Statistics, Writer, secrets,
};

use super::{captured, check, contents, folder, frame, said, text};

fn frames(count: u32) -> Vec<Packet> {
    (0..count).map(|number| Packet::whole(frame(number, 60 + number as usize % 50, None))).collect()
}

#[test]
fn packets_of_several_files_that_the_filter_accepts_are_written() {
    let folder = folder("files");
    let (first, second, out) = (folder.join("a.pcap"), folder.join("b.pcapng"), folder.join("out"));
    pcap_file::write(&first, 1, &frames(50)).unwrap();
    pcap_file::write_pcapng(&second, 1, &frames(30)).unwrap();
    let filter = "ether[17] & 1 = 1";
    let output =
        captured(&["-r", text(&first), "-r", text(&second), "-f", filter, "-w", text(&out), "-s", "64"]);
    said(&output, 0, &["25 captured, 25 filtered, 0 dropped", "15 captured, 15 filtered"]);
    pcapng::assert_holds(&std::fs::read(&out).unwrap(), Rules { is_monotone: true });
    let contents = contents(&out);
    let kept: Vec<(usize, u32, u64)> = contents
        .packets
        .iter()
        .map(|packet| (packet.interface, super::number(&packet.bytes), packet.time))
        .collect();
    let odd = |interface, to| {
        (0..to)
            .filter(|number| number % 2 == 1)
            .map(move |number| (interface, number, u64::from(number) * 1_000_000_000))
    };
    assert_eq!(kept, odd(0, 50).chain(odd(1, 30)).collect::<Vec<_>>());
    assert!(contents.packets.iter().all(|packet| packet.bytes.len() <= 64 && packet.wire_len >= 60));
    let filters: Vec<_> = contents.interfaces.iter().map(|interface| interface.filter.clone()).collect();
    assert_eq!(filters, vec![Some(weir_pcapng::Filter::Text(filter.to_owned())); 2]);
}

#[test]
fn names_of_hosts_and_cards_are_written_where_that_is_asked_for() {
    let folder = folder("names");
    let (packets, out) = (folder.join("a.pcap"), folder.join("out.pcapng"));
    let [hosts, ethers] = ["hosts", "ethers"].map(|name| folder.join(name));
    pcap_file::write(&packets, 1, &frames(20)).unwrap();
    std::fs::write(&hosts, "10.0.0.1 gate gate.example # a comment\n2001:db8::7 seven\nnothing\n").unwrap();
    std::fs::write(&ethers, "2:0:0:0:0:1 card\n").unwrap();
    let arguments = ["-r", text(&packets), "--resolve", "--hosts", text(&hosts), "--ethers", text(&ethers)];
    // Each file of a rotation has them.
    let output = captured(&[&arguments[..], &["-w", text(&out), "--rotate-size", "4K"]].concat());
    said(&output, 0, &["20 captured"]);
    let bytes = std::fs::read(folder.join("out-00001.pcapng")).unwrap();
    pcapng::assert_holds(&bytes, Rules::default());
    let mut reader = Reader::new(&bytes[..]).unwrap();
    let mut found = Vec::new();
    while let Some(event) = reader.next().unwrap() {
        if let Event::Names(names) = event {
            let own = |names: weir_pcapng::Texts<'_>| names.map(|name| name.into_owned()).collect::<Vec<_>>();
            found.extend(names.records().map(|(address, names)| (address, own(names).join(" "))));
        }
    }
    let expected = [
        (Address::Ipv4([10, 0, 0, 1].into()), "gate gate.example"),
        (Address::Ipv6("2001:db8::7".parse().unwrap()), "seven"),
        (Address::Eui48([2, 0, 0, 0, 0, 1]), "card"),
    ];
    assert_eq!(found, expected.map(|(address, names)| (address, names.to_owned())));
}

#[test]
fn a_file_comes_through_pipes() {
    let folder = folder("pipes");
    let path = folder.join("a.pcap");
    pcap_file::write(&path, 1, &frames(50)).unwrap();
    let mut command = std::process::Command::new(super::WEIR);
    command.args(["capture", "-r", "-", "-w", "-", "-c", "20", "-q"]);
    let output = command.stdin(std::fs::File::open(&path).unwrap()).output().unwrap();
    assert_eq!((output.status.code(), output.stderr.len()), (Some(0), 0));
    pcapng::assert_holds(&output.stdout, Rules::default());
    assert_eq!(super::contents_of(&output.stdout).packets.len(), 20);
}

/// A file with one interface, whose packets say much.
fn rich() -> Vec<u8> {
    let mut writer = Writer::new(Vec::new(), &Section::default()).unwrap();
    let interface = writer.interface(&Interface::new(1, 0)).unwrap();
    writer.secrets(secrets::TLS, b"CLIENT_RANDOM").unwrap();
    writer.names(&[(Address::Ipv4(Ipv4Addr::LOCALHOST), &["me"])], &Server::default()).unwrap();
    for number in 0..30u32 {
        let options = PacketOptions {
            flags: Some(PacketFlags::from_bits(0x205)),
            hash: Some(Hash { algorithm: HashAlgorithm::Toeplitz, bytes: &[1, 2, 3, 4] }),
            drop_count: Some(1),
            packet_id: Some(number.into()),
            queue: Some(3),
            comments: &["of a human"],
            ..PacketOptions::default()
        };
        let bytes = frame(number, 60, None);
        let time = 1_700_000_000_123_456_789 + u64::from(number);
        writer.packet(&NewPacket { interface, time, wire_len: 60, bytes: &bytes, options }).unwrap();
    }
    let statistics = Statistics { time: Some(1), os_dropped: Some(30), ..Statistics::default() };
    writer.statistics(interface, &statistics).unwrap();
    writer.flush().unwrap();
    writer.into_output()
}

#[test]
fn what_a_file_says_of_packets_is_kept_and_drops_are_added_up_over_those_that_are_rejected() {
    let folder = folder("rich");
    let (path, out) = (folder.join("rich.pcapng"), folder.join("out.pcapng"));
    std::fs::write(&path, rich()).unwrap();
    check(
        &["-r", text(&path), "-f", "ether[17] % 3 = 2", "-w", text(&out)],
        0,
        &["10 captured, 20 filtered"],
    );
    let file = std::fs::read(&out).unwrap();
    pcapng::assert_holds(&file, Rules { is_monotone: true });
    let mut reader = Reader::new(&file[..]).unwrap();
    let mut packets = 0;
    let mut others = Vec::new();
    while let Some(event) = reader.next().unwrap() {
        match event {
            Event::Packet(packet) => {
                let fields = packet.fields;
                assert_eq!(fields.flags().unwrap().bits(), 0x205);
                assert_eq!((fields.drop_count(), fields.queue()), (Some(3), Some(3)));
                assert_eq!(fields.packet_id(), Some(3 * packets + 2));
                assert_eq!(fields.hashes().next().unwrap().bytes, [1, 2, 3, 4]);
                assert_eq!(fields.comments().collect::<Vec<_>>(), ["of a human"]);
                assert_eq!(packet.time, Some(1_700_000_000_123_456_789 + 3 * packets + 2));
                packets += 1;
            }
            Event::Secrets { bytes, .. } => others.push(format!("{bytes:?}")),
            Event::Names(names) => others.push(format!("{}", names.records().count())),
            Event::Statistics(_, statistics) => others.push(format!("{:?}", statistics.os_dropped)),
            _ => {}
        }
    }
    assert_eq!(
        (packets, others),
        (10, vec![format!("{:?}", b"CLIENT_RANDOM"), "1".into(), "Some(30)".into()])
    );
}

#[test]
fn each_file_of_a_rotation_stands_alone_and_the_newest_are_kept() {
    let folder = folder("a rotation");
    let (path, out) = (folder.join("rich.pcapng"), folder.join("out.pcapng"));
    std::fs::write(&path, rich()).unwrap();
    check(
        &["-r", text(&path), "-w", text(&out), "--rotate-size", "4096", "--files", "100"],
        0,
        &["30 captured"],
    );
    assert!(!out.exists());
    let mut numbers = Vec::new();
    let mut files = 0;
    for number in 1.. {
        let file = folder.join(format!("out-{number:05}.pcapng"));
        if !file.exists() {
            break;
        }
        let bytes = std::fs::read(&file).unwrap();
        assert!(bytes.len() < 4096 + 500, "{} bytes", bytes.len());
        pcapng::assert_holds(&bytes, Rules { is_monotone: true });
        let contents = super::contents_of(&bytes);
        assert_eq!(
            (contents.interfaces.len(), bytes.windows(13).filter(|part| part == b"CLIENT_RANDOM").count()),
            (1, 1)
        );
        numbers.extend(contents.packets.iter().map(|packet| super::number(&packet.bytes)));
        files = number;
    }
    assert_eq!(numbers, (0..30).collect::<Vec<_>>());
    assert!(files > 1);
    let again = folder.join("again.pcapng");
    check(&["-r", text(&path), "-w", text(&again), "--rotate-size", "4096", "--files", "1"], 0, &[]);
    let kept = std::fs::read_dir(&folder)
        .unwrap()
        .filter(|entry| entry.as_ref().unwrap().file_name().to_str().unwrap().starts_with("again"));
    assert_eq!(kept.count(), 1);
}

#[test]
fn a_damaged_file_is_written_up_to_where_it_is_damaged() {
    let folder = folder("damaged");
    let (path, out) = (folder.join("cut.pcap"), folder.join("out.pcapng"));
    let mut file = pcap_file::classic(1, &frames(50));
    file.truncate(file.len() - 3);
    std::fs::write(&path, file).unwrap();
    check(&["-r", text(&path), "-w", text(&out)], 1, &["cut.pcap: byte", "49 captured"]);
    pcapng::assert_holds(&std::fs::read(&out).unwrap(), Rules { is_monotone: true });
    assert_eq!(contents(&out).packets.len(), 49);
}

#[test]
fn what_cannot_be_is_refused_before_anything_is_captured() {
    let folder = folder("refused");
    let path = folder.join("a.pcap");
    pcap_file::write(&path, 1, &frames(1)).unwrap();
    let read = text(&path);
    check(&["-r", read], 2, &["-w FILE writes them, --print prints them, --stats counts them"]);
    check(&["-w", "x"], 2, &["--interface"]);
    check(&["-i", "lo", "-r", read, "--stats"], 2, &["cannot be used with"]);
    check(&["-r", read, "--stats", "-f", "hash 3 = 1"], 1, &["error"]);
    check(
        &["-r", read, "--stats", "-f", "ifindex 3"],
        1,
        &["`ifindex` is not known of packets in capture files"],
    );
    check(&["-r", read, "-w", "x", "--files", "3"], 2, &["--files needs --rotate-size or --rotate-time"]);
    check(&["-r", read, "-w", "-", "--rotate-size", "1M"], 2, &["standard output cannot be rotated"]);
    check(&["-r", read, "-w", "-", "--print"], 2, &["--print prints where -w - writes"]);
    check(&["-r", read, "--stats", "-c", "0"], 2, &["0 is not in"]);
    check(&["-r", read, "--stats", "-f", "tcp prt 80"], 1, &["syntax error", "<filter>:1:5"]);
    check(&["-r", read, "--stats", "-f", "wlan type mgt"], 1, &["<filter>:1"]);
    check(&["-r", "/nowhere/a", "--stats"], 1, &["cannot read /nowhere/a"]);
    check(&["-r", read, "-w", "/nowhere/out"], 1, &["cannot make /nowhere/out"]);
    check(&["-r", read, "--stats"], 0, &["1 captured"]);
}
