//! Hashes that grow: what is allocated when, what is refused meanwhile, and that nothing else is touched.

use std::os::fd::AsRawFd;
use std::sync::atomic::Ordering;

use weir_ebpf::{MapKind, MapSpec};

use super::{CPUS, identity, key, spec, value};
use crate::abi::control;
use crate::limits::NODES_AT_FIRST;
use crate::segment::{MapError, Segment, SegmentLayout};

const FIRST: u64 = NODES_AT_FIRST as u64;
const ENTRIES: u32 = 3 * NODES_AT_FIRST;

fn growing(maps: &[MapSpec]) -> Segment {
    crate::runtime::linked::prepare();
    let layout = SegmentLayout::plan(maps, CPUS).expect("the layout is within bounds").growing();
    Segment::create_local(layout, &identity()).expect("a memfd")
}

fn insert(segment: &Segment, keys: std::ops::Range<u64>) -> Result<(), MapError> {
    let view = segment.map(0);
    let bytes = view.layout().spec.value_bytes;
    keys.into_iter().try_for_each(|n| view.update(&key(n, 8), &value(n, bytes), 1))
}

/// Bytes that the kernel holds for it.
fn held(segment: &Segment) -> u64 {
    use std::os::unix::fs::MetadataExt;
    let path = format!("/proc/self/fd/{}", segment.fd().as_raw_fd());
    std::fs::metadata(path).expect("a descriptor of this process").blocks() * 512
}

fn check_grows(spec: MapSpec) {
    let segment = growing(std::slice::from_ref(&spec));
    let whole = segment.layout().bytes;
    assert!(segment.bytes_allocated() < whole * 2 / 3, "{}: {whole}", spec.name);
    assert_eq!(held(&segment), segment.bytes_allocated(), "{}: as the kernel counts", spec.name);
    assert_eq!(segment.grow(None).bytes, 0, "{}: nobody needs more yet", spec.name);
    let mut taken = 0;
    while taken < u64::from(ENTRIES) {
        let to = (taken + FIRST / 2).min(ENTRIES.into());
        insert(&segment, taken..to).unwrap();
        taken = to;
        let growth = segment.grow(None);
        assert!(growth.refused.is_none(), "{:?}", growth.refused);
    }
    assert_eq!(segment.map(0).entries().len(), ENTRIES as usize, "{}", spec.name);
    assert_eq!(insert(&segment, ENTRIES.into()..u64::from(ENTRIES) + 1), Err(MapError::TooBig));
    let counters = segment.counters().maps[0];
    assert_eq!((counters.full, counters.outgrown), (1, 0), "{}: it is full now", spec.name);
    assert_eq!(segment.bytes_allocated(), whole, "{}", spec.name);
    assert_eq!(held(&segment), whole, "{}: as the kernel counts", spec.name);
}

#[test]
fn a_hash_grows_to_its_size_ahead_of_its_use() {
    check_grows(spec(MapKind::Hash, 8, 8, ENTRIES));
}

#[test]
fn values_of_each_cpu_grow_with_the_nodes() {
    check_grows(spec(MapKind::PerCpuHash, 8, 16, ENTRIES));
}

#[test]
fn what_is_faster_than_growth_is_refused_and_counted() {
    let segment = growing(&[spec(MapKind::Hash, 8, 8, ENTRIES)]);
    insert(&segment, 0..FIRST).unwrap();
    assert_eq!(insert(&segment, FIRST..FIRST + 1), Err(MapError::TooBig));
    let counters = segment.counters().maps[0];
    assert_eq!((counters.full, counters.outgrown), (0, 1));
    assert_eq!(held(&segment), segment.bytes_allocated(), "nothing beyond was touched");
    assert!(segment.grow(None).bytes > 0);
    insert(&segment, FIRST..FIRST + 1).unwrap();
}

#[test]
fn keys_that_come_and_go_do_not_make_it_grow() {
    let segment = growing(&[spec(MapKind::Hash, 8, 8, ENTRIES)]);
    for n in 0..FIRST {
        insert(&segment, n..n + 1).unwrap();
        segment.map(0).delete(&key(n, 8)).unwrap();
    }
    assert_eq!(segment.grow(None).bytes, 0);
}

#[test]
fn a_budget_ends_growth_and_says_so() {
    let segment = growing(&[spec(MapKind::Hash, 8, 8, ENTRIES)]);
    insert(&segment, 0..FIRST).unwrap();
    let (index, error) = segment.grow(Some(segment.bytes_allocated() + 1)).refused.expect("over the budget");
    assert_eq!(index, 0);
    assert!(error.to_string().contains("over the budget"), "{error}");
    assert_eq!(insert(&segment, FIRST..FIRST + 1), Err(MapError::TooBig));
}

#[test]
fn other_kinds_and_small_maps_are_allocated_at_once() {
    let specs = [
        spec(MapKind::LruHash, 8, 8, ENTRIES),
        spec(MapKind::Hash, 8, 8, 4096),
        spec(MapKind::Array, 4, 8, 64),
    ];
    let segment = growing(&specs);
    assert_eq!(segment.bytes_allocated(), segment.layout().bytes);
    assert_eq!(held(&segment), segment.layout().bytes);
}

#[test]
fn words_that_lie_make_no_more_than_the_map() {
    let segment = growing(&[spec(MapKind::Hash, 8, 8, ENTRIES)]);
    let word = |at| segment.mapping().word(segment.layout().maps[0].offset + at);
    word(control::FRESH).store(u64::MAX, Ordering::Relaxed);
    for _ in 0..100 {
        assert!(segment.grow(None).refused.is_none());
    }
    assert_eq!(segment.bytes_allocated(), segment.layout().bytes);
    word(control::WITHHELD).store(u64::MAX, Ordering::Relaxed);
    assert_eq!(insert(&segment, 0..1), Err(MapError::TooBig));
}
