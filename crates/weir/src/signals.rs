//! Signals that end a program → a descriptor that they are read from.

use anyhow::Context as _;
use nix::sys::signal::{SigSet, SigmaskHow, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};

use crate::failure::Failure;

/// From here on SIGINT, SIGTERM, SIGHUP and `more` end nothing by themselves.
pub(crate) fn blocked(more: impl IntoIterator<Item = Signal>) -> Result<SignalFd, Failure> {
    let mut signals = SigSet::from_iter([Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP]);
    signals.extend(more);
    // A file that may not grow further (RLIMIT_FSIZE) is an error of the write, like a full disk.
    let blocked = SigSet::from_iter(signals.iter().chain([Signal::SIGXFSZ]));
    let old_mask = blocked.thread_swap_mask(SigmaskHow::SIG_BLOCK);
    old_mask.context("blocking signals").map_err(Failure::Machine)?;
    let flags = SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC;
    SignalFd::with_flags(&signals, flags).context("signalfd").map_err(Failure::Machine)
}
