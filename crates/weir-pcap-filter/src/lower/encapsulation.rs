//! `vlan`, `mpls`, `pppoes`, `geneve`, `vxlan`: tests that move the offsets of what follows.

use super::offsets::{Base, Offset, is_wlan};
use super::{Lower, Lowering};
use crate::ast::Operator;
use crate::ir::{Comparison, Pred, Test, Value, ValueId, Width};
use crate::link::LinkType;
use crate::protocol::ethertype;

/// The largest VLAN id, MPLS label and PPPoE session: IEEE 802.1Q, RFC 3032, RFC 2516.
const VLAN_MAX: u32 = 0x0fff;
const LABEL_MAX: u32 = 0xf_ffff;
const SESSION_MAX: u32 = 0xffff;

/// RFC 8926: the UDP port, the largest network identifier, and the type of what carries Ethernet frames.
pub(super) const GENEVE_PORT: u32 = 6081;
pub(super) const VNI_MAX: u32 = 0xff_ffff;
const TRANSPARENT_ETHERNET: u32 = 0x6558;

/// RFC 7348: the UDP port, and the flag that says that the network identifier is set.
pub(super) const VXLAN_PORT: u32 = 4789;
pub(super) const VXLAN_HAS_VNI: u32 = 0x08;

/// Bytes of a UDP header.
pub(super) const UDP_BYTES: u32 = 8;

impl Lower<'_> {
    pub(super) fn at_most(
        &self,
        what: &str,
        number: Option<u32>,
        most: u32,
    ) -> Result<(), weir_source::Diagnostic> {
        match number {
            Some(number) if number > most => {
                Err(self.error(format!("{what} {number} greater than maximum {most}")))
            }
            _ => Ok(()),
        }
    }

    pub(super) fn vlan(&mut self, id: Option<u32>) -> Lowering {
        if self.offsets.mpls_depth > 0 {
            return Err(self.error("no VLAN match after MPLS").with_hint("put `vlan` before `mpls`"));
        }
        let link = self.offsets.link;
        let is_ethernet =
            matches!(link, LinkType::EN10MB | LinkType::NETANALYZER | LinkType::NETANALYZER_TRANSPARENT);
        if !is_ethernet && (!is_wlan(link) || link == LinkType::PPI) {
            return Err(self.error(format!("no VLAN support for {}", link.about())));
        }
        let mut kinds = Vec::new();
        for kind in [ethertype::VLAN, ethertype::VLAN_AD, ethertype::VLAN_QINQ] {
            kinds.push(self.link_type(kind.into())?);
        }
        let mut tag = Pred::Or(kinds);
        self.at_most("VLAN tag", id, VLAN_MAX)?;
        if let Some(id) = id {
            tag = tag.and(self.masked_equal(Base::Network, 0, Width::Half, VLAN_MAX, id));
        }
        self.offsets.payload.constant = self.offsets.payload.constant.wrapping_add(4);
        if let Some(at) = &mut self.offsets.link_type {
            at.constant = at.constant.wrapping_add(4);
        }
        Ok(tag)
    }

    pub(super) fn mpls(&mut self, label: Option<u32>) -> Lowering {
        let mut test = if self.offsets.mpls_depth > 0 {
            // The label before is not the last one.
            self.masked_equal(Base::Mpls, 2, Width::Byte, 0x01, 0)
        } else {
            match self.offsets.link {
                LinkType::C_HDLC
                | LinkType::HDLC
                | LinkType::EN10MB
                | LinkType::NETANALYZER
                | LinkType::NETANALYZER_TRANSPARENT => self.link_type(ethertype::MPLS.into())?,
                // RFC 3032: unicast labels over PPP.
                LinkType::PPP => self.link_type(0x0281)?,
                link => return Err(self.error(format!("no MPLS support for {}", link.about()))),
            }
        };
        self.at_most("MPLS label", label, LABEL_MAX)?;
        if let Some(label) = label {
            test = test.and(self.masked_equal(Base::Network, 0, Width::Word, LABEL_MAX << 12, label << 12));
        }
        self.offsets.network = self.offsets.network.wrapping_add(4);
        self.offsets.network_nosnap = self.offsets.network_nosnap.wrapping_add(4);
        self.offsets.mpls_depth += 1;
        Ok(test)
    }

    pub(super) fn pppoe_session(&mut self, session: Option<u32>) -> Lowering {
        let mut test = self.link_type(ethertype::PPPOE_SESSION.into())?;
        self.at_most("PPPoE session number", session, SESSION_MAX)?;
        if let Some(session) = session {
            test = test.and(self.masked_equal(Base::Network, 0, Width::Word, SESSION_MAX, session));
        }
        // The 6 bytes of PPPoE's header, and a PPP header of 2 bytes.
        let offsets = &mut self.offsets;
        let ppp = Offset {
            variable: offsets.payload.variable,
            constant: offsets.payload.constant.wrapping_add(offsets.network).wrapping_add(6),
        };
        offsets.outer_link = offsets.link;
        offsets.outer_header = offsets.header;
        offsets.link = LinkType::PPP;
        offsets.header = ppp;
        offsets.link_type = Some(ppp);
        offsets.payload = Offset { constant: ppp.constant.wrapping_add(2), ..ppp };
        offsets.network = 0;
        offsets.network_nosnap = 0;
        Ok(test)
    }

    /// Geneve over UDP (RFC 8926). What follows is in the frame or packet that it carries.
    pub(super) fn geneve(&mut self, vni: Option<u32>) -> Lowering {
        self.at_most("Geneve VNI", vni, VNI_MAX)?;
        let (over_udp, header) = self.after_udp(GENEVE_PORT, |lower, udp| lower.geneve_header(udp, vni))?;
        let Some(header) = header else { return Ok(over_udp) };
        let kind_at = self.values.binary(Operator::Add, header, 2);
        let words = self.values.add(Value::Load { base: Some(header), offset: 0, width: Width::Byte });
        let words = self.values.binary(Operator::And, words, 0x3f);
        let bytes = self.values.binary(Operator::Mul, words, 4);
        let left = self.values.binary(Operator::Add, bytes, 8);
        let end = Value::Binary { operator: Operator::Add, left, right: header, by_register: true };
        let end = self.values.add(end);
        let [link_type, payload] = self.carried_by_geneve(header, kind_at, end);
        Ok(self.moved_inside(over_udp, header, [end, link_type, payload]))
    }

    /// VXLAN over UDP (RFC 7348). What follows is in the Ethernet frame that it carries.
    pub(super) fn vxlan(&mut self, vni: Option<u32>) -> Lowering {
        self.at_most("VXLAN VNI", vni, VNI_MAX)?;
        let (over_udp, header) = self.after_udp(VXLAN_PORT, |lower, udp| {
            let flags = lower.equal(udp, UDP_BYTES, Width::Byte, VXLAN_HAS_VNI);
            [flags].into_iter().chain(lower.network_identifier(udp, vni)).collect()
        })?;
        let Some(header) = header else { return Ok(over_udp) };
        let end = self.values.binary(Operator::Add, header, 8);
        let inner = [0, 12, 14].map(|bytes| self.values.binary(Operator::Add, end, bytes));
        Ok(self.moved_inside(over_udp, header, inner))
    }

    /// UDP to `port`, with what is `asked` of the header after UDP's; and where that header is, if the network header has a length.
    fn after_udp(
        &mut self,
        port: u32,
        asked: impl Fn(&mut Self, Base) -> Vec<Pred>,
    ) -> Result<(Pred, Option<ValueId>), weir_source::Diagnostic> {
        let outer = self.place(Base::Network);
        let over = |lower: &mut Self, transport| -> Lowering {
            let mut all = vec![lower.udp_to(transport, port)?];
            all.extend(asked(lower, transport));
            Ok(Pred::And(all))
        };
        let ipv4 = over(self, Base::Transport4)?;
        let ipv6 = over(self, Base::Transport6)?;
        // The transport header, from the network header's constant offset on.
        let Some(after4) = self.place(Base::Transport4).variable else { return Ok((ipv4.or(ipv6), None)) };
        let after6 = match outer.variable {
            Some(length) => self.values.binary(Operator::Add, length, 40),
            None => self.values.number(40),
        };
        let transport = self.select(&ipv4, after4, after6);
        let header = self.values.binary(Operator::Add, transport, outer.constant.wrapping_add(UDP_BYTES));
        Ok((ipv4.or(ipv6), Some(header)))
    }

    /// What follows is inside of a header: where the frame, its type and its payload are.
    fn moved_inside(&mut self, over_udp: Pred, header: ValueId, inner: [ValueId; 3]) -> Pred {
        let [frame, link_type, payload] =
            inner.map(|variable| Offset { variable: Some(variable), constant: 0 });
        let offsets = &mut self.offsets;
        offsets.outer_link = offsets.link;
        offsets.outer_header = offsets.header;
        offsets.link = LinkType::EN10MB;
        offsets.header = frame;
        offsets.link_type = Some(link_type);
        offsets.payload = payload;
        offsets.network = 0;
        offsets.is_in_tunnel = true;
        // The header is read here, even if nothing asks for what it carries.
        let kept = [header].into_iter().chain(inner).map(Pred::Need);
        Pred::And([over_udp].into_iter().chain(kept).collect())
    }

    /// What is asked of the Geneve header after a UDP header: the version, and the network identifier.
    pub(super) fn geneve_header(&mut self, udp: Base, vni: Option<u32>) -> Vec<Pred> {
        let version = self.masked_equal(udp, UDP_BYTES, Width::Byte, 0xc0, 0);
        [version].into_iter().chain(self.network_identifier(udp, vni)).collect()
    }

    /// That of the Geneve or VXLAN header after a UDP header, if it is asked for.
    pub(super) fn network_identifier(&mut self, udp: Base, vni: Option<u32>) -> Option<Pred> {
        vni.map(|vni| self.masked_equal(udp, UDP_BYTES + 4, Width::Word, VNI_MAX << 8, vni << 8))
    }

    /// Where the type and the payload are of what a Geneve header carries, which ends at `end`: those of an Ethernet frame there, or else
    /// the header's own type at `kind_at`, and what is there.
    pub(super) fn carried_by_geneve(
        &mut self,
        header: ValueId,
        kind_at: ValueId,
        end: ValueId,
    ) -> [ValueId; 2] {
        let left = self.values.add(Value::Load { base: Some(header), offset: 2, width: Width::Half });
        let right = self.values.number(TRANSPARENT_ETHERNET);
        let test = Test { comparison: Comparison::Eq, left, right, by_register: false };
        [(12, kind_at), (14, end)].map(|(bytes, otherwise)| {
            let then = self.values.binary(Operator::Add, end, bytes);
            self.values.add(Value::If { test, then, otherwise })
        })
    }

    /// Inside of a tunnel: an Ethernet header is there.
    pub(super) fn tunnel_has_ethernet(&mut self) -> Pred {
        let (header, payload) = (self.offsets.header.variable, self.offsets.payload.variable);
        let (Some(left), Some(right)) = (header, payload) else { return self.always() };
        Pred::Test(Test { comparison: Comparison::Eq, left, right, by_register: true }).not()
    }

    /// The value that is `then` where `pred` holds, and `otherwise` where not.
    pub(super) fn select(&mut self, pred: &Pred, then: ValueId, otherwise: ValueId) -> ValueId {
        match pred {
            Pred::Test(test) => self.values.add(Value::If { test: *test, then, otherwise }),
            Pred::Not(inner) => self.select(inner, otherwise, then),
            Pred::And(parts) => {
                parts.iter().rev().fold(then, |then, part| self.select(part, then, otherwise))
            }
            Pred::Or(parts) => {
                parts.iter().rev().fold(otherwise, |otherwise, part| self.select(part, then, otherwise))
            }
            // These stand in no test of a tunnel.
            Pred::Chain(_) | Pred::Need(_) | Pred::Fails(_) => otherwise,
        }
    }
}
