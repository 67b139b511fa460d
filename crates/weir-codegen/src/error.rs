//! Why a module cannot be compiled: what was given and what the limit is, with the clause as the user wrote it.

use weir_ebpf::map::{RING_BYTES_MAX, RING_BYTES_MIN};

use crate::limits;

/// Why a module has no program.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CodegenError {
    /// A bug of whoever built the module.
    #[error("the module is not valid: {}", .0.join("; "))]
    Invalid(Vec<String>),
    /// The ring has a size that no ring has.
    #[error("a ring of {bytes} bytes: a power of two from {RING_BYTES_MIN} to {RING_BYTES_MAX} is wanted")]
    Ring {
        /// What was asked for.
        bytes: u32,
    },
    #[error(
        "{clause}: its keys, strings and values need {bytes} bytes of stack, and a program has {max}{}",
        beside_callee(*.max)
    )]
    /// A clause needs more stack than a program has.
    Stack {
        /// The probe, as it is written.
        clause: String,
        /// What its values need.
        bytes: u32,
        /// What a program has.
        max: u32,
    },
    #[error(
        "{clause}: its strings need {bytes} bytes at once, and the limit is {max}",
        max = limits::SCRATCH_BYTES_MAX
    )]
    /// A clause needs more scratch memory than there is.
    Scratch {
        /// The probe, as it is written.
        clause: String,
        /// What its strings and keys need.
        bytes: u32,
    },
    /// The kernel has nothing for it.
    #[error("{clause}: not supported by weir yet with the kernel's engine: {what}")]
    NotInKernel {
        /// The probe, as it is written.
        clause: String,
        /// What is not there.
        what: &'static str,
    },
    /// A record would seldom find room.
    #[error("{clause}: it needs a record of {bytes} bytes, and the ring takes {max}")]
    Record {
        /// The probe, as it is written.
        clause: String,
        /// Of the record.
        bytes: u32,
        /// Half of the ring.
        max: u32,
    },
    #[error(
        "the tables of its patterns need {bytes} bytes, and the limit is {max}",
        max = limits::AUTOMATA_BYTES_MAX
    )]
    /// The regular expressions of the script are too many or too large.
    Automata {
        /// Of all tables.
        bytes: usize,
    },
    /// A bug of whoever calls.
    #[error("{clause}: it calls a program, and none was given")]
    NoCallee {
        /// The probe, as it is written.
        clause: String,
    },
    /// A clause has come to more instructions than jumps reach over.
    #[error("{clause}: {insns} instructions, and the limit is {max}", max = limits::INSNS_MAX)]
    TooLong {
        /// The probe, as it is written.
        clause: String,
        /// Instructions that it came to.
        insns: usize,
    },
}

impl CodegenError {
    /// The name of the clause that it is about.
    pub fn clause(&self) -> Option<&str> {
        match self {
            CodegenError::Stack { clause, .. }
            | CodegenError::Scratch { clause, .. }
            | CodegenError::NotInKernel { clause, .. }
            | CodegenError::Record { clause, .. }
            | CodegenError::NoCallee { clause }
            | CodegenError::TooLong { clause, .. } => Some(clause),
            CodegenError::Invalid(_) | CodegenError::Ring { .. } | CodegenError::Automata { .. } => None,
        }
    }
}

fn beside_callee(max: u32) -> &'static str {
    if max < limits::STACK_BYTES_MAX { " beside the program that it calls" } else { "" }
}
