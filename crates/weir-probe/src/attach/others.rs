//! What other weirs have written into a process: where this one writes too, the jump of the other is what it displaces.
//!
//! In: the segments and the code of weirs in a target. Out: text without what they have written, and which of their jumps stand where.
//! All of it may be anything.
//!
//! ```text
//! function:  jmp ──▶ the last one's trampoline ── displaced: jmp ──▶ the first one's ── displaced: what the file has
//! ```
//!
//! The last one takes its jump back as any other, and the jump that it found stands there again. Where the first leaves before it,
//! its gates are shut, and its code stays as the way to the function until nothing leads there any more. The last weir to leave
//! takes it out ([`restore`](crate::restore)).

use std::collections::BTreeMap;
use std::ops::Range;

use weir_plan::Refusal;
use weir_plan::limits::CALLED_BYTES;
use weir_plan::window::{Shape, Window, reach};
use weir_rt::segment::{JournalEntry, JournalState};
use weir_symbols::maps::Mapping;

use crate::attach::lists;
use crate::limits::{CODE_BYTES_MAX, JUMP_BYTES, LAYERS_MAX, SHORT_JUMP_BYTES, WINDOW_BYTES_MAX};
use crate::process::mapped::{Maker, is_records, islands};
use crate::process::memory::Memory;
use crate::process::scan::{self, Segment};
use crate::process::target::Target;

/// What other weirs have in a process.
#[derive(Debug, Default)]
pub(crate) struct Others {
    /// What they have written, by address.
    written: BTreeMap<u64, Vec<Written>>,
    /// Where their code is.
    code: Vec<Range<u64>>,
    /// One that runs has replaced return addresses, or may do so. Of two that do, neither would know its own.
    pub(crate) replace_returns: bool,
}

/// What is there, and what was before.
#[derive(Debug)]
struct Written {
    old: Vec<u8>,
    new: Vec<u8>,
}

impl Others {
    pub(crate) fn of(target: &Target) -> Others {
        let mut others = Others { code: code_of_others(target), ..Others::default() };
        if others.code.is_empty() {
            return others;
        }
        let segments = scan::segments(target.pid, &target.mappings).unwrap_or_default();
        let theirs: Vec<&Segment> =
            segments.iter().filter(|segment| segment.maker() != target.maker).collect();
        let journals = scan::journals(target.pid, theirs.iter().copied()).unwrap_or_default();
        for segment in theirs {
            let has_records =
                |mapping: &Mapping| is_records(mapping) && Maker::of_mapping(mapping) == segment.maker();
            others.replace_returns |=
                segment.stays(target.pid, None) && target.mappings.iter().any(has_records);
        }
        // What is undone may stand yet, where a thread is to pass there: the text says.
        let texts =
            journals.into_iter().flatten().filter(|entry| !entry.is_counter && entry.old != entry.new);
        for entry in texts {
            let written = Written { old: entry.old, new: entry.new };
            others.written.entry(entry.address).or_default().push(written);
        }
        others
    }

    /// `text` of `address` as the file has it: without what they have written there, and without what is `own`: where, what was there, and
    /// what is.
    pub(crate) fn bare<'a>(
        &'a self,
        own: impl Iterator<Item = (u64, &'a [u8], &'a [u8])> + Clone,
        address: u64,
        text: &[u8],
    ) -> Vec<u8> {
        let mut text = text.to_vec();
        let end = address.saturating_add(text.len() as u64);
        // Each layer once: the one above first.
        for _ in 0..LAYERS_MAX {
            let others = self.written.range(address..end);
            let others = others.flat_map(|(at, all)| all.iter().map(|w| (*at, &w.old[..], &w.new[..])));
            let mut is_changed = false;
            for (at, old, new) in own.clone().chain(others).filter(|(_, old, new)| old != new) {
                let at = at.checked_sub(address).and_then(|at| usize::try_from(at).ok());
                let there = at.and_then(|at| text.get_mut(at..at.checked_add(new.len())?));
                if let Some(there) = there.filter(|there| **there == *new) {
                    there.copy_from_slice(old);
                    is_changed = true;
                }
            }
            if !is_changed {
                break;
            }
        }
        text
    }

    /// What was written at a place, where the file has what is `bare`, does not stand there, nor under theirs: that text has come anew, or was put back.
    pub(crate) fn has_lost(&self, memory: &Memory, address: u64, new: &[u8], bare: &[u8]) -> bool {
        let mut now = vec![0; new.len()];
        if memory.read(address, &mut now).is_err() {
            return false;
        }
        for _ in 0..LAYERS_MAX {
            if now == new {
                return false;
            }
            if now == bare {
                return true;
            }
            let mut theirs = self.written.get(&address).into_iter().flatten();
            // Of whatever else stands there nothing is known.
            let Some(over) = theirs.find(|written| written.new == now && written.old != now) else {
                return false;
            };
            now.clone_from(&over.old);
        }
        false
    }

    /// The window of a function, or the same over the jump of another weir that stands there; an error where theirs are in the way.
    pub(crate) fn window_over(&self, memory: &Memory, bias: u64, window: Window) -> Result<Window, Refusal> {
        if self.code.is_empty() {
            return Ok(window);
        }
        let entry = window.address.wrapping_add(bias);
        let (lever, written) = match &window.shape {
            Shape::Short(hole) => (hole.address.wrapping_add(bias), JUMP_BYTES),
            Shape::Near | Shape::Punned { .. } | Shape::Called(_) => (entry, window.patch_bytes()),
        };
        let needed = window.displaced().chain(window.written()).chain(window.borrowed());
        let needed: Vec<u64> = needed.map(|at| at.wrapping_add(bias)).collect();
        if let Some(address) = self.in_the_way(memory, &needed, &[entry, lever]) {
            return Err(Refusal::Overlap { address });
        }
        let Some(jump) = self.jump(memory, lever) else {
            // It has another shape there.
            let is_taken = |at: &u64| {
                self.written
                    .get(at)
                    .is_some_and(|all| all.iter().any(|written| self.stands(memory, *at, &written.new)))
            };
            return match [entry, lever].iter().find(|at| is_taken(at)) {
                Some(&address) => Err(Refusal::Overlap { address }),
                None => Ok(window),
            };
        };
        let theirs = self.written.get(&lever).map_or(&[][..], |all| all);
        let is_alike = theirs.iter().any(|w| w.new.len() == written && self.stands(memory, lever, &w.new))
            && theirs.len() < LAYERS_MAX;
        let over = window.over(jump).filter(|_| is_alike);
        let over = over.filter(|window| self.stands(memory, entry, &window.covered()));
        over.ok_or(Refusal::Overlap { address: lever })
    }

    /// Where a patch of theirs stands that takes some of the bytes at `needed`, and is not at one of `places`: what it is written over,
    /// the rest of the instructions there, and what its jump borrows.
    pub(crate) fn in_the_way(&self, memory: &Memory, needed: &[u64], places: &[u64]) -> Option<u64> {
        let (first, last) = (*needed.iter().min()?, *needed.iter().max()?);
        let near = self.written.range(first.saturating_sub(WINDOW_BYTES_MAX as u64)..=last);
        near.filter(|(at, _)| !places.contains(at)).find_map(|(&at, all)| {
            let standing = all.iter().filter(|written| self.stands(memory, at, &written.new));
            let longest = standing.map(|written| match written.new.first() {
                Some(0xe9) => JUMP_BYTES,
                _ => written.new.len(),
            });
            let longest = longest.max()?;
            let mut code = vec![0; WINDOW_BYTES_MAX];
            let read = memory.read_some(at, &mut code).unwrap_or(0);
            let bytes = reach(&self.bare(std::iter::empty(), at, &code[..read]), longest)
                .min(WINDOW_BYTES_MAX) as u64;
            needed.iter().any(|needed| (at..at + bytes).contains(needed)).then_some(at)
        })
    }

    pub(crate) fn is_nothing(&self) -> bool {
        self.written.is_empty()
    }

    /// The jump at `address` into their code, if one stands there.
    fn jump(&self, memory: &Memory, address: u64) -> Option<[u8; JUMP_BYTES]> {
        jump_into(memory, address, &self.code)
    }

    fn stands(&self, memory: &Memory, address: u64, wanted: &[u8]) -> bool {
        let mut now = vec![0; wanted.len()];
        memory.read(address, &mut now).is_ok() && now == wanted
    }
}

/// No instruction begins at `address` any more: it lies behind the first byte of a jump into this `code`, or of one to a hole with such a
/// jump.
pub(crate) fn is_torn(memory: &Memory, code: &[Range<u64>], address: u64) -> bool {
    let is_near = |at: u64| jump_into(memory, at, code).is_some();
    let is_short = |at: u64| {
        let mut now = [0; SHORT_JUMP_BYTES];
        let is_one = memory.read(at, &mut now).is_ok() && now[0] == 0xeb;
        is_one && is_near((at + SHORT_JUMP_BYTES as u64).wrapping_add_signed(i64::from(now[1] as i8)))
    };
    let is_behind = || (1..JUMP_BYTES as u64).any(|before| is_near(address.wrapping_sub(before)));
    !code.is_empty() && (is_behind() || is_short(address.wrapping_sub(1)))
}

/// What this entry has displaced leads into this `code`.
pub(crate) fn has_displaced(memory: &Memory, entry: &JournalEntry, code: &[Range<u64>]) -> bool {
    let is_in = |to: u64| code.iter().any(|range| range.contains(&to));
    if entry.is_counter {
        return false;
    }
    if entry.old.len() == CALLED_BYTES {
        return is_in(lists::list(&entry.old));
    }
    // Of a jump whose last bytes are the text's own, those.
    let mut jump = [0; JUMP_BYTES];
    let Some((own, tail)) = jump.split_at_mut_checked(entry.old.len()) else { return false };
    own.copy_from_slice(&entry.old);
    let is_whole = memory.read(entry.address.wrapping_add(own.len() as u64), tail).is_ok();
    is_whole && destination(entry.address, &jump).is_some_and(is_in)
}

/// A weir whose segment is none of `segments` has displaced what leads into this `code`, or is about to. Also where that cannot be read.
pub(crate) fn is_displaced(target: &Target, segments: &[Range<u64>], code: &[Range<u64>]) -> bool {
    let Ok(all) = scan::segments(target.pid, &target.mappings) else { return true };
    let is_others = |segment: &&Segment| !segments.iter().any(|own| own.contains(&segment.mapping.start.0));
    let journals = scan::journals(target.pid, all.iter().filter(is_others));
    let leads_there = |entry: &JournalEntry| {
        entry.state != JournalState::Undone && has_displaced(&target.memory, entry, code)
    };
    journals.map_or(true, |journals| journals.iter().flatten().any(leads_there))
}

/// Code of weirs, but for that at `code`, from which a thread may go on to that: a jump leads there, or a list has something of it.
pub(crate) fn leading_into(target: &Target, code: &[Range<u64>]) -> Vec<Range<u64>> {
    let is_in = |to: u64| code.iter().any(|range| range.contains(&to));
    let mut others = code_of(target, |_| true);
    others.retain(|other| !is_in(other.start));
    others.retain(|other| {
        let mut bytes = vec![0; (other.end - other.start).min(CODE_BYTES_MAX) as usize];
        let read = target.memory.read_some(other.start, &mut bytes).unwrap_or(0);
        let bytes = &bytes[..read];
        let mut jumps = memchr::memchr_iter(0xe9, bytes);
        let is_jump = |at: usize| {
            let jump = bytes.get(at..at + JUMP_BYTES);
            jump.and_then(|jump| destination(other.start + at as u64, jump)).is_some_and(is_in)
        };
        let words = bytes.chunks_exact(8).map(|word| u64::from_le_bytes(word.try_into().expect("8 bytes")));
        jumps.any(is_jump) || words.into_iter().any(is_in)
    });
    others
}

/// Where the code of other weirs than the target's own is.
pub(crate) fn code_of_others(target: &Target) -> Vec<Range<u64>> {
    code_of(target, |maker| maker.is_none() || maker != target.maker)
}

/// Where the code is of those weirs in a process that are `wanted`, by whose it is.
pub(crate) fn code_of(target: &Target, wanted: impl Fn(Option<Maker>) -> bool) -> Vec<Range<u64>> {
    let islands = islands(&target.mappings).into_iter();
    islands.filter(|island| wanted(island.maker)).map(|island| island.code).collect()
}

/// The jump at `address` that leads into one of these, if one stands there.
pub(crate) fn jump_into(memory: &Memory, address: u64, code: &[Range<u64>]) -> Option<[u8; JUMP_BYTES]> {
    let mut now = [0; JUMP_BYTES];
    memory.read(address, &mut now).ok()?;
    let to = destination(address, &now)?;
    code.iter().any(|range| range.contains(&to)).then_some(now)
}

/// Where the `jmp rel32` at `address` leads to, if these bytes are one.
pub(crate) fn destination(address: u64, bytes: &[u8]) -> Option<u64> {
    let &[0xe9, a, b, c, d] = bytes else { return None };
    let next = address.wrapping_add(JUMP_BYTES as u64);
    Some(next.wrapping_add_signed(i64::from(i32::from_le_bytes([a, b, c, d]))))
}
