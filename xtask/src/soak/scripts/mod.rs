//! scripts: random scripts of weir's language, by weir and by bpftrace 0.23; both print the same and end alike.
//!
//! A cycle: [`SCRIPTS`] scripts ([`generate`](mod@generate)), each run by both and compared ([`compare`]). Where they differ:
//!
//! - the script has one statement that the two are known to take differently ([`oddity`]), and is equal without it: counted by the
//!   statement's name;
//! - the reference could not run it, for a reason of [`LIMITS`]: counted by that reason;
//! - else the cycle fails, and its error has the script, its seed and the lines that differ.
//!
//! A script's seed is `(cycle - 1) * SCRIPTS + n`, n from 1. Not in the scripts: `len`, for which the reference wants a kernel that lists
//! the functions that can be traced; clocks, ids and names of the machine; probes of processes.

mod compare;
mod generate;
mod oddity;

use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use crate::process;
use crate::soak::record::Counts;
use crate::soak::scripts::compare::{End, Said};
use crate::soak::scripts::generate::Script;

const SCRIPTS: u64 = 50;
/// Scripts at a time: the reference mostly waits, for the kernel to free what the last one used.
const AT_ONCE: u64 = 8;
/// The kernel's verifier may take a quarter of a minute for loops in loops.
const LIMIT: Duration = Duration::from_secs(60);

/// What keeps the reference from running a script that weir runs.
struct Limit {
    name: &'static str,
    is: fn(&Said) -> bool,
}

const LIMITS: [Limit; 4] = [
    Limit {
        name: "more stack than the kernel gives a program",
        is: |said| said.err.contains("Looks like the BPF stack limit is exceeded"),
    },
    Limit {
        name: "refused by the kernel's verifier",
        is: |said| said.err.contains("ERROR: Error loading BPF program"),
    },
    Limit { name: "the reference was ended by a signal", is: |said| said.end == End::Signal },
    Limit { name: "the reference was not done within a minute", is: |said| said.end == End::Late },
];

/// The two programs.
#[derive(Debug)]
pub(super) struct Sides {
    weir: PathBuf,
    /// A command and its first arguments, such as `chroot FOLDER bpftrace`.
    reference: Vec<String>,
    /// `bpftrace v0.23.2`.
    version: String,
}

impl Sides {
    pub(super) fn of(weir: PathBuf, reference: Option<&str>) -> Result<Sides> {
        let reference: Vec<String> =
            reference.unwrap_or_default().split_whitespace().map(str::to_owned).collect();
        ensure!(!reference.is_empty(), "the soak scripts wants --reference COMMAND, a bpftrace 0.23");
        let mut command = Command::new(&reference[0]);
        let said = process::output_within(command.args(&reference[1..]).arg("--version"), LIMIT)?;
        let version = String::from_utf8_lossy(&said.stdout).trim().to_owned();
        ensure!(version.starts_with("bpftrace v0.23"), "the reference is {version:?}, not bpftrace v0.23");
        Ok(Sides { weir, reference, version })
    }
}

/// What became of one script.
#[derive(Debug, PartialEq, Eq)]
enum Verdict {
    Equal,
    /// The reason, of those that are known.
    Known(&'static str),
    Unknown(String),
}

pub(super) fn cycle(sides: &Sides, seed: u64) -> Result<Counts> {
    let first = (seed - 1) * SCRIPTS + 1;
    let next = AtomicU64::new(first);
    let work = || {
        let mut found = Vec::new();
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= first + SCRIPTS {
                return found;
            }
            found.push((seed, verdict(sides, seed)));
        }
    };
    let found: Vec<(u64, Result<Verdict>)> = thread::scope(|scope| {
        let workers: Vec<_> = (0..AT_ONCE).map(|_| scope.spawn(work)).collect();
        workers.into_iter().flat_map(|worker| worker.join().unwrap_or_default()).collect()
    });
    ensure!(found.len() as u64 == SCRIPTS, "a thread panicked");
    let mut counts = Counts::from([(format!("scripts, against {}", sides.version), SCRIPTS)]);
    let mut unknown = String::new();
    for (seed, verdict) in found {
        let name = match verdict.with_context(|| format!("script {seed}"))? {
            Verdict::Equal => "equal".to_owned(),
            Verdict::Known(reason) => format!("differs: {reason}"),
            Verdict::Unknown(difference) => {
                let script = generate::generate(seed, false);
                unknown += &format!("\nscript {seed}: {}\n{difference}", script.text);
                continue;
            }
        };
        *counts.entry(name).or_default() += 1;
    }
    ensure!(unknown.is_empty(), "differences of no known reason:{unknown}");
    Ok(counts)
}

fn verdict(sides: &Sides, seed: u64) -> Result<Verdict> {
    let [weir, reference] = both(sides, &generate::generate(seed, false))?;
    if compare::is_equal(&weir, &reference) {
        return Ok(Verdict::Equal);
    }
    let script = generate::generate(seed, true);
    let plain = match script.oddity {
        Some(_) => Some(both(sides, &script)?),
        None => None,
    };
    let oddity = script.oddity.map(|oddity| oddity.name);
    Ok(classify(&weir, &reference, oddity.zip(plain.as_ref())))
}

/// Why two outputs differ. `plain`: the name of the script's odd statement, and what both said of the script without it.
fn classify(weir: &Said, reference: &Said, plain: Option<(&'static str, &[Said; 2])>) -> Verdict {
    let limit = |weir: &Said, reference: &Said| {
        LIMITS.iter().find(|limit| weir.is_run() && (limit.is)(reference)).map(|limit| limit.name)
    };
    if let Some((name, [weir, reference])) = plain {
        if compare::is_equal(weir, reference) {
            return Verdict::Known(name);
        }
        if let Some(name) = limit(weir, reference) {
            return Verdict::Known(name);
        }
    }
    match limit(weir, reference) {
        Some(name) => Verdict::Known(name),
        None => Verdict::Unknown(compare::difference(weir, reference)),
    }
}

/// What weir and the reference say of a script.
fn both(sides: &Sides, script: &Script) -> Result<[Said; 2]> {
    let mut weir = Command::new(&sides.weir);
    weir.args(["trace", "-e", &script.text]).args(&script.parameters);
    let mut reference = Command::new(&sides.reference[0]);
    reference.args(&sides.reference[1..]).args(["-e", &script.text]).args(&script.parameters);
    Ok([run(&mut weir)?, run(&mut reference)?])
}

fn run(command: &mut Command) -> Result<Said> {
    let program = Path::new(command.get_program()).display().to_string();
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = command.spawn().with_context(|| format!("cannot start {program}"))?;
    Ok(match process::finish_within(child, LIMIT) {
        Ok(output) => Said {
            out: String::from_utf8_lossy(&output.stdout).into_owned(),
            err: String::from_utf8_lossy(&output.stderr).into_owned(),
            end: match (output.status.code(), output.status.signal()) {
                (Some(code), _) => End::Exit(code),
                _ => End::Signal,
            },
        },
        Err(_) => Said { out: String::new(), err: String::new(), end: End::Late },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(out: &str, err: &str, end: End) -> Said {
        Said { out: out.to_owned(), err: err.to_owned(), end }
    }

    #[test]
    fn a_difference_has_the_reason_without_which_there_is_none() {
        let [one, other] = ["1\n", "2\n"].map(|out| said(out, "", End::Exit(0)));
        let check = |plain: Option<&[Said; 2]>, verdict: Verdict| {
            assert_eq!(classify(&one, &other, plain.map(|plain| ("odd", plain))), verdict);
        };
        check(Some(&[one.clone(), one.clone()]), Verdict::Known("odd"));
        check(Some(&[one.clone(), other.clone()]), Verdict::Unknown("- 1\n+ 2\n".to_owned()));
        check(None, Verdict::Unknown("- 1\n+ 2\n".to_owned()));
    }

    #[test]
    fn what_the_reference_cannot_run_is_known_if_weir_runs_it() {
        let refused = said("", "ERROR: Error loading BPF program for BEGIN_1.", End::Exit(255));
        let ran = said("1\n", "", End::Exit(0));
        let known = Verdict::Known("refused by the kernel's verifier");
        assert_eq!(classify(&ran, &refused, None), known);
        let crashed = said("", "", End::Signal);
        assert!(matches!(classify(&crashed, &refused, None), Verdict::Unknown(_)));
        assert!(matches!(classify(&crashed, &ran, None), Verdict::Unknown(_)));
        assert!(matches!(classify(&said("", "error", End::Exit(1)), &ran, None), Verdict::Unknown(_)));
        let wrong = said("", "ERROR: type mismatch", End::Exit(1));
        assert!(matches!(classify(&ran, &wrong, None), Verdict::Unknown(_)));
    }
}
