//! Contexts that are not `pt_regs`: what programs see of a packet, and where weir keeps it.
//!
//! A program reads the fields of the kernel's `struct xdp_md` or `struct __sk_buff` at the kernel's offsets and widths.
//! weir hands a context over as 21 slots of 8 bytes (`weir_rt::executable::Frame`), in which a packet's addresses have
//! their 8 bytes. A [`Field`] says where an access goes. One row of [`XDP`], [`SOCKET`] and the other tables is one field;
//! what has no row is refused.
//!
//! Sources: Linux include/uapi/linux/bpf.h (offsets); what may be accessed, and how, was tried on Linux 6.18.

use crate::ProgramKind;

/// Byte offsets of the slots of a packet's context. Addresses first.
pub mod packet {
    /// First byte of the packet that the program sees.
    pub const DATA: u32 = 0;
    /// Behind the last one.
    pub const DATA_END: u32 = 8;
    /// First byte of the metadata, which ends where the packet begins.
    pub const DATA_META: u32 = 16;
    /// First byte of the link header, at or before [`DATA`].
    pub const LINK: u32 = 24;
    /// First byte of the network header.
    pub const NETWORK: u32 = 32;
    /// Where the packet loads (RFC 9669, 5.5: `LD_ABS`, `LD_IND`) at an offset find their bytes: the slot that they
    /// count from, and the distance from there. None: nowhere, they end the program. (The kernel's SKF_NET_OFF,
    /// SKF_LL_OFF.)
    pub fn load_base(offset: i32) -> Option<(u32, i32)> {
        match offset {
            0.. => Some((DATA, offset)),
            NETWORK_FROM.. => Some((NETWORK, offset - NETWORK_FROM)),
            LINK_FROM.. => Some((LINK, offset - LINK_FROM)),
            _ => None,
        }
    }
    /// Offsets from here to −1 count from the network header, and those below, from [`LINK_FROM`] on, from the link
    /// header.
    pub const NETWORK_FROM: i32 = -0x10_0000;
    pub const LINK_FROM: i32 = -0x20_0000;
    /// Where the 4-byte fields begin.
    pub const FIELDS: u32 = 40;
}

/// Byte offsets of the slots of a [`ProgramKind::Memory`].
pub mod memory {
    /// Address of the memory, a multiple of 8, or 0.
    pub const ADDRESS: u32 = 0;
    /// Its bytes.
    pub const BYTES: u32 = 8;
}

/// What a load of a field gives.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Meaning {
    Number,
    /// The address of the packet, of its end, of its metadata: 8 bytes in weir's slots.
    Data,
    DataEnd,
    DataMeta,
    /// The address of [`FLOW_KEYS_BYTES`] bytes, which stand where metadata would.
    FlowKeys,
}

/// How wide an access to a field may be. All are aligned to their width.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Widths {
    /// The whole field alone.
    Whole,
    /// Reads may be of a part; writes are of the whole field.
    Parts,
    /// Reads may be of the lower part, from the first byte on; writes are of the whole field.
    Low,
    /// Whatever fits.
    Any,
}

/// One field of a context's structure.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Field {
    pub name: &'static str,
    /// In the kernel's structure.
    pub offset: u32,
    pub bytes: u32,
    /// Byte offset in weir's slots.
    pub at: u32,
    pub meaning: Meaning,
    pub widths: Widths,
    pub writable: bool,
    /// Bytes that a write leaves, the lower ones: of some fields the kernel keeps fewer than it shows. The others are 0.
    pub kept: u32,
}

/// Bytes of `struct xdp_md`, and its fields.
pub const XDP_BYTES: u32 = 24;
#[rustfmt::skip]
pub const XDP: &[Field] = &[
    address("data",            0, packet::DATA,      Meaning::Data),
    address("data_end",        4, packet::DATA_END,  Meaning::DataEnd),
    address("data_meta",       8, packet::DATA_META, Meaning::DataMeta),
    number("ingress_ifindex", 12, packet::FIELDS,     Widths::Whole),
    number("rx_queue_index",  16, packet::FIELDS + 4, Widths::Whole),
];

// The fields of a `struct __sk_buff`, each where all kinds of program have it.
// None but `cb` may be written unless a kind of program says so.
const LEN: Field = number("len", 0, packet::FIELDS, Widths::Parts);
const PKT_TYPE: Field = number("pkt_type", 4, packet::FIELDS + 4, Widths::Parts);
const MARK: Field = number("mark", 8, packet::FIELDS + 8, Widths::Parts);
const QUEUE_MAPPING: Field = number("queue_mapping", 12, packet::FIELDS + 12, Widths::Parts);
const PROTOCOL: Field = number("protocol", 16, packet::FIELDS + 16, Widths::Parts);
const VLAN_PRESENT: Field = number("vlan_present", 20, packet::FIELDS + 20, Widths::Parts);
const VLAN_TCI: Field = number("vlan_tci", 24, packet::FIELDS + 24, Widths::Parts);
const VLAN_PROTO: Field = number("vlan_proto", 28, packet::FIELDS + 28, Widths::Parts);
const PRIORITY: Field = number("priority", 32, packet::FIELDS + 32, Widths::Parts);
const INGRESS_IFINDEX: Field = number("ingress_ifindex", 36, packet::FIELDS + 36, Widths::Parts);
const IFINDEX: Field = number("ifindex", 40, packet::FIELDS + 40, Widths::Parts);
const TC_INDEX: Field = number("tc_index", 44, packet::FIELDS + 44, Widths::Parts);
/// Five words for the program's own use.
const CB: Field = Field { bytes: 20, ..writable(number("cb", 48, packet::FIELDS + 48, Widths::Any), 20) };
const HASH: Field = number("hash", 68, packet::FIELDS + 68, Widths::Parts);
const TC_CLASSID: Field = number("tc_classid", 72, packet::FIELDS + 84, Widths::Parts);
const DATA: Field = address("data", 76, packet::DATA, Meaning::Data);
const DATA_END: Field = address("data_end", 80, packet::DATA_END, Meaning::DataEnd);
const NAPI_ID: Field = number("napi_id", 84, packet::FIELDS + 72, Widths::Parts);
const DATA_META: Field = address("data_meta", 140, packet::DATA_META, Meaning::DataMeta);
const FLOW_KEYS: Field = wide(address("flow_keys", 144, packet::DATA_META, Meaning::FlowKeys));
const TSTAMP: Field = wide(number("tstamp", 152, packet::FIELDS + 96, Widths::Whole));
const WIRE_LEN: Field = number("wire_len", 160, packet::FIELDS + 88, Widths::Parts);
const GSO_SEGS: Field = number("gso_segs", 164, packet::FIELDS + 76, Widths::Parts);
const GSO_SIZE: Field = number("gso_size", 176, packet::FIELDS + 80, Widths::Parts);
const TSTAMP_TYPE: Field =
    Field { bytes: 1, ..number("tstamp_type", 180, packet::FIELDS + 92, Widths::Whole) };
const HWTSTAMP: Field = wide(number("hwtstamp", 184, packet::FIELDS + 104, Widths::Whole));

/// Bytes of `struct __sk_buff`, and the fields that a socket filter may use.
pub const SK_BUFF_BYTES: u32 = 192;
#[rustfmt::skip]
pub const SOCKET: &[Field] = &[
    LEN, PKT_TYPE, MARK, QUEUE_MAPPING, PROTOCOL, VLAN_PRESENT, VLAN_TCI, VLAN_PROTO, PRIORITY, INGRESS_IFINDEX, IFINDEX,
    TC_INDEX, CB, HASH, NAPI_ID, GSO_SEGS, GSO_SIZE,
];

/// The fields that a classifier may use. Those that a socket filter has too stand in the same places.
#[rustfmt::skip]
pub const CLASSIFIER: &[Field] = &[
    LEN, PKT_TYPE, writable(MARK, 4),
    // The kernel ignores a write of 0xffff or more here; weir keeps its lower half.
    writable(QUEUE_MAPPING, 2),
    PROTOCOL, VLAN_PRESENT, VLAN_TCI, VLAN_PROTO, writable(PRIORITY, 4), INGRESS_IFINDEX, IFINDEX,
    writable(TC_INDEX, 2), CB, HASH, writable(TC_CLASSID, 2), DATA, DATA_END, NAPI_ID, DATA_META,
    writable(TSTAMP, 8), WIRE_LEN, GSO_SEGS, GSO_SIZE, TSTAMP_TYPE, HWTSTAMP,
];

/// The fields that a program of a control group's packets may use, in the places of the others.
/// LIMIT: what the kernel takes from the packet's socket (`family` to `local_port`) is not there.
#[rustfmt::skip]
pub const CGROUP_SKB: &[Field] = &[
    LEN, PKT_TYPE, writable(MARK, 4), QUEUE_MAPPING, PROTOCOL, VLAN_PRESENT, VLAN_TCI, VLAN_PROTO, writable(PRIORITY, 4),
    INGRESS_IFINDEX, IFINDEX, TC_INDEX, CB, HASH, DATA, DATA_END, NAPI_ID, writable(TSTAMP, 8), GSO_SEGS, GSO_SIZE,
    HWTSTAMP,
];

/// Bytes of `struct bpf_sock`, and the fields that a program of a control group's sockets may use.
pub const SOCK_BYTES: u32 = 80;
#[rustfmt::skip]
pub const CGROUP_SOCK: &[Field] = &[
    writable(number("bound_dev_if", 0, packet::FIELDS, Widths::Whole), 4),
    number("family",            4, packet::FIELDS +  4, Widths::Low),
    number("type",              8, packet::FIELDS +  8, Widths::Low),
    number("protocol",         12, packet::FIELDS + 12, Widths::Low),
    writable(number("mark",    16, packet::FIELDS + 16, Widths::Whole), 4),
    writable(number("priority", 20, packet::FIELDS + 20, Widths::Whole), 4),
    // LIMIT: not its second byte alone.
    number("dst_port",         48, packet::FIELDS + 32, Widths::Low),
    number("dst_ip4",          52, packet::FIELDS + 36, Widths::Parts),
    number("dst_ip6[0]",       56, packet::FIELDS + 40, Widths::Parts),
    number("dst_ip6[1]",       60, packet::FIELDS + 44, Widths::Parts),
    number("dst_ip6[2]",       64, packet::FIELDS + 48, Widths::Parts),
    number("dst_ip6[3]",       68, packet::FIELDS + 52, Widths::Parts),
    number("state",            72, packet::FIELDS + 24, Widths::Low),
    number("rx_queue_mapping", 76, packet::FIELDS + 28, Widths::Low),
];

/// Bytes of `struct sk_msg_md`, and its fields.
/// LIMIT: its socket (`sk`) is not there.
pub const SK_MSG_BYTES: u32 = 80;
#[rustfmt::skip]
pub const SK_MSG: &[Field] = &[
    Field { bytes: 8, ..address("data", 0, packet::DATA, Meaning::Data) },
    Field { bytes: 8, ..address("data_end", 8, packet::DATA_END, Meaning::DataEnd) },
    number("family",           16, packet::FIELDS,      Widths::Whole),
    number("remote_ip4",       20, packet::FIELDS +  4, Widths::Whole),
    number("local_ip4",        24, packet::FIELDS +  8, Widths::Whole),
    number("remote_ip6[0]",    28, packet::FIELDS + 12, Widths::Whole),
    number("remote_ip6[1]",    32, packet::FIELDS + 16, Widths::Whole),
    number("remote_ip6[2]",    36, packet::FIELDS + 20, Widths::Whole),
    number("remote_ip6[3]",    40, packet::FIELDS + 24, Widths::Whole),
    number("local_ip6[0]",     44, packet::FIELDS + 28, Widths::Whole),
    number("local_ip6[1]",     48, packet::FIELDS + 32, Widths::Whole),
    number("local_ip6[2]",     52, packet::FIELDS + 36, Widths::Whole),
    number("local_ip6[3]",     56, packet::FIELDS + 40, Widths::Whole),
    number("remote_port",      60, packet::FIELDS + 44, Widths::Whole),
    number("local_port",       64, packet::FIELDS + 48, Widths::Whole),
    number("size",             68, packet::FIELDS + 52, Widths::Whole),
];

/// The fields of a `struct __sk_buff` that a flow dissector may use, and the bytes of `struct bpf_flow_keys`.
pub const FLOW_DISSECTOR: &[Field] = &[DATA, DATA_END, FLOW_KEYS];
pub const FLOW_KEYS_BYTES: u32 = 56;

const fn wide(field: Field) -> Field {
    Field { bytes: 8, ..field }
}

const fn writable(field: Field, kept: u32) -> Field {
    Field { writable: true, kept, ..field }
}

const fn address(name: &'static str, offset: u32, at: u32, meaning: Meaning) -> Field {
    Field { name, offset, bytes: 4, at, meaning, widths: Widths::Whole, writable: false, kept: 0 }
}

const fn number(name: &'static str, offset: u32, at: u32, widths: Widths) -> Field {
    Field { name, offset, bytes: 4, at, meaning: Meaning::Number, widths, writable: false, kept: 0 }
}

/// The fields of a packet kind's context; none for other kinds.
pub fn fields(kind: ProgramKind) -> &'static [Field] {
    match kind {
        ProgramKind::Xdp => XDP,
        ProgramKind::SocketFilter => SOCKET,
        ProgramKind::Classifier => CLASSIFIER,
        ProgramKind::CgroupSkb => CGROUP_SKB,
        ProgramKind::CgroupSock => CGROUP_SOCK,
        ProgramKind::SkMsg => SK_MSG,
        ProgramKind::FlowDissector => FLOW_DISSECTOR,
        ProgramKind::Probe
        | ProgramKind::Controller
        | ProgramKind::Tracepoint
        | ProgramKind::Tracing
        | ProgramKind::Memory { .. } => &[],
    }
}

/// The field that the byte at `offset` of the structure belongs to.
pub fn field(kind: ProgramKind, offset: u32) -> Option<&'static Field> {
    fields(kind).iter().find(|field| (field.offset..field.offset + field.bytes).contains(&offset))
}

/// The field named `name`.
pub fn field_named(kind: ProgramKind, name: &str) -> Option<&'static Field> {
    fields(kind).iter().find(|field| field.name == name)
}

/// Bytes of the structure that a program of this kind sees in r1; 0 for memory, which is none.
pub fn structure_bytes(kind: ProgramKind) -> u32 {
    match kind {
        ProgramKind::Xdp => XDP_BYTES,
        ProgramKind::SocketFilter
        | ProgramKind::Classifier
        | ProgramKind::CgroupSkb
        | ProgramKind::FlowDissector => SK_BUFF_BYTES,
        ProgramKind::CgroupSock => SOCK_BYTES,
        ProgramKind::SkMsg => SK_MSG_BYTES,
        ProgramKind::Probe | ProgramKind::Controller => crate::isa::native::pt_regs::BYTES_WITH_FLOATS,
        ProgramKind::Tracepoint | ProgramKind::Tracing => crate::isa::native::pt_regs::BYTES,
        ProgramKind::Memory { .. } => 0,
    }
}

impl Field {
    /// Where in weir's slots an access of `bytes` at `offset` of the structure goes: byte offset and bytes, which are
    /// more for an address, and fewer for a write of what is not all kept. None where the field is not accessed so.
    pub fn place(&self, offset: u32, bytes: u32, is_write: bool) -> Option<(u32, u32)> {
        let inside = offset.checked_sub(self.offset)?;
        let is_whole = inside == 0 && bytes == self.bytes;
        let fits = match self.widths {
            Widths::Whole => is_whole,
            Widths::Parts | Widths::Low if is_write => is_whole,
            Widths::Low => inside == 0 && bytes <= self.bytes,
            Widths::Parts | Widths::Any => inside + bytes <= self.bytes && offset.is_multiple_of(bytes),
        };
        match self.meaning {
            _ if !fits || is_write && !self.writable => None,
            Meaning::Number if is_write => Some((self.at + inside, bytes.min(self.kept))),
            Meaning::Number => Some((self.at + inside, bytes)),
            _ => Some((self.at, 8)),
        }
    }

    /// The slots of an access: bit n is slot n.
    pub const fn slots(at: u32, bytes: u32) -> u32 {
        let (first, last) = (at / 8, (at + bytes - 1) / 8);
        u32::MAX >> (31 - last) & u32::MAX << first
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_have_places_of_their_own_inside_the_slots() {
        let of_sk_buffs =
            [SOCKET, CLASSIFIER, CGROUP_SKB, FLOW_DISSECTOR].map(|fields| (fields, SK_BUFF_BYTES));
        for (fields, bytes) in of_sk_buffs.into_iter().chain([
            (XDP, XDP_BYTES),
            (CGROUP_SOCK, SOCK_BYTES),
            (SK_MSG, SK_MSG_BYTES),
        ]) {
            let mut taken = 0u64;
            for field in fields {
                let width = if field.meaning == Meaning::Number { field.bytes } else { 8 };
                assert!(field.offset + field.bytes <= bytes, "{}", field.name);
                assert!(field.at + width <= crate::isa::native::pt_regs::BYTES, "{}", field.name);
                // 8-byte accesses to `cb` stay aligned.
                let aligned = if width == 8 { 8 } else { width.min(4) };
                assert_eq!(field.at % aligned, 0, "{}", field.name);
                assert!(field.writable == (field.kept > 0) && field.kept <= field.bytes, "{}", field.name);
                let words = field.at / 4..(field.at + width).div_ceil(4);
                let bits = words.fold(0, |bits, word| bits | 1u64 << word);
                assert_eq!(taken & bits, 0, "{}", field.name);
                taken |= bits;
            }
        }
        assert_eq!((CB.at % 8, CB.offset % 8), (0, 0));
        for field in SOCKET {
            let found =
                field_named(ProgramKind::Classifier, field.name).map(|found| (found.at, found.offset));
            assert_eq!(found, Some((field.at, field.offset)), "{}", field.name);
        }
    }

    #[test]
    fn accesses_go_to_their_place_or_nowhere() {
        let place = |kind, offset, bytes, is_write| field(kind, offset)?.place(offset, bytes, is_write);
        assert_eq!(place(ProgramKind::Xdp, 4, 4, false), Some((packet::DATA_END, 8)));
        assert_eq!(place(ProgramKind::Xdp, 4, 2, false), None);
        assert_eq!(place(ProgramKind::Xdp, 4, 8, false), None);
        assert_eq!(place(ProgramKind::Xdp, 16, 4, true), None);
        assert_eq!(place(ProgramKind::SocketFilter, 17, 1, false), Some((packet::FIELDS + 17, 1)));
        assert_eq!(place(ProgramKind::SocketFilter, 17, 2, false), None);
        assert_eq!(place(ProgramKind::SocketFilter, 16, 8, false), None);
        assert_eq!(place(ProgramKind::SocketFilter, 56, 8, true), Some((packet::FIELDS + 56, 8)));
        assert_eq!(place(ProgramKind::SocketFilter, 64, 8, true), None);
        assert_eq!(place(ProgramKind::SocketFilter, 76, 4, false), None);
        assert_eq!(place(ProgramKind::Classifier, 76, 4, false), Some((packet::DATA, 8)));
        assert_eq!(place(ProgramKind::Classifier, 140, 4, false), Some((packet::DATA_META, 8)));
        assert_eq!(place(ProgramKind::Classifier, 80, 4, true), None);
        assert_eq!(place(ProgramKind::Classifier, 152, 8, true), Some((packet::FIELDS + 96, 8)));
        assert_eq!(place(ProgramKind::Classifier, 152, 4, false), None);
        assert_eq!(place(ProgramKind::Classifier, 180, 1, false), Some((packet::FIELDS + 92, 1)));
        assert_eq!(place(ProgramKind::Classifier, 44, 4, true), Some((packet::FIELDS + 44, 2)));
        assert_eq!(place(ProgramKind::Classifier, 44, 2, true), None);
    }
}
