//! DPDK's telemetry socket: a command out, a JSON object in, under the command's name.

use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};
use std::path::Path;
use std::time::Instant;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::sockopt::PeerCredentials;
use nix::sys::socket::{
    AddressFamily, MsgFlags, SockFlag, SockType, UnixAddr, connect, getsockopt, recv, send, socket,
};
use serde_json::Value;

use crate::error::Error;
use crate::limits::{ANSWER_BYTES_MAX, ANSWER_MAX};

/// A connection.
#[derive(Debug)]
pub(crate) struct Telemetry {
    socket: OwnedFd,
}

impl Telemetry {
    /// Connects, and gives what the application says of itself.
    pub(crate) fn connect(path: &Path) -> Result<(Telemetry, Value), Error> {
        let fd = socket(AddressFamily::Unix, SockType::SeqPacket, SockFlag::SOCK_CLOEXEC, None);
        let telemetry = Telemetry { socket: fd.map_err(io::Error::from)? };
        let address = UnixAddr::new(path).map_err(io::Error::from)?;
        connect(telemetry.socket.as_raw_fd(), &address).map_err(io::Error::from)?;
        let hello = telemetry.receive("its greeting")?;
        Ok((telemetry, hello))
    }

    /// The process at the other end, if it is one of this PID namespace.
    pub(crate) fn process(&self) -> Option<i32> {
        let of = getsockopt(&self.socket, PeerCredentials).ok()?;
        (of.pid() > 0).then_some(of.pid())
    }

    /// What a command, with its parameters after a comma, is answered with.
    pub(crate) fn ask(&self, command: &str) -> Result<Value, Error> {
        let sent = send(self.socket.as_raw_fd(), command.as_bytes(), MsgFlags::MSG_NOSIGNAL);
        match sent {
            Ok(_) => {}
            Err(Errno::EPIPE | Errno::ECONNRESET) => return Err(Error::Gone),
            Err(errno) => return Err(Error::Socket(errno.into())),
        }
        let mut answer = self.receive(command)?;
        let name = command.split(',').next().unwrap_or_default();
        match answer.get_mut(name) {
            Some(value) => Ok(value.take()),
            None => Err(Error::Answer { command: command.to_owned(), answer: answer.to_string() }),
        }
    }

    /// The application has closed its end.
    pub(crate) fn is_closed(&self) -> bool {
        let mut fds = [PollFd::new(self.socket.as_fd(), PollFlags::empty())];
        let ended = PollFlags::POLLHUP | PollFlags::POLLERR;
        poll(&mut fds, PollTimeout::ZERO).is_ok()
            && fds[0].revents().is_some_and(|events| events.intersects(ended))
    }

    fn receive(&self, command: &str) -> Result<Value, Error> {
        let mut bytes = vec![0; ANSWER_BYTES_MAX];
        self.wait()?;
        let received = match recv(self.socket.as_raw_fd(), &mut bytes, MsgFlags::empty()) {
            Ok(0) | Err(Errno::ECONNRESET) => return Err(Error::Gone),
            Ok(received) => received,
            Err(errno) => return Err(Error::Socket(errno.into())),
        };
        // Some releases send the NUL at the end, too.
        let text = String::from_utf8_lossy(&bytes[..received]);
        let text = text.trim_end_matches('\0');
        serde_json::from_str(text)
            .map_err(|_| Error::Answer { command: command.to_owned(), answer: text.to_owned() })
    }

    fn wait(&self) -> Result<(), Error> {
        let until = Instant::now() + ANSWER_MAX;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let timeout = PollTimeout::try_from(left).unwrap_or(PollTimeout::MAX);
            let mut fds = [PollFd::new(self.socket.as_fd(), PollFlags::POLLIN)];
            match poll(&mut fds, timeout) {
                Ok(0) => return Err(Error::Socket(io::ErrorKind::TimedOut.into())),
                Ok(_) => return Ok(()),
                Err(Errno::EINTR) => {}
                Err(errno) => return Err(Error::Socket(errno.into())),
            }
        }
    }
}
