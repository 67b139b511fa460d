//! Targets that live elsewhere: in other mount, pid and user namespaces, under another root, where nothing may be written
//! or executed and there is no /proc. Paths mean what they mean to the target.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use testkit::paths::quoted;
use testkit::target;

use crate::life::worker::{BEGUN, Worker, check_running, number, program, stop, traced, weir};

fn is_root(name: &str) -> bool {
    let is_root = nix::unistd::geteuid().is_root();
    if !is_root {
        testkit::skip::skip("namespaces", format!("{name}: making namespaces is for root"));
    }
    is_root
}

/// A folder with all that the program needs: itself, as /bin/NAME, and its libraries.
fn root(name: &str) -> PathBuf {
    let root = testkit::paths::target().join("testkit").join(format!("root-{name}-{}", std::process::id()));
    let output = Command::new("ldd").arg(program()).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let libraries = text.split_whitespace().filter(|word| word.starts_with('/'));
    let files = libraries.map(|path| (PathBuf::from(path), PathBuf::from(path)));
    for (from, to) in files.chain([(program(), PathBuf::from("/bin").join(name))]) {
        let to = root.join(to.strip_prefix("/").unwrap());
        fs::create_dir_all(to.parent().unwrap()).unwrap();
        target::copy(&from, &to);
    }
    root
}

fn command(program: impl AsRef<std::ffi::OsStr>, arguments: &[&str]) -> Command {
    let mut command = Command::new(program);
    command.args(arguments);
    command
}

#[test]
fn a_process_in_other_mount_and_pid_namespaces_is_traced() {
    if !is_root("unshare") {
        return;
    }
    let path = program();
    let worker =
        Worker::start(command("unshare", &["-m", "-p", "-f", "--mount-proc", path.to_str().unwrap()]));
    check_running(worker, &quoted(&path), true);
}

#[test]
fn a_process_in_a_user_namespace_is_traced() {
    if !is_root("user namespace") {
        return;
    }
    let path = program();
    let worker = Worker::start(command(
        "unshare",
        &["-U", "-r", "-m", "-p", "-f", "--mount-proc", path.to_str().unwrap()],
    ));
    check_running(worker, &quoted(&path), true);
}

/// As a kernel probe would call it; its own number there is 1.
#[test]
fn a_process_in_a_pid_namespace_is_called_by_the_number_that_weir_knows() {
    if !is_root("pid namespace") {
        return;
    }
    let path = program();
    let mut worker = Worker::start(command("unshare", &["-p", "-f", path.to_str().unwrap()]));
    let script = format!("{BEGUN} uprobe:{}:work {{ @[pid] = count(); }}", quoted(&path));
    let weir = traced(&script, worker.pid);
    worker.work(20, 20);
    let text = stop(weir);
    assert_eq!(number(&text, &format!("@[{}]", worker.pid)), Some(20), "{text}");
    worker.end();
}

#[test]
fn a_process_under_another_root_is_traced_by_the_paths_that_it_knows() {
    if !is_root("chroot") {
        return;
    }
    let folder = root("changed");
    let worker = Worker::start(command("chroot", &[folder.to_str().unwrap(), "/bin/changed"]));
    check_running(worker, "/bin/changed", true);
    let worker = Worker::start(command("chroot", &[folder.to_str().unwrap(), "/bin/changed"]));
    check_library(&worker);
    worker.end();
    fs::remove_dir_all(folder).unwrap();
}

/// No file can be made, nothing under /tmp executed, nothing read from /proc.
#[test]
fn a_process_whose_root_is_read_only_and_has_no_proc_is_traced() {
    if !is_root("pivot_root") {
        return;
    }
    let (folder, rooted) = (root("rooted"), target::program("rooted"));
    let start = || Worker::start(command(&rooted, &[folder.to_str().unwrap(), "/bin/rooted"]));
    let worker = start();
    let inside = PathBuf::from(format!("/proc/{}/root", worker.pid));
    assert!(fs::write(inside.join("file"), "").is_err() && !inside.join("proc/self").exists());
    check_running(worker, "/bin/rooted", true);
    let worker = start();
    check_library(&worker);
    worker.end();
    fs::remove_dir_all(folder).unwrap();
}

/// Its libc is not the file that this machine has under the same name.
fn check_library(worker: &Worker) {
    let listed = weir().args(["list", "uprobe:libc:getpid", "-p", &worker.pid.to_string()]).output().unwrap();
    let said = String::from_utf8_lossy(&listed.stderr);
    assert!(String::from_utf8_lossy(&listed.stdout).contains("getpid"), "{said}");
}

/// A path that the target's root does not have is not looked for here.
#[test]
fn a_path_of_this_root_is_refused_for_a_process_under_another() {
    if !is_root("pivot_root") {
        return;
    }
    let (folder, rooted) = (root("elsewhere"), target::program("rooted"));
    let worker = Worker::start(command(&rooted, &[folder.to_str().unwrap(), "/bin/elsewhere"]));
    let path = program();
    assert!(!Path::new(&format!("/proc/{}/root{}", worker.pid, path.display())).exists());
    let script = format!("uprobe:{}:work {{ @ = count(); }}", quoted(&path));
    let output = weir().args(["trace", "-e", &script, "-p", &worker.pid.to_string()]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("no such file"), "{said}");
    worker.end();
    fs::remove_dir_all(folder).unwrap();
}
