//! Lends a session's maps to a stopped target: weir's own memfd, mapped there too.
//!
//! In: the segment of the maps, a borrowed thread. Out: where the target has it now.
//!
//! ```text
//! target   socketpair(AF_UNIX)           weir   pidfd_getfd: takes one end
//!                                        weir   sendmsg: the memfd's descriptor (SCM_RIGHTS)
//! target   close the end that was taken
//! target   recvmsg, close                       it never waits: what is not there by now will not come
//! target   mmap, close
//!          the same for what programs in the kernel see of the maps, over the end of the first
//! target   madvise                              rings that are to be there at once
//! ```
//!
//! No descriptor stays in the target, whichever step fails. Where weir is killed between two of these calls, the thread goes
//! on by itself, and what was open at that moment stays open: two sockets or a memfd, that close at exec.

use std::io::{self, IoSlice};
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};

use nix::fcntl::{FallocateFlags, fallocate};
use nix::libc;
use nix::sys::socket::{ControlMessage, MsgFlags, sendmsg};
use weir_rt::segment::Segment;

use crate::attach::patch::PAGE;
use crate::process::descriptors::take_fd;
use crate::process::isa::native::remote::Borrowed;
use crate::process::target::Target;
use crate::refusal::Error;

/// Maps `maps` into the target; the address there.
pub(crate) fn lend(target: &Target, remote: &mut Borrowed, maps: &Segment) -> Result<u64, Error> {
    let layout = maps.layout();
    let address = map(target, remote, maps.fd(), (0, layout.bytes))?;
    if let Some(in_kernel) = maps.in_kernel() {
        let place = (address + layout.kernel_offset, layout.kernel_bytes());
        if let Err(error) = map(target, remote, in_kernel, place) {
            // It has failed already; the next weir takes out what stays.
            let _ = remote.call("munmap", libc::SYS_munmap, [address, layout.bytes, 0, 0, 0, 0]);
            return Err(error);
        }
    }
    for (start, bytes) in rings(maps, target.allowance.present) {
        // Kernels before 5.14 have no such advice: then pages come when they are touched.
        let advice = libc::MADV_POPULATE_WRITE as u64;
        let _ = remote.call("madvise", libc::SYS_madvise, [address + start, bytes, advice, 0, 0, 0]);
    }
    Ok(address)
}

/// Maps a file of weir's at this address, over what is there, or, if it is 0, anywhere; so many bytes from its beginning.
fn map(
    target: &Target,
    remote: &mut Borrowed,
    file: BorrowedFd<'_>,
    (at, bytes): (u64, u64),
) -> Result<u64, Error> {
    let number = send(target, remote, file)?;
    let protection = (libc::PROT_READ | libc::PROT_WRITE) as u64;
    let flags = (libc::MAP_SHARED | if at == 0 { 0 } else { libc::MAP_FIXED }) as u64;
    let address = remote.call("mmap", libc::SYS_mmap, [at, bytes, protection, flags, number, 0]);
    let closed = close(remote, number);
    address.and_then(|address| closed.map(|()| address))
}

/// Makes the pages of rings that are to be there at once: by weir, which they are charged to, and while the target runs.
pub(crate) fn allocate(target: &Target, maps: &Segment) -> Result<(), Error> {
    for (start, bytes) in rings(maps, target.allowance.present) {
        fallocate(maps.fd(), FallocateFlags::empty(), start as i64, bytes as i64)
            .map_err(|error| Error::system("allocating the rings", error))?;
    }
    Ok(())
}

/// Where rings of CPUs lie in the segment: in whole pages, the first ones of each map, so many bytes in all at most.
fn rings(maps: &Segment, most: u64) -> Vec<(u64, u64)> {
    let mut left = most;
    let mut found = Vec::new();
    for map in &maps.layout().maps {
        if map.spec.has_rings_per_cpu() && map.lane_stride > 0 {
            // The last one is all threads' that have no CPU's.
            let count = u64::from(map.shared_lane()).min(left / map.lane_stride);
            let start = map.data_offset & !(PAGE - 1);
            found.extend((count > 0).then_some((start, count * map.lane_stride)));
            left -= count * map.lane_stride;
        }
    }
    found
}

/// Sends the descriptor; its number in the target.
fn send(target: &Target, remote: &mut Borrowed, file: BorrowedFd<'_>) -> Result<u64, Error> {
    let at = remote.put(&[0; 8])?;
    let kind = (libc::SOCK_DGRAM | libc::SOCK_CLOEXEC) as u64;
    remote.call("socketpair", libc::SYS_socketpair, [libc::AF_UNIX as u64, kind, 0, at, 0, 0])?;
    let pair = target.memory.read_u64(at).map_err(|e| Error::system("reading an answer of socketpair", e));
    let pair = pair?;
    let (near, far) = (pair & 0xffff_ffff, pair >> 32);
    let sent = take_fd(target, remote.tid(), near).and_then(|socket| send_through(&socket, file));
    let closed = close(remote, near);
    let received = sent.and(closed).and_then(|()| receive(target, remote, far));
    match close(remote, far) {
        Ok(()) => received,
        Err(error) => {
            if let Ok(number) = received {
                // It has failed already.
                let _ = close(remote, number);
            }
            Err(error)
        }
    }
}

fn send_through(socket: &OwnedFd, file: BorrowedFd<'_>) -> Result<(), Error> {
    let fds = [file.as_raw_fd()];
    let rights = [ControlMessage::ScmRights(&fds)];
    let flags = MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_NOSIGNAL;
    let sent = sendmsg::<()>(socket.as_raw_fd(), &[IoSlice::new(&[0])], &rights, flags, None);
    sent.map(|_| ()).map_err(|errno| Error::system("lending the maps (sendmsg)", errno))
}

/// Byte offsets of what recvmsg(2) is given: `struct msghdr`, then an iovec, its one byte, and room for a descriptor.
const FLAGS: usize = 48;
const VECTOR: usize = 56;
const BYTE: usize = 72;
const CONTROL: usize = 80;
const MESSAGE_BYTES: usize = 104;
/// `CMSG_LEN` and `CMSG_SPACE` of one descriptor.
const RIGHTS_BYTES: u64 = 20;
const RIGHTS_SPACE: u64 = 24;

/// Takes the descriptor out of socket `number`; its own number.
fn receive(target: &Target, remote: &mut Borrowed, number: u64) -> Result<u64, Error> {
    let at = remote.put(&[0; MESSAGE_BYTES])?;
    remote.put(&message(at))?;
    let flags = (libc::MSG_DONTWAIT | libc::MSG_CMSG_CLOEXEC) as u64;
    remote.call("recvmsg", libc::SYS_recvmsg, [number, at, flags, 0, 0, 0])?;
    let mut answer = [0; MESSAGE_BYTES];
    let read = target.memory.read(at, &mut answer);
    read.map_err(|source| Error::system("reading an answer of recvmsg", source))?;
    received(&answer).ok_or_else(|| Error::Remote {
        pid: target.pid,
        call: "recvmsg",
        source: io::Error::other(
            "no descriptor came: the process has no room for one more (RLIMIT_NOFILE), or a security module forbids it",
        ),
    })
}

/// The arguments of recvmsg(2), for `at`.
fn message(at: u64) -> [u8; MESSAGE_BYTES] {
    let mut bytes = [0; MESSAGE_BYTES];
    let mut put = |offset: usize, word: u64| bytes[offset..offset + 8].copy_from_slice(&word.to_le_bytes());
    put(16, at + VECTOR as u64);
    put(24, 1);
    put(32, at + CONTROL as u64);
    put(40, RIGHTS_SPACE);
    put(VECTOR, at + BYTE as u64);
    put(VECTOR + 8, 1);
    bytes
}

/// The descriptor that came, if one did.
fn received(answer: &[u8; MESSAGE_BYTES]) -> Option<u64> {
    let half = |at: usize| i32::from_le_bytes([answer[at], answer[at + 1], answer[at + 2], answer[at + 3]]);
    let is_whole = half(FLAGS) & libc::MSG_CTRUNC == 0 && half(CONTROL) as u64 == RIGHTS_BYTES;
    let is_rights = half(CONTROL + 8) == libc::SOL_SOCKET && half(CONTROL + 12) == libc::SCM_RIGHTS;
    (is_whole && is_rights).then(|| u64::try_from(half(CONTROL + 16)).ok()).flatten()
}

fn close(remote: &mut Borrowed, number: u64) -> Result<(), Error> {
    remote.call("close", libc::SYS_close, [number, 0, 0, 0, 0, 0]).map(|_| ())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_says_where_its_parts_are() {
        let bytes = message(0x7000);
        let word = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap());
        let header = [0, 8, 16, 24, 32, 40, 48].map(word);
        assert_eq!(header, [0, 0, 0x7038, 1, 0x7050, 24, 0]);
        assert_eq!([word(VECTOR), word(VECTOR + 8)], [0x7048, 1]);
    }

    #[test]
    fn only_a_whole_descriptor_is_one() {
        let check = |flags: i32, length: i32, level: i32, kind: i32, fd: i32, wanted: Option<u64>| {
            let mut answer = [0; MESSAGE_BYTES];
            let mut put = |at: usize, n: i32| answer[at..at + 4].copy_from_slice(&n.to_le_bytes());
            put(FLAGS, flags);
            put(CONTROL, length);
            put(CONTROL + 8, level);
            put(CONTROL + 12, kind);
            put(CONTROL + 16, fd);
            assert_eq!(received(&answer), wanted);
        };
        check(libc::MSG_CMSG_CLOEXEC, 20, 1, 1, 7, Some(7));
        check(libc::MSG_CTRUNC, 20, 1, 1, 7, None);
        check(0, 0, 0, 0, 0, None);
        check(0, 20, 1, 2, 7, None);
        check(0, 20, 1, 1, -1, None);
    }
}
