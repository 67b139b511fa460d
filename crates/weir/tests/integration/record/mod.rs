//! `weir record`, end to end: what a program emits is in the trace, event for event and field for field, as `weir view` and babeltrace2
//! print it; what is not is counted.

mod choice;
mod ends;
mod fields;
mod kept;
mod sent;

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use testkit::{paths, skip, target, wait};

const LIMIT: Duration = Duration::from_secs(120);

fn program() -> String {
    target::program("record").display().to_string()
}

/// The program of target/testkit, where [`weir`] runs: the path of an event that is recorded has no blanks.
fn beside(program: &Path) -> String {
    format!("./{}", program.file_name().unwrap().to_str().unwrap())
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn weir(args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
    command.current_dir(paths::target().join("testkit")).args(args).output().unwrap()
}

/// Records what the program emits with these arguments; what weir says.
#[track_caller]
fn record(folder: &Path, options: &[&str], arguments: &[&str]) -> String {
    let program = program();
    let command = [&["--", &program], arguments].concat();
    let output = weir(&[&["record", "-o", folder.to_str().unwrap()], options, &command].concat());
    let said = text(&output.stderr);
    assert!(output.status.success(), "{options:?}: {said}");
    said
}

/// What a reader prints of a trace: of each event its name and fields, and the sum of what it says was discarded.
struct Read {
    events: Vec<String>,
    discarded: u64,
}

fn parsed(output: &Output, reader: &str) -> Read {
    assert!(output.status.success(), "{reader}: {}", text(&output.stderr));
    // [12:00:00.123456789] (+0.000000123) host rec:ints: { cpu_id = 0 }, { thread = 0, n = 0 }
    let event = |line: &str| {
        let rest = line.split_once(") ").and_then(|(_, rest)| rest.split_once(' ')).expect(line).1;
        let (name, fields) = rest.split_once(": { cpu_id = ").expect(line);
        let (_, fields) = fields.split_once(" }, ").expect(line);
        format!("{name} {fields}")
    };
    let lines = text(&output.stdout);
    // Times do not fall: the difference to the event before would have a minus.
    assert!(!lines.contains("(-"), "{reader}: the times fall");
    let count = |line: &str| {
        let rest = line.split_once("Tracer discarded ")?.1;
        rest.split_once(' ')?.0.parse::<u64>().ok()
    };
    let said = text(&output.stderr);
    let discarded = said.lines().map(|line| count(line).unwrap_or_else(|| panic!("{reader} says {line}")));
    let discarded = discarded.sum();
    Read { events: lines.lines().map(event).collect(), discarded }
}

/// The trace as `weir view` has it, which is how babeltrace2 has it, if that is there.
fn read(folder: &Path) -> Read {
    let ours = weir(&["view", "--clock-gmt", folder.to_str().unwrap()]);
    match Command::new("babeltrace2").arg("--clock-gmt").arg(folder).output() {
        Err(_) => skip::skip("record-babeltrace2", "no babeltrace2; traces are read by `weir view` alone"),
        Ok(theirs) => {
            assert!(text(&ours.stdout) == text(&theirs.stdout), "the readers differ on {}", folder.display());
            let (ours, theirs) = (parsed(&ours, "weir view"), parsed(&theirs, "babeltrace2"));
            assert_eq!(ours.discarded, theirs.discarded);
        }
    }
    parsed(&ours, "weir view")
}

/// The same where babeltrace2 may differ: 2.0.4 shows an empty text as the one before it.
fn read_by_weir(folder: &Path) -> Read {
    parsed(&weir(&["view", "--clock-gmt", folder.to_str().unwrap()]), "weir view")
}

/// What the trace has of event `n` of a thread of the program.
fn expected(kind: char, thread: usize, n: usize) -> String {
    let kind = if kind == 'm' { ['i', 's', 'b'][n % 3] } else { kind };
    let head = format!("thread = {thread}, n = {n}");
    match kind {
        'i' => format!("rec:ints {{ {head} }}"),
        's' => {
            let letters = char::from(b'a' + (n % 26) as u8).to_string().repeat(n % 31 + 1);
            let parity = if n % 2 == 1 { "odd" } else { "even" };
            format!(
                "rec:strings {{ {head}, a = \"{n}\", b = \"{letters}\", c = \"three\", d = \"4\", e = \"{parity}\", \
                 f = \"six words with a few characters more\", g = \"{n}\", h = \"{letters}\", i = \"nine\" }}"
            )
        }
        _ => {
            let bytes: Vec<String> = (0..64).map(|i| format!("[{i}] = {}", (n + i) as u8)).collect();
            format!("rec:blob {{ {head}, bytes = [ {} ] }}", bytes.join(", "))
        }
    }
}

/// By thread, the numbers of its events in the order of the trace; each has the fields that it should have.
#[track_caller]
fn numbers(kind: char, events: &[String]) -> BTreeMap<usize, Vec<usize>> {
    let mut numbers: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for event in events {
        let number = |name: &str| -> usize {
            let rest = event.split_once(&format!("{name} = ")).expect(event).1;
            rest.split([',', ' ']).next().unwrap().parse().expect(event)
        };
        let (thread, n) = (number("thread"), number(" n"));
        assert_eq!(*event, expected(kind, thread, n));
        numbers.entry(thread).or_default().push(n);
    }
    numbers
}

/// Everything that the threads emit is recorded, each thread's events in their order.
#[track_caller]
fn check(kind: char, threads: usize, count: usize) {
    let folder = paths::fresh("record", &format!("all-{kind}-{threads}"));
    let arguments = [kind.to_string(), threads.to_string(), count.to_string()];
    let said = record(&folder, &["-e", "rec:*", "--size", "16M"], &arguments.each_ref().map(String::as_str));
    let read = read(&folder);
    assert!(said.contains(&format!("weir: {} events recorded;", threads * count)), "{said}");
    assert_eq!((read.events.len(), read.discarded), (threads * count, 0), "{said}");
    let numbers = numbers(kind, &read.events);
    assert_eq!(numbers.len(), threads);
    for (thread, numbers) in numbers {
        assert!(numbers.iter().copied().eq(0..count), "thread {thread} of {threads}");
    }
    fs::remove_dir_all(folder).unwrap();
}
/// A program that emits until it is ended.
struct Endless(Child);

impl Endless {
    fn start(kind: &str, threads: &str) -> Endless {
        Endless::run(&[kind, threads, "1000000000000"])
    }

    fn run(arguments: &[&str]) -> Endless {
        let mut command = Command::new(program());
        Endless(command.args(arguments).stdout(Stdio::null()).spawn().unwrap())
    }

    fn pid(&self) -> String {
        self.0.id().to_string()
    }

    fn kill(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

impl Drop for Endless {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn what_one_thread_emits_is_recorded() {
    check('i', 1, 20_000);
    check('s', 1, 2_000);
    check('b', 1, 5_000);
    check('m', 1, 3_000);
}

#[test]
fn what_eight_threads_emit_is_recorded() {
    check('i', 8, 5_000);
    check('s', 8, 500);
    check('b', 8, 1_000);
    check('m', 8, 999);
}

/// What a program has emitted may be secret. Snapshots and sessions are written by the same code.
#[test]
fn a_trace_is_for_its_owner_alone() {
    let folder = paths::fresh("record", "private").join("of").join("ours");
    let program = target::build("tracepoints", target::Source::Program("tracepoints.c"), &["-O2"]);
    let args = ["record", "-e", "tp:*", "-o", folder.to_str().unwrap(), "--", program.to_str().unwrap(), "6"];
    let output = weir(&args);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(folder.parent().unwrap()), mode(&folder)), (0o700, 0o700));
    let files: Vec<PathBuf> = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert!(files.len() > 1 && files.iter().all(|file| mode(file) == 0o600), "{files:?}");
    fs::remove_dir_all(folder).unwrap();
}

#[test]
fn what_the_rings_have_no_room_for_is_counted() {
    for (threads, count) in [(1, 200_000), (8, 50_000)] {
        let folder = paths::fresh("record", &format!("overload-{threads}"));
        let arguments = ["i".to_owned(), threads.to_string(), count.to_string()];
        let arguments = arguments.each_ref().map(String::as_str);
        let said = record(&folder, &["-e", "rec:ints", "--size", "4K"], &arguments);
        let read = read(&folder);
        let (recorded, emitted) = (read.events.len(), threads * count);
        assert!(read.discarded > 0, "a ring of 4 KiB takes {emitted} events?");
        assert_eq!(recorded as u64 + read.discarded, emitted as u64, "{said}");
        let counted = format!("rec:ints: {recorded}, {} discarded: the ring was full", read.discarded);
        assert!(said.contains(&counted), "{said}");
        for numbers in numbers('i', &read.events).values() {
            assert!(numbers.is_sorted_by(|a, b| a < b), "an order of its own");
        }
        fs::remove_dir_all(folder).unwrap();
    }
}

/// What a process emits at a steady rate while children of its are enrolled, or are not: emitted, and discarded.
fn discarded_meanwhile(options: &[&str]) -> (u64, u64) {
    let folder = paths::fresh("record", "brood");
    let program = target::program("brood").display().to_string();
    let record = ["record", "-e", "brood:tick", "--size", "4K", "-o", folder.to_str().unwrap()];
    let output = weir(&[&record[..], options, &["--", &program, "2000", "12", "40"]].concat());
    let said = text(&output.stderr);
    assert!(output.status.success(), "{said}");
    let emitted = text(&output.stdout);
    let emitted: u64 =
        emitted.trim().strip_prefix("emitted ").and_then(|number| number.parse().ok()).expect(&said);
    let read = read(&folder);
    assert_eq!(read.events.len() as u64 + read.discarded, emitted, "{said}");
    fs::remove_dir_all(folder).unwrap();
    (emitted, read.discarded)
}

/// Each child takes long to look at and to attach to; the rings of the others are emptied all the same.
#[test]
fn nothing_is_lost_while_children_are_enrolled() {
    // As much as where there is nothing to enrol, on a machine that is as busy. Rings that were not emptied meanwhile would lose most of
    // all in every run, the more the slower the machine is; what another process has of the CPU in one run it need not have in the next.
    let is_as_without = || {
        let (_, alone) = discarded_meanwhile(&[]);
        let (emitted, discarded) = discarded_meanwhile(&["--follow"]);
        eprintln!("{discarded} of {emitted} are lost, {alone} without children");
        discarded <= 2 * alone + emitted / 20
    };
    assert!((0..10).any(|_| is_as_without()), "more is lost while children are enrolled");
}

#[test]
fn times_are_those_of_the_day() {
    let now = || std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs_f64();
    let folder = paths::fresh("record", "times");
    let before = now();
    record(&folder, &["-e", "rec:ints"], &["i", "2", "1000"]);
    let after = now();
    let output = weir(&["view", "--clock-seconds", folder.to_str().unwrap()]);
    let lines = text(&output.stdout);
    let time = |line: &str| line[1..].split(']').next().unwrap().parse::<f64>().expect(line);
    let times: Vec<f64> = lines.lines().map(time).collect();
    assert_eq!(times.len(), 2000);
    // The counter is read ahead of the clock by some ns at most; the clocks are some ns apart.
    assert!(
        times.iter().all(|time| (before - 1e-3..=after + 1e-3).contains(time)),
        "{before} {times:?} {after}"
    );
    fs::remove_dir_all(folder).unwrap();
}

#[test]
fn several_processes_are_recorded_in_one_trace() {
    let folder = paths::fresh("record", "several");
    let (mut first, mut second) = (Endless::start("i", "1"), Endless::start("b", "1"));
    let pids = format!("{},{}", first.pid(), second.pid());
    let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
    // Some of many millions, which this reads as one text.
    command.args(["record", "-e", "rec:*", "--filter", "(n & 4095) == 0", "-t", "vpid"]);
    command.args(["-o", folder.to_str().unwrap(), "-p", &pids]);
    let recorder = command.stderr(Stdio::piped()).spawn().unwrap();
    // Packets are written once a second.
    let has_both = || {
        let lines = text(&weir(&["view", folder.to_str().unwrap()]).stdout);
        lines.contains("rec:ints") && lines.contains("rec:blob")
    };
    assert!(wait::until(LIMIT, has_both), "both are recorded");
    first.kill();
    second.kill();
    let output = recorder.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    let events = read(&folder).events;
    let of = |name: &str, pid: &str| {
        let begin = format!("rec:{name} {{ vpid = {pid} }}");
        events.iter().filter(|event| event.starts_with(&begin)).count()
    };
    let (ints, blobs) = (of("ints", &first.pid()), of("blob", &second.pid()));
    assert!(ints > 0 && blobs > 0, "{ints} {blobs}");
    assert_eq!(ints + blobs, events.len());
    fs::remove_dir_all(folder).unwrap();
}

#[test]
fn a_trace_in_files_has_all_and_the_newest_files_are_kept() {
    for kept in [None, Some("2")] {
        let folder = paths::fresh("record", &format!("files-{}", kept.unwrap_or("all")));
        let options = ["-e", "rec:ints", "--size", "4M", "--file-size", "64K"];
        let count: &[&str] = kept.map_or(&[], |_| &["--file-count", "2"]);
        let said = record(&folder, &[&options[..], count].concat(), &["i", "1", "50000"]);
        let names: Vec<String> = fs::read_dir(&folder)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .filter(|name| name.starts_with("stream_"))
            .collect();
        let sizes = names.iter().map(|name| fs::metadata(folder.join(name)).unwrap().len());
        assert!(sizes.max() <= Some((64 << 10) + 88), "{names:?}");
        assert!(said.contains("weir: 50000 events recorded;"), "{said}");
        let read = read_by_weir(&folder);
        let numbers = &numbers('i', &read.events)[&0];
        assert_eq!((numbers.last(), read.discarded), (Some(&49_999), 0), "{said}");
        match kept {
            None => assert!(names.len() > 5 && numbers.len() == 50_000, "{names:?}"),
            Some(_) => {
                let gone = format!("weir:   {} of these were in files that gave way", 50_000 - numbers.len());
                assert!(names.len() < 7 && said.contains(&gone), "{names:?}: {said}");
            }
        }
        fs::remove_dir_all(folder).unwrap();
    }
}
