//! Completion scripts and manual pages, read by the programs that they are for.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn weir(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_weir")).args(args).output().unwrap()
}

fn folder(name: &str) -> PathBuf {
    let folder = testkit::paths::target().join(name);
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

fn script(shell: &str) -> PathBuf {
    let output = weir(&["completions", shell]);
    assert!(output.status.success() && output.stderr.is_empty());
    let path = folder(&format!("completions-{shell}")).join("weir");
    std::fs::write(&path, output.stdout).unwrap();
    path
}

/// What bash offers behind these words.
fn offered(script: &Path, words: &[&str]) -> Vec<String> {
    let line = "source \"$1\"; shift; COMP_WORDS=(\"$@\"); COMP_CWORD=$(($# - 1)); \
                _weir weir \"${COMP_WORDS[COMP_CWORD]}\" \"${COMP_WORDS[COMP_CWORD-1]}\"; \
                printf '%s\\n' \"${COMPREPLY[@]}\"";
    let mut bash = Command::new("bash");
    let output = bash.args(["--norc", "-c", line, "bash"]).arg(script).args(words).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect()
}

#[test]
fn bash_completes_subcommands_flags_and_values() {
    let script = script("bash");
    let check = |words: &[&str], wanted: &[&str], unwanted: &[&str]| {
        let offered = offered(&script, words);
        let is_offered = |word: &&&str| offered.iter().any(|offer| offer == **word);
        assert!(wanted.iter().all(|word| is_offered(&word)), "{words:?}: {offered:?}");
        assert!(!unwanted.iter().any(|word| is_offered(&word)), "{words:?}: {offered:?}");
    };
    check(
        &["weir", ""],
        &["trace", "list", "ps", "top", "detach", "doctor", "completions", "man"],
        &["nonsense"],
    );
    check(&["weir", "de"], &["detach"], &["trace"]);
    check(&["weir", "trace", "--"], &["--budget", "--pid", "--cmd", "--emit"], &["--all", "--no-sessions"]);
    check(&["weir", "trace", "--format", ""], &["text", "json"], &["--pid"]);
    check(&["weir", "detach", "-"], &["--all", "-p", "--pid"], &["--budget"]);
    check(&["weir", "bpf", ""], &["run", "verify", "dis", "asm", "build"], &["trace"]);
    check(&["weir", "completions", ""], &["bash", "zsh", "fish"], &[]);
}

/// What a shell offers behind a line that is not finished.
fn offered_behind(script: &Path, line: &str) -> Vec<String> {
    let call = "source \"$1\"; COMP_LINE=$2; COMP_POINT=${#COMP_LINE}; _weir_probes \"$3\"; printf '%s\\n' \"${COMPREPLY[@]}\"";
    let mut bash = Command::new("bash");
    bash.args(["--norc", "-c", call, "bash"]).arg(script).args([line, env!("CARGO_BIN_EXE_weir")]);
    let output = bash.output().unwrap();
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
    String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect()
}

#[test]
fn bash_completes_attach_points() {
    let script = script("bash");
    let check = |line: &str, wanted: &str| {
        let offered = offered_behind(&script, line);
        assert!(offered.iter().any(|offer| offer == wanted), "{line}: {wanted} is not in {offered:?}");
    };
    check("weir trace -e 'upr", "uprobe:");
    check("weir trace -e 'uprobe:libc:mallo", "uprobe:libc:malloc");
    check("weir trace -e 'uprobe:libc:free { } uprobe:libc:mallo", "uprobe:libc:free { } uprobe:libc:malloc");
    // Outside of quotes the word that bash completes begins behind the last colon.
    check("weir record -e uprobe:libc:mallo", "malloc");
    check("weir list -v uretprobe:li", "libc:");
    check("weir list \"uprobe:libc:cal", "uprobe:libc:calloc");
}

#[test]
fn other_shells_read_their_scripts() {
    for shell in ["zsh", "fish"] {
        let script = script(shell);
        match Command::new(shell).arg("-n").arg(&script).output() {
            Ok(output) => assert!(output.status.success() && output.stderr.is_empty(), "{shell}: {output:?}"),
            Err(_) => testkit::skip::skip(&format!("completions-{shell}"), "the shell is not installed"),
        }
    }
}

#[test]
fn typesetters_read_the_pages_without_a_warning() {
    let folder = folder("man-pages");
    let output = weir(&["man", "--output", folder.to_str().unwrap()]);
    assert!(output.status.success(), "{output:?}");
    let pages: Vec<_> = std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert!(pages.iter().any(|page| page.ends_with("weir-bpf-run.1")), "{pages:?}");
    for (program, arguments) in [
        ("groff", &["-man", "-ww", "-z", "-K", "utf8", "-T", "utf8"][..]),
        ("mandoc", &["-T", "lint", "-W", "warning"][..]),
    ] {
        if Command::new(program).arg("--version").output().is_err() {
            testkit::skip::skip(&format!("man-{program}"), "it is not installed");
            continue;
        }
        for page in &pages {
            let output = Command::new(program).args(arguments).arg(page).output().unwrap();
            let told = [output.stdout, output.stderr].concat();
            let told = String::from_utf8(told).unwrap();
            assert_eq!(told, "", "{program} {}", page.display());
        }
    }
}

#[test]
fn the_page_of_weir_is_printed() {
    let output = weir(&["man"]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success() && text.contains(".TH weir 1"), "{text}");
    assert!(text.contains(".SH EXAMPLES") && text.contains("weir\\-trace(1)"), "{text}");
}

#[test]
fn a_directory_that_cannot_be_written_is_named() {
    let output = weir(&["man", "--output", "/proc/nothing/man"]);
    let message = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{message}");
    assert!(message.contains("/proc/nothing/man"), "{message}");
}
