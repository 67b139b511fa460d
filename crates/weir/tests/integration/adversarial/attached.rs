//! A process that somebody else holds, by gdb or strace, is refused with one clear message, and is as it was.

use std::process::Command;

use testkit::paths::quoted;
use testkit::target::{self, Source, is_installed};
use testkit::{Daemon, mapped, skip, wait};

use crate::adversarial::check::DEADLINE;

const PROGRAM: &str = r#"
    #include <stdio.h>
    __attribute__((noinline)) int work(int x) { __asm__ volatile("" : "+r"(x)); return x + 1; }
    int main(void) { puts("ready"); fflush(stdout); for (int c; (c = getchar()) != EOF;) if (work(c) != c + 1) return 1; return 0; }
"#;

/// The process that traces `pid`, 0 for nobody.
fn tracer(pid: u32) -> u32 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("TracerPid:"));
    line.and_then(|number| number.trim().parse().ok()).unwrap_or(0)
}

/// `holder` is told the process, and keeps it until its standard input ends.
#[track_caller]
fn check(name: &str, holder: impl Fn(u32) -> Command) {
    if !is_installed(name) {
        return skip::skip("already-traced", format!("{name} is not installed"));
    }
    let path = target::build("held", Source::Text(PROGRAM), &["-O2"]);
    let mut program = Daemon::spawn(Command::new(&path)).unwrap();
    program.line_with("ready", DEADLINE).unwrap();
    let holding = Daemon::spawn(holder(program.pid())).unwrap();
    assert!(wait::until(DEADLINE, || tracer(program.pid()) != 0), "{name} does not attach");
    let script = format!("uprobe:{}:work {{ @ = count(); }}", quoted(&path));
    let mut weir = Command::new(env!("CARGO_BIN_EXE_weir"));
    let refused = weir.args(["trace", "-e", &script, "-p", &program.pid().to_string()]).output().unwrap();
    let message = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success(), "{name}: {message}");
    let tracer = tracer(program.pid());
    let expected = format!("process {} is already traced by process {tracer}", program.pid());
    assert!(message.contains(&expected), "{name}: {message}");
    assert_eq!(mapped::of_weir_in(program.pid()), Vec::<String>::new(), "{name}");
    let _ = holding.finish(DEADLINE);
    program.write("abc").unwrap();
    assert!(program.finish(DEADLINE).unwrap().status.success(), "{name}");
}

#[test]
fn gdb_holds_the_process() {
    check("gdb", |pid| {
        let mut command = Command::new("gdb");
        command.args(["-q", "-nx", "-p", &pid.to_string()]);
        command
    });
}

#[test]
fn strace_holds_the_process() {
    // Ends with the process that it traces, or when it is told to.
    check("strace", |pid| {
        let mut command = Command::new("sh");
        command.args(["-c", "strace -o /dev/null -p $0 & read x; kill $!; wait", &pid.to_string()]);
        command
    });
}
