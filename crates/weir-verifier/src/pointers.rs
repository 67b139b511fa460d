//! Pointers as numbers: what they may be moved by, and what comparing and subtracting them says.
//!
//! No address shows in what a program does. So pointers are compared with null; for equality, one into the own stack
//! with one elsewhere, which it is not; and two into the same object, whose distance from each other says nothing of
//! where it is: of these the difference is a number too. (Two look-ups in one map may have found one element or two:
//! nothing is known then of the difference, which depends on the map's layout alone.)
//!
//! Deliberately not here: comparing by order pointers that may be outside their object, for which the sum of address
//! and distance might wrap; comparing pointers with numbers but 0, as Linux lets root's programs.

use weir_ebpf::insn::jmp;
use weir_ebpf::pt_regs;

use crate::alu::{add, sub};
use crate::compare::compare;
use crate::explore::{Path, Walk};
use crate::limits::{POINTER_OFFSET_MAX, STACK_BYTES};
use crate::rejection::{Refusal, refuse};
use crate::scalar::Scalar;
use crate::state::{PacketAt, StackAt, StackSpan, State, Value};
use crate::step::has_id;

/// The states where a comparison holds and where it does not.
pub(crate) type Ways = (Option<State>, Option<State>);

/// An object that pointers point into.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Object {
    Stack {
        frame: u8,
    },
    Context,
    Memory,
    Record {
        id: u32,
    },
    /// Some value of this map.
    Element {
        map: u32,
    },
    /// Some key of this map.
    Key {
        map: u32,
    },
}

impl Object {
    /// Two pointers into it are into the same one.
    fn is_one(self) -> bool {
        !matches!(self, Object::Element { .. } | Object::Key { .. })
    }
}

/// Where a pointer points.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Where {
    object: Object,
    offset: Scalar,
    /// The object's bytes, as offsets.
    from: i64,
    to: i64,
}

impl Where {
    /// At a byte of the object, or right behind the last.
    pub(crate) fn is_within(self) -> bool {
        self.offset.smin >= self.from && self.offset.smax <= self.to
    }

    /// At a byte of the object.
    fn is_inside(self) -> bool {
        self.offset.smin >= self.from && self.offset.smax < self.to
    }
}

impl Walk<'_> {
    /// `pointer` plus or minus `by`. How far it may go is checked where it is used; here only that it is near.
    pub(crate) fn moved(&mut self, pointer: Value, by: Scalar, back: bool) -> Result<Value, Refusal> {
        let shift = |offset: Scalar| {
            let far = |set: Scalar| set.smin < -POINTER_OFFSET_MAX || set.smax > POINTER_OFFSET_MAX;
            let sum = if back { sub(offset, by) } else { add(offset, by) };
            if far(by) || far(sum) {
                let direction = if back { "back" } else { "on" };
                return refuse(format!(
                    "{} is moved {direction} by {by}; its distance must be known to be within {POINTER_OFFSET_MAX:#x}",
                    self.describe(pointer)
                ));
            }
            Ok(sum)
        };
        match pointer {
            Value::Stack(at) => Ok(stack_at(at.frame, shift(Scalar::constant(at.off as u64))?)),
            Value::StackSpan(span) => Ok(stack_at(span.frame, shift(span.offset)?)),
            Value::Context => Ok(context_at(shift(Scalar::constant(0))?)),
            Value::ContextAt(offset) => Ok(context_at(shift(offset)?)),
            Value::Packet(at) if by.as_constant().is_some() => {
                let fixed = shift(Scalar::constant(at.fixed as u64))?.smin;
                Ok(Value::Packet(PacketAt { fixed, ..at }))
            }
            Value::Packet(at) => {
                let unknown = shift(at.unknown)?;
                Ok(Value::Packet(PacketAt { id: self.new_id(), unknown, range: 0, ..at }))
            }
            Value::Memory { size, offset } => Ok(Value::Memory { size, offset: shift(offset)? }),
            Value::Element { map, offset } => Ok(Value::Element { map, offset: shift(offset)? }),
            Value::Key { map, offset } => Ok(Value::Key { map, offset: shift(offset)? }),
            Value::Record { size, offset, id, dynptr } => {
                Ok(Value::Record { size, offset: shift(offset)?, id, dynptr })
            }
            Value::ElementOrNull { .. } | Value::RecordOrNull { .. } | Value::InnerMapOrNull { .. } => {
                refuse(format!("{} must be compared with 0 before arithmetic", self.describe(pointer)))
            }
            _ => refuse(format!("arithmetic on {}", self.describe(pointer))),
        }
    }

    /// The states where `pointer` is null and where it is not.
    pub(crate) fn null_check(
        &self,
        state: &State,
        pointer: Value,
    ) -> Result<(Option<State>, Option<State>), Refusal> {
        let split = |id: u32, not_null: Value| {
            let with = |value: Value| {
                let mut state = state.clone();
                state.replace(|old| has_id(old, id).then_some(value));
                state
            };
            let mut null = with(Value::Scalar(Scalar::constant(0)));
            null.forget_record(id);
            Ok((Some(null), Some(with(not_null))))
        };
        let start = Scalar::constant(0);
        match pointer {
            Value::ElementOrNull { map, id } => split(id, Value::Element { map, offset: start }),
            Value::InnerMapOrNull { like, id } => split(id, Value::InnerMap(like)),
            Value::RecordOrNull { size, id, dynptr } => {
                split(id, Value::Record { size, offset: start, id, dynptr })
            }
            Value::Stack(_) | Value::Context | Value::Map(_) | Value::InnerMap(_) | Value::Function(_) => {
                Ok((None, Some(state.clone())))
            }
            _ if self.place_of(pointer).is_some_and(Where::is_within) => Ok((None, Some(state.clone()))),
            _ => {
                refuse(format!("{} may be outside its object and cannot be compared", self.describe(pointer)))
            }
        }
    }

    /// `from - to`, in bytes; None where that would say something of addresses.
    pub(crate) fn difference(&self, from: Value, to: Value) -> Option<Scalar> {
        let (from, to) = (self.place_of(from)?, self.place_of(to)?);
        if from.object != to.object {
            return None;
        }
        Some(if from.object.is_one() { sub(from.offset, to.offset) } else { Scalar::UNKNOWN })
    }

    /// `left OP right`, both pointers, in `dst` and, if it is one, in the register `src`.
    pub(crate) fn compare_pointers(
        &mut self,
        path: &Path,
        operation: u8,
        (left, right): (Value, Value),
        registers: (u8, u8),
    ) -> Result<Ways, Refusal> {
        let both = || (Some(path.state.clone()), Some(path.state.clone()));
        let is_equality = matches!(operation, jmp::JEQ | jmp::JNE);
        if is_equality && (self.is_elsewhere(path, left, right) || self.is_elsewhere(path, right, left)) {
            let same = Some(path.state.clone());
            return Ok(if operation == jmp::JEQ { (None, same) } else { (same, None) });
        }
        if let (Some(at), Some(to)) = (self.place_of(left), self.place_of(right))
            && at.object == to.object
        {
            let is_within = at.is_within() && to.is_within();
            let of_offsets = match operation {
                jmp::JEQ | jmp::JNE if at.object.is_one() || is_within => Some(operation),
                _ if is_within => by_distance(operation),
                _ => None,
            };
            match of_offsets {
                Some(_) if !at.object.is_one() => return Ok(both()),
                Some(operation) => {
                    let (holds, fails) = compare(operation, true, at.offset, to.offset);
                    let with = |(left_offset, right_offset)| {
                        let mut state = path.state.clone();
                        state.registers[usize::from(registers.0)] = at_offset(left, left_offset);
                        state.registers[usize::from(registers.1)] = at_offset(right, right_offset);
                        state
                    };
                    return Ok((holds.map(with), fails.map(with)));
                }
                None => {}
            }
        }
        refuse(format!(
            "{} is compared with {}: that would tell addresses",
            self.describe(left),
            self.describe(right)
        ))
    }

    /// `own` is a byte of a stack, and `other` is not, whatever is known of it.
    fn is_elsewhere(&mut self, path: &Path, own: Value, other: Value) -> bool {
        let Some(own) = self.place_of(own).filter(|own| own.is_inside()) else { return false };
        let Object::Stack { frame } = own.object else { return false };
        let is_elsewhere = match other {
            Value::ElementOrNull { .. } | Value::RecordOrNull { .. } => true,
            _ => self
                .place_of(other)
                .is_some_and(|other| other.is_inside() && !matches!(other.object, Object::Stack { .. })),
        };
        if is_elsewhere {
            // So that it is in the frame indeed.
            self.touch_stack(path, frame.into(), own.offset.smin);
        }
        is_elsewhere
    }

    /// Where `value` points, if it is a pointer into an object of known size.
    fn place_of(&self, value: Value) -> Option<Where> {
        let bytes = |object, offset, bytes: u32| Where { object, offset, from: 0, to: bytes.into() };
        Some(match value {
            Value::Stack(_) | Value::StackSpan(_) => {
                let StackSpan { frame, offset } = StackSpan::of(value)?;
                Where { object: Object::Stack { frame }, offset, from: -STACK_BYTES, to: 0 }
            }
            Value::Context if self.kind.is_probe() => {
                bytes(Object::Context, Scalar::constant(0), pt_regs::BYTES)
            }
            Value::ContextAt(offset) if self.kind.is_probe() => {
                bytes(Object::Context, offset, pt_regs::BYTES)
            }
            Value::Memory { size, offset } => bytes(Object::Memory, offset, size),
            Value::Record { size, offset, id, .. } => bytes(Object::Record { id }, offset, size),
            Value::Element { map, offset } => {
                bytes(Object::Element { map }, offset, self.maps[map as usize].value_bytes)
            }
            Value::Key { map, offset } => {
                bytes(Object::Key { map }, offset, self.maps[map as usize].key_bytes)
            }
            _ => return None,
        })
    }
}

/// The comparison of distances from the start of an object that says what one of addresses in it does.
fn by_distance(operation: u8) -> Option<u8> {
    match operation {
        jmp::JGT => Some(jmp::JSGT),
        jmp::JGE => Some(jmp::JSGE),
        jmp::JLT => Some(jmp::JSLT),
        jmp::JLE => Some(jmp::JSLE),
        _ => None,
    }
}

/// `pointer`, at this offset instead.
fn at_offset(pointer: Value, offset: Scalar) -> Value {
    match pointer {
        Value::Stack(_) => pointer,
        Value::StackSpan(StackSpan { frame, .. }) => stack_at(frame, offset),
        Value::ContextAt(_) => context_at(offset),
        Value::Memory { size, .. } => Value::Memory { size, offset },
        Value::Record { size, id, dynptr, .. } => Value::Record { size, offset, id, dynptr },
        other => other,
    }
}

fn stack_at(frame: u8, offset: Scalar) -> Value {
    match offset.as_constant() {
        Some(off) => Value::Stack(StackAt { frame, off: off as i64 }),
        None => Value::StackSpan(StackSpan { frame, offset }),
    }
}

fn context_at(offset: Scalar) -> Value {
    if offset.as_constant() == Some(0) { Value::Context } else { Value::ContextAt(offset) }
}
