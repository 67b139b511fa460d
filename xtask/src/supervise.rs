//! supervise: a bench or soak, what it has found, and the end of all that it has started.
//!
//! In: the work, and the folder where it keeps files of servers. This process starts itself once more as its child, the *worker*, which does
//! the work, and waits. It is what the kernel calls a subreaper: whatever the worker leaves behind, a server, a load, a weir,
//! becomes its child. When the worker has ended, in whatever way, it asks each of those to end, by its id, kills what does not, and
//! removes the files that have the worker's id in their name. SIGINT, SIGTERM and SIGHUP first end the worker; a second one of them kills
//! what is still there at once.
//!
//! Out: the [`Results`] that the worker kept last, as files and as text on standard output. The worker itself neither writes nor prints
//! them, so that they are there however it ended: done, failed, interrupted or killed.
//!
//! Not done: nobody cleans up behind a SIGKILL of this process itself.

use std::collections::BTreeSet;
use std::env;
use std::fs;
use std::io::{self, Write as _};
use std::path::PathBuf;
use std::process::{Child, Command, ExitCode};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use nix::errno::Errno;
use nix::sys::prctl::set_child_subreaper;
use nix::sys::signal::{SigSet, Signal, kill};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::{Pid, getpid, getppid};
use serde_json::{Value, json};

use crate::workspace;

/// The id of the process that waits, in the worker's environment. What the worker starts inherits it, and is not its child.
const SUPERVISOR: &str = "WEIR_XTASK_SUPERVISOR";
const ENDING: [Signal; 3] = [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP];
/// How long what was left behind may take to end by itself.
const GRACE: Duration = Duration::from_secs(20);
const POLL: Duration = Duration::from_millis(10);

/// Does `work` in a worker. Afterwards writes and prints what it has kept, and removes what it has left in `target/FOLDER`.
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
    let mut asked = Asked::default();
    let code = watch(&worker, &signals, &mut asked)?;
    let results = Results::kept_by(folder, pid);
    let written = results.as_ref().map_or(Ok(()), |results| results.write(folder));
    end_children(&signals, &mut asked)?;
    workspace::remove_left(folder, pid)?;
    if let Some(results) = results {
        // All is over: if nobody reads what is printed, a signal ends this process as any other.
        signals.thread_unblock().context("unblocking signals")?;
        // The terminal may be gone, which ends nothing.
        let _ = io::stdout().write_all(results.text.as_bytes());
    }
    written?;
    Ok(ExitCode::from(code))
}

/// What a bench has found so far.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Results {
    /// To print.
    pub(crate) text: String,
    /// Names below `target/FOLDER`, and what is to be in the files.
    pub(crate) files: Vec<(String, String)>,
}

impl Results {
    /// Called by the worker: these are written and printed when it has ended, unless it keeps others before that.
    pub(crate) fn keep(&self, folder: &str) -> Result<()> {
        let path = kept(folder, getpid().as_raw())?;
        // Under its name it is always whole.
        let new = path.with_extension("new");
        let value = json!({ "text": self.text, "files": self.files });
        fs::write(&new, value.to_string()).with_context(|| format!("cannot write {}", new.display()))?;
        fs::rename(&new, &path).with_context(|| format!("cannot write {}", path.display()))
    }

    fn kept_by(folder: &str, worker: i32) -> Option<Results> {
        let text = fs::read_to_string(kept(folder, worker).ok()?).ok()?;
        let value: Value = serde_json::from_str(&text).ok()?;
        let file = |file: &Value| Some((file[0].as_str()?.to_owned(), file[1].as_str()?.to_owned()));
        let files = value["files"].as_array()?.iter().filter_map(file).collect();
        Some(Results { text: value["text"].as_str()?.to_owned(), files })
    }

    fn write(&self, folder: &str) -> Result<()> {
        for (name, text) in &self.files {
            let path = workspace::target_folder(folder)?.join(name);
            fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
        }
        Ok(())
    }
}

/// Where a worker keeps its results; removed with the rest that has its id.
fn kept(folder: &str, worker: i32) -> Result<PathBuf> {
    Ok(workspace::target_folder(folder)?.join(format!("results-{worker}.json")))
}

/// Signals that this process was asked to end by.
#[derive(Default)]
struct Asked {
    first: Option<Signal>,
    is_urgent: bool,
}

impl Asked {
    fn by(&mut self, signal: Signal) {
        match self.first {
            None => {
                eprintln!("xtask: {signal}: ending what was started");
                self.first = Some(signal);
            }
            Some(_) if !self.is_urgent => {
                eprintln!("xtask: {signal} again: killing what was started");
                self.is_urgent = true;
            }
            Some(_) => {}
        }
    }
}

/// Until the worker has ended: its exit code, or 128 and the signal that it, or this process, was ended by.
fn watch(worker: &Child, signals: &SigSet, asked: &mut Asked) -> Result<u8> {
    let worker = Pid::from_raw(worker.id() as i32);
    loop {
        let signal = signals.wait().context("sigwait")?;
        if signal != Signal::SIGCHLD {
            asked.by(signal);
            // Whoever starts it in the background may have had it ignore other signals.
            kill(worker, Signal::SIGKILL).context("ending the worker")?;
        }
        for ended in reap()? {
            match ended {
                WaitStatus::Exited(pid, code) if pid == worker => return Ok(code as u8),
                WaitStatus::Signaled(pid, signal, _) if pid == worker => {
                    return Ok(128 + asked.first.unwrap_or(signal) as u8);
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

/// Ends every child, and those that become children thereby. Waits for those that end by themselves, until the grace is over or this
/// process is asked to end a second time.
fn end_children(signals: &SigSet, asked: &mut Asked) -> Result<()> {
    let pending = SignalFd::with_flags(signals, SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC);
    let pending = pending.context("signalfd")?;
    let mut told = BTreeSet::new();
    let end = Instant::now() + GRACE;
    loop {
        while let Some(info) = pending.read_signal().context("reading a signalfd")? {
            let signal = Signal::try_from(info.ssi_signo as i32).context("signalfd")?;
            if signal != Signal::SIGCHLD {
                asked.by(signal);
            }
        }
        reap()?;
        let children = children()?;
        if children.is_empty() {
            return Ok(());
        }
        for pid in children {
            let is_late = asked.is_urgent || Instant::now() >= end;
            if is_late || told.insert(pid) {
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
