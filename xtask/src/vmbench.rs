//! vmbench: what a hit of a kernel probe takes, in instructions, in a virtual machine that has kprobes and counts what it executes; beside bpftrace.
//!
//! In: the kernel of a suite, and a folder with a system of Debian's that has bpftrace (debootstrap makes one). Out: for each kind of probe how many
//! instructions a system call takes more than without a probe, and whether all calls were counted; `target/bench/kernel-vm.json`. The machine is emulated, and
//! its time stamp counter goes by instructions, so that figures are the same each time and say nothing of caches.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use testkit::paths::quoted;
use testkit::qemu::{self, Files, Machine};

use crate::kernels::{self, Suite};
use crate::{packages, process, workspace};

/// LIMIT: a minute a side of bpftrace's, whose compiler is emulated too.
const LIMIT: Duration = Duration::from_secs(30 * 60);
const CALLS: u64 = 20_000;
/// The machine has one processor: of each case counts the run in which it did least besides.
const ROUNDS: usize = 3;
/// In the folder.
const BPFTRACE: &str = "usr/bin/bpftrace";

/// Kinds of probes, with scripts that both tracers take. Each counts calls in `@`; the function is one that getppid calls.
const CASES: [(&str, &str); 7] = [
    ("tracepoint", "tracepoint:syscalls:sys_enter_getppid { @ = count(); }"),
    ("kprobe", "kprobe:__task_pid_nr_ns { @ = count(); }"),
    ("kprobe of several functions", "kprobe:__task_pid_nr* { @ = count(); }"),
    ("kretprobe", "kretprobe:__task_pid_nr_ns { @ = count(); }"),
    (
        "kprobe and kretprobe, with a time between them",
        "kprobe:__task_pid_nr_ns { @start[tid] = nsecs; } kretprobe:__task_pid_nr_ns { @ = count(); delete(@start[tid]); }",
    ),
    ("fentry", "fentry:__task_pid_nr_ns { @ = count(); }"),
    ("fexit", "fexit:__task_pid_nr_ns { @ = count(); }"),
];

#[derive(clap::Args, Debug)]
pub(crate) struct Options {
    /// The Debian suite whose kernel is booted
    #[arg(long, value_name = "SUITE", default_value = "trixie")]
    kernel: Suite,
    /// A folder with a system of Debian's in which bpftrace is installed; without it weir is measured alone
    #[arg(long, value_name = "FOLDER")]
    reference: Option<PathBuf>,
}

pub(crate) fn vmbench(options: &Options) -> Result<()> {
    packages::install_missing()?;
    let image = kernels::fetch(options.kernel)?;
    let (weir, program) = (workspace::weir(None)?, workspace::test_program("kernel_events")?);
    let (with_libraries, mut alone) = ([weir.clone(), program.clone()], Vec::new());
    let mut sides = vec![("weir", format!("{} trace -q", quoted(&weir)))];
    if let Some(folder) = &options.reference {
        alone = reference_files(folder)?;
        sides.push(("bpftrace", format!("chroot {} /{BPFTRACE} -q", quoted(folder))));
    }
    let script = script(&sides, options.reference.as_deref(), &program);
    let machine = Machine { memory_mib: 3072, counts_instructions: true };
    let outcome = qemu::run_on(
        machine,
        &image,
        &Files { with_libraries: &with_libraries, alone: &alone },
        &script,
        LIMIT,
    );
    ensure!(outcome.code == Some(0), "{}\n{}", outcome.output, outcome.console);
    let found = found(&outcome.output)?;
    print(&sides, &found);
    let path = workspace::target_folder("bench")?.join("kernel-vm.json");
    fs::write(&path, format!("{:#}\n", json_of(options.kernel, &sides, &found)))?;
    println!("{}", path.display());
    Ok(())
}

/// bpftrace, and all that it loads.
fn reference_files(folder: &Path) -> Result<Vec<PathBuf>> {
    let program = folder.join(BPFTRACE);
    ensure!(
        program.is_file(),
        "no {}: `debootstrap --include=bpftrace trixie FOLDER` makes it",
        program.display()
    );
    let mut ldd = Command::new("chroot");
    let output = process::output_within(
        ldd.arg(folder).args(["ldd", &format!("/{BPFTRACE}")]),
        Duration::from_secs(60),
    )?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let library = |line: &str| {
        let path = line.split_whitespace().find(|word| word.starts_with('/'))?;
        Some(folder.join(&path[1..]))
    };
    Ok(text.lines().filter_map(library).chain([program]).collect())
}

/// What the machine runs: each case bare, and on each side.
fn script(sides: &[(&str, String)], reference: Option<&Path>, program: &Path) -> String {
    // Others than weir know no quotes.
    let command = format!("{} getppid {CALLS}", program.display());
    let mut script = String::new();
    if let Some(folder) = reference {
        let folder = quoted(folder);
        let target = format!("{folder}{}", quoted(program));
        script += &format!(
            "mkdir -p {folder}/proc {folder}/sys {folder}/dev {folder}/tmp $(dirname {target})\ncp {} {target}\n\
             for d in proc sys dev; do mount --rbind /$d {folder}/$d; done\nexport BPFTRACE_MAX_MAP_KEYS=4096\n",
            quoted(program)
        );
    }
    for (name, text) in CASES.repeat(ROUNDS) {
        script += &format!("echo CASE bare bare; {command}\n");
        for (side, tracer) in sides {
            script +=
                &format!("echo \"CASE {side} {name}\"; {tracer} -e '{text}' -c '{command}' || echo failed\n");
        }
    }
    script
}

/// By side and case: instructions of a call, and how many were counted; or what was said instead.
type Found = BTreeMap<(String, String), Result<(f64, Option<u64>), String>>;

fn found(output: &str) -> Result<Found> {
    let mut found = Found::new();
    for part in output.split("CASE ").skip(1) {
        let (head, rest) = part.split_once('\n').context("a case has a line")?;
        let (side, name) = head.trim().split_once(' ').context("a case has a side")?;
        let number = |start: &str| rest.lines().find_map(|line| line.trim().strip_prefix(start));
        let ticks = number("ticks=").and_then(|text| text.parse().ok());
        let counted = number("@: ").and_then(|text| text.parse().ok());
        let said = || rest.split_whitespace().collect::<Vec<_>>().join(" ");
        let one = match (ticks, counted) {
            (Some(ticks), counted) if counted.is_some() || side == "bare" => Ok((ticks, counted)),
            _ => Err(said()),
        };
        let least = |had: &Result<(f64, Option<u64>), String>| match (had, &one) {
            (Ok((had, _)), Ok((ticks, _))) => ticks < had,
            (had, _) => had.is_err(),
        };
        let key = (side.to_owned(), name.to_owned());
        if found.get(&key).is_none_or(least) {
            found.insert(key, one);
        }
    }
    Ok(found)
}

fn bare(found: &Found) -> f64 {
    let bare = found.get(&("bare".to_owned(), "bare".to_owned()));
    bare.and_then(|one| Some(one.as_ref().ok()?.0)).unwrap_or(0.0)
}

fn print(sides: &[(&str, String)], found: &Found) {
    println!("instructions of a hit, beyond those of the system call itself ({:.0})", bare(found));
    for (name, _) in CASES {
        for (side, _) in sides {
            let one = match &found[&((*side).to_owned(), name.to_owned())] {
                Ok((ticks, counted)) => {
                    let missing = CALLS.saturating_sub(counted.unwrap_or(0));
                    format!(
                        "{:8.1}{}",
                        ticks - bare(found),
                        if missing > 0 { format!("  {missing} missing") } else { String::new() }
                    )
                }
                Err(said) => said.clone(),
            };
            println!("{name:48} {side:10} {one}");
        }
    }
}

fn json_of(kernel: Suite, sides: &[(&str, String)], found: &Found) -> Value {
    let mut rows = Vec::new();
    for (name, script) in CASES {
        for (side, _) in sides {
            let one = &found[&((*side).to_owned(), name.to_owned())];
            let (instructions, counted) =
                one.as_ref().map_or((None, None), |(ticks, counted)| (Some(ticks - bare(found)), *counted));
            rows.push(json!({
                "case": name, "subject": side, "script": script, "instructions": instructions, "counted": counted,
                "calls": CALLS, "error": one.as_ref().err(),
            }));
        }
    }
    json!({ "kernel": kernel.name(), "commit": workspace::commit(), "call": bare(found), "figures": rows })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_case_has_what_its_program_and_its_tracer_said() {
        let text = "CASE bare bare\nticks=200.500\nCASE weir kprobe\nticks=700.5\n\n\n@: 20000\n\nCASE bpftrace kprobe\nstdin:1:1-9: ERROR: no\nfailed\n";
        let found = found(text).unwrap();
        assert_eq!(bare(&found), 200.5);
        assert_eq!(found[&("weir".into(), "kprobe".into())], Ok((700.5, Some(20_000))));
        assert_eq!(found[&("bpftrace".into(), "kprobe".into())], Err("stdin:1:1-9: ERROR: no failed".into()));
    }
}
