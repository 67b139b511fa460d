//! LPM tries: the model of one, keys that share prefixes, and what a look-up costs beside the kernel's.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

use nix::libc;
use weir_ebpf::MapKind;

use super::kinds::{Op, Via};
use super::model::Answer;
use super::{Random, segment, signals, spec, value};
use crate::abi::{CONTROL_BYTES, Descriptor};
use crate::runtime::linked;

const ENOENT: i64 = -2;
const EEXIST: i64 = -17;
const EINVAL: i64 = -22;
const ENOSPC: i64 = -28;
const ENOTSUPP: i64 = -524;

/// What the kernel documents (Documentation/bpf/map_lpm_trie.rst), by looking at every prefix.
pub(super) struct Trie {
    max_entries: usize,
    /// By the bits of the prefix, one a byte, and a 2: so each comes behind those that extend it. The key as it was
    /// given, and the value.
    prefixes: BTreeMap<Vec<u8>, (Vec<u8>, Vec<u8>)>,
}

/// The bits of a key's prefix, and a 2; `None` if it has more than keys have.
fn bits(key: &[u8]) -> Option<Vec<u8>> {
    let length = u32::from_le_bytes(key[..4].try_into().expect("4 bytes")) as usize;
    let all = key[4..].iter().flat_map(|byte| (0..8).map(move |bit| byte >> (7 - bit) & 1));
    let mut bits: Vec<u8> = all.take(length).collect();
    if bits.len() < length {
        return None;
    }
    bits.push(2);
    Some(bits)
}

impl Trie {
    pub(super) fn new(max_entries: u32) -> Trie {
        Trie { max_entries: max_entries as usize, prefixes: BTreeMap::new() }
    }

    /// In the order of a walk.
    pub(super) fn keys(&self) -> Vec<Vec<u8>> {
        self.prefixes.values().map(|(key, _)| key.clone()).collect()
    }

    pub(super) fn answer(&mut self, via: Via, op: Op, key: &[u8], value: &[u8], flags: u64) -> Answer {
        let bits = bits(key);
        match (op, bits) {
            (Op::Lookup, _) if via == Via::User && flags != 0 => (EINVAL, None),
            (Op::Lookup, None) => (ENOENT, None),
            (Op::Lookup, Some(bits)) => {
                let fits = |known: &&Vec<u8>| bits.starts_with(&known[..known.len() - 1]);
                let longest = self.prefixes.keys().filter(fits).max_by_key(|known| known.len());
                longest.map_or((ENOENT, None), |found| (0, Some(self.prefixes[found].1.clone())))
            }
            (Op::Update, bits) => (self.update(bits, key, value, flags), None),
            (Op::Delete, None) => (EINVAL, None),
            (Op::Delete, Some(bits)) => {
                (if self.prefixes.remove(&bits).is_some() { 0 } else { ENOENT }, None)
            }
            (Op::LookupAndDelete, _) => (if flags == 0 { ENOTSUPP } else { EINVAL }, None),
            (Op::NextKey, bits) => {
                let known = bits.filter(|bits| self.prefixes.contains_key(bits));
                let next = match known {
                    Some(known) => self.prefixes.range(known..).nth(1),
                    None => self.prefixes.iter().next(),
                };
                next.map_or((ENOENT, None), |(_, (key, _))| (0, Some(key.clone())))
            }
            (Op::Push | Op::Pop | Op::Peek, _) => unreachable!("a map with keys"),
        }
    }

    fn update(&mut self, bits: Option<Vec<u8>>, key: &[u8], value: &[u8], flags: u64) -> i64 {
        let Some(bits) = bits.filter(|_| flags <= 2) else { return EINVAL };
        match (flags, self.prefixes.contains_key(&bits)) {
            (1, true) => return EEXIST,
            (2, false) => return ENOENT,
            (_, false) if self.prefixes.len() == self.max_entries => return ENOSPC,
            _ => {}
        }
        self.prefixes.insert(bits, (key.to_vec(), value.to_vec()));
        0
    }
}

/// A key of which others are likely to be prefixes, with bits behind its length; now and then one that is too long.
pub(super) fn random_key(random: &mut Random, bytes: u32) -> Vec<u8> {
    let most = 8 * (bytes - 4);
    let lengths = [0, 1, 5, 7, 8, 9, 15, 16, 17, 24, 32, most / 2, most - 1, most, most, most + 1, u32::MAX];
    let length = lengths[random.below(lengths.len() as u64) as usize];
    let mut key = length.to_le_bytes().to_vec();
    key.extend((4..bytes).map(|_| [0x00, 0x00, 0x00, 0x80, 0xff][random.below(5) as usize]));
    key
}

/// Everything is prefix of something: the longest is found, and the next one when that is gone.
#[test]
fn look_ups_find_the_longest_prefix_that_is_left() {
    for bytes in [5, 8, 20, 260] {
        let bits = 8 * (bytes - 4);
        let segment = segment(&[spec(MapKind::LpmTrie, bytes, 8, bits + 1)]);
        let (view, descriptor) = (segment.map(0), segment.descriptor(0));
        let prefix = |length: u32| [&length.to_le_bytes()[..], &vec![0xb5; bytes as usize - 4]].concat();
        for length in 0..=bits {
            assert_eq!(view.update(&prefix(length), &value(length.into(), 8), 1), Ok(()), "{length}");
        }
        for length in (0..=bits).rev() {
            assert_eq!(view.lookup(&prefix(bits)), Some(value(length.into(), 8)), "{bytes} bytes");
            assert!(linked::map_lookup(descriptor, &prefix(bits)).is_some());
            assert_eq!(view.delete(&prefix(length)), Ok(()));
        }
        assert_eq!(view.lookup(&prefix(bits)), None);
        assert_eq!(linked::map_lookup(descriptor, &prefix(bits)), None);
    }
}

/// Who adds the longer prefix before it deletes the shorter one leaves no moment without either.
#[test]
fn a_route_that_is_replaced_is_always_there() {
    let segment = segment(&[spec(MapKind::LpmTrie, 8, 8, 4)]);
    let descriptor = segment.descriptor(0);
    let route = |length: u32| [&length.to_le_bytes()[..], &[10, 1, 2, 3]].concat();
    assert_eq!(linked::map_update(descriptor, &route(8), &[0; 8], 0), 0);
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            for n in 0..100_000u32 {
                let lengths = [8, 16, 24, 12];
                let at = |n: u32| lengths[n as usize % lengths.len()];
                assert_eq!(linked::map_update(descriptor, &route(at(n + 1)), &[0; 8], 1), 0);
                assert_eq!(linked::map_delete(descriptor, &route(at(n))), 0);
            }
        });
        let mut asked = 0u64;
        while !writer.is_finished() || asked < 1000 {
            assert!(linked::map_lookup(descriptor, &route(32)).is_some(), "after {asked}");
            asked += 1;
        }
    });
}

/// The map that the signal handler changes, and how often it did.
static MAP: AtomicPtr<Descriptor> = AtomicPtr::new(std::ptr::null_mut());
static HANDLED: AtomicU64 = AtomicU64::new(0);

/// Adds, replaces or deletes one of a few prefixes that extend each other. Without allocation: in a signal handler that
/// interrupts one it would wait for a lock that its own thread holds, and with it whoever allocates or forks.
fn change(map: &Descriptor, random: &mut Random) {
    let mut route = [0; 8];
    route[..4].copy_from_slice(&(8 + random.below(25) as u32).to_le_bytes());
    route[4..].copy_from_slice(&[10, 0xff, random.below(2) as u8, 0]);
    let status = match random.below(2) {
        0 => linked::map_update(map, &route, &[0; 16], random.below(3)),
        _ => linked::map_delete(map, &route),
    };
    assert!([0, -2, -17, -28].contains(&status), "{status}");
}

extern "C" fn on_signal(_: i32) {
    // SAFETY: whoever sends the signal keeps the map until no thread gets one any more.
    let map = unsafe { &*MAP.load(Ordering::Relaxed) };
    change(map, &mut Random(HANDLED.fetch_add(1, Ordering::Relaxed) * 2 + 1));
}

/// The counters and lengths rule nothing out that is there, and count nothing that is not.
#[test]
fn every_prefix_is_found_after_eight_threads_and_signals() {
    let segment = segment(&[spec(MapKind::LpmTrie, 8, 16, 20)]);
    let (view, descriptor) = (segment.map(0), segment.descriptor(0));
    MAP.store(std::ptr::from_ref(descriptor).cast_mut(), Ordering::Relaxed);
    for round in 0..4 {
        let before = HANDLED.load(Ordering::Relaxed);
        signals::interrupted(8, libc::SIGIO, on_signal, |thread| {
            let mut random = Random(round * 100 + thread + 1);
            let is_enough = |n| n >= 5_000 && HANDLED.load(Ordering::Relaxed) >= before + 200;
            (0..1_000_000).take_while(|n| !is_enough(*n)).for_each(|_| change(descriptor, &mut random));
        });
        let entries = view.entries();
        assert!(!entries.is_empty(), "a map in which half of all changes add");
        for (key, _) in entries {
            let found = linked::lpm_match(descriptor, &key);
            assert_eq!(found, linked::lpm_prefix(descriptor, &key), "{key:?} is there");
        }
        let counters = segment.counters().maps[0];
        assert_eq!((counters.contended, counters.corrupt), (0, 0));
        view.clear();
        let lengths_bytes = 8;
        let counters_at = view.layout().offset + CONTROL_BYTES + lengths_bytes;
        let counters_end = counters_at + u64::from(view.layout().buckets / 4) * 8;
        for at in (counters_at..counters_end).step_by(8) {
            assert_eq!(segment.mapping().word(at).load(Ordering::Relaxed), 0, "counters at {at:#x}");
        }
        super::assert_no_node_lost(&segment, 0);
        view.clear();
    }
}
