//! What was known at each instruction, in words, for people: `weir bpf verify -v`.
//!
//! In: the states that exploring steps through. Out: [`States`]: for each instruction how often it was visited, and for
//! each register and stack slot that held something the different things that it held. A place that differs more often
//! than [`VALUES_MAX`] times says so; proofs are not made of this. Numbers that decide nothing (`numbers`) may have
//! other values on paths that were not followed.

use std::cell::RefCell;
use std::collections::BTreeMap;

use crate::claims::Claim;
use crate::slot::{Byte, Slot};
use crate::state::{State, Value};

/// Different values of a place that are told apart.
const VALUES_MAX: usize = 4;
/// Visits of one instruction that are looked at: a long loop shows what it does long before.
const VISITS_MAX: u32 = 256;

/// The states of a program's instructions, by slot.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct States {
    /// By slot.
    pub insns: Vec<InsnStates>,
}

/// What held before one instruction, over all visits.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct InsnStates {
    /// How often a path came to it.
    pub visits: u32,
    /// Most local calls under way.
    pub depth: u32,
    /// Values of each place that held any, in words; one more than [`VALUES_MAX`] if there were more.
    pub places: BTreeMap<Place, Vec<String>>,
}

/// A register, or 8 bytes of the stack of the function that runs.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Place {
    /// r0 to r10.
    Register(u8),
    /// Bytes below r10 of the lowest of the 8.
    Stack(u32),
}

impl std::fmt::Display for Place {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Place::Register(register) => write!(out, "r{register}"),
            Place::Stack(below) => write!(out, "fp-{below:#x}"),
        }
    }
}

/// Collects while exploring; each exploration begins anew.
#[derive(Debug)]
pub(crate) enum Observer {
    /// In words.
    Words(RefCell<States>),
    /// As they are (`claims`).
    Claims(RefCell<Vec<Vec<Claim>>>),
}

impl Observer {
    pub(crate) fn words() -> Observer {
        Observer::Words(RefCell::default())
    }

    pub(crate) fn claims() -> Observer {
        Observer::Claims(RefCell::default())
    }

    pub(crate) fn begin(&self, insns: usize) {
        match self {
            Observer::Words(states) => states.borrow_mut().insns = vec![InsnStates::default(); insns],
            Observer::Claims(claims) => *claims.borrow_mut() = vec![Vec::new(); insns],
        }
    }

    /// A path comes to `at` with `state`, and is followed on, or `is_known`: then it claims nothing of its own.
    pub(crate) fn visit(&self, at: usize, state: &State, is_known: bool, describe: impl Fn(Value) -> String) {
        let states = match self {
            Observer::Words(states) => states,
            Observer::Claims(_) if is_known => return,
            Observer::Claims(claims) => return claims.borrow_mut()[at].push(Claim::of(state)),
        };
        let describe = |value: Value| match value {
            Value::Scalar(number) => number.to_string(),
            other => describe(other),
        };
        let mut states = states.borrow_mut();
        let seen = &mut states.insns[at];
        seen.visits = seen.visits.saturating_add(1);
        seen.depth = seen.depth.max(state.depth() as u32);
        if seen.visits > VISITS_MAX {
            return;
        }
        let mut add = |place: Place, words: String| {
            let values = seen.places.entry(place).or_default();
            if values.len() <= VALUES_MAX && !values.contains(&words) {
                values.push(if values.len() == VALUES_MAX { "and others".to_owned() } else { words });
            }
        };
        for (register, value) in
            state.registers.iter().enumerate().filter(|(_, value)| **value != Value::Uninit)
        {
            add(Place::Register(register as u8), describe(*value));
        }
        for slot in 0..64 {
            if let Some(words) = slot_words(state.slot(state.depth(), slot), describe) {
                add(Place::Stack(8 * (slot as u32 + 1)), words);
            }
        }
    }

    /// What was seen, in words.
    pub(crate) fn into_states(self) -> States {
        if let Observer::Words(states) = self { states.into_inner() } else { States::default() }
    }

    /// What was seen, by instruction.
    pub(crate) fn into_claims(self) -> Vec<Vec<Claim>> {
        if let Observer::Claims(claims) = self { claims.into_inner() } else { Vec::new() }
    }
}

/// None for a slot that was never written.
fn slot_words(slot: Slot, describe: impl Fn(Value) -> String) -> Option<String> {
    match slot {
        Slot::Spilled(value) => Some(describe(value)),
        Slot::Bytes(bytes) if bytes == [Byte::Uninit; 8] => None,
        Slot::Halves(_) => {
            let word = |first| match slot.load(first, 4) {
                Ok(number) => describe(number),
                Err(_) => "--".to_owned(),
            };
            Some(format!("halves {} and {}", word(0), word(4)))
        }
        Slot::Bytes(bytes) => {
            let word = |byte: &Byte| match byte {
                Byte::Uninit => "--".to_owned(),
                Byte::Unknown => "??".to_owned(),
                Byte::Known(byte) => format!("{byte:02x}"),
            };
            Some(format!("bytes {}", bytes.iter().map(word).collect::<Vec<_>>().join(" ")))
        }
    }
}
