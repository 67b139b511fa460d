//! A burst of packets: each is given to the filter where it lies, and what the filter keeps of it is copied into the ring.
//!
//! A packet in one segment without tags beside it is not touched before the filter has kept it. The others are put together first
//! (`whole`). All packets of a burst have one time: they had come when it was taken.

use std::sync::Arc;

use weir_packet_ring::{Direction, Flags, Meta, RingSpec, Writer};
use weir_rt::local::{LocalProgram, PacketFields};

use crate::ids::Ids;
use crate::isa::native;
use crate::limits::{PREFETCHED, WHOLE_BYTES_MAX};
use crate::mbuf::{RteMbuf, flag};
use crate::whole::{Tags, Whole};

/// What a queue's bursts go through while it is captured.
#[derive(Debug)]
pub(crate) struct Active {
    pub(crate) writer: Writer,
    keeps: Keeps,
    direction: Direction,
    ids: Option<Ids>,
    ring: usize,
    snaplen: usize,
    /// What a filter may ask for that is the same of all packets of the queue.
    fields: PacketFields,
    whole: Whole,
}

/// `PACKET_OUTGOING`, as contexts of classifiers have it; what is received has 0.
const OUTGOING: u64 = 4;

/// Which packets are kept.
#[derive(Clone, Debug)]
pub(crate) enum Keeps {
    All,
    /// How many bytes, says the program; none: the packet is not kept.
    Filtered(Arc<LocalProgram>),
    /// The same of a program that asks for the queue or the direction.
    Asking(Arc<LocalProgram>),
}

impl Active {
    pub(crate) fn new(
        writer: Writer,
        keeps: Keeps,
        spec: RingSpec,
        ids: Option<Ids>,
        ring: usize,
        snaplen: u32,
    ) -> Active {
        let snaplen = (snaplen as usize).min(WHOLE_BYTES_MAX);
        let mut fields = PacketFields::default();
        fields.set("pkt_type", if spec.direction == Direction::Tx { OUTGOING } else { 0 });
        // One more than the number, as the kernel has it.
        fields.set("queue_mapping", u64::from(spec.queue) + 1);
        Active { writer, keeps, direction: spec.direction, ids, ring, snaplen, fields, whole: Whole::new() }
    }

    /// # Safety
    /// The pointers are to whole packets, which are this thread's alone until this returns.
    pub(crate) unsafe fn burst(&mut self, packets: &[*mut RteMbuf]) {
        let Active { writer, keeps, direction, ids, ring, snaplen, fields, whole } = self;
        let mut queue =
            Queue { writer, direction: *direction, ids: *ids, ring: *ring, snaplen: *snaplen, whole };
        // SAFETY: the caller's promise.
        let filtered = unsafe {
            match keeps {
                Keeps::All => queue.look(packets, |_, _| u32::MAX),
                // With fields that the compiler knows to be 0, half a nanosecond a packet is saved.
                Keeps::Filtered(program) => {
                    queue.look(packets, |bytes, wire| program.classify(bytes, wire, PacketFields::NONE))
                }
                Keeps::Asking(program) => {
                    queue.look(packets, |bytes, wire| program.classify(bytes, wire, fields))
                }
            }
        };
        self.writer.publish(packets.len() as u64, filtered);
    }
}

struct Queue<'a> {
    writer: &'a mut Writer,
    direction: Direction,
    ids: Option<Ids>,
    ring: usize,
    snaplen: usize,
    whole: &'a mut Whole,
}

impl Queue<'_> {
    /// How many packets were not kept.
    ///
    /// # Safety
    /// As for [`Active::burst`].
    #[inline]
    unsafe fn look(&mut self, packets: &[*mut RteMbuf], keep: impl Fn(&[u8], u32) -> u32) -> u64 {
        let mut filtered = 0;
        let ticks = native::ticks();
        let (one, two) = tag_flags(self.direction);
        let beside = one | two;
        for packet in packets.iter().take(PREFETCHED) {
            // SAFETY: the caller's promise.
            native::prefetch(unsafe { (**packet).data() });
        }
        for (index, &pointer) in packets.iter().enumerate() {
            if let Some(later) = packets.get(index + PREFETCHED) {
                // SAFETY: the caller's promise.
                native::prefetch(unsafe { (**later).data() });
            }
            // SAFETY: the caller's promise; nothing is written to it as long as this is borrowed.
            let packet = unsafe { &*pointer };
            if packet.nb_segs != 1 || packet.ol_flags & beside != 0 {
                // SAFETY: the caller's promise.
                filtered += unsafe { self.look_at_parts(pointer, ticks, &keep) };
                continue;
            }
            // SAFETY: the only segment has so many bytes from there on, by the caller's promise.
            let bytes = unsafe { std::slice::from_raw_parts(packet.data(), usize::from(packet.data_len)) };
            let wire_bytes = packet.pkt_len;
            match keep(bytes, wire_bytes) {
                0 => filtered += 1,
                kept => {
                    let meta = Meta { ticks, wire_bytes, ..Meta::default() };
                    let captured = self.captured(bytes, kept);
                    // SAFETY: the caller's promise.
                    unsafe { self.write(pointer, meta, captured) }
                }
            }
        }
        filtered
    }

    /// The same for a packet that has to be put together. 1 if it was not kept.
    ///
    /// # Safety
    /// As for [`Active::burst`].
    #[cold]
    unsafe fn look_at_parts(
        &mut self,
        pointer: *mut RteMbuf,
        ticks: u64,
        keep: &impl Fn(&[u8], u32) -> u32,
    ) -> u64 {
        // SAFETY: the caller's promise.
        let packet = unsafe { &*pointer };
        let tags = tags(packet.ol_flags, self.direction);
        let mut whole = std::mem::take(self.whole);
        // SAFETY: the caller's promise.
        let assembled = unsafe { whole.assemble(packet, tags) };
        let kept = keep(assembled.bytes, assembled.wire_bytes);
        if kept > 0 {
            let flags = Flags::TAGGED.when(assembled.is_tagged);
            let meta = Meta { ticks, wire_bytes: assembled.wire_bytes, flags, ..Meta::default() };
            let captured = self.captured(assembled.bytes, kept);
            // SAFETY: the caller's promise.
            unsafe { self.write(pointer, meta, captured) }
        }
        *self.whole = whole;
        u64::from(kept == 0)
    }

    fn captured<'b>(&self, bytes: &'b [u8], kept: u32) -> &'b [u8] {
        &bytes[..bytes.len().min(kept as usize).min(self.snaplen)]
    }

    /// # Safety
    /// As for [`Active::burst`].
    #[inline]
    unsafe fn write(&mut self, pointer: *mut RteMbuf, mut meta: Meta, captured: &[u8]) {
        // SAFETY: the caller's promise; the borrow ends with the line.
        let (of, rss) = unsafe { ((*pointer).ol_flags, (*pointer).rss) };
        meta.flags = meta.flags.with(flags(of, self.direction));
        if self.direction == Direction::Rx && of & flag::RX_RSS_HASH != 0 {
            meta.hash = rss;
        }
        if let Some(ids) = self.ids {
            // SAFETY: the caller's promise.
            if let Some(id) = unsafe { self.id(ids, pointer) } {
                (meta.id, meta.flags) = (id, meta.flags.with(Flags::ID));
            }
        }
        self.writer.write(&meta, captured);
    }

    /// # Safety
    /// As for [`Active::burst`].
    unsafe fn id(&self, ids: Ids, pointer: *mut RteMbuf) -> Option<u64> {
        match self.direction {
            // SAFETY: the caller's promise.
            Direction::Tx => unsafe { ids.get(pointer) },
            Direction::Rx => {
                let counters = self.writer.counters();
                let number = ids.number(self.ring, counters.written.wrapping_add(counters.dropped));
                // SAFETY: the caller's promise.
                unsafe { ids.put(pointer, number) };
                Some(number)
            }
        }
    }
}

/// What is beside a packet with these flags.
fn tags(of: u64, direction: Direction) -> Tags {
    let (one, two) = tag_flags(direction);
    match of {
        _ if of & two != 0 => Tags::Two,
        _ if of & one != 0 => Tags::One,
        _ => Tags::None,
    }
}

/// The flags of packets with one tag beside them, and with two.
#[inline]
fn tag_flags(direction: Direction) -> (u64, u64) {
    match direction {
        Direction::Rx => (flag::RX_VLAN_STRIPPED, flag::RX_QINQ_STRIPPED),
        Direction::Tx => (flag::TX_VLAN, flag::TX_QINQ),
    }
}

#[inline]
fn flags(of: u64, direction: Direction) -> Flags {
    match direction {
        Direction::Rx => {
            let is_good = of & (flag::RX_L4_CKSUM_GOOD | flag::RX_L4_CKSUM_BAD) == flag::RX_L4_CKSUM_GOOD;
            Flags::CHECKSUM_GOOD
                .when(is_good)
                .with(Flags::SEGMENTED.when(of & flag::RX_LRO != 0))
                .with(Flags::HASH.when(of & flag::RX_RSS_HASH != 0))
        }
        Direction::Tx => {
            let is_cut = of & (flag::TX_TCP_SEG | flag::TX_UDP_SEG) != 0;
            // An application that has the hardware cut a packet has it compute the checksums too.
            Flags::CHECKSUM_NOT_READY
                .when(is_cut || of & flag::TX_L4_MASK != 0)
                .with(Flags::SEGMENTED.when(is_cut))
        }
    }
}
