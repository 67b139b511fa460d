//! Scripts: those of the corpus that weir-run's tests run, and C text of the same.

use std::fs;
use std::path::Path;

use super::{Seed, seed};

pub(super) fn seeds() -> Vec<Seed> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../weir-run/tests/corpus");
    let mut files: Vec<_> =
        fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
    files.sort();
    let mut seeds = Vec::new();
    for file in files {
        let name = file.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default().to_owned();
        let text = fs::read_to_string(&file).unwrap_or_default();
        for (number, case) in text.split("\n== ").enumerate() {
            let script: String = case
                .lines()
                .skip(1)
                .take_while(|line| !line.starts_with("-- "))
                .flat_map(|line| [line, "\n"])
                .collect();
            if let Some((c, _)) = script.split_once("BEGIN").filter(|(c, _)| !c.trim().is_empty()) {
                seeds.push(seed("declarations", format!("{name}-{number}"), c));
            }
            seeds.push(seed("compile", format!("{name}-{number}"), script.clone()));
            seeds.push(seed("script", format!("{name}-{number}"), script));
        }
    }
    seeds
}
