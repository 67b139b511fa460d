//! What the audit says: one line when a process is attached to, one when it is left, one when that is denied; nothing is
//! traced that has to be noted and cannot be. The log is a socket of the test's, which a policy names.

use std::fs::{self, Permissions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixDatagram;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use testkit::paths::quoted;
use testkit::stranger::{self, ALICE};
use testkit::{Daemon, target};

use crate::life::policy::{Scene, check_done};
use crate::life::worker::{BEGUN, DEADLINE, Worker, weir};

const MACHINE: i32 = 3;

/// A policy that allows Alice everything, audits so, and the socket that it names.
struct Log {
    socket: UnixDatagram,
    path: PathBuf,
    policy: PathBuf,
}

impl Log {
    fn new(scene: &Scene, audit: &str) -> Log {
        let path = scene.folder.path().join("log");
        let _ = fs::remove_file(&path);
        let socket = UnixDatagram::bind(&path).unwrap();
        socket.set_nonblocking(true).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o666)).unwrap();
        let policy = policy(scene, audit);
        Log { socket, path, policy }
    }

    /// What was sent so far: lines are sent before weir ends.
    fn lines(&self) -> Vec<String> {
        let mut lines = Vec::new();
        let mut bytes = [0; 8192];
        while let Ok(length) = self.socket.recv(&mut bytes) {
            lines.push(String::from_utf8(bytes[..length].to_vec()).unwrap());
        }
        lines
    }

    /// Fills the queue of the socket; how many lines that took.
    fn fill(&self) -> usize {
        let sender = UnixDatagram::unbound().unwrap();
        sender.set_nonblocking(true).unwrap();
        let sent = (0..100_000).find(|_| match sender.send_to(b"full", &self.path) {
            Ok(_) => false,
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::WouldBlock);
                true
            }
        });
        sent.unwrap()
    }
}

fn policy(scene: &Scene, audit: &str) -> PathBuf {
    let socket = scene.folder.path().join("log");
    let text = format!(
        "audit = \"{audit}\"\naudit_socket = \"{}\"\n[default]\nbudget = \"64MiB\"\n[[allow]]\nusers = [{ALICE}]\n\
         programs = [\"*\"]\n",
        socket.display()
    );
    scene.folder.write("policy.toml", &text)
}

#[track_caller]
fn check_line(line: &str, parts: &[String]) {
    assert!(parts.iter().all(|part| line.contains(part.as_str())), "{parts:#?}\n{line}");
}

#[track_caller]
fn check_refused(output: &Output, parts: &[&str]) {
    let message = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(MACHINE), "{message}");
    assert!(parts.iter().all(|part| message.contains(part)), "{parts:?}:\n{message}");
}

/// The oracle of coreutils.
fn sha256sum(text: &str) -> String {
    let mut command = Command::new("sha256sum");
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    let output = String::from_utf8(child.wait_with_output().unwrap().stdout).unwrap();
    output.split_whitespace().next().unwrap().to_owned()
}

#[test]
fn a_run_is_noted_when_it_attaches_and_when_it_leaves() {
    let Some(scene) = Scene::of(ALICE) else { return };
    let log = Log::new(&scene, "required");
    check_done(&scene.trace(ALICE, &[], &log.policy, "@ = count();"));
    let lines = log.lines();
    assert_eq!(lines.len(), 2, "{lines:#?}");
    let script =
        format!("uprobe:{}:work {{ @ = count(); }} interval:ms:20 {{ exit(); }}", quoted(&scene.program));
    let both = [
        // authpriv.notice of RFC 3164.
        "<85>weir[".to_owned(),
        format!(" uid={ALICE} "),
        format!(" pid={} exe={} build_id=", scene.worker.pid, scene.program.display()),
        format!(" script_sha256={} ", sha256sum(&script)),
        format!("{}:work", scene.program.display()),
    ];
    for (line, event) in lines.iter().zip(["attach", "detach"]) {
        assert!(line.starts_with("<85>weir["), "{line}");
        check_line(line, &both);
        check_line(line, &[format!("]: event={event} ")]);
    }
    check_line(&lines[0], &[" budget=64MiB".into()]);
    scene.worker.end();
}

#[test]
fn a_process_that_ends_while_it_is_traced_is_noted_as_ended() {
    let Some(scene) = Scene::of(ALICE) else { return };
    let log = Log::new(&scene, "wanted");
    let mut command = weir();
    command.args(["trace", "-e", "uprobe:libc:puts { @ = count(); }", "-c", "/bin/echo it ran"]);
    check_done(&command.arg("--policy").arg(&log.policy).output().unwrap());
    let lines = log.lines();
    assert_eq!(lines.len(), 2, "{lines:#?}");
    check_line(&lines[0], &["event=attach user=root uid=0 ".into(), "/echo ".into()]);
    check_line(&lines[1], &["event=end user=root uid=0 ".into(), "/echo ".into()]);
    scene.worker.end();
}

#[test]
fn of_several_processes_each_is_noted_when_it_ends() {
    let Some(scene) = Scene::of(ALICE) else { return };
    let log = Log::new(&scene, "required");
    let second = Worker::start(stranger::command(ALICE, &[], &[], &scene.program));
    let (pids, first) = (format!("{},{}", second.pid, scene.worker.pid), scene.worker.pid);
    let script = format!("{BEGUN} uprobe:{}:work {{ @ = count(); }}", quoted(&scene.program));
    let mut command = stranger::command(ALICE, &[], &[], &scene.weir);
    command.args(["trace", "-e", &script, "-p", &pids, "--policy"]).arg(&log.policy);
    let mut weir = Daemon::spawn(command).unwrap();
    weir.line_with("begun", DEADLINE).unwrap();
    let ended = format!(" pid={} ", second.pid);
    second.end();
    // The other one is traced on.
    let mut lines = Vec::new();
    let is_noted = testkit::wait::until(DEADLINE, || {
        lines.extend(log.lines());
        lines.iter().any(|line| line.contains("event=end ") && line.contains(&ended))
    });
    assert!(is_noted, "{lines:#?}");
    weir.signal(nix::sys::signal::Signal::SIGINT).unwrap();
    assert!(weir.finish(DEADLINE).unwrap().status.success());
    lines.extend(log.lines());
    assert_eq!(lines.len(), 4, "{lines:#?}");
    check_line(&lines[3], &["event=detach ".into(), format!(" pid={first} ")]);
    scene.worker.end();
}

#[test]
fn a_denial_is_noted_with_its_reason() {
    let Some(scene) = Scene::of(ALICE) else { return };
    let log = Log::new(&scene, "wanted");
    let denied = scene.trace(ALICE, &[], &log.policy, "@[str(arg0)] = count();");
    scene.check_denied(&denied, &["read_memory"]);
    let lines = log.lines();
    assert_eq!(lines.len(), 1, "{lines:#?}");
    let pid = format!(" pid={} ", scene.worker.pid);
    check_line(
        &lines[0],
        &[format!("event=denied user=\"\" uid={ALICE} "), pid, "reason=\"user 61701 may not".into()],
    );
    scene.worker.end();
}

#[test]
fn names_of_others_cannot_write_lines_of_their_own() {
    let Some(scene) = Scene::of(ALICE) else { return };
    let log = Log::new(&scene, "required");
    let name = "x\n<85>weir[1]: event=detach uid=0 exe=\"\u{202e}\x1b[2J";
    let program = scene.folder.path().join(name);
    target::copy(&scene.program, &program);
    fs::set_permissions(&program, Permissions::from_mode(0o755)).unwrap();
    let hostile = Worker::start(stranger::command(ALICE, &[], &[], &program));
    let script = "uprobe:libc:puts { @ = count(); } interval:ms:20 { exit(); }";
    let mut command = stranger::command(ALICE, &[], &[], &scene.weir);
    command.args(["trace", "-e", script, "-p", &hostile.pid.to_string(), "--policy"]).arg(&log.policy);
    check_done(&command.output().unwrap());
    let lines = log.lines();
    assert_eq!(lines.len(), 2, "{lines:#?}");
    for line in &lines {
        assert!(line.bytes().all(|byte| (b' '..=b'~').contains(&byte)), "{line:?}");
        let escaped = r#"x\u{a}<85>weir[1]: event=detach uid=0 exe=\"\u{202e}\u{1b}[2J" "#;
        check_line(line, &[escaped.into()]);
    }
    hostile.end();
    scene.worker.end();
}

#[test]
fn what_must_be_noted_and_cannot_be_is_not_traced() {
    let Some(scene) = Scene::of(ALICE) else { return };
    let parts = ["policy.toml requires an audit", "/log: No such file", "nothing is traced", "rsyslog"];
    let policy = policy(&scene, "required");
    check_refused(&scene.trace(ALICE, &[], &policy, "@ = count();"), &parts);
    assert!(scene.is_untouched());
    // Nor does a command run that would be.
    let mut command = weir();
    command.args(["trace", "-e", "uprobe:libc:puts { @ = count(); }", "-c", "/bin/echo it ran"]);
    let output = command.arg("--policy").arg(&policy).output().unwrap();
    check_refused(&output, &parts);
    assert!(!String::from_utf8_lossy(&output.stdout).contains("it ran"));
    // Somebody listens, but not to Alice.
    let log = Log::new(&scene, "required");
    fs::set_permissions(&log.path, Permissions::from_mode(0o600)).unwrap();
    check_refused(&scene.trace(ALICE, &[], &log.policy, "@ = count();"), &["Permission denied"]);
    assert!(scene.is_untouched());
    scene.worker.end();
}

#[test]
fn a_log_that_takes_no_more_is_not_waited_for() {
    let Some(scene) = Scene::of(ALICE) else { return };
    let log = Log::new(&scene, "required");
    assert!(log.fill() > 0);
    let refused = scene.trace(ALICE, &[], &log.policy, "@ = count();");
    check_refused(&refused, &["requires an audit", "/log: Resource temporarily unavailable"]);
    assert!(scene.is_untouched());
    scene.worker.end();
}

#[test]
fn an_audit_that_is_only_wanted_is_told_with_v_where_it_fails() {
    let Some(scene) = Scene::of(ALICE) else { return };
    let policy = policy(&scene, "wanted");
    let quiet = scene.trace(ALICE, &[], &policy, "@ = count();");
    check_done(&quiet);
    let told = |output: &Output| {
        String::from_utf8_lossy(&output.stderr).contains("the audit could not be written: ")
    };
    assert!(!told(&quiet));
    let mut command = weir();
    command.args(["trace", "-v", "-e", "uprobe:libc:puts { @ = count(); }", "-c", "/bin/echo it ran"]);
    let verbose = command.arg("--policy").arg(&policy).output().unwrap();
    check_done(&verbose);
    assert!(told(&verbose), "{verbose:?}");
    scene.worker.end();
}
