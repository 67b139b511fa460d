//! Compiles the freestanding C half twice: as a static library for the controller, and as the position-independent
//! image that is put into traced processes. Both from the same files with the same flags, so that every map and
//! ring has one implementation; `src/runtime.rs` takes the image apart and a test checks what it may contain.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What stands in the target.
const IMAGE_SOURCES: &[&str] = &[
    "map.c",
    "hash.c",
    "next.c",
    "lanes.c",
    "queue.c",
    "stack.c",
    "bloom.c",
    "lpm.c",
    "ring.c",
    "dynptr.c",
    "environment.c",
    "read.c",
    "text.c",
    "unwind.c",
    "packet.c",
    "announce.c",
    "forked.c",
    "filter.c",
    "direct.c",
    "declared.c",
    "island.c",
];
/// What only the controller needs.
const CONTROLLER_SOURCES: &[&str] = &["inspect.c"];
const HEADERS: &[&str] = &[
    "weir.h",
    "hash.h",
    "slots.h",
    "isa/native.h",
    "isa/native_loads.h",
    "isa/x86_64/machine.h",
    "isa/x86_64/loads.h",
];

/// No libc, no vector registers, no code that needs a relocation, a stack canary or unwinding.
const FLAGS: &[&str] = &[
    "-std=gnu11",
    "-ffreestanding",
    "-mgeneral-regs-only",
    "-mcx16",
    "-fPIC",
    "-fvisibility=hidden",
    "-fno-stack-protector",
    "-fcf-protection=none",
    "-fno-asynchronous-unwind-tables",
    "-fno-unwind-tables",
    "-fno-builtin",
    "-fno-jump-tables",
    "-fomit-frame-pointer",
    "-Wall",
    "-Wextra",
];
/// GCC alone: never turn a loop into a call of memset or memcpy.
const GCC_FLAG: &str = "-fno-tree-loop-distribute-patterns";

const IMAGE_LINK_FLAGS: &[&str] = &[
    "-shared",
    "-nostdlib",
    "-Wl,-Bsymbolic",
    "-Wl,--no-undefined",
    "-Wl,-z,noseparate-code",
    "-Wl,-z,norelro",
    "-Wl,--build-id=none",
    "-Wl,--hash-style=sysv",
];

fn main() {
    let source_dir = Path::new("c");
    for file in IMAGE_SOURCES.iter().chain(CONTROLLER_SOURCES).chain(HEADERS) {
        println!("cargo::rerun-if-changed={}", source_dir.join(file).display());
    }
    println!("cargo::rerun-if-changed=build.rs");

    let mut linked = build();
    for file in IMAGE_SOURCES.iter().chain(CONTROLLER_SOURCES) {
        linked.file(source_dir.join(file));
    }
    linked.define("WEIR_LINKED", None).compile("weir_rt_c");

    let out_dir = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    link_image(source_dir, &out_dir.join("weir-runtime.so"));
}

fn build() -> cc::Build {
    let mut build = cc::Build::new();
    build.opt_level(2).debug(false).force_frame_pointer(false).pic(true).warnings(false);
    for flag in FLAGS {
        build.flag(flag);
    }
    build.flag_if_supported(GCC_FLAG);
    build
}

fn link_image(source_dir: &Path, image: &Path) {
    let mut command: Command = build().get_compiler().to_command();
    command.args(IMAGE_LINK_FLAGS).arg("-o").arg(image);
    command.args(IMAGE_SOURCES.iter().map(|file| source_dir.join(file)));
    let status = command.status().unwrap_or_else(|error| panic!("cannot run {command:?}: {error}"));
    assert!(status.success(), "{command:?}: {status}");
}
