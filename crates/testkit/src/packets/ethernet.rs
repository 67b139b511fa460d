//! Ethernet and what is between it and the network: 802.1Q and 802.1ad tags, MPLS (RFC 3032), PPPoE (RFC 2516), and frames
//! of 802.2 LLC and SNAP with IPX, NetBEUI, spanning tree, AppleTalk and OSI, of which IS-IS (ISO 10589).

use super::{Payload, network, pools};
use crate::random::Source;

const MPLS: u16 = 0x8847;
const MPLS_MULTICAST: u16 = 0x8848;
const PPPOE_DISCOVERY: u16 = 0x8863;
const PPPOE_SESSION: u16 = 0x8864;

/// Two addresses, then a type or a length, then `payload`.
pub(super) fn frame(source: &mut Source, payload: &Payload) -> Vec<u8> {
    let mut frame = source.pick(&pools::MACS).to_vec();
    frame.extend(source.pick(&pools::MACS));
    frame.extend(after_addresses(payload));
    frame
}

fn after_addresses(payload: &Payload) -> Vec<u8> {
    let (number, body) = match payload {
        Payload::Typed(kind, body) => (*kind, body),
        Payload::Llc(body) | Payload::Novell(body) => (body.len() as u16, body),
    };
    let mut bytes = number.to_be_bytes().to_vec();
    bytes.extend(body);
    bytes
}

/// One tag or two.
pub(super) fn tagged(source: &mut Source) -> Payload {
    let mut payload = match source.below(8) {
        0 => network::arp(source),
        1 => llc(source),
        2 => mpls(source),
        3 => pppoe(source),
        4 | 5 => network::ipv6(source),
        _ => network::ipv4(source),
    };
    for _ in 0..source.pick(&[1, 1, 1, 2, 2, 3]) {
        let tci = source.pick(&pools::VLANS) | source.pick(&[0_u16, 0, 0x2000, 0xf000]);
        let mut body = tci.to_be_bytes().to_vec();
        body.extend(after_addresses(&payload));
        payload = Payload::Typed(source.pick(&[0x8100, 0x8100, 0x88a8, 0x9100]), body);
    }
    payload
}

/// One to three labels, the last of which says that it is.
pub(super) fn mpls(source: &mut Source) -> Payload {
    let (_, packet) = if source.chance(70) { network::ipv4(source) } else { network::ipv6(source) }.typed();
    let depth = source.pick(&[1, 1, 2, 3]);
    let mut body = Vec::new();
    for nth in 1..=depth {
        let bottom = u32::from(nth == depth) << 8;
        body.extend((source.pick(&pools::LABELS) << 12 | bottom | 64).to_be_bytes());
    }
    body.extend(packet);
    Payload::Typed(source.pick(&[MPLS, MPLS, MPLS, MPLS_MULTICAST]), body)
}

pub(super) fn pppoe(source: &mut Source) -> Payload {
    let mut body = vec![0x11];
    let session = source.pick(&pools::SESSIONS);
    if source.chance(25) {
        body.push(source.pick(&[0x09, 0x07, 0x19, 0x65, 0xa7]));
        body.extend(session.to_be_bytes());
        body.extend([0, 8, 1, 1, 0, 0, 1, 3, 0, 0]);
        return Payload::Typed(PPPOE_DISCOVERY, body);
    }
    let inside = match source.below(6) {
        0 => network::ipv6(source),
        1 => mpls(source),
        2 => network::other_type(source),
        _ => network::ipv4(source),
    };
    let data = ppp(source, &inside);
    body.push(0);
    body.extend(session.to_be_bytes());
    body.extend((data.len() as u16).to_be_bytes());
    body.extend(data);
    Payload::Typed(PPPOE_SESSION, body)
}

/// The protocol's number of PPP in two bytes, and the payload; LCP or IPCP for what PPP does not carry.
pub(super) fn ppp(source: &mut Source, payload: &Payload) -> Vec<u8> {
    let (number, body): (u16, &[u8]) = match payload {
        Payload::Typed(network::IPV4, body) => (0x21, body),
        Payload::Typed(network::IPV6, body) => (0x57, body),
        Payload::Typed(MPLS, body) => (0x281, body),
        Payload::Typed(MPLS_MULTICAST, body) => (0x283, body),
        Payload::Typed(0x809b, body) => (0x29, body),
        Payload::Typed(0x8137, body) => (0x2b, body),
        Payload::Typed(0x6003, body) => (0x27, body),
        Payload::Llc(body) if body[0] == 0xfe => (0x23, &body[3..]),
        Payload::Llc(body) if body[0] == 0x42 => (0x31, &body[3..]),
        other => (source.pick(&[0xc021, 0x8021, 0x2d, 0x2f]), other.bytes()),
    };
    let mut bytes = number.to_be_bytes().to_vec();
    bytes.extend(body);
    bytes
}

/// The frame's LLC header: `payload`'s own, or one with SNAP before it.
pub(super) fn with_llc(payload: &Payload) -> Vec<u8> {
    let mut bytes = Vec::new();
    match payload {
        // AppleTalk, but not its ARP, has an organisation's code of its own.
        Payload::Typed(0x809b, _) => bytes.extend([0xaa, 0xaa, 3, 8, 0, 7]),
        Payload::Typed(..) => bytes.extend([0xaa, 0xaa, 3, 0, 0, 0]),
        Payload::Llc(_) | Payload::Novell(_) => {}
    }
    if let Payload::Typed(kind, _) = payload {
        bytes.extend(kind.to_be_bytes());
    }
    bytes.extend(payload.bytes());
    bytes
}

/// A frame of 802.2: every kind of PDU, the protocols above, and raw IPX of 802.3.
pub(super) fn llc(source: &mut Source) -> Payload {
    match source.below(10) {
        0 => Payload::Novell([vec![0xff, 0xff], source.bytes(30)].concat()),
        1 => service(source, 0xe0, &[3]),
        2 => service(source, 0xf0, &[3, 0, 1]),
        3 => service(source, 0x42, &[3]),
        4 => {
            let kind = source.pick(&[0x809b, 0x80f3, 0x8137, 0x0800, 0x0806, 0x86dd]);
            let inner = Payload::Typed(kind, source.bytes(30));
            Payload::Llc(with_llc(&inner))
        }
        5 => {
            // S and U PDUs by their control fields.
            let control =
                source.pick(&[0x01, 0x05, 0x09, 0x03, 0x63, 0x43, 0x6f, 0xe3, 0xaf, 0x87, 0x13, 0x02]);
            let point = source.pick(&[0x04, 0x06, 0xfe]);
            service(source, point, &[control])
        }
        _ => osi(source),
    }
}

/// A frame from one service access point to the same.
fn service(source: &mut Source, point: u8, control: &[u8]) -> Payload {
    let is_response = u8::from(source.chance(20));
    Payload::Llc([&[point, point | is_response], control, &source.bytes(24)].concat())
}

/// OSI: CLNP, ES-IS, or IS-IS of one of its kinds.
fn osi(source: &mut Source) -> Payload {
    let protocol = source.pick(&[0x81, 0x82, 0x83, 0x83, 0x83, 0x83, 0x83, 0x83]);
    let mut frame = vec![0xfe, 0xfe, 3, protocol];
    let mut pdu = source.bytes(26);
    if protocol == 0x83 {
        // The kind is in the low five bits of the fifth byte; hellos 15 to 17, LSPs 18 and 20, CSNPs 24 and 25, PSNPs 26 and 27.
        pdu[..3].copy_from_slice(&[27, 1, 0]);
        pdu[3] = source.pick(&[15, 16, 17, 18, 20, 24, 25, 26, 27]) | source.pick(&[0, 0, 0xe0]);
        pdu[4] = 1;
    }
    frame.extend(pdu);
    Payload::Llc(frame)
}
