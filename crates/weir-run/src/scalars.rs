//! What the maps of a script hold, and what `clear(@)` and `zero(@)` do to them.
//!
//! In: the maps of a run, their schemas. Out: their entries, as a report takes them. A map without keys has one value, which is always
//! there and begins as zeros; so it is noted here which of them were cleared, or set to 0 while they had a value.

use std::collections::BTreeMap;

use weir_event::{MapSchema, MapValue};
use weir_report::Entry;

use crate::store::Store;

/// Those without keys whose values do not say it, by their maps.
#[derive(Debug, Default)]
pub(crate) struct Scalars(BTreeMap<u32, Emptied>);

/// What was done last to a map whose values are zeros.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Emptied {
    /// It is as if it had never been set.
    Cleared,
    /// It was set.
    Zeroed,
}

impl Scalars {
    pub(crate) fn clear(&mut self, maps: &dyn Store, map: &MapSchema) {
        maps.clear(map.map_index);
        if map.key.is_none() {
            self.0.insert(map.map_index, Emptied::Cleared);
        }
    }

    /// Sets the values to 0. A plain scalar has a word that says that it is set, and keeps it.
    pub(crate) fn zero(&mut self, maps: &dyn Store, map: &MapSchema) {
        if map.key.is_some() {
            return maps.zero(map.map_index);
        }
        let key = 0u32.to_le_bytes();
        if !matches!(map.value, MapValue::Plain(_)) {
            if self.entries(maps, map).iter().any(|entry| weir_report::is_set(map, entry)) {
                self.0.insert(map.map_index, Emptied::Zeroed);
            }
            return maps.zero(map.map_index);
        }
        let Some(mut value) = maps.lookup(map.map_index, &key) else { return };
        let assigned = value.len().saturating_sub(8);
        value[..assigned].fill(0);
        maps.set(map.map_index, &key, &value);
    }

    /// What a map holds now.
    pub(crate) fn entries(&self, maps: &dyn Store, map: &MapSchema) -> Vec<Entry> {
        if map.key.is_some() {
            return maps
                .entries(map.map_index)
                .into_iter()
                .map(|(key, value)| Entry::of(key, value))
                .collect();
        }
        let Some(value) = maps.lookup(map.map_index, &0u32.to_le_bytes()) else { return Vec::new() };
        let emptied = self.0.get(&map.map_index).filter(|_| value.iter().all(|byte| *byte == 0));
        match emptied {
            Some(Emptied::Cleared) => Vec::new(),
            emptied => vec![Entry { was_zeroed: emptied.is_some(), ..Entry::of(Vec::new(), value) }],
        }
    }
}
