//! Undoes what a weir that is gone has left in a process.
//!
//! In: a process with weir's segments or code in it, of any version. Both may say anything: the target can write them. So what is
//! undone is read off the process itself: its islands are the mappings of weir's code, and a patch is a jump into one
//! of them (or a short jump to such a jump) that stands in the text of a file, where the file has something else. The file's bytes are put back (text
//! that differs from its file was never patched). The journal is asked only where the file is out of reach, and for the
//! semaphores of static probes, and which jumps were hooks of weir's own, which are not told as functions; that of another version is
//! not asked: its semaphores stay raised, and the report says so.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;

use weir_plan::limits::CALLED_BYTES;
use weir_plan::window::Write;
use weir_rt::foreign::Corrupt;
use weir_rt::segment::{JournalEntry, JournalState, Reads};
use weir_symbols::maps::Mapping;
use weir_symbols::regular;
use weir_trampoline::called::{self, Led};
use weir_trampoline::unwind::hook;

use crate::attach::counters;
use crate::attach::lists;
use crate::attach::undo::{Patch, Places, Report, Undo, hold};
use crate::limits::{HOLE_REACH, JUMP_BYTES, JUMP_REACH, JUMPS_MAX, SHORT_JUMP_BYTES, TEXT_BYTES_MAX};
use crate::process::mapped::{is_weirs, islands};
use crate::process::sys;
use crate::process::target::{self, Target};
use crate::process::{scan, vm_sharing};
use crate::refusal::Error;

/// Restores process `pid`: `weir detach -p PID`. Never a weir, whatever its targets have written into the segments that
/// it has of them.
pub fn detach(pid: i32) -> Result<Report, Error> {
    target::check_to_undo(pid)?;
    let mappings = target::read_mappings(pid)?;
    if !scan::has_probes(pid, &mappings)? {
        return Err(Error::NotProbed { pid });
    }
    let mut target = Target::open_to_undo(pid)?;
    restore(&mut target)
}

pub(crate) fn restore(target: &mut Target) -> Result<Report, Error> {
    target.refresh()?;
    end_direct_reads(target)?;
    // Of all weirs that were here: none of them lives, and what one has left behind may lead to another's.
    let segments = scan::segments(target.pid, &target.mappings)?;
    alone(target.pid, &segments)?;
    let mut maps = scan::lent_maps(target.pid, &target.mappings)?;
    let (mut journals, mut other_version) = (Vec::with_capacity(segments.len()), None);
    let mut left = weir_rt::limits::JOURNAL_CAPACITY_MAX as usize;
    for segment in &segments {
        // What more there is than any weir writes is the target's: of that nothing is believed.
        let journal = if left > 0 { segment.journal(target.pid)? } else { Vec::new() };
        left = left.saturating_sub(journal.len());
        journals.push(journal);
        if let Err(Corrupt::Version { version, .. }) = segment.header {
            other_version = Some(version);
        }
    }
    maps.extend(segments.iter().map(|segment| segment.mapping.start.0..segment.mapping.end.0));
    let codes = codes(target);
    let found = islands(&target.mappings);
    let islands = found.into_iter().map(|island| island.range(&target.memory)).collect();
    let mut undo = Undo {
        segments: maps,
        islands,
        patches: Vec::new(),
        unknown: Vec::new(),
        counters: Vec::new(),
        places: Places::default(),
    };
    let own = own_hooks(&journals);
    let journaled = Journaled::of(&journals);
    let islands_of_weir = Ranges::of(undo.islands.iter().cloned());
    let mut scan = Scan { islands: &islands_of_weir, bytes: TEXT_BYTES_MAX, jumps: JUMPS_MAX };
    let mut patched = HashSet::new();
    for mapping in target.mappings.iter().filter(|mapping| may_be_patched(mapping, &islands_of_weir)) {
        let jumps = scan.jumps(target, mapping)?;
        if jumps.is_empty() {
            continue;
        }
        patched.insert(mapping.identity());
        let file = open_mapped(target, mapping);
        for (address, now) in jumps {
            let before =
                |address: u64, now: &[u8]| bytes_before(mapping, file.as_ref(), &journaled, address, now);
            match before(address, &now) {
                Some(old) if old == now => {}
                Some(old) => {
                    let entry = short_jump_to(target, address, before)
                        .map(|entry| Patch { is_probe: !own.contains(&entry.address), ..entry });
                    let leads_from = entry.as_ref().map(|entry| entry.address);
                    undo.patches.extend(entry);
                    let is_hook = is_hook_in(&codes, target, address, &now);
                    let (new, is_probe) = (now.into(), !is_hook && !own.contains(&address));
                    let (is_called, file) = (false, None);
                    undo.patches.push(Patch {
                        address,
                        old,
                        new,
                        leads_from,
                        is_hook,
                        is_probe,
                        is_called,
                        file,
                    });
                }
                None => undo.unknown.push(address),
            }
        }
    }
    undo.patches.extend(lists(target, &islands_of_weir));
    for journal in &journals {
        undo.counters.extend(counters::raised(journal, &target.memory, &target.mappings, &patched));
    }
    undo.run(target).map(|report| Report { other_version, ..report })
}

/// Places that lead to lists of those who are called in `islands`. The islands say which, and what was there before: of data neither
/// the file nor, in a forked child, its parent's journal does.
fn lists(target: &Target, islands: &Ranges) -> Vec<Patch> {
    let mut patches: Vec<Patch> = Vec::new();
    let mut left = TEXT_BYTES_MAX;
    for island in self::islands(&target.mappings) {
        let bytes = island.code.end - island.code.start;
        let Some(rest) = left.checked_sub(bytes) else { break };
        left = rest;
        let mut code = vec![0; usize::try_from(bytes).unwrap_or(0)];
        if target.memory.read(island.code.start, &mut code).is_err() {
            continue;
        }
        for Led { place, list, old } in called::places(&code, island.code.start).take(JUMPS_MAX) {
            let mut new = vec![0; CALLED_BYTES];
            let stands = lists::may_stand(&target.mappings, place)
                && target.memory.read(place, &mut new).is_ok()
                && lists::list(&new) == list;
            if stands && patches.len() < JUMPS_MAX {
                // One that goes too is not restored.
                let is_gone = islands.contains(lists::list(&old));
                let old = if is_gone { vec![0; CALLED_BYTES] } else { old.to_vec() };
                let write = Write { address: place, old, new };
                patches.push(Patch { is_called: true, ..Patch::of(&write, None) });
            }
        }
    }
    patches
}

/// Where jumps stand that weir needs itself, as far as the journals say.
fn own_hooks(journals: &[Vec<JournalEntry>]) -> HashSet<u64> {
    let entries = journals.iter().flatten().filter(|entry| entry.state != JournalState::Undone);
    entries.filter(|entry| entry.is_own).map(|entry| entry.address).collect()
}

/// What watches over memory is about to go: no load begins any more, and none is under way.
fn end_direct_reads(target: &mut Target) -> Result<(), Error> {
    let segments = scan::segments(target.pid, &target.mappings)?;
    alone(target.pid, &segments)?;
    // A fork child has its parent's, which is not about it.
    let is_own = |segment: &&scan::Segment| {
        segment.header.as_ref().is_ok_and(|header| header.identity.target_pid as i32 == target.pid)
    };
    let starts: Vec<u64> = segments.iter().filter(is_own).map(|segment| segment.mapping.start.0).collect();
    let closed = if target.taken_from.is_some() { Reads::TAKEN_OVER } else { Reads::CLOSED };
    for start in &starts {
        // Fails only where it is gone.
        let _ = target.memory.write(start + Reads::STATE_OFFSET, &closed.to_le_bytes());
    }
    if !starts.is_empty() {
        let stopped = hold(target)?;
        target.resume_between(stopped);
    }
    Ok(())
}

/// Refuses a process that runs in the memory of one that is traced: what is undone here is undone there.
fn alone(pid: i32, segments: &[scan::Segment]) -> Result<(), Error> {
    let others = segments.iter().filter_map(|segment| Some(segment.owner()?.target_pid as i32));
    let lives = |other: i32| sys::stat(&format!("/proc/{other}/stat")).is_ok();
    // Where the kernel does not say, it may be so.
    let shares =
        |other: &i32| *other != pid && lives(*other) && vm_sharing::share_memory(pid, *other) != Some(false);
    match others.into_iter().find(shares) {
        Some(other) => Err(Error::SharesMemory { pid, other }),
        None => Ok(()),
    }
}

/// Text of a file within reach of an island.
fn may_be_patched(mapping: &Mapping, islands: &Ranges) -> bool {
    let near = mapping.start.0.saturating_sub(JUMP_REACH)..mapping.end.0.saturating_add(JUMP_REACH);
    mapping.execute && mapping.inode != 0 && !is_weirs(mapping) && islands.meets(&near)
}

/// Ranges of addresses; those that overlap or touch are one.
struct Ranges(Vec<Range<u64>>);

impl Ranges {
    fn of(ranges: impl Iterator<Item = Range<u64>>) -> Ranges {
        let mut ranges: Vec<Range<u64>> = ranges.filter(|range| range.start < range.end).collect();
        ranges.sort_by_key(|range| range.start);
        let mut merged: Vec<Range<u64>> = Vec::with_capacity(ranges.len());
        for range in ranges {
            match merged.last_mut().filter(|last| range.start <= last.end) {
                Some(last) => last.end = last.end.max(range.end),
                None => merged.push(range),
            }
        }
        Ranges(merged)
    }

    fn contains(&self, address: u64) -> bool {
        self.0[self.0.partition_point(|range| range.end <= address)..]
            .first()
            .is_some_and(|range| range.start <= address)
    }

    fn meets(&self, other: &Range<u64>) -> bool {
        self.0[self.0.partition_point(|range| range.end <= other.start)..]
            .first()
            .is_some_and(|range| range.start < other.end)
    }
}

/// The search for jumps into islands, with what is left of its bounds: a target can map as much text as it likes, and forge both.
struct Scan<'a> {
    islands: &'a Ranges,
    bytes: u64,
    jumps: usize,
}

impl Scan<'_> {
    /// Every `jmp rel32` of `mapping`, at any byte, that leads into an island: its address and bytes.
    fn jumps(&mut self, target: &Target, mapping: &Mapping) -> Result<Vec<(u64, [u8; JUMP_BYTES])>, Error> {
        const PIECE: usize = 1 << 20;
        let too_much = |what: &str| Error::Corrupt { pid: target.pid, detail: format!("there is {what}") };
        let islands = self.islands;
        let low = islands.0.first().map_or(0, |island| island.start.saturating_sub(JUMP_REACH));
        let high = islands.0.last().map_or(0, |island| island.end.saturating_add(JUMP_REACH));
        let (mut at, end) = (mapping.start.0.max(low), mapping.end.0.min(high));
        let mut found = Vec::new();
        let mut piece = vec![0; PIECE];
        while at < end {
            let wanted = PIECE.min((end - at) as usize);
            let Ok(length) = target.memory.read_some(at, &mut piece[..wanted]) else { break };
            let left = self.bytes.checked_sub(length as u64);
            self.bytes = left.ok_or_else(|| too_much("more text than is searched"))?;
            for offset in memchr::memchr_iter(0xe9, &piece[..length]) {
                let Some(&[_, a, b, c, d]) = piece[..length].get(offset..offset + JUMP_BYTES) else { break };
                let address = at + offset as u64;
                if islands.contains(target_of(address, [a, b, c, d])) {
                    let left = self.jumps.checked_sub(1);
                    self.jumps =
                        left.ok_or_else(|| too_much("more jumps into weir's code than weir makes"))?;
                    found.push((address, [0xe9, a, b, c, d]));
                }
            }
            if length < JUMP_BYTES {
                break;
            }
            at += (length + 1 - JUMP_BYTES) as u64;
        }
        Ok(found)
    }
}

/// What the journals say of an address.
struct Journaled<'a>(HashMap<u64, Vec<&'a JournalEntry>>);

impl<'a> Journaled<'a> {
    fn of(journals: &'a [Vec<JournalEntry>]) -> Journaled<'a> {
        let mut by_address: HashMap<u64, Vec<&JournalEntry>> = HashMap::new();
        journals.iter().flatten().for_each(|entry| by_address.entry(entry.address).or_default().push(entry));
        Journaled(by_address)
    }

    /// What stood there before these bytes.
    fn before(&self, address: u64, now: &[u8]) -> Option<Vec<u8>> {
        let entry = self.0.get(&address)?.iter().find(|entry| entry.new == now)?;
        Some(entry.old.clone())
    }
}

/// Where the jump at `address` with this displacement leads to.
fn target_of(address: u64, displacement: [u8; 4]) -> u64 {
    let next = address.wrapping_add(JUMP_BYTES as u64);
    next.wrapping_add_signed(i64::from(i32::from_le_bytes(displacement)))
}

/// Whether the jump at `address` leads to what answers unwinders: in code of weir's.
pub(crate) fn is_hook(target: &Target, address: u64, jump: &[u8; JUMP_BYTES]) -> bool {
    is_hook_in(&codes(target), target, address, jump)
}

/// Where code of weirs' is mapped.
fn codes(target: &Target) -> Ranges {
    Ranges::of(islands(&target.mappings).into_iter().map(|island| island.code))
}

fn is_hook_in(codes: &Ranges, target: &Target, address: u64, jump: &[u8; JUMP_BYTES]) -> bool {
    let &[0xe9, a, b, c, d] = jump else { return false };
    let to = target_of(address, [a, b, c, d]);
    codes.contains(to) && target.memory.read_u64(to.wrapping_sub(8)).is_ok_and(|word| word == hook::MARK)
}

/// The short jump of weir's that leads to the jump in the hole at `hole`, if it is one.
fn short_jump_to(
    target: &Target,
    hole: u64,
    before: impl Fn(u64, &[u8]) -> Option<Vec<u8>>,
) -> Option<Patch> {
    let reach = HOLE_REACH + 1 + SHORT_JUMP_BYTES as u64;
    let start = hole.saturating_sub(reach);
    let mut around = vec![0; 2 * reach as usize];
    let length = target.memory.read_some(start, &mut around).ok()?;
    around[..length].windows(SHORT_JUMP_BYTES).enumerate().find_map(|(offset, now)| {
        let &[0xeb, distance] = now else { return None };
        let address = start + offset as u64;
        let to = (address + SHORT_JUMP_BYTES as u64).wrapping_add_signed(i64::from(distance as i8));
        let old = before(address, now).filter(|old| to == hole && old != now)?;
        Some(Patch {
            address,
            old,
            new: now.to_vec(),
            leads_from: None,
            is_hook: false,
            is_probe: true,
            is_called: false,
            file: None,
        })
    })
}

/// What stood at `address` before the jump `now`.
fn bytes_before(
    mapping: &Mapping,
    file: Option<&File>,
    journaled: &Journaled<'_>,
    address: u64,
    now: &[u8],
) -> Option<Vec<u8>> {
    let mut bytes = vec![0; now.len()];
    let offset = mapping.offset.0.checked_add(address.checked_sub(mapping.start.0)?)?;
    if file.is_some_and(|file| file.read_exact_at(&mut bytes, offset).is_ok()) {
        return Some(bytes);
    }
    journaled.before(address, now)
}

/// The file that `mapping` shows: by the link in map_files, which leads to it even where its path does not any more
/// but needs a capability, else by its path.
fn open_mapped(target: &Target, mapping: &Mapping) -> Option<File> {
    let thread = sys::living_thread(target.pid);
    let link = format!("/proc/{thread}/map_files/{:x}-{:x}", mapping.start.0, mapping.end.0);
    let by_path = || {
        // A path may lead to anything by now, and only that file will do.
        let path = target.root().join(mapping.path.trim_start_matches('/'));
        let file = regular::open(&path)?;
        let is_same = file.metadata()?.ino() == mapping.inode && !mapping.deleted;
        if is_same { Ok(file) } else { Err(io::Error::from(io::ErrorKind::NotFound)) }
    };
    regular::open(Path::new(&link)).or_else(|_| by_path()).ok()
}
