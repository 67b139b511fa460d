//! Undoes what a weir that is gone has left in a process.
//!
//! In: a process with weir's segment or code in it. Both may say anything: the target can write them. So what is
//! undone is read off the process itself: its islands are the mappings of weir's code, and a patch is a jump into one
//! of them (or a short jump to such a jump) that stands in the text of a file, where the file has something else. The file's bytes are put back (text
//! that differs from its file was never patched). The journal is asked only where the file is out of reach.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};

use nix::libc;
use weir_rt::foreign;
use weir_rt::segment::JournalEntry;
use weir_symbols::maps::Mapping;

use crate::attach::counters;
use crate::attach::undo::{Patch, Places, Report, Undo};
use crate::code::unwind::hook;
use crate::limits::{HOLE_REACH, JUMP_BYTES, JUMP_REACH, SHORT_JUMP_BYTES};
use crate::process::mapped::{is_weirs, islands};
use crate::process::scan;
use crate::process::sys;
use crate::process::target::{self, Target};
use crate::refusal::Error;

/// Restores process `pid`: `weir detach -p PID`.
pub fn detach(pid: i32) -> Result<Report, Error> {
    target::check(pid)?;
    let mappings = target::read_mappings(pid)?;
    if scan::segments(pid, &mappings)?.is_empty() && islands(&mappings).is_empty() {
        return Err(Error::NotProbed { pid });
    }
    let mut target = Target::open(pid)?;
    restore(&mut target)
}

pub(crate) fn restore(target: &mut Target) -> Result<Report, Error> {
    target.refresh()?;
    let segments = scan::segments(target.pid, &target.mappings)?;
    let (listed, journal) = match scan::header(target.pid, &target.mappings) {
        Ok(Some((header, journal))) => (header.place.islands, foreign::parse_journal(&journal)),
        Ok(None) | Err(Error::Corrupt { .. }) => (Vec::new(), Vec::new()),
        Err(error) => return Err(error),
    };
    // With one segment all code is its own, whatever its header says; of several, each has what it lists.
    let is_own = |start: u64| segments.len() < 2 || listed.iter().any(|&(listed, _)| listed == start);
    let islands: Vec<Range<u64>> = islands(&target.mappings)
        .into_iter()
        .map(|island| island.range)
        .filter(|range| is_own(range.start))
        .collect();
    let mut undo = Undo {
        segment: segments.first().map_or(0..0, |(mapping, _)| mapping.start.0..mapping.end.0),
        islands,
        patches: Vec::new(),
        unknown: Vec::new(),
        counters: counters::raised(&journal, &target.memory),
        places: Places::default(),
    };
    for mapping in target.mappings.iter().filter(|mapping| may_be_patched(mapping, &undo.islands)) {
        let jumps = jumps_into(target, mapping, &undo.islands);
        if jumps.is_empty() {
            continue;
        }
        let file = open_mapped(target, mapping);
        for (address, now) in jumps {
            let before =
                |address: u64, now: &[u8]| bytes_before(mapping, file.as_ref(), &journal, address, now);
            match before(address, &now) {
                Some(old) if old == now => {}
                Some(old) => {
                    let entry = short_jump_to(target, address, before);
                    let leads_from = entry.as_ref().map(|entry| entry.address);
                    undo.patches.extend(entry);
                    let is_hook = is_hook(target, address, &now);
                    let (new, is_probe) = (now.into(), !is_hook);
                    undo.patches.push(Patch { address, old, new, leads_from, is_hook, is_probe, file: None });
                }
                None => undo.unknown.push(address),
            }
        }
    }
    undo.run(target)
}

/// Text of a file within reach of an island.
fn may_be_patched(mapping: &Mapping, islands: &[Range<u64>]) -> bool {
    let is_near = |island: &Range<u64>| {
        mapping.start.0 < island.end.saturating_add(JUMP_REACH)
            && island.start.saturating_sub(JUMP_REACH) < mapping.end.0
    };
    mapping.execute && mapping.inode != 0 && !is_weirs(mapping) && islands.iter().any(is_near)
}

/// Every `jmp rel32` of `mapping`, at any byte, that leads into `islands`: its address and bytes.
fn jumps_into(target: &Target, mapping: &Mapping, islands: &[Range<u64>]) -> Vec<(u64, [u8; JUMP_BYTES])> {
    const PIECE: usize = 1 << 20;
    let low = islands.iter().map(|island| island.start.saturating_sub(JUMP_REACH)).min().unwrap_or(0);
    let high = islands.iter().map(|island| island.end.saturating_add(JUMP_REACH)).max().unwrap_or(0);
    let (mut at, end) = (mapping.start.0.max(low), mapping.end.0.min(high));
    let mut found = Vec::new();
    while at < end {
        let mut piece = vec![0; PIECE.min((end - at) as usize)];
        let Ok(length) = target.memory.read_some(at, &mut piece) else { break };
        for (offset, window) in piece[..length].windows(JUMP_BYTES).enumerate() {
            let &[0xe9, a, b, c, d] = window else { continue };
            let address = at + offset as u64;
            let to = target_of(address, [a, b, c, d]);
            if islands.iter().any(|island| island.contains(&to)) {
                found.push((address, [0xe9, a, b, c, d]));
            }
        }
        if length < JUMP_BYTES {
            break;
        }
        at += (length + 1 - JUMP_BYTES) as u64;
    }
    found
}

/// Where the jump at `address` with this displacement leads to.
fn target_of(address: u64, displacement: [u8; 4]) -> u64 {
    let next = address.wrapping_add(JUMP_BYTES as u64);
    next.wrapping_add_signed(i64::from(i32::from_le_bytes(displacement)))
}

/// Whether the jump at `address` leads to what answers unwinders.
fn is_hook(target: &Target, address: u64, jump: &[u8; JUMP_BYTES]) -> bool {
    let to = target_of(address, [jump[1], jump[2], jump[3], jump[4]]);
    target.memory.read_u64(to.wrapping_sub(8)).is_ok_and(|word| word == hook::MARK)
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
            file: None,
        })
    })
}

/// What stood at `address` before the jump `now`.
fn bytes_before(
    mapping: &Mapping,
    file: Option<&File>,
    journal: &[JournalEntry],
    address: u64,
    now: &[u8],
) -> Option<Vec<u8>> {
    let mut bytes = vec![0; now.len()];
    let offset = mapping.offset.0.checked_add(address.checked_sub(mapping.start.0)?)?;
    if file.is_some_and(|file| file.read_exact_at(&mut bytes, offset).is_ok()) {
        return Some(bytes);
    }
    let entry = journal.iter().find(|entry| entry.address == address && entry.new == now)?;
    Some(entry.old.clone())
}

/// The file that `mapping` shows: by the link in map_files, which leads to it even where its path does not any more
/// but needs a capability, else by its path.
fn open_mapped(target: &Target, mapping: &Mapping) -> Option<File> {
    let thread = sys::living_thread(target.pid);
    let link = format!("/proc/{thread}/map_files/{:x}-{:x}", mapping.start.0, mapping.end.0);
    let by_path = || {
        // A path may lead to anything by now; opening must not wait (a FIFO), and only that file will do.
        let path = target.root().join(mapping.path.trim_start_matches('/'));
        let file = File::options().read(true).custom_flags(libc::O_NONBLOCK).open(path)?;
        let metadata = file.metadata()?;
        let is_same = metadata.is_file() && metadata.ino() == mapping.inode && !mapping.deleted;
        if is_same { Ok(file) } else { Err(io::Error::from(io::ErrorKind::NotFound)) }
    };
    File::open(link).or_else(|_| by_path()).ok()
}
