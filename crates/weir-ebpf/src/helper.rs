//! Helper functions: number, name and the contract that the verifier holds callers to.
//!
//! Numbers, names and meanings are the kernel's (`enum bpf_func_id`, bpf-helpers(7)). A helper is one row.

/// A helper's number, as in the `imm` of a `CALL`.
pub type HelperId = i32;

pub const MAP_LOOKUP_ELEM: HelperId = 1;
pub const MAP_UPDATE_ELEM: HelperId = 2;
pub const MAP_DELETE_ELEM: HelperId = 3;
pub const KTIME_GET_NS: HelperId = 5;
pub const GET_SMP_PROCESSOR_ID: HelperId = 8;
pub const GET_CURRENT_PID_TGID: HelperId = 14;
pub const GET_CURRENT_COMM: HelperId = 16;
pub const MAP_PUSH_ELEM: HelperId = 87;
pub const MAP_POP_ELEM: HelperId = 88;
pub const MAP_PEEK_ELEM: HelperId = 89;
pub const PROBE_READ_USER: HelperId = 112;
pub const PROBE_READ_USER_STR: HelperId = 114;
pub const RINGBUF_OUTPUT: HelperId = 130;
pub const RINGBUF_RESERVE: HelperId = 131;
pub const RINGBUF_SUBMIT: HelperId = 132;
pub const RINGBUF_DISCARD: HelperId = 133;
pub const GET_ATTACH_COOKIE: HelperId = 174;

/// What a helper wants in one argument register.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Arg {
    /// Any initialised scalar (pointers are refused: they would leak).
    Scalar,
    /// A map from `LD_IMM64`, of a kind that has keys.
    Map,
    /// A map from `LD_IMM64` that is a ring.
    RingMap,
    /// A map from `LD_IMM64` that is a queue or a stack.
    QueueMap,
    /// Readable memory of the map's key size.
    MapKey,
    /// Readable memory of the map's value size.
    MapValue,
    /// Writable memory of the map's value size; it need not be initialised, and is afterwards, whatever the answer.
    MapValueOut,
    /// Readable, initialised memory whose size is the next argument.
    MemRead,
    /// Writable memory whose size is the next argument; it need not be initialised.
    MemWrite,
    /// Size of the preceding memory argument: a scalar known to be within 1..=its size.
    Size,
    /// As `Size`, but 0 is allowed.
    SizeOrZero,
    /// A scalar that must be a known constant (the record size of a reservation).
    ConstSize,
    /// A record from `ringbuf_reserve`; the call takes it back.
    RingRecord,
    /// The context.
    Context,
}

/// What a helper leaves in r0.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ret {
    /// Any 64-bit number.
    Scalar,
    /// 0 or a negative errno.
    Status,
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
}

const fn row(id: HelperId, name: &'static str, args: &'static [Arg], ret: Ret) -> HelperProto {
    HelperProto { id, name, args, ret }
}

/// Every helper that weir knows.
#[rustfmt::skip]
pub const HELPERS: &[HelperProto] = &[
    row(MAP_LOOKUP_ELEM,      "map_lookup_elem",      &[Arg::Map, Arg::MapKey],                             Ret::MapValueOrNull),
    row(MAP_UPDATE_ELEM,      "map_update_elem",      &[Arg::Map, Arg::MapKey, Arg::MapValue, Arg::Scalar], Ret::Status),
    row(MAP_DELETE_ELEM,      "map_delete_elem",      &[Arg::Map, Arg::MapKey],                             Ret::Status),
    row(KTIME_GET_NS,         "ktime_get_ns",         &[],                                                  Ret::Scalar),
    row(GET_SMP_PROCESSOR_ID, "get_smp_processor_id", &[],                                                  Ret::Scalar),
    row(GET_CURRENT_PID_TGID, "get_current_pid_tgid", &[],                                                  Ret::Scalar),
    row(GET_CURRENT_COMM,     "get_current_comm",     &[Arg::MemWrite, Arg::Size],                          Ret::Status),
    row(MAP_PUSH_ELEM,        "map_push_elem",        &[Arg::QueueMap, Arg::MapValue, Arg::Scalar],         Ret::Status),
    row(MAP_POP_ELEM,         "map_pop_elem",         &[Arg::QueueMap, Arg::MapValueOut],                   Ret::Status),
    row(MAP_PEEK_ELEM,        "map_peek_elem",        &[Arg::QueueMap, Arg::MapValueOut],                   Ret::Status),
    row(PROBE_READ_USER,      "probe_read_user",      &[Arg::MemWrite, Arg::SizeOrZero, Arg::Scalar],       Ret::Status),
    row(PROBE_READ_USER_STR,  "probe_read_user_str",  &[Arg::MemWrite, Arg::SizeOrZero, Arg::Scalar],       Ret::Scalar),
    row(RINGBUF_OUTPUT,       "ringbuf_output",       &[Arg::RingMap, Arg::MemRead, Arg::SizeOrZero, Arg::Scalar], Ret::Status),
    row(RINGBUF_RESERVE,      "ringbuf_reserve",      &[Arg::RingMap, Arg::ConstSize, Arg::Scalar],         Ret::RingRecordOrNull),
    row(RINGBUF_SUBMIT,       "ringbuf_submit",       &[Arg::RingRecord, Arg::Scalar],                      Ret::Void),
    row(RINGBUF_DISCARD,      "ringbuf_discard",      &[Arg::RingRecord, Arg::Scalar],                      Ret::Void),
    row(GET_ATTACH_COOKIE,    "get_attach_cookie",    &[Arg::Context],                                      Ret::Scalar),
];

/// The row of helper `id`.
pub fn by_id(id: HelperId) -> Option<&'static HelperProto> {
    HELPERS.iter().find(|proto| proto.id == id)
}

/// The row of the helper named `name` (without `bpf_`).
pub fn by_name(name: &str) -> Option<&'static HelperProto> {
    HELPERS.iter().find(|proto| proto.name == name)
}
