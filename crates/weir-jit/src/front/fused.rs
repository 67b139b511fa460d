//! Operations that passes make of several: arithmetic with a third operand, rotations, swapped loads, selections.
//!
//! In: what a pass found. Out: [`Fused::effect`] for liveness. Every form here stands for operations that bytecode has one by one.
//!
//! Not here: when to make them (see [`crate::passes`]), and their machine code.

use crate::front::lir::{AluOp, At, Effect, Operand, Reg, Size, Test};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Fused {
    /// `dst = left op right`.
    Alu { op: AluOp, wide: bool, dst: Reg, left: Reg, right: Operand },
    /// `dst = src` turned left by `left` bits, 1 up to the width.
    Rotate { wide: bool, dst: Reg, src: Reg, left: u8 },
    /// `dst = plus` + the number of the highest bit of `src`, which is not 0.
    HighestBit { dst: Reg, src: Reg, plus: i32 },
    /// A load of 2, 4 or 8 bytes in the other byte order, zero-extended.
    LoadSwapped { dst: Reg, size: Size, at: At },
    /// Memory `op=` src, for operations that x86 has on memory.
    Update { op: AluOp, size: Size, at: At, src: Operand },
    /// `dst` = 1 if the test holds, else 0.
    SetIf { test: Test, wide: bool, dst: Reg, left: Operand, right: Operand },
    /// If the test holds, every move happens, else none.
    Select { test: Test, wide: bool, left: Operand, right: Operand, moves: [Option<Move>; 2] },
}

/// One move of a [`Fused::Select`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Move {
    pub(crate) dst: Reg,
    pub(crate) value: u64,
}

impl Fused {
    pub(crate) fn effect(&self, effect: &mut Effect) {
        match *self {
            Fused::Alu { dst, left, right, .. } => {
                effect.reads = 1 << left | right.reads();
                effect.writes = 1 << dst;
            }
            Fused::Rotate { dst, src, .. } | Fused::HighestBit { dst, src, .. } => {
                effect.reads = 1 << src;
                effect.writes = 1 << dst;
            }
            Fused::LoadSwapped { dst, size, at } => {
                effect.base(at);
                effect.stack_reads.extend(at.stack_range(size));
                effect.writes = 1 << dst;
            }
            Fused::Update { size, at, src, .. } => {
                effect.base(at);
                effect.stack_reads.extend(at.stack_range(size));
                effect.reads |= src.reads();
                effect.keep = true;
            }
            Fused::SetIf { dst, left, right, .. } => {
                effect.reads = left.reads() | right.reads();
                effect.writes = 1 << dst;
            }
            Fused::Select { left, right, moves, .. } => {
                effect.reads = left.reads() | right.reads();
                for Move { dst, .. } in moves.into_iter().flatten() {
                    // Where nothing is moved the old value stays.
                    effect.reads |= 1 << dst;
                    effect.writes |= 1 << dst;
                }
            }
        }
    }
}

/// Whether `dst = left op right` has a form: with the right operand in `dst` some operations have none.
pub(crate) fn is_encodable(op: AluOp, dst: Reg, left: Reg, right: Operand) -> bool {
    use AluOp::{Add, And, Mul, Or, Sub, Xor};
    left == dst || right != Operand::Reg(dst) || matches!(op, Add | And | Mul | Or | Sub | Xor)
}
