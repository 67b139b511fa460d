//! LTTng's tools, with a session daemon that is started where none runs, and ended again.

use std::path::PathBuf;
use std::process::Command;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use nix::sys::signal::Signal;

use crate::process::{self, Guard};
use crate::workspace;

/// LIMIT: a command of LTTng's, and compiling a program with its tracepoints.
const COMMAND_LIMIT: Duration = Duration::from_secs(20);
/// How long the session daemon may take to answer, in tenths of a second.
const TENTHS_TO_START: u32 = 50;

#[derive(Debug)]
pub(crate) struct Lttng {
    /// Ended when this is dropped, if it is ours.
    daemon: Option<Guard>,
}

impl Lttng {
    /// The error says what is not there.
    pub(crate) fn start() -> Result<Lttng> {
        for program in ["lttng", "lttng-sessiond"] {
            process::find_program(program)
                .with_context(|| format!("no {program}; apt-get install lttng-tools liblttng-ust-dev"))?;
        }
        let mut lttng = Lttng { daemon: None };
        if lttng.command(&["list"]).is_err() {
            let mut daemon = Command::new("lttng-sessiond");
            lttng.daemon = Some(Guard::spawn(daemon.args(["--no-kernel", "--quiet"]))?);
            let mut answers = (0..TENTHS_TO_START).map(|_| {
                thread::sleep(Duration::from_millis(100));
                lttng.command(&["list"])
            });
            ensure!(answers.any(|answer| answer.is_ok()), "lttng-sessiond does not answer");
        }
        Ok(lttng)
    }

    pub(crate) fn command(&self, arguments: &[&str]) -> Result<()> {
        process::output_within(Command::new("lttng").args(arguments), COMMAND_LIMIT).map(drop)
    }
}

impl Drop for Lttng {
    fn drop(&mut self) {
        if let Some(daemon) = &mut self.daemon {
            // It takes its consumers with it, which a kill would leave.
            let _ = daemon.signal(Signal::SIGTERM);
            let _ = daemon.wait_within(COMMAND_LIMIT);
        }
    }
}

/// Compiles a source of tests/lttng with LTTng's tracepoints.
pub(crate) fn compile(source: &str, name: &str) -> Result<PathBuf> {
    let program = workspace::target_folder("programs")?.join(name);
    let mut compile = Command::new("gcc");
    compile.args(["-O2", "-I."]).arg("-o").arg(&program);
    compile.args([source, "-llttng-ust", "-ldl", "-lpthread"]);
    process::output_within(compile.current_dir(workspace::root().join("tests/lttng")), COMMAND_LIMIT)
        .context("compiling LTTng's tracepoints; apt-get install liblttng-ust-dev")?;
    Ok(program)
}
