//! Perf maps: what a program that generates code says of it, in `/tmp/perf-PID.map`.
//!
//! In: the file's bytes, in pieces as it grows. A line is `START SIZE NAME`, the numbers in hexadecimal (the format of
//! tools/perf/Documentation/jit-interface.txt in Linux). Out: the name of an address, and its distance from the start.
//!
//! Of entries that overlap the later one wins, where they do: memory of dead code is used again, and the file only
//! grows. Hostile: lines that are none, and entries beyond a limit, are counted and left out; names are cut, and control
//! characters in them become `?`, because they are printed on terminals.

use std::collections::BTreeMap;

use crate::VirtAddr;
use crate::limits::{PERF_MAP_BYTES_MAX, PERF_MAP_ENTRIES_MAX, PERF_NAME_BYTES_MAX};

/// The entries of one file.
#[derive(Debug, Default)]
pub struct PerfMap {
    /// By first address: ranges that do not overlap.
    ranges: BTreeMap<u64, Range>,
    names: Vec<Entry>,
    /// A line whose end has not been read yet.
    rest: Vec<u8>,
    bytes: u64,
    left_out: u64,
}

#[derive(Clone, Copy, Debug)]
struct Range {
    /// After the last address.
    end: u64,
    entry: u32,
}

#[derive(Debug)]
struct Entry {
    start: u64,
    name: Box<str>,
}

impl PerfMap {
    /// Bytes read so far.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Lines that are none, and entries beyond a limit.
    pub fn left_out(&self) -> u64 {
        self.left_out
    }

    /// Reads on: `text` follows what was read before. A last line without its end waits for it.
    pub fn extend(&mut self, text: &[u8]) {
        let room = PERF_MAP_BYTES_MAX.saturating_sub(self.bytes).min(text.len() as u64) as usize;
        self.left_out += u64::from(room < text.len());
        self.bytes += text.len() as u64;
        let mut lines = text[..room].split_inclusive(|byte| *byte == b'\n');
        for piece in &mut lines {
            let mut line = std::mem::take(&mut self.rest);
            line.extend_from_slice(piece);
            match line.pop() {
                Some(b'\n') => self.line(&line),
                Some(last) => {
                    line.push(last);
                    // What no name needs is not kept: a file may be one line.
                    line.truncate(PERF_NAME_BYTES_MAX + 64);
                    self.rest = line;
                }
                None => {}
            }
        }
    }

    /// The name of the code at `address`, and how far into it that is.
    pub fn find(&self, address: VirtAddr) -> Option<(&str, u64)> {
        let (_, range) = self.ranges.range(..=address.0).next_back()?;
        let entry = self.names.get(range.entry as usize)?;
        (address.0 < range.end).then_some((&*entry.name, address.0 - entry.start))
    }

    fn line(&mut self, line: &[u8]) {
        match parse_line(line) {
            Some((start, end, name)) if self.names.len() < PERF_MAP_ENTRIES_MAX => {
                self.names.push(Entry { start, name });
                self.cover(start, Range { end, entry: self.names.len() as u32 - 1 });
            }
            _ => self.left_out += 1,
        }
    }

    /// Puts a range over all that is there.
    fn cover(&mut self, start: u64, new: Range) {
        if let Some((&first, &under)) = self.ranges.range(..start).next_back()
            && under.end > start
        {
            self.ranges.insert(first, Range { end: start, ..under });
            if under.end > new.end {
                self.ranges.insert(new.end, under);
            }
        }
        while let Some((&first, &under)) = self.ranges.range(start..new.end).next() {
            self.ranges.remove(&first);
            if under.end > new.end {
                self.ranges.insert(new.end, under);
            }
        }
        self.ranges.insert(start, new);
    }
}

fn parse_line(line: &[u8]) -> Option<(u64, u64, Box<str>)> {
    let text = String::from_utf8_lossy(line);
    let (start, rest) = text.trim_start().split_once(' ')?;
    let (size, name) = rest.trim_start().split_once(' ')?;
    let (start, size) = (hex(start)?, hex(size)?);
    let end = start.checked_add(size)?;
    let name = name.trim();
    if size == 0 || name.is_empty() {
        return None;
    }
    let shown: String = name.chars().map(|c| if c.is_control() { '?' } else { c }).collect();
    let cut = (0..=PERF_NAME_BYTES_MAX.min(shown.len())).rev().find(|at| shown.is_char_boundary(*at))?;
    Some((start, end, shown[..cut].into()))
}

/// Some programs write `0x` before it.
fn hex(text: &str) -> Option<u64> {
    let digits = text.strip_prefix("0x").unwrap_or(text);
    let is_plain = digits.bytes().all(|digit| digit.is_ascii_hexdigit());
    if is_plain { u64::from_str_radix(digits, 16).ok() } else { None }
}
