//! Chart: figures as an SVG of bars, one block a case, lengths on a logarithmic scale with the interval drawn in.
//!
//! Values that print as zero, or below it, have no bar on such a scale; their number stands alone.

use crate::bench::figures::{Figure, Figures, rounded};
use crate::bench::svg::{Anchor, Picture};

const LINE_HEIGHT: f64 = 18.0;
const NAME_WIDTH: f64 = 110.0;
const BAR_WIDTH: f64 = 420.0;
const NUMBER_WIDTH: f64 = 150.0;
/// Below this a figure prints as 0.000.
const SHOWN_MIN: f64 = 0.0005;
const LEGEND: &str = "lengths are logarithmic, each case on its own scale; black lines are 95 % intervals";

pub(super) fn svg(title: &str, figures: &Figures) -> String {
    let blocks: Vec<(&str, Vec<(&str, &Figure)>)> =
        figures.cases().into_iter().map(|case| (case, bars_of(figures, case))).collect();
    let lines: usize = blocks.iter().map(|(_, bars)| bars.len() + 2).sum();
    let height = LINE_HEIGHT * (lines as f64 + 3.0);
    let width = NAME_WIDTH + BAR_WIDTH + NUMBER_WIDTH;
    let mut picture = Picture::new(width, height);
    let mut y = LINE_HEIGHT;
    picture.text((8.0, y), Anchor::Start, true, title);
    y += LINE_HEIGHT;
    picture.text((8.0, y), Anchor::Start, false, LEGEND);
    for (case, bars) in &blocks {
        y += LINE_HEIGHT * 1.5;
        picture.text((8.0, y), Anchor::Start, true, case);
        let scale = Scale::over(bars);
        for (subject, figure) in bars {
            y += LINE_HEIGHT;
            bar(&mut picture, y, subject, figure, &scale);
        }
    }
    picture.finish()
}

fn bars_of<'f>(figures: &'f Figures, case: &str) -> Vec<(&'f str, &'f Figure)> {
    let subjects = figures.figures.iter();
    subjects.filter_map(|(subject, cases)| Some((subject.as_str(), cases.get(case)?))).collect()
}

/// From a decade below the smallest value of a block to its largest.
struct Scale {
    low: f64,
    high: f64,
}

impl Scale {
    fn over(bars: &[(&str, &Figure)]) -> Scale {
        let values =
            || bars.iter().map(|(_, figure)| figure.summary.median).filter(|value| *value >= SHOWN_MIN);
        let high = bars.iter().map(|(_, figure)| figure.summary.high).fold(f64::MIN_POSITIVE, f64::max);
        let low = values().fold(high, f64::min) / 10.0;
        Scale { low, high }
    }

    /// Pixels from the left end of the bars.
    fn x(&self, value: f64) -> f64 {
        if value <= self.low {
            return 0.0;
        }
        BAR_WIDTH * (value / self.low).ln() / (self.high / self.low).ln()
    }
}

fn bar(picture: &mut Picture, y: f64, subject: &str, figure: &Figure, scale: &Scale) {
    let summary = figure.summary;
    let (low, middle, high) = (scale.x(summary.low), scale.x(summary.median), scale.x(summary.high));
    let colour = if subject == super::figures::WEIR { "#2a6f97" } else { "#adb5bd" };
    let top = y - LINE_HEIGHT + 6.0;
    let centre = y - LINE_HEIGHT / 2.0 + 3.0;
    picture.text((16.0, y), Anchor::Start, false, subject);
    let is_shown = summary.median >= SHOWN_MIN;
    if is_shown {
        picture.bar((NAME_WIDTH, top), middle, 12.0, colour);
        picture.line((NAME_WIDTH + low, centre), (NAME_WIDTH + high, centre), "black", false);
    }
    let number = format!("{} {}", rounded(summary.median), figure.unit);
    let end = if is_shown { high.max(middle) } else { 0.0 };
    picture.text((NAME_WIDTH + end + 6.0, y), Anchor::Start, false, &number);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::figures::example;

    #[test]
    fn each_figure_has_its_bar_and_number() {
        let svg = svg("cost & loss", &example());
        assert!(svg.starts_with("<svg ") && svg.ends_with("</svg>\n"));
        // Two positive medians have a bar beside the white ground; zero has only its number.
        assert_eq!(svg.matches("<rect ").count(), 3);
        assert!(svg.contains("cost &amp; loss") && svg.contains("wall loss &lt;10⁶/s&gt;"));
        assert!(svg.contains(">5.000 ns<") && svg.contains(">10000 ns<") && svg.contains(">0.000 %<"));
        assert!(!svg.contains("NaN") && !svg.contains("inf"));
    }

    #[test]
    fn bars_stay_inside_the_picture() {
        let figures = example();
        let scale = Scale::over(&bars_of(&figures, "ns a hit"));
        assert!((scale.x(10_000.0) - BAR_WIDTH).abs() < 1e-6);
        assert_eq!(scale.x(0.0), 0.0);
        assert!(scale.x(5.0) > 0.0 && scale.x(5.0) < BAR_WIDTH);
    }
}
