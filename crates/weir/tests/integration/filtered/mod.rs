//! Filters on live events, end to end. The oracle is the program itself: it counts how many of its rounds fulfil each
//! condition, which is what a run with the same condition as its filter has to count.

mod program;

use std::collections::HashMap;
use std::path::Path;
use std::process::{Command, Output};

use testkit::target::{self, Linkage, Source};

const ROUNDS: &str = "1000";

/// Conditions of the program by their names: on the parameters of the function `work`, and on the arguments of the static
/// probe `sample`, if that has them.
const CONDITIONS: &[(&str, &str, Option<&str>)] = &[
    ("negative", "delta < 0", Some("arg0 < 0")),
    ("large", "size > 3000 && big & 1 == 1", Some("arg1 > 3000 && arg4 & 1 == 1")),
    ("beta", "name == \"beta\"", Some("arg2 == \"beta\"")),
    ("prefix", "name == \"al*\"", Some("arg2 == 'al*'")),
    ("green", "color == 5", Some("arg3 == 5")),
    ("high", "big > 9223372036854775807", Some("arg4 > 0x7fffffffffffffff")),
    ("bytes", "bytes == \"beta\"", None),
    ("seventh", "seventh < -3", None),
    ("either", "delta > 100 || !(size < 4000)", Some("arg0 > 100 || !(arg1 < 4000)")),
    ("ends", "name =~ \"^al|ta$\"", Some("arg2 =~ '^al|ta$'")),
    ("ends", "name =~ '(?i)^(ALPHA(BET)?|al|[^g]eta)$'", None),
    ("listed", "size in (0..99, 977, 1954)", Some("arg1 in (0..99, 977, 1954)")),
    ("named", "name in ('beta', 'alpha*')", Some("arg2 in ('beta', 'alpha*')")),
    ("green", "color == 'GREEN'", None),
    ("red", "color in ('RED', 'BLUE')", None),
    ("red", "color != 'G*'", None),
    ("low", "ratio < 2.5 || ratio >= 997.5", None),
    ("low", "!(ratio in (2.5..997.25))", None),
];

/// The same in LTTng's dialect, where all integers are signed.
const LTTNG: &[(&str, &str, &str)] = &[
    ("negative", "delta < 0", "arg0 < 0"),
    ("large", "size > 3000 && big & 1", "arg1 > 3000 && arg4 & 1"),
    ("beta", "name == 'beta'", "arg2 == 'beta'"),
    ("prefix", "name == 'al*'", "arg2 == 'al*'"),
    ("high", "big < 0", "arg4 < 0"),
];

fn weir(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_weir")).args(args).output().unwrap()
}

fn err(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn out(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn programs() -> Vec<(String, String)> {
    let programs = target::matrix("events", Source::Program("events.c"), &["-g"]);
    let dynamic = programs.into_iter().filter(|(variant, _)| variant.linkage != Linkage::Static);
    dynamic.map(|(variant, path)| (variant.to_string(), path.display().to_string())).collect()
}

/// At -O2, with debug information.
fn program() -> String {
    let flags = ["-O2", "-g", "-fPIE", "-pie"];
    target::build("events", Source::Program("events.c"), &flags).display().to_string()
}

/// A path as a script and a command line have it, whatever is in it.
fn quoted(path: &str) -> String {
    format!("\"{path}\"")
}

/// What the program counts.
fn expected(path: &str) -> HashMap<String, u64> {
    let text = out(&Command::new(path).arg(ROUNDS).output().unwrap());
    let line = |line: &str| {
        let (name, count) = line.split_once(' ')?;
        Some((name.to_owned(), count.parse().ok()?))
    };
    text.lines().filter_map(line).collect()
}

/// Runs the script with a filter; the program prints what it prints without weir. What `@` is at the end.
#[track_caller]
fn counted(path: &str, script: &str, filter: &[&str]) -> u64 {
    let script = script.replace("APP", &quoted(path));
    // Tests run beside each other, in threads and in processes.
    let file = format!("{path}.{}.{:?}.out", std::process::id(), std::thread::current().id());
    let command = format!("{} {ROUNDS}", quoted(path));
    let run = ["trace", "-q", "-o", &file, "-e", &script, "-c", &command, "--filter"];
    let output = weir(&[&run, filter].concat());
    assert!(output.status.success(), "{script} {filter:?}: {}", err(&output));
    assert_eq!(out(&output), out(&Command::new(path).arg(ROUNDS).output().unwrap()), "{script} {filter:?}");
    let text = std::fs::read_to_string(&file).unwrap();
    std::fs::remove_file(&file).unwrap();
    let count = text.lines().find_map(|line| line.strip_prefix("@: ")).unwrap_or("0");
    count.parse().unwrap_or_else(|_| panic!("{script} {filter:?}: {text}"))
}

const AT_FUNCTION: &str = "uprobe:APP:work { @ = count(); }";
const AT_PROBE: &str = "usdt:APP:events:sample { @ = count(); }";

#[test]
fn what_a_filter_accepts_is_what_the_program_counts() {
    let path = program();
    let expected = expected(&path);
    for (name, of_function, of_probe) in CONDITIONS {
        assert!(expected[*name] > 0 && expected[*name] < 1000, "{name} tells rounds apart");
        assert_eq!(counted(&path, AT_FUNCTION, &[of_function]), expected[*name], "{name}: {of_function}");
        if let Some(of_probe) = of_probe {
            assert_eq!(counted(&path, AT_PROBE, &[of_probe]), expected[*name], "{name}: {of_probe}");
        }
    }
}

#[test]
fn samples_and_rates_keep_some_of_what_the_condition_holds_of() {
    let path = program();
    let expected = expected(&path);
    let check = |filter: &str, name: &str, kept: fn(u64) -> u64| {
        assert_eq!(counted(&path, AT_FUNCTION, &[filter]), kept(expected[name]), "{filter}");
    };
    check("size > 3000 && big & 1 == 1 sample 1/10", "large", |all| all.div_ceil(10));
    check("delta < 0 sample 3/7", "negative", |all| all / 7 * 3 + (all % 7).min(3));
    check("name == 'beta' rate 7/h", "beta", |all| all.min(7));
    check("delta < 0 sample 1/2 rate 100/h", "negative", |all| all.div_ceil(2).min(100));
    check("delta < 0 rate 1000000/s", "negative", |all| all);
}

#[test]
fn the_same_holds_of_lttngs_dialect() {
    let path = program();
    let expected = expected(&path);
    for (name, of_function, of_probe) in LTTNG {
        let dialect = ["--dialect", "lttng"];
        let at = |script, filter| counted(&path, script, &[&[filter], &dialect[..]].concat());
        assert_eq!(at(AT_FUNCTION, *of_function), expected[*name], "{name}: {of_function}");
        assert_eq!(at(AT_PROBE, *of_probe), expected[*name], "{name}: {of_probe}");
    }
}

#[test]
fn however_the_program_was_compiled() {
    for (variant, path) in programs() {
        let expected = expected(&path);
        let filter = "delta < 0 || seventh < -3 && name == 'al*'";
        let whole = counted(&path, AT_FUNCTION, &[filter]);
        assert!(whole > expected["negative"] && whole < 1000, "{variant}");
        for name in ["seventh", "beta"] {
            let (_, of_function, of_probe) = CONDITIONS.iter().find(|row| row.0 == name).unwrap();
            assert_eq!(counted(&path, AT_FUNCTION, &[of_function]), expected[name], "{variant}: {name}");
            if let Some(of_probe) = of_probe {
                assert_eq!(counted(&path, AT_PROBE, &[of_probe]), expected[name], "{variant}: {name}");
            }
        }
    }
}

#[test]
fn results_are_filtered_by_what_came_back() {
    let path = program();
    let count = counted(&path, "uretprobe:APP:work { @ = count(); }", &["retval < 0"]);
    assert_eq!(count, expected(&path)["back"]);
}

#[test]
fn without_debug_information_arguments_are_registers() {
    let path = target::build("events", Source::Program("events.c"), &["-O2", "-g0"]).display().to_string();
    let expected = expected(&path);
    assert_eq!(counted(&path, AT_FUNCTION, &["arg2 == 'beta'"]), expected["beta"]);
    // Bits of the register above the parameter's are whatever they are.
    assert_eq!(
        counted(&path, AT_FUNCTION, &["arg1 & 0xffffffff > 3000 && arg4 & 1 == 1"]),
        expected["large"]
    );
}

#[test]
fn predicates_and_fields_of_scripts_come_behind_the_filter() {
    let path = program();
    let expected = expected(&path);
    let by_script = "uprobe:APP:work /args.size > 3000/ { @ = count(); }";
    assert_eq!(counted(&path, by_script, &["big & 1 == 1"]), expected["large"]);
    let signed = "uprobe:APP:work { if (args.delta < 0) { @ = count(); } }";
    assert_eq!(counted(&path, signed, &["1"]), expected["negative"]);
    let text = "uprobe:APP:work /str(args.name) == \"beta\"/ { @ = count(); }";
    assert_eq!(counted(&path, text, &["1"]), expected["beta"]);
    let stack = "uprobe:APP:work /args.seventh < -3/ { @ = count(); }";
    assert_eq!(counted(&path, stack, &["1"]), expected["seventh"]);
    let float = "uprobe:APP:work /args.ratio < 5/ { @ = count(); }";
    assert_eq!(counted(&path, float, &["1"]), 5);
}

#[test]
fn hits_that_the_filter_rejects_are_hits() {
    let path = program();
    let script = AT_FUNCTION.replace("APP", &quoted(&path));
    let output = weir(&[
        "trace",
        "-f",
        "json",
        "-e",
        &script,
        "-c",
        &format!("{} {ROUNDS}", quoted(&path)),
        "--filter",
        "size == 1",
    ]);
    let text = out(&output);
    assert!(text.contains("\"entries\": 1000"), "{text}");
}

#[test]
fn places_that_are_read_differently_are_filtered_each_in_its_way() {
    let path = program();
    let expected = expected(&path);
    let script = "uprobe:APP:work, uprobe:APP:resize { @ = count(); }";
    assert_eq!(counted(&path, script, &["size > 200"]), expected["over"] + expected["resized"]);
}

/// `weir` with these arguments ends with exit code 1 and says all of this on standard error.
#[track_caller]
fn refused(args: &[&str], parts: &[&str]) {
    let args: Vec<String> = args.iter().map(|arg| arg.replace("APP", &quoted(&program()))).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let output = weir(&args);
    let message = err(&output).replace(&program(), "APP");
    assert_eq!(output.status.code(), Some(1), "{args:?}: {message}");
    for part in parts {
        assert!(message.contains(part), "{args:?}: {part:?} is not in:\n{message}");
    }
}

#[track_caller]
fn refused_at(script: &str, filter: &str, parts: &[&str]) {
    refused(&["trace", "-e", script, "-c", "APP 10", "--filter", filter], parts);
}

#[test]
fn mistakes_are_told_with_their_place_and_the_event_before_anything_is_enabled() {
    refused_at(
        AT_FUNCTION,
        "siz > 1",
        &["error: the event has no field `siz` (uprobe:APP:work)", "<filter>:1:1", "did you mean `size`?"],
    );
    refused_at(
        AT_FUNCTION,
        "size > 1 && name == 3",
        &["this can never be true: a string is compared with a number (uprobe:APP:work)", "<filter>:1:13"],
    );
    refused_at(AT_FUNCTION, "delta == 200", &["`delta`, from -128 to 127, is never `== 200`"]);
    refused_at(AT_FUNCTION, "size >", &["expected a field, a number or a string, found the end"]);
    refused_at(
        AT_PROBE,
        "arg5 == 1",
        &["the event has no field `arg5` (usdt:APP:events:sample)", "did you mean `arg"],
    );
    refused_at(
        "uprobe:APP:spread { @ = count(); }",
        "after == 1",
        &["`after` cannot be read: where it is passed is not known", "(uprobe:APP:spread)"],
    );
    refused_at(
        "uprobe:APP:work, uprobe:APP:main { @ = count(); }",
        "size > 1",
        &["the event has no field `size` (uprobe:APP:main)", "it has argc, argv"],
    );
    refused_at("uretprobe:APP:work { @ = count(); }", "size > 1", &["(uretprobe:APP:work)", "it has retval"]);
    refused_at("interval:s:1 { exit(); }", "pid == 1", &["--filter is for events, and no clause"]);
}

#[test]
fn a_field_that_is_not_there_is_told_where_lttng_would_not() {
    let script = AT_FUNCTION.replace("APP", &quoted(&program()));
    let command = format!("{} 10", quoted(&program()));
    let output =
        weir(&["trace", "-q", "-e", &script, "-c", &command, "--dialect", "lttng", "--filter", "siz > 1"]);
    assert!(output.status.success(), "{}", err(&output));
    let message = err(&output);
    for part in ["warning: the event has no field `siz`, so that nothing passes", "(uprobe:", "<filter>:1:1"]
    {
        assert!(message.contains(part), "{part:?} is not in:\n{message}");
    }
    assert!(!out(&output).contains("@: 1"), "{}", out(&output));
}

#[test]
fn fields_that_a_script_names_wrongly_are_told() {
    let refused_script =
        |script: &str, parts: &[&str]| refused(&["trace", "-e", script, "-c", "APP 1"], parts);
    refused_script(
        "uprobe:APP:work { @ = sum(args.siz); }",
        &["`uprobe:APP:work` has no field `siz`", "did you mean `args.size`?"],
    );
    refused_script(
        "uprobe:APP:work, uprobe:APP:spread { @ = sum(args.delta); }",
        &["`uprobe:APP:spread` has no field `delta`"],
    );
    refused_script(
        "uprobe:APP:spread { @ = sum(args.after); }",
        &["`args.after` of `uprobe:APP:spread` cannot be read: where it is passed is not known"],
    );
    refused_script(
        AT_PROBE.replace("count()", "sum(args.delta)").as_str(),
        &["the arguments of `usdt:APP:events:sample` have no names", "they are `arg0` and further"],
    );
    refused_script("uretprobe:APP:work { @ = sum(args.size); }", &["`args` is of a call's beginning"]);
    refused_script("BEGIN { @ = args.size; }", &["`args` is of the traced process"]);
}

#[test]
fn list_shows_the_parameters_of_functions_when_asked() {
    let output = weir(&["list", "-v", &format!("uprobe:{}:work", program())]);
    let prototype = "(int8 delta, uint32 size, string name, enum color, uint64 big, pointer bytes, int16 seventh, \
                     double ratio) int32\n";
    assert!(out(&output).ends_with(prototype), "{}", out(&output));
}

#[test]
fn attach_points_may_leave_the_binary_out_where_a_command_is_given() {
    let path = program();
    let expected = expected(&path);
    for probe in ["usdt:sample", "usdt::events:sample", "usdt:*:events:sample", "usdt:*:sample"] {
        let script = format!("{probe} {{ @ = count(); }}");
        assert_eq!(counted(&path, &script, &["arg0 < 0"]), expected["negative"], "{probe}");
    }
    for probe in ["uprobe:work", "uprobe::work"] {
        let script = format!("{probe} {{ @ = count(); }}");
        assert_eq!(counted(&path, &script, &["delta < 0"]), expected["negative"], "{probe}");
    }
    refused(
        &["trace", "-e", "usdt:*:nosuch { @ = count(); }", "-c", "APP 1"],
        &[
            "no static probe (USDT) is named \"nosuch\" in the ",
            "`weir list -p PID` shows those that there are",
        ],
    );
    refused(&["trace", "-e", "usdt:*:nosuch { @ = count(); }"], &["add -p PID or -c COMMAND"]);
}

#[test]
fn filters_are_checked_by_hand_against_the_event_of_a_file() {
    let event = format!("uprobe:\"{}\":work", program());
    assert!(weir(&["filter", "check", "--event", &event, "size > 1 && name == 'a*'"]).status.success());
    refused(
        &["filter", "check", "--event", "uprobe:APP:work", "sise > 1"],
        &["<filter>:1:1", "no field `sise` (uprobe:APP:work)", "did you mean `size`?"],
    );
    refused(&["filter", "check", "--event", "uprobe:APP:wrk", "1"], &["--event:1:1", "did you mean work?"]);
    refused(&["filter", "check", "--event", "interval:s:1", "1"], &["filters are for events"]);
    refused(
        &["filter", "check", "--event", "uprobe:APP:work", "--fields", "{\"size\":1}", "1"],
        &["--fields are values for `eval`"],
    );
}

#[test]
fn filters_are_evaluated_by_hand_with_the_types_of_the_event() {
    let eval = |event: &str, fields: &str, text: &str| {
        let event = event.replace("APP", &quoted(&program()));
        let output = weir(&["filter", "eval", "--event", &event, "--fields", fields, "--", text]);
        assert!(output.status.success(), "{text}: {}", err(&output));
        out(&output)
    };
    assert_eq!(
        eval("uprobe:APP:work", "{\"delta\":-5,\"name\":\"beta\"}", "delta < 0 && name == 'b*'"),
        "true\n"
    );
    assert_eq!(
        eval("usdt:APP:sample", "{\"arg0\":-5,\"arg4\":18446744073709551615}", "arg4 > arg0"),
        "true\n"
    );
    assert_eq!(eval("usdt:APP:sample", "{\"arg2\":\"beta\"}", "arg2 == 'bet'"), "false\n");
    let eval_refused = |fields: &str, text: &str, part: &str| {
        refused(&["filter", "eval", "--event", "uprobe:APP:work", "--fields", fields, "--", text], &[part]);
    };
    eval_refused("{}", "size > 1", "--fields has no value for `size`");
    eval_refused("{\"size\":1,\"x\":2}", "size > 1", "the event has no field `x`");
    eval_refused("{\"delta\":200}", "delta > 1", "`delta` is no int8 there");
    eval_refused("{\"name\":200}", "name == 'a'", "`name` is no string there");
}

#[test]
fn explain_shows_a_filter_as_it_runs_at_the_event() {
    let event = format!("uprobe:\"{}\":work", program());
    let output = weir(&["filter", "explain", "--event", &event, "size > 41 && name == 'beta'"]);
    let text = out(&output);
    let parts = [
        "size: uint32, 32 bits of rsi\n",
        "name: string, 64 bits of rdx\n",
        "color: enum (RED, GREEN, BLUE), 32 bits of rcx\n",
        "seventh: int16, memory at rsp + 8\n",
        "ratio: double, xmm0\n",
        "== syntax tree",
        "reg 6",
        "accept",
        "== eBPF",
        "== machine code",
    ];
    for part in parts {
        assert!(text.contains(part), "{part} is not in: {text}\n{}", err(&output));
    }
    assert!(!text.contains("slot"), "{text}");
    assert!(Path::new(&program()).exists());
}
