//! A choice between two constants becomes a conditional move; between 0 and 1, the comparison's own answer.
//!
//! ```text
//!     r3 = 48                       r3 = 48
//!     if r1 > 9 goto over           if !(r1 > 9) { r3 = 87 }
//!     r3 = 87                 →
//! over:
//! ```
//!
//! clang has no conditional move in bytecode: where its optimiser decided for a selection, it emits this. Where the
//! two ways do not meet behind the arm but elsewhere, the arm ends with a jump to where the branch goes, which stays.
//! (A checker of UTF-8, which has such choices in a row, takes 8 % longer without.)
//!
//! Choices between other values stay branches. A conditional move waits for the comparison and for both values, so
//! in a loop that goes on with its result it joins all rounds into one chain, where a branch is predicted: taking
//! every such branch made a binary search 2.4 times slower, edit distance 1.13 times, a word count 1.13 times, and
//! nothing measurably faster that constants alone do not. (bpf-benchmark saw the same of LLVM's: bit counting 1.56
//! times, dense branches 1.41.) Between constants nothing is carried from round to round.
//!
//! Nothing may jump between the first constant and the end of the arm. The comparison is made once, before the
//! moves, so they may change what was compared.
//!
//! Not here: arms with arithmetic or memory.

use crate::front::fused::{Fused, Move};
use crate::front::lir::{Op, Reg};
use crate::limits::{CONSTANT_SLOTS_MAX, SELECT_SLOTS_MAX};
use crate::passes::blocks::{self, jumps_to};
use crate::passes::jumps::opposite;

/// True if there were any.
pub(crate) fn select(ops: &mut [Op]) -> bool {
    let mut found = false;
    let mut jumps_to = jumps_to(ops);
    for index in 0..ops.len() {
        let Op::Branch { test, wide, left, right, target } = ops[index] else { continue };
        let Some(end) = end_of_arm(ops, index, target) else { continue };
        if jumps_to[index + 1..end].iter().any(|&jumps| jumps > 0) {
            continue;
        }
        let Some(moves) = moves(&ops[index + 1..end]) else { continue };
        let before = moves.map(|one| constant_before(ops, &jumps_to, index, one?.dst));
        let choice = match (moves, before) {
            ([Some(Move { dst, value: 0 }), None], [Some(1), None]) => {
                Fused::SetIf { test, wide, dst, left, right }
            }
            (_, [None, _]) => continue,
            ([_, Some(_)], [_, None]) => continue,
            _ => {
                let Some(test) = opposite(test) else { continue };
                match (moves, before) {
                    ([Some(Move { dst, value: 1 }), None], [Some(0), None]) => {
                        Fused::SetIf { test, wide, dst, left, right }
                    }
                    _ => Fused::Select { test, wide, left, right, moves },
                }
            }
        };
        ops[index] = Op::Fused(choice);
        ops[index + 1..end].fill(Op::Nothing);
        // So that what is behind may be a choice in its turn.
        jumps_to[target] -= 1;
        found = true;
    }
    found
}

/// The slot behind what the branch at `index` skips: its target, or a jump to there.
fn end_of_arm(ops: &[Op], index: usize, target: usize) -> Option<usize> {
    let last = (index + SELECT_SLOTS_MAX).min(ops.len() - 1);
    (index + 1..=last)
        .find(|&at| at == target || matches!(ops[at], Op::Jump { .. }))
        .filter(|&at| at > index + 1)
        .filter(|&at| at == target || ops[at] == Op::Jump { target })
}

/// The constant that `reg` holds, if it was set shortly before the branch at `index`.
fn constant_before(ops: &[Op], jumps_to: &[u32], index: usize, reg: Reg) -> Option<u64> {
    for at in (index.saturating_sub(CONSTANT_SLOTS_MAX)..index).rev() {
        if jumps_to[at + 1] > 0 || blocks::ends(&ops[at]) {
            return None;
        }
        match ops[at] {
            Op::Const { dst, value } if dst == reg => return Some(value),
            _ if ops[at].effect().writes >> reg & 1 != 0 => return None,
            _ => {}
        }
    }
    None
}

/// The arm, if it is one constant or two.
fn moves(arm: &[Op]) -> Option<[Option<Move>; 2]> {
    let mut moves = [None; 2];
    let mut count = 0;
    for op in arm {
        let one = match *op {
            Op::Nothing => continue,
            Op::Const { dst, value } => Move { dst, value },
            _ => return None,
        };
        *moves.get_mut(count)? = Some(one);
        count += 1;
    }
    (count > 0).then_some(moves)
}
