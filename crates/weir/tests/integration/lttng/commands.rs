//! LTTng's own command sequences: each is written once, and done by `lttng` and by `weir lttng`.
//!
//! The oracle is LTTng: what both record of runs of the same programs is the same, but for times, CPUs and process ids. Both record every program of
//! the machine, also those of other tests: the programs here have names of their own, and what others emit is left out.

use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::PathBuf;
use std::process::{Command, Output};
use std::sync::atomic::{AtomicU32, Ordering};

use testkit::lttng::Lttng;
use testkit::{Daemon, paths, skip, wait};

use super::{DEADLINE, Harbour, err, events, out, with_lttng};

/// What is done. In words TRACE is the folder of the session, SAVED one for files of sessions, and PID the program that was begun last.
enum Step {
    /// A command, which succeeds.
    Does(&'static str),
    /// A command, which says this.
    Says(&'static str, &'static str),
    /// A command, which is refused: by LTTng with this exit code, and by weir.
    Refuses(&'static str, i32),
    /// A program, which waits for a line before it emits anything; whoever records it has found it.
    Begins(&'static str),
    /// The same, which nobody needs to record.
    Idles(&'static str),
    /// The program that was begun last is recorded.
    IsRecorded,
    /// The line: the program that was begun last runs to its end.
    Ends,
    /// A program, from its beginning to its end, which nobody records.
    Runs(&'static str),
    /// All that comes after it is done by another daemon, where that is cheap to have.
    Elsewhere,
}

use Step::{Begins, Does, Elsewhere, Ends, Idles, IsRecorded, Refuses, Runs, Says};

const QUICK_START: &[Step] = &[
    Says("create demo -o TRACE", "Session demo created."),
    Idles("ferry 20 waits"),
    Says("list -u", "ferry:boarded (loglevel: TRACE_WARNING (4)) (type: tracepoint)"),
    Says("enable-event -u ferry:*", "ust event ferry:* created in channel channel0"),
    Says("start", "Tracing started for session demo"),
    IsRecorded,
    Ends,
    Says("stop", "Tracing stopped for session demo"),
    Says("view", "ferry:boarded: "),
    Says("destroy", "Session demo destroyed"),
];

const MESSAGES: &[Step] = &[
    Does("create demo -o TRACE"),
    Does("enable-event --userspace lttng_ust_tracef:*"),
    Does("start"),
    Begins("logs"),
    Ends,
    Does("stop"),
    Does("destroy"),
];

const MESSAGES_OF_A_LEVEL: &[Step] = &[
    Does("create demo --output=TRACE"),
    Does("enable-event -u lttng_ust_tracelog:* --loglevel=INFO"),
    Refuses("enable-event -u lttng_ust_tracelog:* --loglevel=LOUD", 97),
    Does("start"),
    Begins("logs"),
    Ends,
    Does("destroy"),
];

const EXCLUSIONS_AND_FILTERS: &[Step] = &[
    Does("create demo -o TRACE"),
    Says(
        "enable-event -u '*' --exclude 'ferry:l*,ferry:horn' --filter 'ticket > 5 && ticket != 9'",
        "Filter 'ticket > 5 && ticket != 9' successfully set",
    ),
    Refuses("enable-event -u ferry:boarded -x ferry:horn", 1),
    Does("start"),
    Begins("ferry 20 waits"),
    Ends,
    Does("destroy"),
];

const CHANNELS: &[Step] = &[
    Does("create demo -o TRACE"),
    Says(
        "enable-channel -u large --subbuf-size=1M --num-subbuf=4",
        "ust channel large enabled for session demo",
    ),
    Does("enable-channel -u --subbuf-size=64k --num-subbuf=8 --discard small"),
    Does("enable-event -u ferry:boarded -c large"),
    Does("enable-event -u ferry:horn --channel small"),
    Refuses("enable-event -u ferry:lands", 83),
    Does("start"),
    Begins("ferry 20 waits"),
    Ends,
    Does("disable-channel -u small"),
    Begins("ferry 10 waits"),
    Ends,
    Does("destroy"),
];

const DISABLED_MEANWHILE: &[Step] = &[
    Does("create demo -o TRACE"),
    Does("enable-event -u ferry:boarded,ferry:horn"),
    Refuses("enable-event -u ferry:horn", 55),
    Does("start"),
    Begins("ferry 20 waits"),
    Ends,
    Says("disable-event -u ferry:horn", "ust ferry:horn of type any disabled in channel channel0"),
    Refuses("disable-event -u ferry:lands", 76),
    Begins("ferry 10 waits"),
    Ends,
    Does("destroy"),
];

const CONTEXTS: &[Step] = &[
    Does("create demo -o TRACE"),
    Does("enable-event -u ferry:*"),
    Says("add-context -u --type=vpid --type=vtid -t procname", "ust context vtid added to all channels"),
    Refuses("add-context -u -t vpid", 4),
    Refuses("add-context -u -t weather", 3),
    Does("start"),
    Begins("ferry 20 waits"),
    Ends,
    Does("destroy"),
];

const TRACKED: &[Step] = &[
    Does("create demo -o TRACE"),
    Does("enable-event -u ferry:*"),
    Says("untrack -u --all --vpid", "Virtual process ID tracking policy set to `exclude all`"),
    Does("start"),
    Idles("ferry 20 waits"),
    Says("track -u --vpid=PID", "to the virtual process ID tracker inclusion set"),
    IsRecorded,
    Runs("ferry 30"),
    Ends,
    Says("track -u --all --vpid", "Virtual process ID tracking policy set to `include all`"),
    Begins("ferry 10 waits"),
    Ends,
    Does("destroy"),
];

const SAVED: &[Step] = &[
    Does("create demo -o TRACE"),
    Does("enable-channel -u c"),
    Does("enable-event -u ferry:l* -c c --filter 'minutes < 7'"),
    Does("add-context -u -t procname -c c"),
    Says("save -o SAVED demo", "Session demo saved successfully in"),
    Refuses("save -o SAVED demo", 85),
    Does("destroy"),
    Elsewhere,
    Says("load -i SAVED demo", "Session demo has been loaded successfully"),
    Does("set-session demo"),
    Does("start"),
    Begins("ferry 20 waits"),
    Ends,
    Does("destroy"),
];

const SNAPSHOTS: &[Step] = &[
    Says("create demo --snapshot -o TRACE", "Snapshot session demo created."),
    Does("enable-event -u ferry:*"),
    Does("start"),
    Begins("ferry 20 waits"),
    Ends,
    Says("snapshot record", "Snapshot recorded successfully for session demo"),
    Does("stop"),
    Does("destroy"),
];

const ROTATED: &[Step] = &[
    Does("create demo -o TRACE"),
    Does("enable-event -u ferry:*"),
    Says("enable-rotation --timer=500ms", "Enabled periodic rotations every 500000 "),
    Refuses("enable-rotation --timer=1s", 1),
    Says(
        "enable-rotation --size=64k",
        "Enabled size-based rotations every 65536 bytes written on session demo",
    ),
    Does("start"),
    Refuses("start", 80),
    Begins("ferry 20 waits"),
    Ends,
    Says("disable-rotation --timer", "Disabled periodic rotation on session demo"),
    Says("rotate", "Trace chunk archive for session demo is now readable at"),
    Begins("ferry 10 waits"),
    Ends,
    Does("stop"),
    Refuses("stop", 81),
    Does("destroy"),
];

const CLEARED: &[Step] = &[
    Does("create demo -o TRACE"),
    Does("enable-event -u -a"),
    Does("start"),
    Begins("ferry 20 waits"),
    Ends,
    Says("clear", "Session \"demo\" cleared"),
    Begins("ferry 10 waits"),
    Ends,
    Does("stop"),
    Does("destroy"),
];

/// Who does it.
enum By<'a> {
    Lttng(&'a Lttng),
    Weir,
}

struct Doer<'a> {
    by: By<'a>,
    harbour: &'a Harbour,
    /// With the traces, and weir's sockets.
    folder: PathBuf,
    daemons: u32,
    running: Vec<Daemon>,
    pids: Vec<u32>,
}

impl Drop for Doer<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let _ = self.command("destroy -a").output();
        } else {
            let _ = std::fs::remove_dir_all(&self.folder);
        }
    }
}

impl<'a> Doer<'a> {
    /// Not below the checkout, whose path may be longer than a socket's may.
    fn new(by: By<'a>, harbour: &'a Harbour, name: &str) -> Doer<'a> {
        let who = if matches!(by, By::Weir) { "weir" } else { "lttng" };
        let folder = std::env::temp_dir().join(format!("weir-commands-{name}-{who}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        DirBuilder::new().mode(0o700).create(&folder).unwrap();
        Doer { by, harbour, folder, daemons: 0, running: Vec::new(), pids: Vec::new() }
    }

    fn command(&self, words: &str) -> Command {
        let folder = |name: &str| self.folder.join(name).display().to_string();
        let pid = self.pids.last().map(u32::to_string).unwrap_or_default();
        let words = words.replace("TRACE", &folder("trace")).replace("SAVED", &folder("saved"));
        let words = split(&words.replace("PID", &pid));
        let mut command = match self.by {
            By::Lttng(_) => Command::new("lttng"),
            By::Weir => Command::new(env!("CARGO_BIN_EXE_weir")),
        };
        match self.by {
            By::Lttng(lttng) => command.arg("--no-sessiond").env("LTTNG_HOME", lttng.home()),
            By::Weir => command.arg("lttng").env("WEIR_SOCKET", self.socket()).env("WEIR_IDLE", "5"),
        };
        command.args(words).current_dir(&self.folder);
        command
    }

    fn socket(&self) -> PathBuf {
        self.folder.join(format!("{}.sock", self.daemons))
    }

    fn output(&self, words: &str) -> Output {
        self.command(words).output().unwrap()
    }

    #[track_caller]
    fn does(&self, words: &str) -> String {
        let output = self.output(words);
        let said = out(&output);
        assert!(output.status.success(), "{}: {words}: {said}{}", self.who(), err(&output));
        said
    }

    fn who(&self) -> &'static str {
        if matches!(self.by, By::Weir) { "weir" } else { "LTTng" }
    }

    /// A program with these words.
    fn program(&self, words: &str) -> Command {
        let words = split(words);
        let program = self.harbour.0.join(&words[0]).display().to_string();
        let args: Vec<&str> = words[1..].iter().map(String::as_str).collect();
        let mut command = self.harbour.command(&program, &args);
        if let By::Lttng(lttng) = self.by {
            command.env("LTTNG_UST_REGISTER_TIMEOUT", "-1").env("LTTNG_HOME", lttng.home());
        }
        command
    }

    #[track_caller]
    fn begins(&mut self, words: &str) {
        let program = Daemon::spawn(self.program(words)).unwrap();
        let pid = program.pid();
        self.running.push(program);
        self.pids.push(pid);
        // While programs come and go LTTng may fail to list them.
        let listed = || out(&self.output("list -u")).contains(&format!("PID: {pid} "));
        assert!(wait::until(DEADLINE, listed), "{} has not found the program", self.who());
    }

    /// LTTng records what it lists.
    #[track_caller]
    fn is_recorded(&self) {
        if let By::Weir = self.by {
            let pid = self.pids.last().unwrap();
            let is_recorded = || {
                let mut status = Command::new(env!("CARGO_BIN_EXE_weir"));
                status.args(["record", "status", "-f", "json"]).env("WEIR_SOCKET", self.socket());
                out(&status.output().unwrap()).contains(&format!("\"pid\":{pid}"))
            };
            assert!(wait::until(DEADLINE, is_recorded), "weir does not record the program");
        }
    }

    #[track_caller]
    fn step(&mut self, step: &Step) {
        match step {
            Does(words) => drop(self.does(words)),
            Says(words, wanted) => {
                let (said, wanted) = (self.does(words), wanted.replace("ferry", &own_name()));
                assert!(said.contains(&wanted), "{}: {words}: {said} lacks {wanted}", self.who());
            }
            Refuses(words, code) => {
                let output = self.output(words);
                let said = err(&output);
                assert_eq!(output.status.code(), Some(*code), "{}: {words}: {said}", self.who());
            }
            Begins(words) => {
                self.begins(words);
                self.is_recorded();
            }
            Idles(words) => self.begins(words),
            IsRecorded => self.is_recorded(),
            Ends => {
                let mut program = self.running.pop().unwrap();
                program.write("\n").unwrap();
                assert!(program.finish(DEADLINE).unwrap().status.success());
            }
            Runs(words) => assert!(self.program(words).status().unwrap().success()),
            Elsewhere => self.daemons += 1,
        }
    }

    /// What the programs of this test have emitted, of what is in the trace; LTTng's state dump, which it makes of itself, left out.
    #[track_caller]
    fn recorded(&self) -> Vec<String> {
        // What LTTng-UST says of libraries itself: LTTng dumps it, and a program that has not registered yet says it to nobody.
        let is_of_libraries = |event: &String| {
            ["lttng_ust_statedump:", "lttng_ust_lib:"].iter().any(|of| event.starts_with(of))
        };
        let is_own = |event: &String| event.contains(&own_name()) && !is_of_libraries(event);
        let masked = |event: String| {
            self.pids.iter().enumerate().fold(event, |event, (at, pid)| {
                ["vpid", "vtid"].iter().fold(event, |event, name| {
                    event.replace(&format!("{name} = {pid}"), &format!("{name} = program {at}"))
                })
            })
        };
        let mut events: Vec<String> =
            events(&self.folder.join("trace")).into_iter().filter(is_own).map(masked).collect();
        events.sort();
        events
    }
}

/// In place of `ferry`, in programs and in words.
fn own_name() -> String {
    format!("canal{}", std::process::id())
}

/// The programs, by names of their own; none, loudly, where LTTng's headers are not.
fn programs() -> Option<Harbour> {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let own = own_name();
    let folder = format!("{own}-{}", NEXT.fetch_add(1, Ordering::Relaxed));
    let harbour = Harbour(paths::target().join("testkit/ferry").join(folder));
    std::fs::create_dir_all(&harbour.0).unwrap();
    for name in ["ferry.c", "ferry.h", "logs.c"] {
        let text = std::fs::read_to_string(paths::root().join("tests/lttng").join(name)).unwrap();
        std::fs::write(harbour.0.join(name.replace("ferry", &own)), text.replace("ferry", &own)).unwrap();
    }
    let build = |program: &str| {
        let source = harbour.0.join(format!("{program}.c"));
        harbour.build(program, &[source.to_str().unwrap()], &["-I", harbour.0.to_str().unwrap()])
    };
    (build(&own) && build("logs")).then_some(harbour)
}

/// Words between blanks; '…' keeps them together. `ferry` is what it is called here.
fn split(text: &str) -> Vec<String> {
    let (mut words, mut is_quoted) = (vec![String::new()], false);
    for c in text.replace("ferry", &own_name()).chars() {
        match c {
            '\'' => is_quoted = !is_quoted,
            // SANITY: there is a first.
            ' ' if !is_quoted => words.push(String::new()),
            c => words.last_mut().unwrap().push(c),
        }
    }
    words
}

/// Both do it, and have the same then: so many events.
#[track_caller]
fn check(name: &str, steps: &[Step], count: usize) {
    let Some(harbour) = programs() else { return };
    with_lttng(name, |lttng| {
        if out(&lttng.ask(&["list"])).contains("demo") {
            return skip::skip("lttng-commands", "LTTng has a session of this name");
        }
        let recorded = |by| {
            let mut doer = Doer::new(by, &harbour, name);
            steps.iter().for_each(|step| doer.step(step));
            doer.recorded()
        };
        let theirs = recorded(By::Lttng(lttng));
        assert_eq!(theirs.len(), count, "LTTng: {theirs:#?}");
        let ours = recorded(By::Weir);
        for (ours, theirs) in ours.iter().zip(&theirs) {
            assert_eq!(ours, theirs);
        }
        assert_eq!(ours.len(), theirs.len(), "{ours:#?}");
    });
}

#[test]
fn the_quick_start_of_user_space() {
    check("quick-start", QUICK_START, 80);
}

#[test]
fn messages_by_tracef() {
    check("messages", MESSAGES, 5);
}

#[test]
fn messages_by_tracelog_of_a_level() {
    check("levels", MESSAGES_OF_A_LEVEL, 10);
}

#[test]
fn all_events_but_some_that_a_filter_accepts() {
    check("exclusions", EXCLUSIONS_AND_FILTERS, 13);
}

#[test]
fn events_in_two_channels() {
    check("channels", CHANNELS, 50);
}

#[test]
fn an_event_is_disabled_while_it_is_recorded() {
    check("disabled", DISABLED_MEANWHILE, 50);
}

#[test]
fn contexts_of_each_event() {
    check("contexts", CONTEXTS, 80);
}

#[test]
fn processes_are_tracked_by_their_ids() {
    check("tracked", TRACKED, 120);
}

#[test]
fn a_session_is_saved_and_loaded() {
    check("saved", SAVED, 13);
}

#[test]
fn a_flight_recorder_takes_a_snapshot() {
    check("snapshots", SNAPSHOTS, 80);
}

#[test]
fn a_session_is_rotated() {
    check("rotated", ROTATED, 120);
}

#[test]
fn a_session_is_cleared() {
    check("cleared", CLEARED, 40);
}

#[test]
fn what_weir_has_not_is_refused_by_name() {
    let harbour = Harbour(std::env::temp_dir().join(format!("weir-refuses-{}", std::process::id())));
    std::fs::create_dir_all(&harbour.0).unwrap();
    let doer = Doer::new(By::Weir, &harbour, "refused");
    let xml = doer.folder.join("demo.lttng");
    std::fs::write(&xml, "<?xml version=\"1.0\" encoding=\"UTF-8\"?><sessions/>").unwrap();
    let check = |words: &str, code: i32, wanted: &str| {
        let output = doer.output(words);
        assert_eq!(output.status.code(), Some(code), "{words}: {}", err(&output));
        assert!(err(&output).contains(wanted), "{words}: {} lacks {wanted}", err(&output));
    };
    check("status", 1, "Can't find a current session");
    check("start nobody", 23, "Session name nobody not found");
    doer.does("create demo -o TRACE");
    check("create demo", 1, "Session name already exists");
    check("create --live", 1, "weir view --follow");
    check("create --set-url=net://localhost x", 1, "file://DIR is wanted");
    check("create --shm-path=/dev/shm --snapshot x", 1, "--shm-path");
    check("start", 72, "No channel found in the session");
    doer.does("create kept -o TRACE-kept --shm-path=shm");
    doer.does("save kept --output-path=SAVED");
    let saved = std::fs::read_dir(doer.folder.join("saved")).unwrap().flatten().next().unwrap();
    let kept = format!("\"shm-dir\": \"{}\"", doer.folder.join("shm").display());
    assert!(
        std::fs::read_to_string(saved.path()).unwrap().replace("\":\"", "\": \"").contains(&kept),
        "{kept}"
    );
    doer.does("destroy kept");
    doer.does("set-session demo");
    check("enable-event -k sched_switch", 1, "weir trace 'tracepoint:…'");
    check("enable-event -j logger", 1, "weir record -e lttng_jul:event");
    check("enable-event --python logger", 1, "logger_name == \"NAME\" && int_loglevel >= 20");
    check("enable-event a:b", 1, "Please specify a domain");
    check("enable-event -u a:b --nosuch", 2, "--nosuch");
    check("enable-event -u a:b --filter 'n >'", 1, "expected a field");
    check("enable-channel -u c --buffers-pid", 1, "--buffers-pid");
    check("add-context -u -t perf:thread:cycles", 3, "weir has it not");
    check("track -k --pid 1", 1, "--kernel");
    check("snapshot record", 1, "non-snapshot session");
    check("snapshot add-output file:///x", 1, "create: --output=DIR");
    check("regenerate statedump", 1, "statedump");
    check("add-trigger --condition event-rule-matches", 1, "--snapshot-on");
    check("enable-rotation", 1, "No session rotation schedule parameter provided");
    check("enable-rotation --timer 1x", 2, "no unit `x`");
    check("disable-rotation --size", 1, "No size-based rotation schedule");
    check("dance", 2, "dance is not a command of LTTng");
    check("--mi xml list", 1, "weir record status -f json");
    check(&format!("load -i {}", xml.display()), 1, "this is XML");
    doer.does("destroy -a");
    check("stop", 1, "Can't find a current session");
}
