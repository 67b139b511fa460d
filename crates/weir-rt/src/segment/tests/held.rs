//! Maps that hold maps: user space's operations beside the kernel's, and what programs get of a spoiled slot.

use std::sync::atomic::Ordering;

use testkit::kernel_map::{Command, KernelMap};
use weir_ebpf::{MapKind, MapSpec};

use super::{Random, segment, spec};
use crate::runtime::linked;
use crate::segment::Segment;

/// Index of the first map that is held; the ones before it are the holder, and what it was defined to hold.
const FIRST: u32 = 2;

/// The holder of `kind`, a map of the definition, three that it may hold, and one that it may not.
fn specs(kind: MapKind) -> Vec<MapSpec> {
    let inner = |name: &str| MapSpec::new(name, MapKind::Array, 4, 8, 4);
    let outer = MapSpec { inner: Some(1), ..spec(kind, 4, 4, 4) };
    let other = MapSpec::new("other", MapKind::Array, 4, 8, 5);
    vec![outer, inner("like"), inner("a"), inner("b"), inner("c"), other]
}

/// The same maps in the kernel; none, loudly, where bpf(2) is not allowed.
fn kernels(specs: &[MapSpec]) -> Option<(KernelMap, Vec<KernelMap>)> {
    let made: Result<Vec<KernelMap>, _> = specs[1..].iter().map(KernelMap::create).collect();
    let both = made.and_then(|made| Ok((KernelMap::holding(&specs[0], &made[0])?, made)));
    both.map_err(|error| {
        testkit::skip::skip("maps against the kernel's", format!("bpf(BPF_MAP_CREATE): {error}"))
    })
    .ok()
}

/// One operation on both: what they answer; values that are found are known by their presence alone, since the kernel
/// answers with ids.
fn ask(segment: &Segment, kernel: &(KernelMap, Vec<KernelMap>), random: &mut Random) {
    let map = segment.user_map(0);
    let key = (random.below(6) as u32).to_le_bytes();
    let flags = if random.below(3) == 0 { random.below(5) } else { 0 };
    let held = random.below(6) as usize;
    let status = |done: Result<(), crate::segment::MapError>| {
        done.map_or_else(|error| -i64::from(error.errno()), |()| 0)
    };
    let (name, ours, kernels) = match random.below(8) {
        0..3 => {
            // The last one is none: no map has its number, and no file its descriptor.
            let numbers = [FIRST, FIRST + 1, FIRST + 2, 5, 0, 77].map(u32::to_le_bytes);
            let descriptor = match held {
                // A map does not hold itself: maps that hold maps are held by none.
                4 => kernel.0.descriptor(),
                5 => 9999u32.to_le_bytes(),
                held => kernel.1[held + 1].descriptor(),
            };
            let ours = status(map.update(&key, &numbers[held], flags));
            ("update", ours, kernel.0.user(Command::Update, &key, &descriptor, flags).0)
        }
        3 => ("delete", status(map.delete(&key)), kernel.0.user(Command::Delete, &key, &[], 0).0),
        4 => {
            let ours = status(map.next_key(Some(&key)).map(drop));
            // The order of a hash is anybody's: only whether there is a key after an absent one is compared.
            let is_hash = map.spec().kind == MapKind::HashOfMaps;
            if is_hash && map.lookup(&key, 0).is_ok() {
                return;
            }
            ("next key", ours, kernel.0.user(Command::NextKey, &key, &[], 0).0)
        }
        5 => {
            let ours = status(map.lookup_and_delete(&key, 0).map(drop));
            ("take", ours, kernel.0.user(Command::LookupAndDelete, &key, &[], 0).0)
        }
        _ => {
            let ours = status(map.lookup(&key, flags).map(drop));
            ("lookup", ours, kernel.0.user(Command::Lookup, &key, &[], flags).0)
        }
    };
    assert_eq!(ours, kernels, "{:?}: {name} {key:?} flags {flags} held {held}", map.spec().kind);
}

#[test]
fn what_user_space_does_is_the_kernels() {
    for kind in [MapKind::ArrayOfMaps, MapKind::HashOfMaps] {
        let specs = specs(kind);
        let Some(kernel) = kernels(&specs) else { return };
        let segment = segment(&specs);
        let mut random = Random(11);
        for _ in 0..5000 {
            ask(&segment, &kernel, &mut random);
        }
    }
}

/// The index of the map that a program gets for `key`.
fn found(segment: &Segment, key: u32) -> Option<usize> {
    let address = linked::map_lookup(segment.descriptor(0), &key.to_le_bytes())?;
    let found = (0..segment.layout().maps.len())
        .find(|index| std::ptr::from_ref(segment.descriptor(*index)) as u64 == address);
    Some(found.expect("it is the descriptor of a map"))
}

#[test]
fn programs_find_what_user_space_put_in() {
    for kind in [MapKind::ArrayOfMaps, MapKind::HashOfMaps] {
        let segment = segment(&specs(kind));
        let map = segment.map(0);
        assert_eq!((found(&segment, 0), map.entries()), (None, vec![]));
        for (key, held) in [(0u32, FIRST), (2, FIRST + 2), (2, FIRST + 1)] {
            map.update(&key.to_le_bytes(), &held.to_le_bytes(), 0).expect("it may be held");
            assert_eq!(map.lookup(&key.to_le_bytes()), Some(held.to_le_bytes().to_vec()));
        }
        assert_eq!([0, 1, 2, 3, 4].map(|key| found(&segment, key)), [Some(2), None, Some(3), None, None]);
        let entry = |key: u32, held: u32| (key.to_le_bytes().to_vec(), held.to_le_bytes().to_vec());
        assert_eq!(map.entries(), [entry(0, FIRST), entry(2, FIRST + 1)]);
        map.delete(&0u32.to_le_bytes()).expect("it is there");
        assert_eq!(found(&segment, 0), None);
        map.clear();
        assert_eq!((found(&segment, 2), map.entries()), (None, vec![]));
    }
}

#[test]
fn a_spoiled_slot_leads_to_a_map_like_the_promised_ones_or_to_none() {
    let mut specs = specs(MapKind::ArrayOfMaps);
    specs.push(MapSpec::new("ring", MapKind::RingBuf, 0, 0, 4096));
    specs.push(MapSpec::new("wide", MapKind::Array, 4, 800, 4));
    let segment = segment(&specs);
    let map = &segment.layout().maps[0];
    let mut random = Random(3);
    let mut seen = [0; 2];
    for n in 0..20_000u64 {
        let number = if n % 2 == 0 { random.below(12) } else { random.next() };
        segment.mapping().word(map.data_offset).store(number, Ordering::Relaxed);
        let found = found(&segment, 0);
        assert!(found.is_none_or(|found| segment.layout().maps[found].spec.is_like(&specs[1])), "{found:?}");
        seen[usize::from(found.is_some())] += 1;
        segment.map(0).entries();
    }
    assert!(seen[0] > 1000 && seen[1] > 1000, "{seen:?}");
    assert!(segment.counters().maps[0].corrupt > 1000);
}
