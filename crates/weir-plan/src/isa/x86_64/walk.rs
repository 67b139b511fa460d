//! Walks through everything that one call of a function may run of its own code, and proves that it leaves alone
//! what lies at and above its return address, or that alone ([`Kept`]).
//!
//! In: a binary and the link address of a function. Out: the functions that it may end in by a jump (which must be
//! proved too), or a [`Failure`]. Instructions are followed by [`crate::isa::x86_64::heights`]; the ways between them here:
//!
//! - direct branches, also to parts of the function that lie elsewhere (`.cold`): a jump out of the function's range with
//!   the stack pointer where it was at the entry is a tail call, with any other it is part of the function;
//! - switches: a jump to the entry of a table, whose base the walk has followed. All entries up to the bound that
//!   the code compares with, or where there is none before the jump, up to the first that leads out of the function;
//! - landing pads of exceptions, with what holds behind the calls of the function;
//! - behind a call, what comes next in the text. Where that place has another way to it with the stack pointer
//!   elsewhere, the call is one that does not return (an instruction has one height in code of a compiler).
//!
//! Every instruction of the function's range must have been reached, but for padding; else something leads there that
//! the walk has not understood. Parts that lie elsewhere (`.cold`) have many entries, of which one alone is walked from.

use std::collections::{HashMap, HashSet, VecDeque};
use std::ops::Range;

use iced_x86::{
    Decoder, DecoderOptions, FlowControl, Instruction, InstructionInfoFactory, Mnemonic, OpKind, Register,
};
use weir_symbols::{Binary, LinkAddr};

use crate::isa::x86_64::body::near_target;
use crate::isa::x86_64::heights::{self, Doubt, Follower, Kept, State, Value};
use crate::limits::{FUNCTION_BYTES_MAX, TABLE_ENTRIES_MAX, WALK_JOINS_MAX};

/// What compilers call the part of a function that they expect not to run (`f.cold`, `f.cold.1`).
pub(crate) const PART: &str = ".cold";

/// Where the proof ends, and why.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Failure {
    /// Link address of the instruction.
    pub(crate) at: u64,
    pub(crate) detail: Doubt,
}

const INDIRECT: Doubt = "it jumps to where only the running program knows";
pub(crate) const NO_CODE: Doubt = "it leads to bytes of which nobody knows what they are";
const INTERRUPT: Doubt = "it calls the system in a way that does not come back as others do";
pub(crate) const UNREACHED: Doubt = "nothing that was understood leads here";
const ITSELF: Doubt = "it calls into its own middle";
const PADS: Doubt = "where its exceptions land cannot be told";
const ENDLESS: Doubt = "its paths are too many";

/// Where else a function may go, by link address.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ways {
    /// Functions that it ends in by a jump.
    pub(crate) tails: Vec<u64>,
    /// There are others, which only the running program knows. Only where their own doings do not matter:
    /// [`Kept::ReturnAddress`].
    pub(crate) others: bool,
    /// Link addresses of pointers that it ends in a jump through, of those.
    pub(crate) slots: Vec<u64>,
}

/// Walks through the function at `entry` of `binary`. Parts of it that lie elsewhere, and are entered with its frame in
/// place, are added to `parts`, also where the proof fails.
pub(crate) fn walk(
    binary: &Binary,
    entry: u64,
    kept: Kept,
    pieces: &mut Pieces,
    parts: &mut HashSet<u64>,
) -> Result<Ways, Failure> {
    let no_code = Failure { at: entry, detail: NO_CODE };
    let main = pieces.containing(binary, entry).ok_or(no_code)?;
    let mut walk = Walk {
        binary,
        pieces,
        entry,
        own: main.range.clone(),
        kept,
        follower: Follower::new(kept),
        heads: HashMap::new(),
        reached: HashSet::new(),
        strong: vec![(entry, State::entry())],
        weak: VecDeque::new(),
        behind_calls: None,
        landed: HashSet::new(),
        ways: Ways::default(),
        parts,
    };
    let walked = walk.run().and_then(|()| match is_part(binary, entry) {
        // Others are entered there too, with other frames in place.
        true => Ok(()),
        false => walk.check_coverage(&main),
    });
    if let Err(failure) = walked {
        let ways = (kept == Kept::ReturnAddress).then(|| without_stack(&main, entry)).flatten();
        return ways.ok_or(failure);
    }
    walk.ways.tails.sort_unstable();
    walk.ways.tails.dedup();
    Ok(walk.ways)
}

/// A place in a part of functions that a compiler has put elsewhere: jumped to, and not called.
pub(crate) fn is_part(binary: &Binary, entry: u64) -> bool {
    let function = binary.function_at(LinkAddr(entry));
    function.is_some_and(|function| function.names().any(|name| name.contains(PART)))
}

/// The ways of a function whose stack pointer is what it was at each of its instructions, however they are reached: none
/// of them uses it but to return. Such is much of what is written by hand.
fn without_stack(main: &Piece, entry: u64) -> Option<Ways> {
    let mut factory = InstructionInfoFactory::new();
    let mut ways = Ways::default();
    let from = main.index_of(entry)?;
    for instruction in &main.instructions[from..] {
        let mut uses_stack = || {
            let used = factory.info(instruction).used_registers();
            used.iter().any(|used| used.register().full_register() == Register::RSP)
        };
        match instruction.flow_control() {
            _ if instruction.is_invalid() => return None,
            FlowControl::Return if instruction.mnemonic() == Mnemonic::Ret && instruction.op_count() == 0 => {
            }
            FlowControl::Next if instruction.mnemonic() == Mnemonic::Syscall || uses_stack() => return None,
            FlowControl::Next => {}
            FlowControl::UnconditionalBranch | FlowControl::ConditionalBranch => {
                let target = near_target(instruction)?;
                if !(entry..main.range.end).contains(&target) {
                    ways.tails.push(target);
                }
            }
            // To its own instructions too: nothing is different there.
            FlowControl::IndirectBranch if !uses_stack() => ways.others = true,
            FlowControl::Exception => {}
            FlowControl::Interrupt if instruction.mnemonic() == Mnemonic::Int3 => {}
            _ => return None,
        }
    }
    ways.tails.sort_unstable();
    ways.tails.dedup();
    Some(ways)
}

/// The first instruction behind an `endbr64`: where the function at `address` is patched.
pub(crate) fn behind_landing_pad(binary: &Binary, address: u64) -> u64 {
    const LANDING_PAD: [u8; 4] = [0xf3, 0x0f, 0x1e, 0xfa];
    let begins = binary.bytes(LinkAddr(address), LANDING_PAD.len()).is_some_and(|bytes| bytes == LANDING_PAD);
    address + if begins { LANDING_PAD.len() as u64 } else { 0 }
}

/// Decoded functions and parts of functions of one binary.
#[derive(Default)]
pub(crate) struct Pieces {
    known: HashMap<u64, std::rc::Rc<Piece>>,
}

pub(crate) struct Piece {
    pub(crate) range: Range<u64>,
    pub(crate) instructions: Vec<Instruction>,
    /// Targets of near branches, wherever they lead.
    targets: HashSet<u64>,
}

impl Pieces {
    pub(crate) fn containing(&mut self, binary: &Binary, address: u64) -> Option<std::rc::Rc<Piece>> {
        let bounds = binary.function_bounds(LinkAddr(address))?;
        let (start, end) = (bounds.start.0, bounds.end.0);
        if !(start..end).contains(&address) || end - start > FUNCTION_BYTES_MAX {
            return None;
        }
        if let Some(known) = self.known.get(&start) {
            return Some(known.clone());
        }
        let bytes = binary.bytes(LinkAddr(start), (end - start) as usize)?;
        let mut piece = Piece { range: start..end, instructions: Vec::new(), targets: HashSet::new() };
        for instruction in Decoder::with_ip(64, bytes, start, DecoderOptions::NONE).iter() {
            piece.targets.extend(near_target(&instruction));
            piece.instructions.push(instruction);
        }
        let piece = std::rc::Rc::new(piece);
        self.known.insert(start, piece.clone());
        Some(piece)
    }

    /// What is not needed for the next walk.
    pub(crate) fn clear(&mut self) {
        self.known.clear();
    }
}

impl Piece {
    /// The first instruction from `start` on that was not reached, but for padding.
    pub(crate) fn missed(&self, start: u64, reached: &HashSet<u64>) -> Option<u64> {
        let from = self.instructions.partition_point(|instruction| instruction.ip() < start);
        let is_missed =
            |instruction: &&Instruction| !reached.contains(&instruction.ip()) && !is_padding(instruction);
        self.instructions[from..].iter().find(is_missed).map(Instruction::ip)
    }

    pub(crate) fn index_of(&self, address: u64) -> Option<usize> {
        self.instructions.binary_search_by_key(&address, Instruction::ip).ok()
    }
}

pub(crate) fn is_padding(instruction: &Instruction) -> bool {
    matches!(instruction.mnemonic(), Mnemonic::Nop | Mnemonic::Int3 | Mnemonic::Ud2 | Mnemonic::Endbr64)
}

struct Walk<'a> {
    binary: &'a Binary,
    pieces: &'a mut Pieces,
    entry: u64,
    /// The function's range.
    own: Range<u64>,
    kept: Kept,
    follower: Follower,
    /// What is known at places that are reached in several ways, and how often ways have met there.
    heads: HashMap<u64, (State, u32)>,
    reached: HashSet<u64>,
    /// Places to go on from.
    strong: Vec<(u64, State)>,
    /// Places behind calls.
    weak: VecDeque<(u64, State)>,
    /// What holds behind any of its calls.
    behind_calls: Option<State>,
    /// Parts whose landing pads have been asked for.
    landed: HashSet<u64>,
    ways: Ways,
    parts: &'a mut HashSet<u64>,
}

/// What comes behind an instruction.
enum Next {
    Falls,
    Ends,
}

impl Walk<'_> {
    fn run(&mut self) -> Result<(), Failure> {
        loop {
            while let Some((address, state)) = self.strong.pop() {
                self.follow_from(address, state)?;
            }
            if let Some((address, state)) = self.weak.pop_front() {
                let known = self.heads.get(&address).map(|(known, _)| known.stack_pointer());
                if known.is_none_or(|known| known == state.stack_pointer()) {
                    self.strong.push((address, state));
                }
            } else if !self.add_landing_pads()? {
                return Ok(());
            }
        }
    }

    /// Follows instructions in a row from `address` on.
    fn follow_from(&mut self, address: u64, state: State) -> Result<(), Failure> {
        let fail = |at: u64, detail: Doubt| Failure { at, detail };
        let piece = self.pieces.containing(self.binary, address).ok_or(fail(address, NO_CODE))?;
        let first = piece.index_of(address).ok_or(fail(address, NO_CODE))?;
        let Some(mut state) = self.meet(address, &state)? else { return Ok(()) };
        let mut before: Option<&Instruction> = None;
        for (offset, instruction) in piece.instructions[first..].iter().enumerate() {
            let at = instruction.ip();
            if instruction.is_invalid() {
                return Err(fail(at, NO_CODE));
            }
            if offset > 0 && (piece.targets.contains(&at) || self.heads.contains_key(&at)) {
                match self.meet(at, &state)? {
                    Some(met) => state = met,
                    None => return Ok(()),
                }
            }
            self.reached.insert(at);
            let index = first + offset;
            match self.step(&piece, index, &mut state, before) {
                Ok(Next::Falls) => {}
                Ok(Next::Ends) => return Ok(()),
                Err(detail) => return Err(fail(at, detail)),
            }
            before = Some(instruction);
        }
        self.leads_to(piece.range.end, state);
        Ok(())
    }

    /// What holds at `at` on this way and all earlier ones; `None` where nothing is new.
    fn meet(&mut self, at: u64, state: &State) -> Result<Option<State>, Failure> {
        let Some((known, count)) = self.heads.get_mut(&at) else {
            self.heads.insert(at, (*state, 0));
            return Ok(Some(*state));
        };
        let joined = known.join(state, *count > 2);
        if joined == *known {
            return Ok(None);
        }
        *count += 1;
        if *count > WALK_JOINS_MAX {
            return Err(Failure { at, detail: ENDLESS });
        }
        *known = joined;
        Ok(Some(joined))
    }

    fn step(
        &mut self,
        piece: &Piece,
        index: usize,
        state: &mut State,
        before: Option<&Instruction>,
    ) -> Result<Next, Doubt> {
        let instruction = &piece.instructions[index];
        match instruction.flow_control() {
            FlowControl::Next | FlowControl::XbeginXabortXend
                if instruction.mnemonic() == Mnemonic::Syscall =>
            {
                check_system_call(&piece.instructions[..index])?;
                self.follower.follow(state, instruction)?;
            }
            FlowControl::Next => self.follower.follow(state, instruction)?,
            FlowControl::Call | FlowControl::IndirectCall if instruction.mnemonic() == Mnemonic::Syscall => {
                check_system_call(&piece.instructions[..index])?;
                self.follower.follow(state, instruction)?;
            }
            FlowControl::Call | FlowControl::IndirectCall => {
                self.call(instruction, state)?;
                return Ok(Next::Ends);
            }
            FlowControl::Return => {
                let is_plain = instruction.mnemonic() == Mnemonic::Ret && instruction.op_count() == 0;
                return if is_plain && state.is_level() { Ok(Next::Ends) } else { Err(heights::NOT_BACK) };
            }
            FlowControl::UnconditionalBranch => {
                let target = near_target(instruction).ok_or(INDIRECT)?;
                if state.is_level() {
                    self.follower.check_arguments(state)?;
                }
                self.leads_to(target, *state);
                return Ok(Next::Ends);
            }
            FlowControl::ConditionalBranch | FlowControl::XbeginXabortXend => {
                if let Some(target) = near_target(instruction) {
                    self.follower.follow(state, instruction)?;
                    self.leads_to(target, *state);
                }
                leave_loop(state, instruction, before);
            }
            FlowControl::IndirectBranch => {
                self.follower.check_memory(state, instruction)?;
                let followed = self.switch(&piece.instructions[..index], instruction, state);
                if followed.is_err() && self.kept == Kept::ReturnAddress && state.is_level() {
                    self.follower.check_arguments(state)?;
                    match instruction.is_ip_rel_memory_operand() {
                        true => self.ways.slots.push(instruction.ip_rel_memory_address()),
                        false => self.ways.others = true,
                    }
                } else {
                    followed?;
                }
                return Ok(Next::Ends);
            }
            FlowControl::Exception => return Ok(Next::Ends),
            FlowControl::Interrupt if instruction.mnemonic() == Mnemonic::Int3 => return Ok(Next::Ends),
            FlowControl::Interrupt => return Err(INTERRUPT),
        }
        Ok(Next::Falls)
    }

    fn call(&mut self, instruction: &Instruction, state: &State) -> Result<(), Doubt> {
        self.follower.check_memory(state, instruction)?;
        self.follower.check_arguments(state)?;
        let is_own =
            |target: u64| self.own.contains(&target) && target != self.entry && target != self.own.start;
        if near_target(instruction).is_some_and(is_own) {
            return Err(ITSELF);
        }
        let after = state.after_call();
        self.behind_calls = Some(self.behind_calls.map_or(after, |known| known.join(&after, false)));
        // A call at the end of a function is one that does not return.
        let next = self.behind_padding(instruction.next_ip());
        let goes_on = |bounds: Range<LinkAddr>| bounds.start.0 < next;
        if self.own.contains(&next) || self.binary.function_bounds(LinkAddr(next)).is_some_and(goes_on) {
            self.weak.push_back((next, after));
        }
        Ok(())
    }

    /// The first instruction at or behind `address` that does something: what a branch leads to as well.
    fn behind_padding(&mut self, address: u64) -> u64 {
        let Some(piece) = self.pieces.containing(self.binary, address) else { return address };
        let Some(index) = piece.index_of(address) else { return address };
        let rest = &piece.instructions[index..];
        let next = rest.iter().find(|instruction| instruction.mnemonic() != Mnemonic::Nop);
        next.map_or(piece.range.end, Instruction::ip)
    }

    /// A way to `target`.
    fn leads_to(&mut self, target: u64, state: State) {
        let is_outside = !self.own.contains(&target);
        let is_again =
            behind_landing_pad(self.binary, target) == behind_landing_pad(self.binary, self.own.start);
        if state.is_level() && (is_outside || is_again) {
            self.ways.tails.push(behind_landing_pad(self.binary, target));
        } else if is_outside {
            self.parts.insert(behind_landing_pad(self.binary, target));
        }
        // Behind a call that does not return, clang jumps to the function's end, where there is nothing but padding.
        let is_nowhere = target == self.own.end && self.binary.function_bounds(LinkAddr(target)).is_none();
        if !(is_outside && state.is_level() || is_nowhere) {
            self.strong.push((target, state));
        }
    }

    /// Goes on at all entries of a switch's table.
    fn switch(&mut self, before: &[Instruction], jump: &Instruction, state: &State) -> Result<(), Doubt> {
        let (table, is_relative) = match jump.op0_kind() {
            OpKind::Register => match state.value(jump.op0_register()) {
                Value::Target(table) => (table, true),
                Value::Pointer(table) if !self.binary.is_position_independent() => (table, false),
                _ => return Err(INDIRECT),
            },
            OpKind::Memory if is_absolute_table(jump) && !self.binary.is_position_independent() => {
                (jump.memory_displacement64(), false)
            }
            _ => return Err(INDIRECT),
        };
        let bound = compared_with(before);
        let entries = bound.map_or(TABLE_ENTRIES_MAX, |bound| bound.min(TABLE_ENTRIES_MAX));
        for index in 0..entries as u64 {
            let target = self.table_entry(table, index, is_relative).filter(|&target| {
                bound.is_some() && self.binary.function_bounds(LinkAddr(target)).is_some()
                    || self.own.contains(&target)
            });
            match target {
                Some(target) => self.leads_to(target, *state),
                None if bound.is_some() || index == 0 => return Err(INDIRECT),
                None => break,
            }
        }
        Ok(())
    }

    fn table_entry(&self, table: u64, index: u64, is_relative: bool) -> Option<u64> {
        if is_relative {
            let bytes = self.binary.bytes(LinkAddr(table.checked_add(4 * index)?), 4)?;
            let offset = i32::from_le_bytes(bytes.try_into().ok()?);
            return Some(table.wrapping_add_signed(i64::from(offset)));
        }
        let bytes = self.binary.bytes(LinkAddr(table.checked_add(8 * index)?), 8)?;
        Some(u64::from_le_bytes(bytes.try_into().ok()?))
    }

    /// Adds the landing pads of all parts that the walk has come through; whether there were new ones.
    fn add_landing_pads(&mut self) -> Result<bool, Failure> {
        let Some(state) = self.behind_calls else { return Ok(false) };
        let mut added = false;
        let mut parts: Vec<u64> = self
            .reached
            .iter()
            .filter_map(|&at| self.pieces.containing(self.binary, at).map(|piece| piece.range.start))
            .collect();
        parts.sort_unstable();
        parts.dedup();
        for part in parts.into_iter().filter(|part| !self.landed.contains(part)).collect::<Vec<_>>() {
            self.landed.insert(part);
            let end = self.binary.function_bounds(LinkAddr(part)).map_or(part, |bounds| bounds.end.0);
            let pads = self.binary.landing_pads_of(LinkAddr(part)..LinkAddr(end));
            for pad in pads.ok_or(Failure { at: part, detail: PADS })? {
                self.strong.push((pad.0, state));
                added = true;
            }
        }
        Ok(added)
    }

    fn check_coverage(&self, main: &Piece) -> Result<(), Failure> {
        let missed = main.missed(self.entry, &self.reached);
        missed.map_or(Ok(()), |at| Err(Failure { at, detail: UNREACHED }))
    }
}

/// `cmp %register,%rsp; jne`: the loop that touches each page of a large frame ends there.
fn leave_loop(state: &mut State, branch: &Instruction, before: Option<&Instruction>) {
    let Some(compare) =
        before.filter(|i| i.mnemonic() == Mnemonic::Cmp && branch.mnemonic() == Mnemonic::Jne)
    else {
        return;
    };
    match (compare.op0_register(), compare.op1_register()) {
        (Register::RSP, other) | (other, Register::RSP) => state.stack_pointer_is(other),
        _ => {}
    }
}

/// Refuses system calls of which the way back is not the way in: rt_sigreturn, clone, vfork, clone3.
fn check_system_call(before: &[Instruction]) -> Result<(), Doubt> {
    const NOT_BACK: [u64; 4] = [15, 56, 58, 435];
    let sets_number = |instruction: &&Instruction| {
        matches!(instruction.op0_register(), Register::EAX | Register::RAX)
            && matches!(instruction.mnemonic(), Mnemonic::Mov | Mnemonic::Xor)
    };
    let number = before.iter().rev().take(24).find(sets_number);
    let is_one = number.is_some_and(|instruction| {
        instruction.mnemonic() == Mnemonic::Mov
            && instruction.op1_kind() != OpKind::Register
            && instruction.op1_kind() != OpKind::Memory
            && NOT_BACK.contains(&instruction.immediate(1))
    });
    if is_one { Err(INTERRUPT) } else { Ok(()) }
}

/// `jmp *table(,%index,8)`.
fn is_absolute_table(jump: &Instruction) -> bool {
    jump.memory_base() == Register::None && jump.memory_index_scale() == 8 && !jump.is_ip_rel_memory_operand()
}

/// How many entries a table has, by the `cmp $last,index; ja` before its jump.
fn compared_with(before: &[Instruction]) -> Option<usize> {
    const LOOKED_AT: usize = 12;
    let recent = &before[before.len().saturating_sub(LOOKED_AT)..];
    let at = recent.iter().rposition(|instruction| instruction.mnemonic() == Mnemonic::Ja)?;
    let compare = recent[..at].last().filter(|instruction| instruction.mnemonic() == Mnemonic::Cmp)?;
    let is_constant = !matches!(compare.op1_kind(), OpKind::Register | OpKind::Memory);
    is_constant.then(|| compare.immediate(1) as usize).and_then(|last| last.checked_add(1))
}
