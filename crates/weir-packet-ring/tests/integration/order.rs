//! Packets come out as they went in, and every one is accounted for.

use std::sync::atomic::{AtomicBool, Ordering};

use testkit::random::Source;
use weir_packet_ring::{Counters, Drained, Flags, Meta, Packet};

use crate::{meta, segment};

/// So many bytes that say which packet they are of.
fn contents(number: u64, bytes: usize) -> Vec<u8> {
    (0..bytes).map(|at| (number as usize * 31 + at) as u8).collect()
}

#[test]
fn a_packet_comes_out_with_all_that_is_known_of_it() {
    let segment = segment(1);
    let (mut writer, mut reader, mut drained) = (segment.writer(0), segment.reader(0), Drained::default());
    let flags = Flags::HASH.with(Flags::CHECKSUM_GOOD);
    let meta = Meta { ticks: u64::MAX, wire_bytes: 1514, flags, hash: 0xdead_beef, id: 7 << 50 };
    assert!(writer.write(&meta, b"thirteen long"));
    assert!(!reader.drain(&mut drained), "nothing was published");
    writer.publish(3, 2);
    assert!(reader.drain(&mut drained));
    assert_eq!(drained.ticks(), Some(u64::MAX));
    assert_eq!(drained.next(), Some(Packet { meta, dropped: 0, bytes: b"thirteen long" }));
    assert_eq!(drained.next(), None);
    assert_eq!(segment.counters(0), Counters { received: 3, filtered: 2, written: 1, dropped: 0 });
}

#[test]
fn what_finds_no_room_is_counted_and_the_next_packet_says_so() {
    let segment = segment(1);
    let (mut writer, mut reader, mut drained) = (segment.writer(0), segment.reader(0), Drained::default());
    let (mut written, mut received) = (0, 0);
    while writer.write(&meta(received), &contents(received, 1000)) {
        (written, received) = (written + 1, received + 1);
    }
    assert!(!writer.write(&meta(0), &[0; 1000]));
    writer.publish(received + 2, 0);
    for number in 0..written {
        while drained.ticks().is_none() {
            assert!(reader.drain(&mut drained));
        }
        assert_eq!(drained.next().unwrap().bytes, contents(number, 1000));
    }
    assert!(writer.write(&meta(1), b"after"));
    writer.publish(1, 0);
    while drained.ticks().is_none() {
        assert!(reader.drain(&mut drained));
    }
    assert_eq!((drained.next().unwrap().dropped, drained.next()), (2, None));
    let counters = segment.counters(0);
    assert_eq!(counters, Counters { received: written + 3, filtered: 0, written: written + 1, dropped: 2 });
}

#[test]
fn rings_do_not_touch_each_other() {
    let segment = segment(3);
    let mut writers = [0, 1, 2].map(|index| segment.writer(index));
    for round in 0..1000 {
        for (index, writer) in writers.iter_mut().enumerate() {
            writer.write(&meta(index as u64 * 10_000 + round), &contents(index as u64, 700));
            writer.publish(1, 0);
        }
    }
    for index in 0..3 {
        let (mut reader, mut drained, mut next) = (segment.reader(index), Drained::default(), 0);
        while reader.drain(&mut drained) {
            while let Some(packet) = drained.next() {
                assert_eq!(packet.meta.ticks, index as u64 * 10_000 + next);
                assert_eq!(packet.bytes, contents(index as u64, 700));
                next += 1;
            }
        }
        assert_eq!(next, segment.counters(index).written);
    }
}

#[test]
fn two_threads_agree_on_every_packet_over_many_laps() {
    let segment = segment(1);
    let (mut writer, mut reader) = (segment.writer(0), segment.reader(0));
    let is_done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let done = &is_done;
        scope.spawn(move || {
            let mut random = Source::new(7);
            let mut number = 0;
            for _ in 0..4_000 {
                let burst = 1 + random.below(32) as u64;
                let mut filtered = 0;
                for _ in 0..burst {
                    match random.below(4) {
                        0 => filtered += 1,
                        _ => {
                            let bytes = if random.below(50) == 0 { 65_535 } else { random.below(300) };
                            writer.write(&meta(number), &contents(number, bytes));
                        }
                    }
                    number += 1;
                }
                writer.publish(burst, filtered);
            }
            done.store(true, Ordering::Release);
        });
        let (mut drained, mut written, mut dropped, mut last) = (Drained::default(), 0, 0, None);
        loop {
            let was_done = is_done.load(Ordering::Acquire);
            let more = reader.drain(&mut drained);
            while let Some(packet) = drained.next() {
                let number = packet.meta.ticks;
                assert_eq!(packet.meta, meta(number));
                assert!(packet.bytes.iter().copied().eq(contents(number, packet.bytes.len())));
                assert!(last < Some(number));
                (written, dropped, last) = (written + 1, dropped + u64::from(packet.dropped), Some(number));
            }
            assert!(!drained.is_corrupt());
            if !more && was_done {
                break;
            }
        }
        let counters = segment.counters(0);
        assert_eq!(counters.received, counters.filtered + counters.written + counters.dropped);
        assert_eq!(counters.written, written);
        assert!(dropped <= counters.dropped && written > 1000, "{counters:?}, {dropped}");
    });
}
