//! A packet as it is given to a writer.

use crate::flags::PacketFlags;
use crate::interface::InterfaceId;
use crate::packet::{Hash, Verdict};
use crate::reader::fields::PacketFields;

/// A packet to be written.
#[derive(Clone, Copy, Debug)]
pub struct NewPacket<'a> {
    /// Where it was captured.
    pub interface: InterfaceId,
    /// Nanoseconds since the epoch.
    pub time: u64,
    /// Its length on the wire; at least as many as there are bytes.
    pub wire_len: u32,
    /// What was captured of it.
    pub bytes: &'a [u8],
    /// What is said of it beside.
    pub options: PacketOptions<'a>,
}

/// What is written of a packet beside its bytes; all of it may be left out.
#[derive(Clone, Copy, Debug, Default)]
pub struct PacketOptions<'a> {
    /// Direction and more (epb_flags).
    pub flags: Option<PacketFlags>,
    /// A hash (epb_hash).
    pub hash: Option<Hash<'a>>,
    /// Packets that were lost between this one and the one before it at the same interface (epb_dropcount).
    pub drop_count: Option<u64>,
    /// The same for one packet at several interfaces (epb_packetid).
    pub packet_id: Option<u64>,
    /// The queue of the interface (epb_queue).
    pub queue: Option<u32>,
    /// What was decided about it (epb_verdict).
    pub verdict: Option<Verdict<'a>>,
    /// What a human says of it.
    pub comments: &'a [&'a str],
    /// Of a packet that was read: hashes, verdicts, who sent it and comments are written as they are there, after those above.
    pub more: Option<PacketFields<'a>>,
}
