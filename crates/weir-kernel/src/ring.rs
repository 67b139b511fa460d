//! Records that programs have written to a ring (BPF_MAP_TYPE_RINGBUF).
//!
//! In: a ring of [`Maps`]. Out: its records, in the order in which they were reserved, each once. Whoever reads is alone. A record that is being written
//! holds up those after it; the kernel's programs do not stop in between.
//!
//! Memory (Documentation/bpf/ringbuf.rst): the page of the reader's position, which is written here; the page of the writers' position; the ring, twice in
//! a row, so that each record is in one piece.

use std::io;
use std::num::NonZeroUsize;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use nix::libc::c_void;
use nix::sys::mman::{MapFlags, ProtFlags, mmap, munmap};

use crate::{KernelError, Maps};

/// Bytes in front of a record: its length with two flags, and where its page is.
const HEADER_BYTES: u64 = 8;
/// It is being written.
const BUSY: u32 = 1 << 31;
/// It was given up.
const DISCARDED: u32 = 1 << 30;

/// The reader of a ring.
#[derive(Debug)]
pub struct Ring {
    fd: OwnedFd,
    position: Pages,
    /// The writers' position, then the ring.
    written: Pages,
    page: usize,
    bytes: u64,
}

impl Ring {
    /// Maps the memory of the ring `map`.
    pub fn open(maps: &Maps, map: usize) -> Result<Ring, KernelError> {
        let (spec, fd) = maps.at(map);
        let bytes = u64::from(spec.max_entries);
        // SAFETY: takes a number.
        let page = unsafe { nix::libc::sysconf(nix::libc::_SC_PAGESIZE) } as usize;
        let call_failed = |call, source| KernelError::Call { call, name: spec.name.clone(), source };
        let failed = |errno: nix::Error| call_failed("mmap", io::Error::from(errno));
        let both = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
        let position = Pages::map(fd.as_fd(), page, both, 0).map_err(failed)?;
        let read = ProtFlags::PROT_READ;
        let written = Pages::map(fd.as_fd(), page + 2 * bytes as usize, read, page).map_err(failed)?;
        // The ring lives on without the other maps.
        let fd = fd.as_fd().try_clone_to_owned().map_err(|error| call_failed("dup", error))?;
        Ok(Ring { fd, position, written, page, bytes })
    }

    /// Readable while there are records.
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Ends where no record is complete; more may come later.
impl Iterator for Ring {
    type Item = Vec<u8>;

    fn next(&mut self) -> Option<Vec<u8>> {
        loop {
            // SAFETY: the pages are mapped while this lives; the positions stand at their beginnings, and others write them by atomic stores.
            let (read, written) = unsafe {
                (
                    self.position.start.cast::<AtomicU64>().as_ref(),
                    self.written.start.cast::<AtomicU64>().as_ref(),
                )
            };
            let at = read.load(Ordering::Relaxed);
            if at >= written.load(Ordering::Acquire) {
                return None;
            }
            let offset = self.page + (at & (self.bytes - 1)) as usize;
            // SAFETY: in the first of the two rings; records begin at multiples of 8.
            let header = unsafe { self.written.start.byte_add(offset) };
            // SAFETY: as above; the word is written by atomic stores.
            let word = unsafe { header.cast::<AtomicU32>().as_ref() }.load(Ordering::Acquire);
            if word & BUSY != 0 {
                return None;
            }
            let length = word & !DISCARDED;
            let record = (word & DISCARDED == 0).then(|| {
                let bytes = (length as usize).min(self.bytes as usize);
                // SAFETY: it follows the header, and is not longer than the ring, which is mapped twice. The kernel does not write it again before the position has passed it.
                unsafe {
                    std::slice::from_raw_parts(
                        header.byte_add(HEADER_BYTES as usize).cast::<u8>().as_ptr(),
                        bytes,
                    )
                }
                .to_vec()
            });
            read.store(at + (u64::from(length) + HEADER_BYTES).next_multiple_of(8), Ordering::Release);
            if record.is_some() {
                return record;
            }
        }
    }
}

/// Memory that is mapped until this is dropped.
#[derive(Debug)]
struct Pages {
    start: NonNull<c_void>,
    bytes: usize,
}

impl Pages {
    fn map(fd: BorrowedFd<'_>, bytes: usize, protection: ProtFlags, offset: usize) -> nix::Result<Pages> {
        let length = NonZeroUsize::new(bytes).ok_or(nix::Error::EINVAL)?;
        // SAFETY: new memory, at an address of the kernel's choice.
        let start = unsafe { mmap(None, length, protection, MapFlags::MAP_SHARED, fd, offset as i64) }?;
        Ok(Pages { start, bytes })
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        // SAFETY: it was mapped here, and no address in it is used any more.
        let _ = unsafe { munmap(self.start, self.bytes) };
    }
}
