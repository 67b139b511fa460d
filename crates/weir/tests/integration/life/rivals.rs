//! Moments at which weir and a process, or two weirs, come in each other's way: the process executes another program while it
//! is attached to, another weir wants it too, or weir is killed between two steps. The oracle is the process, which says how
//! often it called what is probed.

use std::path::Path;
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use nix::sys::signal::Signal;
use testkit::Daemon;
use testkit::paths::quoted;

use crate::life::check::{self, Run, obedient};
use crate::life::worker::{BEGUN, DEADLINE, Worker, number, program, stop, weir};

/// Calls that must be counted once a weir has begun.
const CALLS: u64 = 200;

/// A process that executes itself `execs` times, beginning so long after weir; what it runs at last is probed, and counted exactly.
pub(crate) fn check_exec_amid(after: Duration, execs: usize) {
    let path = obedient("life-amid");
    let mut command = Command::new(&path);
    // `calls` after `calls`: the first says that the last program has come, the second is only made when it is probed.
    command.args(["l", "r", &execs.to_string(), "w", "100", "c", "7"]);
    let mut target = Daemon::spawn(command).unwrap();
    let pid = i64::from(target.pid());
    let mut trace = weir();
    trace.args(["trace", "-f", "json", "-e", &check::counting(&path), "-p", &pid.to_string()]);
    let trace = Daemon::spawn(trace).unwrap();
    // A moment like any other: the verdict does not depend on it.
    sleep(after);
    target.write("\n").unwrap();
    let ended = target.finish(DEADLINE).unwrap();
    let traced = trace.finish(DEADLINE).unwrap();
    let all = format!("{after:?} {execs}: {ended:?} {traced:?}");
    assert!(ended.status.success() && traced.status.success(), "{all}");
    assert_eq!(ended.stdout, format!("calls {pid} 7\n"), "{all}");
    let counted: i64 = Run::of(&traced).counted().into_values().sum();
    assert!((7..=7 + 10 * execs as i64).contains(&counted), "{counted}: {all}");
}

fn counting() -> String {
    format!("{BEGUN} uprobe:{}:work {{ @calls = count(); }}", quoted(&program()))
}

/// Nothing of weir's is in it.
#[track_caller]
fn check_clean(pid: u32) {
    assert_eq!(testkit::mapped::of_weir_in(pid), Vec::<String>::new());
}

/// How one of two weirs in a process comes to its end.
#[derive(Clone, Copy, Debug)]
pub(crate) enum End {
    /// It is told to, and takes its probes out.
    Told,
    Killed,
}

/// Two weirs that want one process, the second so long after the first: both count every call, also when one has come to its end, which is
/// the `first` that was started or the other; and the one that goes last leaves nothing behind.
pub(crate) fn check_two(after: Duration, end: End, first: bool) {
    let all = format!("{after:?} {end:?} {first}");
    let mut worker = Worker::start(Command::new(program()));
    let start = || tracing(&counting(), &[worker.pid.to_string()]);
    let mut weirs = vec![start()];
    // A moment like any other: the verdict does not depend on it.
    sleep(after);
    weirs.push(start());
    for weir in &mut weirs {
        assert!(weir.line_with("begun", DEADLINE).is_ok(), "{all}");
    }
    worker.work(CALLS, CALLS);
    let one = weirs.remove(usize::from(!first));
    let other = weirs.remove(0);
    match end {
        End::Told => {
            let text = stop(one);
            assert_eq!(number(&text, "@calls"), Some(CALLS), "{all}: {text}");
        }
        End::Killed => {
            one.signal(Signal::SIGKILL).unwrap();
            one.finish(DEADLINE).unwrap();
        }
    }
    worker.work(CALLS, 2 * CALLS);
    let text = stop(other);
    assert_eq!(number(&text, "@calls"), Some(2 * CALLS), "{all}: {text}");
    check_clean(worker.pid);
    worker.work(1, 2 * CALLS + 1);
    worker.end();
}

/// How a weir comes to its end.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Death {
    /// Before its so-manieth call of this.
    At(&'static str, usize),
    /// So long after its beginning.
    After(Duration),
}

/// The system calls by which weir changes a process, and by which it looks at one.
pub(crate) const STEPS: [&str; 4] = ["ptrace", "pwrite64", "openat", "mmap"];

/// A weir of so many processes that dies; they are well, and the next weir counts them exactly, or what is left is undone.
pub(crate) fn check_killed(death: Death, is_taken_over: bool, processes: usize) {
    let mut workers: Vec<Worker> = (0..processes).map(|_| Worker::start(Command::new(program()))).collect();
    let pids: Vec<String> = workers.iter().map(|worker| worker.pid.to_string()).collect();
    die(death, &pids);
    workers.iter_mut().for_each(|worker| worker.work(CALLS, CALLS));
    if is_taken_over {
        let mut weir = tracing(&counting(), &pids);
        assert!(weir.line_with("begun", DEADLINE).is_ok(), "{death:?}: {:?}", weir.finish(DEADLINE));
        workers.iter_mut().for_each(|worker| worker.work(CALLS, 2 * CALLS));
        let text = stop(weir);
        assert_eq!(number(&text, "@calls"), Some(CALLS * processes as u64), "{death:?}: {text}");
    } else {
        for worker in &mut workers {
            let detach = weir().args(["detach", "-p", &worker.pid.to_string()]).output().unwrap();
            let said = String::from_utf8_lossy(&detach.stderr).into_owned();
            assert!(detach.status.success() || said.contains("has no weir probes"), "{death:?}: {said}");
            worker.work(CALLS, 2 * CALLS);
        }
    }
    for mut worker in workers {
        check_clean(worker.pid);
        worker.work(1, 2 * CALLS + 1);
        worker.end();
    }
}

/// A weir that traces all of them.
fn tracing(script: &str, pids: &[String]) -> Daemon {
    let mut command = weir();
    command.args(["trace", "-e", script]).args(pids.iter().flat_map(|pid| ["-p", pid]));
    Daemon::spawn(command).unwrap()
}

fn die(death: Death, pids: &[String]) {
    let script = format!("uprobe:{}:work {{ @ = count(); }} interval:ms:30 {{ exit() }}", quoted(&program()));
    match death {
        Death::At(call, when) => {
            let mut command = Command::new("strace");
            command.args(["-qq", "-o", "/dev/null", "-e", &format!("trace={call}")]);
            command.args(["-e", &format!("inject={call}:signal=SIGKILL:when={when}")]);
            command.arg(env!("CARGO_BIN_EXE_weir")).args(["trace", "-e", &script]);
            command.args(pids.iter().flat_map(|pid| ["-p", pid]));
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
            command.status().unwrap();
        }
        Death::After(time) => {
            let weir = tracing(&script, pids);
            // A moment like any other: the verdict does not depend on it.
            sleep(time);
            // It may have come to its end before.
            let _ = weir.signal(Signal::SIGKILL);
            weir.finish(DEADLINE).unwrap();
        }
    }
}

pub(crate) fn has_strace() -> bool {
    Path::new("/usr/bin/strace").exists()
}

fn ms(milliseconds: u64) -> Duration {
    Duration::from_millis(milliseconds)
}

#[test]
fn a_program_that_is_executed_amid_attaching_is_counted() {
    for after in [0, 20, 60] {
        check_exec_amid(ms(after), 20);
    }
}

#[test]
fn of_two_weirs_that_come_at_once_each_counts_every_call() {
    for (after, first) in [(0, true), (5, false), (20, true)] {
        check_two(ms(after), End::Told, first);
    }
}

#[test]
fn a_weir_counts_on_where_another_in_the_process_is_killed() {
    for (after, first) in [(0, true), (20, false), (60, true)] {
        check_two(ms(after), End::Killed, first);
    }
}

#[test]
fn a_weir_that_dies_between_two_steps_is_taken_over_or_undone() {
    check_killed(Death::After(ms(40)), true, 1);
    if !has_strace() {
        return testkit::skip::skip("kill", "strace is not installed");
    }
    for (step, when) in [("ptrace", 9), ("pwrite64", 2), ("openat", 30), ("mmap", 40)] {
        check_killed(Death::At(step, when), when % 2 == 0, 1);
    }
}

#[test]
fn a_weir_that_dies_while_it_attaches_to_a_second_process_leaves_both_well() {
    if !has_strace() {
        return testkit::skip::skip("kill", "strace is not installed");
    }
    // The first has its segment after some twenty of these, and both are done after some two hundred.
    for when in [30, 60, 90, 120, 150] {
        check_killed(Death::At("ptrace", when), when % 4 == 0, 2);
    }
}
