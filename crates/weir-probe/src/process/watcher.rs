//! Sees to it that this process lets go what it holds in time, also where it is itself stopped (SIGSTOP, Ctrl-Z) or hangs.
//!
//! In: when each hold must have ended ([`Hold`]). Out: a stopped process goes on (SIGCONT) at the first deadline that has passed, lets go, since
//! it is late, and is stopped again once it holds nothing. One that holds a target [`KILL_AFTER`] longer, whatever the reason, is killed, and the
//! kernel lets the target go.
//!
//! While this process is stopped, the watcher also lets by who waits at its gate ([`crate::process::gate`]).
//!
//! The watcher is a process of its own, since a stop stops every thread of a process, and in a session of its own, since a terminal stops
//! groups of them. It shares this process's memory (`CLONE_VM`), so that it needs no program of its own, no copy of anything and no words but
//! [`SHARED`]; its end sends no SIGCHLD, and wait(2) does not report it. It begins with the first hold, and ends with this process, or when this
//! executes another program.
//!
//! It runs on a thread control block that belongs to whoever started it, and that may be gone: so it calls the kernel by itself, not by libc, and
//! allocates and locks nothing.
//!
//! Not seen: a watcher that is stopped together with this process, by its own id or by a freezer of their control group. Without close_range(2)
//! (Linux 5.9) there is none.

use std::arch::asm;
use std::ffi::CStr;
use std::mem;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

use nix::libc::{self, c_int, c_void};
use nix::sys::signal::{SigSet, SigmaskHow, pthread_sigmask};

use crate::process::sys;

/// How much longer than it may a process is held by one that is not stopped: it may be waiting for a CPU. It gives up by itself at its
/// deadline when it runs.
const KILL_AFTER: Duration = Duration::from_secs(2);

/// How often a process that is late is looked at.
const LOOK: Duration = Duration::from_millis(1);

/// How long a new hold waits at most for the stop that is due before it.
const STOPPED_MAX: Duration = Duration::from_millis(50);

/// Holds at a time, those of all threads; others wait.
const SLOTS: usize = 64;

const STACK_BYTES: usize = 64 << 10;

/// As `/proc/PID/comm` has it: who stops weir by its name is not to stop it as well.
pub(crate) const NAME: &CStr = c"hold-watch";

/// What the watcher and its process both see.
struct Shared {
    /// When holds must have ended, by CLOCK_MONOTONIC in nanoseconds; 0: none. Those that are odd nobody is killed for.
    deadlines: [AtomicU64; SLOTS],
    /// This process goes on to let go, and will be stopped again.
    is_stop_due: AtomicBool,
}

static SHARED: Shared =
    Shared { deadlines: [const { AtomicU64::new(0) }; SLOTS], is_stop_due: AtomicBool::new(false) };

static WATCHER: Mutex<Option<Watcher>> = Mutex::new(None);

/// A hold of a target's threads, which must end in time.
#[derive(Debug)]
pub(crate) struct Hold {
    slot: &'static AtomicU64,
}

impl Hold {
    /// Begins one that must end within `limit` from now.
    pub(crate) fn begin(limit: Duration) -> Hold {
        Hold::until((now().saturating_add(limit.as_nanos() as u64)) & !1)
    }

    /// The same for one that a process may be late with as long as it runs.
    pub(crate) fn begin_patient(limit: Duration) -> Hold {
        Hold::until((now().saturating_add(limit.as_nanos() as u64)) | 1)
    }

    fn until(deadline: u64) -> Hold {
        let start = Instant::now();
        // Else the stop that is due would begin within this hold.
        while SHARED.is_stop_due.load(SeqCst) && start.elapsed() < STOPPED_MAX {
            std::thread::sleep(LOOK / 4);
        }
        let mut watcher = own_watcher();
        let claim = |slot: &&AtomicU64| slot.compare_exchange(0, deadline, SeqCst, SeqCst).is_ok();
        let slot = loop {
            match SHARED.deadlines.iter().find(claim) {
                Some(slot) => break slot,
                None => std::thread::sleep(LOOK),
            }
        };
        if !watcher.as_ref().is_some_and(|watcher| watcher.tell(LOOK_AT_DEADLINES, None)) {
            *watcher = Watcher::start().inspect(|watcher| _ = watcher.tell(LOOK_AT_DEADLINES, None));
        }
        Hold { slot }
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        self.slot.store(0, SeqCst);
    }
}

/// What waits at a gate is let by while this process is stopped.
#[derive(Debug)]
pub(crate) struct WatchedGate(());

impl WatchedGate {
    /// `fanotify`: a group with permission events. The watcher has a copy of it until this is dropped. One at a time: of more the first is
    /// watched.
    pub(crate) fn watch(fanotify: &OwnedFd) -> WatchedGate {
        let mut watcher = own_watcher();
        if !watcher.as_ref().is_some_and(|watcher| watcher.tell(OPEN_GATE, Some(fanotify))) {
            *watcher = Watcher::start().inspect(|watcher| _ = watcher.tell(OPEN_GATE, Some(fanotify)));
        }
        WatchedGate(())
    }
}

impl Drop for WatchedGate {
    fn drop(&mut self) {
        if let Some(watcher) = &*own_watcher() {
            watcher.tell(CLOSE_GATE, None);
        }
    }
}

/// The watcher of this process, if it has been started.
fn own_watcher() -> MutexGuard<'static, Option<Watcher>> {
    let mut watcher = WATCHER.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    if watcher.as_ref().is_some_and(|watcher| watcher.owner != std::process::id()) {
        // Those are the holds of who has forked this process.
        SHARED.deadlines.iter().for_each(|slot| slot.store(0, SeqCst));
        *watcher = None;
    }
    watcher
}

/// What the watcher is told: to look at the deadlines, which it does at any message; that this descriptor is a gate's; that there is none.
const LOOK_AT_DEADLINES: u8 = 0;
const OPEN_GATE: u8 = 1;
const CLOSE_GATE: u8 = 2;

/// A control message with one descriptor (cmsg(3)).
#[repr(C)]
struct Passed {
    header: libc::cmsghdr,
    descriptor: c_int,
    pad: c_int,
}

impl Passed {
    const fn of(descriptor: c_int) -> Passed {
        let length = size_of::<libc::cmsghdr>() + size_of::<c_int>();
        let header =
            libc::cmsghdr { cmsg_len: length, cmsg_level: libc::SOL_SOCKET, cmsg_type: libc::SCM_RIGHTS };
        Passed { header, descriptor, pad: 0 }
    }
}

#[derive(Debug)]
struct Watcher {
    /// Whose it is: not that of a child that was forked.
    owner: u32,
    /// What wakes it, and what it sees the end of this program by.
    channel: OwnedFd,
}

/// What the watcher is given; its descriptors are copies.
struct Given {
    owner: c_int,
    pidfd: c_int,
    channel: c_int,
}

impl Watcher {
    /// `None` where there can be none: nothing of what it is for is worth failing for.
    fn start() -> Option<Watcher> {
        let owner = std::process::id();
        let mut ends = [0; 2];
        let kind = libc::SOCK_STREAM | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
        // SAFETY: the kernel writes two descriptors to `ends`.
        if unsafe { libc::socketpair(libc::AF_UNIX, kind, 0, ends.as_mut_ptr()) } != 0 {
            return None;
        }
        // SAFETY: the kernel just made these for us.
        let (channel, its) = unsafe { (OwnedFd::from_raw_fd(ends[0]), OwnedFd::from_raw_fd(ends[1])) };
        let pidfd = sys::pidfd_open(owner as i32).ok()?;
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_STACK;
        // SAFETY: new memory, which stays for as long as this process lives.
        let stack = unsafe { libc::mmap(ptr::null_mut(), STACK_BYTES, protection, flags, -1, 0) };
        if stack == libc::MAP_FAILED {
            return None;
        }
        let given = Given { owner: owner as c_int, pidfd: pidfd.as_raw_fd(), channel: its.as_raw_fd() };
        let given: &'static Given = Box::leak(Box::new(given));
        let mut before = SigSet::empty();
        // It begins with all signals blocked, and so it stays.
        let is_blocked = pthread_sigmask(SigmaskHow::SIG_SETMASK, Some(&SigSet::all()), Some(&mut before));
        // SAFETY: the stack is its own and never freed, as what it is given; `watch` uses nothing of the thread that starts it.
        let pid = unsafe {
            let top = stack.byte_add(STACK_BYTES);
            libc::clone(watch, top, libc::CLONE_VM, ptr::from_ref(given).cast_mut().cast())
        };
        if is_blocked.is_ok() {
            let _ = pthread_sigmask(SigmaskHow::SIG_SETMASK, Some(&before), None);
        }
        (pid > 0).then_some(Watcher { owner, channel })
    }

    /// Wakes it with a word, and a descriptor for it; false if it is not there any more.
    fn tell(&self, mut word: u8, descriptor: Option<&OwnedFd>) -> bool {
        let mut passed = Passed::of(descriptor.map_or(-1, AsRawFd::as_raw_fd));
        let mut text = libc::iovec { iov_base: (&raw mut word).cast(), iov_len: 1 };
        // SAFETY: all zero it is an empty message.
        let mut message: libc::msghdr = unsafe { mem::zeroed() };
        (message.msg_iov, message.msg_iovlen) = (&raw mut text, 1);
        if descriptor.is_some() {
            (message.msg_control, message.msg_controllen) =
                ((&raw mut passed).cast(), passed.header.cmsg_len);
        }
        let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
        // SAFETY: what the message points to lives during the call.
        let sent = unsafe { libc::sendmsg(self.channel.as_raw_fd(), &raw const message, flags) };
        // Where the channel is full it will look.
        let is_full = || std::io::Error::last_os_error().kind() == std::io::ErrorKind::WouldBlock;
        sent == 1 || is_full()
    }
}

/// CLOCK_MONOTONIC in nanoseconds.
fn now() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // Not by libc's vDSO call: the watcher uses it too.
    call(libc::SYS_clock_gettime, [libc::CLOCK_MONOTONIC as usize, (&raw mut time) as usize, 0, 0, 0]);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// A system call, with its result or its negative error, that touches no errno.
fn call(number: libc::c_long, arguments: [usize; 5]) -> isize {
    let result: isize;
    let [a, b, c, d, e] = arguments;
    // SAFETY: a system call of this module: none of them changes memory but what the caller has lent it.
    unsafe {
        asm!(
            "syscall",
            inlateout("rax") number as isize => result,
            in("rdi") a,
            in("rsi") b,
            in("rdx") c,
            in("r10") d,
            in("r8") e,
            lateout("rcx") _,
            lateout("r11") _,
            options(nostack),
        );
    }
    result
}

/// The watcher. Uses this module's calls and [`SHARED`] alone.
extern "C" fn watch(given: *mut c_void) -> c_int {
    // SAFETY: it is what `start` has given, which is never freed.
    let given = unsafe { &*given.cast::<Given>() };
    call(libc::SYS_setsid, [0; 5]);
    call(libc::SYS_prctl, [libc::PR_SET_NAME as usize, NAME.as_ptr() as usize, 0, 0, 0]);
    let (low, high) = match given.pidfd < given.channel {
        true => (given.pidfd as usize, given.channel as usize),
        false => (given.channel as usize, given.pidfd as usize),
    };
    // Its copies of all others would keep them open.
    let gaps = [(0, low.wrapping_sub(1)), (low + 1, high.wrapping_sub(1)), (high + 1, u32::MAX as usize)];
    for (first, last) in gaps {
        if first <= last && last != usize::MAX && call(libc::SYS_close_range, [first, last, 0, 0, 0]) < 0 {
            return 1;
        }
    }
    let mut is_stop_due = false;
    // Of the gate, or -1; whether somebody waits there.
    let (mut gate, mut is_awaited) = (-1, false);
    loop {
        let deadlines = || SHARED.deadlines.iter().map(|slot| slot.load(SeqCst)).filter(|&at| at != 0);
        let (deadline, now) = (deadlines().min(), now());
        let late = deadline.filter(|&deadline| deadline <= now);
        if deadlines().any(|at| at & 1 == 0 && at.saturating_add(KILL_AFTER.as_nanos() as u64) <= now) {
            call(libc::SYS_kill, [given.owner as usize, libc::SIGKILL as usize, 0, 0, 0]);
            return 0;
        }
        if late.is_some() && is_stopped(given.owner) {
            is_stop_due = true;
            SHARED.is_stop_due.store(true, SeqCst);
            call(libc::SYS_kill, [given.owner as usize, libc::SIGCONT as usize, 0, 0, 0]);
        } else if is_stop_due && deadline.is_none() {
            is_stop_due = false;
            call(libc::SYS_kill, [given.owner as usize, libc::SIGSTOP as usize, 0, 0, 0]);
            SHARED.is_stop_due.store(false, SeqCst);
        }
        if is_awaited && is_stopped(given.owner) {
            let_by(gate);
        }
        let rest = match deadline {
            // Its own process deals with who waits at the gate, as a rule: one look later nobody does.
            _ if late.is_some() || is_stop_due || is_awaited => Some(LOOK.as_nanos() as u64),
            Some(deadline) => Some(deadline - now),
            None => None,
        };
        let asked = if is_awaited { -1 } else { gate };
        match news(given, asked, rest) {
            News::Ended => return 0,
            News::Gate(new) => {
                call(libc::SYS_close, [gate as usize, 0, 0, 0, 0]);
                (gate, is_awaited) = (new, false);
            }
            News::Awaited => is_awaited = true,
            News::Nothing => is_awaited = false,
        }
    }
}

enum News {
    /// Its process has ended, or executed another program.
    Ended,
    /// The gate has this descriptor; -1: none.
    Gate(c_int),
    /// Somebody waits at the gate.
    Awaited,
    Nothing,
}

/// Waits for news, at most `time` nanoseconds. A negative descriptor is not waited for.
fn news(given: &Given, gate: c_int, time: Option<u64>) -> News {
    let on = |fd: c_int| libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
    let mut waited = [on(given.pidfd), on(given.channel), on(gate)];
    let timeout = time.map(|time| libc::timespec {
        tv_sec: (time / 1_000_000_000) as i64,
        tv_nsec: (time % 1_000_000_000) as i64,
    });
    let at = timeout.as_ref().map_or(0, |timeout| ptr::from_ref(timeout) as usize);
    call(libc::SYS_ppoll, [waited.as_mut_ptr() as usize, waited.len(), at, 0, 8]);
    let [process, channel, gate] = &waited;
    if channel.revents & libc::POLLIN != 0
        && let Some(gate) = heard(given)
    {
        return News::Gate(gate);
    }
    if process.revents != 0 || channel.revents & libc::POLLHUP != 0 {
        return News::Ended;
    }
    if gate.revents & libc::POLLIN != 0 { News::Awaited } else { News::Nothing }
}

/// Takes what the watcher is told; the gate's descriptor if that is another now, -1 for none.
fn heard(given: &Given) -> Option<c_int> {
    let (mut words, mut passed) = ([0u8; 64], Passed::of(-1));
    let mut text = libc::iovec { iov_base: words.as_mut_ptr().cast(), iov_len: words.len() };
    // SAFETY: all zero it is an empty message.
    let mut message: libc::msghdr = unsafe { mem::zeroed() };
    (message.msg_iov, message.msg_iovlen) = (&raw mut text, 1);
    (message.msg_control, message.msg_controllen) = ((&raw mut passed).cast(), size_of::<Passed>());
    let at = (&raw mut message) as usize;
    let count = call(libc::SYS_recvmsg, [given.channel as usize, at, libc::MSG_CMSG_CLOEXEC as usize, 0, 0]);
    let words = words.get(..usize::try_from(count).unwrap_or(0)).unwrap_or(&[]);
    // A descriptor comes with the last word that is read with it, or with the first.
    let is_passed = message.msg_controllen >= passed.header.cmsg_len && passed.descriptor >= 0;
    words.iter().rev().find_map(|&word| match word {
        OPEN_GATE if is_passed => Some(passed.descriptor),
        CLOSE_GATE => Some(-1),
        _ => None,
    })
}

/// Lets by all that wait at the gate, which its own process does not do now.
fn let_by(gate: c_int) {
    const METADATA: usize = size_of::<libc::fanotify_event_metadata>();
    let mut bytes = [0u64; 64];
    let (to, length) = (bytes.as_mut_ptr() as usize, size_of_val(&bytes));
    loop {
        // It does not wait where nothing is left.
        let Ok(count) = usize::try_from(call(libc::SYS_read, [gate as usize, to, length, 0, 0])) else {
            return;
        };
        let mut at = 0;
        while at + METADATA <= count {
            // SAFETY: so many bytes were written there, and every bit pattern is a valid value of this plain structure.
            let event: libc::fanotify_event_metadata = unsafe {
                bytes.as_ptr().byte_add(at).cast::<libc::fanotify_event_metadata>().read_unaligned()
            };
            let response = libc::fanotify_response { fd: event.fd, response: libc::FAN_ALLOW };
            let answer = (&raw const response) as usize;
            call(libc::SYS_write, [gate as usize, answer, size_of_val(&response), 0, 0]);
            call(libc::SYS_close, [event.fd as usize, 0, 0, 0, 0]);
            at += (event.event_len as usize).max(METADATA);
        }
        if count == 0 {
            return;
        }
    }
}

/// Whether process `pid` is stopped by a signal.
fn is_stopped(pid: c_int) -> bool {
    let mut path = [0u8; 32];
    let mut length = 0;
    let mut put = |byte: u8| {
        if let Some(place) = path.get_mut(length) {
            *place = byte;
            length += 1;
        }
    };
    b"/proc/".iter().for_each(|&byte| put(byte));
    let mut scale = 1_000_000_000;
    while scale > 0 {
        if pid >= scale {
            put(b'0' + (pid / scale % 10) as u8);
        }
        scale /= 10;
    }
    b"/stat".iter().for_each(|&byte| put(byte));
    let flags = (libc::O_RDONLY | libc::O_CLOEXEC) as usize;
    let file = call(libc::SYS_openat, [libc::AT_FDCWD as usize, path.as_ptr() as usize, flags, 0, 0]);
    let Ok(file) = usize::try_from(file) else { return false };
    // The name ends before byte 64, and the state comes after it.
    let mut text = [0u8; 64];
    let read = call(libc::SYS_read, [file, text.as_mut_ptr() as usize, text.len(), 0, 0]);
    call(libc::SYS_close, [file, 0, 0, 0, 0]);
    let read = text.get(..usize::try_from(read).unwrap_or(0)).unwrap_or(&[]);
    // A name may have a parenthesis in it, what follows may not.
    let Some(end) = read.iter().rposition(|&byte| byte == b')') else { return false };
    read.get(end + 2) == Some(&b'T')
}

#[cfg(test)]
mod tests {
    use std::process::{Child, Command};

    use nix::sys::signal::{self, Signal};
    use nix::sys::wait::{WaitStatus, waitpid};
    use nix::unistd::{ForkResult, Pid, fork, getpid};

    use super::*;
    use crate::process::stop::{Filters, Stopped};
    use crate::refusal::Error;

    const LIMIT: Duration = Duration::from_millis(10);

    fn sleeper() -> Child {
        // It ends when it is killed: the verdict does not depend on how long it is.
        Command::new("sleep").arg("1000000").spawn().unwrap()
    }

    fn end(mut target: Child) {
        target.kill().unwrap();
        target.wait().unwrap();
    }

    fn hold(target: &Child) -> Stopped {
        Stopped::stop(target.id() as i32, LIMIT, Filters::Suspended).unwrap()
    }

    /// Lets a process go on once it is stopped and its target is not held; fails where that does not come.
    const LET_GO_ON: &str = r#"
        tries=0
        until grep -q '^TracerPid:.0$' /proc/$1/status && grep -q '^State:.T' /proc/$2/status; do
            tries=$((tries + 1))
            if [ $tries -gt 3000 ]; then kill -CONT $2; exit 1; fi
            sleep 0.01
        done
        kill -CONT $2"#;

    #[test]
    fn what_a_stopped_process_holds_is_let_go_in_time_and_it_is_stopped_then() {
        let target = sleeper();
        let own = std::process::id().to_string();
        let stopped = hold(&target);
        let mut helper = Command::new("sh");
        helper.args(["-c", LET_GO_ON, "sh", &target.id().to_string(), &own]);
        let mut helper = helper.spawn().unwrap();
        signal::kill(getpid(), Signal::SIGSTOP).unwrap();
        // A signal to oneself is there when the call returns, but another thread may be the first to see it.
        while stopped.elapsed() < LIMIT {
            std::thread::yield_now();
        }
        assert!(matches!(stopped.in_time(), Err(Error::StopTooLong { .. })));
        drop(stopped);
        assert!(helper.wait().unwrap().success(), "it was not woken, or not stopped again");
        // And the next is held as ever.
        drop(hold(&target));
        end(target);
    }

    #[test]
    fn who_hangs_while_it_holds_is_killed() {
        let target = sleeper();
        // SAFETY: the child uses this crate's calls and libc's memory, whose locks fork(2) keeps sound.
        match unsafe { fork() }.unwrap() {
            ForkResult::Child => {
                let _stopped = hold(&target);
                loop {
                    std::thread::park();
                }
            }
            ForkResult::Parent { child } => {
                let ended = waitpid(child, None).unwrap();
                assert_eq!(ended, WaitStatus::Signaled(child, Signal::SIGKILL, false));
            }
        }
        // Nothing holds it any more.
        assert!(signal::kill(Pid::from_raw(target.id() as i32), Signal::SIGTERM).is_ok());
        let mut target = target;
        assert!(!target.wait().unwrap().success());
    }

    #[test]
    fn short_holds_of_many_threads_are_nobodys_concern() {
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| (0..1_000).for_each(|_| drop(Hold::begin(Duration::from_secs(60)))));
            }
        });
        assert!(SHARED.deadlines.iter().all(|slot| slot.load(SeqCst) == 0 || slot.load(SeqCst) > now()));
    }
}
