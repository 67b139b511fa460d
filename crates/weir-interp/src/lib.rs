//! Runs eBPF programs one instruction at a time, checking everything: the reference that the JIT is compared with.
//!
//! In: a program, the segment with its maps, a context. Out: r0, and what the program did to maps and rings; or a
//! [`Fault`] naming the instruction and what it did wrong. Instructions are those of RFC 9669. A verified program never
//! faults; [`run_unverified`] is for programs that nobody has checked (mutants).
//!
//! Runs BEGIN, END and interval programs where there is no JIT. Deliberately not fast: [`threaded`] is, for verified
//! programs.

#![deny(missing_docs)]

mod limits;

mod machine;

mod callback;

mod alu;

pub mod threaded;

use thiserror::Error;
use weir_ebpf::{Insn, MapSpec, Program, ProgramKind};
use weir_rt::ContextMut;
use weir_rt::memory::{Space, Violation};
use weir_rt::segment::Segment;
use weir_verifier::VerifiedProgram;

use crate::machine::Code;

/// What a run can reach besides its context.
#[derive(Clone, Copy, Debug)]
pub struct Environment<'a> {
    /// The maps, in the order of the program's object.
    pub segment: &'a Segment,
}

/// A run before one of its instructions.
#[derive(Clone, Copy, Debug)]
pub struct Moment<'a> {
    /// Slot of the instruction that is about to run.
    pub at: usize,
    /// Calls under way, callbacks among them.
    pub depth: usize,
    /// r0 to r10 as they are before it.
    pub registers: &'a [u64; 11],
    /// What the program may access.
    pub memory: &'a Space<'a>,
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

/// Runs a verified program with a `Frame` or a `Context`, which holds afterwards what the program left in it; the
/// answer is r0.
pub fn run<'c>(
    program: &VerifiedProgram,
    environment: &Environment<'_>,
    context: impl Into<ContextMut<'c>>,
) -> Result<u64, Fault> {
    run_among(&[], program, environment, context)
}

/// The same with programs that tail calls lead to: the numbers in an array of programs are those of `others`. All are
/// of one object.
pub fn run_among<'c>(
    others: &[&VerifiedProgram],
    program: &VerifiedProgram,
    environment: &Environment<'_>,
    context: impl Into<ContextMut<'c>>,
) -> Result<u64, Fault> {
    let others: Vec<Option<&VerifiedProgram>> = others.iter().copied().map(Some).collect();
    run_numbered(&others, program, environment, context)
}

/// The same where some numbers are of no program, and lead nowhere.
pub fn run_numbered<'c>(
    others: &[Option<&VerifiedProgram>],
    program: &VerifiedProgram,
    environment: &Environment<'_>,
    context: impl Into<ContextMut<'c>>,
) -> Result<u64, Fault> {
    run_verified(others, program, environment, context.into(), None)
}

/// The same with so many rounds, at most, of loops that only helpers and `may_goto` bound; where there would be more, each such
/// loop ends, and so does the run, in [`Fault::Rounds`].
pub fn run_limited<'c>(
    program: &VerifiedProgram,
    environment: &Environment<'_>,
    context: impl Into<ContextMut<'c>>,
    rounds: u32,
) -> Result<u64, Fault> {
    run_verified(&[], program, environment, context.into(), Some(rounds))
}

fn run_verified(
    others: &[Option<&VerifiedProgram>],
    program: &VerifiedProgram,
    environment: &Environment<'_>,
    mut context: ContextMut<'_>,
    rounds: Option<u32>,
) -> Result<u64, Fault> {
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
    machine::run(code, environment, &mut context, limits::VERIFIED_STEPS_MAX, &mut |_| {})
}

/// Runs any program for at most `steps` instructions. `maps`: those of its object.
pub fn run_unverified<'c>(
    program: &Program,
    maps: &[MapSpec],
    environment: &Environment<'_>,
    context: impl Into<ContextMut<'c>>,
    steps: u64,
) -> Result<u64, Fault> {
    run_watched(program, maps, environment, context, steps, &mut |_| {})
}

/// The same, and `watch` is called before each instruction.
pub fn run_watched<'c>(
    program: &Program,
    maps: &[MapSpec],
    environment: &Environment<'_>,
    context: impl Into<ContextMut<'c>>,
    steps: u64,
    watch: &mut dyn FnMut(Moment<'_>),
) -> Result<u64, Fault> {
    let code = Code {
        kind: program.kind,
        insns: &program.insns,
        maps,
        others: &[],
        is_verified: false,
        zeroes_frames: true,
        rounds_max: None,
    };
    machine::run(code, environment, &mut context.into(), steps, watch)
}
