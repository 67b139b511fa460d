//! Perf events, and links of programs to them.
//!
//! In: attributes, a process or a CPU, a program. Out: two descriptors; the program is attached while both are open.
//!
//! Interface: perf_event_open(2), BPF_LINK_CREATE, `/sys/bus/event_source/devices`.

use std::fs;
use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::path::{Path, PathBuf};

use crate::syscall::{self, LinkPerfEvent, PerfEventAttr};

/// Of all processes. Of what is not counted by CPU, any one stands for all.
pub(crate) const ALL: (i32, i32) = (-1, 0);

/// The event, of a process or a CPU as perf_event_open(2) has them, and the link of the program to it.
pub(crate) fn linked(
    program: &OwnedFd,
    attributes: &PerfEventAttr,
    (pid, cpu): (i32, i32),
    cookie: u64,
) -> io::Result<[OwnedFd; 2]> {
    // SAFETY: what the attributes point to lives over the call.
    let event = unsafe { syscall::perf_event_open(attributes, pid, cpu) }?;
    let mut attributes = LinkPerfEvent {
        prog_fd: program.as_raw_fd() as u32,
        target_fd: event.as_raw_fd() as u32,
        attach_type: syscall::PERF_EVENT,
        cookie,
        ..LinkPerfEvent::default()
    };
    // SAFETY: the attributes hold no addresses, and the answer is a descriptor.
    let link = unsafe { syscall::open(syscall::LINK_CREATE, &mut attributes) }?;
    Ok([event, link])
}

/// A kind of perf events: `kprobe` or `uprobe`.
pub(crate) struct Pmu {
    folder: PathBuf,
    /// Its number, which is the event's type.
    pub(crate) kind: u32,
}

impl Pmu {
    pub(crate) fn read(name: &str) -> io::Result<Pmu> {
        let folder = Path::new("/sys/bus/event_source/devices").join(name);
        let text = fs::read_to_string(folder.join("type"))?;
        let kind = text.trim().parse();
        let kind = kind.map_err(|_| io::Error::other(format!("{}: {text:?}", folder.display())))?;
        Ok(Pmu { folder, kind })
    }

    /// In `config`: it is of a return, or not.
    pub(crate) fn of_return(&self, is_return: bool) -> u64 {
        if is_return { 1 << self.first_bit("retprobe", 0) } else { 0 }
    }

    /// In `config`: the semaphore that is raised, 0 for none.
    pub(crate) fn of_semaphore(&self, offset: u64) -> u64 {
        offset << self.first_bit("ref_ctr_offset", 32)
    }

    fn first_bit(&self, name: &str, usual: u32) -> u32 {
        let text = fs::read_to_string(self.folder.join("format").join(name)).unwrap_or_default();
        let first = text.trim().strip_prefix("config:").and_then(|bits| bits.split('-').next()?.parse().ok());
        first.unwrap_or(usual)
    }
}
