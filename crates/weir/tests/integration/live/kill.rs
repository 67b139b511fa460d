//! `kill -9`, of weir at every point of its work and of the target: the other side lives on.
//!
//! Points of death: before each ptrace(2) and before each pwrite64(2) (writes of the target's memory), counted by
//! strace, which delivers the signal; and random moments (seed and count from WEIR_KILL_SEED and WEIR_KILLS).

use std::process::{Command, Stdio};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use testkit::paths::quoted;
use testkit::{Daemon, target, wait};
use weir_symbols::{Binary, maps};

use crate::life::worker::BEGUN;
use crate::live::server::{Redis, Traced, number};

const DEADLINE: Duration = Duration::from_secs(120);

/// Calls to try to die at; more than one attach and detach makes.
const CALLS_MAX: usize = 400;

/// Which of them: each of the first ones, and where `WEIR_STOPS` is not set a sixteenth of the rest.
fn points() -> impl Iterator<Item = usize> {
    let is_every = std::env::var_os("WEIR_STOPS").is_some();
    (1..=CALLS_MAX).filter(move |when| is_every || *when <= 12 || when % 16 == 1)
}

fn weir() -> Command {
    Command::new(env!("CARGO_BIN_EXE_weir"))
}

/// A program that calls `work` from four threads until its input ends, and says how often.
const SERVER: &str = r#"
    #include <pthread.h>
    #include <stdio.h>
    #include <unistd.h>
    static volatile int stop; static volatile unsigned long calls[4];
    __attribute__((noinline)) int work(int x) { __asm__ volatile("" : "+r"(x)); return x ^ 5; }
    static void *run(void *arg) {
        long i = (long)arg;
        while (!stop) { if (work(7) != 2) _exit(9); calls[i]++; usleep(20) /* the rate alone: no verdict depends on it */; }
        return 0;
    }
    int main(void) {
        alarm(600);
        pthread_t threads[4];
        for (long i = 0; i < 4; i++) pthread_create(&threads[i], 0, run, (void *)i);
        puts("ready"); fflush(stdout);
        for (int c; (c = getchar()) != EOF;) {
            if (c != '?') continue;
            alarm(600);
            printf("%lu\n", calls[0] + calls[1] + calls[2] + calls[3]); fflush(stdout);
        }
        stop = 1;
        for (int i = 0; i < 4; i++) pthread_join(threads[i], 0);
        return 0;
    }
"#;

struct Server {
    daemon: Daemon,
    binary: Binary,
}

impl Server {
    fn start() -> Server {
        let path = target::build("kill-server", target::Source::Text(SERVER), &["-O2", "-pthread"]);
        let mut daemon = Daemon::spawn(Command::new(&path)).unwrap();
        daemon.line_with("ready", DEADLINE).unwrap();
        Server { daemon, binary: Binary::open(&path).unwrap() }
    }

    fn pid(&self) -> u32 {
        self.daemon.pid()
    }

    fn script(&self) -> String {
        format!("uprobe:{}:work {{ @ = count(); }}", quoted(self.binary.path()))
    }

    /// Every thread still works.
    fn lives(&mut self) {
        let before = self.calls();
        assert!(wait::until(DEADLINE, || self.calls() > before + 20), "the server stands still");
    }

    fn calls(&mut self) -> u64 {
        self.daemon.write("?").unwrap();
        self.daemon.line(DEADLINE).unwrap().trim().parse().unwrap()
    }

    fn is_patched(&self) -> bool {
        let function = self.binary.find("work").unwrap()[0];
        let mappings = maps::read(self.pid()).unwrap();
        let at = maps::to_virtual(&mappings, self.binary.identity().unwrap(), &self.binary, function.address)
            .unwrap();
        let memory = std::fs::File::open(format!("/proc/{}/mem", self.pid())).unwrap();
        let mut bytes = vec![0; function.size as usize];
        std::os::unix::fs::FileExt::read_exact_at(&memory, &mut bytes, at.0).unwrap();
        Some(&bytes[..]) != self.binary.bytes(function.address, bytes.len())
    }

    fn has_segment(&self) -> bool {
        !testkit::mapped::of_weir_in(self.pid()).is_empty()
    }
}

#[test]
fn the_target_outlives_a_weir_killed_at_any_call() {
    if !Command::new("strace").arg("-V").output().is_ok_and(|output| output.status.success()) {
        return testkit::skip::skip("kill", "strace is not installed");
    }
    let mut server = Server::start();
    let mut died = 0;
    for call in ["ptrace", "pwrite64"] {
        for when in points() {
            let survived = die_at(&server, call, when);
            server.lives();
            let had_segment = server.has_segment();
            let detach = weir().args(["detach", "-p", &server.pid().to_string()]).output().unwrap();
            let message = String::from_utf8_lossy(&detach.stderr).into_owned();
            let is_nothing_to_undo = message.contains("has no weir probes");
            assert!(detach.status.success() || is_nothing_to_undo, "{call} {when}: {message}");
            assert!(!server.is_patched(), "{call} {when}: {had_segment} {message}");
            server.lives();
            if survived {
                break;
            }
            died += 1;
            assert!(when + 5 < CALLS_MAX, "weir makes more than {CALLS_MAX} calls of {call}");
        }
    }
    assert!(died > 20, "only {died} points of death were found");
    // After all that, the process can be traced as ever.
    let text = traced_for_a_while(&server);
    assert!(number(&text, "@") > 0, "{text}");
}

/// Runs weir under strace, which kills it before its `when`-th `call`; true if it came to its end first.
fn die_at(server: &Server, call: &str, when: usize) -> bool {
    let mut command = Command::new("strace");
    command.args(["-qq", "-o", "/dev/null", "-e", &format!("trace={call}")]);
    command.args(["-e", &format!("inject={call}:signal=SIGKILL:when={when}")]);
    command.arg(env!("CARGO_BIN_EXE_weir"));
    command.args(["trace", "-e", &format!("{} interval:ms:30 {{ exit() }}", server.script())]);
    command.args(["-p", &server.pid().to_string()]);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().unwrap().success()
}

fn traced_for_a_while(server: &Server) -> String {
    let script = format!("{} interval:ms:100 {{ exit() }}", server.script());
    let output = weir().args(["trace", "-e", &script, "-p", &server.pid().to_string()]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn the_server_outlives_a_weir_killed_at_random() {
    let setting = |name: &str, default: u64| {
        std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
    };
    let (kills, mut random) = (setting("WEIR_KILLS", 5), setting("WEIR_KILL_SEED", 1));
    let Some(redis) = Redis::start("kill-random") else { return };
    let mut load = redis.load();
    let script = "uprobe:redis-server:processCommand { @commands = count(); } \
                  uprobe:libjemalloc.so.2:malloc { @mallocs = count(); }";
    for round in 0..kills {
        let mut command = weir();
        command.args(["trace", "-e", script, "-p", &redis.pid().to_string()]);
        let weir = Daemon::spawn(command).unwrap();
        random = random.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        // A moment like any other: the verdict does not depend on it.
        std::thread::sleep(Duration::from_micros((random >> 33) % 120_000));
        kill(Pid::from_raw(weir.pid() as i32), Signal::SIGKILL).unwrap();
        weir.finish(DEADLINE).unwrap();
        assert!(redis.answers(), "round {round}");
        if round % 2 == 0 {
            // The next weir takes over.
            let traced = Traced::start(&redis, "kill-random", script);
            redis.has_processed(1000);
            let text = traced.stop();
            assert!(number(&text, "@commands") > 0, "round {round}: {text}");
        } else {
            let _ = self::weir().args(["detach", "-p", &redis.pid().to_string()]).output().unwrap();
        }
        assert_eq!(redis.text(), redis.text_of_files(), "round {round}");
        assert!(redis.answers(), "round {round}");
    }
    assert!(load.is_running(), "the load ended before the test");
}

#[test]
fn what_a_killed_target_was_counted_is_printed() {
    let mut server = Server::start();
    let mut command = weir();
    let script = format!("{BEGUN} {}", server.script());
    command.args(["trace", "-e", &script, "-p", &server.pid().to_string()]);
    let mut weir = Daemon::spawn(command).unwrap();
    weir.line_with("begun", DEADLINE).unwrap();
    assert!(server.is_patched());
    let before = server.calls();
    assert!(wait::until(DEADLINE, || server.calls() > before + 2000), "the server stands still");
    kill(Pid::from_raw(server.pid() as i32), Signal::SIGKILL).unwrap();
    let ended = weir.finish(DEADLINE).unwrap();
    assert!(ended.status.success(), "{}", ended.stderr);
    assert!(number(&ended.stdout, "@") > 100, "{}", ended.stdout);
}

#[test]
fn every_failing_call_leaves_the_target_as_it_was() {
    if !Command::new("strace").arg("-V").output().is_ok_and(|output| output.status.success()) {
        return testkit::skip::skip("fail", "strace is not installed");
    }
    let mut server = Server::start();
    for (call, errno) in [("ptrace", "EIO"), ("pwrite64", "EIO"), ("pidfd_getfd", "EPERM")] {
        for when in points() {
            let log = testkit::paths::target().join("fail-trace.txt");
            let mut command = Command::new("strace");
            command.arg("-qq").arg("-o").arg(&log).args(["-e", &format!("trace={call}")]);
            command.args(["-e", &format!("inject={call}:error={errno}:when={when}")]);
            command.arg(env!("CARGO_BIN_EXE_weir"));
            command.args(["trace", "-e", &format!("{} interval:ms:20 {{ exit() }}", server.script())]);
            command.args(["-p", &server.pid().to_string()]);
            let output = command.stdin(Stdio::null()).output().unwrap();
            let message = String::from_utf8_lossy(&output.stderr);
            assert!(!message.contains("panicked"), "{call} {when}: {message}");
            server.lives();
            // A failed restore is what `weir detach` is for.
            let _ = weir().args(["detach", "-p", &server.pid().to_string()]).output().unwrap();
            assert!(!server.is_patched(), "{call} {when}");
            if !std::fs::read_to_string(&log).unwrap().contains("(INJECTED)") {
                assert!(when > 1, "weir makes no call of {call}");
                assert!(output.status.success(), "{call} {when}: {message}");
                break;
            }
        }
    }
    server.lives();
}
