//! A bench that is interrupted, whose worker is killed, or of which a side fails: nothing that it has started is left, and the figures of
//! its complete rounds are printed and written.
//!
//! Its weir is a script, which does what the bench `startup` asks for a number of times, and then starts something and does not end.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};
use testkit::{paths, wait};

const LIMIT: Duration = Duration::from_secs(60);
/// Of `weir` against another one: `weir`, `against` and `A/A`.
const RUNS_OF_A_ROUND: u32 = 3;

#[test]
fn what_a_bench_has_started_ends_with_it() {
    let nothing = |name: &str| Bench::start(name, 0);
    let bench = nothing("interrupted");
    kill(bench.pid(), Signal::SIGINT).unwrap();
    let said = bench.ends(128 + 2);
    assert!(said.contains("interrupted after 0 of 15 rounds: no figures"), "{said}");
    let bench = nothing("terminated");
    kill(bench.pid(), Signal::SIGTERM).unwrap();
    bench.ends(128 + 15);
}

#[test]
fn complete_rounds_of_an_interrupted_bench_have_figures() {
    let bench = Bench::start("complete-interrupted", 2 * RUNS_OF_A_ROUND + 1);
    kill(bench.pid(), Signal::SIGHUP).unwrap();
    bench.ends_with_figures(128 + 1);
    let bench = Bench::start("complete-worker-killed", 2 * RUNS_OF_A_ROUND);
    kill(bench.worker, Signal::SIGKILL).unwrap();
    bench.ends_with_figures(128 + 9);
}

#[test]
fn complete_rounds_of_a_failed_bench_have_figures() {
    let bench = Bench::start("complete-failed", 2 * RUNS_OF_A_ROUND + 2);
    // Its weir fails.
    kill(bench.started, Signal::SIGKILL).unwrap();
    let errors = bench.folder.join("errors");
    bench.ends_with_figures_and(1, || {
        let errors = fs::read_to_string(&errors).unwrap();
        assert!(errors.contains("round 3") && errors.contains("exit status: 3"), "{errors}");
    });
}

/// What was started ends when it is asked to, 20 seconds later if it does not, and at once if the bench is asked a second time.
#[test]
fn a_second_signal_kills_what_was_started() {
    let bench = Bench::start_with("second", 0, "trap '' TERM");
    kill(bench.pid(), Signal::SIGINT).unwrap();
    let errors = bench.folder.join("errors");
    let is_said = |text: &str| {
        let is_said = || fs::read_to_string(&errors).is_ok_and(|errors| errors.contains(text));
        assert!(wait::until(LIMIT, is_said), "{text}: {:?}", fs::read_to_string(&errors));
    };
    is_said("SIGINT: ending what was started");
    kill(bench.pid(), Signal::SIGINT).unwrap();
    is_said("SIGINT again: killing what was started");
    bench.ends(128 + 2);
}

/// A bench whose weir has started something.
struct Bench {
    process: Child,
    worker: Pid,
    started: Pid,
    /// All that it makes, also what Cargo has below target/.
    folder: PathBuf,
}

impl Bench {
    fn start(name: &str, runs: u32) -> Bench {
        Bench::start_with(name, runs, "true")
    }

    /// Its weir runs so many times before it does not end; what it starts first does `begin`, a command of the shell.
    fn start_with(name: &str, runs: u32, begin: &str) -> Bench {
        let folder = paths::fresh("interrupted", name);
        fs::create_dir_all(&folder).unwrap();
        let weir = fake_weir(&folder, runs, begin);
        let mut bench = Command::new(env!("CARGO_BIN_EXE_xtask"));
        bench.args(["bench", "startup", "--weir"]).arg(&weir).arg("--against").arg(&weir);
        bench.env("CARGO_TARGET_DIR", &folder).stdin(Stdio::null());
        bench.stdout(fs::File::create(folder.join("output")).unwrap());
        bench.stderr(fs::File::create(folder.join("errors")).unwrap());
        let process = bench.spawn().unwrap();
        let started = wait::until_some(LIMIT, || first_pid(&folder.join("id")));
        let pid = process.id();
        let worker = first_pid(Path::new(&format!("/proc/{pid}/task/{pid}/children")));
        let errors = fs::read_to_string(folder.join("errors"));
        let started = started.unwrap_or_else(|| panic!("{name}: it has not come to its weir: {errors:?}"));
        assert!(is_there(started), "{name}");
        Bench { process, worker: worker.unwrap(), started, folder }
    }

    fn pid(&self) -> Pid {
        Pid::from_raw(self.process.id() as i32)
    }

    /// What it has printed when it has ended, with all that it started and kept.
    fn ends(self, code: i32) -> String {
        let folder = self.folder.clone();
        let printed = self.ends_here(code);
        fs::remove_dir_all(folder).unwrap();
        printed
    }

    fn ends_here(mut self, code: i32) -> String {
        let ended = wait::for_exit(&mut self.process, LIMIT).and_then(|status| status.code());
        let errors = fs::read_to_string(self.folder.join("errors")).unwrap();
        assert_eq!(ended, Some(code), "{errors}");
        assert!(!is_there(self.worker) && !is_there(self.started), "left behind: {errors}");
        let kept = fs::read_dir(self.folder.join("bench")).unwrap().map(|entry| entry.unwrap().file_name());
        let id = format!("-{}", self.worker);
        let left: Vec<_> = kept.filter(|name| name.to_string_lossy().contains(&id)).collect();
        assert!(left.is_empty(), "{left:?}");
        fs::read_to_string(self.folder.join("output")).unwrap()
    }

    fn ends_with_figures(self, code: i32) {
        self.ends_with_figures_and(code, || {});
    }

    /// Of two rounds.
    fn ends_with_figures_and(self, code: i32, and: impl Fn()) {
        let folder = self.folder.clone();
        let printed = self.ends_here(code);
        assert!(printed.contains("interrupted after 2 of 15 rounds: fewer than 15"), "{printed}");
        assert!(printed.contains("spawn to main"), "{printed}");
        let text = fs::read_to_string(folder.join("bench/startup-against.json")).unwrap();
        let value: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(value["rounds"], json!({ "done": 2, "asked": 15 }), "{value}");
        for subject in ["bare", "weir", "against", "A/A"] {
            assert!(value["figures"][subject]["spawn to main"]["median"].is_f64(), "{subject}: {value}");
        }
        assert_eq!(value["against"]["spawn to main"]["verdict"], "too few rounds", "{value}");
        let picture = fs::read_to_string(folder.join("bench/startup-against.svg")).unwrap();
        assert!(picture.contains("interrupted after 2 of 15 rounds"), "{picture}");
        and();
        fs::remove_dir_all(folder).unwrap();
    }
}

/// `weir trace -o OUT -e SCRIPT -c PROGRAM` so many times. Then it starts a process, says which, and ends only with that, badly.
fn fake_weir(folder: &Path, runs: u32, begin: &str) -> PathBuf {
    let text = format!(
        "#!/bin/sh\ncd '{}'\necho >>runs\n\
         if [ $(wc -l <runs) -le {runs} ]; then echo '@: 1' >\"$3\"; eval \"exec $7\"; fi\n\
         sh -c \"{begin}; while :; do sleep 600; done\" &\necho $! >id.new\nmv id.new id\nwait\nexit 3\n",
        folder.display()
    );
    let path = folder.join("weir");
    fs::write(&path, text).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    path
}

fn first_pid(file: &Path) -> Option<Pid> {
    let text = fs::read_to_string(file).ok()?;
    text.split_ascii_whitespace().next()?.parse().ok().map(Pid::from_raw)
}

fn is_there(pid: Pid) -> bool {
    Path::new(&format!("/proc/{pid}")).exists()
}
