//! Which keys an LRU gives up. Its rule: when a new key finds no room, a hand goes round the nodes; a key that a
//! program used since the hand passed it stays and loses that mark, the first other one goes.
//!
//! So a key that was used goes only after the hand went round once more, past every key that was not: as long as half
//! of all keys are used again within a quarter of the capacity in new keys, none of them goes. (A hand that met 8,192
//! used ones in a row takes the next: `evict` in c/hash.c.)

use weir_ebpf::MapKind;

use super::{key, segment, spec, value};
use crate::runtime::linked;
use crate::segment::{MapError, Segment};

const LRUS: [(MapKind, u32); 3] =
    [(MapKind::LruHash, 8), (MapKind::LruHash, 40), (MapKind::LruPerCpuHash, 16)];

fn lru(kind: MapKind, value_bytes: u32, max_entries: u32) -> Segment {
    segment(&[spec(kind, 8, value_bytes, max_entries)])
}

/// What a program's update does.
fn insert(segment: &Segment, number: u64) -> i64 {
    let bytes = segment.layout().maps[0].spec.value_bytes;
    linked::map_update(segment.descriptor(0), &key(number, 8), &value(number, bytes), 1)
}

fn is_there(segment: &Segment, number: u64) -> bool {
    segment.user_map(0).lookup(&key(number, 8), 0).is_ok()
}

#[test]
fn keys_in_use_stay_while_others_come_and_go() {
    for (kind, value_bytes) in LRUS {
        for max_entries in [4u64, 64, 1000] {
            for used_by_update in [false, true] {
                let segment = lru(kind, value_bytes, max_entries as u32);
                let descriptor = segment.descriptor(0);
                let hot = 0..max_entries / 2;
                for number in 0..max_entries {
                    assert_eq!(insert(&segment, number), 0);
                }
                for round in 0..40 {
                    for number in hot.clone() {
                        if used_by_update {
                            let value = value(round, value_bytes);
                            assert_eq!(linked::map_update(descriptor, &key(number, 8), &value, 2), 0);
                        } else {
                            assert!(linked::map_lookup(descriptor, &key(number, 8)).is_some());
                        }
                    }
                    for n in 0..max_entries / 4 {
                        assert_eq!(insert(&segment, 10_000 + round * max_entries + n), 0);
                    }
                    let gone: Vec<u64> = hot.clone().filter(|number| !is_there(&segment, *number)).collect();
                    assert!(gone.is_empty(), "{kind:?} of {max_entries}, round {round}: {gone:?} went");
                }
                assert_eq!(segment.map(0).entries().len() as u64, max_entries);
                assert_eq!(segment.counters().maps[0].evicted, 40 * (max_entries / 4));
            }
        }
    }
}

#[test]
fn the_one_key_not_used_goes_first() {
    for (kind, value_bytes) in LRUS {
        for cold in 0..16 {
            let segment = lru(kind, value_bytes, 16);
            (0..16).for_each(|number| assert_eq!(insert(&segment, number), 0));
            for number in (0..16).filter(|number| *number != cold) {
                assert!(linked::map_lookup(segment.descriptor(0), &key(number, 8)).is_some());
            }
            assert_eq!(insert(&segment, 99), 0);
            let gone: Vec<u64> = (0..16).filter(|number| !is_there(&segment, *number)).collect();
            assert_eq!(gone, [cold], "{kind:?}");
        }
    }
}

#[test]
fn one_goes_where_all_are_used_and_none_where_there_is_room() {
    for (kind, value_bytes) in LRUS {
        for max_entries in [1, 2, 7, 300] {
            let segment = lru(kind, value_bytes, max_entries);
            for number in 0..2000 {
                assert_eq!(insert(&segment, number), 0);
                assert!(linked::map_lookup(segment.descriptor(0), &key(number, 8)).is_some());
                let expected = (number + 1).min(max_entries.into());
                assert_eq!(segment.map(0).entries().len() as u64, expected, "{kind:?} of {max_entries}");
            }
            assert_eq!(segment.counters().maps[0].evicted, 2000 - u64::from(max_entries));
            super::assert_no_node_lost(&segment, 0);
        }
    }
}

/// The controller may read a map without changing what is given up, as user space may the kernel's.
#[test]
fn reading_from_user_space_is_no_use() {
    for (kind, value_bytes) in LRUS {
        let segment = lru(kind, value_bytes, 16);
        (0..16).for_each(|number| assert_eq!(insert(&segment, number), 0));
        for number in 0..8 {
            assert!(linked::map_lookup(segment.descriptor(0), &key(number, 8)).is_some());
        }
        for number in 8..16 {
            assert!(is_there(&segment, number));
        }
        assert_eq!(segment.map(0).entries().len(), 16);
        (100..108).for_each(|number| assert_eq!(insert(&segment, number), 0));
        assert!((0..8).all(|number| is_there(&segment, number)), "{kind:?}");
        assert!(!(8..16).any(|number| is_there(&segment, number)), "{kind:?}");
    }
}

/// A program may hold a value's address while others take its place: the address is of the map still, and of a value.
#[test]
fn a_value_held_while_its_key_goes_stays_inside_the_map() {
    for (kind, value_bytes) in LRUS {
        let segment = lru(kind, value_bytes, 4);
        let map = &segment.layout().maps[0];
        for number in 0..1000 {
            assert_eq!(insert(&segment, number), 0);
            let at = linked::map_lookup(segment.descriptor(0), &key(number, 8)).expect("just inserted")
                - segment.base();
            let offset = at - map.data_offset;
            assert_eq!(offset % u64::from(map.elem_stride), 0);
            assert!(offset / u64::from(map.elem_stride) < map.node_count.into());
            let end = at + u64::from(map.shared_lane()) * map.lane_stride + u64::from(value_bytes);
            assert!(end <= map.offset + map.bytes, "{kind:?}: {at:#x} of {map:?}");
        }
    }
}

#[test]
fn a_map_without_a_node_to_give_up_says_so() {
    let segment = lru(MapKind::LruHash, 8, 1);
    // As if a thread had died with the only node in its hands.
    let fresh = segment.layout().maps[0].offset + crate::abi::control::FRESH;
    segment.mapping().word(fresh).store(1, super::super::Ordering::Relaxed);
    assert_eq!(insert(&segment, 1), -12);
    assert_eq!(segment.user_map(0).update(&key(1, 8), &[0; 8], 0), Err(MapError::NoMemory));
    assert_eq!(segment.counters().maps[0].contended, 2);
}
