//! `weir record` with `--start-on`, `--stop-on` and `--run-on`, end to end: exactly what lies between the events is recorded, and commands
//! are run with what asked for them: its name, its time and its fields.

use std::collections::{BTreeMap, HashSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use testkit::{paths, target, wait};

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Records what tests/programs/record.c emits with these arguments.
fn output(folder: &Path, options: &[&str], arguments: &[&str]) -> Output {
    output_of("rec:ints", folder, options, arguments)
}

/// Of these events. weir has a variable that an event's field may be called.
fn output_of(event: &str, folder: &Path, options: &[&str], arguments: &[&str]) -> Output {
    let program = target::program("record");
    let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
    command.current_dir(program.parent().unwrap());
    command.args(["record", "-e", event, "-o", folder.to_str().unwrap()]).args(options);
    command.env("WEIR_FIELD_other", "1");
    command.arg("--").arg(program).args(arguments).output().unwrap()
}

/// The same, which must go well; what weir says.
#[track_caller]
fn record(folder: &Path, options: &[&str], arguments: &[&str]) -> String {
    record_of("rec:ints", folder, options, arguments)
}

#[track_caller]
fn record_of(event: &str, folder: &Path, options: &[&str], arguments: &[&str]) -> String {
    let output = output_of(event, folder, options, arguments);
    let said = text(&output.stderr);
    assert!(output.status.success(), "{options:?}: {said}");
    said
}

/// What a trace has: thread and number of each event in the order of the trace, the time of each, and how many it says were lost.
#[derive(Default)]
struct Read {
    events: Vec<(u64, u64)>,
    times: Vec<i128>,
    lost: u64,
}

#[track_caller]
fn read(folder: &Path) -> Read {
    let output = Command::new(env!("CARGO_BIN_EXE_weir")).args(["view", "-f", "json"]).arg(folder).output();
    let output = output.unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    let mut read = Read::default();
    for line in text(&output.stdout).lines() {
        let event: Value = serde_json::from_str(line).expect(line);
        let number = |name: &str| event["fields"][name].as_u64().expect(line);
        match event["lost"].as_str() {
            None => {
                read.events.push((number("thread"), number("n")));
                read.times.push(event["ns"].as_i64().expect(line).into());
            }
            Some(_) => read.lost += event["count"].as_u64().expect(line),
        }
    }
    read
}

/// The number in front of these words in what weir says.
#[track_caller]
fn told(said: &str, words: &str) -> u64 {
    let line =
        said.lines().find(|line| line.contains(words)).unwrap_or_else(|| panic!("{said} lacks {words}"));
    line.trim_start_matches("weir:").trim_start().split(' ').next().unwrap().parse().expect(line)
}

const OUTSIDE: &str = "events came while it was stopped, and are not in it";

#[test]
fn what_lies_between_events_that_start_and_stop_is_recorded() {
    let folder = paths::fresh("triggers", "between");
    let options = ["--start-on", "n % 500 == 100", "--stop-on", "n % 500 == 299"];
    let said = record(&folder, &options, &["i", "1", "1000"]);
    let read = read(&folder);
    let numbers = read.events.iter().map(|(_, n)| *n);
    assert!(numbers.eq((100..300).chain(600..800)) && read.lost == 0, "{said}");
    assert_eq!(told(&said, OUTSIDE), 600);
    assert_eq!((told(&said, "events started the recording"), told(&said, "events stopped it")), (2, 2));
    fs::remove_dir_all(folder).unwrap();
}

#[test]
fn events_that_start_and_stop_are_recorded_alone() {
    let folder = paths::fresh("triggers", "alone");
    let said = record(&folder, &["--start-on", "n % 7 == 0", "--stop-on", "rec:ints"], &["i", "1", "1000"]);
    let read = read(&folder);
    assert!(read.events.iter().map(|(_, n)| *n).eq((0..1000).step_by(7)) && read.lost == 0, "{said}");
    assert_eq!(told(&said, OUTSIDE) + read.events.len() as u64, 1000);
    fs::remove_dir_all(folder).unwrap();
}

#[test]
fn recorded_and_discarded_and_left_out_are_all_under_overload_by_eight_threads() {
    for size in ["4K", "256K"] {
        let folder = paths::fresh("triggers", &format!("overload-{size}"));
        let options = ["--size", size, "--start-on", "n % 1000 == 100", "--stop-on", "n % 1000 == 299"];
        let said = record(&folder, &options, &["i", "8", "12500"]);
        let read = read(&folder);
        assert_eq!(read.events.len() as u64 + read.lost + told(&said, OUTSIDE), 100_000, "{said}");
        assert!(!read.events.is_empty());
        fs::remove_dir_all(folder).unwrap();
    }
}

#[test]
fn an_event_that_stops_is_the_last_and_ends_the_recording() {
    let folder = paths::fresh("triggers", "last");
    let said = record(&folder, &["--size", "4M", "--stop-on", "n == 70000"], &["i", "1", "1000000000000"]);
    let read = read(&folder);
    assert!(read.events.iter().map(|(_, n)| *n).eq(0..=70_000) && read.lost == 0, "{said}");
    assert!(said.contains("weir: 70001 events recorded;"), "{said}");
    fs::remove_dir_all(folder).unwrap();
}

#[test]
fn a_flight_recorder_that_an_event_stops_has_what_was_before_it() {
    let folder = paths::fresh("triggers", "flight");
    let options = ["--overwrite", "--size", "16K", "--stop-on", "n == 70000", "--snapshot-at-end"];
    let said = record(&folder, &options, &["i", "1", "1000000000000"]);
    let snapshots: Vec<PathBuf> = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert_eq!(snapshots.len(), 1, "{said}");
    let read = read(&snapshots[0]);
    assert_eq!(read.events.last(), Some(&(0, 70_000)), "{said}");
    assert_eq!(read.events.len() as u64 + read.lost, 70_001, "{said}");
    assert!(read.events.len() > 100, "{said}");
    fs::remove_dir_all(folder).unwrap();
}

#[test]
fn an_event_runs_a_command_with_its_name_and_time() {
    // weir reads two clocks one after the other, and may lose the CPU between them.
    let is_near = || run_with_name_and_time() < Duration::from_millis(5).as_nanos();
    assert!((0..10).any(|_| is_near()), "the command's time is not the event's");
}

/// How many ns lie between the time that the command gets and the time that the trace says.
#[track_caller]
fn run_with_name_and_time() -> u128 {
    let (folder, file) = (paths::fresh("triggers", "run"), paths::fresh("triggers", "run-said"));
    let command = format!(
        "printf '%s\\n' $WEIR_EVENT $WEIR_EVENTS $WEIR_TIME \"$WEIR_FOLDER\" ${{WEIR_SESSION-none}} > '{0}'; \
         grep SigBlk /proc/self/status >> '{0}'; exit 3",
        file.display()
    );
    let now = || SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as i128;
    let began = now();
    let said = record(&folder, &["--run-on", "n == 500", "--run", &command], &["i", "1", "1000"]);
    let ended = now();
    assert!(said.contains("ended with exit code 3 (rec:ints, --run-on)"), "{said}");
    assert!(
        said.contains("1 events asked for `printf") && said.contains("which was run once, 1 of them failed"),
        "{said}"
    );
    let written = fs::read_to_string(&file).unwrap();
    let lines: Vec<&str> = written.lines().collect();
    let [event, events, time, output, session, blocked] = lines[..] else { panic!("{written}") };
    let blocked = blocked.split_whitespace().last().unwrap();
    assert_eq!(
        (event, events, session, output),
        ("rec:ints", "1", "none", folder.to_str().unwrap()),
        "{written}"
    );
    assert_eq!(u64::from_str_radix(blocked, 16), Ok(0), "the command can be interrupted");
    let read = read(&folder);
    assert_eq!((read.events.len(), read.events[500].1), (1000, 500));
    let time: i128 = time.parse().unwrap();
    assert!((began..ended).contains(&time), "{began} {time} {ended}");
    fs::remove_file(file).unwrap();
    fs::remove_dir_all(folder).unwrap();
    (time - read.times[500]).unsigned_abs()
}

#[test]
fn events_that_ask_for_a_command_all_the_time_share_it() {
    let (folder, file) = (paths::fresh("triggers", "share"), paths::fresh("triggers", "share-said"));
    let command = format!("echo $WEIR_EVENTS >> '{}'", file.display());
    let options = ["--run-on", "n % 2 == 0", "--run-interval", "10min", "--run", &command];
    let said = record(&folder, &options, &["i", "4", "100000"]);
    let written = fs::read_to_string(&file).unwrap();
    let each: Vec<u64> = written.lines().map(|line| line.parse().unwrap()).collect();
    // One at once, one at the end for all that came in between.
    assert!(each.len() <= 2 && each.iter().sum::<u64>() == 200_000, "{written}{said}");
    fs::remove_file(file).unwrap();
    fs::remove_dir_all(folder).unwrap();
}

/// The fields that the command of these options had, by name.
#[track_caller]
fn fields(folder: &Path, event: &str, options: &[&str], arguments: &[&str]) -> BTreeMap<String, String> {
    let file = folder.with_extension("said");
    let command = format!("env -0 | grep -z ^WEIR_FIELD_ > {}", paths::quoted(&file));
    let said = record_of(event, folder, &[options, &["--run", &command]].concat(), arguments);
    assert!(said.contains("events asked for `env"), "{said}");
    let written = fs::read_to_string(&file).unwrap();
    let of_field = |variable: &str| {
        let (name, value) = variable.trim_start_matches("WEIR_FIELD_").split_once('=').expect(variable);
        (name.to_owned(), value.to_owned())
    };
    fs::remove_file(file).unwrap();
    written.split_terminator('\0').map(of_field).collect()
}

#[test]
fn a_command_has_the_fields_of_the_event_as_view_shows_them() {
    let check = |name: &str, n: usize, own: &[&str]| {
        let on = format!("{name} if n == {n}");
        let options = ["-t", "vtid,procname", "--run-on", &on];
        let folder = paths::fresh("triggers", &name.replace(':', "-"));
        let fields = fields(&folder, "rec:*", &options, &["m", "1", "1000"]);
        let names: Vec<&str> = fields.keys().map(String::as_str).collect();
        let mut wanted: Vec<&str> = own.iter().copied().chain(["n", "procname", "thread", "vtid"]).collect();
        wanted.sort_unstable();
        assert_eq!(names, wanted);
        let output = Command::new(env!("CARGO_BIN_EXE_weir")).arg("view").arg(&folder).output().unwrap();
        let shown = text(&output.stdout);
        let line = shown.lines().nth(n).unwrap();
        assert!(line.contains(&format!(" {name}: ")), "{line}");
        for (field, value) in &fields {
            let plain = format!(" {field} = {value}");
            let quoted = format!(" {field} = \"{value}\"");
            assert!(line.contains(&plain) || line.contains(&quoted), "{field} is {value}: {line}");
        }
        fs::remove_dir_all(folder).unwrap();
    };
    check("rec:ints", 501, &[]);
    check("rec:strings", 499, &["a", "b", "c", "d", "e", "f", "g", "h", "i"]);
    check("rec:blob", 500, &["bytes"]);
}

#[test]
fn an_event_that_does_more_has_fields_too() {
    // It is the last event: nothing is read after it.
    let options = ["--stop-on", "n == 70", "--run-on", "n == 70"];
    let folder = paths::fresh("triggers", "more");
    let fields = fields(&folder, "rec:ints", &options, &["i", "1", "1000000000000"]);
    let (thread, n) = (("thread".to_owned(), "0".to_owned()), ("n".to_owned(), "70".to_owned()));
    assert_eq!(fields, BTreeMap::from([n, thread]));
    assert!(read(&folder).events.iter().map(|(_, n)| *n).eq(0..=70));
    fs::remove_dir_all(folder).unwrap();
}

#[test]
fn what_a_function_is_called_with_is_fields() {
    // A blank in the program's path would end it.
    let program = target::program("record");
    let event = format!("uprobe:./{}:emit number=%si:s64", program.file_name().unwrap().display());
    let options = ["--run-on", "number == 123"];
    let folder = paths::fresh("triggers", "function");
    let fields = fields(&folder, &event, &options, &["i", "1", "1000"]);
    assert_eq!(fields, BTreeMap::from([("number".to_owned(), "123".to_owned())]));
    fs::remove_dir_all(folder).unwrap();
}

#[test]
fn a_flight_recorder_s_command_has_no_fields() {
    let file = paths::fresh("triggers", "no-fields-said");
    let command = format!(
        "{{ echo $WEIR_EVENT $WEIR_EVENTS; env | grep -c ^WEIR_FIELD_; }} > {}",
        paths::quoted(&file)
    );
    let folder = paths::fresh("triggers", "no-fields");
    record(&folder, &["--overwrite", "--run-on", "n == 500", "--run", &command], &["i", "1", "1000"]);
    assert_eq!(fs::read_to_string(&file).unwrap(), "rec:ints 1\n0\n");
    fs::remove_file(file).unwrap();
    fs::remove_dir_all(folder).unwrap();
}

/// What is in a trace but for its times: its events, its metadata without what is new in each.
#[track_caller]
fn content(folder: &Path) -> (Vec<(u64, u64)>, String) {
    let metadata = fs::read_to_string(folder.join("metadata")).unwrap();
    let is_new =
        |line: &&str| !["uuid = ", "offset = ", "offset_s = "].iter().any(|name| line.contains(name));
    (read(folder).events, metadata.lines().filter(is_new).collect())
}

#[test]
fn a_trace_is_the_same_with_a_command_and_without() {
    let [plain, asking] = ["plain", "asking"].map(|name| paths::fresh("triggers", name));
    let arguments = ["i", "1", "2000"];
    let without = record(&plain, &[], &arguments);
    let with = record(&asking, &["--run-on", "n % 2 == 0", "--run", "true"], &arguments);
    assert_eq!(content(&plain), content(&asking));
    // How many events, and bytes of fields.
    let before_folder = |said: &str| said.split(", in ").next().map(str::to_owned);
    assert_eq!(before_folder(&without), before_folder(&with));
    for folder in [plain, asking] {
        fs::remove_dir_all(folder).unwrap();
    }
}

#[test]
fn under_overload_the_fields_are_of_an_event_that_was_recorded() {
    let (folder, file) = (paths::fresh("triggers", "flood"), paths::fresh("triggers", "flood-said"));
    let command =
        format!("echo $WEIR_EVENTS ${{WEIR_FIELD_thread--}} ${{WEIR_FIELD_n--}} >> {}", paths::quoted(&file));
    let options = ["--size", "4K", "--run-on", "rec:ints", "--run-interval", "1ms", "--run", &command];
    let said = record(&folder, &options, &["i", "8", "100000"]);
    let read = read(&folder);
    assert_eq!(read.events.len() as u64 + read.lost, 800_000, "{said}");
    let recorded: HashSet<(u64, u64)> = read.events.into_iter().collect();
    let written = fs::read_to_string(&file).unwrap();
    let (mut asked, mut seen) = (0, 0);
    for line in written.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        let [events, thread, n] = words[..] else { panic!("{line}") };
        asked += events.parse::<u64>().expect(line);
        if let (Ok(thread), Ok(n)) = (thread.parse(), n.parse()) {
            assert!(recorded.contains(&(thread, n)), "{line} is not in the trace");
            seen += 1;
        }
    }
    assert!(asked == 800_000 && seen > 0, "{written}{said}");
    fs::remove_file(file).unwrap();
    fs::remove_dir_all(folder).unwrap();
}

#[test]
fn a_ring_that_fills_runs_a_command() {
    let file = paths::fresh("triggers", "fill-said");
    let command = format!("echo ${{WEIR_EVENT-none}} $WEIR_EVENTS $WEIR_RING_FILL >> '{}'", file.display());
    let run = |percent: &str, interval: &str, arguments: &[&str]| {
        let folder = paths::fresh("triggers", "fill");
        let options =
            ["--size", "16K", "--run-on-fill", percent, "--run-interval", interval, "--run", &command];
        let said = record(&folder, &options, arguments);
        fs::remove_dir_all(folder).unwrap();
        let lines = fs::read_to_string(&file).unwrap_or_default();
        let _ = fs::remove_file(&file);
        let fill = |line: &str| line.strip_prefix("none 0 ").expect(line).parse::<u64>().expect(line);
        (said, lines.lines().map(fill).collect::<Vec<u64>>())
    };
    // More than a ring has room for, at once: some at once, the rest at the end.
    let (said, fills) = run("80%", "10min", &["i", "2", "50000"]);
    assert!(
        (1..=2).contains(&fills.len()) && fills.iter().all(|fill| (80..=100).contains(fill)),
        "{fills:?}: {said}"
    );
    let most =
        told(&said.replace("the fullest ring was filled to ", "").replace('%', " "), "(--run-on-fill 80)");
    assert_eq!(Some(&most), fills.iter().max(), "{said}");
    // Some bytes of it are not.
    let (said, fills) = run("50", "1s", &["i", "1", "10"]);
    assert!(fills.is_empty() && said.contains("was run 0 times (--run-on-fill 50)"), "{fills:?}: {said}");
}

#[test]
fn a_command_that_runs_on_holds_nothing_up() {
    let folder = paths::fresh("triggers", "long");
    let process = paths::fresh("triggers", "long-process");
    // The verdict depends on that it runs when the recording ends: longer than a test may take. Its output is its own, so that ours ends.
    let command = format!("echo $$ > '{}'; exec sleep 600 > /dev/null 2>&1", process.display());
    let said = record(&folder, &["--run-on", "n == 5", "--run", &command], &["i", "1", "1000"]);
    let written = || fs::read_to_string(&process).ok()?.trim().parse::<i32>().ok();
    let pid = wait::until_some(Duration::from_secs(120), written).expect("the command runs");
    kill(Pid::from_raw(pid), Signal::SIGKILL).unwrap();
    assert!(said.contains("2>&1` still runs, and is not waited for"), "{said}");
    assert_eq!(read(&folder).events.len(), 1000);
    fs::remove_file(process).unwrap();
    fs::remove_dir_all(folder).unwrap();
}

#[test]
fn wrong_input_is_refused_before_anything_is_done() {
    let free = paths::fresh("triggers", "refused");
    let check = |code: i32, options: &[&str], wanted: &str| {
        let output = output(&free, options, &["i", "1", "1"]);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{options:?}: {said}");
        assert!(said.contains(wanted), "{options:?}: {said} lacks {wanted}");
        assert_eq!(text(&output.stdout), "", "the command has run");
        assert!(!free.exists());
    };
    check(2, &["--rotate-on", "n == 1"], "--rotate-on is of sessions");
    check(2, &["--run-on", "n == 1"], "--run <COMMAND>");
    check(2, &["--run", "true"], "--run-on <EXPR>");
    check(2, &["--run-interval", "1s"], "--run <COMMAND>");
    check(2, &["--run-on-fill", "80"], "--run <COMMAND>");
    check(2, &["--run-on-fill", "80", "--run", "true", "--overwrite"], "cannot be used with");
    for percent in ["0", "101", "-1", "x", "%"] {
        check(2, &["--run-on-fill", percent, "--run", "true"], "");
    }
    check(1, &["--run-on", "n == 1", "--run", ""], "there is no command");
    check(1, &["--stop-on", "n =="], "<stop-on>");
    check(1, &["--start-on", "m == 1"], "the event has no field `m`");
    check(1, &["--stop-on", "n == \"a\""], "<stop-on>");
    check(
        1,
        &["--stop-on", "rec:strings if n == 1"],
        "no event that is recorded is called rec:strings; there is rec:ints",
    );
    check(
        1,
        &["--stop-on", "rec:ints n == 1"],
        "`if` and an expression, or nothing, is wanted behind rec:ints",
    );
    check(1, &["--stop-on", "rec:ints if m == 1"], "the event has no field `m`");
}
