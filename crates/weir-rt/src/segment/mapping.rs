//! Shared memory as atomic words: the one way in which this crate's Rust half touches a segment.
//!
//! Every access is bounds- and alignment-checked against the mapping's length, so a wrong offset is a panic of ours,
//! never an access outside. Others write the memory at any time: nothing but atomics reads it.

use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};

use memmap2::{MmapOptions, MmapRaw};
use nix::libc;

/// A read-write mapping of a memfd whose size is sealed.
#[derive(Debug)]
pub(crate) struct Mapping {
    raw: MmapRaw,
}

impl Mapping {
    pub(crate) fn shared(fd: &OwnedFd, bytes: u64) -> io::Result<Mapping> {
        let bytes = usize::try_from(bytes).map_err(|_| io::ErrorKind::FileTooLarge)?;
        Ok(Mapping { raw: MmapOptions::new().len(bytes).map_raw(fd)? })
    }

    /// Puts another file's memory, from its beginning, over the end of this: from `offset` on, which is a multiple of the page size.
    pub(crate) fn cover(&self, fd: &OwnedFd, offset: u64) -> io::Result<()> {
        let bytes = (self.raw.len() as u64).checked_sub(offset).and_then(|bytes| usize::try_from(bytes).ok());
        let bytes = bytes.filter(|bytes| *bytes > 0).ok_or(io::ErrorKind::InvalidInput)?;
        let (protection, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED | libc::MAP_FIXED);
        // SAFETY: what is replaced lies in the mapping, which is this value's own, and nobody has borrowed any of it yet: `cover` is called before the
        // mapping is shared. It is unmapped with the rest.
        let mapped = unsafe {
            let at = self.raw.as_mut_ptr().add(offset as usize);
            libc::mmap(at.cast(), bytes, protection, flags, fd.as_raw_fd(), 0)
        };
        if mapped == libc::MAP_FAILED { Err(io::Error::last_os_error()) } else { Ok(()) }
    }

    pub(crate) fn base(&self) -> u64 {
        self.raw.as_mut_ptr() as u64
    }

    /// The 8-byte word at `offset`.
    #[inline]
    pub(crate) fn word(&self, offset: u64) -> &AtomicU64 {
        assert!(
            offset.is_multiple_of(8) && offset + 8 <= self.raw.len() as u64,
            "word at {offset:#x} outside the segment"
        );
        // SAFETY: in bounds and aligned by the line above (the mapping is page-aligned); the memory lives as long as
        // `self`, cannot shrink (sealed), and is accessed by atomics alone.
        unsafe { AtomicU64::from_ptr(self.raw.as_mut_ptr().add(offset as usize).cast()) }
    }

    /// The words from `offset` on.
    #[inline]
    pub(crate) fn words(&self, offset: u64, count: usize) -> &[AtomicU64] {
        let end = (count as u64).checked_mul(8).and_then(|bytes| bytes.checked_add(offset));
        assert!(
            offset.is_multiple_of(8) && end.is_some_and(|end| end <= self.raw.len() as u64),
            "{count} words at {offset:#x} outside the segment"
        );
        // SAFETY: as in `word`, for all of them.
        unsafe { std::slice::from_raw_parts(self.raw.as_mut_ptr().add(offset as usize).cast(), count) }
    }

    /// A copy of `len` bytes from `offset`, a multiple of 8.
    pub(crate) fn copy(&self, offset: u64, len: usize) -> Vec<u8> {
        let mut bytes = Vec::new();
        self.copy_over(offset, len, &mut bytes);
        bytes.truncate(len);
        bytes
    }

    /// The same over the beginning of `bytes`, which become more where they are too few.
    #[inline]
    pub(crate) fn copy_over(&self, offset: u64, len: usize, bytes: &mut Vec<u8>) {
        let words = self.words(offset, len.div_ceil(8));
        if bytes.len() < 8 * words.len() {
            bytes.resize(8 * words.len(), 0);
        }
        for (to, word) in bytes.chunks_exact_mut(8).zip(words) {
            to.copy_from_slice(&word.load(Ordering::Relaxed).to_le_bytes());
        }
    }
}
