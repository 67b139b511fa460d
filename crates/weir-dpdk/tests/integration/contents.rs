//! Packets are as they were on the wire, with what driver and application have said of them.

use std::collections::HashMap;
use std::time::{SystemTime, UNIX_EPOCH};

use weir_dpdk_source::{Direction, Flags, Options};

use crate::application::{Fake, Seen, finish, names};

fn captured(options: &Options) -> Vec<Seen> {
    let mut fake = Fake::start();
    let mut capture = fake.capture(options);
    fake.run(200);
    finish(&mut capture).1
}

#[test]
fn tags_that_were_stripped_are_put_back() {
    let seen = captured(&Options::default());
    let tagged: Vec<&Seen> = seen.iter().filter(|seen| seen.flags.contains(Flags::TAGGED)).collect();
    assert!(!tagged.is_empty());
    for packet in tagged {
        assert_eq!(packet.direction, Direction::Rx);
        assert_eq!((packet.bytes.len(), packet.wire_bytes), (64, 64));
        assert_eq!(packet.bytes[12..18], [0x81, 0, 0, 5, 8, 0], "{packet:?}");
        assert_eq!(packet.bytes[..6], [0, 0, 0, 0, 0, packet.port as u8 + 1]);
        assert_eq!(packet.number() % 4, 2);
    }
}

#[test]
fn segments_are_joined() {
    let seen = captured(&Options::default());
    let joined: Vec<&Seen> = seen.iter().filter(|seen| seen.wire_bytes == 120).collect();
    assert!(!joined.is_empty());
    for packet in joined {
        assert_eq!((packet.bytes.len(), packet.number() % 4), (120, 3));
        assert_eq!((packet.bytes[23], packet.bytes[37]), (6, 80), "the second segment has the ports");
    }
}

#[test]
fn a_snapshot_length_cuts_and_the_wire_s_length_stays() {
    let seen = captured(&Options { snaplen: 24, ..Options::default() });
    assert!(!seen.is_empty() && seen.iter().all(|seen| seen.bytes.len() == 24));
    assert!([60, 64, 100, 120].iter().all(|bytes| seen.iter().any(|seen| seen.wire_bytes == *bytes)));
}

#[test]
fn flags_and_hashes_are_those_of_the_packets() {
    for packet in captured(&Options::default()) {
        let number = packet.number();
        match packet.direction {
            Direction::Rx => {
                assert_eq!(packet.hash, Some(number));
                assert_eq!(packet.flags.contains(Flags::CHECKSUM_GOOD), number.is_multiple_of(8));
                assert!(!packet.flags.contains(Flags::CHECKSUM_NOT_READY));
            }
            Direction::Tx => {
                assert_eq!(packet.hash, None);
                assert_eq!(packet.flags.contains(Flags::CHECKSUM_NOT_READY), number.is_multiple_of(4));
            }
        }
    }
}

#[test]
fn a_packet_s_number_is_the_same_received_and_sent() {
    let seen = captured(&Options { has_ids: true, ..Options::default() });
    let mut received = HashMap::new();
    for packet in seen.iter().filter(|seen| seen.direction == Direction::Rx) {
        let id = packet.id.expect("all that are received get one");
        assert_eq!(received.insert(id, packet), None, "a number of its own");
    }
    let sent: Vec<&Seen> = seen.iter().filter(|seen| seen.direction == Direction::Tx).collect();
    assert_eq!(sent.len(), received.len());
    for packet in sent {
        let before = received[&packet.id.expect("flags are kept on the way")];
        assert_eq!((before.number(), before.port), (packet.number(), 1 - packet.port));
        assert!(before.ns <= packet.ns);
    }
}

#[test]
fn times_are_those_of_the_clock() {
    let now = || SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as u64;
    let mut fake = Fake::start();
    let mut capture = fake.capture(&Options::default());
    let before = now();
    fake.run(50);
    let after = now();
    let (_, seen) = finish(&mut capture);
    // 10 µs: readings of the clock that were interrupted are less exact, by less than that.
    let is_inside = |seen: &Seen| seen.ns + 10_000 >= before && seen.ns <= after + 10_000;
    assert!(
        seen.iter().all(is_inside),
        "{before} to {after}: {:?}",
        seen.iter().find(|seen| !is_inside(seen))
    );
}

#[test]
fn ports_are_as_the_application_says() {
    let fake = Fake::start();
    let ports = fake.connect().ports().unwrap();
    assert_eq!(names(&ports), ["net_fake0", "net_fake1"]);
    assert_eq!((ports[1].speed, ports[1].mac), (Some(10_000_000_000), Some([2, 0, 0, 0, 0, 1])));
}
