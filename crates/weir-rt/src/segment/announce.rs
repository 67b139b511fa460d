//! Announcements of a target's dynamic linker, as the controller sees and answers them (`c/announce.c`); and in the maps those of forked
//! children of all targets (`c/forked.c`).
//!
//! The words are the target's to write: their numbers say that something may have changed and nothing more. What was
//! loaded is read off the process itself.

use std::io;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use nix::libc;

use super::Segment;
use crate::abi::{announce, header};

/// The words of one target's announcements.
#[derive(Clone, Copy, Debug)]
pub struct Announcements<'a> {
    segment: &'a Segment,
}

impl Segment {
    /// Of a process's own segment, its dynamic linker's; of the maps, of forked children.
    pub fn announcements(&self) -> Announcements<'_> {
        Announcements { segment: self }
    }
}

impl Announcements<'_> {
    /// Where the words are in a segment.
    pub const OFFSET: u64 = header::ANNOUNCE as u64;
    /// Where the word is that waits for an answer are at.
    pub const ANSWERED_OFFSET: u64 = Announcements::OFFSET + 8 * announce::ANSWERED as u64;

    /// Where the word is that says how many went on without an answer.
    pub const LATE_OFFSET: u64 = Announcements::OFFSET + 8 * announce::LATE as u64;

    /// From now on they are answered.
    pub fn open(&self) {
        self.word(announce::OPEN).store(1, Ordering::Release);
    }

    pub fn is_open(&self) -> bool {
        self.word(announce::OPEN).load(Ordering::Acquire) != 0
    }

    /// Nobody waits any more, now and later.
    pub fn close(&self) {
        self.word(announce::OPEN).store(0, Ordering::SeqCst);
        self.answer(self.announced());
    }

    /// The number of the last one.
    pub fn announced(&self) -> u32 {
        self.word(announce::ANNOUNCED).load(Ordering::Acquire) as u32
    }

    /// The number of the last one that was answered.
    pub fn answered(&self) -> u32 {
        self.word(announce::ANSWERED).load(Ordering::Acquire) as u32
    }

    /// Whoever waits for the answer of `number` waits longer: it is being worked on.
    pub fn take(&self, number: u32) {
        self.word(announce::TAKEN).store(number.into(), Ordering::Release);
    }

    /// Whoever waits for the answer of `number`, or of one before it, goes on.
    pub fn answer(&self, number: u32) {
        self.word(announce::ANSWERED).store(number.into(), Ordering::Release);
        wake(lower(self.word(announce::ANSWERED)));
    }

    /// Forked children that wait do so longer: something was done for one.
    pub fn work(&self) {
        self.word(announce::TAKEN).fetch_add(1, Ordering::Release);
    }

    /// From now on forked children of this process wait to be probed, or do not.
    pub fn let_children_wait(&self, do_they: bool) {
        self.segment.mapping().word(header::FORKED as u64).store(do_they.into(), Ordering::Release);
    }

    /// How many went on without an answer so far.
    pub fn late(&self) -> u32 {
        self.word(announce::LATE).load(Ordering::Relaxed) as u32
    }

    /// Waits until there is another one than `seen`, for at most so long, and a little less now and then.
    pub fn wait(&self, seen: u32, at_most: Duration) -> io::Result<()> {
        let word = lower(self.word(announce::ANNOUNCED));
        let timeout = libc::timespec {
            tv_sec: at_most.as_secs() as libc::time_t,
            tv_nsec: at_most.subsec_nanos().into(),
        };
        // SAFETY: the word lives in the mapping, which `self` borrows; the time is read during the call alone.
        let done = unsafe {
            libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAIT, seen, &raw const timeout)
        };
        match done {
            0 => Ok(()),
            _ => match io::Error::last_os_error() {
                error
                    if matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::EINTR | libc::ETIMEDOUT)) =>
                {
                    Ok(())
                }
                error => Err(error),
            },
        }
    }

    /// Whoever waits for one ([`Announcements::wait`]) looks again.
    pub fn stir(&self) {
        wake(lower(self.word(announce::ANNOUNCED)));
    }

    /// Announces, as the target does; for tests.
    pub fn announce(&self) {
        self.word(announce::ANNOUNCED).fetch_add(1, Ordering::AcqRel);
        self.stir();
    }

    fn word(&self, index: usize) -> &AtomicU64 {
        self.segment.mapping().word(Self::OFFSET + 8 * index as u64)
    }
}

fn wake(word: &AtomicU32) {
    // SAFETY: wakes whoever waits at that address, and touches nothing. It fails for no valid address.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAKE, i32::MAX) };
}

/// The half that counts, and that futex(2) compares.
fn lower(word: &AtomicU64) -> &AtomicU32 {
    // SAFETY: the first 4 bytes of 8 that are aligned and live as long; x86-64 is little endian, and both halves are
    // accessed by atomics alone.
    unsafe { AtomicU32::from_ptr(word.as_ptr().cast()) }
}
