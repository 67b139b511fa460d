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
        "(20, 1, 5, six)",
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
