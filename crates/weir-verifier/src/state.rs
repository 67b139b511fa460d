//! What is known at one point of one path: registers, stacks, records held.
//!
//! A [`State`] stands for a set of machine states. [`covers`] says that everything in a new state is in an
//! old one as far as the old one's future looked; then the new path need not be followed.

use std::rc::Rc;

use crate::limits::POINTER_OFFSET_MAX;
use crate::links::{Links, Numbers, Spot};
use crate::places::{FramePlaces, WHOLE_FRAME, register_place, slot_of, stack_places};
use crate::scalar::Scalar;
use crate::slot::{Byte, Slot, bits_of};
pub(crate) use crate::value::{Join, PacketAt, StackAt, StackSpan, Value};
use weir_ebpf::ProgramKind;

/// A call of a helper that calls back: which one, and the rounds behind it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Rounds {
    /// A number that no other time of coming to such a call has.
    pub(crate) id: usize,
    /// Times that the path came back from the callback.
    pub(crate) passes: u32,
    /// Times that the callback has returned at least, in every run that the state stands for.
    pub(crate) done: u32,
}

/// A function that waits for the one it called.
#[derive(Clone, Debug)]
struct Caller {
    /// r1 to r9. A call keeps the last four alone; after a round the helper is as it was called.
    kept: [Value; 9],
    stack: Rc<Vec<Slot>>,
    /// The slot of the call.
    at: usize,
    /// A helper calls back.
    rounds: Option<Rounds>,
    /// Then: the records that were held before the round.
    records: Vec<u32>,
}

/// Where a function returns to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Return {
    pub(crate) to: usize,
    /// It was called back, and the helper may do so again.
    pub(crate) is_round: bool,
}

#[derive(Clone, Debug)]
pub(crate) struct State {
    pub(crate) registers: [Value; 11],
    /// Slots downwards from r10; what is beyond the end was never written. Shared until written.
    stack: Rc<Vec<Slot>>,
    /// The functions that wait, outermost first. Registers and stack above are those of the innermost frame.
    callers: Vec<Caller>,
    /// Ids of records reserved and neither submitted nor discarded, ascending.
    pub(crate) records: Vec<u32>,
    /// At the call of a helper that calls back.
    pub(crate) rounds: Option<Rounds>,
    /// What a byte of stack is that was never written: a number, if engines zero frames. The same for all states of a
    /// run.
    unwritten: Byte,
    pub(crate) links: Links,
}

impl State {
    /// As a program starts: the context, or memory and its size, in r1 and r2; the frame in r10.
    pub(crate) fn entry(kind: ProgramKind, zeroes_frames: bool) -> State {
        let mut registers = [Value::Uninit; 11];
        let number = |number: u32| Value::Scalar(Scalar::constant(number.into()));
        (registers[1], registers[2]) = match kind {
            ProgramKind::Memory { bytes: 0 } => (number(0), number(0)),
            ProgramKind::Memory { bytes } => {
                (Value::Memory { size: bytes, offset: Scalar::constant(0) }, number(bytes))
            }
            _ => (Value::Context, Value::Uninit),
        };
        registers[10] = Value::Stack(StackAt { frame: 0, off: 0 });
        let unwritten = if zeroes_frames { Byte::Unknown } else { Byte::Uninit };
        State {
            registers,
            stack: Rc::default(),
            callers: Vec::new(),
            records: Vec::new(),
            rounds: None,
            unwritten,
            links: Links::default(),
        }
    }

    /// Local calls under way: the number of the innermost frame.
    pub(crate) fn depth(&self) -> usize {
        self.callers.len()
    }

    /// The slot of the call that `frame` was entered by.
    pub(crate) fn called_from(&self, frame: usize) -> Option<usize> {
        Some(self.callers.get(frame.checked_sub(1)?)?.at)
    }

    /// A call at slot `at`: r1 to r5 are `arguments`, everything else is new.
    pub(crate) fn enter(&mut self, at: usize, arguments: [Value; 5]) {
        let [_, kept @ .., _] = self.registers;
        let stack = std::mem::take(&mut self.stack);
        let rounds = self.rounds.take();
        let records = if rounds.is_some() { self.records.clone() } else { Vec::new() };
        self.callers.push(Caller { kept, stack, at, rounds, records });
        self.registers = [Value::Uninit; 11];
        self.registers[1..6].copy_from_slice(&arguments);
        self.registers[10] = Value::Stack(StackAt { frame: self.callers.len() as u8, off: 0 });
    }

    /// The records held when the function at hand was called back. None where a plain call entered it.
    pub(crate) fn records_before_round(&self) -> Option<&[u32]> {
        let caller = self.callers.last()?;
        caller.rounds.is_some().then_some(&caller.records)
    }

    /// The end of a function: r0 stays but after a round, and the caller goes on where this says. None where nobody
    /// waits.
    pub(crate) fn leave(&mut self) -> Option<Return> {
        let ended = self.depth();
        let Caller { kept, stack, at, rounds, .. } = self.callers.pop()?;
        let result = self.links.of(ended, Spot::Register(0));
        self.links.cut(ended - 1, |spot| matches!(spot, Spot::Register(..=5)));
        if let Some(link) = result.filter(|_| rounds.is_none()) {
            self.links.set(ended - 1, Spot::Register(0), link);
        }
        self.links.cut(ended, |_| true);
        self.registers[1..10].copy_from_slice(&kept);
        self.registers[10] = Value::Stack(StackAt { frame: self.callers.len() as u8, off: 0 });
        self.stack = stack;
        self.rounds = rounds.map(|rounds| Rounds {
            passes: rounds.passes.saturating_add(1),
            done: rounds.done.saturating_add(1),
            ..rounds
        });
        let is_round = rounds.is_some();
        self.registers[if is_round { 0..1 } else { 1..6 }].fill(Value::Uninit);
        Some(Return { to: if is_round { at } else { at + 1 }, is_round })
    }

    /// The rounds of each frame, outermost first.
    pub(crate) fn rounds(&self) -> impl Iterator<Item = Option<Rounds>> + '_ {
        self.callers.iter().map(|caller| caller.rounds).chain([self.rounds])
    }

    /// There is no such record: the reservation gave null.
    pub(crate) fn forget_record(&mut self, id: u32) {
        let before = self.callers.iter_mut().map(|caller| &mut caller.records);
        for records in before.chain([&mut self.records]) {
            records.retain(|held| *held != id);
        }
    }

    fn stack_of(&self, frame: usize) -> &Rc<Vec<Slot>> {
        self.callers.get(frame).map_or(&self.stack, |caller| &caller.stack)
    }

    pub(crate) fn slot(&self, frame: usize, slot: usize) -> Slot {
        self.stack_of(frame).get(slot).copied().unwrap_or(Slot::Bytes([self.unwritten; 8]))
    }

    fn slot_mut(&mut self, frame: usize, slot: usize) -> &mut Slot {
        let unwritten = Slot::Bytes([self.unwritten; 8]);
        let stack = self.callers.get_mut(frame).map_or(&mut self.stack, |caller| &mut caller.stack);
        let stack = Rc::make_mut(stack);
        if stack.len() <= slot {
            stack.resize(slot + 1, unwritten);
        }
        &mut stack[slot]
    }

    /// Replaces every register and slot that holds a value for which `change` has another.
    pub(crate) fn replace(&mut self, change: impl Fn(Value) -> Option<Value>) {
        let kept = self.callers.iter_mut().flat_map(|caller| &mut caller.kept);
        for register in self.registers.iter_mut().chain(kept) {
            *register = change(*register).unwrap_or(*register);
        }
        for frame in 0..=self.depth() {
            for slot in 0..self.stack_of(frame).len() {
                if let Slot::Spilled(value) = self.slot(frame, slot)
                    && let Some(value) = change(value)
                {
                    *self.slot_mut(frame, slot) = Slot::Spilled(value);
                }
            }
        }
    }

    /// Writes a register of the innermost frame.
    pub(crate) fn set_register(&mut self, register: u8, value: Value) {
        self.registers[usize::from(register)] = value;
        self.links.cut(self.depth(), |spot| spot == Spot::Register(register));
    }

    /// Nothing is known any more of those of the innermost frame's registers that are among `places`.
    pub(crate) fn forget_registers(&mut self, places: FramePlaces) {
        for register in (0..10).filter(|register| places & register_place(*register) != 0) {
            self.set_register(register, Value::Uninit);
        }
    }

    /// More is known of the number there; its links stay.
    pub(crate) fn narrow(&mut self, frame: usize, spot: Spot, number: Scalar) {
        match spot {
            Spot::Register(register) => {
                let value = match self.callers.get_mut(frame) {
                    None => &mut self.registers[usize::from(register)],
                    Some(caller) => &mut caller.kept[usize::from(register) - 1],
                };
                *value = value.with(number);
            }
            Spot::Slot(slot) => *self.slot_mut(frame, slot.into()) = Slot::Spilled(Value::Scalar(number)),
            Spot::Half { slot, high } => {
                let slot = self.slot_mut(frame, slot.into());
                *slot = slot.with(4 * u32::from(high), 4, number);
            }
        }
    }

    /// What a load of `bytes` (1, 2, 4 or 8, aligned, inside the stack) gives. Err: what is wrong.
    pub(crate) fn stack_load(&self, at: StackAt, bytes: u32) -> Result<Value, &'static str> {
        self.slot(at.frame.into(), slot_of(at.off)).load(at.off.rem_euclid(8) as u32, bytes)
    }

    /// Stores `value` of `bytes` (1, 2, 4 or 8, aligned, inside the stack).
    pub(crate) fn stack_store(&mut self, at: StackAt, bytes: u32, value: Value) {
        let StackAt { frame, off } = at;
        let (frame, slot) = (usize::from(frame), slot_of(off));
        let first = off.rem_euclid(8) as u32;
        self.links.cut(frame, |spot| match spot {
            Spot::Slot(other) => usize::from(other) == slot,
            Spot::Half { slot: other, high } => {
                usize::from(other) == slot && (bytes == 8 || high == (first >= 4))
            }
            Spot::Register(_) => false,
        });
        let into = self.slot_mut(frame, slot);
        *into = match value {
            _ if bytes == 8 => Slot::Spilled(value),
            Value::Scalar(number) => into.with(first, bytes, number),
            // SANITY: the caller stores pointers as 8 bytes only; anything else is as good as unknown.
            _ => into.with(first, bytes, Scalar::UNKNOWN),
        };
    }

    /// Forgets what the `bytes` from `from` on held: they are initialised if `certain`, else as before.
    pub(crate) fn stack_overwrite(&mut self, from: StackAt, bytes: i64, certain: bool) {
        let slots = stack_places(from.off, bytes);
        self.links
            .cut(from.frame.into(), |spot| !matches!(spot, Spot::Register(_)) && spot.place() & slots != 0);
        for at in from.off..from.off + bytes {
            let slot = self.slot_mut(from.frame.into(), slot_of(at));
            let mut all = slot.bytes();
            let byte = &mut all[at.rem_euclid(8) as usize];
            if certain || *byte != Byte::Uninit {
                *byte = Byte::Unknown;
            }
            *slot = Slot::Bytes(all);
        }
    }

    /// Offset of the first of `bytes` bytes from `from` on that may not be read as a number.
    pub(crate) fn stack_unreadable(&self, from: StackAt, bytes: i64) -> Option<i64> {
        let slot = |at: i64| self.slot(from.frame.into(), slot_of(at)).bytes();
        (from.off..from.off + bytes).find(|at| slot(*at)[at.rem_euclid(8) as usize] == Byte::Uninit)
    }

    /// The same for bytes that may be part of a pointer.
    pub(crate) fn stack_unwritten(&self, from: StackAt, bytes: i64) -> Option<i64> {
        let is_unwritten = |at: i64| match self.slot(from.frame.into(), slot_of(at)) {
            Slot::Spilled(value) => matches!(value, Value::Uninit | Value::Dynptr { .. }),
            slot => slot.bytes()[at.rem_euclid(8) as usize] == Byte::Uninit,
        };
        (from.off..from.off + bytes).find(|at| is_unwritten(*at))
    }

    /// A number that is equal for states that differ in nothing but ids, and seldom for others.
    pub(crate) fn fingerprint(&self) -> u64 {
        let kept = self.callers.iter().flat_map(|caller| &caller.kept);
        let calls = self.callers.iter().map(|caller| caller.at as u64);
        let registers = self.registers.iter().chain(kept).map(|value| fingerprint(*value)).chain(calls);
        let slots = (0..=self.depth()).flat_map(|frame| self.stack_of(frame).iter()).map(|slot| match slot {
            Slot::Spilled(value) => fingerprint(*value),
            slot => slot.bytes().iter().fold(1, |sum, byte| match byte {
                Byte::Uninit => mixed(sum, 256),
                Byte::Unknown => mixed(sum, 257),
                Byte::Known(byte) => mixed(sum, (*byte).into()),
            }),
        });
        // A stack that ends in slots never written is the same as one without them.
        let byte = if self.unwritten == Byte::Uninit { 256 } else { 257 };
        let never_written = (0..8).fold(1, |sum, _| mixed(sum, byte));
        registers.chain(slots.filter(|slot| *slot != never_written)).fold(0, mixed)
    }

    /// A state that holds both, in the rounds of the other. None where the two differ in more than `how` can join.
    pub(crate) fn join(&self, other: &State, how: Join) -> Option<State> {
        let mut callers = self.callers.iter().zip(&other.callers);
        let same_records =
            self.records == other.records && callers.all(|(mine, theirs)| mine.records == theirs.records);
        if !self.same_callers(other) || !same_records {
            return None;
        }
        let mut joined = self.clone();
        joined.join_rounds(other);
        let mine = joined.callers.iter_mut().flat_map(|caller| &mut caller.kept);
        let theirs = other.callers.iter().flat_map(|caller| &caller.kept);
        let registers = joined.registers.iter_mut().zip(&other.registers);
        for (register, theirs) in registers.chain(mine.zip(theirs)) {
            *register = join_values(*register, *theirs, how)?;
        }
        for frame in 0..=self.depth() {
            for slot in 0..self.stack_of(frame).len().max(other.stack_of(frame).len()) {
                let mine = self.slot(frame, slot);
                let slot_joined = match (mine, other.slot(frame, slot)) {
                    (Slot::Spilled(mine), Slot::Spilled(theirs)) => {
                        Slot::Spilled(join_values(mine, theirs, how)?)
                    }
                    (mine, theirs) => mine.join(theirs, how),
                };
                if slot_joined != mine {
                    *joined.slot_mut(frame, slot) = slot_joined;
                }
            }
        }
        joined.links = self.links.common(other, &joined);
        Some(joined)
    }

    /// This state made wider: it also holds `old`, looking only at the `places` that were read behind that one. None
    /// where the two differ in more than ranges of numbers: constants tell paths apart, if they are among the `numbers`
    /// that matter. `how` makes one range of two.
    pub(crate) fn merge(
        &self,
        old: &State,
        places: FramePlaces,
        numbers: FramePlaces,
        how: fn(Scalar, Scalar) -> Scalar,
    ) -> Option<State> {
        // LIMIT: inside local calls paths stay apart.
        if self.depth() > 0 || old.depth() > 0 || self.records != old.records {
            return None;
        }
        let slots = self.stack.len().max(old.stack.len());
        let registers = || (0..11).filter(|at| places & register_place(*at as u8) != 0);
        let slots = || (0..slots).filter(|slot| places >> slot & 1 != 0);
        let matters = |place: FramePlaces| numbers & place != 0;
        let same = registers()
            .all(|at| can_merge(old.registers[at], self.registers[at], matters(register_place(at as u8))))
            && slots().all(|slot| match (old.slot(0, slot), self.slot(0, slot)) {
                (Slot::Spilled(old), Slot::Spilled(new)) => can_merge(old, new, matters(1 << slot)),
                (old, new) => old == new,
            });
        if !same {
            return None;
        }
        let mut merged = self.clone();
        for at in registers() {
            merged.registers[at] = merge_values(old.registers[at], self.registers[at], how);
        }
        for slot in slots() {
            let (old, new) = (old.slot(0, slot), self.slot(0, slot));
            if let (Slot::Spilled(old), Slot::Spilled(new)) = (old, new)
                && old != new
            {
                *merged.slot_mut(0, slot) = Slot::Spilled(merge_values(old, new, how));
            }
        }
        merged.links = self.links.common(old, &merged);
        Some(merged)
    }

    /// This state, at a loop's head, made wider: it also holds what `next` brings back there, but in the places
    /// `moved`, which are as they were. None where the two differ in more than values.
    pub(crate) fn round(&self, next: &State, moved: FramePlaces, numbers: FramePlaces) -> Option<State> {
        let mut callers = self.callers.iter().zip(&next.callers);
        let same_records =
            self.records == next.records && callers.all(|(mine, theirs)| mine.records == theirs.records);
        if !self.same_callers(next) || !same_records {
            return None;
        }
        let mut wider = self.clone();
        let innermost = self.depth();
        for at in (0..10u8).filter(|at| moved & register_place(*at) == 0) {
            let (register, matters) = (usize::from(at), numbers & register_place(at) != 0);
            wider.registers[register] =
                round_values(self.registers[register], next.registers[register], matters);
        }
        let mine = wider.callers.iter_mut().flat_map(|caller| &mut caller.kept);
        for (mine, theirs) in mine.zip(next.callers.iter().flat_map(|caller| &caller.kept)) {
            *mine = round_values(*mine, *theirs, true);
        }
        for frame in 0..=innermost {
            for slot in 0..self.stack_of(frame).len().max(next.stack_of(frame).len()) {
                if frame == innermost && moved >> slot & 1 != 0 {
                    continue;
                }
                let matters = frame != innermost || numbers >> slot & 1 != 0;
                let (mine, theirs) = (self.slot(frame, slot), next.slot(frame, slot));
                let both = match (mine, theirs) {
                    (Slot::Spilled(mine), Slot::Spilled(theirs)) => {
                        Slot::Spilled(round_values(mine, theirs, matters))
                    }
                    _ => mine.join(theirs, Join::Round),
                };
                if both != mine {
                    *wider.slot_mut(frame, slot) = both;
                }
            }
        }
        wider.links = self.links.common(next, &wider);
        Some(wider)
    }

    /// Puts `value` in a slot of the innermost frame.
    pub(crate) fn spill(&mut self, slot: usize, value: Value) {
        self.links.cut(self.depth(), |spot| {
            matches!(spot, Spot::Slot(other) | Spot::Half { slot: other, .. } if usize::from(other) == slot)
        });
        *self.slot_mut(self.depth(), slot) = Slot::Spilled(value);
    }

    /// The other's rounds, of which no more are done than in either.
    fn join_rounds(&mut self, other: &State) {
        let mine = self.callers.iter_mut().map(|caller| &mut caller.rounds).chain([&mut self.rounds]);
        for (mine, theirs) in mine.zip(other.rounds()) {
            if let (Some(mine), Some(theirs)) = (mine, theirs) {
                *mine = Rounds { done: mine.done.min(theirs.done), ..theirs };
            }
        }
    }

    /// No more rounds are done, in any frame.
    fn has_no_more_rounds(&self, other: &State) -> bool {
        let done = |rounds: Option<Rounds>| rounds.map(|rounds| rounds.done);
        self.rounds().zip(other.rounds()).all(|(mine, theirs)| done(mine) <= done(theirs))
    }

    fn same_callers(&self, other: &State) -> bool {
        let calls = |state: &State| state.callers.iter().map(|caller| caller.at).collect::<Vec<_>>();
        self.depth() == other.depth() && (self.depth() == 0 || calls(self) == calls(other))
    }
}

impl State {
    fn value_at(&self, frame: usize, spot: Spot) -> Option<Value> {
        match spot {
            Spot::Register(register) => match self.callers.get(frame) {
                None => Some(self.registers[usize::from(register)]),
                Some(caller) => caller.kept.get(usize::from(register).checked_sub(1)?).copied(),
            },
            Spot::Slot(slot) => self.slot(frame, slot.into()).load(0, 8).ok(),
            Spot::Half { slot, high } => self.slot(frame, slot.into()).load(4 * u32::from(high), 4).ok(),
        }
    }

    /// The number there, if it is one.
    pub(crate) fn number_at(&self, frame: usize, spot: Spot) -> Option<Scalar> {
        if let Some(Value::Scalar(number)) = self.value_at(frame, spot) { Some(number) } else { None }
    }
}

impl Numbers for State {
    fn links(&self) -> &Links {
        &self.links
    }

    fn linked_at(&self, frame: usize, spot: Spot) -> Option<Scalar> {
        match self.value_at(frame, spot)? {
            Value::Scalar(number) => Some(number),
            value => value.distance(),
        }
    }

    fn is_pointer(&self, frame: usize, spot: Spot) -> bool {
        !matches!(self.value_at(frame, spot), Some(Value::Scalar(_)))
    }
}

fn fingerprint(value: Value) -> u64 {
    let number = |kind: u64, scalar: Scalar| {
        let Scalar { min, max, smin, smax, bits, .. } = scalar;
        [min, max, smin as u64, smax as u64, bits.value, bits.mask].into_iter().fold(kind, mixed)
    };
    match value {
        Value::Uninit => 2,
        Value::Scalar(scalar) => number(3, scalar),
        Value::Stack(at) => mixed(mixed(4, at.off as u64), at.frame.into()),
        Value::StackSpan(span) => number(mixed(16, span.frame.into()), span.offset),
        Value::Context => 5,
        Value::ContextAt(offset) => number(17, offset),
        Value::Map(index) => mixed(6, index.into()),
        Value::Function(slot) => mixed(14, slot.into()),
        Value::Key { map, offset } => number(mixed(15, map.into()), offset),
        Value::InnerMap(like) => mixed(21, like.into()),
        Value::InnerMapOrNull { like, .. } => mixed(22, like.into()),
        Value::Element { map, offset } => number(mixed(7, map.into()), offset),
        Value::ElementOrNull { map, .. } => mixed(8, map.into()),
        Value::Record { size, offset, .. } => number(mixed(9, size.into()), offset),
        Value::RecordOrNull { size, .. } => mixed(10, size.into()),
        Value::Dynptr { is_second, .. } => mixed(23, is_second.into()),
        Value::Packet(PacketAt { is_meta, unknown, fixed, range, id: _ }) => {
            let known = mixed(mixed(mixed(11, is_meta.into()), fixed as u64), range.into());
            number(known, unknown)
        }
        Value::PacketEnd => 12,
        Value::Memory { size, offset } => number(mixed(13, size.into()), offset),
    }
}

/// One step of a hash: multiply and rotate, with the odd constant of the golden ratio.
fn mixed(sum: u64, next: u64) -> u64 {
    (sum.rotate_left(5) ^ next).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

fn join_values(mine: Value, theirs: Value, how: Join) -> Option<Value> {
    match (mine, theirs) {
        _ if mine == theirs => Some(mine),
        (Value::Scalar(mine), Value::Scalar(theirs)) => {
            let hull = mine.join(theirs);
            // A bound that was just looked at (`if r5 > 8 { r5 = 8 }`) is one of the two, or the end of what was below it.
            let one_holds = hull == mine || hull == theirs;
            let is_bound = |of: Scalar| of.as_constant() == Some(hull.max);
            let is_known = match how {
                Join::Hull | Join::HullOfAll => true,
                Join::Bound => one_holds || is_bound(mine) || is_bound(theirs),
                Join::Unknown => one_holds,
                Join::Round => false,
            };
            Some(Value::Scalar(if is_known { hull } else { Scalar::UNKNOWN }))
        }
        // What both know to be inside is inside.
        (Value::Packet(mine), Value::Packet(theirs))
            if mine == (PacketAt { range: mine.range, ..theirs }) =>
        {
            Some(Value::Packet(PacketAt { range: mine.range.min(theirs.range), ..mine }))
        }
        // Nothing of it may be read afterwards; where something is, the exact run decides.
        (Value::Uninit, _) | (_, Value::Uninit) => Some(Value::Uninit),
        _ if how == Join::Round => Some(Value::Uninit),
        _ if how == Join::HullOfAll => mine.distances(theirs).map(|(one, other)| mine.with(one.join(other))),
        _ => None,
    }
}

/// Constants that matter tell paths apart, from ranges too, and so does all that is no number.
fn can_merge(old: Value, new: Value, matters: bool) -> bool {
    match (old, new) {
        _ if old == new => true,
        (Value::Scalar(old), Value::Scalar(new)) => {
            !matters || old.as_constant().is_none() && new.as_constant().is_none()
        }
        // Into the same object, at a place that is no constant.
        _ => old
            .distances(new)
            .is_some_and(|(one, other)| one.as_constant().is_none() && other.as_constant().is_none()),
    }
}

/// Both are constants, and not the same.
pub(crate) fn differ_as_constants(old: Value, new: Value) -> bool {
    match (old, new) {
        (Value::Scalar(old), Value::Scalar(new)) => {
            old.min != new.min && old.min == old.max && new.min == new.max
        }
        _ => false,
    }
}

fn merge_values(old: Value, new: Value, how: fn(Scalar, Scalar) -> Scalar) -> Value {
    match (old, new) {
        (Value::Scalar(old), Value::Scalar(new)) if old != new => Value::Scalar(how(old, new)),
        _ if old == new => new,
        _ => old.distances(new).map_or(new, |(old, distance)| {
            let both = how(old, distance);
            new.with(if is_near(both) { both } else { old.join(distance) })
        }),
    }
}

/// What holds both at a loop's head, and what comes next if need be; nothing that may be read where there is no such
/// value.
fn round_values(mine: Value, next: Value, matters: bool) -> Value {
    let both = match (mine, next) {
        _ if mine == next => Some(mine),
        (Value::Scalar(_), Value::Scalar(_)) if !matters => Some(Value::Scalar(Scalar::UNKNOWN)),
        (Value::Scalar(mine), Value::Scalar(next)) => Some(Value::Scalar(mine.widen(next))),
        _ => mine
            .distances(next)
            .map(|(from, to)| from.widen(to))
            .filter(|offset| is_near(*offset))
            .map(|offset| mine.with(offset)),
    };
    both.unwrap_or(Value::Uninit)
}

/// A pointer may be so far from its object.
pub(crate) fn is_near(offset: Scalar) -> bool {
    offset.smin >= -POINTER_OFFSET_MAX && offset.smax <= POINTER_OFFSET_MAX
}

/// Everything in `new` is in `old`, looking only at the `places` of each frame, and in the innermost one only at the
/// `numbers` that matter: others may be any. `links`: places whose links with each other matter.
pub(crate) fn covers(
    old: &State,
    new: &State,
    places: impl Fn(usize) -> FramePlaces,
    numbers: FramePlaces,
    links: impl Fn(usize) -> FramePlaces,
) -> bool {
    let mut ids = Ids::default();
    if old.records.len() != new.records.len() || !old.same_callers(new) || !old.has_no_more_rounds(new) {
        return false;
    }
    let innermost = places(old.depth());
    let registers = (0..11u8).filter(|register| innermost & register_place(*register) != 0).map(usize::from);
    let mut pairs = registers.map(|at| (at, old.registers[at], new.registers[at]));
    if !pairs.all(|(at, old, new)| {
        let matters = numbers & register_place(at as u8) != 0;
        !matters && both_numbers(old, new) || covers_value(old, new, &mut ids)
    }) {
        return false;
    }
    for (frame, (old, new)) in old.callers.iter().zip(&new.callers).enumerate() {
        let kept = (1..10u8).zip(old.kept.into_iter().zip(new.kept));
        let mut pairs = kept.filter(|(register, _)| places(frame) & register_place(*register) != 0);
        if !pairs.all(|(_, (old, new))| covers_value(old, new, &mut ids)) {
            return false;
        }
    }
    let numbers_of = |frame| if frame == old.depth() { numbers } else { WHOLE_FRAME };
    (0..=old.depth()).all(|frame| covers_stack(old, new, frame, places(frame), numbers_of(frame), &mut ids))
        && (old.links.is_empty()
            || old.links.cover(new, |frame, spot| {
                // Where a pointer points always matters.
                let numbers = if old.is_pointer(frame, spot) { WHOLE_FRAME } else { numbers_of(frame) };
                links(frame) & places(frame) & numbers
            }))
        && old.callers.iter().zip(&new.callers).all(|pair| covers_records(old, new, pair, &ids))
}

/// Everything in `new` is in `old`, wherever it is and whatever it is for.
pub(crate) fn covers_wholly(old: &State, new: &State) -> bool {
    covers(old, new, |_| WHOLE_FRAME, WHOLE_FRAME, |_| WHOLE_FRAME)
}

/// What a round began with is held as far as in the old state, and each record known to both was there in both or in
/// neither: a round must leave the records that it found.
fn covers_records(old: &State, new: &State, callers: (&Caller, &Caller), ids: &Ids) -> bool {
    let (old_before, new_before) = (&callers.0.records, &callers.1.records);
    let kept = |state: &State, before: &[u32]| state.records.iter().filter(|id| before.contains(id)).count();
    old_before.len() == new_before.len()
        && kept(old, old_before) == kept(new, new_before)
        && ids.0.iter().all(|(old, new)| old_before.contains(old) == new_before.contains(new))
}

fn both_numbers(old: Value, new: Value) -> bool {
    matches!((old, new), (Value::Scalar(_), Value::Scalar(_)))
}

fn covers_stack(
    old: &State,
    new: &State,
    frame: usize,
    places: FramePlaces,
    numbers: FramePlaces,
    ids: &mut Ids,
) -> bool {
    let deepest = old.stack_of(frame).len().max(new.stack_of(frame).len());
    // LIMIT: a frame has 64 slots, the low half of its places.
    let mut slots = places as u64;
    while slots != 0 {
        let slot = slots.trailing_zeros() as usize;
        if slot >= deepest {
            break;
        }
        slots &= slots - 1;
        let (old, new) = (old.slot(frame, slot), new.slot(frame, slot));
        if !(numbers >> slot & 1 == 0 && covers_bytes(old, new) || covers_slot(old, new, ids)) {
            return false;
        }
    }
    true
}

/// What may be read as numbers in `old` may be in `new`.
fn covers_bytes(old: Slot, new: Slot) -> bool {
    let is_pointer = |slot: Slot| matches!(slot, Slot::Spilled(value) if !matches!(value, Value::Scalar(_)));
    if is_pointer(old) || is_pointer(new) {
        return false;
    }
    let readable = |byte: Byte| byte != Byte::Uninit;
    old.bytes().into_iter().zip(new.bytes()).all(|(old, new)| !readable(old) || readable(new))
}

fn covers_value(old: Value, new: Value, ids: &mut Ids) -> bool {
    match (old, new) {
        (Value::Uninit, _) => true,
        (Value::Scalar(old), Value::Scalar(new)) => old.contains(new),
        (Value::StackSpan(old), new) => {
            StackSpan::of(new).is_some_and(|new| old.frame == new.frame && old.offset.contains(new.offset))
        }
        (Value::ContextAt(old), Value::ContextAt(new)) => old.contains(new),
        (Value::Key { map, offset }, Value::Key { map: new_map, offset: new_offset }) => {
            map == new_map && offset.contains(new_offset)
        }
        (Value::Element { map, offset }, Value::Element { map: new_map, offset: new_offset }) => {
            map == new_map && offset.contains(new_offset)
        }
        (Value::InnerMapOrNull { like, id }, Value::InnerMapOrNull { like: new_like, id: new_id }) => {
            like == new_like && ids.pair(id, new_id)
        }
        (Value::ElementOrNull { map, id }, Value::ElementOrNull { map: new_map, id: new_id }) => {
            map == new_map && ids.pair(id, new_id)
        }
        (
            Value::Record { size, offset, id, dynptr },
            Value::Record { size: new_size, offset: new_offset, id: new_id, dynptr: new_dynptr },
        ) => {
            size == new_size
                && offset.contains(new_offset)
                && ids.pair(id, new_id)
                && ids.pair_of(dynptr, new_dynptr)
        }
        (
            Value::RecordOrNull { size, id, dynptr },
            Value::RecordOrNull { size: new_size, id: new_id, dynptr: new_dynptr },
        ) => size == new_size && ids.pair(id, new_id) && ids.pair_of(dynptr, new_dynptr),
        (Value::Dynptr { id, is_second }, Value::Dynptr { id: new_id, is_second: new_second }) => {
            is_second == new_second && ids.pair(id, new_id)
        }
        (Value::Packet(old), Value::Packet(new)) => {
            let same_unknown =
                if old.id == 0 || new.id == 0 { old.id == new.id } else { ids.pair(old.id, new.id) };
            (old.is_meta, old.fixed) == (new.is_meta, new.fixed)
                && old.range <= new.range
                && old.unknown.contains(new.unknown)
                && same_unknown
        }
        (Value::Memory { size, offset }, Value::Memory { size: new_size, offset: new_offset }) => {
            size == new_size && offset.contains(new_offset)
        }
        (
            Value::Stack(_)
            | Value::Context
            | Value::PacketEnd
            | Value::Map(_)
            | Value::InnerMap(_)
            | Value::Function(_),
            _,
        ) => old == new,
        _ => false,
    }
}

fn covers_slot(old: Slot, new: Slot, ids: &mut Ids) -> bool {
    match (old, new) {
        (Slot::Spilled(old), Slot::Spilled(new)) => covers_value(old, new, ids),
        (Slot::Spilled(Value::Scalar(old)), new) => {
            bits_of(&new.bytes()).is_some_and(|bits| old.contains(Scalar::from_bits(bits)))
        }
        (Slot::Spilled(Value::Uninit), _) => true,
        (Slot::Spilled(_), _) => false,
        _ => old.covers_bytes_of(new),
    }
}

/// Which id of the old state is which of the new: one to one.
#[derive(Default)]
struct Ids(Vec<(u32, u32)>);

impl Ids {
    /// Both have one, the same, or neither has.
    fn pair_of(&mut self, old: Option<u32>, new: Option<u32>) -> bool {
        match (old, new) {
            (Some(old), Some(new)) => self.pair(old, new),
            (old, new) => old == new,
        }
    }

    fn pair(&mut self, old: u32, new: u32) -> bool {
        match self.0.iter().find(|pair| pair.0 == old || pair.1 == new) {
            Some(pair) => *pair == (old, new),
            None => {
                self.0.push((old, new));
                true
            }
        }
    }
}
