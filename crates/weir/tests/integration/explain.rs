//! `weir trace --explain` and `--probe-filter`: what would run where, and which probes of a script do.

use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;
use testkit::paths::quoted;
use testkit::target::{self, Source};

const TEXT: &str = "#include <stdio.h>\n\
    __attribute__((noinline)) int work(int n) { return printf(\"%d\\n\", n); }\n\
    __attribute__((noinline)) int rest(int n) { return printf(\"%d\\n\", n + 1); }\n\
    int main(void) { work(3); rest(4); return 0; }\n";

fn weir(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_weir")).args(arguments).output().unwrap()
}

#[track_caller]
fn out(output: &Output) -> String {
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn program() -> String {
    quoted(&target::build("explain", Source::Text(TEXT), &["-O1"]))
}

/// Those of one type.
fn rows(json: &str, kind: &str) -> Vec<Value> {
    let rows = json.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    rows.filter(|row| row["type"] == kind).map(|row| row["data"].clone()).collect()
}

#[test]
fn explains_without_starting_anything() {
    let program = program();
    let script = format!(
        "uprobe:{program}:work {{ @[arg0] = count(); }} uretprobe:{program}:rest {{ @r = hist(retval); }} interval:s:1 {{ print(@); }}"
    );
    let text = out(&weir(&["trace", "--explain", "-e", &script, "-c", &program]));
    for part in
        ["PROGRAMS\n", "PLACES\n", ":work", "jump over", "returns by ", "\nMAPS: ", "2 of 2", "in weir"]
    {
        assert!(text.contains(part), "{part:?} not in\n{text}");
    }
    // The command prints 3.
    assert!(!text.lines().any(|line| line == "3"), "{text}");

    let json = out(&weir(&["trace", "--explain", "-f", "json", "-e", &script, "-c", &program]));
    let (programs, places) = (rows(&json, "program"), rows(&json, "place"));
    assert_eq!((programs.len(), places.len()), (3, 2), "{json}");
    for place in &places {
        let ns = place["ns_estimated"].as_f64().unwrap();
        assert!((1.0..100.0).contains(&ns), "{place}");
        let number = place["programs"][0].as_u64().unwrap() as usize;
        assert_eq!(programs[number]["in_process"], true);
        assert!(programs[number]["code_bytes"].as_u64().unwrap() > 0);
    }
    let maps = rows(&json, "map");
    let keyed = maps.iter().find(|map| map["name"] == "@").unwrap();
    assert_eq!(keyed["entries"], 4096);
    let run = &rows(&json, "run")[0];
    assert!(
        maps.iter().map(|map| map["bytes"].as_u64().unwrap()).sum::<u64>()
            <= run["map_bytes_most"].as_u64().unwrap()
    );
    let chosen: Vec<_> =
        rows(&json, "engine").into_iter().filter(|engine| engine["is_chosen"] == true).collect();
    assert_eq!((&chosen[0]["name"], &chosen[0]["places"]), (&Value::from("user"), &Value::from(2)));
}

#[test]
fn what_is_refused_is_explained_and_no_failure() {
    // A function of a single byte, right before another: nothing can be put there.
    let text = "asm(\".globl tiny\\n.type tiny,@function\\ntiny: ret\\n.size tiny,1\\n.globl next\\n.type next,@function\\nnext: ret\\n.size next,1\");\nint main(void) { return 0; }\n";
    let program = quoted(&target::build("explain-tiny", Source::Text(text), &[]));
    let script = format!("uprobe:{program}:tiny {{ @ = count(); }} uprobe:{program}:main {{ @ = count(); }}");
    let explain = ["trace", "--engine", "user", "--explain", "-f", "json", "-e", &script, "-c", &program];
    let json = out(&weir(&explain));
    let places = rows(&json, "place");
    assert!(places[0]["refused"].is_string() && places[0]["ns_estimated"].is_null(), "{json}");
    assert!(places[1]["technique"].is_string(), "{json}");
    assert!(rows(&json, "run")[0]["refused"].as_str().unwrap().contains("cannot probe"), "{json}");
    // Floating-point arguments are not known there.
    let script = format!("uprobe:{program}:main {{ @ = (int64)farg0; }}");
    let json = out(&weir(&["trace", "--explain", "-f", "json", "-e", &script, "-c", &program]));
    let refused =
        rows(&json, "engine").iter().find(|engine| engine["name"] == "kernel").unwrap()["refused"].clone();
    assert!(refused.as_str().unwrap().contains("floating-point"), "{json}");
}

#[test]
fn what_cannot_be_attached_or_compiled_is_shown_in_the_script() {
    let text = "asm(\".globl tiny\\n.type tiny,@function\\ntiny: ret\\n.size tiny,1\\n.globl next\\n.type next,@function\\nnext: ret\\n.size next,1\");\nint main(void) { return 0; }\n";
    let program = quoted(&target::build("explain-tiny", Source::Text(text), &[]));
    let shown = |script: &str, arguments: &[&str], place: &str, message: &str| {
        let output = weir(&[&["-e", script, "-c", &program], arguments].concat());
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(said.contains(place) && said.contains(message) && said.contains("^^^"), "{said}");
    };
    let script = format!("BEGIN {{ }}\n  uprobe:{program}:tiny /pid/ {{ @ = count(); }}");
    shown(&script, &["--engine", "user"], "<-e>:2:3", "too-short");
    let script = format!("BEGIN {{ }} uprobe:{program}:main {{ @ = (int64)farg0; }}");
    if testkit::kernel::available().is_ok() {
        shown(&script, &["--engine", "kernel"], "<-e>:1:11", "floating-point");
        shown(
            "BEGIN { @a[1] = 1; for ($k : @a) { } }",
            &["--engine", "kernel"],
            "<-e>:1:1",
            "for` over a map",
        );
    }
}

#[test]
fn a_filter_of_probes_leaves_the_others_out() {
    let program = program();
    let script = format!(
        "BEGIN {{ @begin = 1; }} uprobe:{program}:work, uprobe:{program}:rest {{ @[func] = count(); }} uretprobe:{program}:rest {{ @r[1] = count(); }}"
    );
    let run = |filter: &str| {
        let filter = format!("--probe-filter={filter}");
        let out_file = testkit::paths::fresh("explain", "filtered");
        std::fs::create_dir_all(&out_file).unwrap();
        let file = out_file.join("out");
        let output = weir(&["-q", &filter, "-e", &script, "-c", &program, "-o", file.to_str().unwrap()]);
        (output.status.code(), read(&file), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    assert_eq!(run(":work$").1, "@[work]: 1\n@begin: 1\n");
    assert_eq!(run("^uretprobe:.*rest").1, "@begin: 1\n@r[1]: 1\n");
    assert_eq!(run("rest").1, "@[rest]: 1\n@begin: 1\n@r[1]: 1\n");
    let (code, _, said) = run("(");
    assert!(code == Some(2) && said.contains("--probe-filter ("), "{said}");
    let script = format!("uprobe:{program}:work {{ }}");
    let none = weir(&["--probe-filter=nothing", "-e", &script, "-c", &program]);
    assert_eq!(none.status.code(), Some(1), "{none:?}");
    assert!(String::from_utf8_lossy(&none.stderr).contains("no probes to attach"), "{none:?}");
}

/// Lines that are not empty, sorted.
fn read(file: &Path) -> String {
    let text = std::fs::read_to_string(file).unwrap_or_default();
    let mut lines: Vec<&str> = text.lines().filter(|line| !line.is_empty()).collect();
    lines.sort_unstable();
    lines.iter().map(|line| format!("{line}\n")).collect()
}
