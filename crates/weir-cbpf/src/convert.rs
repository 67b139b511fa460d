//! Classic BPF → eBPF: a socket filter that returns what [`run`](crate::run()) returns.
//!
//! In: a checked [`Program`]. Out: one program of kind `SocketFilter` without maps, each instruction turned into a few.
//!
//! | classic | eBPF |
//! |---|---|
//! | A, X | r7, r8, zero-extended; 0 at first |
//! | the packet | r6, the context, as packet loads demand; r0 to r5 are lost at each |
//! | `M[n]` | 4 bytes of the stack, set to 0 first where the program loads the slot |
//! | the length on the wire | the field `len` |
//! | ancillary loads | fields of the context, and two helpers |
//!
//! Where eBPF differs, instructions are added so that userland's meaning stays: shifts by 32 or more give 0, division by
//! an X of 0 returns 0, X + `k` does not go round. Instructions that are never reached are left out, as the kernel's
//! verifier demands. A backward jump passes a `may_goto`: a program without an end returns 0 after some eight million rounds.
//!
//! The converted program does what the original does on a context whose `data` is the captured packet from its link
//! header on (`weir_rt::Context::socket(&[], packet)`, `len` set to the length on the wire). Deliberately not here:
//! optimisation, and ancillary loads that no socket filter has a field for ([`ConvertError`]).

use std::fmt;

use weir_ebpf::insn as ebpf;
use weir_ebpf::{Insn as Ebpf, ProgramKind};

use crate::insn::class;
use crate::limits::MEMWORDS;
use crate::{Ancillary, Insn, Program, ancillary, check, text};

mod lower;

/// What a load at a constant offset of 2³¹ or more means. Userland's packets have no bytes there.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum FarOffsets {
    /// It is outside the packet: `run` without metadata.
    #[default]
    Outside,
    /// An absolute load may be an ancillary load, others are outside: `run` with metadata.
    Ancillary,
    /// As Linux has it: ancillary loads, and offsets from the network header and from the link header. X + `k` is a
    /// signed sum that goes round, and may be such an offset too.
    Kernel,
}

/// What a program is converted for.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Target {
    /// The name of the eBPF program.
    pub name: String,
    /// How it reads far offsets.
    pub far_offsets: FarOffsets,
}

/// An instruction that has no equivalent.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ConvertError {
    /// Its number, from 0.
    pub at: usize,
    /// Its line in a disassembly.
    pub text: String,
    /// What it loads.
    pub load: Ancillary,
}

impl fmt::Display for ConvertError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ConvertError { text, load, .. } = self;
        let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
        write!(out, "{line}: the context of eBPF's socket filters has nothing that says {load:?}")
    }
}

impl std::error::Error for ConvertError {}

/// Registers and the frame pointer.
const CONTEXT: u8 = 6;
const A: u8 = 7;
const X: u8 = 8;
const FRAME: u8 = 10;

/// An eBPF instruction, or a jump whose distance is known when all are there.
#[derive(Clone, Copy)]
enum Piece {
    Insn(Ebpf),
    /// A conditional jump to the classic instruction of this number.
    Jump(Ebpf, usize),
    /// An unconditional one.
    Always(usize),
}

/// Converts `program`.
pub fn convert(program: &Program, target: &Target) -> Result<weir_ebpf::Program, ConvertError> {
    let insns = program.insns();
    let mut pieces: Vec<Piece> = prologue(insns).into_iter().map(Piece::Insn).collect();
    let reached = reached(insns, target.far_offsets);
    // Where the pieces of each instruction begin.
    let mut begins = Vec::with_capacity(insns.len());
    for (at, insn) in insns.iter().enumerate() {
        begins.push(pieces.len());
        if reached[at] {
            lower::lower(*insn, at, target.far_offsets, &mut pieces).map_err(|load| ConvertError {
                at,
                text: text::insn_text(*insn, at),
                load,
            })?;
        }
    }
    let insns = pieces.iter().enumerate().map(|(at, piece)| resolved(*piece, at, &begins)).collect();
    Ok(weir_ebpf::Program { name: target.name.clone(), kind: ProgramKind::SocketFilter, insns })
}

/// r6 is the context; A, X and the slots that are loaded are 0.
fn prologue(insns: &[Insn]) -> Vec<Ebpf> {
    let mut prologue = vec![
        register(ebpf::class::ALU64, ebpf::alu::MOV, CONTEXT, 1),
        constant(ebpf::class::ALU, ebpf::alu::MOV, A, 0),
        constant(ebpf::class::ALU, ebpf::alu::MOV, X, 0),
    ];
    let is_loaded = |slot: &u32| insns.iter().any(|insn| check::loads_slot(*insn) && insn.k == *slot);
    for slot in (0..MEMWORDS).filter(is_loaded) {
        let opcode = ebpf::class::ST | ebpf::mode::MEM | ebpf::size::W;
        prologue.push(Ebpf { opcode, dst: FRAME, src: 0, off: place(slot), imm: 0 });
    }
    prologue
}

/// `M[slot]`, from the frame pointer.
fn place(slot: u32) -> i16 {
    -4 * (slot as i16 + 1)
}

/// Which instructions a run can come to.
fn reached(insns: &[Insn], far_offsets: FarOffsets) -> Vec<bool> {
    let mut reached = vec![false; insns.len()];
    let mut waiting = vec![0];
    while let Some(at) = waiting.pop() {
        if std::mem::replace(&mut reached[at], true) {
            continue;
        }
        let insn = insns[at];
        waiting.extend(check::targets(insn, at).map(|target| target as usize));
        if !matches!(insn.class(), class::JMP | class::RET) && !lower::is_outside(insn, far_offsets) {
            waiting.push(at + 1);
        }
    }
    reached
}

/// The instruction that stands at `at`, with its distance.
fn resolved(piece: Piece, at: usize, begins: &[usize]) -> Ebpf {
    let distance = |target: usize| begins[target] as i64 - at as i64 - 1;
    match piece {
        Piece::Insn(insn) => insn,
        // SANITY: at most 255 instructions are skipped, each of fewer than 16 pieces.
        Piece::Jump(insn, target) => Ebpf { off: distance(target).try_into().expect("a short way"), ..insn },
        Piece::Always(target) => {
            let always = Ebpf { opcode: ebpf::class::JMP | ebpf::jmp::JA, ..Ebpf::default() };
            match i16::try_from(distance(target)) {
                Ok(off) => Ebpf { off, ..always },
                // `gotol`.
                Err(_) => Ebpf {
                    opcode: ebpf::class::JMP32 | ebpf::jmp::JA,
                    imm: distance(target) as i32,
                    ..always
                },
            }
        }
    }
}

/// `dst` *op* `src`, of the class ALU, ALU64, JMP32.
fn register(class: u8, operation: u8, dst: u8, src: u8) -> Ebpf {
    Ebpf { opcode: class | operation | ebpf::source::X, dst, src, off: 0, imm: 0 }
}

/// `dst` *op* `k`.
fn constant(class: u8, operation: u8, dst: u8, k: u32) -> Ebpf {
    Ebpf { opcode: class | operation | ebpf::source::K, dst, src: 0, off: 0, imm: k as i32 }
}

/// A load that is ancillary where `far_offsets` says so.
fn ancillary_load(insn: Insn, far_offsets: FarOffsets) -> Option<Ancillary> {
    let is_absolute = insn.class() == class::LD && insn.mode() == crate::insn::mode::ABS;
    let row = ancillary::at(insn.k).filter(|_| is_absolute && far_offsets != FarOffsets::Outside);
    row.map(|row| row.meaning)
}
