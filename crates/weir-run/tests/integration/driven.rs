//! Who drives a run may begin, look, ask for the end and drop it when they like.

use std::fs;
use std::io::{self, Write};
use std::os::fd::AsFd as _;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use testkit::skip;
use weir_process::ProcessSpec;
use weir_run::{
    Detail, Engine, Failure, Notice, Notices, Options, RecordOptions, Run, Running, Script, SnapshotOptions,
    Start,
};
use weir_sessions::rule::Rule;

use crate::target::{LIMIT, Threads};

/// Of a process by its number.
pub(crate) fn of(target: &Threads) -> Options {
    let mut options = Options::default();
    options.processes = vec![ProcessSpec::Pid(target.pid())];
    options
}

/// `@calls` counts the calls of `foo`.
pub(crate) fn counting() -> Script {
    Script::new("counting", &format!("uprobe:{}:foo {{ @calls = count(); }}", Threads::quoted()))
}

fn started(script: Script, options: Options) -> Running {
    let run = Run::new(script, options, Notices::ignored()).expect("it is compiled");
    run.start(Start::silently()).expect("it is attached")
}

/// The one value of `@calls`.
pub(crate) fn calls(running: &Running) -> u64 {
    let entries = running.entries("@calls").expect("the script has it");
    entries.first().and_then(|entry| entry.value.first_chunk().copied()).map_or(0, u64::from_le_bytes)
}

pub(crate) fn to_the_end(running: &mut Running) -> Result<u8, Failure> {
    while !running.poll()? {
        running.wait(&[])?;
    }
    Ok(running.end()?.code)
}

#[test]
fn maps_are_read_while_it_runs_and_when_it_has_ended() {
    let mut target = Threads::start(2, 1000);
    let mut running = started(counting(), of(&target));
    assert_eq!(calls(&running), 0);
    assert!(running.entries("@others").is_none());
    target.go();
    assert_eq!(to_the_end(&mut running).unwrap(), 0);
    assert_eq!(calls(&running), target.total());
}

#[test]
fn a_run_that_is_dropped_leaves_its_target_as_it_was() {
    let mut target = Threads::start(2, 1000);
    let mut running = started(counting(), of(&target));
    assert!(!running.poll().unwrap());
    drop(running);
    target.is_untouched();
    // At any moment: before its first round, too.
    drop(started(counting(), of(&target)));
    target.is_untouched();
    target.go();
    assert_eq!(target.total(), 2000);
}

#[test]
fn a_command_ends_with_the_run_that_is_dropped() {
    let script = Script::new("sleep", "interval:s:1 { @ = count(); }");
    let mut options = Options::default();
    options.command = Some(vec!["sleep".to_owned(), "1000".to_owned()]);
    let own = std::process::id();
    let is_left = || {
        let children = fs::read_to_string(format!("/proc/{own}/task/{own}/children")).unwrap_or_default();
        let children = children.split_whitespace();
        let name = |pid: &str| fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        let is_zombie = |pid: &str| {
            let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
            status.contains("State:\tZ")
        };
        { children }.any(|pid| name(pid).trim() == "sleep" && !is_zombie(pid))
    };
    let mut running = started(script, options);
    assert!(!running.poll().unwrap());
    drop(running);
    assert!(testkit::wait::until(LIMIT, || !is_left()));
}

#[test]
fn it_waits_beside_what_the_caller_waits_for() {
    let target = Threads::start(1, 1);
    let mut running = started(counting(), of(&target));
    let (reader, mut writer) = io::pipe().unwrap();
    writer.write_all(b"x").unwrap();
    // What is there already ends the first wait.
    assert!(running.wait(&[reader.as_fd()]).unwrap());
    running.stop();
    assert!(running.poll().unwrap());
    assert_eq!(running.end().unwrap().code, 0);
    target.is_untouched();
}

#[test]
fn a_loop_of_the_caller_s_can_wait_for_it() {
    let mut target = Threads::start(1, 100);
    let mut running = started(counting(), of(&target));
    target.go();
    while !running.poll().unwrap() {
        let mut watched: Vec<PollFd> =
            running.watched().into_iter().map(|fd| PollFd::new(fd, PollFlags::POLLIN)).collect();
        // As much too long as a loop may have it that rounds up.
        let until = running.until().as_millis() + 1;
        poll(&mut watched, PollTimeout::try_from(until).unwrap()).unwrap();
    }
    assert_eq!(running.end().unwrap().code, 0);
    assert_eq!(calls(&running), target.total());
}

#[test]
fn several_run_at_once_each_in_its_thread() {
    let run = |threads| {
        let mut target = Threads::start(threads, 500);
        let mut running = started(counting(), of(&target));
        target.go();
        to_the_end(&mut running).unwrap();
        assert_eq!(calls(&running), target.total());
    };
    thread::scope(|scope| {
        for threads in [1, 2, 3] {
            scope.spawn(move || run(threads));
        }
    });
}

#[test]
fn the_output_goes_where_it_is_to_go() {
    #[derive(Clone, Default)]
    struct Kept(Arc<Mutex<Vec<u8>>>);
    impl Write for Kept {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend(bytes);
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let script =
        Script::new("both", "BEGIN { printf(\"begun\\n\"); exit(7); } END { printf(\"ended\\n\"); }");
    let kept = Kept::default();
    let run = Run::new(script, Options::default(), Notices::ignored()).unwrap();
    let mut running = run.start(Start::to(kept.clone())).unwrap();
    assert_eq!(to_the_end(&mut running).unwrap(), 7);
    // Said again, and not done again.
    assert!(running.poll().unwrap() && running.end().unwrap().code == 7);
    let text = String::from_utf8(kept.0.lock().unwrap().clone()).unwrap();
    // As bpftrace ends its output.
    assert_eq!(text, "Attaching 2 probes...\nbegun\nended\n\n\n");
}

#[test]
fn notices_say_what_happened_by_type() {
    let mut target = Threads::start(1, 10);
    let seen = Arc::new(Mutex::new(Vec::new()));
    let kept = seen.clone();
    let notices = Notices::to(move |notice| {
        let what = match &notice {
            Notice::Compiled { places: 1, .. } => "compiled",
            Notice::Attached { process: None, probes: 1, .. } => "attached",
            Notice::Summary { is_brief: false, summary } if summary.attached == 1 => "summary",
            _ => return,
        };
        kept.lock().unwrap().push(what);
    });
    let mut options = of(&target);
    options.detail = Detail::Verbose;
    let mut running = Run::new(counting(), options, notices).unwrap().start(Start::silently()).unwrap();
    target.go();
    to_the_end(&mut running).unwrap();
    assert_eq!(*seen.lock().unwrap(), ["compiled", "attached", "summary"]);
    assert_eq!(target.total(), 10);
}

#[test]
fn what_cannot_be_done_is_an_error_and_changes_nothing() {
    let target = Threads::start(1, 1);
    let run = |text: &str| Run::new(Script::new("wrong", text), of(&target), Notices::ignored());
    assert!(matches!(run("uprobe:"), Err(Failure::Script(faults)) if !faults.is_empty()));
    let text = format!("uprobe:{}:no_such_function {{ }}", Threads::quoted());
    let failure = run(&text).unwrap_err();
    assert!(matches!(failure, Failure::Script(_) | Failure::Refused(_)), "{failure}");
    target.is_untouched();
}

#[test]
fn the_kernel_engine_is_driven_in_the_same_way() {
    let mut target = Threads::start(2, 100);
    let mut options = of(&target);
    options.engine = Engine::Kernel;
    let run = Run::new(counting(), options, Notices::ignored()).unwrap();
    let mut running = match run.start(Start::silently()) {
        Ok(running) => running,
        Err(Failure::Machine(error)) => return skip::skip("run::kernel", format!("{error:#}")),
        Err(other) => panic!("{other}"),
    };
    target.go();
    assert_eq!(to_the_end(&mut running).unwrap(), 0);
    assert_eq!(calls(&running), target.total());
}

#[test]
fn a_recording_is_driven_in_the_same_way() {
    let folder = testkit::paths::target().join(format!("run-record-{}", std::process::id()));
    let rule = Rule { events: vec!["rec:ints".to_owned()], ..Rule::default() };
    let mut options = Options::default();
    let program = testkit::target::program("record").display().to_string();
    options.command = Some([&program, "i", "2", "50"].map(str::to_owned).to_vec());
    let script = Script::recording(RecordOptions::new(vec![rule], folder.clone()), &options).unwrap();
    let counted = Arc::new(Mutex::new(None));
    let kept = counted.clone();
    let notices = Notices::to(move |notice| {
        if let Notice::Recorded(recorded) = notice {
            *kept.lock().unwrap() = Some((recorded.recorded(), recorded.discarded(), recorded.has_failed()));
        }
    });
    let mut running = Run::new(script, options, notices).unwrap().start(Start::silently()).unwrap();
    assert_eq!(to_the_end(&mut running).unwrap(), 0);
    assert_eq!(*counted.lock().unwrap(), Some((100, 0, false)));
    assert!(folder.join("metadata").exists());
    fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn options_that_no_command_line_has_are_refused() {
    let check = |change: &dyn Fn(&mut RecordOptions), wanted: &str| {
        let mut record = RecordOptions::new(Vec::new(), "no-such-folder".into());
        change(&mut record);
        let failure = Script::recording(record, &Options::default()).unwrap_err().to_string();
        assert!(failure.contains(wanted), "{failure}");
    };
    let snapshots = |kept| {
        let mut options = SnapshotOptions::default();
        options.kept = kept;
        options
    };
    check(&|record| record.ring_bytes = 0, "a power of two is wanted, from 4096 to ");
    check(&|record| record.ring_bytes = 5000, "a power of two is wanted, from 4096 to ");
    check(&|record| record.snapshots = Some(snapshots(0)), "keep one at least");
    check(
        &|record| {
            record.snapshots = Some(snapshots(1));
            record.blocking = Some(Duration::from_millis(1));
        },
        "leave one of both out",
    );
    check(&|record| record.limits.files = Some(3), "where they have a size");
    check(&|record| record.triggers.run = Some("true".to_owned()), "go together");
    check(&|record| record.triggers.run_on_fill = Some(80), "go together");
    check(&|record| record.triggers.run_on_fill = Some(101), "1 to 100 percent");
    let mut both = Options::default();
    both.command = Some(vec!["true".to_owned()]);
    both.processes = vec![ProcessSpec::Pid(1)];
    let failure = Run::new(counting(), both, Notices::ignored()).unwrap_err();
    assert!(matches!(failure, Failure::Usage(_)), "{failure}");
}
