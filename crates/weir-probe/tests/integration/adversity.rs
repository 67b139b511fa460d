//! Processes that make attaching hard: blocked in system calls, stopped, forking, under signals, with threads that
//! come and go. Each says at its end what it saw; attaching and detaching must not be among it.

use std::thread::sleep;
use std::time::Duration;

use nix::sys::signal::Signal;
use testkit::wait;
use weir_probe::{Attach, Error, SiteRequest, Target, When, limits, plan_functions};
use weir_symbols::Binary;

use crate::counting::{arm, count, counting};
use crate::running::{DEADLINE, Running, ms};

/// CPU time that a program runs on for, to show what it does after it was left.
const A_WHILE: Duration = Duration::from_millis(5);

/// Eight threads, each in another blocking call, and the main thread (whose stack the remote calls use) in any of
/// them. Every call must come back with its own result, and not before its time.
const BLOCKED: &str = r#"
    static int channel[2], word;
    /// Never early; how late it is has no bound on a busy machine.
    #define NOT_EARLY(from, us) CHECK(now_us() - (from) >= (us))
    static void call(int kind) {
        long from = now_us();
        struct timespec t = { 0, 120000000 }, at;
        char byte;
        switch (kind) {
        // The sleep is the call that is held; the verdict depends on how long it takes at least.
        case 0: CHECK(nanosleep(&t, &t) == 0); NOT_EARLY(from, 120000); break;
        case 1:
            CHECK(syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 0, &t, 0, 0) == -1 && errno == ETIMEDOUT);
            NOT_EARLY(from, 120000); break;
        case 2: CHECK(read(channel[0], &byte, 1) == 1 && byte == 'x'); break;
        case 3: {
            struct epoll_event event; int fd = epoll_create1(0);
            CHECK(epoll_wait(fd, &event, 1, 120) == 0); NOT_EARLY(from, 120000); close(fd); break;
        }
        case 4: CHECK(poll(0, 0, 120) == 0); NOT_EARLY(from, 120000); break;
        case 5: { struct timeval v = { 0, 120000 }; CHECK(select(0, 0, 0, 0, &v) == 0); NOT_EARLY(from, 120000); break; }
        case 6:
            clock_gettime(CLOCK_MONOTONIC, &at); at.tv_sec++;
            // As above: the verdict depends on how long it takes at least.
            CHECK(clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, 0) == 0); NOT_EARLY(from, 999000); break;
        case 7: {
            static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER; static pthread_cond_t never = PTHREAD_COND_INITIALIZER;
            clock_gettime(CLOCK_REALTIME, &at); at.tv_nsec += 120000000;
            if (at.tv_nsec >= 1000000000) { at.tv_nsec -= 1000000000; at.tv_sec++; }
            pthread_mutex_lock(&mutex);
            CHECK(pthread_cond_timedwait(&never, &mutex, &at) == ETIMEDOUT);
            pthread_mutex_unlock(&mutex); break;
        }
        }
        work(kind);
    }
    static void *block(void *kind) { while (!stop) call((long)kind); return 0; }
    // Pacing alone: the verdict does not depend on it.
    static void *feed(void *unused) { while (!stop) { usleep(30000); CHECK(write(channel[1], "x", 1) == 1); } write(channel[1], "xxxx", 4); return 0; }
    static void *wait_for_end(void *unused) { getchar(); stop = 1; return 0; }
    int main(int argc, char **argv) {
        pthread_t threads[10];
        CHECK(pipe(channel) == 0);
        for (long i = 0; i < 8; i++) pthread_create(&threads[i], 0, block, (void *)i);
        pthread_create(&threads[8], 0, feed, 0);
        pthread_create(&threads[9], 0, wait_for_end, 0);
        begin();
        block((void *)(long)atoi(argv[1]));
        for (int i = 0; i < 10; i++) pthread_join(threads[i], 0);
        puts("right");
        return 0;
    }
"#;

#[test]
fn blocking_calls_return_what_they_would_have() {
    for kind in ["0", "1", "2", "3", "4", "5", "7"] {
        let running = Running::start("blocked", BLOCKED, &[kind]);
        running.cycles(10, ms(8));
        assert_eq!(running.end(), "right", "main thread in call {kind}");
    }
}

/// A read, or an epoll_wait, that a signal without SA_RESTART must interrupt. The sender (a child) sends one only when the reader is
/// known to be inside read(2), at any time from then on: also while it is held by weir. One that comes in the moment in
/// which the kernel has decided to start the call again, and has not yet, is handled before it, whoever had stopped the
/// thread: a loop of PTRACE_SEIZE, PTRACE_INTERRUPT and PTRACE_DETACH alone loses 1 of 10,000 so. It is sent once more.
const INTERRUPTED: &str = r#"
    struct shared { volatile int entered, returned, handled, stop, lost; };
    static struct shared *s;
    static void handle(int unused) { s->handled++; }
    static char state_of(int pid) {
        char path[64], text[512]; snprintf(path, sizeof path, "/proc/%d/stat", pid);
        int fd = open(path, O_RDONLY); CHECK(fd >= 0);
        long n = read(fd, text, sizeof text - 1); close(fd); CHECK(n > 0);
        text[n] = 0;
        return strrchr(text, ')')[2];
    }
    static void send(void) {
        int parent = getppid(), sent = 0; unsigned random = 1;
        for (int k = 1; !s->stop; k++) {
            // Between two looks: the verdict does not depend on it.
            while (!s->stop && (s->entered != k || state_of(parent) != 'S')) usleep(50);
            if (s->stop) break;
            random = random * 1103515245 + 12345;
            // A random moment: the verdict does not depend on which one it is.
            usleep((random >> 8) % 3000);
            kill(parent, SIGUSR1); sent++;
            while (s->returned != k) {
                // Handled, and it sleeps in the same call.
                if (s->handled == sent && state_of(parent) == 'S' && s->returned != k) {
                    s->lost++; kill(parent, SIGUSR1); sent++;
                }
                // Between two looks: the verdict does not depend on it.
                usleep(50);
            }
        }
        _exit(0);
    }
    static int channel[2], epoll;
    static int wait_in(const char *call) {
        char byte; struct epoll_event event;
        return *call == 'r' ? read(channel[0], &byte, 1) : epoll_wait(epoll, &event, 1, -1);
    }
    int main(int argc, char **argv) {
        s = pages(4096); epoll = epoll_create1(0);
        struct sigaction action = { .sa_handler = handle };
        CHECK(pipe(channel) == 0 && sigaction(SIGUSR1, &action, 0) == 0);
        int sender = fork();
        if (!sender) send();
        begin();
        fcntl(0, F_SETFL, O_NONBLOCK);
        for (int k = 1; !s->stop; k++) {
            work(k);
            s->entered = k;
            CHECK(wait_in(argv[1]) == -1 && errno == EINTR);
            s->returned = k;
            enough(k, 25);
            if (getchar() == EOF && feof(stdin)) s->stop = 1;
            clearerr(stdin);
        }
        CHECK(waitpid(sender, 0, 0) == sender);
        printf("sent %d lost %d\n", s->entered, s->lost);
        return 0;
    }
"#;

#[test]
fn a_signal_that_arrives_while_held_interrupts_the_call() {
    for call in ["read", "epoll_wait"] {
        let mut running = Running::start("interrupted", INTERRUPTED, &[call]);
        running.cycles(40, ms(2));
        running.cycles_until_enough(ms(2));
        let line = running.end();
        let mut numbers = line.split(' ').filter_map(|word| word.parse::<u32>().ok());
        let (sent, lost) = (numbers.next().unwrap(), numbers.next().unwrap());
        // A good part of them came while it was held.
        assert!(sent > 20 && lost <= 2, "{call}: {line}");
    }
}

/// Signals that the sender knows to have been handled before it sends the next (SIGALRM), and queued ones
/// (real-time), to a process of `argv[1]` threads. Both handlers run the probed function.
const SIGNALS: &str = r#"
    struct shared { volatile long alarms, alarms_handled, queued, queued_handled, sum, sum_handled; volatile int stop; };
    static struct shared *s;
    static void on_alarm(int unused) { work(1); __atomic_add_fetch(&s->alarms_handled, 1, 5); }
    static void on_queued(int unused, siginfo_t *info, void *context) {
        CHECK(info->si_code == SI_QUEUE); work(2);
        __atomic_add_fetch(&s->sum_handled, info->si_value.sival_int, 5);
        __atomic_add_fetch(&s->queued_handled, 1, 5);
    }
    static void send(int parent) {
        for (long n = 1; !s->stop; n++) {
            s->alarms++; kill(parent, SIGALRM);
            for (int i = 0; i < 3; i++) {
                union sigval value = { .sival_int = (int)n * 3 + i };
                if (sigqueue(parent, SIGRTMIN + 3, value) == 0) { s->queued++; s->sum += value.sival_int; }
            }
            long until = now_us() + 120000000;
            // Between two looks, and pacing: the verdict does not depend on either.
            while (s->alarms_handled < s->alarms) { if (now_us() > until) _exit(1); usleep(10); }
            usleep(40); // Pacing: the verdict does not depend on it.
            enough(n, 60);
        }
        _exit(0);
    }
    static void *run(void *unused) { while (!s->stop) work(3); return 0; }
    int main(int argc, char **argv) {
        int count = atoi(argv[1]); pthread_t threads[16]; int status;
        s = pages(4096);
        struct sigaction action = { .sa_handler = on_alarm, .sa_flags = SA_RESTART };
        CHECK(sigaction(SIGALRM, &action, 0) == 0);
        action.sa_sigaction = on_queued; action.sa_flags = SA_SIGINFO | SA_RESTART;
        CHECK(sigaction(SIGRTMIN + 3, &action, 0) == 0);
        int sender = fork();
        if (!sender) { action.sa_handler = SIG_DFL; action.sa_flags = 0; sigaction(SIGALRM, &action, 0); alarm(600); send(getppid()); }
        for (int i = 1; i < count; i++) pthread_create(&threads[i], 0, run, 0);
        setvbuf(stdout, 0, _IOLBF, 0); puts("ready");
        fcntl(0, F_SETFL, O_NONBLOCK);
        while (!s->stop) { for (int i = 0; i < 1000; i++) work(4); char c; if (read(0, &c, 1) == 0) s->stop = 1; }
        CHECK(waitpid(sender, &status, 0) == sender && status == 0);
        for (int i = 1; i < count; i++) pthread_join(threads[i], 0);
        // Between two looks: the verdict does not depend on it.
        for (long until = now_us() + 120000000; s->queued_handled < s->queued && now_us() < until;) usleep(1000);
        printf("alarms %ld queued %ld sum %ld, sent %ld\n", s->alarms_handled - s->alarms,
               s->queued_handled - s->queued, s->sum_handled - s->sum, s->alarms);
        return 0;
    }
"#;

#[test]
fn no_signal_is_lost_or_doubled() {
    for threads in ["1", "4"] {
        let mut running = Running::start("signals", SIGNALS, &[threads]);
        running.cycles_that_count(20, ms(5));
        running.cycles_until_enough(ms(5));
        let line = running.end();
        assert!(line.starts_with("alarms 0 queued 0 sum 0, "), "{threads} threads: {line}");
        let sent: u64 = line.rsplit(' ').next().unwrap().parse().unwrap();
        assert!(sent > 50, "{line}");
    }
}

const STOPPED: &str = r#"
    // Pacing alone: the verdict does not depend on it.
    static void *run(void *unused) { while (!stop) { work(1); usleep(100); } return 0; }
    int main(void) {
        pthread_t threads[3];
        for (int i = 0; i < 3; i++) pthread_create(&threads[i], 0, run, 0);
        begin();
        getchar(); stop = 1;
        for (int i = 0; i < 3; i++) pthread_join(threads[i], 0);
        puts("right");
        return 0;
    }
"#;

/// The state letter of a process.
fn state(pid: i32) -> String {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    text.rsplit_once(") ").unwrap().1[..1].to_owned()
}

#[test]
fn a_stopped_process_stays_stopped_and_is_counted_when_it_goes_on() {
    let running = Running::start("stopped", STOPPED, &[]);
    for round in 0..5 {
        running.daemon.signal(Signal::SIGSTOP).unwrap();
        assert!(wait::until(DEADLINE, || state(running.pid()) == "T"));
        let mut attachment = running.attach();
        assert!(
            wait::until(DEADLINE, || state(running.pid()) == "T"),
            "round {round}: it does not stay stopped"
        );
        // It is stopped: the verdict does not depend on how long it is left so.
        sleep(ms(20));
        assert_eq!((state(running.pid()).as_str(), count(&attachment)), ("T", 0), "round {round}");
        running.daemon.signal(Signal::SIGCONT).unwrap();
        assert!(wait::until(DEADLINE, || count(&attachment) > 30), "round {round}: nothing counted");
        if round % 2 == 0 {
            running.daemon.signal(Signal::SIGSTOP).unwrap();
            assert!(wait::until(DEADLINE, || state(running.pid()) == "T"));
        }
        let report = attachment.detach().unwrap();
        assert_eq!(report.restored, 1);
        if round % 2 == 0 {
            assert!(
                wait::until(DEADLINE, || state(running.pid()) == "T"),
                "round {round}: detaching resumed it"
            );
            running.daemon.signal(Signal::SIGCONT).unwrap();
        }
    }
    assert_eq!(running.end(), "right");
}

/// Children by fork, vfork and posix_spawn, all the time, each of which runs the probed function and must say the
/// right thing.
const FORKING: &str = r#"
    extern char **environ;
    static void *spawn(void *unused) {
        while (!stop) {
            int status, pid; char *arguments[] = { "true", 0 };
            CHECK(posix_spawnp(&pid, "true", 0, 0, arguments, environ) == 0);
            CHECK(waitpid(pid, &status, 0) == pid && status == 0);
        }
        return 0;
    }
    // Pacing alone: the verdict does not depend on it.
    static void *run(void *unused) { while (!stop) { CHECK(work(2) == 7); usleep(50); } return 0; }
    int main(void) {
        pthread_t threads[2]; int status; long children = 0;
        pthread_create(&threads[0], 0, spawn, 0);
        pthread_create(&threads[1], 0, run, 0);
        begin();
        fcntl(0, F_SETFL, O_NONBLOCK);
        for (char c; read(0, &c, 1) != 0; children++) {
            int pid = children % 2 ? fork() : vfork();
            if (!pid) {
                int sum = 0;
                for (int i = 0; i < 50; i++) sum += work(i);
                _exit(sum == 3725 ? 5 : 6);
            }
            CHECK(pid > 0 && waitpid(pid, &status, 0) == pid);
            CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 5);
            enough(children, 25);
            CHECK(work(3) == 10);
        }
        stop = 1;
        for (int i = 0; i < 2; i++) pthread_join(threads[i], 0);
        printf("children %d\n", children > 20);
        return 0;
    }
"#;

#[test]
fn children_of_every_kind_do_their_work() {
    let mut running = Running::start("forking", FORKING, &[]);
    running.cycles_that_count(20, ms(10));
    running.cycles_until_enough(ms(10));
    assert_eq!(running.end(), "children 1");
}

/// The main thread ends by pthread_exit: at once, or when a line comes.
const LEADERLESS: &str = r#"
    // Pacing alone: the verdict does not depend on it.
    static void *run(void *unused) { while (!stop) { CHECK(work(2) == 7); usleep(50); } return 0; }
    static void *wait_for_end(void *unused) { while (getchar() != EOF) {} stop = 1; puts("right"); exit(0); }
    int main(int argc, char **argv) {
        pthread_t thread;
        for (int i = 0; i < 3; i++) pthread_create(&thread, 0, run, 0);
        begin();
        if (argc > 1) getchar();
        pthread_create(&thread, 0, wait_for_end, 0);
        pthread_exit(0);
    }
"#;

#[test]
fn a_process_without_its_main_thread_is_probed() {
    let running = Running::start("leaderless", LEADERLESS, &[]);
    assert!(wait::until(DEADLINE, || state(running.pid()) == "Z"));
    running.cycles_that_count(5, ms(10));
    assert_eq!(running.end(), "right");
}

#[test]
fn a_main_thread_that_ends_while_probed_does_not_keep_the_text_patched() {
    let mut running = Running::start("leaderless", LEADERLESS, &["later"]);
    let mut attachment = running.attach();
    running.daemon.write("\n").unwrap();
    assert!(wait::until(DEADLINE, || state(running.pid()) == "Z"));
    let report = attachment.detach().unwrap();
    assert_eq!((report.restored, report.replaced), (1, false));
    let total = count(&attachment);
    assert!(wait::until_used(running.daemon.pid(), A_WHILE, DEADLINE), "it does not go on");
    assert_eq!(count(&attachment), total, "counted after detach");
    assert_eq!(running.end(), "right");
}

/// A thread that cannot be stopped until its child is done, which is when a byte comes.
const WAITING: &str = r#"
    int main(void) {
        begin();
        CHECK(work(2) == 7);
        getchar();
        if (vfork() == 0) { char byte; read(0, &byte, 1); _exit(0); }
        CHECK(work(4) == 13);
        puts("right");
        return 0;
    }
"#;

#[test]
fn detaching_waits_for_a_thread_that_does_not_stop_in_time() {
    let mut running = Running::start("waiting", WAITING, &[]);
    let mut attachment = running.attach();
    running.daemon.write("\n").unwrap();
    assert!(wait::until(DEADLINE, || state(running.pid()) == "D"));
    let report = std::thread::scope(|scope| {
        scope.spawn(|| {
            // Longer than one stop may take, and less than all tries to detach: the verdict needs no more of it.
            sleep(limits::STOP_MAX * 5 / 2);
            running.daemon.write("x").unwrap();
        });
        attachment.detach().unwrap()
    });
    assert_eq!((report.restored, report.left_mapped), (1, false));
    assert_eq!(running.end(), "right");
}

#[test]
fn a_thread_that_stops_when_weir_waits_for_it_no_more_goes_on() {
    let mut running = Running::start("waiting", WAITING, &[]);
    let mut attachment = running.attach();
    running.daemon.write("\n").unwrap();
    assert!(wait::until(DEADLINE, || state(running.pid()) == "D"));
    let binary = Binary::open(&running.path).unwrap();
    let function = binary.find("main").unwrap()[0];
    let window = &plan_functions(&[(&binary, function)])[0];
    let programs = vec![Attach { executable: 0, cookie: 0, when: When::Entry }];
    let site = SiteRequest {
        binary: &binary,
        function,
        window,
        called: None,
        semaphore: None,
        programs,
        returns: None,
    };
    let added = attachment.add(&[site], &[counting(0)]);
    assert!(matches!(added, Err(Error::StopTimeout { .. })), "{added:?}");
    running.daemon.write("x").unwrap();
    assert!(wait::until(DEADLINE, || {
        attachment.sweep().unwrap();
        state(running.pid()) == "Z"
    }));
    assert!(count(&attachment) > 0, "what it does then is not counted");
    drop(attachment);
    assert_eq!(running.end(), "right");
}

/// Relays of threads: each works a little, starts the next and ends, so that no list of threads is ever true.
const STORM: &str = r#"
    static volatile long generations; static volatile int relays;
    static void *run(void *unused) {
        pthread_t next; pthread_attr_t detached;
        CHECK(work(2) == 7);
        enough(__atomic_add_fetch(&generations, 1, 0), 1001);
        pthread_attr_init(&detached); pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED);
        if (!stop) CHECK(pthread_create(&next, &detached, run, 0) == 0); else __atomic_sub_fetch(&relays, 1, 0);
        CHECK(work(4) == 13);
        return 0;
    }
    int main(void) {
        pthread_t thread;
        relays = 6;
        for (int i = 0; i < 6; i++) CHECK(pthread_create(&thread, 0, run, 0) == 0);
        begin();
        getchar(); stop = 1;
        // Between two looks: the verdict does not depend on it.
        while (relays) usleep(1000);
        printf("generations %d\n", generations > 1000);
        return 0;
    }
"#;

#[test]
fn threads_that_come_and_go_are_all_held() {
    let mut running = Running::start("storm", STORM, &[]);
    running.cycles_that_count(20, ms(5));
    running.cycles_until_enough(ms(5));
    assert_eq!(running.end(), "generations 1");
}

/// A thread that only runs on a signal stack of 4 KiB in the middle of other data, and small stacks of its own
/// making: nothing beside them may be written.
const SMALL_STACKS: &str = r#"
    static struct { char below[65536]; char stack[4096]; } area;
    static void on_signal(int unused) { while (!stop) work(1); }
    static void *wait_for_end(void *unused) {
        getchar();
        for (unsigned i = 0; i < sizeof area.below; i++) CHECK(area.below[i] == 0x5a);
        stop = 1; return 0;
    }
    int main(void) {
        pthread_t thread;
        memset(area.below, 0x5a, sizeof area.below);
        stack_t given = { .ss_sp = area.stack, .ss_size = sizeof area.stack }, seen;
        CHECK(sigaltstack(&given, 0) == 0);
        struct sigaction action = { .sa_handler = on_signal, .sa_flags = SA_ONSTACK };
        sigaction(SIGUSR1, &action, 0);
        sigset_t all; sigfillset(&all); pthread_sigmask(SIG_BLOCK, &all, 0);
        pthread_create(&thread, 0, wait_for_end, 0);
        pthread_sigmask(SIG_UNBLOCK, &all, 0);
        begin();
        raise(SIGUSR1);
        pthread_join(thread, 0);
        CHECK(sigaltstack(0, &seen) == 0 && seen.ss_sp == area.stack && seen.ss_size == sizeof area.stack);
        puts("right");
        return 0;
    }
"#;

#[test]
fn memory_beside_small_stacks_is_not_written() {
    let running = Running::start("small-stacks", SMALL_STACKS, &[]);
    running.cycles_that_count(5, ms(5));
    assert_eq!(running.end(), "right");
}

/// One thread, which is in a handler on a signal stack of 8 KiB with nothing mapped below: for 2 ms of CPU time, then it waits
/// for 5 ms outside; or with an argument always. A busy machine makes neither much longer than it makes the looks of whoever
/// waits for it to leave.
const SIGNAL_STACK: &str = r#"
    static int always;
    static long used_us(void) {
        struct timespec t; clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
        return t.tv_sec * 1000000 + t.tv_nsec / 1000;
    }
    static void for_us(long us) { for (long from = used_us(); used_us() - from < us; ) work(1); }
    static void on_signal(int unused) { if (always) puts("inside"); do for_us(2000); while (always); }
    int main(int count, char **arguments) {
        always = count > 1;
        char *area = mmap(0, 1 << 20, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        stack_t given = { .ss_sp = area + (1 << 19), .ss_size = 8192 };
        CHECK(mprotect(given.ss_sp, given.ss_size, PROT_READ | PROT_WRITE) == 0 && sigaltstack(&given, 0) == 0);
        struct sigaction action = { .sa_handler = on_signal, .sa_flags = SA_ONSTACK };
        sigaction(SIGUSR1, &action, 0);
        struct pollfd input = { .fd = 0, .events = POLLIN };
        begin();
        while (poll(&input, 1, 5) == 0) raise(SIGUSR1);
        puts("right");
        return 0;
    }
"#;

#[test]
fn a_thread_that_leaves_its_small_signal_stack_is_waited_for() {
    let running = Running::start("signal-stack", SIGNAL_STACK, &[]);
    running.cycles_that_count(8, ms(5));
    assert_eq!(running.end(), "right");
}

#[test]
fn a_thread_that_stays_on_its_small_signal_stack_is_refused() {
    let mut running = Running::start("signal-stack-always", SIGNAL_STACK, &["always"]);
    running.daemon.line_with("inside", DEADLINE).unwrap();
    let refused = arm(Target::open(running.pid()).unwrap(), &running.path, &["work"]).map(|_| ());
    assert!(matches!(refused, Err(Error::NoStack { .. })), "{refused:?}");
}
