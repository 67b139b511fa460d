//! LTTng's names of events: patterns of whole names (`shop:sale`), in which `*` is any characters, also a colon.
//!
//! In: what `enable-event` and `--exclude` are given. Out: attach points, or patterns of `PROVIDER:EVENT`, that mean the same. An event of
//! LTTng-UST has one colon in its name: where a pattern has none, one of its `*` stands for it, and each may. A pattern that no such event can have is
//! refused, where LTTng waits for it forever.

/// Words between commas; `\,` is a comma.
pub(super) fn list(text: &str) -> Vec<String> {
    let (mut words, mut word, mut rest) = (Vec::new(), String::new(), text.chars().peekable());
    while let Some(c) = rest.next() {
        match c {
            '\\' if rest.next_if_eq(&',').is_some() => word.push(','),
            ',' => words.push(std::mem::take(&mut word)),
            c => word.push(c),
        }
    }
    words.push(word);
    words.retain(|word| !word.is_empty());
    words
}

/// Patterns of `PROVIDER:EVENT`; an event matches the name if it matches one of them.
pub(super) fn patterns(name: &str) -> Result<Vec<String>, String> {
    let refused = |why: &str| Err(format!("no event of LTTng-UST has such a name: {why}"));
    // What weir's patterns have more is none of LTTng's: no name has it either.
    let is_part = |c: char| c.is_alphanumeric() || "_*:-.@+/$!^~".contains(c);
    if let Some(other) = name.chars().find(|c| !is_part(*c)) {
        return refused(&format!("{other:?} is in none"));
    }
    let mut name = name.to_owned();
    while name.contains("**") {
        name = name.replace("**", "*");
    }
    match name.split(':').collect::<Vec<_>>()[..] {
        [provider, event] if !provider.is_empty() && !event.is_empty() => Ok(vec![name]),
        [whole] if whole.contains('*') => {
            let stars = whole.match_indices('*');
            Ok(stars.map(|(at, _)| format!("{}:{}", &whole[..=at], &whole[at..])).collect())
        }
        _ => refused("it is PROVIDER:EVENT"),
    }
}

/// The attach points of events of LTTng-UST alone, in every program and library.
pub(super) fn attach_points(name: &str) -> Result<Vec<String>, String> {
    Ok(patterns(name)?.into_iter().map(|pattern| format!("{LTTNG}{pattern}")).collect())
}

const LTTNG: &str = "lttng:*:";

/// As LTTng has the name of what was enabled; others as they are.
pub(super) fn shown(event: &str) -> &str {
    match event.strip_prefix(LTTNG) {
        Some("*:*") => "*",
        Some(name) => name,
        None => event,
    }
}

/// What an exclusion does to a pattern, as far as LTTng looks at it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Excludes {
    Some,
    None,
    All,
}

/// Known where both have a `*` at their end alone, or the exclusion none.
pub(super) fn excludes(excluded: &str, name: &str) -> Excludes {
    let is_at_end = |text: &str| text.find('*').is_none_or(|at| at + 1 == text.len());
    let Some(begin) = name.strip_suffix('*').filter(|_| is_at_end(name) && is_at_end(excluded)) else {
        return Excludes::Some;
    };
    match excluded.strip_suffix('*') {
        Some(excluded) if begin.starts_with(excluded) => Excludes::All,
        Some(excluded) if excluded.starts_with(begin) => Excludes::Some,
        None if excluded.starts_with(begin) => Excludes::Some,
        _ => Excludes::None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_between_commas() {
        assert_eq!(list("a:b,c:*"), ["a:b", "c:*"]);
        assert_eq!(list("a\\,b,,\\*"), ["a,b", "\\*"]);
        assert!(list("").is_empty());
    }

    #[test]
    fn a_pattern_without_a_colon_is_of_the_whole_name() {
        let check = |name: &str, wanted: &[&str]| assert_eq!(patterns(name).unwrap(), wanted, "{name}");
        check("shop:sale", &["shop:sale"]);
        check("sh*:*le", &["sh*:*le"]);
        check("*", &["*:*"]);
        check("**", &["*:*"]);
        check("sh*", &["sh*:*"]);
        check("*le", &["*:*le"]);
        check("*a*", &["*:*a*", "*a*:*"]);
        assert_eq!(attach_points("sh*").unwrap(), ["lttng:*:sh*:*"]);
    }

    #[test]
    fn what_no_event_is_called_is_refused() {
        for name in ["", ":", "a:", ":b", "a:b:c", "shop", "a:\\*", "a:b?", "a:[bc]", "a:b c", "a:{"] {
            let refused = patterns(name).unwrap_err();
            assert!(refused.contains("no event of LTTng-UST"), "{name}: {refused}");
        }
    }

    #[test]
    fn what_was_enabled_is_shown_as_lttng_has_it() {
        for name in ["shop:sale", "sh*:*", "*"] {
            assert_eq!(shown(&attach_points(name).unwrap()[0]), name);
        }
        assert_eq!(shown("usdt:./a:b:c"), "usdt:./a:b:c");
    }

    #[test]
    fn exclusions_are_looked_at_as_lttng_does() {
        let check = |excluded: &str, name: &str, wanted| {
            assert_eq!(excludes(excluded, name), wanted, "{excluded} of {name}");
        };
        check("a:x", "a:*", Excludes::Some);
        check("a:x*", "a:*", Excludes::Some);
        check("*", "a:*", Excludes::All);
        check("a:*", "a:*", Excludes::All);
        check("b:*", "a:*", Excludes::None);
        check("x", "a:*", Excludes::None);
        check("a", "*", Excludes::Some);
        check("*x", "a:*", Excludes::Some);
        check("b", "*a", Excludes::Some);
    }
}
