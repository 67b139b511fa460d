//! samples: what a program of the crate vm-bench said, and what several runs of it said together.
//!
//! A line of JSON for each figure's samples, or for what is missing (`report` in that crate).

use std::collections::BTreeMap;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::bench::figures::Figures;
use crate::process::shown;

/// Units of figures.
const UNITS: [&str; 5] = ["ns", "µs", "ms", "s", "B"];

#[derive(Clone, PartialEq, Debug, Default)]
pub(super) struct Samples {
    /// By subject and case, with the unit.
    found: BTreeMap<(String, String), (&'static str, Vec<f64>)>,
    missing: Vec<String>,
}

impl Samples {
    /// Runs the program.
    pub(super) fn of(command: &mut Command) -> Result<Samples> {
        let output = command.stderr(Stdio::inherit()).output().with_context(|| shown(command))?;
        ensure!(output.status.success(), "{} ended with {}", shown(command), output.status);
        Samples::read(&String::from_utf8_lossy(&output.stdout)).with_context(|| shown(command))
    }

    pub(super) fn read(lines: &str) -> Result<Samples> {
        let mut samples = Samples::default();
        for line in lines.lines() {
            samples.read_line(line).with_context(|| format!("it said {line:?}"))?;
        }
        Ok(samples)
    }

    pub(super) fn add(&mut self, subject: &str, case: &str, unit: &'static str, found: &[f64]) {
        let key = (subject.to_owned(), case.to_owned());
        self.found.entry(key).or_insert((unit, Vec::new())).1.extend(found);
    }

    /// Of all runs, what is missing once.
    pub(super) fn together<'s>(runs: impl Iterator<Item = &'s Samples>) -> Figures {
        let mut all = Samples::default();
        for run in runs {
            for ((subject, case), (unit, found)) in &run.found {
                all.add(subject, case, unit, found);
            }
            for missing in &run.missing {
                if !all.missing.contains(missing) {
                    all.missing.push(missing.clone());
                }
            }
        }
        let mut figures = Figures { missing: all.missing, ..Figures::default() };
        for ((subject, case), (unit, found)) in &all.found {
            figures.add(subject, case, unit, found);
        }
        figures
    }

    fn read_line(&mut self, line: &str) -> Result<()> {
        let line: Value = serde_json::from_str(line)?;
        if let Some(missing) = line["missing"].as_str() {
            self.missing.push(missing.to_owned());
            return Ok(());
        }
        let text = |key: &str| line[key].as_str().with_context(|| format!("a line without {key}"));
        let unit = text("unit")?;
        let unit = UNITS.into_iter().find(|known| *known == unit).context("an unknown unit")?;
        let found = line["samples"].as_array().context("a line without samples")?;
        let found: Vec<f64> = found.iter().filter_map(Value::as_f64).collect();
        self.add(text("subject")?, text("case")?, unit, &found);
        Ok(())
    }
}
