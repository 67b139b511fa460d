//! `weir record`, end to end: what a program emits is in the trace, event for event and field for field, as `weir view` and babeltrace2
//! print it; what is not is counted.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use testkit::{paths, skip, target, wait};

const LIMIT: Duration = Duration::from_secs(120);

fn program() -> String {
    target::program("record").display().to_string()
}

/// The program of target/testkit, where [`weir`] runs: the path of an event that is recorded has no blanks.
fn beside(program: &Path) -> String {
    format!("./{}", program.file_name().unwrap().to_str().unwrap())
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn weir(args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
    command.current_dir(paths::target().join("testkit")).args(args).output().unwrap()
}

/// Records what the program emits with these arguments; what weir says.
#[track_caller]
fn record(folder: &Path, options: &[&str], arguments: &[&str]) -> String {
    let program = program();
    let command = [&["--", &program], arguments].concat();
    let output = weir(&[&["record", "-o", folder.to_str().unwrap()], options, &command].concat());
    let said = text(&output.stderr);
    assert!(output.status.success(), "{options:?}: {said}");
    said
}

/// What a reader prints of a trace: of each event its name and fields, and the sum of what it says was discarded.
struct Read {
    events: Vec<String>,
    discarded: u64,
}

fn parsed(output: &Output, reader: &str) -> Read {
    assert!(output.status.success(), "{reader}: {}", text(&output.stderr));
    // [12:00:00.123456789] (+0.000000123) host rec:ints: { cpu_id = 0 }, { thread = 0, n = 0 }
    let event = |line: &str| {
        let rest = line.split_once(") ").and_then(|(_, rest)| rest.split_once(' ')).expect(line).1;
        let (name, fields) = rest.split_once(": { cpu_id = ").expect(line);
        let (_, fields) = fields.split_once(" }, ").expect(line);
        format!("{name} {fields}")
    };
    let lines = text(&output.stdout);
    // Times do not fall: the difference to the event before would have a minus.
    assert!(!lines.contains("(-"), "{reader}: the times fall");
    let count = |line: &str| {
        let rest = line.split_once("Tracer discarded ")?.1;
        rest.split_once(' ')?.0.parse::<u64>().ok()
    };
    let said = text(&output.stderr);
    let discarded = said.lines().map(|line| count(line).unwrap_or_else(|| panic!("{reader} says {line}")));
    let discarded = discarded.sum();
    Read { events: lines.lines().map(event).collect(), discarded }
}

/// The trace as `weir view` has it, which is how babeltrace2 has it, if that is there.
fn read(folder: &Path) -> Read {
    let ours = weir(&["view", "--clock-gmt", folder.to_str().unwrap()]);
    match Command::new("babeltrace2").arg("--clock-gmt").arg(folder).output() {
        Err(_) => skip::skip("record-babeltrace2", "no babeltrace2; traces are read by `weir view` alone"),
        Ok(theirs) => {
            assert!(text(&ours.stdout) == text(&theirs.stdout), "the readers differ on {}", folder.display());
            let (ours, theirs) = (parsed(&ours, "weir view"), parsed(&theirs, "babeltrace2"));
            assert_eq!(ours.discarded, theirs.discarded);
        }
    }
    parsed(&ours, "weir view")
}

/// The same where babeltrace2 may differ: 2.0.4 shows an empty text as the one before it.
fn read_by_weir(folder: &Path) -> Read {
    parsed(&weir(&["view", "--clock-gmt", folder.to_str().unwrap()]), "weir view")
}

/// What the trace has of event `n` of a thread of the program.
fn expected(kind: char, thread: usize, n: usize) -> String {
    let kind = if kind == 'm' { ['i', 's', 'b'][n % 3] } else { kind };
    let head = format!("thread = {thread}, n = {n}");
    match kind {
        'i' => format!("rec:ints {{ {head} }}"),
        's' => {
            let letters = char::from(b'a' + (n % 26) as u8).to_string().repeat(n % 31 + 1);
            let parity = if n % 2 == 1 { "odd" } else { "even" };
            format!(
                "rec:strings {{ {head}, a = \"{n}\", b = \"{letters}\", c = \"three\", d = \"4\", e = \"{parity}\", \
                 f = \"six words with a few characters more\", g = \"{n}\", h = \"{letters}\", i = \"nine\" }}"
            )
        }
        _ => {
            let bytes: Vec<String> = (0..64).map(|i| format!("[{i}] = {}", (n + i) as u8)).collect();
            format!("rec:blob {{ {head}, bytes = [ {} ] }}", bytes.join(", "))
        }
    }
}

/// By thread, the numbers of its events in the order of the trace; each has the fields that it should have.
#[track_caller]
fn numbers(kind: char, events: &[String]) -> BTreeMap<usize, Vec<usize>> {
    let mut numbers: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for event in events {
        let number = |name: &str| -> usize {
            let rest = event.split_once(&format!("{name} = ")).expect(event).1;
            rest.split([',', ' ']).next().unwrap().parse().expect(event)
        };
        let (thread, n) = (number("thread"), number(" n"));
        assert_eq!(*event, expected(kind, thread, n));
        numbers.entry(thread).or_default().push(n);
    }
    numbers
}

/// Everything that the threads emit is recorded, each thread's events in their order.
#[track_caller]
fn check(kind: char, threads: usize, count: usize) {
    let folder = paths::fresh("record", &format!("all-{kind}-{threads}"));
    let arguments = [kind.to_string(), threads.to_string(), count.to_string()];
    let said = record(&folder, &["-e", "rec:*", "--size", "16M"], &arguments.each_ref().map(String::as_str));
    let read = read(&folder);
    assert!(said.contains(&format!("weir: {} events recorded;", threads * count)), "{said}");
    assert_eq!((read.events.len(), read.discarded), (threads * count, 0), "{said}");
    let numbers = numbers(kind, &read.events);
    assert_eq!(numbers.len(), threads);
    for (thread, numbers) in numbers {
        assert!(numbers.iter().copied().eq(0..count), "thread {thread} of {threads}");
    }
    fs::remove_dir_all(folder).unwrap();
}

#[test]
fn what_one_thread_emits_is_recorded() {
    check('i', 1, 20_000);
    check('s', 1, 2_000);
    check('b', 1, 5_000);
    check('m', 1, 3_000);
}

#[test]
fn what_eight_threads_emit_is_recorded() {
    check('i', 8, 5_000);
    check('s', 8, 500);
    check('b', 8, 1_000);
    check('m', 8, 999);
}

/// What a program has emitted may be secret. Snapshots and sessions are written by the same code.
#[test]
fn a_trace_is_for_its_owner_alone() {
    let folder = paths::fresh("record", "private").join("of").join("ours");
    let program = target::build("tracepoints", target::Source::Program("tracepoints.c"), &["-O2"]);
    let args = ["record", "-e", "tp:*", "-o", folder.to_str().unwrap(), "--", program.to_str().unwrap(), "6"];
    let output = weir(&args);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(folder.parent().unwrap()), mode(&folder)), (0o700, 0o700));
    let files: Vec<PathBuf> = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert!(files.len() > 1 && files.iter().all(|file| mode(file) == 0o600), "{files:?}");
    fs::remove_dir_all(folder).unwrap();
}

#[test]
fn every_type_of_field_is_recorded() {
    let folder = paths::fresh("record", "types");
    let program = target::build("tracepoints", target::Source::Program("tracepoints.c"), &["-O2"]);
    let args = ["record", "-e", "tp:*", "-o", folder.to_str().unwrap(), "--", program.to_str().unwrap(), "6"];
    let output = weir(&args);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let said = text(&output.stdout);
    let events = read_by_weir(&folder).events;
    let mut of_name: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for event in &events {
        let (name, fields) = event.split_once(' ').unwrap();
        of_name.entry(name).or_default().push(fields);
    }
    let lines = |name: &str| -> Vec<Vec<String>> {
        let of_event = said.lines().filter_map(|line| line.strip_prefix(&format!("{name} ")));
        of_event.map(|line| line.split(' ').map(str::to_owned).collect()).collect()
    };
    // What the program says of numbers, field by field.
    let names = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l"];
    for event in ["integers", "twelve"] {
        let recorded = &of_name[format!("tp:{event}").as_str()];
        assert_eq!(recorded.len(), 6);
        for (values, fields) in lines(event).iter().zip(recorded) {
            let value = |(name, value): (&&str, &String)| match (event, *name) {
                ("integers", "j") => format!("{name} = 0x{}", value.to_uppercase()),
                _ => format!("{name} = {value}"),
            };
            let wanted: Vec<String> = names.iter().zip(values).map(value).collect();
            assert_eq!(**fields, format!("{{ {} }}", wanted.join(", ")));
        }
    }
    let check = |event: &str, n: usize, wanted: &str| assert_eq!(of_name[event][n], wanted, "{event} {n}");
    check("tp:floats", 0, "{ a = 1.42857e+99, b = -0.333333, half = 0.5, quarter = -0.25 }");
    check(
        "tp:texts",
        0,
        "{ a = \"two words\", _b_length = 2, b = \"cu\", c = \"literal\", d = \"round 1\" }",
    );
    check("tp:texts", 1, "{ a = \"\", _b_length = 3, b = \"cut\", c = \"literal\", d = \"round 2\" }");
    check("tp:colors", 0, "{ a = ( \"GREEN\" : container = 5 ), b = ( <unknown> : container = 1 ) }");
    check("tp:nothing", 5, "{ }");
    let memory = "{ a = [ [0] = 97, [1] = 98, [2] = 99, [3] = 101 ], _b_length = 2, b = [ [0] = 98, [1] = 121 ], \
         c = [ [0] = 1, [1] = 2, [2] = 3 ], d = { x = 1, y = 2, z = 3 }, e = 0x";
    assert!(of_name["tp:memory"][0].starts_with(memory), "{}", of_name["tp:memory"][0]);
    fs::remove_dir_all(folder).unwrap();
}

#[test]
fn long_texts_are_cut_and_null_ones_are_named() {
    let folder = paths::fresh("record", "long");
    let source = "#include \"weir/tracepoint.h\"\n#include <stdlib.h>\n#include <string.h>\n\
        int main(int argc, char **argv) {\n\
        static char text[4000]; static double numbers[2000];\n\
        for (int i = 1; i < argc; i++) {\n\
        unsigned long length = strtoul(argv[i], 0, 0); memset(text, 'x', length); text[length] = 0;\n\
        WEIR_TRACEPOINT(rec, one, (string, a, text), (sequence(double), n, numbers, length), (string, b, i % 2 ? NULL : \"b\"));\n\
        }\nreturn 0; }\n";
    let flags = ["-O1", "-I", &paths::root().join("include").display().to_string()];
    let program = target::build("record-long", target::Source::Text(source), &flags);
    let lengths = [0, 1, 510, 511, 512, 1021, 1022, 1023, 1024, 3999];
    let folder_text = folder.to_str().unwrap();
    let mut args = ["record", "-e", "rec:one", "-o", folder_text, "--"].map(str::to_owned).to_vec();
    args.push(program.display().to_string());
    args.extend(lengths.map(|length| length.to_string()));
    let output = weir(&args.iter().map(String::as_str).collect::<Vec<_>>());
    let said = text(&output.stderr);
    assert!(output.status.success(), "{said}");
    // Of texts 1023, 1024 and 3999, of sequences all above 511.
    let cut = 3 + lengths.iter().filter(|length| **length > 511).count();
    assert!(said.contains(&format!("rec:one: {}, {cut} texts or sequences cut", lengths.len())), "{said}");
    let events = read_by_weir(&folder).events;
    assert_eq!(events.len(), lengths.len());
    for (index, (event, length)) in events.iter().zip(lengths).enumerate() {
        let characters = "x".repeat(length.min(1022));
        let b = if index % 2 == 0 { "(null)" } else { "b" };
        let begin = format!("rec:one {{ a = \"{characters}\", _n_length = {}, n = [ ", length.min(511));
        assert!(event.starts_with(&begin) && event.ends_with(&format!("], b = \"{b}\" }}")), "{event}");
        assert_eq!(event.matches("] = 0").count(), length.min(511));
    }
    fs::remove_dir_all(folder).unwrap();
}

/// What a tracepoint declares is copied by loads, constants in a file's memory too: the program is killed for a system call that
/// reads memory. A function's parameter that leads to the same text is nobody's promise, and stays unread there.
#[test]
fn what_a_tracepoint_declares_is_recorded_without_a_system_call() {
    let folder = paths::fresh("record", "declared");
    let source = r#"
        #include <linux/filter.h>
        #include <linux/seccomp.h>
        #include <stddef.h>
        #include <sys/prctl.h>
        #include <sys/syscall.h>
        #include "weir/tracepoint.h"
        static const char *volatile text = "a constant of more than a word";
        static const unsigned char bytes[8] = {1, 2, 3, 4, 5, 6, 7, 8};
        struct point { int x; double y; };
        static const struct point point = {3, 0.5};
        WEIR_MEMBERS(point_members, WEIR_MEMBER(struct point, x), WEIR_MEMBER(struct point, y));
        __attribute__((noinline)) void take(const char *text) {
            __asm__ volatile(".skip 16, 0x90" : : "r"(text) : "memory");
        }
        int main(int argc, char **argv) {
            (void)argv;
            struct sock_filter filter[] = {
                BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
                BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_process_vm_readv, 0, 1),
                BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
                BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
            };
            struct sock_fprog program = {.len = sizeof filter / sizeof *filter, .filter = filter};
            if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program))
                return 3;
            for (int n = 0; n < 3; n++) {
                WEIR_TRACEPOINT(rec, constants, (string, a, text), (array(unsigned char, 8), b, bytes),
                                (sequence(unsigned char), c, bytes, argc + 2), (text, d, text, 3), (string, e, "short"),
                                (structure(point_members), f, &point));
                take(text);
            }
            return 0;
        }
    "#;
    let flags = ["-O1", "-g", "-I", &paths::root().join("include").display().to_string()];
    let program =
        target::build("record-declared", target::Source::Text(source), &flags).display().to_string();
    let take = format!("uprobe:{}:take", beside(Path::new(&program)));
    let to_folder = ["-o", folder.to_str().unwrap(), "--", &program];
    let filter = "e == \"short\" && a == \"a const*\"";
    let output = weir(&[&["record", "-e", "rec:*", "--filter", filter][..], &to_folder].concat());
    assert!(output.status.success(), "{}", text(&output.stderr));
    let numbers: Vec<String> = (0..8).map(|n| format!("[{n}] = {}", n + 1)).collect();
    let constants = format!(
        "rec:constants {{ a = \"a constant of more than a word\", b = [ {} ], _c_length = 3, c = [ {} ], _d_length = 3, \
         d = \"a c\", e = \"short\", f = {{ x = 3, y = 0.5 }} }}",
        numbers.join(", "),
        numbers[..3].join(", ")
    );
    assert_eq!(read_by_weir(&folder).events, vec![constants.clone(); 3]);
    fs::remove_dir_all(&folder).unwrap();
    let output = weir(&[&["record", "-e", "rec:*", "-e", &take][..], &to_folder].concat());
    assert!(output.status.success(), "{}", text(&output.stderr));
    let parameter = "uprobe:take { text = \"\" }".to_owned();
    let both = [constants, parameter].into_iter().cycle().take(6).collect::<Vec<_>>();
    assert_eq!(read_by_weir(&folder).events, both);
    fs::remove_dir_all(&folder).unwrap();
}

/// Loads the plugin that its argument names when it can read a line, and has it sell three times.
const LOADING: &str = r#"
    #include <dlfcn.h>
    #include <stdio.h>
    int main(int argc, char **argv) {
        puts("ready");
        fflush(stdout);
        getchar();
        void *plugin = dlopen(argv[argc - 1], RTLD_NOW);
        if (!plugin) { puts(dlerror()); return 1; }
        void (*sell)(int) = (void (*)(int))dlsym(plugin, "sell");
        for (int n = 0; n < 3; n++) sell(n);
        return dlclose(plugin);
    }
"#;

/// The provider is in no file that the program maps or needs when it is attached to: it is looked for where it could load more from.
#[test]
fn events_of_a_library_that_is_loaded_later_are_found_by_their_provider() {
    let folder = paths::fresh("record", "later");
    let (app, other) = (folder.join("app"), folder.join("other"));
    let plugins = app.join("plugins/sales");
    for folder in [&plugins, &other] {
        fs::create_dir_all(folder).unwrap();
    }
    let program = app.join("loading");
    target::copy(&target::build("record-loading", target::Source::Text(LOADING), &["-O1"]), &program);
    let plugin =
        "#include \"weir/tracepoint.h\"\nvoid sell(int n) { WEIR_TRACEPOINT(plug, sale, (int, n, n)); }\n";
    let include = paths::root().join("include").display().to_string();
    let flags = ["-O1", "-shared", "-fPIC", "-I", &include];
    let plugin = target::build("record-plugin", target::Source::Text(plugin), &flags);
    let (below, elsewhere) = (plugins.join("sale.so"), other.join("sale.so"));
    for to in [&below, &elsewhere] {
        target::copy(&plugin, to);
    }
    let expected: Vec<String> = (0..3).map(|n| format!("plug:sale {{ n = {n} }}")).collect();
    let trace = folder.join("trace");
    let recorded = |mut weir: Command, of: &[&Path]| {
        weir.args(["record", "-e", "plug:*", "-o"]).arg(&trace).arg("--").args(of);
        let weir = weir.stdin(Stdio::null()).output().unwrap();
        assert!(weir.status.success(), "{}", text(&weir.stderr));
        let events = read(&trace).events;
        fs::remove_dir_all(&trace).unwrap();
        events
    };
    let weir = || Command::new(env!("CARGO_BIN_EXE_weir"));
    assert_eq!(recorded(weir(), &[&program, &below]), expected);
    let mut with_path = weir();
    with_path.env("LD_LIBRARY_PATH", &other);
    fs::remove_file(&below).unwrap();
    assert_eq!(recorded(with_path, &[&program, &elsewhere]), expected);
    // Of a process that runs, by its own environment.
    let mut target = Command::new(&program);
    target.arg(&elsewhere).env("LD_LIBRARY_PATH", &other);
    let mut target = testkit::Daemon::spawn(target).unwrap();
    target.line_with("ready", LIMIT).unwrap();
    let mut tracer = weir();
    let script = "interval:ms:10 { printf(\"go\\n\"); } usdt:*:plug:sale { @ = sum(args.n + 1); }";
    tracer.args(["trace", "-e", script, "-p", &target.pid().to_string()]);
    let mut tracer = testkit::Daemon::spawn(tracer).unwrap();
    tracer.line_with("go", LIMIT).unwrap();
    target.write("\n").unwrap();
    let ended = tracer.finish(LIMIT).unwrap();
    assert!(ended.status.success() && ended.stdout.contains("@: 6"), "{ended:?}");
    target.finish(LIMIT).unwrap();
    // In none of them.
    let output =
        weir().args(["record", "-e", "plug:*", "-o"]).arg(&trace).arg("--").arg(&program).output().unwrap();
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    for part in [
        "no static probe (USDT) is named \"plug:*\"",
        "folders that it may load more from",
        "usdt:PATH:PROVIDER:NAME",
    ] {
        assert!(said.contains(part), "{said}");
    }
    fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn what_the_rings_have_no_room_for_is_counted() {
    for (threads, count) in [(1, 200_000), (8, 50_000)] {
        let folder = paths::fresh("record", &format!("overload-{threads}"));
        let arguments = ["i".to_owned(), threads.to_string(), count.to_string()];
        let arguments = arguments.each_ref().map(String::as_str);
        let said = record(&folder, &["-e", "rec:ints", "--size", "4K"], &arguments);
        let read = read(&folder);
        let (recorded, emitted) = (read.events.len(), threads * count);
        assert!(read.discarded > 0, "a ring of 4 KiB takes {emitted} events?");
        assert_eq!(recorded as u64 + read.discarded, emitted as u64, "{said}");
        let counted = format!("rec:ints: {recorded}, {} discarded: the ring was full", read.discarded);
        assert!(said.contains(&counted), "{said}");
        for numbers in numbers('i', &read.events).values() {
            assert!(numbers.is_sorted_by(|a, b| a < b), "an order of its own");
        }
        fs::remove_dir_all(folder).unwrap();
    }
}

#[test]
fn a_filter_decides_what_is_recorded() {
    let check = |filter: &str, wanted: &[usize]| {
        let folder = paths::fresh("record", "filter");
        record(&folder, &["-e", "rec:ints", "--filter", filter], &["i", "1", "100"]);
        let numbers = numbers('i', &read(&folder).events);
        assert_eq!(numbers.get(&0).map_or(&[][..], |numbers| &numbers[..]), wanted, "{filter}");
        fs::remove_dir_all(folder).unwrap();
    };
    check("n >= 97", &[97, 98, 99]);
    check("thread == 0 && (n == 5 || n == 50)", &[5, 50]);
    check("n < 0", &[]);
    let folder = paths::fresh("record", "filter");
    let filter = ["-e", "rec:strings", "--filter", "e == \"odd\" && b == \"f*\""];
    record(&folder, &filter, &["s", "1", "200"]);
    let wanted: Vec<usize> = (0..200).filter(|n| n % 2 == 1 && n % 26 == 5).collect();
    assert_eq!(numbers('s', &read(&folder).events)[&0], wanted);
    fs::remove_dir_all(folder).unwrap();
}

#[test]
fn patterns_levels_and_exclusions_choose_events() {
    let check = |options: &[&str], wanted: &[&str]| {
        let folder = paths::fresh("record", "chosen");
        record(&folder, options, &["m", "1", "9"]);
        let mut names: Vec<String> =
            read(&folder).events.iter().map(|event| event.split(' ').next().unwrap().to_owned()).collect();
        names.sort();
        let wanted: Vec<String> = wanted.iter().flat_map(|name| vec![format!("rec:{name}"); 3]).collect();
        assert_eq!(names, wanted, "{options:?}");
        fs::remove_dir_all(folder).unwrap();
    };
    check(&["-e", "rec:*"], &["blob", "ints", "strings"]);
    check(&["-e", "rec:i*", "-e", "re?:ints"], &["ints"]);
    check(&["-e", "*:*", "-x", "rec:*s"], &["blob"]);
    check(&["-e", "rec:*", "-x", "blob", "-x", "ints"], &["strings"]);
    check(&["-e", "rec:*", "--loglevel", "info"], &["strings"]);
    check(&["-e", "rec:*", "--loglevel", "debug_line"], &["ints", "strings"]);
    check(&["-e", "rec:*", "--loglevel-only", "TRACE_DEBUG"], &["blob"]);
    check(&["-e", &format!("usdt:{}:rec:ints", beside(Path::new(&program())))], &["ints"]);
}

#[test]
fn contexts_are_recorded_with_each_event() {
    let folder = paths::fresh("record", "contexts");
    record(&folder, &["-e", "rec:ints", "-t", "vpid,vtid,procname", "-t", "cpu,uid,ip"], &["i", "3", "10"]);
    let events = read(&folder).events;
    assert_eq!(events.len(), 30);
    let mut threads: BTreeMap<String, String> = BTreeMap::new();
    for event in &events {
        let (context, fields) = event.split_once(" }, { ").expect(event);
        let names = ["vpid", "vtid", "procname", "cpu_id", "vuid", "ip"];
        let values: Vec<&str> = context.split_once("{ ").expect(event).1.split(", ").collect();
        let values: Vec<(&str, &str)> = values.iter().map(|value| value.split_once(" = ").unwrap()).collect();
        assert_eq!(values.iter().map(|(name, _)| *name).collect::<Vec<_>>(), names);
        let uid = nix::unistd::getuid().to_string();
        assert!(values[2].1.starts_with("\"record-") && values[4].1 == uid, "{event}");
        assert_ne!(values[0].1, values[1].1, "a thread of its own: {event}");
        let thread = fields.split(',').next().unwrap().to_owned();
        assert_eq!(threads.entry(thread).or_insert(values[1].1.to_owned()), values[1].1, "{event}");
    }
    assert_eq!(threads.len(), 3);
    fs::remove_dir_all(folder).unwrap();
}

#[test]
fn functions_are_recorded_with_their_parameters() {
    let folder = paths::fresh("record", "functions");
    let source = "__attribute__((noinline)) long add(int a, const char *name, double d) \
                  { __asm__ volatile(\"\"); return a + name[0] + (long)d; }\n\
                  int main(void) { long sum = 0; for (int i = 0; i < 3; i++) sum += add(i, \"abc\", i / 2.0); return sum == 0; }\n";
    let program = target::build("record-functions", target::Source::Text(source), &["-O1", "-g"]);
    let at = |kind: &str| format!("{kind}:{}:add", beside(&program));
    let (entry, exit) = (at("uprobe"), at("uretprobe"));
    let args = ["record", "-e", &entry, "-e", &exit, "-o", folder.to_str().unwrap(), "--"];
    let output = weir(&[&args[..], &[program.to_str().unwrap()]].concat());
    assert!(output.status.success(), "{}", text(&output.stderr));
    let wanted: Vec<String> = (0..3)
        .flat_map(|i| {
            let d = ["0", "0.5", "1"][i];
            let sum = i + 97 + i / 2;
            [
                format!("uprobe:add {{ a = {i}, name = \"abc\", d = {d} }}"),
                format!("uretprobe:add {{ retval = {sum} }}"),
            ]
        })
        .collect();
    assert_eq!(read(&folder).events, wanted);
    fs::remove_dir_all(folder).unwrap();
}

#[test]
fn fields_that_no_debug_information_names_are_fetched_as_ftrace_has_it() {
    let folder = paths::fresh("record", "fetched");
    let source = "struct object { unsigned kind; short count; char *text; };\n\
                  __attribute__((noinline)) int finish(void *client, struct object **argv, int argc, long long took)\n\
                  { __asm__ volatile(\"\" : : \"r\"(client), \"r\"(argv), \"r\"(took) : \"memory\"); return -argc; }\n\
                  int main(void) { struct object set = {7, -2, \"SET\"}, get = {8, 3, \"GET\"}, bad = {9, 4, (char *)8};\n\
                  struct object *argv[] = {&set, &get, &bad}; int sum = 0;\n\
                  for (int i = 0; i < 3; i++) sum += finish(0, &argv[i], i + 1, -5 - i); return sum != -6; }\n";
    let program = target::build("record-fetched", target::Source::Text(source), &["-O1"]);
    let at = |kind: &str, fields: &str| format!("{kind}:{}:finish {fields}", beside(&program));
    let fields = "name=+0(+8(+0(%si))):string kind=+0(+0(%rsi)):u32 count=+4(+0(arg1)):s16 argc=%dx:s32 took=arg3:s64 client=%di";
    let (entry, exit) = (at("uprobe", fields), at("uretprobe", "result=retval:s32 low=%ax:x8"));
    let args = ["record", "-e", &entry, "-e", &exit, "-o", folder.to_str().unwrap(), "--"];
    let output = weir(&[&args[..], &[program.to_str().unwrap()]].concat());
    assert!(output.status.success(), "{}", text(&output.stderr));
    let wanted: Vec<String> = [("\"SET\"", 7, -2), ("\"GET\"", 8, 3), ("\"\"", 9, 4)]
        .into_iter()
        .zip(1..)
        .flat_map(|((name, kind, count), argc)| {
            let took = -4 - argc;
            [
                format!(
                    "uprobe:finish {{ name = {name}, kind = {kind}, count = {count}, argc = {argc}, took = {took}, client = 0x0 }}"
                ),
                format!("uretprobe:finish {{ result = -{argc}, low = 0x{:X} }}", 256 - argc),
            ]
        })
        .collect();
    assert_eq!(read_by_weir(&folder).events, wanted);
    fs::remove_dir_all(&folder).unwrap();
    let args = [
        "record",
        "-e",
        &entry,
        "--filter",
        "took < -5 && name == \"G*\"",
        "-o",
        folder.to_str().unwrap(),
        "--",
    ];
    let filtered = weir(&[&args[..], &[program.to_str().unwrap()]].concat());
    assert!(filtered.status.success(), "{}", text(&filtered.stderr));
    assert_eq!(read_by_weir(&folder).events, wanted[2..3]);
    assert!(text(&output.stderr).contains("reads of the target's memory failed"), "{}", text(&output.stderr));
    fs::remove_dir_all(folder).unwrap();
}

/// A program that emits until it is ended.
struct Endless(Child);

impl Endless {
    fn start(kind: &str, threads: &str) -> Endless {
        Endless::run(&[kind, threads, "1000000000000"])
    }

    fn run(arguments: &[&str]) -> Endless {
        let mut command = Command::new(program());
        Endless(command.args(arguments).stdout(Stdio::null()).spawn().unwrap())
    }

    fn pid(&self) -> String {
        self.0.id().to_string()
    }

    fn kill(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

impl Drop for Endless {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Begins to record of the process, and waits until events come.
fn record_of(process: &Endless, folder: &Path) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
    command.args(["record", "-e", "rec:*", "-o", folder.to_str().unwrap(), "-p", &process.pid()]);
    let recorder = command.stderr(Stdio::piped()).spawn().unwrap();
    let has_events = || {
        let files = fs::read_dir(folder).map(|files| files.flatten().count()).unwrap_or(0);
        files > 1
    };
    assert!(wait::until(LIMIT, has_events), "no event");
    recorder
}

/// What a recorder says that the machine did not let go on.
#[track_caller]
fn said_of_failed(recorder: Child) -> String {
    let output = recorder.wait_with_output().unwrap();
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{said}");
    said
}

#[test]
fn a_running_process_is_recorded_until_ctrl_c() {
    let folder = paths::fresh("record", "running");
    let process = Endless::start("m", "2");
    let recorder = record_of(&process, &folder);
    // More than the first packet of each stream.
    let size = || -> u64 {
        fs::read_dir(&folder).unwrap().map(|file| file.unwrap().metadata().unwrap().len()).sum()
    };
    let begun = size();
    assert!(wait::until(LIMIT, || size() > begun), "{begun} bytes and no more");
    let pid = nix::unistd::Pid::from_raw(recorder.id() as i32);
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGINT).unwrap();
    let output = recorder.wait_with_output().unwrap();
    let said = text(&output.stderr);
    assert!(output.status.success(), "{said}");
    let read = read(&folder);
    assert!(said.contains(&format!("weir: {} events recorded", read.events.len())), "{said}");
    let numbers = numbers('m', &read.events);
    for numbers in numbers.values() {
        assert!(numbers.is_sorted_by(|a, b| a < b));
        // Recorded and discarded are all from the first to the last, but for those of other threads.
        let all = numbers.last().unwrap() - numbers[0] + 1;
        assert!(
            numbers.len() as u64 + read.discarded >= all as u64,
            "{} + {} of {all}",
            numbers.len(),
            read.discarded
        );
    }
    fs::remove_dir_all(folder).unwrap();
}

#[test]
fn what_was_committed_before_kill_9_is_in_the_trace() {
    // More of them, at other moments: the soak record-kill.
    for (round, kind) in ["i", "s", "b", "m"].into_iter().enumerate() {
        let folder = paths::fresh("record", &format!("kill-{round}"));
        let hurry = folder.with_extension("hurry");
        let _ = fs::remove_file(&hurry);
        // The first thread decides when: the others are anywhere in theirs.
        let count = (20_000 + 5_000 * round).to_string();
        let process = Endless::run(&[kind, "3", &count, hurry.to_str().unwrap(), "kill"]);
        let recorder = record_of(&process, &folder);
        fs::write(&hurry, "").unwrap();
        let output = recorder.wait_with_output().unwrap();
        let said = text(&output.stderr);
        assert!(output.status.success(), "{said}");
        let read = read(&folder);
        assert!(said.contains(&format!("weir: {} events recorded", read.events.len())), "{said}");
        // No event twice, none torn, none out of order.
        for numbers in numbers(kind.chars().next().unwrap(), &read.events).values() {
            assert!(numbers.is_sorted_by(|a, b| a < b), "round {round}");
        }
        fs::remove_file(&hurry).unwrap();
        fs::remove_dir_all(folder).unwrap();
    }
}

#[test]
fn a_full_disk_ends_the_trace_at_a_whole_packet() {
    let place = paths::fresh("record", "full");
    fs::create_dir_all(&place).unwrap();
    let mount = ["-t", "tmpfs", "-o", "size=300k", "none", place.to_str().unwrap()];
    if !Command::new("mount").args(mount).stderr(Stdio::null()).status().is_ok_and(|status| status.success())
    {
        return skip::skip("record-full-disk", "mounting is for root");
    }
    // One stream: a second one might have no room to say what it lost.
    testkit::cpu::stay_on_this();
    let folder = place.join("trace");
    let program = program();
    let args =
        ["record", "-e", "rec:ints", "-o", folder.to_str().unwrap(), "--", &program, "i", "1", "100000"];
    let output = weir(&args);
    let read = read(&folder);
    let unmounted = Command::new("umount").arg(&place).status().unwrap();
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{said}");
    assert!(said.contains("cannot write") && said.contains("No space left on device"), "{said}");
    assert_eq!(text(&output.stdout), "emitted 100000\n", "the program ran on");
    assert!(read.events.len() > 1000, "{} events", read.events.len());
    numbers('i', &read.events);
    // What is said to be recorded is there, and what is not is counted, also in the trace.
    let recorded = read.events.len() as u64;
    let before = |what: &str| {
        let number = said.split_once(what).and_then(|(before, _)| before.rsplit(' ').next());
        number.map_or(0, |number| number.parse::<u64>().unwrap())
    };
    assert_eq!(before(" events recorded"), recorded, "{said}");
    let lost = before(" discarded: the ring was full") + before(" that could not be written");
    assert_eq!((recorded + lost, read.discarded), (100_000, lost), "{said}");
    assert!(unmounted.success());
    fs::remove_dir(place).unwrap();
}

#[test]
fn a_file_that_may_not_grow_further_is_told_like_a_full_disk() {
    let folder = paths::fresh("record", "limited");
    let process = Endless::start("i", "1");
    let recorder = record_of(&process, &folder);
    let limit = ["--pid", &recorder.id().to_string(), "--fsize=4096"];
    assert!(Command::new("prlimit").args(limit).status().unwrap().success());
    let (said, read) = (said_of_failed(recorder), read(&folder));
    assert!(said.contains("cannot write") && said.contains("File too large"), "{said}");
    assert!(said.contains(&format!("weir: {} events recorded", read.events.len())), "{said}");
    fs::remove_dir_all(folder).unwrap();
}

#[test]
fn files_that_may_not_have_what_the_rings_need_are_told_before_anything_is_done() {
    let folder = paths::fresh("record", "limited-early");
    let mut command = Command::new("prlimit");
    command.args(["--fsize=262144", env!("CARGO_BIN_EXE_weir"), "record", "-e", "rec:ints", "-o"]);
    let output = command.arg(&folder).args(["--", &program(), "i", "1", "1"]).output().unwrap();
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{said}");
    assert!(said.contains("may have 262144 (RLIMIT_FSIZE, `ulimit -f`)"), "{said}");
    assert!(!folder.exists());
}

#[test]
fn a_folder_that_is_removed_meanwhile_is_told_and_ends_the_recording() {
    let folder = paths::fresh("record", "removed");
    let process = Endless::start("i", "1");
    let recorder = record_of(&process, &folder);
    // A stream may be made while the others are removed.
    assert!(wait::until(LIMIT, || fs::remove_dir_all(&folder).is_ok()));
    let said = said_of_failed(recorder);
    assert!(said.contains("the trace is gone, and nothing is recorded any more"), "{said}");
    assert!(!folder.exists());
}

/// Of processes that are meant by their name a mistake is told as of one that is given by its number.
#[test]
fn mistakes_are_told_of_the_processes_that_a_name_means() {
    let place = paths::fresh("record", "names");
    fs::create_dir_all(&place).unwrap();
    let (own, free) = (place.join("weir-rec-names"), place.join("free"));
    target::copy(Path::new(&program()), &own);
    let mut command = Command::new(&own);
    let child = command.args(["i", "1", "1000000000000"]).stdout(Stdio::null()).spawn().unwrap();
    let process = Endless(child);
    let check = |name: &str, options: &[&str], wanted: &str| {
        let output = weir(&[&["record", "-o", free.to_str().unwrap(), "-p", name], options].concat());
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{options:?}: {said}");
        assert!(said.contains(wanted), "{options:?}: {said} lacks {wanted}");
        assert!(!free.exists());
    };
    check("weir-rec-names", &["-e", "rec:int"], "did you mean rec:ints?");
    check("weir-rec-names", &["-e", "rec:ints a=weather"], "the event has no field `weather`");
    check("weir-rec-names", &["-e", "rec:ints", "--filter", "m == 1"], "the event has no field `m`");
    check("weir-rec-nobody", &["-e", "rec:ints"], "there is no process yet");
    drop(process);
    fs::remove_dir_all(place).unwrap();
}

#[test]
fn wrong_input_is_refused_before_anything_is_done() {
    let place = paths::fresh("record", "refused");
    fs::create_dir_all(&place).unwrap();
    fs::write(place.join("file"), "x").unwrap();
    let free = place.join("free");
    let program = program();
    let check = |code: i32, folder: &Path, options: &[&str], wanted: &str| {
        let command = ["--", &program, "i", "1", "1"];
        let output = weir(&[&["record", "-o", folder.to_str().unwrap()], options, &command].concat());
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{options:?}: {said}");
        assert!(said.contains(wanted), "{options:?}: {said} lacks {wanted}");
        assert_eq!(text(&output.stdout), "", "the command has run");
        assert!(!free.exists() && output.status.signal().is_none());
    };
    let nobody = ["record", "-o", free.to_str().unwrap(), "-e", "rec:ints", "--", "weir-nobody"];
    let output = weir(&nobody);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{said}");
    assert!(said.contains("weir-nobody") && said.contains("no such command"), "{said}");
    check(1, &place, &["-e", "rec:ints"], "it is not empty");
    check(1, &place.join("file"), &["-e", "rec:ints"], "it is there and no folder");
    check(1, &place.join("file/below"), &["-e", "rec:ints"], "it is there and no folder");
    check(1, Path::new("/proc/weir/trace"), &["-e", "rec:ints"], "cannot make /proc/weir/trace");
    check(1, &free, &["-e", "rec:int"], "did you mean rec:ints?");
    check(1, &free, &["-e", "nobody:*"], "no static probe (USDT) is named \"nobody:*\"");
    check(1, &free, &["-e", "rec"], "it is not a provider and an event");
    check(1, &free, &["-e", "rec:ints { exit(); }"], "`{` is no name");
    check(1, &free, &["-e", "rec:ints a=%dx:u24"], "there is no type `u24`");
    check(1, &free, &["-e", "rec:ints a=weather"], "the event has no field `weather`");
    check(1, &free, &["-e", "rec:*", "-x", "rec:*"], "nothing is left to record");
    check(1, &free, &["-e", "rec:ints", "--filter", "m == 1"], "the event has no field `m`");
    check(1, &free, &["-e", "rec:*", "--filter", "a == \"x\""], "the event has no field `a`");
    check(1, &free, &["-e", "rec:strings", "--size", "4K"], "give it 32K");
    check(2, &free, &["-e", "rec:ints", "--size", "5000"], "a power of two is wanted");
    check(2, &free, &["-e", "rec:ints", "--size", "512M"], "a power of two is wanted, from 4K to 256M");
    check(2, &free, &["-e", "rec:ints", "--overwrite", "--file-count", "3"], "cannot be used with");
    check(2, &free, &["-e", "rec:ints", "-t", "weather"], "vtid");
    check(2, &free, &["-e", "rec:ints", "--loglevel", "loud"], "no level `loud`");
    check(2, &free, &["-e", "rec:ints", "-p", "1"], "cannot be used with");
    check(2, &free, &[], "--event");
    fs::remove_dir_all(place).unwrap();
}

/// What a process emits at a steady rate while children of its are enrolled, or are not: emitted, and discarded.
fn discarded_meanwhile(options: &[&str]) -> (u64, u64) {
    let folder = paths::fresh("record", "brood");
    let program = target::program("brood").display().to_string();
    let record = ["record", "-e", "brood:tick", "--size", "4K", "-o", folder.to_str().unwrap()];
    let output = weir(&[&record[..], options, &["--", &program, "2000", "12", "40"]].concat());
    let said = text(&output.stderr);
    assert!(output.status.success(), "{said}");
    let emitted = text(&output.stdout);
    let emitted: u64 =
        emitted.trim().strip_prefix("emitted ").and_then(|number| number.parse().ok()).expect(&said);
    let read = read(&folder);
    assert_eq!(read.events.len() as u64 + read.discarded, emitted, "{said}");
    fs::remove_dir_all(folder).unwrap();
    (emitted, read.discarded)
}

/// Each child takes long to look at and to attach to; the rings of the others are emptied all the same.
#[test]
fn nothing_is_lost_while_children_are_enrolled() {
    // As much as where there is nothing to enrol, on a machine that is as busy. Rings that were not emptied meanwhile would lose most of
    // all in every run, the more the slower the machine is; what another process has of the CPU in one run it need not have in the next.
    let is_as_without = || {
        let (_, alone) = discarded_meanwhile(&[]);
        let (emitted, discarded) = discarded_meanwhile(&["--follow"]);
        eprintln!("{discarded} of {emitted} are lost, {alone} without children");
        discarded <= 2 * alone + emitted / 20
    };
    assert!((0..10).any(|_| is_as_without()), "more is lost while children are enrolled");
}

/// The folder is made before processes are touched; where none can be attached to then, it is as it was.
#[test]
fn nothing_is_left_where_attaching_fails() {
    let event = format!("usdt:{}:odd:numbers", beside(&target::program("odd")));
    let process = Endless::start("i", "1");
    for options in [&[][..], &["--overwrite"], &["--trace-format", "ctf-2"]] {
        let free = paths::fresh("record", "unattached");
        let record = || {
            let to = ["record", "-e", &event, "-o", free.to_str().unwrap(), "-p", &process.pid()];
            let output = weir(&[&to[..], options].concat());
            assert_eq!(output.status.code(), Some(1), "{output:?}");
            assert!(text(&output.stderr).contains("not-mapped"), "{output:?}");
        };
        record();
        assert!(!free.exists(), "{options:?}");
        // One that was there stays.
        fs::create_dir(&free).unwrap();
        record();
        assert_eq!(fs::read_dir(&free).unwrap().count(), 0, "{options:?}");
        fs::remove_dir(&free).unwrap();
    }
}

#[test]
fn times_are_those_of_the_day() {
    let now = || std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs_f64();
    let folder = paths::fresh("record", "times");
    let before = now();
    record(&folder, &["-e", "rec:ints"], &["i", "2", "1000"]);
    let after = now();
    let output = weir(&["view", "--clock-seconds", folder.to_str().unwrap()]);
    let lines = text(&output.stdout);
    let time = |line: &str| line[1..].split(']').next().unwrap().parse::<f64>().expect(line);
    let times: Vec<f64> = lines.lines().map(time).collect();
    assert_eq!(times.len(), 2000);
    // The counter is read ahead of the clock by some ns at most; the clocks are some ns apart.
    assert!(
        times.iter().all(|time| (before - 1e-3..=after + 1e-3).contains(time)),
        "{before} {times:?} {after}"
    );
    fs::remove_dir_all(folder).unwrap();
}

#[test]
fn several_processes_are_recorded_in_one_trace() {
    let folder = paths::fresh("record", "several");
    let (mut first, mut second) = (Endless::start("i", "1"), Endless::start("b", "1"));
    let pids = format!("{},{}", first.pid(), second.pid());
    let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
    // Some of many millions, which this reads as one text.
    command.args(["record", "-e", "rec:*", "--filter", "(n & 4095) == 0", "-t", "vpid"]);
    command.args(["-o", folder.to_str().unwrap(), "-p", &pids]);
    let recorder = command.stderr(Stdio::piped()).spawn().unwrap();
    // Packets are written once a second.
    let has_both = || {
        let lines = text(&weir(&["view", folder.to_str().unwrap()]).stdout);
        lines.contains("rec:ints") && lines.contains("rec:blob")
    };
    assert!(wait::until(LIMIT, has_both), "both are recorded");
    first.kill();
    second.kill();
    let output = recorder.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    let events = read(&folder).events;
    let of = |name: &str, pid: &str| {
        let begin = format!("rec:{name} {{ vpid = {pid} }}");
        events.iter().filter(|event| event.starts_with(&begin)).count()
    };
    let (ints, blobs) = (of("ints", &first.pid()), of("blob", &second.pid()));
    assert!(ints > 0 && blobs > 0, "{ints} {blobs}");
    assert_eq!(ints + blobs, events.len());
    fs::remove_dir_all(folder).unwrap();
}

#[test]
fn a_trace_in_files_has_all_and_the_newest_files_are_kept() {
    for kept in [None, Some("2")] {
        let folder = paths::fresh("record", &format!("files-{}", kept.unwrap_or("all")));
        let options = ["-e", "rec:ints", "--size", "4M", "--file-size", "64K"];
        let count: &[&str] = kept.map_or(&[], |_| &["--file-count", "2"]);
        let said = record(&folder, &[&options[..], count].concat(), &["i", "1", "50000"]);
        let names: Vec<String> = fs::read_dir(&folder)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .filter(|name| name.starts_with("stream_"))
            .collect();
        let sizes = names.iter().map(|name| fs::metadata(folder.join(name)).unwrap().len());
        assert!(sizes.max() <= Some((64 << 10) + 88), "{names:?}");
        assert!(said.contains("weir: 50000 events recorded;"), "{said}");
        let read = read_by_weir(&folder);
        let numbers = &numbers('i', &read.events)[&0];
        assert_eq!((numbers.last(), read.discarded), (Some(&49_999), 0), "{said}");
        match kept {
            None => assert!(names.len() > 5 && numbers.len() == 50_000, "{names:?}"),
            Some(_) => {
                let gone = format!("weir:   {} of these were in files that gave way", 50_000 - numbers.len());
                assert!(names.len() < 7 && said.contains(&gone), "{names:?}: {said}");
            }
        }
        fs::remove_dir_all(folder).unwrap();
    }
}
