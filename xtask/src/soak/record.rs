//! Record: docs/soak/NAME.json, a list of runs, one for each commit and machine:
//! `{"commit", "machine", "count", "first_seed", "last_seed", "counts", "failures": [{"seed", "error"}]}`; `counts` are
//! the sums of what the cycles counted.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use crate::workspace;

/// What a cycle counted, by name.
pub(super) type Counts = BTreeMap<String, u64>;

/// What the file holds, and which of its runs is this one.
#[derive(Debug)]
pub(super) struct Record {
    runs: Vec<Value>,
    current: usize,
}

impl Record {
    /// Reads the file, if it is there, and finds or begins the run of this commit and machine.
    pub(super) fn load(path: &Path, commit: &str, machine: &str) -> Result<Record> {
        let runs: Vec<Value> = match fs::read_to_string(path) {
            Ok(text) => {
                serde_json::from_str(&text).with_context(|| format!("{} is no list", path.display()))?
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Vec::new(),
            Err(error) => return Err(error).with_context(|| format!("cannot read {}", path.display())),
        };
        Ok(Record::of(runs, commit, machine))
    }

    fn of(mut runs: Vec<Value>, commit: &str, machine: &str) -> Record {
        let same = |run: &Value| run["commit"] == commit && run["machine"] == machine;
        let current = runs.iter().position(same).unwrap_or_else(|| {
            runs.push(json!({ "commit": commit, "machine": machine, "count": 0, "failures": [] }));
            runs.len() - 1
        });
        Record { runs, current }
    }

    /// The seed after the highest that this run has done; the first is 1.
    pub(super) fn next_seed(&self) -> u64 {
        self.runs[self.current]["last_seed"].as_u64().map_or(1, |last| last + 1)
    }

    pub(super) fn cycles(&self) -> u64 {
        self.runs[self.current]["count"].as_u64().unwrap_or(0)
    }

    pub(super) fn failures(&self) -> usize {
        self.runs[self.current]["failures"].as_array().map_or(0, Vec::len)
    }

    /// Adds one cycle: what it counted, or why it failed.
    pub(super) fn add(&mut self, seed: u64, outcome: Result<&Counts, String>) {
        let count = self.cycles() + 1;
        let run = &mut self.runs[self.current];
        run["count"] = json!(count);
        if run["first_seed"].is_null() {
            run["first_seed"] = json!(seed);
        }
        run["last_seed"] = json!(seed);
        match outcome {
            Ok(counts) => {
                for (name, count) in counts {
                    let sum = &mut run["counts"][name];
                    *sum = json!(sum.as_u64().unwrap_or(0) + count);
                }
            }
            Err(error) => {
                let error = portable(&error, &workspace::root().to_string_lossy());
                let failures = run["failures"].as_array_mut();
                failures.into_iter().for_each(|all| all.push(json!({ "seed": seed, "error": error })));
            }
        }
    }

    /// Writes the file anew, through a second one, so that an interrupted write loses nothing.
    pub(super) fn save(&self, path: &Path) -> Result<()> {
        let context = || format!("cannot write {}", path.display());
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder).with_context(context)?;
        }
        let beside = path.with_extension("json.new");
        let text = serde_json::to_string_pretty(&self.runs)? + "\n";
        fs::write(&beside, text).with_context(context)?;
        fs::rename(&beside, path).with_context(context)
    }
}

/// What of an error holds on any machine: paths from the root of the workspace on, and no backtrace.
fn portable(error: &str, root: &str) -> String {
    let (what, _) = error.split_once("\nstack backtrace:").unwrap_or((error, ""));
    what.replace(&format!("{root}/"), "")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_kept_without_what_is_of_one_machine() {
        let check = |error: &str, kept: &str| assert_eq!(portable(error, "/home/me/weir"), kept);
        check("why", "why");
        check("/home/me/weir/target/x ended: at /home/me/weir/a.rs", "target/x ended: at a.rs");
        check("panicked: why\nstack backtrace:\n   0: at /rustc/1/a.rs\nmore", "panicked: why");
    }

    #[test]
    fn a_run_resumes_after_its_last_seed() {
        let mut record = Record::of(Vec::new(), "abc", "box");
        assert_eq!((record.next_seed(), record.cycles()), (1, 0));
        let counts = Counts::from([("programs".to_string(), 7)]);
        record.add(1, Ok(&counts));
        record.add(2, Err("why".to_string()));
        record.add(3, Ok(&counts));
        assert_eq!(record.runs[0]["counts"], json!({ "programs": 14 }));
        let again = Record::of(record.runs.clone(), "abc", "box");
        assert_eq!((again.next_seed(), again.cycles(), again.failures()), (4, 3, 1));
        let other = Record::of(record.runs, "abd", "box");
        assert_eq!((other.next_seed(), other.runs.len()), (1, 2));
    }

    #[test]
    fn the_file_keeps_what_was_added() {
        let path = std::env::temp_dir().join(format!("weir-soak-{}", std::process::id())).join("x.json");
        let mut record = Record::load(&path, "abc", "box").unwrap();
        record.add(1, Err("why".to_string()));
        record.save(&path).unwrap();
        let read = Record::load(&path, "abc", "box").unwrap();
        assert_eq!((read.next_seed(), read.failures()), (2, 1));
        fs::remove_dir_all(path.parent().unwrap()).unwrap();
    }
}
