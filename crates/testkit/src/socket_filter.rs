//! Classic BPF in the running kernel: a pair of datagram sockets, one of which filters what it receives.
//!
//! SO_ATTACH_FILTER needs no rights. A filter's answer shows as the number of bytes that arrive: 0 drops the packet, less
//! than its length cuts it.

use std::io;
use std::os::fd::AsRawFd as _;
use std::os::unix::net::UnixDatagram;

use nix::libc;

/// Two connected sockets of AF_UNIX.
#[derive(Debug)]
pub struct Pair {
    sender: UnixDatagram,
    receiver: UnixDatagram,
}

impl Pair {
    pub fn new() -> io::Result<Pair> {
        let (sender, receiver) = UnixDatagram::pair()?;
        receiver.set_nonblocking(true)?;
        Ok(Pair { sender, receiver })
    }

    /// Has the receiver filter with `filter`, an array of `struct sock_filter`, or says why the kernel does not.
    pub fn attach(&self, filter: &[[u8; 8]]) -> io::Result<()> {
        // A length that does not fit is no program that the kernel takes either.
        let len = u16::try_from(filter.len()).map_err(|_| io::Error::from_raw_os_error(libc::EINVAL))?;
        // The kernel copies the array, and does not ask for its alignment.
        let program = libc::sock_fprog { len, filter: filter.as_ptr() as *mut libc::sock_filter };
        // SAFETY: the option reads one `sock_fprog`, and the `len` times 8 bytes that it refers to.
        let result = unsafe {
            libc::setsockopt(
                self.receiver.as_raw_fd(),
                libc::SOL_SOCKET,
                libc::SO_ATTACH_FILTER,
                (&raw const program).cast(),
                size_of_val(&program) as libc::socklen_t,
            )
        };
        if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }

    /// How many bytes of `packet` arrive; none of a packet that is dropped.
    pub fn deliver(&self, packet: &[u8]) -> io::Result<Option<usize>> {
        self.sender.send(packet)?;
        let mut arrived = vec![0; packet.len() + 1];
        match self.receiver.recv(&mut arrived) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
            Err(error) => Err(error),
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

    fn insn(code: u16, k: u32) -> [u8; 8] {
        let mut bytes = [0; 8];
        bytes[..2].copy_from_slice(&code.to_le_bytes());
        bytes[4..].copy_from_slice(&k.to_le_bytes());
        bytes
    }

    fn check(program: &[[u8; 8]], packet: &[u8], arrive: Option<usize>) {
        let pair = Pair::new().expect("sockets");
        pair.attach(program).expect("the kernel takes the program");
        for _ in 0..2 {
            assert_eq!(pair.deliver(packet).expect("sent"), arrive, "{program:x?} on {packet:x?}");
        }
    }

    #[test]
    fn as_many_bytes_arrive_as_the_program_returns() {
        check(&[insn(RETURN, 0)], b"abc", None);
        check(&[insn(RETURN, 2)], b"abc", Some(2));
        check(&[insn(RETURN, 0xffff)], &[7; 20_000], Some(20_000));
        check(&[insn(LOAD_BYTE, 1), insn(RETURN_A, 0)], &[9, 1, 9], Some(1));
        check(&[insn(LOAD_BYTE, 3), insn(RETURN_A, 0)], &[9, 9, 9], None);
        check(&[insn(LOAD_LENGTH, 0), insn(RETURN_A, 0)], &[9, 9, 9], Some(3));
    }

    #[test]
    fn a_program_that_the_kernel_refuses_is_an_error() {
        for wrong in [vec![], vec![insn(LOAD_BYTE, 0)], vec![insn(RETURN, 1); 4097], vec![insn(0xffff, 0)]] {
            let error = Pair::new().expect("sockets").attach(&wrong).expect_err("refused");
            assert_eq!(error.raw_os_error(), Some(libc::EINVAL), "{} instructions", wrong.len());
        }
    }
}
