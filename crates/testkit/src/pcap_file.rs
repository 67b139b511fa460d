//! Capture files for tests of the command line: packets in, the bytes of a file out.
//!
//! [`classic`] is the format of pcap-savefile(5), in little-endian order with microseconds; [`pcapng`] has a section header, one
//! interface description and an enhanced packet block for each packet (draft-ietf-opsawg-pcapng). Packet `n` is at
//! `n` seconds. The number of the link type is written as it is given: files have LINKTYPE_ values, which are the
//! DLT_ values but for a few (RAW is 101 in a file: [`link_type`]).

use std::io;
use std::path::Path;

/// A packet as it was captured.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Packet {
    pub bytes: Vec<u8>,
    /// At least as many as there are bytes.
    pub wire_len: u32,
}

impl Packet {
    /// A packet of which every byte was captured.
    pub fn whole(bytes: Vec<u8>) -> Packet {
        let wire_len = bytes.len() as u32;
        Packet { bytes, wire_len }
    }
}

const SNAPLEN: u32 = 262_144;

/// LINKTYPE_ values where they are not the DLT_ value that this machine's libpcap has.
const LINK_TYPES: [(i32, u16); 7] =
    [(11, 100), (12, 101), (15, 102), (16, 103), (19, 106), (18, 246), (14, 101)];

/// The number by which files name the link type `dlt`.
pub fn link_type(dlt: i32) -> u16 {
    let listed = LINK_TYPES.iter().find(|(from, _)| *from == dlt).map(|(_, number)| *number);
    listed.unwrap_or(u16::try_from(dlt).expect("a DLT_ value"))
}

/// A file in the classic format.
pub fn classic(dlt: i32, packets: &[Packet]) -> Vec<u8> {
    let mut file = Vec::new();
    words(&mut file, &[0xa1b2_c3d4, 2 | 4 << 16, 0, 0, SNAPLEN, link_type(dlt).into()]);
    for (second, packet) in packets.iter().enumerate() {
        words(&mut file, &[second as u32, 0, packet.bytes.len() as u32, packet.wire_len]);
        file.extend_from_slice(&packet.bytes);
    }
    file
}

/// A file in the format pcapng.
pub fn pcapng(dlt: i32, packets: &[Packet]) -> Vec<u8> {
    let mut file = Vec::new();
    // The byte-order magic, version 1.0, a section of unknown length.
    block(&mut file, 0x0a0d_0d0a, &[0x1a2b_3c4d, 1, u32::MAX, u32::MAX], &[]);
    block(&mut file, 1, &[link_type(dlt).into(), SNAPLEN], &[]);
    for (second, packet) in packets.iter().enumerate() {
        // Microseconds, the high word first.
        let at = second as u64 * 1_000_000;
        let head = [0, (at >> 32) as u32, at as u32, packet.bytes.len() as u32, packet.wire_len];
        block(&mut file, 6, &head, &packet.bytes);
    }
    file
}

/// Writes [`classic`] to `path`.
pub fn write(path: &Path, dlt: i32, packets: &[Packet]) -> io::Result<()> {
    std::fs::write(path, classic(dlt, packets))
}

/// Writes [`pcapng`] to `path`.
pub fn write_pcapng(path: &Path, dlt: i32, packets: &[Packet]) -> io::Result<()> {
    std::fs::write(path, pcapng(dlt, packets))
}

/// One block: its type, its length, the body filled up to 32 bits, its length again.
fn block(file: &mut Vec<u8>, kind: u32, head: &[u32], bytes: &[u8]) {
    let length = (12 + 4 * head.len() + bytes.len().next_multiple_of(4)) as u32;
    words(file, &[kind, length]);
    words(file, head);
    file.extend_from_slice(bytes);
    file.resize(file.len().next_multiple_of(4), 0);
    words(file, &[length]);
}

fn words(file: &mut Vec<u8>, words: &[u32]) {
    file.extend(words.iter().flat_map(|word| word.to_le_bytes()));
}

/// The link type and the packets of `tests/packets/NAME`.
pub fn recorded(name: &str) -> (i32, Vec<Packet>) {
    let path = crate::paths::root().join("tests/packets").join(name);
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let mut lines = text.lines().filter(|line| !line.starts_with('#'));
    let link_type = lines.next().and_then(|line| line.parse().ok()).expect("a link type");
    let packet = |line: &str| {
        let (wire_len, digits) = line.split_once(' ').expect("a length, and bytes");
        let byte = |at| u8::from_str_radix(&digits[at..at + 2], 16).expect("hexadecimal digits");
        let bytes = (0..digits.len()).step_by(2).map(byte).collect();
        Packet { bytes, wire_len: wire_len.parse().expect("a number") }
    };
    (link_type, lines.map(packet).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packets() -> Vec<Packet> {
        vec![Packet::whole(vec![1, 2, 3]), Packet { bytes: vec![4], wire_len: 60 }]
    }

    #[test]
    fn a_classic_file_has_a_header_and_records_end_to_end() {
        let file = classic(1, &packets());
        assert_eq!(file.len(), 24 + 16 + 3 + 16 + 1);
        assert_eq!(file[..8], [0xd4, 0xc3, 0xb2, 0xa1, 2, 0, 4, 0]);
        assert_eq!(file[43..59], [1, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 60, 0, 0, 0]);
        assert_eq!(classic(12, &[])[20..24], [101, 0, 0, 0], "LINKTYPE_RAW");
    }

    #[test]
    fn blocks_of_pcapng_are_whole_words_and_say_their_length_twice() {
        let file = pcapng(1, &packets());
        let mut kinds = Vec::new();
        let mut rest = &file[..];
        while !rest.is_empty() {
            let word = |at: usize| u32::from_le_bytes(rest[at..at + 4].try_into().expect("four bytes"));
            let length = word(4) as usize;
            assert_eq!(word(length - 4) as usize, length);
            kinds.push(word(0));
            rest = &rest[length..];
        }
        assert_eq!(kinds, [0x0a0d_0d0a, 1, 6, 6]);
    }
}
