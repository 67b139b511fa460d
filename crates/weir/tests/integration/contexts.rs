//! Contexts of recordings that are more than a register or an id: the control group of the process, and the stack of the thread.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use testkit::cgroup::{self, NumberedGroup};
use testkit::target::{self, Source};
use testkit::{Daemon, ctf, paths, skip, wait};

const LIMIT: Duration = Duration::from_secs(60);

/// Says of each event by whom it was called, as compilers know it. `deep` has more frames than are recorded. With an argument `e` it begins with calls of `outer`
/// until a line comes in, says `done` behind the rest, and waits for the end of its input.
const STACKS: &str = r#"
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>
#include "weir/tracepoint.h"
#define CALLER(n) ((unsigned long)__builtin_return_address(n))
__attribute__((noinline)) void leaf(int round)
{
    WEIR_TRACEPOINT(stack, leaf, (int, round, round), (unsigned long, first, CALLER(0)),
                    (unsigned long, second, CALLER(1)), (unsigned long, third, CALLER(2)));
    __asm__ volatile("");
}
__attribute__((noinline)) void middle(int round) { leaf(round); __asm__ volatile(""); }
__attribute__((noinline)) void outer(int round) { middle(round); __asm__ volatile(""); }
__attribute__((noinline)) void deep(int round, int depth)
{
    if (depth)
        deep(round, depth - 1);
    else
        outer(round);
    __asm__ volatile("");
}
static volatile int is_endless;
static void *run(void *unused)
{
    /* Pacing alone: the verdict does not depend on it. */
    for (int i = 0; is_endless; i++, usleep(200))
        outer(i);
    for (int i = 0; i < 200; i++)
        outer(i);
    deep(200, 300);
    return unused;
}
static void *wait_for_line(void *unused)
{
    getchar();
    is_endless = 0;
    return unused;
}
int main(int count, char **arguments)
{
    pthread_t thread, reader;
    int is_asked = count > 1 && arguments[1][0] == 'e';
    is_endless = is_asked;
    if (is_asked)
        pthread_create(&reader, 0, wait_for_line, 0);
    pthread_create(&thread, 0, run, 0);
    run(0);
    pthread_join(thread, 0);
    if (is_asked) {
        puts("done");
        fflush(stdout);
        getchar();
    }
    return 0;
}
"#;

const FLAGS: [&str; 7] = [
    "-O2",
    "-pthread",
    "-fPIE",
    "-pie",
    "-fno-omit-frame-pointer",
    "-fno-optimize-sibling-calls",
    "-Wno-frame-address",
];

/// Most addresses of a stack.
const FRAMES_MAX: usize = 127;

fn weir(args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
    command.current_dir(paths::target().join("testkit")).args(args).output().unwrap()
}

/// The program of target/testkit, where [`weir`] runs: the path of an event that is recorded has no blanks.
fn beside(program: &str) -> String {
    format!("./{}", program.rsplit('/').next().unwrap())
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The lines of a trace as `weir view` has them; of CTF 1.8 the strict checker takes it, and babeltrace2 has the same.
#[track_caller]
fn lines(folder: &Path, is_ctf_1: bool) -> Vec<String> {
    if is_ctf_1 {
        ctf::check_folder(folder).unwrap_or_else(|fault| panic!("{fault}"));
    }
    let folder = folder.to_str().unwrap();
    let ours = weir(&["view", "--clock-gmt", folder]);
    assert!(ours.status.success(), "{}", text(&ours.stderr));
    match Command::new("babeltrace2").args(["--clock-gmt", folder]).output() {
        _ if !is_ctf_1 => {}
        Err(_) => skip::skip("contexts-babeltrace2", "no babeltrace2; traces are read by `weir view` alone"),
        Ok(theirs) => {
            assert!(theirs.status.success(), "{}", text(&theirs.stderr));
            assert!(text(&ours.stdout) == text(&theirs.stdout), "the readers differ on {folder}");
        }
    }
    text(&ours.stdout).lines().map(str::to_owned).collect()
}

/// The number of a field of a line, by its name.
fn number(line: &str, name: &str) -> u64 {
    let (_, rest) = line.split_once(&format!(" {name} = ")).unwrap_or_else(|| panic!("no {name} in {line}"));
    let digits = rest.split([',', ' ']).next().unwrap();
    match digits.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).unwrap(),
        None => digits.parse().unwrap(),
    }
}

/// The addresses of `callstack_user`, as many as its length says.
#[track_caller]
fn stack(line: &str) -> Vec<u64> {
    let (_, rest) = line.split_once(" callstack_user = [ ").unwrap_or_else(|| panic!("no stack in {line}"));
    let elements = rest.split_once(" ]").unwrap().0.split(", ").enumerate();
    let address = |(index, element): (usize, &str)| {
        let digits = element.strip_prefix(&format!("[{index}] = 0x")).unwrap_or_else(|| panic!("{element}"));
        u64::from_str_radix(digits, 16).unwrap()
    };
    let addresses: Vec<u64> = elements.map(address).collect();
    assert_eq!(addresses.len() as u64, number(line, "_callstack_user_length"), "{line}");
    addresses
}

/// Records what the program emits; what weir says.
#[track_caller]
fn record(folder: &Path, options: &[&str], program: &str) -> String {
    let output = weir(&[&["record", "-o", folder.to_str().unwrap()], options, &["--", program]].concat());
    let said = text(&output.stderr);
    assert!(output.status.success(), "{options:?}: {said}");
    said
}

fn stacks() -> String {
    let include = paths::root().join("include").display().to_string();
    let flags = [&FLAGS[..], &["-I", &include]].concat();
    target::build("stacks", Source::Text(STACKS), &flags).display().to_string()
}

#[test]
fn stacks_are_the_callers_that_the_program_knows() {
    let program = stacks();
    for (name, format) in
        [("stacks", &["--trace-format", "ctf-1.8"]), ("stacks-2", &["--trace-format", "ctf-2"])]
    {
        let folder = paths::fresh("contexts", name);
        let said = record(
            &folder,
            &[&["-e", "stack:*", "-t", "ip,vtid,callstack-user"][..], format].concat(),
            &program,
        );
        let lines = lines(&folder, format[1] == "ctf-1.8");
        assert_eq!(lines.len(), 402, "{said}");
        for line in &lines {
            let stack = stack(line);
            let known = ["ip", "first", "second", "third"].map(|name| number(line, name));
            assert_eq!(stack[..4], known, "{line}");
            match number(line, "round") {
                200 => assert_eq!(stack.len(), FRAMES_MAX, "{line}"),
                _ => assert!((5..FRAMES_MAX).contains(&stack.len()), "{line}"),
            }
        }
        fs::remove_dir_all(folder).unwrap();
    }
}

/// From some hundred stacks on they are read without a system call: they stay what they are.
#[test]
fn stacks_that_are_read_directly_are_the_same() {
    let folder = paths::fresh("contexts", "direct");
    let mut command = Command::new(stacks());
    command.arg("e");
    let mut program = Daemon::spawn(command).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
    command.args([
        "record",
        "-v",
        "-e",
        "stack:leaf",
        "-t",
        "ip,ustack",
        "-o",
        folder.to_str().unwrap(),
        "-p",
    ]);
    let mut recorder = command.arg(program.pid().to_string()).stderr(Stdio::piped()).spawn().unwrap();
    let mut said = BufReader::new(recorder.stderr.take().unwrap()).lines().map_while(Result::ok);
    let of_reads = said.find(|line| line.contains("memory is read "));
    // What comes after that is read so: the last 201 stacks of each thread.
    program.write("\n").unwrap();
    program.line_with("done", LIMIT).unwrap();
    kill(Pid::from_raw(recorder.id() as i32), Signal::SIGINT).unwrap();
    let rest: Vec<String> = said.collect();
    assert!(recorder.wait().unwrap().success(), "{rest:?}");
    assert!(
        of_reads.as_ref().is_some_and(|line| line.ends_with("memory is read directly")),
        "{of_reads:?} {rest:?}"
    );
    let lines = lines(&folder, true);
    for line in &lines {
        let known = ["ip", "first", "second", "third"].map(|name| number(line, name));
        assert_eq!(stack(line)[..4], known, "{line}");
    }
    let deep = lines.iter().filter(|line| stack(line).len() == FRAMES_MAX).count();
    assert!(lines.len() > 402 && deep == 2, "{deep} of {} stacks are deep", lines.len());
    fs::remove_dir_all(folder).unwrap();
}

#[test]
fn a_stack_at_the_entry_of_a_function_has_its_caller() {
    let (program, folder) = (stacks(), paths::fresh("contexts", "entry"));
    record(&folder, &["-e", &format!("uprobe:{}:leaf", beside(&program)), "-t", "ustack,ip"], &program);
    let at_entry = lines(&folder, true);
    assert_eq!(at_entry.len(), 402);
    for line in &at_entry {
        let stack = stack(line);
        assert_eq!(stack[0], number(line, "ip"), "{line}");
        // `middle`, `outer` and `run` or `deep`: two calls of one place each, all of the program, some bytes from one another.
        assert!(stack.len() >= 5 && stack[1..4].iter().all(|at| at.abs_diff(stack[0]) < 1 << 20), "{line}");
        assert_ne!(stack[1], stack[2], "{line}");
    }
    fs::remove_dir_all(folder).unwrap();
}

/// In one process both at entries, where no frame is yet, and inside functions, where there is one.
#[test]
fn entries_have_their_callers_beside_places_that_have_frames() {
    let (program, folder) = (stacks(), paths::fresh("contexts", "entries"));
    let entry = format!("uprobe:{}:leaf", beside(&program));
    record(&folder, &["-e", &entry, "-e", "stack:leaf", "-t", "ustack,ip,vtid"], &program);
    let mut at_entry = BTreeMap::new();
    let mut met = 0;
    for line in lines(&folder, true) {
        let (stack, thread) = (stack(&line), number(&line, "vtid"));
        if line.contains(" stack:leaf: ") {
            // The same call, further on in the function.
            let entered: Vec<u64> = at_entry.remove(&thread).expect("it was entered");
            assert_eq!(entered[1], number(&line, "first"), "{line}");
            assert_eq!(entered[1..], stack[1..], "{line}");
            met += 1;
        } else {
            at_entry.insert(thread, stack);
        }
    }
    assert_eq!((met, at_entry.len()), (402, 0));
    fs::remove_dir_all(folder).unwrap();
}

#[test]
fn a_flight_recorder_has_contexts_too() {
    let Ok(group) = cgroup::number_of(std::process::id()) else {
        return skip::skip("contexts-cgroup-numbers", "no hierarchy of cgroups of version 2 is mounted");
    };
    let (program, folder) = (stacks(), paths::fresh("contexts", "flight"));
    record(&folder, &["-e", "stack:*", "-t", "cgroup,ustack", "--overwrite", "--snapshot-at-end"], &program);
    let snapshot = fs::read_dir(&folder).unwrap().next().expect("a snapshot").unwrap().path();
    let lines = lines(&snapshot, true);
    assert_eq!(lines.len(), 402);
    for line in &lines {
        assert_eq!(stack(line)[1], number(line, "first"), "{line}");
        assert_eq!(number(line, "cgroup_id"), group, "{line}");
    }
    fs::remove_dir_all(folder).unwrap();
}

#[test]
fn a_script_counts_by_group() {
    let Ok(group) = cgroup::number_of(std::process::id()) else {
        return skip::skip("contexts-cgroup-numbers", "no hierarchy of cgroups of version 2 is mounted");
    };
    let program = stacks();
    let script = format!("usdt:\"{program}\":stack:leaf {{ @[cgroup] = count(); }} END {{ print(cgroup); }}");
    let output = weir(&["trace", "-e", &script, "-c", &format!("\"{program}\"")]);
    let said = text(&output.stdout);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(said.contains(&format!("\n{group}\n")) && said.contains(&format!("@[{group}]: 402\n")), "{said}");
}

/// Events of a process before and after it is moved; and of one that was moved before weir came.
#[test]
fn a_process_that_is_moved_is_recorded_in_its_new_group() {
    let group = match NumberedGroup::create("contexts") {
        Ok(group) => group,
        Err(error) => {
            return skip::skip("contexts-cgroup", format!("no cgroup of version 2 can be made: {error}"));
        }
    };
    let folder = paths::fresh("contexts", "group");
    let mut program = Daemon::spawn(Command::new(target::program("emits"))).unwrap();
    let pid = program.pid();
    let mut emit = |count: u32| {
        program.write(&format!("a {count}\n")).unwrap();
        program.line(LIMIT).unwrap();
    };
    let before = cgroup::number_of(pid).unwrap();
    let options = ["record", "-e", "ses:one", "-t", "cgroup_id,vpid", "-o", folder.to_str().unwrap(), "-p"];
    let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
    command.args(options).arg(pid.to_string());
    let recorder = Daemon::spawn(command).unwrap();
    let seen = || -> Vec<u64> {
        let output = weir(&["view", folder.to_str().unwrap()]);
        text(&output.stdout).lines().map(|line| number(line, "cgroup_id")).collect()
    };
    // What is emitted before probes are in is not recorded; packets are written every second.
    let mut is_seen = |id: u64| {
        wait::until(LIMIT, || {
            emit(1);
            seen().last() == Some(&id)
        })
    };
    assert!(is_seen(before), "events of group {before}");
    group.add(pid).unwrap();
    assert_eq!(cgroup::number_of(pid).unwrap(), group.number());
    assert!(is_seen(group.number()), "events of group {}", group.number());
    recorder.signal(Signal::SIGINT).unwrap();
    let said = recorder.finish(LIMIT).unwrap().stderr;
    let ids: Vec<u64> = lines(&folder, true).iter().map(|line| number(line, "cgroup_id")).collect();
    let moved = ids.iter().position(|id| *id != before).expect("the process was moved");
    assert!(moved > 0 && ids[moved..].iter().all(|id| *id == group.number()), "{ids:?}");
    for (id, path) in [(before, ""), (group.number(), &group.path)] {
        assert!(said.contains(&format!("weir:   cgroup_id {id}: {path}")), "{said}");
    }
    fs::remove_dir_all(&folder).unwrap();
    // The first event has it already.
    let options = ["record", "-q", "-e", "ses:one", "-t", "cgroup", "-o", folder.to_str().unwrap(), "-p"];
    let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
    command.args(options).arg(pid.to_string());
    let recorder = Daemon::spawn(command).unwrap();
    assert!(is_seen(group.number()));
    recorder.signal(Signal::SIGINT).unwrap();
    recorder.finish(LIMIT).unwrap();
    assert!(lines(&folder, true).iter().all(|line| number(line, "cgroup_id") == group.number()));
    fs::remove_dir_all(&folder).unwrap();
}
