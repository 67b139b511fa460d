//! Skips: tests that a machine could not run, and the list of those that are expected.
//!
//! A test that cannot run prints a line `SKIP name: reason` and passes. `cargo xtask test` collects these lines;
//! one that tests/expected-skips does not list for this kind of run fails it. A line of that file is
//! `WHEN name`, WHEN being `always`, `offline` (run with --offline) or `unprivileged` (not root); `#` begins a
//! comment.

use std::fs;

use anyhow::{Context, Result, bail};

use crate::workspace;

/// A test that did not run.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Skip {
    pub(crate) name: String,
    pub(crate) reason: String,
}

/// The skip that a line of test output announces.
pub(crate) fn skip_in(line: &str) -> Option<Skip> {
    let (name, reason) = line.trim_start().strip_prefix("SKIP ")?.split_once(": ")?;
    Some(Skip { name: name.trim().to_string(), reason: reason.trim().to_string() })
}

/// What kind of run this is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Run {
    pub(crate) offline: bool,
    pub(crate) root: bool,
}

/// The names that may be skipped in this run.
pub(crate) fn expected(run: Run) -> Result<Vec<String>> {
    let path = workspace::root().join("tests/expected-skips");
    let text = fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
    parse_expected(&text, run)
}

fn parse_expected(text: &str, run: Run) -> Result<Vec<String>> {
    let mut names = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let line = line.split('#').next().unwrap_or_default().trim();
        if line.is_empty() {
            continue;
        }
        let applies = match line.split_once(' ') {
            Some(("always", _)) => true,
            Some(("offline", _)) => run.offline,
            Some(("unprivileged", _)) => !run.root,
            _ => bail!("tests/expected-skips:{}: not `always|offline|unprivileged NAME`: {line}", index + 1),
        };
        if applies {
            names.extend(line.split_once(' ').map(|(_, name)| name.trim().to_string()));
        }
    }
    Ok(names)
}

/// Skips that are not in the list.
pub(crate) fn unexpected<'s>(skips: &'s [Skip], expected: &[String]) -> Vec<&'s Skip> {
    skips.iter().filter(|skip| !expected.contains(&skip.name)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_line(line: &str, want: Option<(&str, &str)>) {
        let found = skip_in(line);
        assert_eq!(found.as_ref().map(|skip| (skip.name.as_str(), skip.reason.as_str())), want, "{line}");
    }

    #[test]
    fn skips_are_lines_of_a_fixed_shape() {
        check_line("SKIP redis_counts: no redis-server", Some(("redis_counts", "no redis-server")));
        check_line("  SKIP a::b: needs root: uid 0", Some(("a::b", "needs root: uid 0")));
        check_line("SKIP no reason", None);
        check_line("SKIPPED x: y", None);
        check_line("test a ... ok", None);
    }

    #[test]
    fn expectations_depend_on_the_run() {
        let text = "# none\nalways a # why\n\noffline b\nunprivileged c\n";
        let names = |offline, root| parse_expected(text, Run { offline, root }).unwrap();
        assert_eq!(names(false, true), ["a"]);
        assert_eq!(names(true, true), ["a", "b"]);
        assert_eq!(names(false, false), ["a", "c"]);
        assert!(parse_expected("redis", Run { offline: false, root: true }).is_err());
        assert!(parse_expected("never x", Run { offline: false, root: true }).is_err());
    }

    #[test]
    fn a_skip_outside_the_list_is_unexpected() {
        let skips = [skip_in("SKIP a: x").unwrap(), skip_in("SKIP b: y").unwrap()];
        assert_eq!(unexpected(&skips, &["a".to_string()]), [&skips[1]]);
    }

    #[test]
    fn the_list_in_the_tree_is_well_formed() {
        expected(Run { offline: true, root: false }).unwrap();
    }
}
