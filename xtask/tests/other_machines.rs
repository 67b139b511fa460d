//! What is Rust alone is checked for machines that this one is not: objects are read, verified and run there too. Its tests run
//! on another processor, in QEMU.
//!
//! Only for targets whose standard library is installed (`rustup target add TARGET`); no C compiler of theirs is needed.

use std::process::Command;

use testkit::{paths, skip};

/// Another processor, and another system.
const TARGETS: [&str; 2] = ["aarch64-unknown-linux-gnu", "x86_64-apple-darwin"];
const CRATES: [&str; 4] = ["weir-ebpf", "weir-memory", "weir-verifier", "weir-interp"];

/// The processor whose programs QEMU runs: with musl, programs are linked by the linker that comes with the compiler.
const EMULATED: &str = "aarch64-unknown-linux-musl";
const EMULATORS: [&str; 2] = ["qemu-aarch64", "qemu-aarch64-static"];

#[test]
fn objects_are_read_verified_and_run_on_other_machines() {
    // The emulated one has the same processor and system as the first: its tests are compiled of the same crates.
    let is_emulated = emulator().is_some() && has_library(EMULATED);
    for target in &TARGETS[usize::from(is_emulated)..] {
        if has_library(target) {
            succeeds(cargo("check", target).args(of_crates(&CRATES)));
        }
    }
}

#[test]
fn tests_pass_on_another_processor() {
    let Some(emulator) = emulator() else {
        return skip::skip("qemu-user", format!("neither {} nor {} is there", EMULATORS[0], EMULATORS[1]));
    };
    if !has_library(EMULATED) {
        return;
    }
    let mut cargo = cargo("test", EMULATED);
    let of_target = |name: &str| format!("CARGO_TARGET_AARCH64_UNKNOWN_LINUX_MUSL_{name}");
    cargo.env(of_target("LINKER"), "rust-lld").env(of_target("RUNNER"), emulator);
    cargo.env(of_target("RUSTFLAGS"), "-C link-self-contained=yes -C linker-flavor=ld.lld");
    // They run for a second, and compile for ten.
    cargo.env("CARGO_PROFILE_DEV_OPT_LEVEL", "0");
    // They verify what they run. The other crates' own tests pass there too, but compile for a minute.
    cargo.args(of_crates(&["weir-memory", "weir-interp"])).args(["--lib", "--test", "integration"]);
    succeeds(&mut cargo);
}

fn emulator() -> Option<&'static str> {
    let runs =
        |name: &&str| Command::new(name).arg("-version").output().is_ok_and(|output| output.status.success());
    EMULATORS.into_iter().find(runs)
}

/// Whether the target's standard library is there; a skip if not.
fn has_library(target: &str) -> bool {
    let installed = Command::new("rustc").args(["--print", "sysroot"]).output().expect("rustc runs");
    let sysroot = String::from_utf8(installed.stdout).expect("a path");
    let is_there = std::path::Path::new(&format!("{}/lib/rustlib/{target}/lib", sysroot.trim())).is_dir();
    if !is_there {
        skip::skip("rust-target", format!("no standard library of {target} (rustup target add {target})"));
    }
    is_there
}

/// Cargo, in a folder of its own, so that it waits for nobody.
fn cargo(command: &str, target: &str) -> Command {
    let mut cargo = Command::new(env!("CARGO"));
    cargo.current_dir(paths::root()).args([command, "--quiet", "--offline", "--target", target]);
    cargo.arg("--target-dir").arg(paths::target().join("other-machines"));
    cargo
}

fn of_crates<'a>(crates: &'a [&'a str]) -> impl Iterator<Item = &'a str> {
    crates.iter().flat_map(|name| ["--package", name])
}

fn succeeds(command: &mut Command) {
    let output = command.output().expect("cargo runs");
    let said = [output.stdout, output.stderr].map(|said| String::from_utf8_lossy(&said).into_owned());
    assert!(output.status.success(), "{command:?}: {}", said.concat());
}
