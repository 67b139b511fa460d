//! Load, change, store become one operation on memory: `*p += 1` and its kin, of which counting programs consist.
//!
//! The three must follow each other, with the same place and size; the loaded register must be dead behind them and be
//! neither part of the address nor what it is changed by. x86 does it in one instruction, without `lock`: to other
//! threads it is the same as three.
//!
//! Not here: shifts and multiplications, which have no such form; values of per-CPU maps.

use crate::front::fused::Fused;
use crate::front::lir::{AluOp, Op, Operand, Size};
use crate::passes::blocks::next;
use crate::passes::liveness::LiveRegs;

/// True if there were any.
pub(crate) fn update(ops: &mut [Op], leaders: &[bool], live: &LiveRegs) -> bool {
    let mut found = false;
    for first in 0..ops.len() {
        let Some((last, update)) = find(ops, leaders, live, first) else { continue };
        ops[first..last].fill(Op::Nothing);
        ops[last] = Op::Fused(update);
        found = true;
    }
    found
}

/// The slot of the store, and what the three become.
fn find(ops: &[Op], leaders: &[bool], live: &LiveRegs, first: usize) -> Option<(usize, Fused)> {
    let Op::Load { dst, size, at, lanes: None, .. } = ops[first] else { return None };
    let second = next(ops, first + 1)?;
    let Op::Alu { op, wide, dst: changed, src } = ops[second] else { return None };
    let last = next(ops, second + 1)?;
    let Op::Store { size: stored, at: to, src: Operand::Reg(value), lanes: None } = ops[last] else {
        return None;
    };
    let is_simple = matches!(op, AluOp::Add | AluOp::Sub | AluOp::Or | AluOp::And | AluOp::Xor);
    let is_one = changed == dst && value == dst && (stored, to) == (size, at);
    // 32-bit arithmetic clears what a store of 8 bytes would store.
    let is_whole = wide || size != Size::Dw;
    let is_apart = (src.reads() | at.base.reads()) >> dst & 1 == 0 && src != Operand::FramePointer;
    let is_dead = live.after[last] >> dst & 1 == 0;
    let is_straight = !leaders[first + 1..=last].contains(&true);
    (is_simple && is_one && is_whole && is_apart && is_dead && is_straight)
        .then_some((last, Fused::Update { op, size, at, src }))
}
