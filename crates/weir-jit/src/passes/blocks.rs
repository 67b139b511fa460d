//! Straight stretches of operations: entered at their first alone, left at their last alone.

use crate::front::lir::Op;

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

/// By slot: how many jumps go there.
pub(crate) fn jumps_to(ops: &[Op]) -> Vec<u32> {
    let mut jumps_to = vec![0; ops.len()];
    for op in ops {
        if let Op::Jump { target } | Op::Branch { target, .. } | Op::MayGoto { target } = *op {
            jumps_to[target] += 1;
        }
    }
    jumps_to
}

/// Whether a stretch ends behind the operation.
pub(crate) fn ends(op: &Op) -> bool {
    matches!(op, Op::Jump { .. } | Op::Branch { .. } | Op::MayGoto { .. } | Op::Exit)
}

/// The first slot from `from` on that does something.
pub(crate) fn next(ops: &[Op], from: usize) -> Option<usize> {
    (from..ops.len()).find(|&index| ops[index] != Op::Nothing)
}

/// By slot: where the loop that begins there ends: behind the last jump back. `jumps`: slots and targets, ascending.
///
/// None where a stretch from a slot to the last jump back to it crosses another one: there, blocks of one loop lie in
/// an order in which several jumps lead back, and what would be taken for a loop is entered by falling into it in each
/// round, through the padding. (With padding there a checker of UTF-8 took 1.2 times as long, a bubble sort 1.2.)
pub(crate) fn loops(slots: usize, jumps: impl Iterator<Item = (usize, usize)>) -> Vec<Option<usize>> {
    let mut ends: Vec<Option<usize>> = vec![None; slots];
    for (index, target) in jumps.filter(|&(index, target)| target <= index) {
        ends[target] = Some(index + 1);
    }
    let mut around: Vec<usize> = Vec::new();
    for (index, end) in ends.iter_mut().enumerate() {
        while around.last().is_some_and(|&outer| outer <= index) {
            around.pop();
        }
        match (*end, around.last_mut()) {
            (Some(inner), Some(outer)) if inner > *outer => {
                *outer = inner;
                *end = None;
            }
            _ => around.extend(*end),
        }
    }
    ends
}

#[cfg(test)]
mod tests {
    use super::loops;

    /// The loops of jumps from and to slots, as beginning and end.
    fn check(jumps: &[(usize, usize)], expected: &[(usize, usize)]) {
        let found = loops(20, jumps.iter().copied());
        let found: Vec<(usize, usize)> =
            found.iter().enumerate().filter_map(|(start, end)| Some((start, (*end)?))).collect();
        assert_eq!(found, expected, "{jumps:?}");
    }

    #[test]
    fn loops_end_behind_their_last_jump_back() {
        check(&[(3, 9), (5, 5)], &[(5, 6)]);
        check(&[(7, 2), (9, 2), (9, 12)], &[(2, 10)]);
    }

    #[test]
    fn loops_lie_in_each_other_or_apart() {
        check(&[(4, 3), (8, 6), (9, 2), (12, 10)], &[(2, 10), (3, 5), (6, 9), (10, 13)]);
    }

    #[test]
    fn a_loop_that_crosses_another_is_none() {
        check(&[(5, 2), (8, 4)], &[(2, 6)]);
        // What lies in both is none, either.
        check(&[(5, 2), (8, 4), (10, 7), (14, 12)], &[(2, 6), (12, 15)]);
    }
}
