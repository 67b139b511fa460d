//! Tracepoints of C, C++ and Rust, end to end: a script reads of every field what the program prints, and `weir list -v` says what
//! they are.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use testkit::paths::{self, quoted};
use testkit::target::{self, Source};

/// Prints of each event what the program prints of it.
const SCRIPT: &str = r#"
    usdt:APP:integers {
        printf("integers %d %d %d %d %d ", arg0, arg1, arg2, arg3, arg4);
        printf("%u %d %u %d %x\n", arg5, arg6, arg7, arg8, arg9);
    }
    usdt:APP:floats { printf("floats %.17g %.17g %g %g\n", arg0, arg1, arg2, arg3); }
    usdt:APP:texts { printf("texts %s %s %s %s\n", str(arg0), str(arg1, arg2 + 1), str(arg3), str(arg4)); }
    usdt:APP:memory {
        printf("memory %s %s %d %p %p %p\n", str(arg0, 5), str(arg1, arg2 + 1), arg2, arg3, arg4, arg5);
    }
    usdt:APP:colors { printf("colors %d %d\n", arg0, arg1); }
    usdt:APP:twelve {
        printf("twelve %d %d %d %d %d %d ", arg0, arg1, arg2, arg3, arg4, arg5);
        printf("%d %d %d %d %d %d\n", arg6, arg7, arg8, arg9, arg10, arg11);
    }
    usdt:APP:nothing { printf("nothing\n"); }
    usdt:APP:counted { printf("counted %d\n", arg0); }
"#;

/// The fields of the events in the order of their arguments. An argument without a name is the length of the text before it.
const FIELDS: &[(&str, &[&str])] = &[
    ("integers", &["a", "b", "c", "d", "e", "f", "g", "h", "i", "j"]),
    ("floats", &["a", "b", "half", "quarter"]),
    ("texts", &["a", "b", "", "c", "d"]),
    ("memory", &["a", "b", "", "c", "d", "e"]),
    ("colors", &["a", "b"]),
    ("twelve", &["a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l"]),
    ("nothing", &[]),
    ("counted", &["n"]),
];

/// The same script with the fields by their names.
fn by_names() -> String {
    let mut script = String::new();
    for clause in SCRIPT.split("usdt:APP:").skip(1) {
        let (event, body) = clause.split_once(' ').unwrap();
        let (_, fields) = FIELDS.iter().find(|(name, _)| *name == event).unwrap();
        let mut body = body.to_owned();
        // arg11 before arg1.
        for (number, field) in fields.iter().enumerate().rev().filter(|(_, field)| !field.is_empty()) {
            body = body.replace(&format!("arg{number}"), &format!("args.{field}"));
        }
        script += &format!("usdt:APP:{event} {body}");
    }
    script
}

const ROUNDS: usize = 20;

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn weir(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_weir")).args(args).output().unwrap()
}

/// What rustc makes of a file, once for the same arguments and sources; a star in its name becomes a number for them.
fn rustc(name: &str, source: &str, arguments: &[&str]) -> PathBuf {
    let root = paths::root();
    let read = |file: &str| std::fs::read_to_string(root.join(file)).unwrap();
    let library = ["lib.rs", "site.rs", "table.rs", "isa/x86_64.rs"]
        .map(|file| read(&format!("crates/weir-tracepoint/src/{file}")));
    let mut hasher = DefaultHasher::new();
    (arguments, read(source), library).hash(&mut hasher);
    let folder = paths::target().join("testkit/tracepoint");
    std::fs::create_dir_all(&folder).unwrap();
    let made = folder.join(name.replace('*', &format!("{:016x}", hasher.finish())));
    if !made.exists() {
        let part = folder.join(format!("{}-{:?}", std::process::id(), std::thread::current().id()));
        let mut command = Command::new("rustc");
        command.args(["--edition=2024", "-o"]).arg(&part).args(arguments).arg(root.join(source));
        let output = command.output().unwrap();
        assert_eq!((output.status.success(), text(&output.stderr)), (true, String::new()), "{command:?}");
        std::fs::rename(&part, &made).unwrap();
    }
    made
}

/// tracepoints.rs at this level of optimisation.
fn rust_program(level: &str) -> PathBuf {
    rust_program_of("tracepoints", level)
}

fn rust_program_of(name: &str, level: &str) -> PathBuf {
    let library = ["--crate-type=rlib", "--crate-name=weir_tracepoint", "-O"];
    let library = rustc("libweir_tracepoint-*.rlib", "crates/weir-tracepoint/src/lib.rs", &library);
    let library = format!("weir_tracepoint={}", library.display());
    let level = format!("-Copt-level={level}");
    rustc(
        &format!("{name}-*"),
        &format!("tests/programs/{name}.rs"),
        &[&level, "--crate-name=program", "--extern", &library],
    )
}

/// In a row of words, at every level.
#[test]
fn events_with_many_arguments_are_the_same_in_c_and_rust() {
    let c = target::build("tracepoints-wide", Source::Program("tracepoints_wide.c"), &["-O2"]);
    let programs = [c, rust_program_of("tracepoints_wide", "0"), rust_program_of("tracepoints_wide", "3")];
    let recorded = programs.map(|program| {
        let folder = paths::fresh("tracepoint", "wide");
        let events = ["-e", "wide:thirteen", "-e", "wide:all", "-o", folder.to_str().unwrap()];
        let output = weir(&[&["record"][..], &events, &["--", program.to_str().unwrap(), "4"]].concat());
        assert!(output.status.success(), "{}", text(&output.stderr));
        let output = weir(&["view", folder.to_str().unwrap()]);
        assert!(output.status.success(), "{}", text(&output.stderr));
        std::fs::remove_dir_all(&folder).unwrap();
        // Without times and CPUs.
        let event = |line: &str| {
            let (name, fields) =
                line.split_once(" wide:").expect(line).1.split_once(": { cpu_id = ").expect(line);
            format!("{name} {}", fields.split_once(" }, ").expect(line).1)
        };
        text(&output.stdout).lines().map(event).collect::<Vec<_>>()
    });
    let [c, rust @ ..] = &recorded;
    assert_eq!(c.len(), 8);
    for rust in rust {
        assert_eq!(rust, c);
    }
}

fn c_program(compiler: &str, optimization: &str, flags: &[&str]) -> PathBuf {
    let flags = [&[optimization], flags].concat();
    target::build_with(compiler, "tracepoints", Source::Program("tracepoints.c"), &flags)
}

/// A file of this test alone: tests run beside each other, in threads and in processes.
fn own_file(program: &Path, what: &str) -> PathBuf {
    let (process, thread) = (std::process::id(), std::thread::current().id());
    program.with_extension(format!("{what}.{process}.{thread:?}"))
}

/// The same words; numbers with a fraction or an exponent may have other digits, if they are the same number.
fn is_same(ours: &str, theirs: &str) -> bool {
    let number = |text: &str| text.parse::<f64>().ok();
    let is_fraction = |a: &str, b: &str| [a, b].iter().any(|text| text.contains(['.', 'e']));
    let is_same =
        |(a, b): (&str, &str)| a == b || is_fraction(a, b) && number(a).is_some() && number(a) == number(b);
    ours.split(' ').count() == theirs.split(' ').count()
        && ours.split(' ').zip(theirs.split(' ')).all(is_same)
}

/// Every event is traced with its values, and nothing is evaluated where nobody traces.
#[track_caller]
fn check(program: &Path) {
    check_script(program, SCRIPT);
}

#[track_caller]
fn check_script(program: &Path, script: &str) {
    let app = program.display().to_string();
    let quiet = Command::new(program).arg(ROUNDS.to_string()).output().unwrap();
    assert_eq!(text(&quiet.stdout).lines().last(), Some("evaluated 0"), "{app}");
    let file = own_file(program, "traced");
    let command = format!("{} {ROUNDS}", quoted(program));
    let script = script.replace("APP", &quoted(program));
    let output = weir(&["trace", "-q", "-o", file.to_str().unwrap(), "-e", &script, "-c", &command]);
    assert!(output.status.success(), "{app}: {}", text(&output.stderr));
    let (ours, theirs) = (std::fs::read_to_string(&file).unwrap(), text(&output.stdout));
    std::fs::remove_file(&file).unwrap();
    let (events, last) = theirs.trim_end().rsplit_once('\n').unwrap();
    assert_eq!(last, format!("evaluated {ROUNDS}"), "{app}");
    let (ours, events): (Vec<&str>, Vec<&str>) =
        (ours.trim_end().lines().collect(), events.lines().collect());
    assert_eq!((ours.len(), events.len()), (8 * ROUNDS, 8 * ROUNDS), "{app}");
    for (ours, theirs) in ours.into_iter().zip(events) {
        assert!(is_same(ours, theirs), "{app}: weir says\n{ours}\nand the program\n{theirs}");
    }
}

/// Of a compiler, if it is installed.
fn check_compiler(compiler: &str, flags: &[&str]) {
    if !target::is_installed(compiler) {
        return testkit::skip::skip(compiler, "not installed; tracepoints as compiled by it are not traced");
    }
    for optimization in ["-O0", "-O3"] {
        check(&c_program(compiler, optimization, flags));
    }
}

#[test]
fn fields_of_c_are_read_as_gcc_compiles_them() {
    check_compiler("gcc", &["-fPIE", "-pie"]);
    check(&c_program("gcc", "-O2", &["-fno-pie", "-no-pie", "-static"]));
    check(&c_program("gcc", "-O2", &["-flto"]));
}

#[test]
fn fields_of_c_are_read_as_clang_compiles_them() {
    check_compiler("clang", &["-fPIE", "-pie"]);
}

#[test]
fn fields_of_cpp_are_read_as_gcc_compiles_them() {
    check_compiler("g++", &[]);
}

#[test]
fn fields_of_cpp_are_read_as_clang_compiles_them() {
    check_compiler("clang++", &[]);
}

#[test]
fn fields_of_rust_are_read() {
    for level in ["0", "3"] {
        check(&rust_program(level));
    }
}

/// What `weir list -v` says of an event, without addresses and operands.
fn listed(program: &Path, event: &str) -> String {
    let output = weir(&["list", "-v", &format!("usdt:{}:tp:{event}", program.display())]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let text = text(&output.stdout);
    let place = text.lines().nth(1).unwrap();
    let (_, rest) = place.split_once(", semaphore 0x").unwrap();
    let (_, rest) = rest.split_once(", ").unwrap();
    let words = rest.split(' ').filter(|word| !word.contains('@'));
    words.collect::<Vec<_>>().join(" ")
}

#[test]
fn list_shows_levels_types_and_names() {
    let program = c_program("gcc", "-O2", &[]);
    let check = |event: &str, expected: &str| assert_eq!(listed(&program, event), expected, "{event}");
    check(
        "integers",
        "level debug_line, (int8 a uint8 b int16 c uint16 d int32 e uint32 f int64 g uint64 h uint8 i hex uint32 j",
    );
    check("floats", "level debug_line, (double a float b double half float quarter");
    check("texts", "level debug_line, (string a text[] b string c string d");
    check(
        "memory",
        "level debug_line, (int8[4] a uint8[] b double[3] c struct {int16 x, uint64 y, double z} d hex uint64 e",
    );
    let labels = "{RED = 0, GREEN = 5, other = 6..255}";
    check("colors", &format!("level info, (int32 {labels} a uint8 {labels} b"));
    check("nothing", "level debug_line, ()");
    assert!(listed(&program, "twelve").starts_with("level emerg, (int64 a int64 b"));
}

#[test]
fn list_shows_what_rust_says() {
    let program = rust_program("2");
    let check = |event: &str, expected: &str| assert_eq!(listed(&program, event), expected, "{event}");
    check(
        "integers",
        "level debug_line, (int8 a uint8 b int16 c uint16 d int32 e uint32 f int64 g uint64 h uint8 i hex uint32 j",
    );
    check("texts", "level debug_line, (string a text[] b string c string d");
    check(
        "memory",
        "level debug_line, (uint8[4] a uint8[] b double[3] c struct {int16 x, uint64 y, double z} d hex uint64 e",
    );
    check("colors", "level info, (int32 {RED = 0, GREEN = 5, BLUE = 6} a uint8 {NONE = 0, MOST = 255} b");
    check("nothing", "level debug_line, ()");
}

/// Values of places in two functions of one event: the semaphore is one.
#[test]
fn an_event_with_several_places_is_traced_at_each() {
    const TWO: &str = r#"
        #include "weir/tracepoint.h"
        __attribute__((noinline)) static void first(int n) { WEIR_TRACEPOINT(tp, both, (int, n, n)); }
        __attribute__((noinline)) static void second(long n) { WEIR_TRACEPOINT(tp, both, (long, n, n * 2)); }
        int main(void) { for (int n = 1; n <= 10; n++) { first(n); second(-n); } return 0; }
    "#;
    let program = target::build("tracepoints-two", Source::Text(TWO), &["-O2"]);
    let app = quoted(&program);
    let script = format!("usdt:{app}:tp:both {{ @ = sum(arg0); }}");
    let output = weir(&["trace", "-q", "-e", &script, "-c", &app]);
    assert_eq!(text(&output.stdout).trim(), "@: -55", "{}", text(&output.stderr));
}

/// A condition on the words of the line that the program prints of an event.
type Condition = fn(&[&str]) -> bool;

fn number(word: &str) -> f64 {
    word.parse().unwrap()
}

/// Filters by names of fields, and the same of what the program prints.
const FILTERS: &[(&str, &str, Condition)] = &[
    ("integers", "a < 0 && f > 4000000050 && i", |at| {
        number(at[0]) < 0.0 && number(at[5]) > 4_000_000_050.0 && at[8] == "1"
    }),
    ("integers", "h in (18446744073709551500..18446744073709551600) || d == 40003", |at| {
        let h: u64 = at[7].parse().unwrap();
        (18446744073709551500..=18446744073709551600).contains(&h) || at[3] == "40003"
    }),
    ("integers", "j & 3 == 1 && c % 7 != 0", |at| {
        let j = u32::from_str_radix(at[9], 16).unwrap();
        j & 3 == 1 && at[2].parse::<i16>().unwrap() % 7 != 0
    }),
    ("floats", "a > 1e101 && b < -50 || b == -1", |at| {
        number(at[0]) > 1e101 && number(at[1]) < -50.0 || number(at[1]) == -1.0
    }),
    ("texts", "a == \"two*\" || d =~ \"[13]7$\"", |at| {
        at[0] == "two" || at.last().is_some_and(|last| last.ends_with("17") || last.ends_with("37"))
    }),
    ("texts", "b[4] == 104 && c == \"literal\"", |at| at.join(" ").contains("cut h")),
    ("memory", "a[3] == 101 && b[3] == 101", |at| at[0] == "abce" && at[1].len() > 3),
    ("memory", "c[1] == 2 && d.x == 1 && d.z > 2.5 && b[2] == 116", |at| at[1].len() > 2),
    ("colors", "a == \"GREEN\" && b > 2", |at| at[0] == "5" && number(at[1]) > 2.0),
    ("twelve", "c == a * 3 && l > 1000", |at| number(at[11]) > 1000.0),
];

/// With a filter the program's events are those that it prints so itself, and by their names the fields are what they are by number.
#[track_caller]
fn check_named(program: &Path) {
    const ROUNDS: usize = 200;
    check_script(program, &by_names());
    let app = program.display().to_string();
    let printed = Command::new(program).arg(ROUNDS.to_string()).output().unwrap();
    let printed = text(&printed.stdout);
    let file = own_file(program, "filtered");
    let counted = |event: &str, filter: &str| {
        let script = format!("usdt:{}:tp:{event} {{ @ = count(); }}", quoted(program));
        let (command, file) = (format!("{} {ROUNDS}", quoted(program)), file.to_str().unwrap());
        let output = weir(&["trace", "-q", "-o", file, "-e", &script, "-c", &command, "--filter", filter]);
        assert!(output.status.success(), "{app}: {filter}: {}", text(&output.stderr));
        let printed = std::fs::read_to_string(file).unwrap();
        std::fs::remove_file(file).unwrap();
        printed.trim().strip_prefix("@: ").unwrap_or_else(|| panic!("{printed}")).parse::<usize>().unwrap()
    };
    for (event, filter, condition) in FILTERS {
        let events = printed.lines().filter_map(|line| line.strip_prefix(event)?.strip_prefix(' '));
        let wanted = events.filter(|line| condition(&line.split(' ').collect::<Vec<_>>())).count();
        assert!((1..ROUNDS).contains(&wanted), "{filter} tells rounds apart: {wanted}");
        assert_eq!(counted(event, filter), wanted, "{app}: {filter}");
    }
    // Of those that fulfil the condition.
    assert_eq!(counted("counted", "n > 100 sample 1/7"), 15, "{app}");
}

#[test]
fn events_of_c_are_filtered_by_their_fields() {
    check_named(&c_program("gcc", "-O2", &[]));
}

/// Of `weir/log.h`: nothing is formatted but what is recorded.
#[test]
fn messages_are_events_of_their_levels() {
    let logs = target::program("logs");
    let run = Command::new(&logs).output().unwrap();
    assert_eq!(text(&run.stdout), "0 0\n", "nobody traces");
    let folder = paths::target().join(format!("testkit/logs-{}", std::process::id()));
    let recorded = |levels: &[&str]| {
        let _ = std::fs::remove_dir_all(&folder);
        let to = folder.to_str().unwrap();
        let record = [&["record", "-o", to, "-e", "weir:log_*"], levels, &["--", logs.to_str().unwrap()]];
        let run = weir(&record.concat());
        assert!(run.status.success(), "{run:?}");
        let view = weir(&["view", "-f", "json", to]);
        let lines = text(&view.stdout);
        let events = lines.lines().filter_map(|line| {
            let event: serde_json::Value = serde_json::from_str(line).expect(line);
            let (fields, name) = (&event["fields"], event["event"].as_str()?);
            let message: String = fields["message"].as_str()?.chars().take(15).collect();
            let (line, function) = (&fields["line"], &fields["function"]);
            assert!(fields["file"].as_str()?.contains("logs.") && function == "main", "{event}");
            Some(format!("{name} {line} {message}"))
        });
        (text(&run.stdout), events.collect::<Vec<String>>())
    };
    let (said, all) = recorded(&[]);
    assert_eq!(said, "2 0\n");
    let wanted = [
        "weir:log_INFO 19 number 0 of thr",
        "weir:log_DEBUG 23 1: 000000000000",
        "weir:log_INFO 19 number 1 of thr",
        "weir:log_ERR 21 plain",
        "weir:log_INFO 19 number 2 of thr",
        "weir:log_DEBUG 23 2: 000000000000",
    ];
    assert_eq!(all, wanted);
    let (said, some) = recorded(&["--loglevel", "info"]);
    assert_eq!(said, "0 0\n");
    assert_eq!(some, [wanted[0], wanted[2], wanted[3], wanted[4]]);
    let _ = std::fs::remove_dir_all(&folder);
}

#[test]
fn events_of_rust_are_filtered_by_their_fields() {
    check_named(&rust_program("3"));
}
