//! usage: CPU time and memory of processes, from `/proc`, and which CPU they have.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};
use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::time::{clock_getcpuclockid, clock_gettime};
use nix::unistd::Pid;

/// CPU nanoseconds by thread. One that ended between two looks is in neither difference.
pub(super) type CpuTimes = BTreeMap<(i32, i32), f64>;

/// Of all threads of these processes, as the scheduler has counted them.
pub(super) fn cpu_ns(processes: &[i32]) -> Result<CpuTimes> {
    let mut times = CpuTimes::new();
    for &pid in processes {
        // A process of the server may end at any time.
        let Ok(threads) = fs::read_dir(format!("/proc/{pid}/task")) else { continue };
        for thread in threads {
            let thread = thread?;
            let Some(tid) = thread.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
            let Ok(text) = fs::read_to_string(thread.path().join("schedstat")) else { continue };
            let first = text.split_ascii_whitespace().next().and_then(|word| word.parse().ok());
            times.insert((pid, tid), first.with_context(|| format!("schedstat of {tid}: {text:?}"))?);
        }
    }
    Ok(times)
}

/// What threads took between two looks, in nanoseconds.
pub(super) fn spent(before: &CpuTimes, after: &CpuTimes) -> f64 {
    after.iter().map(|(thread, time)| time - before.get(thread).copied().unwrap_or(0.0)).sum()
}

/// CPU milliseconds of a process, with those of threads that have ended.
pub(super) fn process_cpu_ms(pid: i32) -> Result<f64> {
    let time = clock_getcpuclockid(Pid::from_raw(pid)).and_then(clock_gettime);
    Ok(Duration::from(time.with_context(|| format!("the CPU clock of {pid}"))?).as_secs_f64() * 1e3)
}

/// Kilobytes of the most memory that a process has had.
pub(super) fn peak_kb(pid: i32) -> Result<f64> {
    field_kb(&format!("/proc/{pid}/status"), "VmHWM")
}

/// Kilobytes of memory that these processes have for themselves alone.
pub(super) fn private_kb(processes: &[i32]) -> Result<f64> {
    let private = |&pid: &i32| {
        let file = format!("/proc/{pid}/smaps_rollup");
        Ok(field_kb(&file, "Private_Dirty")? + field_kb(&file, "Private_Clean")?)
    };
    processes.iter().map(private).sum()
}

fn field_kb(file: &str, field: &str) -> Result<f64> {
    let text = fs::read_to_string(file).with_context(|| format!("cannot read {file}"))?;
    let line = text.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
    let value = line.and_then(|line| line.trim().strip_suffix("kB")?.trim().parse().ok());
    value.with_context(|| format!("{file} has no {field}"))
}

/// Of `pid` and its children.
pub(super) fn family(pid: i32) -> Result<Vec<i32>> {
    let mut family = vec![pid];
    let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"))
        .with_context(|| format!("the children of {pid}"))?;
    family.extend(children.split_ascii_whitespace().filter_map(|word| word.parse::<i32>().ok()));
    Ok(family)
}

/// Two CPUs of those that this process may use: for the twins, and for what loads them. The same, where there is one.
pub(in crate::bench) fn cpus() -> Result<[usize; 2]> {
    let own = sched_getaffinity(Pid::from_raw(0)).context("cannot ask for this process's CPUs")?;
    let mut cpus = (0..CpuSet::count()).filter(|&cpu| own.is_set(cpu) == Ok(true));
    let first = cpus.next().context("no CPU")?;
    Ok([cpus.next_back().unwrap_or(first), first])
}

/// From now on this process, of one thread, has this CPU alone, and so has what it starts.
pub(in crate::bench) fn pin(pid: i32, cpu: usize) -> Result<()> {
    let mut set = CpuSet::new();
    set.set(cpu)?;
    sched_setaffinity(Pid::from_raw(pid), &set).with_context(|| format!("cannot keep {pid} on CPU {cpu}"))
}

/// A command that runs on this CPU alone, with all its threads.
pub(super) fn on_cpu(cpu: usize, program: &Path) -> Command {
    let mut command = Command::new("taskset");
    command.args(["-c", &cpu.to_string()]).arg(program);
    command
}

/// How a process calls itself.
pub(super) fn title(pid: i32) -> String {
    let bytes = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    String::from_utf8_lossy(&bytes).replace('\0', " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_is_that_between_two_looks() {
        let before = CpuTimes::from([((1, 1), 10.0), ((1, 2), 5.0)]);
        let after = CpuTimes::from([((1, 1), 14.0), ((1, 3), 2.0)]);
        assert_eq!(spent(&before, &after), 6.0);
    }

    #[test]
    fn this_process_has_used_some() {
        let pid = std::process::id() as i32;
        let of_threads = spent(&CpuTimes::new(), &cpu_ns(&[pid]).unwrap());
        assert!(of_threads > 0.0 && process_cpu_ms(pid).unwrap() >= of_threads / 1e6);
        assert!(peak_kb(pid).unwrap() > 100.0 && private_kb(&[pid]).unwrap() > 100.0);
        assert!(family(pid).unwrap().contains(&pid) && title(pid).contains("xtask"));
    }

    #[test]
    fn a_command_has_the_cpu_that_it_is_given() {
        let [cpu, _] = cpus().unwrap();
        let output = on_cpu(cpu, Path::new("grep")).args(["Cpus_allowed_list", "/proc/self/status"]).output();
        let text = String::from_utf8(output.unwrap().stdout).unwrap();
        assert_eq!(text.split_whitespace().last(), Some(&*cpu.to_string()));
    }
}
