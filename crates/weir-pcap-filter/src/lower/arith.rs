//! Numbers that a packet has, and their comparisons.

use weir_source::Diagnostic;

use super::offsets::Base;
use super::upper::Way;
use super::{Lower, Lowering};
use crate::ast::{Arith, Fact, Operator, Relation};
use crate::ir::{Comparison, ContextField, Pred, Test, Value, ValueId, Width, calculate};
use crate::link::LinkType;
use crate::protocol::{Carrier, Protocol, ethertype, ip};

/// A number, and what must hold before it is looked at.
struct Number {
    value: ValueId,
    guards: Vec<Pred>,
}

impl Lower<'_> {
    pub(super) fn relation(&mut self, relation: Relation, left: &Arith, right: &Arith) -> Lowering {
        if !self.is_scoped() {
            return self.relation_at(relation, left, right);
        }
        // A packet has one transport header. It is asked after each way that there may be to it.
        let ways = ways_of(left) | ways_of(right);
        let mut any = Vec::new();
        for way in Way::ALL.into_iter().filter(|way| ways & (1 << *way as u8) != 0) {
            self.way = way;
            any.push(self.relation_at(relation, left, right)?);
        }
        match any.is_empty() {
            true => self.relation_at(relation, left, right),
            false => Ok(Pred::Or(any)),
        }
    }

    fn relation_at(&mut self, relation: Relation, left: &Arith, right: &Arith) -> Lowering {
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
        let by_register = !self.is_scoped() || self.values.constant(right.value).is_none();
        let test = Pred::Test(Test { comparison, left: left.value, right: right.value, by_register });
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
            Arith::Fact(fact) => Number { value: self.fact(*fact), guards: Vec::new() },
            Arith::Negate(inner) => {
                let inner = self.number_of(inner)?;
                if let (true, Some(number)) = (self.is_scoped(), self.values.constant(inner.value)) {
                    return Ok(Number { value: self.values.number(number.wrapping_neg()), ..inner });
                }
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
                let mut left = self.number_of(left)?;
                let right = self.number_of(right)?;
                if self.is_scoped() {
                    left.guards.extend(right.guards);
                    let fault = |fault| Diagnostic::error(*span, fault);
                    let value = self.folded(*operator, left.value, right.value).map_err(fault)?;
                    return Ok(Number { value, guards: left.guards });
                }
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

    fn fact(&mut self, fact: Fact) -> ValueId {
        match fact {
            Fact::Hash => self.values.add(Value::Context(ContextField::Hash)),
            Fact::Queue => {
                let mapping = self.values.add(Value::Context(ContextField::QueueMapping));
                self.values.binary(Operator::Sub, mapping, 1)
            }
        }
    }

    /// `left operator right`, in its simplest form. The error: what cannot be calculated.
    fn folded(&mut self, operator: Operator, left: ValueId, right: ValueId) -> Result<ValueId, &'static str> {
        let number = self.values.constant(right);
        match (operator, number) {
            (Operator::Div, Some(0)) => return Err("division by zero"),
            (Operator::Mod, Some(0)) => return Err("modulus by zero"),
            (Operator::Lsh | Operator::Rsh, Some(32..)) => return Err("shift by more than 31 bits"),
            _ => {}
        }
        if let (Some(left), Some(right)) = (self.values.constant(left), number)
            && let Some(result) = calculate(operator, left, right)
        {
            return Ok(self.values.number(result));
        }
        // It matters to compatible filters alone.
        let by_register = number.is_none();
        Ok(self.values.add(Value::Binary { operator, left, right, by_register }))
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
            Protocol::Icmpv6 if self.is_scoped() => {
                guards.push(self.transport_header(self.way, &[ip::ICMPV6])?);
                self.way.base()
            }
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
                Carrier::Ip(number) | Carrier::Ipv4(number)
                    if self.is_scoped() && !matches!(protocol, Protocol::Ah | Protocol::Esp) =>
                {
                    guards.push(self.transport_header(self.way, &[number])?);
                    self.way.base()
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
        if self.is_scoped()
            && let Some(index) = self.values.constant(index.value)
        {
            let offset = place.constant.wrapping_add(index);
            let value = self.values.add(Value::Load { base: place.variable, offset, width });
            return Ok(Number { value, guards });
        }
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

/// The ways that a number of a scoped expression asks for, as bits.
fn ways_of(arith: &Arith) -> u8 {
    let bits = |ways: &[Way]| ways.iter().fold(0, |bits, way| bits | 1 << *way as u8);
    match arith {
        Arith::Number(_) | Arith::Len | Arith::Fact(_) => 0,
        Arith::Negate(inner) => ways_of(inner),
        Arith::Binary(_, left, right, _) => ways_of(left) | ways_of(right),
        Arith::Load { protocol, offset, .. } => {
            let own = match protocol.carrier() {
                Carrier::Ip(_) => bits(&Way::ALL),
                Carrier::Ipv4(_) => bits(&[Way::Ipv4]),
                Carrier::Ipv6(_) => bits(&[Way::Ipv6, Way::Chain]),
                Carrier::Link(_) | Carrier::Iso(_) | Carrier::Isis(_) | Carrier::None => 0,
            };
            own | ways_of(offset)
        }
    }
}

/// Protocols whose bytes are counted from the network header on.
fn is_network(protocol: Protocol) -> bool {
    !matches!(protocol, Protocol::Aarp | Protocol::Iso | Protocol::Stp | Protocol::Ipx | Protocol::Netbeui)
}
