//! VLAN tags that the kernel has taken out of packets: put back where they were, before the EtherType.

/// Bytes of a tag.
pub(super) const TAG: usize = 4;

/// Bytes of the two addresses before it.
const ADDRESSES: usize = 12;

/// Moves the addresses of the Ethernet packet at `from` down by [`TAG`], and puts a tag after them; where the packet begins then. `bytes` has room
/// before the packet. A packet without whole addresses stays as it is.
pub(super) fn put_back(bytes: &mut [u8], from: usize, protocol: u16, tag: u16) -> usize {
    if bytes.len() < from + ADDRESSES || from < TAG {
        return from;
    }
    let begin = from - TAG;
    bytes.copy_within(from..from + ADDRESSES, begin);
    bytes[begin + ADDRESSES..begin + ADDRESSES + 2].copy_from_slice(&protocol.to_be_bytes());
    bytes[begin + ADDRESSES + 2..begin + ADDRESSES + 4].copy_from_slice(&tag.to_be_bytes());
    begin
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tag_stands_between_the_addresses_and_the_type() {
        let mut bytes = *b"----aaaaaabbbbbbTTpayload";
        assert_eq!(put_back(&mut bytes, 4, 0x8100, 0x6005), 0);
        assert_eq!(&bytes, b"aaaaaabbbbbb\x81\x00\x60\x05TTpayload");
    }

    #[test]
    fn a_packet_without_whole_addresses_stays_as_it_is() {
        let mut bytes = *b"----aaaaaabbbbb";
        assert_eq!(put_back(&mut bytes, 4, 0x8100, 5), 4);
        assert_eq!(&bytes, b"----aaaaaabbbbb");
    }
}
