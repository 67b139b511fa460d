//! Reads of hostile memory: words and names, so many and no more.

use std::cell::Cell;

use crate::limits::{NAME_BYTES_MAX, READS_MAX, TEXT_BYTES_MAX};

/// Memory, and how often it may still be read.
pub(crate) struct Memory<'a> {
    read: &'a dyn Fn(u64, &mut [u8]) -> bool,
    left: Cell<u64>,
}

impl<'a> Memory<'a> {
    pub(crate) fn new(read: &'a dyn Fn(u64, &mut [u8]) -> bool) -> Memory<'a> {
        Memory { read, left: Cell::new(READS_MAX) }
    }

    fn bytes<const N: usize>(&self, at: u64) -> Option<[u8; N]> {
        self.left.set(self.left.get().checked_sub(1)?);
        let mut bytes = [0; N];
        (self.read)(at, &mut bytes).then_some(bytes)
    }

    pub(crate) fn u64(&self, at: u64) -> Option<u64> {
        self.bytes(at).map(u64::from_le_bytes)
    }

    pub(crate) fn u32(&self, at: u64) -> Option<u32> {
        self.bytes(at).map(u32::from_le_bytes)
    }

    pub(crate) fn u16(&self, at: u64) -> Option<u16> {
        self.bytes(at).map(u16::from_le_bytes)
    }

    /// A name: printable and not empty.
    pub(crate) fn name(&self, at: u64) -> Option<String> {
        self.until_nul(at, NAME_BYTES_MAX).filter(|name| !name.is_empty())
    }

    /// A text of any length up to the limit, printable.
    pub(crate) fn text(&self, at: u64) -> Option<String> {
        self.until_nul(at, TEXT_BYTES_MAX)
    }

    fn until_nul(&self, at: u64, most: usize) -> Option<String> {
        let mut text = Vec::new();
        while text.len() < most {
            let [byte] = self.bytes(at.checked_add(text.len() as u64)?)?;
            if byte == 0 {
                return String::from_utf8(text).ok();
            }
            // As a terminal shows it: nothing that it would act on.
            if byte.is_ascii_control() {
                return None;
            }
            text.push(byte);
        }
        None
    }
}
