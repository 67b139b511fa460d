//! What a round of a loop does to the loop's places.
//!
//! In: the instructions of one loop (`loops`). Out: for each place what it holds when the head is reached again, by
//! what the places held at the head before ([`Change`]), on every way through the loop, whether or not a run can take
//! it; and the branches that every round passes and that end the loop by comparing what moves with what stays
//! ([`Test`]): `ends` counts rounds by them.
//!
//! Places are registers, and the slots of the frame nearest to r10 as far as they are read and written whole. A
//! place's relation is kept through moves, additions of constants and spills, and where one place is added to another;
//! anything else makes it unknown.
//!
//! Deliberately not here: steps that are neither constants nor what another place holds in all rounds (`p = next`), and
//! bounds that move themselves.

use std::collections::{BTreeMap, BTreeSet};

use weir_ebpf::insn::{alu, atomic};

use crate::decode::{Op, Operand};
use crate::ends::{AtEntry, Bound, Test, mirrored, negated};
use crate::loops::{Body, Flow};
use crate::numbers::Numbers;
use crate::places::{FramePlaces, register_place, register_places, slot_of};
use crate::scalar::Scalar;

const REGISTERS: usize = 11;
/// Slots whose changes are known: those nearest to r10.
const SLOTS: usize = 21;
pub(crate) const PLACES: usize = REGISTERS + SLOTS;

/// What a place holds, by what places held at the loop's head.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Change {
    Unknown,
    Constant(i64),
    /// What place `of` held, and between `low` and `high` more. `narrow`: only the low 32 bits of the sum.
    Moved {
        of: u8,
        low: i32,
        high: i32,
        narrow: bool,
    },
    /// The low 32 bits of such a sum, 32 bits higher: half of how programs without 32-bit registers cut a number.
    Raised {
        of: u8,
        low: i32,
        high: i32,
    },
    /// No more than what place `of` held, shifted right by so many bits.
    AtMost {
        of: u8,
        shifted: u8,
    },
    /// What two places held together; `narrow`: only the low 32 bits of it.
    Sum {
        of: [u8; 2],
        narrow: bool,
    },
    /// The same, where a whole round does so to `of` and leaves `by` as it is.
    Stepped {
        of: u8,
        by: u8,
        narrow: bool,
    },
    /// The bits of such a sum that `kept` has.
    PartOfSum {
        of: [u8; 2],
        narrow: bool,
        kept: Bound,
    },
}

/// What a place held, as it was.
fn still(of: u8) -> Change {
    Change::Moved { of, low: 0, high: 0, narrow: false }
}

impl Change {
    /// Holds on either way.
    fn join(self, other: Change) -> Change {
        match (self, other) {
            _ if self == other => self,
            (
                Change::Moved { of, low, high, narrow },
                Change::Moved { of: of2, low: low2, high: high2, narrow: narrow2 },
            ) if (of, narrow) == (of2, narrow2) => {
                Change::Moved { of, low: low.min(low2), high: high.max(high2), narrow }
            }
            _ => match (self.at_most(), other.at_most()) {
                (Some((of, shifted)), Some((of2, shifted2))) if of == of2 => {
                    Change::AtMost { of, shifted: shifted.min(shifted2) }
                }
                _ => Change::Unknown,
            },
        }
    }

    /// The change of `place` where the loop is entered with such places: what it is moved by is known there.
    pub(crate) fn at_entry(self, place: u8, places: &impl AtEntry) -> Change {
        let Change::Stepped { of, by, narrow } = self else { return self };
        let near =
            |number: &Scalar| number.smin > -i64::from(DISTANCE_MAX) && number.smax < i64::from(DISTANCE_MAX);
        let is_counter = of == place || places.hold_same(of, place);
        match is_counter.then(|| places.number(by)).flatten().filter(near) {
            Some(step) => Change::Moved { of: place, low: step.smin as i32, high: step.smax as i32, narrow },
            None => Change::Unknown,
        }
    }

    /// The place that this is no more than, shifted right by so many bits.
    fn at_most(self) -> Option<(u8, u8)> {
        match self {
            Change::AtMost { of, shifted } => Some((of, shifted)),
            Change::Moved { of, low: 0, high: 0, .. } => Some((of, 0)),
            _ => None,
        }
    }

    /// Shifted right, of 64 or of 32 bits.
    fn shifted(self, by: i64, wide: bool) -> Change {
        if let (Change::Raised { of, low, high }, 32, true) = (self, by, wide) {
            return Change::Moved { of, low, high, narrow: true };
        }
        match (self.at_most(), u8::try_from(by)) {
            (Some((of, shifted)), Ok(by)) if by < 32 => {
                Change::AtMost { of, shifted: (shifted + by).min(SHIFTED_MAX) }
            }
            _ => Change::Unknown,
        }
    }

    fn plus(self, by: i64, wide: bool) -> Change {
        match (self, by) {
            (Change::AtMost { .. }, 0) => return self,
            (Change::Sum { of, narrow }, 0) => return Change::Sum { of, narrow: narrow || !wide },
            _ => {}
        }
        let Change::Moved { of, low, high, narrow } = self else { return Change::Unknown };
        let moved = |from: i32| {
            i32::try_from(i64::from(from).checked_add(by)?)
                .ok()
                .filter(|sum| sum.unsigned_abs() < DISTANCE_MAX)
        };
        match (moved(low), moved(high)) {
            // A sum of 64 bits may be more than the low 32 bits that were kept.
            (Some(low), Some(high)) if !(wide && narrow) => Change::Moved { of, low, high, narrow: !wide },
            _ => Change::Unknown,
        }
    }
}

/// What two places' numbers are together.
fn sum(one: Change, other: Change, wide: bool) -> Change {
    match (one, other) {
        (
            Change::Moved { of, low: 0, high: 0, narrow },
            Change::Moved { of: with, low: 0, high: 0, narrow: other_narrow },
        ) if of != with && !(wide && (narrow || other_narrow)) => {
            Change::Sum { of: [of.min(with), of.max(with)], narrow: !wide }
        }
        _ => Change::Unknown,
    }
}

/// What is left of a number where the bits of another are kept.
fn masked(number: Change, bits: Change, wide: bool) -> Change {
    let Change::Sum { of, narrow } = number else { return Change::Unknown };
    let narrow = narrow || !wide;
    match bits {
        Change::Constant(bits) => Change::PartOfSum { of, narrow, kept: Bound::Constant(bits) },
        Change::Moved { of: place, low: 0, high: 0, narrow: false } => {
            Change::PartOfSum { of, narrow, kept: Bound::Place(place) }
        }
        _ => Change::Unknown,
    }
}

/// Furthest that a round may move a place.
const DISTANCE_MAX: u32 = 1 << 29;
/// Bits of a number that a shift by as many leaves nothing of.
const SHIFTED_MAX: u8 = 64;

/// The place as `places` has it.
pub(crate) fn frame_place(place: u8) -> FramePlaces {
    match usize::from(place) {
        register if register < REGISTERS => register_place(place),
        slot => 1 << (slot - REGISTERS),
    }
}

/// The slot that a place is; none for a register.
pub(crate) fn slot_of_place(place: u8) -> Option<usize> {
    usize::from(place).checked_sub(REGISTERS)
}

/// What a round of the loop does to each place, and the tests that each round passes. None if that takes too long to
/// find.
pub(crate) fn of_loop(
    flow: &Flow<'_>,
    numbers: &Numbers,
    head: usize,
    body: &Body,
) -> Option<(Vec<Change>, Vec<Test>)> {
    let mut round =
        Round { flow, numbers, head, body, before: BTreeMap::new(), compared: BTreeMap::new(), back: None };
    round.run();
    let back = steps(round.back?);
    let tests = round.compared.iter().filter_map(|(at, operands)| round.test(*at, *operands, &back));
    let tests: Vec<(usize, Test)> = tests.take(TESTS_MAX).collect();
    let passed = tests.into_iter().filter(|(at, _)| round.is_passed(*at)).map(|(_, test)| test).collect();
    Some((back.to_vec(), passed))
}

/// Sums that a round makes of what counts and of what it leaves as it is, as steps of the first; others are unknown.
fn steps(back: Changes) -> Changes {
    let of_sum = |sum: Change| {
        let Change::Sum { of: [one, other], narrow } = sum else { return sum };
        let counts = |of: u8, by: u8| back[usize::from(of)] == sum && back[usize::from(by)] == still(by);
        let stepped = [(one, other), (other, one)].into_iter().find(|(of, by)| counts(*of, *by));
        stepped.map_or(Change::Unknown, |(of, by)| Change::Stepped { of, by, narrow })
    };
    back.map(of_sum)
}

/// Tests of a loop that are looked at.
const TESTS_MAX: usize = 8;
/// Times that more is learned of the ways to an instruction, before what differs again is unknown.
const JOINS_MAX: u32 = 3;

type Changes = [Change; PLACES];

/// Goes through one loop.
struct Round<'a> {
    flow: &'a Flow<'a>,
    numbers: &'a Numbers,
    head: usize,
    body: &'a Body,
    /// By jump target in the loop: what holds there, and how often that became more.
    before: BTreeMap<usize, (Changes, u32)>,
    /// By branch out of the loop: its operands.
    compared: BTreeMap<usize, (Change, Change)>,
    /// At the head, once more.
    back: Option<Changes>,
}

impl Round<'_> {
    fn run(&mut self) {
        self.before.insert(self.head, (std::array::from_fn(|of| still(of as u8)), 0));
        let mut work = BTreeSet::from([self.head]);
        while let Some(from) = work.pop_first() {
            let (mut at, mut now) = (from, self.before[&from].0);
            loop {
                if let Op::Branch { dst, src, .. } = self.flow.ops[at] {
                    self.compared.insert(at, (now[usize::from(dst)], operand(&now, src)));
                }
                self.step(at, &mut now);
                let mut on = None;
                for next in self.flow.after(at).into_iter().flatten() {
                    if next == self.head {
                        self.back = Some(self.back.map_or(now, |back| joined(&back, &now)));
                    } else if self.body.contains(next) && !self.flow.is_target[next] {
                        on = Some(next);
                    } else if self.body.contains(next) && self.flows(next, &now) {
                        work.insert(next);
                    }
                }
                let Some(next) = on else { break };
                at = next;
            }
        }
    }

    /// `now` holds before `to` on some way; whether that was news.
    fn flows(&mut self, to: usize, now: &Changes) -> bool {
        let Some((known, joins)) = self.before.get_mut(&to) else {
            self.before.insert(to, (*now, 0));
            return true;
        };
        let mut both = joined(known, now);
        if both == *known {
            return false;
        }
        *joins += 1;
        if *joins > JOINS_MAX {
            let grown = both.iter_mut().zip(&*known).filter(|(both, known)| both != known);
            grown.for_each(|(both, _)| *both = Change::Unknown);
        }
        *known = both;
        true
    }

    fn step(&self, at: usize, now: &mut Changes) {
        let forget_slots = |now: &mut Changes| now[REGISTERS..].fill(Change::Unknown);
        match self.flow.ops[at] {
            Op::Arithmetic { operation, off, wide, dst, src } => {
                now[usize::from(dst)] = arithmetic(now, operation, off, wide, dst, src);
            }
            Op::Constant { dst, value } => now[usize::from(dst)] = Change::Constant(value as i64),
            Op::ByteOrder { dst, .. }
            | Op::LoadAcquire { dst, .. }
            | Op::Map { dst, .. }
            | Op::MapValue { dst, .. }
            | Op::Function { dst, .. } => now[usize::from(dst)] = Change::Unknown,
            Op::Load { dst, base, off, bytes, .. } => {
                let slot = whole_slot(base, off, bytes);
                now[usize::from(dst)] = slot.map_or(Change::Unknown, |slot| now[slot]);
            }
            Op::Store { base: 10, off, bytes, value } => {
                let value = operand(now, value);
                self.store(off, bytes, value, now);
            }
            Op::StoreRelease { base: 10, off, bytes, .. } => self.store(off, bytes, Change::Unknown, now),
            Op::Atomic { base, src, operation, off, bytes } => {
                if base == 10 {
                    self.store(off, bytes, Change::Unknown, now);
                } else if self.numbers.may_point_to_stack(at, register_place(base)) {
                    forget_slots(now);
                }
                if operation & atomic::FETCH != 0 {
                    now[usize::from(src)] = Change::Unknown;
                    // A comparing exchange answers there.
                    now[0] = Change::Unknown;
                }
            }
            Op::Store { base, .. } | Op::StoreRelease { base, .. } => {
                if self.numbers.may_point_to_stack(at, register_place(base)) {
                    forget_slots(now);
                }
            }
            Op::Call { .. } | Op::CallKernel { .. } | Op::CallLocal { .. } | Op::PacketLoad { .. } => {
                if self.numbers.may_point_to_stack(at, register_places(1, 5)) {
                    forget_slots(now);
                }
                now[..6].fill(Change::Unknown);
            }
            Op::Jump { .. }
            | Op::Branch { .. }
            | Op::MayGoto { .. }
            | Op::CallUnknown { .. }
            | Op::Exit
            | Op::Second => {}
        }
    }

    /// A store through r10.
    fn store(&self, off: i16, bytes: u32, value: Change, now: &mut Changes) {
        if let Some(slot) = whole_slot(10, off, bytes) {
            now[slot] = value;
        } else if off < 0 {
            let (first, last) = (slot_of(off.into()), slot_of(i64::from(off) + i64::from(bytes) - 1));
            for slot in last..=first {
                if let Some(slot) = now.get_mut(REGISTERS + slot) {
                    *slot = Change::Unknown;
                }
            }
        }
    }

    /// The branch at `at` as a test. Its numbers must be among those that matter: paths that differ in them are apart.
    fn test(&self, at: usize, (left, right): (Change, Change), back: &Changes) -> Option<(usize, Test)> {
        let Op::Branch { operation, wide, target, .. } = self.flow.ops[at] else { return None };
        let [next, _] = self.flow.after(at);
        let stays = |at: usize| at == self.head || self.body.contains(at);
        let operation = match (stays(target), stays(next?)) {
            (true, false) => operation,
            (false, true) => negated(operation)?,
            _ => return None,
        };
        let is_still = |of: u8| back[usize::from(of)] == still(of);
        let bound = |held: Change| match held {
            Change::Constant(value) => Some(Bound::Constant(value)),
            Change::Moved { of, low: 0, high: 0, narrow: false } if is_still(of) => Some(Bound::Place(of)),
            _ => None,
        };
        let counted = |of: u8, first: (i32, i32), narrow: bool| Test {
            of,
            with: None,
            kept: None,
            same: None,
            first,
            narrow,
            wide,
            stay: operation,
            bound: Bound::Constant(0),
        };
        let of_sum = |[one, other]: [u8; 2], narrow: bool, kept: Option<Bound>| {
            // What is kept of the sum is the same in all rounds.
            if matches!(kept, Some(Bound::Place(place)) if !is_still(place)) {
                return None;
            }
            [(one, other), (other, one)].into_iter().find_map(|(of, with)| {
                let Change::Stepped { of: counter, by, .. } = back[usize::from(of)] else { return None };
                let same = (counter != of).then_some(of);
                (by == with).then(|| Test {
                    with: Some(with),
                    kept,
                    same,
                    ..counted(counter, (0, 0), narrow)
                })
            })
        };
        let counts = |held: Change| match held {
            Change::Moved { of, low, high, narrow } => match back[usize::from(of)] {
                Change::Moved { of: from, low: least, high: most, .. }
                    if from == of && (least > 0 || most < 0) =>
                {
                    Some(counted(of, (low, high), narrow))
                }
                Change::AtMost { of: from, shifted: 1.. } if from == of && (low, high) == (0, 0) => {
                    Some(counted(of, (0, 0), narrow))
                }
                Change::Stepped { of: counter, .. } => {
                    let same = (counter != of).then_some(of);
                    Some(Test { same, ..counted(counter, (low, high), narrow) })
                }
                _ => None,
            },
            Change::AtMost { of, shifted } => match back[usize::from(of)] {
                Change::AtMost { of: from, shifted: 1.. } if from == of => {
                    Some(counted(of, (shifted.into(), 0), false))
                }
                _ => None,
            },
            Change::Sum { of, narrow } => of_sum(of, narrow, None),
            Change::PartOfSum { of, narrow, kept } => of_sum(of, narrow, Some(kept)),
            _ => None,
        };
        let test = match (counts(left), counts(right)) {
            (Some(test), _) => Test { bound: bound(right)?, ..test },
            (_, Some(test)) => Test { bound: bound(left)?, stay: mirrored(operation)?, ..test },
            _ => return None,
        };
        let decides = |place: u8| self.numbers.at(self.head) & frame_place(place) != 0;
        test.places(back[usize::from(test.of)]).all(decides).then_some((at, test))
    }

    /// No way from the head leads back to it past `at`.
    fn is_passed(&self, at: usize) -> bool {
        let mut seen = vec![false; self.body.slots().len()];
        let mut work = vec![self.head];
        while let Some(from) = work.pop() {
            if from == at || std::mem::replace(&mut seen[from - self.body.slots().start], true) {
                continue;
            }
            for next in self.flow.after(from).into_iter().flatten() {
                if next == self.head {
                    return false;
                }
                if self.body.contains(next) {
                    work.push(next);
                }
            }
        }
        true
    }
}

fn joined(one: &Changes, other: &Changes) -> Changes {
    std::array::from_fn(|place| one[place].join(other[place]))
}

fn operand(now: &Changes, operand: Operand) -> Change {
    match operand {
        Operand::Register(register) => now[usize::from(register)],
        Operand::Immediate(value) => Change::Constant(value.into()),
    }
}

fn arithmetic(now: &Changes, operation: u8, off: i16, wide: bool, dst: u8, src: Operand) -> Change {
    let (dst, src) = (now[usize::from(dst)], operand(now, src));
    match (operation, src) {
        _ if off != 0 => Change::Unknown,
        (alu::MOV, src) if wide => src,
        (alu::MOV, Change::Constant(value)) => Change::Constant((value as u32).into()),
        (alu::MOV, src) => src.plus(0, false),
        (alu::RSH, Change::Constant(by)) => dst.shifted(by, wide),
        (alu::LSH, Change::Constant(32)) if wide => match dst {
            Change::Moved { of, low, high, narrow: _ } => Change::Raised { of, low, high },
            _ => Change::Unknown,
        },
        (alu::AND, bits) => masked(dst, bits, wide),
        (alu::ADD, Change::Constant(by)) => dst.plus(by, wide),
        (alu::ADD, src) => sum(dst, src, wide),
        (alu::SUB, Change::Constant(by)) if by != i64::MIN => dst.plus(-by, wide),
        _ => Change::Unknown,
    }
}

/// The place that an access through r10 is to, if it is a slot, all of it, and among those that are known.
fn whole_slot(base: u8, off: i16, bytes: u32) -> Option<usize> {
    let is_whole = base == 10 && bytes == 8 && off < 0 && off % 8 == 0;
    is_whole.then(|| REGISTERS + slot_of(off.into())).filter(|place| *place < PLACES)
}
