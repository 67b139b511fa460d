//! Benches run, and their JSON is whole: one round of as little as can be measured, with the weir that was built beside this test.
//!
//! Not here, since a round of theirs is not a matter of seconds: those that build with Cargo (`vm`, `filter`, `tracepoint`, `view`) and
//! those that fill a database (`postgres`, `postgres-defaults`, `usdt`). Nor `nginx` and `nginx-pages`, whose load is wrk, which tests
//! do not install.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;
use testkit::{paths, skip};

/// Subjects that stand beside weir without being compared with it: what the bench itself does.
const BESIDE: [&str; 5] = ["bare", "unprobed", "idle", "attaching", "detaching"];

#[test]
fn startup() {
    check("startup", &["spawn to main"]);
}

#[test]
fn kernel() {
    let ready = testkit::kernel::available().map_err(|reason| reason.to_string());
    let ready = ready.and_then(|()| testkit::uprobe::mount_tracefs().map_err(|reason| reason.to_string()));
    match ready {
        Ok(()) => {
            check("kernel", &["tracepoint: ns a hit", "uprobe and uretprobe: ns a hit", "start until armed"])
        }
        Err(reason) => skip::skip("bench-kernel", reason),
    }
}

#[test]
fn build() {
    check("build", &["make of a small C project"]);
}

#[test]
fn uprobe() {
    check("uprobe", &["ns a hit", "loss at 1000000/s", "wall loss flat out"]);
}

#[test]
fn probe() {
    check("probe", &["empty entry", "hist(nsecs - @s[tid]), 2 threads"]);
}

#[test]
fn attach() {
    check("attach", &["sum until attached", "detach: longest stop"]);
}

#[test]
fn script() {
    check("script", &["ns a hit: chain", "ns a hit: printf", "compile: one line"]);
}

#[test]
fn record() {
    check("record", &["9 strings, 1 thread", "9 strings, 1 thread, filtered"]);
}

#[test]
fn redis() {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let is_there = |program: &str| std::env::split_paths(&path).any(|folder| folder.join(program).is_file());
    if !["redis-server", "redis-benchmark"].into_iter().all(is_there) {
        return skip::skip("bench-redis", "no redis-server and redis-benchmark");
    }
    // Where Yama restricts it, a process that weir did not start.
    if !nix::unistd::getuid().is_root() {
        return skip::skip("bench-redis", "attaching to another's child may be for root");
    }
    for bench in ["record-redis", "flight-redis"] {
        check(bench, &["CPU time of a request, over unprobed", "p99.9 latency", "memory of weir"]);
    }
}

/// Every subject's figure of every case is whole, weir has one of each case but those of what stands beside it, and of these.
fn check(bench: &str, cases: &[&str]) {
    let weir = Path::new(env!("CARGO_BIN_EXE_xtask")).with_file_name("weir");
    if !weir.exists() {
        return skip::skip(&format!("bench-{bench}"), "no weir is built: cargo build -p weir");
    }
    let folder = paths::fresh("smoke", bench);
    fs::create_dir_all(&folder).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_xtask"));
    command.args(["bench", bench, "--smoke", "--weir"]).arg(&weir);
    let output = command.env("CARGO_TARGET_DIR", &folder).stdin(Stdio::null()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{bench}: {}: {said}", output.status);
    let text = fs::read_to_string(folder.join(format!("bench/{bench}-smoke.json"))).unwrap();
    let value: Value = serde_json::from_str(&text).unwrap();
    let subjects = value["figures"].as_object().unwrap();
    let of_weir = subjects["weir"].as_object().unwrap();
    for (subject, figures) in subjects {
        assert!(subject == "weir" || BESIDE.contains(&subject.as_str()), "{bench}: {subject} is no peer's");
        for (case, figure) in figures.as_object().unwrap() {
            let is_whole = ["median", "low", "high"].iter().all(|value| figure[value].is_f64());
            assert!(is_whole && figure["unit"].is_string(), "{bench}: {subject}, {case}: {figure}");
        }
    }
    for case in cases {
        assert!(of_weir.contains_key(*case), "{bench}: no {case}: {text}");
    }
    assert_eq!((&value["rounds"]["done"], &value["rounds"]["asked"]), (&1.into(), &1.into()), "{bench}");
    let printed = String::from_utf8_lossy(&output.stdout);
    assert!(printed.contains("1 round: fewer than 15 give no interval worth the name"), "{bench}: {printed}");
    fs::remove_dir_all(&folder).unwrap();
}
