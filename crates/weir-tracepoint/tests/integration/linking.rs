//! What linkers make of the notes: of inline functions and templates in several files, of code that nobody calls, of shared
//! libraries, with link-time optimisation, after strip(1).

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use testkit::target;
use testkit::{paths, skip};
use weir_symbols::{Binary, StaticProbe};

/// Compiles these files on their own, and links them; the program.
fn link(name: &str, compiler: &str, compile: &[&str], link: &[&str], files: &[(&str, &str)]) -> PathBuf {
    let folder = paths::fresh("linking", name);
    std::fs::create_dir_all(&folder).unwrap();
    for (file, text) in files {
        std::fs::write(folder.join(file), text).unwrap();
    }
    let objects: Vec<PathBuf> = files
        .iter()
        .filter(|(file, _)| !file.ends_with(".h"))
        .map(|(file, _)| {
            let (source, object) = (folder.join(file), folder.join(file).with_extension("o"));
            let mut command = Command::new(compiler);
            command.args(["-c", "-Wall", "-Wextra", "-Werror", "-I"]).arg(paths::root().join("include"));
            done(command.args(compile).arg(&source).arg("-o").arg(&object));
            object
        })
        .collect();
    let program = folder.join("program");
    done(Command::new(compiler).args(compile).args(objects).args(link).arg("-o").arg(&program));
    program
}

/// The program and what it was made of.
fn remove(program: &Path) {
    std::fs::remove_dir_all(program.parent().unwrap()).unwrap();
}

/// Runs a tool, which has nothing to say.
#[track_caller]
fn done(command: &mut Command) {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.is_empty(), "{command:?}:\n{said}");
}

/// The places of each event of `two`; all are sound, and those of an event have one semaphore.
#[track_caller]
fn places(program: &Path) -> BTreeMap<String, usize> {
    let binary = Binary::open(program).unwrap();
    assert_eq!(binary.static_probes_left_out(), 0, "{}", program.display());
    let ours = || binary.static_probes().iter().filter(|probe| probe.provider == "two");
    assert!(ours().all(|probe| probe.schema.is_some()));
    let mut events: BTreeMap<String, Vec<&StaticProbe>> = BTreeMap::new();
    ours().for_each(|probe| events.entry(probe.name.clone()).or_default().push(probe));
    for (event, places) in &events {
        let semaphores: BTreeSet<_> = places.iter().map(|probe| probe.semaphore).collect();
        assert_eq!(semaphores.len(), 1, "{event}");
    }
    events.into_iter().map(|(event, places)| (event, places.len())).collect()
}

const HEADER: &str = r#"
    #include "weir/tracepoint.h"
    inline int shared(int n) { WEIR_TRACEPOINT(two, inlined, (int, n, n)); return n + 1; }
    template <typename T> T twice(T n) { WEIR_TRACEPOINT(two, templated, (T, n, n)); return n * 2; }
    template <typename T> T never(T n) { WEIR_TRACEPOINT(two, never, (T, n, n)); return n; }
    int other(int n);
"#;
const FIRST: &str = r#"
    #include "two.h"
    template int never<int>(int);
    int main() {
        int sum = 0;
        for (int n = 0; n < 10; n++) sum += shared(n) + twice(n) + other(n);
        return sum == 0;
    }
"#;
const SECOND: &str = r#"
    #include "two.h"
    template int never<int>(int);
    int other(int n) { return shared(n) + twice(n) + static_cast<int>(twice(static_cast<long>(n))); }
"#;

#[test]
fn inline_functions_and_templates_of_two_files_leave_no_note_of_code_that_is_gone() {
    let files = [("two.h", HEADER), ("first.cpp", FIRST), ("second.cpp", SECOND)];
    for compiler in ["g++", "clang++"] {
        if !target::is_installed(compiler) {
            skip::skip(compiler, "not installed; what it links is not looked at");
            continue;
        }
        for level in ["-O0", "-O2"] {
            let name = format!("templates-{compiler}{level}");
            let program =
                link(&name, compiler, &[level, "-ffunction-sections"], &["-Wl,--gc-sections"], &files);
            let found = places(&program);
            let names: Vec<&str> = found.keys().map(String::as_str).collect();
            assert_eq!(names, ["inlined", "templated"], "{name}: `never` is called by nobody");
            if level == "-O0" {
                assert_eq!(found["inlined"], 1, "{name}: of two copies of a function one is kept");
                assert_eq!(found["templated"], 2, "{name}: of int and of long");
            }
            done(&mut Command::new(&program));
            remove(&program);
        }
    }
}

const C_FIRST: &str = r#"
    #include "weir/tracepoint.h"
    int other(int n);
    static int local(int n) { WEIR_TRACEPOINT(two, both, (int, n, n)); return n; }
    int main(void) { int sum = 0; for (int n = 0; n < 10; n++) sum += local(n) + other(n); return sum == 0; }
"#;
const C_SECOND: &str = r#"
    #include "weir/tracepoint.h"
    int other(int n);
    int other(int n) { WEIR_TRACEPOINT(two, both, (long, n, n)); WEIR_TRACEPOINT(two, one); return n; }
"#;

#[test]
fn link_time_optimisation_keeps_every_place() {
    let files = [("first.c", C_FIRST), ("second.c", C_SECOND)];
    for flags in [&["-O2", "-flto"][..], &["-O2", "-flto", "-flto-partition=max"], &["-O0", "-flto"]] {
        let program = link(&format!("lto{}", flags.concat()), "gcc", flags, &[], &files);
        let found = places(&program);
        assert!(found["both"] >= 2 && found["one"] >= 1, "{flags:?}: {found:?}");
        done(&mut Command::new(&program));
        remove(&program);
    }
}

#[test]
fn a_shared_library_needs_no_relocation_of_its_text() {
    let files = [("second.c", C_SECOND)];
    let library = link("shared", "gcc", &["-O2", "-fPIC"], &["-shared", "-Wl,-z,text"], &files);
    assert_eq!(places(&library).values().sum::<usize>(), 2);
    assert!(!Binary::open(&library).unwrap().is_text_relocated());
    remove(&library);
}

#[test]
fn a_stripped_program_has_its_notes() {
    let files = [("first.c", C_FIRST), ("second.c", C_SECOND)];
    let program = link("strip", "gcc", &["-O2"], &[], &files);
    let before = Binary::open(&program).unwrap().static_probes().to_vec();
    done(Command::new("strip").arg("--strip-all").arg(&program));
    assert_eq!(Binary::open(&program).unwrap().static_probes(), before);
    assert_eq!(places(&program).values().sum::<usize>(), 3);
    remove(&program);
}
