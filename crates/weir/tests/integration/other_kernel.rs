//! What the running kernel may lack (kprobes, programs at functions' entries by BTF) on one that has it: the tests of [`kernel_events`](crate::kernel_events) in a
//! virtual machine.

use std::path::PathBuf;
use std::time::Duration;

use testkit::{paths, qemu, skip};

use crate::kernel_tools;

/// Tests of what most machines for tests lack. All of them run where a kernel is named (`cargo xtask vmtest`).
const LACKING: &str = "kernel_events::functions_ kernel_events::a_function_ kernel_events::a_pattern_of_functions_ kernel_tools::";

/// LIMIT: all take 35 seconds on an idle machine, the short set 15.
const LIMIT: Duration = Duration::from_secs(240);

#[test]
fn events_of_the_kernel_hold_on_a_kernel_that_has_all_of_them() {
    let image = match qemu::image() {
        Ok(image) => image,
        Err(reason) => return skip::skip("other-kernel", reason),
    };
    let (own, weir) = (std::env::current_exe().unwrap(), PathBuf::from(env!("CARGO_BIN_EXE_weir")));
    let tests = match std::env::var_os(qemu::IMAGE) {
        Some(_) => "kernel_events:: kernel_tools::",
        None => LACKING,
    };
    let mut files = vec![own.clone(), weir, PathBuf::from("/usr/bin/cat")];
    files.extend(kernel_tools::files());
    let script = format!(
        "ip link set lo up; mkdir -p {}; {} {tests} --test-threads=1",
        paths::quoted(&paths::target()),
        paths::quoted(&own)
    );
    let qemu::Outcome { output, code, console } = qemu::run(&image, &files, &script, LIMIT);
    assert_eq!(code, Some(0), "{output}\n{console}");
    assert!(!output.contains("SKIP "), "{output}");
}
