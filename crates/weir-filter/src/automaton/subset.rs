//! A machine that may be in several states at once → an automaton that is in one: each of its states is a set of the machine's.
//!
//! The expression is looked for everywhere: its first state is added at each byte. Where it is found the text matches, whatever
//! follows. What holds only at the end of a text is asked of each set apart.

use std::collections::HashMap;

use weir_ir::Automaton;

use crate::automaton::regex::State;
use crate::limits;

/// The set in which it was found.
const FOUND: usize = 1;

/// None if that takes too many states, or too long to find out.
pub(super) fn automaton(machine: &[State], start: usize) -> Option<Automaton> {
    let (classes, first_bytes) = classes(machine);
    let mut sets = Sets {
        machine,
        seen: HashMap::new(),
        seen_at: vec![0; machine.len()],
        round: 0,
        work: limits::REGEX_WORK_MAX,
        table: Vec::new(),
        waiting: Vec::new(),
    };
    let first = sets.closure(&[start], true, false)?;
    let matches_empty = sets.closure(&[start], true, true)?.found;
    sets.table.push((Vec::new(), matches_empty));
    sets.table.push((vec![FOUND; first_bytes.len()], true));
    if first.found {
        return Some(Automaton::of(classes, &[(vec![0; first_bytes.len()], true)], 0));
    }
    // Not among those seen: only at the beginning may a set be left through `^`.
    sets.waiting.push((0, first.numbers));
    while let Some((set, members)) = sets.waiting.pop() {
        let mut row = Vec::with_capacity(first_bytes.len());
        for byte in &first_bytes {
            row.push(sets.next(&members, *byte, start)?);
        }
        sets.table[set].0 = row;
    }
    Some(Automaton::of(classes, &sets.table, 0))
}

struct Sets<'a> {
    machine: &'a [State],
    seen: HashMap<Vec<usize>, usize>,
    /// By state: the last closure that came to it.
    seen_at: Vec<u32>,
    round: u32,
    /// States that may still be looked at.
    work: u64,
    /// By set: the next one by class, and whether the text matches where it ends.
    table: Vec<(Vec<usize>, bool)>,
    waiting: Vec<(usize, Vec<usize>)>,
}

/// States that are reached without a byte: those that take one or ask for an end, in order.
struct Closure {
    numbers: Vec<usize>,
    found: bool,
}

impl Sets<'_> {
    /// The set behind a byte.
    fn next(&mut self, members: &[usize], byte: u8, start: usize) -> Option<usize> {
        let machine = self.machine;
        let step = |state: &usize| match &machine[*state] {
            State::Bytes { from, to, next } if (*from..=*to).contains(&byte) => Some(*next),
            _ => None,
        };
        self.work = self.work.checked_sub(members.len() as u64)?;
        let mut seeds: Vec<usize> = members.iter().filter_map(step).collect();
        seeds.push(start);
        let closure = self.closure(&seeds, false, false)?;
        if closure.found {
            return Some(FOUND);
        }
        if let Some(known) = self.seen.get(&closure.numbers) {
            return Some(*known);
        }
        if self.table.len() >= limits::REGEX_STATES_MAX {
            return None;
        }
        let matches = self.closure(&closure.numbers, false, true)?.found;
        let set = self.table.len();
        self.table.push((Vec::new(), matches));
        self.seen.insert(closure.numbers.clone(), set);
        self.waiting.push((set, closure.numbers));
        Some(set)
    }

    /// What is reached from these states without a byte, where the text begins or not, and ends or not.
    fn closure(&mut self, from: &[usize], at_begin: bool, at_end: bool) -> Option<Closure> {
        self.round += 1;
        let mut closure = Closure { numbers: Vec::new(), found: false };
        let mut waiting = from.to_vec();
        while let Some(state) = waiting.pop() {
            if std::mem::replace(&mut self.seen_at[state], self.round) == self.round {
                continue;
            }
            self.work = self.work.checked_sub(1)?;
            match &self.machine[state] {
                State::Bytes { .. } => closure.numbers.push(state),
                State::Split(ways) => waiting.extend(ways),
                State::Begin(next) if at_begin => waiting.push(*next),
                State::Begin(_) => {}
                State::End(next) if at_end => waiting.push(*next),
                State::End(_) => closure.numbers.push(state),
                State::Match => closure.found = true,
            }
        }
        closure.numbers.sort_unstable();
        Some(closure)
    }
}

/// The classes of bytes that no range of the machine tells apart, and a byte of each.
fn classes(machine: &[State]) -> ([u8; 256], Vec<u8>) {
    let mut begins = [false; 257];
    for state in machine {
        if let State::Bytes { from, to, .. } = state {
            begins[usize::from(*from)] = true;
            begins[usize::from(*to) + 1] = true;
        }
    }
    let (mut classes, mut first_bytes) = ([0; 256], vec![0]);
    for byte in 1..=255u8 {
        if begins[usize::from(byte)] {
            first_bytes.push(byte);
        }
        classes[usize::from(byte)] = (first_bytes.len() - 1) as u8;
    }
    (classes, first_bytes)
}
