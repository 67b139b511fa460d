//! A watchdog process, which bounds how long this process holds others where this process is itself stopped (SIGSTOP, Ctrl-Z) or hangs.
//!
//! In: a deadline for each [`Hold`]. Out: when a deadline has passed and this process is stopped, the watchdog sends it SIGCONT, so that it
//! finds itself late and releases its target, and SIGSTOP after its last hold has ended. [`KILL_AFTER`] the deadline it sends SIGKILL, and the
//! kernel releases the target.
//!
//! While this process is stopped, the watchdog also allows all calls that are pending at a [`crate::process::fanotify`] group of this process.
//!
//! It is a process, because a stop signal stops all threads of a process, in a session of its own, because a terminal stops whole process groups.
//! It shares the memory of this process (`CLONE_VM`): it needs no executable file, and reads deadlines from [`SHARED`]. It sends no SIGCHLD,
//! and wait(2) without `__WALL` does not report it. It starts with the first hold, and ends when this process ends or executes another program.
//!
//! The thread control block that it runs with belongs to the thread that started it, which may have ended. So it makes its system calls
//! without libc, and neither allocates nor locks.
//!
//! Not covered: a SIGSTOP to the watchdog itself, and a freezer of the cgroup of both. Without close_range(2) (Linux 5.9) there is no watchdog.

use std::ffi::CStr;
use std::mem;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

use nix::libc::{self, c_int, c_void};
use nix::sys::prctl;
use nix::sys::signal::{SigSet, SigmaskHow, pthread_sigmask};

use crate::process::isa::native::syscall::call;
use crate::process::{blocked, sys};

/// From the deadline of a hold to SIGKILL. A process that runs gives up at its deadline by itself, but it may have to wait for a CPU: on a machine
/// with ten threads for each of its CPUs, for more than two seconds.
const KILL_AFTER: Duration = Duration::from_secs(10);

/// Interval of checks while a deadline has passed.
const LOOK: Duration = Duration::from_millis(1);

/// How long a new hold waits at most for a pending SIGSTOP.
const STOPPED_MAX: Duration = Duration::from_millis(50);

/// Holds at a time, of all threads. More wait.
const SLOTS: usize = 64;

const STACK_BYTES: usize = 64 << 10;

/// The name in `/proc/PID/comm`. It is not weir's, so that `killall -STOP weir` does not stop the watchdog.
pub(crate) const NAME: &CStr = c"hold-watch";

/// Memory that the watchdog and its owner use.
struct Shared {
    /// CLOCK_MONOTONIC in nanoseconds; 0 for none. An odd deadline never leads to SIGKILL.
    deadlines: [AtomicU64; SLOTS],
    /// The watchdog has sent SIGCONT, and will send SIGSTOP.
    is_stop_due: AtomicBool,
}

static SHARED: Shared =
    Shared { deadlines: [const { AtomicU64::new(0) }; SLOTS], is_stop_due: AtomicBool::new(false) };

static WATCHDOG: Mutex<Option<Watchdog>> = Mutex::new(None);

/// A time during which this process holds another. It has to end before its deadline.
#[derive(Debug)]
pub(crate) struct Hold {
    slot: &'static AtomicU64,
}

impl Hold {
    /// Begins a hold that has to end within `limit`.
    pub(crate) fn begin(limit: Duration) -> Hold {
        Hold::until((now().saturating_add(limit.as_nanos() as u64)) & !1)
    }

    /// The same, but a process that runs may take longer.
    pub(crate) fn begin_patient(limit: Duration) -> Hold {
        Hold::until((now().saturating_add(limit.as_nanos() as u64)) | 1)
    }

    /// The same; none where this process holds so many already that the watchdog looks anyway. It waits for nothing.
    pub(crate) fn try_patient(limit: Duration) -> Option<Hold> {
        let deadline = now().saturating_add(limit.as_nanos() as u64) | 1;
        let claim = |slot: &&AtomicU64| slot.compare_exchange(0, deadline, SeqCst, SeqCst).is_ok();
        let slot = SHARED.deadlines.iter().find(claim)?;
        send_or_start(&mut own_watchdog(), CHECK_DEADLINES, None);
        Some(Hold { slot })
    }

    /// From now on it has to end within `limit`, or later where this process runs.
    pub(crate) fn postpone(&self, limit: Duration) {
        self.slot.store(now().saturating_add(limit.as_nanos() as u64) | 1, SeqCst);
    }

    fn until(deadline: u64) -> Hold {
        let start = Instant::now();
        // The SIGSTOP would come during this hold.
        while SHARED.is_stop_due.load(SeqCst) && start.elapsed() < STOPPED_MAX {
            std::thread::sleep(LOOK / 4);
        }
        let mut watchdog = own_watchdog();
        let claim = |slot: &&AtomicU64| slot.compare_exchange(0, deadline, SeqCst, SeqCst).is_ok();
        let slot = loop {
            match SHARED.deadlines.iter().find(claim) {
                Some(slot) => break slot,
                None => std::thread::sleep(LOOK),
            }
        };
        send_or_start(&mut watchdog, CHECK_DEADLINES, None);
        Hold { slot }
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        self.slot.store(0, SeqCst);
    }
}

/// A fanotify group whose pending calls the watchdog allows while this process is stopped.
#[derive(Debug)]
pub(crate) struct WatchedGroup(());

impl WatchedGroup {
    /// The watchdog has a copy of `fanotify` until the result is dropped. LIMIT: one group at a time; a second one replaces the first.
    pub(crate) fn watch(fanotify: &OwnedFd) -> WatchedGroup {
        send_or_start(&mut own_watchdog(), SET_GROUP, Some(fanotify));
        WatchedGroup(())
    }
}

impl Drop for WatchedGroup {
    fn drop(&mut self) {
        if let Some(watchdog) = &*own_watchdog() {
            watchdog.send(CLEAR_GROUP, None);
        }
    }
}

/// The watchdog of this process, if it has been started.
fn own_watchdog() -> MutexGuard<'static, Option<Watchdog>> {
    let mut watchdog = WATCHDOG.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    if watchdog.as_ref().is_some_and(|watchdog| watchdog.owner != std::process::id()) {
        // These are the holds of the process that forked this one.
        SHARED.deadlines.iter().for_each(|slot| slot.store(0, SeqCst));
        SHARED.is_stop_due.store(false, SeqCst);
        *watchdog = None;
    }
    watchdog
}

/// Sends a message to the watchdog, and starts it if there is none or it has ended.
fn send_or_start(watchdog: &mut Option<Watchdog>, message: u8, descriptor: Option<&OwnedFd>) {
    let is_sent = watchdog.as_ref().is_some_and(|watchdog| watchdog.send(message, descriptor));
    if !is_sent {
        *watchdog = Watchdog::start().inspect(|watchdog| _ = watchdog.send(message, descriptor));
    }
}

/// Messages to the watchdog. It checks the deadlines after each; the second one comes with a descriptor.
const CHECK_DEADLINES: u8 = 0;
const SET_GROUP: u8 = 1;
const CLEAR_GROUP: u8 = 2;

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
struct Watchdog {
    /// A forked child of this process has another id, and needs a watchdog of its own.
    owner: u32,
    /// Closed when this process ends or executes another program, which ends the watchdog.
    channel: OwnedFd,
}

/// Arguments of the watchdog. The descriptors are those of its own copy of the descriptor table.
struct Arguments {
    owner: c_int,
    pidfd: c_int,
    channel: c_int,
}

impl Watchdog {
    /// `None` if it cannot be started. Tracing works without it.
    fn start() -> Option<Watchdog> {
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
        let arguments =
            Arguments { owner: owner as c_int, pidfd: pidfd.as_raw_fd(), channel: its.as_raw_fd() };
        let arguments: &'static Arguments = Box::leak(Box::new(arguments));
        let mut before = SigSet::empty();
        // The watchdog inherits the mask, and handles no signal.
        let is_blocked = pthread_sigmask(SigmaskHow::SIG_SETMASK, Some(&SigSet::all()), Some(&mut before));
        // It inherits the name too, and so has it before it first runs.
        let name = prctl::get_name();
        let _ = prctl::set_name(NAME);
        // SAFETY: neither the stack nor the arguments are ever freed; `run` uses nothing of the thread that starts it.
        let pid = unsafe {
            let top = stack.byte_add(STACK_BYTES);
            libc::clone(run, top, libc::CLONE_VM, ptr::from_ref(arguments).cast_mut().cast())
        };
        let _ = name.map(|name| prctl::set_name(&name));
        if is_blocked.is_ok() {
            let _ = pthread_sigmask(SigmaskHow::SIG_SETMASK, Some(&before), None);
        }
        (pid > 0).then_some(Watchdog { owner, channel })
    }

    /// Sends a message, and a descriptor with it. False if the watchdog has ended.
    fn send(&self, mut word: u8, descriptor: Option<&OwnedFd>) -> bool {
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
        // If the channel is full, the watchdog has messages to wake up for.
        let is_full = || std::io::Error::last_os_error().kind() == std::io::ErrorKind::WouldBlock;
        sent == 1 || is_full()
    }
}

/// CLOCK_MONOTONIC in nanoseconds.
fn now() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // The watchdog calls it too, so not by libc.
    call(libc::SYS_clock_gettime, [libc::CLOCK_MONOTONIC as usize, (&raw mut time) as usize, 0, 0, 0]);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// The watchdog. It may use `call` and [`SHARED`], and nothing that uses libc.
extern "C" fn run(arguments: *mut c_void) -> c_int {
    // SAFETY: `start` passes a value that is never freed.
    let arguments = unsafe { &*arguments.cast::<Arguments>() };
    call(libc::SYS_setsid, [0; 5]);
    let (low, high) = match arguments.pidfd < arguments.channel {
        true => (arguments.pidfd as usize, arguments.channel as usize),
        false => (arguments.channel as usize, arguments.pidfd as usize),
    };
    // Copies of other descriptors would keep pipes and files open.
    let gaps = [(0, low.wrapping_sub(1)), (low + 1, high.wrapping_sub(1)), (high + 1, u32::MAX as usize)];
    for (first, last) in gaps {
        if first <= last && last != usize::MAX && call(libc::SYS_close_range, [first, last, 0, 0, 0]) < 0 {
            return 1;
        }
    }
    let mut is_stop_due = false;
    // The fanotify group, or -1; whether it has an event.
    let (mut group, mut is_event_pending) = (-1, false);
    loop {
        let deadlines = || SHARED.deadlines.iter().map(|slot| slot.load(SeqCst)).filter(|&at| at != 0);
        let (deadline, now) = (deadlines().min(), now());
        let late = deadline.filter(|&deadline| deadline <= now);
        if deadlines().any(|at| at & 1 == 0 && at.saturating_add(KILL_AFTER.as_nanos() as u64) <= now) {
            call(libc::SYS_kill, [arguments.owner as usize, libc::SIGKILL as usize, 0, 0, 0]);
            return 0;
        }
        if late.is_some() && is_stopped(arguments.owner) {
            is_stop_due = true;
            SHARED.is_stop_due.store(true, SeqCst);
            call(libc::SYS_kill, [arguments.owner as usize, libc::SIGCONT as usize, 0, 0, 0]);
        } else if is_stop_due && deadline.is_none() {
            is_stop_due = false;
            call(libc::SYS_kill, [arguments.owner as usize, libc::SIGSTOP as usize, 0, 0, 0]);
            SHARED.is_stop_due.store(false, SeqCst);
        }
        if is_event_pending && is_stopped(arguments.owner) {
            allow_all(group);
        }
        let rest = match deadline {
            // As a rule the owner has read the event by the next check.
            _ if late.is_some() || is_stop_due || is_event_pending => Some(LOOK.as_nanos() as u64),
            Some(deadline) => Some(deadline - now),
            None => None,
        };
        let asked = if is_event_pending { -1 } else { group };
        match wait(arguments, asked, rest) {
            Wakeup::OwnerEnded => return 0,
            Wakeup::Group(new) => {
                call(libc::SYS_close, [group as usize, 0, 0, 0, 0]);
                (group, is_event_pending) = (new, false);
            }
            Wakeup::EventPending => is_event_pending = true,
            Wakeup::Other => is_event_pending = false,
        }
    }
}

enum Wakeup {
    /// The owner has ended, or executed another program.
    OwnerEnded,
    /// The new fanotify group, or -1.
    Group(c_int),
    /// The group has an event.
    EventPending,
    Other,
}

/// Waits at most `time` nanoseconds. ppoll(2) ignores a negative descriptor.
fn wait(arguments: &Arguments, group: c_int, time: Option<u64>) -> Wakeup {
    let on = |fd: c_int| libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
    let mut waited = [on(arguments.pidfd), on(arguments.channel), on(group)];
    let timeout = time.map(|time| libc::timespec {
        tv_sec: (time / 1_000_000_000) as i64,
        tv_nsec: (time % 1_000_000_000) as i64,
    });
    let at = timeout.as_ref().map_or(0, |timeout| ptr::from_ref(timeout) as usize);
    call(libc::SYS_ppoll, [waited.as_mut_ptr() as usize, waited.len(), at, 0, 8]);
    let [process, channel, group] = &waited;
    if channel.revents & libc::POLLIN != 0
        && let Some(group) = receive(arguments)
    {
        return Wakeup::Group(group);
    }
    if process.revents != 0 || channel.revents & libc::POLLHUP != 0 {
        return Wakeup::OwnerEnded;
    }
    if group.revents & libc::POLLIN != 0 { Wakeup::EventPending } else { Wakeup::Other }
}

/// Reads messages. The new fanotify group, or -1, if one of them says so.
fn receive(arguments: &Arguments) -> Option<c_int> {
    let (mut words, mut passed) = ([0u8; 64], Passed::of(-1));
    let mut text = libc::iovec { iov_base: words.as_mut_ptr().cast(), iov_len: words.len() };
    // SAFETY: all zero it is an empty message.
    let mut message: libc::msghdr = unsafe { mem::zeroed() };
    (message.msg_iov, message.msg_iovlen) = (&raw mut text, 1);
    (message.msg_control, message.msg_controllen) = ((&raw mut passed).cast(), size_of::<Passed>());
    let at = (&raw mut message) as usize;
    let count =
        call(libc::SYS_recvmsg, [arguments.channel as usize, at, libc::MSG_CMSG_CLOEXEC as usize, 0, 0]);
    let words = words.get(..usize::try_from(count).unwrap_or(0)).unwrap_or(&[]);
    // recvmsg(2) reads no further than a message with a descriptor.
    let is_passed = message.msg_controllen >= passed.header.cmsg_len && passed.descriptor >= 0;
    words.iter().rev().find_map(|&word| match word {
        SET_GROUP if is_passed => Some(passed.descriptor),
        CLEAR_GROUP => Some(-1),
        _ => None,
    })
}

/// Allows all pending calls, which the stopped owner cannot do.
fn allow_all(group: c_int) {
    let mut bytes = [0u64; 64];
    let (to, length) = (bytes.as_mut_ptr() as usize, size_of_val(&bytes));
    // The group is not blocking: EAGAIN ends it.
    while let Ok(count @ 1..) = usize::try_from(call(libc::SYS_read, [group as usize, to, length, 0, 0])) {
        for event in blocked::metadata(&bytes, count) {
            let response = libc::fanotify_response { fd: event.fd, response: libc::FAN_ALLOW };
            let answer = (&raw const response) as usize;
            call(libc::SYS_write, [group as usize, answer, size_of_val(&response), 0, 0]);
            call(libc::SYS_close, [event.fd as usize, 0, 0, 0, 0]);
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
    // The name has at most 15 bytes, so the state lies in the first 64.
    let mut text = [0u8; 64];
    let read = call(libc::SYS_read, [file, text.as_mut_ptr() as usize, text.len(), 0, 0]);
    call(libc::SYS_close, [file, 0, 0, 0, 0]);
    let read = text.get(..usize::try_from(read).unwrap_or(0)).unwrap_or(&[]);
    // The name may have a parenthesis in it; what follows has none.
    let Some(end) = read.iter().rposition(|&byte| byte == b')') else { return false };
    read.get(end + 2) == Some(&b'T')
}

#[cfg(test)]
pub(crate) mod tests {
    use std::panic::catch_unwind;
    use std::process::{Child, Command, exit};

    use nix::sys::signal::{self, Signal};
    use nix::sys::wait::{WaitStatus, waitpid};
    use nix::unistd::{ForkResult, Pid, fork, getpid};

    use super::*;
    use crate::process::stop::{self, Filters, Stopped};
    use crate::refusal::Error;

    const LIMIT: Duration = Duration::from_millis(10);
    /// No test waits longer for anything.
    const DEADLINE: Duration = Duration::from_secs(30);

    /// This process is stopped only while no other test begins holds all the time, or is disturbed by it.
    static TURN: Mutex<()> = Mutex::new(());

    pub(crate) fn turn() -> MutexGuard<'static, ()> {
        TURN.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    fn sleeper() -> Child {
        // It ends when it is killed: the verdict does not depend on how long it is.
        Command::new("sleep").arg("1000000").spawn().unwrap()
    }

    fn end(mut target: Child) {
        target.kill().unwrap();
        target.wait().unwrap();
    }

    fn hold(target: &Child) -> Stopped {
        let start = Instant::now();
        loop {
            match Stopped::stop(target.id() as i32, LIMIT, Filters::Suspended) {
                Ok(stopped) => return stopped,
                // The machine is busy: its thread did not get a CPU within the limit.
                Err(Error::StopTimeout { .. } | Error::StopTooLong { .. }) if start.elapsed() < DEADLINE => {}
                Err(error) => panic!("{error}"),
            }
        }
    }

    /// Sends SIGCONT to process 2 once it is stopped and process 1 has no tracer. Fails after 30 s.
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
        let _turn = turn();
        let target = sleeper();
        let own = std::process::id().to_string();
        let stopped = hold(&target);
        let mut helper = Command::new("sh");
        helper.args(["-c", LET_GO_ON, "sh", &target.id().to_string(), &own]);
        let mut helper = helper.spawn().unwrap();
        signal::kill(getpid(), Signal::SIGSTOP).unwrap();
        // The signal is pending when the call returns, but another thread may be the first to take it.
        while stopped.elapsed() < LIMIT {
            std::thread::yield_now();
        }
        assert!(matches!(stopped.in_time(), Err(Error::StopTooLong { .. })));
        drop(stopped);
        assert!(helper.wait().unwrap().success(), "it was not woken, or not stopped again");
        // The next hold works as before.
        drop(hold(&target));
        end(target);
    }

    /// Reads from the descriptor `argument` until the end, in a child that its parent waits for in clone(2).
    extern "C" fn read_to_end(argument: *mut c_void) -> c_int {
        let mut byte = 0u8;
        while call(libc::SYS_read, [argument as usize, (&raw mut byte) as usize, 1, 0, 0]) > 0 {}
        0
    }

    /// Closes the pipe that process 1 waits for once process 2 is stopped, and then waits for what [`LET_GO_ON`] does.
    const LET_STOP: &str = r#"
        until grep -q '^State:.T' /proc/$2/status; do sleep 0.01; done
        exec >&-"#;

    #[test]
    fn a_thread_that_stops_late_goes_on_though_this_process_is_stopped() {
        let _turn = turn();
        let (reads, writes) = nix::unistd::pipe2(nix::fcntl::OFlag::O_CLOEXEC).unwrap();
        let mut stack = vec![0u8; STACK_BYTES];
        // SAFETY: the child makes system calls alone.
        let target = match unsafe { fork() }.unwrap() {
            ForkResult::Parent { child } => child,
            ForkResult::Child => {
                drop(writes);
                let _ = prctl::set_pdeathsig(Signal::SIGKILL);
                let flags = libc::CLONE_VM | libc::CLONE_VFORK;
                // SAFETY: the stack lives as long as this process, which waits until the clone has ended.
                unsafe {
                    let top = stack.as_mut_ptr_range().end.cast();
                    libc::clone(read_to_end, top, flags, reads.as_raw_fd() as *mut c_void);
                }
                loop {
                    nix::unistd::pause();
                }
            }
        };
        let start = Instant::now();
        // It waits where only its death ends it.
        while !matches!(
            Stopped::stop(target.as_raw(), LIMIT, Filters::Suspended),
            Err(Error::StopTimeout { state: 'D', .. })
        ) {
            assert!(start.elapsed() < DEADLINE);
        }
        assert!(stop::awaits_threads());
        let mut helper = Command::new("sh");
        let own = std::process::id().to_string();
        helper
            .args(["-c", &(LET_STOP.to_owned() + LET_GO_ON), "sh", &target.to_string(), &own])
            .stdout(writes);
        let mut running = helper.spawn().unwrap();
        // It has a copy of the pipe's end.
        drop(helper);
        signal::kill(getpid(), Signal::SIGSTOP).unwrap();
        while stop::awaits_threads() {
            stop::let_go_late();
            std::thread::sleep(LOOK);
        }
        assert!(running.wait().unwrap().success(), "it was not woken, or not stopped again");
        signal::kill(target, Signal::SIGKILL).unwrap();
        waitpid(target, None).unwrap();
    }

    #[test]
    fn who_hangs_while_it_holds_is_killed() {
        let _turn = turn();
        let target = sleeper();
        // SAFETY: the child uses this crate's calls and libc's memory, whose locks fork(2) keeps sound.
        match unsafe { fork() }.unwrap() {
            ForkResult::Child => {
                // Unwound, it would end as a test that passes.
                let Ok(_stopped) = catch_unwind(|| hold(&target)) else { exit(1) };
                loop {
                    std::thread::park();
                }
            }
            ForkResult::Parent { child } => {
                let ended = waitpid(child, None).unwrap();
                assert_eq!(ended, WaitStatus::Signaled(child, Signal::SIGKILL, false));
            }
        }
        // The target has no tracer any more, and takes a signal.
        assert!(signal::kill(Pid::from_raw(target.id() as i32), Signal::SIGTERM).is_ok());
        let mut target = target;
        assert!(!target.wait().unwrap().success());
    }

    #[test]
    fn short_holds_of_many_threads_are_nobodys_concern() {
        let _turn = turn();
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| (0..1_000).for_each(|_| drop(Hold::begin(Duration::from_secs(60)))));
            }
        });
        assert!(SHARED.deadlines.iter().all(|slot| slot.load(SeqCst) == 0 || slot.load(SeqCst) > now()));
    }
}
