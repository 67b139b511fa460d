//! Statistics: medians, their intervals, means of ratios, and slopes.

use std::cmp::Ordering;

/// A median and the 95 % interval around it.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Summary {
    pub(super) median: f64,
    pub(super) low: f64,
    pub(super) high: f64,
}

/// Summarises samples, at least one. The interval is that of the order statistics: the narrowest pair of samples,
/// equally far from both ends, that holds the median of the population with at least 95 % (binomial, p = ½). It
/// assumes nothing of the distribution. Fewer than 6 samples cannot reach 95 %: then it is their whole span.
pub(super) fn summary(samples: &[f64]) -> Summary {
    assert!(!samples.is_empty(), "a summary needs a sample");
    let mut sorted = samples.to_vec();
    sorted.sort_by(|a, b| a.partial_cmp(b).unwrap_or(Ordering::Equal));
    let outside = samples_outside(sorted.len());
    Summary { median: middle(&sorted), low: sorted[outside], high: sorted[sorted.len() - 1 - outside] }
}

pub(super) fn median(samples: &[f64]) -> f64 {
    summary(samples).median
}

fn middle(sorted: &[f64]) -> f64 {
    let half = sorted.len() / 2;
    if sorted.len() % 2 == 1 { sorted[half] } else { (sorted[half - 1] + sorted[half]) / 2.0 }
}

/// Round by round the geometric mean of the first over the second of each pair, as far as all have samples. What is less than `least`,
/// as a sample less its empty run may be, counts as that.
pub(super) fn mean_ratios(pairs: &[(&[f64], &[f64])], least: f64) -> Vec<f64> {
    let rounds = pairs.iter().map(|(over, under)| over.len().min(under.len())).min().unwrap_or(0);
    let mean = |round: usize| {
        let logarithm =
            |(over, under): &(&[f64], &[f64])| (over[round].max(least) / under[round].max(least)).ln();
        (pairs.iter().map(logarithm).sum::<f64>() / pairs.len() as f64).exp()
    };
    (0..rounds).map(mean).collect()
}

/// How many samples may lie outside the interval at each end: the most k that Binomial(n, ½) does not exceed with a
/// probability of at most 2.5 %.
fn samples_outside(n: usize) -> usize {
    let mut probability = 0.5f64.powi(n as i32);
    let mut below = 0.0;
    for k in 0..n / 2 {
        below += probability;
        if below > 0.025 {
            return k.saturating_sub(1);
        }
        probability *= (n - k) as f64 / (k + 1) as f64;
    }
    0
}

/// The least-squares slope of y over x, with the line's offset free. None with fewer than two different x.
pub(super) fn slope(points: &[(f64, f64)]) -> Option<f64> {
    let n = points.len() as f64;
    let mean_x = points.iter().map(|point| point.0).sum::<f64>() / n;
    let mean_y = points.iter().map(|point| point.1).sum::<f64>() / n;
    let spread: f64 = points.iter().map(|(x, _)| (x - mean_x).powi(2)).sum();
    if points.is_empty() || spread == 0.0 {
        return None;
    }
    let together: f64 = points.iter().map(|(x, y)| (x - mean_x) * (y - mean_y)).sum();
    Some(together / spread)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_are_in_the_middle() {
        assert_eq!(median(&[3.0]), 3.0);
        assert_eq!(median(&[9.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), 2.5);
    }

    /// Known ranks of the 95 % interval: n = 6: 1st and 6th; 15: 4th and 12th; 21: 6th and 16th; 100: 40th, 61st.
    #[test]
    fn intervals_have_the_ranks_of_the_binomial() {
        let ranks = |n: usize| {
            let samples: Vec<f64> = (1..=n).map(|rank| rank as f64).collect();
            let found = summary(&samples);
            (found.low as usize, found.high as usize)
        };
        assert_eq!(ranks(1), (1, 1));
        assert_eq!(ranks(5), (1, 5));
        assert_eq!(ranks(6), (1, 6));
        assert_eq!(ranks(8), (1, 8));
        assert_eq!(ranks(9), (2, 8));
        assert_eq!(ranks(15), (4, 12));
        assert_eq!(ranks(21), (6, 16));
        assert_eq!(ranks(100), (40, 61));
    }

    #[test]
    fn slopes_ignore_the_offset() {
        assert_eq!(slope(&[(0.0, 7.0), (1.0, 9.0), (2.0, 11.0)]), Some(2.0));
        assert_eq!(slope(&[(1.0, 5.0), (1.0, 6.0)]), None);
        assert_eq!(slope(&[]), None);
    }
}
