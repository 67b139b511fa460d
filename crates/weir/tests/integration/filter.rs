//! `weir filter`: through the command line, with both engines.

use std::process::{Command, Output};

const FIELDS: &str = r#"{"foo":42,"bar":"baz"}"#;

fn weir(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_weir")).arg("filter").args(args).output().unwrap()
}

#[track_caller]
fn check(dialect: &str, text: &str, expected: &str) {
    for engine in ["interp", "jit"] {
        let args = ["eval", "--fields", FIELDS, "--dialect", dialect, "--engine", engine, "--", text];
        let output = weir(&args);
        let message = String::from_utf8_lossy(&output.stderr);
        assert_eq!(String::from_utf8_lossy(&output.stdout), expected, "{text}: {message}");
    }
}

#[test]
fn both_engines_say_true_or_false() {
    for dialect in ["lttng", "weir"] {
        check(dialect, "foo == 42 && bar == \"ba*\"", "true\n");
        check(dialect, "foo & 3 == 2", "true\n");
        check(dialect, "!(bar != 'baz') && foo > 42", "false\n");
        check(dialect, "-foo == -42", "true\n");
    }
    check("lttng", "nosuch == 1 || foo == 42", "false\n");
}

/// The whole language, on an event with everything in it.
#[test]
fn fields_of_every_kind_are_given_as_json() {
    let fields = r#"{"d":1.5,"arr":[1,2],"s":{"a":1,"b":{"c":"/tmp/x"}},"f":{"$float":0.1},
        "q":{"$sequence":["x","yz"]},"e":{"$enum":2,"labels":{"IDLE":0,"RUN":[1,3]}},"n":null}"#;
    let check = |dialect: &str, text: &str, expected: &str| {
        for engine in ["interp", "jit"] {
            let args = ["eval", "--fields", fields, "--dialect", dialect, "--engine", engine, "--", text];
            let output = weir(&args);
            let message = String::from_utf8_lossy(&output.stderr);
            assert_eq!(String::from_utf8_lossy(&output.stdout), expected, "{text}: {message}");
        }
    };
    check("weir", "d == 1.5 && d > 1 && d in (1..2)", "true\n");
    check("weir", "arr[1] == 2 && arr[0] in (1, 5..9)", "true\n");
    check("weir", "s.a == 1 && s.b.c =~ \"^/tmp\" && s.b.c == '/*/x'", "true\n");
    check("weir", "f > 0.1 && f < 0.11", "true\n");
    check("weir", "q[1] == 'y*' && q[2] == 'x'", "false\n");
    check("weir", "e == 'RUN' && e != 'IDLE'", "true\n");
    check("weir", "n == 'x' || uid >= 0 && procname != 'x'", "true\n");
    check("weir", "d > 1 sample 1/1 rate 10/s", "true\n");
    check("lttng", "d == 1.5 && arr[1] == 2 && n == '(*)'", "true\n");
    check("lttng", "d && e == 2", "true\n");
    check("lttng", "d", "false\n");
}

#[test]
fn a_fault_is_told_with_its_place_and_a_hint() {
    let output = weir(&["check", "--fields", FIELDS, "foo > 1 && baar == 'x'"]);
    let message = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{message}");
    for part in ["<filter>:1:12", "no field `baar`", "did you mean `bar`?"] {
        assert!(message.contains(part), "{part} is not in: {message}");
    }
    assert!(weir(&["check", "--fields", FIELDS, "foo > 1"]).status.success());
}

#[test]
fn explain_shows_every_stage() {
    let output = weir(&["explain", "--fields", FIELDS, "foo > 41"]);
    let text = String::from_utf8_lossy(&output.stdout);
    for part in ["== syntax tree\n>\n  foo\n  41", "slot 1", "accept", "== eBPF", "== machine code"] {
        assert!(text.contains(part), "{part} is not in: {text}");
    }
    let output = weir(&["explain", "--fields", FIELDS, "bar =~ \"^b\" && foo in (1, 2) sample 1/2"]);
    let text = String::from_utf8_lossy(&output.stdout);
    for part in
        ["sample 1/2\n&&\n", "=~\n    bar\n    \"^b\"", "in (1, 2)", "match v", ".automata", "@sampled"]
    {
        assert!(text.contains(part), "{part} is not in: {text}");
    }
}
