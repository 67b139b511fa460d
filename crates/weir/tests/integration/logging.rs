//! Records of Python's and Java's loggers as events (logging/, docs/logging.md): what a program logs is in the trace, while nobody traces nothing is
//! formatted, and the program does and says the same in any case. The oracle is the program.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Output, Stdio};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use testkit::{lttng, paths, skip, wait};

use crate::sessions::check as sessions;

const DEADLINE: Duration = Duration::from_secs(60);

/// A folder with the library and what loads it, of one test.
struct Place {
    folder: PathBuf,
}

impl Place {
    fn new(name: &str) -> Place {
        let folder = paths::fresh("logging", name);
        fs::create_dir(&folder).unwrap();
        fs::copy(paths::root().join("logging/weir_logging.py"), folder.join("weir_logging.py")).unwrap();
        Place { folder }
    }

    /// With the library, which has Java's part where `includes` say where <jni.h> is.
    fn with_library(name: &str, includes: &[PathBuf]) -> Place {
        let place = Place::new(name);
        let mut gcc = Command::new("gcc");
        gcc.args(["-O2", "-Wall", "-Wextra", "-Werror", "-fPIC", "-shared", "-o"]).arg(place.shared_object());
        gcc.arg("-I").arg(paths::root().join("include"));
        includes.iter().for_each(|folder| _ = gcc.arg("-I").arg(folder));
        gcc.arg(paths::root().join("logging/weir_logging.c"));
        let output = gcc.output().unwrap();
        assert!(output.status.success(), "{gcc:?}: {}", text(&output.stderr));
        place
    }

    fn shared_object(&self) -> PathBuf {
        self.folder.join("libweir-logging.so")
    }

    /// In the folder, where blanks in its path do not matter.
    fn weir(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
        command.current_dir(&self.folder).args(args).env("PYTHONPATH", &self.folder);
        command
    }

    /// The fields of all events of a trace, in the order of time.
    #[track_caller]
    fn recorded(&self, trace: &str) -> Vec<Value> {
        let output = self.weir(&["view", "-f", "json", trace]).output().unwrap();
        assert!(output.status.success(), "{}", text(&output.stderr));
        let lines = String::from_utf8(output.stdout).unwrap();
        lines.lines().map(|line| serde_json::from_str::<Value>(line).expect(line)["fields"].take()).collect()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            let _ = fs::remove_dir_all(&self.folder);
        }
    }
}

/// The event, of a library that is loaded while the program runs.
fn event(provider: &str) -> String {
    format!("usdt:./libweir-logging.so:{provider}:event")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn source(file: &str) -> String {
    paths::root().join("tests/programs").join(file).display().to_string()
}

/// Not a script that starts one.
fn python() -> Option<&'static str> {
    let there = Some("/usr/bin/python3").filter(|path| Path::new(path).exists());
    if there.is_none() {
        skip::skip("python", "there is no /usr/bin/python3");
    }
    there
}

/// Of an event, in the order given.
fn picked<const N: usize>(fields: &Value, names: [&str; N]) -> [String; N] {
    names.map(|name| match &fields[name] {
        Value::String(text) => text.chars().take(40).collect(),
        other => other.to_string(),
    })
}

#[test]
fn what_python_logs_is_recorded_and_the_program_does_the_same() {
    let Some(python) = python() else { return };
    let place = Place::with_library("python", &[]);
    let program = source("loggers.py");
    let plain = Command::new(python).args([&program, "a", "-b"]).output().unwrap();
    let traced = place
        .weir(&["record", "--follow", "-o", "trace", "-e", &event("lttng_python"), "--dialect", "lttng"])
        .args(["--filter", "int_loglevel >= 20 && logger_name != \"other\"", "--", python])
        .args(["-m", "weir_logging", &program, "a", "-b"])
        .output()
        .unwrap();
    assert_eq!(text(&plain.stdout), text(&traced.stdout), "{}", text(&traced.stderr));
    assert_eq!((plain.status.code(), traced.status.code()), (Some(7), Some(7)), "{}", text(&traced.stderr));
    let found = place.recorded("trace");
    let names = ["msg", "logger_name", "funcName", "int_loglevel", "threadName"];
    let found: Vec<[String; 5]> = found.iter().map(|fields| picked(fields, names)).collect();
    let of = |message: &str, level: &str| {
        [message, "shop.sales", "one_of_each", level, "MainThread"].map(str::to_owned)
    };
    let elsewhere = |message: &str, function: &str, thread: &str| {
        [message, "shop.sales", function, "20", thread].map(str::to_owned)
    };
    let inside =
        || ["while another is formatted", "chatty", "__str__", "30", "MainThread"].map(str::to_owned);
    let wanted = [
        of("sold 3 books", "30"),
        of("nul \\x00 and \\udc80 and \u{2603}", "20"),
        of("bad %s (not formatted: ValueError)", "40"),
        of("bad %d (not formatted: TypeError)", "40"),
        // Where the program's own handler formats it, not where weir does.
        of("chatty", "20"),
        inside(),
        of(&"x".repeat(40), "50"),
        ["odd", "7", "", "30", "MainThread"].map(str::to_owned),
        elsewhere("in a signal handler", "<lambda>", "MainThread"),
        elsewhere("in a thread", "run", "worker"),
        of("in a child", "20"),
        of("last", "20"),
    ];
    assert_eq!(found, wanted);
}

/// A program that logs once for each line that it is given, and says how often messages were formatted.
struct Rounds {
    child: Child,
    to: ChildStdin,
    from: BufReader<ChildStdout>,
}

impl Rounds {
    fn start(python: &str, place: &Place) -> Rounds {
        let mut command = Command::new(python);
        command.arg(source("loggers.py")).arg("rounds").env("PYTHONPATH", &place.folder);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (to, from) = (child.stdin.take().unwrap(), BufReader::new(child.stdout.take().unwrap()));
        Rounds { child, to, from }
    }

    fn formatted(&mut self) -> u64 {
        self.to.write_all(b"\n").unwrap();
        let mut line = String::new();
        self.from.read_line(&mut line).unwrap();
        line.trim().parse().expect(&line)
    }

    fn end(mut self) {
        drop(self.to);
        assert!(wait::for_exit(&mut self.child, DEADLINE).is_some_and(|status| status.success()));
    }
}

#[test]
fn a_message_is_formatted_only_while_somebody_traces() {
    let Some(python) = python() else { return };
    let place = Place::with_library("off", &[]);
    let mut rounds = Rounds::start(python, &place);
    assert_eq!((rounds.formatted(), rounds.formatted()), (0, 0));
    let pid = rounds.child.id().to_string();
    // By its name alone: the process has the library.
    let mut weir = place.weir(&["record", "-e", "lttng_python:event", "-o", "trace", "-p", &pid]);
    let mut weir = weir.stderr(Stdio::piped()).spawn().unwrap();
    assert!(wait::until(DEADLINE, || rounds.formatted() > 0), "it is never traced");
    for _ in 0..3 {
        rounds.formatted();
    }
    kill(Pid::from_raw(weir.id() as i32), Signal::SIGINT).unwrap();
    assert!(wait::for_exit(&mut weir, DEADLINE).is_some_and(|status| status.success()));
    let (last, after) = (rounds.formatted(), rounds.formatted());
    assert_eq!(last, after, "it is formatted though nobody traces");
    rounds.end();
    let mut said = String::new();
    weir.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    let found = place.recorded("trace");
    assert_eq!(found.len() as u64, last, "{said}");
    assert!(found.iter().all(|fields| fields["msg"].as_str().unwrap().ends_with(" counted")), "{found:?}");
}

#[test]
fn a_session_of_programs_has_those_that_have_loaded_the_library() {
    let Some(python) = python() else { return };
    let (place, sessions) = (Place::with_library("session", &[]), sessions::Place::new("logging"));
    let _alone = lttng::alone();
    let mut rounds = Rounds::start(python, &place);
    // It has loaded the library.
    assert_eq!(rounds.formatted(), 0);
    sessions.does(&["create", "s", "--user", "-o", "s"]);
    sessions.does(&["track", "s", &format!("--pid={}", rounds.child.id())]);
    sessions.does(&[
        "enable",
        "s",
        "lttng_python:event",
        "--dialect",
        "lttng",
        "--filter",
        "logger_name == \"shop.*\"",
    ]);
    sessions.does(&["start", "s"]);
    assert!(wait::until(DEADLINE, || rounds.formatted() > 0), "it is not recorded");
    let said = sessions.does(&["stop", "s"]);
    let last = rounds.formatted();
    sessions.does(&["destroy", "s"]);
    rounds.end();
    let folder = sessions.folder.join("s");
    assert_eq!(place.recorded(folder.to_str().unwrap()).len() as u64, last, "{said}");
}

#[test]
fn without_the_library_one_line_says_so_and_the_program_runs() {
    let Some(python) = python() else { return };
    let place = Place::new("missing");
    let program = source("loggers.py");
    let run =
        |words: &[&str]| Command::new(python).args(words).env("PYTHONPATH", &place.folder).output().unwrap();
    let (plain, with): (Output, Output) = (run(&[&program]), run(&["-m", "weir_logging", &program]));
    assert_eq!(text(&plain.stdout), text(&with.stdout));
    assert_eq!(with.status.code(), Some(7));
    let said = text(&with.stderr);
    assert!(said.starts_with("weir_logging: no libweir-logging.so: ") && said.lines().count() == 1, "{said}");
    let missing = run(&["-m", "weir_logging", "no-such-program.py"]);
    assert_eq!(missing.status.code(), Some(2), "{}", text(&missing.stderr));
}

/// Where the headers of the installed Java are; None, loudly, without a compiler.
fn java() -> Option<[PathBuf; 2]> {
    let javac = Command::new("sh").args(["-c", "readlink -f \"$(command -v javac)\""]).output().unwrap();
    let found = PathBuf::from(text(&javac.stdout).trim());
    let include = found.parent().and_then(Path::parent).map(|home| home.join("include"));
    let include = include.filter(|include| include.join("jni.h").exists());
    if include.is_none() {
        skip::skip("java", "no javac with jni.h: default-jdk-headless is not installed");
    }
    include.map(|include| [include.clone(), include.join("linux")])
}

impl Place {
    /// Compiles classes of logging/java into the jar; `class_path` of those that need more than Java.
    fn jar(&self, classes: &[&str], class_path: &str) {
        let java = paths::root().join("logging/java");
        let sources: Vec<PathBuf> =
            classes.iter().map(|class| java.join(format!("weir/logging/{class}.java"))).collect();
        let mut javac = Command::new("javac");
        javac.args(["--release", "11", "-Xlint:all,-processing", "-Werror", "-cp", class_path]);
        if !class_path.is_empty() {
            javac.args([
                "-processor",
                "org.apache.logging.log4j.core.config.plugins.processor.PluginProcessor",
            ]);
        }
        javac.arg("-d");
        let output = javac.arg(self.folder.join("classes")).args(sources).output().unwrap();
        assert!(output.status.success(), "{}", text(&output.stderr));
        let mut jar = Command::new("jar");
        jar.arg("cfm").arg(self.folder.join("weir-logging.jar")).arg(java.join("MANIFEST.MF"));
        let output = jar.arg("-C").arg(self.folder.join("classes")).arg(".").output().unwrap();
        assert!(output.status.success(), "{}", text(&output.stderr));
    }
}

#[test]
fn what_java_logs_is_recorded_and_the_program_does_the_same() {
    let Some(includes) = java() else { return };
    let place = Place::with_library("java", &includes);
    place.jar(&["Events", "JulHandler"], "");
    let words = ["java", "-Xshare:auto", "-XX:TieredStopAtLevel=1", "-javaagent:weir-logging.jar"];
    let program = source("loggers.java");
    let traced = place
        .weir(&["record", "-o", "trace", "-e", &event("lttng_jul"), "--filter", "int_loglevel >= 800"])
        .arg("--")
        .args(words)
        .arg(&program)
        .output()
        .unwrap();
    let said = text(&traced.stderr);
    assert_eq!((text(&traced.stdout).as_str(), traced.status.code()), ("done\n", Some(7)), "{said}");
    let found = place.recorded("trace");
    let names = ["msg", "logger_name", "class_name", "method_name", "int_loglevel"];
    let found: Vec<[String; 5]> = found.iter().map(|fields| picked(fields, names)).collect();
    let of = |message: &str, method: &str, level: &str| {
        [message, "shop.sales", "Loggers", method, level].map(str::to_owned)
    };
    let wanted = [
        of("sold 3 books", "main", "900"),
        of("nul \\x00 and \u{1f600}", "main", "800"),
        of("bad {0}", "main", "1000"),
        of("after a reset", "main", "800"),
        of("in a thread", "lambda$main$0", "800"),
        of("in a shutdown hook", "lambda$main$1", "800"),
    ];
    assert_eq!(found, wanted, "{said}");
    fs::remove_file(place.shared_object()).unwrap();
    let without = Command::new("java").current_dir(&place.folder).args(&words[1..]).arg(&program).output();
    let without = without.unwrap();
    let said = text(&without.stderr);
    assert_eq!((text(&without.stdout).as_str(), without.status.code()), ("done\n", Some(7)), "{said}");
    assert!(said.starts_with("weir.logging: no libweir-logging.so: ") && said.lines().count() == 1, "{said}");
}

const LOG4J: &str = "/usr/share/java/log4j-core.jar:/usr/share/java/log4j-api.jar";

const LOG4J_CONFIGURATION: &str = r#"<Configuration status="warn">
<Appenders><Weir name="weir"/></Appenders>
<Loggers><Root level="info"><AppenderRef ref="weir"/></Root></Loggers>
</Configuration>"#;

const LOG4J_PROGRAM: &str = r#"import org.apache.logging.log4j.LogManager;
class Log4j {
    public static void main(String[] arguments) {
        LogManager.getLogger("shop.sales").debug("of a level that the logger does not take");
        LogManager.getLogger("shop.sales").warn("sold {} {}", 3, "books");
        LogManager.getLogger("shop.sales").fatal("last", new Exception("x"));
    }
}"#;

#[test]
fn what_log4j_logs_is_recorded() {
    if LOG4J.split(':').any(|jar| !Path::new(jar).exists()) {
        return skip::skip("logging-log4j", "no log4j-core.jar: liblog4j2-java is not installed");
    }
    let Some(includes) = java() else { return };
    let place = Place::with_library("log4j", &includes);
    place.jar(&["Events", "JulHandler", "Log4jAppender"], LOG4J);
    fs::write(place.folder.join("log4j2.xml"), LOG4J_CONFIGURATION).unwrap();
    fs::write(place.folder.join("Log4j.java"), LOG4J_PROGRAM).unwrap();
    let traced = place
        .weir(&["record", "-o", "trace", "-e", &event("lttng_log4j"), "--", "java"])
        .args(["-XX:TieredStopAtLevel=1", "-Dlog4j2.configurationFile=log4j2.xml"])
        .args(["-cp", &format!("{LOG4J}:weir-logging.jar"), "Log4j.java"])
        .output()
        .unwrap();
    assert!(traced.status.success(), "{}", text(&traced.stderr));
    let found = place.recorded("trace");
    let names = [
        "msg",
        "logger_name",
        "class_name",
        "method_name",
        "filename",
        "line_number",
        "int_loglevel",
        "thread_name",
    ];
    let found: Vec<[String; 8]> = found.iter().map(|fields| picked(fields, names)).collect();
    let of = |message: &str, line: &str, level: &str| {
        [message, "shop.sales", "Log4j", "main", "Log4j.java", line, level, "main"].map(str::to_owned)
    };
    assert_eq!(
        found,
        [of("sold 3 books", "5", "30000"), of("last", "6", "50000")],
        "{}",
        text(&traced.stderr)
    );
}
