//! How recordings end: by the user, with the program, or where the machine does not let them go on.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use testkit::{paths, skip, target, wait};

use super::{Endless, LIMIT, beside, numbers, program, read, text, weir};

/// Begins to record of the process, and waits until events come.
fn record_of(process: &Endless, folder: &Path, options: &[&str]) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
    command
        .args(["record", "-e", "rec:*", "-o", folder.to_str().unwrap(), "-p", &process.pid()])
        .args(options);
    let recorder = command.stderr(Stdio::piped()).spawn().unwrap();
    let has_events = || {
        let files = fs::read_dir(folder).map(|files| files.flatten().count()).unwrap_or(0);
        files > 1
    };
    assert!(wait::until(LIMIT, has_events), "no event");
    recorder
}

/// What a recorder says that the machine did not let go on.
#[track_caller]
fn said_of_failed(recorder: Child) -> String {
    let output = recorder.wait_with_output().unwrap();
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{said}");
    said
}

#[test]
fn a_running_process_is_recorded_until_ctrl_c() {
    let folder = paths::fresh("record", "running");
    let process = Endless::start("m", "2");
    // The smallest rings: two readers read all that is recorded.
    let recorder = record_of(&process, &folder, &["--size", "32K"]);
    // More than the first packet of each stream.
    let size = || -> u64 {
        fs::read_dir(&folder).unwrap().map(|file| file.unwrap().metadata().unwrap().len()).sum()
    };
    let begun = size();
    assert!(wait::until(LIMIT, || size() > begun), "{begun} bytes and no more");
    let pid = nix::unistd::Pid::from_raw(recorder.id() as i32);
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGINT).unwrap();
    let output = recorder.wait_with_output().unwrap();
    let said = text(&output.stderr);
    assert!(output.status.success(), "{said}");
    let read = read(&folder);
    assert!(said.contains(&format!("weir: {} events recorded", read.events.len())), "{said}");
    let numbers = numbers('m', &read.events);
    for numbers in numbers.values() {
        assert!(numbers.is_sorted_by(|a, b| a < b));
        // Recorded and discarded are all from the first to the last, but for those of other threads.
        let all = numbers.last().unwrap() - numbers[0] + 1;
        assert!(
            numbers.len() as u64 + read.discarded >= all as u64,
            "{} + {} of {all}",
            numbers.len(),
            read.discarded
        );
    }
    fs::remove_dir_all(folder).unwrap();
}

#[test]
fn what_was_committed_before_kill_9_is_in_the_trace() {
    // More of them, at other moments: the soak record-kill.
    for (round, kind) in ["i", "s", "b", "m"].into_iter().enumerate() {
        let folder = paths::fresh("record", &format!("kill-{round}"));
        let hurry = folder.with_extension("hurry");
        let _ = fs::remove_file(&hurry);
        // The first thread decides when: the others are anywhere in theirs.
        let count = (20_000 + 5_000 * round).to_string();
        let process = Endless::run(&[kind, "3", &count, hurry.to_str().unwrap(), "kill"]);
        let recorder = record_of(&process, &folder, &[]);
        fs::write(&hurry, "").unwrap();
        let output = recorder.wait_with_output().unwrap();
        let said = text(&output.stderr);
        assert!(output.status.success(), "{said}");
        let read = read(&folder);
        assert!(said.contains(&format!("weir: {} events recorded", read.events.len())), "{said}");
        // No event twice, none torn, none out of order.
        for numbers in numbers(kind.chars().next().unwrap(), &read.events).values() {
            assert!(numbers.is_sorted_by(|a, b| a < b), "round {round}");
        }
        fs::remove_file(&hurry).unwrap();
        fs::remove_dir_all(folder).unwrap();
    }
}

#[test]
fn a_full_disk_ends_the_trace_at_a_whole_packet() {
    let place = paths::fresh("record", "full");
    fs::create_dir_all(&place).unwrap();
    let mount = ["-t", "tmpfs", "-o", "size=300k", "none", place.to_str().unwrap()];
    if !Command::new("mount").args(mount).stderr(Stdio::null()).status().is_ok_and(|status| status.success())
    {
        return skip::skip("record-full-disk", "mounting is for root");
    }
    // One stream: a second one might have no room to say what it lost.
    testkit::cpu::stay_on_this();
    let folder = place.join("trace");
    let program = program();
    let args =
        ["record", "-e", "rec:ints", "-o", folder.to_str().unwrap(), "--", &program, "i", "1", "100000"];
    let output = weir(&args);
    let read = read(&folder);
    let unmounted = Command::new("umount").arg(&place).status().unwrap();
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{said}");
    assert!(said.contains("cannot write") && said.contains("No space left on device"), "{said}");
    assert_eq!(text(&output.stdout), "emitted 100000\n", "the program ran on");
    assert!(read.events.len() > 1000, "{} events", read.events.len());
    numbers('i', &read.events);
    // What is said to be recorded is there, and what is not is counted, also in the trace.
    let recorded = read.events.len() as u64;
    let before = |what: &str| {
        let number = said.split_once(what).and_then(|(before, _)| before.rsplit(' ').next());
        number.map_or(0, |number| number.parse::<u64>().unwrap())
    };
    assert_eq!(before(" events recorded"), recorded, "{said}");
    let lost = before(" discarded: the ring was full") + before(" that could not be written");
    assert_eq!((recorded + lost, read.discarded), (100_000, lost), "{said}");
    assert!(unmounted.success());
    fs::remove_dir(place).unwrap();
}

#[test]
fn a_file_that_may_not_grow_further_is_told_like_a_full_disk() {
    let folder = paths::fresh("record", "limited");
    let process = Endless::start("i", "1");
    let recorder = record_of(&process, &folder, &[]);
    let limit = ["--pid", &recorder.id().to_string(), "--fsize=4096"];
    assert!(Command::new("prlimit").args(limit).status().unwrap().success());
    let (said, read) = (said_of_failed(recorder), read(&folder));
    assert!(said.contains("cannot write") && said.contains("File too large"), "{said}");
    assert!(said.contains(&format!("weir: {} events recorded", read.events.len())), "{said}");
    fs::remove_dir_all(folder).unwrap();
}

#[test]
fn files_that_may_not_have_what_the_rings_need_are_told_before_anything_is_done() {
    let folder = paths::fresh("record", "limited-early");
    let mut command = Command::new("prlimit");
    command.args(["--fsize=262144", env!("CARGO_BIN_EXE_weir"), "record", "-e", "rec:ints", "-o"]);
    let output = command.arg(&folder).args(["--", &program(), "i", "1", "1"]).output().unwrap();
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{said}");
    assert!(said.contains("may have 262144 (RLIMIT_FSIZE, `ulimit -f`)"), "{said}");
    assert!(!folder.exists());
}

#[test]
fn a_folder_that_is_removed_meanwhile_is_told_and_ends_the_recording() {
    let folder = paths::fresh("record", "removed");
    let process = Endless::start("i", "1");
    let recorder = record_of(&process, &folder, &[]);
    // A stream may be made while the others are removed.
    assert!(wait::until(LIMIT, || fs::remove_dir_all(&folder).is_ok()));
    let said = said_of_failed(recorder);
    assert!(said.contains("the trace is gone, and nothing is recorded any more"), "{said}");
    assert!(!folder.exists());
}

/// The folder is made before processes are touched; where none can be attached to then, it is as it was.
#[test]
fn nothing_is_left_where_attaching_fails() {
    let event = format!("usdt:{}:odd:numbers", beside(&target::program("odd")));
    let process = Endless::start("i", "1");
    for options in [&[][..], &["--overwrite"], &["--trace-format", "ctf-2"]] {
        let free = paths::fresh("record", "unattached");
        let record = || {
            let to = ["record", "-e", &event, "-o", free.to_str().unwrap(), "-p", &process.pid()];
            let output = weir(&[&to[..], options].concat());
            assert_eq!(output.status.code(), Some(1), "{output:?}");
            assert!(text(&output.stderr).contains("not-mapped"), "{output:?}");
        };
        record();
        assert!(!free.exists(), "{options:?}");
        // One that was there stays.
        fs::create_dir(&free).unwrap();
        record();
        assert_eq!(fs::read_dir(&free).unwrap().count(), 0, "{options:?}");
        fs::remove_dir(&free).unwrap();
    }
}
