//! `weir record --to -` and `weir view -`: a trace through a pipe is the trace that a folder would have been; and the programs go on, even if its reader stalls or ends
//! and everything is counted.

use std::fs::{self, File};
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::Path;
use std::process::{Child, ChildStderr, ChildStdout, Command, Stdio};

use testkit::{paths, wait};

use super::{Endless, LIMIT, numbers, parsed, program, text, weir};

/// A recorder whose trace somebody is to read; ended at the latest with the test.
struct Sending(Child);

impl Sending {
    fn start(arguments: &[&str]) -> Sending {
        let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
        command.args(["record", "--to", "-"]).args(arguments);
        Sending(command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap())
    }

    fn out(&mut self) -> ChildStdout {
        self.0.stdout.take().unwrap()
    }

    fn err(&mut self) -> ChildStderr {
        self.0.stderr.take().unwrap()
    }

    /// What it says until its end, and its exit code.
    fn ended(&mut self) -> (String, Option<i32>) {
        let mut said = String::new();
        self.err().read_to_string(&mut said).unwrap();
        (said, wait::for_exit(&mut self.0, LIMIT).expect("it does not end").code())
    }
}

impl Drop for Sending {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn view(options: &[&str], from: impl Into<Stdio>) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
    command.args(["view", "--clock-gmt"]).args(options).stdin(from);
    command
}

/// The number that stands before these words, or 0.
fn before(said: &str, what: &str) -> u64 {
    let number = said.split_once(what).and_then(|(before, _)| before.rsplit([' ', '\n']).next());
    number.map_or(0, |number| number.parse().expect(said))
}

#[test]
fn what_comes_through_a_pipe_is_what_a_folder_has() {
    let folder = paths::fresh("record", "sent");
    let bytes = folder.with_extension("weir");
    let program = program();
    for (format, options) in [("ctf-1.8", &["--follow"][..]), ("ctf-2", &[])] {
        let mut sending = Sending::start(&[
            "-e",
            "rec:*",
            "--trace-format",
            format,
            "--size",
            "8M",
            "--",
            &program,
            "m",
            "2",
            "600",
        ]);
        let received = view(&[options, &["-"]].concat(), sending.out()).output().unwrap();
        let (said, code) = sending.ended();
        // What the program prints is no part of the trace.
        assert!(code == Some(0) && said.contains("emitted 1200\n"), "{said}");
        assert!(
            said.contains("weir: 1200 events recorded;") && said.contains("to standard output\n"),
            "{said}"
        );
        let read = parsed(&received, "weir view -");
        assert_eq!((read.events.len(), read.discarded), (1200, 0), "{said}");
        for numbers in numbers('m', &read.events).values() {
            assert!(numbers.iter().copied().eq(0..600));
        }
    }
    // The bytes in a file; kept as a folder; and that folder.
    let file = File::create(&bytes).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
    command.args(["record", "-q", "-e", "rec:ints", "--to", "-", "--", &program, "i", "2", "5000"]);
    assert!(command.stdout(file).stderr(Stdio::null()).status().unwrap().success());
    let saved = folder.to_str().unwrap();
    let of_file = view(&[bytes.to_str().unwrap()], Stdio::null()).output().unwrap();
    let of_pipe = view(&["--save", saved, "-"], File::open(&bytes).unwrap()).output().unwrap();
    let of_folder = view(&[saved], Stdio::null()).output().unwrap();
    assert!(of_file.status.success() && !of_file.stdout.is_empty(), "{}", text(&of_file.stderr));
    assert!(of_file.stdout == of_pipe.stdout && of_pipe.stdout == of_folder.stdout);
    let stats =
        |place: &[&str]| text(&view(&[&["--stats"], place].concat(), Stdio::null()).output().unwrap().stdout);
    let again = folder.with_extension("again");
    assert_eq!(stats(&["--save", again.to_str().unwrap(), bytes.to_str().unwrap()]), stats(&[saved]));
    // Those of several machines are merged by time, while they come.
    let (mut one, mut other) = (
        Sending::start(&["-q", "-e", "rec:ints", "--", &program, "i", "1", "700"]),
        Sending::start(&["-q", "-e", "rec:ints", "--", &program, "i", "1", "500"]),
    );
    let (from, fd) = (other.out(), one.out());
    let second = format!("/proc/{}/fd/{}", std::process::id(), std::os::fd::AsRawFd::as_raw_fd(&from));
    let both = view(&["-F", "-", &second], fd).output().unwrap();
    assert_eq!(parsed(&both, "weir view").events.len(), 1200);
    // Cut: what was whole, what is wrong, and the exit code of a damaged trace.
    let whole = fs::read(&bytes).unwrap();
    fs::write(&bytes, &whole[..whole.len() - 30]).unwrap();
    let cut = view(&[bytes.to_str().unwrap()], Stdio::null()).output().unwrap();
    let said = format!("at byte {}: the trace is cut", whole.len() - 30);
    assert!(cut.status.code() == Some(1) && text(&cut.stderr).contains(&said), "{}", text(&cut.stderr));
    assert!(!cut.stdout.is_empty() && of_file.stdout.starts_with(&cut.stdout[..1000]));
    fs::remove_file(bytes).unwrap();
    fs::remove_dir_all(again).unwrap();
    fs::remove_dir_all(folder).unwrap();
}

#[test]
fn an_event_is_shown_while_the_recorder_goes_on_and_nothing_is_left() {
    let process = Endless::start("i", "1");
    let place = paths::fresh("record", "sent-live");
    fs::create_dir_all(&place).unwrap();
    let mut sending =
        Sending::start(&["-q", "-e", "rec:ints", "--filter", "n % 5000 == 0", "-p", &process.pid()]);
    let mut command = view(&["--follow", "-"], sending.out());
    let mut viewer = command.env("TMPDIR", &place).stdout(Stdio::piped()).spawn().unwrap();
    // It holds the pipe too.
    drop(command);
    let mut lines = BufReader::new(viewer.stdout.take().unwrap()).lines();
    let some: Vec<String> = lines.by_ref().take(20).map(Result::unwrap).collect();
    assert!(some.iter().all(|line| line.contains("rec:ints")), "{some:?}");
    assert!(sending.0.try_wait().unwrap().is_none(), "the recorder has ended");
    // What is received is for its owner alone.
    let below: Vec<_> = fs::read_dir(&place).unwrap().map(|entry| entry.unwrap()).collect();
    let mode = std::os::unix::fs::PermissionsExt::mode(&below[0].metadata().unwrap().permissions());
    assert_eq!((below.len(), mode & 0o777), (1, 0o700));
    let pid = nix::unistd::Pid::from_raw(viewer.id() as i32);
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGINT).unwrap();
    assert!(lines.all(|line| line.is_ok()));
    assert_eq!(wait::for_exit(&mut viewer, LIMIT).expect("it does not end").code(), Some(0));
    assert_eq!(fs::read_dir(&place).unwrap().count(), 0);
    // The reader is gone: that ends the recording within seconds, and never the program.
    let (said, code) = sending.ended();
    assert_eq!(code, Some(3), "{said}");
    assert!(
        said.contains("cannot write standard output: Broken pipe") && said.contains("the trace ends there"),
        "{said}"
    );
    assert!(Path::new(&format!("/proc/{}", process.pid())).exists());
    fs::remove_dir(place).unwrap();
}

#[test]
fn a_reader_that_stalls_costs_events_that_are_counted_and_no_time() {
    // Each CPU's ring, what the pipe holds and what weir holds for it have no room for so many.
    let (program, count) = (program(), 1_500_000);
    let mut sending =
        Sending::start(&["-e", "rec:ints", "--size", "64K", "--", &program, "i", "1", &count.to_string()]);
    let out = sending.out();
    // The program is over, and nobody has read a byte.
    let mut said = BufReader::new(sending.err());
    let mut line = String::new();
    said.read_line(&mut line).unwrap();
    assert_eq!(line, format!("emitted {count}\n"));
    let read = parsed(&view(&["-"], out).output().unwrap(), "weir view -");
    said.read_to_string(&mut line).unwrap();
    assert_eq!(wait::for_exit(&mut sending.0, LIMIT).expect("it does not end").code(), Some(0), "{line}");
    let recorded = read.events.len() as u64;
    assert!(recorded > 0 && read.discarded > 0, "{line}");
    assert_eq!(
        (before(&line, " events recorded"), before(&line, " discarded: the ring")),
        (recorded, read.discarded),
        "{line}"
    );
    assert_eq!(recorded + read.discarded, count, "{line}");
    for numbers in numbers('i', &read.events).values() {
        assert!(numbers.is_sorted_by(|a, b| a < b), "an order of its own");
    }
}

/// Bytes of a trace of so many events.
fn recorded(count: &str) -> Vec<u8> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
    command.args(["record", "-q", "-e", "rec:ints", "--to", "-", "--", &program(), "i", "1", count]);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    output.stdout
}

#[test]
fn a_file_that_may_not_grow_ends_what_is_received_after_its_last_whole_packet() {
    let folder = paths::fresh("record", "sent-limit");
    let (bytes, place) = (folder.with_extension("weir"), folder.with_extension("tmp"));
    fs::create_dir_all(&place).unwrap();
    fs::write(&bytes, recorded("100000")).unwrap();
    let limited = |options: &[&str]| {
        let mut command = Command::new("prlimit");
        command.arg("--fsize=200000").arg(env!("CARGO_BIN_EXE_weir")).args(["view"]).args(options);
        command.env("TMPDIR", &place).stdin(File::open(&bytes).unwrap()).output().unwrap()
    };
    let saved = folder.to_str().unwrap();
    for options in [&["-"][..], &["--save", saved, "-"]] {
        let output = limited(options);
        let said = text(&output.stderr);
        assert!(output.status.code() == Some(1) && said.contains("File too large"), "{output:?}: {said}");
        assert_eq!(fs::read_dir(&place).unwrap().count(), 0);
    }
    // What was kept has no part of a packet.
    let kept = view(&[saved], Stdio::null()).output().unwrap();
    assert!(kept.status.success() && kept.stderr.is_empty(), "{}", text(&kept.stderr));
    assert!(!kept.stdout.is_empty());
    fs::remove_file(bytes).unwrap();
    fs::remove_dir_all(folder).unwrap();
    fs::remove_dir(place).unwrap();
}

#[test]
fn a_stream_without_a_trace_hides_no_other() {
    let good = paths::fresh("record", "sent-beside");
    fs::write(&good, recorded("500")).unwrap();
    let mut viewer = view(&["-F", "-", good.to_str().unwrap()], Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = BufReader::new(viewer.stderr.take().unwrap());
    let mut line = String::new();
    said.read_line(&mut line).unwrap();
    assert!(line.contains("waiting for the recorder of standard input"), "{line}");
    // That one ends, before it has said anything.
    drop(viewer.stdin.take());
    let output = viewer.wait_with_output().unwrap();
    said.read_to_string(&mut line).unwrap();
    assert_eq!(output.status.code(), Some(1), "{line}");
    assert!(line.contains("standard input: ") && line.contains("nothing came"), "{line}");
    assert_eq!(text(&output.stdout).lines().count(), 500, "{line}");
    fs::remove_file(good).unwrap();
}

/// A pipe may be O_NONBLOCK: a write that would block is no error.
#[test]
fn a_pipe_that_does_not_block_is_waited_for() {
    use std::os::unix::net::UnixStream;
    let (mut from, to) = UnixStream::pair().unwrap();
    to.set_nonblocking(true).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
    command.args(["record", "-q", "-e", "rec:ints", "--to", "-", "--", &program(), "i", "1", "200000"]);
    let mut sending =
        Sending(command.stdout(std::os::fd::OwnedFd::from(to)).stderr(Stdio::piped()).spawn().unwrap());
    drop(command);
    // The program is over before a byte is read.
    let mut said = BufReader::new(sending.err());
    let mut line = String::new();
    said.read_line(&mut line).unwrap();
    assert!(line.starts_with("emitted"), "{line}");
    let mut bytes = Vec::new();
    from.read_to_end(&mut bytes).unwrap();
    said.read_to_string(&mut line).unwrap();
    assert_eq!(wait::for_exit(&mut sending.0, LIMIT).expect("it does not end").code(), Some(0), "{line}");
    assert!(bytes.len() > 1 << 20, "{}", bytes.len());
}

#[test]
fn what_cannot_be_sent_or_received_is_refused() {
    let program = program();
    let folder = paths::fresh("record", "sent-refused");
    let check = |arguments: &[&str], code: i32, wanted: &str| {
        let output = weir(arguments);
        let said = text(&output.stderr);
        assert!(output.status.code() == Some(code) && said.contains(wanted), "{arguments:?}: {said}");
        assert!(output.stdout.is_empty());
    };
    let record = |options: &[&str], wanted: &str| {
        check(&[&["record", "-e", "rec:*"], options, &["--", &program, "i", "1", "1"]].concat(), 2, wanted);
    };
    record(&["--to", "trace"], "possible values: -");
    record(&["--to", "-", "-o", folder.to_str().unwrap()], "cannot be used with");
    record(&["--to", "-", "--overwrite"], "cannot be used with");
    record(&["--to", "-", "--file-size", "1M"], "cannot be used with");
    record(&[], "--output <DIR>");
    // Messages would be among the bytes.
    let both = File::create(folder.with_extension("both")).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
    command.args(["record", "-e", "rec:*", "--to", "-", "--", &program, "i", "1", "1"]);
    let status = command.stdout(both.try_clone().unwrap()).stderr(both).status().unwrap();
    let said = fs::read_to_string(folder.with_extension("both")).unwrap();
    assert!(status.code() == Some(2) && said.contains("leave out `2>&1`"), "{said}");
    let other = folder.with_extension("both");
    let other = other.to_str().unwrap();
    check(&["view", other], 1, "at byte 0: this is no trace that `weir record --to -` has sent");
    check(&["view", "/dev/null"], 1, "nothing came");
    check(&["view", "--stats", other], 2, "add --save DIR");
    check(&["view", "-f", "chrome", other], 2, "add --save DIR");
    check(&["view", "--save", "x", "."], 2, "it keeps one trace");
    check(&["view", "--save", "/proc", other], 1, "/proc: it is not empty");
    fs::remove_file(other).unwrap();
}
