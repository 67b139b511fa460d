//! Short-lived processes. With root, weir stops a process that executes or loads a probed file before it runs, so every call is counted.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use testkit::Daemon;
use testkit::paths::quoted;
use testkit::stranger::Folder;

use crate::life::check::{DEADLINE, Run, counting, obedient, trace, weir};

/// How long weir keeps a process waiting at most (`PERMISSION_WAIT_MAX` of weir-probe).
const WAIT_MAX: Duration = Duration::from_secs(10);

/// Permission events of fanotify(7) need CAP_SYS_ADMIN.
fn is_possible() -> bool {
    let is_root = nix::unistd::geteuid().is_root();
    if !is_root {
        testkit::skip::skip("held", "to hold processes at execve(2) needs root");
    }
    is_root
}

/// Every call of so many processes is counted.
#[track_caller]
fn check(run: &Run, processes: usize) {
    run.check_exact();
    assert_eq!(run.counted().len(), processes, "{run:?}");
    assert!(!run.stderr.contains("not counted"), "{run:?}");
    assert_eq!(run.counts()["not_held"], 0, "{run:?}");
}

#[test]
fn what_the_command_becomes_or_starts_is_counted_from_its_first_call() {
    if !is_possible() {
        return;
    }
    let path = obedient("life-held-wrapped");
    let program = quoted(&path);
    for wrapper in [
        format!("env {program} c 3"),
        format!("timeout 600 {program} c 3"),
        format!("sh -c 'exec {program} c 3'"),
        format!("sh -c '{program} c 3; true'"),
    ] {
        check(&trace(&counting(&path), &["--follow", "-c", &wrapper]), 1);
    }
    // One that executes itself again and again: all of it is one process.
    let run = trace(&counting(&path), &["-c", &format!("{program} c 5 x c 7 x c 9")]);
    check(&run, 1);
    assert_eq!(run.counts()["execs_held"], 2, "{run:?}");
}

#[test]
fn a_hundred_short_processes_are_counted_one_after_the_other_and_at_once() {
    if !is_possible() {
        return;
    }
    let path = obedient("life-held-many");
    let program = quoted(&path);
    let loops = format!("sh -c 'i=0; while [ $i -lt 50 ]; do {program} c 11; i=$((i+1)); done'");
    check(&trace(&counting(&path), &["--follow", "-c", &loops]), 50);
    let at_once = format!("sh -c 'i=0; while [ $i -lt 50 ]; do {program} c 11 & i=$((i+1)); done; wait'");
    let began = Instant::now();
    let run = trace(&counting(&path), &["--follow", "-c", &at_once]);
    if began.elapsed() < WAIT_MAX {
        return check(&run, 50);
    }
    // The last of them have waited for too long, on a machine that has other things to do: they run, and are reported.
    let (counted, said) = (run.counted(), run.said());
    assert!(counted.iter().all(|(pid, calls)| said.get(pid) == Some(calls)), "{run:?}");
    assert_eq!(said.len(), 50, "{run:?}");
    let not_held = run.counts()["not_held"].as_u64().unwrap() as usize;
    assert_eq!(counted.len() + not_held, 50, "{run:?}");
    assert!(run.stderr.contains(&format!("{not_held} times a process came to a probed file")), "{run:?}");
}

#[test]
fn a_library_is_probed_before_the_program_that_loads_it_begins() {
    if !is_possible() {
        return;
    }
    let path = obedient("life-held-library");
    let program = quoted(&path);
    let run = trace(
        "uprobe:libc:getpid /comm != \"sh\"/ { @calls[pid] = count(); }",
        &["--follow", "-c", &format!("sh -c 'for i in 1 2 3 4 5; do {program} p p p; done; true'")],
    );
    assert_eq!(run.counted().into_values().collect::<Vec<_>>(), [3; 5], "{run:?}");
}

#[test]
fn a_script_that_has_the_program_as_its_interpreter_is_no_deadlock() {
    if !is_possible() {
        return;
    }
    let folder = Folder::new();
    // The kernel takes no blank in the path of an interpreter.
    let interpreter = folder.path().join("interpreter");
    testkit::target::copy(&obedient("life-held-script"), &interpreter);
    let script = folder.path().join("script");
    // The name of the script is the argument of `z`: it sleeps for no time.
    fs::write(&script, format!("#!{} z\n", interpreter.display())).unwrap();
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    let run = trace(
        &counting(&interpreter),
        &["--follow", "-c", &format!("sh -c '{} c 3; true'", script.display())],
    );
    // It may escape, and weir reports that.
    match run.counted().is_empty() {
        true => assert!(run.stderr.contains("before weir could stop it"), "{run:?}"),
        false => check(&run, 1),
    }
}

#[test]
fn processes_of_a_name_are_counted_from_their_first_call() {
    if !is_possible() {
        return;
    }
    let path = obedient("life-held-name");
    let trace = tracing(&path, "life-held-name*");
    let said: Vec<String> = (0..10).map(|_| output(&path, &["c", "6"])).collect();
    trace.signal(Signal::SIGINT).unwrap();
    let mut run = Run::of(&trace.finish(DEADLINE).unwrap());
    assert!(!run.said.iter().any(|line| line.contains("not counted")), "{run:?}");
    run.said = said.concat().lines().map(str::to_owned).collect();
    check(&run, 10);
}

#[test]
fn a_stopped_weir_suspends_no_process() {
    if !is_possible() {
        return;
    }
    let path = obedient("life-held-stopped");
    let trace = tracing(&path, "life-held-stop*");
    let own = Pid::from_raw(trace.pid() as i32);
    kill(own, Signal::SIGSTOP).unwrap();
    assert!(testkit::wait::until(DEADLINE, || is_stopped(own)));
    // Each would wait until weir continues, which it does not before they have ended.
    for _ in 0..20 {
        assert!(output(&path, &["c", "6"]).contains("calls "));
        assert!(is_stopped(own));
    }
    kill(own, Signal::SIGCONT).unwrap();
    trace.signal(Signal::SIGINT).unwrap();
    assert!(trace.finish(DEADLINE).unwrap().status.success());
}

/// A weir that waits for processes with this name.
fn tracing(path: &Path, name: &str) -> Daemon {
    let mut command = Command::new("sh");
    command.args(["-c", "exec \"$0\" \"$@\" 2>&1"]).arg(weir().get_program());
    command.args(["trace", "-f", "json", "-e", &counting(path), "-p", name]);
    let mut trace = Daemon::spawn(command).unwrap();
    trace.line_with("no process is traced yet", DEADLINE).unwrap();
    trace
}

fn is_stopped(pid: Pid) -> bool {
    fs::read_to_string(format!("/proc/{pid}/stat")).unwrap().contains(") T ")
}

fn output(path: &Path, arguments: &[&str]) -> String {
    let output = Command::new(path).args(arguments).stdin(Stdio::null()).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}
