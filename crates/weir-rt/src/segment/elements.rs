//! The elements of a queue or stack, read without taking them: for dumps.
//!
//! In: a map's layout and the shared memory (`c/queue.c` and `c/stack.c` describe the words). Out: values in the order
//! in which pops would answer them, at most `max_entries`. Each is whole and was there at some moment of the walk; one
//! that is popped meanwhile is left out.
//!
//! Deliberately not here: taking elements out, which is the C half's.

use std::sync::atomic::{Ordering, fence};

use weir_ebpf::MapKind;

use super::{MapLayout, Segment};
use crate::abi::{control, link};

/// Values, next one first.
pub(super) fn elements(segment: &Segment, map: &MapLayout) -> Vec<Vec<u8>> {
    let walk = Walk { segment, map };
    if map.spec.kind == MapKind::Queue { walk.queue() } else { walk.stack() }
}

struct Walk<'a> {
    segment: &'a Segment,
    map: &'a MapLayout,
}

impl Walk<'_> {
    fn queue(&self) -> Vec<Vec<u8>> {
        let mut values = Vec::new();
        let mut position = self.word(self.map.offset + control::SPARE_OR_CONSUMER);
        // The head may be behind by a few that were pushed over.
        for _ in 0..2 * u64::from(self.map.buckets) {
            let Some(at) = self.slot(position & (link::LAP - 1)) else { break };
            let word = self.word(at);
            let lap = position & !(link::LAP - 1);
            if word == lap {
                break;
            }
            if word & !link::INDEX == lap | link::FULL {
                values.extend(self.value(word, at));
            }
            if values.len() == self.map.buckets as usize {
                break;
            }
            let is_last = position & link::INDEX == u64::from(self.map.buckets) - 1;
            position = if is_last { lap.wrapping_add(link::LAP) } else { position + 1 };
        }
        values
    }

    fn stack(&self) -> Vec<Vec<u8>> {
        let top = self.map.offset + control::SPARE_OR_CONSUMER;
        let newest = self.word(top);
        let place = self.word(self.map.offset + control::TOP_PLACE);
        fence(Ordering::Acquire);
        let elements = (place >> 32).min(self.map.buckets.into());
        // The two words are not of one moment: then nothing is known of the slots.
        if elements == 0 || self.word(top) != newest {
            return Vec::new();
        }
        let mut values: Vec<_> = self.value(newest, top).into_iter().collect();
        let slots = u64::from(self.map.buckets);
        let mut slot = (place & 0xffff_ffff) % slots;
        for _ in 1..elements {
            slot = slot.checked_sub(1).unwrap_or(slots - 1);
            let Some(at) = self.slot(slot) else { break };
            values.extend(self.value(self.word(at), at));
        }
        values
    }

    /// The value of the node that `word` names, if the word at `at` is the same afterwards.
    fn value(&self, word: u64, at: u64) -> Option<Vec<u8>> {
        let node = (word & link::INDEX).checked_sub(1).filter(|node| *node < self.map.node_count.into())?;
        let offset = self.map.data_offset + node * u64::from(self.map.node_stride);
        let value = self.segment.mapping().copy(offset, self.map.spec.value_bytes as usize);
        fence(Ordering::Acquire);
        (self.word(at) == word).then_some(value)
    }

    /// Where the word of a slot is.
    fn slot(&self, index: u64) -> Option<u64> {
        (index < self.map.buckets.into()).then(|| self.map.buckets_offset + index * 8)
    }

    fn word(&self, offset: u64) -> u64 {
        self.segment.mapping().word(offset).load(Ordering::Acquire)
    }
}
