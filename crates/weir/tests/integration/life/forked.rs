//! Children that are forked and execute nothing: each waits at its first hit until it is probed, so that every call is counted, however short
//! its life is; and none waits for a weir that does not come, or under a filter that would kill it for that.

use std::process::Command;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use testkit::paths::quoted;
use testkit::target::{self, Source};
use testkit::{Daemon, wait};

use crate::life::check::{DEADLINE, counting, obedient, trace, weir};
use crate::life::family::check_followed;

/// Every call of so many processes is counted, by itself or with its return.
#[track_caller]
fn check(name: &str, steps: &str, processes: usize) {
    let run = check_followed(name, steps, processes);
    assert_eq!(run.counts()["not_held"], 0, "{run:?}");
}

#[test]
fn children_that_end_at_once_are_counted() {
    check("life-forked", "c 7 f 20 c 11 . W c 5", 21);
}

#[test]
fn so_are_children_of_children_that_end_at_once() {
    check("life-forked-grand", "f 3 c 5 f 3 c 7 . W c 1 . W c 2", 13);
}

#[test]
fn children_whose_first_calls_are_made_by_several_threads_are_counted() {
    let path = obedient("life-forked-threads");
    let command = format!("{} f 5 t 8 q 3 . W q 2", quoted(&path));
    let run = trace(&counting(&path), &["--follow", "-c", &command]);
    assert_eq!(run.counted().values().sum::<i64>(), 5 * (8 + 3) + 2, "{run:?}");
}

/// Whether a child can be attached to in a stop that is so short is the machine's: what is missing of one is reported.
#[test]
fn children_are_counted_or_reported_where_stops_are_short() {
    let path = obedient("life-forked-short");
    let command = format!("{} f 5 z 60 c 30000 . W c 5", quoted(&path));
    for budget in ["1ms-stop", "900ms-stop"] {
        let run = trace(&counting(&path), &["--follow", "--budget", budget, "-c", &command]);
        let (said, counted, counts) = (run.said(), run.counted(), run.counts());
        assert_eq!(said.len(), 6, "{run:?}");
        let missing = said.iter().filter(|(pid, calls)| counted.get(pid) != Some(calls)).count() as u64;
        let whole = run.data("process").filter(|line| line["unprobed_ms"] == 0.0);
        for pid in whole.map(|line| line["pid"].as_i64().unwrap()) {
            assert_eq!(counted.get(&pid), said.get(&pid), "{budget}: {pid}: {run:?}");
        }
        let late = run.data("process").filter(|line| line["unprobed_ms"].as_f64().is_some_and(|ms| ms > 0.0));
        let refused: u64 =
            counts["refused"].as_object().unwrap().values().filter_map(|count| count.as_u64()).sum();
        let reported = refused + counts["gone"].as_u64().unwrap() + counts["not_held"].as_u64().unwrap();
        assert!(missing <= reported + late.count() as u64, "{budget}: {run:?}");
    }
}

#[test]
fn entries_and_returns_of_children_are_counted() {
    let path = quoted(&obedient("life-forked-returns"));
    let script =
        format!("uprobe:{path}:work {{ @calls = count(); }} uretprobe:{path}:work {{ @returns = count(); }}");
    let command = format!("{path} f 10 q 11 . W q 5");
    let output = weir().args(["trace", "-e", &script, "--follow", "-c", &command]).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("@calls: 115\n") && text.contains("@returns: 115\n"), "{output:?}");
}

/// The same children are found late where nobody is to be held: here they wait for it themselves.
#[test]
fn nobody_is_held_where_children_are_followed_late() {
    let path = obedient("life-forked-late");
    let command = format!("{} f 3 w 600 c 11 . W c 5", quoted(&path));
    let run = trace(&counting(&path), &["--follow=late", "-c", &command]);
    run.check_exact();
    let unprobed = |line: &serde_json::Value| line["unprobed_ms"].as_f64();
    let children: Vec<_> =
        run.data("process").filter(|line| line["how"] != "the command").map(unprobed).collect();
    assert!(children.len() == 3 && children.iter().all(|ms| ms.is_some_and(|ms| ms > 0.0)), "{run:?}");
    let output =
        weir().args(["trace", "-e", &counting(&path), "--follow=early", "-p", "1"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("[possible values: held, late]"));
}

/// Installs a filter that kills for whatever it does not need before its first hit.
const SANDBOXED: &str = r#"
    #include <linux/filter.h>
    #include <linux/seccomp.h>
    #include <stddef.h>
    #include <stdio.h>
    #include <sys/prctl.h>
    #include <sys/syscall.h>
    #include <sys/wait.h>
    #include <unistd.h>
    __attribute__((noinline)) int work(int x) { __asm__ volatile("" : "+r"(x)); return x * 3 + 1; }
    int main(void) {
        int status = -1;
        pid_t pid = fork();
        if (!pid) {
            struct sock_filter filter[] = {
                BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
                BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_exit_group, 0, 1),
                BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
                BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS) };
            struct sock_fprog program = { sizeof filter / sizeof *filter, filter };
            prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
            prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
            for (int i = 0; i < 100; i++) work(i);
            _exit(7);
        }
        waitpid(pid, &status, 0);
        printf("child %d\n", WIFEXITED(status) ? WEXITSTATUS(status) : -1);
        return 0;
    }
"#;

#[test]
fn a_child_under_a_filter_of_its_own_is_counted_and_lives() {
    let path = quoted(&target::build("life-forked-sandboxed", Source::Text(SANDBOXED), &["-O2"]));
    let script = format!("uprobe:{path}:work {{ @ = count(); }}");
    let output = weir().args(["trace", "-e", &script, "--follow", "-c", &path]).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("child 7\n"), "it was killed: {output:?}");
    assert!(text.contains("@: 100\n"), "{output:?}");
}

/// Forks with an address of weir's code on its stack, so that what the child inherits of weir stays mapped there.
const KEEPING: &str = r#"
    #include <stdio.h>
    #include <string.h>
    #include <sys/wait.h>
    #include <unistd.h>
    __attribute__((noinline)) int work(int x) { __asm__ volatile("" : "+r"(x)); return x * 3 + 1; }
    static unsigned long code(void) {
        char line[512]; unsigned long start = 0; FILE *maps = fopen("/proc/self/maps", "r");
        while (!start && fgets(line, sizeof line, maps)) if (strstr(line, "/memfd:weir-code")) sscanf(line, "%lx", &start);
        fclose(maps);
        return start;
    }
    int main(void) {
        volatile unsigned long kept = code();
        int status = -1; char byte;
        work(0);
        pid_t pid = fork();
        if (!pid) {
            for (int i = 0; i < 10; i++) work(i);
            printf("ready %d\n", getpid());
            fflush(stdout);
            _exit(read(0, &byte, 1) == 0 && kept ? 7 : 8);
        }
        waitpid(pid, &status, 0);
        printf("child %d\n", WIFEXITED(status) ? WEXITSTATUS(status) : -1);
        return 0;
    }
"#;

#[test]
fn a_child_that_keeps_what_it_has_inherited_is_its_own_process() {
    let path = quoted(&target::build("life-forked-keeping", Source::Text(KEEPING), &["-O2"]));
    let script = format!("uprobe:{path}:work {{ @ = count(); }}");
    let counted = testkit::paths::target().join("life-forked-keeping.out");
    let mut tracer = weir();
    tracer.args(["trace", "-e", &script, "--follow", "-c", &path, "-o"]).arg(&counted);
    let mut tracer = Daemon::spawn(tracer).unwrap();
    let ready = tracer.line_with("ready ", DEADLINE).unwrap();
    let child = ready.rsplit(' ').next().unwrap();
    let traced = String::from_utf8(weir().arg("ps").output().unwrap().stdout).unwrap();
    let line = traced.lines().find(|line| line.split_whitespace().next() == Some(child));
    assert!(line.is_some_and(|line| !line.contains("forked from")), "{child}: {traced}");
    tracer.close_stdin();
    let ended = tracer.finish(DEADLINE).unwrap();
    assert!(ended.stdout.contains("child 7\n"), "{ended:?}");
    let counts = std::fs::read_to_string(&counted).unwrap();
    assert!(counts.contains("@: 11\n"), "{counts}");
}

/// Children one after the other: one that waits does so for five seconds.
const LATER: u32 = 20;

/// A process that was traced by a weir that does not answer: its children run on by themselves.
#[track_caller]
fn check_without(signal: Signal) {
    let path = obedient(&format!("life-forked-{signal}"));
    let mut command = Command::new(&path);
    command.args("w 600 p l f 3 c 11 . W c 1 l".split(' '));
    (0..LATER).for_each(|_| _ = command.args("f 1 q 1 . W".split(' ')));
    command.args("c 2 l".split(' '));
    let mut parent = Daemon::spawn(command).unwrap();
    let mut tracer = weir();
    let pid = parent.pid().to_string();
    tracer.args(["trace", "-f", "json", "-e", &counting(&path), "--follow", "-p", &pid]);
    let tracer = Daemon::spawn(tracer).unwrap();
    parent.line_with("pid ", DEADLINE).unwrap();
    tracer.signal(signal).unwrap();
    let is_gone = || match signal {
        Signal::SIGSTOP => {
            std::fs::read_to_string(format!("/proc/{}/stat", tracer.pid())).unwrap().contains(") T ")
        }
        _ => std::fs::read_to_string(format!("/proc/{}/stat", tracer.pid())).unwrap().contains(") Z "),
    };
    assert!(wait::until(DEADLINE, is_gone));
    parent.write("\n").unwrap();
    for _ in 0..3 {
        parent.line_with(" 11", DEADLINE).unwrap();
    }
    parent.line_with(" 1", DEADLINE).unwrap();
    // Those that come after one that has waited in vain do not wait.
    let start = Instant::now();
    parent.write("\n").unwrap();
    parent.line_with(" 2", DEADLINE).unwrap();
    assert!(start.elapsed() < LATER * Duration::from_secs(2), "{:?}", start.elapsed());
    if signal == Signal::SIGSTOP {
        tracer.signal(Signal::SIGCONT).unwrap();
        parent.write("\n").unwrap();
        assert!(parent.finish(DEADLINE).unwrap().status.success());
        let ended = tracer.finish(DEADLINE).unwrap();
        assert!(ended.status.success(), "{ended:?}");
        let run = crate::life::check::Run::of(&ended);
        assert_eq!(run.counts()["not_held"], 3 + LATER, "{run:?}");
    }
}

#[test]
fn children_of_a_stopped_weirs_process_run_on_and_are_reported() {
    check_without(Signal::SIGSTOP);
}

#[test]
fn children_of_a_killed_weirs_process_run_on() {
    check_without(Signal::SIGKILL);
}

/// Forks a child that no tracer may attach to (it is another's already), beside one that executes what is not probed and lives on.
const UNTRACEABLE: &str = r#"
    #include <stdio.h>
    #include <sys/ptrace.h>
    #include <sys/wait.h>
    #include <time.h>
    #include <unistd.h>
    __attribute__((noinline)) int work(int x) { __asm__ volatile("" : "+r"(x)); return x * 3 + 1; }
    static double now(void) { struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t); return t.tv_sec + t.tv_nsec * 1e-9; }
    int main(void) {
        int status;
        alarm(600);
        pid_t lives = fork();
        if (!lives) { work(1); execlp("sleep", "sleep", "1000000", (char *)0); _exit(1); }
        double start = now();
        for (int i = 0; i < 5; i++) {
            pid_t pid = fork();
            if (!pid) { ptrace(PTRACE_TRACEME, 0, 0, 0); for (int n = 0; n < 100; n++) work(n); _exit(0); }
            while (waitpid(pid, &status, 0) == pid && WIFSTOPPED(status)) ptrace(PTRACE_CONT, pid, 0, WSTOPSIG(status));
        }
        printf("waited %d s\n", (int)(now() - start));
        kill(lives, 9);
        waitpid(lives, &status, 0);
        return 0;
    }
"#;

/// Each waits until weir has seen that it cannot be traced, and not longer.
#[test]
fn children_that_cannot_be_traced_run_on() {
    let text = format!("#include <signal.h>\n{UNTRACEABLE}");
    let path = quoted(&target::build("life-forked-untraceable", Source::Text(&text), &["-O2"]));
    let script = format!("uprobe:{path}:work {{ @ = count(); }}");
    let output = weir().args(["trace", "-e", &script, "--follow", "-c", &path]).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let seconds =
        text.lines().find_map(|line| line.strip_prefix("waited ")?.strip_suffix(" s")?.parse::<u32>().ok());
    assert!(seconds.is_some_and(|seconds| seconds < 25), "{output:?}");
}
