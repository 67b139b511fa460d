//! Packets of several rings in the order of their ticks.

use weir_packet_ring::{Direction, Drained, Flags, Meta, Reader, RingSpec};

use crate::clock::Clock;
use crate::limits::HELD_BYTES_MAX;

/// One packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Packet<'a> {
    /// Index of its port among those that are captured.
    pub port: usize,
    /// The queue's number.
    pub queue: u16,
    /// Received, or to be sent.
    pub direction: Direction,
    /// CLOCK_REALTIME, ns since 1970.
    pub ns: u64,
    /// Bytes on the wire.
    pub wire_bytes: u32,
    /// What driver or application have said of it.
    pub flags: Flags,
    /// Of receive-side scaling.
    pub hash: Option<u32>,
    /// The same number means the same packet, received and sent.
    pub id: Option<u64>,
    /// Packets of its queue and direction that found no room since the one before.
    pub dropped: u32,
    /// Its bytes, as far as they were kept.
    pub bytes: &'a [u8],
}

/// One ring, and what was taken out of it.
#[derive(Debug)]
pub(crate) struct Lane {
    pub(crate) spec: RingSpec,
    pub(crate) port: usize,
    reader: Reader,
    held: Drained,
    /// The last packet's time.
    ns: u64,
    was_reported: bool,
}

impl Lane {
    pub(crate) fn new(spec: RingSpec, port: usize, reader: Reader) -> Lane {
        Lane { spec, port, reader, held: Drained::default(), ns: 0, was_reported: false }
    }

    /// Takes out what there is.
    pub(crate) fn drain(&mut self) {
        while self.held.left() < HELD_BYTES_MAX && self.reader.drain(&mut self.held) {}
    }

    /// It was written over, which is to be reported once.
    pub(crate) fn is_newly_corrupt(&mut self) -> bool {
        let is = self.held.is_corrupt() && !self.was_reported;
        self.was_reported |= is;
        is
    }
}

/// Gives packets with ticks of at most `until`, the oldest first, until there are none or `emit` says false. How many.
pub(crate) fn merge(
    lanes: &mut [Lane],
    clock: &Clock,
    until: u64,
    emit: &mut dyn FnMut(&Packet<'_>) -> bool,
) -> u64 {
    let mut given = 0;
    loop {
        // The lane with the oldest packet, and up to when no other has one.
        let mut oldest: Option<(usize, u64)> = None;
        let mut others = until;
        for (index, lane) in lanes.iter_mut().enumerate() {
            let Some(ticks) = lane.held.ticks().filter(|ticks| *ticks <= until) else { continue };
            match oldest {
                Some((_, least)) if ticks >= least => others = others.min(ticks),
                _ => {
                    others = oldest.map_or(others, |(_, least)| others.min(least));
                    oldest = Some((index, ticks));
                }
            }
        }
        let Some((index, _)) = oldest else { return given };
        let lane = &mut lanes[index];
        while lane.held.ticks().is_some_and(|ticks| ticks <= others) {
            let Some(packet) = lane.held.next() else { break };
            let Meta { ticks, wire_bytes, flags, hash, id } = packet.meta;
            lane.ns = lane.ns.max(clock.ns(ticks));
            let packet = Packet {
                port: lane.port,
                queue: lane.spec.queue,
                direction: lane.spec.direction,
                ns: lane.ns,
                wire_bytes,
                flags,
                hash: flags.contains(Flags::HASH).then_some(hash),
                id: flags.contains(Flags::ID).then_some(id),
                dropped: packet.dropped,
                bytes: packet.bytes,
            };
            given += 1;
            if !emit(&packet) {
                return given;
            }
        }
    }
}
