//! Memory with nothing behind it: what is read beyond its end ends the test.

use nix::libc;

pub(crate) const PAGE: usize = 4096;

/// Two pages between two that nobody may touch.
pub(crate) struct Pages(*mut u8);

impl Pages {
    pub(crate) fn new() -> Pages {
        // SAFETY: new memory, of which the outer pages are closed.
        unsafe {
            let (all, rights) = (4 * PAGE, libc::PROT_READ | libc::PROT_WRITE);
            let start = libc::mmap(
                std::ptr::null_mut(),
                all,
                libc::PROT_NONE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                -1,
                0,
            );
            assert_ne!(start, libc::MAP_FAILED);
            let inner = start.cast::<u8>().add(PAGE);
            assert_eq!(libc::mprotect(inner.cast(), 2 * PAGE, rights), 0);
            inner.write_bytes(b'x', 2 * PAGE);
            Pages(inner)
        }
    }

    /// Writes the text and a NUL at this offset; its address.
    pub(crate) fn put(&self, at: usize, text: &[u8]) -> u64 {
        assert!(at + text.len() < 2 * PAGE);
        // SAFETY: inside the two pages.
        unsafe {
            self.0.add(at).copy_from_nonoverlapping(text.as_ptr(), text.len());
            self.0.add(at + text.len()).write(0);
        }
        self.0 as u64 + at as u64
    }

    /// Writes these bytes at this offset; their address.
    #[allow(dead_code, reason = "each test binary uses its part")]
    pub(crate) fn put_bytes(&self, at: usize, bytes: &[u8]) -> u64 {
        assert!(at + bytes.len() <= 2 * PAGE);
        // SAFETY: inside the two pages.
        unsafe { self.0.add(at).copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
        self.0 as u64 + at as u64
    }

    /// As it was.
    pub(crate) fn clear(&self) {
        // SAFETY: the two pages.
        unsafe { self.0.write_bytes(b'x', 2 * PAGE) };
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        // SAFETY: what `new` has mapped.
        unsafe { libc::munmap(self.0.sub(PAGE).cast(), 4 * PAGE) };
    }
}
