//! Jumps that lead straight to where control goes on.
//!
//! - a jump to a jump goes to where that one goes;
//! - a branch over a jump becomes the opposite branch: clang's loops end in such a pair, since a bytecode branch
//!   reaches less far than it must assume.
//!
//! Not here: moving code.

use crate::front::lir::{Op, Test};
use crate::limits::THREADED_JUMPS_MAX;
use crate::passes::blocks::{next, targets};

/// True if there were any others.
pub(crate) fn straighten(ops: &mut [Op]) -> bool {
    let mut found = false;
    for index in 0..ops.len() {
        let target = match ops[index] {
            Op::Jump { target } | Op::Branch { target, .. } => end_of_chain(ops, target),
            _ => continue,
        };
        if let Op::Jump { target: old } | Op::Branch { target: old, .. } = &mut ops[index] {
            found |= *old != target;
            *old = target;
        }
    }
    let is_target = targets(ops);
    for index in 0..ops.len() {
        found |= invert(ops, index, &is_target);
    }
    found
}

fn end_of_chain(ops: &[Op], mut target: usize) -> usize {
    for _ in 0..THREADED_JUMPS_MAX {
        let Some(at) = next(ops, target) else { break };
        let Op::Jump { target: further } = ops[at] else { break };
        target = further;
    }
    target
}

/// Nobody else jumps to the jump, or to nothing before it.
fn invert(ops: &mut [Op], index: usize, is_target: &[bool]) -> bool {
    let Op::Branch { test, wide, left, right, target } = ops[index] else { return false };
    let Some(at) = next(ops, index + 1) else { return false };
    let Op::Jump { target: far } = ops[at] else { return false };
    let lands_behind = target > at && next(ops, at + 1).is_some_and(|after| target <= after);
    if !lands_behind || is_target[index + 1..=at].contains(&true) {
        return false;
    }
    let Some(test) = opposite(test) else { return false };
    ops[index] = Op::Branch { test, wide, left, right, target: far };
    ops[at] = Op::Nothing;
    true
}

/// The test that holds where this one does not.
pub(crate) fn opposite(test: Test) -> Option<Test> {
    Some(match test {
        Test::Eq => Test::Ne,
        Test::Ne => Test::Eq,
        Test::Gt => Test::Le,
        Test::Ge => Test::Lt,
        Test::Lt => Test::Ge,
        Test::Le => Test::Gt,
        Test::Sgt => Test::Sle,
        Test::Sge => Test::Slt,
        Test::Slt => Test::Sge,
        Test::Sle => Test::Sgt,
        Test::Set => return None,
    })
}
