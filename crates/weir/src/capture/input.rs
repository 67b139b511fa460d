//! Capture files that are read. Standard input says when it has nothing yet, so that what was read is written meanwhile.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::Path;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use weir_capture::files::{Input, Open};

/// Opens files, and standard input for `-`. `signals` is readable when the wait for its first bytes is to end; it is not read here.
pub(super) fn opener(signals: Option<OwnedFd>) -> Open {
    let mut signals = signals;
    Box::new(move |path: &Path| {
        Ok(match path == Path::new("-") {
            true => Input {
                bytes: Box::new(Stdin { signals: signals.take(), given: 0 }),
                descriptor: Some(io::stdin().as_fd().try_clone_to_owned()?),
            },
            false => Input { bytes: Box::new(File::open(path)?), descriptor: None },
        })
    })
}

/// Bytes that a reader of capture files needs before it can be asked again: the head of a classic file.
const HEAD: u64 = 24;

/// Standard input without std's buffer.
struct Stdin {
    signals: Option<OwnedFd>,
    given: u64,
}

impl Read for Stdin {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let input = io::stdin();
        let mut watched = vec![PollFd::new(input.as_fd(), PollFlags::POLLIN)];
        watched.extend(self.signals.iter().map(|signals| PollFd::new(signals.as_fd(), PollFlags::POLLIN)));
        let wait = if self.given < HEAD { PollTimeout::NONE } else { PollTimeout::ZERO };
        poll(&mut watched, wait)?;
        let is_ready = |fd: Option<&PollFd<'_>>| fd.is_some_and(|fd| fd.any().unwrap_or(false));
        if !is_ready(watched.first()) {
            // Before its head has come, a signal ends the file.
            return if self.given < HEAD { Ok(0) } else { Err(io::ErrorKind::WouldBlock.into()) };
        }
        let given = nix::unistd::read(input.as_fd(), buffer)?;
        self.given += given as u64;
        Ok(given)
    }
}
