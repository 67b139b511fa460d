//! Shell wildcards, and names near to a misspelt one.
//!
//! `*` is any run of characters, `?` one character, `[abc]`, `[a-z]`, `[!a]` and `[^a]` one character of a set; a `[`
//! without `]` is itself. There is no escape: no name of a function needs one, and a name equal to the pattern is
//! taken before wildcards are tried. [`matches()`] takes at most pattern × name steps.

use crate::limits::{NEAR_CANDIDATES_MAX, NEAR_MISSES_MAX, NEAR_NAME_BYTES_MAX};

/// Whether `text` holds a character that [`matches()`] does not take literally.
pub fn is_wildcard(text: &str) -> bool {
    text.contains(['*', '?', '['])
}

/// Whether all of `name` matches `pattern`.
pub fn matches(pattern: &str, name: &str) -> bool {
    let (mut pattern, mut name) = (pattern, name);
    // Where to go on when the present try fails: after the last `*`, one character further in the name.
    let mut retry: Option<(&str, &str)> = None;
    loop {
        if let Some(rest) = pattern.strip_prefix('*') {
            pattern = rest;
            retry = Some((rest, name));
            continue;
        }
        if pattern.is_empty() && name.is_empty() {
            return true;
        }
        if let (Some((rest, yes)), Some(c)) = (match_one(pattern, name), name.chars().next())
            && yes
        {
            pattern = rest;
            name = &name[c.len_utf8()..];
            continue;
        }
        let Some((after_star, tried)) = retry else { return false };
        let Some(c) = tried.chars().next() else { return false };
        let next = &tried[c.len_utf8()..];
        retry = Some((after_star, next));
        (pattern, name) = (after_star, next);
    }
}

/// The pattern after its first element, and whether that element matches the name's first character.
fn match_one<'p>(pattern: &'p str, name: &str) -> Option<(&'p str, bool)> {
    let given = name.chars().next();
    let first = pattern.chars().next()?;
    let rest = &pattern[first.len_utf8()..];
    match first {
        '?' => Some((rest, given.is_some())),
        '[' => match class(rest) {
            Some((set, rest)) => Some((rest, given.is_some_and(|c| in_set(set, c)))),
            None => Some((rest, given == Some('['))),
        },
        c => Some((rest, given == Some(c))),
    }
}

/// Splits what follows a `[` into the set and what follows its `]`; a `]` that stands first is a member.
fn class(text: &str) -> Option<(&str, &str)> {
    let body = text.strip_prefix(['!', '^']).unwrap_or(text);
    let first = body.chars().next()?;
    let skip = text.len() - body.len() + first.len_utf8();
    let end = skip + text[skip..].find(']')?;
    Some((&text[..end], &text[end + 1..]))
}

fn in_set(set: &str, c: char) -> bool {
    let body = set.strip_prefix(['!', '^']);
    let negated = body.is_some();
    let mut rest = body.unwrap_or(set).chars();
    let mut found = false;
    while let Some(low) = rest.next() {
        let mut ahead = rest.clone();
        let high = match (ahead.next(), ahead.next()) {
            (Some('-'), Some(high)) => {
                rest = ahead;
                high
            }
            _ => low,
        };
        found |= low <= c && c <= high;
    }
    found != negated
}

/// The names nearest to `wanted`, nearest first: those that few edits turn into it (insert, delete, replace, swap
/// neighbours; at most a third of its length), that differ from it only in leading underscores, or that a compiler
/// made of it (`foo.constprop.0`, `foo.part.0`, `foo.isra.0`).
pub fn near_misses<'a>(wanted: &str, names: impl Iterator<Item = &'a str>) -> Vec<String> {
    if wanted.is_empty() || wanted.len() > NEAR_NAME_BYTES_MAX {
        return Vec::new();
    }
    let most = (wanted.len() / 3).clamp(1, 4);
    let bare = wanted.trim_start_matches('_');
    let mut near: Vec<(usize, &str)> = Vec::new();
    let mut scratch = Scratch::default();
    for name in names.take(NEAR_CANDIDATES_MAX) {
        let same_bare = !bare.is_empty() && name.trim_start_matches('_') == bare;
        let made_of_it = name.strip_prefix(wanted).is_some_and(|rest| rest.starts_with('.'));
        let edits = if same_bare || made_of_it {
            1
        } else if name.len().abs_diff(wanted.len()) <= most {
            scratch.distance(wanted.as_bytes(), name.as_bytes())
        } else {
            continue;
        };
        if edits <= most && !near.contains(&(edits, name)) {
            near.push((edits, name));
            near.sort_unstable();
            near.truncate(NEAR_MISSES_MAX);
        }
    }
    near.into_iter().map(|(_, name)| name.to_string()).collect()
}

/// Three rows of the edit-distance table (optimal string alignment).
#[derive(Default)]
struct Scratch {
    before: Vec<usize>,
    last: Vec<usize>,
    row: Vec<usize>,
}

impl Scratch {
    fn distance(&mut self, a: &[u8], b: &[u8]) -> usize {
        self.last.clear();
        self.last.extend(0..=b.len());
        self.before.clear();
        self.before.resize(b.len() + 1, 0);
        self.row.clear();
        self.row.resize(b.len() + 1, 0);
        for i in 1..=a.len() {
            self.row[0] = i;
            for j in 1..=b.len() {
                let replaced = self.last[j - 1] + usize::from(a[i - 1] != b[j - 1]);
                let mut best = replaced.min(self.last[j] + 1).min(self.row[j - 1] + 1);
                if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                    best = best.min(self.before[j - 2] + 1);
                }
                self.row[j] = best;
            }
            std::mem::swap(&mut self.before, &mut self.last);
            std::mem::swap(&mut self.last, &mut self.row);
        }
        self.last[b.len()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(pattern: &str, name: &str, expected: bool) {
        assert_eq!(matches(pattern, name), expected, "{pattern} against {name}");
    }

    #[test]
    fn wildcards_match_as_in_a_shell() {
        for (pattern, name, expected) in [
            ("malloc", "malloc", true),
            ("malloc", "mallo", false),
            ("malloc", "malloc2", false),
            ("", "", true),
            ("", "a", false),
            ("*", "", true),
            ("*", "anything", true),
            ("mal*", "malloc", true),
            ("mal*", "mal", true),
            ("*loc", "malloc", true),
            ("*loc", "mallocx", false),
            ("m*l*c", "malloc", true),
            ("*a*a*", "banana", true),
            ("*ab", "aab", true),
            ("a*b*c", "abbbcbbc", true),
            ("a*b*c", "abbbcbb", false),
            ("**", "x", true),
            ("?alloc", "malloc", true),
            ("?alloc", "alloc", false),
            ("??", "é", false),
            ("?", "é", true),
            ("[mc]alloc", "calloc", true),
            ("[mc]alloc", "xalloc", false),
            ("[a-m]alloc", "malloc", true),
            ("[a-l]alloc", "malloc", false),
            ("[!a-l]alloc", "malloc", true),
            ("[^m]alloc", "malloc", false),
            ("[]x]y", "]y", true),
            ("[]x]y", "xy", true),
            ("[!]]", "a", true),
            ("[!]]", "]", false),
            ("[a-]", "-", true),
            ("[abc", "[abc", true),
            ("[abc", "a", false),
            ("x[", "x[", true),
            ("[", "[", true),
            ("[!", "[!", true),
            ("operator[[]]", "operator[]", true),
            ("a[bc]*[!d]", "abxe", true),
            ("a[bc]*[!d]", "abxd", false),
        ] {
            check(pattern, name, expected);
        }
    }

    #[test]
    fn a_pattern_of_many_stars_ends_soon() {
        let pattern = "*a".repeat(200) + "b";
        let name = "a".repeat(4000);
        let start = testkit::cpu::used_by_this_thread();
        check(&pattern, &name, false);
        assert!((testkit::cpu::used_by_this_thread() - start).as_secs() < 2);
    }

    #[test]
    fn finds_wildcards() {
        for (text, expected) in [("a", false), ("a*", true), ("a?", true), ("[a]", true), ("a-b", false)] {
            assert_eq!(is_wildcard(text), expected, "{text}");
        }
    }

    #[test]
    fn near_misses_are_few_and_nearest_first() {
        let names = [
            "malloc",
            "calloc",
            "free",
            "memalign",
            "mallinfo",
            "realloc",
            "__malloc",
            "m",
            "cold.constprop.0",
        ];
        for (wanted, expected) in [
            ("mallocc", vec!["malloc", "calloc"]),
            ("mlaloc", vec!["malloc", "calloc"]),
            ("_malloc", vec!["__malloc", "malloc", "calloc"]),
            ("fre", vec!["free"]),
            ("cold", vec!["cold.constprop.0"]),
            ("zzzzzz", vec![]),
            ("", vec![]),
        ] {
            assert_eq!(near_misses(wanted, names.iter().copied()), expected, "{wanted}");
        }
    }
}
