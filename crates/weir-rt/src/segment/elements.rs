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
use crate::limits::STACK_WALKS_MAX;

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
                values.extend(self.value(word, (at, word)));
            }
            if values.len() == self.map.buckets as usize {
                break;
            }
            let is_last = position & link::INDEX == u64::from(self.map.buckets) - 1;
            position = if is_last { lap.wrapping_add(link::LAP) } else { position + 1 };
        }
        values
    }

    /// A slot keeps its word when its element is popped, so what was read of it holds only while the top is the same.
    /// Where that changes before the walk is over, the walk begins again, and of all the longest counts.
    fn stack(&self) -> Vec<Vec<u8>> {
        let mut longest = Vec::new();
        for _ in 0..STACK_WALKS_MAX {
            let (values, is_whole) = self.stack_once();
            if is_whole {
                return values;
            }
            if values.len() > longest.len() {
                longest = values;
            }
        }
        longest
    }

    /// The newest elements, as many as were read before the top changed, and whether that was all.
    fn stack_once(&self) -> (Vec<Vec<u8>>, bool) {
        let top = self.map.offset + control::SPARE_OR_CONSUMER;
        let newest = self.word(top);
        let place = self.word(self.map.offset + control::TOP_PLACE);
        fence(Ordering::Acquire);
        // The two words must be of one moment.
        if self.word(top) != newest {
            return (Vec::new(), false);
        }
        let slots = u64::from(self.map.buckets);
        let elements = (place >> 32).min(slots);
        let mut slot = (place & 0xffff_ffff) % slots;
        let mut values = Vec::new();
        for depth in 0..elements {
            let word = if depth == 0 { newest } else { self.slot(slot).map_or(0, |at| self.word(at)) };
            let Some(value) = self.value(word, (top, newest)) else { break };
            values.push(value);
            slot = slot.checked_sub(1).unwrap_or(slots - 1);
        }
        // Where the top is still the same, no more is to be had of a stack that ends early: somebody spoiled it.
        (values, self.word(top) == newest)
    }

    /// The value of the node that `word` names, if the word at the guard's place is the same afterwards.
    fn value(&self, word: u64, guard: (u64, u64)) -> Option<Vec<u8>> {
        let node = (word & link::INDEX).checked_sub(1).filter(|node| *node < self.map.node_count.into())?;
        let offset = self.map.data_offset + node * u64::from(self.map.node_stride);
        let value = self.segment.mapping().copy(offset, self.map.spec.value_bytes as usize);
        fence(Ordering::Acquire);
        (self.word(guard.0) == guard.1).then_some(value)
    }

    /// Where the word of a slot is.
    fn slot(&self, index: u64) -> Option<u64> {
        (index < self.map.buckets.into()).then(|| self.map.buckets_offset + index * 8)
    }

    fn word(&self, offset: u64) -> u64 {
        self.segment.mapping().word(offset).load(Ordering::Acquire)
    }
}
