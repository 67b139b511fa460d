//! x86-64 code for verified programs: [`compile`], and [`disassemble()`] for `--emit asm`.
//!
//! In: a [`VerifiedProgram`] and the place it will run at ([`SiteAbi`]). Out: an [`Executable`] as
//! `weir_rt::executable` defines it: entered by `call`, context above the return address, nothing in registers;
//! it says which registers and flags it changes, which context slots it reads, and how deep its stack goes.
//!
//! The way: [`front`] makes one operation of each instruction, with what is known of registers; [`passes`] drop the dead ones and close the gaps, and, where flags may
//! change, make fewer operations of many; [`isa`] has the machines, of which there is one: its `emit` and the parts of that choose instructions, its `assembler` places them. Code that changes no flag is left as
//! it is: programs that have such a form are those that stand in probes, a dozen operations long.
//!
//! Guaranteed: the code does what RFC 9669 says of the program; it needs no run-time check, since the verifier's
//! proof covers every access; it changes no register or flag that it does not report. Local functions stand behind
//! the program in the same code, each with a frame of its own, and are reached by `call`.
//!
//! Deliberately not here: any interpreter (weir-interp is this crate's oracle, and this crate is its), linking
//! and mapping of code (weir-rt, weir-probe), other machines.

#![deny(missing_docs)]
#![forbid(unsafe_code)]

mod limits;

mod front;

mod passes;

mod isa;

pub use crate::isa::native::disassemble::disassemble;
#[doc(hidden)]
pub use crate::passes::Passes;

use weir_ebpf::context::{Field, memory};
use weir_ebpf::insn::{class, jmp, pseudo};
use weir_ebpf::pt_regs::SLOTS_WITH_FLOATS;
use weir_ebpf::{Insn, ProgramKind, kfunc};
use weir_rt::executable::{Executable, LanePolicy, SiteAbi};
use weir_verifier::VerifiedProgram;

use crate::front::lir::{Base, Op};
use crate::front::{alignment, lane_use, lower, places};
use crate::isa::native::emit::{self, Emitted};
use crate::isa::native::emitter::{CALLER_SAVED, Input};
use crate::passes::compact;
use crate::passes::liveness::{self, LiveRegs};

/// Why a verified program has no code.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum JitError {
    /// The verifier accepts the instruction, and machine code has no form of it.
    #[error("instruction {index}: opcode {opcode:#04x} is not supported in this form")]
    Instruction {
        /// Slot of the instruction.
        index: usize,
        /// Its first byte.
        opcode: u8,
    },
    /// weir has no such helper.
    #[error("instruction {index}: there is no helper {id}")]
    Helper {
        /// Slot of the call.
        index: usize,
        /// The kernel's number of the helper.
        id: i32,
    },
    /// The program takes per-CPU values for its own while it runs.
    #[error("the program reads or stores per-CPU values, for which the site has no lanes that runs claim")]
    NeedsLane,
    /// The program names a map that it has not.
    #[error("there is no map {index}")]
    Map {
        /// In the list of its maps.
        index: u32,
    },
    /// Elements could not be addressed by 32-bit offsets.
    #[error("map {index} is too large: its elements or lanes are more than 2 GiB apart")]
    MapTooLarge {
        /// In the list of the program's maps.
        index: u32,
    },
    /// The maps do not fit a segment.
    #[error("the maps have no layout: {0}")]
    Layout(#[from] weir_rt::segment::LayoutError),
    /// It is longer than the bound.
    #[error("the program has {insns} instructions, the limit is {limit}")]
    TooLong {
        /// Of the program.
        insns: usize,
        /// The most that are compiled.
        limit: usize,
    },
    /// It has a limit of rounds, of which a program that takes over knows nothing.
    #[error("a program with a limit of rounds makes no tail calls")]
    LimitedTailCalls,
    /// A branch that has a short form alone would have to reach further.
    #[error("the code is too long for a short jump")]
    OutOfReach,
}

/// Which form of code to choose.
#[doc(hidden)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Flags {
    /// Code that changes no flag, if the whole program can be written so; else the shorter form.
    #[default]
    KeepIfPossible,
    /// The shorter form.
    Change,
    /// The shorter form, with these passes alone.
    Only(Passes),
    /// Code without flags wherever an operation has it, even if the whole is not: for tests of those forms.
    KeepEach,
}

/// Compiles `program` for a site.
///
/// # Errors
/// What has no code: see [`JitError`]. Every program that weir's own compiler emits has.
pub fn compile(program: &VerifiedProgram, abi: &SiteAbi) -> Result<Executable, JitError> {
    compile_with(program, abi, Flags::default())
}

/// The same with a limit of rounds that each run is given ([`LocalProgram::run_limited`](weir_rt::local::LocalProgram::run_limited)):
/// of loops that only helpers, or `may_goto`, bound. Where it is used up, each such loop ends.
///
/// # Errors
/// As of [`compile`], and [`JitError::LimitedTailCalls`].
pub fn compile_limited(program: &VerifiedProgram, abi: &SiteAbi) -> Result<Executable, JitError> {
    compile_as(program, abi, Flags::default(), true)
}

/// [`compile`] with a say in the form: for tests and measurements.
#[doc(hidden)]
pub fn compile_with(program: &VerifiedProgram, abi: &SiteAbi, flags: Flags) -> Result<Executable, JitError> {
    compile_as(program, abi, flags, false)
}

fn compile_as(
    program: &VerifiedProgram,
    abi: &SiteAbi,
    flags: Flags,
    limits_rounds: bool,
) -> Result<Executable, JitError> {
    let insns = program.insns().len();
    if insns > limits::INSNS_MAX {
        return Err(JitError::TooLong { insns, limit: limits::INSNS_MAX });
    }
    if program.needs_lane() && !matches!(abi.lanes, LanePolicy::Claimed { .. }) {
        return Err(JitError::NeedsLane);
    }
    let places = places::places(program.maps(), abi)?;
    let mut ops = lower::lower(program, abi, &places)?;
    let live = liveness::drop_dead(&mut ops);
    // What passes make of the operations reads no other slots, and only one makes wider accesses.
    let context_reads = context_reads(program, &ops, &live);
    let may_misalign = alignment::may_misalign(program, &ops);
    let compact::Code { mut ops, live, functions, origins } =
        compact::compact(ops, live, program.functions());
    if limits_rounds && ops.iter().any(|op| matches!(op, Op::TailCall { .. })) {
        return Err(JitError::LimitedTailCalls);
    }
    let claims = lane_use::claims(program, abi);
    let passes = match flags {
        Flags::Only(passes) => passes,
        Flags::KeepIfPossible | Flags::Change | Flags::KeepEach => Passes::ALL,
    };
    // A register that stands for a place on the stack is not zero at entry.
    let passes = if program.zeroes_frames() { passes.minus(Passes::PROMOTE) } else { passes };
    let emit = |ops: &[Op], live: &LiveRegs, neutral: bool| {
        let (maps, kind, places) = (program.maps(), program.kind(), &places[..]);
        let zeroes_frames = program.zeroes_frames();
        let passes = if neutral { Passes::NONE } else { passes };
        emit::emit(Input {
            ops,
            live,
            abi,
            places,
            maps,
            kind,
            functions: &functions,
            origins: &origins,
            claims,
            limits_rounds,
            zeroes_frames,
            neutral,
            passes,
        })
    };
    // Most programs compare, which needs flags, so that trying would be in vain.
    let tries_neutral = match flags {
        Flags::KeepIfPossible => !ops.iter().any(needs_flags),
        Flags::KeepEach => true,
        Flags::Change | Flags::Only(_) => false,
    };
    if tries_neutral
        && let Ok(emitted) = emit(&ops, &live, true)
        && (flags == Flags::KeepEach || !emitted.assembled.clobbers_flags)
    {
        return Ok(executable(program, abi, &ops, context_reads, may_misalign, emitted));
    }
    let starts: Vec<usize> = functions.iter().map(|function| function.start).collect();
    let site = passes::Site { bmi2: abi.bmi2, claims, limits_rounds };
    let (live, has_gathered) = passes::run(&mut ops, live, &starts, site, passes);
    let emitted = emit(&ops, &live, false)?;
    Ok(executable(program, abi, &ops, context_reads, may_misalign || has_gathered, emitted))
}

fn executable(
    program: &VerifiedProgram,
    abi: &SiteAbi,
    ops: &[Op],
    context_reads: u32,
    may_misalign: bool,
    emitted: Emitted,
) -> Executable {
    let Emitted { assembled, tail_entry, stack_bytes } = emitted;
    // What takes over may read anything.
    let has_tail_calls = ops.iter().any(|op| matches!(op, Op::TailCall { .. }));
    Executable {
        name: program.name().to_owned(),
        kind: program.kind(),
        code: assembled.code,
        tail_entry,
        text_bytes: assembled.text_bytes,
        relocations: assembled.relocations,
        // The others are restored before the return.
        clobbers: assembled.clobbers & CALLER_SAVED,
        clobbers_flags: assembled.clobbers_flags,
        may_misalign,
        context_reads: if has_tail_calls { (1 << SLOTS_WITH_FLOATS) - 1 } else { context_reads },
        reads_cookie: has_tail_calls || ops.iter().any(|op| matches!(op, Op::Cookie { .. })),
        uses_session: has_tail_calls || uses_session(program),
        lanes: lane_use::lane_use(program, abi),
        writes_packet: has_tail_calls || program.writes_packet(),
        stack_bytes,
        origins: assembled.origins,
    }
}

/// It has no form that changes no flag.
fn needs_flags(op: &Op) -> bool {
    matches!(
        op,
        Op::Branch { .. }
            | Op::Helper { .. }
            | Op::Text { .. }
            | Op::Declared { .. }
            | Op::Reserve { .. }
            | Op::Output { .. }
    )
}

/// A kernel function about the session is reached.
fn uses_session(program: &VerifiedProgram) -> bool {
    let is_call = |insn: &Insn| {
        insn.opcode == class::JMP | jmp::CALL && insn.src == pseudo::KERNEL && kfunc::is_of_session(insn.imm)
    };
    program.insns().iter().zip(program.facts()).any(|(insn, facts)| facts.reachable && is_call(insn))
}

/// The verifier's answer, without the slots that only dead instructions read.
fn context_reads(program: &VerifiedProgram, ops: &[Op], live: &LiveRegs) -> u32 {
    if let ProgramKind::Memory { .. } = program.kind() {
        let reads =
            |register: u32, at| if live.at_entry >> register & 1 != 0 { Field::slots(at, 8) } else { 0 };
        return reads(1, memory::ADDRESS) | reads(2, memory::BYTES);
    }
    if live.at_entry >> 1 & 1 != 0 {
        return program.context_reads();
    }
    let mut slots = 0;
    for op in ops {
        match *op {
            Op::PacketLoad { .. } => slots |= u32::MAX,
            Op::Declared { ref copy, .. } => slots |= copy.declared.slots(),
            Op::Text { test } => slots |= 1u32.checked_shl(test.slot.into()).unwrap_or(0),
            // From here on the address may go anywhere.
            Op::Address { at, .. } if at.base == Base::Context => return program.context_reads(),
            Op::Load { at, .. } | Op::Lookup { key: at, .. } if at.base == Base::Context => {
                // An aligned field lies in one slot; what is not aligned may end in the next.
                for byte in at.offset..at.offset + 8 {
                    slots |=
                        u32::try_from(byte / 8).ok().and_then(|slot| 1u32.checked_shl(slot)).unwrap_or(0);
                }
            }
            _ => {}
        }
    }
    slots & program.context_reads()
}
