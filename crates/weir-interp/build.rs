//! Compiles the threaded interpreter's loop.

fn main() {
    println!("cargo::rerun-if-changed=c/threaded.c");
    println!("cargo::rerun-if-changed=build.rs");
    let target = |name: &str| std::env::var(format!("CARGO_CFG_TARGET_{name}")).unwrap_or_default();
    if (target("OS").as_str(), target("ARCH").as_str()) != ("linux", "x86_64") {
        return;
    }
    // Machine code of one operation each, in the order of the source: the jumps at their ends are not to be merged.
    let mut build = cc::Build::new();
    build.opt_level(2).debug(false).file("c/threaded.c").flag_if_supported("-fno-gcse");
    build.flag_if_supported("-fno-crossjumping").compile("weir_interp_c");
}
