//! `--engine kernel` and `--engine user`: the same scripts on the same programs print the same, and what the kernel's does not do is refused.

use std::path::PathBuf;
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
    if !std::path::Path::new("/usr/bin/sqlite3").exists() {
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
