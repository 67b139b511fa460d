//! Undoes what a weir that is gone has left in a process.
//!
//! In: a process with weir's segments or code in it, of any version. Both may say anything: the target can write them. So what is
//! undone is read off the process itself: its islands are the mappings of weir's code, and a patch is a jump into one
//! of them (or a short jump to such a jump) that stands in the text of a file, where the file has something else. The file's bytes are put back (text
//! that differs from its file was never patched). The journal is asked only where the file is out of reach, and for the
//! semaphores of static probes, and which jumps were hooks of weir's own, which are not told as functions; that of another version is
//! not asked: its semaphores stay raised, and the report says so.
//!
//! Beside it there may be weirs that run: what is theirs stays, and what lies under theirs ([`crate::attach::gone`]). A jump of one
//! that is gone gives way to that of another under it.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;

use weir_plan::limits::CALLED_BYTES;
use weir_plan::window::Write;
use weir_rt::foreign::Corrupt;
use weir_rt::segment::{JournalEntry, JournalState};
use weir_symbols::maps::Mapping;
use weir_symbols::regular;
use weir_trampoline::called::{self, Led};
use weir_trampoline::unwind::hook;

use crate::attach::counters;
use crate::attach::gone::{self, Claimed, Found, alone};
use crate::attach::lists;
use crate::attach::others::{code_of, destination};
use crate::attach::undo::{Patch, Places, Report, Undo};
use crate::limits::{
    HOLE_REACH, JUMP_BYTES, JUMP_REACH, JUMPS_MAX, LAYERS_MAX, SHORT_JUMP_BYTES, TEXT_BYTES_MAX,
};
use crate::process::mapped::{Island, is_weirs};
use crate::process::scan;
use crate::process::sys;
use crate::process::target::{self, Target};
use crate::refusal::Error;

/// Restores process `pid`: `weir detach -p PID`. Never a weir, whatever its targets have written into the segments that
/// it has of them; and nothing of weirs that run.
pub fn detach(pid: i32) -> Result<Report, Error> {
    target::check_to_undo(pid)?;
    let mappings = target::read_mappings(pid)?;
    if !scan::has_probes(pid, &mappings)? {
        return Err(Error::NotProbed { pid });
    }
    let mut target = Target::open_to_undo(pid)?;
    restore(&mut target)
}

/// Whether a weir that is gone has left something in process `pid`, beside what others have there.
pub fn is_left(pid: i32) -> Result<bool, Error> {
    let mappings = target::read_mappings(pid)?;
    Ok(scan::has_probes(pid, &mappings)? && gone::is_in(pid, &mappings, None)?)
}

/// Takes out what weirs that are gone have put into the target, but for what lies under the probes of others.
pub(crate) fn restore(target: &mut Target) -> Result<Report, Error> {
    target.refresh()?;
    let claimed = gone::claim(target)?;
    let report = restore_claimed(target, &claimed);
    gone::release(target, &claimed);
    report
}

fn restore_claimed(target: &mut Target, claimed: &Claimed) -> Result<Report, Error> {
    target.refresh()?;
    let segments = scan::segments(target.pid, &target.mappings)?;
    alone(target.pid, &segments)?;
    let found = Found::of(target, &segments, claimed)?;
    found.shut_kept(target);
    let late = found.followers(target);
    let kept = found.kept.len();
    let journals: Vec<Vec<JournalEntry>> = found.going.iter().map(|weir| weir.journal.clone()).collect();
    let other_version = found.going.iter().find_map(|weir| match weir.segment.header {
        Err(Corrupt::Version { version, .. }) => Some(version),
        _ => None,
    });
    let mut maps = found.lent_maps(target)?;
    maps.extend(found.going.iter().map(|weir| weir.range()));
    let codes = Ranges::of(code_of(target, |_| true).into_iter());
    let going: Vec<Island> = found.islands(target);
    let code: Vec<Range<u64>> = going.iter().map(|island| island.code.clone()).collect();
    let islands = going.into_iter().map(|island| island.range(&target.memory)).collect();
    let files = target.mappings.iter().filter(|mapping| is_weirs(mapping));
    let files = Some(files.map(|mapping| (mapping.start.0, mapping.inode)).collect());
    let mut undo = Undo {
        segments: maps,
        islands,
        files,
        late,
        patches: Vec::new(),
        unknown: Vec::new(),
        counters: Vec::new(),
        places: Places::default(),
    };
    if undo.segments.is_empty() && undo.islands.is_empty() {
        return Ok(Report { other_version, kept, ..Report::default() });
    }
    let own = own_hooks(&journals);
    let journaled = Journaled::of(&journals, &codes, &code);
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
                    // Where another's jump comes to stand in the hole, that is to be led to.
                    let is_anothers = destination(address, &old).is_some_and(|to| codes.contains(to));
                    let entry = (!is_anothers).then(|| short_jump_to(target, address, before)).flatten();
                    let entry = entry.map(|entry| Patch { is_probe: !own.contains(&entry.address), ..entry });
                    let leads_from = entry.as_ref().map(|entry| entry.address);
                    undo.patches.extend(entry);
                    let is_hook = is_hook_in(&codes, target, address, &now);
                    let (new, is_probe) = (now.to_vec(), !is_hook && !own.contains(&address));
                    let write = Write { address, old, new };
                    undo.patches.push(Patch { is_hook, is_probe, ..Patch::of(&write, leads_from) });
                }
                None => undo.unknown.push(address),
            }
        }
    }
    undo.patches.extend(lists(target, &code));
    for journal in &journals {
        undo.counters.extend(counters::raised(journal, &target.memory, &target.mappings, &patched));
    }
    undo.run(target).map(|report| Report { other_version, kept, ..report })
}

/// Places that lead to lists of those who are called in this `code`. The islands say which, and what was there before: of data neither
/// the file nor, in a forked child, its parent's journal does.
fn lists(target: &Target, code: &[Range<u64>]) -> Vec<Patch> {
    let mut found: Vec<Led> = Vec::new();
    let mut left = TEXT_BYTES_MAX;
    for range in code {
        let bytes = range.end - range.start;
        let Some(rest) = left.checked_sub(bytes) else { break };
        left = rest;
        let mut code = vec![0; usize::try_from(bytes).unwrap_or(0)];
        if target.memory.read(range.start, &mut code).is_ok() {
            found.extend(called::places(&code, range.start).take(JUMPS_MAX - found.len()));
        }
    }
    let by_list: HashMap<(u64, u64), &Led> = found.iter().map(|led| ((led.place, led.list), led)).collect();
    let is_going = |list: u64| code.iter().any(|range| range.contains(&list));
    let mut patches: Vec<Patch> = Vec::new();
    for led in &found {
        let mut new = vec![0; CALLED_BYTES];
        let stands = lists::may_stand(&target.mappings, led.place)
            && target.memory.read(led.place, &mut new).is_ok()
            && lists::list(&new) == led.list;
        if !stands {
            continue;
        }
        // What lies under a list that goes too.
        let mut old = led.old;
        for _ in 0..LAYERS_MAX {
            let Some(under) = by_list.get(&(led.place, lists::list(&old))) else { break };
            old = under.old;
        }
        let old = if is_going(lists::list(&old)) { vec![0; CALLED_BYTES] } else { old.to_vec() };
        let write = Write { address: led.place, old, new };
        patches.push(Patch { is_called: true, ..Patch::of(&write, None) });
    }
    patches
}

/// Where jumps stand that weir needs itself, as far as the journals say.
fn own_hooks(journals: &[Vec<JournalEntry>]) -> HashSet<u64> {
    journals.iter().flatten().filter(|entry| entry.is_own).map(|entry| entry.address).collect()
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
                let Some(jump) = piece[..length].get(offset..).and_then(|rest| rest.first_chunk()) else {
                    break;
                };
                let address = at + offset as u64;
                if destination(address, jump).is_some_and(|to| islands.contains(to)) {
                    let left = self.jumps.checked_sub(1);
                    self.jumps =
                        left.ok_or_else(|| too_much("more jumps into weir's code than weir makes"))?;
                    found.push((address, *jump));
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
struct Journaled<'a> {
    entries: HashMap<u64, Vec<&'a JournalEntry>>,
    /// Code of all weirs, and that of those which go.
    codes: &'a Ranges,
    going: Ranges,
}

impl<'a> Journaled<'a> {
    fn of(journals: &'a [Vec<JournalEntry>], codes: &'a Ranges, going: &[Range<u64>]) -> Journaled<'a> {
        let mut entries: HashMap<u64, Vec<&JournalEntry>> = HashMap::new();
        journals.iter().flatten().for_each(|entry| entries.entry(entry.address).or_default().push(entry));
        Journaled { entries, codes, going: Ranges::of(going.iter().cloned()) }
    }

    /// What stood there before these bytes.
    fn before(&self, address: u64, now: &[u8]) -> Option<Vec<u8>> {
        let entries = self.entries.get(&address)?;
        // A jump's last bytes may be the text's own. An entry that is undone says what was there at another time.
        let is_it = |entry: &&&JournalEntry| now.starts_with(&entry.new) && entry.old != entry.new;
        let stands = |entry: &&&JournalEntry| is_it(entry) && entry.state != JournalState::Undone;
        let entry = entries.iter().find(stands).or_else(|| entries.iter().find(is_it))?;
        Some([&entry.old[..], &now[entry.new.len()..]].concat())
    }

    /// The jump of a weir that stays, where one lies under these bytes.
    fn under(&self, address: u64, now: &[u8]) -> Option<Vec<u8>> {
        let mut old = self.before(address, now)?;
        for _ in 0..LAYERS_MAX {
            let to = destination(address, &old)?;
            if !self.going.contains(to) {
                return self.codes.contains(to).then_some(old);
            }
            old = self.before(address, &old)?;
        }
        None
    }
}

fn is_hook_in(codes: &Ranges, target: &Target, address: u64, jump: &[u8; JUMP_BYTES]) -> bool {
    let to = destination(address, jump).filter(|to| codes.contains(*to));
    to.is_some_and(|to| target.memory.read_u64(to.wrapping_sub(8)).is_ok_and(|word| word == hook::MARK))
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
        Some(Patch::of(&Write { address, old, new: now.to_vec() }, None))
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
    if let Some(jump) = journaled.under(address, now) {
        return Some(jump);
    }
    let mut bytes = vec![0; now.len()];
    let offset = mapping.offset.0.checked_add(address.checked_sub(mapping.start.0)?)?;
    if file.is_some_and(|file| file.read_exact_at(&mut bytes, offset).is_ok()) {
        return Some(bytes);
    }
    // Below all that go.
    let mut old = journaled.before(address, now)?;
    for _ in 0..LAYERS_MAX {
        match destination(address, &old) {
            Some(to) if journaled.going.contains(to) => old = journaled.before(address, &old)?,
            _ => return Some(old),
        }
    }
    None
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
    // To its program a link leads that needs no capability.
    let of_program = || regular::open(&target::link_to(target.pid, mapping));
    regular::open(Path::new(&link)).or_else(|_| by_path()).or_else(|_| of_program()).ok()
}
