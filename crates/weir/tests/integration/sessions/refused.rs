//! What is refused, and with which words.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixListener;

use testkit::wait;

use crate::sessions::check::{DEADLINE, Place, text};

#[test]
fn wrong_input_is_refused_with_what_is_wrong() {
    let place = Place::new("refused");
    fs::create_dir(place.folder.join("full")).unwrap();
    fs::write(place.folder.join("full/file"), "x").unwrap();
    // Before there is a daemon.
    place.refuses(1, &["start"], "there is no session: make one with weir record create");
    place.refuses(1, &["enable", "s", "a:b"], "there is no session");
    place.refuses(1, &["create", "../s", "-p", "1"], "`../s` is no name of a session");
    place.refuses(2, &["create", "s"], "--pid");
    place.refuses(2, &["create", "-p", "1"], "NAME");
    place.refuses(2, &["create", "s", "-p", "1", "--size", "3"], "a power of two is wanted");
    place.refuses(2, &["create", "s", "-p", "1", "--budget", "cheap"], "--budget");
    place.refuses(2, &["add-context", "s", "-t", "weather"], "vtid");
    assert!(place.daemon().is_none());
    place.refuses(1, &["create", "s", "-p", "1", "-o", "full"], "it is not empty");
    place.refuses(1, &["create", "s", "-p", "1", "-o", "full/file"], "cannot make it");
    place.refuses(1, &["create", "s", "-p", "1", "-o", "/proc/weir/s"], "cannot make it");
    place.refuses(1, &["create", "s", "-p", "1", "-o", "/proc/self"], "is not empty");
    place.does(&["create", "s", "-p", "1", "-o", "t"]);
    place.refuses(1, &["create", "s", "-p", "1", "-o", "u"], "there is a session s already");
    place.refuses(1, &["create", "t", "-p", "1", "-o", "t"], "it is session s's");
    place.refuses(1, &["start", "s"], "session s has no event to record: weir record enable s EVENT");
    place.refuses(1, &["stop", "s"], "session s does not record");
    place.refuses(1, &["rotate", "s"], "session s does not record");
    place.refuses(1, &["start", "t"], "there is no session t; there is s");
    place.refuses(1, &["enable", "s"], "which events?");
    place.refuses(1, &["enable", "s", "a:b:c"], "it is not a provider and an event");
    let said = place.refuses(1, &["enable", "s", "a:b", "--filter", "n >"], "<filter>");
    assert!(said.contains("n >"), "{said}");
    place.refuses(1, &["disable", "s", "a:b"], "a:b is not enabled; nothing is");
    place.refuses(1, &["snapshot", "s"], "session s writes all that it records");
    place.refuses(2, &["enable-channel", "s", "c", "--num-subbuf=4"], "--num-subbuf");
    place.refuses(1, &["enable-channel", "s", "../c"], "no name of a channel");
    place.refuses(1, &["enable", "s", "a:b", "-c", "c"], "there is no channel c; there is none");
    place.refuses(1, &["add-context", "s", "-t", "vtid", "-c", "c"], "there is no channel c");
    place.refuses(1, &["disable-channel", "s", "c"], "there is no channel c");
    place.does(&["enable-channel", "s", "c"]);
    place.refuses(1, &["enable-channel", "s", "c"], "there is a channel c already, and it is enabled");
    place.does(&["disable-channel", "s", "c"]);
    place.refuses(1, &["disable-channel", "s", "c"], "channel c is disabled already");
    place.refuses(1, &["track", "s", "--pid=1"], "it is of processes that were named");
    place.refuses(2, &["track", "s"], "--pid");
    place.refuses(2, &["create", "f", "-p", "1", "--snapshot-on", "n == 1"], "--overwrite");
    place.refuses(
        2,
        &["create", "f", "-p", "1", "--overwrite", "--rotate-on", "n == 1"],
        "cannot be used with",
    );
    place.refuses(2, &["create", "f", "-p", "1", "--run-on", "n == 1"], "--run <COMMAND>");
    place.refuses(2, &["create", "f", "-p", "1", "--run", "true"], "--run-on <EXPR>");
    place.refuses(1, &["create", "f", "-p", "1", "--run-on", "n == 1", "--run", " "], "there is no command");
    place.refuses(1, &["create", "f", "-p", "1", "--stop-on", "n =="], "<stop-on>");
    place.does(&["create", "f", "-p", "1", "--snapshot"]);
    place.refuses(1, &["snapshot", "f"], "session f does not record, and has no rings");
    place.does(&["destroy", "f"]);
    let said = place.does(&["destroy", "s"]);
    assert!(
        said.contains("session s is gone; nothing was recorded") && !place.folder.join("t").exists(),
        "{said}"
    );
}

#[test]
fn what_cannot_be_recorded_is_told_when_it_is_to_begin() {
    let place = Place::new("cannot");
    let program = crate::sessions::check::Emitter::start();
    place.does(&["create", "s", "-p", &program.pid()]);
    place.does(&["enable", "s", "ses:ones"]);
    let said = place.refuses(1, &["start", "s"], "session s does not record");
    assert!(said.contains("did you mean"), "{said}");
    place.does(&["destroy", "s"]);
    assert!(!place.folder.join("s").exists(), "nothing was recorded");
    place.does(&["create", "s", "-p", &program.pid()]);
    place.does(&["enable", "s", "ses:one", "--filter", "n == 1", "--dialect", "lttng"]);
    place.does(&["enable", "s", "ses:*", "--filter", "n == 2", "--dialect", "lttng"]);
    place.refuses(1, &["start", "s"], "with --dialect lttng an event may have one");
    assert!(!place.folder.join("s").join("1").exists());
}

#[test]
fn a_folder_that_nobody_may_write_to_is_refused_when_the_session_is_made() {
    if !testkit::stranger::is_possible() {
        return testkit::skip::skip(
            "sessions-unwritable",
            "root alone can become somebody who may not write",
        );
    }
    let folder = testkit::stranger::Folder::new();
    let weir = folder.copy(env!("CARGO_BIN_EXE_weir").as_ref());
    let own = folder.path().join("alice");
    fs::create_dir(&own).unwrap();
    fs::set_permissions(&own, fs::Permissions::from_mode(0o700)).unwrap();
    let alice = testkit::stranger::ALICE;
    std::os::unix::fs::chown(&own, Some(alice), Some(alice)).unwrap();
    let denied = folder.path().join("denied");
    fs::create_dir(&denied).unwrap();
    for output in [&denied, &denied.join("below")] {
        let mut command = testkit::stranger::command(alice, &[], &[], &weir);
        command.args(["record", "create", "s", "-p", "1", "-o", output.to_str().unwrap()]);
        let output = command.env("WEIR_SOCKET", own.join("s")).env("WEIR_IDLE", "0.1").output().unwrap();
        let said = text(&output.stderr);
        assert!(output.status.code() == Some(1) && said.contains("Permission denied"), "{said}");
    }
}

#[test]
fn places_that_are_no_place_for_a_daemon_are_refused() {
    let place = Place::new("place");
    let check = |code: i32, socket: &str, wanted: &str| {
        let output =
            place.command(&["record", "create", "s", "-p", "1", "--socket", socket]).output().unwrap();
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{socket}: {said}");
        assert!(said.contains(wanted), "{socket}: {said} lacks {wanted}");
    };
    check(1, &format!("/tmp/{}", "x".repeat(120)), "the limit is 107");
    let open = place.folder.join("open");
    fs::create_dir(&open).unwrap();
    fs::set_permissions(&open, fs::Permissions::from_mode(0o750)).unwrap();
    check(1, &open.join("s").display().to_string(), "is open to others (mode 750)");
    check(3, "/proc/weir/s", "cannot make /proc/weir");
    check(1, "/", "it names no file");
    fs::write(place.folder.join("file"), "").unwrap();
    check(1, &place.folder.join("file/s").display().to_string(), "is no folder");
}

#[test]
fn a_daemon_of_another_version_is_named() {
    let place = Place::new("version");
    let listener = UnixListener::bind(place.socket()).unwrap();
    let answers = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let hello = b"{\"weir\":\"9.9.9\",\"protocol\":7,\"pid\":4711,\"uid\":0,\"more\":[]}\n";
        std::io::Write::write_all(&mut stream, hello).unwrap();
    });
    let said = place.refuses(1, &["status"], "the daemon (process 4711) is of weir 9.9.9, this is ");
    assert!(said.contains("`kill 4711`"), "{said}");
    answers.join().unwrap();
}

#[test]
fn a_state_file_that_cannot_be_read_is_put_aside() {
    for state in [
        "",
        "{",
        "{\"protocol\": 99, \"weir\": \"9.9.9\"}",
        "[1]",
        "{\"protocol\":1,\"weir\":\"x\",\"pid\":1}",
    ] {
        let place = Place::new("state");
        let path = place.folder.join("record.sock.state");
        fs::write(&path, state).unwrap();
        let said = place.does(&["create", "s", "-p", "1"]);
        assert!(said.contains("what the daemon before has left cannot be read"), "{state}: {said}");
        assert_eq!(fs::read_to_string(place.folder.join("record.sock.state.unread")).unwrap(), state);
        assert!(wait::until(DEADLINE, || place.status().contains_key("s")));
    }
}
