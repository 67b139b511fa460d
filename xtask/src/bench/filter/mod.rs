//! filter: what an event's filter costs, hard-coded, in weir's machine code and interpreter, and in LTTng-UST.
//!
//! After the thesis chapter on trace filters: predicates that compare strings, joined by && or ||; te is what evaluating them takes,
//! tK what it takes to make the filter. In each round weir's crate vm-bench (its program filter-bench) runs its sides once, and a
//! program with LTTng's tracepoint runs once for each of its filters ([`lttng`]). All are CPU time of the thread that meets the
//! event, over a million events, pinned to a CPU.
//!
//! What is subtracted, in the same round:
//! - hard-coded (gcc -O2, strcmp on fields passed by pointer, a function of its own), weir and its interpreter: a filter that keeps
//!   everything, on the same side. Storing the fields that a filter reads into its slots is in weir's te.
//! - LTTng, filters that reject: the tracepoint without a session. Filters that accept: the tracepoint recorded without a filter, in
//!   a flight recorder, so that nothing is lost and nobody writes.
//!
//! Cases: `and true 9` is nine predicates that all hold, joined by &&; `and false 9` the same with the last one failing;
//! `or true 9` none holds but the last; `depth 5 of 50` the fifth fails. A/A is weir's machine code once more.

mod lttng;
mod plot;
mod thesis;

use std::path::Path;
use std::process::Command;

use anyhow::Result;
use clap::Args;

use crate::bench::Outcome;
use crate::bench::figures::{Figures, WEIR, rounded};
use crate::bench::plan::Plan;
use crate::bench::report::met;
use crate::bench::rounds::alternate;
use crate::bench::samples::Samples;
use crate::workspace;

pub(super) use self::plot::{plots, recorded_plots};

#[derive(Args, Debug, Default)]
pub(super) struct FilterOptions {
    /// filter: besides, runs of 50 predicates over so many events, with commas between
    #[arg(long, value_delimiter = ',', value_name = "COUNT")]
    events: Vec<u64>,
}

impl FilterOptions {
    pub(super) fn is_default(&self) -> bool {
        self.events.is_empty()
    }
}

/// Runs of 50 predicates, where no others are asked for.
const EVENTS: [u64; 2] = [1_000_000, 10_000_000];
/// Events of a sample.
const EVENTS_OF_A_SAMPLE: u64 = 1_000_000;

const HARD_CODED: &str = "hard-coded";
const INTERPRETER: &str = "weir-interp";
const LTTNG: &str = "lttng";

/// What the project promises: case, subject, peer, at most this share of the peer's te.
const SHARES_MAX: [(&str, &str, &str, f64); 5] = [
    ("and true 50", WEIR, HARD_CODED, 0.6),
    ("and true 9", WEIR, HARD_CODED, 0.6),
    ("and true 9", WEIR, LTTNG, 1.0 / 15.0),
    ("and false 9", WEIR, LTTNG, 1.0 / 15.0),
    ("and false 9", INTERPRETER, LTTNG, 1.0 / 3.0),
];
/// And of a filter of 50 predicates: µs and bytes.
const MOST: [(&str, f64); 2] = [("tK 50", 200.0), ("machine code and bytecode 50", 16.0 * 1024.0)];

pub(super) fn measure(options: &FilterOptions, plan: &Plan) -> Result<()> {
    let built = workspace::build("release", &["--package", "vm-bench", "--bin", "filter-bench"])?;
    let ours = built.join("filter-bench");
    let (mut theirs, mut missing) = (None, Vec::new());
    match lttng::Sessions::set_up() {
        Ok(sessions) => theirs = Some(sessions),
        Err(error) => missing.push(format!("{LTTNG}: {error:#}")),
    }
    let events = if options.events.is_empty() { EVENTS.to_vec() } else { options.events.clone() };
    let sides: &[&str] = if theirs.is_some() { &[WEIR, LTTNG] } else { &[WEIR] };
    let mut run = |round: usize, side: &&str| match &mut theirs {
        Some(theirs) if *side == LTTNG => {
            let mut samples = Samples::default();
            theirs.round(round, EVENTS_OF_A_SAMPLE, &mut |case, ns| {
                samples.add(LTTNG, case, "ns", &[ns]);
            })?;
            Ok(samples)
        }
        _ => run_ours(&ours, &events, round),
    };
    alternate(plan, sides, &mut run, &|rounds| {
        let mut figures = Samples::together(rounds.with(sides).flat_map(|(_, runs)| runs));
        figures.missing.extend(missing.iter().cloned());
        let rounds = plan.rounds;
        let title =
            format!("Event filters: te, tK and memory, {rounds} rounds of {EVENTS_OF_A_SAMPLE} events");
        Outcome { title, bars: bars(&figures), figures, remarks: Vec::new() }
    })
}

fn run_ours(program: &Path, events: &[u64], round: usize) -> Result<Samples> {
    let folder = workspace::target_folder("bench/filters")?;
    let events: Vec<String> = events.iter().map(u64::to_string).collect();
    let mut command = Command::new(program);
    command.arg("--folder").arg(folder).args(["--turn", &round.to_string(), "--runs", &events.join(",")]);
    command.args(["--events", &EVENTS_OF_A_SAMPLE.to_string()]);
    Samples::of(&mut command)
}

fn bars(figures: &Figures) -> Vec<String> {
    let found = |subject: &str, case: &str| Some(figures.get(subject, case)?.summary.median);
    let shares = SHARES_MAX.iter().filter_map(|&(case, subject, peer, most)| {
        let share = found(subject, case)? / found(peer, case)?;
        Some(format!(
            "bar: {case}: {subject} at most {} of {peer}: {}: {} (1 ÷ {})",
            rounded(most),
            met(share <= most),
            rounded(share),
            rounded(1.0 / share)
        ))
    });
    let most = MOST.iter().filter_map(|&(case, most)| {
        let found = found(WEIR, case)?;
        Some(format!("bar: {case}: at most {}: {}: {}", rounded(most), met(found <= most), rounded(found)))
    });
    shares.chain(most).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figures() -> Figures {
        let lines = [
            r#"{"group": "event", "subject": "weir", "case": "and true 9", "unit": "ns", "samples": [5]}"#,
            r#"{"group": "event", "subject": "weir", "case": "and true 9", "unit": "ns", "samples": [6, 7]}"#,
            r#"{"group": "event", "subject": "hard-coded", "case": "and true 9", "unit": "ns", "samples": [12]}"#,
            r#"{"group": "build", "subject": "weir", "case": "tK 50", "unit": "µs", "samples": [250]}"#,
        ];
        Samples::together([Samples::read(&lines.join("\n")).unwrap()].iter())
    }

    #[test]
    fn samples_of_all_rounds_come_together() {
        let figures = figures();
        let found = |case| figures.get(WEIR, case).map(|figure| (figure.unit, figure.samples.as_slice()));
        assert_eq!(found("and true 9"), Some(("ns", &[5.0, 6.0, 7.0][..])));
        assert_eq!(found("tK 50"), Some(("µs", &[250.0][..])));
    }

    #[test]
    fn bars_are_said_for_who_was_measured() {
        let bars = bars(&figures()).join("\n");
        assert!(bars.contains("weir at most 0.600 of hard-coded: met: 0.500 (1 ÷ 2.000)"), "{bars}");
        assert!(bars.contains("tK 50: at most 200.0: NOT met: 250.0"), "{bars}");
        assert!(!bars.contains("lttng"), "{bars}");
    }
}
