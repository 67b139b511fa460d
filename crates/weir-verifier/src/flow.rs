//! Where instructions lead inside their function, and what leads to them. A call goes on behind itself.

use crate::decode::Op;

/// The instruction behind the one at `at`, and where it jumps. The second slot of a wide load leads nowhere: nothing
/// leads there.
pub(crate) fn after(ops: &[Op], at: usize) -> [Option<usize>; 2] {
    let next = at + 1 + usize::from(matches!(ops.get(at + 1), Some(Op::Second)));
    let next = Some(next).filter(|next| *next < ops.len());
    match ops[at] {
        Op::Jump { target } => [Some(target), None],
        Op::Branch { target, .. } | Op::MayGoto { target } => [next, Some(target)],
        Op::Exit | Op::CallUnknown { .. } | Op::Second => [None, None],
        _ => [next, None],
    }
}

/// No instruction leads to itself or to one before it.
pub(crate) fn goes_forward(ops: &[Op]) -> bool {
    (0..ops.len()).all(|at| after(ops, at).into_iter().flatten().all(|next| next > at))
}

/// What a round of a loop passes that need not be followed one by one.
pub(crate) fn begins_rounds(op: &Op) -> bool {
    match op {
        Op::MayGoto { .. } => true,
        Op::Call { helper } => helper.callback().is_some(),
        _ => false,
    }
}

/// Adds an instruction to those of a `work` list that are looked at once more, if it does not wait there.
pub(crate) fn look_again(work: &mut Vec<usize>, waits: &mut [bool], at: usize) {
    if !std::mem::replace(&mut waits[at], true) {
        work.push(at);
    }
}

/// The instructions before each, one list behind the other.
#[derive(Debug)]
pub(crate) struct Earlier {
    /// By instruction: where its list begins; one more at the end.
    begin: Vec<usize>,
    all: Vec<usize>,
}

impl Earlier {
    pub(crate) fn new(ops: &[Op]) -> Earlier {
        let mut begin = vec![0; ops.len() + 1];
        for next in (0..ops.len()).flat_map(|at| after(ops, at)).flatten() {
            begin[next + 1] += 1;
        }
        for at in 0..ops.len() {
            begin[at + 1] += begin[at];
        }
        let mut free = begin.clone();
        let mut all = vec![0; begin[ops.len()]];
        for at in 0..ops.len() {
            for next in after(ops, at).into_iter().flatten() {
                all[free[next]] = at;
                free[next] += 1;
            }
        }
        Earlier { begin, all }
    }

    pub(crate) fn of(&self, at: usize) -> &[usize] {
        &self.all[self.begin[at]..self.begin[at + 1]]
    }
}
