//! `weir record --to -`: standard output as the pipe that a trace is sent through.
//!
//! In: this process's standard output. Out: a [`Sender`] to it. From then on standard output is standard error, for this process and for what it starts: a
//! recorded command prints as ever, and no byte of it comes into the trace.

use std::fs::File;
use std::io::{self, ErrorKind, IsTerminal as _, Write};
use std::os::fd::{AsFd, BorrowedFd};

use anyhow::{Context as _, anyhow};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{SigSet, SigmaskHow};
use nix::sys::stat::{SFlag, fstat};
use nix::unistd::dup2_stdout;
use weir_trace::pipe::Sender;

use crate::failure::Failure;

/// What messages call it.
const NAME: &str = "standard output";

/// Waits for room where the pipe is O_NONBLOCK. Any process that has it may change that at any time.
struct Waiting(File);

impl Write for Waiting {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        loop {
            match self.0.write(bytes) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    // A reader that is gone makes it writable, too: the write says what is wrong.
                    poll(&mut [PollFd::new(self.0.as_fd(), PollFlags::POLLOUT)], PollTimeout::NONE)?;
                }
                written => return written,
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

pub(crate) fn pipe() -> Result<Sender, Failure> {
    let (out, err) = (io::stdout(), io::stderr());
    if out.is_terminal() {
        return Err(Failure::Usage(anyhow!(
            "--to -: standard output is a terminal, and a trace is no text: `weir record … --to - | weir view --follow -` shows it, \
             `--to - > FILE` keeps it for `weir view FILE`"
        )));
    }
    if is_one(out.as_fd(), err.as_fd()) {
        return Err(Failure::Usage(anyhow!(
            "--to -: standard error goes where standard output does, and its messages would damage the trace: leave out `2>&1`"
        )));
    }
    let to = out.as_fd().try_clone_to_owned().context(NAME).map_err(Failure::Machine)?;
    dup2_stdout(err).context("standard error in place of standard output").map_err(Failure::Machine)?;
    // The thread that writes takes no signal from who reads them.
    let mask = SigSet::all().thread_swap_mask(SigmaskHow::SIG_BLOCK);
    let mask = mask.context("blocking signals").map_err(Failure::Machine)?;
    let sender =
        Sender::start(Waiting(File::from(to)), NAME).context("starting a thread").map_err(Failure::Machine);
    mask.thread_set_mask().context("the signal mask").map_err(Failure::Machine)?;
    sender
}

/// Both are one pipe, socket or file: what is written to one is mixed with what is written to the other.
fn is_one(one: BorrowedFd<'_>, other: BorrowedFd<'_>) -> bool {
    let (Ok(one), Ok(other)) = (fstat(one), fstat(other)) else { return false };
    let kind = SFlag::from_bits_truncate(one.st_mode) & SFlag::S_IFMT;
    let is_kept = kind == SFlag::S_IFIFO || kind == SFlag::S_IFSOCK || kind == SFlag::S_IFREG;
    is_kept && (one.st_dev, one.st_ino) == (other.st_dev, other.st_ino)
}
