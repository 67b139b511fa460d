//! Skips that are seen: what a machine lacks is said on the terminal and recorded.
//!
//! [`skip`] writes the line `SKIP name: reason` past the test harness's capture, and appends it to `target/skips.txt`.
//! `cargo xtask test` collects these lines and holds them against `tests/expected-skips`, where the form of the list
//! is described; a skip that is not listed fails CI. [`recorded`] reads them back.

use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};

use crate::paths;

/// One recorded skip.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Skip {
    pub name: String,
    pub reason: String,
}

/// Says and records that the test `name` (or a named part of it) did not run. The caller then returns.
pub fn skip(name: &str, reason: impl std::fmt::Display) {
    let line = line(name, &reason.to_string());
    // The stream itself: the harness captures only what the print macros write. With one thread it has the beginning
    // of a line out already (`test name ... `), so that this one needs a line break before it.
    let _ = io::stderr().write_all(format!("\n{line}").as_bytes());
    let path = paths::target().join("skips.txt");
    let file = OpenOptions::new().create(true).append(true).open(&path);
    // One write, so that lines of parallel test programs do not mix.
    let written = file.and_then(|mut f| f.write_all(line.as_bytes()));
    written.unwrap_or_else(|e| panic!("append to {}: {e}", path.display()));
}

/// The skips since [`clear`], in the order of happening, each once.
pub fn recorded() -> io::Result<Vec<Skip>> {
    match fs::read_to_string(paths::target().join("skips.txt")) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        other => other.map(|text| parse(&text)),
    }
}

/// Forgets earlier skips: at the start of a whole test run.
pub fn clear() -> io::Result<()> {
    match fs::remove_file(paths::target().join("skips.txt")) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => Err(e),
        _ => Ok(()),
    }
}

fn line(name: &str, reason: &str) -> String {
    format!("SKIP {name}: {}\n", reason.replace('\n', " "))
}

fn parse(text: &str) -> Vec<Skip> {
    let mut skips = Vec::new();
    for line in text.lines() {
        let Some((name, reason)) = line.strip_prefix("SKIP ").and_then(|l| l.split_once(": ")) else {
            continue;
        };
        let skip = Skip { name: name.into(), reason: reason.into() };
        if !skips.contains(&skip) {
            skips.push(skip);
        }
    }
    skips
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_skip_is_one_line_and_is_read_back_once() {
        let text = line("a::b", "no clang: not\ninstalled") + &line("c", "x") + &line("c", "x") + "torn";
        let skip = |name: &str, reason: &str| Skip { name: name.into(), reason: reason.into() };
        assert_eq!(parse(&text), [skip("a::b", "no clang: not installed"), skip("c", "x")]);
    }
}
