//! Finds bytes of text that nothing reaches: padding behind an instruction after which nothing goes on.
//!
//! In: a binary and a range of its text. Out: runs of `nop` and `int3` that stand directly behind a `ret`, a `jmp` or
//! an `ud2`, inside functions (before aligned loops) and between them. A function is decoded from its known start, so
//! that instructions are seen where they begin; a gap belongs to the function before it, and ends where the next
//! function (symbol or `.eh_frame` entry) begins. Gaps behind unknown code are never taken.
//!
//! That nothing falls into a run is proved here. That nothing branches or points there is for [`crate::incoming`],
//! which is asked about every byte that is going to be written.

use std::collections::BTreeMap;
use std::ops::Range;

use iced_x86::{Decoder, DecoderOptions, FlowControl, Instruction, Mnemonic};
use weir_symbols::{Binary, LinkAddr};

use crate::limits::FUNCTION_BYTES_MAX;

/// Bytes behind a function that are looked at: more than any alignment of functions leaves.
pub(crate) const PADDING_BYTES_MAX: usize = 64;

/// True if the next instruction in the text is not reached from this one.
pub(crate) fn ends_flow(instruction: &Instruction) -> bool {
    match instruction.flow_control() {
        FlowControl::Return | FlowControl::UnconditionalBranch | FlowControl::IndirectBranch => true,
        FlowControl::Exception => instruction.mnemonic() == Mnemonic::Ud2,
        _ => false,
    }
}

/// How many bytes at the start of `bytes` are padding instructions.
pub(crate) fn padding(bytes: &[u8]) -> usize {
    let mut length = 0;
    for instruction in Decoder::new(64, bytes, DecoderOptions::NONE).iter() {
        if !is_padding(&instruction) {
            break;
        }
        length += instruction.len();
    }
    length
}

fn is_padding(instruction: &Instruction) -> bool {
    matches!(instruction.mnemonic(), Mnemonic::Nop | Mnemonic::Int3)
}

/// What lies between the end of the function that ends at `end` and the next known one.
pub(crate) fn behind(binary: &Binary, end: u64) -> &[u8] {
    let last = end + PADDING_BYTES_MAX as u64;
    let next = next_start(binary, end).map_or(last, |start| start.min(last));
    // Another function may contain this end, or begin there.
    if next <= end || binary.function_bounds(LinkAddr(end)).is_some() {
        return &[];
    }
    let whole = binary.bytes(LinkAddr(end), (next - end) as usize);
    whole.unwrap_or_default()
}

/// Where the first function, or piece of one, at or behind `address` begins.
fn next_start(binary: &Binary, address: u64) -> Option<u64> {
    let functions = binary.functions();
    let symbol = functions.get(functions.partition_point(|function| function.address.0 < address));
    let frames = binary.frame_ranges();
    let frame = frames.get(frames.partition_point(|range| range.start.0 < address));
    let starts =
        symbol.map(|function| function.address.0).into_iter().chain(frame.map(|range| range.start.0));
    starts.min()
}

/// The runs of one binary, found where they are asked for.
pub(crate) struct Caves<'a> {
    binary: &'a Binary,
    /// By start of a function: the runs inside it and behind it.
    known: BTreeMap<u64, Vec<Range<u64>>>,
}

impl<'a> Caves<'a> {
    pub(crate) fn new(binary: &'a Binary) -> Caves<'a> {
        Caves { binary, known: BTreeMap::new() }
    }

    /// Runs that lie, in part, in `range`, cut off at its ends; by address.
    pub(crate) fn within(&mut self, range: Range<u64>) -> Vec<Range<u64>> {
        let mut found = Vec::new();
        // A gap at the start of the range belongs to the function before it.
        let mut at = range.start.saturating_sub(PADDING_BYTES_MAX as u64);
        while at < range.end {
            let Some(bounds) = self.binary.function_bounds(LinkAddr(at)) else {
                at = match next_start(self.binary, at + 1) {
                    Some(start) => start,
                    None => break,
                };
                continue;
            };
            let runs = self.of_function(bounds.start.0..bounds.end.0);
            found.extend(
                runs.iter()
                    .map(|run| run.start.max(range.start)..run.end.min(range.end))
                    .filter(|run| run.start < run.end),
            );
            at = bounds.end.0.max(at + 1);
        }
        found.sort_unstable_by_key(|run| run.start);
        found.dedup();
        found
    }

    fn of_function(&mut self, bounds: Range<u64>) -> &[Range<u64>] {
        let binary = self.binary;
        self.known.entry(bounds.start).or_insert_with(|| runs(binary, bounds))
    }
}

/// The runs inside and behind one function.
fn runs(binary: &Binary, bounds: Range<u64>) -> Vec<Range<u64>> {
    let length = bounds.end - bounds.start;
    if length > FUNCTION_BYTES_MAX {
        return Vec::new();
    }
    let behind = behind(binary, bounds.end);
    let Some(bytes) = binary.bytes(LinkAddr(bounds.start), length as usize + behind.len()) else {
        return Vec::new();
    };
    let mut runs: Vec<Range<u64>> = Vec::new();
    let mut is_dead = false;
    for instruction in Decoder::with_ip(64, bytes, bounds.start, DecoderOptions::NONE).iter() {
        if is_dead && is_padding(&instruction) {
            match runs.last_mut().filter(|run| run.end == instruction.ip()) {
                Some(run) => run.end = instruction.next_ip(),
                None => runs.push(instruction.ip()..instruction.next_ip()),
            }
            continue;
        }
        if instruction.ip() >= bounds.end {
            break;
        }
        if instruction.is_invalid() {
            // Not all of it is code; then no instruction is known to be one.
            return Vec::new();
        }
        is_dead = ends_flow(&instruction);
    }
    runs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn knows_the_paddings_of_compilers_and_linkers() {
        assert_eq!(padding(&[0x90, 0x66, 0x90, 0xc3]), 3);
        assert_eq!(padding(&[0x66, 0x2e, 0x0f, 0x1f, 0x84, 0, 0, 0, 0, 0, 0x0f, 0x1f, 0x44, 0, 0]), 15);
        assert_eq!(padding(&[0xcc, 0xcc, 0x55]), 2);
        assert_eq!(padding(&[0, 0, 0]), 0);
        assert_eq!(padding(&[]), 0);
    }
}
