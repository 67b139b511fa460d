//! Where parameters are at a function's first instruction, as their locations say (DWARF 5, 2.6 and 3.3.5).
//!
//! In: the entry of a function with code. Out: a [`Located`] for each of its parameters. An optimising compiler that sees all calls of
//! a function leaves parameters out, and hands over what is left in the next registers; then only locations tell where a parameter is.
//!
//! - LLVM changes functions under their own names. Without optimisation it gives a parameter the memory that the function
//!   stores it in, which at the first instruction is not written yet: then the calling convention holds.
//! - GCC gives a function that it changes another name (`work.isra.0`); in all others the convention holds, so that its locations are
//!   not asked. They would mislead: without variable tracking they name one register for the whole function, to which the parameter is
//!   moved later.

use std::collections::HashMap;

use gimli::{
    AttributeValue, DebuggingInformationEntry, Expression, Operation, Register, Unit, constants as dw,
};

use super::{Bytes, Passed, Place, Search};
use crate::LinkAddr;
use crate::limits::{LOCATION_OPERATIONS_MAX, PARAMETERS_MAX, TYPE_LINKS_MAX};

pub(super) const LOST: &str = "the compiler has optimised it away";
pub(super) const LATER: &str = "it has no place at the function's entry: the compiler has optimised it";
const CONSTANT: &str =
    "the compiler has optimised it away: it is always the same, or computed from other values";
pub(super) const IN_PART: &str = "the compiler has optimised a part of it away";

/// Where a parameter is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Located {
    /// In memory that the function writes later, or that its caller has written.
    Memory,
    One(Passed),
    /// Its first and its last 8 bytes.
    Two(Passed, Passed),
    /// The same, one of them unknown, or both.
    Part(Option<Passed>, Option<Passed>),
    /// In memory whose address is there.
    Behind(Passed),
    /// Not there at the first instruction, but by a later one.
    Later(Option<Passed>),
    /// Nowhere: why.
    Lost(&'static str),
}

impl<'a> Search<'a, '_> {
    /// Where the parameters of the code at a place are, by the entries that have their names and types. None: by the convention.
    pub(super) fn located(
        &mut self,
        (index, offset): Place,
        address: LinkAddr,
    ) -> Option<HashMap<Place, Located>> {
        let unit = self.unit(index)?;
        if self.is_by_gcc(&unit) {
            return None;
        }
        let mut entries = unit.entries_at_offset(offset).ok()?;
        let depth = entries.next_dfs().ok()??.depth();
        let mut found = HashMap::new();
        while let Ok(Some(entry)) = entries.next_dfs() {
            self.entries = self.entries.checked_sub(1)?;
            if entry.depth() <= depth || found.len() == PARAMETERS_MAX {
                break;
            }
            if entry.depth() == depth + 1 && entry.tag() == dw::DW_TAG_formal_parameter {
                let located = self.location_of(&unit, entry, address);
                found.insert(self.origin_of((index, entry.offset())), located);
            }
        }
        Some(found)
    }

    fn is_by_gcc(&self, unit: &Unit<Bytes<'a>>) -> bool {
        let Ok(Some(root)) = unit.entries().next_dfs().map(|entry| entry.cloned()) else { return false };
        let producer = root.attr_value(dw::DW_AT_producer);
        let producer = producer.and_then(|value| self.dwarf.attr_string(unit, value).ok());
        producer.is_some_and(|producer| producer.slice().starts_with(b"GNU "))
    }

    /// The entry that an instance's was made of.
    fn origin_of(&mut self, place: Place) -> Place {
        let mut at = place;
        for _ in 0..TYPE_LINKS_MAX {
            let Some(entry) = self.entry(at) else { break };
            match self.reference(at.0, &entry, dw::DW_AT_abstract_origin) {
                Some(origin) => at = origin,
                None => break,
            }
        }
        at
    }

    fn location_of(
        &mut self,
        unit: &Unit<Bytes<'a>>,
        entry: &DebuggingInformationEntry<Bytes<'a>>,
        address: LinkAddr,
    ) -> Located {
        let value = match entry.attr_value(dw::DW_AT_location) {
            Some(AttributeValue::Exprloc(expression)) => return read(expression, unit),
            Some(value) => value,
            None if entry.attr_value(dw::DW_AT_const_value).is_some() => return Located::Lost(CONSTANT),
            None => return Located::Lost(LOST),
        };
        let Ok(Some(mut list)) = self.dwarf.attr_locations(unit, value) else { return Located::Lost(LOST) };
        let mut later: Option<(u64, Located)> = None;
        while let Ok(Some(found)) = list.next() {
            let Some(left) = self.ranges.checked_sub(1) else { break };
            self.ranges = left;
            if (found.range.begin..found.range.end).contains(&address.0) {
                return read(found.data, unit);
            }
            let begin = found.range.begin;
            if begin > address.0 && later.is_none_or(|(first, _)| begin < first) {
                later = Some((begin, read(found.data, unit)));
            }
        }
        Located::Later(match later {
            Some((_, Located::One(passed) | Located::Behind(passed))) => Some(passed),
            _ => None,
        })
    }
}

/// What was read of an expression, or of a piece of it.
#[derive(Clone, Copy)]
enum Part {
    Nothing,
    Register(Register),
    /// The register's value, as an address until it is said to be the value.
    Address(Register),
    Memory,
    Computed,
}

/// What an expression says, evaluated at the function's first instruction.
fn read(expression: Expression<Bytes<'_>>, unit: &Unit<Bytes<'_>>) -> Located {
    let mut operations = expression.operations(unit.encoding());
    let (mut part, mut pieces) = (Part::Nothing, Vec::new());
    for _ in 0..LOCATION_OPERATIONS_MAX {
        match operations.next() {
            Ok(Some(Operation::Piece { size_in_bits, .. })) => {
                pieces.push((part, size_in_bits));
                part = Part::Nothing;
            }
            Ok(Some(operation)) => part = after(part, operation, unit),
            Ok(None) if pieces.is_empty() => return whole(part),
            Ok(None) => return of_pieces(&pieces),
            Err(_) => break,
        }
    }
    Located::Lost(CONSTANT)
}

/// What a part is with one operation more.
fn after(part: Part, operation: Operation<Bytes<'_>>, unit: &Unit<Bytes<'_>>) -> Part {
    match (part, operation) {
        (Part::Nothing, Operation::Register { register }) => Part::Register(register),
        (
            Part::Nothing,
            Operation::RegisterOffset { register, offset: 0, base_type: gimli::UnitOffset(0) },
        ) => Part::Address(register),
        (Part::Nothing, Operation::EntryValue { expression }) => {
            let mut inner = Expression(expression).operations(unit.encoding());
            match (inner.next(), inner.next()) {
                (Ok(Some(Operation::Register { register })), Ok(None)) => Part::Address(register),
                _ => Part::Computed,
            }
        }
        (
            Part::Nothing,
            Operation::RegisterOffset { .. } | Operation::FrameOffset { .. } | Operation::CallFrameCFA,
        ) => Part::Memory,
        (Part::Address(register), Operation::StackValue) => Part::Register(register),
        (
            Part::Address(_) | Part::Memory,
            Operation::Deref { .. } | Operation::PlusConstant { .. } | Operation::Nop,
        ) => Part::Memory,
        _ => Part::Computed,
    }
}

fn whole(part: Part) -> Located {
    match part {
        Part::Nothing => Located::Lost(LOST),
        Part::Computed => Located::Lost(CONSTANT),
        Part::Memory => Located::Memory,
        Part::Register(register) => passed(register).map_or(Located::Lost(LATER), Located::One),
        Part::Address(register) => passed(register).map_or(Located::Memory, Located::Behind),
    }
}

fn of_pieces(pieces: &[(Part, u64)]) -> Located {
    let places: Vec<Located> = pieces.iter().map(|(part, _)| whole(*part)).collect();
    if places.iter().all(|place| *place == Located::Memory) {
        return Located::Memory;
    }
    let register = |index: usize| match places.get(index) {
        Some(Located::One(passed)) => Some(*passed),
        _ => None,
    };
    match (pieces, register(0), register(1)) {
        ([(_, 64), (_, 64)], Some(first), Some(second)) => Located::Two(first, second),
        ([(_, 64)] | [(_, 64), (_, 64)], first, second) => Located::Part(first, second),
        _ => Located::Lost(IN_PART),
    }
}

/// A register that passes arguments, from DWARF's number for it (psABI 3.6.2). In others a function finds none.
fn passed(register: Register) -> Option<Passed> {
    match register.0 {
        1 => Some(Passed::Register(2)),
        2 => Some(Passed::Register(1)),
        4 => Some(Passed::Register(6)),
        5 => Some(Passed::Register(7)),
        number @ (8 | 9) => Some(Passed::Register(number as u8)),
        number @ 17..=24 => Some(Passed::Vector((number - 17) as u8)),
        _ => None,
    }
}
