//! Branches that go one way, blocks without work, blocks in a row.
//!
//! - a branch on a constant, or with both ways the same, becomes a jump
//! - a branch on `x != 0` branches on `x`; on `x == 0` it branches on `x` with its ways exchanged
//! - a jump to a block that only returns, returns; a jump or branch to a block that only jumps on, jumps there
//! - a block parameter that is given the same value on every way in, or itself on a way round a loop, is that value
//! - a block whose only way in is a jump joins the block that jumps there
//! - blocks that nothing reaches lose their code ([`renumber`](super::renumber) then drops them)

use weir_event::Type;

use super::substitute::Substitution;
use crate::dominators::Dominators;
use crate::{Block, BlockId, CmpOp, Function, Op, Terminator, Value};

/// True if anything changed.
pub fn run(function: &mut Function) -> bool {
    let mut changed = fold_conditions(function);
    changed |= thread_jumps(function);
    changed |= empty_unreachable(function);
    changed |= replace_constant_params(function);
    changed |= join_rows(function);
    changed
}

fn fold_conditions(function: &mut Function) -> bool {
    // Of constants and comparisons alone something follows.
    let mut known: Vec<Option<Op>> = vec![None; function.types.len()];
    for inst in function.blocks.iter().flat_map(|block| &block.insts) {
        if let (Some(result), Op::Int(_) | Op::Cmp(..)) = (inst.result, &inst.op) {
            known[result.0 as usize] = Some(inst.op.clone());
        }
    }
    let mut changed = false;
    let types = &function.types;
    for block in &mut function.blocks {
        while let Some(end) = fold_condition(&block.end, &known, types) {
            block.end = end;
            changed = true;
        }
    }
    changed
}

/// The terminator that `end` can be made into.
fn fold_condition(end: &Terminator, known: &[Option<Op>], types: &[Type]) -> Option<Terminator> {
    let Terminator::Branch { condition, then, then_args, otherwise, otherwise_args } = end else {
        return None;
    };
    if then == otherwise && then_args == otherwise_args {
        return Some(Terminator::Jump { to: *then, args: then_args.clone() });
    }
    match known[condition.0 as usize].as_ref()? {
        Op::Int(0) => Some(Terminator::Jump { to: *otherwise, args: otherwise_args.clone() }),
        Op::Int(_) => Some(Terminator::Jump { to: *then, args: then_args.clone() }),
        // A condition is an integer; the name of a site, which may be compared with that of number 0, is none.
        Op::Cmp(op @ (CmpOp::Eq | CmpOp::Ne), value, zero)
            if known[zero.0 as usize] == Some(Op::Int(0))
                && matches!(types[value.0 as usize], Type::Int { .. }) =>
        {
            let straight = (*then, then_args.clone());
            let other = (*otherwise, otherwise_args.clone());
            let (yes, no) = if *op == CmpOp::Ne { (straight, other) } else { (other, straight) };
            Some(Terminator::Branch {
                condition: *value,
                then: yes.0,
                then_args: yes.1,
                otherwise: no.0,
                otherwise_args: no.1,
            })
        }
        _ => None,
    }
}

fn thread_jumps(function: &mut Function) -> bool {
    let mut changed = false;
    // From the last block on, so that a row of empty blocks is passed in one sweep.
    for index in (0..function.blocks.len()).rev() {
        let mut end = function.blocks[index].end.clone();
        let threaded = match &mut end {
            Terminator::Return | Terminator::Accept => false,
            Terminator::Jump { to, args } => match empty_block(function, *to) {
                Some(Terminator::Return) => {
                    end = Terminator::Return;
                    true
                }
                Some(Terminator::Accept) => {
                    end = Terminator::Accept;
                    true
                }
                _ => thread(function, to, args),
            },
            Terminator::Branch { then, then_args, otherwise, otherwise_args, .. } => {
                thread(function, then, then_args) | thread(function, otherwise, otherwise_args)
            }
        };
        if threaded {
            function.blocks[index].end = end;
            changed = true;
        }
    }
    changed
}

/// Where an empty block without parameters leads.
fn empty_block(function: &Function, id: BlockId) -> Option<&Terminator> {
    let block = &function.blocks[id.0 as usize];
    (block.insts.is_empty() && block.params.is_empty()).then_some(&block.end)
}

fn thread(function: &Function, to: &mut BlockId, args: &mut Vec<Value>) -> bool {
    match empty_block(function, *to) {
        // A block that jumps to itself leads nowhere.
        Some(Terminator::Jump { to: on, args: on_args }) if on != to => {
            *to = *on;
            *args = on_args.clone();
            true
        }
        _ => false,
    }
}

fn empty_unreachable(function: &mut Function) -> bool {
    let dominators = Dominators::of(function);
    let empty = Block { params: Vec::new(), insts: Vec::new(), end: Terminator::Return };
    let mut changed = false;
    for (index, block) in function.blocks.iter_mut().enumerate() {
        if !dominators.is_reachable(BlockId(index as u32)) && *block != empty {
            *block = empty.clone();
            changed = true;
        }
    }
    changed
}

fn replace_constant_params(function: &mut Function) -> bool {
    if function.blocks.iter().all(|block| block.params.is_empty()) {
        return false;
    }
    let ways_in = ways_in(function);
    let mut uses = Substitution::new(function);
    for (index, ways) in ways_in.iter().enumerate() {
        // From the last parameter on, so that removing one does not move those still to see.
        for at in (0..function.blocks[index].params.len()).rev() {
            let param = function.blocks[index].params[at];
            let given = ways.iter().map(|way| uses.get(args_of(function, *way)[at]));
            let mut given = given.filter(|value| *value != param);
            let Some(first) = given.next() else { continue };
            if given.all(|value| value == first) {
                uses.replace(param, first);
                function.blocks[index].params.remove(at);
                for way in ways {
                    args_of_mut(function, *way).remove(at);
                }
            }
        }
    }
    uses.apply(function)
}

/// Moves a block to the end of the one block that jumps to it.
fn join_rows(function: &mut Function) -> bool {
    let mut changed = false;
    // Who jumps to a block, joined or not: a joined one's own jumps are its predecessor's then.
    let mut ways = vec![0u32; function.blocks.len()];
    for block in &function.blocks {
        block.end.successors().for_each(|(to, _)| ways[to.0 as usize] += 1);
    }
    for index in (0..function.blocks.len()).rev() {
        let Terminator::Jump { to, .. } = function.blocks[index].end else { continue };
        let target = to.0 as usize;
        if target > index && ways[target] == 1 && function.blocks[target].params.is_empty() {
            let end = std::mem::replace(&mut function.blocks[target].end, Terminator::Return);
            let insts = std::mem::take(&mut function.blocks[target].insts);
            function.blocks[index].insts.extend(insts);
            function.blocks[index].end = end;
            changed = true;
        }
    }
    changed
}

/// One way into a block: the block it comes from, and whether it is the `otherwise` of a branch.
#[derive(Clone, Copy)]
struct Way {
    from: usize,
    otherwise: bool,
}

/// The ways into each block.
fn ways_in(function: &Function) -> Vec<Vec<Way>> {
    let mut ways = vec![Vec::new(); function.blocks.len()];
    for (from, block) in function.blocks.iter().enumerate() {
        for (index, (to, _)) in block.end.successors().enumerate() {
            ways[to.0 as usize].push(Way { from, otherwise: index == 1 });
        }
    }
    ways
}

fn args_of(function: &Function, way: Way) -> &[Value] {
    match &function.blocks[way.from].end {
        Terminator::Jump { args, .. } => args,
        Terminator::Branch { otherwise_args, .. } if way.otherwise => otherwise_args,
        Terminator::Branch { then_args, .. } => then_args,
        Terminator::Return | Terminator::Accept => &[],
    }
}

fn args_of_mut(function: &mut Function, way: Way) -> &mut Vec<Value> {
    match &mut function.blocks[way.from].end {
        Terminator::Jump { args, .. } => args,
        Terminator::Branch { otherwise_args, .. } if way.otherwise => otherwise_args,
        Terminator::Branch { then_args, .. } => then_args,
        Terminator::Return | Terminator::Accept => unreachable!("a way into a block begins at a jump"),
    }
}

#[cfg(test)]
mod tests {
    use crate::{pass, text};

    fn check(body: &str, want: &str) {
        let source = format!("max_map_keys 1\nmap @ plain i64\nfn \"f\" begin {{\n{body}\n}}\n");
        let mut module = text::parse(&source).unwrap_or_else(|error| panic!("{error}\n{source}"));
        pass::optimise(&mut module);
        crate::check::check(&module).unwrap_or_else(|faults| panic!("{faults:?} after {body}"));
        let printed = text::print(&module);
        let lines: Vec<&str> = printed
            .lines()
            .skip_while(|line| !line.starts_with("b0"))
            .map(str::trim)
            .take_while(|line| *line != "}")
            .collect();
        assert_eq!(lines.join("; "), want, "for {body}");
    }

    #[test]
    fn what_a_loop_gives_itself_is_what_came_in() {
        check(
            "b0: v0: i64 = arg 0 jump b1(v0) b1(v1: i64): v2: u64 = may_loop branch v2, b2, b3 b2: set @, v1 jump b1(v1) b3: return",
            "b0:; v0: i64 = arg 0; jump b1; b1:; v1: u64 = may_loop; branch v1, b2, b3; b2:; set @, v0; jump b1; b3:; return",
        );
    }

    #[test]
    fn a_constant_branch_goes_one_way() {
        check(
            "b0: v0: i64 = int 3 branch v0, b1, b2 b1: set @, v0 jump b2 b2: return",
            "b0:; v0: i64 = int 3; set @, v0; return",
        );
    }

    #[test]
    fn a_compared_condition_is_the_value() {
        check(
            "b0: v0: i64 = arg 0 v1: i64 = int 0 v2: i64 = eq v0, v1 branch v2, b1, b2 b1: return b2: set @, v0 return",
            "b0:; v0: i64 = arg 0; branch v0, b2, b1; b1:; return; b2:; set @, v0; return",
        );
    }

    #[test]
    fn a_jump_to_a_return_returns() {
        check(
            "b0: v0: i64 = arg 0 branch v0, b1, b2 b1: set @, v0 jump b2 b2: return",
            "b0:; v0: i64 = arg 0; branch v0, b1, b2; b1:; set @, v0; return; b2:; return",
        );
    }

    #[test]
    fn a_parameter_with_one_value_is_that_value() {
        check(
            "b0: v0: i64 = arg 0 v3: i64 = arg 1 branch v0, b1, b2 b1: set @, v3 jump b3(v0) b2: jump b3(v0)\n\
             b3(v1: i64): set @, v1 return value v2: u64",
            "b0:; v0: i64 = arg 0; v1: i64 = arg 1; branch v0, b1, b2; b1:; set @, v1; jump b2; b2:; set @, v0; return",
        );
    }
}
