//! What each register holds before each instruction, as far as choosing instructions depends on it. In a local
//! function "the stack" is its own frame: an address in a caller's frame is like any other address.
//!
//! In: instructions and the verifier's facts (only reachable instructions and possible branches are followed).
//! Out: per instruction the eleven [`Value`]s, the same on every path or `Other`. A register said not to hold a
//! stack address holds none: the passes that drop stores rely on this.
//!
//! Deliberately not done: evaluating arithmetic on constants. The compiler folds those already, and an
//! evaluator here would be a third implementation of the instruction set to keep right. (One exception: the pid,
//! which saves a system call where the tid in the same word needs one.)

use weir_ebpf::insn::{alu, atomic, class, jmp, mode, pseudo, source};
use weir_ebpf::{Insn, ProgramKind, helper};
use weir_verifier::{InsnFacts, VerifiedProgram};

/// Content of a register.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Value {
    Const(u64),
    /// r10 plus so much.
    Stack(i32),
    /// The context's address plus so much.
    Context(i32),
    /// What `get_current_pid_tgid` answered: its upper half is known.
    PidTid,
    /// Not an address on the stack.
    Other,
    /// Anything.
    MaybeStack,
}

/// r0..=r10.
pub(crate) type Values = [Value; 11];

/// Larger offsets from r10 or the context are given up on: no access can be there.
const OFFSET_MAX: i32 = 1 << 20;

/// The values before each instruction; `None` where no path leads. `pid` is the process that the program runs in.
pub(crate) fn values(program: &VerifiedProgram, pid: u32) -> Vec<Option<Values>> {
    let insns = program.insns();
    let states = flow(program, pid, false);
    let escapes = insns
        .iter()
        .zip(&states)
        .any(|(insn, state)| state.as_ref().is_some_and(|state| escapes(*insn, state)));
    // Once a stack address is in memory or in another function, any load or call may bring it back: rare enough to
    // be coarse about it.
    if escapes { flow(program, pid, true) } else { states }
}

/// Calls a function of the program.
pub(crate) fn is_local_call(insn: Insn) -> bool {
    insn.opcode == class::JMP | jmp::CALL && insn.src == pseudo::LOCAL
}

/// Where control may go from instruction `index`.
pub(crate) fn successors(insns: &[Insn], facts: &[InsnFacts], index: usize) -> [Option<usize>; 2] {
    let insn = insns[index];
    let target = jump_target(insn, index);
    match insn.class() {
        class::JMP | class::JMP32 => match insn.opcode & 0xf0 {
            jmp::EXIT => [None, None],
            jmp::CALL => [Some(index + 1), None],
            jmp::JA => [target, None],
            jmp::JCOND => [Some(index + 1), target],
            _ => match facts[index].branch {
                Some(true) => [target, None],
                Some(false) => [Some(index + 1), None],
                None => [Some(index + 1), target],
            },
        },
        class::LD if insn.is_wide() => [Some(index + 2), None],
        _ => [Some(index + 1), None],
    }
}

/// Target of a jump or a local call; `None` for what would leave the address space (no verified program has it).
pub(crate) fn jump_target(insn: Insn, index: usize) -> Option<usize> {
    let long = insn.opcode == class::JMP32 | jmp::JA || is_local_call(insn);
    let offset = if long { insn.imm as isize } else { isize::from(insn.off) };
    (index + 1).checked_add_signed(offset)
}

fn flow(program: &VerifiedProgram, pid: u32, loads_may_be_stack: bool) -> Vec<Option<Values>> {
    let (insns, facts) = (program.insns(), program.facts());
    let mut states: Vec<Option<Values>> = vec![None; insns.len()];
    let has_jumps_in = jumped_to(insns);
    let mut work = Vec::new();
    for function in program.functions().iter().filter(|function| facts[function.start].reachable) {
        let mut entry = [Value::Other; 11];
        entry[10] = Value::Stack(0);
        match program.kind() {
            _ if function.start != 0 => {}
            // The prologue loads both.
            ProgramKind::Memory { .. } => {}
            _ => entry[1] = Value::Context(0),
        }
        states[function.start] = Some(entry);
        work.push(function.start);
    }
    while let Some(start) = work.pop() {
        let Some(mut state) = states[start] else { continue };
        let mut here = Some(start);
        while let Some(index) = here.take() {
            step(&mut state, insns, index, pid, loads_may_be_stack);
            if let Some(value) = facts[index].constant {
                state[usize::from(insns[index].dst)] = Value::Const(value);
            }
            for next in successors(insns, facts, index).into_iter().flatten() {
                if next >= insns.len() || !facts[next].reachable {
                    continue;
                }
                if !has_jumps_in[next] {
                    // There is one way in: this one.
                    states[next] = Some(state);
                    here = Some(next);
                    continue;
                }
                let joined = states[next].map_or(state, |old| join(old, state));
                if states[next] != Some(joined) {
                    states[next] = Some(joined);
                    work.push(next);
                }
            }
        }
    }
    states
}

/// By slot: whether some instruction jumps there.
fn jumped_to(insns: &[Insn]) -> Vec<bool> {
    let mut jumped_to = vec![false; insns.len()];
    for (index, insn) in insns.iter().enumerate() {
        let is_jump = matches!(insn.class(), class::JMP | class::JMP32)
            && !matches!(insn.opcode & 0xf0, jmp::CALL | jmp::EXIT);
        if let Some(target) = jump_target(*insn, index).filter(|&target| is_jump && target < insns.len()) {
            jumped_to[target] = true;
        }
    }
    jumped_to
}

fn join(left: Values, right: Values) -> Values {
    std::array::from_fn(|reg| match (left[reg], right[reg]) {
        (a, b) if a == b => a,
        (a, b) if may_be_stack(a) || may_be_stack(b) => Value::MaybeStack,
        _ => Value::Other,
    })
}

fn may_be_stack(value: Value) -> bool {
    matches!(value, Value::Stack(_) | Value::MaybeStack)
}

/// Stores a stack address somewhere, or passes it to a function of the program, be it through a helper.
fn escapes(insn: Insn, state: &Values) -> bool {
    let is_call_back = insn.opcode == class::JMP | jmp::CALL
        && insn.src == pseudo::HELPER
        && helper::by_id(insn.imm).is_some_and(|proto| proto.callback().is_some());
    let is_passed =
        (is_local_call(insn) || is_call_back) && state[1..6].iter().any(|value| may_be_stack(*value));
    is_passed || insn.class() == class::STX && may_be_stack(state[usize::from(insn.src)])
}

fn step(state: &mut Values, insns: &[Insn], index: usize, pid: u32, loads_may_be_stack: bool) {
    let insn = insns[index];
    let dst = usize::from(insn.dst);
    let loaded = if loads_may_be_stack { Value::MaybeStack } else { Value::Other };
    match insn.class() {
        class::LD if insn.is_wide() && insn.src == pseudo::NONE => {
            let high = insns[index + 1].imm as u32;
            state[dst] = Value::Const(u64::from(high) << 32 | u64::from(insn.imm as u32));
        }
        class::LD if insn.is_wide() => state[dst] = Value::Other,
        // A packet load, which clears r1 to r5.
        class::LD => state[..6].fill(Value::Other),
        class::LDX => state[dst] = loaded,
        class::STX if insn.opcode & 0xe0 == mode::ATOMIC => {
            if insn.imm == atomic::CMPXCHG {
                state[0] = loaded;
            } else if insn.imm == atomic::LOAD_ACQUIRE {
                state[dst] = loaded;
            } else if insn.imm == atomic::STORE_RELEASE {
                // A store changes no register.
            } else if insn.imm & atomic::FETCH != 0 {
                state[usize::from(insn.src)] = loaded;
            }
        }
        class::ALU | class::ALU64 => state[dst] = arithmetic(insn, state, pid),
        class::JMP if insn.opcode & 0xf0 == jmp::CALL => {
            state[..6].fill(Value::Other);
            if is_local_call(insn) {
                state[0] = loaded;
            } else if insn.src == pseudo::HELPER && insn.imm == helper::GET_CURRENT_PID_TGID {
                state[0] = Value::PidTid;
            }
        }
        _ => {}
    }
}

fn arithmetic(insn: Insn, state: &Values, pid: u32) -> Value {
    let left = state[usize::from(insn.dst)];
    let operation = insn.opcode & 0xf0;
    let from_register = insn.opcode & source::X != 0;
    // The X bit of END chooses the byte order, not an operand.
    let right = match operation {
        alu::END | alu::NEG => Value::Const(0),
        _ if from_register => state[usize::from(insn.src)],
        _ => Value::Const(i64::from(insn.imm) as u64),
    };
    match (operation, insn.class(), right) {
        (alu::MOV, class::ALU64, value) if insn.off == 0 => value,
        (alu::MOV, class::ALU, Value::Const(value)) if insn.off == 0 => Value::Const(value & 0xffff_ffff),
        (alu::MOV, _, value) => not_exact(value),
        (alu::ADD, class::ALU64, Value::Const(by)) => moved(left, by as i64),
        (alu::SUB, class::ALU64, Value::Const(by)) => moved(left, (by as i64).wrapping_neg()),
        (alu::RSH, class::ALU64, Value::Const(32)) if left == Value::PidTid => Value::Const(pid.into()),
        _ if may_be_stack(left) || may_be_stack(right) => Value::MaybeStack,
        _ => Value::Other,
    }
}

fn not_exact(value: Value) -> Value {
    if may_be_stack(value) { Value::MaybeStack } else { Value::Other }
}

/// An address moved by a constant.
fn moved(value: Value, by: i64) -> Value {
    let shift = |offset: i32| {
        let sum = i64::from(offset).checked_add(by)?;
        i32::try_from(sum).ok().filter(|sum| (-OFFSET_MAX..=OFFSET_MAX).contains(sum))
    };
    match value {
        Value::Stack(offset) => shift(offset).map_or(Value::MaybeStack, Value::Stack),
        Value::Context(offset) => shift(offset).map_or(Value::Other, Value::Context),
        Value::MaybeStack => Value::MaybeStack,
        Value::Const(_) | Value::PidTid | Value::Other => Value::Other,
    }
}
