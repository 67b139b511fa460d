//! A process that has almost all the memory it may have: what weir needs is weir's, not its.

use std::process::Command;
use std::time::Duration;

use nix::sys::signal::Signal;
use testkit::cgroup::MemoryGroup;
use testkit::paths::quoted;
use testkit::{Daemon, skip, target};

const DEADLINE: Duration = Duration::from_secs(120);
const HOARD_MB: u64 = 60;
/// Attaching copies a few of its pages, and makes a few tables.
const CHARGED_MAX: u64 = 1 << 20;

/// A map of 20 MiB, which is six times what the group has left.
const SCRIPT: &str = "config = { max_map_keys = 200000 } BEGIN { printf(\"begun\\n\"); } \
                      uprobe:PROGRAM:work { @seen[arg0] = count(); @calls = count(); @n = @n + 1; } \
                      interval:ms:20 { if (@n > 500000) { printf(\"enough\\n\"); @n = -1000000000; } }";

#[test]
fn a_process_at_the_end_of_its_memory_survives() {
    let group = match MemoryGroup::create("hoard") {
        Ok(group) => group,
        Err(error) => return skip::skip("life::memory", error),
    };
    let program = target::program("hoard");
    let mut command = Command::new("sh");
    command.args(["-c", "read go; exec \"$0\" \"$1\""]).arg(&program).arg(HOARD_MB.to_string());
    let mut hoard = Daemon::spawn(command).unwrap();
    group.add(hoard.pid()).unwrap();
    hoard.write("go\n").unwrap();
    hoard.line_with("ready", DEADLINE).unwrap();
    let before = group.usage().unwrap();
    group.limit(before * 100 / 95).unwrap();

    let script = SCRIPT.replace("PROGRAM", &quoted(&program));
    let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
    command.args(["trace", "-e", &script, "-p", &hoard.pid().to_string()]);
    let mut weir = Daemon::spawn(command).unwrap();
    weir.line_with("begun", DEADLINE).unwrap();
    weir.line_with("enough", DEADLINE).unwrap();
    let charged = group.usage().unwrap().saturating_sub(before);
    weir.signal(Signal::SIGINT).unwrap();
    let ended = weir.finish(DEADLINE).unwrap();
    assert!(ended.status.success(), "{}", ended.stderr);
    assert!(ended.stdout.contains("@calls: "), "{}", ended.stdout);

    hoard.write("end\n").unwrap();
    let said = hoard.line_with("calls", DEADLINE).unwrap();
    assert!(said.ends_with(" of 2"), "its memory is what it was: {said}");
    assert!(hoard.finish(DEADLINE).unwrap().status.success());
    assert!(charged <= CHARGED_MAX, "{charged} bytes of weir's were charged to the process's group");
    assert_eq!(group.kills().unwrap(), 0);
}

/// `budget`: what weir is given. What it printed, and what it said.
fn traced_with_many_keys(budget: Option<&str>) -> (String, String) {
    let program = target::program("hoard");
    let mut command = Command::new(&program);
    command.arg("1");
    let mut hoard = Daemon::spawn(command).unwrap();
    hoard.line_with("ready", DEADLINE).unwrap();
    let script = "config = { max_map_keys = 300000 } BEGIN { @n = 0; printf(\"begun\\n\"); } \
                  uprobe:PROGRAM:work { @n = @n + 1; if (@n % 32 == 0 && @n < 8000000) { @seen[@n] = 1; } } \
                  interval:ms:10 { if (@n > 8000000) { clear(@seen); exit(); } }";
    let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
    command.args(["trace", "-e", &script.replace("PROGRAM", &quoted(&program))]);
    command
        .args(["-p", &hoard.pid().to_string()])
        .args(budget.into_iter().flat_map(|budget| ["--budget", budget]));
    let ended = Daemon::spawn(command).unwrap().finish(DEADLINE).unwrap();
    assert!(ended.status.success(), "{}", ended.stderr);
    (ended.stdout, ended.stderr)
}

#[test]
fn a_map_grows_while_it_fills() {
    let (printed, said) = traced_with_many_keys(None);
    assert!(printed.contains("@n: "), "{printed}");
    assert!(!said.contains("new keys"), "{said}");
}

#[test]
fn a_map_does_not_grow_beyond_the_budget_and_says_so() {
    let (_, said) = traced_with_many_keys(Some("16MiB"));
    assert!(said.contains("weir: map @seen cannot grow: ") && said.contains("over the budget"), "{said}");
    assert!(said.contains("new keys came before @seen had grown for them, and are lost"), "{said}");
}
