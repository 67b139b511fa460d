//! Drops operations whose results nothing reads.
//!
//! In: operations in program order. Out: the same list with dead ones replaced by [`Op::Nothing`], and per
//! operation the registers that are read after it. A result counts as read only if an operation that stays
//! reads it, so whole chains go at once: after a lookup became an address, the key on the stack, its address
//! in r2 and the map in r1 are all dead.
//!
//! A local call reads the arguments that are live where its function begins.
//!
//! Registers and single bytes of the stack are followed. Nothing is assumed about other memory: stores there
//! stay, loads from there may go (the verifier proved that they cannot fault).

use crate::limits::STACK_BYTES_MAX;
use crate::lir::{ARGUMENTS, Effect, Op, StackRange};

/// What is read later: registers and bytes of the stack (bit 0 of word 0 is the deepest byte).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Live {
    regs: u16,
    stack: [u64; STACK_BYTES_MAX / 64],
}

/// The registers that are read later: bit n is register n.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct LiveRegs {
    pub(crate) at_entry: u16,
    /// Per operation.
    pub(crate) after: Vec<u16>,
}

/// Removes dead operations.
pub(crate) fn drop_dead(ops: &mut [Op]) -> LiveRegs {
    let effects: Vec<Effect> = ops.iter().map(Op::effect).collect();
    let (at_entry, after) = live(ops, &effects);
    for ((op, effect), live) in ops.iter_mut().zip(&effects).zip(&after) {
        if is_dead(effect, *live) {
            *op = Op::Nothing;
        }
    }
    LiveRegs { at_entry: at_entry.regs, after: after.iter().map(|live| live.regs).collect() }
}

/// What is live at entry and after each operation: the least fixed point, backward over the flow graph.
fn live(ops: &[Op], effects: &[Effect]) -> (Live, Vec<Live>) {
    let mut before = vec![Live::default(); ops.len()];
    let mut after = vec![Live::default(); ops.len()];
    let mut predecessors: Vec<Vec<u32>> = vec![Vec::new(); ops.len()];
    for (index, op) in ops.iter().enumerate() {
        for next in op.successors(index).into_iter().flatten().filter(|&next| next < ops.len()) {
            predecessors[next].push(index as u32);
        }
        if let Some(callee) = op.local_callee() {
            predecessors[callee].push(index as u32);
        }
    }
    // The last instruction is at the end, so it is handled first.
    let mut work: Vec<u32> = (0..ops.len() as u32).collect();
    let mut queued = vec![true; ops.len()];
    while let Some(index) = work.pop() {
        let index = index as usize;
        queued[index] = false;
        let mut live = Live::default();
        for next in ops[index].successors(index).into_iter().flatten().filter(|&next| next < ops.len()) {
            live.join(before[next]);
        }
        after[index] = live;
        transfer(&effects[index], &mut live);
        if let Some(callee) = ops[index].local_callee() {
            live.regs |= before[callee].regs & ARGUMENTS;
        }
        if live != before[index] {
            before[index] = live;
            for &previous in &predecessors[index] {
                if !std::mem::replace(&mut queued[previous as usize], true) {
                    work.push(previous);
                }
            }
        }
    }
    (before.first().copied().unwrap_or_default(), after)
}

fn transfer(effect: &Effect, live: &mut Live) {
    if is_dead(effect, *live) {
        return;
    }
    live.regs = live.regs & !effect.writes | effect.reads;
    if let Some(range) = effect.stack_writes {
        live.set(range, false);
    }
    for &range in &effect.stack_reads {
        live.set(range, true);
    }
}

fn is_dead(effect: &Effect, after: Live) -> bool {
    let written_is_read =
        effect.writes & after.regs != 0 || effect.stack_writes.is_some_and(|range| after.any(range));
    !effect.keep && !written_is_read
}

impl Live {
    fn join(&mut self, other: Live) {
        self.regs |= other.regs;
        for (word, other) in self.stack.iter_mut().zip(other.stack) {
            *word |= other;
        }
    }

    fn set(&mut self, range: StackRange, live: bool) {
        for byte in bytes(range) {
            let mask = 1 << (byte % 64);
            if live {
                self.stack[byte / 64] |= mask;
            } else {
                self.stack[byte / 64] &= !mask;
            }
        }
    }

    fn any(self, range: StackRange) -> bool {
        bytes(range).any(|byte| self.stack[byte / 64] >> (byte % 64) & 1 != 0)
    }
}

/// Indices of the bytes of `range` that lie within the stack.
fn bytes(range: StackRange) -> std::ops::Range<usize> {
    let index = |offset: i32| (offset + STACK_BYTES_MAX as i32).clamp(0, STACK_BYTES_MAX as i32) as usize;
    index(range.from)..index(range.to)
}

#[cfg(test)]
mod tests {
    use super::drop_dead;
    use crate::lir::{AluOp, At, Base, Extend, Op, Operand, Size, Test};

    const STACK_4: At = At { base: Base::Stack, offset: -4 };
    const STACK_8: At = At { base: Base::Stack, offset: -8 };
    const ANYWHERE: At = At { base: Base::Reg { reg: 6, may_be_stack: true }, offset: 0 };

    fn store(at: At, size: Size) -> Op {
        Op::Store { size, at, src: Operand::Imm(7), lanes: None }
    }

    fn load(dst: u8, at: At, size: Size) -> Op {
        Op::Load { dst, size, signed: false, at, lanes: None }
    }

    fn konst(dst: u8) -> Op {
        Op::Const { dst, value: 1 }
    }

    /// Marks which operations stay: `x` for each that does, `.` for each that goes.
    fn check(ops: Vec<Op>, expected: &str) {
        let mut kept = ops.clone();
        drop_dead(&mut kept);
        let text: String = kept.iter().map(|op| if *op == Op::Nothing { '.' } else { 'x' }).collect();
        assert_eq!(text, expected, "{ops:?}");
    }

    #[test]
    fn drops_values_that_nothing_reads() {
        check(vec![konst(1), konst(0), Op::Exit], ".xx");
        check(vec![konst(0), konst(0), Op::Exit], ".xx");
    }

    #[test]
    fn drops_chains() {
        check(
            vec![
                konst(1),
                Op::Mov { dst: 2, src: 1, extend: Extend::None },
                Op::Alu { op: AluOp::Add, wide: true, dst: 2, src: Operand::Reg(1) },
                konst(0),
                Op::Exit,
            ],
            "...xx",
        );
    }

    #[test]
    fn drops_stores_to_bytes_that_nothing_reads() {
        check(vec![store(STACK_4, Size::W), konst(0), Op::Exit], ".xx");
        check(
            vec![store(STACK_8, Size::W), store(STACK_4, Size::W), load(0, STACK_4, Size::W), Op::Exit],
            ".xxx",
        );
    }

    #[test]
    fn keeps_stores_that_are_read_in_part() {
        check(vec![store(STACK_8, Size::Dw), load(0, STACK_4, Size::B), Op::Exit], "xxx");
        check(
            vec![store(STACK_8, Size::Dw), store(STACK_4, Size::W), load(0, STACK_8, Size::Dw), Op::Exit],
            "xxxx",
        );
    }

    #[test]
    fn drops_stores_that_are_overwritten_unread() {
        check(
            vec![store(STACK_4, Size::W), store(STACK_8, Size::Dw), load(0, STACK_4, Size::W), Op::Exit],
            ".xxx",
        );
    }

    #[test]
    fn keeps_stores_that_an_unknown_pointer_may_read() {
        check(vec![konst(6), store(STACK_4, Size::W), load(0, ANYWHERE, Size::B), Op::Exit], "xxxx");
    }

    #[test]
    fn keeps_what_the_other_path_reads() {
        let branch = Op::Branch {
            test: Test::Eq,
            wide: true,
            left: Operand::Reg(1),
            right: Operand::Imm(0),
            target: 4,
        };
        check(
            vec![
                konst(1),
                konst(2),
                branch,
                konst(2),
                Op::Mov { dst: 0, src: 2, extend: Extend::None },
                Op::Exit,
            ],
            "xxxxxx",
        );
    }

    #[test]
    fn loops_reach_a_fixed_point() {
        let branch = Op::Branch {
            test: Test::Ne,
            wide: true,
            left: Operand::Reg(1),
            right: Operand::Imm(0),
            target: 2,
        };
        let add = Op::Alu { op: AluOp::Add, wide: true, dst: 3, src: Operand::Imm(1) };
        // r3 is only ever added to itself: dead although it is read in the loop.
        check(vec![konst(1), konst(3), add, branch, konst(0), Op::Exit], "x..xxx");
    }
}
