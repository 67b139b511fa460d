//! Values by lane: what a run sets is this lane's, what the controller sets is every lane's; claims are given back.

use weir_ebpf::MapKind;

use super::{CPUS, claimable, key, segment, spec};
use crate::limits::CLAIM_SPARE_LANES;
use crate::runtime::linked;
use crate::segment::MapError;

const LANES: usize = (CPUS + CLAIM_SPARE_LANES) as usize;

fn words(values: &[Vec<u8>]) -> Vec<u64> {
    let word = |value: &Vec<u8>| u64::from_le_bytes(value[..8].try_into().expect("8 bytes"));
    values.iter().map(word).collect()
}

/// So many values, which are `set` where it says so.
fn lanes(set: &[(usize, u64)]) -> Vec<u64> {
    let mut lanes = vec![0; LANES];
    set.iter().for_each(|(lane, value)| lanes[*lane] = *value);
    lanes
}

fn value(word: u64, bytes: u32) -> Vec<u8> {
    let mut value = vec![0; bytes as usize];
    value[..8].copy_from_slice(&word.to_le_bytes());
    value
}

const KINDS: [(MapKind, u32); 4] = [
    (MapKind::PerCpuHash, 8),
    (MapKind::PerCpuHash, 24),
    (MapKind::PerCpuArray, 8),
    (MapKind::PerCpuArray, 20),
];

#[test]
fn a_run_sets_its_own_lane() {
    for (kind, bytes) in KINDS {
        let segment = claimable(&[spec(kind, 4, bytes, 4)]);
        let (view, descriptor) = (segment.map(0), segment.descriptor(0));
        let key = key(2, 4);
        let set =
            |lane, word, flags| linked::map_update_lane(descriptor, &key, &value(word, bytes), flags, lane);
        assert_eq!(set(1, 5, 0), 0);
        assert_eq!(set(4, 6, 2), 0);
        assert_eq!(set(1, 7, 0), 0);
        assert_eq!(set(1, 9, 1), -17, "it exists");
        let now = view.lookup_lanes(&key).expect("claimable, and there");
        assert_eq!(words(&now), lanes(&[(1, 7), (4, 6)]), "{kind:?} {bytes}");
        assert!(now.iter().all(|value| value.len() == bytes as usize));
        assert_eq!(view.lookup(&key), Some(value(13, bytes)));
        let lane = |lane| linked::map_lookup_lane(descriptor, &key, lane).expect("there");
        let stride = view.layout().lane_stride;
        assert_eq!((lane(1) - lane(0), lane(4) - lane(0)), (stride, 4 * stride));
        let of_cpu = |cpu| linked::map_lookup_percpu(descriptor, &key, cpu);
        assert_eq!(of_cpu(1), Some(lane(1)));
        assert_eq!((of_cpu(CPUS.into()), of_cpu(u64::MAX)), (None, None), "no such CPU");
        assert_eq!(of_cpu(1 << 32 | 1), Some(lane(1)), "the kernel takes a u32");
    }
}

#[test]
fn a_new_element_is_zero_in_other_lanes() {
    let segment = claimable(&[spec(MapKind::PerCpuHash, 4, 8, 1)]);
    let (view, descriptor) = (segment.map(0), segment.descriptor(0));
    let key = key(2, 4);
    view.update_lanes(&key, &vec![value(9, 8); LANES], 0).expect("room for one");
    assert_eq!(words(&view.lookup_lanes(&key).expect("there")), [9; LANES]);
    view.delete(&key).expect("there");
    assert_eq!(view.lookup_lanes(&key), None);
    // The map has one node, and the spares are for others.
    assert_eq!(linked::map_update_lane(descriptor, &key, &value(3, 8), 1, 2), 0);
    assert_eq!(words(&view.lookup_lanes(&key).expect("there")), lanes(&[(2, 3)]));
}

#[test]
fn the_controller_sets_every_lane() {
    for (kind, bytes) in KINDS {
        let segment = claimable(&[spec(kind, 4, bytes, 4)]);
        let view = segment.map(0);
        let key = key(1, 4);
        view.update_lanes(&key, &[value(1, bytes), value(2, bytes)], 0).expect("fits");
        assert_eq!(words(&view.lookup_lanes(&key).expect("there")), lanes(&[(0, 1), (1, 2)]));
        view.update(&key, &value(40, bytes), 2).expect("there");
        assert_eq!(words(&view.lookup_lanes(&key).expect("there")), lanes(&[(0, 40)]));
        view.update_lanes(&key, &vec![value(1, bytes); LANES], 2).expect("there");
        assert_eq!(view.lookup(&key), Some(value(LANES as u64, bytes)));
        view.zero();
        assert_eq!(words(&view.lookup_lanes(&key).expect("there")), [0; LANES]);
        assert_eq!(view.update_lanes(&key, &vec![value(1, bytes); LANES + 1], 0), Err(MapError::Invalid));
        assert_eq!(view.update_lanes(&key, &[vec![0; bytes as usize + 1]], 0), Err(MapError::Invalid));
        assert_eq!(view.update_lanes(&key, &[], 1), Err(MapError::Exists));
    }
}

#[test]
fn lanes_that_nobody_claims_are_not_set() {
    let segment = segment(&[spec(MapKind::PerCpuHash, 4, 8, 1), spec(MapKind::Hash, 4, 8, 1)]);
    for map in 0..2 {
        assert_eq!(segment.map(map).update_lanes(&key(1, 4), &[value(1, 8)], 0), Err(MapError::Invalid));
        assert_eq!(segment.map(map).lookup_lanes(&key(1, 4)), None);
    }
    assert_eq!((segment.claim_lane(), segment.claimed_lanes()), (None, 0));
}

#[test]
fn claims_are_distinct_until_given_back() {
    let segment = claimable(&[spec(MapKind::PerCpuArray, 4, 8, 1)]);
    let mut claimed: Vec<u32> = std::iter::from_fn(|| segment.claim_lane()).collect();
    claimed.sort_unstable();
    assert_eq!(claimed, (0..LANES as u32).collect::<Vec<_>>());
    assert_eq!(segment.claimed_lanes(), LANES as u32);
    segment.release_lane(7);
    assert_eq!((segment.claim_lane(), segment.claim_lane()), (Some(7), None));
    claimed.into_iter().for_each(|lane| segment.release_lane(lane));
    assert_eq!(segment.claimed_lanes(), 0);
}
