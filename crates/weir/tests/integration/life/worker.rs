//! A process that does what it is told (tests/programs/worker.c) and a weir that traces it. The oracle is the process: it
//! says how often it called `work`, and its exit code.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use nix::sys::signal::Signal;
use testkit::Daemon;
use testkit::daemon::Ended;
use testkit::paths::quoted;
use testkit::target::{self, Source};

pub(crate) const DEADLINE: Duration = Duration::from_secs(120);

pub(crate) const SOURCE: Source<'static> = Source::Program("worker.c");

/// Says when probes are in place, as BEGIN does not: intervals begin then.
pub(crate) const BEGUN: &str = "interval:ms:5 { @looks += 1; if (@looks == 1) { printf(\"begun\\n\"); } }";

/// How it ends.
const EXIT_CODE: i32 = 7;

pub(crate) fn weir() -> Command {
    Command::new(env!("CARGO_BIN_EXE_weir"))
}

/// The program, linked as most are.
pub(crate) fn program() -> PathBuf {
    target::program("worker")
}

/// A running one.
pub(crate) struct Worker {
    daemon: Daemon,
    /// In this process's namespace.
    pub(crate) pid: u32,
}

impl Worker {
    /// Started by `command`, which becomes the worker or starts it as its only child.
    pub(crate) fn start(command: Command) -> Worker {
        let mut daemon = Daemon::spawn(command).unwrap();
        daemon.line_with("ready", DEADLINE).unwrap();
        let own = daemon.pid();
        let children =
            std::fs::read_to_string(format!("/proc/{own}/task/{own}/children")).unwrap_or_default();
        let pid = children.split_whitespace().next().map_or(own, |child| child.parse().unwrap());
        Worker { daemon, pid }
    }

    /// Has it call `work` so often.
    pub(crate) fn work(&mut self, count: u64, total: u64) {
        self.daemon.write(&format!("{count}\n")).unwrap();
        assert_eq!(self.daemon.line(DEADLINE).unwrap(), format!("calls={total}"));
    }

    /// Its end, by itself.
    pub(crate) fn end(self) {
        let ended = self.daemon.finish(DEADLINE).unwrap();
        assert_eq!(ended.status.code(), Some(EXIT_CODE), "{ended:?}");
    }
}

/// A script that counts the calls of `function` (`PATH:NAME`), and their returns too if `returns`.
pub(crate) fn counting(function: &str, returns: bool) -> String {
    let entry = format!("{BEGUN} uprobe:{function} {{ @calls = count(); @sum = sum(arg0); }}");
    match returns {
        true => format!("{entry} uretprobe:{function} {{ @returns = count(); @answers = sum(retval); }}"),
        false => entry,
    }
}

/// Checks what such a script printed after `count` calls.
pub(crate) fn check_counts(text: &str, count: u64, returns: bool) {
    let sum = count * (count + 1) / 2;
    assert_eq!((number(text, "@calls"), number(text, "@sum")), (Some(count), Some(sum)), "{text}");
    if returns {
        let answers = 3 * sum + count;
        assert_eq!(
            (number(text, "@returns"), number(text, "@answers")),
            (Some(count), Some(answers)),
            "{text}"
        );
    }
}

/// The value of a map that has one.
pub(crate) fn number(text: &str, map: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix(map)?.strip_prefix(": ")?.parse().ok())
}

/// A weir that traces process `pid`, and has begun.
pub(crate) fn traced(script: &str, pid: u32) -> Daemon {
    begin(script, pid).unwrap_or_else(|ended| panic!("weir did not begin: {ended:?}"))
}

/// The same, or how it ended.
pub(crate) fn begin(script: &str, pid: u32) -> Result<Daemon, Ended> {
    let mut command = weir();
    command.args(["trace", "-e", script, "-p", &pid.to_string()]);
    let mut weir = Daemon::spawn(command).unwrap();
    match weir.line_with("begun", DEADLINE) {
        Ok(_) => Ok(weir),
        Err(_) => Err(weir.finish(DEADLINE).unwrap()),
    }
}

/// Ends it as Ctrl-C does: what it printed.
pub(crate) fn stop(weir: Daemon) -> String {
    weir.signal(Signal::SIGINT).unwrap();
    let ended = weir.finish(DEADLINE).unwrap();
    assert!(ended.status.success(), "{}: {}", ended.status, ended.stderr);
    ended.stdout
}

/// Traces a running worker from the outside: every call between attach and detach is counted, and it ends as if nothing
/// had been. `path`: what the script calls its program.
pub(crate) fn check_running(mut worker: Worker, path: &str, returns: bool) {
    const CALLS: u64 = 500;
    worker.work(10, 10);
    let weir = traced(&counting(&format!("{path}:work"), returns), worker.pid);
    worker.work(CALLS, 10 + CALLS);
    check_counts(&stop(weir), CALLS, returns);
    worker.work(10, 20 + CALLS);
    assert_eq!(testkit::mapped::of_weir_in(worker.pid), Vec::<String>::new());
    worker.end();
}

/// The same of one that weir starts: every call of its life is counted.
pub(crate) fn check_started(path: &Path, function: &str, returns: bool) {
    const CALLS: u64 = 1000;
    let function = format!("{}:{function}", quoted(path));
    let command = format!("{} {CALLS}", quoted(path));
    let script = counting(&function, returns);
    let output = weir().args(["trace", "-v", "-e", &script, "-c", &command]).output().unwrap();
    let (text, said) = (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
    // As the program does.
    assert_eq!(output.status.code(), Some(7), "{said}");
    assert!(text.contains(&format!("calls={CALLS}\n")), "{text}{said}");
    assert!(said.contains("ended with exit code 7"), "{said}");
    check_counts(&text, CALLS, returns);
}
