//! Maps that hold maps, as user space fills them: by the index of the map in the object, where bpf(2) takes a
//! descriptor and answers with an id.
//!
//! In the segment stands the index and one, or 0 for an empty slot. What a program gets of it is checked when it looks
//! it up (`c/map.c`).

use std::sync::atomic::Ordering;

use weir_ebpf::MapKind;

use super::{MapError, MapLayout, Segment};
use crate::runtime::linked;

/// The index of the map that `word` stands for; none for an empty slot, and for what is no map of the segment.
pub(super) fn held(segment: &Segment, word: &[u8]) -> Option<Vec<u8>> {
    let number = u32::from_le_bytes(word.get(..4)?.try_into().ok()?);
    let index = number.checked_sub(1).filter(|index| (*index as usize) < segment.layout().maps.len())?;
    Some(index.to_le_bytes().to_vec())
}

/// BPF_MAP_UPDATE_ELEM of a map that holds maps: `value` is a map's index.
pub(super) fn hold(
    segment: &Segment,
    index: usize,
    key: &[u8],
    value: &[u8],
    flags: u64,
) -> Result<(), MapError> {
    let map = &segment.layout().maps[index];
    let is_array = map.spec.kind == MapKind::ArrayOfMaps;
    if is_array && flags != 0 {
        return Err(MapError::Invalid);
    }
    if is_array && slot(map, key).is_none() {
        return Err(MapError::TooBig);
    }
    let number = value.try_into().map(u32::from_le_bytes).map_err(|_| MapError::Invalid)?;
    let maps = &segment.layout().maps;
    let Some(held) = maps.get(number as usize) else { return Err(MapError::BadDescriptor) };
    let like = map.spec.inner.and_then(|like| maps.get(like as usize));
    if like.is_none_or(|like| !held.spec.is_like(&like.spec)) {
        return Err(MapError::Invalid);
    }
    let word = (number + 1).to_le_bytes();
    MapError::from_status(linked::map_update(segment.descriptor(index), key, &word, flags))
}

/// Empties a slot of an array.
pub(super) fn empty(segment: &Segment, map: &MapLayout, key: &[u8]) -> Result<(), MapError> {
    let slot = slot(map, key).ok_or(MapError::TooBig)?;
    match segment.mapping().word(slot).swap(0, Ordering::AcqRel) {
        0 => Err(MapError::NotFound),
        _ => Ok(()),
    }
}

fn slot(map: &MapLayout, key: &[u8]) -> Option<u64> {
    let index = key.try_into().map(u32::from_le_bytes).ok()?;
    (index < map.spec.max_entries).then(|| map.data_offset + u64::from(index) * u64::from(map.elem_stride))
}
