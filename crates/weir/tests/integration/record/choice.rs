//! Which events are recorded: patterns, filters, libraries that come later; and what is wrong with what was asked for.

use std::fs;
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{Command, Stdio};

use testkit::{paths, target};

use super::{Endless, LIMIT, beside, numbers, program, read, record, text, weir};

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
        "no static probe (USDT) or event of LTTng-UST is named \"plug:*\"",
        "folders that it may load more from",
        "usdt:PATH:PROVIDER:NAME",
    ] {
        assert!(said.contains(part), "{said}");
    }
    fs::remove_dir_all(&folder).unwrap();
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
    check(
        1,
        &free,
        &["-e", "nobody:*"],
        "no static probe (USDT) or event of LTTng-UST is named \"nobody:*\"",
    );
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
