//! Processes that are selected by name, cgroup, unit and container, before and after weir begins.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use nix::sys::signal::Signal;
use testkit::{Daemon, target};

use crate::life::check::{DEADLINE, Run, counting, obedient, weir};

fn start(path: &Path, steps: &str) -> Daemon {
    let mut command = Command::new(path);
    command.args(steps.split(' '));
    Daemon::spawn(command).unwrap()
}

/// Lets targets go on that wait for a line; what they said.
fn go_on(targets: impl IntoIterator<Item = Daemon>) -> String {
    let go_on = |mut target: Daemon| {
        target.write("\n").unwrap();
        target.finish(DEADLINE).unwrap().stdout
    };
    targets.into_iter().map(go_on).collect()
}

/// weir on this selection, which runs.
fn select(path: &Path, arguments: &[&str]) -> Daemon {
    selected("BEGIN", path, arguments)
}

/// The same, where `when` says that it has begun.
fn selected(when: &str, path: &Path, arguments: &[&str]) -> Daemon {
    let mut trace = weir();
    let script = format!("{when} {{ printf(\"begun\\n\"); }} {}", counting(path));
    trace.args(["trace", "-f", "json", "-e", &script]).args(arguments);
    let mut trace = Daemon::spawn(trace).unwrap();
    trace.line_with("begun", DEADLINE).unwrap();
    trace
}

/// Ends weir, and holds what it counted against what the targets said.
#[track_caller]
fn check_exact(trace: Daemon, targets: Vec<Daemon>, how: &str) {
    let said: String = targets.into_iter().map(|target| target.finish(DEADLINE).unwrap().stdout).collect();
    trace.signal(Signal::SIGINT).unwrap();
    let mut ended = trace.finish(DEADLINE).unwrap();
    assert!(ended.status.success(), "{ended:?}");
    ended.stdout += &said;
    let run = Run::of(&ended);
    run.check_exact();
    assert!(!run.said().is_empty() && run.processes().iter().all(|(_, came, _)| came == how), "{run:?}");
}

#[test]
fn processes_of_a_name_are_traced_those_of_now_and_of_later() {
    let path = obedient("life-name");
    let early = start(&path, "w 100 c 5");
    let trace = select(&path, &["-p", "life-na*"]);
    let later = start(&path, "w 100 c 7");
    check_exact(trace, vec![early, later], "name life-na*");
}

#[test]
fn a_name_that_nobody_has_yet_is_waited_for() {
    let path = obedient("life-later");
    // Intervals run once weir has looked who is there.
    let trace = selected("interval:ms:20", &path, &["-p", "life-later*"]);
    let later = start(&path, "w 100 c 7");
    let said = later.finish(DEADLINE).unwrap().stdout;
    assert!(said.starts_with("calls "), "{said}");
    trace.signal(Signal::SIGINT).unwrap();
    let ended = trace.finish(DEADLINE).unwrap();
    let waits = "weir: no process is traced yet; waiting for a process called life-later*";
    assert!(ended.stderr.contains(waits), "{ended:?}");
    assert_eq!(Run::of(&ended).counted().into_values().collect::<Vec<_>>(), [7], "{ended:?}");
}

#[test]
fn processes_of_several_programs_are_each_probed_for_what_they_have() {
    let (one, other) = (obedient("life-this"), obedient("life-that"));
    let targets = [start(&one, "l c 5"), start(&other, "l c 6")];
    // It is killed at the end: the verdict does not depend on how long it is.
    let idle = start(Path::new("/bin/sleep"), "1000000");
    let pids: Vec<String> = targets.iter().chain([&idle]).map(|target| target.pid().to_string()).collect();
    let script = format!("{} {}", counting(&one), counting(&other));
    let mut trace = weir();
    trace.args(["trace", "-f", "json", "-e", &script, "-p", &pids.join(",")]);
    let mut trace = Daemon::spawn(trace).unwrap();
    for pid in &pids[..2] {
        trace.line_with(&format!("\"pid\": {pid},"), DEADLINE).unwrap();
    }
    let said = go_on(targets);
    let mut ended = trace.finish(DEADLINE).unwrap();
    idle.signal(Signal::SIGKILL).unwrap();
    assert!(ended.status.success(), "{ended:?}");
    let left =
        format!("weir: process {} is not traced:\nweir: it maps nothing that the script probes", pids[2]);
    assert!(ended.stderr.contains(&left), "{ended:?}");
    ended.stdout += &said;
    Run::of(&ended).check_exact();
}

#[test]
fn nobody_is_waited_for_where_somebody_is_about_to_be_traced() {
    let (one, other) = (obedient("life-early-a"), obedient("life-early-b"));
    let targets = [start(&one, "w 100 c 5"), start(&other, "w 100 c 6")];
    let script = format!("{} {}", counting(&one), counting(&other));
    let mut trace = weir();
    trace.args(["trace", "-f", "json", "-e", &script, "-p", "life-early-a*", "-p", "life-early-b*"]);
    let trace = Daemon::spawn(trace).unwrap();
    let said = targets.map(|target| target.finish(DEADLINE).unwrap().stdout).concat();
    trace.signal(Signal::SIGINT).unwrap();
    let mut ended = trace.finish(DEADLINE).unwrap();
    assert!(!ended.stderr.contains("no process is traced yet"), "{ended:?}");
    ended.stdout += &said;
    Run::of(&ended).check_exact();
}

#[test]
fn what_a_killed_weir_left_is_taken_over_and_told() {
    let path = obedient("life-orphan");
    let mut target = start(&path, "l c 5");
    let pid = target.pid().to_string();
    let mut first = select(&path, &["-p", &pid]);
    first.line_with(&format!("\"pid\": {pid},"), DEADLINE).unwrap();
    let gone = first.pid();
    first.signal(Signal::SIGKILL).unwrap();
    first.finish(DEADLINE).unwrap();
    let mut second = select(&path, &["-p", &pid]);
    second.line_with(&format!("\"pid\": {pid},"), DEADLINE).unwrap();
    target.write("\n").unwrap();
    target.finish(DEADLINE).unwrap();
    let ended = second.finish(DEADLINE).unwrap();
    let told =
        format!("weir: process {pid}: took over from weir {gone}, which is gone: 1 probe of it put back\n");
    assert!(ended.stderr.contains(&told), "{ended:?}");
    assert_eq!(Run::of(&ended).counted().into_values().collect::<Vec<_>>(), [5], "{ended:?}");
}

#[test]
fn several_processes_are_traced_by_their_numbers() {
    let path = obedient("life-numbers");
    let targets = [start(&path, "l c 5"), start(&path, "l c 6"), start(&path, "l c 7")];
    let pids: Vec<String> = targets.iter().map(|target| target.pid().to_string()).collect();
    let mut trace = weir();
    let script = format!("BEGIN {{ printf(\"begun\\n\"); }} {}", counting(&path));
    trace.args(["trace", "-f", "json", "-e", &script, "-p", &pids[..2].join(","), "-p", &pids[2]]);
    let mut trace = Daemon::spawn(trace).unwrap();
    // Each has its line when it is attached to.
    for pid in &pids {
        trace.line_with(&format!("\"pid\": {pid},"), DEADLINE).unwrap();
    }
    let said = go_on(targets);
    // All have ended, and nobody else can come.
    let mut ended = trace.finish(DEADLINE).unwrap();
    assert!(ended.status.success(), "{ended:?}");
    ended.stdout += &said;
    let run = Run::of(&ended);
    run.check_exact();
    assert_eq!(run.counted().len(), 3, "{run:?}");
}

/// A folder with a copy of the program at its own path, and its libraries.
fn root(path: &Path) -> PathBuf {
    let root = testkit::paths::target().join("testkit").join(format!("root-selected-{}", std::process::id()));
    let output = Command::new("ldd").arg(path).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let libraries = text.split_whitespace().filter(|word| word.starts_with('/'));
    for file in libraries.chain(path.to_str()) {
        let copy = root.join(file.trim_start_matches('/'));
        fs::create_dir_all(copy.parent().unwrap()).unwrap();
        target::copy(Path::new(file), &copy);
    }
    root
}

#[test]
fn processes_under_another_root_are_probed_in_their_own_files() {
    if !nix::unistd::geteuid().is_root() {
        return testkit::skip::skip("life::root", "changing the root is for root");
    }
    let path = obedient("life-root");
    let root = root(&path);
    let trace_name = path.file_name().unwrap().to_str().unwrap().to_owned();
    let mut here = start(&path, "l c 5");
    let mut trace = select(&path, &["-p", &trace_name]);
    let mut command = Command::new("chroot");
    command.arg(&root).arg(&path).args(["l", "c", "7"]);
    let mut there = Daemon::spawn(command).unwrap();
    for target in [&here, &there] {
        trace.line_with(&format!("\"pid\": {},", target.pid()), DEADLINE).unwrap();
    }
    here.write("\n").unwrap();
    there.write("\n").unwrap();
    check_exact(trace, vec![here, there], &format!("name {trace_name}"));
    fs::remove_dir_all(&root).unwrap();
}

#[test]
fn what_another_weir_traces_is_traced_by_both() {
    let path = obedient("life-two");
    let mut target = start(&path, "l c 5");
    let mut first = select(&path, &["-p", &target.pid().to_string()]);
    first.line_with(&format!("\"pid\": {},", target.pid()), DEADLINE).unwrap();
    let mut later = start(&path, "l c 6");
    let mut second = select(&path, &["-p", "life-two*"]);
    let mut seen = 0;
    while seen < 2 {
        let line = second.line_with("\"pid\": ", DEADLINE).unwrap();
        seen +=
            usize::from([&target, &later].iter().any(|t| line.contains(&format!("\"pid\": {},", t.pid()))));
    }
    target.write("\n").unwrap();
    later.write("\n").unwrap();
    let said = [target, later].map(|target| target.finish(DEADLINE).unwrap().stdout).concat();
    second.signal(Signal::SIGINT).unwrap();
    let (first, second) = (first.finish(DEADLINE).unwrap(), second.finish(DEADLINE).unwrap());
    let (first, second) = (Run::of(&first), Run::of(&second));
    assert_eq!(first.counted().into_values().collect::<Vec<_>>(), [5], "{said} {first:?}");
    let mut counted = second.counted().into_values().collect::<Vec<_>>();
    counted.sort_unstable();
    assert_eq!(counted, [5, 6], "{said} {second:?}");
}

/// A cgroup of a test, which is removed again.
struct Group(PathBuf);

impl Group {
    /// None, with a loud skip, where it cannot be made.
    fn make(test: &str, name: &str) -> Option<Group> {
        let mounts = fs::read_to_string("/proc/mounts").unwrap();
        let kind = |line: &&str| line.split(' ').nth(2).is_some_and(|kind| kind.starts_with("cgroup"));
        // Hierarchies of version 2, and the named one, take processes from anywhere.
        let mut points: Vec<&str> =
            mounts.lines().filter(kind).filter_map(|line| line.split(' ').nth(1)).collect();
        points.sort_by_key(|point| !point.contains("unified"));
        let made = points
            .iter()
            .map(|point| Path::new(point).join(name))
            .find(|path| fs::create_dir_all(path).is_ok());
        if made.is_none() {
            testkit::skip::skip(test, "no cgroup can be made here");
        }
        made.map(Group)
    }

    fn enter(&self, pid: u32) {
        fs::write(self.0.join("cgroup.procs"), pid.to_string()).unwrap();
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // A process that has just ended is in it for a moment longer.
        testkit::wait::until(Duration::from_secs(60), || fs::remove_dir(&self.0).is_ok());
    }
}

/// One process is in the group before weir begins, one enters it later, and a third never does.
#[track_caller]
fn check_group(name: &str, group: &Group, arguments: &[&str], how: &str) {
    let path = obedient(name);
    let early = start(&path, "l w 100 c 5");
    group.enter(early.pid());
    let mut later = start(&path, "l w 100 c 7");
    let mut other = start(&path, "l q 9");
    let trace = select(&path, arguments);
    let mut early = early;
    early.write("\n").unwrap();
    group.enter(later.pid());
    later.write("\n").unwrap();
    other.write("\n").unwrap();
    check_exact(trace, vec![early, later, other], how);
}

#[test]
fn processes_of_a_cgroup_are_traced() {
    let name = format!("weir-life-{}", std::process::id());
    let Some(group) = Group::make("life::cgroup", &name) else { return };
    check_group("life-cgroup", &group, &["--cgroup", &name], &format!("cgroup {name}"));
    let path = group.0.display().to_string();
    check_group("life-cgroup", &group, &["--cgroup", &path], &format!("cgroup {path}"));
}

#[test]
fn processes_of_a_unit_are_traced() {
    let name = format!("weir-life-{}-unit", std::process::id());
    let Some(group) = Group::make("life::cgroup", &format!("{name}.service")) else { return };
    check_group("life-unit", &group, &["--unit", &name], &format!("unit {name}.service"));
}

#[test]
fn processes_of_a_container_are_traced() {
    let id = format!("{:032x}{:032x}", 0xfeed_beef_u32, std::process::id());
    let Some(group) = Group::make("life::cgroup", &format!("docker-{id}.scope")) else { return };
    check_group("life-container", &group, &["--container", &id[..60]], &format!("container {}", &id[..60]));
}

#[track_caller]
fn check_refused(arguments: &[&str], code: i32, want: &str) {
    let ended = weir().args(["trace", "-e", "uprobe:libc:puts { }"]).args(arguments).output().unwrap();
    let stderr = String::from_utf8_lossy(&ended.stderr).into_owned();
    assert!(ended.status.code() == Some(code) && stderr.contains(want), "{arguments:?}: {stderr}");
}

#[test]
fn what_is_not_there_is_refused() {
    check_refused(&["--cgroup", "no/such/group"], 1, "weir: there is no cgroup no/such/group");
    check_refused(&["--unit", "no-such-unit"], 1, "weir: there is no unit no-such-unit.service");
    check_refused(&["--container", "no-such-container"], 1, "weir: there is no container no-such-container");
    check_refused(&["-p", "0"], 2, "numbers of processes are from 1");
    check_refused(&["-p", "/bin/sh"], 2, "without a path");
    check_refused(&["-p", "2147483647"], 3, "no process 2147483647");
    check_refused(&["--follow"], 2, "required arguments were not provided");
}
