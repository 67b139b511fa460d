//! The reader of packets that an application has captured, under a hostile application; and the header of its memory.
//!
//! An input begins with a header's first eight words, where a bit of its first byte is set; those are opened as a segment. Else it has
//! steps of three bytes, what and how many: bytes are written after the last ones, and their position made known; the position becomes any
//! number; a packet is written as a good writer does; what is there is read.
//!
//! No panic, no endless loop; no packet has more bytes than any may have.

use std::fs::File;
use std::os::unix::fs::FileExt as _;

use weir_packet_ring::limits::{CAPTURED_BYTES_MAX, RING_BYTES_MIN};
use weir_packet_ring::{Direction, Drained, Meta, Plan, Reader, RingSpec, Segment};

/// Where ring 0 of a segment of one ring without a program has its writer's position, and its data.
const HEAD: u64 = 4096;
const DATA: u64 = 2 * 4096;

/// Reads what the steps in `bytes` leave in a ring.
pub fn read(bytes: &[u8]) {
    let Some((first, rest)) = bytes.split_first() else { return };
    let segment = segment();
    let file = File::from(segment.fd().try_clone_to_owned().expect("a descriptor"));
    let put = |at: u64, bytes: &[u8]| file.write_all_at(bytes, at).expect("inside of the memory");
    if first & 1 == 1 {
        put(0, &rest[..rest.len().min(4096)]);
        if let Ok(opened) = Segment::open(file.into()) {
            let rings = opened.plan().rings.len();
            for ring in 0..rings {
                let _ = opened.counters(ring);
            }
        }
        return;
    }
    let (mut reader, mut writer) = (segment.reader(0), segment.writer(0));
    let (mut drained, mut head, mut rest) = (Drained::default(), 0u64, rest);
    while let Some((&[what, low, high], after)) = rest.split_first_chunk::<3>() {
        let count = usize::from(u16::from_le_bytes([low, high])).min(after.len());
        let given;
        (given, rest) = after.split_at(count);
        match what % 4 {
            0 => {
                let at = head % RING_BYTES_MIN;
                let room = ((RING_BYTES_MIN - at) as usize).min(count);
                put(DATA + at, &given[..room]);
                head = head.wrapping_add(room.next_multiple_of(8) as u64);
                put(HEAD, &head.to_le_bytes());
            }
            1 => {
                let mut number = [0; 8];
                number[..count.min(8)].copy_from_slice(&given[..count.min(8)]);
                head = u64::from_le_bytes(number);
                put(HEAD, &number);
            }
            2 => {
                writer.write(&Meta::default(), given);
                writer.publish(1, 0);
            }
            _ => take(&mut reader, &mut drained),
        }
    }
    take(&mut reader, &mut drained);
}

/// A ring of the least size.
fn segment() -> Segment {
    let plan = Plan {
        rings: vec![RingSpec { port: 0, queue: 0, direction: Direction::Rx }],
        ring_bytes: RING_BYTES_MIN,
        program: Vec::new(),
        snaplen: CAPTURED_BYTES_MAX,
        has_ids: false,
    };
    Segment::create(plan).expect("memory for a small segment")
}

/// A position that jumps may make the ring full again and again, but only once for each step.
fn take(reader: &mut Reader, drained: &mut Drained) {
    while reader.drain(drained) {
        let _ = drained.ticks();
        while let Some(packet) = drained.next() {
            assert!(packet.bytes.len() <= CAPTURED_BYTES_MAX as usize, "{} bytes", packet.bytes.len());
        }
    }
}
