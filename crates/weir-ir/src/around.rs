//! Parts of what is put around a clause that records ([`crate::flight`], [`crate::trigger`]): its blocks moved behind others, and the
//! few blocks and instructions that ask words and count.

use weir_event::Type;

use crate::{Block, BlockId, Function, Inst, MapId, Op, Terminator, Value};

/// The block with its values and the blocks that it names so much further on.
pub(crate) fn moved(block: &Block, values: u32, blocks: u32) -> Block {
    let mut block = block.clone();
    let renamed = |value: &mut Value| value.0 += values;
    block.params.iter_mut().for_each(renamed);
    for inst in &mut block.insts {
        inst.result.iter_mut().for_each(renamed);
        inst.op.for_each_operand(renamed);
    }
    block.end.for_each_operand(renamed);
    match &mut block.end {
        Terminator::Jump { to, .. } => to.0 += blocks,
        Terminator::Branch { then, otherwise, .. } => {
            then.0 += blocks;
            otherwise.0 += blocks;
        }
        Terminator::Return | Terminator::Accept => {}
    }
    block
}

/// The blocks of a filter, moved, whose maps are those of a module from `first_map` on; with `accepts` and `rejects` as its ends.
pub(crate) fn moved_filter(
    filter: &[Block],
    (values, blocks, first_map): (u32, u32, u32),
    accepts: &Terminator,
    rejects: &Terminator,
) -> Vec<Block> {
    let one = |block: &Block| {
        let mut block = moved(block, values, blocks);
        block.insts.iter_mut().filter_map(|inst| inst.op.map_mut()).for_each(|map| map.0 += first_map);
        block.end = match block.end {
            Terminator::Accept => accepts.clone(),
            Terminator::Return => rejects.clone(),
            other => other,
        };
        block
    };
    filter.iter().map(one).collect()
}

pub(crate) fn block(insts: Vec<Inst>, end: Terminator) -> Block {
    Block { params: Vec::new(), insts, end }
}

pub(crate) fn jump(to: BlockId) -> Terminator {
    Terminator::Jump { to, args: Vec::new() }
}

/// Types of so many own values and of the filter's, in front of the clause's.
pub(crate) fn put_types(clause: &mut Function, own: u32, filter: &[Type]) {
    let types: Vec<Type> = (0..own).map(|_| Type::U64).chain(filter.iter().cloned()).collect();
    clause.types.splice(..0, types);
}

pub(crate) fn inst(result: Value, op: Op) -> Inst {
    Inst { result: Some(result), op }
}

/// `one`: a value that is 1.
pub(crate) fn add_one(map: MapId, one: Value) -> Op {
    Op::MapAdd { map, key: Vec::new(), delta: one }
}

pub(crate) fn get(map: MapId) -> Op {
    Op::MapGet { map, key: Vec::new() }
}

pub(crate) fn branch(
    condition: Value,
    (then, then_args): (BlockId, Vec<Value>),
    (otherwise, otherwise_args): (BlockId, Vec<Value>),
) -> Terminator {
    Terminator::Branch { condition, then, then_args, otherwise, otherwise_args }
}
