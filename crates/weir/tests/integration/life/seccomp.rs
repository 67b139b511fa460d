//! Targets that may not call the kernel as they like. (That one with a filter that kills is served by root, that its hits
//! make no system call, and that what they leave out is counted: tests/trace.rs.)

use std::fs::File;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::fs::FileExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

use nix::sys::signal::Signal;
use testkit::Daemon;
use testkit::paths::quoted;
use testkit::stranger::{self, ALICE, Folder};
use weir_symbols::{Binary, maps};

use crate::life::worker::{BEGUN, DEADLINE, Worker, number, program, weir};

#[test]
fn a_process_in_strict_mode_is_refused_and_left_alone() {
    let mut command = Command::new(program());
    command.arg("strict");
    let worker = Worker::start(command);
    let script = format!("uprobe:{}:work {{ @ = count(); }}", quoted(&program()));
    let is_strict = || {
        let status = std::fs::read_to_string(format!("/proc/{}/status", worker.pid)).unwrap();
        status.lines().any(|line| line == "Seccomp:\t1")
    };
    assert!(testkit::wait::until(crate::life::worker::DEADLINE, is_strict));
    let output = weir().args(["trace", "-e", &script, "-p", &worker.pid.to_string()]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{said}");
    assert!(said.contains("strict mode"), "{said}");
    worker.end();
}

/// Nobody but root may suspend a filter; a call that it does not know would be the end of the process.
#[test]
fn a_process_with_a_filter_is_refused_to_an_ordinary_user_and_left_alone() {
    const NOBODY: u32 = 65534;
    if !nix::unistd::geteuid().is_root() {
        return testkit::skip::skip("seccomp", "becoming somebody else is for root");
    }
    let path = testkit::target::program("seccomp");
    let mut command = Command::new(&path);
    command.uid(NOBODY).gid(NOBODY);
    let mut server = testkit::Daemon::spawn(command).unwrap();
    server.line_with("ready", crate::life::worker::DEADLINE).unwrap();
    let is_filtered = || {
        let status = std::fs::read_to_string(format!("/proc/{}/status", server.pid())).unwrap();
        status.lines().any(|line| line == "Seccomp:\t2")
    };
    assert!(testkit::wait::until(crate::life::worker::DEADLINE, is_filtered));
    let script = format!("uprobe:{}:take {{ @ = count(); }}", quoted(&path));
    let mut weir = weir();
    weir.args(["trace", "-e", &script, "-p", &server.pid().to_string()]).uid(NOBODY).gid(NOBODY);
    let output = weir.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{said}");
    assert!(said.contains("runs under seccomp") && said.contains("CAP_SYS_ADMIN"), "{said}");
    server.close_stdin();
    let ended = server.finish(crate::life::worker::DEADLINE).unwrap();
    assert!(ended.status.success() && ended.stdout.contains("calls="), "{ended:?}");
}

/// Obeys lines: a number is how often it calls `work`, `f` installs a filter that kills for what taking weir's code out
/// would have it call, `s` enters strict mode.
const LATECOMER: &str = r#"
    #include <linux/filter.h>
    #include <linux/seccomp.h>
    #include <stddef.h>
    #include <stdio.h>
    #include <stdlib.h>
    #include <sys/prctl.h>
    #include <sys/syscall.h>
    static unsigned long calls;
    __attribute__((noinline)) int work(int x) { __asm__ volatile("" : "+r"(x)); calls++; return x * 3 + 1; }
    static int forbid(void) {
        struct sock_filter filter[] = {
            BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
            BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_munmap, 1, 0),
            BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
            BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
        };
        struct sock_fprog program = { sizeof filter / sizeof *filter, filter };
        return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
    }
    static int strict(void) { return prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT); }
    int main(void) {
        int is_strict = 0;
        /* What Yama would forbid. */
        prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
        setvbuf(stdout, 0, _IOLBF, 0);
        puts("ready");
        for (char line[32]; fgets(line, sizeof line, stdin);) {
            if (line[0] == 'f' && forbid()) return 3;
            if (line[0] == 's' && (is_strict = 1, strict())) return 3;
            for (int i = 0, n = atoi(line); i < n; i++) if (work(i) != i * 3 + 1) return 4;
            printf("calls=%lu\n", calls);
        }
        /* What returning from main would call is forbidden there. */
        if (is_strict) __asm__ volatile("syscall" :: "a"(SYS_exit), "D"(7));
        return 7;
    }
"#;

/// Somebody's process that came under a filter while they traced it, who may not suspend it: its text is put back by the weir that
/// traced it, or after that was killed. The code goes when somebody comes who may.
fn check_latecomer(how: &str, is_killed: bool) {
    let folder = Folder::new();
    let weir = folder.copy(Path::new(env!("CARGO_BIN_EXE_weir")));
    let source = testkit::target::Source::Text(LATECOMER);
    let program = folder.copy(&testkit::target::build("latecomer", source, &["-O2"]));
    let mut target = Daemon::spawn(stranger::command(ALICE, &[], &[], &program)).unwrap();
    target.line_with("ready", DEADLINE).unwrap();
    let pid = target.pid().to_string();
    let mut obey = |line: &str, total: u64| {
        target.write(&format!("{line}\n")).unwrap();
        assert_eq!(target.line(DEADLINE).unwrap(), format!("calls={total}"));
    };
    let text = text_of(&pid, &program);
    let work = format!("uprobe:{0}:work {{ @calls = count(); }} uretprobe:{0}:work {{ }}", quoted(&program));
    let mut tracing = stranger::command(ALICE, &[], &[], &weir);
    tracing.args(["trace", "-e", &format!("{BEGUN} {work}"), "-p", &pid]);
    let mut tracing = Daemon::spawn(tracing).unwrap();
    if tracing.line_with("begun", DEADLINE).is_err() {
        panic!("{:?}", tracing.finish(DEADLINE));
    }
    obey("5", 5);
    obey(how, 5);
    obey("6", 11);
    assert_ne!(text_of(&pid, &program), text);
    tracing.signal(if is_killed { Signal::SIGKILL } else { Signal::SIGINT }).unwrap();
    let ended = tracing.finish(DEADLINE).unwrap();
    let told = if is_killed {
        let detach = stranger::command(ALICE, &[], &[], &weir).args(["detach", "-p", &pid]).output().unwrap();
        let told = String::from_utf8(detach.stdout).unwrap();
        assert!(detach.status.success() && told.contains(": 1 functions restored"), "{told}");
        told
    } else {
        assert!(ended.status.success() && number(&ended.stdout, "@calls") == Some(11), "{ended:?}");
        ended.stderr
    };
    assert!(told.contains("is under seccomp, which weir may not suspend"), "{told}");
    assert!(told.contains("CAP_SYS_ADMIN"), "{told}");
    assert_eq!(text_of(&pid, &program), text, "{told}");
    let is_left = || std::fs::read_to_string(format!("/proc/{pid}/maps")).unwrap().contains("memfd:weir");
    assert!(is_left(), "who unmapped it?");
    obey("7", 18);
    let detach = crate::life::worker::weir().args(["detach", "-p", &pid]).output().unwrap();
    assert!(detach.status.success() && !is_left(), "{detach:?}");
    obey("8", 26);
    target.close_stdin();
    let ended = target.finish(DEADLINE).unwrap();
    assert_eq!(ended.status.code(), Some(7), "{ended:?}");
}

/// The bytes of `work` in process `pid`.
fn text_of(pid: &str, program: &Path) -> Vec<u8> {
    let binary = Binary::open(program).unwrap();
    let function = binary.find("work").unwrap()[0];
    let mappings = maps::read(pid.parse().unwrap()).unwrap();
    let at = maps::to_virtual(&mappings, binary.identity().unwrap(), &binary, function.address).unwrap();
    let mut bytes = vec![0; function.size as usize];
    File::open(format!("/proc/{pid}/mem")).unwrap().read_exact_at(&mut bytes, at.0).unwrap();
    bytes
}

#[test]
fn a_filter_that_may_not_be_suspended_leaves_no_text_patched() {
    if !stranger::is_possible() {
        return testkit::skip::skip("seccomp", "becoming somebody else is for root");
    }
    [false, true].into_iter().for_each(|is_killed| check_latecomer("f", is_killed));
}

#[test]
fn nor_does_strict_mode_that_may_not_be_suspended() {
    if !stranger::is_possible() {
        return testkit::skip::skip("seccomp", "becoming somebody else is for root");
    }
    [false, true].into_iter().for_each(|is_killed| check_latecomer("s", is_killed));
}

/// How programs are built here: with glibc, or with musl, whose package has none of the kernel's headers.
const GLIBC: (&str, &[&str]) = ("cc", &["-O2", "-pthread"]);
const MUSL: (&str, &[&str]) = (
    "musl-gcc",
    &["-O2", "-pthread", "-idirafter", "/usr/include", "-idirafter", "/usr/include/x86_64-linux-gnu"],
);

/// `tests/programs/sandbox.c`.
fn sandbox((compiler, flags): (&str, &[&str]), more: &[&str]) -> std::path::PathBuf {
    let source = testkit::target::Source::Program("sandbox.c");
    testkit::target::build_with(compiler, &format!("sandbox-{compiler}"), source, &[flags, more].concat())
}

/// What weir says of a target that has come under seccomp.
const FILTER_SEEN: &str = "has installed a system call filter";

/// Traces `sandbox HOW [LIBRARY]`, which must live: what the script printed, and what weir said.
fn check_sandbox(path: &std::path::Path, arguments: &str, more: &str, own: u64) -> (String, String) {
    let take = format!("uprobe:{}:take", quoted(path));
    let script = format!(
        "{take} {{ @all = count(); @text[str(arg0)] = count(); @named[comm] = count(); @at[ustack] = count(); \
         @thread = tid; }} {more}"
    );
    let command = format!("{} {arguments}", quoted(path));
    let mut weir = weir();
    weir.args(["trace", "-e", &script, "-c", &command]);
    weir.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut weir = weir.spawn().unwrap();
    let (stdin, stderr) = (weir.stdin.take().unwrap(), weir.stderr.take().unwrap());
    // What waits for it goes on when weir has seen the filter; nothing else reads it.
    let reader = std::thread::spawn(move || {
        let (mut stdin, mut said) = (Some(stdin), String::new());
        for line in BufReader::new(stderr).lines().map_while(Result::ok) {
            if line.contains(FILTER_SEEN) {
                stdin.take().into_iter().for_each(|mut stdin| _ = stdin.write_all(b"\n"));
            }
            said += &line;
            said += "\n";
        }
        said
    });
    let output = weir.wait_with_output().unwrap();
    let (text, said) = (String::from_utf8_lossy(&output.stdout).into_owned(), reader.join().unwrap());
    assert!(output.status.success(), "{text}{said}");
    assert!(text.contains(&format!("own={own}\n")), "the program was killed: {text}{said}");
    assert_eq!(crate::life::worker::number(&text, "@all"), Some(own), "{text}{said}");
    (text, said)
}

/// What was read before the filter came was read, and all else is refused and counted.
fn check_refused(path: &std::path::Path, how: &str) {
    let asked = u64::from(how == "syscall");
    let (text, said) = check_sandbox(path, how, "", 110 + asked);
    let number = |name: &str| crate::life::worker::number(&text, name);
    assert_eq!((number("@text[before]"), number("@text[]")), (Some(10), Some(100)), "{how}: {text}{said}");
    assert_eq!(number("@text[asked]"), (asked == 1).then_some(1), "{how}: {text}{said}");
    assert_eq!(number("@named[]"), Some(100), "{how}: {text}{said}");
    assert!(said.contains(FILTER_SEEN), "{how}: {said}");
    assert!(said.contains("100 uses of comm are forbidden"), "{how}: {said}");
}

#[test]
fn a_program_that_installs_a_filter_after_attach_lives_on() {
    let path = sandbox(GLIBC, &[]);
    ["prctl", "syscall", "indirect", "thread"].iter().for_each(|how| check_refused(&path, how));
}

#[test]
fn so_does_one_with_musl() {
    if !testkit::target::is_installed("musl-gcc") {
        return testkit::skip::skip("musl", "musl-tools is not installed");
    }
    let path = sandbox(MUSL, &[]);
    ["prctl", "syscall", "indirect", "thread"].iter().for_each(|how| check_refused(&path, how));
    check_refused(&sandbox(MUSL, &["-static"]), "prctl");
}

#[test]
fn a_filter_that_no_library_installed_is_seen() {
    check_refused(&sandbox(GLIBC, &[]), "inlined");
}

/// Counted, timed and sampled by weir itself, stamped, and read by the script: what reads the time stamp counter would kill it there.
fn check_strict(path: &Path, action: &str, more: &[&str]) -> (String, String) {
    let script = format!("uprobe:{}:take {{ @all = count(); {action} }}", quoted(path));
    let command = format!("{} strict", quoted(path));
    let output = weir().args(["trace", "-e", &script, "-c", &command]).args(more).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success() && text.contains("own=20010\n"), "the program was killed: {text}{said}");
    assert!(said.contains("has entered seccomp's strict mode"), "{said}");
    (text, said)
}

/// `tests/programs/sandbox.c` goes on in strict mode for a second, in which its hits are metered again and again.
fn check_strict_everywhere(path: &Path) {
    let all = |text: &str| number(text, "@all");
    let (text, said) = check_strict(path, "", &[]);
    assert_eq!(all(&text), Some(20010), "{text}{said}");
    let (text, said) =
        check_strict(path, "if (nsecs) { @timed = count(); } else { @untimed = count(); }", &[]);
    assert_eq!(all(&text), Some(20010), "{text}{said}");
    assert_eq!((number(&text, "@timed"), number(&text, "@untimed")), (Some(10), Some(20000)), "{text}{said}");
    assert!(said.contains("20000 uses of times"), "{said}");
    let (text, said) = check_strict(path, "printf(\"hit %d\\n\", 1);", &[]);
    assert_eq!((all(&text), text.matches("hit 1\n").count()), (Some(20010), 20010), "{said}");
    // Sampled, since this is more than such a share.
    let (text, said) = check_strict(path, "@text[arg0] = count();", &["--budget", "0.001%"]);
    assert!(said.contains("is sampled") && all(&text).is_some_and(|hits| hits < 20010), "{text}{said}");
}

#[test]
fn a_program_that_enters_strict_mode_after_attach_lives_on() {
    check_strict_everywhere(&sandbox(GLIBC, &[]));
}

#[test]
fn so_does_one_with_musl_in_strict_mode() {
    if !testkit::target::is_installed("musl-gcc") {
        return testkit::skip::skip("musl", "musl-tools is not installed");
    }
    check_strict_everywhere(&sandbox(MUSL, &[]));
}

/// The script's own probes there run as well.
#[test]
fn a_script_may_probe_what_installs_filters() {
    let path = sandbox(GLIBC, &[]);
    let more = "uprobe:libc:prctl { @asked[arg0] = count(); }";
    let (text, said) = check_sandbox(&path, "prctl", more, 110);
    assert_eq!(crate::life::worker::number(&text, "@asked[22]"), Some(1), "{text}{said}");
}

/// Nobody waits for an answer by futex(2) any more.
#[test]
fn libraries_that_are_loaded_under_a_filter_are_announced_without_a_call() {
    let source = testkit::target::Source::Text(
        "volatile long plugged; void plug(void) { plugged += 7; plugged *= 3; }",
    );
    let check = |how: (&str, &[&str])| {
        let flags = ["-O1", "-shared", "-fPIC"];
        let library = testkit::target::build_with(how.0, &format!("plug-{}.so", how.0), source, &flags);
        let library = quoted(&library);
        let more = format!("uprobe:{library}:plug {{ @plugs = count(); }}");
        check_sandbox(&sandbox(how, &[]), &format!("prctl {library}"), &more, 110);
    };
    check(GLIBC);
    match testkit::target::is_installed("musl-gcc") {
        true => check(MUSL),
        false => testkit::skip::skip("musl", "musl-tools is not installed"),
    }
}
