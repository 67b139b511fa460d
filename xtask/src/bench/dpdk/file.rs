//! The packets that testpmd reads from a file: 500 of 512 bytes, UDP with good checksums, one in 100 of them to port 53.

use std::net::Ipv4Addr;
use std::path::{self, PathBuf};

use anyhow::{Context, Result};
use testkit::pcap_file::{self, Packet};

use crate::workspace;

const PACKETS: u16 = 500;
const PACKET_BYTES: usize = 512;
/// To port 53 is one in so many.
const TO_53: u16 = 100;
const ETHERNET: i32 = 1;
const UDP: u8 = 17;

pub(super) fn write() -> Result<PathBuf> {
    let file = path::absolute(workspace::target_folder("bench")?)?.join("packets.pcap");
    let packets: Vec<Packet> = (0..PACKETS).map(|number| Packet::whole(packet(number))).collect();
    pcap_file::write(&file, ETHERNET, &packets).with_context(|| file.display().to_string())?;
    Ok(file)
}

fn packet(number: u16) -> Vec<u8> {
    let (from, to) = (Ipv4Addr::new(10, 0, (number >> 8) as u8, number as u8), Ipv4Addr::new(10, 1, 0, 1));
    let port: u16 = if number.is_multiple_of(TO_53) { 53 } else { 443 };
    let mut datagram = [1024 + number, port].map(u16::to_be_bytes).concat();
    let length = (PACKET_BYTES - 14 - 20) as u16;
    datagram.extend(length.to_be_bytes());
    datagram.extend([0, 0]);
    // What is summed has to be something.
    datagram.extend((0..usize::from(length) - 8).map(|at| (at as u8).wrapping_mul(31) ^ number as u8));
    let pseudo = [&from.octets()[..], &to.octets(), &[0, UDP], &length.to_be_bytes()].concat();
    let sum = checksum(&[&pseudo[..], &datagram].concat());
    datagram[6..8].copy_from_slice(&sum.to_be_bytes());
    let mut header = vec![0x45, 0];
    header.extend((20 + length).to_be_bytes());
    header.extend([0, 1, 0, 0, 64, UDP, 0, 0]);
    header.extend([from.octets(), to.octets()].concat());
    let sum = checksum(&header);
    header[10..12].copy_from_slice(&sum.to_be_bytes());
    [&[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0][..], &header, &datagram].concat()
}

/// RFC 1071, of an even number of bytes.
fn checksum(bytes: &[u8]) -> u16 {
    let words = bytes.chunks_exact(2).map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]])));
    let mut sum: u32 = words.sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}
