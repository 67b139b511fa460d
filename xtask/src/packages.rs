//! Packages: the Debian packages that tests use, installed where that is possible.

use std::process::{Command, Stdio};

use anyhow::Result;

use crate::process;

/// One package: its name, and a program or file that shows it is there.
#[derive(Debug)]
pub(crate) struct Package {
    pub(crate) name: &'static str,
    program: &'static str,
    /// What is left out without it.
    pub(crate) used_for: &'static str,
}

pub(crate) const PACKAGES: [Package; 40] = [
    Package { name: "gcc", program: "gcc", used_for: "building anything" },
    Package { name: "g++", program: "g++", used_for: "test programs that throw exceptions" },
    Package { name: "gdb", program: "gdb", used_for: "the test that a debugger's process is refused" },
    Package { name: "libc6-dev", program: "/usr/include/stdio.h", used_for: "building anything" },
    Package { name: "sqlite3", program: "sqlite3", used_for: "the end-to-end test on sqlite3, and the demo" },
    Package { name: "redis-server", program: "redis-server", used_for: "the end-to-end test on redis" },
    Package { name: "redis-tools", program: "redis-benchmark", used_for: "the end-to-end test on redis" },
    Package { name: "nginx", program: "/usr/sbin/nginx", used_for: "the soak that probes every function" },
    Package {
        name: "qemu-user",
        program: "qemu-aarch64",
        used_for: "the tests of interpreter and verifier on another processor",
    },
    Package {
        name: "strace",
        program: "strace",
        used_for: "the tests that fail or kill weir at each system call",
    },
    Package {
        name: "python3",
        program: "python3",
        used_for: "planning probes on every function of a large program",
    },
    Package {
        name: "clang",
        program: "clang",
        used_for: "test programs built by a second compiler, and those for BPF",
    },
    Package {
        name: "clang-19",
        program: "clang-19",
        used_for: "objects of a newer compiler than the distribution's, with instructions of cpu v4",
    },
    Package {
        name: "libbpf-tools",
        program: "/usr/sbin/bashreadline",
        used_for: "the test that compiled BPF of the distribution is read, verified and run",
    },
    Package {
        name: "xdp-tools",
        program: "/usr/sbin/xdp-loader",
        used_for: "the test that compiled BPF of the distribution is read, verified and run",
    },
    Package {
        name: "ir-keytable",
        program: "/usr/bin/ir-keytable",
        used_for: "the test that compiled BPF of the distribution is read, verified and run",
    },
    Package { name: "golang-go", program: "/usr/bin/go", used_for: "the tests on programs of Go's compiler" },
    Package { name: "default-jdk-headless", program: "javac", used_for: "the tests on Java's machine" },
    Package { name: "nodejs", program: "node", used_for: "the tests on Node" },
    Package { name: "musl-tools", program: "musl-gcc", used_for: "test programs with another C library" },
    Package {
        name: "pkgconf",
        program: "pkg-config",
        used_for: "the test that a C program embeds the library as its users would",
    },
    Package { name: "binutils", program: "readelf", used_for: "comparing notes with what readelf shows" },
    Package {
        name: "bpftrace",
        program: "bpftrace",
        used_for: "the tests that it sees tracepoints, and that it agrees on returns",
    },
    Package { name: "llvm", program: "llvm-objdump", used_for: "comparing our disassembly with LLVM's" },
    Package {
        name: "bpftool",
        program: "/usr/sbin/bpftool",
        used_for: "the tests that libbpf takes the objects that weir writes",
    },
    Package {
        name: "liblttng-ust-dev",
        program: "/usr/include/x86_64-linux-gnu/lttng/tracepoint.h",
        used_for: "the tests that trace LTTng's tracepoints and read its traces",
    },
    Package {
        name: "libcamera0.0.3",
        program: "/usr/lib/x86_64-linux-gnu/libcamera.so.0.0.3",
        used_for: "the test that the events of a library are recorded as its package has it",
    },
    Package {
        name: "systemtap-sdt-dev",
        program: "/usr/include/x86_64-linux-gnu/sys/sdt.h",
        used_for: "the test that LTTng's tracepoints are traced where they have notes",
    },
    Package { name: "zsh", program: "zsh", used_for: "the test that it reads its completion script" },
    Package { name: "fish", program: "fish", used_for: "the test that it reads its completion script" },
    Package { name: "groff-base", program: "groff", used_for: "the test that it sets the manual pages" },
    Package { name: "lttng-tools", program: "lttng", used_for: "the tests that read LTTng's traces" },
    Package { name: "babeltrace2", program: "babeltrace2", used_for: "the tests that read LTTng's traces" },
    Package {
        name: "qemu-system-x86",
        program: "qemu-system-x86_64",
        used_for: "the tests on another kernel, in a virtual machine",
    },
    Package {
        name: "busybox-static",
        program: "/bin/busybox",
        used_for: "the tests on another kernel, in a virtual machine",
    },
    Package {
        name: "libpcap0.8",
        program: "/usr/lib/x86_64-linux-gnu/libpcap.so.0.8",
        used_for: "the tests that packet filters keep what libpcap's keep",
    },
    Package {
        name: "tshark",
        program: "tshark",
        used_for: "the tests that Wireshark reads capture files that weir writes",
    },
    Package {
        name: "tcpdump",
        program: "tcpdump",
        used_for: "the tests that weir captures what tcpdump captures",
    },
    Package {
        name: "iproute2",
        program: "ip",
        used_for: "the tests that capture packets in a network namespace of their own",
    },
    Package { name: "mandoc", program: "mandoc", used_for: "the test that it sets the manual pages" },
];

/// Packages that are not there.
pub(crate) fn missing() -> Vec<&'static Package> {
    PACKAGES.iter().filter(|package| !is_there(package)).collect()
}

/// Installs what is missing, if this is root and there is apt-get; otherwise says what is left out.
pub(crate) fn install_missing() -> Result<()> {
    let names: Vec<&str> = missing().iter().map(|package| package.name).collect();
    if names.is_empty() {
        return Ok(());
    }
    if !nix::unistd::geteuid().is_root() || process::find_program("apt-get").is_none() {
        eprintln!("xtask: not root, or no apt-get: install by hand: {}", names.join(" "));
        return Ok(());
    }
    // A fresh machine has no package lists; where they are recent, this costs two seconds.
    let mut update = apt_get();
    if process::run(update.args(["update", "-qq"])).is_err() {
        eprintln!("xtask: apt-get update failed; trying with the lists there are");
    }
    if install(&names).is_err() {
        // One that the distribution does not have keeps all from being installed.
        for name in names {
            if let Err(error) = install(&[name]) {
                eprintln!("xtask: {error:#}; the tests that need {name} are skipped");
            }
        }
    }
    Ok(())
}

/// Other machines that crates are checked for: another processor, and another system; with musl, tests are linked without a C
/// compiler.
const TARGETS: [&str; 3] = ["aarch64-unknown-linux-gnu", "aarch64-unknown-linux-musl", "x86_64-apple-darwin"];

/// Adds their standard libraries to the compiler, where rustup can; what is missing is skipped.
pub(crate) fn add_targets() {
    if process::find_program("rustup").is_none() {
        eprintln!("xtask: no rustup: crates are not checked for {}", TARGETS.join(" and "));
        return;
    }
    if let Err(error) = process::run(Command::new("rustup").args(["--quiet", "target", "add"]).args(TARGETS))
    {
        eprintln!("xtask: {error:#}; crates are not checked for other machines");
    }
}

fn install(names: &[&str]) -> Result<()> {
    let mut install = apt_get();
    process::run(install.args(["install", "-y", "-qq", "--no-install-recommends"]).args(names))
}

fn apt_get() -> Command {
    let mut command = Command::new("apt-get");
    command.env("DEBIAN_FRONTEND", "noninteractive").stdin(Stdio::null());
    // Installing a server must not start it.
    command.env("RUNLEVEL", "1");
    command
}

fn is_there(package: &Package) -> bool {
    match package.program.strip_prefix('/') {
        Some(_) => std::path::Path::new(package.program).exists(),
        None => process::find_program(package.program).is_some(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_compiler_is_seen() {
        assert!(missing().iter().all(|package| package.name != "gcc"), "these tests were built with one");
    }
}
