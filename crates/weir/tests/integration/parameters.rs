//! `args.NAME` of functions as compilers make them: what weir reads is what the program passes, or weir says that it cannot be read.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use testkit::paths::quoted;
use testkit::skip;
use testkit::target::{self, Source};

/// Prints `function.parameter=value` of each call. The functions are static, so that compilers may change them.
const C: &str = r#"
#include <stdio.h>
#define KEPT __attribute__((noinline)) static
#define SEEN __asm__ volatile("" ::: "memory")
struct two { long a, b; };
struct big { long a[4]; };
KEPT int parse(int flags, const char *path, int len) {
    SEEN; int s = 0; for (int i = 0; i < len; i++) s += path[i] * i; return s; }
KEPT long many(long a, long b, long c, int d, long e, long f, short g, const char *h) {
    SEEN; return a + c + e + g + *h; }
KEPT long behind(struct two t, int k, double x) { SEEN; return t.a + k + (long)x; }
KEPT long taken(int unused, int seen, int last) { __asm__ volatile("" :: "r"(&seen) : "memory"); return seen + last; }
KEPT long member(const struct big *b, int n) { SEEN; return b->a[1] * n; }
KEPT double mixed(float a, int b, double c, long d) { SEEN; return a + c + d; }
KEPT int first(const char *only, int count) { SEEN; return *only + count * 3; }
int (*volatile later)(const char *, int) = first;
int main(int argc, char **argv) {
    long sum = 0;
    for (int i = 1; i < 4; i++) {
        struct two t = {i, 2};
        struct big b = {{i, i + 1, i}};
        char text[] = "abc";
        text[0] += i;
        printf("parse.flags=%d\nparse.path=%s\nparse.len=%d\n", argc + 40, "/etc/passwd", 7 + i);
        sum += parse(argc + 40, "/etc/passwd", 7 + i);
        printf("many.a=%d\nmany.c=%d\nmany.d=%d\nmany.e=%d\nmany.f=%d\nmany.g=%d\nmany.h=%s\n", i, i * 3, i * 4, i * 5, i * 6, i * 7, text);
        sum += many(i, 2, i * 3, i * 4, i * 5, i * 6, i * 7, text);
        printf("behind.k=%d\nbehind.x=%d\n", i + 8, i);
        sum += behind(t, i + 8, i);
        printf("taken.unused=1\ntaken.seen=%d\ntaken.last=%d\n", i + 3, i + 4);
        sum += taken(1, i + 3, i + 4);
        printf("member.n=%d\n", i + 9);
        sum += member(&b, i + 9);
        printf("mixed.a=%d\nmixed.b=%d\nmixed.c=%d\nmixed.d=%d\n", i, i + 1, i + 2, i + 3);
        sum += (long)mixed(i, i + 1, i + 2, i + 3);
        printf("first.only=%s\nfirst.count=%d\n", text, i);
        sum += later(text, i);
    }
    return sum == 1;
}
"#;

const CPP: &str = r#"
#include <cstdio>
struct box { long n; __attribute__((noinline)) long add(int by, const char *why) const; };
long box::add(int by, const char *why) const { __asm__ volatile("" ::: "memory"); return n + by + *why; }
int main(int argc, char **argv) {
    box b{argc};
    long sum = 0;
    for (int i = 1; i < 4; i++) {
        std::printf("add.this=%d\nadd.by=%d\nadd.why=%s\n", argc, i, "why");
        sum += b.add(i, "why");
    }
    return sum == 1;
}
"#;

const RUST: &str = r#"
#[inline(never)]
fn greet(who: &str, times: u32) -> usize { std::hint::black_box(who.len() * times as usize) }
#[inline(never)]
fn keep(unused: u64, by: &String, text: &str, owned: String, last: i32) -> usize {
    std::hint::black_box((by, text, &owned, last));
    by.len()
}
fn main() {
    let all = String::from("abcdefgh");
    for i in 1..4usize {
        println!("greet.who={}\ngreet.times={}", &all[..i], 10 + i);
        greet(&all[..i], 10 + i as u32);
        println!("keep.unused=5\nkeep.by={all}\nkeep.text={}\nkeep.owned={}\nkeep.last={}", &all[i..], &all[..i], i);
        keep(5, &all, &all[i..], all[..i].to_owned(), i as i32);
    }
}
"#;

/// The lines of `function.parameter=value` in a text, the values of each in order.
fn values(text: &str) -> BTreeMap<&str, Vec<&str>> {
    let mut found: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (name, value) in text.lines().filter_map(|line| line.split_once('=')) {
        found.entry(name).or_default().push(value);
    }
    found
}

fn weir(program: &Path, script: &str) -> Result<String, String> {
    let output = Command::new(env!("CARGO_BIN_EXE_weir"))
        .args(["trace", "-q", "-e", script, "-c", &quoted(program)])
        .output()
        .unwrap();
    match output.status.success() {
        true => Ok(String::from_utf8(output.stdout).unwrap()),
        false => Err(String::from_utf8(output.stderr).unwrap()),
    }
}

/// How a parameter is printed as the program prints it.
fn shown(name: &str) -> (&'static str, String) {
    let (_, field) = name.split_once('.').unwrap();
    match name {
        "parse.path" | "many.h" | "first.only" | "add.why" | "greet.who" | "keep.by" | "keep.text"
        | "keep.owned" => ("%s", format!("str(args.{field})")),
        "behind.x" | "mixed.a" | "mixed.c" => ("%d", format!("(int64)args.{field}")),
        "add.this" => ("%d", "*(int64 *)args.this".to_owned()),
        _ => ("%d", format!("args.{field}")),
    }
}

/// Reads each parameter that the program prints, and answers those that weir refuses, with the reason.
#[track_caller]
fn check(program: &Path, what: &str) -> BTreeMap<String, String> {
    let alone = target::output(program, "");
    let mut refused = BTreeMap::new();
    for (name, expected) in values(&alone) {
        let (function, _) = name.split_once('.').unwrap();
        let (conversion, value) = shown(name);
        // A function that GCC has made another of has another name, and names of C++ and Rust have more around them.
        let script = format!(
            "uprobe:{}:*{function}* {{ printf(\"weir.{name}={conversion}\\n\", {value}); }}",
            quoted(program)
        );
        match weir(program, &script) {
            Ok(printed) => {
                let found = values(&printed).remove(format!("weir.{name}").as_str()).unwrap_or_default();
                assert_eq!(found, expected, "{what}: {name}");
            }
            Err(message) => _ = refused.insert(name.to_owned(), message),
        }
    }
    refused
}

/// Each refusal is one of these.
#[track_caller]
fn assert_reasons(refused: &BTreeMap<String, String>, reasons: &[&str], what: &str) {
    for (name, message) in refused {
        assert!(reasons.iter().any(|reason| message.contains(reason)), "{what}: {name}: {message}");
    }
}

const BEHIND_STRUCT: &str = "takes or gives back a struct by value";

#[test]
fn parameters_are_what_the_program_passes() {
    for compiler in ["gcc", "clang"] {
        if !target::is_installed(compiler) {
            skip::skip(compiler, "not installed; parameters are compared without it");
            continue;
        }
        for flags in [&["-O0", "-g"][..], &["-O1", "-g"], &["-O2", "-g"], &["-O2", "-gdwarf-4", "-no-pie"]] {
            let what = format!("{compiler} {flags:?}");
            let program = target::build_with(compiler, "parameters", Source::Text(C), flags);
            let refused = check(&program, &what);
            // One of each kind that stays readable: in the convention's register, and in another.
            let reasons = match (compiler, flags[0]) {
                (_, "-O0") => &[BEHIND_STRUCT][..],
                ("gcc", _) => &[BEHIND_STRUCT, "have no names"],
                _ => &["the compiler has "],
            };
            assert_reasons(&refused, reasons, &what);
            let is_read = |name: &str| !refused.contains_key(name);
            assert!(is_read("member.n"), "{what}: {refused:?}");
            if compiler == "clang" && flags[0] != "-O0" {
                assert!(
                    is_read("parse.len") && is_read("behind.x") && is_read("many.h"),
                    "{what}: {refused:?}"
                );
                assert!(!is_read("parse.flags") && !is_read("taken.unused"), "{what}: {refused:?}");
            }
        }
    }
}

#[test]
fn methods_have_their_object() {
    for compiler in ["g++", "clang++"] {
        if !target::is_installed(compiler) {
            skip::skip(compiler, "not installed; methods are compared without it");
            continue;
        }
        for flags in [&["-O0", "-g"], &["-O2", "-g"]] {
            let program = target::build_with(compiler, "parameters-methods", Source::Text(CPP), flags);
            let refused = check(&program, &format!("{compiler} {flags:?}"));
            assert!(refused.is_empty(), "{compiler} {flags:?}: {refused:?}");
        }
    }
}

#[test]
fn functions_of_rust_have_their_parameters() {
    if !target::is_installed("rustc") {
        return skip::skip("rust_strings", "rustc is not installed");
    }
    for flags in [&["-g", "--edition=2021"][..], &["-g", "-O", "--edition=2021"]] {
        let program = target::build_with("rustc", "parameters-rust", Source::Text(RUST), flags);
        let what = format!("rustc {flags:?}");
        let refused = check(&program, &what);
        match flags.contains(&"-O") {
            false => assert!(refused.is_empty(), "{what}: {refused:?}"),
            true => {
                assert_reasons(&refused, &["the compiler has "], &what);
                // It takes the length of `who` alone, in the register of its address.
                assert!(refused.contains_key("greet.who"), "{what}: {refused:?}");
                let is_read = |name: &&str| !refused.contains_key(*name);
                assert!(["greet.times", "keep.by", "keep.owned"].iter().all(is_read), "{what}: {refused:?}");
            }
        }
    }
}

#[test]
fn a_filter_compares_what_is_passed() {
    if !target::is_installed("clang") {
        return skip::skip("clang", "not installed; parameters are compared without it");
    }
    let program = target::build_with("clang", "parameters", Source::Text(C), &["-O2", "-g"]);
    let run = |filter: &str| {
        let script = format!("uprobe:{}:parse {{ printf(\"weir.len=%d\\n\", args.len); }}", quoted(&program));
        Command::new(env!("CARGO_BIN_EXE_weir"))
            .args(["trace", "-q", "--filter", filter, "-e", &script, "-c", &quoted(&program)])
            .output()
            .unwrap()
    };
    let kept = String::from_utf8(run("len == 9").stdout).unwrap();
    assert_eq!(values(&kept)["weir.len"], ["9"]);
    let refused = run("flags == 41");
    let said = String::from_utf8_lossy(&refused.stderr);
    assert!(!refused.status.success() && said.contains("the compiler has optimised it away"), "{said}");
}

/// That there are no names, and why.
#[track_caller]
fn check_unnamed(script: &str, program: &Path, why: &str) {
    let message = weir(program, &script.replace("APP", &quoted(program))).unwrap_err();
    assert!(message.contains("have no names") && message.contains(why), "{script}: {message}");
}

#[test]
fn where_parameters_have_no_names_the_reason_is_told() {
    let build = |flags: &[&str]| target::build_with("gcc", "parameters", Source::Text(C), flags);
    let program = build(&["-O2", "-g"]);
    check_unnamed("uprobe:APP:main+4 { print(args.argc); }", &program, "this is an instruction inside of it");
    check_unnamed("uprobe:APP:parse.* { print(args.len); }", &program, "it is a clone of a function");
    check_unnamed("uprobe:APP:_start { print(args.len); }", &program, "does not say what it takes");
    check_unnamed("uprobe:APP:main { print(args.argc); }", &build(&["-O2", "-g0"]), "build it with -g");
    let none = "__attribute__((noipa)) int nothing(void) { return 1; } int main(void) { return nothing(); }";
    let none = target::build("parameters-none", Source::Text(none), &["-O0", "-g"]);
    check_unnamed("uprobe:APP:nothing { print(args.len); }", &none, "says that it takes none");
}
