//! Numbers that a packet has, and their comparisons.

use weir_source::Diagnostic;

use super::offsets::Base;
use super::{Lower, Lowering};
use crate::ast::{Arith, Operator, Relation};
use crate::ir::{Comparison, Pred, Test, Value, ValueId, Width};
use crate::link::LinkType;
use crate::protocol::{Carrier, Protocol, ethertype, ip};

/// A number, and what must hold before it is looked at.
struct Number {
    value: ValueId,
    guards: Vec<Pred>,
}

impl Lower<'_> {
    pub(super) fn relation(&mut self, relation: Relation, left: &Arith, right: &Arith) -> Lowering {
        let left = self.number_of(left)?;
        let right = self.number_of(right)?;
        let (comparison, is_contrary) = match relation {
            Relation::Eq => (Comparison::Eq, false),
            Relation::Ne => (Comparison::Eq, true),
            Relation::Gt => (Comparison::Gt, false),
            Relation::Le => (Comparison::Gt, true),
            Relation::Ge => (Comparison::Ge, false),
            Relation::Lt => (Comparison::Ge, true),
        };
        let test = Pred::Test(Test { comparison, left: left.value, right: right.value, by_register: true });
        let test = if is_contrary { test.not() } else { test };
        let mut all = left.guards;
        all.extend(right.guards);
        all.push(test);
        Ok(Pred::And(all))
    }

    fn number_of(&mut self, arith: &Arith) -> Result<Number, Diagnostic> {
        Ok(match arith {
            Arith::Number(number) => Number { value: self.values.number(*number), guards: Vec::new() },
            Arith::Len => Number { value: self.values.add(Value::Len), guards: Vec::new() },
            Arith::Negate(inner) => {
                let inner = self.number_of(inner)?;
                Number { value: self.values.add(Value::Negate(inner.value)), guards: inner.guards }
            }
            Arith::Binary(operator, left, right, span) => {
                if let Arith::Number(number) = **right {
                    let fault = match operator {
                        Operator::Div if number == 0 => Some("division by zero"),
                        Operator::Mod if number == 0 => Some("modulus by zero"),
                        Operator::Lsh | Operator::Rsh if number > 31 => Some("shift by more than 31 bits"),
                        _ => None,
                    };
                    if let Some(fault) = fault {
                        return Err(Diagnostic::error(*span, fault));
                    }
                }
                let left = self.number_of(left)?;
                let right = self.number_of(right)?;
                let value = Value::Binary {
                    operator: *operator,
                    left: left.value,
                    right: right.value,
                    by_register: true,
                };
                // libpcap forgets what the right side asks for.
                Number { value: self.values.add(value), guards: left.guards }
            }
            Arith::Load { protocol, offset, bytes, span } => {
                let index = self.number_of(offset)?;
                self.span = *span;
                let width = match bytes {
                    1 => Width::Byte,
                    2 => Width::Half,
                    4 => Width::Word,
                    _ => return Err(self.error(format!("data size must be 1, 2, or 4, not {bytes}"))),
                };
                self.accessor(*protocol, index, width)?
            }
        })
    }

    /// `protocol[index]`.
    fn accessor(&mut self, protocol: Protocol, index: Number, width: Width) -> Result<Number, Diagnostic> {
        let mut guards = index.guards;
        let base = match protocol {
            Protocol::Radio => {
                let has_radio = matches!(
                    self.offsets.link,
                    LinkType::IEEE802_11_RADIO | LinkType::IEEE802_11_RADIO_AVS | LinkType::PRISM_HEADER
                );
                if !has_radio {
                    return Err(self.error("packets of this link type have no radio information"));
                }
                Base::Packet
            }
            Protocol::Link => Base::LinkHeader,
            Protocol::Icmpv6 => {
                guards.push(self.link_type(ethertype::IPV6.into())?);
                guards.push(self.equal(Base::Network, 6, Width::Byte, ip::ICMPV6.into()));
                Base::Transport6
            }
            _ => match protocol.carrier() {
                Carrier::Link(number) if is_network(protocol) => {
                    guards.push(self.link_type(number.into())?);
                    Base::Network
                }
                Carrier::Ip(_) | Carrier::Ipv4(_) if !matches!(protocol, Protocol::Ah | Protocol::Esp) => {
                    guards.push(self.link_type(ethertype::IP.into())?);
                    guards.push(self.protocol(protocol)?);
                    guards.push(self.first_fragment());
                    Base::Transport4
                }
                _ => {
                    let message = format!(
                        "`{}` has no bytes that can be tested: unsupported index operation",
                        protocol.name()
                    );
                    return Err(self.error(message));
                }
            },
        };
        let place = self.place(base);
        let at = match place.variable {
            Some(variable) => self.values.add(Value::Binary {
                operator: Operator::Add,
                left: index.value,
                right: variable,
                by_register: true,
            }),
            None => index.value,
        };
        let value = self.values.add(Value::Load { base: Some(at), offset: place.constant, width });
        Ok(Number { value, guards })
    }
}

/// Protocols whose bytes are counted from the network header on.
fn is_network(protocol: Protocol) -> bool {
    !matches!(protocol, Protocol::Aarp | Protocol::Iso | Protocol::Stp | Protocol::Ipx | Protocol::Netbeui)
}
