//! What can be wrong with a name, a file or a process: each message says what was given, what is wrong, what to do.

use std::fmt::Write;
use std::io;
use std::path::PathBuf;

/// A condition of the world. (A fault in a script is a diagnostic, made by whoever knows its place in the text.)
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    #[error("cannot read {}: {source} ({call})", path.display())]
    Io { path: PathBuf, call: &'static str, source: io::Error },

    #[error("{} is {what}, not a regular file; name a program or a library", path.display())]
    NotAFile { path: PathBuf, what: &'static str },

    #[error("{} has {bytes} bytes, more than the {max} that are read; strip its debug information", path.display())]
    TooLarge { path: PathBuf, bytes: u64, max: u64 },

    #[error("{} has {bytes} bytes, of which {stored} are stored; a file with so many holes is not read", path.display())]
    Sparse { path: PathBuf, bytes: u64, stored: u64 },

    #[error("{} is not an ELF file: {found}; name {instead}", path.display())]
    NotElf { path: PathBuf, found: String, instead: &'static str },

    #[error("{} is a 32-bit ELF file; only 64-bit x86 programs and libraries can be probed", path.display())]
    ThirtyTwoBit { path: PathBuf },

    #[error("{} is an ELF file for {machine}; only x86-64 programs and libraries can be probed", path.display())]
    WrongMachine { path: PathBuf, machine: String },

    #[error("{} is {kind}, not a program or a shared library; {instead}", path.display())]
    NotLinked { path: PathBuf, kind: String, instead: &'static str },

    #[error("{} is not a valid ELF file: {what}; it may be truncated: compare it with its package", path.display())]
    Malformed { path: PathBuf, what: String },

    #[error("no function named \"{name}\" in {}{}", path.display(), near_or(near, *functions))]
    NoFunction {
        path: PathBuf,
        name: String,
        /// Nearest first.
        near: Vec<String>,
        /// Functions that the file names.
        functions: usize,
    },

    #[error("no function matches \"{pattern}\" in {}{}", path.display(), near_or(&[], *functions))]
    NoMatch { path: PathBuf, pattern: String, functions: usize },

    #[error("no static probe (USDT) {} in {}{}", quoted(wanted), path.display(), near_or_probes(near, *total))]
    NoStaticProbe {
        path: PathBuf,
        /// `name` or `provider:name`.
        wanted: String,
        /// Nearest first.
        near: Vec<String>,
        /// Places of static probes in the file.
        total: usize,
    },

    #[error("{} has no line tables that can be read: {why}", path.display())]
    NoLines { path: PathBuf, why: &'static str },

    #[error("no source file \"{file}\" in the line tables of {}{}", path.display(), did_you_mean(near))]
    NoSource {
        path: PathBuf,
        file: String,
        /// Nearest first.
        near: Vec<String>,
    },

    #[error("line {line} of {file} has no code in {}{}", path.display(), near_lines(near))]
    NoCode {
        path: PathBuf,
        file: String,
        line: u64,
        /// Lines that have some.
        near: Vec<u64>,
    },

    #[error("no program or library named \"{name}\"; searched {}{}", list(searched), did_you_mean(near))]
    NoBinary {
        name: String,
        searched: Vec<String>,
        /// Nearest first.
        near: Vec<String>,
    },

    #[error("no such file: {}{}{}", path.display(), if near.is_empty() { "; check the path" } else { "" }, did_you_mean(near))]
    NoFile {
        path: PathBuf,
        /// Nearest first.
        near: Vec<String>,
    },

    #[error("{} leads to {}, which is not there", path.display(), to.display())]
    NowhereLink { path: PathBuf, to: PathBuf },

    #[error(
        "process {pid} runs {}, which has been deleted or replaced since, and what it runs cannot be read ({reason}): restart \
         the process, or run weir as root (CAP_SYS_ADMIN, or CAP_CHECKPOINT_RESTORE from Linux 5.9 on)",
        path.display()
    )]
    Deleted { pid: i32, path: PathBuf, reason: String },

    #[error("{}: more than {max} symbolic links; remove the loop", path.display())]
    LinkLoop { path: PathBuf, max: usize },

    #[error(
        "the name of a program or library is empty; give a path, a name in $PATH or a library such as libc"
    )]
    EmptyName,

    #[error("{what} in line {line} of a maps file: \"{text}\"")]
    Maps { line: usize, what: &'static str, text: String },
}

fn near_or(near: &[String], functions: usize) -> String {
    match (near.is_empty(), functions) {
        (false, _) => did_you_mean(near),
        (true, 0) => "; it names no functions at all (stripped): install its debug symbols".into(),
        (true, 1) => "; it names 1 other function".into(),
        (true, n) => format!("; it names {n} other functions"),
    }
}

fn quoted(wanted: &str) -> String {
    if crate::pattern::is_wildcard(wanted) {
        format!("matches \"{wanted}\"")
    } else {
        format!("is named \"{wanted}\"")
    }
}

fn near_or_probes(near: &[String], total: usize) -> String {
    match (near.is_empty(), total) {
        (false, _) => did_you_mean(near),
        (true, 0) => "; it has none at all: it was built without them".into(),
        (true, n) => format!("; it has {n} places of others"),
    }
}

fn near_lines(near: &[u64]) -> String {
    match near {
        [] => "; no line of it has any".into(),
        [one] => format!("; the nearest line with code is {one}"),
        [before, .., after] => format!("; the nearest lines with code are {before} and {after}"),
    }
}

fn did_you_mean(near: &[String]) -> String {
    if near.is_empty() { String::new() } else { format!("; did you mean {}?", near.join(", ")) }
}

fn list(searched: &[String]) -> String {
    let mut out = String::new();
    for (i, place) in searched.iter().enumerate() {
        let _ = write!(out, "{}{place}", if i == 0 { "" } else { ", " });
    }
    if out.is_empty() { "nowhere: $PATH is empty".into() } else { out }
}
