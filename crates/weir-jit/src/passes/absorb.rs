//! Moves and address arithmetic go into the operations that use their results.
//!
//! | definition of d | goes into | as |
//! |---|---|---|
//! | `d = s` | any operand of arithmetic, memory, comparison | s; arithmetic on d gets a third operand |
//! | `w_d = w_s` | operands of 32-bit operations | s |
//! | `d += s` | addresses | base and index |
//! | `d += constant` | addresses | offset |
//! | `d <<= 1..3` | indices of addresses | scale |
//! | `d &= mask` | counts of shifts that look at no bit outside of it | the unmasked |
//!
//! Backward through each stretch: a definition goes if every use of its result up to the next value of d takes it in,
//! and what it reads keeps its value up to the last of them. So `r2 = i; r2 <<= 3; r1 += r2; r0 = *(r1)` folds from the
//! end to a single load. (A register that is defined in terms of itself has, with the definition gone, its old value
//! until then, which is what is put into the uses.)
//!
//! Not here: results that are used beyond the stretch; atomics, calls and lookups, whose registers are fixed.

use crate::front::fused::{Fused, is_encodable};
use crate::front::lir::{AluOp, At, Base, Extend, Op, Operand, Reg, Size};
use crate::limits::LOOK_AHEAD_SLOTS;
use crate::passes::blocks;
use crate::passes::liveness::LiveRegs;

/// True if there were any. `live` stays right but for registers that are said to live where they do no longer.
pub(crate) fn absorb(ops: &mut [Op], leaders: &[bool], live: &mut LiveRegs) -> bool {
    let mut found = false;
    for index in (0..ops.len()).rev() {
        let Some((dst, value)) = definition(&ops[index]) else { continue };
        let Some(uses) = uses(ops, leaders, live, index, dst, value) else { continue };
        let Some(&(last, _)) = uses.last() else { continue };
        for after in &mut live.after[index..last] {
            *after = *after & !(1 << dst) | value.reads();
        }
        for (at, op) in uses {
            ops[at] = op;
        }
        ops[index] = Op::Nothing;
        found = true;
    }
    found
}

/// What a definition makes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Value {
    Copy(Reg),
    /// The lower half, zero-extended.
    Low(Reg),
    Sum(Reg, Reg),
    Offset(Reg, i32),
    /// Shifted left by 1, 2 or 3.
    Scaled(Reg, u8),
    Masked(Reg, i32),
}

impl Value {
    fn reads(self) -> u16 {
        match self {
            Value::Copy(reg) | Value::Low(reg) => 1 << reg,
            Value::Offset(reg, _) | Value::Scaled(reg, _) | Value::Masked(reg, _) => 1 << reg,
            Value::Sum(left, right) => 1 << left | 1 << right,
        }
    }
}

fn definition(op: &Op) -> Option<(Reg, Value)> {
    let (dst, op, left, right) = match *op {
        Op::Mov { dst, src, extend: Extend::None } if dst != src => return Some((dst, Value::Copy(src))),
        Op::Mov { dst, src, extend: Extend::Zero32 } => return Some((dst, Value::Low(src))),
        Op::Alu { op: AluOp::And, dst, src: Operand::Imm(mask), .. } => {
            return Some((dst, Value::Masked(dst, mask)));
        }
        Op::Alu { op, wide: true, dst, src } => (dst, op, dst, src),
        Op::Fused(Fused::Alu { op, wide: true, dst, left, right }) => (dst, op, left, right),
        _ => return None,
    };
    let value = match (op, right) {
        (AluOp::Add, Operand::Reg(right)) => Value::Sum(left, right),
        (AluOp::Add, Operand::Imm(by)) => Value::Offset(left, by),
        (AluOp::Sub, Operand::Imm(by)) => Value::Offset(left, by.checked_neg()?),
        (AluOp::Lsh, Operand::Imm(by @ 1..=3)) => Value::Scaled(left, by as u8),
        _ => return None,
    };
    Some((dst, value))
}

/// The operations that use what stands in `dst` from `index` on, each with `value` taken in; none if one cannot.
fn uses(
    ops: &[Op],
    leaders: &[bool],
    live: &LiveRegs,
    index: usize,
    dst: Reg,
    value: Value,
) -> Option<Vec<(usize, Op)>> {
    let sources = value.reads() & !(1 << dst);
    let mut uses = Vec::new();
    let mut sources_are_old = false;
    for at in index + 1..ops.len().min(index + LOOK_AHEAD_SLOTS) {
        if leaders[at] {
            return None;
        }
        let op = &ops[at];
        if *op == Op::Nothing {
            continue;
        }
        if op.reads() >> dst & 1 != 0 {
            if sources_are_old {
                return None;
            }
            uses.push((at, taken_in(op, dst, value)?));
        }
        let writes = op.effect().writes;
        if writes >> dst & 1 != 0 || live.after[at] >> dst & 1 == 0 {
            return Some(uses);
        }
        if blocks::ends(op) {
            return None;
        }
        sources_are_old |= writes & sources != 0;
    }
    None
}

/// `op` with `value` in place of register `dst`.
fn taken_in(op: &Op, dst: Reg, value: Value) -> Option<Op> {
    match *op {
        Op::Load { dst: to, size, signed, at, lanes: None } => {
            Some(Op::Load { dst: to, size, signed, at: address(at, dst, value)?, lanes: None })
        }
        Op::Fused(Fused::LoadSwapped { dst: to, size, at }) => {
            Some(Op::Fused(Fused::LoadSwapped { dst: to, size, at: address(at, dst, value)? }))
        }
        Op::Fused(Fused::Update { op, size, at, src }) => {
            let src = operand(src, dst, value, size == Size::Dw)?;
            Some(Op::Fused(Fused::Update { op, size, at: address(at, dst, value)?, src }))
        }
        Op::Store { size, at, src, lanes: None } => {
            let src = operand(src, dst, value, size == Size::Dw)?;
            Some(Op::Store { size, at: address(at, dst, value)?, src, lanes: None })
        }
        _ => taken_in_by_registers(op, dst, value),
    }
}

fn taken_in_by_registers(op: &Op, dst: Reg, value: Value) -> Option<Op> {
    match *op {
        Op::Mov { dst: to, src, extend } => {
            let wide = !matches!(extend, Extend::Zero32 | Extend::Sign { .. });
            Some(Op::Mov { dst: to, src: register(src, dst, value, wide)?, extend })
        }
        Op::Alu { op, wide, dst: to, src } => {
            let left = register(to, dst, value, wide)?;
            arithmetic(op, wide, to, left, right_operand(op, src, dst, value, wide)?)
        }
        Op::Fused(Fused::Alu { op, wide, dst: to, left, right }) => {
            let left = register(left, dst, value, wide)?;
            arithmetic(op, wide, to, left, right_operand(op, right, dst, value, wide)?)
        }
        Op::Fused(Fused::Rotate { wide, dst: to, src, left }) => {
            let src = register(src, dst, value, wide)?;
            Some(Op::Fused(Fused::Rotate { wide, dst: to, src, left }))
        }
        Op::Branch { test, wide, left, right, target } => {
            let [left, right] = both(left, right, dst, value, wide)?;
            Some(Op::Branch { test, wide, left, right, target })
        }
        Op::Fused(Fused::SetIf { test, wide, dst: to, left, right }) => {
            let [left, right] = both(left, right, dst, value, wide)?;
            Some(Op::Fused(Fused::SetIf { test, wide, dst: to, left, right }))
        }
        Op::Fused(Fused::Select { test, wide, left, right, moves })
            // Where nothing is moved the old value stays.
            if moves.iter().flatten().all(|one| one.dst != dst) =>
        {
            let [left, right] = both(left, right, dst, value, wide)?;
                        Some(Op::Fused(Fused::Select { test, wide, left, right, moves }))
        }
        _ => None,
    }
}

fn arithmetic(op: AluOp, wide: bool, dst: Reg, left: Reg, right: Operand) -> Option<Op> {
    if left == dst {
        return Some(Op::Alu { op, wide, dst, src: right });
    }
    is_encodable(op, dst, left, right).then_some(Op::Fused(Fused::Alu { op, wide, dst, left, right }))
}

/// Shifts look at the lower 5 or 6 bits of their count.
fn right_operand(op: AluOp, right: Operand, dst: Reg, value: Value, wide: bool) -> Option<Operand> {
    let bits = if wide { 63 } else { 31 };
    match (op, value) {
        (AluOp::Lsh | AluOp::Rsh | AluOp::Arsh, Value::Masked(src, mask))
            if right == Operand::Reg(dst) && mask & bits == bits =>
        {
            Some(Operand::Reg(src))
        }
        _ => operand(right, dst, value, wide),
    }
}

fn both(left: Operand, right: Operand, dst: Reg, value: Value, wide: bool) -> Option<[Operand; 2]> {
    Some([operand(left, dst, value, wide)?, operand(right, dst, value, wide)?])
}

fn operand(operand: Operand, dst: Reg, value: Value, wide: bool) -> Option<Operand> {
    match operand {
        Operand::Reg(reg) => register(reg, dst, value, wide).map(Operand::Reg),
        other => Some(other),
    }
}

/// `wide`: all 64 bits are used.
fn register(reg: Reg, dst: Reg, value: Value, wide: bool) -> Option<Reg> {
    match value {
        _ if reg != dst => Some(reg),
        Value::Copy(src) => Some(src),
        Value::Low(src) if !wide => Some(src),
        _ => None,
    }
}

fn address(at: At, dst: Reg, value: Value) -> Option<At> {
    if at.base.reads() >> dst & 1 == 0 {
        return Some(at);
    }
    let At { base, offset } = at;
    let (base, by) = match (base, value) {
        (Base::Reg { may_be_stack, .. }, value) => match value {
            Value::Copy(reg) => (Base::Reg { reg, may_be_stack }, 0),
            Value::Sum(base, index) => (Base::Indexed { base, index, scale: 0, may_be_stack }, 0),
            Value::Offset(reg, by) => (Base::Reg { reg, may_be_stack }, by),
            Value::Low(_) | Value::Scaled(..) | Value::Masked(..) => return None,
        },
        (Base::Indexed { base, index, scale, may_be_stack }, value) => {
            let (base, index, scale, by) = indexed(base, index, scale, dst, value)?;
            (Base::Indexed { base, index, scale, may_be_stack }, by)
        }
        (Base::Stack | Base::Context, _) => return Some(at),
    };
    Some(At { base, offset: offset.checked_add(by)? })
}

/// Base, index, scale and what is added to the offset.
fn indexed(base: Reg, index: Reg, scale: u8, dst: Reg, value: Value) -> Option<(Reg, Reg, u8, i32)> {
    match value {
        Value::Copy(src) => {
            let new = |reg| if reg == dst { src } else { reg };
            Some((new(base), new(index), scale, 0))
        }
        Value::Offset(src, by) if base == dst && index != dst => Some((src, index, scale, by)),
        Value::Offset(src, by) if index == dst && base != dst => {
            Some((base, src, scale, by.checked_mul(1 << scale)?))
        }
        Value::Scaled(src, by) if index == dst && base != dst && scale == 0 => Some((base, src, by, 0)),
        // Without a scale the two are alike.
        Value::Scaled(src, by) if base == dst && index != dst && scale == 0 => Some((index, src, by, 0)),
        _ => None,
    }
}
