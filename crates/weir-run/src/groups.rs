//! Which control group each traced process is in, for events that say so.
//!
//! In: `/proc`, at times. Out: the group's number in each process's own segment, where its programs find it; and at the end the path of each number.
//! The number is what the kernel's `bpf_get_current_cgroup_id` answers: the inode of the group's folder, of version 2.
//!
//! Promised: the group is that of the process (its main thread's), as it was at most [`INTERVAL`] ago, or so many times that as
//! there are [`PROCESSES_PER_LOOK`]s of processes. The kernel tells nobody that a process is moved, so that one that was is taken for where
//! it was until then. 0 is a group that cannot be seen from here: outside of weir's namespace, or of what is mounted.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::anyhow;
use weir_probe::Attachment;
use weir_process::cgroup::{self, Mount};
use weir_process::processes::Processes;
use weir_source::printable;

use crate::failure::Failure;
use crate::notice::{Notices, note};

/// How often processes are looked at.
const INTERVAL: Duration = Duration::from_millis(100);
/// How many of them each time: a look is a file of `/proc` that is read.
const PROCESSES_PER_LOOK: usize = 64;
/// Paths that are remembered.
const NAMES_MAX: usize = 1024;

pub(crate) struct Groups {
    processes: Processes,
    mounts: Vec<Mount>,
    looked: Instant,
    /// Processes passed over in the last look, where there are many.
    passed: usize,
    /// By number, of all groups that were seen.
    names: BTreeMap<u64, String>,
}

impl Groups {
    /// Refused where no group can have a number.
    pub(crate) fn find(processes: &Processes) -> Result<Groups, Failure> {
        let mounts = processes.cgroup_mounts();
        if !mounts.iter().any(Mount::is_version_2) {
            return Err(Failure::Refused(anyhow!(
                "the number of a cgroup was asked for (--add-context cgroup_id, `cgroup` in a script, get_current_cgroup_id in a program), and no \
                 hierarchy of version 2 is mounted on this machine; leave it out, or mount one (mount -t cgroup2 none DIR)"
            )));
        }
        Ok(Groups {
            processes: processes.clone(),
            mounts,
            looked: Instant::now(),
            passed: 0,
            names: BTreeMap::new(),
        })
    }

    /// The number of the group that a process is in now.
    pub(crate) fn of(&mut self, pid: i32) -> u64 {
        let found = cgroup::number(&self.processes.cgroups(pid), &self.mounts);
        let (id, path) = found.unwrap_or_else(|| (0, "not to be seen from here".to_owned()));
        if self.names.len() < NAMES_MAX || self.names.contains_key(&id) {
            self.names.insert(id, path);
        }
        id
    }

    /// To be called often.
    pub(crate) fn look<'a>(&mut self, all: impl ExactSizeIterator<Item = &'a Attachment>) {
        if self.looked.elapsed() < INTERVAL {
            return;
        }
        self.looked = Instant::now();
        let first = if self.passed < all.len() { self.passed } else { 0 };
        self.passed = all.len().min(first + PROCESSES_PER_LOOK);
        for attachment in all.skip(first).take(PROCESSES_PER_LOOK) {
            if attachment.target().is_alive() {
                attachment.set_cgroup(self.of(attachment.target().pid()));
            }
        }
    }

    /// What the numbers were: the trace has these alone.
    pub(crate) fn report(&self, notices: &Notices) {
        for (id, path) in &self.names {
            note!(notices, Recording, "  cgroup_id {id}: {}", printable(path));
        }
    }
}
