//! Whether a process has come under seccomp since weir came, as its own segment says (`c/filter.c`).
//!
//! The word is set by the process itself, before its call installs a filter, or by the controller, which has seen one. Helpers
//! look at it before each system call. It is the target's to write: at worst its own reads are denied.

use std::sync::atomic::{AtomicU32, Ordering};

use super::Segment;
use crate::abi::header;

/// How a process has come under seccomp.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Filter {
    /// Its call was about to install a filter.
    Asked,
    /// The controller has seen it.
    Seen,
    /// It has entered strict mode, or its call was about to.
    Strict,
}

impl Filter {
    /// Where the word is in a segment.
    pub const OFFSET: u64 = header::FILTER as u64;
    /// What it holds in strict mode, where the time stamp counter may not be read either.
    pub const STRICT: u32 = 3;
}

impl Segment {
    /// Of a process's own segment; none: it has not, as far as anybody knows.
    pub fn filter(&self) -> Option<Filter> {
        match self.filter_word().load(Ordering::Acquire) {
            0 => None,
            2 => Some(Filter::Seen),
            Filter::STRICT => Some(Filter::Strict),
            _ => Some(Filter::Asked),
        }
    }

    /// From now on no helper calls the kernel there.
    pub fn set_filter_seen(&self) {
        let _ = self.filter_word().compare_exchange(0, 2, Ordering::SeqCst, Ordering::SeqCst);
    }

    /// Nor does anything read the time stamp counter.
    pub fn set_strict_seen(&self) {
        self.filter_word().store(Filter::STRICT, Ordering::SeqCst);
    }

    fn filter_word(&self) -> &AtomicU32 {
        let word = self.mapping().word(Filter::OFFSET);
        // SAFETY: the first 4 bytes of 8 that are aligned and live as long; x86-64 is little endian, and everybody accesses
        // this half by atomics alone.
        unsafe { AtomicU32::from_ptr(word.as_ptr().cast()) }
    }
}
