//! The writing end of a ring: one thread at a time.
//!
//! Positions count bytes since the beginning and only grow; a record never goes over the end of the ring, and what remains there is
//! skipped. The writer keeps its own position and counters and only copies them to the segment ([`Writer::publish`]); of the
//! segment it reads the reader's position alone, once a burst and when room seems to be short.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::layout::{PAGE, ring};
use crate::limits::CAPTURED_BYTES_MAX;
use crate::mapping::Mapping;
use crate::record::{Meta, bytes_of, skip, words_of};
use crate::segment::Counters;

/// Words of a line of the cache.
const LINE_WORDS: usize = 8;

/// The writing end of a ring.
#[derive(Debug)]
pub struct Writer {
    mapping: Arc<Mapping>,
    /// The ring's first line, which the writer alone changes.
    line: *mut [AtomicU64; LINE_WORDS],
    page: u64,
    data: *mut u8,
    bytes: u64,
    head: u64,
    /// The reader's position when it was last looked at, or later.
    tail: u64,
    counters: Counters,
    dropped_since: u32,
}

// SAFETY: the pointers are into the mapping, which the writer holds and any thread may use.
unsafe impl Send for Writer {}

impl Writer {
    pub(crate) fn new(mapping: Arc<Mapping>, page: u64, bytes: u64) -> Writer {
        let data = mapping.at(page + PAGE, bytes);
        let line = mapping.at(page, size_of::<[AtomicU64; LINE_WORDS]>() as u64).cast();
        let counters = Counters::default();
        Writer { mapping, line, page, data, bytes, head: 0, tail: 0, counters, dropped_since: 0 }
    }

    /// Writes a packet of which `captured` are the bytes that are kept. False: there was no room, and it is counted as dropped.
    /// Nobody sees it before [`Writer::publish`].
    ///
    /// # Panics
    /// If more bytes than `limits::CAPTURED_BYTES_MAX` are to be kept.
    #[inline]
    pub fn write(&mut self, meta: &Meta, captured: &[u8]) -> bool {
        assert!(captured.len() <= CAPTURED_BYTES_MAX as usize, "{} bytes of a packet", captured.len());
        let needed = bytes_of(captured.len());
        let at = self.head & (self.bytes - 1);
        let to_the_end = self.bytes - at;
        let skipped = if needed > to_the_end { to_the_end } else { 0 };
        if skipped + needed > self.free() && !self.look_again(skipped + needed) {
            self.counters.dropped += 1;
            self.dropped_since = self.dropped_since.saturating_add(1);
            return false;
        }
        if skipped > 0 {
            // SAFETY: `at` is a multiple of 8 inside the ring, as every record's size is; nobody reads beyond the head.
            unsafe { self.data.add(at as usize).cast::<u64>().write(skip(skipped)) };
        }
        let at = if skipped > 0 { 0 } else { at };
        let words = words_of(meta, captured.len(), std::mem::take(&mut self.dropped_since));
        // SAFETY: the record ends inside the ring: it fits before its end, or begins at 0 and is shorter than the ring. It is
        // aligned, since all records are multiples of 8 bytes and the data begins with a page. Nobody reads beyond the head.
        unsafe {
            let record = self.data.add(at as usize);
            record.cast::<[u64; 5]>().write(words);
            std::ptr::copy_nonoverlapping(captured.as_ptr(), record.add(size_of_val(&words)), captured.len());
        }
        self.head = self.head.wrapping_add(skipped + needed);
        self.counters.written += 1;
        true
    }

    /// Makes what was written since the last time visible, and counts: `received` packets were looked at since, of which the filter
    /// did not keep `filtered`.
    #[inline]
    pub fn publish(&mut self, received: u64, filtered: u64) {
        self.counters.received += received;
        self.counters.filtered += filtered;
        // SAFETY: the words are in the mapping, as `new` has checked, and aligned, since a page begins with them; the mapping lives as
        // long as `self`, and is accessed by atomics alone.
        let line = unsafe { &*self.line };
        let put = |at: u64, word: u64| line[at as usize / 8].store(word, Ordering::Relaxed);
        put(ring::RECEIVED, self.counters.received);
        put(ring::FILTERED, self.counters.filtered);
        put(ring::WRITTEN, self.counters.written);
        put(ring::DROPPED, self.counters.dropped);
        line[ring::HEAD as usize / 8].store(self.head, Ordering::Release);
    }

    /// Counts packets that were received and not looked at: they are dropped ones. To be published.
    pub fn miss(&mut self, packets: u64) {
        self.counters.received += packets;
        self.counters.dropped += packets;
        let since = u64::from(self.dropped_since).saturating_add(packets);
        self.dropped_since = u32::try_from(since).unwrap_or(u32::MAX);
    }

    /// What became of its packets so far.
    pub fn counters(&self) -> Counters {
        self.counters
    }

    #[inline]
    fn free(&self) -> u64 {
        // Of a position that cannot be, there is no room.
        self.bytes.saturating_sub(self.head.wrapping_sub(self.tail))
    }

    /// There is room for so many bytes by what the reader says now.
    #[cold]
    fn look_again(&mut self, needed: u64) -> bool {
        self.tail = self.mapping.word(self.page + ring::TAIL).load(Ordering::Acquire);
        needed <= self.free()
    }
}
