//! Native code of one program, ready to be linked at an address, and the place it is compiled for.
//!
//! How a program is entered: by `call`, with a [`Frame`] directly above the return address (at rsp + 8).
//! Nothing is in registers. It returns r0 in rax, has changed no register outside `clobbers`, and (unless
//! `clobbers_flags`) no flag. It never touches the direction flag, vector or x87 state.
//!
//! What the first 21 words of the frame are depends on the kind of the program:
//!
//! | kind | words |
//! |---|---|
//! | probe, controller | `pt_regs`; r1 is their address. Of a probe 8 more behind them: the low halves of xmm0 to xmm7 |
//! | xdp, socket, classifier | 0 packet, 1 its end, 2 its metadata, 3 link header, 4 network header (addresses); from 5 on fields of 4 bytes, as `weir_ebpf::context` lists them. r1 is the address of the words, and is used through that list alone |
//! | memory | 0 its address (a multiple of 8, or 0), 1 its bytes; they are r1 and r2 |

use weir_ebpf::{helper, pt_regs};

pub use weir_memory::Frame;

/// Byte offsets in a [`Frame`].
pub const FRAME_FLOATS: u32 = 168;
pub const FRAME_COOKIE: u32 = 232;
pub const FRAME_SESSION_COOKIE: u32 = 240;
pub const FRAME_IS_RETURN: u32 = 248;
pub const FRAME_IS_ENTRY: u32 = 250;
pub const FRAME_TAIL_CALLS: u32 = 252;
/// In its place, where code has a limit of rounds.
pub const FRAME_ROUNDS: u32 = FRAME_TAIL_CALLS;

const _: () = assert!(
    std::mem::offset_of!(Frame, floats) == FRAME_FLOATS as usize
        && FRAME_FLOATS == pt_regs::FLOATS[0]
        && std::mem::offset_of!(Frame, cookie) == pt_regs::BYTES_WITH_FLOATS as usize
        && std::mem::offset_of!(Frame, cookie) == FRAME_COOKIE as usize
        && std::mem::offset_of!(Frame, session_cookie) == FRAME_SESSION_COOKIE as usize
        && std::mem::offset_of!(Frame, is_return) == FRAME_IS_RETURN as usize
        && std::mem::offset_of!(Frame, is_entry) == FRAME_IS_ENTRY as usize
        && std::mem::offset_of!(Frame, tail_calls) == FRAME_TAIL_CALLS as usize
);

/// Where a program will run, as far as its code depends on it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SiteAbi {
    /// What `get_current_pid_tgid` answers in the upper half.
    pub pid: u32,
    pub tid: TidSource,
    pub lanes: LanePolicy,
    /// CPUs that have a lane of their own: lanes 0..cpus are theirs, lane `cpus` is the shared one, or the first that
    /// any run may claim.
    pub cpus: u32,
    /// The CPU has BMI2 (shlx, shrx, sarx).
    pub bmi2: bool,
    /// The process may read the time stamp counter.
    pub reads_ticks: bool,
}

/// Where a thread's id comes from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TidSource {
    /// A u32 at fs:offset; checked for every thread at attach.
    ThreadControlBlock { offset: i32 },
    /// gettid(2).
    Syscall,
}

/// How per-CPU values are changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LanePolicy {
    /// On the CPU's own lane, in an rseq critical section; `offset`: of `struct rseq` from fs; `signature`: the
    /// word before each abort handler. A thread whose cpu_id is not below `cpus` uses the shared lane with `lock`.
    Rseq { offset: i32, signature: u32 },
    /// On the shared lane, with `lock`.
    Shared,
    /// In any way, on a lane that the run has claimed for itself: its CPU's if that is free. A run that finds none
    /// is skipped and counted. For a segment of [`plan_claimable`](crate::segment::SegmentLayout::plan_claimable), and
    /// all programs on its maps.
    Claimed { cpu: CpuSource },
}

/// Where a run that claims a lane learns its CPU from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CpuSource {
    /// `struct rseq`, at that offset from fs. With the signature, if it is known, records are reserved inside sections.
    Rseq { offset: i32, signature: Option<u32> },
    /// The limit of the segment that the kernel keeps it in, by `lsl`.
    Selector,
    /// The runtime, which asks the kernel: for machines that do not know `lsl`.
    Runtime,
}

impl LanePolicy {
    /// The same place, for programs of which some need a lane of their own.
    pub fn claimed(self) -> LanePolicy {
        match self {
            LanePolicy::Rseq { offset, signature } => {
                LanePolicy::Claimed { cpu: CpuSource::Rseq { offset, signature: Some(signature) } }
            }
            LanePolicy::Shared => LanePolicy::Claimed { cpu: CpuSource::Selector },
            LanePolicy::Claimed { .. } => self,
        }
    }
}

/// How an executable reaches per-CPU values.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum LaneUse {
    /// It does not.
    #[default]
    None,
    /// By restartable sections, or on the shared lane.
    Sections,
    /// On a lane that it claims.
    Claimed,
}

/// Machine code of one program. Position independent but for `relocations`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Executable {
    /// Name of the program, for `--emit asm`.
    pub name: String,
    pub kind: weir_ebpf::ProgramKind,
    /// Entered at offset 0. May end in read-only data.
    pub code: Vec<u8>,
    /// Entered here by a tail call, which leaves the stack as it was at its own entry.
    pub tail_entry: u32,
    /// Bytes of `code` that are instructions; data follows.
    pub text_bytes: u32,
    pub relocations: Vec<Relocation>,
    /// Bit n: general register n in x86 encoding order (0 rax, 1 rcx, 2 rdx, 3 rbx, 4 rsp, 5 rbp, 6 rsi, 7 rdi,
    /// 8..15) may have changed on return; callee-saved ones that the code restores are not in it.
    pub clobbers: u16,
    pub clobbers_flags: bool,
    /// It may access words at addresses that are no multiples of their size, which faults where the thread checks alignment
    /// (EFLAGS.AC): whoever enters it turns that off for as long as it runs.
    pub may_misalign: bool,
    /// Bit n: slot n of the [`Frame`] may be read, of `regs` or of `floats` behind them.
    pub context_reads: u32,
    pub reads_cookie: bool,
    /// `Frame::session_cookie` and `Frame::is_return` are used.
    pub uses_session: bool,
    pub lanes: LaneUse,
    /// It may write to the packet that it is given.
    pub writes_packet: bool,
    /// Most bytes below the return address that the code and the helpers it calls may use.
    pub stack_bytes: u32,
    /// Offset in `code` and bpf instruction index, ascending: which instruction each piece of code came from.
    pub origins: Vec<(u32, u32)>,
}

impl Executable {
    /// A probe's program that no engine has compiled: it reads nothing of its context, touches no per-CPU value,
    /// changes the registers `clobbers`, and flags, and may access words at any address.
    pub fn by_hand(name: &str, code: Vec<u8>, relocations: Vec<Relocation>, clobbers: u16) -> Executable {
        Executable {
            name: name.into(),
            kind: weir_ebpf::ProgramKind::Probe,
            tail_entry: 0,
            text_bytes: code.len() as u32,
            code,
            relocations,
            clobbers,
            clobbers_flags: true,
            may_misalign: true,
            context_reads: 0,
            reads_cookie: false,
            uses_session: false,
            lanes: LaneUse::None,
            writes_packet: false,
            stack_bytes: 256,
            origins: Vec::new(),
        }
    }

    /// The same, which reads these slots of the frame.
    pub fn reading(self, context_reads: u32) -> Executable {
        Executable { context_reads, ..self }
    }

    /// It asks for the chain of callers: then [`Frame::is_entry`] must say whether the word at the stack pointer belongs to it.
    pub fn walks_stack(&self) -> bool {
        let walks = [Symbol::Helper(helper::GET_STACKID), Symbol::Helper(helper::GET_STACK)];
        self.relocations.iter().any(|relocation| walks.contains(&relocation.symbol))
    }

    /// Some helper that it calls reads the process's memory.
    pub fn reads_memory(&self) -> bool {
        let reads = |symbol: Symbol| matches!(symbol, Symbol::Helper(id) if READ_MEMORY.contains(&id));
        self.relocations.iter().any(|relocation| reads(relocation.symbol))
    }

    /// Whether it may wait for room in a ring.
    pub fn waits(&self) -> bool {
        self.relocations.iter().any(|relocation| relocation.symbol == Symbol::Helper(helper::RINGBUF_QUERY))
    }

    /// Some helper that it calls makes a system call.
    pub fn calls_kernel(&self) -> bool {
        let calls = |symbol: Symbol| matches!(symbol, Symbol::Helper(id) if calls_kernel(id));
        self.relocations.iter().any(|relocation| calls(relocation.symbol))
    }

    /// It reads the time stamp counter, by itself or in a helper: strict seccomp forbids that (docs/segment.md).
    pub fn reads_ticks(&self) -> bool {
        let reads = |symbol: Symbol| match symbol {
            Symbol::Helper(id) => reads_ticks(id),
            // Code asks the word before it reads the counter, and for nothing else.
            Symbol::Filter => true,
            _ => false,
        };
        self.relocations.iter().any(|relocation| reads(relocation.symbol))
    }
}

/// Whether a helper reads the time stamp counter on its usual way, or asks the vDSO for a time, which may.
pub fn reads_ticks(id: weir_ebpf::HelperId) -> bool {
    READ_TICKS.contains(&id)
}

/// `tests/image.rs` holds it against the image.
const READ_TICKS: &[weir_ebpf::HelperId] = &[
    helper::KTIME_GET_NS,
    helper::KTIME_GET_BOOT_NS,
    helper::KTIME_GET_COARSE_NS,
    helper::KTIME_GET_TAI_NS,
    helper::JIFFIES64,
    helper::RINGBUF_OUTPUT,
    helper::RINGBUF_RESERVE,
    helper::RINGBUF_RESERVE_DYNPTR,
    helper::PERF_EVENT_OUTPUT,
];

/// Whether a helper may access words at addresses that are no multiples of their size: all do that are given memory, or that
/// compilers may have made one access of many bytes in.
pub fn may_misalign(id: weir_ebpf::HelperId) -> bool {
    !ALIGNED.contains(&id)
}

/// What touches nothing but whole words of weir's own and of the thread's; `tests/alignment.rs` of the JIT runs them where anything else
/// faults.
const ALIGNED: &[weir_ebpf::HelperId] = &[
    helper::KTIME_GET_NS,
    helper::KTIME_GET_BOOT_NS,
    helper::KTIME_GET_COARSE_NS,
    helper::KTIME_GET_TAI_NS,
    helper::JIFFIES64,
    helper::GET_CURRENT_PID_TGID,
    helper::GET_CURRENT_UID_GID,
    helper::GET_SMP_PROCESSOR_ID,
    helper::GET_NUMA_NODE_ID,
    helper::GET_PRANDOM_U32,
    helper::RINGBUF_RESERVE,
    helper::RINGBUF_SUBMIT,
    helper::RINGBUF_DISCARD,
];

/// Whether a helper makes a system call on its usual way: where the vDSO knows clocks, and the CPU tells its number.
pub fn calls_kernel(id: weir_ebpf::HelperId) -> bool {
    CALL_KERNEL.contains(&id)
}

const READ_MEMORY: &[weir_ebpf::HelperId] = &[
    helper::PROBE_READ_USER,
    helper::PROBE_READ_USER_STR,
    helper::PROBE_READ,
    helper::PROBE_READ_KERNEL,
    helper::COPY_FROM_USER,
    helper::PROBE_READ_STR,
    helper::PROBE_READ_KERNEL_STR,
    helper::GET_STACKID,
    helper::GET_STACK,
];

/// `tests/image.rs` holds it against the image.
const CALL_KERNEL: &[weir_ebpf::HelperId] = &[
    // Where it waits for room.
    helper::RINGBUF_QUERY,
    helper::GET_CURRENT_PID_TGID,
    helper::GET_CURRENT_COMM,
    helper::PROBE_READ_USER,
    helper::PROBE_READ_USER_STR,
    helper::PROBE_READ,
    helper::PROBE_READ_KERNEL,
    helper::COPY_FROM_USER,
    helper::PROBE_READ_STR,
    helper::PROBE_READ_KERNEL_STR,
    helper::PROBE_WRITE_USER,
    helper::GET_STACKID,
    helper::GET_STACK,
    helper::GET_CURRENT_UID_GID,
    helper::GET_NS_CURRENT_PID_TGID,
    helper::SEND_SIGNAL,
    helper::SEND_SIGNAL_THREAD,
    helper::SNPRINTF,
    helper::TRACE_PRINTK,
    helper::TRACE_VPRINTK,
];

/// A place in `code` to fill in when its address and the segment's are known.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Relocation {
    /// Byte offset in `code` of the field.
    pub offset: u32,
    pub kind: RelocKind,
    pub symbol: Symbol,
    pub addend: i64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RelocKind {
    /// 8 bytes: symbol + addend.
    Abs64,
    /// 4 bytes: symbol + addend − address of the field (an x86 call's addend is −4).
    Rel32,
}

/// What a relocation refers to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Symbol {
    /// The descriptor (`struct weir_map`) of the object's map of this index: what helpers take as a map.
    Map(u32),
    /// The first value of an array map (of lane 0, for per-CPU kinds).
    MapData(u32),
    /// The runtime's function for this helper number.
    Helper(weir_ebpf::HelperId),
    /// A function of the runtime that is no helper.
    Runtime(RuntimeFunction),
    /// The claims of lanes, `abi::CLAIM_STRIDE` bytes each.
    Claims,
    /// What tail calls lead to: a count, 0, and the address of each program's tail entry by its number, 8 bytes each.
    Programs,
    /// The process's word that says how it came under seccomp ([`Filter`](crate::segment::Filter)).
    Filter,
    /// An offset in this `code`.
    Code(u32),
}

/// What code calls of the runtime besides helpers (`c/weir.h`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RuntimeFunction {
    /// Claims, CPUs, lanes, owner → a lane, or −1.
    LaneClaim,
    /// `map_lookup_elem` and `map_update_elem` of a run, with its lane as one argument more.
    MapLookupLane,
    MapUpdateLane,
    /// `map_lookup_elem` of hashes: with keys of 4, 8 and 16 bytes, and of any size.
    HashLookup4,
    HashLookup8,
    HashLookup16,
    HashLookup,
    /// `map_update_elem` of hashes, with a lane as the fifth argument (0 where there are none).
    HashUpdate4,
    HashUpdate8,
    HashUpdate,
    /// `map_delete_elem` of hashes.
    HashDelete,
    /// Map, [`Cursor`](crate::abi::Cursor), lane → the next element's value, or 0: a step of `for_each_map_elem`.
    MapNext,
    /// To, size, the context, which → bytes: the kernel function `weir_declared_copy`, all of it.
    DeclaredCopy,
    /// The words of announcements, `r_state` or 0 → nothing: tells the controller that the dynamic linker's list has
    /// changed, and waits for it.
    Announce,
    /// The words of a forked child behind the gates of its island → 0, or whether to wait: announces the child to the controller.
    Forked,
    /// The word of [`Filter`](crate::segment::Filter), `pt_regs`, whether it is at `syscall` (else at `prctl`) → nothing:
    /// sets the word where that call would install a system call filter.
    Filter,
    /// The words of [`Reads`](crate::segment::Reads), `pt_regs`, the number of a system call or all ones (ax has it) → nothing:
    /// says that what is known of memory holds no more, where that call is about to take it away.
    Unmapping,
    /// The same without a number, behind that call.
    Unmapped,
    /// The words alone → nothing: what is known of memory holds no more.
    WithdrawReads,
}

impl RuntimeFunction {
    /// The look-up in hashes with keys of so many bytes.
    pub fn hash_lookup(key_bytes: u32) -> RuntimeFunction {
        match key_bytes {
            4 => RuntimeFunction::HashLookup4,
            8 => RuntimeFunction::HashLookup8,
            16 => RuntimeFunction::HashLookup16,
            _ => RuntimeFunction::HashLookup,
        }
    }

    /// The update of hashes with keys of so many bytes.
    pub fn hash_update(key_bytes: u32) -> RuntimeFunction {
        match key_bytes {
            4 => RuntimeFunction::HashUpdate4,
            8 => RuntimeFunction::HashUpdate8,
            _ => RuntimeFunction::HashUpdate,
        }
    }

    /// For `--emit asm`.
    pub fn name(self) -> &'static str {
        match self {
            RuntimeFunction::LaneClaim => "lane_claim",
            RuntimeFunction::MapLookupLane => "map_lookup_lane",
            RuntimeFunction::MapUpdateLane => "map_update_lane",
            RuntimeFunction::HashLookup4 => "hash_lookup_4",
            RuntimeFunction::HashLookup8 => "hash_lookup_8",
            RuntimeFunction::HashLookup16 => "hash_lookup_16",
            RuntimeFunction::HashLookup => "hash_lookup",
            RuntimeFunction::HashUpdate4 => "hash_update_4",
            RuntimeFunction::HashUpdate8 => "hash_update_8",
            RuntimeFunction::HashUpdate => "hash_update",
            RuntimeFunction::HashDelete => "hash_delete",
            RuntimeFunction::MapNext => "map_next",
            RuntimeFunction::DeclaredCopy => "declared_copy",
            RuntimeFunction::Announce => "announce",
            RuntimeFunction::Forked => "forked",
            RuntimeFunction::Filter => "filter",
            RuntimeFunction::Unmapping => "unmapping",
            RuntimeFunction::Unmapped => "unmapped",
            RuntimeFunction::WithdrawReads => "withdraw_reads",
        }
    }
}
