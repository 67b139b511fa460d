//! Helpers that call a function of the program back: the rounds of `loop`.
//!
//! The address of a function is a [`handle`] that is no address at all, so that a program that goes on with it as with
//! one is found out. A round is a call whose return comes back here.

use weir_ebpf::helper::LOOP_ROUNDS_MAX;

use crate::Fault;
use crate::machine::Machine;

/// A helper's rounds that are under way.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rounds {
    callback: usize,
    /// The round at hand, and how many there are.
    index: u64,
    count: u64,
    context: u64,
}

/// Upper bits of a handle; no address of a process has them.
const HANDLE: u64 = 0x8f0c << 48;

/// What a program holds as the address of the function at instruction `slot`.
pub(crate) fn handle(slot: usize) -> u64 {
    HANDLE | slot as u64
}

/// Errors of `loop`, as it answers them.
const EINVAL: i64 = 22;
const E2BIG: i64 = 7;

impl Machine<'_> {
    /// `loop`: r1 rounds of r2 with r3; flags in r4.
    pub(crate) fn begin_loop(&mut self) -> Result<Option<u64>, Fault> {
        let [_, count, value, context, flags, ..] = self.registers;
        let callback = self.function(value)?;
        let error = match (flags, count) {
            (1.., _) => Some(-EINVAL),
            (0, count) if count > LOOP_ROUNDS_MAX.into() => Some(-E2BIG),
            _ => None,
        };
        if let Some(error) = error {
            return Ok(self.end_rounds(error as u64));
        }
        self.round(Rounds { callback, index: 0, count, context })
    }

    /// A callback has returned.
    pub(crate) fn end_round(&mut self, rounds: Rounds, is_last: bool) -> Result<Option<u64>, Fault> {
        let index = rounds.index + 1;
        self.round(Rounds { index, count: if is_last { index } else { rounds.count }, ..rounds })
    }

    fn round(&mut self, rounds: Rounds) -> Result<Option<u64>, Fault> {
        if rounds.index == rounds.count {
            return Ok(self.end_rounds(rounds.index));
        }
        self.registers[1] = rounds.index;
        self.registers[2] = rounds.context;
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
