//! Tools of bpftrace's package that are at functions of the kernel: what they print of a command is what is written here. Where this kernel has no
//! kprobes, they run in the virtual machine of [`other_kernel`](crate::other_kernel), in which there is no bpftrace.

use std::path::{Path, PathBuf};
use std::process::Command;

use testkit::{paths, skip};

use crate::kernel_events::has_kprobes;

/// The tools that are tested here, as far as they are installed.
pub(crate) fn files() -> Vec<PathBuf> {
    let paths = ["capable", "dcsnoop", "tcpconnect", "vfscount"].map(path);
    paths.into_iter().filter(|path| path.is_file()).collect()
}

fn path(tool: &str) -> PathBuf {
    Path::new("/usr/sbin").join(format!("{tool}.bt"))
}

/// What a tool prints of a command, but for what other processes do at the same time.
fn printed(tool: &str, command: &str) -> Option<String> {
    if !has_kprobes() {
        return None;
    }
    if !path(tool).is_file() {
        skip::skip("kernel-tools", format!("{} is not there", path(tool).display()));
        return None;
    }
    let mut weir = Command::new(env!("CARGO_BIN_EXE_weir"));
    // The machine has no headers: what the tools take from them is here.
    let headers = paths::fresh("kernel-tools", tool);
    std::fs::create_dir_all(headers.join("sys")).unwrap();
    std::fs::write(headers.join("sys/socket.h"), "#define AF_INET 2\n#define AF_INET6 10\n").unwrap();
    weir.arg("--no-warnings").arg("-I").arg(&headers).arg(path(tool));
    let output = weir.args(["-c", command]).output().unwrap();
    std::fs::remove_dir_all(headers).unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{tool}: {said}");
    Some(String::from_utf8(output.stdout).unwrap())
}

/// Of a tool that prints a line for each call: each of these is a line from some column on.
#[track_caller]
fn check(tool: &str, command: &str, heading: &str, wanted: &[&[&str]]) {
    let Some(printed) = printed(tool, command) else { return };
    assert!(printed.contains(heading), "{printed}");
    for words in wanted {
        let is_it = |line: &str| line.split_whitespace().collect::<Vec<_>>().ends_with(words);
        assert!(printed.lines().any(is_it), "{tool}: no {words:?} in {printed}");
    }
}

#[test]
fn capable() {
    check(
        "capable",
        "chroot / /bin/true",
        "TIME      UID    PID    COMM             CAP  NAME                 AUDIT\n",
        &[&["chroot", "18", "CAP_SYS_CHROOT", "0"]],
    );
}

#[test]
fn tcpconnect() {
    check(
        "tcpconnect",
        "sh -c 'nc 127.0.0.1 9; true'",
        "SADDR                                   SPORT  DADDR                                   DPORT",
        &[&["127.0.0.1", "9"]],
    );
}

#[test]
fn dcsnoop() {
    check(
        "dcsnoop",
        "sh -c 'cat /no-such-file 2>/dev/null; true'",
        "TIME     PID    COMM             T FILE\n",
        &[&["cat", "M", "no-such-file"]],
    );
}

#[test]
fn vfscount() {
    check("vfscount", "cat /etc/hostname", "Tracing VFS calls", &[]);
    let Some(printed) = printed("vfscount", "cat /etc/hostname") else { return };
    for function in ["vfs_open", "vfs_read", "vfs_write"] {
        let line = printed.lines().find_map(|line| line.strip_prefix(&format!("@[{function}]: ")));
        let count: u64 = line.and_then(|count| count.parse().ok()).unwrap_or_default();
        assert!(count >= 1, "{function}: {printed}");
    }
}
