//! What docs/extending.md says has to be written for a helper or a builtin is all that has to be: nothing else names the page's example.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

const PAGE: &str = "docs/extending.md";

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask is in the workspace")
}

/// The section of the page below this heading.
fn section(heading: &str) -> String {
    let page = fs::read_to_string(root().join(PAGE)).unwrap();
    let (_, rest) = page.split_once(&format!("## {heading}\n")).unwrap_or_else(|| panic!("no {heading}"));
    rest.split("\n## ").next().unwrap_or_default().to_owned()
}

/// What the numbered lines link to; folders end in no extension.
fn listed(section: &str) -> BTreeSet<PathBuf> {
    let is_step = |line: &&str| line.starts_with(|first: char| first.is_ascii_digit());
    let targets = section.lines().filter(is_step).flat_map(|line| line.split("](").skip(1));
    let targets = targets.filter_map(|rest| rest.split(')').next());
    targets
        .map(|target| target.strip_prefix("../").map_or(Path::new("docs").join(target), PathBuf::from))
        .collect()
}

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let is_test = path.components().any(|part| part.as_os_str() == "tests") || path.ends_with("tests.rs");
        match path.is_dir() {
            _ if is_test => {}
            true => sources(&path, found),
            false
                if path.extension().is_some_and(|is| ["rs", "c", "h"].iter().any(|wanted| is == *wanted)) =>
            {
                found.push(path);
            }
            false => {}
        }
    }
}

/// Shipped files that have one of these words in them.
fn naming(words: &[&str]) -> BTreeSet<PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(root().join("crates")).unwrap() {
        let folder = entry.unwrap().path();
        ["src", "c"].iter().map(|part| folder.join(part)).filter(|part| part.exists()).for_each(|part| {
            sources(&part, &mut files);
        });
    }
    let names = |file: &PathBuf| {
        let text = fs::read_to_string(file).unwrap();
        words.iter().any(|word| text.contains(word))
    };
    let named = files.into_iter().filter(names);
    named.map(|file| file.strip_prefix(root()).unwrap().to_owned()).collect()
}

#[track_caller]
fn check(heading: &str, words: &[&str], files_max: usize) {
    let listed = listed(&section(heading));
    assert!(listed.iter().all(|path| root().join(path).exists()), "{listed:?}");
    let is_listed = |file: &PathBuf| listed.iter().any(|path| file == path);
    let others: Vec<PathBuf> = naming(words).into_iter().filter(|file| !is_listed(file)).collect();
    assert_eq!(others, Vec::<PathBuf>::new(), "{PAGE} does not list them");
    let files = listed.iter().filter(|path| path.extension().is_some()).count();
    assert!(files <= files_max, "{files} files for {heading}");
}

#[test]
fn a_helper_is_a_row_and_a_function() {
    // The kernel's names of all helpers are a list of its own.
    let words = ["CURRENT_TASK_UNDER_CGROUP", "weir_current_task_under_cgroup"];
    check("A helper of eBPF programs", &words, 4);
}

#[test]
fn a_builtin_is_a_row_and_its_instructions() {
    check("A builtin of the script language", &["Builtin::Elapsed"], 5);
}
