//! stream: a long command whose output is shown as it comes, and that is not waited for when it stands still.
//!
//! Guaranteed: when nothing is printed for [`SILENCE`], what stands still is named, with the stacks of its threads where gdb
//! is there, and ended: the command, or, where that runs one thing after the other, what it has started. A process that a test left
//! behind and that holds the output open does not keep it from ending.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, PipeReader, Write};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::process::{find_program, output_within, shown};

/// Nothing in CI is quiet for as long, not even when the machine has other work.
const SILENCE: Duration = Duration::from_secs(8 * 60);
/// How long after the command's end its output may go on.
const AFTER: Duration = Duration::from_secs(10);
const LOOK: Duration = Duration::from_millis(500);
const STACKS_LIMIT: Duration = Duration::from_secs(60);

/// What is ended when nothing is printed any more.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Ends {
    Command,
    /// The command goes on with the next.
    Started,
}

/// What came of a command.
#[derive(Debug, Default)]
pub(crate) struct Streamed {
    pub(crate) succeeded: bool,
    /// What stood still and was ended, a sentence each.
    pub(crate) stuck: Vec<String>,
}

/// Runs a command with its output shown line by line as it comes; `line` sees each one too.
pub(crate) fn stream(command: &mut Command, line: &mut dyn FnMut(&str)) -> Result<Streamed> {
    eprintln!("+ {}", shown(command));
    stream_within(command, SILENCE, Ends::Started, &mut |bytes| {
        // Nobody who reads is left to tell.
        let _ = std::io::stdout().write_all(bytes);
        line(String::from_utf8_lossy(bytes).trim_end());
    })
}

/// Runs a command and takes its output.
pub(crate) fn collect(command: &mut Command, ends: Ends, output: &mut Vec<u8>) -> Result<Streamed> {
    stream_within(command, SILENCE, ends, &mut |bytes| output.extend(bytes))
}

/// `line` sees each line with its end.
fn stream_within(
    command: &mut Command,
    silence: Duration,
    ends: Ends,
    line: &mut dyn FnMut(&[u8]),
) -> Result<Streamed> {
    let (read, write) = std::io::pipe()?;
    command.stdout(write.try_clone()?).stderr(write).stdin(Stdio::null());
    let mut child = command.spawn().with_context(|| format!("cannot start {}", shown(command)))?;
    // The command holds the pipe's writing ends; dropping them lets reading end with the child.
    *command = Command::new("true");
    let lines = lines_of(read);
    let mut streamed = Streamed::default();
    let mut last = Instant::now();
    loop {
        match lines.recv_timeout(LOOK) {
            Ok(bytes) => {
                line(&bytes);
                last = Instant::now();
            }
            Err(RecvTimeoutError::Disconnected) => break,
            Err(RecvTimeoutError::Timeout) if last.elapsed() >= AFTER && child.try_wait()?.is_some() => {
                streamed.stuck.push("a process that was left behind holds the output open".into());
                break;
            }
            Err(RecvTimeoutError::Timeout) if last.elapsed() >= silence => {
                streamed.stuck.extend(end_stuck(&child, ends, silence));
                last = Instant::now();
            }
            Err(RecvTimeoutError::Timeout) => {}
        }
    }
    streamed.succeeded = child.wait()?.success();
    Ok(streamed)
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

/// Ends a command, or what it has started; says what it was.
fn end_stuck(command: &Child, ends: Ends, silence: Duration) -> Vec<String> {
    let parents = parents();
    let command = command.id() as i32;
    let ended = match ends {
        Ends::Command => vec![command],
        Ends::Started => children_of(&parents, command),
    };
    let mut said = Vec::new();
    for pid in ended {
        let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        said.push(format!("{} printed nothing for {} s and was ended", name.trim(), silence.as_secs()));
        println!("{}:\n{}", said.last().expect("pushed"), stacks(pid));
        for pid in family(&parents, pid) {
            let _ = kill(Pid::from_raw(pid), Signal::SIGKILL);
        }
    }
    said
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

    fn shell(script: &str, ends: Ends, silence: Duration) -> (Streamed, Vec<String>) {
        let mut output = Vec::new();
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        let streamed = stream_within(&mut command, silence, ends, &mut |line| output.extend(line));
        let lines = String::from_utf8(output).expect("the scripts here print text");
        (streamed.expect("it starts"), lines.lines().map(str::to_owned).collect())
    }

    #[test]
    fn what_speaks_is_left_alone() {
        let (streamed, lines) =
            shell("echo a; sleep 0.2; echo b >&2; exit 3", Ends::Started, Duration::from_secs(60));
        assert_eq!(lines, ["a", "b"]);
        assert!(!streamed.succeeded);
        assert!(streamed.stuck.is_empty(), "{streamed:?}");
    }

    #[test]
    fn what_stands_still_is_ended_and_the_command_goes_on() {
        let (streamed, lines) = shell("echo a; sleep 600; echo b", Ends::Started, Duration::from_secs(1));
        // The shell may say in between that it was killed.
        assert_eq!(
            (lines.first().map(String::as_str), lines.last().map(String::as_str)),
            (Some("a"), Some("b"))
        );
        assert!(streamed.succeeded);
        assert_eq!(streamed.stuck, ["sleep printed nothing for 1 s and was ended"]);
    }

    #[test]
    fn a_command_that_stands_still_is_ended_with_what_it_has_started() {
        let (streamed, lines) = shell("echo a; sleep 600; echo b", Ends::Command, Duration::from_secs(1));
        assert_eq!(lines, ["a"]);
        assert!(!streamed.succeeded);
        assert_eq!(streamed.stuck, ["sh printed nothing for 1 s and was ended"]);
    }

    #[test]
    fn parents_are_read_behind_any_name() {
        assert_eq!(parent_in("12 (a) b (c)) S 7 12 12 0"), Some(7));
        assert_eq!(parent_in("12 (cut"), None);
    }
}
