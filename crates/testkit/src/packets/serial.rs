//! The simpler link layers: a few fields, then the payload. From the descriptions of LINKTYPE_ values at tcpdump.org, and
//! RFC 1661, 1662, 1055, 2427, 1201, 2625, 2734 and IEEE 802.5.

use super::{Payload, ethernet, network, pools};
use crate::random::Source;

/// The address family of BSD in the byte order of this machine.
pub(super) fn null(source: &mut Source, payload: &Payload) -> Vec<u8> {
    join(&family(source, payload).to_le_bytes(), payload.bytes())
}

/// The same in network order.
pub(super) fn loopback(source: &mut Source, payload: &Payload) -> Vec<u8> {
    join(&family(source, payload).to_be_bytes(), payload.bytes())
}

/// OpenBSD's encapsulation: a family, an index of a security association, flags.
pub(super) fn enc(source: &mut Source, payload: &Payload) -> Vec<u8> {
    let mut header = family(source, payload).to_le_bytes().to_vec();
    header.extend(source.bytes(8));
    join(&header, payload.bytes())
}

/// Linux has 10 for IPv6, BSDs 24, 28 and 30.
fn family(source: &mut Source, payload: &Payload) -> u32 {
    match payload {
        Payload::Typed(network::IPV6, _) => source.pick(&[10, 10, 10, 24, 28, 30]),
        Payload::Typed(network::IPV4, _) => 2,
        _ => source.pick(&[7, 23]),
    }
}

pub(super) fn raw(_: &mut Source, payload: &Payload) -> Vec<u8> {
    payload.bytes().to_vec()
}

/// Addresses and a type; the type is after a length of 802.3 where there is none.
pub(super) fn ethernet(source: &mut Source, payload: &Payload) -> Vec<u8> {
    ethernet::frame(source, payload)
}

/// Four bytes before an Ethernet frame.
pub(super) fn netanalyzer(source: &mut Source, payload: &Payload) -> Vec<u8> {
    join(&source.bytes(4), &ethernet::frame(source, payload))
}

/// Four bytes, the preamble, and an Ethernet frame.
pub(super) fn netanalyzer_transparent(source: &mut Source, payload: &Payload) -> Vec<u8> {
    let header = [source.bytes(4), vec![0x55, 0x55, 0x55, 0x55, 0x55, 0x55, 0x55, 0xd5]].concat();
    join(&header, &ethernet::frame(source, payload))
}

/// Access and frame control, addresses, LLC; a route now and then, which filters do not skip.
pub(super) fn token_ring(source: &mut Source, payload: &Payload) -> Vec<u8> {
    let mut frame = vec![0x10, 0x40];
    frame.extend(source.pick(&pools::MACS));
    frame.extend(source.pick(&pools::MACS));
    join(&frame, &ethernet::with_llc(payload))
}

pub(super) fn token_ring_routed(source: &mut Source) -> Vec<u8> {
    let payload = network::ipv4(source);
    let mut frame = token_ring(source, &payload);
    frame[8] |= 0x80;
    frame.splice(14..14, [0x06, 0x90, 0x00, 0x11, 0x00, 0x22]);
    frame
}

/// Frame control, addresses, LLC.
pub(super) fn fddi(source: &mut Source, payload: &Payload) -> Vec<u8> {
    let mut frame = vec![source.pick(&[0x50, 0x54, 0x57])];
    frame.extend(source.pick(&pools::MACS));
    frame.extend(source.pick(&pools::MACS));
    join(&frame, &ethernet::with_llc(payload))
}

/// Frame control of no LLC frame.
pub(super) fn fddi_other(source: &mut Source) -> Vec<u8> {
    let control = source.pick(&[0x41, 0xc2, 0x80]);
    [vec![control], source.bytes(30)].concat()
}

/// Destination and source of 16 bits of authority and 48 of address, LLC.
pub(super) fn fibre_channel(source: &mut Source, payload: &Payload) -> Vec<u8> {
    let mut frame = Vec::new();
    for _ in 0..2 {
        frame.extend([0x10, 0]);
        frame.extend(source.pick(&pools::MACS));
    }
    join(&frame, &ethernet::with_llc(payload))
}

/// LLC and SNAP alone: RFC 1483, and classical IP over ATM.
pub(super) fn llc_alone(_: &mut Source, payload: &Payload) -> Vec<u8> {
    ethernet::with_llc(payload)
}

/// Address and control, then the protocol: PPP in HDLC's framing, or Cisco's in serial lines.
pub(super) fn ppp(source: &mut Source, payload: &Payload) -> Vec<u8> {
    if source.chance(15) {
        return cisco(source, payload);
    }
    join(&[0xff, 3], &ethernet::ppp(source, payload))
}

/// The direction where the address would be.
pub(super) fn ppp_with_direction(source: &mut Source, payload: &Payload) -> Vec<u8> {
    join(&[source.pick(&[0, 1]), 3], &ethernet::ppp(source, payload))
}

/// The header of a PPPoE session, without Ethernet.
pub(super) fn ppp_ether(source: &mut Source, payload: &Payload) -> Vec<u8> {
    let data = ethernet::ppp(source, payload);
    let mut header = vec![0x11, 0];
    header.extend(source.pick(&pools::SESSIONS).to_be_bytes());
    header.extend((data.len() as u16).to_be_bytes());
    join(&header, &data)
}

/// BSD/OS: five bytes, the protocol, filled up to 24.
pub(super) fn ppp_bsdos(source: &mut Source, payload: &Payload) -> Vec<u8> {
    let data = ethernet::ppp(source, payload);
    [&source.bytes(5)[..], &data[..2], &source.bytes(17), &data[2..]].concat()
}

/// Cisco HDLC: unicast or broadcast, a zero, a type; 0xfefe for OSI, whose packet has a byte of
/// padding before it.
pub(super) fn cisco(source: &mut Source, payload: &Payload) -> Vec<u8> {
    let (kind, body) = match payload {
        Payload::Typed(kind, body) => (*kind, &body[..]),
        Payload::Llc(body) if body[0] == 0xfe => (0xfefe, &body[2..]),
        other => (0x8035, other.bytes()),
    };
    let header = [&[source.pick(&[0x0f, 0x8f]), 0][..], &kind.to_be_bytes()].concat();
    join(&header, body)
}

/// SLIP: the direction, a kind and 14 bytes of compression's; the first byte is also what filters take for the
/// version, so that it is one now and then.
pub(super) fn slip(source: &mut Source, payload: &Payload) -> Vec<u8> {
    let mut header = source.bytes(16);
    header[0] = source.pick(&[0, 1, 0x45, 0x60]);
    join(&header, payload.bytes())
}

pub(super) fn slip_bsdos(source: &mut Source, payload: &Payload) -> Vec<u8> {
    let mut header = source.bytes(24);
    header[0] = source.pick(&[0, 1, 0x45, 0x60]);
    join(&header, payload.bytes())
}

/// Frame relay: two bytes of address, UI, and the NLPID of RFC 2427; OSI's is its own first byte.
pub(super) fn frame_relay(source: &mut Source, payload: &Payload) -> Vec<u8> {
    let address = [0x18, source.pick(&[0x41, 0x49, 0xf1]), 3];
    let rest = match payload {
        Payload::Typed(network::IPV4, body) => [&[0xcc][..], body].concat(),
        Payload::Typed(network::IPV6, body) => [&[0x8e][..], body].concat(),
        Payload::Llc(body) if body[0] == 0xfe => body[3..].to_vec(),
        other => [&[0, 0x80][..], &ethernet::with_llc(other)].concat(),
    };
    join(&address, &rest)
}

/// Source, destination, the protocol of RFC 1201; then four bytes of splitting, which RFC 1051's protocols lack.
pub(super) fn arcnet(source: &mut Source, payload: &Payload) -> Vec<u8> {
    let header = [arcnet_address(source), arcnet_address(source), arcnet_kind(source, payload)];
    [&header[..], &source.bytes(3), payload.bytes()].concat()
}

/// Linux has two bytes of an offset between.
pub(super) fn arcnet_linux(source: &mut Source, payload: &Payload) -> Vec<u8> {
    let header = [arcnet_address(source), arcnet_address(source), 0, 0, arcnet_kind(source, payload)];
    [&header[..], &source.bytes(3), payload.bytes()].concat()
}

fn arcnet_address(source: &mut Source) -> u8 {
    source.pick(&[0, 1, 5, 0xd5, 0xff])
}

fn arcnet_kind(source: &mut Source, payload: &Payload) -> u8 {
    match payload {
        Payload::Typed(network::IPV4, _) => source.pick(&[0xd4, 0xf0]),
        Payload::Typed(network::IPV6, _) => 0xc4,
        Payload::Typed(network::ARP, _) => source.pick(&[0xd5, 0xf1]),
        Payload::Typed(network::RARP, _) => 0xd6,
        Payload::Typed(0x809b, _) => 0xdd,
        _ => source.pick(&[0xfa, 0xdd]),
    }
}

/// Symantec's firewall: the type after six bytes, filled up to 44.
pub(super) fn symantec(source: &mut Source, payload: &Payload) -> Vec<u8> {
    let kind = number(payload);
    [&source.bytes(6)[..], &kind.to_be_bytes(), &source.bytes(36), payload.bytes()].concat()
}

/// IP over FireWire: two addresses of eight bytes and a type.
pub(super) fn fire_wire(source: &mut Source, payload: &Payload) -> Vec<u8> {
    [&source.bytes(16)[..], &number(payload).to_be_bytes(), payload.bytes()].concat()
}

/// Linux's cooked header: who sent it to whom, the kind of device, the address, the protocol.
pub(super) fn sll(source: &mut Source, payload: &Payload) -> Vec<u8> {
    let direction = source.pick(&[0_u16, 1, 2, 3, 4]);
    let mut header = direction.to_be_bytes().to_vec();
    header.extend([0, 1, 0, 6]);
    header.extend(source.pick(&pools::MACS));
    header.extend([0, 0]);
    header.extend(number(payload).to_be_bytes());
    join(&header, payload.bytes())
}

/// The second version: the protocol, the interface's index, the kind of device, the direction, the address.
pub(super) fn sll2(source: &mut Source, payload: &Payload) -> Vec<u8> {
    let mut header = number(payload).to_be_bytes().to_vec();
    header.extend([0, 0]);
    header.extend(source.pick(&[1_u32, 2, 300]).to_be_bytes());
    header.extend([0, 1, source.pick(&[0, 1, 2, 3, 4]), 6]);
    header.extend(source.pick(&pools::MACS));
    header.extend([0, 0]);
    join(&header, payload.bytes())
}

/// BACnet MS/TP: the preamble, a kind, addresses and lengths.
pub(super) fn bacnet(source: &mut Source, payload: &Payload) -> Vec<u8> {
    let header = [vec![0x55, 0xff], source.bytes(6)].concat();
    join(&header, payload.bytes())
}

/// Bytes of which nothing is known.
pub(super) fn anything(source: &mut Source) -> Vec<u8> {
    let length = source.pick(&[1, 4, 16, 40, 64]);
    source.bytes(length)
}

/// The type, with Linux's numbers for frames of 802.3 (1) and 802.2 (4).
fn number(payload: &Payload) -> u16 {
    match payload {
        Payload::Typed(kind, _) => *kind,
        Payload::Novell(_) => 1,
        Payload::Llc(_) => 4,
    }
}

fn join(header: &[u8], body: &[u8]) -> Vec<u8> {
    [header, body].concat()
}
