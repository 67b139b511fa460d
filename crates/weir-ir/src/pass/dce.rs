//! Results that nobody uses.
//!
//! - an operation that changes nothing ([`Effect::Pure`], [`Effect::Reads`]) and whose result nothing uses goes
//! - a block parameter that nothing uses goes, with the values given for it
//!
//! What is used is found from effects and conditions on: the operands of what is used are used, and of a parameter what is given
//! for it, also by the jumps back of a loop. A variable that a loop only counts up goes with its additions.

use crate::{Block, Effect, Function, Inst, Terminator, Value};

/// True if anything changed.
pub fn run(function: &mut Function) -> bool {
    let used = used(function);
    let counts: Vec<usize> = function.blocks.iter().map(|block| block.params.len()).collect();
    let kept: Vec<Vec<bool>> = function
        .blocks
        .iter()
        .map(|block| block.params.iter().map(|param| used[param.0 as usize]).collect())
        .collect();
    let mut changed = false;
    for block in &mut function.blocks {
        drop_args(&mut block.end, &kept);
        let before = block.insts.len();
        block.insts.retain(|inst| is_wanted(inst, &used));
        block.params.retain(|param| used[param.0 as usize]);
        changed |= block.insts.len() < before;
    }
    changed | function.blocks.iter().zip(counts).any(|(block, count)| block.params.len() < count)
}

/// By value: whether something comes of it.
fn used(function: &Function) -> Vec<bool> {
    let mut used = vec![false; function.types.len()];
    let mut is_changed = true;
    // Every use of a value comes after its definition: one sweep takes a whole chain, and a loop needs another.
    while is_changed {
        is_changed = false;
        for block in function.blocks.iter().rev() {
            is_changed |= mark_block(function, block, &mut used);
        }
        is_changed &= function.blocks.iter().enumerate().any(|(index, block)| jumps_back(index, block));
    }
    used
}

fn jumps_back(index: usize, block: &Block) -> bool {
    block.end.successors().any(|(to, _)| to.0 as usize <= index)
}

/// True if something was not known to be used.
fn mark_block(function: &Function, block: &Block, used: &mut [bool]) -> bool {
    let mut is_changed = false;
    let mut mark = |value: Value, used: &mut [bool]| {
        is_changed |= !used[value.0 as usize];
        used[value.0 as usize] = true;
    };
    if let Terminator::Branch { condition, .. } = &block.end {
        mark(*condition, used);
    }
    for (to, args) in block.end.successors() {
        for (param, arg) in function.blocks[to.0 as usize].params.iter().zip(args) {
            if used[param.0 as usize] {
                mark(*arg, used);
            }
        }
    }
    for inst in block.insts.iter().rev() {
        if is_wanted(inst, used) {
            inst.op.operands().for_each(|value| mark(value, used));
        }
    }
    is_changed
}

fn is_wanted(inst: &Inst, used: &[bool]) -> bool {
    inst.result.is_none_or(|result| used[result.0 as usize]) || inst.op.effect() == Effect::Writes
}

/// Leaves what is given for parameters that are kept. `kept`: by block and parameter.
fn drop_args(end: &mut Terminator, kept: &[Vec<bool>]) {
    let keep = |to: crate::BlockId, args: &mut Vec<Value>| {
        let mut kept = kept[to.0 as usize].iter();
        args.retain(|_| kept.next().is_some_and(|kept| *kept));
    };
    match end {
        Terminator::Jump { to, args } => keep(*to, args),
        Terminator::Branch { then, then_args, otherwise, otherwise_args, .. } => {
            keep(*then, then_args);
            keep(*otherwise, otherwise_args);
        }
        Terminator::Return | Terminator::Accept => {}
    }
}

#[cfg(test)]
mod tests {
    use crate::{pass, text};

    fn check(body: &str, want: &str) {
        let source = format!("max_map_keys 1\nmap @ plain i64\nfn \"f\" begin {{\n{body}\n}}\n");
        let mut module = text::parse(&source).unwrap_or_else(|error| panic!("{error}\n{source}"));
        pass::dce::run(&mut module.functions[0]);
        pass::renumber::run(&mut module.functions[0]);
        crate::check::check(&module).unwrap_or_else(|faults| panic!("{faults:?} after {body}"));
        let printed = text::print(&module);
        let lines: Vec<&str> =
            printed.lines().skip_while(|line| !line.starts_with("b0")).map(str::trim).collect();
        assert_eq!(lines.join("; "), want, "for {body}");
    }

    #[test]
    fn chains_and_reads_go() {
        check("b0: v0: i64 = arg 0 v1: i64 = get @ v2: i64 = mul v0, v1 return", "b0:; return; }");
    }

    #[test]
    fn effects_stay() {
        check(
            "b0: v0: i64 = arg 0 v1: i64 = add_to @, v0 return",
            "b0:; v0: i64 = arg 0; v1: i64 = add_to @, v0; return; }",
        );
    }

    #[test]
    fn what_a_loop_only_counts_goes() {
        check(
            "b0: v0: i64 = int 0 jump b1(v0) b1(v1: i64): v2: u64 = may_loop branch v2, b2, b3 b2: v3: i64 = int 1 \
             v4: i64 = add v1, v3 jump b1(v4) b3: return",
            "b0:; jump b1; b1:; v0: u64 = may_loop; branch v0, b2, b3; b2:; jump b1; b3:; return; }",
        );
    }

    #[test]
    fn unused_parameters_go() {
        check(
            "b0: v0: i64 = arg 0 v1: i64 = arg 1 jump b1(v0, v1) b1(v2: i64, v3: i64): set @, v3 return",
            "b0:; v0: i64 = arg 1; jump b1(v0); b1(v1: i64):; set @, v1; return; }",
        );
    }
}
