//! Looks for addresses on the stacks of stopped threads: saved program counters that point into a patch.
//!
//! A thread in a signal handler has the interrupted program counter in a signal frame, which may lie on another
//! stack than the one it runs on. So each thread's stack is scanned from its stack pointer to the end of that
//! mapping, and wherever a word points at an rt_sigreturn sequence (as every signal frame begins with one), the
//! frame's saved stack pointer names the next region to scan.
//!
//! Conservative: any 8-byte word that equals a wanted address counts, whatever it is. Not seen: contexts that a
//! program keeps elsewhere by itself (ucontext, fibres), which save a place after a call, never one inside a window.

use std::cell::RefCell;
use std::collections::{BTreeSet, HashMap};
use std::ops::Range;

use weir_symbols::VirtAddr;
use weir_symbols::maps::{self, Mapping};

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

/// The memory of a stopped process, prepared to scan the stacks of many threads: at 2,000 threads among 4,000 mappings a search of all
/// of them for every word took 70 % of a stop.
pub(crate) struct Stacks<'a> {
    memory: &'a Memory,
    /// By address.
    mappings: &'a [Mapping],
    /// What may hold code, by address; neighbours are one.
    executable: Vec<Range<u64>>,
    /// Which addresses hold an rt_sigreturn sequence, as far as they were looked at.
    restorers: RefCell<HashMap<u64, bool>>,
}

impl<'a> Stacks<'a> {
    /// `mappings`: by address, as `/proc/PID/maps` has them.
    pub(crate) fn new(memory: &'a Memory, mappings: &'a [Mapping]) -> Stacks<'a> {
        let mut executable: Vec<Range<u64>> = Vec::new();
        for mapping in mappings.iter().filter(|mapping| mapping.execute) {
            match executable.last_mut().filter(|before| before.end == mapping.start.0) {
                Some(before) => before.end = mapping.end.0,
                None => executable.push(mapping.start.0..mapping.end.0),
            }
        }
        Stacks { memory, mappings, executable, restorers: RefCell::default() }
    }

    /// Scans the stacks of a thread whose stack pointer is `stack_pointer` for words that `is_wanted`. Each ends with its mapping, the
    /// one that it runs on at `end` where that is known.
    pub(crate) fn scan(
        &self,
        stack_pointer: u64,
        end: Option<u64>,
        is_wanted: &dyn Fn(u64) -> bool,
    ) -> Found {
        let mut found = Found::default();
        let mut done: BTreeSet<u64> = BTreeSet::new();
        let mut todo = vec![stack_pointer];
        while let Some(from) = todo.pop() {
            let Some(mapping) = maps::at(self.mappings, VirtAddr(from)) else { continue };
            if !mapping.write || !done.insert(from) {
                continue;
            }
            let end = end.filter(|end| (from..mapping.end.0).contains(end)).unwrap_or(mapping.end.0);
            let from = from & !7;
            let length = ((end - from) as usize).min(STACK_SCAN_BYTES_MAX);
            let mut bytes = vec![0; length];
            let Ok(length) = self.memory.read_some(from, &mut bytes) else { continue };
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
                if self.is_restorer(value)
                    && let (Some(saved_stack), Some(_)) = (word(at + FRAME_SP), word(at + FRAME_IP))
                {
                    // On the same stack the scan gets there by itself.
                    if !(from..end).contains(&saved_stack) {
                        todo.push(saved_stack);
                    }
                }
            }
        }
        found
    }

    /// Whether `address` holds an rt_sigreturn sequence.
    fn is_restorer(&self, address: u64) -> bool {
        let after = self.executable.partition_point(|range| range.start <= address);
        if !self.executable[..after].last().is_some_and(|range| range.contains(&address)) {
            return false;
        }
        *self.restorers.borrow_mut().entry(address).or_insert_with(|| {
            let mut code = [0; 9];
            self.memory.read(address, &mut code).is_ok()
                && (code == [0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05]
                    || code[..7] == [0xb8, 0x0f, 0, 0, 0, 0x0f, 0x05])
        })
    }
}
