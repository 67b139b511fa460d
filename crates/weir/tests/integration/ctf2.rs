//! `weir record --trace-format ctf-2`: the same events as in CTF 1.8, as `weir view` prints them in every form, and as babeltrace2 from 2.1
//! on does, where there is one.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;
use testkit::babeltrace2::{self, Answer};
use testkit::{paths, skip, target};
use weir_trace::write::{self, Format};

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn weir(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_weir")).args(args).output().unwrap()
}

fn record(folder: &Path, options: &[&str], command: &[&str]) {
    let begin = ["record", "-q", "-o", folder.to_str().unwrap(), "--add-context", "vpid,procname,ip"];
    let output = weir(&[&begin[..], options, &["--"], command].concat());
    assert!(output.status.success(), "{}", text(&output.stderr));
}

#[track_caller]
fn viewed(folder: &Path, options: &[&str]) -> Vec<String> {
    let output = weir(&[&["view"], options, &[folder.to_str().unwrap()]].concat());
    assert!(output.status.success(), "{options:?}: {}", text(&output.stderr));
    text(&output.stdout).lines().map(str::to_owned).collect()
}

#[track_caller]
fn assert_lines(found: &[String], expected: &[String]) {
    for (found, expected) in found.iter().zip(expected) {
        assert_eq!(found, expected);
    }
    assert_eq!(found.len(), expected.len());
}

/// The same streams, described as CTF 1.8.
fn described_anew(trace: &Path, name: &str) -> PathBuf {
    let copy = paths::fresh("ctf2", name);
    fs::create_dir_all(&copy).unwrap();
    for entry in fs::read_dir(trace).unwrap() {
        let path = entry.unwrap().path();
        fs::copy(&path, copy.join(path.file_name().unwrap())).unwrap();
    }
    let metadata = copy.join("metadata");
    let bytes = fs::read(&metadata).unwrap();
    assert!(bytes.starts_with(b"\x1e{"), "{}", text(&bytes[..20]));
    let class = weir_trace::read::metadata::parse(&metadata, &bytes).unwrap();
    let anew = write::metadata(&class, Format::Ctf1).unwrap();
    assert!(anew.starts_with(b"/* CTF 1.8 */"));
    fs::write(metadata, anew).unwrap();
    copy
}

/// A recording in CTF 2, and the same bytes described in CTF 1.8: not one character differs.
#[test]
fn a_recording_is_shown_alike_in_both_formats() {
    let program = target::program("record").display().to_string();
    let types = target::build("tracepoints", target::Source::Program("tracepoints.c"), &["-O2"]);
    let events: [(&str, &str, &[&str]); 2] =
        [("rec:*", &program, &["m", "3", "500"]), ("*:*", types.to_str().unwrap(), &[])];
    for (index, (event, program, arguments)) in events.into_iter().enumerate() {
        let trace = paths::fresh("ctf2", &format!("two-{index}"));
        record(&trace, &["-e", event, "--trace-format", "ctf-2"], &[&[program], arguments].concat());
        let again = described_anew(&trace, &format!("one-{index}"));
        for options in
            [&[][..], &["-f", "json"], &["-f", "chrome"], &["--stats"], &["--clock-cycles", "--no-delta"]]
        {
            let (two, one) = (viewed(&trace, options), viewed(&again, options));
            assert!(!two.is_empty(), "{options:?}");
            assert_lines(&two, &one);
        }
        by_babeltrace2(&trace);
        fs::remove_dir_all(trace).unwrap();
        fs::remove_dir_all(again).unwrap();
    }
}

/// Two recordings of a program that emits the same in each: but for times, processes and places in memory they are the same.
#[test]
fn both_formats_record_the_same() {
    let program = target::program("record").display().to_string();
    let [one, two] = ["ctf-1.8", "ctf-2"].map(|format| {
        let trace = paths::fresh("ctf2", format);
        record(&trace, &["-e", "rec:*", "--trace-format", format], &[&program, "m", "1", "600"]);
        let objects: Vec<Value> = viewed(&trace, &["-f", "json"])
            .iter()
            .map(|line| {
                let mut object: Value = serde_json::from_str(line).unwrap();
                let members = object.as_object_mut().unwrap();
                for member in ["ns", "packet", "stream", "context"] {
                    assert!(members.remove(member).is_some(), "{member}: {line}");
                }
                object
            })
            .collect();
        fs::remove_dir_all(trace).unwrap();
        objects
    });
    assert_eq!(one.len(), 600);
    assert_eq!(one, two);
}

/// What only CTF 2 has, as text, as JSON and in filters.
const CLASSES: [&str; 4] = [
    r#"{"type":"preamble","version":2}"#,
    r#"{"type":"trace-class","environment":{"hostname":"box"}}"#,
    r#"{"type":"data-stream-class"}"#,
    r#"{"type":"event-record-class","name":"my:event","payload-field-class":{"type":"structure","member-classes":[
    {"name":"has","field-class":{"type":"fixed-length-boolean","length":8,"byte-order":"little-endian"}},
    {"name":"how","field-class":{"type":"fixed-length-bit-map","length":8,"byte-order":"little-endian","flags":{"WRITE":[[1,1]],"READ":[[0,0]],"OTHER":[[2,7]]}}},
    {"name":"many","field-class":{"type":"variable-length-signed-integer","mappings":{"small":[[-300,300]],"less":[[-300,-1]]}}},
    {"name":"wide","field-class":{"type":"null-terminated-string","encoding":"utf-16be"}},
    {"name":"perhaps","field-class":{"type":"optional","selector-field-location":{"path":["has"]},"field-class":{"type":"fixed-length-floating-point-number","length":16,"byte-order":"big-endian"}}}
    ]}}"#,
];

#[test]
fn every_class_of_fields_has_a_form() {
    let trace = paths::fresh("ctf2", "classes");
    fs::create_dir_all(&trace).unwrap();
    let metadata: String = CLASSES.iter().map(|fragment| format!("\u{1e}{fragment}\n")).collect();
    fs::write(trace.join("metadata"), metadata).unwrap();
    let one = [0x40, 3, 0xd5, 0x7e, 0, b'a', 0x20, 0xac, 0, 0, 0x3e, 0x00];
    let other = [0, 0, 7, 0, b'"', 0, 0];
    fs::write(trace.join("stream"), [&one[..], &other].concat()).unwrap();
    let lines = [
        "box my:event: { has = true, how = 0x3 { \"READ\", \"WRITE\" }, many = ( \"small\", \"less\" : container = -171 ), \
         wide = \"a€\", perhaps = { 1.5 } }",
        "box my:event: { has = false, how = 0x0, many = ( \"small\" : container = 7 ), \
         wide = \"\\\"\", perhaps = <none> }",
    ];
    assert_eq!(viewed(&trace, &[]), lines);
    let fields: Vec<Value> = viewed(&trace, &["-f", "json"])
        .iter()
        .map(|line| serde_json::from_str::<Value>(line).unwrap()["fields"].clone())
        .collect();
    let expected = [
        serde_json::json!({"has": true, "how": {"value": 3, "labels": ["WRITE", "READ"]},
            "many": {"value": -171, "labels": ["small", "less"]}, "wide": "a€", "perhaps": 1.5}),
        serde_json::json!({"has": false, "how": {"value": 0, "labels": []},
            "many": {"value": 7, "labels": ["small"]}, "wide": "\"", "perhaps": null}),
    ];
    assert_eq!(fields, expected);
    for (filter, expected) in [
        ("has", &lines[..1]),
        ("has == 1", &lines[..1]),
        ("how & 2 && many < 0", &lines[..1]),
        ("many == \"small\" && many > 0", &lines[1..]),
        ("wide == \"a€\"", &lines[..1]),
        ("!has", &lines[1..]),
    ] {
        assert_eq!(viewed(&trace, &["--filter", filter]), expected, "{filter}");
    }
    fs::remove_dir_all(trace).unwrap();
}

#[test]
fn a_trace_with_an_extension_is_refused_with_its_place() {
    let trace = paths::fresh("ctf2", "extension");
    fs::create_dir_all(&trace).unwrap();
    let preamble = r#"{"type":"preamble","version":2,"extensions":{"my.tracer":{"piano":null}}}"#;
    fs::write(trace.join("metadata"), format!("\u{1e}{preamble}\n")).unwrap();
    let output = weir(&["view", trace.to_str().unwrap()]);
    let said = text(&output.stderr);
    assert!(output.status.code() == Some(1) && said.contains("metadata: at byte 1: "), "{said}");
    assert!(said.contains("an extension that is not known, my.tracer: piano"), "{said}");
    fs::remove_dir_all(trace).unwrap();
}

fn by_babeltrace2(trace: &Path) {
    match babeltrace2::read_ctf_2(trace, &["--clock-gmt"]) {
        Answer::Lines(theirs) => assert_lines(&viewed(trace, &["--clock-gmt"]), &theirs),
        Answer::Crashed => panic!("babeltrace2 crashes on {}", trace.display()),
        Answer::Missing => skip::skip("ctf2-babeltrace2", "no babeltrace2 that reads CTF 2 (2.1 or later)"),
    }
}

#[test]
fn other_formats_are_refused() {
    let trace = paths::fresh("ctf2", "refused");
    let output = weir(&[
        "record",
        "-e",
        "a:b",
        "-o",
        trace.to_str().unwrap(),
        "--trace-format",
        "ctf-3",
        "--",
        "true",
    ]);
    let said = text(&output.stderr);
    assert!(output.status.code() == Some(2) && said.contains("ctf-1.8, ctf-2"), "{said}");
    assert!(!trace.exists());
}
