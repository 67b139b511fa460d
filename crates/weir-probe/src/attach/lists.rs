//! Places that call a list of functions ([`weir_plan::window::Called`]), as a process has them: a word, and the address of the list.
//!
//! In: a target, and an address. Out: what stands there. All of it may be anything.

use weir_plan::Refusal;
use weir_plan::limits::{CALLED_BYTES, CALLED_LIST, CALLED_OTHERS_MAX};
use weir_plan::window::Called;
use weir_symbols::VirtAddr;
use weir_symbols::maps::Mapping;
use weir_trampoline::called;

use crate::process::mapped::{Maker, is_weirs};
use crate::process::memory::Memory;
use crate::process::target::Target;

/// What stands at `address`, where a function, which hands so many words over, is to be called in addition.
pub(crate) fn look(target: &Target, address: u64, function: (u64, u8)) -> Result<Called, Refusal> {
    let mut size = [0; 4];
    let is_whole = target.memory.read(address.wrapping_sub(SIZE_BEFORE), &mut size).is_ok()
        && SIZES.contains(&u32::from_le_bytes(size));
    let called = may_stand(&target.mappings, address).then(|| read(target, address, function));
    called.flatten().filter(|_| is_whole).ok_or(Refusal::NotCalled { address })
}

/// Where the place is: `own`, or that of another file which the word at `listed` has been made to point to, by a symbol of the
/// same name (a program's copy of what it uses of a library, among others).
pub(crate) fn place(target: &Target, listed: u64, own: u64) -> u64 {
    let listed = target.memory.read_u64(listed).map(|structure| structure.wrapping_add(SIZE_BEFORE));
    // Before the file is relocated it is no address of a place.
    listed.ok().filter(|&place| place != own && look(target, place, (0, 0)).is_ok()).unwrap_or(own)
}

fn read(target: &Target, address: u64, (function, words): (u64, u8)) -> Option<Called> {
    let mut old = [0; CALLED_BYTES];
    target.memory.read(address, &mut old).ok()?;
    // A list of this weir's was not there before: it goes with its island. Another's stays, as long as this one lies over it.
    let is_own = |mapping: &Mapping| is_weirs(mapping) && Maker::of_mapping(mapping) == target.maker;
    if target.mapping_at(VirtAddr(list(&old))).is_some_and(is_own) {
        return None;
    }
    let others = others(&target.memory, list(&old))?;
    // In the list of another weir there may be this one's own of before.
    let is_own =
        |data: &u64| target.maker.is_some() && target.mapping_at(VirtAddr(*data)).is_some_and(is_own);
    let dropped = others.iter().map(|(_, data)| *data).filter(is_own).collect();
    Some(Called { old, others, dropped, function, words })
}

/// The bytes of the list that a place led to, which must be as they were when another takes its place; none has none.
pub(crate) fn bytes_of(called: &Called) -> Option<(u64, Vec<u8>)> {
    let list = list(&called.old);
    let words = called.others.iter().flat_map(|&(function, data)| [function, data]).chain([0]);
    (list != 0).then(|| (list, words.flat_map(u64::to_le_bytes).collect()))
}

/// The size of the structure that a place is in, so far before it. (Pointers of it are not relocated yet in a program that begins.)
const SIZE_BEFORE: u64 = 24;
const SIZES: std::ops::RangeInclusive<u32> = 56..=4096;

/// The list at an address: none has none.
fn others(memory: &Memory, list: u64) -> Option<Vec<(u64, u64)>> {
    let mut others = Vec::new();
    if list == 0 {
        return Some(others);
    }
    for at in (list..).step_by(16).take(CALLED_OTHERS_MAX + 1) {
        let (function, data) = (memory.read_u64(at).ok()?, memory.read_u64(at.checked_add(8)?).ok()?);
        if function == 0 {
            return Some(others);
        }
        others.push((function, data));
    }
    None
}

/// Whether this list, which is another weir's, has the event of that at `own`.
pub(crate) fn calls(target: &Target, list: u64, own: u64) -> bool {
    let is_others = |mapping: &Mapping| is_weirs(mapping) && Maker::of_mapping(mapping) != target.maker;
    let event = called::event_of(own);
    target.mapping_at(VirtAddr(list)).is_some_and(is_others)
        && others(&target.memory, list).is_some_and(|all| all.iter().any(|&(_, data)| data == event))
}

/// The list that the bytes of a place lead to.
pub(crate) fn list(bytes: &[u8]) -> u64 {
    let list = bytes.get(CALLED_LIST..CALLED_BYTES).and_then(|list| list.try_into().ok());
    list.map_or(0, u64::from_le_bytes)
}

/// What stood at a place, as it is given back: who has a list there wants it called, however far he had come when it was looked at.
pub(crate) fn given_back(old: &[u8]) -> Vec<u8> {
    let mut bytes = old.to_vec();
    if list(old) != 0 {
        bytes[..4].copy_from_slice(&1u32.to_le_bytes());
    }
    bytes
}

/// Whether such a place may stand at `address`: in private memory that the program writes.
pub(crate) fn may_stand(mappings: &[Mapping], address: u64) -> bool {
    let last = address.checked_add(CALLED_BYTES as u64 - 1);
    let holds = |mapping: &&Mapping| mapping.contains(VirtAddr(address));
    let mapping = mappings.iter().find(holds);
    mapping.zip(last).is_some_and(|(mapping, last)| {
        mapping.contains(VirtAddr(last)) && mapping.read && mapping.write && !mapping.shared
    })
}
