//! Semaphores of static probes: words in the target that count tracers.
//!
//! In: addresses in the target. A program looks at such a word before it prepares a probe's arguments. weir raises it by
//! one while it is attached, and lowers it by one when it detaches, each through an entry of the undo journal, so that
//! the next weir lowers what a killed one has raised. Never set to a value: other tracers count there too. (One of them
//! that changes the word in the same microsecond from outside loses or wins a count; nothing but the kernel can add
//! atomically there.)

use std::collections::BTreeMap;

use weir_rt::segment::{JournalEntry, JournalState, Segment};
use weir_symbols::VirtAddr;
use weir_symbols::maps::Mapping;

use crate::process::sys::Memory;
use crate::process::target::Target;
use crate::refusal::Error;

/// Whether a semaphore can stand at `address`: in private writable memory.
pub(crate) fn is_countable(mappings: &[Mapping], address: u64) -> bool {
    let holds = |mapping: &Mapping| mapping.contains(VirtAddr(address)) && address + 1 < mapping.end.0;
    mappings.iter().any(|mapping| holds(mapping) && mapping.read && mapping.write && !mapping.shared)
}

/// Raises the counter by one.
pub(crate) fn raise(segment: &Segment, target: &Target, address: u64) -> Result<(), Error> {
    let system = |source| Error::system("raising a semaphore", source);
    let old = read(&target.memory, address).map_err(system)?;
    let new = old.wrapping_add(1);
    let journal = segment.journal();
    let index =
        journal.push_counter(address, old, new).expect("the journal has two entries for each semaphore");
    target.memory.write(address, &new.to_le_bytes()).map_err(system)?;
    journal.set_state(index, JournalState::Applied);
    Ok(())
}

/// Notes that the counters are about to be lowered; the indices of the notes.
pub(crate) fn plan_lowering(segment: &Segment, target: &Target, addresses: &[u64]) -> Vec<u32> {
    let note = |&address: &u64| {
        let old = read(&target.memory, address).ok()?;
        segment.journal().push_counter(address, old, old.wrapping_sub(1)).ok()
    };
    addresses.iter().filter_map(note).collect()
}

/// Lowers each counter that is not 0 by one. Those whose library was unloaded are gone.
pub(crate) fn lower(memory: &Memory, mappings: &[Mapping], addresses: &[u64]) {
    for &address in addresses.iter().filter(|&&address| is_countable(mappings, address)) {
        let Ok(now) = read(memory, address) else { continue };
        if let Some(lower) = now.checked_sub(1) {
            // Fails only if it is unmapped at this moment: the target runs.
            let _ = memory.write(address, &lower.to_le_bytes());
        }
    }
}

/// The counters that a weir which is gone has raised and not lowered, as its journal and the memory say.
pub(crate) fn raised(journal: &[JournalEntry], memory: &Memory) -> Vec<u64> {
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
    last.into_iter().filter(|(_, entry)| is_raised(entry)).map(|(address, _)| address).collect()
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
