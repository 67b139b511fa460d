//! Primitives of single link types: ATM, SS7, pflog; lengths and bytes; the direction and interface of a packet.

use super::linktype::is_juniper;
use super::offsets::{Base, Offset};
use super::{Lower, Lowering};
use crate::Mode;
use crate::ast::{AtmField, AtmKind, ByteOperator, Mtp2Kind, Mtp3Field, Numbers, Operator, Pf, Relation};
use crate::ir::{Comparison, ContextField, Metadata, Pred, Value, Width};
use crate::link::LinkType;

/// Offsets in SunATM's header: the type and flags, the virtual path, the virtual channel, the packet.
const ATM_KIND: u32 = 0;
const ATM_VPI: u32 = 1;
const ATM_VCI: u32 = 2;
const ATM_PACKET: u32 = 4;
/// Kinds of packets, in the low half of the first byte.
const ATM_LANE: u32 = 1;
const ATM_LLC: u32 = 2;
/// Where a signalling message (Q.2931) has its type.
const ATM_MESSAGE: u32 = ATM_PACKET + 5;
/// SETUP, CALL PROCEEDING, CONNECT, CONNECT ACK, RELEASE, RELEASE COMPLETE, in the order in which they are tested.
const CALL_MESSAGES: [u32; 6] = [0x5a, 0x4d, 0x0f, 0x07, 0x05, 0x02];
const META_MESSAGES: [u32; 5] = [0x5a, 0x4d, 0x07, 0x05, 0x02];

/// Offsets in pflog's header (OpenBSD's and FreeBSD's if_pflog.h).
mod pflog {
    pub(super) const ACTION: u32 = 2;
    pub(super) const REASON: u32 = 3;
    pub(super) const IFNAME: u32 = 4;
    pub(super) const RULESET: u32 = 20;
    pub(super) const RULENUM: u32 = 36;
    pub(super) const SUBRULENUM: u32 = 40;
    pub(super) const DIRECTION: u32 = 60;
    /// Bytes of the names, with a 0 at their end.
    pub(super) const NAME_BYTES: usize = 16;
    pub(super) const IN: u32 = 1;
    pub(super) const OUT: u32 = 2;
}

/// Linux's `PACKET_OUTGOING`. What was received has a lower type, and what goes from one part of the kernel to another a higher one.
const OUTGOING: u32 = 4;

impl Lower<'_> {
    pub(super) fn byte(&mut self, index: u32, operator: ByteOperator, value: u32) -> Pred {
        let at = |lower: &mut Self, comparison| {
            lower.compare(Base::LinkHeader, index, Width::Byte, comparison, value)
        };
        match operator {
            ByteOperator::Equal => at(self, Comparison::Eq),
            ByteOperator::Less => at(self, Comparison::Ge).not(),
            ByteOperator::Greater => at(self, Comparison::Gt),
            // libpcap forgets to load the byte, and tests what the accumulator happens to hold. This is not followed.
            ByteOperator::And | ByteOperator::Or => {
                let operator = if operator == ByteOperator::And { Operator::And } else { Operator::Or };
                let byte = self.load(Base::LinkHeader, index, Width::Byte);
                let left = self.values.binary(operator, byte, value);
                self.test(Comparison::Eq, left, 0).not()
            }
        }
    }

    pub(super) fn direction(&mut self, outbound: bool) -> Lowering {
        let out = |test: Pred| if outbound { test } else { test.not() };
        Ok(match self.offsets.link {
            LinkType::SLIP => {
                // Its first byte is 0 for what was received.
                let value = self.load(Base::LinkHeader, 0, Width::Byte);
                out(self.test(Comparison::Eq, value, 0).not())
            }
            LinkType::IPNET => self.equal(Base::LinkHeader, 2, Width::Half, if outbound { 1 } else { 2 }),
            LinkType::LINUX_SLL => out(self.equal(Base::LinkHeader, 0, Width::Half, OUTGOING)),
            LinkType::LINUX_SLL2 => out(self.equal(Base::LinkHeader, 10, Width::Byte, OUTGOING)),
            LinkType::PFLOG => {
                let way = if outbound { pflog::OUT } else { pflog::IN };
                self.equal(Base::LinkHeader, pflog::DIRECTION, Width::Byte, way)
            }
            LinkType::PPP_PPPD => self.equal(Base::LinkHeader, 0, Width::Byte, u32::from(outbound)),
            link if is_juniper(link) => {
                self.masked_equal(Base::LinkHeader, 3, Width::Byte, 0x01, u32::from(!outbound))
            }
            _ if self.is_scoped() => {
                let kind = self.values.add(Value::Context(ContextField::PacketType));
                match outbound {
                    true => self.test(Comparison::Eq, kind, OUTGOING),
                    false => self.test(Comparison::Ge, kind, OUTGOING).not(),
                }
            }
            _ => {
                let kind = self.values.add(Value::Metadata(Metadata::PacketType));
                out(self.test(Comparison::Eq, kind, OUTGOING))
            }
        })
    }

    pub(super) fn ifindex(&mut self, index: u32) -> Lowering {
        if self.offsets.link == LinkType::LINUX_SLL2 {
            return Ok(self.equal(Base::LinkHeader, 4, Width::Word, index));
        }
        let value = match self.options.mode {
            Mode::Compat => Value::Metadata(Metadata::Ifindex),
            Mode::Scoped => Value::Context(ContextField::Ifindex),
        };
        let value = self.values.add(value);
        Ok(self.test(Comparison::Eq, value, index))
    }

    pub(super) fn pf(&mut self, field: &Pf) -> Lowering {
        if let Pf::Ifname(name) = field
            && self.is_scoped()
            && self.offsets.link != LinkType::PFLOG
        {
            let Some(index) = self.names.interface(name) else {
                return Err(self
                    .error(format!("unknown interface `{name}`"))
                    .with_hint("interfaces of this machine are known; or say `ifindex` and a number"));
            };
            return self.ifindex(index);
        }
        if self.offsets.link != LinkType::PFLOG {
            return Err(self.error("this is supported only on PF linktype"));
        }
        let number = |lower: &mut Self, offset, width, number| {
            Ok(lower.equal(Base::LinkHeader, offset, width, number))
        };
        match field {
            Pf::Action(action) => number(self, pflog::ACTION, Width::Byte, *action),
            Pf::Reason(reason) => number(self, pflog::REASON, Width::Byte, *reason),
            Pf::Rulenum(rule) => number(self, pflog::RULENUM, Width::Word, *rule),
            Pf::Subrulenum(rule) => number(self, pflog::SUBRULENUM, Width::Word, *rule),
            Pf::Ifname(name) => self.pf_name("ifname interface names", pflog::IFNAME, name),
            Pf::Ruleset(name) => self.pf_name("ruleset names", pflog::RULESET, name),
        }
    }

    fn pf_name(&mut self, what: &str, offset: u32, name: &str) -> Lowering {
        if name.len() >= pflog::NAME_BYTES {
            return Err(self.error(format!("{what} can only be {}-{} characters", 1, pflog::NAME_BYTES - 1)));
        }
        Ok(self.bytes(Base::LinkHeader, offset, name.as_bytes()))
    }

    pub(super) fn atm_is_llc(&mut self) -> Pred {
        self.masked_equal(Base::LinkHeader, ATM_KIND, Width::Byte, 0x0f, ATM_LLC)
    }

    fn needs_atm(&self) -> Result<(), weir_source::Diagnostic> {
        // After LANE too.
        match self.options.link_type {
            LinkType::SUNATM => Ok(()),
            _ => Err(self.error("this is supported only on raw ATM (SUNATM)")),
        }
    }

    fn vpi(&mut self) -> Pred {
        self.equal(Base::LinkHeader, ATM_VPI, Width::Byte, 0)
    }

    fn vci(&mut self, number: u32) -> Pred {
        self.equal(Base::LinkHeader, ATM_VCI, Width::Half, number)
    }

    pub(super) fn atm(&mut self, kind: AtmKind) -> Lowering {
        self.needs_atm()?;
        let message = |lower: &mut Self, messages: &[u32]| {
            Pred::Or(
                messages
                    .iter()
                    .map(|kind| lower.equal(Base::LinkHeader, ATM_MESSAGE, Width::Byte, *kind))
                    .collect(),
            )
        };
        Ok(match kind {
            AtmKind::Metac => self.vpi().and(self.vci(1)),
            AtmKind::Bcc => self.vpi().and(self.vci(2)),
            AtmKind::Oamf4sc => self.vpi().and(self.vci(3)),
            AtmKind::Oamf4ec => self.vpi().and(self.vci(4)),
            AtmKind::Sc => self.vpi().and(self.vci(5)),
            AtmKind::Ilmic => self.vpi().and(self.vci(16)),
            AtmKind::Oam | AtmKind::Oamf4 => self.vpi().and(self.vci(3).or(self.vci(4))),
            AtmKind::Connectmsg => {
                let channel = self.vpi().and(self.vci(5));
                channel.and(message(self, &CALL_MESSAGES))
            }
            AtmKind::Metaconnect => {
                let channel = self.vpi().and(self.vci(1));
                channel.and(message(self, &META_MESSAGES))
            }
            AtmKind::Lane => {
                let test = self.masked_equal(Base::LinkHeader, ATM_KIND, Width::Byte, 0x0f, ATM_LANE);
                // What follows is Ethernet, after two bytes of LANE's header.
                let offsets = &mut self.offsets;
                let at = |constant| Offset { variable: None, constant: ATM_PACKET + 2 + constant };
                offsets.outer_link = offsets.link;
                offsets.outer_header = offsets.header;
                offsets.link = LinkType::EN10MB;
                offsets.header = at(0);
                offsets.link_type = Some(at(12));
                offsets.payload = at(14);
                offsets.network = 0;
                offsets.network_nosnap = 3;
                test
            }
        })
    }

    pub(super) fn atm_field(&mut self, field: AtmField, numbers: &Numbers) -> Lowering {
        self.needs_atm()?;
        let (offset, width) = match field {
            AtmField::Vpi => (ATM_VPI, Width::Byte),
            AtmField::Vci => (ATM_VCI, Width::Half),
        };
        self.any_of(numbers, &mut |lower, comparison, number| {
            Ok(lower.compare(Base::LinkHeader, offset, width, comparison, number))
        })
    }

    /// A comparison with each of the numbers; one must hold.
    fn any_of(
        &mut self,
        numbers: &Numbers,
        compare: &mut dyn FnMut(&mut Self, Comparison, u32) -> Lowering,
    ) -> Lowering {
        match numbers {
            Numbers::One(relation, number, span) => {
                self.span = *span;
                let (comparison, is_contrary) = match relation {
                    Relation::Ne if self.is_scoped() => (Comparison::Eq, true),
                    // libpcap forgets to take the contrary.
                    Relation::Eq | Relation::Ne => (Comparison::Eq, false),
                    Relation::Gt => (Comparison::Gt, false),
                    Relation::Le => (Comparison::Gt, true),
                    Relation::Ge => (Comparison::Ge, false),
                    Relation::Lt => (Comparison::Ge, true),
                };
                let test = compare(self, comparison, *number)?;
                Ok(if is_contrary { test.not() } else { test })
            }
            Numbers::Any(all) => {
                Ok(Pred::Or(all.iter().map(|one| self.any_of(one, compare)).collect::<Result<_, _>>()?))
            }
        }
    }

    /// Where MTP2's header begins, from the packet on; SS7 is in these link types alone.
    fn mtp2_offset(&self) -> Result<u32, weir_source::Diagnostic> {
        match self.offsets.link {
            LinkType::MTP2 => Ok(0),
            LinkType::MTP2_WITH_PHDR => Ok(4),
            LinkType::ERF => Ok(20),
            _ => Err(self.error("this is supported only on SS7 (MTP2, MTP2_WITH_PHDR, ERF)")),
        }
    }

    /// Signal units by their length indicator: 6 bits, or 9 in the high-speed format. Source: ITU-T Q.703.
    pub(super) fn mtp2(&mut self, kind: Mtp2Kind) -> Lowering {
        let start = self.mtp2_offset()?;
        let low = (Base::Packet, start + 2, Width::Byte);
        let high = (Base::Packet, start + 4, Width::Half);
        let (at, mask, one, is) = match kind {
            Mtp2Kind::Fisu => (low, 0x3f, 1, 0),
            Mtp2Kind::Lssu => (low, 0x3f, 1, 1),
            Mtp2Kind::Msu => (low, 0x3f, 1, 2),
            Mtp2Kind::Hfisu => (high, 0xff80, 0x80, 0),
            Mtp2Kind::Hlssu => (high, 0xff80, 0x80, 1),
            Mtp2Kind::Hmsu => (high, 0xff80, 0x80, 2),
        };
        Ok(match is {
            0 => self.masked(at, mask, Comparison::Eq, 0),
            1 => {
                let some = self.masked(at, mask, Comparison::Gt, 0);
                some.and(self.masked(at, mask, Comparison::Gt, 2 * one).not())
            }
            _ => self.masked(at, mask, Comparison::Gt, 2 * one),
        })
    }

    /// Fields of MTP3, of which codes are stored with their bytes in another order. Source: ITU-T Q.704.
    pub(super) fn mtp3(&mut self, field: Mtp3Field, numbers: &Numbers) -> Lowering {
        let start = self.mtp2_offset()?;
        // The high-speed format has 3 bytes more before these.
        let (offset, width, mask, most, name): (u32, Width, u32, u32, &str) = match field {
            Mtp3Field::Sio => (3, Width::Byte, u32::MAX, 255, "sio"),
            Mtp3Field::Opc => (4, Width::Word, 0x00c0_ff0f, 16383, "opc"),
            Mtp3Field::Dpc => (4, Width::Word, 0xff3f_0000, 16383, "dpc"),
            Mtp3Field::Sls => (7, Width::Byte, 0xf0, 15, "sls"),
            Mtp3Field::Hsio => (6, Width::Byte, u32::MAX, 255, "hsio"),
            Mtp3Field::Hopc => (7, Width::Word, 0x00c0_ff0f, 16383, "hopc"),
            Mtp3Field::Hdpc => (7, Width::Word, 0xff3f_0000, 16383, "hdpc"),
            Mtp3Field::Hsls => (10, Width::Byte, 0xf0, 15, "hsls"),
        };
        let stored = move |number: u32| match field {
            Mtp3Field::Sio | Mtp3Field::Hsio => number,
            Mtp3Field::Sls | Mtp3Field::Hsls => number << 4,
            Mtp3Field::Opc | Mtp3Field::Hopc => {
                (number & 0x3c00) >> 10 | (number & 0x3fc) << 6 | (number & 0x3) << 22
            }
            Mtp3Field::Dpc | Mtp3Field::Hdpc => (number & 0xff) << 24 | (number & 0x3f00) << 8,
        };
        self.any_of(numbers, &mut |lower, comparison, number| {
            if number > most {
                return Err(lower.error(format!("{name} value {number} too big; max value = {most}")));
            }
            Ok(lower.masked((Base::Packet, start + offset, width), mask, comparison, stored(number)))
        })
    }
}
