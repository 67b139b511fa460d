//! Bad input: one clear message each, the exit code of its kind, and a target that was not touched.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use testkit::{Daemon, target};

const REFUSED: i32 = 1;
const USAGE: i32 = 2;
const MACHINE: i32 = 3;
const DEADLINE: Duration = Duration::from_secs(120);

fn weir() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
    command.stdin(Stdio::null());
    command
}

/// Runs weir with `args`: it must end with `code`, and say each of `parts` on standard error.
#[track_caller]
fn check(args: &[&str], code: i32, parts: &[&str]) -> Output {
    outcome(weir().args(args), code, parts)
}

#[track_caller]
fn outcome(command: &mut Command, code: i32, parts: &[&str]) -> Output {
    let output = command.output().unwrap();
    let message = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{command:?}: {message}");
    for part in parts {
        assert!(message.contains(part), "{command:?}: {part:?} is not in:\n{message}");
    }
    output
}

fn folder() -> PathBuf {
    let folder = testkit::paths::target().join("error-tests");
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

/// A server that idles until its input ends; it calls `work` never, and has a function too short to patch.
fn server() -> (Daemon, PathBuf) {
    let source = r#"
        #include <stdio.h>
        #include <unistd.h>
        __asm__(".globl tiny\n.type tiny,@function\ntiny: ret\n.size tiny,.-tiny\n"
            ".globl next\n.type next,@function\nnext: ret\n.size next,.-next\n .balign 16\n");
        __attribute__((noinline)) int work(int x) { __asm__ volatile("" : "+r"(x)); return x ^ 5; }
        int main(void) { alarm(600); puts("ready"); fflush(stdout); return getchar() == EOF ? 0 : work(1); }
    "#;
    let path = target::build("error-server", target::Source::Text(source), &["-O2"]);
    let mut daemon = Daemon::spawn(Command::new(&path)).unwrap();
    daemon.line_with("ready", DEADLINE).unwrap();
    (daemon, path)
}

fn is_untouched(pid: u32) -> bool {
    testkit::mapped::of_weir_in(pid).is_empty()
}

#[test]
fn script_errors_are_shown_in_place_and_all_at_once() {
    let parts = ["<-e>:1:", "^", "nosuch", "prinft"];
    check(&["trace", "-e", "BEGIN { $x = nosuch; prinft(\"a\"); }"], REFUSED, &parts);
    check(&["trace", "-e", "BEGIN { @x = 1 + ; }"], REFUSED, &["<-e>:1:", "^"]);
    check(&["trace", "-e", "BEGIN { @x = count(); @x = \"text\"; }"], REFUSED, &["<-e>:1:", "@x"]);
    check(&["trace", "/no/such/script.bt"], REFUSED, &["/no/such/script.bt", "No such file"]);
}

#[test]
fn scripts_are_text_and_may_begin_with_a_byte_order_mark() {
    let script = |name: &str, bytes: &[u8]| {
        let path = folder().join(name);
        std::fs::write(&path, bytes).unwrap();
        path.display().to_string()
    };
    let bytes = script("bytes.bt", b"\xef\xbb\xbf// \xc3\xa9\nBEGIN { print(\"\xc3\xa9\xff\"); }\n");
    let place = "the byte 0xff at line 2, column 17 is not UTF-8";
    check(&["trace", &bytes], REFUSED, &["bytes.bt", place]);
    let marked = script("marked.bt", b"\xef\xbb\xbf#!/usr/bin/weir\nBEGIN { print(\"marked\"); exit(); }\n");
    let traced = weir().args(["trace", &marked]).output().unwrap();
    assert!(
        traced.status.success() && String::from_utf8_lossy(&traced.stdout).contains("marked"),
        "{traced:?}"
    );
}

#[test]
fn what_is_not_supported_yet_says_so() {
    check(&["trace", "-e", "iter:task:list { @ = count(); }"], REFUSED, &["<-e>:1:1", "iter"]);
}

/// More processes than are traced unasked map the binary.
#[test]
fn a_script_on_many_processes_wants_them_named() {
    let program = target::build(
        "errors-many",
        target::Source::Text(
            "#include <signal.h>\n#include <stdio.h>\n#include <sys/prctl.h>\n#include <unistd.h>\n\
             __attribute__((noipa)) void work(void) { }\nint main(void) {\n    alarm(600);\n\
             \x20   for (int n = 0; n < 40; n++)\n        if (fork() == 0) { prctl(PR_SET_PDEATHSIG, SIGKILL); alarm(600); work(); pause(); }\n\
             \x20   puts(\"ready\");\n    fflush(stdout);\n    getchar();\n    return 0;\n}\n",
        ),
        &[],
    );
    let mut many = Daemon::spawn(Command::new(&program)).unwrap();
    many.line_with("ready", DEADLINE).unwrap();
    let script = format!("uprobe:{}:work {{ @ = count(); }}", testkit::paths::quoted(&program));
    check(&["trace", "-e", &script], REFUSED, &["no process is named, and 41 map", "--all-processes"]);
    drop(many);
}

#[test]
fn wrong_usage_is_told_apart() {
    check(&["trace"], USAGE, &["Usage"]);
    check(&["trace", "-p", "0", "-e", "BEGIN {}"], USAGE, &["'0'"]);
    check(&["trace", "-p", "/bin/zero", "-e", "BEGIN {}"], USAGE, &["/bin/zero"]);
    check(&["nonsense"], USAGE, &["nonsense"]);
    check(&["trace", "-e", "BEGIN { exit() }", "-c", "'unfinished"], USAGE, &["unfinished"]);
}

#[test]
fn binaries_and_functions_that_are_not_there() {
    let run = ["-c", "/bin/true"];
    let script = |text: &str, parts: &[&str]| {
        check(&[&["trace", "-e", text][..], &run[..]].concat(), REFUSED, parts);
    };
    script("uprobe:/no/such/file:main { @ = count(); }", &["/no/such/file", "<-e>:1:"]);
    script("uprobe:libc:mallocc { @ = count(); }", &["mallocc", "malloc"]);
    script("uprobe:libc:zzz* { @ = count(); }", &["zzz*"]);
    script("uprobe:libc:strlen { @ = count(); }", &["indirect-function"]);
}

#[test]
fn files_that_are_no_programs() {
    let write = |name: &str, bytes: &[u8]| {
        let path = folder().join(name);
        std::fs::write(&path, bytes).unwrap();
        path.display().to_string()
    };
    let system = std::fs::read("/bin/true").unwrap();
    let mut narrow = system.clone();
    narrow[4] = 1; // ELFCLASS32
    let mut other = system.clone();
    other[18] = 183; // EM_AARCH64
    for (path, part) in [
        (write("narrow", &narrow), "32-bit"),
        (write("other", &other), "x86-64"),
        (write("truncated", &system[..40]), "ELF"),
        (write("text", b"#!/bin/sh\n"), "ELF"),
        (write("empty", b""), "ELF"),
    ] {
        let script = format!("uprobe:\"{path}\":main {{ @ = count(); }}");
        check(&["trace", "-e", &script, "-c", "/bin/true"], REFUSED, &[&path, part]);
    }
}

#[test]
fn processes_that_are_not_there() {
    let script = "uprobe:libc:malloc { @ = count(); }";
    check(&["trace", "-e", script, "-p", "1073741700"], MACHINE, &["no process 1073741700"]);
    check(&["detach", "-p", "1073741700"], MACHINE, &["no process 1073741700"]);
    check(&["trace", "-e", script, "-c", "/no/such/command"], MACHINE, &["/no/such/command", "No such file"]);
}

#[test]
fn functions_that_cannot_be_patched() {
    let (server, path) = server();
    let pid = server.pid().to_string();
    let script = format!("uprobe:\"{}\":tiny {{ @ = count(); }}", path.display());
    check(&["trace", "--engine", "user", "-e", &script, "-p", &pid], REFUSED, &["too-short", "tiny"]);
    assert!(is_untouched(server.pid()));
    check(&["detach", "-p", &pid], REFUSED, &["no weir probes"]);
}

#[test]
fn text_that_differs_from_its_file() {
    let (server, path) = server();
    let binary = weir_symbols::Binary::open(&path).unwrap();
    let maps = weir_symbols::maps::read(server.pid()).unwrap();
    let work = binary.find("work").unwrap()[0].address;
    let at = weir_symbols::maps::to_virtual(&maps, binary.identity().unwrap(), &binary, work).unwrap();
    let memory = std::fs::OpenOptions::new().write(true).open(format!("/proc/{}/mem", server.pid())).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&memory, &[0xcc], at.0).unwrap();
    let script = format!("uprobe:\"{}\":work {{ @ = count(); }}", path.display());
    check(&["trace", "-e", &script, "-p", &server.pid().to_string()], MACHINE, &["text-differs", "work"]);
    assert!(is_untouched(server.pid()));
}

#[test]
fn processes_that_somebody_else_traces() {
    if !Command::new("strace").arg("-V").output().is_ok_and(|output| output.status.success()) {
        return testkit::skip::skip("already-traced", "strace is not installed");
    }
    let (server, path) = server();
    let pid = server.pid().to_string();
    let script = format!("uprobe:\"{}\":work {{ @ = count(); }}", path.display());
    let mut strace = Command::new("strace");
    strace.args(["-o", "/dev/null", "-p", &pid]);
    let strace = Daemon::spawn(strace).unwrap();
    let is_traced = || {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
        !status.contains("TracerPid:\t0")
    };
    assert!(testkit::wait::until(DEADLINE, is_traced));
    check(&["trace", "-e", &script, "-p", &pid], MACHINE, &["already traced by process"]);
    assert!(is_untouched(server.pid()));
    strace.signal(nix::sys::signal::Signal::SIGINT).unwrap();
    let _ = strace.finish(DEADLINE);
}

#[test]
fn budgets_that_cannot_be_kept() {
    let (server, path) = server();
    let pid = server.pid().to_string();
    let script = format!("uprobe:\"{}\":work {{ @[arg0] = count(); }}", path.display());
    let run = |budget: &str, code: i32, parts: &[&str]| {
        check(&["trace", "-e", &script, "-p", &pid, "--budget", budget], code, parts);
        assert!(is_untouched(server.pid()), "{budget}");
    };
    run("cheap", USAGE, &["\"cheap\": neither", "`1%`", "`64MiB`", "`10ms-stop`"]);
    run("1%,1%", USAGE, &["second of its kind"]);
    let from = "(--budget allows 4KiB)";
    run("4KiB", REFUSED, &["the maps of the script need", "the budget is 4KiB", from, "max_map_keys"]);
    // The maps alone are just below it.
    let needed = |text: &str| text.split_whitespace().find_map(|word| word.parse::<u64>().ok()).unwrap();
    let refused = check(&["trace", "-e", &script, "-p", &pid, "--budget", "4KiB"], REFUSED, &[]);
    let maps = needed(&String::from_utf8(refused.stderr).unwrap());
    let parts = ["bytes of memory in process", "(code", "nothing was patched", "(--budget allows "];
    run(&format!("{maps}B"), REFUSED, &parts);
    run("1us-stop", MACHINE, &["1µs", "(--budget allows 1us-stop)"]);
    let exits = format!("{script} interval:ms:50 {{ exit(); }}");
    let budget = format!("{}B,1s-stop", 2 * maps);
    check(&["trace", "-e", &exits, "-p", &pid, "--budget", &budget], 0, &[]);
}

#[test]
fn a_second_weir_traces_beside_the_first() {
    let (server, path) = server();
    let pid = server.pid().to_string();
    let script = format!("uprobe:\"{}\":work {{ @ = count(); }}", path.display());
    let mut first = weir();
    first.args(["trace", "-e", &script, "-p", &pid]);
    let first = Daemon::spawn(first).unwrap();
    // Of a process that is being attached to nothing is told yet.
    let table = || String::from_utf8_lossy(&weir().arg("ps").output().unwrap().stdout).into_owned();
    let is_listed = || table().lines().any(|line| line.contains(&pid) && line.contains("uprobe:"));
    assert!(testkit::wait::until(DEADLINE, is_listed), "{}", table());
    let mut second = weir();
    second.args(["trace", "-e", &script, "-p", &pid]);
    let second = Daemon::spawn(second).unwrap();
    // Each has a line of its own.
    let listed = || {
        let ps = weir().args(["ps", "-f", "json"]).output().unwrap();
        let objects = String::from_utf8(ps.stdout).unwrap();
        let objects =
            objects.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).expect("an object"));
        let of_process = objects.filter(|object| object["pid"] == server.pid());
        let is_probed = |object: &serde_json::Value| {
            object["sites"] == 1 && object["probes"].as_str().unwrap().starts_with("uprobe:")
        };
        let mut weirs: Vec<u64> = of_process.filter(is_probed).filter_map(|o| o["weir"].as_u64()).collect();
        weirs.sort_unstable();
        weirs
    };
    let mut both = [u64::from(first.pid()), u64::from(second.pid())];
    both.sort_unstable();
    assert!(testkit::wait::until(DEADLINE, || listed() == both), "{:?}", listed());
    // Of a process whose weir runs nothing is taken out.
    check(&["detach", "-p", &pid], REFUSED, &["which still runs"]);
    second.signal(nix::sys::signal::Signal::SIGINT).unwrap();
    assert!(second.finish(DEADLINE).unwrap().status.success());
    assert_eq!(listed(), [u64::from(first.pid())]);
    first.signal(nix::sys::signal::Signal::SIGINT).unwrap();
    assert!(first.finish(DEADLINE).unwrap().status.success());
    assert!(is_untouched(server.pid()));
}

#[test]
fn a_weir_that_traces_is_traced_itself() {
    let (server, path) = server();
    let script = format!("uprobe:\"{}\":work {{ @ = count(); }}", path.display());
    let mut first = weir();
    first.args(["trace", "-e", &script, "-p", &server.pid().to_string()]);
    let first = Daemon::spawn(first).unwrap();
    assert!(testkit::wait::until(DEADLINE, || !is_untouched(server.pid())));
    let pid = first.pid().to_string();
    let outer = "uprobe:libc:*poll* { @ = count(); } interval:ms:300 { exit(); }";
    for _ in 0..3 {
        let traced = weir().args(["trace", "-e", outer, "-p", &pid]).output().unwrap();
        assert!(traced.status.success(), "{}", String::from_utf8_lossy(&traced.stderr));
    }
    check(&["detach", "-p", &pid], REFUSED, &["has no weir probes"]);
    first.signal(nix::sys::signal::Signal::SIGINT).unwrap();
    let ended = first.finish(DEADLINE).unwrap();
    assert!(ended.status.success() && ended.stdout.contains("@: "), "{ended:?}");
    assert!(is_untouched(server.pid()));
}

#[test]
fn processes_of_other_users() {
    if !nix::unistd::geteuid().is_root() || !Path::new("/usr/bin/setpriv").exists() {
        return testkit::skip::skip("permission", "needs root and setpriv, to become somebody else");
    }
    let (server, path) = server();
    // Where anybody may execute it.
    let copy = std::env::temp_dir().join(format!("weir-test-{}", std::process::id()));
    target::copy(Path::new(env!("CARGO_BIN_EXE_weir")), &copy);
    std::fs::set_permissions(&copy, std::fs::Permissions::from_mode(0o755)).unwrap();
    let script = format!("uprobe:\"{}\":work {{ @ = count(); }}", path.display());
    let mut command = Command::new("setpriv");
    command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]).arg(&copy);
    command.args(["trace", "-e", &script, "-p", &server.pid().to_string()]).stdin(Stdio::null());
    let output = command.output();
    std::fs::remove_file(&copy).unwrap();
    let output = output.unwrap();
    let message = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(MACHINE), "{message}");
    assert!(message.contains("ermission"), "{message}");
    assert!(is_untouched(server.pid()));
}

#[test]
fn a_policy_that_is_no_regular_file_is_refused_and_not_waited_for() {
    let fifo = folder().join("policy-fifo");
    let _ = std::fs::remove_file(&fifo);
    nix::unistd::mkfifo(&fifo, nix::sys::stat::Mode::S_IRWXU).unwrap();
    for path in [&fifo, Path::new("/dev/null"), Path::new("/")] {
        let mut command = weir();
        command
            .args(["trace", "-e", "uprobe:libc:malloc { @ = count(); }", "-c", "true", "--policy"])
            .arg(path);
        let ended = Daemon::spawn(command).unwrap().finish(DEADLINE).unwrap();
        assert_eq!(ended.status.code(), Some(REFUSED), "{}", ended.stderr);
        let parts = [&*path.to_string_lossy(), "not a regular file", "nothing is traced"];
        assert!(parts.iter().all(|part| ended.stderr.contains(part)), "{}", ended.stderr);
    }
}

/// Of a pipe whose reader has gone.
fn nobody() -> Stdio {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    writer.into()
}

#[test]
fn who_shuts_standard_error_gets_the_results_all_the_same() {
    for flag in ["--live", "-v", "--unknown"] {
        let (server, path) = server();
        let pid = server.pid().to_string();
        // Long enough for a second line of the view.
        let script =
            format!("uprobe:\"{}\":work {{ @ = count(); }} interval:ms:1200 {{ exit(); }}", path.display());
        let mut command = weir();
        command.args([
            "trace",
            flag,
            "-e",
            &format!("{script} END {{ printf(\"results\\n\"); }}"),
            "-p",
            &pid,
        ]);
        let output = command.stderr(nobody()).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        if flag == "--unknown" {
            assert_eq!(output.status.code(), Some(USAGE), "{text}");
            continue;
        }
        assert!(output.status.success() && text.contains("results\n"), "{flag}: {} {text}", output.status);
        assert!(is_untouched(server.pid()), "{flag}");
    }
    // Nor does a message that nobody reads change what it is about.
    for (script, code) in [("BEGIN {", REFUSED), ("uprobe:/no/such/file:f { @ = count(); }", REFUSED)] {
        let status = weir().args(["trace", "-e", script]).stderr(nobody()).status().unwrap();
        assert_eq!(status.code(), Some(code), "{script}");
    }
}

/// A run of `true` with a script whose settings begin so.
#[track_caller]
fn check_missing(setting: &str, probes: &str, code: i32, parts: &[&str]) -> String {
    let script = format!("config = {{ missing_probes = {setting} }} {probes}");
    let output = check(&["trace", "-e", &script, "-c", "/bin/true"], code, parts);
    String::from_utf8(output.stderr).unwrap()
}

#[test]
fn what_is_missing_is_an_error_a_warning_or_nothing() {
    let absent = "uprobe:libc:mallocc { @ = count(); } uprobe:libc:exit { @x = count(); }";
    let nothing = "uprobe:libc:zzz* { @ = count(); } uprobe:libc:exit { @x = count(); }";
    let refused = "uprobe:libc:strlen, uprobe:libc:exit { @ = count(); }";
    let returns = "uretprobe:libc:vfork, uretprobe:libc:malloc { @ = count(); }";
    for (probes, part) in
        [(absent, "mallocc"), (nothing, "zzz*"), (refused, "indirect-function"), (returns, "return-blocked")]
    {
        check_missing("error", probes, REFUSED, &[part]);
        check_missing("warn", probes, 0, &[part]);
        assert_eq!(check_missing("ignore", probes, 0, &[]), "", "{probes}");
    }
    check_missing("error", refused, REFUSED, &["strlen", "missing_probes = \"warn\"", "traces the others"]);
}

#[test]
fn what_a_wildcard_matches_is_probed_as_far_as_it_can_be() {
    check_missing("error", "uprobe:libc:strl* { @ = count(); }", 0, &["are not probed", "indirect-function"]);
    // One that is named as well is wanted.
    let both = "uprobe:libc:strl* { @ = count(); } uprobe:libc:strlen { @x = count(); }";
    check_missing("error", both, REFUSED, &["strlen", "indirect-function"]);
}

#[test]
fn a_clause_without_any_place_is_an_error_in_any_case() {
    for setting in ["error", "warn", "ignore"] {
        check_missing(setting, "uprobe:libc:strlen { @ = count(); }", REFUSED, &["indirect-function"]);
        check_missing(setting, "uretprobe:libc:vfork { @ = count(); }", REFUSED, &["return-blocked"]);
        // The entry alone would do.
        let both = "uprobe:libc:vfork { @e = count(); } uretprobe:libc:vfork { @ = count(); }";
        check_missing(setting, both, REFUSED, &["vfork (return): return-blocked"]);
    }
}

#[test]
fn an_instruction_that_is_none_is_told_with_what_there_is() {
    let source = "int one(int n) { return n + 1; }\nint main(int n, char **v) { return one(n) > 5; }\n";
    let program = target::build("near-misses", target::Source::Text(source), &["-O0", "-g"]);
    let path = program.display();
    let script = |place: &str, parts: &[&str]| {
        let script = format!("uprobe:\"{path}\"{place} {{ @ = count(); }}");
        check(&["trace", "-e", &script, "-c", &format!("\"{path}\"")], REFUSED, parts);
    };
    script(":one+500", &["one", "has", "bytes", "+500 is behind its end"]);
    script(":one+2", &["not-an-instruction"]);
    script(":onee+2", &["did you mean one"]);
    script(":0x10", &["no function", "0x10"]);
    let name = program.file_name().unwrap().to_str().unwrap().split('-').next().unwrap();
    script(&format!("@{name}.nothing:1"), &["no source file"]);
}
