//! Programs at the entry and at the return of functions that are called through.
//!
//! Each target says what it saw, which must be the same as unprobed; what it was not asked is counted by the programs.

use crate::sessions;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use iced_x86::code_asm::{CodeLabel, qword_ptr, rax, rcx, rsp, word_ptr};
use nix::sys::signal::SigSet;
use testkit::target::{self, Source};
use testkit::{Daemon, wait};
use weir_probe::launch::Ended;
use weir_probe::{Attach, Attachment, Launched, Target, When, limits};
use weir_rt::Executable;
use weir_rt::executable::FRAME_IS_RETURN;
use weir_symbols::Binary;

use crate::sessions::{AX, ENTRIES, MATCHED, RETURNS, SP, SUM, program, session, session_of, spoil, value};

const DEADLINE: Duration = Duration::from_secs(120);

/// Byte offsets in `pt_regs`.
const DI: i32 = 112;
const IP: i32 = 128;

/// Counts its runs in one value, and the sum of the slot `slot` in the next.
fn summing(first: u32, slot: i32) -> Executable {
    program(false, &[slot], |asm, frame| {
        asm.lock().inc(qword_ptr(rax + (8 * first) as i32))?;
        asm.mov(rcx, qword_ptr(rsp + frame(slot as u32)))?;
        asm.lock().add(qword_ptr(rax + (8 * first + 8) as i32), rcx)?;
        spoil(asm)?;
        asm.xor(rax, rax)?;
        asm.ret()
    })
}

/// A session that counts, and wants the return of calls with an even first argument alone.
fn suppressing() -> Executable {
    program(true, &[DI], |asm, frame| {
        let mut at_return: CodeLabel = asm.create_label();
        asm.cmp(word_ptr(rsp + frame(FRAME_IS_RETURN)), 0)?;
        asm.jne(at_return)?;
        asm.lock().inc(qword_ptr(rax))?;
        asm.mov(rax, qword_ptr(rsp + frame(DI as u32)))?;
        asm.and(rax, 1)?;
        asm.ret()?;
        asm.set_label(&mut at_return)?;
        asm.lock().inc(qword_ptr(rax + 8))?;
        asm.xor(rax, rax)?;
        asm.ret()
    })
}

/// Attaches `programs` to the functions `names` of the binary at `path`. All must be provable.
fn arm(
    target: Target,
    path: &Path,
    names: &[&str],
    programs: &[Attach],
    executables: &[Executable],
) -> Attachment {
    let binary = Binary::open(path).unwrap();
    let functions: Vec<_> = names.iter().map(|name| (&binary, binary.find(name).unwrap()[0])).collect();
    let attachment = sessions::arm(target, &functions, programs, executables);
    assert_eq!(attachment.probes(), names.len(), "{:?}", attachment.outcomes());
    attachment
}

/// What a program wrote to the file that it is given, how it ended, and what was counted.
struct Seen {
    said: String,
    ended: Ended,
    attachment: Attachment,
}

/// Runs the program at `path` from its first instruction with `programs` on `names`.
fn run(path: &Path, names: &[&str], programs: &[Attach], executables: &[Executable]) -> Seen {
    let out = PathBuf::from(format!("{}.{}.out", path.display(), rand_name()));
    let command = [path.display().to_string(), out.display().to_string()];
    let (mut launched, exec) = Launched::start(&command, None, SigSet::empty()).unwrap();
    let target = exec.into_target(Some(&[Binary::open(path).unwrap().identity().unwrap()])).unwrap();
    let attachment = arm(target, path, names, programs, executables);
    let mut ended = None;
    let ends = wait::until(DEADLINE, || {
        ended = launched.try_wait();
        ended.is_some()
    });
    assert!(ends, "{} does not end", path.display());
    let said = std::fs::read_to_string(&out).unwrap_or_default();
    let _ = std::fs::remove_file(out);
    Seen { said, ended: ended.unwrap(), attachment }
}

/// A name of its own for each run.
fn rand_name() -> String {
    use std::sync::atomic::{AtomicU32, Ordering};
    static NEXT: AtomicU32 = AtomicU32::new(0);
    format!("{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}

/// The same unprobed.
fn run_unprobed(path: &Path) -> String {
    let out = PathBuf::from(format!("{}.{}.out", path.display(), rand_name()));
    let status = Command::new(path).arg(&out).status().unwrap();
    assert!(status.success(), "{}: {status}", path.display());
    let said = std::fs::read_to_string(&out).unwrap();
    let _ = std::fs::remove_file(out);
    said
}

/// The number behind `name` in what a program said.
fn number(said: &str, name: &str) -> u64 {
    let line = said.lines().find_map(|line| line.strip_prefix(name));
    line.unwrap_or_else(|| panic!("{name} not in {said}")).trim().parse().unwrap()
}

const PRELUDE: &str = r#"
    #define _GNU_SOURCE
    #include <complex.h>
    #include <pthread.h>
    #include <setjmp.h>
    #include <signal.h>
    #include <stdint.h>
    #include <stdio.h>
    #include <stdlib.h>
    #include <string.h>
    #include <sys/time.h>
    #include <sys/wait.h>
    #include <unistd.h>
    #define PROBED __attribute__((noinline, noclone))
    #define HIDE(x) __asm__ volatile("" : "+r"(x))
"#;

/// Every kind of result in registers, and by address.
const RESULTS: &str = r#"
    struct pair { long a; double b; }; struct big { long a[5]; };
    typedef float wide __attribute__((vector_size(16)));
    static int calls;
    PROBED __int128 f_int128(long x) { calls++; return (__int128)x * 0x123456789abcdef1 * 77; }
    PROBED struct pair f_pair(long x) { calls++; return (struct pair) { x * 5, x / 3.0 }; }
    PROBED struct big f_big(long x) { calls++; struct big b; for (int i = 0; i < 5; i++) b.a[i] = x * i; return b; }
    PROBED long double f_x87(long x) { calls++; return x * 1.5L; }
    PROBED _Complex double f_complex(long x) { calls++; return x + 2.5 * I * x; }
    PROBED _Complex long double f_complex_x87(long x) { calls++; return x - 4.5L * I * x; }
    PROBED float f_float(float x) { calls++; return x * 0.5f; }
    PROBED wide f_wide(float x) { calls++; return (wide) { x, x + 1, x * 2, 3 }; }
    PROBED _Bool f_bool(long x) { calls++; return x & 1; }
    PROBED void f_void(long *x) { calls++; *x += 3; }
    PROBED long f_six(long a, double b, long c, float d, long e, long f) { calls++; return a + (long)b * c - (long)d * e + f; }
    int main(int argc, char **argv) {
        FILE *out = fopen(argv[1], "w"); unsigned long sum = 0; long side = 0;
        for (long i = 0; i < 3000; i++) {
            __int128 w = f_int128(i); struct pair p = f_pair(i); struct big b = f_big(i); _Complex double c = f_complex(i);
            _Complex long double cx = f_complex_x87(i); wide v = f_wide(i); f_void(&side);
            sum = sum * 31 + (unsigned long)w + (unsigned long)(w >> 64) + p.a + (long)p.b + b.a[4] + b.a[1] + (long)f_x87(i) + (long)creal(c)
                + (long)cimag(c) + (long)creall(cx) + (long)cimagl(cx) + (long)f_float(i) + (long)v[0] + (long)v[2] + f_bool(i) + f_six(i, 2, 3, i, 5, 6);
        }
        fprintf(out, "sum %lu %ld\ncalls %d\n", sum, side, calls);
        return 0;
    }
"#;

const RESULT_NAMES: [&str; 11] = [
    "f_int128",
    "f_pair",
    "f_big",
    "f_x87",
    "f_complex",
    "f_complex_x87",
    "f_float",
    "f_wide",
    "f_bool",
    "f_void",
    "f_six",
];

#[test]
fn results_of_every_kind_are_what_they_were() {
    let text = format!("{PRELUDE}{RESULTS}");
    for (variant, path) in target::matrix("returns-results", Source::Text(&text), &["-w"]) {
        let expected = run_unprobed(&path);
        let seen = run(&path, &RESULT_NAMES, &[session_of(0)], &[session(0)]);
        assert_eq!((seen.said.as_str(), seen.ended), (expected.as_str(), Ended::Code(0)), "{variant:?}");
        let calls = number(&expected, "calls ");
        let counted = [ENTRIES, RETURNS, MATCHED].map(|index| value(&seen.attachment, index));
        assert_eq!(counted, [calls; 3], "{variant:?}");
    }
}

#[test]
fn sixteen_programs_share_one_call() {
    let path = target::build("returns-many", Source::Text(&format!("{PRELUDE}{RESULTS}")), &["-O2", "-w"]);
    let expected = run_unprobed(&path);
    let calls = number(&expected, "calls ");
    // Twelve sessions with a cookie each, then two at the return and two at the entry.
    let mut executables: Vec<Executable> = (0..12).map(|n| session(4 * n)).collect();
    executables.extend([48, 50, 52, 54].map(|first| summing(first, AX)));
    let when = |n: usize| match n {
        0..12 => When::Session,
        12 | 13 => When::Return,
        _ => When::Entry,
    };
    let programs: Vec<Attach> =
        (0..16).map(|executable| Attach { executable, cookie: 0, when: when(executable) }).collect();
    let seen = run(&path, &RESULT_NAMES, &programs, &executables);
    assert_eq!((seen.said.as_str(), seen.ended), (expected.as_str(), Ended::Code(0)));
    for n in 0..12 {
        let counted = [ENTRIES, RETURNS, MATCHED].map(|index| value(&seen.attachment, 4 * n + index));
        assert_eq!(counted, [calls; 3], "session {n}");
        assert_eq!(
            value(&seen.attachment, 4 * n + SUM),
            value(&seen.attachment, 49),
            "results at session {n}"
        );
    }
    assert_eq!([48, 50, 52, 54].map(|first| value(&seen.attachment, first)), [calls; 4]);
}

const SUPPRESSED: &str = r#"
    PROBED long f(long x) { HIDE(x); return x + 1; }
    int main(int argc, char **argv) {
        FILE *out = fopen(argv[1], "w"); long sum = 0;
        for (long i = 0; i < 1001; i++) sum += f(i);
        fprintf(out, "sum %ld\n", sum); return 0;
    }
"#;

#[test]
fn an_entry_suppresses_its_return() {
    let path =
        target::build("returns-suppressed", Source::Text(&format!("{PRELUDE}{SUPPRESSED}")), &["-O2", "-w"]);
    let expected = run_unprobed(&path);
    let programs = [session_of(0), Attach { executable: 1, cookie: 0, when: When::Return }];
    let seen = run(&path, &["f"], &programs, &[suppressing(), summing(8, AX)]);
    assert_eq!((seen.said.as_str(), seen.ended), (expected.as_str(), Ended::Code(0)));
    assert_eq!(
        [0, 1, 8, 9].map(|index| value(&seen.attachment, index)),
        [1001, 501, 1001, number(&expected, "sum ")]
    );
}

#[test]
fn a_program_at_the_return_alone_sees_where_the_caller_goes_on() {
    let path =
        target::build("returns-alone", Source::Text(&format!("{PRELUDE}{SUPPRESSED}")), &["-O2", "-w"]);
    let binary = Binary::open(&path).unwrap();
    let programs = [IP, SP].map(|slot| summing(if slot == IP { 0 } else { 2 }, slot));
    let both = [0, 1].map(|executable| Attach { executable, cookie: 0, when: When::Return });
    let seen = run(&path, &["f"], &both, &programs);
    assert_eq!([0, 2].map(|index| value(&seen.attachment, index)), [1001; 2]);
    // Every call comes from one place, in `main`.
    let ip = value(&seen.attachment, 1) / 1001;
    assert_eq!(value(&seen.attachment, 1) % 1001, 0);
    let main = binary.find("main").unwrap()[0];
    let page = |address: u64| address & 0xfff;
    let is_in_main = (0..main.size).any(|offset| page(main.address.0 + offset) == page(ip));
    assert!(is_in_main, "{ip:#x}");
    assert_eq!(value(&seen.attachment, 3) / 1001 % 16, 0, "the stack pointer of the caller");
}

/// One that looks at its return address, and one like others.
const PEEKS: &str = r#"
    __asm__(".globl peeks\n.type peeks,@function\npeeks: .cfi_startproc\n mov (%rsp),%rax\n add %rdi,%rax\n sub (%rsp),%rax\n ret\n.cfi_endproc\n.size peeks,.-peeks");
    extern long peeks(long); PROBED long plain(long x) { HIDE(x); return x * 3; }
    int main(int argc, char **argv) {
        FILE *out = fopen(argv[1], "w"); long sum = 0;
        for (long i = 0; i < 100; i++) sum += peeks(i) + plain(i);
        fprintf(out, "sum %ld\n", sum); return 0;
    }
"#;

/// Outcomes of the two, how often each of the programs ran, and what was said.
fn peek(programs: &[Attach]) -> (Vec<Option<String>>, [u64; 8], String) {
    let path = target::build("returns-peeks", Source::Text(&format!("{PRELUDE}{PEEKS}")), &["-O2", "-w"]);
    let executables = [summing(0, AX), summing(2, AX), session(4), session(8)];
    let seen = run(&path, &["peeks", "plain"], programs, &executables);
    let outcomes = seen.attachment.outcomes().iter().map(|outcome| {
        let patched = outcome.as_ref().unwrap();
        patched.returns_refused.as_ref().map(|refusal| refusal.code())
    });
    let counts = [0, 2, 4, 5, 6, 8, 9, 10].map(|index| value(&seen.attachment, index));
    (outcomes.collect(), counts, seen.said)
}

#[test]
fn entries_are_probed_where_returns_cannot_be() {
    let [entry, alone, session, both] = [When::Entry, When::Return, When::Session, When::EntryAndReturn];
    let attach = |executable, when| Attach { executable, cookie: 0, when };
    let all = [attach(0, entry), attach(1, alone), attach(2, session), attach(3, both)];
    let (outcomes, counts, said) = peek(&all);
    assert_eq!(outcomes, [Some("return-unproved".into()), None]);
    // At entries, at returns, then entries, returns and cookies of the session, and those of the other.
    assert_eq!(counts, [200, 100, 100, 100, 100, 200, 100, 100]);
    assert_eq!(said, "sum 19800\n");
    let (outcomes, counts, _) = peek(&all[..1]);
    assert_eq!((outcomes, counts[0]), (vec![None, None], 200));
}

/// Tail calls that go on for ever, in 64 KiB of stack.
const TAILS: &str = r#"
    PROBED long odd(long n, long sum); static long calls;
    PROBED long even(long n, long sum) { calls++; HIDE(sum); return n == 0 ? sum : odd(n - 1, sum + n); }
    PROBED long odd(long n, long sum) { calls++; HIDE(sum); return n == 0 ? -sum : even(n - 1, sum ^ n); }
    PROBED long leads(long n) { calls++; HIDE(n); return even(n, 1); }
    static void *work(void *out) {
        long sum = 0;
        for (long n = 0; n < 200; n++) sum = sum * 3 + leads(n);
        fprintf(out, "short %ld\n", sum);
        fprintf(out, "shortcalls %ld\n", calls);
        fprintf(out, "sum %ld\n", leads(1000000)); return 0;
    }
    int main(int argc, char **argv) {
        FILE *out = fopen(argv[1], "w"); pthread_t thread; pthread_attr_t attributes;
        pthread_attr_init(&attributes); pthread_attr_setstacksize(&attributes, 65536);
        pthread_create(&thread, &attributes, work, out); pthread_join(thread, 0);
        fprintf(out, "calls %ld\n", calls); return 0;
    }
"#;

#[test]
fn endless_tail_calls_need_bounded_stack() {
    let text = format!("{PRELUDE}{TAILS}");
    for flags in
        [["-O2", "-pthread", "-w", "-fPIE", "-pie"], ["-O2", "-pthread", "-w", "-fno-pie", "-no-pie"]]
    {
        let path = target::build("returns-tails", Source::Text(&text), &flags);
        let expected = run_unprobed(&path);
        let seen = run(&path, &["even", "odd", "leads"], &[session_of(0)], &[session(0)]);
        assert_eq!((seen.said.as_str(), seen.ended), (expected.as_str(), Ended::Code(0)));
        let calls = number(&expected, "calls ");
        let missed = seen.attachment.maps().counters().tail_depth;
        assert_eq!(value(&seen.attachment, ENTRIES), calls);
        assert_eq!(value(&seen.attachment, RETURNS) + missed, calls);
        // Of each chain, all behind the first 64.
        let missed_of = |calls: u64| calls.saturating_sub(limits::TAIL_DEPTH_MAX.into());
        let chains: u64 = (0..200).chain([1_000_000]).map(|n| missed_of(n + 2)).sum();
        assert_eq!(missed, chains);
    }
}

/// Frames that are left by longjmp, some of them waiting in recursion.
const JUMPS: &str = r#"
    static jmp_buf back; static long entered, left;
    PROBED long inner(long n) { entered++; HIDE(n); if (n % 3 == 0) longjmp(back, 1); left++; return n; }
    PROBED long outer(long n) { entered++; long r = n > 4 ? outer(n / 2) + 1 : inner(n) + 2; HIDE(r); left++; return r; }
    int main(int argc, char **argv) {
        FILE *out = fopen(argv[1], "w"); volatile long sum = 0;
        for (volatile long i = 0; i < 300000; i++) if (setjmp(back) == 0) sum += outer(i % 50);
        fprintf(out, "sum %ld\nentered %ld\nleft %ld\n", sum, entered, left); return 0;
    }
"#;

#[test]
fn frames_may_be_jumped_over() {
    for (variant, path) in
        target::matrix("returns-jumps", Source::Text(&format!("{PRELUDE}{JUMPS}")), &["-w"])
    {
        let expected = run_unprobed(&path);
        let seen = run(&path, &["inner", "outer"], &[session_of(0)], &[session(0)]);
        assert_eq!((seen.said.as_str(), seen.ended), (expected.as_str(), Ended::Code(0)), "{variant:?}");
        assert_eq!(value(&seen.attachment, ENTRIES), number(&expected, "entered "), "{variant:?}");
        assert_eq!(value(&seen.attachment, RETURNS), number(&expected, "left "), "{variant:?}");
        assert_eq!(value(&seen.attachment, MATCHED), number(&expected, "left "), "{variant:?}");
    }
}

/// Threads, recursion, and a signal handler that runs the same functions.
const BUSY: &str = r#"
    static unsigned long calls[9], in_handler; static volatile int stop;
    PROBED unsigned long fib(unsigned long n, unsigned long *count);
    /* Else the compiler inlines it into itself. */
    static unsigned long (*volatile again)(unsigned long, unsigned long *) = fib;
    unsigned long fib(unsigned long n, unsigned long *count) { ++*count; return n < 2 ? n : again(n - 1, count) + again(n - 2, count); }
    static void handle(int unused) { unsigned long mine = 0; if (fib(5, &mine) != 5) abort(); __atomic_add_fetch(&in_handler, mine, 0); }
    static void *work(void *n) { for (int i = 0; i < 60; i++) if (fib(15, &calls[(long)n]) != 610) abort(); return 0; }
    int main(int argc, char **argv) {
        FILE *out = fopen(argv[1], "w"); pthread_t threads[8]; unsigned long sum = 0;
        struct sigaction action = { .sa_handler = handle, .sa_flags = SA_RESTART }; sigaction(SIGALRM, &action, 0);
        struct itimerval each = { { 0, 100 }, { 0, 100 } }; setitimer(ITIMER_REAL, &each, 0);
        for (long i = 0; i < 8; i++) pthread_create(&threads[i], 0, work, (void *)i);
        for (int i = 0; i < 8; i++) pthread_join(threads[i], 0);
        struct itimerval none = { { 0 } }; setitimer(ITIMER_REAL, &none, 0);
        signal(SIGALRM, SIG_IGN);
        for (int i = 0; i < 8; i++) sum += calls[i];
        fprintf(out, "calls %lu\n", sum + in_handler); return 0;
    }
"#;

#[test]
fn threads_and_signals_each_have_their_own() {
    let text = format!("{PRELUDE}{BUSY}");
    for (variant, path) in target::matrix("returns-busy", Source::Text(&text), &["-w", "-pthread"]) {
        let seen = run(&path, &["fib"], &[session_of(0)], &[session(0)]);
        assert_eq!(seen.ended, Ended::Code(0), "{variant:?}");
        let calls = number(&seen.said, "calls ");
        let counted = [ENTRIES, RETURNS, MATCHED].map(|index| value(&seen.attachment, index));
        assert_eq!(counted, [calls; 3], "{variant:?}");
    }
}

/// A call that waits for input, from inside two others, while probes come and go; and children made inside.
const WAITING: &str = r#"
    PROBED long waits(long n) { char c; HIDE(n); if (read(0, &c, 1) != 1) return -1; return n * 10 + c; }
    PROBED long around(long n) { long r = waits(n + 1); HIDE(r); return r + 1000; }
    PROBED long forks(long n) {
        int status = 0, pid = fork(); HIDE(n);
        if (pid) { if (waitpid(pid, &status, 0) != pid) abort(); }
        return pid ? 100 + WEXITSTATUS(status) : n;
    }
    PROBED long around_fork(long n) { long r = forks(n); HIDE(r); return r + 1; }
    int main(int argc, char **argv) {
        setvbuf(stdout, 0, _IOLBF, 0); alarm(600); puts("ready");
        for (long i = 0; i < 4; i++) {
            printf("got %ld\n", around(i));
            long r = around_fork(7);
            if (r < 100) _exit(around_fork(r) % 100);
            printf("child %ld\n", r);
        }
        return 0;
    }
"#;

const WAITING_NAMES: [&str; 4] = ["waits", "around", "forks", "around_fork"];

struct Waiting {
    daemon: Daemon,
    path: PathBuf,
}

impl Waiting {
    fn start() -> Waiting {
        let path =
            target::build("returns-waiting", Source::Text(&format!("{PRELUDE}{WAITING}")), &["-O2", "-w"]);
        let mut daemon = Daemon::spawn(Command::new(&path)).unwrap();
        daemon.line_with("ready", DEADLINE).unwrap();
        Waiting { daemon, path }
    }

    fn attach(&self) -> Attachment {
        let target = Target::open(self.daemon.pid() as i32).unwrap();
        arm(target, &self.path, &WAITING_NAMES, &[session_of(0)], &[session(0)])
    }

    /// Lets the call that waits go on, and waits until the next one does.
    fn step(&mut self) {
        self.daemon.write("A").unwrap();
        self.daemon.line_with("child", DEADLINE).unwrap();
    }

    fn maps(&self) -> String {
        std::fs::read_to_string(format!("/proc/{}/maps", self.daemon.pid())).unwrap()
    }

    fn end(mut self) {
        self.daemon.close_stdin();
        let ended = self.daemon.finish(DEADLINE).unwrap();
        assert!(ended.status.success(), "{}: {}{}", ended.status, ended.stdout, ended.stderr);
        let lines: Vec<&str> = ended.stdout.lines().filter(|line| *line != "ready").collect();
        // 10 (n + 1) + 'A' + 1000; the child: 7 + 1, once more through a fork of its own.
        let expected = [1075, 1085, 1095, 1105].map(|got| format!("got {got}"));
        let got: Vec<&str> = lines.iter().copied().filter(|line| line.starts_with("got")).collect();
        assert_eq!(got, expected, "{lines:?}");
        assert_eq!(lines.iter().filter(|line| line.starts_with("child")).count(), 4, "{lines:?}");
    }
}

#[test]
fn a_call_that_waits_comes_back_after_probes_are_gone() {
    let mut waiting = Waiting::start();
    let mut attachment = waiting.attach();
    waiting.step();
    // Now it waits inside two probed functions.
    let report = attachment.detach().unwrap();
    assert_eq!((report.restored, report.foreign.len(), report.left_mapped), (WAITING_NAMES.len(), 0, true));
    assert!(waiting.maps().contains("memfd:weir-code"));
    let before = [ENTRIES, RETURNS].map(|index| value(&attachment, index));
    waiting.step();
    assert_eq!([ENTRIES, RETURNS].map(|index| value(&attachment, index)), before, "counted after detaching");
    drop(attachment);
    // The next one finds what was left, and its own calls are counted.
    let attachment = waiting.attach();
    waiting.step();
    assert!(wait::until(DEADLINE, || value(&attachment, ENTRIES) >= 4), "{}", value(&attachment, ENTRIES));
    waiting.step();
    drop(attachment);
    waiting.end();
}

/// What answers unwinders for the frames that wait is asked behind what does for the next ones.
#[test]
fn returns_are_caught_while_calls_of_earlier_controllers_wait() {
    let mut waiting = Waiting::start();
    for turn in 0..3 {
        let mut attachment = waiting.attach();
        waiting.step();
        // Two of its calls have come back, and two wait.
        assert!(wait::until(DEADLINE, || value(&attachment, ENTRIES) >= 4), "{turn}");
        let counted = [ENTRIES, RETURNS, MATCHED].map(|index| value(&attachment, index));
        assert_eq!(counted, [4, 2, 2], "{turn}");
        assert!(attachment.detach().unwrap().left_mapped, "{turn}");
    }
    waiting.step();
    waiting.end();
}

#[test]
fn a_killed_controller_leaves_calls_that_come_back() {
    let mut waiting = Waiting::start();
    let attachment = waiting.attach();
    waiting.step();
    crate::counting::let_die(attachment);
    waiting.step();
    let report = weir_probe::restore::detach(waiting.daemon.pid() as i32).unwrap();
    assert_eq!((report.restored, report.foreign.len(), report.left_mapped), (WAITING_NAMES.len(), 0, true));
    waiting.step();
    waiting.step();
    waiting.end();
}

#[test]
fn children_come_back_through_frames_of_their_parent() {
    let mut waiting = Waiting::start();
    let attachment = waiting.attach();
    for _ in 0..4 {
        waiting.step();
    }
    // In each round the parent enters and leaves two functions around the fork, besides the two that wait; the child
    // counts nothing. The first call to wait had begun before.
    assert_eq!(value(&attachment, ENTRIES), value(&attachment, RETURNS));
    assert_eq!(value(&attachment, RETURNS), value(&attachment, MATCHED));
    assert_eq!(value(&attachment, RETURNS), 3 * 2 + 4 * 2);
    drop(attachment);
    waiting.end();
}

/// Registers and flags as hand-written code may rely on them, on both sides of the call.
const REGISTERS: &str = r#"
    __asm__(
        ".text\n.globl f\n.type f,@function\nf: .cfi_startproc\n"
        "lea 7(%rdi,%rsi),%rax\nmov %r11,%rdx\nnot %rdx\nret\n.cfi_endproc\n.size f,.-f\n"
        ".globl same\n.type same,@function\nsame: .cfi_startproc\n"
        "lea 7(%rdi,%rsi),%rax\nmov %r11,%rdx\nnot %rdx\nret\n.cfi_endproc\n.size same,.-same\n"
        /* registers in: 15 words and the flags, out to the next 16; what to call */
        ".globl around\n.type around,@function\naround: .cfi_startproc\n"
        "push %rbx\npush %rbp\npush %r12\npush %r13\npush %r14\npush %r15\n"
        "push %rsi\npush %rdi\n"
        "mov %rdi,%rbp\n"
        "mov 8(%rbp),%rcx\nmov 16(%rbp),%rdx\nmov 24(%rbp),%rbx\nmov 40(%rbp),%rsi\nmov 48(%rbp),%rdi\nmov 56(%rbp),%r8\n"
        "mov 64(%rbp),%r9\nmov 72(%rbp),%r10\nmov 80(%rbp),%r11\nmov 88(%rbp),%r12\nmov 96(%rbp),%r13\nmov 104(%rbp),%r14\nmov 112(%rbp),%r15\n"
        "mov 0(%rbp),%rax\npush 120(%rbp)\nmov 32(%rbp),%rbp\npopfq\n"
        "call *8(%rsp)\n"
        "pushfq\npush %rax\nmov 16(%rsp),%rax\n"
        "mov %rcx,136(%rax)\nmov %rdx,144(%rax)\nmov %rbx,152(%rax)\nmov %rbp,160(%rax)\nmov %rsi,168(%rax)\nmov %rdi,176(%rax)\nmov %r8,184(%rax)\n"
        "mov %r9,192(%rax)\nmov %r10,200(%rax)\nmov %r11,208(%rax)\nmov %r12,216(%rax)\nmov %r13,224(%rax)\nmov %r14,232(%rax)\nmov %r15,240(%rax)\n"
        "pop %rcx\nmov %rcx,128(%rax)\npop %rcx\nmov %rcx,248(%rax)\n"
        "pop %rdi\npop %rsi\npop %r15\npop %r14\npop %r13\npop %r12\npop %rbp\npop %rbx\nret\n.cfi_endproc\n.size around,.-around\n");
    void around(uint64_t *words, void (*what)(void)); void f(void); void same(void);
    int main(int argc, char **argv) {
        FILE *out = fopen(argv[1], "w"); uint64_t one[32], two[32], random = 88172645463325252ull; long wrong = 0;
        for (int round = 0; round < 20000; round++) {
            for (int i = 0; i < 15; i++) { random ^= random << 13; random ^= random >> 7; random ^= random << 17; one[i] = random; }
            one[15] = (random & 0x8d5) | 0x202;
            memcpy(two, one, sizeof one);
            around(one, f); around(two, same);
            if (memcmp(one, two, sizeof one)) wrong++;
        }
        fprintf(out, "wrong %ld\n", wrong); return 0;
    }
"#;

#[test]
fn every_register_and_flag_is_kept_on_both_sides() {
    let path =
        target::build("returns-registers", Source::Text(&format!("{PRELUDE}{REGISTERS}")), &["-O2", "-w"]);
    assert_eq!(run_unprobed(&path), "wrong 0\n");
    let sets: [(&[Attach], &[Executable]); 3] = [
        (&[session_of(0)], &[session(0)]),
        (&[session_of(0), session_of(1)], &[session(0), suppressing()]),
        (&[Attach { executable: 0, cookie: 0, when: When::Return }], &[summing(0, IP)]),
    ];
    for (programs, executables) in sets {
        let seen = run(&path, &["f"], programs, executables);
        assert_eq!((seen.said.as_str(), seen.ended), ("wrong 0\n", Ended::Code(0)), "{programs:?}");
        assert!(value(&seen.attachment, 0) >= 20_000);
    }
}
