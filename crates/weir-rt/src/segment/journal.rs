//! The undo journal: what text was where before each patch, so that any later weir can put it back; and which counters
//! (semaphores of static probes) it has raised. A counter has an entry for each change of it; the last one counts.
//!
//! An entry is written in full before its state becomes `Planned`, and only then may the text be patched. States only
//! go forward; one that is undone may be taken for another patch. The controller is the only writer; a reader in another process sees each entry whole or not at all
//! (a check word covers it).

use std::sync::atomic::Ordering;

use thiserror::Error;

use super::{Fnv, Segment};
use crate::abi::{JOURNAL_ENTRY_BYTES, journal};
use crate::limits::JOURNAL_TEXT_BYTES;

/// How far a patch has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub enum JournalState {
    /// The text may hold the old or the new bytes, or a mixture.
    Planned = 1,
    /// The new bytes are in place.
    Applied = 2,
    /// The old bytes are back.
    Undone = 3,
}

/// One patch.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct JournalEntry {
    /// In the target.
    pub address: u64,
    /// Bytes of text, 1..=16.
    pub len: usize,
    pub state: JournalState,
    pub old: Vec<u8>,
    pub new: Vec<u8>,
    /// The bytes are a counter, that others may have changed since, and no text.
    pub is_counter: bool,
    /// No probe: weir needs the hook itself.
    pub is_own: bool,
}

/// The journal of a segment.
#[derive(Clone, Copy, Debug)]
pub struct Journal<'a> {
    segment: &'a Segment,
}

/// Every entry is taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
#[error("the undo journal is full: it holds {capacity} patches")]
pub struct JournalFull {
    pub capacity: u32,
}

impl<'a> Journal<'a> {
    pub(super) fn new(segment: &'a Segment) -> Self {
        Journal { segment }
    }

    /// Writes a planned patch; the answer is its index.
    ///
    /// # Panics
    /// If the texts differ in length, are empty or longer than 16 bytes.
    pub fn push(&self, address: u64, old: &[u8], new: &[u8]) -> Result<u32, JournalFull> {
        self.push_entry(address, old, new, 0)
    }

    /// The same of a hook that weir needs itself.
    pub fn push_own(&self, address: u64, old: &[u8], new: &[u8]) -> Result<u32, JournalFull> {
        self.push_entry(address, old, new, journal::OWN)
    }

    /// Writes a planned change of a counter; the answer is its index.
    pub fn push_counter(&self, address: u64, old: u16, new: u16) -> Result<u32, JournalFull> {
        self.push_entry(address, &old.to_le_bytes(), &new.to_le_bytes(), journal::COUNTER)
    }

    fn push_entry(&self, address: u64, old: &[u8], new: &[u8], flag: u32) -> Result<u32, JournalFull> {
        check_texts(old, new);
        let capacity = self.segment.layout().journal_capacity;
        let taken = &self.segment.journal_entries;
        let index = taken
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| (n < capacity).then_some(n + 1))
            .map_err(|_| JournalFull { capacity })?;
        self.fill(index, address, old, new, flag);
        Ok(index)
    }

    /// Writes a planned patch over one that is undone.
    ///
    /// # Panics
    /// As [`Journal::push`], and if there is no such patch.
    pub fn replace(&self, index: u32, address: u64, old: &[u8], new: &[u8]) {
        self.replace_entry(index, address, old, new, 0);
    }

    /// The same of a hook that weir needs itself.
    pub fn replace_own(&self, index: u32, address: u64, old: &[u8], new: &[u8]) {
        self.replace_entry(index, address, old, new, journal::OWN);
    }

    /// The same for a planned change of a counter.
    pub fn replace_counter(&self, index: u32, address: u64, old: u16, new: u16) {
        self.replace_entry(index, address, &old.to_le_bytes(), &new.to_le_bytes(), journal::COUNTER);
    }

    fn replace_entry(&self, index: u32, address: u64, old: &[u8], new: &[u8], flag: u32) {
        check_texts(old, new);
        assert!(index < self.segment.journal_entries.load(Ordering::Relaxed), "no journal entry {index}");
        // A reader in between sees none.
        self.segment.mapping().word(self.entry(index) + journal::LEN as u64).store(0, Ordering::Release);
        self.fill(index, address, old, new, flag);
    }

    fn fill(&self, index: u32, address: u64, old: &[u8], new: &[u8], flag: u32) {
        let at = self.entry(index);
        let mapping = self.segment.mapping();
        let put = |offset: usize, word: u64| mapping.word(at + offset as u64).store(word, Ordering::Relaxed);
        put(journal::ADDRESS, address);
        for (start, text) in [(journal::OLD, old), (journal::NEW, new)] {
            let mut padded = [0; JOURNAL_TEXT_BYTES];
            padded[..text.len()].copy_from_slice(text);
            put(start, u64::from_le_bytes(padded[..8].try_into().expect("8 bytes")));
            put(start + 8, u64::from_le_bytes(padded[8..].try_into().expect("8 bytes")));
        }
        put(journal::CHECK, check(address, old, new));
        self.put_state(index, old.len() as u32 | flag, JournalState::Planned);
    }

    /// Says how far patch `index` has come.
    ///
    /// # Panics
    /// If there is no such patch.
    pub fn set_state(&self, index: u32, state: JournalState) {
        assert!(index < self.segment.journal_entries.load(Ordering::Relaxed), "no journal entry {index}");
        let word = self.segment.mapping().word(self.entry(index) + journal::LEN as u64);
        let len = word.load(Ordering::Relaxed) as u32;
        self.put_state(index, len, state);
    }

    /// Says of every patch of text that its old bytes are back.
    pub fn undo_text(&self) {
        for index in 0..self.segment.journal_entries.load(Ordering::Relaxed) {
            let word = self.segment.mapping().word(self.entry(index) + journal::LEN as u64);
            let len = word.load(Ordering::Relaxed) as u32;
            if len & journal::COUNTER == 0 {
                self.put_state(index, len, JournalState::Undone);
            }
        }
    }

    /// The patches, in the order of their making. Entries that the target has spoiled are left out.
    pub fn entries(&self) -> Vec<JournalEntry> {
        let taken = self.segment.journal_entries.load(Ordering::Relaxed) as usize;
        let offset = self.segment.layout().journal_offset;
        parse(&self.segment.mapping().copy(offset, taken * JOURNAL_ENTRY_BYTES))
    }

    fn put_state(&self, index: u32, len: u32, state: JournalState) {
        let word = u64::from(len) | (state as u64) << 32;
        self.segment.mapping().word(self.entry(index) + journal::LEN as u64).store(word, Ordering::Release);
    }

    fn entry(&self, index: u32) -> u64 {
        self.segment.layout().journal_offset + u64::from(index) * JOURNAL_ENTRY_BYTES as u64
    }
}

fn check_texts(old: &[u8], new: &[u8]) {
    assert!(
        old.len() == new.len() && (1..=JOURNAL_TEXT_BYTES).contains(&old.len()),
        "a patch of {} bytes by {} bytes",
        old.len(),
        new.len()
    );
}

/// The entries in `bytes`, which anybody may have written. Those never made or spoiled are left out.
pub(crate) fn parse(bytes: &[u8]) -> Vec<JournalEntry> {
    bytes.chunks_exact(JOURNAL_ENTRY_BYTES).filter_map(parse_entry).collect()
}

fn parse_entry(bytes: &[u8]) -> Option<JournalEntry> {
    let word = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("8 bytes"));
    let address = word(journal::ADDRESS);
    let flags = word(journal::LEN) as u32;
    let is_counter = flags & journal::COUNTER != 0;
    let is_own = flags & journal::OWN != 0;
    let len = (flags & !(journal::COUNTER | journal::OWN)) as usize;
    let state = match (word(journal::LEN) >> 32) as u32 {
        1 => JournalState::Planned,
        2 => JournalState::Applied,
        3 => JournalState::Undone,
        _ => return None,
    };
    if !(1..=JOURNAL_TEXT_BYTES).contains(&len) || is_counter && (len != 2 || is_own) {
        return None;
    }
    let old = bytes[journal::OLD..journal::OLD + len].to_vec();
    let new = bytes[journal::NEW..journal::NEW + len].to_vec();
    (word(journal::CHECK) == check(address, &old, &new)).then_some(JournalEntry {
        address,
        len,
        state,
        old,
        new,
        is_counter,
        is_own,
    })
}

/// Covers what `set_state` does not change.
fn check(address: u64, old: &[u8], new: &[u8]) -> u64 {
    let mut hash = Fnv::default();
    hash.number(address);
    hash.number(old.len() as u64);
    hash.bytes(old);
    hash.bytes(new);
    hash.0
}
