//! weir called by bpftrace's name: its options, its words, its parameters.

use std::os::unix::fs::symlink;
use std::process::{Command, Output, Stdio};

use testkit::target::{self, Source};

fn bpftrace(name: &str, args: &[&str]) -> Output {
    let folder = testkit::paths::fresh("drop-in", name);
    std::fs::create_dir_all(&folder).unwrap();
    let program = folder.join("bpftrace");
    symlink(env!("CARGO_BIN_EXE_weir"), &program).unwrap();
    Command::new(program).args(args).stdin(Stdio::null()).output().unwrap()
}

#[track_caller]
fn check(output: &Output, code: i32, out: &str, beside: &str) {
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{said}");
    assert_eq!(String::from_utf8_lossy(&output.stdout).trim_end(), out);
    assert!(said.contains(beside), "{beside:?} not in {said:?}");
}

#[test]
fn words_are_those_of_the_version_that_is_asked_for() {
    let script = "BEGIN { printf(\"begun\\n\"); exit(); }";
    check(&bpftrace("new", &["-e", script]), 0, "begun", "Attached 1 probe\n");
    check(&bpftrace("old", &["--compat=0.23", "-e", script]), 0, "Attaching 1 probe...\nbegun", "");
    let script = "BEGIN { @a = avg(3); @k[1] = stats(6); @k[1] = stats(8); print(@k); exit(); }";
    let [old, new] = [": count 2, average 7, total 14\n", ": { .count = 2, .average = 7, .total = 14 }"];
    check(
        &bpftrace("stats-old", &["-q", "-e", script]),
        0,
        &format!("@k[1]{old}\n\n\n@a: 3\n\n@k[1]{}", old.trim_end()),
        "",
    );
    check(
        &bpftrace("stats-new", &["-q", "--compat=0.27", "-e", script]),
        0,
        &format!("@k[1]{new}\n\n\n@a: 3\n@k[1]{new}"),
        "",
    );
    let script = "BEGIN { printf(\"begun\\n\"); exit(); }";
    check(&bpftrace("quiet", &["-q", "-B", "line", "-e", script]), 0, "begun", "");
    let json = "{\"type\": \"attached_probes\", \"data\": {\"probes\": 1}}\n{\"type\": \"printf\", \"data\": \"begun\\n\"}";
    let output = bpftrace("json", &["-f", "json", "-e", script]);
    assert!(String::from_utf8_lossy(&output.stdout).starts_with(json), "{output:?}");
}

#[test]
fn parameters_stand_behind_two_hyphens() {
    let script = "BEGIN { print((getopt(\"aa\", 1), getopt(\"bb\"), $1, str($2))); exit(); }";
    check(
        &bpftrace("named", &["-q", "-e", script, "5", "--", "--aa=20", "--bb", "six"]),
        0,
        "(20, true, 5, six)",
        "",
    );
    // What looks like an option is a parameter there.
    let script = "BEGIN { print(($1, str($2), str($3))); exit(); }";
    check(
        &bpftrace("options", &["-q", "-e", script, "--", "-5", "-c", "touch x"]),
        0,
        "(-5, -c, touch x)",
        "",
    );
    let script = "BEGIN { print(getopt(\"aa\", 1)); exit(); }";
    check(&bpftrace("unknown", &["-q", "-e", script, "--", "--aaa=20"]), 1, "", "did you mean `--aa`?");
}

#[test]
fn a_dry_run_starts_nothing() {
    let program = target::build(
        "drop-in",
        Source::Text("#include <stdio.h>\nint main(void) { puts(\"ran\"); return 0; }\n"),
        &[],
    );
    let program = testkit::paths::quoted(&program);
    let script = format!("uprobe:{program}:main {{ @ = count(); }}");
    check(&bpftrace("dry", &["--dry-run", "-e", &script, "-c", &program]), 0, "", "");
    let wrong = format!("uprobe:{program}:main {{ @ = coont(); }}");
    check(
        &bpftrace("dry-wrong", &["--dry-run", "-e", &wrong, "-c", &program]),
        1,
        "",
        "did you mean `count`?",
    );
    let run = bpftrace("run", &["-e", &script, "-c", &program]);
    check(&run, 0, "ran\n\n\n@: 1", "Attached 1 probe\n");
}

#[test]
fn tests_fail_by_what_they_return_exit_with_and_report() {
    let script = "test:good { print(1); return 0; } test:returns { print(2); return pid; } test:exits { exit(3); } \
        test:reports { errorf(\"no\"); } test:asserts { assert(1 == 2, \"wrong\"); } test:skips /0/ { return 1; } \
        interval:us:1 { print(9); } BEGIN { print(7); } END { print(8); }";
    let output = bpftrace("tests", &["--test", "-f", "json", "-e", script]);
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let passed = |name: &str, printed: &str| {
        let line = said.lines().find(|line| line.contains(&format!("\"{name}\": "))).unwrap();
        assert!(line.starts_with("{\"type\": \"test_result\", \"data\": "), "{line}");
        assert!(line.contains(&format!("\"output\": \"{printed}\"")), "{line}");
        line.contains("\"passed\": true")
    };
    let all = ["good", "returns", "exits", "reports", "asserts", "skips"];
    let printed = ["7\\n1\\n", "2\\n", "", "", "", ""];
    assert_eq!(all.iter().zip(printed).filter(|(name, printed)| passed(name, printed)).count(), 2, "{said}");
    assert!(passed("good", printed[0]) && passed("skips", ""), "{said}");
    assert!(said.ends_with("{\"type\": \"printf\", \"data\": \"8\\n\"}\n"), "{said}");
    assert_eq!(output.status.code(), Some(1));
}

#[test]
fn tests_have_bpftrace_s_words() {
    let script = "test:a { print(1); } test:b { print(2); return 1; }";
    let output = bpftrace("words", &["--test", "-e", script]);
    let lines = String::from_utf8_lossy(&output.stdout).into_owned();
    // Without the times.
    let lines: Vec<&str> = lines.lines().map(|line| line.split(" (").next().unwrap()).collect();
    let wanted = [
        "[==========] Running 2 tests.",
        "[ RUN      ] a",
        "[       OK ] a",
        "[ RUN      ] b",
        "2",
        "[  FAILED  ] b",
        "[==========] 2 tests ran.",
        "[  PASSED  ] 1 test.",
        "[  FAILED  ] 1 test, listed below:",
        "[  FAILED  ] b",
    ];
    assert_eq!(lines, wanted);
    let chosen = bpftrace("chosen", &["--test", "--probe-filter", "test:a", "-e", script]);
    assert_eq!(chosen.status.code(), Some(0), "{chosen:?}");
    let message = "no probes attached; use --test to run test probes";
    check(&bpftrace("untested", &["-e", script]), 1, "", message);
    check(
        &bpftrace("twice", &["-e", "bench:a { } bench:a { }"]),
        1,
        "",
        "`a` is the name of more than one probe",
    );
    check(&bpftrace("both", &["--test", "--bench", "-e", script]), 2, "", "cannot be used with");
}

#[test]
fn what_a_loop_has_cut_off_has_not_passed() {
    let endless =
        "test:sum { $i = 0; while ($i < 5000000) { $i++; } assert($i == 5, \"no\"); } test:good { } ";
    let output = bpftrace("cut", &["--test", "-e", endless]);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        text.contains("runs of `test:sum` ended in the loop of line 1") && text.contains("OK ] good"),
        "{text}"
    );
    assert_eq!(output.status.code(), Some(1), "{text}");
    let output = bpftrace("endless", &["--bench", "-e", "bench:b { while (1) { } }"]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.code() == Some(1) && said.contains("bench:b: runs of `bench:b` ended in the loop"),
        "{output:?}"
    );
}

#[test]
fn benchmarks_show_how_long_they_run() {
    let script = "bench:few { for ($i : 0..10) { @ = count(); } } bench:many { for ($i : 0..1000) { @ = count(); } } END { print(8); }";
    let output = bpftrace("bench", &["--mode", "bench", "-e", script]);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let lines: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(lines[0], ["Benchmark", "Time(ns)", "Iterations"], "{text}");
    assert_eq!((lines[2][0], lines[3][0], &lines[4][..]), ("few", "many", &["8"][..]), "{text}");
    let ns = |line: &[&str]| line[1].parse::<f64>().unwrap();
    assert!(ns(&lines[3]) > 5.0 * ns(&lines[2]), "{text}");
}

#[test]
fn the_signal_runs_self_probes() {
    let script = "self:signal:SIGUSR1 { printf(\"%s %s\\n\", probe, probetype); if (@n == 1) { exit(); } @n = 1; } \
        BEGIN { system(\"kill -USR1 %d\", pid); } interval:ms:1 { if (@n == 1) { system(\"kill -USR1 %d\", pid); } }";
    let output = bpftrace("signal", &["-q", "--unsafe", "-e", script]);
    let line = "self:signal:SIGUSR1 self\n";
    assert!(String::from_utf8_lossy(&output.stdout).starts_with(&line.repeat(2)), "{output:?}");
    let other = bpftrace("other-signal", &["-e", "self:signal:SIGTERM { }"]);
    check(&other, 1, "", "SIGTERM is not a supported signal");
}

#[test]
fn stages_lists_and_versions() {
    let stage = bpftrace("ast", &["-d", "ast", "-e", "BEGIN { exit(); }"]);
    check(&stage, 0, "script\n  clause\n    probe BEGIN\n    body\n      call exit", "");
    let list = bpftrace("list", &["-l", "uprobe:libc:mallo?"]);
    assert!(String::from_utf8_lossy(&list.stdout).contains(":malloc"), "{list:?}");
    let version = bpftrace("version", &["--version"]);
    check(&version, 0, &format!("bpftrace v0.26 (weir {})", env!("CARGO_PKG_VERSION")), "");
    check(&bpftrace("fmt", &["--fmt", "-e", "BEGIN{exit()}"]), 0, "BEGIN\n{\n  exit();\n}", "");
    check(&bpftrace("aot", &["--aot", "out", "x.bt"]), 2, "", "not supported by weir yet: `--aot`");
    check(&bpftrace("nothing", &[]), 2, "", "there is no script");
}
