//! A child process that never outlives its test.
//!
//! [`Daemon`] reads the child's standard output and error in the background, so that the child never blocks on a full
//! pipe and its lines can be waited for. When dropped, it kills the child by its process id and reaps it, with threads of
//! it that this process traces; one that another process traces is left after a while. Children of the child are not
//! killed; they lose their pipes.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};

use nix::sys::wait::{WaitPidFlag, waitpid};
use nix::unistd::Pid;

use crate::wait;

/// How long the end of a killed child is waited for.
const REAPED_MAX: Duration = Duration::from_secs(60);

/// A running child.
#[derive(Debug)]
pub struct Daemon {
    child: Child,
    stdin: Option<ChildStdin>,
    lines: Arc<Lines>,
    /// Lines that [`Daemon::line`] has given out.
    taken: usize,
    readers: Vec<JoinHandle<Vec<u8>>>,
}

/// How a child ended, and all that it wrote.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Ended {
    pub status: ExitStatus,
    pub stdout: String,
    pub stderr: String,
}

#[derive(Debug, Default)]
struct Lines {
    state: Mutex<(Vec<String>, bool)>,
    changed: Condvar,
}

impl Daemon {
    /// Starts the command with pipes for standard input, output and error.
    pub fn spawn(mut command: Command) -> Result<Daemon> {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().with_context(|| format!("start {command:?}"))?;
        let lines = Arc::new(Lines::default());
        let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
        let shared = Arc::clone(&lines);
        let out = std::thread::spawn(move || {
            let mut all = Vec::new();
            let mut stdout = stdout.map(BufReader::new);
            loop {
                let start = all.len();
                let read = stdout.as_mut().map_or(Ok(0), |s| s.read_until(b'\n', &mut all));
                let mut state = shared.state.lock().unwrap_or_else(|e| e.into_inner());
                match read {
                    Ok(n) if n > 0 => {
                        state.0.push(String::from_utf8_lossy(&all[start..]).trim_end().to_string())
                    }
                    _ => state.1 = true,
                }
                shared.changed.notify_all();
                if state.1 {
                    return all;
                }
            }
        });
        let err = std::thread::spawn(move || {
            let mut all = Vec::new();
            let _ = stderr.map(|mut s| s.read_to_end(&mut all));
            all
        });
        let stdin = child.stdin.take();
        Ok(Daemon { child, stdin, lines, taken: 0, readers: vec![out, err] })
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The next line of its standard output; an error when the output ends or the deadline passes.
    pub fn line(&mut self, deadline: Duration) -> Result<String> {
        let end = Instant::now() + deadline;
        let mut state = self.lines.state.lock().unwrap_or_else(|e| e.into_inner());
        loop {
            if let Some(line) = state.0.get(self.taken) {
                self.taken += 1;
                return Ok(line.clone());
            }
            let left = end.saturating_duration_since(Instant::now());
            if state.1 {
                bail!("process {} closed its output after {} lines", self.child.id(), self.taken);
            }
            if left.is_zero() {
                bail!("process {} wrote no line {} within {deadline:?}", self.child.id(), self.taken + 1);
            }
            state = self.lines.changed.wait_timeout(state, left).unwrap_or_else(|e| e.into_inner()).0;
        }
    }

    /// The next line that contains `text`; those before it are passed over.
    pub fn line_with(&mut self, text: &str, deadline: Duration) -> Result<String> {
        let end = Instant::now() + deadline;
        loop {
            let line = self
                .line(end.saturating_duration_since(Instant::now()))
                .with_context(|| format!("waiting for a line with {text:?}"))?;
            if line.contains(text) {
                return Ok(line);
            }
        }
    }

    /// Writes to its standard input.
    pub fn write(&mut self, text: &str) -> Result<()> {
        let stdin = self.stdin.as_mut().context("its standard input is closed")?;
        stdin.write_all(text.as_bytes()).and_then(|()| stdin.flush()).context("write to its standard input")
    }

    pub fn close_stdin(&mut self) {
        self.stdin = None;
    }

    /// Whether it has not ended yet.
    pub fn is_running(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// Sends a signal.
    pub fn signal(&self, signal: nix::sys::signal::Signal) -> Result<()> {
        let pid = nix::unistd::Pid::from_raw(self.child.id() as i32);
        nix::sys::signal::kill(pid, signal).with_context(|| format!("send {signal} to {pid}"))
    }

    /// Closes its standard input and waits for its end; an error (and a killed child) when the deadline passes.
    pub fn finish(mut self, deadline: Duration) -> Result<Ended> {
        self.close_stdin();
        let Some(status) = wait::for_exit(&mut self.child, deadline) else {
            bail!("process {} did not end within {deadline:?}", self.child.id());
        };
        // The pipes end when the last process that has them does; a grandchild may hold them longer.
        let texts = wait::until_some(deadline, || {
            self.readers.iter().all(JoinHandle::is_finished).then(|| std::mem::take(&mut self.readers))
        });
        let Some(texts) = texts else {
            bail!("process {} ended, but its output stays open", self.child.id());
        };
        let mut texts = texts.into_iter().map(|reader| {
            let bytes = reader.join().unwrap_or_default();
            String::from_utf8_lossy(&bytes).into_owned()
        });
        let (stdout, stderr) = (texts.next().unwrap_or_default(), texts.next().unwrap_or_default());
        Ok(Ended { status, stdout, stderr })
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        // Child::kill does nothing to one that was reaped already, so a reused id is never hit.
        let _ = self.child.kill();
        let pid = self.child.id();
        // A test that fails may leave threads seized: the end of a process is not reported before their tracer, which is
        // this process, has taken that of each of them.
        wait::until(REAPED_MAX, || {
            let is_over = !matches!(self.child.try_wait(), Ok(None));
            if !is_over {
                reap_threads(pid);
            }
            is_over
        });
    }
}

/// Takes the reports of all threads of process `pid` but the main one, as far as this process traces them.
fn reap_threads(pid: u32) {
    let Ok(threads) = std::fs::read_dir(format!("/proc/{pid}/task")) else { return };
    let ids = threads.flatten().filter_map(|thread| thread.file_name().to_str()?.parse::<i32>().ok());
    for thread in ids.filter(|&thread| thread != pid as i32) {
        // Fails for one that is not traced, or not by this process.
        let _ = waitpid(Pid::from_raw(thread), Some(WaitPidFlag::__WALL | WaitPidFlag::WNOHANG));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::sys::ptrace;
    use nix::sys::signal::{Signal, kill};

    use crate::target::{self, Source};

    const SOON: Duration = Duration::from_secs(60);

    fn shell(script: &str) -> Daemon {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        Daemon::spawn(command).unwrap()
    }

    #[test]
    fn lines_come_one_by_one_and_the_rest_at_the_end() {
        let mut daemon = shell("echo one; echo two; read x; echo got $x; echo fault >&2; exit 3");
        assert_eq!(daemon.line(SOON).unwrap(), "one");
        assert!(daemon.is_running());
        daemon.write("input\n").unwrap();
        assert_eq!(daemon.line_with("got", SOON).unwrap(), "got input");
        let ended = daemon.finish(SOON).unwrap();
        assert_eq!(
            (ended.status.code(), ended.stdout.as_str(), ended.stderr.as_str()),
            (Some(3), "one\ntwo\ngot input\n", "fault\n")
        );
    }

    #[test]
    fn threads_that_are_still_traced_do_not_hold_up_a_test_that_fails() {
        let program = "#include <pthread.h>\n#include <stdio.h>\n#include <unistd.h>\n\
            static void *run(void *unused) { for (;;) pause(); }\n\
            int main(void) { pthread_t thread; for (int i = 0; i < 3; i++) pthread_create(&thread, 0, run, 0);\n\
            puts(\"ready\"); fflush(stdout); run(0); }\n";
        let path = target::build("traced-threads", Source::Text(program), &["-pthread"]);
        let mut daemon = Daemon::spawn(Command::new(&path)).unwrap();
        daemon.line_with("ready", SOON).unwrap();
        let threads = std::fs::read_dir(format!("/proc/{}/task", daemon.pid())).unwrap();
        let ids: Vec<i32> =
            threads.map(|t| t.unwrap().file_name().to_str().unwrap().parse().unwrap()).collect();
        assert_eq!(ids.len(), 4);
        for &thread in &ids {
            ptrace::seize(Pid::from_raw(thread), ptrace::Options::empty()).unwrap();
            ptrace::interrupt(Pid::from_raw(thread)).unwrap();
        }
        // One that gave up waiting would leave them, as zombies.
        drop(daemon);
        assert!(ids.iter().all(|id| !std::path::Path::new(&format!("/proc/{id}")).exists()));
    }

    #[test]
    fn a_missing_line_is_an_error_at_the_deadline() {
        // It never writes a line, and never ends by itself: the verdict does not depend on when the deadlines pass.
        let mut daemon = shell("exec sleep 1000000");
        assert!(daemon.line(Duration::from_millis(20)).unwrap_err().to_string().contains("no line 1"));
        assert!(daemon.finish(Duration::from_millis(20)).unwrap_err().to_string().contains("did not end"));
    }

    #[test]
    fn the_end_of_output_is_told_from_a_missing_line() {
        assert!(shell("exit 0").line(SOON).unwrap_err().to_string().contains("closed its output"));
    }

    #[test]
    fn a_dropped_daemon_is_killed_and_reaped() {
        // It never ends by itself: the verdict does not depend on how long it is.
        let daemon = shell("exec sleep 1000000");
        let pid = Pid::from_raw(daemon.pid() as i32);
        assert!(kill(pid, None).is_ok());
        drop(daemon);
        assert!(kill(pid, None).is_err());
    }

    #[test]
    fn signals_reach_the_child() {
        // Polling: a signal is seen behind the command that runs, and the verdict does not depend on when.
        let mut daemon = shell("trap 'echo caught; exit 5' TERM; echo ready; while :; do sleep 0.01; done");
        daemon.line_with("ready", SOON).unwrap();
        daemon.signal(Signal::SIGTERM).unwrap();
        assert_eq!(daemon.finish(SOON).unwrap().status.code(), Some(5));
    }
}
