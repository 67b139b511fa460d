//! Finds where a function leaves: for runtimes whose stack walkers allow nothing at a return address, nor a frame between.
//!
//! In: a binary and a function. Out: the link addresses of the instructions that leave it: `ret`s, and jumps to other functions, which
//! are the exit of the function that jumps. Code of it that lies elsewhere (`.cold`) belongs to it.
//!
//! Followed is what can be reached from the entry and from where exceptions land, and all of the function must have been: what is not may
//! be data, and a jump written over data is a crash. (V8's builtins hold no data but the tables of switches, and handlers of exceptions that
//! only tables of its own name.) Refused by that, each with its place: a jump that may be a switch's, a conditional jump out of the function,
//! and a function that runs on into what lies behind it.
//!
//! A call that leaves in another way (an exception, longjmp, a thread's end) has no exit: it is an entry without a return.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::ops::Range;
use std::path::Path;

use iced_x86::{
    Decoder, DecoderOptions, FlowControl, Instruction, InstructionInfoFactory, Mnemonic, OpAccess, OpKind,
    Register,
};
use weir_symbols::{Binary, Function, LinkAddr};

use crate::isa::x86_64::body::near_target;
use crate::isa::x86_64::heights::Doubt;
use crate::isa::x86_64::walk::{self, Failure, NO_CODE, Pieces, UNREACHED};
use crate::limits::{EXITS_MAX, WINDOW_BYTES_MAX};
use crate::refusal::Refusal;
use crate::walkers;

const SWITCH: Doubt = "it may be the jump of a switch";
const CONDITIONAL: Doubt = "a conditional jump leaves it";
const RUNS_ON: Doubt = "it runs on into what lies behind it";
const MANY: Doubt = "it has too many exits";
const NONE: Doubt = "it has no exit";

/// Where each function leaves, by link address; an error where that cannot be told, or it never does.
pub fn plan_exits(functions: &[(&Binary, &Function)]) -> Vec<Result<Vec<LinkAddr>, Refusal>> {
    let mut v8: HashMap<&Path, Option<Range<u64>>> = HashMap::new();
    let exits = functions.iter().map(|&(binary, function)| {
        let v8 = v8.entry(binary.path()).or_insert_with(|| walkers::v8_code(binary));
        let start = function.address.0;
        let found = find(binary, start, v8.as_ref().is_some_and(|range| range.contains(&start)));
        let found = found.map_err(|failure| Refusal::ReturnExits {
            at: failure.at.wrapping_sub(start) as i64,
            detail: failure.detail.to_owned(),
        })?;
        Ok(found.into_iter().map(LinkAddr).collect())
    });
    exits.collect()
}

/// `is_all_code`: what is not reached is a handler of exceptions, which tables of the runtime lead to.
fn find(binary: &Binary, start: u64, is_all_code: bool) -> Result<BTreeSet<u64>, Failure> {
    let mut pieces = Pieces::default();
    let mut search = Search {
        binary,
        pieces: &mut pieces,
        start,
        own: Vec::new(),
        todo: Vec::new(),
        reached: HashSet::new(),
        exits: BTreeSet::new(),
    };
    search.add_part(start)?;
    search.todo.push(start);
    loop {
        while let Some(at) = search.todo.pop() {
            search.follow(at)?;
        }
        match search.missed() {
            None => break,
            Some(at) if is_all_code => search.todo.push(at),
            Some(at) => return Err(Failure { at, detail: UNREACHED }),
        }
    }
    let fail = |detail: Doubt| Err(Failure { at: start, detail });
    match search.exits.len() {
        0 => fail(NONE),
        count if count > EXITS_MAX => fail(MANY),
        _ => Ok(search.exits),
    }
}

/// Link addresses of the instructions that run one after the other before the one at `exit`, in order: as many as a window may have.
pub fn in_a_row_before(bytes: &[u8], start: u64, exit: u64) -> Vec<u64> {
    let mut row: Vec<u64> = Vec::new();
    for instruction in Decoder::with_ip(64, bytes, start, DecoderOptions::NONE).iter() {
        if instruction.ip() >= exit {
            break;
        }
        match instruction.flow_control() {
            FlowControl::Next if !instruction.is_invalid() => row.push(instruction.ip()),
            _ => row.clear(),
        }
    }
    let first = row.partition_point(|&at| exit - at > WINDOW_BYTES_MAX as u64);
    row.split_off(first)
}

struct Search<'a> {
    binary: &'a Binary,
    pieces: &'a mut Pieces,
    start: u64,
    /// The function, and parts of it that lie elsewhere.
    own: Vec<Range<u64>>,
    todo: Vec<u64>,
    reached: HashSet<u64>,
    exits: BTreeSet<u64>,
}

impl Search<'_> {
    /// The code around `address` belongs to the function.
    fn add_part(&mut self, address: u64) -> Result<(), Failure> {
        let piece = self.pieces.containing(self.binary, address);
        let range = piece.ok_or(Failure { at: address, detail: NO_CODE })?.range.clone();
        let pads = self.binary.landing_pads_of(LinkAddr(range.start)..LinkAddr(range.end));
        self.todo.extend(pads.into_iter().flatten().map(|pad| pad.0));
        self.own.push(range);
        Ok(())
    }

    fn is_own(&self, address: u64) -> bool {
        self.own.iter().any(|range| range.contains(&address))
    }

    /// Follows instructions in a row from `at` on.
    fn follow(&mut self, at: u64) -> Result<(), Failure> {
        let no_code = Failure { at, detail: NO_CODE };
        let piece = self.pieces.containing(self.binary, at).ok_or(no_code.clone())?;
        let first = piece.index_of(at).ok_or(no_code)?;
        let mut last = at;
        for (index, instruction) in piece.instructions.iter().enumerate().skip(first) {
            let at = instruction.ip();
            let fail = |detail: Doubt| Err(Failure { at, detail });
            if !self.reached.insert(at) {
                return Ok(());
            }
            last = at;
            match instruction.flow_control() {
                _ if instruction.is_invalid() => return fail(NO_CODE),
                FlowControl::Next | FlowControl::Call | FlowControl::IndirectCall => {}
                FlowControl::XbeginXabortXend | FlowControl::ConditionalBranch => {
                    if let Some(target) = near_target(instruction)
                        && !self.goes_to(target)?
                    {
                        return fail(CONDITIONAL);
                    }
                }
                FlowControl::UnconditionalBranch => {
                    let is_inside = match near_target(instruction) {
                        Some(target) => self.goes_to(target)?,
                        None => return fail(NO_CODE),
                    };
                    if !is_inside {
                        self.exits.insert(at);
                    }
                    return Ok(());
                }
                // It goes to a handler, with the stack pointer that was kept for that: no return.
                FlowControl::Return | FlowControl::IndirectBranch
                    if leaves_for_a_handler(&piece.instructions[..index]) =>
                {
                    return Ok(());
                }
                FlowControl::Return => {
                    self.exits.insert(at);
                    return Ok(());
                }
                FlowControl::IndirectBranch if may_be_switch(&piece.instructions, index) => {
                    return fail(SWITCH);
                }
                FlowControl::IndirectBranch => {
                    self.exits.insert(at);
                    return Ok(());
                }
                FlowControl::Interrupt if instruction.mnemonic() != Mnemonic::Int3 => {}
                FlowControl::Exception | FlowControl::Interrupt => return Ok(()),
            }
        }
        // A call at the end is one that does not come back.
        let ends_in_call = piece
            .instructions
            .last()
            .is_some_and(|last| matches!(last.flow_control(), FlowControl::Call | FlowControl::IndirectCall));
        let is_padded = piece.instructions.last().is_some_and(walk::is_padding);
        if ends_in_call || is_padded { Ok(()) } else { Err(Failure { at: last, detail: RUNS_ON }) }
    }

    /// Whether a jump to `target` stays in the function; it is followed then.
    fn goes_to(&mut self, target: u64) -> Result<bool, Failure> {
        // Go's functions begin once more when their stack has grown; their probe stands behind that.
        let begins_anew = target == self.start && !self.binary.is_go();
        if begins_anew {
            return Ok(false);
        }
        if !self.is_own(target) {
            if !walk::is_part(self.binary, target) {
                return Ok(false);
            }
            self.add_part(target)?;
        }
        self.todo.push(target);
        Ok(true)
    }

    /// The first instruction that was not reached, but for padding.
    fn missed(&mut self) -> Option<u64> {
        self.own.iter().find_map(|range| {
            let piece = self.pieces.containing(self.binary, range.start)?;
            piece.missed(range.start, &self.reached)
        })
    }
}

/// Whether the instructions that run one after the other at the end of `before` take the stack pointer from elsewhere than the frame, as
/// OCaml's `raise` does: `mov %r14,%rsp; pop %r14; ret`.
fn leaves_for_a_handler(before: &[Instruction]) -> bool {
    row_before(before).any(|instruction| {
        instruction.mnemonic() == Mnemonic::Mov
            && instruction.op0_register() == Register::RSP
            && instruction.op1_register() != Register::RBP
    })
}

/// The instructions that run one after the other at the end of `before`, the last first.
fn row_before(before: &[Instruction]) -> impl Iterator<Item = &Instruction> {
    before.iter().rev().take_while(|instruction| instruction.flow_control() == FlowControl::Next)
}

/// Whether the jump at `index` may go to another place of its own function: one that takes its target from a table. One through a
/// pointer that is loaded from a single place does not; else it is one where the function takes the address of something, as of a table.
fn may_be_switch(function: &[Instruction], index: usize) -> bool {
    let takes_address = |instruction: &&Instruction| {
        let is_taken = instruction.mnemonic() == Mnemonic::Lea && instruction.is_ip_rel_memory_operand();
        // V8 finds out where it runs by `lea 0(%rip)`.
        is_taken && instruction.ip_rel_memory_address() != instruction.next_ip()
    };
    let jump = &function[index];
    let load = match jump.op0_kind() {
        OpKind::Memory => Some(jump),
        _ => writer(&function[..index], jump.op0_register())
            .filter(|writer| writer.mnemonic() == Mnemonic::Mov),
    };
    match load {
        Some(load) if load.op_kinds().any(|kind| kind == OpKind::Memory) => {
            let has_index = load.memory_index() != Register::None;
            let is_table = has_index && load.memory_base() == Register::None;
            let from = |taken: &Instruction| {
                taken.op0_register().full_register() == load.memory_base().full_register()
            };
            is_table || has_index && function.iter().filter(takes_address).any(from)
        }
        _ => function.iter().any(|instruction| takes_address(&instruction)),
    }
}

/// The instruction that wrote `register` last, of those that run one after the other at the end of `before`.
fn writer(before: &[Instruction], register: Register) -> Option<&Instruction> {
    let mut factory = InstructionInfoFactory::new();
    let mut writes = |instruction: &Instruction| {
        factory.info(instruction).used_registers().iter().any(|used| {
            used.register().full_register() == register.full_register()
                && !matches!(used.access(), OpAccess::Read | OpAccess::CondRead)
        })
    };
    row_before(before).find(|instruction| writes(instruction))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Instructions before the exit at `exit`, by their offsets.
    fn before(bytes: &[u8], exit: u64) -> Vec<u64> {
        in_a_row_before(bytes, 0x1000, 0x1000 + exit).into_iter().map(|at| at - 0x1000).collect()
    }

    #[test]
    fn a_row_begins_behind_the_last_branch_or_call() {
        // pop %rbx; je +0; mov $1,%eax; pop %rbp; ret
        let bytes = [0x5b, 0x74, 0, 0xb8, 1, 0, 0, 0, 0x5d, 0xc3];
        assert_eq!(before(&bytes, 9), [3, 8]);
        // call; ret
        assert!(before(&[0xe8, 0, 0, 0, 0, 0xc3], 5).is_empty());
    }

    /// Whether the last instruction of `bytes`, a jump, may be a switch's.
    fn is_switch(bytes: &[u8]) -> bool {
        let all: Vec<Instruction> =
            Decoder::with_ip(64, bytes, 0x1000, DecoderOptions::NONE).iter().collect();
        may_be_switch(&all, all.len() - 1)
    }

    #[test]
    fn a_jump_from_a_table_whose_address_is_taken_is_a_switch() {
        const LEA: [u8; 7] = [0x48, 0x8d, 0x15, 0, 1, 0, 0]; // lea 256(%rip),%rdx
        let with = |bytes: &[u8]| [&LEA, bytes].concat();
        // movslq (%rdx,%rdi,4),%rax; add %rdx,%rax; jmp *%rax
        assert!(is_switch(&with(&[0x48, 0x63, 0x04, 0xba, 0x48, 0x01, 0xd0, 0xff, 0xe0])));
        // mov (%rdx,%rdi,8),%rax; jmp *%rax, and jmp *(%rdx,%rdi,8)
        assert!(is_switch(&with(&[0x48, 0x8b, 0x04, 0xfa, 0xff, 0xe0])));
        assert!(is_switch(&with(&[0xff, 0x24, 0xfa])));
        // jmp *4096(,%rdi,8): a table at a known place
        assert!(is_switch(&[0xff, 0x24, 0xfd, 0, 0x10, 0, 0]));
    }

    #[test]
    fn a_stack_pointer_that_was_kept_leads_to_a_handler() {
        let row = |bytes: &[u8]| {
            let all: Vec<Instruction> =
                Decoder::with_ip(64, bytes, 0x1000, DecoderOptions::NONE).iter().collect();
            leaves_for_a_handler(&all)
        };
        assert!(row(&[0x4c, 0x89, 0xf4, 0x41, 0x5e])); // mov %r14,%rsp; pop %r14
        assert!(row(&[0x48, 0x8b, 0x27])); // mov (%rdi),%rsp
        assert!(!row(&[0x48, 0x89, 0xec, 0x5d])); // mov %rbp,%rsp; pop %rbp
        assert!(!row(&[0x48, 0x83, 0xc4, 0x18, 0x5b])); // add $24,%rsp; pop %rbx
    }

    #[test]
    fn a_jump_through_a_pointer_leaves() {
        // mov 39(%r8),%r8; jmp *%r8, though it takes an address
        assert!(!is_switch(&[0x48, 0x8d, 0x15, 0, 1, 0, 0, 0x4d, 0x8b, 0x40, 0x27, 0x41, 0xff, 0xe0]));
        // mov (%r15,%rbx,8),%rcx; jmp *%rcx: the table of an interpreter, which was handed in
        assert!(!is_switch(&[0x49, 0x8b, 0x0c, 0xdf, 0xff, 0xe1]));
        // jmp *256(%rip), and jmp *%rax where nothing is taken but where it runs
        assert!(!is_switch(&[0xff, 0x25, 0, 1, 0, 0]));
        assert!(!is_switch(&[0x4c, 0x8d, 0x15, 0, 0, 0, 0, 0xff, 0xe0]));
    }

    #[test]
    fn a_row_is_no_longer_than_a_window() {
        let bytes = [&[0x90; 40][..], &[0xc3]].concat();
        assert_eq!(before(&bytes, 40).len(), WINDOW_BYTES_MAX);
    }
}
