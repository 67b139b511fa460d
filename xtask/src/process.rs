//! Processes: starting commands and waiting for them, with a limit of time.
//!
//! Guaranteed: a command that outlives its limit is ended, by its own id, and that is an error; nothing waits for ever.

use std::io::Read;
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// How long after a child's end the end of what it wrote is waited for: a reader may get no CPU for a while.
const PIPE_WAIT: Duration = Duration::from_secs(5);
/// How often a child is looked at while it is waited for.
const POLL: Duration = Duration::from_millis(2);

/// Runs a command that speaks for itself; its failure is an error. Shows what is run.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    eprintln!("+ {}", shown(command));
    let status = command.status().with_context(|| format!("cannot start {}", shown(command)))?;
    if !status.success() {
        bail!("{} ended with {status}", shown(command));
    }
    Ok(())
}

/// Runs a command quietly; its failure is an error that has what it wrote.
pub(crate) fn output_within(command: &mut Command, limit: Duration) -> Result<Output> {
    let output = outcome_within(command, limit)?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        bail!("{} ended with {}: {}", shown(command), output.status, said.trim());
    }
    Ok(output)
}

/// Runs a command quietly, however it ends.
pub(crate) fn outcome_within(command: &mut Command, limit: Duration) -> Result<Output> {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = command.spawn().with_context(|| format!("cannot start {}", shown(command)))?;
    finish_within(child, limit).with_context(|| shown(command))
}

/// Waits for a child and takes what it wrote to its pipes.
pub(crate) fn finish_within(mut child: Child, limit: Duration) -> Result<Output> {
    let stdout = child.stdout.take().map(read_in_background);
    let stderr = child.stderr.take().map(read_in_background);
    let end = Instant::now() + limit;
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break status;
        }
        if Instant::now() >= end {
            child.kill()?;
            child.wait()?;
            bail!("not done after {} s; it was killed", limit.as_secs());
        }
        thread::sleep(POLL);
    };
    let take = |pipe: Option<mpsc::Receiver<Vec<u8>>>| pipe.map(read_before_now).unwrap_or_default();
    Ok(Output { status, stdout: take(stdout), stderr: take(stderr) })
}

/// Each read of a pipe is one message; its end is that of the channel.
fn read_in_background(mut pipe: impl Read + Send + 'static) -> mpsc::Receiver<Vec<u8>> {
    let (send, receive) = mpsc::channel();
    thread::spawn(move || {
        let mut bytes = vec![0; 64 << 10];
        while let Ok(count @ 1..) = pipe.read(&mut bytes) {
            if send.send(bytes[..count].to_vec()).is_err() {
                break;
            }
        }
    });
    receive
}

/// All that a process wrote that has ended. A grandchild that lives on may hold the pipe: what comes for a while is taken.
fn read_before_now(pipe: mpsc::Receiver<Vec<u8>>) -> Vec<u8> {
    let end = Instant::now() + PIPE_WAIT;
    let mut all = Vec::new();
    while let Ok(bytes) = pipe.recv_timeout(end.saturating_duration_since(Instant::now())) {
        all.extend(bytes);
    }
    all
}

/// A child that is ended when this is dropped.
#[derive(Debug)]
pub(crate) struct Guard(pub(crate) Child);

impl Guard {
    pub(crate) fn spawn(command: &mut Command) -> Result<Guard> {
        let name = shown(command);
        Ok(Guard(command.spawn().with_context(|| format!("cannot start {name}"))?))
    }

    pub(crate) fn pid(&self) -> i32 {
        self.0.id() as i32
    }

    pub(crate) fn signal(&self, signal: Signal) -> Result<()> {
        kill(Pid::from_raw(self.pid()), signal).with_context(|| format!("kill({}, {signal})", self.pid()))
    }

    pub(crate) fn is_running(&mut self) -> Result<bool> {
        Ok(self.0.try_wait()?.is_none())
    }

    /// Waits for its end; true if it succeeded.
    pub(crate) fn wait_within(&mut self, limit: Duration) -> Result<bool> {
        let end = Instant::now() + limit;
        loop {
            if let Some(status) = self.0.try_wait()? {
                return Ok(status.success());
            }
            if Instant::now() >= end {
                bail!("process {} is not done after {} s", self.pid(), limit.as_secs());
            }
            thread::sleep(POLL);
        }
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The path of a program in PATH.
pub(crate) fn find_program(name: &str) -> Option<std::path::PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(name)).find(|file| file.is_file())
}

pub(crate) fn shown(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(|word| word.to_string_lossy().into_owned()).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_is_taken_and_failure_is_an_error() {
        let run =
            |script: &str| output_within(Command::new("sh").args(["-c", script]), Duration::from_secs(20));
        assert_eq!(run("echo out; echo err >&2").unwrap().stdout, b"out\n");
        let error = format!("{:#}", run("echo why >&2; exit 3").unwrap_err());
        assert!(error.contains("exit status: 3") && error.contains("why"), "{error}");
    }

    #[test]
    fn what_outlives_its_limit_is_ended() {
        let start = Instant::now();
        let error = output_within(Command::new("sleep").arg("30"), Duration::from_millis(50)).unwrap_err();
        assert!(format!("{error:#}").contains("was killed"), "{error:#}");
        assert!(start.elapsed() < Duration::from_secs(10));
    }
}
