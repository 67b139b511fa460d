//! Every packet is accounted for: received = filtered + written + dropped, and received is what the application counted.

use weir_dpdk_source::{Counters, Direction, Options, Packet};
use weir_packet_ring::RingSpec;
use weir_packet_ring::limits::RING_BYTES_MIN;

use crate::application::{Fake, Forwarded, Seen, filtered, finish, sum, wait_until};

/// Runs bursts under these options, and gives counters of each ring and the packets.
fn captured(options: &Options, bursts: u32) -> (Forwarded, Vec<(usize, RingSpec, Counters)>, Vec<Seen>) {
    let mut fake = Fake::start();
    let mut capture = fake.capture(options);
    let forwarded = fake.run(bursts);
    let (ended, seen) = finish(&mut capture);
    assert_eq!(fake.callbacks(), 0);
    (forwarded, ended.rings, seen)
}

/// A large enough ring that nothing is dropped.
fn roomy(options: Options) -> Options {
    Options { ring_bytes: 16 << 20, ..options }
}

#[test]
fn all_packets_of_all_queues_are_captured_without_a_filter() {
    let (forwarded, rings, seen) = captured(&roomy(Options::default()), 2000);
    for (port, RingSpec { direction, .. }, counters) in rings {
        let counted = forwarded.of(port, direction);
        assert_eq!(counters, Counters { received: counted, filtered: 0, written: counted, dropped: 0 });
        let of_ring: Vec<&Seen> =
            seen.iter().filter(|seen| (seen.port, seen.direction) == (port, direction)).collect();
        assert_eq!(of_ring.len() as u64, counted);
        assert!(of_ring.iter().enumerate().all(|(at, seen)| seen.number() == at as u32), "in their order");
        assert!(of_ring.is_sorted_by_key(|seen| seen.ns));
    }
    assert!(seen.is_sorted_by_key(|seen| seen.ns), "rings are merged by time");
}

#[test]
fn a_filter_keeps_what_it_accepts_and_no_more() {
    // How many of four packets.
    for (expression, kept) in [
        ("ip6", 0),
        ("tcp port 80", 2),
        ("udp", 1),
        ("vlan 5 and tcp port 80", 1),
        ("greater 64", 3),
        ("len >= 1", 4),
    ] {
        let (forwarded, rings, seen) = captured(&roomy(filtered(expression)), 400);
        let (all, written) = (forwarded.all(), seen.len() as u64);
        let expected = Counters { received: all, filtered: all - written, written, dropped: 0 };
        assert_eq!(sum(&rings), expected, "{expression}");
        let received: Vec<&Seen> = seen.iter().filter(|seen| seen.direction == Direction::Rx).collect();
        let expected: u64 = forwarded.rx.iter().map(|count| kept * count / 4).sum();
        assert!(
            received.len().abs_diff(expected as usize) <= 8,
            "{expression}: {} of {expected}",
            received.len()
        );
    }
}

#[test]
fn a_filter_may_ask_for_the_direction() {
    let (forwarded, rings, seen) = captured(&roomy(filtered("inbound and udp")), 400);
    assert!(!seen.is_empty() && seen.iter().all(|seen| seen.direction == Direction::Rx), "{rings:?}");
    let received: u64 = forwarded.rx.iter().sum();
    assert!((seen.len() as u64).abs_diff(received / 4) <= 8);
}

#[test]
fn what_finds_no_room_is_counted_and_packets_afterwards_say_so() {
    let mut fake = Fake::start();
    let mut capture = fake.capture(&Options { ring_bytes: RING_BYTES_MIN, ..Options::default() });
    fake.run(3000);
    let counters = sum(&capture.counters());
    assert!(counters.dropped > 0, "{counters:?}");
    // The rings are emptied, and each gets a packet that says how many there were.
    let mut dropped = 0;
    let mut count = |packet: &Packet<'_>| {
        dropped += u64::from(packet.dropped);
        true
    };
    wait_until("the rings are empty", || {
        capture.poll(&mut count).unwrap();
        sum(&capture.counters()).written > 0 && capture.poll(&mut count).unwrap().0 == 0
    });
    fake.run(8);
    let (ended, seen) = finish(&mut capture);
    dropped += seen.iter().map(|seen| u64::from(seen.dropped)).sum::<u64>();
    let counters = sum(&ended.rings);
    assert_eq!(counters.received, counters.filtered + counters.written + counters.dropped);
    assert_eq!(dropped, counters.dropped);
}

#[test]
fn two_threads_on_one_queue_lose_nothing_from_the_account() {
    let mut fake = Fake::start_with(&["shared"], &[]);
    let mut capture = fake.capture(&filtered("tcp port 80"));
    let forwarded = fake.run(20_000);
    let (ended, _) = finish(&mut capture);
    for (port, spec, counters) in ended.rings {
        assert_eq!(counters.received, forwarded.of(port, spec.direction), "{spec:?}");
        assert_eq!(counters.received, counters.filtered + counters.written + counters.dropped);
    }
}
