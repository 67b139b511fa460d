//! What may become of a process while it is traced: it forks, executes another program, ends, or writes where it
//! should not. weir ends cleanly each time, and leaves nothing behind.

use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use testkit::target::{self, Source};
use testkit::{Daemon, mapped, wait};
use weir_symbols::{Binary, maps};

const DEADLINE: Duration = Duration::from_secs(120);

/// Runs of the random test, and where its numbers start (WEIR_ENDS, WEIR_ENDS_SEED).
const ENDS: u64 = 50;

/// Of weir's calls of ptrace, which are some 300, every so many is where it is killed (WEIR_PTRACE_STEP).
const PTRACE_STEP: u64 = 5;

/// A program that obeys lines: `?` says how it is, `f` forks a child that says its id and lives as long as it does,
/// `x` executes another program, `e` ends, `m` ends its main thread, `h` and a letter spoils weir's segment.
const OBEDIENT: &str = r#"
    #define _GNU_SOURCE
    #include <pthread.h>
    #include <signal.h>
    #include <stdio.h>
    #include <stdlib.h>
    #include <string.h>
    #include <sys/mman.h>
    #include <sys/prctl.h>
    #include <unistd.h>
    static volatile unsigned long calls, wrong;
    static unsigned long *mine;
    static char signal_stack[65536];
    /* What a thread whose stack was borrowed must still have. */
    static int is_changed(void) {
        stack_t stack; sigset_t mask;
        sigaltstack(0, &stack); pthread_sigmask(SIG_BLOCK, 0, &mask);
        return stack.ss_sp != signal_stack || !sigismember(&mask, SIGUSR2) || sigismember(&mask, SIGUSR1) || sigismember(&mask, SIGTERM);
    }
    __attribute__((noinline)) int work(int x) { __asm__ volatile("" : "+r"(x)); return x * 3 + 1; }
    /* Pacing alone: the verdict does not depend on it. */
    static void *run(void *unused) { for (;;) { if (work(2) != 7) wrong++; calls++; usleep(50); } }
    static void start(void) { pthread_t thread; for (int i = 0; i < 3; i++) pthread_create(&thread, 0, run, 0); }
    static void spoil(char how) {
        char line[512]; unsigned long low, high; FILE *maps = fopen("/proc/self/maps", "r");
        while (fgets(line, sizeof line, maps)) {
            if (!strstr(line, "/memfd:weir-segment") || sscanf(line, "%lx-%lx", &low, &high) != 2) continue;
            unsigned long *at = (unsigned long *)low;
            unsigned random = 7;
            switch (how) {
            case 'r': /* anything, but for the magic number and the version */
                for (unsigned long i = 16; i < high - low; i++) { random = random * 1103515245 + 12345; ((char *)at)[i] = random >> 16; }
                break;
            case '0': memset(at, 0, high - low); break;
            case 'f': memset((char *)at + 8, 0xff, 4088); break;
            case 'j': memset((char *)at + 4096, 0xff, 4096); memset((char *)at + 272, 0, 264); break; /* journal, islands */
            case 'i': /* islands and the gate: our own memory, our own text, nonsense */
                at[264 / 8] = (unsigned long)mine;
                at[272 / 8] = 5;
                at[280 / 8] = (unsigned long)mine; at[288 / 8] = 4096;
                at[296 / 8] = (unsigned long)mine + 4096; at[304 / 8] = 8192;
                at[312 / 8] = (unsigned long)&work & ~4095; at[320 / 8] = 4096;
                at[328 / 8] = 0; at[336 / 8] = 8;
                at[344 / 8] = -4096; at[352 / 8] = 4096;
                break;
            case 't': /* the weir itself is traced, by one that is gone */
                ((unsigned *)at)[88 / 4] = ((unsigned *)at)[64 / 4];
                at[72 / 8] = 0;
                break;
            case 'u': munmap(at, high - low); break;
            }
        }
        fclose(maps);
    }
    int main(void) {
        alarm(600);
        setvbuf(stdout, 0, _IOLBF, 0);
        mine = mmap(0, 3 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        mprotect((char *)mine + 8192, 4096, PROT_NONE);
        for (int i = 0; i < 1024; i++) mine[i] = 0x1234567;
        start();
        stack_t stack = { .ss_sp = signal_stack, .ss_size = sizeof signal_stack };
        sigset_t one; sigemptyset(&one); sigaddset(&one, SIGUSR2);
        sigaltstack(&stack, 0); pthread_sigmask(SIG_BLOCK, &one, 0);
        puts("ready");
        for (char line[16]; fgets(line, sizeof line, stdin);) switch (line[0]) {
        case '?': {
            alarm(600);
            unsigned long before = calls; int others = 0;
            for (int i = 0; i < 1024; i++) others += mine[i] != 0x1234567;
            /* A minute at least, which the verdict needs of a process that stands still alone. */
            for (int i = 0; i < 60000 && calls < before + 50; i++) usleep(1000);
            printf("%s\n", calls < before + 50 ? "stands still" : wrong ? "wrong" : is_changed() ? "changed" : others ? "written" : "well");
            break;
        }
        case 'f':
            if (fork()) break;
            prctl(PR_SET_PDEATHSIG, SIGKILL); alarm(600);
            calls = 0; start();
            /* Until it has called: the verdict does not depend on when. */
            for (int i = 0; i < 60000 && !calls; i++) usleep(1000);
            printf("child %d %s\n", getpid(), calls && !wrong ? "well" : "unwell");
            for (;;) pause();
        case 'x': execlp("sh", "sh", "-c", "echo other; read x; exit 7", (char *)0); break;
        case 'm': pthread_exit(0);
        case 'e': exit(5);
        case 'h': spoil(line[1]); puts("done"); break;
        }
        return 0;
    }
"#;

/// A number from the environment.
fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

fn weir() -> Command {
    Command::new(env!("CARGO_BIN_EXE_weir"))
}

struct Target {
    daemon: Daemon,
    path: PathBuf,
}

impl Target {
    fn start() -> Target {
        let path = target::build("obedient", Source::Text(OBEDIENT), &["-O2", "-pthread", "-w"]);
        let mut daemon = Daemon::spawn(Command::new(&path)).unwrap();
        daemon.line_with("ready", DEADLINE).unwrap();
        Target { daemon, path }
    }

    fn pid(&self) -> u32 {
        self.daemon.pid()
    }

    fn tell(&mut self, line: &str) {
        self.daemon.write(&format!("{line}\n")).unwrap();
    }

    fn is_well(&mut self) {
        self.tell("?");
        assert_eq!(self.daemon.line(DEADLINE).unwrap(), "well");
    }

    /// weir, that traces it.
    fn trace(&self) -> Daemon {
        let mut command = weir();
        let script = format!("uprobe:\"{}\":work {{ @ = count(); }}", self.path.display());
        command.args(["trace", "-e", &script, "-p", &self.pid().to_string()]);
        Daemon::spawn(command).unwrap()
    }

    fn traced(&self) -> Daemon {
        let mut weir = self.trace();
        if !wait::until(DEADLINE, || is_patched(self.pid(), &self.path)) {
            let is_running = weir.is_running();
            panic!("never armed; weir runs: {is_running}; {:?}", weir.finish(DEADLINE));
        }
        weir
    }
}

fn is_patched(pid: u32, path: &Path) -> bool {
    let binary = Binary::open(path).unwrap();
    let function = binary.find("work").unwrap()[0];
    let mappings = maps::read(pid).unwrap();
    let identity = binary.identity().unwrap();
    let at = maps::to_virtual(&mappings, identity, &binary, function.address).expect("it maps its program");
    let memory = std::fs::File::open(format!("/proc/{pid}/mem")).unwrap();
    let mut bytes = vec![0; function.size as usize];
    memory.read_exact_at(&mut bytes, at.0).unwrap();
    Some(&bytes[..]) != binary.bytes(function.address, bytes.len())
}

fn has_traces(pid: u32) -> bool {
    !mapped::of_weir_in(pid).is_empty()
}

fn detach(pid: u32) -> Output {
    weir().args(["detach", "-p", &pid.to_string()]).output().unwrap()
}

/// The borrowed thread keeps its blocked signals and its signal stack, wherever the death of weir leaves it.
#[test]
fn a_weir_killed_at_any_ptrace_changes_nothing_of_the_thread_it_borrowed() {
    if !Command::new("strace").arg("-V").output().is_ok_and(|output| output.status.success()) {
        return testkit::skip::skip("kill", "strace is not installed");
    }
    let mut target = Target::start();
    let script =
        format!("uprobe:\"{}\":work {{ @ = count(); }} interval:ms:1 {{ exit() }}", target.path.display());
    let step = setting("WEIR_PTRACE_STEP", PTRACE_STEP) as usize;
    for when in (1..).step_by(step) {
        assert!(when < 1000, "weir makes more than 1000 calls of ptrace");
        let mut command = Command::new("strace");
        command.args(["-qq", "-o", "/dev/null", "-e", "trace=ptrace"]);
        command.args(["-e", &format!("inject=ptrace:signal=SIGKILL:when={when}")]);
        command.arg(env!("CARGO_BIN_EXE_weir")).args(["trace", "-e", &script]);
        let output = command.args(["-p", &target.pid().to_string()]).output().unwrap();
        target.tell("?");
        assert_eq!(target.daemon.line(DEADLINE).unwrap(), "well", "killed before ptrace {when}");
        if output.status.success() {
            break;
        }
    }
    detach(target.pid());
    assert!(!is_patched(target.pid(), &target.path) && !has_traces(target.pid()));
    target.is_well();
}

/// Ends weir as Ctrl-C does; its output and messages.
fn stop(weir: Daemon) -> (String, String) {
    weir.signal(Signal::SIGINT).unwrap();
    let ended = weir.finish(DEADLINE).unwrap();
    assert!(ended.status.success(), "{}: {}", ended.status, ended.stderr);
    (ended.stdout, ended.stderr)
}

#[test]
fn a_child_outlives_the_end_of_its_parents_probes_and_can_be_restored() {
    let mut target = Target::start();
    let weir = target.traced();
    target.tell("f");
    let line = target.daemon.line_with("child", DEADLINE).unwrap();
    let child: u32 = line.split(' ').nth(1).unwrap().parse().unwrap();
    assert!(line.ends_with(" well"), "{line}");
    assert!(is_patched(child, &target.path), "a child has its parent's text");
    stop(weir);
    assert!(!is_patched(target.pid(), &target.path) && is_patched(child, &target.path));
    target.is_well();
    let output = detach(child);
    assert!(output.status.success(), "{output:?}");
    assert!(!is_patched(child, &target.path) && !has_traces(child));
    assert!(Path::new(&format!("/proc/{child}")).exists());
    assert!(!has_traces(target.pid()));
    target.is_well();
}

#[test]
fn a_child_can_be_traced_while_its_parent_is() {
    let mut target = Target::start();
    let weir_of_parent = target.traced();
    target.tell("f");
    let line = target.daemon.line_with("child", DEADLINE).unwrap();
    let child = line.split(' ').nth(1).unwrap();
    let script = format!(
        "uprobe:\"{}\":work {{ @[pid] = count(); @seen = 1; }} interval:ms:20 /@seen/ {{ exit() }}",
        target.path.display()
    );
    let output = weir().args(["trace", "-e", &script, "-p", child]).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains(&format!("@[{child}]: ")), "{text}");
    assert!(is_patched(target.pid(), &target.path) && !is_patched(child.parse().unwrap(), &target.path));
    stop(weir_of_parent);
    target.is_well();
}

#[test]
fn a_process_without_its_main_thread_is_traced() {
    let mut target = Target::start();
    target.tell("m");
    let path = format!("/proc/{}/stat", target.pid());
    assert!(wait::until(DEADLINE, || std::fs::read_to_string(&path).unwrap().contains(") Z ")));
    let script = format!(
        "uprobe:\"{}\":work {{ @ = count(); @seen = 1; }} interval:ms:20 /@seen/ {{ exit() }}",
        target.path.display()
    );
    let output = weir().args(["trace", "-e", &script, "-p", &target.pid().to_string()]).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{output:?}");
    assert!(text.lines().any(|line| line.strip_prefix("@: ").is_some_and(|count| count != "0")), "{text}");
    kill(Pid::from_raw(target.pid() as i32), Signal::SIGKILL).unwrap();
}

#[test]
fn executing_another_program_ends_the_probes_and_nothing_else() {
    let mut target = Target::start();
    let weir = target.traced();
    target.tell("x");
    target.daemon.line_with("other", DEADLINE).unwrap();
    let (text, messages) = stop(weir);
    assert!(text.contains("@: "), "{text}");
    // How long it ran unprobed is told where it was seen again before the end.
    let is_of_it = |line: &str| {
        ["executed another program", "were seen to execute"].iter().any(|part| line.contains(part))
    };
    assert!(messages.lines().all(is_of_it), "{messages}");
    target.tell("");
    assert_eq!(target.daemon.finish(DEADLINE).unwrap().status.code(), Some(7));
}

#[test]
fn a_program_that_executes_another_and_ends_ends_weir_too() {
    let mut target = Target::start();
    let weir = target.traced();
    target.tell("x");
    target.daemon.line_with("other", DEADLINE).unwrap();
    target.tell("");
    assert_eq!(target.daemon.finish(DEADLINE).unwrap().status.code(), Some(7));
    let ended = weir.finish(DEADLINE).unwrap();
    assert!(ended.status.success() && ended.stdout.contains("@: "), "{ended:?}");
}

#[test]
fn a_target_that_ends_at_any_moment_ends_weir() {
    let (ends, mut random) = (setting("WEIR_ENDS", ENDS), setting("WEIR_ENDS_SEED", 1));
    for round in 0..ends {
        let mut target = Target::start();
        let weir = target.trace();
        random = random.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        let delay = (random >> 33) % 60_000;
        // Moments of chance: the verdict is the same at any.
        std::thread::sleep(Duration::from_micros(delay));
        // Every third time while weir detaches.
        if round % 3 == 2 {
            assert!(wait::until(DEADLINE, || is_patched(target.pid(), &target.path)));
            weir.signal(Signal::SIGINT).unwrap();
            // As above: the verdict is the same at any.
            std::thread::sleep(Duration::from_micros(delay / 6));
        }
        match round % 2 {
            0 => kill(Pid::from_raw(target.pid() as i32), Signal::SIGKILL).unwrap(),
            _ => target.tell("e"),
        }
        target.daemon.finish(DEADLINE).unwrap_or_else(|error| panic!("round {round}: {error}"));
        let ended =
            weir.finish(DEADLINE).unwrap_or_else(|error| panic!("round {round}: weir hangs: {error}"));
        let message = ended.stderr.trim();
        let is_clear = ["is gone", "no process", "no program to trace"];
        match ended.status.code() {
            Some(0) => assert!(message.is_empty(), "round {round}, {delay} us: {message}"),
            Some(3) => {
                assert!(is_clear.iter().any(|text| message.contains(text)), "round {round}: {message}")
            }
            code => panic!("round {round}, {delay} us: {code:?} {message}"),
        }
    }
}

#[test]
fn a_spoiled_segment_does_no_harm_at_weirs_own_end() {
    for how in ["r", "0", "f", "j", "i"] {
        let mut target = Target::start();
        let weir = target.traced();
        target.tell(&format!("h{how}"));
        target.daemon.line_with("done", DEADLINE).unwrap();
        weir.signal(Signal::SIGINT).unwrap();
        let ended = weir.finish(DEADLINE).unwrap();
        assert!(!ended.stderr.contains("panicked"), "{how}: {}", ended.stderr);
        assert!(ended.status.success(), "{how}: {}: {}", ended.status, ended.stderr);
        assert!(!is_patched(target.pid(), &target.path) && !has_traces(target.pid()), "{how}");
        target.is_well();
    }
}

#[test]
fn a_spoiled_segment_does_no_harm_to_a_restore() {
    for how in ["r", "0", "f", "j", "i"] {
        let mut target = Target::start();
        let weir = target.traced();
        kill(Pid::from_raw(weir.pid() as i32), Signal::SIGKILL).unwrap();
        weir.finish(DEADLINE).unwrap();
        target.tell(&format!("h{how}"));
        target.daemon.line_with("done", DEADLINE).unwrap();
        let output = detach(target.pid());
        assert!(output.status.success(), "{how}: {output:?}");
        assert!(!is_patched(target.pid(), &target.path) && !has_traces(target.pid()), "{how}: {output:?}");
        target.is_well();
    }
}

#[test]
fn a_process_whose_segment_is_spoiled_is_listed_as_such_with_its_weir() {
    for how in ["r", "0", "f", "j"] {
        let mut target = Target::start();
        let traced = target.traced();
        target.tell(&format!("h{how}"));
        target.daemon.line_with("done", DEADLINE).unwrap();
        let listed = || {
            let table = weir().arg("ps").output().unwrap();
            let table = String::from_utf8(table.stdout).unwrap();
            let own = format!("{} ", target.pid());
            table.lines().find(|line| line.trim_start().starts_with(&own)).unwrap_or_default().to_owned()
        };
        let is_corrupt = listed().contains("(corrupt: ");
        // What is spoiled is the header; a journal may be anything.
        assert!(is_corrupt || how == "j", "{how}: {}", listed());
        // Its weir lives, and weir itself is no process that is traced.
        assert!(!is_corrupt || listed().contains(&format!(" {} ", traced.pid())), "{how}: {}", listed());
        let objects = weir().args(["ps", "-f", "json"]).output().unwrap();
        let objects = String::from_utf8(objects.stdout).unwrap();
        assert!(!objects.contains(&format!("\"pid\":{},", traced.pid())), "{how}: {objects}");
        kill(Pid::from_raw(traced.pid() as i32), Signal::SIGKILL).unwrap();
        traced.finish(DEADLINE).unwrap();
        assert!(listed().contains(if is_corrupt { " gone " } else { "" }), "{how}: {}", listed());
        let told = detach(target.pid());
        assert!(told.status.success(), "{how}: {told:?}");
        assert!(!is_patched(target.pid(), &target.path) && !has_traces(target.pid()), "{how}");
        assert_eq!(listed(), "", "{how}");
        target.is_well();
    }
}

/// Both have it mapped. What the target writes there is not to be the end of a weir that is taken for a target.
#[test]
fn a_weir_is_not_restored_for_what_its_target_writes_into_the_segment() {
    for how in ["r", "0", "f", "t"] {
        let mut target = Target::start();
        let traced = target.traced();
        target.tell(&format!("h{how}"));
        target.daemon.line_with("done", DEADLINE).unwrap();
        let output = detach(traced.pid());
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && said.contains("has no weir probes"), "{how}: {output:?}");
        assert!(has_traces(traced.pid()), "{how}: its segment is gone");
        // `--all` takes whom `ps` lists.
        let objects = weir().args(["ps", "-f", "json"]).output().unwrap();
        let objects = String::from_utf8(objects.stdout).unwrap();
        assert!(!objects.contains(&format!("\"pid\":{},", traced.pid())), "{how}: {objects}");
        traced.signal(Signal::SIGINT).unwrap();
        let ended = traced.finish(DEADLINE).unwrap();
        assert!(ended.status.success(), "{how}: {ended:?}");
        assert!(!is_patched(target.pid(), &target.path) && !has_traces(target.pid()), "{how}");
        target.is_well();
    }
}

/// Probes that write to a segment that is gone would crash: a process that unmaps it is on its own, but only once
/// it is restored it can run on.
#[test]
fn text_is_restored_where_the_segment_is_gone() {
    let mut target = Target::start();
    let weir = target.traced();
    hold(&weir, target.pid());
    close_gates(target.pid());
    target.tell("hu");
    target.daemon.line_with("done", DEADLINE).unwrap();
    kill(Pid::from_raw(weir.pid() as i32), Signal::SIGKILL).unwrap();
    weir.finish(DEADLINE).unwrap();
    let output = detach(target.pid());
    assert!(output.status.success(), "{output:?}");
    assert!(!is_patched(target.pid(), &target.path) && !has_traces(target.pid()));
    target.is_well();
}

/// Stops weir at a moment at which none of the target's threads is held: text is written while all of them are, and whoever waits for
/// that may be ahead of weir, which has yet to let them go.
fn hold(weir: &Daemon, target: u32) {
    let weir = Pid::from_raw(weir.pid() as i32);
    let status = |task: &Path, field: &str| {
        let status = std::fs::read_to_string(task.join("status")).unwrap();
        status.lines().find_map(|line| Some(line.strip_prefix(field)?.trim().to_owned())).unwrap()
    };
    let tasks = |pid: &dyn std::fmt::Display| -> Vec<PathBuf> {
        let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap();
        tasks.map(|task| task.unwrap().path()).collect()
    };
    let is_between_stops = || {
        kill(weir, Signal::SIGSTOP).unwrap();
        let stopped = || tasks(&weir).iter().all(|task| status(task, "State:").starts_with('T'));
        assert!(wait::until(DEADLINE, stopped), "weir does not stop");
        let is_free = tasks(&target).iter().all(|task| status(task, "TracerPid:") == "0");
        if !is_free {
            kill(weir, Signal::SIGCONT).unwrap();
        }
        is_free
    };
    assert!(wait::until(DEADLINE, is_between_stops), "weir never lets the target's threads go");
}

/// How often each thread but the main one has given up its CPU by itself.
fn waits_of_threads(pid: u32) -> Vec<u64> {
    let threads =
        std::fs::read_dir(format!("/proc/{pid}/task")).unwrap().map(|thread| thread.unwrap().path());
    let others = threads.filter(|thread| !thread.ends_with(pid.to_string()));
    let waits = |thread: PathBuf| {
        let status = std::fs::read_to_string(thread.join("status")).unwrap();
        let count = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
        count.unwrap().trim().parse().unwrap()
    };
    others.map(waits).collect()
}

/// As a fork child has them: no program runs any more. A thread that has slept since then has left the program that it was in; the main
/// one is in none.
fn close_gates(pid: u32) {
    let mappings = maps::read(pid).unwrap();
    let memory = std::fs::File::options().write(true).open(format!("/proc/{pid}/mem")).unwrap();
    for code in mappings.iter().filter(|mapping| mapping.path.starts_with("/memfd:weir-code")) {
        memory.write_all_at(&[0; 8], code.end.0).unwrap();
    }
    let before = waits_of_threads(pid);
    let have_slept = || before.iter().zip(waits_of_threads(pid)).all(|(before, now)| now > *before);
    assert!(wait::until(DEADLINE, have_slept), "its threads do not run");
}

/// Traces `script` on process `pid` until it exits by itself.
fn trace_pid(script: &str, pid: u32) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
    command.args(["trace", "-e", script, "-p", &pid.to_string()]).output().unwrap()
}

#[test]
fn many_threads_that_want_to_run_are_stopped_in_time() {
    let source = r#"
        #include <pthread.h>
        #include <stdio.h>
        #include <unistd.h>
        static volatile int stop; volatile long seen;
        __attribute__((noinline)) void foo(long n) { seen = n; }
        static void *run(void *unused) { while (!stop) foo(1); return unused; }
        int main(void) {
            alarm(600);
            pthread_t threads[48];
            for (int i = 0; i < 48; i++) pthread_create(&threads[i], 0, run, 0);
            puts("ready"); fflush(stdout); getchar(); stop = 1;
            for (int i = 0; i < 48; i++) pthread_join(threads[i], 0);
            puts("done");
            return 0;
        }
    "#;
    let path = target::build("burning", Source::Text(source), &["-O2", "-pthread"]);
    let mut server = Daemon::spawn(Command::new(&path)).unwrap();
    server.line_with("ready", DEADLINE).unwrap();
    let script =
        format!("uprobe:\"{}\":foo {{ @ = count(); }} interval:ms:200 {{ exit(); }}", path.display());
    for round in 0..3 {
        let output = trace_pid(&script, server.pid());
        assert!(output.status.success(), "round {round}: {}", String::from_utf8_lossy(&output.stderr));
    }
    server.close_stdin();
    assert!(server.finish(DEADLINE).unwrap().stdout.contains("done"));
}

#[test]
fn a_target_that_may_not_read_the_time_stamp_counter_has_a_clock() {
    let source = r#"
        #include <poll.h>
        #include <stdio.h>
        #include <sys/prctl.h>
        #include <unistd.h>
        volatile long seen;
        __attribute__((noinline)) void foo(long n) { seen = n; }
        int main(void) {
            alarm(600);
            if (prctl(PR_SET_TSC, PR_TSC_SIGSEGV)) return 3;
            puts("ready"); fflush(stdout);
            struct pollfd input = { .events = POLLIN };
            /* Pacing alone: the verdict does not depend on it. */
            for (long n = 0; poll(&input, 1, 1) == 0; n++) foo(n);
            puts("done");
            return 0;
        }
    "#;
    let path = target::build("no-tsc", Source::Text(source), &["-O2"]);
    let mut server = Daemon::spawn(Command::new(&path)).unwrap();
    server.line_with("ready", DEADLINE).unwrap();
    let script = format!(
        "uprobe:\"{}\":foo {{ @ = max(nsecs); @seen = 1; }} interval:ms:20 /@seen/ {{ exit(); }}",
        path.display()
    );
    let output = trace_pid(&script, server.pid());
    let text = String::from_utf8(output.stdout).unwrap();
    let now = text.lines().find_map(|line| line.strip_prefix("@: ")?.parse::<u64>().ok());
    assert!(now.is_some_and(|ns| ns > 1_000_000_000), "{text}");
    let ended = server.finish(DEADLINE).unwrap();
    assert!(ended.status.success() && ended.stdout.contains("done"), "{ended:?}");
}

/// The target reads its own clock around each call: a probe's time lies between, however long a call takes, but for the stated error.
#[test]
fn the_clock_of_probes_is_that_of_the_target() {
    let source = r#"
        #include <stdio.h>
        #include <time.h>
        #include <unistd.h>
        volatile long seen;
        __attribute__((noinline)) void foo(long before, long after_last) { seen = before + after_last; }
        static long now(void) {
            struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t);
            return t.tv_sec * 1000000000 + t.tv_nsec;
        }
        int main(void) {
            alarm(600);
            long after = now();
            for (int n = 0; n < 4000; n++) {
                foo(now(), after);
                after = now();
                /* Pacing alone: the verdict does not depend on it. */
                usleep(100);
            }
            return 0;
        }
    "#;
    let path = target::build("own-clock", Source::Text(source), &["-O2"]);
    // `arg1` is the time after the call before this one.
    let script = format!(
        "uprobe:\"{}\":foo {{ $now = nsecs; @ = count();
            if ($now < @last) {{ @back = count(); }}
            if ($now + 10000 > arg0 && @last < arg1 + 10000) {{ @between = count(); }} @last = $now; }}",
        path.display()
    );
    let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
    let output =
        command.args(["trace", "-e", &script, "-c", &format!("\"{}\"", path.display())]).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let count = |name: &str| {
        let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
        value.map_or(0, |value| value.parse::<u64>().unwrap())
    };
    assert_eq!(count("@back"), 0, "{text}");
    assert!(count("@") == 4000 && count("@between") * 10 >= count("@") * 9, "{text}");
}

#[test]
fn a_second_weir_cannot_take_the_probes_of_the_first() {
    let path = target::program("loop");
    let mut server = Daemon::spawn(Command::new(&path)).unwrap();
    server.line_with("pid=", DEADLINE).unwrap();
    let script = format!("uprobe:\"{}\":work {{ @ = count(); }}", path.display());
    let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
    command.args(["trace", "-e", &script, "-p", &server.pid().to_string()]);
    let first = Daemon::spawn(command).unwrap();
    let has_code = || mapped::of_weir_in(server.pid()).iter().any(|line| line.contains("/memfd:weir-code"));
    assert!(wait::until(DEADLINE, has_code));
    let mut detach = Command::new(env!("CARGO_BIN_EXE_weir"));
    let detach = detach.args(["detach", "-p", &server.pid().to_string()]).output().unwrap();
    let message = String::from_utf8_lossy(&detach.stderr).into_owned();
    assert_eq!(detach.status.code(), Some(1), "{message}");
    assert!(message.contains("which still runs"), "{message}");
    first.signal(Signal::SIGINT).unwrap();
    let ended = first.finish(DEADLINE).unwrap();
    assert!(ended.status.success() && ended.stdout.contains("@: "), "{ended:?}");
    assert_eq!(mapped::of_weir_in(server.pid()), Vec::<String>::new());
}

#[test]
fn how_the_command_ended_is_told_and_passed_on() {
    let ends = |flags: &[&str], script: &str, how: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
        let script = format!("uprobe:libc:getenv {{ @ = count(); }} {script}");
        command.args(["trace", "-e", &script]).args(flags);
        // A test that runs in the background of a shell ignores SIGINT, and so would its children.
        let shell = format!("env --default-signal=INT sh -c '{how}'");
        let output = command.args(["-c", &shell]).output().unwrap();
        (output.status.code().unwrap(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let killed = "weir: the command was killed by SIGSEGV\n";
    let failed = "weir: the command ended with exit code 5\n";
    let done = "weir: the command ended with exit code 0\n";
    let cases = [
        (&[][..], "", "kill -SEGV $$", 128 + 11, Some(killed)),
        (&[], "", "exit 5", 5, Some(failed)),
        (&[], "", "exit 0", 0, None),
        (&["-v"], "", "exit 0", 0, Some(done)),
        (&["-q"], "", "kill -SEGV $$", 128 + 11, None),
        (&["-q"], "", "exit 5", 5, None),
        // Ctrl-C goes to both.
        (&[], "", "kill -INT $$", 128 + 2, None),
        // What the script says comes first.
        (&[], "END { exit(3); }", "exit 5", 3, Some(failed)),
    ];
    for (flags, script, how, code, line) in cases {
        let (is, said) = ends(flags, script, how);
        assert_eq!(is, code, "{flags:?} {script} {how}: {said}");
        match line {
            Some(line) => assert!(said.contains(line), "{flags:?} {how}: {said}"),
            None => assert!(!said.contains("the command"), "{flags:?} {how}: {said}"),
        }
    }
}

#[test]
fn a_command_is_ended_with_its_run() {
    // The pace of a loop that a signal ends: the verdict does not depend on it.
    let command = "sh -c 'trap \"echo told to end; exit\" TERM; echo started; while :; do sleep 0.02; done'";
    let run = |script: &str| {
        let mut weir = weir();
        weir.args(["trace", "-e", &format!("uprobe:libc:getenv {{ @ = count(); }} {script}"), "-c", command]);
        let mut weir = Daemon::spawn(weir).unwrap();
        weir.line_with("started", DEADLINE).unwrap();
        weir
    };
    for signal in [Signal::SIGINT, Signal::SIGTERM] {
        let weir = run("");
        weir.signal(signal).unwrap();
        // The command has the other end of the pipe, which is read until it has ended.
        let ended = weir.finish(DEADLINE).unwrap();
        assert!(ended.status.success() && ended.stdout.contains("told to end"), "{signal}: {ended:?}");
    }
    // What it writes first is written when it has said what a signal is to do.
    let exits = "uprobe:libc:write { @written = 1; } interval:ms:20 /@written/ { exit(); }";
    let ended = run(exits).finish(DEADLINE).unwrap();
    assert!(ended.status.success() && ended.stdout.contains("told to end"), "{ended:?}");
}

/// Loads the first library and calls it. At a line it unloads that, maps the second at the same place, and says whether
/// its text there is as it was at the next line.
const UNLOADING: &str = r#"
    #define _GNU_SOURCE
    #include <dlfcn.h>
    #include <fcntl.h>
    #include <stdio.h>
    #include <string.h>
    #include <sys/mman.h>
    #include <unistd.h>
    int main(int count, char **arguments) {
        alarm(600);
        setvbuf(stdout, 0, _IOLBF, 0);
        void *library = dlopen(arguments[1], RTLD_NOW);
        int (*probed)(int) = (int (*)(int))dlsym(library, "probed");
        char *page = (char *)((unsigned long)probed & -4096), before[4096];
        puts("ready");
        fcntl(0, F_SETFL, O_NONBLOCK);
        /* Pacing alone: the verdict does not depend on it. */
        while (getchar() != '\n') { clearerr(stdin); probed(1); usleep(1000); }
        fcntl(0, F_SETFL, 0);
        dlclose(library);
        int file = open(arguments[2], O_RDONLY);
        char *at = mmap(page, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_FIXED_NOREPLACE, file, 0);
        if (at != page) { puts("no room"); return 1; }
        memcpy(before, page, 4096);
        puts("unloaded");
        getchar();
        puts(memcmp(before, page, 4096) ? "changed" : "same");
        return 0;
    }
"#;

#[test]
fn an_unloaded_library_is_told_and_what_is_mapped_in_its_place_is_left_alone() {
    let library = "__attribute__((noinline)) int probed(int x) { __asm__ volatile(\"\" : \"+r\"(x)); return x * 3 + 1; }";
    let library = target::build("unloaded-library", Source::Text(library), &["-O2", "-shared", "-fPIC"]);
    let program = target::build("unloading", Source::Text(UNLOADING), &["-O2", "-w"]);
    let mut command = Command::new(&program);
    command.args([&library, &program]);
    let mut target = Daemon::spawn(command).unwrap();
    target.line_with("ready", DEADLINE).unwrap();
    let script =
        format!("uprobe:\"{}\":probed {{ @ = count(); }} interval:ms:10 {{ print(@); }}", library.display());
    let mut command = weir();
    command.args(["trace", "-v", "-e", &script, "-p", &target.pid().to_string()]);
    let mut weir = Daemon::spawn(command).unwrap();
    weir.line_with("@: ", DEADLINE).unwrap();
    target.write("\n").unwrap();
    target.line_with("unloaded", DEADLINE).unwrap();
    let (_, messages) = stop(weir);
    let told = format!("weir: {} was unloaded, and 1 probes with it", library.display());
    assert!(messages.contains(&told), "{messages}");
    assert!(!messages.contains("left alone"), "{messages}");
    assert!(!has_traces(target.pid()), "{messages}");
    target.write("\n").unwrap();
    assert_eq!(target.line(DEADLINE).unwrap(), "same");
}

/// A program that forges what a weir leaves: 20,000 pieces of code, and a file of 64 MiB full of jumps into them.
const FORGER: &str = r#"
    #define _GNU_SOURCE
    #include <stdio.h>
    #include <stdlib.h>
    #include <string.h>
    #include <sys/mman.h>
    #include <unistd.h>
    #define PIECES 20000
    #define TEXT (64 << 20)
    int main(int count, char **arguments) {
        char *base = mmap((void *)0x200000000000, 4096L * 3 * PIECES + TEXT, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        int code = memfd_create("weir-code", 0);
        ftruncate(code, 4096);
        for (long i = 0; i < PIECES; i++)
            mmap(base + 4096 * 3 * i, 4096, PROT_READ | PROT_EXEC, MAP_SHARED | MAP_FIXED, code, 0);
        FILE *file = fopen(arguments[1], "w");
        char *at = base + 4096L * 3 * PIECES, *jumps = malloc(TEXT);
        for (int i = 0; i + 5 <= TEXT; i += 5) { int to = base - (at + i + 5); jumps[i] = 0xe9; memcpy(jumps + i + 1, &to, 4); }
        fwrite(jumps, TEXT, 1, file); fclose(file);
        file = fopen(arguments[1], "r");
        mmap(at, TEXT, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_FIXED, fileno(file), 0);
        puts("ready"); fflush(stdout);
        return getchar() != '\n';
    }
"#;

#[test]
fn what_a_process_forges_is_refused_soon_and_with_little_memory() {
    let path = target::build("forger", Source::Text(FORGER), &["-O1"]);
    let text = testkit::paths::fresh("process", "forged");
    let mut command = Command::new(&path);
    command.arg(&text);
    let mut forger = Daemon::spawn(command).unwrap();
    forger.line_with("ready", DEADLINE).unwrap();
    // Enough for what there is, and not for what could be found there.
    let limit = format!("ulimit -v {}; exec \"$0\" detach -p {}", 1 << 20, forger.pid());
    let output = Command::new("sh").args(["-c", &limit, env!("CARGO_BIN_EXE_weir")]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("more jumps into weir's code than weir makes"), "{output:?}");
    forger.write("\n").unwrap();
    assert!(forger.finish(DEADLINE).unwrap().status.success());
    std::fs::remove_file(text).unwrap();
}

/// A program that puts its own text back: `d` drops the copy of the page that has been written, `w` writes it, `c` calls.
const VANISHING: &str = r#"
    #include <stdint.h>
    #include <stdio.h>
    #include <string.h>
    #include <sys/mman.h>
    __attribute__((noinline, aligned(4096))) int work(int x) { __asm__ volatile("nopw 512(%%rax,%%rax)" : "+r"(x)); return x * 3; }
    int main(void) {
        static unsigned char before[64];
        memcpy(before, (void *)work, sizeof before);
        puts("ready"); fflush(stdout);
        for (int c; (c = getchar()) != EOF;) {
            char *page = (char *)((uintptr_t)work & ~4095ul);
            if (c == 'd') madvise(page, 4096, MADV_DONTNEED);
            if (c == 'w') { mprotect(page, 4096, PROT_READ | PROT_WRITE | PROT_EXEC); memcpy((void *)work, before, sizeof before); }
            if (c == 'c') for (int i = 0; i < 100; i++) if (work(5) != 15) return 1;
            if (c != '\n') { puts("done"); fflush(stdout); }
        }
        return 0;
    }
"#;

#[test]
fn probes_that_the_process_has_removed_itself_are_reported() {
    let path = target::build("vanishing", Source::Text(VANISHING), &["-O1"]);
    let script = format!("uprobe:\"{}\":work {{ @ = count(); }}", path.display());
    for how in ["d", "w"] {
        for is_late in [false, true] {
            let mut target = Daemon::spawn(Command::new(&path)).unwrap();
            target.line_with("ready", DEADLINE).unwrap();
            let said = testkit::paths::fresh("process", "vanishing");
            let mut command = Command::new("sh");
            command
                .args(["-c", "exec \"$0\" trace -v -e \"$1\" -p \"$2\" 2>\"$3\""])
                .arg(env!("CARGO_BIN_EXE_weir"));
            command.args([&script, &target.pid().to_string()]).arg(&said);
            let weir = Daemon::spawn(command).unwrap();
            let has_said = |text: &str| std::fs::read_to_string(&said).unwrap_or_default().contains(text);
            // After its gates are open: not when its jumps stand.
            assert!(wait::until(DEADLINE, || has_said("1 probes attached in ")), "never armed");
            let mut tell = |what: &str| {
                target.write(&format!("{what}\n")).unwrap();
                target.line_with("done", DEADLINE).unwrap();
            };
            tell("c");
            if is_late {
                // It has seen the text before, and may or may not see it again.
                kill(Pid::from_raw(weir.pid() as i32), Signal::SIGSTOP).unwrap();
                tell(how);
                kill(Pid::from_raw(weir.pid() as i32), Signal::SIGINT).unwrap();
                kill(Pid::from_raw(weir.pid() as i32), Signal::SIGCONT).unwrap();
            } else {
                tell(how);
                let is_reported = || has_said("1 probes are gone from its text since ");
                assert!(wait::until(DEADLINE, is_reported), "{how}");
                kill(Pid::from_raw(weir.pid() as i32), Signal::SIGINT).unwrap();
            }
            tell("c");
            let ended = weir.finish(DEADLINE).unwrap();
            assert!(ended.stdout.contains("@: 100\n"), "{how}: {ended:?}");
            let reports =
                ["1 probes are gone from its text since", "1 probes were gone from the text of process"];
            assert!(
                has_said(reports[0]) != has_said(reports[1]),
                "{how}: {:?}",
                std::fs::read_to_string(&said)
            );
            std::fs::remove_file(said).unwrap();
        }
    }
}
