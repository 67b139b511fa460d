//! Waiting with a deadline: nothing in a test waits for ever.

use std::process::{Child, ExitStatus};
use std::time::{Duration, Instant};

use crate::cpu;

/// How long a condition is not asked, at least and at most; in between it is an eighth of what has been waited for. What takes long is
/// asked seldom: a look may read all of a process's mappings.
const POLL: [Duration; 2] = [Duration::from_millis(1), Duration::from_millis(20)];

/// Waits until `condition` is true; whether it became so before the deadline.
pub fn until(deadline: Duration, mut condition: impl FnMut() -> bool) -> bool {
    until_some(deadline, || condition().then_some(())).is_some()
}

/// Waits until `condition` gives a value.
pub fn until_some<T>(deadline: Duration, mut condition: impl FnMut() -> Option<T>) -> Option<T> {
    let start = Instant::now();
    let end = start + deadline;
    loop {
        if let Some(value) = condition() {
            return Some(value);
        }
        if Instant::now() >= end {
            return None;
        }
        // Between two looks: the verdict does not depend on how long it takes.
        std::thread::sleep((start.elapsed() / 8).clamp(POLL[0], POLL[1]));
    }
}

/// Waits until a process has used so much more CPU time: what lets it run on where it is busy, and by something that other load
/// does not take away. False at the deadline.
pub fn until_used(process: u32, cpu_time: Duration, deadline: Duration) -> bool {
    let end = cpu::used_by(process) + cpu_time;
    until(deadline, || cpu::used_by(process) >= end)
}

/// The exit status of a child that ends before the deadline. The child is left running otherwise.
pub fn for_exit(child: &mut Child, deadline: Duration) -> Option<ExitStatus> {
    until_some(deadline, || child.try_wait().unwrap_or_else(|e| panic!("wait for {}: {e}", child.id())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_condition_ends_the_wait_and_so_does_the_deadline() {
        let mut asked = 0;
        assert!(until(Duration::from_secs(60), || {
            asked += 1;
            asked == 3
        }));
        assert_eq!(asked, 3);
        assert!(!until(Duration::from_millis(5), || false));
    }

    #[test]
    fn a_process_that_is_busy_uses_cpu_time() {
        let end = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !end.load(std::sync::atomic::Ordering::Relaxed) {
                    std::hint::spin_loop()
                }
            });
            let is_used = until_used(std::process::id(), Duration::from_millis(20), Duration::from_secs(60));
            end.store(true, std::sync::atomic::Ordering::Relaxed);
            assert!(is_used);
        });
    }
}
