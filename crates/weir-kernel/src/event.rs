//! Programs at events that only the kernel sees: tracepoints, functions of its own, time, counters.
//!
//! | event | program | attached by |
//! |---|---|---|
//! | tracepoint | BPF_PROG_TYPE_TRACEPOINT | a perf event of its number in tracefs, and a link |
//! | raw tracepoint | BPF_PROG_TYPE_RAW_TRACEPOINT | BPF_RAW_TRACEPOINT_OPEN |
//! | function, its return | BPF_PROG_TYPE_KPROBE | a perf event of the PMU `kprobe`, and a link |
//! | time, counter | BPF_PROG_TYPE_PERF_EVENT | a perf event and a link for each CPU |
//!
//! Interface: bpf(2), perf_event_open(2), `events/*/*/id` of tracefs.

use std::ffi::CString;
use std::fs;
use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::path::{Path, PathBuf};

use weir_ebpf::Program;

use crate::probe::{Link, missed};
use crate::program::{ProgType, load_insns, with_descriptors};
use crate::syscall::{self, LinkPerfEvent, PerfEventAttr, RawTracepoint};
use crate::{KernelError, Maps};

/// Where a program runs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Event {
    /// Its record is what the program is given.
    Tracepoint {
        /// Such as `sched`.
        subsystem: String,
        /// Such as `sched_switch`.
        name: String,
    },
    /// Its arguments are.
    RawTracepoint {
        /// Such as `sched_switch`.
        name: String,
    },
    /// Registers are.
    Function {
        /// As the kernel lists it, of a module as `module:function`.
        name: String,
        /// Bytes behind its entry.
        offset: u64,
        /// Where it has returned.
        is_return: bool,
    },
    /// On each CPU, whatever runs there.
    Clock {
        /// Nanoseconds.
        period_ns: u64,
    },
    /// The same each so many events.
    Counter {
        /// `perf_type_id`.
        kind: u32,
        /// `perf_sw_ids` or `perf_hw_id`.
        config: u64,
        /// How many.
        count: u64,
    },
}

/// Where tracefs is mounted: by itself, or in debugfs as it once was.
const TRACEFS: [&str; 2] = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];
/// The PMU of functions.
const KPROBES: &str = "/sys/bus/event_source/devices/kprobe";
/// `perf_type_id`.
const TYPE_SOFTWARE: u32 = 1;
const TYPE_TRACEPOINT: u32 = 2;
/// `perf_sw_ids`.
const CPU_CLOCK: u64 = 0;

impl Event {
    fn prog_type(&self) -> ProgType {
        match self {
            Event::Tracepoint { .. } => ProgType::Tracepoint,
            Event::RawTracepoint { .. } => ProgType::RawTracepoint,
            Event::Function { .. } => ProgType::Kprobe,
            Event::Clock { .. } | Event::Counter { .. } => ProgType::PerfEvent,
        }
    }

    /// For messages.
    fn place(&self) -> PathBuf {
        let text = match self {
            Event::Tracepoint { subsystem, name } => format!("the tracepoint {subsystem}:{name}"),
            Event::RawTracepoint { name } => format!("the raw tracepoint {name}"),
            Event::Function { name, .. } => format!("the function {name} of the kernel"),
            Event::Clock { .. } => "a clock of each CPU".to_owned(),
            Event::Counter { .. } => "a counter of each CPU".to_owned(),
        };
        text.into()
    }
}

/// A program of events that the kernel took.
#[derive(Debug)]
pub struct AtEvent {
    name: String,
    program: OwnedFd,
}

impl AtEvent {
    /// Loads a program, whose map indices refer to `maps`, for events like this one.
    pub fn load(program: &Program, maps: &Maps, event: &Event) -> Result<AtEvent, KernelError> {
        let insns = with_descriptors(&program.insns, |index| maps.descriptor(index));
        let name = program.name.clone();
        let program = load_insns(event.prog_type(), 0, &name, &insns)?;
        Ok(AtEvent { name, program })
    }

    /// Attaches it. `cookie`: what it gets from `bpf_get_attach_cookie`, which programs of raw tracepoints have not.
    pub fn attach(&self, event: &Event, cookie: u64) -> Result<Link, KernelError> {
        let attached = match event {
            Event::Tracepoint { subsystem, name } => self.tracepoint(subsystem, name, cookie),
            Event::RawTracepoint { name } => self.raw_tracepoint(name),
            Event::Function { name, offset, is_return } => self.function(name, *offset, *is_return, cookie),
            Event::Clock { period_ns } => self.sampled(TYPE_SOFTWARE, CPU_CLOCK, *period_ns, cookie),
            Event::Counter { kind, config, count } => self.sampled(*kind, *config, *count, cookie),
        };
        let failed = |source| KernelError::Attach { name: self.name.clone(), file: event.place(), source };
        attached.map(Link::of).map_err(failed)
    }

    /// How often it did not run because another program ran on the CPU, as far as the kernel counts that.
    pub fn missed(&self) -> u64 {
        missed(&self.program)
    }

    fn tracepoint(&self, subsystem: &str, name: &str, cookie: u64) -> io::Result<Vec<OwnedFd>> {
        let number = |root: &&str| {
            let id = Path::new(root).join("events").join(subsystem).join(name).join("id");
            fs::read_to_string(id).ok()?.trim().parse::<u64>().ok()
        };
        let missing = || io::Error::new(io::ErrorKind::NotFound, "tracefs has no number of it");
        let config = TRACEFS.iter().find_map(number).ok_or_else(missing)?;
        let attributes =
            PerfEventAttr { kind: TYPE_TRACEPOINT, config, sample_period: 1, ..PerfEventAttr::sized() };
        self.linked(&attributes, 0, cookie).map(Vec::from)
    }

    fn raw_tracepoint(&self, name: &str) -> io::Result<Vec<OwnedFd>> {
        let name = CString::new(name)?;
        let mut attributes = RawTracepoint {
            name: name.as_ptr() as u64,
            prog_fd: self.program.as_raw_fd() as u32,
            ..RawTracepoint::default()
        };
        // SAFETY: the name lives over the call, and the answer is a descriptor.
        Ok(vec![unsafe { syscall::open(syscall::RAW_TRACEPOINT_OPEN, &mut attributes) }?])
    }

    fn function(&self, name: &str, offset: u64, is_return: bool, cookie: u64) -> io::Result<Vec<OwnedFd>> {
        let kind = fs::read_to_string(Path::new(KPROBES).join("type"));
        let kind = kind.map_err(|_| {
            io::Error::new(
                io::ErrorKind::Unsupported,
                "this kernel has no kprobes (CONFIG_KPROBES, CONFIG_KPROBE_EVENTS)",
            )
        })?;
        let name = CString::new(name)?;
        let attributes = PerfEventAttr {
            kind: kind.trim().parse().map_err(io::Error::other)?,
            // The bit that `format/retprobe` names is the first one in all kernels that have it.
            config: is_return.into(),
            config1: name.as_ptr() as u64,
            config2: offset,
            ..PerfEventAttr::sized()
        };
        self.linked(&attributes, 0, cookie).map(Vec::from)
    }

    /// On each CPU.
    fn sampled(&self, kind: u32, config: u64, sample_period: u64, cookie: u64) -> io::Result<Vec<OwnedFd>> {
        let attributes = PerfEventAttr { kind, config, sample_period, ..PerfEventAttr::sized() };
        let mut all = Vec::new();
        for cpu in online_cpus()? {
            all.extend(self.linked(&attributes, cpu, cookie)?);
        }
        Ok(all)
    }

    /// A perf event of all processes, and the link of the program to it.
    fn linked(&self, attributes: &PerfEventAttr, cpu: i32, cookie: u64) -> io::Result<[OwnedFd; 2]> {
        // SAFETY: what the attributes point to lives over the call.
        let event = unsafe { syscall::perf_event_open(attributes, -1, cpu) }?;
        let mut attributes = LinkPerfEvent {
            prog_fd: self.program.as_raw_fd() as u32,
            target_fd: event.as_raw_fd() as u32,
            attach_type: syscall::PERF_EVENT,
            cookie,
            ..LinkPerfEvent::default()
        };
        // SAFETY: the attributes hold no addresses, and the answer is a descriptor.
        let link = unsafe { syscall::open(syscall::LINK_CREATE, &mut attributes) }?;
        Ok([event, link])
    }
}

/// Numbers of the CPUs that run: `0-3,8`.
fn online_cpus() -> io::Result<Vec<i32>> {
    let list = fs::read_to_string("/sys/devices/system/cpu/online")?;
    let unknown = || io::Error::other(format!("/sys/devices/system/cpu/online: {list:?}"));
    cpus_of(&list).ok_or_else(unknown)
}

fn cpus_of(list: &str) -> Option<Vec<i32>> {
    let mut cpus = Vec::new();
    for part in list.trim().split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        cpus.extend(first.parse::<i32>().ok()?..=last.parse::<i32>().ok()?);
    }
    Some(cpus)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_cpus_are_read() {
        assert_eq!(cpus_of("0-3,8\n"), Some(vec![0, 1, 2, 3, 8]));
        assert_eq!(cpus_of("0\n"), Some(vec![0]));
        assert_eq!(cpus_of("\n"), None);
        assert_eq!(cpus_of("a-b"), None);
    }
}
