//! Proves that nothing outside a function goes to the inside of its patch.
//!
//! In: addresses at which nothing may arrive (interiors of all planned windows of one binary, padding and holes that
//! are to be written), and the binary. Out: those that something may reach. Every place that could encode a branch or
//! a pointer is looked at, so a reported address may be a coincidence (a refusal too many), never the reverse.
//!
//! - `rel32`: at every byte offset of every executable segment that follows an opcode of a near branch (E8, E9,
//!   0F 80 to 0F 8F, C7 F8) or of `lea x(%rip)` (8D), the 4 bytes there, taken as a displacement from their end, must
//!   not lead to an asked address. Without a look at the opcode, small constants (`2f 00 00 00`) collide within a few
//!   hundred bytes. Inside a known function that decodes to its end, a hit must be one of its instructions.
//! - `rel8`: within 130 bytes of an asked address, the code of every function, also of one that contains the probed
//!   one, is decoded from its known start; in bytes that no function covers, every byte may begin a short branch.
//! - absolute pointers: addends of relative relocations, and in position-dependent files every 8-byte (and 4-byte)
//!   word of every segment.
//! - tables of 32-bit offsets (`switch` in position-independent code): each address that a function with computed
//!   jumps takes with `lea` is a possible base, and so is each that a `lea` in unknown code may take. A table ends
//!   where an entry does not lead to text, or where another address is taken.

use std::collections::{BTreeSet, HashSet};
use std::ops::Range;

use weir_symbols::{Binary, LinkAddr, Segment};

use crate::isa::native::body::Bodies;
use crate::parallel;

/// How far a `rel8` branch reaches, in either direction, with room for its own length.
const SHORT_REACH: u64 = 130;
/// Words of a jump table that are looked at after a possible base.
const TABLE_ENTRIES_MAX: usize = 16 << 10;

/// Those of `asked` that something in the binary may reach other than by falling through. Each part of `asked` belongs
/// to one window: addresses that lie close together.
pub fn reached(bodies: &mut Bodies, asked: &[Vec<u64>]) -> HashSet<u64> {
    let binary = bodies.binary();
    let all: HashSet<u64> = asked.iter().flatten().copied().collect();
    let mut reached = HashSet::new();
    if all.is_empty() {
        return reached;
    }
    let filter = Filter::new(&all);
    let mut unknown_bases = Vec::new();
    for (start, bytes) in binary.executable_ranges() {
        let references = near_references(start.0, bytes, &filter, &all);
        reached
            .extend(references.hits.into_iter().filter(|&hit| may_refer(bodies, hit)).map(|hit| hit.target));
        // Most lie in the function of the one before.
        let mut known = 0..0;
        unknown_bases.extend(references.taken.into_iter().filter_map(|hit| {
            if !known.contains(&hit.at) {
                match binary.function_bounds(LinkAddr(hit.at)) {
                    Some(bounds) => known = bounds.start.0..bounds.end.0,
                    None => return Some(hit.target),
                }
            }
            None
        }));
    }
    table_entries(bodies, unknown_bases, &all, &mut reached);
    for addresses in asked {
        short_branches(bodies, addresses, &mut reached);
    }
    reached.extend(binary.relative_relocations().into_iter().filter(|target| all.contains(target)));
    if !binary.is_position_independent() {
        for segment in binary.segments() {
            absolute_words(segment_bytes(binary, segment), &filter, &all, &mut reached);
        }
    }
    reached
}

/// A cheap first test whether an address may be an asked one: a table of bits by the address's last bits, of which one
/// in sixteen is set.
struct Filter {
    bits: Vec<u64>,
    mask: u64,
    bounds: Range<u64>,
}

impl Filter {
    fn new(asked: &HashSet<u64>) -> Filter {
        let count = (asked.len() * 16).next_power_of_two().clamp(1 << 16, 1 << 24);
        let mask = count as u64 - 1;
        let mut bits = vec![0; count / 64];
        for &address in asked {
            let hash = address & mask;
            bits[(hash >> 6) as usize] |= 1 << (hash & 63);
        }
        let low = asked.iter().copied().min().unwrap_or(0);
        let high = asked.iter().copied().max().unwrap_or(0);
        Filter { bits, mask, bounds: low..high + 1 }
    }

    fn may_contain(&self, address: u64) -> bool {
        let hash = address & self.mask;
        self.bounds.contains(&address) && self.bits[(hash >> 6) as usize] >> (hash & 63) & 1 == 1
    }
}

/// Bytes that may refer to an asked address.
#[derive(Clone, Copy, Debug)]
struct Hit {
    /// Where the displacement stands.
    at: u64,
    target: u64,
}

/// References by 32-bit displacements.
struct References {
    /// To asked addresses.
    hits: Vec<Hit>,
    /// Everything that bytes like a `lea` take.
    taken: Vec<Hit>,
}

/// Bytes of text for which a second thread pays.
const PART_BYTES_MIN: usize = 1 << 20;

fn near_references(start: u64, bytes: &[u8], filter: &Filter, asked: &HashSet<u64>) -> References {
    let end = bytes.len().saturating_sub(3);
    let parts = parallel::parts(end, PART_BYTES_MIN);
    let found = parallel::map(parts, |part| references_in(start, bytes, part, filter, asked));
    let mut all = References { hits: Vec::new(), taken: Vec::new() };
    for part in found {
        all.hits.extend(part.hits);
        all.taken.extend(part.taken);
    }
    all
}

/// References whose displacements stand at the offsets `part` of `bytes`.
fn references_in(
    start: u64,
    bytes: &[u8],
    part: Range<usize>,
    filter: &Filter,
    asked: &HashSet<u64>,
) -> References {
    let mut found = References { hits: Vec::new(), taken: Vec::new() };
    let mut note = |offset: usize, takes: bool| {
        let word = &bytes[offset..offset + 4];
        let displacement = i32::from_le_bytes([word[0], word[1], word[2], word[3]]);
        let at = start + offset as u64;
        let target = (at + 4).wrapping_add_signed(i64::from(displacement));
        if takes {
            found.taken.push(Hit { at, target });
        }
        if filter.may_contain(target) && asked.contains(&target) {
            found.hits.push(Hit { at, target });
        }
    };
    // The first displacement may have one byte of opcode before it; all others have two to be looked at.
    if part.start < 2 && part.end > 1 && bytes[0] & 0xfe == 0xe8 {
        note(1, false);
    }
    let mut offset = part.start.max(2);
    while offset < part.end {
        let count = (part.end - offset).min(BLOCK);
        let mut kinds = [0; BLOCK];
        let (first, second) = (&bytes[offset - 2..][..count], &bytes[offset - 1..][..count]);
        for ((kind, &first), &second) in kinds.iter_mut().zip(first).zip(second) {
            *kind = opcode(first, second);
        }
        for (at, eight) in kinds.chunks_exact(8).enumerate().filter(|(_, eight)| **eight != [0; 8]) {
            for (within, &kind) in eight.iter().enumerate().filter(|(_, kind)| **kind != 0) {
                note(offset + 8 * at + within, kind == TAKES);
            }
        }
        offset += count;
    }
    found
}

/// Bytes that are looked at together: the loop over them has no branch, so that it is compiled to vectors.
const BLOCK: usize = 64;
const BRANCHES: u8 = 1;
const TAKES: u8 = 2;

/// What a displacement behind the bytes `first`, `second` would be for: a near branch (E8, E9, 0F 80 to 0F 8F, C7 F8),
/// the address that a `lea x(%rip)` (8D) takes, or nothing.
fn opcode(first: u8, second: u8) -> u8 {
    let branches = (second & 0xfe == 0xe8)
        | ((first == 0x0f) & (second & 0xf0 == 0x80))
        | ((first == 0xc7) & (second == 0xf8));
    let takes = (first == 0x8d) & (second & 0xc7 == 5);
    (u8::from(branches) * BRANCHES) | (u8::from(takes) * TAKES)
}

/// False if `hit` lies in a function all of whose instructions are known, and none refers to its target.
fn may_refer(bodies: &mut Bodies, hit: Hit) -> bool {
    let Some(bounds) = bodies.binary().function_bounds(LinkAddr(hit.at)) else { return true };
    let Some(body) = bodies.of(bounds.start.0..bounds.end.0) else { return true };
    let refers = |addresses: &[u64]| addresses.binary_search(&hit.target).is_ok();
    body.undecodable.is_some() || refers(&body.targets) || refers(&body.taken)
}

fn short_branches(bodies: &mut Bodies, addresses: &[u64], reached: &mut HashSet<u64>) {
    let binary = bodies.binary();
    let (Some(&low), Some(&high)) = (addresses.iter().min(), addresses.iter().max()) else { return };
    let mut at = low.saturating_sub(SHORT_REACH);
    let end = high + SHORT_REACH;
    while at < end {
        // The function itself is among them: its symbol may lie inside a larger one, whose code was not decoded when
        // the window was planned.
        let bounds = binary.function_bounds(LinkAddr(at)).map(|bounds| bounds.start.0..bounds.end.0);
        let to = match &bounds {
            Some(bounds) => bounds.end,
            None => next_function(binary, at).unwrap_or(end).min(end),
        };
        let body = bounds.and_then(|bounds| bodies.of(bounds));
        let is_asked = |target: &u64| addresses.contains(target);
        if let Some(body) = &body {
            let from = body.targets.partition_point(|&target| target < low);
            reached.extend(
                body.targets[from..].iter().take_while(|&&target| target <= high).filter(|t| is_asked(t)),
            );
        }
        if body.as_ref().is_none_or(|body| body.undecodable.is_some()) {
            let (from, to) = (at.max(low.saturating_sub(SHORT_REACH)), to.min(end));
            if let Some(bytes) = binary.bytes(LinkAddr(from), to.saturating_sub(from) as usize) {
                reached.extend(possible_targets(from, bytes).into_iter().filter(is_asked));
            }
        }
        at = to.max(at + 1);
    }
}

/// Start of the first function after `address`.
fn next_function(binary: &Binary, address: u64) -> Option<u64> {
    let functions = binary.functions();
    let index = functions.partition_point(|function| function.address.0 <= address);
    functions.get(index).map(|function| function.address.0)
}

/// Where a short branch would lead from any byte that could begin one: for bytes of which nobody knows where
/// instructions begin, or whether they are code.
fn possible_targets(address: u64, bytes: &[u8]) -> Vec<u64> {
    let pairs = bytes.windows(2).enumerate();
    let branches = pairs.filter(|(_, pair)| matches!(pair[0], 0x70..=0x7f | 0xe0..=0xe3 | 0xeb));
    branches
        .map(|(at, pair)| (address + at as u64 + 2).wrapping_add_signed(i64::from(pair[1] as i8)))
        .collect()
}

/// Entries of tables of offsets, at `unknown_bases` and those of all functions with computed jumps.
fn table_entries(
    bodies: &mut Bodies,
    unknown_bases: Vec<u64>,
    asked: &HashSet<u64>,
    reached: &mut HashSet<u64>,
) {
    let binary = bodies.binary();
    let all = bodies.all();
    let taken: BTreeSet<u64> = all.iter().flat_map(|body| body.taken.iter().copied()).collect();
    let mut bases: BTreeSet<u64> = unknown_bases.into_iter().collect();
    bases.extend(all.iter().filter(|b| !b.computed.is_empty()).flat_map(|body| body.taken.iter().copied()));
    let segments = binary.segments();
    for base in bases {
        let Some(segment) = segments.iter().find(|segment| segment.holds(LinkAddr(base))) else { continue };
        // Words of code look like offsets into code; compilers put no tables there.
        if segment.executable {
            continue;
        }
        let table = &segment_bytes(binary, segment)[(base - segment.address.0) as usize..];
        let next = taken.range(base + 1..).next().map_or(u64::MAX, |next| (next - base).div_ceil(4));
        for entry in table.chunks_exact(4).take(TABLE_ENTRIES_MAX.min(next as usize)) {
            let offset = i32::from_le_bytes([entry[0], entry[1], entry[2], entry[3]]);
            let target = base.wrapping_add_signed(i64::from(offset));
            if !segments.iter().any(|s| s.executable && s.holds(LinkAddr(target))) {
                break;
            }
            if asked.contains(&target) {
                reached.insert(target);
            }
        }
    }
}

fn segment_bytes<'a>(binary: &'a Binary, segment: &Segment) -> &'a [u8] {
    binary.bytes(segment.address, segment.file_bytes as usize).unwrap_or_default()
}

fn absolute_words(bytes: &[u8], filter: &Filter, asked: &HashSet<u64>, reached: &mut HashSet<u64>) {
    // Position-dependent code may hold addresses in 4 bytes (they lie below 2 GiB); 8-byte ones contain those.
    for word in bytes.windows(4) {
        let target = u64::from(u32::from_le_bytes([word[0], word[1], word[2], word[3]]));
        if filter.may_contain(target) && asked.contains(&target) {
            reached.insert(target);
        }
    }
}
