//! Seeds of rings of packets: steps (`packet_ring.rs` says what they are), and headers.

use crate::seeds::{Seed, seed};

fn step(what: u8, bytes: &[u8]) -> Vec<u8> {
    [&[what][..], &(bytes.len() as u16).to_le_bytes(), bytes].concat()
}

/// A record of so many bytes, of which so many are a packet's.
fn record(bytes: u32, captured: u32) -> Vec<u8> {
    let words = [u64::from(bytes), 7, u64::from(captured) | 60 << 32, 0, 1];
    let head: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    [head, vec![0xab; captured as usize]].concat()
}

pub(crate) fn seeds() -> Vec<Seed> {
    let of = |name: &str, steps: &[Vec<u8>]| seed("packet_ring", name, [vec![0], steps.concat()].concat());
    let skip = [(8u64 | 1 << 63).to_le_bytes().to_vec(), record(104, 64)].concat();
    let header: Vec<u8> =
        [u64::from_le_bytes(*b"weirpkts"), 1, 4096 + 4096 + (1 << 20), 1, 1 << 20, 0, 262_144, 0, 0]
            .iter()
            .flat_map(|word: &u64| word.to_le_bytes())
            .collect();
    vec![
        of("written", &[step(2, &[1; 60]), step(2, &[2; 1500]), step(3, &[])]),
        of(
            "records",
            &[step(0, &record(48, 8)), step(0, &record(104, 64)), step(3, &[]), step(0, &record(40, 0))],
        ),
        of("skipped", &[step(0, &skip), step(3, &[])]),
        of("in parts", &[step(0, &record(104, 64)[..40]), step(3, &[]), step(0, &record(104, 64)[40..])]),
        of("too long", &[step(0, &record(48, 9)), step(3, &[]), step(0, &record(48, 8))]),
        of("jumps", &[step(1, &(1u64 << 20).to_le_bytes()), step(3, &[]), step(1, &u64::MAX.to_le_bytes())]),
        seed("packet_ring", "header", [vec![1], header].concat()),
    ]
}
