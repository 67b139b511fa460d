//! Results that nobody uses.
//!
//! - an operation that changes nothing ([`Effect::Pure`], [`Effect::Reads`]) and whose result nothing uses goes
//! - a block parameter that nothing uses goes, with the values given for it
//!
//! Blocks are walked from the last to the first, so that one sweep takes a whole chain: every use of a value comes
//! after its definition.

use crate::{Effect, Function, Inst, Terminator, Value};

/// True if anything changed.
pub fn run(function: &mut Function) -> bool {
    let mut used = vec![false; function.types.len()];
    let mut changed = false;
    for index in (0..function.blocks.len()).rev() {
        changed |= drop_args_of_unused_params(function, index, &used);
        let block = &mut function.blocks[index];
        block.end.operands().for_each(|value| used[value.0 as usize] = true);
        for inst in block.insts.iter().rev() {
            if is_wanted(inst, &used) {
                inst.op.operands().for_each(|value| used[value.0 as usize] = true);
            }
        }
        let before = block.insts.len();
        block.insts.retain(|inst| is_wanted(inst, &used));
        changed |= block.insts.len() < before;
    }
    for block in &mut function.blocks {
        block.params.retain(|param| used[param.0 as usize]);
    }
    changed
}

fn is_wanted(inst: &Inst, used: &[bool]) -> bool {
    inst.result.is_none_or(|result| used[result.0 as usize]) || inst.op.effect() == Effect::Writes
}

/// Jumps go forward: when a block is looked at, the uses in every block that it jumps to are known.
fn drop_args_of_unused_params(function: &mut Function, index: usize, used: &[bool]) -> bool {
    let (before, after) = function.blocks.split_at_mut(index + 1);
    let mut changed = false;
    let mut keep = |to: crate::BlockId, args: &mut Vec<Value>| {
        let params = &after[to.0 as usize - index - 1].params;
        let mut at = 0;
        args.retain(|_| {
            at += 1;
            let wanted = used[params[at - 1].0 as usize];
            changed |= !wanted;
            wanted
        });
    };
    match &mut before[index].end {
        Terminator::Jump { to, args } => keep(*to, args),
        Terminator::Branch { then, then_args, otherwise, otherwise_args, .. } => {
            keep(*then, then_args);
            keep(*otherwise, otherwise_args);
        }
        Terminator::Return | Terminator::Accept => {}
    }
    changed
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
    fn unused_parameters_go() {
        check(
            "b0: v0: i64 = arg 0 v1: i64 = arg 1 jump b1(v0, v1) b1(v2: i64, v3: i64): set @, v3 return",
            "b0:; v0: i64 = arg 1; jump b1(v0); b1(v1: i64):; set @, v1; return; }",
        );
    }
}
