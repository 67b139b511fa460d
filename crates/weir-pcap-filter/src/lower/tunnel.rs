//! `geneve` and `vxlan` of scoped expressions: frames and packets inside of UDP, over either version of IP and after extension headers.

use super::encapsulation::{GENEVE_PORT, UDP_BYTES, VNI_MAX, VXLAN_HAS_VNI, VXLAN_PORT};
use super::offsets::{Base, Offset, Offsets};
use super::upper::Way;
use super::{Lower, Lowering};
use crate::ast::Operator;
use crate::ir::{Pred, Value, ValueId, Width};
use crate::link::LinkType;
use crate::protocol::{ethertype, ip};

impl Lower<'_> {
    /// Geneve over UDP (RFC 8926). What follows is in the frame or packet that it carries.
    pub(super) fn scoped_geneve(&mut self, vni: Option<u32>) -> Lowering {
        self.at_most("Geneve VNI", vni, VNI_MAX)?;
        let (over_udp, header) = self.tunnel(GENEVE_PORT, |lower, base| lower.geneve_header(base, vni))?;
        let words = self.values.add(Value::Load { base: Some(header), offset: 0, width: Width::Byte });
        let words = self.values.binary(Operator::And, words, 0x3f);
        let left = self.values.binary(Operator::Lsh, words, 2);
        let end = Value::Binary { operator: Operator::Add, left, right: header, by_register: true };
        let end = self.values.add(end);
        let end = self.values.binary(Operator::Add, end, 8);
        let kind_at = self.values.binary(Operator::Add, header, 2);
        let [link_type, payload] = self.carried_by_geneve(header, kind_at, end);
        let at = |variable| Offset { variable: Some(variable), constant: 0 };
        self.offsets = self.offsets.inside(at(end), at(link_type), at(payload));
        self.offsets.is_in_tunnel = true;
        Ok(Pred::And(vec![
            over_udp,
            Pred::Need(header),
            Pred::Need(end),
            Pred::Need(link_type),
            Pred::Need(payload),
        ]))
    }

    /// VXLAN over UDP (RFC 7348). What follows is in the Ethernet frame that it carries.
    pub(super) fn scoped_vxlan(&mut self, vni: Option<u32>) -> Lowering {
        self.at_most("VXLAN VNI", vni, VNI_MAX)?;
        let (over_udp, header) = self.tunnel(VXLAN_PORT, |lower, base| {
            let flag = lower.has(base, UDP_BYTES, Width::Byte, VXLAN_HAS_VNI);
            [flag].into_iter().chain(lower.network_identifier(base, vni)).collect()
        })?;
        let at = |constant: u32| Offset { variable: Some(header), constant: 8 + constant };
        self.offsets = self.offsets.inside(at(0), at(12), at(14));
        Ok(over_udp.and(Pred::Need(header)))
    }

    /// UDP to `port`, with what is `asked` of the header after UDP's; and where that header is.
    fn tunnel(
        &mut self,
        port: u32,
        asked: impl Fn(&mut Self, Base) -> Vec<Pred>,
    ) -> Result<(Pred, ValueId), weir_source::Diagnostic> {
        let mut any = Vec::new();
        for way in Way::ALL {
            let mut all = vec![self.scoped_udp_to(way, port)?];
            all.extend(asked(self, way.base()));
            any.push(Pred::And(all));
        }
        let offset_of = |lower: &mut Self, way: Way| {
            let Offset { variable, constant } = lower.place(way.base());
            match variable {
                Some(variable) => {
                    lower.values.binary(Operator::Add, variable, constant.wrapping_add(UDP_BYTES))
                }
                None => lower.values.number(constant.wrapping_add(UDP_BYTES)),
            }
        };
        let [ipv6, chain, ipv4] = Way::ALL.map(|way| offset_of(self, way));
        let is_plain = self.equal(Base::Network, 6, Width::Byte, ip::UDP.into());
        let ipv6 = self.select(&is_plain, ipv6, chain);
        let is_ipv4 = self.link_type(ethertype::IP.into())?;
        let header = self.select(&is_ipv4, ipv4, ipv6);
        Ok((Pred::Or(any), header))
    }
}

impl Offsets {
    /// Inside of an Ethernet frame, or of what stands for one.
    fn inside(&self, header: Offset, link_type: Offset, payload: Offset) -> Offsets {
        let mut inner = self.clone();
        inner.outer_link = self.link;
        inner.outer_header = self.header;
        inner.link = LinkType::EN10MB;
        inner.header = header;
        inner.link_type = Some(link_type);
        inner.payload = payload;
        inner.network = 0;
        inner.network_nosnap = 3;
        inner.mpls_depth = 0;
        inner.is_in_tunnel = false;
        inner
    }
}
