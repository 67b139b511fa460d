//! "Did you mean": the known name nearest to an unknown one.

/// The candidate with the fewest edits from `name`, if those are few enough to be a slip.
pub fn nearest<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    // A longer text than any name is no slip, and would only cost time.
    if name.len() > 32 {
        return None;
    }
    let allowed = (name.chars().count() / 3).clamp(1, 3);
    let scored = candidates.into_iter().map(|candidate| (edits(name, candidate), candidate));
    scored
        .filter(|(edits, _)| *edits <= allowed)
        .min_by_key(|(edits, _)| *edits)
        .map(|(_, candidate)| candidate)
}

/// Insertions, deletions, replacements and swaps of neighbours that turn `a` into `b`, regardless of case.
fn edits(a: &str, b: &str) -> usize {
    let a: Vec<char> = a.to_lowercase().chars().collect();
    let b: Vec<char> = b.to_lowercase().chars().collect();
    let mut rows = vec![(0..=b.len()).collect::<Vec<usize>>()];
    for i in 1..=a.len() {
        let mut row = vec![i];
        for j in 1..=b.len() {
            let replaced = rows[i - 1][j - 1] + usize::from(a[i - 1] != b[j - 1]);
            let mut least = replaced.min(rows[i - 1][j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                least = least.min(rows[i - 2][j - 2] + 1);
            }
            row.push(least);
        }
        rows.push(row);
    }
    rows[a.len()][b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(name: &str, expected: Option<&str>) {
        assert_eq!(nearest(name, ["count", "comm", "printf", "print", "pid"]), expected);
    }

    #[test]
    fn finds_a_slip() {
        check("coutn", Some("count"));
        check("cmm", Some("comm"));
        check("prinft", Some("printf"));
        check("PID", Some("pid"));
    }

    #[test]
    fn leaves_other_words_alone() {
        check("malloc", None);
        check("x", None);
        check(&"p".repeat(1000), None);
    }
}
