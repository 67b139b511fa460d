//! Programs that are instrumented with LTTng-UST, as they are: what weir records of them, beside LTTng and without.
//!
//! The oracles are what LTTng records of the same run, and what the program says that it has emitted.

mod commands;
mod compat;
mod filters;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use nix::sys::signal::Signal;
use testkit::lttng::{self, Lttng};
use testkit::{Daemon, paths, skip, wait};

const DEADLINE: Duration = Duration::from_secs(120);

/// Counts, and says when it has begun to.
const COUNTS: &str = "lttng:./ferries:ferry:lands { @ = count(); @seen = 1; }
    interval:ms:20 /@seen == 1 && !@said/ { printf(\"under way\\n\"); @said = 1; }";

/// A folder with programs, gone with the test.
struct Harbour(PathBuf);

impl Drop for Harbour {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

impl Harbour {
    /// With this program; none, loudly, where LTTng's headers are not.
    fn with(program: &str, sources: &[&str], flags: &[&str]) -> Option<Harbour> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("{program}-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let folder = paths::target().join("testkit/ferry").join(name);
        std::fs::create_dir_all(&folder).unwrap();
        let harbour = Harbour(folder);
        harbour.build(program, sources, flags).then_some(harbour)
    }

    fn build(&self, program: &str, sources: &[&str], flags: &[&str]) -> bool {
        let built = lttng::compile(sources, &self.0.join(program), flags);
        built.map_err(|missing| skip::skip("lttng-provider", missing)).is_ok()
    }

    /// A command in the folder. The program does not wait for a session daemon.
    fn command(&self, program: &str, args: &[&str]) -> Command {
        let mut command = Command::new(program);
        command.args(args).current_dir(&self.0).env("LTTNG_UST_REGISTER_TIMEOUT", "0");
        command
    }

    fn weir(&self, args: &[&str]) -> Output {
        self.command(env!("CARGO_BIN_EXE_weir"), args).output().unwrap()
    }

    /// What is recorded into a folder of this name; what weir says.
    #[track_caller]
    fn recorded(&self, name: &str, args: &[&str]) -> String {
        let output = answered(|| {
            let _ = std::fs::remove_dir_all(self.0.join(name));
            self.weir(&[&["record", "-o", name], args].concat())
        });
        assert!(output.status.success(), "{args:?}: {}", err(&output));
        err(&output)
    }

    /// A recording of a process, which has said this.
    #[track_caller]
    fn recording(&self, folder: &str, event: &str, pid: &str, says: &str) -> Daemon {
        let record = "exec \"$0\" record -v -o \"$1\" -e \"$2\" -p \"$3\" 2>&1";
        let args = ["-c", record, env!("CARGO_BIN_EXE_weir"), folder, event, pid];
        let mut weir = Daemon::spawn(self.command("sh", &args)).unwrap();
        weir.line_with(says, DEADLINE).unwrap();
        weir
    }

    fn running(&self, program: &str, args: &[&str]) -> Daemon {
        Daemon::spawn(self.command(&self.0.join(program).display().to_string(), args)).unwrap()
    }

    /// weir at work on a process, which says so.
    #[track_caller]
    fn at_work(&self, args: &[&str]) -> Daemon {
        let mut weir = Daemon::spawn(self.command(env!("CARGO_BIN_EXE_weir"), args)).unwrap();
        weir.line_with("under way", DEADLINE).unwrap();
        weir
    }
}

/// A run in which weir was in time wherever the program waited for it. On a machine with much else to do it may not be, and says so: what the
/// program has emitted then is not all recorded.
fn answered(mut run: impl FnMut() -> Output) -> Output {
    let mut output = run();
    for _ in 0..20 {
        if !err(&output).contains("unanswered") {
            break;
        }
        output = run();
    }
    output
}

fn out(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn err(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// The events of a trace as babeltrace2 prints them, without their times and CPUs. Threads and CPUs have no order among them.
#[track_caller]
fn events(trace: &Path) -> Vec<String> {
    let output =
        Command::new("babeltrace2").args(["--no-delta", "--clock-cycles"]).arg(trace).output().unwrap();
    assert!(output.status.success(), "{}", err(&output));
    let event = |line: &str| {
        let (_, event) = line.split_once("] ").expect(line);
        let (name, fields) = event.split_once(": { cpu_id = ").expect(line);
        let (_, fields) = fields.split_once(" }, ").expect(line);
        let (_host, name) = name.rsplit_once(' ').expect(line);
        format!("{name} {}", without_stale(fields))
    };
    let mut events: Vec<String> = out(&output).lines().map(event).collect();
    events.sort();
    events
}

/// babeltrace2 prints the text before it where one has no characters.
fn without_stale(fields: &str) -> String {
    let mut fields = fields.to_owned();
    for name in ["letters", "cut"] {
        let empty = format!("_{name}_length = 0, {name} = \"");
        if let Some(start) = fields.find(&empty).map(|at| at + empty.len()) {
            let end =
                fields[start..].find("\", ").or_else(|| fields[start..].find("\" }")).expect("a text ends");
            fields.replace_range(start..start + end, "");
        }
    }
    fields
}

#[track_caller]
fn assert_same(ours: &Path, theirs: &Path, least: usize) {
    let (ours, theirs) = (events(ours), events(theirs));
    assert!(theirs.len() >= least, "LTTng has recorded {}", theirs.len());
    for (ours, theirs) in ours.iter().zip(&theirs) {
        assert_eq!(ours, theirs);
    }
    assert_eq!(ours.len(), theirs.len());
}

impl Harbour {
    /// What LTTng and weir record of one run of a program, from the first event on, is the same.
    #[track_caller]
    fn recorded_by_both(
        &self,
        lttng: &Lttng,
        program: &str,
        argument: &str,
        provider: &str,
        preloaded: &str,
        least: usize,
    ) {
        let name = program.rsplit('/').next().unwrap();
        let (ours, event) = (format!("{name}-ours"), format!("{provider}:*"));
        let mut theirs = PathBuf::new();
        let output = answered(|| {
            let (session, folder) = session(lttng, name, provider);
            let _ = std::fs::remove_dir_all(self.0.join(&ours));
            let args = ["record", "-o", &ours, "-e", &event, "--size", "16M", "--", program, argument];
            let mut record = self.command(env!("CARGO_BIN_EXE_weir"), &args);
            record.env("LTTNG_UST_REGISTER_TIMEOUT", "-1").env("LTTNG_HOME", lttng.home());
            if !preloaded.is_empty() {
                record.env("LD_PRELOAD", preloaded);
            }
            let output = record.output().unwrap();
            lttng.must(&["destroy", &session]);
            theirs = folder;
            output
        });
        assert!(output.status.success(), "{program}: {}", err(&output));
        assert_same(&self.0.join(&ours), &theirs, least);
    }
}

/// A session of LTTng's that has started, with all events of a provider.
fn session(lttng: &Lttng, name: &str, provider: &str) -> (String, PathBuf) {
    let (session, folder) = (format!("weir-{name}-{}", std::process::id()), lttng.home().join(name));
    let _ = std::fs::remove_dir_all(&folder);
    lttng.must(&["create", &session, "-o", folder.to_str().unwrap()]);
    lttng.must(&["enable-channel", "-u", "-s", &session, "--subbuf-size=4M", "--num-subbuf=8", "c"]);
    lttng.must(&["enable-event", "-u", "-s", &session, "-c", "c", &format!("{provider}:*")]);
    lttng.must(&["start", &session]);
    (session, folder)
}

fn with_lttng(name: &str, test: impl FnOnce(&Lttng)) {
    match Lttng::set_up(name) {
        Ok(lttng) => test(&lttng),
        Err(missing) => skip::skip("lttng-session", missing),
    }
}

#[test]
fn what_lttng_records_is_recorded_field_for_field() {
    let Some(harbour) = Harbour::with("ferry", &["ferry.c"], &["-s"]) else { return };
    harbour.build("fields", &["fields.c"], &[]);
    harbour.build("dynamic", &["ferry.c"], &["-DDYNAMIC"]);
    harbour.build("provider.so", &["ferry.c"], &["-shared", "-fPIC", "-Dmain=sail"]);
    with_lttng("same", |lttng| {
        // Both from the beginning, the session first.
        for (program, provider, preloaded) in
            [("ferry", "ferry", ""), ("fields", "weir_fields", ""), ("dynamic", "ferry", "./provider.so")]
        {
            let (session, theirs) = session(lttng, program, provider);
            let ours = format!("{program}-ours");
            let event = format!("{provider}:*");
            let weir = env!("CARGO_BIN_EXE_weir");
            let program = format!("./{program}");
            let mut record =
                harbour.command(weir, &["record", "-o", &ours, "-e", &event, "--", &program, "300"]);
            record.env("LTTNG_UST_REGISTER_TIMEOUT", "-1").env("LTTNG_HOME", lttng.home());
            if !preloaded.is_empty() {
                record.env("LD_PRELOAD", preloaded);
            }
            let output = record.output().unwrap();
            assert!(output.status.success(), "{program}: {}", err(&output));
            lttng.must(&["destroy", &session]);
            assert_same(&harbour.0.join(&ours), &theirs, 300);
        }
        // In the middle of a program that LTTng records already.
        let (session, theirs) = session(lttng, "live", "ferry");
        let mut program = harbour.command("./ferry", &["300", "waits"]);
        program.env("LTTNG_UST_REGISTER_TIMEOUT", "-1").env("LTTNG_HOME", lttng.home());
        let mut program = Daemon::spawn(program).unwrap();
        let pid = program.pid().to_string();
        let registered = || out(&lttng.ask(&["list", "-u"])).contains(&format!("PID: {pid} "));
        assert!(wait::until(DEADLINE, registered), "it has registered");
        let weir = harbour.recording("live-ours", "lttng:*:ferry:*", &pid, "4 probes attached");
        program.write("\n").unwrap();
        assert!(program.finish(DEADLINE).unwrap().status.success());
        let said = weir.finish(DEADLINE).unwrap();
        assert!(said.status.success(), "{said:?}");
        lttng.must(&["destroy", &session]);
        assert_same(&harbour.0.join("live-ours"), &theirs, 1200);
    });
}

/// As liblttng-ust-dev has them.
const EXAMPLES: &str = "/usr/share/doc/liblttng-ust-dev/examples";

#[test]
fn the_examples_of_lttng_s_documentation_are_recorded_as_lttng_records_them() {
    if !Path::new(EXAMPLES).is_dir() {
        return skip::skip("lttng-examples", format!("no {EXAMPLES}"));
    }
    let Some(harbour) = Harbour::with("harbour", &["harbour.c"], &[]) else { return };
    let copied = harbour.command("cp", &["-r", EXAMPLES, "."]).status().unwrap();
    assert!(copied.success());
    let made = |folder: &str| {
        let output = harbour.command("make", &["-C", &format!("examples/{folder}")]).output().unwrap();
        assert!(output.status.success(), "{folder}: {}", err(&output));
    };
    with_lttng("examples", |lttng| {
        let demo = "examples/demo/lttng-ust-provider-ust-tests-demo";
        for (folder, program, provider, preloaded, least) in [
            ("easy-ust", "sample", "sample_component", String::new(), 100_000),
            // Their places are the program's own copies of the library's.
            ("demo-tracef", "demo-tracef", "lttng_ust_tracef", String::new(), 5),
            ("demo-tracelog", "demo-tracelog", "lttng_ust_tracelog", String::new(), 5),
            ("demo", "demo", "ust_tests_demo*", format!("{demo}.so:{demo}3.so"), 8),
        ] {
            made(folder);
            let program = format!("./examples/{folder}/{program}");
            harbour.recorded_by_both(lttng, &program, "0", provider, &preloaded, least);
        }
    });
}

/// The newest of Debian's.
fn libcamera() -> Option<PathBuf> {
    let files = std::fs::read_dir("/usr/lib/x86_64-linux-gnu").ok()?.flatten().map(|entry| entry.path());
    let is_it = |path: &PathBuf| path.file_name().unwrap().to_string_lossy().starts_with("libcamera.so.");
    files.filter(is_it).max()
}

#[test]
fn the_provider_of_a_library_as_its_package_has_it_is_recorded() {
    let Some(library) = libcamera() else {
        return skip::skip("libcamera", "no libcamera.so; apt-get install libcamera0.0.3");
    };
    let flags = ["-Wl,--no-as-needed", library.to_str().unwrap()];
    let Some(harbour) = Harbour::with("camera", &["camera.c"], &flags) else { return };
    with_lttng("camera", |lttng| {
        harbour.recorded_by_both(lttng, "./camera", "50", "libcamera", "", 100);
    });
}

#[test]
fn a_place_that_is_the_programs_copy_is_found_however_its_library_is_named() {
    let Some(harbour) = Harbour::with("said", &["said.c"], &[]) else { return };
    let library = |maps: &str| {
        let paths = maps.lines().filter_map(|line| line.split_whitespace().nth(5));
        paths.map(String::from).find(|path| path.contains("/liblttng-ust.so"))
    };
    let link = harbour.0.join("other-name.so");
    for (name, event) in
        [("provider", "lttng_ust_tracef:*"), ("link", "lttng:./other-name.so:lttng_ust_tracef:*")]
    {
        let mut program = harbour.running("said", &[]);
        let pid = program.pid().to_string();
        let maps = Path::new("/proc").join(&pid).join("maps");
        let mapped = || std::fs::read_to_string(&maps).ok().and_then(|maps| library(&maps));
        assert!(wait::until(DEADLINE, || mapped().is_some()), "it has begun");
        let _ = std::fs::remove_file(&link);
        std::os::unix::fs::symlink(mapped().unwrap(), &link).unwrap();
        let weir = harbour.recording(name, event, &pid, "1 probes attached");
        program.write("\n").unwrap();
        assert!(program.finish(DEADLINE).unwrap().status.success());
        let said = weir.finish(DEADLINE).unwrap();
        assert!(said.stdout.contains("5 events recorded"), "{name}: {said:?}");
    }
}

#[test]
fn sessions_that_come_and_go_take_nothing_from_weir_and_lose_nothing_by_it() {
    let Some(harbour) = Harbour::with("ferries", &["ferries.c"], &[]) else { return };
    with_lttng("beside", |lttng| {
        let mut program = harbour.command("./ferries", &["4"]);
        program.env("LTTNG_UST_REGISTER_TIMEOUT", "-1").env("LTTNG_HOME", lttng.home());
        let mut program = Daemon::spawn(program).unwrap();
        program.line_with("under way", DEADLINE).unwrap();
        let pid = program.pid().to_string();
        let weir = harbour.at_work(&["trace", "-p", &pid, "-e", COUNTS]);
        let mut recorded = 0;
        for round in 0..3 {
            let (session, folder) = session(lttng, &format!("beside{round}"), "ferry");
            std::thread::yield_now();
            let has_some = || folder.join("ust").exists() && !events(&folder).is_empty();
            lttng.must(&["stop", &session]);
            assert!(wait::until(DEADLINE, has_some), "LTTng records beside weir");
            recorded += events(&folder).len();
            lttng.must(&["destroy", &session]);
        }
        assert!(recorded > 0);
        weir.signal(Signal::SIGINT).unwrap();
        let said = weir.finish(DEADLINE).unwrap();
        let counted: u64 = number_after(&said.stdout, "@: ");
        assert!(counted > 1000, "{counted}");
        program.write("\n").unwrap();
        let emitted: u64 = program.line(DEADLINE).unwrap().trim().parse().unwrap();
        assert!(counted <= emitted, "{counted} of {emitted}");
        assert!(program.finish(DEADLINE).unwrap().status.success());
    });
}

fn number_after(text: &str, word: &str) -> u64 {
    let rest = text.rsplit_once(word).unwrap_or_else(|| panic!("no {word:?} in {text}")).1;
    rest.split_whitespace().next().unwrap().parse().unwrap()
}

#[test]
fn every_event_is_seen_from_the_first_on_without_a_session_daemon() {
    let Some(harbour) = Harbour::with("ferry", &["ferry.c"], &["-s"]) else { return };
    let said = harbour.recorded("all", &["-e", "ferry:*", "--", "./ferry", "500"]);
    assert!(said.contains("2000 events recorded"), "{said}");
    let script = "lttng:./ferry:ferry:boarded { @names[str(args.name)] = count(); @sum = sum(args.hidden); }
        lttng:./ferry:l* { @[probe] = count(); }";
    let traced = answered(|| harbour.weir(&["trace", "-e", script, "-c", "./ferry 70"]));
    let text = out(&traced);
    for line in [
        "@names[Ada]: 60",
        "@names[(null)]: 10",
        "@sum: 2485",
        "@[lttng:./ferry:ferry:lands]: 70",
        "@[lttng:./ferry:ferry:leaves]: 70",
    ] {
        assert!(text.lines().any(|found| found == line), "{line}: {text}{}", err(&traced));
    }
}

#[test]
fn filters_see_every_field_and_levels_choose() {
    let Some(harbour) = Harbour::with("ferry", &["ferry.c"], &[]) else { return };
    let count = |name: &str, options: &[&str]| {
        let args = [options, &["--", "./ferry", "200"]].concat();
        let said = harbour.recorded(name, &args);
        said.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap()
    };
    for (name, filter, kept) in [
        ("number", "ticket == 7", 1),
        ("hidden", "hidden > 100 && hidden <= 150", 50),
        ("text", "name == \"Ada\"", 171),
        ("null", "name == \"(null)\"", 29),
        ("float", "height > 30.5 && weight < 62.0", 200),
        ("array", "two[1] == -9", 1),
        ("sequence", "seats[2] == 14", 80),
        ("characters", "letters[1] == 100 && deck == 2", 20),
        ("whole", "letters == \"Ad\" && code == \"Ad*\"", 40),
        ("two-texts", "name == letters", 69),
        ("label", "deck == \"sun\"", 100),
        ("swapped", "port == 256", 1),
    ] {
        assert_eq!(count(name, &["-e", "ferry:boarded", "--filter", filter]), kept, "{filter}");
    }
    assert_eq!(count("levels", &["-e", "ferry:*", "--loglevel", "warning"]), 200);
    assert_eq!(count("excluded", &["-e", "ferry:*", "-x", "l*", "-x", "horn"]), 200);
}

#[test]
fn children_and_libraries_lose_no_event() {
    let Some(harbour) = Harbour::with("ferries", &["ferries.c"], &[]) else { return };
    harbour.build("work.so", &["ferry.c"], &["-shared", "-fPIC", "-Dmain=sail"]);
    harbour.build("harbour", &["harbour.c"], &[]);
    let children = &["-e", "ferry:leaves", "--follow", "--", "./ferries"];
    let library = &["-e", "lttng:./work.so:ferry:*", "--", "./harbour", "./work.so"];
    for (name, options, args, events) in [
        ("one", children, &["1", "12"][..], 1200),
        ("all", children, &["1", "12", "x"], 1200),
        ("stays", library, &["3"], 120),
        ("goes", library, &["3", "x"], 120),
    ] {
        let said = harbour.recorded(name, &[options, args].concat());
        assert!(said.contains(&format!("{events} events recorded")), "{name}: {said}");
    }
    // By its provider alone, of a folder that the loader looks in.
    let mut command = harbour.command(
        env!("CARGO_BIN_EXE_weir"),
        &["record", "-o", "found", "-e", "ferry:*", "--", "./harbour", "./work.so", "1"],
    );
    command.env("LD_LIBRARY_PATH", &harbour.0);
    let found = answered(|| {
        let _ = std::fs::remove_dir_all(harbour.0.join("found"));
        command.output().unwrap()
    });
    assert!(err(&found).contains("40 events recorded"), "{}", err(&found));
}

#[test]
fn a_weir_that_is_killed_leaves_a_program_that_runs_and_the_next_gives_it_back() {
    let Some(harbour) = Harbour::with("ferries", &["ferries.c"], &[]) else { return };
    let mut program = harbour.running("ferries", &["2"]);
    program.line_with("under way", DEADLINE).unwrap();
    let pid = program.pid().to_string();
    let weir = harbour.at_work(&["trace", "-p", &pid, "-e", COUNTS]);
    weir.signal(Signal::SIGKILL).unwrap();
    weir.finish(DEADLINE).unwrap();
    let given_back = harbour.weir(&["detach", "-p", &pid]);
    assert!(out(&given_back).contains("1 functions restored"), "{}{}", out(&given_back), err(&given_back));
    // Twice: what was put in where nothing stands any more counts again.
    for _ in 0..2 {
        let weir = harbour.at_work(&["trace", "-p", &pid, "-e", COUNTS]);
        weir.signal(Signal::SIGINT).unwrap();
        let said = weir.finish(DEADLINE).unwrap();
        assert!(said.status.success() && said.stdout.contains("@: "), "{said:?}");
    }
    program.write("\n").unwrap();
    assert!(program.line(DEADLINE).unwrap().trim().parse::<u64>().unwrap() > 0);
    assert!(program.finish(DEADLINE).unwrap().status.success());
}

/// Each counts all from when it has come until it goes, whichever of them goes first, and the list of the last one gives way to what was there before.
#[test]
fn several_weirs_see_every_event_of_one_program() {
    let Some(harbour) = Harbour::with("ferries", &["ferries.c"], &[]) else { return };
    let _alone = lttng::alone();
    let mut program = harbour.running("ferries", &["2"]);
    program.line_with("under way", DEADLINE).unwrap();
    let pid = program.pid().to_string();
    let numbered = "@n[tid] = count(); @least[tid] = min(args.minutes); @most[tid] = max(args.minutes);";
    let script = COUNTS.replacen("@ = count();", numbered, 1);
    let trace = || harbour.at_work(&["trace", "-p", &pid, "-e", &script]);
    #[track_caller]
    fn has_all(weir: Daemon, end: Signal) {
        weir.signal(end).unwrap();
        let said = weir.finish(DEADLINE).unwrap();
        if end == Signal::SIGKILL {
            return;
        }
        let of = |map: &str| -> std::collections::BTreeMap<String, i64> {
            let lines = said.stdout.lines().filter_map(|line| line.strip_prefix(map)?.strip_prefix('['));
            let entries = lines.filter_map(|line| line.split_once("]: "));
            entries.map(|(thread, value)| (thread.to_owned(), value.trim().parse().unwrap())).collect()
        };
        let (count, least, most) = (of("@n"), of("@least"), of("@most"));
        assert_eq!(count.len(), 2, "{said:?}");
        for (thread, count) in &count {
            assert_eq!(most[thread] - least[thread] + 1, *count, "{said:?}");
        }
    }
    for first in [Signal::SIGINT, Signal::SIGKILL] {
        let (below, above) = (trace(), trace());
        has_all(below, first);
        let highest = trace();
        has_all(above, Signal::SIGINT);
        has_all(highest, Signal::SIGINT);
    }
    let (below, above) = (trace(), trace());
    has_all(above, Signal::SIGKILL);
    has_all(below, Signal::SIGINT);
    program.write("\n").unwrap();
    assert!(program.line(DEADLINE).unwrap().trim().parse::<u64>().unwrap() > 0);
    assert!(program.finish(DEADLINE).unwrap().status.success());
}

#[test]
fn what_cannot_be_recorded_is_refused_by_name() {
    let Some(harbour) = Harbour::with("dynamic", &["ferry.c"], &["-DDYNAMIC"]) else { return };
    let check = |args: &[&str], said: &str| {
        let output = harbour.weir(args);
        assert!(!output.status.success() && err(&output).contains(said), "{args:?}: {}", err(&output));
    };
    check(
        &["record", "-o", "x", "-e", "lttng:./dynamic:ferry:*", "--", "./dynamic"],
        "(provider) is in another library",
    );
    check(
        &["trace", "-e", "lttng:./dynamic:ferry:sinks { }"],
        "no event of LTTng-UST is named \"ferry:sinks\"",
    );
    check(&["trace", "-e", "lttng:/usr/bin/env:a:b { }"], "it has none");
    check(&["trace", "-e", "lttng:./dynamic { }"], "`lttng` needs a binary and a name");
    harbour.build("ferry", &["ferry.c"], &[]);
    check(
        &["trace", "--engine", "kernel", "-e", "lttng:./ferry:ferry:horn { @ = count(); }", "-c", "./ferry"],
        "the kernel cannot probe ./ferry:ferry:horn",
    );
}
