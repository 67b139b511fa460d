//! Values and blocks counted from 0 without gaps.
//!
//! - blocks that nothing reaches are dropped, and the others keep their order
//! - values are numbered in the order of their definitions; types of values that nothing defines are dropped

use crate::dominators::Dominators;
use crate::{BlockId, Function, Terminator, Value};

pub fn run(function: &mut Function) {
    drop_unreachable(function);
    // By value; those that nothing defines stand for themselves, and are in no instruction.
    let mut numbers: Vec<Value> = (0..function.types.len() as u32).map(Value).collect();
    let mut types = Vec::new();
    for block in &function.blocks {
        let results = block.insts.iter().filter_map(|inst| inst.result);
        for value in block.params.iter().copied().chain(results) {
            numbers[value.0 as usize] = Value(types.len() as u32);
            types.push(function.ty(value).clone());
        }
    }
    function.types = types;
    let number = |value: Value| numbers[value.0 as usize];
    for block in &mut function.blocks {
        block.params.iter_mut().for_each(|param| *param = number(*param));
        for inst in &mut block.insts {
            inst.op.for_each_operand(|value| *value = number(*value));
            inst.result = inst.result.map(number);
        }
        block.end.for_each_operand(|value| *value = number(*value));
    }
}

fn drop_unreachable(function: &mut Function) {
    let dominators = Dominators::of(function);
    let mut numbers = Vec::new();
    let mut kept = 0;
    for index in 0..function.blocks.len() {
        numbers.push(BlockId(kept));
        kept += u32::from(dominators.is_reachable(BlockId(index as u32)));
    }
    let mut index = 0;
    function.blocks.retain(|_| {
        index += 1;
        dominators.is_reachable(BlockId(index - 1))
    });
    for block in &mut function.blocks {
        match &mut block.end {
            Terminator::Jump { to, .. } => *to = numbers[to.0 as usize],
            Terminator::Branch { then, otherwise, .. } => {
                *then = numbers[then.0 as usize];
                *otherwise = numbers[otherwise.0 as usize];
            }
            Terminator::Return | Terminator::Accept => {}
        }
    }
}
