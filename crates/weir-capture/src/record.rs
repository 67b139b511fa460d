//! [`Record`]: a packet as a source yields it.

use weir_pcapng::{Direction, Hash, PacketFields, PacketFlags};

/// A packet, borrowed from its source.
#[derive(Clone, Copy, Debug)]
pub struct Record<'a> {
    /// The number of the interface: in the order in which the source described them, from 0.
    pub interface: usize,
    /// Nanoseconds since the epoch.
    pub time: u64,
    /// Its length on the wire; at least as many as there are bytes.
    pub wire_len: u32,
    /// What was captured of it.
    pub bytes: &'a [u8],
    /// Direction and more.
    pub flags: Option<PacketFlags>,
    /// A hash of it.
    pub hash: Option<Hash<'a>>,
    /// The queue of the interface.
    pub queue: Option<u32>,
    /// The same for one packet at several interfaces.
    pub packet_id: Option<u64>,
    /// Packets that were lost between this one and the one before it at the same interface.
    pub drops: u64,
    /// The source's filter has decided on it: it is not asked about here, whatever holds for its interface.
    pub is_accepted: bool,
    /// The system's number of the interface, for filters; 0 where it has none.
    pub ifindex: u32,
    /// What a file that was read says of it: hashes, verdicts, who sent it, comments.
    pub more: Option<PacketFields<'a>>,
}

impl<'a> Record<'a> {
    /// One of which nothing more is known.
    pub fn new(interface: usize, time: u64, wire_len: u32, bytes: &'a [u8]) -> Record<'a> {
        Record {
            interface,
            time,
            wire_len,
            bytes,
            flags: None,
            hash: None,
            queue: None,
            packet_id: None,
            drops: 0,
            is_accepted: false,
            ifindex: 0,
            more: None,
        }
    }

    /// The machine that captured it has sent it.
    pub fn is_outgoing(&self) -> bool {
        self.flags.is_some_and(|flags| flags.direction() == Direction::Outbound)
    }
}
