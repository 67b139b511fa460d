//! against: two weirs compared, case by case, from the samples of the same rounds.
//!
//! In: figures that have the subjects `weir` (now), `against` (the other) and `A/A` (now, measured a second time). Out: for each case the
//! ratio now ÷ against and the ratio now ÷ A/A, each the median of the rounds' ratios with its 95 % interval, and a verdict. All figures that
//! are compared are costs: less is better.
//!
//! A verdict is given only if the interval of the ratio lies wholly outside that of A/A, which is taken in both directions, since either
//! of two equal programs might be the one above. With many cases this is wanted: one of twenty 95 % intervals leaves out its value by chance.
//!
//! A figure that is net of something may be near zero or below it. A ratio to such a sample counts as infinite, which the order of the
//! samples allows; where the median or its interval is infinite, there is no ratio and no verdict.

use std::fmt;

use serde_json::{Value, json};

use crate::bench::ROUNDS_MIN;
use crate::bench::figures::{Figure, Figures, WEIR, rounded};
use crate::bench::plan::AGAIN;
use crate::bench::statistics::{Summary, summary};

/// The subject of the other weir.
pub(super) const AGAINST: &str = "against";

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Verdict {
    Slower,
    Faster,
    NoDifference,
    NearZero,
    TooFewRounds,
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Verdict::Slower => "slower",
            Verdict::Faster => "faster",
            Verdict::NoDifference => "no difference beyond A/A",
            Verdict::NearZero => "too near zero for a ratio",
            Verdict::TooFewRounds => "too few rounds",
        })
    }
}

/// One case.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Comparison {
    case: String,
    unit: &'static str,
    now: f64,
    against: f64,
    /// None where the figures are too near zero.
    ratio: Option<Summary>,
    again: Option<Summary>,
    verdict: Verdict,
}

/// Every case that both weirs have, by name, unless it only describes the run.
pub(super) fn compare(figures: &Figures, rounds: usize) -> Vec<Comparison> {
    let of_case = |case: &str| {
        let [now, against, again] = [WEIR, AGAINST, AGAIN].map(|subject| figures.get(subject, case));
        let (now, against, again) = (now?, against?, again?);
        now.is_cost.then(|| comparison(case, [now, against, again], rounds))
    };
    figures.cases().into_iter().filter_map(of_case).collect()
}

fn comparison(case: &str, [now, against, again]: [&Figure; 3], rounds: usize) -> Comparison {
    let ratio = ratio(&now.samples, &against.samples);
    let again = self::ratio(&now.samples, &again.samples);
    let verdict = match (ratio, again) {
        _ if rounds < ROUNDS_MIN => Verdict::TooFewRounds,
        (Some(ratio), Some(again)) => verdict(ratio, again),
        _ => Verdict::NearZero,
    };
    let (case, unit) = (case.to_owned(), now.unit);
    Comparison { case, unit, now: now.summary.median, against: against.summary.median, ratio, again, verdict }
}

/// Of the ratios of samples that belong together.
fn ratio(above: &[f64], below: &[f64]) -> Option<Summary> {
    let ratios: Vec<f64> =
        above.iter().zip(below).filter_map(|(above, below)| pair(*above, *below)).collect();
    // Half of the rounds at least, or it is about noise.
    if ratios.is_empty() || ratios.len() * 2 < above.len() {
        return None;
    }
    let found = summary(&ratios);
    [found.median, found.low, found.high].iter().all(|ratio| ratio.is_finite()).then_some(found)
}

fn pair(above: f64, below: f64) -> Option<f64> {
    match (above > 0.0, below > 0.0) {
        (_, true) => Some(above / below),
        (true, false) => Some(f64::INFINITY),
        (false, false) => None,
    }
}

fn verdict(ratio: Summary, again: Summary) -> Verdict {
    let high = again.high.max(1.0 / again.low.max(f64::MIN_POSITIVE)).max(1.0);
    let low = 1.0 / high;
    match () {
        () if ratio.low > high => Verdict::Slower,
        () if ratio.high < low => Verdict::Faster,
        () => Verdict::NoDifference,
    }
}

/// `{CASE: {"ratio": {"median", "low", "high"}, "A/A": {…}, "verdict"}}`; null where there is no ratio.
pub(super) fn json(compared: &[Comparison]) -> Value {
    let summary = |found: Option<Summary>| match found {
        Some(Summary { median, low, high }) => json!({ "median": median, "low": low, "high": high }),
        None => Value::Null,
    };
    let case = |of: &Comparison| {
        let verdict = of.verdict.to_string();
        (of.case.clone(), json!({ "ratio": summary(of.ratio), AGAIN: summary(of.again), "verdict": verdict }))
    };
    Value::Object(compared.iter().map(case).collect())
}

/// One line a case.
pub(super) fn table(compared: &[Comparison]) -> String {
    let summary = |found: Option<Summary>| match found {
        Some(Summary { median, low, high }) => format!("{median:.3} [{low:.3}, {high:.3}]"),
        None => "–".to_owned(),
    };
    let title = "case (less is better)";
    let width = compared.iter().map(|of| of.case.chars().count()).fold(title.len(), usize::max);
    let mut table = format!(
        "{title:<width$}{WEIR:>14}{AGAINST:>14}   {:<24}{:<24}verdict\n",
        "weir ÷ against", "A/A (weir ÷ weir)"
    );
    for of in compared {
        let value = |median: f64| format!("{} {}", rounded(median), of.unit).trim_end().to_owned();
        table += &format!(
            "{:<width$}{:>14}{:>14}   {:<24}{:<24}{}\n",
            of.case,
            value(of.now),
            value(of.against),
            summary(of.ratio),
            summary(of.again),
            of.verdict
        );
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Figures of 15 rounds: the machine drifts from 1 to 1.7 times, and samples of a round differ by ±1 %.
    fn figures(now: f64, against: f64) -> Figures {
        let samples = |value: f64, phase: usize| -> Vec<f64> {
            let sample = |round: usize| {
                let noise = [1.0, 1.01, 0.99, 1.005, 0.995][(round * 2 + phase) % 5];
                value * (1.0 + round as f64 / 20.0) * noise
            };
            (0..15).map(sample).collect()
        };
        let mut figures = Figures::default();
        for (phase, (subject, value)) in
            [(WEIR, now), (AGAINST, against), (AGAIN, now)].into_iter().enumerate()
        {
            figures.add(subject, "time", "ns", &samples(value, phase));
        }
        figures
    }

    fn check(now: f64, against: f64, verdict: Verdict) {
        let compared = compare(&figures(now, against), 15);
        assert_eq!(compared[0].verdict, verdict, "{compared:?}");
    }

    #[test]
    fn a_difference_beyond_that_of_two_equal_programs_is_told() {
        check(10.5, 10.0, Verdict::Slower);
        check(9.5, 10.0, Verdict::Faster);
        check(10.05, 10.0, Verdict::NoDifference);
        check(9.95, 10.0, Verdict::NoDifference);
        check(10.0, 10.0, Verdict::NoDifference);
    }

    #[test]
    fn ratios_are_of_the_same_round() {
        let compared = compare(&figures(20.0, 10.0), 15);
        let ratio = compared[0].ratio.unwrap();
        // The machine's drift is in none of them.
        assert!((ratio.median - 2.0).abs() < 0.03 && ratio.high - ratio.low < 0.06, "{ratio:?}");
        assert_eq!(pair(3.0, 2.0), Some(1.5));
    }

    #[test]
    fn what_is_near_zero_has_no_ratio() {
        check(0.0, 10.0, Verdict::NearZero);
        check(10.0, -1.0, Verdict::NearZero);
        assert_eq!(compare(&figures(10.0, -1.0), 15)[0].ratio, None);
        // One round of noise does not take the ratio away.
        let below: Vec<f64> = (0..15).map(|round| if round == 3 { -0.1 } else { 1.0 }).collect();
        assert_eq!(ratio(&[1.0; 15], &below).map(|ratio| (ratio.low, ratio.high)), Some((1.0, 1.0)));
    }

    #[test]
    fn few_rounds_give_no_verdict() {
        assert_eq!(compare(&figures(20.0, 10.0), 14)[0].verdict, Verdict::TooFewRounds);
    }

    #[test]
    fn what_only_describes_a_run_is_not_compared() {
        let mut figures = figures(10.0, 10.0);
        for subject in [WEIR, AGAINST, AGAIN] {
            figures.describe(subject, "hits", "", &[1.0; 15]);
        }
        figures.add(WEIR, "of one weir alone", "ns", &[1.0; 15]);
        let compared = compare(&figures, 15);
        assert_eq!(compared.iter().map(|of| of.case.as_str()).collect::<Vec<_>>(), ["time"]);
    }

    #[test]
    fn json_and_table_have_both_ratios_and_the_verdict() {
        let compared = compare(&figures(20.0, 10.0), 15);
        let json = json(&compared);
        assert_eq!(json["time"]["verdict"], "slower");
        assert!(json["time"]["ratio"]["low"].as_f64() > json["time"]["A/A"]["high"].as_f64(), "{json}");
        let table = table(&compared);
        let line = table.lines().nth(1).unwrap();
        assert!(line.starts_with("time ") && line.ends_with("slower"), "{table}");
        assert!(line.contains(" ns") && line.matches('[').count() == 2, "{table}");
    }
}
