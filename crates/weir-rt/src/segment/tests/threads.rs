//! Eight threads on two maps of each kind: counts exact, no key twice, no value torn, no node lost.

use std::collections::HashSet;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::thread;

use weir_ebpf::MapKind;

use super::{Random, key, segment, spec, value};
use crate::runtime::linked;

const THREADS: u64 = 8;
const OPERATIONS: u64 = 20_000;
/// Keys that are never deleted, and keys that come and go.
const LASTING: u64 = 8;
const PASSING: u64 = 40;

fn check(kind: MapKind, value_bytes: u32) {
    let segment = segment(&[spec(kind, 8, value_bytes, 64)]);
    let descriptor = segment.descriptor(0);
    let view = segment.map(0);
    let balance: Vec<AtomicI64> = (0..PASSING).map(|_| AtomicI64::new(0)).collect();
    let added: Vec<AtomicU64> = (0..LASTING).map(|_| AtomicU64::new(0)).collect();
    for n in 0..LASTING {
        assert_eq!(view.update(&key(1000 + n, 8), &vec![0; value_bytes as usize], 1), Ok(()));
    }
    let work = |seed: u64| {
        let mut random = Random(seed);
        for _ in 0..OPERATIONS {
            let passing = random.below(PASSING);
            let key_of_passing = key(passing, 8);
            match random.below(8) {
                0 | 1 => {
                    let new = value(random.next(), value_bytes);
                    if linked::map_update(descriptor, &key_of_passing, &new, 1) == 0 {
                        balance[passing as usize].fetch_add(1, Ordering::Relaxed);
                    }
                }
                2 | 3 => {
                    if linked::map_delete(descriptor, &key_of_passing) == 0 {
                        balance[passing as usize].fetch_sub(1, Ordering::Relaxed);
                    }
                }
                4 => {
                    // Replaces what is there, whoever else does the same.
                    let new = value(random.next(), value_bytes);
                    let status = linked::map_update(descriptor, &key_of_passing, &new, 2);
                    assert!(status == 0 || status == -2, "update: {status}");
                }
                5 => {
                    if let Some(value) = view.lookup(&key_of_passing).filter(|_| !kind.is_per_cpu()) {
                        assert!(value.iter().all(|byte| *byte == value[0]), "torn: {value:?}");
                    }
                }
                _ => {
                    let n = random.below(LASTING);
                    let at = linked::map_lookup(descriptor, &key(1000 + n, 8)).expect("never deleted");
                    let shared = u64::from(view.layout().shared_lane()) * view.layout().lane_stride;
                    segment.mapping().word(at - segment.base() + shared).fetch_add(1, Ordering::Relaxed);
                    added[n as usize].fetch_add(1, Ordering::Relaxed);
                }
            }
        }
    };
    thread::scope(|scope| {
        for n in 0..THREADS {
            let work = &work;
            scope.spawn(move || work(n + 1));
        }
    });

    for n in 0..PASSING {
        let present = i64::from(view.lookup(&key(n, 8)).is_some());
        assert_eq!(balance[n as usize].load(Ordering::Relaxed), present, "key {n}: inserts minus deletes");
    }
    for n in 0..LASTING {
        let value = view.lookup(&key(1000 + n, 8)).expect("never deleted");
        let count = u64::from_le_bytes(value[..8].try_into().expect("8 bytes"));
        assert_eq!(count, added[n as usize].load(Ordering::Relaxed), "key {n}");
    }
    let entry_words = (16 + value_bytes.next_multiple_of(8) as usize) / 8;
    let raw: Vec<u64> = (0..view.layout().buckets)
        .flat_map(|bucket| {
            linked::hash_dump(descriptor, bucket, entry_words, false).expect("nobody changes it")
        })
        .collect();
    let keys: Vec<u64> = raw.chunks(entry_words).map(|entry| entry[1]).collect();
    assert_eq!(keys.iter().collect::<HashSet<_>>().len(), keys.len(), "a key twice: {keys:?}");
    let counters = segment.counters().maps[0];
    assert_eq!((counters.contended, counters.corrupt), (0, 0));
    super::assert_no_node_lost(&segment, 0);
}

#[test]
fn hash_of_words_under_eight_threads() {
    check(MapKind::Hash, 8);
}

#[test]
fn hash_of_large_values_under_eight_threads() {
    check(MapKind::Hash, 40);
}

#[test]
fn per_cpu_hash_under_eight_threads() {
    check(MapKind::PerCpuHash, 8);
}

#[test]
fn lru_hash_with_room_under_eight_threads() {
    check(MapKind::LruHash, 8);
    check(MapKind::LruHash, 40);
}

#[test]
fn lru_per_cpu_hash_with_room_under_eight_threads() {
    check(MapKind::LruPerCpuHash, 8);
}

/// `zero` while others count: a CPU's own lane, which its thread changes without `lock`, is never stored to, and what
/// was counted since the sum was read stays.
#[test]
fn zero_loses_no_count() {
    const COUNTS: u64 = 300_000;
    for kind in [MapKind::PerCpuArray, MapKind::PerCpuHash, MapKind::LruPerCpuHash] {
        let key_bytes = if kind.is_array() { 4 } else { 8 };
        let segment = segment(&[spec(kind, key_bytes, 8, 4)]);
        let (view, key) = (segment.map(0), key(1, key_bytes));
        assert_eq!(view.update(&key, &[0; 8], 0), Ok(()));
        let at = linked::map_lookup(segment.descriptor(0), &key).expect("present") - segment.base();
        let own = segment.mapping().word(at);
        let shared = u64::from(view.layout().shared_lane()) * view.layout().lane_stride;
        let shared = segment.mapping().word(at + shared);
        let now = || u64::from_le_bytes(view.lookup(&key).expect("present").try_into().expect("8 bytes"));
        thread::scope(|scope| {
            let running = [
                scope.spawn(|| {
                    for _ in 0..COUNTS {
                        own.store(own.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
                    }
                }),
                scope.spawn(|| {
                    for _ in 0..COUNTS {
                        shared.fetch_add(1, Ordering::Relaxed);
                    }
                }),
            ];
            while !running.iter().all(|counting| counting.is_finished()) {
                view.zero();
                assert!(now() <= 2 * COUNTS, "less than nothing: {}", now() as i64);
            }
        });
        assert_eq!(own.load(Ordering::Relaxed), COUNTS);
        view.zero();
        assert_eq!((now(), own.load(Ordering::Relaxed)), (0, COUNTS));
    }
}
