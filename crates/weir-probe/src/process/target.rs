//! A process to trace: what it maps, where its threads keep their rseq area and their id.
//!
//! In: a process id, or a launched command. Out: what code for this process depends on ([`Target::abi`]), and a
//! way to stop it. Nothing in the target is changed here.

use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use weir_rt::{LanePolicy, SiteAbi, TidSource};
use weir_symbols::maps::{self, Mapping};
use weir_symbols::{Binary, VirtAddr};

use crate::process::remote::Gadgets;
use crate::process::stop::{Stopped, Stops};
use crate::process::sys::{self, Memory};
use crate::refusal::Error;

/// Where glibc (`struct pthread`, tid) and musl (`struct pthread`, tid) keep a thread's id, from fs. Each is checked
/// against every thread of the target before it is used.
const TID_OFFSETS: [i32; 2] = [0x2d0, 0x30];

/// A process that may be traced.
#[derive(Debug)]
pub struct Target {
    pub(crate) pid: i32,
    pub(crate) memory: Memory,
    pub(crate) mappings: Vec<Mapping>,
    pub(crate) gadgets: Gadgets,
    pub(crate) pidfd: OwnedFd,
    pub(crate) lanes: LanePolicy,
    pub(crate) tid: TidSource,
    /// Held from its launch until it is attached to.
    pub(crate) held: Option<Stopped>,
    /// It runs under seccomp: code in it makes no system call.
    pub(crate) has_seccomp: bool,
    /// It may read the time stamp counter (prctl(2), PR_SET_TSC), as the clock of the vDSO does.
    pub(crate) has_tsc: bool,
    /// It was started by weir and has not run yet.
    pub(crate) launched: bool,
    /// So far, since it was opened.
    pub(crate) stops: Stops,
}

impl Target {
    /// Looks at running process `pid`; it is stopped for a moment.
    pub fn open(pid: i32) -> Result<Target, Error> {
        check(pid)?;
        // What takes long is looked up before: whoever uses the gadgets looks whether they still stand.
        let memory = Memory::open(sys::living_thread(pid)).map_err(|source| Error::no_access(pid, source))?;
        let mappings = read_mappings(pid)?;
        let gadgets = Gadgets::find(pid, &memory, &mappings).ok();
        let stopped = Stopped::stop(pid)?;
        let mut target = Target::inspect(stopped, gadgets)?;
        if let Some(stopped) = target.held.take() {
            target.resume(stopped);
        }
        Ok(target)
    }

    /// Looks at a process that is stopped, and keeps it so.
    pub(crate) fn inspect(stopped: Stopped, gadgets: Option<Gadgets>) -> Result<Target, Error> {
        let pid = stopped.pid();
        let memory = Memory::open(sys::living_thread(pid)).map_err(|source| Error::no_access(pid, source))?;
        let mappings = read_mappings(pid)?;
        let gadgets = match gadgets {
            Some(gadgets) => gadgets,
            None => Gadgets::find(pid, &memory, &mappings)
                .map_err(|error| if memory.is_gone() { Error::TargetGone { pid } } else { error })?,
        };
        let pidfd =
            sys::pidfd_open(pid).map_err(|source| Error::system(format!("pidfd_open({pid})"), source))?;
        let (lanes, tid) = thread_areas(&stopped, &memory)?;
        Ok(Target {
            pid,
            memory,
            mappings,
            gadgets,
            pidfd,
            lanes,
            tid,
            held: Some(stopped),
            has_seccomp: sys::has_seccomp(pid),
            has_tsc: true,
            launched: false,
            stops: Stops::default(),
        })
    }

    pub fn pid(&self) -> i32 {
        self.pid
    }

    /// The root of its file system, as seen from here.
    pub fn root(&self) -> PathBuf {
        root(self.pid)
    }

    /// What code that runs at functions of `binary` may rely on. `cpus`: CPUs with a lane of their own.
    ///
    /// The dynamic loader and static programs run code before thread-local storage exists, where nothing may be
    /// read through fs.
    pub fn abi(&self, binary: &Binary, cpus: u32) -> SiteAbi {
        let early = binary.is_interpreter_or_static();
        SiteAbi {
            pid: self.pid as u32,
            tid: if early { TidSource::Syscall } else { self.tid },
            lanes: if early { LanePolicy::Shared } else { self.lanes },
            cpus,
            bmi2: std::arch::is_x86_feature_detected!("bmi2"),
        }
    }

    /// Whether its threads have shadow stacks, which hold every return address that a call pushed.
    pub(crate) fn has_shadow_stack(&self) -> bool {
        sys::has_shadow_stack(sys::living_thread(self.pid))
    }

    /// True if the process maps `binary`.
    pub fn maps(&self, binary: &Binary) -> bool {
        self.bias(binary).is_some()
    }

    /// A descriptor that becomes readable when the process ends.
    pub fn pidfd(&self) -> &OwnedFd {
        &self.pidfd
    }

    /// False once it has ended, reaped or not.
    pub fn is_alive(&self) -> bool {
        let mut fds = [PollFd::new(self.pidfd.as_fd(), PollFlags::POLLIN)];
        !matches!(poll(&mut fds, PollTimeout::ZERO), Ok(ready) if ready > 0)
    }

    /// It has executed another program, and what was put into it is gone.
    pub fn is_replaced(&self) -> bool {
        matches!(self.explain(Error::TargetGone { pid: self.pid }), Error::Replaced { .. })
    }

    /// Lets a launched process go on unprobed.
    pub fn release(&mut self) {
        self.held = None;
        self.launched = false;
    }

    pub(crate) fn bias(&self, binary: &Binary) -> Option<u64> {
        let path = match binary.path().strip_prefix(self.root()) {
            Ok(inside) => Path::new("/").join(inside),
            Err(_) => binary.path().to_owned(),
        };
        maps::load_bias(&self.mappings, maps::identity_of(&self.mappings, binary, &path)?, binary)
    }

    /// Stops the process again, or hands out the stop that it is still in.
    pub(crate) fn stop(&mut self) -> Result<Stopped, Error> {
        if let Some(stopped) = self.held.take() {
            return Ok(stopped);
        }
        let stopped = Stopped::stop(self.pid)?;
        // While it lives nobody else can have its id; so what was stopped is the process that was opened.
        if self.is_alive() { Ok(stopped) } else { Err(Error::TargetGone { pid: self.pid }) }
    }

    /// Lets it go on; for how long it was held.
    pub(crate) fn resume(&mut self, stopped: Stopped) -> Duration {
        let took = stopped.resume();
        // One that has not begun to run misses nothing.
        if !self.launched {
            self.stops.note(took);
        }
        took
    }

    /// What `error` comes from, if the process has gone under weir's hands: whatever call was the first to fail.
    pub(crate) fn explain(&self, error: Error) -> Error {
        if !self.memory.is_gone() {
            return error;
        }
        match read_mappings(self.pid) {
            Ok(mappings) if !mappings.is_empty() => Error::Replaced { pid: self.pid },
            _ => Error::TargetGone { pid: self.pid },
        }
    }

    /// What is mapped at `address`.
    pub(crate) fn mapping_at(&self, address: VirtAddr) -> Option<&Mapping> {
        let after = self.mappings.partition_point(|mapping| mapping.start <= address);
        self.mappings[..after].last().filter(|mapping| mapping.contains(address))
    }

    pub(crate) fn refresh(&mut self) -> Result<(), Error> {
        self.mappings = read_mappings(self.pid)?;
        Ok(())
    }
}

/// What process `pid` maps, also where its main thread has ended and others go on.
pub fn read_mappings(pid: i32) -> Result<Vec<Mapping>, Error> {
    maps::read(sys::living_thread(pid) as u32).map_err(|source| Error::no_access(pid, source))
}

/// The root of process `pid`'s file system, as seen from here.
pub fn root(pid: i32) -> PathBuf {
    PathBuf::from(format!("/proc/{}/root", sys::living_thread(pid)))
}

/// Refuses, before anything is touched, a process that cannot be traced.
pub fn check(pid: i32) -> Result<(), Error> {
    let thread = sys::living_thread(pid);
    let status = |name: &str| sys::status_field(thread, name).ok().flatten();
    let Some(state) = status("State") else { return Err(Error::NoProcess { pid }) };
    if state.starts_with('Z') || status("VmSize").is_none() {
        return Err(Error::NoProgram { pid });
    }
    if let Some(tracer) = status("TracerPid").and_then(|text| text.parse().ok())
        && tracer != 0
    {
        return Err(Error::AlreadyTraced { pid, tracer });
    }
    // Strict mode forbids the time stamp counter too, which the clock of the vDSO reads.
    if status("Seccomp").is_some_and(|mode| mode == "1") {
        return Err(Error::StrictSeccomp { pid });
    }
    Ok(())
}

/// How the threads of a stopped process keep their rseq area and their id: usable only if all agree.
fn thread_areas(stopped: &Stopped, memory: &Memory) -> Result<(LanePolicy, TidSource), Error> {
    let mut lanes: Option<LanePolicy> = None;
    let mut is_mixed = false;
    let mut unregistered = Vec::new();
    let mut tid_offsets = TID_OFFSETS.to_vec();
    for tid in stopped.threads() {
        let fs = stopped.registers(tid)?.fs_base;
        if fs == 0 {
            return Ok((LanePolicy::Shared, TidSource::Syscall));
        }
        tid_offsets.retain(|&offset| {
            let mut word = [0; 4];
            memory.read(fs.wrapping_add_signed(i64::from(offset)), &mut word).is_ok()
                && i32::from_le_bytes(word) == tid
        });
        // Kernels before 5.13 do not answer; then nothing is assumed.
        let Ok(rseq) = sys::rseq_configuration(tid) else {
            is_mixed = true;
            continue;
        };
        if rseq.abi_pointer == 0 {
            unregistered.push(fs);
        } else {
            let offset = i32::try_from(rseq.abi_pointer.wrapping_sub(fs) as i64);
            let policy = offset.map(|offset| LanePolicy::Rseq { offset, signature: rseq.signature });
            match policy {
                Ok(policy) if lanes.is_none_or(|known| known == policy) => lanes = Some(policy),
                _ => is_mixed = true,
            }
        }
    }
    // Where a thread has not registered, the generated code must find a negative cpu_id in its place, as glibc
    // leaves it; anything else there means that the thread was not made by the same libc.
    if let Some(LanePolicy::Rseq { offset, .. }) = lanes {
        for fs in unregistered {
            let mut word = [0; 4];
            let cpu_id = fs.wrapping_add_signed(i64::from(offset) + 4);
            is_mixed |= memory.read(cpu_id, &mut word).is_err() || i32::from_le_bytes(word) >= 0;
        }
    }
    let lanes = if is_mixed { LanePolicy::Shared } else { lanes.unwrap_or(LanePolicy::Shared) };
    let tid = match tid_offsets.first() {
        Some(&offset) => TidSource::ThreadControlBlock { offset },
        None => TidSource::Syscall,
    };
    Ok((lanes, tid))
}
