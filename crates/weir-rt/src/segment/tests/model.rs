//! Every kind × operation × flag × error against a model that a reader can check by eye, and the same operations
//! against the kernel's own maps where bpf(2) is allowed.

use std::collections::BTreeMap;

use weir_ebpf::{MapKind, MapSpec};

use super::kernel::KernelMap;
use super::{Random, key, segment, spec, value};
use crate::runtime::linked;

const ENOENT: i64 = -2;
const E2BIG: i64 = -7;
const EEXIST: i64 = -17;
const EINVAL: i64 = -22;

/// What the kernel documents (bpf(2), bpf-helpers(7)) in the fewest words.
struct Model {
    spec: MapSpec,
    entries: BTreeMap<Vec<u8>, Vec<u8>>,
}

impl Model {
    fn new(spec: &MapSpec) -> Model {
        let mut entries = BTreeMap::new();
        if spec.kind.is_array() {
            entries.extend(
                (0..spec.max_entries).map(|n| (n.to_le_bytes().to_vec(), value(0, spec.value_bytes))),
            );
        }
        Model { spec: spec.clone(), entries }
    }

    fn update(&mut self, key: &[u8], value: &[u8], flags: u64) -> i64 {
        let is_there = self.entries.contains_key(key);
        if self.spec.kind.is_array() {
            let is_lock = flags & 4 != 0 && self.spec.kind == MapKind::Array;
            if (if is_lock { flags & !4 } else { flags }) > 2 {
                return EINVAL;
            }
            if !is_there {
                return E2BIG;
            }
            if flags & 1 != 0 {
                return EEXIST;
            }
            if is_lock {
                return EINVAL;
            }
        } else {
            match (flags, is_there) {
                (3.., _) => return EINVAL,
                (1, true) => return EEXIST,
                (2, false) => return ENOENT,
                (_, false) if self.entries.len() == self.spec.max_entries as usize => return E2BIG,
                _ => {}
            }
        }
        self.entries.insert(key.to_vec(), value.to_vec());
        0
    }

    fn delete(&mut self, key: &[u8]) -> i64 {
        if self.spec.kind.is_array() {
            return EINVAL;
        }
        if self.entries.remove(key).is_some() { 0 } else { ENOENT }
    }
}

/// `operations` random ones on a map of this kind; after each, its answer, and now and then the whole contents.
fn check(kind: MapKind, key_bytes: u32, value_bytes: u32, max_entries: u32, operations: u32) {
    let spec = spec(kind, key_bytes, value_bytes, max_entries);
    let segment = segment(std::slice::from_ref(&spec));
    let descriptor = segment.descriptor(0);
    let view = segment.map(0);
    let kernel = (!kind.is_per_cpu()).then(|| KernelMap::create(&spec)).flatten();
    let mut model = Model::new(&spec);
    let mut random = Random(0x9e37_79b9 ^ u64::from(value_bytes) << 8 ^ u64::from(max_entries));
    for n in 0..operations {
        let key = key(random.below(u64::from(max_entries) * 2), key_bytes);
        let value = value(random.next(), value_bytes);
        let context = format!("{} operation {n} on {key:?}", spec.name);
        match random.below(8) {
            0..4 => {
                let flags = [0, 0, 1, 2, 3, 4, 5, 1 << 40][random.below(8) as usize];
                let expected = model.update(&key, &value, flags);
                assert_eq!(
                    linked::map_update(descriptor, &key, &value, flags),
                    expected,
                    "{context} flags {flags}"
                );
                if let Some(kernel) = &kernel {
                    // bpf(2) itself refuses BPF_F_LOCK, before the map's own function that programs call sees it.
                    let expected = if flags & 4 != 0 { EINVAL } else { expected };
                    assert_eq!(
                        kernel.update(&key, &value, flags),
                        expected,
                        "kernel, {context} flags {flags}"
                    );
                }
            }
            4..6 => {
                let expected = model.delete(&key);
                assert_eq!(linked::map_delete(descriptor, &key), expected, "{context}");
                if let Some(kernel) = &kernel {
                    assert_eq!(kernel.delete(&key), expected, "kernel, {context}");
                }
            }
            _ => {
                let expected = model.entries.get(&key);
                assert_eq!(view.lookup(&key).as_ref(), expected, "{context}");
                assert_eq!(linked::map_lookup(descriptor, &key).is_some(), expected.is_some(), "{context}");
                if let Some(kernel) = &kernel {
                    assert_eq!(kernel.lookup(&key).as_ref(), expected, "kernel, {context}");
                }
            }
        }
        if n % 500 == 0 || n + 1 == operations {
            let mut entries = view.entries();
            entries.sort();
            let expected: Vec<_> = model.entries.clone().into_iter().collect();
            assert_eq!(entries, expected, "{context}");
        }
    }
    let counters = segment.counters().maps[0];
    assert_eq!((counters.contended, counters.corrupt), (0, 0));
}

#[test]
fn array_is_the_kernels() {
    check(MapKind::Array, 4, 4, 1, 1000);
    check(MapKind::Array, 4, 8, 7, 2000);
    check(MapKind::Array, 4, 20, 64, 2000);
}

#[test]
fn per_cpu_array_is_the_kernels() {
    check(MapKind::PerCpuArray, 4, 8, 5, 2000);
    check(MapKind::PerCpuArray, 4, 528, 3, 500);
}

#[test]
fn hash_is_the_kernels() {
    check(MapKind::Hash, 1, 1, 3, 2000);
    check(MapKind::Hash, 4, 4, 1, 1000);
    check(MapKind::Hash, 8, 8, 64, 8000);
    check(MapKind::Hash, 13, 12, 33, 4000);
    check(MapKind::Hash, 8, 16, 5, 4000);
    check(MapKind::Hash, 64, 128, 100, 3000);
    check(MapKind::Hash, 512, 1, 10, 500);
}

#[test]
fn per_cpu_hash_is_the_kernels() {
    check(MapKind::PerCpuHash, 8, 8, 20, 4000);
    check(MapKind::PerCpuHash, 24, 528, 9, 1000);
}

#[test]
fn values_of_lanes_are_summed_and_zeroed() {
    for kind in [MapKind::PerCpuArray, MapKind::PerCpuHash] {
        let key_bytes = if kind.is_array() { 4 } else { 8 };
        let segment = segment(&[spec(kind, key_bytes, 24, 4)]);
        let (view, descriptor) = (segment.map(0), segment.descriptor(0));
        let key = key(2, key_bytes);
        assert_eq!(view.update(&key, &[0; 24], 0), Ok(()));
        let at = linked::map_lookup(descriptor, &key).expect("present") - segment.base();
        for lane in 0..4 {
            for word in 0..3 {
                let at = at + lane * view.layout().lane_stride + word * 8;
                segment
                    .mapping()
                    .word(at)
                    .store(10u64.pow(lane as u32) * (word + 1), super::super::Ordering::Relaxed);
            }
        }
        let sums: Vec<u8> = [1111u64, 2222, 3333].iter().flat_map(|sum| sum.to_le_bytes()).collect();
        assert_eq!(view.lookup(&key), Some(sums.clone()));
        assert!(view.entries().contains(&(key.clone(), sums)));
        view.zero();
        assert_eq!(view.lookup(&key), Some(vec![0; 24]), "{kind:?}");
        // The CPUs' own lanes are as they were.
        assert_eq!(segment.mapping().word(at).load(super::super::Ordering::Relaxed), 1);
        let wanted: Vec<u8> = [7u64, 8, 9].iter().flat_map(|word| word.to_le_bytes()).collect();
        assert_eq!(view.update(&key, &wanted, 2), Ok(()));
        assert_eq!(view.lookup(&key), Some(wanted));
        view.clear();
        assert_eq!(view.lookup(&key), if kind.is_array() { Some(vec![0; 24]) } else { None });
    }
}

#[test]
fn exactly_max_entries_fit() {
    for (kind, value_bytes) in [(MapKind::Hash, 8), (MapKind::Hash, 40), (MapKind::PerCpuHash, 16)] {
        for max_entries in [1, 2, 3, 64, 1000] {
            let segment = segment(&[spec(kind, 8, value_bytes, max_entries)]);
            super::assert_no_node_lost(&segment, 0);
            super::assert_no_node_lost(&segment, 0);
            assert_eq!(segment.counters().maps[0].full, 2);
        }
    }
}
