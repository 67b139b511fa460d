//! Runs eBPF programs one instruction at a time, checking everything: the reference that the JIT is compared with.
//!
//! In: a program, the segment with its maps, a context. Out: r0, and what the program did to maps and rings; or a
//! [`Fault`] naming the instruction and what it did wrong. Instructions are those of RFC 9669 but for the packet
//! group. A verified program never faults; [`run_unverified`] is for programs that nobody has checked (mutants).
//!
//! Runs BEGIN, END and interval programs where there is no JIT. Deliberately not fast.

#![forbid(unsafe_code)]

mod limits;

mod machine;

mod alu;

use thiserror::Error;
use weir_ebpf::{Insn, MapSpec, Program};
use weir_rt::executable::Frame;
use weir_rt::memory::Violation;
use weir_rt::segment::Segment;
use weir_verifier::VerifiedProgram;

/// What a run can reach besides its context.
#[derive(Clone, Copy, Debug)]
pub struct Environment<'a> {
    /// The maps, in the order of the program's object.
    pub segment: &'a Segment,
}

/// What a program did that none may do.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum Fault {
    #[error("instruction {pc}: {violation}")]
    Memory { pc: usize, violation: Violation },
    #[error("instruction {pc}: opcode {:#04x} with these fields means nothing", .insn.opcode)]
    Instruction { pc: usize, insn: Insn },
    #[error("instruction {pc}: a jump to {target}, outside the program or into a wide load")]
    Jump { pc: usize, target: i64 },
    #[error("instruction {pc}: calls nested deeper than {}", limits::CALL_DEPTH_MAX)]
    CallDepth { pc: usize },
    #[error("still running after {steps} steps")]
    Steps { steps: u64 },
    #[error("the segment has other maps than the program: {what}")]
    Maps { what: String },
    #[error("at the end: {violation}")]
    End { violation: Violation },
}

/// Runs a verified program with `frame` as its context; the answer is r0.
pub fn run(
    program: &VerifiedProgram,
    environment: &Environment<'_>,
    frame: &mut Frame,
) -> Result<u64, Fault> {
    machine::run(program.insns(), program.maps(), environment, frame, limits::VERIFIED_STEPS_MAX)
}

/// Runs any program for at most `steps` instructions. `maps`: those of its object.
pub fn run_unverified(
    program: &Program,
    maps: &[MapSpec],
    environment: &Environment<'_>,
    frame: &mut Frame,
    steps: u64,
) -> Result<u64, Fault> {
    machine::run(&program.insns, maps, environment, frame, steps)
}
