//! Names of addresses in real processes: while they live, when they have ended, when files were replaced.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use testkit::Daemon;
use testkit::target::{self, Source};
use weir_symbols::generations::Moment;
use weir_symbols::history::{History, Resolved, Why};
use weir_symbols::{VirtAddr, maps};

/// Prints the addresses of two of its functions, then waits for lines: `map` makes code and a perf map for it.
const PROGRAM: &str = r#"
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
__attribute__((noinline)) int known(int x) { return x * 3 + 1; }
__attribute__((noinline)) static int hidden(int x) { return x * 5 + 2; }
int main(int count, char **arguments)
{
    char line[64], path[64];
    printf("%p %p\n", (void *)known, (void *)hidden);
    fflush(stdout);
    while (fgets(line, sizeof line, stdin)) {
        if (!strcmp(line, "map\n")) {
            char *code = mmap(0, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
            sprintf(path, "/tmp/perf-%d.map", getpid());
            FILE *map = fopen(path, "w");
            fprintf(map, "%lx 40 generated one\n%lx 40 generated two\n", (long)code, (long)code + 64);
            fclose(map);
            printf("%p\n", code);
        }
        if (!strcmp(line, "exec\n"))
            execl("/proc/self/exe", "again", (char *)0);
        fflush(stdout);
    }
    return known(count) + hidden(count) + !arguments;
}
"#;

/// A running program, and where it said that things are.
struct Running {
    daemon: Daemon,
    addresses: Vec<u64>,
}

fn line(daemon: &mut Daemon) -> Vec<u64> {
    let line = daemon.line(Duration::from_secs(120)).unwrap();
    line.split_whitespace()
        .map(|word| u64::from_str_radix(word.trim_start_matches("0x"), 16).unwrap())
        .collect()
}

fn start(program: &Path) -> Running {
    let mut daemon = Daemon::spawn(Command::new(program)).unwrap();
    let addresses = line(&mut daemon);
    Running { daemon, addresses }
}

fn folder(pid: u32) -> PathBuf {
    PathBuf::from(format!("/proc/{pid}"))
}

fn look(history: &mut History, pid: u32, at: u64) {
    history.look(pid, &folder(pid), &maps::read(pid).unwrap(), at).unwrap();
}

#[track_caller]
fn check(history: &mut History, pid: u32, address: u64, name: &str, offset: u64) {
    match history.resolve(pid, VirtAddr(address), Moment::Any) {
        Resolved::Function { name: found, offset: at, .. } => assert_eq!((&*found, at), (name, offset)),
        other => panic!("{name} is {other:?}"),
    }
}

#[track_caller]
fn check_unnamed(history: &mut History, pid: u32, address: u64, want: Why) {
    match history.resolve(pid, VirtAddr(address), Moment::Any) {
        Resolved::Unnamed { why, .. } => assert_eq!(why, want),
        other => panic!("{other:?} is not {want:?}"),
    }
}

fn program(name: &str, flags: &[&str]) -> PathBuf {
    target::build(name, Source::Text(PROGRAM), flags)
}

/// A copy of its own, which a test may replace.
fn copy(built: &Path) -> PathBuf {
    let name = built.file_name().unwrap().to_str().unwrap();
    let copy = built.with_file_name(format!("{name}.{}", std::process::id()));
    target::copy(built, &copy);
    copy
}

/// Ends the program; the addresses that it told.
fn end(running: Running) -> Vec<u64> {
    running.daemon.finish(Duration::from_secs(120)).unwrap();
    running.addresses
}

#[test]
fn functions_of_programs_have_names_however_they_were_linked() {
    for flags in [&["-pie", "-fPIE"][..], &["-no-pie", "-fno-pie"], &["-static"], &["-static-pie"]] {
        let running = start(&program("named", flags));
        let pid = running.daemon.pid();
        let mut history = History::default();
        look(&mut history, pid, 1);
        check(&mut history, pid, running.addresses[0] + 2, "known", 2);
        check(&mut history, pid, running.addresses[1], "hidden", 0);
        let addresses = end(running);
        history.ended(pid, 2);
        check(&mut history, pid, addresses[0], "known", 0);
    }
}

#[test]
fn a_stripped_program_has_no_names_and_is_told_so() {
    let running = start(&program("stripped", &["-s"]));
    let pid = running.daemon.pid();
    let mut history = History::default();
    look(&mut history, pid, 1);
    check_unnamed(&mut history, pid, running.addresses[1], Why::NoFunction);
    check_unnamed(&mut history, pid, 0x10, Why::NothingThere);
    end(running);
}

#[test]
fn a_file_that_was_replaced_or_removed_meanwhile_keeps_its_names() {
    let path = copy(&program("exchanged", &[]));
    let running = start(&path);
    let pid = running.daemon.pid();
    let mut history = History::default();
    look(&mut history, pid, 1);
    let other = copy(&target::build("exchanged-by", Source::Text("int main(void) { return 0; }"), &[]));
    fs::rename(other, &path).unwrap();
    look(&mut history, pid, 2);
    let addresses = end(running);
    history.ended(pid, 3);
    check(&mut history, pid, addresses[0], "known", 0);
    fs::remove_file(path).unwrap();
}

#[test]
fn a_file_that_was_written_over_has_no_names() {
    let path = copy(&program("overwritten", &[]));
    let running = start(&path);
    let pid = running.daemon.pid();
    let mut history = History::default();
    look(&mut history, pid, 1);
    let addresses = end(running);
    history.ended(pid, 2);
    let other = target::build("overwritten-by", Source::Text("int main(void) { return 0; }"), &[]);
    fs::write(&path, fs::read(other).unwrap()).unwrap();
    check_unnamed(&mut history, pid, addresses[0], Why::Replaced);
    fs::remove_file(path).unwrap();
}

#[test]
fn generated_code_has_the_names_of_its_perf_map_also_after_the_end() {
    let mut running = start(&program("generator", &[]));
    let pid = running.daemon.pid();
    let mut history = History::default();
    look(&mut history, pid, 1);
    running.daemon.write("map\n").unwrap();
    let code = line(&mut running.daemon)[0];
    check(&mut history, pid, code + 0x41, "generated two", 1);
    end(running);
    history.ended(pid, 2);
    let map = format!("/tmp/perf-{pid}.map");
    fs::write(&map, "0 ffffffffffff0000 wrong\n").unwrap();
    check(&mut history, pid, code + 4, "generated one", 4);
    check_unnamed(&mut history, pid, code + 0x80, Why::NothingThere);
    fs::remove_file(map).unwrap();
}

/// The newest line of the perf map of `pid` whose name contains `name`: its first address.
fn in_perf_map(pid: u32, name: &str) -> Option<u64> {
    let text = fs::read_to_string(format!("/tmp/perf-{pid}.map")).ok()?;
    let line = text.lines().rfind(|line| line.contains(name))?;
    u64::from_str_radix(line.split(' ').next()?, 16).ok()
}

#[test]
fn functions_of_node_have_names_also_after_its_end() {
    if !target::is_installed("node") {
        return testkit::skip::skip("history::node", "node is not installed");
    }
    let script = "function weirProbe(n) { let s = 0; for (let i = 0; i < n; i++) s += i % 7; return s; }
                  let s = 0; for (let i = 0; i < 3000; i++) s += weirProbe(100);
                  setInterval(() => { s += weirProbe(100); }, 10); console.log(s);";
    let mut command = Command::new("node");
    // It also writes a log of its own, into the folder where it runs.
    command.current_dir(env!("CARGO_TARGET_TMPDIR")).args(["--perf-basic-prof", "-e", script]);
    let mut daemon = Daemon::spawn(command).unwrap();
    daemon.line(Duration::from_secs(120)).unwrap();
    let pid = daemon.pid();
    let mut history = History::default();
    look(&mut history, pid, 1);
    let address =
        testkit::wait::until_some(Duration::from_secs(120), || in_perf_map(pid, "weirProbe")).unwrap();
    let has_name = |history: &mut History| match history.resolve(pid, VirtAddr(address + 1), Moment::Any) {
        Resolved::Function { name, .. } => assert!(name.contains("weirProbe"), "{name}"),
        other => panic!("{other:?}"),
    };
    has_name(&mut history);
    daemon.signal(nix::sys::signal::Signal::SIGKILL).unwrap();
    drop(daemon);
    history.ended(pid, 2);
    let _ = fs::remove_file(format!("/tmp/perf-{pid}.map"));
    has_name(&mut history);
}

#[test]
fn a_perf_map_that_appears_at_the_end_is_read() {
    let mut running = start(&program("late", &[]));
    let pid = running.daemon.pid();
    let mut history = History::default();
    look(&mut history, pid, 1);
    running.daemon.write("map\n").unwrap();
    let code = line(&mut running.daemon)[0];
    end(running);
    history.ended(pid, 2);
    check(&mut history, pid, code, "generated one", 0);
    fs::remove_file(format!("/tmp/perf-{pid}.map")).unwrap();
}

#[test]
fn a_perf_map_of_another_owner_a_link_or_an_old_one_is_refused() {
    let path = program("owned", &[]);
    let text = "0 ffffffffffff0000 wrong\n";
    let refused = |prepare: &dyn Fn(&str)| {
        let running = start(&path);
        let pid = running.daemon.pid();
        let map = format!("/tmp/perf-{pid}.map");
        prepare(&map);
        let mut history = History::default();
        look(&mut history, pid, 1);
        check_unnamed(&mut history, pid, 0x10_0000, Why::NothingThere);
        assert_eq!(history.losses().perf_maps_refused, 1);
        end(running);
        fs::remove_file(&map).unwrap();
    };
    refused(&|map| {
        fs::write(map, text).unwrap();
        let long_ago = std::time::SystemTime::now() - Duration::from_secs(1000);
        fs::File::options().write(true).open(map).unwrap().set_modified(long_ago).unwrap();
    });
    refused(&|map| symlink("/etc/passwd", map).unwrap());
    if !is_root() {
        return testkit::skip::skip("history::owner", "only root gives files away");
    }
    refused(&|map| {
        fs::write(map, text).unwrap();
        std::os::unix::fs::chown(map, Some(12345), None).unwrap();
    });
}

fn is_root() -> bool {
    use std::os::unix::fs::MetadataExt as _;
    fs::metadata("/proc/self").is_ok_and(|own| own.uid() == 0)
}

#[test]
fn after_an_exec_addresses_of_before_are_still_known() {
    let mut running = start(&program("executing", &[]));
    let pid = running.daemon.pid();
    let mut history = History::default();
    look(&mut history, pid, 1);
    running.daemon.write("exec\n").unwrap();
    let after = line(&mut running.daemon);
    look(&mut history, pid, 2);
    check(&mut history, pid, running.addresses[0], "known", 0);
    check(&mut history, pid, after[0], "known", 0);
    end(running);
}

#[test]
fn a_process_that_has_ended_is_an_error_and_no_unloading() {
    let running = start(&program("ending", &[]));
    let pid = running.daemon.pid();
    let mut history = History::default();
    look(&mut history, pid, 1);
    assert!(history.look(pid, &folder(pid), &[], 2).is_err());
    check(&mut history, pid, running.addresses[0], "known", 0);
    end(running);
}
