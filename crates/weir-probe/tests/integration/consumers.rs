//! Several consumers of the same functions: attached and detached one by one, while threads run there and the others
//! go on counting.

use crate::counting;

use std::fs;
use std::os::unix::fs::FileExt;
use std::process::{Command, Stdio};
use std::time::Duration;

use testkit::target::{self, Source};
use testkit::{Daemon, wait};
use weir_ebpf::{MapKind, MapSpec};
use weir_probe::attach::{Attach, When};
use weir_probe::consumers::Consumer;
use weir_probe::window::Window;
use weir_probe::{Attachment, Refusal, Returns, SiteRequest, Target, plan_functions, prepare};
use weir_symbols::{Binary, Function, LinkAddr};

use crate::counting::{counting, identity, value};

/// Beside the first, which stays: together as many as one function may have.
const OTHERS: usize = 15;
pub(crate) const THREADS: u64 = 4;
pub(crate) const DEADLINE: Duration = Duration::from_secs(120);

/// Functions that are patched by a near jump, by one through a hole and by one through an outpost.
const FUNCTIONS: &str = r#"
    #define _GNU_SOURCE
    #include <pthread.h>
    #include <signal.h>
    #include <stdio.h>
    #include <stdlib.h>
    #include <ucontext.h>
    #include <unistd.h>
    __asm__(".text\n"
            ".globl near; .type near, @function; near: lea 1(%rdi,%rdi,2), %rax; mov %rax, %rdx; ret; .size near, .-near\n"
            ".skip 32, 0xcc\n"
            ".globl hole; .type hole, @function; hole: mov %edi, %eax; 1: dec %edi; jns 1b; ret; .size hole, .-hole\n"
            ".skip 32, 0xcc\n"
            ".globl pun; .type pun, @function; pun: push %rbx; 1: xor %eax, %eax; mov %edi, %eax; dec %edi; jns 1b; "
            "pop %rbx; ret; .size pun, .-pun\n"
            ".skip 32, 0xcc\n");
    long near(long), hole(long), pun(long);
    __attribute__((noinline)) long waits(long n) { char c; puts("waiting"); if (read(0, &c, 1) != 1) return -1; return n * 10 + c; }
"#;
const NAMES: [&str; 4] = ["near", "hole", "pun", "waits"];

/// Four threads that call the first three.
pub(crate) const THREADED: &str = r#"
    static volatile int stop; static unsigned long calls[4][8];
    static void *run(void *arg) {
        unsigned long *n = arg;
        for (unsigned k = 0; !stop; k++) {
            if (near(k) != 3l * k + 1) { puts("wrong near"); _exit(1); }
            if (hole(k & 3) != (k & 3)) { puts("wrong hole"); _exit(1); }
            if (pun(k & 1) != 0) { puts("wrong pun"); _exit(1); }
            *n += 3;
        }
        return 0;
    }
    int main(void) {
        alarm(600); setvbuf(stdout, 0, _IOLBF, 0); puts("ready"); getchar();
        pthread_t threads[4];
        for (int i = 0; i < 4; i++) pthread_create(&threads[i], 0, run, calls[i]);
        getchar(); stop = 1;
        for (int i = 0; i < 4; i++) pthread_join(threads[i], 0);
        printf("called %lu\n", calls[0][0] + calls[1][0] + calls[2][0] + calls[3][0]);
        getchar(); puts("end");
        return 0;
    }
"#;

/// Forks a child that calls the first three as often as a line to the parent says, as the parent does then.
const FORKING: &str = r#"
    #include <sys/wait.h>
    static long all(long n) { long k; for (k = 0; k < n; k++) { near(k); hole(k & 3); if (pun(k & 1) != 0) _exit(1); } return k; }
    int main(void) {
        alarm(600); setvbuf(stdout, 0, _IOLBF, 0); puts("ready"); getchar();
        int to[2], from[2]; long n = 0;
        if (pipe(to) || pipe(from)) return 1;
        if (fork() == 0) { close(to[1]); while (read(to[0], &n, sizeof n) == sizeof n) { n = all(n); if (write(from[1], &n, sizeof n) < 0) _exit(2); } _exit(0); }
        close(from[1]); close(to[0]); puts("forked");
        while (scanf("%ld", &n) == 1) {
            if (write(to[1], &n, sizeof n) < 0 || read(from[0], &n, sizeof n) != sizeof n) { puts("child gone"); continue; }
            printf("child %ld\n", n + all(n) - n);
        }
        close(to[1]); wait(0); return 0;
    }
"#;

/// One thread that does what it is told: calls `waits`, or has a signal handler return to an address with an argument, as
/// if it had been interrupted there, when a line comes. It says what the call returned.
const TOLD: &str = r#"
    static void told(void);
    __attribute__((used)) void said(long result) { printf("result %ld\n", result); told(); }
    __asm__(".text\nback: mov %rax, %rdi; and $-16, %rsp; call said\n");
    extern char back[]; static unsigned long address, argument;
    static void handle(int signal, siginfo_t *info, void *context) {
        greg_t *registers = ((ucontext_t *)context)->uc_mcontext.gregs; char c;
        registers[REG_RIP] = address; registers[REG_RDI] = argument;
        registers[REG_RSP] = ((registers[REG_RSP] - 256) & -16) - 8; // what this frame says lies below then
        *(long *)registers[REG_RSP] = (long)back;
        puts("parked"); if (read(0, &c, 1) != 1) _exit(1);
    }
    static void told(void) {
        static char line[100]; int n = 0;
        while (n < 99 && read(0, line + n, 1) == 1 && line[n] != '\n') n++;
        line[n] = 0;
        if (line[0] == 'w') said(waits(3));
        if (sscanf(line, "%lu %lu", &address, &argument) == 2) raise(SIGUSR1);
        puts("end"); exit(0);
    }
    int main(void) {
        struct sigaction action = { .sa_sigaction = handle, .sa_flags = SA_SIGINFO | SA_NODEFER };
        sigaction(SIGUSR1, &action, 0); alarm(600); setvbuf(stdout, 0, _IOLBF, 0);
        puts("ready"); told(); return 0;
    }
"#;

pub(crate) fn count(attachment: &Attachment, map: usize) -> u64 {
    value(attachment, map, 0)
}

/// The program, and what its file says of the functions.
pub(crate) struct Running {
    pub(crate) daemon: Daemon,
    binary: Binary,
    functions: Vec<Function>,
    windows: Vec<Result<Window, Refusal>>,
}

impl Running {
    pub(crate) fn start(name: &str, program: &str) -> Running {
        let text = format!("{FUNCTIONS}{program}");
        let path = target::build(name, Source::Text(&text), &["-O1", "-pthread", "-pie", "-fPIE", "-w"]);
        let mut command = Command::new(&path);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut daemon = Daemon::spawn(command).unwrap();
        daemon.line_with("ready", DEADLINE).unwrap();
        let binary = Binary::open(&path).unwrap();
        let functions: Vec<Function> =
            NAMES.iter().map(|name| binary.find(name).unwrap()[0].clone()).collect();
        let asked: Vec<_> = functions.iter().map(|function| (&binary, function)).collect();
        let windows = plan_functions(&asked);
        let techniques: Vec<String> = windows.iter().map(|w| w.as_ref().unwrap().technique()).collect();
        assert!(
            techniques[1].starts_with("short") && techniques[2].starts_with("punned"),
            "the shapes that this is about: {techniques:?}"
        );
        Running { daemon, binary, functions, windows }
    }

    /// Requests for those functions whose bit is set, with the first executable.
    pub(crate) fn sites(&self, which: u32) -> Vec<SiteRequest<'_>> {
        let program = Attach { executable: 0, cookie: 0, when: When::Entry };
        let site = |at: usize| SiteRequest {
            binary: &self.binary,
            function: &self.functions[at],
            window: &self.windows[at],
            called: None,
            semaphore: None,
            programs: vec![program],
            returns: None,
        };
        (0..NAMES.len()).filter(|at| which >> at & 1 == 1).map(site).collect()
    }

    /// Where the jump leads that stands at the entry of a function.
    fn jump(&self, function: usize) -> u64 {
        let (address, text) = self.text().swap_remove(function);
        match text[..] {
            [0xeb, distance, ..] => (address + 2).wrapping_add_signed(i64::from(distance as i8)),
            [0xe9, a, b, c, d, ..] => {
                (address + 5).wrapping_add_signed(i64::from(i32::from_le_bytes([a, b, c, d])))
            }
            _ => panic!("no jump: {text:x?}"),
        }
    }

    pub(crate) fn attach(&self, which: u32) -> Attachment {
        let pid = self.daemon.pid() as i32;
        let maps: Vec<MapSpec> =
            (0..=OTHERS).map(|n| MapSpec::new(format!("count{n}"), MapKind::Array, 4, 8, 1)).collect();
        let (maps, control) = (counting::maps(&maps), counting::control(64));
        let prepared = prepare(Target::open(pid).unwrap(), &maps, control, &identity(pid)).unwrap();
        let attachment = prepared.arm(&self.sites(which), &[counting(0)]).unwrap();
        assert_eq!(attachment.probes(), which.count_ones() as usize, "{:?}", attachment.outcomes());
        attachment
    }

    /// Address and text of each function.
    pub(crate) fn text(&self) -> Vec<(u64, Vec<u8>)> {
        let pid = self.daemon.pid();
        let maps = weir_symbols::maps::read(pid).unwrap();
        let memory = fs::File::open(format!("/proc/{pid}/mem")).unwrap();
        let read = |function: &Function| {
            let identity = self.binary.identity().unwrap();
            let start = LinkAddr(function.address.0);
            let at = weir_symbols::maps::to_virtual(&maps, identity, &self.binary, start).unwrap();
            // With the padding behind, where holes are.
            let mut bytes = vec![0; function.size as usize + 32];
            memory.read_exact_at(&mut bytes, at.0).unwrap();
            (at.0, bytes)
        };
        self.functions.iter().map(read).collect()
    }

    fn islands(&self) -> usize {
        let maps = fs::read_to_string(format!("/proc/{}/maps", self.daemon.pid())).unwrap();
        maps.lines().filter(|line| line.contains("memfd:weir-code")).count()
    }

    /// Ends the threads: how many calls they made.
    pub(crate) fn calls(&mut self) -> u64 {
        self.daemon.write("\n").unwrap();
        let said = self.daemon.line_with("called", DEADLINE).unwrap();
        said.trim().rsplit(' ').next().unwrap().parse().unwrap()
    }
}

/// One of the others while it is attached.
struct Other {
    consumer: Consumer,
    map: usize,
    /// Counts of its own and of the first when it had been added.
    own: u64,
    first: u64,
    first_before: u64,
}

#[test]
fn consumers_come_and_go_while_the_others_count_every_call() {
    let mut running = Running::start("consumers", THREADED);
    let before = running.text();
    let mut attachment = running.attach(0b111);
    running.daemon.write("\n").unwrap();
    let mut random = 12345u32;
    let mut next = |bound: usize| {
        random = random.wrapping_mul(1_103_515_245).wrapping_add(12345);
        (random >> 8) as usize % bound
    };
    let mut free: Vec<usize> = (1..=OTHERS).collect();
    let mut others: Vec<Other> = Vec::new();
    let (mut most, mut steps) = (0, 0);
    while steps < 80 || !others.is_empty() {
        let adds = steps < 80 && !free.is_empty() && (others.is_empty() || next(5) > 1 || steps < 20);
        if adds {
            let map = free.swap_remove(next(free.len()));
            let (own, first_before) = (count(&attachment, map), count(&attachment, 0));
            let added = attachment.add(&running.sites(0b111), &[counting(map as u32)]).unwrap();
            assert!(added.outcomes.iter().all(Result::is_ok), "{:?}", added.outcomes);
            let first = count(&attachment, 0);
            others.push(Other { consumer: added.consumer, map, own, first, first_before });
        } else {
            let other = others.swap_remove(next(others.len()));
            let first = count(&attachment, 0);
            let report = attachment.remove(other.consumer).unwrap();
            assert!(report.foreign.is_empty());
            let own = count(&attachment, other.map) - other.own;
            let first_after = count(&attachment, 0);
            // Each thread may have been on its way through the old trampoline when it was added.
            let (least, highest) =
                ((first - other.first).saturating_sub(THREADS), first_after - other.first_before);
            assert!(least <= own && own <= highest, "step {steps}: {least} <= {own} <= {highest}");
            if !report.left_mapped {
                let after = count(&attachment, other.map);
                // Its threads run on, in the functions all the time.
                let runs = wait::until_used(running.daemon.pid(), Duration::from_micros(300), DEADLINE);
                assert!(runs, "step {steps}: it does not go on");
                assert_eq!(count(&attachment, other.map), after, "step {steps}: it counts on");
            }
            free.push(other.map);
        }
        most = most.max(others.len());
        steps += 1;
        // Pacing alone: the verdict does not depend on it.
        std::thread::sleep(Duration::from_micros(500));
    }
    assert_eq!(most, OTHERS, "all were attached at once");
    let calls = running.calls();
    assert_eq!(count(&attachment, 0), calls, "the first counted every call");
    assert!(calls > 10_000, "{calls} calls");
    let report = attachment.detach().unwrap();
    assert_eq!((report.restored, report.foreign.len()), (3, 0));
    assert_eq!(running.text(), before);
    running.daemon.write("\n").unwrap();
    running.daemon.finish(DEADLINE).unwrap();
}

#[test]
fn text_is_as_before_when_the_last_consumer_goes() {
    let mut running = Running::start("consumers", THREADED);
    let before = running.text();
    let mut attachment = running.attach(0b001);
    running.daemon.write("\n").unwrap();
    for round in 0..10 {
        let added = attachment.add(&running.sites(0b110), &[counting(1)]).unwrap();
        assert!(added.outcomes.iter().all(Result::is_ok), "round {round}: {:?}", added.outcomes);
        let counted = count(&attachment, 1);
        assert!(
            wait::until(DEADLINE, || count(&attachment, 1) > counted + 1000),
            "round {round}: none counted"
        );
        let text = running.text();
        assert!((0..3).all(|at| text[at] != before[at]), "round {round}: all three are patched");
        let report = attachment.remove(added.consumer).unwrap();
        assert_eq!((report.restored, report.foreign.len()), (2, 0), "round {round}");
        let text = running.text();
        assert_eq!((&text[1], &text[2]), (&before[1], &before[2]), "round {round}");
        assert_ne!(text[0], before[0], "round {round}: the first stays");
    }
    assert!(running.islands() < 8, "{} islands are left", running.islands());
    let report = attachment.remove(Consumer::FIRST).unwrap();
    assert_eq!((report.restored, report.foreign.len()), (1, 0));
    assert_eq!(running.text(), before);
    let counted = count(&attachment, 0);
    assert!(counted > 1000);
    attachment.detach().unwrap();
    running.calls();
    running.daemon.write("\n").unwrap();
    running.daemon.finish(DEADLINE).unwrap();
}

/// A forked child has code that its parent shares, and none of what is mapped in that later.
#[test]
fn a_forked_child_runs_on_where_its_parents_places_are_led_elsewhere() {
    let mut running = Running::start("consumers-forking", FORKING);
    let mut attachment = running.attach(0b111);
    running.daemon.write("\n").unwrap();
    running.daemon.line_with("forked", DEADLINE).unwrap();
    let both_call = |running: &mut Running| {
        running.daemon.write("100\n").unwrap();
        assert_eq!(running.daemon.line(DEADLINE).unwrap().trim(), "child 100");
    };
    both_call(&mut running);
    assert_eq!(count(&attachment, 0), 300, "the parent's alone");
    let added = attachment.add(&running.sites(0b111), &[counting(1)]).unwrap();
    assert!(added.outcomes.iter().all(Result::is_ok), "{:?}", added.outcomes);
    both_call(&mut running);
    assert_eq!((count(&attachment, 0), count(&attachment, 1)), (600, 300));
    attachment.remove(added.consumer).unwrap();
    both_call(&mut running);
    assert_eq!((count(&attachment, 0), count(&attachment, 1)), (900, 300));
    attachment.detach().unwrap();
    both_call(&mut running);
    running.daemon.finish(DEADLINE).unwrap();
}

/// A signal handler returns to where the last consumer's jump led, in a hole or an outpost, when all of it is gone.
#[track_caller]
fn check_parked(function: usize, argument: u64, result: u64) {
    let mut running = Running::start("consumers-told", TOLD);
    let before = running.text();
    let mut attachment = running.attach(0b001);
    let added = attachment.add(&running.sites(1 << function), &[counting(1)]).unwrap();
    assert!(added.outcomes[0].is_ok(), "{:?}", added.outcomes);
    running.daemon.write(&format!("{} {argument}\n", running.jump(function))).unwrap();
    running.daemon.line_with("parked", DEADLINE).unwrap();
    let report = attachment.remove(added.consumer).unwrap();
    assert_eq!((report.restored, report.foreign.len(), report.left_mapped), (1, 0, true));
    running.daemon.write("\n").unwrap();
    running.daemon.line_with(&format!("result {result}"), DEADLINE).unwrap();
    // What was left goes with the next change.
    let added = attachment.add(&running.sites(1 << function), &[counting(2)]).unwrap();
    assert!(added.outcomes[0].is_ok(), "{:?}", added.outcomes);
    let report = attachment.remove(added.consumer).unwrap();
    assert_eq!((report.restored, report.foreign.len(), report.left_mapped), (1, 0, false));
    assert_eq!(running.islands(), 1);
    attachment.detach().unwrap();
    assert_eq!(running.text(), before);
    running.daemon.finish(DEADLINE).unwrap();
}

#[test]
fn a_handler_comes_back_to_a_hole_of_a_consumer_that_is_gone() {
    check_parked(1, 3, 3);
}

#[test]
fn a_handler_comes_back_to_an_outpost_of_a_consumer_that_is_gone() {
    check_parked(2, 1, 0);
}

/// A return address that was replaced leads to the trampoline of the consumer, though no stack says so.
#[test]
fn a_call_whose_return_is_replaced_comes_back_when_its_consumer_is_gone() {
    let mut running = Running::start("consumers-told", TOLD);
    let before = running.text();
    let mut attachment = running.attach(0b001);
    let mut sites = running.sites(0b1000);
    sites[0].programs[0].when = When::Return;
    sites[0].returns = Some(Ok(Returns::Replace));
    let added = attachment.add(&sites, &[counting(1)]).unwrap();
    let patched = added.outcomes[0].as_ref().unwrap();
    assert_eq!(patched.returns_refused, None);
    running.daemon.write("w\n").unwrap();
    running.daemon.line_with("waiting", DEADLINE).unwrap();
    let report = attachment.remove(added.consumer).unwrap();
    assert_eq!((report.foreign.len(), report.left_mapped), (0, true));
    running.daemon.write("A").unwrap();
    running.daemon.line_with("result 95", DEADLINE).unwrap();
    attachment.detach().unwrap();
    assert_eq!(running.text(), before);
    running.daemon.finish(DEADLINE).unwrap();
}

#[test]
fn one_more_program_than_a_function_may_have_is_refused() {
    let running = Running::start("consumers", THREADED);
    let mut attachment = running.attach(0b001);
    for map in 1..=OTHERS {
        let added = attachment.add(&running.sites(0b001), &[counting(map as u32)]).unwrap();
        assert!(added.outcomes[0].is_ok(), "{map}: {:?}", added.outcomes);
    }
    let refused = attachment.add(&running.sites(0b001), &[counting(1)]).unwrap();
    assert_eq!(refused.outcomes, [Err(Refusal::TooManyPrograms { given: 17, max: 16 })]);
}
