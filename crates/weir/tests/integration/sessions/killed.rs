//! A daemon that is killed, at any moment of what it does: what it recorded is read back whole, each event once; the programs run on as
//! if nobody had looked; the next command says what became of it.
//!
//! `WEIR_SESSION_KILLS=SEED:KILLS` for other kills than those of every day (`cargo xtask soak session-kill`).

use std::process::Stdio;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use testkit::{random, wait};

use crate::sessions::check::{DEADLINE, Emitter, Place, is_alive, started, text};

#[test]
fn a_daemon_killed_at_any_moment_leaves_whole_traces_and_whole_programs() {
    let (seed, kills) = random::seed_and_count("WEIR_SESSION_KILLS", (1, 3));
    let mut events = 0;
    for round in (seed - 1) * kills + 1..=seed * kills {
        events += round_of(round, &mut random::state(round));
    }
    println!("counts: kills={kills} events={events}");
}

/// How many events the daemon had recorded when it was killed.
fn round_of(round: u64, random: &mut u64) -> u64 {
    let place = Place::new("killed");
    let mut program = Emitter::start();
    place.does(&["create", "s", "-p", &program.pid()]);
    place.does(&["enable", "s", "ses:one"]);
    program.tell("g 3");
    // What it does when it is killed: begins, records, is changed, begins a new folder, stops.
    let what = random::next(random) % 5;
    if what > 0 {
        place.does(&["start"]);
        // Something of it is recorded, however seldom the program runs.
        let is_recorded = || place.status()["s"]["recorded"].as_u64() > Some(0);
        assert!(wait::until(DEADLINE, is_recorded), "{}", place.logs());
    }
    let command: &[&str] = match what {
        0 => &["start"],
        1 => &["status"],
        2 => &["enable", "ses:two"],
        3 => &["rotate"],
        _ => &["stop"],
    };
    let daemon = place.daemon().unwrap();
    let full = [&["record"], command].concat();
    let client = place.command(&full).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // A moment like any other: the verdict does not depend on it.
    std::thread::sleep(Duration::from_micros(random::next(random) % 400_000));
    kill(daemon, Signal::SIGKILL).unwrap();
    let context = format!("round {round}, {command:?}");
    let output = client.wait_with_output().unwrap();
    let said = text(&output.stderr);
    let is_told = said.contains("the daemon ended before it answered")
        || said.contains("was ended; its sessions are here");
    assert!(output.status.success() || is_told, "{context}: {said}");
    assert!(wait::until(DEADLINE, || !is_alive(daemon.as_raw())), "{context}");
    if what == 0 && output.status.success() && is_told {
        // It came to the next daemon, and was done.
        place.does(&["stop"]);
    }
    // The next command, unless that one was it, says what became of the session, which is there.
    let output = place.record(&["status", "-f", "json"]);
    let told = said + &text(&output.stderr);
    assert!(
        told.contains(&format!("(process {daemon}) was ended; its sessions are here, and do not record: s")),
        "{context}: {told}"
    );
    let status: serde_json::Value = serde_json::from_str(&text(&output.stdout)).expect(&context);
    assert_eq!(status["state"], "stopped", "{context}: {status}");
    // Its recordings have ended, since it was waited for them.
    program.is_untouched();
    let emitted = program.tell("h");
    let recorded = match place.folder.join("s/1").exists() {
        true => check_trace(&place, &emitted, &context),
        // Killed before anything was recorded.
        false => 0,
    };
    assert_eq!(status["recorded"], recorded, "{context}: {told}");
    assert!(recorded > 0 || what == 0, "{context}: {told}");
    // It goes on.
    place.does(&["start"]);
    program.tell("a 100");
    let ended = place.does(&["destroy"]);
    assert!(ended.contains(&format!("{} events are in", recorded + 100)), "{context}: {ended}");
    assert_eq!(place.read("s").one[&0], (0..100).collect::<Vec<i64>>(), "{context}");
    program.is_untouched();
    program.ends_well();
    recorded
}

/// Each folder has of each thread all events from the first to the last, but for those that are counted as discarded; no event is in
/// two. How many there are.
#[track_caller]
fn check_trace(place: &Place, emitted: &str, context: &str) -> u64 {
    let emitted: Vec<i64> = emitted.split(' ').skip(1).map(|count| count.parse().unwrap()).collect();
    let mut next = [0; 3];
    let mut count = 0;
    for number in 1.. {
        let folder = format!("s/{number}");
        if !place.folder.join(&folder).exists() {
            break;
        }
        let read = place.read(&folder);
        let mut missing = 0;
        for (thread, numbers) in &read.one {
            let at = *thread as usize - 1;
            let breaks: Vec<&[i64]> = numbers.windows(2).filter(|pair| pair[0] >= pair[1]).collect();
            assert!(breaks.is_empty(), "{context}: thread {thread} of {folder} has events twice: {breaks:?}");
            missing += (numbers[numbers.len() - 1] - numbers[0] + 1) as u64 - numbers.len() as u64;
            assert!(
                numbers[0] >= next[at],
                "{context}: thread {thread} of {folder} has events of the folder before"
            );
            next[at] = numbers[numbers.len() - 1] + 1;
            assert!(
                next[at] <= emitted[at],
                "{context}: thread {thread} of {folder} has events that are none"
            );
        }
        // On a machine that is busy rings may have been full.
        assert!(
            missing <= read.lost,
            "{context}: {missing} are missing in {folder}, {} were discarded",
            read.lost
        );
        count += read.count() as u64;
    }
    count
}

/// The recording before a change has let its processes go, or lost them already: it takes them back.
#[test]
fn a_recording_that_is_killed_as_it_takes_over_is_not_missed() {
    let (seed, kills) = random::seed_and_count("WEIR_SESSION_KILLS", (1, 3));
    let mut random = random::state(seed);
    for round in 0..kills {
        let (place, mut program) = started("killed-change", "ses:one", &["--size", "1M"]);
        program.tell("g 3");
        let daemon = place.daemon().unwrap();
        let before = place.status()["s"]["recorder"].as_i64().unwrap() as i32;
        let mut client = place.command(&["record", "add-context", "s", "-t", "vtid"]);
        let client = client.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let next = || children(daemon.as_raw()).into_iter().find(|pid| *pid != before);
        let next = wait::until(DEADLINE, || next().is_some()).then(next).flatten().expect("a recorder");
        // A moment like any other: the verdict does not depend on it.
        std::thread::sleep(Duration::from_micros(random::next(&mut random) % 150_000));
        kill(nix::unistd::Pid::from_raw(next), Signal::SIGKILL).unwrap();
        let said = text(&client.wait_with_output().unwrap().stderr);
        // It may have been the recording already.
        let state = || place.status()["s"]["state"].clone();
        assert!(wait::until(DEADLINE, || state() == "recording" || state() == "stopped"), "{round}: {said}");
        if said.contains("into ") {
            assert!(wait::until(DEADLINE, || state() == "stopped"), "{round}: {said}{}", place.logs());
            place.does(&["start"]);
        }
        let recorded = || place.status()["s"]["recorded"].as_u64().unwrap();
        let now = recorded();
        assert!(wait::until(DEADLINE, || recorded() > now + 1000), "{round}: {said}{}", place.logs());
        program.tell("h");
        place.does(&["destroy", "s"]);
        program.is_untouched();
        program.ends_well();
        for (thread, numbers) in &place.read("s").one {
            assert!(numbers.is_sorted_by(|a, b| a < b), "{round}: thread {thread} has events twice: {said}");
        }
    }
}

/// The processes that one has started and that are there.
fn children(pid: i32) -> Vec<i32> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    text.split_whitespace().filter_map(|pid| pid.parse().ok()).collect()
}

#[test]
fn a_recording_that_is_killed_is_told_and_the_session_goes_on() {
    let place = Place::new("recorder");
    let mut program = Emitter::start();
    place.does(&["create", "s", "-p", &program.pid()]);
    place.does(&["enable", "s", "ses:one"]);
    place.does(&["start"]);
    program.tell("a 10");
    let recorded = || place.status()["s"]["recorded"].as_u64().unwrap();
    assert!(wait::until(DEADLINE, || recorded() > 0), "{:?}", place.status());
    program.tell("a 10");
    let recorder = place.status()["s"]["recorder"].as_i64().unwrap() as i32;
    kill(nix::unistd::Pid::from_raw(recorder), Signal::SIGKILL).unwrap();
    assert!(wait::until(DEADLINE, || place.status()["s"]["state"] == "stopped"), "{:?}", place.status());
    let note = place.status()["s"]["note"].to_string();
    assert!(note.contains("its recording ended by a signal;"), "{note}");
    let read = place.read("s/1");
    assert!((10..=read.count() as u64).contains(&recorded()), "{} of {}", recorded(), read.count());
    program.tell("a 10");
    // The next one takes over what that left in the program.
    place.does(&["start"]);
    program.tell("a 10");
    place.does(&["destroy"]);
    assert_eq!(place.read("s/2").one[&0], (30..40).collect::<Vec<i64>>());
    program.is_untouched();
    program.ends_well();
}
