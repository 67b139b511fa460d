//! Protocols that expressions name, and the numbers by which packets name them.
//!
//! Sources: pcap-filter(7); IANA's registries of EtherTypes, IP protocols and LLC service access points; ISO 10589
//! (PDU types). Which keyword has which number was tried on libpcap 1.10.3.

/// A protocol's keyword. As a qualifier it says what an address, port or offset belongs to.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Protocol {
    /// `ether`, `link`, `fddi`, `tr`, `wlan`, `ppp`, `slip`: the link layer, whatever it is.
    Link,
    /// `radio`: the radio header in front of an 802.11 frame.
    Radio,
    Ip,
    Arp,
    Rarp,
    Sctp,
    Tcp,
    Udp,
    Icmp,
    Igmp,
    Igrp,
    Pim,
    Vrrp,
    Carp,
    Ipv6,
    Icmpv6,
    Ah,
    Esp,
    Atalk,
    Aarp,
    Decnet,
    Lat,
    Sca,
    Moprc,
    Mopdl,
    Iso,
    Esis,
    Isis,
    IsisL1,
    IsisL2,
    IsisIih,
    IsisLsp,
    IsisSnp,
    IsisCsnp,
    IsisPsnp,
    Clnp,
    Stp,
    Ipx,
    Netbeui,
}

/// How a protocol's name alone is tested.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Carrier {
    /// Its number is an EtherType, or up to 1,500 an LLC service access point.
    Link(u16),
    /// Its number is that of an IP protocol: over both versions, over IPv4, over IPv6.
    Ip(u8),
    Ipv4(u8),
    Ipv6(u8),
    /// An OSI network layer protocol identifier.
    Iso(u8),
    /// IS-IS PDUs of these types, tested in this order.
    Isis(&'static [u8]),
    /// It has no test.
    None,
}

/// Keywords of protocols.
#[rustfmt::skip]
pub(crate) const KEYWORDS: &[(&str, Protocol)] = &[
    ("link", Protocol::Link), ("ether", Protocol::Link), ("ppp", Protocol::Link), ("slip", Protocol::Link),
    ("fddi", Protocol::Link), ("tr", Protocol::Link), ("wlan", Protocol::Link), ("radio", Protocol::Radio),
    ("arp", Protocol::Arp), ("rarp", Protocol::Rarp), ("ip", Protocol::Ip), ("sctp", Protocol::Sctp),
    ("tcp", Protocol::Tcp), ("udp", Protocol::Udp), ("icmp", Protocol::Icmp), ("igmp", Protocol::Igmp),
    ("igrp", Protocol::Igrp), ("pim", Protocol::Pim), ("vrrp", Protocol::Vrrp), ("carp", Protocol::Carp),
    ("ip6", Protocol::Ipv6), ("icmp6", Protocol::Icmpv6), ("ah", Protocol::Ah), ("esp", Protocol::Esp),
    ("atalk", Protocol::Atalk), ("aarp", Protocol::Aarp), ("decnet", Protocol::Decnet), ("lat", Protocol::Lat),
    ("sca", Protocol::Sca), ("moprc", Protocol::Moprc), ("mopdl", Protocol::Mopdl), ("iso", Protocol::Iso),
    ("esis", Protocol::Esis), ("es-is", Protocol::Esis), ("isis", Protocol::Isis), ("is-is", Protocol::Isis),
    ("l1", Protocol::IsisL1), ("l2", Protocol::IsisL2), ("iih", Protocol::IsisIih), ("lsp", Protocol::IsisLsp),
    ("snp", Protocol::IsisSnp), ("csnp", Protocol::IsisCsnp), ("psnp", Protocol::IsisPsnp),
    ("clnp", Protocol::Clnp), ("stp", Protocol::Stp), ("ipx", Protocol::Ipx), ("netbeui", Protocol::Netbeui),
];

/// EtherTypes and LLC service access points.
pub(crate) mod ethertype {
    pub(crate) const IP: u16 = 0x0800;
    pub(crate) const ARP: u16 = 0x0806;
    pub(crate) const RARP: u16 = 0x8035;
    pub(crate) const ATALK: u16 = 0x809b;
    pub(crate) const AARP: u16 = 0x80f3;
    pub(crate) const IPX: u16 = 0x8137;
    pub(crate) const IPV6: u16 = 0x86dd;
    pub(crate) const DECNET: u16 = 0x6003;
    pub(crate) const MPLS: u16 = 0x8847;
    pub(crate) const PPPOE_DISCOVERY: u16 = 0x8863;
    pub(crate) const PPPOE_SESSION: u16 = 0x8864;
    pub(crate) const VLAN: u16 = 0x8100;
    pub(crate) const VLAN_AD: u16 = 0x88a8;
    pub(crate) const VLAN_QINQ: u16 = 0x9100;
    /// Up to here the field is the length of an 802.3 frame.
    pub(crate) const LENGTH_MAX: u16 = 1500;
    /// LLC service access points (IEEE 802.2).
    pub(crate) const SAP_IP: u16 = 0x06;
    pub(crate) const SAP_STP: u16 = 0x42;
    pub(crate) const SAP_IPX: u16 = 0xe0;
    pub(crate) const SAP_NETBEUI: u16 = 0xf0;
    pub(crate) const SAP_ISO: u16 = 0xfe;
}

/// IP protocols.
pub(crate) mod ip {
    pub(crate) const ICMP: u8 = 1;
    pub(crate) const TCP: u8 = 6;
    pub(crate) const UDP: u8 = 17;
    pub(crate) const FRAGMENT: u8 = 44;
    pub(crate) const AH: u8 = 51;
    pub(crate) const ICMPV6: u8 = 58;
    pub(crate) const SCTP: u8 = 132;
}

/// OSI network layer protocol identifiers.
pub(crate) mod iso {
    pub(crate) const CLNP: u8 = 0x81;
    pub(crate) const ESIS: u8 = 0x82;
    pub(crate) const ISIS: u8 = 0x83;
}

impl Protocol {
    /// As messages name it.
    pub fn name(self) -> &'static str {
        match self {
            Protocol::Link => "link",
            _ => KEYWORDS.iter().find(|(_, protocol)| *protocol == self).map_or("", |(name, _)| name),
        }
    }

    /// What the name alone tests.
    pub(crate) fn carrier(self) -> Carrier {
        match self {
            Protocol::Link | Protocol::Radio => Carrier::None,
            Protocol::Ip => Carrier::Link(ethertype::IP),
            Protocol::Arp => Carrier::Link(ethertype::ARP),
            Protocol::Rarp => Carrier::Link(ethertype::RARP),
            Protocol::Atalk => Carrier::Link(ethertype::ATALK),
            Protocol::Aarp => Carrier::Link(ethertype::AARP),
            Protocol::Decnet => Carrier::Link(ethertype::DECNET),
            Protocol::Sca => Carrier::Link(0x6007),
            Protocol::Lat => Carrier::Link(0x6004),
            Protocol::Mopdl => Carrier::Link(0x6001),
            Protocol::Moprc => Carrier::Link(0x6002),
            Protocol::Ipv6 => Carrier::Link(ethertype::IPV6),
            Protocol::Iso => Carrier::Link(ethertype::SAP_ISO),
            Protocol::Stp => Carrier::Link(ethertype::SAP_STP),
            Protocol::Ipx => Carrier::Link(ethertype::SAP_IPX),
            Protocol::Netbeui => Carrier::Link(ethertype::SAP_NETBEUI),
            Protocol::Tcp => Carrier::Ip(ip::TCP),
            Protocol::Udp => Carrier::Ip(ip::UDP),
            Protocol::Sctp => Carrier::Ip(ip::SCTP),
            Protocol::Pim => Carrier::Ip(103),
            Protocol::Ah => Carrier::Ip(ip::AH),
            Protocol::Esp => Carrier::Ip(50),
            Protocol::Icmp => Carrier::Ipv4(ip::ICMP),
            Protocol::Igmp => Carrier::Ipv4(2),
            Protocol::Igrp => Carrier::Ipv4(9),
            Protocol::Vrrp | Protocol::Carp => Carrier::Ipv4(112),
            Protocol::Icmpv6 => Carrier::Ipv6(ip::ICMPV6),
            Protocol::Clnp => Carrier::Iso(iso::CLNP),
            Protocol::Esis => Carrier::Iso(iso::ESIS),
            Protocol::Isis => Carrier::Iso(iso::ISIS),
            Protocol::IsisL1 => Carrier::Isis(&[26, 24, 18, 15, 17]),
            Protocol::IsisL2 => Carrier::Isis(&[27, 25, 20, 16, 17]),
            Protocol::IsisIih => Carrier::Isis(&[17, 16, 15]),
            Protocol::IsisLsp => Carrier::Isis(&[18, 20]),
            Protocol::IsisSnp => Carrier::Isis(&[27, 26, 24, 25]),
            Protocol::IsisCsnp => Carrier::Isis(&[24, 25]),
            Protocol::IsisPsnp => Carrier::Isis(&[26, 27]),
        }
    }
}

/// Names after `ether proto`, with a backslash where they are keywords. Which there are was tried on libpcap 1.10.3.
#[rustfmt::skip]
pub(crate) const LINK_PROTOCOLS: &[(&str, u16)] = &[
    ("aarp", ethertype::AARP), ("arp", ethertype::ARP), ("atalk", ethertype::ATALK),
    ("decnet", ethertype::DECNET), ("ip", ethertype::IP), ("ip6", ethertype::IPV6), ("lat", 0x6004),
    ("loopback", 0x9000), ("mopdl", 0x6001), ("moprc", 0x6002), ("rarp", ethertype::RARP), ("sca", 0x6007),
    ("iso", ethertype::SAP_ISO), ("stp", ethertype::SAP_STP), ("ipx", ethertype::SAP_IPX),
    ("netbeui", ethertype::SAP_NETBEUI),
];

/// Names after `iso proto`.
pub(crate) const ISO_PROTOCOLS: &[(&str, u8)] =
    &[("esis", iso::ESIS), ("isis", iso::ISIS), ("clnp", iso::CLNP)];
