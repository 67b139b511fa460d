//! Programs linked in every way: with and without a dynamic linker, at fixed addresses or anywhere, with glibc or musl,
//! with and without symbols.

use std::path::{Path, PathBuf};
use std::process::Command;

use testkit::paths::quoted;
use testkit::target::{self, Source};
use weir_symbols::Binary;

use crate::life::worker::{SOURCE, Worker, check_running, check_started, weir};

/// Traces a program that weir starts, and one that runs.
fn check(path: &Path) {
    check_started(path, "work", true);
    check_running(Worker::start(Command::new(path)), &quoted(path), true);
}

fn glibc(flags: &[&str]) -> PathBuf {
    target::build("worker", SOURCE, &[&["-O2"], flags].concat())
}

/// The kernel's headers come from elsewhere: musl-tools has none.
fn musl(flags: &[&str]) -> PathBuf {
    let headers = ["-O2", "-idirafter", "/usr/include", "-idirafter", "/usr/include/x86_64-linux-gnu"];
    target::build_with("musl-gcc", "worker-musl", SOURCE, &[&headers, flags].concat())
}

fn check_musl(flags: &[&str]) {
    if !target::is_installed("musl-gcc") {
        return testkit::skip::skip("musl", "musl-tools is not installed");
    }
    check(&musl(flags));
}

fn has_static_libc() -> bool {
    let found = Command::new("cc").arg("-print-file-name=libc.a").output();
    found.is_ok_and(|found| Path::new(String::from_utf8_lossy(&found.stdout).trim()).is_absolute())
}

#[test]
fn a_program_at_fixed_addresses_is_traced() {
    check(&glibc(&["-fno-pie", "-no-pie"]));
}

#[test]
fn static_programs_are_traced() {
    if !has_static_libc() {
        return testkit::skip::skip("static-libc", "the C library has no archive");
    }
    check(&glibc(&["-fno-pie", "-no-pie", "-static"]));
    check(&glibc(&["-fPIE", "-static-pie"]));
}

#[test]
fn a_program_with_musl_is_traced() {
    check_musl(&["-fPIE", "-pie"]);
}

#[test]
fn a_program_with_musl_at_fixed_addresses_is_traced() {
    check_musl(&["-fno-pie", "-no-pie"]);
}

/// It handles no signal, so nothing in it leads to rt_sigreturn but what happens to stand there.
#[test]
fn a_static_program_with_musl_is_traced() {
    check_musl(&["-fno-pie", "-no-pie", "-static"]);
}

/// The way back from a remote call is the target's alone: it is gone wherever weir may have been killed.
#[test]
fn a_static_program_with_musl_outlives_a_weir_that_is_killed_at_any_ptrace() {
    if !target::is_installed("musl-gcc")
        || !Command::new("strace").arg("-V").output().is_ok_and(|o| o.status.success())
    {
        return testkit::skip::skip("musl", "musl-tools or strace is not installed");
    }
    let path = musl(&["-fno-pie", "-no-pie", "-static"]);
    let script = format!("uprobe:{}:work {{ @ = count(); }} interval:ms:1 {{ exit() }}", quoted(&path));
    let mut worker = Worker::start(Command::new(&path));
    let mut total = 0;
    // A remote call is some ten calls of ptrace: each is cut somewhere.
    for when in (1..).step_by(3) {
        assert!(when < 1000, "weir makes more than 1000 calls of ptrace");
        let mut command = Command::new("strace");
        command.args(["-qq", "-o", "/dev/null", "-e", "trace=ptrace"]);
        command.args(["-e", &format!("inject=ptrace:signal=SIGKILL:when={when}")]);
        command.arg(env!("CARGO_BIN_EXE_weir")).args(["trace", "-e", &script, "-p", &worker.pid.to_string()]);
        let output = command.output().unwrap();
        total += 10;
        worker.work(10, total);
        if output.status.success() {
            break;
        }
    }
    let output = weir().args(["detach", "-p", &worker.pid.to_string()]).output().unwrap();
    assert!(matches!(output.status.code(), Some(0 | 1)), "{output:?}");
    worker.work(10, total + 10);
    worker.end();
}

fn strip(path: &Path, name: &str) -> PathBuf {
    let to = path.with_file_name(name);
    let output = Command::new("strip").arg("-o").arg(&to).arg(path).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    to
}

#[test]
fn a_stripped_program_is_traced_by_the_names_that_it_exports() {
    let path = glibc(&["-fPIE", "-pie", "-rdynamic"]);
    check(&strip(&path, "worker-exporting-stripped"));
}

#[test]
fn a_program_without_any_name_is_traced_by_address_or_refused() {
    let whole = glibc(&["-fPIE", "-pie"]);
    let address = Binary::open(&whole).unwrap().find("work").unwrap()[0].address.0;
    let path = strip(&whole, "worker-stripped");
    check_started(&path, &format!("{address:#x}"), false);
    let script = format!("uprobe:{}:work {{ @ = count(); }}", quoted(&path));
    let output = weir().args(["trace", "-e", &script, "-c", &quoted(&path)]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("it names no functions at all (stripped)"), "{said}");
}

/// It makes its two calls itself, and nothing in it returns from one.
#[test]
fn a_program_that_cannot_be_made_to_call_the_kernel_is_refused() {
    let source = "__attribute__((noinline)) int work(int x) { __asm__ volatile(\"\" : \"+r\"(x)); return x * 3 + 1; }\n\
        void _start(void) { work(1); __asm__ volatile(\"syscall\" :: \"a\"(60), \"D\"(7)); for (;;); }";
    let path =
        target::build("bare", Source::Text(source), &["-O2", "-static", "-nostdlib", "-fno-pie", "-no-pie"]);
    let script = format!("uprobe:{}:work {{ @ = count(); }}", quoted(&path));
    let output = weir().args(["trace", "-e", &script, "-c", &quoted(&path)]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{said}");
    assert!(said.contains("cannot be made to call the kernel"), "{said}");
}
