//! rounds: every side once a round, in an order that turns round, and what is kept of that.
//!
//! All benches are measured by [`alternate`]. After each round it makes the outcome of the rounds so far and keeps it, so that a bench
//! that is interrupted or fails has the figures of its complete rounds. Of a round that was not completed nothing is in any figure.

use std::fmt::Display;

use anyhow::{Context, Result};

use crate::bench::plan::Plan;
use crate::bench::{Outcome, report};

/// What each side gave in each complete round.
#[derive(Debug)]
pub(super) struct Rounds<S> {
    /// By side, then round.
    of_sides: Vec<Vec<S>>,
}

impl<S> Rounds<S> {
    fn new(sides: usize) -> Rounds<S> {
        Rounds { of_sides: (0..sides).map(|_| Vec::new()).collect() }
    }

    #[cfg(test)]
    pub(super) fn of(of_sides: Vec<Vec<S>>) -> Rounds<S> {
        Rounds { of_sides }
    }

    /// Each side with its samples, one a round. `sides` are those of [`alternate`].
    pub(super) fn with<'r, T>(&'r self, sides: &'r [T]) -> impl Iterator<Item = (&'r T, &'r [S])> {
        sides.iter().zip(self.of_sides.iter().map(Vec::as_slice))
    }
}

/// Runs every side once a round; `run` is given the round's number, from 0. Progress goes to standard error.
pub(super) fn alternate<T: Display, S>(
    plan: &Plan,
    sides: &[T],
    run: &mut dyn FnMut(usize, &T) -> Result<S>,
    outcome: &dyn Fn(&Rounds<S>) -> Outcome,
) -> Result<()> {
    let mut rounds = Rounds::new(sides.len());
    report::keep_nothing(plan)?;
    for round in 0..plan.rounds {
        eprintln!("round {} of {}", round + 1, plan.rounds);
        let mut found: Vec<Option<S>> = sides.iter().map(|_| None).collect();
        for index in order(round, sides.len()) {
            let side = &sides[index];
            let sample = run(round, side).with_context(|| format!("{side}, round {}", round + 1))?;
            found[index] = Some(sample);
        }
        for (samples, sample) in rounds.of_sides.iter_mut().zip(found) {
            samples.extend(sample);
        }
        report::keep(plan, round + 1, &outcome(&rounds))?;
    }
    Ok(())
}

/// Rotated by one every other round, and every other round backwards.
pub(super) fn order(round: usize, sides: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..sides).collect();
    order.rotate_left(round / 2 % sides.max(1));
    if round % 2 == 1 {
        order.reverse();
    }
    order
}

#[cfg(test)]
pub(super) mod tests {
    use std::cell::RefCell;
    use std::rc::Rc;

    use anyhow::ensure;
    use serde_json::{Value, json};

    use super::*;
    use crate::bench::figures::{Figures, WEIR};
    use crate::bench::plan::{Form, Keep};
    use crate::supervise::Results;

    pub(in crate::bench) fn plan(rounds: usize, keep: Keep) -> Plan {
        Plan {
            name: "test".to_owned(),
            folder: "bench".into(),
            rounds,
            form: Form::Full,
            weirs: Vec::new(),
            origin: "here".to_owned(),
            plots: None,
            keep,
        }
    }

    #[test]
    fn every_side_stands_at_every_place_equally_often() {
        for place in 0..3 {
            for side in 0..3 {
                let times = (0..6).filter(|round| order(*round, 3)[place] == side).count();
                assert_eq!(times, 2, "{side} at {place}");
            }
        }
    }

    /// A bench of two sides, `weir` and `peer`, that fails in `failing`, counted from 0: what was kept at last.
    fn kept(asked: usize, failing: usize) -> (bool, Results) {
        let last = Rc::new(RefCell::new(None));
        let keep = last.clone();
        let plan = plan(
            asked,
            Box::new(move |results| {
                *keep.borrow_mut() = Some(results.clone());
                Ok(())
            }),
        );
        let sides = [WEIR, "peer"];
        let mut run = |round: usize, side: &&str| {
            ensure!(round != failing || *side == WEIR, "it does not answer");
            Ok(round as f64 + 1.0)
        };
        let outcome = |rounds: &Rounds<f64>| {
            let mut figures = Figures::default();
            for (side, samples) in rounds.with(&sides) {
                figures.add(side, "time", "ns", samples);
            }
            Outcome { title: "A test".to_owned(), figures, bars: Vec::new(), remarks: Vec::new() }
        };
        let ended = alternate(&plan, &sides, &mut run, &outcome);
        let last = last.borrow().clone();
        (ended.is_ok(), last.unwrap())
    }

    #[test]
    fn a_bench_that_fails_keeps_its_complete_rounds() {
        let (is_done, results) = kept(20, 15);
        let json: Value = serde_json::from_str(&results.files[0].1).unwrap();
        assert!(!is_done && results.text.contains("interrupted after 15 of 20 rounds"), "{}", results.text);
        assert!(!results.text.contains("no interval"), "{}", results.text);
        assert_eq!(json["rounds"], json!({ "done": 15, "asked": 20 }));
        assert_eq!(json["figures"]["weir"]["time"]["median"], 8.0, "{json}");
        assert_eq!(results.files[0].0, "test.json");
        assert!(results.files[1].1.contains("interrupted after 15 of 20 rounds"));
    }

    #[test]
    fn fewer_rounds_are_said_to_give_no_interval() {
        let (_, results) = kept(20, 14);
        assert!(
            results.text.contains("interrupted after 14 of 20 rounds: fewer than 15"),
            "{}",
            results.text
        );
        assert!(kept(3, 9).1.text.contains("3 rounds: fewer than 15 give no interval worth the name"));
    }

    #[test]
    fn without_a_complete_round_there_are_no_files() {
        let (_, results) = kept(20, 0);
        assert_eq!(results.text, "interrupted after 0 of 20 rounds: no figures\n");
        assert!(results.files.is_empty());
    }

    #[test]
    fn a_whole_bench_has_no_mark() {
        let (is_done, results) = kept(15, 99);
        assert!(is_done && !results.text.contains("interrupted"), "{}", results.text);
        assert!(results.files[0].1.contains("\"done\": 15"));
    }
}
