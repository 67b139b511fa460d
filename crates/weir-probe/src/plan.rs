//! Plans the patches of many functions from their files alone.
//!
//! In: functions of binaries. Out: for each a proved [`Window`], or the [`Refusal`]. The proof has three parts: the
//! function's own bytes ([`crate::window`]), other symbols that begin inside, and everything else in the binary that
//! could lead there ([`crate::incoming`], one scan for all functions of a binary). No process is needed: whether its
//! memory is like the file is checked when it is patched.

use std::collections::BTreeMap;
use std::path::Path;

use weir_symbols::{Binary, Function, FunctionKind, LinkAddr};

use crate::incoming;
use crate::refusal::Refusal;
use crate::window::{FunctionCode, Window, plan};

/// Plans every site from its file alone: how it would be patched, or why not. No process is needed.
pub fn plan_sites(sites: &[(&Binary, &Function)]) -> Vec<Result<Window, Refusal>> {
    let mut windows: Vec<Result<Window, Refusal>> =
        sites.iter().map(|&(binary, function)| plan_site(binary, function)).collect();
    let mut by_binary: BTreeMap<&Path, Vec<usize>> = BTreeMap::new();
    for (index, (binary, _)) in sites.iter().enumerate() {
        by_binary.entry(binary.path()).or_default().push(index);
    }
    for indices in by_binary.values() {
        let good: Vec<&Window> = indices.iter().filter_map(|&index| windows[index].as_ref().ok()).collect();
        let reached = incoming::reached(sites[indices[0]].0, &good);
        for &index in indices {
            let Ok(window) = &windows[index] else { continue };
            let target = window.interior().find(|target| reached.contains(target));
            if let Some(target) = target {
                let offset = target - sites[index].1.address.0;
                windows[index] = Err(Refusal::BranchIntoWindow { offset });
            }
        }
    }
    windows
}

fn plan_site(binary: &Binary, function: &Function) -> Result<Window, Refusal> {
    if function.kind == FunctionKind::Indirect {
        return Err(Refusal::IndirectFunction);
    }
    if function.size == 0 {
        return Err(Refusal::SizeUnknown);
    }
    let bytes = binary.bytes(function.address, function.size as usize).ok_or(Refusal::SizeUnknown)?;
    let window = plan(FunctionCode { address: function.address.0, bytes })?;
    let functions = binary.functions();
    let next = functions.partition_point(|other| other.address <= LinkAddr(window.address));
    if let Some(other) = functions.get(next).filter(|other| other.address.0 < window.end()) {
        let offset = other.address.0 - function.address.0;
        return Err(Refusal::SymbolInWindow { name: other.name.clone(), offset });
    }
    if let (Some(&offset), true) = (window.indirect_jumps.first(), window.lea_targets.is_empty())
        && binary.is_position_independent()
    {
        return Err(Refusal::IndirectJump { offset });
    }
    Ok(window)
}
