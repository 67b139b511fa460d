//! Files that `testkit::pcap_file` writes, in both formats, are read as what was written.

use std::cell::Cell;
use std::io::{self, Read};

use testkit::packets::LINKS;
use testkit::pcap_file::{self, Packet};
use testkit::random::Source;
use weir_pcapng::{Event, Format, Limits, Reader, Resolution};

use crate::listing::{Slow, listed, listed_of};

fn check(dlt: i32, packets: &[Packet]) {
    let files = [
        (Format::Classic, pcap_file::classic(dlt, packets)),
        (Format::Pcapng, pcap_file::pcapng(dlt, packets)),
    ];
    for (format, file) in files {
        let mut reader = Reader::new(&file[..]).unwrap();
        assert_eq!(reader.format(), format);
        let mut read = Vec::new();
        while let Some(event) = reader.next().unwrap() {
            match event {
                Event::Packet(packet) => {
                    assert_eq!(packet.time, Some(read.len() as u64 * 1_000_000_000));
                    assert_eq!(packet.interface.index(), 0);
                    assert!(packet.fields.is_empty());
                    read.push(Packet { bytes: packet.bytes.to_vec(), wire_len: packet.wire_len });
                }
                Event::Interface(id, interface) => {
                    assert_eq!((id.index(), interface.link_type), (0, pcap_file::link_type(dlt)));
                    assert_eq!(
                        (interface.snaplen, interface.resolution),
                        (262_144, Resolution::MICROSECONDS)
                    );
                }
                Event::Section(_) => assert_eq!(format, Format::Pcapng),
                event => panic!("nobody wrote this: {event:?}"),
            }
        }
        assert!(read == packets, "{dlt} {format:?}: other packets than were written");
        assert_eq!(reader.interfaces().len(), 1);
        assert_eq!(reader.offset(), file.len() as u64);
    }
}

fn packets() -> Vec<Packet> {
    let whole = (0..20).map(|length| Packet::whole((0..length).collect()));
    whole.chain([Packet { bytes: vec![7; 60], wire_len: 9_000 }]).collect()
}

#[test]
fn packets_of_every_link_type_are_those_that_were_written() {
    let mut source = Source::new(1);
    for link in LINKS {
        let packets: Vec<Packet> = (0..20).map(|_| link.packet(&mut source)).collect();
        check(link.dlt, &packets);
    }
}

#[test]
fn a_file_may_have_no_packets() {
    check(1, &[]);
}

#[test]
fn packets_may_be_longer_than_the_buffer_is_at_first() {
    let lengths = [262_144, 1, 3 << 20, 0, 262_120, 70_000];
    let packets: Vec<Packet> =
        lengths.iter().map(|length| Packet::whole(vec![*length as u8 ^ 0x5a; *length])).collect();
    check(1, &packets);
}

#[test]
fn packets_that_fill_the_buffer_many_times_are_all_read() {
    // 60 bytes and the head are no part of the buffer's length, so that packets lie across its end.
    let packets: Vec<Packet> =
        (0..20_000_u32).map(|n| Packet::whole([&n.to_le_bytes()[..], &[0; 56]].concat())).collect();
    check(1, &packets);
}

#[test]
fn an_input_that_gives_a_byte_at_a_time_is_read_alike() {
    for file in [pcap_file::classic(1, &packets()), pcap_file::pcapng(1, &packets())] {
        assert_eq!(listed_of(Slow::new(&file), Limits::default()), listed(&file));
    }
}

#[test]
fn a_file_that_grows_is_read_on() {
    for write in [pcap_file::classic, pcap_file::pcapng] {
        let (before, after) = (write(1, &packets()[..2]), write(1, &packets()));
        let end = Cell::new(before.len());
        let mut reader = Reader::new(Growing { file: &after, end: &end, at: 0 }).unwrap();
        let mut count = || {
            let mut count = 0;
            while reader.next().unwrap().is_some() {
                count += 1;
            }
            count
        };
        assert_eq!(count(), listed(&before).len());
        assert_eq!(count(), 0);
        end.set(after.len());
        assert_eq!(count(), packets().len() - 2);
    }
}

/// An input that has nothing before every other byte.
struct Hesitant<'a> {
    file: &'a [u8],
    has_any: bool,
}

impl Read for Hesitant<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.has_any = !self.has_any;
        if !self.has_any {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let most = buffer.len().min(1);
        self.file.read(&mut buffer[..most])
    }
}

#[test]
fn an_input_that_has_nothing_yet_is_asked_again() {
    for file in [pcap_file::classic(1, &packets()), pcap_file::pcapng(1, &packets())] {
        // A reader begins with the head of the file.
        let (head, rest) = file.split_at(24);
        let mut reader = Reader::new(head.chain(Hesitant { file: rest, has_any: false })).unwrap();
        let mut read = 0;
        loop {
            match reader.next() {
                Ok(Some(Event::Packet(packet))) => {
                    assert_eq!(packet.bytes, packets()[read].bytes);
                    read += 1;
                }
                Ok(Some(_)) => {}
                Ok(None) => break,
                Err(error) => assert!(error.would_block(), "{error}"),
            }
        }
        assert_eq!(read, packets().len());
    }
}

/// A file of which only the bytes before `end` are there.
struct Growing<'a> {
    file: &'a [u8],
    end: &'a Cell<usize>,
    at: usize,
}

impl Read for Growing<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = (&self.file[self.at..self.end.get()]).read(buffer)?;
        self.at += count;
        Ok(count)
    }
}
