//! A hostile target: random bytes over a map's area while this process reads and updates. No crash, no access outside
//! (the neighbouring map stays as it is), no hang.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use testkit::cpu;
use weir_ebpf::map::flag;
use weir_ebpf::{MapKind, MapSpec};

use super::{Random, key_of, segment, spec, value};
use crate::runtime::linked;
use crate::segment::Segment;

fn use_map(segment: &Segment, random: &mut Random) {
    let view = segment.map(1);
    let spec = &view.layout().spec;
    let descriptor = segment.descriptor(1);
    if spec.kind == MapKind::RingBuf {
        let _ = linked::ringbuf_output(descriptor, &[7; 40], 0);
        if let Some(record) = linked::ringbuf_reserve(descriptor, random.below(200), 0) {
            // SAFETY: reserved above.
            unsafe { linked::ringbuf_finish(record, false) };
        }
        if spec.overwrites() {
            let _ = segment.flight(1).lane(random.below(18) as usize);
            return;
        }
        let _ = segment.ring(1).next();
        let _ = segment.ring(1).drain_dead();
        return;
    }
    if spec.kind == MapKind::BloomFilter {
        let pushed = value(random.next(), spec.value_bytes);
        let _ = view.update(&[], &pushed, 0);
        let _ = view.contains(&pushed);
        if random.below(40) == 0 {
            view.clear();
        }
        return;
    }
    if spec.kind.is_queue() {
        let _ = view.update(&[], &value(random.next(), spec.value_bytes), random.below(2) * 2);
        let _ = view.lookup(&[]);
        let _ = view.pop();
        assert!(view.entries().len() <= spec.max_entries as usize);
        if random.below(40) == 0 {
            view.clear();
        }
        return;
    }
    if random.below(20) == 0 {
        let mut at = crate::abi::Cursor::default();
        while linked::map_next(descriptor, &mut at, 0).is_some() {}
    }
    let key = key_of(spec.kind, random.below(40), spec.key_bytes);
    let _ = view.update(&key, &value(random.next(), spec.value_bytes), random.below(3));
    if let Some(at) = linked::map_lookup(descriptor, &key) {
        let area = segment.base() + view.layout().offset;
        assert!((area..area + view.layout().bytes).contains(&at), "a value outside its map");
    }
    let _ = view.lookup(&key);
    let _ = view.delete(&key);
    let _ = segment.user_map(1).next_key(Some(&key));
    assert!(view.entries().len() <= spec.max_entries as usize);
    match random.below(20) {
        0 => view.zero(),
        1 => view.clear(),
        _ => {}
    }
}

/// Scribbles over the map's area, mostly with numbers that look like links and positions.
fn scribble(segment: &Segment, random: &mut Random) {
    let map = &segment.layout().maps[1];
    let at = map.offset + random.below(map.bytes / 8) * 8;
    let near = if random.below(2) == 0 { map.offset + random.below(64) * 8 } else { at };
    let old = segment.mapping().word(near).load(Ordering::Relaxed);
    let word = match random.below(5) {
        0 => random.next(),
        1 => old ^ 1 << random.below(64),
        2 => random.below(100),
        3 => old.wrapping_add(random.below(4096)),
        _ => old & !0x1ff_ffff | random.below(40),
    };
    segment.mapping().word(near).store(word, Ordering::Relaxed);
}

fn check(hostile: MapSpec) {
    let guard = spec(MapKind::Array, 4, 8, 512);
    let segment = segment(&[guard.clone(), hostile, guard]);
    for n in 0..512u32 {
        for map in [0, 2] {
            segment.map(map).update(&n.to_le_bytes(), &u64::from(n).to_le_bytes(), 0).expect("in bounds");
        }
    }
    // In CPU time of this thread: no operation may go round for ever, however busy the machine is.
    let (mut random, started) = (Random(77), cpu::used_by_this_thread());
    // First alternately, so that a failure repeats; then at the same time.
    for _ in 0..3000 {
        for _ in 0..random.below(8) {
            scribble(&segment, &mut random);
        }
        use_map(&segment, &mut random);
    }
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut random = Random(78);
            while !stop.load(Ordering::Relaxed) {
                scribble(&segment, &mut random);
            }
        });
        let until = cpu::used_by_this_thread() + Duration::from_millis(100);
        while cpu::used_by_this_thread() < until {
            use_map(&segment, &mut random);
        }
        stop.store(true, Ordering::Relaxed);
    });
    for map in [0, 2] {
        for (n, (_, value)) in segment.map(map).entries().into_iter().enumerate() {
            assert_eq!(value, (n as u64).to_le_bytes(), "a neighbour was changed");
        }
    }
    let used = cpu::used_by_this_thread() - started;
    assert!(used < Duration::from_secs(20), "it took {used:?} of CPU time");
}

#[test]
fn spoiled_hash_stays_inside() {
    check(spec(MapKind::Hash, 8, 8, 20));
    check(spec(MapKind::Hash, 16, 40, 20));
}

#[test]
fn spoiled_per_cpu_hash_stays_inside() {
    check(spec(MapKind::PerCpuHash, 8, 16, 20));
}

#[test]
fn spoiled_queue_and_stack_stay_inside() {
    for kind in [MapKind::Queue, MapKind::Stack] {
        check(spec(kind, 0, 8, 20));
        check(spec(kind, 0, 40, 20));
    }
}

#[test]
fn spoiled_lrus_stay_inside() {
    check(spec(MapKind::LruHash, 8, 8, 20));
    check(spec(MapKind::LruHash, 16, 40, 20));
    check(spec(MapKind::LruPerCpuHash, 8, 16, 20));
}

#[test]
fn spoiled_bloom_filter_stays_inside() {
    check(spec(MapKind::BloomFilter, 0, 8, 1000));
}

#[test]
fn spoiled_trie_stays_inside() {
    check(spec(MapKind::LpmTrie, 8, 8, 20));
    check(spec(MapKind::LpmTrie, 20, 40, 20));
}

#[test]
fn spoiled_ring_stays_inside() {
    check(spec(MapKind::RingBuf, 0, 0, 4096));
    check(MapSpec { flags: flag::RING_PER_CPU, ..spec(MapKind::RingBuf, 0, 0, 4096) });
    let flags = flag::RING_PER_CPU | flag::RB_OVERWRITE;
    check(MapSpec { flags, ..spec(MapKind::RingBuf, 0, 0, 4096) });
}
