//! [`crate::front::lir`] to x86-64: where registers live, the stack frame, moves, memory, calls and jumps.
//! Arithmetic is in [`crate::isa::x86_64::arith`], atomics in [`crate::isa::x86_64::atomics`], per-CPU values in [`crate::isa::x86_64::lanes`] and
//! [`crate::isa::x86_64::claim`], records of rings in [`crate::isa::x86_64::records`], packet loads in [`crate::isa::x86_64::packets`], texts in [`crate::isa::x86_64::texts`], copies
//! of what is declared in [`crate::isa::x86_64::declared`].
//!
//! | eBPF | r0 | r1 | r2 | r3 | r4 | r5 | r6 | r7 | r8 | r9 | r10 |
//! |---|---|---|---|---|---|---|---|---|---|---|---|
//! | x86 | rax | rdi | rsi | rdx | rcx | r8 | rbx | r13 | r14 | r15 | rsp + constant |
//!
//! (The kernel's assignment: a helper's arguments are where the C ABI wants them.) r9, r10 and r11 are scratch
//! within one operation, unless a place on the stack got r9 or r10 (see [`crate::passes::promote`]); rbp is never touched; r12
//! holds the state of the run, where it has one: in its lower half the rounds left for `may_goto`, in its upper half
//! the lane that it has claimed. Else it may be such a place.
//!
//! The frame, downwards: context (`Frame`), return address, saved rbx/r13/r14/r15 as far as used (and r12), the
//! program's stack as deep as it is used, and below it what a helper's rounds need (see [`crate::isa::x86_64::rounds`]). Without
//! calls and up to 128 bytes that stack is the red zone and rsp stays. A local function has the same frame without a
//! context: what it keeps for its caller, it saves itself.
//!
//! Every operation has a form; some have a second one that changes no flag, chosen in `neutral` mode. Whether
//! the result is flag-neutral is read off what was emitted.

use std::collections::BTreeMap;

use weir_ebpf::{ProgramKind, context::memory};
use weir_rt::executable::FRAME_ROUNDS;
use weir_rt::executable::{FRAME_COOKIE, Symbol};
use weir_rt::limits::MAY_GOTO_ROUNDS_MAX;
use weir_verifier::Function;

use crate::JitError;
use crate::front::lir::{At, Base, Extend, IN_R12, Op, Operand, Over, REGISTERS, Size, Test};
use crate::isa::x86_64::assembler::{Assembled, Assembler, Label};
use crate::isa::x86_64::emitter::{
    BranchOnAnswer, Cold, ColdCode, Emitter, Filling, Frame, Input, RUN, condition, phys, size_width, width,
};
use crate::isa::x86_64::encode::{self, Cond, Mem, Plain, Reg, Width};
use crate::isa::x86_64::rounds;
use crate::limits::{
    HELPER_STACK_BYTES, PROGRAM_STACK_BYTES, RED_ZONE_BYTES, SMALL_HELPER_STACK_BYTES, helper_stack_bytes,
};
use crate::passes::Passes;
use crate::passes::blocks;
use crate::passes::inversions;
use crate::passes::jumps::opposite;

/// What is emitted, with the depth of its stack.
#[derive(Debug)]
pub(crate) struct Emitted {
    pub(crate) assembled: Assembled,
    /// Where tail calls of others enter.
    pub(crate) tail_entry: u32,
    pub(crate) stack_bytes: u32,
}

pub(crate) fn emit(input: Input<'_>) -> Result<Emitted, JitError> {
    let mut emitter = Emitter::new(input);
    let ends = input.functions.iter().skip(1).map(|next| next.start).chain([input.ops.len()]);
    let mut depths = Vec::new();
    for (function, end) in input.functions.iter().zip(ends) {
        // What nobody calls has no code.
        if function.start == 0 || emitter.callees.contains_key(&function.start) {
            emitter.function(function, end)?;
            depths.push((function.start, emitter.frame.below(), emitter.frame.callees.clone()));
        }
    }
    let stack_bytes = depth(0, &depths);
    assert!(
        stack_bytes <= PROGRAM_STACK_BYTES,
        "{stack_bytes} bytes of stack: frames are larger than the bound"
    );
    let (stack_bytes, tail_entry) = match emitter.has_tail_calls() {
        true => (stack_bytes.max(PROGRAM_STACK_BYTES), emitter.tail_entry),
        false => (stack_bytes, 0),
    };
    let assembled = emitter.asm.finish().map_err(|_| JitError::OutOfReach)?;
    Ok(Emitted { assembled, tail_entry, stack_bytes })
}

/// Most bytes below the return address of the function at `start`, callees included. Calls are not recursive.
fn depth(start: usize, frames: &[(usize, Below, Vec<usize>)]) -> u32 {
    let Some((_, below, callees)) = frames.iter().find(|frame| frame.0 == start) else { return 0 };
    let deepest = callees.iter().map(|callee| 8 + depth(*callee, frames)).max().unwrap_or(0);
    below.own + deepest.max(below.helpers)
}

impl Frame {
    /// `keeps_run`: it saves the register of the run's state. `claims`: it claims a lane.
    fn new(ops: &[Op], stack_bytes: u32, keeps_run: bool, claims: bool, has_tries: bool) -> Frame {
        let written = ops.iter().fold(0, |mask, op| mask | op.effect().writes);
        let mut saved: Vec<Reg> = (6..=IN_R12).filter(|reg| written >> reg & 1 != 0).map(phys).collect();
        saved.extend(keeps_run.then_some(RUN));
        let helper_bytes = |op: &Op| match op {
            Op::Helper { id, .. } => helper_stack_bytes(*id, has_tries),
            Op::Reserve { .. } | Op::Output { .. } | Op::Declared { .. } => SMALL_HELPER_STACK_BYTES,
            Op::Loop { over: Over::Elements, .. } => HELPER_STACK_BYTES,
            _ => 0,
        };
        let for_lane = if claims { SMALL_HELPER_STACK_BYTES } else { 0 };
        let helper_bytes = ops.iter().map(helper_bytes).fold(for_lane, u32::max);
        let mut callees: Vec<usize> = ops.iter().filter_map(Op::callee).collect();
        callees.sort_unstable();
        callees.dedup();
        let calls = helper_bytes > 0 || !callees.is_empty();
        let used = used_stack(ops, stack_bytes).next_multiple_of(8);
        let mut stack = used + ops.iter().map(rounds::frame_bytes).max().unwrap_or(0);
        // Callees expect rsp to be a multiple of 16 at a call if it was one before the call to us.
        if calls && !(8 + 8 * saved.len() as u32 + stack).is_multiple_of(16) {
            stack += 8;
        }
        let red_zone = !calls && stack <= RED_ZONE_BYTES;
        Frame { saved, used, stack, red_zone, claims, limits: false, helper_bytes, callees }
    }

    /// Bytes that rsp is lowered by after the pushes.
    fn lowered(&self) -> i32 {
        if self.red_zone { 0 } else { self.stack as i32 }
    }

    fn context_offset(&self) -> i32 {
        self.lowered() + 8 * self.saved.len() as i32 + 8
    }

    /// Most bytes below the return address.
    fn below(&self) -> Below {
        let helpers = if self.helper_bytes > 0 { 8 + self.helper_bytes } else { 0 };
        Below { own: 8 * self.saved.len() as u32 + self.stack, helpers }
    }
}

/// Bytes below a return address: of the frame itself, and of the helpers that are called from it.
#[derive(Clone, Copy, Debug)]
struct Below {
    own: u32,
    helpers: u32,
}

/// How deep the operations that are left reach.
fn used_stack(ops: &[Op], most: u32) -> u32 {
    let mut deepest = 0;
    for op in ops {
        match op.at().map(|at| (at.base, at.offset)) {
            Some((base, _)) if base.may_be_stack() => return most,
            Some((Base::Stack, offset)) => deepest = deepest.max(offset.wrapping_neg().max(0) as u32),
            _ => {}
        }
        // A function may go anywhere in a stack that it was given an address in.
        if matches!(op, Op::LocalCall { stack_escapes: true, .. } | Op::Loop { stack_escapes: true, .. }) {
            return most;
        }
        if op.operands().contains(&Some(Operand::FramePointer)) {
            return most;
        }
        // A helper may get an address that was moved down by what is not known here.
        for range in op.effect().stack_reads {
            deepest = deepest.max(range.from.wrapping_neg().max(0) as u32);
        }
    }
    deepest.min(most)
}

impl<'a> Emitter<'a> {
    fn new(input: Input<'a>) -> Emitter<'a> {
        let mut asm = Assembler::with_room(input.ops.len());
        let mut labels = vec![None; input.ops.len()];
        let inversions = match input.passes.has(Passes::INVERSIONS) {
            true => inversions::inversions(input.ops),
            false => vec![None; input.ops.len()],
        };
        // An inverted jump goes behind the branch that it repeats.
        let jump = |(index, op): (usize, &Op)| match *op {
            Op::Jump { target } => Some((index, inversions[index].map_or(target, |branch| branch + 1))),
            Op::Branch { target, .. } | Op::MayGoto { target } => Some((index, target)),
            _ => None,
        };
        let jumps: Vec<(usize, usize)> = input.ops.iter().enumerate().filter_map(jump).collect();
        for &(_, target) in &jumps {
            labels[target].get_or_insert_with(|| asm.label());
        }
        let loops = match input.passes.has(Passes::ALIGN) {
            true => blocks::loops(input.ops.len(), jumps.into_iter()),
            false => vec![None; input.ops.len()],
        };
        let mut callees = BTreeMap::new();
        for callee in input.ops.iter().filter_map(Op::callee) {
            callees.entry(callee).or_insert_with(|| asm.label());
        }
        let (cold, frame) = (Vec::new(), Frame::default());
        Emitter {
            asm,
            input,
            cold,
            now: 0,
            frame,
            labels,
            has_inversions: inversions.iter().any(Option::is_some),
            inversions,
            loops,
            callees,
            epilogue: None,
            tail_entry: 0,
            no_packet: None,
            branch_done: None,
            text_by_bytes: None,
        }
    }

    /// One function: prologue, operations, and what was put off.
    fn function(&mut self, function: &Function, end: usize) -> Result<(), JitError> {
        let ops = &self.input.ops[function.start..end];
        let is_program = function.start == 0;
        let claims = is_program && self.input.claims;
        // Each call of a function has rounds of its own, and gives its caller's back.
        let counts = ops.iter().any(|op| matches!(op, Op::MayGoto { .. }));
        // Or all of a run have some together.
        let (counts, limits) = match self.input.limits_rounds {
            true => (false, is_program),
            false => (counts, false),
        };
        let keeps_run = claims || counts || limits;
        let has_tries = self.input.maps.iter().any(|map| map.kind == weir_ebpf::MapKind::LpmTrie);
        self.frame = Frame { limits, ..Frame::new(ops, function.stack_bytes, keeps_run, claims, has_tries) };
        self.epilogue = None;
        if let Some(entry) = self.callees.get(&function.start) {
            self.asm.bind(*entry);
            self.origin(function.start);
        }
        self.prologue(is_program, counts);
        let mut around: Vec<(usize, Label)> = Vec::new();
        for (index, op) in (function.start..).zip(ops) {
            while let Some((_, end)) = around.pop_if(|(end, _)| *end == index) {
                self.asm.bind(end);
            }
            if let Some(end) = self.loops[index] {
                let label = self.asm.label();
                self.asm.align(label);
                around.push((end, label));
            }
            if let Some(label) = self.labels[index] {
                self.asm.bind(label);
            }
            if *op != Op::Nothing {
                self.now = index;
                if is_program || index != function.start {
                    self.origin(index);
                }
                self.op(op)?;
            }
        }
        around.into_iter().for_each(|(_, end)| self.asm.bind(end));
        self.cold();
        if let Some(label) = self.no_packet.take() {
            self.asm.bind(label);
            self.constant(Reg::Rax, 0);
            self.leave();
        }
        Ok(())
    }

    /// What follows comes from this operation.
    fn origin(&mut self, index: usize) {
        self.asm.origin(self.input.origins[index]);
    }

    fn op(&mut self, op: &Op) -> Result<(), JitError> {
        match *op {
            Op::Nothing => {}
            Op::Const { dst, value } => self.constant(phys(dst), value),
            Op::Address { dst, at } => {
                let mem = self.mem(at);
                self.asm.op(encode::Op::Lea, Width::W64, phys(dst), mem);
            }
            Op::Symbol { dst, symbol, addend } => self.asm.mov_symbol(phys(dst), symbol, addend),
            Op::Mov { dst, src, extend } => self.mov(phys(dst), phys(src), extend),
            Op::Alu { op, wide, dst, src } => self.alu(op, wide, phys(dst), src),
            Op::Neg { wide, dst } => self.asm.op_one(encode::Op::Neg, width(wide), phys(dst)),
            Op::Bytes { op, bits, dst } => self.bytes(op, bits, phys(dst)),
            Op::Load { dst, size, signed, at, lanes: None } => {
                let mem = self.mem(at);
                self.load(phys(dst), size, signed, mem);
            }
            Op::Store { size, at, src, lanes: None } => {
                let mem = self.mem(at);
                self.store(size, mem, src);
            }
            Op::Atomic { op, fetch, wide, at, src, lanes: None } => {
                let mem = self.mem(at);
                self.atomic(op, fetch, wide, mem, src);
            }
            Op::Atomic { op, fetch: false, wide, at, src, lanes: Some(map) } => {
                self.lane_change(map, op, wide, at, src)?;
            }
            Op::Load { lanes: Some(_), .. }
            | Op::Store { lanes: Some(_), .. }
            | Op::Atomic { fetch: true, lanes: Some(_), .. } => {
                unreachable!("a program with such an access claims a lane")
            }
            Op::PacketLoad { size, index, offset } => self.packet_load(size, index, offset),
            Op::InLane { dst, map, addend } => self.in_lane(phys(dst), map, addend)?,
            Op::Lookup { map, key, in_lane } => self.lookup(map, key, in_lane)?,
            Op::PidTid { fs_offset } => self.pid_tid(fs_offset),
            Op::Cookie { context } => {
                let mem = self.mem(At { offset: context.offset + FRAME_COOKIE as i32, ..context });
                self.asm.op(encode::Op::Load, Width::W64, Reg::Rax, mem);
            }
            Op::Helper { symbol, string_bytes, in_lane, .. } => {
                if let Some(bytes) = string_bytes {
                    self.asm.mov_value(Reg::R9, bytes.into());
                }
                self.helper(symbol, in_lane)?;
            }
            Op::Reserve { reservation } => self.reserve(reservation, Filling::ByProgram),
            Op::Output { reservation, .. } => self.reserve(reservation, Filling::Copy),
            Op::Finish { is_discard } => self.finish_record(is_discard),
            Op::LocalCall { target, .. } => {
                let entry = self.entry(target);
                self.asm.call(entry);
            }
            Op::Loop { over, callback, checks_flags, .. } => self.helper_loop(over, callback, checks_flags),
            Op::TailCall { map } => self.tail_call(map)?,
            Op::MayGoto { target } => self.may_goto(target),
            Op::Jump { target } => match self.inversions[self.now] {
                Some(branch) => self.inverted(target, branch)?,
                None => self.asm.jump(self.target(target)),
            },
            Op::Branch { .. } if self.branch_done == Some(self.now) => {}
            Op::Branch { test, wide, left, right, target } => self.branch(test, wide, left, right, target),
            Op::Text { ref test } => self.text(test),
            Op::Declared { ref copy, .. } => self.declared(copy),
            Op::Fused(ref fused) => self.fused(fused),
            Op::Exit => self.exit(),
        }
        Ok(())
    }

    fn prologue(&mut self, is_program: bool, counts: bool) {
        if is_program && self.has_tail_calls() {
            self.count_tail_calls_from_zero();
        }
        for reg in self.frame.saved.clone() {
            self.asm.push(reg);
        }
        // `lea`, since `sub` would change flags, for one more byte.
        if self.frame.lowered() != 0 {
            let below = Mem::base(Reg::Rsp, -self.frame.lowered());
            self.asm.op(encode::Op::Lea, Width::W64, Reg::Rsp, below);
        }
        if self.input.zeroes_frames {
            // `mov`, which changes no flag and needs no register.
            for below in (8..=self.frame.used as i32).step_by(8) {
                let word = self.mem(At { base: Base::Stack, offset: -below });
                self.asm.op_imm(encode::Op::MovImm, Width::W64, word, 0);
            }
        }
        if is_program && self.input.claims {
            self.claim();
        }
        if self.frame.limits {
            self.rounds_of_run();
        }
        match (counts, is_program) {
            (true, true) => self.rounds(),
            (true, false) => self.rounds_of_call(),
            (false, _) => {}
        }
        if is_program {
            self.arguments();
        }
    }

    /// r1, and r2 of a program that is lent memory, as far as they are read.
    fn arguments(&mut self) {
        let (op, places) = match self.input.kind {
            ProgramKind::Memory { .. } => (encode::Op::Load, &[(1, memory::ADDRESS), (2, memory::BYTES)][..]),
            // Accesses to the context name their slot; its address is needed only where it is passed on.
            _ => (encode::Op::Lea, &[(1, 0)][..]),
        };
        for &(register, offset) in places {
            if self.input.live.at_entry >> register & 1 != 0 {
                let context = self.mem(At { base: Base::Context, offset: offset as i32 });
                self.asm.op(op, Width::W64, phys(register), context);
            }
        }
    }

    /// The first exit has the epilogue; the others jump to it unless it is a single `ret`.
    fn exit(&mut self) {
        match self.epilogue {
            Some(epilogue) if !self.frame.saved.is_empty() || self.frame.lowered() != 0 => {
                return self.asm.jump(epilogue);
            }
            Some(_) => {}
            None => {
                let epilogue = self.asm.label();
                self.asm.bind(epilogue);
                self.epilogue = Some(epilogue);
            }
        }
        self.leave();
    }

    /// The end of the function; of the run, if it is the program.
    fn leave(&mut self) {
        if self.frame.limits {
            let rounds = self.rounds_in_frame();
            self.asm.op(encode::Op::Store, Width::W32, RUN, rounds);
        }
        if self.frame.claims {
            self.release();
        }
        self.unwind();
    }

    /// The end of a frame.
    pub(crate) fn unwind(&mut self) {
        self.take_down();
        self.asm.plain(Plain::Ret);
    }

    /// The stack and the saved registers are as they were at the entry.
    pub(crate) fn take_down(&mut self) {
        if self.frame.lowered() != 0 {
            let above = Mem::base(Reg::Rsp, self.frame.lowered());
            self.asm.op(encode::Op::Lea, Width::W64, Reg::Rsp, above);
        }
        for reg in self.frame.saved.clone().into_iter().rev() {
            self.asm.pop(reg);
        }
    }

    /// Everything that was put off, in the order it was put off; cold code puts off nothing.
    fn cold(&mut self) {
        for Cold { from, entry, back, what } in std::mem::take(&mut self.cold) {
            self.now = from;
            self.origin(from);
            match what {
                ColdCode::Abort { signature } => {
                    self.asm.signature(signature);
                    self.asm.bind(entry);
                }
                ColdCode::Division(special) => {
                    self.asm.bind(entry);
                    self.special_division(special);
                }
                ColdCode::BeforePacket => {
                    self.asm.bind(entry);
                    self.before_packet(back);
                }
                ColdCode::Claim => {
                    self.asm.bind(entry);
                    self.claim_another();
                }
                ColdCode::Text { test, differs } => {
                    self.asm.bind(entry);
                    self.compare_bytes(&test, differs);
                }
                ColdCode::Declared(copy) => {
                    self.asm.bind(entry);
                    self.call_declared(&copy);
                }
                ColdCode::SharedRing(reservation, filling) => {
                    self.asm.bind(entry);
                    self.shared_ring(reservation, filling);
                }
                ColdCode::FullRing(reservation, filling) => {
                    self.asm.bind(entry);
                    self.full_ring(reservation, filling);
                }
                ColdCode::SharedLane(change) => {
                    self.asm.bind(entry);
                    self.shared_lane(change);
                }
            }
            self.asm.jump(back);
        }
        assert!(self.cold.is_empty(), "cold code put off more code");
    }

    pub(crate) fn mem(&self, at: At) -> Mem {
        match at.base {
            Base::Reg { reg, .. } => Mem::base(phys(reg), at.offset),
            Base::Indexed { base, index, scale, .. } => {
                Mem::indexed(phys(base), phys(index), scale, at.offset)
            }
            Base::Stack => Mem::base(Reg::Rsp, self.frame.lowered() + at.offset),
            Base::Context => Mem::base(Reg::Rsp, self.frame.context_offset() + at.offset),
        }
    }

    /// A register with the operand's value: its own, or `scratch`.
    pub(crate) fn in_register(&mut self, operand: Operand, scratch: Reg) -> Reg {
        match operand {
            Operand::Reg(reg) => phys(reg),
            Operand::Imm(imm) => {
                self.asm.mov_value(scratch, i64::from(imm) as u64);
                scratch
            }
            Operand::FramePointer => {
                let mem = self.mem(At { base: Base::Stack, offset: 0 });
                self.asm.op(encode::Op::Lea, Width::W64, scratch, mem);
                scratch
            }
        }
    }

    /// Whether the value that `reg` has now is read after the current operation (which may write it).
    pub(crate) fn is_live_after(&self, reg: Reg) -> bool {
        (0..REGISTERS as u8).any(|bpf| phys(bpf) == reg && self.input.live.after[self.now] >> bpf & 1 != 0)
    }

    fn constant(&mut self, dst: Reg, value: u64) {
        if value == 0 && !self.input.neutral {
            self.asm.op(encode::Op::Xor, Width::W32, dst, dst);
        } else {
            self.asm.mov_value(dst, value);
        }
    }

    fn mov(&mut self, dst: Reg, src: Reg, extend: Extend) {
        match extend {
            Extend::None => self.asm.mov(Width::W64, dst, src),
            Extend::Zero32 => self.asm.mov(Width::W32, dst, src),
            Extend::Sign { bits, wide } => {
                let op = match bits {
                    8 => encode::Op::Movsx8,
                    16 => encode::Op::Movsx16,
                    _ => encode::Op::Movsxd,
                };
                self.asm.op(op, width(wide), dst, src);
            }
        }
    }

    pub(crate) fn load(&mut self, dst: Reg, size: Size, signed: bool, mem: Mem) {
        let (op, width) = match (size, signed) {
            (Size::B, false) => (encode::Op::Movzx8, Width::W32),
            (Size::H, false) => (encode::Op::Movzx16, Width::W32),
            (Size::W, false) => (encode::Op::Load, Width::W32),
            (Size::Dw, _) => (encode::Op::Load, Width::W64),
            (Size::B, true) => (encode::Op::Movsx8, Width::W64),
            (Size::H, true) => (encode::Op::Movsx16, Width::W64),
            (Size::W, true) => (encode::Op::Movsxd, Width::W64),
        };
        self.asm.op(op, width, dst, mem);
    }

    /// May use r11.
    fn store(&mut self, size: Size, mem: Mem, src: Operand) {
        match src {
            Operand::Imm(imm) => self.asm.op_imm(encode::Op::MovImm, size_width(size), mem, imm),
            _ => {
                let src = self.in_register(src, Reg::R11);
                self.asm.op(encode::Op::Store, size_width(size), src, mem);
            }
        }
    }

    /// `rax = data + key × stride`, or 0 if the key is out of range.
    fn lookup(&mut self, map: u32, key: At, in_lane: bool) -> Result<(), JitError> {
        let stride = i32::try_from(self.input.places[map as usize].elem_stride)
            .map_err(|_| JitError::MapTooLarge { index: map })?;
        let entries = self.input.maps[map as usize].max_entries;
        let done = self.asm.label();
        let key = self.mem(key);
        self.asm.op(encode::Op::Load, Width::W32, Reg::R11, key);
        self.asm.op(encode::Op::Xor, Width::W32, Reg::Rax, Reg::Rax);
        self.asm.op_imm(encode::Op::CmpImm, Width::W32, Reg::R11, entries as i32);
        self.asm.jump_if(Cond::AboveOrEqual, done);
        self.asm.mov_symbol(Reg::Rax, Symbol::MapData(map), 0);
        let scale = match stride {
            1 | 2 | 4 | 8 => stride.trailing_zeros() as u8,
            _ if stride > 0 && stride & (stride - 1) == 0 => {
                self.asm.op_imm(encode::Op::ShlImm, Width::W64, Reg::R11, stride.trailing_zeros() as i32);
                0
            }
            _ => {
                self.asm.imul_imm(Width::W64, Reg::R11, Reg::R11, stride);
                0
            }
        };
        self.asm.op(encode::Op::Lea, Width::W64, Reg::Rax, Mem::indexed(Reg::Rax, Reg::R11, scale, 0));
        if in_lane {
            self.add_lane(Reg::Rax, map)?;
        }
        self.asm.bind(done);
        Ok(())
    }

    fn pid_tid(&mut self, fs_offset: i32) {
        self.asm.op(encode::Op::Load, Width::W32, Reg::Rax, Mem::fs(fs_offset));
        self.asm.mov_value(Reg::R11, u64::from(self.input.abi.pid) << 32);
        // The two halves do not overlap, so the sum is the union, without flags.
        self.asm.op(encode::Op::Lea, Width::W64, Reg::Rax, Mem::indexed(Reg::Rax, Reg::R11, 0, 0));
    }

    /// The lane, if there is one, is in the upper half already.
    fn rounds(&mut self) {
        let rounds = MAY_GOTO_ROUNDS_MAX as i32;
        if self.input.claims {
            self.asm.op_imm(encode::Op::OrImm, Width::W64, RUN, rounds);
        } else {
            self.asm.mov_value(RUN, rounds as u64);
        }
    }

    /// Of the whole run: what its frame says.
    fn rounds_of_run(&mut self) {
        let rounds = self.rounds_in_frame();
        if self.input.claims {
            self.asm.op(encode::Op::Load, Width::W32, Reg::R11, rounds);
            // The two halves do not overlap.
            self.asm.op(encode::Op::Lea, Width::W64, RUN, Mem::indexed(RUN, Reg::R11, 0, 0));
        } else {
            self.asm.op(encode::Op::Load, Width::W32, RUN, rounds);
        }
    }

    fn rounds_in_frame(&self) -> Mem {
        self.mem(At { base: Base::Context, offset: FRAME_ROUNDS as i32 })
    }

    /// Takes one more round, or goes to `over` where none is left.
    pub(crate) fn round_of_run(&mut self, over: Label) {
        if self.input.limits_rounds {
            self.asm.op(encode::Op::Test, Width::W32, RUN, RUN);
            self.asm.jump_if(Cond::Equal, over);
            self.asm.op(encode::Op::Lea, Width::W64, RUN, Mem::base(RUN, -1));
        }
    }

    /// The same in a function: what its caller has left is saved with the registers.
    fn rounds_of_call(&mut self) {
        if self.input.claims {
            self.asm.op_imm(encode::Op::ShrImm, Width::W64, RUN, 32);
            self.asm.op_imm(encode::Op::ShlImm, Width::W64, RUN, 32);
        }
        self.rounds();
    }

    /// The counter stays 0 once it is: every later `may_goto` jumps as well.
    fn may_goto(&mut self, target: usize) {
        self.asm.op(encode::Op::Test, Width::W32, RUN, RUN);
        let target = self.target(target);
        self.asm.jump_if(Cond::Equal, target);
        self.asm.op(encode::Op::Lea, Width::W64, RUN, Mem::base(RUN, -1));
    }

    fn branch(&mut self, test: Test, wide: bool, left: Operand, right: Operand, target: usize) {
        self.compare(test, wide, left, right);
        let target = self.target(target);
        self.asm.jump_if(condition(test), target);
    }

    /// The operations from `head` to the branch, which goes on behind itself where the original falls through.
    fn inverted(&mut self, head: usize, branch: usize) -> Result<(), JitError> {
        for index in head..=branch {
            let op = &self.input.ops[index];
            if *op == Op::Nothing {
                continue;
            }
            self.now = index;
            self.origin(index);
            match *op {
                Op::Branch { test, wide, left, right, target } => {
                    // SANITY: `inversions` takes only tests that have one.
                    let opposite = opposite(test).expect("a test without an opposite");
                    self.branch(opposite, wide, left, right, branch + 1);
                    self.asm.jump(self.target(target));
                }
                _ => self.op(op)?,
            }
        }
        Ok(())
    }

    /// Sets the flags for [`condition`]. May use r10 and r11.
    pub(crate) fn compare(&mut self, test: Test, wide: bool, left: Operand, right: Operand) {
        let width = width(wide);
        let left = self.in_register(left, Reg::R10);
        match (test, right) {
            (Test::Set, Operand::Imm(imm)) => self.asm.op_imm(encode::Op::TestImm, width, left, imm),
            (Test::Set, _) => {
                let right = self.in_register(right, Reg::R11);
                self.asm.op(encode::Op::Test, width, right, left);
            }
            (_, Operand::Imm(0))
                if self.input.passes.has(Passes::FLAGS)
                    && self.asm.has_flags_of(left, width, matches!(test, Test::Eq | Test::Ne)) => {}
            // Same flags as comparing with 0, one byte less.
            (_, Operand::Imm(0)) => self.asm.op(encode::Op::Test, width, left, left),
            (_, Operand::Imm(imm)) => self.asm.op_imm(encode::Op::CmpImm, width, left, imm),
            (_, _) => {
                let right = self.in_register(right, Reg::R11);
                self.asm.op(encode::Op::Cmp, width, right, left);
            }
        }
    }

    /// The branch behind the operation at `at`, if it asks whether r0 is 0, and nobody else asks or comes to it.
    pub(crate) fn branch_on_answer(&self, at: usize) -> Option<BranchOnAnswer> {
        let slot = blocks::next(self.input.ops, at + 1)?;
        let Op::Branch { test, left: Operand::Reg(0), right: Operand::Imm(0), target, .. } =
            self.input.ops[slot]
        else {
            return None;
        };
        let is_alone = self.is_reached_from(at, slot)
            && self.input.live.after[slot] & 1 == 0
            // An inverted loop has its branch twice.
            && !self.has_inversions;
        let is_taken_if_zero = test == Test::Eq;
        (is_alone && (is_taken_if_zero || test == Test::Ne)).then_some(BranchOnAnswer {
            slot,
            target,
            is_taken_if_zero,
        })
    }

    /// The operation that comes next will be this branch, and has been done.
    pub(crate) fn do_branch(&mut self, branch: BranchOnAnswer) -> Label {
        self.branch_done = Some(branch.slot);
        self.target(branch.target)
    }

    /// No jump leads to what stands behind `from`, up to `at`.
    pub(crate) fn is_reached_from(&self, from: usize, at: usize) -> bool {
        self.labels[from + 1..=at].iter().all(Option::is_none)
    }

    /// Where a function begins.
    pub(crate) fn entry(&self, start: usize) -> Label {
        // SANITY: `new` made a label for every callee.
        *self.callees.get(&start).expect("call without label")
    }

    fn target(&self, index: usize) -> Label {
        // SANITY: `new` made a label for the target of every jump.
        self.labels[index].expect("jump without label")
    }
}
