//! The instructions of one program as a file holds them: taken apart into functions, with relocations.
//!
//! In: a complete program. Out: its functions as ranges of slots, the first the program itself; and the bytes of each,
//! with what the loader has to fill in. A function goes from a slot that is called to the next such slot, and no jump
//! may leave it: what libbpf puts together again is then the same program.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use crate::elf::WriteError;
use crate::insn::{class, jmp, pseudo};
use crate::{Insn, Program};

const R_BPF_64_64: u64 = 1;
const R_BPF_64_32: u64 = 10;

/// Numbers of the symbols that code refers to.
pub(super) struct Symbols<'a> {
    /// By index of the map.
    pub(super) maps: &'a [u32],
    /// By slot of the function's start.
    pub(super) functions: &'a BTreeMap<usize, u32>,
}

/// The functions of a program, ascending; the first begins at 0.
pub(super) fn functions(program: &Program) -> Result<Vec<Range<usize>>, WriteError> {
    let count = program.insns.len();
    if count == 0 {
        return Err(refusal(program, 0, "the program is empty"));
    }
    let mut starts = BTreeSet::from([0]);
    for (at, insn) in slots(program).filter(|(_, insn)| is_local_call(*insn) || is_address(insn)) {
        let target = at as i64 + 1 + i64::from(insn.imm);
        let start = usize::try_from(target).ok().filter(|start| *start < count);
        starts.insert(start.ok_or_else(|| refusal(program, at, "a call of what is not in the program"))?);
    }
    let ends = starts.iter().copied().skip(1).chain([count]);
    let ranges: Vec<Range<usize>> = starts.iter().copied().zip(ends).map(|(start, end)| start..end).collect();
    for (at, insn) in slots(program) {
        // SANITY: the ranges cover every slot from 0 to the end.
        let range = &ranges[ranges.partition_point(|range| range.end <= at)];
        if insn.is_wide() && at + 2 > range.end {
            return Err(refusal(program, at, "a wide load is cut off"));
        }
        if ranges.len() > 1 && jump_target(at, insn).is_some_and(|target| !contains(range, target)) {
            return Err(refusal(program, at, "a jump leaves its function"));
        }
    }
    Ok(ranges)
}

/// The bytes of one function that begins at byte `start` of its section, and its relocations there.
pub(super) fn function(
    program: &Program,
    range: Range<usize>,
    start: u64,
    symbols: &Symbols,
) -> Result<(Vec<u8>, Vec<u8>), WriteError> {
    let (mut bytes, mut relocations) = (Vec::with_capacity(range.len() * 8), Vec::new());
    let mut relocate = |bytes: &[u8], symbol: u32, kind: u64| {
        relocations.extend((start + bytes.len() as u64).to_le_bytes());
        relocations.extend((u64::from(symbol) << 32 | kind).to_le_bytes());
    };
    for (at, insn) in slots(program).filter(|(at, _)| range.contains(at)) {
        if is_local_call(insn) {
            let callee = (at as i64 + 1 + i64::from(insn.imm)) as usize;
            relocate(&bytes, symbols.functions[&callee], R_BPF_64_32);
            // The distance from the symbol, less one.
            bytes.extend(Insn { imm: -1, ..insn }.to_bytes());
            continue;
        }
        if insn.opcode == class::JMP | jmp::CALL && insn.src == pseudo::KERNEL {
            return Err(refusal(program, at, "writing calls of kernel functions is not in this version"));
        }
        if !insn.is_wide() {
            bytes.extend(insn.to_bytes());
            continue;
        }
        let second = program.insns[at + 1];
        let [first, second] = match insn.src {
            pseudo::NONE => [insn, second],
            pseudo::MAP_INDEX | pseudo::MAP_INDEX_VALUE => {
                let symbol = symbols.maps.get(insn.imm as usize);
                let symbol = symbol.ok_or_else(|| refusal(program, at, "there is no such map"))?;
                relocate(&bytes, *symbol, R_BPF_64_64);
                // The distance from the symbol stands in the first half.
                let offset = if insn.src == pseudo::MAP_INDEX { 0 } else { second.imm };
                [Insn { src: 0, imm: offset, ..insn }, Insn { imm: 0, ..second }]
            }
            // Such a load names its function by the symbol alone.
            pseudo::FUNCTION => {
                let callee = (at as i64 + 1 + i64::from(insn.imm)) as usize;
                relocate(&bytes, symbols.functions[&callee], R_BPF_64_64);
                [Insn { src: 0, imm: 0, ..insn }, second]
            }
            _ => {
                return Err(refusal(program, at, "writing a wide load of this kind is not in this version"));
            }
        };
        bytes.extend(first.to_bytes());
        bytes.extend(second.to_bytes());
    }
    Ok((bytes, relocations))
}

/// The instructions with their slots, wide ones once.
fn slots(program: &Program) -> impl Iterator<Item = (usize, Insn)> + '_ {
    let mut next = 0;
    program.insns.iter().copied().enumerate().filter(move |(at, insn)| {
        let is_first = *at == next;
        if is_first {
            next += if insn.is_wide() { 2 } else { 1 };
        }
        is_first
    })
}

/// Loads the address of a function.
pub(super) fn is_address(insn: &Insn) -> bool {
    insn.is_wide() && insn.src == pseudo::FUNCTION
}

fn is_local_call(insn: Insn) -> bool {
    insn.opcode == class::JMP | jmp::CALL && insn.src == pseudo::LOCAL
}

/// Where a jump goes; none for what is no jump.
fn jump_target(at: usize, insn: Insn) -> Option<i64> {
    let is_jump = matches!(insn.class(), class::JMP | class::JMP32);
    let is_other = [class::JMP | jmp::CALL, class::JMP | jmp::EXIT].contains(&insn.opcode);
    let is_long = insn.opcode == class::JMP32 | jmp::JA;
    let distance = if is_long { insn.imm.into() } else { i64::from(insn.off) };
    (is_jump && !is_other).then_some(at as i64 + 1 + distance)
}

fn contains(range: &Range<usize>, target: i64) -> bool {
    usize::try_from(target).is_ok_and(|target| range.contains(&target))
}

fn refusal(program: &Program, at: usize, what: &'static str) -> WriteError {
    WriteError::Program { program: program.name.clone(), at, what }
}
