//! kill: weir is killed at a random moment of attach, run or detach; the target must not notice, and the next weir
//! must take over, or restore.
//!
//! A cycle: start `loop`, remember its code; start weir on it and kill that after a random time, while it attaches,
//! runs or (asked to end before) detaches; the target runs on. Then either `weir detach` or
//! a second `weir trace` that counts and ends; afterwards the code is what it was, and `loop` ends as usual.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{ChildStdin, ChildStdout, Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use nix::sys::signal::Signal;
use testkit::paths::quoted;

use crate::process::{self, Guard};
use crate::soak::Random;
use crate::soak::target::Code;
use crate::workspace;

const LIMIT: Duration = Duration::from_secs(30);
/// Longer than starting and attaching take, so that the moments before, in and after are all hit.
const ATTACHED_AFTER_US: u64 = 80_000;
/// Longer than detaching takes.
const DETACHED_AFTER_US: u64 = 20_000;
/// What `weir detach` says where weir was killed before it had attached.
const NOTHING_TO_RESTORE: &str = "has no weir probes";

pub(super) fn cycle(weir: &Path, seed: u64) -> Result<()> {
    let mut random = Random(seed);
    let mut target = Target::start()?;
    let before = Code::of(target.process.pid())?;
    let out = workspace::target_folder("soak")?.join("kill.out");

    let mut first = trace(weir, &target, &out)?;
    match random.below(3) {
        0 => sleep_below(&mut random, ATTACHED_AFTER_US),
        1 => sleep_below(&mut random, 4 * ATTACHED_AFTER_US),
        _ => {
            sleep(Duration::from_micros(2 * ATTACHED_AFTER_US));
            first.signal(Signal::SIGINT)?;
            sleep_below(&mut random, DETACHED_AFTER_US);
        }
    }
    let _ = first.signal(Signal::SIGKILL);
    let _ = first.wait_within(LIMIT)?;
    ensure!(target.process.is_running()?, "the target died with weir");

    if random.below(2) == 0 {
        detach(weir, &target)?;
    } else {
        let mut second = trace(weir, &target, &out)?;
        sleep(Duration::from_millis(200));
        second.signal(Signal::SIGINT)?;
        ensure!(second.wait_within(LIMIT)?, "the second weir failed");
        let found = fs::read_to_string(&out).context("output of the second weir")?;
        let count =
            found.lines().filter_map(|line| line.strip_prefix("@: ")?.parse::<u64>().ok()).next_back();
        ensure!(count.is_some_and(|count| count > 0), "the second weir counted nothing: {found:?}");
    }
    before.check_same(&Code::of(target.process.pid())?)?;
    target.end()
}

fn sleep_below(random: &mut Random, most_us: u64) {
    sleep(Duration::from_micros(random.below(most_us)));
}

fn detach(weir: &Path, target: &Target) -> Result<()> {
    let pid = target.process.pid().to_string();
    match process::output_within(Command::new(weir).args(["detach", "-p", &pid]), LIMIT) {
        Err(error) if !format!("{error:#}").contains(NOTHING_TO_RESTORE) => Err(error),
        _ => Ok(()),
    }
}

fn trace(weir: &Path, target: &Target, out: &Path) -> Result<Guard> {
    let _ = fs::remove_file(out);
    let script = format!("uprobe:{}:work {{ @ = count(); }}", quoted(&target.program));
    let mut command = Command::new(weir);
    command.args(["trace", "-o"]).arg(out).args(["-e", &script, "-p", &target.process.pid().to_string()]);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    Guard::spawn(&mut command)
}

/// tests/programs/loop.c, which runs until its standard input is closed.
struct Target {
    program: std::path::PathBuf,
    process: Guard,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
}

impl Target {
    fn start() -> Result<Target> {
        let program = workspace::test_program("loop")?;
        let mut process = Guard::spawn(Command::new(&program).stdin(Stdio::piped()).stdout(Stdio::piped()))?;
        let stdin = process.0.stdin.take();
        let mut stdout = BufReader::new(process.0.stdout.take().context("its standard output is a pipe")?);
        let mut line = String::new();
        stdout.read_line(&mut line)?;
        ensure!(line.starts_with("pid="), "loop began with {line:?}");
        Ok(Target { program, process, stdin, stdout })
    }

    /// Closes its input and checks that it ends as it does untraced.
    fn end(&mut self) -> Result<()> {
        drop(self.stdin.take());
        ensure!(self.process.wait_within(LIMIT)?, "loop failed");
        let mut line = String::new();
        self.stdout.read_line(&mut line)?;
        let calls = line.trim().strip_prefix("calls=").and_then(|calls| calls.parse::<u64>().ok());
        ensure!(calls.is_some_and(|calls| calls > 0), "loop ended with {line:?}");
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_untraced_target_starts_and_ends() {
        let mut target = Target::start().unwrap();
        assert!(target.process.is_running().unwrap());
        target.end().unwrap();
    }
}
