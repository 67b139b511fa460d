//! Sessions that overwrite: what a snapshot has is what was emitted last, and the rest is counted, while they record on.

use std::fs;

use nix::sys::signal::{Signal, kill};
use testkit::{target, wait};

use crate::sessions::check::{DEADLINE, Emitter, Place, misses_nothing, text};

/// The snapshots of a stretch, oldest first, as `view` is told of them.
fn snapshots(place: &Place, stretch: &str) -> Vec<String> {
    let entries = fs::read_dir(place.folder.join(stretch)).into_iter().flatten().flatten();
    let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
    let mut all: Vec<String> = names.map(|name| format!("{stretch}/{name}")).collect();
    all.sort();
    assert!(all.iter().all(|name| name.contains("/snapshot-")), "{all:?}");
    all
}

/// That a snapshot has the last of `emitted` events `ses:one` of thread 0, whole, and counts the others; how many it has.
#[track_caller]
fn has_last(place: &Place, snapshot: &str, emitted: i64) -> i64 {
    let read = place.read(snapshot);
    let numbers = &read.one[&0];
    let first = emitted - numbers.len() as i64;
    assert!(numbers.iter().copied().eq(first..emitted), "{snapshot}: {numbers:?}");
    assert_eq!(numbers.len() as u64 + read.lost, emitted as u64, "{snapshot}");
    numbers.len() as i64
}

#[test]
fn a_snapshot_has_what_the_rings_hold_and_the_session_goes_on() {
    let place = Place::new("snapshot");
    let mut program = Emitter::start();
    // One ring has all its events.
    testkit::cpu::keep_on_one(program.0.pid());
    place.does(&["create", "s", "-p", &program.pid(), "--overwrite", "--size", "16K", "--snapshots", "2"]);
    place.does(&["enable", "s", "ses:one"]);
    let said = place.does(&["start", "s"]);
    assert!(
        said.contains("session s records, into its rings; snapshots go to ") && said.contains("/s/1"),
        "{said}"
    );
    program.tell("a 100");
    let said = place.does(&["snapshot", "s"]);
    assert!(said.contains("100 events, 0 before them overwritten (command)"), "{said}");
    assert!(said.contains("session s has a snapshot, in "), "{said}");
    assert_eq!(has_last(&place, &snapshots(&place, "s/1")[0], 100), 100);
    // More than a ring has room for.
    program.tell("a 50000");
    place.does(&["snapshot"]);
    place.does(&["snapshot", "-s", "s"]);
    let all = snapshots(&place, "s/1");
    assert!(all.len() == 2 && all[0].contains("snapshot-000002-"), "the newest are kept: {all:?}");
    let whole = wait::until(DEADLINE, || place.status()["s"]["snapshots"] == 3);
    let status = &place.status()["s"];
    assert!(whole && status["mode"] == "overwrite" && status["size"] == 16384, "{status}");
    let shown = text(&place.record(&["status", "s"]).stdout);
    assert!(
        shown.contains("  rings: 16K for each CPU, overwrite\n") && shown.contains("  snapshots: 3\n"),
        "{shown}"
    );
    assert!(shown.contains("  options: --snapshots 2\n"), "{shown}");
    place.refuses(1, &["rotate", "s"], "weir record snapshot s writes one");
    let said = place.does(&["stop"]);
    assert!(said.contains("session s does not record any more; 3 snapshots are in "), "{said}");
    place.refuses(1, &["snapshot", "s"], "session s does not record, and has no rings");
    program.is_untouched();
    for snapshot in &all {
        assert!(has_last(&place, snapshot, 50_100) < 50_100);
    }
    program.ends_well();
}

#[test]
fn snapshots_come_of_events_and_at_the_end() {
    let place = Place::new("snapshot-on");
    let mut program = Emitter::start();
    let options = ["--overwrite", "--size", "64K", "--snapshot-on", "n == 700", "--snapshot-at-end"];
    place.does(&[&["create", "s", "-p", &program.pid()], &options[..]].concat());
    place.does(&["enable", "s", "ses:one"]);
    place.does(&["start"]);
    program.tell("a 701");
    assert!(wait::until(DEADLINE, || place.status()["s"]["snapshots"] == 1), "{}", place.logs());
    let said = place.does(&["add-context", "-t", "vtid"]);
    // A change begins new rings; what was in these is kept by --snapshot-at-end.
    assert!(misses_nothing(&said), "{said}");
    assert_eq!(snapshots(&place, "s/1").len(), 2);
    program.tell("a 99");
    place.does(&["stop"]);
    let ours = snapshots(&place, "s/1");
    assert_eq!(has_last(&place, &ours[0], 701), 701);
    assert_eq!(has_last(&place, &ours[1], 701), 701);
    let last = place.read(&snapshots(&place, "s/2")[0]);
    assert!(last.one[&0].iter().copied().eq(701..800) && last.lost == 0);
    assert_eq!(place.status()["s"]["snapshots"], 3);
    program.ends_well();
}

#[test]
fn a_session_that_overwrites_survives_its_daemon_with_its_snapshots() {
    let place = Place::new("snapshot-killed");
    let mut program = Emitter::start();
    place.does(&["create", "s", "-p", &program.pid(), "--overwrite", "--snapshot-at-end"]);
    place.does(&["enable", "s", "ses:one"]);
    place.does(&["start"]);
    program.tell("a 10");
    place.does(&["snapshot"]);
    kill(place.daemon().unwrap(), Signal::SIGKILL).unwrap();
    let said = place.does(&["status"]);
    assert!(said.contains("its recording ended with the daemon, 2 snapshots are in "), "{said}");
    program.is_untouched();
    for snapshot in snapshots(&place, "s/1") {
        assert_eq!(has_last(&place, &snapshot, 10), 10);
    }
    place.does(&["start"]);
    program.tell("a 5");
    let said = place.does(&["destroy"]);
    assert!(said.contains("3 snapshots are in "), "{said}");
    program.ends_well();
}

#[test]
fn a_snapshot_that_cannot_be_written_is_told_and_the_session_goes_on() {
    let place = Place::new("snapshot-full");
    let mount = ["-t", "tmpfs", "-o", "size=512K", "none"];
    let folder = place.folder.join("s");
    fs::create_dir(&folder).unwrap();
    let mounted = std::process::Command::new("mount")
        .args(mount)
        .arg(&folder)
        .stderr(std::process::Stdio::null())
        .status();
    if !mounted.is_ok_and(|status| status.success()) {
        return testkit::skip::skip("sessions-full-disk", "mounting is for root");
    }
    let mut program = Emitter::start();
    place.does(&["create", "s", "-p", &program.pid(), "--overwrite", "--size", "64K"]);
    place.does(&["enable", "s", "ses:one"]);
    place.does(&["start"]);
    program.tell("a 1500");
    fs::write(folder.join("filler"), vec![1; 500 << 10]).unwrap();
    let said = place.refuses(3, &["snapshot"], "session s has no snapshot: ");
    assert!(said.contains("No space left on device"), "{said}");
    fs::remove_file(folder.join("filler")).unwrap();
    place.does(&["snapshot"]);
    assert_eq!(has_last(&place, &snapshots(&place, "s/1")[0], 1500), 1500);
    place.does(&["destroy", "s"]);
    program.ends_well();
    let unmounted = std::process::Command::new("umount").arg(&folder).status().unwrap();
    assert!(unmounted.success());
}

#[test]
fn traces_of_a_session_have_the_format_that_is_asked_for() {
    let place = Place::new("format");
    // The path of an event has no blanks.
    let program = place.folder.join("emits");
    target::copy(&target::program("emits"), &program);
    place.does(&["create", "s", "-p", "no-such-name", "--trace-format", "ctf-2"]);
    place.does(&["enable", "s", &format!("usdt:{}:ses:one", program.display())]);
    place.does(&["start"]);
    place.does(&["destroy"]);
    let metadata = fs::read(place.folder.join("s/1/metadata")).unwrap();
    assert_eq!(metadata[0], 0x1e, "a sequence of JSON texts");
}
