//! What `cargo xtask bench vm` reads: a line of JSON for each figure's samples, for what cannot run, and for facts.
//!
//! `{"subject", "case", "unit", "samples": [number]}`, `{"missing": "SUBJECT: CASE: reason"}`.

use serde_json::json;

use crate::measure::Samples;

/// The lines of samples in nanoseconds.
pub fn print(samples: &Samples) {
    for ((case, subject), values) in samples {
        figure(subject, case, "ns", values);
    }
}

/// One figure.
pub fn figure(subject: &str, case: &str, unit: &str, samples: &[f64]) {
    println!("{}", json!({ "subject": subject, "case": case, "unit": unit, "samples": samples }));
}

/// What a subject cannot do, and why.
pub fn missing(subject: &str, case: &str, reason: &str) {
    println!("{}", json!({ "missing": format!("{subject}: {case}: {reason}") }));
}
