//! Whether a program may access words of memory at addresses that are no multiples of their size.
//!
//! That faults in a thread that checks alignment (EFLAGS.AC), so whoever enters the code must know. The verifier says it of loads and
//! stores; here is what operations do besides. The stack begins at a multiple of 8, as the thread's own does.
//!
//! A word that may be anywhere counts as one that is misaligned. What compilers made of the runtime is not looked into: of its functions
//! only those are trusted that take no memory ([`weir_rt::executable::may_misalign`]), and those of hashes, where keys and values begin at
//! multiples of 8: they go by words from there, and by bytes in the last.

use weir_ebpf::insn::class;
use weir_ebpf::{HelperId, MapSpec, helper};
use weir_rt::executable;
use weir_verifier::VerifiedProgram;

use crate::front::lir::{At, Base, Op, Over, Size};
use crate::front::values::Value;

/// Of the operations as they were lowered, or without those that are dead.
pub(crate) fn may_misalign(program: &VerifiedProgram, ops: &[Op]) -> bool {
    let is_access = |opcode: u8| matches!(opcode & 7, class::LDX | class::ST | class::STX);
    let mut insns = program.insns().iter().zip(program.facts());
    insns.any(|(insn, facts)| facts.reachable && is_access(insn.opcode) && facts.may_misalign)
        || ops.iter().any(operation_may)
}

/// Whether all accesses of a helper are aligned, which gets these as its second and third argument.
pub(crate) fn call_is(id: HelperId, map: Option<&MapSpec>, [second, third]: [Value; 2]) -> bool {
    let begins_at_word = |value: Value| matches!(value, Value::Stack(at) if at % 8 == 0);
    match (id, map.is_some_and(|map| map.kind.is_hash())) {
        (helper::MAP_LOOKUP_ELEM | helper::MAP_DELETE_ELEM, true) => begins_at_word(second),
        (helper::MAP_UPDATE_ELEM, true) => begins_at_word(second) && begins_at_word(third),
        _ => !executable::may_misalign(id),
    }
}

fn operation_may(op: &Op) -> bool {
    match *op {
        Op::Helper { is_aligned, .. } => !is_aligned,
        Op::Lookup { key, .. } => !is_aligned(key, Size::W),
        // Copies, and texts anywhere; and of another program nothing is known.
        Op::Output { .. }
        | Op::Declared { .. }
        | Op::Text { .. }
        | Op::PacketLoad { .. }
        | Op::TailCall { .. } => true,
        Op::Loop { over, .. } => over == Over::Elements,
        _ => false,
    }
}

fn is_aligned(at: At, size: Size) -> bool {
    matches!(at.base, Base::Stack | Base::Context) && at.offset % size.bytes() == 0
}
