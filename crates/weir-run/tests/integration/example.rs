//! The example does what its header says.

use std::path::PathBuf;
use std::process::Command;

use crate::target::{Threads, total};

/// Cargo builds it with the tests.
fn example() -> PathBuf {
    let own = std::env::current_exe().expect("this program has a path");
    let folder = own.parent().and_then(|deps| deps.parent()).expect("target/debug/deps");
    folder.join("examples").join("sum")
}

#[test]
fn the_example_adds_up_a_map() {
    let probe = format!("uprobe:{}:foo", Threads::quoted());
    let output = Command::new(example()).args([&probe, &Threads::path(), "3", "1000", "0"]).output();
    let output = output.expect("`cargo test` without --test builds the examples");
    let (said, told) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{said}{told}");
    let lines: Vec<&str> = said.lines().collect();
    let [of_target, of_example] = lines[..] else { panic!("{said}{told}") };
    assert_eq!(total(of_target), 3000);
    assert_eq!(of_example, "3000 calls by 3 threads", "{told}");
}

#[test]
fn the_example_is_short() {
    let text = include_str!("../../examples/sum.rs");
    assert!(text.lines().count() <= 60);
}
