//! A strict checker of pcapng files: the bytes of a file → every rule of the draft that they break, with the place.
//!
//! It is what written files are held to, and shares nothing with weir-pcapng. Source: draft-ietf-opsawg-pcapng, sections 3 and 4; where the
//! draft lets readers be lenient, writers are not:
//!
//! - The file begins with a section header; blocks have a length that is a multiple of 4, the same at both ends, and fill the file.
//! - A section has version 1.0 or 1.2 and a length that is unknown (-1) or its own.
//! - Blocks have known types, or those that are for local use; the obsolete packet block is not written. Reserved fields are 0.
//! - Packets and statistics are of an interface of their section that was described before; no packet is longer than its snapshot
//!   length or than it was on the wire; all fills are zeros, and no longer than they have to be.
//! - Options have known codes (or those for local use) and lengths that their meaning has; those that may be there once are; they end
//!   with one opt_endofopt of length 0, after which the block ends; an empty list is left out.
//! - Texts are UTF-8 without NUL; names in blocks of names end with one.
//! - Flags have no reserved bits and known directions and receptions; hashes and verdicts have the lengths of their kinds; resolutions are
//!   ones that 64 bits can count; speeds are said once.
//! - Statistics begin before they end. With [`Rules::is_monotone`], the times of packets of one interface and queue do not go back.
//!
//! After a block without a usable length nothing more is looked at. Deliberately not here: what packets contain.

mod blocks;
mod options;

use std::collections::BTreeMap;
use std::fmt;

/// What is checked beside the rules that all files have.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Rules {
    /// Times of packets of one interface and queue never go back.
    pub is_monotone: bool,
}

/// A rule that a file breaks.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Violation {
    /// Of the bytes that break it.
    pub offset: usize,
    pub what: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "byte {}: {}", self.offset, self.what)
    }
}

/// Everything in which `file` is no pcapng file; nothing if it is one.
pub fn check(file: &[u8], rules: Rules) -> Vec<Violation> {
    let mut checker = Checker { file, rules, found: Vec::new(), is_big: false, section: None };
    checker.file();
    checker.found
}

/// Panics with all violations if there are any.
#[track_caller]
pub fn assert_holds(file: &[u8], rules: Rules) {
    let found = check(file, rules);
    let lines: String = found.iter().take(20).map(|violation| format!("{violation}\n")).collect();
    assert!(found.is_empty(), "{} violations of the format:\n{lines}", found.len());
}

struct Checker<'a> {
    file: &'a [u8],
    rules: Rules,
    found: Vec<Violation>,
    is_big: bool,
    section: Option<Section>,
}

/// What is known of the current section.
#[derive(Default)]
struct Section {
    /// Where its blocks begin, and its length if it says one.
    begin: usize,
    length: Option<u64>,
    snaplens: Vec<u32>,
    /// The last time of each interface and queue.
    times: BTreeMap<(u32, Option<u32>), u64>,
}

impl<'a> Checker<'a> {
    fn says(&mut self, offset: usize, what: impl Into<String>) {
        self.found.push(Violation { offset, what: what.into() });
    }

    /// The number at an offset, which is inside of the file.
    fn u16(&self, at: usize) -> u16 {
        let bytes = [self.file[at], self.file[at + 1]];
        if self.is_big { u16::from_be_bytes(bytes) } else { u16::from_le_bytes(bytes) }
    }

    fn u32(&self, at: usize) -> u32 {
        let (first, second) = (u32::from(self.u16(at)), u32::from(self.u16(at + 2)));
        if self.is_big { first << 16 | second } else { second << 16 | first }
    }

    fn u64(&self, at: usize) -> u64 {
        let (first, second) = (u64::from(self.u32(at)), u64::from(self.u32(at + 4)));
        if self.is_big { first << 32 | second } else { second << 32 | first }
    }

    /// A time: the upper half comes first in both byte orders.
    fn time(&self, at: usize) -> u64 {
        u64::from(self.u32(at)) << 32 | u64::from(self.u32(at + 4))
    }

    /// Bytes that fill up to 32 bits.
    fn fill(&mut self, from: usize, to: usize) {
        if let Some(at) = (from..to).find(|at| self.file[*at] != 0) {
            self.says(at, format!("a fill has {:#04x}, not 0", self.file[at]));
        }
    }

    fn text(&mut self, from: usize, to: usize, name: &str) {
        let file: &'a [u8] = self.file;
        match std::str::from_utf8(&file[from..to]) {
            Err(error) => self.says(from + error.valid_up_to(), format!("{name} is no UTF-8")),
            Ok(text) => {
                if let Some(at) = text.find('\0') {
                    self.says(from + at, format!("{name} has a NUL in it"));
                }
            }
        }
    }
}

fn padded(length: usize) -> usize {
    length.div_ceil(4) * 4
}
