//! Figures: what a bench measured, as JSON and as a table.
//!
//! `{"figures": {SUBJECT: {CASE: {"median", "low", "high", "unit"}}}, "ratios": {CASE: {PEER: r}}, "missing": []}`.
//! A ratio is the peer's median over weir's. A peer that was not there is in `missing`, never left out. The samples stay with their
//! figure: [`super::against`] compares those of the same rounds.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::bench::statistics::{Summary, summary};

/// The subject that every bench has.
pub(super) const WEIR: &str = "weir";

#[derive(Clone, PartialEq, Debug)]
pub(super) struct Figure {
    pub(super) summary: Summary,
    pub(super) unit: &'static str,
    /// In the order of the rounds.
    pub(super) samples: Vec<f64>,
    /// Less is better; otherwise it only describes the run.
    pub(super) is_cost: bool,
}

#[derive(Clone, PartialEq, Debug, Default)]
pub(super) struct Figures {
    /// By subject, then case.
    pub(super) figures: BTreeMap<String, BTreeMap<String, Figure>>,
    pub(super) missing: Vec<String>,
}

impl Figures {
    /// Adds one case of one subject, of which less is better. No samples, no figure.
    pub(super) fn add(&mut self, subject: &str, case: &str, unit: &'static str, samples: &[f64]) {
        self.insert(subject, case, unit, samples, true);
    }

    /// Adds what is no cost of its own: a count, or what follows from another figure. It is not compared between two weirs.
    pub(super) fn describe(&mut self, subject: &str, case: &str, unit: &'static str, samples: &[f64]) {
        self.insert(subject, case, unit, samples, false);
    }

    fn insert(&mut self, subject: &str, case: &str, unit: &'static str, samples: &[f64], is_cost: bool) {
        if samples.is_empty() {
            return;
        }
        let figure = Figure { summary: summary(samples), unit, samples: samples.to_vec(), is_cost };
        self.figures.entry(subject.to_string()).or_default().insert(case.to_string(), figure);
    }

    /// Adds all of others, whose cases get a name in front.
    pub(super) fn add_all(&mut self, name: &str, others: Figures) {
        for (subject, cases) in others.figures {
            let own = self.figures.entry(subject).or_default();
            own.extend(cases.into_iter().map(|(case, figure)| (format!("{name}: {case}"), figure)));
        }
        self.missing.extend(others.missing);
    }

    pub(super) fn get(&self, subject: &str, case: &str) -> Option<&Figure> {
        self.figures.get(subject)?.get(case)
    }

    /// Peer over weir, where both were measured and weir's median is above 0.
    pub(super) fn ratio(&self, case: &str, peer: &str) -> Option<f64> {
        let (weir, peer) = (self.get(WEIR, case)?, self.get(peer, case)?);
        (weir.summary.median > 0.0).then(|| peer.summary.median / weir.summary.median)
    }

    /// Every case, in name order.
    pub(super) fn cases(&self) -> Vec<&str> {
        let mut cases: Vec<&str> =
            self.figures.values().flat_map(|cases| cases.keys().map(String::as_str)).collect();
        cases.sort_unstable();
        cases.dedup();
        cases
    }

    pub(super) fn json(&self) -> Value {
        let figures: BTreeMap<&str, BTreeMap<&str, Value>> = self
            .figures
            .iter()
            .map(|(subject, cases)| {
                let cases = cases.iter().map(|(case, figure)| (case.as_str(), figure_json(figure))).collect();
                (subject.as_str(), cases)
            })
            .collect();
        let ratios: BTreeMap<&str, BTreeMap<&str, f64>> = self
            .cases()
            .into_iter()
            .map(|case| {
                let peers = self.figures.keys().filter(|subject| *subject != WEIR);
                let ratios =
                    peers.filter_map(|peer| Some((peer.as_str(), self.ratio(case, peer)?))).collect();
                (case, ratios)
            })
            .filter(|(_, ratios): &(&str, BTreeMap<&str, f64>)| !ratios.is_empty())
            .collect();
        json!({ "figures": figures, "ratios": ratios, "missing": self.missing })
    }

    /// One line a case and subject.
    pub(super) fn table(&self) -> String {
        let mut table = format!("{:<46}{:<14}{:>12}   {}\n", "case", "subject", "median", "95 % interval");
        for case in self.cases() {
            for (subject, cases) in &self.figures {
                let Some(Figure { summary, unit, .. }) = cases.get(case) else { continue };
                table += &format!(
                    "{case:<46}{subject:<14}{:>12} {unit}   [{}, {}]\n",
                    rounded(summary.median),
                    rounded(summary.low),
                    rounded(summary.high)
                );
            }
        }
        for peer in &self.missing {
            table += &format!("missing: {peer}\n");
        }
        table
    }
}

fn figure_json(figure: &Figure) -> Value {
    let Summary { median, low, high } = figure.summary;
    json!({ "median": median, "low": low, "high": high, "unit": figure.unit })
}

/// Four significant digits, at least; no minus before a zero.
pub(super) fn rounded(value: f64) -> String {
    let decimals = match value.abs() {
        size if size >= 1000.0 => 0,
        size if size >= 100.0 => 1,
        size if size >= 10.0 => 2,
        _ => 3,
    };
    let text = format!("{value:.decimals$}");
    if text == "-0.000" { "0.000".to_string() } else { text }
}

#[cfg(test)]
pub(super) fn example() -> Figures {
    let mut figures = Figures::default();
    figures.add(WEIR, "ns a hit", "ns", &[4.0, 5.0, 6.0]);
    figures.add("bpftrace", "ns a hit", "ns", &[10_000.0]);
    figures.add("bare", "wall loss <10⁶/s>", "%", &[0.0]);
    figures.missing.push("bpftime: no such program".to_string());
    figures
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_has_figures_ratios_and_missing() {
        let json = example().json();
        let weir = &json["figures"]["weir"]["ns a hit"];
        assert_eq!(weir, &json!({ "median": 5.0, "low": 4.0, "high": 6.0, "unit": "ns" }));
        assert_eq!(json["ratios"], json!({ "ns a hit": { "bpftrace": 2000.0 } }));
        assert_eq!(json["missing"], json!(["bpftime: no such program"]));
    }

    #[test]
    fn a_ratio_needs_both_sides() {
        assert_eq!(example().ratio("ns a hit", "bpftrace"), Some(2000.0));
        assert_eq!(example().ratio("ns a hit", "bpftime"), None);
        assert_eq!(example().ratio("wall loss <10⁶/s>", "bare"), None);
    }

    #[test]
    fn figures_of_two_parts_keep_their_names() {
        let mut all = example();
        all.add_all("again", example());
        assert_eq!(all.get(WEIR, "again: ns a hit"), all.get(WEIR, "ns a hit"));
        assert_eq!((all.cases().len(), all.missing.len()), (4, 2));
    }

    #[test]
    fn numbers_keep_four_digits() {
        let all = [9077.197, -105.58, 12.3456, 0.9151, -0.0001].map(rounded);
        assert_eq!(all, ["9077", "-105.6", "12.35", "0.915", "0.000"]);
    }

    #[test]
    fn tables_name_each_figure_and_what_is_missing() {
        let table = example().table();
        assert_eq!(table.lines().count(), 5, "{table}");
        assert!(table.contains("5.000 ns   [4.000, 6.000]"), "{table}");
        assert!(table.ends_with("missing: bpftime: no such program\n"), "{table}");
    }
}
