//! Libraries that come and go. The oracle is the program itself (tests/programs/loader.c): it says how often it called
//! the function that is probed.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use nix::sys::signal::Signal;
use testkit::paths::quoted;
use testkit::stranger::Folder;
use testkit::target::{self, Source};
use testkit::{Daemon, random};
use weir_symbols::maps::{self, Mapping};

const DEADLINE: Duration = Duration::from_secs(120);

/// The program that loads, and the library.
fn built() -> (PathBuf, PathBuf) {
    let library = target::build("loaded.so", Source::Program("loaded.c"), &["-O2", "-shared", "-fPIC"]);
    (target::program("loader"), library)
}

/// The program, which waits for lines.
struct Loader {
    daemon: Daemon,
    loaded: String,
    _folder: Option<Folder>,
}

impl Loader {
    /// With a copy of the library: open(2) of a file that another weir probes waits for that weir.
    fn start() -> Loader {
        let folder = Folder::new();
        let library = folder.copy(&built().1);
        Loader { _folder: Some(folder), ..Loader::start_with(&library) }
    }

    fn start_with(library: &Path) -> Loader {
        let mut command = Command::new(built().0);
        command.arg(library);
        let mut daemon = Daemon::spawn(command).unwrap();
        daemon.line_with("ready", DEADLINE).unwrap();
        Loader { daemon, loaded: quoted(library), _folder: None }
    }

    /// Has it do something, and gives the line that begins with `answer`.
    fn tell(&mut self, what: &str, answer: &str) -> String {
        self.daemon.write(&format!("{what}\n")).unwrap();
        self.daemon.line_with(answer, DEADLINE).unwrap()
    }

    /// How often its main thread has waited for something.
    fn waits(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.daemon.pid())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
        line.unwrap().trim().parse().unwrap()
    }

    /// A weir that traces it, and has begun.
    fn traced(&self, script: &str) -> Daemon {
        let script = script.replace("LIB", &self.loaded);
        let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
        command.args(["trace", "-v", "-e", &script, "-p", &self.daemon.pid().to_string()]);
        let mut weir = Daemon::spawn(command).unwrap();
        weir.line_with("begun", DEADLINE).unwrap();
        weir
    }
}

/// What it printed, and what it said.
fn stop(weir: Daemon) -> (String, String) {
    weir.signal(Signal::SIGINT).unwrap();
    let ended = weir.finish(DEADLINE).unwrap();
    assert!(ended.status.success(), "{}: {}", ended.status, ended.stderr);
    (ended.stdout, ended.stderr)
}

/// `leave`: how weir comes to lower what it has raised.
fn check_semaphore(leave: fn(Daemon, u32)) {
    let mut loader = Loader::start();
    loader.tell("load", "load 10");
    let weir =
        loader.traced("usdt:LIB:guarded { @ = count(); } interval:ms:1 { printf(\"begun\\n\"); clear(@); }");
    assert_eq!(loader.tell("guard", "prepared"), "prepared 1");
    loader.tell("unload", "unload");
    loader.tell("occupy", "occupy");
    leave(weir, loader.daemon.pid());
    loader.daemon.write("look\n").unwrap();
    assert_eq!(loader.daemon.line(DEADLINE).unwrap(), "same");
}

#[test]
fn what_lies_where_a_semaphore_was_is_left_alone() {
    check_semaphore(|weir, _| drop(stop(weir)));
}

#[test]
fn what_lies_where_a_killed_weir_raised_a_semaphore_is_left_alone() {
    check_semaphore(|weir, pid| {
        weir.signal(Signal::SIGKILL).unwrap();
        assert!(!weir.finish(DEADLINE).unwrap().status.success());
        let mut detach = Command::new(env!("CARGO_BIN_EXE_weir"));
        assert!(detach.args(["detach", "-p", &pid.to_string()]).status().unwrap().success());
    });
}

/// Runs weir on the program and what it is told to do, and checks what it counted of `probed`.
#[track_caller]
fn check(commands: &[&str], script: &str, expected: &str) -> String {
    let (program, library) = built();
    run(&quoted(&program), &quoted(&library), commands, script, expected, &[])
}

#[track_caller]
fn run(
    program: &str,
    library: &str,
    commands: &[&str],
    script: &str,
    expected: &str,
    environment: &[(&str, &str)],
) -> String {
    let quoted: Vec<String> = commands.iter().map(|command| format!("'{command}'")).collect();
    let command = format!("{program} {library} {}", quoted.join(" "));
    // On a machine that has no CPU for weir, the program goes on without it, and that is told: then it is asked again.
    for _ in 0..TRIES {
        let mut weir = Command::new(env!("CARGO_BIN_EXE_weir"));
        weir.args(["trace", "-v", "-e", &script.replace("LIB", library), "-c", &command]);
        weir.envs(environment.iter().copied()).stdin(Stdio::null());
        let output = weir.output().unwrap();
        let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success(), "{out}{err}");
        if err.contains("unanswered") {
            continue;
        }
        for line in expected.lines() {
            assert!(out.lines().any(|printed| printed == line.trim()), "no {line}: {out}{err}");
        }
        return err.into_owned();
    }
    panic!("weir answered too late {TRIES} times");
}

const TRIES: u32 = 20;

/// Of waits in 200 cycles: there are 400 where each announcement waits, and a few where none does.
const WAITS_MAX: u64 = 100;
const BEGUN: &str = "interval:ms:1 { if (!@begun) { printf(\"begun\\n\"); @begun = 1; } }";
const COUNTS: &str = "uprobe:LIB:probed { @ = count(); }";

#[test]
fn the_first_call_of_a_library_is_counted_and_those_of_its_resolvers_and_constructors() {
    let script =
        "uprobe:LIB:probed { @probed = count(); } uprobe:LIB:constructing { @constructing = count(); }
        uprobe:LIB:resolved { @resolved = count(); }";
    let told = check(&["load"], script, "@probed: 10\n@constructing: 1\n@resolved: 1");
    assert!(told.contains("loaded 1 times, unloaded 0 times\n"), "nothing ran unprobed: {told}");
}

#[test]
fn what_comes_and_goes_a_hundred_times_is_counted_every_time() {
    let told = check(&["cycles 100"], COUNTS, "cycles 300\n@: 300");
    assert!(told.contains("loaded 100 times, unloaded 100 times\n"), "{told}");
}

#[test]
fn returns_and_static_probes_of_what_comes_and_goes_are_seen() {
    let script = "uretprobe:LIB:nested { @returned = count(); } uprobe:LIB:probed { @ = count(); }
        usdt:LIB:guarded { @guarded = count(); }";
    let told = check(
        &["load", "guard", "nest", "unload", "cycles 20", "load", "guard", "nest"],
        script,
        "@guarded: 2\n@returned: 2\n@: 84",
    );
    assert!(told.contains("loaded 22 times, unloaded 21 times\n"), "{told}");
}

#[test]
fn each_copy_of_a_library_is_probed() {
    check(&["load", "copy", "copy", "call 5"], COUNTS, "call 23\n@: 23");
}

#[test]
fn threads_load_and_unload_while_others_do() {
    check(&["threads 8 20"], COUNTS, "threads 480\n@: 480");
}

#[test]
fn a_fork_child_loads_unprobed_and_unharmed() {
    check(&["fork", "load", "fork"], COUNTS, "child 0\n@: 10");
}

#[test]
fn a_library_that_never_comes_is_told() {
    let (program, library) = built();
    check_never(&quoted(&program), &quoted(&library), &[]);
}

#[test]
fn a_running_process_loads_what_a_script_names() {
    let mut loader = Loader::start();
    let weir = loader.traced(&format!("{COUNTS} interval:ms:1 {{ printf(\"begun\\n\"); }}"));
    assert_eq!(loader.tell("load", "load"), "load 10");
    assert_eq!(loader.tell("unload", "unload"), "unload 10");
    assert_eq!(loader.tell("cycles 5", "cycles"), "cycles 25");
    assert_eq!(loader.tell("load", "load"), "load 35");
    let (out, err) = stop(weir);
    assert!(out.contains("@: 35"), "{out}{err}");
    assert!(loader.tell("call 7", "call").ends_with(" 42"), "goes on");
}

/// Two weirs, of which the first that came, or the other, goes before the end: each counts every call, also of a library that comes to where it was.
#[track_caller]
fn check_two(first: bool) {
    for _ in 0..TRIES {
        let mut loader = Loader::start();
        let script = format!("{COUNTS} {BEGUN}");
        let mut weirs = vec![loader.traced(&script), loader.traced(&script)];
        assert_eq!(loader.tell("load", "load"), "load 10");
        assert_eq!(loader.tell("unload", "unload"), "unload 10");
        assert_eq!(loader.tell("cycles 20", "cycles"), "cycles 70");
        assert_eq!(loader.tell("load", "load"), "load 80");
        let (out, err) = stop(weirs.remove(usize::from(!first)));
        assert_eq!(loader.tell("call 5", "call"), "call 85");
        assert_eq!(loader.tell("unload", "unload"), "unload 85");
        assert_eq!(loader.tell("cycles 5", "cycles"), "cycles 100");
        let (rest, said) = stop(weirs.remove(0));
        if [&err, &said].iter().any(|text| text.contains("unanswered")) {
            continue;
        }
        assert!(out.contains("@: 80\n"), "{first}: {out}{err}");
        assert!(rest.contains("@: 100\n"), "{first}: {rest}{said}");
        check_clean(loader.daemon.pid());
        assert_eq!(loader.tell("load", "load"), "load 110");
        return;
    }
    panic!("weir answered too late {TRIES} times");
}

#[test]
fn libraries_that_come_and_go_are_counted_by_each_of_two_weirs() {
    check_two(true);
    check_two(false);
}

/// Where the linker registers no rseq area (as before glibc 2.35), a command is stopped elsewhere.
#[test]
fn a_command_whose_library_comes_later_begins_without_rseq_too() {
    let (program, library) = built();
    let (program, library) = (quoted(&program), quoted(&library));
    let environment = [("GLIBC_TUNABLES", "glibc.pthread.rseq=0")];
    run(&program, &library, &["load", "unload", "load"], COUNTS, "load 20\n@: 20", &environment);
    check_never(&program, &library, &environment);
}

/// The program's own functions are probed from the first on, where a library never comes.
#[track_caller]
fn check_never(program: &str, library: &str, environment: &[(&str, &str)]) {
    let script = format!("{COUNTS} uprobe:{program}:main {{ @main = count(); }}");
    let told = run(program, library, &["wait"], &script, "wait 0\n@main: 1\n@: 0", environment);
    assert!(told.contains("2 places: 1 probed, 1 never loaded\n"), "{told}");
}

#[test]
fn the_loader_of_musl_is_followed() {
    if !target::is_installed("musl-gcc") {
        return testkit::skip::skip("musl", "musl-gcc is not installed");
    }
    let library = target::build_with(
        "musl-gcc",
        "loaded-musl.so",
        Source::Program("loaded.c"),
        &["-O2", "-shared", "-fPIC"],
    );
    let program = target::build_with("musl-gcc", "loader-musl", Source::Program("loader.c"), &["-O2"]);
    let (program, library) = (quoted(&program), quoted(&library));
    let script =
        "uprobe:LIB:probed { @probed = count(); } uprobe:LIB:constructing { @constructing = count(); }";
    run(&program, &library, &["load", "call 5"], script, "@probed: 15\n@constructing: 1", &[]);
    check_never(&program, &library, &[]);
}

#[test]
fn a_killed_weir_holds_nobody_that_waits_for_it() {
    let mut loader = Loader::start();
    let weir = loader.traced(&format!("{COUNTS} interval:ms:1 {{ printf(\"begun\\n\"); }}"));
    weir.signal(Signal::SIGKILL).unwrap();
    assert!(!weir.finish(DEADLINE).unwrap().status.success());
    let before = loader.waits();
    assert_eq!(loader.tell("cycles 200", "cycles"), "cycles 600");
    let waits = loader.waits() - before;
    assert!(waits < WAITS_MAX, "{waits}");
    let mut detach = Command::new(env!("CARGO_BIN_EXE_weir"));
    assert!(detach.args(["detach", "-p", &loader.daemon.pid().to_string()]).status().unwrap().success());
    assert_eq!(loader.tell("load", "load"), "load 610");
}

/// Nothing of weir's is in it.
#[track_caller]
fn check_clean(pid: u32) {
    assert_eq!(testkit::mapped::of_weir_in(pid), Vec::<String>::new());
}

/// A weir that is killed at each of these moments after a thread has begun to load and unload: it goes on, and the next counts.
#[test]
fn a_weir_that_is_killed_while_a_thread_waits_for_it_is_taken_over() {
    let mut loader = Loader::start();
    let script = format!("{COUNTS} {BEGUN}");
    let mut calls = 0;
    // 0: it is stopped before, so that the thread waits for sure.
    for after_us in [0, 500, 3_000, 7_000, 20_000, 45_000] {
        let weir = loader.traced(&script);
        if after_us == 0 {
            weir.signal(Signal::SIGSTOP).unwrap();
        }
        loader.daemon.write("cycles 200\n").unwrap();
        // A moment like any other: the verdict does not depend on it.
        std::thread::sleep(Duration::from_micros(if after_us == 0 { 10_000 } else { after_us }));
        weir.signal(Signal::SIGKILL).unwrap();
        assert!(!weir.finish(DEADLINE).unwrap().status.success());
        let before = loader.waits();
        calls += 600;
        assert_eq!(loader.daemon.line_with("cycles", DEADLINE).unwrap(), format!("cycles {calls}"));
        let waits = loader.waits() - before;
        assert!(waits < WAITS_MAX, "{after_us}: {waits}");
        let next = loader.traced(&script);
        calls += 15;
        assert_eq!(loader.tell("cycles 5", "cycles"), format!("cycles {calls}"));
        let (out, err) = stop(next);
        assert!(out.contains("@: 15") || err.contains("unanswered"), "{after_us}: {out}{err}");
        check_clean(loader.daemon.pid());
    }
}

/// The code that a process maps from `path`, or has mapped from what was there, is as in `file`.
#[track_caller]
fn check_text(pid: u32, path: &Path, file: &Path) {
    let (memory, file) = (File::open(format!("/proc/{pid}/mem")).unwrap(), std::fs::read(file).unwrap());
    let mappings = maps::read(pid).unwrap();
    let is_its = |mapping: &&Mapping| mapping.execute && Path::new(&mapping.path) == path;
    let mapping = mappings.iter().find(is_its).unwrap_or_else(|| panic!("{path:?} is not in {mappings:?}"));
    let offset = mapping.offset.0 as usize;
    let length = ((mapping.end.0 - mapping.start.0) as usize).min(file.len() - offset);
    let mut text = vec![0; length];
    memory.read_exact_at(&mut text, mapping.start.0).unwrap();
    let differs = text.iter().zip(&file[offset..]).position(|(memory, file)| memory != file);
    assert_eq!(differs, None, "{mapping:?}");
}

/// A weir that does not run while a process loads and unloads; `leave`: what ends, before weir runs on.
#[track_caller]
fn check_unseen(leave: fn(&Daemon, Loader) -> Option<Loader>) {
    let mut loader = Loader::start();
    let weir = loader.traced(&format!("{COUNTS} {BEGUN}"));
    weir.signal(Signal::SIGSTOP).unwrap();
    assert_eq!(loader.tell("cycles 20", "cycles"), "cycles 60");
    let _left = leave(&weir, loader);
    weir.signal(Signal::SIGCONT).unwrap();
    let ended = weir.finish(DEADLINE).unwrap();
    assert!(ended.status.success(), "{ended:?}");
    let told = "40 announcements of loading or unloading unanswered";
    assert!(ended.stdout.contains("@: 0\n") && ended.stderr.contains(told), "{ended:?}");
}

#[test]
fn what_a_process_loaded_unseen_before_it_ended_is_told() {
    check_unseen(|_, loader| {
        assert!(loader.daemon.finish(DEADLINE).unwrap().status.success());
        None
    });
}

#[test]
fn what_a_process_loaded_unseen_before_it_was_let_go_of_is_told() {
    check_unseen(|weir, loader| {
        weir.signal(Signal::SIGINT).unwrap();
        Some(loader)
    });
}

/// The linker announces when all is mapped; but weir may look at any moment. `then`: what comes when all is mapped and
/// probed, and `probed` was called five times. What weir printed and said.
fn half_mapped(then: fn(&mut Loader, &Daemon)) -> (String, String) {
    let mut loader = Loader::start();
    loader.tell("note", "note");
    let weir =
        loader.traced(&format!("{COUNTS} uprobe:LIB:constructing {{ @constructing = count(); }} {BEGUN}"));
    loader.tell("half", "half");
    assert_eq!(loader.tell("whole", "whole"), "whole 5");
    then(&mut loader, &weir);
    stop(weir)
}

#[test]
fn a_library_that_was_half_mapped_at_a_look_is_probed_at_the_next() {
    for _ in 0..TRIES {
        let (out, err) = half_mapped(|_, _| {});
        if !err.contains("unanswered") {
            assert!(err.contains("text-differs") && err.contains("2 places: 2 probed\n"), "{err}");
            assert!(out.contains("@: 5\n"), "{out}{err}");
            return;
        }
    }
    panic!("weir answered too late {TRIES} times");
}

/// As of a library that is loaded again to its place while weir patches it, in several stops.
#[test]
fn what_lost_its_patch_while_others_stand_is_probed_again() {
    let (out, err) = half_mapped(|loader, weir| {
        weir.signal(Signal::SIGSTOP).unwrap();
        loader.tell("lose", "lose");
        weir.signal(Signal::SIGCONT).unwrap();
        for _ in 0..100 {
            loader.tell("again", "again");
            // So that weir has moments to look between them; the verdict allows for any number.
            std::thread::sleep(Duration::from_millis(5));
        }
    });
    let counted = out.lines().find_map(|line| line.strip_prefix("@: ")?.parse::<u32>().ok());
    assert!(counted.is_some_and(|counted| (50..=105).contains(&counted)), "{out}{err}");
    assert!(err.contains("unanswered") && err.contains("2 places: 2 probed\n"), "{err}");
}

/// Another file is put in the place of a traced library, which is unloaded and loaded again, or is not. `leave`: how weir
/// ends; gives what it said.
fn check_replaced(is_loaded_again: bool, leave: fn(Daemon, u32) -> String) {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let (_, library) = built();
    let other = target::build("loaded-other.so", Source::Program("loaded.c"), &["-O0", "-shared", "-fPIC"]);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let path = library.with_file_name(format!("replaced-{}-{number}.so", std::process::id()));
    let new = path.with_extension("new");
    std::fs::copy(&library, &path).unwrap();
    let mut loader = Loader::start_with(&path);
    loader.tell("load", "load 10");
    let weir = loader.traced(&format!("{COUNTS} usdt:LIB:guarded {{ @guarded = count(); }} {BEGUN}"));
    std::fs::copy(&other, &new).unwrap();
    std::fs::rename(&new, &path).unwrap();
    loader.tell("call 5", "call 15");
    if is_loaded_again {
        loader.tell("unload", "unload");
        loader.tell("load", "load 25");
        check_text(loader.daemon.pid(), &path, &other);
    }
    let said = leave(weir, loader.daemon.pid());
    check_text(loader.daemon.pid(), &path, if is_loaded_again { &other } else { &library });
    assert!(said.is_empty() || said.contains("@: 5\n"), "{said}");
    assert!(said.is_empty() || said.contains("replaced: ") == is_loaded_again, "{said}");
    check_clean(loader.daemon.pid());
    assert!(loader.tell("call 3", "call").ends_with(if is_loaded_again { "28" } else { "18" }));
    std::fs::remove_file(&path).unwrap();
}

#[test]
fn what_is_traced_of_a_file_that_was_replaced_is_put_back_as_it_was() {
    let stopped = |weir, _| {
        let (out, err) = stop(weir);
        out + &err
    };
    for is_loaded_again in [false, true] {
        check_replaced(is_loaded_again, stopped);
        check_replaced(is_loaded_again, |weir, pid| {
            weir.signal(Signal::SIGKILL).unwrap();
            weir.finish(DEADLINE).unwrap();
            let mut detach = Command::new(env!("CARGO_BIN_EXE_weir"));
            let detach = detach.args(["detach", "-p", &pid.to_string()]).output().unwrap();
            assert!(detach.status.success(), "{detach:?}");
            String::new()
        });
    }
}

/// The command never waits for weir, which so probes what has gone already, or is half mapped. (What is probed in the end
/// is chance; so weir's own exit code is, too.)
#[test]
fn what_comes_and_goes_before_weir_has_looked_is_unharmed() {
    let (program, library) = built();
    let (program, library) = (quoted(&program), quoted(&library));
    let script = "uprobe:LIB:probed { @ = count(); } uretprobe:LIB:nested { @returned = count(); }
        usdt:LIB:guarded { @guarded = count(); }";
    let command = format!(
        "{program} {library} hurry 'cycles 20000' 'threads 4 300' load guard nest unload 'cycles 1000'"
    );
    let mut weir = Command::new(env!("CARGO_BIN_EXE_weir"));
    weir.args(["trace", "-v", "-e", &script.replace("LIB", &library), "-c", &command]);
    let output = weir.stdin(Stdio::null()).output().unwrap();
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(out.contains("cycles 66612"), "{out}{err}");
    assert!(err.contains("ended with exit code 0") && err.contains("unanswered"), "{out}{err}");
    assert!(!err.contains("raising a semaphore"), "{err}");
}

/// What the program does in a random order until it has loaded the library so often, and what must be counted then.
fn at_random(seed: u64, loads: u64) -> (Vec<String>, [u64; 3]) {
    let mut state = seed;
    let mut below = |limit: u64| {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 33) % limit
    };
    let (mut commands, mut is_loaded, mut done) = (Vec::new(), false, 0);
    let [mut calls, mut returns, mut guarded] = [0; 3];
    while done < loads {
        let command = match (below(8), is_loaded) {
            (0..=1, false) => {
                (is_loaded, done, calls) = (true, done + 1, calls + 10);
                "load".to_owned()
            }
            (0, true) => {
                is_loaded = false;
                "unload".to_owned()
            }
            (1..=2, true) => {
                (returns, calls) = (returns + 1, calls + 2);
                "nest".to_owned()
            }
            (3, true) => {
                guarded += 1;
                "guard".to_owned()
            }
            (4, _) => {
                let (threads, each) = (2 + below(7), 1 + below(10));
                (done, calls) = (done + threads * each, calls + 3 * threads * each);
                format!("threads {threads} {each}")
            }
            (5, _) => "fork".to_owned(),
            _ => {
                let cycles = 1 + below(20);
                (done, calls) = (done + cycles, calls + 3 * cycles);
                format!("cycles {cycles}")
            }
        };
        commands.push(command);
    }
    (commands, [calls, returns, guarded])
}

/// `WEIR_LOADS=SEED:LOADS` for another run than that of every day.
#[test]
fn what_comes_and_goes_at_random_is_counted_every_time() {
    let (seed, loads) = random::seed_and_count("WEIR_LOADS", (39, 40));
    let (commands, [calls, returns, guarded]) = at_random(seed, loads);
    let script = "uprobe:LIB:probed { @ = count(); } uretprobe:LIB:nested { @returned = count(); }
        usdt:LIB:guarded { @guarded = count(); }";
    let commands: Vec<&str> = commands.iter().map(String::as_str).collect();
    check(&commands, script, &format!("@: {calls}\n@returned: {returns}\n@guarded: {guarded}"));
    println!("counts: loads={loads} calls={calls} returns={returns} guarded={guarded}");
}
