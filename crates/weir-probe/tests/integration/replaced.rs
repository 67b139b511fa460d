//! Functions whose return address is replaced, since they use what lies above it: the same results as unprobed, and
//! every return counted or named.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use nix::sys::signal::SigSet;
use testkit::target::{self, Source};
use testkit::{Daemon, wait};
use weir_probe::launch::Ended;
use weir_probe::limits::{RECORDS, TAIL_DEPTH_MAX};
use weir_probe::{Attachment, Launched, Refusal, Returns, Target};
use weir_symbols::Binary;

use crate::counting::{ENTRIES, RETURNS, arm_sessions, count_of};

const DEADLINE: Duration = Duration::from_secs(120);

/// Everything that can be is replaced.
fn replaced(planned: Result<Returns, Refusal>) -> Result<Returns, Refusal> {
    planned.map(|_| Returns::Replace)
}

fn attach(target: Target, path: &Path, names: &[&str]) -> Attachment {
    let attachment = arm_sessions(target, path, names, replaced);
    assert_eq!(attachment.probes(), names.len(), "{:?}", attachment.outcomes());
    attachment
}

/// Calls; returns; returns that found no record; returns of chains that were too deep.
fn counts(attachment: &Attachment) -> [u64; 4] {
    let counters = attachment.maps().counters();
    [count_of(attachment, ENTRIES), count_of(attachment, RETURNS), counters.no_record, counters.tail_depth]
}

/// Runs the program at `path`, which writes to the file that it is given, unprobed and probed.
fn run(path: &Path, names: &[&str]) -> [u64; 4] {
    use std::sync::atomic::{AtomicU32, Ordering};
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let out = path.with_extension(format!("{}-{number}.out", std::process::id()));
    let take = || {
        let said = std::fs::read_to_string(&out).unwrap();
        std::fs::remove_file(&out).unwrap();
        said
    };
    assert!(Command::new(path).arg(&out).status().unwrap().success());
    let expected = take();
    let command = [path.display().to_string(), out.display().to_string()];
    let (mut launched, exec) = Launched::start(&command, None, SigSet::empty()).unwrap();
    let target = exec.into_target(Some(&[Binary::open(path).unwrap().identity().unwrap()])).unwrap();
    let attachment = attach(target, path, names);
    let mut ended = None;
    let ends = wait::until(DEADLINE, || {
        ended = launched.try_wait();
        ended.is_some()
    });
    assert!(ends, "{} does not end", path.display());
    assert_eq!(ended, Some(Ended::Code(0)), "{}", path.display());
    assert_eq!(take(), expected, "{}", path.display());
    assert!(!expected.is_empty());
    counts(&attachment)
}

const PRELUDE: &str = r#"
    #define _GNU_SOURCE
    #include <pthread.h>
    #include <setjmp.h>
    #include <signal.h>
    #include <stdarg.h>
    #include <stdio.h>
    #include <stdlib.h>
    #include <string.h>
    #include <sys/time.h>
    #include <ucontext.h>
    #include <unistd.h>
    #define PROBED __attribute__((noinline))
    #define HIDE(x) __asm__ volatile("" : "+r"(x))
"#;

fn build(name: &str, body: &str) -> std::path::PathBuf {
    target::build(name, Source::Text(&format!("{PRELUDE}{body}")), &["-O2", "-fno-ipa-cp", "-pthread"])
}

const ARGUMENTS: &str = r#"
    struct big { long a[9]; }; struct odd { char c[21]; };
    PROBED long f_many(long a, long b, long c, long d, long e, long f, long g, long h, long i, double x, char j) {
        return a - b + c * d - e + f * 2 - g * 3 + h * 5 - i * 7 + (long)x + j; }
    PROBED long f_value(struct big b, int n, struct odd o) { long s = n; for (int i = 0; i < 9; i++) s = s * 31 + b.a[i]; return s + o.c[20]; }
    PROBED struct big f_result(struct big b, long n) { for (int i = 0; i < 9; i++) b.a[i] += n; return b; }
    PROBED long double f_floats(double a, double b, double c, double d, double e, double f, double g, double h, double i, long double j) {
        return a - b * c + d - e * f + g - h * i + j; }
    PROBED int f_variadic(int n, ...) { va_list l; va_start(l, n); int s = 0; while (n--) s = s * 7 + va_arg(l, int); va_end(l); return s; }
    PROBED double f_doubles(const char *kinds, ...) {
        va_list l; va_start(l, kinds); double s = 0;
        for (; *kinds; kinds++) s = s * 3 + (*kinds == 'd' ? va_arg(l, double) : va_arg(l, int));
        va_end(l); return s; }
    PROBED int f_forwards(char *to, const char *format, ...) { va_list l; va_start(l, format); int n = vsnprintf(to, 100, format, l); va_end(l); return n; }
    int main(int argc, char **argv) {
        FILE *out = fopen(argv[1], "w");
        for (long i = 0; i < 500; i++) {
            struct big b; struct odd o; char text[100];
            for (int k = 0; k < 9; k++) b.a[k] = i * k; memset(&o, (int)i, sizeof o);
            struct big r = f_result(b, i);
            f_forwards(text, "%ld %d %s %f %c %d %ld %x", i, 2, "three", 4.5, 'f', 6, 7l, 8);
            fprintf(out, "%ld %ld %ld %Lf %d %f %s\n", f_many(i, 2, 3, 4, 5, 6, 7, 8, i, 1.5, 'x'), f_value(b, (int)i, o), r.a[8],
                f_floats(i, 2, 3, 4, 5, 6, 7, 8, i, 2.5L), f_variadic(9, 1, 2, 3, 4, 5, 6, 7, 8, (int)i),
                f_doubles("ddiddiddddddii", 1., 2., 3, 4., 5., 6, 7., 8., 9., 10., 11., 12., 13, (int)i), text);
        }
        fclose(out);
        return 0;
    }
"#;

#[test]
fn arguments_above_the_return_address_are_where_they_were() {
    let names = ["f_many", "f_value", "f_result", "f_floats", "f_variadic", "f_doubles", "f_forwards"];
    for (variant, path) in
        target::matrix("replaced-arguments", Source::Text(&format!("{PRELUDE}{ARGUMENTS}")), &["-pthread"])
    {
        assert_eq!(run(&path, &names), [3500, 3500, 0, 0], "{variant:?}");
    }
}

const JUMPS: &str = r#"
    static jmp_buf back; static volatile long landed;
    PROBED long jumper(long a, long b, long c, long d, long e, long f, long n) { if (n % 10) longjmp(back, 1); return n + a; }
    PROBED long around(long a, long b, long c, long d, long e, long f, long n) { long r = jumper(a, b, c, d, e, f, n); HIDE(r); return r + 1; }
    PROBED long deeper(int depth, long n) { if (depth) { long r = deeper(depth - 1, n); HIDE(r); return r; } return around(1, 2, 3, 4, 5, 6, n); }
    int main(int argc, char **argv) {
        FILE *out = fopen(argv[1], "w");
        volatile long sum = 0;
        for (volatile long n = 0; n < 1000000; n++) {
            if (setjmp(back)) landed++;
            else sum += n % 1000 ? around(1, 2, 3, 4, 5, 6, n) : deeper(n / 1000 % 50, n);
        }
        fprintf(out, "%ld %ld\n", landed, sum);
        fclose(out);
        return 0;
    }
"#;

#[test]
fn a_million_jumps_over_frames_lose_no_record() {
    let path = build("replaced-jumps", JUMPS);
    let [calls, returns, no_record, tail_depth] = run(&path, &["jumper", "around"]);
    // One of ten returns, from both functions.
    assert_eq!([calls, returns, no_record, tail_depth], [2_000_000, 200_000, 0, 0]);
}

const FIBRES: &str = r#"
    #define FIBRES 64
    static ucontext_t main_context[2], fibre[FIBRES]; static char stacks[FIBRES][65536]; static int done[FIBRES]; static long sums[FIBRES];
    static __thread ucontext_t *home;
    PROBED void yields(int k) { ucontext_t *to = home; swapcontext(&fibre[k], to); }
    PROBED long works(int k, long b, long c, long d, long e, long f, long depth) {
        if (depth == 0) { yields(k); return k; }
        long r = works(k, b, c, d, e, f, depth - 1); HIDE(r); yields(k); return r + depth; }
    static void entry(int k) { for (int i = 0; i < 10; i++) sums[k] += works(k, 1, 2, 3, 4, 5, 6); done[k] = 1; setcontext(home); }
    static pthread_barrier_t barrier;
    static void *runs(void *argument) {
        long self = (long)argument; int left = 1;
        // The two threads take turns, so that every fibre goes on, and returns, on both.
        for (int round = 0; round < 200; round++) {
            pthread_barrier_wait(&barrier);
            for (int k = 0; k < FIBRES; k++) {
                if ((k + round) % 2 != self || done[k]) continue;
                ucontext_t here; home = &here; swapcontext(&here, &fibre[k]);
            }
        }
        return 0;
    }
    int main(int argc, char **argv) {
        FILE *out = fopen(argv[1], "w");
        pthread_barrier_init(&barrier, 0, 2);
        for (int k = 0; k < FIBRES; k++) {
            getcontext(&fibre[k]); fibre[k].uc_stack.ss_sp = stacks[k]; fibre[k].uc_stack.ss_size = sizeof stacks[k];
            fibre[k].uc_link = 0; makecontext(&fibre[k], (void (*)(void))entry, 1, k);
        }
        pthread_t other; pthread_create(&other, 0, runs, (void *)1); runs((void *)0); pthread_join(other, 0);
        for (int k = 0; k < FIBRES; k++) fprintf(out, "%d %ld\n", done[k], sums[k]);
        fclose(out);
        return 0;
    }
"#;

#[test]
fn fibres_return_on_whatever_thread_they_go_on() {
    let path = build("replaced-fibres", FIBRES);
    // 64 fibres, 10 times 7 calls.
    assert_eq!(run(&path, &["works"]), [4480, 4480, 0, 0]);
}

const SIGNALS: &str = r#"
    static sigjmp_buf back; static volatile long ticks, jumped; static volatile int inside;
    PROBED long handled(long a, long b, long c, long d, long e, long f, long g) { HIDE(a); return a + g; }
    PROBED long worked(long a, long b, long c, long d, long e, long f, long g) { long r = handled(a, b, c, d, e, f, g) * 2; HIDE(r); return r; }
    static void on(int s) { ticks += worked(0, 1, 2, 3, 4, 5, 1) == 2; if (inside && ticks % 3 == 0) { inside = 0; jumped++; siglongjmp(back, 1); } }
    int main(int argc, char **argv) {
        FILE *out = fopen(argv[1], "w");
        static char stack[65536]; stack_t alternate = { .ss_sp = stack, .ss_size = sizeof stack }; sigaltstack(&alternate, 0);
        struct sigaction action = { .sa_handler = on, .sa_flags = SA_ONSTACK }; sigaction(SIGALRM, &action, 0);
        struct itimerval timer = { { 0, 100 }, { 0, 100 } }; setitimer(ITIMER_REAL, &timer, 0);
        volatile long wrong = 0, calls = 0;
        while (ticks < 3000) {
            if (sigsetjmp(back, 1) == 0) { inside = 1; for (int i = 0; i < 100; i++) { wrong += worked(i, 1, 2, 3, 4, 5, 6) != 2 * (i + 6); calls++; } inside = 0; }
        }
        struct itimerval stop = { { 0, 0 }, { 0, 0 } }; setitimer(ITIMER_REAL, &stop, 0);
        fprintf(out, "wrong %ld\n", wrong);
        fclose(out);
        return 0;
    }
"#;

#[test]
fn handlers_that_jump_out_of_anywhere_lose_no_record() {
    let path = build("replaced-signals", SIGNALS);
    let [calls, returns, no_record, tail_depth] = run(&path, &["handled", "worked"]);
    assert_eq!((no_record, tail_depth), (0, 0));
    // A handler jumps out of at most two calls, once in three ticks.
    assert!(returns <= calls && calls - returns < 2 * 3100, "{calls} calls, {returns} returns");
}

const TAILS: &str = r#"
    PROBED long odd(long n, long b, long c, long d, long e, long f, long g);
    PROBED long even(long n, long b, long c, long d, long e, long f, long g) { HIDE(n); if (!n) return g; return odd(n - 1, b, c, d, e, f, g); }
    PROBED long odd(long n, long b, long c, long d, long e, long f, long g) { HIDE(n); if (!n) return -g; return even(n - 1, b, c, d, e, f, g); }
    int main(int argc, char **argv) {
        FILE *out = fopen(argv[1], "w");
        fprintf(out, "%ld %ld %ld\n", even(10000000, 1, 2, 3, 4, 5, 6), even(3, 1, 2, 3, 4, 5, 6), odd(0, 1, 2, 3, 4, 5, 6));
        fclose(out);
        return 0;
    }
"#;

#[test]
fn ten_million_tail_calls_return_once() {
    let path = build("replaced-tails", TAILS);
    let depth = u64::from(TAIL_DEPTH_MAX) + 1;
    let missed = 10_000_001 - depth;
    assert_eq!(run(&path, &["even", "odd"]), [10_000_006, depth + 5, 0, missed]);
}

/// Threads that wait in a probed function, deep enough that records are short, and are cancelled or end their process.
const WAITERS: &str = r#"
    #include <semaphore.h>
    static sem_t ready; static volatile int go;
    PROBED long waits(long depth, long b, long c, long d, long e, long f, long g) {
        if (!depth) { sem_post(&ready); while (!go) pause(); return 0; }
        long r = waits(depth - 1, b, c, d, e, f, g); HIDE(r); return r + g; }
    static void *runs(void *depth) { return (void *)waits((long)depth, 1, 2, 3, 4, 5, 1); }
    int main(void) {
        char line[100]; long depth; pthread_attr_t attributes;
        pthread_attr_init(&attributes); pthread_attr_setstacksize(&attributes, 64 << 20);
        sem_init(&ready, 0, 0); signal(SIGUSR1, SIG_IGN); puts("ready"); fflush(stdout);
        while (fgets(line, sizeof line, stdin)) {
            if (sscanf(line, "cancel %ld", &depth) == 1) {
                pthread_t thread; void *result;
                pthread_create(&thread, &attributes, runs, (void *)depth); sem_wait(&ready);
                pthread_cancel(thread); pthread_join(thread, &result);
                printf("cancelled %d\n", result == PTHREAD_CANCELED);
            } else if (sscanf(line, "call %ld", &depth) == 1) {
                go = 1; long sum = waits(depth, 1, 2, 3, 4, 5, 1); go = 0;
                printf("called %ld\n", sum); sem_wait(&ready);
            }
            fflush(stdout);
        }
        return 0;
    }
"#;

#[test]
fn records_of_ended_threads_are_swept() {
    let path = build("replaced-waiters", WAITERS);
    let mut command = Command::new(&path);
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut daemon = Daemon::spawn(command).unwrap();
    daemon.line_with("ready", DEADLINE).unwrap();
    let mut attachment = attach(Target::open(daemon.pid() as i32).unwrap(), &path, &["waits"]);
    let deep = u64::from(RECORDS) * 2;
    daemon.write(&format!("cancel {deep}\n")).unwrap();
    daemon.line_with("cancelled 1", DEADLINE).unwrap();
    let [calls, returns, no_record, _] = counts(&attachment);
    assert_eq!((calls, returns), (deep + 1, 0));
    assert!(no_record > u64::from(RECORDS) / 2, "{no_record}");
    // Most records belong to the thread that has ended.
    assert!(attachment.sweep().unwrap() > RECORDS as usize / 2);
    assert_eq!(attachment.sweep().unwrap(), 0);
    daemon.write("call 500\n").unwrap();
    daemon.line_with("called 500", DEADLINE).unwrap();
    let [_, returns, after, _] = counts(&attachment);
    assert_eq!((returns, after), (501, no_record));
    let report = attachment.detach().unwrap();
    assert_eq!((report.restored, report.left_mapped), (1, false), "{report:?}");
    daemon.write("call 500\n").unwrap();
    daemon.line_with("called 500", DEADLINE).unwrap();
}

#[test]
fn calls_that_wait_come_back_after_probes_are_gone() {
    let text = r#"
        PROBED long waits(long a, long b, long c, long d, long e, long f, long g) { char line[10]; puts("waits"); fflush(stdout);
            long n = fgets(line, 10, stdin) ? line[0] : 0; HIDE(n); return n + g; }
        int main(void) { for (;;) { long n = waits(1, 2, 3, 4, 5, 6, 7); printf("got %ld\n", n); fflush(stdout); if (n == 7) return 0; } }
    "#;
    let path = build("replaced-waits", text);
    let mut command = Command::new(&path);
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut daemon = Daemon::spawn(command).unwrap();
    daemon.line_with("waits", DEADLINE).unwrap();
    let mut attachment = attach(Target::open(daemon.pid() as i32).unwrap(), &path, &["waits"]);
    daemon.write("a\n").unwrap();
    daemon.line_with("got 104", DEADLINE).unwrap();
    daemon.line_with("waits", DEADLINE).unwrap();
    // It waits in a call that returns to a stub.
    assert!(attachment.detach().unwrap().left_mapped);
    daemon.write("b\n").unwrap();
    daemon.line_with("got 105", DEADLINE).unwrap();
    daemon.line_with("waits", DEADLINE).unwrap();
    let maps = || std::fs::read_to_string(format!("/proc/{}/maps", daemon.pid())).unwrap();
    assert!(maps().contains("memfd:weir-records"));
    // The next weir takes out what stayed.
    weir_probe::restore::detach(daemon.pid() as i32).unwrap();
    assert!(!maps().contains("memfd:weir-"), "{}", maps());
    daemon.write("c\n").unwrap();
    daemon.line_with("got 106", DEADLINE).unwrap();
}

#[test]
fn children_come_back_through_records_of_their_own() {
    let text = r#"
        #include <sys/wait.h>
        static volatile long sum;
        PROBED long forks(long depth, long b, long c, long d, long e, long f, long g) {
            if (!depth) { pid_t pid = fork(); if (pid) { int status; waitpid(pid, &status, 0); sum += WEXITSTATUS(status); } return pid ? 1 : 0; }
            long r = forks(depth - 1, b, c, d, e, f, g); HIDE(r); return r ? r + 1 : 0; }
        int main(int argc, char **argv) {
            FILE *out = fopen(argv[1], "w");
            for (int i = 0; i < 50; i++) { long r = forks(i % 9, 1, 2, 3, 4, 5, 6); if (!r) _exit(forks(0, 1, 2, 3, 4, 5, 6) ? 3 : 4); sum += r; }
            fprintf(out, "%ld\n", sum);
            fclose(out);
            return 0;
        }
    "#;
    let path = build("replaced-forks", text);
    let [calls, returns, no_record, _] = run(&path, &["forks"]);
    // Children run unprobed, and so do theirs.
    assert_eq!((calls, returns, no_record), (calls, calls, 0));
    assert_eq!(calls, (0..50).map(|i| i % 9 + 1).sum::<u64>());
}
