//! Which clauses of a script run in processes and which in the kernel, where it has both, and on which side each map is then.
//!
//! In: a module. Out: [`Sides`]; or the map that both sides would need at once ([`Conflict`]). What both sides add to is there twice, and put together when
//! it is printed; a map of single words, or without keys, can be one that both see ([`Side::Shared`]).
//!
//! Clauses at events of the kernel run there, those at functions and static probes in the processes, or where the caller says: on both sides, where
//! some of their places cannot be patched. A clause that is at neither (BEGIN, END, intervals) runs where the maps are that it names, or where memory
//! is that it reads: in the kernel; else in weir.

use std::collections::BTreeMap;

use weir_event::{MapSchema, MapValue, Type};

use crate::{Function, MapId, Module, Op, Trigger};

/// Where something is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Side {
    /// In the traced processes, and in weir.
    Processes,
    /// In the kernel.
    Kernel,
    /// Of a map: one on each side, to be added up. Of a clause: at some of its places in the one, at the others in the other.
    Both,
    /// Of a map: one, that both sides see.
    Shared,
}

/// The sides of a module.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Sides {
    /// By the numbers of its functions: whether it runs in the kernel.
    pub in_kernel: Vec<bool>,
    /// The same in processes, or in weir.
    pub in_processes: Vec<bool>,
    /// By the numbers of its maps.
    pub maps: Vec<Side>,
}

/// A map that both sides need.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Conflict {
    /// Its name.
    pub map: String,
}

impl Sides {
    /// Those of a module. `stands_in`: clauses at functions and static probes, by number, that run in the kernel at some of their places or at all.
    /// `shares`: whether there are maps that both see, asked where one is needed.
    pub fn of(
        module: &Module,
        stands_in: &BTreeMap<usize, Side>,
        shares: &dyn Fn() -> bool,
    ) -> Result<Sides, Conflict> {
        let by_number = |(number, function)| stands_in.get(&number).copied().or_else(|| side_of(function));
        let mut sides = Undecided {
            module,
            shares,
            uses: module.functions.iter().map(uses).collect(),
            functions: module.functions.iter().enumerate().map(by_number).collect(),
            maps: vec![None; module.schema.maps.len()],
        };
        for map in 0..sides.maps.len() {
            sides.maps[map] = sides.of_map(map)?;
        }
        while sides.spread()? {}
        Ok(Sides {
            in_kernel: sides.functions.iter().map(|side| is_of(*side, Side::Kernel)).collect(),
            in_processes: sides.functions.iter().map(|side| *side != Some(Side::Kernel)).collect(),
            maps: sides.maps.iter().map(|side| side.unwrap_or(Side::Processes)).collect(),
        })
    }
}

/// A clause that runs there.
fn is_of(side: Option<Side>, wanted: Side) -> bool {
    side.is_some_and(|side| side == wanted || side == Side::Both)
}

/// Where a clause runs whatever it does; none of one that may run on either side.
fn side_of(function: &Function) -> Option<Side> {
    match &function.trigger {
        Trigger::Kernel { .. } => Some(Side::Kernel),
        Trigger::Begin | Trigger::End | Trigger::Interval { .. } | Trigger::Asked { .. } => {
            let reads = function.ops().any(|op| {
                matches!(
                    op,
                    Op::ReadInt { .. } | Op::ReadStr { .. } | Op::ReadBytes { .. } | Op::ReadStrings { .. }
                )
            });
            reads.then_some(Side::Kernel)
        }
        Trigger::Uprobe { .. }
        | Trigger::Uretprobe { .. }
        | Trigger::Session { .. }
        | Trigger::Usdt { .. }
        | Trigger::Filter => Some(Side::Processes),
    }
}

/// The maps that a function names, and of each whether it only adds to it.
fn uses(function: &Function) -> BTreeMap<usize, bool> {
    let mut uses = BTreeMap::new();
    for op in function.ops() {
        if let Some(MapId(map)) = op.map() {
            *uses.entry(map as usize).or_insert(true) &= matches!(op, Op::Aggregate { .. });
        }
    }
    uses
}

struct Undecided<'a> {
    module: &'a Module,
    shares: &'a dyn Fn() -> bool,
    /// Of each function.
    uses: Vec<BTreeMap<usize, bool>>,
    functions: Vec<Option<Side>>,
    maps: Vec<Option<Side>>,
}

impl Undecided<'_> {
    /// Where those clauses have a map that can only run on one side.
    fn of_map(&self, map: usize) -> Result<Option<Side>, Conflict> {
        let users = || self.uses.iter().zip(&self.functions);
        let has = |wanted: Side| users().any(|(uses, side)| is_of(*side, wanted) && uses.contains_key(&map));
        match (has(Side::Processes), has(Side::Kernel)) {
            (false, false) => Ok(None),
            (true, false) => Ok(Some(Side::Processes)),
            (false, true) => Ok(Some(Side::Kernel)),
            (true, true) => {
                let schema = &self.module.schema.maps[map];
                let adds = users().all(|(uses, _)| uses.get(&map).is_none_or(|only_adds| *only_adds));
                match adds && is_added_up(schema) && !has_stacks(schema) {
                    true => Ok(Some(Side::Both)),
                    false if self.are_shared(&[map]) => Ok(Some(Side::Shared)),
                    false => Err(self.conflict(map)),
                }
            }
        }
    }

    /// Decides for one clause more, and the maps that it names; false where there is none.
    fn spread(&mut self) -> Result<bool, Conflict> {
        for number in 0..self.functions.len() {
            let used: Vec<usize> = self.uses[number].keys().copied().collect();
            let of = |wanted: Side| {
                used.iter().copied().filter(|map| self.maps[*map] == Some(wanted)).collect::<Vec<usize>>()
            };
            let (in_processes, in_kernel) = (of(Side::Processes), of(Side::Kernel));
            let elsewhere = match self.functions[number] {
                Some(Side::Kernel) => in_processes,
                Some(Side::Processes) => in_kernel,
                Some(Side::Both | Side::Shared) => [in_processes, in_kernel].concat(),
                None if in_processes.is_empty() || in_kernel.is_empty() => Vec::new(),
                None if self.are_shared(&in_kernel) => in_kernel,
                None => in_processes,
            };
            if let Some(map) = elsewhere.first() {
                if !self.are_shared(&elsewhere) {
                    return Err(self.conflict(*map));
                }
                elsewhere.iter().for_each(|map| self.maps[*map] = Some(Side::Shared));
                return Ok(true);
            }
            let of_map =
                |map: &usize| self.maps[*map].filter(|side| matches!(side, Side::Processes | Side::Kernel));
            let side = self.functions[number].or_else(|| used.iter().find_map(of_map));
            let new = |map: &usize| self.maps[*map].is_none();
            let is_new = side.is_some() && (self.functions[number].is_none() || used.iter().any(new));
            if is_new {
                self.functions[number] = side;
                for map in used {
                    self.maps[map].get_or_insert(side.unwrap_or(Side::Processes));
                }
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn are_shared(&self, maps: &[usize]) -> bool {
        maps.iter().all(|map| is_shared(&self.module.schema.maps[*map])) && (self.shares)()
    }

    fn conflict(&self, map: usize) -> Conflict {
        Conflict { map: self.module.schema.maps[map].name.clone() }
    }
}

/// Two values of it make one.
fn is_added_up(map: &MapSchema) -> bool {
    match &map.value {
        MapValue::Plain(_) | MapValue::Tseries { .. } => false,
        MapValue::Count
        | MapValue::Sum { .. }
        | MapValue::Avg { .. }
        | MapValue::Stats { .. }
        | MapValue::Min { .. }
        | MapValue::Max { .. }
        | MapValue::Hist { .. }
        | MapValue::Lhist { .. } => true,
    }
}

/// Bytes of a key of a map that both sides see, at most: functions of the kernel compare it word by word.
const SHARED_KEY_BYTES_MAX: u32 = 256;

/// Both sides may see one map: its values are single words, which are there whole or not at all, or it has no keys. No old key gives way in it.
fn is_shared(map: &MapSchema) -> bool {
    let MapValue::Plain(value) = &map.value else { return false };
    let is_word = !value.is_in_memory() && value.bytes() == 8;
    let is_table =
        |key: &Type| is_word && key.bytes().is_multiple_of(8) && key.bytes() <= SHARED_KEY_BYTES_MAX;
    map.key.as_ref().is_none_or(is_table) && map.room.is_none_or(|room| !room.evicts) && !has_stacks(map)
}

/// Stacks have numbers, which are those of one side.
fn has_stacks(map: &MapSchema) -> bool {
    let of_value = match &map.value {
        MapValue::Plain(value) => crate::leaves(value),
        _ => Vec::new(),
    };
    let mut leaves = map.key.iter().flat_map(crate::leaves).chain(of_value);
    leaves.any(|leaf| matches!(leaf, Type::Ustack(_)))
}
