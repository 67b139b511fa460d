//! Loops followed once for all of their rounds.
//!
//! A first run over a program whose loops can be counted (`loops`); others in it are followed round by round. Where a
//! path enters a loop, the values there say how often the head is reached at most; what rounds move by constants is
//! given the range of all rounds at once, and the rest stays as it came. Where the path comes back to the head, what it
//! holds must be in what the head was followed with: then the round stands for all. Else the rest is made wider, and
//! the round followed again.
//!
//! Why that is safe. Every state that a run can reach must be in one that was followed. For what a path brings back to
//! the head that is compared, place by place. For the places that rounds move it is arithmetic: after so many rounds
//! the place holds what it held at the entry and so many steps, and the head is not reached more often than counted
//! ([`Test::rounds`](crate::ends::Test::rounds_from)). That says something of the runs that entered there alone, so that
//! inside a loop a finished path covers only paths of the same entry ([`Path::entry`](crate::explore::Path)), and an
//! entry is covered only by what an earlier one had before its places were given their ranges. What nobody reads from
//! the head on is taken away there: if it is read after all, the run refuses.
//!
//! Why that ends. A run that does not end comes again and again to some loop's head without leaving that loop; but each
//! entry has its count. Loops that are followed round by round end because paths do. The steps of all rounds together
//! must be within what a run may follow ([`Walk::times`]).
//!
//! Whatever this run refuses, the others decide: it makes the verdict quicker, not more lenient by what may happen.

use std::cmp::Ordering;

use crate::changes::{Change, PLACES, frame_place, slot_of_place};
use crate::ends::{AtEntry, in_rounds};
use crate::explore::{Path, Walk};
use crate::limits::Limits;
use crate::links::Spot;
use crate::loops::{Loop, Loops};
use crate::places::{FramePlaces, WHOLE_FRAME};
use crate::rejection::{Refusal, too_big};
use crate::scalar::Scalar;
use crate::slot::Slot;
use crate::state::{PacketAt, StackAt, StackSpan, State, Value, covers, is_near};

/// A time that a loop was entered.
#[derive(Debug)]
pub(crate) struct Entry {
    /// The loop around it that the path is in, or the one that called the function.
    outer: Option<u32>,
    number: u32,
    depth: usize,
    /// What the head was followed with last.
    head: State,
    /// Places whose range is that of all rounds.
    moved: FramePlaces,
    widened: u32,
    /// A run comes to one instruction of it as often as this, for each time that it was followed there.
    times: u64,
}

/// Entries and rounds of this run's loops.
#[derive(Debug)]
pub(crate) struct Counting<'a> {
    loops: &'a Loops,
    entries: Vec<Entry>,
    /// By loop: the most rounds of any entry.
    rounds: Vec<u64>,
    /// By instruction, where some loops are followed round by round: how often a run comes to it at most.
    times: Option<Vec<u64>>,
}

/// How a path comes to where it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Arrival {
    Elsewhere,
    /// From outside, at a loop's head.
    Entry(u32),
    /// From inside.
    Round,
}

/// Times that a head is made wider before the run gives up.
const WIDENED_MAX: u32 = 12;

/// And in steps; numbers that differ once more become unknown.
const WIDENED_STEPWISE: u32 = 2;

/// Instructions that the run follows at most, for each of the program: a loop nested in another is followed a few
/// times, and a run that gives up should not have cost much.
const FOLLOWED_PER_INSN: u32 = 40;
const FOLLOWED_MIN: u32 = 2_000;

/// How far the run goes.
pub(crate) fn followed_max(insns: usize, limits: &Limits) -> u32 {
    (insns as u32).saturating_mul(FOLLOWED_PER_INSN).max(FOLLOWED_MIN).min(limits.explored_insns_max)
}

impl<'a> Counting<'a> {
    /// Of a program of so many instructions.
    pub(crate) fn new(loops: &'a Loops, insns: usize) -> Counting<'a> {
        let times = (!loops.are_all_counted()).then(|| vec![0; insns]);
        Counting { loops, entries: Vec::new(), rounds: vec![0; loops.count()], times }
    }

    /// The path is followed past an instruction.
    pub(crate) fn count(&mut self, path: &Path) {
        let Some(times) = &mut self.times else { return };
        let each = path.entry.map_or(1, |entry| self.entries[entry as usize].times);
        times[path.at] = times[path.at].saturating_add(each);
    }

    /// The path is in a loop that is followed round by round.
    pub(crate) fn is_by_rounds(&self, at: usize) -> bool {
        self.times.is_some() && self.loops.is_by_rounds(at)
    }

    /// Places of the innermost frame that may be read from `at` on, before they are written.
    pub(crate) fn live(&self, at: usize) -> FramePlaces {
        // LIMIT: the low half of a frame's places are its slots.
        FramePlaces::from(self.loops.live(at) | 1 << 10) << 64 | FramePlaces::from(u64::MAX)
    }

    /// The path's loops, innermost first, by the times that they were entered.
    fn entries(&self, path: &Path) -> impl Iterator<Item = u32> {
        std::iter::successors(path.entry, |entry| self.entries[*entry as usize].outer)
    }

    /// `first` may still come to where `then` is, in the same round of the same loop.
    pub(crate) fn leads_on(&self, first: &Path, then: &Path) -> bool {
        // Who is back at the head has been everywhere.
        let order = |path: &Path| {
            let is_back = path.entry.is_some_and(|entry| {
                let number = self.entries[entry as usize].number;
                self.loops.headed_by(path.at) == Some(number) && self.loops.get(number).contains(path.from)
            });
            if is_back { u32::MAX } else { self.loops.order(path.at) }
        };
        let is_inside = || then.entry.is_none() || self.entries(first).any(|entry| Some(entry) == then.entry);
        match first.state.depth().cmp(&then.state.depth()) {
            Ordering::Less => false,
            Ordering::Equal if first.entry == then.entry => order(first) < order(then),
            Ordering::Equal | Ordering::Greater => is_inside(),
        }
    }

    /// Takes the path out of the loops that it has left, and says how it comes to where it is.
    pub(crate) fn arrival(&self, path: &mut Path) -> Arrival {
        let depth = path.state.depth();
        while let Some(entry) = path.entry.map(|entry| &self.entries[entry as usize]) {
            let has_left = entry.depth > depth
                || entry.depth == depth && !self.loops.get(entry.number).contains(path.at);
            if !has_left {
                break;
            }
            path.entry = entry.outer;
        }
        let Some(number) = self.loops.headed_by(path.at) else { return Arrival::Elsewhere };
        if let Some(entry) = path.entry.map(|entry| &self.entries[entry as usize])
            && (entry.number, entry.depth) == (number, depth)
        {
            if self.loops.get(number).contains(path.from) {
                return Arrival::Round;
            }
            path.entry = entry.outer;
        }
        Arrival::Entry(number)
    }
}

impl Walk<'_> {
    /// The path, whose state is remembered, enters a loop: its state becomes that of all rounds.
    pub(crate) fn enter_loop(&mut self, path: &mut Path, number: u32) -> Result<(), Refusal> {
        // A pointer into a packet gets a number that no other has.
        let ids: [u32; PLACES] = std::array::from_fn(|_| self.new_id());
        let Some(counting) = &mut self.counting else { return Ok(()) };
        let loops = counting.loops;
        let (entered, depth) = (loops.get(number), path.state.depth());
        let Some((heads, ranges)) = rounds(entered, &path.state) else {
            return too_big("the rounds of a loop are not known where it is entered");
        };
        let most = &mut counting.rounds[number as usize];
        *most = (*most).max(heads);
        let (mut moved, mut steps) = (0, 0);
        let changes: [Change; PLACES] =
            std::array::from_fn(|place| entered.changes[place].at_entry(place as u8, &path.state));
        for place in 0..PLACES as u8 {
            let change = changes[usize::from(place)];
            if is_moved(place, change)
                && let Some(value) =
                    moved_value(value_at(&path.state, place), change, heads, ids[usize::from(place)])
            {
                set_value(&mut path.state, place, value);
                moved |= frame_place(place);
                if let Change::Stepped { of, by, .. } = entered.changes[usize::from(place)] {
                    steps |= frame_place(of) | frame_place(by);
                }
            }
        }
        for (place, range) in ranges {
            if moved & frame_place(place) != 0
                && let Value::Scalar(number) = value_at(&path.state, place)
                && let Some(number) = number.intersect(range)
            {
                set_value(&mut path.state, place, Value::Scalar(number));
            }
        }
        path.state.forget_registers(!counting.live(path.at));
        let outer = path.entry.map_or(1, |outer| counting.entries[outer as usize].times);
        let times = heads.saturating_mul(outer);
        let entry =
            Entry { outer: path.entry, number, depth, head: path.state.clone(), moved, widened: 0, times };
        path.entry = Some(counting.entries.len() as u32);
        counting.entries.push(entry);
        // Whoever comes with other numbers there has other rounds.
        let counted = entered.tests.iter().fold(moved | steps, |all, test| {
            let places = test.places(entered.changes[usize::from(test.of)]);
            places.fold(all, |all, place| all | frame_place(place))
        });
        self.read(path, depth, counted);
        self.rests_on_link(path, depth, counted);
        Ok(())
    }

    /// The path is at the head of a loop that it is in: true if it need not be followed further, because the head was
    /// followed with as much; else its state holds what the head was followed with, too.
    pub(crate) fn next_round(&mut self, path: &mut Path) -> Result<bool, Refusal> {
        let (Some(counting), Some(number)) = (&mut self.counting, path.entry) else { return Ok(false) };
        let (depth, numbers) = (path.state.depth(), self.numbers.at(path.at));
        let live = counting.live(path.at);
        let entry = &mut counting.entries[number as usize];
        // What rounds move is not compared; but it must still be what was moved: a helper may take a pointer away.
        let places = (0..PLACES as u8).filter(|place| entry.moved & frame_place(*place) != 0);
        let mut pairs = places.map(|place| (value_at(&entry.head, place), value_at(&path.state, place)));
        if !pairs.all(|(head, back)| is_alike(head, back)) {
            return too_big("what a loop moves is something else when a round ends");
        }
        let compared = |frame: usize| if frame == depth { live & !entry.moved } else { WHOLE_FRAME };
        if !covers(&entry.head, &path.state, compared, numbers, |_| WHOLE_FRAME) {
            entry.widened += 1;
            let numbers_kept = if entry.widened > WIDENED_STEPWISE { 0 } else { numbers };
            // Ranges were tried; now numbers that still differ may be any.
            let wider = entry.head.round(&path.state, entry.moved, numbers_kept);
            // What a wider state did not hold would be missing from the proof, so that it is looked at each time.
            let holds = |wider: &State| {
                covers(wider, &path.state, compared, numbers, |_| WHOLE_FRAME)
                    && covers(wider, &entry.head, |_| WHOLE_FRAME, numbers, |_| WHOLE_FRAME)
            };
            let Some(wider) = wider.filter(holds).filter(|_| entry.widened <= WIDENED_MAX) else {
                return too_big("the rounds of a loop do not become alike");
            };
            entry.head = wider.clone();
            path.state = wider;
            return Ok(false);
        }
        // What the head's path goes on to read is not known yet.
        for frame in 0..=depth {
            self.read(path, frame, if frame == depth { live } else { WHOLE_FRAME });
            self.rests_on_link(path, frame, WHOLE_FRAME);
        }
        Ok(true)
    }

    /// By instruction: how often a run comes to it at most; none where every round was followed. All of them together
    /// must take no more steps than a run that follows every round.
    pub(crate) fn times(&self) -> Result<Option<Vec<u64>>, Refusal> {
        let Some(counting) = &self.counting else { return Ok(None) };
        let times = match &counting.times {
            Some(times) => times.clone(),
            None => counting.loops.times(self.ops, self.functions, &counting.rounds),
        };
        let steps = times.iter().fold(0u64, |steps, times| steps.saturating_add(*times));
        if steps > u64::from(self.limits.explored_insns_max) {
            return too_big(format!("the rounds of its loops may take {steps} instructions"));
        }
        Ok(Some(times))
    }
}

/// How often the head is reached at most by who enters with this state, and what is known of the places that count.
fn rounds(entered: &Loop, state: &State) -> Option<(u64, Vec<(u8, Scalar)>)> {
    let mut heads: Option<u64> = None;
    let mut ranges = Vec::new();
    for test in &entered.tests {
        let change = entered.changes[usize::from(test.of)];
        let Some(rounds) = test.rounds_from(change, state) else { continue };
        heads = Some(heads.map_or(rounds.heads, |heads| heads.min(rounds.heads)));
        for place in [Some(test.of), test.same].into_iter().flatten() {
            ranges.extend(rounds.range.map(|(min, max)| (place, Scalar::range(min, max))));
        }
    }
    Some((heads?, ranges))
}

impl AtEntry for State {
    fn number(&self, place: u8) -> Option<Scalar> {
        if let Value::Scalar(number) = value_at(self, place) { Some(number) } else { None }
    }

    fn hold_same(&self, one: u8, other: u8) -> bool {
        let (Some(first), Some(second)) = (self.number(one), self.number(other)) else { return false };
        if let (Some(first), Some(second)) = (first.as_constant(), second.as_constant()) {
            return first == second;
        }
        let spot = |place: u8| match slot_of_place(place) {
            None => Spot::Register(place),
            Some(slot) => Spot::Slot(slot as u8),
        };
        self.are_same(spot(one), spot(other)) == Some(true)
    }
}

/// Both are numbers, or pointers into one object, or packet.
fn is_alike(one: Value, other: Value) -> bool {
    let stack = |value: Value| StackSpan::of(value).map(|span| span.frame);
    match (one, other) {
        (Value::Scalar(_), Value::Scalar(_)) => true,
        (Value::Packet(one), Value::Packet(other)) => one.is_meta == other.is_meta,
        _ if stack(one).is_some() => stack(one) == stack(other),
        _ => one.distances(other).is_some(),
    }
}

/// A round adds something to what the place held.
fn is_moved(place: u8, change: Change) -> bool {
    match change {
        Change::Moved { of, low, high, .. } => of == place && (low, high) != (0, 0),
        Change::AtMost { of, shifted } => of == place && shifted != 0,
        _ => false,
    }
}

/// What the place holds in any of so many rounds; none where its kind of value is not followed so, or would go far.
fn moved_value(value: Value, change: Change, heads: u64, id: u32) -> Option<Value> {
    if let Value::Scalar(number) = value {
        return Some(Value::Scalar(in_rounds(number, change, heads)));
    }
    if !matches!(change, Change::Moved { narrow: false, .. }) {
        return None;
    }
    let moved = |offset: Scalar| Some(in_rounds(offset, change, heads)).filter(|offset| is_near(*offset));
    match value {
        Value::Stack(StackAt { frame, off }) => match moved(Scalar::constant(off as u64))? {
            offset if offset.as_constant().is_some() => None,
            offset => Some(Value::StackSpan(StackSpan { frame, offset })),
        },
        Value::StackSpan(span) => Some(Value::StackSpan(StackSpan { offset: moved(span.offset)?, ..span })),
        // How far it may be inside must be compared anew.
        Value::Packet(at) => {
            Some(Value::Packet(PacketAt { id, unknown: moved(at.unknown)?, range: 0, ..at }))
        }
        _ => Some(value.with(moved(value.distance()?)?)),
    }
}

/// Of the innermost frame.
fn value_at(state: &State, place: u8) -> Value {
    match slot_of_place(place) {
        None => state.registers[usize::from(place)],
        Some(slot) => match state.slot(state.depth(), slot) {
            Slot::Spilled(value) => value,
            Slot::Halves(_) | Slot::Bytes(_) => Value::Uninit,
        },
    }
}

fn set_value(state: &mut State, place: u8, value: Value) {
    match slot_of_place(place) {
        None => state.set_register(place, value),
        Some(slot) => state.spill(slot, value),
    }
}
