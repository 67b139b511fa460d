//! The maps of one object, and what their owner does with them between runs.

use std::collections::HashMap;
use std::time::Instant;

use thiserror::Error;
use weir_ebpf::{MapKind, MapSpec};

use crate::limits::{PLAIN_BYTES_MAX, PLAIN_MAP_BYTES_MAX};

use super::store::{Content, E2BIG, EINVAL, Store, stride};

/// Maps of one object, each program of which may run on them.
#[derive(Debug)]
pub struct Maps {
    pub(super) stores: Vec<Store>,
    /// When the clock of programs began, and where their random numbers stand.
    pub(super) begin: Instant,
    pub(super) random: u64,
    pub(super) process: Process,
}

/// The process that programs are told they run in: who it is, in the numbers of Linux. Nothing is asked of the machine.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Process {
    /// Of the process.
    pub pid: u32,
    /// Of the thread.
    pub tid: u32,
    /// The user's.
    pub uid: u32,
    /// The group's.
    pub gid: u32,
    /// The thread's name, of which 15 bytes are told.
    pub comm: String,
}

/// Why there are no such maps.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[non_exhaustive]
pub enum MapsError {
    /// They would take too much memory.
    #[error(
        "the maps may come to take {bytes} bytes; the limit is {PLAIN_BYTES_MAX}, and {PLAIN_MAP_BYTES_MAX} for one"
    )]
    TooLarge {
        /// Of all values, where every map is full.
        bytes: u64,
    },
    /// A map of that kind is not to be had in plain memory.
    #[error("map {name} is a ring for each CPU, which plain memory has not")]
    RingPerCpu {
        /// The map's.
        name: String,
    },
}

/// An error number of Linux, as helpers answer it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
#[error("error {0}")]
pub struct Errno(pub u32);

impl Maps {
    /// Empty maps; arrays are zeros.
    pub fn new(specs: &[MapSpec]) -> Result<Maps, MapsError> {
        let sizes = specs.iter().map(bytes_max);
        let bytes = sizes.clone().fold(0u64, u64::saturating_add);
        if bytes > PLAIN_BYTES_MAX || sizes.max().is_some_and(|bytes| bytes > PLAIN_MAP_BYTES_MAX) {
            return Err(MapsError::TooLarge { bytes });
        }
        if let Some(spec) = specs.iter().find(|spec| spec.has_rings_per_cpu()) {
            return Err(MapsError::RingPerCpu { name: spec.name.clone() });
        }
        let stores = specs.iter().map(Store::new).collect();
        Ok(Maps { stores, begin: Instant::now(), random: 0x9e37_79b9_7f4a_7c15, process: Process::default() })
    }

    /// What random numbers of programs follow from: the same seed gives the same ones.
    pub fn seed(&mut self, seed: u64) {
        self.random = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    }

    /// Has programs run in such a process; without it all is 0.
    pub fn set_process(&mut self, process: Process) {
        self.process = process;
    }

    /// The definitions, in index order.
    pub fn specs(&self) -> impl Iterator<Item = &MapSpec> {
        self.stores.iter().map(|store| &store.spec)
    }

    /// The value of a key of map `map`.
    pub fn lookup(&mut self, map: usize, key: &[u8]) -> Option<Vec<u8>> {
        let store = self.stores.get_mut(map)?;
        let (at, bytes) = (store.lookup(key)?, store.spec.value_bytes as usize);
        Some(store.values()[at..at + bytes].to_vec())
    }

    /// Puts a value under a key; `flags` are those of the helper.
    pub fn update(&mut self, map: usize, key: &[u8], value: &[u8], flags: u64) -> Result<(), Errno> {
        let store = self.stores.get_mut(map).ok_or(Errno(EINVAL as u32))?;
        if (key.len(), value.len()) != (store.spec.key_bytes as usize, store.spec.value_bytes as usize) {
            return Err(Errno(EINVAL as u32));
        }
        answer(store.update(key, value, flags))
    }

    /// Takes a key out.
    pub fn delete(&mut self, map: usize, key: &[u8]) -> Result<(), Errno> {
        self.stores.get_mut(map).map_or(Err(Errno(EINVAL as u32)), |store| answer(store.delete(key)))
    }

    /// Keys and values, in no order; of an array in that of its indices.
    pub fn entries(&self, map: usize) -> Vec<(Vec<u8>, Vec<u8>)> {
        let Some(store) = self.stores.get(map) else { return Vec::new() };
        let (mut entries, mut place, bytes) = (Vec::new(), 0, store.spec.value_bytes as usize);
        while let Some((found, key, at)) = store.element_from(place) {
            entries.push((key, store.values()[at..at + bytes].to_vec()));
            place = found + 1;
        }
        entries
    }

    /// Puts an element into a queue, a stack or a Bloom filter.
    pub fn push(&mut self, map: usize, value: &[u8], flags: u64) -> Result<(), Errno> {
        match self.stores.get_mut(map) {
            Some(store) if store.spec.value_bytes as usize == value.len() => answer(store.push(value, flags)),
            _ => Err(Errno(EINVAL as u32)),
        }
    }

    /// Takes the next element out of a queue or a stack.
    pub fn pop(&mut self, map: usize) -> Option<Vec<u8>> {
        self.stores.get_mut(map)?.next(true)
    }

    /// The next record of a ring, which it takes out.
    pub fn next_record(&mut self, map: usize) -> Option<Vec<u8>> {
        self.stores.get_mut(map)?.ring()?.0.next()
    }

    /// Has a map that holds maps hold map `held` under a key.
    pub fn hold(&mut self, map: usize, key: &[u8], held: usize) -> Result<(), Errno> {
        let spec = &self.stores.get(map).ok_or(Errno(EINVAL as u32))?.spec;
        let like = spec.inner.and_then(|inner| self.stores.get(inner as usize));
        let fits = |like: &Store| self.stores.get(held).is_some_and(|held| held.spec.is_like(&like.spec));
        if !spec.kind.holds_maps() || !like.is_some_and(fits) {
            return Err(Errno(EINVAL as u32));
        }
        self.set_number(map, key, held as u32 + 1)
    }

    /// Has an array of programs lead to program `number` at an index.
    pub fn set_program(&mut self, map: usize, index: u32, number: u32) -> Result<(), Errno> {
        match self.stores.get(map) {
            Some(store) if store.spec.kind == MapKind::ProgArray => {
                self.set_number(map, &index.to_le_bytes(), number)
            }
            _ => Err(Errno(EINVAL as u32)),
        }
    }

    fn set_number(&mut self, map: usize, key: &[u8], number: u32) -> Result<(), Errno> {
        let store = &mut self.stores[map];
        let (kind, full) = (store.spec.kind, store.spec.max_entries);
        if key.len() != store.spec.key_bytes as usize {
            return Err(Errno(EINVAL as u32));
        }
        let is_outside = kind != MapKind::HashOfMaps
            && key.try_into().is_ok_and(|index| u32::from_le_bytes(index) >= full);
        let Content::Numbers(numbers) = &mut store.content else { return Err(Errno(EINVAL as u32)) };
        if is_outside || is_full(numbers, key, full) {
            return Err(Errno(E2BIG as u32));
        }
        numbers.insert(key.to_vec(), number);
        Ok(())
    }
}

/// What a map takes when it is full.
fn bytes_max(spec: &MapSpec) -> u64 {
    let entry = match spec.kind {
        MapKind::RingBuf | MapKind::BloomFilter => 8,
        _ => stride(spec) as u64 + u64::from(spec.key_bytes),
    };
    entry.saturating_mul(spec.max_entries.into())
}

fn is_full(numbers: &HashMap<Vec<u8>, u32>, key: &[u8], most: u32) -> bool {
    numbers.len() == most as usize && !numbers.contains_key(key)
}

fn answer(status: i64) -> Result<(), Errno> {
    if status == 0 { Ok(()) } else { Err(Errno(status.unsigned_abs() as u32)) }
}
