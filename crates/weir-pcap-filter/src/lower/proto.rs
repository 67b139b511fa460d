//! Protocols by name and by number, and chains of headers.

use super::offsets::Base;
use super::{Lower, Lowering};
use crate::ir::{Chain, Pred, Width};
use crate::link::LinkType;
use crate::protocol::{Carrier, Protocol, ethertype, ip, iso};

impl Lower<'_> {
    /// A protocol's name alone.
    pub(super) fn protocol(&mut self, protocol: Protocol) -> Lowering {
        match protocol.carrier() {
            Carrier::Link(number) => self.link_type(number.into()),
            Carrier::Ip(number) => self.ip_protocol(number.into()),
            Carrier::Ipv4(number) => self.ipv4_protocol(number.into()),
            Carrier::Ipv6(number) => self.ipv6_protocol(number.into()),
            Carrier::Iso(number) => self.iso_protocol(number.into()),
            Carrier::Isis(kinds) => {
                let kinds = kinds.iter().map(|kind| self.isis_kind(u32::from(*kind)));
                Ok(Pred::Or(kinds.collect::<Result<_, _>>()?))
            }
            Carrier::None if protocol == Protocol::Radio => {
                Err(self.error("`radio` is not a valid protocol type"))
            }
            Carrier::None => Err(self
                .error("the link layer by itself is no condition")
                .with_hint("say what is asked of it: `ether host …`, `ether proto …`, `ether[0] = 1`")),
        }
    }

    /// `qualifier proto number`.
    pub(super) fn proto(&mut self, qualifier: Option<Protocol>, number: u32) -> Lowering {
        match qualifier {
            None => self.ip_protocol(number),
            Some(Protocol::Link) => self.link_type(number),
            Some(Protocol::Ip) => self.ipv4_protocol(number),
            Some(Protocol::Ipv6) => self.ipv6_protocol(number),
            Some(Protocol::Iso) => self.iso_protocol(number),
            Some(Protocol::Isis) => self.isis_kind(number),
            Some(other) => {
                let name = other.name();
                Err(self.error(format!(
                    "`{name}` encapsulates no other protocol, so `{name} proto` has no meaning"
                )))
            }
        }
    }

    fn ip_protocol(&mut self, number: u32) -> Lowering {
        Ok(self.ipv4_protocol(number)?.or(self.ipv6_protocol(number)?))
    }

    fn ipv4_protocol(&mut self, number: u32) -> Lowering {
        let is_ip = self.link_type(ethertype::IP.into())?;
        Ok(is_ip.and(self.equal(Base::Network, 9, Width::Byte, number)))
    }

    /// In the header, or in the one after a fragment header.
    fn ipv6_protocol(&mut self, number: u32) -> Lowering {
        if self.is_scoped() {
            return self.in_chain(true, number);
        }
        let is_ipv6 = self.link_type(ethertype::IPV6.into())?;
        let next = self.equal(Base::Network, 6, Width::Byte, number);
        let is_fragment = self.equal(Base::Network, 6, Width::Byte, ip::FRAGMENT.into());
        let in_fragment = is_fragment.and(self.equal(Base::Network, 40, Width::Byte, number));
        Ok(is_ipv6.and(next.or(in_fragment)))
    }

    fn iso_protocol(&mut self, number: u32) -> Lowering {
        match self.offsets.link {
            LinkType::FRELAY => Ok(self.equal(Base::LinkHeader, 2, Width::Half, 3 << 8 | number)),
            LinkType::C_HDLC | LinkType::HDLC => {
                let is_iso = self.link_type(ethertype::SAP_ISO.into())?;
                Ok(is_iso.and(self.equal(Base::NetworkNosnap, 1, Width::Byte, number)))
            }
            _ => {
                let is_iso = self.link_type(ethertype::SAP_ISO.into())?;
                Ok(is_iso.and(self.equal(Base::NetworkNosnap, 0, Width::Byte, number)))
            }
        }
    }

    fn isis_kind(&mut self, number: u32) -> Lowering {
        let is_isis = self.iso_protocol(iso::ISIS.into())?;
        Ok(is_isis.and(self.equal(Base::NetworkNosnap, 4, Width::Byte, number)))
    }

    /// `qualifier protochain number`.
    pub(super) fn protochain(&mut self, qualifier: Option<Protocol>, number: u32) -> Lowering {
        self.is_verbatim = true;
        match qualifier {
            None => {
                Ok(self.protochain_of(Protocol::Ip, number)?.or(self.protochain_of(Protocol::Ipv6, number)?))
            }
            Some(version @ (Protocol::Ip | Protocol::Ipv6)) => self.protochain_of(version, number),
            Some(other) => Err(self
                .error(format!("`{}` has no chain of headers", other.name()))
                .with_hint("`ip protochain`, `ip6 protochain` or `protochain`")),
        }
    }

    fn protochain_of(&mut self, version: Protocol, protocol: u32) -> Lowering {
        if self.is_scoped() {
            return self.in_chain(version == Protocol::Ipv6, protocol);
        }
        let place = self.place(Base::Network);
        if place.variable.is_some() {
            return Err(self.error("`protochain` is not supported with variable length headers"));
        }
        let is_ipv6 = version == Protocol::Ipv6;
        let number = if is_ipv6 { ethertype::IPV6 } else { ethertype::IP };
        let is_ip = self.link_type(number.into())?;
        Ok(is_ip.and(Pred::Chain(Chain { is_ipv6, protocol, header: place.constant })))
    }
}
