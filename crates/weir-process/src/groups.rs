//! Which control group each traced process is in, for events that say so.
//!
//! In: `/proc`, at times that the caller gives. Out: the number of a process's group, and at the end the path of each number.
//! The number is what the kernel's `bpf_get_current_cgroup_id` answers: the inode of the group's folder, of version 2.
//!
//! Promised: the group is that of the process (its main thread's), as it was at most [`INTERVAL`] ago, or so many times that as
//! there are [`PROCESSES_PER_LOOK`]s of processes. The kernel tells nobody that a process is moved, so that one that was is taken for where
//! it was until then. 0 is a group that cannot be seen from here: outside of weir's namespace, or of what is mounted.

use std::collections::BTreeMap;
use std::ops::Range;
use std::time::{Duration, Instant};

use crate::cgroup::{self, Mount};
use crate::processes::Processes;

/// How often processes are looked at.
const INTERVAL: Duration = Duration::from_millis(100);
/// How many of them each time: a look is a file of `/proc` that is read.
const PROCESSES_PER_LOOK: usize = 64;
/// Paths that are remembered.
const NAMES_MAX: usize = 1024;

/// The groups of the processes of one run.
#[derive(Debug)]
pub struct Groups {
    processes: Processes,
    mounts: Vec<Mount>,
    looked: Instant,
    /// Processes passed over in the last look, where there are many.
    passed: usize,
    /// By number, of all groups that were seen.
    names: BTreeMap<u64, String>,
}

impl Groups {
    /// None where no group can have a number: no hierarchy of version 2 is mounted.
    pub fn find(processes: &Processes, now: Instant) -> Option<Groups> {
        let mounts = processes.cgroup_mounts();
        let processes = processes.clone();
        let has_numbers = mounts.iter().any(Mount::is_version_2);
        has_numbers.then(|| Groups { processes, mounts, looked: now, passed: 0, names: BTreeMap::new() })
    }

    /// The number of the group that a process is in now.
    pub fn of(&mut self, pid: i32) -> u64 {
        let found = cgroup::number(&self.processes.cgroups(pid), &self.mounts);
        let (id, path) = found.unwrap_or_else(|| (0, "not to be seen from here".to_owned()));
        if self.names.len() < NAMES_MAX || self.names.contains_key(&id) {
            self.names.insert(id, path);
        }
        id
    }

    /// Which of so many processes it is time to look at. To be asked often.
    pub fn due(&mut self, count: usize, now: Instant) -> Range<usize> {
        if now.saturating_duration_since(self.looked) < INTERVAL {
            return 0..0;
        }
        self.looked = now;
        let first = if self.passed < count { self.passed } else { 0 };
        self.passed = count.min(first + PROCESSES_PER_LOOK);
        first..self.passed
    }

    /// What the numbers were, by number: whoever reads them later has these alone.
    pub fn names(&self) -> impl Iterator<Item = (u64, &str)> {
        self.names.iter().map(|(id, path)| (*id, path.as_str()))
    }
}
