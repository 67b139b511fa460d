//! Names of stripped programs, from the separate file that packages keep them in.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use testkit::target::{self, Source};
use weir_symbols::Binary;

const TEXT: &str = "volatile int sink;\n\
    __attribute__((noipa)) static int hidden(int n) { sink += n; return sink; }\n\
    int main(void) { return hidden(2) > 1000; }\n";

/// A stripped program, its build id, and its debug file.
fn stripped(name: &str) -> (PathBuf, Vec<u8>, PathBuf) {
    let whole = target::build(name, Source::Text(TEXT), &["-O2", "-g", "-Wl,--build-id=sha1"]);
    let debug = whole.with_extension("debug");
    let bare = whole.with_extension("stripped");
    run("objcopy", &["--only-keep-debug", whole.to_str().unwrap(), debug.to_str().unwrap()]);
    run("strip", &["-o", bare.to_str().unwrap(), whole.to_str().unwrap()]);
    let build_id = Binary::open(&bare).unwrap().build_id().unwrap().to_vec();
    (bare, build_id, debug)
}

fn run(program: &str, arguments: &[&str]) {
    assert!(Command::new(program).args(arguments).status().unwrap().success(), "{program} {arguments:?}");
}

/// A root in which `bytes` are the debug file of this build id.
fn root(name: &str, build_id: &[u8], bytes: &[u8]) -> PathBuf {
    let root = testkit::paths::target().join(format!("debug-root-{name}"));
    // What an earlier run has left.
    let _ = fs::remove_dir_all(&root);
    let hex: String = build_id.iter().map(|byte| format!("{byte:02x}")).collect();
    let folder = root.join("usr/lib/debug/.build-id").join(&hex[..2]);
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join(format!("{}.debug", &hex[2..])), bytes).unwrap();
    root
}

fn has_hidden(path: &Path, root: &Path) -> bool {
    let binary = Binary::open_in(path, root).unwrap();
    assert!(binary.find("nothing_of_this_name").is_err());
    binary.find("hidden").is_ok_and(|found| {
        assert_eq!(binary.bytes(found[0].address, found[0].size as usize).unwrap().last(), Some(&0xc3));
        assert_eq!(binary.symbol_value("hidden"), Some((found[0].address, found[0].size)));
        true
    })
}

#[test]
fn a_stripped_program_has_the_names_of_its_debug_file() {
    let (bare, build_id, debug) = stripped("debug-file");
    let root = root("own", &build_id, &fs::read(debug).unwrap());
    assert!(has_hidden(&bare, &root));
    assert!(!has_hidden(&bare, Path::new("/nonexistent")));
    let plain = Binary::open_in(&bare, &root).unwrap();
    assert_eq!(plain.functions_left_out(), 0);
}

#[test]
fn the_file_of_another_build_is_not_taken() {
    let (bare, build_id, debug) = stripped("debug-file-other");
    let mut bytes = fs::read(debug).unwrap();
    let at = bytes.windows(build_id.len()).position(|window| window == build_id).unwrap();
    bytes[at] ^= 1;
    assert!(!has_hidden(&bare, &root("other", &build_id, &bytes)));
}

#[test]
fn a_broken_debug_file_means_no_names() {
    let (bare, build_id, debug) = stripped("debug-file-broken");
    let bytes = fs::read(debug).unwrap();
    for length in (0..bytes.len()).step_by(bytes.len() / 50) {
        let root = root("cut", &build_id, &bytes[..length]);
        assert!(!has_hidden(&bare, &root), "cut to {length}");
    }
    // Any word may be anything: no panic, no endless reading.
    for at in (0..bytes.len() - 8).step_by(bytes.len() / 300) {
        let mut mutant = bytes.clone();
        mutant[at..at + 8].fill(0xff);
        let binary = Binary::open_in(&bare, &root("mutant", &build_id, &mutant)).unwrap();
        let _ = (binary.functions().len(), binary.symbol_value("hidden"));
    }
    let folder = root("folder", &build_id, &[]);
    let hex: String = build_id.iter().map(|byte| format!("{byte:02x}")).collect();
    let file = folder.join("usr/lib/debug/.build-id").join(&hex[..2]).join(format!("{}.debug", &hex[2..]));
    fs::remove_file(&file).unwrap();
    fs::create_dir(&file).unwrap();
    assert!(!has_hidden(&bare, &folder));
}
