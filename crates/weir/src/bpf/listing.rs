//! A program with what the verifier knew before each instruction, for `weir bpf verify -v`.
//!
//! In: the program of a file, the verdict, the states. Out: lines: the source line where it changes, the registers and
//! stack slots whose values differ from those of the line above, the instruction with its facts. A program that was
//! refused is listed as far as it was followed.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use weir_ebpf::asm;
use weir_ebpf::elf::ObjectFile;
use weir_verifier::{InsnFacts, InsnStates, Place, States, VerifiedProgram};

pub(super) fn listing(
    file: &ObjectFile,
    index: usize,
    verified: Option<&VerifiedProgram>,
    states: &States,
) -> String {
    let (program, maps) = (&file.object.programs[index], &file.object.maps);
    let mut text = String::new();
    let (mut slot, mut line_shown) = (0, None);
    let mut shown = BTreeMap::new();
    while slot < program.insns.len() {
        // Line 0 stands for code that has no single line.
        let source = file.source_line(index, slot).filter(|source| source.line != 0);
        if let Some(source) = source.filter(|source| line_shown != Some((source.file, source.line))) {
            let _ = writeln!(text, "; {source}");
            line_shown = Some((source.file, source.line));
        }
        let nothing = InsnStates::default();
        let seen = states.insns.get(slot).unwrap_or(&nothing);
        let changes = changes(&mut shown, seen);
        if !changes.is_empty() {
            let _ = writeln!(text, "        {changes}");
        }
        let code = asm::insn_text(&program.insns, slot, maps);
        let known = notes(verified.map(|verified| &verified.facts()[slot]), seen, maps);
        let _ = writeln!(text, "{slot:6}: {code}{known}");
        slot += if program.insns[slot].is_wide() { 2 } else { 1 };
    }
    text
}

/// The places that hold something else than at the instruction above, which `shown` keeps.
fn changes(shown: &mut BTreeMap<Place, Vec<String>>, seen: &InsnStates) -> String {
    if seen.visits == 0 {
        return String::new();
    }
    let mut changed = Vec::new();
    for (place, values) in &seen.places {
        if shown.get(place) != Some(values) {
            changed.push(format!("{place} = {}", values.join(" | ")));
        }
    }
    shown.clone_from(&seen.places);
    changed.join(", ")
}

fn notes(facts: Option<&InsnFacts>, seen: &InsnStates, maps: &[weir_ebpf::MapSpec]) -> String {
    let mut notes = Vec::new();
    match seen.visits {
        0 => notes.push("never reached".to_owned()),
        1 => {}
        visits => notes.push(format!("{visits} times")),
    }
    if let Some(facts) = facts {
        notes.extend(facts.branch.map(|taken| if taken { "always jumps" } else { "never jumps" }.to_owned()));
        notes.extend(facts.constant.map(|value| format!("{value:#x}, which nobody changes")));
        notes.extend(facts.constant_key.map(|key| format!("element {key}")));
        let map = |map: u32| maps.get(map as usize).map(|spec| spec.name.as_str());
        notes.extend(facts.map_index.and_then(map).map(|name| format!("map {name}")));
        notes.extend(facts.context_field.map(|field| format!("field {}", field.name)));
        notes.extend(facts.per_cpu_map.and_then(map).map(|name| format!("a CPU's own value of map {name}")));
    }
    if notes.is_empty() { String::new() } else { format!(" ; {}", notes.join(", ")) }
}
