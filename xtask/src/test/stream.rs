//! stream: a command whose output is taken line by line, and that is not waited for beyond its limit.
//!
//! Out: what it printed, and the CPU time that it took with all that it has waited for.
//!
//! Guaranteed: what goes beyond its [`Limit`] is named, with the stacks of its threads where gdb is there, and ended with all that it
//! has started. A process that it left behind and that holds the output open does not keep it from ending, and is named.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead as _, BufReader, PipeReader};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid};
use nix::unistd::{Pid, SysconfVar, sysconf};

use crate::process::{find_program, output_within, shown};

/// How long after the command's end its output may go on.
const AFTER: Duration = Duration::from_secs(10);
const LOOK: Duration = Duration::from_millis(500);
/// Of how many processes stacks are shown.
const STACKS_MAX: usize = 4;
const STACKS_LIMIT: Duration = Duration::from_secs(60);

/// How long a command may go on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Limit {
    /// In all.
    Total(Duration),
    /// Without a word.
    Silence(Duration),
}

/// What came of a command.
#[derive(Debug, Default)]
pub(super) struct Streamed {
    pub(super) succeeded: bool,
    /// What stood still and was ended, a sentence each.
    pub(super) stuck: Vec<String>,
    /// The command's, with that of the processes that it and its children have waited for.
    pub(super) cpu: Duration,
}

/// Runs a command and takes its output.
pub(super) fn collect(command: &mut Command, limit: Limit, output: &mut Vec<u8>) -> Result<Streamed> {
    let (read, write) = std::io::pipe()?;
    command.stdout(write.try_clone()?).stderr(write).stdin(Stdio::null());
    let mut child = command.spawn().with_context(|| format!("cannot start {}", shown(command)))?;
    // The command holds the pipe's writing ends; dropping them lets reading end with the child.
    *command = Command::new("true");
    let lines = lines_of(read);
    let mut streamed = Streamed::default();
    let (start, mut last, mut ended) = (Instant::now(), Instant::now(), None);
    loop {
        match lines.recv_timeout(LOOK) {
            Ok(bytes) => {
                output.extend(bytes);
                last = Instant::now();
            }
            Err(RecvTimeoutError::Disconnected) => break,
            Err(RecvTimeoutError::Timeout) => {}
        }
        if ended.is_none() && has_ended(&child, WaitPidFlag::WNOHANG)? {
            ended = Some(Instant::now());
        }
        // The thread that reads its output may have had no CPU until now: the time since its end counts, and since it printed last.
        let is_left = ended.is_some_and(|ended| ended.max(last).elapsed() >= AFTER);
        if is_left {
            streamed.stuck.push("a process that was left behind holds the output open".into());
            break;
        }
        if let Some(said) = limit.passed(start, last).filter(|_| ended.is_none() && streamed.stuck.is_empty())
        {
            end(&child, said, &mut streamed, output);
        }
    }
    has_ended(&child, WaitPidFlag::empty())?;
    streamed.cpu = cpu_of(child.id());
    streamed.succeeded = child.wait()?.success();
    Ok(streamed)
}

/// Whether it has ended; it can still be waited for, and read of in `/proc`.
fn has_ended(child: &Child, more: WaitPidFlag) -> Result<bool> {
    let id = Id::Pid(Pid::from_raw(child.id() as i32));
    let status = waitid(id, WaitPidFlag::WEXITED | WaitPidFlag::WNOWAIT | more)?;
    Ok(status != WaitStatus::StillAlive)
}

/// The CPU time of a process, and of the children that it has waited for, and theirs.
fn cpu_of(pid: u32) -> Duration {
    let ticks = fs::read_to_string(format!("/proc/{pid}/stat")).ok().and_then(|stat| cpu_ticks_in(&stat));
    let per_second = sysconf(SysconfVar::CLK_TCK).ok().flatten().unwrap_or(100);
    Duration::from_secs_f64(ticks.unwrap_or(0) as f64 / per_second as f64)
}

/// `utime`, `stime`, `cutime` and `cstime` of proc_pid_stat(5).
fn cpu_ticks_in(stat: &str) -> Option<u64> {
    let (_, rest) = stat.rsplit_once(')')?;
    let times: Vec<u64> = rest.split_ascii_whitespace().skip(11).take(4).flat_map(str::parse).collect();
    (times.len() == 4).then(|| times.iter().sum())
}

impl Limit {
    /// What is said of a command that is beyond it.
    fn passed(self, start: Instant, last: Instant) -> Option<String> {
        match self {
            Limit::Total(limit) => {
                (start.elapsed() >= limit).then(|| format!("was not done after {} s", limit.as_secs()))
            }
            Limit::Silence(limit) => {
                (last.elapsed() >= limit).then(|| format!("printed nothing for {} s", limit.as_secs()))
            }
        }
    }
}

fn lines_of(pipe: PipeReader) -> Receiver<Vec<u8>> {
    let (send, receive) = mpsc::channel();
    thread::spawn(move || {
        let mut reader = BufReader::new(pipe);
        let mut bytes = Vec::new();
        while reader.read_until(b'\n', &mut bytes).is_ok_and(|read| read > 0) {
            if send.send(std::mem::take(&mut bytes)).is_err() {
                break;
            }
        }
    });
    receive
}

/// Ends a command with all that it has started.
fn end(command: &Child, said: String, streamed: &mut Streamed, output: &mut Vec<u8>) {
    let pid = command.id() as i32;
    let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    let family = family(&parents(), pid);
    for pid in family.iter().take(STACKS_MAX) {
        output.extend(format!("stacks of process {pid}:\n{}\n", stacks(*pid)).into_bytes());
    }
    for pid in family {
        // It may have ended just now.
        let _ = kill(Pid::from_raw(pid), Signal::SIGKILL);
    }
    streamed.stuck.push(format!("{} {said} and was ended", name.trim()));
}

fn stacks(pid: i32) -> String {
    if find_program("gdb").is_none() {
        return "no stacks: gdb is not installed".into();
    }
    let mut gdb = Command::new("gdb");
    gdb.args(["-batch", "-ex", "thread apply all backtrace 20", "-p", &pid.to_string()]);
    match output_within(&mut gdb, STACKS_LIMIT) {
        Ok(output) => String::from_utf8_lossy(&output.stdout).into_owned(),
        Err(error) => format!("no stacks: {error:#}"),
    }
}

/// The parent of each process.
fn parents() -> BTreeMap<i32, i32> {
    let pids = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = pids.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    pids.filter_map(|pid| Some((pid, parent_in(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)?)))
        .collect()
}

/// The name in parentheses may hold anything.
fn parent_in(stat: &str) -> Option<i32> {
    let (_, rest) = stat.rsplit_once(')')?;
    rest.split_ascii_whitespace().nth(1)?.parse().ok()
}

fn children_of(parents: &BTreeMap<i32, i32>, pid: i32) -> Vec<i32> {
    parents.iter().filter(|(_, parent)| **parent == pid).map(|(child, _)| *child).collect()
}

/// A process, and all that it has started.
fn family(parents: &BTreeMap<i32, i32>, pid: i32) -> Vec<i32> {
    let mut found = vec![pid];
    let mut at = 0;
    while at < found.len() {
        found.extend(children_of(parents, found[at]));
        at += 1;
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str, limit: Limit) -> (Streamed, String) {
        let mut output = Vec::new();
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        let streamed = collect(&mut command, limit, &mut output).expect("it starts");
        (streamed, String::from_utf8(output).expect("the scripts here print text"))
    }

    #[test]
    fn what_speaks_is_left_alone() {
        let (streamed, output) = shell("echo a; echo b >&2; exit 3", Limit::Silence(Duration::from_secs(60)));
        assert_eq!(output, "a\nb\n");
        assert!(!streamed.succeeded);
        assert!(streamed.stuck.is_empty(), "{streamed:?}");
    }

    fn is_ended(limit: Limit, said: &str) {
        let (streamed, output) = shell("echo a; sleep 600; echo b", limit);
        assert!(output.starts_with("a\n") && !output.ends_with("b\n"), "{output}");
        assert!(!streamed.succeeded);
        assert_eq!(streamed.stuck, [said]);
    }

    #[test]
    fn what_is_beyond_its_limit_is_ended_with_what_it_has_started() {
        is_ended(Limit::Silence(Duration::from_secs(1)), "sh printed nothing for 1 s and was ended");
        is_ended(Limit::Total(Duration::from_secs(1)), "sh was not done after 1 s and was ended");
    }

    /// A tick is 10 ms: the bound is far above what starting a shell takes.
    #[test]
    fn cpu_time_is_that_of_the_command_and_of_what_it_has_waited_for() {
        let stat = "12 (a) b (c)) S 7 12 12 0 -1 4194304 120 0 0 0 3 4 50 600 20 0 1 0 31";
        assert_eq!(cpu_ticks_in(stat), Some(657));
        assert_eq!(cpu_ticks_in("12 (cut) S 7"), None);
        let cpu = |script: &str| shell(script, Limit::Total(Duration::from_secs(60))).0.cpu;
        let busy = "i=0; while [ $i -lt 1000000 ]; do i=$((i + 1)); done";
        let of_child = format!("sh -c '{busy}'; exit 3");
        let (own, of_child) = (cpu(busy), cpu(&of_child));
        assert!(own >= Duration::from_millis(100), "{own:?}");
        assert!(of_child >= own / 4, "{of_child:?} beside {own:?}");
        assert!(cpu("exit 0") < own, "{own:?}");
    }

    #[test]
    fn parents_are_read_behind_any_name() {
        assert_eq!(parent_in("12 (a) b (c)) S 7 12 12 0"), Some(7));
        assert_eq!(parent_in("12 (cut"), None);
    }
}
