//! One CPU for a thread: what is kept for each CPU is in one place then. What two of them have does not always add up.
//! And CPU time: how long something has run, however busy the machine is with other things.

use std::time::Duration;

use nix::sched::{CpuSet, sched_getaffinity, sched_getcpu, sched_setaffinity};
use nix::time::{ClockId, clock_getcpuclockid, clock_gettime};
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

/// The CPU time that this thread has used.
pub fn used_by_this_thread() -> Duration {
    used(ClockId::CLOCK_THREAD_CPUTIME_ID)
}

/// The CPU time that all threads of a process have used.
pub fn used_by(process: u32) -> Duration {
    used(clock_getcpuclockid(Pid::from_raw(process as i32)).expect("a process"))
}

fn used(clock: ClockId) -> Duration {
    Duration::from(clock_gettime(clock).expect("a clock of CPU time"))
}

fn keep(thread: Pid, cpu: usize) {
    let mut one = CpuSet::new();
    one.set(cpu).expect("a CPU's number");
    sched_setaffinity(thread, &one).expect("sched_setaffinity");
}
