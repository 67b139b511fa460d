//! Sessions that events change: they start, stop, rotate and run commands.

use std::fs;

use testkit::paths::quoted;
use testkit::wait;

use crate::sessions::check::{DEADLINE, Emitter, Place, started};

#[test]
fn an_event_stops_a_session_which_can_be_started_again() {
    let (place, mut program) = started("stop-on", "ses:*", &["--stop-on", "n == 20 || n == 95"]);
    program.tell("a 50");
    let is_stopped = || place.status()["s"]["state"] == "stopped";
    assert!(wait::until(DEADLINE, is_stopped), "{}", place.logs());
    assert_eq!(place.status()["s"]["note"], "an event has ended its recording (--stop-on)");
    program.is_untouched();
    program.tell("a 10");
    place.refuses(1, &["stop"], "an event has ended its recording (--stop-on)");
    place.does(&["start"]);
    program.tell("a 40");
    assert!(wait::until(DEADLINE, is_stopped), "{}", place.logs());
    let read = place.read("s");
    assert!(read.one[&0].iter().copied().eq((0..=20).chain(60..=95)), "{:?}", read.one);
    assert_eq!(read.lost, 0);
    program.ends_well();
}

#[test]
fn events_start_and_stop_a_session_again_and_again_also_while_it_is_changed() {
    let (place, mut program) =
        started("start-on", "ses:*", &["--start-on", "n % 100 == 10", "--stop-on", "n % 100 == 29"]);
    assert!(wait::until(DEADLINE, || place.status()["s"]["waiting"] == true));
    program.tell("a 5");
    program.tell("a 15");
    // It is open, and stays so in the next folder.
    place.does(&["rotate"]);
    program.tell("a 100");
    // It is open again, from 110 on.
    place.does(&["add-context", "-t", "vtid"]);
    program.tell("a 20");
    // It waits: so does the next.
    place.does(&["rotate"]);
    program.tell("a 100");
    place.does(&["stop"]);
    let read = place.read("s");
    let wanted: Vec<i64> = (10..30).chain(110..130).chain(210..230).collect();
    assert_eq!((&read.one[&0], read.lost), (&wanted, 0));
    program.ends_well();
}

#[test]
fn an_event_is_meant_by_its_name() {
    let (place, mut program) =
        started("by-name", "ses:*", &["--start-on", "ses:two", "--stop-on", "ses:o* if n == 14"]);
    program.tell("a 10");
    program.tell("b 15");
    program.tell("a 20");
    program.tell("b 1");
    program.tell("a 3");
    place.does(&["stop"]);
    let read = place.read("s");
    assert!(read.two.iter().copied().eq(0..16), "{:?}", read.two);
    assert!(read.one[&0].iter().copied().eq((10..15).chain(30..33)), "{:?}", read.one);
    program.ends_well();
}

#[test]
fn an_event_has_the_next_folder_begun() {
    let (place, mut program) =
        started("rotate-on", "ses:*", &["--rotate-on", "n == 30", "--rotate-interval", "50ms"]);
    program.tell("a 31");
    assert!(wait::until(DEADLINE, || place.status()["s"]["number"] == 2), "{}", place.logs());
    assert!(wait::until(DEADLINE, || place.status()["s"]["state"] == "recording"), "{}", place.logs());
    program.tell("a 19");
    place.does(&["stop"]);
    assert_eq!(["s/1", "s/2"].map(|folder| place.read(folder).count()), [31, 19]);
    let log = fs::read_to_string(place.folder.join("record.sock.log")).unwrap();
    assert!(log.contains("session s goes on, into ") && log.contains("(an event asked for it)"), "{log}");
    program.ends_well();
}

#[test]
fn an_event_runs_a_command_which_may_change_the_session() {
    let place = Place::new("run-on");
    let mut program = Emitter::start();
    // A word to the daemon, by a child of the recording.
    let command = format!(
        "echo $WEIR_EVENT $WEIR_EVENTS $WEIR_FOLDER \"$WEIR_FIELD_text\" >> {}; {} record stop $WEIR_SESSION",
        quoted(&place.folder.join("ran")),
        quoted(env!("CARGO_BIN_EXE_weir").as_ref())
    );
    place.does(&["create", "s", "-p", &program.pid(), "--run-on", "text == \"number 3\"", "--run", &command]);
    place.does(&["enable", "s", "ses:*"]);
    place.does(&["start"]);
    program.tell("a 10");
    program.tell("b 4");
    assert!(wait::until(DEADLINE, || place.status()["s"]["state"] == "stopped"), "{}", place.logs());
    let ran = fs::read_to_string(place.folder.join("ran")).unwrap();
    assert_eq!(ran, format!("ses:two 1 {}/s/1 number 3\n", place.folder.display()));
    assert_eq!(place.read("s").count(), 14);
    program.is_untouched();
    program.ends_well();
}

#[test]
fn an_event_of_one_channel_runs_a_command_of_the_session() {
    let place = Place::new("run-on-channel");
    let mut program = Emitter::start();
    let ran = place.folder.join("ran");
    let command = format!("echo $WEIR_EVENT \"$WEIR_FIELD_text\" $WEIR_FOLDER >> {}", quoted(&ran));
    let on = "ses:two if text == \"number 3\"";
    place.does(&["create", "s", "-p", &program.pid(), "--run-on", on, "--run", &command]);
    place.does(&["enable-channel", "s", "rare"]);
    place.does(&["enable", "s", "ses:two", "-c", "rare"]);
    place.does(&["enable", "s", "ses:one"]);
    place.does(&["start"]);
    program.tell("a 10");
    program.tell("b 4");
    place.does(&["stop"]);
    let wanted = format!("ses:two number 3 {}/s/rare/1\n", place.folder.display());
    assert!(
        wait::until(DEADLINE, || fs::read_to_string(&ran).is_ok_and(|ran| ran == wanted)),
        "{}",
        place.logs()
    );
    program.ends_well();
}

#[test]
fn an_expression_that_no_event_has_the_fields_of_is_refused_when_it_is_to_begin() {
    let place = Place::new("no-field");
    let program = Emitter::start();
    place.does(&["create", "s", "-p", &program.pid(), "--start-on", "text == \"x\""]);
    place.does(&["enable", "s", "ses:one"]);
    place.refuses(1, &["start"], "the event has no field `text`");
    place.does(&["enable", "s", "ses:two"]);
    place.does(&["start"]);
    program.ends_well();
}
