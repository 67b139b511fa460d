//! Counts the calls that have not come back yet at the moment when probes are taken out.
//!
//! In: a stopped target whose gates are closed, and what every return point of weir's trampolines waits for. Out: for
//! each program how many returns it will not see because they come later.
//!
//! A call that is called through has its return point on the stack of its thread, with what is kept right above; one
//! whose return address is replaced has a stub there, whose record holds the same. Found on the stacks that the
//! stopped threads run on, and on those that their signal frames lead to.
//!
//! Guaranteed where no thread is inside of a trampoline or a program ([`is_between`]): no call that is over, and whose
//! stack was used again since, is counted. A word that a call has left behind on the stack, which a caller has
//! not written over in its own frame, looks like one that waits; so the numbers are at most as large as they should be
//! only together with what was counted at entries and returns (the reader's business). Not found: calls on stacks of
//! suspended fibres.

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;

use weir_trampoline::island::ReturnPoint;
use weir_trampoline::replace::{HELD_RECORD_BYTES, Held, Table};

use crate::limits::TAIL_DEPTH_MAX;
use crate::process::stop::Stopped;
use crate::process::target::Target;
use crate::refusal::Error;

/// Calls that wait, by index of the executable that wants their return.
pub type Pending = BTreeMap<usize, u64>;

/// Return points by address.
pub(crate) type ReturnPoints = HashMap<u64, ReturnPoint>;

/// In what is kept: how many words it has.
const KEPT_WORDS: usize = 6;
/// Bytes of what is kept that say anything here.
const READ_BYTES: usize = 24;

/// No thread is on its way through weir's code: each has counted its call and is behind it, or has not begun to.
pub(crate) fn is_between(
    target: &Target,
    stopped: &Stopped,
    points: &ReturnPoints,
    table: Option<&Table>,
    islands: &[Range<u64>],
) -> Result<bool, Error> {
    let inside = |address: u64| islands.iter().any(|island| island.contains(&address));
    let waits = |word: u64| points.contains_key(&word) || table.is_some_and(|t| t.record_of(word).is_some());
    let stacks = target.stacks();
    for tid in stopped.threads() {
        let registers = stopped.registers(tid)?;
        let is_on_its_way = |word: u64| inside(word) && !waits(word);
        let found = target.scan_stack(&stacks, &registers, &is_on_its_way);
        if inside(registers.instruction_pointer()) || !found.words.is_empty() {
            return Ok(false);
        }
    }
    Ok(true)
}

/// How many returns each program waits for.
pub(crate) fn count(
    target: &Target,
    stopped: &Stopped,
    points: &ReturnPoints,
    table: Option<&Table>,
) -> Result<Pending, Error> {
    let waits = |word: u64| points.contains_key(&word) || table.is_some_and(|t| t.record_of(word).is_some());
    // Stacks of several threads may lie in one mapping: each word once.
    let mut words: BTreeMap<u64, u64> = BTreeMap::new();
    let stacks = target.stacks();
    for tid in stopped.threads() {
        let registers = stopped.registers(tid)?;
        let found = target.scan_stack(&stacks, &registers, &waits);
        words.extend(found.places);
    }
    let mut pending = Pending::new();
    for (&at, word) in &words {
        if points.contains_key(word) {
            let mut kept = [0; READ_BYTES];
            let read = target.memory.read_some(at + 8, &mut kept).unwrap_or(0);
            note(&mut pending, points, *word, &kept[..read]);
        } else if let Some(table) = table {
            let mut record = table.record_of(*word);
            let mut is_head = true;
            // As long as tail calls nest; whatever the target has written there, it ends.
            for _ in 0..=TAIL_DEPTH_MAX {
                let Some(held) = record.and_then(|at| held(target, table, at)) else { break };
                if is_head && held.slot != at {
                    break;
                }
                note(&mut pending, points, held.back, &held.kept);
                (record, is_head) = (held.next, false);
            }
        }
    }
    Ok(pending)
}

/// What the record at an address holds, if it is in use.
fn held(target: &Target, table: &Table, record: u64) -> Option<Held> {
    let mut bytes = [0; HELD_RECORD_BYTES];
    target.memory.read(record, &mut bytes).ok()?;
    table.held(&bytes)
}

/// One more for each program that waits at `point`, as what is `kept` says.
fn note(pending: &mut Pending, points: &ReturnPoints, point: u64, kept: &[u8]) {
    let Some(point) = points.get(&point) else { return };
    if kept.get(KEPT_WORDS).is_none_or(|&words| u32::from(words) * 8 != point.kept_bytes) {
        return;
    }
    for (program, wants) in &point.wanting {
        let is_wanted = wants.is_none_or(|at| kept.get(at as usize).is_some_and(|&byte| byte != 0));
        *pending.entry(program.executable).or_default() += u64::from(is_wanted);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_trampoline::program::{Attach, When};

    const POINT: u64 = 0x7f00_1000;

    fn points() -> ReturnPoints {
        let attach = |executable, when| Attach { executable, cookie: 0, when };
        let wanting = vec![
            (attach(3, When::Session), Some(0)),
            (attach(4, When::Session), Some(8)),
            (attach(5, When::Return), None),
        ];
        HashMap::from([(POINT, ReturnPoint { kept_bytes: 24, wanting })])
    }

    /// What `kept` at the return point counts for programs 3, 4 and 5.
    fn check(point: u64, kept: &[u8], expected: [u64; 3]) {
        let mut pending = Pending::new();
        note(&mut pending, &points(), point, kept);
        assert_eq!([3, 4, 5].map(|at| pending.get(&at).copied().unwrap_or(0)), expected, "{kept:?}");
    }

    #[test]
    fn those_that_still_want_the_return_wait() {
        check(POINT, &[1, 1, 1, 1, 1, 1, 3, 0, 1, 1], [1, 1, 1]);
        check(POINT, &[0, 1, 1, 1, 1, 1, 3, 9, 1, 1], [0, 1, 1]);
        check(POINT, &[1, 1, 1, 1, 1, 1, 3, 0, 0, 1], [1, 0, 1]);
        // Cut off.
        check(POINT, &[1, 1, 1, 1, 1, 1, 3], [1, 0, 1]);
    }

    #[test]
    fn words_that_only_look_like_it_do_not_count() {
        check(POINT, &[1, 1, 1, 1, 1, 1, 5, 0, 1, 1], [0; 3]);
        check(POINT, &[1, 1], [0; 3]);
        check(POINT + 1, &[1, 1, 1, 1, 1, 1, 3, 0, 1, 1], [0; 3]);
    }
}
