//! Runs eBPF programs one instruction at a time, checking everything: the reference that the JIT is compared with.
//!
//! In: a program, its maps, a context. Out: r0, and what the program did to maps and rings; or a [`Fault`] naming the
//! instruction and what it did wrong. Instructions are those of RFC 9669. A verified program never faults; programs that
//! nobody has checked (mutants) may.
//!
//! The maps stand in a segment of weir-rt, on Linux on x86-64 (`run`), or in plain memory, on any machine ([`plain`]). Runs BEGIN, END and
//! interval programs where there is no JIT. Deliberately not fast: `threaded` is, for verified programs.

#![deny(missing_docs)]

mod limits;

mod machine;

mod callback;

mod alu;

pub mod plain;

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod segment;

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
pub mod threaded;

use thiserror::Error;
use weir_ebpf::{Insn, MapSpec, Program, ProgramKind};
use weir_memory::{Memory, Violation};
use weir_verifier::VerifiedProgram;

use crate::machine::Code;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
pub use crate::segment::{
    Environment, run, run_among, run_limited, run_numbered, run_unverified, run_watched,
};

/// A run before one of its instructions.
#[derive(Debug)]
pub struct Moment<'a, M> {
    /// Slot of the instruction that is about to run.
    pub at: usize,
    /// Calls under way, callbacks among them.
    pub depth: usize,
    /// r0 to r10 as they are before it.
    pub registers: &'a [u64; 11],
    /// What the program may access.
    pub memory: &'a M,
}

/// What a program did that none may do.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[non_exhaustive]
pub enum Fault {
    /// It reads or writes what it may not.
    #[error("instruction {pc}: {violation}")]
    Memory {
        /// Slot of the access.
        pc: usize,
        /// What the access would have done.
        violation: Violation,
    },
    /// There is no such instruction.
    #[error("instruction {pc}: opcode {:#04x} with these fields means nothing", .insn.opcode)]
    Instruction {
        /// Slot of the instruction.
        pc: usize,
        /// As it is there.
        insn: Insn,
    },
    /// r6 is not the context, which a load of a packet's bytes is relative to.
    #[error("instruction {pc}: a packet load needs the context in r6, which is {r6:#x}")]
    PacketLoad {
        /// Slot of the load.
        pc: usize,
        /// What stands where the context should.
        r6: u64,
    },
    /// It would go on where no instruction begins.
    #[error("instruction {pc}: a jump to {target}, outside the program or into a wide load")]
    Jump {
        /// Slot of the jump.
        pc: usize,
        /// Slot that it leads to.
        target: i64,
    },
    /// Its calls are nested too deep.
    #[error("instruction {pc}: calls nested deeper than {}", limits::CALL_DEPTH_MAX)]
    CallDepth {
        /// Slot of the call.
        pc: usize,
    },
    /// It gives a helper something to call that is no function.
    #[error("instruction {pc}: {value:#x} is no function of the program")]
    Callback {
        /// Slot of the call.
        pc: usize,
        /// What was given for a function.
        value: u64,
    },
    /// A callback returned something other than 0 and 1.
    #[error("instruction {pc}: a callback answers {value:#x}, not 0 or 1")]
    Answer {
        /// Where the callback returned.
        pc: usize,
        /// What it returned.
        value: u64,
    },
    /// It ran for longer than it was allowed to.
    #[error("still running after {steps} steps")]
    Steps {
        /// How many ran.
        steps: u64,
    },
    /// A program of this kind cannot be given this context.
    #[error("a program of kind {kind} needs a context of that kind")]
    Context {
        /// Of the program.
        kind: ProgramKind,
    },
    /// Its maps are not those of the memory that it was given.
    #[error("the segment has other maps than the program: {what}")]
    Maps {
        /// What is wrong with them.
        what: String,
    },
    /// It went through more rounds of its loops than it was allowed to.
    #[error("its loops went through more rounds than a run may")]
    Rounds,
    /// It ended with something open: a reference, or a record.
    #[error("at the end: {violation}")]
    End {
        /// What was left undone.
        violation: Violation,
    },
}

/// A verified program, and those that tail calls lead to, by number.
#[derive(Clone, Copy)]
struct Verified<'a> {
    program: &'a VerifiedProgram,
    others: &'a [Option<&'a VerifiedProgram>],
    /// Rounds of the run, where they are limited.
    rounds: Option<u32>,
}

impl Verified<'_> {
    fn run<M: Memory>(self, memory: M) -> Result<(u64, M::Left), Fault> {
        let Verified { program, others, rounds } = self;
        let there = || others.iter().copied().flatten();
        if let Some(other) = there().find(|other| other.maps() != program.maps()) {
            return Err(Fault::Maps { what: format!("{} is of another object", other.name()) });
        }
        if there().any(|other| other.kind() != program.kind()) {
            return Err(Fault::Context { kind: program.kind() });
        }
        let zeroes_frames = program.zeroes_frames() || there().any(VerifiedProgram::zeroes_frames);
        let others: Vec<&[Insn]> =
            others.iter().map(|other| other.map_or(&[][..], VerifiedProgram::insns)).collect();
        let code = Code {
            kind: program.kind(),
            insns: program.insns(),
            maps: program.maps(),
            others: &others,
            is_verified: true,
            zeroes_frames,
            rounds_max: rounds.map(|rounds| rounds.saturating_add(1)),
        };
        machine::run(code, memory, limits::VERIFIED_STEPS_MAX, &mut |_| {})
    }
}

/// Runs any program for at most `steps` instructions; `watch` is called before each.
fn watched<M: Memory>(
    program: &Program,
    maps: &[MapSpec],
    memory: M,
    steps: u64,
    watch: &mut dyn FnMut(Moment<'_, M>),
) -> Result<(u64, M::Left), Fault> {
    let code = Code {
        kind: program.kind,
        insns: &program.insns,
        maps,
        others: &[],
        is_verified: false,
        zeroes_frames: true,
        rounds_max: None,
    };
    machine::run(code, memory, steps, watch)
}
