//! Runs programs in the kernel, through bpf(2), without attaching them.
//!
//! In: the maps and a program of an object. Out: descriptors ([`Maps`], [`Loaded`]) that live as long as their values,
//! and what a run by BPF_PROG_TEST_RUN answers ([`Ran`]); or the kernel's refusal, with its verifier's log.
//!
//! - XDP programs and socket filters are loaded as what they are. A packet has 14 bytes or more, which of a socket
//!   filter's are the link header; interface and queue are those of the loopback device.
//! - A program of memory is called by an XDP program that weir puts before it, which checks that the packet has the bytes
//!   and passes their address and number; its instructions stay as they are. Its result leaves in a map, since the kernel
//!   gives back 32 bits.
//! - Programs of probes are refused: the kernel runs those where they are attached, and nowhere else.
//!
//! Deliberately not here: attaching, pinning, BTF, and any opinion on a program.
//!
//! Interface: bpf(2), Linux include/uapi/linux/bpf.h.

mod map;
mod memory;
mod program;
mod syscall;

pub use map::Maps;
pub use program::{Input, Loaded, Ran, load};

use std::io;

use weir_ebpf::ProgramKind;

/// Why the kernel did not do it.
#[derive(Debug, thiserror::Error)]
pub enum KernelError {
    #[error("the kernel runs programs of kind {} only where they are attached", .kind.name())]
    Kind { kind: ProgramKind },
    #[error("the kernel tests programs of packets with {PACKET_BYTES_MIN} bytes or more, not with {bytes}")]
    Short { bytes: usize },
    #[error("bpf({call}) for {name}")]
    Call { call: &'static str, name: String, source: io::Error },
    #[error("bpf(BPF_PROG_LOAD) for {name}: {}", refusal(.source, .log))]
    Refused { name: String, source: io::Error, log: String },
}

impl KernelError {
    /// The kernel lacks what was asked for, or we lack the right to ask: nothing is wrong with the program.
    pub fn is_of_the_machine(&self) -> bool {
        match self {
            KernelError::Kind { .. } | KernelError::Short { .. } => false,
            KernelError::Call { .. } => true,
            KernelError::Refused { source, log, .. } => {
                log.is_empty() && source.raw_os_error() == Some(nix::libc::EPERM)
            }
        }
    }
}

/// Bytes of an Ethernet header, which the kernel wants of every packet in a test.
pub const PACKET_BYTES_MIN: usize = 14;

fn refusal(source: &io::Error, log: &str) -> String {
    match log.trim_end() {
        "" if source.raw_os_error() == Some(nix::libc::EPERM) => {
            format!("{source} (needs root, or CAP_BPF with CAP_NET_ADMIN or CAP_PERFMON)")
        }
        "" => source.to_string(),
        log => format!("{source}; its verifier says:\n{log}"),
    }
}
