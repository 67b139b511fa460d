//! Packets as they are on the wire, for programs that take them apart.

/// Bytes of an Ethernet header with this protocol.
fn ethernet(protocol: u16) -> Vec<u8> {
    [&[2, 0, 0, 0, 0, 1, 4, 0, 0, 0, 0, 2][..], &protocol.to_be_bytes()].concat()
}

fn ipv4(protocol: u8, words: u8) -> Vec<u8> {
    let mut header = vec![0; usize::from(words) * 4];
    let start = [0x40 | words, 0, 0, 60, 1, 2, 0x40, 0, 64, protocol, 0xab, 0xcd, 10, 0, 0, 1, 10, 0, 0, 2];
    let shared = header.len().min(start.len());
    header[..shared].copy_from_slice(&start[..shared]);
    header
}

fn ipv6(next: u8) -> Vec<u8> {
    let mut header = vec![0x60, 0, 0, 0, 0, 20, next, 64];
    header.extend((0..32).map(|byte| byte * 3));
    header
}

const TCP: [u8; 20] = [0x30, 0x39, 0, 80, 0, 0, 0, 1, 0, 0, 0, 2, 0x50, 0x12, 1, 0, 7, 7, 0, 0];
const UDP: [u8; 8] = [0x30, 0x39, 0, 53, 0, 12, 0, 0];
const TELNET: [u8; 8] = [0x30, 0x39, 0, 23, 0, 8, 0, 0];

/// Whole packets of each kind.
pub(crate) fn whole() -> Vec<Vec<u8>> {
    let payload: Vec<u8> = (1..=80).collect();
    let packet = |parts: &[&[u8]]| parts.concat();
    vec![
        packet(&[&ethernet(0x0800), &ipv4(6, 5), &TCP, &payload]),
        packet(&[&ethernet(0x0800), &ipv4(17, 5), &UDP, &payload]),
        packet(&[&ethernet(0x0800), &ipv4(17, 15), &UDP, &payload]),
        packet(&[&ethernet(0x0800), &ipv4(1, 5), &payload]),
        packet(&[&ethernet(0x0800), &ipv4(6, 4), &TCP]),
        packet(&[&ethernet(0x86dd), &ipv6(17), &TELNET, &payload]),
        packet(&[&ethernet(0x86dd), &ipv6(17), &UDP, &payload]),
        packet(&[&ethernet(0x86dd), &ipv6(6), &TCP]),
        packet(&[&ethernet(0x8100), &[0, 5, 0x08, 0x00], &ipv4(6, 5), &TCP, &payload]),
        packet(&[&ethernet(0x88a8), &[0, 5, 0x81, 0x00, 0, 6, 0x86, 0xdd], &ipv6(17), &UDP]),
        packet(&[&ethernet(0x88a8), &[0, 5, 0x88, 0xa8, 0, 6, 0x81, 0x00], &payload]),
        packet(&[&ethernet(0x0806), &payload]),
        // A length instead of a protocol, with and without what follows it on old networks.
        packet(&[&ethernet(60), &[0xff, 0xff], &payload]),
        packet(&[&ethernet(60), &payload]),
        // To nobody, to all, to a group.
        packet(&[&[0; 12], &[8, 0], &ipv4(17, 5), &UDP]),
        packet(&[&[0xff; 12], &[8, 0], &ipv4(17, 5), &UDP]),
        packet(&[&[0x33; 12], &[0x86, 0xdd], &ipv6(17), &UDP]),
    ]
}
