//! Holds every thread of a process stopped, and lets all of them go on when dropped.
//!
//! Threads are seized and interrupted until a pass over `/proc/PID/task` finds only known ones. Nothing is ever left
//! behind in the target: the kernel itself detaches all threads if this process dies.
//!
//! Signals are never kept: one whose delivery is reported before our own stop is delivered at once, and the thread
//! then stops before the first instruction of its handler. So each keeps its place, its siginfo and its effect on an
//! interrupted system call. Those that arrive later wait in the kernel's queue. A stopped process (SIGSTOP) is held
//! in that state, and is in it again when it is let go.
//!
//! A call that a thread is stopped in begins again when it goes on, also where the kernel would let it fail ([`restart`]).
//!
//! System call filters (seccomp) are suspended meanwhile, so that threads can be made to call the kernel; that needs CAP_SYS_ADMIN.
//! Without it a process can still be stopped to put its text back ([`Filters::MayStay`]): then no thread that has a filter
//! is made to call.
//!
//! Not done: stopping longer than whoever asks allows, at most [`limits::STOP_MAX`]. A thread that does not stop in time (in vfork, or in an
//! uninterruptible sleep) makes the whole stop fail, and the process goes on untouched. That thread cannot be let go while
//! it runs: the next stop by this thread takes it over, or [`let_go_late`] lets it go.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::io;
use std::mem;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::libc;
use nix::sys::ptrace;
use nix::unistd::{Pid, gettid};

use crate::limits;
use crate::process::blocked;
use crate::process::isa::native::registers::Registers;
use crate::process::isa::native::restart;
use crate::process::sys::{self, Event, Urgent};
use crate::process::watchdog::Hold;
use crate::refusal::Error;

/// How long a thread is polled without sleeping: most stop, and most system calls end, within microseconds.
const SPIN: Duration = Duration::from_micros(50);
const POLL: Duration = Duration::from_micros(20);

/// Past that, it is polled after each such part of the time that it was waited for: it waits for a CPU, and this thread,
/// which comes before all others ([`Urgent`]), must not be what keeps it from one.
const PATIENCE: u32 = 16;

/// How often a thread is seized that is refused for no reason that can be seen, and how long after one another; 45 ms in all.
/// Somebody else may just have let it go, or be about to show as its tracer.
const SEIZE_TRIES: u32 = 45;
const SEIZE_PAUSE: Duration = Duration::from_millis(1);

/// How often and how long a process was held.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Stops {
    pub count: u32,
    pub longest: Duration,
    pub sum: Duration,
}

impl Stops {
    /// Begins a part that is told apart; what [`Stops::end_part`] is to be given. (The longest of a part cannot be told
    /// from the longest of all.)
    pub(crate) fn begin_part(&mut self) -> Stops {
        mem::take(self)
    }

    /// Those of the part alone; they count here too.
    pub(crate) fn end_part(&mut self, before: Stops) -> Stops {
        let part = mem::replace(self, before);
        self.add(part);
        part
    }

    pub(crate) fn add(&mut self, other: Stops) {
        self.count += other.count;
        self.longest = self.longest.max(other.longest);
        self.sum += other.sum;
    }

    pub(crate) fn note(&mut self, took: Duration) {
        self.count += 1;
        self.longest = self.longest.max(took);
        self.sum += took;
    }
}

/// What is done where a process has a system call filter that this one may not suspend.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Filters {
    /// It is not stopped.
    Suspended,
    /// It is stopped all the same; no thread that has a filter makes remote calls.
    MayStay,
}

/// How long another tracer is waited for.
const TURN_MAX: Duration = Duration::from_millis(100);
/// How often a process is stopped again whose threads had no CPU in the time of a stop.
const STARVED_TRIES: u32 = 2;

/// A process all of whose threads are in a ptrace stop.
#[derive(Debug)]
pub(crate) struct Stopped {
    pid: i32,
    threads: BTreeSet<i32>,
    /// Seen to have ended; they stay listed while their process has not been reaped.
    ended: BTreeSet<i32>,
    since: Instant,
    /// For how long it may be stopped.
    limit: Duration,
    /// Its only thread runs its loader: it may take its time.
    is_launched: bool,
    /// This process has started it, and has to wait(2) for its end.
    is_child: bool,
    filters: Filters,
    has_seccomp: bool,
    /// Its filters are suspended while it is stopped, if it has any.
    is_suspended: bool,
    /// On a busy machine others would else run while all its threads wait.
    _urgent: Option<Urgent>,
    /// From the first seized thread on. It lets a process that runs go on in time also where this process is stopped meanwhile.
    hold: Option<Hold>,
}

impl Stopped {
    /// Stops process `pid`; gives up where that takes longer than `limit`.
    pub(crate) fn stop(pid: i32, limit: Duration, filters: Filters) -> Result<Stopped, Error> {
        let mut stopped = Stopped::new(pid, BTreeSet::new(), limit, filters, false);
        stopped.check_pending()?;
        // A thread that ended during a pass may have started another that was not listed yet.
        while stopped.stop_unknown()? {
            if stopped.elapsed() > stopped.limit {
                return Err(stopped.too_slow(pid));
            }
        }
        if stopped.threads.is_empty() { Err(Error::TargetGone { pid }) } else { Ok(stopped) }
    }

    /// Stops thread `tid` of process `pid`, and no other.
    pub(crate) fn stop_thread(pid: i32, tid: i32, limit: Duration) -> Result<Stopped, Error> {
        let mut stopped = Stopped::new(pid, BTreeSet::new(), limit, Filters::Suspended, false);
        stopped.check_pending()?;
        stopped.seize(tid)?;
        if stopped.threads.contains(&tid) {
            stopped.settle(tid)?;
        }
        if stopped.threads.is_empty() { Err(Error::TargetGone { pid }) } else { Ok(stopped) }
    }

    /// As [`Stopped::stop`] where another weir may be holding the process, or a thread of it: it does so for a moment, which is waited for. A debugger keeps
    /// it, and is not waited for long: each try stops the threads that it has not. It is tried again too where a thread did not stop because it
    /// had no CPU, if stops are not limited more than usual.
    pub(crate) fn stop_in_turn(pid: i32, limit: Duration, filters: Filters) -> Result<Stopped, Error> {
        let start = Instant::now();
        // Of two that each hold some of the threads, one is to come back sooner.
        let turn = Duration::from_micros(300 + u64::from(std::process::id() % 8) * 100);
        let mut tries_left = if limit < limits::STOP_MAX { 0 } else { STARVED_TRIES };
        loop {
            match Stopped::stop(pid, limit, filters) {
                Err(Error::AlreadyTraced { .. }) if start.elapsed() < limit.min(TURN_MAX) => {
                    std::thread::sleep(turn)
                }
                // Or this thread had none: those that it has stopped are in state t.
                Err(Error::StopTimeout { state: 'R' | 't', .. }) if tries_left > 0 => {
                    tries_left -= 1;
                    std::thread::sleep(turn);
                }
                stopped => return stopped,
            }
        }
    }

    /// Takes over a process that has not begun to run, and whose only thread is already seized and in a ptrace stop. `hold`: none for a
    /// process that this one has started.
    pub(crate) fn adopt(pid: i32, hold: Option<Hold>) -> Stopped {
        let threads = BTreeSet::from([pid]);
        let mut stopped = Stopped::new(pid, threads, limits::STOP_MAX, Filters::Suspended, true);
        stopped.hold = hold;
        stopped
    }

    /// Its only thread waits for this process: it may be held for longer.
    pub(crate) fn be_patient(&mut self) {
        self.limit = limits::CHILD_HOLD_MAX;
        self.hold = Some(Hold::begin_patient(self.limit));
    }

    fn new(
        pid: i32,
        threads: BTreeSet<i32>,
        limit: Duration,
        filters: Filters,
        is_launched: bool,
    ) -> Stopped {
        let has_seccomp = !is_launched && sys::has_seccomp(sys::living_thread(pid));
        let (ended, since) = (BTreeSet::new(), Instant::now());
        let _urgent = (!is_launched).then(Urgent::begin);
        let is_suspended = has_seccomp;
        Stopped {
            pid,
            threads,
            ended,
            since,
            limit,
            is_launched,
            is_child: sys::is_own_child(pid),
            filters,
            has_seccomp,
            is_suspended,
            _urgent,
            hold: None,
        }
    }

    pub(crate) fn pid(&self) -> i32 {
        self.pid
    }

    pub(crate) fn threads(&self) -> impl Iterator<Item = i32> + '_ {
        self.threads.iter().copied()
    }

    /// Whether thread `tid` may be made to call the kernel: no filter of its own can kill it for that. (A launched
    /// command has at most the filter that weir has.)
    pub(crate) fn may_call(&self, tid: i32) -> bool {
        self.is_suspended || self.is_launched || !sys::has_seccomp(tid)
    }

    /// For how long it may be stopped.
    pub(crate) fn limit(&self) -> Duration {
        self.limit
    }

    /// How long it has been stopped (or being stopped).
    pub(crate) fn elapsed(&self) -> Duration {
        self.since.elapsed()
    }

    /// Refuses what would hold it for longer than it may be. A launched command has not begun to run yet: it may wait.
    pub(crate) fn in_time(&self) -> Result<(), Error> {
        let (pid, took, limit) = (self.pid, self.elapsed(), self.limit);
        if took > limit && !self.is_launched { Err(Error::StopTooLong { pid, took, limit }) } else { Ok(()) }
    }

    pub(crate) fn registers(&self, tid: i32) -> Result<Registers, Error> {
        ptrace::getregs(Pid::from_raw(tid))
            .map(Registers::from)
            .map_err(|errno| self.failed("PTRACE_GETREGS", errno))
    }

    pub(crate) fn set_registers(&self, tid: i32, registers: Registers) -> Result<(), Error> {
        ptrace::setregs(Pid::from_raw(tid), registers.into())
            .map_err(|errno| self.failed("PTRACE_SETREGS", errno))
    }

    /// Runs thread `tid` to its next system call entry or exit. Signals that come first are delivered.
    pub(crate) fn run_to_syscall(&mut self, tid: i32) -> Result<(), Error> {
        self.run_to(tid, libc::PTRACE_SYSCALL, |event| event == Event::Syscall)
    }

    /// Lets thread `tid`, which is at the exit of a system call, come to the kernel's signal handling, where the
    /// kernel looks at its registers once more before it goes on: whether a call was interrupted, and is to be
    /// started again. It executes nothing on the way.
    pub(crate) fn run_to_interrupt(&mut self, tid: i32) -> Result<(), Error> {
        ptrace::interrupt(Pid::from_raw(tid)).map_err(|errno| self.failed("PTRACE_INTERRUPT", errno))?;
        self.run_to(tid, libc::PTRACE_CONT, |event| matches!(event, Event::Interrupted | Event::GroupStop))
    }

    /// Lets these threads run for a while and stops them again; the others wait. One whose process was stopped by a
    /// signal stays where it is. Whether any ran.
    pub(crate) fn let_run(&mut self, tids: &[i32], time: Duration) -> Result<bool, Error> {
        let is_free = |tid: &&i32| {
            let stopped_by = ptrace::getsiginfo(Pid::from_raw(**tid)).map(|info| info.si_signo);
            stopped_by.is_ok_and(|signal| signal == libc::SIGTRAP)
        };
        let free: Vec<i32> = tids.iter().filter(is_free).copied().collect();
        for &tid in &free {
            // Fails only for one that has been killed, which the wait reports.
            let _ = sys::go_on(libc::PTRACE_CONT, tid, 0);
        }
        std::thread::sleep(time);
        for &tid in &free {
            let _ = ptrace::interrupt(Pid::from_raw(tid));
        }
        for &tid in &free {
            self.settle(tid)?;
        }
        while self.stop_unknown()? {}
        if self.threads.is_empty() { Err(Error::TargetGone { pid: self.pid }) } else { Ok(!free.is_empty()) }
    }

    /// Lets every thread go on; for how long they were held.
    pub(crate) fn resume(self) -> Duration {
        let since = self.since;
        drop(self);
        since.elapsed()
    }

    fn run_to(
        &mut self,
        tid: i32,
        request: libc::c_uint,
        is_wanted: impl Fn(Event) -> bool,
    ) -> Result<(), Error> {
        let mut signal = 0;
        loop {
            sys::go_on(request, tid, signal).map_err(|source| self.call_failed("ptrace", source))?;
            match self.wait(tid)? {
                event if is_wanted(event) => return Ok(()),
                Event::Ended => {
                    self.threads.remove(&tid);
                    return Err(Error::TargetGone { pid: self.pid });
                }
                Event::Signal(number) => signal = number,
                Event::Syscall | Event::Interrupted | Event::GroupStop | Event::Other => signal = 0,
            }
        }
    }

    /// Stops the threads that are listed and not known yet; whether there were any. All are interrupted before the
    /// first is waited for: where many want to run, each comes to its stop only when it is scheduled.
    fn stop_unknown(&mut self) -> Result<bool, Error> {
        // Threads that are all stopped start no others; to list 2,000 takes 2 ms.
        if !self.threads.is_empty() && self.count() == Some(self.threads.len()) {
            return Ok(false);
        }
        let listed = sys::threads(self.pid).map_err(|_| Error::TargetGone { pid: self.pid })?;
        let unknown: Vec<i32> = listed
            .into_iter()
            .filter(|tid| !self.threads.contains(tid) && !self.ended.contains(tid))
            .collect();
        for &tid in &unknown {
            self.seize(tid)?;
        }
        for &tid in &unknown {
            if self.threads.contains(&tid) {
                self.settle(tid)?;
            }
        }
        Ok(!unknown.is_empty())
    }

    /// How many threads the process has, with those that have ended and not been reaped.
    fn count(&self) -> Option<usize> {
        sys::status_number(sys::living_thread(self.pid), "Threads").map(|count| count as usize)
    }

    /// Seizes thread `tid` and asks it to stop.
    fn seize(&mut self, tid: i32) -> Result<(), Error> {
        let mut tries = 1;
        loop {
            // Before the first thread is seized, another tracer may have the process.
            let first = self.hold.is_none().then(|| Hold::begin(self.limit));
            let refused = match self.try_seize(tid) {
                Ok(()) => {
                    self.begin_hold(first);
                    self.threads.insert(tid);
                    // Fails only for one that has ended, which the wait reports.
                    let _ = ptrace::interrupt(Pid::from_raw(tid));
                    return Ok(());
                }
                Err(Errno::ESRCH) => {
                    self.ended.insert(tid);
                    return Ok(());
                }
                Err(errno) => self.explain_seize(tid, errno),
            };
            let is_unexplained = matches!(refused, Err(Error::Permission { .. } | Error::Seccomp { .. }));
            if !is_unexplained || tries == SEIZE_TRIES || self.elapsed() > self.limit {
                return refused;
            }
            tries += 1;
            std::thread::sleep(SEIZE_PAUSE);
        }
    }

    fn begin_hold(&mut self, hold: Option<Hold>) {
        if hold.is_some() {
            (self.since, self.hold) = (Instant::now(), hold);
        }
    }

    fn try_seize(&mut self, tid: i32) -> Result<(), Errno> {
        let plainly = || ptrace::seize(Pid::from_raw(tid), ptrace::Options::PTRACE_O_TRACESYSGOOD);
        if !self.has_seccomp {
            return plainly();
        }
        // Else a remote call that the filter does not know could kill the target.
        let seized = sys::seize_with_seccomp_suspended(tid)
            .map_err(|error| Errno::from_raw(error.raw_os_error().unwrap_or(libc::EPERM)));
        if seized == Err(Errno::EPERM) && self.filters == Filters::MayStay {
            plainly()?;
            self.is_suspended = false;
            return Ok(());
        }
        seized
    }

    /// Waits until interrupted thread `tid` has stopped, or ended.
    fn settle(&mut self, tid: i32) -> Result<(), Error> {
        loop {
            let signal = match self.wait(tid)? {
                Event::Interrupted => {
                    hide_interrupt(tid, self.has_seccomp);
                    return Ok(());
                }
                Event::GroupStop => return Ok(()),
                Event::Ended => break,
                Event::Signal(signal) => {
                    // One that is ignored is reported too, and would have interrupted nothing.
                    hide_interrupt(tid, self.has_seccomp);
                    signal
                }
                Event::Syscall | Event::Other => 0,
            };
            if sys::go_on(libc::PTRACE_CONT, tid, signal).is_err() {
                break;
            }
            // Any stop takes back an interrupt that came before it.
            let _ = ptrace::interrupt(Pid::from_raw(tid));
        }
        self.threads.remove(&tid);
        self.ended.insert(tid);
        Ok(())
    }

    /// What seized thread `tid` reports next. A main thread that was killed is not reported while this process has
    /// not taken the reports of its other threads, so nothing but a launched command is waited for blindly.
    fn wait(&self, tid: i32) -> Result<Event, Error> {
        let start = Instant::now();
        loop {
            // A launched command is followed from call to call: to sleep and be woken each time takes longer than most calls.
            let sleeps = self.is_launched && start.elapsed() >= SPIN;
            if let Some(event) = sys::wait(tid, sleeps, self.is_child && tid == self.pid)
                .map_err(|source| self.call_failed("waitpid", source))?
            {
                return Ok(event);
            }
            if start.elapsed() < SPIN {
                std::thread::yield_now();
                continue;
            }
            if self.is_dead(tid) {
                // It may have died after it was waited for; then its report is there now, and must be taken.
                let _ = sys::wait(tid, false, self.is_child && tid == self.pid);
                return Ok(Event::Ended);
            }
            self.check_pending()?;
            if self.elapsed() > self.limit && !self.is_launched {
                // This thread may have had no CPU since it asked.
                return match sys::wait(tid, self.is_launched, self.is_child && tid == self.pid) {
                    Ok(Some(event)) => Ok(event),
                    _ => Err(self.too_slow(tid)),
                };
            }
            std::thread::sleep(POLL.max(start.elapsed() / PATIENCE));
        }
    }

    /// Refuses a process that does not stop before this thread answers a permission event.
    fn check_pending(&self) -> Result<(), Error> {
        let pid = self.pid;
        match () {
            () if self.is_launched => Ok(()),
            // It is about to be another program.
            () if blocked::is_blocked(pid) => Err(Error::Replaced { pid }),
            () if blocked::is_child_blocked(pid) => Err(Error::ChildPending { pid }),
            () => Ok(()),
        }
    }

    fn is_dead(&self, tid: i32) -> bool {
        match sys::stat(&format!("/proc/{}/task/{tid}/stat", self.pid)) {
            Ok((state, _)) => matches!(state, 'Z' | 'X'),
            Err(_) => true,
        }
    }

    fn explain_seize(&mut self, tid: i32, errno: Errno) -> Result<(), Error> {
        let pid = self.pid;
        // A main thread that has ended while others go on, or a thread on its way out.
        if self.is_dead(tid) {
            self.ended.insert(tid);
            return Ok(());
        }
        // An earlier stop gave up on it; it could not be let go while it ran.
        if LATE.with_borrow(|late| late.threads.contains(&tid)) && tracer_of(tid) == Some(gettid().as_raw()) {
            if self.hold.is_none() {
                self.begin_hold(Some(Hold::begin(self.limit)));
            }
            take_over(tid);
            self.threads.insert(tid);
            let _ = ptrace::interrupt(Pid::from_raw(tid));
            return Ok(());
        }
        if let Some(tracer) = tracer_of(tid).filter(|&tracer| tracer != gettid().as_raw()) {
            return Err(Error::AlreadyTraced { pid, tracer });
        }
        Err(match self.has_seccomp {
            true => Error::Seccomp { pid, source: errno.into() },
            false => Error::permission(pid, errno.into()),
        })
    }

    fn too_slow(&self, tid: i32) -> Error {
        let state = sys::stat(&format!("/proc/{}/task/{tid}/stat", self.pid)).map_or('?', |(state, _)| state);
        Error::StopTimeout { pid: self.pid, tid, state, limit: self.limit }
    }

    fn call_failed(&self, call: &str, source: io::Error) -> Error {
        self.failed(call, source.raw_os_error().map_or(Errno::UnknownErrno, Errno::from_raw))
    }

    fn failed(&self, call: &str, errno: Errno) -> Error {
        if errno == Errno::ESRCH {
            Error::TargetGone { pid: self.pid }
        } else {
            Error::system(format!("{call} on process {}", self.pid), io::Error::from(errno))
        }
    }
}

/// Who traces thread `tid`. While it is being attached to, the kernel names its parent for a moment, which may be this thread.
fn tracer_of(tid: i32) -> Option<i32> {
    let tracer = || sys::status_number(tid, "TracerPid").filter(|&tracer| tracer != 0);
    tracer().filter(|&first| sys::status_number(tid, "PPid") != Some(first) || tracer() == Some(first))
}

impl Drop for Stopped {
    fn drop(&mut self) {
        let mut left: Vec<i32> =
            self.threads().filter(|&tid| sys::go_on(libc::PTRACE_DETACH, tid, 0).is_err()).collect();
        // Those have been killed, and hold back the end of their process until their reports are taken; or were
        // seized and did not stop in time: if they still do not, they go on when this process ends.
        let deadline = Instant::now() + limits::LET_GO_MAX;
        while !left.is_empty() && self.check_pending().is_ok() && Instant::now() < deadline {
            left.retain(|&tid| !let_go(tid));
            std::thread::sleep(POLL);
        }
        LATE.with_borrow_mut(|late| late.add(left, self.hold.take()));
    }
}

/// Threads that a thread traces, and that had not stopped when they were to be let go: they will, some time, and then stand still.
#[derive(Default)]
struct Late {
    threads: BTreeSet<i32>,
    /// While there are any. It gives this process the time to look at them where it is stopped itself.
    hold: Option<Hold>,
}

thread_local! {
    static LATE: RefCell<Late> = const { RefCell::new(Late { threads: BTreeSet::new(), hold: None }) };
}

impl Late {
    /// `hold`: what they were held by, if anything.
    fn add(&mut self, threads: impl IntoIterator<Item = i32>, hold: Option<Hold>) {
        self.threads.extend(threads);
        if !self.threads.is_empty() {
            let hold = self.hold.take().or(hold).unwrap_or_else(|| Hold::begin_patient(limits::STOP_MAX));
            hold.postpone(limits::STOP_MAX);
            self.hold = Some(hold);
        }
    }

    /// Keeps those that `is_late` says to; they are looked at again before the hold's new deadline.
    fn retain(&mut self, is_late: impl FnMut(&i32) -> bool) {
        self.threads.retain(is_late);
        match &self.hold {
            Some(hold) if !self.threads.is_empty() => hold.postpone(limits::STOP_MAX),
            _ => self.hold = None,
        }
    }
}

/// Lets the threads go that did not stop in time before and have now. To be called now and then, by the thread that
/// stopped them: else each stands still from its stop on, until the next stop or the end of this process.
pub fn let_go_late() {
    LATE.with_borrow_mut(|late| late.retain(|&tid| !let_go(tid)));
}

/// True if this thread has seized and interrupted thread `tid`, and has given up on it. From now on the caller is responsible for it.
pub(crate) fn take_over(tid: i32) -> bool {
    LATE.with_borrow_mut(|late| {
        let is_late = late.threads.contains(&tid);
        late.retain(|&other| other != tid);
        is_late
    })
}

/// Lets seized thread `tid` go, now if it has stopped, else when it does ([`let_go_late`]).
pub(crate) fn let_go_soon(tid: i32) {
    if sys::go_on(libc::PTRACE_DETACH, tid, 0).is_err() {
        // Fails only for one that has ended.
        let _ = ptrace::interrupt(Pid::from_raw(tid));
        LATE.with_borrow_mut(|late| late.add([tid], None));
        let_go_late();
    }
}

/// Whether a thread that this thread stopped too late may be standing still: it goes on by [`crate::Attachment::sweep`].
pub fn awaits_threads() -> bool {
    LATE.with_borrow(|late| !late.threads.is_empty())
}

/// Lets a system call that thread `tid` was interrupted in begin again, where it would fail ([`restart`]). As soon as it has stopped: if
/// this process dies after that, the thread goes on as it is.
fn hide_interrupt(tid: i32, is_filtered: bool) {
    let thread = Pid::from_raw(tid);
    // Either fails only for one that has been killed, which is seen when it is waited for.
    if let Ok(registers) = ptrace::getregs(thread)
        && let Some(hidden) = restart::hidden(tid, &registers, is_filtered)
    {
        let _ = ptrace::setregs(thread, hidden);
    }
}

/// True if thread `tid`, which was not stopped, has now been let go or has ended.
fn let_go(tid: i32) -> bool {
    match sys::wait(tid, false, sys::is_own_child(tid)) {
        Ok(None) => false,
        Ok(Some(Event::Ended)) | Err(_) => true,
        Ok(Some(event)) => {
            hide_interrupt(tid, sys::has_seccomp(tid));
            let signal = if let Event::Signal(signal) = event { signal } else { 0 };
            sys::go_on(libc::PTRACE_DETACH, tid, signal).is_ok()
        }
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
    use std::thread;

    use super::*;
    use crate::process::watchdog::tests::turn;

    /// A tracer that is seen by its refusal alone, since it has gone when it is asked about, is waited for.
    #[test]
    fn of_two_that_stop_a_process_at_once_each_has_it_or_knows_who_has() {
        let _turn = turn();
        const REFUSED: usize = 10_000;
        // It ends when it is killed: the verdict does not depend on how long it is.
        let mut child = Command::new("sleep").arg("1000000").spawn().unwrap();
        let (pid, refused, start) = (child.id() as i32, AtomicUsize::new(0), Instant::now());
        // Where other programs have the CPUs these two seldom meet.
        let goes_on = || match refused.load(Relaxed) {
            0 => start.elapsed() < Duration::from_secs(120),
            refused => refused < REFUSED && start.elapsed() < Duration::from_secs(5),
        };
        let stop_often = || {
            let mut held = 0;
            while goes_on() {
                match Stopped::stop(pid, limits::STOP_MAX, Filters::Suspended) {
                    Ok(stopped) => {
                        held += 1;
                        drop(stopped);
                    }
                    Err(Error::AlreadyTraced { .. }) => _ = refused.fetch_add(1, Relaxed),
                    Err(other) => panic!("it was refused {} times, and then: {other}", refused.load(Relaxed)),
                }
            }
            held
        };
        let (one, other) = thread::scope(|scope| {
            let rival = scope.spawn(stop_often);
            (stop_often(), rival.join())
        });
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(one > 0 && other.unwrap() > 0 && refused.into_inner() > 0);
    }

    #[test]
    fn the_longest_stop_of_a_part_is_one_of_the_part() {
        let ms = Duration::from_millis;
        let mut stops = Stops::default();
        stops.note(ms(200));
        let before = stops.begin_part();
        stops.note(ms(2));
        stops.note(ms(3));
        assert_eq!(stops.end_part(before), Stops { count: 2, longest: ms(3), sum: ms(5) });
        assert_eq!(stops, Stops { count: 3, longest: ms(200), sum: ms(205) });
    }
}
