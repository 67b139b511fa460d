//! A weir that is stopped (SIGSTOP) at any moment does not hold what it traces: the process runs on, and the weir too when it is continued.

use std::fs;
use std::os::unix::process::ExitStatusExt as _;
use std::process::Command;
use std::time::Duration;

use nix::sys::signal::Signal;
use testkit::paths::quoted;
use testkit::target::{self, Source};
use testkit::{Daemon, random, wait};

use crate::life::check::{DEADLINE, weir};

const STOPS: u64 = 20;
/// Longer than a weir takes from its start until it has attached, so that some are stopped before, amid and after.
const ATTACHED_AFTER_US: u64 = 60_000;

/// Threads that sleep in the kernel, and some that call the probed function; it says how often until a line comes.
const CROWD: &str = r#"
    #include <pthread.h>
    #include <stdio.h>
    #include <unistd.h>
    static volatile int ends;
    static volatile long calls[64];
    __attribute__((noinline)) int work(int x) { __asm__ volatile("" : "+r"(x)); return x * 3 + 1; }
    static void *run(void *number) {
        /* Pacing alone: the verdict does not depend on it. */
        for (long n = (long)number; !ends; usleep(n < 4 ? 100 : 5000)) if (n < 4) { work(1); calls[n]++; }
        return 0;
    }
    int main(void) {
        pthread_t threads[64]; char line[8];
        alarm(600);
        for (long n = 0; n < 64; n++) pthread_create(&threads[n], 0, run, (void *)n);
        puts("ready"); fflush(stdout);
        while (fgets(line, sizeof line, stdin)) { printf("calls %ld\n", calls[0]); fflush(stdout); }
        ends = 1;
        for (int n = 0; n < 64; n++) pthread_join(threads[n], 0);
        return 0;
    }
"#;

/// No thread of the process is traced.
fn is_free(pid: u32) -> bool {
    let Ok(tasks) = fs::read_dir(format!("/proc/{pid}/task")) else { return false };
    let status = |task: fs::DirEntry| fs::read_to_string(task.path().join("status")).unwrap_or_default();
    tasks.flatten().all(|task| status(task).lines().any(|line| line == "TracerPid:\t0"))
}

#[test]
fn a_weir_that_is_stopped_at_any_moment_holds_nobody() {
    let path = target::build("life-stopped", Source::Text(CROWD), &["-O2", "-pthread"]);
    let mut crowd = Daemon::spawn(Command::new(&path)).unwrap();
    crowd.line_with("ready", DEADLINE).unwrap();
    let script = format!("uprobe:{}:work {{ @ = count(); }}", quoted(&path));
    let (seed, stops) = random::seed_and_count("WEIR_STOPPED", (1, STOPS));
    let mut state = random::state(seed);
    for stop in 0..stops {
        let mut tracer = weir();
        tracer.args(["trace", "-e", &script, "-p", &crowd.pid().to_string()]);
        let mut tracer = Daemon::spawn(tracer).unwrap();
        // A random moment: the verdict does not depend on which.
        std::thread::sleep(Duration::from_micros(random::next(&mut state) % ATTACHED_AFTER_US));
        tracer.signal(Signal::SIGSTOP).unwrap();
        assert!(wait::until(DEADLINE, || is_free(crowd.pid())), "stop {stop}: a thread is held");
        // It runs: it answers, and its threads go on.
        let mut ask = || {
            crowd.write("\n").unwrap();
            crowd.line_with("calls ", DEADLINE).unwrap()
        };
        let before = ask();
        assert!(wait::until(DEADLINE, || ask() != before), "stop {stop}: its threads stand still");
        tracer.signal(Signal::SIGTERM).unwrap();
        // The watchdog that has let it release its target stops it again, which may come after any one SIGCONT.
        let has_ended = || {
            let _ = tracer.signal(Signal::SIGCONT);
            !tracer.is_running()
        };
        assert!(wait::until(DEADLINE, has_ended), "stop {stop}: weir does not end");
        let ended = tracer.finish(DEADLINE).unwrap();
        // One that had not begun to handle signals ends by them; one that was stopped while it held threads finds itself late. One that gets no CPU
        // for ten seconds after that is killed by its watchdog.
        let is_late = ended.status.code() == Some(3)
            && ["nothing was changed", "everything was rolled back"]
                .iter()
                .any(|text| ended.stderr.contains(text));
        let is_killed = ended.status.signal() == Some(Signal::SIGKILL as i32);
        let is_expected = ended.status.success() || ended.stdout.is_empty() || is_late || is_killed;
        assert!(is_expected, "stop {stop}: {ended:?}");
        assert!(wait::until(DEADLINE, || is_free(crowd.pid())), "stop {stop}: a thread is held");
    }
    crowd.close_stdin();
    assert!(crowd.finish(DEADLINE).unwrap().status.success());
}
