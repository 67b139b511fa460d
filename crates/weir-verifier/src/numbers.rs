//! Which numbers matter: before each instruction, the registers and stack slots whose numbers some later instruction
//! may decide by.
//!
//! In: decoded instructions and their functions. Out: [`Numbers`]. A number matters if it may reach, through moves,
//! arithmetic and the stack, an operand of a branch, what a pointer is moved by, or an argument of a helper or of
//! `weir_text_begins`. Two states that differ in other numbers alone go the same ways and are judged alike, so that a
//! finished one covers the other (`explore`): a loop's sums and counts do not make its rounds differ.
//!
//! Method, without following paths: forwards over the instructions, which places may hold pointers (so as to know a
//! pointer's move from a sum); then backwards, which numbers matter. Both join where ways meet, go through local calls,
//! into callbacks with anything in their arguments, and err on the side of "may be a pointer" and "matters". Numbers of
//! the frames that wait for a call always matter.
//!
//! Deliberately not here: numbers that are read, but matter to nobody, are checked to be there by `explore`.

use weir_ebpf::helper::Ret;
use weir_ebpf::insn::{alu, atomic};
use weir_ebpf::{ProgramKind, kfunc};

use crate::decode::{Op, Operand};
use crate::flow::{Earlier, after, goes_forward, look_again};
use crate::functions::Functions;
use crate::limits::STACK_BYTES;
use crate::places::{FramePlaces, register_place, register_places, stack_places};

/// What matters, by instruction.
#[derive(Debug)]
pub(crate) struct Numbers {
    before: Vec<FramePlaces>,
    /// Registers that may hold pointers into a stack, by instruction.
    stack_pointers: Vec<FramePlaces>,
}

impl Numbers {
    pub(crate) fn of(kind: ProgramKind, ops: &[Op], functions: &Functions) -> Numbers {
        let pointers = Forwards::new(kind, ops, functions).run();
        let before = Backwards::new(kind, ops, functions, &pointers).run();
        Numbers { before, stack_pointers: pointers.iter().map(|held| held.stack & REGISTERS).collect() }
    }

    /// Some of these registers may hold a pointer into a stack before the instruction at `at`.
    pub(crate) fn may_point_to_stack(&self, at: usize, registers: FramePlaces) -> bool {
        self.stack_pointers[at] & registers != 0
    }

    /// Of the innermost frame, before the instruction at `at`.
    pub(crate) fn at(&self, at: usize) -> FramePlaces {
        self.before[at]
    }
}

const REGISTERS: FramePlaces = ((1 << 11) - 1) << 64;
const SLOTS: FramePlaces = (1 << (STACK_BYTES / 8)) - 1;
const R0_TO_R5: FramePlaces = 0x3f << 64;

/// The slots of the frame that an access through r10 touches; none where it lies outside, and is refused.
fn slots_of(off: i16, bytes: u32) -> FramePlaces {
    let (off, bytes) = (i64::from(off), i64::from(bytes));
    if off < -STACK_BYTES || off + bytes > 0 { 0 } else { stack_places(off, bytes) }
}

/// Places by what they may hold.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
struct Pointers {
    /// Pointers of any kind.
    any: FramePlaces,
    /// Pointers into a stack.
    stack: FramePlaces,
    /// The context.
    context: FramePlaces,
}

impl Pointers {
    /// Joins what flows in; whether that was news.
    fn join(&mut self, other: Pointers) -> bool {
        let before = *self;
        self.any |= other.any;
        self.stack |= other.stack;
        self.context |= other.context;
        *self != before
    }

    fn of(self, place: FramePlaces) -> Held {
        let holds = |set: FramePlaces| set & place != 0;
        Held { any: holds(self.any), stack: holds(self.stack), context: holds(self.context) }
    }

    /// Adds what may be in `places` besides.
    fn add(&mut self, places: FramePlaces, held: Held) {
        let with = |may: bool| if may { places } else { 0 };
        self.any |= with(held.any);
        self.stack |= with(held.stack);
        self.context |= with(held.context);
    }

    /// Nothing but `held` is in `places`.
    fn set(&mut self, places: FramePlaces, held: Held) {
        self.any &= !places;
        self.stack &= !places;
        self.context &= !places;
        self.add(places, held);
    }
}

/// What a place may hold.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
struct Held {
    any: bool,
    stack: bool,
    context: bool,
}

impl Held {
    const NUMBER: Held = Held { any: false, stack: false, context: false };
    const POINTER: Held = Held { any: true, stack: false, context: false };
    const ANYTHING: Held = Held { any: true, stack: true, context: true };

    fn or(self, other: Held) -> Held {
        Held {
            any: self.any | other.any,
            stack: self.stack | other.stack,
            context: self.context | other.context,
        }
    }
}

/// The first pass.
struct Forwards<'a> {
    kind: ProgramKind,
    ops: &'a [Op],
    functions: &'a Functions,
    before: Vec<Pointers>,
    reached: Vec<bool>,
    /// By function: what r0 may hold at its ends, and where its calls return to.
    results: Vec<Held>,
    returns: Vec<Vec<usize>>,
    work: Vec<usize>,
}

impl<'a> Forwards<'a> {
    fn new(kind: ProgramKind, ops: &'a [Op], functions: &'a Functions) -> Forwards<'a> {
        Forwards {
            kind,
            ops,
            functions,
            before: vec![Pointers::default(); ops.len()],
            reached: vec![false; ops.len()],
            results: vec![Held::NUMBER; functions.count()],
            returns: vec![Vec::new(); functions.count()],
            work: Vec::new(),
        }
    }

    fn run(mut self) -> Vec<Pointers> {
        let mut entry = frame_entry();
        entry.add(register_place(1), Held { any: true, stack: false, context: true });
        self.flow(0, entry);
        while let Some(at) = self.work.pop() {
            self.step(at);
        }
        self.before
    }

    fn flow(&mut self, to: usize, pointers: Pointers) {
        let news = self.before[to].join(pointers);
        if news || !self.reached[to] {
            self.reached[to] = true;
            self.work.push(to);
        }
    }

    fn step(&mut self, at: usize) {
        let mut now = self.before[at];
        let held = |register: u8| self.before[at].of(register_place(register));
        let operand = |operand: Operand| match operand {
            Operand::Register(register) => held(register),
            Operand::Immediate(_) => Held::NUMBER,
        };
        let next = at + 1;
        match self.ops[at] {
            Op::Arithmetic { operation: alu::MOV, dst, src, .. } => {
                now.set(register_place(dst), operand(src))
            }
            // What may not be done with a pointer is refused.
            Op::Arithmetic { operation: alu::ADD | alu::SUB, dst, src, .. } => {
                now.set(register_place(dst), held(dst).or(operand(src)));
            }
            Op::Arithmetic { dst, .. } | Op::ByteOrder { dst, .. } | Op::Constant { dst, .. } => {
                now.set(register_place(dst), Held::NUMBER);
            }
            Op::Load { dst, base, off, bytes, .. } | Op::LoadAcquire { dst, base, off, bytes } => {
                let loaded = self.loaded(&now, base, off, bytes);
                now.set(register_place(dst), loaded);
            }
            Op::Store { base, off, bytes, value } => stored(&mut now, base, off, bytes, operand(value)),
            Op::StoreRelease { base, off, bytes, src } => stored(&mut now, base, off, bytes, held(src)),
            Op::Atomic { base, off, bytes, src, operation } => {
                stored(&mut now, base, off, bytes, Held::NUMBER);
                if let Some(result) = atomic_result(operation, src) {
                    now.set(register_place(result), Held::NUMBER);
                }
            }
            Op::Map { dst, .. } | Op::MapValue { dst, .. } => now.set(register_place(dst), Held::POINTER),
            Op::Function { dst, target } => {
                // Whatever helper calls it back gives it what it was itself given.
                let mut entry = frame_entry();
                entry.add(register_places(1, 5), Held::ANYTHING);
                self.flow(target, entry);
                now.set(register_place(dst), Held::POINTER);
            }
            Op::PacketLoad { .. } => now.set(R0_TO_R5, Held::NUMBER),
            Op::CallKernel { id } => {
                now.set(R0_TO_R5, Held::NUMBER);
                if id != kfunc::DECLARED_COPY {
                    now.set(register_place(0), Held::POINTER);
                }
            }
            Op::Call { helper } => {
                if helper.callback().is_some() && now.stack & register_places(1, 5) != 0 {
                    // The callback may leave anything in this frame.
                    now.add(SLOTS, Held::ANYTHING);
                }
                now.set(R0_TO_R5, Held::NUMBER);
                let result = match helper.ret {
                    Ret::Scalar | Ret::Status | Ret::Void => Held::NUMBER,
                    _ => Held::POINTER,
                };
                now.set(register_place(0), result);
            }
            Op::CallLocal { target } => return self.call(at, target, now),
            Op::Exit => return self.exit(at, held(0)),
            Op::Jump { target } => return self.flow(target, now),
            Op::Branch { target, .. } | Op::MayGoto { target } => self.flow(target, now),
            Op::CallUnknown { .. } => return,
            Op::Second => {}
        }
        let next = next + usize::from(matches!(self.ops.get(next), Some(Op::Second)));
        if next < self.ops.len() {
            self.flow(next, now);
        }
    }

    /// What a load through `base` may give.
    fn loaded(&self, now: &Pointers, base: u8, off: i16, bytes: u32) -> Held {
        if base == 10 {
            return now.of(slots_of(off, bytes));
        }
        let through = now.of(register_place(base));
        if through.stack {
            return Held::ANYTHING;
        }
        // A packet's context holds the packet's addresses.
        if through.context && self.kind.is_packet() { Held::POINTER } else { Held::NUMBER }
    }

    fn call(&mut self, at: usize, target: usize, mut now: Pointers) {
        let callee = self.functions.at(target);
        let mut entry = frame_entry();
        let arguments = register_places(1, 5);
        entry.join(Pointers {
            any: now.any & arguments,
            stack: now.stack & arguments,
            context: now.context & arguments,
        });
        if now.stack & arguments != 0 {
            // The callee may leave anything in this frame.
            now.add(SLOTS, Held::ANYTHING);
        }
        now.set(R0_TO_R5, Held::NUMBER);
        // What r0 holds is added where the callee ends; until then nothing flows to here from those ends.
        now.add(register_place(0), self.results[callee]);
        if !self.returns[callee].contains(&(at + 1)) {
            self.returns[callee].push(at + 1);
        }
        self.flow(target, entry);
        self.flow(at + 1, now);
    }

    fn exit(&mut self, at: usize, r0: Held) {
        let function = self.functions.at(at);
        let result = self.results[function].or(r0);
        if result == self.results[function] {
            return;
        }
        self.results[function] = result;
        for to in self.returns[function].clone() {
            let mut now = Pointers::default();
            now.add(register_place(0), result);
            self.flow(to, now);
        }
    }
}

/// A new frame: r10, and nothing else.
fn frame_entry() -> Pointers {
    let mut entry = Pointers::default();
    entry.add(register_place(10), Held { any: true, stack: true, context: false });
    entry
}

fn stored(now: &mut Pointers, base: u8, off: i16, bytes: u32, value: Held) {
    if base == 10 {
        let slots = slots_of(off, bytes);
        if bytes == 8 { now.set(slots, value) } else { now.add(slots, value) }
    } else if now.of(register_place(base)).stack {
        now.add(SLOTS, value);
    }
}

/// The register that an atomic operation's result goes to.
fn atomic_result(operation: i32, src: u8) -> Option<u8> {
    match operation {
        atomic::CMPXCHG => Some(0),
        _ => (operation & atomic::FETCH != 0).then_some(src),
    }
}

/// The second pass.
struct Backwards<'a> {
    ops: &'a [Op],
    functions: &'a Functions,
    pointers: &'a [Pointers],
    before: Vec<FramePlaces>,
    /// None where one sweep from the end sees each instruction after all that it leads to.
    earlier: Option<Earlier>,
    /// By function: whether its result matters to a caller, and its calls.
    results: Vec<bool>,
    calls: Vec<Vec<usize>>,
    work: Vec<usize>,
    waits: Vec<bool>,
}

impl<'a> Backwards<'a> {
    fn new(
        kind: ProgramKind,
        ops: &'a [Op],
        functions: &'a Functions,
        pointers: &'a [Pointers],
    ) -> Backwards<'a> {
        let mut calls = vec![Vec::new(); functions.count()];
        let mut results = vec![false; functions.count()];
        // What the program answers is checked.
        results[0] = kind.answer_max().is_some();
        for (at, op) in ops.iter().enumerate() {
            match op {
                Op::CallLocal { target } => calls[functions.at(*target)].push(at),
                // What a callback answers is checked.
                Op::Function { target, .. } => results[functions.at(*target)] = true,
                _ => {}
            }
        }
        let is_one_sweep = functions.count() == 1 && goes_forward(ops);
        Backwards {
            ops,
            functions,
            pointers,
            before: vec![0; ops.len()],
            earlier: (!is_one_sweep).then(|| Earlier::new(ops)),
            results,
            calls,
            // From the end: most is then seen after what comes behind it.
            work: (0..ops.len()).collect(),
            waits: vec![true; ops.len()],
        }
    }

    fn run(mut self) -> Vec<FramePlaces> {
        while let Some(at) = self.work.pop() {
            self.waits[at] = false;
            let next = after(self.ops, at).into_iter().flatten();
            let after = next.fold(0, |places, next| places | self.before[next]);
            let before = self.step(at, after) & (REGISTERS | SLOTS);
            if before == self.before[at] {
                continue;
            }
            self.before[at] = before;
            for &earlier in self.earlier.iter().flat_map(|earlier| earlier.of(at)) {
                look_again(&mut self.work, &mut self.waits, earlier);
            }
            let function = self.functions.at(at);
            if self.functions.starts()[function] == at {
                for &call in &self.calls[function] {
                    look_again(&mut self.work, &mut self.waits, call);
                }
            }
        }
        self.before
    }

    /// What matters before the instruction, where `after` does behind it.
    fn step(&mut self, at: usize, after: FramePlaces) -> FramePlaces {
        let pointers = self.pointers[at];
        let may_be_stack = |register: u8| pointers.of(register_place(register)).stack;
        let places_of = |operand: Operand| match operand {
            Operand::Register(register) => register_place(register),
            Operand::Immediate(_) => 0,
        };
        let stores = |base: u8, off: i16, bytes: u32, value: FramePlaces| match base {
            10 => {
                let slots = slots_of(off, bytes);
                let value = if after & slots != 0 { value } else { 0 };
                // A part of a slot leaves the rest as it was.
                value | if bytes == 8 { after & !slots } else { after }
            }
            // In a function it may be the stack of one that waits, where nobody knows here what matters.
            _ if may_be_stack(base) && (after & SLOTS != 0 || self.functions.at(at) > 0) => after | value,
            _ => after,
        };
        let call = |count: u8| {
            let arguments = register_places(1, count);
            let read = if pointers.stack & arguments != 0 { SLOTS } else { 0 };
            after & !R0_TO_R5 | arguments | read
        };
        match self.ops[at] {
            Op::Arithmetic { operation, wide, dst, src, .. } => {
                let (dst, src) = (register_place(dst), places_of(src));
                if operation == alu::MOV {
                    return if after & dst != 0 { after & !dst | src } else { after };
                }
                let moves = wide
                    && matches!(operation, alu::ADD | alu::SUB)
                    && (pointers.of(dst).any || pointers.of(src).any);
                if moves {
                    after | dst | src
                } else if after & dst != 0 {
                    after | src
                } else {
                    after
                }
            }
            Op::ByteOrder { .. } | Op::Jump { .. } | Op::MayGoto { .. } | Op::Second => after,
            Op::Load { dst, base, off, bytes, .. } | Op::LoadAcquire { dst, base, off, bytes } => {
                let dst = register_place(dst);
                let from = match base {
                    10 => slots_of(off, bytes),
                    _ if may_be_stack(base) => SLOTS,
                    _ => 0,
                };
                if after & dst != 0 { after & !dst | from } else { after }
            }
            Op::Store { base, off, bytes, value } => stores(base, off, bytes, places_of(value)),
            Op::StoreRelease { base, off, bytes, src } => stores(base, off, bytes, register_place(src)),
            // What it leaves is unknown to the verifier, whatever it found.
            Op::Atomic { src, operation, .. } => match atomic_result(operation, src) {
                Some(result) => after & !register_place(result),
                None => after,
            },
            Op::Constant { dst, .. }
            | Op::Map { dst, .. }
            | Op::MapValue { dst, .. }
            | Op::Function { dst, .. } => after & !register_place(dst),
            Op::Branch { dst, src, .. } => after | register_place(dst) | places_of(src),
            // Where in the packet it reads is checked when it runs.
            Op::PacketLoad { .. } => after & !R0_TO_R5,
            Op::CallKernel { id } => call(kfunc::arguments(id)),
            Op::Call { helper } => call(helper.args.len() as u8),
            Op::CallLocal { target } => self.call(target, after, pointers),
            Op::Exit => {
                if self.results[self.functions.at(at)] {
                    register_place(0)
                } else {
                    0
                }
            }
            Op::CallUnknown { .. } => 0,
        }
    }

    fn call(&mut self, target: usize, after: FramePlaces, pointers: Pointers) -> FramePlaces {
        let callee = self.functions.at(target);
        if after & register_place(0) != 0 && !std::mem::replace(&mut self.results[callee], true) {
            let end = self.functions.starts().get(callee + 1).copied().unwrap_or(self.ops.len());
            for at in target..end {
                if matches!(self.ops[at], Op::Exit) {
                    look_again(&mut self.work, &mut self.waits, at);
                }
            }
        }
        let arguments = register_places(1, 5);
        // The callee reads this frame through its pointers.
        let read = if pointers.stack & arguments != 0 { SLOTS } else { 0 };
        after & !R0_TO_R5 | self.before[target] & arguments | read
    }
}
