//! The same computation done twice.
//!
//! - a pure operation ([`Effect::Pure`]) with the same operands as an earlier one that lies on every path to it is
//!   replaced by that one's value: constants, arithmetic, `arg`, `pid`, `tid`, `cpu`, `comm`, `probe`, `func`
//! - a field of an event (`slot`) is merged inside its block alone: to load it again costs what it costs to load what a register
//!   had to be freed from, and keeps none taken
//! - commutative operations and comparisons are compared with their operands in order
//!
//! Not merged: `nsecs` and `elapsed` (a script may want the time between two), map reads, and `str()`, which looks
//! at memory that another thread may change and counts its faults.

use std::collections::HashMap;

use weir_event::Type;

use super::substitute::Substitution;
use crate::dominators::Dominators;
use crate::{BinOp, BlockId, Builtin, CmpOp, Effect, Function, Op, Value};

/// True if anything changed.
pub fn run(function: &mut Function) -> bool {
    let dominators = Dominators::of(function);
    let mut uses = Substitution::new(function);
    let mut seen: HashMap<(Key, Type), Vec<(BlockId, Value)>> = HashMap::new();
    for (index, block) in function.blocks.iter().enumerate() {
        let here = BlockId(index as u32);
        if !dominators.is_reachable(here) {
            continue;
        }
        for inst in &block.insts {
            let Some(result) = inst.result.filter(|_| inst.op.effect() == Effect::Pure) else { continue };
            let mut op = inst.op.clone();
            op.for_each_operand(|value| *value = uses.get(*value));
            let Some(key) = Key::of(&op) else { continue };
            // Integers of either sign may stand for each other; the bits of a double, or a cookie, may not for an integer.
            let ty = match function.ty(result) {
                Type::Int { .. } => Type::U64,
                other => other.clone(),
            };
            let earlier = seen.entry((key, ty)).or_default();
            let is_slot = matches!(op, Op::Builtin(Builtin::Slot(_)));
            let may_stand = |block: BlockId| block == here || !is_slot && dominators.dominates(block, here);
            match earlier.iter().rev().find(|(block, _)| may_stand(*block)) {
                Some((_, value)) => uses.replace(result, *value),
                None => earlier.push((here, result)),
            }
        }
    }
    // What was replaced is unused now, and dead code removal takes it: this pass only changes uses, so "changed"
    // must not be said twice for the same instruction.
    remove_replaced(function, &uses);
    uses.apply(function)
}

fn remove_replaced(function: &mut Function, uses: &Substitution) {
    for block in &mut function.blocks {
        block.insts.retain(|inst| inst.result.is_none_or(|result| uses.get(result) == result));
    }
}

/// What makes two pure operations the same.
#[derive(PartialEq, Eq, Hash)]
enum Key {
    Int(i64),
    Str(String),
    Builtin(Builtin),
    Bin(BinOp, Value, Value),
    Cmp(CmpOp, Value, Value),
    StrEq(Value, Value, bool, Option<u32>),
}

impl Key {
    fn of(op: &Op) -> Option<Key> {
        let ordered = |a: Value, b: Value| if a <= b { (a, b) } else { (b, a) };
        Some(match op {
            Op::Int(value) => Key::Int(*value),
            Op::Str(text) => Key::Str(text.clone()),
            Op::Builtin(builtin) => Key::Builtin(*builtin),
            Op::Bin(op, a, b) if op.is_commutative() => {
                let (a, b) = ordered(*a, *b);
                Key::Bin(*op, a, b)
            }
            Op::Bin(op, a, b) => Key::Bin(*op, *a, *b),
            Op::Cmp(op, a, b) if a <= b => Key::Cmp(*op, *a, *b),
            Op::Cmp(op, a, b) => Key::Cmp(op.swapped(), *b, *a),
            Op::StrEq { a, b, negate, first } => {
                let (a, b) = ordered(*a, *b);
                Key::StrEq(a, b, *negate, *first)
            }
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use crate::{pass, text};

    /// How many instructions `body` has after all passes.
    fn check(body: &str, want: usize) {
        let source = format!("max_map_keys 1\nmap @ plain i64\nfn \"f\" begin {{\n{body}\n}}\n");
        let mut module = text::parse(&source).unwrap_or_else(|error| panic!("{error}\n{source}"));
        pass::optimise(&mut module);
        crate::check::check(&module).unwrap_or_else(|faults| panic!("{faults:?} after {body}"));
        let count: usize = module.functions[0].blocks.iter().map(|block| block.insts.len()).sum();
        assert_eq!(count, want, "{}", text::print(&module));
    }

    #[test]
    fn arguments_and_ids_merge() {
        check("b0: v0: i64 = arg 0 v1: i64 = arg 0 v2: i64 = mul v0, v1 set @, v2 return", 3);
        check("b0: v0: i64 = pid v1: i64 = pid v2: i64 = mul v0, v1 set @, v2 return", 3);
        check(
            "b0: v0: i64 = arg 0 v1: i64 = arg 1 v2: i64 = mul v0, v1 v3: i64 = mul v1, v0 v4: i64 = and v2, v3 set @, v4 return",
            5,
        );
    }

    #[test]
    fn clocks_maps_and_memory_do_not_merge() {
        check("b0: v0: i64 = nsecs v1: i64 = nsecs v2: i64 = sub v1, v0 set @, v2 return", 4);
        check("b0: v0: i64 = elapsed v1: i64 = elapsed v2: i64 = sub v1, v0 set @, v2 return", 4);
        check("b0: v0: i64 = get @ v1: i64 = get @ v2: i64 = mul v1, v0 set @, v2 return", 4);
        check(
            "b0: v0: u64 = arg 0 v1: str8 = read_str v0 v2: str8 = read_str v0 v3: u64 = streq v1, v2 set @, v3 return",
            5,
        );
    }

    #[test]
    fn only_what_lies_on_every_path_merges() {
        check(
            "b0: v0: i64 = arg 0 branch v0, b1, b2 b1: v1: i64 = arg 1 set @, v1 jump b2 b2: v2: i64 = arg 1 set @, v2 return",
            5,
        );
    }
}
