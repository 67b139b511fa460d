//! What may go wrong: a site that is refused (with a reason code), and errors of the world.

use std::io;

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
    #[error("not-mapped: the target does not map {binary} (libraries loaded later are not probed yet)")]
    NotMapped { binary: String },
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
    #[error("process {pid} is gone")]
    TargetGone { pid: i32 },
    #[error("process {pid} has executed another program meanwhile")]
    Replaced { pid: i32 },
    #[error(
        "no permission to trace process {pid} (ptrace: {source}); run as its user with Yama's ptrace_scope 0, or with CAP_SYS_PTRACE"
    )]
    Permission { pid: i32, source: io::Error },
    #[error(
        "process {pid} is already traced by process {tracer} (gdb, strace or another weir); detach that first"
    )]
    AlreadyTraced { pid: i32, tracer: i32 },
    #[error(
        "thread {tid} of process {pid} did not stop within {limit_ms} ms (state {state}); nothing was changed"
    )]
    StopTimeout { pid: i32, tid: i32, state: char, limit_ms: u128 },
    #[error("process {pid} was stopped for longer than {limit_ms} ms; everything was rolled back")]
    StopTooLong { pid: i32, limit_ms: u128 },
    #[error(
        "process {pid} runs under seccomp, which must be suspended while weir attaches (ptrace: {source}); that needs CAP_SYS_ADMIN"
    )]
    Seccomp { pid: i32, source: io::Error },
    #[error("process {pid} runs under seccomp's strict mode, which allows no clock; it is not traced")]
    StrictSeccomp { pid: i32 },
    #[error("process {pid} is a kernel thread or a zombie; it has no program to trace")]
    NoProgram { pid: i32 },
    #[error("no `syscall; ret` sequence in the executable mappings of process {pid}")]
    NoGadget { pid: i32 },
    #[error("no thread of process {pid} has {bytes} bytes of stack to spare for a remote call")]
    NoStack { pid: i32, bytes: u64 },
    #[error("cannot start {command}: {source}")]
    Spawn { command: String, source: io::Error },
    #[error("{command} ended before it could be probed ({how})")]
    EndedEarly { command: String, how: String },
    #[error("process {pid} is already traced by weir (session {session:016x}, controller {controller})")]
    AlreadyProbed { pid: i32, session: u64, controller: u32 },
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
    /// Why a file of `/proc/PID` cannot be opened.
    pub(crate) fn no_access(pid: i32, source: io::Error) -> Error {
        match source.kind() {
            io::ErrorKind::PermissionDenied => Error::Permission { pid, source },
            _ => Error::TargetGone { pid },
        }
    }

    pub(crate) fn system(what: impl Into<String>, source: impl Into<io::Error>) -> Error {
        Error::System { what: what.into(), source: source.into() }
    }
}
