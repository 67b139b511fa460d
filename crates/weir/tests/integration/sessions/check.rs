//! What tests of sessions share: a place with a daemon of its own, a program that emits what it is told, and what a trace has of it.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{DirBuilderExt as _, FileExt as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use testkit::target;
use weir_symbols::maps;

pub(crate) const DEADLINE: Duration = Duration::from_secs(120);

/// A folder with a socket in it; its daemon ends with it.
pub(crate) struct Place {
    pub(crate) folder: PathBuf,
}

impl Place {
    /// Not below the checkout, whose path may be longer than a socket's may.
    pub(crate) fn new(name: &str) -> Place {
        let folder = std::env::temp_dir().join(format!("weir-sessions-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        fs::DirBuilder::new().mode(0o700).create(&folder).unwrap();
        Place { folder }
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.folder.join("record.sock")
    }

    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
        command.args(args).current_dir(&self.folder);
        command.env("WEIR_SOCKET", self.socket()).env("WEIR_IDLE", "5");
        command
    }

    /// `weir record` with these words.
    pub(crate) fn record(&self, args: &[&str]) -> Output {
        self.command(&[&["record"], args].concat()).output().unwrap()
    }

    /// The same, which must go well; what it says.
    #[track_caller]
    pub(crate) fn does(&self, args: &[&str]) -> String {
        let output = self.record(args);
        let said = text(&output.stderr);
        assert!(output.status.success(), "{args:?}: {said}{}", self.logs());
        said
    }

    /// The same, which must be refused with this exit code, and these words.
    #[track_caller]
    pub(crate) fn refuses(&self, code: i32, args: &[&str], wanted: &str) -> String {
        let output = self.record(args);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{args:?}: {said}");
        assert!(said.contains(wanted), "{args:?}: {said} lacks {wanted}");
        said
    }

    /// Sessions by name, as `status` has them.
    #[track_caller]
    pub(crate) fn status(&self) -> BTreeMap<String, Value> {
        let output = self.record(&["status", "-f", "json"]);
        assert!(output.status.success(), "{}", text(&output.stderr));
        let sessions = text(&output.stdout);
        let sessions = sessions.lines().map(|line| serde_json::from_str::<Value>(line).expect(line));
        sessions.map(|session| (session["name"].as_str().unwrap().to_owned(), session)).collect()
    }

    /// The process id of the daemon, if one lives.
    pub(crate) fn daemon(&self) -> Option<Pid> {
        let lock = fs::read_to_string(self.folder.join("record.sock.lock")).ok()?;
        let pid = lock.trim().parse().ok()?;
        let command = fs::read(format!("/proc/{pid}/cmdline")).ok()?;
        let is_its = String::from_utf8_lossy(&command).contains("record\0daemon");
        (is_its && is_alive(pid)).then_some(Pid::from_raw(pid))
    }

    /// What daemon and recordings said.
    pub(crate) fn logs(&self) -> String {
        let entries = fs::read_dir(&self.folder).into_iter().flatten().flatten();
        let logs = entries.filter(|entry| entry.file_name().to_string_lossy().ends_with(".log"));
        let text = |path: &Path| fs::read_to_string(path).unwrap_or_default();
        logs.map(|entry| format!("\n{}:\n{}", entry.path().display(), text(&entry.path()))).collect()
    }

    /// Numbers of events `ses:one` in the trace, by thread, in the order of time; and those of `ses:two`.
    #[track_caller]
    pub(crate) fn read(&self, folder: &str) -> Read {
        let output = self.command(&["view", "-f", "json", folder]).output().unwrap();
        assert!(output.status.success(), "{folder}: {}", text(&output.stderr));
        let lines = text(&output.stdout);
        // babeltrace2 reads the same tree.
        match Command::new("babeltrace2").arg(self.folder.join(folder)).output() {
            Err(_) => testkit::skip::skip(
                "sessions-babeltrace2",
                "no babeltrace2; traces are read by `weir view` alone",
            ),
            Ok(theirs) => {
                let said = text(&theirs.stderr);
                assert!(theirs.status.success(), "{folder}: {said}");
                let events = lines.lines().filter(|line| line.contains("\"event\":")).count();
                assert_eq!(text(&theirs.stdout).lines().count(), events, "{folder}: {said}");
            }
        }
        let mut read = Read::default();
        for line in lines.lines() {
            let event: Value = serde_json::from_str(line).expect(line);
            let fields = &event["fields"];
            match event["event"].as_str() {
                Some("ses:one") => {
                    let number = |name: &str| fields[name].as_i64().expect(line);
                    read.one.entry(number("thread")).or_default().push(number("n"));
                }
                Some("ses:two") => {
                    let n = fields["n"].as_i64().expect(line);
                    assert_eq!(fields["text"], format!("number {n}"), "torn: {line}");
                    read.two.push(n);
                }
                None if event["lost"] == "events" => read.lost += event["count"].as_u64().expect(line),
                _ => panic!("{line}"),
            }
            read.lines.push(event);
        }
        read
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        // One that a command has started, and that comes to the lock when this one is gone, has no sessions to stay for.
        let _ = fs::remove_file(self.folder.join("record.sock.state"));
        if let Some(daemon) = self.daemon() {
            let _ = kill(daemon, Signal::SIGKILL);
            testkit::wait::until(DEADLINE, || !is_alive(daemon.as_raw()));
        }
        if std::thread::panicking() {
            // For who looks at it.
            let _ = std::io::Write::write_all(&mut std::io::stderr(), self.logs().as_bytes());
        }
        let _ = fs::remove_dir_all(&self.folder);
    }
}

#[derive(Default)]
pub(crate) struct Read {
    pub(crate) one: BTreeMap<i64, Vec<i64>>,
    pub(crate) two: Vec<i64>,
    pub(crate) lost: u64,
    pub(crate) lines: Vec<Value>,
}

impl Read {
    pub(crate) fn count(&self) -> usize {
        self.one.values().map(Vec::len).sum::<usize>() + self.two.len()
    }
}

/// A process that lives, and is no zombie.
pub(crate) fn is_alive(pid: i32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with(['Z', 'X']))
}

/// A session `s` that records these events of a program, with these options.
pub(crate) fn started(name: &str, events: &str, options: &[&str]) -> (Place, Emitter) {
    let (place, program) = (Place::new(name), Emitter::start());
    place.does(&[&["create", "s", "-p", &program.pid()], options].concat());
    place.does(&["enable", "s", events]);
    place.does(&["start", "s"]);
    (place, program)
}

/// tests/programs/emits.c
pub(crate) struct Emitter(pub(crate) testkit::Daemon);

impl Emitter {
    pub(crate) fn start() -> Emitter {
        Emitter(testkit::Daemon::spawn(Command::new(target::program("emits"))).unwrap())
    }

    pub(crate) fn pid(&self) -> String {
        self.0.pid().to_string()
    }

    /// Has it do something; its answer.
    #[track_caller]
    pub(crate) fn tell(&mut self, line: &str) -> String {
        self.0.write(&format!("{line}\n")).unwrap();
        self.0.line(DEADLINE).unwrap()
    }

    /// Its code is that of its file, and nothing of weir's is left in it.
    #[track_caller]
    pub(crate) fn is_untouched(&self) {
        let pid = self.0.pid();
        let mappings = maps::read(pid).unwrap();
        let program = fs::read_link(format!("/proc/{pid}/exe")).unwrap();
        let bytes = fs::read(&program).unwrap();
        let memory = fs::File::open(format!("/proc/{pid}/mem")).unwrap();
        let mut is_seen = false;
        for mapping in
            mappings.iter().filter(|mapping| mapping.execute && Path::new(&mapping.path) == program)
        {
            let offset = mapping.offset.0 as usize;
            let length = ((mapping.end.0 - mapping.start.0) as usize).min(bytes.len() - offset);
            let mut code = vec![0; length];
            memory.read_exact_at(&mut code, mapping.start.0).unwrap();
            assert!(code == bytes[offset..][..length], "the code of process {pid} is changed");
            is_seen = true;
        }
        assert!(is_seen, "{mappings:?}");
        let left = mappings.iter().find(|mapping| mapping.path.starts_with("/memfd:weir"));
        assert!(left.is_none(), "{left:?}");
    }

    /// It has run to its end as if nobody had looked.
    #[track_caller]
    pub(crate) fn ends_well(self) {
        let ended = self.0.finish(DEADLINE).unwrap();
        assert!(ended.status.success() && ended.stderr.is_empty(), "{ended:?}");
    }
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// What a recording reports that had no CPU for a second while it held a process: on a loaded machine this happens, and is no silent loss.
pub(super) const STARVED: &str = "could not be taken over in one stop";

/// A change misses nothing, or what it reports is that.
pub(super) fn misses_nothing(said: &str) -> bool {
    let is_late = ["longer than 1s", "did not stop within 1s", "got no CPU to end that"];
    let is_late = is_late.iter().any(|text| said.contains(text));
    !said.contains("missing") || said.contains(STARVED) && is_late
}
