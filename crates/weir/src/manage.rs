//! `weir ps` and `weir detach`: what is traced now ([`ps`], by what is [`told`] in the processes), and undoing it.
//!
//! In: what weir-probe finds in `/proc`. Out: restored processes. Prints; decides nothing else.

pub(crate) mod told;

pub(crate) mod ps;

use std::process::ExitCode;

use anyhow::anyhow;
use weir_policy::rules::Rules;
use weir_probe::scan::{self, Look, Probed};
use weir_probe::{Forbidden, Report};

use crate::args;
use crate::failure::{Failure, Report as _};
use crate::print::{print, tell};

/// Those whose weir runs are left to it.
fn left(look: &Look) -> Vec<i32> {
    let mut found: Vec<i32> =
        look.found.iter().filter(|probed| !probed.controller_alive).map(|probed| probed.pid).collect();
    found.dedup();
    let spoiled = look.spoiled.iter().filter(|spoiled| spoiled.controller.is_none());
    found.into_iter().chain(spoiled.map(|spoiled| spoiled.pid)).collect()
}

fn look() -> Result<Look, Failure> {
    scan::look().map_err(|error| Failure::Machine(anyhow!(error).context("reading /proc")))
}

/// The same of what the rules in force let this user see.
fn look_by_rules() -> Result<Look, Failure> {
    let (mut look, rules) = (look()?, Rules::in_force(None)?);
    let mut is_denied = |pid: i32| {
        let is_denied = rules.may_see(pid).is_err();
        look.unseen.extend(is_denied.then_some(pid));
        is_denied
    };
    look.found.retain(|probed| !is_denied(probed.pid));
    look.spoiled.retain(|spoiled| !is_denied(spoiled.pid));
    Ok(look)
}

/// Processes that a weir traces that runs: that one, the process, its name.
pub(crate) fn traced_by() -> Result<Vec<(i32, i32, String)>, Failure> {
    let found = look()?.found.into_iter().filter(|probed| probed.controller_alive && !probed.is_inherited());
    Ok(found.map(|probed| (probed.identity.controller_pid as i32, probed.pid, probed.comm)).collect())
}

/// What is not told of need not be nothing.
fn tell_unseen(look: &Look) {
    let Some(&first) = look.unseen.first() else { return };
    let why = Forbidden::of(first);
    // In a container, each time; and nobody there traces it. `weir doctor` reports why.
    if look.unseen == [1] && matches!(why, Forbidden::InSpiteOfPrivilege) {
        return;
    }
    let text = match (&why, look.unseen.len()) {
        (Forbidden::InSpiteOfPrivilege, 1) => format!("process {first} was not looked at: {why}"),
        (Forbidden::InSpiteOfPrivilege, many) => {
            format!("{many} processes were not looked at, {first} among them: {why}")
        }
        (_, 1) => format!("1 process of another user was not looked at: {SEE_ALL}"),
        (_, many) => format!("{many} processes of other users were not looked at: {SEE_ALL}"),
    };
    tell!("weir: {text}");
}

const SEE_ALL: &str = "run weir as root, or with CAP_SYS_PTRACE, to see what is traced there";

/// Restores processes whose weir is gone.
pub(crate) fn detach(args: &args::Detach) -> Result<ExitCode, Failure> {
    let look = look()?;
    let found = &look.found;
    let is_running = |probed: &&Probed| probed.controller_alive && !probed.is_inherited();
    let mut failed = None;
    let pids = match args.all {
        true => left(&look),
        false => args.pids.clone(),
    };
    let mut out = String::new();
    if pids.is_empty() {
        out += "no process has probes of a weir that is gone\n";
    }
    let rules = Rules::in_force(None)?;
    let is_allowed = |pid: &i32| !args.all || rules.may_undo(*pid).is_ok();
    for pid in pids.into_iter().filter(is_allowed) {
        let allowed = rules.may_undo(pid).map_err(|denial| Failure::Refused(anyhow!(denial)));
        let is_left = || weir_probe::restore::is_left(pid).unwrap_or(false);
        let done = match found.iter().filter(is_running).find(|probed| probed.pid == pid) {
            Some(probed) if !is_left() => Err(Failure::Refused(anyhow!(
                "process {pid} is traced by weir (process {}), which still runs: end that one, with Ctrl-C or SIGINT",
                probed.identity.controller_pid
            ))),
            _ => allowed.and_then(|()| {
                weir_probe::restore::detach(pid).map(|report| describe(pid, &report)).map_err(Failure::from)
            }),
        };
        match done {
            Ok(text) => out += &text,
            Err(failure) => {
                failure.report(None);
                failed = Some(failure);
            }
        }
    }
    if args.all {
        tell_unseen(&look);
    }
    let printed = print(&out)?;
    Ok(failed.map_or(printed, |failure| failure.code()))
}

fn describe(pid: i32, report: &Report) -> String {
    let mut text = match report.replaced {
        true => format!("process {pid}: nothing to restore, it has executed another program\n"),
        false => format!("process {pid}: {} functions restored\n", report.restored),
    };
    if let Some(version) = report.other_version {
        text += &format!(
            "process {pid}: it was traced by a weir of ABI version {version}; counters of static probes that this has raised \
             stay raised\n"
        );
    }
    if report.kept > 0 {
        text += &format!(
            "process {pid}: {} under the probes of a weir that runs: what it has put there stays until that one ends\n",
            if report.kept == 1 {
                "a weir that is gone lies".into()
            } else {
                format!("{} weirs that are gone lie", report.kept)
            }
        );
    }
    for address in &report.foreign {
        text +=
            &format!("process {pid}: text at {address:#x} was changed by somebody else; it was left alone\n");
    }
    if report.is_filtered {
        text += &format!(
            "process {pid}: it is under seccomp, which weir may not suspend to unmap its code; that stays mapped, and \
             nothing leads there: `weir detach -p {pid}` with CAP_SYS_ADMIN (sudo) takes it out\n"
        );
    } else if report.left_mapped {
        text += &format!(
            "process {pid}: a thread may still return into weir's code, which stays mapped; `weir detach -p {pid}` \
             later takes it out\n"
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use weir_probe::scan::Spoiled;

    use super::*;

    #[test]
    fn all_are_those_without_a_weir_that_runs_corrupt_ones_too() {
        let spoiled = |pid: i32, controller: Option<i32>| Spoiled {
            pid,
            comm: "a".into(),
            detail: "not a weir segment".into(),
            controller,
        };
        let mut gone = told::tests::probed();
        (gone.pid, gone.controller_alive) = (7, false);
        let found = vec![told::tests::probed(), gone];
        let look = Look { found, spoiled: vec![spoiled(8, None), spoiled(9, Some(90))], unseen: vec![2, 3] };
        assert_eq!(left(&look), [7, 8]);
    }
}
