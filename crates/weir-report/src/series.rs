//! Time series: words of a `tseries` value → its intervals, and the graph of them.
//!
//! Guaranteed: all intervals from the first to the last that has a value, of those that the last leaves: what is older than as many
//! intervals as are kept is not shown, though its place may still have it.

use weir_event::{SERIES_WORDS, Series};

use crate::contents::{average, maximum, minimum};
use crate::names::Symbols;
use crate::value::Value;

/// One interval.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Point {
    /// When it begins.
    pub time: String,
    /// None: nothing was observed in it.
    pub value: Option<Value>,
}

/// How finely times are written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Clock {
    /// Of what stands above the times.
    pub name: &'static str,
    /// Behind the second.
    digits: usize,
}

impl Clock {
    /// Columns of a time, with a blank behind it.
    pub(crate) fn columns(self) -> usize {
        "hh:mm:ss".len() + self.digits + usize::from(self.digits > 0) + 1
    }
}

/// As fine as the interval is.
pub(crate) fn clock(interval_ns: u64) -> Clock {
    match interval_ns {
        ns if ns.is_multiple_of(1_000_000_000) => Clock { name: "hh:mm:ss", digits: 0 },
        ns if ns.is_multiple_of(1_000_000) => Clock { name: "hh:mm:ss.ms", digits: 3 },
        ns if ns.is_multiple_of(1_000) => Clock { name: "hh:mm:ss.us", digits: 6 },
        _ => Clock { name: "hh:mm:ss.ns", digits: 9 },
    }
}

/// The local time at so many nanoseconds of CLOCK_MONOTONIC.
pub(crate) fn time(symbols: &dyn Symbols, interval_ns: u64, at_ns: u64) -> String {
    let digits = clock(interval_ns).digits;
    if digits == 0 {
        return symbols.time("%H:%M:%S", at_ns);
    }
    let mut text = symbols.time("%H:%M:%S.%f", at_ns);
    match digits {
        3 => text.truncate(text.len().saturating_sub(3)),
        9 => text += &format!("{:03}", at_ns % 1000),
        _ => {}
    }
    text
}

/// When each interval begins, and what it has.
pub(crate) fn series(
    words: &[u64],
    interval_ns: u64,
    intervals: u32,
    (of, signed): (Series, bool),
) -> Vec<(u64, Option<Value>)> {
    let places: Vec<&[u64]> = words.chunks_exact(SERIES_WORDS as usize).collect();
    let numbers = || places.iter().map(|place| place[0]).filter(|number| *number > 0);
    let Some(last) = numbers().max() else { return Vec::new() };
    let kept = |number: u64| last - number < u64::from(intervals);
    let first = numbers().filter(|number| kept(*number)).min().unwrap_or(last);
    let value = |number: u64| {
        let place = places.get(((number - 1) % u64::from(intervals.max(1))) as usize)?;
        let (found, bits, count) = (place[0], place[1], place[2]);
        if found != number || count == 0 {
            return None;
        }
        Some(match of {
            Series::Last | Series::Sum => Value::Int { bits, signed },
            Series::Avg => average(bits, count, signed),
            Series::Min => Value::Int { bits: minimum(bits, count, signed), signed },
            Series::Max => Value::Int { bits: maximum(bits, count, signed), signed },
        })
    };
    (first..=last).map(|number| ((number - 1).saturating_mul(interval_ns), value(number))).collect()
}

/// Columns of a graph between its edges.
const INNER: usize = 51;

/// The lines of a graph, as bpftrace draws them.
pub(crate) fn graph(clock: Clock, points: &[Point]) -> Vec<String> {
    let numbers = || points.iter().filter_map(|point| point.value.as_ref()?.number());
    let (Some(least), Some(most)) = (numbers().min(), numbers().max()) else { return Vec::new() };
    let column = |number: i128| match most - least {
        0 => 0,
        range => ((number - least) * (INNER as i128 + 1) / range) as usize,
    };
    let (indent, width) = (clock.columns(), INNER + 2);
    let (left, right) = (least.to_string(), most.to_string());
    let bounds = format!("{:indent$}{left}{right:>1$}", "", width.saturating_sub(left.len()));
    let line = "_".repeat(INNER);
    let mut lines = vec![bounds.clone(), format!("{:<indent$}|{line}|", clock.name)];
    for point in points {
        let mut row = vec![b' '; width];
        (row[0], row[width - 1]) = (b'|', b'|');
        if least < 0 && most > 0 {
            row[column(0)] = b'.';
        }
        let number = point.value.as_ref().and_then(Value::number);
        if let Some(number) = number {
            row[column(number)] = b'*';
        }
        let shown = number.map_or_else(|| "-".to_string(), |number| number.to_string());
        lines.push(format!("{:<indent$}{} {shown}", point.time, String::from_utf8_lossy(&row)));
    }
    lines.push(format!("{:indent$}v{line}v", ""));
    lines.push(bounds);
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn points(values: &[Option<i64>]) -> Vec<Point> {
        let point = |(index, value): (usize, &Option<i64>)| Point {
            time: format!("10:39:49.{index}00"),
            value: value.map(Value::int),
        };
        values.iter().enumerate().map(point).collect()
    }

    /// The lines are those of bpftrace's documentation.
    #[test]
    fn graphs_are_bpftrace_s() {
        let lines = graph(clock(100_000_000), &points(&[Some(-5), Some(-4), Some(0), Some(1), Some(5)]));
        let want = [
            "             -5                                                  5",
            "hh:mm:ss.ms  |___________________________________________________|",
            "10:39:49.000 *                         .                         | -5",
            "10:39:49.100 |    *                    .                         | -4",
            "10:39:49.200 |                         *                         | 0",
            "10:39:49.300 |                         .    *                    | 1",
            "10:39:49.400 |                         .                         * 5",
            "             v___________________________________________________v",
            "             -5                                                  5",
        ];
        assert_eq!(lines, want);
    }

    #[test]
    fn intervals_without_a_value_have_none() {
        let lines = graph(clock(1_000_000_000), &points(&[Some(3), None]));
        assert_eq!(lines.len(), 6);
        assert!(lines[2].ends_with("| 3") && lines[3].ends_with("| -"), "{lines:?}");
        assert_eq!(graph(clock(1), &points(&[None])), Vec::<String>::new());
    }

    #[test]
    fn intervals_are_those_that_the_last_leaves() {
        let check = |words: &[u64], of: Series, want: &[(u64, Option<i64>)]| {
            let found = series(words, 10, 3, (of, true));
            let want: Vec<(u64, Option<Value>)> =
                want.iter().map(|(at, value)| (*at, value.map(Value::int))).collect();
            assert_eq!(found, want, "{words:?}");
        };
        check(&[0; 9], Series::Sum, &[]);
        check(&[7, 5, 1, 0, 0, 0, 0, 0, 0], Series::Sum, &[(60, Some(5))]);
        // Number 9 is in place 2, 7 in place 0; what place 1 has is too old.
        check(&[7, 5, 1, 5, 9, 1, 9, 8, 2], Series::Avg, &[(60, Some(5)), (70, None), (80, Some(4))]);
        let (least, most) = (!(-4i64 ^ i64::MIN) as u64, (-4i64 ^ i64::MIN) as u64);
        check(&[4, least, 1, 0, 0, 0, 0, 0, 0], Series::Min, &[(30, Some(-4))]);
        check(&[4, most, 1, 0, 0, 0, 0, 0, 0], Series::Max, &[(30, Some(-4))]);
        check(
            &[1, 1, 1, 2, 1, 1, u64::MAX, 1, 1],
            Series::Last,
            &[((u64::MAX - 1).saturating_mul(10), Some(1))],
        );
    }

    #[test]
    fn times_are_as_fine_as_the_interval() {
        let names = [2_000_000_000, 100_000_000, 5_000, 7]
            .map(|interval| (clock(interval).name, clock(interval).columns()));
        assert_eq!(names, [("hh:mm:ss", 9), ("hh:mm:ss.ms", 13), ("hh:mm:ss.us", 16), ("hh:mm:ss.ns", 19)]);
    }
}
