//! Why a place is not patched, each by a code that stays.

/// Why a function was not patched. The code is stable; the text explains it.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
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
    #[error(
        "not-called: no list of those who are called is at {address:#x} in writable memory of the target"
    )]
    NotCalled { address: u64 },
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
    #[error("return-replaced: another weir replaces return addresses in this process, and one at a time can")]
    ReturnReplaced,
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
                | Refusal::ReturnReplaced
                | Refusal::UnwinderUnknown { .. }
        )
    }
}
