//! A filter at a place: its slots become what the event's fields are there, and a clause runs only for what it accepts.
//!
//! In: a function whose trigger is [`Trigger::Filter`], and how each slot is read at a probe ([`FoundArgument`]). Out of [`at`]: the
//! same function, which reads registers and memory of the probe, and asks of texts in the registers that hold them. [`guard`] puts that in front of a clause: `accept` goes on
//! with the clause, `return` ends its program. So the filter runs first, in the same program, before anything is copied.
//! [`guard_by_program`] asks a program instead.

use std::collections::HashMap;

use weir_event::Type;

use crate::{
    BinOp, Block, BlockId, Builtin, FoundArgument, Function, Inst, Op, Terminator, Trigger, Value, argument,
};

/// The filter as it runs at a place where its slots are these arguments.
///
/// Panics if it reads a slot that is not among them, or an argument that cannot be read.
pub fn at(filter: &Function, arguments: &[FoundArgument]) -> Function {
    assert_eq!(filter.trigger, Trigger::Filter, "only filters have slots");
    let mut types = filter.types.clone();
    let mut read: HashMap<Value, Value> = HashMap::new();
    let mut blocks = Vec::with_capacity(filter.blocks.len());
    for block in &filter.blocks {
        let mut insts = Vec::with_capacity(block.insts.len());
        for inst in &block.insts {
            let (Op::Builtin(Builtin::Slot(slot)), Some(result)) = (&inst.op, inst.result) else {
                let mut op = inst.op.clone();
                op.for_each_operand(|value| renamed(value, &read));
                if let Op::TextBegins { slot, .. } = &mut op {
                    let held = arguments[usize::from(*slot)].whole_slot();
                    // SANITY: whoever offers a text as vouched for has looked.
                    *slot = held.expect("a text that is vouched for is in a slot");
                }
                insts.push(Inst { result: inst.result, op });
                continue;
            };
            let mut append = |op: Op, ty: Type| {
                types.push(ty);
                let value = Value(types.len() as u32 - 1);
                insts.push(Inst { result: Some(value), op });
                value
            };
            read.insert(result, slot_of(&arguments[usize::from(*slot)], &mut append));
        }
        let mut end = block.end.clone();
        end.for_each_operand(|value| renamed(value, &read));
        blocks.push(Block { params: block.params.clone(), insts, end });
    }
    Function { types, blocks, ..filter.clone() }
}

/// Bit n: it asks of a text whose address is in slot n.
pub fn text_slots(function: &Function) -> u32 {
    let ops = function.ops();
    ops.fold(0, |slots, op| match op {
        Op::TextBegins { slot, .. } => slots | 1u32.checked_shl((*slot).into()).unwrap_or(0),
        _ => slots,
    })
}

/// As a slot holds it: of a floating-point number its bits alone.
pub(crate) fn slot_of(argument: &FoundArgument, append: argument::Append<'_>) -> Value {
    let value = argument::read(argument, append);
    if !argument.is_float {
        return value;
    }
    let bits = if argument.bytes == 4 { i64::from(u32::MAX) } else { -1 };
    let bits = append(Op::Int(bits), Type::I64);
    append(Op::Bin(BinOp::And, value, bits), Type::I64)
}

/// A value is defined before its uses, so that the name is known by then.
fn renamed(value: &mut Value, read: &HashMap<Value, Value>) {
    if let Some(now) = read.get(value) {
        *value = *now;
    }
}

/// Puts a call of the program that the user gave in front of a clause, which runs where that returns something else than 0.
pub fn guard_by_program(clause: &mut Function) {
    let asked = Value(0);
    let ends = |end: Terminator| Block { params: Vec::new(), insts: Vec::new(), end };
    let decision = Terminator::Branch {
        condition: asked,
        then: BlockId(1),
        then_args: Vec::new(),
        otherwise: BlockId(2),
        otherwise_args: Vec::new(),
    };
    let call = Inst { result: Some(asked), op: Op::CallProgram };
    let first = Block { insts: vec![call], ..ends(decision) };
    let filter = Function {
        trigger: Trigger::Filter,
        types: vec![Type::U64],
        blocks: vec![first, ends(Terminator::Accept), ends(Terminator::Return)],
        ..clause.clone()
    };
    guard(clause, &filter, 0);
}

/// Puts a filter that reads no slots any more in front of a clause. The filter's maps are those of the clause's module from
/// number `first_map` on.
pub fn guard(clause: &mut Function, filter: &Function, first_map: u32) {
    let first_block = filter.blocks.len() as u32;
    let first_value = filter.types.len() as u32;
    let mut blocks = filter.blocks.clone();
    for block in &mut blocks {
        block.insts.iter_mut().filter_map(|inst| inst.op.map_mut()).for_each(|map| map.0 += first_map);
        if block.end == Terminator::Accept {
            block.end = Terminator::Jump { to: BlockId(first_block), args: Vec::new() };
        }
    }
    for mut block in std::mem::take(&mut clause.blocks) {
        let moved = |value: &mut Value| value.0 += first_value;
        block.params.iter_mut().for_each(moved);
        for inst in &mut block.insts {
            inst.result.iter_mut().for_each(moved);
            inst.op.for_each_operand(moved);
        }
        block.end.for_each_operand(moved);
        match &mut block.end {
            Terminator::Jump { to, .. } => to.0 += first_block,
            Terminator::Branch { then, otherwise, .. } => {
                then.0 += first_block;
                otherwise.0 += first_block;
            }
            Terminator::Return | Terminator::Accept => {}
        }
        blocks.push(block);
    }
    clause.types.splice(..0, filter.types.iter().cloned());
    clause.blocks = blocks;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ArgumentPlace, Module, check, pass, text};

    fn module(functions: &str) -> Module {
        let text = format!("max_map_keys 16\nmap @ count\nsite \"p\" \"f\"\n{functions}");
        text::parse(&text).unwrap_or_else(|error| panic!("{error} in\n{text}"))
    }

    const FILTER: &str = "fn \"filter\" filter {\nb0:\nv0: u64 = slot 1\nv1: i64 = int 5\nv2: u64 = sgt v0, v1\n\
        branch v2, b1, b2\nb1:\naccept\nb2:\nreturn\n}\n";
    const CLAUSE: &str = "fn \"uprobe:b:f\" uprobe {\nsite \"b\" \"f\" 0\nb0:\nv0: u64 = pid\nbranch v0, b1, b2\n\
         b1:\naggregate @\njump b2\nb2:\nreturn\n}\n";

    /// The arguments of slots 0 and 1: the low 4 bytes of rdi, and `second`.
    fn arguments(second: FoundArgument) -> [FoundArgument; 2] {
        let first = ArgumentPlace::Register { number: 7, shift: 0, bits: 32 };
        [FoundArgument { place: Ok(first), ..second.clone() }, second]
    }

    fn argument(bytes: u8, is_float: bool, place: ArgumentPlace) -> FoundArgument {
        FoundArgument { bytes, signed: true, is_float, place: Ok(place), ..FoundArgument::register(0) }
    }

    /// The clause behind the filter, checked and optimised.
    fn guarded(second: FoundArgument) -> String {
        let mut clause = module(CLAUSE);
        guard(&mut clause.functions[0], &at(&module(FILTER).functions[0], &arguments(second)), 0);
        assert_eq!(check::check(&clause), Ok(()));
        pass::optimise(&mut clause);
        assert_eq!(check::check(&clause), Ok(()));
        text::print(&clause)
    }

    #[test]
    fn a_slot_is_read_as_the_argument_is() {
        let text = guarded(argument(2, false, ArgumentPlace::Register { number: 6, shift: 0, bits: 16 }));
        let expected = ["reg 6", "int 48", "shl v0, v1", "ashr v2, v1", "int 5", "sgt v3, v4", "branch v5"];
        let mut rest = text.as_str();
        for part in expected {
            let at = rest.find(part).unwrap_or_else(|| panic!("{part} is not next in\n{text}"));
            rest = &rest[at + part.len()..];
        }
        assert!(!text.contains("slot") && !text.contains("accept"), "{text}");
    }

    #[test]
    fn memory_and_floating_point_arguments_are_slots_too() {
        let base = Some(4);
        let memory = ArgumentPlace::Memory { base, index: None, displacement: 8, relative: false };
        assert!(guarded(argument(8, false, memory)).contains("read_int 8"));
        let text = guarded(argument(4, true, ArgumentPlace::Vector(1)));
        assert!(text.contains("farg 1") && text.contains("4294967295"), "{text}");
    }

    #[test]
    fn the_filters_maps_are_behind_the_clauses() {
        let counts = "fn \"filter\" filter {\nb0:\naggregate @\naccept\n}\n";
        let mut clause = module(CLAUSE);
        let mut other = clause.schema.maps[0].clone();
        other.name = "@other".into();
        clause.schema.maps.push(other);
        guard(&mut clause.functions[0], &at(&module(counts).functions[0], &[]), 1);
        assert_eq!(check::check(&clause), Ok(()));
        let text = text::print(&clause);
        assert!(text.contains("aggregate @other") && text.contains("aggregate @\n"), "{text}");
    }

    #[test]
    fn a_program_is_asked_in_front_of_the_clause_and_behind_the_filter() {
        let mut clause = module(CLAUSE);
        guard_by_program(&mut clause.functions[0]);
        let register = ArgumentPlace::Register { number: 6, shift: 0, bits: 16 };
        let arguments = arguments(argument(2, false, register));
        guard(&mut clause.functions[0], &at(&module(FILTER).functions[0], &arguments), 0);
        pass::optimise(&mut clause);
        assert_eq!(check::check(&clause), Ok(()));
        let text = text::print(&clause);
        let at = |part: &str| text.find(part).unwrap_or_else(|| panic!("no {part} in\n{text}"));
        assert!(at("sgt") < at("call_program") && at("call_program") < at("= pid"), "{text}");
        assert_eq!(text::parse(&text).as_ref(), Ok(&clause));
    }

    #[test]
    fn what_the_clause_did_it_does_behind_the_filter() {
        let text = guarded(argument(8, false, ArgumentPlace::Constant(9)));
        assert!(!text.contains("sgt"), "a constant is decided at once:\n{text}");
        assert!(text.contains("aggregate @"), "{text}");
        let text = guarded(argument(8, false, ArgumentPlace::Constant(1)));
        assert!(!text.contains("aggregate @"), "nothing is kept:\n{text}");
    }
}
