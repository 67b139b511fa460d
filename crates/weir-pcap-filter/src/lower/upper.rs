//! Transport headers of scoped expressions: after an IPv4 header, after an IPv6 header, and after a chain of extension headers.
//!
//! Most IPv6 packets have no extension header. So each test is made twice: at constant offsets, where the IPv6 header names the protocol,
//! and else after the chain, if there is one ([`Upper`]), which is followed once for all that is asked after it.

use super::offsets::{Base, Offset};
use super::{Lower, Lowering};
use crate::ast::Operator;
use crate::ir::{Comparison, Pred, Upper, Value, ValueId, Width, upper};
use crate::protocol::ethertype;

/// How a transport header is come to.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) enum Way {
    #[default]
    Ipv4,
    Ipv6,
    /// IPv6, and extension headers.
    Chain,
}

impl Way {
    /// IPv6 first, as in compatible expressions.
    pub(super) const ALL: [Way; 3] = [Way::Ipv6, Way::Chain, Way::Ipv4];

    pub(super) fn base(self) -> Base {
        match self {
            Way::Ipv4 => Base::Transport4,
            Way::Ipv6 => Base::Transport6,
            Way::Chain => Base::Upper,
        }
    }
}

impl Lower<'_> {
    /// The chain after the IP header.
    fn chain(&mut self, is_ipv6: bool) -> ValueId {
        let network = self.place(Base::Network);
        self.values.add(Value::Upper(Upper { base: network.variable, offset: network.constant, is_ipv6 }))
    }

    /// The header after the chain of an IPv6 packet.
    pub(super) fn upper_header(&mut self) -> Offset {
        let network = self.place(Base::Network);
        let chain = self.chain(true);
        let length = self.values.binary(Operator::Rsh, chain, upper::OFFSET_SHIFT);
        let variable = match network.variable {
            Some(right) => {
                let sum = Value::Binary { operator: Operator::Add, left: length, right, by_register: true };
                self.values.add(sum)
            }
            None => length,
        };
        Offset { variable: Some(variable), constant: network.constant }
    }

    /// One of `protocols` is come to that way, and its header is in this packet.
    pub(super) fn transport_header(&mut self, way: Way, protocols: &[u8]) -> Lowering {
        let version = if way == Way::Ipv4 { ethertype::IP } else { ethertype::IPV6 };
        let mut all = vec![self.link_type(version.into())?];
        if way == Way::Chain {
            all.push(Pred::Need(self.chain(true)));
        }
        let mut any = Vec::new();
        for protocol in protocols {
            any.push(match way {
                Way::Ipv4 => self.equal(Base::Network, 9, Width::Byte, (*protocol).into()),
                Way::Ipv6 => self.equal(Base::Network, 6, Width::Byte, (*protocol).into()),
                Way::Chain => {
                    let chain = self.chain(true);
                    let here = upper::PROTOCOL | upper::LATER_FRAGMENT;
                    let left = self.values.binary(Operator::And, chain, here);
                    self.test(Comparison::Eq, left, (*protocol).into())
                }
            });
        }
        all.push(Pred::Or(any));
        if way == Way::Ipv4 {
            all.push(self.first_fragment());
        }
        Ok(Pred::And(all))
    }

    /// A protocol, or an extension header, is in the chain that the IP header begins.
    pub(super) fn in_chain(&mut self, is_ipv6: bool, number: u32) -> Lowering {
        let (version, at) = if is_ipv6 { (ethertype::IPV6, 6) } else { (ethertype::IP, 9) };
        let is_version = self.link_type(version.into())?;
        let next = self.equal(Base::Network, at, Width::Byte, number);
        let chain = self.chain(is_ipv6);
        let later = if upper::is_extension(number, is_ipv6) {
            self.test(Comparison::Set, chain, upper::bit(number))
        } else {
            let left = self.values.binary(Operator::And, chain, upper::PROTOCOL);
            self.test(Comparison::Eq, left, number)
        };
        Ok(is_version.and(next.or(Pred::Need(chain).and(later))))
    }
}
