//! `x << n | x >> width − n` becomes one rotation. (Bytecode has none; hashes are full of them.)
//!
//! Followed through each stretch: which registers hold the same value, and which hold one shifted by a constant. At
//! a union of two opposite shifts of one value that make up the width, the later shift still finds the value in its
//! register, so the rotation is put there:
//!
//! ```text
//!     w2 = w1                   w2 = w1
//!     w2 <<= 15                 w2 <<= 15       (dead)
//!     w1 >>= 17           →     w2 = w1 rol 15
//!     w2 |= w1
//! ```
//!
//! Nothing between the two may read the result's register or the later shift's, and what the later shift made must
//! be dead after the union.

use crate::front::fused::Fused;
use crate::front::lir::{AluOp, Extend, Op, Operand, REGISTERS, Reg};
use crate::limits::LOOK_AHEAD_SLOTS;
use crate::passes::liveness::LiveRegs;

/// True if there were any.
pub(crate) fn find(ops: &mut [Op], leaders: &[bool], live: &LiveRegs) -> bool {
    let is_shift = |op: &Op| matches!(op, Op::Alu { op: AluOp::Lsh, src: Operand::Imm(_), .. });
    if !ops.iter().any(is_shift) {
        return false;
    }
    let mut state = State::default();
    let mut found = false;
    for index in 0..ops.len() {
        if leaders[index] {
            (0..REGISTERS as Reg).for_each(|reg| state.set(reg));
        }
        if let Some(rotation) = state.rotation(ops, index, live) {
            let Rotation { at, dst, later, rotate } = rotation;
            ops[at] = Op::Fused(rotate);
            ops[index] = Op::Nothing;
            found = true;
            state.set(dst);
            state.set(later);
        } else {
            state.step(&ops[index], index);
        }
    }
    found
}

/// A shift by a constant that made a register's value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Shift {
    at: usize,
    is_left: bool,
    wide: bool,
    bits: u8,
    /// Number of the value that was shifted: of all 64 bits, or of the lower half.
    of: u32,
}

struct Rotation {
    at: usize,
    dst: Reg,
    /// The register of the later shift.
    later: Reg,
    rotate: Fused,
}

/// Numbers stand for values: the same number, the same value.
#[derive(Debug, Default)]
struct State {
    whole: [u32; REGISTERS],
    low: [u32; REGISTERS],
    shifts: [Option<Shift>; REGISTERS],
    last: u32,
}

impl State {
    /// A new value.
    fn set(&mut self, reg: Reg) {
        self.last += 1;
        let reg = usize::from(reg);
        (self.whole[reg], self.low[reg], self.shifts[reg]) = (self.last, self.last, None);
    }

    fn step(&mut self, op: &Op, index: usize) {
        match *op {
            Op::Mov { dst, src, extend: Extend::None } => {
                let (dst, src) = (usize::from(dst), usize::from(src));
                self.whole[dst] = self.whole[src];
                self.low[dst] = self.low[src];
                self.shifts[dst] = self.shifts[src].filter(|_| dst == src);
            }
            Op::Mov { dst, src, extend: Extend::Zero32 } => {
                let low = self.low[usize::from(src)];
                self.set(dst);
                self.low[usize::from(dst)] = low;
            }
            Op::Alu { op: op @ (AluOp::Lsh | AluOp::Rsh), wide, dst, src: Operand::Imm(bits) } => {
                let width = if wide { 64 } else { 32 };
                let of = if wide { self.whole } else { self.low }[usize::from(dst)];
                self.set(dst);
                if (1..width).contains(&bits) {
                    let shift = Shift { at: index, is_left: op == AluOp::Lsh, wide, bits: bits as u8, of };
                    self.shifts[usize::from(dst)] = Some(shift);
                }
            }
            _ => {
                let writes = op.effect().writes;
                (0..REGISTERS as Reg).filter(|reg| writes >> reg & 1 != 0).for_each(|reg| self.set(reg));
            }
        }
    }

    fn rotation(&self, ops: &[Op], index: usize, live: &LiveRegs) -> Option<Rotation> {
        let Op::Alu { op: AluOp::Or | AluOp::Add | AluOp::Xor, wide, dst, src: Operand::Reg(src) } =
            ops[index]
        else {
            return None;
        };
        let (one, other) = (self.shifts[usize::from(dst)]?, self.shifts[usize::from(src)]?);
        let width = if one.wide { 64 } else { 32 };
        let fits = one.of == other.of
            && one.wide == other.wide
            && one.is_left != other.is_left
            && one.bits + other.bits == width
            && (wide || !one.wide);
        if !fits {
            return None;
        }
        let (later, at) = if one.at > other.at { (dst, one.at) } else { (src, other.at) };
        let is_dead_after = later == dst || live.after[index] >> later & 1 == 0;
        let touched = 1 << later | 1 << dst;
        let is_near = index - at <= LOOK_AHEAD_SLOTS;
        if !is_near || !is_dead_after || ops[at + 1..index].iter().any(|op| op.reads() & touched != 0) {
            return None;
        }
        let left = if one.is_left { one.bits } else { other.bits };
        Some(Rotation { at, dst, later, rotate: Fused::Rotate { wide: one.wide, dst, src: later, left } })
    }
}
