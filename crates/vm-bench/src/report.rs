//! What `cargo xtask bench` reads of this crate's programs: a line of JSON for each figure's samples, for what cannot run, and, of
//! vm-bench, for the end of each round.
//!
//! `{"group", "subject", "case", "unit", "samples": [number]}`, `{"missing": "SUBJECT: CASE: reason"}`, `{"round": number}`. Groups of
//! vm-bench are `program` (ns of a run), `operation` (ns of one), `translation` (ms to verify and to compile 1,000 instructions); the
//! other programs name theirs. Rounds count from 0.

use serde_json::json;

use crate::measure::Samples;

/// The lines of samples in nanoseconds, of which each is for `count` of what the figure is of.
pub fn print(group: &str, samples: &Samples, count: u32) {
    for ((case, subject), ns) in samples {
        figure(group, subject, case, "ns", &[ns / f64::from(count)]);
    }
}

/// Everything of a round has been said.
pub fn round(round: usize) {
    println!("{}", json!({ "round": round }));
}

/// One figure.
pub fn figure(group: &str, subject: &str, case: &str, unit: &str, samples: &[f64]) {
    let line = json!({ "group": group, "subject": subject, "case": case, "unit": unit, "samples": samples });
    println!("{line}");
}

/// What a subject cannot do, and why.
pub fn missing(subject: &str, case: &str, reason: &str) {
    // A verifier's log has its verdict at the end, after a million instructions.
    let lines: Vec<&str> = reason.lines().collect();
    let short = match &lines[..] {
        [first, .., last] if lines.len() > 3 => format!("{first} … {last}"),
        _ => lines.join(" "),
    };
    println!("{}", json!({ "missing": format!("{subject}: {case}: {short}") }));
}
