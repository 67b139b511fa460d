//! The memory of a segment: words that both sides change, and bytes that are copied in and out.
//!
//! Every access is held against the mapping's length. The file's size is sealed, and its pages were allocated when it was made, so
//! that no access faults, whatever the other side does.

use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::sync::atomic::AtomicU64;

use memmap2::{MmapOptions, MmapRaw};
use nix::errno::Errno;
use nix::fcntl::{FallocateFlags, FcntlArg, SealFlag, fallocate, fcntl};
use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::unistd::ftruncate;

/// A file in memory, mapped.
#[derive(Debug)]
pub(crate) struct Mapping {
    raw: MmapRaw,
    fd: OwnedFd,
}

const SEALS: SealFlag = SealFlag::F_SEAL_SHRINK.union(SealFlag::F_SEAL_GROW).union(SealFlag::F_SEAL_SEAL);

impl Mapping {
    pub(crate) fn create(bytes: u64) -> io::Result<Mapping> {
        let fd = memfd_create(c"weir-packets", MFdFlags::MFD_CLOEXEC | MFdFlags::MFD_ALLOW_SEALING)?;
        let signed = i64::try_from(bytes).map_err(|_| io::ErrorKind::FileTooLarge)?;
        ftruncate(&fd, signed)?;
        fallocate(&fd, FallocateFlags::empty(), 0, signed)?;
        fcntl(&fd, FcntlArg::F_ADD_SEALS(SEALS))?;
        Mapping::map(fd, bytes)
    }

    /// A file that another process has made: its bytes, or why it is not mapped.
    pub(crate) fn open(fd: OwnedFd) -> Result<(Mapping, u64), String> {
        let words = |what: &str, errno: Errno| format!("{what} of the segment's file: {}", errno.desc());
        let seals = fcntl(&fd, FcntlArg::F_GET_SEALS).map_err(|errno| words("seals", errno))?;
        if !SealFlag::from_bits_retain(seals).contains(SealFlag::F_SEAL_SHRINK) {
            return Err("the segment's file is not sealed against shrinking (F_SEAL_SHRINK)".to_owned());
        }
        let stat = nix::sys::stat::fstat(&fd).map_err(|errno| words("size", errno))?;
        let bytes = stat.st_size as u64;
        // A page that is not there yet would be allocated when it is touched; where no memory is left, that is SIGBUS.
        if (stat.st_blocks as u64).saturating_mul(512) < bytes {
            return Err(format!(
                "only {} blocks of the segment's {bytes} bytes are allocated",
                stat.st_blocks
            ));
        }
        if bytes == 0 {
            return Err("the segment's file is empty".to_owned());
        }
        let mapping = Mapping::map(fd, bytes).map_err(|error| format!("mapping the segment: {error}"))?;
        Ok((mapping, bytes))
    }

    /// With all pages mapped at once: the first burst shall not pay for them.
    fn map(fd: OwnedFd, bytes: u64) -> io::Result<Mapping> {
        let bytes = usize::try_from(bytes).map_err(|_| io::ErrorKind::FileTooLarge)?;
        let raw = MmapOptions::new().len(bytes).populate().map_raw(&fd)?;
        Ok(Mapping { raw, fd })
    }

    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// The word at `at`.
    #[inline]
    pub(crate) fn word(&self, at: u64) -> &AtomicU64 {
        assert!(at.is_multiple_of(8) && at + 8 <= self.raw.len() as u64, "word {at:#x} outside the segment");
        // SAFETY: in bounds and aligned by the line above (the mapping is page-aligned); the memory lives as long as `self`.
        unsafe { AtomicU64::from_ptr(self.raw.as_mut_ptr().add(at as usize).cast()) }
    }

    /// Bytes from `at` on, so many, for a writer that is alone there.
    pub(crate) fn at(&self, at: u64, bytes: u64) -> *mut u8 {
        assert!(at <= self.raw.len() as u64 && bytes <= self.raw.len() as u64 - at, "outside the segment");
        self.raw.as_mut_ptr().wrapping_add(at as usize)
    }

    /// Appends bytes to `out`. What the other side writes meanwhile may be in it in part.
    pub(crate) fn copy_out(&self, at: u64, bytes: u64, out: &mut Vec<u8>) {
        let from = self.at(at, bytes);
        out.reserve(bytes as usize);
        // SAFETY: `at` has checked that the bytes are in the mapping, and `reserve` that there is room; the two do not overlap. The
        // other side may write them at the same time: they are bytes, any value of which is valid, and are looked at in the copy alone.
        unsafe {
            std::ptr::copy_nonoverlapping(from, out.as_mut_ptr().add(out.len()), bytes as usize);
            out.set_len(out.len() + bytes as usize);
        }
    }
}
