//! `weir/tracepoint.h`, and `weir/log.h` on it: it compiles everywhere without a word, costs two instructions while it is off, refuses what it cannot do,
//! and other tools see its notes.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use iced_x86::{Decoder, DecoderOptions, Instruction, Mnemonic};
use testkit::target::{self, Source};
use testkit::{paths, skip};
use weir_symbols::Binary;

const WARNINGS: [&str; 5] = ["-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Wshadow"];
const C_STANDARDS: [&str; 6] = ["c99", "c11", "c17", "c2x", "gnu99", "gnu17"];
const CPP_STANDARDS: [&str; 6] = ["c++11", "c++14", "c++17", "c++20", "c++2b", "gnu++17"];
const OPTIMIZATIONS: [&str; 6] = ["-O0", "-O1", "-O2", "-O3", "-Os", "-Og"];
/// How code is placed, and what changes it much.
const FORMS: [&[&str]; 7] = [
    &["-fPIC"],
    &["-fPIE"],
    &["-fno-pic"],
    &["-flto"],
    &["-fsanitize=address,undefined"],
    &["-ffunction-sections", "-fno-omit-frame-pointer"],
    &["-mcmodel=medium"],
];

fn include() -> PathBuf {
    paths::root().join("include")
}

/// Compiles a file to an object that nobody needs.
fn compile(compiler: &str, language: &str, file: &Path, flags: &[&str]) -> Output {
    let mut command = Command::new(compiler);
    command.args(["-x", language, "-c", "-o", "/dev/null", "-I"]).arg(include()).args(flags).arg(file);
    command.output().unwrap()
}

/// Every standard, every optimisation and every form, each with the usual one of the others, and not a word from the compiler.
fn compiles_without_a_word(compiler: &str, language: &str, standards: &[&str]) {
    if !target::is_installed(compiler) {
        return skip::skip(compiler, "not installed; the header is not compiled by it");
    }
    let file = paths::root().join("tests/programs/tracepoints.c");
    let usual = format!("-std={}", standards[1]);
    let standards = standards.iter().map(|standard| vec![format!("-std={standard}"), "-O2".to_owned()]);
    let optimizations = OPTIMIZATIONS.iter().map(|level| vec![usual.clone(), (*level).to_owned()]);
    let forms = FORMS.iter().flat_map(|form| {
        let flags = |level: &str| {
            let first = [usual.as_str(), level].map(str::to_owned).into_iter();
            first.chain(form.iter().map(|flag| (*flag).to_owned())).collect::<Vec<String>>()
        };
        [flags("-O0"), flags("-O2")]
    });
    let others = ["logs.c", "tracepoints_wide.c"].map(|name| paths::root().join("tests/programs").join(name));
    let of_others = others.iter().flat_map(|other| standards.clone().map(move |flags| (other, flags)));
    let unoptimized = [vec![usual.clone(), "-O0".to_owned(), "-fPIC".to_owned()]];
    let of_others = of_others.chain(unoptimized.map(|flags| (&others[1], flags)));
    let all = standards.clone().chain(optimizations).chain(forms).map(|flags| (&file, flags));
    for (file, flags) in all.chain(of_others) {
        let all: Vec<&str> = flags.iter().map(String::as_str).chain(WARNINGS).collect();
        let output = compile(compiler, language, file, &all);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && said.is_empty(), "{compiler} {}:\n{said}", flags.join(" "));
    }
}

#[test]
fn gcc_compiles_it_as_c() {
    compiles_without_a_word("gcc", "c", &C_STANDARDS);
}

#[test]
fn clang_compiles_it_as_c() {
    compiles_without_a_word("clang", "c", &C_STANDARDS);
}

#[test]
fn gcc_compiles_it_as_cpp() {
    compiles_without_a_word("g++", "c++", &CPP_STANDARDS);
}

#[test]
fn clang_compiles_it_as_cpp() {
    compiles_without_a_word("clang++", "c++", &CPP_STANDARDS);
}

/// Instructions of the function `quiet` up to its `ret`, whose tracepoint is off.
fn quiet(compiler: &str, level: &str, statement: &str) -> Vec<Instruction> {
    let source = format!(
        "#include \"weir/tracepoint.h\"\n\
         void quiet(int n, const char *text, double x);\n\
         void quiet(int n, const char *text, double x) {{ (void)n; (void)text; (void)x; {statement} }}\n\
         int main(void) {{ quiet(1, \"\", 2); return 0; }}\n"
    );
    let program =
        target::build_with(compiler, "tracepoint-off", Source::Text(&source), &[level, "-fPIE", "-pie"]);
    let binary = Binary::open(&program).unwrap();
    let function = binary.find("quiet").unwrap()[0];
    let bytes = binary.bytes(function.address, function.size as usize).unwrap();
    let mut out = Vec::new();
    for instruction in Decoder::with_ip(64, bytes, function.address.0, DecoderOptions::NONE) {
        let is_end = instruction.mnemonic() == Mnemonic::Ret;
        out.push(instruction);
        if is_end {
            break;
        }
    }
    out
}

#[test]
fn off_it_is_a_comparison_with_memory_and_a_branch_that_is_not_taken() {
    let statements = [
        "WEIR_TRACEPOINT(tp, event);",
        "WEIR_TRACEPOINT(tp, event, (int, n, n), (string, text, text), (double, x, x));",
        "WEIR_TRACEPOINT(tp, event, (int, n, n * n + 1), (array(char, 4), text, text), (float, x, (float)x));",
    ];
    for compiler in ["gcc", "clang"] {
        if !target::is_installed(compiler) {
            skip::skip(compiler, "not installed; its code is not looked at");
            continue;
        }
        for level in ["-O1", "-O2", "-O3"] {
            for statement in statements {
                let code = quiet(compiler, level, statement);
                let names: Vec<Mnemonic> = code.iter().map(Instruction::mnemonic).collect();
                assert_eq!(
                    names,
                    [Mnemonic::Cmp, Mnemonic::Jne, Mnemonic::Ret],
                    "{compiler} {level} {statement}"
                );
                assert!(code[0].is_ip_rel_memory_operand(), "{compiler} {level} {statement}");
                assert!(
                    code[1].near_branch_target() > code[2].ip(),
                    "what is rare stands behind what is not"
                );
            }
        }
    }
}

/// A source with this statement is refused, in C and in C++, and a message has these words.
#[track_caller]
fn refused(statement: &str, words: &str) {
    let source = format!(
        "#include <errno.h>\n#include \"weir/tracepoint.h\"\n\
         void f(int n, long double l, float x, const char *text) {{ (void)n; (void)l; (void)x; (void)text; {statement} }}\n"
    );
    let folder = paths::target().join("testkit");
    std::fs::create_dir_all(&folder).unwrap();
    let file = folder.join(format!("refused-{}-{:?}.c", std::process::id(), std::thread::current().id()));
    std::fs::write(&file, source).unwrap();
    for (compiler, language, standard) in [
        ("gcc", "c", "-std=c99"),
        ("g++", "c++", "-std=c++11"),
        ("clang", "c", "-std=c99"),
        ("clang++", "c++", "-std=c++11"),
    ] {
        if target::is_installed(compiler) {
            let output = compile(compiler, language, &file, &[standard]);
            let said = String::from_utf8_lossy(&output.stderr);
            assert!(!output.status.success(), "{compiler}: {statement}");
            assert!(said.contains(words), "{compiler}: {statement}\n{said}");
        }
    }
    std::fs::remove_file(&file).unwrap();
}

#[test]
fn what_is_no_field_is_refused_in_words() {
    let types = "weir: a type is an integer type of 1, 2, 4 or 8 bytes, hex(T)";
    refused("WEIR_TRACEPOINT(tp, event, (long double, l, l));", types);
    refused("WEIR_TRACEPOINT(tp, event, (__int128, n, n));", types);
    refused("typedef float real; WEIR_TRACEPOINT(tp, event, (real, x, x));", types);
    refused("WEIR_TRACEPOINT(tp, event, (hex(float), x, x));", types);
    refused("WEIR_TRACEPOINT(tp, event, (network(double), x, x));", types);
    refused("WEIR_TRACEPOINT(tp, event, (sequence(long double), l, &l, 1));", types);
    refused("WEIR_TRACEPOINT_LEVEL(15, tp, event, (int, n, n));", "weir: a level is one of WEIR_LEVEL_EMERG");
    refused("WEIR_TRACEPOINT(tp, event, (int, n, n), (int, n, n));", "weir_field_n");
    refused("WEIR_TRACEPOINT(tp, event, (int, errno, n));", "pasting");
}

#[test]
fn more_fields_than_there_may_be_are_refused_in_words() {
    let arrays: String = (0..17).map(|n| format!(", (array(char, 2), n{n}, text)")).collect();
    refused(&format!("WEIR_TRACEPOINT(tp, event{arrays});"), "at most 16 are enumerations");
    let most: String = (0..32).map(|n| format!("(int, n{n}, n), ")).collect();
    refused(&format!("WEIR_TRACEPOINT(tp, event, {most}(int, a, n));"), "WEIR_TP_AT_MOST_32_FIELDS");
    refused(
        &format!("WEIR_TRACEPOINT(tp, event, {most}(int, a, n), (int, b, n));"),
        "WEIR_TP_AT_MOST_32_FIELDS",
    );
}

/// Names of the macros that the header defines.
fn macros() -> Vec<String> {
    let list = |extra: &[&str]| {
        let mut command = Command::new("gcc");
        command.args(["-dM", "-E", "-x", "c", "/dev/null", "-I"]).arg(include()).args(extra);
        let output = command.output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let name = |line: &str| line.split(['(', ' ']).nth(1).unwrap_or_default().to_owned();
        text.lines().map(name).collect::<Vec<String>>()
    };
    let before = list(&[]);
    let mut after = list(&["-include", "weir/tracepoint.h"]);
    after.retain(|name| !before.contains(name));
    after
}

#[test]
fn every_macro_that_it_defines_begins_with_weir() {
    let macros = macros();
    assert!(macros.len() > 50);
    assert_eq!(
        macros.into_iter().filter(|name| !name.starts_with("WEIR_")).collect::<Vec<_>>(),
        Vec::<String>::new()
    );
}

fn program() -> PathBuf {
    target::build("tracepoints", Source::Program("tracepoints.c"), &["-O2"])
}

#[test]
fn readelf_shows_the_notes() {
    let output = Command::new("readelf").args(["-n", "-W"]).arg(program()).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
    for event in ["integers", "floats", "texts", "memory", "colors", "twelve", "nothing", "counted"] {
        assert!(text.contains(&format!("Provider: tp\n    Name: {event}\n")), "{text}");
    }
    assert!(text.contains("Arguments: 8@%") && text.contains(" 4@$-1098907648\n"), "{text}");
    assert!(!text.contains("Semaphore: 0x0000000000000000"), "{text}");
    assert_eq!(text.matches("\n  weir ").count(), 8, "{text}");
}

#[test]
fn bpftrace_lists_them() {
    let bpftrace = |arguments: &[&str]| Command::new("bpftrace").args(arguments).output();
    let is_usable = bpftrace(&["--version"]).is_ok_and(|output| output.status.success());
    let program = program();
    if !is_usable {
        return skip::skip("tracepoint-bpftrace", "bpftrace is not installed");
    }
    let output = bpftrace(&["-l", &format!("usdt:{}:*", testkit::paths::quoted(&program))]).unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    if said.contains("root") {
        return skip::skip("tracepoint-bpftrace", "only root may use bpftrace");
    }
    let text = String::from_utf8(output.stdout).unwrap();
    let mut lines: Vec<&str> = text.lines().filter_map(|line| line.split(":tp:").nth(1)).collect();
    lines.sort_unstable();
    assert_eq!(
        lines,
        ["colors", "counted", "floats", "integers", "memory", "nothing", "texts", "twelve"],
        "{said}"
    );
}
