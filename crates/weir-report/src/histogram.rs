//! Histograms: words of a `hist` or `lhist` value → the buckets that print.
//!
//! Guaranteed: buckets from the first to the last that holds anything, in order, with the range that each
//! covers. How a range is written is the formats' business, but for its text label, which is here with the
//! ranges it names. Bucket numbers are weir-event's.

use weir_event::MapValue;

/// One bucket: values x with low ≤ x < high; None is without end.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Bucket {
    pub low: Option<i128>,
    pub high: Option<i128>,
    /// Divided already.
    pub count: u64,
    /// As text output names it: `[1K, 2K)`.
    pub label: String,
    /// Columns of its bar; the fullest bucket has all of them.
    pub bar: usize,
}

/// The buckets between the first and the last that is not empty; none if all are. `lhist` ignores `div`, as
/// bpftrace does.
pub(crate) fn buckets(value: &MapValue, words: &[u64], div: u64) -> Vec<Bucket> {
    let Some(first) = words.iter().position(|count| *count != 0) else { return Vec::new() };
    let last = words.iter().rposition(|count| *count != 0).unwrap_or(first);
    let most = words.iter().copied().max().unwrap_or(1);
    (first..=last)
        .map(|index| {
            let (low, high, label) = match value {
                MapValue::Lhist { min, max, step } => linear(index, words.len(), *min, *max, *step),
                MapValue::Hist { bits } => log2(index, u32::from(*bits)),
                _ => log2(index, 0),
            };
            let count = match value {
                MapValue::Lhist { .. } => words[index],
                _ => words[index] / div,
            };
            Bucket { low, high, count, label, bar: bar_columns(words[index], most) }
        })
        .collect()
}

/// In 32-bit floating point, because that is what decides the last column in bpftrace.
fn bar_columns(count: u64, most: u64) -> usize {
    let columns = super::limits::BAR_COLUMNS;
    ((count as f32 / most as f32 * columns as f32) as usize).min(columns)
}

type Range = (Option<i128>, Option<i128>, String);

fn log2(index: usize, bits: u32) -> Range {
    if index == 0 {
        return (None, Some(0), "(..., 0)".to_string());
    }
    let index = index - 1;
    if index < 2 << bits {
        let only = index as i128;
        return (Some(only), Some(only + 1), format!("[{only}]"));
    }
    let (low, high) = (part_of_power(index, bits), part_of_power(index + 1, bits));
    (Some(low.0), Some(high.0), format!("[{}, {})", low.1, high.1))
}

/// Where a bucket begins, and its label: the suffix is that of the power of two by which it is counted.
fn part_of_power(index: usize, bits: u32) -> (i128, String) {
    const SUFFIXES: [&str; 7] = ["", "K", "M", "G", "T", "P", "E"];
    let power = (index >> bits) as u32 - 1;
    let part = (1i128 << bits) + (index as i128 & ((1 << bits) - 1));
    let decade = (power as usize / 10).min(SUFFIXES.len() - 1);
    (part << power, format!("{}{}", part << (power - 10 * decade as u32), SUFFIXES[decade]))
}

fn linear(index: usize, buckets: usize, min: i64, max: i64, step: i64) -> Range {
    let (min, max, step) = (i128::from(min), i128::from(max), i128::from(step));
    let name = |bound: i128| linear_label(bound, step);
    if index == 0 {
        return (None, Some(min), format!("(..., {})", name(min)));
    }
    if index + 1 == buckets {
        return (Some(max), None, format!("[{}, ...)", name(max)));
    }
    // The last step may be a short one.
    let low = min + (index as i128 - 1) * step;
    let high = (low + step).min(max);
    (Some(low), Some(high), format!("[{}, {})", name(low), name(high)))
}

/// bpftrace writes K and M only where the step is a multiple of 1024.
fn linear_label(bound: i128, step: i128) -> String {
    const KILO: i128 = 1 << 10;
    const MEGA: i128 = 1 << 20;
    match bound {
        0 => "0".to_string(),
        _ if step % KILO != 0 => bound.to_string(),
        _ if bound % MEGA == 0 => format!("{}M", bound / MEGA),
        _ if bound % KILO == 0 => format!("{}K", bound / KILO),
        _ => bound.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_log2(index: usize, label: &str, low: Option<i128>, high: Option<i128>) {
        assert_eq!(log2(index, 0), (low, high, label.to_string()));
    }

    #[test]
    fn log2_buckets_have_bpftrace_labels() {
        check_log2(0, "(..., 0)", None, Some(0));
        check_log2(1, "[0]", Some(0), Some(1));
        check_log2(2, "[1]", Some(1), Some(2));
        check_log2(3, "[2, 4)", Some(2), Some(4));
        check_log2(11, "[512, 1K)", Some(512), Some(1024));
        check_log2(12, "[1K, 2K)", Some(1024), Some(2048));
        check_log2(21, "[512K, 1M)", Some(1 << 19), Some(1 << 20));
        check_log2(52, "[1P, 2P)", Some(1 << 50), Some(1 << 51));
        check_log2(65, "[8E, 16E)", Some(1 << 63), Some(1 << 64));
    }

    #[test]
    fn finer_buckets_have_bpftrace_labels() {
        let check = |value: i64, bits: u8, label: &str| {
            let index = weir_event::hist_bucket(value, bits);
            assert!(index < weir_event::hist_buckets(bits));
            let (low, high, found) = log2(index as usize, bits.into());
            assert_eq!(found, label, "{value} with {bits}");
            assert!(
                low.is_none_or(|low| low <= value.into()) && high.is_some_and(|high| high > value.into())
            );
        };
        check(-1, 3, "(..., 0)");
        check(0, 3, "[0]");
        check(15, 3, "[15]");
        check(16, 3, "[16, 18)");
        check(17, 3, "[16, 18)");
        check(7, 2, "[7]");
        check(9, 2, "[8, 10)");
        check(230, 2, "[224, 256)");
        check(1000, 2, "[896, 1024)");
        check(1024, 2, "[1024, 1280)");
        check(5000, 2, "[4K, 5K)");
        check(1 << 40, 1, "[1024G, 1536G)");
        for bits in 0..=5 {
            for value in [0, 1, 2, 31, 32, 33, 63, 64, 1000, i64::MAX / 3, i64::MAX - 1] {
                let (low, high, _) = log2(weir_event::hist_bucket(value, bits) as usize, bits.into());
                assert!(low.is_some_and(|low| low <= value.into()), "{value} with {bits}");
                assert!(high.is_some_and(|high| high > value.into()), "{value} with {bits}");
            }
        }
    }

    fn labels(min: i64, max: i64, step: i64) -> Vec<String> {
        let count = weir_event::lhist_buckets(min, max, step) as usize;
        let value = MapValue::Lhist { min, max, step };
        buckets(&value, &vec![1; count], 1).into_iter().map(|bucket| bucket.label).collect()
    }

    #[test]
    fn linear_buckets_have_bpftrace_labels() {
        assert_eq!(labels(0, 20, 10), ["(..., 0)", "[0, 10)", "[10, 20)", "[20, ...)"]);
        assert_eq!(labels(-5, 5, 5), ["(..., -5)", "[-5, 0)", "[0, 5)", "[5, ...)"]);
        assert_eq!(labels(0, 2048, 1024), ["(..., 0)", "[0, 1K)", "[1K, 2K)", "[2K, ...)"]);
        assert_eq!(labels(0, 1 << 21, 1 << 20), ["(..., 0)", "[0, 1M)", "[1M, 2M)", "[2M, ...)"]);
        assert_eq!(labels(0, 2000, 1000), ["(..., 0)", "[0, 1000)", "[1000, 2000)", "[2000, ...)"]);
    }

    #[test]
    fn a_step_that_does_not_divide_the_range_ends_short() {
        assert_eq!(labels(0, 10, 4), ["(..., 0)", "[0, 4)", "[4, 8)", "[8, 10)", "[10, ...)"]);
    }

    #[test]
    fn only_the_span_that_holds_something_prints() {
        let bars = |words: &[u64]| -> Vec<(String, u64, usize)> {
            let found = buckets(&MapValue::Hist { bits: 0 }, words, 1);
            found.into_iter().map(|bucket| (bucket.label, bucket.count, bucket.bar)).collect()
        };
        assert_eq!(bars(&[0, 0, 0, 0]), []);
        let want = [("[0]".to_string(), 1, 26), ("[1]".to_string(), 0, 0), ("[2, 4)".to_string(), 2, 52)];
        assert_eq!(bars(&[0, 1, 0, 2, 0]), want);
        assert_eq!(bars(&[u64::MAX]), [("(..., 0)".to_string(), u64::MAX, 52)]);
    }
}
