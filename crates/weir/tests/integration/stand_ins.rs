//! Places that cannot be patched: a uprobe of the kernel stands in, the rest of the script runs in the process, and every hit counts.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use nix::sys::signal::Signal;
use testkit::paths::quoted;
use testkit::target::{self, Source};
use testkit::{Daemon, wait};

use crate::kernel_events::{available, weir};

const DEADLINE: Duration = Duration::from_secs(120);

/// Functions of one byte (one has the name of a function of the C library that calls back), one that a loop comes back into, one that falls into the next one, and one that can be patched. Each is called
/// as often by each thread as the arguments say; without, until a line comes.
const FUNCTIONS: &str = r#"
    #include <pthread.h>
    #include <stdio.h>
    #include <stdlib.h>
    #include <unistd.h>
    int tiny(int); int next(void); int looped(int); int falls(int); int after(int);
    __asm__(".text\n.p2align 4\n.globl tiny\n.type tiny,@function\ntiny: ret\n.size tiny,.-tiny\n"
        ".globl next\n.type next,@function\nnext: ret\n.size next,.-next\n"
        ".globl lsearch\n.type lsearch,@function\nlsearch: ret\n.size lsearch,.-lsearch\n"
        ".globl looped\n.type looped,@function\nlooped: push %rbx\n1: dec %edi\njnz 1b\npop %rbx\nret\n.size looped,.-looped\n"
        ".globl falls\n.type falls,@function\nfalls: nop\n.size falls,.-falls\n"
        ".globl after\n.type after,@function\nafter: lea 5(%rdi),%eax\nret\n.size after,.-after\n");
    __attribute__((noinline)) int plain(int x) { __asm__ volatile("" : "+r"(x)); return x * 3 + 1; }
    static volatile int ends;
    static long most;
    static void *run(void *unused) {
        for (long n = 0; n != most && !ends; n++) {
            tiny(n); next(); looped(3);
            if (falls(n) != n + 5 || plain(n) != n * 3 + 1) abort();
            if (most < 0) usleep(50); /* Pacing alone: the verdict does not depend on it. */
        }
        return 0;
    }
    int main(int argc, char **argv) {
        int threads = argc > 1 ? atoi(argv[1]) : 1;
        pthread_t all[64];
        most = argc > 2 ? atol(argv[2]) : -1;
        alarm(300);
        for (int t = 0; t < threads; t++) pthread_create(&all[t], 0, run, 0);
        if (most < 0) { char line[8]; puts("ready"); fflush(stdout); fgets(line, sizeof line, stdin); ends = 1; }
        for (int t = 0; t < threads; t++) pthread_join(all[t], 0);
        return 0;
    }
"#;

fn program() -> PathBuf {
    target::build("stand-ins", Source::Text(FUNCTIONS), &["-O2", "-pthread"])
}

/// What weir prints and says of a script on a command.
#[track_caller]
fn traced(arguments: &[&str], script: &str, command: &str) -> (String, String) {
    let output = weir(&[&["trace", "-e", script, "-c", command], arguments].concat());
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(0), "{script}: {said}");
    let printed = String::from_utf8(output.stdout).unwrap();
    let mut lines: Vec<&str> = printed.lines().filter(|line| line.starts_with('@')).collect();
    lines.sort_unstable();
    (lines.join("\n"), said)
}

#[test]
fn every_hit_counts_as_it_does_in_the_kernel() {
    if !available() {
        return;
    }
    let path = program();
    let of = |function: &str| format!("uprobe:{}:{function}", quoted(&path));
    let command = format!("{} 4 2500", quoted(&path));
    let all = ["tiny", "next", "looped", "falls", "after", "plain"].map(of).join(", ");
    // A count for each clause as well: what both sides have of it is added up.
    let script = format!(
        "{all} {{ @[func] = count(); @all = count(); @sum = sum(2); }} {} {{ @returns = count(); }}",
        of("falls").replace("uprobe", "uretprobe")
    );
    let (printed, said) = traced(&[], &script, &command);
    let (in_kernel, _) = traced(&["--engine", "kernel"], &script, &command);
    assert_eq!(printed, in_kernel, "{said}");
    for wanted in [
        "@[tiny]: 10000",
        "@[falls]: 10000",
        "@[after]: 10000",
        "@[plain]: 10000",
        "@all: 60000",
        "@sum: 120000",
    ] {
        assert!(printed.lines().any(|line| line == wanted), "no {wanted:?} in {printed}");
    }
    assert!(said.contains("a uprobe of the kernel stands in") && said.contains("tiny: too-short"), "{said}");
    assert!(!said.contains("plain:"), "{said}");
    // A pattern means the same, whatever is in the file besides.
    let pattern = format!("{} {{ @[func] = count(); }}", of("*"));
    let printed = traced(&[], &pattern, &command).0;
    assert_eq!(printed.matches(": 10000").count(), 6, "{printed}");
}

#[test]
fn a_function_is_patched_or_has_breakpoints_and_never_both() {
    if !available() {
        return;
    }
    let path = program();
    let command = format!("{} 2 500", quoted(&path));
    let of = |place: &str| format!("uprobe:{}:{place}", quoted(&path));
    let script = format!(
        "{} {{ @entry = count(); }} {} {{ @inside = count(); }} {} {{ @plain = count(); }}",
        of("looped"),
        of("looped+1"),
        of("plain")
    );
    let (printed, said) = traced(&[], &script, &command);
    assert_eq!(printed, "@entry: 1000\n@inside: 3000\n@plain: 1000", "{said}");
    assert!(said.contains("looped+1: another place of its function cannot be patched"), "{said}");
}

#[test]
fn a_map_that_both_would_need_has_all_of_the_script_run_in_the_kernel() {
    if !available() {
        return;
    }
    let path = program();
    let command = format!("{} 1 300", quoted(&path));
    let of = |function: &str| format!("uprobe:{}:{function}", quoted(&path));
    let script =
        format!("{} {{ @last[tid] = comm; }} {} {{ @seen[@last[tid]] = count(); }}", of("tiny"), of("plain"));
    let (printed, said) = traced(&[], &script, &command);
    assert!(printed.contains("]: 300"), "{printed}");
    assert!(said.contains("@last is needed on both sides"), "{said}");
    // What only a pattern means is left out, and the others stay cheap.
    let (printed, said) = traced(&[], &format!("{} {{ @last[func] = comm; @n++; }}", of("*")), &command);
    assert!(printed.contains("@last[plain]: ") && !printed.contains("@last[tiny]"), "{printed}");
    assert!(said.contains("are not probed") && !said.contains("both sides"), "{said}");
    // Where no place is left for the processes there is nothing to say of maps.
    let (printed, said) = traced(&[], &format!("{} {{ @last = arg0; @n++; }}", of("tiny")), &command);
    assert!(printed.contains("@n: 300") && !said.contains("both sides"), "{printed}{said}");
}

#[test]
fn explain_says_what_a_stand_in_costs() {
    if !available() {
        return;
    }
    let path = program();
    let script =
        format!("uprobe:{0}:tiny {{ @ = count(); }} uprobe:{0}:plain {{ @ = count(); }}", quoted(&path));
    let command = quoted(&path);
    let output = weir(&["trace", "--explain", "-f", "json", "-e", &script, "-c", &command]);
    let printed = String::from_utf8(output.stdout).unwrap();
    let of_type = |wanted: &str| -> Vec<serde_json::Value> {
        let rows = printed.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
        rows.filter(|row| row["type"] == wanted).map(|row| row["data"].clone()).collect()
    };
    let place = |name: &str| of_type("place").into_iter().find(|place| place["name"] == name).unwrap();
    let (tiny, plain) = (place("tiny"), place("plain"));
    assert!(
        tiny["stands_in"].as_str().unwrap().contains("too-short") && plain["stands_in"].is_null(),
        "{printed}"
    );
    let ns = |place: &serde_json::Value| place["ns_estimated"].as_f64().unwrap();
    assert!(ns(&tiny) > 100.0 * ns(&plain), "{printed}");
    let sides: Vec<bool> =
        of_type("program").iter().map(|program| program["in_kernel"].as_bool().unwrap()).collect();
    assert_eq!(sides, [true, false], "{printed}");
    assert!(of_type("run")[0]["refused"].is_null(), "{printed}");
}

/// weir comes and goes again and again; the program checks what its functions return.
#[test]
fn a_process_comes_to_no_harm_and_has_no_breakpoint_left() {
    if !available() {
        return;
    }
    let path = program();
    let mut command = Command::new(&path);
    command.arg("4");
    let mut daemon = Daemon::spawn(command).unwrap();
    daemon.line_with("ready", DEADLINE).unwrap();
    let script = format!(
        "uprobe:{0}:tiny, uprobe:{0}:looped, uprobe:{0}:falls, uprobe:{0}:plain {{ @[func] = count(); }} \
         interval:ms:20 {{ if (@n++ == 3) {{ exit(); }} }}",
        quoted(&path)
    );
    // On a busy machine its threads may have had no CPU meanwhile.
    let counts_all = || {
        let output = weir(&["trace", "-q", "-e", &script, "-p", &daemon.pid().to_string()]);
        assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
        let printed = String::from_utf8(output.stdout).unwrap();
        ["tiny", "looped", "falls", "plain"]
            .iter()
            .all(|function| printed.contains(&format!("@[{function}]: ")))
    };
    (0..8).for_each(|_| assert!(wait::until(DEADLINE, counts_all)));
    // One that is killed leaves nothing in the kernel either: the next finds the functions as they are in their file.
    let mut killed = Command::new(env!("CARGO_BIN_EXE_weir"));
    killed.args(["trace", "-e", &format!("BEGIN {{ printf(\"begun\\n\"); }} {script}"), "-p"]);
    killed.arg(daemon.pid().to_string());
    let mut killed = Daemon::spawn(killed).unwrap();
    killed.line_with("begun", DEADLINE).unwrap();
    killed.signal(Signal::SIGKILL).unwrap();
    assert!(killed.finish(DEADLINE).unwrap().status.code().is_none());
    let again = || weir(&["trace", "-q", "-e", &script, "-p", &daemon.pid().to_string()]);
    assert!(wait::until(DEADLINE, || again().status.success()));
    daemon.close_stdin();
    let ended = daemon.finish(DEADLINE).unwrap();
    assert!(ended.status.success(), "{ended:?}");
}

/// One process has nothing but what cannot be patched; the other maps another file.
#[test]
fn a_process_with_stand_ins_alone_is_traced_beside_another() {
    if !available() {
        return;
    }
    let path = program();
    let other = path.with_extension("other");
    std::fs::copy(&path, &other).unwrap();
    let mut daemons = [&path, &other].map(|path| Daemon::spawn(Command::new(path)).unwrap());
    daemons.iter_mut().for_each(|daemon| _ = daemon.line_with("ready", DEADLINE).unwrap());
    let script = format!(
        "uprobe:{}:tiny {{ @tiny[pid] = count(); }} uprobe:{}:plain {{ @plain[pid] = count(); }} interval:ms:100 {{ exit(); }}",
        quoted(&path),
        quoted(&other)
    );
    let [one, two] = [daemons[0].pid(), daemons[1].pid()];
    let counts_both = || {
        let output = weir(&["trace", "-e", &script, "-p", &one.to_string(), "-p", &two.to_string()]);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success() && !said.contains("not traced"), "{said}");
        let printed = String::from_utf8_lossy(&output.stdout).into_owned();
        [format!("@tiny[{one}]: "), format!("@plain[{two}]: ")].iter().all(|wanted| printed.contains(wanted))
    };
    assert!(wait::until(DEADLINE, counts_both));
    for mut daemon in daemons {
        daemon.close_stdin();
        assert!(daemon.finish(DEADLINE).unwrap().status.success());
    }
    std::fs::remove_file(other).unwrap();
}

/// What the kernel could not be held to, or is not allowed, is refused as it is without it.
#[test]
fn without_the_rights_or_under_limits_nothing_stands_in() {
    if !available() || !nix::unistd::geteuid().is_root() {
        return;
    }
    let path = program();
    let script =
        format!("uprobe:{0}:tiny {{ @ = count(); }} uprobe:{0}:plain {{ @ = count(); }}", quoted(&path));
    let command = format!("{} 1 10", quoted(&path));
    for more in [&["--engine", "user"][..], &["--follow"], &["--budget", "5%"]] {
        let output = weir(&[&["trace", "-e", &script, "-c", &command], more].concat());
        let said = String::from_utf8_lossy(&output.stderr);
        let explains =
            said.contains("too-short") && said.contains("a uprobe of the kernel stands in for a patch ");
        assert!(output.status.code() == Some(1) && explains, "{more:?}: {said}");
    }
    // What the kernel is not asked for either, with its reason; and no advice that would not help.
    let script = format!(
        "uprobe:{0}:plain {{ @ = count(); }} uretprobe:{0}:lsearch {{ @c = count(); }}",
        quoted(&path)
    );
    let output = weir(&["trace", "-e", &script, "-c", &command]);
    let said = String::from_utf8_lossy(&output.stderr);
    let explains =
        said.contains("nor can a uprobe of the kernel stand in at") && said.contains("it calls back");
    assert!(output.status.code() == Some(1) && explains && !said.contains("missing_probes"), "{said}");
    let folder = std::env::temp_dir().join(format!("weir-stand-ins-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let (weir, program) = (folder.join("weir"), folder.join("program"));
    std::fs::copy(env!("CARGO_BIN_EXE_weir"), &weir).unwrap();
    std::fs::copy(&path, &program).unwrap();
    let script =
        format!("uprobe:{0}:tiny {{ @ = count(); }} uprobe:{0}:plain {{ @ = count(); }}", quoted(&program));
    let mut unprivileged = Command::new("setpriv");
    unprivileged.args(["--reuid=65534", "--regid=65534", "--clear-groups"]).arg(&weir);
    unprivileged.args(["trace", "-e", &script, "-c", &format!("{} 1 10", quoted(&program))]).current_dir("/");
    let output = unprivileged.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(1) && said.contains("too-short"), "{said}");
    std::fs::remove_dir_all(folder).unwrap();
}
