//! What a round of a loop does to the loop's places, and how many rounds there can be.
//!
//! In: the instructions of one loop (`loops`). Out: for each place what it holds when the head is reached again, by
//! what the places held at the head before ([`Change`]), on every way through the loop, whether or not a run can take
//! it; and the branches that every round passes and that end the loop by comparing what moves with what stays
//! ([`Test`]). From these and from what places hold where the loop is entered follows how often the head is reached at
//! most ([`Test::rounds`]): by arithmetic alone, so that it holds for every run that enters with such values.
//!
//! Places are registers, and the slots of the frame nearest to r10 as far as they are read and written whole. A
//! place's relation is kept through moves, additions of constants and spills; anything else makes it unknown.
//!
//! Deliberately not here: steps that are no constants (`x += y`, `p = next`), and bounds that move themselves.

use std::collections::{BTreeMap, BTreeSet};

use weir_ebpf::insn::{alu, atomic, jmp};

use crate::decode::{Op, Operand};
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
        if let (Change::AtMost { .. }, 0) = (self, by) {
            return self;
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

/// Furthest that a round may move a place.
const DISTANCE_MAX: u32 = 1 << 29;
/// Bits of a number that a shift by as many leaves nothing of.
const SHIFTED_MAX: u8 = 64;

/// A branch that ends the loop unless what place `of` held at the head, and `first.0` to `first.1` more, is as `stay`
/// says of `bound`. Of a place that rounds shift right: no more than what it held, shifted by `first.0`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Test {
    pub(crate) of: u8,
    first: (i32, i32),
    narrow: bool,
    wide: bool,
    /// One of the operations of `jmp`.
    stay: u8,
    pub(crate) bound: Bound,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Bound {
    Constant(i64),
    /// What this place held at the head: no round changes it.
    Place(u8),
}

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
    let back = round.back?;
    let tests = round.compared.iter().filter_map(|(at, operands)| round.test(*at, *operands, &back));
    let tests: Vec<(usize, Test)> = tests.take(TESTS_MAX).collect();
    let passed = tests.into_iter().filter(|(at, _)| round.is_passed(*at)).map(|(_, test)| test).collect();
    Some((back.to_vec(), passed))
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
        let still = |of: usize| Change::Moved { of: of as u8, low: 0, high: 0, narrow: false };
        self.before.insert(self.head, (std::array::from_fn(still), 0));
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
        let bound = |held: Change| match held {
            Change::Constant(value) => Some(Bound::Constant(value)),
            Change::Moved { of, low: 0, high: 0, narrow: false }
                if back[usize::from(of)] == (Change::Moved { of, low: 0, high: 0, narrow: false }) =>
            {
                Some(Bound::Place(of))
            }
            _ => None,
        };
        let counts = |held: Change| match held {
            Change::Moved { of, low, high, narrow } => match back[usize::from(of)] {
                Change::Moved { of: from, low: least, high: most, .. }
                    if from == of && (least > 0 || most < 0) =>
                {
                    Some((of, (low, high), narrow))
                }
                Change::AtMost { of: from, shifted: 1.. } if from == of && (low, high) == (0, 0) => {
                    Some((of, (0, 0), narrow))
                }
                _ => None,
            },
            Change::AtMost { of, shifted } => match back[usize::from(of)] {
                Change::AtMost { of: from, shifted: 1.. } if from == of => {
                    Some((of, (shifted.into(), 0), false))
                }
                _ => None,
            },
            _ => None,
        };
        let (counted, stay, bound) = match (counts(left), counts(right)) {
            (Some(counted), _) => (counted, operation, bound(right)?),
            (_, Some(counted)) => (counted, mirrored(operation)?, bound(left)?),
            _ => return None,
        };
        let (of, first, narrow) = counted;
        let decides = |place: u8| self.numbers.at(self.head) & frame_place(place) != 0;
        let both_decide = decides(of) && !matches!(bound, Bound::Place(place) if !decides(place));
        both_decide.then_some((at, Test { of, first, narrow, wide, stay, bound }))
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
        (alu::ADD, Change::Constant(by)) => dst.plus(by, wide),
        (alu::SUB, Change::Constant(by)) if by != i64::MIN => dst.plus(-by, wide),
        _ => Change::Unknown,
    }
}

/// The place that an access through r10 is to, if it is a slot, all of it, and among those that are known.
fn whole_slot(base: u8, off: i16, bytes: u32) -> Option<usize> {
    let is_whole = base == 10 && bytes == 8 && off < 0 && off % 8 == 0;
    is_whole.then(|| REGISTERS + slot_of(off.into())).filter(|place| *place < PLACES)
}

/// What holds where the comparison does not.
fn negated(operation: u8) -> Option<u8> {
    let pairs = [
        (jmp::JEQ, jmp::JNE),
        (jmp::JGT, jmp::JLE),
        (jmp::JGE, jmp::JLT),
        (jmp::JSGT, jmp::JSLE),
        (jmp::JSGE, jmp::JSLT),
    ];
    other_of(&pairs, operation)
}

/// The same comparison with its operands exchanged.
fn mirrored(operation: u8) -> Option<u8> {
    let pairs = [
        (jmp::JEQ, jmp::JEQ),
        (jmp::JNE, jmp::JNE),
        (jmp::JGT, jmp::JLT),
        (jmp::JGE, jmp::JLE),
        (jmp::JSGT, jmp::JSLT),
        (jmp::JSGE, jmp::JSLE),
    ];
    other_of(&pairs, operation)
}

fn other_of(pairs: &[(u8, u8)], operation: u8) -> Option<u8> {
    pairs.iter().find_map(|(one, other)| match operation {
        _ if operation == *one => Some(*other),
        _ if operation == *other => Some(*one),
        _ => None,
    })
}

/// How often a loop's head is reached at most, each time that the loop is entered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Rounds {
    pub(crate) heads: u64,
    /// What the place that counts holds at the head, as a number without sign, if it is known by the test.
    pub(crate) range: Option<(u64, u64)>,
}

impl Test {
    /// The most times that the head is reached where the loop is entered with `value` in the place that counts, which
    /// `change` says of a round, and `bound` is what it is compared with.
    pub(crate) fn rounds(&self, change: Change, value: Scalar, bound: Scalar) -> Option<Rounds> {
        let (low, high, narrow) = match change {
            Change::Moved { low, high, narrow, .. } => (low, high, narrow),
            Change::AtMost { shifted, .. } => return self.rounds_of_shifts(shifted, value, bound),
            Change::Unknown | Change::Constant(_) | Change::Raised { .. } => return None,
        };
        let is_signed = matches!(self.stay, jmp::JSGT | jmp::JSGE | jmp::JSLT | jmp::JSLE);
        let is_still = self.first == (0, 0);
        let fits = |number: Scalar| number.max <= u64::from(u32::MAX);
        // All is done with whole numbers as large as they come; what is compared are their low bits.
        let compared = if !self.wide {
            if is_signed { Compared::signed(32, value, bound) } else { Compared::unsigned(32, value, bound) }
        } else if !narrow && !self.narrow {
            if is_signed { Compared::signed(64, value, bound) } else { Compared::unsigned(64, value, bound) }
        } else if fits(bound) && (self.narrow || is_still && fits(value)) {
            Compared::unsigned(32, value, bound)
        } else {
            return None;
        };
        let step = (i128::from(low), i128::from(high));
        let first = (i128::from(self.first.0), i128::from(self.first.1));
        let (stays, limit) = if low > 0 {
            compared.stays(self.stay, step, first)?
        } else if high < 0 {
            let back = |(low, high): (i128, i128)| (-high, -low);
            let (stays, limit) = compared.negative().stays(mirrored(self.stay)?, back(step), back(first))?;
            (stays, limit.map(|limit| -limit))
        } else {
            return None;
        };
        let heads = u64::try_from(stays).ok()?.checked_add(1)?;
        // Where the low bits alone are compared, they are the number only if it has no others.
        let is_whole = !is_signed && (compared.bits == 64 || fits(value));
        let range = limit.filter(|_| is_whole).and_then(|limit| {
            let (from, to) = compared.value;
            let (from, to) = if low > 0 { (from, to.max(limit)) } else { (from.min(limit), to) };
            Some((u64::try_from(from).ok()?, u64::try_from(to).ok()?))
        });
        // What is kept of a narrow sum is the sum only as far as it fits.
        let range = range.filter(|range| !narrow || range.1 <= u64::from(u32::MAX));
        Some(Rounds { heads, range })
    }

    /// The same where each round shifts the place right: staying needs something left of it.
    fn rounds_of_shifts(&self, shifted: u8, value: Scalar, bound: Scalar) -> Option<Rounds> {
        let bound = if self.wide { bound } else { bound.low(32) };
        let least = match self.stay {
            jmp::JGT => bound.min.checked_add(1)?,
            jmp::JGE => bound.min,
            jmp::JNE if bound.as_constant() == Some(0) => 1,
            _ => return None,
        };
        let left =
            |round: u32| value.max.checked_shr(round * u32::from(shifted) + self.first.0.unsigned_abs());
        let stays = (0..64).take_while(|round| left(*round).is_some_and(|left| left >= least)).count();
        (least > 0).then_some(Rounds { heads: stays as u64 + 1, range: None })
    }
}

/// Two numbers that are compared, each somewhere in its range, as integers.
#[derive(Clone, Copy, Debug)]
struct Compared {
    bits: u32,
    /// The numbers that so many bits are.
    least: i128,
    most: i128,
    value: (i128, i128),
    bound: (i128, i128),
}

impl Compared {
    fn unsigned(bits: u32, value: Scalar, bound: Scalar) -> Compared {
        let range = |number: Scalar| {
            let number = number.low(bits);
            (i128::from(number.min), i128::from(number.max))
        };
        let most = (1i128 << bits) - 1;
        Compared { bits, least: 0, most, value: range(value), bound: range(bound) }
    }

    fn signed(bits: u32, value: Scalar, bound: Scalar) -> Compared {
        let range = |number: Scalar| {
            let number = number.sign_extended(bits);
            (i128::from(number.smin), i128::from(number.smax))
        };
        let half = 1i128 << (bits - 1);
        Compared { bits, least: -half, most: half - 1, value: range(value), bound: range(bound) }
    }

    /// Mirrored at 0, so that what goes down goes up.
    fn negative(self) -> Compared {
        let negative = |(low, high): (i128, i128)| (-high, -low);
        Compared {
            least: -self.most,
            most: -self.least,
            value: negative(self.value),
            bound: negative(self.bound),
            ..self
        }
    }

    /// How many rounds in a row may stay, where what is compared is the value and `first` more, and each round adds
    /// `step`, at least 1; and the highest value after such a round, if no round wraps.
    fn stays(self, stay: u8, step: (i128, i128), first: (i128, i128)) -> Option<(i128, Option<i128>)> {
        let (low, high) = self.value;
        match stay {
            jmp::JLT | jmp::JSLT | jmp::JLE | jmp::JSLE => {
                // Staying means to be below it.
                let end = self.bound.1 + i128::from(matches!(stay, jmp::JLE | jmp::JSLE));
                let last = end - 1 - first.0 + step.1;
                let is_inside =
                    low + first.0 >= self.least && high + first.1 <= self.most && last + first.1 <= self.most;
                let way = (end - low - first.0).max(0);
                is_inside.then_some(((way + step.0 - 1) / step.0, Some(last)))
            }
            jmp::JNE if step.0 == step.1 && first.0 == first.1 => {
                let (step, first) = (step.0, first.0);
                let shortest = self.bound.0 - high - first;
                let longest = self.bound.1 - low - first;
                let is_ahead = shortest >= 0 && low + first >= self.least;
                let is_exact = shortest == longest;
                if is_ahead && (step == 1 || is_exact && longest % step == 0) {
                    return Some((longest / step, Some(self.bound.1 - 1 - first + step)));
                }
                // Once around.
                let around = longest.rem_euclid(1i128 << self.bits);
                (is_exact && around % step == 0).then_some((around / step, None))
            }
            _ => None,
        }
    }
}

/// What the place holds at the head in any of so many rounds, where `value` is what it held at first.
pub(crate) fn in_rounds(value: Scalar, change: Change, heads: u64) -> Scalar {
    let (low, high, narrow) = match change {
        Change::Moved { low, high, narrow, .. } => (low, high, narrow),
        Change::AtMost { .. } => return Scalar::range(0, value.max),
        Change::Unknown | Change::Constant(_) | Change::Raised { .. } => return Scalar::UNKNOWN,
    };
    let Ok(rounds) = i64::try_from(heads - 1) else { return Scalar::UNKNOWN };
    let (Some(least), Some(most)) =
        (i64::from(low).min(0).checked_mul(rounds), i64::from(high).max(0).checked_mul(rounds))
    else {
        return Scalar::UNKNOWN;
    };
    let mut moved = Scalar::signed_range(least, most);
    if low == high && low != 0 {
        let mask = u64::MAX << low.trailing_zeros();
        let multiples = Scalar::from_bits(crate::tnum::Tnum { value: 0, mask });
        moved = moved.intersect(multiples).unwrap_or(moved);
    }
    let sum = crate::alu::add(value, moved);
    match narrow {
        false => sum,
        true if value.max <= u64::from(u32::MAX) => sum.low(32),
        true => Scalar::UNKNOWN,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use testkit::random::{Cases, Daily};

    use super::*;
    use crate::compare::compare;
    use crate::scalar::tests::{number, random};

    /// Loops of every kind from values near where something changes: no run of them reaches the head more often than
    /// counted, or with other values than said.
    #[test]
    fn counts_and_ranges_hold_for_every_run() {
        let daily = Daily { seed: 16, at_least: 30_000, at_most: 300_000, budget: Duration::from_secs(1) };
        let mut cases = Cases::of("WEIR_LOOPS_COUNTED", daily);
        let mut seed = cases.seed();
        let mut counted = 0;
        for _ in cases.by_ref() {
            counted += u64::from(check(&mut seed));
        }
        assert!(counted * 15 > cases.given(), "only {counted} loops were counted");
    }

    const STAY: [u8; 9] =
        [jmp::JNE, jmp::JGT, jmp::JGE, jmp::JLT, jmp::JLE, jmp::JSGT, jmp::JSGE, jmp::JSLT, jmp::JSLE];

    /// Whether the loop is counted.
    fn check(seed: &mut u64) -> bool {
        let small = |seed: &mut u64| (random(seed) % 9) as i32 - 4;
        let start = number(seed);
        let bound = if random(seed).is_multiple_of(2) {
            start.wrapping_add(random(seed) % 99).wrapping_sub(49)
        } else {
            number(seed)
        };
        let is_shift = random(seed).is_multiple_of(6);
        let (low, more) =
            (small(seed), if random(seed).is_multiple_of(2) { 0 } else { (random(seed) % 3) as i32 });
        let narrow = random(seed).is_multiple_of(2);
        let change = match is_shift {
            true => Change::AtMost { of: 1, shifted: 1 + (random(seed) % 9) as u8 },
            false => Change::Moved { of: 1, low, high: low + more, narrow },
        };
        let first = match is_shift {
            true => ((random(seed) % 3) as i32, 0),
            false => {
                let low = small(seed);
                (low, low + if random(seed).is_multiple_of(3) { 1 } else { 0 })
            }
        };
        let test = Test {
            of: 1,
            first,
            narrow: !is_shift && random(seed).is_multiple_of(2),
            wide: random(seed).is_multiple_of(2),
            stay: STAY[random(seed) as usize % STAY.len()],
            bound: Bound::Constant(bound as i64),
        };
        // Entered with any number from `start` to a few more.
        let spread = if random(seed).is_multiple_of(2) { 0 } else { random(seed) % 5 };
        let Some(end) = start.checked_add(spread) else { return false };
        let entered = Scalar::range(start, end);
        let Some(Rounds { heads, range }) = test.rounds(change, entered, Scalar::constant(bound)) else {
            return false;
        };
        let held = in_rounds(entered, change, heads);
        let mut value = start + random(seed) % (spread + 1);
        for round in 1..=300u64 {
            let text = || {
                format!("{test:?} {change:?} {start:#x} {bound:#x}: {heads} {range:?} {held:?}, {value:#x}")
            };
            assert!(round <= heads && held.has(value), "round {round}: {}", text());
            assert!(range.is_none_or(|(min, max)| (min..=max).contains(&value)), "round {round}: {}", text());
            let any = |seed: &mut u64, (low, high): (i32, i32)| {
                i64::from(low) + (random(seed) % (high - low + 1) as u64) as i64
            };
            let compared = match is_shift {
                true => value >> test.first.0,
                false => value.wrapping_add(any(seed, test.first) as u64),
            };
            let compared = if test.narrow { u64::from(compared as u32) } else { compared };
            let (stays, _) =
                compare(test.stay, test.wide, Scalar::constant(compared), Scalar::constant(bound));
            if stays.is_none() {
                break;
            }
            value = match change {
                Change::AtMost { shifted, .. } => value >> shifted,
                Change::Moved { low, high, .. } => value.wrapping_add(any(seed, (low, high)) as u64),
                _ => value,
            };
            if narrow && !is_shift {
                value = u64::from(value as u32);
            }
        }
        true
    }
}
