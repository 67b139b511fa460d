//! What weir needs to be allowed: CAP_SYS_PTRACE and nothing else, or to be the target's own user where Yama lets it. Without,
//! it says what is missing and how to get it; with, everything works that root can do, and a killed run is undone.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use testkit::paths::quoted;
use testkit::stranger::{self, ALICE, BOB, Folder};
use testkit::{Daemon, mapped};

use crate::life::worker::{self, BEGUN, Worker, number};

const MACHINE: i32 = 3;
const DEADLINE: Duration = Duration::from_secs(120);
const YAMA: &str = "/proc/sys/kernel/yama/ptrace_scope";

/// Copies of weir and of a worker that everybody may execute.
struct Scene {
    folder: Folder,
    weir: PathBuf,
    program: PathBuf,
}

impl Scene {
    fn new() -> Option<Scene> {
        if !stranger::is_possible() {
            testkit::skip::skip("permissions", "needs root and setpriv, to become somebody else");
            return None;
        }
        let folder = Folder::new();
        let weir = folder.copy(Path::new(env!("CARGO_BIN_EXE_weir")));
        let program = folder.copy(&worker::program());
        Some(Scene { folder, weir, program })
    }

    fn worker(&self, uid: u32) -> Worker {
        Worker::start(stranger::command(uid, &[], &[], &self.program))
    }

    fn weir(&self, uid: u32, capabilities: &[&str]) -> Command {
        let mut command = stranger::command(uid, &[], capabilities, &self.weir);
        command.stdin(Stdio::null());
        command
    }

    fn script(&self) -> String {
        let function = format!("{}:work", quoted(&self.program));
        format!(
            "{BEGUN} uprobe:{function} {{ @calls = count(); }} uretprobe:{function} {{ @returns = count(); }}"
        )
    }

    /// `uid` with these capabilities counts 50 calls of the worker, and leaves it as it was.
    #[track_caller]
    fn check_traced(&self, uid: u32, capabilities: &[&str], mut worker: Worker) {
        let mut command = self.weir(uid, capabilities);
        command.args(["trace", "-e", &self.script(), "-p", &worker.pid.to_string()]);
        let mut weir = Daemon::spawn(command).unwrap();
        if weir.line_with("begun", DEADLINE).is_err() {
            panic!("{:?}", weir.finish(DEADLINE));
        }
        worker.work(50, 50);
        weir.signal(nix::sys::signal::Signal::SIGINT).unwrap();
        let ended = weir.finish(DEADLINE).unwrap();
        assert!(ended.status.success(), "{ended:?}");
        assert_eq!(
            (number(&ended.stdout, "@calls"), number(&ended.stdout, "@returns")),
            (Some(50), Some(50))
        );
        assert!(is_untouched(worker.pid));
        worker.work(5, 55);
        worker.end();
    }

    /// It is refused, with these words, and nothing was done.
    #[track_caller]
    fn check_refused(&self, uid: u32, worker: Worker, parts: &[&str]) {
        let mut command = self.weir(uid, &[]);
        let output =
            command.args(["trace", "-e", &self.script(), "-p", &worker.pid.to_string()]).output().unwrap();
        check_message(&output, parts);
        assert!(is_untouched(worker.pid));
        worker.end();
    }
}

#[track_caller]
fn check_message(output: &Output, parts: &[&str]) {
    let message = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(MACHINE), "{message}");
    assert!(parts.iter().all(|part| message.contains(part)), "{parts:?}:\n{message}");
}

fn is_untouched(pid: u32) -> bool {
    mapped::of_weir_in(pid).is_empty()
}

/// What Yama allows (Documentation/admin-guide/LSM/Yama.rst); 0 where it is not there.
fn yama() -> u32 {
    fs::read_to_string(YAMA).map_or(0, |text| text.trim().parse().unwrap())
}

#[test]
fn cap_sys_ptrace_alone_is_enough_for_processes_of_others() {
    let Some(scene) = Scene::new() else { return };
    scene.check_traced(BOB, &["sys_ptrace"], scene.worker(ALICE));
    // Of a process with more capabilities than weir has, too: CAP_SYS_PTRACE is what the kernel asks about.
    scene.check_traced(BOB, &["sys_ptrace"], scene.worker(0));
}

#[test]
fn without_it_the_processes_of_others_are_refused_with_what_is_missing() {
    let Some(scene) = Scene::new() else { return };
    let check = |theirs: u32, name: &str| {
        let users = format!("it runs as user {name}, and weir as {BOB}: ");
        let parts = ["no permission to trace process", &users, "CAP_SYS_PTRACE"];
        scene.check_refused(BOB, scene.worker(theirs), &parts);
    };
    check(ALICE, &ALICE.to_string());
    check(0, "root (0)");
}

#[test]
fn processes_that_may_not_be_looked_at_are_counted() {
    let Some(scene) = Scene::new() else { return };
    let worker = scene.worker(ALICE);
    let (mut traced, pid) = (Command::new(env!("CARGO_BIN_EXE_weir")), worker.pid.to_string());
    traced.args(["trace", "-e", &scene.script(), "-p", &pid]);
    let mut traced = Daemon::spawn(traced).unwrap();
    traced.line_with("begun", DEADLINE).unwrap();
    let ps = |uid: u32, capabilities: &[&str]| {
        let output = scene.weir(uid, capabilities).arg("ps").output().unwrap();
        assert!(output.status.success(), "{output:?}");
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        let table = text(output.stdout);
        let is_listed = table.lines().any(|line| line.trim_start().starts_with(&format!("{pid} ")));
        (is_listed, text(output.stderr))
    };
    let (is_listed, told) = ps(BOB, &[]);
    let count = told.strip_prefix("weir: ").and_then(|rest| rest.split(' ').next()?.parse::<usize>().ok());
    // At least the worker and the weir that traces it.
    assert!(!is_listed && count.is_some_and(|count| count >= 2), "{told}");
    assert!(told.contains("of other users were not looked at") && told.contains("CAP_SYS_PTRACE"), "{told}");
    assert!(ps(BOB, &["sys_ptrace"]).0);
    traced.signal(nix::sys::signal::Signal::SIGINT).unwrap();
    assert!(traced.finish(DEADLINE).unwrap().status.success());
    worker.end();
}

#[test]
fn a_process_that_is_not_dumpable_is_refused_with_that_reason() {
    let Some(scene) = Scene::new() else { return };
    let mut command = stranger::command(ALICE, &[], &[], &scene.program);
    command.arg("hidden");
    let parts = ["no permission to trace process", "it is not dumpable", "CAP_SYS_PTRACE"];
    scene.check_refused(ALICE, Worker::start(command), &parts);
}

#[test]
fn ones_own_processes_are_traced_where_yama_allows_it() {
    let Some(scene) = Scene::new() else { return };
    let before = yama();
    let set = |scope: u32| fs::write(YAMA, scope.to_string());
    if before > 1 || set(0).is_err() {
        testkit::skip::skip("permissions-yama", "this kernel has no Yama, or does not let it be turned off");
        if before == 0 {
            scene.check_traced(ALICE, &[], scene.worker(ALICE));
        }
        return;
    }
    scene.check_traced(ALICE, &[], scene.worker(ALICE));
    set(1).unwrap();
    let refused = || scene.check_refused(ALICE, scene.worker(ALICE), &["CAP_SYS_PTRACE", "ptrace_scope"]);
    let refused = std::panic::catch_unwind(std::panic::AssertUnwindSafe(refused));
    set(before).unwrap();
    refused.unwrap();
}

#[test]
fn a_command_of_ones_own_is_traced_without_any_privilege() {
    let Some(scene) = Scene::new() else { return };
    let mut command = scene.weir(ALICE, &[]);
    command.args(["trace", "-e", "uprobe:libc:puts { @ = count(); }", "-c", "/bin/echo it ran"]);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(String::from_utf8_lossy(&output.stdout).contains("it ran"));
}

#[test]
fn what_probes_cost_is_shown_to_those_who_may_look_alone() {
    let Some(scene) = Scene::new() else { return };
    let worker = scene.worker(ALICE);
    let pid = worker.pid.to_string();
    let mut command = scene.weir(0, &["sys_ptrace"]);
    command.args(["trace", "-e", &scene.script(), "-p", &pid]);
    let mut weir = Daemon::spawn(command).unwrap();
    weir.line_with("begun", DEADLINE).unwrap();
    let rows = |capabilities: &[&str]| {
        let output = scene.weir(BOB, capabilities).args(["top", "-n", "1"]).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let text = String::from_utf8(output.stdout).unwrap();
        text.lines().filter(|line| line.split('\t').nth(1) == Some(&*pid)).count()
    };
    // One for each end of the call, as one session or two.
    assert!((1..=2).contains(&rows(&["sys_ptrace"])));
    assert_eq!(rows(&[]), 0);
    weir.signal(nix::sys::signal::Signal::SIGINT).unwrap();
    assert!(weir.finish(DEADLINE).unwrap().status.success());
    worker.end();
}

#[test]
fn what_a_killed_run_left_is_seen_and_undone_with_cap_sys_ptrace_alone() {
    let Some(scene) = Scene::new() else { return };
    let mut worker = scene.worker(ALICE);
    let pid = worker.pid.to_string();
    let mut command = scene.weir(BOB, &["sys_ptrace"]);
    command.args(["trace", "-e", &scene.script(), "-p", &pid]);
    let mut weir = Daemon::spawn(command).unwrap();
    weir.line_with("begun", DEADLINE).unwrap();
    weir.signal(nix::sys::signal::Signal::SIGKILL).unwrap();
    weir.finish(DEADLINE).unwrap();
    let ps = scene.weir(BOB, &["sys_ptrace"]).arg("ps").output().unwrap();
    let table = String::from_utf8(ps.stdout).unwrap();
    assert!(table.lines().any(|line| line.contains(&pid) && line.contains("gone")), "{table}");
    let detach =
        |capabilities: &[&str]| scene.weir(BOB, capabilities).args(["detach", "-p", &pid]).output().unwrap();
    check_message(&detach(&[]), &["CAP_SYS_PTRACE"]);
    let detached = detach(&["sys_ptrace"]);
    assert!(detached.status.success(), "{}", String::from_utf8_lossy(&detached.stderr));
    assert!(is_untouched(worker.pid));
    worker.work(5, 5);
    worker.end();
}

#[test]
fn a_set_user_id_command_is_said_to_run_without_that() {
    let Some(scene) = Scene::new() else { return };
    let id = scene.folder.copy(Path::new("/usr/bin/id"));
    fs::set_permissions(&id, Permissions::from_mode(0o4755)).unwrap();
    let mut command = scene.weir(ALICE, &[]);
    command.args([
        "trace",
        "-e",
        "uprobe:libc:getenv { @ = count(); }",
        "-c",
        &format!("{} -u", quoted(&id)),
    ]);
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    assert!(String::from_utf8_lossy(&output.stdout).contains(&format!("{ALICE}\n")), "{output:?}");
    assert!(said.contains("weir: the command is set-user-ID"), "{said}");
    assert!(said.contains(&format!("it runs as uid {ALICE}, not 0")), "{said}");
}

/// A user may give a program any name, and a traced process maps what the run counts.
#[test]
fn a_stranger_of_the_same_name_does_not_join_roots_run() {
    let Some(scene) = Scene::new() else { return };
    let name = format!("same{}", std::process::id());
    let program = scene.folder.path().join(&name);
    testkit::target::copy(&scene.program, &program);
    let worker = |uid: u32| Worker::start(stranger::command(uid, &[], &[], &program));
    let script = format!("{BEGUN} uprobe:{}:work {{ @calls = count(); }}", quoted(&program));
    let check = |options: &[&str], calls: u64| {
        let (mut theirs, mut own) = (worker(BOB), worker(0));
        let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
        command.args(["trace", "-e", &script, "-p", &name]).args(options);
        let mut weir = Daemon::spawn(command).unwrap();
        weir.line_with("begun", DEADLINE).unwrap();
        let (mut later, mut own_later) = (worker(BOB), worker(0));
        let traced = |worker: &Worker| !is_untouched(worker.pid);
        assert!(testkit::wait::until(DEADLINE, || traced(&own_later)), "{options:?}");
        let are_all = !options.is_empty();
        assert!(testkit::wait::until(DEADLINE, || !are_all || traced(&later)), "{options:?}");
        own.work(20, 20);
        own_later.work(3, 3);
        theirs.work(100, 100);
        later.work(100, 100);
        assert_eq!((traced(&theirs), traced(&later)), (are_all, are_all));
        weir.signal(nix::sys::signal::Signal::SIGINT).unwrap();
        let ended = weir.finish(DEADLINE).unwrap();
        assert!(ended.status.success(), "{ended:?}");
        assert_eq!(number(&ended.stdout, "@calls"), Some(calls), "{ended:?}");
        for left in [&theirs, &later] {
            let said = format!("process {} ({name}) of user {BOB} is left out", left.pid);
            assert_eq!(ended.stderr.contains(&said), !are_all, "{said}: {}", ended.stderr);
        }
        [theirs, own, later, own_later].into_iter().for_each(Worker::end);
    };
    check(&[], 23);
    check(&["--any-user"], 223);
}
