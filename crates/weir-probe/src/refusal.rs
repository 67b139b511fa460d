//! What may go wrong: a site that is refused (with a reason code), and errors of the world.

use std::io;
use std::time::Duration;

use crate::process::permission::Forbidden;

/// Why a function was not patched. The code is stable; the text explains it.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Refusal {
    #[error("too-short: {available} bytes before the function's end, a jump needs 5")]
    TooShort { available: usize },
    #[error("size-unknown: neither a symbol nor unwind information says where the function ends")]
    SizeUnknown,
    #[error("too-long: {bytes} bytes; functions are checked up to {max}")]
    TooLong { bytes: u64, max: u64 },
    #[error("undecodable: bytes at +{offset:#x} are not an instruction")]
    Undecodable { offset: u64 },
    #[error("call-in-window: a call at +{offset:#x} would leave a return address inside the patch")]
    CallInWindow { offset: u64 },
    #[error("syscall-in-window: a system call at +{offset:#x} could be restarted inside the patch")]
    SyscallInWindow { offset: u64 },
    #[error("ends-in-window: the function ends or jumps away at +{offset:#x}, before 5 bytes")]
    EndsInWindow { offset: u64 },
    #[error("branch-into-window: something jumps or points to +{offset:#x}, inside the patch")]
    BranchIntoWindow { offset: u64 },
    #[error("symbol-in-window: `{name}` begins at +{offset:#x}, inside the patch")]
    SymbolInWindow { name: String, offset: u64 },
    #[error("indirect-jump: the targets of the jump at +{offset:#x} cannot all be found")]
    IndirectJump { offset: u64 },
    #[error(
        "restartable: the code at +{offset:#x} is one that the kernel restarts (rseq); it cannot be left"
    )]
    Restartable { offset: u64 },
    #[error("page-straddle: the patch would cross a page")]
    PageStraddle,
    #[error("text-differs: memory differs from the file at +{offset:#x} (another tracer, or a stale file)")]
    TextDiffers { offset: u64 },
    #[error("shared-text: the target maps this text MAP_SHARED; a patch would change its file")]
    SharedText,
    #[error("indirect-function: an IFUNC symbol is only a resolver; probe the implementation it chose")]
    IndirectFunction,
    #[error("not-relocatable: the instruction at +{offset:#x} cannot be moved ({detail})")]
    NotRelocatable { offset: u64, detail: String },
    #[error("busy: thread {tid} stayed inside the patch")]
    Busy { tid: i32 },
    #[error("no-room: no free address range within 2 GiB of the function")]
    NoRoom,
    #[error("not-mapped: the target does not map {binary}")]
    NotMapped { binary: String },
    #[error(
        "stack-unchecked: at +{offset:#x} nothing has checked that the stack, a goroutine's or a fiber's of OCaml 5, has room for a probe"
    )]
    StackUnchecked { offset: u64 },
    #[error(
        "stack-short: the programs here need {needed} bytes of stack, of which a goroutine is sure to have {room}"
    )]
    StackShort { needed: u32, room: u32 },
    #[error("parked: a goroutine was preempted inside the patch, and has not gone on")]
    Parked,
    #[error("goroutines-unknown: {detail}, and one that was preempted inside the patch could not go on")]
    GoroutinesUnknown { detail: String },
    #[error(
        "return-exits: its runtime walks stacks by return addresses, so that its return can be caught at its exits alone, and not at this one ({at:+#x}): {detail}"
    )]
    ReturnExits { at: i64, detail: String },
    #[error(
        "return-kept: its return is caught where it leaves, and nothing can be kept from its entry until then"
    )]
    ReturnKept,
    #[error("awaited: {binary} is not loaded yet")]
    Awaited { binary: String },
    #[error("loads-unseen: {detail}, so libraries that are loaded later are not probed")]
    LoadsUnseen { detail: String },
    #[error(
        "filters-unseen: {detail}, so a system call filter that the process installs is seen up to 0.1 s late"
    )]
    FiltersUnseen { detail: String },
    #[error("replaced: {binary} is another file than the one that was read when tracing began")]
    Replaced { binary: String },
    #[error("shadow-stack: a call would be displaced, and the target's threads have shadow stacks")]
    ShadowStack,
    #[error("not-an-instruction: no instruction of the function begins at +{offset:#x}")]
    NotAnInstruction { offset: u64 },
    #[error(
        "landing-pads: where exceptions land in the file cannot be told, so the patch might be in the way"
    )]
    LandingPads,
    #[error("overlap: the patch would overlap that of another probe at {address:#x}")]
    Overlap { address: u64 },
    #[error("semaphore: the counter of tracers at {address:#x} is not in writable memory of the target")]
    Semaphore { address: u64 },
    #[error("return-unproved: {detail} ({at:+#x}), so nothing may be kept between it and its caller")]
    ReturnUnproved { at: i64, detail: String },
    #[error("return-blocked: `{name}` comes back in other ways than by `ret`, or asks who called it")]
    ReturnBlocked { name: String },
    #[error("return-part: this is a part of another function, which is jumped to and not called")]
    ReturnPart,
    #[error("return-inside: a program at the return needs the function's entry, and this place is inside")]
    ReturnInside,
    #[error("return-no-room: no free address range, or none of this size, for records of return addresses")]
    ReturnNoRoom,
    #[error("return-unplanned: nobody has planned how this function's return is caught")]
    ReturnUnplanned,
    #[error(
        "stacks-copied: the process uses greenlet, which moves stacks, so that return addresses cannot be replaced"
    )]
    StacksCopied,
    #[error("unwinder-unknown: {detail}; it would not find its way through a probed return")]
    UnwinderUnknown { detail: String },
    #[error("too-many-programs: {given} on one function, at most {max}")]
    TooManyPrograms { given: usize, max: usize },
}

impl Refusal {
    /// The stable reason code: the text up to the colon.
    pub fn code(&self) -> String {
        let text = self.to_string();
        text.split(':').next().unwrap_or_default().to_owned()
    }

    /// It is probed when its library is loaded.
    pub fn is_awaited(&self) -> bool {
        matches!(self, Refusal::Awaited { .. })
    }

    /// It is so at the moment, as of a library that is half mapped.
    pub fn may_pass(&self) -> bool {
        matches!(self, Refusal::NotMapped { .. } | Refusal::TextDiffers { .. } | Refusal::Semaphore { .. })
    }

    /// It is so at the moment, by what threads do and what is mapped.
    pub fn is_of_the_moment(&self) -> bool {
        matches!(self, Refusal::Busy { .. } | Refusal::Parked | Refusal::NoRoom)
    }

    /// It is about the function's return alone: its entry can be probed.
    pub fn is_of_return(&self) -> bool {
        matches!(
            self,
            Refusal::ReturnUnproved { .. }
                | Refusal::ReturnBlocked { .. }
                | Refusal::ReturnPart
                | Refusal::ReturnInside
                | Refusal::ReturnNoRoom
                | Refusal::ReturnUnplanned
                | Refusal::ReturnExits { .. }
                | Refusal::ReturnKept
                | Refusal::StacksCopied
                | Refusal::UnwinderUnknown { .. }
        )
    }
}

/// An error of the world: what was being done, to what, and the call that failed.
#[derive(Debug, thiserror::Error)]
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
        "process {pid} is already traced by weir: process {controller} of user {user}, for {seconds} s, with {label}; end that \
         one (Ctrl-C, or kill -INT {controller}), or add these probes to its script"
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
