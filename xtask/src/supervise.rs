//! supervise: a bench or soak, and the end of all that it has started.
//!
//! In: the work, and the folder where it keeps files of servers. This process starts itself once more as its child, the *worker*, which does
//! the work, and waits. It is what the kernel calls a subreaper: whatever the worker leaves behind, a server, a load, a weir,
//! becomes its child. When the worker has ended, in whatever way, it asks each of those to end, by its id, kills what does not, and
//! removes the files that have the worker's id in their name. SIGINT, SIGTERM and SIGHUP first end the worker.
//!
//! Not done: nobody cleans up behind a SIGKILL of this process itself.

use std::collections::BTreeSet;
use std::env;
use std::process::{Child, Command, ExitCode};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use nix::errno::Errno;
use nix::sys::prctl::set_child_subreaper;
use nix::sys::signal::{SigSet, Signal, kill};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::{Pid, getpid, getppid};

use crate::workspace;

/// The id of the process that waits, in the worker's environment. What the worker starts inherits it, and is not its child.
const SUPERVISOR: &str = "WEIR_XTASK_SUPERVISOR";
const ENDING: [Signal; 3] = [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP];
/// How long what was left behind may take to end by itself.
const GRACE: Duration = Duration::from_secs(20);
const POLL: Duration = Duration::from_millis(10);

/// Does `work` in a worker, and removes afterwards what it has left in `target/FOLDER`.
pub(crate) fn supervised(work: impl FnOnce() -> Result<()>, folder: &str) -> Result<ExitCode> {
    // The worker gets the mask as well.
    let mut signals = SigSet::from_iter(ENDING);
    signals.add(Signal::SIGCHLD);
    if env::var(SUPERVISOR).is_ok_and(|pid| pid == getppid().to_string()) {
        signals.thread_unblock().context("unblocking signals")?;
        return work().map(|()| ExitCode::SUCCESS);
    }
    signals.thread_block().context("blocking signals")?;
    set_child_subreaper(true).context("prctl(PR_SET_CHILD_SUBREAPER)")?;
    let mut worker = Command::new(env::current_exe()?);
    worker.args(env::args_os().skip(1)).env(SUPERVISOR, getpid().to_string());
    let worker = worker.spawn().context("cannot start the worker")?;
    let pid = worker.id() as i32;
    let code = watch(&worker, &signals)?;
    end_children()?;
    workspace::remove_left(folder, pid)?;
    Ok(ExitCode::from(code))
}

/// Until the worker has ended: its exit code, or 128 and the signal that it, or this process, was ended by.
fn watch(worker: &Child, signals: &SigSet) -> Result<u8> {
    let worker = Pid::from_raw(worker.id() as i32);
    let mut asked = None;
    loop {
        let signal = signals.wait().context("sigwait")?;
        if signal != Signal::SIGCHLD && asked.is_none() {
            eprintln!("xtask: {signal}: ending what was started");
            asked = Some(signal);
            // Whoever starts it in the background may have had it ignore other signals.
            kill(worker, Signal::SIGKILL).context("ending the worker")?;
        }
        for ended in reap()? {
            match ended {
                WaitStatus::Exited(pid, code) if pid == worker => return Ok(code as u8),
                WaitStatus::Signaled(pid, signal, _) if pid == worker => {
                    return Ok(128 + asked.unwrap_or(signal) as u8);
                }
                _ => {}
            }
        }
    }
}

/// Takes the end of every child that has ended.
fn reap() -> Result<Vec<WaitStatus>> {
    let mut ended = Vec::new();
    loop {
        match waitpid(None, Some(WaitPidFlag::WNOHANG)) {
            Ok(WaitStatus::StillAlive) | Err(Errno::ECHILD) => return Ok(ended),
            Ok(status) => ended.push(status),
            Err(errno) => return Err(errno).context("waitpid"),
        }
    }
}

/// Ends every child, and those that become children thereby.
fn end_children() -> Result<()> {
    let mut asked = BTreeSet::new();
    let end = Instant::now() + GRACE;
    loop {
        reap()?;
        let children = children()?;
        if children.is_empty() {
            return Ok(());
        }
        for pid in children {
            let is_late = Instant::now() >= end;
            if is_late || asked.insert(pid) {
                let signal = if is_late { Signal::SIGKILL } else { Signal::SIGTERM };
                // It may have ended just now.
                let _ = kill(Pid::from_raw(pid), signal);
            }
        }
        sleep(POLL);
    }
}

fn children() -> Result<Vec<i32>> {
    let file = format!("/proc/self/task/{}/children", getpid());
    let text = std::fs::read_to_string(&file).with_context(|| format!("cannot read {file}"))?;
    Ok(text.split_ascii_whitespace().filter_map(|word| word.parse().ok()).collect())
}
