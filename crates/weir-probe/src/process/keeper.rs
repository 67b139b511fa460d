//! keeper: a process that goes on where this one is killed.
//!
//! In: words that both share ([`Words`]), and what is to be done. Out: where this process ends without having dropped its [`Keeper`], or panics, the keeper
//! does it, and ends. It is a fork of this process as it was when the keeper was started; what has happened since, it learns from the words and from
//! segments.
//!
//! It is in a session of its own, waits through signals that end or stop this process from a terminal or a service manager, and has no descriptor of
//! this process but standard error: whoever waits for the other end of one is not kept waiting.
//!
//! Not covered: a SIGKILL to both (`kill -9 -1`, the end of a control group).

use std::fs::File;
use std::io;
use std::ops::Deref;
use std::os::fd::{AsFd as _, AsRawFd as _, FromRawFd as _, OwnedFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::NonNull;
use std::sync::atomic::AtomicU64;

use nix::libc::{self, c_int, c_uint};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{SigHandler, Signal, kill, signal};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::{Pid, setsid};

/// The name in `/proc/PID/comm`. It is not weir's, so that `killall -9 weir` does not end both.
const NAME: &std::ffi::CStr = c"ring-keeper";

/// Those that end or stop a process from outside.
const IGNORED: [Signal; 10] = [
    Signal::SIGHUP,
    Signal::SIGINT,
    Signal::SIGQUIT,
    Signal::SIGTERM,
    Signal::SIGTSTP,
    Signal::SIGTTOU,
    Signal::SIGPIPE,
    Signal::SIGALRM,
    Signal::SIGUSR1,
    Signal::SIGUSR2,
];

/// Words that this process shares with those that it forks, and with no other. At first 0.
#[derive(Debug)]
pub struct Words {
    first: NonNull<AtomicU64>,
    count: usize,
}

// SAFETY: the memory is mapped until this is dropped, and nothing but atomic words.
unsafe impl Send for Words {}
// SAFETY: as above.
unsafe impl Sync for Words {}

impl Words {
    /// # Errors
    /// Those of mmap(2).
    pub fn new(count: usize) -> io::Result<Words> {
        let bytes = (count * 8).max(1);
        let (protection, flags) =
            (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED | libc::MAP_ANONYMOUS);
        // SAFETY: new memory, which nothing else knows.
        let at = unsafe { libc::mmap(std::ptr::null_mut(), bytes, protection, flags, -1, 0) };
        match NonNull::new(at.cast()) {
            Some(first) if at != libc::MAP_FAILED => Ok(Words { first, count }),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

impl Deref for Words {
    type Target = [AtomicU64];

    fn deref(&self) -> &[AtomicU64] {
        // SAFETY: `count` words from `first` on are mapped, aligned to a page.
        unsafe { std::slice::from_raw_parts(self.first.as_ptr(), self.count) }
    }
}

impl Drop for Words {
    fn drop(&mut self) {
        // SAFETY: it was mapped with this length, and nothing borrows it any more.
        unsafe { libc::munmap(self.first.as_ptr().cast(), (self.count * 8).max(1)) };
    }
}

/// The process, which ends with this.
#[derive(Debug)]
pub struct Keeper {
    process: Pid,
}

impl Keeper {
    /// `work` is done, in the keeper, where this process is killed. It has this process's memory as it is now, with one thread: it takes no lock that
    /// another thread of this process may hold.
    ///
    /// # Errors
    /// Those of pidfd_open(2) and fork(2).
    pub fn start(work: impl FnOnce()) -> io::Result<Keeper> {
        // SAFETY: a call without pointers.
        let owner = unsafe { libc::syscall(libc::SYS_pidfd_open, libc::getpid(), 0) };
        if owner < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: a descriptor that was just opened.
        let owner = unsafe { OwnedFd::from_raw_fd(owner as c_int) };
        // SAFETY: the child runs `work`, which is said above to be fit for that, and ends without unwinding into this process's frames.
        match unsafe { libc::fork() } {
            -1 => Err(io::Error::last_os_error()),
            0 => {
                let done = catch_unwind(AssertUnwindSafe(|| {
                    settle(&owner);
                    wait_for_end(&owner);
                    work();
                }));
                // SAFETY: ends this process; destructors are the other's.
                unsafe { libc::_exit(c_int::from(done.is_err())) }
            }
            process => Ok(Keeper { process: Pid::from_raw(process) }),
        }
    }

    /// Whether it runs. It ends before this process only where somebody kills it.
    pub fn is_there(&self) -> bool {
        matches!(waitpid(self.process, Some(WaitPidFlag::WNOHANG)), Ok(WaitStatus::StillAlive))
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        // A process that panics may end before it has done what the keeper does then. This is its child, and so the same process until it was waited for.
        if !std::thread::panicking() && self.is_there() {
            let _ = kill(self.process, Signal::SIGKILL);
            let _ = waitpid(self.process, None);
        }
    }
}

/// Keeps nothing of what the other process has, but `owner` and standard error.
fn settle(owner: &OwnedFd) {
    let _ = setsid();
    // SAFETY: a name that ends with 0.
    unsafe { libc::prctl(libc::PR_SET_NAME, NAME.as_ptr()) };
    for ignored in IGNORED {
        // SAFETY: no handler is installed.
        let _ = unsafe { signal(ignored, SigHandler::SigIgn) };
    }
    let owner = owner.as_raw_fd() as c_uint;
    let others = [(3, owner.saturating_sub(1)), (owner + 1, c_uint::MAX)];
    for (first, last) in others.into_iter().filter(|(first, last)| first <= last) {
        // SAFETY: what owns them is never used in this process.
        unsafe { libc::syscall(libc::SYS_close_range, first, last, 0) };
    }
    if let Ok(null) = File::options().read(true).write(true).open("/dev/null") {
        for standard in [0, 1] {
            // SAFETY: two descriptors, of which nothing here owns the second.
            unsafe { libc::dup2(null.as_raw_fd(), standard) };
        }
    }
}

fn wait_for_end(owner: &OwnedFd) {
    loop {
        let mut ended = [PollFd::new(owner.as_fd(), PollFlags::POLLIN)];
        if poll(&mut ended, PollTimeout::NONE).is_ok_and(|ready| ready > 0) {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Read as _;
    use std::sync::atomic::Ordering;
    use std::time::Duration;

    use testkit::wait;

    use super::*;

    /// A child that has a keeper and ends as `end` says; what the keeper has written by then, or writes.
    fn kept(end: impl FnOnce(Keeper), writes: bool) -> String {
        let path = std::env::temp_dir().join(format!("weir-keeper-{}", std::process::id()));
        let _ = fs::remove_file(&path);
        let words = Words::new(2).unwrap();
        let (mut ended, held) = io::pipe().unwrap();
        // SAFETY: this test is a process of its own with one thread at work.
        let child = match unsafe { libc::fork() } {
            0 => {
                let kept = Keeper::start(|| {
                    fs::write(&path, format!("at {}", words[1].load(Ordering::SeqCst))).unwrap();
                })
                .unwrap();
                words[1].store(7, Ordering::SeqCst);
                end(kept);
                // SAFETY: ends the child.
                unsafe { libc::_exit(0) }
            }
            child => Pid::from_raw(child),
        };
        waitpid(child, None).unwrap();
        // The keeper has closed its copy.
        drop(held);
        ended.read_to_end(&mut Vec::new()).unwrap();
        let is_written = || fs::read(&path).is_ok_and(|all| !all.is_empty());
        assert!(!writes || wait::until(Duration::from_secs(60), is_written));
        let written = fs::read_to_string(&path).unwrap_or_default();
        let _ = fs::remove_file(&path);
        written
    }

    #[test]
    fn it_goes_on_where_its_process_is_killed() {
        let kill_own = |keeper: Keeper| {
            std::mem::forget(keeper);
            kill(Pid::this(), Signal::SIGKILL).unwrap();
        };
        assert_eq!(kept(kill_own, true), "at 7");
    }

    #[test]
    fn it_ends_with_what_keeps_it_and_signals_do_not_end_it() {
        let dropped = |keeper: Keeper| {
            for ended in [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP] {
                kill(keeper.process, ended).unwrap();
            }
            drop(keeper);
        };
        // It was waited for.
        assert_eq!(kept(dropped, false), "");
    }

    #[test]
    fn one_that_was_killed_is_not_there() {
        let keeper = Keeper::start(|| {}).unwrap();
        assert!(keeper.is_there());
        kill(keeper.process, Signal::SIGKILL).unwrap();
        assert!(wait::until(Duration::from_secs(60), || !keeper.is_there()));
    }
}
