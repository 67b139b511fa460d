//! Whatever one side does to the memory, the other goes on, inside its ring.

use std::fs::File;
use std::os::unix::fs::FileExt as _;

use testkit::random::Source;
use weir_packet_ring::limits::RING_BYTES_MIN;
use weir_packet_ring::{Drained, Segment};

use crate::{meta, segment};

/// Where the page of ring 0 is in a segment of one ring: after one page of header.
const PAGE: u64 = 4096;
const HEAD: u64 = PAGE;
const TAIL: u64 = PAGE + 128;
const DATA: u64 = 2 * PAGE;

fn put(segment: &Segment, at: u64, word: u64) {
    let file = File::from(segment.fd().try_clone_to_owned().unwrap());
    file.write_all_at(&word.to_le_bytes(), at).unwrap();
}

/// Reads a ring that begins with these words up to the end: how many packets, and whether it was found corrupt.
fn read(words: &[u64], head: u64) -> (usize, bool) {
    let segment = segment(1);
    for (index, word) in words.iter().enumerate() {
        put(&segment, DATA + 8 * index as u64, *word);
    }
    put(&segment, HEAD, head);
    let (mut reader, mut drained, mut packets) = (segment.reader(0), Drained::default(), 0);
    while reader.drain(&mut drained) {
        while drained.next().is_some() {
            packets += 1;
        }
    }
    (packets, drained.is_corrupt())
}

#[test]
fn lengths_that_cannot_be_end_the_reading() {
    let good = [48, 1, 8 | 60 << 32, 0, 0, 0xabcd];
    assert_eq!(read(&good, 48), (1, false));
    for (words, head, what) in [
        (vec![0], 48, "no bytes at all"),
        (vec![8], 48, "shorter than a header"),
        (vec![47, 0, 1], 48, "no multiple of 8"),
        (vec![48, 0, 9], 48, "more captured than the record has"),
        (vec![48, 0, u64::from(u32::MAX)], 48, "far more captured"),
        (vec![1 << 19], 1 << 19, "longer than any record"),
        (vec![1 << 63], 48, "a skip of nothing"),
        (vec![1 << 63 | 12], 48, "a skip of 12"),
        (good.to_vec(), RING_BYTES_MIN + 8, "more bytes than the ring has"),
        (good.to_vec(), u64::MAX, "a position before the beginning"),
        (good.to_vec(), 44, "a position inside a word"),
    ] {
        assert!(read(&words, head).1, "{what}");
    }
}

#[test]
fn a_ring_of_random_bytes_is_read_to_an_end() {
    let mut random = Source::new(11);
    for _ in 0..200 {
        let words: Vec<u64> = (0..64)
            .map(|_| match random.below(3) {
                0 => random.below(200) as u64,
                1 => (random.below(64) as u64 * 8) | ((random.below(4) as u64) << 62),
                _ => random.number(),
            })
            .collect();
        let (packets, _) = read(&words, random.below(70) as u64 * 8);
        assert!(packets <= 70);
    }
}

#[test]
fn a_reader_s_position_that_cannot_be_leaves_no_room() {
    for tail in [1 << 40, u64::MAX, 1 << 63] {
        let segment = segment(1);
        let mut writer = segment.writer(0);
        // As long as there is room by what it has seen, the writer does not look.
        while writer.write(&meta(0), &[1; 1000]) {}
        put(&segment, TAIL, tail);
        assert!(!writer.write(&meta(0), &[2; 1000]), "{tail:#x}");
        writer.publish(0, 0);
    }
}

#[test]
fn counters_and_header_are_the_writer_s_own() {
    let segment = segment(1);
    let mut writer = segment.writer(0);
    writer.write(&meta(0), &[1; 10]);
    for at in [0, 24, 32, HEAD, HEAD + 8, HEAD + 16, HEAD + 24, HEAD + 32] {
        put(&segment, at, u64::MAX);
    }
    writer.publish(5, 4);
    let counters = segment.counters(0);
    assert_eq!((counters.received, counters.filtered, counters.written, counters.dropped), (5, 4, 1, 0));
}
