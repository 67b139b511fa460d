//! A process to trace: what it maps, where its threads keep their rseq area and their id.
//!
//! In: a process id, or a launched command. Out: what code for this process depends on ([`Target::abi`]), and a
//! way to stop it. Nothing in the target is changed here.

use std::fs;
use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use weir_rt::segment::Segment;
use weir_rt::{LanePolicy, SiteAbi, TidSource};
use weir_symbols::maps::{self, Mapping};
use weir_symbols::{Binary, FileIdentity, VirtAddr};

use crate::limits;
use crate::process::descriptors;
use crate::process::goroutines::{self, Goroutines};
use crate::process::isa::native::registers::Registers;
use crate::process::isa::native::remote::{Gadgets, hold_callable};
use crate::process::mapped::{Maker, copies_stacks, is_maps};
use crate::process::memory::Memory;
use crate::process::scan;
use crate::process::stack::{Found, Stacks};
use crate::process::stop::{Filters, Stopped, Stops};
use crate::process::sys::{self, Seccomp};
use crate::refusal::Error;

/// Where glibc (`struct pthread`, tid) and musl (`struct pthread`, tid) keep a thread's id, from fs. Each is checked
/// against every thread of the target before it is used.
const TID_OFFSETS: [i32; 2] = [0x2d0, 0x30];

/// `RSEQ_SIG` of glibc for x86.
const RSEQ_SIGNATURE: u32 = 0x5305_3053;

/// A process that may be traced.
#[derive(Debug)]
pub struct Target {
    pub(crate) pid: i32,
    pub(crate) memory: Memory,
    pub(crate) mappings: Vec<Mapping>,
    pub(crate) gadgets: Gadgets,
    /// Of a program with Go's runtime.
    pub(crate) goroutines: Option<Goroutines>,
    pub(crate) pidfd: OwnedFd,
    pub(crate) lanes: LanePolicy,
    pub(crate) tid: TidSource,
    /// Held from its launch until it is attached to.
    pub(crate) held: Option<Stopped>,
    /// It runs under seccomp: code in it makes no system call.
    pub(crate) has_seccomp: bool,
    /// It may read the time stamp counter (prctl(2), PR_SET_TSC), as the clock of the vDSO does.
    pub(crate) has_tsc: bool,
    /// It is not let go between the steps of attaching: it has not run yet, or it is a forked child whose hits would find no probe meanwhile.
    pub(crate) stays_held: bool,
    /// The weir whose probes are in it until this one's are, if it is taken over.
    pub(crate) taken_from: Option<u32>,
    /// By what this weir's code is known in it, from the first of it on.
    pub(crate) maker: Option<Maker>,
    /// Its own segment, as long as another weir may take it over.
    pub(crate) handed_over: Option<Arc<Segment>>,
    /// Of one that has not begun to run no stop is noted: it misses nothing.
    pub(crate) has_begun: bool,
    /// So far, since it was opened.
    pub(crate) stops: Stops,
    pub(crate) allowance: Allowance,
}

/// What attaching may take of a process.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Allowance {
    /// The longest stop while attaching. Taking probes out again is bounded by [`limits::STOP_MAX`] alone.
    pub stop: Duration,
    /// Memory: segments, code, and what belongs to it.
    pub bytes: u64,
    /// Bytes of CPUs' rings whose pages are there before the first hit, so that none of them is a fault of the target's. Others
    /// come when they are touched.
    pub present: u64,
}

impl Default for Allowance {
    fn default() -> Allowance {
        Allowance { stop: limits::STOP_MAX, bytes: u64::MAX, present: 0 }
    }
}

impl Allowance {
    /// How long text is written within one stop: threads have to be stopped and let go in the rest.
    pub(crate) fn slice(&self) -> Duration {
        limits::SLICE_WRITING_MAX.min(self.stop / 4)
    }
}

impl Target {
    /// Looks at running process `pid`; it is stopped for a moment.
    pub fn open(pid: i32) -> Result<Target, Error> {
        Target::open_within(pid, Allowance::default())
    }

    /// The same for a process of which no more may be taken than `allowance`.
    pub fn open_within(pid: i32, allowance: Allowance) -> Result<Target, Error> {
        Target::open_with(pid, allowance, Filters::Suspended)
    }

    /// The same for a process of which nothing is wanted but to take probes out.
    pub(crate) fn open_to_undo(pid: i32) -> Result<Target, Error> {
        Target::open_with(pid, Allowance::default(), Filters::MayStay)
    }

    fn open_with(pid: i32, allowance: Allowance, filters: Filters) -> Result<Target, Error> {
        let mut target = Target::open_held(pid, allowance, filters)?;
        if let Some(stopped) = target.held.take() {
            stopped.in_time()?;
            target.resume(stopped);
        }
        Ok(target)
    }

    /// The same, and it is still stopped.
    pub(crate) fn open_held(pid: i32, allowance: Allowance, filters: Filters) -> Result<Target, Error> {
        match filters {
            Filters::Suspended => check(pid)?,
            Filters::MayStay => check_to_undo(pid)?,
        }
        // What takes long is looked up before: whoever uses the gadgets looks whether they still stand.
        let memory = Memory::open(sys::living_thread(pid)).map_err(|source| Error::no_access(pid, source))?;
        let mappings = read_mappings(pid)?;
        let gadgets = Gadgets::find(pid, &memory, &mappings).ok();
        let goroutines = Goroutines::find(pid, &mappings);
        let stopped = in_turn(|| Stopped::stop_in_turn(pid, allowance.stop, filters))?;
        let mut target = Target::inspect(stopped, gadgets, goroutines)?;
        target.allowance = allowance;
        if target.memory.is_confined()
            && let Some(stopped) = target.held.take()
        {
            let mut stopped = hold_callable(&mut target, stopped, Target::stop)?;
            target.memory = descriptors::own_memory(&target, &mut stopped)?;
            target.held = Some(stopped);
        }
        Ok(target)
    }

    /// Looks at a process that is stopped, and keeps it so.
    pub(crate) fn inspect(
        stopped: Stopped,
        gadgets: Option<Gadgets>,
        goroutines: Option<Goroutines>,
    ) -> Result<Target, Error> {
        let pid = stopped.pid();
        let memory = Memory::open(sys::living_thread(pid)).map_err(|source| Error::no_access(pid, source))?;
        let mappings = read_mappings(pid)?;
        // A process that has died meanwhile maps nothing, or the first part of what it did.
        if memory.is_gone() {
            return Err(Error::TargetGone { pid });
        }
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
            goroutines,
            pidfd,
            lanes,
            tid,
            held: Some(stopped),
            has_seccomp: sys::has_seccomp(pid),
            has_tsc: true,
            stays_held: false,
            taken_from: None,
            maker: None,
            handed_over: None,
            has_begun: true,
            stops: Stops::default(),
            allowance: Allowance::default(),
        })
    }

    /// What may be taken of it.
    pub fn allowance(&self) -> Allowance {
        self.allowance
    }

    /// From here on no more is taken of it than this.
    pub fn allow(&mut self, allowance: Allowance) {
        self.allowance = allowance;
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
            bmi2: weir_rt::isa::native::cpu::has_bmi2(),
            reads_ticks: self.has_tsc,
        }
    }

    /// Where from fs its threads have their `struct rseq`, if it is glibc's, whose signature weir's code has too.
    pub(crate) fn rseq(&self) -> Option<i32> {
        match self.lanes {
            LanePolicy::Rseq { offset, signature: RSEQ_SIGNATURE } => Some(offset),
            _ => None,
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

    /// It is held until it is attached to.
    pub fn is_held(&self) -> bool {
        self.stays_held
    }

    /// Another weir's probes are in it until it is attached to.
    pub fn is_taken(&self) -> bool {
        self.taken_from.is_some()
    }

    /// Lets a process go on unprobed that is held.
    pub fn release(&mut self) {
        self.held = None;
        self.stays_held = false;
    }

    pub(crate) fn bias(&self, binary: &Binary) -> Option<u64> {
        self.biases(binary).and_then(|(_, biases)| biases.first().copied())
    }

    /// By which identity its maps show `binary`, and one bias for each time that it is mapped.
    pub(crate) fn biases(&self, binary: &Binary) -> Option<(FileIdentity, Vec<u64>)> {
        let path = match binary.path().strip_prefix(self.root()) {
            Ok(inside) => Path::new("/").join(inside),
            Err(_) => binary.path().to_owned(),
        };
        let file = maps::identity_of(&self.mappings, binary, &path)?;
        Some((file, maps::load_biases(&self.mappings, file, binary)))
    }

    /// What signal handlers in it return to, as far as that is known.
    pub(crate) fn restorers(&self) -> [u64; 2] {
        Gadgets::restorers(&self.memory, &self.mappings)
    }

    /// Stops the process again, or hands out the stop that it is still in.
    pub(crate) fn stop(&mut self) -> Result<Stopped, Error> {
        self.stop_within(self.allowance.stop, Filters::Suspended)
    }

    pub(crate) fn stop_within(&mut self, limit: Duration, filters: Filters) -> Result<Stopped, Error> {
        if let Some(stopped) = self.held.take() {
            return Ok(stopped);
        }
        let stopped = in_turn(|| Stopped::stop_in_turn(self.pid, limit, filters))?;
        // While it lives nobody else can have its id; so what was stopped is the process that was opened.
        if self.is_alive() { Ok(stopped) } else { Err(Error::TargetGone { pid: self.pid }) }
    }

    /// Lets it go on; for how long it was held.
    pub(crate) fn resume(&mut self, stopped: Stopped) -> Duration {
        let took = stopped.resume();
        if self.has_begun {
            self.stops.note(took);
        }
        took
    }

    /// The same for one that is not to be held between two steps; others stay held.
    pub(crate) fn resume_between(&mut self, stopped: Stopped) {
        match self.stays_held {
            true => self.held = Some(stopped),
            false => _ = self.resume(stopped),
        }
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
        maps::at(&self.mappings, address)
    }

    /// What scans the stacks of its threads, for as long as it maps what it does now.
    pub(crate) fn stacks(&self) -> Stacks<'_> {
        Stacks::new(&self.memory, &self.mappings)
    }

    /// Scans the stacks of a stopped thread with these registers for words that `is_wanted`.
    pub(crate) fn scan_stack(
        &self,
        stacks: &Stacks<'_>,
        registers: &Registers,
        is_wanted: &dyn Fn(u64) -> bool,
    ) -> Found {
        let running = self.goroutines.and_then(|_| goroutines::running(&self.memory, registers));
        // Behind it lies the rest of Go's heap.
        stacks.scan(registers.stack_pointer(), running.map(|running| running.stack.end), is_wanted)
    }

    /// Scans a part of a stack that has no signal's frame in it.
    pub(crate) fn scan_part(&self, part: Range<u64>, is_wanted: &dyn Fn(u64) -> bool) -> Found {
        let Some(mapping) = self.mapping_at(VirtAddr(part.start)) else { return Found::default() };
        let alone = Mapping { end: VirtAddr(part.end.min(mapping.end.0)), path: String::new(), ..*mapping };
        Stacks::new(&self.memory, &[alone]).scan(part.start, None, is_wanted)
    }

    /// Reads anew what is mapped. `Error::TargetGone` and not an empty list for a process that has died.
    pub(crate) fn refresh(&mut self) -> Result<(), Error> {
        let mappings = read_mappings(self.pid)?;
        self.check_alive()?;
        self.mappings = mappings;
        Ok(())
    }

    /// An error if the process has died or has executed another program.
    pub(crate) fn check_alive(&self) -> Result<(), Error> {
        match self.memory.is_gone() {
            true => Err(self.explain(Error::TargetGone { pid: self.pid })),
            false => Ok(()),
        }
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

/// A link of process `pid` to the file that `mapping` shows, which leads there also where the file's path does not any more. That
/// to its program needs no more than to trace it, that to any mapping a capability of its own (proc_pid_map_files(5)).
pub fn link_to(pid: i32, mapping: &Mapping) -> PathBuf {
    let folder = PathBuf::from(format!("/proc/{}", sys::living_thread(pid)));
    let program = fs::read_link(folder.join("exe")).unwrap_or_default();
    let path = if mapping.deleted { format!("{} (deleted)", mapping.path) } else { mapping.path.clone() };
    match program == Path::new(&path) {
        true => folder.join("exe"),
        false => folder.join(format!("map_files/{:x}-{:x}", mapping.start.0, mapping.end.0)),
    }
}

/// Whether a path means the same file to process `pid` as here: it has the same root in the same mount namespace. (The
/// root of another namespace, too, is called `/`.) False where that cannot be seen.
pub fn shares_root(pid: i32) -> Result<bool, Error> {
    let thread = sys::living_thread(pid);
    let theirs = (fs::metadata(root(pid)), fs::read_link(format!("/proc/{thread}/ns/mnt")));
    if theirs.0.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::NotFound) {
        return Err(Error::TargetGone { pid });
    }
    let ours = (fs::metadata("/"), fs::read_link("/proc/self/ns/mnt"));
    let place = |root: fs::Metadata| (root.dev(), root.ino());
    let identity = |(root, namespace): (io::Result<fs::Metadata>, io::Result<PathBuf>)| {
        Some((place(root.ok()?), namespace.ok()?))
    };
    let ours = identity(ours);
    Ok(ours.is_some() && ours == identity(theirs))
}

/// Refuses, before anything is touched, a process that cannot be traced.
pub fn check(pid: i32) -> Result<(), Error> {
    check_to_undo(pid)?;
    // Strict mode forbids the time stamp counter too, which the clock of the vDSO reads.
    match sys::seccomp(sys::living_thread(pid)) {
        Seccomp::Strict => Err(Error::StrictSeccomp { pid }),
        _ => Ok(()),
    }
}

/// Refuses one that is not there, or executes no program.
pub fn check_program(pid: i32) -> Result<(), Error> {
    let thread = sys::living_thread(pid);
    let status = |name: &str| sys::status_field(thread, name).ok().flatten();
    let Some(state) = status("State") else { return Err(Error::NoProcess { pid }) };
    if state.starts_with('Z') || status("VmSize").is_none() {
        return Err(Error::NoProgram { pid });
    }
    Ok(())
}

/// Why the kernel is not to replace return addresses in process `pid`, which maps this.
pub fn check_kernel_returns(pid: i32, mappings: &[Mapping]) -> Result<(), &'static str> {
    let thread = sys::living_thread(pid);
    if sys::seccomp(thread) != Seccomp::None {
        return Err(
            "the process is under seccomp, which may end it at the system call by which returns come to the kernel",
        );
    }
    if sys::has_shadow_stack(thread) {
        return Err("the process has a shadow stack, with which return addresses are compared");
    }
    match mappings.iter().any(copies_stacks) {
        true => Err("a library of the process (greenlet) moves stacks, with the return addresses on them"),
        false => Ok(()),
    }
}

/// Refuses one that cannot be stopped, from which no probe can be taken either. A weir that holds it is waited for.
pub fn check_to_undo(pid: i32) -> Result<(), Error> {
    in_turn(|| check_tracer(pid))
}

fn check_tracer(pid: i32) -> Result<(), Error> {
    check_program(pid)?;
    let status = |name: &str| sys::status_field(sys::living_thread(pid), name).ok().flatten();
    if let Some(tracer) = status("TracerPid").and_then(|text| text.parse().ok())
        && tracer != 0
    {
        return Err(Error::AlreadyTraced { pid, tracer });
    }
    Ok(())
}

/// Does what a weir that holds the process is in the way of, once that has let it go: each holds it for a moment.
fn in_turn<T>(mut act: impl FnMut() -> Result<T, Error>) -> Result<T, Error> {
    let start = Instant::now();
    loop {
        let error = match act().map_err(known_tracer) {
            Err(error @ (Error::AlreadyProbed { .. } | Error::AlreadyTraced { .. })) => error,
            done => return done,
        };
        let patience = match error {
            // A debugger keeps it.
            Error::AlreadyTraced { tracer, .. } if !is_weir(tracer) => limits::TRACER_MAX,
            _ => limits::TURN_MAX,
        };
        if start.elapsed() >= patience {
            return Err(error);
        }
        thread::sleep(limits::TURN_PAUSE);
    }
}

/// Thread `tid` is a weir's, as far as that can be seen: it has the maps of a session, which it lends to those that it traces.
fn is_weir(tid: i32) -> bool {
    maps::read(tid as u32).is_ok_and(|mappings| mappings.iter().any(is_maps))
}

/// Another weir that has attached to the process holds its threads now and then; what that has put into the process says more of it.
fn known_tracer(error: Error) -> Error {
    let Error::AlreadyTraced { pid, tracer } = error else { return error };
    let mut found = scan::all_in(pid).unwrap_or_default();
    found.retain(|probed| probed.controller_alive && !probed.is_inherited());
    // The thread that holds it.
    let process = sys::status_number(tracer, "Tgid").unwrap_or(tracer);
    let is_it = |probed: &&scan::Probed| probed.identity.controller_pid as i32 == process;
    found.iter().find(is_it).map_or(Error::AlreadyTraced { pid, tracer }, scan::Probed::is_taken)
}

/// How the threads of a stopped process keep their rseq area and their id: usable only if all agree.
fn thread_areas(stopped: &Stopped, memory: &Memory) -> Result<(LanePolicy, TidSource), Error> {
    let mut lanes: Option<LanePolicy> = None;
    let mut is_mixed = false;
    let mut unregistered = Vec::new();
    let mut tid_offsets = TID_OFFSETS.to_vec();
    for tid in stopped.threads() {
        let fs = stopped.registers(tid)?.thread_pointer();
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
