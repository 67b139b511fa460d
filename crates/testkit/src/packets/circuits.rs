//! Link layers of circuits and of devices of their own kind: ATM, SS7 (ITU-T Q.703, Q.704), Juniper's headers, PF's log, Solaris's
//! ipnet.

use super::{Payload, ethernet, network, pools};
use crate::random::Source;

/// SunATM: a byte of direction and kind, the VPI, the VCI; then LLC, as the kind says.
pub(super) fn sunatm(source: &mut Source, payload: &Payload) -> Vec<u8> {
    let mut frame = vec![source.pick(&[0x02, 0x82]), source.pick(&pools::VPIS)];
    frame.extend(source.pick(&pools::VCIS).to_be_bytes());
    frame.extend(ethernet::with_llc(payload));
    frame
}

/// SunATM with LAN emulation, its control, or signalling (Q.2931), which has its message's type in the sixth byte.
pub(super) fn sunatm_other(source: &mut Source) -> Vec<u8> {
    if source.chance(50) {
        let mut frame = vec![source.pick(&[0x01, 0x81]), source.pick(&pools::VPIS)];
        frame.extend(source.pick(&pools::VCIS).to_be_bytes());
        if source.chance(25) {
            frame.extend([0xff, 0x00]);
            frame.extend(source.bytes(40));
            return frame;
        }
        frame.extend([0, 7]);
        let payload = source.pick(&[network::ipv4, network::ipv6, network::arp, ethernet::llc])(source);
        frame.extend(ethernet::frame(source, &payload));
        return frame;
    }
    let mut frame = vec![source.pick(&[0x05, 0x06, 0x86, 0x04]), 0];
    frame.extend(source.pick(&[1_u16, 5, 5, 16]).to_be_bytes());
    frame.extend([9, 3, 0, 0, 1, source.pick(&[0x05, 0x02, 0x07, 0x0f, 0x4d, 0x5a, 0x09])]);
    frame.extend(source.bytes(20));
    frame
}

/// A signal unit of MTP2: a fill-in unit, a link status, or a message with its routing label; or one of a high-speed link, whose
/// length has nine bits and its sequence numbers twelve.
pub(super) fn mtp2(source: &mut Source) -> Vec<u8> {
    let length = source.pick(&[0_u8, 0, 1, 2, 3, 20, 63]);
    if source.chance(50) {
        let mut unit = source.bytes(2);
        unit.push(length | source.pick(&[0, 0x40]));
        unit.extend(message(source));
        return unit;
    }
    let mut unit = source.bytes(4);
    unit.extend((u16::from(length) << 7 | source.pick(&[0, 0x7f])).to_be_bytes());
    unit.extend(message(source));
    unit
}

/// MTP3: the service octet, and a label of two point codes of 14 bits and a link selection of four.
fn message(source: &mut Source) -> Vec<u8> {
    let mut bytes = vec![source.pick(&[0x83, 0x85, 3, 0])];
    let destination = u32::from(source.pick(&pools::POINT_CODES));
    let origin = u32::from(source.pick(&pools::POINT_CODES));
    let label = destination | origin << 14 | (source.below(16) as u32) << 28;
    bytes.extend(label.to_le_bytes());
    bytes.extend(source.bytes(16));
    bytes
}

pub(super) fn mtp3(source: &mut Source) -> Vec<u8> {
    message(source)
}

/// Four bytes before the unit: sent or received, an annex, and the link.
pub(super) fn mtp2_with_header(source: &mut Source) -> Vec<u8> {
    let mut frame = vec![source.pick(&[0, 1]), source.pick(&[0, 1]), 0, 1];
    frame.extend(mtp2(source));
    frame
}

/// Endace's record: a time, a kind, flags, lengths, and (of channels of HDLC) four bytes more.
pub(super) fn erf(source: &mut Source) -> Vec<u8> {
    let mut record = source.bytes(8);
    record.extend([source.pick(&[5, 2, 12]), 4, 0, 60, 0, 0, 0, 40]);
    record.extend(source.bytes(4));
    record.extend(mtp2(source));
    record
}

/// Juniper's magic, flags (the first bit: received; the second: no link layer), `before` bytes less these four, and the
/// packet. The headers between have many forms, which filters do not tell apart.
pub(super) fn juniper(source: &mut Source, payload: &Payload, before: usize) -> Vec<u8> {
    let mut frame = vec![0x4d, 0x47, 0x43, source.pick(&[0, 1, 2, 3, 0x80])];
    frame.extend(source.bytes(before - 4));
    frame.extend(payload.bytes());
    frame
}

/// A packet that Juniper's magic does not begin, or whose payload is elsewhere.
pub(super) fn juniper_other(source: &mut Source) -> Vec<u8> {
    let magic = source.pick(&[0x4d47_4301_u32, 0x4d47_4480]);
    [magic.to_be_bytes().to_vec(), source.bytes(40)].concat()
}

/// PF's log: the header's length, the family, what was done and why, names, numbers of rules, the direction.
pub(super) fn pflog(source: &mut Source, payload: &Payload) -> Vec<u8> {
    let family = match payload {
        Payload::Typed(network::IPV6, _) => source.pick(&[10, 24, 28, 30]),
        _ => 2,
    };
    let mut header =
        vec![source.pick(&[61, 61, 64, 60]), family, source.below(8) as u8, source.below(7) as u8];
    header.extend(name(source));
    header.extend(name(source));
    header.extend(source.pick(&[0_u32, 1, 7]).to_be_bytes());
    header.extend(source.pick(&[0_u32, 1, 7, u32::MAX]).to_be_bytes());
    header.extend(source.bytes(16));
    header.extend([source.below(3) as u8, 0, 0, 0]);
    header.truncate(usize::from(header[0]).next_multiple_of(4));
    header.extend(payload.bytes());
    header
}

/// A name of 16 bytes, filled with zeros.
fn name(source: &mut Source) -> [u8; 16] {
    let mut bytes = [0; 16];
    let name = source.pick(&pools::INTERFACES).as_bytes();
    bytes[..name.len()].copy_from_slice(name);
    bytes
}

/// Solaris's ipnet: a version, the family, a kind of hook, lengths, zones.
pub(super) fn ipnet(source: &mut Source, payload: &Payload) -> Vec<u8> {
    let family = if matches!(payload, Payload::Typed(network::IPV6, _)) { 26 } else { 2 };
    let mut header = vec![1, family];
    header.extend(source.pick(&[1_u16, 2, 3]).to_be_bytes());
    header.extend(source.bytes(20));
    header.extend(payload.bytes());
    header
}
