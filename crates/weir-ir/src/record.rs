//! The body of a clause that records an event: its context and its arguments as they are at the probe.
//!
//! In: a clause, the number of the event in the module's schema, what each slot of its context is, and how each slot behind that is read.
//! A stack has no slot: whoever generates code takes it where the event is recorded.
//! Out: the clause with one block that does so. What stands in front of it (a filter) is put there later.

use weir_event::Type;

use crate::filter::slot_of;
use crate::{Block, Builtin, EventId, FoundArgument, Function, Inst, Op, Terminator, Value};

/// Has the clause record the event.
///
/// Panics if an argument cannot be read.
pub fn record(clause: &mut Function, event: EventId, context: &[Builtin], arguments: &[FoundArgument]) {
    let (mut types, mut insts): (Vec<Type>, Vec<Inst>) = (Vec::new(), Vec::new());
    let mut append = |op: Op, ty: Type| {
        types.push(ty);
        let value = Value(types.len() as u32 - 1);
        insts.push(Inst { result: Some(value), op });
        value
    };
    let mut args: Vec<Value> = Vec::with_capacity(context.len() + arguments.len());
    for &builtin in context {
        let ty = if builtin == Builtin::Comm { Type::Str { bytes: COMM_BYTES } } else { Type::U64 };
        args.push(append(Op::Builtin(builtin), ty));
    }
    args.extend(arguments.iter().map(|argument| slot_of(argument, &mut append)));
    insts.push(Inst { result: None, op: Op::Record { event, args, marked: None } });
    clause.types = types;
    clause.blocks = vec![Block { params: Vec::new(), insts, end: Terminator::Return }];
}

/// Bytes of [`Builtin::Comm`].
pub const COMM_BYTES: u32 = 16;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ArgumentPlace, check, pass, text};

    const MODULE: &str = "max_map_keys 16\n\
        event \"shop\" \"sale\" level 6 (\"vtid\" i4 slot 0, \"procname\" array 16 u1 characters slot 1, \"id\" u2 hex slot 2, \
        \"price\" f4 slot 3, \"names\" sequence u8 slot 4, \"color\" enum i4 [\"RED\" 0 0, \"BLUE\" 5 -1] slot 6, \
        \"at\" struct [\"x\" 0 i2, \"y\" 8 f8] slot 7, \"text\" text slot 8, \"more\" string slot 9, \"callers\" stack 9 hex slot 10)\n\
        event \"shop\" \"open\" ()\n\
        site \"p\" \"f\"\nfn \"usdt:b:shop:sale\" usdt {\nsite \"b\" \"shop\" \"sale\" 4096 0\nb0:\nreturn\n}\n";

    fn register(number: u8, bytes: u8, is_float: bool) -> FoundArgument {
        let place = Ok(ArgumentPlace::Register { number, shift: 0, bits: 8 * bytes });
        FoundArgument { bytes, signed: true, is_float, place, ..FoundArgument::register(number) }
    }

    #[test]
    fn context_and_arguments_are_recorded() {
        let mut module = text::parse(MODULE).unwrap();
        assert_eq!(text::parse(&text::print(&module)).as_ref(), Ok(&module));
        let arguments: Vec<FoundArgument> =
            [(2, false), (4, true), (8, false), (8, false), (4, false), (8, false), (8, false), (8, false)]
                .into_iter()
                .enumerate()
                .map(|(number, (bytes, is_float))| register(number as u8, bytes, is_float))
                .collect();
        record(&mut module.functions[0], EventId(0), &[Builtin::Tid, Builtin::Comm], &arguments);
        assert_eq!(check::check(&module), Ok(()));
        pass::optimise(&mut module);
        assert_eq!(check::check(&module), Ok(()));
        let text = text::print(&module);
        assert!(
            text.contains("= tid") && text.contains("= comm") && text.contains("record 0(v0, v1, "),
            "{text}"
        );
        assert_eq!(text::parse(&text).as_ref(), Ok(&module));
    }

    #[test]
    fn what_does_not_fit_the_event_is_a_fault() {
        let check = |event: u32, arguments: usize, want: &str| {
            let mut module = text::parse(MODULE).unwrap();
            let arguments = vec![register(0, 8, false); arguments];
            record(&mut module.functions[0], EventId(event), &[], &arguments);
            let faults = check::check(&module).expect_err(want);
            assert!(faults.iter().any(|fault| fault.contains(want)), "{faults:?} lacks {want}");
        };
        check(1, 1, "1 values where 0 are wanted");
        check(2, 0, "no event 2");
        let slots = MODULE.replace("hex slot 2", "hex slot 3");
        let faults = check::check(&text::parse(&slots).unwrap()).expect_err("slots");
        assert!(faults[0].contains("field `id` is in slot 3, not in 2"), "{faults:?}");
    }
}
