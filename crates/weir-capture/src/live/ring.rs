//! A ring of TPACKET_V3 in our memory: blocks, each of which is the kernel's or ours.
//!
//! A block that is ours is a list of frames, linked by offsets. What the kernel wrote is checked all the same: a frame outside of its block
//! ends the block.

use std::io;
use std::num::NonZeroUsize;
use std::os::fd::BorrowedFd;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

use nix::libc;
use nix::sys::mman::{MapFlags, ProtFlags, mmap, munmap};

use crate::limits::{BLOCK_BYTES, BLOCK_MS};
use crate::live::sys;

/// Of a block (`struct tpacket_block_desc`): who has it, how many frames, where the first is.
const BLOCK_STATUS: usize = 8;
const BLOCK_FRAMES: usize = 12;
const BLOCK_FIRST: usize = 16;

const STATUS_KERNEL: u32 = 0;
const STATUS_USER: u32 = 1;
/// Packets were dropped before this block.
const STATUS_LOSING: u32 = 4;

const TPACKET_V3: u32 = 2;

pub(super) struct Ring {
    memory: NonNull<u8>,
    bytes: NonZeroUsize,
    /// The block that is ours, or will be next.
    block: usize,
    is_ours: bool,
    /// What is left of it: frames, and where the next is.
    left: u32,
    at: usize,
    /// Packets were lost before the next frame.
    is_losing: bool,
}

// SAFETY: the memory is this ring's alone, and of no thread.
unsafe impl Send for Ring {}

impl Ring {
    /// Gives a socket a ring of at least so many bytes. `reserve`: room before each packet; `has_hashes`: the kernel says packets' hashes.
    pub(super) fn new(fd: BorrowedFd<'_>, bytes: u64, reserve: u32, has_hashes: bool) -> io::Result<Ring> {
        let level = libc::SOL_PACKET;
        sys::set(fd, level, libc::PACKET_VERSION, &TPACKET_V3)?;
        sys::set(fd, level, libc::PACKET_RESERVE, &reserve)?;
        let blocks = bytes.div_ceil(BLOCK_BYTES.into()).max(2) as u32;
        const FRAME_BYTES: u32 = 2048;
        // `struct tpacket_req3`: blocks and their frames, the time after which a block is given, private bytes, features.
        let request: [u32; 7] = [
            BLOCK_BYTES,
            blocks,
            FRAME_BYTES,
            blocks * (BLOCK_BYTES / FRAME_BYTES),
            BLOCK_MS,
            0,
            u32::from(has_hashes),
        ];
        sys::set(fd, level, libc::PACKET_RX_RING, &request)?;
        // SANITY: a ring has at least two blocks.
        let bytes = NonZeroUsize::new(blocks as usize * BLOCK_BYTES as usize).unwrap();
        let access = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
        // SAFETY: a new mapping, at an address that the kernel chooses.
        let memory = unsafe { mmap(None, bytes, access, MapFlags::MAP_SHARED, fd, 0) }?;
        Ok(Ring { memory: memory.cast(), bytes, block: 0, is_ours: false, left: 0, at: 0, is_losing: false })
    }

    fn status(&self) -> &AtomicU32 {
        let at = self.block * BLOCK_BYTES as usize + BLOCK_STATUS;
        // SAFETY: inside of the mapping, aligned, and alive as long as `self`; the kernel and we use this word as an atomic alone.
        unsafe { AtomicU32::from_ptr(self.memory.as_ptr().add(at).cast()) }
    }

    /// The block that is ours.
    fn bytes_of_block(&mut self) -> &mut [u8] {
        assert!(self.is_ours, "a block that is the kernel's is looked at");
        let at = self.block * BLOCK_BYTES as usize;
        // SAFETY: inside of the mapping; the kernel leaves a block alone that is ours, and `self` is borrowed.
        unsafe { std::slice::from_raw_parts_mut(self.memory.as_ptr().add(at), BLOCK_BYTES as usize) }
    }

    /// Whether there is a frame; gives blocks back that have no more.
    #[inline]
    fn is_ready(&mut self) -> bool {
        self.left > 0 || self.next_block()
    }

    fn next_block(&mut self) -> bool {
        loop {
            if self.is_ours {
                self.status().store(STATUS_KERNEL, Ordering::Release);
                self.is_ours = false;
                self.block = (self.block + 1) % (self.bytes.get() / BLOCK_BYTES as usize);
            }
            let status = self.status().load(Ordering::Acquire);
            if status & STATUS_USER == 0 {
                return false;
            }
            self.is_ours = true;
            let block = self.bytes_of_block();
            let (frames, first) = (u32_at(block, BLOCK_FRAMES), u32_at(block, BLOCK_FIRST) as usize);
            self.is_losing |= status & STATUS_LOSING != 0;
            self.at = first;
            self.left = if first + FRAME_HEAD > BLOCK_BYTES as usize { 0 } else { frames };
            if self.left > 0 {
                return true;
            }
        }
    }

    /// The next frame, from its head to the end of its block. It stays until the next is asked for.
    #[inline]
    pub(super) fn next(&mut self) -> Option<&mut [u8]> {
        if !self.is_ready() {
            return None;
        }
        let at = self.at;
        let next = u32_at(&self.bytes_of_block()[at..], 0) as usize;
        self.left -= 1;
        self.at += next;
        if next == 0 || self.at + FRAME_HEAD > BLOCK_BYTES as usize {
            self.left = 0;
        }
        Some(&mut self.bytes_of_block()[at..])
    }

    /// The same frame as [`Ring::next`] will give.
    pub(super) fn peek(&mut self) -> Option<&[u8]> {
        if !self.is_ready() {
            return None;
        }
        let at = self.at;
        Some(&self.bytes_of_block()[at..])
    }

    /// Whether packets were lost before the next frame; the answer is given once.
    #[inline]
    pub(super) fn is_losing(&mut self) -> bool {
        self.is_ready() && std::mem::take(&mut self.is_losing)
    }

    /// The stamp of the next frame, in nanoseconds since the epoch.
    pub(super) fn next_time(&mut self) -> Option<u64> {
        self.peek().map(time)
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: the mapping of `new`, of which nothing is borrowed any more.
        let _ = unsafe { munmap(self.memory.cast(), self.bytes.get()) };
    }
}

/// Bytes of a frame's head, with the address after it (`struct tpacket3_hdr`, `struct sockaddr_ll`).
pub(super) const FRAME_HEAD: usize = 48 + 20;

/// A frame's stamp.
#[inline]
pub(super) fn time(frame: &[u8]) -> u64 {
    u64::from(u32_at(frame, 4)) * 1_000_000_000 + u64::from(u32_at(frame, 8))
}

#[inline]
pub(super) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    // SANITY: four bytes.
    u32::from_ne_bytes(bytes[at..at + 4].try_into().unwrap())
}

#[inline]
pub(super) fn u16_at(bytes: &[u8], at: usize) -> u16 {
    // SANITY: two bytes.
    u16::from_ne_bytes(bytes[at..at + 2].try_into().unwrap())
}
