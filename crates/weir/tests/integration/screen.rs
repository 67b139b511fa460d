//! `weir trace --live` on a terminal: a table on a screen of its own, and the terminal as it was whichever way the run ends.

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use testkit::Daemon;
use testkit::target::{self, Source};
use testkit::terminal::OnTerminal;

const DEADLINE: Duration = Duration::from_secs(60);

const CALLER: &str = r#"
    #include <stdio.h>
    #include <unistd.h>
    __attribute__((noinline)) unsigned probed(unsigned x) { __asm__ volatile("" : "+r"(x)); return x * 3 + 1; }
    int main(void) {
        puts("ready"); fflush(stdout);
        /* Pacing alone: the verdict does not depend on it. */
        for (unsigned sum = 0;; usleep(1000)) for (unsigned i = 0; i < 100; i++) sum += probed(i);
    }
"#;

/// Sequences of xterm: its other screen, and whether the cursor is there.
const ENTER: &str = "\x1b[?1049h";
const LEAVE: &str = "\x1b[?1049l";
const HIDE: &str = "\x1b[?25l";
const SHOW: &str = "\x1b[?25h";

fn caller() -> (PathBuf, Daemon) {
    let program = target::build("screen-caller", Source::Text(CALLER), &["-O2"]);
    let mut caller = Daemon::spawn(Command::new(&program)).unwrap();
    caller.line_with("ready", DEADLINE).unwrap();
    (program, caller)
}

/// A table is drawn until `end` does something about it; then weir ends well, and nothing is left of it on the terminal.
#[track_caller]
fn check(end: impl FnOnce(&mut OnTerminal, Daemon) -> Option<Daemon>) {
    let (program, caller) = caller();
    let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
    let script = format!("uprobe:\"{}\":probed {{ @ = count(); }}", program.display());
    command.args(["trace", "--live", "-e", &script, "-p", &caller.pid().to_string()]);
    command.env("TERM", "xterm-256color").env("NO_COLOR", "1").stdout(Stdio::null());
    // So wide that the whole path is shown.
    let mut weir = OnTerminal::spawn(command, 24, 800).unwrap();
    for words in [ENTER, "PROBE", "HITS/S", "NS/HIT", "SHARE", "STATE", ":probed", "armed", "largest"] {
        assert!(weir.shows(words, DEADLINE), "no {words:?} in {:?}", weir.shown());
    }
    assert_ne!(&weir.settings().unwrap(), weir.initial_settings(), "keys wait for a line");
    let caller = end(&mut weir, caller);
    let ended = weir.finish(DEADLINE);
    let shown = weir.shown();
    assert_eq!(ended.and_then(|status| status.code()), Some(0), "{shown:?}");
    assert_eq!(&weir.settings().unwrap(), weir.initial_settings());
    assert!(shown.rfind(LEAVE) > shown.rfind(ENTER), "its screen stays: {shown:?}");
    assert!(shown.rfind(SHOW) > shown.rfind(HIDE), "the cursor is gone: {shown:?}");
    // It was probed, and lives on.
    if let Some(caller) = caller {
        assert!(kill(Pid::from_raw(caller.pid() as i32), None).is_ok());
    }
}

#[test]
fn q_ends_the_table() {
    check(|weir, caller| {
        weir.press("q").unwrap();
        Some(caller)
    });
}

#[test]
fn ctrl_c_is_a_key_that_ends_the_table() {
    check(|weir, caller| {
        weir.press("\x03").unwrap();
        Some(caller)
    });
}

#[test]
fn a_signal_ends_the_table() {
    check(|weir, caller| {
        kill(Pid::from_raw(weir.pid() as i32), Signal::SIGTERM).unwrap();
        Some(caller)
    });
}

#[test]
fn the_end_of_the_program_ends_the_table() {
    check(|_, caller| {
        drop(caller);
        None
    });
}
