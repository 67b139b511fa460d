//! Helper functions: number, name and the contract that the verifier holds callers to.
//!
//! Numbers, names and meanings are the kernel's (`enum bpf_func_id`, bpf-helpers(7)). A helper is one row. Of those
//! that are not here, the kernel's name alone is known ([`kernel_name`]).

mod names;

/// A helper's number, as in the `imm` of a `CALL`.
pub type HelperId = i32;

pub const MAP_LOOKUP_ELEM: HelperId = 1;
pub const MAP_UPDATE_ELEM: HelperId = 2;
pub const MAP_DELETE_ELEM: HelperId = 3;
pub const PROBE_READ: HelperId = 4;
pub const KTIME_GET_NS: HelperId = 5;
pub const TRACE_PRINTK: HelperId = 6;
pub const GET_PRANDOM_U32: HelperId = 7;
pub const GET_SMP_PROCESSOR_ID: HelperId = 8;
pub const TAIL_CALL: HelperId = 12;
pub const GET_CURRENT_PID_TGID: HelperId = 14;
pub const GET_CURRENT_UID_GID: HelperId = 15;
pub const GET_CURRENT_COMM: HelperId = 16;
pub const PERF_EVENT_OUTPUT: HelperId = 25;
pub const GET_STACKID: HelperId = 27;
pub const SKB_LOAD_BYTES: HelperId = 26;
pub const CSUM_DIFF: HelperId = 28;
pub const PROBE_WRITE_USER: HelperId = 36;
pub const CURRENT_TASK_UNDER_CGROUP: HelperId = 37;
pub const GET_NUMA_NODE_ID: HelperId = 42;
pub const PROBE_READ_STR: HelperId = 45;
pub const GET_STACK: HelperId = 67;
pub const SKB_LOAD_BYTES_RELATIVE: HelperId = 68;
pub const GET_CURRENT_CGROUP_ID: HelperId = 80;
pub const MAP_PUSH_ELEM: HelperId = 87;
pub const MAP_POP_ELEM: HelperId = 88;
pub const MAP_PEEK_ELEM: HelperId = 89;
pub const SEND_SIGNAL: HelperId = 109;
pub const PROBE_READ_USER: HelperId = 112;
pub const PROBE_READ_KERNEL: HelperId = 113;
pub const PROBE_READ_USER_STR: HelperId = 114;
pub const PROBE_READ_KERNEL_STR: HelperId = 115;
pub const SEND_SIGNAL_THREAD: HelperId = 117;
pub const JIFFIES64: HelperId = 118;
pub const GET_NS_CURRENT_PID_TGID: HelperId = 120;
pub const KTIME_GET_BOOT_NS: HelperId = 125;
pub const RINGBUF_OUTPUT: HelperId = 130;
pub const RINGBUF_RESERVE: HelperId = 131;
pub const RINGBUF_SUBMIT: HelperId = 132;
pub const RINGBUF_DISCARD: HelperId = 133;
pub const RINGBUF_QUERY: HelperId = 134;
/// What is asked besides the kernel's questions, which answers 0 to it: whether there is room by now, of which the bits below say how many
/// milliseconds are to be waited for it at most. Inside a traced process alone.
pub const RB_WAIT: i32 = 1 << 30;
pub const COPY_FROM_USER: HelperId = 148;
pub const KTIME_GET_COARSE_NS: HelperId = 160;
pub const FOR_EACH_MAP_ELEM: HelperId = 164;
pub const SNPRINTF: HelperId = 165;
pub const GET_FUNC_IP: HelperId = 173;
pub const GET_ATTACH_COOKIE: HelperId = 174;
pub const TRACE_VPRINTK: HelperId = 177;
pub const LOOP: HelperId = 181;
pub const STRNCMP: HelperId = 182;
pub const MAP_LOOKUP_PERCPU_ELEM: HelperId = 195;
pub const KTIME_GET_TAI_NS: HelperId = 208;

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

const NONE: Access = Access::NONE;
const READS: Access = Access::READS;
const CHANGES: Access = Access::CHANGES;

const fn row(
    id: HelperId,
    name: &'static str,
    args: &'static [Arg],
    ret: Ret,
    access: Access,
) -> HelperProto {
    HelperProto { id, name, args, ret, access }
}

/// Every helper that weir knows.
#[rustfmt::skip]
pub const HELPERS: &[HelperProto] = &[
    row(MAP_LOOKUP_ELEM,       "map_lookup_elem",       &[Arg::Map, Arg::MapKey],                             Ret::MapValueOrNull, NONE),
    row(MAP_UPDATE_ELEM,       "map_update_elem",       &[Arg::Map, Arg::MapKey, Arg::MapValue, Arg::Scalar], Ret::Status, NONE),
    row(MAP_DELETE_ELEM,       "map_delete_elem",       &[Arg::Map, Arg::MapKey],                             Ret::Status, NONE),
    row(PROBE_READ,            "probe_read",            &[Arg::MemWrite, Arg::SizeOrZero, Arg::Address],      Ret::Status, READS),
    row(KTIME_GET_NS,          "ktime_get_ns",          &[],                                                  Ret::Scalar, NONE),
    row(TRACE_PRINTK,          "trace_printk",          &[Arg::MemRead, Arg::Size, Arg::Any, Arg::Any, Arg::Any], Ret::Scalar, READS),
    row(GET_PRANDOM_U32,       "get_prandom_u32",       &[],                                                  Ret::Scalar, NONE),
    row(GET_SMP_PROCESSOR_ID,  "get_smp_processor_id",  &[],                                                  Ret::Scalar, NONE),
    row(TAIL_CALL,             "tail_call",             &[Arg::Context, Arg::ProgMap, Arg::Scalar],          Ret::Void, NONE),
    row(GET_CURRENT_PID_TGID,  "get_current_pid_tgid",  &[],                                                  Ret::Scalar, NONE),
    row(GET_CURRENT_UID_GID,   "get_current_uid_gid",   &[],                                                  Ret::Scalar, NONE),
    row(GET_CURRENT_COMM,      "get_current_comm",      &[Arg::MemWrite, Arg::Size],                          Ret::Status, NONE),
    row(PERF_EVENT_OUTPUT,     "perf_event_output",     &[Arg::Context, Arg::PerfMap, Arg::Scalar, Arg::MemRead, Arg::SizeOrZero], Ret::Status, NONE),
    row(SKB_LOAD_BYTES,        "skb_load_bytes",        &[Arg::Context, Arg::Scalar, Arg::MemWrite, Arg::Size], Ret::Status, NONE),
    row(GET_STACKID,           "get_stackid",           &[Arg::Context, Arg::StackMap, Arg::Scalar],          Ret::Scalar, READS),
    row(CSUM_DIFF,             "csum_diff",             &[Arg::MemRead, Arg::SizeOrZero, Arg::MemRead, Arg::SizeOrZero, Arg::Scalar], Ret::Scalar, NONE),
    row(PROBE_WRITE_USER,      "probe_write_user",      &[Arg::Scalar, Arg::MemRead, Arg::Size],              Ret::Status, CHANGES),
    row(CURRENT_TASK_UNDER_CGROUP, "current_task_under_cgroup", &[Arg::CgroupMap, Arg::Scalar],               Ret::Scalar, NONE),
    row(GET_NUMA_NODE_ID,      "get_numa_node_id",      &[],                                                  Ret::Scalar, NONE),
    row(PROBE_READ_STR,        "probe_read_str",        &[Arg::StringWrite, Arg::SizeOrZero, Arg::Address],   Ret::Length, READS),
    row(GET_STACK,             "get_stack",             &[Arg::Context, Arg::MemWrite, Arg::SizeOrZero, Arg::Scalar], Ret::Length, READS),
    row(SKB_LOAD_BYTES_RELATIVE, "skb_load_bytes_relative", &[Arg::Context, Arg::Scalar, Arg::MemWrite, Arg::Size, Arg::Scalar], Ret::Status, NONE),
    row(GET_CURRENT_CGROUP_ID, "get_current_cgroup_id", &[],                                                  Ret::Scalar, NONE),
    row(MAP_PUSH_ELEM,        "map_push_elem",        &[Arg::QueueMap, Arg::MapValue, Arg::Scalar],         Ret::Status, NONE),
    row(MAP_POP_ELEM,         "map_pop_elem",         &[Arg::QueueMap, Arg::MapValueOut],                   Ret::Status, NONE),
    row(MAP_PEEK_ELEM,        "map_peek_elem",        &[Arg::QueueMap, Arg::MapValueOut],                   Ret::Status, NONE),
    row(SEND_SIGNAL,           "send_signal",           &[Arg::Scalar],                                       Ret::Status, CHANGES),
    row(PROBE_READ_USER,       "probe_read_user",       &[Arg::MemWrite, Arg::SizeOrZero, Arg::Address],      Ret::Status, READS),
    row(PROBE_READ_KERNEL,     "probe_read_kernel",     &[Arg::MemWrite, Arg::SizeOrZero, Arg::Address],      Ret::Status, READS),
    row(PROBE_READ_USER_STR,   "probe_read_user_str",   &[Arg::StringWrite, Arg::SizeOrZero, Arg::Address],   Ret::Length, READS),
    row(PROBE_READ_KERNEL_STR, "probe_read_kernel_str", &[Arg::StringWrite, Arg::SizeOrZero, Arg::Address],   Ret::Length, READS),
    row(SEND_SIGNAL_THREAD,    "send_signal_thread",    &[Arg::Scalar],                                       Ret::Status, CHANGES),
    row(JIFFIES64,             "jiffies64",             &[],                                                  Ret::Scalar, NONE),
    row(GET_NS_CURRENT_PID_TGID, "get_ns_current_pid_tgid", &[Arg::Scalar, Arg::Scalar, Arg::MemWrite, Arg::Size], Ret::Status, NONE),
    row(KTIME_GET_BOOT_NS,     "ktime_get_boot_ns",     &[],                                                  Ret::Scalar, NONE),
    row(RINGBUF_OUTPUT,        "ringbuf_output",        &[Arg::RingMap, Arg::MemRead, Arg::SizeOrZero, Arg::Scalar], Ret::Status, NONE),
    row(RINGBUF_RESERVE,       "ringbuf_reserve",       &[Arg::RingMap, Arg::ConstSize, Arg::Scalar],         Ret::RingRecordOrNull, NONE),
    row(RINGBUF_SUBMIT,        "ringbuf_submit",        &[Arg::RingRecord, Arg::Scalar],                      Ret::Void, NONE),
    row(RINGBUF_DISCARD,       "ringbuf_discard",       &[Arg::RingRecord, Arg::Scalar],                      Ret::Void, NONE),
    row(RINGBUF_QUERY,         "ringbuf_query",         &[Arg::RingMap, Arg::Scalar],                         Ret::Scalar, NONE),
    row(COPY_FROM_USER,        "copy_from_user",        &[Arg::MemWrite, Arg::SizeOrZero, Arg::Address],      Ret::Status, READS),
    row(KTIME_GET_COARSE_NS,   "ktime_get_coarse_ns",   &[],                                                  Ret::Scalar, NONE),
    row(FOR_EACH_MAP_ELEM,     "for_each_map_elem",     &[Arg::Map, Arg::Callback, Arg::StackOrNull, Arg::Scalar], Ret::Scalar, NONE),
    row(SNPRINTF,              "snprintf",              &[Arg::StringWrite, Arg::SizeOrZero, Arg::ConstString, Arg::Words, Arg::SizeOrZero], Ret::Scalar, READS),
    row(GET_FUNC_IP,           "get_func_ip",           &[Arg::Context],                                      Ret::Scalar, NONE),
    row(GET_ATTACH_COOKIE,     "get_attach_cookie",     &[Arg::Context],                                      Ret::Scalar, NONE),
    row(TRACE_VPRINTK,         "trace_vprintk",         &[Arg::MemRead, Arg::Size, Arg::Words, Arg::SizeOrZero], Ret::Scalar, READS),
    row(LOOP,                  "loop",                  &[Arg::Scalar, Arg::Callback, Arg::StackOrNull, Arg::Scalar], Ret::Scalar, NONE),
    row(STRNCMP,               "strncmp",               &[Arg::MemRead, Arg::Size, Arg::ConstString],         Ret::Scalar, NONE),
    row(MAP_LOOKUP_PERCPU_ELEM, "map_lookup_percpu_elem", &[Arg::Map, Arg::MapKey, Arg::Scalar],             Ret::MapValueOrNull, NONE),
    row(KTIME_GET_TAI_NS,      "ktime_get_tai_ns",      &[],                                                  Ret::Scalar, NONE),
];

/// Helpers that read the packet of a socket filter, which programs of other kinds have not.
pub const OF_SOCKET_FILTERS: &[HelperId] = &[SKB_LOAD_BYTES, SKB_LOAD_BYTES_RELATIVE];

/// Helpers of the kernel that weir does not have, by number and name, with the reason. For messages.
#[rustfmt::skip]
pub const UNSUPPORTED: &[(HelperId, &str, &str)] = &[
    (35,  "get_current_task",      NO_TASK),
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
        let rows = HELPERS.iter().map(|proto| (proto.id, proto.name));
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
