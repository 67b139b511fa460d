//! Seeds of rings: steps (`rings.rs` says what they are) for each form that a ring has.
//!
//! Records of events, some of them discarded or being written, laps of a ring, and words that are written over.

use crate::seeds::{Seed, seed};

/// Records of the target's four events, the last of which has no fields; and of none.
fn records() -> Vec<Vec<u8>> {
    let fixed = [&0u32.to_le_bytes()[..], &[7; 18]].concat();
    let fields = [&b"text\0"[..], &2u32.to_le_bytes(), &[1, 0, 2, 0], b"\0", &[9]].concat();
    let measured = [&1u32.to_le_bytes()[..], &(fields.len() as u32).to_le_bytes(), &fields].concat();
    let structure = [&2u32.to_le_bytes()[..], &9u32.to_le_bytes(), &[0, 0, 128, 63, 5], b"abc\0"].concat();
    vec![fixed, measured, structure, 3u32.to_le_bytes().to_vec(), vec![255; 40]]
}

fn step(what: u8, ring: u8, place: u16, number: u64) -> Vec<u8> {
    [&[what, ring][..], &place.to_le_bytes(), &number.to_le_bytes()].concat()
}

fn append(ring: u8, record: &[u8], number: u64) -> Vec<u8> {
    [step(0, ring, record.len() as u16, number), record.to_vec()].concat()
}

pub(crate) fn seeds() -> Vec<Seed> {
    let mut seeds = Vec::new();
    let of_all = |ring: u8, number: u64| -> Vec<u8> {
        records().iter().flat_map(|record| append(ring, record, number)).collect()
    };
    for (form, name) in ["one", "discarding", "overwriting"].into_iter().enumerate() {
        let good: Vec<u8> = (0..3).flat_map(|ring| of_all(ring, 2)).collect();
        // 600 bytes each, read as they come: three laps.
        let lap = |turn: u64| [append(0, &[turn as u8; 600], 2), step(5, 0, 0, 0), step(6, 0, 0, 0)].concat();
        let laps: Vec<u8> = (0..20).flat_map(lap).collect();
        let states =
            [of_all(0, 0), of_all(1, 1 + 8 * 5), of_all(1, 3), step(7, 0, 0, !0), of_all(0, 9)].concat();
        let spoiled = [
            of_all(0, 2),
            step(3, 0, 0, 0xffff_ffff_ffff_fff0),
            step(4, 0, 1, 0xffff_ffff_0000_0001),
            of_all(1, 2),
            step(3, 1, 8, 4096),
            step(5, 0, 0, 0),
        ];
        for (kind, steps) in
            [("good", good), ("laps", laps), ("states", states), ("spoiled", spoiled.concat())]
        {
            seeds.push(seed("rings", format!("{name}-{kind}"), [&[form as u8][..], &steps].concat()));
        }
    }
    seeds
}
