//! Texts that end where memory does.

use std::num::NonZeroUsize;
use std::ptr::NonNull;

use nix::sys::mman::{MapFlags, ProtFlags, mmap_anonymous, mprotect, munmap};

const PAGE_BYTES: usize = 4096;

/// Bytes whose last one is the last of a page, with a page behind that nobody may read.
#[derive(Debug)]
pub struct AtPageEnd {
    pages: NonNull<std::ffi::c_void>,
    bytes: usize,
}

impl AtPageEnd {
    /// At most a page of bytes.
    pub fn of(bytes: &[u8]) -> AtPageEnd {
        assert!(bytes.len() <= PAGE_BYTES, "{} bytes in a page", bytes.len());
        let both = NonZeroUsize::new(2 * PAGE_BYTES).expect("two pages");
        let readable = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
        // SAFETY: a new mapping, which replaces nothing.
        let pages =
            unsafe { mmap_anonymous(None, both, readable, MapFlags::MAP_PRIVATE) }.expect("two pages");
        let begin = pages.as_ptr() as usize + PAGE_BYTES - bytes.len();
        // SAFETY: the end of the first page, which is this long and which nothing refers to.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), begin as *mut u8, bytes.len()) };
        // SAFETY: the second page of the mapping, which nothing refers to.
        unsafe { mprotect(pages.byte_add(PAGE_BYTES), PAGE_BYTES, ProtFlags::PROT_NONE) }.expect("mprotect");
        AtPageEnd { pages, bytes: bytes.len() }
    }

    pub fn address(&self) -> u64 {
        (self.pages.as_ptr() as usize + PAGE_BYTES - self.bytes) as u64
    }
}

impl Drop for AtPageEnd {
    fn drop(&mut self) {
        // SAFETY: the mapping made above; addresses given out are numbers, which nothing here reads.
        let _ = unsafe { munmap(self.pages, 2 * PAGE_BYTES) };
    }
}
