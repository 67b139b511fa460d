//! Programs to probe, compiled from C, C++ or Rust: plainly, as a user's compiler does, without pads or special flags.
//!
//! In: text, or a file of tests/programs, which may include headers that lie there. Out: the path of a program in
//! `target/testkit/`, compiled at most once for the same text, headers, compiler and flags. [`matrix`] gives one for
//! each way of compiling. A source that does not compile is a bug of ours: it panics with the compiler's words.

use std::collections::hash_map::DefaultHasher;
use std::fs;
use std::hash::{Hash as _, Hasher as _};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::{paths, skip};

/// What to compile.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Source<'a> {
    /// C text.
    Text(&'a str),
    /// A file of tests/programs, such as `overhead.c`.
    Program(&'a str),
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Compiler {
    Gcc,
    Clang,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Linkage {
    /// A position-independent program.
    Pie,
    /// At fixed addresses, with shared libraries.
    NoPie,
    /// At fixed addresses, with libc inside.
    Static,
}

/// One way of compiling.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Variant {
    pub compiler: Compiler,
    /// `-O0` or `-O2`.
    pub optimization: &'static str,
    pub linkage: Linkage,
}

impl Compiler {
    pub fn command(self) -> &'static str {
        match self {
            Compiler::Gcc => "gcc",
            Compiler::Clang => "clang",
        }
    }

    pub fn is_installed(self) -> bool {
        is_installed(self.command())
    }
}

impl Linkage {
    /// Given in full: distributions differ in what they do without.
    pub fn flags(self) -> &'static [&'static str] {
        match self {
            Linkage::Pie => &["-fPIE", "-pie"],
            Linkage::NoPie => &["-fno-pie", "-no-pie"],
            Linkage::Static => &["-fno-pie", "-no-pie", "-static"],
        }
    }
}

impl std::fmt::Display for Variant {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let linkage = match self.linkage {
            Linkage::Pie => "pie",
            Linkage::NoPie => "no-pie",
            Linkage::Static => "static",
        };
        write!(f, "{} {} {linkage}", self.compiler.command(), self.optimization)
    }
}

/// Compiles with `cc` and these flags (after the source, so that libraries may stand among them).
pub fn build(name: &str, source: Source<'_>, flags: &[&str]) -> PathBuf {
    compile(name, "cc", source, flags)
}

/// The same with a compiler of its own: `g++`, `clang++`, `rustc`.
pub fn build_with(compiler: &str, name: &str, source: Source<'_>, flags: &[&str]) -> PathBuf {
    compile(name, compiler, source, flags)
}

/// Whether there is such a program.
pub fn is_installed(compiler: &str) -> bool {
    Command::new(compiler).arg("--version").output().is_ok_and(|out| out.status.success())
}

/// A program of tests/programs by its stem, at -O2 and as a position-independent program.
pub fn program(stem: &str) -> PathBuf {
    build(stem, Source::Program(&format!("{stem}.c")), &["-O2", "-fPIE", "-pie", "-pthread"])
}

/// Copies a file that is to be executed. By another process: a file that this one had open for writing when another of its threads
/// started a program could not be executed until that program had begun (ETXTBSY).
pub fn copy(from: &Path, to: &Path) {
    let status = Command::new("cp").arg("--dereference").arg(from).arg(to).status().expect("there is cp");
    assert!(status.success(), "cp {} {}: {status}", from.display(), to.display());
}

/// What a program prints that reads `input`. Panics if it fails.
pub fn output(program: &Path, input: &str) -> String {
    let file = paths::target().join(format!("input-{}", std::process::id()));
    fs::write(&file, input).expect("the target folder can be written to");
    let input = fs::File::open(&file).expect("it was written");
    let output = Command::new(program).stdin(input).output().expect("the program can be started");
    let _ = fs::remove_file(&file);
    assert!(output.status.success(), "{} ended with {}", program.display(), output.status);
    String::from_utf8(output.stdout).expect("the program prints UTF-8")
}

/// Half of {gcc, clang} × {-O0, -O2} × {PIE, not PIE, static}: each choice with each of the others. `WEIR_MATRIX=all` asks for the other half too.
const EVERY_DAY: [(Compiler, &str, Linkage); 6] = [
    (Compiler::Gcc, "-O0", Linkage::Pie),
    (Compiler::Gcc, "-O2", Linkage::NoPie),
    (Compiler::Gcc, "-O2", Linkage::Static),
    (Compiler::Clang, "-O2", Linkage::Pie),
    (Compiler::Clang, "-O0", Linkage::NoPie),
    (Compiler::Clang, "-O0", Linkage::Static),
];

/// The same source compiled in several ways: by both compilers, with and without optimization, in each linkage ([`EVERY_DAY`]).
/// A compiler that is missing is skipped by the name `clang` or `gcc`.
pub fn matrix(name: &str, source: Source<'_>, flags: &[&str]) -> Vec<(Variant, PathBuf)> {
    let is_all = std::env::var("WEIR_MATRIX").is_ok_and(|asked| asked == "all");
    let mut out = Vec::new();
    for compiler in [Compiler::Gcc, Compiler::Clang] {
        if !compiler.is_installed() {
            skip::skip(compiler.command(), format!("not installed; {name} is not tested as compiled by it"));
            continue;
        }
        for optimization in ["-O0", "-O2"] {
            for linkage in [Linkage::Pie, Linkage::NoPie, Linkage::Static] {
                if !is_all && !EVERY_DAY.contains(&(compiler, optimization, linkage)) {
                    continue;
                }
                let all = [&[optimization], linkage.flags(), flags].concat();
                let path = compile(name, compiler.command(), source, &all);
                out.push((Variant { compiler, optimization, linkage }, path));
            }
        }
    }
    out
}

fn compile(name: &str, compiler: &str, source: Source<'_>, flags: &[&str]) -> PathBuf {
    let folder = paths::target().join("testkit");
    fs::create_dir_all(&folder).unwrap_or_else(|e| panic!("create {}: {e}", folder.display()));
    let text = match source {
        Source::Text(text) => text.to_string(),
        Source::Program(file) => {
            let path = paths::root().join("tests/programs").join(file);
            fs::read_to_string(&path).unwrap_or_else(|e| panic!("read {}: {e}", path.display()))
        }
    };
    let output = folder.join(format!("{name}-{:016x}", key(compiler, flags, &text)));
    if output.exists() {
        return output;
    }
    // Under names of this process and call, then linked: test programs run in parallel and share the folder, and one
    // that already runs must not lose its file to another's copy.
    static CALL: AtomicU32 = AtomicU32::new(0);
    let unique = format!("{}.{}", std::process::id(), CALL.fetch_add(1, Ordering::Relaxed));
    let source = folder.join(format!("{name}.{unique}.{}", extension(compiler)));
    let made = folder.join(format!("{name}.{unique}"));
    fs::write(&source, &text).unwrap_or_else(|e| panic!("write {}: {e}", source.display()));
    run(compiler, &source, &made, flags);
    match fs::hard_link(&made, &output) {
        Err(e) if e.kind() != std::io::ErrorKind::AlreadyExists => panic!("link {}: {e}", output.display()),
        _ => {}
    }
    for file in [&source, &made] {
        let _ = fs::remove_file(file);
    }
    output
}

/// Compilers are told apart by their name alone: after an upgrade of one, `target/testkit` may be removed by hand.
fn key(compiler: &str, flags: &[&str], text: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    (compiler, flags, text).hash(&mut hasher);
    headers().hash(&mut hasher);
    hasher.finish()
}

/// The headers of tests/programs and of weir, whatever program includes them.
fn headers() -> Vec<String> {
    let entries = |folder| {
        let folder = paths::root().join(folder);
        fs::read_dir(&folder).unwrap_or_else(|e| panic!("read {}: {e}", folder.display())).flatten()
    };
    let entries = entries("tests/programs").chain(entries("include/weir"));
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    files.retain(|path| path.extension().is_some_and(|extension| extension == "h"));
    files.sort();
    files.iter().map(|path| fs::read_to_string(path).unwrap_or_default()).collect()
}

fn extension(compiler: &str) -> &'static str {
    match compiler {
        "rustc" => "rs",
        _ if compiler.ends_with("++") => "cpp",
        _ => "c",
    }
}

fn run(compiler: &str, source: &Path, output: &Path, flags: &[&str]) {
    let mut command = Command::new(compiler);
    command.arg("-o").arg(output).arg(source).args(flags);
    if compiler == "rustc" {
        // Its name would have to be one of Rust's.
        command.args(["--crate-name", "program"]);
    } else {
        for folder in ["tests/programs", "include"] {
            command.arg("-I").arg(paths::root().join(folder));
        }
    }
    let result = command.output().unwrap_or_else(|e| panic!("run {compiler}: {e}; install gcc"));
    assert!(result.status.success(), "{command:?}:\n{}", String::from_utf8_lossy(&result.stderr));
}

#[cfg(test)]
mod tests {
    use super::*;

    const ANSWER: Source<'static> = Source::Text("int main(void) { return ANSWER; }");

    #[test]
    fn a_program_is_compiled_once_for_the_same_flags() {
        let first = build("answer", ANSWER, &["-DANSWER=7"]);
        let modified = fs::metadata(&first).unwrap().modified().unwrap();
        assert_eq!(Command::new(&first).status().unwrap().code(), Some(7));
        assert_eq!(build("answer", ANSWER, &["-DANSWER=7"]), first);
        assert_eq!(fs::metadata(&first).unwrap().modified().unwrap(), modified);
        assert_ne!(build("answer", ANSWER, &["-DANSWER=8"]), first);
    }

    #[test]
    fn the_matrix_has_every_linkage_and_each_program_runs() {
        let programs = matrix("matrix", ANSWER, &["-DANSWER=3"]);
        assert_eq!(programs.len() % 6, 0);
        for (variant, path) in programs {
            assert_eq!(Command::new(path).status().unwrap().code(), Some(3), "{variant}");
        }
    }

    #[test]
    fn every_test_program_compiles_without_warnings() {
        for entry in fs::read_dir(paths::root().join("tests/programs")).unwrap() {
            let file = entry.unwrap().file_name().into_string().unwrap();
            if let Some(stem) = file.strip_suffix(".c") {
                let text = fs::read_to_string(paths::root().join("tests/programs").join(&file)).unwrap();
                let library: &[&str] = if text.contains("main(") { &[] } else { &["-shared", "-fPIC"] };
                for optimization in ["-O0", "-O2"] {
                    let flags =
                        [&[optimization, "-Wall", "-Wextra", "-Werror", "-pthread"], library].concat();
                    build(stem, Source::Program(&file), &flags);
                }
            }
        }
    }
}
