//! `weir ps` and `weir detach`: what is traced now, and undoing it.
//!
//! In: what weir-probe finds in `/proc`. Out: a table, or restored processes. Prints; decides nothing else.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::anyhow;
use nix::time::{ClockId, clock_gettime};
use weir_probe::Error;
use weir_probe::scan::{self, Probed};

use crate::args;
use crate::failure::Failure;

/// The table of `weir ps`, one line a traced process.
pub(crate) fn ps() -> Result<ExitCode, Failure> {
    let found = scan::all().map_err(|error| Failure::Machine(anyhow!(error).context("reading /proc")))?;
    println!(
        "{:>7} {:<15} {:>7} {:<10} {:>8} {:>6}  PROBES",
        "PID", "COMMAND", "WEIR", "USER", "AGE", "SITES"
    );
    for probed in &found {
        println!("{}", line(probed));
    }
    Ok(ExitCode::SUCCESS)
}

fn line(probed: &Probed) -> String {
    let identity = &probed.identity;
    let controller = match probed.controller_alive {
        true => identity.controller_pid.to_string(),
        false => "gone".into(),
    };
    let uid = nix::unistd::Uid::from_raw(identity.uid);
    let user =
        nix::unistd::User::from_uid(uid).ok().flatten().map_or_else(|| uid.to_string(), |user| user.name);
    let label = match probed.is_inherited() {
        true => format!("(none: forked from {})", identity.target_pid),
        false => printable(&identity.label),
    };
    let comm = printable(&probed.comm);
    let age = age(identity.started_ns);
    format!("{:>7} {comm:<15} {controller:>7} {user:<10} {age:>8} {:>6}  {label}", probed.pid, probed.probes)
}

/// Names come from processes that may have put anything there: no control characters reach the terminal.
fn printable(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '?' } else { c }).collect()
}

fn age(started_ns: u64) -> String {
    let now = clock_gettime(ClockId::CLOCK_MONOTONIC).map_or(Duration::ZERO, Duration::from);
    let seconds = now.saturating_sub(Duration::from_nanos(started_ns)).as_secs();
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3600 => format!("{}m{:02}s", seconds / 60, seconds % 60),
        _ => format!("{}h{:02}m", seconds / 3600, seconds / 60 % 60),
    }
}

/// Restores processes whose weir is gone.
pub(crate) fn detach(args: &args::Detach) -> Result<ExitCode, Failure> {
    let pids = match args.all {
        true => {
            let found =
                scan::all().map_err(|error| Failure::Machine(anyhow!(error).context("reading /proc")))?;
            found.iter().map(|probed| probed.pid).collect()
        }
        false => args.pids.clone(),
    };
    if pids.is_empty() {
        println!("no process is traced");
    }
    let mut failed = None;
    for pid in pids {
        match detach_one(pid) {
            Ok(()) => {}
            Err(error) => {
                eprintln!("weir: {error}");
                failed = Some(Failure::from(error));
            }
        }
    }
    Ok(match failed {
        None => ExitCode::SUCCESS,
        Some(failure) => failure.code(),
    })
}

fn detach_one(pid: i32) -> Result<(), Error> {
    let report = weir_probe::restore::detach(pid)?;
    match report.replaced {
        true => println!("process {pid}: nothing to restore, it has executed another program"),
        false => println!("process {pid}: {} functions restored", report.restored),
    }
    for address in &report.foreign {
        println!("process {pid}: text at {address:#x} was changed by somebody else; it was left alone");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_reach_the_terminal_without_control_characters() {
        assert_eq!(printable("a\x1b[31mb\n"), "a?[31mb?");
    }
}
