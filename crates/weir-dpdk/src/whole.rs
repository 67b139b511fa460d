//! Packets that do not lie as they were on the wire: in several segments, or with VLAN tags beside them.
//!
//! Filter and copy see the packet of the wire, so it is put together in memory of the queue's own. This is the slow way.

use crate::limits::WHOLE_BYTES_MAX;
use crate::mbuf::RteMbuf;

/// Where tags are put back: after the two addresses of an Ethernet header.
const TAGS_AT: usize = 12;
const TAG_BYTES: usize = 4;
const TPID_VLAN: u16 = 0x8100;
const TPID_SERVICE: u16 = 0x88a8;

/// What is beside a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Tags {
    None,
    One,
    Two,
}

/// Room for one packet; none by default.
#[derive(Debug, Default)]
pub(crate) struct Whole(Box<[u8]>);

/// A packet as it was on the wire.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Assembled<'a> {
    pub(crate) bytes: &'a [u8],
    pub(crate) wire_bytes: u32,
    pub(crate) is_tagged: bool,
}

impl Whole {
    pub(crate) fn new() -> Whole {
        Whole(vec![0; WHOLE_BYTES_MAX].into())
    }

    /// # Safety
    /// The packet is whole, as DPDK means it: each of its segments has the bytes that it says.
    #[cold]
    pub(crate) unsafe fn assemble(&mut self, packet: &RteMbuf, tags: Tags) -> Assembled<'_> {
        const ROOM: usize = 2 * TAG_BYTES;
        let mut end = ROOM;
        let (mut segment, mut left) = (std::ptr::from_ref(packet), packet.nb_segs);
        while left > 0 && !segment.is_null() && end < self.0.len() {
            // SAFETY: the segment is the packet's, by the caller's promise.
            let (data, bytes, next) =
                unsafe { ((*segment).data(), usize::from((*segment).data_len), (*segment).next) };
            let bytes = bytes.min(self.0.len() - end);
            // SAFETY: as above; nobody else has this room.
            self.0[end..end + bytes].copy_from_slice(unsafe { std::slice::from_raw_parts(data, bytes) });
            (segment, left, end) = (next, left - 1, end + bytes);
        }
        let (outer, inner) = (packet.vlan_tci_outer, packet.vlan_tci);
        let (begin, is_tagged) = match tags {
            Tags::None => (ROOM, false),
            _ if end - ROOM < TAGS_AT => (ROOM, false),
            Tags::One => (self.put(ROOM, TPID_VLAN, inner), true),
            Tags::Two => {
                let at = self.put(ROOM, TPID_VLAN, inner);
                (self.put(at, TPID_SERVICE, outer), true)
            }
        };
        let wire_bytes = packet.pkt_len.saturating_add((ROOM - begin) as u32);
        Assembled { bytes: &self.0[begin..end], wire_bytes, is_tagged }
    }

    /// Puts a tag into the packet that begins at `at`; where it begins then.
    fn put(&mut self, at: usize, tpid: u16, tci: u16) -> usize {
        let begin = at - TAG_BYTES;
        self.0.copy_within(at..at + TAGS_AT, begin);
        let tag = begin + TAGS_AT;
        self.0[tag..tag + 2].copy_from_slice(&tpid.to_be_bytes());
        self.0[tag + 2..tag + 4].copy_from_slice(&tci.to_be_bytes());
        begin
    }
}
