//! `weir record --overwrite`, end to end: what a snapshot has is what was emitted last, in order, and the rest is counted exactly, as `weir
//! view` and babeltrace2 read it and as a strict checker of CTF 1.8 accepts it.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use testkit::{ctf, paths, skip, target, wait};

const LIMIT: Duration = Duration::from_secs(60);

fn program() -> String {
    target::program("record").display().to_string()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// `weir record --overwrite` with these options.
fn command(folder: &Path, options: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
    command.args(["record", "--overwrite", "-o", folder.to_str().unwrap()]).args(options);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Records what the program emits with these arguments; what weir says.
#[track_caller]
fn record(folder: &Path, options: &[&str], arguments: &[&str]) -> String {
    let output = command(folder, options).arg("--").arg(program()).args(arguments).output().unwrap();
    let said = text(&output.stderr);
    assert!(output.status.success(), "{options:?}: {said}");
    said
}

/// The snapshots that are there, by name; nothing else is.
fn snapshots(folder: &Path) -> Vec<PathBuf> {
    let mut all: Vec<PathBuf> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    all.sort();
    let name = |path: &PathBuf| path.file_name().unwrap().to_str().unwrap().to_owned();
    assert!(all.iter().all(|path| name(path).starts_with("snapshot-")), "{all:?}");
    all
}

/// What is in a snapshot.
struct Read {
    /// By thread of the program, the numbers of its events in the order of the trace.
    numbers: BTreeMap<usize, Vec<usize>>,
    lines: Vec<String>,
    discarded: u64,
}

impl Read {
    fn events(&self) -> u64 {
        self.lines.len() as u64
    }
}

/// Which thread of the program an event is of, and its number.
#[track_caller]
fn number_of(line: &str) -> (usize, usize) {
    let number = |name: &str| -> usize {
        let rest = line.split_once(name).unwrap_or_else(|| panic!("{line}")).1;
        rest.split([',', ' ']).next().unwrap().parse().unwrap()
    };
    (number("thread = "), number(" n = "))
}

/// The snapshot as all readers have it.
#[track_caller]
fn read(snapshot: &Path) -> Read {
    let ours = Command::new(env!("CARGO_BIN_EXE_weir")).args(["view", "--clock-gmt"]).arg(snapshot).output();
    let ours = ours.unwrap();
    let discarded = |output: &Output| -> u64 {
        assert!(output.status.success(), "{}", text(&output.stderr));
        let count =
            |line: &str| line.split_once("Tracer discarded ")?.1.split(' ').next()?.parse::<u64>().ok();
        text(&output.stderr).lines().map(|line| count(line).unwrap_or_else(|| panic!("{line}"))).sum::<u64>()
    };
    match Command::new("babeltrace2").arg("--clock-gmt").arg(snapshot).output() {
        Err(_) => skip::skip("record-babeltrace2", "no babeltrace2; traces are read by `weir view` alone"),
        Ok(theirs) => {
            assert!(
                text(&ours.stdout) == text(&theirs.stdout),
                "the readers differ on {}",
                snapshot.display()
            );
            assert_eq!(discarded(&ours), discarded(&theirs));
        }
    }
    let checked =
        ctf::check_folder(snapshot).unwrap_or_else(|fault| panic!("{}: {fault}", snapshot.display()));
    let lines: Vec<String> = text(&ours.stdout).lines().map(str::to_owned).collect();
    assert_eq!((checked.events, checked.discarded), (lines.len() as u64, discarded(&ours)));
    let mut numbers: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for line in &lines {
        assert!(!line.contains("(-"), "the times fall: {line}");
        let (thread, number) = number_of(line);
        numbers.entry(thread).or_default().push(number);
    }
    for numbers in numbers.values() {
        assert!(numbers.is_sorted_by(|a, b| a < b), "an order of its own");
    }
    Read { numbers, lines, discarded: discarded(&ours) }
}

/// A program that emits until it is ended.
struct Endless(Child);

impl Endless {
    fn start(kind: &str, threads: &str) -> Endless {
        let mut command = Command::new(program());
        let child = command.args([kind, threads, "1000000000000"]).stdout(Stdio::null()).spawn().unwrap();
        Endless(child)
    }

    fn pid(&self) -> String {
        self.0.id().to_string()
    }

    /// Waits until it has had a CPU for two more ticks.
    fn goes_on(&self) {
        let ticks = || -> u64 {
            let stat = fs::read_to_string(format!("/proc/{}/stat", self.0.id())).unwrap();
            // utime and stime of proc(5), behind the name.
            let fields = stat.rsplit_once(") ").unwrap().1.split(' ').skip(11).take(2);
            fields.map(|ticks| ticks.parse::<u64>().unwrap()).sum()
        };
        let before = ticks();
        assert!(wait::until(LIMIT, || ticks() >= before + 2), "it has no CPU");
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

/// A weir that records of processes.
struct Recorder {
    child: Child,
    folder: PathBuf,
}

impl Recorder {
    /// Comes back when it can be asked for snapshots.
    fn start(folder: &Path, options: &[&str], processes: &[&Endless]) -> Recorder {
        let pids: Vec<String> = processes.iter().map(|process| process.pid()).collect();
        let child = command(folder, options).args(["-p", &pids.join(",")]).spawn().unwrap();
        let recorder = Recorder { child, folder: folder.to_owned() };
        // SIGUSR1 is blocked from then on.
        let is_ready = || {
            let status = fs::read_to_string(format!("/proc/{}/status", recorder.child.id())).unwrap();
            let blocked = status.lines().find_map(|line| line.strip_prefix("SigBlk:\t")).unwrap();
            u64::from_str_radix(blocked, 16).unwrap() >> (Signal::SIGUSR1 as u64 - 1) & 1 == 1
        };
        assert!(wait::until(LIMIT, is_ready));
        recorder
    }

    fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.child.id() as i32), signal).unwrap();
    }

    /// Asks until a snapshot has events, and returns it.
    fn ask(&self) -> PathBuf {
        let last = || snapshots_by_name(&self.folder).pop();
        let mut seen = last();
        let asked = wait::until_some(LIMIT, || {
            self.signal(Signal::SIGUSR1);
            wait::until(LIMIT, || last() > seen);
            seen = last();
            seen.clone().filter(|snapshot| fs::read_dir(snapshot).is_ok_and(|files| files.count() > 1))
        });
        asked.expect("a snapshot with events")
    }

    /// Ends it; what it has said.
    fn end(self) -> String {
        self.signal(Signal::SIGINT);
        self.ended()
    }

    fn ended(self) -> String {
        let output = self.child.wait_with_output().unwrap();
        let said = text(&output.stderr);
        assert!(output.status.success(), "{said}");
        said
    }
}

/// Those that are whole, while weir may be writing another.
fn snapshots_by_name(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).map(|entries| entries.flatten().map(|entry| entry.path()));
    let mut all: Vec<PathBuf> = entries.map(Iterator::collect).unwrap_or_default();
    all.retain(|path| path.file_name().unwrap().to_str().unwrap().starts_with("snapshot-"));
    all.sort();
    all
}

#[test]
fn an_event_that_asks_is_the_last_of_its_snapshot_and_what_was_before_it_is_whole() {
    // One ring has all events.
    testkit::cpu::stay_on_this();
    let folder = paths::fresh("flight", "asks");
    let options = ["-e", "rec:ints", "--size", "16K", "--snapshot-on", "n == 70000", "--snapshot-at-end"];
    let said = record(&folder, &options, &["i", "1", "20000000"]);
    let all = snapshots(&folder);
    assert_eq!(all.len(), 2, "{said}");
    let first = read(&all[0]);
    let numbers = &first.numbers[&0];
    // A ring of 16 KiB has some hundred events.
    assert!(numbers.len() > 100, "{said}");
    assert_eq!(numbers.last(), Some(&70_000), "{said}");
    assert!(numbers.iter().copied().eq(numbers[0]..=70_000));
    assert_eq!(first.events() + first.discarded, 70_001, "{said}");
    let last = read(&all[1]);
    assert_eq!(last.events() + last.discarded, 20_000_000, "{said}");
    assert_eq!(last.numbers[&0].last(), Some(&19_999_999));
    assert!(said.contains("weir: 2 snapshots, in") && said.contains("1 events asked for one"), "{said}");
    assert!(said.contains("discarded while the rings were held"), "{said}");
    fs::remove_dir_all(folder).unwrap();
}

#[test]
fn recorded_and_discarded_are_all_under_overload_by_eight_threads() {
    let cases = [("4K", "i", "rec:ints", 12_500), ("32K", "s", "rec:*", 1_000), ("8M", "i", "rec:*", 12_500)];
    for (size, kind, event, count) in cases {
        let folder = paths::fresh("flight", &format!("overload-{size}-{kind}"));
        let options = ["-e", event, "--size", size, "--snapshot-at-end"];
        let said = record(&folder, &options, &[kind, "8", &count.to_string()]);
        let all = snapshots(&folder);
        assert_eq!(all.len(), 1, "{said}");
        let read = read(&all[0]);
        assert_eq!(read.events() + read.discarded, 8 * count, "{said}");
        assert!(read.events() > 0 && (size == "8M") == (read.discarded == 0), "{said}");
        fs::remove_dir_all(folder).unwrap();
    }
}

#[test]
fn an_event_of_any_of_eight_threads_is_in_the_snapshot_that_it_asks_for() {
    let folder = paths::fresh("flight", "asks-8");
    let options =
        ["-e", "rec:ints", "--size", "16K", "--snapshot-on", "thread == 5 && n == 9000", "--snapshot-at-end"];
    let said = record(&folder, &options, &["i", "8", "2000000"]);
    let all = snapshots(&folder);
    assert_eq!(all.len(), 2, "{said}");
    let first = read(&all[0]);
    assert_eq!(first.numbers[&5].last(), Some(&9000), "{said}");
    let last = read(&all[1]);
    assert_eq!(last.events() + last.discarded, 16_000_000, "{said}");
    fs::remove_dir_all(folder).unwrap();
}

#[test]
fn an_event_that_asks_as_the_program_ends_is_answered() {
    for options in [&["--snapshot-after", "1min"][..], &[]] {
        let folder = paths::fresh("flight", "asks-last");
        let options = [&["-e", "rec:ints", "--snapshot-on", "n == 999"], options].concat();
        let said = record(&folder, &options, &["i", "1", "1000"]);
        let all = snapshots(&folder);
        assert_eq!(all.len(), 1, "{said}");
        let read = read(&all[0]);
        assert!(read.numbers[&0].iter().copied().eq(0..1000) && read.discarded == 0, "{said}");
        assert!(said.contains("(event)") && said.contains("weir: 1 snapshot, in"), "{said}");
        fs::remove_dir_all(folder).unwrap();
    }
}

#[test]
fn filters_and_contexts_are_those_of_other_recordings_and_events_without_the_field_do_not_ask() {
    let folder = paths::fresh("flight", "filter");
    let options = ["-e", "rec:*", "--filter", "n % 10 == 0", "-t", "vtid,procname"];
    // Strings alone have `e`.
    let ask = ["--snapshot-on", "e == \"even\" && n == 40"];
    let said = record(&folder, &[&options[..], &ask].concat(), &["m", "1", "300"]);
    let all = snapshots(&folder);
    assert_eq!(all.len(), 1, "{said}");
    let read = read(&all[0]);
    let numbers = &read.numbers[&0];
    assert!(numbers.iter().copied().eq((0..=*numbers.last().unwrap()).step_by(10)), "{numbers:?}");
    assert!(numbers.contains(&40) && read.lines[0].contains("procname = \"record-"), "{said}");
    fs::remove_dir_all(folder).unwrap();
}

#[test]
fn sigusr1_takes_a_snapshot_and_the_newest_are_kept() {
    let folder = paths::fresh("flight", "signal");
    let process = Endless::start("i", "2");
    let recorder = Recorder::start(&folder, &["-e", "rec:ints", "--snapshots", "2"], &[&process]);
    let mut taken = Vec::new();
    for _ in 0..4 {
        process.goes_on();
        taken.push(recorder.ask());
    }
    let said = recorder.end();
    let all = snapshots(&folder);
    assert_eq!(all, taken[2..], "{said}");
    assert!(said.contains("older ones were removed (--snapshots)"), "{said}");
    let [first, second] = [&all[0], &all[1]].map(|snapshot| read(snapshot));
    // Of a thread that had no CPU for a while, what it emitted last may be overwritten and older events in another CPU's ring not: what
    // is newest of all goes on.
    let (thread, number) = number_of(second.lines.last().unwrap());
    let before = first.numbers.get(&thread).and_then(|numbers| numbers.last());
    assert!(before < Some(&number), "thread {thread}: {before:?}, then {number}");
    assert!(first.events() + first.discarded < second.events() + second.discarded);
    fs::remove_dir_all(folder).unwrap();
}

#[test]
fn events_that_ask_all_the_time_share_snapshots() {
    let folder = paths::fresh("flight", "often");
    let process = Endless::start("i", "2");
    let options =
        ["-e", "rec:ints", "--snapshot-on", "n >= 0", "--snapshot-interval", "200ms", "--size", "64K"];
    let began = Instant::now();
    let recorder = Recorder::start(&folder, &options, &[&process]);
    assert!(wait::until(LIMIT, || snapshots_by_name(&folder).len() >= 3), "three snapshots");
    let said = recorder.end();
    let most = began.elapsed().as_millis() / 200 + 2;
    let all = snapshots(&folder);
    // However slow the machine is, there are no more of them than intervals.
    assert!(all.len() >= 3 && all.len() as u128 <= most, "{} in {most} intervals", all.len());
    assert!(said.contains("of these share one with another (--snapshot-interval)"), "{said}");
    all.iter().for_each(|snapshot| assert!(read(snapshot).events() > 0));
    fs::remove_dir_all(folder).unwrap();
}

#[test]
fn what_was_committed_before_kill_9_is_in_the_last_snapshot() {
    for round in 0..10 {
        let folder = paths::fresh("flight", &format!("kill-{round}"));
        let mut processes = [Endless::start("i", "3"), Endless::start("i", "1")];
        let options = ["-e", "rec:ints", "-t", "vpid", "--size", "256K", "--snapshot-at-end"];
        let [first, second] = &processes;
        let recorder = Recorder::start(&folder, &options, &[first, second]);
        let whole = recorder.ask();
        // A moment of chance: the verdict is the same at any.
        std::thread::sleep(Duration::from_millis(round * 5));
        processes.iter_mut().for_each(Endless::kill);
        let said = recorder.ended();
        let all = snapshots(&folder);
        assert!(all.contains(&whole) && said.contains("(end)"), "{said}");
        let lines = |process: &Endless| {
            let pid = format!("vpid = {} ", process.pid());
            read_lines(all.last().unwrap()).iter().filter(|line| line.contains(&pid)).count()
        };
        assert!(processes.iter().any(|process| lines(process) > 0), "{said}");
        fs::remove_dir_all(folder).unwrap();
    }
}

/// The events of a snapshot of several processes, each whole and in the order of time.
fn read_lines(snapshot: &Path) -> Vec<String> {
    ctf::check_folder(snapshot).unwrap_or_else(|fault| panic!("{}: {fault}", snapshot.display()));
    let output = Command::new(env!("CARGO_BIN_EXE_weir")).arg("view").arg(snapshot).output().unwrap();
    assert!(output.status.success());
    let lines: Vec<String> = text(&output.stdout).lines().map(str::to_owned).collect();
    assert!(lines.iter().all(|line| line.contains("rec:ints") && !line.contains("(-")));
    lines
}

#[test]
fn a_full_disk_costs_one_snapshot() {
    let place = paths::fresh("flight", "full");
    fs::create_dir_all(&place).unwrap();
    let mount = ["-t", "tmpfs", "-o", "size=2M", "none", place.to_str().unwrap()];
    if !Command::new("mount").args(mount).stderr(Stdio::null()).status().is_ok_and(|status| status.success())
    {
        return skip::skip("record-full-disk", "mounting is for root");
    }
    fs::write(place.join("filler"), vec![1; 1_950_000]).unwrap();
    let folder = place.join("snapshots");
    let process = Endless::start("i", "2");
    let mut recorder = Recorder::start(&folder, &["-e", "rec:ints", "--size", "256K"], &[&process]);
    let mut said = String::new();
    let mut stderr = recorder.child.stderr.take().unwrap();
    while !said.contains("the next one that is asked for is tried again") {
        recorder.signal(Signal::SIGUSR1);
        let mut bytes = [0; 4096];
        let count = stderr.read(&mut bytes).unwrap();
        assert!(count > 0, "{said}");
        said += &text(&bytes[..count]);
    }
    assert!(said.contains("no snapshot: cannot write") && said.contains("No space left on device"), "{said}");
    fs::remove_file(place.join("filler")).unwrap();
    // The first may come of a signal that came before: right after the one that failed, there may be no event yet.
    let has_events = wait::until(LIMIT, || read(&recorder.ask()).events() > 0);
    recorder.signal(Signal::SIGINT);
    stderr.read_to_string(&mut said).unwrap();
    let status = recorder.child.wait().unwrap();
    snapshots(&folder);
    let unmounted = Command::new("umount").arg(&place).status().unwrap();
    assert_eq!(status.code(), Some(3), "{said}");
    assert!(has_events && said.contains("more could not be written"), "{said}");
    assert!(unmounted.success());
    fs::remove_dir(place).unwrap();
}

#[test]
fn children_that_have_ended_are_in_the_snapshot_at_the_end() {
    let (folder, start) = (paths::fresh("flight", "children"), paths::fresh("flight", "children-start"));
    // The path of an event has no blanks.
    let file = target::program("record");
    let event = format!("usdt:./{}:rec:ints", file.file_name().unwrap().to_str().unwrap());
    let options = ["-v", "-e", &event, "--follow", "-t", "vpid", "--snapshot-at-end"];
    // They wait for a file.
    let script = format!("'{0}' i 2 1000 '{1}' & '{0}' i 1 500 '{1}' & wait", program(), start.display());
    let mut weir = command(&folder, &options);
    let weir = weir.current_dir(file.parent().unwrap());
    let mut weir = weir.args(["--", "sh", "-c", &script]).spawn().unwrap();
    let mut said = String::new();
    let mut stderr = BufReader::new(weir.stderr.take().unwrap());
    while said.matches("child of").count() < 2 {
        assert!(stderr.read_line(&mut said).unwrap() > 0, "{said}");
    }
    fs::write(&start, "").unwrap();
    stderr.read_to_string(&mut said).unwrap();
    assert!(weir.wait().unwrap().success(), "{said}");
    let lines = read_lines(&snapshots(&folder)[0]);
    let mut of_process: BTreeMap<&str, usize> = BTreeMap::new();
    for line in &lines {
        *of_process.entry(line.split_once("vpid = ").unwrap().1.split(' ').next().unwrap()).or_default() += 1;
    }
    let mut counts: Vec<usize> = of_process.into_values().collect();
    counts.sort_unstable();
    assert_eq!(counts, [500, 2000], "{said}");
    fs::remove_file(start).unwrap();
    fs::remove_dir_all(folder).unwrap();
}

#[test]
fn nothing_is_written_that_nobody_asked_for() {
    let folder = paths::fresh("flight", "nothing");
    let said = record(&folder, &["-e", "rec:ints"], &["i", "2", "1000"]);
    assert!(said.contains("no snapshot was asked for"), "{said}");
    assert!(said.contains("`kill -USR1 "), "{said}");
    assert!(snapshots(&folder).is_empty());
    fs::remove_dir(folder).unwrap();
}

#[test]
fn wrong_input_is_refused_before_anything_is_done() {
    let free = paths::fresh("flight", "refused");
    let check = |code: i32, options: &[&str], wanted: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
        command.args(["record", "-e", "rec:*", "-o", free.to_str().unwrap()]).args(options);
        let output = command.args(["--", &program(), "m", "1", "1"]).output().unwrap();
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{options:?}: {said}");
        assert!(said.contains(wanted), "{options:?}: {said} lacks {wanted}");
        assert_eq!(text(&output.stdout), "", "the command has run");
        assert!(!free.exists());
    };
    check(2, &["--snapshot-on", "n == 1"], "--overwrite");
    check(2, &["--snapshot-at-end"], "--overwrite");
    check(2, &["--overwrite", "--snapshot-after", "5ms"], "--snapshot-on");
    check(2, &["--overwrite", "--snapshot-on", "n == 1", "--snapshot-after", "5"], "and us, ms, s or min");
    check(2, &["--overwrite", "--snapshots", "0"], "0 is not in 1..=999999");
    check(1, &["--overwrite", "--snapshot-on", "n =="], "<snapshot-on>");
    check(1, &["--overwrite", "--snapshot-on", "m == 1"], "the event has no field `m`");
    check(1, &["--overwrite", "--snapshot-on", "a == 1"], "<snapshot-on>");
    check(1, &["--overwrite", "--snapshot-on", "q == 1", "--dialect", "lttng"], "the event has no field `q`");
}
