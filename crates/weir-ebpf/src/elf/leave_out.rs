//! Takes maps out of an object, so that they refuse the programs that use them and nothing else.
//!
//! In: an object file, and what is wrong with each of its maps. Out: the file without those, its other maps numbered anew,
//! and calls of [`MISSING`](super::MISSING) where programs named one.

use crate::elf::core::MISSING_CALL;
use crate::elf::{ObjectFile, ProgramOrigin, Unusable};
use crate::insn::pseudo;
use crate::{Insn, MapSpec};

impl ObjectFile {
    /// Leaves out each map that `fault` has words for, such as `it has no entries`; it is given the map's index and all
    /// definitions. Maps that hold such maps go with them.
    pub fn leave_out_maps(&mut self, fault: impl Fn(usize, &[MapSpec]) -> Option<String>) {
        let specs = &self.object.maps;
        let mut faults: Vec<Option<String>> = (0..specs.len()).map(|map| fault(map, specs)).collect();
        if faults.iter().all(Option::is_none) {
            return;
        }
        for map in 0..specs.len() {
            let held = self.maps[map].held.iter().map(|(_, held)| *held);
            let is_faulty = |held: &u32| faults.get(*held as usize).is_some_and(Option::is_some);
            let broken = specs[map].inner.into_iter().chain(held).find(is_faulty);
            if let (Some(held), None) = (broken, &faults[map]) {
                faults[map] = Some(format!("it holds `{}`, which cannot be used", specs[held as usize].name));
            }
        }
        let mut kept = 0;
        let places: Vec<Option<u32>> = faults
            .iter()
            .map(|fault| {
                let place = fault.is_none().then_some(kept);
                kept += u32::from(fault.is_none());
                place
            })
            .collect();
        for (program, origin) in self.object.programs.iter_mut().zip(&mut self.programs) {
            renumber(&mut program.insns, origin, &places, |map| {
                format!("the map `{}`: {}", specs[map].name, faults[map].as_deref().unwrap_or_default())
            });
        }
        let place = |map: u32| places[map as usize].unwrap_or_default();
        let maps = std::mem::take(&mut self.object.maps);
        let origins = std::mem::take(&mut self.maps);
        for ((mut spec, mut origin), fault) in maps.into_iter().zip(origins).zip(faults) {
            if let Some(reason) = fault {
                self.unusable.push(Unusable { name: spec.name, reason });
                continue;
            }
            spec.inner = spec.inner.map(place);
            for (_, held) in &mut origin.held {
                *held = place(*held);
            }
            self.object.maps.push(spec);
            self.maps.push(origin);
        }
    }
}

/// Wide loads name maps by their new places; those of maps that have none may not be reached.
fn renumber(
    insns: &mut [Insn],
    origin: &mut ProgramOrigin,
    places: &[Option<u32>],
    why: impl Fn(usize) -> String,
) {
    let mut slot = 0;
    while slot < insns.len() {
        let insn = insns[slot];
        let count = if insn.is_wide() { 2 } else { 1 };
        if insn.is_wide() && matches!(insn.src, pseudo::MAP_INDEX | pseudo::MAP_INDEX_VALUE) {
            match places.get(insn.imm as usize) {
                Some(Some(place)) => insns[slot].imm = *place as i32,
                Some(None) => {
                    let end = insns.len().min(slot + count);
                    insns[slot..end].fill(MISSING_CALL);
                    origin.missing.push((slot as u32, why(insn.imm as usize)));
                }
                // The verifier says that there is no such map.
                None => {}
            }
        }
        slot += count;
    }
    origin.missing.sort_by_key(|(slot, _)| *slot);
}
