//! What link layers carry: IPv4, IPv6, ARP and others, from RFC 791, 8200, 826, 793, 768, 9260, 792, 4443 and 8926, as
//! [`Payload`]s. Checksums are random bytes: no filter knows them.

use super::{Payload, pools};
use crate::random::Source;

pub(super) const ARP: u16 = 0x0806;
pub(super) const RARP: u16 = 0x8035;
pub(super) const IPV4: u16 = 0x0800;
pub(super) const IPV6: u16 = 0x86dd;
const TEB: u16 = 0x6558;

const TCP: u8 = 6;
const UDP: u8 = 17;
const SCTP: u8 = 132;
const ICMPV6: u8 = 58;
const FRAGMENT: u8 = 44;

/// An IPv4 packet of TCP to port 80, without options, whole.
pub fn tcp_port_80(source: &mut Source) -> Payload {
    let mut segment = transport(source, TCP);
    segment[2..4].copy_from_slice(&80_u16.to_be_bytes());
    Payload::Typed(IPV4, ipv4_packet(source, TCP, &segment, 0, 0))
}

pub(super) fn ipv4(source: &mut Source) -> Payload {
    let protocol =
        source.pick(&[TCP, TCP, TCP, UDP, UDP, SCTP, 1, 1, 2, 50, 51, 103, 112, 9, 88, ICMPV6, 4, 0]);
    let body = upper(source, protocol);
    let options = if source.chance(25) { source.below(11) } else { 0 };
    let fragment = if source.chance(20) { source.pick(&[0x2000, 0x4000, 0x2001, 0x0005, 0x1fff]) } else { 0 };
    Payload::Typed(IPV4, ipv4_packet(source, protocol, &body, options, fragment))
}

pub(super) fn ipv6(source: &mut Source) -> Payload {
    let protocol = source.pick(&[TCP, TCP, TCP, UDP, UDP, SCTP, ICMPV6, ICMPV6, 50, 51, 103, 112, 59, 1]);
    let mut next = protocol;
    let mut body = upper(source, protocol);
    for _ in 0..source.pick(&[0, 0, 0, 1, 1, 2, 3]) {
        let kind = source.pick(&[0, 43, 60, FRAGMENT, 51, 135]);
        body = extension(source, kind, next, body);
        next = kind;
    }
    Payload::Typed(IPV6, ipv6_packet(source, next, &body))
}

/// ARP and RARP between addresses of the pools.
pub(super) fn arp(source: &mut Source) -> Payload {
    let kind = if source.chance(30) { RARP } else { ARP };
    let mut packet = vec![0, 1, 8, 0, 6, 4, 0, source.pick(&[1, 2, 3, 4])];
    for _ in 0..2 {
        packet.extend(source.pick(&pools::MACS));
        packet.extend(source.pick(&pools::IPV4));
    }
    Payload::Typed(kind, packet)
}

/// A UDP datagram of Geneve (RFC 8926) or VXLAN (RFC 7348) with a packet or a frame inside.
pub(super) fn tunnel(source: &mut Source) -> Payload {
    let is_geneve = source.chance(75);
    let vni = source.pick(&pools::VNIS) << 8;
    let inner = if source.chance(70) { ipv4(source) } else { ipv6(source) };
    let (kind, body) = if is_geneve && source.chance(50) {
        inner.typed()
    } else {
        (TEB, super::ethernet::frame(source, &inner))
    };
    let mut tunnelled = Vec::new();
    if is_geneve {
        let words = source.pick(&[0, 0, 1, 4]);
        let version = if source.chance(10) { 0x40 } else { 0 };
        tunnelled.extend([version | words, 0]);
        tunnelled.extend(kind.to_be_bytes());
        tunnelled.extend(vni.to_be_bytes());
        tunnelled.extend(source.bytes(4 * usize::from(words)));
    } else {
        tunnelled.extend([8, 0, 0, 0]);
        tunnelled.extend(vni.to_be_bytes());
    }
    tunnelled.extend(body);
    let datagram = udp(source, if is_geneve { 6081 } else { 4789 }, &tunnelled);
    if source.chance(70) {
        let options = source.pick(&[0, 0, 0, 1]);
        Payload::Typed(IPV4, ipv4_packet(source, UDP, &datagram, options, 0))
    } else {
        Payload::Typed(IPV6, ipv6_packet(source, UDP, &datagram))
    }
}

/// DECnet phase IV routing headers, LAT, MOP and other protocols of which filters know the EtherType.
pub(super) fn digital(source: &mut Source) -> Payload {
    match source.below(4) {
        0 => Payload::Typed(0x6004, source.bytes(30)),
        1 => Payload::Typed(source.pick(&[0x6001, 0x6002, 0x6007]), source.bytes(30)),
        _ => Payload::Typed(0x6003, decnet(source)),
    }
}

/// EtherTypes of AppleTalk, IPX, loopback, MPLS-like strangers and nothing known.
pub(super) fn other_type(source: &mut Source) -> Payload {
    let kind = source.pick(&[0x809b, 0x80f3, 0x8137, 0x9000, 0x8863, 0x88cc, 0x888e, 0x0600, 0xffff]);
    Payload::Typed(kind, source.bytes(40))
}

/// A length in little-endian order, padding now and then, flags of a long or a short header, and addresses in it.
fn decnet(source: &mut Source) -> Vec<u8> {
    let mut packet = vec![40, 0];
    if source.chance(50) {
        packet.push(0x81);
    }
    let is_long = source.chance(50);
    packet.push(if is_long { source.pick(&[0x26, 0x06, 0x0e]) } else { source.pick(&[0x02, 0x0a]) });
    let address = |source: &mut Source| {
        let (area, node) = source.pick(&pools::DECNET);
        (area << 10 | node).to_le_bytes()
    };
    if is_long {
        packet.extend([0, 0, 0xaa, 0, 4, 0]);
        packet.extend(address(source));
        packet.extend([0, 0, 0xaa, 0, 4, 0]);
        packet.extend(address(source));
    } else {
        packet.extend(address(source));
        packet.extend(address(source));
    }
    packet.extend(source.bytes(20));
    packet
}

/// `options`: words of options after the header; `fragment`: flags and offset.
fn ipv4_packet(source: &mut Source, protocol: u8, body: &[u8], options: usize, fragment: u16) -> Vec<u8> {
    let header = 20 + 4 * options;
    let mut packet = vec![0x45 + options as u8, source.pick(&[0, 0, 0x10, 0xb8])];
    packet.extend(((header + body.len()) as u16).to_be_bytes());
    packet.extend(source.bytes(2));
    packet.extend(fragment.to_be_bytes());
    packet.extend([source.pick(&[1, 64, 255]), protocol]);
    packet.extend(source.bytes(2));
    packet.extend(source.pick(&pools::IPV4));
    packet.extend(source.pick(&pools::IPV4));
    packet.extend(source.bytes(4 * options));
    packet.extend(body);
    packet
}

fn ipv6_packet(source: &mut Source, next: u8, body: &[u8]) -> Vec<u8> {
    let mut packet = vec![0x60, 0, 0, 0];
    packet.extend((body.len() as u16).to_be_bytes());
    packet.extend([next, source.pick(&[1, 64, 255])]);
    for _ in 0..2 {
        packet.extend(source.pick(&pools::IPV6).iter().flat_map(|word| word.to_be_bytes()));
    }
    packet.extend(body);
    packet
}

/// An extension header of `kind` before `body`, which is of `next`.
fn extension(source: &mut Source, kind: u8, next: u8, body: Vec<u8>) -> Vec<u8> {
    let mut header = vec![next];
    match kind {
        FRAGMENT => {
            header.push(0);
            header.extend(source.pick(&[0_u16, 1, 8, 0xfff9]).to_be_bytes());
            header.extend(source.bytes(4));
        }
        // The length is in words of four bytes, without two (RFC 4302).
        51 => {
            header.push(4);
            header.extend(source.bytes(22));
        }
        _ => {
            let more = source.pick(&[0, 0, 1, 2]);
            header.push(more);
            header.extend(source.bytes(6 + 8 * usize::from(more)));
        }
    }
    header.extend(body);
    header
}

fn upper(source: &mut Source, protocol: u8) -> Vec<u8> {
    match protocol {
        TCP | UDP | SCTP => transport(source, protocol),
        1 => message(source, &[0, 3, 5, 8, 9, 10, 11, 12, 13, 14, 15, 17, 18]),
        ICMPV6 => message(source, &[1, 2, 3, 128, 129, 130, 133, 134, 135, 136, 137, 143, 153]),
        2 => message(source, &[0x11, 0x12, 0x16, 0x17, 0x22]),
        51 => {
            let next = source.pick(&[TCP, UDP, ICMPV6, 50]);
            let body = upper(source, next);
            extension(source, 51, next, body)
        }
        4 => ipv4(source).typed().1,
        0 => {
            let body = transport(source, TCP);
            extension(source, 0, TCP, body)
        }
        _ => source.bytes(24),
    }
}

/// A type of `kinds`, a small code, and the rest.
fn message(source: &mut Source, kinds: &[u8]) -> Vec<u8> {
    let mut message = vec![source.pick(kinds), source.pick(&[0, 0, 1, 3])];
    message.extend(source.bytes(26));
    message
}

/// TCP with every combination of flags, UDP or SCTP between ports of the pool.
fn transport(source: &mut Source, protocol: u8) -> Vec<u8> {
    if protocol == UDP {
        let port = source.pick(&pools::PORTS);
        let body = source.bytes(12);
        return udp(source, port, &body);
    }
    let mut segment = Vec::new();
    segment.extend(source.pick(&pools::PORTS).to_be_bytes());
    segment.extend(source.pick(&pools::PORTS).to_be_bytes());
    segment.extend(source.bytes(8));
    if protocol == TCP {
        let words = source.pick(&[5, 5, 5, 8, 15]);
        segment.extend([words << 4, source.pick(&[2, 0x12, 0x10, 0x11, 0x18, 4, 0x14, 0x29, 0xc2, 0])]);
        segment.extend(source.bytes(6 + 4 * usize::from(words - 5)));
    }
    let data = source.pick(&[0, 0, 1, 16, 100]);
    segment.extend(source.bytes(data));
    segment
}

fn udp(source: &mut Source, port: u16, body: &[u8]) -> Vec<u8> {
    let mut datagram = Vec::new();
    datagram.extend(source.pick(&pools::PORTS).to_be_bytes());
    datagram.extend(port.to_be_bytes());
    datagram.extend(((8 + body.len()) as u16).to_be_bytes());
    datagram.extend(source.bytes(2));
    datagram.extend(body);
    datagram
}
