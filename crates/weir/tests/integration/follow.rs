//! `weir view --follow`: a trace is shown while it is recorded, and in the end nothing else than `weir view` shows of the whole.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use testkit::{paths, target, wait};

const LIMIT: Duration = Duration::from_secs(120);

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Ended at the latest when the test is.
struct Running(Child);

impl Running {
    fn start(command: &mut Command) -> Running {
        Running(command.stdin(Stdio::null()).spawn().unwrap())
    }

    fn interrupt(&self) {
        kill(Pid::from_raw(self.0.id() as i32), Signal::SIGINT).unwrap();
    }

    /// Waits for its end; its exit code.
    fn ended(&mut self) -> Option<i32> {
        wait::for_exit(&mut self.0, LIMIT).expect("it does not end").code()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn weir() -> Command {
    Command::new(env!("CARGO_BIN_EXE_weir"))
}

fn view(options: &[&str], trace: &Path) -> Output {
    weir().arg("view").args(options).arg(trace).output().unwrap()
}

/// A program of two threads that emits without an end, and its recorder, which takes one event of many.
fn recorded(trace: &Path, format: &str) -> (Running, Running) {
    let mut command = Command::new(target::program("record"));
    let program = Running::start(command.args(["i", "2", "1000000000000"]).stdout(Stdio::null()));
    let mut command = weir();
    command.args(["record", "-q", "-e", "rec:ints", "--filter", "n % 5000 == 0", "--trace-format", format]);
    command.args(["-p", &program.0.id().to_string(), "-o", trace.to_str().unwrap()]);
    let recorder = Running::start(&mut command);
    assert!(wait::until(LIMIT, || trace.join("metadata").exists()), "no trace");
    (program, recorder)
}

/// Lines of a follower, read by a thread of their own as they come.
struct Followed {
    running: Running,
    lines: std::sync::mpsc::Receiver<String>,
    said: std::thread::JoinHandle<String>,
}

fn follow(options: &[&str], trace: &Path) -> Followed {
    let mut command = weir();
    command.args(["view", "--follow"]).args(options).arg(trace);
    let mut running = Running::start(command.stdout(Stdio::piped()).stderr(Stdio::piped()));
    let (out, mut err) = (running.0.stdout.take().unwrap(), running.0.stderr.take().unwrap());
    let (send, lines) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        BufReader::new(out).lines().map_while(Result::ok).try_for_each(|line| send.send(line))
    });
    let said = std::thread::spawn(move || {
        let mut said = String::new();
        let _ = err.read_to_string(&mut said);
        said
    });
    Followed { running, lines, said }
}

impl Followed {
    /// Some lines, which come while it runs.
    fn some(&mut self, count: usize) -> Vec<String> {
        let next = |_| self.lines.recv_timeout(LIMIT).expect("a line");
        let lines = (0..count).map(next).collect();
        assert!(self.running.0.try_wait().unwrap().is_none(), "it has ended");
        lines
    }

    /// The rest, when it has ended by itself.
    fn rest(mut self) -> (Vec<String>, String) {
        assert_eq!(self.running.ended(), Some(0));
        (self.lines.iter().collect(), self.said.join().unwrap())
    }
}

#[track_caller]
fn assert_whole(lines: &[String], said: &str, options: &[&str], trace: &Path) {
    let whole = view(options, trace);
    let whole: Vec<String> = text(&whole.stdout).lines().map(str::to_owned).collect();
    // A machine that stands still for a second and a half makes events late, which is told.
    if said.contains("so late") {
        let sorted = |lines: &[String]| {
            let mut lines: Vec<String> =
                lines.iter().map(|line| line.split_once(" rec:").expect(line).1.to_owned()).collect();
            lines.sort_unstable();
            lines
        };
        return assert_eq!(sorted(lines), sorted(&whole));
    }
    assert!(lines.len() == whole.len() && lines == whole, "{} of {} lines", lines.len(), whole.len());
}

#[test]
fn a_trace_is_shown_while_it_is_recorded() {
    for format in ["ctf-1.8", "ctf-2"] {
        let trace = paths::fresh("view-follow", format);
        let (_program, mut recorder) = recorded(&trace, format);
        let mut followed = follow(&["--clock-gmt"], &trace);
        // The recorder goes on, and so do lines.
        let mut lines = followed.some(20);
        assert!(recorder.0.try_wait().unwrap().is_none());
        recorder.interrupt();
        assert_eq!(recorder.ended(), Some(0));
        let (rest, said) = followed.rest();
        lines.extend(rest);
        assert_whole(&lines, &said, &["--clock-gmt"], &trace);
        // What is whole is shown at once.
        let again = follow(&["--clock-gmt"], &trace).rest().0;
        assert_eq!(again.len(), lines.len());
        fs::remove_dir_all(trace).unwrap();
    }
}

#[test]
fn it_ends_where_the_recorder_was_killed() {
    let trace = paths::fresh("view-follow", "killed");
    let (_program, mut recorder) = recorded(&trace, "ctf-1.8");
    let mut followed = follow(&[], &trace);
    let mut lines = followed.some(5);
    recorder.0.kill().unwrap();
    recorder.0.wait().unwrap();
    let (rest, said) = followed.rest();
    lines.extend(rest);
    assert_whole(&lines, &said, &[], &trace);
    fs::remove_dir_all(trace).unwrap();
}

#[test]
fn filters_forms_and_ctrl_c_are_those_of_view() {
    let trace = paths::fresh("view-follow", "filtered");
    let (_program, recorder) = recorded(&trace, "ctf-2");
    let options = ["-f", "json", "-e", "rec:*", "--filter", "thread == 1 && n % 10000 == 0"];
    let mut followed = follow(&options, &trace);
    for line in followed.some(10) {
        let object: serde_json::Value = serde_json::from_str(&line).unwrap();
        let n = object["fields"]["n"].as_i64().unwrap();
        assert!(
            object["event"] == "rec:ints" && object["fields"]["thread"] == 1 && n % 10_000 == 0,
            "{line}"
        );
    }
    followed.running.interrupt();
    let (rest, said) = followed.rest();
    assert!(rest.iter().all(|line| line.starts_with("{\"ns\": ")), "{rest:?}");
    assert!(said.is_empty() || said.contains("so late"), "{said}");
    // It never held the trace: the recorder ends as ever.
    recorder.interrupt();
    drop(recorder);
    fs::remove_dir_all(trace).unwrap();
}

#[test]
fn what_cannot_be_followed_is_refused() {
    let check = |options: &[&str], place: &str, code: i32, expected: &str| {
        let output = weir().args(["view", "--follow"]).args(options).arg(place).output().unwrap();
        let said = text(&output.stderr);
        assert!(output.status.code() == Some(code) && said.contains(expected), "{options:?}: {said}");
    };
    check(&["--stats"], "/nowhere", 2, "cannot be used with");
    check(&["-f", "chrome"], "/nowhere", 2, "say -f json");
    check(&[], "/nowhere", 1, "/nowhere");
}

/// LTTng makes the file of a description before it writes there.
#[test]
fn a_description_that_is_empty_yet_is_waited_for() {
    let (whole, growing) = (paths::fresh("follow", "whole"), paths::fresh("follow", "growing"));
    let mut command = weir();
    command.args(["record", "-q", "-e", "rec:ints", "-o", whole.to_str().unwrap(), "--"]);
    let recorded = command.arg(target::program("record")).args(["i", "1", "100"]).output().unwrap();
    assert!(recorded.status.success(), "{}", text(&recorded.stderr));
    let below = growing.join("ust/uid/1000/64-bit");
    fs::create_dir_all(&below).unwrap();
    fs::write(below.join("metadata"), "").unwrap();
    let mut command = weir();
    command.args(["view", "--follow"]).arg(&growing).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut running = Running::start(&mut command);
    let mut said = BufReader::new(running.0.stderr.take().unwrap()).lines();
    let line = said.next().unwrap().unwrap();
    assert!(line.contains("64-bit/metadata is empty yet; waiting"), "{line}");
    for entry in fs::read_dir(&whole).unwrap().flatten().filter(|entry| entry.file_name() != "metadata") {
        fs::copy(entry.path(), below.join(entry.file_name())).unwrap();
    }
    fs::copy(whole.join("metadata"), growing.join("metadata.new")).unwrap();
    fs::rename(growing.join("metadata.new"), below.join("metadata")).unwrap();
    let out = BufReader::new(running.0.stdout.take().unwrap());
    let lines: Vec<String> = out.lines().map_while(Result::ok).take(100).collect();
    assert_eq!(lines, text(&view(&[], &whole).stdout).lines().collect::<Vec<_>>());
    running.interrupt();
    assert_eq!(running.ended(), Some(0));
    // What is not there is a mistake, and so is what is no description.
    assert_eq!(view(&["--follow"], &growing.join("nothing")).status.code(), Some(1));
    // A signal ends the waiting, too.
    fs::write(below.join("metadata"), "").unwrap();
    let mut command = weir();
    command.args(["view", "--follow"]).arg(&growing).stderr(Stdio::piped());
    let mut running = Running::start(&mut command);
    BufReader::new(running.0.stderr.take().unwrap()).lines().next().unwrap().unwrap();
    running.interrupt();
    assert_eq!(running.ended(), Some(0));
}
