//! `--engine kernel` and `--engine user`: the same scripts on the same programs print the same, and what the kernel's does not do is refused.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use nix::sys::signal::Signal;
use testkit::paths::quoted;
use testkit::{Daemon, skip, target, wait};

use crate::life::worker::BEGUN;
use crate::live::server::Redis;

const DEADLINE: Duration = Duration::from_secs(60);

const SQLITE: &str = "sqlite3 :memory: \"WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x+1 FROM c WHERE x<2000) \
     SELECT count(*), sum(length(hex(x))) FROM c;\"";

fn weir(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_weir")).args(arguments).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn available() -> bool {
    testkit::kernel::available().map_err(|reason| skip::skip("engines", reason)).is_ok()
}

/// Where weir writes its own output.
fn out_file(name: &str) -> PathBuf {
    let folder = testkit::paths::target().join("trace-tests");
    std::fs::create_dir_all(&folder).unwrap();
    folder.join(format!("{name}-{}", std::process::id()))
}

/// What a script prints on a command, and how weir ends.
fn traced(engine: &str, script: &str, command: &str) -> (String, Option<i32>) {
    // Tests may run at once.
    static RUNS: AtomicU32 = AtomicU32::new(0);
    let out = out_file(&format!("engines-{engine}-{}", RUNS.fetch_add(1, Ordering::Relaxed)));
    let place = out.to_str().unwrap();
    let output = weir(&["-q", "--engine", engine, "-e", script, "-c", command, "-o", place]);
    let printed = std::fs::read_to_string(&out).unwrap_or_default();
    let _ = std::fs::remove_file(&out);
    assert!(!printed.is_empty(), "{engine}: {script}: {}", text(&output.stderr));
    (printed, output.status.code())
}

fn check_same(scripts: &[&str], command: &str) {
    for script in scripts {
        assert_eq!(traced("kernel", script, command), traced("user", script, command), "{script}");
    }
}

#[test]
fn scripts_on_sqlite_print_the_same() {
    if !available() {
        return;
    }
    if !Path::new("/usr/bin/sqlite3").exists() {
        return skip::skip("engines", "sqlite3 is not installed");
    }
    check_same(
        &[
            "uprobe:libc:malloc { @ = count(); @bytes[arg0] = count(); }",
            "uprobe:libc:malloc { @h = hist(arg0); @l = lhist(arg0, 0, 1000, 100); @s = stats(arg0); @a = avg(arg0); \
             @sum = sum(arg0); @max = max(arg0); @min = min(arg0); }",
            "uprobe:libc:malloc { @size[tid] = arg0; } uretprobe:libc:malloc /@size[tid]/ \
             { @[retval != 0] = sum(@size[tid]); delete(@size[tid]); }",
            "uprobe:libsqlite3.so.0:sqlite3_prepare_v2 { printf(\"%s: %s\\n\", comm, str(arg1)); }",
            "uretprobe:libsqlite3.so.0:sqlite3_step { @[retval] = count(); }",
            "BEGIN { @n = 3; printf(\"begun %d\\n\", @n); } uprobe:libsqlite3.so.0:sqlite3_step { @n += 2; @k[@n % 3] = count(); } \
             END { printf(\"n %d\\n\", @n); clear(@n); print(@k, 1); }",
            "uprobe:libsqlite3.so.0:sqlite3_column_* { @[probe, func] = count(); }",
            "uprobe:libc:malloc { $n = arg0; $bits = 0; while ($n) { $n >>= 1; $bits++; } @[$bits] = count(); \
             for ($i : 0..3) { if ($i == 1) { continue; } @i[$i] = sum(arg0); } @u[uid, gid] = count(); \
             if (strncmp(comm, \"sqlite\", 6) == 0) { @named = count(); } }",
        ],
        SQLITE,
    );
}

#[test]
fn scripts_on_static_probes_print_the_same() {
    if !available() {
        return;
    }
    let program = target::program("record");
    let script = |event: &str, body: &str| format!("usdt:\"{}\":rec:{event} {{ {body} }}", program.display());
    let numbers =
        script("ints", "@ = count(); @n = sum(arg1); @k[arg1 % 7] = count(); printf(\"%d\\n\", arg1);");
    let texts = script("strings", "@[str(arg2)] = count(); @n = hist(arg1);");
    check_same(&[&numbers], &format!("{} i 1 100", quoted(&program)));
    check_same(&[&texts], &format!("{} s 1 50", quoted(&program)));
}

/// What a script prints of a server that answers 200 times, and stands still before and after.
fn of_redis(redis: &Redis, engine: &str, script: &str) -> String {
    let out = out_file("engines-redis");
    let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
    let script = format!("{BEGUN} {script}");
    command.args(["-q", "--engine", engine, "-e", &script, "-p", &redis.pid().to_string(), "-o"]).arg(&out);
    let mut weir = Daemon::spawn(command).unwrap();
    // The first interval is due after the probes are in place.
    let has_begun = || std::fs::read_to_string(&out).is_ok_and(|text| text.contains("begun\n"));
    assert!(wait::until(DEADLINE, || has_begun() || !weir.is_running()), "{engine}: {script}");
    (0..200).for_each(|_| assert!(redis.answers()));
    weir.signal(Signal::SIGINT).unwrap();
    let ended = weir.finish(DEADLINE).unwrap();
    assert!(ended.status.success(), "{engine}: {script}: {}", ended.stderr);
    let printed = std::fs::read_to_string(&out).unwrap();
    std::fs::remove_file(&out).unwrap();
    printed.lines().filter(|line| !line.starts_with("@looks")).map(|line| format!("{line}\n")).collect()
}

#[test]
fn scripts_on_redis_print_the_same() {
    if !available() {
        return;
    }
    let Some(redis) = Redis::start("engines") else { return };
    let scripts = [
        "uprobe:redis-server:processCommand { @ = count(); }",
        "uretprobe:redis-server:processCommand { @[retval] = count(); }",
        "uprobe:redis-server:processCommand { @at[tid] = 1; } uretprobe:redis-server:processCommand \
         { @[@at[tid]] = count(); delete(@at[tid]); }",
        "uprobe:redis-server:pingCommand { @[comm] = count(); }",
    ];
    for script in scripts {
        let printed = of_redis(&redis, "kernel", script);
        assert!(printed.contains("200"), "{script}: {printed}");
        assert_eq!(printed, of_redis(&redis, "user", script), "{script}");
    }
}

#[test]
fn hits_and_exit_codes_are_told_alike() {
    if !available() {
        return;
    }
    let script = "uretprobe:libc:exit* { @ = count(); } uprobe:libc:getenv { @e = count(); } uretprobe:libc:getenv { @r = count(); }";
    let told = |engine: &str| {
        let output =
            weir(&["-v", "--engine", engine, "-e", script, "-c", "sh -c 'exit 7'", "-o", "/dev/null"]);
        let hits: Vec<String> =
            text(&output.stderr).lines().filter(|line| line.contains("entries")).map(str::to_owned).collect();
        (hits, output.status.code())
    };
    let (of_kernel, of_user) = (told("kernel"), told("user"));
    assert!(of_kernel.0.iter().any(|line| line.contains("uretprobe:libc:getenv: ")), "{of_kernel:?}");
    assert_eq!((of_kernel.1, &of_kernel), (Some(7), &of_user));
    assert_eq!(traced("kernel", "uprobe:libc:getenv { exit(); }", "sh -c 'exit 7'").1, Some(7));
}

#[test]
fn what_has_no_room_is_counted() {
    if !available() {
        return;
    }
    let run = |script: &str| {
        let output = weir(&["--engine", "kernel", "-e", script, "-c", "ls -l /usr/bin", "-o", "/dev/null"]);
        assert!(output.status.success(), "{}", text(&output.stderr));
        text(&output.stderr)
    };
    let keys = "config = { max_map_keys = 2 } uprobe:libc:malloc { @n++; @[@n] = 1; @c[@n] = count(); }";
    let told = run(keys);
    let lost: Option<u64> = told
        .lines()
        .find_map(|line| line.strip_prefix("weir: ")?.split_once(" values did not fit")?.0.parse().ok());
    assert!(lost.is_some_and(|lost| lost > 10 && lost % 2 == 0), "{told}");
    assert!(!run("uprobe:libc:malloc { @n++; }").contains("did not fit"));
}

#[test]
fn what_it_does_not_do_is_refused_by_name() {
    let check = |code: i32, arguments: &[&str], wanted: &str| {
        let all = [&["--engine", "kernel"], arguments].concat();
        let output = weir(&all);
        let told = text(&output.stderr);
        assert!(output.status.code() == Some(code) && told.contains(wanted), "{arguments:?}: {told}");
    };
    let script = "uprobe:libc:malloc { @ = count(); }";
    for (more, wanted) in [
        (&["--follow", "-c", "true"][..], "not --follow"),
        (&["-p", "nobody*"], "not processes by name"),
        (&["--filter", "arg0 > 1", "-c", "true"], "not --filter"),
        (&["--budget", "1%", "-c", "true"], "not --budget"),
        (&["--live", "--budget", "1%", "-c", "true"], "not --budget, --live"),
    ] {
        check(1, &[&["-e", script], more].concat(), wanted);
    }
    check(
        1,
        &["-e", "uprobe:libc:malloc { @ = (int64)farg0; }", "-c", "true"],
        "no floating-point registers",
    );
    if !available() {
        return;
    }
    // Probes of the kernel's beside weir's jumps end the process.
    let sleeper = Daemon::spawn({
        let mut command = Command::new("sleep");
        command.arg("60");
        command
    })
    .unwrap();
    let pid = sleeper.pid().to_string();
    let out = out_file("engines-beside");
    let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
    command.args(["-e", &format!("{BEGUN} {script}"), "-p", &pid, "-o"]).arg(&out);
    let beside = Daemon::spawn(command).unwrap();
    assert!(
        wait::until(DEADLINE, || std::fs::read_to_string(&out).is_ok_and(|text| text.contains("begun\n")))
    );
    check(3, &["-e", script, "-p", &pid], "has probes of weir");
    beside.signal(Signal::SIGINT).unwrap();
    assert!(beside.finish(DEADLINE).unwrap().status.success());
    let _ = std::fs::remove_file(&out);
    check(0, &["-e", "uprobe:libc:malloc { @ = count(); } interval:ms:1 { exit(); }", "-p", &pid], "");
}

#[test]
fn a_process_that_a_debugger_holds_is_traced_all_the_same() {
    if !available() {
        return;
    }
    if !Path::new("/usr/bin/strace").exists() {
        return skip::skip("engines", "strace is not installed");
    }
    // It calls getenv as often as it is told to, a line each.
    let source = r#"
        #include <stdio.h>
        #include <stdlib.h>
        int main(void) {
            char line[64];
            while (fgets(line, sizeof line, stdin)) { getenv("HOME"); puts("done"); fflush(stdout); }
            return 0;
        }
    "#;
    let program = target::build("calls-getenv", target::Source::Text(source), &[]);
    let mut caller = Daemon::spawn(Command::new(program)).unwrap();
    let pid = caller.pid().to_string();
    let debugger = Daemon::spawn({
        let mut command = Command::new("/usr/bin/strace");
        command.args(["-q", "-o", "/dev/null", "-p", &pid]);
        command
    })
    .unwrap();
    let is_held = || {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
        !status.contains("TracerPid:\t0\n")
    };
    assert!(wait::until(DEADLINE, is_held));
    let script = format!("{BEGUN} uprobe:libc:getenv {{ @ = count(); }}");
    let refused = weir(&["-e", &script, "-p", &pid]);
    assert_eq!(refused.status.code(), Some(3), "{}", text(&refused.stderr));
    let out = out_file("engines-held");
    let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
    command.args(["--engine", "kernel", "-e", &script, "-p", &pid, "-o"]).arg(&out);
    let mut weir = Daemon::spawn(command).unwrap();
    let has_begun = || std::fs::read_to_string(&out).is_ok_and(|text| text.contains("begun\n"));
    assert!(wait::until(DEADLINE, || has_begun() || !weir.is_running()) && has_begun());
    for _ in 0..5 {
        caller.write("\n").unwrap();
        assert_eq!(caller.line(DEADLINE).unwrap(), "done");
    }
    caller.close_stdin();
    // The run ends with the process.
    assert!(caller.finish(DEADLINE).unwrap().status.success());
    assert!(weir.finish(DEADLINE).unwrap().status.success());
    assert!(std::fs::read_to_string(&out).unwrap().contains("@: 5"));
    let _ = std::fs::remove_file(&out);
    drop(debugger);
}

#[test]
fn returns_that_exceptions_pass_through_are_refused() {
    if !available() {
        return;
    }
    let source = r#"
        #include <cstdio>
        extern "C" __attribute__((noinline)) int thrower(int n) { if (n > 2) throw n; return n; }
        int main() {
            for (int n = 0; n < 5; n++)
                try { std::printf("%d\n", thrower(n)); } catch (int caught) { std::printf("caught %d\n", caught); }
        }
    "#;
    let program = target::build_with("g++", "throws", target::Source::Text(source), &["-O1"]);
    let probe = |kind: &str| format!("{kind}:\"{}\":thrower {{ @ = count(); }}", program.display());
    let run = |script: &str| weir(&["--engine", "kernel", "-e", script, "-c", &quoted(&program)]);
    let refused = run(&probe("uretprobe"));
    let told = text(&refused.stderr);
    assert!(refused.status.code() == Some(1) && told.contains("exceptions may pass through it"), "{told}");
    let entries = run(&probe("uprobe"));
    let printed = text(&entries.stdout);
    assert!(
        entries.status.success() && printed.contains("caught 4\n") && printed.contains("@: 5"),
        "{printed}"
    );
}

#[test]
fn places_that_a_breakpoint_would_harm_are_refused() {
    if !available() {
        return;
    }
    let check = |probe: &str, wanted: &str| {
        let script = format!("{probe} {{ @ = count(); }}");
        let output = weir(&["--engine", "kernel", "-e", &script, "-c", "true"]);
        let told = text(&output.stderr);
        assert!(output.status.code() == Some(1) && told.contains(wanted), "{probe}: {told}");
    };
    check("uprobe:libc:memcpy", "indirect-function");
    check("uretprobe:libc:qsort", "it calls back");
    check("uretprobe:libc:setjmp", "return-blocked");
    // One of its first instructions is longer than a byte.
    let is_refused = |offset: usize| {
        let script = format!("uprobe:libc:malloc+{offset} {{ @ = count(); }}");
        text(&weir(&["--engine", "kernel", "-e", &script, "-c", "true"]).stderr)
            .contains("not-an-instruction")
    };
    assert!((1..=8).any(is_refused));
}

#[test]
fn a_clause_that_never_ran_names_the_file_that_nobody_mapped() {
    if !available() {
        return;
    }
    let program = target::program("record");
    let script = format!("usdt:\"{}\":rec:ints {{ @ = count(); }}", program.display());
    let output = weir(&["--engine", "kernel", "-e", &script, "-c", "sleep 0.3"]);
    let told = text(&output.stderr);
    assert!(output.status.success() && told.contains("never ran: no process was seen to map"), "{told}");
    let script = "uprobe:libc:malloc { @ = count(); }";
    let told = text(&weir(&["--engine", "kernel", "-e", script, "-c", "sleep 0.3"]).stderr);
    assert!(!told.contains("never ran"), "{told}");
}

#[test]
fn every_record_is_printed_or_counted() {
    if !available() {
        return;
    }
    let script = "uprobe:libc:malloc { @n = count(); printf(\"%d\\n\", arg0); } END { printf(\"end\\n\"); }";
    let (printed, _) = traced("kernel", script, "ls -R /usr/include");
    let mut lines = printed.lines();
    let before = lines.by_ref().take_while(|line| *line != "end");
    let count = |line: &str| match line.strip_prefix("Lost ") {
        Some(lost) => lost.split(' ').next().and_then(|lost| lost.parse().ok()),
        None => line.parse::<u64>().ok().map(|_| 1),
    };
    let told: u64 = before.filter_map(count).sum::<u64>() + lines.clone().filter_map(count).sum::<u64>();
    let calls = printed.lines().find_map(|line| line.strip_prefix("@n: ")?.parse::<u64>().ok());
    assert_eq!(Some(told), calls, "{printed}");
}

#[test]
fn without_a_process_functions_of_all_are_probed() {
    if !available() {
        return;
    }
    let program = target::build(
        "engines-all",
        target::Source::Text(
            "#include <stdio.h>\n#include <unistd.h>\n__attribute__((noipa)) void work(void) { }\n\
             int main(void) {\n    alarm(600);\n    puts(\"ready\");\n    fflush(stdout);\n\
             \x20   while (getchar() != EOF) work();\n    return 0;\n}\n",
        ),
        &[],
    );
    // One that runs already, and one that comes.
    let mut earlier = Daemon::spawn(Command::new(&program)).unwrap();
    earlier.line_with("ready", DEADLINE).unwrap();
    let binary = quoted(&program);
    let script = format!(
        "uprobe:{binary}:work {{ @[pid] = count(); printf(\"hit\\n\"); }} uretprobe:{binary}:work {{ @ends = count(); if (@ends == 2) {{ exit(); }} }} \
         interval:ms:20 {{ printf(\"round\\n\"); }}"
    );
    let mut run = Command::new(env!("CARGO_BIN_EXE_weir"));
    run.args(["-q", "--engine", "kernel", "-e", &script]);
    let mut run = Daemon::spawn(run).unwrap();
    // An interval runs when all is attached.
    run.line_with("round", DEADLINE).unwrap();
    earlier.write("x").unwrap();
    run.line_with("hit", DEADLINE).unwrap();
    let mut later = Daemon::spawn(Command::new(&program)).unwrap();
    later.line_with("ready", DEADLINE).unwrap();
    later.write("x").unwrap();
    run.line_with(&format!("@[{}]: 1", earlier.pid()), DEADLINE).unwrap();
}
