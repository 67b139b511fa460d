//! Synthetic packets of every link type for which the installed libpcap compiles filters.
//!
//! A [`Link`] is a row of [`LINKS`]: how it carries a [`Payload`] and what frames of its own it has. Fields that filters
//! test take their values from [`pools`], which random expressions draw from as well, so that filters often match. A
//! packet depends on the [`Source`] alone. The formats are those of RFCs, IEEE standards and the list of link types
//! at tcpdump.org; where these say nothing (Juniper's headers), the payload lies where libpcap looks for it.
//! [`mutated`] changes bytes and [`cut`] takes them away.

mod circuits;
mod ethernet;
mod network;
pub mod pools;
mod serial;
mod wireless;

pub use crate::packets::network::tcp_port_80;
use crate::pcap_file::Packet;
use crate::random::Source;

/// What a link layer carries.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Payload {
    /// What has an EtherType: the type, and what is after it.
    Typed(u16, Vec<u8>),
    /// A frame of IEEE 802.2, from its DSAP on.
    Llc(Vec<u8>),
    /// IPX in an 802.3 frame without 802.2, from its checksum 0xffff on.
    Novell(Vec<u8>),
}

impl Payload {
    pub fn bytes(&self) -> &[u8] {
        match self {
            Payload::Typed(_, bytes) | Payload::Llc(bytes) | Payload::Novell(bytes) => bytes,
        }
    }

    /// The EtherType and the bytes after it; 802.2 has none.
    fn typed(self) -> (u16, Vec<u8>) {
        match self {
            Payload::Typed(kind, bytes) => (kind, bytes),
            Payload::Llc(bytes) | Payload::Novell(bytes) => (0, bytes),
        }
    }
}

/// A link type, and its packets.
#[derive(Clone, Copy, Debug)]
pub struct Link {
    pub dlt: i32,
    /// As libpcap names it, without `DLT_`; 112 has no name there.
    pub name: &'static str,
    carry: Carry,
    payloads: &'static [Generate<Payload>],
    /// Frames that carry none of the payloads.
    own: &'static [Generate<Vec<u8>>],
}

type Generate<T> = fn(&mut Source) -> T;

#[derive(Clone, Copy, Debug)]
enum Carry {
    By(fn(&mut Source, &Payload) -> Vec<u8>),
    /// Behind so many bytes that Juniper's magic begins.
    Juniper(usize),
    /// All its frames are its own.
    Nothing,
}

impl Link {
    /// A frame with `payload` in it, if the link type carries any.
    pub fn carrying(&self, source: &mut Source, payload: &Payload) -> Option<Vec<u8>> {
        match self.carry {
            Carry::By(carry) => Some(carry(source, payload)),
            Carry::Juniper(before) => Some(circuits::juniper(source, payload, before)),
            Carry::Nothing => None,
        }
    }

    /// How many kinds of packets there are: arguments of [`Link::packet_of`].
    pub fn kinds(&self) -> usize {
        self.payloads.len() + self.own.len()
    }

    /// A packet of one kind. `kind`: below [`Link::kinds`].
    pub fn packet_of(&self, source: &mut Source, kind: usize) -> Packet {
        let bytes = match kind.checked_sub(self.payloads.len()) {
            Some(own) => self.own[own](source),
            None => {
                let payload = self.payloads[kind](source);
                self.carrying(source, &payload).expect("a link type with payloads carries them")
            }
        };
        Packet::whole(bytes)
    }

    /// A packet of any kind.
    pub fn packet(&self, source: &mut Source) -> Packet {
        let kind = source.below(self.kinds());
        self.packet_of(source, kind)
    }
}

/// The link type `dlt`; one that is not in [`LINKS`] has packets of random bytes.
pub fn link(dlt: i32) -> Link {
    let listed = LINKS.iter().find(|link| link.dlt == dlt).copied();
    listed.unwrap_or(Link { dlt, ..own_only(dlt, "", &[serial::anything]) })
}

/// The packet with one to eight bytes changed, most of them among the first 64, and now and then cut or with
/// bytes after its end.
pub fn mutated(packet: &Packet, source: &mut Source) -> Packet {
    let mut packet = packet.clone();
    let length = packet.bytes.len();
    for _ in 0..=source.below(8) {
        let reach = if source.chance(80) { length.min(64) } else { length };
        if reach == 0 {
            break;
        }
        let at = source.below(reach);
        let old = packet.bytes[at];
        packet.bytes[at] = match source.below(5) {
            0 => source.byte(),
            1 => old ^ 1 << source.below(8),
            2 => old.wrapping_add(1),
            3 => old.wrapping_sub(1),
            _ => source.pick(&[0, 0xff, 0x08, 0x81, 0x06, 0x80, 0x45, 0x60]),
        };
    }
    match source.below(10) {
        0 => packet.bytes.truncate(source.below(length + 1)),
        1 => {
            packet.bytes.extend(source.bytes(4));
            packet.wire_len += 4;
        }
        2 => packet.wire_len += source.pick(&[1, 100, 1500]),
        _ => {}
    }
    packet
}

/// The packet captured up to each shorter length, the shortest first; its length on the wire stays.
pub fn cut(packet: &Packet) -> impl Iterator<Item = Packet> {
    (0..packet.bytes.len())
        .map(|length| Packet { bytes: packet.bytes[..length].to_vec(), wire_len: packet.wire_len })
}

/// What Ethernet carries, and what is like it.
const EVERYTHING: &[Generate<Payload>] = &[
    network::ipv4,
    network::ipv4,
    network::ipv6,
    network::arp,
    network::tunnel,
    network::digital,
    network::other_type,
    ethernet::tagged,
    ethernet::mpls,
    ethernet::pppoe,
    ethernet::llc,
    ethernet::llc,
];
/// What links carry that know IP, MPLS and OSI by a protocol's number.
const SEVERAL: &[Generate<Payload>] = &[
    network::ipv4,
    network::ipv4,
    network::ipv6,
    network::tunnel,
    ethernet::mpls,
    ethernet::llc,
    network::other_type,
];
const IP: &[Generate<Payload>] = &[network::ipv4, network::ipv4, network::ipv6, network::tunnel];

type Wrap = fn(&mut Source, &Payload) -> Vec<u8>;

const fn carries(
    dlt: i32,
    name: &'static str,
    wrap: Wrap,
    payloads: &'static [Generate<Payload>],
    own: &'static [Generate<Vec<u8>>],
) -> Link {
    Link { dlt, name, carry: Carry::By(wrap), payloads, own }
}

const fn juniper(dlt: i32, name: &'static str, before: usize) -> Link {
    Link { dlt, name, carry: Carry::Juniper(before), payloads: IP, own: &[circuits::juniper_other] }
}

const fn own_only(dlt: i32, name: &'static str, own: &'static [Generate<Vec<u8>>]) -> Link {
    Link { dlt, name, carry: Carry::Nothing, payloads: &[], own }
}

/// By number. What libpcap 1.10.3 knows beyond these has no filters but `link[...]`, lengths and the like.
#[rustfmt::skip]
pub const LINKS: &[Link] = &[
    carries(0, "NULL", serial::null, IP, &[]),
    carries(1, "EN10MB", serial::ethernet, EVERYTHING, &[]),
    carries(6, "IEEE802", serial::token_ring, EVERYTHING, &[serial::token_ring_routed]),
    carries(7, "ARCNET", serial::arcnet, EVERYTHING, &[]),
    carries(8, "SLIP", serial::slip, IP, &[]),
    carries(9, "PPP", serial::ppp, SEVERAL, &[]),
    carries(10, "FDDI", serial::fddi, EVERYTHING, &[serial::fddi_other]),
    carries(11, "ATM_RFC1483", serial::llc_alone, EVERYTHING, &[]),
    carries(12, "RAW", serial::raw, IP, &[]),
    carries(15, "SLIP_BSDOS", serial::slip_bsdos, IP, &[]),
    carries(16, "PPP_BSDOS", serial::ppp_bsdos, SEVERAL, &[]),
    carries(19, "ATM_CLIP", serial::llc_alone, EVERYTHING, &[]),
    carries(50, "PPP_SERIAL", serial::ppp, SEVERAL, &[]),
    carries(51, "PPP_ETHER", serial::ppp_ether, SEVERAL, &[]),
    carries(99, "SYMANTEC_FIREWALL", serial::symantec, EVERYTHING, &[]),
    carries(104, "C_HDLC", serial::cisco, SEVERAL, &[]),
    carries(105, "IEEE802_11", wireless::data, EVERYTHING, &[wireless::other, wireless::other, wireless::other]),
    carries(107, "FRELAY", serial::frame_relay, SEVERAL, &[]),
    carries(108, "LOOP", serial::loopback, IP, &[]),
    carries(109, "ENC", serial::enc, IP, &[]),
    carries(112, "HDLC", serial::cisco, SEVERAL, &[]),
    carries(113, "LINUX_SLL", serial::sll, EVERYTHING, &[]),
    own_only(114, "LTALK", &[serial::anything]),
    carries(117, "PFLOG", circuits::pflog, IP, &[]),
    carries(119, "PRISM_HEADER", wireless::prism, EVERYTHING, &[wireless::prism_other, wireless::prism_other]),
    carries(122, "IP_OVER_FC", serial::fibre_channel, EVERYTHING, &[]),
    carries(123, "SUNATM", circuits::sunatm, EVERYTHING, &[circuits::sunatm_other, circuits::sunatm_other]),
    carries(127, "IEEE802_11_RADIO", wireless::radiotap, EVERYTHING, &[wireless::radiotap_other, wireless::radiotap_other]),
    carries(129, "ARCNET_LINUX", serial::arcnet_linux, EVERYTHING, &[]),
    juniper(130, "JUNIPER_MLPPP", 4),
    juniper(131, "JUNIPER_MLFR", 4),
    juniper(132, "JUNIPER_ES", 4),
    juniper(133, "JUNIPER_GGSN", 12),
    juniper(134, "JUNIPER_MFR", 4),
    juniper(135, "JUNIPER_ATM2", 8),
    juniper(136, "JUNIPER_SERVICES", 4),
    juniper(137, "JUNIPER_ATM1", 4),
    carries(138, "APPLE_IP_OVER_IEEE1394", serial::fire_wire, EVERYTHING, &[]),
    own_only(139, "MTP2_WITH_PHDR", &[circuits::mtp2_with_header]),
    own_only(140, "MTP2", &[circuits::mtp2]),
    own_only(141, "MTP3", &[circuits::mtp3]),
    carries(163, "IEEE802_11_RADIO_AVS", wireless::avs, EVERYTHING, &[wireless::avs_other, wireless::avs_other]),
    juniper(164, "JUNIPER_MONITOR", 12),
    carries(165, "BACNET_MS_TP", serial::bacnet, IP, &[serial::anything]),
    carries(166, "PPP_PPPD", serial::ppp_with_direction, SEVERAL, &[]),
    juniper(167, "JUNIPER_PPPOE", 32),
    juniper(168, "JUNIPER_PPPOE_ATM", 6),
    juniper(178, "JUNIPER_ETHER", 32),
    juniper(179, "JUNIPER_PPP", 4),
    juniper(180, "JUNIPER_FRELAY", 4),
    juniper(181, "JUNIPER_CHDLC", 4),
    juniper(183, "JUNIPER_VP", 4),
    carries(192, "PPI", wireless::ppi, EVERYTHING, &[wireless::ppi_other, wireless::ppi_other]),
    juniper(194, "JUNIPER_ISM", 4),
    own_only(197, "ERF", &[circuits::erf]),
    juniper(200, "JUNIPER_ST", 4),
    carries(226, "IPNET", circuits::ipnet, IP, &[]),
    carries(228, "IPV4", serial::raw, &[network::ipv4, network::ipv4, network::tunnel], &[]),
    carries(229, "IPV6", serial::raw, &[network::ipv6], &[]),
    juniper(232, "JUNIPER_VS", 4),
    juniper(233, "JUNIPER_SRX_E2E", 4),
    juniper(234, "JUNIPER_FIBRECHANNEL", 4),
    juniper(238, "JUNIPER_ATM_CEMIC", 4),
    carries(240, "NETANALYZER", serial::netanalyzer, EVERYTHING, &[]),
    carries(241, "NETANALYZER_TRANSPARENT", serial::netanalyzer_transparent, EVERYTHING, &[]),
    carries(276, "LINUX_SLL2", serial::sll2, EVERYTHING, &[]),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::libpcap::{Libpcap, NETMASK_UNKNOWN};
    use crate::skip::skip;

    /// Link types of which libpcap 1.10.3 does not find the IP packet: it does
    /// not say where it is, or (FRELAY) looks at the first byte.
    const NEVER_MATCH: &[i32] = &[107, 132, 136, 165, 183, 194, 200, 229, 232, 233, 234, 238];

    /// Whether `text`, compiled for each of these link types, accepts one of 50 packets with `payload`.
    fn found(pcap: &Libpcap, link: &Link, text: &str, payload: Generate<Payload>) -> bool {
        let program = pcap.compile(link.dlt, 65535, text, true, NETMASK_UNKNOWN);
        let program = program.unwrap_or_else(|e| panic!("{text} on {}: {e}", link.name));
        let source = &mut Source::new(7);
        (0..50).any(|_| {
            let payload = payload(source);
            let frame = link.carrying(source, &payload).expect("carries payloads");
            pcap.filter(&program, &frame, frame.len() as u32) != 0
        })
    }

    #[test]
    fn libpcap_finds_tcp_port_80_in_the_packets_of_every_link_type() {
        let Some(pcap) = Libpcap::load() else {
            return skip("testkit::packets", "libpcap.so.0.8 is not installed");
        };
        let carrying = LINKS.iter().filter(|link| !matches!(link.carry, Carry::Nothing) && link.dlt != 229);
        for link in carrying {
            let is_found = found(pcap, link, "tcp port 80", tcp_port_80);
            assert_eq!(is_found, !NEVER_MATCH.contains(&link.dlt), "{}", link.name);
        }
    }

    #[test]
    fn every_row_is_named_as_libpcap_names_it() {
        let Some(pcap) = Libpcap::load() else {
            return skip("testkit::packets", "libpcap.so.0.8 is not installed");
        };
        let named = pcap.datalinks();
        for link in LINKS.iter().filter(|link| link.dlt != 112) {
            let name = named.iter().find(|named| named.dlt == link.dlt).map(|named| named.name.as_str());
            assert_eq!(name, Some(link.name), "{}", link.dlt);
        }
        assert!(LINKS.is_sorted_by_key(|link| link.dlt));
    }

    /// Filters of which at least one of the packets is: `(link type, filter)`.
    #[rustfmt::skip]
    const MATCHED: &[(i32, &str)] = &[
        (1, "ip6 and tcp"), (1, "ip[0] & 0xf > 5"), (1, "ip[6:2] & 0x1fff != 0"), (1, "arp host 10.0.0.1"), (1, "rarp"),
        (1, "vlan 100"), (1, "vlan and vlan 200"), (1, "vlan and ip"), (1, "mpls 1024 and ip"), (1, "mpls and mpls"),
        (1, "pppoed"), (1, "pppoes 0x27 and ip host 10.0.0.1"), (1, "geneve 0xb and ip"), (1, "geneve and tcp port 80"),
        (1, "udp port 4789"), (1, "ip6 protochain 6"), (1, "ip protochain 50"), (1, "ip6 proto 44"), (1, "icmp6"),
        (1, "ipx"), (1, "netbeui"), (1, "stp"), (1, "atalk"), (1, "aarp"), (1, "iih"), (1, "lsp"), (1, "csnp"), (1, "psnp"),
        (1, "l1"), (1, "l2"), (1, "esis"), (1, "clnp"), (1, "lat"), (1, "moprc"), (1, "mopdl"), (1, "sctp port 80"),
        (1, "decnet src 10.123"), (1, "decnet dst 63.1023"), (1, "llc rnr"), (1, "llc ui"), (1, "llc frmr"), (1, "llc i"),
        (1, "ether host 00:11:22:33:44:55"), (1, "broadcast"), (1, "igmp"), (1, "esp"), (1, "ah"), (1, "vrrp"), (1, "pim"),
        (6, "ip host 10.0.0.1"), (10, "tr proto \\arp"), (105, "wlan addr4 00:11:22:33:44:55"), (105, "type ctl subtype rts"),
        (105, "type mgt subtype beacon"), (105, "dir dstods"), (105, "wlan ra 00:11:22:33:44:55"), (127, "subtype qos-data and ip"),
        (127, "udp"), (119, "type data"), (163, "type ctl"), (192, "tcp"), (117, "on en0 and action block"), (117, "reason short"),
        (117, "rset pflog0"), (117, "rnr 7"), (123, "lane and ip"), (123, "metac"), (123, "connectmsg"), (123, "vpi 1 and ip"),
        (139, "fisu"), (140, "msu and opc 300"), (140, "hmsu and hopc 300"), (140, "lssu"), (197, "sio 0x83"), (9, "iso"),
        (104, "isis"), (107, "ip6"), (113, "outbound"), (276, "outbound"), (122, "ip"), (7, "arp"), (241, "vlan and ip6"),
    ];

    #[test]
    fn every_kind_of_filter_has_packets_that_it_matches() {
        let Some(pcap) = Libpcap::load() else {
            return skip("testkit::packets", "libpcap.so.0.8 is not installed");
        };
        for (dlt, text) in MATCHED {
            let program = pcap.compile(*dlt, 65535, text, true, NETMASK_UNKNOWN);
            let program = program.unwrap_or_else(|e| panic!("{text} on {dlt}: {e}"));
            let (source, link) = (&mut Source::new(3), link(*dlt));
            let matched = (0..6000).any(|_| {
                let packet = link.packet(source);
                pcap.filter(&program, &packet.bytes, packet.wire_len) != 0
            });
            assert!(matched, "{text} on {dlt}");
        }
    }

    #[test]
    fn packets_mutations_and_cuts_are_the_same_for_a_seed() {
        for link in LINKS {
            let drawn = || {
                let source = &mut Source::new(9);
                let packet = link.packet(source);
                (mutated(&packet, source), packet)
            };
            assert_eq!(drawn(), drawn());
            let (mutation, packet) = drawn();
            assert!(mutation.wire_len as usize >= mutation.bytes.len());
            let lengths: Vec<usize> = cut(&packet).map(|shorter| shorter.bytes.len()).collect();
            assert_eq!(lengths, (0..packet.bytes.len()).collect::<Vec<usize>>());
            assert!(cut(&packet).all(|shorter| shorter.wire_len == packet.wire_len));
        }
    }
}
