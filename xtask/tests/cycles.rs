//! Files that use each other in a circle, by crate: at most three.
//!
//! A file uses another if it names a module of its crate that stands there (`crate::a::b`, in `use` or in an expression), outside of its tests. What a module
//! declares (`mod`) it does not use by that. Measured are the strongly connected components of that graph.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// Files that may use each other.
const MOST: usize = 3;

/// Sources below `folder`, with the paths of their modules.
fn sources(folder: &Path, prefix: &str, found: &mut BTreeMap<String, String>) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    for path in entries.map(|entry| entry.expect("an entry").path()) {
        let stem = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default().to_owned();
        let module = if prefix.is_empty() { stem.clone() } else { format!("{prefix}::{stem}") };
        if path.is_dir() {
            sources(&path, &module, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") && !stem.starts_with("test") {
            let module = match stem.as_str() {
                "lib" | "main" => String::new(),
                "mod" => prefix.to_owned(),
                _ => module,
            };
            let text = fs::read_to_string(&path).expect("a source");
            let is_tests = |(at, _): &(usize, &str)| {
                text[*at..].lines().nth(1).is_some_and(|line| line.contains("mod tests"))
            };
            let shipped =
                text.match_indices("#[cfg(test)]\n").find(is_tests).map_or(text.len(), |(at, _)| at);
            let text = text[..shipped].to_owned();
            found.insert(module, text);
        }
    }
}

/// Every path that follows `crate::` in a text, with groups in braces expanded. `isa::native` is the machine's of which all have files.
fn named(text: &str) -> Vec<String> {
    let code: String = text
        .lines()
        .filter(|line| !line.trim_start().starts_with("//"))
        .map(|line| format!("{}\n", line.replace("isa::native", "isa::x86_64")))
        .collect();
    let mut paths = Vec::new();
    for (at, _) in code.match_indices("crate::") {
        // `$crate::` of a macro is the same crate; `some_crate::` is another.
        let is_word =
            code[..at].chars().next_back().is_some_and(|before| before.is_alphanumeric() || before == '_');
        if !is_word {
            expand(&code[at + "crate::".len()..], "", &mut paths);
        }
    }
    paths
}

/// Takes one path or group apart; what is left of the text.
fn expand<'a>(text: &'a str, prefix: &str, paths: &mut Vec<String>) -> &'a str {
    let text = text.trim_start();
    if let Some(mut rest) = text.strip_prefix('{') {
        loop {
            rest = expand(rest, prefix, paths).trim_start();
            match rest.strip_prefix(',') {
                Some(more) if !more.trim_start().starts_with('}') => rest = more,
                Some(more) => return more.trim_start().trim_start_matches('}'),
                None => return rest.strip_prefix('}').unwrap_or(rest),
            }
        }
    }
    let end = text.find(|char: char| !(char.is_alphanumeric() || char == '_')).unwrap_or(text.len());
    let (word, rest) = text.split_at(end);
    let path = match (prefix, word) {
        (_, "" | "self") => prefix.to_owned(),
        ("", word) => word.to_owned(),
        (prefix, word) => format!("{prefix}::{word}"),
    };
    match rest.strip_prefix("::") {
        Some(rest) if !word.is_empty() => expand(rest, &path, paths),
        _ => {
            paths.push(path);
            // `as name`
            let rest = rest.trim_start();
            rest.strip_prefix("as ").map_or(rest, |alias| {
                alias.trim_start().trim_start_matches(|char: char| char.is_alphanumeric() || char == '_')
            })
        }
    }
}

/// The longest beginning of a path that is a module.
fn module_of<'a>(path: &str, modules: &'a BTreeMap<String, String>) -> Option<&'a str> {
    let words: Vec<&str> = path.split("::").collect();
    (1..=words.len())
        .rev()
        .find_map(|count| modules.get_key_value(&words[..count].join("::")))
        .map(|(module, _)| module.as_str())
}

/// Of a graph, each node's reachable nodes.
fn reachable<'a>(from: &'a str, edges: &BTreeMap<&'a str, BTreeSet<&'a str>>) -> BTreeSet<&'a str> {
    let (mut seen, mut left) = (BTreeSet::new(), vec![from]);
    while let Some(node) = left.pop() {
        for next in &edges[node] {
            if seen.insert(*next) {
                left.push(next);
            }
        }
    }
    seen
}

fn largest(modules: &BTreeMap<String, String>) -> BTreeSet<String> {
    let edges: BTreeMap<&str, BTreeSet<&str>> = modules
        .iter()
        .map(|(module, text)| {
            let used = named(text)
                .iter()
                .filter_map(|path| module_of(path, modules))
                .filter(|used| used != module)
                .collect();
            (module.as_str(), used)
        })
        .collect();
    let reach: BTreeMap<&str, BTreeSet<&str>> =
        edges.keys().map(|from| (*from, reachable(from, &edges))).collect();
    let circle = |from: &str| -> BTreeSet<String> {
        reach[from].iter().filter(|to| reach[**to].contains(from)).map(|to| (*to).to_owned()).collect()
    };
    edges.keys().map(|from| circle(from)).max_by_key(BTreeSet::len).unwrap_or_default()
}

#[test]
fn no_more_than_three_files_use_each_other_in_a_circle() {
    let mut found: Vec<(String, BTreeSet<String>)> = Vec::new();
    let mut folders: Vec<PathBuf> = fs::read_dir(testkit::paths::root().join("crates"))
        .expect("crates")
        .map(|entry| entry.expect("an entry").path())
        .collect();
    folders.sort();
    for folder in folders {
        let mut modules = BTreeMap::new();
        sources(&folder.join("src"), "", &mut modules);
        let circle = largest(&modules);
        if circle.len() > MOST {
            let name = folder.file_name().expect("a name").to_string_lossy().into_owned();
            found.push((name, circle));
        }
    }
    assert_eq!(found, [], "files of these crates use each other in a circle");
}

#[test]
fn groups_of_a_use_are_taken_apart() {
    let text = "use crate::{a::{self, b::C}, d};\nfn f() { crate::e::g(); other_crate::x::y(); }\n// crate::h\nuse crate::i::J as K;";
    assert_eq!(named(text), ["a", "a::b::C", "d", "e::g", "i::J"]);
}

#[test]
fn a_circle_is_found() {
    let module = |name: &str, text: &str| (name.to_owned(), text.to_owned());
    let modules = BTreeMap::from([
        module("a", "use crate::b::X;"),
        module("b", "use crate::c;"),
        module("c", "crate::a::f()"),
        module("d", "use crate::a;"),
    ]);
    assert_eq!(largest(&modules), BTreeSet::from(["a", "b", "c"].map(str::to_owned)));
}
