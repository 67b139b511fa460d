//! LTTng's own tools, where they are: the oracle of what is recorded of programs that are instrumented with LTTng-UST.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

use crate::{Daemon, paths, wait};

fn folder() -> PathBuf {
    paths::target().join("testkit/lttng")
}

/// As long as this is held no test has a session daemon, which would change what every program's events are wanted by.
pub fn alone() -> File {
    std::fs::create_dir_all(folder()).expect("a folder");
    let alone = File::create(folder().join("lock")).expect("a file");
    alone.lock().expect("a lock");
    alone
}

/// A session daemon that answers, for one test at a time: root's is one for the whole machine.
#[derive(Debug)]
pub struct Lttng {
    home: PathBuf,
    daemon: Option<Daemon>,
    /// Unlocked when all else is done.
    _alone: File,
}

impl Lttng {
    /// With a folder of its own; Err: what is missing.
    pub fn set_up(name: &str) -> Result<Lttng, String> {
        for program in ["lttng", "lttng-sessiond", "babeltrace2"] {
            if Command::new(program).arg("--version").output().is_err() {
                return Err(format!("no {program}"));
            }
        }
        let home = folder().join(format!("{name}-{}", std::process::id()));
        std::fs::create_dir_all(&home).expect("a folder");
        let alone = alone();
        let mut lttng = Lttng { home, daemon: None, _alone: alone };
        if !lttng.ask(&["list"]).status.success() {
            let mut daemon = Command::new("lttng-sessiond");
            daemon.args(["--no-kernel", "--quiet"]).env("LTTNG_HOME", &lttng.home);
            lttng.daemon = Some(Daemon::spawn(daemon).expect("it was there"));
            if !wait::until(Duration::from_secs(60), || lttng.ask(&["list"]).status.success()) {
                return Err("lttng-sessiond does not answer".to_owned());
            }
        }
        Ok(lttng)
    }

    /// Its folder: LTTNG_HOME of programs that are to be recorded.
    pub fn home(&self) -> &Path {
        &self.home
    }

    /// Does not start a daemon, which would outlive the test.
    pub fn ask(&self, args: &[&str]) -> Output {
        let mut command = Command::new("lttng");
        command.arg("--no-sessiond").args(args).env("LTTNG_HOME", &self.home);
        command.output().expect("lttng runs")
    }

    /// The same, which has to succeed.
    #[track_caller]
    pub fn must(&self, args: &[&str]) {
        let output = self.ask(args);
        assert!(output.status.success(), "lttng {args:?}: {}", String::from_utf8_lossy(&output.stderr));
    }
}

impl Drop for Lttng {
    fn drop(&mut self) {
        // Before another test looks for one.
        drop(self.daemon.take());
        if !std::thread::panicking() {
            let _ = std::fs::remove_dir_all(&self.home);
        }
    }
}

/// A program, or with `-shared` a library, of sources of `tests/lttng`; Err: that its headers are not there.
pub fn compile(sources: &[&str], to: &Path, flags: &[&str]) -> Result<(), String> {
    let mut compile = Command::new("gcc");
    compile.current_dir(paths::root().join("tests/lttng")).args(["-O2", "-g", "-I.", "-o"]).arg(to);
    compile.args(flags).args(sources).args(["-llttng-ust", "-ldl", "-lpthread"]);
    let output = compile.output().map_err(|error| format!("gcc: {error}"))?;
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    if said.contains("lttng/tracepoint.h") || said.contains("-llttng-ust") {
        return Err("no liblttng-ust-dev of 2.13 or newer".to_owned());
    }
    assert!(output.status.success(), "{said}");
    Ok(())
}
