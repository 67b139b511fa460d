//! Why a module cannot be compiled: what was given and what the limit is, with the clause as the user wrote it.

use weir_ebpf::map::{RING_BYTES_MAX, RING_BYTES_MIN};

use crate::limits;

#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum CodegenError {
    /// A bug of whoever built the module.
    #[error("the module is not valid: {}", .0.join("; "))]
    Invalid(Vec<String>),
    #[error("a ring of {bytes} bytes: a power of two from {RING_BYTES_MIN} to {RING_BYTES_MAX} is wanted")]
    Ring { bytes: u32 },
    #[error("{clause}: reading a per-CPU aggregation inside a probe is not supported yet ({map})")]
    ReadsPerCpu { clause: String, map: String },
    #[error(
        "{clause}: delete({map}): a per-CPU aggregation without a key can only be cleared, by clear({map})"
    )]
    DeletesPerCpu { clause: String, map: String },
    #[error(
        "{clause}: its keys, strings and values need {bytes} bytes of stack, and a program has {max}{}",
        beside_callee(*.max)
    )]
    Stack { clause: String, bytes: u32, max: u32 },
    #[error(
        "{clause}: its strings need {bytes} bytes at once, and the limit is {max}",
        max = limits::SCRATCH_BYTES_MAX
    )]
    Scratch { clause: String, bytes: u32 },
    #[error("{clause}: it needs a record of {bytes} bytes, and the ring takes {max}")]
    Record { clause: String, bytes: u32, max: u32 },
    #[error(
        "the tables of its patterns need {bytes} bytes, and the limit is {max}",
        max = limits::AUTOMATA_BYTES_MAX
    )]
    Automata { bytes: usize },
    /// A bug of whoever calls.
    #[error("{clause}: it calls a program, and none was given")]
    NoCallee { clause: String },
    #[error("{clause}: {insns} instructions, and the limit is {max}", max = limits::INSNS_MAX)]
    TooLong { clause: String, insns: usize },
}

fn beside_callee(max: u32) -> &'static str {
    if max < limits::STACK_BYTES_MAX { " beside the program that it calls" } else { "" }
}
