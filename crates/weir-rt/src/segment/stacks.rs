//! The stacks of a STACK_TRACE map, as the controller reads and deletes them. Writers are in `c/unwind.c`, which
//! describes a bucket.
//!
//! A stack is copied between two looks at its bucket's state; one that changes meanwhile, or is being written, is not
//! there yet.

use std::sync::atomic::{AtomicU64, Ordering, fence};

use super::{MapError, MapLayout, Segment};
use crate::abi::{STACK_HEADER_BYTES, stack};

#[derive(Clone, Copy, Debug)]
pub(super) struct Stacks<'a> {
    segment: &'a Segment,
    map: &'a MapLayout,
}

impl<'a> Stacks<'a> {
    pub(super) fn of(segment: &'a Segment, map: &'a MapLayout) -> Self {
        Stacks { segment, map }
    }

    /// The addresses of stack `id`, innermost first, with zeros behind the last one.
    pub(super) fn get(&self, id: u32) -> Option<Vec<u8>> {
        let state = self.word(id, 0)?;
        let before = state.load(Ordering::Acquire);
        if before & stack::STATE != stack::FULL {
            return None;
        }
        let words = self.map.spec.value_bytes / 8;
        // What a target wrote over it is no more than a stack has room for.
        let count = ((self.word(id, 8)?.load(Ordering::Relaxed) >> 32) as u32).min(words);
        let mut value = Vec::with_capacity(self.map.spec.value_bytes as usize);
        for n in 0..words {
            let at = u64::from(STACK_HEADER_BYTES) + 8 * u64::from(n);
            let address = if n < count { self.word(id, at)?.load(Ordering::Relaxed) } else { 0 };
            value.extend_from_slice(&address.to_le_bytes());
        }
        fence(Ordering::Acquire);
        (state.load(Ordering::Relaxed) == before).then_some(value)
    }

    /// Empties the bucket.
    pub(super) fn delete(&self, id: u32) -> Result<(), MapError> {
        let state = self.word(id, 0).ok_or(MapError::TooBig)?;
        let before = state.load(Ordering::Acquire);
        if before & stack::STATE != stack::FULL {
            return Err(MapError::NotFound);
        }
        let after = (before & !stack::STATE).wrapping_add(stack::VERSION) | stack::EMPTY;
        match state.compare_exchange(before, after, Ordering::AcqRel, Ordering::Relaxed) {
            Ok(_) => Ok(()),
            Err(_) => Err(MapError::Busy),
        }
    }

    /// The first stack at `id` or behind it.
    pub(super) fn next(&self, id: u32) -> Option<u32> {
        (id..self.map.buckets).find(|id| {
            self.word(*id, 0).is_some_and(|state| state.load(Ordering::Acquire) & stack::STATE == stack::FULL)
        })
    }

    pub(super) fn has(&self, id: u32) -> bool {
        id < self.map.buckets && self.next(id) == Some(id)
    }

    /// A word of a bucket; none for a bucket that is not there.
    fn word(&self, id: u32, at: u64) -> Option<&'a AtomicU64> {
        (id < self.map.buckets).then(|| {
            let bucket = self.map.data_offset + u64::from(id) * u64::from(self.map.elem_stride);
            self.segment.mapping().word(bucket + at)
        })
    }
}
