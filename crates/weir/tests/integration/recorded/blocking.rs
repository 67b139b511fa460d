//! `--blocking`: a thread that finds its ring full waits for room. Nothing is lost while weir reads, and nobody waits for long where it does
//! not: stopped, gone, or held up by what a signal handler has interrupted.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use testkit::target::{self, Source};
use testkit::{Daemon, paths, wait};

use crate::recorded::emitters::{DEADLINE, Place, Plan};
use crate::recorded::exact::{number_before, record};
use crate::recorded::found::Found;

/// For each line with a number it emits so many events, on `h` in a signal handler, and prints `done`.
const PROGRAM: &str = r#"
    #include <signal.h>
    #include <stdio.h>
    #include <stdlib.h>
    #include "weir/tracepoint.h"
    static long n;
    static void emit(int signal) { WEIR_TRACEPOINT(block, one, (long, n, n)); n++; }
    int main(void) {
        char line[64];
        signal(SIGUSR1, emit);
        puts("ready"); fflush(stdout);
        while (fgets(line, sizeof line, stdin)) {
            int handled = line[0] == 'h';
            for (long left = atol(line + handled); left > 0; left--) { if (handled) raise(SIGUSR1); else emit(0); }
            puts("done"); fflush(stdout);
        }
        return 0;
    }
"#;

fn program() -> PathBuf {
    let include = paths::root().join("include");
    target::build("blocks", Source::Text(PROGRAM), &["-O1", "-I", include.to_str().unwrap()])
}

/// A recording of the program, in rings that are small, and what it came to.
struct Recording {
    weir: Daemon,
    program: Daemon,
    folder: PathBuf,
}

impl Recording {
    fn start(name: &str, timeout: &str) -> Recording {
        let mut program = Daemon::spawn(Command::new(program())).unwrap();
        program.line_with("ready", DEADLINE).unwrap();
        let folder = paths::fresh("blocking", name);
        let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
        command
            .args(["record", "--size", "64K", &format!("--blocking={timeout}"), "-e", "block:*", "-o"])
            .arg(&folder);
        command.args(["-p", &program.pid().to_string()]);
        let weir = Daemon::spawn(command).unwrap();
        let mut recording = Recording { weir, program, folder };
        // Its gates are open.
        let counted = |recording: &mut Recording| {
            recording.emit("1");
            let text =
                Command::new(env!("CARGO_BIN_EXE_weir")).arg("view").arg(&recording.folder).output().unwrap();
            !text.stdout.is_empty()
        };
        assert!(wait::until(DEADLINE, || counted(&mut recording)), "never recorded");
        recording
    }

    fn emit(&mut self, what: &str) -> Duration {
        let start = Instant::now();
        self.program.write(&format!("{what}\n")).unwrap();
        self.program.line_with("done", DEADLINE).unwrap();
        start.elapsed()
    }

    fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.weir.pid() as i32), signal).unwrap();
    }

    /// What weir says at the end.
    fn end(self) -> String {
        self.signal(Signal::SIGINT);
        let ended = self.weir.finish(DEADLINE).unwrap();
        assert!(self.program.finish(DEADLINE).unwrap().status.success());
        std::fs::remove_dir_all(Path::new(&self.folder)).unwrap();
        ended.stderr
    }
}

/// Sixteen threads write as fast as they can into rings of a sixteenth of a megabyte.
#[test]
fn nothing_is_lost_to_full_rings() {
    let plan = Plan { threads: 16, count: 10_000, children: 0, events: 0, signals_us: 0, pause_us: 0 };
    let place = Place::new("blocking");
    let (said, ledger) = record(&plan, &place, &["--size", "64K", "--blocking=60s", "-t", "vpid,vtid"]);
    let found = Found::read(&place.trace());
    assert_eq!(found.damage, Vec::<String>::new(), "{said}");
    found.is_all_of(&ledger);
    assert_eq!(number_before(&said, " events recorded"), found.recorded(), "{said}");
    assert!(!said.contains("the ring was full"), "{said}");
}

/// One event waits for the whole time, and none after it until weir reads again. What did not fit is counted.
#[test]
fn a_weir_that_does_not_read_is_waited_for_once() {
    let mut recording = Recording::start("stopped", "2s");
    recording.signal(Signal::SIGSTOP);
    let took = recording.emit("20000");
    assert!(took >= Duration::from_secs(1), "{took:?}: it did not wait");
    // Each of the others would have waited as long.
    assert!(took < Duration::from_secs(60), "{took:?}");
    recording.signal(Signal::SIGCONT);
    let said = recording.end();
    assert!(said.contains("discarded: the ring was full"), "{said}");
}

#[test]
fn a_weir_that_is_gone_is_not_waited_for() {
    let mut recording = Recording::start("gone", "60min");
    recording.signal(Signal::SIGSTOP);
    recording.program.write("100000\n").unwrap();
    recording.signal(Signal::SIGKILL);
    recording.program.line_with("done", DEADLINE).unwrap();
    let detach = Command::new(env!("CARGO_BIN_EXE_weir"))
        .args(["detach", "-p", &recording.program.pid().to_string()])
        .output();
    assert!(detach.unwrap().status.success());
    assert!(recording.program.finish(DEADLINE).unwrap().status.success());
}

#[test]
fn a_signal_handler_does_not_wait() {
    let mut recording = Recording::start("handler", "60min");
    recording.signal(Signal::SIGSTOP);
    recording.emit("h20000");
    recording.signal(Signal::SIGCONT);
    let said = recording.end();
    assert!(said.contains("discarded: the ring was full"), "{said}");
}
