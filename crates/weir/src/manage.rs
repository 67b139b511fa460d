//! `weir ps` and `weir detach`: what is traced now, and undoing it.
//!
//! In: what weir-probe finds in `/proc`. Out: a table, or restored processes. Prints; decides nothing else.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::anyhow;
use nix::time::{ClockId, clock_gettime};
use weir_probe::Report;
use weir_probe::scan::{self, Probed};

use crate::args;
use crate::failure::Failure;
use crate::print::{print, printable};

/// The table of `weir ps`, one line a traced process.
pub(crate) fn ps() -> Result<ExitCode, Failure> {
    let found = scan::all().map_err(|error| Failure::Machine(anyhow!(error).context("reading /proc")))?;
    let mut table = format!(
        "{:>7} {:<15} {:>7} {:<10} {:>8} {:>6}  PROBES\n",
        "PID", "COMMAND", "WEIR", "USER", "AGE", "SITES"
    );
    for probed in &found {
        table += &line(probed);
        table += "\n";
    }
    print(&table)
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
    let found = scan::all().map_err(|error| Failure::Machine(anyhow!(error).context("reading /proc")))?;
    let is_running = |probed: &&Probed| probed.controller_alive && !probed.is_inherited();
    let mut failed = None;
    let pids = match args.all {
        // Those whose weir runs are left to it.
        true => found.iter().filter(|probed| !probed.controller_alive).map(|probed| probed.pid).collect(),
        false => args.pids.clone(),
    };
    let mut out = String::new();
    if pids.is_empty() {
        out += "no process has probes of a weir that is gone\n";
    }
    for pid in pids {
        let done = match found.iter().filter(is_running).find(|probed| probed.pid == pid) {
            Some(probed) => Err(Failure::Refused(anyhow!(
                "process {pid} is traced by weir (process {}), which still runs: end that one, with Ctrl-C or SIGINT",
                probed.identity.controller_pid
            ))),
            None => {
                weir_probe::restore::detach(pid).map(|report| describe(pid, &report)).map_err(Failure::from)
            }
        };
        match done {
            Ok(text) => out += &text,
            Err(failure) => {
                failure.report(None);
                failed = Some(failure);
            }
        }
    }
    let printed = print(&out)?;
    Ok(failed.map_or(printed, |failure| failure.code()))
}

fn describe(pid: i32, report: &Report) -> String {
    let mut text = match report.replaced {
        true => format!("process {pid}: nothing to restore, it has executed another program\n"),
        false => format!("process {pid}: {} functions restored\n", report.restored),
    };
    for address in &report.foreign {
        text +=
            &format!("process {pid}: text at {address:#x} was changed by somebody else; it was left alone\n");
    }
    if report.left_mapped {
        text += &format!(
            "process {pid}: a thread may still return into weir's code, which stays mapped; `weir detach -p {pid}` \
             later takes it out\n"
        );
    }
    text
}
