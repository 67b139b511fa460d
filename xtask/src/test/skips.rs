//! Skips: tests that a machine could not run, and what of the machine excuses them.
//!
//! A test that cannot run prints a line `SKIP name: reason` and passes. One that tests/expected-skips does not excuse on this machine,
//! in this kind of run, fails `cargo xtask test`. A line of that file is `CONDITION name`; `#` begins a comment. A condition says
//! what is missing (the rows of [`CONDITIONS`], and the forms of [`holds`]), so that a test cannot vanish on a machine that could
//! run it.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::process::{find_program, output_within};
use crate::workspace;

const COMMAND_LIMIT: Duration = Duration::from_secs(120);

/// What `much-memory` tests need to have to spare.
const MUCH_MEMORY_KB: u64 = 125 << 20;

/// A test that did not run.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Skip {
    pub(super) name: String,
    pub(super) reason: String,
}

/// The skip that a line of test output announces.
pub(super) fn skip_in(line: &str) -> Option<Skip> {
    let (name, reason) = line.trim_start().strip_prefix("SKIP ")?.split_once(": ")?;
    Some(Skip { name: name.trim().to_string(), reason: reason.trim().to_string() })
}

/// What kind of run this is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Run {
    offline: bool,
    root: bool,
}

impl Run {
    pub(super) fn this(offline: bool) -> Run {
        Run { offline, root: nix::unistd::geteuid().is_root() }
    }
}

type Condition = fn(Run) -> bool;

/// A word of tests/expected-skips, and whether it is so. Each asks the machine for what is missing, not the test.
const CONDITIONS: [(&str, Condition); 11] = [
    ("offline", |run| run.offline),
    ("unprivileged", |run| !run.root),
    // A C library that comes without an archive.
    ("no-static-libc", |_| {
        said_by("cc", &["-print-file-name=libc.a"]).is_none_or(|path| !path.starts_with('/'))
    }),
    // A C library without its debug file.
    ("no-libc-debug-file", |_| !Path::new("/usr/lib/debug/.build-id").exists()),
    // None, or one that no longer lets processes of one user be traced.
    ("no-yama", |_| {
        let scope = fs::read_to_string("/proc/sys/kernel/yama/ptrace_scope").ok();
        scope.and_then(|scope| scope.trim().parse::<u32>().ok()).is_none_or(|scope| scope > 1)
    }),
    // Containers that may not mount.
    ("no-mounts", |_| said_by("unshare", &["--mount", "mount", "-t", "tmpfs", "none", "/mnt"]).is_none()),
    ("no-much-memory", |_| available_kb() < MUCH_MEMORY_KB),
    ("no-python-probes", |_| {
        let script = "import sysconfig; print(sysconfig.get_config_var('WITH_DTRACE'))";
        said_by("python3", &["-c", script]).is_none_or(|with| with != "1")
    }),
    // What `cargo audit` has fetched.
    ("no-advisory-db", |_| testkit::paths::advisories().is_none()),
    ("no-cgroup2", |_| !fs::read_to_string("/proc/mounts").unwrap_or_default().contains(" cgroup2 ")),
    ("clock-not-tsc", |_| {
        let source = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
        fs::read_to_string(source).is_ok_and(|source| source.trim() != "tsc")
    }),
];

/// Whether a condition holds: a word of [`CONDITIONS`], or one of
///
/// - `no-cpu:FLAG`: a flag that /proc/cpuinfo does not list;
/// - `no-file:PATH`, `no-program:NAME`; `no-rust-target:NAME`: the compiler has no standard library for it;
/// - `linux<6.6`, `glibc<2.35`, `babeltrace2<2.1`: an older one, or none.
fn holds(condition: &str, run: Run) -> Option<bool> {
    if let Some((_, holds)) = CONDITIONS.iter().find(|(name, _)| *name == condition) {
        return Some(holds(run));
    }
    if let Some((what, name)) = condition.split_once(':') {
        return match what {
            "no-cpu" => Some(!cpu_flags().split_ascii_whitespace().any(|flag| flag == name)),
            "no-file" => Some(!Path::new(name).exists()),
            "no-program" => Some(find_program(name).is_none()),
            "no-rust-target" => {
                let folder = said_by("rustc", &["--print", "target-libdir", "--target", name]);
                Some(folder.is_none_or(|folder| !Path::new(&folder).is_dir()))
            }
            _ => None,
        };
    }
    let (what, least) = condition.split_once('<')?;
    let installed = match what {
        "linux" => fs::read_to_string("/proc/sys/kernel/osrelease").ok(),
        "glibc" => said_by("getconf", &["GNU_LIBC_VERSION"]),
        "babeltrace2" => said_by("babeltrace2", &["--version"]),
        _ => return None,
    };
    let least = version_in(least)?;
    Some(installed.and_then(|text| version_in(&text)).is_none_or(|version| version < least))
}

/// The flags of the first CPU.
fn cpu_flags() -> String {
    let text = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    text.lines().find(|line| line.starts_with("flags")).unwrap_or_default().to_owned()
}

fn available_kb() -> u64 {
    let text = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"));
    line.and_then(|line| line.trim().strip_suffix(" kB")?.parse().ok()).unwrap_or(0)
}

/// What a command that succeeds prints.
fn said_by(program: &str, arguments: &[&str]) -> Option<String> {
    let output = output_within(Command::new(program).args(arguments), COMMAND_LIMIT).ok()?;
    Some(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// The first two numbers with a dot between: of `glibc 2.36`, `6.18.44-x`, `Babeltrace 2.0.4 "Amqui"`.
fn version_in(text: &str) -> Option<(u32, u32)> {
    text.split(|c: char| !c.is_ascii_digit() && c != '.').find_map(|word| {
        let mut numbers = word.split('.');
        Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
    })
}

/// The names that may be skipped in this run, on this machine.
pub(super) fn expected(run: Run) -> Result<Vec<String>> {
    let path = workspace::root().join("tests/expected-skips");
    let text = fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
    let mut asked = BTreeMap::new();
    parse_expected(&text, &mut |condition| {
        *asked.entry(condition.to_owned()).or_insert_with(|| holds(condition, run))
    })
}

fn parse_expected(text: &str, holds: &mut dyn FnMut(&str) -> Option<bool>) -> Result<Vec<String>> {
    let mut names = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let line = line.split('#').next().unwrap_or_default().trim();
        if line.is_empty() {
            continue;
        }
        let Some((condition, name)) = line.split_once(' ') else {
            bail!("tests/expected-skips:{}: not `CONDITION NAME`: {line}", index + 1);
        };
        match holds(condition) {
            Some(true) => names.push(name.trim().to_owned()),
            Some(false) => {}
            None => {
                bail!(
                    "tests/expected-skips:{}: no such condition: {condition} (xtask/src/test/skips.rs lists them)",
                    index + 1
                )
            }
        }
    }
    Ok(names)
}

/// A fault for each skip that nothing excuses.
pub(super) fn unexpected(skips: &[Skip], expected: &[String]) -> Vec<String> {
    let unexpected = skips.iter().filter(|skip| !expected.contains(&skip.name));
    let fault = |skip: &Skip| {
        format!(
            "{} was skipped ({}), and tests/expected-skips does not excuse it here",
            skip.name, skip.reason
        )
    };
    unexpected.map(fault).collect()
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

    const ROOT: Run = Run { offline: false, root: true };

    #[test]
    fn conditions_are_of_the_run_or_of_the_machine() {
        let user = Run { offline: true, root: false };
        for (condition, run, want) in [
            ("offline", ROOT, Some(false)),
            ("offline", user, Some(true)),
            ("unprivileged", ROOT, Some(false)),
            ("unprivileged", user, Some(true)),
            ("no-file:/proc/self/maps", ROOT, Some(false)),
            ("no-file:/no such file", ROOT, Some(true)),
            ("no-program:sh", ROOT, Some(false)),
            ("no-program:no such program", ROOT, Some(true)),
            ("no-rust-target:no-such-target", ROOT, Some(true)),
            ("no-cpu:sse2", ROOT, Some(false)),
            ("no-cpu:sse", ROOT, Some(false)),
            ("no-cpu:no-such-flag", ROOT, Some(true)),
            ("linux<3.0", ROOT, Some(false)),
            ("linux<1000.0", ROOT, Some(true)),
            ("always", ROOT, None),
            ("perl<5.0", ROOT, None),
            ("glibc<x", ROOT, None),
        ] {
            assert_eq!(holds(condition, run), want, "{condition}");
        }
    }

    #[test]
    fn versions_are_two_numbers() {
        assert_eq!(version_in("glibc 2.36"), Some((2, 36)));
        assert_eq!(version_in("Babeltrace 2.0.4 \"Amqui\"\nAmqui (/ɒmkwiː/)"), Some((2, 0)));
        assert_eq!(version_in("6.18.44-cloud-amd64"), Some((6, 18)));
        assert_eq!(version_in("none"), None);
    }

    #[test]
    fn a_name_is_excused_where_its_condition_holds() {
        let text = "# none\nyes a # why\n\nno b\nyes c d\n";
        let mut is_yes = |condition: &str| match condition {
            "yes" => Some(true),
            "no" => Some(false),
            _ => None,
        };
        assert_eq!(parse_expected(text, &mut is_yes).unwrap(), ["a", "c d"]);
        let error = parse_expected("\nnever x", &mut is_yes).unwrap_err().to_string();
        assert!(error.starts_with("tests/expected-skips:2: no such condition: never"), "{error}");
        assert!(parse_expected("redis", &mut is_yes).is_err());
    }

    #[test]
    fn a_skip_outside_the_list_is_unexpected() {
        let skips = [skip_in("SKIP a: x").unwrap(), skip_in("SKIP b: y").unwrap()];
        let faults = unexpected(&skips, &["a".to_string()]);
        assert_eq!(faults, ["b was skipped (y), and tests/expected-skips does not excuse it here"]);
    }

    #[test]
    fn the_list_in_the_tree_is_well_formed() {
        expected(ROOT).unwrap();
    }
}
