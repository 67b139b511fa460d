//! Processes that execute another program: before, while and after they are attached to.

use std::path::Path;
use std::process::Command;

use testkit::Daemon;
use testkit::paths::quoted;
use testkit::stranger::{self, ALICE, Folder};

use crate::life::check::{DEADLINE, Run, counting, obedient, trace, weir};

#[test]
fn a_program_that_a_target_executes_is_attached_to() {
    let path = obedient("life-exec");
    let run = trace(&counting(&path), &["-c", &format!("{} c 5 x w 100 c 7 x w 100 c 9", quoted(&path))]);
    run.check_exact();
    assert_eq!(run.counted().into_values().collect::<Vec<_>>(), [21], "{run:?}");
    let how: Vec<String> = run.processes().into_iter().map(|(_, how, _)| how).collect();
    assert_eq!(how, ["the command", "executed another program", "executed another program"], "{run:?}");
}

#[test]
fn a_program_without_the_probed_functions_is_let_run() {
    let path = obedient("life-away");
    let program = quoted(&path);
    // The shell maps nothing that is probed; what it starts and what it becomes does.
    let run = trace(
        &counting(&path),
        &["--follow", "-c", &format!("sh -c '{program} w 100 c 5; exec {program} w 100 c 3'")],
    );
    run.check_exact();
    assert_eq!(run.counted().len(), 2, "{run:?}");
    // The program becomes one that has nothing to probe, which ends when it is told to: weir has seen by then what it is.
    let mut command = Command::new("sh");
    command.args(["-c", "exec \"$0\" \"$@\" 2>&1"]).arg(weir().get_program());
    command.args(["trace", "-f", "json", "-e", &counting(&path), "--follow"]);
    command.args(["-c", &format!("{program} c 4 f 1 w 100 c 5 . W e")]);
    let mut trace = Daemon::spawn(command).unwrap();
    trace.line_with("executed another program", DEADLINE).unwrap();
    trace.write("\n").unwrap();
    let ended = trace.finish(DEADLINE).unwrap();
    assert!(ended.status.success(), "{ended:?}");
    let run = Run::of(&ended);
    run.check_exact();
    assert!(run.said.iter().any(|line| line == "echoed"), "{run:?}");
}

#[test]
fn a_program_that_the_command_becomes_is_waited_for() {
    let path = obedient("life-wrapped");
    let program = quoted(&path);
    for wrapper in [format!("env {program} w 100 c 3"), format!("sh -c 'exec {program} w 100 c 3'")] {
        let run = trace(&counting(&path), &["-c", &wrapper]);
        run.check_exact();
        assert_eq!(run.counted().into_values().collect::<Vec<_>>(), [3], "{run:?}");
        assert!(run.stderr.contains(" yet; waiting for an exec\n"), "{run:?}");
    }
}

/// Here a policy forbids it; a runtime whose returns are refused is the same.
#[test]
fn a_program_that_is_not_to_be_traced_runs_to_its_end_where_the_command_becomes_it() {
    if !stranger::is_possible() {
        return testkit::skip::skip("policy", "needs root and setpriv, to become somebody else");
    }
    let folder = Folder::new();
    let weir = folder.copy(Path::new(env!("CARGO_BIN_EXE_weir")));
    let forbidden = folder.path().join("forbidden");
    testkit::target::copy(Path::new("/bin/sh"), &forbidden);
    let shell = std::fs::canonicalize("/bin/sh").unwrap();
    let rule = format!("[[allow]]\nusers = [{ALICE}]\nprograms = [{shell:?}]\n");
    let policy = folder.write("policy.toml", &rule);
    for follow in [&[][..], &["--follow"]] {
        let mut command = stranger::command(ALICE, &[], &[], Path::new("/bin/sh"));
        command.args(["-c", "exec \"$0\" \"$@\" 2>&1"]).arg(&weir);
        command.args(["trace", "-e", "uprobe:libc:getenv { @ = count(); }", "--policy"]).arg(&policy);
        command.args(follow).arg("-c");
        command.arg(format!("sh -c 'exec {} -c \"read line; echo finished; exit 7\"'", quoted(&forbidden)));
        let mut trace = Daemon::spawn(command).unwrap();
        trace.line_with("the command runs on, and nothing of it is traced any more", DEADLINE).unwrap();
        trace.write("\n").unwrap();
        let ended = trace.finish(DEADLINE).unwrap();
        assert!(
            ended.stdout.contains("finished\n") && ended.status.code() == Some(7),
            "{follow:?}: {ended:?}"
        );
    }
}

#[test]
fn a_command_that_never_becomes_what_is_probed_is_an_error_at_its_end() {
    let path = obedient("life-unwrapped");
    for (command, help) in
        [("true".to_owned(), "--follow"), (format!("sh -c '{} c 3; true'", quoted(&path)), "--follow")]
    {
        let mut weir = weir();
        weir.args(["trace", "-e", &counting(&path), "-c", &command]);
        let ended = Daemon::spawn(weir).unwrap().finish(DEADLINE).unwrap();
        assert_eq!(ended.status.code(), Some(1), "{ended:?}");
        assert!(ended.stderr.contains("cannot probe work: not-mapped: the command has ended"), "{ended:?}");
        assert!(ended.stderr.contains(help), "{ended:?}");
    }
}

#[test]
fn a_target_that_executes_programs_all_the_time_comes_to_no_harm() {
    // More of them: the soak storms.
    let path = obedient("life-execs");
    for steps in ["r 150 p", "z 20 r 150 p"] {
        let mut command = Command::new(&path);
        command.args(["l"]).args(steps.split(' '));
        let mut target = Daemon::spawn(command).unwrap();
        let mut trace = weir();
        let script = format!("BEGIN {{ printf(\"begun\\n\"); }} {}", counting(&path));
        trace.args(["trace", "-f", "json", "-e", &script, "-p", &target.pid().to_string()]);
        let mut trace = Daemon::spawn(trace).unwrap();
        // It has found the process, and is about to attach to it.
        trace.line_with("begun", DEADLINE).unwrap();
        target.write("\n").unwrap();
        let ended = target.finish(DEADLINE).unwrap();
        assert!(ended.status.success() && ended.stdout.starts_with("pid "), "{ended:?}");
        let ended = trace.finish(DEADLINE).unwrap();
        assert!(ended.status.success(), "{ended:?}");
        let counted: i64 = Run::of(&ended).counted().into_values().sum();
        assert!(counted <= 3000, "{ended:?}");
        // Weir may have come when all of it was over.
        let is_told = ended.stderr.contains("were seen to execute another program");
        // The summary counts only programs that were not held.
        assert!(!is_told || ended.stderr.contains("executed another program;"), "{ended:?}");
    }
}
