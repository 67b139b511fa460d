//! Runs programs in the kernel, through bpf(2): when they are called, or at probes.
//!
//! In: the maps and a program of an object. Out: descriptors ([`Maps`], [`Loaded`], [`Probe`], [`Link`]) that live as long as their values,
//! what a run by BPF_PROG_TEST_RUN answers ([`Ran`]), records ([`Ring`]); or the kernel's refusal, with its verifier's log.
//!
//! - XDP programs, classifiers and socket filters are loaded as what they are. What a packet must have at least says
//!   [`bytes_min`]; a socket filter's begins behind its link header; interface and queue are those of the loopback
//!   device.
//! - A program of memory is called by an XDP program that weir puts before it, which checks that the packet has the
//!   bytes and passes their address and number; its instructions stay as they are. Its result leaves in a map, since
//!   the kernel gives back 32 bits.
//! - [`load`] refuses programs of probes: the kernel runs those where they are attached, and nowhere else. [`Probe`] attaches them to uprobes, in
//!   the ways that the kernel has ([`Features`]), and [`AtEvent`] to what only the kernel sees; a program of the controller runs as a raw
//!   tracepoint's ([`Called`]). What the kernel lists is read by an [`Iteration`]. [`lacks()`] names what a kernel has not.
//! - The functions of a program that has callbacks are described in BTF; others go without.
//!
//! Deliberately not here: pinning, which places a script means, and any opinion on a program.
//!
//! Interface: bpf(2), Linux include/uapi/linux/bpf.h.

#![deny(missing_docs)]

mod event;
mod features;
mod functions;
mod iterator;
mod lacks;
mod map;
mod memory;
mod perf;
mod probe;
mod program;
mod ring;
mod syscall;
mod table;

pub use event::{AtEvent, keeps_calls_of, tracepoints};
pub use features::{Features, SessionFunctions, may_probe};
pub use functions::Functions;
pub use iterator::Iteration;
pub use lacks::{Lack, lacks};
pub use map::{Command, Entry, Maps, possible_cpus};
pub use probe::{Called, End, Link, Place, Probe};
pub use program::{Input, Loaded, ProgType, Ran, load, load_as};
pub use ring::Ring;
pub use table::{STACK_BYTES, Scalar, Tables, shares_maps};

use std::io;
use std::path::PathBuf;

use weir_ebpf::ProgramKind;

/// Why the kernel did not do it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KernelError {
    /// The kernel has no such kind of program, or weir does not run it there.
    #[error("the kernel runs programs of kind {} only where they are attached", .kind.name())]
    Kind {
        /// Of the program.
        kind: ProgramKind,
    },
    /// The context that was given is too short.
    #[error("the kernel tests programs of kind {} with such packets of {least} bytes or more, not of {bytes}", .kind.name())]
    Short {
        /// Of the program.
        kind: ProgramKind,
        /// Bytes that the kernel wants of its context.
        least: usize,
        /// Bytes that were given.
        bytes: usize,
    },
    /// bpf(2) failed.
    #[error("bpf({call}) for {name}{}", rights(.source))]
    Call {
        /// The system call, or its command.
        call: &'static str,
        /// Of the map or program.
        name: String,
        /// What the kernel said.
        source: io::Error,
    },
    /// The number of CPUs is not known, which per-CPU values need.
    #[error("cannot read /sys/devices/system/cpu/possible, by which the kernel has a value for each CPU")]
    Cpus(#[source] io::Error),
    /// The kernel did not attach a program.
    #[error("attaching {name} to {}{}", .file.display(), rights(.source))]
    Attach {
        /// Of the program.
        name: String,
        /// What it was to be attached to.
        file: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
    /// The kernel's verifier refused a program.
    #[error("bpf(BPF_PROG_LOAD) for {name}: {}", refusal(.error, .log))]
    Refused {
        /// Of the program.
        name: String,
        /// What the kernel said.
        error: io::Error,
        /// The log of its verifier.
        log: String,
    },
}

impl KernelError {
    /// The kernel lacks what was asked for, or we lack the right to ask: nothing is wrong with the program.
    pub fn is_of_the_machine(&self) -> bool {
        match self {
            KernelError::Kind { .. } | KernelError::Short { .. } => false,
            KernelError::Call { .. } | KernelError::Attach { .. } | KernelError::Cpus(_) => true,
            KernelError::Refused { error, log, .. } => {
                log.is_empty() && error.raw_os_error() == Some(nix::libc::EPERM)
            }
        }
    }
}

/// Bytes of an Ethernet header.
const LINK_BYTES: usize = 14;

/// Bytes that the kernel wants of a packet like this in a test (tried on Linux 6.18): its Ethernet header; of a socket
/// filter's and a classifier's also the IPv4 or IPv6 header that it names.
pub fn bytes_min(kind: ProgramKind, packet: &[u8]) -> usize {
    let behind = match (kind.is_sk_buff(), packet.get(12..LINK_BYTES)) {
        (true, Some([0x08, 0x00])) => 20,
        (true, Some([0x86, 0xdd])) => 40,
        _ => 0,
    };
    LINK_BYTES + behind
}

/// What is missing, where that is a right.
fn rights(error: &io::Error) -> &'static str {
    match error.raw_os_error() {
        Some(nix::libc::EPERM) => " (needs root, or CAP_BPF with CAP_NET_ADMIN or CAP_PERFMON)",
        _ => "",
    }
}

/// Lines of the verifier's log that a message has: its last ones say what is wrong.
const LOG_LINES_MAX: usize = 24;

fn refusal(error: &io::Error, log: &str) -> String {
    let log = log.trim_end();
    if log.is_empty() {
        return format!("{error}{}", rights(error));
    }
    let left_out = log.lines().count().saturating_sub(LOG_LINES_MAX);
    let last: Vec<&str> = log.lines().skip(left_out).collect();
    let of = if left_out == 0 {
        String::new()
    } else {
        format!(" (the last {LOG_LINES_MAX} lines of {})", left_out + LOG_LINES_MAX)
    };
    format!("{error}; its verifier says{of}:\n{}", last.join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_has_the_end_of_a_long_log() {
        let error = || io::Error::from_raw_os_error(nix::libc::ENOSPC);
        let log: String = (1..=1000).map(|line| format!("line {line}\n")).collect();
        let text = refusal(&error(), &log);
        assert!(
            text.contains("says (the last 24 lines of 1000):\nline 977\n") && text.ends_with("\nline 1000"),
            "{text}"
        );
        assert!(refusal(&error(), "one\ntwo\n").ends_with("says:\none\ntwo"));
    }
}
