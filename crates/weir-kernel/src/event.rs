//! Programs at events that only the kernel sees: tracepoints, functions of its own, time, counters.
//!
//! | event | program | attached by |
//! |---|---|---|
//! | tracepoint | BPF_PROG_TYPE_TRACEPOINT | a perf event of its number in tracefs, and a link |
//! | raw tracepoint | BPF_PROG_TYPE_RAW_TRACEPOINT | BPF_RAW_TRACEPOINT_OPEN |
//! | function, its return | BPF_PROG_TYPE_KPROBE | a link of many, where the kernel has such (5.18); else a perf event of the PMU `kprobe`, and a link, for each |
//! | both ends of its calls | the same | a link of such sessions (6.10) |
//! | the same with types | BPF_PROG_TYPE_TRACING, one for each function | BPF_RAW_TRACEPOINT_OPEN |
//! | time, counter | BPF_PROG_TYPE_PERF_EVENT | a perf event and a link for each CPU |
//! | watched memory | BPF_PROG_TYPE_PERF_EVENT | a perf event and a link for each thread of the processes, which theirs inherit; else for each CPU |
//! | iterator | BPF_PROG_TYPE_TRACING | a link, and a file that is read ([`Iteration`]) |
//!
//! Interface: bpf(2), perf_event_open(2), `events/*/*/id` of tracefs.

use std::collections::BTreeSet;
use std::ffi::CString;
use std::fs;
use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::path::{Path, PathBuf};

use nix::libc;
use weir_ebpf::insn::NOTHING;
use weir_ebpf::{Program, ProgramKind};
use weir_event::kernel::{CounterKind, KernelEvent, watch};

use crate::functions::{Functions, is_of_many};
use crate::iterator::{self, Iteration};
use crate::perf::{ALL, Pmu, linked};
use crate::probe::{Link, missed, named};
use crate::program::{Code, Kind, ProgType, code, load_insns, load_probe};
use crate::syscall::{self, LinkKprobes, PerfEventAttr, RawTracepoint};
use crate::{KernelError, Maps};

/// Where tracefs is mounted: by itself, or in debugfs as it once was.
const TRACEFS: [&str; 2] = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];
/// The PMU of functions.
pub(crate) const KPROBES: &str = "kprobe";
/// `perf_type_id`, beside those of counters.
const TYPE_TRACEPOINT: u32 = 2;
const TYPE_BREAKPOINT: u32 = 5;
/// How often a process's threads are listed until none has come meanwhile.
const LISTINGS_MAX: usize = 100;
/// Bits of the flags of perf_event_attr: threads that a thread starts have the event too.
const INHERIT: u64 = 1 << 1;
/// And processes that it starts have it not (Linux 5.13).
const INHERIT_THREAD: u64 = 1 << 35;
/// `perf_sw_ids`.
const CPU_CLOCK: u64 = 0;

/// The folder of tracefs in which each tracepoint has one; none where it is not mounted, or not ours to read.
pub fn tracepoints() -> Option<PathBuf> {
    let folders = TRACEFS.iter().map(|folder| Path::new(folder).join("events"));
    { folders }.find(|events| fs::read_dir(events).is_ok())
}

/// What programs at events like this one are loaded as. None: BTF has no such function.
fn kind(event: &KernelEvent, functions: &Functions) -> Option<Kind> {
    Some(match event {
        KernelEvent::Tracepoint { .. } => Kind::of(ProgType::Tracepoint),
        KernelEvent::RawTracepoint { .. } => Kind::of(ProgType::RawTracepoint),
        KernelEvent::Function { .. } => Kind::of(ProgType::Kprobe),
        KernelEvent::Call { .. } => {
            Kind { attach_type: syscall::TRACE_KPROBE_SESSION, ..Kind::of(ProgType::Kprobe) }
        }
        KernelEvent::TypedFunction { name, is_return } => Kind {
            attach_type: if *is_return { syscall::TRACE_FEXIT } else { syscall::TRACE_FENTRY },
            function: functions.id(name)? as u32,
            ..Kind::of(ProgType::Tracing)
        },
        KernelEvent::Iterator { name } => Kind {
            attach_type: syscall::TRACE_ITER,
            function: functions.id(&format!("{}{name}", iterator::FUNCTION))? as u32,
            ..Kind::of(ProgType::Tracing)
        },
        KernelEvent::Clock { .. } | KernelEvent::Counter { .. } | KernelEvent::Watchpoint { .. } => {
            Kind::of(ProgType::PerfEvent)
        }
    })
}

/// One program can be at both ends of the calls of this function of the kernel's, which is tried.
pub fn keeps_calls_of(function: &str) -> bool {
    takes(&KernelEvent::Call { name: function.to_owned() })
}

/// The kernel takes a program at this event: it is attached, and taken off again.
pub(crate) fn takes(event: &KernelEvent) -> bool {
    let functions = Functions::of_kernel([event]);
    if matches!(event, KernelEvent::Call { .. }) && functions.session.is_none() {
        return false;
    }
    let program = Program { name: "asked".to_owned(), kind: ProgramKind::Probe, insns: NOTHING.to_vec() };
    let attached = Maps::create(&[])
        .and_then(|maps| AtEvent::load(&program, &maps, event, &functions)?.attach(&[(event, 0)], &[]));
    attached.is_ok()
}

/// For messages.
fn described(event: &KernelEvent) -> String {
    match event {
        KernelEvent::Tracepoint { subsystem, name } => format!("the tracepoint {subsystem}:{name}"),
        KernelEvent::RawTracepoint { name } => format!("the raw tracepoint {name}"),
        KernelEvent::Function { name, .. }
        | KernelEvent::Call { name }
        | KernelEvent::TypedFunction { name, .. } => {
            format!("the function {name} of the kernel")
        }
        KernelEvent::Clock { .. } => "a clock of each CPU".to_owned(),
        KernelEvent::Counter { .. } => "a counter of each CPU".to_owned(),
        KernelEvent::Watchpoint { address, bytes, .. } => {
            format!("a watchpoint of {bytes} bytes at {address:#x}")
        }
        KernelEvent::Iterator { name } => format!("the kernel's iterator of {name}"),
    }
}

/// A program of events that the kernel took.
#[derive(Debug)]
pub struct AtEvent {
    name: String,
    code: Code,
    program: OwnedFd,
    /// One link is of many functions.
    is_multi: bool,
}

impl AtEvent {
    /// Loads a program, whose map indices refer to `maps`, for events like this one; `functions` was asked about it.
    pub fn load(
        program: &Program,
        maps: &Maps,
        event: &KernelEvent,
        functions: &Functions,
    ) -> Result<AtEvent, KernelError> {
        let mut insns = program.insns.clone();
        if let (KernelEvent::Call { .. }, Some(session)) = (event, functions.session) {
            insns = named(&insns, session);
        }
        if matches!(event, KernelEvent::Iterator { .. }) {
            insns = iterator::paced(&insns);
        }
        let name = program.name.clone();
        let is_multi = functions.links_many(event);
        let kind = match kind(event, functions) {
            Some(kind) if is_multi => Kind { attach_type: syscall::TRACE_KPROBE_MULTI, ..kind },
            Some(kind) => kind,
            None => return Err(not_attached(&name, event, io::Error::other("BTF has no such function"))),
        };
        let code = code(&insns, maps);
        let program = load_insns(kind, &name, &code).map_err(|error| match error {
            // Its maps are there: what is missing is no right.
            KernelError::Refused { error, log, .. } if kind.function != 0 && log.is_empty() => {
                let text = format!("{error}: this kernel has none of its functions call programs");
                not_attached(&name, event, io::Error::other(text))
            }
            error => error,
        })?;
        Ok(AtEvent { name, code, program, is_multi })
    }

    /// Attaches it to all of the events, which are like the one that it was loaded for, or to none. With each its cookie, which the program gets
    /// from `bpf_get_attach_cookie`; those of raw tracepoints and of functions with types have none. Watched is the memory of these processes or,
    /// without any, of whatever runs.
    pub fn attach(&mut self, sites: &[(&KernelEvent, u64)], processes: &[i32]) -> Result<Link, KernelError> {
        if self.is_multi {
            // Not each function that a kprobe can be at is one that a link of many takes.
            if sites.iter().all(|(event, _)| is_of_many(event))
                && let Ok(link) = self.functions(syscall::TRACE_KPROBE_MULTI, sites)
            {
                return Ok(Link::of(vec![link]));
            }
            self.program = load_probe(0, &self.name, &self.code)?;
            self.is_multi = false;
        }
        let mut all = Vec::new();
        for (event, cookie) in sites {
            let attached = match event {
                KernelEvent::Tracepoint { subsystem, name } => self.tracepoint(subsystem, name, *cookie),
                KernelEvent::RawTracepoint { name } => self.opened(Some(name)),
                KernelEvent::TypedFunction { .. } => self.opened(None),
                KernelEvent::Function { name, offset, is_return } => {
                    self.function(name, *offset, *is_return, *cookie)
                }
                KernelEvent::Clock { period_ns } => {
                    self.sampled(CounterKind::Software, CPU_CLOCK, *period_ns, *cookie)
                }
                KernelEvent::Counter { kind, config, count } => self.sampled(*kind, *config, *count, *cookie),
                KernelEvent::Watchpoint { address, bytes, access } => {
                    self.watched(watchpoint(*address, *bytes, *access), processes, *cookie)
                }
                KernelEvent::Call { .. } => {
                    let of_call = &[(*event, *cookie)];
                    self.functions(syscall::TRACE_KPROBE_SESSION, of_call).map(|link| vec![link])
                }
                // It runs when the list is read.
                KernelEvent::Iterator { .. } => Ok(Vec::new()),
            };
            all.extend(attached.map_err(|source| not_attached(&self.name, event, source))?);
        }
        Ok(Link::of(all))
    }

    /// How often it did not run because another program ran on the CPU, as far as the kernel counts that.
    pub fn missed(&self) -> u64 {
        missed(&self.program)
    }

    fn tracepoint(&self, subsystem: &str, name: &str, cookie: u64) -> io::Result<Vec<OwnedFd>> {
        let missing = || io::Error::new(io::ErrorKind::NotFound, "tracefs has no number of it");
        let id = tracepoints().map(|events| events.join(subsystem).join(name).join("id"));
        let id = id.and_then(|id| fs::read_to_string(id).ok()).ok_or_else(missing)?;
        let config = id.trim().parse().map_err(io::Error::other)?;
        let attributes =
            PerfEventAttr { kind: TYPE_TRACEPOINT, config, sample_period: 1, ..PerfEventAttr::sized() };
        linked(&self.program, &attributes, ALL, cookie).map(Vec::from)
    }

    /// At a raw tracepoint or, without a name, at what it was loaded for.
    fn opened(&self, name: Option<&str>) -> io::Result<Vec<OwnedFd>> {
        let name = name.map(CString::new).transpose()?;
        let mut attributes = RawTracepoint {
            name: name.as_ref().map_or(0, |name| name.as_ptr() as u64),
            prog_fd: self.program.as_raw_fd() as u32,
            ..RawTracepoint::default()
        };
        // SAFETY: the name lives over the call, and the answer is a descriptor.
        Ok(vec![unsafe { syscall::open(syscall::RAW_TRACEPOINT_OPEN, &mut attributes) }?])
    }

    /// At functions, in one link.
    fn functions(&self, attach_type: u32, sites: &[(&KernelEvent, u64)]) -> io::Result<OwnedFd> {
        let mut names = Vec::new();
        let mut at_returns = false;
        for (event, _) in sites {
            let (name, is_return) = match event {
                KernelEvent::Function { name, is_return, .. } => (name, *is_return),
                KernelEvent::Call { name } => (name, false),
                _ => continue,
            };
            names.push(CString::new(name.as_str())?);
            at_returns = is_return;
        }
        let addresses: Vec<u64> = names.iter().map(|name| name.as_ptr() as u64).collect();
        let cookies: Vec<u64> = sites.iter().map(|(_, cookie)| *cookie).collect();
        let mut attributes = LinkKprobes {
            prog_fd: self.program.as_raw_fd() as u32,
            attach_type,
            kprobe_flags: if at_returns { syscall::MULTI_RETURN } else { 0 },
            count: addresses.len() as u32,
            names: addresses.as_ptr() as u64,
            cookies: cookies.as_ptr() as u64,
            ..LinkKprobes::default()
        };
        // SAFETY: the two arrays, of `count` elements, and the names live over the call; the answer is a descriptor.
        unsafe { syscall::open(syscall::LINK_CREATE, &mut attributes) }
    }

    fn function(&self, name: &str, offset: u64, is_return: bool, cookie: u64) -> io::Result<Vec<OwnedFd>> {
        let pmu = Pmu::read(KPROBES).map_err(|_| {
            io::Error::new(
                io::ErrorKind::Unsupported,
                "this kernel has no kprobes (CONFIG_KPROBES, CONFIG_KPROBE_EVENTS)",
            )
        })?;
        let name = CString::new(name)?;
        let attributes = PerfEventAttr {
            kind: pmu.kind,
            config: pmu.of_return(is_return),
            config1: name.as_ptr() as u64,
            config2: offset,
            ..PerfEventAttr::sized()
        };
        linked(&self.program, &attributes, ALL, cookie).map(Vec::from)
    }

    /// Of an iterator: begins to read its list.
    pub fn iterate(&self, event: &KernelEvent) -> Result<Iteration, KernelError> {
        Iteration::begin(&self.program).map_err(|source| not_attached(&self.name, event, source))
    }

    /// In all threads of these processes, those that they start included; or on each CPU.
    fn watched(&self, attributes: PerfEventAttr, processes: &[i32], cookie: u64) -> io::Result<Vec<OwnedFd>> {
        let mut all = Vec::new();
        if processes.is_empty() {
            for cpu in online_cpus()? {
                all.extend(linked(&self.program, &attributes, (-1, cpu), cookie).map_err(of_watch)?);
            }
            return Ok(all);
        }
        let attributes = PerfEventAttr { flags: INHERIT | INHERIT_THREAD, ..attributes };
        for process in processes {
            all.extend(self.watched_in(*process, &attributes, cookie)?);
        }
        Ok(all)
    }

    fn watched_in(&self, process: i32, attributes: &PerfEventAttr, cookie: u64) -> io::Result<Vec<OwnedFd>> {
        let mut before = threads(process)?;
        for _ in 0..LISTINGS_MAX {
            let mut links = Vec::new();
            for thread in &before {
                match linked(&self.program, attributes, (*thread, -1), cookie) {
                    Ok(more) => links.extend(more),
                    Err(error) if error.raw_os_error() == Some(libc::ESRCH) => {}
                    Err(error) => return Err(of_watch(error)),
                }
            }
            // One that has come meanwhile has the event if the thread that started it had it by then, which cannot be known: all begins anew.
            let after = threads(process)?;
            if after.is_subset(&before) {
                return Ok(links);
            }
            before = after;
        }
        Err(io::Error::other("its threads come and go while they are listed"))
    }

    /// On each CPU.
    fn sampled(
        &self,
        kind: CounterKind,
        config: u64,
        sample_period: u64,
        cookie: u64,
    ) -> io::Result<Vec<OwnedFd>> {
        let attributes = PerfEventAttr { kind: kind as u32, config, sample_period, ..PerfEventAttr::sized() };
        let mut all = Vec::new();
        for cpu in online_cpus()? {
            all.extend(linked(&self.program, &attributes, (-1, cpu), cookie)?);
        }
        Ok(all)
    }
}

fn watchpoint(address: u64, bytes: u8, access: u8) -> PerfEventAttr {
    PerfEventAttr {
        kind: TYPE_BREAKPOINT,
        sample_period: 1,
        bp_type: access.into(),
        config1: address,
        // An instruction has the length of a word, whatever it is.
        config2: if access == watch::EXECUTE { 8 } else { bytes.into() },
        ..PerfEventAttr::sized()
    }
}

fn of_watch(error: io::Error) -> io::Error {
    match error.raw_os_error() {
        Some(libc::ENOSPC) => {
            io::Error::other("the processor watches four places at most, and they are taken")
        }
        _ => error,
    }
}

fn threads(process: i32) -> io::Result<BTreeSet<i32>> {
    let entries = fs::read_dir(format!("/proc/{process}/task"))?;
    let number = |entry: io::Result<fs::DirEntry>| entry.ok()?.file_name().to_str()?.parse().ok();
    Ok(entries.filter_map(number).collect())
}

fn not_attached(name: &str, event: &KernelEvent, source: io::Error) -> KernelError {
    KernelError::Attach { name: name.to_owned(), file: described(event).into(), source }
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
