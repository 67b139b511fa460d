//! What belongs to the program that calls stays as it is.

use std::collections::BTreeMap;
use std::fs;

use testkit::wait;
use weir_run::{Notices, Run, Start};

use crate::driven::{counting, of, to_the_end};
use crate::target::{LIMIT, Threads};

/// Masks and dispositions of signals, and what else is of the whole process.
fn of_process() -> BTreeMap<String, String> {
    let status = fs::read_to_string("/proc/thread-self/status").unwrap();
    let kept = ["SigBlk", "SigIgn", "SigCgt", "ShdPnd", "Umask", "NoNewPrivs", "Seccomp"];
    let lines = status.lines().filter_map(|line| line.split_once(":\t"));
    let mut all: BTreeMap<String, String> = lines
        .filter(|(name, _)| kept.contains(name))
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect();
    all.insert("folder".to_owned(), fs::read_link("/proc/self/cwd").unwrap().display().to_string());
    all.insert("limits".to_owned(), fs::read_to_string("/proc/self/limits").unwrap());
    for number in 0..3 {
        let path = fs::read_link(format!("/proc/self/fd/{number}")).unwrap();
        all.insert(format!("descriptor {number}"), path.display().to_string());
    }
    all
}

#[test]
fn signals_streams_and_limits_are_as_before() {
    let mut target = Threads::start(1, 10);
    let before = of_process();
    let run = Run::new(counting(), of(&target), Notices::ignored()).unwrap();
    assert_eq!(of_process(), before);
    let mut running = run.start(Start::silently()).unwrap();
    assert_eq!(of_process(), before);
    target.go();
    to_the_end(&mut running).unwrap();
    drop(running);
    assert_eq!(of_process(), before);
    assert_eq!(target.total(), 10);
}

#[test]
fn threads_and_descriptors_are_gone_with_the_run() {
    let threads = || fs::read_dir("/proc/self/task").unwrap().count();
    let descriptors = || fs::read_dir("/proc/self/fd").unwrap().count();
    let run = || {
        let mut target = Threads::start(1, 10);
        let run = Run::new(counting(), of(&target), Notices::ignored()).unwrap();
        let mut running = run.start(Start::silently()).unwrap();
        target.go();
        to_the_end(&mut running).unwrap();
        drop(running);
        target.total();
    };
    // What is made once for all runs.
    run();
    let before = (threads(), descriptors());
    run();
    // Other tests of this process, where there are some, have threads and descriptors too.
    let are_gone = || threads() <= before.0 && descriptors() <= before.1;
    assert!(wait::until(LIMIT, are_gone), "{} and {}, {before:?} before", threads(), descriptors());
}
