//! One instruction: what it needs of the state before, and the state after.

use weir_ebpf::context::Field;
use weir_ebpf::insn::{alu, atomic, jmp};

use crate::alu::{apply, byte_order};
use crate::compare::{Outcome, compare};
use crate::decode::{Op, Operand};
use crate::explore::{Next, Path, Walk};
use crate::linked::{Learned, link_register, of_same};
use crate::links::Numbers as _;
use crate::memory::{Access, Place};
use crate::packet::{describe_packet, in_packet, loaded, packet_bounds};
use crate::places::register_place;
use crate::rejection::{Refusal, refuse, unsupported};
use crate::scalar::Scalar;
use crate::state::{StackAt, State, Value};

impl Walk<'_> {
    /// Does the instruction at `path.at`.
    pub(crate) fn step(&mut self, path: &mut Path) -> Result<Next, Refusal> {
        let next = path.at + 1;
        match self.ops[path.at] {
            Op::Arithmetic { operation, off, wide, dst, src } => {
                let value = self.arithmetic(path, operation, off, wide, dst, src)?;
                let link = self.link_after(path, operation, off, wide, dst, src);
                write(path, dst, value);
                link_register(path, dst, link);
            }
            Op::ByteOrder { dst, bits, swap } => {
                let number = self.number(path, dst)?;
                write(path, dst, Value::Scalar(byte_order(number, bits, swap)));
            }
            Op::Load { dst, base, off, bytes, sign_extend } => {
                let (value, from) = self.load(path, base, off, bytes, Access::Load)?;
                let link = from.and_then(|from| self.link_of_stack(path, from, bytes, sign_extend));
                let value = match value {
                    Value::Scalar(number) if sign_extend => Value::Scalar(number.sign_extended(8 * bytes)),
                    pointer if sign_extend => {
                        return refuse(format!("{} is loaded as a signed number", self.describe(pointer)));
                    }
                    value => value,
                };
                write(path, dst, value);
                link_register(path, dst, link);
            }
            Op::PacketLoad { index, bytes } => self.packet_load(path, index, bytes)?,
            Op::LoadAcquire { dst, base, off, bytes } => {
                let (value, _) = self.load(path, base, off, bytes, Access::Acquire)?;
                write(path, dst, value);
            }
            Op::Store { base, off, bytes, value } => {
                self.store(path, base, off, bytes, value, Access::Store)?
            }
            Op::StoreRelease { base, off, bytes, src } => {
                self.store(path, base, off, bytes, Operand::Register(src), Access::Release)?
            }
            Op::Atomic { base, off, bytes, src, operation } => {
                self.atomic(path, base, off, bytes, src, operation)?
            }
            Op::Constant { dst, value } => write(path, dst, Value::Scalar(Scalar::constant(value))),
            Op::Map { dst, index } => write(path, dst, Value::Map(index)),
            Op::MapValue { dst, index, offset } => {
                let offset = Scalar::constant(offset.into());
                write(path, dst, Value::Element { map: index, offset });
            }
            Op::Function { dst, target } => write(path, dst, Value::Function(target as u32)),
            Op::Jump { target } => return Ok(Next::To(target)),
            Op::Branch { operation, wide, dst, src, target } => {
                return self.branch(path, operation, wide, dst, src, target);
            }
            Op::MayGoto { target } => return Ok(may_goto(path, target)),
            Op::Call { helper } if helper.callback().is_some() => {
                return self.call_with_callback(path, helper);
            }
            Op::Call { helper } => self.call(path, helper)?,
            Op::CallKernel { id } => self.call_kernel(path, id)?,
            Op::CallUnknown { id } => return unknown_helper(id),
            Op::CallLocal { target } => return self.call_local(path, target),
            Op::Exit => return self.leave(path),
            Op::Second => unreachable!("no jump goes there, and the first slot steps over it"),
        }
        let wide = matches!(self.ops.get(next), Some(Op::Second));
        Ok(Next::To(next + usize::from(wide)))
    }

    /// What `register` holds; it is initialised.
    pub(crate) fn value(&mut self, path: &Path, register: u8) -> Result<Value, Refusal> {
        self.read(path, path.state.depth(), register_place(register));
        match path.state.registers[usize::from(register)] {
            Value::Uninit if register <= 5 => {
                refuse(format!("r{register} is read but holds nothing here (a call clears r1 to r5)"))
            }
            Value::Uninit => refuse(format!(
                "r{register} is read but was never written, or it pointed to a record that is submitted, or into a packet that was moved"
            )),
            value => Ok(value),
        }
    }

    /// The number in `register`; pointers are none.
    pub(crate) fn number(&mut self, path: &Path, register: u8) -> Result<Scalar, Refusal> {
        match self.value(path, register)? {
            Value::Scalar(number) => Ok(number),
            pointer => refuse(format!("r{register} is {}, where a number is needed", self.describe(pointer))),
        }
    }

    fn operand(&mut self, path: &Path, operand: Operand) -> Result<Value, Refusal> {
        match operand {
            Operand::Register(register) => self.value(path, register),
            Operand::Immediate(value) => Ok(Value::Scalar(Operand::immediate(value))),
        }
    }

    fn arithmetic(
        &mut self,
        path: &Path,
        operation: u8,
        off: i16,
        wide: bool,
        dst: u8,
        src: Operand,
    ) -> Result<Value, Refusal> {
        let register = src.register();
        let src = self.operand(path, src)?;
        if operation == alu::MOV {
            return match src {
                Value::Scalar(src) => Ok(Value::Scalar(apply(operation, off, wide, Scalar::UNKNOWN, src))),
                pointer if wide && off == 0 => Ok(pointer),
                pointer => refuse(format!("only a part of {} is moved", self.describe(pointer))),
            };
        }
        match (self.value(path, dst)?, src) {
            (Value::Scalar(number), Value::Scalar(by)) => {
                if let (alu::SUB, Some(by)) = (operation, register)
                    && let Some(distance) = path.state.distance(dst, by, wide)
                {
                    self.rests_on_link(path, path.state.depth(), register_place(dst) | register_place(by));
                    return Ok(Value::Scalar(Scalar::constant(distance)));
                }
                if operation == alu::XOR && register == Some(dst) {
                    return Ok(Value::Scalar(Scalar::constant(0)));
                }
                Ok(Value::Scalar(apply(operation, off, wide, number, by)))
            }
            (pointer, Value::Scalar(by)) if wide && matches!(operation, alu::ADD | alu::SUB) => {
                self.moved(pointer, by, operation == alu::SUB)
            }
            (Value::Scalar(by), pointer) if wide && operation == alu::ADD => self.moved(pointer, by, false),
            (from, to) if operation == alu::SUB && in_packet(from) && in_packet(to) => {
                Ok(Value::Scalar(if wide { Scalar::UNKNOWN } else { Scalar::UNKNOWN.low(32) }))
            }
            (from, to) => {
                let is_difference = operation == alu::SUB;
                if let Some(difference) = is_difference.then(|| self.difference(from, to)).flatten() {
                    return Ok(Value::Scalar(difference.low(if wide { 64 } else { 32 })));
                }
                let pointer = if matches!(from, Value::Scalar(_)) { to } else { from };
                let pointer = self.describe(pointer);
                refuse(format!("arithmetic on {pointer} that is not adding or subtracting a number"))
            }
        }
    }

    /// `access`: a load, or one that acquires. With the place in a stack that was read.
    fn load(
        &mut self,
        path: &Path,
        base: u8,
        off: i16,
        bytes: u32,
        access: Access,
    ) -> Result<(Value, Option<StackAt>), Refusal> {
        let value = match self.access(path, base, off, bytes, access)? {
            Place::Stack(at) => return Ok((self.load_stack(path, at, bytes)?, Some(at))),
            Place::StackSpan(span) => self.load_span(path, span, bytes)?,
            Place::Context(off) => {
                self.context_reads |= 1 << (off / 8);
                Value::Scalar(Scalar::UNKNOWN.low(8 * bytes))
            }
            Place::Field(meaning, at, places) => {
                self.context_reads |= Field::slots(at, places);
                loaded(meaning, bytes)
            }
            Place::Object => Value::Scalar(Scalar::UNKNOWN.low(8 * bytes)),
        };
        Ok((value, None))
    }

    /// `access`: a store, or one that releases.
    fn store(
        &mut self,
        path: &mut Path,
        base: u8,
        off: i16,
        bytes: u32,
        value: Operand,
        access: Access,
    ) -> Result<(), Refusal> {
        let from = value;
        let value = self.operand(path, value)?;
        let place = self.access(path, base, off, bytes, access)?;
        match (place, value) {
            (Place::Stack(at), Value::Scalar(number)) => {
                let link = self.link_spilled(path, from, number, at, bytes);
                self.store_stack(path, at, bytes, value)?;
                if let Some((spot, link)) = link {
                    path.state.links.set(at.frame.into(), spot, link);
                }
                Ok(())
            }
            (Place::Stack(at), _) if bytes == 8 => self.store_stack(path, at, bytes, value),
            (Place::StackSpan(span), Value::Scalar(_)) => {
                self.store_span(path, span, bytes);
                Ok(())
            }
            (_, Value::Scalar(_)) => Ok(()),
            (Place::StackSpan(_), pointer) => refuse(format!(
                "{} is stored in the stack at a place that is not constant, where it would become a number",
                self.describe(pointer)
            )),
            (Place::Stack(_), pointer) => {
                refuse(format!("only a part of {} is stored", self.describe(pointer)))
            }
            (_, pointer) => {
                refuse(format!("{} is stored outside the stack, where it would leak", self.describe(pointer)))
            }
        }
    }

    fn atomic(
        &mut self,
        path: &mut Path,
        base: u8,
        off: i16,
        bytes: u32,
        src: u8,
        operation: i32,
    ) -> Result<(), Refusal> {
        self.number(path, src)?;
        if operation == atomic::CMPXCHG {
            self.number(path, 0)?;
        }
        let fetch = operation & atomic::FETCH != 0;
        let place = self.access(path, base, off, bytes, Access::Atomic { fetch })?;
        if let Place::StackSpan(span) = place {
            self.load_span(path, span, bytes)?;
            self.store_span(path, span, bytes);
        }
        if let Place::Stack(at) = place {
            match self.load_stack(path, at, bytes)? {
                Value::Scalar(_) => {}
                pointer => {
                    return refuse(format!("an atomic operation on {} in the stack", self.describe(pointer)));
                }
            }
            self.store_stack(path, at, bytes, Value::Scalar(Scalar::UNKNOWN))?;
        }
        if fetch {
            let result = if operation == atomic::CMPXCHG { 0 } else { src };
            write(path, result, Value::Scalar(Scalar::UNKNOWN.low(8 * bytes)));
        }
        Ok(())
    }

    fn branch(
        &mut self,
        path: &mut Path,
        operation: u8,
        wide: bool,
        dst: u8,
        src: Operand,
        target: usize,
    ) -> Result<Next, Refusal> {
        let (left, right) = (self.value(path, dst)?, self.operand(path, src)?);
        if let Some(same) = self.compare_same(path, operation, wide, dst, src, left) {
            let (jumps, falls) = same;
            return Ok(self.numbers_branch(path, dst, src, target, jumps, falls));
        }
        if let (false, true, Some(holds)) =
            (matches!(left, Value::Scalar(_)), src.register() == Some(dst), of_same(operation))
        {
            self.seen[path.at].goes(holds, !holds);
            return Ok(Next::To(if holds { target } else { path.at + 1 }));
        }
        let (jumps, falls) = match (left, right) {
            (Value::Scalar(left), Value::Scalar(right)) => {
                let (jumps, falls) = compare(operation, wide, left, right);
                return Ok(self.numbers_branch(path, dst, src, target, jumps, falls));
            }
            (pointer, Value::Scalar(zero)) if wide && zero.as_constant() == Some(0) => {
                let (null, not_null) = self.null_check(&path.state, pointer)?;
                match operation {
                    jmp::JEQ => (null, not_null),
                    jmp::JNE => (not_null, null),
                    _ => {
                        return refuse(format!(
                            "{} can only be compared with 0 by == and !=",
                            self.describe(pointer)
                        ));
                    }
                }
            }
            (left, right) if wide && in_packet(left) && in_packet(right) => {
                packet_bounds(&path.state, operation, left, right)
            }
            (Value::Scalar(_), pointer) | (pointer, Value::Scalar(_)) => {
                return refuse(format!("{} is compared with something else than 0", self.describe(pointer)));
            }
            (left, right) => match src {
                Operand::Register(src) if wide => {
                    self.compare_pointers(path, operation, (left, right), (dst, src))?
                }
                _ => return refuse(format!("only a part of {} is compared", self.describe(left))),
            },
        };
        self.seen[path.at].goes(jumps.is_some(), falls.is_some());
        Ok(match (jumps, falls) {
            (Some(jumps), Some(falls)) => {
                let Path { node, passes, from, entry, .. } = *path;
                let written = path.written.clone();
                let waiting = Path { at: target, state: jumps, node, written, passes, from, entry };
                path.state = falls;
                Next::Both(path.at + 1, Box::new(waiting))
            }
            (Some(jumps), None) => {
                path.state = jumps;
                Next::To(target)
            }
            (None, Some(falls)) => {
                path.state = falls;
                Next::To(path.at + 1)
            }
            // No number can be here: the path itself cannot be gone.
            (None, None) => Next::End,
        })
    }

    /// A branch on numbers: what it teaches of its operands, and of what is linked with them, is noted in the state at
    /// hand, and in a copy only where both ways are open.
    fn numbers_branch(
        &mut self,
        path: &mut Path,
        dst: u8,
        src: Operand,
        target: usize,
        jumps: Outcome,
        falls: Outcome,
    ) -> Next {
        let mut way = |outcome: Outcome| {
            let (left, right) = outcome?;
            let others = self.learned(path, [(Some(dst), left), (src.register(), right)]);
            Some(Way { dst, left, src, right, others })
        };
        let (jumps, falls) = (way(jumps), way(falls));
        self.seen[path.at].goes(jumps.is_some(), falls.is_some());
        match (jumps, falls) {
            (Some(jumps), Some(falls)) => {
                let mut waiting = Box::new(path.clone());
                waiting.at = target;
                jumps.go(&mut waiting.state);
                falls.go(&mut path.state);
                Next::Both(path.at + 1, waiting)
            }
            (Some(jumps), None) => {
                jumps.go(&mut path.state);
                Next::To(target)
            }
            (None, Some(falls)) => {
                falls.go(&mut path.state);
                Next::To(path.at + 1)
            }
            // No number can be here: the path itself cannot be gone.
            (None, None) => Next::End,
        }
    }

    /// The end of the program.
    pub(crate) fn exit(&mut self, path: &Path) -> Result<Next, Refusal> {
        if let Value::Uninit = path.state.registers[0] {
            return refuse("r0 holds nothing at the exit");
        }
        match self.value(path, 0)? {
            Value::Scalar(answer) => {
                if let Some(most) = self.kind.answer_max().filter(|most| answer.max > *most) {
                    let kind = self.kind.name();
                    return refuse(format!(
                        "r0 is {answer} at the exit; programs of kind {kind} answer 0 to {most}"
                    ));
                }
            }
            pointer => {
                return refuse(format!("r0 is {} at the exit, where it would leak", self.describe(pointer)));
            }
        }
        if !path.state.records.is_empty() {
            return refuse("a ring record is neither submitted nor discarded at the exit");
        }
        Ok(Next::End)
    }

    /// What a value is, for messages.
    pub(crate) fn describe(&self, value: Value) -> String {
        let map = |index: u32| &self.maps[index as usize].name;
        match value {
            Value::Uninit => "nothing".into(),
            Value::Scalar(number) => format!("a number ({number})"),
            Value::Stack(at) => format!("a stack pointer (r10{})", signed(at.off)),
            Value::StackSpan(span) => format!("a stack pointer {} from r10", span.offset),
            Value::Context => "the context pointer".into(),
            Value::ContextAt(offset) => format!("the context pointer moved by {offset}"),
            Value::Packet(at) => describe_packet(at),
            Value::PacketEnd => "the end of the packet".into(),
            Value::Memory { size, offset } => {
                format!("a pointer {offset} bytes into the {size} bytes of memory")
            }
            Value::Map(index) => format!("the map {}", map(index)),
            Value::InnerMap(like) => format!("a map like {}", map(like)),
            Value::InnerMapOrNull { like, .. } => format!("a map like {} or null", map(like)),
            Value::Function(slot) => format!("the function at instruction {slot}"),
            Value::Element { map: index, offset } => {
                format!("a pointer {offset} bytes into a value of {}", map(index))
            }
            Value::Key { map: index, offset } => {
                format!("a pointer {offset} bytes into a key of {}", map(index))
            }
            Value::ElementOrNull { map: index, .. } => {
                format!("a pointer to a value of {} or null", map(index))
            }
            Value::Record { size, offset, dynptr: None, .. } => {
                format!("a pointer {offset} bytes into a ring record of {size}")
            }
            Value::Record { size, offset, .. } => {
                format!("a pointer {offset} bytes into {size} bytes of a dynptr")
            }
            Value::RecordOrNull { size, dynptr: None, .. } => {
                format!("a pointer to a ring record of {size} bytes or null")
            }
            Value::RecordOrNull { size, .. } => format!("a pointer to {size} bytes of a dynptr or null"),
            Value::Dynptr { .. } => "part of a dynptr".into(),
        }
    }
}

fn unknown_helper<T>(id: weir_ebpf::HelperId) -> Result<T, Refusal> {
    if id == weir_ebpf::elf::MISSING {
        return unsupported("what stood here is not to be had");
    }
    match weir_ebpf::helper::UNSUPPORTED.iter().find(|(known, ..)| *known == id) {
        Some((_, name, reason)) => unsupported(format!("{name} ({id}): {reason}")),
        None => match weir_ebpf::helper::kernel_name(id) {
            Some(name) => unsupported(format!("weir does not have {name} ({id})")),
            None => unsupported(format!("weir has no helper number {id}")),
        },
    }
}

/// `+0x8`, `-0x8` or nothing.
pub(crate) fn signed(off: i64) -> String {
    match off {
        0 => String::new(),
        _ => format!("{}{:#x}", if off < 0 { '-' } else { '+' }, off.unsigned_abs()),
    }
}

pub(crate) fn write(path: &mut Path, register: u8, value: Value) {
    path.state.set_register(register, value);
    path.written.add(path.state.depth(), register_place(register));
}

/// What a call leaves of the registers that it does not keep.
pub(crate) fn clobber(path: &mut Path) {
    for register in 0..=5 {
        write(path, register, Value::Uninit);
    }
}

pub(crate) fn has_id(value: Value, wanted: u32) -> bool {
    match value {
        Value::ElementOrNull { id, .. } | Value::InnerMapOrNull { id, .. } | Value::Dynptr { id, .. } => {
            id == wanted
        }
        Value::Record { id, dynptr, .. } | Value::RecordOrNull { id, dynptr, .. } => {
            id == wanted || dynptr == Some(wanted)
        }
        _ => false,
    }
}

/// On behind the instruction, one round fewer; the way to `target` waits.
fn may_goto(path: &mut Path, target: usize) -> Next {
    let waiting = Path { at: target, ..path.clone() };
    path.passes += 1;
    Next::Both(path.at + 1, Box::new(waiting))
}

/// One way out of a comparison of numbers: what is known there.
struct Way {
    dst: u8,
    left: Scalar,
    src: Operand,
    right: Scalar,
    others: Vec<Learned>,
}

impl Way {
    fn go(self, state: &mut State) {
        state.registers[usize::from(self.dst)] = Value::Scalar(self.left);
        if let Operand::Register(src) = self.src {
            state.registers[usize::from(src)] = Value::Scalar(self.right);
        }
        for Learned { frame, spot, number } in self.others {
            // Two may say something of the same one.
            let known = state.linked_at(frame, spot).and_then(|known| known.intersect(number));
            state.narrow(frame, spot, known.unwrap_or(number));
        }
    }
}
