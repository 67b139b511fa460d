//! Sessions of programs that nobody has named: whoever loads LTTng-UST is recorded, from its first event on; in several channels and sessions at once.
//!
//! The oracle is the program, whose events are known by their numbers. Each test's programs have a name of their own, so that those of others on the
//! machine are not recorded.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;
use testkit::{Daemon, lttng, skip, wait};

use crate::sessions::check::{DEADLINE, Place};

/// A place with a program in it; none, loudly, where LTTng's headers are not. As long as the last is held no test records every program of the machine.
fn place_with(name: &str) -> Option<(Place, PathBuf, File)> {
    let (place, alone) = (Place::new(name), lttng::alone());
    // A command has 15 characters.
    let called = format!("{name}{}", std::process::id());
    let program = place.folder.join(called.get(..14).unwrap_or(&called));
    match lttng::compile(&["ferry.c"], &program, &[]) {
        Ok(()) => Some((place, program, alone)),
        Err(missing) => {
            skip::skip("lttng-provider", missing);
            None
        }
    }
}

fn name_of(program: &Path) -> &str {
    program.file_name().unwrap().to_str().unwrap()
}

impl Place {
    /// A session of that program.
    fn session_of(&self, session: &str, program: &Path, options: &[&str]) {
        self.does(&[&["create", session, "--user", "-o", session], options].concat());
        self.does(&["track", session, &format!("--comm={}", name_of(program))]);
    }

    fn ferry(&self, program: &Path, args: &[&str]) -> Command {
        let mut command = Command::new(program);
        command.args(args).current_dir(&self.folder).env("LTTNG_UST_REGISTER_TIMEOUT", "0");
        command
    }

    /// The fields of an event of a trace, in the order of time; with the process, where that was recorded.
    #[track_caller]
    fn recorded(&self, folder: &str, event: &str) -> Vec<Value> {
        let output = self.command(&["view", "-f", "json", folder]).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{folder}: {said}");
        let lines = String::from_utf8(output.stdout).unwrap();
        let events = lines.lines().map(|line| serde_json::from_str::<Value>(line).expect(line));
        let fields = |mut found: Value| {
            let mut fields = found["fields"].take();
            fields["vpid"] = found["context"]["vpid"].take();
            fields
        };
        events.filter(|found| found["event"] == event).map(fields).collect()
    }

    fn rounds(&self, folder: &str) -> Vec<i64> {
        let mut rounds: Vec<i64> = self
            .recorded(folder, "ferry:lands")
            .iter()
            .map(|fields| fields["minutes"].as_i64().unwrap())
            .collect();
        rounds.sort_unstable();
        rounds
    }
}

/// The numbers that so many programs of so many rounds emit, in order.
fn rounds_of(programs: usize, rounds: i64) -> Vec<i64> {
    (0..rounds).flat_map(|round| vec![round; programs]).collect()
}

/// What weir says where it had no CPU while a program waited for it; events may be missing then, and the test is of another run.
fn had_no_cpu(said: &str) -> bool {
    let words = [
        "unanswered",
        "ran on before",
        "were not seen",
        "before probes were in them",
        "before weir could stop it",
    ];
    words.iter().any(|words| said.contains(words))
}

/// Has `run` say what weir has said until weir was in time.
fn in_time(mut run: impl FnMut() -> String) -> String {
    let mut said = run();
    for _ in 0..20 {
        if !had_no_cpu(&said) {
            break;
        }
        said = run();
    }
    said
}

#[test]
fn programs_that_come_are_recorded_from_their_first_event_on() {
    let Some((place, program, _alone)) = place_with("comes") else { return };
    let other = program.with_file_name(format!("x{}", name_of(&program)));
    std::fs::copy(&program, &other).unwrap();
    in_time(|| {
        place.session_of("s", &program, &[]);
        place.does(&["track", "s", &format!("--comm={}", name_of(&other))]);
        place.does(&["enable", "s", "ferry:*"]);
        let said = place.does(&["start", "s"]);
        assert!(said.contains("records programs that load LTTng-UST"), "{said}");
        for program in [&program, &other, &program] {
            assert!(place.ferry(program, &["50"]).status().unwrap().success());
        }
        let status = &place.status()["s"];
        assert_eq!(status["state"], "recording", "{status}");
        let parts = status["parts"].as_array().unwrap().len();
        let said = place.does(&["stop", "s"]) + &place.does(&["destroy", "s"]);
        if !had_no_cpu(&said) {
            assert_eq!(parts, 2, "{said}{status}");
            assert_eq!(place.rounds("s"), rounds_of(3, 50), "{said}");
            assert_eq!(place.recorded("s", "ferry:boarded").len(), 150);
            assert_eq!(place.rounds(&format!("s/{}", name_of(&other))), rounds_of(1, 50));
        }
        std::fs::remove_dir_all(place.folder.join("s")).unwrap();
        said
    });
}

#[test]
fn many_that_come_at_once_are_recorded_each() {
    let Some((place, program, _alone)) = place_with("many") else { return };
    in_time(|| {
        place.session_of("s", &program, &[]);
        place.does(&["enable", "s", "ferry:lands"]);
        place.does(&["start", "s"]);
        let all: Vec<_> = (0..12).map(|_| place.ferry(&program, &["5"]).spawn().unwrap()).collect();
        all.into_iter().for_each(|mut one| assert!(one.wait().unwrap().success()));
        let said = place.does(&["destroy", "s"]);
        if !had_no_cpu(&said) {
            assert_eq!(place.rounds("s"), rounds_of(12, 5), "{said}");
        }
        std::fs::remove_dir_all(place.folder.join("s")).unwrap();
        said
    });
}

#[test]
fn channels_have_rings_of_their_own() {
    let Some((place, program, _alone)) = place_with("channel") else { return };
    in_time(|| {
        place.session_of("s", &program, &[]);
        place.does(&["enable-channel", "s", "small", "--size", "64K"]);
        place.does(&["enable-channel", "s", "last", "--overwrite", "--size", "4K"]);
        place.does(&["enable", "s", "ferry:lands", "-c", "small"]);
        place.does(&["enable", "s", "ferry:boarded"]);
        place.does(&["enable", "s", "ferry:leaves", "-c", "last"]);
        place.does(&["add-context", "s", "-t", "vpid", "-c", "small"]);
        place.does(&["start", "s"]);
        (0..2).for_each(|_| assert!(place.ferry(&program, &["400"]).status().unwrap().success()));
        let snapshot = place.does(&["snapshot", "s"]);
        let disabled = place.does(&["disable-channel", "s", "small"]);
        assert!(place.ferry(&program, &["3"]).status().unwrap().success());
        let said = place.does(&["destroy", "s"]) + &snapshot + &disabled;
        if !had_no_cpu(&said) {
            assert_eq!(place.rounds("s/small"), rounds_of(2, 400), "{said}");
            assert!(place.recorded("s/small", "ferry:lands").iter().all(|fields| fields["vpid"].is_number()));
            let boarded = format!("s/{}", name_of(&program));
            assert_eq!(place.recorded(&boarded, "ferry:boarded").len(), 803, "{said}");
            let kept = place.recorded("s/last", "ferry:leaves");
            assert!(!kept.is_empty() && kept.len() < 800, "{}: {said}", kept.len());
        }
        std::fs::remove_dir_all(place.folder.join("s")).unwrap();
        said
    });
}

#[test]
fn two_sessions_record_a_program_each_from_its_first_event_on() {
    let Some((place, program, _alone)) = place_with("both") else { return };
    in_time(|| {
        for session in ["one", "two"] {
            place.session_of(session, &program, &[]);
            place.does(&["enable", session, "ferry:*"]);
            place.does(&["start", session]);
        }
        (0..2).for_each(|_| assert!(place.ferry(&program, &["20"]).status().unwrap().success()));
        let said = place.does(&["destroy", "one"]) + &place.does(&["destroy", "two"]);
        for session in ["one", "two"] {
            if !had_no_cpu(&said) {
                assert_eq!(place.rounds(session), rounds_of(2, 20), "{session}: {said}");
                assert_eq!(place.recorded(session, "ferry:horn").len(), 40);
            }
            std::fs::remove_dir_all(place.folder.join(session)).unwrap();
        }
        said
    });
}

/// A program that has begun, and emits when it is told to.
fn waiting(place: &Place, program: &Path) -> Daemon {
    let waiting = Daemon::spawn(place.ferry(program, &["10", "waits"])).unwrap();
    let maps = format!("/proc/{}/maps", waiting.pid());
    let has_begun = || std::fs::read_to_string(&maps).is_ok_and(|maps| maps.contains("liblttng-ust.so"));
    assert!(wait::until(DEADLINE, has_begun), "it has begun");
    waiting
}

#[test]
fn processes_that_run_are_recorded_as_far_as_they_are_tracked() {
    let Some((place, program, _alone)) = place_with("track") else { return };
    let mut programs: Vec<Daemon> = (0..4).map(|_| waiting(&place, &program)).collect();
    let pids: Vec<u64> = programs.iter().map(|program| program.pid().into()).collect();
    let mut emits = |at: usize| {
        programs[at].write("\n").unwrap();
        let maps = format!("/proc/{}/maps", pids[at]);
        let has_ended = || std::fs::read_to_string(&maps).map_or(true, |maps| maps.is_empty());
        assert!(wait::until(DEADLINE, has_ended), "it has ended");
    };
    place.session_of("s", &program, &[]);
    place.does(&["add-context", "s", "-t", "vpid"]);
    place.does(&["enable", "s", "ferry:lands"]);
    place.does(&["track", "s", &format!("--pid={},{}", pids[0], pids[1])]);
    place.does(&["start", "s"]);
    emits(0);
    place.does(&["untrack", "s", &format!("--pid={}", pids[1])]);
    emits(1);
    place.does(&["track", "s", "--pid"]);
    emits(2);
    place.does(&["untrack", "s", "--comm"]);
    emits(3);
    let said = place.does(&["destroy", "s"]);
    let recorded = place.recorded("s", "ferry:lands");
    let mut recorded: Vec<u64> = recorded.iter().map(|fields| fields["vpid"].as_u64().unwrap()).collect();
    recorded.dedup();
    assert_eq!(recorded, [pids[0], pids[2]], "{said}");
    assert_eq!(place.rounds("s"), rounds_of(2, 10), "{said}");
}

#[test]
fn what_is_enabled_while_a_program_runs_is_recorded_from_then_on() {
    let Some((place, program, _alone)) = place_with("enable") else { return };
    place.session_of("s", &program, &[]);
    place.does(&["enable", "s", "ferry:lands"]);
    place.does(&["start", "s"]);
    let mut running = waiting(&place, &program);
    place.does(&["enable", "s", "ferry:horn"]);
    place.does(&["disable", "s", "ferry:lands"]);
    place.does(&["rotate", "s"]);
    running.write("\n").unwrap();
    assert!(running.finish(DEADLINE).unwrap().status.success());
    let said = place.does(&["stop", "s"]);
    assert_eq!(place.recorded("s", "ferry:horn").len(), 10, "{said}");
    assert!(place.rounds("s").is_empty(), "{said}");
    place.does(&["clear", "s"]);
    assert_eq!(place.status()["s"]["recorded"], 0);
    let said = place.does(&["destroy", "s"]);
    assert!(said.contains("nothing was recorded"), "{said}");
}

#[test]
fn a_session_rotates_by_itself_and_misses_nothing() {
    let Some((place, program, _alone)) = place_with("rotates") else { return };
    in_time(|| {
        place.session_of("s", &program, &[]);
        place.does(&["enable", "s", "ferry:lands"]);
        place.refuses(1, &["rotate", "s", "--every", "10ms"], "every 100 ms at most");
        place.does(&["rotate", "s", "--every", "100ms"]);
        place.does(&["start", "s"]);
        let folders = || {
            let of = place.folder.join("s").join(name_of(&program));
            std::fs::read_dir(of).map_or(0, |folders| folders.count())
        };
        let mut programs = 0;
        let goes_on = || {
            assert!(place.ferry(&program, &["20"]).status().unwrap().success());
            programs += 1;
            folders() >= 3
        };
        assert!(wait::until(DEADLINE, goes_on), "it goes on in folders of its own");
        place.does(&["rotate", "s", "--at-size", "1G"]);
        assert_eq!(place.status()["s"]["rotate_bytes"], 1 << 30);
        let said = place.does(&["destroy", "s"]);
        if !had_no_cpu(&said) {
            assert_eq!(place.rounds("s"), rounds_of(programs, 20), "{said}");
        }
        std::fs::remove_dir_all(place.folder.join("s")).unwrap();
        said
    });
}

#[test]
fn a_program_that_has_none_of_the_events_runs_as_ever_and_is_not_told_of() {
    let Some((place, program, _alone)) = place_with("none") else { return };
    place.session_of("s", &program, &[]);
    place.does(&["enable", "s", "boat:*"]);
    place.does(&["start", "s"]);
    (0..3).for_each(|_| assert!(place.ferry(&program, &["5"]).status().unwrap().success()));
    let status = place.status();
    assert_eq!(status["s"]["parts"].as_array().unwrap().len(), 0, "{status:?}");
    let said = place.does(&["destroy", "s"]);
    assert!(said.contains("nothing was recorded") && !said.contains("boat"), "{said}");
}

#[test]
fn a_session_that_was_saved_is_loaded_as_it_was() {
    let place = Place::new("saved");
    place.does(&["create", "s", "--user", "-o", "s"]);
    place.does(&["enable-channel", "s", "c", "--size", "64K"]);
    place.does(&["enable", "s", "ferry:*", "--filter", "minutes > 3", "-c", "c"]);
    place.does(&["track", "s", "--comm=boat*"]);
    let saved = place.record(&["save", "s"]);
    assert!(saved.status.success());
    let before = place.status()["s"].clone();
    place.does(&["destroy", "s"]);
    std::fs::write(place.folder.join("saved.json"), &saved.stdout).unwrap();
    place.refuses(1, &["load", "/dev/null"], "a session is as weir record save writes it");
    place.does(&["load", "saved.json"]);
    assert_eq!(place.status()["s"], before);
    let mut load = place.command(&["record", "load", "--name", "t", "-o", "t"]);
    load.stdin(Stdio::from(std::fs::File::open(place.folder.join("saved.json")).unwrap()));
    assert!(load.status().unwrap().success());
    assert_eq!(place.status()["t"]["rules"], before["rules"]);
}

#[test]
fn programs_run_on_where_the_daemon_is_killed() {
    let Some((place, program, _alone)) = place_with("killed") else { return };
    place.session_of("s", &program, &[]);
    place.does(&["enable", "s", "ferry:lands"]);
    place.does(&["start", "s"]);
    let mut running = waiting(&place, &program);
    let is_recorded = || !place.status()["s"]["recorders"].as_array().unwrap().is_empty();
    assert!(wait::until(DEADLINE, is_recorded), "it is recorded");
    nix::sys::signal::kill(place.daemon().unwrap(), nix::sys::signal::Signal::SIGKILL).unwrap();
    running.write("\n").unwrap();
    assert!(running.finish(DEADLINE).unwrap().status.success());
    assert!(place.ferry(&program, &["3"]).status().unwrap().success());
    let said = place.does(&["start", "s"]);
    assert!(said.contains("was ended; its sessions are here"), "{said}");
    assert!(place.ferry(&program, &["3"]).status().unwrap().success());
    let said = place.does(&["destroy", "s"]);
    assert!(had_no_cpu(&said) || place.rounds("s").ends_with(&[2]), "{said}");
}
