//! Whether the thread is gone that was writing a record: ids of threads in, a proof or none out.
//!
//! A record names its thread as that knows itself, so the id means something here only while every process of the run is in
//! weir's own pid namespace; where one was not, or its namespace could not be read, nobody is known to be gone. An id that is another
//! thread's by now counts as alive.
//!
//! Not seen: a child in a pid namespace of its own that a traced process has forked.

use std::collections::BTreeSet;

use nix::errno::Errno;
use nix::sched::sched_getaffinity;
use nix::unistd::Pid;
use weir_rt::runtime::pid_namespace;

/// What is known of the processes of a run.
#[derive(Debug)]
pub struct Gone {
    own: (u64, u64),
    known: BTreeSet<i32>,
    knows_all: bool,
}

impl Gone {
    /// No process yet.
    #[allow(clippy::new_without_default, reason = "it looks at this process")]
    pub fn new() -> Gone {
        let own = pid_namespace(std::process::id());
        Gone { own, known: BTreeSet::new(), knows_all: own != (0, 0) }
    }

    /// These processes are traced.
    pub fn look_at(&mut self, processes: impl Iterator<Item = i32>) {
        for pid in processes {
            if self.known.insert(pid) {
                self.knows_all &= pid_namespace(pid as u32) == self.own;
            }
        }
    }

    /// Whether the thread of this number has ended for certain.
    pub fn is_gone(&self, thread: u32) -> bool {
        // The question needs no right over the thread, and a dead one answers until its end is taken note of.
        let answer = || sched_getaffinity(Pid::from_raw(thread as i32));
        self.knows_all && thread <= i32::MAX as u32 && answer() == Err(Errno::ESRCH)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn thread_that_ended() -> u32 {
        let thread = std::thread::spawn(|| nix::unistd::gettid().as_raw() as u32).join().expect("no panic");
        // The kernel says that it is done before the id is free.
        while sched_getaffinity(Pid::from_raw(thread as i32)) != Err(Errno::ESRCH) {
            std::thread::yield_now();
        }
        thread
    }

    #[test]
    fn threads_are_gone_once_nobody_has_their_id() {
        let mut gone = Gone::new();
        gone.look_at([std::process::id() as i32].into_iter());
        assert!(!gone.is_gone(nix::unistd::gettid().as_raw() as u32));
        assert!(gone.is_gone(thread_that_ended()));
    }

    #[test]
    fn nobody_is_gone_where_a_process_has_ids_of_its_own() {
        let thread = thread_that_ended();
        let mut gone = Gone::new();
        gone.own.1 ^= 1;
        gone.look_at([std::process::id() as i32].into_iter());
        assert!(!gone.is_gone(thread));
        // One that ended before it was looked at.
        let mut gone = Gone::new();
        gone.look_at([thread as i32].into_iter());
        assert!(!gone.is_gone(thread));
    }
}
