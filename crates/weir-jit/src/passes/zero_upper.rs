//! Zero-extensions and masks of what has no more bits already, and pairs of shifts that stand for extensions.
//!
//! - `w1 = w1` where the upper half of r1 is known to be 0 goes; `w2 = w1` becomes a plain move, which other passes
//!   see through;
//! - `r1 &= 255` behind a load of a byte goes, and so do wider masks and cuts of what they leave alone;
//! - `r1 <<= 32; r1 >>= 32` (what clang writes for cpu v1) is one zero-extension, `s>>= 32` one sign-extension,
//!   and a longer shift back to the right a shift of 32 bits; the same of 8 and 16 bits, by shifts of 56 and 48, or
//!   of 24 and 16 in the lower half.
//!
//! What is known flows forward over the whole program: how many bits each register has at most (8, 16, 32 or 64), kept
//! where all paths agree.
//!
//! Not here: other known bits.

use crate::front::fused::Fused;
use crate::front::lir::{AluOp, AtomicOp, Bytes, Extend, Op, Operand, Reg};
use crate::passes::blocks::next;

/// Bit n: register n has no more bits than so many.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Known {
    eight: u16,
    sixteen: u16,
    thirty_two: u16,
}

impl Known {
    const NOTHING: Known = Known { eight: 0, sixteen: 0, thirty_two: 0 };
    /// Of code that nothing reaches.
    const ALL: Known = Known { eight: u16::MAX, sixteen: u16::MAX, thirty_two: u16::MAX };

    fn join(self, other: Known) -> Known {
        Known {
            eight: self.eight & other.eight,
            sixteen: self.sixteen & other.sixteen,
            thirty_two: self.thirty_two & other.thirty_two,
        }
    }

    /// Most bits that a register has.
    fn bits(self, reg: Reg) -> u32 {
        let has = |mask: u16| mask >> reg & 1 != 0;
        match (has(self.eight), has(self.sixteen), has(self.thirty_two)) {
            (true, _, _) => 8,
            (_, true, _) => 16,
            (_, _, true) => 32,
            _ => 64,
        }
    }

    /// The registers of `mask` have so many bits at most.
    fn with(self, mask: u16, bits: u32) -> Known {
        let of = |old: u16, most: u32| if bits <= most { old | mask } else { old & !mask };
        Known { eight: of(self.eight, 8), sixteen: of(self.sixteen, 16), thirty_two: of(self.thirty_two, 32) }
    }
}

/// True if there were any.
pub(crate) fn drop_extensions(ops: &mut [Op], leaders: &[bool], starts: &[usize]) -> bool {
    let mut found = join_shifts(ops, leaders);
    let cuts = |op: &Op| {
        matches!(
            op,
            Op::Mov { extend: Extend::Zero32, .. }
                | Op::Alu { op: AluOp::And, src: Operand::Imm(_), .. }
                | Op::Bytes { op: Bytes::Truncate, .. }
        )
    };
    if !ops.iter().any(cuts) {
        return found;
    }
    let known = flow(ops, starts);
    for (op, known) in ops.iter_mut().zip(known) {
        *op = match *op {
            Op::Mov { dst, src, extend: Extend::Zero32 } if known.bits(src) <= 32 => {
                if dst == src {
                    Op::Nothing
                } else {
                    Op::Mov { dst, src, extend: Extend::None }
                }
            }
            Op::Alu { op: AluOp::And, dst, src: Operand::Imm(mask), .. }
                if keeps_all(mask, known.bits(dst)) =>
            {
                Op::Nothing
            }
            Op::Bytes { op: Bytes::Truncate, bits, dst } if known.bits(dst) <= u32::from(bits) => Op::Nothing,
            _ => continue,
        };
        found = true;
    }
    found
}

/// Whether a mask leaves the lower `bits` bits alone.
fn keeps_all(mask: i32, bits: u32) -> bool {
    match bits {
        // A mask with its upper bit set keeps, in 64 bits, the upper half; in 32 bits the register has no more.
        0..=32 => u64::from(mask as u32) & low(bits) == low(bits),
        _ => false,
    }
}

fn low(bits: u32) -> u64 {
    u64::MAX >> (64 - bits)
}

/// True if there were any.
fn join_shifts(ops: &mut [Op], leaders: &[bool]) -> bool {
    let mut found = false;
    for index in 0..ops.len() {
        let Op::Alu { op: AluOp::Lsh, wide, dst, src: Operand::Imm(left) } = ops[index] else { continue };
        let Some(at) = next(ops, index + 1) else { continue };
        let Op::Alu { op, wide: same, dst: again, src: Operand::Imm(right) } = ops[at] else { continue };
        if (again, same) != (dst, wide) || leaders[index + 1..=at].contains(&true) {
            continue;
        }
        let Some(joined) = joined_shifts(op, wide, dst, left, right) else { continue };
        ops[at] = joined;
        ops[index] = Op::Nothing;
        found = true;
    }
    found
}

/// What a shift to the left and then one to the right are together.
fn joined_shifts(op: AluOp, wide: bool, dst: Reg, left: i32, right: i32) -> Option<Op> {
    let width = if wide { 64 } else { 32 };
    if !(1..width).contains(&left) {
        return None;
    }
    match (op, width - left, right) {
        (AluOp::Rsh, 32, 32) if wide => Some(Op::Mov { dst, src: dst, extend: Extend::Zero32 }),
        (AluOp::Rsh, 32, 33..64) if wide => {
            Some(Op::Alu { op, wide: false, dst, src: Operand::Imm(right - 32) })
        }
        (AluOp::Rsh, 8 | 16, _) if right == left => {
            Some(Op::Alu { op: AluOp::And, wide, dst, src: Operand::Imm(low((width - left) as u32) as i32) })
        }
        (AluOp::Arsh, 8 | 16 | 32, _) if right == left => {
            let bits = (width - left) as u8;
            Some(Op::Mov { dst, src: dst, extend: Extend::Sign { bits, wide } })
        }
        _ => None,
    }
}

/// What is known before each operation: the greatest fixed point, so every operation is visited at most as often as
/// there are registers and sizes, and once more.
fn flow(ops: &[Op], starts: &[usize]) -> Vec<Known> {
    let mut before = vec![Known::ALL; ops.len()];
    let mut work: Vec<u32> = (0..ops.len() as u32).rev().collect();
    for &start in starts {
        before[start] = Known::NOTHING;
    }
    let mut queued = vec![true; ops.len()];
    while let Some(index) = work.pop() {
        let index = index as usize;
        queued[index] = false;
        let after = transfer(&ops[index], before[index]);
        for next in ops[index].successors(index).into_iter().flatten().filter(|&next| next < ops.len()) {
            let joined = before[next].join(after);
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
    if let Op::Fused(Fused::Select { moves, .. }) = *op {
        return moves
            .into_iter()
            .flatten()
            .fold(known, |known, one| known.with(1 << one.dst, known.bits(one.dst).max(bits_of(one.value))));
    }
    known.with(writes, result(op, known))
}

/// Most bits of what an operation writes.
fn result(op: &Op, known: Known) -> u32 {
    let half = |wide: bool| if wide { 64 } else { 32 };
    match *op {
        Op::Const { value, .. } => bits_of(value),
        Op::Mov { src, extend, .. } => match extend {
            Extend::None => known.bits(src),
            Extend::Zero32 => known.bits(src).min(32),
            // What is not negative stays.
            Extend::Sign { bits, .. } if known.bits(src) < bits.into() => known.bits(src),
            Extend::Sign { wide, .. } => half(wide),
        },
        Op::Alu { op, wide, dst, src } => {
            let most = half(wide);
            let right = match src {
                Operand::Reg(src) => known.bits(src),
                Operand::Imm(imm) => bits_of(i64::from(imm) as u64),
                Operand::FramePointer => 64,
            };
            arithmetic(op, wide, known.bits(dst).min(most), src, right.min(most)).min(most)
        }
        Op::Neg { wide, .. } => half(wide),
        Op::Bytes { op: Bytes::Swap, bits, .. } => bits.into(),
        Op::Bytes { op: Bytes::Truncate, bits, dst } => known.bits(dst).min(bits.into()),
        Op::Load { size, signed: false, .. } => 8 * size.bytes() as u32,
        Op::Atomic { op: AtomicOp::Add | AtomicOp::Xchg | AtomicOp::Cmpxchg, wide, .. } => half(wide),
        Op::Fused(Fused::SetIf { .. }) => 8,
        _ => 64,
    }
}

/// Of arithmetic on so many bits, before the result is cut to the width of the operation.
fn arithmetic(op: AluOp, wide: bool, left: u32, src: Operand, right: u32) -> u32 {
    match op {
        AluOp::And => left.min(right),
        AluOp::Or | AluOp::Xor => left.max(right),
        AluOp::Add => left.max(right) + 1,
        AluOp::Mul => left + right,
        AluOp::Rsh => match src {
            Operand::Imm(bits) => left.saturating_sub(bits as u32 & if wide { 63 } else { 31 }),
            _ => left,
        },
        // Neither quotient nor remainder is above the dividend.
        AluOp::Div | AluOp::Mod => left,
        AluOp::Sub | AluOp::Lsh | AluOp::Arsh | AluOp::Sdiv | AluOp::Smod => 64,
    }
}

fn bits_of(value: u64) -> u32 {
    64 - value.leading_zeros()
}
