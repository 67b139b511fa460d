//! The number of a process's control group, in its own segment: there helpers find it, which could not ask the kernel without opening files.
//!
//! Only the controller writes it. It is the target's to write as well: at worst its own events have a wrong number.

use std::sync::atomic::Ordering;

use super::Segment;
use crate::abi::header;

impl Segment {
    /// From now on programs are told this number; 0: it is not known.
    pub fn set_cgroup(&self, id: u64) {
        self.mapping().word(header::CGROUP as u64).store(id, Ordering::Relaxed);
    }
}
