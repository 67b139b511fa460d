//! Waiting with a deadline: nothing in a test waits for ever.

use std::process::{Child, ExitStatus};
use std::time::{Duration, Instant};

/// How often a condition is asked.
const POLL: Duration = Duration::from_millis(2);

/// Waits until `condition` is true; whether it became so before the deadline.
pub fn until(deadline: Duration, mut condition: impl FnMut() -> bool) -> bool {
    until_some(deadline, || condition().then_some(())).is_some()
}

/// Waits until `condition` gives a value.
pub fn until_some<T>(deadline: Duration, mut condition: impl FnMut() -> Option<T>) -> Option<T> {
    let end = Instant::now() + deadline;
    loop {
        if let Some(value) = condition() {
            return Some(value);
        }
        if Instant::now() >= end {
            return None;
        }
        std::thread::sleep(POLL);
    }
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
        assert!(until(Duration::from_secs(5), || {
            asked += 1;
            asked == 3
        }));
        assert_eq!(asked, 3);
        assert!(!until(Duration::from_millis(5), || false));
    }
}
