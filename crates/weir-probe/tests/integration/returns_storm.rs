//! Probes at returns that come and go while everything happens: threads inside the trampolines, signals at any
//! instruction, exceptions through the frames.

use std::process::Command;
use std::time::Duration;

use testkit::target::{self, Source};
use testkit::{Daemon, wait};
use weir_probe::{Attachment, Target};
use weir_symbols::{Binary, Function};

use crate::sessions::{
    AX, ENTRIES, MATCHED, RETURNS, SP, SUM, arm, program, session, session_of, spoil, value,
};

const DEADLINE: Duration = Duration::from_secs(120);

/// Sixty-four threads in nested calls, exceptions in every third of them, a thousand signals a second that do the same.
const STORM: &str = r#"
    #include <pthread.h>
    #include <signal.h>
    #include <stdio.h>
    #include <stdlib.h>
    #include <sys/time.h>
    #include <unistd.h>
    static volatile int stop;
    struct guard { long *at; ~guard() { ++*at; } };
    extern "C" {
    __attribute__((noinline, noclone)) long leaf(long x) { __asm__ volatile("" : "+r"(x)); if (x % 3 == 0) throw x; return x + 1; }
    __attribute__((noinline, noclone)) long middle(long x, long *left) { guard g = { left }; long r = leaf(x); __asm__ volatile("" : "+r"(r)); return r + 1; }
    __attribute__((noinline, noclone)) long outer(long x) {
        long left = 0, r;
        try { r = middle(x, &left); } catch (long thrown) { r = thrown + 2; }
        if (r != x + 2 || left != 1) abort();
        return r;
    }
    }
    static void handle(int) { if (outer(7) != 9 || outer(8) != 10) abort(); }
    // Pacing alone: the verdict does not depend on it.
    static void *work(void *) { for (long n = 0; !stop; n++) { outer(n); if (n % 16 == 0) usleep(200); } return 0; }
    int main() {
        pthread_t threads[64]; struct sigaction action = {}; struct itimerval each = { { 0, 1000 }, { 0, 1000 } };
        alarm(600); setvbuf(stdout, 0, _IOLBF, 0);
        action.sa_handler = handle; action.sa_flags = SA_RESTART; sigaction(SIGPROF, &action, 0); setitimer(ITIMER_PROF, &each, 0);
        for (auto &thread : threads) pthread_create(&thread, 0, work, 0);
        puts("ready"); getchar(); stop = 1;
        for (auto &thread : threads) pthread_join(thread, 0);
        puts("right"); return 0;
    }
"#;

#[test]
fn probes_come_and_go_under_sixty_four_threads() {
    let path =
        target::build_with("g++", "returns-storm", Source::Text(STORM), &["-O2", "-pthread", "-w", "-xc++"]);
    let mut daemon = Daemon::spawn(Command::new(&path)).unwrap();
    daemon.line_with("ready", DEADLINE).unwrap();
    let binary = Binary::open(&path).unwrap();
    let functions: Vec<(&Binary, &Function)> =
        ["leaf", "middle", "outer"].iter().map(|name| (&binary, binary.find(name).unwrap()[0])).collect();
    let attach = || -> Attachment {
        let target = Target::open(daemon.pid() as i32).unwrap();
        let attachment = arm(target, &functions, &[session_of(0)], &[session(0)]);
        assert_eq!(attachment.probes(), 3, "{:?}", attachment.outcomes());
        attachment
    };
    for round in 0..30 {
        let mut attachment = attach();
        let counted = wait::until(DEADLINE, || value(&attachment, RETURNS) > 2_000);
        assert!(counted, "round {round}: {} returns", value(&attachment, RETURNS));
        let report = attachment.detach().unwrap();
        assert_eq!(report.foreign, [], "round {round}");
        let [entries, returns, matched] = [ENTRIES, RETURNS, MATCHED].map(|index| value(&attachment, index));
        assert!(entries > returns && returns == matched, "round {round}: {entries}, {returns}, {matched}");
    }
    daemon.write("\n").unwrap();
    daemon.line_with("right", DEADLINE).unwrap();
    daemon.finish(DEADLINE).unwrap();
}

/// Half of the calls end by an exception: what is counted is exact once nothing runs any more.
#[test]
fn exceptions_leave_entries_without_returns() {
    const THROWS: &str = r#"
        #include <stdio.h>
        #include <unistd.h>
        extern "C" {
        __attribute__((noinline, noclone)) long leaf(long x) { __asm__ volatile("" : "+r"(x)); if (x % 2) throw x; return x; }
        __attribute__((noinline, noclone)) long around(long x) { long r = leaf(x); __asm__ volatile("" : "+r"(r)); return r + 1; }
        }
        int main() {
            setvbuf(stdout, 0, _IOLBF, 0); alarm(600); puts("ready"); getchar();
            long sum = 0; for (long i = 0; i < 20000; i++) try { sum += around(i); } catch (long thrown) { sum += 5; }
            printf("sum %ld\n", sum); getchar(); return 0;
        }
    "#;
    let path = target::build_with("g++", "returns-throws", Source::Text(THROWS), &["-O2", "-w", "-xc++"]);
    let mut daemon = Daemon::spawn(Command::new(&path)).unwrap();
    daemon.line_with("ready", DEADLINE).unwrap();
    let binary = Binary::open(&path).unwrap();
    let functions = ["leaf", "around"].map(|name| (&binary, binary.find(name).unwrap()[0]));
    let target = Target::open(daemon.pid() as i32).unwrap();
    let results = program(false, &[AX, SP], |asm, _| {
        spoil(asm)?;
        asm.ret()
    });
    let mut attachment = arm(target, &functions, &[session_of(0), session_of(1)], &[session(0), results]);
    daemon.write("\n").unwrap();
    // 0 + 2 + … + 19998, one more for each, and 5 for each exception.
    daemon.line_with("sum 100050000", DEADLINE).unwrap();
    let counted = [ENTRIES, RETURNS, MATCHED].map(|index| value(&attachment, index));
    assert_eq!(counted, [40_000, 20_000, 20_000]);
    assert_eq!(value(&attachment, SUM), 2 * 99_990_000 + 10_000);
    attachment.detach().unwrap();
    daemon.write("\n").unwrap();
    daemon.finish(DEADLINE).unwrap();
}
