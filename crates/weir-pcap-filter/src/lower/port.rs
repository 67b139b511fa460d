//! Ports of TCP, UDP and SCTP.

use super::offsets::Base;
use super::upper::Way;
use super::{Lower, Lowering};
use crate::ast::{Direction, Kind, Qualifiers};
use crate::ir::{Comparison, Pred, ValueId, Width};
use crate::names::Transport;
use crate::protocol::{Protocol, ethertype, ip};

/// Ports from the first to the last, or one, which is tested otherwise.
#[derive(Clone, Copy)]
enum Ports {
    One(u32),
    Range(u32, u32),
    Set(ValueId),
}

impl Lower<'_> {
    /// `port number` and `portrange number`.
    pub(super) fn port_number(&mut self, qualifiers: Qualifiers, number: u32) -> Lowering {
        let protocol = self.transport(qualifiers)?;
        if number > 65535 {
            return Err(self.error(format!("illegal port number {number} > 65535")));
        }
        let ports =
            if qualifiers.kind == Kind::Port { Ports::One(number) } else { Ports::Range(number, number) };
        self.ports(ports, protocol, qualifiers.direction)
    }

    /// `port`, and any number of a set.
    pub(super) fn ports_in(&mut self, qualifiers: Qualifiers, set: ValueId) -> Lowering {
        let protocol = self.transport(qualifiers)?;
        self.ports(Ports::Set(set), protocol, qualifiers.direction)
    }

    /// `port name`.
    pub(super) fn port_name(&mut self, qualifiers: Qualifiers, name: &str) -> Lowering {
        let asked = self.transport(qualifiers)?;
        let (port, protocol) = self.named_port(name, asked)?;
        self.ports(Ports::One(port), protocol, qualifiers.direction)
    }

    /// `portrange first-last`, of numbers or names.
    pub(super) fn port_range(&mut self, qualifiers: Qualifiers, name: &str) -> Lowering {
        let asked = self.transport(qualifiers)?;
        // Names with `-` in them cannot stand in a range.
        let ends = name.split_once('-');
        let found = ends.and_then(|(first, last)| Some((self.port_of(first)?, self.port_of(last)?)));
        let Some((first, last)) = found else {
            // One name alone is a range of one port.
            if ends.is_none()
                && let Some((port, protocol)) = self.port_of(name)
            {
                let protocol = self.agreed(name, asked, protocol)?;
                return self.ports(Ports::Range(port, port), protocol, qualifiers.direction);
            }
            return Err(self
                .error(format!("unknown port in range `{name}`"))
                .with_hint("a range is two numbers or services with `-`: `portrange 6000-6008`"));
        };
        // Of different protocols: a range of all.
        let protocol = if first.1 == last.1 { first.1 } else { None };
        let protocol = self.agreed(name, asked, protocol)?;
        self.ports(Ports::Range(first.0, last.0), protocol, qualifiers.direction)
    }

    /// The protocol that the qualifiers ask for.
    fn transport(&self, qualifiers: Qualifiers) -> Result<Option<Transport>, weir_source::Diagnostic> {
        Ok(match qualifiers.protocol {
            None => None,
            Some(Protocol::Tcp) => Some(Transport::Tcp),
            Some(Protocol::Udp) => Some(Transport::Udp),
            Some(Protocol::Sctp) => Some(Transport::Sctp),
            Some(other) => {
                let what = if qualifiers.kind == Kind::Port { "port" } else { "portrange" };
                return Err(self
                    .error(format!(
                        "{} has no ports, so it is an illegal qualifier of `{what}`",
                        super::modifier(other)
                    ))
                    .with_hint("`tcp`, `udp` and `sctp` have ports; for IPv4 alone say `ip and port …`"));
            }
        })
    }

    fn named_port(
        &self,
        name: &str,
        asked: Option<Transport>,
    ) -> Result<(u32, Option<Transport>), weir_source::Diagnostic> {
        let Some((port, protocol)) = self.port_of(name) else {
            return Err(self
                .error(format!("unknown port `{name}`"))
                .with_hint("services(5) has those that are known"));
        };
        Ok((port, self.agreed(name, asked, protocol)?))
    }

    /// A number, or a service: its port, and its protocol if it has but one.
    fn port_of(&self, name: &str) -> Option<(u32, Option<Transport>)> {
        if let Ok(number) = name.parse::<u16>() {
            return Some((number.into(), None));
        }
        let tcp = self.names.port(name, Transport::Tcp);
        let udp = self.names.port(name, Transport::Udp);
        match (tcp, udp) {
            (Some(tcp), Some(udp)) if tcp == udp => Some((tcp.into(), None)),
            (Some(tcp), _) => Some((tcp.into(), Some(Transport::Tcp))),
            (None, Some(udp)) => Some((udp.into(), Some(Transport::Udp))),
            (None, None) => None,
        }
    }

    /// The protocol that is tested, if the one asked for is the service's.
    fn agreed(
        &self,
        name: &str,
        asked: Option<Transport>,
        found: Option<Transport>,
    ) -> Result<Option<Transport>, weir_source::Diagnostic> {
        match (asked, found) {
            (Some(asked), Some(found)) if asked != found => {
                let found = if found == Transport::Tcp { "tcp" } else { "udp" };
                Err(self.error(format!("port `{name}` is {found}")))
            }
            (asked, found) => Ok(asked.or(found)),
        }
    }

    /// IPv6 first, as libpcap does.
    fn ports(&mut self, ports: Ports, protocol: Option<Transport>, direction: Option<Direction>) -> Lowering {
        if self.is_scoped() {
            return self.scoped_ports(ports, protocol, direction);
        }
        let ipv6 = self.ports_of_version(ports, protocol, direction, true)?;
        Ok(ipv6.or(self.ports_of_version(ports, protocol, direction, false)?))
    }

    fn ports_of_version(
        &mut self,
        ports: Ports,
        protocol: Option<Transport>,
        direction: Option<Direction>,
        is_ipv6: bool,
    ) -> Lowering {
        let number = if is_ipv6 { ethertype::IPV6 } else { ethertype::IP };
        let is_ip = self.link_type(number.into())?;
        let protocols = match protocol {
            Some(protocol) => vec![ip_number(protocol)],
            None => vec![ip::SCTP, ip::TCP, ip::UDP],
        };
        let mut any = Vec::new();
        for protocol in protocols {
            any.push(self.ports_of_protocol(ports, protocol, direction, is_ipv6)?);
        }
        Ok(is_ip.and(Pred::Or(any)))
    }

    /// UDP to a port, over the version of IP that `transport` is after.
    pub(super) fn udp_to(&mut self, transport: Base, port: u32) -> Lowering {
        let is_ipv6 = transport == Base::Transport6;
        self.ports_of_version(Ports::One(port), Some(Transport::Udp), Some(Direction::Dst), is_ipv6)
    }

    fn ports_of_protocol(
        &mut self,
        ports: Ports,
        protocol: u8,
        direction: Option<Direction>,
        is_ipv6: bool,
    ) -> Lowering {
        let at = if is_ipv6 { 6 } else { 9 };
        let mut all = vec![self.equal(Base::Network, at, Width::Byte, protocol.into())];
        if !is_ipv6 {
            all.push(self.first_fragment());
        }
        let base = if is_ipv6 { Base::Transport6 } else { Base::Transport4 };
        all.push(self.ports_at(base, ports, direction)?);
        Ok(Pred::And(all))
    }

    /// The ports of the transport header at `base`.
    fn ports_at(&mut self, base: Base, ports: Ports, direction: Option<Direction>) -> Lowering {
        Ok(match direction {
            Some(Direction::Src) => self.port_at(base, 0, ports),
            Some(Direction::Dst) => self.port_at(base, 2, ports),
            Some(Direction::And) => self.port_at(base, 0, ports).and(self.port_at(base, 2, ports)),
            None | Some(Direction::Or) => self.port_at(base, 0, ports).or(self.port_at(base, 2, ports)),
            Some(_) => {
                return Err(self
                    .error("an 802.11 address is no direction of a port")
                    .with_hint("`src` and `dst` are"));
            }
        })
    }

    /// After each way to a transport header. The protocols are asked first, the ports then, once.
    fn scoped_ports(
        &mut self,
        ports: Ports,
        protocol: Option<Transport>,
        direction: Option<Direction>,
    ) -> Lowering {
        let protocols: Vec<u8> = match protocol {
            Some(protocol) => vec![ip_number(protocol)],
            None => vec![ip::TCP, ip::UDP, ip::SCTP],
        };
        let mut any = Vec::new();
        for way in Way::ALL {
            let of_ports = self.ports_at(way.base(), ports, direction)?;
            any.push(self.transport_header(way, &protocols)?.and(of_ports));
        }
        Ok(Pred::Or(any))
    }

    /// UDP to a port, after one way, in scoped expressions.
    pub(super) fn scoped_udp_to(&mut self, way: Way, port: u32) -> Lowering {
        let to = self.equal(way.base(), 2, Width::Half, port);
        Ok(self.transport_header(way, &[ip::UDP])?.and(to))
    }

    fn port_at(&mut self, base: Base, offset: u32, ports: Ports) -> Pred {
        match ports {
            Ports::One(port) => self.equal(base, offset, Width::Half, port),
            Ports::Set(set) => self.equal_value(base, offset, Width::Half, set),
            Ports::Range(first, last) => {
                let (first, last) = (first.min(last), first.max(last));
                let from = self.compare(base, offset, Width::Half, Comparison::Ge, first);
                from.and(self.compare(base, offset, Width::Half, Comparison::Gt, last).not())
            }
        }
    }

    /// No fragment of an IPv4 datagram but the first.
    pub(super) fn first_fragment(&mut self) -> Pred {
        self.has(Base::Network, 6, Width::Half, 0x1fff).not()
    }
}

fn ip_number(transport: Transport) -> u8 {
    match transport {
        Transport::Tcp => ip::TCP,
        Transport::Udp => ip::UDP,
        Transport::Sctp => ip::SCTP,
    }
}
