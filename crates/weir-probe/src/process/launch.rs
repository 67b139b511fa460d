//! Starts a command and stops it where it can be probed before any of its own code has run.
//!
//! The child is seized before its exec, and followed from system call to system call. It is ready
//! - at the exit of rseq(2): glibc's ld.so makes that call when all libraries are mapped and thread-local storage
//!   exists, before the first relocation (so before IFUNC resolvers and constructors);
//! - else (musl, older glibc) at the exit of the first mprotect(2) after ld.so set fs and all wanted files are mapped, or,
//!   where some are loaded later, of that of the program's own pages: it is relocated last, and constructors run then;
//! - at exec itself, if it has no dynamic loader.
//!
//! No breakpoint is set. If this process dies, the kernel lets the command run on.

use std::ffi::CString;
use std::fmt;
use std::fs;
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::libc;
use nix::sys::ptrace;
use nix::sys::signal::{self, SigSet, Signal};
use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid, waitpid};
use nix::unistd::{ForkResult, Pid, fork};
use weir_symbols::{Binary, FileIdentity, maps, regular};

use crate::limits::{self, LAUNCH_SYSTEM_CALLS_MAX};
use crate::process::goroutines::Goroutines;
use crate::process::mapped::owner;
use crate::process::stop::{self, Stopped};
use crate::process::sys::{self, SyscallStop};
use crate::process::target::{Target, read_mappings};
use crate::process::watchdog::Hold;
use crate::refusal::Error;

/// A command that weir started. Dropped before it ended on its own, it is left running.
#[derive(Debug)]
pub struct Launched {
    pid: Pid,
    ended: Option<Ended>,
}

/// How a command ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ended {
    Code(i32),
    Signal(Signal),
}

impl Launched {
    /// Starts `command` (a path found in PATH, and its arguments), with these signals blocked, and stops it before
    /// it runs.
    pub fn start(
        command: &[String],
        search_path: Option<&std::ffi::OsStr>,
        mask: SigSet,
    ) -> Result<(Launched, Exec), Error> {
        let (mut launched, waiting) = Launched::prepare(command, search_path, mask)?;
        let exec = launched.exec(waiting)?;
        Ok((launched, exec))
    }

    /// The same up to where it executes its program.
    pub fn prepare(
        command: &[String],
        search_path: Option<&std::ffi::OsStr>,
        mask: SigSet,
    ) -> Result<(Launched, Waiting), Error> {
        let program = command.first().map(String::as_str).unwrap_or_default();
        let failed = |source: io::Error| Error::Spawn { command: program.to_owned(), source };
        let path = find(command, search_path)?;
        let text = |text: &str| CString::new(text).map_err(|error| failed(error.into()));
        let path_text = text(&path.to_string_lossy())?;
        let arguments = command.iter().map(|argument| text(argument)).collect::<Result<Vec<_>, _>>()?;
        let pointers: Vec<_> =
            arguments.iter().map(|argument| argument.as_ptr()).chain([std::ptr::null()]).collect();
        let (go_read, go_write) =
            nix::unistd::pipe2(nix::fcntl::OFlag::O_CLOEXEC).map_err(|e| failed(e.into()))?;
        let (error_read, error_write) =
            nix::unistd::pipe2(nix::fcntl::OFlag::O_CLOEXEC).map_err(|e| failed(e.into()))?;
        // SAFETY: the child makes only async-signal-safe calls (read, sigprocmask, signal, execv, write, _exit) before exec.
        let pid = match unsafe { fork() }.map_err(|errno| failed(errno.into()))? {
            ForkResult::Child => {
                drop(go_write);
                run_child(&path_text, &pointers, mask, &go_read, &error_write)
            }
            ForkResult::Parent { child } => child,
        };
        drop((go_read, error_write));
        let mut launched = Launched { pid, ended: None };
        let options = ptrace::Options::PTRACE_O_TRACEEXEC | ptrace::Options::PTRACE_O_TRACESYSGOOD;
        if let Err(errno) = ptrace::seize(pid, options) {
            // Before it ends: what it is like says why.
            let refused = Error::permission(pid.as_raw(), errno.into());
            launched.kill();
            return Err(refused);
        }
        Ok((launched, Waiting { command: program.to_owned(), go: go_write, error: error_read }))
    }

    /// Has it execute its program, and stops it before that runs. By the thread that has prepared it.
    pub fn exec(&mut self, waiting: Waiting) -> Result<Exec, Error> {
        let Waiting { command, go, error } = waiting;
        // Not by closing it alone: a child that another thread has forked meanwhile holds it open until its own exec, and
        // may wait for this one in the same way. Writing fails only if the child was killed, which is seen below.
        let _ = nix::unistd::write(&go, &[1]);
        drop(go);
        self.wait_for_exec(&command, error)?;
        Ok(Exec { pid: self.pid.as_raw(), command, point: Point::Exec, hold: None, is_taken: false })
    }

    pub fn pid(&self) -> i32 {
        self.pid.as_raw()
    }

    /// How it ended, once it has. Does not wait.
    pub fn try_wait(&mut self) -> Option<Ended> {
        if self.ended.is_none() {
            // waitid(2) reports ptrace stops whatever the flags are. The tracer waits for those, so only an end is consumed.
            let look = WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG | WaitPidFlag::WNOWAIT;
            let take = || _ = waitpid(self.pid, Some(WaitPidFlag::WNOHANG));
            self.ended = match waitid(Id::Pid(self.pid), look) {
                Ok(WaitStatus::Exited(_, code)) => {
                    take();
                    Some(Ended::Code(code))
                }
                Ok(WaitStatus::Signaled(_, signal, _)) => {
                    take();
                    Some(Ended::Signal(signal))
                }
                // Somebody else reaped it, or it never was ours: it is gone, and its code is not known.
                Err(Errno::ECHILD) => Some(Ended::Code(0)),
                _ => None,
            };
        }
        self.ended
    }

    /// Ends it with SIGTERM, as bpftrace ends its command.
    pub fn terminate(&mut self) {
        if self.try_wait().is_none() {
            // Fails only if it has ended meanwhile.
            let _ = signal::kill(self.pid, Signal::SIGTERM);
        }
    }

    /// Ends it at once, and reaps it.
    pub fn kill(&mut self) {
        if self.try_wait().is_none() {
            let _ = signal::kill(self.pid, Signal::SIGKILL);
            while !matches!(
                waitpid(self.pid, Some(WaitPidFlag::__WALL)),
                Ok(WaitStatus::Exited(..) | WaitStatus::Signaled(..)) | Err(Errno::ECHILD)
            ) {}
            self.ended = Some(Ended::Signal(Signal::SIGKILL));
        }
    }

    fn wait_for_exec(&mut self, program: &str, error_read: OwnedFd) -> Result<(), Error> {
        loop {
            match waitpid(self.pid, Some(WaitPidFlag::__WALL)) {
                Ok(WaitStatus::PtraceEvent(_, _, event)) if event == libc::PTRACE_EVENT_EXEC => return Ok(()),
                Ok(WaitStatus::Stopped(pid, signal)) => {
                    let _ = ptrace::cont(pid, signal);
                }
                Ok(WaitStatus::PtraceEvent(pid, ..)) => {
                    let _ = ptrace::cont(pid, None);
                }
                Ok(WaitStatus::Exited(_, code)) => {
                    self.ended = Some(Ended::Code(code));
                    let mut errno = [0; 4];
                    let source = match std::fs::File::from(error_read).read_exact(&mut errno) {
                        Ok(()) => io::Error::from_raw_os_error(i32::from_le_bytes(errno)),
                        Err(error) => error,
                    };
                    return Err(Error::Spawn { command: program.to_owned(), source });
                }
                Ok(WaitStatus::Signaled(_, signal, _)) => {
                    self.ended = Some(Ended::Signal(signal));
                    return Err(Error::EndedEarly {
                        command: program.to_owned(),
                        how: format!("killed by {signal}"),
                    });
                }
                Err(Errno::EINTR) | Ok(_) => {}
                Err(errno) => return Err(Error::system("waitpid", errno)),
            }
        }
    }
}

/// A process that waits before it executes its program. Dropped, it does, and stops there.
#[derive(Debug)]
pub struct Waiting {
    command: String,
    go: OwnedFd,
    error: OwnedFd,
}

/// What a set-user-ID or set-group-ID program does not get.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LeftOut {
    User { wanted: u32, is: u32 },
    Group { wanted: u32, is: u32 },
}

impl fmt::Display for LeftOut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (kind, id, wanted, is) = match *self {
            LeftOut::User { wanted, is } => ("set-user-ID", "uid", wanted, is),
            LeftOut::Group { wanted, is } => ("set-group-ID", "gid", wanted, is),
        };
        write!(
            f,
            "the command is {kind}, which the kernel ignores where the tracer has no CAP_SYS_PTRACE: it runs as {id} {is}, not {wanted}"
        )
    }
}

/// Where a process is stopped that has not begun to run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Point {
    /// In its execve(2): its program is mapped, its libraries are not.
    Exec,
    /// At the end of a system call of its dynamic loader.
    Loading,
}

/// A process stopped before it has begun to run. Dropped, it goes on.
#[derive(Debug)]
pub struct Exec {
    pid: i32,
    command: String,
    point: Point,
    /// None for this process's own.
    hold: Option<Hold>,
    is_taken: bool,
}

impl Drop for Exec {
    fn drop(&mut self) {
        // The owner of a command kills it where it must not run ([`Launched`]).
        if !self.is_taken {
            stop::let_go_soon(self.pid);
        }
    }
}

impl Exec {
    /// Of a process that this one has not started, and that this thread has seized. It has stopped.
    pub(crate) fn of(pid: i32, point: Point) -> Exec {
        let hold = Some(Hold::begin_patient(limits::EXEC_HOLD_MAX));
        Exec { pid, command: format!("process {pid}"), point, hold, is_taken: false }
    }

    pub fn pid(&self) -> i32 {
        self.pid
    }

    /// The user or group that its file would have it run as, and that the kernel has left out because it is traced (ptrace(2): by
    /// somebody without CAP_SYS_PTRACE).
    pub fn left_out(&self) -> Option<LeftOut> {
        let file = fs::metadata(format!("/proc/{}/exe", self.pid)).ok()?;
        let effective = |name: &str| -> Option<u32> {
            let ids = sys::status_field(self.pid, name).ok()??;
            ids.split_whitespace().nth(1)?.parse().ok()
        };
        let is_set = |bit: u32| file.mode() & bit != 0;
        if is_set(libc::S_ISUID) && effective("Uid")? != file.uid() {
            return Some(LeftOut::User { wanted: file.uid(), is: effective("Uid")? });
        }
        // Without execution for the group the bit has another meaning.
        if is_set(libc::S_ISGID) && is_set(libc::S_IXGRP) && effective("Gid")? != file.gid() {
            return Some(LeftOut::Group { wanted: file.gid(), is: effective("Gid")? });
        }
        None
    }

    /// Runs it to where it can be probed: see the module's header. `wanted`: files that are to be probed; none: it is left where it begins, before its
    /// loader has run.
    pub fn into_target(mut self, wanted: Option<&[FileIdentity]>) -> Result<Target, Error> {
        let mut stopped = Stopped::adopt(self.pid, self.hold.take());
        self.is_taken = true;
        let exe = PathBuf::from(format!("/proc/{}/exe", self.pid));
        let file = regular::open(&exe).map_err(|source| Error::no_access(self.pid, source))?;
        // The kernel executes a file that is not ELF by its interpreter, so that this is one.
        let has_loader = weir_symbols::program_kind(&file).is_some_and(|kind| kind.has_interpreter);
        if self.point == Point::Exec {
            // The exec's own system call ends first.
            stopped.run_to_syscall(self.pid).map_err(|error| self.ended(error))?;
        }
        if let Some(wanted) = wanted.filter(|_| has_loader) {
            self.run_loader(&mut stopped, &exe, wanted)?;
        }
        let goroutines = Goroutines::find(self.pid, &read_mappings(self.pid)?);
        let mut target = Target::inspect(stopped, None, goroutines)?;
        (target.stays_held, target.has_begun) = (true, false);
        Ok(target)
    }

    fn run_loader(&self, stopped: &mut Stopped, exe: &Path, wanted: &[FileIdentity]) -> Result<(), Error> {
        let (mut call, mut has_fs) = (None, false);
        for _ in 0..LAUNCH_SYSTEM_CALLS_MAX {
            stopped.run_to_syscall(self.pid).map_err(|error| self.ended(error))?;
            let stop =
                sys::syscall_stop(self.pid).map_err(|e| Error::system("PTRACE_GET_SYSCALL_INFO", e))?;
            match stop {
                SyscallStop::Entry { number, argument } => call = Some((number as i64, argument)),
                SyscallStop::Exit { .. } => match call.take() {
                    Some((libc::SYS_rseq, _)) => return Ok(()),
                    Some((libc::SYS_arch_prctl, _)) => has_fs = true,
                    Some((libc::SYS_mprotect, at)) if has_fs && self.is_ready(at, exe, wanted)? => {
                        return Ok(());
                    }
                    _ => {}
                },
                SyscallStop::Other => {}
            }
        }
        let how = format!("not ready after {LAUNCH_SYSTEM_CALLS_MAX} system calls");
        Err(Error::EndedEarly { command: self.command.clone(), how })
    }

    /// The pages at `protected` have just been protected.
    fn is_ready(&self, protected: u64, exe: &Path, wanted: &[FileIdentity]) -> Result<bool, Error> {
        let mappings = read_mappings(self.pid)?;
        let (program, path) = (Binary::open(exe)?, fs::read_link(exe).unwrap_or_default());
        let own = maps::identity_of(&mappings, &program, &path);
        if own.is_some() && owner(&mappings, protected) == own {
            return Ok(true);
        }
        let is_mapped =
            |file: &FileIdentity| mappings.iter().any(|mapping| mapping.execute && mapping.is_file(*file));
        Ok(wanted.iter().all(is_mapped))
    }

    fn ended(&self, error: Error) -> Error {
        match error {
            Error::TargetGone { .. } => Error::EndedEarly {
                command: self.command.clone(),
                how: "it exited before all files that are to be probed were loaded".into(),
            },
            other => other,
        }
    }
}

/// In the child: waits to be seized, then becomes the command. `arguments` ends with a null pointer. Allocates nothing.
fn run_child(
    path: &CString,
    arguments: &[*const libc::c_char],
    mask: SigSet,
    go: &OwnedFd,
    error: &OwnedFd,
) -> ! {
    let mut byte = [0];
    // A byte comes when the parent has seized this process, end-of-file if it has died.
    let _ = nix::unistd::read(go, &mut byte);
    let _ = mask.thread_set_mask();
    // SAFETY: SIG_DFL is a valid disposition; Rust's start-up code had set this signal to ignored, which exec keeps.
    unsafe { libc::signal(libc::SIGPIPE, libc::SIG_DFL) };
    // SAFETY: both are NUL-terminated strings and a null-terminated array of such, alive in this copy of the parent.
    unsafe { libc::execv(path.as_ptr(), arguments.as_ptr()) };
    let errno = Errno::last_raw();
    let _ = nix::unistd::write(error, &errno.to_le_bytes());
    // SAFETY: _exit never returns and runs no handler of the parent's.
    unsafe { libc::_exit(127) }
}

/// The file that `command` would run, if it is there.
pub fn find(command: &[String], search_path: Option<&std::ffi::OsStr>) -> Result<PathBuf, Error> {
    let program = command.first().map(String::as_str).unwrap_or_default();
    let found = find_program(program, search_path).and_then(|path| fs::metadata(&path).map(|_| path));
    found.map_err(|source| Error::Spawn { command: program.to_owned(), source })
}

/// The file that execvp(3) would take.
fn find_program(name: &str, search_path: Option<&std::ffi::OsStr>) -> io::Result<PathBuf> {
    if name.is_empty() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "the command is empty"));
    }
    if name.contains('/') {
        return Ok(PathBuf::from(name));
    }
    let folders = search_path.map(std::env::split_paths).into_iter().flatten();
    let found = folders
        .map(|folder| folder.join(name))
        .find(|path| path.is_file() && nix::unistd::access(path, nix::unistd::AccessFlags::X_OK).is_ok());
    found.ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, "no such command in PATH"))
}
