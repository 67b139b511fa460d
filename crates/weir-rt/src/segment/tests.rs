//! What maps and rings promise, tried on a real segment: against models and the kernel, under threads, signals at
//! every instruction, deaths at every instruction, and on memory that somebody else scribbles over.

mod announce;
mod bloom;
mod corrupt;
mod denied;
mod growth;
mod held;
mod in_kernel;
mod interrupted;
mod killed;
mod kinds;
mod lanes;
mod lpm;
mod lru;
mod model;
mod next;
mod oracle;
mod perf;
mod queue;
mod ring;
mod signals;
mod stacks;
mod stats_page;
mod stress;
mod threads;

use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};

use nix::sys::memfd::{MFdFlags, memfd_create};
use weir_ebpf::map::flag;
use weir_ebpf::{MapKind, MapSpec};

use super::{Identity, Segment, SegmentLayout};
use crate::runtime::linked;

/// CPUs of the test layouts: more than one, so that lanes matter.
const CPUS: u32 = 3;

fn spec(kind: MapKind, key_bytes: u32, value_bytes: u32, max_entries: u32) -> MapSpec {
    let name = format!("{}_{value_bytes}", kind.name());
    let flags = if kind == MapKind::LpmTrie { flag::NO_PREALLOC } else { 0 };
    MapSpec { flags, ..MapSpec::new(name, kind, key_bytes, value_bytes, max_entries) }
}

fn segment(maps: &[MapSpec]) -> Segment {
    crate::runtime::linked::prepare();
    let layout = SegmentLayout::plan(maps, CPUS).expect("the layout is within bounds");
    Segment::create_local(layout, &identity()).expect("a memfd")
}

fn identity() -> Identity {
    Identity { session: 0x5eed, ..Identity::default() }
}

/// The same with lanes that runs claim.
fn claimable(maps: &[MapSpec]) -> Segment {
    crate::runtime::linked::prepare();
    let layout = SegmentLayout::plan_claimable(maps, CPUS).expect("the layout is within bounds");
    Segment::create_local(layout, &Identity { session: 0x5eed, ..Identity::default() }).expect("a memfd")
}

/// xorshift64*: the same numbers for the same seed on every machine.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        testkit::random::next(&mut self.0)
    }

    fn below(&mut self, bound: u64) -> u64 {
        (self.next() >> 33) % bound
    }
}

/// A key of `bytes` bytes that says `number` first.
fn key(number: u64, bytes: u32) -> Vec<u8> {
    let mut key = vec![0xa5; bytes as usize];
    let number = number.to_le_bytes();
    let len = key.len().min(number.len());
    key[..len].copy_from_slice(&number[..len]);
    key
}

/// The same for a map of a kind: an LPM trie's key begins with its length, and what says `number` are its first bits.
fn key_of(kind: MapKind, number: u64, bytes: u32) -> Vec<u8> {
    if kind != MapKind::LpmTrie {
        return key(number, bytes);
    }
    let bits = 8 * (bytes - 4);
    let length = bits - (number % 3) as u32;
    [&length.to_le_bytes()[..], &key(number, bytes - 4)].concat()
}

/// A value of `bytes` bytes that shows when it is torn: every byte the same.
fn value(seed: u64, bytes: u32) -> Vec<u8> {
    vec![seed as u8; bytes as usize]
}

/// Deletes everything, then fills the map: exactly `max_entries` keys must fit, so that no node was lost and none is in
/// two places.
fn assert_no_node_lost(segment: &Segment, index: usize) {
    let view = segment.map(index);
    let spec = &view.layout().spec;
    view.clear();
    // Of queues and stacks the key is nothing, and the flag for a new one is 0.
    let flags = if spec.kind.is_queue() { 0 } else { 1 };
    assert_eq!(view.entries(), [], "cleared");
    for n in 0..u64::from(spec.max_entries) {
        let done = view.update(&key_of(spec.kind, n, spec.key_bytes), &value(n, spec.value_bytes), flags);
        assert_eq!(done, Ok(()), "{}: key {n} of {} must fit", spec.name, spec.max_entries);
    }
    assert_eq!(view.entries().len(), spec.max_entries as usize, "each key once");
    let one_more = view.update(
        &key_of(spec.kind, spec.max_entries.into(), spec.key_bytes),
        &value(0, spec.value_bytes),
        0,
    );
    let expected = match spec.kind {
        kind if kind.is_lru() => Ok(()),
        MapKind::LpmTrie => Err(super::MapError::NoSpace),
        _ => Err(super::MapError::TooBig),
    };
    assert_eq!(one_more, expected, "{}", spec.name);
    assert_eq!(view.entries().len(), spec.max_entries as usize, "each key once");
}

/// Short keys are compared without their hashes: keys that differ in one byte, whichever it is, are others.
#[test]
fn keys_that_differ_in_any_byte_are_distinct() {
    for bytes in [1, 4, 8, 9, 12, 16, 17, 24, 40] {
        let segment = segment(&[spec(MapKind::Hash, bytes, 8, 16_384)]);
        let keys = (0..bytes as usize).flat_map(|at| (1..=255).map(move |byte| (at, byte)));
        let key = |(at, byte): (usize, u8)| {
            let mut key = vec![0; bytes as usize];
            key[at] = byte;
            key
        };
        let number = |(at, byte): (usize, u8)| (at as u64) << 8 | u64::from(byte);
        for of in keys.clone() {
            let value = number(of).to_le_bytes();
            assert_eq!(linked::map_update(segment.descriptor(0), &key(of), &value, 0), 0, "{bytes}: {of:?}");
        }
        for of in keys {
            let value = segment.map(0).lookup(&key(of));
            assert_eq!(value.as_deref(), Some(&number(of).to_le_bytes()[..]), "{bytes}: {of:?}");
        }
    }
}

/// A traced process has the file too, until it is sealed. A segment of a shorter one would be the end of this process (SIGBUS), as soon
/// as it is touched past its end.
#[test]
fn a_file_that_another_changes_until_it_is_sealed_is_refused_or_whole() {
    const TRIES: usize = 300;
    let layout = || SegmentLayout::plan(&[spec(MapKind::Array, 4, 8, 4096)], CPUS).unwrap();
    let file = || memfd_create("shared", MFdFlags::MFD_CLOEXEC | MFdFlags::MFD_ALLOW_SEALING).unwrap();
    for _ in 0..TRIES {
        let (fd, is_made) = (file(), AtomicBool::new(false));
        let theirs: OwnedFd = fd.try_clone().unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !is_made.load(Ordering::Relaxed) {
                    let _ = nix::unistd::ftruncate(&theirs, 4096);
                }
            });
            match Segment::create(fd, layout(), &Identity::default()) {
                Ok(segment) => {
                    let last = segment.layout().bytes - 8;
                    segment.mapping.word(last).store(1, Ordering::Relaxed);
                }
                Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::InvalidData, "{error}"),
            }
            is_made.store(true, Ordering::Relaxed);
        });
    }
    // What may come of it, one by one.
    let fd = file();
    let is_refused = |bytes: u64| super::check_sealed(&fd, bytes).is_err();
    nix::unistd::ftruncate(&fd, 8192).unwrap();
    assert!(!is_refused(8192) && is_refused(12_288) && is_refused(4096));
    let other = std::fs::File::open("/proc/self/maps").unwrap();
    assert!(super::check_sealed(&other.into(), 0).is_err());
}
