//! The maps of a run that has some in the segment and some in the kernel, as one [`Store`].
//!
//! In: the two, and on which side each map of the script is. Out: what either holds or, of a map that both sides add to, the sum. Maps that are not the
//! script's (stacks) are those of the side that was asked about last ([`Both::is_of`]): a stack's number means something there alone.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::fmt;
use std::rc::Rc;

use weir_event::{MapSchema, MapValue};
use weir_ir::sides::Side;

use crate::in_kernel::InKernel;
use crate::store::Store;

/// The kernel's maps of a run that has others as well.
#[derive(Clone, Debug)]
pub(crate) struct KernelMaps {
    pub(crate) maps: Rc<InKernel>,
    /// By the numbers of the script's maps.
    pub(crate) sides: Rc<[Side]>,
    /// Where programs count their runs, which is so on both sides.
    pub(crate) hits: Option<u32>,
}

impl KernelMaps {
    /// With those of the other side.
    pub(crate) fn beside<'a>(&'a self, segment: &'a dyn Store, schemas: &'a [MapSchema]) -> Both<'a> {
        Both { segment, in_kernel: self, schemas, side: Cell::new(Side::Processes) }
    }
}

/// The maps of both sides.
pub(crate) struct Both<'a> {
    segment: &'a dyn Store,
    in_kernel: &'a KernelMaps,
    schemas: &'a [MapSchema],
    /// Whose are maps that are not the script's, such as stacks.
    side: Cell<Side>,
}

impl fmt::Debug for Both<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Both").field("in_kernel", &self.in_kernel).finish_non_exhaustive()
    }
}

impl Both<'_> {
    /// From now on it is about what comes from there.
    pub(crate) fn is_of(&self, side: Side) {
        self.side.set(side);
    }

    /// The same about what a map of the script holds.
    pub(crate) fn is_of_map(&self, map: u32) {
        self.side.set(self.in_kernel.sides.get(map as usize).copied().unwrap_or(Side::Processes));
    }

    fn side(&self, map: u32) -> Side {
        match self.in_kernel.sides.get(map as usize) {
            Some(side) => *side,
            None if self.in_kernel.hits == Some(map) => Side::Both,
            None => self.side.get(),
        }
    }

    /// Who has the map.
    fn stores(&self, map: u32) -> impl Iterator<Item = &dyn Store> {
        let side = self.side(map);
        let in_kernel = || &*self.in_kernel.maps as &dyn Store;
        let segment = (side != Side::Kernel).then_some(self.segment);
        segment.into_iter().chain(matches!(side, Side::Kernel | Side::Both).then(in_kernel))
    }

    fn merge(&self, map: u32, into: &mut Vec<u8>, other: &[u8]) {
        let value = self.schemas.iter().find(|schema| schema.map_index == map).map(|schema| &schema.value);
        // Of these the first word is the largest that was seen, however it is written.
        let is_extreme = matches!(value, Some(MapValue::Min { .. } | MapValue::Max { .. }));
        add(into, other, is_extreme);
    }
}

/// Adds up two values of one key, word by word.
fn add(into: &mut Vec<u8>, other: &[u8], is_extreme: bool) {
    into.resize(into.len().max(other.len()), 0);
    for (at, (sum, more)) in into.chunks_exact_mut(8).zip(other.chunks_exact(8)).enumerate() {
        let [a, b] = [&*sum, more].map(|bytes| u64::from_le_bytes(bytes.try_into().unwrap_or_default()));
        let word = if is_extreme && at == 0 { a.max(b) } else { a.wrapping_add(b) };
        sum.copy_from_slice(&word.to_le_bytes());
    }
}

impl Store for Both<'_> {
    fn lookup(&self, map: u32, key: &[u8]) -> Option<Vec<u8>> {
        let values = self.stores(map).filter_map(|store| store.lookup(map, key));
        values.reduce(|mut value, other| {
            self.merge(map, &mut value, &other);
            value
        })
    }

    fn entries(&self, map: u32) -> Vec<(Vec<u8>, Vec<u8>)> {
        if self.side(map) != Side::Both {
            return self.stores(map).flat_map(|store| store.entries(map)).collect();
        }
        let mut all: BTreeMap<Vec<u8>, Vec<u8>> = BTreeMap::new();
        for (key, value) in self.stores(map).flat_map(|store| store.entries(map)) {
            self.merge(map, all.entry(key).or_default(), &value);
        }
        all.into_iter().collect()
    }

    fn set(&self, map: u32, key: &[u8], value: &[u8]) {
        self.stores(map).take(1).for_each(|store| store.set(map, key, value));
    }

    fn clear(&self, map: u32) {
        self.stores(map).for_each(|store| store.clear(map));
    }

    fn zero(&self, map: u32) {
        self.stores(map).for_each(|store| store.zero(map));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_both_sides_are_added_up_but_for_the_least_and_the_largest() {
        let bytes = |words: &[u64]| -> Vec<u8> { words.iter().flat_map(|word| word.to_le_bytes()).collect() };
        let check = |a: &[u64], b: &[u64], is_extreme: bool, wanted: &[u64]| {
            let mut sum = bytes(a);
            add(&mut sum, &bytes(b), is_extreme);
            assert_eq!(sum, bytes(wanted));
        };
        check(&[3], &[4], false, &[7]);
        check(&[u64::MAX, 1], &[2, 1], false, &[1, 2]);
        check(&[3, 2], &[4, 5], true, &[4, 7]);
        check(&[], &[4, 5], true, &[4, 5]);
    }
}
