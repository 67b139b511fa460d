//! `vlan`, `mpls`, `pppoes`, `geneve`: tests that move the offsets of what follows.

use super::offsets::{Base, Offset, is_wlan};
use super::{Lower, Lowering};
use crate::ir::{Pred, Width};
use crate::link::LinkType;
use crate::protocol::ethertype;

/// The largest VLAN id, MPLS label and PPPoE session: IEEE 802.1Q, RFC 3032, RFC 2516.
const VLAN_MAX: u32 = 0x0fff;
const LABEL_MAX: u32 = 0xf_ffff;
const SESSION_MAX: u32 = 0xffff;

impl Lower<'_> {
    fn at_most(&self, what: &str, number: Option<u32>, most: u32) -> Result<(), weir_source::Diagnostic> {
        match number {
            Some(number) if number > most => Err(self.error(format!("{what} {number} greater than maximum {most}"))),
            _ => Ok(()),
        }
    }

    pub(super) fn vlan(&mut self, id: Option<u32>) -> Lowering {
        if self.offsets.mpls_depth > 0 {
            return Err(self.error("no VLAN match after MPLS").with_hint("put `vlan` before `mpls`"));
        }
        let link = self.offsets.link;
        let is_ethernet = matches!(link, LinkType::EN10MB | LinkType::NETANALYZER | LinkType::NETANALYZER_TRANSPARENT);
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
            tag = tag.and(self.masked_equal(Base::Llc, 0, Width::Half, VLAN_MAX, id));
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

    pub(super) fn geneve(&mut self, _vni: Option<u32>) -> Lowering {
        Err(self.error("`geneve` is not compiled yet"))
    }

    pub(super) fn geneve_is_ethernet(&mut self) -> Pred {
        self.always()
    }
}
