//! Names the shared library: programs that were linked against one interface do not start with another.

/// Raised whenever a program that was linked before could break: functions that go, or change what they take.
const SONAME: &str = "libweir_bpf.so.0";

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,{SONAME}");
}
