//! Holds every thread of a process stopped, and lets all of them go on when dropped.
//!
//! Threads are seized and interrupted until a pass over `/proc/PID/task` finds no new one. Nothing is ever left
//! behind in the target: the kernel itself detaches all threads if this process dies. Signals that arrive while a
//! thread is being stopped are kept and delivered when it is let go.
//!
//! Not done: stopping longer than [`limits::STOP_MAX`]. A thread that does not stop in time (in vfork, or in an
//! uninterruptible sleep) makes the whole stop fail, and the process goes on untouched.

use std::collections::BTreeMap;
use std::io;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::libc::{self, user_regs_struct};
use nix::sys::ptrace;
use nix::sys::signal::Signal;
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;

use crate::limits;
use crate::refusal::Error;
use crate::sys;

/// A process all of whose threads are in a ptrace stop.
#[derive(Debug)]
pub(crate) struct Stopped {
    pid: i32,
    /// Signals to deliver when a thread is let go, by thread.
    threads: BTreeMap<i32, Vec<Signal>>,
    since: Instant,
    /// Its filters are suspended while it is stopped.
    has_seccomp: bool,
}

impl Stopped {
    /// Stops process `pid`.
    pub(crate) fn stop(pid: i32) -> Result<Stopped, Error> {
        let mut stopped = Stopped {
            pid,
            threads: BTreeMap::new(),
            since: Instant::now(),
            has_seccomp: sys::has_seccomp(pid),
        };
        loop {
            let mut found_new = false;
            for tid in sys::threads(pid).map_err(|_| Error::TargetGone { pid })? {
                if !stopped.threads.contains_key(&tid) && stopped.stop_thread(tid)? {
                    found_new = true;
                }
            }
            if !found_new {
                break;
            }
        }
        if stopped.threads.is_empty() { Err(Error::TargetGone { pid }) } else { Ok(stopped) }
    }

    /// Takes over a process whose only thread is already seized and in a ptrace stop.
    pub(crate) fn adopt(pid: i32) -> Stopped {
        Stopped {
            pid,
            threads: BTreeMap::from([(pid, Vec::new())]),
            since: Instant::now(),
            has_seccomp: false,
        }
    }

    pub(crate) fn pid(&self) -> i32 {
        self.pid
    }

    pub(crate) fn threads(&self) -> impl Iterator<Item = i32> + '_ {
        self.threads.keys().copied()
    }

    /// How long it has been stopped (or being stopped).
    pub(crate) fn elapsed(&self) -> Duration {
        self.since.elapsed()
    }

    pub(crate) fn registers(&self, tid: i32) -> Result<user_regs_struct, Error> {
        ptrace::getregs(Pid::from_raw(tid)).map_err(|errno| self.failed("PTRACE_GETREGS", errno))
    }

    pub(crate) fn set_registers(&self, tid: i32, registers: user_regs_struct) -> Result<(), Error> {
        ptrace::setregs(Pid::from_raw(tid), registers).map_err(|errno| self.failed("PTRACE_SETREGS", errno))
    }

    /// Runs thread `tid` to its next system call entry or exit. Signals that come first are kept for later.
    pub(crate) fn run_to_syscall(&mut self, tid: i32) -> Result<(), Error> {
        loop {
            ptrace::syscall(Pid::from_raw(tid), None)
                .map_err(|errno| self.failed("PTRACE_SYSCALL", errno))?;
            match wait(tid).map_err(|errno| self.failed("waitpid", errno))? {
                WaitStatus::PtraceSyscall(_) => return Ok(()),
                WaitStatus::Stopped(_, signal) => self.keep(tid, signal),
                WaitStatus::Exited(..) | WaitStatus::Signaled(..) => {
                    self.threads.remove(&tid);
                    return Err(Error::TargetGone { pid: self.pid });
                }
                _ => {}
            }
        }
    }

    /// Lets every thread go on.
    pub(crate) fn resume(self) {
        drop(self);
    }

    /// True if the thread is now held; false if it ended meanwhile.
    fn stop_thread(&mut self, tid: i32) -> Result<bool, Error> {
        let thread = Pid::from_raw(tid);
        let seized = match self.has_seccomp {
            false => ptrace::seize(thread, ptrace::Options::PTRACE_O_TRACESYSGOOD),
            // Else a remote call that the filter does not know could kill the target.
            true => sys::seize_with_seccomp_suspended(tid)
                .map_err(|error| Errno::from_raw(error.raw_os_error().unwrap_or(libc::EPERM))),
        };
        match seized {
            Ok(()) => {}
            Err(Errno::ESRCH) => return Ok(false),
            Err(errno) => return self.explain_seize(tid, errno),
        }
        if ptrace::interrupt(thread).is_err() {
            return Ok(false);
        }
        let mut signals = Vec::new();
        let deadline = self.since + limits::STOP_MAX;
        loop {
            match waitpid(thread, Some(WaitPidFlag::__WALL | WaitPidFlag::WNOHANG)) {
                Ok(WaitStatus::StillAlive) => {
                    if Instant::now() > deadline {
                        return Err(self.too_slow(tid));
                    }
                    std::thread::sleep(Duration::from_micros(20));
                }
                Ok(WaitStatus::PtraceEvent(..)) => break,
                // The stop may come as a signal's delivery first: keep the signal, and wait for our own stop.
                Ok(WaitStatus::Stopped(_, signal)) => {
                    signals.push(signal);
                    if ptrace::cont(thread, None).is_err() {
                        return Ok(false);
                    }
                }
                Ok(WaitStatus::Exited(..) | WaitStatus::Signaled(..)) | Err(_) => return Ok(false),
                Ok(_) => break,
            }
        }
        self.threads.insert(tid, signals);
        Ok(true)
    }

    fn explain_seize(&self, tid: i32, errno: Errno) -> Result<bool, Error> {
        let pid = self.pid;
        if let Ok(Some(tracer)) =
            sys::status_field(tid, "TracerPid").map(|field| field.and_then(|text| text.parse().ok()))
            && tracer != 0
        {
            return Err(Error::AlreadyTraced { pid, tracer });
        }
        match sys::stat(&format!("/proc/{pid}/task/{tid}/stat")) {
            // A leader that has ended while its threads go on, or a thread on its way out.
            Ok(('Z' | 'X', _)) | Err(_) => Ok(false),
            Ok(_) if self.has_seccomp => Err(Error::Seccomp { pid, source: errno.into() }),
            Ok(_) => Err(Error::Permission { pid, source: errno.into() }),
        }
    }

    fn too_slow(&mut self, tid: i32) -> Error {
        let state = sys::stat(&format!("/proc/{}/task/{tid}/stat", self.pid)).map_or('?', |(state, _)| state);
        // The thread is seized but runs: it is let go when it stops, or when this process ends.
        self.threads.insert(tid, Vec::new());
        Error::StopTimeout { pid: self.pid, tid, state, limit_ms: limits::STOP_MAX.as_millis() }
    }

    fn keep(&mut self, tid: i32, signal: Signal) {
        if let Some(signals) = self.threads.get_mut(&tid) {
            signals.push(signal);
        }
    }

    fn failed(&self, call: &str, errno: Errno) -> Error {
        if errno == Errno::ESRCH {
            Error::TargetGone { pid: self.pid }
        } else {
            Error::system(format!("{call} on process {}", self.pid), io::Error::from(errno))
        }
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        for (&tid, signals) in &self.threads {
            let thread = Pid::from_raw(tid);
            let mut signals = signals.iter();
            // Failing calls mean that the thread has ended; there is nobody left to let go.
            let detached = ptrace::detach(thread, signals.next().copied());
            if detached == Err(Errno::ESRCH)
                && sys::stat(&format!("/proc/{tid}/stat")).is_ok_and(|(state, _)| state != 'Z')
            {
                // Seized, but not stopped (see `too_slow`): wait for its stop in short steps, then let it go.
                let _ = waitpid(thread, Some(WaitPidFlag::__WALL | WaitPidFlag::WNOHANG));
                let _ = ptrace::detach(thread, None);
            }
            for &signal in signals {
                // SAFETY of order: these were already taken from the queue; resending keeps their number only.
                let _ = nix::sys::signal::kill(Pid::from_raw(self.pid), signal);
            }
        }
    }
}

fn wait(tid: i32) -> Result<WaitStatus, Errno> {
    loop {
        match waitpid(Pid::from_raw(tid), Some(WaitPidFlag::__WALL)) {
            Err(Errno::EINTR) => {}
            other => return other,
        }
    }
}
