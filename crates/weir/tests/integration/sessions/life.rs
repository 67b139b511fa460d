//! What a session records over its life: exactly what its program emits while it is started, as it is changed meanwhile.

use std::fs;
use std::process::Command;

use testkit::wait;

use crate::sessions::check::{DEADLINE, Emitter, Place, STARVED, misses_nothing, started, text};

#[test]
fn what_is_emitted_between_start_and_stop_is_recorded() {
    let place = Place::new("life");
    let mut program = Emitter::start();
    place.does(&["create", "s", "-p", &program.pid(), "-o", "trace"]);
    place.does(&["enable", "s", "ses:one"]);
    program.tell("a 10");
    let said = place.does(&["start", "s"]);
    assert!(said.contains("session s records, into ") && said.contains("/trace/1"), "{said}");
    assert_eq!(program.tell("a 1000"), "a 1010");
    let said = place.does(&["stop", "s"]);
    assert!(said.contains("weir:   ses:one: 1000\n") && said.contains("1000 events are in"), "{said}");
    program.is_untouched();
    program.tell("a 10");
    place.does(&["start", "s"]);
    program.tell("a 500");
    let said = place.does(&["destroy", "s"]);
    assert!(said.contains("1500 events are in"), "{said}");
    program.is_untouched();
    program.tell("a 10");
    program.ends_well();
    let read = place.read("trace");
    let wanted: Vec<i64> = (10..1010).chain(1020..1520).collect();
    assert_eq!((&read.one[&0], read.count(), read.lost), (&wanted, wanted.len(), 0));
    assert_eq!(place.read("trace/2").count(), 500);
    assert!(place.status().is_empty());
}

#[test]
fn a_session_is_changed_while_its_program_runs_on() {
    let place = Place::new("changed");
    let mut program = Emitter::start();
    place.does(&["create", "s", "-p", &program.pid()]);
    place.does(&["enable", "-s", "s", "ses:one"]);
    place.does(&["start"]);
    program.tell("a 10");
    program.tell("b 10");
    let said = place.does(&["enable", "ses:two", "--filter", "n >= 15"]);
    assert!(said.contains("into ") && said.contains("/s/2\n") && misses_nothing(&said), "{said}");
    program.tell("a 10");
    program.tell("b 10");
    place.does(&["add-context", "-t", "vtid,procname,ustack"]);
    program.tell("a 10");
    program.tell("b 10");
    place.does(&["disable", "s", "ses:one"]);
    program.tell("a 10");
    program.tell("b 10");
    place.does(&["rotate"]);
    program.tell("b 10");
    place.does(&["stop"]);
    program.tell("b 10");
    place.does(&["destroy"]);
    program.is_untouched();
    program.ends_well();
    let read = place.read("s");
    assert_eq!(read.one[&0], (0..30).collect::<Vec<i64>>());
    assert_eq!(read.two, (15..50).collect::<Vec<i64>>());
    let count = |folder: &str| place.read(folder).count();
    assert_eq!(["s/1", "s/2", "s/3", "s/4", "s/5"].map(count), [10, 15, 20, 10, 10]);
    let has_context = |line: &&serde_json::Value| {
        let context = &line["context"];
        context["vtid"].is_i64() && context["callstack_user"].is_array()
    };
    assert_eq!(read.lines.iter().filter(has_context).count(), 40, "{:?}", read.lines.last());
}

/// Threads emit all the time; what the program says that they have emitted is there, in the folder that was written then.
#[test]
fn nothing_is_lost_where_a_session_goes_on_in_its_next_folder() {
    const ROTATIONS: usize = 5;
    let (place, mut program) = started("rotated", "ses:one", &["--size", "16M"]);
    let pid = place.status()["s"]["recorder"].clone();
    program.tell("g 3");
    let has_events =
        |folder: u64| place.status()["s"]["recorded"].as_u64().is_some_and(|count| count > 100 * folder);
    for folder in 1..=ROTATIONS {
        assert!(wait::until(DEADLINE, || has_events(folder as u64)), "{:?}", place.status());
        let said = place.does(&["rotate", "s"]);
        let next = format!(
            "session s goes on, into {}",
            place.folder.join("s").join((folder + 1).to_string()).display()
        );
        assert!(said.contains(&next) && !said.contains("missing"), "{said}");
    }
    let status = place.status()["s"].clone();
    assert_eq!((&status["recorder"], &status["number"]), (&pid, &(ROTATIONS + 1).into()), "{status}");
    let (all, said) = has_all(&place, &mut program);
    assert!(said.contains(&format!("{all} events are in")), "{said}");
    let of_folders = (1..=ROTATIONS + 1).map(|folder| place.read(&format!("s/{folder}")).count());
    let of_folders: Vec<usize> = of_folders.collect();
    assert!(
        of_folders.iter().sum::<usize>() == all as usize
            && of_folders[..ROTATIONS].iter().all(|count| *count > 0)
    );
    program.ends_well();
    place.does(&["destroy", "s"]);
}

/// Has the threads of a program stop that emit all the time, and then the session: all that they have emitted is in its trace once, or was
/// discarded where the recorder had no CPU for long. How much of it is there, and what was said.
fn has_all(place: &Place, program: &mut Emitter) -> (i64, String) {
    let emitted = program.tell("h");
    let said = place.does(&["stop", "s"]);
    let read = place.read("s");
    let emitted: Vec<i64> = emitted.split_whitespace().skip(1).map(|count| count.parse().unwrap()).collect();
    assert_eq!(emitted.len(), 3, "{emitted:?}");
    for (thread, count) in (1..).zip(&emitted) {
        let numbers = &read.one[&thread];
        assert!(
            numbers.is_sorted_by(|a, b| a < b) && numbers.last() < Some(count),
            "thread {thread}: {said}"
        );
        if read.lost == 0 {
            assert_eq!(numbers, &(0..*count).collect::<Vec<i64>>(), "thread {thread}: {said}");
        }
    }
    let all: i64 = emitted.iter().sum();
    let there = all - read.lost as i64;
    assert_eq!(
        read.one.values().map(Vec::len).sum::<usize>() as i64,
        there,
        "{} discarded: {said}",
        read.lost
    );
    (there, said)
}

/// Threads emit all the time; each event is in the folder before a change or in that after it, once.
#[test]
fn nothing_is_lost_where_a_session_is_changed() {
    let (place, mut program) = started("handed-over", "ses:one", &["--size", "16M"]);
    program.tell("g 3");
    let has_recorded = || {
        let before = place.status()["s"]["recorded"].as_u64().unwrap();
        wait::until(DEADLINE, || {
            place.status()["s"]["recorded"].as_u64().is_some_and(|now| now > before + 100)
        })
    };
    let changes: &[&[&str]] = &[
        &["enable", "s", "ses:two", "--filter", "n >= 0"],
        &["add-context", "s", "-t", "vtid,procname"],
        &["disable", "s", "ses:two"],
        &["enable", "s", "ses:one", "--filter", "n >= 0"],
    ];
    for (folder, change) in (2..).zip(changes) {
        assert!(has_recorded(), "{change:?}: {}", place.logs());
        let said = place.does(change);
        assert!(said.contains(&format!("/s/{folder}\n")) && misses_nothing(&said), "{said}");
        if said.contains(STARVED) {
            // It has reported that events are missing; the number is unknown.
            program.tell("h");
            return program.ends_well();
        }
    }
    assert!(has_recorded(), "{}", place.logs());
    has_all(&place, &mut program);
    place.does(&["destroy", "s"]);
    program.is_untouched();
    program.ends_well();
}

/// Where a process may not be held for as long as taking it over takes, this is reported, and it is taken over in steps.
#[test]
fn a_change_that_may_not_stop_a_process_for_long_says_what_is_missing() {
    let place = Place::new("short-stops");
    let mut program = Emitter::start();
    place.does(&["create", "s", "-p", &program.pid(), "--budget", "1ms-stop"]);
    place.does(&["enable", "s", "ses:one"]);
    // A machine that is busy may not stop it in time, whatever is done, and then the session may be without it.
    let does = |args: &[&str]| wait::until(DEADLINE, || place.record(args).status.success());
    assert!(does(&["start", "s"]), "{}", place.logs());
    program.tell("a 10");
    let mut said = String::new();
    let is_changed = wait::until(DEADLINE, || {
        let output = place.record(&["add-context", "s", "-t", "vtid"]);
        said = text(&output.stderr);
        let is_there = output.status.success() || said.contains("recorded already");
        is_there && place.status()["s"]["state"] == "recording" || {
            place.record(&["start", "s"]);
            false
        }
    });
    assert!(is_changed, "{said}{}", place.logs());
    // Of the change that came through, or of one before it that did not.
    let reasons = ["could not be taken over in one stop", "was taken over by a recording that failed"];
    assert!(reasons.iter().any(|reason| said.contains(reason)) || !said.contains("missing"), "{said}");
    program.tell("a 10");
    place.does(&["destroy", "s"]);
    let numbers = &place.read("s").one[&0];
    assert!(numbers.ends_with(&(10..20).collect::<Vec<i64>>()) && numbers.len() <= 20, "{said}{numbers:?}");
    program.is_untouched();
    program.ends_well();
}

/// What a policy allows of a process is asked when it is there: by then the recording has let it go, and takes it back.
#[test]
fn a_change_that_a_policy_forbids_leaves_the_recording_as_it_is() {
    let place = Place::new("forbidden");
    let mut program = Emitter::start();
    let policy = place.folder.join("policy.toml");
    let allow = |budget: &str| fs::write(&policy, format!("[default]\nbudget = \"{budget}\"\n")).unwrap();
    allow("1GiB");
    place.does(&["create", "s", "-p", &program.pid(), "--policy", policy.to_str().unwrap()]);
    place.does(&["enable", "s", "ses:one"]);
    place.does(&["start", "s"]);
    let recorder = place.status()["s"]["recorder"].clone();
    program.tell("a 10");
    allow("64KiB");
    place.refuses(1, &["enable", "s", "ses:two"], "session s records on as before");
    program.tell("a 10");
    program.tell("b 10");
    assert_eq!(recorder, place.status()["s"]["recorder"]);
    allow("1GiB");
    place.does(&["add-context", "s", "-t", "vtid"]);
    assert_ne!(recorder, place.status()["s"]["recorder"]);
    program.tell("a 10");
    place.does(&["destroy", "s"]);
    let read = place.read("s");
    assert_eq!((&read.one[&0], read.two.len()), (&(0..30).collect::<Vec<i64>>(), 0));
    program.is_untouched();
    program.ends_well();
}

#[test]
fn events_have_filters_of_their_own() {
    let check = |rules: &[&[&str]], one: &[i64], two: &[i64]| {
        let place = Place::new("filters");
        let mut program = Emitter::start();
        place.does(&["create", "s", "-p", &program.pid()]);
        for rule in rules {
            place.does(&[&["enable", "s"], *rule].concat());
        }
        place.does(&["start"]);
        program.tell("a 20");
        program.tell("b 20");
        place.does(&["stop"]);
        let read = place.read("s");
        assert_eq!(read.one.get(&0).map_or(&[][..], |numbers| &numbers[..]), one, "{rules:?}");
        assert_eq!(read.two, two, "{rules:?}");
    };
    check(&[&["ses:one", "--filter", "n < 3"], &["ses:two", "--filter", "n == 7"]], &[0, 1, 2], &[7]);
    // One that accepts is enough, and an event is recorded once.
    check(
        &[&["ses:one", "--filter", "n < 3"], &["ses:*", "--filter", "n == 1 || n == 9"]],
        &[0, 1, 2, 9],
        &[1, 9],
    );
    let all: Vec<i64> = (0..20).collect();
    check(&[&["ses:one", "--filter", "n < 3"], &["ses:one"]], &all, &[]);
    check(&[&["ses:*", "--loglevel", "info"], &["ses:one", "--filter", "n == 4"]], &[4], &all);
    check(&[&["ses:*", "-x", "ses:two"], &["ses:two", "--filter", "text == \"number 5\""]], &all, &[5]);
    check(&[&["ses:one", "--filter", "n == 2", "--dialect", "lttng"], &["ses:two"]], &[2], &all);
}

#[test]
fn a_change_that_is_refused_leaves_the_recording_as_it_is() {
    let place = Place::new("refused-change");
    let mut program = Emitter::start();
    place.does(&["create", "s", "-p", &program.pid()]);
    place.does(&["enable", "s", "ses:one"]);
    place.does(&["start"]);
    program.tell("g 3");
    let said = place.refuses(1, &["enable", "s", "ses:ones"], "session s records on as before");
    assert!(said.contains("did you mean"), "{said}");
    place.refuses(1, &["enable", "s", "ses:two", "--filter", "m == 1"], "the event has no field `m`");
    place.refuses(1, &["enable", "s", "ses:one"], "enabled already");
    place.refuses(1, &["disable", "s", "ses:two"], "ses:two is not enabled; ses:one is");
    place.refuses(1, &["disable", "s", "ses:one"], "stop it instead");
    place.refuses(1, &["start", "s"], "records already");
    let status = &place.status()["s"];
    assert_eq!((&status["state"], &status["number"]), (&"recording".into(), &1.into()), "{status}");
    assert_eq!(status["rules"].as_array().unwrap().len(), 1, "{status}");
    place.does(&["stop"]);
    program.tell("h");
    let read = place.read("s");
    assert_eq!(read.one.len(), 3);
    for (thread, numbers) in &read.one {
        let whole: Vec<i64> = (numbers[0]..numbers[0] + numbers.len() as i64).collect();
        // What a recorder without a CPU discards is counted.
        let is_right = if read.lost == 0 { *numbers == whole } else { numbers.is_sorted_by(|a, b| a < b) };
        assert!(is_right, "thread {thread}, {} were lost: {numbers:?}", read.lost);
    }
    program.ends_well();
    place.does(&["destroy", "s"]);
    let names = fs::read_dir(&place.folder).unwrap().map(|entry| entry.unwrap().file_name());
    let left: Vec<_> = names.filter(|name| name.to_string_lossy().starts_with("record.sock.s.")).collect();
    assert!(left.is_empty(), "of session s, and of the recording that was refused: {left:?}");
}

/// And not when the session is started, where its process is there to be asked.
#[test]
fn a_filter_that_an_event_cannot_have_is_refused_when_it_is_enabled() {
    let place = Place::new("wrong-filter");
    let mut program = Emitter::start();
    place.does(&["create", "s", "-p", &program.pid()]);
    let wrong = ["ses:*", "--filter", "text == \"number 5\""];
    place.refuses(1, &["enable", "s", wrong[0], wrong[1], wrong[2]], "the event has no field `text`");
    let status = &place.status()["s"];
    assert_eq!((&status["state"], &status["rules"]), (&"stopped".into(), &serde_json::json!([])), "{status}");
    place.does(&["enable", "s", "ses:*", "--filter", "n > 1"]);
    let names = fs::read_dir(&place.folder).unwrap().map(|entry| entry.unwrap().file_name());
    let left: Vec<_> = names.filter(|name| name.to_string_lossy().starts_with("record.sock.s.")).collect();
    assert!(left.is_empty(), "of what was tried: {left:?}");
    // Nobody has them yet.
    place.does(&["create", "later", "-p", "weir-none-of-this-name"]);
    place.does(&["enable", "later", wrong[0], wrong[1], wrong[2]]);
    place.does(&["start", "s"]);
    program.tell("a 4");
    place.does(&["stop", "s"]);
    assert_eq!(place.read("s/1").count(), 2, "into the first folder");
    program.ends_well();
}

#[test]
fn status_says_what_a_session_is_and_has() {
    let place = Place::new("status");
    let mut program = Emitter::start();
    assert_eq!(text(&place.record(&["status"]).stdout), "there is no session\n");
    place.does(&["create", "a", "-p", &program.pid(), "-o", "traces/a", "--size", "64K"]);
    place.does(&["create", "b", "-p", "nobody-has-this-name", "--follow"]);
    place.does(&["enable", "a", "ses:*", "-x", "ses:two", "--loglevel", "debug"]);
    let shown = text(&place.record(&["status", "a"]).stdout);
    assert!(
        shown.starts_with("a: stopped; ") && shown.contains("  event: ses:* -x ses:two --loglevel debug\n"),
        "{shown}"
    );
    place.does(&["start", "a"]);
    program.tell("a 300");
    let recorded = || place.status()["a"]["recorded"].as_u64();
    assert!(wait::until(DEADLINE, || recorded() == Some(300)), "{:?}", place.status());
    let sessions = place.status();
    let a = &sessions["a"];
    assert_eq!(
        (&a["state"], &a["number"], &a["size"]),
        (&"recording".into(), &1.into(), &65536.into()),
        "{a}"
    );
    assert_eq!(
        (&a["events"][0]["name"], &a["events"][0]["recorded"]),
        (&"ses:one".into(), &300.into()),
        "{a}"
    );
    assert_eq!(a["processes"][0]["pid"].as_u64(), Some(program.0.pid().into()), "{a}");
    assert_eq!(a["folder"], place.folder.join("traces/a").to_str().unwrap(), "{a}");
    let b = &sessions["b"];
    assert_eq!(
        (&b["state"], &b["of"]["follow"], &b["recorded"]),
        (&"stopped".into(), &true.into(), &0.into()),
        "{b}"
    );
    let shown = text(&place.record(&["status"]).stdout);
    for wanted in [
        "a: recording for ",
        "traces/a/1\n",
        "(emits",
        "    ses:one: 300\n",
        "b: stopped; ",
        "of: -p nobody-has-this-name --follow",
    ] {
        assert!(shown.contains(wanted), "{shown} lacks {wanted}");
    }
    place.refuses(1, &["stop"], "which session? There are a, b");
    place.does(&["destroy", "--all"]);
    assert!(place.status().is_empty());
    program.is_untouched();
}

#[test]
fn processes_that_come_later_are_recorded() {
    let place = Place::new("later");
    let program = testkit::target::program("emits");
    // A name of its own: others of this program may run.
    let copy = place.folder.join("emits-later");
    testkit::target::copy(&program, &copy);
    let event = format!("usdt:{}:ses:one", copy.display());
    place.does(&["create", "s", "-p", "emits-later"]);
    place.does(&["enable", "s", &event]);
    place.does(&["start"]);
    let start = || Emitter(testkit::Daemon::spawn(std::process::Command::new(&copy)).unwrap());
    let recorded = || place.status()["s"]["recorded"].as_u64().unwrap();
    let mut emitted: Vec<i64> = Vec::new();
    for _ in 0..2 {
        // Counts are reported five times a second: what is still missing of the program before is at most all that it emitted.
        let before_it = recorded() + emitted.iter().sum::<i64>() as u64;
        let mut program = start();
        // Until it is enrolled nothing of it is recorded.
        let is_enrolled = || {
            program.tell("a 50");
            recorded() > before_it
        };
        assert!(wait::until(DEADLINE, is_enrolled), "{:?}", place.status());
        let answer = program.tell("a 100");
        emitted.push(answer.split_once(' ').unwrap().1.parse().unwrap());
        program.ends_well();
        let is_gone = || place.status()["s"]["processes"].as_array().is_some_and(|all| all.is_empty());
        assert!(wait::until(DEADLINE, is_gone), "{:?}", place.status());
    }
    place.does(&["destroy", "s"]);
    let numbers = place.read("s").one.remove(&0).unwrap();
    let runs: Vec<&[i64]> = numbers.chunk_by(|a, b| a + 1 == *b).collect();
    let ends: Vec<i64> = runs.iter().map(|run| run[run.len() - 1] + 1).collect();
    assert_eq!(ends, emitted, "all from when it was enrolled to its end: {numbers:?}");
    assert!(runs.iter().all(|run| run.len() >= 100), "{numbers:?}");
}

#[test]
fn children_are_recorded_where_they_are_followed() {
    for is_followed in [true, false] {
        let place = Place::new("children");
        let mut program = Emitter::start();
        let follow: &[&str] = if is_followed { &["--follow"] } else { &[] };
        place.does(&[&["create", "s", "-p", &program.pid()], follow].concat());
        place.does(&["enable", "s", "ses:one"]);
        place.does(&["start"]);
        program.tell("a 5");
        program.tell("c 50");
        place.does(&["stop"]);
        let read = place.read("s");
        assert_eq!(read.one[&0], [0, 1, 2, 3, 4]);
        let wanted: Vec<i64> = if is_followed { (0..50).collect() } else { Vec::new() };
        assert_eq!(read.one.get(&99).cloned().unwrap_or_default(), wanted);
        program.ends_well();
    }
}

/// How many processes recordings report that they were too late for.
fn too_late(logs: &str) -> usize {
    let of_line = |line: &str| {
        let line = line.strip_prefix("weir: ").filter(|line| line.ends_with("not counted"))?;
        let counts = line.split(", ").filter_map(|part| match part.split_once(" process") {
            Some(("a", _)) => Some(1),
            Some((count, _)) => {
                count.trim_start_matches("at least ").trim_end_matches(" times a").parse::<usize>().ok()
            }
            None => None,
        });
        Some(counts.sum::<usize>())
    };
    let refused = logs.lines().filter(|line| line.contains("; not traced: stop-timeout"));
    logs.lines().filter_map(of_line).sum::<usize>() + refused.count()
}

/// A forked child belongs to the recording before a change or to that after it, whenever it was forked.
#[test]
fn children_are_recorded_whole_where_a_session_is_changed() {
    let (place, mut program) = started("handed-over-children", "ses:one", &["--follow"]);
    program.tell("f 20");
    for context in ["vtid", "vpid", "procname"] {
        let recorded = place.status()["s"]["recorded"].as_u64().unwrap();
        let has_more = || place.status()["s"]["recorded"].as_u64().is_some_and(|now| now >= recorded + 100);
        assert!(wait::until(DEADLINE, has_more), "{}", place.logs());
        let said = place.does(&["add-context", "s", "-t", context]);
        assert!(misses_nothing(&said), "{said}");
        // Nor is what helps a recording and shares its memory.
        let traced = text(&Command::new(env!("CARGO_BIN_EXE_weir")).arg("ps").output().unwrap().stdout);
        assert!(traced.contains("emits") && !traced.contains("hold-watch"), "{traced}");
    }
    let children: i64 = program.tell("e")[2..].parse().unwrap();
    let said = place.does(&["stop"]);
    let mut numbers = place.read("s").one.remove(&99).unwrap();
    numbers.sort_unstable();
    let wanted: Vec<i64> = (0..20).flat_map(|n| std::iter::repeat_n(n, children as usize)).collect();
    let logs = place.logs();
    let missing = wanted.len().checked_sub(numbers.len()).expect("no event is there twice");
    // What is missing is reported, by processes or by the time: on a loaded machine a recording may have no CPU for seconds.
    let is_told = logs.contains(STARVED) || missing <= 20 * too_late(&logs);
    assert!(is_told, "{children} children, {missing} events are missing: {said}{logs}{:?}", place.status());
    assert!(missing <= 20 * too_late(&logs) + wanted.len() / 2, "{children} children: {said}{logs}");
    assert!(
        numbers == wanted || missing > 0,
        "{children} children, and not the numbers of each: {said}{logs}"
    );
    program.ends_well();
}

#[test]
fn a_session_whose_processes_have_ended_says_so() {
    let place = Place::new("ended");
    let mut program = Emitter::start();
    place.does(&["create", "s", "-p", &program.pid()]);
    place.does(&["enable", "s", "ses:one"]);
    place.does(&["start"]);
    program.tell("a 70");
    program.ends_well();
    let is_stopped = || place.status()["s"]["state"] == "stopped";
    assert!(wait::until(DEADLINE, is_stopped), "{:?}", place.status());
    let status = &place.status()["s"];
    assert_eq!(
        (&status["recorded"], status["note"].as_str()),
        (&70.into(), Some("the processes that it was to record have ended"))
    );
    place.refuses(1, &["stop"], "the processes that it was to record have ended");
    assert!(
        place.refuses(3, &["start"], "session s does not record").contains("no process"),
        "{}",
        place.logs()
    );
    assert_eq!(place.read("s").one[&0].len(), 70);
}

#[test]
fn the_form_with_a_command_is_as_it_was() {
    let place = Place::new("command");
    let program = testkit::target::program("record");
    let output =
        place.record(&["-e", "rec:ints", "-o", "trace", "--", program.to_str().unwrap(), "i", "1", "100"]);
    let said = text(&output.stderr);
    assert!(output.status.success() && said.contains("weir: 100 events recorded;"), "{said}");
    assert_eq!(text(&output.stdout), "emitted 100\n");
    assert!(place.daemon().is_none() && !place.socket().exists());
    let check = |args: &[&str], wanted: &str| {
        place.refuses(2, args, wanted);
    };
    check(&["-e", "rec:ints", "-o", "trace", "start"], "start");
    check(&["-e", "rec:ints", "-p", "1"], "--output");
    check(&["-o", "trace", "-p", "1"], "--event");
    check(&["begin"], "begin");
    check(&[], "--event");
}
