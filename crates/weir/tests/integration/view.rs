//! `weir view` on traces that LTTng's own tools make here, with babeltrace2's output as the oracle.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

use serde_json::Value;
use testkit::{Daemon, lttng, paths, skip, target, wait};

fn weir(args: &[&str], place: &Path) -> Output {
    Command::new(env!("CARGO_BIN_EXE_weir")).arg("view").args(args).arg(place).output().unwrap()
}

fn babeltrace2(args: &[&str], place: &Path) -> Output {
    Command::new("babeltrace2").args(args).arg(place).output().unwrap()
}

/// The first line that differs says more than two outputs.
#[track_caller]
fn assert_same(ours: &[u8], theirs: &[u8], what: &str) {
    let lines = |bytes: &[u8]| -> Vec<String> {
        bytes.split(|byte| *byte == b'\n').map(|line| String::from_utf8_lossy(line).into_owned()).collect()
    };
    let (our_lines, their_lines) = (lines(ours), lines(theirs));
    for (ours, theirs) in our_lines.iter().zip(&their_lines) {
        assert_eq!(ours, theirs, "{what}");
    }
    assert_eq!((our_lines.len(), ours == theirs), (their_lines.len(), true), "{what}");
}

/// LTTng, and a program with fields of every kind.
struct Lttng {
    tools: lttng::Lttng,
    program: PathBuf,
}

impl Lttng {
    fn set_up() -> Result<Lttng, String> {
        let tools = lttng::Lttng::set_up("view")?;
        let program = tools.home().join("fields");
        lttng::compile(&["fields.c"], &program, &[])?;
        Ok(Lttng { tools, program })
    }

    #[track_caller]
    fn must(&self, args: &[&str]) {
        self.tools.must(args);
    }

    fn home(&self) -> &Path {
        self.tools.home()
    }

    /// The trace of so many rounds of the program.
    fn record(&self, name: &str, channel: &[&str], contexts: &[&str], rounds: u32) -> PathBuf {
        let session = format!("weir-view-{name}-{}", std::process::id());
        let session = session.as_str();
        let folder = self.home().join(name);
        self.must(&["create", session, "-o", folder.to_str().unwrap()]);
        self.must(&[&["enable-channel", "-u", "-s", session], channel, &["c"]].concat());
        self.must(&["enable-event", "-u", "-s", session, "-c", "c", "weir_fields:*"]);
        for context in contexts {
            self.must(&["add-context", "-u", "-s", session, "-c", "c", "-t", context]);
        }
        self.must(&["start", session]);
        let mut program = Command::new(&self.program);
        // The program waits until the session's rules have come.
        program.env("LTTNG_UST_REGISTER_TIMEOUT", "-1").env("LTTNG_HOME", self.home());
        assert!(program.arg(rounds.to_string()).status().unwrap().success());
        self.must(&["destroy", session]);
        folder
    }
}

impl Lttng {
    /// A trace that says how much was lost. LTTng's count goes back now and then (a writer reads it before another adds to it, and
    /// writes it later), which babeltrace2 prints as some 2^64 events: such a trace is recorded again.
    fn record_losing(&self, name: &str, channel: &[&str], contexts: &[&str]) -> PathBuf {
        for attempt in 0..20 {
            let folder = self.record(&format!("{name}{attempt}"), channel, contexts, 2000);
            let said = babeltrace2(&[], &folder).stderr;
            if !String::from_utf8_lossy(&said).contains("discarded 184467") {
                return folder;
            }
        }
        panic!("LTTng's count of what was lost went back in twenty traces");
    }
}

const LOOKS: [&[&str]; 6] = [
    &[],
    &["--clock-gmt", "--clock-date"],
    &["--clock-seconds"],
    &["--clock-cycles"],
    &["--no-delta"],
    &["--clock-cycles", "--no-delta"],
];

#[track_caller]
fn check(place: &Path, least: usize) {
    for look in LOOKS {
        let (ours, theirs) = (weir(look, place), babeltrace2(look, place));
        let what = format!("{} {look:?}: {}", place.display(), String::from_utf8_lossy(&ours.stderr));
        assert_eq!((ours.status.code(), theirs.status.code()), (Some(0), Some(0)), "{what}");
        assert_same(&ours.stdout, &theirs.stdout, &what);
        assert_same(&ours.stderr, &theirs.stderr, &what);
        assert!(ours.stdout.iter().filter(|byte| **byte == b'\n').count() >= least, "{what}");
    }
}

#[test]
fn traces_of_lttng_s_are_printed_as_babeltrace2_prints_them() {
    let lttng = match Lttng::set_up() {
        Ok(lttng) => lttng,
        Err(missing) => return skip::skip("view-lttng", missing),
    };
    // Rings of a user, with all contexts, and room for everything.
    let contexts = ["procname", "vpid", "vtid", "pthread_id"];
    let plain = lttng.record("user", &["--subbuf-size=1M", "--num-subbuf=4"], &contexts, 300);
    check(&plain, 1800);
    let folders = babeltrace2(&["--clock-gmt"], &plain);
    assert!(String::from_utf8_lossy(&folders.stdout).contains("procname = \"fields\""));
    // Rings of a process, too small: events are lost, and both say how many.
    let small =
        lttng.record_losing("process", &["--buffers-pid", "--subbuf-size=4096", "--num-subbuf=2"], &[]);
    check(&small, 10);
    let lost = weir(&[], &small);
    assert!(String::from_utf8_lossy(&lost.stderr).contains("WARNING: Tracer discarded"), "nothing was lost");
    // Rings that overwrite: packets are lost.
    let flight = ["--overwrite", "--subbuf-size=4096", "--num-subbuf=2"];
    check(&lttng.record_losing("flight", &flight, &["vtid"]), 10);
    // A ring's files that are begun anew.
    let files = ["--subbuf-size=16384", "--num-subbuf=8", "--tracefile-size=32768", "--tracefile-count=64"];
    check(&lttng.record("files", &files, &[], 500), 100);
    other_forms(&plain);
    other_forms(&small);
    filtered(&plain);
    filters_that_are_wrong(&plain);
    damaged(&plain);
    followed(&lttng);
}

/// An event that is enabled while its session runs, and is followed: its description comes later than the trace.
fn followed(lttng: &Lttng) {
    let session = format!("weir-view-followed-{}", std::process::id());
    let (session, folder) = (session.as_str(), lttng.home().join("followed"));
    let emit = || {
        let mut program = Command::new(&lttng.program);
        program.env("LTTNG_UST_REGISTER_TIMEOUT", "-1").env("LTTNG_HOME", lttng.home());
        assert!(program.arg("50").status().unwrap().success());
    };
    let of_event = |event: &str| ["enable-event", "-u", "-s", session, "-c", "c", event].map(str::to_owned);
    let enable = |event: &str| lttng.must(&of_event(event).each_ref().map(String::as_str));
    lttng.must(&["create", session, "-o", folder.to_str().unwrap()]);
    lttng.must(&["enable-channel", "-u", "-s", session, "--subbuf-size=1M", "--switch-timer=100000", "c"]);
    enable("weir_fields:numbers");
    lttng.must(&["start", session]);
    emit();
    // Its daemon writes the trace when it comes to it.
    let is_there = || !weir(&["-f", "json"], &folder).stdout.is_empty();
    assert!(wait::until(Duration::from_secs(60), is_there), "LTTng writes no trace");
    let mut view = Command::new(env!("CARGO_BIN_EXE_weir"));
    view.args(["view", "--follow", "-f", "json", "-e", "weir_fields:*"]).arg(&folder);
    let mut view = Daemon::spawn(view).unwrap();
    let number = view.line(Duration::from_secs(60)).unwrap();
    assert!(number.contains("weir_fields:numbers"), "{number}");
    enable("weir_fields:texts");
    emit();
    lttng.must(&["destroy", session]);
    let wanted = lines(&["-f", "json"], &folder);
    let mut seen = vec![number];
    while seen.len() < wanted.len() {
        seen.push(view.line(Duration::from_secs(60)).unwrap());
    }
    assert!(wanted.iter().any(|line| line.contains("weir_fields:texts")));
    // One that came late stands behind others.
    let sorted = |mut lines: Vec<String>| {
        lines.sort();
        lines
    };
    assert_eq!(sorted(seen), sorted(wanted));
}

fn lines(args: &[&str], place: &Path) -> Vec<String> {
    let output = weir(args, place);
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect()
}

/// JSON, Chrome's form and the statistics say what the text says.
#[track_caller]
fn other_forms(place: &Path) {
    let text = lines(&["--clock-seconds", "--no-delta"], place);
    let objects: Vec<Value> =
        lines(&["-f", "json"], place).iter().map(|line| serde_json::from_str(line).unwrap()).collect();
    let (lost, events): (Vec<&Value>, Vec<&Value>) =
        objects.iter().partition(|object| object.get("lost").is_some());
    assert_eq!(text.len(), events.len());
    let mut by_name: BTreeMap<&str, u64> = BTreeMap::new();
    for (line, event) in text.iter().zip(&events) {
        let (ns, name) = (event["ns"].as_u64().unwrap(), event["event"].as_str().unwrap());
        *by_name.entry(name).or_default() += 1;
        let begin = format!("[{}.{:09}] ", ns / 1_000_000_000, ns % 1_000_000_000);
        assert!(line.starts_with(&begin) && line.contains(&format!(" {name}: ")), "{line}\n{event}");
        let cpu = format!("{{ cpu_id = {} }}", event["packet"]["cpu_id"]);
        assert!(line.contains(&cpu), "{line}\n{event}");
        // Signed numbers that are shown in decimals, in the order of the text.
        for (field, value) in event["fields"].as_object().unwrap() {
            if let Some(value) = value.as_i64().filter(|value| *value < 0 && !field.starts_with("hex")) {
                assert!(line.contains(&format!("{field} = {value}")), "{line}\n{event}");
            }
        }
    }
    let told = |place| String::from_utf8_lossy(&weir(&[], place).stderr).lines().count();
    assert_eq!(lost.len(), told(place), "losses that the text tells");
    let in_all: u64 = lost.iter().filter_map(|lost| lost["count"].as_u64()).sum();

    let stats: Vec<Value> = lines(&["-f", "json", "--stats"], place)
        .iter()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let counted: BTreeMap<&str, u64> =
        stats.iter().filter_map(|row| Some((row["event"].as_str()?, row["events"].as_u64()?))).collect();
    assert_eq!(counted, by_name);
    assert_eq!(stats.iter().filter_map(|row| row["lost_events"].as_u64()).sum::<u64>(), in_all);
    let table = lines(&["--stats"], place);
    assert!(
        table.iter().any(|line| line.ends_with("  all") && line.contains(&text.len().to_string())),
        "{table:?}"
    );

    let chrome: Value = serde_json::from_str(&lines(&["-f", "chrome"], place).concat()).unwrap();
    let drawn = chrome["traceEvents"].as_array().unwrap();
    let instants: Vec<&Value> =
        drawn.iter().filter(|event| event["ph"] == "i" && event["s"] == "t").collect();
    assert_eq!(instants.len(), events.len());
    let first = events[0]["ns"].as_u64().unwrap();
    for (instant, event) in instants.iter().zip(&events) {
        let since = (event["ns"].as_u64().unwrap() - first) as f64 / 1000.0;
        assert_eq!((instant["ts"].as_f64(), &instant["name"]), (Some(since), &event["event"]), "{instant}");
        assert_eq!(instant["args"], event["fields"]);
    }
}

/// A file that is cut is read up to there; the others are read to their end.
fn damaged(place: &Path) {
    let whole = String::from_utf8_lossy(&weir(&["--clock-cycles", "--no-delta"], place).stdout).into_owned();
    let found =
        Command::new("find").arg(place).args(["-name", "c_*", "-size", "+1", "-type", "f"]).output().unwrap();
    let found = String::from_utf8(found.stdout).unwrap();
    let file = Path::new(found.lines().next().expect("a stream"));
    let bytes = std::fs::read(file).unwrap();
    // Beyond the first packet's header, and before the end of its content.
    std::fs::write(file, &bytes[..3000]).unwrap();
    let output = weir(&["--clock-cycles", "--no-delta"], place);
    let (stdout, stderr) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    let expected = format!("{}: at byte 0: the file ends in this packet: of ", file.display());
    assert!(stderr.contains(&expected) && stderr.contains("3000 are there"), "{stderr}");
    let mut lines = whole.lines();
    assert!(
        stdout.lines().all(|line| lines.any(|known| known == line)),
        "an event that the whole trace has not"
    );
    assert!(stdout.lines().count() > 10, "{stdout}");
}

fn objects(args: &[&str], place: &Path) -> Vec<Value> {
    let lines = lines(&[&["-f", "json"], args].concat(), place);
    lines.iter().map(|line| serde_json::from_str(line).unwrap()).collect()
}

type Accepts<'a> = &'a dyn Fn(&Value) -> bool;

/// What a filter accepts is what reading the JSON accepts.
#[track_caller]
fn filtered(place: &Path) {
    let all = objects(&[], place);
    // JSON has no number for infinities.
    let double =
        |value: &Value| value.as_f64().or(value.as_str().and_then(|text| text.parse().ok())).unwrap_or(0.0);
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let cases: [(&[&str], Accepts<'_>); 9] = [
        (&["-e", "weir_fields:n*"], &|event| event["event"] == "weir_fields:numbers"),
        (&["-e", "*:empty", "-e", "*:texts"], &|event| event["event"] != "weir_fields:numbers"),
        (&["--filter", "i16 < -100 && i64 > 0"], &|event| {
            let fields = &event["fields"];
            fields["i16"].as_i64().is_some_and(|it| it < -100) && fields["i64"].as_i64() > Some(0)
        }),
        (&["--filter", "u64 > 9223372036854775807 || twice < -1.5"], &|event| {
            let fields = &event["fields"];
            fields["u64"].as_u64() > Some(i64::MAX as u64) || double(&fields["twice"]) < -1.5
        }),
        (&["--filter", "cpu == 0 && procname == \"fields*\""], &|event| event["packet"]["cpu_id"] == 0),
        (&["--filter", "text =~ \"^(x|pl.*)$\""], &|event| {
            ["x", "plain"].contains(&text(&event["fields"]["text"]).as_str())
        }),
        (&["--filter", "characters == \"plai*\" && cut != \"pl\""], &|event| {
            let fields = &event["fields"];
            text(&fields["characters"]).starts_with("plai") && text(&fields["cut"]) != "pl"
        }),
        (&["--filter", "array[1] > 0 && sequence[3] < 0"], &|event| {
            let fields = &event["fields"];
            fields["array"][1].as_i64() > Some(0) && fields["sequence"][3].as_i64().is_some_and(|it| it < 0)
        }),
        (&["--filter", "chosen == \"SOME\" && tid != 0"], &|event| {
            event["fields"]["chosen"]["value"].as_i64().is_some_and(|it| (2..=5).contains(&it))
        }),
    ];
    for (args, expected) in cases {
        let found = objects(args, place);
        let expected: Vec<&Value> = all.iter().filter(|event| expected(event)).collect();
        // Where threads run is not for the test to say.
        let is_decided_here = !args.contains(&"cpu == 0 && procname == \"fields*\"");
        assert!(
            !is_decided_here || !expected.is_empty() && expected.len() < all.len(),
            "{args:?}: {} of {}",
            expected.len(),
            all.len()
        );
        assert!(found.iter().eq(expected), "{args:?}");
    }
}

fn filters_that_are_wrong(place: &Path) {
    for (args, told) in [
        (["--filter", "i9 > 1"], "i9"),
        (["--filter", "uid == 1"], "the trace did not record `uid`"),
        (["--filter", "i8 == 300"], "never"),
        (["--filter", "i8 == 3 sample 1/10"], "a trace does not know the moment at which its filter runs"),
        (["-e", "weir_field:*"], "no trace has an event of this name"),
        (["--filter", "i8 =="], "expected"),
    ] {
        let output = weir(&args, place);
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!((output.status.code(), output.stdout.len()), (Some(1), 0), "{args:?}: {stderr}");
        assert!(stderr.contains(told), "{args:?}: {stderr}");
    }
}

#[test]
fn a_document_for_charts_has_an_end_and_holds_events_alone() {
    for (option, told) in [("--follow", "-f json"), ("--stats", "leave out -f")] {
        let output = weir(&["-f", "chrome", option], Path::new("/nosuch"));
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{option}: {stderr}");
        assert!(stderr.contains(told), "{option}: {stderr}");
    }
}

#[test]
fn a_folder_without_a_trace_is_refused() {
    let place = paths::root().join("docs");
    let output = weir(&[], &place);
    assert_eq!(output.status.code(), Some(1));
    let expected = format!(
        "weir: {}: no trace is there or below: a trace is a folder with a file called metadata\n",
        place.display()
    );
    assert_eq!(String::from_utf8_lossy(&output.stderr), expected);
    assert_eq!(weir(&[], Path::new("/nosuch")).status.code(), Some(1));
}

/// By the files of zones, and by rules: what `date` says of the same second.
#[test]
fn times_are_local_as_the_c_library_has_them() {
    let trace = paths::target().join(format!("zones-{}", std::process::id()));
    let recorded = Command::new(env!("CARGO_BIN_EXE_weir"))
        .args(["record", "-q", "-e", "rec:ints", "-o"])
        .arg(&trace)
        .arg("--")
        .arg(target::program("record"))
        .args(["i", "1", "3"])
        .output()
        .unwrap();
    assert!(recorded.status.success(), "{}", String::from_utf8_lossy(&recorded.stderr));
    let first = |command: &mut Command| -> String {
        let output = command.output().unwrap();
        assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).lines().next().unwrap().to_owned()
    };
    let view = |option: &str| {
        let mut view = Command::new(env!("CARGO_BIN_EXE_weir"));
        view.args(["view", "--no-delta", option]).arg(&trace);
        view
    };
    let line = first(&mut view("--clock-seconds"));
    let (second, rest) = line.trim_start_matches('[').split_once('.').unwrap();
    let ns = &rest[..9];
    let zones = [
        "UTC0",
        "CET-1CEST,M3.5.0,M10.5.0/3",
        "<-0330>3:30<-0230>,M3.2.0,M11.1.0",
        "AEST-10AEDT,M10.1.0,M4.1.0/3",
        "AAA3BBB2:30,59/1,299/-2",
        "Europe/Vienna",
        ":America/New_York",
        "no such zone",
        "",
    ];
    for zone in zones {
        let date = first(
            Command::new("date").args(["-d", &format!("@{second}"), "+%Y-%m-%d %H:%M:%S"]).env("TZ", zone),
        );
        let line = first(view("--clock-date").env("TZ", zone));
        assert!(line.starts_with(&format!("[{date}.{ns}] ")), "TZ={zone}: {line}, not {date}");
    }
    std::fs::remove_dir_all(&trace).unwrap();
}
