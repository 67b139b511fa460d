//! "Did you mean": the known name nearest to an unknown one.

/// The candidate with the fewest edits from `name`, if those are few enough to be a slip.
pub fn nearest<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    // A longer text than any name is no slip, and would only cost time.
    if name.len() > 32 {
        return None;
    }
    let name: Vec<char> = name.to_lowercase().chars().collect();
    let allowed = (name.len() / 3).clamp(1, 3);
    let mut best: Option<(usize, &str)> = None;
    for candidate in candidates {
        // Each difference in length is an edit: most candidates need no more than this look.
        if candidate.chars().count().abs_diff(name.len()) > allowed {
            continue;
        }
        let edits = edits(&name, &candidate.to_lowercase().chars().collect::<Vec<char>>());
        if edits <= allowed && best.is_none_or(|(least, _)| edits < least) {
            best = Some((edits, candidate));
        }
    }
    best.map(|(_, candidate)| candidate)
}

/// Insertions, deletions, replacements and swaps of neighbours that turn `a` into `b`.
fn edits(a: &[char], b: &[char]) -> usize {
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
        check("ipd", Some("pid"));
    }

    #[test]
    fn leaves_other_words_alone() {
        check("malloc", None);
        check("x", None);
        check(&"p".repeat(1000), None);
    }
}
