//! Capture files that are read. Standard input is read so that a signal ends the wait for it.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::Path;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use weir_capture::files::Open;

/// Opens files, and standard input for `-`. `signals` is readable when the wait is to end; it is not read here.
pub(super) fn opener(signals: Option<OwnedFd>) -> Open {
    let mut signals = signals;
    Box::new(move |path: &Path| {
        Ok(match path == Path::new("-") {
            true => Box::new(Waiting { signals: signals.take() }) as Box<dyn Read>,
            false => Box::new(File::open(path)?),
        })
    })
}

/// Standard input, which ends at a signal.
struct Waiting {
    signals: Option<OwnedFd>,
}

impl Read for Waiting {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let input = io::stdin();
        if let Some(signals) = &self.signals {
            let mut watched = [
                PollFd::new(input.as_fd(), PollFlags::POLLIN),
                PollFd::new(signals.as_fd(), PollFlags::POLLIN),
            ];
            poll(&mut watched, PollTimeout::NONE)?;
            if watched[1].any().unwrap_or(false) {
                return Ok(0);
            }
        }
        input.lock().read(buffer)
    }
}
