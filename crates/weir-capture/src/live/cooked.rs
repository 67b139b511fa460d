//! The header of LINKTYPE_LINUX_SLL2, for packets whose own headers are not captured.
//!
//! Source: the registry of link types at tcpdump.org. Numbers are in network order.

use crate::live::ring::u16_at;

/// LINKTYPE_LINUX_SLL2.
pub(super) const LINK_TYPE: u16 = 276;

/// Bytes of the header.
pub(super) const HEADER: usize = 20;

/// Bytes of a VLAN tag: it stands before the payload, and its protocol in the header.
const TAG: usize = 4;

/// Writes the header before the packet at `from`, from what the kernel says of it (`address`, a `struct sockaddr_ll`), and a VLAN tag
/// (protocol and number) if it has one; where the packet begins then. `bytes` has room before the packet.
pub(super) fn head(bytes: &mut [u8], from: usize, address: &[u8; 20], tag: Option<(u16, u16)>) -> usize {
    // The kernel has it in network order already.
    let mut protocol = [address[2], address[3]];
    let mut payload = from;
    if let Some((of, tag)) = tag {
        payload -= TAG;
        bytes[payload..payload + 2].copy_from_slice(&tag.to_be_bytes());
        bytes[payload + 2..payload + 4].copy_from_slice(&protocol);
        protocol = of.to_be_bytes();
    }
    let begin = payload - HEADER;
    let header = &mut bytes[begin..payload];
    header.fill(0);
    header[..2].copy_from_slice(&protocol);
    let ifindex = [address[4], address[5], address[6], address[7]];
    header[4..8].copy_from_slice(&i32::from_ne_bytes(ifindex).to_be_bytes());
    header[8..10].copy_from_slice(&u16_at(address, 8).to_be_bytes());
    header[10] = address[10];
    // At most as many bytes as there are.
    header[11] = address[11].min(8);
    header[12..20].copy_from_slice(&address[12..20]);
    begin
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address() -> [u8; 20] {
        let mut address = [0; 20];
        address[2..4].copy_from_slice(&[0x08, 0]);
        address[4..8].copy_from_slice(&7i32.to_ne_bytes());
        address[8..10].copy_from_slice(&1u16.to_ne_bytes());
        address[10..12].copy_from_slice(&[4, 6]);
        address[12..18].copy_from_slice(b"abcdef");
        address
    }

    #[test]
    fn the_header_says_what_the_kernel_does() {
        let mut bytes = [0xff; 30];
        assert_eq!(head(&mut bytes, 24, &address(), None), 4);
        assert_eq!(&bytes[4..24], b"\x08\0\0\0\0\0\0\x07\0\x01\x04\x06abcdef\0\0");
    }

    #[test]
    fn a_tag_stands_before_the_payload() {
        let mut bytes = [0xff; 30];
        assert_eq!(head(&mut bytes, 24, &address(), Some((0x8100, 5))), 0);
        assert_eq!(&bytes[..24], b"\x81\0\0\0\0\0\0\x07\0\x01\x04\x06abcdef\0\0\0\x05\x08\0");
    }
}
