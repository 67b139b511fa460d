//! What is left of a program, without gaps: what passes and the emitter go over.
//!
//! In: an operation per slot of the bytecode, of which the dead, the unreachable and the second halves do nothing:
//! in a filter two of three. Out: the others, with the slot that each comes from, and jumps, calls and functions at
//! their new places.
//!
//! A function keeps its first operation, whatever that does: another one may have the same place else.

use weir_verifier::Function;

use crate::front::lir::Op;
use crate::passes::liveness::LiveRegs;

/// A program of operations, by their own numbers.
#[derive(Debug)]
pub(crate) struct Code {
    pub(crate) ops: Vec<Op>,
    pub(crate) live: LiveRegs,
    pub(crate) functions: Vec<Function>,
    /// By operation: the slot of its instruction.
    pub(crate) origins: Vec<u32>,
}

pub(crate) fn compact(mut ops: Vec<Op>, live: LiveRegs, functions: &[Function]) -> Code {
    let mut starts = functions.iter().map(|function| function.start).peekable();
    let mut origins = Vec::with_capacity(ops.len());
    // By slot: the number of the operation that stays there, or else comes next.
    let mut numbers = Vec::with_capacity(ops.len());
    for (slot, op) in ops.iter().enumerate() {
        numbers.push(origins.len());
        if starts.next_if_eq(&slot).is_some() || *op != Op::Nothing {
            origins.push(slot as u32);
        }
    }
    let after = origins.iter().map(|&slot| live.after[slot as usize]).collect();
    let live = LiveRegs { at_entry: live.at_entry, after };
    let mut number = 0;
    ops.retain_mut(|op| {
        let stays = origins.get(numbers[number]) == Some(&(number as u32));
        number += 1;
        if let Some(target) = op.target_mut() {
            *target = numbers[*target];
        }
        stays
    });
    let functions =
        functions.iter().map(|function| Function { start: numbers[function.start], ..*function }).collect();
    Code { ops, live, functions, origins }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::front::lir::{Operand, Test};

    #[test]
    fn jumps_calls_and_functions_go_where_their_operations_went() {
        let call = |target| Op::LocalCall { target, stack_escapes: false };
        let branch = |target| Op::Branch {
            test: Test::Eq,
            wide: true,
            left: Operand::Reg(0),
            right: Operand::Imm(0),
            target,
        };
        // A branch to a slot without operation goes to the next one that has one; the second function begins with none.
        let ops =
            vec![Op::Nothing, Op::Nothing, branch(3), Op::Nothing, call(6), Op::Exit, Op::Nothing, Op::Exit];
        let live = LiveRegs { at_entry: 2, after: (0..8).collect() };
        let functions = [0, 6].map(|start| Function { start, stack_bytes: 8 });
        let code = compact(ops, live, &functions);
        assert_eq!(code.ops, [Op::Nothing, branch(2), call(4), Op::Exit, Op::Nothing, Op::Exit]);
        assert_eq!(code.origins, [0, 2, 4, 5, 6, 7]);
        assert_eq!(code.live, LiveRegs { at_entry: 2, after: vec![0, 2, 4, 5, 6, 7] });
        assert_eq!(code.functions.iter().map(|function| function.start).collect::<Vec<_>>(), [0, 4]);
    }
}
