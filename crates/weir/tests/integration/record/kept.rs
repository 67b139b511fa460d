//! `--shm-dir`: what is in the rings of a weir that is killed is in a trace of its own; it and what was written have each event once.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use testkit::{paths, wait};

use super::{Endless, LIMIT, numbers, program, read, text, weir};

/// The only folder in `directory`, once its writer is done with it.
fn recovered(directory: &Path) -> PathBuf {
    let found = || fs::read_dir(directory).ok()?.next()?.ok().map(|entry| entry.path());
    let folder = wait::until_some(LIMIT, found).expect("a trace of what was in the rings");
    assert!(wait::until(LIMIT, || keepers(directory) == 0), "the keeper goes on");
    folder
}

/// Processes that keep the rings of a recording which was called with this folder.
fn keepers(directory: &Path) -> usize {
    let processes = fs::read_dir("/proc").unwrap().flatten().map(|entry| entry.path());
    let is_one = |process: &PathBuf| {
        let holds =
            |file: &str, what: &str| fs::read(process.join(file)).is_ok_and(|all| text(&all).contains(what));
        holds("comm", "ring-keeper") && holds("cmdline", directory.to_str().unwrap())
    };
    processes.filter(is_one).count()
}

/// The two folders of a test, of which nothing is there.
fn folders(name: &str) -> (PathBuf, PathBuf) {
    (paths::fresh("record", name), paths::fresh("record", &format!("{name}-shm")))
}

/// Both traces have each event of each thread once, in its order; how many events, and how many were discarded.
#[track_caller]
fn counted(kind: &str, folders: [&Path; 2]) -> (usize, u64) {
    let [before, after] = folders.map(read);
    let kind = kind.chars().next().unwrap();
    let (all, later) = (numbers(kind, &before.events), numbers(kind, &after.events));
    for (thread, numbers) in &later {
        let whole = all.get(thread).into_iter().flatten().chain(numbers);
        assert!(whole.is_sorted_by(|a, b| a < b), "thread {thread}");
    }
    (before.events.len() + after.events.len(), before.discarded + after.discarded)
}

/// The program kills weir when it has emitted its last event, and ends; weir reads its rings all the time.
#[test]
fn whatever_a_killed_weir_has_not_written_is_recovered() {
    let none = paths::fresh("record", "kept-nothing");
    for (round, (kind, threads, count, options)) in [
        ("i", 1, 3000, &[][..]),
        ("m", 4, 20_000, &["--size", "64K"]),
        ("b", 3, 9000, &["--file-size", "64K"]),
        ("i", 8, 30_000, &["--size", "4K"]),
        ("s", 2, 4000, &["--blocking"]),
    ]
    .into_iter()
    .enumerate()
    {
        let (folder, directory) = folders(&format!("kept-{round}"));
        let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
        // Others would not fit into the smallest ring.
        let events = if kind == "i" { "rec:ints" } else { "rec:*" };
        command.args(["record", "-e", events, "-o"]).arg(&folder).arg("--shm-dir").arg(&directory);
        command.args(options).arg("--").arg(program()).args([kind, &threads.to_string(), &count.to_string()]);
        let output = command.args(["/dev/null", "orphan"]).output().unwrap();
        let said = text(&output.stderr);
        assert!(output.status.code().is_none() && said.contains("--shm-dir: weir was killed; "), "{said}");
        let after = match said.contains("nothing was in its rings") {
            true => none.clone(),
            false => recovered(&directory),
        };
        let (recorded, discarded) = match after == none {
            true => (read(&folder).events.len(), read(&folder).discarded),
            false => counted(kind, [&folder, &after]),
        };
        assert_eq!(recorded as u64 + discarded, threads * count, "round {round}: {said}");
        for folder in [folder, directory] {
            fs::remove_dir_all(folder).unwrap();
        }
    }
}

/// Weir is killed at any moment; the program goes on, and is killed as well.
#[test]
fn no_event_is_missing_or_twice_where_weir_is_killed_at_any_moment() {
    for round in 0..4u64 {
        let (folder, directory) = folders(&format!("kept-moment-{round}"));
        let mut process = Endless::start("i", "3");
        let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
        command.args(["record", "-e", "rec:*", "--size", "256K", "-p", &process.pid(), "-o"]).arg(&folder);
        let mut recorder = command.arg("--shm-dir").arg(&directory).stderr(Stdio::null()).spawn().unwrap();
        let size = || -> u64 {
            let files = fs::read_dir(&folder).into_iter().flatten().flatten();
            files.filter_map(|file| Some(file.metadata().ok()?.len())).sum()
        };
        // Some packets, which are written all the time.
        assert!(wait::until(LIMIT, || size() > 300_000 * (round + 1)), "round {round}");
        recorder.kill().unwrap();
        process.kill();
        recorder.wait().unwrap();
        let after = recovered(&directory);
        let all = [&folder, &after].map(|folder| read(folder));
        let [before, later] = all.each_ref().map(|read| numbers('i', &read.events));
        let mut missing = 0;
        for (thread, numbers) in &before {
            let whole: Vec<usize> =
                numbers.iter().chain(later.get(thread).into_iter().flatten()).copied().collect();
            assert!(whole.is_sorted_by(|a, b| a < b), "round {round}, thread {thread}");
            missing += whole.last().unwrap() - whole[0] + 1 - whole.len();
        }
        let discarded = all.iter().map(|read| read.discarded).sum::<u64>();
        assert!(missing as u64 <= discarded, "round {round}: {missing} are missing, {discarded} are counted");
        assert!(fs::read_dir(&directory).unwrap().count() == 1 && keepers(&directory) == 0);
        for folder in [folder, directory] {
            fs::remove_dir_all(folder).unwrap();
        }
    }
}

#[test]
fn a_recording_that_ends_leaves_nothing_there() {
    let (folder, directory) = folders("kept-ended");
    let (trace, kept) = (folder.to_str().unwrap(), directory.to_str().unwrap());
    let program = program();
    let output =
        weir(&["record", "-e", "rec:ints", "-o", trace, "--shm-dir", kept, "--", &program, "i", "2", "5000"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let read = read(&folder);
    assert_eq!(read.events.len() as u64 + read.discarded, 10_000);
    assert_eq!((fs::read_dir(&directory).unwrap().count(), keepers(&directory)), (0, 0));
    fs::remove_dir_all(folder).unwrap();
    fs::remove_dir(directory).unwrap();
}

#[test]
fn what_cannot_be_kept_is_refused() {
    let (folder, directory) = folders("kept-refused");
    fs::create_dir_all(directory.parent().unwrap()).unwrap();
    fs::write(&directory, "a file").unwrap();
    let (trace, kept) = (folder.to_str().unwrap(), directory.to_str().unwrap());
    let program = program();
    let check = |options: &[&str], code: i32, wanted: &str| {
        let all = [&["record", "-e", "rec:*", "--shm-dir", kept], options, &["--", &program]].concat();
        let output = weir(&all);
        let said = text(&output.stderr);
        assert!(output.status.code() == Some(code) && said.contains(wanted), "{options:?}: {output:?}");
    };
    check(&["-o", trace], 1, &format!("--shm-dir {kept}"));
    check(&["-o", trace, "--overwrite"], 2, "--overwrite");
    check(&["--to", "-"], 2, "--to");
    assert!(!folder.exists());
    fs::remove_file(directory).unwrap();
}
