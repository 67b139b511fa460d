//! Addresses and stacks by name, end to end: while the target runs, when it has ended, unloaded a library or generated code.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use testkit::Daemon;
use testkit::paths::quoted;
use testkit::target::{self, Source};

const LIMIT: Duration = Duration::from_secs(120);

/// Calls `leaf` with addresses of functions of its own, of a library that it unloads when a line comes in, and from code that it generates.
const PROGRAM: &str = r#"
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
__attribute__((noinline)) int known(int x) { return x * 3 + 1; }
__attribute__((noinline)) int leaf(void *address) { __asm__ volatile("" : : "r"(address)); return 1; }
__attribute__((noinline)) int middle(void *address) { int n = leaf(address); __asm__ volatile(""); return n + 1; }

static int loads(const char *path)
{
    void *library = dlopen(path, RTLD_NOW);
    if (!library)
        return puts(dlerror());
    int n = middle(dlsym(library, "of_library"));
    puts("loaded");
    fflush(stdout);
    getchar();
    dlclose(library);
    return n;
}

static int generates(void)
{
    unsigned char code[] = {0x55, 0x48, 0x89, 0xe5, 0x48, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xd0, 0x5d, 0xc3};
    char path[64];
    void *target = (void *)leaf;
    memcpy(code + 6, &target, 8);
    unsigned char *at = mmap(0, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memcpy(at, code, sizeof code);
    sprintf(path, "/tmp/perf-%d.map", getpid());
    FILE *map = fopen(path, "w");
    fprintf(map, "%lx %lx JS:~add /a b.js:1\n", (long)at, (long)sizeof code);
    fclose(map);
    return ((int (*)(void *))at)(at + 4);
}

int main(int count, char **arguments)
{
    int n = 0;
    for (int i = 0; i < 3; i++)
        n += middle((char *)known + 2);
    /* Pacing alone: the verdict does not depend on it. */
    for (; count > 1 && !strcmp(arguments[1], "on"); usleep(1000))
        n += middle((char *)known + 2);
    if (count > 1)
        n += strcmp(arguments[1], "generate") ? loads(arguments[1]) : generates();
    return n == 99;
}
"#;

const FLAGS: [&str; 3] = ["-O2", "-fno-omit-frame-pointer", "-fno-optimize-sibling-calls"];

fn program(name: &str, flags: &[&str]) -> PathBuf {
    target::build(name, Source::Text(PROGRAM), &[&FLAGS[..], flags, &["-ldl"]].concat())
}

/// What weir prints of `script`, in which `BIN` is the program; and its standard error.
fn trace(program: &Path, arguments: &str, script: &str, flags: &[&str]) -> (String, String) {
    let script = script.replace("BIN", &quoted(program));
    let command = format!("{} {arguments}", quoted(program));
    let output = Command::new(env!("CARGO_BIN_EXE_weir"))
        .args(["trace", "-e", &script, "-c", &command])
        .args(flags)
        .output()
        .unwrap();
    let (out, err) = (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
    assert!(output.status.success(), "{script}\n{out}\n{err}");
    (out, err)
}

/// The same of the program that loads this library: `meanwhile` is done while that is loaded.
fn trace_loading(program: &Path, library: &Path, script: &str, meanwhile: impl FnOnce()) -> (String, String) {
    // The loop of weir that runs intervals also looks at processes, four times a second.
    let script = script.replace("BIN", &quoted(program)) + " interval:ms:300 { printf(\"tick\\n\"); }";
    let command = format!("{} {}", quoted(program), quoted(library));
    let mut weir = Command::new(env!("CARGO_BIN_EXE_weir"));
    weir.args(["trace", "-e", &script, "-c", &command]);
    let mut weir = Daemon::spawn(weir).unwrap();
    weir.line_with("loaded", LIMIT).unwrap();
    for _ in 0..5 {
        weir.line_with("tick", LIMIT).unwrap();
    }
    meanwhile();
    weir.write("\n").unwrap();
    let ended = weir.finish(LIMIT).unwrap();
    assert!(ended.status.success(), "{script}\n{}\n{}", ended.stdout, ended.stderr);
    (ended.stdout, ended.stderr)
}

#[track_caller]
fn contains(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "no {part:?} in:\n{text}");
    }
}

#[test]
fn symbols_print_as_values_keys_and_arguments_also_when_the_target_has_ended() {
    let script = "uprobe:BIN:leaf { @n[usym(arg0)] = count(); @s = usym(arg0); @v[pid == 0] = usym(arg0); \
                  $x = usym(arg0); printf(\"<%s|%10s>\\n\", $x, usym(0)); print(usym(arg0)); } \
                  END { printf(\"end %s\\n\", @s); }";
    for flags in [&["-pie", "-fPIE"][..], &["-no-pie", "-fno-pie"]] {
        let (out, _) = trace(&program("symbols", flags), "", script, &[]);
        contains(
            &out,
            &[
                "<known|       0x0>\n",
                "\nknown\n",
                "@n[known]: 3\n",
                "@s: known\n",
                "end known\n",
                "@v[0]: known\n",
            ],
        );
    }
}

#[test]
fn a_static_program_has_symbols_too() {
    let plain = PROGRAM
        .replace("loads(arguments[1])", "0")
        .replace("static int loads", "static __attribute__((unused)) int loads");
    let built =
        target::build("symbols-static", Source::Text(&plain), &[&FLAGS[..], &["-static", "-w"]].concat());
    let (out, _) = trace(&built, "", "uprobe:BIN:leaf { @[usym(arg0), ustack(2)] = count(); }", &[]);
    contains(&out, &["@[known, \n    leaf+0\n    middle+", "]: 3\n"]);
}

#[test]
fn stacks_print_in_every_mode_and_place() {
    let script = "uprobe:BIN:leaf { @[ustack(3)] = count(); @last = ustack(2); @deep[ustack] = count(); \
                  printf(\"%s\", ustack(perf, 2)); print(ustack(raw, 1)); print(ustack(bpftrace, 1)); }";
    let built = program("symbols", &["-pie", "-fPIE"]);
    let (out, err) = trace(&built, "", script, &[]);
    contains(&out, &["@[\n    leaf+0\n    middle+", "\n    main+", "\n]: 3\n"]);
    contains(&out, &["@last: \n        leaf+0\n        middle+", "\n        leaf+0\n\n"]);
    // Up to where the C library calls main.
    contains(&out, &["@deep[\n    leaf+0\n"]);
    let frame = format!(" leaf+0 ({})\n", built.display());
    contains(&out, &[&frame, " middle+"]);
    assert!(out.lines().any(|line| line.starts_with('\t') && line.ends_with(frame.trim_end())), "{out}");
    let raw = |line: &str| line.len() > 6 && line.bytes().all(|digit| digit.is_ascii_hexdigit());
    assert_eq!(out.lines().filter(|line| raw(line)).count(), 3, "{out}");
    assert!(!err.contains("weir: "), "{err}");
}

/// `through` is called through, `stacked` has an argument on the stack, so that its return address is replaced; `tail` ends in a jump to
/// `through`, and `stacked_tail` in one to `stacked`.
const CALLS: &str = r#"
    #define PROBED __attribute__((noipa))
    #define STACKED long, long, long, long, long, long, long g
    PROBED long leaf(long x) { __asm__ volatile("" : "+r"(x)); return x + 1; }
    PROBED long through(long x) { return leaf(x) + 1; }
    PROBED long stacked(STACKED) { return through(g) + 1; }
    PROBED __attribute__((optimize("optimize-sibling-calls"))) long tail(long x) { return through(x + 1); }
    PROBED __attribute__((optimize("optimize-sibling-calls"))) long stacked_tail(STACKED) { return stacked(1, 2, 3, 4, 5, 6, g); }
    int main(void) {
        long sum = 0;
        for (long i = 0; i < 10; i++) sum += stacked(1, 2, 3, 4, 5, 6, i) + tail(i) + stacked_tail(1, 2, 3, 4, 5, 6, i);
        return sum == 99;
    }
"#;

/// Callers are the program's own, however their returns are caught.
#[test]
fn stacks_pass_through_calls_whose_returns_are_probed() {
    let built = target::build("symbols-calls", Source::Text(CALLS), &[&FLAGS[..], &["-w"]].concat());
    let stacks = |script: &str| {
        let (out, _) = trace(&built, "", script, &[]);
        let names = |text: &str| {
            text.lines().map(|line| line.trim().split('+').next().unwrap().to_owned()).collect::<Vec<_>>()
        };
        let mut found: Vec<(String, Vec<String>)> = out
            .split("@[\n")
            .skip(1)
            .filter_map(|entry| entry.split_once("\n]: "))
            .map(|(stack, count)| (count.lines().next().unwrap().to_owned(), names(stack)))
            .collect();
        found.sort();
        found
    };
    for at in ["uprobe:BIN:leaf", "uretprobe:BIN:leaf"] {
        let plain = stacks(&format!("{at} {{ @[ustack(4)] = count(); }}"));
        let has_callers =
            |(_, stack): &(String, Vec<String>)| stack.windows(2).any(|two| two == ["stacked", "main"]);
        assert!(plain.iter().any(has_callers), "{at}: {plain:?}");
        let others =
            ["through", "stacked", "tail", "stacked_tail"].map(|name| format!("uretprobe:BIN:{name}"));
        for count in 1..=others.len() {
            let probed = format!(
                "{at} {{ @[ustack(4)] = count(); }} {} {{ @returns = count(); }}",
                others[..count].join(", ")
            );
            assert_eq!(stacks(&probed), plain, "{at}, {:?}", &others[..count]);
        }
    }
}

#[test]
fn json_has_them_as_strings() {
    let script =
        "uprobe:BIN:leaf { @[usym(arg0), ustack(1)] = count(); @s = ustack(1); printf(\"%s\", usym(arg0)); }";
    let (out, _) = trace(&program("symbols", &[]), "", script, &["-f", "json"]);
    let lines: Vec<serde_json::Value> = out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let of = |kind: &str| {
        lines.iter().filter(|line| line["type"] == kind).map(|line| &line["data"]).collect::<Vec<_>>()
    };
    assert_eq!(of("printf")[0], "known");
    assert_eq!(of("map")[0]["@"]["known,\n    leaf+0\n"], 3);
    assert_eq!(of("map")[1]["@s"], "\n        leaf+0\n");
}

#[test]
fn a_stripped_program_prints_addresses_and_its_file() {
    let built = program("symbols", &[]);
    let stripped = built.with_file_name(format!("stripped.{}", std::process::id()));
    let status = Command::new("strip").arg("-o").arg(&stripped).arg(&built).status().unwrap();
    assert!(status.success());
    // By address: there are no names to probe by.
    let symbols = weir_symbols::Binary::open(&built).unwrap();
    let leaf = symbols.find("leaf").unwrap()[0].address;
    let script = format!("uprobe:BIN:{leaf} {{ @[usym(arg0)] = count(); printf(\"%s\", ustack(perf, 1)); }}");
    let (out, _) = trace(&stripped, "", &script, &[]);
    contains(&out, &["@[0x", &format!(" ({})\n", stripped.display())]);
    fs::remove_file(stripped).unwrap();
}

#[test]
fn a_library_that_was_unloaded_before_printing_has_names() {
    let text = "int of_library(int x) { return x + 1; }";
    let library = target::build("library", Source::Text(text), &["-shared", "-fPIC"]);
    let script = "uprobe:BIN:leaf { @[usym(arg0)] = count(); @at[ustack(1)] = count(); }";
    let (out, err) = trace_loading(&program("symbols", &[]), &library, script, || {});
    contains(&out, &["@[of_library]: 1\n", "@[known]: 3\n"]);
    assert!(!err.contains("weir: "), "{err}");
}

#[test]
fn a_program_that_was_replaced_meanwhile_keeps_its_names() {
    let built = program("symbols", &[]);
    let copy = |name: &str| {
        let copy = built.with_file_name(format!("{name}.{}", std::process::id()));
        target::copy(&built, &copy);
        copy
    };
    let (original, other) = (copy("original"), copy("other"));
    fs::write(&other, "something else").unwrap();
    let library = target::build(
        "library",
        Source::Text("int of_library(int x) { return x + 1; }"),
        &["-shared", "-fPIC"],
    );
    let script = "uprobe:BIN:leaf { @[usym(arg0), ustack(1)] = count(); }";
    let (out, _) = trace_loading(&original, &library, script, || fs::rename(&other, &original).unwrap());
    assert_eq!(fs::read(&original).unwrap(), b"something else");
    contains(&out, &["@[known, \n    leaf+0\n]: 3\n"]);
    fs::remove_file(original).unwrap();
}

#[test]
fn generated_code_has_the_names_of_its_perf_map() {
    let script = "uprobe:BIN:leaf { @[usym(arg0)] = count(); @at[ustack(3)] = count(); @pid = pid; }";
    let (out, _) = trace(&program("symbols", &[]), "generate", script, &[]);
    let pid = out.lines().find_map(|line| line.strip_prefix("@pid: ")).unwrap();
    fs::remove_file(format!("/tmp/perf-{pid}.map")).unwrap();
    contains(&out, &["@[JS:~add /a b.js:1]: 1\n", "@at[\n    leaf+0\n    JS:~add /a b.js:1+16\n    main+"]);
}

#[test]
fn each_of_several_running_processes_has_its_own_names() {
    let built = program("symbols", &["-pie", "-fPIE"]);
    let mut children: Vec<std::process::Child> =
        (0..2).map(|_| Command::new(&built).arg("on").spawn().unwrap()).collect();
    let pids: Vec<u32> = children.iter().map(std::process::Child::id).collect();
    assert!(testkit::wait::until(LIMIT, || pids.iter().all(|pid| runs(*pid, &built))));
    let script = format!(
        "uprobe:{}:leaf {{ @[usym(arg0), pid, ustack(2)] = count(); @seen[pid] = 1; }} \
         interval:ms:50 /@seen[{}] && @seen[{}]/ {{ exit(); }}",
        quoted(&built),
        pids[0],
        pids[1]
    );
    let output = Command::new(env!("CARGO_BIN_EXE_weir"))
        .args(["trace", "-e", &script, "-p", &format!("{},{}", pids[0], pids[1])])
        .output()
        .unwrap();
    for child in &mut children {
        child.kill().and_then(|()| child.wait()).unwrap();
    }
    let (out, err) = (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
    assert!(output.status.success(), "{out}\n{err}");
    for pid in pids {
        contains(&out, &[&format!("@[known, {pid}, \n    leaf+0\n    middle+")]);
    }
}

#[test]
fn names_of_cpp_are_demangled() {
    if !target::is_installed("g++") {
        return testkit::skip::skip("g++", "not installed");
    }
    let text = "namespace shop { struct Cart { __attribute__((noinline)) static int add(int n, const char *)
                { __asm__ volatile(\"\"); return n + 1; } }; }
                extern \"C\" __attribute__((noinline)) int leaf(void *p) { __asm__ volatile(\"\" : : \"r\"(p)); return 1; }
                int main() { return leaf((void *)&shop::Cart::add) + shop::Cart::add(1, nullptr) == 9; }";
    let built = target::build_with("g++", "cart", Source::Text(text), &FLAGS);
    let (out, _) = trace(&built, "", "uprobe:BIN:leaf { @[usym(arg0)] = count(); }", &[]);
    contains(&out, &["@[shop::Cart::add(int, char const*)]: 1\n"]);
}

#[test]
fn functions_of_cpp_are_probed_by_their_names() {
    if !target::is_installed("g++") {
        return testkit::skip::skip("g++", "not installed");
    }
    let text = "#define PROBED __attribute__((noipa))
                namespace shop {
                PROBED int add(int n) { __asm__ volatile(\"nop; nop; nop; nop\"); return n; }
                PROBED int add(char *text, int n) { __asm__ volatile(\"nop; nop; nop; nop\"); return n; }
                template<class T> struct Cart { PROBED T count(T n) const { __asm__ volatile(\"nop; nop; nop; nop\"); return n; } };
                template<class T> PROBED T twice(T n) { __asm__ volatile(\"nop; nop; nop; nop\"); return n + n; } }
                int main() { shop::Cart<int> cart; char text[2] = {};
                  return shop::add(1) + shop::add(text, 2) + cart.count(3) + shop::twice(4) == 99; }";
    let built = target::build_with("g++", "shop", Source::Text(text), &FLAGS);
    let check = |written: &str, want: &[&str]| {
        let script = format!("uprobe:BIN:cpp:{written} {{ @[func] = count(); }}");
        let (out, _) = trace(&built, "", &script, &[]);
        let want: Vec<String> = want.iter().map(|name| format!("@[{name}]: 1")).collect();
        let mut lines: Vec<&str> = out.lines().filter(|line| line.starts_with('@')).collect();
        lines.sort_unstable();
        assert_eq!(lines, want, "{written}");
    };
    let [one, two] = ["shop::add(char*, int)", "shop::add(int)"];
    let (count, twice) = ("shop::Cart<int>::count(int) const", "int shop::twice<int>(int)");
    check("\"shop::add\"", &[one, two]);
    check("\"shop::add(int)\"", &[two]);
    check("\"shop::add(char*, int)\"", &[one]);
    check("shop*", &[twice, count, one, two]);
    check("\"shop::twice<int>\"", &[twice]);
    check("_ZN4shop3addEi", &[two]);
    let (out, _) =
        trace(&built, "", "uretprobe:BIN:cpp:\"shop::add(int)\" { print((probe, func, retval)); }", &[]);
    contains(&out, &[":cpp:_ZN4shop3addEi, shop::add(int), 1)"]);
    // `func` and its comparisons are of the name that people write, whichever the attach point has.
    let (out, _) =
        trace(&built, "", "uprobe:BIN:*add* /func == \"shop::add(int)\"/ { @[func] = count(); }", &[]);
    contains(&out, &["@[shop::add(int)]: 1"]);
    let weir = |words: &[&str]| Command::new(env!("CARGO_BIN_EXE_weir")).args(words).output().unwrap();
    let path = built.to_str().unwrap();
    let listed = weir(&["list", &format!("uprobe:{path}:cpp:shop::add*")]);
    let want = format!("uprobe:{path}:cpp:\"{one}\"\nuprobe:{path}:cpp:\"{two}\"\n");
    assert_eq!(String::from_utf8(listed.stdout).unwrap(), want);
    for (name, want) in [
        ("\"shop::add(int)\"", "are written `"),
        ("cpp:\"shop::ad\"", "no function named \"shop::ad\""),
        ("cpp:\"shop::x*\"", "no function"),
    ] {
        let refused = weir(&["trace", "-e", &format!("uprobe:{}:{name} {{ }}", quoted(&built))]);
        let said = String::from_utf8(refused.stderr).unwrap();
        assert!(!refused.status.success() && said.contains(want), "{name}: {said}");
    }
}

#[test]
fn what_has_no_meaning_is_refused() {
    let refuses = |script: &str, want: &str| {
        let script = script.replace("BIN", &quoted(&program("symbols", &[])));
        let output =
            Command::new(env!("CARGO_BIN_EXE_weir")).args(["trace", "-e", &script]).output().unwrap();
        let err = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{script}\n{err}");
        contains(&err, &[want]);
    };
    refuses("BEGIN { print(usym(1)); }", "`usym` is of the traced process");
    refuses("END { print(ustack); }", "`ustack` is of the traced process");
    refuses("uprobe:BIN:leaf { print(ustack(128)); }", "constant from 1 to 127");
    refuses("uprobe:BIN:leaf { print(ustack(0)); }", "constant from 1 to 127");
    refuses("uprobe:BIN:leaf { print(ustack(build_id)); }", "no mode of stacks `build_id`");
    refuses(
        "uprobe:BIN:leaf { print(ustack(3, perf)); }",
        "the first of two arguments of `ustack` is a mode",
    );
    refuses("uprobe:BIN:leaf { print(usym(\"x\")); }", "`usym` takes an integer");
    refuses("uprobe:BIN:leaf { if (usym(arg0) == \"known\") { exit(); } }", "compare addresses");
    refuses("uprobe:BIN:leaf { @ = ustack(3); @ = ustack(4); }", "cannot assign user stack");
    refuses("uprobe:BIN:leaf { print(kstack); }", "not supported by weir yet");
}

fn runs(pid: u32, program: &Path) -> bool {
    fs::read_link(format!("/proc/{pid}/exe")).is_ok_and(|exe| exe == program)
}
