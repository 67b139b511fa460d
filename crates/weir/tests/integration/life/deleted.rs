//! Files that are deleted or replaced on disk while a process runs them, as an upgrade of their package does: they are probed
//! as they are in the process. Where weir may not read them any more, it says so, and what helps.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use testkit::Daemon;
use testkit::paths::quoted;
use testkit::stranger::{self, ALICE, Folder};
use testkit::target::{self, Source};

use crate::life::worker::{self, BEGUN, DEADLINE, Worker, counting, number, weir};

/// Another program at the same path.
fn replace(path: &Path) {
    fs::remove_file(path).unwrap();
    target::copy(Path::new("/bin/true"), path);
}

/// Counts 50 calls of `work` in the file that is called `name`.
#[track_caller]
fn check_traced(name: &str, worker: &mut Worker, before: u64) {
    let mut command = weir();
    command.args([
        "trace",
        "-e",
        &counting(&format!("{}:work", quoted(Path::new(name))), true),
        "-p",
        &worker.pid.to_string(),
    ]);
    let mut weir = Daemon::spawn(command).unwrap();
    if weir.line_with("begun", DEADLINE).is_err() {
        panic!("{name}: {:?}", weir.finish(DEADLINE));
    }
    worker.work(50, before + 50);
    weir.signal(nix::sys::signal::Signal::SIGINT).unwrap();
    let ended = weir.finish(DEADLINE).unwrap();
    assert!(ended.status.success(), "{name}: {ended:?}");
    let counts = (number(&ended.stdout, "@calls"), number(&ended.stdout, "@returns"));
    assert_eq!(counts, (Some(50), Some(50)), "{name}");
    worker.work(5, before + 55);
}

#[test]
fn a_program_that_was_deleted_or_replaced_is_probed_by_all_of_its_names() {
    for then in [|path: &Path| fs::remove_file(path).unwrap(), replace] {
        let folder = Folder::new();
        let program = folder.copy(&worker::program());
        let mut worker = Worker::start(Command::new(&program));
        then(&program);
        let (own, pid) = (program.display().to_string(), worker.pid);
        let name = program.file_name().unwrap().display().to_string();
        let dotted = format!("{}/./{name}", folder.path().display());
        for (round, name) in [own, format!("/proc/{pid}/exe"), name, dotted].into_iter().enumerate() {
            check_traced(&name, &mut worker, 55 * round as u64);
        }
        worker.end();
    }
}

/// Calls `probed` of a library at each line.
const CALLER: &str = r#"
    #include <stdio.h>
    #include <unistd.h>
    extern int probed(int);
    int main(void) {
        alarm(600); setvbuf(stdout, 0, _IOLBF, 0);
        puts("ready");
        for (int c; (c = getchar()) != EOF;) if (c == '\n') printf("%d\n", probed(1));
        return 0;
    }
"#;
const LIBRARY: &str =
    "__attribute__((noinline)) int probed(int x) { __asm__ volatile(\"\" : \"+r\"(x)); return x * 3 + 1; }";

#[test]
fn a_library_that_was_deleted_is_probed_by_whoever_may_read_it() {
    if !stranger::is_possible() {
        return testkit::skip::skip("deleted-library", "needs root and setpriv, to become somebody else");
    }
    let folder = Folder::new();
    let library =
        folder.copy(&target::build("deleted-library", Source::Text(LIBRARY), &["-O2", "-shared", "-fPIC"]));
    let linked = library.display().to_string();
    let program = folder.copy(&target::build("deleted-caller", Source::Text(CALLER), &["-O2", &linked]));
    let mut caller = Daemon::spawn(stranger::command(ALICE, &[], &[], &program)).unwrap();
    caller.line_with("ready", DEADLINE).unwrap();
    fs::remove_file(&library).unwrap();
    let script = format!("{BEGUN} uprobe:{}:probed {{ @calls = count(); }}", quoted(&library));
    let arguments = ["trace", "-e", &script, "-p", &caller.pid().to_string()];
    let own = folder.copy(Path::new(env!("CARGO_BIN_EXE_weir")));
    let mut command = stranger::command(ALICE, &[], &[], &own);
    let refused = command.args(arguments).stdin(Stdio::null()).output().unwrap();
    let message = String::from_utf8(refused.stderr).unwrap();
    assert_eq!(refused.status.code(), Some(1), "{message}");
    let runs = format!("process {} runs {linked}, which has been deleted or replaced since", caller.pid());
    for part in [&*runs, "restart the process", "as root"] {
        assert!(message.contains(part), "{part:?} is not in {message}");
    }
    let mut command = weir();
    command.args(arguments);
    let mut weir = Daemon::spawn(command).unwrap();
    weir.line_with("begun", DEADLINE).unwrap();
    caller.write("\n\n\n").unwrap();
    (0..3).for_each(|_| assert_eq!(caller.line(DEADLINE).unwrap(), "4"));
    weir.signal(nix::sys::signal::Signal::SIGINT).unwrap();
    let ended = weir.finish(DEADLINE).unwrap();
    assert!(ended.status.success() && number(&ended.stdout, "@calls") == Some(3), "{ended:?}");
    assert!(caller.finish(DEADLINE).unwrap().status.success());
}

#[test]
fn a_link_to_what_is_not_there_is_told_as_one() {
    let folder = Folder::new();
    let program = folder.copy(&worker::program());
    let worker = Worker::start(Command::new(&program));
    fs::remove_file(&program).unwrap();
    let script = format!("uprobe:/proc/{}/exe:work {{ @ = count(); }}", worker.pid);
    let refused = weir().args(["trace", "-e", &script, "-c", "true"]).output().unwrap();
    let message = String::from_utf8(refused.stderr).unwrap();
    assert_eq!(refused.status.code(), Some(1), "{message}");
    let told =
        format!("/proc/{}/exe leads to {} (deleted), which is not there", worker.pid, program.display());
    assert!(message.contains(&told) && !message.contains("did you mean"), "{message}");
    worker.end();
}
