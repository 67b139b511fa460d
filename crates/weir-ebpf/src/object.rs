//! Programs and the object that holds them with their maps.

use std::fmt;

use crate::{Insn, MapSpec};

/// What a program is run for; it decides what is in r1 (and r2) when it starts.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ProgramKind {
    /// r1 is a `struct pt_regs *` (uprobe; the kernel's BPF_PROG_TYPE_KPROBE).
    Probe,
    /// Runs in the controller (BEGIN, END, interval): r1 is a zeroed `pt_regs`.
    Controller,
    /// r1 points to the fields of an event, as 8-byte slots and smaller parts of them, 168 bytes at most
    /// (BPF_PROG_TYPE_TRACEPOINT, and BPF_PROG_TYPE_RAW_TRACEPOINT, whose fields are its arguments).
    Tracepoint,
    /// r1 points to the arguments of a function, a tracepoint or a hook of the kernel, as 8-byte slots, and what it answers after
    /// them (BPF_PROG_TYPE_TRACING and BPF_PROG_TYPE_LSM). Those that are pointers are numbers here: what they lead to is read by
    /// helpers alone.
    Tracing,
    /// r1 is a `struct __sk_buff *`; the packet is read by packet loads (BPF_PROG_TYPE_SOCKET_FILTER).
    SocketFilter,
    /// r1 is a `struct xdp_md *`; the packet is read and written through its addresses (BPF_PROG_TYPE_XDP).
    Xdp,
    /// r1 is a `struct __sk_buff *`; the packet, link header first, is read and written through its addresses, and read by
    /// packet loads (BPF_PROG_TYPE_SCHED_CLS, of tc and tcx).
    Classifier,
    /// r1 is a `struct __sk_buff *`; the packet, network header first, is read through its addresses
    /// (BPF_PROG_TYPE_CGROUP_SKB).
    CgroupSkb,
    /// r1 is a `struct bpf_sock *`, of a socket that is made or released: numbers alone (BPF_PROG_TYPE_CGROUP_SOCK).
    CgroupSock,
    /// r1 is a `struct sk_msg_md *`; the message is read and written through its addresses (BPF_PROG_TYPE_SK_MSG).
    SkMsg,
    /// r1 is a `struct __sk_buff *`; the packet is read through its addresses, and what is found in it is written to a
    /// `struct bpf_flow_keys` (BPF_PROG_TYPE_FLOW_DISSECTOR).
    FlowDissector,
    /// r1 points to `bytes` bytes that may be read and written, or is 0 if there are none; r2 is their number. The
    /// kernel has no such programs.
    Memory { bytes: u32 },
}

impl ProgramKind {
    /// The words that begin a kind in assembly text, and are section names where libbpf has the kind.
    pub const NAMES: [&'static str; 12] = [
        "probe",
        "controller",
        "tracepoint",
        "tracing",
        "socket",
        "xdp",
        "classifier",
        "cgroup_skb",
        "cgroup_sock",
        "sk_msg",
        "flow_dissector",
        "memory",
    ];

    pub fn name(self) -> &'static str {
        match self {
            ProgramKind::Probe => "probe",
            ProgramKind::Controller => "controller",
            ProgramKind::Tracepoint => "tracepoint",
            ProgramKind::Tracing => "tracing",
            ProgramKind::SocketFilter => "socket",
            ProgramKind::Xdp => "xdp",
            ProgramKind::Classifier => "classifier",
            ProgramKind::CgroupSkb => "cgroup_skb",
            ProgramKind::CgroupSock => "cgroup_sock",
            ProgramKind::SkMsg => "sk_msg",
            ProgramKind::FlowDissector => "flow_dissector",
            ProgramKind::Memory { .. } => "memory",
        }
    }

    /// r1 points to the slots of a `pt_regs`, or as many of an event: numbers that are read alone.
    pub fn is_probe(self) -> bool {
        use ProgramKind::{Controller, Probe, Tracepoint, Tracing};
        matches!(self, Probe | Controller | Tracepoint | Tracing)
    }

    /// The context has fields, of a packet most often (see [`context`](crate::context)).
    pub fn is_packet(self) -> bool {
        use ProgramKind::{CgroupSock, FlowDissector, SkMsg, Xdp};
        matches!(self, Xdp | SkMsg | CgroupSock | FlowDissector) || self.is_sk_buff()
    }

    /// The context is a `struct __sk_buff`, so that helpers of such are there.
    pub fn is_sk_buff(self) -> bool {
        matches!(self, ProgramKind::SocketFilter | ProgramKind::Classifier | ProgramKind::CgroupSkb)
    }

    /// Packet loads (RFC 9669, 5.5) are there.
    pub fn has_packet_loads(self) -> bool {
        matches!(self, ProgramKind::SocketFilter | ProgramKind::Classifier)
    }

    /// What is before the packet that the program sees is its link header.
    pub fn begins_behind_link(self) -> bool {
        matches!(self, ProgramKind::SocketFilter | ProgramKind::CgroupSkb)
    }

    /// The packet is reached through addresses that the context holds.
    pub fn has_packet_addresses(self) -> bool {
        self.writes_packets() || matches!(self, ProgramKind::CgroupSkb | ProgramKind::FlowDissector)
    }

    /// Through those addresses it is written, too.
    pub fn writes_packets(self) -> bool {
        matches!(self, ProgramKind::Xdp | ProgramKind::Classifier | ProgramKind::SkMsg)
    }

    /// The most that a program may answer, where that is bounded.
    pub fn answer_max(self) -> Option<u64> {
        match self {
            // Of packets that go out; of those that come in, the kernel takes 0 and 1 alone.
            ProgramKind::CgroupSkb => Some(3),
            ProgramKind::CgroupSock => Some(1),
            _ => None,
        }
    }
}

/// As in assembly text.
impl fmt::Display for ProgramKind {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ProgramKind::Memory { bytes } => write!(out, "memory {bytes}"),
            kind => out.write_str(kind.name()),
        }
    }
}

/// One program. Map references in `LD_IMM64` are indices into the object's maps (`pseudo::MAP_INDEX*`).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Program {
    /// Name as in messages: what the user wrote, such as `uprobe:libc:malloc`.
    pub name: String,
    pub kind: ProgramKind,
    pub insns: Vec<Insn>,
}

/// Programs that share maps.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Object {
    pub maps: Vec<MapSpec>,
    pub programs: Vec<Program>,
}
