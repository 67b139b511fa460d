//! `weir fmt`: files, standard input, and what is left as it is.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

const UGLY: &str = "BEGIN{@x=1;print(@x)} // done\n";
const FORMATTED: &str = "BEGIN\n{\n  @x = 1;\n  print(@x);\n} // done\n";

fn folder(name: &str) -> PathBuf {
    let folder = testkit::paths::fresh("fmt", name);
    fs::create_dir_all(&folder).unwrap();
    folder
}

fn weir(folder: &Path, args: &[&str], input: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
    command.current_dir(folder).args(args).stdin(Stdio::piped());
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // Whoever does not read its input may have ended.
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    child.wait_with_output().unwrap()
}

/// It ends with `code`, prints `out`, and says `beside`, or nothing.
#[track_caller]
fn check(output: &Output, code: i32, out: &str, beside: &str) {
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{said}");
    assert_eq!(String::from_utf8_lossy(&output.stdout), out);
    assert!(said.contains(beside) && said.is_empty() == beside.is_empty(), "{beside:?} not in {said:?}");
}

#[test]
fn files_change_in_place_and_keep_their_mode() {
    let folder = folder("place");
    let (path, link) = (folder.join("a.bt"), folder.join("link.bt"));
    fs::write(&path, UGLY).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o751)).unwrap();
    symlink("a.bt", &link).unwrap();
    let old = fs::metadata(&path).unwrap();
    check(&weir(&folder, &["fmt", "link.bt"], ""), 0, "", "");
    let new = fs::metadata(&path).unwrap();
    assert_eq!(fs::read_to_string(&path).unwrap(), FORMATTED);
    assert_eq!(new.permissions(), old.permissions());
    assert!(new.ino() != old.ino(), "it is replaced as a whole");
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    // What needs no change is not written.
    check(&weir(&folder, &["fmt", "a.bt", "./a.bt"], ""), 0, "", "");
    assert_eq!(fs::metadata(&path).unwrap().ino(), new.ino());
    assert_eq!(fs::read_dir(&folder).unwrap().count(), 2);
}

#[test]
fn standard_input_goes_to_standard_output() {
    let folder = folder("input");
    check(&weir(&folder, &["fmt"], UGLY), 0, FORMATTED, "");
    check(&weir(&folder, &["fmt", "-"], UGLY), 0, FORMATTED, "");
    check(&weir(&folder, &["fmt", "-e", UGLY], ""), 0, FORMATTED, "");
    fs::write(folder.join("a.bt"), UGLY).unwrap();
    check(&weir(&folder, &["fmt", "--print", "a.bt"], ""), 0, FORMATTED, "");
    assert_eq!(fs::read_to_string(folder.join("a.bt")).unwrap(), UGLY);
}

#[test]
fn a_check_names_what_would_change() {
    let folder = folder("check");
    fs::write(folder.join("a.bt"), UGLY).unwrap();
    fs::write(folder.join("b.bt"), FORMATTED).unwrap();
    check(&weir(&folder, &["fmt", "--check", "a.bt", "b.bt"], ""), 1, "a.bt\n", "");
    check(&weir(&folder, &["fmt", "--check", "b.bt"], ""), 0, "", "");
    check(&weir(&folder, &["fmt", "--check"], UGLY), 1, "<stdin>\n", "");
    assert_eq!(fs::read_to_string(folder.join("a.bt")).unwrap(), UGLY);
}

#[test]
fn what_cannot_be_read_stays_as_it_is() {
    let folder = folder("faults");
    let wrong = "BEGIN {\n  $x = ;\n}\n";
    fs::write(folder.join("wrong.bt"), wrong).unwrap();
    fs::write(folder.join("a.bt"), UGLY).unwrap();
    let output = weir(&folder, &["fmt", "wrong.bt", "a.bt"], "");
    check(&output, 1, "", "wrong.bt:2:8");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("  $x = ;") && said.contains("expected an expression, found `;`"), "{said}");
    assert_eq!(fs::read_to_string(folder.join("wrong.bt")).unwrap(), wrong);
    // The others are formatted all the same.
    assert_eq!(fs::read_to_string(folder.join("a.bt")).unwrap(), FORMATTED);
    check(&weir(&folder, &["fmt", "none.bt"], ""), 1, "", "cannot read script none.bt: No such file");
    fs::write(folder.join("bytes.bt"), b"BEGIN { print(\"\xff\") }").unwrap();
    check(&weir(&folder, &["fmt", "bytes.bt"], ""), 1, "", "cannot read script bytes.bt");
    assert_eq!(fs::read_dir(&folder).unwrap().count(), 3);
}
