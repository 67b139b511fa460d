//! The process that captures: its descriptor taken over, and whether it is still there.

use std::ffi::c_int;
use std::fs::OpenOptions;
use std::io;
use std::os::fd::{AsFd as _, FromRawFd as _, OwnedFd};
use std::os::unix::fs::OpenOptionsExt as _;

use nix::errno::Errno;
use nix::libc;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

/// See above.
#[derive(Debug)]
pub(crate) struct Owner {
    pub(crate) pid: u32,
    pidfd: OwnedFd,
}

impl Owner {
    pub(crate) fn of(pid: u32) -> Result<Owner, String> {
        // SAFETY: two numbers are passed; the answer is a descriptor of this process's own, or -1.
        let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, pid as libc::pid_t, 0) };
        if fd < 0 {
            return Err(format!("pidfd_open of process {pid}: {}", Errno::last().desc()));
        }
        // SAFETY: the kernel has just given it.
        Ok(Owner { pid, pidfd: unsafe { OwnedFd::from_raw_fd(fd as c_int) } })
    }

    /// Opens what the process has open under this number. It shall be a file in memory: nothing that would make the caller wait.
    pub(crate) fn open(&self, fd: u32) -> Result<OwnedFd, String> {
        let path = format!("/proc/{}/fd/{fd}", self.pid);
        let mut options = OpenOptions::new();
        options.read(true).write(true).custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY);
        let file = options.open(&path).map_err(|error| match error.kind() {
            io::ErrorKind::PermissionDenied => format!(
                "{path}: permission denied: weir has to run as the application's user, or the application as root"
            ),
            _ => format!("{path}: {error}"),
        })?;
        Ok(file.into())
    }

    /// It has exited, also if nobody has waited for it yet.
    pub(crate) fn is_gone(&self) -> bool {
        let mut fds = [PollFd::new(self.pidfd.as_fd(), PollFlags::POLLIN)];
        poll(&mut fds, PollTimeout::ZERO).is_ok_and(|ready| ready > 0)
    }
}
