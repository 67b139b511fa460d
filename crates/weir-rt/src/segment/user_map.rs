//! One map as bpf(2) lets user space use it: the same operations with the same errors, flags and rights.
//!
//! In: keys, values and flags. Out: what BPF_MAP_{LOOKUP,UPDATE,DELETE,LOOKUP_AND_DELETE}_ELEM, GET_NEXT_KEY and FREEZE
//! answer. Flags of the definition are kept to: a map with BPF_F_RDONLY is not changed, one with BPF_F_WRONLY not read,
//! and a frozen one not changed either, by this interface. (What programs may do is for the verifier, and what the
//! controller does through [`MapView`] is its own affair.)
//!
//! Where it differs from the kernel's: maps are put into other maps, and found there, by their index in the object,
//! where the kernel takes a descriptor and answers with an id; the value of a per-CPU kind is one, each word summed
//! over lanes, not one for each CPU (but see [`UserMap::lookup_lanes`]); and an operation that others disturb too often
//! answers EBUSY.

use std::sync::atomic::Ordering;

use weir_ebpf::map::flag;
use weir_ebpf::{MapKind, MapSpec};

use super::stacks::Stacks;
use super::{MapError, MapView, Segment};
use crate::runtime::linked;

/// One map of a segment, for user space.
#[derive(Clone, Copy, Debug)]
pub struct UserMap<'a> {
    segment: &'a Segment,
    index: usize,
}

impl<'a> UserMap<'a> {
    pub(super) fn new(segment: &'a Segment, index: usize) -> Self {
        assert!(index < segment.layout().maps.len(), "no map {index}");
        UserMap { segment, index }
    }

    pub fn spec(&self) -> &'a MapSpec {
        &self.segment.layout().maps[self.index].spec
    }

    /// BPF_MAP_LOOKUP_ELEM. Of a queue or stack, the next element for a key of no bytes; a Bloom
    /// filter is asked by [`contains`](UserMap::contains).
    pub fn lookup(&self, key: &[u8], flags: u64) -> Result<Vec<u8>, MapError> {
        self.check_lookup(key, flags)?;
        if self.spec().kind == MapKind::BloomFilter {
            return Err(MapError::Invalid);
        }
        if self.has_slots() && self.spec().kind != MapKind::ProgArray {
            return Err(MapError::NotSupported);
        }
        self.view().lookup(key).ok_or(MapError::NotFound)
    }

    /// BPF_MAP_LOOKUP_ELEM of a Bloom filter, which reads the value: `NotFound` if it was not pushed.
    pub fn contains(&self, value: &[u8], flags: u64) -> Result<(), MapError> {
        self.check_lookup(&[], flags)?;
        let spec = self.spec();
        if spec.kind != MapKind::BloomFilter || value.len() != spec.value_bytes as usize {
            return Err(MapError::Invalid);
        }
        if self.view().contains(value) { Ok(()) } else { Err(MapError::NotFound) }
    }

    /// BPF_MAP_LOOKUP_ELEM of a per-CPU kind as the kernel has it: a value a lane, where lanes are claimed.
    pub fn lookup_lanes(&self, key: &[u8], flags: u64) -> Result<Vec<Vec<u8>>, MapError> {
        self.check_lookup(key, flags)?;
        self.check_lanes()?;
        self.view().lookup_lanes(key).ok_or(MapError::NotFound)
    }

    /// BPF_MAP_UPDATE_ELEM of such a map: the first values are given, the others become zero.
    pub fn update_lanes(&self, key: &[u8], values: &[Vec<u8>], flags: u64) -> Result<(), MapError> {
        self.check_write()?;
        self.check_lanes()?;
        self.view().update_lanes(key, values, flags)
    }

    /// BPF_MAP_UPDATE_ELEM. A queue, stack or Bloom filter gets one more element.
    pub fn update(&self, key: &[u8], value: &[u8], flags: u64) -> Result<(), MapError> {
        self.check_write()?;
        // No value has a lock in it that BPF_F_LOCK could take.
        if flags & LOCK != 0 {
            return Err(MapError::Invalid);
        }
        self.check_key(key)?;
        if self.spec().kind.redirects() {
            return Err(MapError::NotSupported);
        }
        if self.has_slots() {
            return self.fill_slot(key, flags);
        }
        self.view().update(key, value, flags)
    }

    /// BPF_MAP_DELETE_ELEM.
    pub fn delete(&self, key: &[u8]) -> Result<(), MapError> {
        self.check_write()?;
        self.check_key(key)?;
        if self.spec().kind == MapKind::BloomFilter {
            return Err(MapError::NoSuchOperation);
        }
        if self.spec().kind.redirects() {
            return Err(MapError::NotFound);
        }
        if self.has_slots() {
            return self.empty_slot(self.slot(key)?);
        }
        self.view().delete(key)
    }

    /// BPF_MAP_LOOKUP_AND_DELETE_ELEM: of a hash's key, the value with which it was deleted; of a queue or stack, the
    /// next element.
    pub fn lookup_and_delete(&self, key: &[u8], flags: u64) -> Result<Vec<u8>, MapError> {
        self.check_write()?;
        self.check_lookup(key, flags)?;
        let kind = self.spec().kind;
        if kind.is_array()
            || kind == MapKind::BloomFilter
            || kind == MapKind::LpmTrie
            || kind.holds_maps()
            || kind.redirects()
            || self.has_slots()
        {
            return Err(MapError::NotSupported);
        }
        if self.spec().kind == MapKind::StackTrace {
            let stack = self.view().lookup(key).ok_or(MapError::NotFound)?;
            return self.view().delete(key).map(|()| stack);
        }
        if self.spec().kind.is_queue() {
            return self.view().pop();
        }
        let mut value = vec![0; self.spec().value_bytes as usize];
        MapError::from_status(linked::hash_take(self.segment.descriptor(self.index), key, &mut value))?;
        Ok(value)
    }

    /// BPF_MAP_GET_NEXT_KEY: the key after `key` in an order that only holds while the map does; the first one for
    /// `None` and for a key that is not there; `NotFound` after the last one. An LPM trie's order is the kernel's:
    /// longer prefixes before those they extend.
    pub fn next_key(&self, key: Option<&[u8]>) -> Result<Vec<u8>, MapError> {
        self.check_read()?;
        let spec = self.spec();
        self.check_key(key.unwrap_or(&vec![0; spec.key_bytes as usize]))?;
        match spec.kind {
            MapKind::RingBuf => Err(MapError::NotSupported),
            MapKind::DevMap
            | MapKind::DevMapHash
            | MapKind::CpuMap
            | MapKind::XskMap
            | MapKind::SockMap
            | MapKind::SockHash => Err(MapError::NotFound),
            MapKind::Queue | MapKind::Stack => Err(MapError::Invalid),
            MapKind::BloomFilter => Err(MapError::NoSuchOperation),
            MapKind::LpmTrie => self.view().next_prefix(key).ok_or(MapError::NotFound),
            MapKind::StackTrace => {
                let stacks = self.stacks();
                let last = key.and_then(|key| key.try_into().ok()).map(u32::from_le_bytes);
                let from = last.filter(|last| stacks.has(*last)).map_or(0, |last| last + 1);
                stacks.next(from).map(|id| id.to_le_bytes().to_vec()).ok_or(MapError::NotFound)
            }
            MapKind::PerfEventArray | MapKind::CgroupArray | MapKind::ProgArray => {
                self.next_index(key, self.segment.layout().maps[self.index].slots())
            }
            MapKind::Array | MapKind::PerCpuArray | MapKind::ArrayOfMaps => {
                self.next_index(key, spec.max_entries)
            }
            MapKind::Hash
            | MapKind::PerCpuHash
            | MapKind::LruHash
            | MapKind::LruPerCpuHash
            | MapKind::HashOfMaps => self.view().next_hash_key(key).ok_or(MapError::NotFound),
        }
    }

    /// BPF_MAP_FREEZE: from now on this interface changes nothing in the map. Programs still may.
    pub fn freeze(&self) -> Result<(), MapError> {
        self.check_write()?;
        self.segment.frozen[self.index].store(true, Ordering::Release);
        Ok(())
    }

    fn next_index(&self, key: Option<&[u8]>, entries: u32) -> Result<Vec<u8>, MapError> {
        match key.and_then(|key| key.try_into().ok()).map(u32::from_le_bytes) {
            Some(last) if last == entries - 1 => Err(MapError::NotFound),
            Some(index) if index < entries => Ok((index + 1).to_le_bytes().to_vec()),
            _ => Ok(0u32.to_le_bytes().to_vec()),
        }
    }

    /// Its values are what the kernel knows by a descriptor: user space puts none in, and reads none.
    fn has_slots(&self) -> bool {
        matches!(self.spec().kind, MapKind::PerfEventArray | MapKind::CgroupArray | MapKind::ProgArray)
    }

    fn slot(&self, key: &[u8]) -> Result<u32, MapError> {
        let index = key.try_into().map(u32::from_le_bytes).ok();
        let slots = self.segment.layout().maps[self.index].slots();
        index.filter(|index| *index < slots).ok_or(MapError::TooBig)
    }

    /// Only programs are ever in slots.
    fn empty_slot(&self, index: u32) -> Result<(), MapError> {
        match self.view().program(index) {
            Some(_) => self.view().set_program(index, None),
            None => Err(MapError::NotFound),
        }
    }

    /// No descriptor is one of a perf event, a control group or a program here: programs are put in by
    /// [`MapView::set_program`].
    fn fill_slot(&self, key: &[u8], flags: u64) -> Result<(), MapError> {
        if flags != 0 {
            return Err(MapError::Invalid);
        }
        self.slot(key)?;
        Err(MapError::BadDescriptor)
    }

    fn stacks(&self) -> Stacks<'a> {
        Stacks::of(self.segment, &self.segment.layout().maps[self.index])
    }

    fn view(&self) -> MapView<'a> {
        self.segment.map(self.index)
    }

    fn check_lookup(&self, key: &[u8], flags: u64) -> Result<(), MapError> {
        self.check_read()?;
        if flags != 0 { Err(MapError::Invalid) } else { self.check_key(key) }
    }

    /// A ring's key has no bytes, and leads to nothing.
    fn check_key(&self, key: &[u8]) -> Result<(), MapError> {
        if key.len() != self.spec().key_bytes as usize {
            return Err(MapError::Invalid);
        }
        if self.spec().kind == MapKind::RingBuf { Err(MapError::NotSupported) } else { Ok(()) }
    }

    fn check_lanes(&self) -> Result<(), MapError> {
        let map = &self.segment.layout().maps[self.index];
        if map.claim_lanes > 0 { Ok(()) } else { Err(MapError::Invalid) }
    }

    fn check_read(&self) -> Result<(), MapError> {
        if self.spec().has(flag::WRONLY) { Err(MapError::NotPermitted) } else { Ok(()) }
    }

    fn check_write(&self) -> Result<(), MapError> {
        let is_frozen = self.segment.frozen[self.index].load(Ordering::Acquire);
        if is_frozen || self.spec().has(flag::RDONLY) { Err(MapError::NotPermitted) } else { Ok(()) }
    }
}

/// BPF_F_LOCK.
const LOCK: u64 = 4;
