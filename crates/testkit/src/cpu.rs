//! One CPU for a thread: what is kept for each CPU is in one place then. What two of them have does not always add up.

use nix::sched::{CpuSet, sched_getaffinity, sched_getcpu, sched_setaffinity};
use nix::unistd::Pid;

/// Keeps this thread, and what it starts from now on, on the CPU that it runs on.
pub fn stay_on_this() {
    keep(Pid::from_raw(0), sched_getcpu().expect("sched_getcpu"));
}

/// Keeps another process, which has one thread, on the first CPU that it may use.
pub fn keep_on_one(process: u32) {
    let process = Pid::from_raw(process as i32);
    let allowed = sched_getaffinity(process).expect("sched_getaffinity");
    let first = (0..CpuSet::count()).find(|&cpu| allowed.is_set(cpu).unwrap_or(false));
    keep(process, first.expect("it may run somewhere"));
}

fn keep(thread: Pid, cpu: usize) {
    let mut one = CpuSet::new();
    one.set(cpu).expect("a CPU's number");
    sched_setaffinity(thread, &one).expect("sched_setaffinity");
}
