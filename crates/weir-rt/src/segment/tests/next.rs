//! Going over elements: each that stays comes exactly once, whatever else happens to the map meanwhile.

use std::collections::BTreeMap;

use weir_ebpf::MapKind;

use super::{Random, claimable, key, segment, spec, value};
use crate::abi::Cursor;
use crate::runtime::linked;
use crate::segment::Segment;

/// Number of the key, address of its value, of each element that comes; `between` happens after each.
fn go_over(segment: &Segment, lane: u32, mut between: impl FnMut(u64)) -> Vec<(u64, u64)> {
    let (mut at, mut seen) = (Cursor::default(), Vec::new());
    while let Some((value, key)) = linked::map_next(segment.descriptor(0), &mut at, lane) {
        let number = key.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte));
        seen.push((number, value));
        between(number);
        assert_eq!(at.count, seen.len() as u64);
    }
    // The end stays the end.
    assert_eq!(linked::map_next(segment.descriptor(0), &mut at, lane), None);
    seen
}

fn is_every_key_once(kind: MapKind, value_bytes: u32, keys: u64) {
    let segment = segment(&[spec(kind, 8, value_bytes, 64)]);
    for number in 0..keys {
        segment.map(0).update(&key(number, 8), &value(number, value_bytes), 0).expect("has room");
    }
    let seen = go_over(&segment, 0, |_| {});
    let numbers: BTreeMap<u64, u64> = seen.iter().copied().collect();
    assert_eq!((numbers.len(), seen.len()), (keys as usize, keys as usize), "{kind:?} {value_bytes}");
    for (number, at) in numbers {
        let found = linked::map_lookup(segment.descriptor(0), &key(number, 8));
        assert_eq!(found, Some(at), "{kind:?} {value_bytes}: {number}");
    }
}

#[test]
fn every_key_of_a_hash_comes_once() {
    for kind in [MapKind::Hash, MapKind::PerCpuHash, MapKind::LruHash, MapKind::LruPerCpuHash] {
        for value_bytes in [4, 8, 40] {
            for keys in [0, 1, 17, 40] {
                is_every_key_once(kind, value_bytes, keys);
            }
        }
    }
    for kind in [MapKind::Hash, MapKind::PerCpuHash] {
        is_every_key_once(kind, 8, 64);
    }
}

#[test]
fn elements_of_an_array_come_in_order() {
    for kind in [MapKind::Array, MapKind::PerCpuArray] {
        let segment = segment(&[spec(kind, 4, 24, 5)]);
        let seen = go_over(&segment, 0, |_| {});
        assert_eq!(seen.iter().map(|(number, _)| *number).collect::<Vec<_>>(), [0, 1, 2, 3, 4]);
        let stride = u64::from(segment.layout().maps[0].elem_stride);
        assert!(seen.windows(2).all(|pair| pair[1].1 - pair[0].1 == stride), "{seen:x?}");
    }
}

#[test]
fn values_are_in_the_lane_that_is_named() {
    for kind in [MapKind::PerCpuArray, MapKind::PerCpuHash] {
        let segment = claimable(&[spec(kind, 4, 8, 5)]);
        if kind == MapKind::PerCpuHash {
            segment.map(0).update(&key(3, 4), &value(3, 8), 0).expect("has room");
        }
        let stride = segment.layout().maps[0].lane_stride;
        let [zero, two] = [0, 2].map(|lane| go_over(&segment, lane, |_| {}));
        assert!(!zero.is_empty());
        for (zero, two) in zero.iter().zip(&two) {
            assert_eq!((zero.0, zero.1 + 2 * stride), *two);
        }
    }
}

/// Keys below 20 stay, and are updated all the time; others come and go.
#[test]
fn what_stays_comes_once_while_others_come_and_go() {
    let mut random = Random(0x2e87);
    for kind in [MapKind::Hash, MapKind::PerCpuHash] {
        for value_bytes in [8, 40] {
            for _ in 0..200 {
                let segment = segment(&[spec(kind, 8, value_bytes, 64)]);
                let update = |number: u64| {
                    let _ = segment.map(0).update(&key(number, 8), &value(number, value_bytes), 0);
                };
                (0..40).for_each(update);
                let seen = go_over(&segment, 0, |number| {
                    update(random.below(20));
                    update(number % 20);
                    let _ = segment.map(0).delete(&key(20 + random.below(200), 8));
                    if number >= 20 {
                        let _ = segment.map(0).delete(&key(number, 8));
                    }
                    (0..random.below(4)).for_each(|_| update(20 + random.below(200)));
                });
                for stays in 0..20 {
                    let times = seen.iter().filter(|(number, _)| *number == stays).count();
                    assert_eq!(times, 1, "{kind:?} {value_bytes}: {stays} in {seen:x?}");
                }
            }
        }
    }
}

#[test]
fn kinds_without_keys_have_no_elements() {
    for spec in [spec(MapKind::Queue, 0, 8, 4), spec(MapKind::RingBuf, 0, 0, 4096)] {
        let segment = segment(&[spec]);
        assert_eq!(go_over(&segment, 0, |_| {}), []);
    }
}

/// The same by cursors of one word; `between` happens after each.
fn keys_of(segment: &Segment, mut between: impl FnMut(u64)) -> Vec<u64> {
    let bytes = segment.layout().maps[0].spec.key_bytes as usize;
    let (mut at, mut keys) = (0, Vec::new());
    loop {
        let mut key = vec![0xaa; bytes];
        at = linked::map_next_key(segment.descriptor(0), at, &mut key);
        if at == 0 {
            assert!(key.iter().all(|byte| *byte == 0), "{key:x?}");
            return keys;
        }
        let number = key[..8].iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte));
        keys.push(number);
        between(number);
    }
}

#[test]
fn keys_by_cursors_come_once() {
    for kind in [MapKind::Hash, MapKind::PerCpuHash, MapKind::LruHash] {
        for key_bytes in [8, 13, 24] {
            let segment = segment(&[spec(kind, key_bytes, 8, 64)]);
            for number in 0..40 {
                segment.map(0).update(&key(number, key_bytes), &value(number, 8), 0).expect("has room");
            }
            let mut keys = keys_of(&segment, |_| {});
            keys.sort_unstable();
            assert_eq!(keys, (0..40).collect::<Vec<u64>>(), "{kind:?} {key_bytes}");
        }
    }
}

#[test]
fn keys_that_stay_come_once_while_others_come_and_go() {
    let segment = segment(&[spec(MapKind::Hash, 8, 8, 64)]);
    let map = segment.map(0);
    for number in 0..30 {
        map.update(&key(number, 8), &value(number, 8), 0).expect("has room");
    }
    let mut random = Random(7);
    let keys = keys_of(&segment, |_| {
        let other = 1000 + random.below(20);
        let _ = map.update(&key(other, 8), &value(1, 8), 0);
        let _ = map.delete(&key(1000 + random.below(20), 8));
        let stays = random.below(30);
        map.update(&key(stays, 8), &value(stays, 8), 0).expect("it is there");
    });
    let mut stayed: Vec<u64> = keys.into_iter().filter(|number| *number < 30).collect();
    stayed.sort_unstable();
    assert_eq!(stayed, (0..30).collect::<Vec<u64>>());
}

#[test]
fn any_cursor_ends() {
    let segment = segment(&[spec(MapKind::Hash, 8, 8, 64)]);
    segment.map(0).update(&key(5, 8), &value(5, 8), 0).expect("has room");
    let mut random = Random(11);
    for round in 0..1000 {
        let wild = random.next();
        let mut at = [wild, u64::MAX, 1 << 63, (1 << 63) - 1, wild >> 1, wild >> 57][round % 6];
        let mut steps = 0;
        loop {
            at = linked::map_next_key(segment.descriptor(0), at, &mut [0; 8]);
            steps += 1;
            if at == 0 {
                break;
            }
        }
        assert!(steps <= 2, "{steps}");
    }
    // Another size than that of the keys, and another kind.
    let mut short = [0xaa; 4];
    assert_eq!((linked::map_next_key(segment.descriptor(0), 0, &mut short), short), (0, [0; 4]));
    let array = self::segment(&[spec(MapKind::Array, 4, 8, 4)]);
    assert_eq!(linked::map_next_key(array.descriptor(0), 0, &mut short), 0);
}
