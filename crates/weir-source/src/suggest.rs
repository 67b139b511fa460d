//! "Did you mean": the known name nearest to an unknown one.

/// The candidate with the fewest edits from `name`, if those are few enough to be a slip.
pub fn nearest<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    // A longer text than any name is no slip, and would only cost time.
    if name.len() > 32 {
        return None;
    }
    let of_name = letters(name);
    let name: Vec<char> = name.to_lowercase().chars().collect();
    let allowed = (name.len() / 3).clamp(1, 3);
    let mut best: Option<(usize, &str)> = None;
    for candidate in candidates {
        // An edit changes the length by one, and takes away or adds one letter: most candidates need no more than these two looks.
        if candidate.chars().count().abs_diff(name.len()) > allowed
            || letters_apart(of_name, letters(candidate)) > allowed
        {
            continue;
        }
        let edits = edits(&name, &candidate.to_lowercase().chars().collect::<Vec<char>>());
        if edits <= allowed && best.is_none_or(|(least, _)| edits < least) {
            best = Some((edits, candidate));
        }
    }
    best.map(|(_, candidate)| candidate)
}

/// The set of a name's letters, as bits; two letters may share one, and only then do sets seem nearer than they are.
fn letters(name: &str) -> u64 {
    let bit = |byte: u8| 1 << (byte.to_ascii_lowercase() % 64);
    // Letters outside ASCII have bytes of several values by case: they count as no letter.
    name.bytes().filter(u8::is_ascii).fold(0, |letters, byte| letters | bit(byte))
}

/// At least how many edits are between names of these letters.
fn letters_apart(a: u64, b: u64) -> usize {
    (a & !b).count_ones().max((b & !a).count_ones()) as usize
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
    fn letters_never_hide_a_near_name() {
        let words = [
            "count", "Comm", "printf", "print", "pid", "tid", "ntop", "pton", "é_1", "É_1", "x", "aab", "abb",
        ];
        for a in words {
            for b in words {
                let chars = |word: &str| word.to_lowercase().chars().collect::<Vec<char>>();
                assert!(letters_apart(letters(a), letters(b)) <= edits(&chars(a), &chars(b)), "{a} {b}");
            }
        }
    }

    #[test]
    fn leaves_other_words_alone() {
        check("malloc", None);
        check("x", None);
        check(&"p".repeat(1000), None);
    }
}
