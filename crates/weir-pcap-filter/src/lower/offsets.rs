//! Where in a packet its headers are, at one place of the expression.

use super::Lower;
use crate::ast::Operator;
use crate::ir::{Comparison, Pred, Test, Value, ValueId, Values, Width};
use crate::link::LinkType;

/// What an offset is relative to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Base {
    Packet,
    LinkHeader,
    /// The link header outside of the present one.
    OuterLinkHeader,
    /// The link layer's type field.
    LinkType,
    /// The LLC header, if there is one: the link layer's payload.
    Llc,
    /// The MPLS entry before the network header.
    Mpls,
    /// The network header.
    Network,
    /// The network header where there is no SNAP header.
    NetworkNosnap,
    /// The header after that of IPv4, and of IPv6.
    Transport4,
    Transport6,
    /// The header after a chain of extension headers, in scoped expressions.
    Upper,
}

/// A constant, and a length that the packet has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Offset {
    pub(super) variable: Option<ValueId>,
    pub(super) constant: u32,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Offsets {
    pub(super) link: LinkType,
    /// The one around it.
    pub(super) outer_link: LinkType,
    pub(super) header: Offset,
    pub(super) outer_header: Offset,
    pub(super) link_type: Option<Offset>,
    pub(super) payload: Offset,
    pub(super) network: u32,
    pub(super) network_nosnap: u32,
    pub(super) mpls_depth: u32,
    /// Inside of Geneve, or of VXLAN as libpcap 1.11 has it.
    pub(super) is_in_tunnel: bool,
    /// What was used of the lengths in the packet, which are computed first.
    header_length: Option<ValueId>,
    payload_length: Option<ValueId>,
    is_header_used: bool,
    is_payload_used: bool,
    first: LinkType,
}

impl Offsets {
    /// None: nothing is known of the link type.
    pub(super) fn of(link: LinkType, values: &mut Values) -> Option<Offsets> {
        let layout = link.layout()?;
        let fixed = |constant| Offset { variable: None, constant };
        let header_length = header_length(link, values);
        let header = Offset { variable: header_length, constant: layout.header };
        let payload_length = match link {
            LinkType::PFLOG => Some(pflog_length(values)),
            _ if is_wlan(link) => Some(wlan_length(link, header_length, values)),
            _ => None,
        };
        let link_type = match payload_length {
            Some(length) if is_wlan(link) => Some(Offset { variable: Some(length), constant: 0 }),
            _ => layout.link_type.map(fixed),
        };
        let payload = Offset { variable: payload_length, constant: layout.payload as u32 };
        Some(Offsets {
            link,
            outer_link: link,
            header,
            outer_header: header,
            link_type,
            payload,
            network: layout.network as u32,
            network_nosnap: layout.network_nosnap as u32,
            mpls_depth: 0,
            is_in_tunnel: false,
            header_length,
            payload_length,
            is_header_used: false,
            is_payload_used: false,
            first: link,
        })
    }

    /// The lengths that were used.
    pub(super) fn lengths(&self) -> Vec<ValueId> {
        let header = self.header_length.filter(|_| self.is_header_used);
        header.into_iter().chain(self.payload_length.filter(|_| self.is_payload_used)).collect()
    }

    /// libpcap computes these lengths with jumps, which its optimiser does not understand.
    pub(super) fn is_verbatim(&self) -> bool {
        let has_jumps = self.is_payload_used && is_wlan(self.first)
            || self.is_header_used && self.first == LinkType::PRISM_HEADER;
        has_jumps || self.is_in_tunnel
    }

    /// Forgets what was used: only where headers are shall be compared.
    pub(super) fn unused(mut self) -> Offsets {
        (self.is_header_used, self.is_payload_used) = (false, false);
        self
    }

    fn using(&mut self, offset: Offset) -> Offset {
        if let Some(length) = offset.variable {
            self.is_header_used |= self.header_length == Some(length);
            self.is_payload_used |= self.payload_length == Some(length);
        }
        offset
    }
}

/// Whether frames of 802.11 are inside.
pub(super) fn is_wlan(link: LinkType) -> bool {
    matches!(
        link,
        LinkType::IEEE802_11
            | LinkType::IEEE802_11_RADIO
            | LinkType::IEEE802_11_RADIO_AVS
            | LinkType::PRISM_HEADER
            | LinkType::PPI
    )
}

/// Bytes of the radio header in front of an 802.11 frame.
fn header_length(link: LinkType, values: &mut Values) -> Option<ValueId> {
    let load = |values: &mut Values, offset, width| values.add(Value::Load { base: None, offset, width });
    Some(match link {
        // Radiotap's and PPI's length is little endian.
        LinkType::IEEE802_11_RADIO | LinkType::PPI => {
            let high = load(values, 3, Width::Byte);
            let high = values.binary(Operator::Lsh, high, 8);
            let low = load(values, 2, Width::Byte);
            values.add(Value::Binary { operator: Operator::Or, left: low, right: high, by_register: true })
        }
        LinkType::IEEE802_11_RADIO_AVS => load(values, 4, Width::Word),
        // An AVS header, or one of 144 bytes.
        LinkType::PRISM_HEADER => {
            let magic = load(values, 0, Width::Word);
            let magic = values.binary(Operator::And, magic, 0xffff_f000);
            let right = values.number(0x8021_1000);
            let test = Test { comparison: Comparison::Eq, left: magic, right, by_register: false };
            let then = load(values, 4, Width::Word);
            let otherwise = values.number(144);
            values.add(Value::If { test, then, otherwise })
        }
        _ => return None,
    })
}

/// Bytes of the pflog header: its first byte, rounded up to 4.
fn pflog_length(values: &mut Values) -> ValueId {
    let length = values.add(Value::Load { base: None, offset: 0, width: Width::Byte });
    let length = values.binary(Operator::Add, length, 3);
    values.binary(Operator::And, length, 0xffff_fffc)
}

/// Where an 802.11 frame's payload begins: 24 bytes, 2 more for QoS data frames, padded to 4 where radiotap says so.
fn wlan_length(link: LinkType, header: Option<ValueId>, values: &mut Values) -> ValueId {
    let has = |values: &mut Values, left, bits| {
        let right = values.number(bits);
        Test { comparison: Comparison::Set, left, right, by_register: false }
    };
    let start = header.unwrap_or_else(|| values.number(0));
    let plain = values.binary(Operator::Add, start, 24);
    let base = header.or(Some(start));
    let frame_control = values.add(Value::Load { base, offset: 0, width: Width::Byte });
    let with_qos = values.binary(Operator::Add, plain, 2);
    let is_qos = has(values, frame_control, 0x80);
    let data = values.add(Value::If { test: is_qos, then: with_qos, otherwise: plain });
    let data = if link == LinkType::IEEE802_11_RADIO { padded(data, values) } else { data };
    let is_control = has(values, frame_control, 0x04);
    let not_control = values.add(Value::If { test: is_control, then: plain, otherwise: data });
    let is_data = has(values, frame_control, 0x08);
    values.add(Value::If { test: is_data, then: not_control, otherwise: plain })
}

/// `length`, rounded up to 4 if radiotap's flags say that the header is padded.
fn padded(length: ValueId, values: &mut Values) -> ValueId {
    // The order of the bits is that of a big endian load of the little endian word.
    const FLAGS: u32 = 0x0200_0000;
    const MORE_WORDS: u32 = 0x0000_0080;
    const TIME: u32 = 0x0100_0000;
    const IS_PADDED: u32 = 0x20;
    let present = values.add(Value::Load { base: None, offset: 4, width: Width::Word });
    let rounded = values.binary(Operator::Add, length, 3);
    let rounded = values.binary(Operator::And, rounded, 0xffff_fffc);
    let after_time = values.add(Value::Load { base: None, offset: 16, width: Width::Byte });
    let first = values.add(Value::Load { base: None, offset: 8, width: Width::Byte });
    let mut choose = |left, bits, then, otherwise| {
        let right = values.number(bits);
        let test = Test { comparison: Comparison::Set, left, right, by_register: false };
        values.add(Value::If { test, then, otherwise })
    };
    let after_time = choose(after_time, IS_PADDED, rounded, length);
    let first = choose(first, IS_PADDED, rounded, length);
    let flags = choose(present, TIME, after_time, first);
    let flags = choose(present, MORE_WORDS, length, flags);
    choose(present, FLAGS, flags, length)
}

impl Lower<'_> {
    /// Big endian bytes at an offset.
    pub(super) fn load(&mut self, base: Base, offset: u32, width: Width) -> ValueId {
        let Offset { variable, constant } = self.place(base);
        self.values.add(Value::Load { base: variable, offset: constant.wrapping_add(offset), width })
    }

    /// Where a base is.
    pub(super) fn place(&mut self, base: Base) -> Offset {
        let offsets = &mut self.offsets;
        let plus =
            |offset: Offset, more: u32| Offset { constant: offset.constant.wrapping_add(more), ..offset };
        match base {
            Base::Packet => Offset { variable: None, constant: 0 },
            Base::LinkHeader => offsets.using(offsets.header),
            Base::OuterLinkHeader => offsets.using(offsets.outer_header),
            Base::LinkType => {
                let at = offsets.link_type.unwrap_or(Offset { variable: None, constant: u32::MAX });
                offsets.using(at)
            }
            Base::Llc => offsets.using(offsets.payload),
            Base::Mpls => {
                let at = plus(offsets.payload, offsets.network.wrapping_sub(4));
                offsets.using(at)
            }
            Base::Network => offsets.using(plus(offsets.payload, offsets.network)),
            Base::NetworkNosnap => offsets.using(plus(offsets.payload, offsets.network_nosnap)),
            Base::Transport4 => {
                let network = offsets.using(plus(offsets.payload, offsets.network));
                let length = self.ipv4_header_length(network);
                Offset { variable: Some(length), constant: network.constant }
            }
            Base::Upper => self.upper_header(),
            Base::Transport6 => offsets.using(plus(offsets.payload, offsets.network.wrapping_add(40))),
        }
    }

    /// The length of the IPv4 header at `network`, and the variable part of its offset.
    fn ipv4_header_length(&mut self, network: Offset) -> ValueId {
        let Some(variable) = network.variable else {
            return self.values.add(Value::HeaderLength { offset: network.constant });
        };
        let first = Value::Load { base: Some(variable), offset: network.constant, width: Width::Byte };
        let first = self.values.add(first);
        let words = self.values.binary(Operator::And, first, 0xf);
        let left = self.values.binary(Operator::Lsh, words, 2);
        self.values.add(Value::Binary { operator: Operator::Add, left, right: variable, by_register: true })
    }

    /// What is tested before the expression: that a PPI header has an 802.11 frame after it.
    pub(super) fn guard(&mut self) -> Option<Pred> {
        (self.options.link_type == LinkType::PPI).then(|| {
            // The frame's link type, 105, as a little endian word.
            self.equal(Base::Packet, 4, Width::Word, 0x6900_0000)
        })
    }
}
