//! Helper functions: number, name and the contract that the verifier holds callers to.
//!
//! Numbers, names and meanings are the kernel's (`enum bpf_func_id`, bpf-helpers(7)), but for weir's own, whose numbers are below 0:
//! the kernel refuses a program that calls them. A helper is one row. Of those that are not here, the kernel's name alone is known ([`kernel_name`]).
//!
//! [`MAP_NEXT_KEY`] is `__u64 weir_map_next_key(map, __u64 cursor, void *key, __u32 size)`: writes the key of the hash's entry that comes
//! next, `size` bytes, which are those of its keys, and answers the cursor behind it; 0, and zeros as the key, where none comes. The cursor before the first is 0. What a
//! key that is there all the time, or not all the time, sees is as with [`FOR_EACH_MAP_ELEM`].
//!
//! [`REDIRECT_CLASSIFIED`] is what [`REDIRECT`] is in classifiers; a program calls the latter.

mod names;

use crate::ProgramKind;

/// A helper's number, as in the `imm` of a `CALL`.
pub type HelperId = i32;

/// What is asked besides the kernel's questions, which answers 0 to it: whether there is room by now, of which the bits below say how many
/// milliseconds are to be waited for it at most. Inside a traced process alone.
pub const RB_WAIT: i32 = 1 << 30;

/// Tail calls of one run (Linux: MAX_TAIL_CALL_CNT).
pub const TAIL_CALLS_MAX: u32 = 33;

/// Rounds that one `loop` may ask for (Linux: BPF_MAX_LOOPS), and elements that `for_each_map_elem` goes over beyond
/// the number that a map has room for, where others come as fast as they go.
pub const LOOP_ROUNDS_MAX: u32 = 8 * 1024 * 1024;

/// What a helper wants in one argument register.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Arg {
    /// Any initialised scalar (pointers are refused: they would leak).
    Scalar,
    /// Anything, even nothing: read only where a format asks for it.
    Any,
    /// An address that the helper reads safely whatever it is: a number, or a pointer.
    Address,
    /// A map from `LD_IMM64`, of a kind that has keys.
    Map,
    /// A map from `LD_IMM64` that is a ring.
    RingMap,
    /// A map from `LD_IMM64` that is a queue, a stack or a Bloom filter (from which nothing is popped).
    QueueMap,
    /// A map from `LD_IMM64` that is a `ProgArray`.
    ProgMap,
    /// A map from `LD_IMM64` that is a `PerfEventArray`, a `StackTrace`, a `CgroupArray`.
    PerfMap,
    StackMap,
    CgroupMap,
    /// A map from `LD_IMM64` whose elements packets are redirected to: devices, CPUs, sockets of AF_XDP.
    RedirectMap,
    /// Readable memory of the map's key size.
    MapKey,
    /// Readable memory of the map's value size.
    MapValue,
    /// Writable memory of the map's value size; it need not be initialised, and is afterwards, whatever the answer. A
    /// Bloom filter reads there what it is asked for: then as `MapValue`.
    MapValueOut,
    /// Readable, initialised memory whose size is the next argument.
    MemRead,
    /// Writable memory whose size is the next argument; it need not be initialised.
    MemWrite,
    /// Both: it is initialised before, and holds something else afterwards.
    MemUpdate,
    /// As `MemWrite`, but of what it held, all behind the first byte may stay.
    StringWrite,
    /// As `MemRead`, but it may hold pointers, which the helper reads through safely.
    Words,
    /// A constant place in a value of an array. The helper reads up to a NUL or the end of the value, which the
    /// engine passes as sixth argument: `InsnFacts::string_bytes` of weir-verifier.
    ConstString,
    /// Size of the preceding memory argument: a scalar known to be within 1..=its size.
    Size,
    /// As `Size`, but 0 is allowed, and then null as the memory.
    SizeOrZero,
    /// A scalar that must be a known constant (the record size of a reservation).
    ConstSize,
    /// A record from `ringbuf_reserve`; the call takes it back.
    RingRecord,
    /// [`DYNPTR_BYTES`] bytes of stack at a multiple of 8 that become a dynptr of a ring record: the size of the record
    /// is the second argument.
    NewDynptr,
    /// A dynptr in the stack, which helpers alone read.
    Dynptr,
    /// The same; the call takes its record back.
    ReleasedDynptr,
    /// A constant: how many bytes of a dynptr the program is to reach.
    SliceSize,
    /// The context.
    Context,
    /// A function of the program, from `LD_IMM64`. The helper's own row decides what it is called with.
    Callback,
    /// Passed on to the callback: a pointer into a stack, or 0.
    StackOrNull,
}

/// What a helper leaves in r0.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ret {
    /// Any 64-bit number.
    Scalar,
    /// 0 or a negative errno.
    Status,
    /// Bytes written, at most the last size, or a negative errno.
    Length,
    /// Null or a pointer to the map's value.
    MapValueOrNull,
    /// Null or a record of the constant size; must be submitted or discarded on every path.
    RingRecordOrNull,
    /// Null or memory of the constant size, in the record of the dynptr, as long as that is there.
    SliceOrNull,
    /// Nothing: r0 is unusable afterwards.
    Void,
}

/// One row of the helper table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HelperProto {
    pub id: HelperId,
    /// The kernel's name without `bpf_`.
    pub name: &'static str,
    pub args: &'static [Arg],
    pub ret: Ret,
    pub access: Access,
    /// The function of the C half that it is; none where every engine has it inside.
    pub function: Option<&'static str>,
}

/// What a call does with memory of the process in which it runs, other than what the program owns and what its probe was given.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Access {
    /// It reads at addresses, or whole stacks.
    pub reads: bool,
    /// It writes at addresses, or sends signals. A verifier refuses it unless its user allows it.
    pub changes: bool,
}

impl Access {
    pub const NONE: Access = Access { reads: false, changes: false };
    pub const READS: Access = Access { reads: true, changes: false };
    pub const CHANGES: Access = Access { reads: false, changes: true };
    pub const ALL: Access = Access { reads: true, changes: true };
}

/// Every helper that weir knows: number, name, arguments, result, access to memory, and the function of the C half (`weir-rt/c`) that it is; `inlined` where
/// every engine has it inside. Each crate makes of this table what it needs; a row whose function is not there is not linked.
#[rustfmt::skip]
#[macro_export]
macro_rules! helper_table {
    ($with:ident) => {
        $with! {
            (MAP_LOOKUP_ELEM, 1, "map_lookup_elem", [Map, MapKey], MapValueOrNull, NONE, weir_map_lookup_elem)
            (MAP_UPDATE_ELEM, 2, "map_update_elem", [Map, MapKey, MapValue, Scalar], Status, NONE, weir_map_update_elem)
            (MAP_DELETE_ELEM, 3, "map_delete_elem", [Map, MapKey], Status, NONE, weir_map_delete_elem)
            (PROBE_READ, 4, "probe_read", [MemWrite, SizeOrZero, Address], Status, READS, weir_probe_read_user)
            (KTIME_GET_NS, 5, "ktime_get_ns", [], Scalar, NONE, weir_ktime_get_ns)
            (TRACE_PRINTK, 6, "trace_printk", [MemRead, Size, Any, Any, Any], Scalar, READS, weir_trace_printk)
            (GET_PRANDOM_U32, 7, "get_prandom_u32", [], Scalar, NONE, weir_get_prandom_u32)
            (GET_SMP_PROCESSOR_ID, 8, "get_smp_processor_id", [], Scalar, NONE, weir_get_smp_processor_id)
            (TAIL_CALL, 12, "tail_call", [Context, ProgMap, Scalar], Void, NONE, inlined)
            (GET_CURRENT_PID_TGID, 14, "get_current_pid_tgid", [], Scalar, NONE, weir_get_current_pid_tgid)
            (GET_CURRENT_UID_GID, 15, "get_current_uid_gid", [], Scalar, NONE, weir_get_current_uid_gid)
            (GET_CURRENT_COMM, 16, "get_current_comm", [MemWrite, Size], Status, NONE, weir_get_current_comm)
            (PERF_EVENT_OUTPUT, 25, "perf_event_output", [Context, PerfMap, Scalar, MemRead, SizeOrZero], Status, NONE, weir_perf_event_output)
            (SKB_LOAD_BYTES, 26, "skb_load_bytes", [Context, Scalar, MemWrite, Size], Status, NONE, weir_skb_load_bytes)
            (GET_STACKID, 27, "get_stackid", [Context, StackMap, Scalar], Scalar, READS, weir_get_stackid)
            (CSUM_DIFF, 28, "csum_diff", [MemRead, SizeOrZero, MemRead, SizeOrZero, Scalar], Scalar, NONE, weir_csum_diff)
            (REDIRECT, 23, "redirect", [Scalar, Scalar], Scalar, NONE, weir_redirect)
            (PROBE_WRITE_USER, 36, "probe_write_user", [Scalar, MemRead, Size], Status, CHANGES, weir_probe_write_user)
            (CURRENT_TASK_UNDER_CGROUP, 37, "current_task_under_cgroup", [CgroupMap, Scalar], Scalar, NONE, weir_current_task_under_cgroup)
            (GET_NUMA_NODE_ID, 42, "get_numa_node_id", [], Scalar, NONE, weir_get_numa_node_id)
            (XDP_ADJUST_HEAD, 44, "xdp_adjust_head", [Context, Scalar], Status, NONE, weir_not_here)
            (PROBE_READ_STR, 45, "probe_read_str", [StringWrite, SizeOrZero, Address], Length, READS, weir_probe_read_user_str)
            (REDIRECT_MAP, 51, "redirect_map", [RedirectMap, Scalar, Scalar], Scalar, NONE, weir_redirect_map)
            (XDP_ADJUST_META, 54, "xdp_adjust_meta", [Context, Scalar], Status, NONE, weir_not_here)
            (XDP_ADJUST_TAIL, 65, "xdp_adjust_tail", [Context, Scalar], Status, NONE, weir_not_here)
            (GET_STACK, 67, "get_stack", [Context, MemWrite, SizeOrZero, Scalar], Length, READS, weir_get_stack)
            (SKB_LOAD_BYTES_RELATIVE, 68, "skb_load_bytes_relative", [Context, Scalar, MemWrite, Size, Scalar], Status, NONE, weir_skb_load_bytes_relative)
            (FIB_LOOKUP, 69, "fib_lookup", [Context, MemUpdate, Size, Scalar], Status, NONE, weir_not_here)
            (GET_CURRENT_CGROUP_ID, 80, "get_current_cgroup_id", [], Scalar, NONE, weir_get_current_cgroup_id)
            (MAP_PUSH_ELEM, 87, "map_push_elem", [QueueMap, MapValue, Scalar], Status, NONE, weir_map_push_elem)
            (MAP_POP_ELEM, 88, "map_pop_elem", [QueueMap, MapValueOut], Status, NONE, weir_map_pop_elem)
            (MAP_PEEK_ELEM, 89, "map_peek_elem", [QueueMap, MapValueOut], Status, NONE, weir_map_peek_elem)
            (SEND_SIGNAL, 109, "send_signal", [Scalar], Status, CHANGES, weir_send_signal)
            (PROBE_READ_USER, 112, "probe_read_user", [MemWrite, SizeOrZero, Address], Status, READS, weir_probe_read_user)
            (PROBE_READ_KERNEL, 113, "probe_read_kernel", [MemWrite, SizeOrZero, Address], Status, READS, weir_probe_read_user)
            (PROBE_READ_USER_STR, 114, "probe_read_user_str", [StringWrite, SizeOrZero, Address], Length, READS, weir_probe_read_user_str)
            (PROBE_READ_KERNEL_STR, 115, "probe_read_kernel_str", [StringWrite, SizeOrZero, Address], Length, READS, weir_probe_read_user_str)
            (SEND_SIGNAL_THREAD, 117, "send_signal_thread", [Scalar], Status, CHANGES, weir_send_signal_thread)
            (JIFFIES64, 118, "jiffies64", [], Scalar, NONE, weir_jiffies64)
            (GET_NS_CURRENT_PID_TGID, 120, "get_ns_current_pid_tgid", [Scalar, Scalar, MemWrite, Size], Status, NONE, weir_get_ns_current_pid_tgid)
            (KTIME_GET_BOOT_NS, 125, "ktime_get_boot_ns", [], Scalar, NONE, weir_ktime_get_boot_ns)
            (RINGBUF_OUTPUT, 130, "ringbuf_output", [RingMap, MemRead, SizeOrZero, Scalar], Status, NONE, weir_ringbuf_output)
            (RINGBUF_RESERVE, 131, "ringbuf_reserve", [RingMap, ConstSize, Scalar], RingRecordOrNull, NONE, weir_ringbuf_reserve)
            (RINGBUF_SUBMIT, 132, "ringbuf_submit", [RingRecord, Scalar], Void, NONE, weir_ringbuf_submit)
            (RINGBUF_DISCARD, 133, "ringbuf_discard", [RingRecord, Scalar], Void, NONE, weir_ringbuf_discard)
            (RINGBUF_QUERY, 134, "ringbuf_query", [RingMap, Scalar], Scalar, NONE, weir_ringbuf_query)
            (COPY_FROM_USER, 148, "copy_from_user", [MemWrite, SizeOrZero, Address], Status, READS, weir_probe_read_user)
            (KTIME_GET_COARSE_NS, 160, "ktime_get_coarse_ns", [], Scalar, NONE, weir_ktime_get_coarse_ns)
            (FOR_EACH_MAP_ELEM, 164, "for_each_map_elem", [Map, Callback, StackOrNull, Scalar], Scalar, NONE, inlined)
            (SNPRINTF, 165, "snprintf", [StringWrite, SizeOrZero, ConstString, Words, SizeOrZero], Scalar, READS, weir_snprintf)
            (GET_FUNC_IP, 173, "get_func_ip", [Context], Scalar, NONE, weir_get_func_ip)
            (GET_ATTACH_COOKIE, 174, "get_attach_cookie", [Context], Scalar, NONE, inlined)
            (TRACE_VPRINTK, 177, "trace_vprintk", [MemRead, Size, Words, SizeOrZero], Scalar, READS, weir_trace_vprintk)
            (LOOP, 181, "loop", [Scalar, Callback, StackOrNull, Scalar], Scalar, NONE, inlined)
            (STRNCMP, 182, "strncmp", [MemRead, Size, ConstString], Scalar, NONE, weir_strncmp)
            (MAP_LOOKUP_PERCPU_ELEM, 195, "map_lookup_percpu_elem", [Map, MapKey, Scalar], MapValueOrNull, NONE, weir_map_lookup_percpu_elem)
            (REDIRECT_CLASSIFIED, -23, "weir_redirect_classified", [Scalar, Scalar], Scalar, NONE, weir_redirect_classified)
            (MAP_NEXT_KEY, -164, "weir_map_next_key", [Map, Scalar, MemWrite, Size], Scalar, NONE, weir_map_next_key)
            (RINGBUF_RESERVE_DYNPTR, 198, "ringbuf_reserve_dynptr", [RingMap, Scalar, Scalar, NewDynptr], Status, NONE, weir_ringbuf_reserve_dynptr)
            (RINGBUF_SUBMIT_DYNPTR, 199, "ringbuf_submit_dynptr", [ReleasedDynptr, Scalar], Void, NONE, weir_ringbuf_submit_dynptr)
            (RINGBUF_DISCARD_DYNPTR, 200, "ringbuf_discard_dynptr", [ReleasedDynptr, Scalar], Void, NONE, weir_ringbuf_discard_dynptr)
            (DYNPTR_READ, 201, "dynptr_read", [MemWrite, SizeOrZero, Dynptr, Scalar, Scalar], Status, NONE, weir_dynptr_read)
            (DYNPTR_WRITE, 202, "dynptr_write", [Dynptr, Scalar, MemRead, SizeOrZero, Scalar], Status, NONE, weir_dynptr_write)
            (DYNPTR_DATA, 203, "dynptr_data", [Dynptr, Scalar, SliceSize], SliceOrNull, NONE, weir_dynptr_data)
            (KTIME_GET_TAI_NS, 208, "ktime_get_tai_ns", [], Scalar, NONE, weir_ktime_get_tai_ns)
        }
    };
}

macro_rules! rows {
    ($(($id:ident, $number:literal, $name:literal, [$($arg:ident),*], $ret:ident, $access:ident, $function:ident))*) => {
        $(pub const $id: HelperId = $number;)*

        /// The table, by rows.
        pub const HELPERS: &[HelperProto] = &[
            $(HelperProto {
                id: $id,
                name: $name,
                args: &[$(Arg::$arg),*],
                ret: Ret::$ret,
                access: Access::$access,
                function: function(stringify!($function)),
            },)*
        ];
    };
}
helper_table!(rows);

const fn function(symbol: &'static str) -> Option<&'static str> {
    // The only one without the C half's prefix.
    if symbol.as_bytes()[0] == b'i' { None } else { Some(symbol) }
}

/// Helpers that read the packet of a `struct __sk_buff`, which socket filters and classifiers have.
pub const OF_SK_BUFFS: &[HelperId] = &[SKB_LOAD_BYTES, SKB_LOAD_BYTES_RELATIVE];

/// Helpers of XDP programs alone.
pub const OF_XDP: &[HelperId] = &[REDIRECT_MAP, XDP_ADJUST_HEAD, XDP_ADJUST_META, XDP_ADJUST_TAIL];

/// Helpers after which a packet may be elsewhere: its addresses are to be read again.
pub const MOVE_PACKETS: &[HelperId] = &[XDP_ADJUST_HEAD, XDP_ADJUST_META, XDP_ADJUST_TAIL];

/// Bytes of a dynptr (`struct bpf_dynptr`): where its memory is, and how much of it there is.
pub const DYNPTR_BYTES: u32 = 16;
/// Most bytes of a dynptr's memory (the kernel's DYNPTR_MAX_SIZE).
pub const DYNPTR_SIZE_MAX: u32 = (1 << 24) - 1;

/// `bpf_get_current_task`, of programs that run in the kernel: no engine of weir's has it.
pub const GET_CURRENT_TASK: HelperId = 35;

/// Helpers of the kernel that weir does not have, by number and name, with the reason. For messages.
#[rustfmt::skip]
pub const UNSUPPORTED: &[(HelperId, &str, &str)] = &[
    (GET_CURRENT_TASK, "get_current_task", NO_TASK),
    (55,  "perf_event_read_value", "hardware counters are the kernel's"),
    (58,  "override_return",       "it needs a probe that skips the probed function, which weir's do not"),
    (123, "get_current_ancestor_cgroup_id", "a process is told the number of its own control group alone"),
    (153, "per_cpu_ptr",           NO_KSYM),
    (154, "this_cpu_ptr",          NO_KSYM),
    (158, "get_current_task_btf",  NO_TASK),
    (175, "task_pt_regs",          NO_TASK),
];

const NO_TASK: &str = "the task_struct of a thread is in the kernel, which a process cannot read";
const NO_KSYM: &str = "per-CPU variables of the kernel cannot be read in a process";

impl HelperProto {
    /// It calls a function of the program, given in this register.
    pub fn callback(&self) -> Option<u8> {
        let at = self.args.iter().position(|arg| *arg == Arg::Callback)?;
        Some(at as u8 + 1)
    }
}

/// What a call of helper `id` does with memory of the process; one that has no row may do anything.
pub fn access(id: HelperId) -> Access {
    by_id(id).map_or(Access::ALL, |proto| proto.access)
}

/// What helper `id` is in programs of a kind: engines call that one. [`REDIRECT`] has another answer in classifiers.
pub fn of_kind(id: HelperId, kind: ProgramKind) -> HelperId {
    match (id, kind) {
        (REDIRECT, ProgramKind::Classifier) => REDIRECT_CLASSIFIED,
        _ => id,
    }
}

/// The row of helper `id`.
pub fn by_id(id: HelperId) -> Option<&'static HelperProto> {
    HELPERS.iter().find(|proto| proto.id == id)
}

/// The row of the helper named `name` (without `bpf_`).
pub fn by_name(name: &str) -> Option<&'static HelperProto> {
    HELPERS.iter().find(|proto| proto.name == name)
}

/// What the kernel calls helper `id` (without `bpf_`), whether weir has it or not.
pub fn kernel_name(id: HelperId) -> Option<&'static str> {
    let at = usize::try_from(id).ok()?.checked_sub(1)?;
    names::NAMES.get(at).copied()
}

/// The number of the kernel's helper of that name (without `bpf_`), whether weir has it or not.
pub fn kernel_number(name: &str) -> Option<HelperId> {
    let at = names::NAMES.iter().position(|known| *known == name)?;
    Some(at as HelperId + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The arguments of a helper show whether it may read at an address; only for whole stacks they do not. A wrong row is a way around a policy.
    #[test]
    fn what_takes_addresses_reads_memory() {
        let takes = |arg: &Arg| matches!(arg, Arg::Address | Arg::Words | Arg::Any | Arg::StackMap);
        for proto in HELPERS {
            let reads = proto.args.iter().any(takes) || proto.id == GET_STACK;
            let changes = proto.name.ends_with("write_user") || proto.name.starts_with("send_signal");
            assert_eq!(proto.access, Access { reads, changes }, "{}", proto.name);
        }
        for unknown in [-1, 0, 35, 10_000] {
            assert_eq!(access(unknown), Access::ALL);
        }
    }

    #[test]
    fn rows_are_called_as_the_kernel_calls_them() {
        let of_kernel = |proto: &&HelperProto| proto.id > 0;
        let rows = HELPERS.iter().filter(of_kernel).map(|proto| (proto.id, proto.name));
        let unsupported = UNSUPPORTED.iter().map(|(id, name, _)| (*id, *name));
        for (id, name) in rows.chain(unsupported) {
            assert_eq!((kernel_name(id), kernel_number(name)), (Some(name), Some(id)));
        }
        let names =
            [(44, Some("xdp_adjust_head")), (211, Some("cgrp_storage_delete")), (212, None), (0, None)];
        for (id, name) in names.into_iter().chain([(-1, None), (HelperId::MIN, None)]) {
            assert_eq!(kernel_name(id), name, "{id}");
        }
    }
}
