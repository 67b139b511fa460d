//! Straight stretches of operations: entered at their first alone, left at their last alone.

use crate::lir::Op;

/// By slot: whether a stretch begins there. `starts`: of functions.
pub(crate) fn leaders(ops: &[Op], starts: &[usize]) -> Vec<bool> {
    let mut leaders = targets(ops);
    for &start in starts {
        leaders[start] = true;
    }
    for (op, leader) in ops.iter().zip(&mut leaders[1..]) {
        *leader |= ends(op);
    }
    leaders
}

/// By slot: whether something jumps there.
pub(crate) fn targets(ops: &[Op]) -> Vec<bool> {
    let mut targets = vec![false; ops.len()];
    for op in ops {
        if let Op::Jump { target } | Op::Branch { target, .. } | Op::MayGoto { target } = *op {
            targets[target] = true;
        }
    }
    targets
}

/// Whether a stretch ends behind the operation.
pub(crate) fn ends(op: &Op) -> bool {
    matches!(op, Op::Jump { .. } | Op::Branch { .. } | Op::MayGoto { .. } | Op::Exit)
}

/// The first slot from `from` on that does something.
pub(crate) fn next(ops: &[Op], from: usize) -> Option<usize> {
    (from..ops.len()).find(|&index| ops[index] != Op::Nothing)
}
