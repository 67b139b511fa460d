//! Where a function begins and ends: the context, scratch memory, returns.
//!
//! Scratch memory is one record of the ring, reserved and given back without being submitted. It is reserved in the
//! last block that every use passes, so that a predicate which fails costs nothing; and that every return it can
//! reach passes too, so that each return knows whether there is a record to give back.
//!
//! If the ring is full, the whole function is left out, and the ring counts the drop.

use std::collections::BTreeSet;

use weir_ebpf::helper;
use weir_ebpf::insn::jmp;
use weir_ir::{BlockId, Terminator};

use super::{Code, Lower};
use crate::lir::{Area, Inst, Label, Object, ObjectId, Place, R0, Reg, Src};
use crate::place::{Layout, layout};
use crate::{CodegenError, limits};

/// Labels after those of the blocks: return, and return with the scratch record given back.
pub(super) const LABELS: u32 = 2;

/// `BPF_RB_NO_WAKEUP`: nobody waits for a record that is given back.
const NO_WAKEUP: i32 = 1;

impl Lower<'_> {
    pub(super) fn return_label(&self) -> Label {
        Label(self.function.blocks.len() as u32)
    }
}

/// Joins the code of the blocks, with what comes before and after.
pub(super) fn finish(mut lower: Lower<'_>, mut segments: Vec<Vec<Inst>>) -> Result<Code, CodegenError> {
    let leave = lower.return_label();
    let leave_with_scratch = Label(leave.0 + 1);
    let scratch = match scratch_block(&lower, &segments) {
        None => None,
        Some(block) => Some(reserve(&mut lower, &mut segments, block, leave, leave_with_scratch)?),
    };
    let mut insts = Vec::new();
    if let Some(context) = lower.context {
        insts.push(Inst::Mov { dst: context, src: Src::Reg(Reg::Real(1)) });
    }
    insts.extend(segments.into_iter().flatten());
    if let Some(scratch) = scratch {
        // A record behind this one in the ring is seen only now: then its reader must be woken.
        let flags = if lower.emits { 0 } else { NO_WAKEUP };
        insts.push(Inst::Label(leave_with_scratch));
        insts.push(Inst::Mov { dst: Reg::Real(2), src: Src::Imm(flags) });
        insts.push(Inst::Mov { dst: Reg::Real(1), src: Src::Reg(scratch) });
        insts.push(Inst::Call { helper: helper::RINGBUF_DISCARD, args: 2 });
    }
    insts.push(Inst::Label(leave));
    insts.push(Inst::Mov { dst: R0, src: Src::Imm(0) });
    insts.push(Inst::Exit);
    Ok(Code { insts, objects: lower.objects, virtuals: lower.virtuals, zero_bytes: lower.zero_bytes })
}

/// The block in which scratch memory is reserved, if any object is in it.
fn scratch_block(lower: &Lower<'_>, segments: &[Vec<Inst>]) -> Option<BlockId> {
    let in_scratch = |object: ObjectId| lower.objects[object.0 as usize].area == Area::Scratch;
    let users = segments
        .iter()
        .enumerate()
        .filter(|(_, insts)| insts.iter().filter_map(Inst::object).any(in_scratch));
    let users: Vec<BlockId> = users.map(|(index, _)| BlockId(index as u32)).collect();
    let dominators = &lower.dominators;
    let mut at = users.into_iter().reduce(|a, b| dominators.common(a, b))?;
    while reaches_foreign_return(lower, at) {
        // SANITY: the entry dominates every return, so there is a dominator left.
        at = dominators.immediate(at).expect("the entry passes the test");
    }
    Some(at)
}

/// True if a return can be reached from `at` and also without passing it.
fn reaches_foreign_return(lower: &Lower<'_>, at: BlockId) -> bool {
    let mut reached = BTreeSet::from([at]);
    // Jumps go forward: taking the lowest block first visits each once.
    while let Some(block) = reached.pop_first() {
        let end = &lower.function.blocks[block.0 as usize].end;
        if *end == Terminator::Return && !lower.dominators.dominates(at, block) {
            return true;
        }
        reached.extend(end.successors().into_iter().map(|(to, _)| to));
    }
    false
}

/// Puts the reservation at the start of `block`, and objects at fixed offsets in it.
fn reserve(
    lower: &mut Lower<'_>,
    segments: &mut [Vec<Inst>],
    block: BlockId,
    leave: Label,
    leave_with_scratch: Label,
) -> Result<Reg, CodegenError> {
    let Layout { offsets, bytes } = layout(segments.iter().flatten(), &lower.objects, Area::Scratch);
    if bytes > limits::SCRATCH_BYTES_MAX {
        return Err(CodegenError::Scratch { clause: lower.function.name.clone(), bytes });
    }
    let scratch = lower.fresh();
    for (index, insts) in segments.iter_mut().enumerate() {
        let dominated = lower.dominators.is_reachable(BlockId(index as u32))
            && lower.dominators.dominates(block, BlockId(index as u32));
        let old = std::mem::take(insts);
        for inst in old {
            push_placed(insts, inst, &lower.objects, &offsets, scratch);
        }
        for inst in insts.iter_mut().filter(|_| dominated) {
            if *inst == Inst::Jump(leave) {
                *inst = Inst::Jump(leave_with_scratch);
            }
        }
    }
    let mut start = vec![
        Inst::Mov { dst: Reg::Real(3), src: Src::Imm(0) },
        Inst::Mov { dst: Reg::Real(2), src: Src::Imm(bytes as i32) },
        Inst::MapRef { dst: Reg::Real(1), map: lower.maps.ring },
        Inst::Call { helper: helper::RINGBUF_RESERVE, args: 3 },
        Inst::Branch { op: jmp::JEQ, a: R0, b: Src::Imm(0), to: leave },
        Inst::Mov { dst: scratch, src: Src::Reg(R0) },
    ];
    // After the block's label.
    let segment = &mut segments[block.0 as usize];
    start.extend(segment.drain(1..));
    segment.extend(start);
    Ok(scratch)
}

/// Pushes `inst` with scratch objects replaced by offsets from the register `scratch`.
fn push_placed(out: &mut Vec<Inst>, mut inst: Inst, objects: &[Object], offsets: &[u32], scratch: Reg) {
    let Some(object) = inst.object().filter(|object| objects[object.0 as usize].area == Area::Scratch) else {
        return out.push(inst);
    };
    let base = offsets[object.0 as usize] as i32;
    match &mut inst {
        Inst::Touch(_) => return,
        Inst::Address { dst, offset, .. } => {
            out.push(Inst::Mov { dst: *dst, src: Src::Reg(scratch) });
            inst = Inst::Alu {
                op: weir_ebpf::insn::alu::ADD,
                signed: false,
                dst: *dst,
                src: Src::Imm(base + *offset),
            };
            if inst_adds_nothing(&inst) {
                return;
            }
        }
        Inst::Load { from: place, .. }
        | Inst::Store { to: place, .. }
        | Inst::AtomicAdd { to: place, .. }
        | Inst::CompareExchange { to: place, .. } => {
            if let Place::Object(_, offset) = *place {
                *place = Place::Reg(scratch, base + offset);
            }
        }
        _ => {}
    }
    out.push(inst);
}

fn inst_adds_nothing(inst: &Inst) -> bool {
    matches!(inst, Inst::Alu { src: Src::Imm(0), .. })
}
