//! What may go wrong with a process. Why a place in it is refused is said by [`weir_plan::Refusal`].

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use crate::process::permission::Forbidden;

/// An error of the world: what was being done, to what, and the call that failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    #[error("no process {pid}")]
    NoProcess { pid: i32 },
    /// Its memory is gone: where it ends of itself, a moment before it can be waited for.
    #[error("process {pid} is gone")]
    TargetGone { pid: i32 },
    #[error("process {pid} has executed another program meanwhile")]
    Replaced { pid: i32 },
    #[error("no permission to trace process {pid} ({source}): {forbidden}")]
    Permission { pid: i32, source: io::Error, forbidden: Forbidden },
    #[error(
        "weir may trace process {pid}, but not open its /proc/{pid}/mem, which is its user's; asked for it, the process \
         cannot do that either ({detail}): run weir as its user, or with CAP_DAC_OVERRIDE beside CAP_SYS_PTRACE"
    )]
    OwnMemory { pid: i32, detail: String },
    #[error(
        "process {pid} is already traced by process {tracer} (gdb, strace or another weir); detach that first"
    )]
    AlreadyTraced { pid: i32, tracer: i32 },
    #[error(
        "thread {tid} of process {pid} did not stop within {limit:?} (state {state}); nothing was changed"
    )]
    StopTimeout { pid: i32, tid: i32, state: char, limit: Duration },
    #[error(
        "thread {tid} of process {pid} was in the middle of a hit, and got no CPU to end that within {limit:?} in which the process was stopped; nothing was changed"
    )]
    StopInHit { pid: i32, tid: i32, limit: Duration },
    #[error("process {pid} was stopped for {took:.1?}, longer than {limit:?}; everything was rolled back")]
    StopTooLong { pid: i32, took: Duration, limit: Duration },
    #[error(
        "weir needs {needed} bytes of memory in process {pid} (code {code}), and may use {allowed}; nothing was \
         patched: probe fewer functions, or make maps smaller (`config = {{ max_map_keys = N }}`)"
    )]
    TooMuchMemory { pid: i32, needed: u64, code: u64, allowed: u64 },
    #[error(
        "process {pid} runs under seccomp, which must be suspended while weir attaches (ptrace: {source}); that needs CAP_SYS_ADMIN"
    )]
    Seccomp { pid: i32, source: io::Error },
    #[error("process {pid} runs under seccomp's strict mode, which allows no clock; it is not traced")]
    StrictSeccomp { pid: i32 },
    #[error("process {pid} is a kernel thread or a zombie; it has no program to trace")]
    NoProgram { pid: i32 },
    #[error(
        "process {pid} cannot be made to call the kernel: none of its text has `syscall; ret` and a way to rt_sigreturn"
    )]
    NoGadget { pid: i32 },
    #[error("no thread of process {pid} has {bytes} bytes of stack to spare for a remote call")]
    NoStack { pid: i32, bytes: u64 },
    #[error(
        "process {pid} has {count} mappings, and may have {max} (sysctl vm.max_map_count): there is no room for weir's; raise \
         vm.max_map_count, or have the process map less"
    )]
    TooManyMappings { pid: i32, count: usize, max: usize },
    #[error("cannot start {command}: {source}")]
    Spawn { command: String, source: io::Error },
    #[error("{command} ended before it could be probed ({how})")]
    EndedEarly { command: String, how: String },
    #[error(
        "process {pid} is held by weir: process {controller} of user {user}, for {seconds} s there, with {label}, has not let it go \
         within {} s; try again, or end that one (Ctrl-C, or kill -INT {controller})",
        crate::limits::TURN_MAX.as_secs()
    )]
    AlreadyProbed { pid: i32, controller: u32, user: String, seconds: u64, label: String },
    #[error(
        "process {pid} is traced by a weir of another version (process {controller}, ABI version {version}; this one has {}): end that one, with Ctrl-C or SIGINT",
        weir_rt::abi::ABI_VERSION
    )]
    OtherVersion { pid: i32, controller: u32, version: u32 },
    #[error(
        "process {pid} runs in the memory of process {other} (vfork, or clone with CLONE_VM), and through its probes: what is \
         done to them is done to that one"
    )]
    SharesMemory { pid: i32, other: i32 },
    #[error(
        "process {pid} cannot be stopped now: weir holds a child of it in execve(2), and it may wait for that child (vfork)"
    )]
    ChildPending { pid: i32 },
    #[error("process {pid} has no weir probes")]
    NotProbed { pid: i32 },
    #[error(
        "weir's segment in process {pid} is corrupt: {detail}; `weir detach -p {pid}` restores its text from its files"
    )]
    Corrupt { pid: i32, detail: String },
    #[error("remote {call} in process {pid}: {source}")]
    Remote { pid: i32, call: &'static str, source: io::Error },
    #[error("{what}: {source}")]
    System { what: String, source: io::Error },
    #[error("process {pid} cannot be made to load {}: {why}", path.display())]
    NotLoaded { pid: i32, path: PathBuf, why: String },
    #[error("linking code for process {pid}: {detail}")]
    Link { pid: i32, detail: String },
    #[error("{0}")]
    Symbols(#[from] weir_symbols::Error),
}

impl Error {
    /// The process could not be stopped, or be held for as long as it took: on another try it may be.
    pub fn is_of_stop(&self) -> bool {
        matches!(self, Error::StopTimeout { .. } | Error::StopInHit { .. } | Error::StopTooLong { .. })
    }

    /// A stable code for why a process is not traced.
    pub fn code(&self) -> &'static str {
        match self {
            Error::NoProcess { .. } | Error::TargetGone { .. } | Error::EndedEarly { .. } => "gone",
            Error::Replaced { .. } => "replaced",
            Error::Permission { .. } | Error::OwnMemory { .. } => "permission",
            Error::AlreadyTraced { .. } => "already-traced",
            Error::StopTimeout { .. } | Error::StopInHit { .. } | Error::StopTooLong { .. } => "stop-timeout",
            Error::TooMuchMemory { .. } => "too-much-memory",
            Error::Seccomp { .. } | Error::StrictSeccomp { .. } => "seccomp",
            Error::NoProgram { .. } => "no-program",
            Error::NoGadget { .. } => "no-gadget",
            Error::NoStack { .. } => "no-stack",
            Error::TooManyMappings { .. } => "too-many-mappings",
            Error::AlreadyProbed { .. } | Error::OtherVersion { .. } => "already-probed",
            Error::SharesMemory { .. } => "shares-memory",
            Error::ChildPending { .. } => "child-pending",
            Error::NotProbed { .. } => "not-probed",
            Error::Corrupt { .. } => "corrupt",
            Error::NotLoaded { .. } => "not-loaded",
            Error::Spawn { .. } | Error::Remote { .. } | Error::System { .. } | Error::Link { .. } => {
                "system"
            }
            Error::Symbols(_) => "symbols",
        }
    }

    /// Why a file of `/proc/PID` cannot be opened.
    pub(crate) fn no_access(pid: i32, source: io::Error) -> Error {
        match source.kind() {
            io::ErrorKind::PermissionDenied => Error::permission(pid, source),
            io::ErrorKind::NotFound => Error::TargetGone { pid },
            _ if source.raw_os_error() == Some(nix::libc::ESRCH) => Error::TargetGone { pid },
            _ => Error::system(format!("open a file of /proc/{pid}"), source),
        }
    }

    /// The kernel does not let process `pid` be traced.
    pub(crate) fn permission(pid: i32, source: io::Error) -> Error {
        Error::Permission { pid, source, forbidden: Forbidden::of(pid) }
    }

    pub(crate) fn system(what: impl Into<String>, source: impl Into<io::Error>) -> Error {
        Error::System { what: what.into(), source: source.into() }
    }
}
