//! SIGKILL at moments that the seed chooses: of the program, after which all that it had committed is in the trace; and of weir, after which
//! all that was in the folder is read, and the program is unharmed.
//!
//! `WEIR_KILLED=SEED:KILLS` for other kills than those of every day (`cargo xtask soak record-kill`).

use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use testkit::{Daemon, ctf, random, wait};

use crate::recorded::emitters::{DEADLINE, Ledger, Place, Plan, weir};
use crate::recorded::found::Found;

/// Three threads without end, interrupted all the time. They pause so that the rings have room for most of it.
const ENDLESS: Plan = Plan { threads: 3, count: 0, children: 0, events: 0, signals_us: 150, pause_us: 400 };

/// Events that the rings had no room for, as weir tells for each.
fn ring_full(said: &str) -> u64 {
    let counts = said.lines().filter_map(|line| line.strip_suffix(" discarded: the ring was full"));
    counts.filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok()).sum()
}

/// The program is recorded from its beginning, and killed so long after its first events.
fn kill_program(name: &str, after: Duration) {
    let place = Place::new(name);
    let mut command = weir(["record", "-e", "emit:*", "-t", "vpid,vtid", "--size", "16M", "-o"]);
    command.arg(place.trace()).arg("--").args(ENDLESS.command(&place));
    let recorder = Daemon::spawn(command).unwrap();
    let emits = || Ledger::read(&place.ledger()).filter(|ledger| ledger.done() > 0);
    let running = wait::until_some(DEADLINE, emits).expect("it emits");
    // A moment of chance: the verdict is the same at any.
    std::thread::sleep(after);
    // Not 0, which is everybody in this test's group.
    assert!(running.pid > 1, "{running:?}");
    kill(Pid::from_raw(running.pid), Signal::SIGKILL).unwrap();
    let ended = recorder.finish(DEADLINE).unwrap();
    let said = ended.stderr;
    // As the command has ended.
    assert_eq!(ended.status.code(), Some(128 + Signal::SIGKILL as i32), "{said}");
    let ledger = Ledger::read(&place.ledger()).unwrap();
    let found = Found::read(&place.trace());
    assert_eq!(found.damage, Vec::<String>::new(), "{said}");
    found.has_threads_of(&ledger);
    // Of each emitter at most one is under way: it is there, or not.
    let (mut missing, mut torn_at_most) = (0, 0);
    for (number, emitter) in ledger.emitters.iter().enumerate() {
        let numbers = found.numbers.get(&(number as u64)).map_or(&[][..], |numbers| &numbers[..]);
        assert!(emitter.begun - emitter.done <= 1, "{emitter:?}");
        assert!(numbers.last().is_none_or(|last| *last < emitter.begun), "{emitter:?}: {numbers:?}");
        let done = numbers.partition_point(|n| *n < emitter.done) as u64;
        missing += emitter.done - done;
        torn_at_most += emitter.begun - emitter.done - (numbers.len() as u64 - done);
    }
    // What was emitted and is not there had no room in its ring; nothing else is discarded but what was being written.
    let full = ring_full(&said);
    assert!((missing..=missing + torn_at_most).contains(&full), "{missing} are missing: {said}");
    assert!((missing..=missing + torn_at_most).contains(&found.discarded), "{missing} are missing: {said}");
    let checked = ctf::check_folder(&place.trace()).unwrap_or_else(|fault| panic!("{fault}"));
    assert_eq!((checked.events, checked.discarded), (found.recorded(), found.discarded));
}

/// What happened when weir was killed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Seen {
    /// Nothing was in the folder yet.
    Nothing,
    Whole,
    Damaged,
}

/// Weir is killed so long after it was started on the program, which runs on; the next one takes its probes out, or over.
fn kill_weir(name: &str, after: Duration, takes_over: bool) -> Seen {
    let place = Place::new(name);
    let words = ENDLESS.command(&place);
    let mut program = std::process::Command::new(&words[0]);
    program.args(&words[1..]);
    let program = Daemon::spawn(program).unwrap();
    let pid = program.pid().to_string();
    let emits = || Ledger::read(&place.ledger()).filter(|ledger| ledger.done() > 0);
    wait::until_some(DEADLINE, emits).expect("it emits");
    let mut command = weir(["record", "-e", "emit:*", "-t", "vpid,vtid", "-o"]);
    command.arg(place.trace()).args(["-p", &pid]);
    let recorder = Daemon::spawn(command).unwrap();
    // A moment of chance: the verdict is the same at any.
    std::thread::sleep(after);
    recorder.signal(Signal::SIGKILL).unwrap();
    drop(recorder.finish(DEADLINE).unwrap());

    // Every emitter goes on.
    let at = Ledger::read(&place.ledger()).unwrap();
    let goes_on = || {
        let now = Ledger::read(&place.ledger()).unwrap();
        let pairs = || at.emitters.iter().zip(&now.emitters);
        pairs().all(|(before, now)| now.done > before.done + 2)
    };
    assert!(wait::until(DEADLINE, goes_on), "it is held up: {at:?}, {:?}", Ledger::read(&place.ledger()));

    let seen = read_what_is_there(&place);
    if takes_over {
        let again = Place::new(&format!("{name}-again"));
        let mut command = weir(["record", "-e", "emit:*", "-o"]);
        command.arg(again.trace()).args(["-p", &pid]);
        let second = Daemon::spawn(command).unwrap();
        let has_stream = || again.trace().read_dir().is_ok_and(|files| files.count() > 1);
        assert!(wait::until(DEADLINE, has_stream), "the next weir records");
        second.signal(Signal::SIGINT).unwrap();
        let ended = second.finish(DEADLINE).unwrap();
        assert!(ended.status.success(), "{}", ended.stderr);
        assert!(Found::read(&again.trace()).recorded() > 0, "{}", ended.stderr);
    } else {
        let output = weir(["detach", "-p", &pid]).output().unwrap();
        let (said, told) = (String::from_utf8_lossy(&output.stderr), String::from_utf8_lossy(&output.stdout));
        // Three places of the program, fewer where weir had not come so far; and none that weir hooked for itself.
        let restored =
            told.split_once(" functions restored").and_then(|(before, _)| before.rsplit(' ').next());
        let is_restored = restored.is_some_and(|count| count.parse::<u64>().is_ok_and(|count| count <= 3));
        assert!(is_restored || said.contains("has no weir probes"), "{told}{said}");
    }
    program.signal(Signal::SIGTERM).unwrap();
    let ended = program.finish(DEADLINE).unwrap();
    assert!(ended.status.success() && ended.stdout == "ended\n", "{ended:?}");
    seen
}

fn read_what_is_there(place: &Place) -> Seen {
    let view = || weir(["view"]).arg(place.trace()).output().unwrap();
    if !place.trace().join("metadata").exists() {
        // No half of it is ever there.
        assert_eq!(view().status.code(), Some(1));
        return Seen::Nothing;
    }
    let ledger = Ledger::read(&place.ledger()).unwrap();
    let found = Found::read(&place.trace());
    for (emitter, numbers) in &found.numbers {
        let said = ledger.emitters[*emitter as usize];
        assert!(numbers.last().is_some_and(|last| *last < said.begun), "{said:?}");
    }
    found.has_threads_of(&ledger);
    let output = view();
    let said = String::from_utf8_lossy(&output.stderr);
    let lines = String::from_utf8_lossy(&output.stdout).lines().count() as u64;
    assert_eq!(lines, found.recorded(), "{said}");
    if found.damage.is_empty() {
        assert!(output.status.success(), "{said}");
        let checked = ctf::check_folder(&place.trace()).unwrap_or_else(|fault| panic!("{fault}"));
        assert_eq!((checked.events, checked.discarded), (found.recorded(), found.discarded));
        return Seen::Whole;
    }
    assert_eq!(output.status.code(), Some(1), "{said}");
    for damage in &found.damage {
        assert!(damage.contains("stream_") && damage.contains("at byte"), "{damage}");
        assert!(said.contains(&format!("weir: {damage}")), "{damage}: {said}");
    }
    Seen::Damaged
}

/// Half of them of the program, half of weir.
#[test]
fn whoever_is_killed_everything_committed_is_read() {
    let (seed, kills) = random::seed_and_count("WEIR_KILLED", (1, 8));
    let mut state = random::state(seed);
    let mut below = |limit: u64| random::next(&mut state) % limit;
    let start = Instant::now();
    let mut seen = Vec::new();
    for turn in 0..kills {
        let name = format!("kill-{seed}-{turn}");
        if turn % 2 == 0 {
            kill_program(&name, Duration::from_micros(below(120_000)));
        } else {
            // As many before it records as while it does; those that it has written packets by then among these.
            let limit = if below(2) == 0 { 200_000 } else { 1_500_000 };
            seen.push(kill_weir(&name, Duration::from_micros(below(limit)), below(2) == 0));
        }
    }
    let count = |which: Seen| seen.iter().filter(|seen| **seen == which).count();
    let [nothing, whole, damaged] = [Seen::Nothing, Seen::Whole, Seen::Damaged].map(count);
    println!("counts: kills={kills} nothing={nothing} whole={whole} damaged={damaged}");
    eprintln!("{kills} kills in {:.1?}", start.elapsed());
}
