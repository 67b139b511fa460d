//! Hosts and networks, hardware addresses, broadcast and multicast.

use std::net::{IpAddr, Ipv6Addr};

use weir_source::Diagnostic;

use super::offsets::{Base, is_wlan};
use super::{Lower, Lowering, modifier};
use crate::ast::{Direction, Kind, OneByte, Qualifiers};
use crate::ir::{Comparison, Pred, ValueId, Width};
use crate::link::LinkType;
use crate::protocol::{ISO_PROTOCOLS, LINK_PROTOCOLS, Protocol, ethertype};

/// Where an Ethernet-like header has its source and destination.
struct Places {
    source: u32,
    destination: u32,
}

/// IPv4 addresses that are asked for.
#[derive(Clone, Copy)]
enum Addresses {
    /// The bits under a mask.
    Network(u32, u32),
    Set(ValueId),
}

impl Lower<'_> {
    /// A name, by its qualifiers.
    pub(super) fn name(&mut self, qualifiers: Qualifiers, name: &str) -> Lowering {
        match qualifiers.kind {
            Kind::Net => {
                let Some(network) = self.names.network(name) else {
                    return Err(self.error(format!("unknown network `{name}`")).with_hint(
                        "networks(5) has those that are known; or give its number: `net 10.0.0.0/8`",
                    ));
                };
                let (address, mask) = promoted(network);
                self.network(qualifiers, address, mask)
            }
            Kind::Default | Kind::Host => self.host_name(qualifiers, name),
            Kind::Port => self.port_name(qualifiers, name),
            Kind::Portrange => self.port_range(qualifiers, name),
            Kind::Proto => {
                let number = self.protocol_name(qualifiers.protocol, name)?;
                self.proto(qualifiers.protocol, number)
            }
            Kind::Protochain => {
                let number = self.protocol_name(qualifiers.protocol, name)?;
                self.protochain(qualifiers.protocol, number)
            }
            Kind::Gateway => Err(self.error("`gateway` is not supported")),
        }
    }

    fn host_name(&mut self, qualifiers: Qualifiers, name: &str) -> Lowering {
        match qualifiers.protocol {
            Some(Protocol::Link) => {
                if self.places().is_none() && !is_wlan(self.offsets.link) {
                    return Err(self.error("only ethernet/FDDI/token ring/802.11/ATM LANE/Fibre Channel support link-level host names"));
                }
                let Some(address) = self.names.ether(name) else {
                    return Err(self.error(format!("unknown ether host `{name}`")).with_hint(
                        "ethers(5) has those that are known; or give its address: `ether host 0:1:2:3:4:5`",
                    ));
                };
                self.hardware(address, qualifiers.direction)
            }
            Some(Protocol::Decnet) => Err(self
                .error(format!("decnet name support not included, `{name}` cannot be translated"))
                .with_hint("give its address, as area and node: `decnet host 10.123`")),
            protocol => {
                let addresses = self.names.host(name);
                let mut any = Vec::new();
                // Without a type field a name is IP's alone, though an address would be ARP's too.
                let is_ip_alone = protocol.is_none() && self.offsets.link_type.is_none();
                let of = |version| Qualifiers {
                    protocol: if is_ip_alone { Some(version) } else { protocol },
                    ..qualifiers
                };
                for address in &addresses {
                    match address {
                        IpAddr::V4(address) if protocol != Some(Protocol::Ipv6) => {
                            any.push(self.network(of(Protocol::Ip), u32::from(*address), u32::MAX)?);
                        }
                        IpAddr::V6(address) if protocol != Some(Protocol::Ip) => {
                            any.push(self.network6(of(Protocol::Ipv6), *address, 128)?);
                        }
                        IpAddr::V4(_) | IpAddr::V6(_) => {}
                    }
                }
                match any.len() {
                    0 if addresses.is_empty() => Err(self.error(format!("unknown host `{name}`"))),
                    0 => Err(self.error(format!("unknown host `{name}` for the specified address family"))),
                    _ => Ok(Pred::Or(any)),
                }
            }
        }
    }

    fn protocol_name(&self, qualifier: Option<Protocol>, name: &str) -> Result<u32, Diagnostic> {
        let (what, found) = match qualifier {
            None | Some(Protocol::Ip | Protocol::Ipv6) => {
                ("ip proto", self.names.protocol(name).map(u32::from))
            }
            Some(Protocol::Iso) => {
                let row = ISO_PROTOCOLS.iter().find(|(known, _)| *known == name);
                ("osi proto", row.map(|(_, number)| u32::from(*number)))
            }
            Some(Protocol::Link) => {
                let row = LINK_PROTOCOLS.iter().find(|(known, _)| *known == name);
                ("ether proto", row.map(|(_, number)| u32::from(*number)))
            }
            Some(_) => ("protocol", None),
        };
        found.ok_or_else(|| self.error(format!("unknown {what} `{name}`")).with_hint("give its number"))
    }

    /// A number, by its qualifiers.
    pub(super) fn number(&mut self, qualifiers: Qualifiers, number: u32) -> Lowering {
        match qualifiers.kind {
            Kind::Default | Kind::Host | Kind::Net => match qualifiers.protocol {
                Some(Protocol::Decnet) => self.decnet(number, qualifiers.direction),
                Some(Protocol::Link) => Err(self
                    .error("illegal link layer address")
                    .with_hint("a hardware address is six bytes with `:`")),
                _ => {
                    let (address, mask) =
                        if qualifiers.kind == Kind::Net { promoted(number) } else { (number, u32::MAX) };
                    self.network(qualifiers, address, mask)
                }
            },
            Kind::Port | Kind::Portrange => self.port_number(qualifiers, number),
            Kind::Proto => self.proto(qualifiers.protocol, number),
            Kind::Protochain => self.protochain(qualifiers.protocol, number),
            Kind::Gateway => Err(self.error("`gateway` requires a name")),
        }
    }

    /// Two to four numbers with dots.
    pub(super) fn dotted(&mut self, qualifiers: Qualifiers, parts: &[u32]) -> Lowering {
        if qualifiers.protocol == Some(Protocol::Decnet) {
            if parts.contains(&u32::MAX) {
                return Err(self
                    .error("malformed decnet address")
                    .with_hint("area and node: `decnet host 10.123`"));
            }
            // 6 bits of area, and 10 of node.
            return self.decnet((parts[0] & 0x3f) << 10 | parts[1] & 0x3ff, qualifiers.direction);
        }
        let (address, bits) = self.address(parts)?;
        match qualifiers.kind {
            Kind::Default | Kind::Host | Kind::Net => {
                if qualifiers.protocol == Some(Protocol::Link) {
                    return Err(self.error("illegal link layer address"));
                }
                self.network(qualifiers, address, mask_of(bits))
            }
            kind => Err(self.error(format!("`{}` modifier applied to an IP address", kind_name(kind)))),
        }
    }

    /// The address that begins with `parts`, and the bits that they are.
    fn address(&self, parts: &[u32]) -> Result<(u32, u32), Diagnostic> {
        if parts.iter().any(|part| *part > 255) {
            return Err(self
                .error("invalid IPv4 address")
                .with_hint("its parts are decimal, and at most 255"));
        }
        let number = parts.iter().fold(0, |number, part| number << 8 | part);
        let bits = 8 * parts.len() as u32;
        Ok((number << (32 - bits), bits))
    }

    pub(super) fn dotted_length(&mut self, qualifiers: Qualifiers, parts: &[u32], bits: u32) -> Lowering {
        let (address, _) = self.address(parts)?;
        if bits > 32 {
            return Err(self.error(format!("the mask length {bits} is more than 32")));
        }
        self.masked_network(qualifiers, address, mask_of(bits))
    }

    pub(super) fn dotted_mask(&mut self, qualifiers: Qualifiers, parts: &[u32], mask: &[u32]) -> Lowering {
        let (address, _) = self.address(parts)?;
        let (mask, _) = self.address(mask)?;
        self.masked_network(qualifiers, address, mask)
    }

    fn masked_network(&mut self, qualifiers: Qualifiers, address: u32, mask: u32) -> Lowering {
        if address & !mask != 0 {
            let network = std::net::Ipv4Addr::from(address & mask);
            return Err(self
                .error("the address has bits that are not of the network")
                .with_hint(format!("the network is {network}")));
        }
        if qualifiers.kind != Kind::Net {
            return Err(self.error("a mask is for networks only").with_hint("say `net`"));
        }
        self.network(qualifiers, address, mask)
    }

    pub(super) fn ipv6(&mut self, qualifiers: Qualifiers, address: Ipv6Addr, bits: u32) -> Lowering {
        if bits > 128 {
            return Err(self.error(format!("the mask length {bits} is more than 128")));
        }
        let mask = mask6_of(bits);
        if u128::from(address) & !mask != 0 {
            let network = Ipv6Addr::from(u128::from(address) & mask);
            return Err(self
                .error("the address has bits that are not of the network")
                .with_hint(format!("the network is {network}")));
        }
        match qualifiers.kind {
            Kind::Default | Kind::Host if bits != 128 => {
                Err(self.error("a mask is for networks only").with_hint("say `net`"))
            }
            Kind::Default | Kind::Host | Kind::Net => self.network6(qualifiers, address, bits),
            kind => {
                Err(self.error(format!("`{}` is an invalid qualifier of an IPv6 address", kind_name(kind))))
            }
        }
    }

    /// Packets from or to any of the IPv4 addresses of a set.
    pub(super) fn network_in(&mut self, qualifiers: Qualifiers, set: ValueId) -> Lowering {
        self.network_of(qualifiers, Addresses::Set(set))
    }

    /// Packets from or to an IPv4 network.
    fn network(&mut self, qualifiers: Qualifiers, address: u32, mask: u32) -> Lowering {
        if qualifiers.protocol == Some(Protocol::Decnet) {
            return self.decnet(address, qualifiers.direction);
        }
        self.network_of(qualifiers, Addresses::Network(address, mask))
    }

    fn network_of(&mut self, qualifiers: Qualifiers, addresses: Addresses) -> Lowering {
        let direction = qualifiers.direction;
        let what = if qualifiers.kind == Kind::Net { "net" } else { "host" };
        match qualifiers.protocol {
            None => {
                let mut any = vec![self.address_of(ethertype::IP, (12, 16), addresses, direction)?];
                // After labels there is IP alone.
                if self.offsets.mpls_depth == 0 {
                    any.push(self.address_of(ethertype::ARP, (14, 24), addresses, direction)?);
                    any.push(self.address_of(ethertype::RARP, (14, 24), addresses, direction)?);
                }
                Ok(Pred::Or(any))
            }
            Some(Protocol::Ip) => self.address_of(ethertype::IP, (12, 16), addresses, direction),
            Some(Protocol::Arp) => self.address_of(ethertype::ARP, (14, 24), addresses, direction),
            Some(Protocol::Rarp) => self.address_of(ethertype::RARP, (14, 24), addresses, direction),
            Some(other) => Err(self
                .error(format!("{} modifier applied to an IPv4 {what}", modifier(other)))
                .with_hint("`ip`, `arp` and `rarp` have IPv4 addresses")),
        }
    }

    fn address_of(
        &mut self,
        link: u16,
        offsets: (u32, u32),
        addresses: Addresses,
        direction: Option<Direction>,
    ) -> Lowering {
        self.sides(direction, |lower, is_source| {
            let is_protocol = lower.link_type(link.into())?;
            let offset = if is_source { offsets.0 } else { offsets.1 };
            let matches = match addresses {
                Addresses::Network(address, mask) => {
                    lower.masked_equal(Base::Network, offset, Width::Word, mask, address)
                }
                Addresses::Set(set) => lower.equal_value(Base::Network, offset, Width::Word, set),
            };
            Ok(is_protocol.and(matches))
        })
    }

    fn network6(&mut self, qualifiers: Qualifiers, address: Ipv6Addr, bits: u32) -> Lowering {
        match qualifiers.protocol {
            None | Some(Protocol::Ipv6) => {}
            Some(other) => {
                return Err(self
                    .error(format!("{} modifier applied to an IPv6 address", modifier(other)))
                    .with_hint("`ip6` has IPv6 addresses"));
            }
        }
        let (address, mask) = (u128::from(address), mask6_of(bits));
        self.sides(qualifiers.direction, |lower, is_source| {
            let mut all = vec![lower.link_type(ethertype::IPV6.into())?];
            let offset = if is_source { 8 } else { 24 };
            for word in 0..4 {
                let part = |number: u128| (number >> (96 - 32 * word)) as u32;
                all.push(lower.masked_equal(
                    Base::Network,
                    offset + 4 * word,
                    Width::Word,
                    part(mask),
                    part(address),
                ));
            }
            Ok(Pred::And(all))
        })
    }

    /// A test of the source, the destination, one of them or both.
    fn sides(
        &mut self,
        direction: Option<Direction>,
        mut test: impl FnMut(&mut Self, bool) -> Lowering,
    ) -> Lowering {
        match direction {
            Some(Direction::Src) => test(self, true),
            Some(Direction::Dst) => test(self, false),
            Some(Direction::And) => Ok(test(self, true)?.and(test(self, false)?)),
            None | Some(Direction::Or) => Ok(test(self, true)?.or(test(self, false)?)),
            Some(_) => Err(self.error(
                "addr1 to addr4, ra and ta are no qualifiers of addresses other than those of 802.11",
            )),
        }
    }

    /// DECnet addresses, which are little endian: in short and long headers, each with a byte of padding before it or not.
    fn decnet(&mut self, address: u32, direction: Option<Direction>) -> Lowering {
        let number = u32::from((address as u16).swap_bytes());
        self.sides(direction, |lower, is_source| {
            let is_decnet = lower.link_type(ethertype::DECNET.into())?;
            let (short, long) = if is_source { (3, 15) } else { (1, 7) };
            let mut any = Vec::new();
            for (flags, offset) in [(0x02, short), (0x06, long)] {
                let plain = lower.masked_equal(Base::Network, 2, Width::Byte, 0x07, flags);
                any.push(plain.and(lower.equal(Base::Network, 2 + offset, Width::Half, number)));
                let padded = lower.masked_equal(Base::Network, 2, Width::Half, 0xff07, 0x8100 | flags);
                any.push(padded.and(lower.equal(Base::Network, 3 + offset, Width::Half, number)));
            }
            Ok(is_decnet.and(Pred::Or(any)))
        })
    }

    /// A hardware address.
    pub(super) fn ether(&mut self, qualifiers: Qualifiers, address: [u8; 6]) -> Lowering {
        let is_host = matches!(qualifiers.kind, Kind::Default | Kind::Host);
        if !is_host || qualifiers.protocol != Some(Protocol::Link) {
            return Err(self
                .error("a hardware address in an expression that is not of the link layer")
                .with_hint("say `ether host`, `ether src` or `ether dst`"));
        }
        self.hardware(address, qualifiers.direction)
    }

    fn hardware(&mut self, address: [u8; 6], direction: Option<Direction>) -> Lowering {
        if is_wlan(self.offsets.link) {
            return self.wlan_address(address, direction);
        }
        let Some(Places { source, destination }) = self.places() else {
            return Err(self.error(
                "ethernet addresses supported only on ethernet/FDDI/token ring/802.11/ATM LANE/Fibre Channel",
            ));
        };
        if let Some(
            Direction::Addr1
            | Direction::Addr2
            | Direction::Addr3
            | Direction::Addr4
            | Direction::Ra
            | Direction::Ta,
        ) = direction
        {
            return Err(
                self.error("addr1 to addr4, ra and ta are only supported on 802.11 with 802.11 headers")
            );
        }
        let inside = self.inside_ethernet();
        let host = self.sides(direction, |lower, is_source| {
            Ok(lower.bytes(Base::LinkHeader, if is_source { source } else { destination }, &address))
        })?;
        Ok(match inside {
            Some(inside) => inside.and(host),
            None => host,
        })
    }

    fn places(&self) -> Option<Places> {
        let at = |source, destination| Some(Places { source, destination });
        match self.offsets.link {
            LinkType::EN10MB | LinkType::NETANALYZER | LinkType::NETANALYZER_TRANSPARENT => at(6, 0),
            LinkType::FDDI => at(7, 1),
            LinkType::IEEE802 => at(8, 2),
            LinkType::IP_OVER_FC => at(10, 2),
            _ => None,
        }
    }

    fn inside_ethernet(&mut self) -> Option<Pred> {
        let is_ethernet = matches!(
            self.offsets.link,
            LinkType::EN10MB | LinkType::NETANALYZER | LinkType::NETANALYZER_TRANSPARENT
        );
        if is_ethernet { self.inside_outer_link() } else { None }
    }

    /// An address of one byte: of ARCnet, or, as of libpcap 1.11, of MS/TP.
    pub(super) fn one_byte(&mut self, qualifiers: Qualifiers, address: OneByte) -> Lowering {
        let is_host = matches!(qualifiers.kind, Kind::Default | Kind::Host);
        let link = self.offsets.link;
        if !matches!(link, LinkType::ARCNET | LinkType::ARCNET_LINUX | LinkType::BACNET_MS_TP) {
            return Err(self.error("addresses with `$` are supported only on ARCnet and MS/TP"));
        }
        if !is_host || qualifiers.protocol != Some(Protocol::Link) {
            return Err(self.error("an address with `$` in an expression that is not of the link layer"));
        }
        let is_of_1_10 = link != LinkType::BACNET_MS_TP && !self.is_scoped();
        self.one_byte_host(if is_of_1_10 { address.of_1_10 } else { address.address }, qualifiers.direction)
    }

    fn one_byte_host(&mut self, address: u8, direction: Option<Direction>) -> Lowering {
        // ARCnet's header begins with the source, and MS/TP's has the destination as its fourth byte; the other one comes next.
        let (source, destination) = match self.offsets.link {
            LinkType::BACNET_MS_TP => (4, 3),
            _ => (0, 1),
        };
        self.sides(direction, |lower, is_source| {
            let at = if is_source { source } else { destination };
            Ok(lower.equal(Base::LinkHeader, at, Width::Byte, address.into()))
        })
    }

    pub(super) fn broadcast(&mut self, protocol: Option<Protocol>) -> Lowering {
        match protocol {
            None | Some(Protocol::Link) => match self.offsets.link {
                LinkType::ARCNET | LinkType::ARCNET_LINUX => self.one_byte_host(0, Some(Direction::Dst)),
                LinkType::BACNET_MS_TP => self.one_byte_host(0xff, Some(Direction::Dst)),
                link if self.places().is_some() || is_wlan(link) => {
                    self.hardware([0xff; 6], Some(Direction::Dst))
                }
                _ => Err(self.error("not a broadcast link")),
            },
            Some(Protocol::Ip) => {
                let Some(netmask) = self.options.netmask else {
                    return Err(self
                        .error("the netmask is not known, so `ip broadcast` is not supported")
                        .with_hint("give it with --netmask"));
                };
                let is_ip = self.link_type(ethertype::IP.into())?;
                let host = !netmask;
                let zeros = self.masked_equal(Base::Network, 16, Width::Word, host, 0);
                let ones = self.masked_equal(Base::Network, 16, Width::Word, host, host);
                Ok(is_ip.and(zeros.or(ones)))
            }
            Some(_) => Err(self.error("only link-layer and IP broadcast filters are supported")),
        }
    }

    pub(super) fn multicast(&mut self, protocol: Option<Protocol>) -> Lowering {
        match protocol {
            None | Some(Protocol::Link) => match self.offsets.link {
                LinkType::ARCNET | LinkType::ARCNET_LINUX => {
                    return self.one_byte_host(0, Some(Direction::Dst));
                }
                link if is_wlan(link) => return Ok(self.wlan_multicast()),
                _ => {
                    if let Some(Places { destination, .. }) = self.places() {
                        let inside = self.inside_ethernet();
                        let group = self.has(Base::LinkHeader, destination, Width::Byte, 1);
                        return Ok(match inside {
                            Some(inside) => inside.and(group),
                            None => group,
                        });
                    }
                }
            },
            Some(Protocol::Ip) => {
                let is_ip = self.link_type(ethertype::IP.into())?;
                return Ok(is_ip.and(self.compare(Base::Network, 16, Width::Byte, Comparison::Ge, 224)));
            }
            Some(Protocol::Ipv6) => {
                let is_ip = self.link_type(ethertype::IPV6.into())?;
                return Ok(is_ip.and(self.equal(Base::Network, 24, Width::Byte, 255)));
            }
            Some(_) => {}
        }
        Err(self.error(
            "link-layer multicast filters supported only on ethernet/FDDI/token ring/ARCNET/802.11/ATM LANE/Fibre Channel",
        ))
    }
}

/// A network's number, moved to the left until its first byte is not 0, and its mask.
fn promoted(number: u32) -> (u32, u32) {
    let bytes = if number == 0 { 0 } else { number.leading_zeros() / 8 };
    (number << (8 * bytes), u32::MAX << (8 * bytes))
}

fn mask_of(bits: u32) -> u32 {
    u32::MAX.checked_shl(32 - bits).unwrap_or(0)
}

fn mask6_of(bits: u32) -> u128 {
    u128::MAX.checked_shl(128 - bits).unwrap_or(0)
}

fn kind_name(kind: Kind) -> &'static str {
    match kind {
        Kind::Default | Kind::Host => "host",
        Kind::Net => "net",
        Kind::Port => "port",
        Kind::Portrange => "portrange",
        Kind::Proto => "proto",
        Kind::Protochain => "protochain",
        Kind::Gateway => "gateway",
    }
}
