//! What the files of this machine write code with: the emitter, where registers live, and what is put off until the rest stands.
//!
//! Here is the data; [`crate::isa::x86_64::emit`] and the files that it names have what is done with it.

use std::collections::BTreeMap;

use weir_ebpf::ProgramKind;
use weir_ebpf::kfunc::{DeclaredCopy, TextTest};
use weir_rt::executable::SiteAbi;
use weir_verifier::Function;

use crate::front::lir::{AtomicOp, Op, Operand, REGISTERS, Size, Test};
use crate::front::places::MapPlace;
use crate::front::reservation::Reservation;
use crate::isa::x86_64::assembler::{Assembler, Label};
use crate::isa::x86_64::encode::{Cond, Reg, Width};
use crate::passes::Passes;
use crate::passes::liveness::LiveRegs;

/// The operations with everything that emitting them needs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Input<'a> {
    pub(crate) ops: &'a [Op],
    pub(crate) live: &'a LiveRegs,
    pub(crate) abi: &'a SiteAbi,
    pub(crate) places: &'a [MapPlace],
    pub(crate) maps: &'a [weir_ebpf::MapSpec],
    pub(crate) kind: ProgramKind,
    /// Where they begin, and the deepest byte of their frames that is touched, from the verifier.
    pub(crate) functions: &'a [Function],
    /// By operation: the instruction that it comes from.
    pub(crate) origins: &'a [u32],
    /// A run claims a lane at entry.
    pub(crate) claims: bool,
    /// A run has as many rounds of loops that only helpers and `may_goto` bound as its frame says.
    pub(crate) limits_rounds: bool,
    /// Frames are zero when they begin.
    pub(crate) zeroes_frames: bool,
    /// Choose forms that change no flag.
    pub(crate) neutral: bool,
    /// What the emitter does of them: none, where it may change no flag.
    pub(crate) passes: Passes,
}

/// Registers that a C function may change (System V AMD64 psABI, 3.2.1).
pub(crate) const CALLER_SAVED: u16 = 1 << Reg::Rax as u16
    | 1 << Reg::Rcx as u16
    | 1 << Reg::Rdx as u16
    | 1 << Reg::Rsi as u16
    | 1 << Reg::Rdi as u16
    | 1 << Reg::R8 as u16
    | 1 << Reg::R9 as u16
    | 1 << Reg::R10 as u16
    | 1 << Reg::R11 as u16;

/// Where r0..r9 live, and the registers of places on the stack.
const ASSIGNMENT: [Reg; REGISTERS] = {
    use Reg::{R8, R9, R10, R12, R13, R14, R15, Rax, Rbx, Rcx, Rdi, Rdx, Rsi};
    [Rax, Rdi, Rsi, Rdx, Rcx, R8, Rbx, R13, R14, R15, R12, R9, R10]
};

/// The x86 register of a register of [`crate::front::lir`].
pub(crate) fn phys(reg: u8) -> Reg {
    ASSIGNMENT[usize::from(reg)]
}

/// The frame of the program, or of a local function.
#[derive(Debug, Default)]
pub(super) struct Frame {
    pub(super) saved: Vec<Reg>,
    /// Bytes of the program's stack, and the same with padding.
    pub(super) used: u32,
    pub(super) stack: u32,
    /// The stack lies in the red zone.
    pub(super) red_zone: bool,
    /// It claims a lane, and gives it back.
    pub(super) claims: bool,
    /// It takes the rounds of the run from its caller's frame, and leaves there what is left.
    pub(super) limits: bool,
    /// Most bytes that a helper takes which it calls; 0: it calls none.
    pub(super) helper_bytes: u32,
    /// First slots of the functions it calls.
    pub(super) callees: Vec<usize>,
}

/// The register of the run's state: the program saves it for its caller; functions and helpers leave it alone.
pub(crate) const RUN: Reg = Reg::R12;

/// A branch that an operation can do.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BranchOnAnswer {
    pub(crate) slot: usize,
    pub(super) target: usize,
    pub(crate) is_taken_if_zero: bool,
}

/// Code that stands behind the rest.
#[derive(Debug)]
pub(crate) struct Cold {
    pub(crate) from: usize,
    pub(crate) entry: Label,
    pub(crate) back: Label,
    pub(crate) what: ColdCode,
}

#[derive(Debug)]
pub(crate) enum ColdCode {
    /// The divisor is 0 or (signed) −1: see [`crate::isa::x86_64::arith`].
    Division(Special),
    /// The thread has no lane of its own: see [`crate::isa::x86_64::lanes`].
    SharedLane(Change),
    /// The offset of a packet load is negative: see [`crate::isa::x86_64::packets`].
    BeforePacket,
    /// The abort handler of a section: starts it again at `back`; `entry` follows the signature.
    Abort {
        signature: u32,
    },
    /// The lane of the run's CPU is taken: see [`crate::isa::x86_64::claim`].
    Claim,
    /// See [`crate::isa::x86_64::records`].
    SharedRing(Reservation, Filling),
    FullRing(Reservation, Filling),
    /// The text is null, or may end behind its page: see [`crate::isa::x86_64::texts`].
    Text {
        test: TextTest,
        differs: Label,
    },
    /// What is longer or cannot be done in line: see [`crate::isa::x86_64::declared`].
    Declared(DeclaredCopy),
}

#[derive(Debug)]
pub(crate) struct Emitter<'a> {
    pub(crate) asm: Assembler,
    pub(crate) input: Input<'a>,
    pub(crate) cold: Vec<Cold>,
    /// The operation being emitted.
    pub(crate) now: usize,
    pub(super) frame: Frame,
    /// Of the operations that something jumps to.
    pub(super) labels: Vec<Option<Label>>,
    /// See [`crate::passes::inversions::inversions`].
    pub(super) inversions: Vec<Option<usize>>,
    pub(super) has_inversions: bool,
    /// Of the loops that are aligned: see [`crate::passes::blocks::loops`].
    pub(super) loops: Vec<Option<usize>>,
    /// By first slot: of the functions that something calls, before their frame is made.
    pub(super) callees: BTreeMap<usize, Label>,
    pub(super) epilogue: Option<Label>,
    /// Where tail calls enter.
    pub(crate) tail_entry: u32,
    /// Where packet loads that find nothing go.
    pub(crate) no_packet: Option<Label>,
    /// The branch that the operation before it has done.
    pub(super) branch_done: Option<usize>,
    /// The next question is about the same text: see [`crate::isa::x86_64::texts`].
    pub(crate) text_by_bytes: Option<Label>,
}

pub(crate) fn condition(test: Test) -> Cond {
    match test {
        Test::Eq => Cond::Equal,
        Test::Ne | Test::Set => Cond::NotEqual,
        Test::Gt => Cond::Above,
        Test::Ge => Cond::AboveOrEqual,
        Test::Lt => Cond::Below,
        Test::Le => Cond::BelowOrEqual,
        Test::Sgt => Cond::Greater,
        Test::Sge => Cond::GreaterOrEqual,
        Test::Slt => Cond::Less,
        Test::Sle => Cond::LessOrEqual,
    }
}

pub(crate) fn width(wide: bool) -> Width {
    if wide { Width::W64 } else { Width::W32 }
}

pub(crate) fn size_width(size: Size) -> Width {
    match size {
        Size::B => Width::W8,
        Size::H => Width::W16,
        Size::W => Width::W32,
        Size::Dw => Width::W64,
    }
}

/// A division whose divisor x86 cannot take.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Special {
    pub(super) dst: Reg,
    pub(super) wide: bool,
    pub(super) case: SpecialCase,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum SpecialCase {
    DivideByZero,
    RemainderByZero,
    DivideByMinusOne,
    RemainderByMinusOne,
}

/// An atomic operation without result, and where it applies in lane 0.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Change {
    pub(super) op: AtomicOp,
    pub(super) wide: bool,
    pub(super) src: Operand,
    pub(super) base: Reg,
    pub(super) offset: i32,
    /// Bytes from one lane to the next.
    pub(super) stride: u64,
    /// Keep the flags.
    pub(super) neutral: bool,
}

/// What the program gets, or gives.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Filling {
    /// The address of the record's bytes, which are zero.
    ByProgram,
    /// A status; the bytes are copied.
    Copy,
}
