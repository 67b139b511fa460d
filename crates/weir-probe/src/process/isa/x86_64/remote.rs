//! System calls made in the target, on one of its stopped threads, without a trace in it if this process dies.
//!
//! The thread is pointed at a `syscall; ret` of its own text, with a stack below its red zone that begins
//!
//! ```text
//! base + 0     address of the target's own `mov $15,%rax; syscall` (rt_sigreturn), where `ret` goes
//! base + 8     ucontext: every register as it was, restart codes rewritten; blocked signals; pointer to
//! ...          the extended state (XSAVE), as it was
//! ```
//!
//! (A static musl program that handles no signal has no such place. There `ret` goes to a `pop %rax; ret` somewhere in its
//! text, with 15 and the `syscall; ret` above it.)
//!
//! so that whenever the tracer vanishes, the kernel lets the thread run on: it finishes the call, returns into
//! rt_sigreturn and is where it was. While the tracer lives it stops the thread at the call's exit, takes the
//! result, and puts everything back itself: the stack's bytes, the blocked signals, and the registers, these at a
//! stop where the kernel looks at them as it would have before (a signal that came meanwhile still interrupts the
//! call that the thread was in).
//!
//! Where no thread has the stack for it, the process is let run for a moment and stopped again ([`hold_callable`]): signal
//! handlers on small stacks of their own are soon left.
//!
//! All signals are blocked during a call (the frame has the right mask), so none is delivered on the borrowed stack:
//! they are blocked after the thread has been pointed at the frame, and unblocked before it is pointed away.

use std::collections::HashMap;
use std::io;
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};
use std::thread;

use memchr::memmem;
use nix::libc::{self, user_regs_struct};
use weir_symbols::maps::Mapping;
use weir_symbols::{FileIdentity, VirtAddr};

use crate::limits;
use crate::process::goroutines;
use crate::process::isa::native::cpu;
use crate::process::isa::x86_64::restart::restarted;
use crate::process::mapped::is_weirs;
use crate::process::memory::Memory;
use crate::process::stop::Stopped;
use crate::process::sys::{self, SyscallStop};
use crate::process::target::{Target, read_mappings};
use crate::refusal::Error;

/// Bytes below the stack pointer that belong to the running function.
const RED_ZONE: u64 = 128;

/// Where the target's own text has the two instruction sequences that remote calls need.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Gadgets {
    /// `syscall; ret`
    syscall: u64,
    sigreturn: Sigreturn,
}

/// What leads to rt_sigreturn.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Sigreturn {
    /// `mov $15,%rax` or `mov $15,%eax`, then `syscall`
    Restorer(u64),
    /// `pop %rax; ret`, which may be the end of a longer instruction (`pop %r8`).
    Pop(u64),
}

const SYSCALL_RET: &[u8] = &[0x0f, 0x05, 0xc3];
const POP_RET: &[u8] = &[0x58, 0xc3];
const SIGRETURN: [&[u8]; 2] =
    [&[0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05], &[0xb8, 0x0f, 0, 0, 0, 0x0f, 0x05]];

impl Gadgets {
    /// Searches the executable mappings of files (and the vDSO), ld.so and libc among them, but not weir's own code,
    /// which these very calls will unmap.
    pub(crate) fn find(pid: i32, memory: &Memory, mappings: &[Mapping]) -> Result<Gadgets, Error> {
        Gadgets::find_once(pid, memory, mappings).or_else(|_| {
            // What was found in no process may have been taken out of that one.
            found().clear();
            Gadgets::find_once(pid, memory, mappings)
        })
    }

    fn find_once(pid: i32, memory: &Memory, mappings: &[Mapping]) -> Result<Gadgets, Error> {
        let mut searched: Vec<&Mapping> = mappings.iter().filter(|mapping| is_searched(mapping)).collect();
        // A libc has both, and is smaller than a program that it takes long to search.
        searched.sort_by_key(|mapping| mapping.end.0 - mapping.start.0);
        let (mut syscall, mut restorer) = (None, None);
        for mapping in &searched {
            syscall = syscall.or_else(|| find_in(memory, mapping, &[SYSCALL_RET]));
            restorer = restorer.or_else(|| find_in(memory, mapping, &SIGRETURN));
            if let (Some(syscall), Some(restorer)) = (syscall, restorer) {
                return Ok(Gadgets { syscall, sigreturn: Sigreturn::Restorer(restorer) });
            }
        }
        let pop = || searched.iter().find_map(|mapping| find_in(memory, mapping, &[POP_RET]));
        match syscall.and_then(|syscall| Some((syscall, pop()?))) {
            Some((syscall, pop)) => Ok(Gadgets { syscall, sigreturn: Sigreturn::Pop(pop) }),
            None => Err(Error::NoGadget { pid }),
        }
    }

    /// Where signal handlers of the process return to, going by its smaller files, a C library and a loader among them; 0 for what is not
    /// found.
    pub(crate) fn restorers(memory: &Memory, mappings: &[Mapping]) -> [u64; 2] {
        let bytes = |mapping: &Mapping| mapping.end.0 - mapping.start.0;
        let small =
            |mapping: &&Mapping| is_searched(mapping) && bytes(mapping) <= limits::RESTORER_FILE_BYTES_MAX;
        let mut found =
            mappings.iter().filter(small).filter_map(|mapping| find_in(memory, mapping, &SIGRETURN));
        std::array::from_fn(|_| found.next().unwrap_or(0))
    }

    /// They are still there: since they were found, their library may have been unloaded, or patched.
    fn stand(&self, memory: &Memory, mappings: &[Mapping]) -> bool {
        let is_at = |address: u64, needle: &[u8]| {
            let is_text = |mapping: &Mapping| {
                is_searched(mapping) && mapping.start.0 <= address && address < mapping.end.0
            };
            let mut now = vec![0; needle.len()];
            mappings.iter().any(is_text) && memory.read(address, &mut now).is_ok() && now == needle
        };
        let leads_back = match self.sigreturn {
            Sigreturn::Restorer(at) => SIGRETURN.iter().any(|needle| is_at(at, needle)),
            Sigreturn::Pop(at) => is_at(at, POP_RET),
        };
        leads_back && is_at(self.syscall, SYSCALL_RET)
    }

    /// What stands on the stack below the ucontext when a remote call returns.
    fn way_back(&self) -> Vec<u64> {
        const RT_SIGRETURN: u64 = 15;
        match self.sigreturn {
            Sigreturn::Restorer(at) => vec![at],
            Sigreturn::Pop(at) => vec![at, RT_SIGRETURN, self.syscall],
        }
    }
}

fn is_searched(mapping: &Mapping) -> bool {
    mapping.execute && (mapping.inode != 0 || mapping.path == "[vdso]") && !is_weirs(mapping)
}

/// Where needles stand in a mapping of a file, from its start on, or that they do not: the same in each process that maps the file, as long as its
/// text is the file's.
type Found = HashMap<(FileIdentity, u64, &'static [u8]), Option<u64>>;

fn found() -> MutexGuard<'static, Found> {
    static FOUND: LazyLock<Mutex<Found>> = LazyLock::new(Mutex::default);
    FOUND.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The first place in `mapping` of any of `needles`, which are found once for all processes.
fn find_in(memory: &Memory, mapping: &Mapping, needles: &[&'static [u8]]) -> Option<u64> {
    if mapping.inode == 0 {
        return search(memory, mapping, needles);
    }
    let key = (mapping.identity(), mapping.offset.0, needles[0]);
    let is_there = |at: u64| {
        let stands = |needle: &&[u8]| {
            let mut now = vec![0; needle.len()];
            memory.read(at, &mut now).is_ok() && now == **needle
        };
        at < mapping.end.0 && needles.iter().any(stands)
    };
    let known = found().get(&key).copied();
    match known {
        Some(None) => return None,
        Some(Some(distance)) if is_there(mapping.start.0 + distance) => {
            return Some(mapping.start.0 + distance);
        }
        _ => {}
    }
    let place = search(memory, mapping, needles);
    let mut all = found();
    if all.len() >= limits::FOUND_MAX {
        all.clear();
    }
    all.insert(key, place.map(|at| at - mapping.start.0));
    place
}

fn search(memory: &Memory, mapping: &Mapping, needles: &[&[u8]]) -> Option<u64> {
    const PIECE: usize = 1 << 20;
    let overlap = needles.iter().map(|needle| needle.len() - 1).max()? as u64;
    let (mut at, end) =
        (mapping.start.0, mapping.end.0.min(mapping.start.0.saturating_add(limits::SEARCHED_BYTES_MAX)));
    while at < end {
        let mut piece = vec![0; PIECE.min((end - at) as usize)];
        let length = memory.read_some(at, &mut piece).ok()?;
        let found = needles.iter().filter_map(|needle| memmem::find(&piece[..length], needle));
        if let Some(found) = found.min() {
            return Some(at + found as u64);
        }
        at = (at + length as u64).checked_sub(overlap).filter(|next| *next > at)?;
    }
    None
}

/// Takes a stopped process to a moment at which a thread can be borrowed, by [`limits::REMOTE_TRIES_MAX`] stops at most, the
/// others by `hold`. It runs between them, and its mappings are as they are at the last. Where there is no such moment,
/// [`Borrowed::new`] says why.
pub(crate) fn hold_callable(
    target: &mut Target,
    stopped: Stopped,
    hold: impl Fn(&mut Target) -> Result<Stopped, Error>,
) -> Result<Stopped, Error> {
    let mut stopped = stopped;
    for _ in 1..limits::REMOTE_TRIES_MAX {
        // A command that has not begun to run has nothing but its stack.
        if target.stays_held || is_callable(&stopped, target)? {
            break;
        }
        target.resume(stopped);
        thread::sleep(limits::REMOTE_PAUSE);
        stopped = hold(target)?;
        target.refresh()?;
    }
    Ok(stopped)
}

/// One thread, borrowed for remote calls. Everything goes back when this is finished or dropped.
#[derive(Debug)]
pub(crate) struct Borrowed<'a> {
    stopped: &'a mut Stopped,
    memory: &'a Memory,
    tid: i32,
    gadgets: Gadgets,
    frame: Frame,
    original: user_regs_struct,
    original_mask: u64,
    /// The thread has been pointed at the frame.
    is_away: bool,
    is_back: bool,
}

/// The borrowed stack.
#[derive(Debug)]
struct Frame {
    /// Where `ret` takes its address.
    base: u64,
    /// What stood from `lowest` on before.
    lowest: u64,
    before: Vec<u8>,
}

/// `si_code`-less part of the kernel's `struct ucontext` for x86-64 (asm/ucontext.h, asm/sigcontext.h).
const UCONTEXT_BYTES: usize = 304;
/// Set aside for it, and for what stands below it.
const UCONTEXT_ROOM: u64 = 512;
/// Byte offset in the XSAVE area that the kernel's `struct _fpx_sw_bytes` takes over in a signal frame.
const FPX_SW_BYTES: usize = 464;
/// `UC_FP_XSTATE | UC_SIGCONTEXT_SS | UC_STRICT_RESTORE_SS`.
const UC_FLAGS: u64 = 1 | 2 | 4;
/// No mode of sigaltstack(2): with it rt_sigreturn leaves the thread's signal stack as it is. (A right value would
/// set it, and which is right cannot be asked from here.)
const SS_INVALID: u32 = 4;
/// Bytes below the frame for arguments in memory.
const ARGUMENTS_BYTES: u64 = 1024;

impl<'a> Borrowed<'a> {
    /// Borrows a thread that has the stack for it.
    pub(crate) fn new(stopped: &'a mut Stopped, target: &'a Target) -> Result<Borrowed<'a>, Error> {
        let (memory, mappings, pid) = (&target.memory, &target.mappings, stopped.pid());
        let gadgets = match target.gadgets.stand(memory, mappings) {
            true => target.gadgets,
            false => Gadgets::find(pid, memory, mappings)?,
        };
        let mut is_filtered = false;
        for (tid, original) in candidates(stopped, target)? {
            if !stopped.may_call(tid) {
                is_filtered = true;
                continue;
            }
            let original_mask =
                sys::signal_mask(tid).map_err(|source| Error::system("PTRACE_GETSIGMASK", source))?;
            // Where the main thread's stack may not grow, the next thread is tried.
            let Ok(frame) = write_frame(tid, memory, gadgets, &restarted(original), (original_mask, 0))
            else {
                continue;
            };
            let (is_away, is_back) = (false, false);
            let borrowed =
                Borrowed { stopped, memory, tid, gadgets, frame, original, original_mask, is_away, is_back };
            return Ok(borrowed);
        }
        if memory.is_gone() {
            return Err(Error::TargetGone { pid });
        }
        Err(if is_filtered {
            Error::Seccomp { pid, source: io::ErrorKind::PermissionDenied.into() }
        } else {
            Error::NoStack { pid, bytes: limits::REMOTE_STACK_BYTES }
        })
    }

    pub(crate) fn tid(&self) -> i32 {
        self.tid
    }

    /// Makes system call `number` in the target. A result in -4095..0 is an error.
    pub(crate) fn call(
        &mut self,
        name: &'static str,
        number: i64,
        arguments: [u64; 6],
    ) -> Result<u64, Error> {
        let [rdi, rsi, rdx, r10, r8, r9] = arguments;
        let registers = user_regs_struct {
            rip: self.gadgets.syscall,
            rsp: self.frame.base,
            rax: number as u64,
            orig_rax: u64::MAX,
            rdi,
            rsi,
            rdx,
            r10,
            r8,
            r9,
            ..self.original
        };
        self.stopped.set_registers(self.tid, registers.into())?;
        if !self.is_away {
            self.is_away = true;
            sys::set_signal_mask(self.tid, !0)
                .map_err(|source| Error::system("PTRACE_SETSIGMASK", source))?;
        }
        let result = loop {
            self.stopped.run_to_syscall(self.tid)?;
            let stop = sys::syscall_stop(self.tid)
                .map_err(|source| Error::system("PTRACE_GET_SYSCALL_INFO", source))?;
            if let SyscallStop::Exit { result } = stop {
                break result;
            }
        };
        if (-4095..0).contains(&result) {
            let source = io::Error::from_raw_os_error(-result as i32);
            let pid = self.stopped.pid();
            return Err(crowded(pid, &source).unwrap_or(Error::Remote { pid, call: name, source }));
        }
        Ok(result as u64)
    }

    /// Bytes of the borrowed stack below the frame, for arguments in memory: their address.
    pub(crate) fn put(&self, bytes: &[u8]) -> Result<u64, Error> {
        let address = self.frame.lowest;
        assert!(bytes.len() as u64 <= ARGUMENTS_BYTES, "arguments of {} bytes", bytes.len());
        self.memory
            .write(address, bytes)
            .map_err(|source| Error::system("writing arguments of a remote call", source))?;
        Ok(address)
    }

    /// The thread is as it was before.
    pub(crate) fn finish(mut self) -> Result<(), Error> {
        let result = self.put_back();
        self.is_back = true;
        result
    }

    fn put_back(&mut self) -> Result<(), Error> {
        if self.is_away {
            self.stopped.run_to_interrupt(self.tid)?;
            sys::set_signal_mask(self.tid, self.original_mask)
                .map_err(|source| Error::system("PTRACE_SETSIGMASK", source))?;
            self.stopped.set_registers(self.tid, self.original.into())?;
        }
        self.memory
            .write(self.frame.lowest, &self.frame.before)
            .map_err(|source| Error::system("restoring the stack of a remote call", source))
    }
}

impl Drop for Borrowed<'_> {
    fn drop(&mut self) {
        if !self.is_back {
            // Fails only if the thread has ended.
            let _ = self.put_back();
        }
    }
}

/// Points stopped thread `tid` at a function of its process, with a text and a number as arguments. It calls that when it is let go, and
/// returns to where it was, whether this process is there then or not. What the function returns is lost.
pub(crate) fn send_to(
    stopped: &Stopped,
    tid: i32,
    (memory, gadgets): (&Memory, Gadgets),
    function: u64,
    (text, number): (&[u8], u64),
) -> Result<(), Error> {
    let original: user_regs_struct = stopped.registers(tid)?.into();
    let mask = sys::signal_mask(tid).map_err(|source| Error::system("PTRACE_GETSIGMASK", source))?;
    let text_bytes = (text.len() as u64).next_multiple_of(16);
    let frame = write_frame(tid, memory, gadgets, &restarted(original), (mask, text_bytes))?;
    // Above the way back: what the function itself puts on the stack is below.
    let at = original.rsp - RED_ZONE - text_bytes;
    memory.write(at, text).map_err(|source| Error::system("writing an argument of a remote call", source))?;
    let registers = user_regs_struct {
        rip: function,
        rsp: frame.base,
        rax: 0,
        orig_rax: u64::MAX,
        rdi: at,
        rsi: number,
        ..original
    };
    stopped.set_registers(tid, registers.into())
}

/// Some thread of a stopped process can be borrowed.
pub(crate) fn is_callable(stopped: &Stopped, target: &Target) -> Result<bool, Error> {
    Ok(!candidates(stopped, target)?.is_empty())
}

/// Threads to borrow, with their registers: first those that run on the stack that they were given (the main
/// thread's, or that of which the thread control block is a part), where the room below is theirs; then any other
/// (signal stacks, fibres). In Go programs, whose stacks lie in the heap with other things below them, none but those that
/// run on a stack of the thread's own.
fn candidates(stopped: &Stopped, target: &Target) -> Result<Vec<(i32, user_regs_struct)>, Error> {
    let (mut first, mut others) = (Vec::new(), Vec::new());
    for tid in stopped.threads() {
        let registers = stopped.registers(tid)?;
        let top = registers.stack_pointer().saturating_sub(RED_ZONE);
        let stack = target.mapping_at(VirtAddr(top)).filter(|mapping| mapping.write);
        let Some(mapping) = stack else { continue };
        // The main thread's stack grows when its frame is written.
        let is_main = mapping.path == "[stack]";
        if !is_main && target.goroutines.is_some() {
            let running =
                goroutines::running(&target.memory, &registers).filter(|running| running.is_threads);
            let free = running.map_or(0, |running| top.saturating_sub(running.stack.start));
            if free > 0 && free >= frame_bytes(tid)? {
                first.push((tid, registers.into()));
            }
            continue;
        }
        if !is_main && top - mapping.start.0 < limits::REMOTE_STACK_BYTES {
            continue;
        }
        let block = registers.thread_pointer();
        let has_block = registers.stack_pointer() < block && block < mapping.end.0;
        if is_main || has_block { &mut first } else { &mut others }.push((tid, registers.into()));
    }
    first.extend(others);
    Ok(first)
}

/// The process has as many mappings as it may (vm.max_map_count), if that is why it got `source`.
fn crowded(pid: i32, source: &io::Error) -> Option<Error> {
    // Some are split for what they are asked for.
    const ROOM: usize = 16;
    if source.raw_os_error() != Some(libc::ENOMEM) {
        return None;
    }
    let text = std::fs::read_to_string("/proc/sys/vm/max_map_count").ok()?;
    let (max, count) = (text.trim().parse::<usize>().ok()?, read_mappings(pid).ok()?.len());
    (count + ROOM > max).then_some(Error::TooManyMappings { pid, count, max })
}

/// Bytes of stack that the frame of thread `tid` takes: a thread of Go's has 8 KiB.
fn frame_bytes(tid: i32) -> Result<u64, Error> {
    const ALIGNMENT: u64 = 64 + 16;
    Ok(frame_state(tid)?.len() as u64 + UCONTEXT_ROOM + ARGUMENTS_BYTES + ALIGNMENT)
}

fn frame_state(tid: i32) -> Result<Vec<u8>, Error> {
    let state = sys::extended_state(tid).map_err(|source| Error::system("PTRACE_GETREGSET", source))?;
    Ok(signal_frame_state(state))
}

/// Writes the frame described in the header, `above` bytes further down.
fn write_frame(
    tid: i32,
    memory: &Memory,
    gadgets: Gadgets,
    registers: &user_regs_struct,
    (mask, above): (u64, u64),
) -> Result<Frame, Error> {
    let state = frame_state(tid)?;
    let end = registers.rsp - RED_ZONE - above;
    let state_at = (end - state.len() as u64) & !63;
    // rt_sigreturn finds the ucontext at rsp, when all before it has been popped; `base` is 8 mod 16 as at any function's
    // entry.
    let base = ((state_at - UCONTEXT_ROOM) & !15) - 8;
    let lowest = (base - ARGUMENTS_BYTES) & !15;
    let failed = |source| Error::system("writing the frame of a remote call", source);
    let mut before = vec![0; (end - lowest) as usize];
    memory.read(lowest, &mut before).map_err(failed)?;
    let mut frame = Vec::with_capacity(8 + UCONTEXT_BYTES);
    let mut word = |value: u64| frame.extend_from_slice(&value.to_le_bytes());
    gadgets.way_back().into_iter().for_each(&mut word);
    word(UC_FLAGS);
    word(0); // uc_link
    word(0); // uc_stack.ss_sp
    word(u64::from(SS_INVALID));
    word(0); // uc_stack.ss_size
    let r = registers;
    for value in [r.r8, r.r9, r.r10, r.r11, r.r12, r.r13, r.r14, r.r15, r.rdi, r.rsi, r.rbp, r.rbx, r.rdx] {
        word(value);
    }
    for value in [r.rax, r.rcx, r.rsp, r.rip, r.eflags, r.cs | r.ss << 48, 0, 0, 0, 0] {
        word(value); // the last four: err, trapno, oldmask, cr2
    }
    word(state_at); // fpstate
    for _ in 0..8 {
        word(0); // reserved
    }
    word(mask);
    memory.write(state_at, &state).and_then(|()| memory.write(base, &frame)).map_err(failed)?;
    Ok(Frame { base, lowest, before })
}

/// The XSAVE area as rt_sigreturn wants it: with its sizes and magic numbers filled in (asm/sigcontext.h).
///
/// ptrace always gives room for tile data (AMX); the kernel refuses a frame with that room from a thread that never
/// used it, and would restore no vector register wider than SSE's. So unused tile data, the last part, is cut off.
fn signal_frame_state(mut state: Vec<u8>) -> Vec<u8> {
    const FP_XSTATE_MAGIC1: u32 = 0x4650_5853;
    const FP_XSTATE_MAGIC2: u32 = 0x4650_5845;
    const USED_COMPONENTS: usize = 512;
    const TILE_DATA: u64 = 1 << 18;
    let mut components = cpu::enabled_state_components();
    let used = state.get(USED_COMPONENTS..USED_COMPONENTS + 8).and_then(|bytes| bytes.try_into().ok());
    if components & TILE_DATA != 0 && used.map_or(0, u64::from_le_bytes) & TILE_DATA == 0 {
        components &= !TILE_DATA;
        state.truncate(cpu::state_bytes(components));
    }
    let bytes = state.len() as u32;
    let mut put = |at: usize, value: &[u8]| state[at..at + value.len()].copy_from_slice(value);
    put(FPX_SW_BYTES, &FP_XSTATE_MAGIC1.to_le_bytes());
    put(FPX_SW_BYTES + 4, &(bytes + 4).to_le_bytes());
    put(FPX_SW_BYTES + 8, &components.to_le_bytes());
    put(FPX_SW_BYTES + 16, &bytes.to_le_bytes());
    state.extend_from_slice(&FP_XSTATE_MAGIC2.to_le_bytes());
    state
}
