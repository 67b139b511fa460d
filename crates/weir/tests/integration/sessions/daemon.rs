//! The daemon: that there is one when it is needed and none when it is not, for its user alone, whatever is said to it.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixStream;
use std::process::Stdio;

use nix::sys::signal::{Signal, kill};
use testkit::{random, stranger, wait};

use crate::sessions::check::{DEADLINE, Emitter, Place, is_alive, text};

#[test]
fn a_daemon_is_started_when_needed_and_ends_when_it_is_not() {
    let place = Place::new("idle");
    // Nothing to do: none is started.
    assert!(place.record(&["status"]).status.success());
    assert!(place.daemon().is_none());
    let idle = |args: &[&str]| {
        let output = place.command(&[&["record"], args].concat()).env("WEIR_IDLE", "0.3").output().unwrap();
        assert!(output.status.success(), "{}", text(&output.stderr));
    };
    idle(&["create", "s", "-p", "1"]);
    let daemon = place.daemon().expect("a daemon").as_raw();
    // Of no terminal and no session of anybody's, with nothing open but its own; nobody's child.
    let stat = fs::read_to_string(format!("/proc/{daemon}/stat")).unwrap();
    let fields: Vec<&str> = stat.rsplit_once(") ").unwrap().1.split(' ').collect();
    assert_ne!(fields[1], std::process::id().to_string(), "the parent");
    assert_eq!((fields[3], fields[4]), (&daemon.to_string()[..], "0"), "session and terminal");
    let open: Vec<String> = fs::read_dir(format!("/proc/{daemon}/fd"))
        .unwrap()
        .flatten()
        .filter_map(|entry| Some(fs::read_link(entry.path()).ok()?.display().to_string()))
        .collect();
    let own = [&place.folder.display().to_string(), "/dev/null", "socket:", "anon_inode:[signalfd]"];
    assert!(open.iter().all(|file| own.iter().any(|own| file.starts_with(*own))), "{open:?}");
    // With a session it stays, while another one that has none comes, stays for as long, and ends.
    let other = Place::new("idle-other");
    let ended = other.command(&["record", "daemon", "--idle", "0.3"]).output().unwrap();
    assert!(ended.status.success(), "{}", text(&ended.stderr));
    assert!(is_alive(daemon));
    idle(&["destroy", "s"]);
    assert!(wait::until(DEADLINE, || !is_alive(daemon)), "it has nothing to do");
    let mut left: Vec<String> = fs::read_dir(&place.folder)
        .unwrap()
        .flatten()
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect();
    left.sort();
    assert_eq!(left, ["record.sock.lock"]);
}

#[test]
fn commands_that_race_to_start_it_find_one() {
    for round in 0..5 {
        let place = Place::new(&format!("race-{round}"));
        let names: Vec<String> = (0..8).map(|number| format!("s{number}")).collect();
        let create = |name: &String| {
            let mut command = place.command(&["record", "create", name, "-p", "1"]);
            command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
        };
        let commands: Vec<_> = names.iter().map(create).collect();
        for command in commands {
            let output = command.wait_with_output().unwrap();
            assert!(output.status.success(), "{}{}", text(&output.stderr), place.logs());
        }
        assert_eq!(place.status().into_keys().collect::<Vec<_>>(), names);
    }
}

#[test]
fn several_sessions_record_at_a_time() {
    let place = Place::new("several");
    let mut programs = [Emitter::start(), Emitter::start(), Emitter::start()];
    for (number, program) in programs.iter().enumerate() {
        let name = format!("s{number}");
        place.does(&["create", &name, "-p", &program.pid()]);
        place.does(&["enable", &name, "ses:one"]);
    }
    let commands: Vec<_> = (0..3)
        .map(|number| {
            place.command(&["record", "start", &format!("s{number}")]).stderr(Stdio::piped()).spawn().unwrap()
        })
        .collect();
    for command in commands {
        let output = command.wait_with_output().unwrap();
        assert!(output.status.success(), "{}", text(&output.stderr));
    }
    for (number, program) in programs.iter_mut().enumerate() {
        program.tell(&format!("a {}", 100 * (number + 1)));
    }
    place.does(&["destroy", "--all"]);
    for number in 0..3 {
        assert_eq!(place.read(&format!("s{number}")).count(), 100 * (number + 1));
    }
    programs.into_iter().for_each(Emitter::ends_well);
}

#[test]
fn a_signal_ends_it_with_everything_written() {
    for signal in [Signal::SIGTERM, Signal::SIGINT] {
        let place = Place::new(&format!("ended-{signal}"));
        let mut program = Emitter::start();
        place.does(&["create", "s", "-p", &program.pid()]);
        place.does(&["enable", "s", "ses:one"]);
        place.does(&["start"]);
        program.tell("a 1234");
        let daemon = place.daemon().unwrap();
        kill(daemon, signal).unwrap();
        assert!(wait::until(DEADLINE, || !is_alive(daemon.as_raw())));
        program.is_untouched();
        assert_eq!(place.read("s").count(), 1234);
        let said = place.does(&["start"]);
        assert!(
            said.contains(&format!(
                "the daemon (process {daemon}) was ended; its sessions are here, and do not record: s"
            )),
            "{said}"
        );
        program.tell("a 6");
        let said = place.does(&["destroy"]);
        assert!(said.contains("1240 events are in"), "{said}");
        program.ends_well();
    }
}

#[test]
fn users_have_daemons_of_their_own() {
    if !stranger::is_possible() {
        return testkit::skip::skip("sessions-users", "becoming somebody else is for root");
    }
    let folder = stranger::Folder::new();
    let weir = folder.copy(env!("CARGO_BIN_EXE_weir").as_ref());
    let place = Place::new("users");
    place.does(&["create", "mine", "-p", "1"]);
    let daemon = place.daemon().unwrap().as_raw();
    let own = folder.path().join("alice");
    fs::create_dir(&own).unwrap();
    std::os::unix::fs::chown(&own, Some(stranger::ALICE), Some(stranger::ALICE)).unwrap();
    fs::set_permissions(&own, fs::Permissions::from_mode(0o700)).unwrap();
    let alice = |socket: &std::path::Path, args: &[&str]| {
        let mut command = stranger::command(stranger::ALICE, &[], &[], &weir);
        command.arg("record").args(args).env("WEIR_SOCKET", socket).env("WEIR_IDLE", "0.1").output().unwrap()
    };
    let check = |code: i32, socket: &std::path::Path, args: &[&str], wanted: &str| {
        let output = alice(socket, args);
        let said = text(&output.stdout) + &text(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{args:?}: {said}");
        assert!(said.contains(wanted), "{args:?}: {said} lacks {wanted}");
    };
    check(
        1,
        &place.socket(),
        &["destroy", "mine"],
        &format!("is of user 0, this is user {}", stranger::ALICE),
    );
    check(1, &place.socket(), &["create", "hers", "-p", "1"], "is of user 0");
    // Even where the folder lets her in, the daemon does not hear her.
    fs::set_permissions(&place.folder, fs::Permissions::from_mode(0o755)).unwrap();
    fs::set_permissions(place.socket(), fs::Permissions::from_mode(0o777)).unwrap();
    let script = format!(
        "import socket\ns = socket.socket(socket.AF_UNIX)\ns.connect('{}')\ndata = b''\n\
         try: s.sendall(b'{{\"do\": \"destroy\", \"session\": \"mine\"}}\\n')\nexcept ConnectionError: pass\n\
         try:\n    while True:\n        part = s.recv(65536)\n        if not part: break\n        data += part\n\
         except ConnectionError: pass\nprint(data.decode())",
        place.socket().display()
    );
    if testkit::target::is_installed("python3") {
        let mut python = stranger::command(stranger::ALICE, &[], &[], "/usr/bin/python3".as_ref());
        let output = python.args(["-c", &script]).output().unwrap();
        let said = text(&output.stdout) + &text(&output.stderr);
        assert!(
            said.contains(&format!("this daemon is user 0's, and you are user {}", stranger::ALICE)),
            "{said}"
        );
    } else {
        testkit::skip::skip("sessions-python3", "no python3 to speak to the socket as another user");
    }
    place.refuses(1, &["status"], "is open to others (mode 755): it must have mode 700");
    fs::set_permissions(&place.folder, fs::Permissions::from_mode(0o700)).unwrap();
    assert!(place.status().contains_key("mine") && is_alive(daemon));
    // Hers is hers.
    let socket = own.join("record.sock");
    check(
        0,
        &socket,
        &["create", "hers", "-p", "1", "-o", own.join("t").to_str().unwrap()],
        "session hers is made",
    );
    check(0, &socket, &["status"], "hers: stopped");
    check(0, &socket, &["destroy", "hers"], "nothing was recorded");
    assert_eq!(place.status().into_keys().collect::<Vec<_>>(), ["mine"]);
}

/// Says something to the daemon; its answer, without the hello.
fn say(place: &Place, bytes: &[u8]) -> String {
    let stream = UnixStream::connect(place.socket()).unwrap();
    stream.set_read_timeout(Some(DEADLINE)).unwrap();
    let mut stream = BufReader::new(stream);
    let mut hello = String::new();
    stream.read_line(&mut hello).unwrap();
    assert!(hello.contains("\"protocol\":3"), "{hello}");
    // It may have heard enough before the end.
    let _ = stream.get_mut().write_all(bytes);
    let _ = stream.get_mut().shutdown(std::net::Shutdown::Write);
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    text(&answer)
}

#[test]
fn whatever_is_said_to_it_it_stays() {
    let place = Place::new("hostile");
    place.does(&["create", "s", "-p", "1"]);
    let daemon = place.daemon().unwrap().as_raw();
    for (said, wanted) in [
        (&b"\n"[..], "no JSON"),
        (b"{}\n", "has no `do`"),
        (b"{\"do\": \"status\", \"session\": null, \"more\": 1}\n", "no field `more`"),
        (b"{\"do\": \"start\", \"session\": \"../../etc/passwd\"}\n", "no name of a session"),
        (b"{\"do\": \"stop\", \"session\": \"nobody\"}\n", "there is no session nobody; there is s"),
        (b"\xff\xfe\x00\n", "no JSON"),
        (b"{\"do\": \"status\"", ""),
        (b"", ""),
    ] {
        let answer = say(&place, said);
        assert!(answer.contains(wanted), "{:?}: {answer}", text(said));
    }
    let long = vec![b'['; 4 << 20];
    assert!(say(&place, &long).contains("a request has 1048576 bytes at most"));
    assert!(say(&place, &[&long[..1 << 19], b"\n"].concat()).contains("no JSON"));
    let mut state = 0x5e55_1045;
    let whole = b"{\"do\": \"enable\", \"session\": \"s\", \"rule\": {\"events\": [\"a:b\"]}}\n";
    for _ in 0..300 {
        let mut line = whole.to_vec();
        for _ in 0..1 + random::next(&mut state) % 4 {
            let at = random::next(&mut state) as usize % (line.len() - 1);
            line[at] = random::next(&mut state) as u8;
        }
        say(&place, &line);
    }
    // Those who say nothing are in nobody's way.
    let silent: Vec<UnixStream> = (0..20).map(|_| UnixStream::connect(place.socket()).unwrap()).collect();
    assert_eq!(place.status().into_keys().collect::<Vec<_>>(), ["s"]);
    drop(silent);
    assert!(is_alive(daemon), "{}", place.logs());
}

#[test]
fn a_client_that_goes_away_takes_nothing_with_it() {
    let place = Place::new("gone");
    let mut program = Emitter::start();
    place.does(&["create", "s", "-p", &program.pid()]);
    place.does(&["enable", "s", "ses:one"]);
    let mut command = place.command(&["record", "start", "s"]).stderr(Stdio::null()).spawn().unwrap();
    let is_begun = || place.status()["s"]["state"] != "stopped";
    assert!(wait::until(DEADLINE, is_begun));
    let _ = command.kill();
    command.wait().unwrap();
    assert!(wait::until(DEADLINE, || place.status()["s"]["state"] == "recording"), "{}", place.logs());
    program.tell("a 10");
    place.does(&["destroy", "s"]);
    assert_eq!(place.read("s").count(), 10);
    program.ends_well();
}

#[test]
fn it_runs_in_the_foreground_where_it_is_called() {
    let place = Place::new("foreground");
    let mut daemon = place.command(&["record", "daemon", "--idle", "0.2"]);
    let output = daemon.output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    let mut first = place.command(&["record", "daemon"]).stderr(Stdio::null()).spawn().unwrap();
    assert!(wait::until(DEADLINE, || place.socket().exists()));
    let second = place.record(&["daemon"]);
    assert!(second.status.success() && text(&second.stderr).contains("a daemon is there already"));
    first.kill().unwrap();
    first.wait().unwrap();
    // A socket that nobody listens at is taken over.
    assert!(place.socket().exists());
    place.does(&["create", "s", "-p", "1"]);
    assert!(place.status().contains_key("s"));
}
