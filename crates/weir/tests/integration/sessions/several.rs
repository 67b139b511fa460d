//! Two sessions and a trace on one process, whose threads emit events all the time: they come, go and are killed in any order. The oracle is
//! the numbers of the events: each has of each thread all from the first to the last, but for those that it says it has discarded; and
//! what is there from before the first to after the last has them all.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Stdio;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use testkit::random::Source;
use testkit::{Daemon, random, target, wait};

use crate::life::worker::BEGUN;
use crate::sessions::check::{DEADLINE, Emitter, Place, misses_nothing};

const THREADS: usize = 8;
/// What is done to those that do not stay.
const STEPS: usize = 8;
/// Of the rings of each session: the second's are full now and then.
const SIZES: [&str; 2] = ["16M", "64K"];

/// The two sessions, and the trace.
const RUNS: [&str; 3] = ["s1", "s2", "trace"];

/// What is on a process, and what became of it.
struct Runs {
    place: Place,
    pid: String,
    trace: Option<Daemon>,
    /// Of sessions whether they record, and whether also another event.
    recording: [bool; 2],
    is_wide: [bool; 2],
    /// A session was starved where it was changed, and has reported what is missing then.
    misses: [bool; 2],
    /// Folders of recordings that were killed: what was in the rings, and what was discarded last, went with them.
    killed: BTreeSet<String>,
}

impl Runs {
    fn new(name: &str, pid: &str) -> Runs {
        let place = Place::new(name);
        for (session, size) in RUNS.iter().zip(SIZES) {
            place.does(&["create", session, "-p", pid, "--size", size]);
            place.does(&["enable", session, "ses:one"]);
        }
        Runs {
            place,
            pid: pid.to_owned(),
            trace: None,
            recording: [false; 2],
            is_wide: [false; 2],
            misses: [false; 2],
            killed: BTreeSet::new(),
        }
    }

    fn is_there(&self, run: usize) -> bool {
        self.recording.get(run).copied().unwrap_or(self.trace.is_some())
    }

    fn start(&mut self, run: usize) {
        if let Some(recording) = self.recording.get_mut(run) {
            self.place.does(&["start", RUNS[run]]);
            *recording = true;
            return;
        }
        let place = format!("usdt:{}:ses:one", testkit::paths::quoted(&target::program("emits")));
        let script = format!(
            "{place} {{ @n[arg0] = count(); @least[arg0] = min(arg1); @most[arg0] = max(arg1); }}
             {BEGUN}"
        );
        let mut command = self.place.command(&["trace", "-f", "json", "-p", &self.pid, "-e", &script]);
        command.stdin(Stdio::null());
        let mut trace = Daemon::spawn(command).unwrap();
        trace.line_with("begun", DEADLINE).unwrap();
        self.trace = Some(trace);
    }

    /// Has a session record another event too, or not any more: its processes are handed over.
    fn change(&mut self, session: usize) {
        let is_wide = &mut self.is_wide[session];
        let command = if *is_wide { "disable" } else { "enable" };
        let said = self.place.does(&[command, RUNS[session], "ses:two"]);
        assert!(misses_nothing(&said), "{said}");
        self.misses[session] |= said.contains("missing");
        *is_wide = !*is_wide;
    }

    /// Ends it in peace. Of the trace: its events by thread, which are all from the first to the last.
    fn stop(&mut self, run: usize, context: &str) -> u64 {
        if let Some(recording) = self.recording.get_mut(run) {
            self.place.does(&["stop", RUNS[run]]);
            *recording = false;
            return 0;
        }
        let trace = self.trace.take().unwrap();
        trace.signal(Signal::SIGINT).unwrap();
        let ended = trace.finish(DEADLINE).unwrap();
        assert!(ended.status.success(), "{context}: {ended:?}");
        let mut maps: BTreeMap<String, BTreeMap<String, i64>> = BTreeMap::new();
        for line in ended.stdout.lines() {
            let object: Value = serde_json::from_str(line).expect(line);
            if object["type"] != "map" {
                continue;
            }
            for (map, entries) in object["data"].as_object().into_iter().flatten() {
                let entries = entries.as_object().into_iter().flatten();
                let entries = entries.map(|(thread, value)| (thread.clone(), value.as_i64().expect(line)));
                maps.entry(map.clone()).or_default().extend(entries);
            }
        }
        let empty = BTreeMap::new();
        let of = |map: &str| maps.get(map).unwrap_or(&empty);
        for (thread, count) in of("@n") {
            let (least, most) = (of("@least")[thread], of("@most")[thread]);
            assert_eq!(most - least + 1, *count, "{context}: thread {thread}: {least} to {most}");
        }
        of("@n").values().sum::<i64>() as u64
    }

    /// Ends it in the middle of whatever it does.
    fn kill(&mut self, run: usize) {
        if self.recording.get(run).is_none() {
            let trace = self.trace.take().unwrap();
            trace.signal(Signal::SIGKILL).unwrap();
            trace.finish(DEADLINE).unwrap();
            return;
        }
        let session = RUNS[run];
        let recorder = self.recorder(session).unwrap_or_else(|| panic!("{session} does not record"));
        kill(recorder, Signal::SIGKILL).unwrap();
        let stopped = || self.place.status()[session]["state"] == "stopped";
        assert!(wait::until(DEADLINE, stopped), "{session} is still {}", self.place.status()[session]);
        self.recording[run] = false;
        let folder = |number: usize| format!("{session}/{number}");
        let last = (1..).take_while(|number| self.place.folder.join(folder(*number)).exists()).last();
        self.killed.extend(last.map(folder));
    }

    /// The process that records for a session.
    fn recorder(&self, session: &str) -> Option<Pid> {
        let ps = self.place.command(&["ps", "-f", "json"]).output().unwrap();
        let lines = String::from_utf8(ps.stdout).unwrap();
        let objects = lines.lines().map(|line| serde_json::from_str::<Value>(line).expect(line));
        let is_its = |object: &Value| {
            let probes = object["probes"].as_str().unwrap_or_default();
            object["pid"].as_u64() == self.pid.parse().ok() && probes.contains(&format!("session {session}"))
        };
        let pid = objects.into_iter().find(is_its)?["weir"].as_i64()?;
        Some(Pid::from_raw(pid as i32))
    }

    /// Events of a session that are there or were discarded; and whether a folder has an event that is none, or that is in another too.
    fn recorded(&self, session: &str, emitted: &[i64], context: &str) -> (u64, u64) {
        let (mut next, mut count, mut lost) = ([0; THREADS], 0, 0);
        for number in 1.. {
            let folder = format!("{session}/{number}");
            let folder = match self.place.folder.join(&folder).exists() {
                true => folder,
                // One that was never stopped has its streams in the folder itself.
                false if number == 1 && self.place.folder.join(session).join("metadata").exists() => {
                    session.into()
                }
                false => break,
            };
            let read = self.place.read(&folder);
            let mut missing = 0;
            for (thread, numbers) in &read.one {
                let at = *thread as usize - 1;
                let (first, last) = (numbers[0], numbers[numbers.len() - 1]);
                assert!(numbers.is_sorted_by(|a, b| a < b), "{context}: thread {thread} of {folder}");
                assert!(next[at] <= first && last < emitted[at], "{context}: thread {thread} of {folder}");
                missing += (last - first + 1) as u64 - numbers.len() as u64;
                next[at] = last + 1;
            }
            let is_killed = self.killed.contains(&folder);
            assert!(
                missing <= read.lost || is_killed,
                "{context}: {missing} are missing in {folder}: {}",
                read.lost
            );
            (count, lost) = (count + read.count() as u64, lost + read.lost);
        }
        (count, lost)
    }
}

/// One of them `stays`, and has them all.
fn check(seed: u64, stays: usize) {
    let mut random = Source::new(seed);
    let mut program = Emitter::start();
    let mut runs = Runs::new(&format!("several-{stays}"), &program.pid());
    let mut done = format!("seed {seed}, {} stays:", RUNS[stays]);
    runs.start(stays);
    program.tell(&format!("g {THREADS}"));
    let others: Vec<usize> = (0..RUNS.len()).filter(|run| *run != stays).collect();
    for _ in 0..STEPS {
        if let Some(session) =
            random.chance(20).then(|| random.below(2)).filter(|session| runs.is_there(*session))
        {
            done += &format!(" ~{}", RUNS[session]);
            runs.change(session);
        }
        let run = others[random.below(others.len())];
        match (runs.is_there(run), random.below(2)) {
            (false, _) => {
                done += &format!(" +{}", RUNS[run]);
                runs.start(run);
            }
            (true, 0) => {
                done += &format!(" -{}", RUNS[run]);
                runs.stop(run, &done);
            }
            (true, _) => {
                done += &format!(" x{}", RUNS[run]);
                runs.kill(run);
            }
        }
        // How many events come between: the verdict does not depend on it.
        std::thread::sleep(Duration::from_millis(random.below(20) as u64));
    }
    let emitted: Vec<i64> =
        program.tell("h").split(' ').skip(1).map(|count| count.parse().unwrap()).collect();
    assert_eq!(emitted.len(), THREADS, "{done}");
    let all: u64 = emitted.iter().sum::<i64>() as u64;
    let mut traced = None;
    // In any order too.
    let mut left: Vec<usize> = (0..RUNS.len()).filter(|run| runs.is_there(*run)).collect();
    while !left.is_empty() {
        let run = left.swap_remove(random.below(left.len()));
        done += &format!(" -{}", RUNS[run]);
        let counted = runs.stop(run, &done);
        traced = traced.or((run == 2).then_some(counted));
    }
    program.is_untouched();
    for (run, session) in RUNS[..2].iter().enumerate() {
        let (count, lost) = runs.recorded(session, &emitted, &done);
        if run == stays && !runs.misses[run] {
            assert_eq!(count + lost, all, "{done}: {lost} were discarded");
        }
    }
    if stays == 2 {
        assert_eq!(traced, Some(all), "{done}");
    }
    program.ends_well();
    println!("{done}: {all} events");
}

/// Each of two that follow children has all events of a child, or counts it among those that it may have come too late for.
#[test]
fn children_are_counted_or_told_by_each_of_two() {
    const CHILDREN: u64 = 20;
    const EVENTS: u64 = 7;
    let mut program = Emitter::start();
    let place = Place::new("several-children");
    let emits = testkit::paths::quoted(&target::program("emits"));
    let script = format!("usdt:{emits}:ses:one {{ @ = count(); }} {BEGUN}");
    let trace = || {
        let pid = program.pid();
        let mut command = place.command(&["trace", "-f", "json", "--follow", "-p", &pid, "-e", &script]);
        command.stdin(Stdio::null());
        let mut trace = Daemon::spawn(command).unwrap();
        trace.line_with("begun", DEADLINE).unwrap();
        trace
    };
    let traces = [trace(), trace()];
    (0..CHILDREN).for_each(|_| _ = program.tell(&format!("c {EVENTS}")));
    let mut counted = 0;
    for trace in traces {
        trace.signal(Signal::SIGINT).unwrap();
        let ended = trace.finish(DEADLINE).unwrap();
        let lines = ended.stdout.lines();
        let objects: Vec<Value> = lines.map(|line| serde_json::from_str(line).expect(line)).collect();
        let of =
            |kind: &str| objects.iter().rfind(|object| object["type"] == kind).map(|o| o["data"].clone());
        let missed = of("summary").unwrap()["processes"]["not_held"].as_u64().unwrap();
        let is_count = |object: &&Value| object["type"] == "map" && object["data"].get("@").is_some();
        let events = objects.iter().find(is_count).and_then(|o| o["data"]["@"].as_u64()).unwrap_or(0);
        // One that the other has taken, and that this one comes to before it runs on, is counted as both.
        assert!(events + EVENTS * missed >= EVENTS * CHILDREN && missed <= CHILDREN, "{ended:?}");
        counted += events;
    }
    assert!(counted >= EVENTS * CHILDREN, "{counted}: each child waits for one of them");
    program.is_untouched();
    program.ends_well();
}

#[test]
fn the_first_session_has_all_whatever_comes_and_goes_beside_it() {
    check_some(0);
}

#[test]
fn the_second_session_has_all_whatever_comes_and_goes_beside_it() {
    check_some(1);
}

#[test]
fn the_trace_has_all_whatever_comes_and_goes_beside_it() {
    check_some(2);
}

/// By the variable `WEIR_SEVERAL=SEED:COUNT` others, and more of them.
fn check_some(stays: usize) {
    let (seed, count) = random::seed_and_count("WEIR_SEVERAL", (1, 1));
    (0..count).for_each(|more| check(seed + more, stays));
}
