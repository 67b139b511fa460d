//! weir-packet-ring from outside, by its public interface: one program, a module for each subject.
//!
//! Each test can run in a process of its own, and does in `cargo xtask test`.

mod hostile;
mod opened;
mod order;

use weir_packet_ring::limits::RING_BYTES_MIN;
use weir_packet_ring::{Direction, Meta, Plan, RingSpec, Segment};

fn plan(rings: u16) -> Plan {
    let spec = |queue| RingSpec { port: 3, queue, direction: Direction::Tx };
    Plan {
        rings: (0..rings).map(spec).collect(),
        ring_bytes: RING_BYTES_MIN,
        program: vec![[0xb7, 0, 0, 0, 1, 0, 0, 0], [0x95, 0, 0, 0, 0, 0, 0, 0]],
        snaplen: 65_535,
        has_ids: false,
    }
}

fn segment(rings: u16) -> Segment {
    Segment::create(plan(rings)).unwrap()
}

fn meta(ticks: u64) -> Meta {
    Meta { ticks, wire_bytes: ticks as u32, hash: !ticks as u32, id: ticks ^ 0x5555, ..Meta::default() }
}
