//! Descriptors of a target, taken over: of files that it has opened when it was asked to.

use std::fs::File;
use std::os::fd::OwnedFd;

use nix::libc;

use crate::process::isa::native::remote::Borrowed;
use crate::process::memory::Memory;
use crate::process::stop::Stopped;
use crate::process::sys;
use crate::process::target::Target;
use crate::refusal::Error;

/// The memory of a stopped process through a descriptor that it opens itself, which its user may.
pub(crate) fn own_memory(target: &Target, stopped: &mut Stopped) -> Result<Memory, Error> {
    let mut remote = Borrowed::new(stopped, target)?;
    let path = remote.put(b"/proc/self/mem\0")?;
    let flags = (libc::O_RDWR | libc::O_CLOEXEC) as u64;
    let here = libc::AT_FDCWD as u64;
    let number = remote
        .call("openat", libc::SYS_openat, [here, path, flags, 0, 0, 0])
        .map_err(|refused| Error::OwnMemory { pid: target.pid, detail: refused.to_string() })?;
    let taken = take_fd(target, remote.tid(), number);
    remote.call("close", libc::SYS_close, [number, 0, 0, 0, 0, 0])?;
    remote.finish()?;
    Ok(Memory::through(File::from(taken?)))
}

/// Descriptor `number` of the target, here.
pub(crate) fn take_fd(target: &Target, tid: i32, number: u64) -> Result<OwnedFd, Error> {
    let taken = |pidfd: &OwnedFd| {
        sys::pidfd_getfd(pidfd, number as i32).map_err(|source| {
            Error::system(format!("pidfd_getfd({number}) of process {}", target.pid), source)
        })
    };
    if sys::living_thread(target.pid) == target.pid {
        return taken(&target.pidfd);
    }
    // A pidfd means the main thread, and one that has ended has no descriptors. One of another thread can be had since
    // Linux 6.9; before, its files can be opened, and its sockets not.
    if let Ok(thread) = sys::pidfd_open_thread(tid) {
        return taken(&thread);
    }
    let path = format!("/proc/{tid}/fd/{number}");
    let opened = File::options().read(true).write(true).open(&path);
    opened.map(OwnedFd::from).map_err(|source| Error::system(format!("open({path})"), source))
}
