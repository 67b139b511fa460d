//! The number of the highest bit, which weir's `hist` finds by halving, becomes one instruction.
//!
//! ```text
//!     if r0 s> 0 goto positive
//!     …; goto done
//! positive:
//!     r6 = 2
//!     if r0 <= 0xffff goto low
//!     (halve by 32, 16)                    →     r6 = 2 + the number of r0's highest bit
//! low:
//!     (halve by 8, 4, 2)
//!     r0 >>= 1; r0 &= 1; r6 += r0
//! done:
//!
//! halve by n:
//!     r1 = 2^n - 1; r1 -= r0; r1 >>= 63; r1 <<= log2(n); r0 >>= r1; r6 += r1
//! ```
//!
//! Bytecode has no such instruction, and halving takes 21 to 33 operations of which most wait for the one before: 3 to
//! 5 ns of a probe that puts a latency into a histogram, of 26. It is exact for what is above 0 alone, so nothing but the comparison may
//! lead there, and nothing else into the middle; the number and what the steps leave behind must be dead at the end.
//!
//! Not here: numbers that the verifier knows to be above 0, for which there is no comparison; other ways to write it, such as clang's of a C program's `log2`.

use crate::front::fused::Fused;
use crate::front::lir::{AluOp, Op, Operand, Reg, Test};
use crate::limits::LOOK_AHEAD_SLOTS;
use crate::passes::blocks::{jumps_to, next};
use crate::passes::liveness::LiveRegs;

/// By how much it is halved, in order; the second part is jumped to.
const HALVES: [&[u8]; 2] = [&[5, 4], &[3, 2, 1]];
/// Numbers up to this take the second part alone.
const LOW_MAX: i32 = 0xffff;
/// What weir's buckets begin with.
const FIRST: u64 = 2;

/// True if there were any.
pub(crate) fn find(ops: &mut [Op], starts: &[usize], live: &LiveRegs) -> bool {
    let jumps_to = jumps_to(ops);
    let mut found = false;
    for index in 0..ops.len() {
        let Op::Branch {
            test: Test::Sgt,
            wide: true,
            left: Operand::Reg(src),
            right: Operand::Imm(0),
            target,
        } = ops[index]
        else {
            continue;
        };
        let Some(chain) = Chain::at(ops, target, src) else { continue };
        if !chain.is_closed(ops, starts, &jumps_to) || live.after[chain.last] & chain.leaves != 0 {
            continue;
        }
        ops[chain.first..chain.last].fill(Op::Nothing);
        ops[chain.last] = Op::Fused(Fused::HighestBit { dst: chain.dst, src, plus: FIRST as i32 });
        found = true;
    }
    found
}

/// The operations that find it.
struct Chain {
    first: usize,
    last: usize,
    dst: Reg,
    /// Registers that hold something else afterwards than they would.
    leaves: u16,
}

impl Chain {
    fn at(ops: &[Op], target: usize, src: Reg) -> Option<Chain> {
        let first = next(ops, target)?;
        let Op::Const { dst, value: FIRST } = ops[first] else { return None };
        let jump = next(ops, first + 1)?;
        let Op::Branch { test: Test::Le, wide: true, left, right: Operand::Imm(LOW_MAX), target: low } =
            ops[jump]
        else {
            return None;
        };
        let mut steps = Steps { ops, at: jump, src, dst, leaves: 1 << src };
        HALVES[0].iter().try_for_each(|&log2| steps.halve(log2))?;
        let second = next(ops, steps.at + 1)?;
        HALVES[1].iter().try_for_each(|&log2| steps.halve(log2))?;
        steps.alu(AluOp::Rsh, src, Operand::Imm(1))?;
        steps.alu(AluOp::And, src, Operand::Imm(1))?;
        steps.alu(AluOp::Add, dst, Operand::Reg(src))?;
        let is_it = left == Operand::Reg(src) && dst != src && next(ops, low) == Some(second) && low > jump;
        let (last, leaves) = (steps.at, steps.leaves);
        is_it.then_some(Chain { first, last, dst, leaves })
    }

    /// Whether the comparison is the only way in, and the chain's own jump the only other one to its middle.
    fn is_closed(&self, ops: &[Op], starts: &[usize], jumps_to: &[u32]) -> bool {
        let near = self.first.saturating_sub(LOOK_AHEAD_SLOTS)..self.first;
        let Some(before) = near.rev().find(|&index| ops[index] != Op::Nothing) else { return false };
        let inside = before + 1..=self.last;
        let is_reached_by_jumps = matches!(ops[before], Op::Jump { .. } | Op::Exit);
        let jumps: u32 = jumps_to[inside.clone()].iter().sum();
        is_reached_by_jumps && jumps == 2 && !starts.iter().any(|start| inside.contains(start))
    }
}

/// Reads one operation after the other.
struct Steps<'a> {
    ops: &'a [Op],
    /// The slot that was read last.
    at: usize,
    src: Reg,
    dst: Reg,
    leaves: u16,
}

impl Steps<'_> {
    fn halve(&mut self, log2: u8) -> Option<()> {
        self.at = next(self.ops, self.at + 1)?;
        let Op::Const { dst: step, value } = self.ops[self.at] else { return None };
        if value != (1 << (1u64 << log2)) - 1 || step == self.src || step == self.dst {
            return None;
        }
        self.leaves |= 1 << step;
        self.alu(AluOp::Sub, step, Operand::Reg(self.src))?;
        self.alu(AluOp::Rsh, step, Operand::Imm(63))?;
        self.alu(AluOp::Lsh, step, Operand::Imm(log2.into()))?;
        self.alu(AluOp::Rsh, self.src, Operand::Reg(step))?;
        self.alu(AluOp::Add, self.dst, Operand::Reg(step))
    }

    fn alu(&mut self, op: AluOp, dst: Reg, src: Operand) -> Option<()> {
        self.at = next(self.ops, self.at + 1)?;
        (self.ops[self.at] == Op::Alu { op, wide: true, dst, src }).then_some(())
    }
}
