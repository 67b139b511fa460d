//! Children: by fork, vfork, posix_spawn and clone, and theirs.

use std::path::Path;

use testkit::Daemon;
use testkit::paths::quoted;

use crate::life::check::{DEADLINE, Run, counting, obedient, trace, weir};

/// Traces the program on its steps, with children or without.
fn run(path: &Path, steps: &str, follow: bool) -> Run {
    let command = format!("{} {steps}", quoted(path));
    let arguments: &[&str] = if follow { &["--follow", "-c", &command] } else { &["-c", &command] };
    trace(&counting(path), arguments)
}

/// With --follow: every process counts exactly what it says, and so many were traced.
#[track_caller]
pub(super) fn check_followed(name: &str, steps: &str, processes: usize) -> Run {
    let path = obedient(name);
    let run = run(&path, steps, true);
    run.check_exact();
    assert_eq!(run.counted().len(), processes, "{run:?}");
    let traced = run.processes().iter().filter(|(_, _, is_traced)| *is_traced).count();
    assert_eq!(traced, processes, "{run:?}");
    assert_eq!(run.counts()["traced"], processes, "{run:?}");
    run
}

#[test]
fn forked_children_count_when_followed() {
    check_followed("life-fork", "c 7 f 3 w 100 c 11 . W c 5", 4);
}

#[test]
fn children_of_children_count_when_followed() {
    // Theirs outlive them, and the run.
    check_followed("life-grand", "c 1 f 2 w 100 c 3 f 1 w 100 c 4 . W", 5);
}

#[test]
fn vforked_and_spawned_children_count_when_followed() {
    check_followed("life-vfork", "c 1 v 2 w 100 c 6 . W c 1", 3);
    check_followed("life-spawn", "c 1 s 3 w 100 c 6 . W c 1", 4);
}

#[test]
fn grandchildren_of_a_shell_count_when_followed() {
    let path = obedient("life-shell");
    let program = quoted(&path);
    // A moment in which weir may look at the shells: the verdict does not depend on it.
    let command = format!("sh -c '{program} w 100 c 5; (sleep 0.1; {program} w 100 c 8 & wait)'");
    let run = trace(&counting(&path), &["--follow", "-c", &command]);
    run.check_exact();
    assert_eq!(run.counted().values().sum::<i64>(), 13, "{run:?}");
    for (_, how, _) in run.processes() {
        assert!(how.starts_with("child of ") || how == "the command", "{run:?}");
    }
}

#[test]
fn children_are_inert_where_nobody_follows_them() {
    let path = obedient("life-inert");
    let run = run(&path, "p c 7 f 3 z 100 c 11 . W s 2 z 100 c 3 . W c 5", false);
    let parent: i64 = run.said[0].strip_prefix("pid ").unwrap().parse().unwrap();
    assert_eq!(run.counted().into_iter().collect::<Vec<_>>(), [(parent, 12)], "{run:?}");
    assert_eq!(run.processes().len(), 1, "{run:?}");
}

#[test]
fn a_process_in_the_memory_of_another_is_not_attached_to_twice() {
    let path = obedient("life-clone");
    // It runs through the same probes as soon as it is there, whether it is followed or not.
    let alone = run(&path, "c 3 k 1 c 20 c 4 . W c 2", false);
    assert_eq!(alone.said().len(), 2, "{alone:?}");
    assert_eq!(alone.counted().into_values().collect::<Vec<_>>(), [29], "{alone:?}");
    assert_eq!(alone.processes().len(), 1, "{alone:?}");
    // It goes on when a child that came after it is traced: weir has looked at both by then. Its parent writes nothing meanwhile,
    // since they share the buffer.
    let mut trace = weir();
    let command = format!("{} c 3 k 1 q 20 l c 4 . f 1 w 100 c 9 . W c 2", quoted(&path));
    trace.args(["trace", "-f", "json", "-e", &counting(&path), "--follow", "-c", &command]);
    let mut trace = Daemon::spawn(trace).unwrap();
    while !trace.line_with("calls ", DEADLINE).unwrap().ends_with(" 9") {}
    trace.write("\n").unwrap();
    let followed = Run::of(&trace.finish(DEADLINE).unwrap());
    let sorted = |counts: std::collections::BTreeMap<i64, i64>| {
        let mut counts: Vec<i64> = counts.into_values().collect();
        counts.sort_unstable();
        counts
    };
    assert_eq!(sorted(followed.said()), [4, 5, 9], "{followed:?}");
    assert_eq!(sorted(followed.counted()), [9, 29], "{followed:?}");
    assert_eq!(followed.processes().len(), 2, "{followed:?}");
}

#[test]
fn a_process_in_the_memory_of_another_is_not_restored_for_it() {
    let path = obedient("life-detach");
    let mut trace = weir();
    let command = format!("{} c 3 k 1 p l c 4 . W c 2", quoted(&path));
    trace.args(["trace", "-f", "json", "-e", &counting(&path), "-c", &command]);
    let mut trace = Daemon::spawn(trace).unwrap();
    let line = trace.line_with("pid ", DEADLINE).unwrap();
    let child = line.strip_prefix("pid ").unwrap();
    let detach = weir().args(["detach", "-p", child]).output().unwrap();
    let stderr = String::from_utf8_lossy(&detach.stderr).into_owned();
    assert!(detach.status.code() == Some(3) && stderr.contains("runs in the memory of process"), "{stderr}");
    trace.write("\n").unwrap();
    let run = Run::of(&trace.finish(DEADLINE).unwrap());
    assert_eq!(run.counted().into_values().collect::<Vec<_>>(), [9], "{run:?}");
}

#[test]
fn threads_are_no_processes() {
    let path = obedient("life-threads");
    let run = run(&path, "p t 50 c 1", true);
    assert_eq!(run.counted().into_values().collect::<Vec<_>>(), [51], "{run:?}");
    assert_eq!(run.processes().len(), 1, "{run:?}");
}
