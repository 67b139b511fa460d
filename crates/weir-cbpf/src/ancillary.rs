//! Linux's ancillary loads: what a load at an offset just below 2³² means to a kernel, and what libpcap compiles for it.
//!
//! An absolute load (not an indexed one) at [`BASE`] + an offset of [`ALL`] gives a fact about the packet instead of its
//! bytes, whatever the load's size. Numbers come in the order of the host. Source: Linux include/uapi/linux/filter.h;
//! the names are those that `tcpdump -d` prints.

/// The offset that ancillary loads count from, −0x1000 (SKF_AD_OFF).
pub const BASE: u32 = -0x1000_i32 as u32;
/// The offset that the kernel counts from the network header, −0x100000 (SKF_NET_OFF).
pub const NETWORK: u32 = -0x10_0000_i32 as u32;
/// The offset that the kernel counts from the link header, −0x200000 (SKF_LL_OFF).
pub const LINK: u32 = -0x20_0000_i32 as u32;

/// What an ancillary load gives.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Ancillary {
    /// The packet's protocol, an Ethernet type.
    Protocol,
    /// To whom it is addressed (PACKET_HOST and so on).
    PacketType,
    /// The number of its interface.
    InterfaceIndex,
    /// The offset of the netlink attribute of type X, from A on.
    NetlinkAttribute,
    /// The same inside another attribute.
    NestedNetlinkAttribute,
    /// The packet's mark.
    Mark,
    /// The queue that it is mapped to.
    Queue,
    /// What its interface is (ARPHRD_ETHER and so on).
    HardwareType,
    /// Its hash, as received.
    ReceiveHash,
    /// The number of the CPU.
    Cpu,
    /// No fact: A becomes A xor X, from times without that operation.
    XorX,
    /// The VLAN tag's 16 bits that were taken off the packet.
    VlanTag,
    /// 1 if a VLAN tag was taken off, else 0.
    VlanTagPresent,
    /// Where the payload begins.
    PayloadOffset,
    /// A random number.
    Random,
    /// The protocol of the VLAN tag that was taken off.
    VlanProtocol,
}

/// One ancillary load.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Row {
    /// From [`BASE`].
    pub offset: u32,
    /// As `tcpdump -d` prints it.
    pub name: &'static str,
    /// As Linux's header has it, without `SKF_AD_`.
    pub constant: &'static str,
    /// What it gives.
    pub meaning: Ancillary,
}

/// All of them, in the order of their offsets.
#[rustfmt::skip]
pub const ALL: &[Row] = &[
    row( 0, "proto",     "PROTOCOL",         Ancillary::Protocol),
    row( 4, "type",      "PKTTYPE",          Ancillary::PacketType),
    row( 8, "ifidx",     "IFINDEX",          Ancillary::InterfaceIndex),
    row(12, "nla",       "NLATTR",           Ancillary::NetlinkAttribute),
    row(16, "nlan",      "NLATTR_NEST",      Ancillary::NestedNetlinkAttribute),
    row(20, "mark",      "MARK",             Ancillary::Mark),
    row(24, "queue",     "QUEUE",            Ancillary::Queue),
    row(28, "hatype",    "HATYPE",           Ancillary::HardwareType),
    row(32, "rxhash",    "RXHASH",           Ancillary::ReceiveHash),
    row(36, "cpu",       "CPU",              Ancillary::Cpu),
    row(40, "xor_x",     "ALU_XOR_X",        Ancillary::XorX),
    row(44, "vlan_tci",  "VLAN_TAG",         Ancillary::VlanTag),
    row(48, "vlanp",     "VLAN_TAG_PRESENT", Ancillary::VlanTagPresent),
    row(52, "poff",      "PAY_OFFSET",       Ancillary::PayloadOffset),
    row(56, "random",    "RANDOM",           Ancillary::Random),
    row(60, "vlan_tpid", "VLAN_TPID",        Ancillary::VlanProtocol),
];

const fn row(offset: u32, name: &'static str, constant: &'static str, meaning: Ancillary) -> Row {
    Row { offset, name, constant, meaning }
}

/// The row that an absolute load at `k` means.
pub fn at(k: u32) -> Option<&'static Row> {
    ALL.iter().find(|row| k.wrapping_sub(BASE) == row.offset)
}

/// The row named `name` in `tcpdump -d`.
pub fn named(name: &str) -> Option<&'static Row> {
    ALL.iter().find(|row| row.name == name)
}

/// Facts about one packet, for ancillary loads. Nothing is known at first: all are 0.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[allow(missing_docs, reason = "each is the load of that name, see `Ancillary`")]
pub struct Metadata {
    /// In the order of the host: 0x0800 is IPv4.
    pub protocol: u32,
    pub pkt_type: u32,
    pub ifindex: u32,
    pub mark: u32,
    pub queue: u32,
    pub hatype: u32,
    pub rxhash: u32,
    pub cpu: u32,
    pub vlan_tag: u32,
    pub vlan_tag_present: u32,
    pub pay_offset: u32,
    pub random: u32,
    /// In the order of the host: 0x8100.
    pub vlan_tpid: u32,
}

impl Metadata {
    /// What a load of `meaning` gives where the registers hold `a` and `x`. None for netlink attributes, which would be
    /// searched in the packet: they are as if out of range.
    pub fn load(&self, meaning: Ancillary, a: u32, x: u32) -> Option<u32> {
        Some(match meaning {
            Ancillary::Protocol => self.protocol,
            Ancillary::PacketType => self.pkt_type,
            Ancillary::InterfaceIndex => self.ifindex,
            Ancillary::NetlinkAttribute | Ancillary::NestedNetlinkAttribute => return None,
            Ancillary::Mark => self.mark,
            Ancillary::Queue => self.queue,
            Ancillary::HardwareType => self.hatype,
            Ancillary::ReceiveHash => self.rxhash,
            Ancillary::Cpu => self.cpu,
            Ancillary::XorX => a ^ x,
            Ancillary::VlanTag => self.vlan_tag,
            Ancillary::VlanTagPresent => self.vlan_tag_present,
            Ancillary::PayloadOffset => self.pay_offset,
            Ancillary::Random => self.random,
            Ancillary::VlanProtocol => self.vlan_tpid,
        })
    }
}
