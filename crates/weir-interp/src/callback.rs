//! Helpers that call a function of the program back: the rounds of `loop` and of `for_each_map_elem`.
//!
//! The address of a function is a [`handle`] that is no address at all, so that a program that goes on with it as with
//! one is found out. A round is a call whose return comes back here.

use weir_ebpf::HelperId;
use weir_ebpf::helper::{self, LOOP_ROUNDS_MAX};
use weir_memory::Memory;

use crate::Fault;
use crate::machine::Machine;

/// A helper's rounds that are under way.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rounds<C> {
    callback: usize,
    over: Over<C>,
    context: u64,
}

/// What there is a round for each of.
#[derive(Clone, Copy, Debug)]
enum Over<C> {
    /// Numbers: the next one, and how many there are.
    Numbers { next: u64, count: u64 },
    /// Elements of a map: how it is named, which it is, how far it is gone through, how many there were.
    Elements { name: u64, map: usize, at: C, count: u64 },
}

/// Upper bits of a handle; no address of a process has them.
const HANDLE: u64 = 0x8f0c << 48;

/// What a program holds as the address of the function at instruction `slot`.
pub(crate) fn handle(slot: usize) -> u64 {
    HANDLE | slot as u64
}

/// Errors, as the helpers answer them.
const EINVAL: i64 = 22;
const E2BIG: i64 = 7;

impl<M: Memory> Machine<'_, M> {
    /// `loop`: r1 rounds of r2 with r3; flags in r4. `for_each_map_elem`: the same for each element of r1.
    pub(crate) fn begin_rounds(&mut self, helper: HelperId) -> Result<Option<u64>, Fault> {
        let [_, first, value, context, flags, ..] = self.registers;
        let callback = self.function(value)?;
        let is_count = helper == helper::LOOP;
        let error = match flags {
            1.. => Some(-EINVAL),
            0 if is_count && first > LOOP_ROUNDS_MAX.into() => Some(-E2BIG),
            0 => None,
        };
        if let Some(error) = error {
            return Ok(self.end_rounds(error as u64));
        }
        let over = match is_count {
            true => Over::Numbers { next: 0, count: first },
            false => {
                let map = self.checked(self.memory.iterated(first))?;
                Over::Elements { name: first, map, at: M::Cursor::default(), count: 0 }
            }
        };
        self.round(Rounds { callback, over, context })
    }

    /// A callback has returned.
    pub(crate) fn end_round(
        &mut self,
        rounds: Rounds<M::Cursor>,
        is_last: bool,
    ) -> Result<Option<u64>, Fault> {
        let done = match rounds.over {
            Over::Numbers { next, .. } => next,
            Over::Elements { count, .. } => {
                self.memory.leave_element();
                count
            }
        };
        if is_last { Ok(self.end_rounds(done)) } else { self.round(rounds) }
    }

    fn round(&mut self, mut rounds: Rounds<M::Cursor>) -> Result<Option<u64>, Fault> {
        let is_over = matches!(rounds.over, Over::Numbers { next, count } if next == count);
        if !is_over && !self.takes_round() {
            return Ok(self.end_rounds(match rounds.over {
                Over::Numbers { next, .. } => next,
                Over::Elements { count, .. } => count,
            }));
        }
        match &mut rounds.over {
            Over::Numbers { next, count } => {
                if next == count {
                    return Ok(self.end_rounds(*count));
                }
                [self.registers[1], self.registers[2]] = [*next, rounds.context];
                *next += 1;
            }
            Over::Elements { name, map, at, count } => {
                let Some([key, value]) = self.memory.next_element(*map, at) else {
                    return Ok(self.end_rounds(*count));
                };
                *count += 1;
                self.registers[1..5].copy_from_slice(&[*name, key, value, rounds.context]);
            }
        }
        self.enter(rounds.callback, Some(rounds))
    }

    /// The helper answers; the program goes on.
    fn end_rounds(&mut self, answer: u64) -> Option<u64> {
        self.registers[0] = answer;
        self.pc += 1;
        None
    }

    fn function(&self, value: u64) -> Result<usize, Fault> {
        let slot = value ^ HANDLE;
        let known = usize::try_from(slot).ok().filter(|slot| *slot < self.slots());
        known.ok_or(Fault::Callback { pc: self.pc, value })
    }
}
