//! One map as the controller sees it: read, change, dump. Queues, stacks and Bloom filters have keys of no bytes: a
//! look-up peeks, an update pushes. What a Bloom filter holds cannot be listed.
//!
//! Arrays and sums over lanes are read here; hashes by the C half, which is also what a target runs. Values of
//! per-CPU maps are words, and a reader sees each word summed over lanes, wrapping.
//!
//! `clear` and `zero` of per-CPU values lose no count of a running target: the sum just read is subtracted from the
//! shared lane; no CPU's lane is ever stored to. Two narrow exceptions, both counted as `contended`: a hash key
//! deleted while it is zeroed, and a bucket that never held still long enough to be read.
//!
//! Where lanes are claimed ([`SegmentLayout::plan_claimable`](super::SegmentLayout::plan_claimable)), programs read
//! what they find in theirs, so values are stored there, in every lane, as the kernel does for bpf(2): a run that is
//! changing the same value at that moment may store over it, or over part of it. [`MapView::lookup_lanes`] and
//! [`MapView::update_lanes`] are the kernel's view of such maps: a value a lane, the CPUs' first.

use std::collections::HashSet;
use std::sync::atomic::{AtomicU64, Ordering};

use thiserror::Error;
use weir_ebpf::MapKind;

use super::stacks::Stacks;
use super::{MapLayout, Segment, elements, held, prefixes};
use crate::abi::{self, NODE_HEADER_BYTES, control};
use crate::limits::{MATCHES_MAX, SURPLUS_MAX, UNREADABLE_BUCKETS_MAX};
use crate::runtime::linked;

/// One map of a segment.
#[derive(Clone, Copy, Debug)]
pub struct MapView<'a> {
    segment: &'a Segment,
    index: usize,
}

/// Why the kernel's interface, and ours, refuses an update or a delete.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
#[non_exhaustive]
pub enum MapError {
    #[error("no such key, or no element (ENOENT)")]
    NotFound,
    #[error("the key exists (EEXIST)")]
    Exists,
    #[error("the map is full, or the index is out of bounds (E2BIG)")]
    TooBig,
    #[error("the map is full (ENOSPC)")]
    NoSpace,
    #[error("not possible for this map, or bad flags, or a key or value of the wrong size (EINVAL)")]
    Invalid,
    #[error("a descriptor of nothing that this map holds (EBADF)")]
    BadDescriptor,
    #[error("given up after too many conflicts (EBUSY)")]
    Busy,
    #[error("no room could be made for a new key (ENOMEM)")]
    NoMemory,
    #[error("the map is frozen, or its flags do not allow this (EPERM)")]
    NotPermitted,
    #[error("maps of this kind have no such operation (ENOTSUPP)")]
    NotSupported,
    #[error("maps of this kind have no such operation (EOPNOTSUPP)")]
    NoSuchOperation,
}

impl MapError {
    /// The kernel's number, positive.
    pub fn errno(self) -> i32 {
        match self {
            MapError::NotFound => 2,
            MapError::Exists => 17,
            MapError::TooBig => 7,
            MapError::NoSpace => 28,
            MapError::Invalid => 22,
            MapError::Busy => 16,
            MapError::NoMemory => 12,
            MapError::BadDescriptor => 9,
            MapError::NotPermitted => 1,
            MapError::NotSupported => 524,
            MapError::NoSuchOperation => 95,
        }
    }

    pub(super) fn from_status(status: i64) -> Result<(), MapError> {
        match status {
            0 => Ok(()),
            -2 => Err(MapError::NotFound),
            -17 => Err(MapError::Exists),
            -7 => Err(MapError::TooBig),
            -28 => Err(MapError::NoSpace),
            -16 => Err(MapError::Busy),
            -12 => Err(MapError::NoMemory),
            _ => Err(MapError::Invalid),
        }
    }
}

/// One entry of a hash bucket.
struct BucketEntry {
    node: u64,
    key: Vec<u8>,
    value: Vec<u8>,
}

impl<'a> MapView<'a> {
    pub(super) fn new(segment: &'a Segment, index: usize) -> Self {
        assert!(index < segment.layout().maps.len(), "no map {index}");
        MapView { segment, index }
    }

    pub fn layout(&self) -> &'a MapLayout {
        &self.segment.layout().maps[self.index]
    }

    /// The value of `key`, summed over lanes for per-CPU kinds; of a map that holds maps, the index of the one.
    pub fn lookup(&self, key: &[u8]) -> Option<Vec<u8>> {
        let map = self.layout();
        if key.len() != map.spec.key_bytes as usize {
            return None;
        }
        match map.spec.kind {
            MapKind::RingBuf
            | MapKind::BloomFilter
            | MapKind::PerfEventArray
            | MapKind::CgroupArray
            | MapKind::DevMap
            | MapKind::DevMapHash
            | MapKind::CpuMap
            | MapKind::XskMap
            | MapKind::SockMap
            | MapKind::SockHash => None,
            MapKind::ProgArray => {
                let program = self.program(u32::from_le_bytes(key.try_into().ok()?))?;
                Some(program.to_le_bytes().to_vec())
            }
            MapKind::StackTrace => {
                Stacks::of(self.segment, map).get(u32::from_le_bytes(key.try_into().ok()?))
            }
            MapKind::Queue | MapKind::Stack => self.taken(linked::map_peek).ok(),
            MapKind::Array | MapKind::PerCpuArray => {
                let index = u32::from_le_bytes(key.try_into().ok()?);
                (index < map.spec.max_entries).then(|| self.array_value(index))
            }
            MapKind::ArrayOfMaps => {
                let index = u32::from_le_bytes(key.try_into().ok()?);
                let word = (index < map.spec.max_entries).then(|| self.array_value(index))?;
                held::held(self.segment, &word)
            }
            MapKind::HashOfMaps => {
                let bucket = linked::hash_bucket(self.segment.descriptor(self.index), key);
                let entry = self.bucket(bucket).into_iter().find(|entry| entry.key == key)?;
                held::held(self.segment, &entry.value)
            }
            MapKind::LpmTrie => self.longest_match(key),
            MapKind::Hash | MapKind::PerCpuHash | MapKind::LruHash | MapKind::LruPerCpuHash => {
                let bucket = linked::hash_bucket(self.segment.descriptor(self.index), key);
                self.bucket(bucket).into_iter().find(|entry| entry.key == key).map(|entry| entry.value)
            }
        }
    }

    /// The number of the program in a slot of a `ProgArray`, as [`MapView::set_program`] put it there.
    pub fn program(&self, index: u32) -> Option<u32> {
        self.program_slot(index)?.load(Ordering::Acquire).checked_sub(1)?.try_into().ok()
    }

    /// Puts program number `program` (of those that are loaded together) into a slot of a `ProgArray`, or empties it.
    /// A slot holds a number, never an address: who runs programs looks it up in a table of his own.
    pub fn set_program(&self, index: u32, program: Option<u32>) -> Result<(), MapError> {
        let slot = self.program_slot(index).ok_or(MapError::TooBig)?;
        slot.store(program.map_or(0, |program| u64::from(program) + 1), Ordering::Release);
        Ok(())
    }

    /// 0, or a program's number and one.
    fn program_slot(&self, index: u32) -> Option<&'a AtomicU64> {
        let map = self.layout();
        let is_there = map.spec.kind == MapKind::ProgArray && index < map.spec.max_entries;
        let offset = map.data_offset + u64::from(index) * u64::from(map.elem_stride);
        is_there.then(|| self.segment.mapping().word(offset))
    }

    /// Takes the next element of a queue or stack out: the kernel's BPF_MAP_LOOKUP_AND_DELETE_ELEM.
    pub fn pop(&self) -> Result<Vec<u8>, MapError> {
        self.taken(linked::map_pop)
    }

    /// Whether a Bloom filter may hold `value`: never false for what was pushed.
    pub fn contains(&self, value: &[u8]) -> bool {
        let map = self.layout();
        let is_filter = map.spec.kind == MapKind::BloomFilter && value.len() == map.spec.value_bytes as usize;
        is_filter && linked::map_peek(self.segment.descriptor(self.index), &mut value.to_vec()) == 0
    }

    /// Every key and value; arrays by index, hashes sorted by key, LPM tries in the kernel's order, queues and stacks
    /// in the order of pops. At most `max_entries` of them, however the segment looks.
    pub fn entries(&self) -> Vec<(Vec<u8>, Vec<u8>)> {
        let map = self.layout();
        match map.spec.kind {
            MapKind::RingBuf
            | MapKind::BloomFilter
            | MapKind::PerfEventArray
            | MapKind::CgroupArray
            | MapKind::DevMap
            | MapKind::DevMapHash
            | MapKind::CpuMap
            | MapKind::XskMap
            | MapKind::SockMap
            | MapKind::SockHash => Vec::new(),
            MapKind::ProgArray => (0..map.spec.max_entries)
                .filter_map(|index| {
                    let program = self.program(index)?.to_le_bytes().to_vec();
                    Some((index.to_le_bytes().to_vec(), program))
                })
                .collect(),
            MapKind::StackTrace => {
                let stacks = Stacks::of(self.segment, map);
                let all =
                    (0..map.buckets).filter_map(|id| Some((id.to_le_bytes().to_vec(), stacks.get(id)?)));
                all.collect()
            }
            MapKind::Queue | MapKind::Stack => {
                elements::elements(self.segment, map).into_iter().map(|value| (Vec::new(), value)).collect()
            }
            MapKind::Array | MapKind::PerCpuArray => (0..map.spec.max_entries)
                .map(|index| (index.to_le_bytes().to_vec(), self.array_value(index)))
                .collect(),
            MapKind::ArrayOfMaps => (0..map.spec.max_entries)
                .filter_map(|index| {
                    let held = held::held(self.segment, &self.array_value(index))?;
                    Some((index.to_le_bytes().to_vec(), held))
                })
                .collect(),
            MapKind::HashOfMaps => {
                let entries = self.hash_entries().into_iter();
                let held = |entry: BucketEntry| Some((entry.key, held::held(self.segment, &entry.value)?));
                let mut entries: Vec<_> = entries.filter_map(held).collect();
                entries.sort();
                entries
            }
            MapKind::LpmTrie => {
                let entries = self.prefixes().into_iter();
                entries.map(|entry| (self.given_key(&entry), entry.value)).collect()
            }
            MapKind::Hash | MapKind::PerCpuHash | MapKind::LruHash | MapKind::LruPerCpuHash => {
                let mut entries: Vec<_> =
                    self.hash_entries().into_iter().map(|entry| (entry.key, entry.value)).collect();
                entries.sort();
                entries
            }
        }
    }

    /// As the kernel's BPF_MAP_UPDATE_ELEM. For per-CPU kinds the sum over lanes becomes `value`; see also
    /// [`MapView::update_lanes`].
    pub fn update(&self, key: &[u8], value: &[u8], flags: u64) -> Result<(), MapError> {
        let spec = &self.layout().spec;
        if key.len() != spec.key_bytes as usize || value.len() != spec.value_bytes as usize {
            return Err(MapError::Invalid);
        }
        if spec.kind.holds_maps() {
            return held::hold(self.segment, self.index, key, value, flags);
        }
        if spec.kind.is_queue() || spec.kind == MapKind::BloomFilter {
            let status = linked::map_push(self.segment.descriptor(self.index), value, flags);
            return MapError::from_status(status);
        }
        if !spec.kind.is_per_cpu() {
            return MapError::from_status(linked::map_update(
                self.segment.descriptor(self.index),
                key,
                value,
                flags,
            ));
        }
        if self.layout().claim_lanes > 0 {
            return self.update_lanes(key, &[value.to_vec()], flags);
        }
        self.update_per_cpu(key, value, flags)
    }

    /// The values of `key` in each claimable lane; those of CPUs come first. `None` where lanes are not claimed.
    pub fn lookup_lanes(&self, key: &[u8]) -> Option<Vec<Vec<u8>>> {
        let map = self.layout();
        if map.claim_lanes == 0 || key.len() != map.spec.key_bytes as usize {
            return None;
        }
        let words = if map.spec.kind.is_array() {
            let index = u32::from_le_bytes(key.try_into().ok()?);
            (index < map.spec.max_entries).then(|| self.array_lanes(index))?
        } else {
            let bucket = linked::hash_bucket(self.segment.descriptor(self.index), key);
            let entries = self.try_bucket_words(bucket, map.lanes as usize)?;
            let key_words = (map.key_stride / 8) as usize;
            let entry =
                entries.iter().find(|entry| bytes(&entry[1..1 + key_words], map.spec.key_bytes) == key);
            entry?[1 + key_words..].to_vec()
        };
        let values = words.chunks_exact(map.value_words() as usize).take(map.claim_lanes as usize);
        Some(values.map(|value| bytes(value, map.spec.value_bytes)).collect())
    }

    /// As the kernel's BPF_MAP_UPDATE_ELEM of a per-CPU map: `values` become those of the first lanes, the CPUs' first;
    /// the lanes behind them become zero.
    pub fn update_lanes(&self, key: &[u8], values: &[Vec<u8>], flags: u64) -> Result<(), MapError> {
        let map = self.layout();
        let fits = key.len() == map.spec.key_bytes as usize
            && values.len() <= map.claim_lanes as usize
            && values.iter().all(|value| value.len() == map.spec.value_bytes as usize);
        if map.claim_lanes == 0 || !fits {
            return Err(MapError::Invalid);
        }
        let stride = map.value_words() as usize * 8;
        let mut all = vec![0; stride * map.lanes as usize];
        for (lane, value) in all.chunks_exact_mut(stride).zip(values) {
            lane[..value.len()].copy_from_slice(value);
        }
        MapError::from_status(linked::map_update_lanes(self.segment.descriptor(self.index), key, &all, flags))
    }

    pub fn delete(&self, key: &[u8]) -> Result<(), MapError> {
        if let (MapKind::StackTrace, Ok(id)) = (self.layout().spec.kind, key.try_into()) {
            return Stacks::of(self.segment, self.layout()).delete(u32::from_le_bytes(id));
        }
        if key.len() != self.layout().spec.key_bytes as usize {
            return Err(MapError::Invalid);
        }
        if self.layout().spec.kind == MapKind::ArrayOfMaps {
            return held::empty(self.segment, self.layout(), key);
        }
        MapError::from_status(linked::map_delete(self.segment.descriptor(self.index), key))
    }

    /// Deletes every key of a hash and every stack, empties every slot for a map, takes every element of a queue or
    /// stack out, empties a Bloom filter; zeroes an array.
    pub fn clear(&self) {
        match self.layout().spec.kind {
            MapKind::Hash
            | MapKind::PerCpuHash
            | MapKind::LruHash
            | MapKind::LruPerCpuHash
            | MapKind::LpmTrie
            | MapKind::HashOfMaps => {
                for entry in self.hash_entries() {
                    // Someone else may have deleted it: that is what was asked for.
                    let _ = self.delete(&entry.key);
                }
            }
            MapKind::ArrayOfMaps => {
                for index in 0..self.layout().spec.max_entries {
                    // An empty slot is what was asked for.
                    let _ = self.delete(&index.to_le_bytes());
                }
            }
            MapKind::StackTrace => {
                let stacks = Stacks::of(self.segment, self.layout());
                for id in 0..self.layout().buckets {
                    // Someone else may have deleted it, or be writing it.
                    let _ = stacks.delete(id);
                }
            }
            MapKind::Queue | MapKind::Stack => {
                // Not until it is empty: someone else may go on pushing.
                (0..self.layout().spec.max_entries).take_while(|_| self.pop().is_ok()).for_each(drop);
            }
            MapKind::BloomFilter => {
                let map = self.layout();
                for at in (0..u64::from(map.buckets) / 8).step_by(8) {
                    self.segment.mapping().word(map.data_offset + at).store(0, Ordering::Relaxed);
                }
            }
            _ => self.zero(),
        }
    }

    /// Sets every value to zero; keys stay. Nothing for kinds without keys, whose elements are not changed in place.
    pub fn zero(&self) {
        let map = self.layout();
        match map.spec.kind {
            kind if !kind.has_values_in_place() => {}
            MapKind::Array => {
                for index in 0..map.spec.max_entries {
                    self.each_word(index.into(), |view, at| {
                        view.segment.mapping().word(at).store(0, Ordering::Relaxed);
                    });
                }
            }
            MapKind::PerCpuArray => {
                (0..map.spec.max_entries).for_each(|index| self.subtract_sums(index.into()))
            }
            MapKind::PerCpuHash | MapKind::LruPerCpuHash => self.zero_per_cpu_hash(),
            _ => {
                let zeros = vec![0; map.spec.value_bytes as usize];
                for entry in self.hash_entries() {
                    let is_trie = map.spec.kind == MapKind::LpmTrie;
                    let key = if is_trie { self.given_key(&entry) } else { entry.key };
                    let _ = self.update(&key, &zeros, 2);
                }
            }
        }
    }

    /// What a helper writes to memory of the value's size.
    fn taken(&self, helper: impl Fn(&abi::Descriptor, &mut [u8]) -> i64) -> Result<Vec<u8>, MapError> {
        let mut value = vec![0; self.layout().spec.value_bytes as usize];
        MapError::from_status(helper(self.segment.descriptor(self.index), &mut value))?;
        Ok(value)
    }

    fn update_per_cpu(&self, key: &[u8], value: &[u8], flags: u64) -> Result<(), MapError> {
        let descriptor = self.segment.descriptor(self.index);
        let map = self.layout();
        if map.spec.kind.is_hash() {
            // A new key starts with `value` in the shared lane and zeros elsewhere.
            match MapError::from_status(linked::map_update(descriptor, key, value, flags.max(1))) {
                Err(MapError::Exists) if flags == 0 => {}
                Ok(()) if flags == 2 => {}
                done => return done,
            }
        } else {
            MapError::from_status(linked::map_update(descriptor, key, value, flags))?;
        }
        let Some(now) = self.lookup(key) else { return Err(MapError::NotFound) };
        let Some(at) = linked::map_lookup(descriptor, key) else { return Err(MapError::NotFound) };
        let shared = at - self.segment.base() + u64::from(map.shared_lane()) * map.lane_stride;
        for (n, (now, wanted)) in now.chunks(8).zip(value.chunks(8)).enumerate() {
            let change = word(wanted).wrapping_sub(word(now));
            self.segment.mapping().word(shared + n as u64 * 8).fetch_add(change, Ordering::Relaxed);
        }
        Ok(())
    }

    fn zero_per_cpu_hash(&self) {
        for entry in self.hash_entries() {
            self.subtract_sums(entry.node);
            let bucket = linked::hash_bucket(self.segment.descriptor(self.index), &entry.key);
            let is_same =
                self.bucket(bucket).iter().any(|now| now.node == entry.node && now.key == entry.key);
            if !is_same {
                let counter = self.layout().offset + control::CONTENDED;
                self.segment.mapping().word(counter).fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    /// Makes each word of an element's sum zero by what the shared lane holds; where lanes are claimed, in each.
    fn subtract_sums(&self, element: u64) {
        let map = self.layout();
        if map.claim_lanes > 0 {
            return self.each_word(element, |view, at| {
                for lane in 0..u64::from(map.lanes) {
                    view.segment.mapping().word(at + lane * map.lane_stride).store(0, Ordering::Relaxed);
                }
            });
        }
        let shared = u64::from(map.shared_lane()) * map.lane_stride;
        self.each_word(element, |view, at| {
            let sum = view.sum(at);
            view.segment.mapping().word(at + shared).fetch_sub(sum, Ordering::Relaxed);
        });
    }

    fn each_word(&self, element: u64, mut change: impl FnMut(&Self, u64)) {
        let map = self.layout();
        let at = map.data_offset + element * u64::from(map.elem_stride);
        for n in 0..u64::from(map.value_words()) {
            change(self, at + n * 8);
        }
    }

    fn array_value(&self, index: u32) -> Vec<u8> {
        let mut value = Vec::with_capacity(self.layout().elem_stride as usize);
        self.each_word(index.into(), |view, at| value.extend_from_slice(&view.sum(at).to_le_bytes()));
        value.truncate(self.layout().spec.value_bytes as usize);
        value
    }

    /// The words of an element in each lane, one lane after the other.
    fn array_lanes(&self, index: u32) -> Vec<u64> {
        let map = self.layout();
        let mut words = Vec::new();
        for lane in 0..u64::from(map.lanes) {
            self.each_word(index.into(), |view, at| {
                let word = view.segment.mapping().word(at + lane * map.lane_stride);
                words.push(word.load(Ordering::Relaxed));
            });
        }
        words
    }

    /// The word at `at` in lane 0, summed over lanes.
    fn sum(&self, at: u64) -> u64 {
        let map = self.layout();
        (0..u64::from(map.lanes)).fold(0, |sum: u64, lane| {
            sum.wrapping_add(self.segment.mapping().word(at + lane * map.lane_stride).load(Ordering::Relaxed))
        })
    }

    fn hash_entries(&self) -> Vec<BucketEntry> {
        let map = self.layout();
        let mut seen = HashSet::new();
        let mut entries: Vec<BucketEntry> = Vec::new();
        let (mut surplus, mut unreadable) = (0, 0);
        for bucket in 0..map.buckets {
            let Some(found) = self.try_bucket(bucket) else {
                unreadable += 1;
                continue;
            };
            for entry in found {
                // A sound map has each key once, and no more keys than this.
                if entries.len() < map.spec.max_entries as usize && seen.insert(entry.key.clone()) {
                    entries.push(entry);
                } else {
                    surplus += 1;
                }
            }
            if surplus > SURPLUS_MAX || unreadable > UNREADABLE_BUCKETS_MAX {
                break;
            }
        }
        entries
    }

    /// The value of the longest prefix that `key` extends.
    fn longest_match(&self, key: &[u8]) -> Option<Vec<u8>> {
        let descriptor = self.segment.descriptor(self.index);
        // A prefix that is deleted between the two steps: then there may be a shorter one.
        for _ in 0..MATCHES_MAX {
            let prefix = linked::lpm_match(descriptor, key)?;
            let bucket = linked::hash_bucket(descriptor, &prefix);
            if let Some(entry) = self.bucket(bucket).into_iter().find(|entry| entry.key == prefix) {
                return Some(entry.value);
            }
        }
        None
    }

    /// An LPM trie's entries, in the kernel's order.
    fn prefixes(&self) -> Vec<BucketEntry> {
        let mut entries = self.hash_entries();
        entries.sort_by(|left, right| prefixes::order(&left.key, &right.key));
        entries
    }

    /// The key with which a prefix was last updated: it may have had bits behind its length. Where the node has got
    /// another key meanwhile, the prefix itself.
    fn given_key(&self, entry: &BucketEntry) -> Vec<u8> {
        let map = self.layout();
        let keys = map.nodes_offset + entry.node * u64::from(map.node_stride) + u64::from(NODE_HEADER_BYTES);
        let is_node = entry.node < map.node_count.into();
        let given = is_node.then(|| {
            self.segment.mapping().copy(keys + u64::from(map.key_stride), map.spec.key_bytes as usize)
        });
        given.filter(|given| prefixes::is_of(&entry.key, given)).unwrap_or_else(|| entry.key.clone())
    }

    /// The key behind `key` in the kernel's order, or the first one if it is not there. Each asks for all prefixes:
    /// [`MapView::entries`] has them at once.
    pub(super) fn next_prefix(&self, key: Option<&[u8]>) -> Option<Vec<u8>> {
        let entries = self.prefixes();
        let prefix = key.and_then(|key| linked::lpm_prefix(self.segment.descriptor(self.index), key));
        let known = prefix.and_then(|prefix| entries.iter().position(|entry| entry.key == prefix));
        let next = entries.get(known.map_or(0, |known| known + 1))?;
        Some(self.given_key(next))
    }

    /// The key behind `key` in the order of buckets and chains, or the first one if it is not there.
    pub(super) fn next_hash_key(&self, key: Option<&[u8]>) -> Option<Vec<u8>> {
        let mut unreadable = 0;
        let mut first_from = |bucket: u32| {
            (bucket..self.layout().buckets).find_map(|bucket| {
                if unreadable > UNREADABLE_BUCKETS_MAX {
                    return None;
                }
                let found = self.try_bucket(bucket);
                unreadable += u32::from(found.is_none());
                found?.into_iter().next().map(|entry| entry.key)
            })
        };
        let Some(key) = key else { return first_from(0) };
        let bucket = linked::hash_bucket(self.segment.descriptor(self.index), key);
        let mut chain = self.bucket(bucket).into_iter().skip_while(|entry| entry.key != key);
        match (chain.next(), chain.next()) {
            (None, _) => first_from(0),
            (Some(_), Some(next)) => Some(next.key),
            (Some(_), None) => first_from(bucket + 1),
        }
    }

    fn bucket(&self, bucket: u32) -> Vec<BucketEntry> {
        self.try_bucket(bucket).unwrap_or_default()
    }

    fn try_bucket(&self, bucket: u32) -> Option<Vec<BucketEntry>> {
        let map = self.layout();
        let key_words = (map.key_stride / 8) as usize;
        let entries = self.try_bucket_words(bucket, 1)?.into_iter().map(|entry| BucketEntry {
            node: entry[0],
            key: bytes(&entry[1..1 + key_words], map.spec.key_bytes),
            value: bytes(&entry[1 + key_words..], map.spec.value_bytes),
        });
        Some(entries.collect())
    }

    /// Each entry's node, words of the key, and of `values` values: the sum over lanes, or all lanes.
    fn try_bucket_words(&self, bucket: u32, values: usize) -> Option<Vec<Vec<u64>>> {
        let map = self.layout();
        let entry_words = 1 + (map.key_stride / 8) as usize + map.value_words() as usize * values;
        let words = linked::hash_dump(self.segment.descriptor(self.index), bucket, entry_words, values > 1)?;
        Some(words.chunks_exact(entry_words).map(<[u64]>::to_vec).collect())
    }
}

fn bytes(words: &[u64], len: u32) -> Vec<u8> {
    let mut bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    bytes.truncate(len as usize);
    bytes
}

/// Up to 8 bytes as a word.
fn word(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte))
}
