//! Synthetic Ethernet traces. All depend on their seeds alone.

use testkit::packets;
use testkit::random::Source;

/// Packets in the order in which they come.
#[derive(Debug)]
pub struct Trace {
    pub name: &'static str,
    pub packets: Vec<Vec<u8>>,
}

const PACKETS: usize = 1024;
/// The kernel runs classifiers on packets with an Ethernet header and more.
const BYTES_MIN: usize = 60;

const TCP: u8 = 6;
const UDP: u8 = 17;
const ICMP: u8 = 1;

/// The traces that filters are timed on.
pub fn traces() -> Vec<Trace> {
    vec![
        Trace { name: "web", packets: web(&mut Source::new(1)) },
        Trace { name: "datagrams", packets: datagrams(&mut Source::new(2)) },
        Trace { name: "all kinds", packets: all_kinds(&mut Source::new(3)) },
    ]
}

/// Connections of a few clients to servers of the web: requests, responses in full segments, acknowledgements.
fn web(source: &mut Source) -> Vec<Vec<u8>> {
    let mut packets = Vec::new();
    while packets.len() < PACKETS {
        let client = [10, 1, 0, source.pick(&[5, 6, 7, 8])];
        let server = source.pick(&[[93, 184, 216, 34], [192, 168, 3, 4], [151, 101, 1, 69]]);
        let ports = [32768 + source.below(20_000) as u16, source.pick(&[443, 443, 443, 80, 8080])];
        let [out, back] = [(client, server, ports), (server, client, [ports[1], ports[0]])];
        let mut send = |(from, to, ports): ([u8; 4], [u8; 4], [u16; 2]), flags, data| {
            packets.push(frame(0x0800, &ipv4(TCP, from, to, &segment(ports, flags, data))));
        };
        send(out, SYN, 0);
        send(back, SYN | ACK, 0);
        send(out, ACK | PUSH, 200 + source.below(600));
        for _ in 0..source.below(12) {
            send(back, ACK, 1448);
            if source.chance(50) {
                send(out, ACK, 0);
            }
        }
        send(back, ACK | FIN, source.below(1400));
        send(out, ACK | FIN, 0);
    }
    packets.truncate(PACKETS);
    packets
}

/// Small packets: names, times, measurements, ARP, pings, now and then IPv6.
fn datagrams(source: &mut Source) -> Vec<Vec<u8>> {
    let one = |source: &mut Source| {
        let [from, to] = [[10, 1, 0, source.byte()], [10, 2, source.byte(), source.pick(&[1, 53])]];
        let ports = [1024 + source.below(60_000) as u16, source.pick(&[53, 53, 123, 161, 514, 6343, 8125])];
        let length = 20 + source.below(300);
        let data = source.bytes(length);
        match source.below(20) {
            0 | 1 => frame(0x0806, &[[0, 1, 8, 0, 6, 4, 0, 1].to_vec(), source.bytes(20)].concat()),
            2 => frame(0x0800, &ipv4(ICMP, from, to, &data)),
            3 | 4 => {
                let addresses = source.bytes(32);
                let datagram = datagram(ports, &data);
                let header = [0x60, 0, 0, 0, 0, datagram.len() as u8, UDP, 64];
                frame(0x86dd, &[header.to_vec(), addresses, datagram].concat())
            }
            _ => frame(0x0800, &ipv4(UDP, from, to, &datagram(ports, &data))),
        }
    };
    (0..PACKETS).map(|_| one(source)).collect()
}

/// What tests generate: every protocol, VLANs and MPLS, fragments, IPv6 with extension headers.
fn all_kinds(source: &mut Source) -> Vec<Vec<u8>> {
    let link = packets::link(super::ETHERNET);
    let packets = (0..PACKETS).map(|_| link.packet(source).bytes);
    packets.map(padded).collect()
}

const FIN: u8 = 1;
const SYN: u8 = 2;
const PUSH: u8 = 8;
const ACK: u8 = 16;

fn segment(ports: [u16; 2], flags: u8, data: usize) -> Vec<u8> {
    let mut bytes = ports.map(u16::to_be_bytes).concat();
    bytes.extend([0, 0, 0, 1, 0, 0, 0, 1, 0x80, flags, 0x10, 0, 0, 0, 0, 0]);
    // Two no-operations and a time stamp.
    bytes.extend([1, 1, 8, 10, 0, 0, 0, 1, 0, 0, 0, 2]);
    bytes.resize(bytes.len() + data, b'x');
    bytes
}

fn datagram(ports: [u16; 2], data: &[u8]) -> Vec<u8> {
    let mut bytes = ports.map(u16::to_be_bytes).concat();
    bytes.extend((8 + data.len() as u16).to_be_bytes());
    bytes.extend([0, 0]);
    bytes.extend(data);
    bytes
}

fn ipv4(protocol: u8, from: [u8; 4], to: [u8; 4], body: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0x45, 0];
    bytes.extend((20 + body.len() as u16).to_be_bytes());
    bytes.extend([0, 1, 0x40, 0, 64, protocol, 0, 0]);
    bytes.extend([from, to].concat());
    bytes.extend(body);
    bytes
}

fn frame(kind: u16, body: &[u8]) -> Vec<u8> {
    let mut bytes = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2];
    bytes.extend(kind.to_be_bytes());
    bytes.extend(body);
    padded(bytes)
}

/// Ethernet's least length.
fn padded(mut bytes: Vec<u8>) -> Vec<u8> {
    bytes.resize(bytes.len().max(BYTES_MIN), 0);
    bytes
}
