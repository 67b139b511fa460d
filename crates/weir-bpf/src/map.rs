//! A map of an object, as its user sees it: what bpf(2) does on one, without the kernel.

use weir_ebpf::{MapKind, MapSpec};
use weir_rt::segment::{MapError, Segment};

use crate::error::Error;

/// See above. Programs that run meanwhile see each change whole.
#[derive(Clone, Copy, Debug)]
pub struct Map<'o> {
    pub(crate) segment: &'o Segment,
    pub(crate) index: usize,
    pub(crate) spec: &'o MapSpec,
}

impl<'o> Map<'o> {
    /// Its name, kind, sizes and flags.
    pub fn spec(&self) -> &'o MapSpec {
        self.spec
    }

    /// Its place among the maps of the object.
    pub fn index(&self) -> usize {
        self.index
    }

    /// The value of a key; of a per-CPU map, that of the first lane.
    ///
    /// # Errors
    /// [`MapError`], but for a key that is not there.
    pub fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        absent(self.lookup(key))
    }

    /// The same, where a key that is not there is an error (`BPF_MAP_LOOKUP_ELEM`).
    ///
    /// # Errors
    /// [`MapError`].
    pub fn lookup(&self, key: &[u8]) -> Result<Vec<u8>, Error> {
        Ok(self.segment.user_map(self.index).lookup(key, 0)?)
    }

    /// Sets the value of a key (`BPF_MAP_UPDATE_ELEM`). `flags`: 0 (`BPF_ANY`), 1 (`BPF_NOEXIST`), 2 (`BPF_EXIST`).
    ///
    /// # Errors
    /// [`MapError`].
    pub fn update(&self, key: &[u8], value: &[u8], flags: u64) -> Result<(), Error> {
        Ok(self.segment.user_map(self.index).update(key, value, flags)?)
    }

    /// Deletes a key (`BPF_MAP_DELETE_ELEM`).
    ///
    /// # Errors
    /// [`MapError`].
    pub fn delete(&self, key: &[u8]) -> Result<(), Error> {
        Ok(self.segment.user_map(self.index).delete(key)?)
    }

    /// The key after this one, or the first (`BPF_MAP_GET_NEXT_KEY`).
    ///
    /// # Errors
    /// [`MapError`]; `NotFound` after the last one.
    pub fn next_key(&self, key: Option<&[u8]>) -> Result<Vec<u8>, Error> {
        Ok(self.segment.user_map(self.index).next_key(key)?)
    }

    /// All keys, as they are found one after the other.
    pub fn keys(&self) -> impl Iterator<Item = Vec<u8>> + '_ {
        let first = self.next_key(None).ok();
        std::iter::successors(first, |key| self.next_key(Some(key)).ok())
    }

    /// Values that a key has: one, or, in a per-CPU map, one for each lane.
    pub fn lanes(&self) -> usize {
        self.segment.layout().maps[self.index].claim_lanes.max(1) as usize
    }

    /// All values of a key of a per-CPU map.
    ///
    /// # Errors
    /// [`MapError`].
    pub fn lookup_lanes(&self, key: &[u8]) -> Result<Vec<Vec<u8>>, Error> {
        Ok(self.segment.user_map(self.index).lookup_lanes(key, 0)?)
    }

    /// Sets the first of them.
    ///
    /// # Errors
    /// [`MapError`].
    pub fn update_lanes(&self, key: &[u8], values: &[Vec<u8>], flags: u64) -> Result<(), Error> {
        Ok(self.segment.user_map(self.index).update_lanes(key, values, flags)?)
    }

    /// Takes the oldest record out of a ring; none if there is none.
    ///
    /// # Errors
    /// [`Error::NoRing`]; [`Error::Overwrites`].
    pub fn next_record(&self) -> Result<Option<Vec<u8>>, Error> {
        let name = &self.spec.name;
        if self.spec.kind != MapKind::RingBuf {
            return Err(Error::NoRing(name.clone()));
        }
        if self.spec.overwrites() {
            return Err(Error::Overwrites(name.clone()));
        }
        Ok(self.segment.ring(self.index).next().map(|record| record.bytes))
    }
}

/// A key that is not there has no value.
fn absent<T>(found: Result<T, Error>) -> Result<Option<T>, Error> {
    match found {
        Ok(value) => Ok(Some(value)),
        Err(Error::Map(MapError::NotFound)) => Ok(None),
        Err(error) => Err(error),
    }
}
