//! Tests of what the link layer carries, by link type.

use super::offsets::{Base, is_wlan};
use super::{Lower, Lowering};
use crate::ir::{Comparison, Pred, Width};
use crate::link::LinkType;
use crate::protocol::ethertype;

/// Protocol numbers of PPP (RFC 1661 and IANA's registry), for EtherTypes and service access points.
const PPP: [(u16, u16); 7] = [
    (ethertype::IP, 0x21),
    (ethertype::IPV6, 0x57),
    (ethertype::DECNET, 0x27),
    (ethertype::ATALK, 0x29),
    (ethertype::SAP_ISO, 0x23),
    (ethertype::SAP_STP, 0x31),
    (ethertype::SAP_IPX, 0x2b),
];
/// IP with its headers compressed, and not (RFC 1144).
const PPP_VAN_JACOBSON: [u32; 2] = [0x2d, 0x2f];

/// Linux cooked capture's types of frames without an EtherType.
const SLL_NOVELL: u32 = 1;
const SLL_LLC: u32 = 4;

/// Address families of the files' systems, as Linux has them.
const AF_INET: u32 = 2;
const AF_INET6: u32 = 10;

impl Lower<'_> {
    /// The link layer carries `number`: an EtherType, or up to 1,500 an LLC service access point.
    pub(super) fn link_type(&mut self, number: u32) -> Lowering {
        if self.offsets.mpls_depth > 0 {
            return self.mpls_payload(number);
        }
        let link = self.offsets.link;
        let known = u16::try_from(number).unwrap_or(u16::MAX);
        let is = |value: u16| number == u32::from(value);
        if is_wlan(link) {
            return Ok(self.data_frame().and(self.llc_type(number)));
        }
        Ok(match link {
            LinkType::EN10MB | LinkType::NETANALYZER | LinkType::NETANALYZER_TRANSPARENT => {
                let ethernet = self.ethernet_type(number);
                match self.inside_outer_link() {
                    // Geneve says itself what it carries, with the same numbers.
                    Some(inside) if !self.offsets.is_in_tunnel => inside.and(ethernet),
                    _ => ethernet,
                }
            }
            LinkType::C_HDLC | LinkType::HDLC => {
                let number = if is(ethertype::SAP_ISO) { 0xfefe } else { number };
                self.equal(Base::LinkType, 0, Width::Half, number)
            }
            LinkType::FDDI
            | LinkType::IEEE802
            | LinkType::ATM_RFC1483
            | LinkType::ATM_CLIP
            | LinkType::IP_OVER_FC => self.llc_type(number),
            LinkType::SUNATM => self.atm_is_llc().and(self.llc_type(number)),
            LinkType::LINUX_SLL => self.cooked_type(number),
            LinkType::SLIP | LinkType::SLIP_BSDOS | LinkType::RAW if is(ethertype::IP) => {
                self.masked_equal(Base::LinkHeader, 0, Width::Byte, 0xf0, 0x40)
            }
            LinkType::SLIP | LinkType::SLIP_BSDOS | LinkType::RAW if is(ethertype::IPV6) => {
                self.masked_equal(Base::LinkHeader, 0, Width::Byte, 0xf0, 0x60)
            }
            LinkType::IPV4 if is(ethertype::IP) => self.always(),
            LinkType::IPV6 if is(ethertype::IPV6) => self.always(),
            LinkType::LTALK if is(ethertype::ATALK) => self.always(),
            LinkType::SLIP
            | LinkType::SLIP_BSDOS
            | LinkType::RAW
            | LinkType::IPV4
            | LinkType::IPV6
            | LinkType::LTALK => self.never(),
            LinkType::PPP_BSDOS if is(ethertype::IP) => {
                let kinds = [ppp(number)].into_iter().chain(PPP_VAN_JACOBSON);
                self.one_of(kinds, Width::Half)
            }
            LinkType::PPP
            | LinkType::PPP_PPPD
            | LinkType::PPP_SERIAL
            | LinkType::PPP_ETHER
            | LinkType::PPP_BSDOS => self.equal(Base::LinkType, 0, Width::Half, ppp(number)),
            LinkType::NULL | LinkType::LOOP | LinkType::ENC => match known {
                ethertype::IP => self.family(AF_INET),
                ethertype::IPV6 => self.family(AF_INET6),
                _ => self.never(),
            },
            LinkType::PFLOG => match known {
                ethertype::IP => self.equal(Base::LinkHeader, 1, Width::Byte, AF_INET),
                ethertype::IPV6 => self.equal(Base::LinkHeader, 1, Width::Byte, AF_INET6),
                _ => self.never(),
            },
            // RFC 1201, RFC 1051 and RFC 4338.
            LinkType::ARCNET | LinkType::ARCNET_LINUX => match known {
                ethertype::IPV6 => self.equal(Base::LinkType, 0, Width::Byte, 0xc4),
                ethertype::IP => self.one_of([0xd4, 0xf0], Width::Byte),
                ethertype::ARP => self.one_of([0xd5, 0xf1], Width::Byte),
                ethertype::RARP => self.equal(Base::LinkType, 0, Width::Byte, 0xd6),
                ethertype::ATALK => self.equal(Base::LinkType, 0, Width::Byte, 0xdd),
                _ => self.never(),
            },
            // RFC 2427: unnumbered information, and a network layer protocol identifier.
            LinkType::FRELAY => match known {
                ethertype::IP => self.equal(Base::LinkHeader, 2, Width::Half, 0x03cc),
                ethertype::IPV6 => self.equal(Base::LinkHeader, 2, Width::Half, 0x038e),
                ethertype::SAP_ISO => Pred::Or(
                    [0x0381, 0x0382, 0x0383]
                        .into_iter()
                        .map(|kind| self.equal(Base::LinkHeader, 2, Width::Half, kind))
                        .collect(),
                ),
                _ => self.never(),
            },
            LinkType::BACNET_MS_TP => {
                self.masked_equal(Base::LinkHeader, 0, Width::Word, 0xffff_0000, 0x55ff_0000)
            }
            LinkType::IPNET => match known {
                ethertype::IP => self.equal(Base::LinkType, 0, Width::Byte, 2),
                ethertype::IPV6 => self.equal(Base::LinkType, 0, Width::Byte, 26),
                _ => self.never(),
            },
            link if is_juniper(link) => {
                self.masked_equal(Base::LinkHeader, 0, Width::Word, 0xffff_ff00, 0x4d47_4300)
            }
            _ if self.offsets.link_type.is_some() => self.equal(Base::LinkType, 0, Width::Half, number),
            link => {
                let message = format!(
                    "what packets of link type {} ({}) carry cannot be tested",
                    link.name(),
                    link.about()
                );
                return Err(self.error(message).with_hint("`link[N:M]` tests their bytes"));
            }
        })
    }

    fn one_of(&mut self, kinds: impl IntoIterator<Item = u32>, width: Width) -> Pred {
        Pred::Or(kinds.into_iter().map(|kind| self.equal(Base::LinkType, 0, width, kind)).collect())
    }

    /// Loopback headers have the address family in the byte order of the machine; OpenBSD's in that of the network.
    fn family(&mut self, family: u32) -> Pred {
        let number = if self.offsets.link == LinkType::LOOP { family } else { family.swap_bytes() };
        self.equal(Base::LinkHeader, 0, Width::Word, number)
    }

    /// 802.3: the type field is a length.
    fn has_length(&mut self) -> Pred {
        self.compare(Base::LinkType, 0, Width::Half, Comparison::Gt, u32::from(ethertype::LENGTH_MAX)).not()
    }

    fn ethernet_type(&mut self, number: u32) -> Pred {
        let known = u16::try_from(number).unwrap_or(u16::MAX);
        match known {
            ethertype::SAP_ISO | ethertype::SAP_IP | ethertype::SAP_NETBEUI => {
                self.has_length().and(self.equal(Base::Llc, 0, Width::Half, number << 8 | number))
            }
            ethertype::SAP_IPX => {
                let snap = self.snap(0, ethertype::IPX);
                let llc = self.equal(Base::Llc, 0, Width::Byte, number);
                let raw = self.equal(Base::Llc, 0, Width::Half, 0xffff);
                let in_length = self.has_length().and(Pred::Or(vec![snap, llc, raw]));
                self.equal(Base::LinkType, 0, Width::Half, u32::from(ethertype::IPX)).or(in_length)
            }
            ethertype::ATALK | ethertype::AARP => {
                let organization = if known == ethertype::ATALK { 0x08_0007 } else { 0 };
                let snap = self.has_length().and(self.snap(organization, known));
                self.equal(Base::LinkType, 0, Width::Half, number).or(snap)
            }
            0..=ethertype::LENGTH_MAX => self.has_length().and(self.equal(Base::Llc, 0, Width::Byte, number)),
            _ => self.equal(Base::LinkType, 0, Width::Half, number),
        }
    }

    /// The type in an LLC header, or in the SNAP header after it.
    fn llc_type(&mut self, number: u32) -> Pred {
        let known = u16::try_from(number).unwrap_or(u16::MAX);
        match known {
            ethertype::SAP_ISO | ethertype::SAP_IP | ethertype::SAP_NETBEUI => {
                self.equal(Base::Llc, 0, Width::Half, number << 8 | number)
            }
            ethertype::SAP_IPX => self.equal(Base::Llc, 0, Width::Byte, number),
            ethertype::ATALK => self.snap(0x08_0007, known),
            0..=ethertype::LENGTH_MAX => self.equal(Base::Llc, 0, Width::Byte, number),
            _ => self.equal(Base::Llc, 6, Width::Half, number),
        }
    }

    fn cooked_type(&mut self, number: u32) -> Pred {
        let known = u16::try_from(number).unwrap_or(u16::MAX);
        let is = |lower: &mut Self, kind| lower.equal(Base::LinkType, 0, Width::Half, kind);
        match known {
            ethertype::SAP_ISO | ethertype::SAP_IP | ethertype::SAP_NETBEUI => {
                is(self, SLL_LLC).and(self.equal(Base::Llc, 0, Width::Half, number << 8 | number))
            }
            ethertype::SAP_IPX => {
                let snap = self.snap(0, ethertype::IPX);
                let llc = self.equal(Base::Llc, 0, Width::Byte, number);
                let in_llc = is(self, SLL_LLC).and(llc.or(snap));
                let novell = is(self, SLL_NOVELL);
                Pred::Or(vec![is(self, u32::from(ethertype::IPX)), novell, in_llc])
            }
            ethertype::ATALK | ethertype::AARP => {
                let organization = if known == ethertype::ATALK { 0x08_0007 } else { 0 };
                let snap = is(self, SLL_LLC).and(self.snap(organization, known));
                is(self, number).or(snap)
            }
            0..=ethertype::LENGTH_MAX => is(self, SLL_LLC).and(self.equal(Base::Llc, 0, Width::Byte, number)),
            _ => is(self, number),
        }
    }

    /// A SNAP header of that organization and type.
    fn snap(&mut self, organization: u32, kind: u16) -> Pred {
        let [_, high, middle, low] = organization.to_be_bytes();
        let [kind_high, kind_low] = kind.to_be_bytes();
        self.bytes(Base::Llc, 0, &[0xaa, 0xaa, 0x03, high, middle, low, kind_high, kind_low])
    }

    /// Inside of another link layer: that it is what was assumed. After ATM LANE: that it is no control frame.
    pub(super) fn inside_outer_link(&mut self) -> Option<Pred> {
        if self.offsets.is_in_tunnel {
            return Some(self.tunnel_has_ethernet());
        }
        (self.offsets.outer_link == LinkType::SUNATM)
            .then(|| self.equal(Base::OuterLinkHeader, 4, Width::Half, 0xff00).not())
    }

    /// MPLS does not say what it carries: the last label is followed by IP, of the version that its first four bits say.
    fn mpls_payload(&mut self, number: u32) -> Lowering {
        let version = match number {
            0x0800 | 0x21 => 0x40,
            0x86dd | 0x57 => 0x60,
            _ if self.is_scoped() => return Ok(self.never()),
            _ => {
                return Err(self
                    .error("unsupported protocol over MPLS")
                    .with_hint("`ip` and `ip6` are what is known after labels"));
            }
        };
        let is_last = self.masked_equal(Base::Mpls, 2, Width::Byte, 0x01, 0x01);
        Ok(is_last.and(self.masked_equal(Base::Network, 0, Width::Byte, 0xf0, version)))
    }

    /// `llc`, `llc i`, `llc ui` and so on.
    pub(super) fn llc(&mut self, llc: crate::ast::Llc) -> Lowering {
        use crate::ast::Llc;
        let any = self.any_llc()?;
        Ok(match llc {
            Llc::Any => any,
            Llc::Information => any.and(self.has(Base::Llc, 2, Width::Byte, 0x01).not()),
            Llc::Supervisory => any.and(self.masked_equal(Base::Llc, 2, Width::Byte, 0x03, 0x01)),
            Llc::Unnumbered => any.and(self.masked_equal(Base::Llc, 2, Width::Byte, 0x03, 0x03)),
            Llc::SupervisoryIs(function) => {
                any.and(self.masked_equal(Base::Llc, 2, Width::Byte, 0x0f, function.into()))
            }
            Llc::UnnumberedIs(function) => {
                any.and(self.masked_equal(Base::Llc, 2, Width::Byte, 0xef, function.into()))
            }
        })
    }

    fn any_llc(&mut self) -> Lowering {
        let link = self.offsets.link;
        Ok(match link {
            // No Novell frame, which has a checksum of ones in place of an LLC header.
            LinkType::EN10MB => self.has_length().and(self.equal(Base::Llc, 0, Width::Half, 0xffff).not()),
            LinkType::SUNATM => self.atm_is_llc(),
            LinkType::IEEE802 | LinkType::FDDI | LinkType::ATM_RFC1483 => self.always(),
            _ if is_wlan(link) => self.data_frame(),
            _ => return Err(self.error(format!("`llc` is not supported for {}", link.about()))),
        })
    }
}

fn ppp(number: u32) -> u32 {
    let row = PPP.iter().find(|(link, _)| u32::from(*link) == number);
    row.map_or(number, |(_, ppp)| u32::from(*ppp))
}

pub(super) fn is_juniper(link: LinkType) -> bool {
    matches!(
        link,
        LinkType::JUNIPER_MLPPP
            | LinkType::JUNIPER_MLFR
            | LinkType::JUNIPER_ES
            | LinkType::JUNIPER_GGSN
            | LinkType::JUNIPER_MFR
            | LinkType::JUNIPER_ATM2
            | LinkType::JUNIPER_SERVICES
            | LinkType::JUNIPER_ATM1
            | LinkType::JUNIPER_MONITOR
            | LinkType::JUNIPER_PPPOE
            | LinkType::JUNIPER_PPPOE_ATM
            | LinkType::JUNIPER_ETHER
            | LinkType::JUNIPER_PPP
            | LinkType::JUNIPER_FRELAY
            | LinkType::JUNIPER_CHDLC
            | LinkType::JUNIPER_VP
            | LinkType::JUNIPER_ISM
            | LinkType::JUNIPER_ST
            | LinkType::JUNIPER_VS
            | LinkType::JUNIPER_SRX_E2E
            | LinkType::JUNIPER_FIBRECHANNEL
            | LinkType::JUNIPER_ATM_CEMIC
    )
}
