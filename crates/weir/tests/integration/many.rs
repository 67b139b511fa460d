//! Several processes in one run: one set of maps, one stream of records, and each comes, ends and is left for itself.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use nix::sys::signal::Signal;
use testkit::target::{self, Source};
use testkit::{Daemon, mapped, wait};

const DEADLINE: Duration = Duration::from_secs(120);

/// Nobody has this process id: it is above the largest that there may be.
const NOBODY: &str = "1073741808";

/// Calls `work` with 1 to N for each line N. Two programs are built of it, which differ in what they call it.
const SERVER: &str = r#"
    #include <stdio.h>
    #include <stdlib.h>
    #include <unistd.h>
    __attribute__((noinline)) long WORK(long x) { __asm__ volatile("" : "+r"(x)); return x * 3 + 1; }
    int main(void) {
        char line[32];
        alarm(600);
        setvbuf(stdout, 0, _IOLBF, 0);
        puts("ready");
        while (fgets(line, sizeof line, stdin)) {
            long most = atol(line);
            for (long n = 1; n <= most; n++) if (WORK(n) != n * 3 + 1) return 9;
            puts("done");
        }
        return 0;
    }
"#;

struct Server {
    daemon: Daemon,
    path: PathBuf,
}

impl Server {
    fn start(name: &str, function: &str) -> Server {
        let work = format!("-DWORK={function}");
        let path = target::build(name, Source::Text(SERVER), &["-O2", &work]);
        let mut daemon = Daemon::spawn(Command::new(&path)).unwrap();
        daemon.line_with("ready", DEADLINE).unwrap();
        Server { daemon, path }
    }

    fn pid(&self) -> String {
        self.daemon.pid().to_string()
    }

    fn call(&mut self, times: u64) {
        self.daemon.write(&format!("{times}\n")).unwrap();
        self.daemon.line_with("done", DEADLINE).unwrap();
    }

    fn is_as_before(&self) {
        assert_eq!(mapped::of_weir_in(self.daemon.pid()), Vec::<String>::new());
    }

    fn end(self) {
        assert!(self.daemon.finish(DEADLINE).unwrap().status.success());
    }
}

fn trace(script: &str, arguments: &[&str]) -> Command {
    let armed =
        "interval:ms:5 { if (@armed == 0) { @armed = 1; printf(\"armed\\n\"); } } END { clear(@armed); }";
    let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
    command.args(["trace", "-e", &format!("{script} {armed}")]).args(arguments);
    command
}

/// weir, with its probes in.
fn traced(script: &str, arguments: &[&str]) -> Daemon {
    let mut weir = Daemon::spawn(trace(script, arguments)).unwrap();
    weir.line_with("armed", DEADLINE).unwrap();
    weir
}

fn probe(server: &Server) -> String {
    format!("uprobe:\"{}\":work", server.path.display())
}

#[test]
fn processes_of_a_run_count_in_one_map_and_print_in_one_stream() {
    let (mut a, mut b) = (Server::start("many", "work"), Server::start("many", "work"));
    let script = format!(
        "{} {{ @calls = count(); @by[pid] = count(); @args = hist(arg0); if (arg0 == 3) {{ printf(\"three %d\\n\", pid); }} }}",
        probe(&a)
    );
    let weir = traced(&script, &["-p", &format!("{},{}", a.pid(), b.pid())]);
    a.call(100);
    b.call(23);
    a.call(4);
    let pids = [a.pid(), b.pid()];
    // One ends, the other goes on.
    a.end();
    b.call(50);
    b.end();
    let ended = weir.finish(DEADLINE).unwrap();
    assert!(ended.status.success(), "{}", ended.stderr);
    let has = |line: String| assert!(ended.stdout.lines().any(|l| l == line), "{line}: {}", ended.stdout);
    has("@calls: 177".into());
    has(format!("@by[{}]: 104", pids[0]));
    has(format!("@by[{}]: 73", pids[1]));
    let threes = |pid: &str| ended.stdout.lines().filter(|line| *line == format!("three {pid}")).count();
    assert_eq!((threes(&pids[0]), threes(&pids[1])), (2, 2), "{}", ended.stdout);
    // 1 is in every one of the four lines.
    assert!(ended.stdout.contains("[1]                    4 |"), "{}", ended.stdout);
}

/// More than one look takes, while weir is stopped; then it is asked to end, and the target goes on.
#[test]
fn all_that_was_printed_by_the_end_is_read() {
    const CALLS: u64 = 15_000;
    let mut server = Server::start("many", "work");
    let out = testkit::paths::target().join("trace-tests");
    std::fs::create_dir_all(&out).unwrap();
    let out = out.join("by-the-end");
    let _ = std::fs::remove_file(&out);
    let script = format!(
        "{} {{ @calls = count(); printf(\"call %d\\n\", tid); }} END {{ printf(\"the end\\n\"); }}",
        probe(&server)
    );
    let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
    command.args(["trace", "-o"]).arg(&out).args(["-e", &script, "-p", &server.pid().to_string()]);
    let weir = Daemon::spawn(command).unwrap();
    while !std::fs::read_to_string(&out).is_ok_and(|text| text.contains("call ")) {
        server.call(1);
    }
    weir.signal(Signal::SIGSTOP).unwrap();
    server.call(CALLS);
    weir.signal(Signal::SIGINT).unwrap();
    weir.signal(Signal::SIGCONT).unwrap();
    let ended = weir.finish(DEADLINE).unwrap();
    assert!(ended.status.success(), "{}", ended.stderr);
    let text = std::fs::read_to_string(&out).unwrap();
    let calls = text.lines().filter(|line| line.starts_with("call ")).count() as u64;
    let lost: u64 = text
        .lines()
        .filter_map(|line| line.strip_prefix("Lost ")?.strip_suffix(" events")?.parse::<u64>().ok())
        .sum();
    let counted = text.lines().find_map(|line| line.strip_prefix("@calls: ")?.parse::<u64>().ok());
    assert_eq!(counted, Some(calls + lost), "{}", ended.stderr);
    assert!(calls > 2 * 4096 && text.contains("\nthe end\n"), "{calls} calls were printed");
    server.end();
}

#[test]
fn a_process_that_cannot_be_traced_is_left_out_and_told() {
    let mut a = Server::start("many", "work");
    let script = format!("{} {{ @calls = count(); }}", probe(&a));
    let weir = traced(&script, &["-p", NOBODY, "-p", &a.pid()]);
    a.call(12);
    weir.signal(Signal::SIGINT).unwrap();
    let ended = weir.finish(DEADLINE).unwrap();
    assert!(ended.status.success(), "{}", ended.stderr);
    assert!(ended.stdout.contains("@calls: 12"), "{}", ended.stdout);
    let told = format!("weir: process {NOBODY} is not traced:\nweir: no process {NOBODY}\n");
    assert!(ended.stderr.contains(&told), "{}", ended.stderr);
    a.call(1);
    a.is_as_before();
    // Where nothing can be traced, that is the error.
    let output = trace(&script, &["-p", NOBODY]).output().unwrap();
    assert_eq!(output.status.code(), Some(3));
}

#[test]
fn a_process_that_has_not_what_is_probed_is_left_out_and_told() {
    let (mut a, mut b) = (Server::start("many", "work"), Server::start("many-other", "other"));
    let script = format!("{} {{ @calls = count(); }}", probe(&a));
    let weir = traced(&script, &["-p", &a.pid(), "-p", &b.pid()]);
    a.call(3);
    b.call(4);
    weir.signal(Signal::SIGINT).unwrap();
    let ended = weir.finish(DEADLINE).unwrap();
    assert!(ended.status.success(), "{}", ended.stderr);
    assert!(ended.stdout.contains("@calls: 3\n"), "{}", ended.stdout);
    assert!(
        ended.stderr.contains(&format!("weir: process {} is not traced:\n", b.pid())),
        "{}",
        ended.stderr
    );
    b.call(1);
    b.is_as_before();
}

#[test]
fn all_processes_of_a_killed_weir_are_restored() {
    let (mut a, mut b) = (Server::start("many", "work"), Server::start("many", "work"));
    let script = format!("{} {{ @calls = count(); }}", probe(&a));
    let weir = traced(&script, &["-p", &a.pid(), "-p", &b.pid()]);
    weir.signal(Signal::SIGKILL).unwrap();
    let _ = weir.finish(DEADLINE);
    let mut detach = Command::new(env!("CARGO_BIN_EXE_weir"));
    let detached = detach.args(["detach", "-p", &format!("{},{}", a.pid(), b.pid())]).output().unwrap();
    assert!(detached.status.success(), "{}", String::from_utf8_lossy(&detached.stderr));
    for server in [&mut a, &mut b] {
        server.call(5);
        assert!(wait::until(DEADLINE, || server.daemon.is_running()));
        server.is_as_before();
    }
}

#[test]
fn where_no_process_is_named_all_that_map_the_binary_are_traced() {
    let mut before = Server::start("anyone", "work");
    let script = format!("{} {{ @by[pid] = count(); }}", probe(&before));
    let weir = traced(&script, &[]);
    before.call(30);
    // One that comes later is held at its start until its probes are in.
    let mut later = Server::start("anyone", "work");
    later.call(12);
    let pids = [before.pid(), later.pid()];
    weir.signal(Signal::SIGINT).unwrap();
    let ended = weir.finish(DEADLINE).unwrap();
    assert!(ended.status.success(), "{}", ended.stderr);
    for (pid, calls) in pids.iter().zip([30, 12]) {
        let line = format!("@by[{pid}]: {calls}");
        assert!(ended.stdout.lines().any(|l| l == line), "{line}: {}{}", ended.stdout, ended.stderr);
    }
    assert!(ended.stderr.contains("no process is named: those"), "{}", ended.stderr);
    before.is_as_before();
    later.is_as_before();
    before.end();
    later.end();
}
