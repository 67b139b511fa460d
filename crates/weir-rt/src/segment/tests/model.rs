//! What the kernel documents (bpf(2), bpf-helpers(7)) of each kind, in the fewest words: the judge that weir's maps and
//! the kernel's are both held to by `oracle.rs`.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use weir_ebpf::{MapKind, MapSpec};

use super::kinds::{Op, Via};
use super::lpm::Trie;
use super::{key, segment, spec, value};
use crate::runtime::linked;

const ENOENT: i64 = -2;
const E2BIG: i64 = -7;
const EBADF: i64 = -9;
const EEXIST: i64 = -17;
const EINVAL: i64 = -22;
const ENOTSUPP: i64 = -524;
const EOPNOTSUPP: i64 = -95;

/// 0 or a negative errno, and the value or key that came back.
pub(super) type Answer = (i64, Option<Vec<u8>>);

pub(super) struct Model {
    spec: MapSpec,
    pub(super) entries: BTreeMap<Vec<u8>, Vec<u8>>,
    /// Of a queue or stack, oldest first; of a Bloom filter, each once.
    elements: VecDeque<Vec<u8>>,
    pub(super) trie: Trie,
}

impl Model {
    pub(super) fn new(spec: &MapSpec) -> Model {
        let mut entries = BTreeMap::new();
        if spec.kind.is_array() {
            entries.extend(
                (0..spec.max_entries).map(|n| (n.to_le_bytes().to_vec(), value(0, spec.value_bytes))),
            );
        }
        Model { spec: spec.clone(), entries, elements: VecDeque::new(), trie: Trie::new(spec.max_entries) }
    }

    pub(super) fn keys(&self) -> BTreeSet<Vec<u8>> {
        self.entries.keys().cloned().collect()
    }

    /// `answer` is right; the model then knows of the operation.
    #[expect(clippy::too_many_arguments, reason = "one operation and what came of it")]
    pub(super) fn check(
        &mut self,
        via: Via,
        op: Op,
        key: &[u8],
        value: &[u8],
        flags: u64,
        answer: &Answer,
        context: &str,
    ) {
        let expected = match op {
            _ if self.spec.kind == MapKind::RingBuf => ring(op, flags),
            _ if self.spec.kind == MapKind::StackTrace => no_stacks(&self.spec, op, key, flags),
            _ if self.spec.kind.is_opaque() => slots(&self.spec, op, key, flags),
            _ if self.spec.kind.is_queue() => self.queue(via, op, value, flags),
            _ if self.spec.kind == MapKind::BloomFilter => {
                return self.check_filter(op, value, flags, answer, context);
            }
            _ if self.spec.kind == MapKind::LpmTrie => self.trie.answer(via, op, key, value, flags),
            Op::Lookup => self.lookup(via, key, flags),
            Op::Update => (self.update(via, key, value, flags), None),
            Op::Delete => (self.delete(key), None),
            Op::LookupAndDelete => self.lookup_and_delete(key, flags),
            Op::NextKey => return self.check_next_key(key, answer, context),
            Op::Push | Op::Pop | Op::Peek => unreachable!("a map with keys"),
        };
        // A number in an array of programs may be a descriptor of this very process, and of no program: the kernel then
        // says something else of it.
        let is_other = self.spec.kind == MapKind::ProgArray && op == Op::Update && expected.0 == EBADF;
        assert!(
            *answer == expected || is_other && answer.0 == EINVAL,
            "{answer:?}, not {expected:?}: {context}"
        );
    }

    fn lookup(&self, via: Via, key: &[u8], flags: u64) -> Answer {
        // The helper takes no flags; for user space, the only one is for values with a lock.
        if via == Via::User && flags != 0 {
            return (EINVAL, None);
        }
        match self.entries.get(key) {
            Some(value) => (0, Some(value.clone())),
            None => (ENOENT, None),
        }
    }

    fn update(&mut self, via: Via, key: &[u8], value: &[u8], flags: u64) -> i64 {
        let is_there = self.entries.contains_key(key);
        // BPF_F_LOCK: no value here has a lock. User space is told so first.
        if via == Via::User && flags & 4 != 0 {
            return EINVAL;
        }
        if self.spec.kind.is_array() {
            let is_lock = flags & 4 != 0;
            match flags & !4 {
                3.. => return EINVAL,
                _ if !is_there => return E2BIG,
                1 => return EEXIST,
                _ if is_lock => return EINVAL,
                _ => {}
            }
        } else {
            match (flags, is_there) {
                (3.., _) => return EINVAL,
                (1, true) => return EEXIST,
                (2, false) => return ENOENT,
                (_, false) if self.is_full() && !self.spec.kind.is_lru() => return E2BIG,
                _ => {}
            }
        }
        self.entries.insert(key.to_vec(), value.to_vec());
        0
    }

    fn is_full(&self) -> bool {
        self.entries.len() >= self.spec.max_entries as usize
    }

    /// The kernel makes room before it looks whether the key is there, and may give up that very key.
    pub(super) fn may_have_given_up(&mut self, key: &[u8], flags: u64, status: i64) {
        if self.is_full() && matches!((flags, status), (1, 0) | (2, ENOENT)) {
            self.entries.remove(key);
        }
    }

    /// After an operation on an LRU: what it gave up is taken from what is expected. `is_exact`: that was one key where
    /// there was no room for another, and else none.
    pub(super) fn give_up(&mut self, key: &[u8], present: &BTreeSet<Vec<u8>>, is_exact: bool, context: &str) {
        let before = self.entries.len();
        let added = self.keys();
        assert!(present.is_subset(&added), "{context}: keys that nobody added");
        assert!(present.len() <= self.spec.max_entries as usize, "{context}: {} keys", present.len());
        assert_eq!(added.contains(key), present.contains(key), "{context}: the key itself");
        if is_exact {
            let fits = before.min(self.spec.max_entries as usize);
            assert_eq!(present.len(), fits, "{context}: {before} keys with the new one");
        }
        self.entries.retain(|key, _| present.contains(key));
    }

    fn delete(&mut self, key: &[u8]) -> i64 {
        if self.spec.kind.is_array() {
            return EINVAL;
        }
        if self.entries.remove(key).is_some() { 0 } else { ENOENT }
    }

    fn lookup_and_delete(&mut self, key: &[u8], flags: u64) -> Answer {
        if flags != 0 {
            return (EINVAL, None);
        }
        if self.spec.kind.is_array() {
            return (ENOTSUPP, None);
        }
        match self.entries.remove(key) {
            Some(value) => (0, Some(value)),
            None => (ENOENT, None),
        }
    }

    /// The order is anybody's; that a walk meets each key once is checked elsewhere.
    fn check_next_key(&self, key: &[u8], (status, next): &Answer, context: &str) {
        match next {
            Some(next) => {
                assert!(
                    *status == 0 && self.entries.contains_key(next) && next != key,
                    "{context}: {next:?}"
                );
            }
            // Only the last key has none after it; any other key that is not there has the first one.
            None => {
                let is_last =
                    *status == ENOENT && (self.entries.is_empty() || self.entries.contains_key(key));
                assert!(is_last, "{context}: {status}");
            }
        }
    }
}

/// Queues and stacks (Documentation/bpf/map_queue_stack.rst).
impl Model {
    fn queue(&mut self, via: Via, op: Op, value: &[u8], flags: u64) -> Answer {
        let taken = match op {
            Op::Update | Op::Push => return (self.push(value, flags), None),
            Op::Delete | Op::NextKey => return (EINVAL, None),
            Op::Lookup | Op::LookupAndDelete if flags != 0 => return (EINVAL, None),
            Op::Lookup | Op::Peek => self.next_element().cloned(),
            Op::LookupAndDelete | Op::Pop => {
                let next = self.next_element().cloned();
                if self.spec.kind == MapKind::Queue {
                    self.elements.pop_front()
                } else {
                    self.elements.pop_back()
                };
                next
            }
        };
        match (taken, via) {
            (Some(value), _) => (0, Some(value)),
            // A program's memory is zeroed where there is nothing.
            (None, Via::Program) => (ENOENT, Some(vec![0; value.len()])),
            (None, Via::User) => (ENOENT, None),
        }
    }

    /// A filter may say that it holds what it does not; how often is measured elsewhere.
    fn check_filter(&mut self, op: Op, value: &[u8], flags: u64, (status, out): &Answer, context: &str) {
        let may_be_there = [0, ENOENT];
        let is_there = self.elements.iter().any(|pushed| pushed == value);
        let expected: &[i64] = match op {
            Op::Update | Op::Push | Op::Lookup | Op::LookupAndDelete if flags != 0 => &[EINVAL],
            Op::Update | Op::Push => &[0],
            Op::Lookup | Op::Peek if is_there => &[0],
            Op::Lookup | Op::Peek => &may_be_there,
            Op::Delete | Op::NextKey => &[EOPNOTSUPP],
            Op::LookupAndDelete => &[ENOTSUPP],
            Op::Pop => unreachable!("the verifier lets no program pop"),
        };
        assert!(expected.contains(status), "{context}: {status}, not of {expected:?}");
        assert_eq!(out.as_deref(), (op == Op::Peek).then_some(value), "{context}: the value is as it was");
        if matches!(op, Op::Update | Op::Push) && flags == 0 && !is_there {
            self.elements.push_back(value.to_vec());
        }
    }

    fn push(&mut self, value: &[u8], flags: u64) -> i64 {
        let is_full = self.elements.len() == self.spec.max_entries as usize;
        match (flags, is_full) {
            (1 | 3.., _) => return EINVAL,
            (0, true) => return E2BIG,
            (_, true) => drop(self.elements.pop_front()),
            _ => {}
        }
        self.elements.push_back(value.to_vec());
        0
    }

    fn next_element(&self) -> Option<&Vec<u8>> {
        if self.spec.kind == MapKind::Queue { self.elements.front() } else { self.elements.back() }
    }
}

/// A ring has no elements: flags that user space must not give are refused first.
/// A map of stacks that no program has put one into.
fn no_stacks(spec: &MapSpec, op: Op, key: &[u8], flags: u64) -> Answer {
    let id = u32::from_le_bytes(key.try_into().expect("4 bytes"));
    let status = match op {
        Op::Lookup | Op::LookupAndDelete if flags != 0 => EINVAL,
        Op::Update => EINVAL,
        Op::Delete if id >= spec.max_entries.next_power_of_two() => E2BIG,
        _ => ENOENT,
    };
    (status, None)
}

/// Slots for what the kernel knows by a descriptor; the value is none.
fn slots(spec: &MapSpec, op: Op, key: &[u8], flags: u64) -> Answer {
    let index = u32::from_le_bytes(key.try_into().expect("4 bytes"));
    let is_there = index < spec.max_entries;
    let status = match op {
        Op::Lookup | Op::LookupAndDelete | Op::Update if flags & 4 != 0 => EINVAL,
        Op::Lookup | Op::LookupAndDelete if flags != 0 => EINVAL,
        Op::Lookup if spec.kind == MapKind::ProgArray => ENOENT,
        Op::Lookup | Op::LookupAndDelete => ENOTSUPP,
        Op::Update if flags != 0 => EINVAL,
        Op::Update | Op::Delete if !is_there => E2BIG,
        Op::Update => EBADF,
        Op::Delete => ENOENT,
        Op::NextKey if index + 1 == spec.max_entries => ENOENT,
        Op::NextKey => {
            let next = if is_there { index + 1 } else { 0 };
            return (0, Some(next.to_le_bytes().to_vec()));
        }
        Op::Push | Op::Pop | Op::Peek => unreachable!("a map with keys"),
    };
    (status, None)
}

fn ring(op: Op, flags: u64) -> Answer {
    match op {
        Op::Lookup | Op::LookupAndDelete if flags != 0 => (EINVAL, None),
        Op::Update if flags & 4 != 0 => (EINVAL, None),
        _ => (ENOTSUPP, None),
    }
}

#[test]
fn values_of_lanes_are_summed_and_zeroed() {
    for kind in [MapKind::PerCpuArray, MapKind::PerCpuHash, MapKind::LruPerCpuHash] {
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
