//! What is Rust alone is checked for machines that this one is not: objects are read and verified there too.
//!
//! Only for targets whose standard library is installed (`rustup target add TARGET`); no C compiler or linker is needed.

use std::process::Command;

use testkit::{paths, skip};

/// Another processor, and another system.
const TARGETS: [&str; 2] = ["aarch64-unknown-linux-gnu", "x86_64-apple-darwin"];
const CRATES: [&str; 2] = ["weir-ebpf", "weir-verifier"];

#[test]
fn objects_are_read_and_verified_on_other_machines() {
    let installed = Command::new("rustc").args(["--print", "sysroot"]).output().expect("rustc runs");
    let sysroot = String::from_utf8(installed.stdout).expect("a path");
    for target in TARGETS {
        let library = format!("{}/lib/rustlib/{target}/lib", sysroot.trim());
        if !std::path::Path::new(&library).is_dir() {
            skip::skip(
                "rust-target",
                format!("no standard library of {target} (rustup target add {target})"),
            );
            continue;
        }
        let mut cargo = Command::new(env!("CARGO"));
        cargo.current_dir(paths::root()).args(["check", "--quiet", "--offline", "--target", target]);
        cargo.arg("--target-dir").arg(paths::target().join("other-machines"));
        CRATES.iter().for_each(|name| {
            cargo.args(["--package", name]);
        });
        let output = cargo.output().expect("cargo runs");
        assert!(output.status.success(), "{target}: {}", String::from_utf8_lossy(&output.stderr));
    }
}
