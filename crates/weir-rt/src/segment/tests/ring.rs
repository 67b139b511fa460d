//! The ring against a queue: order, wrap, full, discard, dead producers; and under threads.

use std::collections::VecDeque;
use std::sync::atomic::Ordering;
use std::thread;

use weir_ebpf::map::flag;
use weir_ebpf::{MapKind, MapSpec};

use super::{Random, segment, spec};
use crate::abi::{control, record};
use crate::runtime::linked;
use crate::segment::{Record, Segment, SegmentLayout, Snapshot};

const RING_BYTES: u32 = 4096;

fn ring() -> Segment {
    segment(&[spec(MapKind::RingBuf, 0, 0, RING_BYTES)])
}

/// The one that code without a CPU's ring writes to.
fn shared() -> Segment {
    segment(&[MapSpec { flags: flag::RING_PER_CPU, ..spec(MapKind::RingBuf, 0, 0, RING_BYTES) }])
}

#[test]
fn rings_that_overwrite_keep_the_newest() {
    let flags = flag::RING_PER_CPU | flag::RB_OVERWRITE;
    let segment = segment(&[MapSpec { flags, ..spec(MapKind::RingBuf, 0, 0, RING_BYTES) }]);
    let descriptor = segment.descriptor(0);
    let spare = segment.layout().cpus as usize;
    let look = || segment.flight(0).lane(spare);
    let numbers = || look().records.iter().map(|record| record.bytes[0]).collect::<Vec<_>>();
    assert_eq!(look(), Snapshot::default());
    for number in 0..6 {
        assert_eq!(linked::ringbuf_output(descriptor, &[number; 1000], 0), 0);
    }
    // Four of 1,024 bytes fit exactly.
    assert_eq!((numbers(), look().overwritten), (vec![2, 3, 4, 5], 2));
    assert_eq!(linked::ringbuf_query(descriptor, 0), 4 * 1024);
    // One that is being written stays, and comes behind newer ones in the ring; by time it is before them.
    let held = linked::ringbuf_reserve(descriptor, 1000, 0).expect("room");
    for number in 7..12 {
        assert_eq!(linked::ringbuf_output(descriptor, &[number; 1000], 0), 0);
    }
    assert_eq!((numbers(), look().overwritten, look().uncommitted), (vec![9, 10, 11], 8, 1));
    // SAFETY: reserved above.
    unsafe { linked::ringbuf_finish(held, false) };
    assert_eq!((numbers(), look().uncommitted), (vec![0, 9, 10, 11], 0));
    for number in 12..16 {
        assert_eq!(linked::ringbuf_output(descriptor, &[number; 1000], 0), 0);
    }
    assert_eq!((numbers(), look().overwritten), (vec![12, 13, 14, 15], 12));
    // What is larger than the ring is refused, and nothing is lost for it; what is as large takes all of it.
    assert_eq!(linked::ringbuf_output(descriptor, &[16; 4081], 0), -11);
    assert_eq!((numbers().len(), segment.flight(0).snapshot().dropped), (4, 1));
    assert_eq!(linked::ringbuf_output(descriptor, &[16; 4080], 0), 0);
    assert_eq!((numbers(), look().overwritten), (vec![16], 16));
    // Where that is being written, nothing else fits.
    let held = linked::ringbuf_reserve(descriptor, 4080, 0).expect("room");
    assert_eq!(linked::ringbuf_output(descriptor, &[17], 0), -11);
    assert_eq!((look().uncommitted, look().overwritten, look().dropped), (1, 17, 2));
    // SAFETY: reserved above. Discarded records are none, and are not counted when they give way.
    unsafe { linked::ringbuf_finish(held, true) };
    assert_eq!((numbers(), look().uncommitted), (vec![], 0));
    assert_eq!(linked::ringbuf_output(descriptor, &[18], 0), 0);
    assert_eq!((numbers(), look().overwritten), (vec![18], 17));
    let all = segment.flight(0).counters();
    assert_eq!((all.dropped, all.overwritten, all.corrupt), (2, 17, 0));
    assert_eq!(segment.ring_counters(0), all);
    // The oldest record stands nowhere behind the tail, unless somebody spoils the segment.
    let place = segment.layout().maps[0].rings()[spare];
    let oldest = segment.mapping().word(place.control + control::SPARE_OR_CONSUMER);
    oldest.store(1 << 30, Ordering::Release);
    assert_eq!((look().records, look().corrupt), (vec![], 1));
    for place in &segment.layout().maps[0].rings()[..2] {
        segment.mapping().word(place.control + control::CORRUPT).store(u64::MAX, Ordering::Release);
    }
    assert_eq!(segment.flight(0).counters().corrupt, u64::MAX - 1);
}

#[test]
fn a_map_with_one_ring_does_not_overwrite() {
    let map = MapSpec { flags: flag::RB_OVERWRITE, ..spec(MapKind::RingBuf, 0, 0, RING_BYTES) };
    let refused = SegmentLayout::plan(&[map], 2).expect_err("it is one ring").to_string();
    assert!(
        refused.ends_with("it must be with WEIR_F_RING_PER_CPU: one ring does not overwrite"),
        "{refused}"
    );
}

fn payload(number: u64, size: u64) -> Vec<u8> {
    (0..size).map(|n| (number.wrapping_mul(31) + n) as u8).collect()
}

#[test]
fn records_come_out_as_they_went_in() {
    for seed in 1..=20 {
        let segment = if seed % 2 == 0 { ring() } else { shared() };
        let descriptor = segment.descriptor(0);
        let mut random = Random(seed);
        let mut expected = VecDeque::new();
        let (mut in_use, mut refused) = (0, 0);
        for number in 0..5000 {
            if random.below(5) < 3 {
                let size = [0, 1, 7, 8, 9, 24, 100, 1000, 4088][random.below(9) as usize];
                let bytes = payload(number, size);
                if random.below(2) == 0 {
                    match linked::ringbuf_output(descriptor, &bytes, 0) {
                        0 => expected.push_back(bytes),
                        status => {
                            assert_eq!(status, -11);
                            refused += 1;
                        }
                    }
                } else if let Some(record) = linked::ringbuf_reserve(descriptor, size, 0) {
                    let at = record - segment.base();
                    for (n, byte) in bytes.chunks(8).enumerate() {
                        let mut word = [0; 8];
                        word[..byte.len()].copy_from_slice(byte);
                        let slot = segment.mapping().word(at + n as u64 * 8);
                        assert_eq!(slot.load(super::super::Ordering::Relaxed), 0, "reserved memory is zero");
                        slot.store(u64::from_le_bytes(word), super::super::Ordering::Relaxed);
                    }
                    let is_discard = random.below(4) == 0;
                    // SAFETY: the record was reserved above and is taken back once.
                    unsafe { linked::ringbuf_finish(record, is_discard) };
                    if !is_discard {
                        expected.push_back(bytes);
                    }
                } else {
                    refused += 1;
                }
                in_use += 1;
            } else {
                assert_eq!(
                    segment.ring(0).next().map(|record| record.bytes),
                    expected.pop_front(),
                    "seed {seed}"
                );
            }
        }
        let left = expected.len();
        let mut take = |most: usize| {
            let ring = segment.ring(0);
            ring.lane(ring.rings() - 1)
                .each(most, |bytes, _| assert_eq!(Some(bytes), expected.pop_front().as_deref()))
        };
        assert_eq!((take(0), take(1), take(usize::MAX)), (0, left.min(1), left.saturating_sub(1)));
        assert!(expected.is_empty() && in_use > 0 && refused > 0);
        let counters = segment.ring(0).counters();
        assert_eq!((counters.dropped, counters.corrupt, counters.uncommitted), (refused, 0, 0));
    }
}

/// Appends to a CPU's ring as its code does. `state`: of the header.
fn append(segment: &Segment, lane: u64, bytes: &[u8], ticks: u64, state: u64) -> bool {
    let map = &segment.layout().maps[0];
    let (data, mapping) = (map.data_offset + lane * map.lane_stride, segment.mapping());
    let control = |at: u64| mapping.word(data - 256 + at);
    let (tail, ring) = (control(control::FREE_OR_PRODUCER).load(Ordering::Relaxed), u64::from(RING_BYTES));
    let read = control(control::SPARE_OR_CONSUMER).load(Ordering::Relaxed);
    let total = (bytes.len() as u64 + 16).next_multiple_of(16);
    let left = ring - tail % ring;
    let filler = if total > left { left } else { 0 };
    if tail - read + filler + total > ring {
        return false;
    }
    let put = |position: u64, size: u64, state: u64| {
        mapping.word(data + position % ring).store(ticks, Ordering::Relaxed);
        let header = size << record::SIZE_SHIFT | record::USED | state;
        mapping.word(data + position % ring + 8).store(header, Ordering::Relaxed);
    };
    if filler > 0 {
        put(tail, filler - 16, record::DISCARD);
    }
    let begin = tail + filler;
    for (n, chunk) in bytes.chunks(8).enumerate() {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        let at = data + begin % ring + 16 + n as u64 * 8;
        mapping.word(at).store(u64::from_le_bytes(word), Ordering::Relaxed);
    }
    put(begin, bytes.len() as u64, state);
    control(control::FREE_OR_PRODUCER).store(begin + total, Ordering::Relaxed);
    true
}

#[test]
fn rings_are_read_in_one_order_one_by_one_or_many_at_once() {
    for seed in 1..=50 {
        let twins = [shared(), shared()];
        let mut random = Random(seed);
        let (mut ticks, mut given) = (0, 0);
        for number in 0..600 {
            // Runs of records of one CPU, times that are equal, and code that has none of the rings.
            let lane = if random.below(3) == 0 { random.below(3) } else { seed % 2 };
            ticks += random.below(2);
            let bytes = payload(number, random.below(120));
            let state = [0, 0, 0, 0, 0, record::DISCARD, record::BUSY][random.below(7) as usize];
            let state = if state == record::BUSY && number % 40 != 0 { 0 } else { state };
            for twin in &twins {
                match lane {
                    0 | 1 => drop(append(twin, lane, &bytes, ticks, state)),
                    _ => drop(linked::ringbuf_output(twin.descriptor(0), &bytes, 0)),
                }
            }
            if random.below(20) == 0 {
                let most = random.below(30) as usize;
                let (mut together, mut alone) = (Vec::new(), twins[1].ring(0));
                let count = twins[0].ring(0).each(most, |bytes, _| together.push(bytes.to_vec()));
                let one_by_one: Vec<Vec<u8>> =
                    std::iter::from_fn(|| alone.next()).take(most).map(|record| record.bytes).collect();
                assert_eq!((count, &together), (one_by_one.len(), &one_by_one), "seed {seed}, {number}");
                given += count;
            }
        }
        assert!(given > 0);
        assert_eq!(twins[0].ring(0).counters(), twins[1].ring(0).counters());
    }
}

#[test]
fn a_ring_that_was_full_to_the_last_byte_goes_on() {
    // Records that fill the lap exactly, and such that a filler record does.
    for size in [8, 24, 1000, 4088, 100, 40] {
        let segment = ring();
        let descriptor = segment.descriptor(0);
        for round in 0..50 {
            let mut written = 0;
            while linked::ringbuf_output(descriptor, &payload(written, size), 0) == 0 {
                written += 1;
            }
            // Refusals leave everything as it is.
            for _ in 0..10 {
                assert_eq!(linked::ringbuf_output(descriptor, &payload(0, size), 0), -11);
            }
            assert!(written > 0, "size {size}, round {round}");
            for number in 0..written {
                let record = segment.ring(0).next().map(|record: Record| record.bytes);
                assert_eq!(record, Some(payload(number, size)), "size {size}, round {round}");
            }
            assert_eq!(segment.ring(0).next(), None, "size {size}, round {round}");
        }
    }
}

#[test]
fn flags_and_sizes_are_the_kernels() {
    let segment = ring();
    let descriptor = segment.descriptor(0);
    assert_eq!(linked::ringbuf_output(descriptor, &[1], 4), -22);
    assert_eq!(linked::ringbuf_output(descriptor, &[1], 3), 0);
    assert_eq!(linked::ringbuf_reserve(descriptor, 8, 1), None);
    assert_eq!(linked::ringbuf_output(descriptor, &[0; 4089], 0), -11);
    assert_eq!(linked::ringbuf_reserve(descriptor, u64::MAX, 0), None);
    assert_eq!(segment.ring(0).next(), Some(Record { bytes: vec![1], ticks: 0 }));
    assert_eq!(segment.counters().maps[0].dropped, 2);
}

#[test]
fn unfinished_records_hold_up_the_reader_until_their_producer_is_dead() {
    let segment = ring();
    let descriptor = segment.descriptor(0);
    let open = linked::ringbuf_reserve(descriptor, 16, 0);
    assert!(open.is_some());
    assert_eq!(linked::ringbuf_output(descriptor, &[5], 0), 0);
    assert_eq!(segment.ring(0).next(), None);
    let left: Vec<_> = segment.ring(0).drain_dead().into_iter().map(|record| record.bytes).collect();
    assert_eq!(left, [vec![5]]);
    assert_eq!(segment.ring(0).counters().uncommitted, 1);
}

/// Several producers and the consumer at once: each producer's records in its order, none lost but counted ones.
#[test]
fn producers_do_not_disturb_each_other() {
    check_producers(&ring());
    check_producers(&shared());
}

fn check_producers(segment: &Segment) {
    let producers = 4;
    let each = 40_000;
    let mut next = vec![0; producers];
    let mut ticks = 0;
    let (mut received, mut accepted) = (0, 0);
    thread::scope(|scope| {
        let running: Vec<_> = (0..producers)
            .map(|producer| {
                scope.spawn(move || {
                    let mut accepted = 0;
                    for number in 0..each {
                        let mut bytes = payload(number, 16 + (number * 7 + producer as u64) % 90);
                        bytes[..8].copy_from_slice(&number.to_le_bytes());
                        bytes[8] = producer as u8;
                        accepted += u64::from(linked::ringbuf_output(segment.descriptor(0), &bytes, 0) == 0);
                    }
                    accepted
                })
            })
            .collect();
        let mut read = |record: Record| {
            let number = u64::from_le_bytes(record.bytes[..8].try_into().expect("8 bytes"));
            let producer = record.bytes[8] as usize;
            assert!(number >= next[producer] && record.ticks >= ticks, "out of order");
            ticks = record.ticks;
            assert_eq!(record.bytes[9..], payload(number, record.bytes.len() as u64)[9..], "torn");
            next[producer] = number + 1;
            received += 1;
        };
        while !running.iter().all(|producer| producer.is_finished()) {
            while let Some(record) = segment.ring(0).next() {
                read(record);
            }
        }
        while let Some(record) = segment.ring(0).next() {
            read(record);
        }
        accepted = running.into_iter().map(|producer| producer.join().expect("no panic")).sum::<u64>();
    });
    let counters = segment.ring(0).counters();
    assert_eq!((received, counters.corrupt), (accepted, 0));
    assert_eq!(accepted + counters.dropped, producers as u64 * each);
}

/// A reader looks, and gives back some of the time what it has looked at; another one goes on there when it is gone.
#[test]
fn what_was_looked_at_stays_until_it_is_given_back() {
    for seed in 1..=50 {
        let segment = if seed % 3 == 0 { ring() } else { shared() };
        let last = segment.ring(0).rings() as u64 - 1;
        // The last is written by code that has no CPU's ring.
        let lane = if seed % 2 == 0 { last } else { seed % (last + 1) };
        let mut random = Random(seed);
        let (mut expected, mut refused) = (VecDeque::new(), 0);
        let mut reader = segment.ring(0).lane(lane as usize);
        for number in 0..2000 {
            let bytes = payload(number, random.below(200));
            let is_discarded = random.below(8) == 0;
            let state = if is_discarded { record::DISCARD } else { 0 };
            let has_room = match lane == last {
                false => append(&segment, lane, &bytes, number, state),
                true => linked::ringbuf_reserve(segment.descriptor(0), bytes.len() as u64, 0)
                    .map(|held| {
                        // SAFETY: just reserved, so many bytes.
                        unsafe {
                            std::ptr::copy_nonoverlapping(bytes.as_ptr(), held as *mut u8, bytes.len());
                            linked::ringbuf_finish(held, is_discarded);
                        }
                    })
                    .is_some(),
            };
            refused += u64::from(!has_room);
            if has_room && !is_discarded {
                expected.push_back(bytes);
            }
            if random.below(10) == 0 {
                let (most, mut seen) = (random.below(5000), Vec::new());
                let end = reader.look(most, |bytes, _| seen.push(bytes.to_vec()));
                assert!(seen.iter().eq(expected.iter().take(seen.len())), "seed {seed}, {number}");
                let looked = end - reader.position();
                let is_all = seen.len() == expected.len() || looked >= most.min(3000);
                assert!(
                    is_all,
                    "seed {seed}, {number}: {} of {}, {looked} of {most}",
                    seen.len(),
                    expected.len()
                );
                if random.below(2) == 0 {
                    reader.release(end);
                    assert_eq!(reader.position(), end);
                    expected.drain(..seen.len());
                }
            }
        }
        assert!(refused > 0 && segment.ring(0).counters().corrupt == 0, "seed {seed}");
        let place = reader.position();
        reader.go_on_at(place);
        let mut rest = Vec::new();
        reader.each(usize::MAX, |bytes, _| rest.push(bytes.to_vec()));
        assert!(rest.iter().eq(expected.iter()), "seed {seed}");
    }
}

#[test]
fn a_look_goes_past_what_is_no_record_and_counts_it() {
    let segment = shared();
    assert!(append(&segment, 0, &[1; 8], 1, 0));
    let data = segment.layout().maps[0].data_offset;
    segment.mapping().word(data + 8).store(u64::MAX, Ordering::Relaxed);
    let mut reader = segment.ring(0).lane(0);
    let end = reader.look(4096, |bytes, _| panic!("{bytes:?}"));
    assert_eq!((end, reader.position(), reader.counters().corrupt), (32, 32, 1));
    assert!(append(&segment, 0, &[2; 8], 2, 0));
    let mut seen = Vec::new();
    let end = reader.look(4096, |bytes, ticks| seen.push((bytes.to_vec(), ticks)));
    reader.release(end);
    assert_eq!((seen, reader.position()), (vec![(vec![2; 8], 2)], 64));
}
