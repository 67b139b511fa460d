//! Whether one process runs in another's memory.
//!
//! In: numbers of processes. Out: what the kernel says of them. A process that shares its memory with a traced one (vfork(2),
//! clone(2) with `CLONE_VM` and without `CLONE_THREAD`) runs through the same probes; one that was forked has a copy of them,
//! whose gates are shut. Stops nothing, changes nothing.

use crate::process::sys;

/// Whether both run in one address space: kcmp(2). `None` where the kernel does not say: it has no such call, one of them is
/// gone, or may not be looked at.
pub fn share_memory(one: i32, other: i32) -> Option<bool> {
    sys::same_address_space(sys::living_thread(one), sys::living_thread(other)).ok()
}

#[cfg(test)]
mod tests {
    use nix::sys::signal::{Signal, kill};
    use nix::unistd::Pid;

    use super::*;

    #[test]
    fn a_process_shares_memory_with_itself_alone() {
        let own = std::process::id() as i32;
        assert_eq!(share_memory(own, own), Some(true));
        assert_ne!(share_memory(own, nix::unistd::getppid().as_raw()), Some(true));
    }

    #[test]
    fn nothing_is_said_of_a_process_that_is_gone() {
        // It is killed: the verdict does not depend on how long it is.
        let mut child = std::process::Command::new("sleep").arg("1000000").spawn().unwrap();
        let pid = child.id() as i32;
        kill(Pid::from_raw(pid), Signal::SIGKILL).unwrap();
        child.wait().unwrap();
        assert_eq!(share_memory(pid, std::process::id() as i32), None);
    }
}
