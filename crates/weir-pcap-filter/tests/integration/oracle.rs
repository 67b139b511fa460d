//! What scoped expressions mean on Ethernet, said once more: the tree is asked of a packet, with the headers where they are in it.
//!
//! An expression holds at some places, at none if it does not hold: what is joined with it by `and` is asked at these.

use weir_pcap_filter::Protocol;
use weir_pcap_filter::ast::{Arith, Direction, Expr, Id, Kind, Operator, Qualifiers, Relation, Term};

/// Where the headers are.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Layer {
    kind: Layering,
    /// The Ethernet header; the field that says what the payload is; the network header.
    link: u64,
    type_at: u64,
    network: u64,
}

#[derive(Clone, Copy, PartialEq, Debug)]
enum Layering {
    Ethernet,
    Ppp,
    Mpls,
}

impl Layer {
    pub(crate) const OUTER: Layer = Layer { kind: Layering::Ethernet, link: 0, type_at: 12, network: 14 };
}

/// It is not known here what the term means.
pub(crate) struct Unknown;

pub(crate) struct Packet<'a> {
    pub(crate) bytes: &'a [u8],
    pub(crate) wire_len: u32,
}

type Places = Result<Vec<Layer>, Unknown>;

impl Packet<'_> {
    pub(crate) fn holds(&self, expr: &Expr) -> Result<bool, Unknown> {
        Ok(!self.places(expr, Layer::OUTER)?.is_empty())
    }

    fn places(&self, expr: &Expr, layer: Layer) -> Places {
        match expr {
            Expr::Term(term, _) => Ok(self.term(term, layer)?.into_iter().collect()),
            Expr::Not(inner) => match &**inner {
                Expr::Not(inner) => self.places(inner, layer),
                inner if self.places(inner, layer)?.is_empty() => Ok(vec![layer]),
                _ => Ok(Vec::new()),
            },
            Expr::Or(parts) => {
                let mut all = Vec::new();
                for part in parts {
                    all.extend(self.places(part, layer)?);
                }
                Ok(all)
            }
            Expr::And(parts) => {
                let mut all = vec![layer];
                for part in parts {
                    let mut next = Vec::new();
                    // What is unknown is so on every packet.
                    self.places(part, layer)?;
                    for layer in all {
                        next.extend(self.places(part, layer)?);
                    }
                    all = next;
                }
                all.dedup();
                Ok(all)
            }
        }
    }

    fn load(&self, at: u64, bytes: u64) -> Option<u32> {
        let bytes = self.bytes.get(usize::try_from(at).ok()?..usize::try_from(at + bytes).ok()?)?;
        Some(bytes.iter().fold(0, |number, byte| number << 8 | u32::from(*byte)))
    }

    /// Where the headers are after the term, if it holds.
    fn term(&self, term: &Term, layer: Layer) -> Result<Option<Layer>, Unknown> {
        let here = |holds: bool| Ok(holds.then_some(layer));
        let asked = |asked: &Option<u32>, found: Option<u32>| asked.is_none_or(|asked| found == Some(asked));
        let Layer { kind, network, .. } = layer;
        match term {
            Term::Less(most) => here(self.wire_len <= *most),
            Term::Greater(least) => here(self.wire_len >= *least),
            Term::Protocol(protocol) => here(self.protocol(*protocol, layer)?),
            Term::Relation(relation, left, right) => {
                // One transport header at least is asked for alike on both sides.
                let numbers = self.number(left, layer)?.zip(self.number(right, layer)?);
                here(numbers.is_some_and(|(left, right)| match relation {
                    Relation::Eq => left == right,
                    Relation::Ne => left != right,
                    Relation::Gt => left > right,
                    Relation::Ge => left >= right,
                    Relation::Lt => left < right,
                    Relation::Le => left <= right,
                }))
            }
            Term::Id(qualifiers, id) => here(self.id(*qualifiers, id, layer)?),
            Term::PppoeDiscovery => here(self.carries(0x8863, layer)),
            Term::Vlan(id) => {
                if kind != Layering::Ethernet {
                    return Err(Unknown);
                }
                let is_tag = [0x8100, 0x88a8, 0x9100].iter().any(|tag| self.carries(*tag, layer));
                let holds = is_tag && asked(id, self.load(network, 2).map(|tag| tag & 0xfff));
                Ok(holds.then_some(Layer { type_at: layer.type_at + 4, network: network + 4, ..layer }))
            }
            Term::Mpls(label) => {
                let is_label = match kind {
                    Layering::Ethernet => self.carries(0x8847, layer),
                    Layering::Ppp => self.load(layer.type_at, 2) == Some(0x281),
                    Layering::Mpls => self.load(network - 2, 1).is_some_and(|bits| bits & 1 == 0),
                };
                let holds = is_label && asked(label, self.load(network, 4).map(|entry| entry >> 12));
                Ok(holds.then_some(Layer { kind: Layering::Mpls, network: network + 4, ..layer }))
            }
            Term::PppoeSession(session) => {
                let holds = self.carries(0x8864, layer)
                    && asked(session, self.load(network, 4).map(|word| word & 0xffff));
                let ppp = Layer {
                    kind: Layering::Ppp,
                    link: network + 6,
                    type_at: network + 6,
                    network: network + 8,
                };
                Ok(holds.then_some(ppp))
            }
            Term::Geneve(vni) => Ok(self.tunnel(6081, layer).and_then(|at| {
                let first = self.load(at, 1)?;
                let is_asked = asked(vni, self.load(at + 4, 4).map(|word| word >> 8));
                if first & 0xc0 != 0 || !is_asked {
                    return None;
                }
                let end = at + 8 + 4 * u64::from(first & 0x3f);
                Some(match self.load(at + 2, 2)? {
                    0x6558 => inside(end),
                    _ => Layer { type_at: at + 2, network: end, ..inside(end) },
                })
            })),
            Term::Vxlan(vni) => Ok(self.tunnel(4789, layer).and_then(|at| {
                let has_vni = self.load(at, 1)? & 8 != 0;
                let is_asked = asked(vni, self.load(at + 4, 4).map(|word| word >> 8));
                (has_vni && is_asked).then(|| inside(at + 8))
            })),
            _ => Err(Unknown),
        }
    }

    /// The header after UDP's.
    fn tunnel(&self, port: u32, layer: Layer) -> Option<u64> {
        let udp = self.transport(17, layer)?;
        (self.load(udp + 2, 2)? == port).then_some(udp + 8)
    }

    fn carries(&self, ethertype: u32, layer: Layer) -> bool {
        match layer.kind {
            Layering::Ethernet => self.load(layer.type_at, 2) == Some(ethertype),
            Layering::Ppp => {
                let number = match ethertype {
                    0x800 => 0x21,
                    0x86dd => 0x57,
                    0x6003 => 0x27,
                    other => other,
                };
                self.load(layer.type_at, 2) == Some(number)
            }
            Layering::Mpls => {
                let version = match ethertype {
                    0x800 => 4,
                    0x86dd => 6,
                    _ => return false,
                };
                let is_last = self.load(layer.network - 2, 1).is_some_and(|bits| bits & 1 == 1);
                is_last && self.load(layer.network, 1).is_some_and(|first| first >> 4 == version)
            }
        }
    }

    /// Headers after an IPv6 header: kinds and offsets, the last of which is no extension header, or the one after a later fragment's
    /// header, which is not there. Fewer, where bytes are missing.
    fn chain(&self, network: u64) -> Vec<(u32, Option<u64>)> {
        let mut all = Vec::new();
        let Some(mut next) = self.load(network + 6, 1) else { return all };
        let mut at = network + 40;
        for _ in 0..8 {
            all.push((next, Some(at)));
            let header = match next {
                0 | 43 | 60 => self.load(at, 1).zip(self.load(at + 1, 1).map(|words| 8 * (words + 1))),
                51 => self.load(at, 1).zip(self.load(at + 1, 1).map(|words| 4 * (words + 2))),
                44 => self.load(at, 1).zip(self.load(at + 2, 2).map(|_| 8)),
                _ => return all,
            };
            let Some((after, bytes)) = header else {
                // Nothing is known of the chain but its first header.
                all.truncate(1);
                return all;
            };
            let is_later = next == 44 && self.load(at + 2, 2).is_some_and(|offset| offset >> 3 != 0);
            (next, at) = (after, at + u64::from(bytes));
            if is_later {
                all.push((next, None));
                return all;
            }
        }
        all.push((next, Some(at)));
        all
    }

    /// The header of a transport protocol, if it is in this packet.
    fn transport(&self, protocol: u32, layer: Layer) -> Option<u64> {
        let network = layer.network;
        if self.carries(0x800, layer) {
            let is_first = self.load(network + 6, 2)? & 0x1fff == 0;
            let is_protocol = self.load(network + 9, 1)? == protocol && is_first && protocol != 58;
            return is_protocol.then_some(network + 4 * u64::from(self.load(network, 1)? & 15));
        }
        let is_of_ipv4 = matches!(protocol, 1 | 2 | 9 | 112);
        let (kind, at) =
            *self.chain(network).last().filter(|_| self.carries(0x86dd, layer) && !is_of_ipv4)?;
        at.filter(|_| kind == protocol)
    }

    fn ip_protocol(&self, protocol: u32, layer: Layer) -> bool {
        self.carries(0x800, layer) && self.load(layer.network + 9, 1) == Some(protocol)
    }

    fn ipv6_protocol(&self, protocol: u32, layer: Layer) -> bool {
        let chain = self.chain(layer.network);
        // The last of too many extension headers is not looked at.
        let followed = if chain.len() == 9 && is_extension(chain[8].0) { &chain[..8] } else { &chain[..] };
        self.carries(0x86dd, layer) && followed.iter().any(|(kind, _)| *kind == protocol)
    }

    fn protocol(&self, protocol: Protocol, layer: Layer) -> Result<bool, Unknown> {
        let of_both = |number| self.ip_protocol(number, layer) || self.ipv6_protocol(number, layer);
        Ok(match protocol {
            Protocol::Ip => self.carries(0x800, layer),
            Protocol::Ipv6 => self.carries(0x86dd, layer),
            Protocol::Arp => self.carries(0x806, layer),
            Protocol::Rarp => self.carries(0x8035, layer),
            Protocol::Lat => self.carries(0x6004, layer),
            Protocol::Tcp => of_both(6),
            Protocol::Udp => of_both(17),
            Protocol::Sctp => of_both(132),
            Protocol::Pim => of_both(103),
            Protocol::Esp => of_both(50),
            Protocol::Ah => of_both(51),
            Protocol::Icmp => self.ip_protocol(1, layer),
            Protocol::Igmp => self.ip_protocol(2, layer),
            Protocol::Vrrp => self.ip_protocol(112, layer),
            Protocol::Icmpv6 => self.ipv6_protocol(58, layer),
            _ => return Err(Unknown),
        })
    }

    fn id(&self, qualifiers: Qualifiers, id: &Id, layer: Layer) -> Result<bool, Unknown> {
        let Qualifiers { protocol, direction, kind } = qualifiers;
        let sides = |source: bool, destination: bool| match direction {
            Some(Direction::Src) => Ok(source),
            Some(Direction::Dst) => Ok(destination),
            None | Some(Direction::Or) => Ok(source || destination),
            Some(Direction::And) => Ok(source && destination),
            Some(_) => Err(Unknown),
        };
        match (kind, id) {
            (Kind::Port, Id::Number(port)) => {
                let protocols: &[u32] = match protocol {
                    None => &[6, 17, 132],
                    Some(Protocol::Tcp) => &[6],
                    Some(Protocol::Udp) => &[17],
                    Some(Protocol::Sctp) => &[132],
                    Some(_) => return Err(Unknown),
                };
                let header = protocols.iter().find_map(|protocol| self.transport(*protocol, layer));
                let at = |offset| header.is_some_and(|header| self.load(header + offset, 2) == Some(*port));
                sides(at(0), at(2))
            }
            (Kind::Proto | Kind::Protochain, Id::Number(number)) => match protocol {
                Some(Protocol::Ip) if kind == Kind::Proto => Ok(self.ip_protocol(*number, layer)),
                Some(Protocol::Ipv6) => Ok(self.ipv6_protocol(*number, layer)),
                None if kind == Kind::Proto => {
                    Ok(self.ip_protocol(*number, layer) || self.ipv6_protocol(*number, layer))
                }
                _ => Err(Unknown),
            },
            (Kind::Default | Kind::Host, Id::Dotted(parts)) if parts.len() == 4 => {
                let address = parts.iter().fold(0, |address, part| address << 8 | part);
                let mut any = false;
                for (of, ethertype, source, destination) in [
                    (Protocol::Ip, 0x800, 12, 16),
                    (Protocol::Arp, 0x806, 14, 24),
                    (Protocol::Rarp, 0x8035, 14, 24),
                ] {
                    let at = |offset| self.load(layer.network + offset, 4) == Some(address);
                    let is_asked = protocol.is_none_or(|protocol| protocol == of);
                    any |= is_asked && self.carries(ethertype, layer) && sides(at(source), at(destination))?;
                }
                if matches!(protocol, None | Some(Protocol::Ip | Protocol::Arp | Protocol::Rarp)) {
                    Ok(any)
                } else {
                    Err(Unknown)
                }
            }
            _ => Err(Unknown),
        }
    }

    /// None: there is no such number in the packet.
    fn number(&self, arith: &Arith, layer: Layer) -> Result<Option<u32>, Unknown> {
        Ok(match arith {
            Arith::Number(number) => Some(*number),
            Arith::Len => Some(self.wire_len),
            Arith::Fact(_) => return Err(Unknown),
            Arith::Negate(inner) => self.number(inner, layer)?.map(u32::wrapping_neg),
            Arith::Binary(operator, left, right, _) => {
                let numbers = self.number(left, layer)?.zip(self.number(right, layer)?);
                numbers.and_then(|(left, right)| match operator {
                    Operator::Add => Some(left.wrapping_add(right)),
                    Operator::Sub => Some(left.wrapping_sub(right)),
                    Operator::Mul => Some(left.wrapping_mul(right)),
                    Operator::Div => left.checked_div(right),
                    Operator::Mod => left.checked_rem(right),
                    Operator::And => Some(left & right),
                    Operator::Or => Some(left | right),
                    Operator::Xor => Some(left ^ right),
                    Operator::Lsh => Some(left.checked_shl(right).unwrap_or(0)),
                    Operator::Rsh => Some(left.checked_shr(right).unwrap_or(0)),
                })
            }
            Arith::Load { protocol, offset, bytes, .. } => {
                let offset = self.number(offset, layer)?;
                let over = |ethertype| self.carries(ethertype, layer).then_some(layer.network);
                let header = match protocol {
                    Protocol::Link => Some(layer.link),
                    Protocol::Ip => over(0x800),
                    Protocol::Ipv6 => over(0x86dd),
                    Protocol::Arp => over(0x806),
                    Protocol::Rarp => over(0x8035),
                    Protocol::Tcp => self.transport(6, layer),
                    Protocol::Udp => self.transport(17, layer),
                    Protocol::Sctp => self.transport(132, layer),
                    Protocol::Icmp => self.transport(1, layer),
                    Protocol::Igmp => self.transport(2, layer),
                    Protocol::Icmpv6 => self.transport(58, layer),
                    _ => return Err(Unknown),
                };
                // Offsets below 0 are before the header.
                header.zip(offset).and_then(|(header, offset)| {
                    let at = (header as i64 + i64::from(offset as i32)).try_into().ok()?;
                    self.load(at, u64::from(*bytes))
                })
            }
        })
    }
}

fn is_extension(kind: u32) -> bool {
    matches!(kind, 0 | 43 | 44 | 51 | 60)
}

fn inside(frame: u64) -> Layer {
    Layer { kind: Layering::Ethernet, link: frame, type_at: frame + 12, network: frame + 14 }
}
