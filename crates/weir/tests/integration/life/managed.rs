//! Programs whose code is made while they run (tests/programs/managed.*): Java, Node and Python. Their native functions are
//! probed, what they generate never; they compute and end as they would have. The oracle is the program: it says how often it
//! did what the probed function is for, and checks what it computes.

use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use testkit::paths::quoted;
use weir_symbols::Binary;
use weir_symbols::maps::{self, Mapping};

use crate::life::worker::{BEGUN, Worker, number, stop, traced};

/// Times that each is attached to, while it compiles and collects.
const ROUNDS: u64 = 3;

/// The first of these programs that there is; `None`, told, if none.
fn found(name: &str, programs: &[&str], package: &str) -> Option<Command> {
    let runs =
        |program: &&&str| Command::new(program).arg("--version").output().is_ok_and(|o| o.status.success());
    let program = programs.iter().find(runs);
    if program.is_none() {
        testkit::skip::skip(name, format!("{package} is not installed"));
    }
    let mut command = Command::new(program?);
    command.env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default());
    Some(command)
}

fn source(file: &str) -> PathBuf {
    testkit::paths::root().join("tests/programs").join(file)
}

/// The mapped file of process `pid` that has this function.
fn file_with(pid: u32, function: &str) -> PathBuf {
    let mappings = maps::read(pid).unwrap();
    let mut files: Vec<&str> =
        mappings.iter().filter(|m| m.execute && m.path.starts_with('/')).map(|m| &*m.path).collect();
    files.dedup();
    let has = |path: &&&str| {
        Binary::open(Path::new(path)).is_ok_and(|b| b.find(function).is_ok_and(|f| !f.is_empty()))
    };
    PathBuf::from(files.iter().find(has).unwrap_or_else(|| panic!("{function} is in none of {files:?}")))
}

/// Jumps in `mapping` that lead into weir's code.
fn jumps(pid: u32, mapping: &Mapping, ours: &[Mapping]) -> usize {
    let memory = std::fs::File::open(format!("/proc/{pid}/mem")).unwrap();
    let mut bytes = vec![0; (mapping.end.0 - mapping.start.0) as usize];
    // What it has given back meanwhile has no jumps.
    if memory.read_exact_at(&mut bytes, mapping.start.0).is_err() {
        return 0;
    }
    let leads = |at: usize| {
        let offset = i32::from_le_bytes(bytes[at + 1..at + 5].try_into().unwrap());
        let to = (mapping.start.0 + at as u64 + 5).wrapping_add_signed(offset.into());
        ours.iter().any(|ours| (ours.start.0..ours.end.0).contains(&to))
    };
    (0..bytes.len().saturating_sub(4)).filter(|&at| bytes[at] == 0xe9 && leads(at)).count()
}

/// Nothing of weir's is in code that belongs to no file, while `file` has its jumps.
fn check_generated(pid: u32, file: &Path) {
    let mappings = maps::read(pid).unwrap();
    let ours: Vec<Mapping> =
        mappings.iter().filter(|m| m.execute && m.path.starts_with("/memfd:weir")).cloned().collect();
    let sum = |of: &dyn Fn(&Mapping) -> bool| -> usize {
        mappings.iter().filter(|m| m.execute && of(m)).map(|m| jumps(pid, m, &ours)).sum()
    };
    assert!(sum(&|m| Path::new(&m.path) == file) > 0, "it is not probed at all");
    assert_eq!(sum(&|m| m.inode == 0 && m.path != "[vdso]" && m.path != "[vsyscall]"), 0);
}

/// What unwinders ask: hooked while code of weir's is there that a thread may return to.
const HOOKED: [&str; 2] = ["_dl_find_object", "_Unwind_Find_FDE"];

/// The text of every file is as in the file again. Weir's code itself may stay, and with it the hooks that let unwinders pass it: a
/// word of a stack that looks as if a thread would return there is taken for one, and generated code leaves old words on its
/// stacks.
fn check_left(pid: u32) {
    let memory = std::fs::File::open(format!("/proc/{pid}/mem")).unwrap();
    let mappings = maps::read(pid).unwrap();
    let stays = mappings.iter().any(|m| m.execute && m.path.starts_with("/memfd:weir"));
    let texts: Vec<&Mapping> =
        mappings.iter().filter(|m| m.execute && !m.write && m.path.starts_with('/') && !m.deleted).collect();
    assert!(!texts.is_empty());
    for text in texts {
        let mut now = vec![0; (text.end.0 - text.start.0) as usize];
        memory.read_exact_at(&mut now, text.start.0).unwrap();
        let mut before = vec![0; now.len()];
        let read = std::fs::File::open(&text.path).unwrap().read_at(&mut before, text.offset.0).unwrap();
        let hooked = if stays { hooked(Path::new(&text.path), &mappings) } else { Vec::new() };
        for at in (0..read).filter(|&at| now[at] != before[at]) {
            let address = text.start.0 + at as u64;
            assert!(hooked.iter().any(|range| range.contains(&address)), "{} at {address:#x}", text.path);
        }
    }
}

/// Where the functions of the file at `path` are that may be hooked.
fn hooked(path: &Path, mappings: &[Mapping]) -> Vec<Range<u64>> {
    let binary = Binary::open(path).unwrap();
    let identity = binary.identity().unwrap();
    let found = HOOKED.into_iter().flat_map(|name| binary.find(name).unwrap_or_default());
    let ranges = found.filter_map(|function| {
        let start = maps::to_virtual(mappings, identity, &binary, function.address)?.0;
        Some(start..start + function.size)
    });
    ranges.collect()
}

/// Traces `clauses` (FILE: that with `function`) again and again while it works; gives what was printed each time, for so much work.
fn rounds(command: Command, function: &str, clauses: &str, work: u64, check: impl Fn(&str)) {
    let mut worker = Worker::start(command);
    let file = file_with(worker.pid, function);
    let script = format!("{BEGUN} {}", clauses.replace("FILE:", &format!("{}:", quoted(&file))));
    for round in 0..ROUNDS {
        let weir = traced(&script, worker.pid);
        check_generated(worker.pid, &file);
        worker.work(work, work * (round + 1));
        check(&stop(weir));
    }
    check_left(worker.pid);
    worker.work(work, work * (ROUNDS + 1));
    worker.end();
}

#[test]
fn java_is_probed_in_its_machine_and_never_in_what_that_makes() {
    let Some(mut command) = found("java", &["java"], "default-jdk-headless") else { return };
    command.args(["-Xmx128m", "-XX:TieredStopAtLevel=4"]).arg(source("managed.java"));
    const WORK: u64 = 5;
    let clauses = "uprobe:FILE:JVM_GC { @calls = count(); } uretprobe:FILE:JVM_GC { @returns = count(); }
        uprobe:FILE:JVM_handle_linux_signal { @signals = count(); }";
    rounds(command, "JVM_GC", clauses, WORK, |text| {
        assert_eq!((number(text, "@calls"), number(text, "@returns")), (Some(WORK), Some(WORK)), "{text}");
        assert!(number(text, "@signals").is_some(), "{text}");
    });
}

#[test]
fn node_is_probed_in_its_libraries_and_never_in_what_it_makes() {
    let Some(mut command) = found("node", &["node"], "nodejs") else { return };
    command.arg(source("managed.js"));
    const WORK: u64 = 1000;
    let clauses =
        "uprobe:FILE:uv_hrtime { @calls = count(); } uretprobe:FILE:uv_hrtime { @returns = count(); }";
    rounds(command, "uv_hrtime", clauses, WORK, |text| {
        let (calls, returns) = (number(text, "@calls").unwrap(), number(text, "@returns").unwrap());
        assert!(calls >= WORK && (WORK..=calls).contains(&returns), "{text}");
    });
}

const PYTHON: [&str; 2] = ["/usr/bin/python3", "python3"];

#[test]
fn python_is_probed_at_functions_returns_and_its_own_static_probes() {
    let Some(mut command) = found("python", &PYTHON, "python3") else { return };
    command.arg(source("managed.py"));
    const WORK: u64 = 1000;
    let clauses =
        "uprobe:FILE:PyLong_FromUnicodeObject { @calls = count(); } uretprobe:FILE:PyLong_FromUnicodeObject { @returns = count(); }
        uprobe:FILE:_PyEval_EvalFrameDefault { @frames = count(); }";
    let python = |text: &str| {
        let (calls, returns) = (number(text, "@calls").unwrap(), number(text, "@returns").unwrap());
        assert!(calls >= WORK && calls == returns, "{text}");
        // Each call of a function of Python's from native code, and a few of the program's own.
        let frames = number(text, "@frames").unwrap();
        assert!((WORK..WORK + 50).contains(&frames), "{text}");
    };
    rounds(command, "_PyEval_EvalFrameDefault", clauses, WORK, python);
}

#[test]
fn python_tells_of_its_collections_and_calls_by_static_probes() {
    let Some(mut command) = found("python", &PYTHON, "python3") else { return };
    command.arg(source("managed.py"));
    let mut worker = Worker::start(command);
    let file = file_with(worker.pid, "_PyEval_EvalFrameDefault");
    if Binary::open(&file)
        .unwrap()
        .find_static(Some("python"), "function__entry")
        .map_or(0, |found| found.len())
        == 0
    {
        return testkit::skip::skip("python-probes", "this Python was built without static probes");
    }
    let script = format!(
        "{BEGUN} usdt:{0}:python:gc__start {{ @collected = count(); }} usdt:{0}:python:function__entry {{ @[str(arg1)] = count(); }}",
        quoted(&file)
    );
    let weir = traced(&script, worker.pid);
    worker.work(10, 10);
    worker.work(10, 20);
    let text = stop(weir);
    assert_eq!((number(&text, "@collected"), number(&text, "@[own]")), (Some(2), Some(2)), "{text}");
    worker.end();
}
