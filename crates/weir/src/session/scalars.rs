//! What the maps of a script hold, and what `clear(@)` and `zero(@)` do to them.
//!
//! In: a segment, the schemas of its maps. Out: their entries, as a report takes them. A map without keys has one value, which is always
//! there and begins as zeros; so it is noted here which of them were cleared, or set to 0 while they had a value.

use std::collections::BTreeMap;

use weir_event::{MapSchema, MapValue};
use weir_rt::segment::Segment;

use weir_report::Entry;

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
    pub(crate) fn clear(&mut self, segment: &Segment, map: &MapSchema) {
        segment.map(map.map_index as usize).clear();
        if map.key.is_none() {
            self.0.insert(map.map_index, Emptied::Cleared);
        }
    }

    /// Sets the values to 0. A plain scalar has a word that says that it is set, and keeps it.
    pub(crate) fn zero(&mut self, segment: &Segment, map: &MapSchema) {
        let view = segment.map(map.map_index as usize);
        if map.key.is_some() {
            return view.zero();
        }
        let key = 0u32.to_le_bytes();
        if !matches!(map.value, MapValue::Plain(_)) {
            if self.entries(segment, map).iter().any(|entry| weir_report::is_set(map, entry)) {
                self.0.insert(map.map_index, Emptied::Zeroed);
            }
            return view.zero();
        }
        let Some(mut value) = view.lookup(&key) else { return };
        let assigned = value.len().saturating_sub(8);
        value[..assigned].fill(0);
        // An entry of an array is always there.
        let _ = view.update(&key, &value, 0);
    }

    /// What a map holds now.
    pub(crate) fn entries(&self, segment: &Segment, map: &MapSchema) -> Vec<Entry> {
        let view = segment.map(map.map_index as usize);
        if map.key.is_some() {
            return view.entries().into_iter().map(|(key, value)| Entry::of(key, value)).collect();
        }
        let Some(value) = view.lookup(&0u32.to_le_bytes()) else { return Vec::new() };
        let emptied = self.0.get(&map.map_index).filter(|_| value.iter().all(|byte| *byte == 0));
        match emptied {
            Some(Emptied::Cleared) => Vec::new(),
            emptied => vec![Entry { was_zeroed: emptied.is_some(), ..Entry::of(Vec::new(), value) }],
        }
    }
}
