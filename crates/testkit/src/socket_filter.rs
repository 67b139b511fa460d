//! Linux's own engine of classic BPF: a program is attached to a socket, and the kernel says how much of a datagram it
//! lets through.
//!
//! One end of a pair of AF_UNIX datagram sockets gets the program by SO_ATTACH_FILTER (socket(7)); what is sent to it
//! runs through the program, arrives cut to the length that the program returns, or not at all. No privilege is needed
//! and nothing blocks. The kernel's own limits hold: at most 4,096 instructions, none that jumps back.

use std::io;
use std::os::fd::AsRawFd as _;
use std::os::unix::net::UnixDatagram;

use nix::libc;

use crate::libpcap::RawInsn;

#[derive(Debug)]
pub struct SocketFilter {
    sender: UnixDatagram,
    receiver: UnixDatagram,
}

/// The largest datagram that is asked about.
const PACKET_BYTES_MAX: usize = 65536;

const _: () = assert!(size_of::<RawInsn>() == size_of::<libc::sock_filter>());
const _: () = assert!(align_of::<RawInsn>() >= align_of::<libc::sock_filter>());

impl SocketFilter {
    /// A pair of sockets with `program` between them. Fails as setsockopt(2) does: with EINVAL for a program that the
    /// kernel refuses, or that has more instructions than it takes.
    pub fn attach(program: &[RawInsn]) -> io::Result<SocketFilter> {
        let (sender, receiver) = UnixDatagram::pair()?;
        sender.set_nonblocking(true)?;
        receiver.set_nonblocking(true)?;
        let len = u16::try_from(program.len()).map_err(|_| io::Error::from_raw_os_error(libc::EINVAL))?;
        let filter = libc::sock_fprog { len, filter: program.as_ptr().cast_mut().cast() };
        // SAFETY: an open socket; the kernel copies `len` instructions from `filter` and writes none.
        let status = unsafe {
            libc::setsockopt(
                receiver.as_raw_fd(),
                libc::SOL_SOCKET,
                libc::SO_ATTACH_FILTER,
                (&raw const filter).cast(),
                size_of_val(&filter) as libc::socklen_t,
            )
        };
        if status != 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(SocketFilter { sender, receiver })
    }

    /// How many bytes of `packet` arrive, 0 where it is dropped; `None` where the kernel does not take such a datagram, so
    /// that the program was not asked.
    pub fn run(&self, packet: &[u8]) -> Option<usize> {
        if packet.len() > PACKET_BYTES_MAX || self.sender.send(packet).is_err() {
            return None;
        }
        let mut arrived = vec![0; packet.len() + 1];
        match self.receiver.recv(&mut arrived) {
            Ok(bytes) => Some(bytes),
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => Some(0),
            Err(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RETURN: u16 = 0x06;
    const RETURN_A: u16 = 0x16;
    const LOAD_BYTE: u16 = 0x30;
    const LOAD_LENGTH: u16 = 0x80;

    fn insn(code: u16, k: u32) -> RawInsn {
        RawInsn { code, jt: 0, jf: 0, k }
    }

    fn check(program: &[RawInsn], packet: &[u8], arrive: usize) {
        let filter = SocketFilter::attach(program).expect("the kernel takes the program");
        for _ in 0..2 {
            assert_eq!(filter.run(packet), Some(arrive), "{program:x?} on {packet:x?}");
        }
    }

    #[test]
    fn as_many_bytes_arrive_as_the_program_returns() {
        check(&[insn(RETURN, 0)], b"abc", 0);
        check(&[insn(RETURN, 2)], b"abc", 2);
        check(&[insn(RETURN, 0xffff)], b"abc", 3);
        check(&[insn(RETURN, 0xffff)], &[7; 20_000], 20_000);
        check(&[insn(LOAD_BYTE, 1), insn(RETURN_A, 0)], &[9, 1, 9], 1);
        check(&[insn(LOAD_BYTE, 3), insn(RETURN_A, 0)], &[9, 9, 9], 0);
        check(&[insn(LOAD_LENGTH, 0), insn(RETURN_A, 0)], &[9, 9, 9], 3);
    }

    #[test]
    fn a_program_that_the_kernel_refuses_is_an_error() {
        for wrong in [vec![], vec![insn(LOAD_BYTE, 0)], vec![insn(RETURN, 1); 4097], vec![insn(0xffff, 0)]] {
            let error = SocketFilter::attach(&wrong).expect_err("refused");
            assert_eq!(error.raw_os_error(), Some(libc::EINVAL), "{} instructions", wrong.len());
        }
    }
}
