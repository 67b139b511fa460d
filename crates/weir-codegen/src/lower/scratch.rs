//! Where a function begins and ends: the context, scratch memory, returns.
//!
//! Scratch memory is one slot of the `.scratch` map: an owner word, then the memory. It is claimed with one
//! compare-and-exchange, starting at a slot that the CPU's number chooses, and given back by storing 0; so a run that
//! is interrupted or moved to another CPU keeps its slot, and a run nested in it takes another. Runs that were preempted
//! keep theirs until they have the CPU again: where they have taken all that are near, slots are tried at random.
//! (With neighbours alone 16 busy threads on 2 CPUs lost a quarter of their events.) (Records of the ring
//! would do too, but only its reader gives those back: a reader every 5 ms, and 1 KiB strings, lose most of 10⁶
//! events a second.)
//!
//! It is claimed in the last block that every use passes, so that a predicate which fails costs nothing; and that
//! every return it can reach passes too, so that each return knows whether there is a slot to give back; and before all loops.
//!
//! If all slots tried are taken, the whole function is left out, and counted in `.globals`.

use std::collections::BTreeSet;

use weir_ebpf::helper;
use weir_ebpf::insn::{alu, jmp, size};
use weir_ir::{BlockId, Function, Terminator};

use super::{Code, Lower};
use crate::lir::{Area, Inst, Label, Object, ObjectId, Place, R0, Reg, Src};
use crate::maps::GLOBAL_NO_SCRATCH;
use crate::place::{Layout, layout};
use crate::{CodegenError, limits};

/// Labels after those of the blocks: return, and return with the scratch slot given back; the same where a filter accepts.
pub(super) const LABELS: u32 = 4;

/// Bytes of a slot's owner word: 0, or 1 while it is taken.
const OWNER_BYTES: u32 = 8;

impl Lower<'_> {
    pub(super) fn return_label(&self) -> Label {
        Label(self.function.blocks.len() as u32)
    }

    pub(super) fn accept_label(&self) -> Label {
        Label(self.return_label().0 + 2)
    }
}

/// Adds to the code what comes before and after. `starts`: of the blocks.
pub(super) fn finish(mut lower: Lower<'_>, starts: &[usize]) -> Result<Code, CodegenError> {
    let leave = lower.return_label();
    let leave_with_scratch = Label(leave.0 + 1);
    let accept = Inst::Jump(lower.accept_label());
    let mut insts = std::mem::take(&mut lower.insts);
    let accepts = insts.contains(&accept);
    let mut scratch = None;
    if let Some(block) = scratch_block(&lower, &insts, starts) {
        let ends = starts.iter().skip(1).copied().chain([insts.len()]);
        let mut segments: Vec<Vec<Inst>> =
            starts.iter().zip(ends).map(|(&start, end)| insts[start..end].to_vec()).collect();
        scratch = Some(claim(&mut lower, &mut segments, block, leave, leave_with_scratch)?);
        insts.truncate(starts[0]);
        insts.extend(segments.into_iter().flatten());
    }
    if let Some(rounds) = lower.rounds {
        let most = match lower.module.max_loop_iterations {
            0 => weir_ir::limits::LOOP_ITERATIONS,
            most => most,
        };
        insts.insert(0, Inst::Mov { dst: rounds, src: Src::Imm(most as i32) });
    }
    if let Some(context) = lower.context {
        insts.insert(0, Inst::Mov { dst: context, src: Src::Reg(Reg::Real(1)) });
    }
    if accepts {
        push_end(&mut insts, lower.accept_label(), scratch, &[], 1);
    }
    let mut sent = Vec::new();
    if let Some(signal) = lower.signal {
        insts.insert(0, Inst::Mov { dst: signal, src: Src::Imm(0) });
        lower.send(signal);
        sent = std::mem::take(&mut lower.insts);
    }
    push_end(&mut insts, leave, scratch, &sent, 0);
    let Lower { objects, virtuals, labels, zero_bytes, scratch_bytes, .. } = lower;
    Ok(Code { insts, objects, virtuals, labels, zero_bytes, scratch_bytes })
}

/// The end of the function with this result, and before it the way there that gives back scratch memory. `last`: what it does last.
fn push_end(insts: &mut Vec<Inst>, leave: Label, scratch: Option<Reg>, last: &[Inst], result: i32) {
    if let Some(scratch) = scratch {
        insts.push(Inst::Label(Label(leave.0 + 1)));
        insts.push(Inst::Store { size: size::DW, to: Place::Reg(scratch, 0), src: Src::Imm(0) });
    }
    insts.push(Inst::Label(leave));
    insts.extend_from_slice(last);
    insts.push(Inst::Mov { dst: R0, src: Src::Imm(result) });
    insts.push(Inst::Exit);
}

/// The block in which scratch memory is claimed, if any object is in it.
fn scratch_block(lower: &Lower<'_>, insts: &[Inst], starts: &[usize]) -> Option<BlockId> {
    let in_scratch = |object: ObjectId| lower.objects[object.0 as usize].area == Area::Scratch;
    let uses = insts.iter().enumerate().filter(|(_, inst)| inst.object().is_some_and(in_scratch));
    // What is before the first block uses none.
    let users = uses.map(|(at, _)| BlockId(starts.partition_point(|&start| start <= at) as u32 - 1));
    let dominators = &lower.dominators;
    let mut at = users.reduce(|a, b| dominators.common(a, b))?;
    let in_loop = in_loop(lower.function);
    while in_loop[at.0 as usize] || reaches_foreign_return(lower, at) {
        // SANITY: the entry dominates every return, so there is a dominator left.
        at = dominators.immediate(at).expect("the entry passes the test");
    }
    Some(at)
}

/// True if a return can be reached from `at` and also without passing it.
fn reaches_foreign_return(lower: &Lower<'_>, at: BlockId) -> bool {
    let (mut waiting, mut reached) = (vec![at], BTreeSet::from([at]));
    while let Some(block) = waiting.pop() {
        let end = &lower.function.blocks[block.0 as usize].end;
        if matches!(end, Terminator::Return | Terminator::Accept) && !lower.dominators.dominates(at, block) {
            return true;
        }
        waiting.extend(end.successors().map(|(to, _)| to).filter(|to| reached.insert(*to)));
    }
    false
}

/// By block: a jump back from it, or from what follows it, leads to it or to what is before it.
fn in_loop(function: &Function) -> Vec<bool> {
    let mut in_loop = vec![false; function.blocks.len()];
    for (index, block) in function.blocks.iter().enumerate() {
        for (to, _) in block.end.successors().filter(|(to, _)| to.0 as usize <= index) {
            in_loop[to.0 as usize..=index].fill(true);
        }
    }
    in_loop
}

/// Puts the claim at the start of `block`, and objects at fixed offsets in the slot.
fn claim(
    lower: &mut Lower<'_>,
    segments: &mut [Vec<Inst>],
    block: BlockId,
    leave: Label,
    leave_with_scratch: Label,
) -> Result<Reg, CodegenError> {
    let Layout { offsets, bytes } =
        layout(segments.iter().flatten(), lower.labels, &lower.objects, Area::Scratch);
    if bytes > limits::SCRATCH_BYTES_MAX {
        return Err(CodegenError::Scratch { clause: lower.function.name.clone(), bytes });
    }
    lower.scratch_bytes = OWNER_BYTES + bytes;
    let offsets: Vec<u32> = offsets.iter().map(|offset| OWNER_BYTES + offset).collect();
    let scratch = lower.fresh();
    let accept = lower.accept_label();
    for (index, insts) in segments.iter_mut().enumerate() {
        let dominated = lower.dominators.is_reachable(BlockId(index as u32))
            && lower.dominators.dominates(block, BlockId(index as u32));
        let old = std::mem::take(insts);
        for inst in old {
            push_placed(insts, inst, &lower.objects, &offsets, scratch);
        }
        for inst in insts.iter_mut().filter(|_| dominated) {
            match inst {
                Inst::Jump(to) if *to == leave => *to = leave_with_scratch,
                Inst::Jump(to) if *to == accept => *to = Label(accept.0 + 1),
                _ => {}
            }
        }
    }
    let mut start = claiming(lower, scratch, leave);
    // After the block's label.
    let segment = &mut segments[block.0 as usize];
    start.extend(segment.drain(1..));
    segment.extend(start);
    Ok(scratch)
}

/// Leaves the address of a free slot in `scratch`, or jumps to `leave`.
fn claiming(lower: &mut Lower<'_>, scratch: Reg, leave: Label) -> Vec<Inst> {
    let key = lower.object_in(4, Area::Stack);
    let (slot, masked, left, one) = (lower.fresh(), lower.fresh(), lower.fresh(), lower.fresh());
    let (again, given_up, claimed) = (lower.label(), lower.label(), lower.label());
    let outer = std::mem::take(&mut lower.insts);
    lower.call(helper::GET_SMP_PROCESSOR_ID, &[]);
    lower.mov(slot, R0);
    lower.alu(alu::MUL, slot, Src::Imm(limits::SCRATCH_TRIES_OF_CPU));
    lower.mov_imm(left, limits::SCRATCH_TRIES);
    lower.insts.push(Inst::Label(again));
    lower.mov(masked, slot);
    lower.alu(alu::AND, masked, Src::Imm(limits::SCRATCH_SLOTS as i32 - 1));
    lower.insts.push(Inst::Store { size: size::W, to: Place::Object(key, 0), src: Src::Reg(masked) });
    lower.call(
        helper::MAP_LOOKUP_ELEM,
        &[super::build::Arg::Map(lower.maps.scratch), super::build::Arg::Object(key)],
    );
    // Never taken: every slot exists.
    lower.skip_if_null(leave);
    lower.mov(scratch, R0);
    lower.mov_imm(R0, 0);
    lower.mov_imm(one, 1);
    lower.insts.push(Inst::CompareExchange { to: Place::Reg(scratch, 0), src: one });
    lower.branch(jmp::JEQ, R0, Src::Imm(0), claimed);
    lower.alu(alu::ADD, slot, Src::Imm(1));
    lower.alu(alu::SUB, left, Src::Imm(1));
    lower.branch(jmp::JGT, left, Src::Imm(limits::SCRATCH_TRIES - limits::SCRATCH_TRIES_OF_CPU), again);
    lower.branch(jmp::JEQ, left, Src::Imm(0), given_up);
    lower.call(helper::GET_PRANDOM_U32, &[]);
    lower.mov(slot, R0);
    lower.insts.push(Inst::Jump(again));
    lower.insts.push(Inst::Label(given_up));
    lower.touch(key);
    lower.count_in_globals(GLOBAL_NO_SCRATCH);
    lower.insts.push(Inst::Jump(leave));
    lower.insts.push(Inst::Label(claimed));
    std::mem::replace(&mut lower.insts, outer)
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
        | Inst::LoadPart { from: place, .. }
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
