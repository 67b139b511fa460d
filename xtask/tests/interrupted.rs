//! A bench that is interrupted, or whose worker is killed: nothing that it has started is left.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use testkit::{paths, wait};

const LIMIT: Duration = Duration::from_secs(60);

#[test]
fn what_a_bench_has_started_ends_with_it() {
    check("interrupted", |bench, _| kill(bench, Signal::SIGINT), 128 + 2);
    check("terminated", |bench, _| kill(bench, Signal::SIGTERM), 128 + 15);
    check("worker-killed", |_, worker| kill(worker, Signal::SIGKILL), 128 + 9);
}

/// A bench whose weir has started something, to which `happens`.
fn check(name: &str, happens: fn(Pid, Pid) -> nix::Result<()>, code: i32) {
    let id_file = paths::target().join(format!("{name}-{}.id", std::process::id()));
    let weir = fake_weir(name, &id_file);
    let mut bench = Command::new(env!("CARGO_BIN_EXE_xtask"));
    bench.args(["bench", "startup", "--weir"]).arg(&weir);
    let mut bench: Child = bench.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let started = wait::until_some(LIMIT, || first_pid(&id_file));
    let pid = Pid::from_raw(bench.id() as i32);
    let worker = first_pid(Path::new(&format!("/proc/{pid}/task/{pid}/children"))).unwrap();
    let is_started = started.is_some_and(is_there);
    happens(pid, worker).unwrap();
    let ended = wait::for_exit(&mut bench, LIMIT);
    assert!(is_started, "{name}: the bench has not come to its weir: {started:?}");
    assert_eq!(ended.and_then(|status| status.code()), Some(code), "{name}");
    assert!(!is_there(worker) && started.is_some_and(|pid| !is_there(pid)), "{name}: left behind");
    fs::remove_file(&weir).and(fs::remove_file(&id_file)).unwrap();
}

/// One that starts a process, says which, and does not end.
fn fake_weir(name: &str, id_file: &Path) -> PathBuf {
    let id = id_file.display();
    let text = format!("#!/bin/sh\nsleep 600 &\necho $! > {id}.new\nmv {id}.new {id}\nwait\n");
    let path = paths::target().join(format!("{name}-{}.sh", std::process::id()));
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
