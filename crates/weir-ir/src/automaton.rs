//! Automata over the bytes of a text: what [`Op::Match`](crate::Op::Match) runs.
//!
//! States are numbered by what they are: first those that go on and do not match where the text ends, then those that go on and
//! do, then the one in which the text matches whatever follows ([`Automaton::matched`]), then the one in which it never does
//! ([`Automaton::failed`]). The last two have no row. So one comparison says that the rest of a text need not be read, and
//! one more whether it matches.
//!
//! A byte 0 ends a text and is never looked up.

use crate::limits;

/// A deterministic automaton.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Automaton {
    /// By byte: its class. Bytes of one class lead to the same states.
    pub classes: Vec<u8>,
    /// How many classes there are.
    pub class_count: u16,
    /// State × class: the next state.
    pub rows: Vec<u16>,
    pub start: u16,
    /// States from this on match where the text ends.
    pub matching: u16,
    /// States from this on have no row.
    pub live: u16,
}

impl Automaton {
    /// From a table of states as they were found: by state, the next one of each class, and whether the text matches where
    /// it ends there. From states that lead to no match, or to nothing else, nothing is read any more.
    ///
    /// # Panics
    /// If the table is not whole, or has more than [`limits::AUTOMATON_STATES_MAX`] states.
    pub fn of(classes: [u8; 256], table: &[(Vec<usize>, bool)], start: usize) -> Automaton {
        assert!(table.len() <= limits::AUTOMATON_STATES_MAX, "{} states of an automaton", table.len());
        let class_count = classes.iter().copied().max().map_or(1, |most| u16::from(most) + 1);
        let may_match = reaching(table, true);
        let may_fail = reaching(table, false);
        let rank = |state: usize| match (may_match[state], may_fail[state], table[state].1) {
            (true, true, false) => 0,
            (true, true, true) => 1,
            (true, false, _) => 2,
            (false, ..) => 3,
        };
        let count = |wanted: u8| (0..table.len()).filter(|state| rank(*state) == wanted).count() as u16;
        let matching = count(0);
        let live = matching + count(1);
        let mut next_number = [0, matching];
        let numbers: Vec<u16> = (0..table.len())
            .map(|state| match rank(state) {
                2 => live,
                3 => live + 1,
                rank => {
                    let number = &mut next_number[usize::from(rank)];
                    *number += 1;
                    *number - 1
                }
            })
            .collect();
        let mut rows = vec![0; usize::from(live) * usize::from(class_count)];
        for (state, (next, _)) in table.iter().enumerate().filter(|(state, _)| numbers[*state] < live) {
            let row = usize::from(numbers[state]) * usize::from(class_count);
            for (class, next) in next.iter().take(usize::from(class_count)).enumerate() {
                rows[row + class] = numbers[*next];
            }
        }
        let start = numbers[start];
        Automaton { classes: classes.to_vec(), class_count, rows, start, matching, live }
    }

    /// The state in which the text matches, whatever follows.
    pub fn matched(&self) -> u16 {
        self.live
    }

    /// The state in which it does not, whatever follows.
    pub fn failed(&self) -> u16 {
        self.live + 1
    }

    /// What a run says of a text, up to its first NUL.
    pub fn matches(&self, text: &[u8]) -> bool {
        let mut state = self.start;
        for byte in text.iter().take_while(|byte| **byte != 0) {
            if state >= self.live {
                break;
            }
            let class = usize::from(self.classes[usize::from(*byte)]);
            state = self.rows[usize::from(state) * usize::from(self.class_count) + class];
        }
        (self.matching..=self.matched()).contains(&state)
    }

    /// What is wrong with it, if something is.
    pub(crate) fn check(&self) -> Result<(), String> {
        let (live, count) = (usize::from(self.live), usize::from(self.class_count));
        if live > limits::AUTOMATON_STATES_MAX {
            return Err(format!("an automaton of {live} states, more than {}", limits::AUTOMATON_STATES_MAX));
        }
        let are_classes = self.classes.len() == 256 && count <= 256;
        if !are_classes || self.classes.iter().any(|class| usize::from(*class) >= count) {
            return Err("an automaton whose bytes have other classes than it has".into());
        }
        if self.rows.len() != live * count || self.matching > self.live {
            return Err("an automaton whose table is not whole".into());
        }
        if self.rows.iter().chain([&self.start]).any(|state| *state > self.failed()) {
            return Err("an automaton with a state that it does not have".into());
        }
        Ok(())
    }
}

/// By state: some text leads from it to a state with this answer.
fn reaching(table: &[(Vec<usize>, bool)], answer: bool) -> Vec<bool> {
    let mut before = vec![Vec::new(); table.len()];
    for (state, (next, _)) in table.iter().enumerate() {
        let mut next = next.clone();
        next.sort_unstable();
        next.dedup();
        next.into_iter().for_each(|next| before[next].push(state));
    }
    let mut reaches: Vec<bool> = table.iter().map(|(_, matches)| *matches == answer).collect();
    let mut waiting: Vec<usize> = (0..table.len()).filter(|state| reaches[*state]).collect();
    while let Some(state) = waiting.pop() {
        for earlier in std::mem::take(&mut before[state]) {
            if !reaches[earlier] {
                reaches[earlier] = true;
                waiting.push(earlier);
            }
        }
    }
    reaches
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `a*b`: begins with an a, ends with a b.
    fn begins_and_ends() -> Automaton {
        let mut classes = [0; 256];
        (classes[usize::from(b'a')], classes[usize::from(b'b')]) = (1, 2);
        let table =
            [(vec![3, 1, 3], false), (vec![1, 1, 2], false), (vec![1, 1, 2], true), (vec![3, 3, 3], false)];
        Automaton::of(classes, &table, 0)
    }

    #[test]
    fn states_are_numbered_by_what_they_are() {
        let automaton = begins_and_ends();
        assert_eq!((automaton.matching, automaton.live, automaton.failed()), (2, 3, 4));
        assert_eq!(automaton.rows, [4, 1, 4, 1, 1, 2, 1, 1, 2]);
        assert_eq!(automaton.check(), Ok(()));
    }

    #[test]
    fn a_text_ends_at_its_first_nul() {
        let automaton = begins_and_ends();
        for (text, matches) in [("ab", true), ("a--b", true), ("ab-", false), ("b", false), ("", false)] {
            assert_eq!(automaton.matches(text.as_bytes()), matches, "{text}");
        }
        assert!(automaton.matches(b"ab\0c"));
    }

    #[test]
    fn what_matches_whatever_follows_has_no_row() {
        let automaton = Automaton::of([0; 256], &[(vec![1], false), (vec![1], true)], 0);
        assert_eq!((automaton.live, automaton.rows.clone()), (1, vec![1]));
        assert!(automaton.matches(b"x") && !automaton.matches(b""));
    }
}
