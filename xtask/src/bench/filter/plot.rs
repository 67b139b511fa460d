//! Figures 4.8, 4.9 and 4.10 of the thesis, theirs (dashed) and ours in one picture each, drawn from the bench's JSON.
//!
//! Deliberately not here: measuring. A kept JSON gives the same pictures for ever.

use serde_json::Value;

use super::thesis;
use crate::bench::svg::{Anchor, Picture};

/// Names of files, without ending, and SVG.
pub(crate) fn plots(json: &Value) -> Vec<(&'static str, String)> {
    vec![
        ("filter-4.8", events(json).svg()),
        ("filter-4.9", predicates(json).svg()),
        ("filter-4.10", lttng(json).svg()),
    ]
}

/// The same of events that are recorded: te and tt of figure 4.10.
pub(crate) fn recorded_plots(json: &Value) -> Vec<(&'static str, String)> {
    vec![("record-4.10", recorded(json).svg())]
}

/// One line, with its points from left to right.
#[derive(Debug)]
struct Line {
    name: String,
    colour: &'static str,
    is_theirs: bool,
    points: Vec<(f64, f64)>,
}

/// A picture; both axes begin at 0, or are logarithmic.
#[derive(Debug)]
struct Plot {
    title: &'static str,
    notes: &'static [&'static str],
    x: &'static str,
    y: &'static str,
    is_logarithmic: bool,
    lines: Vec<Line>,
}

const SUBJECTS: [(&str, &str); 3] =
    [("hard-coded", "#6c757d"), ("weir", "#2a6f97"), ("weir-interp", "#e07a5f")];
const LTTNG: &str = "#7b2d8b";

fn median(json: &Value, subject: &str, case: &str) -> Option<f64> {
    json["figures"][subject][case]["median"].as_f64()
}

/// Cases of a subject that are called `BEFORE number BEHIND`, with that number.
fn series(json: &Value, subject: &str, before: &str, behind: &str) -> Vec<(f64, f64)> {
    let cases = json["figures"][subject].as_object().into_iter().flat_map(|cases| cases.keys());
    let point = |case: &String| {
        let number = case.strip_prefix(before)?.strip_suffix(behind)?.parse().ok()?;
        Some((number, median(json, subject, case)?))
    };
    let mut points: Vec<(f64, f64)> = cases.filter_map(point).collect();
    points.sort_by(|a, b| a.0.total_cmp(&b.0));
    points
}

fn events(json: &Value) -> Plot {
    let of = |subject| series(json, subject, "and true 50, ", " events");
    let mut lines: Vec<Line> = SUBJECTS.iter().map(|&(name, colour)| ours(name, colour, of(name))).collect();
    let hard_coded = of("hard-coded");
    let ratios = [
        ("thesis: JIT, 1.4 × hard-coded", "#2a6f97", thesis::JIT_OVER_HARD_CODED),
        ("thesis: interpreted, 4.3 × hard-coded", "#e07a5f", thesis::INTERPRETED_OVER_HARD_CODED),
    ];
    for (name, colour, ratio) in ratios {
        let points = hard_coded.iter().map(|(events, seconds)| (*events, seconds * ratio)).collect();
        lines.push(Line { name: name.to_owned(), colour, is_theirs: true, points });
    }
    Plot {
        title: "Figure 4.8: filters of 50 predicates that hold, joined by &&",
        notes: &["The thesis gives ratios: its lines stand over the hard-coded filter of this machine."],
        x: "events",
        y: "seconds",
        is_logarithmic: true,
        lines,
    }
}

/// Name, colour, and what is drawn of a row.
type Column = (&'static str, &'static str, fn(&thesis::Row) -> f64);

fn predicates(json: &Value) -> Plot {
    let of = |subject| series(json, subject, "depth ", " of 50");
    let mut lines: Vec<Line> = SUBJECTS.iter().map(|&(name, colour)| ours(name, colour, of(name))).collect();
    let columns: [Column; 3] = [
        ("thesis: hard-coded", "#6c757d", |row| row.1),
        ("thesis: eBPF (JIT)", "#2a6f97", |row| row.2),
        ("thesis: eBPF (interpreted)", "#e07a5f", |row| row.3),
    ];
    for (name, colour, column) in columns {
        let point = |row: &thesis::Row| (row.0, column(row) * thesis::NS_OF_A_SECOND);
        let points = thesis::BY_PREDICATES.iter().map(point).collect();
        lines.push(Line { name: name.to_owned(), colour, is_theirs: true, points });
    }
    Plot {
        title: "Figure 4.9: filters by depth of evaluation",
        notes: &[
            "A second for 100 million events, the thesis's unit, is 10 ns an event.",
            "Theirs: the sample results published with libebpf, of a machine of 2015 that is not named.",
        ],
        x: "predicates evaluated",
        y: "ns an event",
        is_logarithmic: false,
        lines,
    }
}

fn lttng(json: &Value) -> Plot {
    let mut lines = Vec::new();
    for (subject, colour) in [("lttng", LTTNG), SUBJECTS[1], SUBJECTS[2]] {
        for bias in ["true", "false"] {
            let points = series(json, subject, &format!("and {bias} "), "");
            let points = points.into_iter().filter(|point| point.0 <= 10.0).collect();
            lines.push(ours(&format!("{subject}, {bias}"), colour, points));
        }
    }
    let (lttng, jit) = thesis::TRUE_OVER_RECORDED;
    let (rejected_lttng, rejected_jit, rejected_interpreted) = thesis::FALSE;
    let theirs = [
        ("thesis: LTTng, true", LTTNG, 9.0, lttng),
        ("thesis: eBPF (JIT), true", "#2a6f97", 9.0, jit),
        ("thesis: LTTng, false", LTTNG, 10.0, rejected_lttng),
        ("thesis: eBPF (JIT), false", "#2a6f97", 10.0, rejected_jit),
        ("thesis: eBPF (interpreted), false", "#e07a5f", 10.0, rejected_interpreted),
    ];
    for (name, colour, predicates, ns) in theirs {
        let points = vec![(predicates, ns)];
        lines.push(Line { name: name.to_owned(), colour, is_theirs: true, points });
    }
    Plot {
        title: "Figure 4.10: filters beside LTTng's, predicates joined by &&",
        notes: &[
            "True: over the tracepoint recorded without a filter. False, by the last predicate: over no session.",
            "Theirs: text (nine, true) and libebpf's results (ten, false), of a machine of 2015 that is not named.",
        ],
        x: "predicates",
        y: "ns an event",
        is_logarithmic: false,
        lines,
    }
}

fn recorded(json: &Value) -> Plot {
    let mut lines = Vec::new();
    for (subject, colour) in [("lttng", LTTNG), SUBJECTS[1]] {
        let mut points = series(json, subject, "9 strings, 1 thread, ", " predicates");
        let unfiltered = median(json, subject, "9 strings, 1 thread");
        points.splice(..0, unfiltered.map(|ns| (0.0, ns)));
        lines.push(ours(subject, colour, points));
    }
    let (lttng, jit) = thesis::TRUE_OVER_RECORDED;
    let theirs = [("thesis: LTTng", LTTNG, lttng), ("thesis: eBPF (JIT)", "#2a6f97", jit)];
    let unfiltered = median(json, "lttng", "9 strings, 1 thread");
    for (name, colour, over) in theirs {
        let points = unfiltered.map(|ns| (9.0, ns + over)).into_iter().collect();
        lines.push(Line { name: name.to_owned(), colour, is_theirs: true, points });
    }
    Plot {
        title: "Figure 4.10: filter and tracepoint (te + tt), predicates that hold, joined by &&",
        notes: &[
            "Nine strings of four characters are recorded; no predicate: without a filter.",
            "Theirs: what the thesis has for nine over the tracepoint without a filter, here over LTTng's of this machine.",
        ],
        x: "predicates",
        y: "ns an event",
        is_logarithmic: false,
        lines,
    }
}

fn ours(name: &str, colour: &'static str, points: Vec<(f64, f64)>) -> Line {
    Line { name: name.to_owned(), colour, is_theirs: false, points }
}

const LEFT: f64 = 70.0;
const TOP: f64 = 70.0;
const WIDTH: f64 = 520.0;
const HEIGHT: f64 = 320.0;
const LEGEND: f64 = 260.0;
/// Marks of an axis that is not logarithmic.
const MARKS: u32 = 5;

/// From `low` to `high`.
#[derive(Clone, Copy, Debug)]
struct Axis {
    low: f64,
    high: f64,
    is_logarithmic: bool,
}

impl Axis {
    fn over(values: impl Iterator<Item = f64>, is_logarithmic: bool) -> Axis {
        let values: Vec<f64> = values.filter(|value| value.is_finite() && *value > 0.0).collect();
        let high = values.iter().copied().fold(1e-9, f64::max);
        if !is_logarithmic {
            return Axis { low: 0.0, high: high * 1.05, is_logarithmic };
        }
        let low = values.iter().copied().fold(high, f64::min);
        Axis {
            low: 10f64.powf(low.log10().floor()),
            high: 10f64.powf((high * 1.001).log10().ceil()),
            is_logarithmic,
        }
    }

    /// 0 to 1.
    fn place(self, value: f64) -> f64 {
        let place = match self.is_logarithmic {
            true => (value.max(self.low) / self.low).log10() / (self.high / self.low).log10(),
            false => value / self.high,
        };
        place.clamp(0.0, 1.0)
    }

    fn marks(self) -> Vec<f64> {
        if self.is_logarithmic {
            let decades = (self.high / self.low).log10().round() as i32;
            return (0..=decades).map(|decade| self.low * 10f64.powi(decade)).collect();
        }
        let rough = self.high / f64::from(MARKS);
        let unit = 10f64.powf(rough.log10().floor());
        let step = [1.0, 2.0, 5.0, 10.0].into_iter().map(|times| times * unit).find(|step| *step >= rough);
        let step = step.unwrap_or(rough);
        (0..=MARKS).map(|mark| f64::from(mark) * step).filter(|mark| *mark <= self.high).collect()
    }
}

impl Plot {
    fn svg(&self) -> String {
        let points = || self.lines.iter().flat_map(|line| &line.points);
        let x = Axis::over(points().map(|point| point.0), self.is_logarithmic);
        let y = Axis::over(points().map(|point| point.1), self.is_logarithmic);
        let (width, height) = (LEFT + WIDTH + LEGEND, TOP + HEIGHT + 50.0);
        let mut picture = Picture::new(width, height);
        picture.text((LEFT, 20.0), Anchor::Start, true, self.title);
        for (index, note) in self.notes.iter().enumerate() {
            picture.text((LEFT, 36.0 + 15.0 * index as f64), Anchor::Start, false, note);
        }
        let at = |(a, b): (f64, f64)| (LEFT + WIDTH * x.place(a), TOP + HEIGHT * (1.0 - y.place(b)));
        for mark in x.marks() {
            let (across, _) = at((mark, y.low));
            picture.line((across, TOP), (across, TOP + HEIGHT), "#e9ecef", false);
            picture.text((across, TOP + HEIGHT + 16.0), Anchor::Middle, false, &number(mark));
        }
        for mark in y.marks() {
            let (_, down) = at((x.low, mark));
            picture.line((LEFT, down), (LEFT + WIDTH, down), "#e9ecef", false);
            picture.text((LEFT - 6.0, down + 4.0), Anchor::End, false, &number(mark));
        }
        picture.text((LEFT + WIDTH / 2.0, TOP + HEIGHT + 36.0), Anchor::Middle, false, self.x);
        picture.text((LEFT - 6.0, TOP - 8.0), Anchor::End, false, self.y);
        for (index, line) in self.lines.iter().enumerate() {
            for pair in line.points.windows(2) {
                picture.line(at(pair[0]), at(pair[1]), line.colour, line.is_theirs);
            }
            for point in &line.points {
                picture.point(at(*point), line.colour, !line.is_theirs);
            }
            let down = TOP + 10.0 + 18.0 * index as f64;
            let left = LEFT + WIDTH + 14.0;
            picture.line((left, down), (left + 24.0, down), line.colour, line.is_theirs);
            let name =
                if line.points.is_empty() { format!("{}: missing", line.name) } else { line.name.clone() };
            picture.text((left + 30.0, down + 4.0), Anchor::Start, false, &name);
        }
        picture.finish()
    }
}

/// 1000000 as 1M.
fn number(value: f64) -> String {
    match value {
        value if value >= 1e6 => format!("{}M", value / 1e6),
        value if value >= 10.0 || value == 0.0 => format!("{value:.0}"),
        value => format!("{}", (value * 1e6).round() / 1e6),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::workspace;

    #[test]
    fn the_kept_pictures_are_those_of_the_kept_figures() {
        let folder = workspace::root().join("docs/bench");
        let of = |file: &str| {
            let json = fs::read_to_string(folder.join(file)).unwrap();
            serde_json::from_str(&json).unwrap()
        };
        for (name, svg) in [plots(&of("filter.json")), recorded_plots(&of("record.json"))].concat() {
            let kept = fs::read_to_string(folder.join(format!("{name}.svg"))).unwrap();
            assert!(kept == svg, "docs/bench/{name}.svg is not drawn from the JSON beside it");
            assert!(svg.contains("thesis") && !svg.contains("NaN") && !svg.contains(": missing"), "{name}");
        }
    }

    #[test]
    fn what_was_not_measured_is_named() {
        let figures = plots(&Value::Null);
        assert_eq!(figures.len(), 3);
        assert!(
            figures
                .iter()
                .all(|(_, svg)| svg.contains("weir: missing") || svg.contains("weir, true: missing"))
        );
    }

    #[test]
    fn series_are_in_the_order_of_their_numbers() {
        let json = serde_json::json!({ "figures": { "weir": {
            "and true 10": { "median": 3.0 }, "and true 9": { "median": 2.0 }, "and true 9, 5 events": { "median": 1.0 },
        } } });
        assert_eq!(series(&json, "weir", "and true ", ""), [(9.0, 2.0), (10.0, 3.0)]);
    }

    #[test]
    fn marks_are_round_and_on_the_axis() {
        let axis = Axis::over([3.0, 96.0].into_iter(), false);
        assert_eq!(axis.marks(), [0.0, 50.0, 100.0]);
        let axis = Axis::over([0.02, 3.0].into_iter(), true);
        assert_eq!(axis.marks().len(), 4);
        assert_eq!((axis.place(axis.low), axis.place(axis.high)), (0.0, 1.0));
    }
}
