//! `weir trace --explain`: what a run would do, as tables or as JSON.
//!
//! In: an [`Explained`]. Out: programs, places, maps and engines, a table each; or an object a row, `{"type": …, "data": …}`. What is not known is
//! `-` or null.

use serde_json::{Value, json};
use weir_run::explain::{Explained, Map, OnEngine, Place, Program};

use crate::print::printable;

/// What the estimates are worth.
const ESTIMATES: &str = "Times are estimates, of one hit of an empty probe (docs/bench/probe.json) and of a program's calls and instructions, each once
(docs/bench/vm.json, script.json), as measured on one machine. Expect a factor of three either way; --live measures.";

/// Tables for people.
pub(crate) fn text(explained: &Explained) -> String {
    let mut out = format!("{}\n\n", begins(explained));
    out += "PROGRAMS\n";
    let head = ["", "PROBE", "RUNS", "INSTRUCTIONS", "CODE", "A RUN"];
    out += &table(&head, explained.programs.iter().enumerate().map(program));
    if !explained.places.is_empty() {
        out += "\nPLACES\n";
        let head = ["PROGRAMS", "PLACE", "ADDRESS", "A HIT", "HOW"];
        let in_kernel = explained.engines.iter().any(|engine| engine.name == "kernel" && engine.is_chosen);
        out += &table(&head, explained.places.iter().map(|one| place(one, in_kernel)));
    }
    out += &format!(
        "\nMAPS: {} at most, {} when the run begins; {} more in each process\n",
        bytes(explained.shared_bytes.most),
        bytes(explained.shared_bytes.at_first),
        bytes(explained.process_bytes)
    );
    let head = ["MAP", "KIND", "ENTRIES", "KEY", "VALUE", "BYTES"];
    out += &table(&head, explained.maps.iter().map(map));
    out += "\nENGINES\n";
    out += &table(&["ENGINE", "", "WOULD PROBE", "A HIT"], explained.engines.iter().map(engine));
    out + &format!("\n{ESTIMATES}\n")
}

/// One object a row.
pub(crate) fn json(explained: &Explained) -> String {
    let target = json!({
        "process": explained.process,
        "command": explained.command,
        "refused": explained.refused,
        "map_bytes_most": explained.shared_bytes.most,
        "map_bytes_at_first": explained.shared_bytes.at_first,
        "process_bytes": explained.process_bytes,
    });
    let mut objects = vec![("run", target)];
    objects.extend(explained.programs.iter().enumerate().map(|row| ("program", object_of_program(row))));
    objects.extend(explained.places.iter().map(|place| ("place", object_of_place(place))));
    objects.extend(explained.maps.iter().map(|map| ("map", object_of_map(map))));
    objects.extend(explained.engines.iter().map(|engine| ("engine", object_of_engine(engine))));
    objects.iter().map(|(kind, data)| format!("{{\"type\": \"{kind}\", \"data\": {data}}}\n")).collect()
}

fn begins(explained: &Explained) -> String {
    let target = match (explained.process, &explained.command) {
        (Some(pid), _) => format!("process {pid}, as it is now"),
        (None, Some(words)) => format!("the command {}, from its files", printable(&words.join(" "))),
        (None, None) => "no process in particular, from files".to_owned(),
    };
    match &explained.refused {
        None => format!("Looked at: {target}. Nothing was attached."),
        Some(why) => format!("Looked at: {target}. The run would not begin: {why}"),
    }
}

fn program((number, program): (usize, &Program)) -> Vec<String> {
    let Program { name, in_process, in_kernel, instructions, code_bytes, ns, .. } = program;
    let runs = match (in_process, in_kernel) {
        (true, true) => "in the process and in the kernel",
        (false, true) => "in the kernel",
        (true, false) => "in the process",
        (false, false) => "in weir",
    };
    vec![
        number.to_string(),
        printable(name),
        runs.to_owned(),
        instructions.to_string(),
        code_bytes.map_or_else(|| "-".to_owned(), |bytes| format!("{bytes} B")),
        if *in_kernel && !in_process { "-".to_owned() } else { about(*ns) },
    ]
}

fn place(place: &Place, in_kernel: bool) -> Vec<String> {
    let numbers: Vec<String> = place.programs.iter().map(usize::to_string).collect();
    let exit = if place.is_exit { " (an exit)" } else { "" };
    let how = match (in_kernel, &place.in_kernel, &place.stands_in) {
        (true, Ok(()), _) => "uprobe of the kernel".to_owned(),
        (true, Err(why), _) => format!("refused: {why}"),
        (false, _, Some(why)) => format!("uprobe of the kernel: {why}"),
        (false, _, None) => patched(place),
    };
    vec![
        numbers.join(","),
        printable(&format!("{}:{}{exit}", place.binary, place.name)),
        format!("{:#x}", place.address),
        place.ns.filter(|_| !in_kernel).map_or_else(|| "-".to_owned(), about),
        how,
    ]
}

fn patched(place: &Place) -> String {
    let technique = match &place.technique {
        Ok(technique) => technique.clone(),
        Err(refusal) => return format!("refused: {refusal}"),
    };
    let returns = match &place.returns {
        None => String::new(),
        Some(Ok(technique)) => format!(", returns by {technique}"),
        Some(Err(refusal)) => format!(", returns refused: {refusal}"),
    };
    let mapped = if place.is_mapped == Some(false) { ", not mapped yet: when it comes" } else { "" };
    let unsafe_ = if place.uprobe_unsafe { ", uprobe-unsafe" } else { "" };
    format!("{technique}{returns}{unsafe_}{mapped}")
}

fn map(map: &Map) -> Vec<String> {
    let Map { name, kind, is_in_kernel, entries, key_bytes, value_bytes, bytes: all, .. } = map;
    let numbers = [entries, key_bytes, value_bytes].map(u32::to_string);
    let kind = if *is_in_kernel { format!("{kind}, also the kernel's") } else { (*kind).to_owned() };
    [vec![printable(name), kind], numbers.to_vec(), vec![bytes(*all)]].concat()
}

fn engine(engine: &OnEngine) -> Vec<String> {
    let would = match &engine.places {
        Ok(places) => format!("{places} of {}", engine.of),
        Err(why) => format!("nothing: {why}"),
    };
    let (entry, with_return) = engine.ns;
    let chosen = if engine.is_chosen { "this run's" } else { "" };
    let hit = format!("{}, with its return {}, and its programs", about(entry), about(with_return));
    vec![engine.name.to_owned(), chosen.to_owned(), would, hit]
}

/// About so many ns: two digits.
fn about(ns: f64) -> String {
    match ns {
        ns if ns < 10.0 => format!("~{ns:.1} ns"),
        ns if ns < 10_000.0 => format!("~{ns:.0} ns"),
        ns => format!("~{:.0} us", ns / 1000.0),
    }
}

fn bytes(count: u64) -> String {
    match count {
        0..1024 => format!("{count} B"),
        1024..1_048_576 => format!("{:.1} KiB", count as f64 / 1024.0),
        _ => format!("{:.1} MiB", count as f64 / 1_048_576.0),
    }
}

/// Columns as wide as what is in them; the last is not filled.
fn table(head: &[&str], rows: impl Iterator<Item = Vec<String>>) -> String {
    let mut lines: Vec<Vec<String>> = vec![head.iter().map(|word| (*word).to_owned()).collect()];
    lines.extend(rows);
    let width = |column: usize| lines.iter().map(|line| line[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..head.len()).map(width).collect();
    let line = |cells: &Vec<String>| {
        let filled: Vec<String> =
            cells.iter().zip(&widths).map(|(cell, &width)| format!("{cell:<width$}")).collect();
        format!("  {}\n", filled.join("  ").trim_end())
    };
    lines.iter().map(line).collect()
}

fn object_of_program((number, program): (usize, &Program)) -> Value {
    json!({
        "number": number,
        "probe": program.name,
        "in_process": program.in_process,
        "in_kernel": program.in_kernel,
        "instructions": program.instructions,
        "code_bytes": program.code_bytes,
        "ns_estimated": program.ns,
    })
}

fn object_of_place(place: &Place) -> Value {
    let (technique, refused) = parts(&place.technique);
    let (returns, returns_refused) = place.returns.as_ref().map_or((None, None), parts);
    json!({
        "binary": place.binary,
        "name": place.name,
        "address": place.address,
        "is_exit": place.is_exit,
        "technique": technique,
        "refused": refused,
        "returns": returns,
        "returns_refused": returns_refused,
        "uprobe_unsafe": place.uprobe_unsafe,
        "is_mapped": place.is_mapped,
        "stands_in": place.stands_in,
        "refused_in_kernel": place.in_kernel.as_ref().err(),
        "programs": place.programs,
        "ns_estimated": place.ns,
    })
}

fn parts(result: &Result<String, String>) -> (Option<&String>, Option<&String>) {
    (result.as_ref().ok(), result.as_ref().err())
}

fn object_of_map(map: &Map) -> Value {
    json!({
        "name": map.name,
        "kind": map.kind,
        "in_kernel": map.is_in_kernel,
        "entries": map.entries,
        "key_bytes": map.key_bytes,
        "value_bytes": map.value_bytes,
        "bytes": map.bytes,
    })
}

fn object_of_engine(engine: &OnEngine) -> Value {
    json!({
        "name": engine.name,
        "is_chosen": engine.is_chosen,
        "places": engine.places.as_ref().ok(),
        "of": engine.of,
        "refused": engine.places.as_ref().err(),
        "ns_estimated_entry": engine.ns.0,
        "ns_estimated_with_return": engine.ns.1,
    })
}
