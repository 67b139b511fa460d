//! Seeds of the segment: each kind of map, and steps that use it.

use weir_ebpf::MapKind;

use crate::seeds::{Seed, seed};

/// An update, a write near the map, a look-up and a deletion for each kind of map.
pub(crate) fn seeds() -> Vec<Seed> {
    let step = |what: u8, number: u8| [number, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 8, number, 1, what];
    let steps = [step(1, 1), step(0, 2), step(3, 1), step(2, 9), step(5, 1)].concat();
    let of_kind = |kind: u8| seed("segment", kind.to_string(), [&[kind][..], &steps].concat());
    (0..MapKind::ALL.len() as u8).map(of_kind).collect()
}
