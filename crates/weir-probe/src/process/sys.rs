//! The system calls that nix has no wrapper for, and `/proc/PID/{mem,status,task}`.
//!
//! One function a call; each returns what the kernel says and decides nothing.

use std::fs;
use std::io;
use std::mem::{self, MaybeUninit};
use std::ops::Range;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use nix::libc;
use weir_symbols::procfs;

/// `struct ptrace_rseq_configuration` (linux/ptrace.h).
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub(crate) struct RseqConfiguration {
    pub(crate) abi_pointer: u64,
    pub(crate) abi_size: u32,
    pub(crate) signature: u32,
    pub(crate) flags: u32,
    pad: u32,
}

/// The stop of a seized thread that was interrupted, or whose process is stopped (linux/ptrace.h).
const PTRACE_EVENT_STOP: i32 = 128;
const PTRACE_GET_RSEQ_CONFIGURATION: libc::c_uint = 0x420f;
const PTRACE_GETSIGMASK: libc::c_uint = 0x420a;
const PTRACE_SETSIGMASK: libc::c_uint = 0x420b;
const NT_X86_XSTATE: usize = 0x202;

/// What a traced thread has reported.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Event {
    /// It has ended, or is not ours to wait for.
    Ended,
    /// It is about to be given this signal (of any number: nix knows no real-time signals).
    Signal(i32),
    /// It is at the entry or exit of a system call.
    Syscall,
    /// It was interrupted, by nothing but PTRACE_INTERRUPT.
    Interrupted,
    /// Its process is stopped by a signal (SIGSTOP).
    GroupStop,
    /// Another `PTRACE_EVENT_*`.
    Other,
}

/// The next report of thread `tid`. With `is_patient` it is waited for; else `None` if there is none yet. With `is_child` ([`is_own_child`])
/// how it has ended is left for who started it.
pub(crate) fn wait(tid: i32, is_patient: bool, is_child: bool) -> io::Result<Option<Event>> {
    let patience = if is_patient { 0 } else { libc::WNOHANG };
    let keeping = if is_child { libc::WNOWAIT } else { 0 };
    let mut reported = report(tid, libc::WEXITED | libc::WSTOPPED | keeping | patience);
    let is_end = |code: i32| matches!(code, libc::CLD_EXITED | libc::CLD_KILLED | libc::CLD_DUMPED);
    if is_child && reported.as_ref().is_ok_and(|&(code, _)| code != 0 && !is_end(code)) {
        // Not its end, which may have come since.
        reported = report(tid, libc::WSTOPPED | libc::WNOHANG);
    }
    match reported {
        Ok((0, _)) => Ok(None),
        Ok((code, _)) if is_end(code) => Ok(Some(Event::Ended)),
        Ok((_, stop)) => Ok(Some(match (stop & 0xff, stop >> 8) {
            (libc::SIGTRAP, PTRACE_EVENT_STOP) => Event::Interrupted,
            (_, PTRACE_EVENT_STOP) => Event::GroupStop,
            (_, event) if event != 0 => Event::Other,
            (signal, _) if signal == libc::SIGTRAP | 0x80 => Event::Syscall,
            (signal, _) => Event::Signal(signal),
        })),
        Err(error) if error.raw_os_error() == Some(libc::EINTR) => Ok(None),
        Err(error) if error.raw_os_error() == Some(libc::ECHILD) => Ok(Some(Event::Ended)),
        Err(error) => Err(error),
    }
}

/// waitid(2) for thread `tid`: `si_code` (0 if there is no such report) and `si_status`.
fn report(tid: i32, flags: i32) -> io::Result<(i32, i32)> {
    let mut info = MaybeUninit::<libc::siginfo_t>::zeroed();
    // SAFETY: the kernel writes a siginfo_t to `info`.
    let result =
        unsafe { libc::waitid(libc::P_PID, tid as libc::id_t, info.as_mut_ptr(), libc::__WALL | flags) };
    check(result.into())?;
    // SAFETY: it was zeroed, and every bit pattern is a valid value of this plain structure; the fields of a report of
    // waitid(2) are those that `si_status` reads.
    let info = unsafe { info.assume_init() };
    // SAFETY: as above.
    Ok((info.si_code, unsafe { info.si_status() }))
}

/// It is the main thread of a process that this one has started, and that has not been reaped.
pub(crate) fn is_own_child(tid: i32) -> bool {
    status_number(tid, "PPid") == Some(std::process::id() as i32) && status_number(tid, "Tgid") == Some(tid)
}

/// PTRACE_CONT, PTRACE_SYSCALL or PTRACE_DETACH: lets stopped thread `tid` go on, with `signal` (0: none). A signal
/// is taken only at the stop that reported it.
pub(crate) fn go_on(request: libc::c_uint, tid: i32, signal: i32) -> io::Result<()> {
    // SAFETY: these requests take an integer and touch no memory of ours.
    check(unsafe { libc::ptrace(request, tid, 0usize, signal as usize) })?;
    Ok(())
}

fn check(result: libc::c_long) -> io::Result<libc::c_long> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// Where thread `tid` registered its `struct rseq`; `abi_pointer` 0 if it did not.
pub(crate) fn rseq_configuration(tid: i32) -> io::Result<RseqConfiguration> {
    let mut out = RseqConfiguration::default();
    let size = mem::size_of::<RseqConfiguration>();
    // SAFETY: the kernel writes at most `size` bytes to `out`, which is that large and plain data.
    check(unsafe { libc::ptrace(PTRACE_GET_RSEQ_CONFIGURATION, tid, size, &raw mut out) })?;
    Ok(out)
}

/// `ptrace::seize` with `PTRACE_O_SUSPEND_SECCOMP`, which nix does not know; needs CAP_SYS_ADMIN.
pub(crate) fn seize_with_seccomp_suspended(tid: i32) -> io::Result<()> {
    let options = libc::PTRACE_O_TRACESYSGOOD | libc::PTRACE_O_SUSPEND_SECCOMP;
    // SAFETY: PTRACE_SEIZE takes two integers and reads no memory of ours.
    check(unsafe { libc::ptrace(libc::PTRACE_SEIZE, tid, 0usize, options as usize) })?;
    Ok(())
}

/// How the kernel bounds the system calls of a thread (seccomp(2)).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Seccomp {
    None,
    Strict,
    Filter,
}

/// None of a thread that has ended.
pub(crate) fn seccomp(tid: i32) -> Seccomp {
    match status_field(tid, "Seccomp").ok().flatten().as_deref() {
        None | Some("0") => Seccomp::None,
        Some("1") => Seccomp::Strict,
        Some(_) => Seccomp::Filter,
    }
}

/// The thread has a seccomp filter (or is in strict mode).
pub(crate) fn has_seccomp(tid: i32) -> bool {
    seccomp(tid) != Seccomp::None
}

/// The thread has a shadow stack.
pub(crate) fn has_shadow_stack(tid: i32) -> bool {
    let features = status_field(tid, "x86_Thread_features");
    features.is_ok_and(|features| features.is_some_and(|features| features.contains("shstk")))
}

/// The blocked signals of stopped thread `tid`.
pub(crate) fn signal_mask(tid: i32) -> io::Result<u64> {
    let mut mask = 0u64;
    // SAFETY: the kernel writes the 8 bytes of a signal set to `mask`.
    check(unsafe { libc::ptrace(PTRACE_GETSIGMASK, tid, 8usize, &raw mut mask) })?;
    Ok(mask)
}

pub(crate) fn set_signal_mask(tid: i32, mask: u64) -> io::Result<()> {
    // SAFETY: the kernel reads the 8 bytes of a signal set from `mask`.
    check(unsafe { libc::ptrace(PTRACE_SETSIGMASK, tid, 8usize, &raw const mask) })?;
    Ok(())
}

/// The extended state (XSAVE area) of stopped thread `tid`, as long as the kernel makes it.
pub(crate) fn extended_state(tid: i32) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0u8; 16 << 10];
    let mut vector = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() };
    // SAFETY: the kernel writes at most iov_len bytes to the vector's buffer and stores the length written.
    check(unsafe { libc::ptrace(libc::PTRACE_GETREGSET, tid, NT_X86_XSTATE, &raw mut vector) })?;
    bytes.truncate(vector.iov_len);
    Ok(bytes)
}

/// Which system call stopped thread `tid` is at: (entry?, number or result).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum SyscallStop {
    /// With its first argument.
    Entry {
        number: u64,
        argument: u64,
    },
    Exit {
        result: i64,
    },
    Other,
}

pub(crate) fn syscall_stop(tid: i32) -> io::Result<SyscallStop> {
    let mut info = MaybeUninit::<libc::ptrace_syscall_info>::zeroed();
    let size = mem::size_of::<libc::ptrace_syscall_info>();
    // SAFETY: the kernel writes at most `size` bytes to `info`.
    check(unsafe { libc::ptrace(libc::PTRACE_GET_SYSCALL_INFO, tid, size, info.as_mut_ptr()) })?;
    // SAFETY: it was zeroed, and every bit pattern is a valid value of this plain structure.
    let info = unsafe { info.assume_init() };
    Ok(match info.op {
        libc::PTRACE_SYSCALL_INFO_ENTRY => {
            // SAFETY: `op` says that the entry variant of the union is set.
            let entry = unsafe { info.u.entry };
            SyscallStop::Entry { number: entry.nr, argument: entry.args[0] }
        }
        // SAFETY: `op` says that the exit variant of the union is set.
        libc::PTRACE_SYSCALL_INFO_EXIT => SyscallStop::Exit { result: unsafe { info.u.exit.sval } },
        _ => SyscallStop::Other,
    })
}

/// A descriptor that names process `pid`, readable when it has ended.
pub(crate) fn pidfd_open(pid: i32) -> io::Result<OwnedFd> {
    // SAFETY: pidfd_open takes two integers.
    let fd = check(unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) })?;
    // SAFETY: the kernel just made this descriptor for us.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as i32) })
}

/// The same of thread `tid`, since Linux 6.9.
pub(crate) fn pidfd_open_thread(tid: i32) -> io::Result<OwnedFd> {
    const PIDFD_THREAD: i32 = libc::O_EXCL;
    // SAFETY: pidfd_open takes two integers.
    let fd = check(unsafe { libc::syscall(libc::SYS_pidfd_open, tid, PIDFD_THREAD) })?;
    // SAFETY: the kernel just made this descriptor for us.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as i32) })
}

/// A duplicate, in this process, of descriptor `remote` of the process that `pidfd` names.
pub(crate) fn pidfd_getfd(pidfd: &OwnedFd, remote: i32) -> io::Result<OwnedFd> {
    // SAFETY: pidfd_getfd takes three integers.
    let fd = check(unsafe { libc::syscall(libc::SYS_pidfd_getfd, pidfd.as_raw_fd(), remote, 0) })?;
    // SAFETY: the kernel just made this descriptor for us.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as i32) })
}

/// Whether threads `one` and `other` run in one address space: kcmp(2), `KCMP_VM`.
pub(crate) fn same_address_space(one: i32, other: i32) -> io::Result<bool> {
    const KCMP_VM: i32 = 1;
    // SAFETY: kcmp with KCMP_VM takes integers alone.
    let order = check(unsafe { libc::syscall(libc::SYS_kcmp, one, other, KCMP_VM, 0, 0) })?;
    Ok(order == 0)
}

/// This thread goes before others, while this lives, if it may: threads wait for it.
#[derive(Debug)]
pub(crate) struct Urgent {
    before: i32,
}

impl Urgent {
    pub(crate) fn begin() -> Urgent {
        // SAFETY: both take integers alone; 0 means the calling thread.
        let before = unsafe { libc::getpriority(libc::PRIO_PROCESS, 0) };
        // SAFETY: as above. Without CAP_SYS_NICE it fails, and all stays as it is.
        unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, -20) };
        Urgent { before }
    }
}

impl Drop for Urgent {
    fn drop(&mut self) {
        // SAFETY: it takes integers alone; going back is always allowed.
        unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, self.before) };
    }
}

/// The value of a line `NAME:` of `/proc/PID/status`.
pub(crate) fn status_field(pid: i32, name: &str) -> io::Result<Option<String>> {
    let text = procfs::text(format!("/proc/{pid}/status"))?;
    Ok(text
        .lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))
        .map(|value| value.trim().to_owned()))
}

/// The same where it is a number.
pub(crate) fn status_number(pid: i32, name: &str) -> Option<i32> {
    status_field(pid, name).ok()??.parse().ok()
}

/// The thread of process `pid` by which `/proc/TID` shows what its threads share: the main one, or any other once
/// that has ended by itself (pthread_exit) and has no memory map any more.
pub(crate) fn living_thread(pid: i32) -> i32 {
    let lives = |tid: i32| {
        stat(&format!("/proc/{pid}/task/{tid}/stat")).is_ok_and(|(state, _)| !matches!(state, 'Z' | 'X'))
    };
    if lives(pid) {
        return pid;
    }
    threads(pid).ok().and_then(|tids| tids.into_iter().find(|&tid| lives(tid))).unwrap_or(pid)
}

/// Threads of `pid`, by id.
pub(crate) fn threads(pid: i32) -> io::Result<Vec<i32>> {
    let mut ids = Vec::new();
    for entry in fs::read_dir(format!("/proc/{pid}/task"))? {
        if let Some(id) = entry?.file_name().to_str().and_then(|name| name.parse().ok()) {
            ids.push(id);
        }
    }
    ids.sort_unstable();
    Ok(ids)
}

/// Process `pid` ends: its threads give up their memory, and its maps may show a part of what they did, or nothing.
pub(crate) fn is_ending(pid: i32) -> bool {
    /// `PF_EXITING` (include/linux/sched.h), of the flags in `stat` (proc_pid_stat(5)).
    const EXITING: u64 = 4;
    let text = procfs::text(format!("/proc/{}/stat", living_thread(pid))).unwrap_or_default();
    let flags = text.rsplit_once(") ").and_then(|(_, rest)| rest.split(' ').nth(6)?.parse::<u64>().ok());
    flags.is_none_or(|flags| flags & EXITING != 0)
}

/// State letter and start time (clock ticks since boot) of a thread or process, from its `stat` file.
pub(crate) fn stat(path: &str) -> io::Result<(char, u64)> {
    let text = procfs::text(path)?;
    let rest = text.rsplit_once(") ").map(|(_, rest)| rest).unwrap_or_default();
    let mut fields = rest.split(' ');
    let state = fields.next().and_then(|field| field.chars().next()).unwrap_or('?');
    let start = fields.nth(18).and_then(|field| field.parse().ok()).unwrap_or(0);
    Ok((state, start))
}

/// What of `ranges` of process `pid` are guard regions (madvise(2), `MADV_GUARD_INSTALL`): they fault, though maps show them as
/// any other memory. An error where the kernel has such, and does not say where.
pub(crate) fn guard_regions(pid: i32, ranges: &[Range<u64>]) -> io::Result<Vec<Range<u64>>> {
    /// `struct pm_scan_arg` and `PAGE_IS_GUARD` (include/uapi/linux/fs.h).
    #[repr(C)]
    struct Scan {
        size: u64,
        flags: u64,
        start: u64,
        end: u64,
        walk_end: u64,
        vec: u64,
        vec_len: u64,
        max_pages: u64,
        category_inverted: u64,
        category_mask: u64,
        category_anyof_mask: u64,
        return_mask: u64,
    }
    const PAGE_IS_GUARD: u64 = 1 << 8;
    const PAGEMAP_SCAN: libc::c_ulong = 0xc060_6610;
    const REGIONS: usize = 64;
    if !has_guard_regions() {
        return Ok(Vec::new());
    }
    let file = std::fs::File::open(format!("/proc/{}/pagemap", living_thread(pid)))?;
    let mut found = Vec::new();
    for range in ranges {
        let mut at = range.start;
        while at < range.end {
            let mut regions = [[0u64; 3]; REGIONS];
            let mut scan = Scan {
                size: size_of::<Scan>() as u64,
                flags: 0,
                start: at,
                end: range.end,
                walk_end: 0,
                vec: regions.as_mut_ptr() as u64,
                vec_len: REGIONS as u64,
                max_pages: 0,
                category_inverted: 0,
                category_mask: PAGE_IS_GUARD,
                category_anyof_mask: 0,
                return_mask: PAGE_IS_GUARD,
            };
            // SAFETY: the structure and what it points to live during the call, and have the sizes that it says.
            let count = check(unsafe { libc::ioctl(file.as_raw_fd(), PAGEMAP_SCAN, &raw mut scan) }.into())?;
            found.extend(regions.iter().take(count as usize).map(|region| region[0]..region[1]));
            if scan.walk_end <= at {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            at = scan.walk_end;
        }
    }
    Ok(found)
}

/// Whether the kernel has guard regions: Linux 6.13.
fn has_guard_regions() -> bool {
    use std::sync::OnceLock;
    const MADV_GUARD_INSTALL: libc::c_int = 102;
    static HAS: OnceLock<bool> = OnceLock::new();
    *HAS.get_or_init(|| {
        let (protection, flags) = (libc::PROT_READ, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        // SAFETY: a page of this function's own, which is gone again when it returns.
        unsafe {
            let page = libc::mmap(std::ptr::null_mut(), 4096, protection, flags, -1, 0);
            if page == libc::MAP_FAILED {
                return true;
            }
            let has = libc::madvise(page, 4096, MADV_GUARD_INSTALL) == 0;
            libc::munmap(page, 4096);
            has
        }
    })
}
