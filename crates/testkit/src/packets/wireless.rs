//! IEEE 802.11 frames, and what captures put before them: radiotap, the AVS and Prism headers, and PPI.

use super::{Payload, ethernet, pools};
use crate::random::Source;

const DATA: u8 = 2;
const TO_DS: u8 = 1;
const FROM_DS: u8 = 2;

/// A data frame that has `payload` after 802.2 LLC: to or from a distribution system or neither, with QoS or not.
pub(super) fn data(source: &mut Source, payload: &Payload) -> Vec<u8> {
    data_frame(source, payload, false)
}

/// `is_padded`: the header is filled up to 32 bits, as radiotap's flag says.
fn data_frame(source: &mut Source, payload: &Payload, is_padded: bool) -> Vec<u8> {
    let subtype = source.pick(&[0, 0, 0, 1, 2, 3, 8, 8, 9, 11]);
    let direction = source.pick(&[0, TO_DS, FROM_DS]);
    let mut frame = header(source, DATA, subtype, direction);
    if is_padded {
        frame.resize(frame.len().next_multiple_of(4), 0);
    }
    frame.extend(ethernet::with_llc(payload));
    frame
}

/// A frame of any kind that has no network packet, or one between access points (four addresses).
pub(super) fn other(source: &mut Source) -> Vec<u8> {
    match source.below(4) {
        0 => {
            let subtype = source.pick(&[0, 1, 2, 3, 4, 5, 8, 9, 10, 11, 12]);
            let mut frame = header(source, 0, subtype, 0);
            frame.extend(source.bytes(30));
            frame
        }
        1 => control(source),
        2 => {
            let subtype = source.pick(&[4, 5, 6, 7, 12, 14, 15]);
            let direction = source.pick(&[0, TO_DS, FROM_DS, TO_DS | FROM_DS]);
            header(source, DATA, subtype, direction)
        }
        _ => {
            let subtype = source.pick(&[0, 8]);
            let mut frame = header(source, DATA, subtype, TO_DS | FROM_DS);
            let payload = super::network::ipv4(source);
            frame.extend(ethernet::with_llc(&payload));
            frame
        }
    }
}

/// PS-Poll, RTS, CTS, ACK, CF-End and CF-End+ACK: one address or two.
fn control(source: &mut Source) -> Vec<u8> {
    let subtype = source.pick(&[10, 11, 12, 13, 14, 15]);
    let mut frame = vec![subtype << 4 | 1 << 2, 0, 0, 0];
    frame.extend(source.pick(&pools::MACS));
    if !matches!(subtype, 12 | 13) {
        frame.extend(source.pick(&pools::MACS));
    }
    frame.extend(source.bytes(4));
    frame
}

fn header(source: &mut Source, kind: u8, subtype: u8, direction: u8) -> Vec<u8> {
    let flags = direction | source.pick(&[0, 0, 0x08, 0x40, 0xf0]);
    let mut frame = vec![subtype << 4 | kind << 2, flags, 0, 0];
    for _ in 0..3 {
        frame.extend(source.pick(&pools::MACS));
    }
    frame.extend(source.bytes(2));
    if direction == TO_DS | FROM_DS {
        frame.extend(source.pick(&pools::MACS));
    }
    if kind == DATA && subtype & 8 != 0 {
        frame.extend([source.pick(&[0, 5]), 0]);
    }
    frame
}

/// radiotap: fields by bits of a map that can have more than one word, the time and the flags first.
pub(super) fn radiotap(source: &mut Source, payload: &Payload) -> Vec<u8> {
    let is_padded = source.chance(30);
    let (mut header, is_told) = radiotap_header(source, is_padded);
    header.extend(data_frame(source, payload, is_padded && is_told));
    header
}

pub(super) fn radiotap_other(source: &mut Source) -> Vec<u8> {
    let is_padded = source.chance(30);
    let (mut header, _) = radiotap_header(source, is_padded);
    header.extend(other(source));
    header
}

/// The header, and whether a field of flags in it says if the frame is padded.
fn radiotap_header(source: &mut Source, is_padded: bool) -> (Vec<u8>, bool) {
    const TIME: u32 = 1;
    const FLAGS: u32 = 2;
    const MORE: u32 = 1 << 31;
    let map = source.pick(&[0, TIME, FLAGS, FLAGS, TIME | FLAGS, TIME | FLAGS | 4, FLAGS | MORE, FLAGS | 8]);
    let mut fields = Vec::new();
    if map & MORE != 0 {
        fields.extend([0; 4]);
    }
    if map & TIME != 0 {
        // From the header's beginning it lies at a multiple of eight.
        fields.resize(fields.len().next_multiple_of(8), 0);
        fields.extend(source.bytes(8));
    }
    if map & FLAGS != 0 {
        fields.push(if is_padded { 0x20 } else { 0 } | source.pick(&[0, 0x10]));
    }
    let rest = source.below(9);
    fields.extend(source.bytes(rest));
    let mut header = vec![0, 0];
    header.extend((8 + fields.len() as u16).to_le_bytes());
    header.extend(map.to_le_bytes());
    header.extend(fields);
    (header, map & FLAGS != 0)
}

/// The AVS header: its version and its length first, in network order.
pub(super) fn avs(source: &mut Source, payload: &Payload) -> Vec<u8> {
    let mut header = avs_header(source);
    header.extend(data(source, payload));
    header
}

pub(super) fn avs_other(source: &mut Source) -> Vec<u8> {
    let mut header = avs_header(source);
    header.extend(other(source));
    header
}

fn avs_header(source: &mut Source) -> Vec<u8> {
    let length = source.pick(&[64_u32, 64, 68, 80]);
    let mut header = 0x8021_1001_u32.to_be_bytes().to_vec();
    header.extend(length.to_be_bytes());
    header.extend(source.bytes(length as usize - 8));
    header
}

/// 144 bytes of Prism, or AVS, which is recognised by its version.
pub(super) fn prism(source: &mut Source, payload: &Payload) -> Vec<u8> {
    let mut header = prism_header(source);
    header.extend(data(source, payload));
    header
}

pub(super) fn prism_other(source: &mut Source) -> Vec<u8> {
    let mut header = prism_header(source);
    header.extend(other(source));
    header
}

fn prism_header(source: &mut Source) -> Vec<u8> {
    if source.chance(30) {
        return avs_header(source);
    }
    [vec![0x44, 0, 0, 0, 0x90, 0, 0, 0], source.bytes(136)].concat()
}

/// PPI: a length and the number of the link type inside, in little-endian order.
pub(super) fn ppi(source: &mut Source, payload: &Payload) -> Vec<u8> {
    let mut header = ppi_header(source, 105);
    header.extend(data(source, payload));
    header
}

/// With a frame of 802.11 that carries nothing, or of Ethernet.
pub(super) fn ppi_other(source: &mut Source) -> Vec<u8> {
    if source.chance(60) {
        let mut header = ppi_header(source, 105);
        header.extend(other(source));
        return header;
    }
    let mut header = ppi_header(source, 1);
    let payload = super::network::ipv4(source);
    header.extend(ethernet::frame(source, &payload));
    header
}

fn ppi_header(source: &mut Source, dlt: u32) -> Vec<u8> {
    let fields = source.pick(&[0_u16, 24, 36]);
    let mut header = vec![0, 0];
    header.extend((8 + fields).to_le_bytes());
    header.extend(dlt.to_le_bytes());
    header.extend(source.bytes(fields.into()));
    header
}
