//! The reading end of a ring: one thread at a time.
//!
//! Bytes are taken out of the ring in one piece, and their room is given back before any of them is looked at: what is parsed is a
//! private copy. A length that cannot be ends the reading of the ring ([`Drained::is_corrupt`]): where the next record begins is not
//! known any more.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::layout::{PAGE, record, ring};
use crate::limits::{CAPTURED_BYTES_MAX, DRAINED_BYTES_MAX};
use crate::mapping::Mapping;
use crate::record::{First, Flags, Meta, bytes_of, word};

const RECORD_BYTES_MAX: u64 = bytes_of(CAPTURED_BYTES_MAX as usize);

/// The reading end of a ring.
#[derive(Debug)]
pub struct Reader {
    mapping: Arc<Mapping>,
    page: u64,
    bytes: u64,
    tail: u64,
    is_corrupt: bool,
}

/// Records taken out of a ring, not yet looked at: the oldest first.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Drained {
    bytes: Vec<u8>,
    at: usize,
    is_corrupt: bool,
}

/// One packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Packet<'a> {
    /// What is known of it.
    pub meta: Meta,
    /// Packets of this ring that were dropped since the one before.
    pub dropped: u32,
    /// Its bytes, as far as they were kept.
    pub bytes: &'a [u8],
}

impl Reader {
    pub(crate) fn new(mapping: Arc<Mapping>, page: u64, bytes: u64) -> Reader {
        Reader { mapping, page, bytes, tail: 0, is_corrupt: false }
    }

    /// Appends what is in the ring to `drained`, up to `limits::DRAINED_BYTES_MAX` bytes at once and the end of the ring. False:
    /// there was nothing.
    pub fn drain(&mut self, drained: &mut Drained) -> bool {
        let head = self.mapping.word(self.page + ring::HEAD).load(Ordering::Acquire);
        let available = head.wrapping_sub(self.tail);
        if self.is_corrupt || available == 0 {
            return false;
        }
        if available > self.bytes || !available.is_multiple_of(8) {
            (self.is_corrupt, drained.is_corrupt) = (true, true);
            return false;
        }
        drained.forget();
        let at = self.tail & (self.bytes - 1);
        // A record that ends after what is taken is completed by the next call: none goes over the end of the ring.
        let taken = available.min(self.bytes - at).min(DRAINED_BYTES_MAX);
        self.mapping.copy_out(self.page + PAGE + at, taken, &mut drained.bytes);
        self.tail = self.tail.wrapping_add(taken);
        self.mapping.word(self.page + ring::TAIL).store(self.tail, Ordering::Release);
        true
    }
}

impl Drained {
    /// Ticks of the oldest one.
    pub fn ticks(&mut self) -> Option<u64> {
        self.find()?;
        Some(word(&self.bytes, self.at + record::TICKS))
    }

    /// The oldest one.
    #[allow(clippy::should_implement_trait, reason = "packets are borrowed, and None does not end it")]
    pub fn next(&mut self) -> Option<Packet<'_>> {
        let (bytes, flags) = self.find()?;
        let at = self.at;
        let (lengths, hash) = (word(&self.bytes, at + record::LENGTHS), word(&self.bytes, at + record::HASH));
        let captured = (lengths & 0xffff_ffff) as usize;
        self.at += bytes;
        let meta = Meta {
            ticks: word(&self.bytes, at + record::TICKS),
            wire_bytes: (lengths >> 32) as u32,
            flags,
            hash: hash as u32,
            id: word(&self.bytes, at + record::ID),
        };
        let from = at + record::BYTES;
        Some(Packet { meta, dropped: (hash >> 32) as u32, bytes: &self.bytes[from..from + captured] })
    }

    /// Bytes that are left, of records that were not looked at.
    pub fn left(&self) -> usize {
        self.bytes.len() - self.at
    }

    /// The ring held what no writer writes. Packets before that were given.
    pub fn is_corrupt(&self) -> bool {
        self.is_corrupt
    }

    /// The size and the flags of the record that is next, at `at` then; it is whole, and its lengths agree.
    fn find(&mut self) -> Option<(usize, Flags)> {
        while !self.is_corrupt {
            let left = self.left();
            if left < 8 {
                return None;
            }
            match First::of(word(&self.bytes, self.at)) {
                First::Skip(bytes) if bytes >= 8 && bytes <= left as u64 && bytes.is_multiple_of(8) => {
                    self.at += bytes as usize;
                }
                // The rest of it comes with the next bytes.
                First::Skip(bytes) if bytes > left as u64 && bytes <= RECORD_BYTES_MAX => return None,
                First::Record { bytes, flags } => {
                    let is_size = bytes >= record::BYTES as u64 && bytes <= RECORD_BYTES_MAX;
                    if is_size && bytes > left as u64 {
                        return None;
                    }
                    if is_size && self.is_record(bytes as usize) {
                        return Some((bytes as usize, flags));
                    }
                    self.is_corrupt = true;
                }
                First::Skip(_) => self.is_corrupt = true,
            }
        }
        None
    }

    fn is_record(&self, bytes: usize) -> bool {
        let captured = word(&self.bytes, self.at + record::LENGTHS) & 0xffff_ffff;
        bytes.is_multiple_of(8) && captured <= (bytes - record::BYTES) as u64
    }

    /// Gives room back of what was looked at.
    fn forget(&mut self) {
        self.bytes.drain(..self.at);
        self.at = 0;
    }
}
