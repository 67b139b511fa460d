//! Proves that nothing outside a function goes to the inside of its patch.
//!
//! In: the interiors of all planned windows of one binary, and the binary. Out: those interiors that something
//! may reach. The proof does not depend on telling code from data: every place that could encode a branch or a
//! pointer is looked at, so a reported interior may be a coincidence (a refusal too many), never the reverse.
//!
//! - `rel32`: at every byte offset of every executable segment that follows an opcode of a near branch (E8, E9,
//!   0F 80 to 0F 8F, C7 F8), the 4 bytes there, taken as a displacement from their end, must not lead to an
//!   interior. Without a look at the opcode, small constants (`2f 00 00 00`) collide within a few hundred bytes.
//! - `rel8`: within 130 bytes of an interior, the code of every function, also of one that contains the probed one,
//!   is decoded from its known start; in bytes that no function covers, every byte may begin a short branch.
//! - absolute pointers: addends of relative relocations, and in position-dependent files every 8-byte (and 4-byte)
//!   word of every segment.
//! - tables of 32-bit offsets (`switch` in position-independent code), for functions with indirect jumps: each
//!   address that the function takes with `lea` is a possible base; every aligned word near it is an entry.

use std::collections::HashSet;
use std::ops::Range;

use iced_x86::{Decoder, DecoderOptions, FlowControl, Instruction};
use weir_symbols::{Binary, LinkAddr, Segment};

use crate::window::{Window, near_target};

/// How far a `rel8` branch reaches, in either direction, with room for its own length.
const SHORT_REACH: u64 = 130;
/// Words of a jump table that are looked at after a possible base.
const TABLE_ENTRIES_MAX: usize = 16 << 10;

/// Interiors (link addresses) that something in `binary` may reach other than by falling through.
pub fn reached(binary: &Binary, windows: &[&Window]) -> HashSet<u64> {
    let interiors: HashSet<u64> = windows.iter().flat_map(|window| window.interior()).collect();
    let mut reached = HashSet::new();
    if interiors.is_empty() {
        return reached;
    }
    let filter = Filter::new(&interiors);
    for (start, bytes) in binary.executable_ranges() {
        near_branches(start.0, bytes, &filter, &interiors, &mut reached);
    }
    for window in windows {
        short_branches(binary, window, &mut reached);
        if !window.indirect_jumps.is_empty() {
            table_entries(binary, window, &mut reached);
        }
    }
    reached.extend(binary.relative_relocations().into_iter().filter(|target| interiors.contains(target)));
    if !binary.is_position_independent() {
        for segment in binary.segments() {
            absolute_words(segment_bytes(binary, segment), &filter, &interiors, &mut reached);
        }
    }
    reached
}

/// A cheap first test whether an address may be an interior: one bit for each of 2^16 hash values.
struct Filter {
    bits: Vec<u64>,
    bounds: Range<u64>,
}

impl Filter {
    fn new(interiors: &HashSet<u64>) -> Filter {
        let mut bits = vec![0; 1 << 10];
        for &address in interiors {
            let hash = address as usize & 0xffff;
            bits[hash >> 6] |= 1 << (hash & 63);
        }
        let low = interiors.iter().copied().min().unwrap_or(0);
        let high = interiors.iter().copied().max().unwrap_or(0);
        Filter { bits, bounds: low..high + 1 }
    }

    fn may_contain(&self, address: u64) -> bool {
        let hash = address as usize & 0xffff;
        self.bounds.contains(&address) && self.bits[hash >> 6] >> (hash & 63) & 1 == 1
    }
}

fn near_branches(
    start: u64,
    bytes: &[u8],
    filter: &Filter,
    interiors: &HashSet<u64>,
    reached: &mut HashSet<u64>,
) {
    for (at, word) in bytes.windows(4).enumerate() {
        let displacement = i32::from_le_bytes([word[0], word[1], word[2], word[3]]);
        let target = (start + at as u64 + 4).wrapping_add_signed(i64::from(displacement));
        if filter.may_contain(target) && interiors.contains(&target) && is_near_branch(&bytes[..at]) {
            reached.insert(target);
        }
    }
}

/// True if a near branch's displacement may follow `before`.
fn is_near_branch(before: &[u8]) -> bool {
    matches!(before, [.., 0xe8 | 0xe9] | [.., 0x0f, 0x80..=0x8f] | [.., 0xc7, 0xf8])
}

fn short_branches(binary: &Binary, window: &Window, reached: &mut HashSet<u64>) {
    let interiors: Vec<u64> = window.interior().collect();
    let (Some(&low), Some(&high)) = (interiors.first(), interiors.last()) else { return };
    let mut at = low.saturating_sub(SHORT_REACH);
    let end = high + SHORT_REACH;
    while at < end {
        // The function itself is among them: its symbol may lie inside a larger one, whose code was not decoded when
        // the window was planned.
        let bounds = binary.function_bounds(LinkAddr(at));
        let from = bounds.as_ref().map_or(at, |bounds| bounds.start.0);
        let to = match &bounds {
            Some(bounds) => bounds.end.0,
            None => next_function(binary, at).unwrap_or(end).min(end),
        };
        if let Some(bytes) = binary.bytes(LinkAddr(from), (to - from) as usize) {
            let targets = match bounds {
                Some(_) => decoded_targets(from, bytes),
                None => possible_targets(from, bytes),
            };
            reached.extend(targets.into_iter().filter(|target| interiors.contains(target)));
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

fn decoded_targets(address: u64, bytes: &[u8]) -> Vec<u64> {
    let mut decoder = Decoder::with_ip(64, bytes, address, DecoderOptions::NONE);
    let mut instruction = Instruction::default();
    let mut targets = Vec::new();
    while decoder.can_decode() {
        decoder.decode_out(&mut instruction);
        if instruction.flow_control() != FlowControl::Next {
            targets.extend(near_target(&instruction));
        }
    }
    targets
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

fn table_entries(binary: &Binary, window: &Window, reached: &mut HashSet<u64>) {
    let interiors: Vec<u64> = window.interior().collect();
    for &base in &window.lea_targets {
        let Some(segment) = binary.segments().iter().find(|segment| segment.holds(LinkAddr(base))) else {
            continue;
        };
        let Some(table) = segment_bytes(binary, segment).get((base - segment.address.0) as usize..) else {
            continue;
        };
        for entry in table.chunks_exact(4).take(TABLE_ENTRIES_MAX) {
            let offset = i32::from_le_bytes([entry[0], entry[1], entry[2], entry[3]]);
            let target = base.wrapping_add_signed(i64::from(offset));
            if interiors.contains(&target) {
                reached.insert(target);
            }
        }
    }
}

fn segment_bytes<'a>(binary: &'a Binary, segment: &Segment) -> &'a [u8] {
    binary.bytes(segment.address, segment.file_bytes as usize).unwrap_or_default()
}

fn absolute_words(bytes: &[u8], filter: &Filter, interiors: &HashSet<u64>, reached: &mut HashSet<u64>) {
    // Position-dependent code may hold addresses in 4 bytes (they lie below 2 GiB); 8-byte ones contain those.
    for word in bytes.windows(4) {
        let target = u64::from(u32::from_le_bytes([word[0], word[1], word[2], word[3]]));
        if filter.may_contain(target) && interiors.contains(&target) {
            reached.insert(target);
        }
    }
}
