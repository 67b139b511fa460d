//! The words of the language, as [`crate::lexer`] cuts them.

use std::net::Ipv6Addr;

use crate::ast::OneByte;
use crate::protocol::Protocol;

/// One word, and what it stands for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Token {
    /// A protocol's keyword, which qualifies what follows or is a primitive by itself.
    Protocol(Protocol),
    /// Any other keyword.
    Word(Word),
    /// An ATM or SS7 keyword, or another that is a primitive by its name: see [`crate::ast`].
    Atm(crate::ast::AtmKind),
    AtmField(crate::ast::AtmField),
    Mtp2(crate::ast::Mtp2Kind),
    Mtp3(crate::ast::Mtp3Field),
    /// Numbers, and names of numbers such as `tcp-syn`.
    Number(u32),
    /// Two, three or four numbers with dots: an address or the beginning of one.
    Dotted(Vec<u32>),
    Ipv6(Ipv6Addr),
    Ether([u8; 6]),
    /// `$` and one or two hexadecimal digits.
    OneByte(OneByte),
    /// A name: what is no keyword, or has a backslash before it.
    Name(String),
    /// An operator or a bracket, as it is written.
    Sign(&'static str),
    And,
    Or,
    Not,
    End,
}

/// Keywords that are no protocols.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Word {
    Src,
    Dst,
    Host,
    Net,
    Mask,
    Port,
    Portrange,
    Proto,
    Protochain,
    Gateway,
    Less,
    Greater,
    Byte,
    Broadcast,
    Multicast,
    Len,
    Inbound,
    Outbound,
    Ifindex,
    Vlan,
    Mpls,
    Pppoed,
    Pppoes,
    Geneve,
    Llc,
    Type,
    Subtype,
    Direction,
    Addr1,
    Addr2,
    Addr3,
    Addr4,
    Ra,
    Ta,
    Ifname,
    Ruleset,
    Rulenum,
    Subrulenum,
    Reason,
    Action,
    Vxlan,
    Queue,
    Hash,
}

/// Keywords and what they are. Sources: pcap-filter(7); which of several spellings exist was tried on libpcap 1.10.3; `vxlan` is of 1.11.
#[rustfmt::skip]
pub(crate) const KEYWORDS: &[(&str, Word)] = &[
    ("src", Word::Src), ("dst", Word::Dst), ("host", Word::Host), ("net", Word::Net), ("mask", Word::Mask),
    ("port", Word::Port), ("portrange", Word::Portrange), ("proto", Word::Proto),
    ("protochain", Word::Protochain), ("gateway", Word::Gateway), ("less", Word::Less),
    ("greater", Word::Greater), ("byte", Word::Byte), ("broadcast", Word::Broadcast),
    ("multicast", Word::Multicast), ("len", Word::Len), ("length", Word::Len), ("inbound", Word::Inbound),
    ("outbound", Word::Outbound), ("ifindex", Word::Ifindex), ("vlan", Word::Vlan), ("mpls", Word::Mpls),
    ("pppoed", Word::Pppoed), ("pppoes", Word::Pppoes), ("geneve", Word::Geneve), ("llc", Word::Llc),
    ("type", Word::Type), ("subtype", Word::Subtype), ("dir", Word::Direction),
    ("direction", Word::Direction), ("addr1", Word::Addr1), ("address1", Word::Addr1),
    ("addr2", Word::Addr2), ("address2", Word::Addr2), ("addr3", Word::Addr3), ("address3", Word::Addr3),
    ("addr4", Word::Addr4), ("address4", Word::Addr4), ("ra", Word::Ra), ("ta", Word::Ta),
    ("on", Word::Ifname), ("ifname", Word::Ifname), ("rset", Word::Ruleset), ("ruleset", Word::Ruleset),
    ("rnr", Word::Rulenum), ("rulenum", Word::Rulenum), ("srnr", Word::Subrulenum),
    ("subrulenum", Word::Subrulenum), ("reason", Word::Reason), ("action", Word::Action),
    ("vxlan", Word::Vxlan),
];

/// Words that scoped expressions have beside those; libpcap takes them for names.
pub(crate) const SCOPED_KEYWORDS: &[(&str, Word)] = &[("queue", Word::Queue), ("hash", Word::Hash)];

/// Names of numbers. Sources: pcap-filter(7), IANA's registries of ICMP types.
#[rustfmt::skip]
pub(crate) const CONSTANTS: &[(&str, u32)] = &[
    ("icmptype", 0), ("icmpcode", 1), ("icmp-echoreply", 0), ("icmp-unreach", 3), ("icmp-sourcequench", 4),
    ("icmp-redirect", 5), ("icmp-echo", 8), ("icmp-routeradvert", 9), ("icmp-routersolicit", 10),
    ("icmp-timxceed", 11), ("icmp-paramprob", 12), ("icmp-tstamp", 13), ("icmp-tstampreply", 14),
    ("icmp-ireq", 15), ("icmp-ireqreply", 16), ("icmp-maskreq", 17), ("icmp-maskreply", 18),
    ("icmp6type", 0), ("icmp6code", 1), ("icmp6-destinationunreach", 1), ("icmp6-packettoobig", 2),
    ("icmp6-timeexceeded", 3), ("icmp6-parameterproblem", 4), ("icmp6-echo", 128), ("icmp6-echoreply", 129),
    ("icmp6-multicastlistenerquery", 130), ("icmp6-multicastlistenerreportv1", 131),
    ("icmp6-multicastlistenerdone", 132), ("icmp6-routersolicit", 133), ("icmp6-routeradvert", 134),
    ("icmp6-neighborsolicit", 135), ("icmp6-neighboradvert", 136), ("icmp6-redirect", 137),
    ("icmp6-routerrenum", 138), ("icmp6-nodeinformationquery", 139), ("icmp6-nodeinformationresponse", 140),
    ("icmp6-ineighbordiscoverysolicit", 141), ("icmp6-ineighbordiscoveryadvert", 142),
    ("icmp6-multicastlistenerreportv2", 143), ("icmp6-homeagentdiscoveryrequest", 144),
    ("icmp6-homeagentdiscoveryreply", 145), ("icmp6-mobileprefixsolicit", 146),
    ("icmp6-mobileprefixadvert", 147), ("icmp6-certpathsolicit", 148), ("icmp6-certpathadvert", 149),
    ("icmp6-multicastrouteradvert", 151), ("icmp6-multicastroutersolicit", 152),
    ("icmp6-multicastrouterterm", 153), ("tcpflags", 13), ("tcp-fin", 1), ("tcp-syn", 2), ("tcp-rst", 4),
    ("tcp-push", 8), ("tcp-ack", 16), ("tcp-urg", 32), ("tcp-ece", 64), ("tcp-cwr", 128),
];
