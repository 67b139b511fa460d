//! Looks for addresses on the stacks of stopped threads: saved program counters that point into a patch.
//!
//! A thread in a signal handler has the interrupted program counter in a signal frame, which may lie on another
//! stack than the one it runs on. So each thread's stack is scanned from its stack pointer to the end of that
//! mapping, and wherever a word points at an rt_sigreturn sequence (as every signal frame begins with one), the
//! frame's saved stack pointer names the next region to scan.
//!
//! Conservative: any 8-byte word that equals a wanted address counts, whatever it is. Not seen: contexts that a
//! program keeps elsewhere by itself (ucontext, fibres), which save a place after a call, never one inside a window.

use std::collections::{BTreeSet, HashMap};

use weir_symbols::maps::Mapping;

use crate::limits::STACK_SCAN_BYTES_MAX;
use crate::process::memory::Memory;

/// Byte offsets in a signal frame, from the word that holds the restorer's address (asm/sigcontext.h).
const FRAME_SP: usize = 8 + 40 + 15 * 8;
const FRAME_IP: usize = 8 + 40 + 16 * 8;

/// What was found on one thread's stacks.
#[derive(Clone, Debug, Default)]
pub(crate) struct Found {
    /// Words for which the test was true.
    pub(crate) words: BTreeSet<u64>,
    /// Where they were, and which.
    pub(crate) places: Vec<(u64, u64)>,
}

/// Scans the stacks of a thread whose stack pointer is `stack_pointer` for words that `is_wanted`.
pub(crate) fn scan(
    memory: &Memory,
    mappings: &[Mapping],
    stack_pointer: u64,
    is_wanted: &dyn Fn(u64) -> bool,
) -> Found {
    let mut found = Found::default();
    let mut done: BTreeSet<u64> = BTreeSet::new();
    let mut todo = vec![stack_pointer];
    let mut restorers = Restorers { memory, mappings, known: HashMap::new() };
    while let Some(from) = todo.pop() {
        let Some(mapping) = mappings.iter().find(|mapping| mapping.start.0 <= from && from < mapping.end.0)
        else {
            continue;
        };
        if !mapping.write || !done.insert(from) {
            continue;
        }
        let from = from & !7;
        let length = ((mapping.end.0 - from) as usize).min(STACK_SCAN_BYTES_MAX);
        let mut bytes = vec![0; length];
        let Ok(length) = memory.read_some(from, &mut bytes) else { continue };
        let word = |at: usize| Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?));
        for at in (0..length.saturating_sub(7)).step_by(8) {
            let Some(value) = word(at) else { break };
            if value == 0 {
                continue;
            }
            if is_wanted(value) {
                found.words.insert(value);
                found.places.push((from + at as u64, value));
            }
            if restorers.contains(value)
                && let (Some(saved_stack), Some(_)) = (word(at + FRAME_SP), word(at + FRAME_IP))
            {
                // On the same stack the scan gets there by itself.
                if !(from..mapping.end.0).contains(&saved_stack) {
                    todo.push(saved_stack);
                }
            }
        }
    }
    found
}

/// Remembers which addresses hold an rt_sigreturn sequence.
struct Restorers<'a> {
    memory: &'a Memory,
    mappings: &'a [Mapping],
    known: HashMap<u64, bool>,
}

impl Restorers<'_> {
    fn contains(&mut self, address: u64) -> bool {
        let is_text = self
            .mappings
            .iter()
            .any(|mapping| mapping.execute && (mapping.start.0..mapping.end.0).contains(&address));
        if !is_text {
            return false;
        }
        let memory = self.memory;
        *self.known.entry(address).or_insert_with(|| {
            let mut code = [0; 9];
            memory.read(address, &mut code).is_ok()
                && (code == [0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05]
                    || code[..7] == [0xb8, 0x0f, 0, 0, 0, 0x0f, 0x05])
        })
    }
}
