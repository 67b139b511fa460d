//! Names the shared library, so that what has loaded it says what it is.

const SONAME: &str = "libweir_dpdk.so";

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,{SONAME}");
    // The application has its code in its memory as long as it runs: threads may be in it.
    println!("cargo::rustc-cdylib-link-arg=-Wl,-z,nodelete");
}
