//! What is written is read as it was given, byte for byte as files that are put together by hand; and how outputs fail.

use std::io::{self, Write};
use std::net::{Ipv4Addr, Ipv6Addr};

use testkit::pcapng::{self, Rules};
use testkit::random::Source;
use testkit::skip::skip;
use testkit::{paths, wireshark};
use weir_pcapng::{
    Address, Direction, Event, Filter, Hash, HashAlgorithm, Interface, NewPacket, PacketFlags, PacketOptions,
    Reader, Reception, Section, Server, Speed, Statistics, Verdict, WriteError, Writer, secrets,
};

use crate::file::{File, Order};
use crate::listing::listed;

fn text(text: &str) -> Option<String> {
    Some(text.to_owned())
}

/// What `write` puts into a file after a section header and one Ethernet interface with this snapshot length.
fn written(
    snaplen: u32,
    write: impl FnOnce(&mut Writer<Vec<u8>>, weir_pcapng::InterfaceId) -> Result<(), WriteError>,
) -> Vec<u8> {
    let mut writer = Writer::new(Vec::new(), &Section::default()).unwrap();
    let interface = writer.interface(&Interface::new(1, snaplen)).unwrap();
    write(&mut writer, interface).unwrap();
    assert_eq!(writer.output().len(), 0, "a short file is written when it is flushed");
    writer.flush().unwrap();
    assert_eq!(writer.bytes(), writer.output().len() as u64);
    writer.into_output()
}

fn by_hand(snaplen: u32) -> File {
    File::new(Order::Little).section(&[]).interface(1, snaplen, &[(9, vec![9])])
}

/// A file in which every option of sections, interfaces, packets and statistics is.
fn everything(time: u64) -> Vec<u8> {
    let section = Section {
        hardware: text("x86-64"),
        os: text("Linux 6.1"),
        application: text("weir"),
        comments: vec!["one".into(), "two".into()],
    };
    let interface = Interface {
        name: text("eth0"),
        description: text("a card"),
        ipv4: vec![(Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(255, 0, 0, 0))],
        ipv6: vec![(Ipv6Addr::LOCALHOST, 128)],
        mac: Some([1, 2, 3, 4, 5, 6]),
        eui: Some([1, 2, 3, 4, 5, 6, 7, 8]),
        speed: Some(Speed::Each { transmit: Some(1), receive: Some(2) }),
        offset_s: 1,
        filter: Some(Filter::Text("tcp".into())),
        os: text("Linux"),
        hardware: text("0000:00:01.0"),
        fcs_bits: Some(32),
        time_zone: text("Europe/Berlin"),
        comments: vec!["c".into()],
        ..Interface::new(1, 96)
    };
    let mut writer = Writer::new(Vec::new(), &section).unwrap();
    let id = writer.interface(&interface).unwrap();
    let options = PacketOptions {
        flags: Some(
            PacketFlags::default()
                .with_direction(Direction::Outbound)
                .with_reception(Reception::Broadcast)
                .and_checksum_not_ready()
                .and_segmentation_offloaded(),
        ),
        hash: Some(Hash { algorithm: HashAlgorithm::Toeplitz, bytes: &[1, 2, 3, 4] }),
        drop_count: Some(7),
        packet_id: Some(8),
        queue: Some(9),
        verdict: Some(Verdict::Xdp(2)),
        comments: &["d"],
        more: None,
    };
    writer.packet(&NewPacket { interface: id, time, wire_len: 60, bytes: &[1, 2, 3], options }).unwrap();
    let statistics = Statistics {
        time: Some(time),
        start: Some(time - 2),
        end: Some(time),
        received: Some(4),
        dropped: Some(5),
        accepted: Some(6),
        os_dropped: Some(7),
        delivered: Some(8),
        comments: vec!["e".into()],
    };
    writer.statistics(id, &statistics).unwrap();
    writer.flush().unwrap();
    writer.into_output()
}

#[test]
fn every_option_has_the_bytes_of_the_draft() {
    let time = 1_700_000_000_000_000_009;
    let file = everything(time);
    let order = Order::Little;
    let t = |code: u16, text: &str| (code, text.as_bytes().to_vec());
    let n = |code: u16, number: u64| (code, File::value(order, number));
    let ticks = |ticks: u64| File::new(order).ticks(ticks).bytes;
    let time = time - 1_000_000_000;
    let expected = File::new(order)
        .section(&[t(2, "x86-64"), t(3, "Linux 6.1"), t(4, "weir"), t(1, "one"), t(1, "two")])
        .interface(
            1,
            96,
            &[
                t(2, "eth0"),
                t(3, "a card"),
                (4, vec![10, 0, 0, 1, 255, 0, 0, 0]),
                (5, [&[0; 15][..], &[1, 128]].concat()),
                (6, vec![1, 2, 3, 4, 5, 6]),
                (7, vec![1, 2, 3, 4, 5, 6, 7, 8]),
                n(16, 1),
                n(17, 2),
                (9, vec![9]),
                t(11, "\0tcp"),
                t(12, "Linux"),
                (13, vec![32]),
                n(14, 1),
                t(15, "0000:00:01.0"),
                t(18, "Europe/Berlin"),
                t(1, "c"),
            ],
        )
        .block(6, |body| {
            body.u32(0).ticks(time).u32(3).u32(60).padded(&[1, 2, 3]).options(&[
                (2, vec![0x0e, 0x0a, 0, 0]),
                (3, vec![5, 1, 2, 3, 4]),
                n(4, 7),
                n(5, 8),
                (6, vec![9, 0, 0, 0]),
                (7, [&[2][..], &File::value(order, 2)].concat()),
                t(1, "d"),
            ])
        })
        .statistics(
            0,
            time,
            &[(2, ticks(time - 2)), (3, ticks(time)), n(4, 4), n(5, 5), n(6, 6), n(7, 7), n(8, 8), t(1, "e")],
        );
    assert_eq!(file, expected.bytes);
}

#[test]
fn what_is_written_keeps_every_rule_and_wireshark_reads_it_without_a_warning() {
    let file = everything(1_700_000_000_000_000_009);
    pcapng::assert_holds(&file, Rules::default());
    let mut source = Source::new(6);
    for _ in 0..100 {
        pcapng::assert_holds(&written_again(&random_file(&mut source)), Rules::default());
    }
    let folder = paths::fresh("pcapng", "everything");
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.join("file");
    std::fs::write(&path, file).unwrap();
    let fields = ["frame.packet_flags_direction", "frame.interface_queue", "frame.packet_id", "frame.len"];
    let (Some(infos), Some(packets)) = (wireshark::capinfos(&path), wireshark::tshark(&path, &fields)) else {
        return skip("pcapng-wireshark", "tshark is not installed");
    };
    for said in
        ["x86-64", "Linux 6.1", "weir", "Name = eth0", "Time resolution = 0x09", "Filter string = tcp"]
    {
        assert!(infos.contains(said), "{said} is not in:\n{infos}");
    }
    assert_eq!(packets, ["0x00000002\t9\t8\t60"]);
}

#[test]
fn speeds_that_are_alike_are_one_option() {
    let check = |speed, options: &[(u16, u64)]| {
        let mut writer = Writer::new(Vec::new(), &Section::default()).unwrap();
        writer.interface(&Interface { speed: Some(speed), ..Interface::new(1, 0) }).unwrap();
        writer.flush().unwrap();
        let speeds = options.iter().map(|(code, number)| (*code, File::value(Order::Little, *number)));
        let options: Vec<_> = speeds.chain([(9, vec![9])]).collect();
        let expected = File::new(Order::Little).section(&[]).interface(1, 0, &options);
        assert_eq!(writer.output(), &expected.bytes, "{speed:?}");
    };
    check(Speed::Both(5), &[(8, 5)]);
    check(Speed::Each { transmit: Some(5), receive: Some(5) }, &[(8, 5)]);
    check(Speed::Each { transmit: None, receive: Some(5) }, &[(17, 5)]);
    check(Speed::Each { transmit: None, receive: None }, &[]);
}

#[test]
fn names_and_secrets_have_the_bytes_of_the_draft() {
    let server = Server {
        name: Some("ns"),
        ipv4: Some(Ipv4Addr::new(1, 1, 1, 1)),
        ipv6: Some(Ipv6Addr::LOCALHOST),
        comments: &["c"],
    };
    let records = [
        (Address::Ipv4(Ipv4Addr::new(10, 0, 0, 1)), &["a", "bc"][..]),
        (Address::Ipv6(Ipv6Addr::LOCALHOST), &["d"]),
        (Address::Eui48([1; 6]), &["e"]),
        (Address::Eui64([2; 8]), &["f"]),
    ];
    let file = written(0, |writer, _| {
        writer.names(&records, &server)?;
        writer.names(&[], &Server::default())?;
        writer.secrets(secrets::TLS, b"CLIENT_RANDOM")
    });
    let record = |file: File, kind: u16, value: &[u8]| file.u16(kind).u16(value.len() as u16).padded(value);
    let expected = by_hand(0)
        .block(4, |body| {
            let body = record(body, 1, b"\x0a\0\0\x01a\0bc\0");
            let body = record(body, 2, &[&[0; 15][..], b"\x01d\0"].concat());
            let body = record(body, 3, &[&[1; 6][..], b"e\0"].concat());
            let body = record(body, 4, &[&[2; 8][..], b"f\0"].concat());
            body.u32(0).options(&[
                (2, b"ns".to_vec()),
                (3, vec![1; 4]),
                (4, [&[0; 15][..], &[1]].concat()),
                (1, b"c".to_vec()),
            ])
        })
        .block(4, |body| body.u32(0))
        .block(0x0a, |body| body.u32(0x544c_534b).u32(13).padded(b"CLIENT_RANDOM"));
    assert_eq!(file, expected.bytes);
}

#[test]
fn what_is_read_and_written_again_is_the_same() {
    let mut source = Source::new(5);
    for _ in 0..300 {
        let file = random_file(&mut source);
        assert_eq!(listed(&written_again(&file)), listed(&file));
    }
}

/// Every event of a file, given to a writer.
fn written_again(file: &[u8]) -> Vec<u8> {
    let mut reader = Reader::new(file).unwrap();
    let mut writer: Option<Writer<Vec<u8>>> = None;
    let mut ids = Vec::new();
    while let Some(event) = reader.next().unwrap() {
        match event {
            Event::Section(section) => writer = Some(Writer::new(Vec::new(), section).unwrap()),
            Event::Interface(_, interface) => {
                ids.push(writer.as_mut().unwrap().interface(interface).unwrap())
            }
            Event::Packet(packet) => {
                let options = PacketOptions {
                    flags: packet.fields.flags(),
                    drop_count: packet.fields.drop_count(),
                    packet_id: packet.fields.packet_id(),
                    queue: packet.fields.queue(),
                    more: Some(packet.fields),
                    ..PacketOptions::default()
                };
                let packet = NewPacket {
                    interface: ids[packet.interface.index()],
                    time: packet.time.unwrap(),
                    wire_len: packet.wire_len,
                    bytes: packet.bytes,
                    options,
                };
                writer.as_mut().unwrap().packet(&packet).unwrap();
            }
            Event::Statistics(id, statistics) => {
                writer.as_mut().unwrap().statistics(ids[id.index()], statistics).unwrap();
            }
            event => panic!("nobody wrote this: {event:?}"),
        }
    }
    let mut writer = writer.unwrap();
    writer.flush().unwrap();
    writer.into_output()
}

/// By hand, and big endian: what comes out is not what went in because both make the same mistake.
fn random_file(source: &mut Source) -> Vec<u8> {
    let order = Order::Big;
    let interfaces = 1 + source.below(3);
    let mut file = File::new(order).section(&[(4, b"weir".to_vec())]);
    for _ in 0..interfaces {
        let name = (2, format!("if{}", source.below(100)).into_bytes());
        let offset = source.below(5) as u64;
        file = file.interface(1, 0, &[name, (9, vec![9]), (14, File::value(order, offset))]);
    }
    for at in 0..source.below(20) {
        let interface = source.below(interfaces) as u32;
        let ticks = 1_700_000_000_000_000_000 + at as u64;
        if source.chance(10) {
            let count = (4 + source.below(5) as u16, File::value(order, source.number()));
            file = file.statistics(interface, ticks, &[count]);
            continue;
        }
        let mut options = Vec::new();
        let mut add = |chance, code, value: Vec<u8>| {
            if source.chance(chance) {
                options.push((code, value));
            }
        };
        add(50, 2, vec![0, 0, 0x02, 0x05]);
        add(50, 3, vec![5, 1, 2, 3, 4]);
        add(30, 3, vec![2, 9, 8, 7, 6]);
        add(50, 4, File::value(order, 1 << 33));
        add(50, 5, File::value(order, 77));
        add(50, 6, vec![0, 0, 0, 3]);
        add(50, 7, [&[1][..], &File::value(order, 2)].concat());
        add(30, 7, vec![0, 1, 2]);
        add(30, 8, vec![0, 0, 0, 1, 0, 0, 0, 2]);
        add(30, 1, b"a comment".to_vec());
        let length = source.below(70);
        let packet = source.bytes(length);
        file = file.enhanced(interface, ticks, &packet, &options);
    }
    file.bytes
}

#[test]
fn what_the_format_has_no_room_for_is_refused_and_leaves_no_trace() {
    let mut writer = Writer::new(Vec::new(), &Section::default()).unwrap();
    let id = writer.interface(&Interface::new(1, 4)).unwrap();
    let before = writer.bytes();
    type Asked<'a> = &'a mut dyn FnMut(&mut Writer<Vec<u8>>) -> Result<(), WriteError>;
    let mut check = |done: Asked<'_>, said: &str| {
        let error = done(&mut writer).unwrap_err();
        assert!(error.to_string().contains(said), "{error}");
        assert_eq!((error.whole(), writer.bytes()), (None, before), "{said}");
    };
    let good = NewPacket {
        interface: id,
        time: 1,
        wire_len: 3,
        bytes: &[1, 2, 3],
        options: PacketOptions::default(),
    };
    check(
        &mut |w| w.packet(&NewPacket { wire_len: 2, ..good }),
        "3 bytes were captured of a packet that had 2",
    );
    let long = NewPacket { wire_len: 9, bytes: &[0; 5], ..good };
    check(&mut |w| w.packet(&long), "5 bytes were captured at an interface whose snapshot length is 4");
    let comments = ["a".repeat(65_536)];
    let comments = [comments[0].as_str()];
    let options = PacketOptions { comments: &comments, ..PacketOptions::default() };
    check(&mut |w| w.packet(&NewPacket { options, ..good }), "an option (code 1) of 65536 bytes");
    let options = PacketOptions { comments: &["a\0b"], ..PacketOptions::default() };
    check(&mut |w| w.packet(&NewPacket { options, ..good }), "NUL");
    let flags = Some(PacketFlags::from_bits(0x1000));
    let options = PacketOptions { flags, ..PacketOptions::default() };
    check(&mut |w| w.packet(&NewPacket { options, ..good }), "bits that must be 0");
    check(&mut |w| w.statistics(id, &Statistics::default()), "statistics have no time");
    check(&mut |w| w.names(&[(Address::Eui48([0; 6]), &[])], &Server::default()), "has no name");
    check(&mut |w| w.secrets(1, &vec![0; 16 << 20]), "longer than 16777216 bytes");
    writer.packet(&good).unwrap();
    writer.flush().unwrap();
    assert_eq!(listed(writer.output()).len(), 3);

    // An interface that another file has.
    let mut other = Writer::new(Vec::new(), &Section::default()).unwrap();
    assert!(other.packet(&good).unwrap_err().to_string().contains("there is no interface 0"));
    let offset = Interface { offset_s: 10, ..Interface::new(1, 0) };
    let interface = other.interface(&offset).unwrap();
    let error = other.packet(&NewPacket { interface, ..good }).unwrap_err();
    assert!(error.to_string().contains("an offset of 10 s"), "{error}");
}

/// An output that takes at most `step` bytes at once, is interrupted before each, and fails after `room` bytes.
struct Failing {
    file: Vec<u8>,
    room: usize,
    step: usize,
    is_interrupted: bool,
}

impl Write for Failing {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.is_interrupted = !self.is_interrupted;
        if self.is_interrupted {
            return Err(io::ErrorKind::Interrupted.into());
        }
        let count = bytes.len().min(self.step).min(self.room - self.file.len());
        if count == 0 {
            return Err(io::ErrorKind::StorageFull.into());
        }
        self.file.extend_from_slice(&bytes[..count]);
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn an_output_that_fails_at_any_byte_is_whole_up_to_where_the_error_says() {
    let write = |room: usize, step: usize| {
        let output = Failing { file: Vec::new(), room, step, is_interrupted: false };
        let mut writer = Writer::new(output, &Section::default()).unwrap();
        let interface = writer.interface(&Interface::new(1, 0)).unwrap();
        let options = PacketOptions { queue: Some(1), ..PacketOptions::default() };
        for bytes in [&[1; 5][..], &[2; 8], &[]] {
            let packet = NewPacket { interface, time: 1, wire_len: 9, bytes, options };
            writer.packet(&packet).unwrap();
        }
        let done = writer.flush();
        let again = writer.flush();
        assert_eq!(again.is_err(), done.is_err());
        (done, writer.into_output().file)
    };
    let (done, all) = write(usize::MAX, 1);
    done.unwrap();
    let ends: Vec<usize> = ends(&all);
    assert_eq!((listed(&all).len(), ends.len()), (5, 6));
    for room in 0..all.len() {
        for step in [1, 7, 1000] {
            let (done, file) = write(room, step);
            let error = done.unwrap_err();
            assert_eq!(error.io_error().unwrap().kind(), io::ErrorKind::StorageFull);
            assert_eq!(file, all[..room], "all that it took");
            let whole = *ends.iter().rfind(|end| **end <= room).unwrap();
            assert_eq!(error.whole(), Some(whole as u64), "{room} {step}");
        }
    }
}

/// Where blocks end, 0 among them.
fn ends(file: &[u8]) -> Vec<usize> {
    let mut ends = vec![0];
    while let Some(length) = file[ends[ends.len() - 1]..].get(4..8) {
        ends.push(ends[ends.len() - 1] + u32::from_le_bytes(length.try_into().unwrap()) as usize);
    }
    ends
}

#[test]
fn a_long_file_is_written_while_it_grows() {
    let mut writer = Writer::new(Vec::new(), &Section::default()).unwrap();
    let interface = writer.interface(&Interface::new(1, 0)).unwrap();
    let (bytes, options) = (&[7; 1400][..], PacketOptions::default());
    for time in 0..2_000 {
        writer.packet(&NewPacket { interface, time, wire_len: 1400, bytes, options }).unwrap();
        let kept = writer.bytes() - writer.output().len() as u64;
        assert!(kept < 300_000, "{kept} bytes are in memory");
    }
    assert!(writer.whole() > 2_000_000);
    writer.flush().unwrap();
    assert_eq!(listed(writer.output()).len(), 2_002);
}
