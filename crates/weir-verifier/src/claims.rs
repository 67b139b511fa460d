//! What the verifier claims of each instruction, so that runs can be held against it.
//!
//! In: the states that exploring followed on from each instruction, and a [`Moment`] of a run. Out: whether one of
//! those states is one that the run may be in. An unsound step of the verifier shows here long before it lets an access
//! outside through: a number outside its range, a pointer elsewhere than claimed, an instruction that no path reaches,
//! a run that comes to an instruction more often than exploring did.
//!
//! What is compared is what the proof stands on: what the instruction reads. A path that was dropped because a finished
//! one covers it goes on with values that nobody looks at, or whose numbers decide nothing. Numbers are compared where
//! the instruction decides by them (a branch, a pointer's move, a helper's argument), whatever `numbers` says, and
//! elsewhere where they matter by `numbers`.
//!
//! For tests: nothing here is on the way to a proof. Deliberately not here: what stands in the stack, until it is
//! loaded; offsets in ring records and keys.

use std::cell::Cell;

use weir_ebpf::context::{memory, packet};
use weir_ebpf::insn::alu;
use weir_ebpf::{MapSpec, Program, ProgramKind};

use crate::Limits;
use crate::decode::{Op, Operand, decode};
use crate::functions::Functions;
use crate::limits::STACK_BYTES;
use crate::numbers::Numbers;
use crate::places::{FramePlaces, register_place};
use crate::state::{PacketAt, State, Value};

/// What is claimed of each instruction of one program.
#[derive(Debug)]
pub struct Claims {
    kind: ProgramKind,
    /// Of each map.
    value_bytes: Vec<u32>,
    insns: Vec<InsnClaims>,
    /// By instruction: how often a run comes to it at most, where rounds of loops were counted.
    times: Option<Vec<u64>>,
}

/// A run before one of its instructions.
#[derive(Clone, Copy)]
pub struct Moment<'a> {
    /// Slot of the instruction that is about to run.
    pub at: usize,
    /// Calls under way.
    pub depth: usize,
    /// r0 to r10 as they are before it.
    pub registers: &'a [u64; 11],
    /// The outermost frame's r10; each further frame is 512 bytes below.
    pub stack_top: u64,
    /// Address of the program's context.
    pub context: u64,
    /// The 8-byte slots of the context.
    pub slots: &'a [u64; 21],
    /// What names a map.
    pub map: &'a dyn Fn(u32) -> u64,
    /// The map and the offset in its value that an address is at.
    pub value_at: &'a dyn Fn(u64) -> Option<(u32, u64)>,
}

impl std::fmt::Debug for Moment<'_> {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "instruction {}, {} calls deep: {:x?}", self.at, self.depth, self.registers)
    }
}

/// A state, as far as runs are held against it.
#[derive(Clone, Debug)]
pub(crate) struct Claim {
    depth: usize,
    registers: [Value; 11],
}

impl Claim {
    pub(crate) fn of(state: &State) -> Claim {
        Claim { depth: state.depth(), registers: state.registers }
    }
}

#[derive(Debug)]
struct InsnClaims {
    operands: Vec<Read>,
    /// The operands are a pointer and what it is moved by, or may be.
    moves: bool,
    claims: Vec<Claim>,
    /// The claim that held last: most often the next one does now.
    last: Cell<usize>,
}

/// A register that an instruction reads.
#[derive(Clone, Copy, Debug)]
struct Read {
    register: u8,
    /// Its number is compared, not only that it is one.
    decides: bool,
}

impl Claims {
    pub(crate) fn of(
        program: &Program,
        maps: &[MapSpec],
        limits: &Limits,
        claims: Vec<Vec<Claim>>,
        times: Option<Vec<u64>>,
    ) -> Claims {
        let ops = decode(program.kind, &program.insns, maps, limits).expect("the program was accepted");
        let functions = Functions::of(&ops).expect("the program was accepted");
        let numbers = Numbers::of(program.kind, &ops, &functions);
        let insn = |(at, claims)| {
            let operands = reads(&ops[at], numbers.at(at));
            let moves = matches!(ops[at], Op::Arithmetic { operation: alu::ADD | alu::SUB, wide: true, .. });
            InsnClaims { operands, moves, claims, last: Cell::default() }
        };
        let value_bytes = maps.iter().map(|map| map.value_bytes).collect();
        let insns = claims.into_iter().enumerate().map(insn).collect();
        Claims { kind: program.kind, value_bytes, insns, times }
    }

    /// How often exploring went on from the instruction, or the rounds of loops that were counted lead there. A run
    /// that passes no `may_goto` and is not called back comes to it no more often: whatever covers a path leads to no
    /// state a second time.
    pub fn visits(&self, at: usize) -> usize {
        self.times.as_ref().map_or(self.insns[at].claims.len(), |times| times[at] as usize)
    }

    /// The run may be where it is with what it holds. Err: what was claimed.
    pub fn check(&self, moment: &Moment<'_>) -> Result<(), String> {
        let insn = &self.insns[moment.at];
        let from = insn.last.get();
        let count = insn.claims.len();
        let found = (0..count).map(|step| (from + step) % count).find(|index| {
            let claim = &insn.claims[*index];
            claim.depth == moment.depth && self.holds(insn, claim, moment)
        });
        match found {
            Some(index) => {
                insn.last.set(index);
                Ok(())
            }
            None => Err(insn.words(moment)),
        }
    }

    fn holds(&self, insn: &InsnClaims, claim: &Claim, moment: &Moment<'_>) -> bool {
        let value = |read: &Read| claim.registers[usize::from(read.register)];
        let is_number = |value: Value| matches!(value, Value::Scalar(_));
        let moves_pointer = insn.moves && insn.operands.iter().any(|read| !is_number(value(read)));
        insn.operands.iter().all(|read| {
            let found = moment.registers[usize::from(read.register)];
            match value(read) {
                Value::Scalar(number) => !(read.decides || moves_pointer) || number.has(found),
                pointer => self.points(pointer, found, moment),
            }
        })
    }

    /// `address` is what `pointer` claims.
    fn points(&self, pointer: Value, address: u64, moment: &Moment<'_>) -> bool {
        let slot = |at: u32| moment.slots[at as usize / 8];
        match pointer {
            Value::Stack(at) => {
                let frame = moment.stack_top.wrapping_sub(u64::from(at.frame) * STACK_BYTES as u64);
                address == frame.wrapping_add_signed(at.off)
            }
            Value::StackSpan(span) => {
                let frame = moment.stack_top.wrapping_sub(u64::from(span.frame) * STACK_BYTES as u64);
                span.offset.has(address.wrapping_sub(frame))
            }
            Value::Context => address == moment.context,
            Value::ContextAt(offset) => offset.has(address.wrapping_sub(moment.context)),
            Value::Map(index) => address == (moment.map)(index),
            // Outside of a value an address may be anywhere.
            Value::Element { map, offset } => {
                let is_inside = offset.smin >= 0 && offset.smax < self.value_bytes[map as usize].into();
                !is_inside
                    || (moment.value_at)(address).is_some_and(|(found, at)| found == map && offset.has(at))
            }
            Value::ElementOrNull { map, .. } => address == 0 || (moment.value_at)(address) == Some((map, 0)),
            Value::Memory { offset, .. } if matches!(self.kind, ProgramKind::Memory { .. }) => {
                offset.has(address.wrapping_sub(slot(memory::ADDRESS)))
            }
            Value::Packet(PacketAt { is_meta, unknown, fixed, range, .. }) if self.kind.is_packet() => {
                let (start, end) = match is_meta {
                    true => (packet::DATA_META, packet::DATA),
                    false => (packet::DATA, packet::DATA_END),
                };
                let distance = address.wrapping_sub(slot(start)).wrapping_add_signed(-fixed);
                unknown.has(distance)
                    && (range == 0 || distance + u64::from(range) <= slot(end) - slot(start))
            }
            Value::PacketEnd => address == slot(packet::DATA_END),
            // A number that nobody claims anything of, and objects that this does not follow.
            _ => true,
        }
    }
}

impl InsnClaims {
    fn words(&self, moment: &Moment<'_>) -> String {
        let mut words = format!("{moment:?}");
        for read in &self.operands {
            let register = usize::from(read.register);
            let mut seen: Vec<Value> = Vec::new();
            for claim in self.claims.iter().filter(|claim| claim.depth == moment.depth) {
                if !seen.contains(&claim.registers[register]) {
                    seen.push(claim.registers[register]);
                }
            }
            let found = moment.registers[register];
            words += &format!("\n  r{register} is {found:#x}; claimed: {seen:?}");
        }
        if self.claims.is_empty() { words + "\n  no path leads here" } else { words }
    }
}

/// The registers that an instruction reads; `numbers`: those that matter before it.
fn reads(op: &Op, numbers: FramePlaces) -> Vec<Read> {
    let matters = |register: u8| Read { register, decides: numbers & register_place(register) != 0 };
    let decides = |register: u8| Read { register, decides: true };
    let of = |operand: Operand| match operand {
        Operand::Register(register) => Some(register),
        Operand::Immediate(_) => None,
    };
    match *op {
        Op::Arithmetic { operation: alu::MOV, src, .. } => of(src).map(matters).into_iter().collect(),
        Op::Arithmetic { dst, src, .. } => [Some(dst), of(src)].into_iter().flatten().map(matters).collect(),
        Op::ByteOrder { dst, .. } => vec![matters(dst)],
        Op::Load { base, .. } | Op::LoadAcquire { base, .. } => vec![matters(base)],
        Op::Store { base, value, .. } => [Some(base), of(value)].into_iter().flatten().map(matters).collect(),
        Op::StoreRelease { base, src, .. } | Op::Atomic { base, src, .. } => {
            [base, src].map(matters).to_vec()
        }
        Op::Branch { dst, src, .. } => [Some(dst), of(src)].into_iter().flatten().map(decides).collect(),
        Op::Call { helper } => (1..=helper.args.len() as u8).map(decides).collect(),
        Op::CallLocal { .. } => (1..=5).map(matters).collect(),
        Op::Exit => vec![matters(0)],
        Op::PacketLoad { .. } => vec![matters(6)],
        _ => Vec::new(),
    }
}
