//! Zero-extensions of what is zero-extended already, and pairs of shifts that stand for extensions.
//!
//! - `w1 = w1` where the upper half of r1 is known to be 0 goes; `w2 = w1` becomes a plain move, which other passes
//!   see through;
//! - `r1 <<= 32; r1 >>= 32` (what clang writes for cpu v1) is one zero-extension, `s>>= 32` one sign-extension,
//!   and a longer shift back to the right a shift of 32 bits.
//!
//! What is known flows forward over the whole program: a bit per register, kept where all paths agree.
//!
//! Not here: other known bits.

use crate::blocks::next;
use crate::fused::Fused;
use crate::lir::{AluOp, AtomicOp, Bytes, Extend, Op, Operand, Reg, Size};

/// Bit n: the upper half of register n is 0.
type Known = u16;

pub(crate) fn drop_extensions(ops: &mut [Op], leaders: &[bool], starts: &[usize]) {
    join_shifts(ops, leaders);
    let known = flow(ops, starts);
    for (op, known) in ops.iter_mut().zip(known) {
        if let Op::Mov { dst, src, extend: Extend::Zero32 } = *op
            && has(known, src)
        {
            *op = if dst == src { Op::Nothing } else { Op::Mov { dst, src, extend: Extend::None } };
        }
    }
}

fn join_shifts(ops: &mut [Op], leaders: &[bool]) {
    for index in 0..ops.len() {
        let Op::Alu { op: AluOp::Lsh, wide: true, dst, src: Operand::Imm(32) } = ops[index] else { continue };
        let Some(at) = next(ops, index + 1) else { continue };
        let Op::Alu { op, wide: true, dst: again, src: Operand::Imm(bits @ 32..64) } = ops[at] else {
            continue;
        };
        if again != dst || leaders[index + 1..=at].contains(&true) {
            continue;
        }
        ops[at] = match (op, bits) {
            (AluOp::Rsh, 32) => Op::Mov { dst, src: dst, extend: Extend::Zero32 },
            (AluOp::Rsh, _) => Op::Alu { op, wide: false, dst, src: Operand::Imm(bits - 32) },
            (AluOp::Arsh, 32) => Op::Mov { dst, src: dst, extend: Extend::Sign { bits: 32, wide: true } },
            _ => continue,
        };
        ops[index] = Op::Nothing;
    }
}

/// What is known before each operation: the greatest fixed point, so every operation is visited at most as often as
/// there are registers, and once more.
fn flow(ops: &[Op], starts: &[usize]) -> Vec<Known> {
    let mut before = vec![Known::MAX; ops.len()];
    let mut work: Vec<u32> = (0..ops.len() as u32).rev().collect();
    for &start in starts {
        before[start] = 0;
    }
    let mut queued = vec![true; ops.len()];
    while let Some(index) = work.pop() {
        let index = index as usize;
        queued[index] = false;
        let after = transfer(&ops[index], before[index]);
        for next in ops[index].successors(index).into_iter().flatten().filter(|&next| next < ops.len()) {
            let joined = before[next] & after;
            if joined != before[next] {
                before[next] = joined;
                if !std::mem::replace(&mut queued[next], true) {
                    work.push(next as u32);
                }
            }
        }
    }
    before
}

fn transfer(op: &Op, known: Known) -> Known {
    let writes = op.effect().writes;
    if writes == 0 {
        return known;
    }
    let result = match *op {
        Op::Const { value, .. } => value >> 32 == 0,
        Op::Mov { src, extend, .. } => match extend {
            Extend::None => has(known, src),
            Extend::Zero32 => true,
            Extend::Sign { wide, .. } => !wide,
        },
        Op::Alu { op, wide: true, dst, src } => wide_result(op, has(known, dst), src, known),
        Op::Alu { wide: false, .. } | Op::Neg { wide: false, .. } => true,
        Op::Bytes { op: Bytes::Swap | Bytes::Truncate, bits, .. } => bits < 64,
        Op::Load { size, signed, .. } => size != Size::Dw && !signed,
        Op::Atomic { op: AtomicOp::Add | AtomicOp::Xchg | AtomicOp::Cmpxchg, wide, .. } => !wide,
        Op::Fused(Fused::SetIf { .. }) => true,
        Op::Fused(Fused::Select { moves, .. }) => {
            return moves.into_iter().flatten().fold(known, |known, one| {
                if one.value >> 32 == 0 { known } else { known & !(1 << one.dst) }
            });
        }
        _ => false,
    };
    if result { known | writes } else { known & !writes }
}

/// Of 64-bit arithmetic on a register whose upper half is 0 (`left`) or not.
fn wide_result(op: AluOp, left: bool, src: Operand, known: Known) -> bool {
    let right = match src {
        Operand::Reg(src) => has(known, src),
        Operand::Imm(imm) => imm >= 0,
        Operand::FramePointer => false,
    };
    match (op, src) {
        (AluOp::And, _) => left || right,
        (AluOp::Or | AluOp::Xor, _) => left && right,
        (AluOp::Rsh, Operand::Imm(bits)) => left || bits & 63 >= 32,
        (AluOp::Rsh, _) => left,
        // Neither quotient nor remainder is above the dividend.
        (AluOp::Div | AluOp::Mod, _) => left,
        _ => false,
    }
}

fn has(known: Known, reg: Reg) -> bool {
    known >> reg & 1 != 0
}
