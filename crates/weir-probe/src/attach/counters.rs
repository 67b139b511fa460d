//! Semaphores of static probes: words in the target that count tracers.
//!
//! In: addresses in the target. A program looks at such a word before it prepares a probe's arguments. weir raises it by
//! one while it is attached, and lowers it by one when it detaches, each through an entry of the undo journal, so that
//! the next weir lowers what a killed one has raised. Never set to a value: other tracers count there too. (One of them
//! that changes the word in the same microsecond from outside loses or wins a count; nothing but the kernel can add
//! atomically there.)
//!
//! A semaphore is its library's: where that was unloaded, what is mapped in its place is left alone.

use std::collections::{BTreeMap, HashSet};

use weir_rt::segment::{JournalEntry, JournalState, Segment};
use weir_symbols::maps::Mapping;
use weir_symbols::{FileIdentity, VirtAddr};

use crate::process::mapped::owner;
use crate::process::memory::Memory;
use crate::process::target::Target;
use crate::refusal::Error;

/// A semaphore that weir has raised.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Counter {
    pub(crate) address: u64,
    /// What it belongs to, where that is known.
    pub(crate) file: Option<FileIdentity>,
    /// Of the journal.
    pub(crate) entry: Option<u32>,
}

impl Counter {
    /// That at `address`, of what is mapped there now.
    pub(crate) fn at(mappings: &[Mapping], address: u64) -> Counter {
        Counter { address, file: owner(mappings, address), entry: None }
    }

    fn stands(&self, mappings: &[Mapping]) -> bool {
        is_countable(mappings, self.address) && owner(mappings, self.address) == self.file
    }
}

/// Whether a semaphore can stand at `address`: in private writable memory.
pub(crate) fn is_countable(mappings: &[Mapping], address: u64) -> bool {
    let holds = |mapping: &Mapping| mapping.contains(VirtAddr(address)) && address + 1 < mapping.end.0;
    mappings.iter().any(|mapping| holds(mapping) && mapping.read && mapping.write && !mapping.shared)
}

/// Raises the counter by one; in the `spare` entry of the journal, if there is one.
pub(crate) fn raise(
    segment: &Segment,
    target: &Target,
    address: u64,
    spare: Option<u32>,
) -> Result<Counter, Error> {
    let system = |source| Error::system("raising a semaphore", source);
    let old = read(&target.memory, address).map_err(system)?;
    let new = old.wrapping_add(1);
    let journal = segment.journal();
    let pid = target.pid;
    let push = || {
        let pushed = journal.push_counter(address, old, new);
        pushed.map_err(|full| Error::Link { pid, detail: full.to_string() })
    };
    let entry = match spare {
        Some(spare) => {
            journal.replace_counter(spare, address, old, new);
            spare
        }
        None => push()?,
    };
    target.memory.write(address, &new.to_le_bytes()).map_err(system)?;
    journal.set_state(entry, JournalState::Applied);
    Ok(Counter { entry: Some(entry), ..Counter::at(&target.mappings, address) })
}

/// Notes that the counters are about to be lowered; the indices of the notes.
pub(crate) fn plan_lowering(segment: &Segment, target: &Target, counters: &[Counter]) -> Vec<u32> {
    let note = |&Counter { address, .. }: &Counter| {
        let old = read(&target.memory, address).ok()?;
        segment.journal().push_counter(address, old, old.wrapping_sub(1)).ok()
    };
    counters.iter().filter_map(note).collect()
}

/// Lowers each counter that is not 0 by one. Those whose library was unloaded are gone.
pub(crate) fn lower(memory: &Memory, mappings: &[Mapping], counters: &[Counter]) {
    for &Counter { address, .. } in counters.iter().filter(|counter| counter.stands(mappings)) {
        let Ok(now) = read(memory, address) else { continue };
        if let Some(lower) = now.checked_sub(1) {
            // It can fail no more: it is mapped, and the target does not run.
            let _ = memory.write(address, &lower.to_le_bytes());
        }
    }
}

/// The counters that a weir which is gone has raised and not lowered, as its journal and the memory say. `patched`: the
/// files whose text leads into its code; another's word is none that it has raised.
pub(crate) fn raised(
    journal: &[JournalEntry],
    memory: &Memory,
    mappings: &[Mapping],
    patched: &HashSet<FileIdentity>,
) -> Vec<Counter> {
    let mut last: BTreeMap<u64, &JournalEntry> = BTreeMap::new();
    for entry in journal.iter().filter(|entry| entry.is_counter) {
        last.insert(entry.address, entry);
    }
    let is_raised = |entry: &JournalEntry| {
        let (old, new) = (word(&entry.old), word(&entry.new));
        let now = read(memory, entry.address).ok();
        match (new == old.wrapping_add(1), entry.state) {
            (true, JournalState::Planned) => now == Some(new),
            (true, JournalState::Applied) => true,
            (false, JournalState::Planned) => now == Some(old),
            (false, JournalState::Applied) | (_, JournalState::Undone) => false,
        }
    };
    let raised = last.into_values().filter(|entry| is_raised(entry));
    let counters = raised.map(|entry| Counter::at(mappings, entry.address));
    counters.filter(|counter| counter.file.is_some_and(|file| patched.contains(&file))).collect()
}

fn word(bytes: &[u8]) -> u16 {
    // SANITY: the journal's reader takes counters of two bytes alone.
    u16::from_le_bytes(bytes.try_into().expect("a counter has two bytes"))
}

fn read(memory: &Memory, address: u64) -> std::io::Result<u16> {
    let mut bytes = [0; 2];
    memory.read(address, &mut bytes)?;
    Ok(u16::from_le_bytes(bytes))
}

#[cfg(test)]
mod tests {
    use weir_symbols::maps;

    use super::*;

    /// Text and data of file 7, what is zero behind them, then somebody's memory and another file.
    const MAPS: &str = "\
        1000-2000 r-xp 00000000 08:01 7 /lib.so\n\
        2000-3000 rw-p 00001000 08:01 7 /lib.so\n\
        3000-4000 rw-p 00000000 00:00 0 \n\
        5000-6000 rw-p 00000000 00:00 0 \n\
        6000-7000 rw-p 00000000 08:01 8 /other.so\n\
        7000-8000 rw-s 00000000 08:01 7 /lib.so\n";

    fn is_owned(address: u64) -> bool {
        let file = Some(FileIdentity { device: (8, 1), inode: 7 });
        Counter { address, file, entry: None }.stands(&maps::parse(MAPS).unwrap())
    }

    #[test]
    fn a_semaphore_is_in_its_librarys_data_or_directly_behind() {
        assert!(is_owned(0x2010) && is_owned(0x3010));
    }

    #[test]
    fn what_is_mapped_in_a_librarys_place_holds_no_semaphore_of_it() {
        for address in [0x1010, 0x4010, 0x5010, 0x6010, 0x7010, 0x9010] {
            assert!(!is_owned(address), "{address:#x}");
        }
    }
}
