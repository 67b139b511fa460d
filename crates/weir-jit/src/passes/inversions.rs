//! Jumps back to a test that stands first in a loop become the test.
//!
//! ```text
//! head:                              head:
//!     r5 += 1                            r5 += 1
//!     if r5 == 32 goto out               if r5 == 32 goto out
//! body:                      →       body:
//!     …                                  …
//!     goto head                          r5 += 1
//!                                        if r5 != 32 goto body
//!                                        goto out
//! ```
//!
//! One jump a round instead of two, and a branch of its own for each way back, which is predicted by itself. Without
//! it a search for a substring takes 1.23 times as long, a state machine 1.15, run lengths 1.07; no program
//! of tests/vm is faster without. What is repeated is at most [`INVERTED_OPS_MAX`] operations that are an
//! instruction or two each.
//!
//! Done while emitting, since a slot holds one operation; here is decided which.
//!
//! Not here: jumps forward; operations that passes made of several (with those repeated, too, a sieve took 1.05 times
//! as long, a state machine 1.07, and nothing less).

use crate::front::lir::{AluOp, Op};
use crate::limits::INVERTED_OPS_MAX;
use crate::passes::blocks;
use crate::passes::jumps::opposite;

/// By slot of a jump: the branch up to which its target's operations are repeated in its place.
pub(crate) fn inversions(ops: &[Op]) -> Vec<Option<usize>> {
    let of = |(index, op): (usize, &Op)| match *op {
        Op::Jump { target } if target <= index => repeated(ops, target),
        _ => None,
    };
    ops.iter().enumerate().map(of).collect()
}

/// The branch that ends the stretch at `head`, if it is short and plain.
fn repeated(ops: &[Op], head: usize) -> Option<usize> {
    let mut count = 0;
    for (index, op) in (head..).zip(&ops[head..]) {
        match *op {
            Op::Nothing => {}
            Op::Branch { test, .. } => return opposite(test).map(|_| index),
            _ if blocks::ends(op) || !is_plain(op) || count == INVERTED_OPS_MAX => return None,
            _ => count += 1,
        }
    }
    None
}

fn is_plain(op: &Op) -> bool {
    use AluOp::{Div, Mod, Sdiv, Smod};
    match *op {
        Op::Alu { op, .. } => !matches!(op, Div | Mod | Sdiv | Smod),
        Op::Load { lanes, .. } | Op::Store { lanes, .. } => lanes.is_none(),
        Op::Const { .. } | Op::Address { .. } | Op::Mov { .. } | Op::Neg { .. } | Op::Bytes { .. } => true,
        _ => false,
    }
}
