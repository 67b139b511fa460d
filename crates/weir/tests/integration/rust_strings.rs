//! Strings of Rust, which end where their lengths say, as parameters of functions.

use std::process::Command;

use testkit::paths::quoted;
use testkit::skip;
use testkit::target::{self, Source};

const TEXT: &str = r#"
#[inline(never)]
#[no_mangle]
fn take(number: u32, text: &str, owned: String, by: &String, slice: &[u16], last: u64) -> usize {
    // What is not used need not be passed.
    std::hint::black_box((number, text, &owned, by, slice, last));
    text.len()
}

fn main() {
    // Nothing ends a part of a string in memory.
    let all = String::from("abcdefgh");
    for (number, end) in [(1u32, 3), (2, 5), (3, 0)] {
        take(number, &all[..end], all[1..4].to_owned(), &all, &[7, 8], 9);
    }
}
"#;

fn printed(script: &str) -> String {
    let program =
        target::build_with("rustc", "rust-strings", Source::Text(TEXT), &["-g", "-O", "--edition=2021"]);
    let script = script.replace("TAKE", &format!("uprobe:{}:take", quoted(&program)));
    let output = Command::new(env!("CARGO_BIN_EXE_weir"))
        .args(["-q", "-e", &script, "-c", &quoted(&program)])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    format!("{}\n", String::from_utf8(output.stdout).unwrap().trim())
}

#[test]
fn strings_of_rust_have_their_lengths() {
    if !target::is_installed("rustc") {
        return skip::skip("rust_strings", "rustc is not installed");
    }
    let script = "TAKE { printf(\"%d [%s] [%s] [%s] %d\\n\", args.number, str(args.text), args.owned, str(args.by), args.last); }";
    let lines = "1 [abc] [bcd] [abcdefgh] 9\n2 [abcde] [bcd] [abcdefgh] 9\n3 [] [bcd] [abcdefgh] 9\n";
    assert_eq!(printed(script), lines);
    let script = "TAKE /args.text == \"abc\"/ { printf(\"%d\\n\", args.number); }";
    assert_eq!(printed(script), "1\n");
    let mut lines: Vec<String> =
        printed("TAKE { @[args.text, args.by] = count(); }").lines().map(str::to_owned).collect();
    lines.retain(|line| !line.is_empty());
    lines.sort();
    assert_eq!(lines, ["@[, abcdefgh]: 1", "@[abc, abcdefgh]: 1", "@[abcde, abcdefgh]: 1"]);
}
